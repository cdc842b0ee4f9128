//! Owns the table of waits that block queues, and the counts that signallers check.
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

    /// Takes a queue whose wait for `cell`, or for any cell, is satisfied. Smallest wait first.
    pub(crate) fn take(&mut self, armed: &Armed, cell: Option<PhysicalAddress>) -> Option<QueueId> {
        let from = cell.unwrap_or_default();
        let first = (WaitKey { cell: from, wait: FenceWait { value: 0, epoch: 0 } }, QueueId(0));
        let of_cell = self
            .table
            .range(first..)
            .take_while(|((key, _), _)| cell.is_none_or(|c| key.cell == c));
        let ((key, queue), _) =
            of_cell.into_iter().find(|((key, _), cell)| cell.satisfies(key.wait))?;
        let (key, queue) = (*key, *queue);
        self.leave(armed, key, queue);
        Some(queue)
    }
}
