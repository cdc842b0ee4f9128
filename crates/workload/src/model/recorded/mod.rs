//! Recorded times of the work that is replayed, for comparison with the replay; and the counts of
//! the import ([`ImportReport`]). `recording` fills them.

mod damage;
mod report;
mod source;

use std::sync::Arc;

pub(crate) use damage::Extent;
pub use damage::{Damage, Damaged, Fault, LONGEST_NS, Position};
pub use report::{ImportReport, SharedEngine};
pub use source::{Foreign, Remark, Source};

use super::ids::QueueId;

/// Kinds of GPU work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum WorkKind {
    /// A kernel.
    #[default]
    Kernel,
    /// A copy.
    Copy,
    /// A fill.
    Fill,
}

/// A recording beside the workload made from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// From the first recorded moment that is replayed to the end of the last work, or until the
    /// last frame had been on the screen for a refresh, in nanoseconds.
    pub makespan_ns: u64,
    /// GPU work in the order of the recorded host calls; [`super::CommandKind::Work`] points here.
    pub items: Vec<RecordedItem>,
    /// The names of the items, each once.
    pub names: Vec<Arc<str>>,
    /// The kind of the work of each name; of a name with several kinds, a kernel.
    pub kinds: Vec<WorkKind>,
    /// What was found, what could be paired and what could not.
    pub report: ImportReport,
}

/// One recorded piece of GPU work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedItem {
    /// The queue that replays it.
    pub queue: QueueId,
    /// Index into [`Recorded::names`].
    pub name: u32,
    /// When the host call that launched it handed it over, as late as the recording allows; `None`
    /// where its launch is not recorded.
    pub launched_ns: Option<u64>,
    /// Recorded start, in nanoseconds from the start of the recording.
    pub start_ns: u64,
    /// Recorded end.
    pub end_ns: u64,
    /// What it was waiting for last, as far as the trace shows.
    pub ready: Ready,
    /// How long after that it started.
    pub gap_ns: u64,
    /// Whether the gap is too long to be the device's own turn-around: the trace does not explain
    /// this start.
    pub unexplained: bool,
}

/// What a piece of work was waiting for last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// The host call that launched it.
    Launch,
    /// The end of the work before it on its stream.
    Previous,
    /// A wait for another stream.
    Dependency,
    /// Nothing: its launch is not in the trace and nothing precedes it.
    Unknown,
}
