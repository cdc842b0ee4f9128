//! How a workload is run.

use std::sync::Arc;

use tidegate_workload::expect::Clock;
use tidegate_workload::model::Submission;

/// Receives the operations done, and the total as far as it is known before the run.
pub type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// How a workload is run.
#[derive(Clone)]
pub struct RunOptions {
    /// All queues submit so; `None` leaves each queue its own choice, and `user` to those that have
    /// none.
    pub submission: Option<Submission>,
    /// Which clock the machine has.
    pub clock: Clock,
    /// Called repeatedly by the running agents; must not block.
    pub progress: Option<Progress>,
    /// Submissions that are to hang.
    pub hangs: Vec<HangAt>,
    /// Another workload runs on the same machine: counts of the machine are those of both, and a
    /// standstill may be that of the other workload.
    pub shares_machine: bool,
    /// Make the per-kernel table ([`Outcome::kernels`]); the run needs a timeline.
    pub kernels: bool,
}

/// A submission that hangs before the first of its commands, which the workload knows nothing of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HangAt {
    /// The queue's name.
    pub queue: String,
    /// Which submission of the queue, from 1.
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
            kernels: false,
        }
    }
}
