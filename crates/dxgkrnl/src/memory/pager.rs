//! The pager: the agent that carries out paging operations, one after the other, with no lock held.
//!
//! An operation, in order:
//! 1. no engine uses what it evicts, or the wait for engines has timed out;
//! 2. evictions go to system memory;
//! 3. the others are paged in;
//! 4. its paging fence is signalled, or its event set.
//!
//! A save area, in order: 1. its context is held; 2. no packet of it is on an engine, by its end or
//! by a preemption, whose state goes along; 3. the bytes are carried over; 4. the context continues.

use super::allocation::AllocationObject;
use super::local_memory::{Completion, Memory, Uninitialised};
use super::paging_context::{Carrier, Ended, PagingContext};
use super::use_mark::UseMark;
use crate::error::BugCheck;
use crate::stats::Count;
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::{Irql, OsHandle, Passive};
use tidegate_platform::{Event, Step, WaitEnd};
use tidegate_trace::{Kind, LaneKind, Record};
use tidegate_vidmm::{AllocationId, InitialContent, Next, Start};

type Operation = tidegate_vidmm::Operation<UseMark, Completion>;

/// The machine stopped: the agent ends at once.
struct Stopped;

impl Memory {
    /// Starts the pager if VidMm says so, and wakes it.
    pub(super) fn start_pager(self: &Arc<Memory>, start: Start) {
        self.wake_pager();
        if start == Start::Now {
            let memory = self.clone();
            self.driver
                .platform
                .spawn("paging", move || _ = memory.carry_out_all(&Passive::enter()));
        }
    }

    /// A save area is to get its initial content. Its context is held until then, and `done` is
    /// set.
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

    /// The pager, until nothing is queued.
    fn carry_out_all(&self, level: &Passive) -> Result<(), Stopped> {
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

    /// Waits until anything has changed. When engines keep `in_use` for too long, carries out the
    /// oldest operation without it.
    fn wait_for_engines(
        &self,
        level: &Passive,
        in_use: &[AllocationId],
        quiet: &BTreeSet<AllocationId>,
    ) -> Result<(), Stopped> {
        let what = format!("{} allocations in use, whose room others wait for", in_use.len());
        let deadline = self.state.lock().vidmm.deadline(in_use, self.driver.platform.now());
        match self.changed.wait_for(deadline, &what) {
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
        // 4. In any case, also when the driver failed: waiters must not wait for ever.
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

    /// `moved`: whether the machine did not stop. A driver that refuses a paging operation breaks
    /// its contract.
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

    /// Moves one allocation. `false` when the machine stopped meanwhile.
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
            self.note_moved((id, allocation.bytes), to_local, (queued_ns, start_ns));
        }
        Ok(moved)
    }

    pub(super) fn note_moved(
        &self,
        (id, bytes): (AllocationId, u64),
        to_local: bool,
        (queued_ns, start_ns): (u64, u64),
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
            let group = || platform.lane(LaneKind::Queue, &self.driver.lane_group(), "paging");
            let (lane, name) = (*self.lane.get_or_init(group), platform.trace_name(name));
            let span = Record::span(lane, Kind::Copy, name, start_ns, platform.stamp_ns());
            platform.record(span.queued(queued_ns).with_arg(bytes));
        }
    }

    /// Gives save areas their initial content, and their contexts continue.
    fn initialise_save_areas(&self, level: &Passive) -> Result<(), Stopped> {
        loop {
            let (content, uninitialised) = {
                let mut state = self.state.lock();
                let Some(content) = state.vidmm.next_content() else { return Ok(()) };
                let uninitialised = state.uninitialised.remove(&content.allocation);
                (content, uninitialised)
            };
            let Some(uninitialised) = uninitialised else { continue };
            // It may have ended meanwhile.
            if let Some(area) = uninitialised.area.upgrade() {
                let ended = {
                    let mut context = self.paging_context.lock_device();
                    self.open_context(level, &mut context).and_then(|context| {
                        context.initialise(level, content.allocation, area.at(), area.bytes)
                    })
                };
                // Once more after the reset, whose end wakes the pager.
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

    /// Holds the contexts whose save areas are to be evicted. Returns the save areas that no packet
    /// uses.
    // spec: PRE-016
    fn hold_contexts(&self) -> BTreeSet<AllocationId> {
        let areas = self.state.lock().vidmm.save_areas_to_hold();
        if areas.is_empty() {
            return BTreeSet::new();
        }
        let held = self.holds.get().map(|holds| holds.hold_for_move(areas));
        held.into_iter().flatten().collect()
    }

    /// Save areas have moved, or stay: their contexts continue.
    fn release_contexts(&self, level: &Passive, ids: &[AllocationId]) {
        let contexts = self.state.lock().vidmm.contexts_of(ids);
        if !contexts.is_empty()
            && let Some(holds) = self.holds.get()
        {
            holds.release_moved(level, &contexts);
        }
    }

    /// The paging context, made when it is first wanted. Its own save areas get their content by
    /// its first packets.
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
                    // One that a reset cuts off has no state to lose.
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
