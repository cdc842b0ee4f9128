//! The scheduler of one adapter: software queues of packet contexts and hardware queues, and the
//! signals queued on them.
//!
//! A command is submitted when it is at the head of its queue and there is room: on the context's
//! engine (`packets`), or on the hardware queue itself (`hw_queue`). Effects are carried out by
//! submitters, one agent each: one for the packets of all engines, and one per hardware queue. The
//! submitter of the queue that reaches a signal packet last executes it.
//!
//! Entry points: `push_*` queue work; [`VidSch::try_take_right`], then [`VidSch::next_effect`] or
//! [`VidSch::next_hw_queue_effect`] until `None`; [`VidSch::signalled`] after each signal.

use crate::broadcast::{Broadcast, BroadcastState};
use crate::config::{Config, Now};
use crate::engine::Engine;
use crate::hold::Holds;
use crate::queue::{
    Command, CommandKind, ContextState, FinishedItem, HwQueueState, Payload, QueueKind,
    QueuedSignal, Signal, SoftwareQueue, Work,
};
use crate::submission_right::{SubmissionRight, WaiterId};
use std::collections::{BTreeMap, VecDeque};
use tidegate_calls::SignalFlags;
use tidegate_ddi::{EngineId, EngineMap, OsHandle, Priority, SubmitCommandFlags};
use tidegate_platform::{CpuTime, WorkStats};

/// Maximum number of packets in flight per engine if the driver states no cap.
const DEFAULT_PACKET_CAP: usize = 2;

/// A stream of effects that one agent at a time carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitter {
    /// Packets of all engines.
    Packets,
    /// Commands of one hardware queue.
    HwQueue(OsHandle),
}

/// A packet that an engine is to get now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuePacket {
    /// The packet's context.
    pub context: OsHandle,
    /// The engine.
    pub engine: EngineId,
    /// The command buffer.
    pub command: Command,
    /// The submission fence ID.
    pub fence_id: u32,
    /// The flags of the submission.
    pub flags: SubmitCommandFlags,
}

/// A command that a hardware queue is to get now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueCommand {
    /// The command buffer.
    pub command: Command,
    /// The value of the progress fence when it is complete.
    pub progress_fence_id: u64,
}

/// An effect for the submitter of the packets to carry out.
pub enum Effect<P: Payload> {
    /// Submit a packet to an engine.
    Submit(DuePacket),
    /// Preempt the packets of an engine.
    Preempt {
        /// The engine.
        engine: EngineId,
        /// The preemption fence ID.
        fence_id: u32,
    },
    /// Execute a signal packet, then call [`VidSch::signalled`] with these queues.
    Signal {
        /// The queues that the packet blocks.
        queues: Vec<OsHandle>,
        /// The signal packet.
        signal: Signal<P>,
    },
}

/// An effect for the submitter of a hardware queue to carry out.
pub enum HwQueueEffect<P: Payload> {
    /// Submit a command to the hardware queue.
    Submit(DueCommand),
    /// Wait until the progress fence reaches this value, then take the submission right again.
    AwaitProgress(u64),
    /// Execute a signal packet, then call [`VidSch::signalled`] with these queues.
    Signal {
        /// The queues that the packet blocks.
        queues: Vec<OsHandle>,
        /// The signal packet.
        signal: Signal<P>,
    },
}

/// The scheduler of one adapter.
pub struct VidSch<P: Payload> {
    pub(crate) config: Config,
    pub(crate) engines: EngineMap<Engine>,
    pub(crate) queues: BTreeMap<OsHandle, SoftwareQueue<P::Fence>>,
    pub(crate) signals: BTreeMap<u64, QueuedSignal<P>>,
    /// Tickets of due signals that [`Submitter::Packets`] executes, in the order of becoming due.
    pub(crate) due_signals: VecDeque<u64>,
    pub(crate) finished: Vec<FinishedItem<P::Fence>>,
    pub(crate) holds: Holds<P::Kept>,
    pub(crate) right: SubmissionRight,
    next_ticket: u64,
    /// Time of the last decision about packets.
    pub(crate) decided_at: CpuTime,
}

impl<P: Payload> VidSch<P> {
    /// Creates a scheduler without queues.
    pub fn new(config: Config) -> VidSch<P> {
        let cap = match config.packet_cap {
            0 => DEFAULT_PACKET_CAP,
            cap => cap as usize,
        };
        VidSch {
            config,
            // spec: NF-323
            engines: EngineMap::new(config.nodes, config.physical_adapters, |_| {
                Engine::new(cap, config.fence_ids_ahead)
            }),
            queues: BTreeMap::new(),
            signals: BTreeMap::new(),
            due_signals: VecDeque::new(),
            finished: Vec::new(),
            holds: Holds::default(),
            right: SubmissionRight::default(),
            next_ticket: 0,
            decided_at: CpuTime(0),
        }
    }

    /// Adds the queue of a packet context. Does nothing if the engine does not exist.
    pub fn add_context(&mut self, context: OsHandle, engine: EngineId, priority: Priority) {
        if self.engines.get(engine).is_none() {
            return;
        }
        let state = ContextState {
            engine,
            priority,
            in_flight: 0,
            packets: (0, 0),
            listed: false,
            abandoned: false,
            hold: Default::default(),
        };
        self.queues.insert(context, SoftwareQueue::new(context, QueueKind::Context(state)));
    }

    /// Adds a hardware context, whose queues share the engine with packets. Does nothing if the
    /// engine does not exist.
    pub fn add_hardware_context(&mut self, engine: EngineId) {
        if let Some(engine) = self.engines.get_mut(engine) {
            engine.add_hardware_context();
        }
    }

    /// Removes a hardware context that was added.
    pub fn remove_hardware_context(&mut self, engine: EngineId) {
        if let Some(engine) = self.engines.get_mut(engine) {
            engine.remove_hardware_context();
        }
    }

    /// Adds a hardware queue with at most `max_in_flight` kernel commands in flight.
    pub fn add_hw_queue(&mut self, queue: OsHandle, max_in_flight: usize) {
        let state = HwQueueState {
            announced: 0,
            submitted: 0,
            submitted_ns: 0,
            completed: 0,
            in_flight: VecDeque::new(),
            max_in_flight,
            awaited: 0,
            due_signals: VecDeque::new(),
            right: SubmissionRight::default(),
        };
        self.queues.insert(queue, SoftwareQueue::new(queue, QueueKind::HwQueue(state)));
    }

    fn new_ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// Queues a command. Returns `false` if a hardware queue's progress value does not increase.
    // spec: MF-032
    pub fn push_command(&mut self, queue: OsHandle, command: Command, now: Now) -> bool {
        let ticket = self.new_ticket();
        let Some(to) = self.queues.get_mut(&queue) else { return true };
        if let (CommandKind::HwQueue { progress_fence_id }, Some(state)) =
            (command.kind, to.hw_queue_mut())
        {
            // spec: HS-011
            if progress_fence_id <= state.announced {
                return false;
            }
            state.announced = progress_fence_id;
        }
        if let Some(state) = to.context_mut() {
            state.packets.0 += 1;
        }
        let cost = command.kind.cost(command.bytes as usize);
        to.push(ticket, command.queued_ns, Work::Command(command), cost);
        self.advance(queue, now);
        true
    }

    /// Queues a wait for all of `fences`. Returns its ticket for [`VidSch::wait_satisfied`].
    pub fn push_wait(&mut self, queue: OsHandle, fences: &[P::Fence], now: Now) -> u64 {
        let ticket = self.new_ticket();
        if let Some(to) = self.queues.get_mut(&queue) {
            let work = Work::Wait { fences: fences.to_vec(), remaining: fences.len() };
            to.push(ticket, now.stamp_ns, work, fences.len().max(1));
        }
        self.advance(queue, now);
        ticket
    }

    /// Queues one signal packet on each of `queues`; it executes when all of them have reached it.
    /// The packet enters all queues in one call, so any two packets are in the same order on every
    /// queue and cannot deadlock. Returns the packet if none of the queues exists.
    pub fn push_signal(
        &mut self,
        queues: &[OsHandle],
        signal: Signal<P>,
        now: Now,
    ) -> Option<Signal<P>> {
        let ticket = self.new_ticket();
        // spec: MF-064
        let at_submission = signal.flags.contains(SignalFlags::SIGNAL_AT_SUBMISSION);
        let cost = signal.fences().len().max(1);
        let mut members = Vec::with_capacity(queues.len());
        for queue in queues {
            if let Some(to) = self.queues.get_mut(queue) {
                let work = Work::Signal { at_submission, reached: false };
                to.push(ticket, now.stamp_ns, work, cost);
                members.push(*queue);
            }
        }
        if members.is_empty() {
            return Some(signal);
        }
        self.signals.insert(ticket, QueuedSignal { signal, queues: Broadcast::new(&members) });
        members.iter().for_each(|queue| self.advance(*queue, now));
        None
    }

    /// Records that one condition of the wait `ticket` is satisfied.
    pub fn wait_satisfied(&mut self, queue: OsHandle, ticket: u64, now: Now) {
        if let Some(of) = self.queues.get_mut(&queue) {
            of.satisfy(ticket);
        }
        self.advance(queue, now);
    }

    /// Takes a submitter's right to carry out effects. Returns `false` while an agent holds it;
    /// that agent also handles all work queued before this call.
    pub fn try_take_right(&mut self, submitter: Submitter) -> bool {
        match submitter {
            Submitter::Packets => self.right.try_take(),
            Submitter::HwQueue(queue) => {
                let state = self.queues.get_mut(&queue).and_then(SoftwareQueue::hw_queue_mut);
                state.is_some_and(|state| state.right.try_take())
            }
        }
    }

    /// Registers a waiter, to which the holder hands off the packets' right.
    pub fn wait_for_right(&mut self, waiter: WaiterId) {
        self.right.wait(waiter);
    }

    /// Cancels a wait for the packets' right. Returns `false` if the waiter holds it already.
    pub fn cancel_wait_for_right(&mut self, waiter: WaiterId) -> bool {
        self.right.cancel_wait(waiter)
    }

    /// Hands off the packets' right, after [`VidSch::next_effect`] released it. Returns the holder.
    pub fn hand_off_right(&mut self) -> Option<WaiterId> {
        self.right.hand_off()
    }

    /// Unblocks the queues of a signal packet that was executed. Returns the submitters that may
    /// have effects to carry out.
    pub fn signalled(&mut self, queues: &[OsHandle], now: Now) -> Vec<Submitter> {
        let mut submitters = Vec::with_capacity(queues.len());
        for handle in queues {
            if let Some(queue) = self.queues.get_mut(handle) {
                queue.signalling = false;
                let submitter = submitter_of(*handle, &queue.kind);
                if !submitters.contains(&submitter) {
                    submitters.push(submitter);
                }
            }
            self.advance(*handle, now);
        }
        submitters
    }

    /// Takes the finished waits and signals.
    pub fn take_finished(&mut self) -> Vec<FinishedItem<P::Fence>> {
        std::mem::take(&mut self.finished)
    }

    /// Removes a due signal from its queues, and returns both.
    pub(crate) fn take_due_signal(
        &mut self,
        ticket: u64,
        now: Now,
    ) -> Option<(Vec<OsHandle>, Signal<P>)> {
        // A missing ticket means that the packet was abandoned.
        let QueuedSignal { signal, queues } = self.signals.remove(&ticket)?;
        let queues = queues.queues();
        for handle in &queues {
            if let Some(queue) = self.queues.get_mut(handle) {
                queue.take_signal(ticket, &signal.effect, now, &mut self.finished);
            }
        }
        Some((queues, signal))
    }

    /// Passes a due signal to its submitter: that of `queue`, or the packets' submitter without a
    /// queue. `queue` is the one that reached it last, or the first remaining one.
    pub(crate) fn make_due(&mut self, ticket: u64, queue: Option<OsHandle>) -> Submitter {
        if let Some(handle) = queue
            && let Some(state) = self.queues.get_mut(&handle).and_then(SoftwareQueue::hw_queue_mut)
        {
            state.due_signals.push_back(ticket);
            return Submitter::HwQueue(handle);
        }
        self.due_signals.push_back(ticket);
        Submitter::Packets
    }

    /// Removes satisfied waits from the head of a queue. Then lists a context whose head is a
    /// command, or marks a signal at the head as reached.
    pub(crate) fn advance(&mut self, handle: OsHandle, now: Now) {
        let Some(queue) = self.queues.get_mut(&handle) else { return };
        queue.pass_waits(now, &mut self.finished);
        self.holds.area_became_movable |= queue.can_move_area();
        let complete = queue.is_complete();
        if queue.signalling || queue.context().is_some_and(|state| state.listed) {
            return;
        }
        let Some(head) = queue.items.front_mut() else { return };
        match &mut head.work {
            Work::Command(_) => {
                if let QueueKind::Context(state) = &mut queue.kind
                    && !state.hold.is_on()
                {
                    state.listed = true;
                    let ready = &mut self.engines[state.engine].ready;
                    ready.push_back(handle, state.priority);
                }
            }
            // spec: MF-023
            Work::Signal { at_submission, reached }
                if !*reached && (*at_submission || complete) =>
            {
                *reached = true;
                let ticket = head.ticket;
                let signal = self.signals.get_mut(&ticket);
                if signal.is_some_and(|s| s.queues.reach(handle) == BroadcastState::Complete) {
                    self.make_due(ticket, Some(handle));
                }
            }
            _ => {}
        }
    }

    /// Returns what the work on a queue counts for: 1 for a command, or more if its commands are
    /// copied, and 1 for each fence of a wait or signal.
    pub fn queued_cost(&self, queue: OsHandle) -> usize {
        self.queues.get(&queue).map_or(0, SoftwareQueue::cost)
    }

    /// Whether a queue has no queued or in-flight work. Also true if the queue does not exist.
    pub fn is_idle(&self, queue: OsHandle) -> bool {
        let idle = |queue: &SoftwareQueue<P::Fence>| {
            queue.items.is_empty() && queue.is_complete() && !queue.signalling
        };
        self.queues.get(&queue).is_none_or(idle)
    }

    /// Returns the fence statistics of each queue up to `now_ns`.
    pub fn fence_operations(&self, now_ns: u64) -> impl Iterator<Item = (OsHandle, WorkStats)> {
        self.queues.values().map(move |queue| {
            let mut done = queue.done.clone();
            if let Some((_, Some(head_ns))) = queue.head_wait() {
                done.blocked_ns += now_ns.saturating_sub(head_ns);
            }
            (queue.handle, done)
        })
    }

    /// Returns the fences of waits at the heads of queues, with their queue.
    pub fn pending_waits(&self) -> impl Iterator<Item = (OsHandle, &P::Fence)> {
        let heads = self.queues.values().filter_map(|q| Some((q.handle, q.head_wait()?.0)));
        heads.flat_map(|(queue, fences)| fences.iter().map(move |fence| (queue, fence)))
    }
}

fn submitter_of(handle: OsHandle, kind: &QueueKind) -> Submitter {
    match kind {
        QueueKind::Context(_) => Submitter::Packets,
        QueueKind::HwQueue(_) => Submitter::HwQueue(handle),
    }
}
