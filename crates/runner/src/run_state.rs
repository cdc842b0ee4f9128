//! State that the agents of a run write when they end. Only [`crate::finish`] reads it, after the
//! run.

use std::collections::BTreeMap;

use tidegate_calls::DisplayStats;
use tidegate_d3d12::{Counters, RemovedReason};
use tidegate_platform::WorkStats;

use crate::probe::MachineCounters;
use tidegate_workload::model::{FenceId, QueueId, Span};

/// A thread that was released at a standstill, and its obstacle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StuckThread {
    /// Index into the workload's threads.
    pub(crate) thread: usize,
    pub(crate) span: Span,
    pub(crate) at: Obstacle,
}

/// The obstacle of a blocked thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// A wait for fences: any or all of them.
    Fences { any: bool, of: Vec<(FenceId, u64)> },
    /// Room in the ring of a queue.
    Room(QueueId),
    /// A mark of another recorded thread.
    Mark(u32),
    /// Its own time.
    Sleep,
}

/// Reasons for the early end of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    Stopped {
        span: Span,
        at: Obstacle,
    },
    /// The device was lost.
    Removed {
        reason: RemovedReason,
        span: Span,
        at: Obstacle,
    },
    /// Any other failure, as text with its place.
    Failed(String),
}

/// Largest signalled value of each fence, with its place.
pub(crate) type Largest = BTreeMap<FenceId, (u64, Span)>;

/// Counters at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) machine: MachineCounters,
    pub(crate) device: Counters,
    pub(crate) queues: Vec<WorkStats>,
    /// Connects of the doorbells of each queue.
    pub(crate) connects: Vec<u64>,
}

/// State written while a workload runs.
#[derive(Debug, Default)]
pub(crate) struct RunState {
    /// Start of the threads, on the clock of the timeline.
    pub(crate) started_ns: u64,
    /// When the queues were idle, or found to be stuck.
    pub(crate) ended_ns: Option<u64>,
    /// Whether they were idle.
    pub(crate) is_idle: bool,
    pub(crate) before: Counted,
    /// Calls and waits of the application, counted when the threads had returned. Those of the wait
    /// for idle queues are left out.
    pub(crate) calls: Counters,
    pub(crate) after: Counted,
    pub(crate) display: DisplayStats,
    pub(crate) finished_threads: usize,
    pub(crate) stuck: Vec<StuckThread>,
    /// Threads whose call failed because the device was removed, with that call.
    pub(crate) removed_threads: Vec<StuckThread>,
    /// Largest values signalled by threads themselves.
    pub(crate) largest: Largest,
    pub(crate) failures: Vec<String>,
    pub(crate) removed: Option<RemovedReason>,
}

/// Notes a signal.
pub(crate) fn note_signal(largest: &mut Largest, fence: FenceId, value: u64, span: Span) {
    let known = largest.entry(fence).or_insert((value, span));
    if value > known.0 {
        *known = (value, span);
    }
}
