//! The intermediate form of a workload. Readers produce it, the runner consumes it.
//!
//! - An id is an index into a list of [`Workload`]. Lists keep the order of the file.
//! - Names are for messages. No lookup by name happens after reading.
//! - Objects are here, operations in `op`, programs and their arguments in `program`, numbers in
//!   `expression`, expected results in `expect`, recorded times in `recorded`.

pub mod expect;
pub mod expression;
mod ids;
mod op;
mod program;
pub mod recorded;

use std::sync::Arc;

pub use expression::{BufferRef, FenceRef, QueueRef, Ref};
pub use ids::{BufferId, FenceId, GroupMember, QueueId, Span};
pub use op::{Command, CommandKind, CopyCommand, Data, FenceWait, FillCommand, Op, OpKind};
pub use program::{Arg, Args};
pub use recorded::{Ready, Recorded, RecordedItem};
pub use tidegate_d3dukmdt::EngineKind;
pub use tidegate_d3dukmdt::{Priority, Submission};

use crate::error::Problem;
use expect::Expect;

/// A whole workload, every name resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Its name in tables and timelines.
    pub name: String,
    /// One or two sentences about its purpose.
    pub description: String,
    /// The file it came from, as given; spans point into it.
    pub file: String,
    /// What makes a run of it longer; `None` if the file does not say.
    pub scale: Option<Scale>,
    /// Local memory of the machine in bytes; `None` for the machine's default.
    pub local_memory_bytes: Option<u64>,
    /// GPU memory.
    pub buffers: Vec<Buffer>,
    /// GPU queues.
    pub queues: Vec<Queue>,
    /// Fences.
    pub fences: Vec<Fence>,
    /// The display, if the workload presents.
    pub display: Option<Display>,
    /// CPU threads, including those that feed one queue's program. All start together.
    pub threads: Vec<Thread>,
    /// Expected results and metrics.
    pub expects: Vec<Expect>,
    /// Buffers that are written as pictures at the end.
    pub frames: Vec<Frame>,
    /// Number of marks ([`OpKind::Mark`]).
    pub marks: u32,
    /// The recorded facts of a trace; `None` for a workload written by hand.
    pub recorded: Option<Recorded>,
    /// Warnings, such as a copy that will leave its buffer. They do not stop the run.
    pub warnings: Vec<Problem>,
}

/// The constant of a workload to which the length of a run is proportional.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    /// Its name in `[let]`.
    pub constant: String,
    /// Its value, 1 or more.
    pub value: i128,
}

impl Workload {
    /// `file:line:column` of a span, for messages.
    pub fn place(&self, span: Span) -> String {
        match span.line {
            0 => self.file.clone(),
            line => format!("{}:{line}:{}", self.file, span.column),
        }
    }

    /// The buffer of an id.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0 as usize]
    }

    /// The queue of an id.
    pub fn queue(&self, id: QueueId) -> &Queue {
        &self.queues[id.0 as usize]
    }

    /// The fence of an id.
    pub fn fence(&self, id: FenceId) -> &Fence {
        &self.fences[id.0 as usize]
    }
}

/// A piece of GPU memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Buffer {
    /// Its name.
    pub name: String,
    /// Length in bytes, a multiple of 4.
    pub bytes: u64,
    /// First content.
    pub init: Init,
    /// Where it is declared.
    pub span: Span,
}

/// First content of a buffer; see [`crate::content`] for the bytes. Zeros follow
/// a content that is shorter than the buffer, unless it fills the buffer.
#[derive(Debug, Clone, PartialEq)]
pub enum Init {
    /// Zeros.
    Zero,
    /// Every 32-bit word is this (repeats to the end).
    Pattern(u32),
    /// Words `start`, `start + step`, … (wrapping), to the end.
    SequenceU32 {
        /// First word.
        start: u32,
        /// Added for each next word.
        step: u32,
    },
    /// Floats `start`, `start + step`, … to the end.
    SequenceF32 {
        /// First value.
        start: f32,
        /// Added for each next value.
        step: f32,
    },
    /// Evenly spread pseudo-random floats in `low..high`, the same in every run, to the end.
    RandomF32 {
        /// Chooses the series.
        seed: u32,
        /// Smallest value.
        low: f32,
        /// Values stay below this.
        high: f32,
    },
    /// These words.
    ValuesU32(Vec<u32>),
    /// These floats.
    ValuesF32(Vec<f32>),
    /// A part of a ready-made scene.
    Content(Content),
}

/// Part of a ready-made scene, such as `frame/knot/vertices`.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    /// The scene and the part.
    pub name: String,
    /// Width of the scene's picture in pixels.
    pub width: u32,
    /// Its height.
    pub height: u32,
}

/// A GPU queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// The kind of engine that runs it.
    pub engine: EngineKind,
    /// Number of the engine of that kind, from 0. Queues of different nodes run at the same time.
    pub node: u32,
    /// The GPU of the recorded program that ran it, from 0. All engines of a replay are in one
    /// adapter; the account of a run tells the GPUs apart.
    pub gpu: u32,
    /// Its priority.
    pub priority: Priority,
    /// A submission model of its own, for runs that request none.
    pub submission: Option<Submission>,
    /// Where it is declared.
    pub span: Span,
}

/// A fence.
#[derive(Debug, Clone, PartialEq)]
pub struct Fence {
    /// Its name.
    pub name: String,
    /// Its first value.
    pub initial: u64,
    /// Where it is declared.
    pub span: Span,
}

/// A CPU thread and its program. Threads of one template share their body and differ in `index`.
#[derive(Debug, Clone, PartialEq)]
pub struct Thread {
    /// Its name: for a queue's own program, the name of the queue.
    pub name: String,
    /// The queue whose program this is; `None` for a thread of its own.
    pub queue: Option<QueueId>,
    /// First values of its variables, one per slot; slot 0 is `index`, its place in its template.
    pub variables: Vec<i128>,
    /// Names of the variables, for messages.
    pub variable_names: Arc<Vec<String>>,
    /// Its program.
    pub body: Arc<Vec<Op>>,
    /// Where it is declared.
    pub span: Span,
}

/// A display, and the buffers that a queue shows on it one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Display {
    /// The presenting queue, a kernel-mode queue.
    pub queue: QueueId,
    /// The first of its buffers, which are consecutive.
    pub first: BufferId,
    /// Number of buffers. Present number k, from 0, shows buffer k modulo this.
    pub count: u32,
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Refresh period in nanoseconds.
    pub refresh_ns: u64,
    /// The run starts so that a vertical sync is at this time of it, in nanoseconds; `None` where
    /// it starts at any time.
    pub vsync_at_ns: Option<u64>,
    /// Presents in flight above which a presenting thread blocks.
    pub latency: u32,
    /// Where it is declared.
    pub span: Span,
}

/// A buffer that is written as a PNG file when the run is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// File name, without a folder.
    pub file: String,
    /// The buffer, 4 bytes a pixel.
    pub buffer: BufferRef,
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Where it is requested.
    pub span: Span,
}
