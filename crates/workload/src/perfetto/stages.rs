//! Makes a recording of GPU render stages.
//!
//! Invariants: a hardware queue is a stream. A stage inside another stage of its queue (a draw in a
//! surface) is a part of it. A stage waits for the events that it names; host slices and queue
//! submissions launch the stages that they name. Entry point: [`read`].

use std::collections::HashMap;
use std::sync::Arc;

use super::packets::{Packets, Stage};
use crate::recording::{
    Call, CallId, CallRecord, Launcher, ProcessId, Recording, Remark, Source, StreamKey, WorkId,
    WorkKind, WorkRecord, call,
};

/// Reads the stages.
pub fn read(packets: Packets) -> Recording {
    let Packets { packets, tracks, slices, mut stages, submits, lost, .. } = packets;
    let mut recording = Recording::of(Source::Perfetto);
    recording.events = packets;
    let mut by_submission: HashMap<(ProcessId, u64), CallId> = HashMap::new();
    for submit in &submits {
        let process = recording.process(submit.process);
        let track = recording.track(process, submit.thread);
        let (start, end) = (submit.start, submit.end);
        let call =
            recording.call(CallRecord { call: Call::Other, track, start, end, correlation: None });
        by_submission.insert((process, submit.submission), call);
    }
    let (mut by_event, mut host_waits) = (HashMap::new(), 0);
    for slice in &slices {
        if slice.launches.is_empty() && slice.awaits.is_empty() {
            continue;
        }
        host_waits += slice.awaits.len() as u64;
        let facts = tracks.get(&slice.track);
        let process = recording.process(facts.map_or(0, |track| track.process));
        let track = recording
            .track(process, facts.and_then(|track| track.thread).unwrap_or(slice.track as i64));
        if let Some(facts) = facts.filter(|facts| !facts.name.is_empty()) {
            recording.tracks[track.index()].name.clone_from(&facts.name);
        }
        let (call, start, end) = (call(&slice.name), slice.start, slice.end);
        let call = recording.call(CallRecord { call, track, start, end, correlation: None });
        by_event.extend(slice.launches.iter().map(|event| (*event, call)));
    }
    let nested = drop_nested(&mut stages);
    let works = add_stages(&mut recording, &stages, |stage, process| {
        let by_event = by_event.get(&stage.event).filter(|_| stage.event != 0);
        let by_submission =
            by_submission.get(&(process, stage.submission)).filter(|_| stage.submission != 0);
        by_event.or(by_submission).copied()
    });
    let unknown = add_waits(&mut recording, &stages, &works);
    recording.remark(nested, |stages| Remark::NestedStages { stages });
    recording.remark(unknown, |waits| Remark::WaitsUnknown { waits });
    recording.remark(host_waits, |waits| Remark::HostWaitsForWork { waits });
    recording.remark(lost, |packets| Remark::PacketsLost { packets });
    if recording.calls.is_empty() {
        recording.remarks.push(Remark::NoHostCalls);
    }
    recording
}

/// Removes stages that lie inside another one of their queue; returns how many.
fn drop_nested(stages: &mut Vec<Stage>) -> u64 {
    let before = stages.len();
    stages.sort_by_key(|stage| (stage.start, std::cmp::Reverse(stage.end)));
    let mut outermost: HashMap<(i64, u64, Arc<str>), i64> = HashMap::new();
    stages.retain(|stage| {
        let end = outermost
            .entry((stage.gpu, stage.queue.0, Arc::clone(&stage.queue.1)))
            .or_insert(i64::MIN);
        // A stage that begins and ends with the one before is that one's neighbour only if it has
        // no length.
        let inside = stage.start < *end && stage.end <= *end;
        if !inside {
            *end = stage.end;
        }
        !inside
    });
    (before - stages.len()) as u64
}

fn add_stages(
    recording: &mut Recording,
    stages: &[Stage],
    launcher: impl Fn(&Stage, ProcessId) -> Option<CallId>,
) -> Vec<WorkId> {
    let mut queues: HashMap<(u64, Arc<str>), i64> = HashMap::new();
    let mut works = Vec::with_capacity(stages.len());
    for stage in stages {
        let process = recording.process(stage.process);
        let next = queues.len() as i64;
        let queue = *queues.entry(stage.queue.clone()).or_insert(next);
        let key = StreamKey { process, context: stage.gpu, stream: queue };
        let stream = recording.stream(key, stage.gpu);
        recording.streams[stream.index()].name = Some(stage.queue.1.to_string());
        let launcher = launcher(stage, process).map_or(Launcher::Unknown, Launcher::Call);
        let name = recording.name(&stage.name);
        let (start, end) = (stage.start, stage.end);
        works.push(recording.work(WorkRecord {
            kind: WorkKind::Kernel,
            name,
            stream,
            start,
            end,
            launcher,
        }));
    }
    works
}

/// Adds the waits of stages for events; returns how many name an event that is not in the file.
fn add_waits(recording: &mut Recording, stages: &[Stage], works: &[WorkId]) -> u64 {
    let events: HashMap<u64, WorkId> = (stages.iter().zip(works))
        .filter(|(stage, _)| stage.event != 0)
        .map(|(stage, work)| (stage.event, *work))
        .collect();
    let mut unknown = 0;
    for (stage, work) in stages.iter().zip(works) {
        for event in &stage.awaits {
            match events.get(event) {
                Some(awaited) => recording.depends(*work, *awaited),
                None => unknown += 1,
            }
        }
    }
    unknown
}
