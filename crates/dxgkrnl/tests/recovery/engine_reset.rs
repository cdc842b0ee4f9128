//! The reset of an engine that has packets: the published order, its checks, and which contexts go
//! on afterwards.

use tidegate::platform::AgentHandle;
use tidegate_testbed::prelude::*;

const S: u64 = 1_000_000_000;
const SETTLED_NS: u64 = 1_000_000;
const RECOVERY: [&str; 7] = [
    "PreemptCommand",
    "QueryDependentEngineGroup",
    "ResetEngine",
    "ResetHwEngine",
    "ResetFromTimeout",
    "RestartFromTimeout",
    "SubmitCommandVirtual",
];

/// Takes the driver's calls about packets and recovery: packets by their id, others by their name.
fn take_recovery_calls(w: &World) -> Vec<String> {
    let of_recovery = |name: &str| RECOVERY.contains(&name);
    let calls = w.driver.take().into_iter().filter(|call| of_recovery(call.name()));
    let text = |call: DdiCall| match &call {
        DdiCall::SubmitCommandVirtual { args } => format!("id {}", args.submission_fence_id),
        call => call.name().to_owned(),
    };
    calls.map(text).collect()
}

fn hung(state: Result<DeviceState, Status>) -> bool {
    matches!(state, Ok(DeviceState::Hung(_)))
}

/// Blocks until the packets of a context are done.
fn wait_done(n: &Client, context: Handle) -> Result<(), Status> {
    let fence = done(n, context);
    n.wait(fence.handle, 1)
}

/// A fence that a context signals when its packets are done.
fn done(n: &Client, context: Handle) -> FenceInstance {
    let fence = n.monitored(0);
    n.on(context).signal(&fence, 1);
    fence
}

/// Runs a short packet in a context and blocks until it is done.
fn run_short(n: &Client, context: Handle) {
    n.submit_packet(context, &[Command::Timed { ns: 1000 }]);
    wait_done(n, context).unwrap();
}

// spec: PRE-002, PRE-026, PRE-046
#[test]
fn a_hung_packet_is_requested_and_then_its_engine_is_reset_in_the_published_order() {
    world().run(|w| {
        let n = w.client("innocent");
        let (guilty, innocent) = (w.context(0), n.context(0));
        w.driver.take();
        w.submit_packet(guilty, &[Command::Hang]);
        run_short(&n, innocent);
        // The innocent one's quantum request goes unanswered: the engine hangs.
        let calls = take_recovery_calls(w);
        let first: Vec<&str> = calls.iter().map(String::as_str).collect();
        assert_eq!(
            first,
            ["id 1", "id 2", "PreemptCommand", "QueryDependentEngineGroup", "ResetEngine", "id 4"],
            "the packet behind the hung one comes back under a new id"
        );
        assert!(hung(w.state()));
        assert_eq!(n.state(), Ok(DeviceState::Active));
        let reports = w.adapter().recoveries();
        assert_eq!((reports[0].code, &reports[0].outcome), (0x141, &RecoveryOutcome::EngineReset));
        let text = reports[0].to_string();
        let waiting = format!("queue {} has packet 2", n.number(innocent));
        for part in ["hangs in packet 1", &waiting, "it was to signal fence 'm' to 1"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(w.platform.now().0 < 3 * S, "{:?}", w.platform.now());
    });
}

// spec: PRE-050
#[test]
fn contexts_behind_the_hung_packet_go_on_and_signal_as_without_the_hang() {
    world().run(|w| {
        let neighbours: Vec<_> = ["a", "b", "c"].map(|name| w.client(name)).into();
        let guilty = w.context(0);
        w.submit_packet(guilty, &[Command::Hang]);
        let mut fences = Vec::new();
        for n in &neighbours {
            let context = n.context(0);
            (0..3).for_each(|_| n.submit_packet(context, &[Command::Timed { ns: 1000 }]));
            fences.push(done(n, context));
        }
        for (n, fence) in neighbours.iter().zip(fences) {
            n.wait(fence.handle, 1).unwrap();
            assert_eq!(n.state(), Ok(DeviceState::Active));
        }
        assert!(hung(w.state()));
        assert_eq!(w.adapter().recoveries().len(), 1);
    });
}

// DxgkDdiPreemptCommand must succeed. Any other status stops the adapter at once, and the call is
// not made again.
#[test]
fn a_driver_that_refuses_the_request_for_a_packet_that_spins_gets_one_request() {
    for status in
        [Status::NOT_SUPPORTED, Status::GRAPHICS_ALLOCATION_BUSY, Status::GRAPHICS_TRY_AGAIN_LATER]
    {
        let (w, report) = world().run_to_report(move |w| {
            let n = w.client("guilty");
            let context = n.context(0);
            w.hooked.fail_next(Entry::PreemptCommand, status);
            n.submit_packet(context, &[Command::Hang]);
            assert_eq!(wait_done(&n, context), Err(Status::DEVICE_REMOVED));
            assert_eq!(w.platform.now().0 / S, 2, "when the request was made");
            w.pass(100 * S);
        });
        assert!(report.completed(), "{report:?}");
        assert_eq!(w.adapter().bug_checks(), [BugCheck::PreemptCommandFailed(status)]);
        assert_eq!(w.calls().requests.len(), 1);
        drop(w);
    }
}

// spec: PRE-048
#[test]
fn an_engine_that_was_done_in_the_meantime_is_not_reset() {
    world().run(|w| {
        let n = w.client("slow");
        let context = n.context(0);
        w.hooked.plant(|answers| answers.ignores_preemptions = true);
        w.driver.take();
        // Requested after two seconds, complete after three, and never preempted.
        n.submit_packet(context, &[Command::Timed { ns: 3 * S }]);
        wait_done(&n, context).unwrap();
        w.pass(2 * S);
        assert_eq!(take_recovery_calls(w), ["id 1", "PreemptCommand"]);
        assert_eq!(w.adapter().recoveries()[0].outcome, RecoveryOutcome::NothingLeft);
        w.hooked.plant(|answers| answers.ignores_preemptions = false);
        run_short(&n, context);
        assert_eq!(n.state(), Ok(DeviceState::Active));
    });
}

// spec: PRE-047
#[test]
fn reports_of_an_engine_while_it_is_reset_are_ignored() {
    inline_world().run(|w| {
        let (n, guilty) = (w.client("innocent"), w.context(0));
        let hooked = w.hooked.clone();
        w.hooked.on(Entry::ResetEngine, move || {
            let engine = EngineId::of_node(0);
            for submission_fence_id in [1, 2] {
                hooked.interrupt(InterruptData::DmaCompleted { engine, submission_fence_id });
            }
        });
        w.submit_packet(guilty, &[Command::Hang]);
        run_short(&n, n.context(0));
        assert!(hung(w.state()), "its packet was cut off all the same");
        assert_eq!(n.state(), Ok(DeviceState::Active));
        let names = w.driver.take_names().into_iter();
        let packets = names.filter(|name| *name == "SubmitCommandVirtual").count();
        assert_eq!(packets, 3, "the packet behind it was submitted again, not taken for complete");
    });
}

/// The contracts that a driver with these answers breaks when a packet hangs.
fn broken_by(change: impl FnOnce(&mut Planted) + Send + 'static) -> Vec<BugCheck> {
    let (w, _) = world().run_to_report(move |w| {
        w.hooked.plant(change);
        w.submit_packet(w.context(0), &[Command::Hang]);
        w.pass(10 * S);
    });
    w.adapter().bug_checks()
}

// spec: PRE-049
#[test]
fn an_aborted_packet_that_was_not_there_breaks_the_contract() {
    for aborted in [7, u32::MAX] {
        let broken = broken_by(move |answers| answers.aborted = Some(aborted));
        assert!(
            matches!(broken[..], [BugCheck::AbortedFence { completed: 0, submitted: 1, .. }]),
            "{broken:?}"
        );
        assert_eq!(broken[0].code(), Some((0x119, 0xA)));
    }
}

// spec: PRE-046
#[test]
fn a_group_without_the_engine_itself_breaks_the_contract() {
    let broken = broken_by(|answers| answers.group = Some(0b10));
    let of_group = matches!(broken[..], [BugCheck::DependentEngines { node: 0, group: 0b10 }]);
    assert!(of_group, "{broken:?}");
}

// spec: PRE-046
#[test]
fn engines_that_depend_on_it_give_back_what_they_have_or_are_reset_as_well() {
    for answers in [true, false] {
        world().run(move |w| {
            let (n, other) = (w.client("innocent"), w.client("on the other engine"));
            let (guilty, innocent, dependent) = (w.context(0), n.context(0), other.context(1));
            w.hooked.plant(|answers| answers.group = Some(0b11));
            w.driver.take();
            // The first reset is a little after two seconds: what runs until then is over in the
            // time that dependents have.
            let work = if answers { Command::Timed { ns: S + S / 5 } } else { Command::Hang };
            w.submit_packet(guilty, &[Command::Hang]);
            n.submit_packet(innocent, &[Command::Timed { ns: 1000 }]);
            w.pass(S);
            other.submit_packet(dependent, &[work]);
            let (fence, behind) = (done(&n, innocent), done(&other, dependent));
            n.wait(fence.handle, 1).unwrap();
            let resets = w.driver.take().into_iter().filter(|call| call.name() == "ResetEngine");
            assert_eq!(resets.count(), if answers { 1 } else { 2 });
            assert!(hung(w.state()));
            assert_eq!(other.wait(behind.handle, 1).is_ok(), answers);
            assert_eq!(hung(other.state()), !answers);
            assert_eq!(w.adapter().recoveries().len(), 1);
        });
    }
}

// spec: PRE-051
#[test]
fn a_reset_that_fails_becomes_the_adapter_s() {
    for entry in [Entry::ResetEngine, Entry::QueryDependentEngineGroup] {
        world().run(move |w| {
            let (n, context) = (w.client("idle"), w.context(0));
            w.hooked.fail_next(entry, Status::INVALID_PARAMETER);
            w.submit_packet(context, &[Command::Hang]);
            w.pass(5 * S);
            assert!(hung(w.state()));
            run_short(&n, n.context(0));
            let outcome = &w.adapter().recoveries()[0].outcome;
            assert_eq!(outcome, &RecoveryOutcome::AdapterReset);
        });
    }
}

#[test]
fn a_driver_without_per_engine_recovery_has_the_adapter_reset() {
    setup(|_| ()).caps(|caps| caps.per_engine_tdr = false).start().run(|w| {
        w.submit_packet(w.context(0), &[Command::Hang]);
        w.pass(5 * S);
        assert!(hung(w.state()));
        assert_eq!(w.adapter().recoveries()[0].code, 0x117);
    });
}

/// A paging operation is behind work that hangs on the copy engine.
fn paging_behind_a_hang(w: &World, n: &Client) -> (HwQueue, AgentHandle) {
    let guilty = w.hw_queue_on(2);
    w.submit(&guilty, 1, &[Command::Hang]);
    w.pass(SETTLED_NS);
    let n = n.clone();
    let pages = w.platform.spawn("pages", move || {
        let made = n.allocate_in(64 << 10, Placement::LocalOnDemand);
        let queue = n.paging_queue();
        if let Residency::Pending { paging_fence_value } = n.make_resident(&queue, &[&made]) {
            let _paged = n.wait(queue.fence.handle, paging_fence_value);
        }
    });
    (guilty, pages)
}

// spec: PRE-050
#[test]
fn a_paging_packet_behind_a_hang_comes_back_under_its_id() {
    world().run(|w| {
        let n = w.client("pages");
        w.driver.take();
        let (_guilty, pages) = paging_behind_a_hang(w, &n);
        pages.join();
        let calls = take_recovery_calls(w);
        let ids: Vec<&String> = calls.iter().filter(|a| a.starts_with("id")).collect();
        assert_eq!(ids, ["id 1", "id 1"], "{calls:?}");
        assert_eq!(n.state(), Ok(DeviceState::Active));
        assert!(hung(w.state()));
    });
}

// spec: PRE-051
#[test]
fn a_paging_packet_that_is_cut_off_has_the_adapter_reset_and_the_kernel_s_device_is_not_lost() {
    world().run(|w| {
        let n = w.client("pages");
        w.hooked.plant(|answers| answers.aborted = Some(1));
        let (_guilty, pages) = paging_behind_a_hang(w, &n);
        pages.join();
        let report = &w.adapter().recoveries()[0];
        assert_eq!((report.code, &report.outcome), (0x117, &RecoveryOutcome::AdapterReset));
        assert!(report.reason.to_string().contains("a paging packet was cut off"), "{report}");
        // The device that owns the paged memory is lost. Paging itself goes on.
        assert!(matches!(n.state(), Ok(DeviceState::Reset(_))), "{:?}", n.state());
        let other = w.client("later");
        other.allocate_in(64 << 10, Placement::LocalOnDemand);
    });
}

#[test]
fn a_context_whose_time_out_is_disabled_may_run_for_ever() {
    let coarse = |config: &mut MachineConfig| {
        config.gpu.nodes[0].preemption.compute = ComputePreemption::DmaBuffer
    };
    world_with(coarse).run(|w| {
        assert_eq!(w.kernel.disable_gpu_timeout(w.context(0)), Err(Status::ACCESS_DENIED));
        let n = Client::privileged(&w.machine, "long");
        let (context, queue) = (n.context(0), n.hw_queue_on(0));
        n.kernel.disable_gpu_timeout(context).unwrap();
        n.kernel.disable_gpu_timeout(queue.handle).unwrap();
        assert_eq!(n.kernel.disable_gpu_timeout(n.device), Err(Status::INVALID_PARAMETER));
        n.submit_packet(context, &[Command::Timed { ns: 20 * S }]);
        wait_done(&n, context).unwrap();
        n.on_queue(&queue).run(1, &[Command::Timed { ns: 20 * S }]).finish();
        assert_eq!(w.adapter().recoveries(), []);
    });
}

// spec: PRE-043
#[test]
fn a_hung_packet_that_is_not_recovered_leaves_no_timer_due() {
    for (level, mode) in
        [(TdrLevel::BugCheck, TdrDebugMode::Recover), (TdrLevel::Recover, TdrDebugMode::Ignore)]
    {
        let change = move |config: &mut MachineConfig| {
            (config.kernel.tdr.level, config.kernel.tdr.debug_mode) = (level, mode)
        };
        let (w, _) = world_with(change).run_to_report(|w| {
            w.submit_packet(w.context(0), &[Command::Hang]);
            w.pass(30 * S);
            assert_eq!(w.platform.now().0 / S, 30);
        });
        let reports = w.adapter().recoveries();
        assert_eq!(reports.len(), 1, "{mode:?}: {reports:?}");
        let broken = w.adapter().bug_checks();
        match mode {
            TdrDebugMode::Ignore => assert_eq!(broken, []),
            _ => assert!(matches!(broken[..], [BugCheck::Timeout(_)]), "{broken:?}"),
        }
    }
}

#[test]
fn after_the_fatal_timeout_of_packets_no_timer_is_due() {
    let (w, _) = world().run_to_report(|w| {
        for _ in 0..5 {
            let n = w.client("guilty");
            n.submit_packet(n.context(0), &[Command::Hang]);
            w.pass(6 * S);
        }
        w.pass(30 * S);
        assert_eq!(w.platform.now().0 / S, 60);
    });
    let broken = w.adapter().bug_checks();
    assert!(matches!(broken[..], [BugCheck::TooManyTimeouts(_)]), "{broken:?}");
}

// spec: PRE-004, PRE-006
#[test]
fn an_engine_that_gets_no_request_is_reset_when_a_packet_ran_for_too_long() {
    world_with(|config| config.driver.preemption_aware = false).run(|w| {
        let n = w.client("innocent");
        let (guilty, innocent) = (w.context(0), n.context(0));
        // Longer than any quantum, shorter than the delay.
        n.submit_packet(innocent, &[Command::Timed { ns: 1_900_000_000 }]);
        wait_done(&n, innocent).unwrap();
        let begun = w.platform.now().0;
        w.driver.take();
        w.submit_packet(guilty, &[Command::Hang]);
        run_short(&n, innocent);
        assert_eq!((w.platform.now().0 - begun) / S, 2, "one delay, and no request before");
        assert!(hung(w.state()));
        assert_eq!(n.state(), Ok(DeviceState::Active));
        let calls = take_recovery_calls(w);
        assert!(!calls.contains(&"PreemptCommand".to_owned()), "{calls:?}");
        let reports = w.adapter().recoveries();
        assert_eq!(reports.len(), 1, "{reports:?}");
        let reason = reports[0].reason.to_string();
        assert!(reason.contains("longer than TdrDelay"), "{reason}");
        run_short(&n, innocent);
    });
}

/// Resets the engine of the 3D node on demand.
fn reset_on_demand(w: &World) -> Result<(), Status> {
    let test = TdrTest::EngineTdr { node_ordinal: 0, engine_ordinal: 0 };
    w.kernel.debug_timeouts(test)
}

// spec: PRE-049, PRE-151
#[test]
fn a_second_reset_before_the_next_packet_begins_returns_the_first_one_s_packet() {
    world().run(|w| {
        let n = w.client("innocent");
        let (guilty, innocent) = (w.context(0), n.context(0));
        run_short(&n, innocent);
        w.submit_packet(guilty, &[Command::Hang]);
        w.pass(SETTLED_NS);
        reset_on_demand(w).unwrap();
        n.submit_packet(innocent, &[Command::Timed { ns: 1000 }]);
        reset_on_demand(w).unwrap();
        assert!(hung(w.state()));
        assert_eq!((n.state(), wait_done(&n, innocent)), (Ok(DeviceState::Active), Ok(())));
        assert_eq!(w.machine.adapter().bug_checks(), []);
    });
}

// spec: PRE-151
#[test]
fn an_engine_reset_after_an_adapter_reset_returns_the_last_submitted_packet() {
    world().run(|w| {
        let n = w.client("innocent");
        let guilty = w.context(0);
        w.submit_packet(guilty, &[Command::Hang]);
        w.pass(SETTLED_NS);
        w.kernel.debug_timeouts(TdrTest::ForceTdr).unwrap();
        let innocent = n.context(0);
        n.submit_packet(innocent, &[Command::Timed { ns: 1000 }]);
        reset_on_demand(w).unwrap();
        assert_eq!((n.state(), wait_done(&n, innocent)), (Ok(DeviceState::Active), Ok(())));
        assert_eq!(w.machine.adapter().bug_checks(), []);
    });
}

/// The work of a lost device keeps the timer's agent for four seconds, as a host does that has no
/// processor for it.
// spec: PRE-169
#[test]
fn an_engine_has_its_whole_delay_again_when_the_timer_ran_late() {
    let platform = Platform::virtual_time(StepCosts::free());
    let clock = platform.clone();
    let overrides = Overrides::default().suspend_context(move |inner, level, context, fence| {
        clock.sleep_until(clock.now().after(4 * S));
        inner.suspend_context(level, context, fence)
    });
    setup(|_| ()).on(platform).overriding(overrides).start().run(|w| {
        let (n, faulty) = (w.client("innocent"), w.client("faulty"));
        w.submit_packet(w.context(0), &[Command::Hang]);
        let done = n.native(0);
        n.on(n.context(0)).run(&[Command::Timed { ns: 1000 }]).signal(&done, 1);
        w.pass(S / 10);
        let queue = faulty.hw_queue_on(1);
        faulty.submit(&queue, 1, &[store(1 << 46, 1)]);
        n.wait(done.handle, 1).unwrap();
        // Of the time until 4.1 s an eighth of the delay counts.
        assert_eq!(w.platform.now().0 / (S / 100), 585);
        assert_eq!(w.adapter().recoveries().len(), 1);
    });
}
