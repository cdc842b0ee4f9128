//! Doorbells beyond the plain one: what must be declared before one is created, the secondary
//! address, the resize of a ring, the location that all queues of a process share, which doorbell
//! is victimised, and that ringing again is harmless.

use tidegate::calls::CreateDoorbell;
use tidegate::ddi::{ConnectedDoorbell, UserModeSubmissionCaps};
use tidegate::gpu_abi::global_parts;
use tidegate_testbed::prelude::*;

const SETTLED_NS: u64 = 100_000;

fn with(model: DoorbellModel) -> World {
    world_with(|config| config.driver.doorbells = model)
}

/// Another doorbell for `queue`, with a ring and a control area of its own.
fn another(w: &World, queue: &UserQueue, flags: CreateDoorbellFlags) -> Result<UserQueue, Status> {
    let made = w.user_queue(0);
    w.kernel.destroy_doorbell(made.doorbell.handle)?;
    let args = doorbell_args(queue.queue.handle, &made.ring, &made.control);
    let doorbell = w.kernel.create_doorbell(CreateDoorbell { flags, ..args })?;
    Ok(made.with_doorbell(doorbell))
}

#[test]
// spec: UMS-012
fn a_doorbell_on_a_node_without_the_flag_is_not_supported() {
    let w = world_with(|config| config.driver.user_mode_nodes = !(1 << 1));
    let (queue, other) = (w.user_queue(0), w.hw_queue_on(1));
    let args = CreateDoorbell { hw_queue: other.handle, ..queue.doorbell_args() };
    assert_eq!(w.kernel.create_doorbell(args.clone()).err(), Some(Status::NOT_SUPPORTED));
    // On a node that has it, a queue of the other kind is the caller's mistake.
    let kernel_mode = CreateDoorbell { hw_queue: w.hw_queue_on(0).handle, ..args };
    assert_eq!(w.kernel.create_doorbell(kernel_mode).err(), Some(Status::INVALID_PARAMETER));
}

// spec: UMS-172
#[test]
fn private_data_of_a_doorbell_come_back_as_the_driver_left_them() {
    let w = world();
    let made = w.user_queue(0);
    w.kernel.destroy_doorbell(made.doorbell.handle).unwrap();
    for given in [vec![], vec![7], (0..16).collect::<Vec<u8>>()] {
        let args = CreateDoorbell { private_data: given.clone(), ..made.doorbell_args() };
        let doorbell = w.kernel.create_doorbell(args).unwrap();
        let answered: Vec<u8> = given.iter().map(|byte| byte + 1).collect();
        assert_eq!(doorbell.private_data, answered);
        w.kernel.destroy_doorbell(doorbell.handle).unwrap();
    }
}

/// A driver that declares these sizes of a doorbell.
fn declaring(caps: UserModeSubmissionCaps) -> Overrides {
    Overrides::default().query_user_mode_submission_caps(move |_, _| caps)
}

#[test]
// spec: UMS-014
fn dummy_page_and_rotated_page_are_as_large_as_the_driver_declares_a_doorbell() {
    let sizes = |doorbell_size_bytes, secondary_doorbell_size_bytes| UserModeSubmissionCaps {
        doorbell_size_bytes,
        secondary_doorbell_size_bytes,
    };
    for (bytes, words) in [(8, 1), (12, 2), (64, 8)] {
        let w = setup(|_| ()).overriding(declaring(sizes(bytes, Some(2 * bytes)))).start();
        let queue = w.user_queue(0);
        assert_eq!(queue.doorbell.mapping.page().len(), words);
        queue.connect().unwrap();
        let second = another(&w, &w.user_queue(0), CreateDoorbellFlags::empty()).err();
        assert_eq!(second, Some(Status::INVALID_PARAMETER), "it has one");
        let second = w.user_queue(0);
        w.kernel.destroy_doorbell(second.doorbell.handle).unwrap();
        let second = another(&w, &second, CreateDoorbellFlags::REQUIRE_SECONDARY_CPU_VA).unwrap();
        assert_eq!(
            second.doorbell.secondary.unwrap().page().len(),
            (2 * words).min(2 * bytes as usize / 8)
        );
    }
    // A page that is smaller than what was stated is not a doorbell.
    let w = setup(|_| ()).overriding(declaring(sizes(128, None))).start();
    let queue = w.user_queue(0);
    assert_eq!(queue.connect(), Err(Status::DEVICE_REMOVED));
    assert_eq!(w.adapter().bug_checks().len(), 1);
}

#[test]
// spec: UMS-150
fn a_secondary_address_rings_the_same_queue() {
    world().run(|w| {
        let first = w.user_queue(0);
        assert!(first.doorbell.secondary.is_none(), "it was not requested");
        w.kernel.destroy_doorbell(first.doorbell.handle).unwrap();
        let queue = another(w, &first, CreateDoorbellFlags::REQUIRE_SECONDARY_CPU_VA).unwrap();
        let fence = w.native(0);
        let secondary = queue.doorbell.secondary.clone().unwrap();
        let dummies = [queue.doorbell.mapping.page(), secondary.page()];
        queue.put(&signal_packet(&fence, 1, u32::MAX));
        queue.ring_secondary();
        w.pass(SETTLED_NS);
        assert_eq!(fence.value.load(), 0, "a dummy page, too");
        queue.connect().unwrap();
        queue.ring_secondary();
        w.wait(fence.handle, 1).unwrap();
        queue.signal_and_wait(&fence, 2);
        w.disconnect_last_doorbell(&Passive::enter(), DisconnectReason::Retry).unwrap();
        let now = [queue.doorbell.mapping.page(), secondary.page()];
        assert!(now.iter().zip(&dummies).all(|(now, dummy)| now.same(dummy)));
    });
}

#[test]
// spec: UMS-150
fn a_secondary_address_exists_where_the_adapter_offers_one() {
    let w = world_with(|config| config.driver.secondary_doorbells = false);
    let queue = w.user_queue(0);
    w.kernel.destroy_doorbell(queue.doorbell.handle).unwrap();
    w.driver.take();
    let refused = another(&w, &queue, CreateDoorbellFlags::REQUIRE_SECONDARY_CPU_VA).err();
    assert_eq!(refused, Some(Status::NOT_SUPPORTED));
    drop(queue);
    drop(w);
    // A driver that offers one and does not give it breaks the contract.
    let caps =
        UserModeSubmissionCaps { doorbell_size_bytes: 8, secondary_doorbell_size_bytes: Some(8) };
    let no_secondary = declaring(caps).connect_doorbell(|inner, level, doorbell, flags| {
        let connected = inner.connect_doorbell(level, doorbell, flags)?;
        Ok(ConnectedDoorbell { secondary: None, ..connected })
    });
    let w = setup(|_| ()).overriding(no_secondary).start();
    let queue = w.user_queue(0);
    w.kernel.destroy_doorbell(queue.doorbell.handle).unwrap();
    let queue = another(&w, &queue, CreateDoorbellFlags::REQUIRE_SECONDARY_CPU_VA).unwrap();
    assert_eq!(queue.connect(), Err(Status::DEVICE_REMOVED));
    assert_eq!(w.adapter().bug_checks().len(), 1);
}

/// The kernel's handles of all queues with their doorbells, in the order of the doorbells.
fn all_os_handles(w: &World) -> Vec<(OsHandle, OsHandle)> {
    let calls = w.calls();
    let queue_of =
        |hw_queue| calls.queues.iter().find(|(_, driver)| *driver == hw_queue).unwrap().0.os_handle;
    calls.doorbells.iter().map(|(made, _)| (queue_of(made.hw_queue), made.os_handle)).collect()
}

fn disconnect(w: &World, of: (OsHandle, OsHandle), reason: DisconnectReason) -> Result<(), Status> {
    w.hooked.start_info().callbacks.disconnect_doorbell(&Passive::enter(), of.0, of.1, reason)
}

#[test]
// spec: UMS-030
fn a_queue_has_one_doorbell_and_a_resize_ends_the_one_before() {
    world().run(|w| {
        let (old, fence) = (w.connected_queue(0), w.native(0));
        old.signal_and_wait(&fence, 1);
        w.driver.take();
        let second = another(w, &old, CreateDoorbellFlags::empty()).err();
        assert_eq!(second, Some(Status::INVALID_PARAMETER), "a queue has one");
        // The kernel itself refuses. The driver would refuse as well, but gets only the call for
        // the spare queue that `another` makes.
        let made =
            w.driver.take_names().into_iter().filter(|name| *name == "CreateDoorbell").count();
        assert_eq!(made, 1);
        // A create that fails leaves the old one as it was.
        let resize = CreateDoorbellFlags::RESIZE_RING_BUFFER_OPERATION;
        let spare = w.user_queue(0);
        w.hooked.fail_next(Entry::CreateDoorbell, Status::NO_MEMORY);
        let args = doorbell_args(old.queue.handle, &spare.ring, &spare.control);
        let refused = w.kernel.create_doorbell(CreateDoorbell { flags: resize, ..args }).err();
        assert_eq!(refused, Some(Status::NO_MEMORY));
        assert_eq!(old.status(), DoorbellStatus::Connected);
        w.driver.take();
        let new = another(w, &old, resize).unwrap();
        let called: Vec<&str> =
            w.driver.take_names().into_iter().filter(|name| name.contains("Doorbell")).collect();
        assert_eq!(
            called,
            ["CreateDoorbell", "DestroyDoorbell", "CreateDoorbell", "DisconnectDoorbell"]
        );
        assert_eq!(old.status(), DoorbellStatus::DisconnectedAbort);
        assert_eq!(new.status(), DoorbellStatus::DisconnectedRetry);
        assert_eq!(old.connect(), Err(Status::DEVICE_REMOVED));
        // The new ring works, with its pointers from 0. The old ring is not read any more.
        new.connect().unwrap();
        old.signal(&fence, 7);
        new.signal_and_wait(&fence, 2);
        w.pass(SETTLED_NS);
        assert_eq!(fence.value.load(), 2);
        w.kernel.destroy_doorbell(old.doorbell.handle).unwrap();
        new.signal_and_wait(&fence, 3);
        assert_eq!(w.machine.driver().violations(), []);
        // The old one may be destroyed first as well: then there is nothing to supersede.
        w.kernel.destroy_doorbell(new.doorbell.handle).unwrap();
        let third = another(w, &old, resize).unwrap();
        third.connect().unwrap();
        third.signal_and_wait(&fence, 4);
    });
}

#[test]
// spec: UMS-180
fn a_doorbell_takes_ring_and_control_area_of_its_own_device_only() {
    let w = world();
    let queue = w.user_queue(0);
    w.kernel.destroy_doorbell(queue.doorbell.handle).unwrap();
    let other = w.another_device();
    let ring = other.allocate(64 * SLOT_BYTES, AllocationKind::Bulk);
    let control = other.allocate(CONTROL_WORDS as u64 * 8, AllocationKind::Protocol);
    for (ring, control) in [(&ring, &control), (&ring, &queue.control), (&queue.ring, &control)] {
        let args = doorbell_args(queue.queue.handle, ring, control);
        assert_eq!(w.kernel.create_doorbell(args).err(), Some(Status::INVALID_PARAMETER));
    }
    // The refused calls keep nothing: the other device and its memory go, and the queue's own ring
    // still works.
    w.kernel.destroy_device(other.device).unwrap();
    another(&w, &queue, CreateDoorbellFlags::empty()).unwrap().connect().unwrap();
}

/// A ring is bytes, and a control area is words that both sides store to.
#[test]
fn a_ring_and_a_control_area_of_the_other_kind_are_refused() {
    let w = world();
    let queue = w.user_queue(0);
    w.kernel.destroy_doorbell(queue.doorbell.handle).unwrap();
    w.driver.take();
    let (ring, control) = (&queue.ring, &queue.control);
    for (ring, control) in [(control, control), (ring, ring), (control, ring)] {
        let args = doorbell_args(queue.queue.handle, ring, control);
        assert_eq!(w.kernel.create_doorbell(args).err(), Some(Status::INVALID_PARAMETER));
    }
    assert!(!w.driver.take_names().contains(&"CreateDoorbell"));
    w.kernel.create_doorbell(queue.doorbell_args()).unwrap();
}

/// The driver releases the ring of the old doorbell in its disconnect, which it gets for a doorbell
/// without hardware as well.
// spec: UMS-030
#[test]
fn a_resize_ends_a_doorbell_that_has_no_hardware() {
    world().run(|w| {
        let (old, fence) = (w.user_queue(0), w.native(0));
        w.driver.take();
        let new = another(w, &old, CreateDoorbellFlags::RESIZE_RING_BUFFER_OPERATION).unwrap();
        let called: Vec<&str> =
            w.driver.take_names().into_iter().filter(|name| name.contains("Doorbell")).collect();
        assert_eq!(
            called,
            ["CreateDoorbell", "DestroyDoorbell", "CreateDoorbell", "DisconnectDoorbell"]
        );
        assert_eq!(old.status(), DoorbellStatus::DisconnectedAbort);
        assert_eq!(old.connect(), Err(Status::DEVICE_REMOVED));
        new.connect().unwrap();
        new.signal_and_wait(&fence, 1);
        assert_eq!(w.machine.driver().violations(), []);
    });
}

#[test]
// spec: UMS-096
fn the_page_is_the_dummy_page_again_when_a_doorbell_is_disconnected() {
    for model in [DoorbellModel::Dedicated { physical: 4 }, DoorbellModel::Global] {
        let w = with(model);
        let queue = w.user_queue(0);
        let dummy = queue.doorbell.mapping.page();
        queue.connect().unwrap();
        assert!(!queue.doorbell.mapping.page().same(&dummy));
        let (seen, mapping, state) =
            (dummy.clone(), queue.doorbell.mapping.clone(), queue.doorbell.status.clone());
        // As the driver finds it when the callback has returned, before it touches the hardware.
        w.disconnect_last_doorbell(&Passive::enter(), DisconnectReason::Retry).unwrap();
        assert!(mapping.page().same(&seen));
        assert_eq!(state.load(), DoorbellStatus::DisconnectedRetry as u64);
    }
}

#[test]
// spec: UMS-005, UMS-100
fn a_global_doorbell_is_one_location_and_its_value_names_the_queue() {
    let w = with(DoorbellModel::Global).run(|w| {
        let queues: Vec<_> = (0..70).map(|n| (w.connected_queue(n % 3), w.native(0))).collect();
        let place = queues[0].0.doorbell.mapping.page();
        assert!(queues.iter().all(|(queue, _)| queue.doorbell.mapping.page().same(&place)));
        // All queues ring before any engine reads: the word keeps only the last ring, and each
        // ring is served.
        for round in 1..=3 {
            let mut named = BTreeSet::new();
            for (queue, fence) in &queues {
                queue.signal(fence, round);
                let (named_queue, pointer) = global_parts(place.word(DOORBELL_VALUE_WORD).load());
                assert_eq!(pointer, round, "the write pointer of the last ring");
                assert!(named.insert(named_queue), "two queues have the place {named_queue}");
            }
            for (queue, fence) in &queues {
                w.wait(fence.handle, round).unwrap();
                assert_eq!(queue.status(), DoorbellStatus::Connected);
            }
        }
        // A value that names no queue, or a write pointer of another queue, rings no queue.
        place.store(DOORBELL_VALUE_WORD, u64::MAX);
        let (first, fence) = &queues[0];
        first.put(&signal_packet(fence, 4, u32::MAX));
        w.pass(SETTLED_NS);
        assert_eq!(fence.value.load(), 3);
        first.ring();
        w.wait(fence.handle, 4).unwrap();
        let signals = w.gpu_stats().signals;
        assert_eq!(signals, 70 * 3 + 1, "each packet runs once");
    });
    assert_eq!(w.stats().doorbell_victims, 0);
    drop(w);
    // A location of its own needs no name: the value is the write pointer.
    with(DoorbellModel::Dedicated { physical: 4 }).run(|w| {
        let (queue, fence) = (w.connected_queue(0), w.native(0));
        queue.signal(&fence, 1);
        assert_eq!(queue.doorbell.mapping.page().word(DOORBELL_VALUE_WORD).load(), 1);
        w.wait(fence.handle, 1).unwrap();
    });
}

#[test]
fn a_ring_of_an_ended_queue_does_not_ring_the_one_that_has_its_place() {
    with(DoorbellModel::Global).run(|w| {
        let (ended, fence) = (w.connected_queue(0), w.native(0));
        for value in 1..=3 {
            ended.signal(&fence, value);
        }
        w.wait(fence.handle, 3).unwrap();
        let page = ended.doorbell.mapping.page();
        let left = global_parts(page.word(DOORBELL_VALUE_WORD).load());
        w.kernel.destroy_doorbell(ended.doorbell.handle).unwrap();
        w.kernel.destroy_hw_queue(ended.queue.handle).unwrap();
        let queue = w.connected_queue(0);
        // The engine reads the doorbell, in which the ended queue has rung three slots.
        w.kernel.connect_doorbell(queue.doorbell.handle).unwrap().hint.rung();
        w.pass(SETTLED_NS);
        queue.signal_and_wait(&fence, 4);
        let own = global_parts(page.word(DOORBELL_VALUE_WORD).load());
        assert_eq!((own, left), ((left.0, 1), (left.0, 3)), "both have the same place");
        queue.signal_and_wait(&fence, 5);
        assert_eq!(queue.status(), DoorbellStatus::Connected);
    });
}

#[test]
fn another_process_has_another_location() {
    let w = with(DoorbellModel::Global);
    let queue = w.connected_queue(0);
    let other = w.client("other").connected_queue(0);
    assert!(!other.doorbell.mapping.page().same(&queue.doorbell.mapping.page()));
}

// spec: UMS-029
#[test]
fn one_location_of_all_processes_reaches_no_queue_of_another_process() {
    let w = world_with(|config| {
        tidegate::variants::find("global-doorbell-of-all").unwrap().apply(config);
    });
    w.run(|w| {
        let other = w.client("other");
        let queues = [w.connected_queue(0), other.connected_queue(0)];
        let fences = [w.native(0), other.native(0)];
        let page = queues[0].doorbell.mapping.page();
        assert!(queues[1].doorbell.mapping.page().same(&page));
        for round in 1..=20 {
            // Both ring before an engine reads: the word keeps the last ring, and each is served.
            for (queue, fence) in queues.iter().zip(&fences) {
                queue.signal(fence, round);
            }
            w.wait(fences[0].handle, round).unwrap();
            other.wait(fences[1].handle, round).unwrap();
        }
        // The other process names this process's queue, with write pointers that it never stored.
        let (queue, fence) = (&queues[0], &fences[0]);
        let base = w.kernel.connect_doorbell(queue.doorbell.handle).unwrap().value_base;
        w.pass(SETTLED_NS);
        queue.put(&signal_packet(fence, 21, u32::MAX));
        for pointer in [0, 21, 64, 1 << 40] {
            queues[1].doorbell.mapping.store(DOORBELL_VALUE_WORD, base + pointer);
            other.kernel.connect_doorbell(queues[1].doorbell.handle).unwrap().hint.rung();
            w.pass(SETTLED_NS);
            assert_eq!(fence.value.load(), 20, "a ring of another process with {pointer}");
        }
        queue.ring();
        w.wait(fence.handle, 21).unwrap();
        assert_eq!(w.gpu_stats().signals, 2 * 20 + 1, "each packet runs once");
    });
}

#[test]
// spec: UMS-007
fn the_least_recently_rung_doorbell_gives_way() {
    with(DoorbellModel::Dedicated { physical: 3 }).run(|w| {
        let queues: Vec<_> = (0..5).map(|_| (w.user_queue(0), w.native(0))).collect();
        let submit = |n: usize, value| {
            let (queue, fence) = &queues[n];
            queue.signal(fence, value);
            w.wait(fence.handle, value).unwrap();
        };
        let connected =
            || (0..5).filter(|n| queues[*n].0.status().is_connected()).collect::<Vec<usize>>();
        for (queue, _) in &queues[..3] {
            queue.connect().unwrap();
        }
        // 0 connected first and is rung last: 1 and then 2 are older.
        for (n, value) in [(1, 1), (2, 1), (0, 1)] {
            submit(n, value);
        }
        queues[3].0.connect().unwrap();
        assert_eq!(connected(), [0, 2, 3]);
        submit(2, 2);
        queues[4].0.connect().unwrap();
        assert_eq!(connected(), [2, 3, 4], "a connect counts as a ring");
        submit(3, 1);
        queues[0].0.connect().unwrap();
        assert_eq!(connected(), [0, 3, 4]);
    });
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// One queue's submissions among repeated and stale rings, notifications, lost doorbells and
/// connects.
fn rings_at_random(model: DoorbellModel, seed: u64) {
    with(model).run(move |w| {
        let mut dice = Dice(seed);
        let queues = [(); 3].map(|()| (w.user_queue(0), w.native(0)));
        let handles = all_os_handles(w);
        let mut queued = [0; 3];
        for _ in 0..120 {
            let n = dice.throw(3) as usize;
            let (queue, fence) = &queues[n];
            match dice.throw(8) {
                0 | 1 => {
                    queued[n] += 1;
                    queue.put(&signal_packet(fence, queued[n], u32::MAX));
                }
                2 | 3 => queue.ring(),
                4 => {
                    let stale = queue.stale(dice.throw(queued[n] + 1));
                    queue.doorbell.mapping.store(DOORBELL_VALUE_WORD, stale);
                }
                5 => queue.connect().unwrap(),
                6 => disconnect(w, handles[n], DisconnectReason::Retry).unwrap(),
                _ => w.kernel.notify_work_submission(queue.doorbell.handle).unwrap(),
            }
            if dice.throw(4) == 0 {
                w.pass(1_000);
            }
            // A ring of 64 slots is not overrun.
            if queued[n] % 48 == 47 {
                queue.connect().unwrap();
                queue.ring();
                w.wait(fence.handle, queued[n]).unwrap();
            }
        }
        for ((queue, fence), value) in queues.iter().zip(queued) {
            // The published loop: ring, read the status, connect and ring again.
            loop {
                queue.ring();
                if queue.status().is_connected() {
                    break;
                }
                queue.connect().unwrap();
            }
            w.wait(fence.handle, value).unwrap();
        }
        w.pass(SETTLED_NS);
        let all = queued.iter().sum::<u64>();
        assert_eq!(w.gpu_stats().signals, all, "seed {seed}, {model:?}: each packet runs once");
    });
}

#[test]
// spec: UMS-008, UMS-084
fn ringing_again_is_harmless() {
    for seed in 0..60 {
        rings_at_random(DoorbellModel::Dedicated { physical: 1 }, seed);
        rings_at_random(DoorbellModel::Dedicated { physical: 2 }, seed + 1000);
        rings_at_random(DoorbellModel::Global, seed + 2000);
    }
}

#[test]
fn a_doorbell_that_is_aborted_in_its_connect_gives_its_hardware_back() {
    let w = world();
    let queue = w.user_queue(0);
    let own = all_os_handles(&w)[0];
    let callbacks = w.hooked.start_info().callbacks;
    w.hooked.once(Entry::ConnectDoorbell, move || {
        let (queue, doorbell) = own;
        let abort = DisconnectReason::Abort;
        callbacks.disconnect_doorbell(&Passive::enter(), queue, doorbell, abort).unwrap();
    });
    w.driver.take();
    assert_eq!(queue.connect(), Err(Status::DEVICE_REMOVED));
    let called = w.driver.take_names().into_iter().filter(|name| name.contains("Doorbell"));
    assert_eq!(called.collect::<Vec<_>>(), ["ConnectDoorbell", "DisconnectDoorbell"]);
    assert_eq!(queue.status(), DoorbellStatus::DisconnectedAbort);
}

#[test]
// spec: UMS-201
fn a_notification_gives_a_doorbell_its_hardware_back() {
    let w = world();
    let queue = w.user_queue(0);
    let own = all_os_handles(&w)[0];
    let mut hardware = Vec::new();
    for _ in 0..2 {
        let mut connects = 0;
        loop {
            queue.connect().unwrap();
            if queue.status() == DoorbellStatus::ConnectedNotify {
                break;
            }
            connects += 1;
            disconnect(&w, own, DisconnectReason::Retry).unwrap();
        }
        hardware.push(connects);
        w.kernel.notify_work_submission(queue.doorbell.handle).unwrap();
        assert_eq!(queue.status(), DoorbellStatus::DisconnectedRetry);
    }
    assert_eq!(hardware, [8, 8], "connects with hardware before each notification");
    queue.connect().unwrap();
    assert_eq!(queue.status(), DoorbellStatus::Connected);
}

#[test]
fn the_last_calls_of_a_queue_are_in_the_order_of_their_times() {
    world().run(|w| {
        let queue = w.user_queue(0);
        queue.doorbell.last_queued.store(1);
        let calls = || {
            let work = w.adapter().outstanding_work();
            work.iter().flat_map(|of| &of.calls).map(|call| call.entry).collect::<Vec<_>>()
        };
        let (connect, notify) = ("DxgkDdiConnectDoorbell", "DxgkDdiNotifyWorkSubmission");
        w.kernel.notify_work_submission(queue.doorbell.handle).unwrap();
        w.pass(10);
        queue.connect().unwrap();
        assert_eq!(calls(), [notify, connect]);
        w.pass(10);
        w.kernel.notify_work_submission(queue.doorbell.handle).unwrap();
        assert_eq!(calls(), [connect, notify]);
        queue.doorbell.last_queued.store(0);
    });
}
