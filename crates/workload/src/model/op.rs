//! Operations of threads, and the commands that they submit to queues.
//!
//! A thread runs its operations in order. Operations on a queue return at once; the queue executes
//! them later in the order of the calls. Each operation keeps its place in the file for messages.

use std::sync::Arc;

use tidegate_programs::ProgramId;

use super::{Args, BufferRef, FenceRef, QueueRef, Span};
use crate::expression::{Expr, Slot};

/// One operation and where it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Op {
    /// What is done.
    pub kind: OpKind,
    /// Where it is written.
    pub span: Span,
}

/// What a thread can do.
#[derive(Debug, Clone, PartialEq)]
pub enum OpKind {
    /// Hands commands to a queue: one ExecuteCommandLists with one list.
    Submit {
        /// The queue.
        queue: QueueRef,
        /// Carried out in this order.
        commands: Vec<Command>,
    },
    /// The queue sets the fence when everything before it is done.
    Signal {
        /// The queue.
        queue: QueueRef,
        /// The fence.
        fence: FenceRef,
        /// Its new value.
        value: Expr,
    },
    /// The queue waits until the fence is at least the value.
    Wait {
        /// The queue.
        queue: QueueRef,
        /// The fence.
        fence: FenceRef,
        /// The least value that releases it.
        value: Expr,
    },
    /// The display's queue shows the next of the display's buffers when everything before it is
    /// done.
    Present {
        /// Vertical syncs from the picture before to this one, at least; 0 to give way to a newer
        /// one.
        interval: Expr,
    },
    /// The thread sets the fence, at once.
    CpuSignal {
        /// The fence.
        fence: FenceRef,
        /// Its new value.
        value: Expr,
    },
    /// The thread blocks until all, or any, of these are met.
    CpuWait {
        /// Any one is enough; otherwise all are needed.
        any: bool,
        /// At least one.
        of: Vec<FenceWait>,
        /// Receives the place in `of` of the first that was met (the lowest when several are).
        chosen: Option<Slot>,
    },
    /// The thread writes into a buffer through a CPU mapping, at once and in no queue's order.
    MapWrite {
        /// The buffer.
        buffer: BufferRef,
        /// First byte, a multiple of 4.
        offset: Expr,
        /// What is written.
        data: Data,
    },
    /// The thread is busy with something of its own.
    Sleep {
        /// For how long, in nanoseconds.
        ns: Expr,
    },
    /// Sets a variable of the thread.
    Set {
        /// The variable.
        variable: Slot,
        /// Its new value.
        value: Expr,
    },
    /// Runs the body for every value from `from` to `to`, both included; not at all when `to <
    /// from`.
    Loop {
        /// The index.
        variable: Slot,
        /// First value.
        from: Expr,
        /// Last value.
        to: Expr,
        /// What is repeated.
        body: Vec<Op>,
    },
    /// Runs one of two bodies.
    When {
        /// Chooses `body` when it is not 0.
        condition: Expr,
        /// When it holds.
        body: Vec<Op>,
        /// When it does not.
        otherwise: Vec<Op>,
    },
    /// A recorded thread goes on to a point of its recording: it resumes at `max(now + work_ns,
    /// until_ns + lag)`. The lag starts as the start of the run. So a thread keeps its recorded
    /// pace: its own work between two calls takes as long as it did, and one that was late in a
    /// wait stays late by the same amount. What a slow call cost it may make up for in calls that
    /// are faster than they were.
    Host {
        /// Recorded time, in nanoseconds from the start of the recording.
        until_ns: u64,
        /// What the thread did by itself since its last call, in nanoseconds.
        work_ns: u64,
    },
    /// A recorded thread that polled until all fences had their values: in the recording it went on
    /// sooner than a sleeping thread is woken. A thread that has to poll for much longer
    /// than it did sleeps after all.
    PollWait {
        /// All of them.
        of: Vec<FenceWait>,
        /// Recorded time at which they were there.
        done_ns: u64,
    },
    /// A recorded thread comes out of a wait: from here on its `lag` is now less `at_ns`.
    Resume {
        /// Recorded time at which the wait ended.
        at_ns: u64,
    },
    /// Tells other threads that this point is reached. No fence and no call: it keeps the recorded
    /// order of two threads that feed one queue.
    Mark {
        /// Which mark, below [`super::Workload::marks`].
        mark: u32,
    },
    /// Blocks until the mark is reached; the thread's `lag` grows to now less `at_ns` if that is
    /// more.
    AwaitMark {
        /// Which mark.
        mark: u32,
        /// Recorded time of what follows.
        at_ns: u64,
    },
}

/// A fence and the value that is waited for.
#[derive(Debug, Clone, PartialEq)]
pub struct FenceWait {
    /// The fence.
    pub fence: FenceRef,
    /// The least value that releases the wait.
    pub value: Expr,
}

/// What a CPU write puts into memory.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// A number of words, each computed.
    Each {
        /// The word.
        value: Expr,
        /// How many.
        words: Expr,
        /// Holds the number of the word, from 0, while `value` is computed.
        word: Slot,
    },
    /// These words.
    U32(Vec<u32>),
    /// These floats.
    F32(Vec<f32>),
}

/// One command of a list and where it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// What the engine does.
    pub kind: CommandKind,
    /// Where it is written.
    pub span: Span,
}

/// A command for an engine.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandKind {
    /// Copies bytes between buffers.
    Copy {
        /// From here.
        src: BufferRef,
        /// First byte there.
        src_offset: Expr,
        /// To here.
        dst: BufferRef,
        /// First byte there.
        dst_offset: Expr,
        /// How many.
        bytes: Expr,
    },
    /// Sets words of a buffer.
    Fill {
        /// The buffer.
        dst: BufferRef,
        /// First byte.
        offset: Expr,
        /// Length in bytes, a multiple of 4.
        bytes: Expr,
        /// The word.
        value: Expr,
    },
    /// Runs a compute program.
    Dispatch {
        /// Which one.
        program: ProgramId,
        /// Its arguments, complete and of the right kinds.
        args: Args,
        /// Thread groups in x, y and z; `None` is as many as the arguments need.
        groups: Option<[Expr; 3]>,
    },
    /// Draws triangles.
    Draw {
        /// Arguments of [`ProgramId::DRAW`], complete and of the right kinds.
        args: Args,
    },
    /// Work that is only modelled: the engine is busy.
    Work {
        /// For how long, in nanoseconds.
        ns: Expr,
        /// What it stands for, in timelines.
        label: Option<Arc<str>>,
        /// Which item of [`super::Recorded::items`] it replays.
        recorded: Option<u32>,
    },
    /// The queue and its engine do nothing: a gap that a trace shows and does not explain. It is
    /// not counted as work.
    Delay {
        /// For how long, in nanoseconds.
        ns: Expr,
    },
}

impl OpKind {
    /// The queue of a submission, GPU signal or GPU wait.
    pub fn queue(&self) -> Option<&QueueRef> {
        match self {
            OpKind::Submit { queue, .. }
            | OpKind::Signal { queue, .. }
            | OpKind::Wait { queue, .. } => Some(queue),
            _ => None,
        }
    }
}
