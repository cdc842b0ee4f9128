//! Owns what contexts have queued and what of it is at an end: commands, waits, and signals with
//! what they do. Data of `vidsch`.

use super::broadcast::Broadcast;
use crate::display::QueuedFlip;
use crate::memory::InUse;
use std::collections::VecDeque;
use std::sync::Arc;
use tidegate_calls::{Priority, SignalFlags};
use tidegate_ddi::OsHandle;
use tidegate_platform::{CpuTime, Event};

/// A moment: on the timeline, and on the clock of deadlines. They differ under exploration, where
/// the timeline counts steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Now {
    pub(crate) stamp_ns: u64,
    pub(crate) at: CpuTime,
}

/// What a command buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandKind {
    /// A process's work.
    Render,
    /// The same as a part of a buffer with physical addresses, by its number; see `render`. `last`:
    /// no part comes behind it.
    Patched { last: bool },
    /// The memory manager's.
    Paging,
    /// None: the engine is to take the context.
    ContextSwitch,
}

/// A command buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) gpu_va: u64,
    pub(crate) bytes: u32,
    pub(crate) queued_ns: u64,
    pub(crate) kind: CommandKind,
}

impl CommandKind {
    /// Whether others may go before it.
    pub(super) fn is_work(self) -> bool {
        matches!(self, CommandKind::Render | CommandKind::Patched { .. })
    }
}

impl Command {
    /// The zero-length buffer that has an engine take a context.
    pub(super) const CONTEXT_SWITCH: Command =
        Command { gpu_va: 0, bytes: 0, queued_ns: 0, kind: CommandKind::ContextSwitch };
}

/// What a context is given.
#[derive(Clone, Debug)]
pub(crate) enum Work<F> {
    Command(Command),
    Wait {
        fences: Vec<F>,
        remaining: usize,
    },
    /// The context's part in the signal of this ticket; see [`super::VidSch::push_signal`].
    Signal {
        at_submission: bool,
        reached: bool,
    },
}

/// What a signal packet does when every context has reached it.
#[derive(Clone, Debug)]
pub(crate) enum Effect<F> {
    /// Signals fences.
    Fences(Vec<F>),
    /// Sets an event and touches no fence.
    CpuEvent(Event),
    /// Says that what was queued before it is over, by being dropped.
    LastUse(Arc<InUse>),
    /// Shows a picture that is rendered then.
    Flip(Arc<QueuedFlip>),
}

/// A signal packet.
#[derive(Clone, Debug)]
pub(crate) struct Signal<F> {
    pub(crate) effect: Effect<F>,
    pub(crate) flags: SignalFlags,
}

/// A signal packet and the contexts in whose queues it stands.
pub(super) struct QueuedSignal<F> {
    pub(super) signal: Signal<F>,
    pub(super) contexts: Broadcast,
}

/// What was queued on contexts that go away, to be dropped outside the lock.
pub(crate) struct GivenUp<F> {
    /// There are decisions now: somebody must run.
    pub(crate) news: bool,
    /// What each of the contexts waited for.
    pub(crate) waits: Vec<(OsHandle, F)>,
    /// Commands that the driver was never given.
    pub(crate) commands: Vec<(OsHandle, Command)>,
    /// Signals that are not made.
    pub(crate) abandoned: Vec<Signal<F>>,
}

pub(super) struct Item<F> {
    pub(super) ticket: u64,
    pub(super) queued_ns: u64,
    /// When it came to the head of its queue.
    pub(super) head_ns: Option<u64>,
    /// A command that the driver had and that came back.
    pub(super) came_back: bool,
    pub(super) work: Work<F>,
}

/// What a queue in software did with fences since it was made.
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
    /// It passed a wait that headed it from `head_ns` to `end_ns`.
    pub(crate) fn pass_wait(&mut self, head_ns: u64, end_ns: u64) {
        self.waits += 1;
        self.block(head_ns, end_ns);
    }

    /// A wait headed it from `head_ns` to `end_ns`.
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

pub(super) struct ContextQueue<F> {
    pub(super) engine: u32,
    pub(super) priority: Priority,
    pub(super) tag: u32,
    pub(super) lane: u32,
    pub(super) items: VecDeque<Item<F>>,
    pub(super) in_flight: usize,
    pub(super) signalling: bool,
    /// Stands in its engine's ready list.
    pub(super) listed: bool,
    /// Its device is lost: what comes back is not submitted again.
    pub(super) given_up: bool,
    pub(super) hold: Hold,
    pub(super) done: FenceOperations,
}

/// Why no packet of a context may be given to the driver now, whatever is queued: its save areas
/// are no place for a state yet, or not at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hold {
    /// So many of them have no first content.
    pub(super) areas_without_content: u32,
    /// One of them is about to move.
    pub(super) area_moves: bool,
}

impl Hold {
    pub(super) fn is_on(self) -> bool {
        self != Hold::default()
    }
}

impl<F> ContextQueue<F> {
    /// An empty one.
    pub(super) fn new(engine: u32, priority: Priority, tag: u32, lane: u32) -> ContextQueue<F> {
        ContextQueue {
            engine,
            priority,
            tag,
            lane,
            items: VecDeque::new(),
            in_flight: 0,
            signalling: false,
            listed: false,
            given_up: false,
            hold: Hold::default(),
            done: FenceOperations::default(),
        }
    }

    /// The command at its head.
    pub(super) fn head_command(&self) -> Option<&Command> {
        match &self.items.front()?.work {
            Work::Command(command) => Some(command),
            _ => None,
        }
    }
}

/// A wait or signal that is over, for the timeline.
pub(crate) struct Finished<F> {
    pub(crate) lane: u32,
    pub(crate) wait: bool,
    pub(crate) fences: Vec<F>,
    pub(crate) queued_ns: u64,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}
