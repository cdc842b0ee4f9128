//! Waits that no signal ends: circles at submission, missing signals with their chains, and
//! programs that wait before they signal.

use tidegate_hazard::deadlock::{Awaited, Deadlock, DeadlockKind, Release};
use tidegate_hazard::{Checker, FenceKey, QueueKey, SpaceKey, TimelineId};

struct Program {
    checker: Checker,
    main: TimelineId,
    links: u32,
}

impl Program {
    fn new() -> Program {
        let mut checker = Checker::new();
        let main = checker.thread(1, true, || "main".into());
        Program { checker, main, links: 0 }
    }

    fn queues<const N: usize>(&mut self, names: [&str; N]) -> [QueueKey; N] {
        names.map(|name| self.checker.add_queue(name.into(), SpaceKey(1)))
    }

    fn fences<const N: usize>(&mut self, names: [&str; N]) -> [FenceKey; N] {
        names.map(|name| self.checker.add_fence(name.into(), 0))
    }

    fn execute(&mut self, queue: QueueKey) {
        self.links += 1;
        self.checker.execute(self.main, queue, self.links, Vec::new());
    }

    fn wait(&mut self, queue: QueueKey, fence: FenceKey, value: u64) {
        self.checker.queue_wait(self.main, queue, fence, value);
    }

    fn signal(&mut self, queue: QueueKey, fence: FenceKey, value: u64) {
        self.checker.queue_signal(self.main, queue, fence, value);
    }

    fn deadlocks(&mut self) -> Vec<Deadlock> {
        self.checker.report().deadlocks
    }

    fn unsignalled(&mut self) -> Vec<Deadlock> {
        self.checker.report().unsignalled
    }
}

fn waiters(of: &Deadlock) -> Vec<&str> {
    of.chain.iter().map(|link| &*link.waiter).collect()
}

// spec: ME-051
#[test]
fn a_circle_is_found_at_the_submission_that_closes_it() {
    let mut p = Program::new();
    let [left, right] = p.queues(["left", "right"]);
    let [left_done, right_done] = p.fences(["left_done", "right_done"]);
    p.execute(left);
    p.wait(left, right_done, 1);
    p.signal(left, left_done, 1);
    p.wait(right, left_done, 1);
    assert_eq!(p.deadlocks(), [], "the right queue may be given its signal first");
    p.signal(right, right_done, 1);
    let found = p.deadlocks();
    assert_eq!(
        found[0].to_string(),
        "deadlock: a circle of waits\n  \
         queue 'left', behind its submission 1, waits for fence 'right_done' to reach 1\n    \
         queue 'right' would signal it (before its first submission), after its own wait\n  \
         queue 'right', before its first submission, waits for fence 'left_done' to reach 1\n    \
         queue 'left' would signal it (behind its submission 1), after its own wait: the circle is \
         closed\n  \
         break the circle: let one of them signal before it waits"
    );
    assert_eq!((found.len(), p.unsignalled()), (1, Vec::new()));
    p.checker.cpu_signal(p.main, left_done, 1);
    assert_eq!(p.deadlocks(), [], "the CPU broke it");
}

#[test]
fn a_queue_that_waits_for_its_own_later_signal_is_a_circle() {
    let mut p = Program::new();
    let [queue] = p.queues(["alone"]);
    let [done] = p.fences(["done"]);
    p.wait(queue, done, 3);
    p.signal(queue, done, 3);
    let [found] = &p.deadlocks()[..] else { panic!("one circle") };
    assert_eq!((found.kind, waiters(found)), (DeadlockKind::Circle, vec!["alone"]));
}

#[test]
fn a_circle_behind_a_wait_that_may_still_end_is_found() {
    let mut p = Program::new();
    let [left, right] = p.queues(["left", "right"]);
    let [go, left_done, right_done] = p.fences(["go", "left_done", "right_done"]);
    p.wait(left, go, 1);
    p.wait(left, right_done, 1);
    p.signal(left, left_done, 1);
    p.wait(right, left_done, 1);
    p.signal(right, right_done, 1);
    let [found] = &p.deadlocks()[..] else { panic!("one circle") };
    assert_eq!(waiters(found), ["left", "right"]);
    let [open] = &p.unsignalled()[..] else { panic!("the wait for 'go'") };
    assert_eq!(waiters(open), ["right", "left"], "the right queue waits behind the left one");
}

#[test]
fn two_queues_that_pass_one_fence_to_and_fro_are_no_circle() {
    let mut p = Program::new();
    let [ping, pong] = p.queues(["ping", "pong"]);
    let [turn] = p.fences(["turn"]);
    for round in 0..4 {
        p.wait(pong, turn, 2 * round + 1);
        p.signal(pong, turn, 2 * round + 2);
        assert_eq!(p.deadlocks(), [], "the next value is no release of this one");
    }
    for round in 0..4 {
        p.signal(ping, turn, 2 * round + 1);
        p.wait(ping, turn, 2 * round + 2);
        assert_eq!(p.deadlocks(), []);
    }
    assert_eq!(p.unsignalled(), []);
}

#[test]
fn an_alternative_outside_the_circle_makes_it_none() {
    let mut p = Program::new();
    let [left, right, third] = p.queues(["left", "right", "third"]);
    let [a, b, go] = p.fences(["a", "b", "go"]);
    p.wait(left, b, 1);
    p.signal(left, a, 1);
    p.wait(third, go, 1);
    p.signal(third, a, 1);
    p.wait(right, a, 1);
    p.signal(right, b, 1);
    assert_eq!(p.deadlocks(), [], "the third queue may go first");
    p.checker.cpu_signal(p.main, go, 1);
    let report = p.checker.report();
    assert_eq!((report.deadlocks, report.unsignalled), (Vec::new(), Vec::new()));
}

#[test]
fn a_missing_signal_is_named_with_its_chain_and_the_highest_one() {
    let mut p = Program::new();
    let [a, b] = p.queues(["a", "b"]);
    let [f, g] = p.fences(["f", "g"]);
    p.wait(a, f, 5);
    (0..3).for_each(|_| p.execute(b));
    p.wait(b, g, 2);
    p.signal(b, f, 5);
    p.checker.cpu_signal(p.main, g, 1);
    assert_eq!(p.deadlocks(), []);
    let found = p.unsignalled();
    assert_eq!(
        found[0].to_string(),
        "a wait that no signal ends\n  \
         queue 'a', before its first submission, waits for fence 'f' to reach 5\n    \
         queue 'b' would signal it (behind its submission 3), after its own wait\n  \
         queue 'b', behind its submission 3, waits for fence 'g' to reach 2\n    \
         no signal takes 'g' to 2; the largest signal is 1\n  \
         add the signal that is missing, or wait for a value that is signalled"
    );
    p.signal(a, g, 7);
    assert_eq!(p.deadlocks(), [], "a higher value is no release of a wait for 2");
    let [circle] = &p.unsignalled()[..] else { panic!("one finding") };
    assert_eq!(circle.kind, DeadlockKind::Circle, "but nothing else would end it");
}

/// A queue waits for `value` of a fence that was signalled to 5 and set back to 1, which is named.
fn set_back(value: u64) -> (Program, FenceKey) {
    let mut p = Program::new();
    let [queue] = p.queues(["late"]);
    let [fence] = p.fences(["phase"]);
    p.checker.cpu_signal(p.main, fence, 5);
    p.checker.cpu_signal(p.main, fence, 1);
    p.wait(queue, fence, value);
    let [found] = &p.unsignalled()[..] else { panic!("one finding") };
    assert!(found.to_string().contains("it was signalled to 5 and set back since"), "{found}");
    (p, fence)
}

#[test]
fn a_signal_that_a_lower_one_overtook_is_named_as_set_back() {
    let (mut p, fence) = set_back(4);
    p.checker.cpu_signal(p.main, fence, 4);
    assert_eq!(p.unsignalled(), []);
}

#[test]
fn a_signal_of_exactly_the_value_may_be_set_back() {
    set_back(5);
}

#[test]
fn the_largest_signal_may_be_one_that_was_made_or_one_that_a_queue_holds() {
    for (made, held) in [(4, 3), (3, 4)] {
        let mut p = Program::new();
        let [waiter, holder] = p.queues(["waiter", "holder"]);
        let [go, phase] = p.fences(["go", "phase"]);
        p.checker.cpu_signal(p.main, phase, made);
        p.wait(holder, go, 1);
        p.signal(holder, phase, held);
        p.wait(waiter, phase, 9);
        let found = p.unsignalled();
        let missing = |found: &Deadlock| found.chain[0].waiter == "waiter";
        let text = found.iter().find(|found| missing(found)).unwrap().to_string();
        assert!(text.contains("the largest signal is 4"), "{made}, {held}: {text}");
    }
}

#[test]
fn of_chains_of_equal_length_the_first_is_shown_and_the_others_are_named() {
    let mut p = Program::new();
    let [first, second, third, last] = p.queues(["first", "second", "third", "last"]);
    let [go, done] = p.fences(["go", "done"]);
    [first, second, third].into_iter().for_each(|queue| p.wait(queue, done, 1));
    p.wait(last, go, 1);
    p.signal(last, done, 1);
    let [found] = &p.unsignalled()[..] else { panic!("one finding") };
    assert_eq!(waiters(found), ["first", "last"]);
    let others: Vec<&str> = found.others.iter().map(|link| &*link.waiter).collect();
    assert_eq!(others, ["second", "third"]);
}

#[test]
fn waits_of_threads_are_part_of_a_chain_while_they_block() {
    let mut p = Program::new();
    let [queue] = p.queues(["work"]);
    let [go, done] = p.fences(["go", "done"]);
    p.wait(queue, go, 1);
    p.signal(queue, done, 1);
    p.checker.cpu_wait_begin(p.main, false, vec![(done, 1)]);
    let [found] = &p.unsignalled()[..] else { panic!("one chain") };
    assert_eq!(waiters(found), ["main", "work"]);
    p.checker.cpu_wait_end(p.main, true);
    p.checker.cpu_signal(p.main, go, 1);
    let report = p.checker.report();
    assert_eq!(report.unsignalled.len(), 1, "what a standstill showed is kept");
    let Awaited::Fence { fence, value, .. } = &report.unsignalled[0].chain[1].awaits else {
        panic!("a wait for a fence")
    };
    assert_eq!((fence.as_str(), *value), ("go", 1));
}

#[test]
fn of_waits_for_any_the_last_alternative_counts_and_of_all_the_first_that_is_missing() {
    let mut p = Program::new();
    let [a, b] = p.fences(["a", "b"]);
    p.checker.cpu_signal(p.main, a, 1);
    p.checker.cpu_wait_begin(p.main, true, vec![(a, 1), (b, 1)]);
    assert_eq!(p.unsignalled(), [], "one of them suffices");
    p.checker.cpu_wait_end(p.main, false);
    p.checker.cpu_wait_begin(p.main, false, vec![(a, 1), (b, 1)]);
    let [found] = &p.unsignalled()[..] else { panic!("one finding") };
    assert_eq!(found.chain[0].release, Release::Missing(None));
    p.checker.cpu_wait_end(p.main, false);
    p.checker.arm_event(7, false, vec![(b, 1)]);
    p.checker.event_wait_begin(p.main, 7);
    assert_eq!(p.unsignalled().len(), 1, "an event is set by its fences");
    p.checker.event_set(p.main, 7);
    assert_eq!(p.unsignalled(), [], "it was set by hand");
}

#[test]
fn a_standstill_shows_circles_through_higher_values_and_the_threads_behind_them() {
    let mut p = Program::new();
    let [queue] = p.queues(["alone"]);
    let [turn] = p.fences(["turn"]);
    p.wait(queue, turn, 1);
    p.signal(queue, turn, 2);
    assert_eq!(p.deadlocks(), [], "a signal of 1 may still come");
    p.checker.idle_wait_begin(p.main, queue);
    p.checker.cpu_wait_end(p.main, true);
    let [found] = &p.deadlocks()[..] else { panic!("one circle") };
    assert_eq!((waiters(found), found.others[0].waiter.as_str()), (vec!["alone"], "main"));
    assert!(found.to_string().contains("thread 'main' waits for queue 'alone' to be idle"));
    assert_eq!(p.unsignalled(), []);
}

#[test]
fn deep_waits_before_their_signals_are_found_in_one_pass() {
    let mut p = Program::new();
    let queues = p.queues(["a", "b", "c", "d"]);
    let [go, chain] = p.fences(["go", "chain"]);
    p.wait(queues[0], go, 1);
    for step in 0..20_000u64 {
        let queue = queues[(step % 4) as usize];
        if step > 0 {
            p.wait(queue, chain, step);
        }
        p.signal(queue, chain, step + 1);
    }
    assert_eq!(p.deadlocks(), []);
    let [found] = &p.unsignalled()[..] else { panic!("one chain") };
    assert_eq!(waiters(found).last(), Some(&"a"));
    p.checker.cpu_signal(p.main, go, 1);
    assert_eq!(p.unsignalled(), []);
}
