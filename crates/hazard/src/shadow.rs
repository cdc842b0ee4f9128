//! The access history of each byte of an address space: the last write, and the reads and atomic
//! operations since.
//!
//! A segment is a range with one history. An access splits segments at its ends. A write ordered
//! after all accesses in its range replaces the range by one segment.

use crate::footprint::AccessKind;
use std::collections::BTreeMap;
use std::ops::Range;

/// The number of an access in the checker's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct AccessId(pub(crate) u32);

/// The order of an earlier access and a new one of the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The earlier access precedes.
    Before,
    /// The new access precedes, because it was recorded late.
    After,
    /// There is no path between them.
    None,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Segment {
    end: u64,
    write: Option<AccessId>,
    /// The first write of an unbroken sequence of writes of one timeline that ends with `write`.
    first_write: Option<AccessId>,
    reads: Vec<AccessId>,
    atomics: Vec<AccessId>,
    /// The first read of each timeline between `first_write` and `write`, and since `write`.
    first_reads: Vec<AccessId>,
    reads_since: Vec<AccessId>,
    /// The accesses replaced by `write`. An access unordered with the accesses above may also be
    /// unordered with these, and come before them.
    replaced_write: Option<AccessId>,
    replaced_reads: Vec<AccessId>,
    replaced_atomics: Vec<AccessId>,
}

/// The histories of one address space.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    segments: BTreeMap<u64, Segment>,
}

/// Two unordered accesses of the same bytes.
pub(crate) struct Conflict {
    pub(crate) range: Range<u64>,
    pub(crate) earlier: AccessId,
    pub(crate) kind: AccessKind,
    /// For a read and a write: the earlier write that precedes the read.
    pub(crate) producer: Option<AccessId>,
    /// The first read of the reader's timeline after the producer.
    pub(crate) first_read: Option<AccessId>,
}

/// The relation of a new access to an earlier one of another timeline.
pub(crate) enum Found {
    Unordered(Conflict),
    Ordered { first: AccessId, second: AccessId },
}

/// The properties of accesses that the shadow needs.
pub(crate) trait Accesses {
    /// Returns how `earlier` and `new` are ordered.
    fn order(&self, earlier: AccessId, new: AccessId) -> Order;
    /// Returns whether both belong to one timeline.
    fn same_timeline(&self, one: AccessId, other: AccessId) -> bool;
}

impl Shadow {
    fn split(&mut self, at: u64) {
        if let Some((_, segment)) = self.segments.range_mut(..at).next_back()
            && at < segment.end
        {
            let right = segment.clone();
            segment.end = at;
            self.segments.insert(at, right);
        }
    }

    /// Drops the history of a range.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        self.split_ends(&range);
        let starts: Vec<u64> = self.segments.range(range).map(|(start, _)| *start).collect();
        for start in starts {
            self.segments.remove(&start);
        }
    }

    fn split_ends(&mut self, range: &Range<u64>) {
        self.split(range.end);
        self.split(range.start);
    }

    /// Adds an access and reports the accesses that it conflicts with.
    pub(crate) fn add(
        &mut self,
        new: AccessId,
        kind: AccessKind,
        range: Range<u64>,
        accesses: &impl Accesses,
        mut found: impl FnMut(Found),
    ) {
        self.split_ends(&range);
        let mut at = range.start;
        let mut empty = Vec::new();
        for (start, segment) in self.segments.range_mut(range.clone()) {
            if at < *start {
                empty.push(at..*start);
            }
            at = segment.end;
            segment.add(new, kind, *start..segment.end, accesses, &mut found);
        }
        if at < range.end {
            empty.push(at..range.end);
        }
        if kind == AccessKind::Write && self.replace_whole(new, &range) {
            return;
        }
        for gap in empty {
            self.segments.insert(gap.start, Segment::of(new, kind, gap.end));
        }
    }

    /// Merges the segments of a range that a write has made identical.
    fn replace_whole(&mut self, write: AccessId, range: &Range<u64>) -> bool {
        let mut inner = self.segments.range(range.clone());
        let Some((_, first)) = inner.next() else {
            self.segments.insert(range.start, Segment::of(write, AccessKind::Write, range.end));
            return true;
        };
        let alike = |segment: &Segment| {
            segment.write == Some(write)
                && segment.reads.is_empty()
                && segment.atomics.is_empty()
                && segment.first_write == first.first_write
                && segment.first_reads == first.first_reads
        };
        if !alike(first) || !inner.all(|(_, segment)| alike(segment)) {
            return false;
        }
        let mut whole = Segment { end: range.end, ..first.clone() };
        let alike = |segment: &Segment| {
            segment.replaced_write == whole.replaced_write
                && segment.replaced_reads == whole.replaced_reads
                && segment.replaced_atomics == whole.replaced_atomics
        };
        if !self.segments.range(range.clone()).all(|(_, segment)| alike(segment)) {
            whole.replaced_write = None;
            whole.replaced_reads.clear();
            whole.replaced_atomics.clear();
        }
        let starts: Vec<u64> =
            self.segments.range(range.clone()).map(|(start, _)| *start).collect();
        for start in starts {
            self.segments.remove(&start);
        }
        self.segments.insert(range.start, whole);
        true
    }

    /// Calls `f` with each referenced access.
    pub(crate) fn each(&self, mut f: impl FnMut(AccessId)) {
        for segment in self.segments.values() {
            let writes = segment.write.iter().chain(&segment.first_write);
            let replaced = segment.replaced_reads.iter().chain(&segment.replaced_atomics);
            let writes = writes.chain(&segment.replaced_write).chain(replaced);
            let first = segment.first_reads.iter().chain(&segment.reads_since);
            let others = segment.reads.iter().chain(&segment.atomics).chain(first);
            writes.chain(others).for_each(|id| f(*id));
        }
    }

    /// Renumbers all accesses.
    pub(crate) fn renumber(&mut self, f: impl Fn(AccessId) -> AccessId) {
        for segment in self.segments.values_mut() {
            let writes = segment.write.iter_mut().chain(&mut segment.first_write);
            let others = segment.reads.iter_mut().chain(&mut segment.atomics);
            let replaced = segment.replaced_reads.iter_mut().chain(&mut segment.replaced_atomics);
            let writes = writes.chain(&mut segment.replaced_write).chain(replaced);
            let first = segment.first_reads.iter_mut().chain(&mut segment.reads_since);
            writes.chain(others).chain(first).for_each(|id| *id = f(*id));
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.segments.len()
    }
}

impl Segment {
    fn of(access: AccessId, kind: AccessKind, end: u64) -> Segment {
        let mut segment = Segment { end, ..Segment::default() };
        match kind {
            AccessKind::Read => {
                segment.reads.push(access);
                segment.reads_since.push(access);
            }
            AccessKind::Atomic => segment.atomics.push(access),
            AccessKind::Write => {
                (segment.write, segment.first_write) = (Some(access), Some(access));
            }
        }
        segment
    }

    fn add(
        &mut self,
        new: AccessId,
        kind: AccessKind,
        range: Range<u64>,
        accesses: &impl Accesses,
        found: &mut impl FnMut(Found),
    ) {
        let (mut late, mut unordered) = (false, false);
        let mut unordered_reads = Vec::new();
        let write = self.write.iter().map(|id| (AccessKind::Write, *id));
        let reads = self.reads.iter().map(|id| (AccessKind::Read, *id));
        let atomics = self.atomics.iter().map(|id| (AccessKind::Atomic, *id));
        for (of, earlier) in write.chain(reads).chain(atomics) {
            if !kind.conflicts_with(of) {
                continue;
            }
            match accesses.order(earlier, new) {
                Order::Before => {
                    if !accesses.same_timeline(earlier, new) {
                        found(Found::Ordered { first: earlier, second: new });
                    }
                }
                Order::After => {
                    late = true;
                    if !accesses.same_timeline(earlier, new) {
                        found(Found::Ordered { first: new, second: earlier });
                    }
                }
                Order::None => {
                    unordered = true;
                    if of == AccessKind::Read {
                        unordered_reads.push(earlier);
                    }
                    let (producer, first_read) = self.producer_of(earlier, of, new, kind, accesses);
                    let range = range.clone();
                    let conflict = Conflict { range, earlier, kind: of, producer, first_read };
                    found(Found::Unordered(conflict));
                }
            }
        }
        for read in unordered_reads {
            self.conflicts_with_first_read(read, new, kind, &range, accesses, found);
        }
        if unordered {
            self.conflicts_with_replaced(new, kind, &range, accesses, found);
        }
        if late {
            return;
        }
        match kind {
            AccessKind::Write => {
                let continues = self.reads.is_empty()
                    && self.atomics.is_empty()
                    && self.write.is_some_and(|write| accesses.same_timeline(write, new));
                if !continues {
                    self.first_write = Some(self.write.unwrap_or(new));
                    self.first_reads = std::mem::take(&mut self.reads_since);
                }
                self.reads_since.clear();
                self.replaced_write = self.write.replace(new);
                std::mem::swap(&mut self.replaced_reads, &mut self.reads);
                std::mem::swap(&mut self.replaced_atomics, &mut self.atomics);
                self.reads.clear();
                self.atomics.clear();
            }
            AccessKind::Read => {
                put(&mut self.reads, new, accesses);
                if !self.reads_since.iter().any(|id| accesses.same_timeline(*id, new)) {
                    self.reads_since.push(new);
                }
            }
            AccessKind::Atomic => put(&mut self.atomics, new, accesses),
        }
    }
}

impl Segment {
    /// Reports the conflict with the first read of a timeline whose last read conflicts, unless it
    /// is that one. The edge that is missing is the one before the first read.
    fn conflicts_with_first_read(
        &self,
        last: AccessId,
        new: AccessId,
        kind: AccessKind,
        range: &Range<u64>,
        accesses: &impl Accesses,
        found: &mut impl FnMut(Found),
    ) {
        let mut first = self.reads_since.iter().filter(|id| accesses.same_timeline(**id, last));
        if let Some(first) = first.next().copied().filter(|first| *first != last)
            && accesses.order(first, new) == Order::None
        {
            let of = AccessKind::Read;
            let (producer, first_read) = self.producer_of(first, of, new, kind, accesses);
            let (range, earlier) = (range.clone(), first);
            found(Found::Unordered(Conflict { range, earlier, kind: of, producer, first_read }));
        }
    }

    fn conflicts_with_replaced(
        &self,
        new: AccessId,
        kind: AccessKind,
        range: &Range<u64>,
        accesses: &impl Accesses,
        found: &mut impl FnMut(Found),
    ) {
        let write = self.replaced_write.iter().map(|id| (AccessKind::Write, *id));
        let reads = self.replaced_reads.iter().map(|id| (AccessKind::Read, *id));
        let atomics = self.replaced_atomics.iter().map(|id| (AccessKind::Atomic, *id));
        for (of, earlier) in write.chain(reads).chain(atomics) {
            if kind.conflicts_with(of) && accesses.order(earlier, new) == Order::None {
                let (producer, first_read) = self.producer_of(earlier, of, new, kind, accesses);
                let range = range.clone();
                let conflict = Conflict { range, earlier, kind: of, producer, first_read };
                found(Found::Unordered(conflict));
            }
        }
    }

    /// Returns, for an unordered read and write, a write that precedes the read, and the first read
    /// of the reader's timeline after it.
    fn producer_of(
        &self,
        earlier: AccessId,
        of: AccessKind,
        new: AccessId,
        kind: AccessKind,
        accesses: &impl Accesses,
    ) -> (Option<AccessId>, Option<AccessId>) {
        let before = |write: &AccessId, read| accesses.order(*write, read) == Order::Before;
        let first_of = |reads: &[AccessId], read| {
            reads.iter().copied().find(|id| accesses.same_timeline(*id, read))
        };
        match (of, kind) {
            (AccessKind::Read, AccessKind::Write) => {
                let last = self.write.filter(|write| before(write, earlier));
                let producer = last.or(self.first_write.filter(|write| before(write, earlier)));
                (producer, first_of(&self.reads_since, earlier))
            }
            (AccessKind::Write, AccessKind::Read) => {
                let producer = self.first_write.filter(|write| before(write, new));
                (producer, first_of(&self.first_reads, new))
            }
            _ => (None, None),
        }
    }
}

/// Adds an access to a list that holds the last one of each timeline.
fn put(list: &mut Vec<AccessId>, new: AccessId, accesses: &impl Accesses) {
    match list.iter_mut().find(|id| accesses.same_timeline(**id, new)) {
        Some(last) if accesses.order(*last, new) == Order::Before => *last = new,
        Some(_) => {}
        None => list.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accesses by number: timeline = number / 100, and numbers of a timeline are in order. Those
    /// of timeline 0 precede everything.
    struct Numbers;

    impl Accesses for Numbers {
        fn order(&self, earlier: AccessId, new: AccessId) -> Order {
            match (earlier.0 / 100, new.0 / 100) {
                (a, b) if a == b && earlier.0 > new.0 => Order::After,
                (a, b) if a == b || a == 0 => Order::Before,
                (_, 0) => Order::After,
                _ => Order::None,
            }
        }

        fn same_timeline(&self, one: AccessId, other: AccessId) -> bool {
            one.0 / 100 == other.0 / 100
        }
    }

    fn add(
        shadow: &mut Shadow,
        new: u32,
        kind: AccessKind,
        range: Range<u64>,
    ) -> Vec<(u32, Range<u64>)> {
        let mut found = Vec::new();
        shadow.add(AccessId(new), kind, range, &Numbers, |of| {
            if let Found::Unordered(conflict) = of {
                found.push((conflict.earlier.0, conflict.range));
            }
        });
        found
    }

    #[test]
    fn conflicts_have_the_bytes_that_both_touch() {
        let mut shadow = Shadow::default();
        assert!(add(&mut shadow, 101, AccessKind::Write, 0..100).is_empty());
        assert!(add(&mut shadow, 201, AccessKind::Write, 100..200).is_empty());
        assert_eq!(
            add(&mut shadow, 301, AccessKind::Read, 90..110),
            [(101, 90..100), (201, 100..110)]
        );
        assert_eq!(
            add(&mut shadow, 202, AccessKind::Write, 95..100),
            [(101, 95..100), (301, 95..100)]
        );
        assert!(add(&mut shadow, 102, AccessKind::Read, 0..90).is_empty());
    }

    #[test]
    fn of_two_accesses_of_either_kind_a_write_or_one_atomic_conflicts() {
        use AccessKind::{Atomic, Read, Write};
        for first in [Read, Atomic, Write] {
            for second in [Read, Atomic, Write] {
                let mut shadow = Shadow::default();
                assert!(add(&mut shadow, 101, first, 0..8).is_empty());
                let conflicts = first != second || first == Write;
                let found = add(&mut shadow, 201, second, 0..8);
                assert_eq!(found.len(), usize::from(conflicts), "{first:?}, {second:?}");
            }
        }
    }

    #[test]
    fn a_write_joins_what_it_covers() {
        let mut shadow = Shadow::default();
        for n in 0..1000 {
            add(&mut shadow, 101, AccessKind::Read, n * 10..n * 10 + 4);
        }
        assert_eq!(shadow.len(), 1000);
        assert!(add(&mut shadow, 102, AccessKind::Write, 0..10_000).is_empty());
        assert_eq!(shadow.len(), 1);
        shadow.remove(10..20);
        assert_eq!(shadow.len(), 2);
        assert!(add(&mut shadow, 201, AccessKind::Write, 10..20).is_empty());
        // Includes conflicts with the replaced accesses.
        let found = add(&mut shadow, 202, AccessKind::Write, 5..15);
        assert_eq!(found, [(102, 5..10), (101, 5..10)]);
    }

    #[test]
    fn an_access_that_is_recorded_late_is_no_conflict() {
        let mut shadow = Shadow::default();
        add(&mut shadow, 105, AccessKind::Write, 0..10);
        assert!(add(&mut shadow, 102, AccessKind::Read, 0..10).is_empty());
        assert!(add(&mut shadow, 104, AccessKind::Write, 0..10).is_empty());
        assert_eq!(add(&mut shadow, 201, AccessKind::Read, 0..10), [(105, 0..10)]);
    }

    #[test]
    fn reads_and_atomics_of_several_timelines_do_not_conflict_with_their_like() {
        let mut shadow = Shadow::default();
        for timeline in 1..5 {
            assert!(add(&mut shadow, timeline * 100, AccessKind::Read, 0..10).is_empty());
        }
        assert_eq!(add(&mut shadow, 501, AccessKind::Write, 0..10).len(), 4);
        for timeline in 6..9 {
            let found = add(&mut shadow, timeline * 100, AccessKind::Atomic, 0..10);
            assert_eq!(found.len(), 5, "the write and the reads before it: {found:?}");
        }
    }
}
