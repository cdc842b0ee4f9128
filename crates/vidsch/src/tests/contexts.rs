//! Queues of packet contexts: order, waits, signals, broadcasts, abandoned queues, holds.

use super::*;

#[test]
fn a_waiter_receives_the_submission_right_before_anything_else_is_decided() {
    let mut s = with_contexts(&[Priority::Normal], CONFIG);
    let (first, late) = (WaiterId(1), WaiterId(2));
    assert!(s.try_take_right(Submitter::Packets));
    s.wait_for_right(first);
    s.wait_for_right(late);
    assert_eq!(s.hand_off_right(), None, "an agent holds it");
    s.push_command(A, command(1), NOW);
    assert!(s.next_effect(NOW).is_none(), "the handoff comes first");
    assert_eq!(s.hand_off_right(), Some(first));
    assert!(!s.try_take_right(Submitter::Packets), "the first waiter holds it");
    assert!(s.cancel_wait_for_right(late));
    assert!(!s.cancel_wait_for_right(first), "it holds the right already");
    assert!(submitted(&mut s).is_some());
    assert!(s.next_effect(NOW).is_none() && s.try_take_right(Submitter::Packets));
}

#[test]
fn a_rejected_packet_completes_no_other() {
    let mut s = with_contexts(&[Priority::Normal; 2], Config { packet_cap: 2, ..CONFIG });
    for context in [A, B] {
        s.push_command(context, command(context.0), NOW);
        s.push_signal(&[context], signal(if context == A { "a" } else { "b" }, NONE), NOW);
    }
    let (one, two) = (submitted(&mut s).unwrap(), submitted(&mut s).unwrap());
    s.not_accepted(ENGINE, two.1, NOW);
    assert_eq!(signalled(&mut s), Some("b"), "it has no work left to wait for");
    assert_eq!(signalled(&mut s), None, "the packet before it is still running");
    assert!(s.completed(ENGINE, one.1, NOW).is_some());
    assert_eq!(signalled(&mut s), Some("a"));
    // A second report, and an engine that does not exist, change nothing.
    s.not_accepted(ENGINE, two.1, NOW);
    s.not_accepted(EngineId::of_node(7), 7, NOW);
}

fn two_contexts() -> Sched {
    with_contexts(&[Priority::Normal; 2], CONFIG)
}

#[test]
fn queued_work_counts_until_it_leaves_its_queue() {
    let mut s = two_contexts();
    let costs = |s: &Sched| (s.queued_cost(A), s.queued_cost(B));
    let ticket = s.push_wait(A, &["x", "y", "z"], NOW);
    s.push_command(A, of_kind(1, CommandKind::Patched { last: true }), NOW);
    let large = Command { bytes: 4_096, ..of_kind(2, CommandKind::Patched { last: true }) };
    s.push_command(B, large, NOW);
    s.push_signal(&[A, B], signal("both", NONE), NOW);
    assert_eq!(costs(&s), (3 + 1 + 1, 17 + 1));
    assert_eq!(submitted(&mut s), Some((2, 1)), "it is in flight");
    assert_eq!(costs(&s), (5, 1));
    for _ in 0..3 {
        s.wait_satisfied(A, ticket, NOW);
    }
    assert_eq!(costs(&s), (2, 1), "the wait is over");
    assert!(s.completed(ENGINE, 1, NOW).is_some());
    assert_eq!(submitted(&mut s), Some((1, 2)));
    assert!(s.completed(ENGINE, 2, NOW).is_some());
    assert_eq!((signalled(&mut s), costs(&s)), (Some("both"), (0, 0)));
    s.push_wait(A, &["x"], NOW);
    s.push_command(A, command(3), NOW);
    let _given_up = s.abandon(&[A]);
    assert_eq!(costs(&s), (0, 0));
}

// spec: MF-027
#[test]
fn a_broadcast_blocks_its_contexts_until_all_have_reached_it() {
    let mut s = two_contexts();
    s.push_command(B, command(1), NOW);
    s.push_signal(&[A, B], signal("both", NONE), NOW);
    s.push_signal(&[A], signal("after", NONE), NOW);
    s.push_command(A, command(2), NOW);
    assert_eq!(submitted(&mut s), Some((1, 1)));
    assert_eq!(signalled(&mut s), None, "A has reached it, and B's command is not complete");
    assert!(s.completed(ENGINE, 1, NOW).is_some());
    assert_eq!((signalled(&mut s), signalled(&mut s)), (Some("both"), Some("after")));
    assert_eq!(submitted(&mut s), Some((2, 2)));
    // Two broadcasts in the same order on every queue cannot deadlock.
    s.push_signal(&[B, A], signal("first", NONE), NOW);
    s.push_signal(&[A, B], signal("second", NONE), NOW);
    assert_eq!(signalled(&mut s), None);
    assert!(s.completed(ENGINE, 2, NOW).is_some());
    assert_eq!((signalled(&mut s), signalled(&mut s)), (Some("first"), Some("second")));
    assert!(s.signals.is_empty());
}

#[test]
fn a_removed_context_does_not_hold_a_broadcast() {
    let mut s = two_contexts();
    s.push_wait(B, &["never"], NOW);
    s.push_signal(&[A, B], signal("one", NONE), NOW);
    s.push_signal(&[B, A], signal("two", NONE), NOW);
    assert_eq!(signalled(&mut s), None);
    assert_eq!(s.remove_queue(B).submitters, [Submitter::Packets], "A has reached the first one");
    assert_eq!(
        (signalled(&mut s), signalled(&mut s), signalled(&mut s)),
        (Some("one"), Some("two"), None)
    );
    s.push_signal(&[A], signal("lost", NONE), NOW);
    assert!(s.remove_queue(A).submitters.is_empty());
    assert_eq!(signalled(&mut s), None, "it was abandoned");
    assert!(s.signals.is_empty());
}

#[test]
fn contexts_abandoned_together_signal_nothing() {
    let mut s = two_contexts();
    s.push_wait(A, &["never"], NOW);
    s.push_signal(&[A, B], signal("both", NONE), NOW);
    assert!(s.abandon(&[A, B]).submitters.is_empty());
    assert_eq!(signalled(&mut s), None);
    assert!(s.signals.is_empty());
    s.push_signal(&[A, B], signal("later", NONE), NOW);
    assert_eq!(signalled(&mut s), Some("later"), "the contexts are still usable");
}

#[test]
fn a_signal_at_submission_does_not_wait_for_completion() {
    let mut s = two_contexts();
    let gate = s.push_wait(A, &["gate"], NOW);
    s.push_command(A, command(1), NOW);
    s.push_signal(&[A], signal("begun", SignalFlags::SIGNAL_AT_SUBMISSION), NOW);
    s.push_signal(&[A], signal("done", NONE), NOW);
    assert_eq!(signalled(&mut s), None, "a wait blocks it");
    s.wait_satisfied(A, gate, NOW);
    assert_eq!(submitted(&mut s), Some((1, 1)));
    assert_eq!((signalled(&mut s), signalled(&mut s)), (Some("begun"), None));
    assert!(s.completed(ENGINE, 1, NOW).is_some());
    assert_eq!(signalled(&mut s), Some("done"));
}

// spec: MF-031, MF-032
#[test]
fn a_context_is_fifo_over_commands_waits_and_signals() {
    let (a, mut s) = (A, with_contexts(&[Priority::Normal], CONFIG));
    s.push_command(a, command(1), NOW);
    let wait = s.push_wait(a, &["f"], NOW);
    s.push_command(a, command(2), NOW);
    s.push_signal(&[a], signal("g", NONE), NOW);
    assert_eq!(submitted(&mut s), Some((1, 1)));
    assert_eq!(submitted(&mut s), None, "the wait blocks the work behind it");
    assert!(s.completed(ENGINE, 1, NOW).is_some());
    assert_eq!(submitted(&mut s), None);
    s.wait_satisfied(a, wait, NOW);
    assert_eq!(submitted(&mut s), Some((2, 2)));
    assert_eq!(submitted(&mut s), None, "the signal waits for the command before it");
    assert!(s.completed(ENGINE, 2, NOW).is_some());
    assert_eq!(signalled(&mut s), Some("g"));
    assert!(s.completed(ENGINE, 3, NOW).is_none(), "a packet that was never submitted");
}

#[test]
fn higher_priority_first_and_equals_take_turns() {
    // Three equals: with two, every order but one takes turns.
    let normal = Priority::Normal;
    let mut s = with_contexts(&[normal, normal, Priority::High, normal], CONFIG);
    for handle in [1, 2, 3, 4, 1, 2, 3, 4] {
        s.push_command(OsHandle(handle), command(handle), NOW);
    }
    let mut order = Vec::new();
    for id in 1..=8 {
        order.push(submitted(&mut s).unwrap().0);
        assert!(s.completed(ENGINE, id, NOW).is_some());
    }
    assert_eq!(order, [3, 3, 1, 2, 4, 1, 2, 4]);
}

#[test]
fn fence_ids_wrap() {
    let mut s = with_contexts(&[Priority::Normal], CONFIG);
    continue_ids_after(&mut s, u32::MAX - 1);
    for _ in 0..3 {
        s.push_command(OsHandle(1), command(7), NOW);
    }
    for id in [u32::MAX, 0, 1] {
        assert_eq!(submitted(&mut s), Some((7, id)));
        assert!(s.completed(ENGINE, id, NOW).is_some());
    }
}

/// Otherwise a driver that compares IDs correctly takes a packet in flight for a completed one.
#[test]
fn ids_are_left_out_only_when_every_packet_is_complete() {
    let config = Config { packet_cap: 2, fence_ids_ahead: 1_000, ..CONFIG };
    let mut s = with_contexts(&[Priority::Normal], config);
    (0..2).for_each(|_| assert!(s.push_command(OsHandle(1), command(7), NOW)));
    assert_eq!([submitted(&mut s), submitted(&mut s)], [Some((7, 1_001)), Some((7, 1_002))]);
    assert!(s.completed(ENGINE, 1_002, NOW).is_some());

    let config = Config { fence_ids_ahead: u32::MAX, ..CONFIG };
    let mut s = with_contexts(&[Priority::Normal], config);
    s.push_command(OsHandle(1), command(7), NOW);
    let quarter = u32::MAX / 4;
    assert_eq!(submitted(&mut s), Some((7, quarter + 1)));
    let late = at(2_000);
    assert_eq!(next(&mut s, late), [Next::Request(quarter + 2)]);
    let answer = s.preempted(ENGINE, report(quarter + 2, 0), late);
    assert!(matches!(answer, Preempted::Answered { returned: 1, .. }));
    let again = next(&mut s, late);
    let resubmission = SubmitCommandFlags::RESUBMISSION;
    assert_eq!(again, [Next::Packet(7, quarter + 3, resubmission)], "nothing is complete");
    assert!(s.completed(ENGINE, quarter + 3, late).is_some());
    assert_eq!(
        push(&mut s, OsHandle(1), command(8), late),
        [Next::Packet(8, 2 * quarter + 4, SubmitCommandFlags::empty())]
    );
}

// spec: PRE-016
#[test]
fn a_context_is_held_while_its_save_area_is_unusable() {
    let mut s = two_contexts();
    s.push_command(A, command(1), NOW);
    s.area_lacks_content(A);
    s.push_command(A, command(2), NOW);
    s.push_command(B, command(3), NOW);
    assert_eq!(submitted(&mut s), Some((3, 1)), "the other context is not held");
    s.area_has_content(A, NOW);
    assert!(s.completed(ENGINE, 1, NOW).is_some());
    assert_eq!(submitted(&mut s), Some((1, 2)));
    assert!(!s.begin_area_move(A), "its packet is in flight and may store its state");
    assert!(!s.take_area_became_movable());
    assert!(s.completed(ENGINE, 2, NOW).is_some());
    assert!(s.take_area_became_movable() && !s.take_area_became_movable());
    assert!(s.begin_area_move(A));
    assert_eq!(submitted(&mut s), None, "its packets are held while the area moves");
    s.end_area_move(A, NOW);
    assert_eq!(submitted(&mut s), Some((2, 3)));
}

#[test]
fn a_preempted_packet_is_held_while_its_state_moves() {
    let mut s = two_contexts();
    s.push_command(A, command(1), NOW);
    assert_eq!(submitted(&mut s), Some((1, 1)));
    assert!(!s.begin_area_move(A));
    let late = Now { at: CpuTime(2_000), ..NOW };
    let Some(Effect::Preempt { fence_id, .. }) = s.next_effect(late) else {
        panic!("no preemption for the timeout delay")
    };
    assert!(matches!(
        s.preempted(ENGINE, report(fence_id, 0), late),
        Preempted::Answered { returned: 1, .. }
    ));
    assert!(s.take_area_became_movable() && s.begin_area_move(A));
    assert_eq!(submitted(&mut s), None, "its save area is being moved");
    s.end_area_move(A, late);
    assert!(matches!(
        s.next_effect(late),
        Some(Effect::Submit(DuePacket { flags, fence_id: 3, .. })) if flags.contains(SubmitCommandFlags::RESUBMISSION)
    ));
}

#[test]
fn a_queue_is_idle_when_its_signals_have_been_made_and_each_submitter_runs_once() {
    let mut s = two_contexts();
    s.add_hw_queue(C, 1);
    s.push_signal(&[A, B], signal("both", NONE), NOW);
    let Some(Effect::Signal { queues, .. }) = s.next_effect(NOW) else { panic!("a signal") };
    assert!(!s.is_idle(A) && !s.is_idle(B), "it is under way");
    assert_eq!(s.signalled(&queues, NOW), [Submitter::Packets], "of both queues");
    assert!(s.is_idle(A) && s.is_idle(B));
    let mixed = s.signalled(&[A, C, B], NOW);
    assert_eq!(mixed, [Submitter::Packets, Submitter::HwQueue(C)]);
}

#[test]
fn a_wait_at_the_head_of_its_queue_counts_while_it_goes_on() {
    let mut s = two_contexts();
    let first = s.push_wait(A, &["f", "g"], at(5));
    s.push_wait(A, &["h"], at(6));
    let blocked = |s: &Sched, now| {
        let of_queue = s.fence_operations(now).find(|(queue, _)| *queue == A);
        of_queue.map(|(_, done)| (done.waits, done.blocked_ns))
    };
    assert_eq!(blocked(&s, 12), Some((0, 7)));
    (0..2).for_each(|_| s.wait_satisfied(A, first, at(15)));
    assert_eq!(blocked(&s, 15), Some((1, 10)));
    assert_eq!(blocked(&s, 20), Some((1, 10 + 5)), "the next one has been at the head since 15");
}

#[test]
fn a_context_of_an_engine_that_is_not_there_is_not_added_and_has_no_hardware_queue() {
    let mut s = with_contexts(&[Priority::Normal], CONFIG);
    let nowhere = OsHandle(9);
    s.add_context(nowhere, EngineId::of_node(7), Priority::Normal);
    s.push_command(nowhere, command(10), NOW);
    assert!(!s.holds_work(nowhere));
    s.push_command(A, command(11), NOW);
    assert!(s.holds_work(A));
    assert_eq!((s.announced_progress(A), s.submitted_progress(A)), (0, (0, 0)));
    assert_eq!(s.oldest_in_flight(A, 0), None);
}
