//! Recordings made by hand: what readers of other formats than Kineto's need of the neutral form.

use super::*;
use crate::model::{EngineKind, OpKind, Ready};

/// A recording with one device per process.
#[derive(Default)]
struct Made(Recording);

impl Made {
    fn stream(&mut self, process: i64, context: i64, stream: i64) -> StreamId {
        let process = self.0.process(process);
        self.0.stream(StreamKey { process, context, stream }, 0)
    }

    fn call(&mut self, process: i64, name: &str, start: i64, correlation: i64) -> CallId {
        let process = self.0.process(process);
        let track = self.0.track(process, 1);
        let correlation = Some(correlation);
        self.0.call(CallRecord { call: call(name), track, start, end: start + 10, correlation })
    }

    fn work(&mut self, stream: StreamId, start: i64, launcher: Launcher) -> WorkId {
        let name = self.0.name("k");
        self.0.work(WorkRecord {
            kind: WorkKind::Kernel,
            name,
            stream,
            start,
            end: start + 100,
            launcher,
        })
    }

    fn workload(self) -> Workload {
        workload(self.0, "t", &ImportOptions::default(), None)
            .unwrap_or_else(|error| panic!("{error}"))
    }
}

/// The operations of a thread as words, with queue and fence numbers.
fn words(workload: &Workload, thread: usize) -> Vec<String> {
    let word = |op: &crate::model::Op| match &op.kind {
        OpKind::Submit { queue, commands } => {
            Some(format!("submit {} x{}", queue.first.0, commands.len()))
        }
        OpKind::Signal { fence, value, .. } => {
            Some(format!("signal {}={}", fence.first.0, value.constant().unwrap()))
        }
        OpKind::Wait { queue, fence, value } => Some(format!(
            "{} waits {}>={}",
            queue.first.0,
            fence.first.0,
            value.constant().unwrap()
        )),
        _ => None,
    };
    workload.threads[thread].body.iter().filter_map(word).collect()
}

#[test]
fn correlations_are_told_apart_by_process() {
    let mut made = Made::default();
    for (process, at) in [(40, 0), (41, 1_000)] {
        let stream = made.stream(process, 1, 7);
        made.call(process, "cudaLaunchKernel", at, 5);
        made.work(stream, at + 20, Launcher::Correlation(5));
    }
    let workload = made.workload();
    let names: Vec<&str> = workload.queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["process 40 gpu 0 stream 7", "process 41 gpu 0 stream 7"]);
    assert_eq!(workload.threads.len(), 2, "a thread of each process");
    for (number, thread) in workload.threads.iter().enumerate() {
        let submits = thread.body.iter().filter_map(|op| match &op.kind {
            OpKind::Submit { queue, .. } => Some(queue.first.0 as usize),
            _ => None,
        });
        assert_eq!(submits.collect::<Vec<_>>(), [number]);
    }
}

#[test]
fn streams_of_two_contexts_with_one_number_are_two_queues() {
    let mut made = Made::default();
    for context in [1, 2] {
        let stream = made.stream(40, context, 7);
        made.work(stream, 0, Launcher::Unknown);
    }
    let names: Vec<String> = made.workload().queues.into_iter().map(|queue| queue.name).collect();
    assert_eq!(names, ["stream 7", "stream 7 context 2"]);
}

/// An event that is recorded on two streams, one after the other, and a wait by a third.
fn recorded_twice(sequence: Option<i64>) -> Vec<String> {
    let mut made = Made::default();
    let streams: Vec<StreamId> = (0..3).map(|k| made.stream(40, 1, k)).collect();
    let process = made.0.process(40);
    let event = made.0.event(EventKey { process, context: 0, event: 3 });
    for (k, at) in [(0, 0), (1, 100)] {
        let launch = made.call(40, "cudaLaunchKernel", at, at + 1);
        made.work(streams[k], at + 20, Launcher::Call(launch));
        let call = CallRef::Call(made.call(40, "cudaEventRecord", at + 40, at + 2));
        made.0.record_event(EventRecord { call, event, sequence: Some(at), stream: streams[k] });
    }
    let wait = made.call(40, "cudaStreamWaitEvent", 200, 201);
    made.0.sync(SyncRecord {
        call: CallRef::Call(wait),
        kind: SyncKind::StreamWaitEvent,
        device: None,
        stream: Some(streams[2]),
        awaited: Some(Awaited::Event(event, sequence)),
        awaited_stream: None,
    });
    let launch = made.call(40, "cudaLaunchKernel", 220, 221);
    made.work(streams[2], 400, Launcher::Call(launch));
    let workload = made.workload();
    assert_eq!(workload.recorded.as_ref().unwrap().report.event_records_awaited, 1);
    words(&workload, 0)
}

#[test]
fn a_wait_is_for_the_last_record_of_its_event_or_for_the_one_that_it_numbers() {
    assert_eq!(
        recorded_twice(None),
        ["submit 0 x2", "submit 1 x2", "signal 1=1", "2 waits 1>=1", "submit 2 x2"]
    );
    assert_eq!(
        recorded_twice(Some(0)),
        ["submit 0 x2", "signal 0=1", "submit 1 x2", "2 waits 0>=1", "submit 2 x2"]
    );
}

#[test]
fn a_wait_for_an_event_that_was_never_recorded_takes_no_record_of_another() {
    let mut made = Made::default();
    let streams: Vec<StreamId> = (0..2).map(|k| made.stream(40, 1, k)).collect();
    let process = made.0.process(40);
    let [recorded, never] =
        [3, 4].map(|event| made.0.event(EventKey { process, context: 0, event }));
    let launch = made.call(40, "cudaLaunchKernel", 0, 1);
    made.work(streams[0], 20, Launcher::Call(launch));
    let call = CallRef::Call(made.call(40, "cudaEventRecord", 40, 42));
    made.0.record_event(EventRecord { call, event: recorded, sequence: None, stream: streams[0] });
    let wait = made.call(40, "cudaStreamWaitEvent", 200, 201);
    made.0.sync(SyncRecord {
        call: CallRef::Call(wait),
        kind: SyncKind::StreamWaitEvent,
        device: None,
        stream: Some(streams[1]),
        awaited: Some(Awaited::Event(never, None)),
        awaited_stream: None,
    });
    let workload = made.workload();
    let report = &workload.recorded.as_ref().unwrap().report;
    assert_eq!((report.stream_waits, report.stream_waits_unpaired), (0, 1));
    assert_eq!(report.event_records_awaited, 0);
}

#[test]
fn work_waits_for_work_of_another_stream() {
    let mut made = Made::default();
    let (a, b) = (made.stream(40, 1, 1), made.stream(40, 1, 2));
    // One launch of four kernels: a1, b1 after a1, a2, b2 after a1 again; added in no order.
    let launch = Launcher::Call(made.call(40, "cudaGraphLaunch", 0, 1));
    let a2 = made.work(a, 250, launch);
    let b1 = made.work(b, 130, launch);
    let a1 = made.work(a, 20, launch);
    let b2 = made.work(b, 360, launch);
    made.0.depends(b1, a1);
    made.0.depends(b2, a1);
    made.0.depends(a2, a1);
    let workload = made.workload();
    assert_eq!(
        words(&workload, 0),
        ["submit 0 x2", "signal 0=1", "1 waits 0>=1", "submit 0 x2", "submit 1 x4"],
        "a list has a delay before each piece of work that starts later than its reason"
    );
    let recorded = workload.recorded.as_ref().unwrap();
    assert_eq!((recorded.report.dependencies, recorded.report.dependencies_unpaired), (2, 0));
    let b1 = recorded.items.iter().find(|item| item.start_ns == 130).unwrap();
    assert_eq!((b1.ready, b1.gap_ns), (Ready::Dependency, 10));
}

#[test]
fn work_waits_for_work_without_any_host_call() {
    let mut made = Made::default();
    let (a, b) = (made.stream(40, 1, 1), made.stream(40, 1, 2));
    let first = made.work(a, 0, Launcher::Unknown);
    let second = made.work(b, 150, Launcher::Unknown);
    let third = made.work(a, 300, Launcher::Unknown);
    made.0.depends(second, first);
    made.0.depends(third, second);
    let workload = made.workload();
    assert_eq!(workload.threads.len(), 1);
    assert_eq!(
        words(&workload, 0),
        [
            "submit 0 x1",
            "signal 0=1",
            "1 waits 0>=1",
            "submit 1 x2",
            "signal 1=1",
            "0 waits 1>=1",
            "submit 0 x2"
        ]
    );
}

#[test]
fn a_wait_may_be_for_work_that_is_launched_later() {
    let mut made = Made::default();
    let (a, b) = (made.stream(40, 1, 1), made.stream(40, 1, 2));
    let waiter = Launcher::Call(made.call(40, "cudaLaunchKernel", 0, 1));
    let (early, late) = (made.work(a, 20, waiter), made.work(a, 700, waiter));
    let awaited = Launcher::Call(made.call(40, "cudaGraphLaunch", 200, 2));
    let first = made.work(b, 500, awaited);
    made.work(b, 900, awaited);
    made.0.depends(late, first);
    // Contradicted: the awaited work ends when its waiter has long begun.
    made.0.depends(early, first);
    let workload = made.workload();
    assert_eq!(
        words(&workload, 0),
        ["submit 0 x2", "0 waits 1>=1", "submit 0 x2", "submit 1 x2", "signal 1=1", "submit 1 x2"]
    );
    let recorded = workload.recorded.as_ref().unwrap();
    assert_eq!((recorded.report.dependencies, recorded.report.dependencies_unpaired), (1, 1));
    assert!(recorded.report.lines().iter().any(|line| line.ends_with("dependencies: 1")));
    let late = recorded.items.iter().find(|item| item.start_ns == 700).unwrap();
    assert_eq!((late.ready, late.gap_ns), (Ready::Dependency, 100));
}

#[test]
fn work_without_a_launch_waits_for_work_with_one() {
    let mut made = Made::default();
    let (a, b, c) = (made.stream(40, 1, 1), made.stream(40, 1, 2), made.stream(40, 1, 3));
    let launch = Launcher::Call(made.call(40, "cudaLaunchKernel", 0, 1));
    let first = made.work(a, 20, launch);
    let second = made.work(b, 200, Launcher::Unknown);
    let third = made.work(c, 400, Launcher::Unknown);
    made.0.depends(second, first);
    made.0.depends(third, second);
    let workload = made.workload();
    let report = &workload.recorded.as_ref().unwrap().report;
    assert_eq!(
        (report.dependencies, report.dependencies_unpaired, report.work_without_launch),
        (2, 0, 2)
    );
}

/// A workload of so many streams that run one kernel each; stream `k` starts at `start(k)` and
/// takes 100 ns.
fn side_by_side(streams: i64, kind: WorkKind, start: impl Fn(i64) -> i64) -> Workload {
    let mut made = Made::default();
    for k in 0..streams {
        let stream = made.stream(40, 1, k);
        let name = made.0.name("k");
        let (start, launcher) = (start(k), Launcher::Unknown);
        made.0.work(WorkRecord { kind, name, stream, start, end: start + 100, launcher });
    }
    made.workload()
}

fn nodes(workload: &Workload) -> Vec<u32> {
    workload.queues.iter().map(|queue| queue.node).collect()
}

#[test]
fn every_stream_has_an_engine_of_its_own_as_long_as_there_are_enough() {
    for (kind, most) in [(WorkKind::Kernel, 32), (WorkKind::Copy, 15)] {
        for streams in [1, 15, 16, 17, 32, 33] {
            if streams > most && kind == WorkKind::Kernel {
                continue;
            }
            let workload = side_by_side(streams, kind, |_| 0);
            let own: Vec<u32> = (0..streams as u32).collect();
            let report = &workload.recorded.as_ref().unwrap().report;
            if streams <= most {
                assert_eq!(nodes(&workload), own, "{kind:?} {streams}");
                assert_eq!((report.streams_sharing_an_engine, report.shared_engines.len()), (0, 0));
                continue;
            }
            // All streams are equal, so those that are left over join the first engines.
            let wrapped: Vec<u32> = own.iter().map(|node| node % most as u32).collect();
            assert_eq!(nodes(&workload), wrapped, "{kind:?} {streams}");
            assert_eq!(
                report.streams_sharing_an_engine,
                2 * (streams - most).min(most) as u64 + (streams - 2 * most).max(0) as u64
            );
            let engine = "copy 0";
            let shared = &report.shared_engines[0];
            assert_eq!(
                (shared.engine.as_str(), shared.streams.len()),
                (engine, 2 + usize::from(streams > 2 * most))
            );
            assert_eq!(shared.streams[..2], ["stream 0".to_owned(), format!("stream {most}")]);
            let text = report.lines().join("\n");
            assert!(
                text.contains(&format!("engine {engine} replays stream 0, stream {most}")),
                "{text}"
            );
        }
    }
}

#[test]
fn more_streams_than_compute_engines_use_copy_engines_that_no_copies_need() {
    for streams in [33, 47, 48] {
        let workload = side_by_side(streams, WorkKind::Kernel, |_| 0);
        let own: Vec<(EngineKind, u32)> = match streams {
            // One more than there are engines: the last compute stream joins the first.
            48 => (0..32).chain([0]).map(|node| (EngineKind::Compute, node)).collect(),
            _ => (0..32).map(|node| (EngineKind::Compute, node)).collect(),
        };
        let more = streams as u32 - own.len() as u32;
        let own: Vec<_> = own.into_iter().chain((0..more).map(|k| (EngineKind::Copy, k))).collect();
        let engines: Vec<_> = workload.queues.iter().map(|q| (q.engine, q.node)).collect();
        assert_eq!(engines, own, "{streams}");
        let report = &workload.recorded.as_ref().unwrap().report;
        assert_eq!(report.streams_sharing_an_engine, if streams == 48 { 2 } else { 0 });
    }
}

#[test]
fn where_engines_run_out_streams_share_with_those_that_they_did_not_overlap() {
    // The last stream on a compute engine overlaps all but stream 9, which runs later.
    let workload = side_by_side(48, WorkKind::Kernel, |k| if k == 9 { 500 } else { 0 });
    let mut nodes = nodes(&workload);
    nodes.truncate(33);
    assert_eq!(nodes.pop(), Some(9));
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes.len(), 32, "all others have engines of their own");
    let report = &workload.recorded.as_ref().unwrap().report;
    assert_eq!((report.streams_sharing_an_engine, report.shared_engines.len()), (0, 0));
}

#[test]
fn work_that_overlaps_on_one_stream_is_reported_with_its_time() {
    let mut made = Made::default();
    let stream = made.stream(40, 1, 7);
    for start in [0, 60, 200] {
        made.work(stream, start, Launcher::Unknown);
    }
    let workload = made.workload();
    let report = &workload.recorded.as_ref().unwrap().report;
    assert_eq!((report.overlaps_on_a_stream, report.overlapped_on_a_stream_ns), (1, 40));
    assert!(report.lines().iter().any(|line| line.starts_with("1 pieces of work overlapped")));
}

/// Pieces of work of 100 ns, each 200 ns after the one before it, where the fourth runs over
/// `over` successors.
fn overrun(source: Source, over: i64, name: &str) -> Workload {
    let mut made = Made(Recording::of(source));
    let stream = made.stream(1, 1, 7);
    let launch = made.call(1, name, 0, 1);
    for k in 0..20 {
        let launcher = if k < 15 { Launcher::Call(launch) } else { Launcher::Unknown };
        made.work(stream, 100 + 200 * k, launcher);
    }
    made.0.work[3].end = made.0.work[3 + over as usize].end + 10;
    made.workload()
}

#[test]
fn an_end_that_the_successors_contradict_is_cut() {
    let starts_and_end = |workload: &Workload| {
        let recorded = workload.recorded.as_ref().unwrap();
        (recorded.items[3].end_ns, recorded.report.overlaps_on_a_stream)
    };
    let cut = overrun(Source::Kineto, 12, "cudaLaunchKernel");
    assert_eq!(starts_and_end(&cut), (900, 0), "it ends where the next begins");
    let remark = cut.recorded.as_ref().unwrap().report.remarks[0].to_string();
    assert!(remark.contains("1 pieces of work; the first is 'k'"), "{remark}");
    assert!(remark.contains("ms long over 12 successors"), "{remark}");
    let few = overrun(Source::Kineto, 7, "cudaLaunchKernel");
    assert_eq!(starts_and_end(&few), (2_210, 7), "seven are no contradiction");
    let graph = overrun(Source::Kineto, 12, "cudaGraphLaunch");
    assert_eq!(starts_and_end(&graph).0, 3_210, "branches of a graph overlap");
    let queue = overrun(Source::Tidegate, 12, "cudaLaunchKernel");
    assert_eq!(starts_and_end(&queue).0, 3_210, "a hardware queue runs several pieces at once");
}
