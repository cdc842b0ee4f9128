//! User-mode queues: what stands in the ring, what is called, what happens when the doorbell goes.

use crate::double::{Call, Double};
use std::sync::Arc;
use tidegate_calls::{AllocationKind, DoorbellStatus, Status};
use tidegate_d3d12::*;
use tidegate_gpu_abi::ring::NO_LOG_ENTRY;
use tidegate_gpu_abi::{CONTROL_WRITE_WORD, Command, RingPacket};
use tidegate_platform::Platform;

pub struct Bench {
    pub platform: Platform,
    pub kernel: Arc<Double>,
    pub device: Device,
}

pub fn bench_with(platform: &Platform, options: DeviceOptions) -> Bench {
    let kernel = Arc::new(Double::new(platform));
    let device = Device::new(platform, kernel.clone(), options).unwrap();
    Bench { platform: platform.clone(), kernel, device }
}

pub fn bench() -> Bench {
    bench_with(&Platform::host(), DeviceOptions::default())
}

pub fn desc(list_type: CommandListType, submission: Submission) -> QueueDesc {
    QueueDesc {
        name: "upload".to_owned(),
        list_type,
        priority: Priority::Normal,
        submission,
        node: None,
        node_mask: 0,
    }
}

impl Bench {
    pub fn queue(&self, submission: Submission) -> Queue {
        self.device.create_queue(desc(CommandListType::Copy, submission)).unwrap()
    }

    /// A user-mode queue that does as told when its doorbell is gone for good.
    pub fn queue_on_abort(&self, on_abort: OnAbort) -> Queue {
        let desc = desc(CommandListType::Copy, Submission::User);
        self.device.create_queue_with(desc, QueueOptions { on_abort }).unwrap()
    }

    pub fn buffer(&self, bytes: u64) -> Buffer {
        self.device
            .create_buffer(BufferDesc { name: "b".to_owned(), bytes, heap: Heap::Default })
            .unwrap()
    }

    /// A closed copy list that says `ns`.
    pub fn list(&self, ns: u64) -> ClosedList {
        let mut list = self.device.create_command_list(CommandListType::Copy);
        list.timed(ns).unwrap();
        list.close().unwrap()
    }
}

#[test]
// spec: UMS-001, UMS-003, UMS-015, UMS-033
fn a_submission_makes_no_kernel_call_after_the_first_connect() {
    let b = bench();
    let fence = b.device.create_fence("done", 0).unwrap();
    b.kernel.take_calls();
    let queue = b.queue(Submission::User);
    let made = b.kernel.take_calls();
    let bulk = |kind| made.iter().position(|c| *c == Call::CreateAllocation(kind)).unwrap();
    let doorbell = made.iter().position(|c| *c == Call::CreateDoorbell).unwrap();
    assert!(made.contains(&Call::CreateHwQueue { user: true, priority: Priority::Normal }));
    assert!(bulk(AllocationKind::Bulk) < doorbell && bulk(AllocationKind::Protocol) < doorbell);

    let list = b.list(1);
    queue.execute(&[&list]).unwrap();
    assert_eq!(b.kernel.take_calls(), [Call::Connect]);
    for value in 1..400 {
        queue.execute(&[&list]).unwrap();
        queue.signal(&fence, value).unwrap();
    }
    assert_eq!(b.kernel.take_calls(), []);
    let hardware = b.queue(Submission::Hardware);
    hardware.execute(&[&list]).unwrap();
    assert!(b.kernel.calls().contains(&Call::SubmitToHwQueue { progress: 1 }));
    assert_eq!(
        (queue.submission(), hardware.submission()),
        (Submission::User, Submission::Hardware)
    );
}

#[test]
// spec: UMS-071, UMS-075, UMS-076, UMS-077, UMS-078
fn each_command_buffer_has_the_next_progress_value() {
    let b = bench();
    let queue = b.queue(Submission::User);
    let (one, two) = (b.list(1), b.list(2));
    let end = || b.kernel.user_end();
    for n in 1..=5u64 {
        queue.execute(&[&one, &two]).unwrap();
        assert_eq!(end().last_queued.load(), 2 * n);
        assert_eq!(end().control.word(CONTROL_WRITE_WORD).load(), 2 * n);
    }
    b.kernel.run();
    assert_eq!(end().progress.load(), 10);
    let progress: Vec<u64> = b
        .kernel
        .packets()
        .iter()
        .map(|p| match p {
            RingPacket::Execute { progress, .. } => *progress,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(progress, (1..=10).collect::<Vec<u64>>());
    let timed: Vec<Command> = b.kernel.ran();
    assert_eq!(
        timed[..3],
        [Command::Timed { ns: 1 }, Command::Timed { ns: 2 }, Command::Timed { ns: 1 }]
    );
}

#[test]
// spec: UMS-079, UMS-084
fn the_ring_is_the_absolute_write_pointer_through_the_mapping() {
    let b = bench();
    let queue = b.queue(Submission::User);
    let list = b.list(1);
    queue.execute(&[&list]).unwrap();
    queue.execute(&[&list, &list]).unwrap();
    assert_eq!(b.kernel.user_end().mapping.page().word(0).load(), 3);
    // The doorbell is taken away: the next ring reaches no engine, and is repeated on the new page with
    // nothing published twice.
    b.kernel.set_status(DoorbellStatus::DisconnectedRetry);
    queue.execute(&[&list]).unwrap();
    let end = b.kernel.user_end();
    assert_eq!(end.pages.len(), 2);
    assert_eq!((end.pages[0].word(0).load(), end.pages[1].word(0).load()), (4, 4));
    assert_eq!(end.control.word(CONTROL_WRITE_WORD).load(), 4);
    let stats = queue.stats();
    assert_eq!(
        (stats.submissions, stats.doorbell_rings, stats.connects, stats.retries),
        (4, 5, 2, 1)
    );
    assert_eq!(b.device.counters().doorbell_rings, 5);
}

#[test]
// spec: UMS-080
fn a_notified_doorbell_tells_the_kernel_each_time() {
    let b = bench();
    let queue = b.queue(Submission::User);
    b.kernel.notify_from_now_on();
    b.kernel.take_calls();
    let list = b.list(1);
    queue.execute(&[&list]).unwrap();
    queue.execute(&[&list]).unwrap();
    assert_eq!(b.kernel.take_calls(), [Call::Connect, Call::Notify, Call::Notify]);
}

#[test]
// spec: UMS-082
fn an_aborted_queue_says_so_and_stays_so() {
    let b = bench();
    let queue = b.queue_on_abort(OnAbort::Report);
    let list = b.list(1);
    b.kernel.refuse_connect(Status::DEVICE_REMOVED);
    let gone = Err(Error::QueueAborted { queue: "upload".to_owned() });
    assert_eq!(queue.execute(&[&list]), gone);
    let rings = queue.stats().doorbell_rings;
    assert_eq!(queue.execute(&[&list]), gone);
    assert_eq!(queue.stats().doorbell_rings, rings);

    let second = bench();
    let queue = second.queue_on_abort(OnAbort::Report);
    queue.execute(&[&second.list(1)]).unwrap();
    second.kernel.set_status(DoorbellStatus::DisconnectedAbort);
    assert_eq!(queue.execute(&[&second.list(1)]), gone);
}

#[test]
// spec: UMS-085
fn a_doorbell_that_is_lost_every_time_is_told_of_through_the_kernel_in_the_end() {
    let b = bench();
    let queue = b.queue(Submission::User);
    b.kernel.lose_every_connect(true);
    let list = b.list(1);
    b.kernel.take_calls();
    queue.execute(&[&list]).unwrap();
    let calls = b.kernel.take_calls();
    assert_eq!(calls.iter().filter(|c| **c == Call::Connect).count(), 8, "{calls:?}");
    assert_eq!(calls.last(), Some(&Call::Notify));
    assert_eq!(b.kernel.user_end().control.word(CONTROL_WRITE_WORD).load(), 1, "published once");
    // The next submission tries again.
    b.kernel.lose_every_connect(false);
    queue.execute(&[&list]).unwrap();
    assert_eq!(b.kernel.user_end().pages.last().unwrap().word(0).load(), 2);
    assert!(!b.kernel.take_calls().contains(&Call::Notify));
}

#[test]
fn a_full_ring_is_drained_and_everything_runs_once_in_order() {
    for slots in [8, 16] {
        let b = bench_with(
            &Platform::host(),
            DeviceOptions { ring_slots: slots, ..DeviceOptions::default() },
        );
        let queue = b.queue(Submission::User);
        let fence = b.device.create_fence("f", 0).unwrap();
        let mut ns = Vec::new();
        for round in 0..300u64 {
            let lists: Vec<ClosedList> =
                (0..round % 4 + 1).map(|n| b.list(round * 10 + n)).collect();
            ns.extend((0..round % 4 + 1).map(|n| round * 10 + n));
            queue.execute(&lists.iter().collect::<Vec<_>>()).unwrap();
            (0..round % 7).for_each(|_| queue.signal(&fence, round).unwrap());
        }
        queue.wait_idle().unwrap();
        let ran: Vec<u64> = b
            .kernel
            .ran()
            .iter()
            .filter_map(|c| match c {
                Command::Timed { ns } => Some(*ns),
                _ => None,
            })
            .collect();
        assert_eq!(ran, ns);
        assert_eq!(fence.completed_value(), 299);
    }
}

#[test]
fn a_ring_of_signals_alone_has_something_to_sleep_on() {
    let b =
        bench_with(&Platform::host(), DeviceOptions { ring_slots: 16, ..DeviceOptions::default() });
    let queue = b.queue(Submission::User);
    let fence = b.device.create_fence("f", 0).unwrap();
    (1..=500).for_each(|value| queue.signal(&fence, value).unwrap());
    queue.wait_idle().unwrap();
    assert_eq!(fence.completed_value(), 500);
    let signals =
        b.kernel.packets().iter().filter(|p| matches!(p, RingPacket::Signal { .. })).count();
    assert_eq!(signals, 500);
}

#[test]
fn more_lists_than_half_a_ring_are_refused() {
    let b =
        bench_with(&Platform::host(), DeviceOptions { ring_slots: 8, ..DeviceOptions::default() });
    let queue = b.queue(Submission::User);
    let list = b.list(1);
    let refused = queue.execute(&[&list; 5]).unwrap_err();
    assert_eq!(refused, Error::TooManyLists { queue: "upload".to_owned(), lists: 5, most: 4 });
    queue.execute(&[&list; 4]).unwrap();
}

#[test]
// spec: NF-178, NF-182, NF-191
fn waits_and_signals_carry_their_log_entries_modulo_the_numbers() {
    let platform = Platform::host();
    let kernel = Arc::new(Double::new(&platform));
    kernel.set_log_entries(3);
    let device = Device::new(&platform, kernel.clone(), DeviceOptions::default()).unwrap();
    let queue = device.create_queue(desc(CommandListType::Copy, Submission::User)).unwrap();
    assert!(kernel.calls().contains(&Call::LogDetail));
    let fence = device.create_fence("f", 0).unwrap();
    for value in 1..=6 {
        queue.signal(&fence, value).unwrap();
        queue.wait(&fence, value).unwrap();
    }
    kernel.run();
    let (mut waits, mut signals) = (Vec::new(), Vec::new());
    for packet in kernel.packets() {
        match packet {
            RingPacket::Wait { log_entry, .. } => waits.push(log_entry),
            RingPacket::Signal { log_entry, fence_handle, .. } => {
                assert_ne!(fence_handle, 0);
                signals.push(log_entry);
            }
            _ => {}
        }
    }
    assert_eq!(waits, [0, 1, 2, 0, 1, 2]);
    assert_eq!(signals, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn a_kernel_without_logs_has_no_entry_named() {
    let platform = Platform::host();
    let kernel = Arc::new(Double::new(&platform));
    kernel.set_log_entries(0);
    let device = Device::new(&platform, kernel.clone(), DeviceOptions::default()).unwrap();
    let queue = device.create_queue(desc(CommandListType::Copy, Submission::User)).unwrap();
    let fence = device.create_fence("f", 0).unwrap();
    queue.signal(&fence, 1).unwrap();
    kernel.run();
    assert!(matches!(kernel.packets()[..], [RingPacket::Signal { log_entry: NO_LOG_ENTRY, .. }]));
    assert!(kernel.calls().contains(&Call::LogDetail), "an application cannot switch logging off");
}

#[test]
fn command_buffers_are_numbered_while_the_kernel_asks_for_verbose_logs() {
    let b = bench();
    let queue = b.queue(Submission::User);
    let list = b.list(1);
    for on in [0, 1, 1, 0, 1] {
        b.kernel.set_verbose(on);
        queue.execute(&[&list]).unwrap();
    }
    b.kernel.run();
    let numbers: Vec<Option<u32>> = b
        .kernel
        .packets()
        .iter()
        .map(|packet| match packet {
            RingPacket::Execute { log_entry, .. } => *log_entry,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(numbers, [None, Some(0), Some(1), None, Some(2)]);
}

#[test]
// spec: ME-004, ME-023, ME-027
fn several_threads_submit_to_one_queue_one_after_the_other() {
    for platform in
        [Platform::closed_host(), Platform::virtual_time(tidegate_platform::StepCosts::free())]
    {
        let b = bench_with(&platform, DeviceOptions { ring_slots: 32, ..DeviceOptions::default() });
        let (queue, device, kernel) =
            (b.queue(Submission::User), b.device.clone(), b.kernel.clone());
        let p = platform.clone();
        let report = platform.run(move || {
            let handles: Vec<_> = (0..4u64)
                .map(|thread| {
                    let (queue, device) = (queue.clone(), device.clone());
                    p.spawn(format!("thread {thread}"), move || {
                        for n in 0..200 {
                            let mut list = device.create_command_list(CommandListType::Copy);
                            list.timed(thread * 1000 + n).unwrap();
                            let list = list.close().unwrap();
                            queue.execute(&[&list, &list]).unwrap();
                        }
                    })
                })
                .collect();
            handles.iter().for_each(|h| {
                h.join();
            });
            queue.wait_idle().unwrap();
        });
        assert!(report.completed(), "{report:?}");
        let ran = kernel.ran();
        assert_eq!(ran.len(), 1600);
        for thread in 0..4 {
            let mine: Vec<u64> = ran
                .iter()
                .filter_map(|c| match c {
                    Command::Timed { ns } if ns / 1000 == thread => Some(ns % 1000),
                    _ => None,
                })
                .collect();
            assert_eq!(
                mine,
                (0..200).flat_map(|n| [n, n]).collect::<Vec<u64>>(),
                "call order of one thread"
            );
        }
        // The two lists of one call are next to each other: one call is one ordered unit.
        assert!(ran.chunks(2).all(|pair| pair[0] == pair[1]));
    }
}

#[test]
fn a_queue_ends_before_what_it_stands_on() {
    let b = bench();
    let queue = b.queue(Submission::User);
    queue.execute(&[&b.list(1)]).unwrap();
    b.kernel.run();
    let before = b.device.counters().submissions;
    b.kernel.take_calls();
    drop(queue);
    let ended: Vec<Call> = b.kernel.take_calls();
    assert_eq!(
        ended,
        ["doorbell", "hw queue", "hw context", "allocation", "allocation"].map(Call::Destroy)
    );
    assert_eq!(b.device.counters().submissions, before, "what an ended queue did still counts");
}
