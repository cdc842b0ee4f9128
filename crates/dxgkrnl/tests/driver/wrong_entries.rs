//! Drivers with one wrong entry each: lost work is reported, waiters are released, and the kernel
//! names the entry.

use std::collections::VecDeque;
use tidegate::ddi::doorbell::ConnectedDoorbell;
use tidegate::ddi::{CallbackLayer, Callbacks, Dirql, StartInfo};
use tidegate::platform::once;
use tidegate_testbed::prelude::*;

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// The entry that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// Packets and preemption requests for them are accepted and dropped.
    Packets,
    /// The same, and a reset of the engine says that no packet was cut off.
    PacketsAndReset,
    /// Command buffers of hardware queues are accepted and dropped.
    HwQueueCommands,
    /// No hardware watches the page of a connected doorbell.
    Doorbells,
    /// The interrupt routine reports nothing.
    InterruptRoutine,
    /// The interrupt routine reports, and does not call DxgkCbQueueDpc.
    QueueDpc,
    /// The deferred routine does not call DxgkCbNotifyDpc.
    DpcRoutine,
    /// The new MonitoredValue is not stored.
    UpdateMonitoredValues,
}

/// The kernel, without the call that queues a DPC.
struct NoDpc(Arc<dyn Callbacks>);

impl CallbackLayer for NoDpc {
    fn inner(&self) -> &dyn Callbacks {
        &*self.0
    }

    fn queue_dpc(&self, _: &Dirql<'_>) {}
}

/// The reference driver's entries, one of them wrong.
fn overrides(wrong: Wrong, platform: &Platform) -> Overrides {
    let own = platform.clone();
    let drops_packets = |last_packet: Word| {
        Overrides::default()
            .submit_command_virtual(move |_, _, args| {
                last_packet.store(args.submission_fence_id.into());
                Ok(())
            })
            .preempt_command(|_, _, _| Ok(()))
    };
    let last_packet = platform.page(1).word(0);
    match wrong {
        Wrong::Packets => {
            drops_packets(last_packet.clone()).reset_engine(move |inner, level, engine| {
                inner.reset_engine(level, engine)?;
                Ok(last_packet.load() as u32)
            })
        }
        Wrong::PacketsAndReset => drops_packets(last_packet),
        Wrong::HwQueueCommands => Overrides::default().submit_command_to_hw_queue(|_, _, _| Ok(())),
        Wrong::Doorbells => {
            Overrides::default().connect_doorbell(move |inner, level, doorbell, flags| {
                let connected = inner.connect_doorbell(level, doorbell, flags)?;
                Ok(ConnectedDoorbell { page: own.page(connected.page.len()), ..connected })
            })
        }
        Wrong::InterruptRoutine => filter_reports(|_| false),
        Wrong::QueueDpc => Overrides::default().start_device(|inner, level, start| {
            let callbacks = Arc::new(NoDpc(start.callbacks));
            inner.start_device(level, StartInfo { callbacks, ..start })
        }),
        Wrong::DpcRoutine => Overrides::default().dpc_routine(|_, _| ()),
        Wrong::UpdateMonitoredValues => Overrides::default().update_monitored_values(|_, _, _| ()),
    }
}

fn wrong_world(wrong: Wrong, change: impl FnOnce(&mut MachineConfig)) -> World {
    let platform = Platform::virtual_time(StepCosts::free());
    let overrides = overrides(wrong, &platform);
    setup(change).on(platform).overriding(overrides).start()
}

/// Runs `main` on a machine whose driver has this wrong entry. The kernel keeps the machine going.
fn run(wrong: Wrong, main: impl FnOnce(&World) + Send + 'static) -> Arc<World> {
    let (w, report) = wrong_world(wrong, |_| ()).run_to_report(main);
    assert!(report.completed(), "{wrong:?}: {report:?}, {:?}", w.machine.standstill(&report));
    assert_eq!(w.adapter().bug_checks(), [], "{wrong:?}");
    w
}

fn only_recovery(w: &World) -> (RecoveryOutcome, String) {
    let reports = w.adapter().recoveries();
    assert_eq!(reports.len(), 1, "{reports:?}");
    (reports[0].outcome.clone(), reports[0].reason.to_string())
}

fn faults(w: &World) -> Vec<String> {
    w.adapter().driver_faults().iter().map(DriverFault::to_string).collect()
}

fn contains(text: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(text.contains(part), "{part}: {text}"));
}

/// The line of reports about a queue with work.
fn has_work(w: &World, queue: Handle) -> String {
    format!("queue {} has work on node 0", w.number(queue))
}

/// A fence that a context signals behind one packet.
fn packet_done(w: &World, context: Handle) -> FenceInstance {
    let done = w.native(0);
    w.on(context).run(&[Command::Timed { ns: 1000 }]).signal(&done, 1);
    done
}

#[test]
fn packets_that_are_accepted_and_never_run_are_a_time_out_that_names_the_calls() {
    run(Wrong::Packets, |w| {
        let context = w.context(0);
        let done = packet_done(w, context);
        assert_eq!(w.wait(done.handle, 1), Err(Status::DEVICE_REMOVED));
        assert_eq!(w.platform.now().0 / S, 4, "the delay, and the delay of the request");
        let (outcome, noticed) = only_recovery(w);
        assert_eq!(outcome, RecoveryOutcome::EngineReset);
        let calls = ["DxgkDdiSubmitCommandVirtual 1 at 0 ms", "DxgkDdiPreemptCommand 2 at 2000 ms"];
        contains(&noticed, &calls);
        contains(&noticed, &[&has_work(w, context), "reported up to 0"]);
    });
}

// Packets that no reset cut off are submitted again and lost again, until the limit of time-outs is
// reached.
#[test]
fn packets_that_a_driver_loses_again_and_again_stop_the_adapter_and_name_the_calls() {
    let (w, report) = wrong_world(Wrong::PacketsAndReset, |_| ()).run_to_report(|w| {
        let done = packet_done(w, w.context(0));
        assert_eq!(w.wait(done.handle, 1), Err(Status::DEVICE_REMOVED));
        assert_eq!(w.platform.now().0 / S, 20, "five time-outs");
    });
    assert!(report.completed(), "{report:?}");
    let broken = w.adapter().bug_checks();
    let [BugCheck::TooManyTimeouts(what)] = &broken[..] else { panic!("{broken:?}") };
    contains(
        what,
        &["DxgkDdiSubmitCommandVirtual 9 at 16000 ms", "DxgkDdiPreemptCommand 10 at 18000 ms"],
    );
    let lines = w.machine.standstill(&report);
    assert!(lines.iter().any(|line| line.starts_with("the adapter stopped: ")), "{lines:?}");
}

// spec: PRE-096
#[test]
fn command_buffers_that_are_accepted_and_never_run_cost_their_device_and_name_the_call() {
    run(Wrong::HwQueueCommands, |w| {
        let queue = w.hw_queue();
        w.submit(&queue, 1, &[Command::Timed { ns: 1000 }]);
        assert_eq!(w.wait(queue.progress_fence, 1), Err(Status::DEVICE_REMOVED));
        let (outcome, noticed) = only_recovery(w);
        assert_eq!(outcome, RecoveryOutcome::DeviceLost);
        contains(
            &noticed,
            &["DxgkDdiSubmitCommandToHwQueue 1 at 0 ms", "DxgkDdiSuspendContext 1 at 4000 ms"],
        );
        contains(&noticed, &["neither running nor held back", "reported up to 0"]);
        assert!(matches!(w.state(), Ok(DeviceState::Hung(_))));
        assert!(!w.driver.take_names().contains(&"ResetHwEngine"), "the engine has nothing of it");
    });
}

// The request takes the queue off the run list and puts it back, and the hardware reads its ring
// then.
// spec: PRE-099
#[test]
fn a_ring_that_no_hardware_watches_runs_with_the_request_and_its_calls_are_named() {
    run(Wrong::Doorbells, |w| {
        let queue = w.connected_queue(0);
        let (gpu_va, bytes) = w.commands(&[Command::Timed { ns: 1000 }]);
        let commands = tidegate::gpu_abi::GpuVa(gpu_va);
        queue.doorbell.last_queued.store(1);
        queue.push(&tidegate::gpu_abi::RingPacket::execute(commands, bytes, 1));
        w.wait(queue.queue.progress_fence, 1).unwrap();
        assert_eq!(w.platform.now().0 / S, 4, "two rounds of the timeout check");
        w.pass(4 * S);
        let faults = faults(w);
        assert_eq!(faults.len(), 1, "{faults:?}");
        contains(
            &faults[0],
            &["DxgkDdiConnectDoorbell", &has_work(w, queue.queue.handle), "reported up to 0"],
        );
        assert_eq!(w.adapter().recoveries(), []);
    });
}

// spec: PRE-096
#[test]
fn work_that_a_process_announces_and_never_rings_costs_its_device_alone() {
    world().run(|w| {
        let (n, liar) = (w.client("innocent"), w.connected_queue(0));
        let innocent = n.hw_queue_on(0);
        liar.doorbell.last_queued.store(9);
        assert_eq!(w.wait(liar.queue.progress_fence, 1), Err(Status::DEVICE_REMOVED));
        let (outcome, noticed) = only_recovery(w);
        assert_eq!(outcome, RecoveryOutcome::DeviceLost);
        contains(&noticed, &["DxgkDdiConnectDoorbell at 0 ms", "neither running nor held back"]);
        n.on_queue(&innocent).run(1, &[Command::Timed { ns: 1000 }]).finish();
        assert_eq!((faults(w), n.state()), (vec![], Ok(DeviceState::Active)));
    });
}

// spec: PRE-097
#[test]
fn a_completion_that_no_interrupt_reports_is_found_and_counted() {
    run(Wrong::InterruptRoutine, |w| {
        let done = packet_done(w, w.context(0));
        w.wait(done.handle, 1).unwrap();
        assert_eq!(w.stats().lost_completions, 1);
        let faults = faults(w);
        assert_eq!(faults.len(), 1, "{faults:?}");
        contains(
            &faults[0],
            &["DxgkDdiInterruptRoutine", "packet 1 of node 0", "DxgkDdiQueryCurrentFence"],
        );
    });
    run(Wrong::InterruptRoutine, |w| {
        let queue = w.hw_queue();
        w.on_queue(&queue).run(1, &[Command::Timed { ns: 1000 }]).complete();
        assert_eq!(w.platform.now().0 / S, 2, "the periodic check");
        assert_eq!(w.stats().missed_interrupts, 1);
        contains(
            &faults(w)[0],
            &["DxgkDdiInterruptRoutine", "fence 'progress' reached 1", "no interrupt named it"],
        );
        assert_eq!(w.adapter().recoveries(), []);
    });
}

// spec: PRE-098
#[test]
fn reports_that_no_deferred_routine_takes_are_taken_and_counted() {
    for (wrong, named) in [
        (Wrong::DpcRoutine, ["DxgkDdiDpcRoutine", "did not call DxgkCbNotifyDpc"]),
        (Wrong::QueueDpc, ["DxgkDdiInterruptRoutine", "did not call DxgkCbQueueDpc"]),
    ] {
        run(wrong, move |w| {
            let done = packet_done(w, w.context(0));
            w.wait(done.handle, 1).unwrap();
            assert_eq!(w.stats().missed_dpcs, 1);
            contains(&faults(w)[0], &named);
            assert_eq!(w.adapter().recoveries(), []);
        });
    }
}

/// The second context's turn comes when the report of the first one's packet is pending. The report
/// is taken before the engine counts as hung.
// spec: PRE-170
#[test]
fn a_report_that_is_not_taken_holds_up_no_other_context() {
    for wrong in [Wrong::DpcRoutine, Wrong::QueueDpc] {
        run(wrong, move |w| {
            let first = packet_done(w, w.context(0));
            w.pass(7 * MS);
            let second = packet_done(w, w.context(0));
            w.wait(first.handle, 1).unwrap();
            w.wait(second.handle, 1).unwrap();
            assert_eq!(
                w.platform.now().0,
                2 * S + 10 * MS,
                "TdrDelay after the preemption request"
            );
            for _ in 0..100 {
                let done = packet_done(w, w.context(0));
                w.wait(done.handle, 1).unwrap();
            }
            let then = w.platform.now().0 - (2 * S + 10 * MS);
            assert_eq!(then, 100 * 1000, "the kernel takes the reports at once from then on");
            assert_eq!(w.adapter().recoveries(), []);
        });
    }
}

/// The preemption is not answered. It times out when the reports of the packets are not overdue,
/// and the recovery finds the packets complete.
#[test]
fn a_recovery_takes_the_report_of_a_packet_that_is_complete() {
    for wrong in [Wrong::DpcRoutine, Wrong::QueueDpc] {
        run(wrong, move |w| {
            w.hooked.plant(|answers| answers.ignores_preemptions = true);
            let (context, done) = (w.context(0), w.native(0));
            w.on(context).run(&[Command::Timed { ns: 3 * S / 2 }]).signal(&done, 1);
            packet_done(w, w.context(0));
            w.wait(done.handle, 1).unwrap();
            assert_eq!(w.platform.now().0, 2 * S + 10 * MS);
            assert_eq!(only_recovery(w).0, RecoveryOutcome::NothingLeft);
        });
    }
}

// spec: PRE-097
#[test]
fn a_monitored_value_that_is_not_stored_is_found_and_its_entry_is_named() {
    run(Wrong::UpdateMonitoredValues, |w| {
        let queue = w.hw_queue();
        w.on_queue(&queue).run(1, &[Command::Timed { ns: 1000 }]).complete();
        assert_eq!(w.stats().missed_interrupts, 1);
        contains(
            &faults(w)[0],
            &["DxgkDdiUpdateMonitoredValues", "was set to 0", "its waiters miss 1"],
        );
    });
}

/// The list of faults has a limit, and the first ones explain the later ones.
#[test]
fn the_first_faults_of_a_driver_are_kept() {
    const KEPT: usize = 64;
    run(Wrong::UpdateMonitoredValues, |w| {
        let queue = w.hw_queue();
        for value in 1..=KEPT as u64 + 2 {
            w.submit(&queue, value, &[Command::Timed { ns: 1000 }]);
            w.wait(queue.progress_fence, value).unwrap();
        }
        assert_eq!(w.stats().missed_interrupts, KEPT as u64 + 2);
        let faults = w.adapter().driver_faults();
        assert_eq!(faults.len(), KEPT);
        for (value, fault) in (1..).zip(&faults) {
            assert_eq!(fault.entry, "DxgkDdiUpdateMonitoredValues");
            contains(&fault.what, &[&format!("its waiters miss {value}")]);
        }
        assert!(faults.is_sorted_by(|first, next| first.at < next.at), "{faults:?}");
    });
}

/// At each check, waiters of the fence are satisfied and their interrupts are on their way.
// spec: PRE-097
#[test]
fn an_interrupt_that_is_only_late_is_no_missed_one() {
    const MS: u64 = 1_000_000;
    let late = StepCosts::free().with(Step::InterruptDelivery, 50 * MS);
    let worker = |config: &mut MachineConfig| config.kernel.interrupts = InterruptDelivery::Worker;
    setup(worker).costs(late).start().run(|w| {
        let queue = w.hw_queue();
        let submit = |value| w.submit(&queue, value, &[Command::Timed { ns: 30 * MS }]);
        let wait = |value| {
            let (event, progress) = (w.platform.event(true), queue.progress_fence);
            let wanted = [FenceValue { fence: progress, value }];
            w.kernel.wait_from_cpu(&wanted, WaitMode::All, Some(event.clone())).unwrap();
            event
        };
        (1..=10).for_each(submit);
        let mut waits: VecDeque<_> = (1..=10).map(wait).collect();
        for value in 11..=200 {
            assert_eq!(waits.pop_front().unwrap().wait(), WaitEnd::Woken);
            submit(value);
            waits.push_back(wait(value));
        }
        waits.iter().for_each(|event| _ = event.wait());
        assert!(w.platform.now().0 > 6 * S, "three checks");
        assert_eq!((w.stats().missed_interrupts, faults(w)), (0, vec![]));
    });
}

/// Without timeout detection a machine stands still; its report names the last calls of the queue.
#[test]
fn the_report_of_a_machine_that_stands_still_names_the_last_calls() {
    for (wrong, call) in [
        (Wrong::Packets, "DxgkDdiSubmitCommandVirtual"),
        (Wrong::HwQueueCommands, "DxgkDdiSubmitCommandToHwQueue"),
    ] {
        let work = Arc::new(OnceLock::new());
        let named = work.clone();
        let off = |config: &mut MachineConfig| config.kernel.tdr.level = TdrLevel::Off;
        let (w, report) = wrong_world(wrong, off).run_to_report(move |w| {
            let outcome = match wrong {
                Wrong::Packets => {
                    let context = w.context(0);
                    let done = packet_done(w, context);
                    once::make_first(&named, || has_work(w, context));
                    w.wait(done.handle, 1)
                }
                _ => {
                    let queue = w.hw_queue();
                    w.submit(&queue, 1, &[Command::Timed { ns: 1000 }]);
                    once::make_first(&named, || has_work(w, queue.handle));
                    w.wait(queue.progress_fence, 1)
                }
            };
            assert_eq!(outcome, Err(Status::CANCELLED));
        });
        assert!(!report.completed());
        let lines = w.machine.standstill(&report);
        let call = format!("{}: last calls {call} 1 at 0 ms", work.get().unwrap());
        assert!(lines.iter().any(|line| line.starts_with(&call)), "{lines:?}");
    }
}
