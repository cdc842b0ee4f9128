//! Options of a run: submission model, clock, injected hangs, tables.

use std::sync::Arc;

use tidegate_workload::expect::Clock;
use tidegate_workload::model::Submission;

/// Receives the number of completed operations, and the total that is known before the run.
pub type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// Options of a run.
#[derive(Clone)]
pub struct RunOptions {
    /// Submission model of all queues. With `None` each queue has its own model, by default `user`.
    pub submission: Option<Submission>,
    /// Clock of the machine.
    pub clock: Clock,
    /// Called repeatedly by the running agents; must not block.
    pub progress: Option<Progress>,
    /// Hangs to inject.
    pub hangs: Vec<HangAt>,
    /// Another workload runs on the same machine. Counters of the machine count both, and
    /// either may stand still.
    pub shares_machine: bool,
    /// A failed thread ends the run. Its other threads may wait for the failed one, and on the
    /// machine of another process nothing finds such a standstill.
    pub stops_at_failure: bool,
    /// Make the per-kernel table ([`Outcome::kernels`](crate::Outcome::kernels)); the run needs a
    /// timeline.
    pub kernels: bool,
}

/// An injected hang: a submission hangs before the first of its commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HangAt {
    /// The queue's name.
    pub queue: String,
    /// Number of the submission of the queue, from 1.
    pub submission: u64,
}

impl std::fmt::Display for HangAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "hang:{}@{}", self.queue, self.submission)
    }
}

impl RunOptions {
    /// Every queue's own choice, without progress reports.
    pub fn new(clock: Clock) -> Self {
        Self {
            submission: None,
            clock,
            progress: None,
            hangs: Vec::new(),
            shares_machine: false,
            stops_at_failure: false,
            kernels: false,
        }
    }
}
