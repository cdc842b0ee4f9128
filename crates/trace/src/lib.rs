//! Traces of runs, and the timelines written from them: [`html`] (one self-contained page),
//! [`compare_page`] (several traces on one page), [`chrome`] (JSON trace events), [`perfetto`].
//!
//! 1. A [`TraceBuilder`] hands out lane, fence and name ids before any agent runs.
//! 2. Each agent pushes [`Record`]s into its own [`Recorder`].
//! 3. When all agents have ended, their buffers are appended to the builder, in any order.
//! 4. [`TraceBuilder::finish`] sorts, and the writers read the [`Trace`].
//!
//! This crate depends on no other. It takes no lock, starts no thread and reads no clock: times are
//! arguments, in nanoseconds since the start of the run.

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
mod critical_path;
mod durations;
mod finding;
mod flow;
pub mod html;
mod json;
mod model;
mod names;
mod palette;
mod part;
pub mod perfetto;
mod queue_table;
mod queued;
mod recorder;
mod submission;
mod tracks;
mod work_stats;

pub use builder::TraceBuilder;
pub use check::{Contradiction, Explained};
pub use counters::Counter;
pub use critical_path::PathPart;
pub use durations::{Durations, duration, durations};
pub use finding::{Finding, FindingKind, MissingEdge};
pub use flow::{Flow, FlowKind};
pub use model::{
    ClockName, Fence, FenceId, Kind, Lane, LaneId, LaneKind, LinkId, Record, Stretch, Trace,
};
pub use names::{NameId, Names};
pub use part::{Known, Part};
pub use queue_table::{QueueNumber, QueueTable, Queued, SubmissionKey};
pub use recorder::Recorder;
pub use submission::Chain;
pub use work_stats::WorkStats;
