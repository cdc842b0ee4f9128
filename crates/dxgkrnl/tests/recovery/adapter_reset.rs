//! The reset of an adapter: the published order, which devices are lost, and what works afterwards.

use tidegate::trace::Kind;
use tidegate_testbed::prelude::*;

const S: u64 = 1_000_000_000;
const SETTLED_NS: u64 = 1_000_000;

fn is_reset(state: Result<DeviceState, Status>) -> bool {
    matches!(state, Ok(DeviceState::Reset(_)))
}

// spec: PRE-052
#[test]
fn an_adapter_is_reset_in_the_published_order() {
    world().run(|w| {
        let owner = w.client("owner");
        let made = owner.allocate_in(64 << 10, Placement::Local);
        let AllocationMemory::Window(window) = &made.memory else { panic!("it moves") };
        window.write(0, &[7; 16]).unwrap();
        let busy = w.hw_queue();
        w.submit(&busy, 1, &[Command::Timed { ns: S }]);
        w.pass(SETTLED_NS);
        w.driver.take();
        let number = w.number(busy.handle);
        w.kernel.debug_timeouts(TdrTest::ForceTdr).unwrap();
        let calls = w.driver.take();
        let place =
            |what: &dyn Fn(&tidegate::ddi::DdiCall) -> bool| calls.iter().position(what).unwrap();
        let reset = place(&|c| c.name() == "ResetFromTimeout");
        let nothing = |op: &Paging| matches!(op, Paging::VirtualTransfer { bytes: 0, .. });
        let lost = place(&|c| c.paging().is_some_and(nothing));
        let restart = place(&|c| c.name() == "RestartFromTimeout");
        assert!(reset < lost && lost < restart, "{calls:?}");
        // The content of local memory is lost, and so are the devices that own it.
        let mut bytes = [1; 16];
        window.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 16]);
        assert!(is_reset(owner.state()) && is_reset(w.state()));
        assert_eq!(w.adapter().local_memory_use().used_bytes, 0);
        let report = w.adapter().recoveries().pop().unwrap();
        assert_eq!((report.code, &report.outcome), (0x117, &RecoveryOutcome::AdapterReset));
        assert_eq!(report.lost, [(number, false)], "the owner has no queue to be named by");
    });
}

// spec: PRE-052
#[test]
fn a_device_without_work_and_memory_goes_on_and_new_devices_work() {
    world().run(|w| {
        let idle = w.client("idle");
        let queue = idle.hw_queue_on(0);
        idle.on_queue(&queue).run(1, &[Command::Timed { ns: 1000 }]).finish();
        let users = [w.connected_queue(0), w.connected_queue(1)];
        users[0].doorbell.last_queued.store(1);
        w.kernel.debug_timeouts(TdrTest::ForceTdr).unwrap();
        assert!(is_reset(w.state()), "it had announced work");
        for user in &users {
            assert_eq!(user.doorbell.status.load(), DoorbellStatus::DisconnectedAbort as u64);
        }
        idle.on_queue(&queue).run(2, &[Command::Timed { ns: 1000 }]).finish();
        let new = w.client("new");
        let (packets, queue) = (new.context(1), new.hw_queue_on(1));
        new.allocate_in(64 << 10, Placement::Local);
        new.submit_packet(packets, &[Command::Timed { ns: 1000 }]);
        new.on_queue(&queue).run(1, &[Command::Timed { ns: 1000 }]).finish();
    });
}

#[test]
fn fences_of_the_lost_pass_and_their_waiters_go() {
    world().run(|w| {
        let fence = w.native(0);
        let context = w.context(0);
        w.on(context).run(&[Command::Timed { ns: 30 * S }]).signal(&fence, 1);
        let passed = w.wait_event(&fence, 1);
        w.pass(SETTLED_NS);
        w.kernel.debug_timeouts(TdrTest::ForceTdr).unwrap();
        assert!(passed.is_set());
        assert!(w.wait(fence.handle, 1).is_err());
    });
}

// spec: PRE-052
#[test]
fn a_reset_that_fails_stops_the_adapter() {
    for entry in [Entry::ResetFromTimeout, Entry::RestartFromTimeout] {
        let (w, _) = world().run_to_report(move |w| {
            w.hooked.fail_next(entry, Status::INVALID_PARAMETER);
            assert_eq!(w.kernel.debug_timeouts(TdrTest::ForceTdr), Err(Status::DEVICE_REMOVED));
        });
        let broken = w.adapter().bug_checks();
        assert!(matches!(broken[..], [BugCheck::RecoveryFailed { .. }]), "{broken:?}");
        assert_eq!(broken[0].code(), Some((0x116, 0)));
        drop(w);
    }
}

#[test]
fn a_reset_waits_for_threads_in_the_driver_with_a_time_limit() {
    for (stays_s, fatal) in [(3, false), (20, true)] {
        let (w, _) = world().run_to_report(move |w| {
            let platform = w.platform.clone();
            w.hooked.on(Entry::CreateHwQueue, move || {
                _ = platform.sleep_until(platform.now().after(stays_s * S))
            });
            let other = w.client("in the driver");
            let inside = w.platform.spawn("in the driver", move || _ = other.hw_queue_on(0));
            w.pass(SETTLED_NS);
            let before = w.platform.now();
            assert_eq!(w.kernel.debug_timeouts(TdrTest::ForceTdr).is_err(), fatal);
            let waited_s = w.platform.now().since(before).div_ceil(S);
            assert_eq!(waited_s, if fatal { 5 } else { stays_s });
            inside.join();
        });
        assert_eq!(w.adapter().bug_checks() == [BugCheck::StuckInDriver], fatal);
        drop(w);
    }
}

/// The agent with the right to submit packets is in the driver. Engines are stopped under that
/// right, for which the reset waits as long as for other calls.
#[test]
fn a_reset_waits_for_the_right_to_submit_packets_with_a_time_limit() {
    for (stays_s, takes_s) in [(3, 3), (20, 10)] {
        let fatal = takes_s != stays_s;
        let patches = |config: &mut MachineConfig| config.driver.dma_patching = true;
        let (w, _) = world_with(patches).run_to_report(move |w| {
            let platform = w.platform.clone();
            w.hooked.once(Entry::Patch, move || {
                _ = platform.sleep_until(platform.now().after(stays_s * S))
            });
            let other = w.client("in the driver");
            let context = other.context(0);
            let inside = w.platform.spawn("in the driver", move || {
                let mut writer = CommandWriter::new();
                writer.push(&Command::Timed { ns: 1 });
                let (contexts, commands) = (&[context], &writer.to_bytes());
                let _lost = other.kernel.render(Render { contexts, commands, allocations: &[] });
            });
            w.pass(SETTLED_NS);
            let before = w.platform.now();
            assert_eq!(w.kernel.debug_timeouts(TdrTest::ForceTdr).is_err(), fatal);
            assert_eq!(w.platform.now().since(before).div_ceil(S), takes_s);
            inside.join();
        });
        assert_eq!(w.adapter().bug_checks() == [BugCheck::StuckInDriver], fatal);
        drop(w);
    }
}

#[test]
fn a_call_during_the_reset_waits_until_it_is_done() {
    world().run(|w| {
        let platform = w.platform.clone();
        w.hooked
            .on(Entry::ResetFromTimeout, move || _ = platform.sleep_until(platform.now().after(S)));
        let other = w.client("late");
        let (platform, driver) = (w.platform.clone(), w.driver.clone());
        let late = w.platform.spawn("late", move || {
            platform.sleep_until(platform.now().after(SETTLED_NS));
            driver.take();
            let queue = other.hw_queue_on(0);
            let names: Vec<_> = driver.take().into_iter().map(|c| c.name()).collect();
            assert!(!names.contains(&"ResetFromTimeout"), "{names:?}");
            other.on_queue(&queue).run(1, &[Command::Timed { ns: 10 }]).finish();
        });
        w.kernel.debug_timeouts(TdrTest::ForceTdr).unwrap();
        assert_eq!(w.platform.now().0 / S, 1);
        late.join();
    });
}

/// A recovery is a band with its published code. The recovery of an engine has its steps as marks.
#[test]
fn the_timeline_shows_recoveries_with_their_codes_and_steps() {
    let w = world();
    w.platform.enable_tracing();
    let w = w.run(|w| {
        let client = w.client("hangs");
        client.submit_packet(client.context(0), &[Command::Hang]);
        w.pass(10 * S);
        w.kernel.debug_timeouts(TdrTest::ForceTdr).unwrap();
    });
    let trace = w.platform.take_trace("recoveries");
    let lane = trace.lanes.iter().find(|lane| lane.name == "recovery").unwrap();
    assert_eq!((lane.kind, lane.group.as_str()), (LaneKind::Interrupt, "GPU"));
    let of_kind = |kind| {
        let records = trace.records.iter().filter(|r| (r.lane, r.kind) == (lane.id, kind));
        let mut shown: Vec<_> =
            records.map(|r| (r.start_ns, trace.names.get(r.name).to_owned(), r.arg)).collect();
        shown.sort_by_key(|(start_ns, ..)| *start_ns);
        shown.into_iter().map(|(_, name, code)| (name, code)).collect::<Vec<_>>()
    };
    let recovery = |name: &str, code| (name.to_owned(), code);
    assert_eq!(
        of_kind(Kind::Recovery),
        [recovery("recovery of node 0", 0x141), recovery("adapter reset", 0x117)]
    );
    let steps = of_kind(Kind::Mark);
    let [detected, others @ ..] = &steps[..] else { panic!("no step") };
    let reason = "detected: node 0 did not answer a preemption request within TdrDelay";
    assert!(detected.0.starts_with(reason), "{detected:?}");
    let others: Vec<&str> = others.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        others,
        ["engine suspended and reset", "work that was cut off is lost", "engine resumed"]
    );
}

/// A reset meets a call of this entry, for which the driver calls the kernel, and the kernel the
/// driver.
fn reset_meets(entry: Entry, call: fn(&Client, tidegate::calls::Handle)) {
    world_with(|config| config.driver.save_areas = true).run(move |w| {
        let (other, platform) = (w.client("in the driver"), w.platform.clone());
        let context = other.context(0);
        w.pass(SETTLED_NS);
        w.hooked.on(entry, move || _ = platform.sleep_until(platform.now().after(S)));
        let inside = w.platform.spawn("in the driver", move || call(&other, context));
        w.pass(SETTLED_NS);
        let before = w.platform.now();
        w.kernel.debug_timeouts(TdrTest::ForceTdr).unwrap();
        assert_eq!(w.platform.now().since(before).div_ceil(S), 1, "it waits for the call");
        inside.join();
    });
}

// spec: PRE-142
#[test]
fn a_reset_waits_for_a_context_that_ends_its_save_area() {
    reset_meets(Entry::DestroyContext, |client, context| {
        client.kernel.destroy_context(context).unwrap();
    });
}

// spec: PRE-142
#[test]
fn a_reset_waits_for_a_context_that_makes_its_save_area() {
    reset_meets(Entry::CreateContext, |client, _| _ = client.context(0));
}

/// The agent that powers the device waits at the driver's gate, and the reset for the power.
// spec: PRE-142
#[test]
fn a_reset_while_the_device_gets_power_waits_for_the_power_first() {
    let managed = |config: &mut MachineConfig| {
        config.kernel.power = PowerManagement::Managed;
    };
    world_with(managed).run(|w| {
        let local = w.allocate_in(64 << 10, Placement::Local);
        let d3 = w.adapter().set_power_state(DevicePowerState::D3).unwrap();
        assert_eq!(d3, DevicePowerState::D3);
        let platform = w.platform.clone();
        w.hooked
            .on(Entry::SetPowerState, move || _ = platform.sleep_until(platform.now().after(S)));
        let adapter = w.adapter().clone();
        let waking = w.platform.spawn("waking", move || {
            adapter.set_power_state(DevicePowerState::D0).unwrap();
        });
        w.pass(SETTLED_NS);
        w.kernel.debug_timeouts(TdrTest::ForceTdr).unwrap();
        waking.join();
        assert_eq!(w.adapter().bug_checks(), []);
        drop(local);
    });
}
