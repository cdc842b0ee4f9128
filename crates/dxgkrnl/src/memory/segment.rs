//! Owns local memory of an adapter: who is in the segment that CPU and engines reach, and the
//! paging operations that make it so.
//!
//! Calls decide under the lock (`residency`, pure) and leave operations behind; an agent that lives
//! while there are any carries them out one after the other (`paging` says which is next, pure),
//! with no lock held. An operation, in order:
//! 1. nobody that leaves is in use, or engines are suspended;
//! 2. those that leave go to system memory;
//! 3. those that come go to local memory;
//! 4. the paging fence says so.
//!
//! GPU work is ordered by that fence: a queue waits for it before it uses what was asked for. What
//! is used earlier, or after it was given up, faults.
//!
//! Who leaves may be in use by work that waits for the very work which waits for its room. So an
//! operation waits for engines for `paging_patience_ns` and no longer: then what is in use stays,
//! and what does not fit for that is resident in system memory.
//!
//! Save areas of contexts are members too, which no call names. Engines have them wherever they
//! stand, so none comes in for its use. Before one leaves, VidSch holds its context, and its packet
//! comes off the engine: by its end or by a preemption, whose state goes along.
//!
//! A call never waits for an operation, but for an allocation that is to be resident from its first
//! moment and finds no room. Fence storage has its own moves (`fence::residency`) and shares the
//! room: what it takes is told to `set_fence_storage`.
//!
//! Power takes everything along and brings it back (`page_everything_out`, `page_held_in`): with no
//! operation under way, on the agent that changes the power and by its CPU, so that it waits
//! neither for an engine nor for an interrupt, both of which may be somebody who waits for the
//! power. Operations that are asked for wake the device first.
//!
//! `process`, `doorbell`, `allocation`, `power` and `fence::residency` call in; `transfer` and the
//! driver are called.

mod areas;
mod power;

pub(crate) use areas::begin_in_if_room;

use super::last_use::{self, UseMark};
use super::paging::{Next, Operation, PagingOrder, Present};
use super::residency::{Plan, Refusal, Residency};
use super::transfer::{Mover, PagingContext};
use super::{Affinity, AllocationObject};
use crate::adapter::Adapter;
use crate::device::Device;
use crate::error::BugCheck;
use crate::fence::{CreateFence, Fence, signal};
use crate::object::FenceObject;
use crate::stats::Count;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock, Weak};
use tidegate_calls::{
    NativeFenceType, PagingPriority, SegmentGroup, SignalFlags, Status, SyncObjectFlags,
    VideoMemoryInfo,
};
use tidegate_ddi::{OsHandle, VidSchCaps};
use tidegate_platform::{Event, Mutex, PhysicalMemory, Platform, Step, WaitEnd};
use tidegate_trace::{Kind, LaneId, LaneKind, Record};

/// A paging queue of a device.
pub(crate) struct PagingQueue {
    pub(crate) id: OsHandle,
    pub(crate) device: Arc<Device>,
    pub(crate) priority: PagingPriority,
    pub(crate) fence: Arc<FenceObject>,
    /// The last value that its fence was promised to reach.
    promised: Mutex<u64>,
}

impl PagingQueue {
    /// D3DKMTCreatePagingQueue. Its fence is native where there are native fences: user-mode queues
    /// wait for nothing else.
    // spec: RES-001
    pub(crate) fn new(
        device: &Arc<Device>,
        priority: PagingPriority,
    ) -> Result<Arc<PagingQueue>, Status> {
        let adapter = &device.adapter;
        let native = adapter.caps.scheduling.contains(VidSchCaps::NATIVE_GPU_FENCE);
        let fence = CreateFence {
            name: "paging",
            affinity: Affinity::ALL,
            initial_value: 0,
            // spec: RES-002
            flags: SyncObjectFlags::NO_SIGNAL,
            native: native.then_some(NativeFenceType::Default),
            private_data: [0; 64],
        };
        Ok(Arc::new(PagingQueue {
            id: adapter.new_handle(),
            device: device.clone(),
            priority,
            fence: Arc::new(FenceObject::create(device, &fence)?),
            promised: adapter.platform.mutex("a paging queue", 0),
        }))
    }
}

/// What is said when an operation is done.
#[derive(Default)]
struct Says {
    fence: Option<(Arc<Fence>, u64)>,
    event: Option<Event>,
    queued_ns: u64,
    /// What those who leave were last used by when that was decided. Whoever uses them since has
    /// asked for them again.
    last_uses: BTreeMap<u64, Arc<UseMark>>,
}

impl Says {
    fn is_idle(&self, id: u64) -> bool {
        self.last_uses.get(&id).is_none_or(|mark| mark.is_over())
    }
}

struct Member {
    allocation: Weak<AllocationObject>,
    bytes: u64,
    /// What may still use it; of the time when it lost its last reference.
    last_use: Option<Arc<UseMark>>,
    /// Of a save area: whose.
    context: Option<OsHandle>,
}

impl Member {
    /// A save area may be used by the next packet of its context: it leaves after those that nobody
    /// uses.
    fn is_idle(&self) -> bool {
        self.context.is_none() && self.last_use.as_ref().is_none_or(|mark| mark.is_over())
    }
}

/// A save area that has no content yet.
struct Fresh {
    allocation: OsHandle,
    /// The context that is held until then, or the device that it is of.
    context: OsHandle,
    area: Weak<AllocationObject>,
    /// Set when it has its content.
    done: Option<Event>,
}

struct State {
    residency: Residency<u64>,
    order: PagingOrder<u64, Says>,
    members: BTreeMap<u64, Member>,
    /// The members that are in at this moment, and how much each is.
    inside: BTreeMap<u64, u64>,
    /// The most that was in at one moment.
    most_bytes: u64,
    /// Save areas without content, which get it before anything else happens.
    fresh: VecDeque<Fresh>,
    /// An agent carries operations out, or gives save areas their content.
    running: bool,
    /// What the operation moves that is under way.
    moving: Option<Plan<u64>>,
    /// Who left local memory because its power goes or is gone: operations wait meanwhile. `None`
    /// while there is power.
    unpowered: Option<Vec<u64>>,
    /// The adapter is being reset: operations wait meanwhile.
    resetting: bool,
}

impl State {
    /// Whether an operation that is already decided moves the member: it is on its way out or in,
    /// or is still to leave.
    fn is_on_its_way(&self, id: u64) -> bool {
        let under_way = self.moving.as_ref().is_some_and(|plan| {
            plan.out.contains(&id) || plan.bring.contains(&id) && !self.inside.contains_key(&id)
        });
        under_way || self.order.leaving().any(|leaving| leaving == id)
    }

    /// A member is in from now on.
    fn enter(&mut self, id: u64, bytes: u64) {
        self.inside.insert(id, bytes);
        self.most_bytes = self.most_bytes.max(self.inside.values().sum());
    }

    /// Drops promises of room that members which stayed now occupy. Members that are yet to come
    /// stay outside until what is decided fits: those of `operation` first, then those of the
    /// newest operations.
    fn keep_promises_that_fit(&mut self, operation: &mut Operation<u64, Says>) {
        while self.residency.is_over() {
            let is_out = |id: &u64| !self.inside.contains_key(id) && self.residency.is_in(*id);
            let own = operation.plan.bring.iter().rev().copied().find(is_out);
            let Some(id) = own.or_else(|| self.order.coming().find(is_out)) else { return };
            self.keep_outside(operation, id);
        }
    }

    /// Keeps outside what an operation brings and does not fit beside what is in now.
    fn bring_what_fits(&mut self, operation: &mut Operation<u64, Says>) {
        loop {
            let occupied: u64 = self.inside.values().sum();
            let goes: u64 = operation.plan.out.iter().filter_map(|id| self.inside.get(id)).sum();
            let is_out = |id: &&u64| !self.inside.contains_key(*id);
            let mut coming = operation.plan.bring.iter().filter(is_out);
            let comes: u64 =
                coming.clone().filter_map(|id| self.members.get(id)).map(|m| m.bytes).sum();
            let last = coming.next_back().copied();
            match last.filter(|_| (occupied + comes).saturating_sub(goes) > self.residency.room()) {
                Some(id) => self.keep_outside(operation, id),
                None => return,
            }
        }
    }

    fn keep_outside(&mut self, operation: &mut Operation<u64, Says>, id: u64) {
        operation.keep_outside(id);
        self.order.keep_outside(id);
        self.residency.stays_out(id);
    }

    /// Whether anybody is yet to leave or to come: else what is decided is what is.
    fn is_changing(&self) -> bool {
        self.moving.is_some() || !self.order.is_empty()
    }
}

/// Local memory of an adapter.
pub(crate) struct LocalMemory {
    segment: Option<PhysicalMemory>,
    state: Mutex<State>,
    /// Something happened that the agent may wait for.
    news: Event,
    /// Where operations run; made with the first of them, gone after stop.
    context: Mutex<Option<PagingContext>>,
    lane: OnceLock<LaneId>,
}

/// Budget and use of an adapter's local memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalMemoryUse {
    /// How much there is.
    pub capacity_bytes: u64,
    /// Most of it that was in use by allocations at one moment.
    pub most_bytes: u64,
    /// How much of it allocations use now.
    pub used_bytes: u64,
}

impl LocalMemory {
    pub(crate) fn new(
        platform: &Platform,
        segments: &[tidegate_ddi::memory::Segment],
    ) -> LocalMemory {
        let segment = segments.iter().find(|s| s.cpu_visible);
        let state = State {
            residency: Residency::new(segment.map_or(0, |s| s.bytes)),
            order: PagingOrder::new(),
            members: BTreeMap::new(),
            inside: BTreeMap::new(),
            most_bytes: 0,
            fresh: VecDeque::new(),
            running: false,
            moving: None,
            unpowered: None,
            resetting: false,
        };
        LocalMemory {
            segment: segment.map(|s| s.memory.clone()),
            state: platform.mutex("local memory", state),
            news: platform.event(false),
            context: platform.mutex("the paging context", None),
            lane: OnceLock::new(),
        }
    }

    /// The segment, if there is one.
    pub(crate) fn segment(&self) -> Option<&PhysicalMemory> {
        self.segment.as_ref()
    }

    /// NOT_SUPPORTED without a segment.
    pub(crate) fn has_segment(&self) -> Result<(), Status> {
        self.segment.as_ref().map(drop).ok_or(Status::NOT_SUPPORTED)
    }

    /// Ends the paging context, and forgets operations that nobody carries out any more: the
    /// adapter stops.
    pub(crate) fn stop(&self) {
        let context = self.context.lock().take();
        let left = std::mem::replace(&mut self.state.lock().order, PagingOrder::new());
        drop((context, left));
    }

    pub(crate) fn add(&self, allocation: &Arc<AllocationObject>) {
        let mut state = self.state.lock();
        let (id, bytes) = (allocation.id, allocation.bytes);
        state.residency.add(id, allocation.owner(), bytes);
        let (context, allocation) = (allocation.context(), Arc::downgrade(allocation));
        state.members.insert(id, Member { allocation, bytes, last_use: None, context });
    }

    /// Something that the agent may wait for has happened elsewhere.
    pub(crate) fn look_again(&self) {
        self.news.set(Step::ThreadWake);
    }

    /// An allocation is gone, `local_bytes` of it from local memory.
    pub(crate) fn remove(&self, id: u64, local_bytes: u64) {
        let member = {
            let mut state = self.state.lock();
            state.residency.remove(id);
            state.order.forget(id);
            if local_bytes > 0 {
                state.inside.remove(&id);
            }
            state.members.remove(&id)
        };
        // Who waits for room, or for this one, looks again.
        if member.is_some() {
            self.news.set(Step::ThreadWake);
        }
    }

    /// Fence storage takes so much of the segment from now on.
    pub(crate) fn set_fence_storage(&self, adapter: &Arc<Adapter>, bytes: u64) {
        let Some(_) = &self.segment else { return };
        let mut state = self.state.lock();
        state.residency.set_taken(bytes);
        let room = state.residency.room();
        if state.residency.committed() > room {
            let State { residency, members, .. } = &mut *state;
            let plan = residency.trim(room, |id| is_idle(members, id));
            self.leave(adapter, state, Operation::of_kernel(plan, Says::default()));
        }
    }

    /// Leaves an operation to be carried out, and sees to it that somebody does. Takes the lock's
    /// guard, and drops it.
    fn leave(
        &self,
        adapter: &Arc<Adapter>,
        mut state: tidegate_platform::MutexGuard<'_, State>,
        mut operation: Operation<u64, Says>,
    ) {
        operation.says.queued_ns = adapter.platform.stamp_ns();
        for id in &operation.plan.out {
            if let Some(mark) = state.members.get(id).and_then(|m| m.last_use.clone()) {
                operation.says.last_uses.insert(*id, mark);
            }
        }
        state.order.push(operation);
        self.see_to_it(adapter, state);
    }

    /// Sees to it that somebody carries out what was left. Takes the lock's guard, and drops it.
    fn see_to_it(
        &self,
        adapter: &Arc<Adapter>,
        mut state: tidegate_platform::MutexGuard<'_, State>,
    ) {
        let starts = !std::mem::replace(&mut state.running, true);
        drop(state);
        self.news.set(Step::ThreadWake);
        if starts {
            let pager = adapter.clone();
            adapter.platform.spawn("paging", move || pager.memory.carry_out_all(&pager));
        }
    }

    /// The agent that pages: until there is nothing more.
    fn carry_out_all(&self, adapter: &Arc<Adapter>) {
        loop {
            if !self.initialise_fresh(adapter) {
                return;
            }
            let quiet = self.hold_leaving(adapter);
            match self.next(&quiet) {
                Next::Run(operation) => {
                    if !self.carry_out(adapter, operation) {
                        return;
                    }
                }
                Next::Await(in_use) => {
                    let what =
                        format!("{} allocations in use, whose room others wait for", in_use.len());
                    let patience =
                        (!in_use.is_empty()).then_some(adapter.config.paging_patience_ns);
                    let deadline = patience.map(|ns| adapter.platform.now().after(ns));
                    match self.news.wait_for(deadline, &what) {
                        WaitEnd::Woken => {}
                        WaitEnd::TimedOut => {
                            if let Some((operation, held)) = self.make_do(&quiet)
                                && !(self.carry_out(adapter, operation)
                                    && self.release(adapter, &held))
                            {
                                return;
                            }
                        }
                        WaitEnd::Stopped => return,
                    }
                }
                Next::Idle => return,
            }
        }
    }

    /// `false` when the machine stopped. A driver that cannot do it has broken its contract;
    /// whoever waits for it must not wait for ever.
    fn is_done(&self, adapter: &Arc<Adapter>, done: Result<bool, Status>) -> bool {
        let failed = |status| {
            adapter.bug_check(BugCheck::DdiFailed { ddi: "DxgkDdiBuildPagingBuffer", status });
            true
        };
        done.unwrap_or_else(failed)
    }

    /// `quiet`: save areas that no packet can use.
    fn next(&self, quiet: &BTreeSet<u64>) -> Next<u64, Says> {
        let mut state = self.state.lock();
        let State { residency, order, members, inside, unpowered, fresh, resetting, .. } =
            &mut *state;
        if unpowered.is_some() || *resetting {
            return Next::Await(Vec::new());
        }
        let present = Present {
            room: residency.room(),
            occupied: inside.values().sum(),
            // A member that stayed outside has nothing to leave.
            is_idle: |says: &Says, id| {
                !inside.contains_key(&id) || says.is_idle(id) && is_quiet(members, quiet, id)
            },
            bytes_in: |id| match inside.contains_key(&id) {
                true => 0,
                false => members.get(&id).map_or(0, |m| m.bytes),
            },
            bytes_out: |id| inside.get(&id).copied().unwrap_or(0),
        };
        match order.next(&present) {
            // One that came since they were looked at; that is news.
            Next::Idle if !fresh.is_empty() => Next::Await(Vec::new()),
            // Whoever leaves an operation from here on starts another agent.
            Next::Idle => {
                state.running = false;
                Next::Idle
            }
            Next::Run(mut operation) => {
                state.bring_what_fits(&mut operation);
                state.moving = Some(operation.plan.clone());
                Next::Run(operation)
            }
            next => {
                state.moving = None;
                next
            }
        }
    }

    /// The oldest operation, without those whom it cannot send out, and without those who do not
    /// fit then; and who stays.
    // spec: RES-008
    fn make_do(&self, quiet: &BTreeSet<u64>) -> Option<(Operation<u64, Says>, Vec<u64>)> {
        let mut state = self.state.lock();
        let mut operation = state.order.take_oldest()?;
        let State { residency, members, inside, .. } = &mut *state;
        let out = std::mem::take(&mut operation.plan.out);
        let leaves = |id: &u64| {
            !inside.contains_key(id) || operation.says.is_idle(*id) && is_quiet(members, quiet, *id)
        };
        let (leave, stay): (Vec<u64>, Vec<u64>) = out.into_iter().partition(leaves);
        operation.plan.out = leave;
        stay.iter().for_each(|id| residency.stays(*id));
        state.keep_promises_that_fit(&mut operation);
        state.bring_what_fits(&mut operation);
        state.moving = Some(operation.plan.clone());
        Some((operation, stay))
    }

    /// `false` when the machine stopped meanwhile.
    fn carry_out(&self, adapter: &Arc<Adapter>, operation: Operation<u64, Says>) -> bool {
        let Some(local) = &self.segment else { return false };
        let mut context = self.context.lock_device();
        let moved = self.move_all(adapter, local, &mut context, &operation);
        drop(context);
        if !self.is_done(adapter, moved) {
            return false;
        }
        self.release(adapter, &operation.plan.out);
        // Said in any case: a device that is lost is lost already, and whoever waits must not wait
        // for ever.
        // spec: RES-005
        if let Some((fence, value)) = operation.says.fence {
            signal::signal(&[(fence, value)], SignalFlags::ALLOW_FENCE_REWIND);
        }
        if let Some(event) = operation.says.event {
            event.set(Step::ThreadWake);
        }
        true
    }

    fn move_all(
        &self,
        adapter: &Arc<Adapter>,
        local: &PhysicalMemory,
        context: &mut Option<PagingContext>,
        operation: &Operation<u64, Says>,
    ) -> Result<bool, Status> {
        let sides = [(&operation.plan.out, false), (&operation.plan.bring, true)];
        for (ids, comes) in sides {
            for id in ids {
                let Some(allocation) = self.allocation(*id) else { continue };
                if allocation.is_local() == comes || (comes && self.stays_outside(&allocation)) {
                    continue;
                }
                let by = Mover::Engine(begun(context, adapter)?);
                if !self.move_one(
                    adapter,
                    local,
                    &allocation,
                    comes,
                    by,
                    operation.says.queued_ns,
                )? {
                    return Ok(false);
                }
            }
        }
        let outside = operation.outside.iter().filter_map(|id| self.allocation(*id));
        outside
            .filter(|allocation| !allocation.is_mapped())
            .for_each(|allocation| allocation.map());
        Ok(true)
    }

    /// `false` when the machine stopped meanwhile.
    fn move_one(
        &self,
        adapter: &Adapter,
        local: &PhysicalMemory,
        allocation: &AllocationObject,
        comes: bool,
        by: Mover<'_>,
        queued_ns: u64,
    ) -> Result<bool, Status> {
        let start_ns = adapter.platform.stamp_ns();
        let moved = match comes {
            true => allocation.page_in(local, by)?,
            false => allocation.page_out(local, by)?,
        };
        if moved {
            self.note_moved(adapter, allocation, comes, (queued_ns, start_ns));
        }
        Ok(moved)
    }

    /// Whether engines have it in system memory, and may use it there: then it stays there for this
    /// time.
    fn stays_outside(&self, allocation: &AllocationObject) -> bool {
        if !allocation.is_mapped() {
            return false;
        }
        let mut state = self.state.lock();
        let in_use =
            state.residency.is_shared(allocation.id) || !is_idle(&state.members, allocation.id);
        if in_use {
            state.residency.stays_out(allocation.id);
        }
        in_use
    }

    fn allocation(&self, id: u64) -> Option<Arc<AllocationObject>> {
        self.state.lock().members.get(&id)?.allocation.upgrade()
    }

    fn note_moved(
        &self,
        adapter: &Adapter,
        allocation: &AllocationObject,
        comes: bool,
        (queued_ns, start_ns): (u64, u64),
    ) {
        let bytes = allocation.bytes;
        {
            let mut state = self.state.lock();
            match comes {
                true => state.enter(allocation.id, bytes),
                false => _ = state.inside.remove(&allocation.id),
            }
        }
        let (count, name) = match comes {
            true => (Count::allocations_paged_in, "page in"),
            false => (Count::allocations_paged_out, "page out"),
        };
        adapter.count(count);
        adapter.stats.add(Count::bytes_paged, bytes);
        let platform = &adapter.platform;
        if platform.tracing() {
            let lane = *self
                .lane
                .get_or_init(|| platform.lane(LaneKind::Queue, &adapter.lane_group(), "paging"));
            let name = platform.trace_name(name);
            let span = Record::span(lane, Kind::Copy, name, start_ns, platform.stamp_ns());
            platform.record(span.queued(queued_ns).with_arg(bytes));
        }
    }

    /// One more reference for each, and what must be brought in for it; see
    /// [`tidegate_calls::Kernel::make_resident`].
    pub(crate) fn make_resident(
        &self,
        queue: &PagingQueue,
        allocations: &[Arc<AllocationObject>],
    ) -> Result<tidegate_calls::Residency, Status> {
        let adapter = &queue.device.adapter;
        let _awake = adapter.awake();
        let ids: Vec<u64> = allocations.iter().filter(|a| a.moves()).map(|a| a.id).collect();
        let mut state = self.state.lock();
        let State { residency, members, .. } = &mut *state;
        let plan = match residency.make_resident(&ids, |id| is_idle(members, id)) {
            Ok(plan) => plan,
            Err(Refusal::Trim { bytes }) => {
                return Ok(tidegate_calls::Residency::OverBudget { bytes_to_trim: bytes });
            }
            Err(Refusal::Unknown) => return Err(Status::INVALID_PARAMETER),
        };
        for allocation in allocations {
            if let Some(references) = allocation.own_references() {
                *references.lock() += 1;
            }
        }
        // Who is to be in already may still be on its way.
        if plan.is_empty()
            && !ids.iter().any(|id| state.order.names(*id))
            && ids.iter().all(|id| state.inside.contains_key(id))
        {
            return Ok(tidegate_calls::Residency::Resident);
        }
        let paging_fence_value = {
            let mut promised = queue.promised.lock();
            *promised += 1;
            *promised
        };
        let says = Says {
            fence: Some((queue.fence.fence.clone(), paging_fence_value)),
            ..Says::default()
        };
        let plan = Plan { bring: ids, ..plan };
        let (queue, priority) = (Some(queue.id.0), queue.priority);
        self.leave(adapter, state, Operation { queue, priority, plan, outside: Vec::new(), says });
        // spec: RES-003
        Ok(tidegate_calls::Residency::Pending { paging_fence_value })
    }

    /// Whether these could be held together.
    pub(crate) fn can_hold(&self, allocations: &[Arc<AllocationObject>]) -> bool {
        let ids: Vec<u64> = allocations.iter().filter(|a| a.moves()).map(|a| a.id).collect();
        ids.is_empty() || self.state.lock().residency.can_hold(&ids)
    }

    /// Has these paged in and holds them by a reference each, until `let_go_after`. Blocks while
    /// others leave.
    pub(crate) fn hold(
        &self,
        adapter: &Arc<Adapter>,
        allocations: &[Arc<AllocationObject>],
    ) -> Result<(), Status> {
        let _awake = adapter.awake();
        let ids: Vec<u64> = allocations.iter().filter(|a| a.moves()).map(|a| a.id).collect();
        let mut state = self.state.lock();
        let State { residency, members, .. } = &mut *state;
        let plan = residency
            .make_resident(&ids, |id| is_idle(members, id))
            .map_err(|_| Status::NO_MEMORY)?;
        for references in allocations.iter().filter_map(|a| a.own_references()) {
            *references.lock() += 1;
        }
        let on_its_way =
            ids.iter().any(|id| state.order.names(*id) || !state.inside.contains_key(id));
        if plan.is_empty() && !on_its_way {
            return Ok(());
        }
        self.carry_out_now(adapter, state, Plan { bring: ids, ..plan })
    }

    /// Lets them go again: they leave when all that the device has queued by now is complete.
    /// Returns what stands for that, if it is not.
    pub(crate) fn let_go_after(
        &self,
        device: &Arc<Device>,
        allocations: &[Arc<AllocationObject>],
    ) -> Option<Arc<UseMark>> {
        let mark = last_use::mark(device, &self.news);
        // They were held, so there is a reference of each to be taken.
        let _held = self.evict_after(mark.clone(), allocations);
        mark
    }

    /// One reference less for each; all or nothing.
    pub(crate) fn evict(
        &self,
        device: &Arc<Device>,
        allocations: &[Arc<AllocationObject>],
    ) -> Result<(), Status> {
        // What is queued by now may use them; found out before the lock, since it asks other rooms.
        let mark = last_use::mark(device, &self.news);
        self.evict_after(mark, allocations)
    }

    fn evict_after(
        &self,
        mark: Option<Arc<UseMark>>,
        allocations: &[Arc<AllocationObject>],
    ) -> Result<(), Status> {
        let taken_from = |a: &Arc<AllocationObject>| {
            allocations.iter().filter(|other| Arc::ptr_eq(a, other)).count() as u32
        };
        let mut state = self.state.lock();
        for allocation in allocations {
            let has = match allocation.own_references() {
                Some(references) => *references.lock(),
                None => state.residency.references(allocation.id),
            };
            if has < taken_from(allocation) {
                return Err(Status::INVALID_PARAMETER);
            }
        }
        for allocation in allocations {
            match allocation.own_references() {
                Some(references) => *references.lock() -= 1,
                None => {
                    let left = state.residency.release(allocation.id);
                    if left == Some(0)
                        && let Some(member) = state.members.get_mut(&allocation.id)
                    {
                        member.last_use = mark.clone();
                    }
                }
            }
        }
        Ok(())
    }

    /// A kernel object needs it where it is from now on; INVALID_PARAMETER when its process did not
    /// make it resident, or did and has not waited for the paging fence.
    pub(crate) fn pin(&self, allocation: &AllocationObject) -> Result<(), Status> {
        let _awake = allocation.device.adapter.awake();
        let pinned = match allocation.own_references() {
            Some(references) => *references.lock() > 0,
            None => {
                let mut state = self.state.lock();
                allocation.is_mapped()
                    && !state.is_on_its_way(allocation.id)
                    && state.residency.pin(allocation.id)
            }
        };
        if pinned { Ok(()) } else { Err(Status::INVALID_PARAMETER) }
    }

    /// The object is gone.
    pub(crate) fn unpin(&self, allocation: &AllocationObject) {
        if allocation.moves() {
            self.state.lock().residency.unpin(allocation.id);
        }
    }

    /// What the processes of `device` may count on. Of system memory there is as much as they want.
    pub(crate) fn info(&self, group: SegmentGroup, owners: &[OsHandle]) -> VideoMemoryInfo {
        match group {
            SegmentGroup::NonLocal => VideoMemoryInfo { budget: u64::MAX, current_usage: 0 },
            SegmentGroup::Local => {
                let owners: Vec<u64> = owners.iter().map(|o| o.0).collect();
                let (budget, current_usage) = self.state.lock().residency.budget_of(&owners);
                VideoMemoryInfo { budget, current_usage }
            }
        }
    }

    /// Leaves an operation and blocks until it was carried out.
    fn carry_out_now(
        &self,
        adapter: &Arc<Adapter>,
        state: tidegate_platform::MutexGuard<'_, State>,
        plan: Plan<u64>,
    ) -> Result<(), Status> {
        let done = adapter.platform.event(true);
        let says = Says { event: Some(done.clone()), ..Says::default() };
        self.leave(adapter, state, Operation::of_kernel(plan, says));
        match done.wait_for(None, "room in local memory") {
            WaitEnd::Stopped => Err(Status::CANCELLED),
            _ => adapter.check(),
        }
    }
}

impl Operation<u64, Says> {
    fn of_kernel(plan: Plan<u64>, says: Says) -> Operation<u64, Says> {
        let (priority, outside) = (PagingPriority::AboveNormal, Vec::new());
        Operation { queue: None, priority, plan, outside, says }
    }
}

/// The paging context, made when it is wanted first.
fn begun<'a>(
    context: &'a mut Option<PagingContext>,
    adapter: &Arc<Adapter>,
) -> Result<&'a mut PagingContext, Status> {
    match context {
        Some(there) => Ok(there),
        none => Ok(none.insert(PagingContext::new(adapter)?)),
    }
}

/// Whether no packet can use it, if it is a save area.
fn is_quiet(members: &BTreeMap<u64, Member>, quiet: &BTreeSet<u64>, id: u64) -> bool {
    members.get(&id).is_none_or(|m| m.context.is_none()) || quiet.contains(&id)
}

fn is_idle(members: &BTreeMap<u64, Member>, id: u64) -> bool {
    members.get(&id).is_none_or(Member::is_idle)
}

/// A new allocation is resident from its first moment: at once where there is room, else when
/// others have left.
pub(crate) fn make_resident_now(
    adapter: &Arc<Adapter>,
    allocation: &Arc<AllocationObject>,
) -> Result<(), Status> {
    let memory = &adapter.memory;
    let _awake = adapter.awake();
    let mut state = memory.state.lock();
    let State { residency, members, .. } = &mut *state;
    let plan = residency.make_resident(&[allocation.id], |id| is_idle(members, id));
    let plan = plan.map_err(|_| Status::NO_MEMORY)?;
    // No operation is under way: what is decided is what is.
    if plan.out.is_empty() && !state.is_changing() {
        state.enter(allocation.id, allocation.bytes);
        drop(state);
        if let Some(local) = &memory.segment {
            allocation.begin_in(local);
        }
        return Ok(());
    }
    memory.carry_out_now(adapter, state, plan)
}

impl Adapter {
    /// Local memory now.
    pub fn local_memory_use(&self) -> LocalMemoryUse {
        let state = self.memory.state.lock();
        LocalMemoryUse {
            capacity_bytes: state.residency.capacity(),
            most_bytes: state.most_bytes,
            used_bytes: state.inside.values().sum(),
        }
    }
}
