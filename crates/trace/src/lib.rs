//! What agents record while a workload runs, and the timelines written from it.
//!
//! Owns the data model of a trace (lanes, fences, names, records), the buffer in which one agent
//! records alone, what follows from the records (arrows, chains of submissions, counters), and the
//! writers: [`html`] (one self-contained page), [`compare_page`] (several traces on one page),
//! [`chrome`] (JSON trace events) and [`perfetto`] (protobuf packets).
//!
//! The order that matters:
//! 1. a [`TraceBuilder`] hands out lane, fence and name ids before any agent runs;
//! 2. each agent pushes [`Record`]s into a [`Recorder`] of its own, while it runs;
//! 3. when all agents have ended, their buffers are appended to the builder, in any order;
//! 4. [`TraceBuilder::finish`] sorts, and the [`Trace`] is read by the writers.
//!
//! Any crate calls in; this crate calls nobody. It takes no lock, starts no thread and reads no
//! clock: times are given to it, in nanoseconds since the start of the run. It does not decide what
//! is recorded.

// Samples are shared with the tests outside and the demonstration, which know this crate by its
// name.
#[cfg(test)]
extern crate self as tidegate_trace;
#[cfg(test)]
#[path = "../tests/sample/mod.rs"]
mod sample;

mod args;
mod builder;
mod check;
pub mod chrome;
pub mod compare_page;
mod counters;
mod flow;
pub mod html;
mod json;
mod model;
mod names;
pub mod perfetto;
mod queued;
mod recorder;
mod submission;
mod tracks;

pub use builder::TraceBuilder;
pub use check::{Contradiction, Explained};
pub use counters::Counter;
pub use flow::{Flow, FlowKind};
pub use model::{ClockName, Fence, FenceId, Kind, Lane, LaneId, LaneKind, LinkId, Record, Trace};
pub use names::{NameId, Names};
pub use recorder::Recorder;
pub use submission::Chain;
