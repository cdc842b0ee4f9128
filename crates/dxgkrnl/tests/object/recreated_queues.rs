//! User-mode queues that lose their doorbell for good while the device lives. Each is recreated as
//! its options say. Work that had not run is submitted again, once. Lost work is reported.

use tidegate_testbed::prelude::*;

const SETTLED_NS: u64 = 100_000;

/// A user-mode copy queue.
fn upload() -> QueueDesc {
    let desc = QueueDesc::new(CommandListType::Copy).submission(Submission::User);
    QueueDesc { name: "upload".to_owned(), ..desc }
}

/// A process with one user-mode copy queue.
struct Uploader {
    device: Device,
    queue: Queue,
    fence: Fence,
}

fn app(w: &World, on_abort: OnAbort) -> Uploader {
    let options = DeviceOptions { ring_slots: 16, ..DeviceOptions::default() };
    let device = w.machine.device(options).unwrap();
    let queue = device.create_queue_with(upload(), QueueOptions { on_abort }).unwrap();
    let fence = device.fence(0);
    Uploader { device, queue, fence }
}

impl Uploader {
    fn buffer(&self) -> Buffer {
        self.device.readback(8)
    }

    /// Keeps the engine busy, and then fills the buffer.
    fn list(&self, ns: u64, buffer: &Buffer, value: u32) -> ClosedList {
        self.device.list(CommandListType::Copy, |list| {
            list.label(&format!("list {value}"))?;
            list.timed(ns)?;
            list.fill(buffer, 0, 8, value)
        })
    }
}

/// The driver ends the newest doorbell for good.
fn abort(w: &World) {
    w.disconnect_last_doorbell(&Passive::enter(), DisconnectReason::Abort).unwrap();
}

const ANEW: [(OnAbort, Submission); 2] =
    [(OnAbort::RecreateUser, Submission::User), (OnAbort::RecreateHardware, Submission::Hardware)];

#[test]
fn the_default_is_another_user_mode_queue() {
    assert_eq!(QueueOptions::default().on_abort, OnAbort::RecreateUser);
}

#[test]
// spec: UMS-041, UMS-082, UMS-151
fn what_had_not_run_runs_once_and_in_order_on_the_new_queue() {
    for (on_abort, becomes) in ANEW {
        let w = world().run(move |w| {
            let app = app(w, on_abort);
            let gate = app.device.fence(0);
            let buffers: Vec<Buffer> = (0..4).map(|_| app.buffer()).collect();
            let lists: Vec<ClosedList> =
                buffers.iter().zip(1..).map(|(b, n)| app.list(10, b, n)).collect();
            // Two have run, and the queue is at a wait with work behind it.
            app.queue.execute(&[&lists[0]]).unwrap();
            app.queue.signal(&app.fence, 1).unwrap();
            app.fence.wait(1).unwrap();
            app.queue.wait(&gate, 1).unwrap();
            app.queue.execute(&[&lists[1], &lists[2]]).unwrap();
            app.queue.signal(&app.fence, 2).unwrap();
            w.pass(SETTLED_NS);
            abort(w);
            assert_eq!(app.queue.submission(), Submission::User, "nothing was submitted since");
            // The next submission notices, and is behind what was there.
            app.queue.execute(&[&lists[3]]).unwrap();
            app.queue.signal(&app.fence, 3).unwrap();
            assert_eq!((app.queue.submission(), app.queue.stats().recreations), (becomes, 1));
            w.pass(SETTLED_NS);
            assert_eq!(
                (app.fence.completed_value(), first_word(&buffers[1])),
                (1, 0),
                "the wait holds"
            );
            gate.signal(1).unwrap();
            app.fence.wait(3).unwrap();
            w.pass(SETTLED_NS);
            assert_eq!(buffers.iter().map(first_word).collect::<Vec<_>>(), [1, 2, 3, 4]);
            let stats = w.gpu_stats();
            assert_eq!(stats.of(&app.queue.numbers()).packets, 4, "each command buffer ran once");
            // And it goes on as a queue does.
            for round in 4..40 {
                app.queue.execute(&[&lists[0]]).unwrap();
                app.queue.signal(&app.fence, round).unwrap();
            }
            app.fence.wait(39).unwrap();
            assert_eq!(w.adapter().bug_checks(), []);
        });
        assert_eq!(w.machine.driver().violations(), []);
    }
}

#[test]
fn what_is_submitted_again_finds_its_memory_where_there_is_too_little_of_it() {
    const BYTES: u64 = 0x1_0000;
    for (on_abort, becomes) in ANEW {
        let little = world_with(|config| config.gpu.local_memory_bytes = 2 * BYTES);
        little.run(move |w| {
            let residency = ResidencyChoice::Automatic;
            let options = DeviceOptions { ring_slots: 16, residency, ..DeviceOptions::default() };
            let device = w.machine.device(options).unwrap();
            let [other, waits] = [CommandListType::Compute, CommandListType::Copy].map(|of| {
                let desc = QueueDesc::new(of).submission(Submission::User);
                device.create_queue_with(desc, QueueOptions { on_abort }).unwrap()
            });
            let gate = device.fence(0);
            let buffers: Vec<Buffer> = (0..6)
                .map(|n| BufferDesc::gpu_upload(format!("b{n}"), BYTES))
                .map(|desc| device.create_buffer(desc).unwrap())
                .collect();
            let fill = |queue: &Queue, n: usize| {
                device.execute(queue, |list| list.fill(&buffers[n], 0, BYTES, n as u32 + 1));
            };
            waits.wait(&gate, 1).unwrap();
            (0..3).for_each(|n| fill(&waits, n));
            w.pass(SETTLED_NS);
            abort(w);
            fill(&waits, 3);
            assert_eq!((waits.submission(), waits.stats().recreations), (becomes, 1));
            // Other work that needs the same room does not evict the buffers of pending work.
            (4..6).for_each(|n| fill(&other, n));
            w.pass(100 * SETTLED_NS);
            gate.signal(1).unwrap();
            waits.wait_idle().unwrap();
            other.wait_idle().unwrap();
            assert_eq!(buffers.iter().map(first_word).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
        });
    }
}

#[test]
// spec: UMS-151
fn a_command_buffer_in_the_middle_is_reported_and_not_run_twice() {
    for (on_abort, becomes) in ANEW {
        world().run(move |w| {
            let app = app(w, on_abort);
            let (first, second) = (app.buffer(), app.buffer());
            let (long, short) = (app.list(10_000_000, &first, 1), app.list(10, &second, 2));
            app.queue.execute(&[&long, &short]).unwrap();
            app.queue.signal(&app.fence, 1).unwrap();
            w.pass(SETTLED_NS);
            abort(w);
            let lost = app.queue.signal(&app.fence, 2).unwrap_err();
            let (queue, list) = ("upload".to_owned(), Some("list 1".to_owned()));
            assert_eq!(lost, Error::WorkLost { queue, list });
            assert!(lost.to_string().contains("'list 1' was interrupted"), "{lost}");
            assert_eq!(app.queue.submission(), becomes);
            // All the rest ran, what the failed call was given too.
            app.fence.wait(2).unwrap();
            assert_eq!((first_word(&first), first_word(&second)), (0, 2));
            app.queue.execute(&[&long]).unwrap();
            app.queue.wait_idle().unwrap();
            assert_eq!(first_word(&first), 1);
        });
    }
}

#[test]
fn a_wait_until_idle_recreates_the_queue_too() {
    for (on_abort, becomes) in ANEW {
        world().run(move |w| {
            let app = app(w, on_abort);
            let gate = app.device.fence(0);
            let buffer = app.buffer();
            app.queue.wait(&gate, 1).unwrap();
            app.queue.execute(&[&app.list(10, &buffer, 1)]).unwrap();
            w.pass(SETTLED_NS);
            abort(w);
            gate.signal(1).unwrap();
            app.queue.wait_idle().unwrap();
            assert_eq!((first_word(&buffer), app.queue.submission()), (1, becomes));
        });
    }
}

#[test]
fn a_thread_that_waits_for_the_old_queue_waits_on_for_the_new_one() {
    for (on_abort, becomes) in ANEW {
        world().run(move |w| {
            let app = Arc::new(app(w, on_abort));
            let gate = app.device.fence(0);
            let buffer = app.buffer();
            app.queue.wait(&gate, 1).unwrap();
            app.queue.execute(&[&app.list(10, &buffer, 5)]).unwrap();
            let ends = Arc::new(w.platform.mutex("ends", 0u32));
            // One thread waits for an idle queue. Another one queues more than the ring holds.
            let (idle, idle_ends) = (app.clone(), ends.clone());
            let first = w.platform.spawn("idle", move || {
                idle.queue.wait_idle().unwrap();
                *idle_ends.lock() += 1;
            });
            let (full, full_ends) = (app.clone(), ends.clone());
            let second = w.platform.spawn("full", move || {
                for round in 1..=40 {
                    full.queue.signal(&full.fence, round).unwrap();
                }
                *full_ends.lock() += 1;
            });
            second.join();
            w.pass(SETTLED_NS);
            assert_eq!(*ends.lock(), 1);
            abort(w);
            app.queue.execute(&[&app.list(10, &buffer, 6)]).unwrap();
            assert_eq!(app.queue.submission(), becomes);
            // The recreation ended the progress fence of the old queue, for which the first thread
            // waits.
            w.pass(SETTLED_NS);
            assert_eq!(*ends.lock(), 1, "the gate holds the new queue as it held the old one");
            gate.signal(1).unwrap();
            first.join();
            app.fence.wait(40).unwrap();
            app.queue.wait_idle().unwrap();
            assert_eq!(first_word(&buffer), 6);
        });
    }
}

#[test]
fn a_connect_that_fails_makes_the_queue_anew() {
    for (on_abort, becomes) in ANEW {
        world().run(move |w| {
            let app = app(w, on_abort);
            let buffer = app.buffer();
            w.hooked.fail_next(Entry::ConnectDoorbell, Status::NO_MEMORY);
            app.queue.execute(&[&app.list(10, &buffer, 3)]).unwrap();
            app.queue.wait_idle().unwrap();
            assert_eq!((first_word(&buffer), app.queue.submission()), (3, becomes));
        });
    }
}

#[test]
fn an_abort_is_reported_to_a_queue_that_chose_the_report() {
    world().run(|w| {
        let app = app(w, OnAbort::Report);
        let buffer = app.buffer();
        app.queue.execute(&[&app.list(10, &buffer, 1)]).unwrap();
        app.queue.wait_idle().unwrap();
        abort(w);
        let gone = Err(Error::QueueAborted { queue: "upload".to_owned() });
        assert_eq!(app.queue.execute(&[&app.list(10, &buffer, 2)]), gone);
        assert_eq!(app.queue.signal(&app.fence, 1), gone);
        assert_eq!(first_word(&buffer), 1);
    });
}

#[test]
fn a_lost_device_is_no_reason_to_make_a_queue_anew() {
    for on_abort in [OnAbort::RecreateUser, OnAbort::RecreateHardware] {
        world().run_to_report(move |w| {
            let app = app(w, on_abort);
            app.device.execute(&app.queue, |list| list.copy_unchecked(0x10, 0x20, 64));
            w.pass(SETTLED_NS);
            let lost = app.queue.signal(&app.fence, 1).unwrap_err();
            assert!(matches!(lost, Error::DeviceRemoved(_)), "{lost}");
            assert_eq!(app.queue.stats().recreations, 0);
        });
    }
}

#[test]
// spec: NF-143
fn a_recreated_queue_takes_native_fences_only() {
    world().run(|w| {
        let options = DeviceOptions { fences: FenceChoice::Monitored, ..DeviceOptions::default() };
        let device = w.machine.device(options).unwrap();
        let queue = device.create_queue(upload()).unwrap();
        let fence = device.create_fence("old", 0).unwrap();
        let refused = queue.signal(&fence, 1).unwrap_err();
        assert!(
            matches!(&refused, Error::MonitoredFence { fence, .. } if fence == "old"),
            "{refused}"
        );
        assert!(refused.to_string().contains("needs native fences"), "{refused}");
        // By default, fences are native where a queue may need it.
        let native = w.machine.device(DeviceOptions::default()).unwrap();
        assert!(native.makes_native_fences());
    });
}

#[test]
fn the_page_of_a_dead_doorbell_rings_no_queue() {
    let one =
        |config: &mut MachineConfig| config.driver.doorbells = tidegate::kmd::DoorbellModel::Global;
    world_with(one).run(|w| {
        let queue = w.connected_queue(0);
        let page = queue.doorbell.mapping.page();
        abort(w);
        page.store(DOORBELL_VALUE_WORD, queue.stale(1));
        w.pass(SETTLED_NS);
        assert_eq!(queue.queue.progress_value.load(), 0);
    });
}
