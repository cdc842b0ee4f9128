//! Tests of the state rules across lists and queues, without a machine. Each test is a program of
//! barriers and uses.

use super::execution::DeviceStates;
use super::facts::{HeapRange, ResourceFacts};
use super::flags::ResourceStates as S;
use super::policy::ResourceKind::{self, Buffer, SimultaneousTexture, Texture};
use super::policy::TypeClass;
use super::recording::{ListStates, StateRecording, Subresources};
use super::subresource::{BarrierPhase, Transition};
use super::violation::{CommandSite, StateRule, StateViolation};
use crate::model::CommandListType::{self, Compute, Copy, Direct};
use std::sync::Arc;

type Facts = Arc<ResourceFacts>;

fn resource(kind: ResourceKind, initial: S) -> Facts {
    let subresources = if kind == Buffer { 1 } else { 4 };
    let name = "r".to_owned();
    Arc::new(ResourceFacts { name, kind, subresources, initial, fixed: false, place: None })
}

/// A list recorded by chained calls.
struct List {
    recording: StateRecording,
    commands: u32,
}

fn list(list_type: CommandListType) -> List {
    List { recording: StateRecording::new(list_type), commands: 0 }
}

impl List {
    fn site(&mut self, kind: &'static str) -> CommandSite {
        self.commands += 1;
        CommandSite::in_list(self.commands - 1, kind)
    }

    fn uses(mut self, facts: &Facts, states: S) -> List {
        let site = self.site("use");
        self.recording.use_in(facts, &Subresources::All, states, &site);
        self
    }

    fn uses_one(mut self, facts: &Facts, subresource: u32, states: S) -> List {
        let site = self.site("use");
        self.recording.use_in(facts, &Subresources::One(subresource), states, &site);
        self
    }

    fn half(mut self, facts: &Facts, before: S, after: S, phase: BarrierPhase) -> List {
        let site = self.site("ResourceBarrier");
        let transition = Transition { before, after, phase };
        self.recording.transition(facts, &Subresources::All, transition, &site);
        self
    }

    fn to(self, facts: &Facts, before: S, after: S) -> List {
        self.half(facts, before, after, BarrierPhase::Whole)
    }

    fn alias(mut self, before: Option<&Facts>, after: Option<&Facts>) -> List {
        let site = self.site("ResourceBarrier");
        self.recording.alias(before, after, &site);
        self
    }

    fn close(self) -> (Arc<ListStates>, Vec<StateViolation>) {
        let (list, found) = self.recording.close(Some("l"));
        (Arc::new(list), found)
    }
}

fn rules(found: &[StateViolation]) -> Vec<StateRule> {
    found.iter().map(|violation| violation.rule).collect()
}

/// Queues that execute lists.
#[derive(Default)]
struct Program {
    states: DeviceStates,
}

const DIRECT: (u64, &str) = (1, "3D");
const COMPUTE: (u64, &str) = (2, "compute");
const COPY: (u64, &str) = (3, "copy");
const FENCE: u32 = 7;

impl Program {
    fn new() -> Program {
        let mut program = Program::default();
        program.states.add_fence(FENCE, 0, false);
        program
    }

    fn run(&mut self, queue: (u64, &str), list: List) -> Vec<StateRule> {
        rules(&self.violations(queue, [list]))
    }

    fn violations<const N: usize>(
        &mut self,
        queue: (u64, &str),
        lists: [List; N],
    ) -> Vec<StateViolation> {
        let mut found = Vec::new();
        let lists = lists.map(|list| {
            let (list, violations) = list.close();
            found.extend(violations);
            list
        });
        self.states.execute(queue, lists.to_vec());
        found.extend(self.states.take().0);
        found
    }

    /// Makes the second queue wait for all submitted work of the first.
    fn order(&mut self, first: (u64, &str), second: (u64, &str), value: u64) {
        self.states.signal(first, FENCE, value);
        self.states.wait(second, FENCE, value);
    }
}

#[test]
// spec: ME-065, ME-066
fn a_state_set_on_a_3d_queue_holds_on_compute_queues_and_not_on_copy_queues() {
    let texture = resource(Texture, S::COMMON);
    let mut program = Program::new();
    let set = list(Direct).to(&texture, S::COMMON, S::NON_PIXEL_SHADER_RESOURCE);
    assert_eq!(program.run(DIRECT, set), []);
    program.order(DIRECT, COMPUTE, 1);
    let read = list(Compute).uses(&texture, S::NON_PIXEL_SHADER_RESOURCE);
    assert_eq!(program.run(COMPUTE, read), []);
    program.order(COMPUTE, COPY, 2);
    let copied = list(Copy).uses(&texture, S::COPY_SOURCE);
    assert_eq!(program.run(COPY, copied), [StateRule::WrongClass]);
}

#[test]
// spec: ME-067, ME-068
fn copy_states_of_one_class_are_none_of_the_other() {
    // COPY_DEST as the initial state belongs to compute/3D.
    for (class, queue, expected) in
        [(Direct, DIRECT, &[][..]), (Copy, COPY, &[StateRule::WrongClass])]
    {
        let texture = resource(Texture, S::COPY_DEST);
        let mut program = Program::new();
        assert_eq!(program.run(queue, list(class).uses(&texture, S::COPY_DEST)), expected);
        let texture = resource(Texture, S::COPY_DEST);
        let leave = list(class).to(&texture, S::COPY_DEST, S::COMMON);
        assert_eq!(program.run(queue, leave), expected);
    }
    // The initial state is not a promotion, so it does not decay at the end of the call.
    let texture = resource(Texture, S::COPY_SOURCE);
    let mut program = Program::new();
    assert_eq!(program.run(DIRECT, list(Direct).uses(&texture, S::COPY_SOURCE)), []);
    let leave = list(Direct).to(&texture, S::COPY_SOURCE, S::COMMON);
    assert_eq!(program.run(DIRECT, leave), []);
    // A split barrier begun on a copy queue keeps its state across the end of the call.
    let texture = resource(Texture, S::COMMON);
    let mut program = Program::new();
    let begin = list(Copy).to(&texture, S::COMMON, S::COPY_DEST).half(
        &texture,
        S::COPY_DEST,
        S::COMMON,
        BarrierPhase::Begin,
    );
    assert_eq!(program.run(COPY, begin), []);
    program.order(COPY, DIRECT, 1);
    let used = program.run(DIRECT, list(Direct).uses(&texture, S::COPY_DEST));
    assert_eq!(used, [StateRule::SplitPending]);
}

#[test]
// spec: ME-069, ME-070
fn a_copy_queue_takes_resources_in_common_and_serves_every_copy_from_there() {
    for kind in [Buffer, SimultaneousTexture, Texture] {
        let (from, to) = (resource(kind, S::COMMON), resource(kind, S::COMMON));
        let mut program = Program::new();
        let copy = || list(Copy).uses(&from, S::COPY_SOURCE).uses(&to, S::COPY_DEST);
        assert_eq!(program.run(COPY, copy()), []);
        let back = list(Copy).uses(&to, S::COPY_SOURCE).uses(&from, S::COPY_DEST);
        assert_eq!(program.run(COPY, back), [], "{kind:?}: both are in COMMON again");
        // A write and a read in one call need a barrier between them.
        let both = copy().uses(&to, S::COPY_SOURCE);
        assert_eq!(program.run(COPY, both), [StateRule::NeedsBarrier], "{kind:?}");
    }
    let texture = resource(Texture, S::UNORDERED_ACCESS);
    let first = list(Copy).uses(&texture, S::COPY_DEST);
    assert_eq!(Program::new().run(COPY, first), [StateRule::WrongClass]);
}

#[test]
// spec: ME-077
fn promotion_goes_to_one_write_or_to_reads_that_grow() {
    let reads = [S::COPY_SOURCE, S::NON_PIXEL_SHADER_RESOURCE, S::PIXEL_SHADER_RESOURCE];
    for kind in [Buffer, SimultaneousTexture, Texture] {
        let r = resource(kind, S::COMMON);
        let grow = reads.iter().fold(list(Direct), |list, state| list.uses(&r, *state));
        assert_eq!(Program::new().run(DIRECT, grow), [], "{kind:?}");
        for (first, then) in [
            (S::COPY_SOURCE, S::COPY_DEST),
            (S::COPY_DEST, S::COPY_SOURCE),
            (S::COPY_DEST, S::UNORDERED_ACCESS),
        ] {
            let mut program = Program::new();
            let found = program.violations(DIRECT, [list(Direct).uses(&r, first).uses(&r, then)]);
            assert_eq!(rules(&found), [StateRule::NeedsBarrier], "{kind:?} {first} {then}");
            let found = &found[0];
            assert_eq!((found.found, found.needed), (first, then));
            assert_eq!(found.earlier.as_ref().map(|site| site.command), Some(0));
            // The same in two lists of one call, which only the second stage sees.
            let lists = [list(Direct).uses(&r, first), list(Direct).uses(&r, then)];
            let found = Program::new().violations(DIRECT, lists);
            assert_eq!(rules(&found), [StateRule::NeedsBarrier], "{kind:?} {first} {then}");
        }
    }
    let texture = resource(Texture, S::COMMON);
    let write = list(Direct).uses(&texture, S::UNORDERED_ACCESS);
    assert_eq!(Program::new().run(DIRECT, write), [StateRule::NotPromoted]);
    let write = list(Direct).to(&texture, S::COMMON, S::UNORDERED_ACCESS);
    assert_eq!(Program::new().run(DIRECT, write.uses(&texture, S::UNORDERED_ACCESS)), []);
}

#[test]
// spec: ME-078
fn decay_comes_at_the_end_of_a_call_and_not_between_its_lists() {
    // Kind, state, set by a barrier, queue, decays to COMMON.
    let reads = S::COPY_SOURCE;
    let cases = [
        (Buffer, S::UNORDERED_ACCESS, true, DIRECT, true),
        (Buffer, S::UNORDERED_ACCESS, false, DIRECT, true),
        (SimultaneousTexture, S::RENDER_TARGET, true, DIRECT, true),
        (SimultaneousTexture, S::COPY_DEST, false, COMPUTE, true),
        (Texture, S::COPY_DEST, false, COPY, true),
        (Texture, S::COPY_DEST, true, COPY, true),
        (Texture, reads, false, DIRECT, true),
        (Texture, reads, true, DIRECT, false),
        (Texture, S::COPY_DEST, false, DIRECT, false),
        (Texture, S::UNORDERED_ACCESS, true, COMPUTE, false),
    ];
    for (kind, state, barrier, queue, decays) in cases {
        let list_type = [Direct, Compute, Copy][queue.0 as usize - 1];
        let r = resource(kind, S::COMMON);
        let enter = || match barrier {
            true => list(list_type).to(&r, S::COMMON, state),
            false => list(list_type).uses(&r, state),
        };
        let leave = |from| list(list_type).to(&r, from, S::COMMON);
        let what = format!("{kind:?} {state} barrier {barrier} {}", queue.1);
        // The state does not decay between two lists of a call.
        let mut program = Program::new();
        assert_eq!(program.violations(queue, [enter(), leave(state)]), [], "{what}");
        // It may decay between two calls.
        let mut program = Program::new();
        assert_eq!(program.run(queue, enter()), [], "{what}");
        let expected = if decays { &[StateRule::WrongStateBefore][..] } else { &[] };
        assert_eq!(program.run(queue, leave(state)), expected, "{what}");
    }
}

#[test]
fn split_barriers_make_a_subresource_unusable_until_their_end() {
    let t = resource(Texture, S::RENDER_TARGET);
    let (from, to) = (S::RENDER_TARGET, S::PIXEL_SHADER_RESOURCE);
    let begin = || list(Direct).half(&t, from, to, BarrierPhase::Begin);
    let end = |l: List| l.half(&t, from, to, BarrierPhase::End);
    assert_eq!(Program::new().run(DIRECT, end(begin()).uses(&t, to)), []);
    for states in [from, to] {
        let used = begin().uses(&t, states);
        assert_eq!(Program::new().run(DIRECT, used), [StateRule::SplitPending], "{states}");
    }
    // A split barrier across two calls of one queue.
    let mut program = Program::new();
    assert_eq!(program.run(DIRECT, begin()), []);
    assert_eq!(program.run(DIRECT, end(list(Direct)).uses(&t, to)), []);
    // END_ONLY with other states, and without BEGIN_ONLY.
    let other = begin().half(&t, from, S::COPY_SOURCE, BarrierPhase::End);
    assert_eq!(Program::new().run(DIRECT, other), [StateRule::SplitUnmatched]);
    assert_eq!(Program::new().run(DIRECT, end(list(Direct))), [StateRule::SplitUnmatched]);
}

/// The resource decays between the calls, so only the list itself says in which state it was used.
#[test]
fn a_barrier_names_the_state_of_an_earlier_use_in_its_list() {
    let t = resource(Texture, S::COMMON);
    let (used, other, to) = (S::COPY_DEST, S::COPY_SOURCE, S::RENDER_TARGET);
    let cases = [
        (used, BarrierPhase::Whole, vec![]),
        (other, BarrierPhase::Whole, vec![StateRule::WrongStateBefore]),
        (other, BarrierPhase::Begin, vec![StateRule::WrongStateBefore]),
        (other, BarrierPhase::End, vec![StateRule::SplitUnmatched]),
    ];
    for (before, phase, expected) in cases {
        let used = list(Direct).uses(&t, used).half(&t, before, to, phase);
        let found = Program::new().violations(DIRECT, [used]);
        assert_eq!(rules(&found), expected, "{before} {phase:?}");
        // The violation names the use.
        let by = found.iter().all(|violation| violation.to_string().contains("use"));
        assert!(by, "{found:?}");
    }
}

#[test]
fn upload_and_readback_heaps_keep_their_states() {
    let of = |initial| {
        let name = "r".to_owned();
        let (kind, subresources) = (Buffer, 1);
        Arc::new(ResourceFacts { name, kind, subresources, initial, fixed: true, place: None })
    };
    for (list_type, queue) in [(Direct, DIRECT), (Compute, COMPUTE), (Copy, COPY)] {
        let (upload, readback) = (of(S::GENERIC_READ), of(S::COPY_DEST));
        let copy = || list(list_type).uses(&upload, S::COPY_SOURCE).uses(&readback, S::COPY_DEST);
        assert_eq!(Program::new().run(queue, copy()), [], "{list_type}");
        let back = list(list_type).uses(&upload, S::COPY_DEST).uses(&readback, S::COPY_SOURCE);
        assert_eq!(Program::new().run(queue, back), [StateRule::FixedState; 2], "{list_type}");
    }
}

#[test]
fn subresources_have_states_of_their_own() {
    let t = resource(Texture, S::COMMON);
    let mut program = Program::new();
    let each = list(Direct).uses_one(&t, 0, S::COPY_DEST).uses_one(&t, 1, S::COPY_SOURCE);
    assert_eq!(program.run(DIRECT, each), []);
    let found = program.violations(DIRECT, [list(Direct).uses(&t, S::COPY_SOURCE)]);
    assert_eq!(rules(&found), [StateRule::NeedsBarrier]);
    assert_eq!(found[0].subresource, 0);
}

#[test]
fn a_signal_by_a_thread_orders_what_a_reached_event_has_shown_to_it() {
    for is_reached in [true, false] {
        let t = resource(Texture, S::COMMON);
        let mut program = Program::new();
        let by_thread = FENCE + 1;
        program.states.add_fence(by_thread, 0, false);
        assert_eq!(program.run(COPY, list(Copy).uses(&t, S::COPY_DEST)), []);
        program.states.signal(COPY, FENCE, 1);
        // The read is submitted before the thread knows anything of the copy.
        program.states.wait(DIRECT, by_thread, 1);
        let read = list(Direct).uses(&t, S::PIXEL_SHADER_RESOURCE);
        assert_eq!(program.run(DIRECT, read), []);
        program.states.arm(FENCE, 1, Box::new(move || is_reached));
        program.states.cpu_signal(by_thread, 1);
        let expected = if is_reached { &[][..] } else { &[StateRule::Unordered] };
        assert_eq!(rules(&program.states.take().0), expected, "reached: {is_reached}");
    }
}

#[test]
fn queues_without_an_order_are_named_with_the_fence_that_is_missing() {
    let t = resource(Texture, S::COMMON);
    let write = || list(Copy).uses(&t, S::COPY_DEST);
    let read = || list(Direct).uses(&t, S::PIXEL_SHADER_RESOURCE);
    let mut program = Program::new();
    assert_eq!(program.run(COPY, write()), []);
    let found = program.violations(DIRECT, [read()]);
    assert_eq!(rules(&found), [StateRule::Unordered]);
    assert_eq!(
        found[0].to_string(),
        "texture 'r' subresource 0: command 0 (use) of list 'l' on queue '3D' needs \
         PIXEL_SHADER_RESOURCE without an order with command 0 (use) of list 'l' on queue 'copy'; \
         no fence is signalled by 'copy' after it and waited for by '3D'; order the two queues with \
         a fence"
    );
    // Ordered by a fence, then by a CPU wait.
    let mut program = Program::new();
    assert_eq!(program.run(COPY, write()), []);
    program.order(COPY, DIRECT, 1);
    assert_eq!(program.run(DIRECT, read()), []);
    program.states.signal(DIRECT, FENCE, 2);
    program.states.cpu_reached(FENCE, 2);
    assert_eq!(program.run(COPY, write()), []);
    // Reads on two queues need no order, nor does the state of a simultaneous-access texture.
    let (t, s) = (resource(Texture, S::COMMON), resource(SimultaneousTexture, S::COMMON));
    let mut program = Program::new();
    assert_eq!(program.run(COPY, list(Copy).uses(&t, S::COPY_SOURCE)), []);
    assert_eq!(program.run(DIRECT, list(Direct).uses(&t, S::COPY_SOURCE)), []);
    assert_eq!(program.run(COPY, list(Copy).uses(&s, S::COPY_SOURCE)), []);
    assert_eq!(program.run(DIRECT, list(Direct).uses(&s, S::RENDER_TARGET)), []);
}

#[test]
fn a_queue_that_waits_runs_after_the_signal_whichever_was_called_first() {
    let t = resource(Texture, S::COMMON);
    let mut program = Program::new();
    program.states.wait(DIRECT, FENCE, 1);
    let read = list(Direct).uses(&t, S::PIXEL_SHADER_RESOURCE);
    assert_eq!(program.run(DIRECT, read), []);
    assert_eq!(program.run(COPY, list(Copy).uses(&t, S::COPY_DEST)), []);
    program.states.signal(COPY, FENCE, 1);
    assert_eq!(program.states.take().0, []);
    // The reader runs after the copy, so it finds the state that the copy left.
    program.states.signal(DIRECT, FENCE, 2);
    program.states.wait(COPY, FENCE, 2);
    assert_eq!(program.run(COPY, list(Copy).uses(&t, S::COPY_DEST)), []);
}

#[test]
fn a_fence_of_other_devices_orders_everything() {
    let t = resource(Texture, S::COMMON);
    let mut program = Program::new();
    program.states.add_fence(9, 0, true);
    assert_eq!(program.run(COPY, list(Copy).uses(&t, S::COPY_DEST)), []);
    program.states.wait(DIRECT, 9, 5);
    assert_eq!(program.run(DIRECT, list(Direct).uses(&t, S::COPY_SOURCE)), []);
}

#[test]
// spec: ME-075
fn a_back_buffer_is_in_common_when_it_is_presented() {
    let t = resource(Texture, S::PRESENT);
    let mut program = Program::new();
    let drawn = list(Direct).to(&t, S::PRESENT, S::RENDER_TARGET);
    assert_eq!(program.run(DIRECT, drawn), []);
    program.states.present(DIRECT, &t);
    let found = program.states.take().0;
    assert_eq!(rules(&found), [StateRule::PresentState]);
    assert_eq!(found[0].earlier.as_ref().map(|site| site.command), Some(0));
    let back = list(Direct).to(&t, S::RENDER_TARGET, S::PRESENT);
    assert_eq!(program.run(DIRECT, back), []);
    program.states.present(DIRECT, &t);
    assert_eq!(program.states.take().0, []);
}

#[test]
fn placed_resources_over_the_same_bytes_need_an_aliasing_barrier() {
    let heap: Arc<str> = Arc::from("heap");
    let place = |name: &str, offset| {
        let place = Some(HeapRange { heap: Arc::clone(&heap), offset, bytes: 8 });
        let (name, initial) = (name.to_owned(), S::COMMON);
        let (kind, subresources, fixed) = (Buffer, 1, false);
        Arc::new(ResourceFacts { name, kind, subresources, initial, fixed, place })
    };
    let (a, b, c) = (place("a", 0), place("b", 4), place("c", 12));
    let write = |l: List, r: &Facts| l.uses(r, S::COPY_DEST);
    let mut program = Program::new();
    let apart = write(write(list(Copy), &a), &c);
    assert_eq!(program.run(COPY, apart), [], "their bytes are apart");
    let found = program.violations(COPY, [write(list(Copy), &b)]);
    assert_eq!(rules(&found), [StateRule::Aliased]);
    assert_eq!(found[0].other.as_deref(), Some("a"));
    for (before, after) in [(Some(&b), Some(&a)), (None, Some(&a)), (Some(&b), None), (None, None)]
    {
        let mut program = Program::new();
        let changed = write(write(list(Copy), &b).alias(before, after), &a);
        assert_eq!(program.run(COPY, changed), []);
    }
}

#[test]
fn classes_are_of_list_types() {
    let class = |list_type| list(list_type).close().0.class;
    assert_eq!([Direct, Compute].map(class), [TypeClass::ComputeAnd3D; 2]);
    assert_eq!(class(Copy), TypeClass::Copy);
}
