//! The pager: the agent that carries out paging operations, one at a time, with no lock held.
//!
//! An operation, in order:
//! 1. no engine uses the allocations to evict, or the wait for engines has timed out;
//! 2. allocations are evicted to system memory;
//! 3. allocations are paged in;
//! 4. the paging fence is signalled or the event set.
//!
//! A save area, in order: 1. its context is held; 2. its packets complete or are preempted, with
//! their state saved in the area; 3. the bytes are copied; 4. the context continues.

use super::allocation::AllocationObject;
use super::local_memory::{Completion, Memory, Uninitialised};
use super::paging_context::{Carrier, Ended, PagingContext};
use super::use_mark::UseMark;
use crate::error::BugCheck;
use crate::stats::Count;
use crate::wait_classes::{EVICTION, PAGER};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::{Irql, OsHandle, Passive};
use tidegate_platform::{Event, Step, WaitEnd, once};
use tidegate_trace::{Kind, LaneKind, Record};
use tidegate_vidmm::{AllocationId, InitialContent, Next, Start};

type Operation = tidegate_vidmm::Operation<UseMark, Completion>;

/// The machine stopped, so the agent ends immediately.
struct Stopped;

/// When the move of an allocation was queued and when it began, on the timeline.
pub(super) struct MoveTimes {
    pub(super) queued_ns: u64,
    pub(super) start_ns: u64,
}

impl Memory {
    /// Starts the pager if VidMm requests it, and wakes it.
    pub(super) fn start_pager(self: &Arc<Memory>, start: Start) {
        self.wake_pager();
        if start == Start::Now {
            let memory = self.clone();
            self.driver
                .platform
                .spawn_task("paging", move || _ = memory.carry_out_all(&Passive::enter()));
        }
    }

    /// Queues the initialisation of a save area. Its context is held until then. `done` is
    /// set afterwards.
    pub(super) fn queue_content(
        self: &Arc<Memory>,
        allocation: OsHandle,
        owner: OsHandle,
        area: &Arc<AllocationObject>,
        done: Option<Event>,
    ) {
        let start = {
            let mut state = self.state.lock();
            let uninitialised = Uninitialised { area: Arc::downgrade(area), done };
            state.uninitialised.insert(allocation, uninitialised);
            state.vidmm.queue_content(InitialContent { allocation, owner })
        };
        self.start_pager(start);
    }

    /// Runs the pager until the queue is empty.
    fn carry_out_all(&self, level: &Passive) -> Result<(), Stopped> {
        let _owed = self.driver.platform.owe(&PAGER);
        loop {
            self.initialise_save_areas(level)?;
            let quiet = self.hold_contexts();
            let next = self.state.lock().vidmm.next(&quiet);
            match next {
                Next::Run(operation) => self.carry_out(level, operation)?,
                Next::Wait(in_use) => self.wait_for_engines(level, &in_use, &quiet)?,
                Next::Idle => return Ok(()),
            }
        }
    }

    /// Waits for a change. If engines keep `in_use` for too long, carries out the oldest operation
    /// without evicting it.
    fn wait_for_engines(
        &self,
        level: &Passive,
        in_use: &[AllocationId],
        quiet: &BTreeSet<AllocationId>,
    ) -> Result<(), Stopped> {
        let what = format!("{} allocations in use that must be evicted", in_use.len());
        let deadline = self.state.lock().vidmm.deadline(in_use, self.driver.platform.now());
        match self.changed.wait_for(deadline, (&EVICTION, what.as_str())) {
            WaitEnd::Woken => Ok(()),
            WaitEnd::Stopped => Err(Stopped),
            WaitEnd::TimedOut => {
                let proceeded = self.state.lock().vidmm.take_timed_out(quiet);
                let Some((operation, stay)) = proceeded else { return Ok(()) };
                self.carry_out(level, operation)?;
                self.release_contexts(level, &stay);
                Ok(())
            }
        }
    }

    fn carry_out(&self, level: &Passive, operation: Operation) -> Result<(), Stopped> {
        // 2, 3.
        let moved = {
            let mut context = self.paging_context.lock_device();
            self.move_all(level, &mut context, &operation)
        };
        self.check_moved(level.into(), moved)?;
        self.release_contexts(level, &operation.moves.evict);
        // 4. Always complete, even if the driver failed, so that waiters do not hang.
        // spec: RES-005
        let Completion { fence, event } = operation.completion;
        if let Some((fence, value)) = fence {
            fence.signal(level.into(), value);
        }
        if let Some(event) = event {
            event.set(Step::ThreadWake);
        }
        Ok(())
    }

    /// Checks the result of a move. `Ok(false)` means that the machine stopped. A driver that fails
    /// a paging operation violates its contract.
    fn check_moved(&self, level: Irql<'_>, moved: Result<bool, Status>) -> Result<(), Stopped> {
        match moved {
            Ok(true) => Ok(()),
            Ok(false) => Err(Stopped),
            Err(status) => {
                let ddi = "DxgkDdiBuildPagingBuffer";
                self.driver.bug_check(level, BugCheck::DdiFailed { ddi, status });
                Ok(())
            }
        }
    }

    fn move_all(
        &self,
        level: &Passive,
        context: &mut Option<PagingContext>,
        operation: &Operation,
    ) -> Result<bool, Status> {
        let sides = [(&operation.moves.evict, false), (&operation.moves.page_in, true)];
        for (ids, to_local) in sides {
            for id in ids {
                let Some(allocation) = self.allocation(*id) else { continue };
                let stays = || {
                    let mapped = to_local && allocation.is_mapped();
                    mapped && self.state.lock().vidmm.stays_in_system(*id)
                };
                if allocation.is_local() == to_local || stays() {
                    continue;
                }
                let by = Carrier::Engine(self.open_context(level, context)?);
                if !self.carry(level, *id, &allocation, to_local, by, operation.queued_ns)? {
                    return Ok(false);
                }
            }
        }
        let in_system = operation.in_system.iter().filter_map(|id| self.allocation(*id));
        in_system.filter(|allocation| !allocation.is_mapped()).for_each(|a| a.map(level));
        Ok(true)
    }

    pub(super) fn allocation(&self, id: AllocationId) -> Option<Arc<AllocationObject>> {
        self.state.lock().allocation(id)
    }

    /// Moves one allocation. Returns `false` if the machine stopped.
    pub(super) fn carry(
        &self,
        level: &Passive,
        id: AllocationId,
        allocation: &AllocationObject,
        to_local: bool,
        by: Carrier<'_>,
        queued_ns: u64,
    ) -> Result<bool, Status> {
        let start_ns = self.driver.platform.stamp_ns();
        let moved = allocation.carry(level, to_local, by)?;
        if moved {
            self.note_moved(id, allocation.bytes, to_local, MoveTimes { queued_ns, start_ns });
        }
        Ok(moved)
    }

    pub(super) fn note_moved(
        &self,
        id: AllocationId,
        bytes: u64,
        to_local: bool,
        MoveTimes { queued_ns, start_ns }: MoveTimes,
    ) {
        self.state.lock().vidmm.set_local(id, to_local);
        let (count, name) = match to_local {
            true => (Count::allocations_paged_in, "page in"),
            false => (Count::allocations_paged_out, "page out"),
        };
        self.driver.count(count);
        self.driver.stats.add(Count::bytes_paged, bytes);
        let platform = &self.driver.platform;
        if platform.tracing() {
            let group = || self.driver.lanes.lane(LaneKind::Queue, "paging");
            let (lane, name) = (*once::make_alone(&self.lane, group), platform.trace_name(name));
            let span = Record::span(lane, Kind::Copy, name, start_ns, platform.stamp_ns());
            platform.record(span.queued(queued_ns).with_arg(bytes));
        }
    }

    /// Initialises save areas and releases their contexts.
    fn initialise_save_areas(&self, level: &Passive) -> Result<(), Stopped> {
        loop {
            let (content, uninitialised) = {
                let mut state = self.state.lock();
                let Some(content) = state.vidmm.next_content() else { return Ok(()) };
                let uninitialised = state.uninitialised.remove(&content.allocation);
                (content, uninitialised)
            };
            let Some(uninitialised) = uninitialised else { continue };
            // The area may have ended concurrently.
            if let Some(area) = uninitialised.area.upgrade() {
                let ended = {
                    let mut context = self.paging_context.lock_device();
                    self.open_context(level, &mut context).and_then(|context| {
                        context.initialise(level, content.allocation, area.at(), area.bytes)
                    })
                };
                // Retry after the reset, whose end wakes the pager.
                if ended == Ok(Ended::CutOff) {
                    let mut state = self.state.lock();
                    state.uninitialised.insert(content.allocation, uninitialised);
                    state.vidmm.retry_content(content);
                    return Ok(());
                }
                self.check_moved(level.into(), ended.map(|ended| ended == Ended::Done))?;
            }
            if let Some(holds) = self.holds.get() {
                holds.release_initialised(level, content.owner);
            }
            if let Some(done) = uninitialised.done {
                done.set(Step::ThreadWake);
            }
        }
    }

    /// Holds the contexts whose save areas must be evicted. Returns the save areas that no
    /// packet uses.
    // spec: PRE-016
    fn hold_contexts(&self) -> BTreeSet<AllocationId> {
        let areas = self.state.lock().vidmm.save_areas_to_hold();
        if areas.is_empty() {
            return BTreeSet::new();
        }
        let held = self.holds.get().map(|holds| holds.hold_for_move(areas));
        held.into_iter().flatten().collect()
    }

    /// Releases the contexts of save areas that have moved or will not move.
    fn release_contexts(&self, level: &Passive, ids: &[AllocationId]) {
        let contexts = self.state.lock().vidmm.contexts_of(ids);
        if !contexts.is_empty()
            && let Some(holds) = self.holds.get()
        {
            holds.release_moved(level, &contexts);
        }
    }

    /// Returns the paging context, creating it on first use. Its first packets initialise its own
    /// save areas.
    fn open_context<'a>(
        &self,
        level: &Passive,
        context: &'a mut Option<PagingContext>,
    ) -> Result<&'a mut PagingContext, Status> {
        match context {
            Some(context) => Ok(context),
            none => {
                let mut new = PagingContext::new(level, &self.driver, self.work()?)?;
                for (allocation, area) in self.save_areas.of(new.os_handle()) {
                    // A save area interrupted by a reset has no state to lose.
                    if let Err(status) = new.initialise(level, allocation, area.at(), area.bytes) {
                        new.end(level);
                        return Err(status);
                    }
                }
                Ok(none.insert(new))
            }
        }
    }
}
