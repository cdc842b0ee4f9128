//! Preemption: requests, answers, and the packets that are requeued.

use super::*;

const RESUBMISSION: SubmitCommandFlags = SubmitCommandFlags::RESUBMISSION;
const PAGING: SubmitCommandFlags = SubmitCommandFlags::PAGING;

/// Creates contexts 1, 2, ... with these priorities on one engine with room for two packets.
fn machine(priorities: &[Priority], config: Config) -> Sched {
    with_contexts(priorities, Config { packet_cap: 2, ..config })
}

// spec: PRE-001, PRE-003, PRE-031
#[test]
fn a_context_of_higher_priority_preempts_the_engine_and_goes_first() {
    let mut s = machine(&[Priority::Normal, Priority::High], CONFIG);
    s.push_command(A, command(10), NOW);
    s.push_command(A, command(11), NOW);
    assert_eq!(push(&mut s, A, command(12), NOW), [new(10, 1), new(11, 2)]);
    assert_eq!(push(&mut s, B, command(20), at(1)), [Next::Request(3)]);
    assert_eq!(
        next(&mut s, at(2)),
        [],
        "one request at a time, and nothing is submitted behind it"
    );
    assert_eq!(s.preempted(ENGINE, report(3, 0), at(3)), answered(&[], 2));
    assert_eq!(next(&mut s, at(3)), [new(20, 4), again(10, 5)]);
    assert_eq!(s.completed(ENGINE, 4, at(4)), Some(vec![B]));
    assert_eq!(next(&mut s, at(4)), [again(11, 6)]);
    assert_eq!(s.completed(ENGINE, 6, at(5)), Some(vec![A, A]));
    assert_eq!(next(&mut s, at(5)), [new(12, 7)], "in the order of their queue");
}

#[test]
fn an_engine_with_room_is_preempted_before_a_higher_packet_queues_behind_a_lower_one() {
    let mut s = machine(&[Priority::Idle, Priority::Realtime], CONFIG);
    assert_eq!(push(&mut s, A, command(10), NOW), [new(10, 1)]);
    assert_eq!(push(&mut s, B, command(20), NOW), [Next::Request(2)]);
    assert_eq!(s.preempted(ENGINE, report(2, 0), NOW), answered(&[], 1));
    assert_eq!(next(&mut s, NOW), [new(20, 3), again(10, 4)]);
    // A packet does not preempt one of higher priority.
    assert_eq!(push(&mut s, B, command(21), NOW), []);
    assert_eq!(complete(&mut s, 3, NOW), [Next::Request(5)], "the lower packet runs again");
}

#[test]
fn a_preempted_packet_with_physical_addresses_holds_memory_in_its_place() {
    for (kind, holds) in [(CommandKind::Patched { last: true }, true), (CommandKind::Render, false)]
    {
        let mut s = machine(&[Priority::Normal, Priority::High], CONFIG);
        s.push_command(A, of_kind(10, kind), NOW);
        assert!(!s.holds_places(), "{kind:?}: it is patched at submission");
        assert_eq!(next(&mut s, NOW), [new(10, 1)]);
        assert!(s.holds_places());
        assert_eq!(push(&mut s, B, command(20), at(1)), [Next::Request(2)]);
        assert_eq!(s.preempted(ENGINE, report(2, 0), at(2)), answered(&[], 1));
        assert_eq!(s.holds_places(), holds, "{kind:?}: no packet is in flight");
        assert_eq!(next(&mut s, at(2)), [new(20, 3), again(10, 4)]);
        assert!(s.completed(ENGINE, 4, at(3)).is_some());
        assert!(!s.holds_places());
    }
    // The rest of a lost device's packet never runs.
    let mut s = machine(&[Priority::Normal, Priority::High], CONFIG);
    assert_eq!(
        push(&mut s, A, of_kind(10, CommandKind::Patched { last: true }), NOW),
        [new(10, 1)]
    );
    assert_eq!(push(&mut s, B, command(20), at(1)), [Next::Request(2)]);
    assert_eq!(s.preempted(ENGINE, report(2, 0), at(2)), answered(&[], 1));
    let _abandoned = s.abandon(&[A]);
    assert!(!s.holds_places());
}

// spec: PRE-004, PRE-006
#[test]
fn a_driver_that_is_not_preemption_aware_gets_no_request() {
    let mut s = machine(&[Priority::Normal, Priority::High], Config { preempts: false, ..CONFIG });
    assert_eq!(push(&mut s, A, command(10), NOW), [new(10, 1)]);
    assert_eq!(push(&mut s, B, command(20), NOW), [new(20, 2)], "behind the running packet");
    assert_eq!(next(&mut s, at(1_000_000)), []);
    assert_eq!(s.next_deadline(), None);
}

// spec: PRE-111
#[test]
fn without_preemption_the_parts_of_a_buffer_run_back_to_back() {
    let part = |at, last| of_kind(at, CommandKind::Patched { last });
    for preempts in [false, true] {
        let mut s = machine(&[Priority::Normal, Priority::High], Config { preempts, ..CONFIG });
        assert_eq!(push(&mut s, A, part(10, false), NOW), [new(10, 1)]);
        assert!(s.completed(ENGINE, 1, NOW).is_some());
        s.push_command(B, command(20), NOW);
        let between = next(&mut s, NOW);
        assert_eq!(between, if preempts { vec![new(20, 2)] } else { vec![] });
        if preempts {
            continue;
        }
        // The memory manager makes room for the next part.
        assert_eq!(
            push(&mut s, B, of_kind(30, CommandKind::Paging), NOW),
            [],
            "other work of its context is ahead of it"
        );
        s.push_command(A, part(11, false), NOW);
        assert_eq!(push(&mut s, A, part(12, true), NOW), [new(11, 2), new(12, 3)]);
        assert_eq!(complete(&mut s, 3, NOW).len(), 2, "the buffer has ended");
    }
}

// spec: PRE-111
#[test]
fn paging_a_wait_and_the_end_of_its_device_let_others_go_between_two_parts() {
    let begun = || {
        let mut s =
            machine(&[Priority::Normal, Priority::Normal], Config { preempts: false, ..CONFIG });
        assert_eq!(
            push(&mut s, A, of_kind(10, CommandKind::Patched { last: false }), NOW),
            [new(10, 1)]
        );
        assert!(s.completed(ENGINE, 1, NOW).is_some());
        s
    };
    let mut s = begun();
    assert_eq!(
        push(&mut s, B, of_kind(20, CommandKind::Paging), NOW),
        [Next::Packet(20, 2, PAGING)]
    );
    let mut s = begun();
    s.push_command(B, command(20), NOW);
    s.push_wait(A, &["fence"], NOW);
    assert_eq!(next(&mut s, NOW), [new(20, 2)], "the wait may depend on it");
    let mut s = begun();
    assert_eq!(push(&mut s, B, command(20), NOW), []);
    let _abandoned = s.abandon(&[A]);
    assert_eq!(next(&mut s, NOW), [new(20, 2)]);
    let mut s = begun();
    s.push_command(B, command(20), NOW);
    let _abandoned = s.remove_queue(A);
    assert_eq!(next(&mut s, NOW), [new(20, 2)]);
    // The end of a third device changes nothing.
    let mut s = begun();
    s.add_context(C, ENGINE, Priority::Normal);
    s.push_command(B, command(20), NOW);
    let _abandoned = s.abandon(&[C]);
    let _abandoned = s.remove_queue(C);
    assert_eq!(next(&mut s, NOW), []);
}

#[test]
fn a_quantum_ends_when_an_equal_waits_and_not_before() {
    let mut s = machine(&[Priority::Normal, Priority::Normal], CONFIG);
    assert_eq!(push(&mut s, A, command(10), NOW), [new(10, 1)]);
    assert_eq!(s.next_deadline(), Some(CpuTime(1_000)), "no context waits: only the timeout delay");
    s.push_command(A, command(11), at(1));
    assert_eq!(push(&mut s, B, command(20), at(2)), [new(11, 2)]);
    assert_eq!(s.next_deadline(), Some(CpuTime(10)));
    assert_eq!(next(&mut s, at(9)), []);
    assert_eq!(next(&mut s, at(10)), [Next::Request(3)]);
    assert_eq!(s.next_deadline(), None, "the answer comes next");
    assert_eq!(s.preempted(ENGINE, report(3, 0), at(12)), answered(&[], 2));
    assert_eq!(next(&mut s, at(12)), [new(20, 4), again(10, 5)], "its turn has ended");
    assert_eq!(s.next_deadline(), Some(CpuTime(22)));
}

#[test]
fn a_packet_behind_an_equal_on_the_engine_waits_for_its_quantum_too() {
    let mut s = machine(&[Priority::Normal, Priority::Normal, Priority::Normal], CONFIG);
    for context in [A, B, C] {
        s.push_command(context, command(context.0), NOW);
    }
    assert_eq!(next(&mut s, NOW), [new(1, 1), new(2, 2)]);
    assert_eq!(next(&mut s, at(10)), [Next::Request(3)]);
    assert_eq!(s.preempted(ENGINE, report(3, 0), at(10)), answered(&[], 2));
    assert_eq!(
        next(&mut s, at(10)),
        [again(2, 4), new(3, 5)],
        "a packet that had not started runs before one that was not submitted"
    );
}

/// Runs a packet of each context on an engine that takes `switch_ns` to leave a context and again
/// to restore one. Each packet needs `work_ns`. Returns the longest turn that a request ended.
fn run_with_switches(contexts: u64, switch_ns: u64, work_ns: u64) -> u64 {
    let mut s = with_contexts(
        &vec![Priority::Normal; contexts as usize],
        Config { timeout_ns: None, ..CONFIG },
    );
    for n in 1..=contexts {
        s.push_command(OsHandle(n), command(n), NOW);
    }
    let mut left = vec![work_ns; contexts as usize];
    let (mut ended, mut longest, mut now, mut last) = (0, 0, 0, 0);
    let [Next::Packet(mut packet, mut id, _)] = next(&mut s, NOW)[..] else { panic!("a packet") };
    while ended < contexts {
        let (began, rest) = (now, &mut left[packet as usize - 1]);
        let end = began + switch_ns + *rest;
        now = end.min(s.next_deadline().map_or(u64::MAX, |at| at.0));
        assert!(now < 100_000, "the packets never end: {left:?}");
        *rest -= (now - began).saturating_sub(switch_ns);
        if now == end {
            assert!(s.completed(ENGINE, id, at(now)).is_some());
            (ended, last) = (ended + 1, id);
        } else {
            let [Next::Request(request)] = next(&mut s, at(now))[..] else { panic!("a turn ends") };
            longest = longest.max(now - began);
            now += switch_ns;
            assert_eq!(s.preempted(ENGINE, report(request, last), at(now)), answered(&[], 1));
        }
        if let [Next::Packet(first, its_id, _)] = next(&mut s, at(now))[..] {
            (packet, id) = (first, its_id);
        }
    }
    longest
}

// spec: PRE-163
#[test]
fn packets_end_although_a_switch_takes_longer_than_a_quantum() {
    for contexts in [2, 3, 5] {
        assert_eq!(run_with_switches(contexts, 25, 400), 100, "four times that of leaving");
        assert_eq!(run_with_switches(contexts, 2, 400), 10, "the quantum suffices");
        // An engine that leaves late, at the end of a command, and has packets end.
        assert_eq!(run_with_switches(contexts, 8, 4), 10, "eight turns without an end");
    }
    // An engine that leaves a context late takes no other context its turns.
    assert_eq!(run_with_switches(3, 80, 400), 100, "ten quanta");
}

// spec: PRE-002
#[test]
fn a_packet_that_has_run_for_the_timeout_delay_is_preempted() {
    let mut s = machine(&[Priority::Normal], CONFIG);
    assert_eq!(push(&mut s, A, command(10), NOW), [new(10, 1)]);
    assert_eq!((s.overdue(CpuTime(999)), s.overdue(CpuTime(1_000))), (vec![], vec![ENGINE]));
    assert_eq!(next(&mut s, at(1_000)), [Next::Request(2)]);
    assert_eq!(s.overdue(CpuTime(5_000)), []);
    assert_eq!(s.preempted(ENGINE, report(2, 0), at(1_500)), answered(&[], 1));
    assert_eq!(next(&mut s, at(1_500)), [again(10, 3)]);
    assert_eq!(s.next_deadline(), Some(CpuTime(2_500)));
    assert_eq!(s.completed(ENGINE, 3, at(1_600)), Some(vec![A]));
    let mut endless = machine(&[Priority::Normal], Config { timeout_ns: None, ..CONFIG });
    assert_eq!(push(&mut endless, A, command(10), NOW), [new(10, 1)]);
    assert_eq!(next(&mut endless, at(u64::MAX)), []);
}

// spec: PRE-028, PRE-029, PRE-030
#[test]
fn preempted_paging_packets_are_resubmitted_first_under_their_ids() {
    let mut s =
        with_contexts(&[Priority::Normal, Priority::Realtime], Config { packet_cap: 4, ..CONFIG });
    s.push_command(B, of_kind(20, CommandKind::Paging), NOW);
    s.push_command(B, of_kind(21, CommandKind::Paging), NOW);
    s.push_command(A, command(10), NOW);
    s.push_command(B, of_kind(22, CommandKind::Paging), NOW);
    let paging = |gpu_va, id| Next::Packet(gpu_va, id, PAGING);
    assert_eq!(next(&mut s, NOW), [paging(20, 1), paging(21, 2), paging(22, 3), new(10, 4)]);
    s.push_command(A, command(11), NOW);
    assert_eq!(next(&mut s, at(1_000)), [Next::Request(5)], "for the timeout delay alone");
    assert_eq!(s.preempted(ENGINE, report(5, 1), at(1_000)), answered(&[2], 3));
    assert_eq!(s.next_deadline(), None);
    let paging_again = |gpu_va, id| Next::Packet(gpu_va, id, PAGING | RESUBMISSION);
    assert_eq!(
        next(&mut s, at(1_000)),
        [paging_again(21, 2), paging_again(22, 3), again(10, 6), new(11, 7)]
    );
    assert_eq!(s.next_deadline(), Some(CpuTime(2_000)), "its timeout restarts");
    let submitted = s.engines[ENGINE].in_flight.iter().map(|packet| packet.submitted);
    assert_eq!(submitted.collect::<Vec<_>>(), [CpuTime(1_000); 4], "given to the driver anew");
    // A second preemption, before all of them were resubmitted.
    assert_eq!(next(&mut s, at(2_000)), [Next::Request(8)]);
    assert_eq!(s.preempted(ENGINE, report(8, 1), at(2_000)), answered(&[], 4));
    assert_eq!(s.next_effect(at(2_000)).map(|_| ()), Some(()));
    s.right.release();
    assert_eq!(s.completed(ENGINE, 2, at(2_001)), Some(vec![B]));
    assert_eq!(next(&mut s, at(2_001)), [paging_again(22, 3), again(10, 9), again(11, 10)]);
}

// spec: PRE-024, PRE-025
#[test]
fn a_completion_that_races_with_a_request_counts_once_in_either_order() {
    for reported_first in [true, false] {
        let mut s = machine(&[Priority::Normal, Priority::High], CONFIG);
        s.push_command(A, command(10), NOW);
        s.push_command(A, command(11), NOW);
        s.push_signal(&[A], signal("done", NONE), NOW);
        assert_eq!(next(&mut s, NOW), [new(10, 1), new(11, 2)]);
        assert_eq!(push(&mut s, B, command(20), NOW), [Next::Request(3)]);
        if reported_first {
            assert_eq!(s.completed(ENGINE, 1, NOW), Some(vec![A]));
            assert_eq!(next(&mut s, NOW), []);
        }
        let completed: &[u64] = if reported_first { &[] } else { &[1] };
        assert_eq!(s.preempted(ENGINE, report(3, 1), NOW), answered(completed, 1));
        assert_eq!(s.engines[ENGINE].last_completed(), 1, "a preempted packet is not complete");
        if !reported_first {
            assert_eq!(
                s.completed(ENGINE, 1, NOW),
                Some(vec![]),
                "the late completion changes nothing"
            );
        }
        assert_eq!(next(&mut s, NOW), [new(20, 4), again(11, 5)]);
        assert_eq!(s.completed(ENGINE, 5, NOW), Some(vec![B, A]));
        assert_eq!(next(&mut s, NOW), [Next::Signalled("done")]);
    }
}

#[test]
fn all_packets_may_be_complete_at_the_answer() {
    let mut s = machine(&[Priority::Normal, Priority::High], CONFIG);
    assert_eq!(push(&mut s, A, command(10), NOW), [new(10, 1)]);
    assert_eq!(push(&mut s, B, command(20), NOW), [Next::Request(2)]);
    assert_eq!(s.completed(ENGINE, 1, NOW), Some(vec![A]));
    assert_eq!(next(&mut s, NOW), [], "the engine is closed until the request is answered");
    assert_eq!(s.preempted(ENGINE, report(2, 1), NOW), answered(&[], 0));
    assert_eq!(next(&mut s, NOW), [new(20, 3)]);
}

// spec: PRE-022
#[test]
fn a_report_without_a_request_differs_from_a_late_one() {
    let mut s = machine(&[Priority::Normal, Priority::High], CONFIG);
    assert_eq!(s.preempted(ENGINE, report(1, 0), NOW), Preempted::Unknown(1));
    assert_eq!(s.preempted(EngineId::of_node(7), report(1, 0), NOW), Preempted::Unknown(1));
    assert_eq!(push(&mut s, A, command(10), NOW), [new(10, 1)]);
    assert_eq!(push(&mut s, B, command(20), NOW), [Next::Request(2)]);
    assert_eq!(s.completed(ENGINE, 2, NOW), None, "the ID belongs to a request");
    assert_eq!(
        s.preempted(ENGINE, report(2, 2), NOW),
        Preempted::Unknown(2),
        "no packet in flight has the ID"
    );
    assert_eq!(s.preempted(ENGINE, report(3, 0), NOW), Preempted::Unknown(3));
    s.engines[ENGINE].withdraw();
    assert_eq!(s.preempted(ENGINE, report(2, 0), NOW), Preempted::Stale);
    assert_eq!(next(&mut s, NOW), [Next::Request(3)]);
    assert_eq!(s.preempted(ENGINE, report(3, 0), NOW), answered(&[], 1));
    assert_eq!(s.preempted(ENGINE, report(3, 0), NOW), Preempted::Unknown(3), "twice");
}

// spec: PRE-021
#[test]
fn submissions_and_requests_share_ids_that_wrap() {
    let mut s = machine(&[Priority::Normal, Priority::High], CONFIG);
    continue_ids_after(&mut s, u32::MAX - 1);
    assert_eq!(push(&mut s, A, command(10), NOW), [new(10, u32::MAX)]);
    assert_eq!(push(&mut s, B, command(20), NOW), [Next::Request(0)]);
    assert_eq!(s.preempted(ENGINE, report(0, u32::MAX - 1), NOW), answered(&[], 1));
    assert_eq!(next(&mut s, NOW), [new(20, 1), again(10, 2)]);
    assert_eq!(s.completed(ENGINE, 2, NOW), Some(vec![B, A]));
}

// spec: PRE-041
#[test]
fn a_packet_with_a_signal_at_submission_can_be_preempted() {
    let mut s = machine(&[Priority::Normal, Priority::High, Priority::Normal], CONFIG);
    let other = C;
    let gate = s.push_wait(other, &["gate"], NOW);
    s.push_command(A, command(10), NOW);
    s.push_signal(&[A], signal("begun", SignalFlags::SIGNAL_AT_SUBMISSION), NOW);
    s.push_signal(&[A, other], signal("both", SignalFlags::SIGNAL_AT_SUBMISSION), NOW);
    assert_eq!(push(&mut s, A, command(11), NOW), [new(10, 1), Next::Signalled("begun")]);
    assert_eq!(push(&mut s, B, command(20), NOW), [Next::Request(2)]);
    assert_eq!(s.preempted(ENGINE, report(2, 0), NOW), answered(&[], 1));
    // The broadcast was reached before the preemption, so it executes before the resubmission.
    s.wait_satisfied(other, gate, NOW);
    assert_eq!(next(&mut s, NOW), [Next::Signalled("both"), new(20, 3), again(10, 4)]);
    assert_eq!(s.completed(ENGINE, 4, NOW), Some(vec![B, A]));
    assert_eq!(next(&mut s, NOW), [new(11, 5)]);
    assert!(s.signals.is_empty());
}

// spec: PRE-042
#[test]
fn a_preempted_packet_is_requeued_before_a_wait() {
    for satisfied_meanwhile in [true, false] {
        let mut s = machine(&[Priority::Normal, Priority::High], CONFIG);
        s.push_command(A, command(10), NOW);
        let wait = s.push_wait(A, &["f"], NOW);
        assert_eq!(push(&mut s, A, command(11), NOW), [new(10, 1)]);
        assert_eq!(push(&mut s, B, command(20), NOW), [Next::Request(2)]);
        if satisfied_meanwhile {
            s.wait_satisfied(A, wait, NOW);
            assert_eq!(next(&mut s, NOW), []);
        }
        assert_eq!(s.preempted(ENGINE, report(2, 0), NOW), answered(&[], 1));
        assert_eq!(next(&mut s, NOW), [new(20, 3), again(10, 4)]);
        assert_eq!(s.completed(ENGINE, 4, NOW), Some(vec![B, A]));
        if !satisfied_meanwhile {
            assert_eq!(next(&mut s, NOW), []);
            s.wait_satisfied(A, wait, NOW);
        }
        assert_eq!(next(&mut s, NOW), [new(11, 5)]);
    }
}

#[test]
fn packets_of_a_lost_or_removed_context_are_not_resubmitted() {
    for gone in [true, false] {
        let mut s = machine(&[Priority::Normal, Priority::High], CONFIG);
        s.push_command(A, command(10), NOW);
        s.push_command(A, command(11), NOW);
        assert_eq!(push(&mut s, A, command(12), NOW), [new(10, 1), new(11, 2)]);
        assert_eq!(push(&mut s, B, command(20), NOW), [Next::Request(3)]);
        let abandoned = if gone { s.remove_queue(A) } else { s.abandon(&[A]) };
        let commands: Vec<u64> = abandoned.packets.iter().map(|(_, c)| c.gpu_va).collect();
        assert_eq!(commands, [12], "it was never submitted");
        assert_eq!(s.preempted(ENGINE, report(3, 0), NOW), answered(&[], 2));
        assert_eq!(next(&mut s, NOW), [new(20, 4)]);
        assert!(s.is_idle(A));
    }
}

#[test]
fn a_preempted_packet_does_not_count_as_unsubmitted() {
    let mut s = machine(&[Priority::Normal, Priority::High], CONFIG);
    assert_eq!(push(&mut s, A, command(10), NOW), [new(10, 1)]);
    s.push_command(B, command(20), NOW);
    assert_eq!(push(&mut s, B, command(21), NOW), [Next::Request(2)]);
    assert_eq!(s.preempted(ENGINE, report(2, 0), NOW), answered(&[], 1));
    assert_eq!(next(&mut s, NOW), [new(20, 3), new(21, 4)]);
    assert!(s.abandon(&[A]).packets.is_empty());
    assert_eq!(next(&mut s, NOW), []);
}

// spec: PRE-012
#[test]
fn an_idle_engine_switches_from_the_last_context_once() {
    let idle = OsHandle(9);
    let mut s = machine(&[Priority::Normal], CONFIG);
    s.add_context(idle, ENGINE, Priority::Realtime);
    s.set_idle_context(ENGINE, idle);
    assert_eq!(next(&mut s, NOW), [], "the engine has no context yet");
    s.push_command(A, command(10), NOW);
    assert_eq!(push(&mut s, A, command(11), NOW), [new(10, 1), new(11, 2)]);
    assert_eq!(s.completed(ENGINE, 1, NOW), Some(vec![A]));
    assert_eq!(next(&mut s, NOW), []);
    assert_eq!(s.completed(ENGINE, 2, NOW), Some(vec![A]));
    let Some(Effect::Submit(DuePacket { context, command: given, fence_id: 3, flags, .. })) =
        s.next_effect(NOW)
    else {
        panic!("the engine does not switch")
    };
    assert_eq!((context, given.bytes, flags), (idle, 0, SubmitCommandFlags::CONTEXT_SWITCH));
    assert_eq!(next(&mut s, NOW), []);
    assert_eq!(s.completed(ENGINE, 3, NOW), Some(vec![idle]));
    assert_eq!(next(&mut s, NOW), [], "the idle context is loaded");
    assert_eq!(push(&mut s, A, command(12), NOW), [new(12, 4)]);
}

/// Turns of two contexts that both want more, on an engine that takes 25 to leave one. Returns the
/// context whose packet came first after each turn, and the length of the turns after it.
fn fruitless_turns(s: &mut Sched, turns: u32, now: &mut u64) -> Vec<(u64, u64)> {
    let mut seen = Vec::new();
    for _ in 0..turns {
        *now += s.engines[ENGINE].turn_ns(&CONFIG);
        let [Next::Request(request)] = next(s, at(*now))[..] else { panic!("a turn ends") };
        *now += 25;
        let last = s.engines[ENGINE].last_completed();
        assert_eq!(s.preempted(ENGINE, report(request, last), at(*now)), answered(&[], 1));
        let [Next::Packet(first, ..)] = next(s, at(*now))[..] else { panic!("a packet") };
        seen.push((first, s.engines[ENGINE].turn_ns(&CONFIG)));
    }
    seen
}

// spec: PRE-163
#[test]
fn the_eighth_turn_without_an_end_makes_turns_longer_and_an_end_makes_them_short_again() {
    let mut s = with_contexts(&[Priority::Normal; 2], Config { timeout_ns: None, ..CONFIG });
    s.push_command(A, command(1), NOW);
    assert_eq!(push(&mut s, B, command(2), NOW), [new(1, 1)]);
    let seven = [(2, 10), (1, 10), (2, 10), (1, 10), (2, 10), (1, 10), (2, 10)];
    let now = &mut 0;
    assert_eq!(fruitless_turns(&mut s, 7, now), seven);
    // The turn that makes turns longer has ended, however short it was.
    assert_eq!(fruitless_turns(&mut s, 1, now), [(1, 100)]);
    let running = s.engines[ENGINE].last_submitted();
    assert_eq!(s.completed(ENGINE, running, at(10_000)), Some(vec![A]));
    assert_eq!(s.engines[ENGINE].turn_ns(&CONFIG), 10);
}

// spec: PRE-167
#[test]
fn beside_hardware_contexts_each_eight_turns_without_an_end_double_the_turn() {
    let mut s = with_contexts(&[Priority::Normal; 2], Config { timeout_ns: None, ..CONFIG });
    s.add_hardware_context(ENGINE);
    s.push_command(A, command(1), NOW);
    assert_eq!(push(&mut s, B, command(2), NOW), [new(1, 1)]);
    let now = &mut 0;
    let lengths: Vec<u64> = fruitless_turns(&mut s, 8 * 5, now).iter().map(|(_, l)| *l).collect();
    let each_eighth: Vec<u64> = lengths.into_iter().skip(7).step_by(8).collect();
    assert_eq!(each_eighth, [100, 100, 100, 160, 320], "a switch takes 25, and a quantum 10");
    fruitless_turns(&mut s, 8 * 15 - 1, now);
    assert_eq!(s.engines[ENGINE].turn_ns(&CONFIG), 10 << 19);
    fruitless_turns(&mut s, 1, now);
    assert_eq!(s.engines[ENGINE].turn_ns(&CONFIG), 10_000_000, "and not 10 << 20");
    // Another scheduler's longer quantum is kept.
    let long = Config { quantum_ns: 20_000_000, ..CONFIG };
    assert_eq!(s.engines[ENGINE].turn_ns(&long), 20_000_000);
    s.remove_hardware_context(ENGINE);
    assert_eq!(s.engines[ENGINE].turn_ns(&CONFIG), 100, "only switches take time");
    s.add_hardware_context(ENGINE);
    let running = s.engines[ENGINE].last_submitted();
    assert_eq!(s.completed(ENGINE, running, at(*now + 1)), Some(vec![A]));
    assert_eq!(s.engines[ENGINE].turn_ns(&CONFIG), 10 << 10, "80 turns of the other context");
    let [Next::Packet(first, ..)] = next(&mut s, at(*now + 1))[..] else { panic!("a packet") };
    let running = s.engines[ENGINE].last_submitted();
    assert_eq!(s.completed(ENGINE, running, at(*now + 2)), Some(vec![B]), "{first}");
    assert_eq!(s.engines[ENGINE].turn_ns(&CONFIG), 10);
}

// spec: PRE-163
#[test]
fn packets_of_another_context_that_end_leave_the_turns_of_a_fruitless_one_long() {
    let mut s = with_contexts(&[Priority::Normal; 2], Config { timeout_ns: None, ..CONFIG });
    s.push_command(A, command(1), NOW);
    assert_eq!(push(&mut s, B, command(2), NOW), [new(1, 1)]);
    let now = &mut 0;
    for round in 1..=8 {
        // A packet of A runs to its end, and one of B is preempted after its turn.
        let running = s.engines[ENGINE].last_submitted();
        assert_eq!(s.completed(ENGINE, running, at(*now + 1)), Some(vec![A]), "{round}");
        s.push_command(A, command(10 + round), at(*now + 1));
        let [Next::Packet(2, ..)] = next(&mut s, at(*now + 1))[..] else { panic!("B's packet") };
        *now += 1 + s.engines[ENGINE].turn_ns(&CONFIG);
        let [Next::Request(request)] = next(&mut s, at(*now))[..] else { panic!("a turn ends") };
        *now += 25;
        let last = s.engines[ENGINE].last_completed();
        assert_eq!(s.preempted(ENGINE, report(request, last), at(*now)), answered(&[], 1));
        let length = if round < 8 { 10 } else { 100 };
        assert_eq!(s.engines[ENGINE].turn_ns(&CONFIG), length, "{round}");
        let [Next::Packet(..)] = next(&mut s, at(*now))[..] else { panic!("A's packet") };
    }
    s.remove_queue(B);
    assert_eq!(s.engines[ENGINE].turn_ns(&CONFIG), 10, "the context is gone");
}

/// A lifted band has one turn in ten, and its engine first repays hardware queues the time of the
/// packet that it could not leave.
// spec: PRE-163
#[test]
fn one_turn_of_a_lifted_band_without_an_end_makes_turns_longer() {
    for (hardware, leaving, longer) in [(false, 25, 100), (true, 25, 100), (true, 300, 1_000)] {
        let bands = [Priority::Normal, Priority::High];
        let mut s = with_contexts(&bands, Config { timeout_ns: None, ..CONFIG });
        if hardware {
            s.add_hardware_context(ENGINE);
        }
        s.push_command(B, command(20), NOW);
        assert_eq!(push(&mut s, A, command(10), NOW), [new(20, 1)]);
        assert_eq!(next(&mut s, at(90)), [Next::Request(2)]);
        let now = 90 + leaving;
        assert_eq!(s.preempted(ENGINE, report(2, 0), at(now)), answered(&[], 1));
        assert_eq!(next(&mut s, at(now)), [new(10, 3)], "the band that has waited");
        assert_eq!(next(&mut s, at(now + 10)), [Next::Request(4)]);
        // The engine ran nothing of it, so there is nothing to leave.
        assert_eq!(s.preempted(ENGINE, report(4, 0), at(now + 11)), answered(&[], 1));
        assert_eq!(s.engines[ENGINE].turn_ns(&CONFIG), longer, "{hardware} {leaving}");
    }
}

#[test]
fn packets_of_one_context_take_no_turns() {
    let mut s = machine(&[Priority::Normal], CONFIG);
    s.push_command(A, command(10), NOW);
    assert_eq!(push(&mut s, A, command(11), NOW), [new(10, 1), new(11, 2)]);
    assert_eq!((next(&mut s, at(50)), s.next_deadline()), (vec![], Some(CpuTime(1_000))));
}

/// The third packet on the engine is the only one of its band.
#[test]
fn every_packet_behind_the_first_waits_for_its_share() {
    let mut s =
        with_contexts(&[Priority::Normal, Priority::High], Config { packet_cap: 3, ..CONFIG });
    s.push_command(B, command(20), NOW);
    s.push_command(B, command(21), NOW);
    assert_eq!(push(&mut s, A, command(10), NOW), [new(20, 1), new(21, 2), new(10, 3)]);
    assert_eq!(s.next_deadline(), Some(CpuTime(90)), "nine quanta of others");
    assert_eq!(next(&mut s, at(90)), [Next::Request(4)]);
}

#[test]
fn an_agent_that_decides_needs_no_deadline() {
    let mut s = machine(&[Priority::Normal], CONFIG);
    assert_eq!(push(&mut s, A, command(10), NOW), [new(10, 1)]);
    assert_eq!(s.next_deadline(), Some(CpuTime(1_000)));
    assert!(s.try_take_right(Submitter::Packets));
    assert_eq!(s.next_deadline(), None);
    assert!(s.next_effect(NOW).is_none());
    assert_eq!(s.next_deadline(), Some(CpuTime(1_000)), "the right is free again");
}

#[test]
fn an_engine_has_two_packets_where_the_driver_declares_no_number() {
    let mut s = with_contexts(&[Priority::Normal], Config { packet_cap: 0, ..CONFIG });
    (10..13).for_each(|gpu_va| _ = s.push_command(A, command(gpu_va), NOW));
    assert_eq!(next(&mut s, NOW), [new(10, 1), new(11, 2)]);
    assert_eq!(complete(&mut s, 1, NOW), [new(12, 3)]);
}
