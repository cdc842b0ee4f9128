//! Timeout detection and recovery of hardware queues on a manual clock: which queues count as hung,
//! which devices are lost, and what is reported.

use tidegate::dxgkrnl::RecoveryReport;
use tidegate_testbed::prelude::*;

const S: u64 = 1_000_000_000;
/// As long as nothing that the tests do takes.
const SETTLED_NS: u64 = 1_000_000;

pub(crate) fn hung(state: Result<DeviceState, Status>) -> bool {
    matches!(state, Ok(DeviceState::Hung(_)))
}

fn only_report(w: &World) -> RecoveryReport {
    let reports = w.adapter().recoveries();
    assert_eq!(reports.len(), 1, "{reports:?}");
    reports.into_iter().next().unwrap()
}

// spec: PRE-002, PRE-026, PRE-053
#[test]
fn a_queue_that_hangs_is_suspended_first_and_costs_its_device_alone() {
    world().run(|w| {
        let n = w.client("innocent");
        let number = {
            let (guilty, innocent) = (w.hw_queue(), n.hw_queue_on(0));
            w.submit(&guilty, 1, &[Command::Hang]);
            n.submit(&innocent, 1, &[Command::Timed { ns: 1000 }]);
            w.driver.take();
            assert_eq!(w.wait(guilty.progress_fence, 1), Err(Status::DEVICE_REMOVED));
            // Checked after the delay, suspended, and reset after another delay.
            assert_eq!(w.platform.now().0 / S, 4);
            let calls = w.driver.take_names();
            let of_recovery =
                ["SuspendContext", "ResetHwEngine", "ResumeHwEngine", "ResetFromTimeout"];
            let recovery: Vec<_> =
                calls.into_iter().filter(|name| of_recovery.contains(name)).collect();
            assert_eq!(recovery, ["SuspendContext", "ResetHwEngine", "ResumeHwEngine"]);
            assert!(hung(w.state()));
            n.finish(&innocent, 1);
            n.on_queue(&innocent).run(2, &[Command::Timed { ns: 1000 }]).finish();
            // A new device of the same process works as well.
            let again = w.kernel.create_device().unwrap();
            assert_eq!(w.kernel.device_state(again), Ok(DeviceState::Active));
            w.number(guilty.handle)
        };
        let report = only_report(w);
        assert_eq!((report.code, &report.outcome), (0x141, &RecoveryOutcome::EngineReset));
        assert_eq!(report.lost, [(number, true)]);
        let text = report.to_string();
        for part in [
            "hangs in the command buffer that says progress 1",
            "driver: node 0",
            "does not respond",
            "HUNG",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    });
}

#[test]
fn a_user_mode_queue_that_hangs_is_found_without_a_call_of_its_process() {
    world().run(|w| {
        let (guilty, other) = (w.connected_queue(0), w.connected_queue(1));
        let packet = w.execute_packet(&[Command::Hang], 1);
        guilty.doorbell.last_queued.store(1);
        guilty.push(&packet);
        assert!(w.wait(guilty.queue.progress_fence, 1).is_err());
        assert!(hung(w.state()));
        for queue in [&guilty, &other] {
            assert_eq!(queue.doorbell.status.load(), DoorbellStatus::DisconnectedAbort as u64);
        }
    });
}

// spec: PRE-027
#[test]
fn a_queue_that_waits_is_not_hung_however_long() {
    world().run(|w| {
        let (waiter, gate) = (w.connected_queue(0), w.native(0));
        waiter.doorbell.last_queued.store(1);
        waiter.wait(&gate, 1);
        w.pass(30 * S);
        assert_eq!(w.adapter().recoveries(), []);
        let called = w.driver.take_names();
        assert!(!called.contains(&"SuspendContext"), "a waiting queue is not suspended");
        waiter.push(&w.execute_packet(&[Command::Timed { ns: 10 }], 1));
        w.signal(&gate, 1);
        w.wait(waiter.queue.progress_fence, 1).unwrap();
        assert_eq!(w.state(), Ok(DeviceState::Active));
    });
}

#[test]
fn long_work_on_an_engine_that_lets_go_is_no_hang_and_on_one_that_does_not_it_is() {
    use tidegate::d3dukmdt::ComputePreemption;
    for coarse in [false, true] {
        let change = move |config: &mut MachineConfig| {
            if coarse {
                config.gpu.nodes[0].preemption.compute = ComputePreemption::DmaBuffer;
            }
        };
        world_with(change).run(move |w| {
            let queue = w.hw_queue();
            w.submit(&queue, 1, &[Command::Timed { ns: 20 * S }]);
            assert_eq!(w.wait(queue.progress_fence, 1).is_err(), coarse);
            assert_eq!(hung(w.state()), coarse);
            assert_eq!(w.adapter().recoveries().len(), usize::from(coarse));
        });
    }
}

#[test]
fn an_idle_machine_stays_idle() {
    world().run(|w| {
        let queue = w.hw_queue();
        w.on_queue(&queue).run(1, &[Command::Timed { ns: 10 }]).complete();
        w.pass(10 * S);
        w.driver.take();
        w.pass(100 * S);
        assert_eq!(w.driver.take_names(), Vec::<&str>::new());
    });
}

/// Hangs and waits until it is over.
fn hang_once(w: &World) {
    let n = w.client("guilty");
    let queue = n.hw_queue_on(0);
    n.submit(&queue, 1, &[Command::Hang]);
    assert!(n.wait_progress(&queue, 1).is_err());
}

// spec: PRE-044
#[test]
fn four_engine_time_outs_in_a_minute_are_survived_and_the_fifth_is_fatal() {
    let (w, _) = world().run_to_report(|w| {
        for _ in 0..5 {
            hang_once(w);
        }
    });
    let reports = w.adapter().recoveries();
    let codes: Vec<u32> = reports.iter().map(|r| r.code).collect();
    assert_eq!(codes, [0x141, 0x141, 0x141, 0x141, 0x116]);
    let broken = w.adapter().bug_checks();
    assert!(matches!(broken[..], [BugCheck::TooManyTimeouts(_)]), "{broken:?}");
    assert_eq!(broken[0].code(), Some((0x116, 0)));
    assert_eq!(w.state(), Ok(DeviceState::Stopped));
}

// spec: PRE-044
#[test]
fn five_adapter_resets_in_a_minute_are_survived_and_the_sixth_is_fatal() {
    let (w, _) = world().run_to_report(|w| {
        for _ in 0..5 {
            w.kernel.debug_timeouts(TdrTest::ForceTdr).unwrap();
            w.pass(10 * S);
        }
        assert_eq!(w.state(), Ok(DeviceState::Active), "it had no work and no memory");
        assert_eq!(w.kernel.debug_timeouts(TdrTest::GpuTdr), Err(Status::DEVICE_REMOVED));
    });
    let outcomes: Vec<_> = w.adapter().recoveries().into_iter().map(|r| r.outcome).collect();
    assert_eq!(outcomes[..5], [const { RecoveryOutcome::AdapterReset }; 5]);
    assert!(matches!(outcomes[5], RecoveryOutcome::Fatal(_)));
}

#[test]
fn a_minute_later_they_are_forgotten_and_unconditionally_they_are_not_counted() {
    world().run(|w| {
        for _ in 0..12 {
            w.kernel.debug_timeouts(TdrTest::ForceTdr).unwrap();
            w.pass(12 * S);
        }
        w.kernel.debug_timeouts(TdrTest::Unconditional).unwrap();
        for _ in 0..12 {
            w.kernel.debug_timeouts(TdrTest::ForceTdr).unwrap();
        }
        assert_eq!(w.adapter().recoveries().len(), 16, "more are not kept");
        assert_eq!(w.adapter().recoveries().last().unwrap().number, 24);
    });
}

#[test]
fn a_process_that_causes_three_engine_time_outs_is_blocked() {
    world().run(|w| {
        let Client { kernel, .. } = w.client("guilty");
        for time in 1..=3 {
            let device = kernel.create_device().unwrap();
            let n = Client::of(&w.platform, kernel.clone(), device);
            let queue = n.hw_queue_on(0);
            n.submit(&queue, 1, &[Command::Hang]);
            assert!(n.wait_progress(&queue, 1).is_err());
            assert_eq!(w.adapter().recoveries().last().unwrap().blocked, time == 3);
        }
        assert_eq!(kernel.create_device(), Err(Status::ACCESS_DENIED));
        assert!(w.kernel.create_device().is_ok(), "no other process is blocked");
    });
}

// spec: PRE-043
#[test]
fn levels_and_modes_mean_what_is_published() {
    let with = |level, debug_mode| {
        move |config: &mut MachineConfig| {
            (config.kernel.tdr.level, config.kernel.tdr.debug_mode) = (level, debug_mode);
        }
    };
    // Level 1: the first one is fatal.
    let (w, _) =
        world_with(with(TdrLevel::BugCheck, TdrDebugMode::Recover)).run_to_report(hang_once);
    assert!(matches!(w.adapter().bug_checks()[..], [BugCheck::Timeout(_)]));
    drop(w);
    // Level 0, and mode 1: nothing is done; in the second case it is said.
    for (level, mode, said) in
        [(TdrLevel::Off, TdrDebugMode::Recover, 0), (TdrLevel::Recover, TdrDebugMode::Ignore, 1)]
    {
        let (w, report) = world_with(with(level, mode)).run_to_report(move |w| {
            let queue = w.hw_queue();
            w.submit(&queue, 1, &[Command::Hang]);
            w.pass(30 * S);
            assert_eq!(w.state(), Ok(DeviceState::Active));
            let reports = w.adapter().recoveries();
            assert_eq!(reports.len(), said, "a hang is reported once");
            assert!(reports.iter().all(|r| r.outcome == RecoveryOutcome::Ignored));
        });
        assert!(report.completed(), "{report:?}");
        drop(w);
    }
    // Level 2: there is no VGA.
    let refused =
        setup(with(TdrLevel::RecoverVga, TdrDebugMode::Recover)).try_start().err().unwrap();
    assert!(refused.to_string().contains("TdrLevel is 2"), "{refused}");
}

#[test]
fn a_debugger_is_notified_before_a_recovery() {
    world_with(|config| config.kernel.tdr.debug_mode = TdrDebugMode::Break).run(|w| {
        let notified = Arc::new(w.platform.mutex("notified", Vec::new()));
        let (seen, driver) = (notified.clone(), w.driver.clone());
        w.adapter().before_recovery(Arc::new(move |report| {
            assert!(!driver.take_names().contains(&"ResetHwEngine"), "nothing is reset before");
            seen.lock().push((report.code, report.outcome.clone()));
        }));
        hang_once(w);
        w.kernel.debug_timeouts(TdrTest::DisableBreak).unwrap();
        hang_once(w);
        w.driver.take();
        w.kernel.debug_timeouts(TdrTest::EnableBreak).unwrap();
        hang_once(w);
        assert_eq!(*notified.lock(), [const { (0x141, RecoveryOutcome::Begun) }; 2]);
    });
}

#[test]
fn bystanders_that_lost_something_read_reset() {
    world().run(|w| {
        let n = w.client("bystander");
        {
            let (guilty, bystander) = (w.hw_queue(), n.hw_queue_on(0));
            let contexts = w.calls().contexts;
            let os_handle = contexts.last().unwrap().0.os_handle;
            let callbacks = w.hooked.start_info().callbacks;
            w.hooked.on(Entry::ResetHwEngine, {
                let callbacks = callbacks.clone();
                move || {
                    let (level, loss) = (Passive::enter(), HwContextLoss::Bystander);
                    assert_eq!(callbacks.invalidate_hw_context(&level, os_handle, loss), Ok(()));
                }
            });
            w.submit(&guilty, 1, &[Command::Hang]);
            assert!(w.wait(guilty.progress_fence, 1).is_err());
            assert!(hung(w.state()));
            assert!(matches!(n.state(), Ok(DeviceState::Reset(_))));
            assert_eq!(bystander.progress_value.load(), u64::MAX);
            // Outside of a reset the call is refused.
            let (level, loss) = (Passive::enter(), HwContextLoss::Culprit);
            let late = callbacks.invalidate_hw_context(&level, os_handle, loss);
            assert_eq!(late, Err(Status::INVALID_PARAMETER));
        }
    });
}

#[test]
fn a_reset_that_fails_becomes_the_adapter_s() {
    for entry in [Entry::ResetHwEngine, Entry::ResumeHwEngine] {
        world().run(move |w| {
            let (n, queue) = (w.client("idle"), w.hw_queue());
            w.hooked.fail_next(entry, Status::INVALID_PARAMETER);
            w.submit(&queue, 1, &[Command::Hang]);
            assert!(w.wait(queue.progress_fence, 1).is_err());
            assert!(hung(w.state()));
            let innocent = n.hw_queue_on(0);
            n.on_queue(&innocent).run(1, &[Command::Timed { ns: 1000 }]).finish();
            let report = only_report(w);
            assert_eq!((report.code, &report.outcome), (0x117, &RecoveryOutcome::AdapterReset));
            assert!(report.reason.to_string().contains(entry.name()), "{report}");
        });
    }
}

// spec: UMS-053
#[test]
fn an_engine_that_the_driver_reports_as_hung_is_reset() {
    world().run(|w| {
        let queue = w.hw_queue();
        w.submit(&queue, 1, &[Command::Hang]);
        w.pass(SETTLED_NS);
        w.hooked.raise(&[engine_state_change(0, EngineState::Hung)]);
        assert!(w.wait(queue.progress_fence, 1).is_err());
        assert!(w.platform.now().0 < S, "the loss does not wait for the delay");
        assert!(hung(w.state()));
    });
}

#[test]
fn engines_are_reset_on_demand() {
    world().run(|w| {
        let queue = w.hw_queue();
        w.submit(&queue, 1, &[Command::Timed { ns: S }]);
        w.pass(SETTLED_NS);
        let engine = |node_ordinal| TdrTest::EngineTdr { node_ordinal, engine_ordinal: 0 };
        assert_eq!(w.kernel.debug_timeouts(engine(9)), Err(Status::INVALID_PARAMETER));
        assert_eq!(w.kernel.debug_timeouts(TdrTest::VSyncTdr), Err(Status::NOT_SUPPORTED));
        w.kernel.debug_timeouts(engine(1)).unwrap();
        assert_eq!(w.state(), Ok(DeviceState::Active), "that engine had nothing");
        w.kernel.debug_timeouts(engine(0)).unwrap();
        assert!(hung(w.state()));
    });
}

/// Work of a device that is lost for another reason may still hang the engine. An exemption from
/// timeouts ends with the device, and the driver may name no running context.
// spec: PRE-102
#[test]
fn work_of_a_lost_device_that_occupies_an_engine_is_found_and_reset() {
    for (exempt, has_status) in [(false, true), (true, true), (false, false)] {
        let overrides = Overrides::default().query_engine_status(move |inner, level, engine| {
            if has_status {
                inner.query_engine_status(level, engine)
            } else {
                Err(Status::NOT_SUPPORTED)
            }
        });
        let w = setup(|_| ()).overriding(overrides).start();
        w.run(move |w| {
            let lost = Client::privileged(&w.machine, "lost");
            let hanging = lost.hw_queue_on(1);
            if exempt {
                lost.kernel.disable_gpu_timeout(hanging.handle).unwrap();
            }
            lost.submit(&hanging, 1, &[Command::Hang]);
            w.pass(SETTLED_NS);
            lost.kernel.mark_device_as_error(lost.device, DeviceErrorReason::DriverError).unwrap();
            let innocent = w.hw_queue_on(1);
            w.submit(&innocent, 1, &[Command::Timed { ns: 1000 }]);
            w.pass(20 * S);
            assert_eq!(innocent.progress_value.load(), 1, "{exempt} {has_status}");
            assert_eq!(w.state(), Ok(DeviceState::Active));
            assert!(matches!(lost.state(), Ok(DeviceState::MarkedAsError(_))));
            let report = only_report(w);
            assert_eq!((&report.outcome, report.lost), (&RecoveryOutcome::EngineReset, vec![]));
        });
    }
}

/// The fences of a lost device read as their maximum once its queues are off the run list and its
/// queued work is given up. Work that waits for one of them never runs.
#[test]
fn work_that_waits_for_a_fence_of_its_lost_device_never_runs() {
    for costs in [StepCosts::free(), CostModel::nominal().steps] {
        let w = setup(|_| ()).costs(costs).start();
        w.run(|w| {
            let n = w.client("lost");
            let ((memory, va), own) = (n.bytes(64), n.native(0));
            let user = n.connected_queue(1);
            user.doorbell.last_queued.store(1);
            user.wait(&own, 1);
            user.push(&n.execute_packet(&[store(va, 1)], 1));
            let hardware = n.hw_queue_on(1);
            n.on_queue(&hardware).wait(&own, 1).run(1, &[store(va + 8, 1)]);
            let packets = n.context(2);
            n.on(packets).wait(&own, 1).run(&[store(va + 16, 1)]);
            w.pass(SETTLED_NS);
            n.kernel.mark_device_as_error(n.device, DeviceErrorReason::DriverError).unwrap();
            assert_eq!(own.value.load(), u64::MAX);
            w.pass(S);
            let mut stored = [0; 24];
            memory.read(0, &mut stored).unwrap();
            assert_eq!(stored, [0; 24]);
        });
    }
}
