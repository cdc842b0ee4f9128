//! Owns the tests of VidSch's policy.

use super::*;
use tidegate_ddi::VidSchCaps;
use tidegate_ddi::caps::{EngineType, NodeMetadata};
use tidegate_ddi::{ComputePreemption, GraphicsPreemption, PreemptionCaps};

/// A moment at which nothing of interest happens.
const NOW: Now = Now { stamp_ns: 0, at: CpuTime(0) };
const LIMITS: Limits = Limits { preempts: true, quantum_ns: 10, timeout_ns: Some(1_000) };

fn sched() -> VidSch<&'static str> {
    VidSch::new(&caps(), LIMITS)
}

fn caps() -> AdapterCaps {
    let node = NodeMetadata {
        engine_type: EngineType::ThreeD,
        friendly_name: "3D".to_owned(),
        context_scheduling: false,
        user_mode_submission: false,
        max_in_flight_hw_queue_buffers: 0,
        writes_fences: true,
        monitored_notification: tidegate_ddi::MonitoredNotification::Basic,
    };
    AdapterCaps {
        preemption: PreemptionCaps {
            graphics: GraphicsPreemption::None,
            compute: ComputePreemption::None,
        },
        lazy_context_switch: false,
        max_allocation_list_slot_id: 0,
        per_engine_tdr: false,
        flip_on_vsync_mmio: false,
        display: None,
        description: String::new(),
        scheduling: VidSchCaps::MULTI_ENGINE_AWARE,
        hw_queue_packet_cap: 1,
        nodes: vec![node],
        physical_adapters: 1,
        signaled_hw_queue_array: false,
        fence_history: false,
        peer_signal: tidegate_ddi::PeerSignalCaps::default(),
        cache_coherent_memory: true,
        io_mmu: false,
    }
}

#[test]
fn whoever_waits_for_the_right_to_decide_gets_it_before_anything_is_decided() {
    let platform = tidegate_platform::Platform::host();
    let mut sched = sched();
    let context = OsHandle(1);
    sched.add_context(context, 0, Priority::Normal, 0, 0);
    assert!(sched.begin_run());
    let (heir, late) = (platform.event(true), platform.event(true));
    sched.hand_to(heir.clone());
    sched.hand_to(late.clone());
    assert!(sched.take_heir().is_none(), "somebody decides");
    sched.push(context, command(1), NOW);
    assert!(sched.next_decision(NOW).is_none(), "the right goes first");
    assert_eq!(sched.take_heir().map(|event| event.id()), Some(heir.id()));
    assert!(!sched.begin_run(), "the heir has it");
    assert!(sched.withdraw_heir(&late), "he waits no longer");
    assert!(!sched.withdraw_heir(&heir), "he has it already");
    assert!(submitted(&mut sched).is_some());
    assert!(sched.next_decision(NOW).is_none() && sched.begin_run(), "it was given back");
}

#[test]
fn a_packet_that_was_not_taken_completes_nobody_else_s() {
    let mut sched =
        VidSch::<&'static str>::new(&AdapterCaps { hw_queue_packet_cap: 2, ..caps() }, LIMITS);
    let (first, second) = (OsHandle(1), OsHandle(2));
    for context in [first, second] {
        sched.add_context(context, 0, Priority::Normal, 0, 0);
        sched.push(context, command(context.0), NOW);
        sched.push_signal(&[context], signal("done", SignalFlags::empty()), NOW);
    }
    let (one, two) = (submitted(&mut sched).unwrap(), submitted(&mut sched).unwrap());
    sched.not_taken(0, two.1, NOW);
    let Some(Decision::Signal { contexts, .. }) = sched.next_decision(NOW) else {
        panic!("a signal is due")
    };
    assert_eq!(contexts, [second], "nothing of it is left to wait for");
    assert!(sched.next_decision(NOW).is_none(), "the packet before it still runs");
    assert!(sched.completed(0, one.1, NOW).is_some());
    let Some(Decision::Signal { contexts, .. }) = sched.next_decision(NOW) else {
        panic!("a signal is due")
    };
    assert_eq!(contexts, [first]);
    // Once more, and one that nobody knows: nothing happens.
    sched.not_taken(0, two.1, NOW);
    sched.not_taken(7, 7, NOW);
}

fn command(gpu_va: u64) -> Work<&'static str> {
    Work::Command(Command { gpu_va, bytes: 8, queued_ns: 0, kind: CommandKind::Render })
}

fn submitted(sched: &mut VidSch<&'static str>) -> Option<(u64, u32)> {
    match sched.next_decision(NOW) {
        Some(Decision::Submit { command, fence_id, .. }) => Some((command.gpu_va, fence_id)),
        Some(other) => panic!("{other:?}"),
        None => None,
    }
}

fn signal(fence: &'static str, flags: SignalFlags) -> Signal<&'static str> {
    Signal { effect: Effect::Fences(vec![fence]), flags }
}

fn names(signal: &Signal<&'static str>) -> Vec<&'static str> {
    match &signal.effect {
        Effect::Fences(fences) => fences.clone(),
        Effect::CpuEvent(_) | Effect::LastUse(_) | Effect::Flip(_) => vec!["event"],
    }
}

/// Makes the signal that is decided next.
fn signalled(sched: &mut VidSch<&'static str>) -> Option<&'static str> {
    match sched.next_decision(NOW) {
        Some(Decision::Signal { contexts, signal }) => {
            sched.signalled(&contexts, NOW);
            Some(names(&signal)[0])
        }
        Some(other) => panic!("{other:?}"),
        None => None,
    }
}

const A: OsHandle = OsHandle(1);
const B: OsHandle = OsHandle(2);
const NONE: SignalFlags = SignalFlags::empty();

fn two_contexts() -> VidSch<&'static str> {
    let mut s = sched();
    for context in [A, B] {
        s.add_context(context, 0, Priority::Normal, 0, 0);
    }
    s
}

// spec: MF-027
#[test]
fn a_broadcast_is_made_when_every_context_has_reached_it_and_holds_those_that_have() {
    let mut s = two_contexts();
    s.push(B, command(1), NOW);
    s.push_signal(&[A, B], signal("both", NONE), NOW);
    s.push_signal(&[A], signal("after", NONE), NOW);
    s.push(A, command(2), NOW);
    assert_eq!(submitted(&mut s), Some((1, 1)));
    assert_eq!(signalled(&mut s), None, "A is there, and B's command is not complete");
    assert!(s.completed(0, 1, NOW).is_some());
    assert_eq!((signalled(&mut s), signalled(&mut s)), (Some("both"), Some("after")));
    assert_eq!(submitted(&mut s), Some((2, 2)));
    // Two that stand in the same order everywhere cannot hold each other.
    s.push_signal(&[B, A], signal("first", NONE), NOW);
    s.push_signal(&[A, B], signal("second", NONE), NOW);
    assert_eq!(signalled(&mut s), None);
    assert!(s.completed(0, 2, NOW).is_some());
    assert_eq!((signalled(&mut s), signalled(&mut s)), (Some("first"), Some("second")));
    assert!(s.signals.is_empty());
}

#[test]
fn a_context_that_goes_away_does_not_hold_a_broadcast() {
    let mut s = two_contexts();
    s.push(B, Work::Wait { fences: vec!["never"], remaining: 1 }, NOW);
    s.push_signal(&[A, B], signal("one", NONE), NOW);
    s.push_signal(&[B, A], signal("two", NONE), NOW);
    assert_eq!(signalled(&mut s), None);
    assert!(s.remove_context(B).news, "A has reached the first one");
    assert_eq!(
        (signalled(&mut s), signalled(&mut s), signalled(&mut s)),
        (Some("one"), Some("two"), None)
    );
    s.push_signal(&[A], signal("lost", NONE), NOW);
    assert!(!s.remove_context(A).news);
    assert_eq!(signalled(&mut s), None, "a signal that its only context reached and nobody made");
    assert!(s.signals.is_empty());
}

#[test]
fn contexts_that_are_given_up_together_make_no_signal() {
    let mut s = two_contexts();
    s.push(A, Work::Wait { fences: vec!["never"], remaining: 1 }, NOW);
    s.push_signal(&[A, B], signal("both", NONE), NOW);
    assert!(!s.clear_contexts(&[A, B]).news);
    assert_eq!(signalled(&mut s), None);
    assert!(s.signals.is_empty());
    s.push_signal(&[A, B], signal("later", NONE), NOW);
    assert_eq!(signalled(&mut s), Some("later"), "the contexts are as they were");
}

#[test]
fn a_signal_at_submission_does_not_wait_for_completion() {
    let mut s = two_contexts();
    let gate = s.push(A, Work::Wait { fences: vec!["gate"], remaining: 1 }, NOW);
    s.push(A, command(1), NOW);
    s.push_signal(&[A], signal("begun", SignalFlags::SIGNAL_AT_SUBMISSION), NOW);
    s.push_signal(&[A], signal("done", NONE), NOW);
    assert_eq!(signalled(&mut s), None, "a wait holds it");
    s.wait_satisfied(A, gate, NOW);
    assert_eq!(submitted(&mut s), Some((1, 1)));
    assert_eq!((signalled(&mut s), signalled(&mut s)), (Some("begun"), None));
    assert!(s.completed(0, 1, NOW).is_some());
    assert_eq!(signalled(&mut s), Some("done"));
}

// spec: MF-031, MF-032
#[test]
fn a_context_is_first_in_first_out_over_commands_waits_and_signals() {
    let (a, mut s) = (OsHandle(1), sched());
    s.add_context(a, 0, Priority::Normal, 0, 0);
    s.push(a, command(1), NOW);
    let wait = s.push(a, Work::Wait { fences: vec!["f"], remaining: 1 }, NOW);
    s.push(a, command(2), NOW);
    s.push_signal(&[a], signal("g", SignalFlags::empty()), NOW);
    assert_eq!(submitted(&mut s), Some((1, 1)));
    assert_eq!(submitted(&mut s), None, "the wait holds what stands behind it");
    assert!(s.completed(0, 1, NOW).is_some());
    assert_eq!(submitted(&mut s), None);
    s.wait_satisfied(a, wait, NOW);
    assert_eq!(submitted(&mut s), Some((2, 2)));
    assert_eq!(submitted(&mut s), None, "the signal waits for the command before it");
    assert!(s.completed(0, 2, NOW).is_some());
    assert!(
        matches!(s.next_decision(NOW), Some(Decision::Signal { signal, .. }) if names(&signal) == ["g"])
    );
    assert!(s.completed(0, 3, NOW).is_none(), "a packet that was never submitted");
}

#[test]
fn higher_priority_first_and_equals_take_turns() {
    let mut s = sched();
    for (handle, priority) in [(1, Priority::Normal), (2, Priority::Normal), (3, Priority::High)] {
        s.add_context(OsHandle(handle), 0, priority, 0, 0);
    }
    for handle in [1, 2, 3, 1, 2, 3] {
        s.push(OsHandle(handle), command(handle), NOW);
    }
    let mut order = Vec::new();
    for id in 1..=6 {
        order.push(submitted(&mut s).unwrap().0);
        assert!(s.completed(0, id, NOW).is_some());
    }
    assert_eq!(order, [3, 3, 1, 2, 1, 2]);
}

#[test]
fn packet_ids_wrap() {
    let mut s = sched();
    s.add_context(OsHandle(1), 0, Priority::Normal, 0, 0);
    s.engines[0].number_from(u32::MAX - 1);
    for _ in 0..3 {
        s.push(OsHandle(1), command(7), NOW);
    }
    for id in [u32::MAX, 0, 1] {
        assert_eq!(submitted(&mut s), Some((7, id)));
        assert!(s.completed(0, id, NOW).is_some());
    }
}

mod preemption;
mod starvation;

// spec: PRE-016
#[test]
fn a_context_is_held_while_its_save_area_is_no_place_for_a_state() {
    let mut s = two_contexts();
    s.push(A, command(1), NOW);
    s.area_lacks_content(A);
    s.push(A, command(2), NOW);
    s.push(B, command(3), NOW);
    assert_eq!(submitted(&mut s), Some((3, 1)), "the other context goes on");
    s.area_has_content(A, NOW);
    assert!(s.completed(0, 1, NOW).is_some());
    assert_eq!(submitted(&mut s), Some((1, 2)));
    assert!(!s.area_moves(A), "its packet is on the engine, and may store its state");
    assert!(!s.take_quiet());
    assert!(s.completed(0, 2, NOW).is_some());
    assert!(s.take_quiet() && !s.take_quiet());
    assert!(s.area_moves(A));
    assert_eq!(submitted(&mut s), None, "nothing of it is submitted while the area moves");
    s.area_moved(A, NOW);
    assert_eq!(submitted(&mut s), Some((2, 3)));
}

#[test]
fn a_packet_that_came_back_is_held_while_its_state_moves() {
    let mut s = two_contexts();
    s.push(A, command(1), NOW);
    assert_eq!(submitted(&mut s), Some((1, 1)));
    assert!(!s.area_moves(A));
    let late = Now { at: CpuTime(2_000), ..NOW };
    let Some(Decision::Preempt { fence_id, .. }) = s.next_decision(late) else {
        panic!("it runs for too long")
    };
    assert!(matches!(s.preempted(0, (fence_id, 0), late), Preempted::Answered { returned: 1, .. }));
    assert!(s.take_quiet() && s.area_moves(A));
    assert_eq!(submitted(&mut s), None, "its state is on the way");
    s.area_moved(A, late);
    assert!(matches!(
        s.next_decision(late),
        Some(Decision::Submit { flags, fence_id: 3, .. }) if flags.contains(SubmitCommandFlags::RESUBMISSION)
    ));
}
