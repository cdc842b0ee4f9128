//! Operations of threads, and the commands that they submit to queues.
//!
//! A thread runs its operations in order. Operations on a queue return at once; the queue executes
//! them later in the order of the calls. Each operation keeps its place in the file for messages.

use std::sync::Arc;

use tidegate_programs::ProgramId;

use super::{Args, BufferRef, FenceRef, QueueRef, Span};
use crate::expression::{Expr, Slot};

/// An operation and its place in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Op {
    /// The operation.
    pub kind: OpKind,
    /// Its place in the file.
    pub span: Span,
}

/// Operations of a thread.
#[derive(Debug, Clone, PartialEq)]
pub enum OpKind {
    /// Hands commands to a queue: one ExecuteCommandLists with one list.
    Submit {
        /// The queue.
        queue: QueueRef,
        /// The commands in order.
        commands: Vec<Command>,
    },
    /// The queue sets the fence when all earlier operations are complete.
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
    /// The display's queue shows the next buffer of the display when all earlier operations are
    /// complete.
    Present {
        /// Vertical syncs between the previous picture and this one, at least; with 0 a newer
        /// picture replaces it.
        interval: Expr,
        /// Recorded time at which the call returned with the display, in nanoseconds from the start
        /// of the recording. It returns no earlier: the screen is as fast as it was. `None` for a
        /// call that did not wait.
        returned_ns: Option<u64>,
    },
    /// The thread sets the fence, at once.
    CpuSignal {
        /// The fence.
        fence: FenceRef,
        /// Its new value.
        value: Expr,
    },
    /// The thread blocks until all, or any, of the fences have their values.
    CpuWait {
        /// One fence is enough; otherwise all are needed.
        any: bool,
        /// At least one.
        of: Vec<FenceWait>,
        /// Receives the lowest index in `of` of a fence that has its value.
        chosen: Option<Slot>,
    },
    /// The thread writes into a buffer through a CPU mapping, at once and in no queue's order.
    MapWrite {
        /// The buffer.
        buffer: BufferRef,
        /// First byte, a multiple of 4.
        offset: Expr,
        /// The content.
        data: Box<Data>,
    },
    /// The thread is busy without GPU work.
    Sleep {
        /// Duration in nanoseconds.
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
        /// The repeated operations.
        body: Box<[Op]>,
    },
    /// Runs one of two bodies.
    When {
        /// Chooses `body` when it is not 0.
        condition: Expr,
        /// If it is not 0.
        body: Box<[Op]>,
        /// If it is 0.
        otherwise: Box<[Op]>,
    },
    /// A recorded thread's own time up to a point of its recording. It resumes at `max(now +
    /// work_ns, until_ns + lag)`; the lag begins as the start of the run. A thread therefore keeps
    /// its recorded pace, and stays late by the amount that a wait was late. Faster calls make up
    /// for slow ones.
    Host {
        /// Recorded time, in nanoseconds from the start of the recording.
        until_ns: u64,
        /// The thread's own time since its last call, in nanoseconds.
        work_ns: u64,
    },
    /// A recorded thread polls until all fences have their values: in the recording it returned
    /// sooner than a sleeping thread is woken. A thread that polls for much longer sleeps instead.
    PollWait {
        /// The fences.
        of: Vec<FenceWait>,
        /// Recorded time at which they had their values.
        done_ns: u64,
    },
    /// A recorded thread waits for something that the recording does not name, until `until_ns +
    /// lag`.
    Blocked {
        /// Recorded time at which the call returned.
        until_ns: u64,
    },
    /// A recorded thread returns from a wait: its `lag` becomes now less `at_ns`.
    Resume {
        /// Recorded time at which the wait ended.
        at_ns: u64,
    },
    /// Sets a mark for other threads. It is neither a fence nor a call: it keeps the recorded order
    /// of two threads that feed one queue.
    Mark {
        /// The mark, below [`super::Workload::marks`].
        mark: u32,
    },
    /// Blocks until the mark is set. The thread's `lag` grows to now less `at_ns` if that is more.
    AwaitMark {
        /// The mark.
        mark: u32,
        /// Recorded time of the next operation.
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

/// The content of a CPU write.
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

/// A command of a list and its place in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// The command.
    pub kind: CommandKind,
    /// Its place in the file.
    pub span: Span,
}

/// A copy between buffers.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyCommand {
    /// Source.
    pub src: BufferRef,
    /// First byte there.
    pub src_offset: Expr,
    /// Destination.
    pub dst: BufferRef,
    /// First byte there.
    pub dst_offset: Expr,
    /// How many.
    pub bytes: Expr,
}

/// A fill of a buffer.
#[derive(Debug, Clone, PartialEq)]
pub struct FillCommand {
    /// The buffer.
    pub dst: BufferRef,
    /// First byte.
    pub offset: Expr,
    /// Length in bytes, a multiple of 4.
    pub bytes: Expr,
    /// The word.
    pub value: Expr,
}

/// A command for an engine. A trace has millions of [`CommandKind::Work`], so larger ones are
/// boxed.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandKind {
    /// Copies bytes between buffers.
    Copy(Box<CopyCommand>),
    /// Sets words of a buffer.
    Fill(Box<FillCommand>),
    /// Runs a compute program.
    Dispatch {
        /// The program.
        program: ProgramId,
        /// Its arguments, complete and of the right kinds.
        args: Args,
        /// Thread groups in x, y and z; `None` is as many as the arguments need.
        groups: Option<Box<[Expr; 3]>>,
    },
    /// Draws triangles.
    Draw {
        /// Arguments of [`ProgramId::DRAW`], complete and of the right kinds.
        args: Args,
    },
    /// Work that is only modelled: the engine is busy.
    Work {
        /// Duration in nanoseconds.
        ns: Expr,
        /// Its name in timelines.
        label: Option<Arc<str>>,
        /// The item of [`super::Recorded::items`] that it replays.
        recorded: Option<u32>,
    },
    /// The queue and its engine are idle: an unexplained gap of a trace. It does not count as work.
    Delay {
        /// Duration in nanoseconds.
        ns: Expr,
    },
}

// An imported trace has two operations and a command for each launch.
const _: () = assert!(size_of::<Op>() <= 64 && size_of::<Command>() <= 56);

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
