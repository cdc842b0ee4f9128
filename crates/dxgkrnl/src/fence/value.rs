//! The value of a fence as the kernel knows it: the cell, and for a GPU that updates only 32 bits
//! atomically the true 64-bit value, of which the cell is the low half.
//!
//! Invariants: a load or a store holds the known value. So between two of them the fence has moved
//! no further than its window, wherever the store came from. Such hardware keeps no histories; the
//! kernel's own waits latch what the kernel sees.

use tidegate_d3dukmdt::fence_cell::{NO_EPOCH, REACHED, Snapshot};
use tidegate_d3dukmdt::{FenceCell, FenceWait, low_half};
use tidegate_platform::{Mutex, Platform};

/// A fence's value.
pub(crate) struct FenceValue {
    cell: FenceCell,
    /// What the cell is the low half of; `None` where the cell is the value.
    followed: Option<Mutex<Followed>>,
}

struct Followed {
    value: u64,
    /// The fence reads as its maximum, whatever the cell holds.
    over: bool,
}

impl Followed {
    /// Extends the cell to the 64-bit value.
    fn update(&mut self, cell: &FenceCell) -> u64 {
        if !self.over {
            self.value = low_half::follow(self.value, cell.load() as u32);
        }
        self.value
    }
}

impl FenceValue {
    /// The value of a cell that holds all 64 bits.
    pub(crate) fn whole(cell: FenceCell) -> FenceValue {
        FenceValue { cell, followed: None }
    }

    /// A value of which the cell holds the low half.
    pub(crate) fn low_half(platform: &Platform, cell: FenceCell, initial_value: u64) -> FenceValue {
        let followed = Followed { value: initial_value, over: false };
        let value = FenceValue {
            cell,
            followed: Some(platform.mutex("value of a 32-bit fence", followed)),
        };
        value.store(initial_value);
        value
    }

    /// The cell, for mappings and for the driver.
    pub(crate) fn cell(&self) -> &FenceCell {
        &self.cell
    }

    /// The value now.
    pub(crate) fn load(&self) -> u64 {
        match &self.followed {
            Some(followed) => followed.lock().update(&self.cell),
            None => self.cell.load(),
        }
    }

    /// Whether a wait or a signal may name `value`.
    pub(crate) fn admits(&self, value: u64) -> bool {
        let Some(followed) = &self.followed else { return true };
        let mut followed = followed.lock();
        followed.over || low_half::in_window(followed.update(&self.cell), value)
    }

    /// A wait for `value` that is made now.
    pub(crate) fn wait_for(&self, value: u64) -> FenceWait {
        if self.followed.is_none() {
            return self.cell.wait_for(value);
        }
        FenceWait { value, epoch: if self.load() >= value { REACHED } else { NO_EPOCH } }
    }

    /// The value alone, for comparison with earlier waits.
    pub(crate) fn glance(&self) -> Snapshot {
        if self.followed.is_none() { self.cell.glance() } else { Snapshot::at_value(self.load()) }
    }

    /// The history of the fence, if it was rewound since `epoch`.
    pub(crate) fn snapshot_since(&self, epoch: u64) -> Option<Snapshot> {
        self.cell.snapshot_since(epoch)
    }

    /// Falls of the value that the history has dropped.
    pub(crate) fn history_lost(&self) -> u64 {
        self.cell.history_lost()
    }

    /// Stores a value. A full barrier.
    pub(crate) fn store(&self, value: u64) {
        let Some(followed) = &self.followed else {
            self.cell.store(value);
            return;
        };
        let mut followed = followed.lock();
        if !followed.over {
            followed.value = value;
            self.cell.store(u64::from(value as u32));
        }
    }

    /// From now on every wait passes and no store changes anything.
    pub(crate) fn condemn(&self) {
        if let Some(followed) = &self.followed {
            *followed.lock() = Followed { value: u64::MAX, over: true };
        }
        self.cell.condemn();
    }
}
