//! A software queue: commands, waits and signals of one packet context or one hardware queue.
//!
//! Invariants: first in, first out. A wait holds what is queued behind it. A signal is made when it
//! heads the queue and every earlier command is complete; a signal at submission does not wait for
//! completion. What a queue carries (fences, events, actions) is opaque here, see [`Payload`].

use crate::broadcast::Broadcast;
use crate::config::Now;
use crate::hold::Hold;
use crate::submission_right::SubmissionRight;
use std::collections::VecDeque;
use tidegate_calls::SignalFlags;
use tidegate_ddi::{OsHandle, Priority};

/// The kernel's objects that queues carry. VidSch only stores them.
pub trait Payload {
    /// A fence and a value.
    type Fence: Clone;
    /// An event that a signal packet sets.
    type Event;
    /// What else a signal packet does: show a flip, end a use of memory.
    type Action;
    /// What must stay alive while an engine may use it: a save area, a DMA buffer.
    type Kept;
}

/// What a command buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// A process's work.
    Render,
    /// A part of a DMA buffer with physical addresses, by its number.
    Patched {
        /// It is the last part of its buffer.
        last: bool,
    },
    /// The memory manager's.
    Paging,
    /// A zero-length buffer that makes the engine switch to the context.
    ContextSwitch,
    /// A process's work on a hardware queue.
    HwQueue {
        /// The value of the progress fence when it is complete.
        progress_fence_id: u64,
    },
}

/// A command buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its GPU virtual address, or the number of its part.
    pub gpu_va: u64,
    /// Its length.
    pub bytes: u32,
    /// When it was queued, on the timeline.
    pub queued_ns: u64,
    /// What it is for.
    pub kind: CommandKind,
}

impl CommandKind {
    /// Whether packets of other contexts may go before it.
    pub(crate) fn is_preemptible(self) -> bool {
        matches!(self, CommandKind::Render | CommandKind::Patched { .. })
    }
}

impl Command {
    pub(crate) const CONTEXT_SWITCH: Command =
        Command { gpu_va: 0, bytes: 0, queued_ns: 0, kind: CommandKind::ContextSwitch };
}

/// What a signal packet does when every queue has reached it.
pub enum SignalEffect<P: Payload> {
    /// Signals fences.
    Fences(Vec<P::Fence>),
    /// Sets an event. It is set also when the packet is abandoned, because a thread waits for it.
    Event(P::Event),
    /// Any other action; an abandoned one is dropped.
    Action(P::Action),
}

/// A signal packet.
pub struct Signal<P: Payload> {
    /// What it does.
    pub effect: SignalEffect<P>,
    /// The flags of the call.
    pub flags: SignalFlags,
}

impl<P: Payload> Signal<P> {
    /// A packet that sets an event.
    pub fn event(event: P::Event) -> Signal<P> {
        Signal { effect: SignalEffect::Event(event), flags: SignalFlags::empty() }
    }

    /// A packet that does something other than signalling.
    pub fn action(action: P::Action) -> Signal<P> {
        Signal { effect: SignalEffect::Action(action), flags: SignalFlags::empty() }
    }

    /// The fences that it signals.
    pub fn fences(&self) -> &[P::Fence] {
        match &self.effect {
            SignalEffect::Fences(fences) => fences,
            SignalEffect::Event(_) | SignalEffect::Action(_) => &[],
        }
    }

    /// Takes the fences that it signals.
    pub fn into_fences(self) -> Vec<P::Fence> {
        match self.effect {
            SignalEffect::Fences(fences) => fences,
            SignalEffect::Event(_) | SignalEffect::Action(_) => Vec::new(),
        }
    }
}

/// A signal packet and the queues that it is queued on.
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
    /// This queue's share of the signal packet with the item's ticket.
    Signal {
        at_submission: bool,
        reached: bool,
    },
}

pub(crate) struct Item<F> {
    pub(crate) ticket: u64,
    pub(crate) queued_ns: u64,
    /// When it came to the head of its queue.
    pub(crate) head_ns: Option<u64>,
    /// A command that an engine had and gave back.
    pub(crate) came_back: bool,
    pub(crate) work: Work<F>,
}

/// What a software queue did with fences since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FenceOperations {
    /// Waits that it passed.
    pub waits: u64,
    /// Signals that it made.
    pub signals: u64,
    /// Time for which waits headed it, in nanoseconds.
    pub blocked_ns: u64,
}

impl FenceOperations {
    /// A wait headed the queue from `head_ns` to `end_ns`.
    pub(crate) fn block(&mut self, head_ns: u64, end_ns: u64) {
        self.blocked_ns += end_ns.saturating_sub(head_ns);
    }
}

impl std::ops::AddAssign for FenceOperations {
    fn add_assign(&mut self, more: FenceOperations) {
        self.waits += more.waits;
        self.signals += more.signals;
        self.blocked_ns += more.blocked_ns;
    }
}

/// A wait or signal that is over, for the timeline.
pub struct FinishedItem<F> {
    /// Its queue.
    pub queue: OsHandle,
    /// It is a wait; otherwise a signal.
    pub wait: bool,
    /// Its fences.
    pub fences: Vec<F>,
    /// When it was queued, on the timeline.
    pub queued_ns: u64,
    /// When it came to the head of its queue.
    pub start_ns: u64,
    /// When it was over.
    pub end_ns: u64,
}

/// A packet context's share: its commands are packets of an engine.
pub(crate) struct ContextState {
    /// The engine's index.
    pub(crate) engine: usize,
    pub(crate) priority: Priority,
    /// Packets that the engine has.
    pub(crate) in_flight: usize,
    /// It is in its engine's ready list.
    pub(crate) listed: bool,
    /// Its device is lost: packets that come back are not submitted again.
    pub(crate) given_up: bool,
    pub(crate) hold: Hold,
}

/// A hardware queue's share: its commands go to the driver in order, and the progress fence says
/// when they are complete.
pub(crate) struct HwQueueState {
    /// The progress value of the last queued command.
    pub(crate) announced: u64,
    /// The progress value of the last submitted command.
    pub(crate) submitted: u64,
    /// When that was.
    pub(crate) submitted_ns: u64,
    /// The progress value that was read last.
    pub(crate) completed: u64,
    /// Submitted commands that are not complete, oldest first.
    pub(crate) in_flight: VecDeque<u64>,
    /// MaxInFlightHwQueueBuffers.
    pub(crate) max_in_flight: usize,
    /// The progress value that a waiter is registered for.
    pub(crate) awaited: u64,
    /// Signals that this queue's agent makes.
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
    pub(crate) items: VecDeque<Item<F>>,
    /// Its head signal is being made: nothing behind it goes on.
    pub(crate) signalling: bool,
    pub(crate) done: FenceOperations,
}

impl<F: Clone> SoftwareQueue<F> {
    pub(crate) fn new(handle: OsHandle, kind: QueueKind) -> SoftwareQueue<F> {
        SoftwareQueue {
            handle,
            kind,
            items: VecDeque::new(),
            signalling: false,
            done: FenceOperations::default(),
        }
    }

    pub(crate) fn push(&mut self, ticket: u64, queued_ns: u64, work: Work<F>) {
        self.items.push_back(Item { ticket, queued_ns, head_ns: None, came_back: false, work });
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

    /// Whether every submitted command is complete.
    pub(crate) fn is_complete(&self) -> bool {
        match &self.kind {
            QueueKind::Context(state) => state.in_flight == 0,
            QueueKind::HwQueue(state) => state.completed >= state.submitted,
        }
    }

    /// Whether a save area of the context is to move and no engine has a packet of it.
    pub(crate) fn is_quiet(&self) -> bool {
        self.context().is_some_and(|state| state.hold.area_moves && state.in_flight == 0)
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

    /// One condition of the wait `ticket` is satisfied.
    pub(crate) fn satisfy(&mut self, ticket: u64) {
        let item = self.items.iter_mut().find(|item| item.ticket == ticket);
        if let Some(Item { work: Work::Wait { remaining, .. }, .. }) = item {
            *remaining = remaining.saturating_sub(1);
        }
    }

    /// Takes satisfied waits off the head, and notes when the new head came there.
    // spec: MF-031, MF-034
    pub(crate) fn pass_waits(&mut self, now: Now, finished: &mut Vec<FinishedItem<F>>) {
        while let Some(head) = self.items.front_mut() {
            let start_ns = *head.head_ns.get_or_insert(now.stamp_ns);
            let Work::Wait { fences, remaining: 0 } = &mut head.work else { break };
            let (fences, queued_ns, end_ns) =
                (std::mem::take(fences), head.queued_ns, now.stamp_ns);
            self.done.waits += 1;
            self.done.block(start_ns, end_ns);
            let queue = self.handle;
            finished.push(FinishedItem { queue, wait: true, fences, queued_ns, start_ns, end_ns });
            self.items.pop_front();
        }
    }

    /// Takes a signal that is due out of the queue. It is made by the caller, and holds the queue
    /// until then.
    pub(crate) fn take_signal<P: Payload<Fence = F>>(
        &mut self,
        ticket: u64,
        effect: &SignalEffect<P>,
        now: Now,
        finished: &mut Vec<FinishedItem<F>>,
    ) {
        // A signal at submission may be behind a command that came back after it was reached.
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
