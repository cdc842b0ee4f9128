//! User-mode queues and their doorbells through the kernel's calls: creation, connection,
//! victimisation, and the end of a doorbell for good.

use tidegate::calls::CreateDoorbell;
use tidegate::dxgkrnl::ProcessKind;
use tidegate_testbed::prelude::*;

/// All connected queues share this many doorbells.
fn with_doorbells(physical: u32) -> World {
    world_with(move |config| doorbells(config, DoorbellModel::Dedicated { physical }))
}

fn doorbells(config: &mut MachineConfig, model: DoorbellModel) {
    config.driver.doorbells = model;
}

/// The kernel's handles of the queue and the doorbell made last.
fn os_handles(w: &World) -> (OsHandle, OsHandle) {
    let calls = w.calls();
    (calls.queues.last().unwrap().0.os_handle, calls.doorbells.last().unwrap().0.os_handle)
}

/// The driver disconnects a doorbell, of its own accord.
fn disconnect(
    w: &World,
    (queue, doorbell): (OsHandle, OsHandle),
    reason: DisconnectReason,
) -> Result<(), Status> {
    w.hooked.start_info().callbacks.disconnect_doorbell(&Passive::enter(), queue, doorbell, reason)
}

const SETTLED_NS: u64 = 100_000;

// spec: UMS-002
#[test]
fn both_kinds_of_queue_work_beside_each_other() {
    world().run(|w| {
        let (fence, user, kernel_mode) = (w.native(0), w.connected_queue(0), w.hw_queue_on(0));
        for round in 0..5 {
            user.wait(&fence, 2 * round).signal(&fence, 2 * round + 1);
            let [user_done, done] = [1, 2].map(|after| at(&fence, 2 * round + after));
            w.kernel.submit_wait_to_hw_queue(kernel_mode.handle, &user_done).unwrap();
            w.submit(&kernel_mode, round + 1, &[Command::Timed { ns: 10 }]);
            w.kernel.submit_signal_to_hw_queue(kernel_mode.handle, &done).unwrap();
        }
        w.wait(fence.handle, 10).unwrap();
    });
}

// spec: UMS-010, UMS-011, UMS-012
#[test]
fn only_nodes_that_state_it_take_user_mode_queues() {
    let w = world_with(|config| config.driver.user_mode_nodes = !(1 << 1));
    let offered: Vec<bool> =
        w.kernel.query_adapter_info().nodes.iter().map(|n| n.user_mode_submission).collect();
    assert_eq!(offered, [true, false, true]);
    for (node, offered) in (0..).zip(offered) {
        w.driver.take();
        let made = w.try_hw_queue(node, true);
        assert_eq!(made.as_ref().err(), (!offered).then_some(&Status::NOT_SUPPORTED));
        let called = w.driver.take_names();
        let created = called.iter().filter(|name| **name == "CreateHwQueue").count();
        assert_eq!(created, usize::from(offered), "{called:?}");
        assert!(w.try_hw_queue(node, false).is_ok());
    }
    drop(w);
    let w = world_with(|config| config.kernel.user_mode_submission = FeatureSetting::OFF);
    assert_eq!(w.try_hw_queue(0, true).err(), Some(Status::NOT_SUPPORTED), "the feature is off");
}

// spec: UMS-018, UMS-025, UMS-027, UMS-028
#[test]
fn a_new_doorbell_is_not_connected_and_rings_no_queue() {
    let numbers = [
        DoorbellStatus::Connected,
        DoorbellStatus::ConnectedNotify,
        DoorbellStatus::DisconnectedRetry,
        DoorbellStatus::DisconnectedAbort,
    ];
    assert_eq!(numbers.map(|s| s as u64), [0, 1, 2, 3]);
    world().run(|w| {
        let (queue, fence) = (w.user_queue(0), w.native(0));
        let Doorbell { status: seen, last_queued, .. } = &queue.doorbell;
        assert_eq!((seen.load(), last_queued.load()), (2, 0), "one word, its high half 0");
        assert_eq!(seen.store(0), "read only");
        assert!(!w.driver.take_names().contains(&"ConnectDoorbell"));
        queue.signal(&fence, 1);
        w.pass(SETTLED_NS);
        assert_eq!((fence.value.load(), queue.doorbell.status.load()), (0, 2));
        queue.connect().unwrap();
        queue.ring();
        w.pass(SETTLED_NS);
        assert_eq!((fence.value.load(), queue.doorbell.status.load()), (1, 0));
    });
}

// spec: UMS-019, UMS-026, UMS-031, UMS-099
#[test]
fn connecting_shows_the_hardware_behind_the_same_address() {
    let w = world();
    let queue = w.user_queue(0);
    let dummy = queue.doorbell.mapping.page();
    w.driver.take();
    queue.connect().unwrap();
    let (shown, driver) = (queue.doorbell.mapping.page(), w.calls().doorbells[0].1);
    assert!(!shown.same(&dummy), "the mapping that the process holds shows another page");
    assert_eq!(queue.status(), DoorbellStatus::Connected);
    // What the driver names for a doorbell that is connected is what it has.
    let named = tidegate::ddi::UserModeSubmissionDdi::connect_doorbell(
        &*w.hooked,
        &Passive::enter(),
        driver,
        Default::default(),
    )
    .unwrap();
    assert!(named.page.same(&shown));
    w.driver.take();
    queue.connect().unwrap();
    assert!(queue.doorbell.mapping.page().same(&shown));
    assert_eq!(w.driver.take_names(), Vec::<&str>::new(), "connected already: nothing to be done");
    assert_eq!(w.kernel.connect_doorbell(Handle(0x40)).err(), Some(Status::INVALID_PARAMETER));
}

// spec: UMS-020, UMS-034, UMS-037
#[test]
fn destroying_a_doorbell_leaves_ring_and_control() {
    world().run(|w| {
        let (queue, fence) = (w.connected_queue(0), w.native(0));
        queue.signal_and_wait(&fence, 1);
        w.driver.take();
        w.kernel.destroy_doorbell(queue.doorbell.handle).unwrap();
        assert_eq!(w.driver.take_names(), ["DestroyDoorbell"]);
        let again = w.kernel.destroy_doorbell(queue.doorbell.handle);
        assert_eq!(again, Err(Status::INVALID_PARAMETER));
        // The memory is the process's as before, and serves another doorbell.
        queue.put(&signal_packet(&fence, 2, u32::MAX));
        let again = w.kernel.create_doorbell(queue.doorbell_args()).unwrap();
        let connection = w.kernel.connect_doorbell(again.handle).unwrap();
        again.mapping.store(DOORBELL_VALUE_WORD, 2);
        connection.hint.rung();
        w.wait(fence.handle, 2).unwrap();
        w.kernel.destroy_doorbell(again.handle).unwrap();
        w.kernel.destroy_allocation(queue.ring.handle).unwrap();
        w.kernel.destroy_allocation(queue.control.handle).unwrap();
    });
}

// spec: UMS-035
#[test]
fn a_process_cannot_pull_ring_and_control_away() {
    world().run(|w| {
        let (queue, fence) = (w.connected_queue(0), w.native(0));
        let memory = w.hooked.start_info().system_memory;
        let pages = w.calls().pages;
        let ring = pages.iter().rfind(|(at, _)| memory.resolve(*at).is_some()).unwrap();
        w.kernel.destroy_allocation(queue.ring.handle).unwrap();
        w.kernel.destroy_allocation(queue.control.handle).unwrap();
        assert!(memory.resolve(ring.0).is_some());
        queue.signal_and_wait(&fence, 1);
    });
}

// spec: UMS-021
#[test]
fn a_notification_reaches_the_driver_and_sets_the_queue_going() {
    world_with(|config| config.driver.notify_submissions = true).run(|w| {
        let (queue, fence) = (w.connected_queue(0), w.native(0));
        assert_eq!(queue.status(), DoorbellStatus::ConnectedNotify);
        queue.put(&signal_packet(&fence, 1, u32::MAX));
        w.pass(SETTLED_NS);
        assert_eq!(fence.value.load(), 0);
        w.driver.take();
        w.kernel.notify_work_submission(queue.doorbell.handle).unwrap();
        assert_eq!(w.driver.take_names(), ["NotifyWorkSubmission"]);
        w.wait(fence.handle, 1).unwrap();
        assert_eq!(w.kernel.notify_work_submission(Handle(0x40)), Err(Status::INVALID_PARAMETER));
    });
}

// spec: UMS-016, UMS-017
#[test]
fn a_user_mode_queue_takes_nothing_from_the_kernel() {
    let w = world();
    let (queue, fence) = (w.connected_queue(0), w.native(0));
    let (commands_gpu_va, command_bytes) = w.commands(&[Command::Timed { ns: 1 }]);
    w.driver.take();
    let hw_queue = queue.queue.handle;
    let args =
        SubmitCommandToHwQueue { hw_queue, progress_fence_id: 1, commands_gpu_va, command_bytes };
    let refused = [
        w.kernel.submit_command_to_hw_queue(args),
        w.kernel.submit_wait_to_hw_queue(hw_queue, &at(&fence, 1)),
        w.kernel.submit_signal_to_hw_queue(hw_queue, &at(&fence, 1)),
    ];
    assert_eq!(refused, [Err(Status::INVALID_PARAMETER); 3]);
    assert_eq!(w.driver.take_names(), Vec::<&str>::new());
    // Nor has a queue of the other kind a doorbell.
    let other = w.hw_queue();
    let args = CreateDoorbell { hw_queue: other.handle, ..queue.doorbell_args() };
    assert_eq!(w.kernel.create_doorbell(args).err(), Some(Status::INVALID_PARAMETER));
}

// spec: UMS-036, UMS-089
#[test]
fn the_end_of_a_device_is_the_end_of_queues_doorbells_and_rings() {
    let w = world();
    let (first, second) = (w.connected_queue(0), w.user_queue(1));
    let memory = w.hooked.start_info().system_memory;
    let pages = w.calls().pages;
    w.driver.take();
    w.kernel.destroy_device(w.device).unwrap();
    let mut names = w.driver.take_names();
    names.retain(|name| !name.contains("Fence"));
    let of_queue = ["DestroyDoorbell", "DestroyHwQueue"];
    // The second doorbell was never connected.
    let queues = [&["DisconnectDoorbell"], &of_queue[..], &of_queue].concat();
    assert_eq!(names, [&queues[..], &["DestroyContext"; 2], &["DestroyDevice"]].concat());
    let memory_handles = [second.ring.handle, second.control.handle];
    let handles = [first.queue.handle, first.doorbell.handle, w.device];
    for handle in handles.into_iter().chain(memory_handles) {
        assert_eq!(w.kernel.destroy_allocation(handle), Err(Status::INVALID_PARAMETER));
        assert_eq!(w.kernel.connect_doorbell(handle).err(), Some(Status::INVALID_PARAMETER));
    }
    assert_eq!(w.machine.driver().violations(), []);
    // Fence pages are the process's and stay; rings, control areas and logs are off the bus.
    let left = pages.iter().filter(|(at, _)| memory.resolve(*at).is_some()).count();
    assert_eq!(left, 2);
}

// spec: UMS-070, UMS-098, UMS-099
#[test]
fn the_only_doorbell_goes_from_queue_to_queue() {
    let w = with_doorbells(1).run(|w| {
        let queues = [(); 3].map(|()| (w.connected_queue(0), w.native(0)));
        let states = || queues.each_ref().map(|(queue, _)| queue.status());
        let lost = DoorbellStatus::DisconnectedRetry;
        assert_eq!(states(), [lost, lost, DoorbellStatus::Connected]);
        for round in 1..=4 {
            for (queue, fence) in &queues {
                queue.signal(fence, round);
                if !queue.status().is_connected() {
                    queue.connect().unwrap();
                    queue.ring();
                }
                assert_eq!(queue.status(), DoorbellStatus::Connected);
                w.wait(fence.handle, round).unwrap();
            }
            let connected = states().into_iter().filter(|s| s.is_connected()).count();
            assert_eq!(connected, 1);
        }
    });
    let stats = w.stats();
    assert!(
        stats.doorbell_victims >= 2 && stats.doorbell_connects == stats.doorbell_victims + 1,
        "{stats:?}"
    );
}

/// What a queue does that fills a buffer and then says so.
fn fill(w: &World, progress: u64) -> (RingPacket, tidegate::platform::Bulk) {
    let (memory, gpu_va) = w.bytes(64);
    let (commands, bytes) =
        w.commands(&[Command::Fill { destination: GpuVa(gpu_va), bytes: 64, value: 7 }]);
    (RingPacket::execute(GpuVa(commands), bytes, progress), memory)
}

// spec: UMS-038, UMS-039
#[test]
fn a_victimised_doorbell_rings_no_queue_and_its_ring_stays() {
    with_doorbells(1).run(|w| {
        let victim = w.connected_queue(0);
        let page = victim.doorbell.mapping.page();
        let other = w.connected_queue(0);
        assert_eq!(victim.status(), DoorbellStatus::DisconnectedRetry);
        let (packet, memory) = fill(w, 1);
        victim.push(&packet);
        page.store(DOORBELL_VALUE_WORD, 1);
        w.pass(SETTLED_NS);
        let progress = [&victim, &other].map(|queue| queue.queue.progress_value.load());
        assert_eq!(progress, [0; 2], "neither address nor old page reach the hardware");
        // The ring is where it was: connected again, the same slot runs.
        victim.connect().unwrap();
        victim.ring();
        w.wait(victim.queue.progress_fence, 1).unwrap();
        assert_eq!(memory.read_u64(56), Ok(0x7_0000_0007));
    });
}

// spec: UMS-068, UMS-069
#[test]
fn the_driver_may_disconnect_what_there_is_as_often_as_it_likes() {
    let w = world();
    let first = w.connected_queue(0);
    let handles = os_handles(&w);
    let second = w.connected_queue(0);
    let others = os_handles(&w);
    for unknown in [
        (handles.0, others.1),
        (others.0, handles.1),
        (OsHandle(0), handles.1),
        (handles.0, OsHandle(0)),
    ] {
        for reason in [DisconnectReason::Retry, DisconnectReason::Abort] {
            assert_eq!(disconnect(&w, unknown, reason), Err(Status::INVALID_PARAMETER));
        }
    }
    assert!(first.status().is_connected() && second.status().is_connected());
    for _ in 0..2 {
        assert_eq!(disconnect(&w, handles, DisconnectReason::Retry), Ok(()));
        assert_eq!(first.status(), DoorbellStatus::DisconnectedRetry);
    }
    assert!(second.status().is_connected());
    for _ in 0..2 {
        assert_eq!(disconnect(&w, handles, DisconnectReason::Abort), Ok(()));
        assert_eq!(first.status(), DoorbellStatus::DisconnectedAbort);
    }
}

// spec: UMS-042
#[test]
fn after_abort_there_is_no_way_back() {
    let w = world();
    let queue = w.connected_queue(0);
    w.disconnect_last_doorbell(&Passive::enter(), DisconnectReason::Abort).unwrap();
    w.driver.take();
    assert_eq!(queue.connect(), Err(Status::DEVICE_REMOVED));
    assert_eq!(w.disconnect_last_doorbell(&Passive::enter(), DisconnectReason::Retry), Ok(()));
    assert_eq!(queue.connect(), Err(Status::DEVICE_REMOVED));
    assert_eq!(queue.status(), DoorbellStatus::DisconnectedAbort);
    assert_eq!(w.driver.take_names(), Vec::<&str>::new(), "the driver gets no call");
}

// spec: UMS-040, UMS-041
#[test]
fn a_fault_ends_all_doorbells_of_its_device_and_a_new_device_works() {
    world().run(|w| {
        let queues = [w.connected_queue(0), w.connected_queue(1), w.user_queue(2)];
        let other_device = w.another_device();
        queues[0].push(&RingPacket::execute(GpuVa(0x10), 8, 1));
        w.pass(SETTLED_NS);
        assert!(queues.iter().all(|queue| queue.status() == DoorbellStatus::DisconnectedAbort));
        assert!(queues.iter().all(|queue| queue.connect() == Err(Status::DEVICE_REMOVED)));
        // All of it goes, and is made anew on a device that works.
        for queue in &queues {
            w.kernel.destroy_doorbell(queue.doorbell.handle).unwrap();
            w.kernel.destroy_hw_queue(queue.queue.handle).unwrap();
            w.kernel.destroy_allocation(queue.ring.handle).unwrap();
            w.kernel.destroy_allocation(queue.control.handle).unwrap();
        }
        w.kernel.destroy_device(w.device).unwrap();
        w.signal(&other_device.monitored(0), 1);
    });
}

// spec: UMS-040
#[test]
fn a_stop_of_the_adapter_ends_all_doorbells() {
    let w = inline_world();
    let queues = [w.connected_queue(0), w.connected_queue(1), w.user_queue(2)];
    // The third shows its dummy page already.
    let shown = queues.each_ref().map(|queue| queue.doorbell.mapping.page());
    w.hooked.interrupt(signalled(&[OsHandle(0xDEAD_BEEF)]));
    w.let_agents_work(1_000);
    assert_eq!(w.adapter().bug_checks().len(), 1, "the driver broke its contract");
    assert_eq!(w.state(), Ok(DeviceState::Stopped));
    for (n, (queue, before)) in queues.iter().zip(&shown).enumerate() {
        assert_eq!(queue.status(), DoorbellStatus::DisconnectedAbort);
        assert_eq!(queue.connect(), Err(Status::DEVICE_REMOVED));
        // No page of the hardware is shown any more.
        assert_eq!(queue.doorbell.mapping.page().same(before), n == 2);
    }
}

// spec: UMS-072, UMS-086
#[test]
fn a_wrong_last_queued_cell_harms_no_queue() {
    with_doorbells(1).run(|w| {
        let (liar, honest) = (w.connected_queue(0), w.user_queue(0));
        let fence = w.native(0);
        for (round, lie) in (1..).zip([u64::MAX, 0, 1 << 63, 3, 0]) {
            liar.doorbell.last_queued.store(lie);
            assert_eq!(liar.doorbell.last_queued.load(), lie, "it can be read and written");
            honest.connect().unwrap();
            honest.signal_and_wait(&fence, round);
            liar.connect().unwrap();
        }
        let (packet, _memory) = fill(w, 1);
        liar.push(&packet);
        w.wait(liar.queue.progress_fence, 1).unwrap();
        assert_eq!(w.state(), Ok(DeviceState::Active));
    });
}

#[test]
fn a_global_doorbell_needs_no_victim() {
    let w = world_with(|config| doorbells(config, DoorbellModel::Global)).run(|w| {
        let queues = [(); 70].map(|()| (w.connected_queue(0), w.native(0)));
        for (queue, fence) in &queues {
            queue.signal(fence, 1);
        }
        for (queue, fence) in &queues {
            w.wait(fence.handle, 1).unwrap();
            assert_eq!(queue.status(), DoorbellStatus::Connected);
        }
    });
    assert_eq!(w.stats().doorbell_victims, 0);
}

// spec: UMS-026, UMS-205
#[test]
fn a_process_that_only_stores_notifies_where_its_doorbell_is_shared() {
    for model in [DoorbellModel::Dedicated { physical: 4 }, DoorbellModel::Global] {
        world_with(move |config| doorbells(config, model)).run(move |w| {
            let kind = ProcessKind { only_stores: true, ..ProcessKind::default() };
            let process = w.machine.process_of_kind(0, "a program", kind).unwrap();
            let device = process.create_device().unwrap();
            let client = Client::of(&w.platform, process, device);
            // Another queue has the first place of the shared location.
            let other = w.connected_queue(0);
            let (queue, fence) = (client.connected_queue(0), client.native(0));
            let is_shared = model == DoorbellModel::Global;
            let status = [DoorbellStatus::Connected, DoorbellStatus::ConnectedNotify];
            assert_eq!(queue.status(), status[usize::from(is_shared)]);

            queue.put(&signal_packet(&fence, 1, u32::MAX));
            queue.doorbell.mapping.store(0, 1);
            if is_shared {
                let page = other.doorbell.mapping.page();
                assert!(!page.same(&queue.doorbell.mapping.page()));
                client.kernel.notify_work_submission(queue.doorbell.handle).unwrap();
            } else {
                client.kernel.connect_doorbell(queue.doorbell.handle).unwrap().hint.rung();
            }
            client.wait(fence.handle, 1).unwrap();
            assert_eq!(w.state(), Ok(DeviceState::Active));
        });
    }
}

// spec: UMS-074, UMS-102
#[test]
fn what_a_victim_has_queued_and_not_done_goes_to_the_driver() {
    with_doorbells(1).run(|w| {
        let (victim, other) = (w.connected_queue(0), w.user_queue(0));
        let notified = |w: &World| w.driver.take_names().contains(&"NotifyWorkSubmission");
        w.driver.take();
        other.connect().unwrap();
        assert!(!notified(w), "nothing is queued");
        for (last_queued, pending) in [(1, true), (0, false)] {
            victim.connect().unwrap();
            victim.doorbell.last_queued.store(last_queued);
            w.driver.take();
            other.connect().unwrap();
            assert_eq!(notified(w), pending);
        }
        // Done is not pending.
        victim.connect().unwrap();
        victim.doorbell.last_queued.store(1);
        let (packet, _memory) = fill(w, 1);
        victim.push(&packet);
        w.wait(victim.queue.progress_fence, 1).unwrap();
        w.driver.take();
        other.connect().unwrap();
        assert!(!notified(w));
        // A packet that was announced and never rung runs by the notification.
        victim.connect().unwrap();
        victim.doorbell.last_queued.store(2);
        victim.put(&fill(w, 2).0);
        other.connect().unwrap();
        w.wait(victim.queue.progress_fence, 2).unwrap();
    });
}

// spec: ME-047
#[test]
fn a_queue_of_a_lost_device_does_not_go_on() {
    world().run(|w| {
        let (never, marker, parked) = (w.native(0), w.native(0), w.connected_queue(0));
        parked.wait(&never, 5).signal(&marker, 9);
        let other = w.connected_queue(1);
        let (commands, progress) = (GpuVa(0x10), 1);
        other.push(&RingPacket::execute(commands, 8, progress));
        w.pass(SETTLED_NS);
        let fences = [never.value.load(), marker.value.load(), parked.queue.progress_value.load()];
        assert_eq!(fences, [u64::MAX; 3], "the wait that passed released no signal");
    });
}

// spec: UMS-032
#[test]
fn a_doorbell_takes_sixteen_bytes_of_private_data() {
    let w = world();
    let queue = w.user_queue(0);
    w.kernel.destroy_doorbell(queue.doorbell.handle).unwrap();
    let create = |bytes: usize| {
        let private_data = (0..bytes as u8).collect();
        let args = CreateDoorbell { private_data, ..queue.doorbell_args() };
        let made = w.kernel.create_doorbell(args);
        made.map(|doorbell| w.kernel.destroy_doorbell(doorbell.handle).unwrap())
    };
    for bytes in [0, 1, 16] {
        create(bytes).unwrap();
        let data = w.calls().doorbells.pop().unwrap().0.private_data;
        assert_eq!(data, (0..bytes as u8).collect::<Vec<u8>>(), "the driver gets it");
    }
    w.driver.take();
    for bytes in [17, 255] {
        assert_eq!(create(bytes), Err(Status::INVALID_PARAMETER));
    }
    assert_eq!(w.driver.take_names(), Vec::<&str>::new());
}
