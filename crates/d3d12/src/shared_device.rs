//! State that all objects of a device share: the user-mode driver's device, the list of queues, the
//! reason of a removal, and the records of calls on the timeline.
//!
//! Locks: the list of queues has its own lock, which is held over no kernel call and no other lock.
//! No submitter lock is held when a failure becomes an error, because the reason of a removal reads
//! the running lists of all queues.

use crate::device_loss::{Fault, Hang, InvalidCall, RemovedReason, ReportedCommand};
use crate::error::{Error, Result};
use crate::event::{Waited, deadline, waited};
use crate::hazards;
use crate::model::{CommandListType, Submission, Validation};
use crate::retired_queues::{QueueHandle, RetiredQueues};
use crate::state_tracker::StateTracker;
use crate::umd::command_memory::{CommandMemory, FoundCommand, ReportedBuffer};
use crate::umd::device::UmdDevice;
use crate::umd::failure::Why;
use crate::umd::fence::FenceObject;
use crate::umd::kernel_object::KernelDevice;
use crate::umd::paging_signals::PagingSignals;
use crate::umd::queue::UmdQueue;
use crate::umd::registration::Registration;
use crate::umd::thunk::CPU_WAIT_CALL;
use crate::wakers::Wakers;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tidegate_calls::{
    DeviceErrorReason, DeviceState, FaultReport, FenceValue, HangReport, Status, WaitMode,
    WaitNotice,
};
use tidegate_platform::{Mutex, Platform, QueueNumber};
use tidegate_trace::{Kind, LaneId, NameId, Record};

pub(crate) struct SharedDevice {
    pub(crate) umd: Arc<UmdDevice>,
    pub(crate) native_fences: bool,
    pub(crate) names: CallNames,
    /// The check of resource states; `None` while it is off.
    pub(crate) states: Option<StateTracker>,
    /// Wakes the tasks that await fences.
    pub(crate) wakers: Wakers,
    queues: Mutex<Queues>,
    pub(crate) retired: Arc<RetiredQueues>,
    /// Created by the first future.
    pub(crate) paging_signals: Mutex<Option<PagingSignals>>,
    /// The reason for which this crate marked the device as in error. Set before the kernel call,
    /// so that each reader of the kernel's state finds it.
    marked_for: Mutex<Option<RemovedReason>>,
}

/// Names of queued fence operations on the timeline.
pub(crate) struct CallNames {
    pub(crate) wait: NameId,
    pub(crate) signal: NameId,
}

/// The number of queues at which ended ones are first removed. The next is twice the number of live
/// queues, so the cost of a queue does not depend on their number.
const COLLECT_FIRST: usize = 64;

#[derive(Default)]
struct Queues {
    /// By the serial of their lane, in the order of their creation.
    live: BTreeMap<u64, Weak<UmdQueue>>,
    /// The number of queues at which ended ones are removed.
    collect_at: usize,
    /// The default queues that exist, by list type and submission model.
    defaults: Vec<((CommandListType, Submission), Weak<QueueHandle>)>,
}

impl Queues {
    // spec: ME-080
    fn default_queue(&self, key: (CommandListType, Submission)) -> Option<Arc<QueueHandle>> {
        self.defaults.iter().find(|(of, _)| *of == key).and_then(|(_, queue)| queue.upgrade())
    }
}

impl SharedDevice {
    pub(crate) fn new(umd: UmdDevice, native_fences: bool) -> SharedDevice {
        let platform = &umd.platform;
        let names =
            CallNames { wait: platform.trace_name("wait"), signal: platform.trace_name("signal") };
        let queues = platform.mutex("queues of a device", Queues::default());
        let paging_signals = platform.mutex("signals behind a paging fence", None);
        let marked_for = platform.mutex("why a device was marked as in error", None);
        let validation = umd.options.validation;
        let strict = validation.contains(Validation::STATE_ERRORS);
        let checks_states = strict || validation.contains(Validation::STATES);
        let states = checks_states.then(|| StateTracker::new(platform, strict));
        let wakers = Wakers::new(platform);
        let retired = Arc::new(RetiredQueues::new(platform));
        SharedDevice {
            umd: Arc::new(umd),
            native_fences,
            names,
            states,
            wakers,
            queues,
            retired,
            paging_signals,
            marked_for,
        }
    }

    pub(crate) fn add_queue(&self, queue: &Arc<UmdQueue>) {
        let mut queues = self.queues.lock();
        queues.live.insert(queue.id.traced.serial(), Arc::downgrade(queue));
        if queues.live.len() >= queues.collect_at {
            queues.live.retain(|_, queue| queue.strong_count() > 0);
            queues.collect_at = COLLECT_FIRST.max(2 * queues.live.len());
        }
    }

    pub(crate) fn live_queues(&self) -> Vec<Arc<UmdQueue>> {
        self.queues.lock().live.values().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn default_queue(
        &self,
        key: (CommandListType, Submission),
    ) -> Option<Arc<QueueHandle>> {
        self.queues.lock().default_queue(key)
    }

    /// Makes `queue` the default queue of its kind, unless another thread has set one. Returns the
    /// default queue.
    pub(crate) fn set_default_queue(
        &self,
        key: (CommandListType, Submission),
        queue: Arc<QueueHandle>,
    ) -> Arc<QueueHandle> {
        let mut queues = self.queues.lock();
        let first = queues.default_queue(key);
        if first.is_none() {
            queues.defaults.retain(|(other, _)| *other != key);
            queues.defaults.push((key, Arc::downgrade(&queue)));
        }
        drop(queues);
        first.unwrap_or(queue)
    }

    /// Returns whether objects of `device` are this device's.
    #[inline]
    pub(crate) fn owns(&self, device: &Arc<KernelDevice>) -> bool {
        Arc::ptr_eq(&self.umd.kernel, device)
    }

    /// Refuses an object of another device.
    pub(crate) fn check_owner(
        &self,
        device: &Arc<KernelDevice>,
        what: impl FnOnce() -> String,
    ) -> Result<()> {
        match self.owns(device) {
            true => Ok(()),
            false => Err(Error::Foreign { what: what() }),
        }
    }

    /// Returns the error of a refused call.
    pub(crate) fn error(&self, call: &'static str, object: &str, status: Status) -> Error {
        match status {
            Status::CANCELLED => Error::Stopped,
            Status::DEVICE_REMOVED | Status::DEVICE_HUNG => {
                let refused = || RemovedReason::Refused { call, object: object.to_owned(), status };
                Error::DeviceRemoved(self.removed_reason().unwrap_or_else(refused))
            }
            status => Error::Call { call, object: object.to_owned(), status },
        }
    }

    /// Returns the error of a queue's failed call.
    pub(crate) fn queue_error(&self, queue: &str, why: Why) -> Error {
        let name = queue.to_owned();
        match why {
            Why::Refused(call, status) => self.error(call, &format!("queue '{queue}'"), status),
            Why::ProgressRefused(status) => {
                self.error(CPU_WAIT_CALL, &format!("progress of queue '{queue}'"), status)
            }
            Why::OverBudget(bytes) => {
                Error::OverBudget { what: format!("a submission to queue '{queue}'"), bytes }
            }
            Why::TooManyLists { lists, most } => Error::TooManyLists { queue: name, lists, most },
            Why::PresentOnUserQueue => Error::NotSupported {
                what: format!("a present on queue '{queue}'"),
                why: USER_QUEUES_DO_NOT_PRESENT,
            },
            Why::Interrupted(list) => Error::WorkLost { queue: name, list },
            Why::Aborted => match self.removed_reason() {
                Some(reason) => Error::DeviceRemoved(reason),
                None => Error::QueueAborted { queue: name },
            },
            Why::DeviceLost(state) => {
                self.reason(state).map_or(Error::Stopped, Error::DeviceRemoved)
            }
        }
    }

    pub(crate) fn wait_idle(&self, queue: &UmdQueue) -> Result<()> {
        hazards::while_waiting_idle(&self.umd.platform, queue.id.checked, || {
            queue.wait_idle(None).map_err(|failure| self.queue_error(&queue.id.name, *failure))
        })?;
        if let Some(states) = &self.states {
            states.idle(&queue.id);
        }
        hazards::wait_idle(&self.umd.platform, queue.id.checked);
        Ok(())
    }

    /// Removes the device because the application broke a rule. Returns the error of the call.
    pub(crate) fn remove_invalid_call(&self, call: InvalidCall) -> Error {
        self.remove(RemovedReason::InvalidCall(Box::new(call)))
    }

    /// Marks the device as in error: its queued work is dropped, and its fences read `u64::MAX`.
    /// Returns the error of this and each later call. A device that was removed before keeps its
    /// first reason.
    pub(crate) fn remove(&self, reason: RemovedReason) -> Error {
        self.marked_for.lock().get_or_insert(reason);
        let umd = &self.umd;
        let marked = umd.enter().mark_device_as_error(umd.handle(), DeviceErrorReason::Generic);
        match marked {
            Ok(()) => self.removed_reason().map_or(Error::Stopped, Error::DeviceRemoved),
            Err(status) => self.error("D3DKMTMarkDeviceAsError", "the device", status),
        }
    }

    pub(crate) fn removed_reason(&self) -> Option<RemovedReason> {
        self.reason(self.umd.state())
    }

    fn reason(&self, state: std::result::Result<DeviceState, Status>) -> Option<RemovedReason> {
        match state {
            Ok(DeviceState::Active) => None,
            Ok(DeviceState::Faulted(report)) => {
                Some(RemovedReason::Faulted(Box::new(self.fault(report))))
            }
            Ok(DeviceState::Hung(report)) => Some(RemovedReason::Hung(Box::new(self.hang(report)))),
            Ok(DeviceState::Reset(what)) => Some(RemovedReason::Reset(what)),
            Ok(DeviceState::Stopped) => Some(RemovedReason::AdapterStopped),
            Ok(DeviceState::Removed) => Some(RemovedReason::AdapterRemoved),
            Ok(DeviceState::ProcessEnded) => Some(RemovedReason::ProcessEnded),
            Ok(DeviceState::MarkedAsError(_)) => {
                let marked_for = self.marked_for.lock().clone();
                Some(marked_for.unwrap_or(RemovedReason::ByApplication))
            }
            Err(Status::CANCELLED) => None,
            Err(status) => {
                let object = format!("process '{}'", self.umd.options.process_name);
                Some(RemovedReason::Refused { call: "D3DKMTGetDeviceState", object, status })
            }
        }
    }

    /// Returns the report with the names of queue and list, and the command.
    fn fault(&self, report: FaultReport) -> Fault {
        let FaultReport { fence_id, commands_gpu_va, .. } = report;
        let (queue, buffer) = self.reported(report.queue, fence_id, commands_gpu_va);
        let (list, command) = found(buffer.as_deref(), report.primitive_api_sequence_number);
        let of_linked_adapter = self.umd.info.physical_adapters > 1;
        Fault { queue, list, command, of_linked_adapter, report }
    }

    /// Returns the report with the names of queue and list, and the command.
    fn hang(&self, report: HangReport) -> Hang {
        let HangReport { fence_id, commands_gpu_va, .. } = report;
        let (queue, buffer) = self.reported(report.queue, fence_id, commands_gpu_va);
        let (list, command) = found(buffer.as_deref(), report.command_number);
        Hang { queue, list, command, report }
    }

    /// The name of the queue of a report, and its command buffer while it is known.
    fn reported(
        &self,
        number: QueueNumber,
        progress: u64,
        gpu_va: u64,
    ) -> (Option<String>, Option<Arc<CommandMemory>>) {
        let (name, queue) = self.queue_of(number);
        // A fault outside of every command buffer has no progress value.
        let known = progress != 0 || gpu_va != 0;
        let buffer = ReportedBuffer { progress, gpu_va };
        let found = queue.filter(|_| known).and_then(|queue| queue.reported(number, buffer));
        (name, found)
    }

    /// Returns the name of a queue, and the queue if it has not ended.
    fn queue_of(&self, number: QueueNumber) -> (Option<String>, Option<Arc<UmdQueue>>) {
        let lane = self.umd.platform.lane_of(number);
        let queue = self.live_queues().into_iter().find(|queue| Some(queue.id.lane) == lane);
        let name = match &queue {
            Some(queue) => Some(queue.id.name.clone()),
            None => self.umd.unfinished.lock().get(&number).cloned(),
        };
        (name, queue)
    }

    // spec: ME-036, ME-044
    /// Blocks until the condition holds, for `limit` at most. A condition that user mode can
    /// evaluate and that holds already needs no kernel call.
    pub(crate) fn block(
        &self,
        condition: &Condition<'_>,
        limit: Option<Duration>,
    ) -> Result<Waited> {
        let thunk = self.umd.kernel.thunk();
        thunk.cpu_wait_made();
        if !condition.is_reached() {
            let refused = |s| self.error(CPU_WAIT_CALL, &(condition.what)(), s);
            let waited = match limit {
                None => hazards::while_blocked(
                    &self.umd.platform,
                    condition.mode,
                    condition.fences.iter().copied(),
                    || {
                        let (values, mode) = (condition.values(), condition.mode);
                        let waited = thunk.enter().wait_from_cpu(&values, mode, None);
                        waited.map(|()| Waited::Signalled(())).map_err(refused)
                    },
                )?,
                Some(Duration::ZERO) => Waited::TimedOut,
                Some(limit) => self.block_until(condition, limit)?,
            };
            if waited.is_timed_out() {
                return Ok(waited);
            }
            thunk.cpu_wait_woken();
        }
        let reason = if condition.is_lost() { self.removed_reason() } else { None };
        reason.map_or(Ok(Waited::Signalled(())), |reason| Err(Error::DeviceRemoved(reason)))
    }

    /// Blocks on a new event, whose registration ends with the call.
    fn block_until(&self, condition: &Condition<'_>, limit: Duration) -> Result<Waited> {
        let platform = &self.umd.platform;
        let (deadline, event) = (deadline(platform, limit), platform.event(true));
        let (thunk, what) = (self.umd.kernel.thunk(), (condition.what)());
        let notice = WaitNotice::Event(event.clone());
        let _registration = Registration::new(thunk, &condition.values(), condition.mode, notice)
            .map_err(|s| self.error(CPU_WAIT_CALL, &what, s))?;
        waited(event.wait_for(deadline, &what))
    }
}

/// The label of the list with command `number` of a command buffer, and the command. 0 is unknown.
fn found(buffer: Option<&CommandMemory>, number: u64) -> (Option<String>, Option<ReportedCommand>) {
    let Some(buffer) = buffer else { return (None, None) };
    match buffer.command(number) {
        Some(FoundCommand { list, number, kind }) => (list, Some(ReportedCommand { number, kind })),
        None if buffer.joined.is_empty() => (buffer.label.clone(), None),
        None => (None, None),
    }
}

/// The condition of a CPU wait.
pub(crate) struct Condition<'a> {
    pub(crate) fences: &'a [(&'a FenceObject, u64)],
    pub(crate) mode: WaitMode,
    /// Names the fences in errors and reports.
    pub(crate) what: &'a dyn Fn() -> String,
}

impl Condition<'_> {
    fn values(&self) -> Vec<FenceValue> {
        self.fences.iter().map(|(fence, value)| fence.at(*value)).collect()
    }

    /// Returns whether user mode sees that the condition holds.
    fn is_reached(&self) -> bool {
        let mut reached = self.fences.iter().map(|(fence, value)| fence.value.load() >= *value);
        match self.mode {
            WaitMode::All => reached.all(|s| s),
            WaitMode::Any => reached.any(|s| s),
        }
    }

    /// Returns whether a fence has the value of fences of a removed device.
    fn is_lost(&self) -> bool {
        self.fences.iter().any(|(fence, _)| fence.value.load() == u64::MAX)
    }
}

pub(crate) const USER_QUEUES_DO_NOT_PRESENT: &str =
    "a user-mode queue presents nothing; create the queue with packet or hardware submission";

/// A call that is recorded on the lane of a CPU thread.
#[derive(Clone, Copy)]
pub(crate) struct RecordedCall {
    lane: LaneId,
    start_ns: u64,
}

impl RecordedCall {
    /// Begins a call; `None` when it is not recorded.
    #[inline]
    pub(crate) fn begin(platform: &Platform, lane: Option<LaneId>) -> Option<RecordedCall> {
        let lane = lane?;
        platform.tracing().then(|| RecordedCall { lane, start_ns: platform.stamp_ns() })
    }

    /// Records the call, which ends now; `more` adds its arguments.
    pub(crate) fn end(
        &self,
        platform: &Platform,
        kind: Kind,
        name: NameId,
        more: impl FnOnce(Record) -> Record,
    ) {
        let end_ns = platform.stamp_ns();
        platform.record(more(Record::span(self.lane, kind, name, self.start_ns, end_ns)));
    }
}
