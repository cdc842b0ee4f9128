//! The table of waits that hold queues back, and the words by which a signaller sees that there are
//! any.
//!
//! A store-buffering pair, like MonitoredValue's. Waiting queue: 1. enter the table; 2. count up
//! its armed word (a locked operation, hence a full barrier); 3. load CurrentValue again.
//! Signaller: 1. store CurrentValue; 2. full barrier; 3. load the armed word. Either the signaller
//! sees the count or the queue sees the value. Steps 1 to 3 of the queue happen under the CMP's
//! lock, which a signaller that saw the count takes, so it finds either the entry or a queue that
//! went on.
//!
//! Several cells share an armed word; a signaller that finds nothing in the table lost some time
//! and nothing else.

use std::collections::BTreeMap;
use std::ops::Range;
use tidegate_d3dukmdt::{FenceCell, FenceWait};
use tidegate_gpu_abi::QueueId;
use tidegate_gpu_abi::peer::{COMMON_SLOTS, slot_of};
use tidegate_platform::{Page, PhysicalAddress, Platform, Word};

/// What a queue waits for: the place of CurrentValue on the bus, the value and the epoch of the
/// call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaitKey {
    pub(crate) cell: PhysicalAddress,
    pub(crate) wait: FenceWait,
}

/// Counts of waits, by hash of the cell's address.
pub(crate) struct Armed {
    page: Page,
    words: Vec<Word>,
}

impl Armed {
    pub(crate) fn new(platform: &Platform) -> Armed {
        let page = platform.page(COMMON_SLOTS).named("the waiting queues");
        Armed { words: (0..COMMON_SLOTS).map(|i| page.word(i)).collect(), page }
    }

    /// The words, for GPUs that may load them.
    pub(crate) fn page(&self) -> &Page {
        &self.page
    }

    fn word(&self, cell: PhysicalAddress) -> &Word {
        &self.words[slot_of(cell)]
    }

    /// Whether a queue may wait for the cell. The caller's store and a full barrier come before.
    #[inline]
    pub(crate) fn may_hold(&self, cell: PhysicalAddress) -> bool {
        self.word(cell).load() != 0
    }
}

/// The waits, in order of cell, value and queue, each with the cell that it is judged by.
#[derive(Default)]
pub(crate) struct Waits {
    table: BTreeMap<(WaitKey, QueueId), FenceCell>,
}

impl Waits {
    /// Enters a wait and arms its cell: after this, load CurrentValue again.
    pub(crate) fn enter(&mut self, armed: &Armed, key: WaitKey, queue: QueueId, cell: &FenceCell) {
        if self.table.insert((key, queue), cell.clone()).is_none() {
            armed.word(key.cell).fetch_add(1);
        }
    }

    /// Whether no queue is parked at a wait.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    pub(crate) fn leave(&mut self, armed: &Armed, key: WaitKey, queue: QueueId) {
        if self.table.remove(&(key, queue)).is_some() {
            armed.word(key.cell).fetch_add(1u64.wrapping_neg());
        }
    }

    /// Enters the waits whose cells stand from `from` on anew, as `place` says; returns the queues
    /// and what they wait for now.
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

    /// Takes a queue whose wait is satisfied, the smallest wait first; of `cell`, or of any.
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
