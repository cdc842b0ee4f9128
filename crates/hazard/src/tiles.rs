//! The memory behind reserved addresses. Accesses are compared where their memory lies, so two
//! reserved ranges over one tile conflict.

use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    end: u64,
    /// The address of the memory, at which its heap is mapped.
    memory: u64,
}

/// The mapped parts of an address space's reserved addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tiles {
    /// By their first address; parts do not overlap.
    parts: BTreeMap<u64, Part>,
}

impl Tiles {
    fn split(&mut self, at: u64) {
        if let Some((start, part)) = self.parts.range_mut(..at).next_back()
            && at < part.end
        {
            let right = Part { end: part.end, memory: part.memory + (at - start) };
            part.end = at;
            self.parts.insert(at, right);
        }
    }

    /// Maps memory behind addresses, or takes it away.
    pub(crate) fn map(&mut self, addresses: Range<u64>, memory: Option<u64>) {
        self.split(addresses.start);
        self.split(addresses.end);
        let inside: Vec<u64> =
            self.parts.range(addresses.clone()).map(|(start, _)| *start).collect();
        for start in inside {
            self.parts.remove(&start);
        }
        if let Some(memory) = memory {
            self.parts.insert(addresses.start, Part { end: addresses.end, memory });
        }
    }

    /// Calls `f` with the addresses of the memory behind a range. Addresses without mapped memory
    /// stay as they are.
    pub(crate) fn locate(&self, range: Range<u64>, mut f: impl FnMut(Range<u64>)) {
        let before = self.parts.range(..=range.start).next_back();
        let first = before.map_or(range.start, |(start, _)| *start);
        let mut at = range.start;
        for (start, part) in self.parts.range(first..range.end) {
            let (from, until) = ((*start).max(at), part.end.min(range.end));
            if until <= from {
                continue;
            }
            if at < from {
                f(at..from);
            }
            let memory = part.memory + (from - start);
            f(memory..memory + (until - from));
            at = until;
        }
        if at < range.end {
            f(at..range.end);
        }
    }

    /// Returns the reserved addresses at which the first byte of each mapping of `memory` is seen,
    /// each with the offset of that byte in `memory`.
    pub(crate) fn views(&self, memory: &Range<u64>) -> Vec<View> {
        let of = self.parts.iter().filter_map(|(start, part)| {
            let end = part.memory + (part.end - start);
            let first = part.memory.max(memory.start);
            let address = start + (first - part.memory);
            (first < end.min(memory.end)).then(|| View { address, offset: first - memory.start })
        });
        of.collect()
    }
}

/// A place at which memory is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) address: u64,
    /// The offset of the byte that is seen there.
    pub(crate) offset: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(tiles: &Tiles, range: Range<u64>) -> Vec<[u64; 2]> {
        let mut found = Vec::new();
        tiles.locate(range, |part| found.push([part.start, part.end]));
        found
    }

    #[test]
    fn ranges_are_found_where_their_memory_lies() {
        let mut tiles = Tiles::default();
        assert_eq!(located(&tiles, 10..20), [[10, 20]]);
        tiles.map(100..200, Some(5_000));
        tiles.map(300..400, Some(7_000));
        assert_eq!(located(&tiles, 100..200), [[5_000, 5_100]]);
        assert_eq!(located(&tiles, 110..120), [[5_010, 5_020]]);
        assert_eq!(
            located(&tiles, 50..350),
            [[50, 100], [5_000, 5_100], [200, 300], [7_000, 7_050]]
        );
        assert_eq!(located(&tiles, 200..210), [[200, 210]]);
        // The middle of a part moves, and the end of another goes.
        tiles.map(120..140, Some(9_000));
        tiles.map(350..1_000, None);
        assert_eq!(located(&tiles, 110..150), [[5_010, 5_020], [9_000, 9_020], [5_040, 5_050]]);
        assert_eq!(located(&tiles, 340..360), [[7_040, 7_050], [350, 360]]);
    }

    #[test]
    fn memory_is_seen_at_each_address_that_maps_it() {
        let mut tiles = Tiles::default();
        tiles.map(100..200, Some(5_000));
        tiles.map(300..400, Some(5_050));
        let view = |address, offset| View { address, offset };
        assert_eq!(tiles.views(&(5_060..5_070)), [view(160, 0), view(310, 0)]);
        assert_eq!(tiles.views(&(5_040..5_060)), [view(140, 0), view(300, 10)]);
        assert_eq!(tiles.views(&(5_150..5_160)), []);
    }
}
