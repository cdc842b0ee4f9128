//! Owns hardware queues. A kernel-mode one takes commands, waits and signals through the kernel, in
//! order: commands go to the driver at once, a wait is a software command that holds what stands
//! behind it, a signal is made when the progress fence says that every earlier command is complete,
//! on every queue that it was given to. A user-mode one takes work by doorbell only and has fence
//! logs.
//!
//! It shares fences and engines with the packet model, and no queueing code.

use crate::adapter::Adapter;
use crate::context::Context;
use crate::display::{self, QueuedFlip};
use crate::driver::DdiCall;
use crate::error::BugCheck;
use crate::fence::log::FenceLogs;
use crate::fence::{
    CreateFence, EventSet, Fence, LoggedQueue, WaitOwner, Waiter, log_change, monitor, signal,
    signaled,
};
use crate::memory::Affinity;
use crate::object::FenceObject;
use crate::recovery::device_loss;
use crate::registry::Registry;
use crate::sched::broadcast::{Broadcast, Standing};
use crate::sched::{FenceOperations, FenceTarget};
use crate::scheduling;
use crate::stats::Count;
use crate::suspend;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock, Weak};
use tidegate_calls::{NativeFenceType, Priority, SignalFlags, Status, SyncObjectFlags};
use tidegate_ddi::queue::{CreateHwQueue, ProgressFence, QueuePrivateData, SubmitCommandToHwQueue};
use tidegate_ddi::{Dispatch, DriverHandle, EngineId, OsHandle, Passive, VidSchCaps};
use tidegate_platform::{CpuTime, Event, Mutex, Step};
use tidegate_trace::{Kind, LaneId, NameId, Record};

/// What a hardware queue is made with.
pub(crate) struct HwQueueDesc {
    pub(crate) user_mode_submission: bool,
    pub(crate) priority: Priority,
    pub(crate) tag: u32,
    pub(crate) lane: u32,
}

/// The hardware queues of an adapter by either side's handle.
#[derive(Default)]
pub(crate) struct HwQueueTable {
    by_kernel: Registry<HwQueue>,
    /// The driver gives a handle out again as soon as it has let go of a queue, which is before the
    /// kernel has; so each entry says whose it is.
    by_driver: BTreeMap<DriverHandle, (OsHandle, Weak<HwQueue>)>,
    /// By hardware context and queue: those that no call destroys.
    of_contexts: BTreeSet<(OsHandle, OsHandle)>,
}

impl HwQueueTable {
    fn insert(&mut self, queue: &Arc<HwQueue>) {
        self.by_kernel.insert(queue.os_handle, queue);
        self.by_driver.insert(queue.driver, (queue.os_handle, Arc::downgrade(queue)));
        self.of_contexts.insert((queue.context.os_handle, queue.os_handle));
    }

    /// Removes a retired queue that the driver has released.
    fn remove(&mut self, os_handle: OsHandle, driver: DriverHandle) {
        self.by_kernel.remove(os_handle);
        if self.by_driver.get(&driver).is_some_and(|(owner, _)| *owner == os_handle) {
            self.by_driver.remove(&driver);
        }
    }

    /// The call that destroys the queue begins; see [`Registry::retire`].
    fn retire(&mut self, context: OsHandle, os_handle: OsHandle) {
        self.by_kernel.retire(os_handle);
        self.of_contexts.remove(&(context, os_handle));
    }

    /// Whether the hardware context has a queue that no call destroys.
    pub(crate) fn has_queue_of(&self, context: OsHandle) -> bool {
        self.of_contexts
            .range((context, OsHandle(0))..=(context, OsHandle(u64::MAX)))
            .next()
            .is_some()
    }

    /// Whether the queue exists and no call destroys it.
    pub(crate) fn is_live(&self, os_handle: OsHandle) -> bool {
        self.by_kernel.is_live(os_handle)
    }

    /// The queue of the kernel's handle; see [`Registry::named`].
    pub(crate) fn of_kernel(&self, handle: OsHandle) -> Option<Weak<HwQueue>> {
        self.by_kernel.named(handle)
    }

    /// The queue of the driver's handle; see [`Registry::named`].
    pub(crate) fn of_driver(&self, handle: DriverHandle) -> Option<Weak<HwQueue>> {
        self.by_driver.get(&handle).map(|(_, queue)| queue.clone())
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_kernel.len()
    }

    /// The queues that no call destroys, in order of creation.
    pub(crate) fn live(&self) -> Vec<Arc<HwQueue>> {
        self.by_kernel.live()
    }
}

/// One hardware queue.
pub(crate) struct HwQueue {
    /// The context outlives its queues.
    pub(crate) context: Arc<Context>,
    pub(crate) device: Arc<crate::device::Device>,
    pub(crate) os_handle: OsHandle,
    pub(crate) driver: DriverHandle,
    // spec: UMS-002
    pub(crate) user_mode_submission: bool,
    /// DisableGpuTimeout: however long it works, it is not asked to stop for it.
    no_timeout: OnceLock<()>,
    pub(crate) tag: u32,
    pub(crate) lane: u32,
    pub(crate) progress: Arc<FenceObject>,
    pub(crate) logs: Option<FenceLogs>,
    software: Mutex<SoftwareQueue>,
}

#[derive(Clone, Copy)]
struct Command {
    progress_fence_id: u64,
    gpu_va: u64,
    bytes: u32,
    queued_ns: u64,
}

enum Work {
    Command(Command),
    Wait { fences: Vec<FenceTarget>, remaining: usize },
    Signal { signal: Arc<QueuedSignal>, reached: bool },
}

/// A signal packet.
struct QueuedSignal {
    fences: Vec<FenceTarget>,
    flags: SignalFlags,
    /// The queues that must reach it; `None` when it stands in one queue only.
    together: Option<Together>,
    /// Set when it is made; the kernel's own, since no call queues events here.
    event: Option<Event>,
    /// Shown when it is made.
    flip: Option<Arc<QueuedFlip>>,
}

struct Together {
    queues: Vec<Weak<HwQueue>>,
    standing: Mutex<Broadcast>,
}

struct Item {
    ticket: u64,
    queued_ns: u64,
    head_ns: Option<u64>,
    work: Work,
}

/// What a kernel-mode queue holds back.
struct SoftwareQueue {
    items: VecDeque<Item>,
    next_ticket: u64,
    /// The progress value of the last command given to the driver.
    submitted: u64,
    /// When that was.
    submitted_ns: u64,
    /// Commands with the driver that are not complete, oldest first.
    in_flight: VecDeque<u64>,
    /// How many of them there may be (MaxInFlightHwQueueBuffers).
    most_in_flight: usize,
    /// The largest progress value that a process announced.
    announced: u64,
    /// The progress value that a waiter is entered for: until it is reached, no other is needed.
    awaiting: u64,
    running: bool,
    done: FenceOperations,
}

enum Action {
    Submit(Command),
    Signal {
        signal: Arc<QueuedSignal>,
        queued_ns: u64,
        /// When it is made.
        at_ns: u64,
    },
    /// The queue has reached a signal that others must reach, too.
    Reach(Arc<QueuedSignal>),
    WaitOver {
        fences: Vec<FenceTarget>,
        queued_ns: u64,
        head_ns: u64,
    },
    AwaitProgress(u64),
}

/// The ticket of a waiter for the queue's own progress.
const PROGRESS: u64 = 0;

impl HwQueue {
    /// Makes a queue with its progress fence, and for a user-mode one its logs.
    pub(crate) fn new(context: &Arc<Context>, desc: &HwQueueDesc) -> Result<Arc<HwQueue>, Status> {
        let (device, adapter) = (&context.device, &context.device.adapter);
        let node = &adapter.caps.nodes[context.engine.node_ordinal as usize];
        // spec: UMS-011, UMS-012
        if desc.user_mode_submission && !node.user_mode_submission {
            return Err(Status::NOT_SUPPORTED);
        }
        // An engine that cannot write a fence has no progress to tell.
        if !node.context_scheduling || !node.writes_fences {
            return Err(Status::NOT_SUPPORTED);
        }
        scheduling::adopt(context, desc.priority)?;
        // spec: NF-115
        let native = adapter.caps.scheduling.contains(VidSchCaps::NATIVE_GPU_FENCE);
        let fence = CreateFence {
            name: "progress",
            initial_value: 0,
            flags: SyncObjectFlags::empty(),
            native: native.then_some(NativeFenceType::Default),
            private_data: [0; 64],
            affinity: Affinity::ALL,
        };
        let progress = Arc::new(FenceObject::create(device, &fence)?);
        let current = progress.mapping.current_va;
        let (progress_fence, monitored) = match &progress.fence.native {
            // spec: NF-117
            Some(native) => {
                (ProgressFence::Native(native.driver_global), progress.mapping.monitored_va)
            }
            None => (ProgressFence::Monitored { gpu_va: current }, 0),
        };
        let os_handle = adapter.new_handle();
        let args = CreateHwQueue {
            context: context.driver,
            os_handle,
            user_mode_submission: desc.user_mode_submission,
            progress_fence,
            progress_current_gpu_va: current,
            progress_monitored_gpu_va: monitored,
            private_data: QueuePrivateData { tag: desc.tag, lane: desc.lane },
        };
        // Kernel-mode queues get no logs: VidSch knows their times.
        // spec: NF-172
        let logs = match desc.user_mode_submission {
            true => adapter.log_reader.new_logs(&device.space)?,
            false => None,
        };
        let driver = adapter.driver().create_hw_queue(&Passive::enter(), args)?;
        if let Some(logs) = &logs {
            adapter.log_reader.set_buffers(logs, driver);
        }
        let software = SoftwareQueue {
            items: VecDeque::new(),
            next_ticket: PROGRESS,
            submitted: 0,
            submitted_ns: 0,
            in_flight: VecDeque::new(),
            most_in_flight: match node.max_in_flight_hw_queue_buffers {
                0 => usize::MAX,
                most => usize::from(most),
            },
            announced: 0,
            awaiting: 0,
            running: false,
            done: FenceOperations::default(),
        };
        let queue = Arc::new(HwQueue {
            context: context.clone(),
            device: device.clone(),
            os_handle,
            driver,
            user_mode_submission: desc.user_mode_submission,
            no_timeout: OnceLock::new(),
            tag: desc.tag,
            lane: desc.lane,
            progress,
            logs,
            software: adapter.platform.mutex("a hardware queue", software),
        });
        adapter.hw_queues.lock().insert(&queue);
        // What logs are to be like may have changed since they were made; from here on the queue is
        // told.
        log_change::follow_mode(&adapter.log_reader, &*queue)?;
        Ok(queue)
    }

    /// However long it works, it is not asked to stop for it (DisableGpuTimeout).
    pub(crate) fn disable_timeout(&self) {
        let _first = self.no_timeout.set(());
    }

    pub(crate) fn has_timeout(&self) -> bool {
        self.no_timeout.get().is_none()
    }

    fn adapter(&self) -> &Arc<Adapter> {
        &self.device.adapter
    }

    /// The largest progress value that was queued on a kernel-mode queue.
    pub(crate) fn announced(&self) -> u64 {
        self.software.lock().announced
    }

    /// The engine that runs it.
    pub(crate) fn engine(&self) -> EngineId {
        self.context.engine
    }

    /// D3DKMTSubmitCommandToHwQueue. Progress values rise strictly.
    // spec: HS-011
    pub(crate) fn submit_command(
        self: &Arc<HwQueue>,
        progress_fence_id: u64,
        gpu_va: u64,
        bytes: u32,
        queued_ns: u64,
    ) -> Result<(), Status> {
        {
            let mut software = self.software.lock();
            let current = self.progress.fence.current.as_ref();
            let reachable = current.is_some_and(|value| value.admits(progress_fence_id));
            if progress_fence_id <= software.announced || !reachable {
                return Err(Status::INVALID_PARAMETER);
            }
            software.announced = progress_fence_id;
            let command = Command { progress_fence_id, gpu_va, bytes, queued_ns };
            software.push(Work::Command(command), queued_ns);
        }
        self.run();
        Ok(())
    }

    /// D3DKMTSubmitWaitForSyncObjectsToHwQueue. Each condition latches from now on.
    pub(crate) fn submit_wait(self: &Arc<HwQueue>, fences: Vec<FenceTarget>) {
        self.adapter().count(Count::queued_waits);
        let work = Work::Wait { fences: fences.clone(), remaining: fences.len() };
        let ticket = self.software.lock().push(work, self.adapter().platform.stamp_ns());
        for (fence, value) in &fences {
            let waiter = Arc::new(QueueWaiter(Arc::downgrade(self)));
            if monitor::wait(fence, *value, waiter, ticket, WaitOwner::Queue(self.os_handle))
                .is_none()
            {
                self.condition_met(ticket);
            }
        }
        // The queue's work may have been given up, by the loss of its device or by the queue's end,
        // before these were entered.
        if self.device.check().is_err() || !self.adapter().hw_queues.lock().is_live(self.os_handle)
        {
            fences.iter().for_each(|(fence, _)| monitor::forget(fence, self.os_handle));
        }
        self.run();
    }

    /// An event that is set when everything that a kernel-mode queue has now is complete.
    pub(crate) fn drained(self: &Arc<HwQueue>) -> Event {
        let platform = &self.adapter().platform;
        let (event, now) = (platform.event(true), platform.stamp_ns());
        let (fences, flags, together) = (Vec::new(), SignalFlags::empty(), None);
        let signal =
            QueuedSignal { fences, flags, together, event: Some(event.clone()), flip: None };
        self.software.lock().push(Work::Signal { signal: Arc::new(signal), reached: false }, now);
        self.run();
        event
    }

    /// D3DKMTSubmitPresentToHwQueue: a flip behind everything that the queue has now.
    pub(crate) fn submit_flip(self: &Arc<HwQueue>, flip: Arc<QueuedFlip>) {
        let now = self.adapter().platform.stamp_ns();
        let (fences, flags, together, event) = (Vec::new(), SignalFlags::empty(), None, None);
        let signal = Arc::new(QueuedSignal { fences, flags, together, event, flip: Some(flip) });
        self.software.lock().push(Work::Signal { signal, reached: false }, now);
        self.run();
    }

    /// D3DKMTSubmitSignalSyncObjectsToHwQueue: one packet on each of `queues`, which are of one
    /// adapter.
    pub(crate) fn submit_signal(
        queues: &[Arc<HwQueue>],
        fences: Vec<FenceTarget>,
        flags: SignalFlags,
    ) {
        let Some(first) = queues.first() else { return };
        let platform = &first.adapter().platform;
        let together = (queues.len() > 1).then(|| Together {
            queues: queues.iter().map(Arc::downgrade).collect(),
            standing: platform.mutex(
                "a broadcast signal",
                Broadcast::new(&queues.iter().map(|q| q.os_handle).collect::<Vec<_>>()),
            ),
        });
        let signal = Arc::new(QueuedSignal { fences, flags, together, event: None, flip: None });
        let now = platform.stamp_ns();
        // All queues at once, always in the same order: two broadcasts stand in the same order on
        // every queue, and cannot hold each other.
        let mut in_order: Vec<&Arc<HwQueue>> = queues.iter().collect();
        in_order.sort_by_key(|queue| queue.os_handle);
        {
            let mut all: Vec<_> = in_order.iter().map(|queue| queue.software.lock()).collect();
            for software in &mut all {
                software.push(Work::Signal { signal: signal.clone(), reached: false }, now);
            }
        }
        queues.iter().for_each(|queue| queue.run());
    }

    fn condition_met(self: &Arc<HwQueue>, ticket: u64) {
        if ticket != PROGRESS {
            let mut software = self.software.lock();
            let item = software.items.iter_mut().find(|i| i.ticket == ticket);
            if let Some(Item { work: Work::Wait { remaining, .. }, .. }) = item {
                *remaining = remaining.saturating_sub(1);
            }
        }
        self.run();
    }

    /// Carries out what the head of the queue allows; one agent at a time, in order.
    fn run(self: &Arc<HwQueue>) {
        if std::mem::replace(&mut self.software.lock().running, true) {
            return;
        }
        loop {
            let now = self.adapter().platform.stamp_ns();
            let next = {
                let mut software = self.software.lock();
                // Progress is looked at inside the lock: whoever was told of it and left because
                // this agent runs, left before.
                let completed = self.progress.fence.value();
                software.next(completed, now)
            };
            let Some(step) = next else { return };
            self.carry_out(step);
        }
    }

    fn carry_out(self: &Arc<HwQueue>, step: Action) {
        match step {
            Action::Submit(command) => self.submit_to_driver(command),
            Action::WaitOver { fences, queued_ns, head_ns } => {
                self.record(Kind::Wait, &fences, queued_ns, (head_ns, None));
            }
            Action::Signal { signal, queued_ns, at_ns } => {
                self.make(&signal);
                self.record(Kind::Signal, &signal.fences, queued_ns, (at_ns, Some(at_ns)));
            }
            Action::Reach(signal) => {
                let reached =
                    signal.together.as_ref().map(|t| t.standing.lock().reach(self.os_handle));
                if reached == Some(Standing::Complete) {
                    self.make_together(&signal);
                }
            }
            Action::AwaitProgress(value) => {
                let waiter = Arc::new(QueueWaiter(Arc::downgrade(self)));
                // When it is reached already, the next round of `run` sees it.
                monitor::wait(
                    &self.progress.fence,
                    value,
                    waiter,
                    PROGRESS,
                    WaitOwner::Queue(self.os_handle),
                );
            }
        }
    }

    fn make(&self, signal: &QueuedSignal) {
        self.adapter().platform.spend(Step::VidSchDispatch);
        self.adapter().stats.add(Count::queued_signals, signal.fences.len() as u64);
        signal::signal(&signal.fences, signal.flags);
        if let Some(event) = &signal.event {
            event.set(Step::ThreadWake);
        }
        if let Some(flip) = &signal.flip {
            display::rendered(flip);
        }
    }

    /// The last queue has reached a broadcast, or went away: it is made, and whoever it held goes
    /// on.
    fn make_together(&self, signal: &Arc<QueuedSignal>) {
        // The queues are of one device. When that is lost they leave one by one, and nothing is
        // signalled for it.
        let made_ns = self.adapter().platform.stamp_ns();
        if self.device.check().is_ok() {
            self.make(signal);
        }
        let held = signal.together.iter().flat_map(|t| t.queues.iter().filter_map(Weak::upgrade));
        held.for_each(|queue| queue.pass(signal, made_ns));
    }

    /// Takes a broadcast that was made off the head of the queue.
    fn pass(self: &Arc<HwQueue>, made: &Arc<QueuedSignal>, made_ns: u64) {
        let item = {
            let mut software = self.software.lock();
            let at_head = software.items.front().is_some_and(
                |head| matches!(&head.work, Work::Signal { signal, .. } if Arc::ptr_eq(signal, made)),
            );
            software.done.signals += u64::from(at_head && !made.fences.is_empty());
            if at_head { software.items.pop_front() } else { None }
        };
        if let Some(Item { queued_ns, .. }) = item {
            self.record(Kind::Signal, &made.fences, queued_ns, (made_ns, Some(made_ns)));
        }
        self.run();
    }

    /// Leaves a broadcast that this queue will not reach, so that it holds no other queue.
    fn leave(&self, signal: &Arc<QueuedSignal>) {
        let left = signal.together.as_ref().map(|t| t.standing.lock().leave(self.os_handle));
        if left == Some(Standing::Complete) {
            self.make_together(signal);
        }
    }

    fn submit_to_driver(&self, command: Command) {
        let adapter = self.adapter();
        adapter.platform.spend(Step::VidSchDispatch);
        adapter.count(Count::hw_queue_commands);
        let args = SubmitCommandToHwQueue {
            hw_queue: self.driver,
            progress_fence_id: command.progress_fence_id,
            dma_buffer_gpu_va: command.gpu_va,
            dma_buffer_bytes: command.bytes,
            queued_ns: command.queued_ns,
        };
        let engine = adapter.engine_in_use(self.engine());
        let result = adapter.driver().submit_command_to_hw_queue(&Dispatch::enter(), args);
        drop(engine);
        adapter.watch_for_hangs();
        if result == Err(Status::INVALID_PARAMETER) {
            let refused = (self.tag, command.progress_fence_id, command.gpu_va);
            device_loss::commands_refused(adapter, &self.device, self.engine(), refused);
        } else if let Err(status) = result {
            adapter.bug_check(BugCheck::DdiFailed { ddi: "DxgkDdiSubmitCommandToHwQueue", status });
        }
    }

    /// Records a wait or a signal; without an end it ends now.
    fn record(
        &self,
        kind: Kind,
        fences: &[FenceTarget],
        queued_ns: u64,
        (start_ns, end_ns): (u64, Option<u64>),
    ) {
        let platform = &self.adapter().platform;
        if self.lane == 0 || !platform.tracing() {
            return;
        }
        for (fence, value) in fences {
            let end_ns = end_ns.unwrap_or_else(|| platform.stamp_ns());
            let span = Record::span(LaneId(self.lane - 1), kind, NameId::NONE, start_ns, end_ns);
            platform.record(span.queued(queued_ns).on_fence(fence.trace, *value));
        }
    }

    /// Whether the GPU has work of it that is not complete, as far as the kernel can know.
    pub(crate) fn has_work(&self, adapter: &Adapter) -> bool {
        if self.user_mode_submission {
            return adapter.doorbells_of_queue(self.os_handle).iter().any(|d| d.has_work());
        }
        let submitted = self.software.lock().submitted;
        submitted > self.progress.fence.value()
    }

    /// The progress value that was announced last, by whoever announces.
    pub(crate) fn announced_by_anyone(&self, adapter: &Adapter) -> u64 {
        match self.user_mode_submission {
            true => {
                let of_queue = adapter.doorbells_of_queue(self.os_handle);
                of_queue.iter().map(|d| d.announced()).max().unwrap_or(0)
            }
            false => self.announced(),
        }
    }

    /// No list has the queue any more.
    pub(crate) fn unlist(&self) {
        self.adapter().hw_queues.lock().retire(self.context.os_handle, self.os_handle);
    }

    /// The call that destroys the queue begins: no list has it any more, and nothing that it holds
    /// back is begun.
    pub(crate) fn retire(&self) {
        self.unlist();
        // A user-mode queue holds no software commands. The signals among them are not made.
        if !self.user_mode_submission {
            let _not_made = self.give_up();
        }
        self.context.retire_if_over();
    }

    /// Whether anything is held back for it.
    pub(crate) fn holds_back(&self) -> bool {
        !self.software.lock().items.is_empty()
    }

    /// What of it is not complete, in words, and the progress value that would say so.
    pub(crate) fn describe_work(&self, adapter: &Adapter) -> (String, (String, u64)) {
        let (done, announced) = (self.progress.fence.value(), self.announced_by_anyone(adapter));
        let command = match self.user_mode_submission {
            true => format!(
                "the command buffer of its ring that says progress {}",
                done.saturating_add(1)
            ),
            false => {
                let first = self.software.lock().in_flight.iter().find(|id| **id > done).copied();
                format!("the command buffer that says progress {}", first.unwrap_or(announced))
            }
        };
        (format!("{command}; {announced} was announced last"), ("progress".to_owned(), announced))
    }

    /// The signals that are held back behind its commands.
    pub(crate) fn signals_behind(&self) -> Vec<FenceTarget> {
        let software = self.software.lock();
        let signals = software.items.iter().filter_map(|item| match &item.work {
            Work::Signal { signal, .. } => Some(signal.fences.iter().cloned()),
            _ => None,
        });
        signals.flatten().collect()
    }

    /// The last calls of the driver that were about it.
    pub(crate) fn last_calls(&self, adapter: &Adapter) -> Vec<DdiCall> {
        let mut calls = Vec::new();
        if self.user_mode_submission {
            let doorbells = adapter.doorbells_of_queue(self.os_handle);
            calls.extend(doorbells.iter().flat_map(|doorbell| doorbell.last_calls()));
        } else {
            let software = self.software.lock();
            let (number, at) = (Some(software.submitted), CpuTime(software.submitted_ns));
            calls.push(DdiCall { entry: "DxgkDdiSubmitCommandToHwQueue", number, at });
        }
        calls.extend(suspend::last_call(&self.context));
        calls.sort_by_key(|call| call.at);
        calls
    }

    /// Gives up what is queued: the device is lost, or the queue ends. Returns the fences of
    /// signals that stood in it.
    pub(crate) fn give_up(&self) -> Vec<FenceTarget> {
        let given_up = std::mem::take(&mut self.software.lock().items);
        let mut signals = Vec::new();
        for item in given_up {
            match item.work {
                Work::Command(_) => {}
                Work::Wait { fences, .. } => {
                    fences.iter().for_each(|(fence, _)| monitor::forget(fence, self.os_handle));
                }
                Work::Signal { signal, .. } => {
                    self.leave(&signal);
                    signals.extend(signal.fences.iter().cloned());
                }
            }
        }
        signals
    }

    /// The progress value of the last command that was given to the driver; kernel-mode queues
    /// know.
    pub(crate) fn last_submitted(&self) -> u64 {
        self.software.lock().submitted
    }

    /// What it did with fences until `now_ns`.
    pub(crate) fn fence_operations(&self, now_ns: u64) -> FenceOperations {
        let software = self.software.lock();
        let mut done = software.done;
        if let Some(Item { head_ns: Some(head_ns), work: Work::Wait { .. }, .. }) =
            software.items.front()
        {
            done.block(*head_ns, now_ns);
        }
        done
    }

    /// The wait at the head of the queue.
    pub(crate) fn pending_waits(&self) -> Vec<crate::PendingWait> {
        let software = self.software.lock();
        let Some(Item { work: Work::Wait { fences, .. }, .. }) = software.items.front() else {
            return Vec::new();
        };
        fences.iter().filter_map(|(fence, value)| fence.pending(self.tag, *value)).collect()
    }
}

impl SoftwareQueue {
    fn push(&mut self, work: Work, queued_ns: u64) -> u64 {
        self.next_ticket += 1;
        self.items.push_back(Item { ticket: self.next_ticket, queued_ns, head_ns: None, work });
        self.next_ticket
    }

    /// What to do next; `None` gives the right to run back.
    fn next(&mut self, completed: u64, now_ns: u64) -> Option<Action> {
        let step = self.decide(completed, now_ns);
        self.running = step.is_some();
        step
    }

    // spec: HS-012
    fn decide(&mut self, completed: u64, now_ns: u64) -> Option<Action> {
        while self.in_flight.front().is_some_and(|id| *id <= completed) {
            self.in_flight.pop_front();
        }
        let head = self.items.front_mut()?;
        let head_ns = *head.head_ns.get_or_insert(now_ns);
        let queued_ns = head.queued_ns;
        match &mut head.work {
            Work::Wait { remaining, .. } if *remaining > 0 => return None,
            // The others of a broadcast have not reached it.
            Work::Signal { reached: true, .. } => return None,
            Work::Signal { signal, .. }
                if !signal.at_submission() && completed < self.submitted =>
            {
                return self.await_progress(self.submitted, completed);
            }
            Work::Signal { signal, reached } if signal.together.is_some() => {
                *reached = true;
                return Some(Action::Reach(signal.clone()));
            }
            Work::Command(_) if self.in_flight.len() >= self.most_in_flight => {
                // When half of them are complete there is room for as many, with one wake-up for
                // all.
                let half = self.in_flight[self.in_flight.len() / 2];
                return self.await_progress(half, completed);
            }
            _ => {}
        }
        Some(match self.items.pop_front()?.work {
            Work::Command(command) => {
                (self.submitted, self.submitted_ns) = (command.progress_fence_id, now_ns);
                self.in_flight.push_back(command.progress_fence_id);
                Action::Submit(command)
            }
            Work::Wait { fences, .. } => {
                self.done.pass_wait(head_ns, now_ns);
                Action::WaitOver { fences, queued_ns, head_ns }
            }
            Work::Signal { signal, .. } => {
                self.done.signals += u64::from(!signal.fences.is_empty());
                Action::Signal { signal, queued_ns, at_ns: now_ns }
            }
        })
    }

    /// Asks to be run again when the progress fence reaches `value`, unless somebody is entered for
    /// less already.
    fn await_progress(&mut self, value: u64, completed: u64) -> Option<Action> {
        if self.awaiting > completed {
            return None;
        }
        self.awaiting = value;
        Some(Action::AwaitProgress(value))
    }
}

impl Drop for HwQueue {
    fn drop(&mut self) {
        let adapter = self.adapter();
        adapter.log_reader.read_before_end(self);
        // Until the driver has let go of it an interrupt may name the queue: it stays in the table
        // until then.
        adapter.driver().destroy_hw_queue(&Passive::enter(), self.driver);
        adapter.hw_queues.lock().remove(self.os_handle, self.driver);
        adapter.log_reader.read_last(self);
        signaled::queue_ended(&adapter.fences, self);
        // Gives up what a concurrent call has pushed after the queue was retired.
        if !self.user_mode_submission {
            let _not_made = self.give_up();
        }
    }
}

impl LoggedQueue for HwQueue {
    fn driver(&self) -> DriverHandle {
        self.driver
    }

    fn logs(&self) -> Option<&FenceLogs> {
        self.logs.as_ref()
    }

    fn tag(&self) -> u32 {
        self.tag
    }

    fn lane(&self) -> Option<LaneId> {
        self.lane.checked_sub(1).map(LaneId)
    }

    fn progress(&self) -> &Arc<Fence> {
        &self.progress.fence
    }

    fn fence_of_handle(&self, handle: u32) -> Option<Arc<Fence>> {
        self.device.fence_of_handle(handle)
    }

    fn fences_of_device(&self) -> Vec<Arc<Fence>> {
        self.device.fences()
    }
}

impl QueuedSignal {
    fn at_submission(&self) -> bool {
        self.flags.contains(SignalFlags::SIGNAL_AT_SUBMISSION)
    }
}

struct QueueWaiter(Weak<HwQueue>);

impl Waiter for QueueWaiter {
    fn wake(&self, ticket: u64, _events: &mut EventSet) {
        if let Some(queue) = self.0.upgrade() {
            queue.condition_met(ticket);
        }
    }
}
