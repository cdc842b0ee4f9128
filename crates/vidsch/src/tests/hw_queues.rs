//! Hardware queues: order, room, progress, signals, abandonment, broadcasts with packet contexts.

use super::*;
use tidegate_platform::WorkStats;

const Q: OsHandle = OsHandle(11);
const R: OsHandle = OsHandle(12);

/// Creates hardware queues 11 and 12, with room for `max_in_flight` commands, and contexts 1 and 2.
fn machine(max_in_flight: usize) -> Sched {
    let mut s = with_contexts(&[Priority::Normal; 2], CONFIG);
    s.add_hw_queue(Q, max_in_flight);
    s.add_hw_queue(R, max_in_flight);
    s
}

fn hw_command(progress: u64) -> Command {
    of_kind(progress, CommandKind::HwQueue { progress_fence_id: progress })
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Submitted(u64),
    Await(u64),
    Signalled(&'static str),
}

/// Carries out the effects of a hardware queue whose progress fence is at `progress`.
fn run(s: &mut Sched, queue: OsHandle, progress: u64) -> Vec<Step> {
    let mut steps = Vec::new();
    if !s.try_take_right(Submitter::HwQueue(queue)) {
        return steps;
    }
    while let Some(effect) = s.next_hw_queue_effect(queue, progress, NOW) {
        steps.push(match effect {
            HwQueueEffect::Submit(due) => Step::Submitted(due.progress_fence_id),
            HwQueueEffect::AwaitProgress(value) => Step::Await(value),
            HwQueueEffect::Signal { queues, signal } => {
                s.signalled(&queues, NOW);
                Step::Signalled(name(&signal))
            }
        });
    }
    steps
}

// spec: HS-012
#[test]
fn commands_are_submitted_immediately_and_waits_and_signals_block() {
    let mut s = machine(usize::MAX);
    assert!(s.push_command(Q, hw_command(1), NOW) && s.push_command(Q, hw_command(2), NOW));
    s.push_signal(&[Q], signal("done", NONE), NOW);
    let wait = s.push_wait(Q, &["f"], NOW);
    s.push_command(Q, hw_command(3), NOW);
    assert_eq!(run(&mut s, Q, 0), [Step::Submitted(1), Step::Submitted(2), Step::Await(2)]);
    assert_eq!(run(&mut s, Q, 1), [], "a waiter is registered for 2 already");
    assert_eq!(run(&mut s, Q, 2), [Step::Signalled("done")]);
    assert!(s.holds_work(Q));
    s.wait_satisfied(Q, wait, NOW);
    assert_eq!(run(&mut s, Q, 2), [Step::Submitted(3)]);
    assert_eq!((s.holds_work(Q), s.is_idle(Q), s.submitted_progress(Q).0), (false, false, 3));
    assert_eq!(run(&mut s, Q, 3), []);
    assert!(s.is_idle(Q));
}

// spec: HS-011
#[test]
fn progress_values_rise_strictly() {
    let mut s = machine(usize::MAX);
    assert!(s.push_command(Q, hw_command(5), NOW));
    assert!(!s.push_command(Q, hw_command(5), NOW) && !s.push_command(Q, hw_command(4), NOW));
    assert!(s.push_command(Q, hw_command(9), NOW));
    assert_eq!((s.announced_progress(Q), s.announced_progress(R)), (9, 0));
    assert_eq!(run(&mut s, Q, 0), [Step::Submitted(5), Step::Submitted(9)]);
    assert_eq!((s.oldest_in_flight(Q, 0), s.oldest_in_flight(Q, 5)), (Some(5), Some(9)));
}

#[test]
fn a_full_queue_waits_until_half_of_it_is_complete() {
    let mut s = machine(4);
    (1..=7).for_each(|n| assert!(s.push_command(Q, hw_command(n), NOW)));
    let full = [1, 2, 3, 4].map(Step::Submitted).into_iter().chain([Step::Await(3)]);
    assert_eq!(run(&mut s, Q, 0), full.collect::<Vec<_>>());
    assert_eq!(run(&mut s, Q, 0), [], "one registration is enough");
    assert_eq!(run(&mut s, Q, 3), [5, 6, 7].map(Step::Submitted));
}

#[test]
fn a_signal_at_submission_does_not_wait_for_progress() {
    let mut s = machine(usize::MAX);
    s.push_command(Q, hw_command(1), NOW);
    s.push_signal(&[Q], signal("begun", SignalFlags::SIGNAL_AT_SUBMISSION), NOW);
    s.push_signal(&[Q], Signal::action("flip"), NOW);
    s.push_signal(&[Q], Signal::event("event"), NOW);
    assert_eq!(run(&mut s, Q, 0), [Step::Submitted(1), Step::Signalled("begun"), Step::Await(1)]);
    assert_eq!(run(&mut s, Q, 1), [Step::Signalled("flip"), Step::Signalled("event")]);
}

#[test]
fn a_wait_for_several_fences_ends_with_the_last_of_them() {
    let mut s = machine(usize::MAX);
    let wait = s.push_wait(Q, &["f", "g"], at(3));
    s.push_command(Q, hw_command(1), NOW);
    s.wait_satisfied(Q, wait, NOW);
    assert_eq!(run(&mut s, Q, 0), []);
    assert_eq!(s.pending_waits().collect::<Vec<_>>(), [(Q, &"f"), (Q, &"g")]);
    s.wait_satisfied(Q, wait, at(8));
    assert_eq!(run(&mut s, Q, 0), [Step::Submitted(1)]);
    let of_queue = s.fence_operations(9).find(|(queue, _)| *queue == Q);
    assert_eq!(of_queue, Some((Q, WorkStats { waits: 1, blocked_ns: 5, ..WorkStats::default() })));
    let finished = s.take_finished();
    let [wait] = &finished[..] else { panic!("{} items have finished", finished.len()) };
    assert_eq!((wait.queue, wait.wait, wait.start_ns, wait.end_ns), (Q, true, 3, 8));
    assert_eq!(wait.fences, ["f", "g"]);
}

#[test]
fn one_agent_runs_a_queue_and_other_queues_are_independent_of_it() {
    let mut s = machine(usize::MAX);
    assert!(s.try_take_right(Submitter::HwQueue(Q)));
    s.push_command(Q, hw_command(1), NOW);
    s.push_command(R, hw_command(1), NOW);
    assert_eq!(run(&mut s, Q, 0), [], "an agent holds the right");
    assert_eq!(run(&mut s, R, 0), [Step::Submitted(1)]);
    assert!(s.try_take_right(Submitter::Packets));
    let next = s.next_hw_queue_effect(Q, 0, NOW);
    assert!(matches!(next, Some(HwQueueEffect::Submit(DueCommand { progress_fence_id: 1, .. }))));
    assert!(s.next_hw_queue_effect(Q, 0, NOW).is_none() && s.try_take_right(Submitter::HwQueue(Q)));
    assert!(!s.try_take_right(Submitter::HwQueue(OsHandle(99))), "no such queue");
}

// spec: MF-027
#[test]
fn a_broadcast_is_made_once_by_the_queue_that_reaches_it_last() {
    let mut s = machine(usize::MAX);
    s.push_command(Q, hw_command(1), NOW);
    s.push_signal(&[Q, R], signal("both", NONE), NOW);
    s.push_command(Q, hw_command(2), NOW);
    s.push_command(R, hw_command(1), NOW);
    assert_eq!(run(&mut s, R, 0), [], "it has reached the broadcast and is blocked");
    assert_eq!(run(&mut s, Q, 0), [Step::Submitted(1), Step::Await(1)]);
    assert!(s.try_take_right(Submitter::HwQueue(Q)));
    let Some(HwQueueEffect::Signal { queues, .. }) = s.next_hw_queue_effect(Q, 1, NOW) else {
        panic!("the broadcast is due")
    };
    assert_eq!(run(&mut s, R, 0), [], "blocked until the signal executes");
    assert!(s.next_hw_queue_effect(Q, 1, NOW).is_none());
    let go_on = s.signalled(&queues, NOW);
    assert_eq!(go_on, [Submitter::HwQueue(Q), Submitter::HwQueue(R)]);
    assert_eq!(run(&mut s, R, 0), [Step::Submitted(1)]);
    assert_eq!(run(&mut s, Q, 1), [Step::Submitted(2)]);
    assert!(s.signals.is_empty());
}

#[test]
fn two_broadcasts_are_in_the_same_order_on_every_queue() {
    let mut s = machine(usize::MAX);
    s.push_signal(&[Q, R], signal("first", NONE), NOW);
    s.push_signal(&[R, Q], signal("second", NONE), NOW);
    assert_eq!(run(&mut s, Q, 0), []);
    let both = [Step::Signalled("first"), Step::Signalled("second")];
    assert_eq!(run(&mut s, R, 0), both, "R reached both of them last");
}

// spec: MF-027
#[test]
fn a_broadcast_may_span_contexts_and_hardware_queues() {
    for context_last in [true, false] {
        let mut s = machine(usize::MAX);
        s.push_command(A, command(7), NOW);
        s.push_command(Q, hw_command(1), NOW);
        s.push_signal(&[A, Q], signal("both", NONE), NOW);
        s.push_command(A, command(8), NOW);
        assert_eq!(push(&mut s, Q, hw_command(2), NOW), [new(7, 1)]);
        assert_eq!(run(&mut s, Q, 0), [Step::Submitted(1), Step::Await(1)]);
        if context_last {
            assert_eq!(run(&mut s, Q, 1), []);
            assert_eq!(complete(&mut s, 1, NOW), [Next::Signalled("both"), new(8, 2)]);
            assert_eq!(run(&mut s, Q, 1), [Step::Submitted(2)]);
        } else {
            assert_eq!(complete(&mut s, 1, NOW), []);
            assert_eq!(run(&mut s, Q, 1), [Step::Signalled("both"), Step::Submitted(2)]);
            assert_eq!(next(&mut s, NOW), [new(8, 2)]);
        }
    }
}

// spec: MF-065
#[test]
fn a_removed_hardware_queue_does_not_hold_a_broadcast() {
    let mut s = machine(usize::MAX);
    s.push_wait(R, &["never"], NOW);
    s.push_signal(&[Q, R], signal("both", NONE), NOW);
    s.push_command(R, hw_command(1), NOW);
    assert_eq!(run(&mut s, Q, 0), []);
    let abandoned = s.remove_queue(R);
    assert_eq!(abandoned.submitters, [Submitter::HwQueue(Q)]);
    assert_eq!((abandoned.waits, abandoned.packets.len()), (vec![(R, "never")], 0));
    assert_eq!(run(&mut s, Q, 0), [Step::Signalled("both")]);
    assert_eq!(run(&mut s, R, 0), [], "it was abandoned");
    assert!(!s.holds_work(R) && s.signals.is_empty());
}

#[test]
fn a_due_broadcast_of_a_removed_queue_is_executed_by_another() {
    let mut s = machine(usize::MAX);
    s.push_signal(&[Q, R], signal("both", NONE), NOW);
    // R reached it last and would have executed it.
    assert_eq!(s.abandon(&[R]).submitters, [Submitter::HwQueue(Q)]);
    assert_eq!(run(&mut s, R, 0), []);
    assert_eq!(run(&mut s, Q, 0), [Step::Signalled("both")]);
    s.push_signal(&[A, R], signal("with a context", NONE), NOW);
    assert_eq!(s.abandon(&[R]).submitters, [Submitter::Packets]);
    assert_eq!(next(&mut s, NOW), [Next::Signalled("with a context")]);
}

#[test]
fn queues_abandoned_together_signal_nothing_but_set_their_events() {
    let mut s = machine(usize::MAX);
    s.push_wait(Q, &["never"], NOW);
    s.push_wait(R, &["never"], NOW);
    s.push_signal(&[Q, R], signal("both", NONE), NOW);
    s.push_signal(&[Q], Signal::event("drained"), NOW);
    s.push_signal(&[R], Signal::action("flip"), NOW);
    assert_eq!(s.queued_signals(Q).collect::<Vec<_>>(), [&"both"]);
    let abandoned = s.abandon(&[Q, R, A]);
    assert_eq!(abandoned.submitters, [Submitter::Packets], "an event has no queue left");
    let mut signals: Vec<_> = abandoned.signals.iter().map(name).collect();
    signals.sort();
    assert_eq!(signals, ["both", "flip"]);
    assert_eq!(next(&mut s, NOW), [Next::Signalled("drained")]);
    assert!(s.signals.is_empty());
    s.push_command(Q, hw_command(1), NOW);
    assert_eq!(run(&mut s, Q, 0), [Step::Submitted(1)], "later work is not abandoned");
}

#[test]
fn a_packet_for_removed_queues_is_returned() {
    let mut s = machine(usize::MAX);
    let _abandoned = s.remove_queue(R);
    assert!(s.push_signal(&[Q, R], signal("both", NONE), NOW).is_none());
    assert_eq!(run(&mut s, Q, 0), [Step::Signalled("both")], "Q is the only queue left");
    assert_eq!(s.push_signal(&[R], Signal::event("e"), NOW).map(|e| name(&e)), Some("e"));
    assert!(s.push_command(R, hw_command(1), NOW) && s.is_idle(R) && s.signals.is_empty());
    s.push_wait(R, &["f"], NOW);
    assert_eq!(s.pending_waits().count(), 0);
}

#[test]
fn signals_count_and_are_recorded_by_queue() {
    let mut s = machine(usize::MAX);
    s.push_signal(&[Q, R], signal("both", NONE), at(4));
    assert_eq!(run(&mut s, R, 0), [Step::Signalled("both")]);
    let signals: Vec<_> =
        s.fence_operations(0).map(|(queue, done)| (queue, done.signals)).collect();
    assert_eq!(signals, [(A, 0), (B, 0), (Q, 1), (R, 1)]);
    let finished = s.take_finished();
    let finished: Vec<_> = finished.iter().map(|f| (f.queue, f.wait, f.queued_ns)).collect();
    assert_eq!(finished, [(Q, false, 4), (R, false, 4)]);
}

#[test]
fn calls_for_contexts_ignore_hardware_queues() {
    let mut s = machine(usize::MAX);
    s.push_command(Q, hw_command(1), NOW);
    assert!(s.busy_contexts().is_empty() && !s.holds_places() && s.next_deadline().is_none());
    s.area_lacks_content(Q);
    s.disable_timeout(Q);
    assert!(s.begin_area_move(Q), "it has no packets");
    assert_eq!(run(&mut s, Q, 0), [Step::Submitted(1)], "a hardware queue has no save area here");
    assert_eq!(s.release_or_keep(Q, "buffer"), Some("buffer"));
}
