//! What the driver says about an engine while the kernel decides: reports that come twice, answers
//! that are out of date, and a reset whose culprit is not the packet that it cut off.

use crate::timeouts::hung;
use tidegate_testbed::prelude::*;

const S: u64 = 1_000_000_000;
/// As long as nothing that the tests do takes.
const SETTLED_NS: u64 = 1_000_000;
const HUNG: InterruptData =
    InterruptData::EngineStateChange { engine: EngineId::of_node(0), new_state: EngineState::Hung };

fn hang(w: &World) -> HwQueue {
    let queue = w.hw_queue();
    w.submit(&queue, 1, &[Command::Hang]);
    w.pass(SETTLED_NS);
    queue
}

/// Without recovery no engine is reset. A hang that the driver reports still costs its device, so
/// that its waiters are released.
#[test]
fn without_recovery_a_hang_that_the_driver_reports_costs_its_device_alone() {
    world_with(|config| config.kernel.tdr.level = TdrLevel::Off).run(|w| {
        let n = w.client("innocent");
        let elsewhere = n.hw_queue_on(1);
        let queue = hang(w);
        // A hung packet of another engine is not looked for either.
        let stuck = w.client("a hung packet");
        stuck.submit_packet(stuck.context(2), &[Command::Hang]);
        w.pass(30 * S);
        w.driver.take();
        w.hooked.raise(&[HUNG]);
        assert_eq!(w.wait(queue.progress_fence, 1), Err(Status::DEVICE_REMOVED));
        let Ok(DeviceState::Hung(report)) = w.state() else { panic!("{:?}", w.state()) };
        assert_eq!(report.queue, w.number(queue.handle));
        let calls = w.driver.take_names();
        let resets = ["ResetHwEngine", "ResetEngine", "ResetFromTimeout", "PreemptCommand"];
        assert!(!calls.iter().any(|call| resets.contains(call)), "{calls:?}");
        assert_eq!(w.adapter().recoveries(), []);
        assert_eq!(stuck.state(), Ok(DeviceState::Active));
        n.on_queue(&elsewhere).run(1, &[Command::Timed { ns: 1000 }]).finish();
    });
}

/// The first report of an engine is served by one reset, which serves the second one as well.
#[test]
fn a_hang_that_is_reported_twice_is_one_recovery() {
    world().run(|w| {
        let n = w.client("innocent");
        let queue = hang(w);
        w.hooked.raise(&[HUNG, HUNG]);
        assert!(w.wait(queue.progress_fence, 1).is_err());
        let next = n.hw_queue_on(0);
        n.on_queue(&next).run(1, &[Command::Timed { ns: 1000 }]).finish();
        w.pass(SETTLED_NS);
        assert_eq!(w.adapter().recoveries().len(), 1);
        assert!(hung(w.state()));
    });
}

/// A report that an engine is active asks for nothing: its power and its work stay as they are.
#[test]
fn a_report_that_an_engine_is_active_changes_nothing() {
    world_with(|config| config.kernel.power = PowerManagement::Managed).run(|w| {
        let queue = w.connected_queue(0);
        w.driver.take();
        w.hooked.raise(&[engine_state_change(0, EngineState::Active)]);
        w.pass(SETTLED_NS);
        assert_eq!((w.driver.take_names(), w.adapter().recoveries()), (vec![], vec![]));
        let engine = w.adapter().engine_power_state(EngineId::of_node(0));
        assert_eq!((engine, queue.status()), (ComponentState::F0, DoorbellStatus::Connected));
    });
}

/// A process may ring without an announcement, so the kernel knows of no work. The context that the
/// driver names is the culprit, and the device of another waiting queue is innocent.
// spec: PRE-104
#[test]
fn unannounced_work_that_hangs_is_blamed_on_the_context_that_the_driver_names() {
    world().run(|w| {
        let (guilty, innocent) = (w.client("guilty"), w.client("innocent"));
        let (waits, gate) = (innocent.connected_queue(0), innocent.native(0));
        waits.doorbell.last_queued.store(1);
        waits.wait(&gate, 1);
        waits.push(&innocent.execute_packet(&[Command::Timed { ns: 1000 }], 1));
        let silent = guilty.connected_queue(0);
        silent.push(&guilty.execute_packet(&[Command::Hang], 1));
        w.pass(20 * S);
        assert!(hung(guilty.state()), "{:?}", guilty.state());
        assert_eq!(innocent.state(), Ok(DeviceState::Active));
        innocent.signal(&gate, 1);
        innocent.wait(waits.queue.progress_fence, 1).unwrap();
    });
}

/// How the context that a driver names comes to be unknown.
#[derive(Clone, Copy, Debug)]
enum Gone {
    /// It has ended between the driver's answer and the kernel's look, so the next answer is right.
    Ended,
    /// Its end is under way.
    Ending,
}

/// An answer that was right when it was given is no fault of the driver.
// spec: PRE-103
#[test]
fn a_driver_that_names_a_context_which_has_just_ended_is_not_accused() {
    for gone in [Gone::Ended, Gone::Ending] {
        let platform = Platform::virtual_time(StepCosts::free());
        let named = platform.page(1).word(0);
        let (answer, once) = (named.clone(), matches!(gone, Gone::Ended));
        let overrides = Overrides::default().query_engine_status(move |inner, level, engine| {
            let status = inner.query_engine_status(level, engine)?;
            let handle = if once { answer.exchange(0) } else { answer.load() };
            let is_named = handle != 0 && engine.node_ordinal == 0;
            let hw_context = if is_named { Some(OsHandle(handle)) } else { status.hw_context };
            Ok(EngineStatus { hw_context, ..status })
        });
        setup(|_| ()).on(platform).overriding(overrides).start().run(move |w| {
            let long = w.hw_queue();
            w.submit(&long, 1, &[Command::Timed { ns: 10 * S }]);
            let n = w.client("ends");
            let queue = n.hw_queue_on(0);
            let os_handle = w.calls().contexts.last().unwrap().0.os_handle.0;
            match gone {
                Gone::Ended => {
                    drop(queue);
                    n.kernel.destroy_device(n.device).unwrap();
                    named.store(os_handle);
                    w.pass(9 * S);
                    assert_eq!(named.load(), 0, "the driver was asked");
                }
                Gone::Ending => {
                    let (platform, answer) = (w.platform.clone(), named.clone());
                    w.hooked.once(Entry::DestroyContext, move || {
                        answer.store(os_handle);
                        platform.sleep_until(platform.now().after(6 * S));
                        answer.store(0);
                    });
                    n.kernel.destroy_device(n.device).unwrap();
                }
            }
            w.wait(long.progress_fence, 1).unwrap();
            let faults = w.adapter().driver_faults();
            assert_eq!((faults, w.adapter().recoveries()), (vec![], vec![]), "{gone:?}");
            assert_eq!(w.state(), Ok(DeviceState::Active));
        });
    }
}

/// An engine that no hardware queue can use has nothing to say about hangs of such queues.
#[test]
fn an_engine_without_hardware_queues_is_not_asked_for_their_progress() {
    let packets_only = |caps: &mut AdapterCaps| {
        caps.nodes[2].context_scheduling = false;
        caps.nodes[2].user_mode_submission = false;
    };
    setup(|_| ()).caps(packets_only).start().run(|w| {
        let queue = w.hw_queue();
        w.driver.take();
        w.submit(&queue, 1, &[Command::Timed { ns: 10 * S }]);
        w.wait(queue.progress_fence, 1).unwrap();
        let asked = |call: DdiCall| match call {
            DdiCall::QueryEngineStatus { engine } => Some(engine.node_ordinal),
            _ => None,
        };
        let asked: BTreeSet<u32> = w.driver.take().into_iter().filter_map(asked).collect();
        assert_eq!(asked, BTreeSet::from([0, 1]));
    });
}

/// Returns a process with a hardware queue that the driver will name in the next call of an entry.
fn named_at(w: &World, entry: Entry) -> (Client, HwQueue) {
    let guilty = w.client("guilty");
    let queue = guilty.hw_queue_on(0);
    let os_handle = w.calls().contexts.last().unwrap().0.os_handle;
    let callbacks = w.hooked.start_info().callbacks;
    w.hooked.on(entry, move || {
        let loss = HwContextLoss::Culprit;
        callbacks.invalidate_hw_context(&Passive::enter(), os_handle, loss).unwrap();
    });
    (guilty, queue)
}

/// What the driver names in the reset of an engine is cut off, whatever follows that reset.
// spec: PRE-173
#[test]
fn a_named_hardware_queue_is_lost_if_the_reset_of_its_engine_becomes_the_adapter_s() {
    for (entry, has_packets) in [(Entry::ResetEngine, true), (Entry::ResetHwEngine, false)] {
        world().run(move |w| {
            let (n, idle) = (w.client("bystander"), w.client("idle"));
            let (guilty, _queue) = named_at(w, entry);
            if has_packets {
                n.submit_packet(n.context(0), &[Command::Timed { ns: 100 * S }]);
            }
            w.pass(SETTLED_NS);
            w.hooked.fail_next(entry, Status::UNSUCCESSFUL);
            let engine = TdrTest::EngineTdr { node_ordinal: 0, engine_ordinal: 0 };
            w.kernel.debug_timeouts(engine).unwrap();
            let outcome = &w.adapter().recoveries()[0].outcome;
            assert_eq!(outcome, &RecoveryOutcome::AdapterReset);
            assert!(hung(guilty.state()), "{entry:?}: {:?}", guilty.state());
            assert_eq!(matches!(n.state(), Ok(DeviceState::Reset(_))), has_packets);
            assert_eq!(idle.state(), Ok(DeviceState::Active));
        });
    }
}

/// The reset of an engine cuts off its packet, and the driver names the hardware queue that hung.
// spec: PRE-104
#[test]
fn a_packet_that_a_reset_cuts_off_is_a_bystander_if_the_driver_names_a_hardware_queue() {
    world().run(|w| {
        let n = w.client("bystander");
        let (guilty, _queue) = named_at(w, Entry::ResetEngine);
        let context = n.context(0);
        n.submit_packet(context, &[Command::Timed { ns: 100 * S }]);
        w.pass(SETTLED_NS);
        let engine = TdrTest::EngineTdr { node_ordinal: 0, engine_ordinal: 0 };
        w.kernel.debug_timeouts(engine).unwrap();
        assert!(matches!(n.state(), Ok(DeviceState::Reset(_))), "{:?}", n.state());
        assert!(hung(guilty.state()), "{:?}", guilty.state());
        assert_eq!(w.state(), Ok(DeviceState::Active));
        w.on(w.context(0)).run(&[Command::Timed { ns: 1000 }]).complete();
    });
}
