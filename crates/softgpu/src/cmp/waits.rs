//! The table of waits that block queues, and the counts that signallers check.
//!
//! The counts and CurrentValue are a store-buffering pair. Waiting queue: 1. enter the table; 2.
//! increment the cell's armed word (a locked operation, hence a full barrier); 3. load
//! CurrentValue again. Signaller: 1. store CurrentValue; 2. full barrier; 3. load the armed word.
//! Either the signaller sees the count or the queue sees the value. The queue's steps run under
//! the CMP's lock, which a signaller that saw the count takes. It finds the entry, or the queue
//! has continued.
//!
//! Several cells share an armed word. A signaller that finds no entry has lost only time.

use std::collections::BTreeMap;
use std::ops::Range;
use tidegate_d3dukmdt::fence_cell::Verdict;
use tidegate_d3dukmdt::{FenceCell, FenceWait};
use tidegate_gpu_abi::QueueId;
use tidegate_gpu_abi::peer::{COMMON_SLOTS, slot_of};
use tidegate_platform::{Page, PhysicalAddress, Platform, Word};

/// The wait of a queue: the bus address of CurrentValue, the value and the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaitKey {
    pub(crate) cell: PhysicalAddress,
    pub(crate) wait: FenceWait,
}

/// Counts of waits, by hash of the cell's address.
pub(crate) struct Armed {
    page: Page,
}

impl Armed {
    pub(crate) fn new(platform: &Platform) -> Armed {
        Armed { page: platform.page(COMMON_SLOTS).named("the waiting queues") }
    }

    /// Returns the counts, for GPUs that may load them.
    pub(crate) fn page(&self) -> &Page {
        &self.page
    }

    /// Returns the count that the waits for the cell share. Not 0 while a queue may wait for it.
    pub(crate) fn word(&self, cell: PhysicalAddress) -> Word {
        self.page.word(slot_of(cell))
    }

    /// Returns whether a queue may wait for the cell. The caller has stored the value and executed
    /// a full barrier.
    #[inline]
    pub(crate) fn may_hold(&self, cell: PhysicalAddress) -> bool {
        self.page.load(slot_of(cell)) != 0
    }
}

/// The waits, ordered by cell, value and queue, each with the cell that decides it.
#[derive(Default)]
pub(crate) struct Waits {
    table: BTreeMap<(WaitKey, QueueId), FenceCell>,
}

impl Waits {
    /// Enters a wait and arms its cell. The caller must load CurrentValue again afterwards.
    pub(crate) fn enter(&mut self, armed: &Armed, key: WaitKey, queue: QueueId, cell: &FenceCell) {
        if self.table.insert((key, queue), cell.clone()).is_none() {
            armed.page.fetch_add(slot_of(key.cell), 1);
        }
    }

    /// Returns whether no queue is parked.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    pub(crate) fn leave(&mut self, armed: &Armed, key: WaitKey, queue: QueueId) {
        if self.table.remove(&(key, queue)).is_some() {
            armed.page.fetch_add(slot_of(key.cell), 1u64.wrapping_neg());
        }
    }

    /// Moves the waits whose cells start at `from` to the cells that `place` returns. Returns the
    /// queues and their new waits.
    pub(crate) fn rekey(
        &mut self,
        armed: &Armed,
        from: Range<PhysicalAddress>,
        place: impl Fn(PhysicalAddress) -> (PhysicalAddress, FenceCell),
    ) -> Vec<(QueueId, WaitKey)> {
        let of_range = |(key, _): &(WaitKey, QueueId)| from.contains(&key.cell);
        let old: Vec<_> = self.table.keys().copied().filter(of_range).collect();
        let renewed = old.into_iter().map(|(key, queue)| {
            let (cell_at, cell) = place(key.cell);
            let moved = WaitKey { cell: cell_at, ..key };
            self.leave(armed, key, queue);
            self.enter(armed, moved, queue, &cell);
            (queue, moved)
        });
        renewed.collect()
    }

    /// Takes a queue whose wait for `cell`, or for any cell, is satisfied or lost. Smallest wait
    /// first.
    pub(crate) fn take(
        &mut self,
        armed: &Armed,
        cell: Option<PhysicalAddress>,
    ) -> Option<(QueueId, Verdict)> {
        let from = cell.unwrap_or_default();
        let first = (WaitKey { cell: from, wait: FenceWait { value: 0, epoch: 0 } }, QueueId(0));
        let of_cell = self
            .table
            .range(first..)
            .take_while(|((key, _), _)| cell.is_none_or(|c| key.cell == c));
        let judged = of_cell.map(|(entry, cell)| (*entry, cell.judge(entry.0.wait)));
        let ((key, queue), verdict) =
            judged.into_iter().find(|(_, verdict)| *verdict != Verdict::Unsatisfied)?;
        self.leave(armed, key, queue);
        Some((queue, verdict))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Cell {
        cell: FenceCell,
        at: PhysicalAddress,
    }

    impl Cell {
        fn new(platform: &Platform, at: u64) -> Cell {
            let cell = FenceCell::plain(platform.page(1).word(0));
            Cell { cell, at: PhysicalAddress(at) }
        }

        fn key(&self, value: u64) -> WaitKey {
            WaitKey { cell: self.at, wait: self.cell.wait_for(value) }
        }
    }

    #[test]
    fn a_wait_is_counted_once_however_often_it_is_entered_and_left() {
        let platform = Platform::host();
        let (armed, mut waits) = (Armed::new(&platform), Waits::default());
        let take = |waits: &mut Waits, cell| waits.take(&armed, cell).map(|(queue, _)| queue);
        let cell = Cell::new(&platform, 0x1000);
        let count = || armed.word(cell.at).load();
        for _ in 0..2 {
            waits.enter(&armed, cell.key(5), QueueId(1), &cell.cell);
        }
        assert_eq!(count(), 1);
        waits.enter(&armed, cell.key(5), QueueId(2), &cell.cell);
        waits.enter(&armed, cell.key(6), QueueId(1), &cell.cell);
        assert_eq!(count(), 3);
        for _ in 0..2 {
            waits.leave(&armed, cell.key(5), QueueId(1));
        }
        assert_eq!((count(), armed.may_hold(cell.at)), (2, true));
        cell.cell.store(6);
        let taken: Vec<_> = std::iter::from_fn(|| take(&mut waits, Some(cell.at))).collect();
        assert_eq!(taken, [QueueId(2), QueueId(1)], "the smallest value first");
        assert_eq!((count(), armed.may_hold(cell.at), waits.is_empty()), (0, false, true));
    }

    #[test]
    fn a_wait_that_moves_with_its_cell_is_counted_and_found_at_the_new_one() {
        let platform = Platform::host();
        let (armed, mut waits) = (Armed::new(&platform), Waits::default());
        let take = |waits: &mut Waits, cell| waits.take(&armed, cell).map(|(queue, _)| queue);
        let cells = [0x1000, 0x1008, 0x1010].map(|at| Cell::new(&platform, at));
        for (queue, cell) in cells.iter().enumerate() {
            waits.enter(&armed, cell.key(5), QueueId(queue as u32), &cell.cell);
        }
        let moved = Cell::new(&platform, 0x9008);
        let from = cells[1].at..cells[2].at;
        let renewed = waits.rekey(&armed, from, |_| (moved.at, moved.cell.clone()));
        assert_eq!(renewed, [(QueueId(1), moved.key(5))]);
        cells[1].cell.store(5);
        assert_eq!(take(&mut waits, None), None, "the old cell decides nothing");
        moved.cell.store(5);
        assert_eq!(take(&mut waits, Some(cells[1].at)), None);
        assert_eq!(take(&mut waits, Some(moved.at)), Some(QueueId(1)));
        [&cells[0], &cells[2]].into_iter().for_each(|cell| _ = cell.cell.store(5));
        let taken = [take(&mut waits, None), take(&mut waits, None)];
        assert_eq!(taken, [Some(QueueId(0)), Some(QueueId(2))]);
        let left = cells.iter().chain([&moved]).any(|cell| armed.may_hold(cell.at));
        assert!(!left, "a count that stays costs every later signal");
    }
}
