//! Doorbells: made without hardware, connected with it, and taken away in the right order.

use tidegate_testbed::prelude::driver::*;

/// A connect without a secondary address.
const PLAIN: ConnectDoorbellFlags = ConnectDoorbellFlags::empty();

/// A machine with `count` user-mode queues on node 1; doorbell `n` has hardware queue `3 + n`, OS
/// queue `0x50 + n` and OS doorbell `0xD0 + n`.
fn scene(count: u64, config: Config) -> (Machine, Passive, Vec<DriverHandle>) {
    let machine = Machine::with(config);
    let owned = machine.owned(5, 1);
    let doorbells = (0..count).map(|n| {
        let queue = machine.queue(owned.context, 0x50 + n, true, 0x8000 + 8 * n);
        machine.doorbell(queue, 0xD0 + n)
    });
    let doorbells = doorbells.collect();
    machine.journal.take();
    let level = machine.passive();
    (machine, level, doorbells)
}

fn dedicated(physical: u32) -> Config {
    Config { doorbells: DoorbellModel::Dedicated { physical }, ..Config::standard() }
}

fn taken_from(n: u64) -> [Event; 2] {
    let (hw_queue, doorbell) = (OsHandle(0x50 + n), OsHandle(0xD0 + n));
    [Event::Disconnect { hw_queue, doorbell, reason: DisconnectReason::Retry }, hardware_off(n)]
}

fn hardware_off(n: u64) -> Event {
    Event::Admin(AdminCommand::DisconnectDoorbell { queue: QueueId(3 + n as u32) })
}

fn hardware_on(n: u64) -> Event {
    Event::Admin(AdminCommand::ConnectDoorbell {
        queue: QueueId(3 + n as u32),
        global: false,
        secondary: false,
    })
}

// spec: UMS-064
#[test]
fn a_new_doorbell_has_a_hardware_queue_and_no_physical_doorbell() {
    let (machine, owned) = Machine::with_owned(5, 1);
    let queue = machine.queue(owned.context, 0x50, true, 0x8000);
    assert_eq!(machine.commands(), [], "a user-mode queue has no ring before its doorbell");
    machine.doorbell(queue, 0xD0);
    let made = AdminCommand::CreateQueue {
        shape: QueueShape {
            engine: 1,
            kind: QueueKind::User,
            address_space: AddressSpaceId(5),
            ring: GpuVa(0x10_0000),
            slots: 16,
            control: GpuVa(0x20_0000),
            progress_current: GpuVa(0x8000),
            progress_monitored: GpuVa(0),
        },
        band: 1,
        os_handle: 0x50,
        context: 1 << 24,
    };
    assert_eq!(machine.commands(), [made]);
}

// spec: UMS-065
#[test]
fn a_connected_doorbell_has_a_page_of_its_own_a_status_and_a_hint() {
    let (machine, level, doorbells) = scene(2, Config::standard());
    let [first, second] =
        [0, 1].map(|n| machine.driver.connect_doorbell(&level, doorbells[n], PLAIN).unwrap());
    assert_eq!(
        (first.status, second.status),
        (DoorbellStatus::Connected, DoorbellStatus::Connected)
    );
    assert!(!first.page.same(&second.page));
    second.hint.rung();
    let mut rung = Vec::new();
    machine.device.summary.take(|bit| rung.push(bit));
    assert_eq!(rung, [1]);
    machine.journal.take();
    // Connecting again changes nothing.
    let again = machine.driver.connect_doorbell(&level, doorbells[0], PLAIN).unwrap();
    assert!(again.page.same(&first.page));
    assert_eq!(machine.journal.take(), []);
}

#[test]
fn a_notified_doorbell_wakes_by_its_notification_alone() {
    let (machine, _, doorbells) =
        scene(1, Config { notify_submissions: true, ..Config::standard() });
    let connected =
        machine.driver.connect_doorbell(&machine.passive(), doorbells[0], PLAIN).unwrap();
    assert_eq!(connected.status, DoorbellStatus::ConnectedNotify);
    connected.hint.rung();
    machine.device.summary.take(|bit| panic!("doorbell {bit} was rung"));
}

// spec: UMS-095, UMS-097, UMS-098
#[test]
fn the_only_physical_doorbell_goes_from_one_queue_to_the_next_in_order() {
    let (machine, level, doorbells) = scene(2, dedicated(1));
    machine.driver.connect_doorbell(&level, doorbells[0], PLAIN).unwrap();
    assert_eq!(machine.journal.take(), [hardware_on(0)]);
    for (taker, victim) in [(1, 0), (0, 1)] {
        machine.driver.connect_doorbell(&level, doorbells[taker as usize], PLAIN).unwrap();
        let [kernel_first, then_hardware] = taken_from(victim);
        assert_eq!(machine.journal.take(), [kernel_first, then_hardware, hardware_on(taker)]);
    }
    assert_eq!(machine.driver.violations(), []);
}

// spec: UMS-007
#[test]
fn the_victim_is_the_least_recently_connected_one() {
    let (machine, level, doorbells) = scene(5, dedicated(3));
    let connect = |n: usize| {
        machine.driver.connect_doorbell(&level, doorbells[n], PLAIN).unwrap();
        let victims = machine.journal.take().into_iter().filter_map(|e| match e {
            Event::Disconnect { doorbell, .. } => Some(doorbell.0 - 0xD0),
            _ => None,
        });
        victims.collect::<Vec<_>>()
    };
    assert_eq!([connect(2), connect(0), connect(1)], [const { Vec::<u64>::new() }; 3]);
    assert_eq!(connect(3), [2]);
    // 0 is disconnected by its owner: the next connection needs no victim.
    machine.driver.disconnect_doorbell(&level, doorbells[0]);
    assert_eq!([connect(2), connect(4), connect(0)], [vec![], vec![1], vec![3]]);
}

// spec: UMS-007
#[test]
fn the_hardware_says_which_doorbell_was_rung_least_recently() {
    let (machine, level, doorbells) = scene(4, dedicated(3));
    for doorbell in &doorbells[..3] {
        machine.driver.connect_doorbell(&level, *doorbell, PLAIN).unwrap();
    }
    machine.device.script.lock_device().last_rings =
        [(0, 9), (1, 4), (2, 7)].map(|(n, when)| (QueueId(3 + n), when)).into();
    machine.journal.take();
    machine.driver.connect_doorbell(&level, doorbells[3], PLAIN).unwrap();
    let [kernel_first, then_hardware] = taken_from(1);
    assert_eq!(machine.journal.take(), [kernel_first, then_hardware, hardware_on(3)]);
}

// spec: UMS-007
#[test]
fn of_two_doorbells_the_one_that_was_rung_last_stays() {
    let (machine, level, doorbells) = scene(3, dedicated(2));
    for doorbell in &doorbells[..2] {
        machine.driver.connect_doorbell(&level, *doorbell, PLAIN).unwrap();
    }
    machine.device.script.lock_device().last_rings =
        [(0, 9), (1, 4)].map(|(n, when)| (QueueId(3 + n), when)).into();
    machine.journal.take();
    machine.driver.connect_doorbell(&level, doorbells[2], PLAIN).unwrap();
    let [kernel_first, then_hardware] = taken_from(1);
    assert_eq!(machine.journal.take(), [kernel_first, then_hardware, hardware_on(2)]);
}

#[test]
fn the_end_of_a_doorbell_that_was_replaced_leaves_its_successor_alone() {
    let (machine, level, doorbells) = scene(1, Config::standard());
    let queue = machine.queue(machine.owned(6, 1).context, 0x60, true, 0x9000);
    let old = machine.doorbell(queue, 0xE0);
    let mut resize = CreateDoorbell {
        flags: CreateDoorbellFlags::RESIZE_RING_BUFFER_OPERATION,
        ..doorbell_args(queue, 0xE1, machine.ring(32))
    };
    let new = machine.driver.create_doorbell(&level, &mut resize).unwrap();
    machine.driver.connect_doorbell(&level, new, PLAIN).unwrap();
    machine.driver.destroy_doorbell(&level, old);
    machine.journal.take();
    // The queue has the new one: its ring is kicked, and the queue takes no other.
    machine.driver.notify_work_submission(&level, queue);
    assert_eq!(machine.commands(), [AdminCommand::KickQueue { queue: QueueId(5) }]);
    let mut second = doorbell_args(queue, 0xE2, machine.ring(16));
    let refused = machine.driver.create_doorbell(&level, &mut second);
    assert_eq!(refused, Err(Status::INVALID_PARAMETER));
    machine.driver.destroy_hw_queue(&level, queue);
    assert_eq!(machine.driver.violation_count(), 1, "the queue went before its doorbell");
    machine.driver.destroy_doorbell(&level, new);
    machine.driver.destroy_doorbell(&level, doorbells[0]);
    assert_eq!(machine.driver.violation_count(), 1);
}

#[test]
fn a_ring_whose_state_is_refused_is_destroyed_and_the_queue_takes_another() {
    let (machine, level) = Machine::at_passive();
    let owned = machine.owned(5, 1);
    let queue = machine.queue(owned.context, 0x50, true, 0x8000);
    assert_eq!(machine.driver.suspend_context(&level, owned.context, 1), Ok(true));
    let suspend = AdminCommand::SuspendQueue { queue: QueueId(3) };
    machine.refuse(&suspend, u64::MAX);
    let mut args = doorbell_args(queue, 0xD0, machine.ring(16));
    machine.journal.take();
    assert!(machine.driver.create_doorbell(&level, &mut args).is_err());
    let gone = AdminCommand::DestroyQueue { queue: QueueId(3) };
    assert_eq!(machine.commands()[1..], [suspend, gone]);
    machine.accept();
    let doorbell = machine.doorbell(queue, 0xD1);
    machine.driver.destroy_doorbell(&level, doorbell);
    assert_eq!(machine.driver.violations(), []);
}

#[test]
fn a_second_address_is_asked_of_the_hardware_where_it_is_offered() {
    let (machine, _, doorbells) = scene(1, Config::standard());
    let (level, second) = (machine.passive(), ConnectDoorbellFlags::REQUIRE_SECONDARY_ADDRESS);
    let connected = machine.driver.connect_doorbell(&level, doorbells[0], second).unwrap();
    assert!(connected.secondary.is_some_and(|page| !page.same(&connected.page)));
    let (machine, _, doorbells) =
        scene(1, Config { secondary_doorbells: false, ..Config::standard() });
    let refused = machine.driver.connect_doorbell(&level, doorbells[0], second).unwrap_err();
    assert_eq!(refused, Status::NOT_SUPPORTED);
    assert_eq!(
        machine.driver.query_user_mode_submission_caps(&level).secondary_doorbell_size_bytes,
        None
    );
}

#[test]
fn a_global_doorbell_needs_no_victim() {
    let (machine, _, doorbells) =
        scene(300, Config { doorbells: DoorbellModel::Global, ..Config::standard() });
    for doorbell in doorbells {
        machine.driver.connect_doorbell(&machine.passive(), doorbell, PLAIN).unwrap();
    }
    assert!(
        machine
            .journal
            .take()
            .iter()
            .all(|e| matches!(e, Event::Admin(AdminCommand::ConnectDoorbell { .. })))
    );
}

// spec: UMS-045
#[test]
fn a_suspended_queue_can_lose_its_doorbell_and_have_it_again() {
    let (machine, level, doorbells) = scene(1, dedicated(1));
    machine.driver.connect_doorbell(&level, doorbells[0], PLAIN).unwrap();
    let other = machine.owned(6, 1);
    let doorbell = machine.doorbell(machine.queue(other.context, 0x51, true, 0x8000), 0xD1);
    machine.driver.suspend_context(&level, other.context, 1).unwrap();
    machine.journal.take();
    machine.driver.connect_doorbell(&level, doorbell, PLAIN).unwrap();
    machine.driver.connect_doorbell(&level, doorbells[0], PLAIN).unwrap();
    machine.driver.connect_doorbell(&level, doorbell, PLAIN).unwrap();
    let victims = machine
        .journal
        .take()
        .into_iter()
        .filter(|e| matches!(e, Event::Disconnect { .. }))
        .count();
    assert_eq!((victims, machine.driver.violations()), (3, vec![]));
}

#[test]
fn a_victim_that_the_kernel_has_let_go_of_is_taken_all_the_same() {
    let (machine, _, doorbells) = scene(2, dedicated(1));
    machine.driver.connect_doorbell(&machine.passive(), doorbells[0], PLAIN).unwrap();
    *machine.kernel.disconnect_answer.lock_device() = Err(Status::INVALID_PARAMETER);
    machine.journal.take();
    machine.driver.connect_doorbell(&machine.passive(), doorbells[1], PLAIN).unwrap();
    assert_eq!(machine.journal.take()[1..], [hardware_off(0), hardware_on(1)]);
}

#[test]
fn a_connect_that_the_hardware_refuses_takes_no_seat() {
    let (machine, level, doorbells) = scene(2, dedicated(1));
    machine.refuse(
        &AdminCommand::ConnectDoorbell { queue: QueueId(0), global: false, secondary: false },
        u64::MAX,
    );
    assert_eq!(
        machine.driver.connect_doorbell(&level, doorbells[0], PLAIN).unwrap_err(),
        Status::DEVICE_REMOVED
    );
    machine.accept();
    machine.journal.take();
    machine.driver.connect_doorbell(&level, doorbells[1], PLAIN).unwrap();
    assert_eq!(machine.journal.take(), [hardware_on(1)], "the seat was free");
}

/// The doorbell would be its own victim when it is connected again.
#[test]
fn a_connect_whose_victim_the_hardware_keeps_takes_no_seat() {
    let (machine, level, doorbells) = scene(2, dedicated(1));
    machine.driver.connect_doorbell(&level, doorbells[0], PLAIN).unwrap();
    machine.refuse(&AdminCommand::DisconnectDoorbell { queue: QueueId(0) }, u64::MAX);
    machine.journal.take();
    let refused = machine.driver.connect_doorbell(&level, doorbells[1], PLAIN).unwrap_err();
    assert_eq!((refused, machine.journal.take()), (Status::DEVICE_REMOVED, taken_from(0).into()));
    machine.accept();
    machine.driver.connect_doorbell(&level, doorbells[1], PLAIN).unwrap();
    assert_eq!(machine.journal.take(), [hardware_on(1)], "the seat was free");
    machine.driver.connect_doorbell(&level, doorbells[0], PLAIN).unwrap();
    assert_eq!(machine.journal.take(), [&taken_from(1)[..], &[hardware_on(0)]].concat());
}

// spec: UMS-066
#[test]
fn disconnect_destroy_and_notify_succeed_however_often_they_come() {
    let (machine, level, doorbells) = scene(1, dedicated(1));
    machine.driver.disconnect_doorbell(&level, doorbells[0]);
    assert_eq!(machine.journal.take(), [], "it was never connected");
    machine.driver.connect_doorbell(&level, doorbells[0], PLAIN).unwrap();
    machine.journal.take();
    machine.driver.disconnect_doorbell(&level, doorbells[0]);
    machine.driver.disconnect_doorbell(&level, doorbells[0]);
    assert_eq!(machine.journal.take(), [hardware_off(0)]);
    machine.driver.connect_doorbell(&level, doorbells[0], PLAIN).unwrap();
    machine.journal.take();
    machine.driver.destroy_doorbell(&level, doorbells[0]);
    let gone = Event::Admin(AdminCommand::DestroyQueue { queue: QueueId(3) });
    assert_eq!(machine.journal.take(), [hardware_off(0), gone], "drained, then off the run list");
    assert_eq!(machine.driver.violations(), []);
    // A doorbell that is no more: the call still returns, and what it could not do is written down.
    machine.driver.disconnect_doorbell(&level, doorbells[0]);
    machine.driver.destroy_doorbell(&level, doorbells[0]);
    assert_eq!(machine.driver.violations().len(), 2);
}

#[test]
fn a_notified_submission_is_a_kick() {
    let (machine, owned) = Machine::with_owned(5, 1);
    let queue = machine.queue(owned.context, 0x50, true, 0x8000);
    machine.driver.notify_work_submission(&machine.passive(), queue);
    assert_eq!(machine.commands(), [], "no ring, no work");
    machine.doorbell(queue, 0xD0);
    machine.journal.take();
    machine.driver.notify_work_submission(&machine.passive(), queue);
    assert_eq!(machine.commands(), [AdminCommand::KickQueue { queue: QueueId(3) }]);
    assert_eq!(machine.driver.violations(), []);
}

#[test]
fn doorbells_that_cannot_be_are_refused() {
    let (machine, owned) = Machine::with_owned(5, 1);
    let level = machine.passive();
    let create = |hw_queue, slots, control_words| {
        let mut ring = machine.ring(slots);
        ring.control = machine.platform.page(control_words);
        machine.driver.create_doorbell(&level, &mut doorbell_args(hw_queue, 1, ring))
    };
    let (kernel_mode, user_mode) = (
        machine.queue(owned.context, 1, false, 0x8000),
        machine.queue(owned.context, 2, true, 0x8008),
    );
    assert_eq!(create(kernel_mode, 16, 16), Err(Status::INVALID_PARAMETER));
    assert_eq!(create(user_mode, 12, 16), Err(Status::INVALID_PARAMETER));
    assert_eq!(create(user_mode, 0, 16), Err(Status::INVALID_PARAMETER));
    assert_eq!(create(user_mode, 16, 15), Err(Status::INVALID_PARAMETER));
    assert!(create(user_mode, 16, 16).is_ok());
    assert_eq!(create(user_mode, 32, 16), Err(Status::INVALID_PARAMETER), "it has one");
}

#[test]
fn user_mode_queues_only_where_the_node_declares_them() {
    let mut config = Config::standard();
    config.user_mode_nodes = !(1 << 2);
    let machine = Machine::with(config);
    let owned = machine.owned(5, 2);
    let level = machine.passive();
    let refused =
        machine.driver.create_hw_queue(&level, queue_args(owned.context, 1, true, 0x8000));
    assert_eq!(refused, Err(Status::NOT_SUPPORTED));
    assert!(
        machine.driver.create_hw_queue(&level, queue_args(owned.context, 1, false, 0x8000)).is_ok()
    );
}
