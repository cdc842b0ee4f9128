//! What engines leave on a timeline: a span per command on their own lane, a box per packet on the
//! queue's lane.

use tidegate_platform::{Queued, SubmissionKey};
use tidegate_testbed::prelude::gpu::*;
use tidegate_trace::{Kind, LinkId};

#[test]
fn commands_stand_on_engine_lanes_and_packets_on_queue_lanes() {
    let platform = Platform::virtual_time(StepCosts::free());
    platform.enable_tracing();
    let lane = platform.lane(LaneKind::Queue, "app", "uploads");
    let (pass, work) = (platform.trace_name("pass"), platform.trace_name("blur"));
    let fence_name = platform.trace_fence("ready").id();
    let owned = platform.clone();
    let report = platform.run(move || {
        let machine = Machine::new(&owned, Config::default());
        machine.gpu.start();
        let process = machine.process();
        let [ready, done] = process.fences([u64::MAX, 0]);
        let mut queue =
            process.queue_with(COPY, QueueOptions { os_handle: 9, ..Default::default() });
        let mut other = process.queue(THREE_D);
        owned.assign_lane(QueueNumber(9), lane);
        for (key, at_ns, name) in [
            (SubmissionKey::Slot(0), 40, fence_name.0 + 1),
            (SubmissionKey::Completion(1), 60, pass.0 + 1),
            (SubmissionKey::Slot(2), 70, 0),
        ] {
            owned.note_queued(QueueNumber(9), key, Queued { at_ns, name, link: LinkId(7) });
        }
        let commands = [Command::Label { name: work.0 + 1 }, Command::Timed { ns: 2_000 }];
        let (commands, bytes) = process.commands(&commands);
        owned.sleep_until(tidegate_platform::CpuTime(100));
        queue.submit(&[
            RingPacket::Wait {
                current_value: ready.current_va,
                value: 4,
                epoch: 0,
                fence_handle: 0,
                log_entry: NO_LOG_ENTRY,
            },
            RingPacket::execute(commands, bytes, 1),
            RingPacket::Signal {
                current_value: done.current_va,
                monitored_value: done.monitored_va,
                value: 1,
                fence_handle: 0,
                log_entry: NO_LOG_ENTRY,
            },
        ]);
        other.run_until(
            &[process.execute(&[Command::Timed { ns: 500 }], 0), ready.signal(4)],
            &done,
            1,
        );
        machine.gpu.stop();
    });
    assert!(report.completed(), "{report:?}");
    let trace = platform.take_trace("test");
    let engine = |name: &str| {
        let found = trace
            .lanes
            .iter()
            .find(|l| l.kind == LaneKind::Engine && l.group == "GPU" && l.name == name);
        found.expect("a lane per engine").id
    };
    let boxes = |lane| {
        let records = trace.records.iter().filter(move |r| r.lane == lane);
        records
            .map(|r| (r.kind, trace.name_of(r), r.queued_ns, r.start_ns, r.end_ns, r.fence()))
            .collect::<Vec<_>>()
    };
    assert_eq!(boxes(engine("3D")), [(Kind::Timed, "", 100, 100, 600, None)]);
    assert_eq!(boxes(engine("copy")), [(Kind::Timed, "blur", 600, 600, 2_600, None)]);
    assert_eq!(
        boxes(lane),
        [
            (Kind::Wait, "", 40, 100, 600, Some((fence_name, 4))),
            (Kind::Execute, "pass", 60, 600, 2_600, None),
            (Kind::Signal, "", 70, 2_600, 2_600, None),
        ]
    );
    let of_queue = |kind| trace.records.iter().find(|r| r.kind == kind && r.queue().is_some());
    assert_eq!(
        of_queue(Kind::Timed).and_then(|r| r.queue()),
        Some(lane),
        "the slice names its queue"
    );
    assert_eq!(trace.lost_records, 0);
}

#[test]
fn a_gap_is_a_record_of_its_own_and_no_busy_time() {
    let platform = Platform::virtual_time(StepCosts::free());
    platform.enable_tracing();
    let owned = platform.clone();
    let report = platform.run(move || {
        let machine = Machine::new(&owned, Config::default());
        machine.gpu.start();
        let process = machine.process();
        let done = process.fence(0, 0);
        let mut queue = process.queue(COPY);
        let commands =
            [Command::Timed { ns: 300 }, Command::Gap { ns: 5_000 }, Command::Timed { ns: 200 }];
        queue.run_until(&[process.execute(&commands, 0), done.signal(1)], &done, 1);
        let busy_ns: u64 = machine.gpu.stats().nodes.iter().map(|node| node.busy_ns).sum();
        assert_eq!(busy_ns, 500);
        machine.gpu.stop();
    });
    assert!(report.completed(), "{report:?}");
    let trace = platform.take_trace("test");
    let seen: Vec<_> = trace.records.iter().map(|r| (r.kind, r.duration_ns())).collect();
    assert_eq!(seen, [(Kind::Timed, 300), (Kind::Gap, 5_000), (Kind::Timed, 200)]);
}
