//! A software queue: the commands, waits and signals of one packet context or hardware queue.
//!
//! Invariants: the queue is FIFO. A wait blocks the work behind it. A signal executes when it is at
//! the head and every earlier command is complete; a signal at submission does not wait for
//! completion. Fences, events and actions are opaque here, see [`Payload`].

use crate::broadcast::Broadcast;
use crate::config::Now;
use crate::hold::Hold;
use crate::submission_right::SubmissionRight;
use std::collections::VecDeque;
use std::ops::Deref;
use tidegate_calls::SignalFlags;
use tidegate_ddi::{EngineId, OsHandle, Priority};
use tidegate_platform::WorkStats;

/// Kernel objects that queues store without interpreting them.
pub trait Payload {
    /// A fence and its value.
    type Fence: Clone;
    /// An event that a signal packet sets.
    type Event;
    /// Any other effect of a signal packet, such as showing a flip or ending a use of memory.
    type Action;
    /// An object that must stay alive while an engine may use it, such as a save area.
    type Kept;
}

/// The kind of a command buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// Work of a process.
    Render,
    /// One part of a DMA buffer that contains physical addresses, identified by its number.
    Patched {
        /// Whether this is the last part of the buffer.
        last: bool,
    },
    /// Work of the memory manager.
    Paging,
    /// A zero-length buffer that makes the engine switch to the context.
    ContextSwitch,
    /// Work of a process on a hardware queue.
    HwQueue {
        /// Progress fence value at completion.
        progress_fence_id: u64,
    },
}

/// A command buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// GPU virtual address, or the number of the part.
    pub gpu_va: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// Timeline time at which it was queued, in nanoseconds.
    pub queued_ns: u64,
    /// Number of the call that queued it, on the timeline; 0 for none.
    pub link: u32,
    /// The kind of command.
    pub kind: CommandKind,
}

/// Where the commands of a buffer lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandRange {
    /// GPU virtual address, or the number of the part.
    pub gpu_va: u64,
    /// Length in bytes.
    pub bytes: u32,
}

impl Command {
    /// Returns the GPU virtual address of its commands; 0 if they have none.
    pub fn address(&self) -> u64 {
        if matches!(self.kind, CommandKind::Render) { self.gpu_va } else { 0 }
    }
}

impl CommandKind {
    /// Whether packets of other contexts may run before it finishes.
    pub(crate) fn is_preemptible(self) -> bool {
        matches!(self, CommandKind::Render | CommandKind::Patched { .. })
    }
}

impl Command {
    pub(crate) const CONTEXT_SWITCH: Command =
        Command { gpu_va: 0, bytes: 0, queued_ns: 0, link: 0, kind: CommandKind::ContextSwitch };
}

/// The effect of a signal packet when every queue has reached it.
pub enum SignalEffect<P: Payload> {
    /// Signals fences.
    Fences(Vec<P::Fence>),
    /// Sets an event. Also set if the packet is abandoned, because a thread waits for it.
    Event(P::Event),
    /// Any other action. Dropped if the packet is abandoned.
    Action(P::Action),
}

/// A signal packet.
pub struct Signal<P: Payload> {
    /// The effect.
    pub effect: SignalEffect<P>,
    /// Flags of the signal call.
    pub flags: SignalFlags,
}

impl<P: Payload> Signal<P> {
    /// Creates a packet that sets an event.
    pub fn event(event: P::Event) -> Signal<P> {
        Signal { effect: SignalEffect::Event(event), flags: SignalFlags::empty() }
    }

    /// Creates a packet with another action.
    pub fn action(action: P::Action) -> Signal<P> {
        Signal { effect: SignalEffect::Action(action), flags: SignalFlags::empty() }
    }

    /// Returns the fences that it signals.
    pub fn fences(&self) -> &[P::Fence] {
        match &self.effect {
            SignalEffect::Fences(fences) => fences,
            SignalEffect::Event(_) | SignalEffect::Action(_) => &[],
        }
    }

    /// Returns the fences that it signals, by value.
    pub fn into_fences(self) -> Vec<P::Fence> {
        match self.effect {
            SignalEffect::Fences(fences) => fences,
            SignalEffect::Event(_) | SignalEffect::Action(_) => Vec::new(),
        }
    }
}

/// A signal packet and the queues it is on.
pub(crate) struct QueuedSignal<P: Payload> {
    pub(crate) signal: Signal<P>,
    pub(crate) queues: Broadcast,
}

pub(crate) enum Work<F> {
    Command(Command),
    Wait {
        fences: Vec<F>,
        remaining: usize,
    },
    /// This queue's entry for the signal packet with the item's ticket.
    Signal {
        at_submission: bool,
        reached: bool,
    },
}

pub(crate) struct Item<F> {
    pub(crate) ticket: u64,
    /// What it counts for among the queued work of its process.
    pub(crate) cost: usize,
    pub(crate) queued_ns: u64,
    /// Timeline time at which it reached the head of its queue, in nanoseconds.
    pub(crate) head_ns: Option<u64>,
    /// The used part of its context's turn in nanoseconds, if an engine returned the command
    /// unfinished.
    pub(crate) returned: Option<u64>,
    pub(crate) work: Work<F>,
}

/// The items of a queue, and the sum of their costs.
pub(crate) struct Items<F> {
    all: VecDeque<Item<F>>,
    cost: usize,
}

impl<F> Items<F> {
    fn new() -> Items<F> {
        Items { all: VecDeque::new(), cost: 0 }
    }

    fn push_back(&mut self, item: Item<F>) {
        self.cost += item.cost;
        self.all.push_back(item);
    }

    pub(crate) fn push_front(&mut self, item: Item<F>) {
        self.cost += item.cost;
        self.all.push_front(item);
    }

    pub(crate) fn pop_front(&mut self) -> Option<Item<F>> {
        let item = self.all.pop_front()?;
        self.cost -= item.cost;
        Some(item)
    }

    fn remove(&mut self, at: usize) -> Option<Item<F>> {
        let item = self.all.remove(at)?;
        self.cost -= item.cost;
        Some(item)
    }

    /// Takes all items.
    pub(crate) fn take(&mut self) -> VecDeque<Item<F>> {
        self.cost = 0;
        std::mem::take(&mut self.all)
    }

    pub(crate) fn front_mut(&mut self) -> Option<&mut Item<F>> {
        self.all.front_mut()
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Item<F>> {
        self.all.iter_mut()
    }
}

impl<F> Deref for Items<F> {
    type Target = VecDeque<Item<F>>;

    fn deref(&self) -> &VecDeque<Item<F>> {
        &self.all
    }
}

/// Bytes of copied commands that count as much as one entry of a queue.
const BYTES_OF_AN_ENTRY: usize = 256;

impl CommandKind {
    /// Returns what a command counts for among the queued work of its process: 1, and more if its
    /// commands are copied.
    pub fn cost(self, bytes: usize) -> usize {
        match self {
            CommandKind::Patched { .. } => 1 + bytes / BYTES_OF_AN_ENTRY,
            _ => 1,
        }
    }
}

/// A finished wait or signal, for the timeline.
pub struct FinishedItem<F> {
    /// The queue.
    pub queue: OsHandle,
    /// Whether it is a wait; otherwise a signal.
    pub wait: bool,
    /// Fences waited for or signalled.
    pub fences: Vec<F>,
    /// Timeline time at which it was queued, in nanoseconds.
    pub queued_ns: u64,
    /// Timeline time at which it reached the head of its queue, in nanoseconds.
    pub start_ns: u64,
    /// Timeline time at which it finished, in nanoseconds.
    pub end_ns: u64,
}

/// State of a packet context's queue, whose commands are packets of an engine.
pub(crate) struct ContextState {
    /// The engine that runs it.
    pub(crate) engine: EngineId,
    pub(crate) priority: Priority,
    /// Number of its packets in flight.
    pub(crate) in_flight: usize,
    /// Packets queued and completed so far.
    pub(crate) packets: (u64, u64),
    /// Whether it is in its engine's ready list.
    pub(crate) listed: bool,
    /// Whether the device is lost. Preempted packets are not resubmitted then.
    pub(crate) abandoned: bool,
    pub(crate) hold: Hold,
}

/// State of a hardware queue, whose commands go to the driver in order. The progress fence reports
/// their completion.
pub(crate) struct HwQueueState {
    /// Progress value of the last queued command.
    pub(crate) announced: u64,
    /// Progress value of the last submitted command.
    pub(crate) submitted: u64,
    /// Time of the last submission, in nanoseconds.
    pub(crate) submitted_ns: u64,
    /// Progress value read last.
    pub(crate) completed: u64,
    /// Progress values of the commands in flight, oldest first.
    pub(crate) in_flight: VecDeque<u64>,
    /// Maximum number of commands in flight (MaxInFlightHwQueueBuffers).
    pub(crate) max_in_flight: usize,
    /// Progress value at which a wake-up is pending.
    pub(crate) awaited: u64,
    /// Tickets of due signals that this queue's submitter executes.
    pub(crate) due_signals: VecDeque<u64>,
    pub(crate) right: SubmissionRight,
}

pub(crate) enum QueueKind {
    Context(ContextState),
    HwQueue(HwQueueState),
}

pub(crate) struct SoftwareQueue<F> {
    pub(crate) kind: QueueKind,
    pub(crate) handle: OsHandle,
    pub(crate) items: Items<F>,
    /// Whether a signal of this queue is executing. It blocks the work behind it.
    pub(crate) signalling: bool,
    pub(crate) done: WorkStats,
}

impl<F: Clone> SoftwareQueue<F> {
    pub(crate) fn new(handle: OsHandle, kind: QueueKind) -> SoftwareQueue<F> {
        SoftwareQueue {
            handle,
            kind,
            items: Items::new(),
            signalling: false,
            done: WorkStats::default(),
        }
    }

    pub(crate) fn push(&mut self, ticket: u64, queued_ns: u64, work: Work<F>, cost: usize) {
        self.items.push_back(Item { ticket, cost, queued_ns, head_ns: None, returned: None, work });
    }

    /// Returns the sum of the costs of what is queued.
    pub(crate) fn cost(&self) -> usize {
        self.items.cost
    }

    pub(crate) fn context(&self) -> Option<&ContextState> {
        match &self.kind {
            QueueKind::Context(state) => Some(state),
            QueueKind::HwQueue(_) => None,
        }
    }

    pub(crate) fn context_mut(&mut self) -> Option<&mut ContextState> {
        match &mut self.kind {
            QueueKind::Context(state) => Some(state),
            QueueKind::HwQueue(_) => None,
        }
    }

    pub(crate) fn hw_queue(&self) -> Option<&HwQueueState> {
        match &self.kind {
            QueueKind::HwQueue(state) => Some(state),
            QueueKind::Context(_) => None,
        }
    }

    pub(crate) fn hw_queue_mut(&mut self) -> Option<&mut HwQueueState> {
        match &mut self.kind {
            QueueKind::HwQueue(state) => Some(state),
            QueueKind::Context(_) => None,
        }
    }

    /// Whether no command is in flight.
    pub(crate) fn is_complete(&self) -> bool {
        match &self.kind {
            QueueKind::Context(state) => state.in_flight == 0,
            QueueKind::HwQueue(state) => state.completed >= state.submitted,
        }
    }

    /// Whether the context is off its engine and a save area of it is to be moved.
    pub(crate) fn can_move_area(&self) -> bool {
        self.context().is_some_and(|state| state.hold.area_is_moving && state.in_flight == 0)
    }

    pub(crate) fn head_command(&self) -> Option<&Command> {
        match &self.items.front()?.work {
            Work::Command(command) => Some(command),
            _ => None,
        }
    }

    pub(crate) fn head_wait(&self) -> Option<(&[F], Option<u64>)> {
        match self.items.front()? {
            Item { work: Work::Wait { fences, .. }, head_ns, .. } => Some((fences, *head_ns)),
            _ => None,
        }
    }

    /// Records that one condition of the wait `ticket` is satisfied.
    pub(crate) fn satisfy(&mut self, ticket: u64) {
        let item = self.items.iter_mut().find(|item| item.ticket == ticket);
        if let Some(Item { work: Work::Wait { remaining, .. }, .. }) = item {
            *remaining = remaining.saturating_sub(1);
        }
    }

    /// Removes satisfied waits from the head, and records when the new head got there.
    // spec: MF-031, MF-034
    pub(crate) fn pass_waits(&mut self, now: Now, finished: &mut Vec<FinishedItem<F>>) {
        while let Some(head) = self.items.front_mut() {
            let start_ns = *head.head_ns.get_or_insert(now.stamp_ns);
            let Work::Wait { fences, remaining: 0 } = &mut head.work else { break };
            let (fences, queued_ns, end_ns) =
                (std::mem::take(fences), head.queued_ns, now.stamp_ns);
            self.done.waits += 1;
            self.done.blocked_ns += end_ns.saturating_sub(start_ns);
            let queue = self.handle;
            finished.push(FinishedItem { queue, wait: true, fences, queued_ns, start_ns, end_ns });
            self.items.pop_front();
        }
    }

    /// Removes a due signal. The caller executes it; the queue is blocked until then.
    pub(crate) fn take_signal<P: Payload<Fence = F>>(
        &mut self,
        ticket: u64,
        effect: &SignalEffect<P>,
        now: Now,
        finished: &mut Vec<FinishedItem<F>>,
    ) {
        // A signal at submission may be behind a command preempted after the signal was reached.
        let at = self.items.iter().position(|item| item.ticket == ticket);
        let Some(item) = at.and_then(|at| self.items.remove(at)) else { return };
        self.signalling = true;
        let SignalEffect::Fences(fences) = effect else { return };
        self.done.signals += 1;
        finished.push(FinishedItem {
            queue: self.handle,
            wait: false,
            fences: fences.clone(),
            queued_ns: item.queued_ns,
            start_ns: item.head_ns.unwrap_or(now.stamp_ns),
            end_ns: now.stamp_ns,
        });
    }
}
