//! The bytes that one command accessed, as a small number of ranges.
//!
//! An engine records each access. Several streams are open at once, because a program usually
//! accesses a few buffers in parallel. Closed ranges are merged when there are many.

use std::ops::Range;

/// Number of open streams.
const STREAMS: usize = 6;
/// Number of closed ranges at which the first merge happens.
const MERGED_AT: usize = 256;

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AccessKind {
    /// Loads.
    Read,
    /// Plain stores.
    Write,
    /// Atomic operations, which do not conflict with each other.
    Atomic,
}

impl AccessKind {
    /// All kinds.
    pub const ALL: [AccessKind; 3] = [AccessKind::Read, AccessKind::Write, AccessKind::Atomic];

    /// Returns whether two unordered accesses of the same bytes are a hazard.
    pub fn conflicts_with(self, other: AccessKind) -> bool {
        self != other && (self != AccessKind::Read || other != AccessKind::Read)
            || self == AccessKind::Write && other == AccessKind::Write
    }
}

/// A set of bytes.
#[derive(Debug)]
struct Ranges {
    /// Open streams, most recently used first; empty ones at the end.
    open: [Range<u64>; STREAMS],
    closed: Vec<Range<u64>>,
    merge_at: usize,
}

impl Ranges {
    fn new() -> Ranges {
        Ranges { open: [const { 0..0 }; STREAMS], closed: Vec::new(), merge_at: MERGED_AT }
    }

    #[inline]
    fn add(&mut self, start: u64, bytes: u64) {
        let end = start + bytes;
        for at in 0..STREAMS {
            let stream = &mut self.open[at];
            if start >= stream.start && start <= stream.end && stream.end != 0 {
                stream.end = stream.end.max(end);
                return;
            }
        }
        self.open_stream(start..end);
    }

    fn open_stream(&mut self, range: Range<u64>) {
        let oldest = std::mem::replace(&mut self.open[STREAMS - 1], range);
        self.open.rotate_right(1);
        if !oldest.is_empty() {
            self.closed.push(oldest);
            if self.closed.len() >= self.merge_at {
                self.merge();
                self.merge_at = MERGED_AT.max(self.closed.len() * 2);
            }
        }
    }

    fn merge(&mut self) {
        self.closed.sort_unstable_by_key(|range| range.start);
        let mut kept = 0;
        for at in 1..self.closed.len() {
            let next = self.closed[at].clone();
            if next.start <= self.closed[kept].end {
                self.closed[kept].end = self.closed[kept].end.max(next.end);
            } else {
                kept += 1;
                self.closed[kept] = next;
            }
        }
        self.closed.truncate(kept + 1);
    }

    /// Closes all streams and returns the ranges in ascending order.
    fn finish(&mut self) -> &[Range<u64>] {
        for stream in &mut self.open {
            if !stream.is_empty() {
                self.closed.push(std::mem::replace(stream, 0..0));
            }
        }
        self.merge();
        &self.closed
    }

    fn clear(&mut self) {
        self.open = [const { 0..0 }; STREAMS];
        self.closed.clear();
        self.merge_at = MERGED_AT;
    }
}

/// The bytes accessed by one command.
#[derive(Debug)]
pub struct Footprint {
    of: [Ranges; 3],
    is_empty: bool,
}

impl Default for Footprint {
    fn default() -> Footprint {
        Footprint { of: [Ranges::new(), Ranges::new(), Ranges::new()], is_empty: true }
    }
}

impl Footprint {
    /// Adds an access.
    #[inline]
    pub fn add(&mut self, kind: AccessKind, start: u64, bytes: u64) {
        if bytes > 0 {
            self.is_empty = false;
            self.of[kind as usize].add(start, bytes);
        }
    }

    /// Returns whether the footprint is empty.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Calls `f` with each merged range and empties the footprint.
    pub fn drain(&mut self, mut f: impl FnMut(AccessKind, Range<u64>)) {
        if self.is_empty {
            return;
        }
        for kind in AccessKind::ALL {
            let ranges = &mut self.of[kind as usize];
            ranges.finish().iter().for_each(|range| f(kind, range.clone()));
            ranges.clear();
        }
        self.is_empty = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drained(footprint: &mut Footprint) -> Vec<(AccessKind, Range<u64>)> {
        let mut all = Vec::new();
        footprint.drain(|kind, range| all.push((kind, range)));
        all
    }

    #[test]
    fn conflicts_are_those_with_a_plain_write_or_one_atomic() {
        use AccessKind::{Atomic, Read, Write};
        for (one, other, conflict) in [
            (Read, Read, false),
            (Read, Write, true),
            (Write, Write, true),
            (Atomic, Atomic, false),
            (Atomic, Read, true),
            (Atomic, Write, true),
        ] {
            assert_eq!(one.conflicts_with(other), conflict, "{one:?} {other:?}");
            assert_eq!(other.conflicts_with(one), conflict, "{other:?} {one:?}");
        }
    }

    #[test]
    fn streams_side_by_side_become_one_range_each() {
        let mut footprint = Footprint::default();
        for n in 0..10_000u64 {
            for stream in 0..9 {
                footprint.add(AccessKind::Read, 0x1_0000_0000 + (stream << 24) + n * 4, 4);
            }
            footprint.add(AccessKind::Write, 0x9_0000_0000 - n * 4, 4);
        }
        let all = drained(&mut footprint);
        assert_eq!(all.len(), 10, "{all:x?}");
        assert_eq!(all[0], (AccessKind::Read, 0x1_0000_0000..0x1_0000_0000 + 40_000));
        assert_eq!(all[9].1, 0x9_0000_0000 - 9_999 * 4..0x9_0000_0004);
        assert!(footprint.is_empty() && drained(&mut footprint).is_empty());
    }

    #[test]
    fn gaps_stay_gaps() {
        let mut footprint = Footprint::default();
        for n in 0..2_000u64 {
            footprint.add(AccessKind::Write, n * 8, 4);
        }
        let all = drained(&mut footprint);
        assert_eq!(all.len(), 2_000);
        assert!(all.iter().zip(0..).all(|((_, range), n)| *range == (n * 8..n * 8 + 4)));
    }
}
