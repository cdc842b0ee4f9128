//! Power of engines (F0, F1) and of the adapter (D0, D3): what takes it away, in which order, what
//! brings it back, and that no work is lost over it.

use tidegate::trace::Kind;
use tidegate_testbed::prelude::*;

const SETTLED_NS: u64 = 100_000;

fn managed(config: &mut MachineConfig) {
    config.kernel.power = PowerManagement::Managed;
}

/// An engine is offered for F1 when it was idle for a microsecond.
fn with_idle_engines() -> World {
    world_with(|config| {
        managed(config);
        config.driver.idle.engine_after_ns = 1_000;
    })
}

/// An engine without power, with the doorbell of its queue.
const OFF: (ComponentState, DoorbellStatus) =
    (ComponentState::F1, DoorbellStatus::DisconnectedRetry);
/// An engine with power whose doorbell was disconnected.
const STAYS_ON: (ComponentState, DoorbellStatus) =
    (ComponentState::F0, DoorbellStatus::DisconnectedRetry);

/// The power of a node, and the status of a queue's doorbell.
fn power_of(w: &World, node: u32, queue: &UserQueue) -> (ComponentState, DoorbellStatus) {
    (engine(w, node), queue.status())
}

fn engine(w: &World, node_ordinal: u32) -> ComponentState {
    w.adapter().engine_power_state(EngineId::of_node(node_ordinal))
}

fn offer(w: &World, node_ordinal: u32) {
    w.hooked.raise(&[engine_state_change(node_ordinal, EngineState::TransitionToF1)]);
    w.pass(SETTLED_NS);
}

/// The calls since this was last called that are about power, contexts and doorbells.
fn calls(w: &World) -> Vec<&'static str> {
    let about = ["Doorbell", "Context", "SetPower"];
    let mut names = w.driver.take_names();
    names.retain(|name| about.iter().any(|word| name.contains(word)));
    names
}

/// A packet with short work.
fn work(w: &World, progress: u64) -> RingPacket {
    w.execute_packet(&[Command::Timed { ns: 10 }], progress)
}

/// Announces and rings, as a user-mode driver does; connects as often as it must.
fn submit(w: &World, queue: &UserQueue, progress: u64) {
    queue.doorbell.last_queued.store(progress);
    queue.push(&work(w, progress));
    while !queue.status().is_connected() {
        queue.connect().unwrap();
        queue.ring();
    }
}

// spec: UMS-050, UMS-052, UMS-054
#[test]
fn an_idle_engine_goes_to_f1_and_a_connect_brings_it_back() {
    let w = with_idle_engines().run(|w| {
        let (queue, other) = (w.connected_queue(0), w.connected_queue(1));
        w.driver.take();
        for round in 1..=3 {
            submit(w, &queue, round);
            w.wait(queue.queue.progress_fence, round).unwrap();
            assert_eq!(engine(w, 0), ComponentState::F0);
            w.driver.take();
            w.pass(SETTLED_NS);
            assert_eq!(power_of(w, 0, &queue), OFF);
            let called = w.driver.take();
            let f1 = |c: &DdiCall| {
                matches!(c, DdiCall::SetPowerComponentFState { engine, state }
                    if engine.node_ordinal == 0 && *state == ComponentState::F1)
            };
            assert!(called.iter().any(f1), "{called:?}");
            // A ring does not wake an engine without power.
            queue.ring();
            w.pass(SETTLED_NS);
            assert_eq!(engine(w, 0), ComponentState::F1);
            queue.connect().unwrap();
            assert_eq!(engine(w, 0), ComponentState::F0);
            let up = w.driver.take();
            let up: Vec<_> =
                up.iter().map(|c| c.name()).filter(|n| *n != "UpdatePageTable").collect();
            assert_eq!(up, ["SetPowerComponentFState", "ConnectDoorbell"]);
        }
        let _ = other;
    });
    assert!(w.stats().engines_in_f1 >= 3);
}

// spec: UMS-055, UMS-102
#[test]
fn an_engine_with_work_announced_stays_and_the_work_runs() {
    let w = world_with(managed).run(|w| {
        let queue = w.connected_queue(0);
        queue.doorbell.last_queued.store(1);
        queue.put(&work(w, 1));
        w.driver.take();
        offer(w, 0);
        assert_eq!(calls(w), ["DisconnectDoorbell"], "no power is taken");
        assert_eq!(power_of(w, 0, &queue), STAYS_ON);
        // The notification that follows a disconnect sets it going, without a ring.
        w.wait(queue.queue.progress_fence, 1).unwrap();
        offer(w, 0);
        assert_eq!(engine(w, 0), ComponentState::F1);
    });
    assert_eq!(w.stats().power_downs_given_up, 1);
}

#[test]
fn a_driver_refuses_when_its_hardware_has_unannounced_work() {
    world_with(managed).run(|w| {
        let (queue, fence) = (Arc::new(w.connected_queue(0)), w.native(0));
        // The ring meets the doorbell right before it is taken away, and the process has read
        // CONNECTED.
        let (ringer, packet) = (queue.clone(), signal_packet(&fence, 1, u32::MAX));
        w.hooked.on(Entry::DisconnectDoorbell, move || ringer.push(&packet));
        offer(w, 0);
        assert_eq!(engine(w, 0), ComponentState::F0);
        w.wait(fence.handle, 1).unwrap();
    });
}

/// A little more than one period of the kernel's progress checks.
const CHECK_NS: u64 = 2_100_000_000;

// spec: UMS-049
#[test]
fn the_kernel_checks_the_progress_of_engines_with_user_mode_queues() {
    let w = world_with(managed).run(|w| {
        let (queue, other) = (w.connected_queue(0), w.connected_queue(1));
        for round in 1..=20 {
            submit(w, &queue, round);
            w.wait(queue.queue.progress_fence, round).unwrap();
            w.pass(1_000_000_000);
            assert_eq!(engine(w, 0), ComponentState::F0, "it moves");
        }
        // Its driver never offers an engine. The second engine made no progress between two checks.
        assert_eq!(power_of(w, 1, &other), OFF);
        w.pass(2 * CHECK_NS);
        assert_eq!(power_of(w, 0, &queue), OFF);
        for queue in [&queue, &other] {
            let next = queue.doorbell.last_queued.load() + 1;
            submit(w, queue, next);
            w.wait(queue.queue.progress_fence, next).unwrap();
        }
        assert_eq!([engine(w, 0), engine(w, 1)], [ComponentState::F0; 2]);
        w.pass(3 * CHECK_NS);
        assert_eq!([engine(w, 0), engine(w, 1)], [ComponentState::F1; 2]);
    });
    assert_eq!(w.stats().engines_in_f1, 4);
}

#[test]
fn the_first_check_of_progress_comes_a_timeout_delay_after_the_connect() {
    world_with(managed).run(|w| {
        w.pass(2 * CHECK_NS);
        let queue = w.connected_queue(0);
        let connected = queue.status();
        // The first check reads where the queue is. The second one finds it there.
        w.pass(CHECK_NS);
        assert_eq!(power_of(w, 0, &queue), (ComponentState::F0, connected));
        w.pass(CHECK_NS);
        assert_eq!(power_of(w, 0, &queue), OFF);
    });
}

#[test]
fn a_process_that_announces_what_it_never_submits_does_not_keep_its_engine_powered() {
    world_with(managed).run(|w| {
        let queue = w.connected_queue(0);
        queue.doorbell.last_queued.store(u64::MAX);
        w.pass(2 * CHECK_NS);
        assert_eq!(power_of(w, 0, &queue), STAYS_ON);
        w.pass(CHECK_NS);
        assert_eq!(engine(w, 0), ComponentState::F1);
        submit(w, &queue, 1);
        w.wait(queue.queue.progress_fence, 1).unwrap();
    });
}

#[test]
fn work_that_stands_still_keeps_its_engine_powered_by_what_the_driver_knows() {
    world_with(managed).run(|w| {
        let (queue, gate) = (w.connected_queue(0), w.native(0));
        queue.doorbell.last_queued.store(1);
        queue.wait(&gate, 1);
        queue.push(&work(w, 1));
        w.pass(10 * CHECK_NS);
        assert_eq!(power_of(w, 0, &queue), STAYS_ON);
        w.signal(&gate, 1);
        w.wait(queue.queue.progress_fence, 1).unwrap();
        w.pass(3 * CHECK_NS);
        assert_eq!(engine(w, 0), ComponentState::F1, "without another ring");
    });
}

#[test]
fn progress_checks_of_engines_do_not_keep_a_run_going() {
    let (_, report) = world_with(managed).run_to_report(|w| {
        let (queue, never) = (w.connected_queue(0), w.native(0));
        queue.wait(&never, 1);
        let _ends_with_the_machine = w.wait(never.handle, 1);
    });
    assert_eq!(report.blocked.len(), 1, "{report:?}");
    // A stalled machine waits for two more expirations of background work.
    assert!(report.end.0 < 3 * CHECK_NS, "{report:?}");
}

#[test]
fn a_wait_keeps_its_engine_powered() {
    with_idle_engines().run(|w| {
        let (queue, gate, done) = (w.connected_queue(0), w.native(0), w.native(0));
        queue.wait(&gate, 1).signal(&done, 1);
        w.pass(SETTLED_NS);
        assert_eq!(engine(w, 0), ComponentState::F0);
        w.signal(&gate, 1);
        w.wait(done.handle, 1).unwrap();
        w.pass(SETTLED_NS);
        assert_eq!(engine(w, 0), ComponentState::F1);
    });
}

#[test]
fn the_kernel_s_own_submissions_bring_an_engine_back() {
    with_idle_engines().run(|w| {
        let (queue, context, fence) = (w.hw_queue(), w.context(0), w.monitored(0));
        w.on_queue(&queue).run(1, &[Command::Timed { ns: 10 }]).complete();
        for round in 2..=4 {
            w.pass(SETTLED_NS);
            assert_eq!(engine(w, 0), ComponentState::F1);
            w.submit(&queue, round, &[Command::Timed { ns: 10 }]);
            w.wait(queue.progress_fence, round).unwrap();
            w.pass(SETTLED_NS);
            assert_eq!(engine(w, 0), ComponentState::F1);
            w.on(context).run(&[Command::Timed { ns: 10 }]).signal_and_wait(&fence, round);
        }
    });
}

#[test]
fn where_power_is_not_managed_it_is_never_taken() {
    world().run(|w| {
        let queue = w.connected_queue(0);
        offer(w, 0);
        assert_eq!(power_of(w, 0, &queue), (ComponentState::F0, DoorbellStatus::Connected));
        let adapter = w.adapter();
        assert_eq!(adapter.power_down_if_idle(), Err(Status::NOT_SUPPORTED));
        for state in [DevicePowerState::D3, DevicePowerState::D0] {
            assert_eq!(adapter.set_power_state(state), Err(Status::NOT_SUPPORTED));
        }
    });
}

// spec: UMS-056, UMS-057
#[test]
fn to_d3_contexts_are_suspended_then_doorbells_disconnected_then_the_power_goes() {
    world_with(managed).run(|w| {
        let queues = [w.connected_queue(0), w.connected_queue(1)];
        w.driver.take();
        assert_eq!(w.adapter().power_down_if_idle(), Ok(DevicePowerState::D3));
        let expected = [["SuspendContext"; 2], ["DisconnectDoorbell"; 2]].concat();
        assert_eq!(calls(w), [expected, vec!["SetPowerState"]].concat());
        assert_eq!(
            queues.each_ref().map(UserQueue::status),
            [DoorbellStatus::DisconnectedRetry; 2]
        );
        assert_eq!(w.adapter().power_state(), DevicePowerState::D3);
        assert_eq!(w.adapter().power_down_if_idle(), Ok(DevicePowerState::D3), "it is there");
        assert_eq!(calls(w), Vec::<&str>::new());
    });
}

// spec: UMS-059, UMS-061, UMS-062, UMS-063
#[test]
fn a_connect_in_d3_brings_power_then_the_doorbell_then_the_contexts() {
    let w = world_with(managed).run(|w| {
        let queues = [w.connected_queue(0), w.connected_queue(1)];
        for round in 1..=3 {
            // Memory for it would wake the device.
            let packet = work(w, round);
            w.pass(SETTLED_NS);
            assert_eq!(w.adapter().power_down_if_idle(), Ok(DevicePowerState::D3));
            w.driver.take();
            // Only the store and the read of the status: the ring reached no engine.
            queues[0].doorbell.last_queued.store(round);
            queues[0].push(&packet);
            assert_eq!(queues[0].status(), DoorbellStatus::DisconnectedRetry);
            queues[0].connect().unwrap();
            let woken = ["SetPowerState", "ConnectDoorbell", "ResumeContext", "ResumeContext"];
            assert_eq!(calls(w), woken);
            queues[0].ring();
            w.pass(SETTLED_NS);
            assert!(queues[0].status().is_connected() && !queues[1].status().is_connected());
            let taken = w.state();
            assert!(matches!(taken, Ok(DeviceState::Active)), "{taken:?}");
            w.wait(queues[0].queue.progress_fence, round).unwrap();
        }
    });
    let stats = w.stats();
    assert_eq!((stats.sleeps_in_d3, stats.wakes_from_d3), (3, 3));
}

/// A user-mode queue whose ring is in the device's memory.
struct LocalQueue {
    doorbell: tidegate::calls::Doorbell,
    progress_fence: Handle,
    ring: BulkWindow,
    pointers: Page,
}

fn local_queue(w: &World) -> LocalQueue {
    let queue = w.try_hw_queue(0, true).unwrap();
    let ring = w.allocate_in(64 * SLOT_BYTES, Placement::Local);
    let control = w.allocate(CONTROL_WORDS as u64 * 8, AllocationKind::Protocol);
    let doorbell = w.kernel.create_doorbell(doorbell_args(queue.handle, &ring, &control)).unwrap();
    let (AllocationMemory::Window(ring), AllocationMemory::Protocol(pointers)) =
        (ring.memory, control.memory)
    else {
        panic!("a ring of bytes that move, and a control area of words")
    };
    LocalQueue { doorbell, progress_fence: queue.progress_fence, ring, pointers }
}

/// The order of the calls that are about power, with how much of local memory was in use at each.
fn note_order(w: &World) -> Arc<Mutex<Vec<(&'static str, u64)>>> {
    let order = Arc::new(w.platform.mutex("order", Vec::new()));
    let entries = [
        Entry::SuspendContext,
        Entry::ResumeContext,
        Entry::DisconnectDoorbell,
        Entry::SetPowerState,
        Entry::ConnectDoorbell,
    ];
    for entry in entries {
        let (noted, adapter) = (order.clone(), Arc::downgrade(w.adapter()));
        w.hooked.on(entry, move || {
            let used = adapter.upgrade().map_or(0, |a| a.local_memory_use().used_bytes);
            noted.lock().push((entry.name(), used));
        });
    }
    order
}

// spec: UMS-058, UMS-060
#[test]
fn rings_in_local_memory_leave_after_the_suspension_and_are_back_before_the_connect() {
    world_with(managed).run(|w| {
        let (queue, _in_system_memory) = (local_queue(w), w.user_queue(0));
        let connection = w.kernel.connect_doorbell(queue.doorbell.handle).unwrap();
        assert_eq!(connection.value_base, 0);
        let packet = work(w, 1);
        let (bytes, order) = (64 * SLOT_BYTES, note_order(w));
        assert_eq!(w.adapter().power_down_if_idle(), Ok(DevicePowerState::D3));
        let down =
            ["SuspendContext", "SuspendContext", "DisconnectDoorbell"].map(|call| (call, bytes));
        let down = [&down[..], &[("SetPowerState", 0)]].concat();
        assert_eq!(std::mem::take(&mut *order.lock()), down);
        // What the process writes meanwhile is there afterwards.
        queue.ring.write(0, &packet.encode()).unwrap();
        queue.doorbell.last_queued.store(1);
        queue.pointers.store(CONTROL_WRITE_WORD, 1);
        let connection = w.kernel.connect_doorbell(queue.doorbell.handle).unwrap();
        let up = ["ConnectDoorbell", "ResumeContext", "ResumeContext"].map(|call| (call, bytes));
        let up = [&[("SetPowerState", 0)], &up[..]].concat();
        assert_eq!(std::mem::take(&mut *order.lock()), up);
        queue.doorbell.mapping.store(DOORBELL_VALUE_WORD, connection.value_base + 1);
        connection.hint.rung();
        w.wait(queue.progress_fence, 1).unwrap();
    });
}

#[test]
fn a_driver_that_keeps_the_power_keeps_rings_where_they_are() {
    world_with(managed).run(|w| {
        let _queue = local_queue(w);
        let (bytes, order) = (64 * SLOT_BYTES, note_order(w));
        w.hooked.fail_next(Entry::SetPowerState, Status::INVALID_PARAMETER);
        assert_eq!(w.adapter().power_down_if_idle(), Ok(DevicePowerState::D0));
        let calls = [("SuspendContext", bytes), ("SetPowerState", 0), ("ResumeContext", bytes)];
        assert_eq!(std::mem::take(&mut *order.lock()), calls);
    });
}

#[test]
fn an_idle_device_with_announced_work_stays_and_a_sleeping_system_s_does_not() {
    world_with(managed).run(|w| {
        let queue = w.connected_queue(0);
        queue.doorbell.last_queued.store(1);
        queue.put(&work(w, 1));
        assert_eq!(w.adapter().set_power_state(DevicePowerState::D3), Ok(DevicePowerState::D3));
        w.pass(SETTLED_NS);
        assert_eq!(queue.queue.progress_value.load(), 0);
        assert_eq!(w.adapter().set_power_state(DevicePowerState::D0), Ok(DevicePowerState::D0));
        w.wait(queue.queue.progress_fence, 1).unwrap();
        queue.connect().unwrap();
        queue.doorbell.last_queued.store(2);
        w.driver.take();
        assert_eq!(w.adapter().power_down_if_idle(), Ok(DevicePowerState::D0));
        assert!(!calls(w).contains(&"SetPowerState"));
        queue.put(&work(w, 2));
        queue.connect().unwrap();
        queue.ring();
        w.wait(queue.queue.progress_fence, 2).unwrap();
    });
}

#[test]
fn a_device_with_a_ring_that_announced_nothing_stays() {
    world_with(managed).run(|w| {
        let (queue, fence) = (Arc::new(w.connected_queue(0)), w.native(0));
        let (ringer, packet) = (queue.clone(), signal_packet(&fence, 1, u32::MAX));
        w.hooked.on(Entry::DisconnectDoorbell, move || ringer.push(&packet));
        assert_eq!(w.adapter().power_down_if_idle(), Ok(DevicePowerState::D0));
        w.wait(fence.handle, 1).unwrap();
    });
}

#[test]
fn every_call_wakes_the_device() {
    type Use = fn(&World);
    let uses: [(&str, Use); 7] = [
        ("a CPU signal", |w| w.signal(&w.native(0), 1)),
        ("a context", |w| assert_ne!(w.hw_context(0), w.device)),
        ("memory", |w| drop(w.bytes(64))),
        ("a packet", |w| w.submit_packet(w.context(0), &[Command::Timed { ns: 1 }])),
        ("a kernel-mode queue", |w| {
            let queue = w.hw_queue();
            w.on_queue(&queue).run(1, &[Command::Timed { ns: 1 }]).complete();
        }),
        ("the end of a device", |w| {
            let device = w.kernel.create_device().unwrap();
            w.pass(SETTLED_NS);
            assert_eq!(w.adapter().power_down_if_idle(), Ok(DevicePowerState::D3));
            w.kernel.destroy_device(device).unwrap();
        }),
        ("a process", |w| drop(w.machine.open("another").unwrap())),
    ];
    for (what, action) in uses {
        world_with(managed).run(move |w| {
            let queue = w.connected_queue(0);
            w.pass(SETTLED_NS);
            assert_eq!(w.adapter().power_down_if_idle(), Ok(DevicePowerState::D3), "{what}");
            action(w);
            assert_eq!(w.adapter().power_state(), DevicePowerState::D0, "{what}");
            submit(w, &queue, 1);
            w.wait(queue.queue.progress_fence, 1).unwrap();
        });
    }
}

#[test]
fn a_cpu_waiter_does_not_keep_the_device_awake_and_is_released_all_the_same() {
    world_with(managed).run(|w| {
        let (fence, kernel) = (w.native(0), w.kernel.clone());
        let wanted = at(&fence, 1);
        let waiter = w.platform.spawn("waiter", move || {
            kernel.wait_from_cpu(&wanted, tidegate::calls::WaitMode::All, None).unwrap();
        });
        w.pass(SETTLED_NS);
        assert_eq!(w.adapter().power_down_if_idle(), Ok(DevicePowerState::D3));
        w.signal(&fence, 1);
        assert_eq!(waiter.join(), WaitEnd::Woken);
    });
}

#[test]
fn a_call_in_the_middle_of_the_way_down_is_served_and_keeps_the_power() {
    world_with(managed).run(|w| {
        let (queue, fence) = (w.connected_queue(0), Arc::new(w.native(0)));
        let (kernel, platform, wanted) = (w.kernel.clone(), w.platform.clone(), at(&fence, 1));
        // The end of the machine suspends contexts as well.
        w.hooked.once(Entry::SuspendContext, move || {
            let (kernel, no_flags) = (kernel.clone(), tidegate::calls::SignalFlags::empty());
            let other =
                platform.spawn("other", move || kernel.signal_from_cpu(&wanted, no_flags).unwrap());
            assert_eq!(other.join(), WaitEnd::Woken);
        });
        assert_eq!(w.adapter().power_down_if_idle(), Ok(DevicePowerState::D0));
        assert_eq!(fence.value.load(), 1);
        submit(w, &queue, 1);
        w.wait(queue.queue.progress_fence, 1).unwrap();
    });
}

#[test]
fn power_that_does_not_come_back_breaks_the_contract() {
    let (w, _) = world_with(managed).run_to_report(|w| {
        let queue = w.connected_queue(0);
        assert_eq!(w.adapter().power_down_if_idle(), Ok(DevicePowerState::D3));
        w.hooked.fail_next(Entry::SetPowerState, Status::INVALID_PARAMETER);
        assert!(queue.connect().is_err());
    });
    let broken = w.adapter().bug_checks();
    assert!(
        matches!(broken[..], [BugCheck::DdiFailed { ddi: "DxgkDdiSetPowerState", .. }, ..]),
        "{broken:?}"
    );
}

/// Returns the durations and numbers of the records of power with a name.
fn power_records(w: &World) -> impl Fn(&str) -> Vec<(u64, u64)> {
    let trace = w.platform.take_trace("power");
    let lane = trace.lanes.iter().find(|lane| lane.name == "power").unwrap();
    assert_eq!((lane.kind, lane.group.as_str()), (LaneKind::Interrupt, "GPU"));
    let of_power = trace.records.iter().filter(|r| r.lane == lane.id);
    let records: Vec<_> = of_power
        .map(|r| {
            assert_eq!(r.kind, Kind::Mark);
            (trace.names.get(r.name).to_owned(), (r.duration_ns(), r.arg))
        })
        .collect();
    move |what| {
        let of_name = records.iter().filter(|(name, _)| name == what);
        of_name.map(|(_, parts)| *parts).collect()
    }
}

/// Each transition is on the lane of its adapter's power, with its duration, and with the number of
/// its engine.
#[test]
fn the_timeline_shows_power_and_suspensions() {
    const CALL_NS: u64 = 700;
    let w = with_idle_engines();
    w.platform.enable_tracing();
    let w = w.run(|w| {
        let queue = w.connected_queue(1);
        for entry in [Entry::SetPowerComponentFState, Entry::SetPowerState] {
            let platform = w.platform.clone();
            w.hooked.on(entry, move || platform.busy(CALL_NS));
        }
        submit(w, &queue, 1);
        w.wait(queue.queue.progress_fence, 1).unwrap();
        w.pass(SETTLED_NS);
        assert_eq!(w.adapter().power_down_if_idle(), Ok(DevicePowerState::D3));
        submit(w, &queue, 2);
        w.wait(queue.queue.progress_fence, 2).unwrap();
    });
    let of = power_records(&w);
    for what in ["F0 to F1", "F1 to F0"] {
        assert!(of(what).contains(&(CALL_NS, 1)), "{what} of node 1: {:?}", of(what));
    }
    for what in ["D0 to D3", "D3 to D0"] {
        assert_eq!(of(what), [(CALL_NS, 0)], "{what}");
    }
    // A suspension has the number of its suspend fence, and a resume is an instant.
    assert_eq!(of("suspend context"), [(0, 1)]);
    assert_eq!(of("resume context"), [(0, 0)]);
}

#[test]
fn the_timeline_shows_power_that_is_not_taken() {
    let w = world_with(managed);
    w.platform.enable_tracing();
    let w = w.run(|w| {
        let queue = w.connected_queue(1);
        queue.doorbell.last_queued.store(1);
        queue.put(&w.execute_packet(&[Command::Timed { ns: 5 * SETTLED_NS }], 1));
        offer(w, 1);
        assert_eq!(w.adapter().power_down_if_idle(), Ok(DevicePowerState::D0));
        w.wait(queue.queue.progress_fence, 1).unwrap();
    });
    let of = power_records(&w);
    assert_eq!(of("F0, not F1"), [(0, 1)], "node 1");
    assert_eq!((of("D0, not D3").len(), w.stats().power_downs_given_up), (1, 2));
    for what in ["F0 to F1", "D0 to D3"] {
        assert_eq!(of(what), [], "{what}");
    }
}

// spec: PRE-093
#[test]
fn an_adapter_that_is_gone_changes_no_power() {
    for change in [managed, |_: &mut MachineConfig| ()] {
        world_with(change).run(|w| {
            w.adapter().remove();
            let removed = Err(Status::DEVICE_REMOVED);
            assert_eq!(w.adapter().set_power_state(DevicePowerState::D0), removed);
            assert_eq!(w.adapter().set_power_state(DevicePowerState::D3), removed);
            assert_eq!(w.adapter().power_down_if_idle(), removed);
            assert_eq!(w.adapter().suspend_contexts().map(|_| ()), removed.map(|_| ()));
        });
    }
}
