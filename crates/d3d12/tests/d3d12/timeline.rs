//! What is recorded for the timeline, and what travels with the work.

use crate::user_mode::bench;
use tidegate_d3d12::*;
use tidegate_gpu_abi::{Command, RingPacket};
use tidegate_platform::{Platform, QueueNumber, Step, StepCosts, SubmissionKey};
use tidegate_trace::{Kind, LaneKind, Record};

#[test]
// spec: NF-167, NF-168, NF-194
fn calls_are_recorded_on_the_lane_of_their_thread() {
    let b = bench();
    b.platform.enable_tracing();
    let lane = b.platform.lane(LaneKind::CpuThread, "app", "main");
    let device = b.device.with_lane(lane);
    let (queue, fence) =
        (b.queue(Submission::User).on_lane(lane), device.create_fence("f", 0).unwrap());
    let buffer = b.buffer(2048).on_lane(lane);
    let mut list = device.create_command_list(CommandListType::Copy);
    list.label("upload").unwrap();
    list.timed(1).unwrap();
    let list = list.close().unwrap();
    buffer.write_traced(0, &[1; 2048]).unwrap();
    fence.signal(1).unwrap();
    queue.wait(&fence, 1).unwrap();
    queue.execute(&[&list]).unwrap();
    queue.signal(&fence, 2).unwrap();
    fence.wait(2).unwrap();
    // The side table has the name of each list and fence, and the time at which each was queued.
    let on_lane = |number| b.platform.lane_of(number) == Some(queue.timeline_lane());
    let number = (0..99_999).map(QueueNumber).find(|number| on_lane(*number)).expect("a lane");
    let mut queued = Vec::new();
    for (slot, packet) in (0..).zip(b.kernel.packets()) {
        let key = match packet {
            RingPacket::Execute { progress, .. } => SubmissionKey::Completion(progress),
            _ => SubmissionKey::Slot(slot),
        };
        let entry = b.platform.take_queued(number, key);
        assert_ne!(entry.name, 0, "{packet:?}");
        queued.push(entry.at_ns);
    }
    assert!(queued.len() == 3 && queued.is_sorted() && queued[0] > 0, "{queued:?}");
    assert!(matches!(b.kernel.ran()[..], [Command::Label { name: 1.. }, Command::Timed { ns: 1 }]));

    let trace = b.platform.take_trace("t");
    let seen: Vec<(Kind, &str, Option<u64>)> =
        trace.records.iter().map(|r| (r.kind, trace.name_of(r), r.fence.map(|(_, v)| v))).collect();
    assert_eq!(
        seen,
        [
            (Kind::MapWrite, "b", None),
            (Kind::CpuSignal, "", Some(1)),
            (Kind::Submit, "wait", Some(1)),
            (Kind::WaitQueued, "", Some(1)),
            (Kind::Submit, "upload", None),
            (Kind::NeverRan, "upload", None),
            (Kind::Submit, "signal", Some(2)),
            (Kind::SignalQueued, "", Some(2)),
            (Kind::CpuWait, "", Some(2)),
        ]
    );
    // What was queued stands on the queue's lane, at the time that the side table has as well; the
    // calls on their thread's.
    let (events, calls): (Vec<&Record>, Vec<&Record>) =
        trace.records.iter().partition(|r| r.lane == queue.timeline_lane());
    assert!(events.iter().all(|r| r.lane == queue.timeline_lane()));
    assert_eq!(events.iter().map(|r| r.start_ns).collect::<Vec<_>>(), queued);
    assert!(calls.iter().all(|r| r.lane == lane));
    // The call that gave the list to the queue and the list on the queue's lane are linked.
    let submit = calls.iter().find(|r| trace.name_of(r) == "upload").expect("the call is recorded");
    assert!(submit.link.is_some() && submit.link == events[1].link);
    assert_eq!(submit.queue, Some(queue.timeline_lane()));
    assert_eq!(trace.records[0].arg, 2048);
}

#[test]
fn modelled_costs_are_spent_once_each() {
    let costs = StepCosts::free()
        .with(Step::KernelCall, 1_000_000)
        .with(Step::DoorbellStore, 10_000)
        .with(Step::UmdEncode, 100)
        .with(Step::MapWritePerKib, 1);
    let platform = Platform::virtual_time(costs);
    let p = platform.clone();
    let report = platform.run(move || {
        let b = crate::user_mode::bench_with(&p, DeviceOptions::default());
        let (queue, fence) = (b.queue(Submission::User), b.device.create_fence("f", 0).unwrap());
        let list = b.list(1);
        queue.execute(&[&list]).unwrap();
        let spent = |what: &dyn Fn()| {
            let start = p.now();
            what();
            p.now().since(start)
        };
        assert_eq!(spent(&|| queue.execute(&[&list]).unwrap()), 10_100);
        assert_eq!(spent(&|| queue.execute(&[&list, &list, &list]).unwrap()), 10_300);
        assert_eq!(spent(&|| queue.signal(&fence, 1).unwrap()), 10_100);
        assert_eq!(spent(&|| drop(b.list(1))), 100);
        assert_eq!(spent(&|| fence.signal(5).unwrap()), 1_000_000);
        assert_eq!(spent(&|| b.buffer(1).write(0, &[0]).unwrap()), 2_000_001);
        let hardware = b.queue(Submission::Hardware);
        assert_eq!(spent(&|| hardware.execute(&[&list]).unwrap()), 1_000_100);
    });
    assert!(report.completed(), "{report:?}");
}
