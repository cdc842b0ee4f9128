//! The edges that the checker proposes, carried out: with the proposed wait, the program runs to
//! its end and the two accesses are ordered.

use tidegate_hazard::{
    AccessKind, Checker, CommandRef, FenceSignal, Hazard, ListInfo, Report, SpaceKey,
};

const SPACE: SpaceKey = SpaceKey(1);
const NAMES: [&str; 3] = ["a", "b", "c"];

/// A call on a queue. Each queue signals a fence of its own, with rising values from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Execute(AccessKind),
    /// Waits for a value of the fence of this queue.
    Wait(usize, u64),
    Signal,
}

/// The calls of one thread, each on a queue.
#[derive(Clone, Debug)]
struct Program(Vec<(usize, Call)>);

impl Program {
    fn report(&self) -> Report {
        let mut checker = Checker::new();
        let main = checker.thread(1, true, || "main".into());
        checker.add_resource(SPACE, 0x1000..0x2000, "data".into());
        let queues = NAMES.map(|name| checker.add_queue(name.into(), SPACE));
        let fences = NAMES.map(|name| checker.add_fence(name.into(), 0));
        let mut values = [0; NAMES.len()];
        let mut accesses = Vec::new();
        for (link, (queue, call)) in (1u32..).zip(&self.0) {
            match call {
                Call::Execute(kind) => {
                    let gpu_va = u64::from(link) << 32;
                    let list = ListInfo { gpu_va, label: None, commands: 1 };
                    checker.execute(main, queues[*queue], link, vec![list]);
                    accesses.push((link, *kind));
                }
                Call::Wait(of, value) => {
                    checker.queue_wait(main, queues[*queue], fences[*of], *value);
                }
                Call::Signal => {
                    values[*queue] += 1;
                    checker.queue_signal(main, queues[*queue], fences[*queue], values[*queue]);
                }
            }
        }
        for (link, kind) in accesses {
            let buffer = u64::from(link) << 32;
            let command = CommandRef { link, buffer, number: 1, what: "copy", program: "" };
            checker.gpu_accesses(command, [(kind, 0x1000..0x1800)]);
        }
        checker.report()
    }

    /// Whether every call ends, when each queue takes its calls in their order.
    fn runs_to_its_end(&self) -> bool {
        let (mut next, mut values) = ([0; NAMES.len()], [0; NAMES.len()]);
        loop {
            let before = next;
            for queue in 0..NAMES.len() {
                let mut calls = self.0.iter().filter(|(on, _)| *on == queue).skip(next[queue]);
                match calls.next() {
                    Some((_, Call::Wait(of, value))) if values[*of] < *value => continue,
                    Some((_, Call::Signal)) => values[queue] += 1,
                    Some(_) => {}
                    None => continue,
                }
                next[queue] += 1;
            }
            if next == before {
                return next.iter().sum::<usize>() == self.0.len();
            }
        }
    }

    /// Adds the wait for `signal` before submission `submission` of `queue`.
    fn with_wait(&self, signal: &FenceSignal, queue: usize, submission: u32) -> Program {
        let executes = self
            .0
            .iter()
            .enumerate()
            .filter(|(_, (on, call))| *on == queue && matches!(call, Call::Execute(_)));
        let (at, _) = executes.clone().nth(submission as usize - 1).expect("a submission");
        let mut calls = self.0.clone();
        calls.insert(at, (queue, Call::Wait(number(&signal.fence), signal.value)));
        Program(calls)
    }
}

fn number(name: &str) -> usize {
    NAMES.iter().position(|known| *known == name).expect("a name of the program")
}

fn is_of_same_pair(one: &Hazard, other: &Hazard) -> bool {
    let sides = |h: &Hazard| {
        let mut sides = [&h.first, &h.second].map(|s| (s.timeline.clone(), s.submission));
        sides.sort();
        sides
    };
    sides(one) == sides(other)
}

#[test]
fn a_signal_that_depends_on_the_second_access_is_not_proposed() {
    use AccessKind::{Read, Write};
    use Call::{Execute, Signal, Wait};
    // The signal behind the write comes only after the read, on which its queue waits.
    let program = Program(vec![
        (0, Execute(Write)),
        (0, Wait(1, 1)),
        (0, Signal),
        (1, Execute(Read)),
        (1, Signal),
    ]);
    let report = program.report();
    assert_eq!(report.hazards.len(), 1, "{report}");
    let hazard = &report.hazards[0];
    let order = [&*hazard.first.timeline, &*hazard.second.timeline];
    let signal = hazard.signal.as_ref().map(|s| (&*s.fence, s.value));
    assert!(
        matches!((order, signal), (["a", "b"], None) | (["b", "a"], Some(("b", 1)))),
        "{report}"
    );
}

/// SplitMix64.
fn below(seed: &mut u64, bound: u64) -> u64 {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (*seed ^ (*seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)) % bound
}

fn random_program(seed: &mut u64) -> Program {
    let call = |seed: &mut u64| {
        let queue = below(seed, 3) as usize;
        let call = match below(seed, 6) {
            0 => Call::Execute(AccessKind::Write),
            1 => Call::Execute(AccessKind::Read),
            2 | 3 => Call::Wait((queue + 1 + below(seed, 2) as usize) % 3, below(seed, 2) + 1),
            _ => Call::Signal,
        };
        (queue, call)
    };
    Program((0..5 + below(seed, 6)).map(|_| call(seed)).collect())
}

#[test]
fn every_proposed_wait_ends_and_orders_its_accesses() {
    let (mut seed, mut proposals) = (1, 0);
    for _ in 0..20_000 {
        let program = random_program(&mut seed);
        if !program.runs_to_its_end() {
            continue;
        }
        let report = program.report();
        for hazard in &report.hazards {
            let Some(signal) = &hazard.signal else { continue };
            let second = &hazard.second;
            let mended = program.with_wait(signal, number(&second.timeline), second.submission);
            assert!(mended.runs_to_its_end(), "{hazard}\nends {program:?}");
            let mended = mended.report();
            let left = mended.hazards.iter().any(|other| is_of_same_pair(hazard, other));
            assert!(!left, "{hazard}\nin {program:?}\nleaves {mended}");
            proposals += 1;
        }
    }
    assert!(proposals > 1_000, "{proposals} proposals");
}
