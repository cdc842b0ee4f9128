//! User-mode queues that lose their doorbell for good while the device lives: made anew as they
//! were told, with what had not run submitted again, once; and what cannot be had any more
//! reported.

use std::sync::Arc;
use tidegate::calls::Status;
use tidegate::d3d12::{
    Buffer, BufferDesc, ClosedList, CommandListType, Device, DeviceOptions, Error, Fence,
    FenceChoice, Heap, OnAbort, Queue, QueueDesc, QueueOptions, ResidencyChoice,
};
use tidegate::ddi::{DisconnectReason, Passive};
use tidegate::gpu_abi::DOORBELL_VALUE_WORD;
use tidegate::{MachineConfig, Submission};
use tidegate_testbed::{World, world, world_with};

const SETTLED_NS: u64 = 100_000;

/// A process with one user-mode copy queue.
struct App {
    device: Device,
    queue: Queue,
    fence: Fence,
}

fn app(w: &World, on_abort: OnAbort) -> App {
    let options = DeviceOptions { ring_slots: 16, ..DeviceOptions::default() };
    let device = w.machine.device(options).unwrap();
    let desc = QueueDesc {
        name: "upload".to_owned(),
        ..QueueDesc::new(CommandListType::Copy, Submission::User)
    };
    let queue = device.create_queue_with(desc, QueueOptions { on_abort }).unwrap();
    let fence = device.create_fence("fence", 0).unwrap();
    App { device, queue, fence }
}

impl App {
    fn buffer(&self) -> Buffer {
        let desc = BufferDesc { name: "b".into(), bytes: 8, heap: Heap::Readback };
        self.device.create_buffer(desc).unwrap()
    }

    /// Keeps the engine busy, and then fills the buffer.
    fn list(&self, ns: u64, buffer: &Buffer, value: u32) -> ClosedList {
        let mut list = self.device.create_command_list(CommandListType::Copy);
        list.label(&format!("list {value}")).unwrap();
        list.timed(ns).unwrap();
        list.fill(buffer, 0, 8, value).unwrap();
        list.close().unwrap()
    }
}

/// The driver takes the doorbell made last away for good.
fn abort(w: &World) {
    let calls = w.calls();
    let doorbell = &calls.doorbells.last().unwrap().0;
    let queue = calls.queues.iter().rev().find(|(_, driver)| *driver == doorbell.hw_queue).unwrap();
    let callbacks = w.hooked.start_info().callbacks;
    let (queue, doorbell) = (queue.0.os_handle, doorbell.os_handle);
    callbacks
        .disconnect_doorbell(&Passive::enter(), queue, doorbell, DisconnectReason::Abort)
        .unwrap();
}

fn value(buffer: &Buffer) -> u32 {
    let mut bytes = [0; 4];
    buffer.read(0, &mut bytes).unwrap();
    u32::from_le_bytes(bytes)
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
            let gate = app.device.create_fence("gate", 0).unwrap();
            let buffers: Vec<Buffer> = (0..4).map(|_| app.buffer()).collect();
            let lists: Vec<ClosedList> =
                buffers.iter().zip(1..).map(|(b, n)| app.list(10, b, n)).collect();
            // Two have run, and the queue stands at a wait with work behind it.
            app.queue.execute(&[&lists[0]]).unwrap();
            app.queue.signal(&app.fence, 1).unwrap();
            app.fence.wait(1).unwrap();
            app.queue.wait(&gate, 1).unwrap();
            app.queue.execute(&[&lists[1], &lists[2]]).unwrap();
            app.queue.signal(&app.fence, 2).unwrap();
            w.pass(SETTLED_NS);
            abort(w);
            assert_eq!(app.queue.submission(), Submission::User, "nothing was submitted since");
            // The next submission notices, and stands behind what was there.
            app.queue.execute(&[&lists[3]]).unwrap();
            app.queue.signal(&app.fence, 3).unwrap();
            assert_eq!((app.queue.submission(), app.queue.stats().recreations), (becomes, 1));
            w.pass(SETTLED_NS);
            assert_eq!((app.fence.completed_value(), value(&buffers[1])), (1, 0), "the wait holds");
            gate.signal(1).unwrap();
            app.fence.wait(3).unwrap();
            w.pass(SETTLED_NS);
            assert_eq!(buffers.iter().map(value).collect::<Vec<_>>(), [1, 2, 3, 4]);
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
        let little = world_with(|config| {
            config.gpu.local_memory_bytes = 2 * BYTES;
        });
        little.run(move |w| {
            let residency = ResidencyChoice::Automatic;
            let options = DeviceOptions { ring_slots: 16, residency, ..DeviceOptions::default() };
            let device = w.machine.device(options).unwrap();
            let queue = |name: &str, list_type| {
                let name = name.to_owned();
                let desc = QueueDesc { name, ..QueueDesc::new(list_type, Submission::User) };
                device.create_queue_with(desc, QueueOptions { on_abort }).unwrap()
            };
            let (other, waits) =
                (queue("other", CommandListType::Compute), queue("waits", CommandListType::Copy));
            let gate = device.create_fence("gate", 0).unwrap();
            let buffers: Vec<Buffer> = (0..6)
                .map(|n| BufferDesc { name: format!("b{n}"), bytes: BYTES, heap: Heap::Default })
                .map(|desc| device.create_buffer(desc).unwrap())
                .collect();
            let list = |n: usize, list_type| {
                let mut list = device.create_command_list(list_type);
                list.fill(&buffers[n], 0, BYTES, n as u32 + 1).unwrap();
                list.close().unwrap()
            };
            waits.wait(&gate, 1).unwrap();
            for n in 0..3 {
                waits.execute(&[&list(n, CommandListType::Copy)]).unwrap();
            }
            w.pass(SETTLED_NS);
            abort(w);
            waits.execute(&[&list(3, CommandListType::Copy)]).unwrap();
            assert_eq!((waits.submission(), waits.stats().recreations), (becomes, 1));
            // Other work that needs the same room does not evict the buffers of pending work.
            for n in 4..6 {
                other.execute(&[&list(n, CommandListType::Compute)]).unwrap();
            }
            w.pass(100 * SETTLED_NS);
            gate.signal(1).unwrap();
            waits.wait_idle().unwrap();
            other.wait_idle().unwrap();
            assert_eq!(buffers.iter().map(value).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
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
            assert_eq!(
                lost,
                Error::WorkLost { queue: "upload".to_owned(), list: Some("list 1".to_owned()) }
            );
            assert!(lost.to_string().contains("'list 1' was interrupted"), "{lost}");
            assert_eq!(app.queue.submission(), becomes);
            // All the rest ran, what the failed call was given too.
            app.fence.wait(2).unwrap();
            assert_eq!((value(&first), value(&second)), (0, 2));
            app.queue.execute(&[&long]).unwrap();
            app.queue.wait_idle().unwrap();
            assert_eq!(value(&first), 1);
        });
    }
}

#[test]
fn waiting_until_idle_notices_as_well() {
    for (on_abort, becomes) in ANEW {
        world().run(move |w| {
            let app = app(w, on_abort);
            let gate = app.device.create_fence("gate", 0).unwrap();
            let buffer = app.buffer();
            app.queue.wait(&gate, 1).unwrap();
            app.queue.execute(&[&app.list(10, &buffer, 1)]).unwrap();
            w.pass(SETTLED_NS);
            abort(w);
            gate.signal(1).unwrap();
            app.queue.wait_idle().unwrap();
            assert_eq!((value(&buffer), app.queue.submission()), (1, becomes));
        });
    }
}

#[test]
fn a_thread_that_waits_for_the_old_queue_waits_on_for_the_new_one() {
    for (on_abort, becomes) in ANEW {
        world().run(move |w| {
            let app = Arc::new(app(w, on_abort));
            let gate = app.device.create_fence("gate", 0).unwrap();
            let buffer = app.buffer();
            app.queue.wait(&gate, 1).unwrap();
            app.queue.execute(&[&app.list(10, &buffer, 5)]).unwrap();
            let ends = w.platform.mutex("ends", 0u32);
            let ends = Arc::new(ends);
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
            // Making the queue anew ended the progress fence of the old one, which the first thread
            // sleeps on.
            w.pass(SETTLED_NS);
            assert_eq!(*ends.lock(), 1, "the gate holds the new queue as it held the old one");
            gate.signal(1).unwrap();
            first.join();
            app.fence.wait(40).unwrap();
            app.queue.wait_idle().unwrap();
            assert_eq!(value(&buffer), 6);
        });
    }
}

#[test]
fn a_connect_that_fails_makes_the_queue_anew() {
    for (on_abort, becomes) in ANEW {
        world().run(move |w| {
            let app = app(w, on_abort);
            let buffer = app.buffer();
            w.hooked.fail_next("ConnectDoorbell", Status::NO_MEMORY);
            app.queue.execute(&[&app.list(10, &buffer, 3)]).unwrap();
            app.queue.wait_idle().unwrap();
            assert_eq!((value(&buffer), app.queue.submission()), (3, becomes));
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
        assert_eq!(value(&buffer), 1);
    });
}

#[test]
fn a_lost_device_is_no_reason_to_make_a_queue_anew() {
    for on_abort in [OnAbort::RecreateUser, OnAbort::RecreateHardware] {
        world().run_to_report(move |w| {
            let app = app(w, on_abort);
            let mut bad = app.device.create_command_list(CommandListType::Copy);
            bad.copy_unchecked(0x10, 0x20, 64).unwrap();
            app.queue.execute(&[&bad.close().unwrap()]).unwrap();
            w.pass(SETTLED_NS);
            let lost = app.queue.signal(&app.fence, 1).unwrap_err();
            assert!(matches!(lost, Error::DeviceRemoved(_)), "{lost}");
            assert_eq!(app.queue.stats().recreations, 0);
        });
    }
}

#[test]
// spec: NF-143
fn a_queue_made_anew_takes_native_fences_only() {
    world().run(|w| {
        let options = DeviceOptions { fences: FenceChoice::Monitored, ..DeviceOptions::default() };
        let device = w.machine.device(options).unwrap();
        let desc = QueueDesc {
            name: "upload".to_owned(),
            ..QueueDesc::new(CommandListType::Copy, Submission::User)
        };
        let queue = device.create_queue(desc).unwrap();
        let fence = device.create_fence("old", 0).unwrap();
        let refused = queue.signal(&fence, 1).unwrap_err();
        assert!(
            matches!(&refused, Error::MonitoredFence { fence, .. } if fence == "old"),
            "{refused}"
        );
        assert!(refused.to_string().contains("native fences only"), "{refused}");
        // Without being told, fences are native where a queue may need it.
        let native = w.machine.device(DeviceOptions::default()).unwrap();
        assert!(native.makes_native_fences());
    });
}

#[test]
fn the_page_of_a_dead_doorbell_rings_no_queue() {
    let one = |config: &mut MachineConfig| {
        config.driver.doorbells = tidegate::kmd::DoorbellModel::Global;
    };
    world_with(one).run(|w| {
        let queue = w.connected_queue(0);
        let page = queue.doorbell.mapping.page();
        abort(w);
        page.store(DOORBELL_VALUE_WORD, queue.stale(1));
        w.pass(SETTLED_NS);
        assert_eq!(queue.queue.progress_value.load(), 0);
    });
}
