//! Local memory when its adapter loses power or is reset: everything leaves it, and what is held
//! comes back.
//!
//! Invariants: no paging operation is under way, and operations that are left wait until the power
//! is back or the reset is over. The bytes are moved by the CPU of the agent that changes the
//! power, so that it waits for no engine and no interrupt.
//!
//! Entry points: `page_everything_out` and `page_held_in` (power), `lose_local_memory` and
//! `local_memory_goes_on` (reset).

use super::{LocalMemory, State, is_idle};
use crate::adapter::Adapter;
use crate::device::Device;
use crate::memory::AllocationObject;
use crate::memory::transfer::Mover;
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_ddi::memory::{PagingBuffer, PagingOperation};
use tidegate_ddi::{OsHandle, Passive};
use tidegate_platform::Step;

/// Allocations that were moved for power. Each may be the last reference. They are dropped once
/// other agents may call the driver again, since the end of an allocation takes locks that those
/// agents may hold.
#[derive(Default)]
#[must_use = "what ends with it must not end in the middle of a change of power"]
pub(crate) struct Moved(#[expect(dead_code, reason = "kept, not read")] Vec<Arc<AllocationObject>>);

impl LocalMemory {
    /// Moves them while no paging operation is under way and no engine uses local memory.
    fn move_without_engines(&self, adapter: &Adapter, ids: &[u64], comes: bool) -> Moved {
        let Some(local) = &self.segment else { return Moved::default() };
        let all: Vec<Arc<AllocationObject>> =
            ids.iter().filter_map(|id| self.allocation(*id)).collect();
        for allocation in all.iter().filter(|a| a.is_local() != comes) {
            let queued_ns = adapter.platform.stamp_ns();
            let moved = self.move_one(adapter, local, allocation, comes, Mover::Cpu, queued_ns);
            debug_assert_eq!(moved, Ok(true), "a CPU copies between regions that are there");
        }
        Moved(all)
    }
}

impl Adapter {
    /// Empties local memory for a reset of the adapter. The content is lost; a transfer of 0 bytes
    /// informs the driver of each allocation. Paging operations wait until
    /// [`Adapter::local_memory_goes_on`]. Returns the devices that lost content, and the
    /// allocations to be dropped once other agents may call the driver again.
    ///
    /// Blocks until the operation that is under way is over. That operation must not wait for an
    /// engine.
    pub(crate) fn lose_local_memory(&self) -> (Vec<Arc<Device>>, Moved) {
        let memory = &self.memory;
        let Some(local) = &memory.segment else { return Default::default() };
        memory.state.lock().resetting = true;
        let _nobody_moves_any = memory.context.lock_device();
        let ids: Vec<u64> = {
            let mut state = memory.state.lock();
            let State { residency, order, inside, .. } = &mut *state;
            let ids: BTreeSet<u64> = inside.keys().copied().collect();
            residency.lose(&ids);
            ids.iter().for_each(|id| order.forget(*id));
            ids.into_iter().collect()
        };
        let all: Vec<Arc<AllocationObject>> =
            ids.iter().filter_map(|id| memory.allocation(*id)).collect();
        let nothing = PagingBuffer::new(self.platform.bulk(8));
        for allocation in all.iter().filter(|a| a.is_local()) {
            let start_ns = self.platform.stamp_ns();
            let (source_gpu_va, destination_gpu_va) = (allocation.gpu_va, allocation.gpu_va);
            let transfer = PagingOperation::VirtualTransfer {
                source_gpu_va,
                destination_gpu_va,
                bytes: 0,
                buffer: &nothing,
            };
            // A refusal changes nothing: the content is lost in any case.
            let _told = self.driver().build_paging_buffer(&Passive::enter(), transfer);
            allocation.lose_content(local);
            memory.note_moved(self, allocation, false, (start_ns, start_ns));
        }
        // Operations about save areas are forgotten, and the holds of their contexts with them. A
        // context with a saved packet is lost because of its work. A save area without a saved
        // packet has no content to lose.
        let contexts: Vec<OsHandle> = all.iter().filter_map(|a| a.context()).collect();
        self.sched.note_areas_moved(&contexts);
        let contents = all.iter().filter(|a| a.context().is_none());
        (contents.map(|a| a.device.clone()).collect(), Moved(all))
    }

    /// The reset is over: paging goes on.
    pub(crate) fn local_memory_goes_on(&self) {
        self.memory.state.lock().resetting = false;
        self.memory.news.set(Step::ThreadWake);
    }

    /// Empties local memory before power goes, held allocations included. Returns `None` and moves
    /// nothing while a paging operation is under way. The caller has suspended all contexts and
    /// keeps other agents out of the driver.
    // spec: RES-015
    pub(crate) fn page_everything_out(&self) -> Option<Moved> {
        let out = {
            let mut state = self.memory.state.lock();
            if state.running && self.power.waits_for_paging() {
                return None;
            }
            let out = state.residency.all_out().out;
            state.unpowered = Some(out.clone());
            out
        };
        Some(self.memory.move_without_engines(self, &out, false))
    }

    /// Brings back, after a loss of power, what is held and what queued work still uses. The caller
    /// keeps other agents out of the driver, and all contexts off the run list.
    pub(crate) fn page_held_in(&self) -> Moved {
        let back = {
            let mut state = self.memory.state.lock();
            let State { residency, members, unpowered, .. } = &mut *state;
            let Some(out) = unpowered else { return Moved::default() };
            // Save areas count as used.
            residency.back_in(out, |id| is_idle(members, id)).bring
        };
        let moved = self.memory.move_without_engines(self, &back, true);
        self.memory.state.lock().unpowered = None;
        self.memory.news.set(Step::ThreadWake);
        moved
    }
}
