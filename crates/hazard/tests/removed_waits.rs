//! Random programs, each complete: there is a path between every pair of conflicting accesses. With
//! one wait removed, the checker names that wait if and only if a search of the call graph finds a
//! pair without a path.

use std::collections::BTreeSet;
use std::ops::Range;
use tidegate_hazard::{AccessKind, Checker, CommandRef, ListInfo, Report, SpaceKey};

const SPACE: SpaceKey = SpaceKey(1);
const QUEUES: usize = 4;
/// The number of the CPU thread in programs that have one.
const CPU: usize = QUEUES - 1;

/// A random number generator (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

#[derive(Clone, Debug)]
enum Op {
    Execute(Vec<(AccessKind, Range<u64>)>),
    Signal { fence: usize, value: u64 },
    Wait { fence: usize, value: u64 },
}

/// The calls in their intended order, each with its queue.
#[derive(Clone, Debug, Default)]
struct Program {
    calls: Vec<(usize, Op)>,
    /// Whether the last queue is the CPU thread.
    has_cpu: bool,
}

impl Program {
    fn conflict(&self, one: usize, other: usize) -> bool {
        let (Op::Execute(one), Op::Execute(other)) = (&self.calls[one].1, &self.calls[other].1)
        else {
            return false;
        };
        one.iter().any(|(kind, bytes)| {
            other.iter().any(|(other_kind, other)| {
                kind.conflicts_with(*other_kind)
                    && bytes.start < other.end
                    && other.start < bytes.end
            })
        })
    }

    /// Returns, for each call, the calls with a path to it: by queue order, and from each signal to
    /// the waits for its value.
    fn predecessors(&self, without: Option<usize>) -> Vec<BTreeSet<usize>> {
        let mut all: Vec<BTreeSet<usize>> = Vec::new();
        let mut last = [None; QUEUES];
        for (at, (queue, op)) in self.calls.iter().enumerate() {
            let mut direct: Vec<usize> = last[*queue].into_iter().collect();
            if self.has_cpu {
                // The CPU thread makes the calls of the queues, too.
                direct.extend(last[CPU]);
            }
            if let Op::Wait { fence, value } = op
                && without != Some(at)
            {
                let is_signal = |(_, op): &(usize, Op)| match op {
                    Op::Signal { fence: of, value: signalled } => of == fence && signalled >= value,
                    _ => false,
                };
                direct.push(self.calls.iter().position(is_signal).unwrap());
            }
            let mut of = BTreeSet::new();
            for before in direct {
                of.insert(before);
                of.extend(&all[before]);
            }
            all.push(of);
            last[*queue] = Some(at);
        }
        all
    }

    fn unordered(&self, without: Option<usize>) -> Vec<(usize, usize)> {
        let before = self.predecessors(without);
        let pairs =
            (0..self.calls.len()).flat_map(|late| (0..late).map(move |early| (early, late)));
        pairs
            .filter(|(early, late)| self.conflict(*early, *late) && !before[*late].contains(early))
            .collect()
    }

    /// Returns a random program of `length` submissions with all necessary waits.
    fn by_chance(chance: &mut Chance, length: usize, has_cpu: bool) -> Program {
        let mut program = Program { has_cpu, ..Program::default() };
        let mut values = [0u64; QUEUES * QUEUES];
        for _ in 0..length {
            let queue = chance.below(QUEUES);
            let accesses = (0..1 + chance.below(3)).map(|_| {
                let kind = AccessKind::ALL[chance.below(5).min(2) % 2];
                let start = 0x1000 * (1 + chance.below(5) as u64) + chance.below(4) as u64 * 16;
                (kind, start..start + 16 * (1 + chance.below(3) as u64))
            });
            let execute = Op::Execute(accesses.collect());
            program.calls.push((queue, execute.clone()));
            // The latest producers first, because their waits imply others.
            while let Some(early) = program
                .unordered(None)
                .into_iter()
                .filter(|(_, late)| *late == program.calls.len() - 1)
                .map(|(early, _)| early)
                .max()
            {
                let from = program.calls[early].0;
                let fence = from * QUEUES + queue;
                program.calls.pop();
                let next = program.calls.get(early + 1).map(|(_, op)| op.clone());
                let value = match next {
                    Some(Op::Signal { fence: f, value }) if f == fence => value,
                    _ => {
                        let late = program.calls[early + 1..].iter().any(
                            |(_, op)| matches!(op, Op::Signal { fence: f, .. } if *f == fence),
                        );
                        if late {
                            // The fence already has a later signal, so use the queue's next value.
                            values[fence] += 1;
                            program.calls.push((from, Op::Signal { fence, value: values[fence] }));
                        } else {
                            values[fence] += 1;
                            let signal = Op::Signal { fence, value: values[fence] };
                            program.calls.insert(early + 1, (from, signal));
                        }
                        values[fence]
                    }
                };
                program.calls.push((queue, Op::Wait { fence, value }));
                program.calls.push((queue, execute.clone()));
            }
        }
        program
    }
}

impl Program {
    /// Adds waits for signals that already precede.
    fn with_redundant_waits(mut self, chance: &mut Chance) -> Program {
        for _ in 0..2 {
            let at = chance.below(self.calls.len());
            let (queue, before) = (self.calls[at].0, self.predecessors(None).swap_remove(at));
            let signal = before.into_iter().filter_map(|at| match self.calls[at].1 {
                Op::Signal { fence, value } => Some((fence, value)),
                _ => None,
            });
            if let Some((fence, value)) = signal.min() {
                self.calls.insert(at, (queue, Op::Wait { fence, value }));
            }
        }
        self
    }
}

/// The threads that make the calls.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Threads {
    One,
    OneForEachQueue,
    /// One thread, one queue after another: most waits are submitted before their signals.
    QueueAfterQueue,
}

/// The checker's findings: the queues of each edge and the named signal.
type Found = Vec<([usize; 2], Option<(usize, u64)>)>;

fn check(
    program: &Program,
    without: Option<usize>,
    threads: Threads,
    chance: &mut Chance,
) -> Found {
    let mut checker = Checker::new();
    let main = checker.thread(1, true, || "main".into());
    let queues: Vec<_> =
        (0..QUEUES).map(|queue| checker.add_queue(queue.to_string(), SPACE)).collect();
    let fences: Vec<_> =
        (0..QUEUES * QUEUES).map(|fence| checker.add_fence(fence.to_string(), 0)).collect();
    let mut order: Vec<usize> =
        (0..program.calls.len()).filter(|at| Some(*at) != without).collect();
    if threads == Threads::QueueAfterQueue {
        order.sort_by_key(|at| (program.calls[*at].0, *at));
    }
    for at in &order {
        let (queue, op) = &program.calls[*at];
        let thread = match threads {
            Threads::OneForEachQueue => {
                checker.thread(2 + *queue as u64, true, || format!("thread {queue}"))
            }
            _ => main,
        };
        let queue = queues[*queue];
        match op {
            Op::Execute(_) => {
                let list = ListInfo { gpu_va: *at as u64, label: None, commands: 1 };
                checker.execute(thread, queue, *at as u32, vec![list]);
            }
            Op::Signal { fence, value } => {
                checker.queue_signal(thread, queue, fences[*fence], *value);
            }
            Op::Wait { fence, value } => checker.queue_wait(thread, queue, fences[*fence], *value),
        }
    }
    run(program, without, &mut checker, chance);
    let report = checker.report();
    let queue = |name: &str| name.parse().unwrap();
    report
        .hazards
        .iter()
        .map(|hazard| {
            // The signal may come from a relaying queue.
            let from = hazard.signal.as_ref().map_or(&hazard.first.timeline, |of| &of.timeline);
            let signal = hazard.signal.as_ref().map(|of| (of.fence.parse().unwrap(), of.value));
            ([queue(from), queue(&hazard.second.timeline)], signal)
        })
        .collect()
}

/// The same for a program with a CPU thread, which makes all calls. Engines work at any time that
/// the waits allow: accesses of the GPU reach the checker before or after accesses of the CPU.
fn check_with_cpu(program: &Program, without: Option<usize>, chance: &mut Chance) -> Report {
    let mut checker = Checker::new();
    let main = checker.thread(1, true, || CPU.to_string());
    let queues: Vec<_> =
        (0..CPU).map(|queue| checker.add_queue(queue.to_string(), SPACE)).collect();
    let fences: Vec<_> =
        (0..QUEUES * QUEUES).map(|fence| checker.add_fence(fence.to_string(), 0)).collect();
    let before = program.predecessors(without);
    let mut open: BTreeSet<usize> = BTreeSet::new();
    for (at, (queue, op)) in program.calls.iter().enumerate() {
        if Some(at) == without {
            continue;
        }
        let Some(on) = queues.get(*queue).copied() else {
            match op {
                Op::Execute(accesses) => {
                    for (kind, bytes) in accesses {
                        checker.cpu_access(main, SPACE, *kind, bytes.clone(), "map");
                    }
                }
                Op::Signal { fence, value } => checker.cpu_signal(main, fences[*fence], *value),
                Op::Wait { fence, value } => {
                    // What precedes the end of the wait has been done.
                    let done: Vec<usize> = before[at].intersection(&open).copied().collect();
                    done.iter().for_each(|at| run_one(program, *at, &mut checker));
                    open.retain(|at| !done.contains(at));
                    checker.cpu_wait(main, fences[*fence], *value);
                }
            }
            continue;
        };
        match op {
            Op::Execute(_) => {
                let list = ListInfo { gpu_va: at as u64, label: None, commands: 1 };
                checker.execute(main, on, at as u32, vec![list]);
                open.insert(at);
            }
            Op::Signal { fence, value } => checker.queue_signal(main, on, fences[*fence], *value),
            Op::Wait { fence, value } => checker.queue_wait(main, on, fences[*fence], *value),
        }
        while chance.below(2) == 0 {
            let ready: Vec<usize> =
                open.iter().filter(|at| before[**at].is_disjoint(&open)).copied().collect();
            let Some(at) = ready.get(chance.below(ready.len().max(1))) else { break };
            open.remove(at);
            run_one(program, *at, &mut checker);
        }
    }
    while let Some(at) = open.pop_first() {
        run_one(program, at, &mut checker);
    }
    checker.report()
}

fn run_one(program: &Program, at: usize, checker: &mut Checker) {
    if let Op::Execute(accesses) = &program.calls[at].1 {
        let (link, buffer) = (at as u32, at as u64);
        let command = CommandRef { link, buffer, number: 1, what: "copy", program: "" };
        checker.gpu_accesses(command, accesses.clone());
    }
}

/// Reports the accesses in a random order that the waits allow.
fn run(program: &Program, without: Option<usize>, checker: &mut Checker, chance: &mut Chance) {
    let before = program.predecessors(without);
    let mut left: Vec<usize> = (0..program.calls.len()).collect();
    while !left.is_empty() {
        let ready: Vec<usize> = (0..left.len())
            .filter(|at| left.iter().all(|other| !before[left[*at]].contains(other)))
            .collect();
        let at = left.remove(ready[chance.below(ready.len())]);
        if let Op::Execute(accesses) = &program.calls[at].1 {
            let command = CommandRef {
                link: at as u32,
                buffer: at as u64,
                number: 1,
                what: "copy",
                program: "",
            };
            checker.gpu_accesses(command, accesses.clone());
        }
    }
}

/// Calls `check_one` with each program and each of its waits, for each choice of threads.
fn for_each_wait(redundant: bool, mut check_one: impl FnMut(&Program, usize, &Found, &str)) {
    for seed in 0..60 {
        let mut chance = Chance(seed);
        let length = 6 + chance.below(14);
        let mut program = Program::by_chance(&mut chance, length, false);
        if redundant {
            program = program.with_redundant_waits(&mut chance);
        }
        for threads in [Threads::One, Threads::OneForEachQueue, Threads::QueueAfterQueue] {
            assert!(check(&program, None, threads, &mut chance).is_empty(), "seed {seed}");
            for at in 0..program.calls.len() {
                let (to, Op::Wait { fence, value }) = program.calls[at] else {
                    continue;
                };
                let found = check(&program, Some(at), threads, &mut chance);
                let which = format!("seed {seed} {threads:?}: {to} waits for {value} of {fence}");
                check_one(&program, at, &found, &which);
            }
        }
    }
}

// spec: ME-074
#[test]
fn each_wait_that_is_left_out_is_named_with_its_signal_and_no_other() {
    let (mut needed, mut wrong, mut behind) = (0, Vec::new(), 0);
    for_each_wait(false, |program, at, found, which| {
        let (to, Op::Wait { fence, value }) = program.calls[at] else { unreachable!() };
        let unordered = program.unordered(Some(at));
        if unordered.is_empty() {
            return assert!(found.is_empty(), "{which}: {found:?}");
        }
        needed += 1;
        let (from, signal) = (fence / QUEUES, Some((fence, value)));
        // A relaying queue has no such access, and a queue's accesses may be dropped after two
        // later writes. Then a later queue is named.
        let on_to = |(early, late): &(usize, usize)| {
            [*early, *late].iter().any(|at| program.calls[*at].0 == to)
        };
        let relays = !unordered.iter().any(on_to);
        if found.is_empty() || !found.iter().all(|(of, named)| *named == signal && of[0] == from) {
            wrong.push(format!("{which}: {found:?}"));
        } else if !relays && !found.iter().all(|(of, _)| of[1] == to) {
            behind += 1;
        }
    });
    assert!(wrong.is_empty(), "{} of {needed}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(needed > 700 && behind <= 1, "{needed}, {behind}");
}

// spec: ME-072
#[test]
fn a_wait_that_is_redundant_may_be_left_out() {
    let (mut needed, mut redundant) = (0, 0);
    for_each_wait(true, |program, at, found, which| {
        let unordered = program.unordered(Some(at));
        assert_eq!(found.is_empty(), unordered.is_empty(), "{which}: {found:?}");
        if unordered.is_empty() {
            redundant += 1;
        } else {
            needed += 1;
        }
    });
    assert!(needed > 700 && redundant > 200, "{needed}, {redundant}");
}

// spec: ME-074
#[test]
fn each_wait_of_the_cpu_that_is_left_out_is_named_with_its_signal() {
    let (mut needed, mut wrong) = (0, Vec::new());
    for seed in 0..600 {
        let mut chance = Chance(seed);
        let length = 6 + chance.below(14);
        let program = Program::by_chance(&mut chance, length, true);
        let whole = check_with_cpu(&program, None, &mut chance);
        assert!(whole.is_clean(), "seed {seed}: {whole}");
        for at in 0..program.calls.len() {
            let (CPU, Op::Wait { fence, value }) = program.calls[at] else { continue };
            let report = check_with_cpu(&program, Some(at), &mut chance);
            let unordered = !program.unordered(Some(at)).is_empty();
            assert_eq!(!report.hazards.is_empty(), unordered, "seed {seed}: {report}");
            needed += u32::from(unordered);
            let is_named = report.hazards.iter().all(|hazard| {
                let signal = hazard.signal.as_ref();
                hazard.second.timeline == CPU.to_string()
                    && signal
                        .is_some_and(|of| (&*of.fence, of.value) == (&*fence.to_string(), value))
            });
            if !is_named {
                let which = format!("seed {seed}: thread waits for {value} of {fence}");
                wrong.push(format!("{which}, call {at} of {:#?}: {report}", program.calls));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {needed}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(needed > 700, "{needed}");
}
