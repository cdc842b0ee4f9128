//! User-mode queues: the contents of the ring, the calls, the loss of the doorbell.

use crate::bench::{Bench, bench, bench_on, bench_with, executed, ran};
use tidegate_d3d12::*;
use tidegate_testbed::prelude::*;
use tidegate_trace::Kind;

fn with_slots(ring_slots: u64) -> DeviceOptions {
    DeviceOptions { ring_slots, ..DeviceOptions::default() }
}

impl Bench<'_> {
    /// A user-mode queue that does as told when its doorbell is gone for good.
    fn queue_on_abort(&self, on_abort: OnAbort) -> Queue {
        let desc = crate::bench::desc(CommandListType::Copy, Submission::User);
        self.device.create_queue_with(desc, QueueOptions { on_abort }).unwrap()
    }
}

#[test]
// spec: UMS-001, UMS-003, UMS-015, UMS-033
fn a_submission_makes_no_kernel_call_after_the_first_connect() {
    bench(|b| {
        let fence = b.device.create_fence("done", 0).unwrap();
        b.kernel.take();
        let queue = b.queue(Submission::User);
        let made = b.kernel.take();
        let place = |name: &str, args: &str| {
            let found = made.iter().position(|c| c.name == name && c.args.contains(args));
            found.unwrap_or_else(|| panic!("{name} with {args}: {made:?}"))
        };
        place("create_hw_queue", "user_mode_submission: true, priority: Normal");
        let doorbell = place("create_doorbell", "");
        assert!(place("create_allocation", "Bulk") < doorbell);
        assert!(place("create_allocation", "Protocol") < doorbell);

        let list = b.list(1);
        queue.execute(&[&list]).unwrap();
        assert_eq!(b.kernel.take_names(), ["connect_doorbell"]);
        for value in 1..400 {
            queue.execute(&[&list]).unwrap();
            queue.signal(&fence, value).unwrap();
        }
        assert_eq!(b.kernel.take(), []);
        let hardware = b.queue(Submission::Hardware);
        hardware.execute(&[&list]).unwrap();
        let last = b.kernel.take().pop().unwrap();
        assert_eq!(last.name, "submit_command_to_hw_queue");
        assert!(last.args.contains("progress_fence_id: 1,"), "{last:?}");
        assert_eq!(
            (queue.submission(), hardware.submission()),
            (Submission::User, Submission::Hardware)
        );
    });
}

#[test]
// spec: UMS-071, UMS-075, UMS-076, UMS-077, UMS-078
fn each_command_buffer_has_the_next_progress_value() {
    let trace = bench(|b| {
        let queue = b.queue(Submission::User);
        let (one, two) = (b.list(1), b.list(2));
        let last_queued = &b.kernel.doorbells()[0].last_queued;
        for n in 1..=5u64 {
            queue.execute(&[&one, &two]).unwrap();
            assert_eq!((last_queued.load(), b.written()), (2 * n, 2 * n));
        }
        b.kernel.take();
        queue.wait_idle().unwrap();
        let waits = b.kernel.take();
        assert!(waits.len() == 1 && waits[0].args.contains("value: 10 "), "{waits:?}");
        let progress: Vec<u64> = b
            .packets()
            .iter()
            .map(|p| match p {
                RingPacket::Execute { progress, .. } => *progress,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(progress, (1..=10).collect::<Vec<u64>>());
    });
    assert_eq!(ran(&trace), [1, 2].repeat(5));
}

#[test]
// spec: UMS-079, UMS-084
fn the_ring_is_the_absolute_write_pointer_through_the_mapping() {
    bench(|b| {
        let doorbell = b.kernel.script_doorbells();
        let queue = b.queue(Submission::User);
        let list = b.list(1);
        queue.execute(&[&list]).unwrap();
        queue.execute(&[&list, &list]).unwrap();
        assert_eq!(doorbell.rung(), [3]);
        // The doorbell is taken away: the next ring reaches no engine, and is repeated on the new
        // page with nothing published twice.
        doorbell.set_status(DoorbellStatus::DisconnectedRetry);
        queue.execute(&[&list]).unwrap();
        assert_eq!(doorbell.rung(), [4, 4]);
        assert_eq!(b.written(), 4);
        let stats = queue.stats();
        assert_eq!(
            (stats.submissions, stats.doorbell_rings, stats.connects, stats.retries),
            (4, 5, 2, 1)
        );
        assert_eq!(b.device.counters().doorbell_rings, 5);
    });
}

#[test]
// spec: UMS-080
fn a_notified_doorbell_tells_the_kernel_each_time() {
    bench(|b| {
        b.kernel.script_doorbells().connect_as(DoorbellStatus::ConnectedNotify);
        let queue = b.queue(Submission::User);
        let list = b.list(1);
        b.kernel.take();
        queue.execute(&[&list]).unwrap();
        queue.execute(&[&list]).unwrap();
        let notify = "notify_work_submission";
        assert_eq!(b.kernel.take_names(), ["connect_doorbell", notify, notify]);
    });
}

#[test]
// spec: UMS-082
fn an_aborted_queue_says_so_and_stays_so() {
    bench(|b| {
        let queue = b.queue_on_abort(OnAbort::Report);
        let list = b.list(1);
        b.kernel.refuse("connect_doorbell", Status::DEVICE_REMOVED);
        let gone = Err(Error::QueueAborted { queue: "upload".to_owned() });
        assert_eq!(queue.execute(&[&list]), gone);
        let rings = queue.stats().doorbell_rings;
        assert_eq!(queue.execute(&[&list]), gone);
        assert_eq!(queue.stats().doorbell_rings, rings);

        let second = b.another();
        let doorbell = second.kernel.script_doorbells();
        let queue = second.queue_on_abort(OnAbort::Report);
        queue.execute(&[&second.list(1)]).unwrap();
        doorbell.set_status(DoorbellStatus::DisconnectedAbort);
        assert_eq!(queue.execute(&[&second.list(1)]), gone);
    });
}

#[test]
fn a_connect_ahead_reports_a_doorbell_that_no_new_queue_can_connect() {
    bench(|b| {
        let queues = [OnAbort::RecreateUser, OnAbort::Report].map(|on| b.queue_on_abort(on));
        let as_hardware = b.queue_on_abort(OnAbort::RecreateHardware);
        b.kernel.refuse("connect_doorbell", Status::NO_MEMORY);
        for queue in &queues {
            let refused = Error::Call {
                call: "D3DKMTConnectDoorbell",
                object: "queue 'upload'".to_owned(),
                status: Status::NO_MEMORY,
            };
            assert_eq!(queue.connect_doorbells(), Err(refused));
        }
        assert_eq!(as_hardware.connect_doorbells(), Ok(()));
        assert_eq!(as_hardware.submission(), Submission::Hardware);
        b.kernel.refuse_nothing();
        b.kernel.take();
        assert_eq!(queues[0].connect_doorbells(), Ok(()));
        queues[0].execute(&[&b.list(1)]).unwrap();
        assert_eq!(b.kernel.take_names(), ["connect_doorbell"]);
    });
}

#[test]
// spec: UMS-085
fn a_doorbell_that_is_lost_every_time_is_told_of_through_the_kernel_in_the_end() {
    bench(|b| {
        let doorbell = b.kernel.script_doorbells();
        let queue = b.queue(Submission::User);
        doorbell.connect_as(DoorbellStatus::DisconnectedRetry);
        let list = b.list(1);
        b.kernel.take();
        queue.execute(&[&list]).unwrap();
        let mut expected = vec!["connect_doorbell"; 8];
        expected.push("notify_work_submission");
        assert_eq!(b.kernel.take_names(), expected);
        assert_eq!(b.written(), 1, "published once");
        // The next submission tries again.
        doorbell.connect_as(DoorbellStatus::Connected);
        queue.execute(&[&list]).unwrap();
        assert_eq!(doorbell.rung().last(), Some(&2));
        assert_eq!(b.kernel.take_names(), ["connect_doorbell"]);
    });
}

#[test]
fn a_full_ring_is_drained_and_everything_runs_once_in_order() {
    for slots in [8, 16] {
        let ns = |round: u64| round * 10..round * 10 + round % 4 + 1;
        let trace = bench_with(with_slots(slots), move |b| {
            let queue = b.queue(Submission::User);
            let fence = b.device.create_fence("f", 0).unwrap();
            for round in 1..=300 {
                let lists: Vec<ClosedList> = ns(round).map(|ns| b.list(ns)).collect();
                queue.execute(&lists.iter().collect::<Vec<_>>()).unwrap();
                (0..round % 7).for_each(|_| queue.signal(&fence, round).unwrap());
            }
            queue.wait_idle().unwrap();
            assert_eq!(fence.completed_value(), 300);
        });
        assert_eq!(ran(&trace), (1..=300).flat_map(ns).collect::<Vec<u64>>());
    }
}

#[test]
fn a_ring_of_signals_alone_has_something_to_sleep_on() {
    let trace = bench_with(with_slots(16), |b| {
        let queue = b.queue(Submission::User);
        let fence = b.device.create_fence("f", 0).unwrap();
        (1..=500).for_each(|value| queue.signal(&fence, value).unwrap());
        queue.wait_idle().unwrap();
        assert_eq!(fence.completed_value(), 500);
    });
    let signals = trace.records.iter().filter(|record| record.kind == Kind::Signal);
    assert_eq!(signals.count(), 500);
}

#[test]
fn more_lists_than_half_a_ring_are_refused() {
    bench_with(with_slots(8), |b| {
        let queue = b.queue(Submission::User);
        let list = b.list(1);
        let refused = queue.execute(&[&list; 5]).unwrap_err();
        assert_eq!(refused, Error::TooManyLists { queue: "upload".to_owned(), lists: 5, most: 4 });
        queue.execute(&[&list; 4]).unwrap();
    });
}

/// The log entries of six waits and of six signals, where the kernel allows `numbers`.
fn log_entries(numbers: u32, expected: [u32; 6]) {
    bench(move |b| {
        b.kernel.plant_log_numbers(numbers);
        let queue = b.queue(Submission::User);
        let asked = b.kernel.take_names().contains(&"native_fence_log_detail");
        assert!(asked, "an application cannot switch logging off");
        let fence = b.device.create_fence("f", 0).unwrap();
        for value in 1..=6 {
            queue.signal(&fence, value).unwrap();
            queue.wait(&fence, value).unwrap();
        }
        let (mut waits, mut signals) = (Vec::new(), Vec::new());
        for packet in b.packets() {
            match packet {
                RingPacket::Wait { log_entry, .. } => waits.push(log_entry),
                RingPacket::Signal { log_entry, fence_handle, .. } => {
                    assert_ne!(fence_handle, 0);
                    signals.push(log_entry);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((&waits[..], &signals[..]), (&expected[..], &expected[..]));
    });
}

#[test]
// spec: NF-178, NF-182, NF-191
fn waits_and_signals_carry_their_log_entries_modulo_the_numbers() {
    log_entries(3, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn a_kernel_without_logs_has_no_entry_named() {
    log_entries(0, [NO_LOG_ENTRY; 6]);
}

#[test]
fn command_buffers_are_numbered_while_the_kernel_asks_for_verbose_logs() {
    bench(|b| {
        let queue = b.queue(Submission::User);
        let list = b.list(1);
        for on in [false, true, true, false, true] {
            b.adapter().set_verbose_logs(on).unwrap();
            queue.execute(&[&list]).unwrap();
        }
        let numbers: Vec<Option<u32>> = b
            .packets()
            .iter()
            .map(|packet| match packet {
                RingPacket::Execute { log_entry, .. } => *log_entry,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(numbers, [None, Some(0), Some(1), None, Some(2)]);
    });
}

#[test]
// spec: ME-004, ME-023, ME-027
fn several_threads_submit_to_one_queue_one_after_the_other() {
    for platform in
        [Platform::closed_host(), Platform::virtual_time(tidegate_platform::StepCosts::free())]
    {
        let trace = bench_on(&platform, setup(|_| ()), with_slots(32), |b| {
            let queue = b.queue(Submission::User);
            let spawn = |thread: u64| {
                let (queue, device) = (queue.clone(), b.device.clone());
                b.platform.spawn(format!("thread {thread}"), move || {
                    for n in 0..200 {
                        let mut list = device.create_command_list(CommandListType::Copy);
                        list.label(&(thread * 1000 + n).to_string()).unwrap();
                        list.timed(1).unwrap();
                        let list = list.close().unwrap();
                        queue.execute(&[&list, &list]).unwrap();
                    }
                })
            };
            let threads: Vec<_> = (0..4).map(spawn).collect();
            threads.iter().for_each(|thread| {
                thread.join();
            });
            queue.wait_idle().unwrap();
        });
        let ran: Vec<u64> = executed(&trace).filter_map(|(name, _)| name.parse().ok()).collect();
        assert_eq!(ran.len(), 1600);
        for thread in 0..4 {
            let mine = ran.iter().filter(|n| **n / 1000 == thread).map(|n| n % 1000);
            assert!(mine.eq((0..200).flat_map(|n| [n, n])), "call order of one thread: {ran:?}");
        }
        // The two lists of one call are next to each other: one call is one ordered unit.
        assert!(ran.chunks(2).all(|pair| pair[0] == pair[1]));
    }
}

#[test]
fn a_queue_ends_before_what_it_stands_on() {
    bench(|b| {
        let queue = b.queue(Submission::User);
        queue.execute(&[&b.list(1)]).unwrap();
        b.work();
        let before = b.device.counters().submissions;
        b.kernel.take();
        drop(queue);
        let ended = ["doorbell", "hw_queue", "hw_context", "allocation", "allocation"];
        let names = ended.map(|what| format!("destroy_{what}"));
        assert_eq!(b.kernel.take_names(), names);
        assert_eq!(b.device.counters().submissions, before, "what an ended queue did still counts");
    });
}
