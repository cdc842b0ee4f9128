//! The order of waits on a whole machine: mixed work closes no circle of locks and waits, and a
//! circle of a driver is named although no agent was blocked.

// A release build records no order of waits outside of explorations.
#![cfg(debug_assertions)]

use tidegate_testbed::prelude::*;

/// Work of each submission model on two engines, between calls that make and free memory and that
/// move it, and then both power states.
fn mixed_work(w: &World) {
    let (submits, allocates) = (w.client("submits"), w.client("allocates"));
    let (context, packets_done) = (submits.context(0), submits.monitored(0));
    let (user_queue, user_done) = (submits.connected_queue(1), submits.native(0));
    let hw_queue = submits.hw_queue_on(1);
    let paging = allocates.paging_queue();
    let timed = [const { Command::Timed { ns: 5_000 } }; 4];
    for round in 1..=4 {
        for _ in 0..4 {
            submits.submit_packet(context, &timed);
            user_queue.put(&submits.execute_packet(&timed, 0));
        }
        submits.on(context).signal(&packets_done, round);
        user_queue.signal(&user_done, round);
        submits.submit(&hw_queue, round, &timed);
        let allocation = allocates.allocate_in(4096, Placement::LocalOnDemand);
        if let Residency::Pending { paging_fence_value } =
            allocates.make_resident(&paging, &[&allocation])
        {
            allocates.wait(paging.fence.handle, paging_fence_value).unwrap();
        }
        allocates.kernel.destroy_allocation(allocation.handle).unwrap();
        submits.wait(packets_done.handle, round).unwrap();
        submits.wait(user_done.handle, round).unwrap();
        submits.wait_progress(&hw_queue, round).unwrap();
    }
    w.pass(1_000_000);
    assert_eq!(w.adapter().set_power_state(DevicePowerState::D3), Ok(DevicePowerState::D3));
    submits.on(context).run(&timed).signal_and_wait(&packets_done, 5);
}

#[test]
fn mixed_work_closes_no_circle_of_waits() {
    for interrupts in [InterruptDelivery::Inline, InterruptDelivery::Worker] {
        let w = world_with(|config| {
            config.kernel.interrupts = interrupts;
            config.kernel.power = PowerManagement::Managed;
        });
        // The run is not complete with a circle.
        let w = w.run(mixed_work);
        drop(w);
    }
}

#[test]
fn mixed_work_on_threads_closes_no_circle_of_waits() {
    let managed = |config: &mut MachineConfig| config.kernel.power = PowerManagement::Managed;
    setup(managed).on(Platform::closed_host()).start().run(mixed_work);
}

/// The standstill of the machine that shipped: the driver waited for the end of a turn with its
/// mailbox locked, and a DPC on that engine's thread wanted the mailbox. In this run the engine is
/// idle when the driver waits.
#[test]
fn a_mailbox_that_is_locked_over_a_wait_for_a_turn_is_named_without_a_standstill() {
    let platform = Platform::virtual_time(StepCosts::free());
    platform.plant(PlantedFault::SleepsWithTheMailbox);
    let inline = |config: &mut MachineConfig| config.kernel.interrupts = InterruptDelivery::Inline;
    let (w, report) = setup(inline).on(platform).start().run_to_report(|w| {
        let (context, done) = (w.context(0), w.monitored(0));
        // The DPC of the first packet submits the next one.
        for _ in 0..8 {
            w.submit_packet(context, &[Command::Timed { ns: 5_000 }]);
        }
        w.on(context).signal_and_wait(&done, 1);
        let allocation = w.allocate(4096, AllocationKind::Bulk);
        w.kernel.destroy_allocation(allocation.handle).unwrap();
    });
    assert!(report.blocked.is_empty() && report.panics.is_empty(), "{report:?}");
    let circles = w.machine.platform().take_wait_circles();
    let shortest = circles.iter().min_by_key(|circle| circle.len()).expect("a circle");
    for part in [
        "'kmd mailbox', then the wait for 'the end of an engine's turn'",
        "'the end of an engine's turn', then the lock 'kmd mailbox', in agent 'gpu",
    ] {
        assert!(shortest.contains(part), "{part} is missing: {circles:#?}");
    }
}

/// The driver's deferred routine takes a lock that is also held over a call whose end needs a DPC.
/// In this run the routine takes it at another time.
#[test]
fn a_circle_of_a_driver_is_named_without_a_standstill() {
    let platform = Platform::virtual_time(StepCosts::free());
    let lock: Arc<Mutex<()>> = Arc::new(platform.mutex("a lock of a driver", ()));
    let takes = platform.page(1).word(0);
    takes.store(1);
    let overrides = {
        let (lock, takes) = (lock.clone(), takes.clone());
        Overrides::default().dpc_routine(move |inner, level| {
            let _held = (takes.load() == 1).then(|| lock.lock_device());
            inner.dpc_routine(level);
        })
    };
    let world = setup(|config| config.kernel.power = PowerManagement::Managed)
        .on(platform)
        .overriding(overrides)
        .start();
    let (w, report) = world.run_to_report(move |w| {
        let context = w.context(0);
        w.on(context).run(&[Command::Timed { ns: 5_000 }]).complete();
        w.pass(1_000_000);
        takes.store(0);
        // It suspends contexts, and waits for the acknowledgements.
        let _queue = w.connected_queue(1);
        let _held = lock.lock_device();
        w.adapter().set_power_state(DevicePowerState::D3).unwrap();
    });
    assert!(report.blocked.is_empty() && report.panics.is_empty(), "{report:?}");
    let circles = w.machine.platform().take_wait_circles();
    let [circle] = &circles[..] else { panic!("{circles:?}") };
    for part in [
        "'a lock of a driver', then the wait for 'the acknowledgement of a context suspension'",
        "'the acknowledgement of a context suspension' is ended by 'a DPC'",
        "'a DPC', then the lock 'a lock of a driver'",
    ] {
        assert!(circle.contains(part), "{part} is missing: {circle}");
    }
}
