//! Owns the way by which rings and control areas leave the device's memory before its power goes, and come back: what moves them is
//! the memory manager's business and is plugged in here. Without one nothing is moved: the modelled memory keeps what it holds.

use super::Power;
use crate::adapter::Adapter;
use crate::doorbell::Doorbell;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::OsHandle;

/// A ring or a control area of a doorbell, in the device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingAllocation {
    /// The kernel's handle of the doorbell.
    pub doorbell: OsHandle,
    /// Its address in its process.
    pub gpu_va: u64,
    /// Its size.
    pub bytes: u64,
}

/// Moves rings and control areas.
pub trait RingResidency: Send + Sync {
    /// Moves it out of the device's memory. No context is on the run list, no doorbell is connected; the address at which its
    /// process writes it must stay valid. An error keeps the device in D0.
    fn evict(&self, ring: &RingAllocation) -> Result<(), Status>;

    /// Moves it back. The device has power; no context is on the run list and no doorbell connected.
    fn make_resident(&self, ring: &RingAllocation);
}

impl Power {
    fn residency(&self) -> Option<Arc<dyn RingResidency>> {
        self.residency.lock().clone()
    }
}

impl Adapter {
    /// Plugs in what moves rings in the device's memory; the last one counts.
    pub fn set_ring_residency(&self, residency: Arc<dyn RingResidency>) {
        *self.power.residency.lock() = Some(residency);
    }

    /// Moves rings and control areas out of the device's memory; `false` when one of them cannot leave.
    pub(super) fn move_rings_out(&self, doorbells: &[Arc<Doorbell>]) -> bool {
        let Some(residency) = self.power.residency() else { return true };
        for doorbell in doorbells {
            for allocation in [&doorbell.ring, &doorbell.control].into_iter().filter(|a| a.is_local) {
                let (gpu_va, bytes) = (allocation.gpu_va, allocation.bytes);
                let ring = RingAllocation { doorbell: doorbell.os_handle, gpu_va, bytes };
                if residency.evict(&ring).is_err() {
                    return false;
                }
                self.power.state.lock().evicted.push(ring);
            }
        }
        true
    }

    pub(super) fn bring_rings_back(&self) {
        let evicted = std::mem::take(&mut self.power.state.lock().evicted);
        if let Some(residency) = self.power.residency() {
            evicted.iter().for_each(|ring| residency.make_resident(ring));
        }
    }
}
