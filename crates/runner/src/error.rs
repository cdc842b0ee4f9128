//! Errors of preparing and running a workload.

use tidegate_workload::content::ContentError;

use crate::options::HangAt;

/// Errors of preparing a workload. Nothing has run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A buffer's first content cannot be made.
    #[error("{place}: buffer '{buffer}': {source}")]
    Content {
        /// Where it is declared.
        place: String,
        /// Its name.
        buffer: String,
        /// The cause.
        source: ContentError,
    },
    /// A queue, a fence, a buffer or a list could not be made.
    #[error("{place}: {source}")]
    Object {
        /// Where it is declared.
        place: String,
        /// The error of the device.
        source: tidegate_d3d12::Error,
    },
    /// The machine has fewer engines of a kind than the workload names.
    #[error(
        "{place}: queue '{queue}' needs {engine} engine {node}; the machine has {have}: add engines"
    )]
    NoNode {
        /// Where it is declared.
        place: String,
        /// The queue.
        queue: String,
        /// The kind of engine.
        engine: &'static str,
        /// Number of the engine of that kind, from 0.
        node: u32,
        /// Number of engines of that kind.
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
        /// The queues of the workload.
        have: Vec<String>,
    },
    /// A hang is requested at a submission that was not made. Detected after the run.
    #[error("{hang}: {}", submissions_made(&.hang.queue, *.had))]
    NoSubmissionToHang {
        /// The request.
        hang: HangAt,
        /// Number of submissions of the queue.
        had: u64,
    },
}

fn queue_names(have: &[String]) -> String {
    match have {
        [] => "the workload has no queue".to_owned(),
        [one] => format!("the workload has only '{one}'"),
        _ => format!("the workload has '{}'", have.join("', '")),
    }
}

fn submissions_made(queue: &str, had: u64) -> String {
    match had {
        0 => format!("queue '{queue}' has no submissions in this run; choose another queue"),
        1 => format!("queue '{queue}' has one submission in this run; use @1"),
        _ => format!("queue '{queue}' has {had} submissions in this run; use one of @1 to @{had}"),
    }
}
