//! Timeouts of packets, and the effect of resets on them.

use super::*;

const OTHER: EngineId = EngineId::of_node(1);

/// Creates context 1 on the first engine, 2 and 3 on the second; four packets per engine.
fn machine(preempts: bool) -> Sched {
    let mut s = VidSch::new(Config { nodes: 2, packet_cap: 4, preempts, ..CONFIG });
    s.add_context(A, ENGINE, Priority::Normal);
    s.add_context(B, OTHER, Priority::Normal);
    s.add_context(C, OTHER, Priority::Normal);
    s
}

// spec: PRE-026
#[test]
fn an_unanswered_request_is_a_timeout_reported_once() {
    let mut s = machine(true);
    assert_eq!(push(&mut s, A, command(10), NOW), [new(10, 1)]);
    assert_eq!(s.next_timeout(500), None, "nothing was requested");
    assert_eq!(next(&mut s, at(1_000)), [Next::Request(2)]);
    assert_eq!(s.next_timeout(500), Some(CpuTime(1_500)));
    assert_eq!(s.take_timed_out(CpuTime(1_499), 500), []);
    assert_eq!(s.take_timed_out(CpuTime(1_500), 500), [ENGINE]);
    assert_eq!((s.next_timeout(500), s.take_timed_out(CpuTime(9_000), 500)), (None, vec![]));
}

// spec: PRE-169
#[test]
fn a_timeout_counts_no_time_before_the_process_had_a_processor() {
    for preempts in [true, false] {
        let mut s = machine(preempts);
        push(&mut s, A, command(10), NOW);
        next(&mut s, at(1_000));
        s.count_timeouts_from(CpuTime(5_000));
        s.count_timeouts_from(CpuTime(3_000));
        assert_eq!(s.next_timeout(500), Some(CpuTime(5_500)));
        s.leave_out(400, CpuTime(5_450));
        assert_eq!(s.next_timeout(500), Some(CpuTime(5_900)));
        assert_eq!(s.take_timed_out(CpuTime(5_899), 500), []);
        assert_eq!(s.take_timed_out(CpuTime(5_900), 500), [ENGINE]);
    }
}

// spec: PRE-169
#[test]
fn a_packet_and_a_request_begin_no_later_than_now() {
    for preempts in [true, false] {
        let mut s = machine(preempts);
        push(&mut s, A, command(10), NOW);
        next(&mut s, at(1_000));
        s.leave_out(700, CpuTime(1_100));
        let due = if preempts { 1_600 } else { NOW.at.0 + 1_200 };
        assert_eq!(s.next_timeout(500), Some(CpuTime(due)));
    }
}

#[test]
fn without_preemption_the_first_packet_times_out() {
    let mut s = machine(false);
    s.push_command(B, command(10), NOW);
    assert_eq!(push(&mut s, C, command(20), NOW), [new(10, 1), new(20, 2)]);
    assert_eq!(s.take_timed_out(CpuTime(500), 500), [OTHER]);
    assert_eq!((s.next_timeout(500), s.take_timed_out(CpuTime(599), 500)), (None, vec![]));
    assert_eq!(s.completed(OTHER, 1, at(600)), Some(vec![B]));
    assert_eq!(s.next_timeout(500), Some(CpuTime(1_100)), "the next packet has its own timeout");
    s.disable_timeout(C);
    assert_eq!(s.next_timeout(500), None);
    let _abandoned = s.remove_queue(C);
    assert_eq!(s.next_timeout(500), Some(CpuTime(1_100)), "the exemption ends with the context");
}

// spec: PRE-050
#[test]
fn an_engine_reset_ends_the_aborted_packet_and_requeues_later_ones() {
    let mut s = machine(true);
    s.push_command(B, command(10), NOW);
    s.push_command(C, of_kind(20, CommandKind::Paging), NOW);
    s.push_command(B, command(11), NOW);
    s.push_signal(&[B], signal("done", NONE), NOW);
    assert_eq!(next(&mut s, NOW).len(), 3);
    s.stop(OTHER);
    s.push_command(C, command(21), NOW);
    assert_eq!(next(&mut s, at(5_000)), [], "nothing is submitted or requested");
    assert_eq!(s.completed_and_submitted(OTHER), (0, 3));
    assert_eq!(s.note_reset(OTHER, 1, true), Some((B, false)));
    assert_eq!(s.resume(OTHER, NOW), [], "the aborted packet is not complete");
    let paging = SubmitCommandFlags::PAGING | SubmitCommandFlags::RESUBMISSION;
    let resubmitted = next(&mut s, NOW);
    assert_eq!(resubmitted[0], Next::Packet(20, 2, paging), "under its old ID");
    assert!(resubmitted.contains(&again(11, 4)) && resubmitted.contains(&new(21, 5)));
    assert_eq!(s.completed(OTHER, 5, NOW).map(|over| over.len()), Some(3));
    assert_eq!(next(&mut s, NOW), [Next::Signalled("done")]);
}

#[test]
fn a_reset_that_names_a_complete_packet_completes_those_before_it() {
    let mut s = machine(true);
    s.push_command(A, command(10), NOW);
    assert_eq!(push(&mut s, A, command(11), NOW).len(), 2);
    assert_eq!(s.preempt_now(ENGINE, CpuTime(0)), Some(3));
    assert_eq!(s.preempt_now(ENGINE, CpuTime(0)), None, "one request at a time");
    assert_eq!(s.note_reset(ENGINE, 1, false), None);
    assert_eq!(s.resume(ENGINE, NOW), [A]);
    assert_eq!(s.preempted(ENGINE, report(3, 1), NOW), Preempted::Stale, "the reset answered it");
    assert_eq!(next(&mut s, NOW), [again(11, 4)]);
}

/// The engine has three packets, and its reset has aborted the second.
fn after_a_reset_at_the_second_of_three() -> Sched {
    let mut s = machine(true);
    for command_va in 10..13 {
        s.push_command(A, command(command_va), NOW);
    }
    assert_eq!(next(&mut s, NOW).len(), 3);
    s.stop(ENGINE);
    assert_eq!(s.note_reset(ENGINE, 2, true), Some((A, false)));
    s
}

#[test]
// spec: PRE-151
fn the_last_completed_packet_is_the_one_that_a_reset_returned() {
    let mut s = after_a_reset_at_the_second_of_three();
    assert_eq!(s.resume(ENGINE, NOW), [A], "the packet before the aborted one");
    assert_eq!(s.completed_and_submitted(ENGINE).0, 2);
}

/// The reset of an engine has cut off a paging packet, so that the adapter is reset next.
// spec: PRE-174
#[test]
fn after_a_reset_of_the_adapter_an_earlier_one_of_an_engine_counts_no_more() {
    let mut s = after_a_reset_at_the_second_of_three();
    s.stop_all();
    s.end_packets(|_| true, NOW);
    assert_eq!(s.resume(ENGINE, NOW), []);
    assert_eq!(s.completed_and_submitted(ENGINE), (3, 3));
}

#[test]
fn a_stopped_engine_can_be_resumed_without_a_reset() {
    let mut s = machine(true);
    assert_eq!(push(&mut s, A, command(10), NOW), [new(10, 1)]);
    assert_eq!(s.preempt_now(ENGINE, CpuTime(0)), Some(2));
    s.stop(ENGINE);
    assert_eq!(s.completed(ENGINE, 1, NOW), Some(vec![A]));
    assert_eq!(s.resume(ENGINE, NOW), []);
    assert_eq!(
        push(&mut s, A, command(11), NOW),
        [new(11, 3)],
        "the request about complete packets is withdrawn"
    );
    assert_eq!(s.preempt_now(OTHER, CpuTime(0)), None, "it has no packets");
}

#[test]
fn an_adapter_reset_ends_the_packets_of_the_contexts_that_it_names() {
    let mut s = machine(true);
    for (context, at) in [(A, 10), (B, 20), (C, 30)] {
        s.push_command(context, command(at), NOW);
        s.push_signal(&[context], signal("done", NONE), NOW);
    }
    assert_eq!(next(&mut s, NOW).len(), 3);
    s.stop_all();
    assert_eq!(s.busy_contexts(), [A, B, C]);
    s.end_packets(|context| context == B, NOW);
    assert_eq!(
        next(&mut s, NOW),
        [Next::Signalled("done")],
        "signals execute, packets stay queued"
    );
    assert_eq!(s.contexts_in_flight(OTHER), [C]);
    s.end_packets(|_| true, NOW);
    assert_eq!(s.completed_and_submitted(OTHER), (2, 2));
    assert!(!s.has_packets(ENGINE) && !s.has_packets(OTHER));
    assert_eq!(next(&mut s, NOW).len(), 2);
    assert!(s.busy_contexts().is_empty());
}

#[test]
fn a_report_names_packets_in_order_with_the_signals_behind_them() {
    let mut s = machine(true);
    s.push_command(B, command(10), at(1));
    s.push_signal(&[B], signal("done", NONE), NOW);
    s.push_command(C, of_kind(20, CommandKind::Paging), at(1));
    assert_eq!(next(&mut s, at(2)).len(), 2);
    assert_eq!(s.preempt_now(OTHER, CpuTime(3)), Some(3));
    let report = s.packets_in_flight(OTHER).unwrap();
    let packets: Vec<_> = report.packets.iter().map(|p| (p.context, p.id, p.submitted.0)).collect();
    assert_eq!(packets, [(B, 1, 2), (C, 2, 2)]);
    assert_eq!(report.packets[0].signals, ["done"]);
    assert_eq!(
        (report.request.map(|r| (r.id, r.requested.0)), report.last_completed),
        (Some((3, 3)), 0)
    );
    assert!(s.packets_in_flight(EngineId { node_ordinal: 0, engine_ordinal: 1 }).is_none());
    assert_eq!((s.context_of_packet(OTHER, 2), s.context_of_packet(OTHER, 3)), (Some(C), None));
}

#[test]
fn engines_of_several_physical_adapters_are_independent() {
    let mut s: Sched = VidSch::new(Config { nodes: 2, physical_adapters: 2, ..CONFIG });
    let engines = [(0, 0), (1, 0), (0, 1), (1, 1)];
    for (context, (node_ordinal, engine_ordinal)) in (1..).map(OsHandle).zip(engines) {
        s.add_context(context, EngineId { node_ordinal, engine_ordinal }, Priority::Normal);
        s.push_command(context, command(context.0), NOW);
    }
    assert_eq!(next(&mut s, NOW), [new(1, 1), new(2, 1), new(3, 1), new(4, 1)]);
    let last = EngineId { node_ordinal: 1, engine_ordinal: 1 };
    assert_eq!(
        (s.contexts_in_flight(last), s.completed(last, 1, NOW)),
        (vec![OsHandle(4)], Some(vec![OsHandle(4)]))
    );
}
