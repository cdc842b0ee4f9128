//! Preemption of packets: when the kernel requests them, what the driver may report, and what is
//! submitted again. Where a test reports for the hardware, packets go no further than the driver in
//! the middle. The other tests run on the software GPU in virtual time.

use std::ops::Deref;
use tidegate_testbed::prelude::*;

/// Longer than anything that must happen takes to happen.
const SETTLED_NS: u64 = 1_000;
const MS: u64 = 1_000_000;
const ENGINE: EngineId = EngineId::of_node(0);
const NEW: SubmitCommandFlags = SubmitCommandFlags::empty();
const NO_REQUESTS: [u32; 0] = [];
const AGAIN: SubmitCommandFlags = SubmitCommandFlags::RESUBMISSION;

/// A machine whose hardware runs no packets.
fn still(change: impl FnOnce(&mut MachineConfig)) -> World {
    let w = world_with(change);
    w.hooked.plant(|answers| answers.keeps_packets = true);
    w
}

/// Packets given to the driver, as their place among all commands, number and flags.
fn packets(w: &World) -> Vec<(u64, u32, SubmitCommandFlags)> {
    let packets = w.calls().packets.into_iter();
    packets.map(|p| (p.dma_buffer_gpu_va, p.submission_fence_id, p.flags)).collect()
}

fn requests(w: &World) -> Vec<u32> {
    w.calls().requests.iter().map(|r| r.preemption_fence_id).collect()
}

/// Submits commands to a context and returns the address of the packet that the driver got last.
fn submit(w: &World, context: Handle, commands: &[Command]) -> u64 {
    w.submit_packet(context, commands);
    w.pass(SETTLED_NS);
    w.calls().packets.last().map_or(0, |p| p.dma_buffer_gpu_va)
}

const ANY: [Command; 1] = [Command::Timed { ns: 1 }];

fn completed(submission_fence_id: u32) -> InterruptData {
    InterruptData::DmaCompleted { engine: EngineId::of_node(0), submission_fence_id }
}

fn preempted(preemption_fence_id: u32, last_completed_fence_id: u32) -> InterruptData {
    InterruptData::DmaPreempted {
        engine: EngineId::of_node(0),
        preemption_fence_id,
        last_completed_fence_id,
    }
}

fn faulted(faulted_fence_id: u32) -> InterruptData {
    let fault = PageFault { gpu_va: 0x40, what: "a test", ..PageFault::default() };
    InterruptData::DmaPageFaulted { engine: ENGINE, faulted_fence_id, fault }
}

fn report(w: &World, data: &[InterruptData]) {
    w.hooked.raise(data);
    w.pass(SETTLED_NS);
}

// spec: PRE-019, PRE-031, PRE-032
#[test]
fn a_request_names_its_engine_and_number_and_packets_come_back_under_new_ones() {
    still(|_| ()).run(|w| {
        let (low, high) = (w.context(0), w.context_of(0, Priority::High));
        let (first, second) = (submit(w, low, &ANY), submit(w, low, &ANY));
        submit(w, high, &ANY);
        let request = PreemptCommand { engine: ENGINE, preemption_fence_id: 3 };
        assert_eq!(w.calls().requests, [request], "the next number of the line");
        let both = [(first, 1, NEW), (second, 2, NEW)];
        assert_eq!(packets(w), both, "nothing is submitted meanwhile");
        report(w, &[preempted(3, 0)]);
        let urgent = packets(w)[2].0;
        assert_eq!(packets(w)[2..], [(urgent, 4, NEW), (first, 5, AGAIN)]);
        report(w, &[completed(5)]);
        assert_eq!(packets(w)[4..], [(second, 6, AGAIN)]);
        report(w, &[completed(6)]);
        let stats = w.stats();
        assert_eq!((stats.preemptions, stats.packets_preempted), (1, 2));
    });
}

// spec: PRE-019
#[test]
fn a_request_that_the_driver_refuses_stops_the_adapter() {
    let (w, _) = still(|_| ()).run_to_report(|w| {
        submit(w, w.context(0), &ANY);
        w.hooked.fail_next(Entry::PreemptCommand, Status::INSUFFICIENT_RESOURCES);
        w.submit_packet(w.context_of(0, Priority::High), &ANY);
        w.pass(SETTLED_NS);
        assert!(w.kernel.create_device().is_err());
    });
    let broken = w.adapter().bug_checks();
    assert_eq!(broken, [BugCheck::PreemptCommandFailed(Status::INSUFFICIENT_RESOURCES)]);
    assert_eq!(broken[0].code(), Some((0x119, 2)));
}

// spec: PRE-022, PRE-024, PRE-025
#[test]
fn a_completion_that_races_with_the_request_counts_in_either_order() {
    for alone in [true, false] {
        still(|_| ()).run(move |w| {
            let (low, high) = (w.context(0), w.context_of(0, Priority::High));
            let fence = w.monitored(0);
            submit(w, low, &ANY);
            w.on(low).signal(&fence, 1);
            submit(w, low, &ANY);
            submit(w, high, &ANY);
            assert_eq!(requests(w), [2], "the second stands behind a signal");
            let done = w.wait_event(&fence, 1);
            match alone {
                true => report(w, &[preempted(2, 1)]),
                false => report(w, &[completed(1), preempted(2, 1)]),
            }
            assert!(done.is_set(), "what was complete is complete");
            let all: Vec<_> = packets(w)[1..].iter().map(|(_, id, flags)| (*id, *flags)).collect();
            assert_eq!(all, [(3, NEW), (4, NEW)], "and nothing came back");
            if alone {
                // Its own report, late.
                report(w, &[completed(1)]);
            }
            report(w, &[completed(4)]);
        });
    }
}

/// An engine without power answers no request, and the kernel would reset it for that.
// spec: PRE-172
#[test]
fn an_engine_and_its_device_keep_their_power_until_a_request_is_answered() {
    let managed = |config: &mut MachineConfig| config.kernel.power = PowerManagement::Managed;
    still(managed).run(|w| {
        let (low, high) = (w.context(0), w.context_of(0, Priority::High));
        submit(w, low, &ANY);
        submit(w, high, &ANY);
        assert_eq!(requests(w), [2]);
        report(w, &[completed(1)]);
        w.adapter().power_down_idle_engines();
        assert_eq!(w.adapter().engine_power_state(ENGINE), ComponentState::F0);
        assert_eq!(w.adapter().power_down_if_idle(), Ok(DevicePowerState::D0));
        report(w, &[preempted(2, 1)]);
        report(w, &[completed(3)]);
        w.adapter().power_down_idle_engines();
        assert_eq!(w.adapter().engine_power_state(ENGINE), ComponentState::F1);
        assert_eq!(w.adapter().power_down_if_idle(), Ok(DevicePowerState::D3));
    });
}

#[test]
fn reports_that_make_no_sense_stop_the_adapter() {
    for (data, named) in [(preempted(9, 0), 9), (preempted(2, 2), 2), (completed(2), 2)] {
        let (w, _) = still(|_| ()).run_to_report(move |w| {
            submit(w, w.context(0), &ANY);
            submit(w, w.context_of(0, Priority::High), &ANY);
            report(w, std::slice::from_ref(&data));
        });
        let bug = BugCheck::UnknownPacket { node: 0, adapter: 0, fence_id: named };
        assert_eq!(w.adapter().bug_checks(), [bug]);
    }
}

// spec: PRE-092
#[test]
fn what_follows_a_broken_contract_is_no_bug_check_of_its_own() {
    let (w, _) = still(|_| ()).run_to_report(|w| {
        submit(w, w.context(0), &ANY);
        report(w, &[completed(7), completed(8), preempted(9, 0)]);
        report(w, &[completed(6)]);
    });
    let first = BugCheck::UnknownPacket { node: 0, adapter: 0, fence_id: 7 };
    assert_eq!(w.adapter().bug_checks(), [first]);
}

// spec: PRE-001, PRE-005, PRE-006
#[test]
fn only_a_driver_that_declares_preemption_gets_requests() {
    for aware in [true, false] {
        let not_aware = move |config: &mut MachineConfig| {
            config.driver.preemption_aware = aware;
            config.kernel.quantum_ns = MS;
        };
        still(not_aware).run(move |w| {
            submit(w, w.context(0), &ANY);
            submit(w, w.context_of(0, Priority::High), &ANY);
            w.pass(10 * MS);
            assert_eq!(requests(w).len(), usize::from(aware));
            assert_eq!(packets(w).len(), if aware { 1 } else { 2 });
            if aware {
                report(w, &[preempted(2, 0)]);
            }
            report(w, &[completed(packets(w).last().unwrap().1)]);
        });
    }
    // A driver does not undo its declaration by declaring half of it.
    let half = |caps: &mut AdapterCaps| caps.scheduling = VidSchCaps::PREEMPTION_AWARE;
    assert!(setup(|_| ()).caps(half).try_start().is_err());
}

// spec: PRE-002
#[test]
fn a_packet_that_has_run_for_the_timeout_delay_is_requested_before_anything_else_happens() {
    let short = |config: &mut MachineConfig| config.kernel.tdr.delay_ns = 10 * MS;
    still(short).run(|w| {
        let context = w.context(0);
        let only = submit(w, context, &ANY);
        w.pass(9 * MS);
        assert_eq!(requests(w), NO_REQUESTS);
        w.pass(MS);
        assert_eq!(requests(w), [2]);
        assert_eq!(w.state(), Ok(DeviceState::Active));
        report(w, &[preempted(2, 0)]);
        assert_eq!(packets(w), [(only, 1, NEW), (only, 3, AGAIN)]);
        report(w, &[completed(3)]);
        w.pass(50 * MS);
        assert_eq!(requests(w), [2], "nothing runs, nothing is checked");
    });
}

#[test]
fn a_completion_whose_interrupt_was_lost_is_found_before_the_packet_is_requested() {
    let short = |config: &mut MachineConfig| config.kernel.tdr.delay_ns = 10 * MS;
    still(short).run(|w| {
        submit(w, w.context(0), &ANY);
        w.hooked.plant(|answers| answers.current_fence = Some(1));
        w.pass(11 * MS);
        assert_eq!(requests(w), NO_REQUESTS);
        assert_eq!(w.stats().lost_completions, 1);
    });
}

#[test]
fn a_quantum_ends_when_a_context_of_the_same_priority_waits() {
    let short = |config: &mut MachineConfig| config.kernel.quantum_ns = MS;
    still(short).run(|w| {
        let (one, other) = (w.context(0), w.context(0));
        let first = submit(w, one, &ANY);
        w.pass(5 * MS);
        assert_eq!(requests(w), NO_REQUESTS, "no context waits");
        submit(w, other, &ANY);
        assert_eq!(requests(w), [2], "its quantum is over already");
        report(w, &[preempted(2, 0)]);
        let second = packets(w)[1].0;
        assert_eq!(packets(w)[1..], [(second, 3, NEW), (first, 4, AGAIN)]);
        w.pass(MS);
        assert_eq!(requests(w), [2, 5], "and the other's is now");
        report(w, &[preempted(5, 0)]);
        assert_eq!(packets(w)[3..], [(first, 6, AGAIN), (second, 7, AGAIN)]);
        report(w, &[completed(7)]);
    });
}

// spec: PRE-028, PRE-029
#[test]
fn a_paging_packet_comes_back_first_and_under_the_number_that_it_had() {
    let short = |config: &mut MachineConfig| config.kernel.tdr.delay_ns = 10 * MS;
    still(short).run(|w| {
        const COPY: u32 = 2;
        let client = w.deref().clone();
        // The kernel pages on the copy engine. Its packet is pending until this test reports it.
        let paged = w.platform.spawn("pager", move || {
            let queue = client.paging_queue();
            let made = client.allocate_in(1 << 16, Placement::LocalOnDemand);
            if let Residency::Pending { paging_fence_value: value } =
                client.make_resident(&queue, &[&made])
            {
                client.wait(queue.fence.handle, value).unwrap();
            }
        });
        w.pass(SETTLED_NS);
        let low = w.context(COPY);
        w.submit_packet(low, &ANY);
        w.pass(SETTLED_NS);
        let on_copy = |p: &&SubmitCommandVirtual| p.engine.node_ordinal == COPY;
        let all = || -> Vec<(u32, SubmitCommandFlags)> {
            let calls = w.calls();
            calls.packets.iter().filter(on_copy).map(|p| (p.submission_fence_id, p.flags)).collect()
        };
        let paging = SubmitCommandFlags::PAGING;
        assert_eq!(all(), [(1, paging), (2, NEW)]);
        w.pass(11 * MS);
        assert_eq!(requests(w), [3]);
        let of_copy = |mut data| {
            if let InterruptData::DmaPreempted { engine, .. }
            | InterruptData::DmaCompleted { engine, .. } = &mut data
            {
                *engine = EngineId::of_node(COPY);
            }
            data
        };
        report(w, &[of_copy(preempted(3, 0))]);
        assert_eq!(all()[2..], [(1, paging | AGAIN), (4, AGAIN)]);
        report(w, &[of_copy(completed(4))]);
        paged.join();
    });
}

// spec: PRE-041, PRE-042
#[test]
fn packets_behind_signals_at_submission_and_before_waits_come_back_where_they_were() {
    still(|_| ()).run(|w| {
        let (low, high) = (w.context(0), w.context_of(0, Priority::High));
        let (begun, gate) = (w.monitored(0), w.monitored(0));
        let first = submit(w, low, &ANY);
        let flags = SignalFlags::SIGNAL_AT_SUBMISSION;
        let args =
            SignalFromGpu2 { contexts: &[low], fences: &at(&begun, 1), flags, cpu_event: None };
        w.kernel.signal_from_gpu2(args).unwrap();
        w.wait(begun.handle, 1).unwrap();
        w.on(low).wait(&gate, 1).run(&ANY);
        submit(w, high, &ANY);
        assert_eq!(requests(w), [2]);
        // The wait is over while its context is being preempted; what it held stays behind what
        // came back.
        w.signal(&gate, 1);
        w.pass(SETTLED_NS);
        report(w, &[preempted(2, 0)]);
        assert_eq!(packets(w)[2], (first, 4, AGAIN));
        report(w, &[completed(4)]);
        assert_eq!(packets(w)[3].1, 5);
        report(w, &[completed(5)]);
        assert_eq!(begun.value.load(), 1);
    });
}

// spec: PRE-071
#[test]
fn packets_of_a_lost_device_that_the_driver_never_had_are_cancelled_where_it_wants_to_know() {
    for aware in [true, false] {
        let cancels = move |config: &mut MachineConfig| config.driver.cancel_command_aware = aware;
        still(cancels).run(move |w| {
            let context = w.context(0);
            (0..4).for_each(|_| _ = submit(w, context, &ANY));
            assert_eq!(packets(w).len(), 2, "as many as the engine holds");
            report(w, &[faulted(1)]);
            assert!(matches!(w.state(), Ok(DeviceState::Faulted(_))));
            let cancelled = w.calls().cancelled;
            assert_eq!(cancelled.len(), if aware { 2 } else { 0 });
            assert!(cancelled.iter().all(|c| c.engine == ENGINE && c.dma_buffer_bytes > 0));
            report(w, &[completed(2)]);
            assert_eq!(packets(w).len(), 2, "nothing else is submitted");
        });
    }
}

#[test]
fn a_cancellation_that_the_driver_refuses_stops_the_adapter() {
    let cancels = |config: &mut MachineConfig| config.driver.cancel_command_aware = true;
    let (w, _) = still(cancels).run_to_report(|w| {
        let context = w.context(0);
        (0..3).for_each(|_| _ = submit(w, context, &ANY));
        w.hooked.fail_next(Entry::CancelCommand, Status::INVALID_PARAMETER);
        report(w, &[faulted(1)]);
    });
    let broken = w.adapter().bug_checks();
    assert_eq!(broken, [BugCheck::CancelCommandFailed(Status::INVALID_PARAMETER)]);
    assert_eq!(broken[0].code(), Some((0x119, 9)));
}

/// So much work for each of a context's packets.
fn long(ns: u64) -> [Command; 1] {
    [Command::Timed { ns }]
}

// spec: PRE-003
#[test]
fn a_saturated_engine_does_not_hold_up_a_context_of_higher_priority() {
    world().run(|w| {
        let (low, high) = (w.context(0), w.context_of(0, Priority::High));
        (0..20).for_each(|_| w.submit_packet(low, &long(50 * MS)));
        w.pass(30 * MS);
        let fence = w.monitored(0);
        for round in 1..=3 {
            let before = w.platform.now();
            w.on(high).run(&long(MS)).signal_and_wait(&fence, round);
            let took_ns = w.platform.now().since(before);
            assert!(took_ns <= 51 * MS, "the packet that runs, at most, and its own: {took_ns} ns");
            w.pass(10 * MS);
        }
        let stats = w.stats();
        assert!(stats.preemptions >= 3, "{stats:?}");
        assert!(stats.packets_preempted >= 3, "{stats:?}");
    });
}

// spec: PRE-033
#[test]
fn work_that_was_preempted_ends_with_the_result_that_it_would_have_had() {
    world().run(|w| {
        let (low, high) = (w.context(0), w.context_of(0, Priority::High));
        let (memory, va) = w.bytes(4096);
        // Each packet reads what the one before it wrote: one that ran twice, or not at all, would
        // show.
        for step in 0..32u64 {
            let copied = copy_word(va + step * 8 + 8, va + step * 8);
            let begin = if step == 0 { vec![store(va, 77)] } else { vec![] };
            let work = [Command::Timed { ns: MS }, copied, Command::Timed { ns: MS }];
            let all: Vec<Command> = begin.into_iter().chain(work).collect();
            w.submit_packet(low, &all);
        }
        let (low_done, high_done) = (w.monitored(0), w.monitored(0));
        w.on(low).signal(&low_done, 1);
        for round in 1..=16 {
            w.pass(3 * MS);
            w.on(high).run(&long(MS / 4)).signal(&high_done, round);
        }
        w.wait(low_done.handle, 1).unwrap();
        w.wait(high_done.handle, 16).unwrap();
        let mut words = vec![0; 33 * 8];
        memory.read(0, &mut words).unwrap();
        assert!(words.chunks_exact(8).all(|word| word == 77u64.to_le_bytes()), "{words:?}");
        assert!(w.stats().packets_preempted > 8);
    });
}

#[test]
fn equals_take_turns_in_the_middle_of_what_they_run() {
    let short = |config: &mut MachineConfig| config.kernel.quantum_ns = MS;
    world_with(short).run(|w| {
        let contexts = [w.context(0), w.context(0)];
        let fence = w.monitored(0);
        for (value, context) in (1..).zip(contexts) {
            let work = [long(3 * MS), long(3 * MS)].concat();
            (0..4).for_each(|_| w.submit_packet(context, &work));
            w.on(context).signal(&fence, value);
        }
        w.wait(fence.handle, 2).unwrap();
        assert!(w.stats().preemptions >= 4);
    });
}

// spec: PRE-012
#[test]
fn hardware_that_keeps_the_last_context_is_turned_away_from_it() {
    for lazy in [true, false] {
        let keeps = move |config: &mut MachineConfig| config.driver.lazy_context_switch = lazy;
        let w = world_with(keeps).run(move |w| {
            let context = w.context(0);
            let fence = w.monitored(0);
            for value in 1..=2 {
                w.on(context).run(&ANY).signal_and_wait(&fence, value);
                w.pass(MS);
            }
        });
        let switches: Vec<_> =
            packets(&w).into_iter().filter(|(_, _, flags)| *flags != NEW).collect();
        let switch = SubmitCommandFlags::CONTEXT_SWITCH;
        let each_idle = [(0, 2, switch), (0, 4, switch)];
        assert_eq!(switches, if lazy { &each_idle[..] } else { &[] }, "one each time it is idle");
    }
}

#[test]
fn preemption_works_on_threads_too() {
    let w = host_world();
    let (low, high) = (w.context(0), w.context_of(0, Priority::High));
    let (low_done, high_done) = (w.monitored(0), w.monitored(0));
    for _ in 0..20 {
        w.submit_packet(low, &long(200_000));
    }
    w.on(low).signal(&low_done, 1);
    for value in 1..=20 {
        w.on(high).run(&ANY).signal_and_wait(&high_done, value);
    }
    w.wait(low_done.handle, 1).unwrap();
    assert_eq!(w.adapter().bug_checks(), []);
    assert_eq!(w.machine.driver().violations(), []);
}

/// The kernel asks for the last completed packet before it requests one that has run for too long.
/// A driver that does not say so hides no hang.
// spec: PRE-097
#[test]
fn a_driver_that_does_not_name_the_last_completed_packet_hides_no_hang() {
    world().run(|w| {
        let n = w.client("innocent");
        w.submit_packet(w.context(0), &[Command::Hang]);
        w.hooked.fail_next(Entry::QueryCurrentFence, Status::NOT_SUPPORTED);
        w.pass(10_000 * MS);
        assert!(matches!(w.state(), Ok(DeviceState::Hung(_))), "{:?}", w.state());
        assert_eq!((w.stats().lost_completions, w.adapter().recoveries().len()), (0, 1));
        n.on(n.context(0)).run(&ANY).complete();
    });
}

/// A reset has answered the request, and the driver's own answer comes after it.
// spec: PRE-047
#[test]
fn an_answer_to_a_request_that_a_reset_has_answered_is_counted_and_changes_nothing() {
    still(|_| ()).run(|w| {
        let n = w.client("high");
        let (low, high) = (w.context(0), n.context_of(0, Priority::High));
        submit(w, low, &ANY);
        n.submit_packet(high, &ANY);
        w.pass(SETTLED_NS);
        assert_eq!(requests(w), [2]);
        w.hooked.plant(|answers| answers.aborted = Some(1));
        w.kernel.debug_timeouts(TdrTest::EngineTdr { node_ordinal: 0, engine_ordinal: 0 }).unwrap();
        w.pass(SETTLED_NS);
        let given = packets(w);
        report(w, &[preempted(2, 0)]);
        assert_eq!((w.stats().stale_preemptions, packets(w)), (1, given.clone()));
        let (_, urgent, _) = given[given.len() - 1];
        let done = n.monitored(0);
        n.on(high).signal(&done, 1);
        let waits = n.wait_event(&done, 1);
        report(w, &[completed(urgent)]);
        assert!(waits.is_set());
    });
}
