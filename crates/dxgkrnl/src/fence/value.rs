//! The value of a fence as the kernel knows it: the cell and, for a GPU that updates only 32 bits
//! atomically, the 64-bit value of which the cell is the low half.
//!
//! Invariants: loads and stores hold the lock of the known value. Between two of them the fence
//! therefore moves no further than its window, whatever stored to it. Such hardware keeps no
//! histories. The kernel's own waits latch the values that the kernel reads.

use std::sync::Arc;
use tidegate_d3dukmdt::fence_cell::{NO_EPOCH, REACHED, Snapshot};
use tidegate_d3dukmdt::{FenceCell, FenceWait, low_half};
use tidegate_platform::{Mutex, Platform};

/// A fence's value.
pub(crate) struct FenceValue {
    cell: FenceCell,
    /// The 64-bit value whose low half is the cell; `None` if the cell is the value.
    followed: Option<SharedValue>,
}

/// The 64-bit value of a cell with its low half. The members of a cross-adapter fence have one.
pub(super) type SharedValue = Arc<Mutex<Followed>>;

pub(super) struct Followed {
    value: u64,
    /// Whether the fence reads as its maximum, whatever the cell holds.
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
    /// Creates the value of a cell that holds all 64 bits.
    pub(crate) fn whole(cell: FenceCell) -> FenceValue {
        FenceValue { cell, followed: None }
    }

    /// Creates the value of a cell that will hold its low half.
    pub(super) fn shared(platform: &Platform) -> SharedValue {
        let followed = Followed { value: 0, over: false };
        Arc::new(platform.mutex("value of a 32-bit fence", followed))
    }

    /// Creates a value whose low half is the cell.
    pub(super) fn low_half(cell: FenceCell, followed: SharedValue) -> FenceValue {
        FenceValue { cell, followed: Some(followed) }
    }

    /// Returns whether the cell holds all 64 bits.
    pub(crate) fn is_whole(&self) -> bool {
        self.followed.is_none()
    }

    /// Returns the cell, for mappings and for the driver.
    pub(crate) fn cell(&self) -> &FenceCell {
        &self.cell
    }

    /// Returns the present value.
    pub(crate) fn load(&self) -> u64 {
        match &self.followed {
            Some(followed) => followed.lock().update(&self.cell),
            None => self.cell.load(),
        }
    }

    /// Returns whether a wait or a signal may name `value`.
    pub(crate) fn admits(&self, value: u64) -> bool {
        let Some(followed) = &self.followed else { return true };
        let mut followed = followed.lock();
        followed.over || low_half::in_window(followed.update(&self.cell), value)
    }

    /// Creates a wait for `value` with the present epoch.
    pub(crate) fn wait_for(&self, value: u64) -> FenceWait {
        if self.followed.is_none() {
            return self.cell.wait_for(value);
        }
        FenceWait { value, epoch: if self.load() >= value { REACHED } else { NO_EPOCH } }
    }

    /// Loads the value without its history, for comparison with earlier waits.
    pub(crate) fn latest(&self) -> Snapshot {
        if self.followed.is_none() { self.cell.latest() } else { Snapshot::at_value(self.load()) }
    }

    /// Returns the history of the fence if it was rewound since `epoch`.
    pub(crate) fn snapshot_since(&self, epoch: u64) -> Option<Snapshot> {
        self.cell.snapshot_since(epoch)
    }

    /// Returns the number of rewinds that the history has dropped.
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

    /// Returns whether the value was condemned, so that no store has an effect.
    pub(crate) fn is_condemned(&self) -> bool {
        match &self.followed {
            Some(followed) => followed.lock().over,
            None => self.cell.is_condemned(),
        }
    }

    /// Makes every wait pass. Later stores have no effect.
    pub(crate) fn condemn(&self) {
        if let Some(followed) = &self.followed {
            *followed.lock() = Followed { value: u64::MAX, over: true };
        }
        self.cell.condemn();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_of_32_bits_passes_its_wrap_and_reads_as_its_maximum_after_its_loss() {
        let platform = Platform::host();
        let cell = FenceCell::plain(platform.page(1).word(0));
        let value = FenceValue::low_half(cell.clone(), FenceValue::shared(&platform));
        for (stored, in_cell) in [(0x7FFF_0000, 0x7FFF_0000), (0xF000_0000, 0xF000_0000)] {
            value.store(stored);
            assert_eq!((value.load(), cell.load()), (stored, in_cell));
        }
        value.store(0x1_0000_0002);
        assert_eq!((value.load(), cell.load()), (0x1_0000_0002, 2), "the upper half is not stored");
        cell.store(7);
        assert_eq!(value.load(), 0x1_0000_0007, "a GPU stores the low half");
        assert!(value.admits(0x1_0000_0007 + low_half::WINDOW) && !value.admits(u64::MAX));
        assert_eq!(value.wait_for(0x1_0000_0008).epoch, NO_EPOCH);

        value.condemn();
        assert_eq!((value.load(), cell.load()), (u64::MAX, u64::MAX));
        assert!(value.admits(3) && value.admits(u64::MAX));
        // What is late lowers neither the value nor the cell.
        value.store(9);
        assert_eq!((value.load(), cell.load()), (u64::MAX, u64::MAX));
        cell.store(11);
        assert_eq!((value.load(), value.wait_for(u64::MAX).epoch), (u64::MAX, REACHED));
        assert!(value.latest().satisfies(value.wait_for(u64::MAX)));
    }
}
