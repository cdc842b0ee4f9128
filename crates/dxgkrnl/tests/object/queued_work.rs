//! Work that is in queues for long: behind a gate that the same thread opens later, more of it
//! than a ring holds, after the application has dropped what it names. All three submission models,
//! on threads and in virtual time.

use tidegate_testbed::prelude::*;

const SETTLED_NS: u64 = 100_000;

/// A machine on threads, and one in virtual time. A thread has one cooperative machine at a time.
const PLATFORMS: [fn() -> Platform; 2] =
    [Platform::closed_host, || Platform::virtual_time(StepCosts::free())];

fn on(platform: fn() -> Platform) -> World {
    setup(|_| ()).on(platform()).start()
}

/// Runs `test` on each platform with each submission model.
fn everywhere(test: impl Fn(&World, Submission) + Copy + Send + 'static) {
    for submission in Submission::ALL {
        for platform in PLATFORMS {
            on(platform).run(move |w| test(w, submission));
        }
    }
}

/// A device, and the fences of a gate and of the end of its work.
struct Gated {
    device: Device,
    gate: Fence,
    done: Fence,
}

impl Gated {
    fn new(w: &World, ring_slots: u64) -> Gated {
        Gated::with(w, DeviceOptions { ring_slots, ..DeviceOptions::default() })
    }

    fn with(w: &World, options: DeviceOptions) -> Gated {
        let device = w.machine.device(options).unwrap();
        let [gate, done] = ["gate", "done"].map(|name| device.create_fence(name, 0).unwrap());
        Gated { device, gate, done }
    }

    fn queue(&self, submission: Submission) -> Queue {
        self.device.queue(CommandListType::Copy, submission)
    }

    /// A queue behind the gate.
    fn gated(&self, submission: Submission) -> Queue {
        let queue = self.queue(submission);
        queue.wait(&self.gate, 1).unwrap();
        queue
    }

    fn buffer(&self) -> Buffer {
        self.device.readback(8)
    }

    fn fill(&self, buffer: &Buffer, value: u32) -> ClosedList {
        self.device.list(CommandListType::Copy, |list| list.fill(buffer, 0, 8, value))
    }
}

// spec: ME-026, ME-024
#[test]
fn waits_and_signals_return_at_once_however_many_are_queued() {
    everywhere(|w, submission| {
        let app = Gated::new(w, 1024);
        let queue = app.gated(submission);
        for number in 1..=2_048 {
            queue.signal(&app.done, number).unwrap();
            queue.wait(&app.done, number).unwrap();
        }
        assert_eq!(app.done.completed_value(), 0);
        let stats = queue.stats();
        assert_eq!((stats.signals, stats.waits), (2_048, 2_049));
        app.gate.signal(1).unwrap();
        app.done.wait(2_048).unwrap();
        queue.wait_idle().unwrap();
        let stats = queue.stats();
        assert_eq!((stats.signals, stats.waits), (2_048, 2_049));
        assert_eq!(stats.ring_waits > 0, submission == Submission::User);
    });
}

#[test]
fn lists_return_at_once_too_and_everything_runs_once_in_call_order() {
    everywhere(|w, submission| {
        let app = Gated::new(w, 8);
        let queue = app.gated(submission);
        let (seen, other) = (app.buffer(), app.queue(Submission::Packet));
        for number in 1..=100u32 {
            // The second list is the one that stays.
            queue.execute(&[&app.fill(&seen, 0), &app.fill(&seen, number)]).unwrap();
            queue.signal(&app.done, 2 * u64::from(number) - 1).unwrap();
            // The CPU reads between this signal and that wait.
            queue.wait(&app.done, 2 * u64::from(number)).unwrap();
        }
        let idle = w.platform.spawn("idle", {
            let queue = queue.clone();
            move || queue.wait_idle().unwrap()
        });
        app.gate.signal(1).unwrap();
        for number in 1..=100 {
            app.done.wait(2 * u64::from(number) - 1).unwrap();
            assert_eq!(first_word(&seen), number);
            other.signal(&app.done, 2 * u64::from(number)).unwrap();
        }
        idle.join();
        assert_eq!(app.done.completed_value(), 200, "the queue is idle behind its last wait");
        assert_eq!(queue.stats().executes, 100);
    });
}

#[test]
fn waiting_for_an_idle_queue_ends_though_others_keep_its_ring_full() {
    world().run(|w| {
        let app = Arc::new(Gated::new(w, 8));
        let queue = app.gated(Submission::User);
        (1..=50).for_each(|number| queue.signal(&app.done, number).unwrap());
        let later = app.device.fence(0);
        let idle = w.platform.spawn("idle", {
            let (app, queue) = (app.clone(), queue.clone());
            move || {
                queue.wait_idle().unwrap();
                assert!(app.done.completed_value() >= 50);
            }
        });
        w.pass(SETTLED_NS);
        // Queued behind the call, and held back for longer than the call lasts.
        queue.wait(&later, 1).unwrap();
        (51..=100).for_each(|number| queue.signal(&app.done, number).unwrap());
        app.gate.signal(1).unwrap();
        idle.join();
        assert_eq!(app.done.completed_value(), 50);
        later.signal(1).unwrap();
        app.done.wait(100).unwrap();
    });
}

#[test]
fn a_dropped_queue_runs_what_was_queued() {
    everywhere(|w, submission| {
        for ring_slots in [1024, 8] {
            let app = Gated::new(w, ring_slots);
            let (buffer, queue) = (app.buffer(), app.gated(submission));
            let between = app.device.fence(0);
            for number in 1..=50u32 {
                queue.execute(&[&app.fill(&buffer, number)]).unwrap();
                queue.signal(&app.done, number.into()).unwrap();
                queue.wait(&between, number.into()).unwrap();
            }
            drop(queue);
            // Calls of the device look at queues without handles.
            let other = app.queue(submission);
            app.gate.signal(1).unwrap();
            for number in 1..=50 {
                app.done.wait(number.into()).unwrap();
                assert_eq!(first_word(&buffer), number, "{submission}, {ring_slots} slots");
                drop(app.buffer());
                between.signal(number.into()).unwrap();
            }
            other.signal(&app.done, 99).unwrap();
            app.done.wait(99).unwrap();
            assert_eq!(app.device.removed_reason(), None);
        }
    });
}

/// Counts the kernel's queues of this model that have ended since the last call.
fn queues_ended(w: &World, submission: Submission) -> usize {
    let end = match submission {
        Submission::Packet => "DestroyContext",
        Submission::Hardware | Submission::User => "DestroyHwQueue",
    };
    w.driver.take_names().into_iter().filter(|name| *name == end).count()
}

#[test]
fn a_dropped_queue_ends_when_its_work_is_complete() {
    for submission in Submission::ALL {
        world().run(move |w| {
            let app = Gated::new(w, 1024);
            queues_ended(w, submission);
            drop(app.queue(submission));
            assert_eq!(queues_ended(w, submission), 1, "{submission}: it had no work");
            let queue = app.gated(submission);
            queue.signal(&app.done, 1).unwrap();
            drop(queue);
            (0..4).for_each(|_| drop(app.buffer()));
            w.pass(SETTLED_NS);
            (0..4).for_each(|_| drop(app.buffer()));
            assert_eq!(queues_ended(w, submission), 0, "{submission}: it waits");
            app.gate.signal(1).unwrap();
            app.done.wait(1).unwrap();
            w.pass(SETTLED_NS);
            drop(app.buffer());
            assert_eq!(queues_ended(w, submission), 1, "{submission}: its work is complete");
        });
    }
}

#[test]
fn waiting_for_an_idle_device_waits_for_queues_without_handles() {
    everywhere(|w, submission| {
        let app = Gated::new(w, 8);
        let queue = app.gated(submission);
        (1..=50).for_each(|number| queue.signal(&app.done, number).unwrap());
        drop(queue);
        let gate = app.gate.clone();
        let opener = w.platform.spawn("opener", move || gate.signal(1).unwrap());
        app.device.wait_idle().unwrap();
        assert_eq!(app.done.completed_value(), 50, "{submission}");
        opener.join();
    });
}

#[test]
fn a_dropped_queue_at_a_wait_that_nothing_ends_ends_with_its_device() {
    for (submission, ring_slots) in Submission::ALL.into_iter().flat_map(|s| [(s, 1024), (s, 8)]) {
        world().run(move |w| {
            let app = Gated::new(w, ring_slots);
            let queue = app.gated(submission);
            (1..=50).for_each(|number| queue.signal(&app.done, number).unwrap());
            drop(queue);
            let other = app.queue(submission);
            other.signal(&app.done, 99).unwrap();
            other.wait_idle().unwrap();
            w.pass(SETTLED_NS);
            queues_ended(w, submission);
            let report = app.device.teardown_report();
            drop((app, other));
            assert_eq!(
                (queues_ended(w, submission), report.refused()),
                (2, vec![]),
                "{submission}"
            );
        });
    }
}

#[test]
fn the_default_queue_is_another_one_after_its_last_handle() {
    for submission in Submission::ALL {
        world().run(move |w| {
            let app = Gated::new(w, 1024);
            let default = || app.device.default_queue(CommandListType::Copy, submission).unwrap();
            let first = default();
            let number = first.numbers();
            assert_eq!(default().numbers(), number);
            first.wait(&app.gate, 1).unwrap();
            first.signal(&app.done, 1).unwrap();
            drop(first);
            let second = default();
            assert_ne!(second.numbers(), number, "{submission}");
            second.signal(&app.done, 5).unwrap();
            app.done.wait(5).unwrap();
            app.gate.signal(1).unwrap();
            second.wait_idle().unwrap();
            app.device.wait_idle().unwrap();
            assert_eq!(app.done.completed_value(), 1, "{submission}: the first one ran too");
        });
    }
}

#[test]
fn a_machine_can_end_while_a_gate_holds_a_backlog() {
    for submission in Submission::ALL {
        world().run(move |w| {
            let app = Gated::new(w, 8);
            let queue = app.gated(submission);
            (1..=50).for_each(|number| queue.signal(&app.done, number).unwrap());
            let never = w.platform.event(true);
            w.platform.spawn_worker("keeps the queue", move || {
                never.wait();
                drop((queue, app));
            });
        });
    }
}

#[test]
fn a_lost_device_ends_a_backlog_and_calls_say_so() {
    for platform in PLATFORMS {
        on(platform).run_to_report(|w| {
            let app = Gated::new(w, 8);
            let queue = app.gated(Submission::User);
            app.device.execute(&queue, |list| list.copy_unchecked(0x10, 0x20, 64));
            (1..=50).for_each(|number| queue.signal(&app.done, number).unwrap());
            app.gate.signal(1).unwrap();
            let lost = app.done.wait(50).unwrap_err();
            assert!(matches!(lost, Error::DeviceRemoved(_)), "{lost}");
            for lost in [queue.wait_idle(), queue.signal(&app.done, 51), queue.wait_idle()] {
                assert!(matches!(lost, Err(Error::DeviceRemoved(_))), "{lost:?}");
            }
        });
    }
}

#[test]
fn a_queue_that_only_reports_its_end_reports_it_with_a_backlog_too() {
    world().run(|w| {
        let app = Gated::new(w, 8);
        let desc = QueueDesc::new(CommandListType::Copy).submission(Submission::User);
        let on_abort = OnAbort::Report;
        let queue = app.device.create_queue_with(desc, QueueOptions { on_abort }).unwrap();
        queue.wait(&app.gate, 1).unwrap();
        (1..=50).for_each(|number| queue.signal(&app.done, number).unwrap());
        w.pass(SETTLED_NS);
        w.disconnect_last_doorbell(&Passive::enter(), DisconnectReason::Abort).unwrap();
        let gone = Err(Error::QueueAborted { queue: "copy".to_owned() });
        assert_eq!(queue.wait_idle(), gone);
        assert_eq!(queue.signal(&app.done, 51), gone);
    });
}

#[test]
fn a_failure_in_the_backlog_is_returned_by_the_next_call_whose_work_is_queued() {
    const BYTES: u64 = 0x1_0000;
    let little = world_with(|config: &mut MachineConfig| config.gpu.local_memory_bytes = 2 * BYTES);
    little.run(|w| {
        let residency = ResidencyChoice::Automatic;
        let options = DeviceOptions { ring_slots: 8, residency, ..DeviceOptions::default() };
        let app = Gated::with(w, options);
        let queue = app.gated(Submission::User);
        (1..=20).for_each(|number| queue.signal(&app.done, number).unwrap());
        let mut list = app.device.create_command_list(CommandListType::Copy);
        for number in 0..3 {
            let desc = BufferDesc::gpu_upload(format!("b{number}"), BYTES);
            list.fill(&app.device.create_buffer(desc).unwrap(), 0, BYTES, 1).unwrap();
        }
        queue.execute(&[&list.close().unwrap()]).unwrap();
        app.gate.signal(1).unwrap();
        app.done.wait(20).unwrap();
        w.pass(SETTLED_NS);
        let late = queue.signal(&app.done, 21).unwrap_err();
        assert!(matches!(late, Error::OverBudget { .. }), "{late}");
        app.done.wait(21).unwrap();
        queue.wait_idle().unwrap();
        assert_eq!(queue.stats().executes, 0, "the list was left out");
    });
}

// spec: ME-042, ME-043
#[test]
fn five_hundred_falling_pulses_lose_no_wait() {
    for (submission, stride_bytes) in Submission::ALL.into_iter().flat_map(|s| [(s, 64), (s, 8)]) {
        // By the CPU and by another engine; with room in the ring and without.
        for (by_engine, ring_slots) in [(false, 1024), (false, 8), (true, 1024), (true, 8)] {
            let strided =
                move |config: &mut MachineConfig| config.driver.fence_stride_bytes = stride_bytes;
            world_with(strided).run(move |w| {
                let app = Gated::new(w, ring_slots);
                let queue = app.gated(submission);
                let pulsing = app.device.queue(CommandListType::Compute, Submission::User);
                let [fence, over] = [(); 2].map(|()| app.device.fence(0));
                for number in 0..500 {
                    queue.wait(&fence, 1_000 - number).unwrap();
                    if by_engine {
                        pulsing.signal(&fence, 1_000 - number).unwrap();
                        pulsing.signal(&fence, 0).unwrap();
                        pulsing.signal(&over, number + 1).unwrap();
                        over.wait(number + 1).unwrap();
                    } else {
                        fence.signal(1_000 - number).unwrap();
                        fence.signal(0).unwrap();
                    }
                }
                queue.signal(&app.done, 1).unwrap();
                // Called after all of them: it waits for another pulse.
                queue.wait(&fence, 400).unwrap();
                queue.signal(&app.done, 2).unwrap();
                app.gate.signal(1).unwrap();
                app.done.wait(1).unwrap();
                w.pass(SETTLED_NS);
                assert_eq!(app.done.completed_value(), 1, "{submission}, stride {stride_bytes}");
                fence.signal(400).unwrap();
                app.done.wait(2).unwrap();
                assert_eq!(w.stats().fence_history_lost, 0);
            });
        }
    }
}

#[test]
fn queued_work_keeps_a_dropped_fence_and_leaves_the_next_one_alone() {
    type Call = fn(&Queue, &Fence) -> Result<(), Error>;
    let calls: [Call; 2] =
        [|queue, dropped| queue.signal(dropped, 9), |queue, dropped| queue.wait(dropped, 9)];
    everywhere(move |w, submission| {
        for (call, ring_slots) in calls.into_iter().flat_map(|call| [(call, 1024), (call, 8)]) {
            let app = Gated::new(w, ring_slots);
            let (queue, signals) = (app.gated(submission), app.gated(submission));
            // Without room in a small ring the call is in the backlog.
            (1..=20).for_each(|number| queue.signal(&app.done, number).unwrap());
            let dropped = app.device.fence(0);
            call(&queue, &dropped).unwrap();
            queue.signal(&app.done, 21).unwrap();
            // Another queue ends the wait.
            signals.signal(&dropped, 9).unwrap();
            drop(dropped);
            let next = app.device.fence(3);
            app.gate.signal(1).unwrap();
            app.done.wait(21).unwrap();
            assert_eq!(next.completed_value(), 3, "{submission}");
        }
    });
}

// spec: NF-107
#[test]
fn a_wait_is_released_with_the_last_handle_of_its_fence() {
    everywhere(|w, submission| {
        for ring_slots in [1024, 8] {
            let app = Gated::new(w, ring_slots);
            let (queue, parked) = (app.gated(submission), app.queue(submission));
            // Without room in a small ring the wait is in the backlog.
            (1..=20).for_each(|number| queue.signal(&app.done, number).unwrap());
            let lonely = app.device.create_fence("lonely", 0).unwrap();
            queue.wait(&lonely, 9).unwrap();
            queue.signal(&app.done, 21).unwrap();
            // The engine or the kernel holds this queue when the fence ends.
            let reached = app.device.fence(0);
            parked.wait(&lonely, 7).unwrap();
            parked.signal(&reached, 1).unwrap();
            if w.platform.is_cooperative() {
                w.pass(SETTLED_NS);
                assert_eq!(reached.completed_value(), 0, "{submission}: the fence has a handle");
            }
            drop(lonely);
            // A fence of the same storage does not satisfy the waits, nor hold them back.
            let next = app.device.fence(0);
            reached.wait(1).unwrap();
            app.gate.signal(1).unwrap();
            queue.wait_idle().unwrap();
            parked.wait_idle().unwrap();
            assert_eq!(app.done.completed_value(), 21, "{submission}");
            assert_eq!(next.completed_value(), 0, "{submission}");
            assert!(app.device.removed_reason().is_none(), "{submission}: no device is lost");
        }
    });
}

// spec: NF-107
#[test]
fn a_dropped_queue_behind_a_dropped_fence_is_not_kept() {
    for submission in Submission::ALL {
        world().run(move |w| {
            let app = Gated::new(w, 64);
            queues_ended(w, submission);
            for _ in 0..100 {
                let (queue, lonely) = (app.queue(submission), app.device.fence(0));
                queue.wait(&lonely, 1).unwrap();
                drop((queue, lonely));
                w.pass(SETTLED_NS);
            }
            // The first look at a queue queues a progress value behind its wait.
            for _ in 0..2 {
                drop(app.buffer());
                w.pass(SETTLED_NS);
            }
            assert_eq!(queues_ended(w, submission), 100, "{submission}");
            app.device.wait_idle().unwrap();
        });
    }
}

#[test]
fn a_wait_for_a_dropped_fence_ends_with_the_signal_that_is_queued_for_it() {
    everywhere(|w, submission| {
        let app = Gated::new(w, 1024);
        let (waits, signals) = (app.queue(submission), app.gated(submission));
        let dropped = app.device.fence(0);
        waits.wait(&dropped, 5).unwrap();
        waits.signal(&app.done, 1).unwrap();
        signals.signal(&dropped, 4).unwrap();
        signals.signal(&dropped, 5).unwrap();
        drop(dropped);
        // The next fences at the same addresses are unchanged by them.
        let next: Vec<Fence> = (0..4).map(|_| app.device.fence(9)).collect();
        if w.platform.is_cooperative() {
            w.pass(SETTLED_NS);
            assert_eq!(app.done.completed_value(), 0, "{submission}");
        }
        app.gate.signal(1).unwrap();
        app.done.wait(1).unwrap();
        assert!(next.iter().all(|fence| fence.completed_value() == 9));
    });
}

#[test]
fn dropped_fences_end_when_their_queue_is_past_them() {
    for submission in Submission::ALL {
        world().run(move |w| {
            let app = Gated::new(w, 64);
            let queue = app.queue(submission);
            let ended = || {
                let calls = w.driver.take_names().into_iter();
                calls.filter(|name| *name == "DestroyNativeFence").count()
            };
            ended();
            for number in 0..500 {
                let fence = app.device.fence(0);
                queue.signal(&fence, 1).unwrap();
                queue.wait(&fence, 1).unwrap();
                if number % 50 == 0 {
                    w.pass(SETTLED_NS);
                }
            }
            let before = ended();
            assert!(before > 200, "{submission}: {before} of 500 ended while the queue went on");
            queue.wait_idle().unwrap();
            assert_eq!(before + ended(), 500, "{submission}: none is held by an idle queue");
        });
    }
}

#[test]
fn queued_lists_hold_their_buffers() {
    everywhere(|w, submission| {
        for ring_slots in [1024, 8] {
            let app = Gated::new(w, ring_slots);
            let (queue, kept) = (app.gated(submission), app.buffer());
            for number in 1..=40 {
                let dropped = app.buffer();
                queue.execute(&[&app.fill(&dropped, number)]).unwrap();
            }
            queue.execute(&[&app.fill(&kept, 41)]).unwrap();
            queue.signal(&app.done, 1).unwrap();
            // What was dropped would be given out again here.
            let others: Vec<Buffer> = (0..40).map(|_| app.buffer()).collect();
            app.gate.signal(1).unwrap();
            app.done.wait(1).unwrap();
            assert_eq!((first_word(&kept), app.device.removed_reason()), (41, None));
            assert!(others.iter().all(|buffer| first_word(buffer) == 0), "{submission}");
        }
    });
}

/// A queue that is held by a wait in its command buffer, and one that is held in its ring.
const HELD_BY_HARDWARE: [Submission; 2] = [Submission::Hardware, Submission::User];

#[test]
fn a_queue_that_an_engine_holds_goes_on_when_its_fence_has_moved() {
    for submission in HELD_BY_HARDWARE {
        for platform in PLATFORMS {
            let local = |config: &mut MachineConfig| config.driver.local_monitored_values = true;
            setup(local).on(platform()).start().run(move |w| {
                let app = Gated::new(w, 64);
                let (queue, seen) = (app.gated(submission), app.buffer());
                queue.execute(&[&app.fill(&seen, 7)]).unwrap();
                queue.signal(&app.done, 1).unwrap();
                if w.platform.is_cooperative() {
                    w.pass(SETTLED_NS);
                    assert_eq!(app.done.completed_value(), 0, "{submission}: it is held");
                }
                assert!(w.adapter().trim_fence_storage(0).unwrap() > 0, "{submission}: moved");
                app.gate.signal(1).unwrap();
                app.done.wait(1).unwrap();
                assert_eq!(first_word(&seen), 7);
            });
        }
    }
}

#[test]
fn a_queue_that_an_engine_holds_ends_with_its_device_and_costs_no_other() {
    for submission in HELD_BY_HARDWARE {
        world().run(move |w| {
            let [lost, kept] = [(); 2].map(|()| Gated::new(w, 64));
            let held = [&lost, &kept].map(|app| {
                let queue = app.gated(submission);
                queue.signal(&app.done, 1).unwrap();
                queue
            });
            w.pass(SETTLED_NS);
            let culprit = lost.queue(submission);
            lost.device.execute(&culprit, |list| list.hang());
            let why = lost.done.wait(1).unwrap_err();
            assert!(matches!(why, Error::DeviceRemoved(_)), "{submission}: {why}");
            assert!(matches!(held[0].wait_idle(), Err(Error::DeviceRemoved(_))), "{submission}");
            drop((culprit, lost));
            kept.gate.signal(1).unwrap();
            kept.done.wait(1).unwrap();
            held[1].wait_idle().unwrap();
            assert_eq!(kept.device.removed_reason(), None, "{submission}");
        });
    }
}
