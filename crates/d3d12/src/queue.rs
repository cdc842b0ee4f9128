//! Queues as an application sees them: execute, wait and signal return at once and take effect in
//! call order.
//!
//! The checks, the lane and the records of calls are here; `umd::queue` submits. What was executed
//! is submitted before the call returns. When the ring of a user-mode queue is full it goes into
//! the backlog, before every later wait and signal.

use crate::counters::{EngineStats, QueueStats};
use crate::device_loss::InvalidCall;
use crate::error::{Error, Result};
use crate::fence::Fence;
use crate::hazards;
use crate::list::{AnyList, ClosedList};
use crate::model::{CommandListType, Heap, QueueDesc, QueueOptions, ResidencyChoice, Submission};
use crate::resource::tiles::{TILE_BYTES, TileMapping};
use crate::resource::{Buffer, ResourceHeap};
use crate::retired_queues::QueueHandle;
use crate::shared_device::{RecordedCall, SharedDevice};
use crate::state_tracker::StateTracker;
use crate::states::violation::StateViolation;
use crate::umd::allocator::{Misuse, SubmittedLists};
use crate::umd::failure::Failure;
use crate::umd::queue::{UmdQueue, timeline_name};
use crate::umd::queue_identity::{DISABLE_GPU_TIMEOUT, QueueIdentity};
use std::fmt;
use std::sync::{Arc, Weak};
use tidegate_calls::{Priority, Status, TileOperation};
use tidegate_platform::{Platform, QueueNumber};
use tidegate_trace::{Kind, LaneId, LaneKind, NameId, Record};

// spec: ME-004, ME-014, ME-019
/// A queue. Concurrent calls are carried out one after the other.
///
/// After its last handle is dropped, a queue still runs what was queued: lists, signals and waits.
/// It ends when that is complete, or with its device: when the last handle of the device and of
/// everything made with it is gone.
#[doc(alias = "ID3D12CommandQueue")]
#[derive(Clone)]
pub struct Queue {
    pub(crate) inner: Arc<QueueHandle>,
    pub(crate) device: Arc<SharedDevice>,
    lane: Option<LaneId>,
}

/// Returns the error of a missing privilege with the name of the queue and the next step.
fn name_privilege(error: Error, queue: &str, priority: Priority) -> Error {
    let (wanted, instead) = match &error {
        Error::Call {
            call, status: Status::ACCESS_DENIED | Status::PRIVILEGE_NOT_HELD, ..
        } => match *call {
            DISABLE_GPU_TIMEOUT => ("DISABLE_GPU_TIMEOUT", "without that flag"),
            _ if priority == Priority::Realtime => ("realtime", "with priority high"),
            _ => return error,
        },
        _ => return error,
    };
    Error::PrivilegeNotHeld { queue: queue.to_owned(), wanted, instead }
}

impl Queue {
    pub(crate) fn new(
        device: &Arc<SharedDevice>,
        desc: QueueDesc,
        options: QueueOptions,
        lane: Option<LaneId>,
    ) -> Result<Queue> {
        let umd = &device.umd;
        let node_ordinal = node(device, &desc)?;
        check_node_mask(device, &desc)?;
        let submission = submission_on(device, &desc, node_ordinal)?;
        let QueueDesc { name, list_type, priority, flags, node_mask, engines, .. } = desc;
        // spec: ME-018
        let group = &umd.options.process_name;
        let traced = Arc::new(umd.platform.trace_lane(LaneKind::Queue, group, &name));
        let id = QueueIdentity {
            lane: traced.id(),
            traced,
            device: Arc::clone(umd),
            name: name.clone(),
            list_type,
            node_ordinal,
            engine_affinity: node_mask,
            priority,
            flags,
            on_abort: options.on_abort,
            checked: hazards::add_queue(umd, &name),
        };
        let inner = UmdQueue::new(id, submission, engines).map_err(|failure| {
            name_privilege(device.queue_error(&name, *failure), &name, priority)
        })?;
        let inner = Arc::new(inner);
        device.add_queue(&inner);
        let handle = QueueHandle::new(inner, &device.retired);
        Ok(Queue::of(Arc::new(handle), device, lane))
    }

    /// Returns the submission model of a queue of this description.
    pub(crate) fn submission_for(device: &SharedDevice, desc: &QueueDesc) -> Result<Submission> {
        submission_on(device, desc, node(device, desc)?)
    }

    /// Returns a handle of an existing queue.
    pub(crate) fn of(
        inner: Arc<QueueHandle>,
        device: &Arc<SharedDevice>,
        lane: Option<LaneId>,
    ) -> Queue {
        Queue { inner, device: Arc::clone(device), lane }
    }

    /// Returns a handle of the queue for a CPU thread with the timeline lane `lane`, which records
    /// the thread's calls.
    pub fn on_lane(&self, lane: LaneId) -> Queue {
        Queue { lane: Some(lane), ..self.clone() }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.inner.id.name
    }

    /// Returns its description as it is now: with the node and the submission model that were
    /// chosen for it, with the node mask 1 in place of 0, and with
    /// [`EnginePolicy::Own`](crate::EnginePolicy::Own) where the adapter has no other engine for
    /// it.
    #[doc(alias = "GetDesc")]
    pub fn desc(&self) -> QueueDesc {
        let id = &self.inner.id;
        QueueDesc {
            name: id.name.clone(),
            list_type: id.list_type,
            priority: id.priority,
            submission: Some(self.submission()),
            flags: id.flags,
            node: Some(id.node_ordinal),
            node_mask: id.engine_affinity.max(1),
            engines: self.inner.policy(),
        }
    }

    /// Returns the options that it was created with.
    pub fn options(&self) -> QueueOptions {
        QueueOptions { on_abort: self.inner.id.on_abort }
    }

    /// The kernel's numbers of what runs its work: reports and statistics name it by these. A queue
    /// has one for each engine that it drives. One that was recreated has more, the newest last.
    pub fn numbers(&self) -> Vec<QueueNumber> {
        self.inner.id.device.platform.queues_on(self.inner.id.lane)
    }

    /// Returns the type of its lists.
    pub fn list_type(&self) -> CommandListType {
        self.inner.id.list_type
    }

    /// How its work reaches the engine of its node now: a user-mode queue may have become a
    /// hardware queue, see [`crate::OnAbort`].
    pub fn submission(&self) -> Submission {
        self.inner.submission()
    }

    /// Returns the statistics of each engine that it drives, its own node's first.
    pub fn engines(&self) -> Vec<EngineStats> {
        self.inner.engines()
    }

    /// Slots of the ring on its own engine; `None` for a queue that has none: the software queues
    /// behind packet and hardware queues take any number of submissions.
    pub fn ring_slots(&self) -> Option<u64> {
        self.inner.ring_slots()
    }

    /// Returns its lane of the timeline.
    pub fn timeline_lane(&self) -> LaneId {
        self.inner.id.lane
    }

    /// Returns its statistics.
    pub fn stats(&self) -> QueueStats {
        self.inner.stats()
    }

    /// Connects the doorbell of each engine that it drives as a user-mode queue, so that its next
    /// submission does not have to. Another queue may be victimised by it, and may victimise it
    /// again. No effect for a queue of another model.
    ///
    /// # Errors
    /// As [`Queue::execute`].
    #[track_caller]
    pub fn connect_doorbells(&self) -> Result<()> {
        let _call = self.platform().enter_call("Queue::connect_doorbells");
        let done = self.inner.connect_doorbells();
        done.map_err(|failure| self.device.queue_error(self.name(), *failure))
    }

    /// Blocks until everything that was queued before the call is complete.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::DeviceRemoved`]; an error of an earlier submission, as
    /// [`Queue::execute`].
    #[track_caller]
    pub fn wait_idle(&self) -> Result<()> {
        let _call = self.platform().enter_call("Queue::wait_idle");
        self.device.wait_idle(&self.inner)
    }

    fn states(&self) -> Option<(&StateTracker, &QueueIdentity)> {
        self.device.states.as_ref().map(|states| (states, &*self.inner.id))
    }

    // spec: ME-021, ME-023, ME-027, ME-022
    /// Submits lists as one ordered unit, behind everything that was queued before. Returns at
    /// once: what the ring of a user-mode queue has no room for is submitted as it drains. An error
    /// of such a submission is returned by a later call of the queue; the work of that call is
    /// queued nonetheless.
    ///
    /// # Errors
    /// [`Error::WrongQueue`], [`Error::Foreign`], [`Error::TooManyLists`];
    /// [`Error::DeviceRemoved`], also for a list that breaks a rule of its
    /// [`crate::CommandAllocator`]; [`Error::QueueAborted`], [`Error::WorkLost`],
    /// [`Error::Stopped`].
    #[doc(alias = "ExecuteCommandLists")]
    #[track_caller]
    pub fn execute(&self, lists: &[&ClosedList]) -> Result<()> {
        let _call = self.platform().enter_call("Queue::execute");
        let id = &self.inner.id;
        let mut of_allocators = false;
        for list in lists {
            if !self.device.owns(list.device()) || list.list_type != id.list_type {
                return Err(self.refusal_of_list(list));
            }
            of_allocators |= list.allocator.is_some();
        }
        let Some(first) = lists.first() else { return Ok(()) };
        let submission = if of_allocators { Some(self.begin_submission(lists)?) } else { None };
        if let Some((states, id)) = self.states() {
            let lists = lists.iter().filter_map(|list| list.states.clone()).collect();
            if let Some(violation) = states.execute(id, lists) {
                drop(submission);
                return Err(self.remove_for_state(&violation));
            }
        }
        let call = self.begin_call();
        let queued = self.inner.record_queued(lists);
        hazards::execute(self.platform(), id.checked, queued.link, lists);
        let result = self.inner.execute(lists, queued);
        drop(submission);
        if call.is_none() && result.is_ok() {
            return Ok(());
        }
        self.end_call(call, result, |mut record| {
            record.name = timeline_name(first);
            record.linked(queued.link).with_arg(lists.len() as u64)
        })
    }

    // spec: ME-029
    /// As [`Queue::execute`], for a program that knows at run time alone whether its lists are
    /// closed.
    ///
    /// # Errors
    /// As [`Queue::execute`]. A list that is open drops the call and removes the device:
    /// [`Error::DeviceRemoved`] with [`crate::RemovedReason::InvalidCall`].
    #[doc(alias = "ExecuteCommandLists")]
    #[track_caller]
    pub fn execute_any(&self, lists: &[AnyList<'_>]) -> Result<()> {
        let _call = self.platform().enter_call("Queue::execute_any");
        let mut closed = Vec::with_capacity(lists.len());
        for list in lists {
            match list {
                AnyList::Closed(list) => closed.push(*list),
                AnyList::Open(list) => {
                    let why = "the list is open; close it before it is executed";
                    return Err(self.remove_for(list.name(), why.to_owned()));
                }
            }
        }
        self.execute(&closed)
    }

    /// Returns the error of a list of another device or another type.
    #[cold]
    fn refusal_of_list(&self, list: &ClosedList) -> Error {
        if !self.device.owns(list.device()) {
            let what = format!("the list '{}'", list.label().unwrap_or("without a label"));
            return Error::Foreign { what };
        }
        let QueueIdentity { name, list_type: queue_type, .. } = &*self.inner.id;
        let (queue, queue_type) = (name.clone(), *queue_type);
        Error::WrongQueue { queue, queue_type, list_type: list.list_type }
    }

    /// Begins the submission of the lists that were recorded from allocators.
    #[inline(never)]
    fn begin_submission<'a>(&self, lists: &[&'a ClosedList]) -> Result<SubmittedLists<'a>> {
        let mut begun = SubmittedLists::default();
        for list in lists {
            let Some(link) = &list.allocator else { continue };
            let queue: Weak<UmdQueue> = Arc::downgrade(&**self.inner);
            if let Err(misuse) = begun.begin(link, queue) {
                drop(begun);
                let why = match misuse {
                    Misuse::AllocatorReset => format!(
                        "allocator '{}' was reset after the list was closed; record the list again",
                        link.allocator_name()
                    ),
                    Misuse::Executes { queue } => format!(
                        "it still executes on queue '{queue}'; wait for a fence behind it first"
                    ),
                };
                return Err(self.remove_for(list.label(), why));
            }
        }
        Ok(begun)
    }

    /// Removes the device, because a list breaks a rule of ExecuteCommandLists.
    fn remove_for(&self, list: Option<&str>, why: String) -> Error {
        let (queue, list) = (Some(self.name().to_owned()), list.map(str::to_owned));
        let call = InvalidCall::new("ExecuteCommandLists", why);
        self.device.remove_invalid_call(InvalidCall { queue, list, ..call })
    }

    /// Removes the device, because a list breaks the rules of resource states.
    fn remove_for_state(&self, violation: &StateViolation) -> Error {
        let command = &violation.command;
        self.device.remove_invalid_call(InvalidCall {
            queue: Some(self.name().to_owned()),
            list: command.list.as_deref().map(str::to_owned),
            command: Some(u64::from(command.command)),
            ..InvalidCall::new("ExecuteCommandLists", violation.to_string())
        })
    }

    fn platform(&self) -> &Platform {
        &self.device.umd.platform
    }

    #[inline]
    fn begin_call(&self) -> Option<RecordedCall> {
        RecordedCall::begin(&self.device.umd.platform, self.lane)
    }

    /// Records a call that queued something, and names the queue in its error. `more` adds the
    /// name and the arguments of the record. A call that succeeded and is not recorded has no use
    /// for it.
    #[inline(never)]
    fn end_call(
        &self,
        call: Option<RecordedCall>,
        result: std::result::Result<(), Failure>,
        more: impl FnOnce(Record) -> Record,
    ) -> Result<()> {
        let result = result.map_err(|failure| self.device.queue_error(self.name(), *failure));
        if let Some(call) = call {
            let more = |record: Record| more(record.for_queue(self.timeline_lane()));
            call.end(&self.device.umd.platform, Kind::Submit, NameId::NONE, more);
        }
        result
    }

    // spec: ME-026, MF-029, ME-025
    /// Holds later work of the queue back until the fence is at least `value`. The caller goes on
    /// at once.
    ///
    /// # Errors
    /// [`Error::MonitoredFence`] on a user-mode queue, [`Error::Foreign`]; as [`Queue::execute`].
    #[doc(alias = "ID3D12CommandQueue::Wait")]
    #[track_caller]
    pub fn wait(&self, fence: &Fence, value: u64) -> Result<()> {
        let _call = self.platform().enter_call("Queue::wait");
        self.check_fence(fence)?;
        if let Some((states, id)) = self.states() {
            states.wait(id, &fence.object, value);
        }
        let call = self.begin_call();
        let queued = self.inner.id.queued();
        hazards::queue_wait(self.platform(), self.inner.id.checked, &fence.object, value);
        let result = self.inner.wait(&fence.object, value, queued);
        if call.is_none() && result.is_ok() {
            return Ok(());
        }
        self.end_call(call, result, |mut record| {
            record.name = self.device.names.wait;
            record.on(fence.on_timeline(value))
        })
    }

    // spec: ME-024
    /// Sets the fence to `value` when all earlier work of the queue is complete. The caller goes on
    /// at once.
    ///
    /// # Errors
    /// As [`Queue::wait`].
    #[doc(alias = "ID3D12CommandQueue::Signal")]
    #[track_caller]
    pub fn signal(&self, fence: &Fence, value: u64) -> Result<()> {
        let _call = self.platform().enter_call("Queue::signal");
        self.check_fence(fence)?;
        if let Some((states, id)) = self.states() {
            states.signal(id, &fence.object, value);
        }
        let call = self.begin_call();
        let queued = self.inner.id.queued();
        hazards::queue_signal(self.platform(), self.inner.id.checked, &fence.object, value);
        let result = self.inner.signal(&fence.object, value, queued);
        if call.is_none() && result.is_ok() {
            return Ok(());
        }
        self.end_call(call, result, |mut record| {
            record.name = self.device.names.signal;
            record.on(fence.on_timeline(value))
        })
    }

    /// Maps memory of heaps behind tiles of a reserved buffer, or takes it away, in order: behind
    /// everything that was queued before, and before everything that is queued after. The caller
    /// goes on at once. A mapped heap stays in memory until its tiles are unmapped or the buffer
    /// ends.
    ///
    /// # Errors
    /// [`Error::BadValue`] for a buffer that is not reserved, tiles that are not there, and heaps
    /// of another type; [`Error::NotSupported`] on a device whose submissions manage residency;
    /// [`Error::Foreign`]; as [`Queue::execute`].
    #[doc(alias = "UpdateTileMappings")]
    #[track_caller]
    pub fn update_tile_mappings(
        &self,
        buffer: &Buffer,
        mappings: &[TileMapping<'_>],
    ) -> Result<()> {
        let _call = self.platform().enter_call("Queue::update_tile_mappings");
        let bad = |why| {
            let what = format!("tile mappings of buffer '{}'", buffer.name());
            Err(Error::BadValue { what, why })
        };
        self.device.check_owner(buffer.memory.device(), || format!("'{}'", buffer.name()))?;
        let (Some(reserved), Some(tiles)) = (buffer.memory.reserved_handle(), buffer.tiles())
        else {
            return bad("it has memory of its own; create it as a reserved buffer");
        };
        if self.device.umd.options.residency == ResidencyChoice::Automatic {
            let what = format!("a tile mapping on queue '{}'", self.name());
            let why = "submissions page whole resources; create the device with residency explicit";
            return Err(Error::NotSupported { what, why });
        }
        let mut operations = Vec::with_capacity(mappings.len());
        for mapping in mappings {
            mapping.check(buffer.name(), tiles)?;
            if let Some((heap, _)) = mapping.memory {
                self.device.check_owner(heap.device(), || format!("heap '{}'", heap.name()))?;
                if heap.heap_type() != Heap::Default {
                    return bad("a heap is of another type; map tiles of a default heap");
                }
            }
            let memory =
                |(heap, tile): (&ResourceHeap, u64)| (heap.allocation(), tile * TILE_BYTES);
            let (first, count) = (mapping.tile, mapping.tiles);
            operations.push(TileOperation { first, count, memory: mapping.memory.map(memory) });
        }
        if operations.is_empty() {
            return Ok(());
        }
        let done = self.inner.update_tile_mappings(reserved, &operations);
        done.map_err(|failure| self.device.queue_error(self.name(), *failure))?;
        let parts = mappings.iter().map(|mapping| mapping.addresses(buffer.memory.gpu_va));
        hazards::map_tiles(self.platform(), self.inner.id.checked, parts);
        Ok(())
    }

    // spec: NF-143
    #[inline]
    fn check_fence(&self, fence: &Fence) -> Result<()> {
        let fits = fence.is_native() || !self.inner.is_user_mode();
        if self.device.owns(fence.object.device()) && fits {
            return Ok(());
        }
        Err(self.refusal_of_fence(fence))
    }

    /// Returns the error of a fence of another device, or of one that is monitored.
    #[cold]
    fn refusal_of_fence(&self, fence: &Fence) -> Error {
        if !self.device.owns(fence.object.device()) {
            return Error::Foreign { what: format!("fence '{}'", fence.name()) };
        }
        let (queue, fence) = (self.name().to_owned(), fence.name().to_owned());
        Error::MonitoredFence { queue, fence }
    }
}

/// Returns the node of a queue.
fn node(device: &SharedDevice, desc: &QueueDesc) -> Result<u32> {
    let refused = |why| Err(Error::NotSupported { what: format!("queue '{}'", desc.name), why });
    let nodes = &device.umd.info.nodes;
    let first = |of_type: u32| nodes.iter().position(|node| node.engine_type == of_type);
    let first = || desc.list_type.engine_types().find_map(first).map(|at| at as u32);
    let Some(ordinal) = desc.node.or_else(first) else {
        return refused("no node of the adapter runs such lists; choose another list type");
    };
    match nodes.get(ordinal as usize) {
        Some(node) if desc.list_type.engine_types().any(|t| t == node.engine_type) => Ok(ordinal),
        Some(_) => {
            refused("its node does not run such lists; leave the node out or choose another")
        }
        None => {
            refused("the adapter has no node of this ordinal; leave the node out or choose another")
        }
    }
}

/// Refuses a node mask that names several physical GPUs, or a GPU that does not exist.
fn check_node_mask(device: &SharedDevice, desc: &QueueDesc) -> Result<()> {
    let mask = desc.node_mask;
    let there = mask.checked_shr(device.umd.info.physical_adapters).unwrap_or(0) == 0;
    if mask.count_ones() > 1 || !there {
        return Err(Error::BadValue {
            what: format!("node_mask = {mask:#b} of queue '{}'", desc.name),
            why: "a queue runs on one physical GPU: give the bit of an existing one, or 0",
        });
    }
    Ok(())
}

/// Returns the submission model of a queue: the described one, or the first that the node offers
/// of user mode, hardware and packet.
///
/// # Errors
/// [`Error::NotSupported`] for a described one that the adapter or the node does not offer.
fn submission_on(device: &SharedDevice, desc: &QueueDesc, node_ordinal: u32) -> Result<Submission> {
    let info = &device.umd.info;
    let node = &info.nodes[node_ordinal as usize];
    let Some(submission) = desc.submission else {
        return Ok(match (node.user_mode_submission, info.hardware_scheduling) {
            // A user-mode queue refuses monitored fences.
            (true, _) if device.native_fences => Submission::User,
            (_, true) if node.writes_fences => Submission::Hardware,
            _ => Submission::Packet,
        });
    };
    let why = match submission {
        Submission::User if !node.user_mode_submission => {
            "its node does not offer it; create the queue with packet or hardware submission"
        }
        Submission::Hardware if !info.hardware_scheduling => {
            "the adapter has no hardware scheduling; create the queue with packet submission"
        }
        Submission::Hardware if !node.writes_fences => {
            "its node cannot write a progress fence; create the queue with packet submission"
        }
        _ => return Ok(submission),
    };
    let mode = if submission == Submission::User { "user-mode" } else { "hardware" };
    Err(Error::NotSupported { what: format!("{mode} submission for queue '{}'", desc.name), why })
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({:?}, {}, {})", self.name(), self.list_type(), self.submission())
    }
}
