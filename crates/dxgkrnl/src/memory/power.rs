//! Local memory across power loss and adapter reset: all content is evicted, and referenced
//! allocations are paged in afterwards.
//!
//! Invariants: no paging operation is in progress, and queued ones wait for the end of the
//! transition or reset. The agent that changes the power copies with its own CPU, so it waits for
//! no engine or interrupt.
//!
//! Entry points: [`Memory::evict_for_power`] and [`Memory::page_in_for_power`] (power),
//! [`Memory::lose_content`] and [`Memory::end_reset`] (reset).

use super::allocation::AllocationObject;
use super::local_memory::Memory;
use super::pager::MoveTimes;
use super::paging_context::Carrier;
use std::sync::Arc;
use tidegate_ddi::memory::{PagingBuffer, PagingOperation};
use tidegate_ddi::{OsHandle, Passive};
use tidegate_platform::Step;
use tidegate_vidmm::AllocationId;

/// Allocations that were moved for power. Each may be the last reference. Dropped only when other
/// agents may call the driver again, since the end of an allocation takes locks that those agents
/// may hold.
#[derive(Default)]
#[must_use = "dropping it may end allocations, which must not happen during a power transition"]
pub(crate) struct Moved(#[expect(dead_code, reason = "kept, not read")] Vec<Arc<AllocationObject>>);

impl Memory {
    /// Empties local memory for a reset of the adapter. Its content is lost, and a transfer of 0
    /// bytes informs the driver of each allocation. Operations wait until [`Memory::end_reset`].
    /// Returns the devices that lost content, and the allocations to be dropped once other agents
    /// may call the driver again.
    ///
    /// Blocks until the operation in progress completes. That operation must not wait for
    /// an engine.
    pub(crate) fn lose_content(&self, level: &Passive) -> (Vec<OsHandle>, Moved) {
        self.state.lock().vidmm.begin_reset();
        let _no_operation = self.paging_context.lock_device();
        let ids = self.state.lock().vidmm.lose_content();
        let lost: Vec<(AllocationId, Arc<AllocationObject>)> =
            ids.iter().filter_map(|id| Some((*id, self.allocation(*id)?))).collect();
        let nothing = PagingBuffer::new(self.driver.platform.bulk(8));
        for (id, allocation) in lost.iter().filter(|(_, a)| a.is_local()) {
            let start_ns = self.driver.platform.stamp_ns();
            let (gpu_va, at, buffer) = (allocation.gpu_va, allocation.at(), &nothing);
            let transfer = match self.driver.declared.virtual_addresses {
                true => PagingOperation::VirtualTransfer {
                    source_gpu_va: gpu_va,
                    destination_gpu_va: gpu_va,
                    bytes: 0,
                    buffer,
                },
                false => {
                    PagingOperation::Transfer { source: at, destination: at, bytes: 0, buffer }
                }
            };
            // The content is lost whether the driver succeeds or not.
            let _refused = self.driver.driver(level).build_paging_buffer(level, transfer);
            allocation.lose_content(level);
            let at = MoveTimes { queued_ns: start_ns, start_ns };
            self.note_moved(*id, allocation.bytes, false, at);
        }
        // Pending operations on save areas are dropped, with the holds of their contexts. A context
        // with a saved packet is lost because of its work. A save area without one has no content
        // to lose.
        let contexts: Vec<OsHandle> = lost.iter().filter_map(|(_, a)| a.context()).collect();
        if let Some(holds) = self.holds.get() {
            holds.release_moved_in_reset(&contexts);
        }
        let content = lost.iter().filter(|(_, a)| a.context().is_none());
        let devices = content.map(|(_, a)| a.device.os_handle()).collect();
        (devices, Moved(lost.into_iter().map(|(_, allocation)| allocation).collect()))
    }

    /// Ends the waits of callers that are inside the driver. None begins until
    /// [`Memory::end_reset`].
    pub(crate) fn cut_off_waits(&self) {
        let waits = {
            let mut state = self.state.lock();
            state.cut_off = true;
            std::mem::take(&mut state.content_waits)
        };
        waits.iter().for_each(|event| event.set(Step::ThreadWake));
    }

    /// Resumes paging after the reset.
    pub(crate) fn end_reset(&self) {
        {
            let mut state = self.state.lock();
            state.vidmm.end_reset();
            state.cut_off = false;
        }
        self.wake_pager();
    }

    /// Empties local memory before power is removed, including referenced allocations. Returns
    /// `None` without effect if the pager is running and `waits_for_pager`. The caller has
    /// suspended all contexts and keeps other agents out of the driver.
    pub(crate) fn evict_for_power(&self, level: &Passive, waits_for_pager: bool) -> Option<Moved> {
        let evicted = self.state.lock().vidmm.evict_for_power(waits_for_pager)?;
        Some(self.carry_by_cpu(level, &evicted, false))
    }

    /// Pages in referenced allocations and those that queued work still uses, after power is
    /// restored. The caller keeps other agents out of the driver, and all contexts off the
    /// run list.
    pub(crate) fn page_in_for_power(&self, level: &Passive) -> Moved {
        let page_in = self.state.lock().vidmm.page_in_for_power();
        let Some(page_in) = page_in else { return Moved::default() };
        let moved = self.carry_by_cpu(level, &page_in, true);
        self.state.lock().vidmm.end_power_change();
        self.wake_pager();
        moved
    }

    fn carry_by_cpu(&self, level: &Passive, ids: &[AllocationId], to_local: bool) -> Moved {
        let all: Vec<(AllocationId, Arc<AllocationObject>)> =
            ids.iter().filter_map(|id| Some((*id, self.allocation(*id)?))).collect();
        for (id, allocation) in all.iter().filter(|(_, a)| a.is_local() != to_local) {
            let queued_ns = self.driver.platform.stamp_ns();
            let carried = self.carry(level, *id, allocation, to_local, Carrier::Cpu, queued_ns);
            debug_assert_eq!(carried, Ok(true), "a CPU copies between regions that exist");
        }
        Moved(all.into_iter().map(|(_, allocation)| allocation).collect())
    }
}
