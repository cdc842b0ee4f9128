//! Owns what save areas ask of local memory: their first content, and that their contexts are held
//! while they leave.
//!
//! The order that matters, for one that leaves: 1. its context is held; 2. no packet of it is on an
//! engine; 3. the bytes go over; 4. the context goes on. The agent that pages calls in; VidSch is
//! called.

use super::{Fresh, LocalMemory, begun};
use crate::adapter::Adapter;
use crate::memory::AllocationObject;
use crate::memory::transfer::Ran;
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_ddi::OsHandle;
use tidegate_platform::{Event, Step};

impl LocalMemory {
    /// Gives save areas their first content; their contexts go on. `false` when the machine stopped
    /// meanwhile.
    pub(super) fn initialise_fresh(&self, adapter: &Arc<Adapter>) -> bool {
        loop {
            let fresh = {
                let mut state = self.state.lock();
                // Whatever was under way is carried out.
                state.moving = None;
                let waits = state.unpowered.is_some() || state.resetting;
                if waits { None } else { state.fresh.pop_front() }
            };
            let Some(Fresh { allocation, context, area, done }) = fresh else { return true };
            // Its driver or its process may have let go of it meanwhile.
            if let Some(area) = area.upgrade() {
                let mut paging = self.context.lock_device();
                let ran = begun(&mut paging, adapter)
                    .and_then(|paging| paging.initialise(allocation, area.at(), area.bytes));
                drop(paging);
                // Once more when the reset is over, which is news.
                if matches!(ran, Ok(Ran::CutOff)) {
                    let area = Arc::downgrade(&area);
                    self.state.lock().fresh.push_front(Fresh { allocation, context, area, done });
                    return true;
                }
                if !self.is_done(adapter, ran.map(|ran| !matches!(ran, Ran::Stopped))) {
                    return false;
                }
            }
            adapter.sched.area_has_content(context);
            if let Some(done) = done {
                done.set(Step::ThreadWake);
            }
        }
    }

    /// The contexts whose save areas are to leave are held: no packet of theirs is submitted any
    /// more. Returns those areas that no packet uses either.
    // spec: PRE-016
    pub(super) fn hold_leaving(&self, adapter: &Adapter) -> BTreeSet<u64> {
        let leaving: Vec<(u64, OsHandle)> = {
            let state = self.state.lock();
            let context = |id: u64| Some((id, state.members.get(&id)?.context?));
            let is_fresh = |of: &OsHandle| state.fresh.iter().any(|f| f.context == *of);
            state.order.leaving().filter_map(context).filter(|(_, of)| !is_fresh(of)).collect()
        };
        if leaving.is_empty() {
            return BTreeSet::new();
        }
        adapter.sched.hold_for_move(leaving).into_iter().collect()
    }

    /// Save areas have moved, or stay: their contexts go on.
    pub(super) fn release(&self, adapter: &Arc<Adapter>, ids: &[u64]) -> bool {
        let contexts: Vec<OsHandle> = {
            let state = self.state.lock();
            ids.iter().filter_map(|id| state.members.get(id)?.context).collect()
        };
        if !contexts.is_empty() {
            adapter.sched.areas_moved(&contexts);
        }
        true
    }

    /// A save area is to get its first content; its context is held until then, and `done` is set.
    pub(crate) fn give_content(
        &self,
        adapter: &Arc<Adapter>,
        allocation: OsHandle,
        context: OsHandle,
        area: &Arc<AllocationObject>,
        done: Option<Event>,
    ) {
        let mut state = self.state.lock();
        state.fresh.push_back(Fresh { allocation, context, area: Arc::downgrade(area), done });
        self.see_to_it(adapter, state);
    }
}

/// A new save area begins in local memory where there is room and nothing is under way; it is never
/// waited for.
pub(crate) fn begin_in_if_room(adapter: &Arc<Adapter>, area: &Arc<AllocationObject>) -> bool {
    let memory = &adapter.memory;
    let _awake = adapter.awake();
    let Some(local) = &memory.segment else { return false };
    {
        let mut state = memory.state.lock();
        if state.is_changing() || !state.residency.enter_if_room(area.id) {
            return false;
        }
        state.enter(area.id, area.bytes);
    }
    area.begin_in(local);
    true
}
