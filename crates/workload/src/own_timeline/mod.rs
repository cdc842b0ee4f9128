//! Makes workloads of timelines that tidegate wrote.
//!
//! Purpose: the events of a file become a [`tidegate_trace::Trace`] (`Lanes`), and that becomes a
//! recording. Queues become streams, the slices of engines work, submitting calls host calls, and
//! signals and waits dependencies. Invariants: a slice of an engine belongs to the queue that its
//! record names. A wait on a queue holds back the next work of that queue; what it waits for is the
//! work before the signal that the timeline's arrow leads from. Entry points: [`chrome`],
//! [`Lanes`].

mod chrome;
mod lanes;

use std::collections::HashMap;

use tidegate_trace::{Kind, LaneId, LaneKind, Record, Trace};

use crate::recording::{
    Awaited, Call, CallId, CallRecord, CallRef, EventKey, EventRecord, Launcher, ProcessId,
    Recording, Remark, Source, StreamId, StreamKey, SyncKind, SyncRecord, WorkId, WorkKind,
    WorkRecord,
};

pub use chrome::{is_own, read as chrome};
pub use lanes::{Lanes, Raw};

/// Makes a recording of a timeline.
///
/// # Errors
/// A timeline whose engine slices name no queue.
fn recording(trace: &Trace) -> Result<Recording, String> {
    let mut reader = Reader {
        trace,
        recording: Recording::of(Source::Tidegate),
        processes: HashMap::new(),
        calls: HashMap::new(),
        signals: HashMap::new(),
        works: HashMap::new(),
        unusable: 0,
    };
    reader.recording.events = trace.records.len() as u64;
    reader.calls();
    reader.work();
    if reader.works.is_empty() && reader.unusable > 0 {
        return Err(
            "its engine slices name no queue; write the timeline again with this version of tidegate".into(),
        );
    }
    reader.order();
    let Reader { mut recording, unusable, .. } = reader;
    recording.remark(unusable, |rows| Remark::Unusable { rows });
    Ok(recording)
}

struct Reader<'a> {
    trace: &'a Trace,
    recording: Recording,
    /// By lane group.
    processes: HashMap<&'a str, ProcessId>,
    /// Host calls by record.
    calls: HashMap<usize, CallId>,
    /// Calls that submit a signal, by queue, fence and value.
    signals: HashMap<(LaneId, u32, u64), CallId>,
    /// Work by record.
    works: HashMap<usize, WorkId>,
    unusable: u64,
}

impl<'a> Reader<'a> {
    fn lane(&self, record: &Record) -> LaneKind {
        self.trace.lanes[record.lane.0 as usize].kind
    }

    fn process(&mut self, lane: LaneId) -> ProcessId {
        let group = self.trace.lanes[lane.0 as usize].group.as_str();
        let next = self.processes.len() as i64;
        let recording = &mut self.recording;
        *self.processes.entry(group).or_insert_with(|| recording.process(next))
    }

    fn stream(&mut self, queue: LaneId) -> StreamId {
        let process = self.process(queue);
        let key = StreamKey { process, context: 0, stream: i64::from(queue.0) };
        let stream = self.recording.stream(key, 0);
        let name = &self.trace.lanes[queue.0 as usize].name;
        self.recording.streams[stream.index()].name.get_or_insert_with(|| name.clone());
        stream
    }

    /// Submitting calls, and waits of the host, on the lanes of CPU threads.
    fn calls(&mut self) {
        let trace = self.trace;
        for (index, record) in trace.records.iter().enumerate() {
            let signal = record.kind == Kind::Submit
                && record.fence().is_some()
                && trace.name_of(record) == "signal";
            let call = match record.kind {
                _ if self.lane(record) != LaneKind::CpuThread => continue,
                Kind::Submit if signal => Call::EventRecord,
                Kind::Submit => Call::Other,
                Kind::CpuWait => Call::EventSynchronize,
                _ => continue,
            };
            let process = self.process(record.lane);
            let track = self.recording.track(process, i64::from(record.lane.0));
            self.recording.tracks[track.index()]
                .name
                .clone_from(&trace.lanes[record.lane.0 as usize].name);
            let (start, end) = interval(record);
            let call =
                self.recording.call(CallRecord { call, track, start, end, correlation: None });
            self.calls.insert(index, call);
            if let (true, Some((fence, value)), Some(queue)) =
                (signal, record.fence(), record.queue())
            {
                self.signals.insert((queue, fence.0, value), call);
                let event = self.recording.event(EventKey {
                    process,
                    context: 0,
                    event: i64::from(fence.0),
                });
                let stream = self.stream(queue);
                let (call, sequence) = (CallRef::Call(call), None);
                self.recording.record_event(EventRecord { call, event, sequence, stream });
            }
        }
    }

    /// Slices of engines.
    fn work(&mut self) {
        let trace = self.trace;
        let mut launched: HashMap<usize, CallId> = HashMap::new();
        for chain in trace.chains() {
            let Some(call) = chain.call.and_then(|call| self.calls.get(&call)) else { continue };
            launched.extend(chain.slices.iter().map(|slice| (*slice, *call)));
        }
        for (index, record) in trace.records.iter().enumerate() {
            if self.lane(record) != LaneKind::Engine || !record.kind.is_work() {
                continue;
            }
            let Some(queue) = record.queue() else {
                self.unusable += 1;
                continue;
            };
            let kind = match record.kind {
                Kind::Copy => WorkKind::Copy,
                Kind::Fill => WorkKind::Fill,
                _ => WorkKind::Kernel,
            };
            let stream = self.stream(queue);
            let label = Some(trace.name_of(record)).filter(|name| !name.is_empty());
            let name = self.recording.name(label.unwrap_or_else(|| record.kind.label()));
            let (start, end) = interval(record);
            let launcher =
                launched.get(&index).map_or(Launcher::Unknown, |call| Launcher::Call(*call));
            let work = self.recording.work(WorkRecord { kind, name, stream, start, end, launcher });
            self.works.insert(index, work);
        }
    }

    /// Reads the order that the arrows of the timeline state.
    fn order(&mut self) {
        let trace = self.trace;
        let beside = self.work_beside_fences();
        let mut unknown = 0;
        for flow in trace.flows() {
            let (signal, wait) = (&trace.records[flow.from], &trace.records[flow.to]);
            if wait.kind == Kind::CpuWait {
                let named = signal.fence().and_then(|(fence, value)| {
                    self.signals.get(&(signal.lane, fence.0, value)).copied()
                });
                match (self.calls.get(&flow.to).copied(), named) {
                    (Some(call), Some(record)) => self.recording.sync(SyncRecord {
                        call: CallRef::Call(call),
                        kind: SyncKind::Event,
                        device: None,
                        stream: None,
                        awaited: Some(Awaited::Call(record)),
                        awaited_stream: None,
                    }),
                    _ => unknown += 1,
                }
                continue;
            }
            let awaited = beside.get(&flow.from).and_then(|beside| beside.before);
            let waiter = beside.get(&flow.to).and_then(|beside| beside.after);
            match (waiter, awaited) {
                (Some(waiter), Some(awaited)) => self.recording.depends(waiter, awaited),
                // A wait that nothing follows holds nothing back.
                (None, _) => {}
                (Some(_), None) => unknown += 1,
            }
        }
        self.recording.remark(unknown, |waits| Remark::WaitsUnknown { waits });
    }

    /// For each signal and wait on a queue the work before it and after it, in the order of the
    /// queue.
    fn work_beside_fences(&self) -> HashMap<usize, Beside> {
        let trace = self.trace;
        let mut boxes: HashMap<usize, (WorkId, WorkId)> = HashMap::new();
        for chain in trace.chains() {
            let works: Vec<WorkId> =
                chain.slices.iter().filter_map(|k| self.works.get(k)).copied().collect();
            if let (Some(queued), [first, .., last] | [first @ last]) =
                (chain.queued, works.as_slice())
            {
                boxes.insert(queued, (*first, *last));
            }
        }
        let mut queues: HashMap<LaneId, Vec<usize>> = HashMap::new();
        for (index, record) in trace.records.iter().enumerate() {
            let fence = matches!(record.kind, Kind::Wait | Kind::Signal);
            if self.lane(record) == LaneKind::Queue && (fence || boxes.contains_key(&index)) {
                queues.entry(record.lane).or_default().push(index);
            }
        }
        let mut beside: HashMap<usize, Beside> = HashMap::new();
        for members in queues.values_mut() {
            // A queue runs its operations in the order of their submission.
            members.sort_by_key(|index| {
                (trace.records[*index].queued_ns, trace.records[*index].start_ns, *index)
            });
            let mut before = None;
            for index in members.iter() {
                match boxes.get(index) {
                    Some((_, last)) => before = Some(*last),
                    None => beside.entry(*index).or_default().before = before,
                }
            }
            let mut after = None;
            for index in members.iter().rev() {
                match boxes.get(index) {
                    Some((first, _)) => after = Some(*first),
                    None => beside.entry(*index).or_default().after = after,
                }
            }
        }
        beside
    }
}

#[derive(Default)]
struct Beside {
    before: Option<WorkId>,
    after: Option<WorkId>,
}

fn interval(record: &Record) -> (i64, i64) {
    let at = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    (at(record.start_ns), at(record.end_ns.max(record.start_ns)))
}

#[cfg(test)]
mod tests;
