//! Events far outside of a recording, such as those whose time was never set.
//!
//! A handful of them is left out, counted and named like damaged events. More of them mean that the
//! recording is as long as it says, and it is refused when that is too long. Entry point:
//! [`leave_out`].

use super::records::{
    Awaited, CallId, CallRef, EventRecord, Launcher, PresentRecord, Recording, SyncRecord, WorkId,
};
use crate::model::recorded::{Extent, Fault, LONGEST_NS};

/// A handful is at most one of this many events.
const HANDFUL_PARTS: usize = 20;

/// A start of 0 was never set where all others are later than this, in nanoseconds.
const UNSET_BEFORE_NS: i64 = 60_000_000_000;

/// Leaves out a handful of events that are far outside.
///
/// # Errors
/// A sentence: the rest is longer than [`LONGEST_NS`].
pub fn leave_out(recording: &mut Recording) -> Result<(), String> {
    let Some(bounds) = Bounds::of(recording) else { return Ok(()) };
    let work = recording.work.iter().map(|work| !bounds.leave_out(work.start, work.end));
    let keeps_work: Vec<bool> = work.collect();
    let calls = recording.calls.iter().map(|call| !bounds.leave_out(call.start, call.end));
    let keeps_call: Vec<bool> = calls.collect();
    let outside = keeps_work.iter().chain(&keeps_call).filter(|keeps| !**keeps).count();
    if outside > 0 && outside * HANDFUL_PARTS <= keeps_work.len() + keeps_call.len() {
        report(recording, &keeps_work, &keeps_call);
        retain(recording, &keeps_work, &keeps_call);
    }
    recording.extent.check(starts(recording))
}

fn starts(recording: &Recording) -> impl Iterator<Item = i64> {
    let work = recording.work.iter().map(|work| work.start);
    work.chain(recording.calls.iter().map(|call| call.start))
}

/// The times that an event of the recording may have.
struct Bounds {
    median: i64,
    /// Whether a start of 0 was never set.
    zero_is_unset: bool,
}

impl Bounds {
    fn of(recording: &Recording) -> Option<Bounds> {
        let mut starts: Vec<i64> = starts(recording).collect();
        if starts.is_empty() {
            return None;
        }
        let first = starts.iter().copied().filter(|start| *start != 0).min();
        let ends = recording.work.iter().map(|work| (work.start, work.end));
        let ends = ends.chain(recording.calls.iter().map(|call| (call.start, call.end)));
        let last = ends.filter(|(start, _)| *start != 0).map(|(_, end)| end).max();
        let zero_is_unset = first.zip(last).is_some_and(|(first, last)| {
            first > UNSET_BEFORE_NS && first > last.saturating_sub(first)
        });
        let middle = starts.len() / 2;
        Some(Bounds { median: *starts.select_nth_unstable(middle).1, zero_is_unset })
    }

    fn leave_out(&self, start: i64, end: i64) -> bool {
        let away = |at: i64| (i128::from(at) - i128::from(self.median)).unsigned_abs();
        away(start).max(away(end)) > LONGEST_NS.unsigned_abs().into()
            || (start == 0 && self.zero_is_unset)
    }
}

/// Counts the events among the damaged ones, and names the first.
fn report(recording: &mut Recording, keeps_work: &[bool], keeps_call: &[bool]) {
    let work = recording.work.iter().zip(keeps_work).filter(|(_, keeps)| !**keeps);
    let mut left_out: Vec<(i64, i64, String)> = work
        .map(|(work, _)| (work.start, work.end, recording.text(work.name).to_string()))
        .collect();
    let calls = recording.calls.iter().zip(keeps_call).filter(|(_, keeps)| !**keeps);
    left_out.extend(calls.map(|(call, _)| (call.start, call.end, "host call".to_owned())));
    left_out.sort_by_key(|(start, ..)| *start);
    for (start, end, name) in left_out {
        let position = recording.extent.take_position(start, end);
        let value = format!("{start} ns");
        recording.damage.add(position, &name, "start", &value, Fault::Outside);
    }
}

/// The new number of each entry that is kept.
fn numbers(keeps: &[bool]) -> Vec<Option<usize>> {
    let mut next = 0;
    let number = |keeps: &bool| {
        next += usize::from(*keeps);
        keeps.then(|| next - 1)
    };
    keeps.iter().map(number).collect()
}

/// Removes the other work and calls, and renumbers what refers to them.
fn retain(recording: &mut Recording, keeps_work: &[bool], keeps_call: &[bool]) {
    let (work_numbers, call_numbers) = (numbers(keeps_work), numbers(keeps_call));
    let work = |id: WorkId| work_numbers[id.index()].map(WorkId::new);
    let call = |id: CallId| call_numbers[id.index()].map(CallId::new);
    let described = |of: CallRef| match of {
        CallRef::Call(id) => call(id).map(CallRef::Call),
        CallRef::Correlation(..) => Some(of),
    };
    keep(&mut recording.work, keeps_work);
    keep(&mut recording.calls, keeps_call);
    for work in &mut recording.work {
        if let Launcher::Call(id) = work.launcher {
            work.launcher = call(id).map_or(Launcher::Unknown, Launcher::Call);
        }
    }
    let sync = |sync: SyncRecord| {
        let awaited = match sync.awaited {
            Some(Awaited::Call(id)) => call(id).map(Awaited::Call),
            awaited => awaited,
        };
        Some(SyncRecord { call: described(sync.call)?, awaited, ..sync })
    };
    recording.syncs = recording.syncs.iter().copied().filter_map(sync).collect();
    let record =
        |record: EventRecord| Some(EventRecord { call: described(record.call)?, ..record });
    recording.event_records = recording.event_records.iter().copied().filter_map(record).collect();
    let present =
        |present: PresentRecord| Some(PresentRecord { call: call(present.call)?, ..present });
    recording.presents = recording.presents.iter().copied().filter_map(present).collect();
    let pairs = recording.dependencies.iter();
    recording.dependencies =
        pairs.filter_map(|(waiter, awaited)| Some((work(*waiter)?, work(*awaited)?))).collect();
    let mut extent = Extent::default();
    let kept = recording.work.iter().map(|work| (work.start, work.end));
    let kept = kept.chain(recording.calls.iter().map(|call| (call.start, call.end)));
    kept.for_each(|(start, end)| extent.add(start, end, recording.extent.position(start, end)));
    recording.extent = extent;
}

fn keep<T>(list: &mut Vec<T>, keeps: &[bool]) {
    let mut keeps = keeps.iter();
    list.retain(|_| keeps.next().copied().unwrap_or(true));
}
