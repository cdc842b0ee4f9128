//! Recorded runs of real programs, whatever their format, become workloads.
//!
//! Purpose: a reader of a format (`kineto`, `nsys`, `rocprof`, `perfetto`, `own_timeline`) fills a
//! [`Recording`]; [`workload()`] makes a workload of it. Order: records (`records`) → joins between
//! host calls and GPU work (`correlate`) → entries in the order of the host calls, with what each
//! waited for (`timeline`) → a workload (`build`). Streams become queues. Kernels and copies become
//! work of the recorded length. Host calls that launched them become submissions at their recorded
//! times. Event records, stream waits and synchronisations become signals, GPU waits and CPU waits.
//! Invariant: an order that the recording does not state is not invented; it is counted in
//! [`ImportReport`]. Entry points: [`Recording`], [`call()`] for the names of host calls,
//! [`workload()`].

mod build;
mod call;
mod correlate;
mod damage;
mod engines;
mod records;
mod report;
mod source;
mod timeline;

use crate::error::Error;
use crate::model::Workload;

pub use call::{Call, call};
pub use damage::{Damage, Damaged, Fault, LONGEST_NS, Position};
pub use engines::SharedEngine;
pub use records::{
    Awaited, CallId, CallRecord, CallRef, EventId, EventKey, EventRecord, Launcher, NameId,
    ProcessId, Recording, StreamFacts, StreamId, StreamKey, SyncKind, SyncRecord, TrackFacts,
    TrackId, WorkId, WorkKind, WorkRecord,
};
pub use report::ImportReport;
pub use source::{Remark, Source};

/// What becomes of idle time on a stream that no recorded launch or wait explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gaps {
    /// It is replayed as a delay on the queue.
    #[default]
    Keep,
    /// It is left out.
    Drop,
}

/// How a trace is read. Times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportOptions {
    /// What becomes of unexplained gaps.
    pub gaps: Gaps,
    /// How long the machine that replays takes by itself from a submission to the start of its
    /// work. It is taken off the recorded distance, so that it is not counted twice.
    pub launch_ns: u64,
    /// The same from the end of one piece of work to the start of the next on a queue.
    pub turnaround_ns: u64,
    /// The same from the moment at which a wait of the host is met to its return, when the host
    /// sleeps.
    pub wake_ns: u64,
    /// The same when the host looks again and again. A recorded wait that was over sooner than a
    /// sleeper is woken was of this kind.
    pub seen_ns: u64,
    /// How long a submission keeps the host that replays. It is taken out of the recorded call, so
    /// that a thread does not fall behind by the length of every call that it makes.
    pub call_ns: u64,
    /// How long the machine that replays takes by itself from one command of a list to the next.
    pub command_ns: u64,
    /// Gaps longer than this are unexplained; shorter ones are the device's own turn-around.
    pub explained_within_ns: u64,
}

impl Default for ImportOptions {
    /// Gaps kept, a machine without delays of its own, and 10 µs as the border of what a device's
    /// turn-around explains: in the A100 traces on which this was measured nine tenths of the
    /// distances between queued kernels are at most 5 µs, and half of the launches on an idle
    /// stream start within 5 µs of the end of their call.
    fn default() -> Self {
        Self {
            gaps: Gaps::Keep,
            launch_ns: 0,
            turnaround_ns: 0,
            wake_ns: 0,
            seen_ns: 0,
            call_ns: 0,
            command_ns: 0,
            explained_within_ns: 10_000,
        }
    }
}

/// Makes a workload of a recording. `file` is its name for messages.
///
/// # Errors
/// [`Error::Trace`] for a recording without GPU work, and for one longer than [`LONGEST_NS`].
pub fn workload(
    recording: Recording,
    file: &str,
    options: &ImportOptions,
) -> Result<Workload, Error> {
    let refuse = |text| Error::Trace { file: file.to_owned(), text };
    let starts = recording.work.iter().map(|work| work.start);
    let starts = starts.chain(recording.calls.iter().map(|call| call.start));
    recording.extent.check(starts).map_err(refuse)?;
    let joined = correlate::correlate(recording);
    if joined.work.is_empty() {
        return Err(refuse(report::nothing_to_replay(&joined)));
    }
    let timeline = timeline::arrange(joined, options);
    Ok(build::workload(timeline, file, options))
}

#[cfg(test)]
mod tests;
