//! The scheduler of one adapter: queues of packet contexts and hardware queues, behind one lock.

use super::payload::{QueuePayload, Signal};
use super::port::{KernelModeQueue, ReportPort, SchedulingPort};
use crate::driver::{DdiCall, DriverPort, OutstandingWork};
use crate::error::BugCheck;
use crate::fence::monitor::{self, Registration};
use crate::fence::{EventSet, FenceTarget, Fences, WaitOwner, Waiter};
use crate::memory::Memory;
use crate::port::Port;
use crate::stats::Count;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};
use tidegate_calls::{Status, WaitNotice};
use tidegate_ddi::{AdapterCaps, CancelCommand, EngineId, Irql, OsHandle, Passive, VidSchCaps};
use tidegate_platform::{Event, Mutex, MutexGuard, QueueNumber, Queued, SubmissionKey, WorkStats};
use tidegate_trace::LinkId;
use tidegate_vidsch::{
    AbandonedWork, Command, CommandKind, CommandRange, Config, Effect, Now, SignalEffect,
    Submitter, VidSch, WaiterId,
};

/// VidSch, and the agents that wait for the packet submission right.
pub(crate) struct State {
    vidsch: VidSch<QueuePayload>,
    pub(super) handoffs: Vec<(WaiterId, Event)>,
    pub(super) next_waiter: u64,
    /// A packet effect that waits for PASSIVE level. It carries the submission right.
    pub(super) deferred: Option<Effect<QueuePayload>>,
    /// Events to set when none of the listed engines has packets.
    pub(super) empty: Vec<(Vec<EngineId>, Event)>,
}

impl State {
    /// Takes the waits whose engines have no packets left.
    pub(super) fn take_emptied(&mut self) -> Vec<(Vec<EngineId>, Event)> {
        let vidsch = &self.vidsch;
        let is_empty = |engines: &[EngineId]| !engines.iter().any(|e| vidsch.has_packets(*e));
        self.empty.extract_if(.., |(engines, _)| is_empty(engines)).collect()
    }
}

impl Deref for State {
    type Target = VidSch<QueuePayload>;

    fn deref(&self) -> &VidSch<QueuePayload> {
        &self.vidsch
    }
}

impl DerefMut for State {
    fn deref_mut(&mut self) -> &mut VidSch<QueuePayload> {
        &mut self.vidsch
    }
}

/// The scheduler of one adapter.
pub(crate) struct Scheduling {
    pub(super) port: Arc<DriverPort>,
    pub(super) memory: Arc<Memory>,
    pub(super) fences: Arc<Fences>,
    state: Mutex<State>,
    pub(crate) objects: Port<dyn SchedulingPort>,
    pub(crate) reports: Port<dyn ReportPort>,
    pub(super) me: Weak<Scheduling>,
}

/// A queue of the scheduler, and what carries out its effects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScheduledQueue {
    pub(crate) queue: OsHandle,
    pub(crate) submitter: Submitter,
}

/// A queue's wait, registered as a waiter on a fence. The ticket names the wait; [`PROGRESS`] is
/// for the progress of a hardware queue.
struct QueueWaiter {
    scheduling: Weak<Scheduling>,
    queue: OsHandle,
    submitter: Submitter,
}

/// The ticket of a waiter for a hardware queue's own progress.
pub(super) const PROGRESS: u64 = 0;

impl Waiter for QueueWaiter {
    fn wake(&self, level: Irql<'_>, ticket: u64, _events: &mut EventSet) {
        let Some(scheduling) = self.scheduling.upgrade() else { return };
        if ticket != PROGRESS {
            scheduling.lock().wait_satisfied(self.queue, ticket, scheduling.now());
        }
        scheduling.run(level, self.submitter);
    }
}

impl Scheduling {
    /// Creates the scheduler of an adapter. The ports are attached later.
    pub(crate) fn new(
        port: &Arc<DriverPort>,
        memory: &Arc<Memory>,
        fences: &Arc<Fences>,
    ) -> Arc<Scheduling> {
        let state = State {
            vidsch: VidSch::new(config(&port.declared.caps, port)),
            handoffs: Vec::new(),
            next_waiter: 0,
            deferred: None,
            empty: Vec::new(),
        };
        Arc::new_cyclic(|me| Scheduling {
            port: port.clone(),
            memory: memory.clone(),
            fences: fences.clone(),
            state: port.platform.mutex("VidSch", state),
            objects: Port::default(),
            reports: Port::default(),
            me: me.clone(),
        })
    }

    /// Locks the policy. No call to another room is made under this lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns the time for policy decisions.
    pub(super) fn now(&self) -> Now {
        let (at, stamp_ns) = self.port.platform.now_and_stamp();
        Now { stamp_ns, at }
    }

    /// Removes a queue that is being destroyed, with its queued work.
    pub(crate) fn remove_queue(&self, level: Irql<'_>, queue: OsHandle) {
        let abandoned = self.lock().remove_queue(queue);
        self.end_abandoned(level, abandoned);
    }

    /// Returns the timeline's entry of the present call of the process.
    pub(crate) fn queued(&self, context: OsHandle) -> Queued {
        let platform = &self.port.platform;
        platform.take_queued(platform.instruments(), context.into(), SubmissionKey::NextCall)
    }

    /// Queues a command buffer on a packet context.
    pub(crate) fn submit_command(
        &self,
        level: &Passive,
        context: OsHandle,
        kind: CommandKind,
        commands: CommandRange,
        queued: Queued,
    ) {
        let CommandRange { gpu_va, bytes } = commands;
        let Queued { at_ns: queued_ns, link: LinkId(link), .. } = queued;
        let command = Command { gpu_va, bytes, queued_ns, link, kind };
        self.lock().push_command(context, command, self.now());
        self.run(level.into(), Submitter::Packets);
    }

    /// D3DKMTSubmitCommandToHwQueue.
    ///
    /// # Errors
    /// INVALID_PARAMETER when the progress value does not rise.
    pub(crate) fn submit_to_hw_queue(
        &self,
        level: &Passive,
        queue: &dyn KernelModeQueue,
        progress_fence_id: u64,
        CommandRange { gpu_va, bytes }: CommandRange,
    ) -> Result<(), Status> {
        let kind = CommandKind::HwQueue { progress_fence_id };
        let command = Command { gpu_va, bytes, queued_ns: 0, link: 0, kind };
        if !self.lock().push_command(queue.os_handle(), command, self.now()) {
            return Err(Status::INVALID_PARAMETER);
        }
        self.run_hw_queue(level.into(), queue);
        Ok(())
    }

    /// Queues a wait for all of `fences` on a context or hardware queue. Each condition latches
    /// immediately, even while earlier work blocks the queue.
    // spec: MF-030, MF-033
    pub(crate) fn wait(&self, level: Irql<'_>, scheduled: ScheduledQueue, fences: &[FenceTarget]) {
        let ScheduledQueue { queue, submitter } = scheduled;
        self.port.count(Count::queued_waits);
        let ticket = self.lock().push_wait(queue, fences, self.now());
        for is_pending in self.register(level, scheduled, fences, ticket) {
            if !is_pending {
                self.lock().wait_satisfied(queue, ticket, self.now());
            }
        }
        // The queue may have been abandoned before the waiters were registered.
        if self.objects.get().is_some_and(|objects| !objects.is_active(queue)) {
            monitor::forget(level, fences.iter().map(|target| (&*target.fence, queue)));
        }
        self.run(level, submitter);
    }

    /// Registers a queue as a waiter of each fence. Returns `false` for a fence that has already
    /// reached its value.
    pub(super) fn register(
        &self,
        level: Irql<'_>,
        ScheduledQueue { queue, submitter }: ScheduledQueue,
        fences: &[FenceTarget],
        ticket: u64,
    ) -> impl Iterator<Item = bool> + use<> {
        let me = &self.me;
        let waits = fences.iter().map(|FenceTarget { fence, value }| Registration {
            fence,
            wait: monitor::begin_wait(fence, *value),
            waiter: Arc::new(QueueWaiter { scheduling: me.clone(), queue, submitter }),
            ticket,
            owner: WaitOwner::Queue(queue),
        });
        monitor::register(level, waits).into_iter().map(|id| id.is_some())
    }

    /// Queues one signal packet on contexts or hardware queues of one device. The signal is made
    /// when all of them reach it.
    pub(crate) fn signal(&self, level: &Passive, queues: &[ScheduledQueue], signal: Signal) {
        let handles: Vec<OsHandle> = queues.iter().map(|scheduled| scheduled.queue).collect();
        let refused = self.lock().push_signal(&handles, signal, self.now());
        // A thread may wait for the event of a packet whose queues have ended.
        if let Some(Signal { effect: SignalEffect::Event(event), .. }) = refused {
            event.give(&self.port.platform);
        }
        let mut last = None;
        for &ScheduledQueue { submitter, .. } in queues {
            if last.replace(submitter) != Some(submitter) {
                self.run(level.into(), submitter);
            }
        }
    }

    /// Returns an event that is set when all present work of these queues, queued or in flight,
    /// is complete.
    pub(crate) fn drained(&self, level: &Passive, queues: &[ScheduledQueue]) -> Event {
        let event = self.port.platform.event(true);
        self.signal(level, queues, Signal::event(WaitNotice::Event(event.clone())));
        event
    }

    /// Abandons all work of these queues. Returns the dropped signals.
    pub(crate) fn give_up(&self, level: Irql<'_>, queues: &[OsHandle]) -> Vec<FenceTarget> {
        let abandoned = self.lock().abandon(queues);
        self.cancel(level, &abandoned.packets);
        self.end_abandoned(level, abandoned)
    }

    /// Notifies a driver that prepares packets on creation that these will not be submitted.
    // spec: PRE-071
    fn cancel(&self, level: Irql<'_>, packets: &[(OsHandle, Command)]) {
        let port = &self.port;
        if !port.declared.caps.scheduling.contains(VidSchCaps::CANCEL_COMMAND_AWARE) {
            return;
        }
        let Some(objects) = self.objects.get() else { return };
        for (context, command) in packets {
            let Some(context) = objects.packet_context(*context) else { continue };
            let args = CancelCommand {
                context: context.driver_handle(),
                engine: context.engine(),
                dma_buffer_gpu_va: command.gpu_va,
                dma_buffer_bytes: command.bytes,
            };
            if let Err(status) = port.driver(level).cancel_command(&level.raise(), args) {
                port.bug_check(level, BugCheck::CancelCommandFailed(status));
            }
        }
    }

    /// Ends the waits of abandoned queues, and carries out work that they blocked.
    fn end_abandoned(
        &self,
        level: Irql<'_>,
        abandoned: AbandonedWork<QueuePayload>,
    ) -> Vec<FenceTarget> {
        let waits = abandoned.waits.iter();
        monitor::forget(level, waits.map(|(queue, target)| (&*target.fence, *queue)));
        for submitter in abandoned.submitters {
            self.run(level, submitter);
        }
        abandoned.signals.into_iter().flat_map(Signal::into_fences).collect()
    }

    /// Returns the packets of an engine not reported complete, by context, with their DDI calls.
    pub(crate) fn outstanding_packets(&self, engine: EngineId) -> Vec<OutstandingWork> {
        let Some(in_flight) = self.lock().packets_in_flight(engine) else { return Vec::new() };
        let reported = in_flight.last_completed.into();
        let mut by_context: BTreeMap<OsHandle, OutstandingWork> = BTreeMap::new();
        for packet in in_flight.packets {
            let context = packet.context;
            let entry = match packet.command.kind {
                CommandKind::Patched { .. } => "DxgkDdiSubmitCommand",
                _ => "DxgkDdiSubmitCommandVirtual",
            };
            let call = DdiCall { entry, number: Some(packet.id.into()), at: packet.submitted };
            let new = || OutstandingWork {
                queue: context.into(),
                engine,
                calls: Vec::new(),
                reported,
                context,
            };
            by_context.entry(context).or_insert_with(new).calls.push(call);
        }
        let request = in_flight.request.map(|request| DdiCall {
            entry: "DxgkDdiPreemptCommand",
            number: Some(request.id.into()),
            at: request.requested,
        });
        by_context.values_mut().for_each(|work| work.calls.extend(request.clone()));
        by_context.into_values().collect()
    }

    /// Returns the fence operations of each queue so far.
    pub(crate) fn fence_operations(&self) -> BTreeMap<QueueNumber, WorkStats> {
        let now_ns = self.port.platform.stamp_ns();
        let mut all: BTreeMap<QueueNumber, WorkStats> = BTreeMap::new();
        for (queue, done) in self.lock().fence_operations(now_ns) {
            *all.entry(queue.into()).or_default() += &done;
        }
        all
    }

    /// Returns the fences awaited at the heads of queues, with the queue.
    pub(crate) fn pending_waits(&self) -> Vec<(QueueNumber, FenceTarget)> {
        let state = self.lock();
        state.pending_waits().map(|(queue, fence)| (queue.into(), fence.clone())).collect()
    }

    /// Returns the fences of the signals queued on a queue.
    pub(crate) fn queued_signals(&self, queue: OsHandle) -> Vec<FenceTarget> {
        self.lock().queued_signals(queue).cloned().collect()
    }
}

/// Returns the preemption configuration.
// spec: PRE-001, PRE-004, PRE-005, PRE-006
fn config(caps: &AdapterCaps, port: &DriverPort) -> Config {
    let aware = VidSchCaps::PREEMPTION_AWARE | VidSchCaps::MULTI_ENGINE_AWARE;
    let tdr = &port.config.tdr;
    Config {
        nodes: caps.nodes.len() as u32,
        physical_adapters: caps.physical_adapters,
        packet_cap: caps.hw_queue_packet_cap,
        preempts: caps.scheduling.contains(aware),
        quantum_ns: port.config.quantum_ns.max(1),
        timeout_ns: tdr.is_on().then_some(tdr.delay_ns),
        fence_ids_ahead: port.config.fence_ids_ahead,
    }
}
