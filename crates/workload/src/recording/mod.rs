//! Recorded runs of real programs, whatever their format, become workloads.
//!
//! Purpose: a reader of a format (`kineto`, `nsys`, `rocprof`, `perfetto`, `presentmon`, `xla`,
//! `own_timeline`) fills a [`Recording`]; [`workload()`] makes a workload of it. Order: records
//! (`records`) → joins between host calls and GPU work (`correlate`) → entries in the order of the
//! host calls, with what each waited for (`timeline`) → a workload (`build`). Streams become
//! queues. Kernels and copies become work of the recorded length. Host calls that launched them
//! become submissions at their recorded times. Event records, stream waits and synchronisations
//! become signals, GPU waits and CPU waits. Invariant: an order that the recording does not state
//! is not invented; it is counted in [`ImportReport`]. Entry points: [`Recording`], [`call()`] for
//! the names of host calls, [`workload()`].

mod blocked;
mod build;
mod call;
mod correlate;
mod engines;
mod options;
mod outside;
mod overrun;
mod presents;
mod records;
mod timeline;

use crate::error::Error;
use crate::model::Workload;

pub use crate::model::recorded::{
    Damage, Damaged, Fault, Foreign, ImportReport, LONGEST_NS, Position, Remark, SharedEngine,
    Source,
};
pub use call::{Call, call};
pub use options::{Gaps, ImportOptions};
pub use records::{
    Awaited, CallId, CallRecord, CallRef, DisplayFacts, EventId, EventKey, EventRecord, Launcher,
    NameId, PresentRecord, ProcessId, Recording, StreamFacts, StreamId, StreamKey, SyncKind,
    SyncRecord, TrackFacts, TrackId, WorkId, WorkKind, WorkRecord,
};

/// Chooses the options of a reading by the report of a reading with other options.
pub type Fit<'a> = &'a mut dyn FnMut(&ImportReport) -> ImportOptions;

/// Makes a workload of a recording. `file` is its name for messages. With `fit` it is arranged by
/// `options`, and then again by the options that `fit` chooses.
///
/// # Errors
/// [`Error::Trace`] for a recording without GPU work, and for one longer than [`LONGEST_NS`].
pub fn workload(
    recording: Recording,
    file: &str,
    options: &ImportOptions,
    fit: Option<Fit<'_>>,
) -> Result<Workload, Error> {
    let refuse = |text| Error::Trace { file: file.to_owned(), text };
    let mut recording = recording;
    let calls = recording.calls.len();
    outside::leave_out(&mut recording).map_err(refuse)?;
    let mut joined = correlate::correlate(recording);
    if joined.work.is_empty() {
        return Err(refuse(nothing_to_replay(&joined, calls)));
    }
    let placed = timeline::place(&mut joined);
    let mut options = *options;
    let mut timeline = timeline::arrange(joined, &placed, &options);
    if let Some(fit) = fit {
        options = fit(&timeline.joined.report);
        let timeline::Timeline { joined, entries } = timeline;
        drop(entries);
        timeline = timeline::arrange(joined, &placed, &options);
    }
    drop(placed);
    Ok(build::workload(timeline, file, &options))
}

/// Why a trace with `calls` host calls cannot be replayed.
fn nothing_to_replay(joined: &correlate::Joined, calls: usize) -> String {
    let report = &joined.report;
    let damage = report.damage.lines().join("\n");
    let foreign = report.remarks.iter().find_map(|remark| match remark {
        Remark::Foreign { of, events } => Some((of, events)),
        _ => None,
    });
    let (what, next_step) = match foreign {
        Some((of, events)) => (format!(", {events} of {}", of.name()), of.instead()),
        None => (String::new(), report.source.how_to_record()),
    };
    format!(
        "there is no GPU work among {} events ({calls} host calls{what}) of this {}; {next_step}{}{damage}",
        report.events,
        report.source.name(),
        if damage.is_empty() { "" } else { "\n" }
    )
}

#[cfg(test)]
mod tests;
