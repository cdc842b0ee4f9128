//! Timelines written with the writers of `tidegate_trace` and read back.

use tidegate_trace::{
    ClockName, Kind, LaneKind, LinkId, Record, Trace, TraceBuilder, chrome, perfetto,
};

use crate::imported::report;
use crate::model::Ready;
use crate::recording::Source;
use crate::{LoadOptions, Loaded, load_bytes};

/// A copy queue feeds a renderer: the renderer's list waits for the copy, the CPU for the renderer.
fn timeline() -> Trace {
    let mut b = TraceBuilder::new("sample", ClockName::Virtual);
    let engines =
        [b.add_lane(LaneKind::Engine, "GPU", "copy"), b.add_lane(LaneKind::Engine, "GPU", "3D")];
    let queues =
        [b.add_lane(LaneKind::Queue, "app", "copy"), b.add_lane(LaneKind::Queue, "app", "render")];
    let cpu = b.add_lane(LaneKind::CpuThread, "app", "main");
    let fences = [b.add_fence("copied"), b.add_fence("drawn")];
    let name = |b: &mut TraceBuilder, text| b.name(text);
    let (upload, frame, wait, signal) = (
        name(&mut b, "upload"),
        name(&mut b, "frame"),
        name(&mut b, "wait"),
        name(&mut b, "signal"),
    );
    let call = |name, at| Record::span(cpu, Kind::Submit, name, at, at + 100);
    let (one, two) = (LinkId(1), LinkId(2));
    b.append(vec![
        call(upload, 0).for_queue(queues[0]).linked(one),
        call(signal, 200).for_queue(queues[0]).on_fence(fences[0], 1),
        call(wait, 400).for_queue(queues[1]).on_fence(fences[0], 1),
        call(frame, 600).for_queue(queues[1]).linked(two),
        call(signal, 800).for_queue(queues[1]).on_fence(fences[1], 1),
        Record::span(cpu, Kind::CpuWait, wait, 1_000, 9_500).on_fence(fences[1], 1),
    ]);
    b.append(vec![
        Record::span(queues[0], Kind::Execute, upload, 1_000, 5_000).queued(0).linked(one),
        Record::span(engines[0], Kind::Copy, upload, 1_100, 5_000)
            .for_queue(queues[0])
            .linked(one)
            .with_arg(64),
        Record::instant(queues[0], Kind::Signal, signal, 5_100).queued(200).on_fence(fences[0], 1),
        Record::span(queues[1], Kind::Wait, wait, 900, 5_200).queued(400).on_fence(fences[0], 1),
        Record::span(queues[1], Kind::Execute, frame, 5_300, 9_000).queued(600).linked(two),
        Record::span(engines[1], Kind::Draw, frame, 5_400, 7_000).for_queue(queues[1]).linked(two),
        Record::span(engines[1], Kind::Timed, frame, 7_100, 9_000).for_queue(queues[1]).linked(two),
        Record::instant(queues[1], Kind::Signal, signal, 9_100).queued(800).on_fence(fences[1], 1),
    ]);
    b.finish()
}

#[test]
fn both_formats_come_back_as_the_same_workload() {
    let trace = timeline();
    let (mut json, mut packets) = (Vec::new(), Vec::new());
    chrome::write(&trace, &mut json).unwrap();
    perfetto::write(&trace, &mut packets).unwrap();
    for file in [json, packets] {
        let (workload, kind) = load_bytes(&file, "run", &LoadOptions::default()).unwrap();
        assert_eq!(kind, Loaded::Recording(Source::Tidegate));
        let report = report(&workload);
        assert_eq!(
            (report.copies, report.kernels, report.streams, report.host_threads),
            (1, 2, 2, 1)
        );
        assert_eq!((report.launches, report.work_without_launch), (2, 0));
        assert_eq!((report.dependencies, report.dependencies_unpaired), (1, 0));
        assert_eq!(
            (report.event_syncs, report.event_syncs_unpaired, report.event_records),
            (1, 0, 2)
        );
        assert_eq!(report.remarks, []);
        let items = &workload.recorded.as_ref().unwrap().items;
        let times: Vec<(u64, u64)> =
            items.iter().map(|item| (item.start_ns, item.end_ns)).collect();
        assert_eq!(times, [(1_100, 5_000), (5_400, 7_000), (7_100, 9_000)]);
        assert_eq!((items[1].ready, items[1].gap_ns), (Ready::Dependency, 400));
        let queues: Vec<&str> = workload.queues.iter().map(|queue| queue.name.as_str()).collect();
        assert_eq!(queues, ["copy", "render"]);
        assert_eq!(workload.threads[0].name, "main");
    }
}

#[test]
fn a_timeline_without_engines_or_without_queues_is_refused() {
    let mut trace = timeline();
    for record in &mut trace.records {
        *record = record.on_queue(None);
    }
    let refused = |trace: &Trace| {
        let mut json = Vec::new();
        chrome::write(trace, &mut json).unwrap();
        load_bytes(&json, "run", &LoadOptions::default()).unwrap_err().to_string()
    };
    assert!(refused(&trace).contains("name no queue"), "{}", refused(&trace));
    trace.records.clear();
    let text = refused(&trace);
    assert!(text.contains("no GPU work among 0 events") && text.contains("--chrome"), "{text}");
}
