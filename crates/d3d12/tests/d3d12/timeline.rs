//! What is recorded for the timeline, and what travels with the work.

use crate::bench::{bench_on, bench_untraced};
use tidegate_d3d12::*;
use tidegate_testbed::prelude::*;
use tidegate_trace::{Kind, Record};

#[test]
// spec: NF-167, NF-168, NF-194
fn calls_are_recorded_on_the_lane_of_their_thread() {
    let platform = Platform::virtual_time(StepCosts::free().with(Step::KernelCall, 100));
    let trace = bench_on(&platform, setup(|_| ()), DeviceOptions::default(), |b| {
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
        queue.signal_and_wait(&fence, 2);
    });
    // What was queued is on the queue's lane, the calls on their thread's.
    let of_lane = |kind| {
        let lane = trace.records.iter().find(|r| r.kind == kind).expect("a record").lane;
        let own: Vec<&Record> = trace.records.iter().filter(|r| r.lane == lane).collect();
        let one = |r: &&Record| (r.kind, trace.name_of(r), r.fence().map(|(_, v)| v));
        (own.iter().map(one).collect::<Vec<_>>(), own)
    };
    let (calls, call_records) = of_lane(Kind::MapWrite);
    let expected = [
        (Kind::MapWrite, "b", None),
        (Kind::CpuSignal, "", Some(1)),
        (Kind::Submit, "wait", Some(1)),
        (Kind::Submit, "upload", None),
        (Kind::Submit, "signal", Some(2)),
        (Kind::CpuWait, "", Some(2)),
    ];
    assert_eq!(calls, expected);
    let (events, event_records) = of_lane(Kind::Execute);
    let expected = [
        (Kind::Doorbell, "doorbell connected", None),
        (Kind::Wait, "", Some(1)),
        (Kind::Execute, "upload", None),
        (Kind::Signal, "", Some(2)),
    ];
    assert_eq!(events, expected);
    // Each has the time at which its call queued it, through the side table.
    let (submits, events) = (&call_records[2..5], &event_records[1..]);
    let queued: Vec<u64> = events.iter().map(|record| record.queued_ns).collect();
    assert!(submits.iter().map(|record| record.start_ns).eq(queued.iter().copied()));
    assert!(queued[0] > 0 && queued[0] < queued[1], "{queued:?}");
    // The call that gave the list to the queue and the list on the queue's lane are linked.
    assert!(submits[1].link.is_some() && submits[1].link == events[1].link);
    assert_eq!(submits[1].queue(), Some(events[1].lane));
    assert_eq!(call_records[0].arg, 2048);
}

#[test]
fn modelled_costs_are_spent_once_each() {
    let costs = StepCosts::free()
        .with(Step::KernelCall, 1_000_000)
        .with(Step::DoorbellStore, 10_000)
        .with(Step::UmdEncode, 100)
        .with(Step::MapWritePerKib, 1);
    bench_on(&Platform::virtual_time(costs), setup(|_| ()), DeviceOptions::default(), |b| {
        let (queue, fence) = (b.queue(Submission::User), b.device.create_fence("f", 0).unwrap());
        let list = b.list(1);
        queue.execute(&[&list]).unwrap();
        let spent = |what: &dyn Fn()| {
            let start = b.platform.now();
            what();
            b.platform.now().since(start)
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
}

/// The length of what the GPU reads, and what messages call the list.
#[test]
fn a_label_or_a_name_adds_no_command_while_tracing_is_off() {
    bench_untraced(|b| {
        let queue = b.queue(Submission::User);
        type Change = fn(&mut CommandList);
        let changes: [(Change, Option<&str>); 4] = [
            (|_| (), None),
            (|list| list.label("first").unwrap(), Some("first")),
            (|list| list.set_name("name"), Some("name")),
            (
                |list| {
                    list.label("first").unwrap();
                    list.label("second").unwrap();
                },
                Some("first"),
            ),
        ];
        for (change, name) in changes {
            let mut list = b.device.create_command_list(CommandListType::Copy);
            change(&mut list);
            list.timed(1).unwrap();
            assert_eq!((list.name(), list.commands()), (name, 1));
            queue.execute(&[&list.close().unwrap()]).unwrap();
        }
        let bytes: Vec<u32> = (b.packets().iter())
            .filter_map(|packet| match packet {
                RingPacket::Execute { bytes, .. } => Some(*bytes),
                _ => None,
            })
            .collect();
        assert_eq!((bytes.len(), bytes.iter().all(|length| *length == bytes[0])), (4, true));
    });
}
