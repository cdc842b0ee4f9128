//! Requests, answers, and what comes back.

use super::*;

const RESUBMISSION: SubmitCommandFlags = SubmitCommandFlags::RESUBMISSION;
const PAGING: SubmitCommandFlags = SubmitCommandFlags::PAGING;

fn at(ns: u64) -> Now {
    Now { stamp_ns: ns, at: CpuTime(ns) }
}

/// Contexts 1, 2, ... of these priorities on one engine that holds two packets.
fn machine(priorities: &[Priority], limits: Limits) -> VidSch<&'static str> {
    let mut s = VidSch::new(&AdapterCaps { hw_queue_packet_cap: 2, ..caps() }, limits);
    for (number, priority) in (1..).zip(priorities) {
        s.add_context(OsHandle(number), 0, *priority, 0, 0);
    }
    s
}

fn of_kind(gpu_va: u64, kind: CommandKind) -> Work<&'static str> {
    Work::Command(Command { gpu_va, bytes: 8, queued_ns: 0, kind })
}

/// All that is decided at this moment: commands as (address, number, flags), requests as their
/// number.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Packet(u64, u32, SubmitCommandFlags),
    Request(u32),
    Made(&'static str),
}

fn next(s: &mut VidSch<&'static str>, now: Now) -> Vec<Next> {
    let mut all = Vec::new();
    while let Some(decision) = s.next_decision(now) {
        all.push(match decision {
            Decision::Submit { command, fence_id, flags, .. } => {
                Next::Packet(command.gpu_va, fence_id, flags)
            }
            Decision::Preempt { fence_id, .. } => Next::Request(fence_id),
            Decision::Signal { contexts, signal } => {
                s.signalled(&contexts, now);
                Next::Made(names(&signal)[0])
            }
        });
    }
    all
}

fn new(gpu_va: u64, id: u32) -> Next {
    Next::Packet(gpu_va, id, SubmitCommandFlags::empty())
}

fn again(gpu_va: u64, id: u32) -> Next {
    Next::Packet(gpu_va, id, RESUBMISSION)
}

fn answered(completed: &[u64], returned: usize) -> Preempted {
    Preempted::Answered { completed: completed.iter().map(|c| OsHandle(*c)).collect(), returned }
}

// spec: PRE-001, PRE-003, PRE-031
#[test]
fn who_is_of_higher_priority_has_the_engine_s_packets_asked_for_and_goes_first() {
    let mut s = machine(&[Priority::Normal, Priority::High], LIMITS);
    s.push(A, command(10), NOW);
    s.push(A, command(11), NOW);
    s.push(A, command(12), NOW);
    assert_eq!(next(&mut s, NOW), [new(10, 1), new(11, 2)]);
    s.push(B, command(20), at(1));
    assert_eq!(next(&mut s, at(1)), [Next::Request(3)]);
    assert_eq!(
        next(&mut s, at(2)),
        [],
        "one request at a time, and nothing is submitted behind it"
    );
    assert_eq!(s.preempted(0, (3, 0), at(3)), answered(&[], 2));
    assert_eq!(next(&mut s, at(3)), [new(20, 4), again(10, 5)]);
    assert_eq!(s.completed(0, 4, at(4)), Some(vec![B]));
    assert_eq!(next(&mut s, at(4)), [again(11, 6)]);
    assert_eq!(s.completed(0, 6, at(5)), Some(vec![A, A]));
    assert_eq!(next(&mut s, at(5)), [new(12, 7)], "in the order of their queue");
}

#[test]
fn an_engine_with_room_is_asked_before_somebody_stands_behind_lower_work() {
    let mut s = machine(&[Priority::Idle, Priority::Realtime], LIMITS);
    s.push(A, command(10), NOW);
    assert_eq!(next(&mut s, NOW), [new(10, 1)]);
    s.push(B, command(20), NOW);
    assert_eq!(next(&mut s, NOW), [Next::Request(2)]);
    assert_eq!(s.preempted(0, (2, 0), NOW), answered(&[], 1));
    assert_eq!(next(&mut s, NOW), [new(20, 3), again(10, 4)]);
    // The other way round nobody is asked.
    s.push(B, command(21), NOW);
    assert_eq!(next(&mut s, NOW), []);
    assert!(s.completed(0, 3, NOW).is_some());
    assert_eq!(next(&mut s, NOW), [Next::Request(5)], "what runs now is of the lower one again");
}

#[test]
fn what_was_saved_of_a_packet_with_physical_addresses_holds_memory_where_it_is() {
    for (kind, holds) in [(CommandKind::Patched { last: true }, true), (CommandKind::Render, false)]
    {
        let mut s = machine(&[Priority::Normal, Priority::High], LIMITS);
        s.push(A, of_kind(10, kind), NOW);
        assert!(!s.holds_places(), "{kind:?}: it is patched when it goes to its engine");
        assert_eq!(next(&mut s, NOW), [new(10, 1)]);
        assert!(s.holds_places());
        s.push(B, command(20), at(1));
        assert_eq!(next(&mut s, at(1)), [Next::Request(2)]);
        assert_eq!(s.preempted(0, (2, 0), at(2)), answered(&[], 1));
        assert_eq!(s.holds_places(), holds, "{kind:?}: no engine has any packet");
        assert_eq!(next(&mut s, at(2)), [new(20, 3), again(10, 4)]);
        assert!(s.completed(0, 4, at(3)).is_some());
        assert!(!s.holds_places());
    }
    // Nobody runs the rest of one whose device is lost.
    let mut s = machine(&[Priority::Normal, Priority::High], LIMITS);
    s.push(A, of_kind(10, CommandKind::Patched { last: true }), NOW);
    assert_eq!(next(&mut s, NOW), [new(10, 1)]);
    s.push(B, command(20), at(1));
    assert_eq!(next(&mut s, at(1)), [Next::Request(2)]);
    assert_eq!(s.preempted(0, (2, 0), at(2)), answered(&[], 1));
    let _given_up = s.clear_contexts(&[A]);
    assert!(!s.holds_places());
}

// spec: PRE-004, PRE-006
#[test]
fn a_driver_that_is_not_preemption_aware_is_asked_for_nothing() {
    let mut s = machine(&[Priority::Normal, Priority::High], Limits { preempts: false, ..LIMITS });
    s.push(A, command(10), NOW);
    assert_eq!(next(&mut s, NOW), [new(10, 1)]);
    s.push(B, command(20), NOW);
    assert_eq!(next(&mut s, NOW), [new(20, 2)], "behind the one that runs");
    assert_eq!(next(&mut s, at(1_000_000)), []);
    assert_eq!(s.next_deadline(), None);
}

// spec: PRE-111
#[test]
fn without_preemption_the_parts_of_a_buffer_run_back_to_back() {
    let part = |at, last| of_kind(at, CommandKind::Patched { last });
    for preempts in [false, true] {
        let mut s = machine(&[Priority::Normal, Priority::High], Limits { preempts, ..LIMITS });
        s.push(A, part(10, false), NOW);
        assert_eq!(next(&mut s, NOW), [new(10, 1)]);
        assert!(s.completed(0, 1, NOW).is_some());
        s.push(B, command(20), NOW);
        let between = next(&mut s, NOW);
        assert_eq!(between, if preempts { vec![new(20, 2)] } else { vec![] });
        if preempts {
            continue;
        }
        // The memory manager makes room for the next part.
        s.push(B, of_kind(30, CommandKind::Paging), NOW);
        assert_eq!(next(&mut s, NOW), [], "it stands behind other work of its context");
        s.push(A, part(11, false), NOW);
        s.push(A, part(12, true), NOW);
        assert_eq!(next(&mut s, NOW), [new(11, 2), new(12, 3)]);
        assert!(s.completed(0, 3, NOW).is_some());
        assert_eq!(next(&mut s, NOW).len(), 2, "the buffer is over");
    }
}

// spec: PRE-111
#[test]
fn paging_a_wait_and_the_end_of_its_device_let_others_go_between_two_parts() {
    let begun = || {
        let mut s =
            machine(&[Priority::Normal, Priority::Normal], Limits { preempts: false, ..LIMITS });
        s.push(A, of_kind(10, CommandKind::Patched { last: false }), NOW);
        assert_eq!(next(&mut s, NOW), [new(10, 1)]);
        assert!(s.completed(0, 1, NOW).is_some());
        s
    };
    let mut s = begun();
    s.push(B, of_kind(20, CommandKind::Paging), NOW);
    assert_eq!(next(&mut s, NOW), [Next::Packet(20, 2, PAGING)]);
    let mut s = begun();
    s.push(B, command(20), NOW);
    s.push(A, Work::Wait { fences: vec!["fence"], remaining: 1 }, NOW);
    assert_eq!(next(&mut s, NOW), [new(20, 2)], "it may be what the wait is for");
    let mut s = begun();
    s.push(B, command(20), NOW);
    assert_eq!(next(&mut s, NOW), []);
    let _given_up = s.clear_contexts(&[A]);
    assert_eq!(next(&mut s, NOW), [new(20, 2)]);
    let mut s = begun();
    s.push(B, command(20), NOW);
    let _given_up = s.remove_context(A);
    assert_eq!(next(&mut s, NOW), [new(20, 2)]);
}

#[test]
fn a_quantum_ends_when_an_equal_waits_and_not_before() {
    let mut s = machine(&[Priority::Normal, Priority::Normal], LIMITS);
    s.push(A, command(10), NOW);
    assert_eq!(next(&mut s, NOW), [new(10, 1)]);
    assert_eq!(s.next_deadline(), Some(CpuTime(1_000)), "nobody waits: only for the timeout delay");
    s.push(A, command(11), at(1));
    s.push(B, command(20), at(2));
    assert_eq!(next(&mut s, at(2)), [new(11, 2)]);
    assert_eq!(s.next_deadline(), Some(CpuTime(10)));
    assert_eq!(next(&mut s, at(9)), []);
    assert_eq!(next(&mut s, at(10)), [Next::Request(3)]);
    assert_eq!(s.next_deadline(), None, "the answer is what is waited for");
    assert_eq!(s.preempted(0, (3, 0), at(12)), answered(&[], 2));
    assert_eq!(next(&mut s, at(12)), [new(20, 4), again(10, 5)], "its turn is over");
    assert_eq!(s.next_deadline(), Some(CpuTime(22)));
}

#[test]
fn who_stands_behind_an_equal_on_the_engine_waits_for_its_quantum_too() {
    let mut s = machine(&[Priority::Normal, Priority::Normal, Priority::Normal], LIMITS);
    for context in [A, B, OsHandle(3)] {
        s.push(context, command(context.0), NOW);
    }
    assert_eq!(next(&mut s, NOW), [new(1, 1), new(2, 2)]);
    assert_eq!(next(&mut s, at(10)), [Next::Request(3)]);
    assert_eq!(s.preempted(0, (3, 0), at(10)), answered(&[], 2));
    assert_eq!(
        next(&mut s, at(10)),
        [again(2, 4), new(3, 5)],
        "who had not begun is before who waited behind"
    );
}

// spec: PRE-002
#[test]
fn a_packet_that_has_run_for_the_timeout_delay_is_asked_for() {
    let mut s = machine(&[Priority::Normal], LIMITS);
    s.push(A, command(10), NOW);
    assert_eq!(next(&mut s, NOW), [new(10, 1)]);
    assert_eq!((s.overdue(CpuTime(999)), s.overdue(CpuTime(1_000))), (vec![], vec![0]));
    assert_eq!(next(&mut s, at(1_000)), [Next::Request(2)]);
    assert_eq!(s.overdue(CpuTime(5_000)), []);
    assert_eq!(s.preempted(0, (2, 0), at(1_500)), answered(&[], 1));
    assert_eq!(next(&mut s, at(1_500)), [again(10, 3)]);
    assert_eq!(s.next_deadline(), Some(CpuTime(2_500)));
    assert_eq!(s.completed(0, 3, at(1_600)), Some(vec![A]));
    let mut endless = machine(&[Priority::Normal], Limits { timeout_ns: None, ..LIMITS });
    endless.push(A, command(10), NOW);
    assert_eq!(next(&mut endless, NOW), [new(10, 1)]);
    assert_eq!(next(&mut endless, at(u64::MAX)), []);
}

// spec: PRE-028, PRE-029, PRE-030
#[test]
fn paging_packets_come_first_in_their_order_under_the_numbers_that_they_had() {
    let caps = AdapterCaps { hw_queue_packet_cap: 4, ..caps() };
    let mut s = VidSch::new(&caps, LIMITS);
    for (context, priority) in [(A, Priority::Normal), (B, Priority::Realtime)] {
        s.add_context(context, 0, priority, 0, 0);
    }
    s.push(B, of_kind(20, CommandKind::Paging), NOW);
    s.push(B, of_kind(21, CommandKind::Paging), NOW);
    s.push(A, command(10), NOW);
    s.push(B, of_kind(22, CommandKind::Paging), NOW);
    let paging = |gpu_va, id| Next::Packet(gpu_va, id, PAGING);
    assert_eq!(next(&mut s, NOW), [paging(20, 1), paging(21, 2), paging(22, 3), new(10, 4)]);
    s.push(A, command(11), NOW);
    assert_eq!(next(&mut s, at(1_000)), [Next::Request(5)], "for the timeout delay alone");
    assert_eq!(s.preempted(0, (5, 1), at(1_000)), answered(&[2], 3));
    assert_eq!(s.next_deadline(), None);
    let paging_again = |gpu_va, id| Next::Packet(gpu_va, id, PAGING | RESUBMISSION);
    assert_eq!(
        next(&mut s, at(1_000)),
        [paging_again(21, 2), paging_again(22, 3), again(10, 6), new(11, 7)]
    );
    assert_eq!(s.next_deadline(), Some(CpuTime(2_000)), "its time begins anew");
    // The same once more, before all of them were submitted again.
    assert_eq!(next(&mut s, at(2_000)), [Next::Request(8)]);
    assert_eq!(s.preempted(0, (8, 1), at(2_000)), answered(&[], 4));
    assert_eq!(s.next_decision(at(2_000)).map(|_| ()), Some(()));
    s.running = false;
    assert_eq!(s.completed(0, 2, at(2_001)), Some(vec![B]));
    assert_eq!(next(&mut s, at(2_001)), [paging_again(22, 3), again(10, 9), again(11, 10)]);
}

// spec: PRE-024, PRE-025
#[test]
fn a_completion_that_races_with_a_request_counts_once_in_either_order() {
    for reported_first in [true, false] {
        let mut s = machine(&[Priority::Normal, Priority::High], LIMITS);
        s.push(A, command(10), NOW);
        s.push(A, command(11), NOW);
        s.push_signal(&[A], signal("done", NONE), NOW);
        assert_eq!(next(&mut s, NOW), [new(10, 1), new(11, 2)]);
        s.push(B, command(20), NOW);
        assert_eq!(next(&mut s, NOW), [Next::Request(3)]);
        if reported_first {
            assert_eq!(s.completed(0, 1, NOW), Some(vec![A]));
            assert_eq!(next(&mut s, NOW), []);
        }
        let completed: &[u64] = if reported_first { &[] } else { &[1] };
        assert_eq!(s.preempted(0, (3, 1), NOW), answered(completed, 1));
        assert_eq!(s.engines[0].last_completed(), 1, "what came back is not complete");
        if !reported_first {
            assert_eq!(
                s.completed(0, 1, NOW),
                Some(vec![]),
                "its own report is late and says nothing new"
            );
        }
        assert_eq!(next(&mut s, NOW), [new(20, 4), again(11, 5)]);
        assert_eq!(s.completed(0, 5, NOW), Some(vec![B, A]));
        assert_eq!(next(&mut s, NOW), [Next::Made("done")]);
    }
}

#[test]
fn all_may_be_complete_when_the_answer_comes() {
    let mut s = machine(&[Priority::Normal, Priority::High], LIMITS);
    s.push(A, command(10), NOW);
    assert_eq!(next(&mut s, NOW), [new(10, 1)]);
    s.push(B, command(20), NOW);
    assert_eq!(next(&mut s, NOW), [Next::Request(2)]);
    assert_eq!(s.completed(0, 1, NOW), Some(vec![A]));
    assert_eq!(next(&mut s, NOW), [], "the engine is closed until the request is answered");
    assert_eq!(s.preempted(0, (2, 1), NOW), answered(&[], 0));
    assert_eq!(next(&mut s, NOW), [new(20, 3)]);
}

// spec: PRE-022
#[test]
fn reports_that_answer_nothing_are_told_from_late_ones() {
    let mut s = machine(&[Priority::Normal, Priority::High], LIMITS);
    assert_eq!(s.preempted(0, (1, 0), NOW), Preempted::Unknown(1));
    assert_eq!(s.preempted(7, (1, 0), NOW), Preempted::Unknown(1));
    s.push(A, command(10), NOW);
    assert_eq!(next(&mut s, NOW), [new(10, 1)]);
    s.push(B, command(20), NOW);
    assert_eq!(next(&mut s, NOW), [Next::Request(2)]);
    assert_eq!(s.completed(0, 2, NOW), None, "that is the number of a request");
    assert_eq!(s.preempted(0, (2, 2), NOW), Preempted::Unknown(2), "that is nothing in flight");
    assert_eq!(s.preempted(0, (3, 0), NOW), Preempted::Unknown(3));
    s.engines[0].withdraw();
    assert_eq!(s.preempted(0, (2, 0), NOW), Preempted::Stale);
    assert_eq!(next(&mut s, NOW), [Next::Request(3)]);
    assert_eq!(s.preempted(0, (3, 0), NOW), answered(&[], 1));
    assert_eq!(s.preempted(0, (3, 0), NOW), Preempted::Unknown(3), "twice");
}

// spec: PRE-021
#[test]
fn submissions_and_requests_share_a_line_that_wraps() {
    let mut s = machine(&[Priority::Normal, Priority::High], LIMITS);
    s.engines[0].number_from(u32::MAX - 1);
    s.push(A, command(10), NOW);
    assert_eq!(next(&mut s, NOW), [new(10, u32::MAX)]);
    s.push(B, command(20), NOW);
    assert_eq!(next(&mut s, NOW), [Next::Request(0)]);
    assert_eq!(s.preempted(0, (0, u32::MAX - 1), NOW), answered(&[], 1));
    assert_eq!(next(&mut s, NOW), [new(20, 1), again(10, 2)]);
    assert_eq!(s.completed(0, 2, NOW), Some(vec![B, A]));
}

// spec: PRE-041
#[test]
fn a_packet_whose_signal_was_made_at_submission_comes_back_like_any_other() {
    let mut s = machine(&[Priority::Normal, Priority::High, Priority::Normal], LIMITS);
    let other = OsHandle(3);
    let gate = s.push(other, Work::Wait { fences: vec!["gate"], remaining: 1 }, NOW);
    s.push(A, command(10), NOW);
    s.push_signal(&[A], signal("begun", SignalFlags::SIGNAL_AT_SUBMISSION), NOW);
    s.push_signal(&[A, other], signal("both", SignalFlags::SIGNAL_AT_SUBMISSION), NOW);
    s.push(A, command(11), NOW);
    assert_eq!(next(&mut s, NOW), [new(10, 1), Next::Made("begun")]);
    s.push(B, command(20), NOW);
    assert_eq!(next(&mut s, NOW), [Next::Request(2)]);
    assert_eq!(s.preempted(0, (2, 0), NOW), answered(&[], 1));
    // The one that waits for the other context was reached before its packet came back: it is made
    // while that one waits again.
    s.wait_satisfied(other, gate, NOW);
    assert_eq!(next(&mut s, NOW), [Next::Made("both"), new(20, 3), again(10, 4)]);
    assert_eq!(s.completed(0, 4, NOW), Some(vec![B, A]));
    assert_eq!(next(&mut s, NOW), [new(11, 5)]);
    assert!(s.signals.is_empty());
}

// spec: PRE-042
#[test]
fn a_packet_before_a_wait_comes_back_before_it() {
    for satisfied_meanwhile in [true, false] {
        let mut s = machine(&[Priority::Normal, Priority::High], LIMITS);
        s.push(A, command(10), NOW);
        let wait = s.push(A, Work::Wait { fences: vec!["f"], remaining: 1 }, NOW);
        s.push(A, command(11), NOW);
        assert_eq!(next(&mut s, NOW), [new(10, 1)]);
        s.push(B, command(20), NOW);
        assert_eq!(next(&mut s, NOW), [Next::Request(2)]);
        if satisfied_meanwhile {
            s.wait_satisfied(A, wait, NOW);
            assert_eq!(next(&mut s, NOW), []);
        }
        assert_eq!(s.preempted(0, (2, 0), NOW), answered(&[], 1));
        assert_eq!(next(&mut s, NOW), [new(20, 3), again(10, 4)]);
        assert_eq!(s.completed(0, 4, NOW), Some(vec![B, A]));
        if !satisfied_meanwhile {
            assert_eq!(next(&mut s, NOW), []);
            s.wait_satisfied(A, wait, NOW);
        }
        assert_eq!(next(&mut s, NOW), [new(11, 5)]);
    }
}

#[test]
fn what_comes_back_to_a_context_that_is_lost_or_gone_is_not_submitted_again() {
    for gone in [true, false] {
        let mut s = machine(&[Priority::Normal, Priority::High], LIMITS);
        s.push(A, command(10), NOW);
        s.push(A, command(11), NOW);
        s.push(A, command(12), NOW);
        assert_eq!(next(&mut s, NOW), [new(10, 1), new(11, 2)]);
        s.push(B, command(20), NOW);
        assert_eq!(next(&mut s, NOW), [Next::Request(3)]);
        let given_up = if gone { s.remove_context(A) } else { s.clear_contexts(&[A]) };
        let commands: Vec<u64> = given_up.commands.iter().map(|(_, c)| c.gpu_va).collect();
        assert_eq!(commands, [12], "the driver never had it");
        assert_eq!(s.preempted(0, (3, 0), NOW), answered(&[], 2));
        assert_eq!(next(&mut s, NOW), [new(20, 4)]);
        assert!(s.is_idle(A));
    }
}

#[test]
fn a_packet_that_came_back_is_none_that_the_driver_never_had() {
    let mut s = machine(&[Priority::Normal, Priority::High], LIMITS);
    s.push(A, command(10), NOW);
    assert_eq!(next(&mut s, NOW), [new(10, 1)]);
    s.push(B, command(20), NOW);
    s.push(B, command(21), NOW);
    assert_eq!(next(&mut s, NOW), [Next::Request(2)]);
    assert_eq!(s.preempted(0, (2, 0), NOW), answered(&[], 1));
    assert_eq!(next(&mut s, NOW), [new(20, 3), new(21, 4)]);
    assert!(s.clear_contexts(&[A]).commands.is_empty());
    assert_eq!(next(&mut s, NOW), []);
}

// spec: PRE-012
#[test]
fn an_engine_that_falls_idle_is_turned_away_from_the_last_context_once() {
    let idle = OsHandle(9);
    let mut s = machine(&[Priority::Normal], LIMITS);
    s.add_context(idle, 0, Priority::Realtime, 0, 0);
    s.turn_idle_engine_to(0, idle);
    assert_eq!(next(&mut s, NOW), [], "it has no context yet");
    s.push(A, command(10), NOW);
    s.push(A, command(11), NOW);
    assert_eq!(next(&mut s, NOW), [new(10, 1), new(11, 2)]);
    assert_eq!(s.completed(0, 1, NOW), Some(vec![A]));
    assert_eq!(next(&mut s, NOW), []);
    assert_eq!(s.completed(0, 2, NOW), Some(vec![A]));
    let Some(Decision::Submit { context, command: given, fence_id: 3, flags, .. }) =
        s.next_decision(NOW)
    else {
        panic!("the engine is to be turned away")
    };
    assert_eq!((context, given.bytes, flags), (idle, 0, SubmitCommandFlags::CONTEXT_SWITCH));
    assert_eq!(next(&mut s, NOW), []);
    assert_eq!(s.completed(0, 3, NOW), Some(vec![idle]));
    assert_eq!(next(&mut s, NOW), [], "it is there");
    s.push(A, command(12), NOW);
    assert_eq!(next(&mut s, NOW), [new(12, 4)]);
}
