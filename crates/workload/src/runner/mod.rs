//! Runs a workload on queues: from the intermediate form to a report.
//!
//! The order that matters:
//! 1. [`prepare`] makes queues, fences and buffers with their first contents, and closes the lists
//!    of a recorded workload, all outside the measured time;
//! 2. the caller hands [`Prepared::main`] to [`Platform::run`](tidegate_platform::Platform::run):
//!    one agent per thread of the workload (`thread`), then a wait until every queue is idle;
//! 3. [`Prepared::finish`] reads what is left: counters, fences, buffers, the trace; and judges
//!    (`crate::verify`).
//!
//! Rooms: `prepare` · `lists` (commands → closed lists) · `thread` (the operations of one thread) ·
//! `log` (what was submitted, for messages) · `finish` · `held_up` (what a hang kept others from).
//! Calls go to `d3d12` alone; what only the machine knows is asked of a [`MachineProbe`]. It builds
//! no machine and knows no submission model but by name.

mod finish;
mod held_up;
mod lists;
pub(crate) mod log;
mod machine;
mod prepare;
mod state;
mod thread;
mod work;

use std::sync::Arc;

use crate::content::ContentError;
use crate::expect::Clock;
use crate::model::Submission;

pub use finish::{Outcome, Picture};
pub(crate) use lists::{Evaluated, RecordedList, words as argument_words};
pub use machine::{
    DisplayCounters, MachineCounters, MachineProbe, NodeNeeds, PendingWait, QueueCounters,
    RecoveredWork, Recovery, fence_choice, required_nodes, residency_choice, ring_slots,
    submission_of, wants_trace,
};
pub use prepare::{Prepared, prepare};
pub(crate) use state::{Largest, Obstacle, StuckThread};

/// Told how many operations are done, and how many there are as far as that can be known before.
pub type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// How a workload is run.
#[derive(Clone)]
pub struct RunOptions {
    /// All queues submit so; `None` leaves each queue its own choice, and `user` to those that have
    /// none.
    pub submission: Option<Submission>,
    /// Which clock the machine has.
    pub clock: Clock,
    /// Called now and then by the agents that run; must not block.
    pub progress: Option<Progress>,
    /// Submissions that are to hang.
    pub hangs: Vec<HangAt>,
    /// Another workload runs on the same machine: counts of the machine are those of both, and who
    /// stands still may be the other one.
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
    /// Every queue's own choice, and nobody told of progress.
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

/// Why a workload could not be prepared. Nothing of it ran.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A buffer's first content cannot be made.
    #[error("{place}: buffer '{buffer}': {source}")]
    Content {
        /// Where it is declared.
        place: String,
        /// Its name.
        buffer: String,
        /// Why.
        source: ContentError,
    },
    /// A queue, a fence, a buffer or a list could not be made.
    #[error("{place}: {source}")]
    Object {
        /// Where it is declared.
        place: String,
        /// What the device said.
        source: tidegate_d3d12::Error,
    },
    /// The machine has fewer engines of a kind than the workload names.
    #[error(
        "{place}: queue '{queue}' wants {engine} engine {node} and the machine has {have}; give it more engines"
    )]
    NoNode {
        /// Where it is declared.
        place: String,
        /// The queue.
        queue: String,
        /// The kind of engine.
        engine: &'static str,
        /// Which of that kind, from 0.
        node: u32,
        /// How many there are.
        have: usize,
    },
    /// A list that was to be closed before the run cannot be made.
    #[error("{0}")]
    List(String),
    /// A hang is asked for on a queue that there is not.
    #[error("{hang}: no queue is called '{}'; {}", .hang.queue, queue_names(.have))]
    NoQueueToHang {
        /// What is asked for.
        hang: HangAt,
        /// The queues that there are.
        have: Vec<String>,
    },
    /// A hang is asked for at a submission that was not made. This is known when the workload has
    /// run.
    #[error("{hang}: {}", submissions_made(&.hang.queue, *.had))]
    NoSubmissionToHang {
        /// What is asked for.
        hang: HangAt,
        /// How many submissions the queue was given.
        had: u64,
    },
}

fn queue_names(have: &[String]) -> String {
    match have {
        [] => "the workload has no queue".to_owned(),
        [one] => format!("the workload has '{one}' alone"),
        _ => format!("the workload has '{}'", have.join("', '")),
    }
}

fn submissions_made(queue: &str, had: u64) -> String {
    match had {
        0 => format!("queue '{queue}' is given no submission in this run; choose another queue"),
        1 => format!("queue '{queue}' is given one submission in this run; say @1"),
        _ => format!(
            "queue '{queue}' is given {had} submissions in this run; say one of @1 to @{had}"
        ),
    }
}
