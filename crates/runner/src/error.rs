//! Errors of preparing and running a workload.

use tidegate_workload::content::ContentError;

use crate::options::HangAt;

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
    /// A hang is requested on a queue that does not exist.
    #[error("{hang}: no queue is called '{}'; {}", .hang.queue, queue_names(.have))]
    NoQueueToHang {
        /// The request.
        hang: HangAt,
        /// The queues that there are.
        have: Vec<String>,
    },
    /// A hang is requested at a submission that was not made. Detected after the run.
    #[error("{hang}: {}", submissions_made(&.hang.queue, *.had))]
    NoSubmissionToHang {
        /// The request.
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
