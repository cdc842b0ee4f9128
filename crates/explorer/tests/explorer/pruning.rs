//! Pruning and reduction hide nothing: on small random programs they reach exactly the outcomes of
//! a search over all schedules. This checks the platform's hashing of states and the explorer's
//! rules for commuting steps.

use crate::dice::Dice;
use crate::worlds::{Op, Program, search, search_with};
use std::collections::BTreeSet;
use tidegate_explorer::strategy::bounded::Bounded;
use tidegate_explorer::strategy::exhaustive::Exhaustive;
use tidegate_explorer::strategy::replay::Replay;
use tidegate_explorer::{MemoryModel, Options, machine};

impl Dice {
    fn memory_op(&mut self) -> Op {
        let word = self.below(2) as usize;
        match self.below(8) {
            0..=2 => Op::Store(word, self.below(2) + 1),
            3..=5 => Op::Load(word),
            6 => Op::Fence,
            _ => Op::Swap(word, self.below(2) + 1),
        }
    }

    fn any_op(&mut self) -> Op {
        let thing = self.below(2) as usize;
        match self.below(10) {
            0 => Op::Set(thing),
            1 => Op::Await(thing),
            2 | 3 => Op::Locked(thing),
            4 => Op::Nap,
            5 => Op::Make,
            6 => Op::Guarded(thing, 3),
            _ => self.memory_op(),
        }
    }

    fn program(&mut self, lengths: &[u64], any: bool) -> Program {
        let agents = lengths.iter();
        let agents = agents
            .map(|l| (0..*l).map(|_| if any { self.any_op() } else { self.memory_op() }).collect());
        Program::from(agents.collect())
    }
}

fn same_outcomes(program: &Program, model: MemoryModel) -> (u64, u64) {
    let options = Options { model, keep_ends: true, ..Options::default() };
    let unreduced = Options { reduce: false, ..options };
    let (all, slow) = search_with(program, &unreduced, Box::new(Exhaustive::without_pruning()));
    let (pruned, fast) = search_with(program, &unreduced, Box::new(Exhaustive::new()));
    assert!(slow.exhausted && fast.exhausted);
    assert_eq!(pruned, all, "{program:?} under {model:?}");
    let (reduced, fewest) = search_with(program, &options, Box::new(Exhaustive::new()));
    assert!(fewest.exhausted && fewest.states <= fast.states);
    assert_eq!(reduced, all, "{program:?} under {model:?}, reduced");
    // Reduction omits orders, not behaviours: the reduced search reaches every final state.
    assert_eq!(slow.ends, fast.ends, "{program:?} under {model:?}");
    assert_eq!(fewest.ends, fast.ends, "{program:?} under {model:?}, reduced");
    // Enough switches for every schedule of such short programs.
    let (bounded, report) = search(program, model, Box::new(Bounded::new(1_000)));
    assert!(report.exhausted);
    assert_eq!(bounded, all, "{program:?} under {model:?}, bounded");
    (slow.runs, fast.runs)
}

#[derive(Default)]
struct Kind {
    any_op: bool,
    chained: bool,
    joined: bool,
}

fn check(seed: u64, programs: u64, lengths: &[u64], kind: &Kind) {
    let mut dice = Dice::new(seed);
    let (mut slow, mut fast) = (0, 0);
    for _ in 0..programs {
        let mut program = dice.program(lengths, kind.any_op);
        (program.chained, program.joined) = (kind.chained, kind.joined);
        for model in [MemoryModel::TotalStoreOrder, MemoryModel::SequentiallyConsistent] {
            let (s, f) = same_outcomes(&program, model);
            (slow, fast) = (slow + s, fast + f);
        }
    }
    println!("{lengths:?}: {slow} runs without pruning, {fast} with");
    assert!(fast < slow);
}

#[test]
fn two_agents_over_memory() {
    check(1, 400, &[4, 4], &Kind::default());
}

#[test]
fn three_agents_over_memory() {
    check(2, 60, &[3, 3, 2], &Kind::default());
}

#[test]
fn agents_that_start_each_other() {
    check(3, 100, &[3, 2, 2], &Kind { chained: true, ..Kind::default() });
}

#[test]
fn agents_that_are_joined() {
    check(6, 100, &[2, 2, 2], &Kind { joined: true, ..Kind::default() });
    check(7, 100, &[2, 3], &Kind { joined: true, any_op: true, ..Kind::default() });
}

#[test]
fn locks_events_and_naps() {
    check(4, 150, &[4, 4], &Kind { any_op: true, ..Kind::default() });
}

#[test]
fn locks_events_and_naps_of_three() {
    check(5, 30, &[2, 2, 2], &Kind { any_op: true, ..Kind::default() });
}

#[test]
fn agents_that_diverge_and_join() {
    // Too long to search every schedule. The other tests verify the search without reduction.
    let mut dice = Dice::new(8);
    for round in 0..60 {
        let program = dice.program(&[4, 4, 3], round % 2 == 0);
        for model in [MemoryModel::TotalStoreOrder, MemoryModel::SequentiallyConsistent] {
            let options = Options { model, keep_ends: true, ..Options::default() };
            let unreduced = Options { reduce: false, ..options };
            let (all, most) = search_with(&program, &unreduced, Box::new(Exhaustive::new()));
            let (reduced, fewest) = search_with(&program, &options, Box::new(Exhaustive::new()));
            assert!(most.exhausted && fewest.exhausted && fewest.states <= most.states);
            assert_eq!(reduced, all, "{program:?} under {model:?}");
            assert_eq!(fewest.ends, most.ends, "{program:?} under {model:?}");
        }
    }
}

/// Agents that forget what they have observed reach the same outcomes in fewer states, with and
/// without reduction.
#[test]
fn agents_that_forget() {
    let mut dice = Dice::new(9);
    let (mut most, mut fewest) = (0, 0);
    for round in 0..150 {
        let lengths: &[u64] = if round % 3 == 0 { &[3, 3, 3] } else { &[5, 5] };
        let mut program = dice.program(lengths, round % 2 == 0);
        program.insert_forgets(|len| dice.below(len as u64 + 1) as usize);
        for model in [MemoryModel::TotalStoreOrder, MemoryModel::SequentiallyConsistent] {
            let options = Options { model, ..Options::default() };
            let unreduced = Options { reduce: false, ..options };
            program.forgets = false;
            let (all, remembering) = search_with(&program, &unreduced, Box::new(Exhaustive::new()));
            program.forgets = true;
            for options in [&unreduced, &options] {
                let (seen, forgetting) =
                    search_with(&program, options, Box::new(Exhaustive::new()));
                assert!(forgetting.exhausted && forgetting.states <= remembering.states);
                assert_eq!(seen, all, "{program:?} under {model:?}");
                fewest += forgetting.states;
            }
            most += 2 * remembering.states;
        }
    }
    println!("{most} states with histories, {fewest} without");
    assert!(fewest < most);
}

/// What an agent left behind a lock outlives its memory of it, so it is part of the state.
#[test]
fn agents_that_forget_what_they_put_behind_a_lock() {
    use Op::{Forget, Load, Locked, Put, Swap};
    let mut program =
        Program::new(&[&[Put(0, 5), Forget, Load(1), Locked(0)], &[Put(0, 7), Forget, Swap(1, 1)]]);
    for options in [Options::default(), Options { reduce: false, ..Options::default() }] {
        program.forgets = false;
        let (all, _) = search_with(&program, &options, Box::new(Exhaustive::new()));
        program.forgets = true;
        let (seen, _) = search_with(&program, &options, Box::new(Exhaustive::new()));
        assert_eq!(seen, all);
        // With the word of the second agent, the first one finds either value behind the lock.
        let found: BTreeSet<_> = seen.iter().filter(|o| o[0] == 1).map(|o| o[1]).collect();
        assert_eq!(found, BTreeSet::from([5, 7]));
    }
}

/// Searched by themselves, groups of agents that share nothing observe and store the same values,
/// and agents that share something keep the same outcomes.
#[test]
fn groups_of_agents_by_themselves() {
    let mut dice = Dice::new(10);
    let (mut runs, mut runs_apart, mut same) = (0, 0, 0);
    for round in 0..40 {
        // Two agents with one word and two with the other; in every third program any word.
        let mut op = |agent: usize| match dice.memory_op() {
            op if round % 3 == 2 && agent == 3 => op,
            Op::Store(_, value) => Op::Store(agent / 2, value),
            Op::Load(_) => Op::Load(agent / 2),
            Op::Swap(_, value) => Op::Swap(agent / 2, value),
            op => op,
        };
        let agents = (0..4).map(|agent| (0..2).map(|_| op(agent)).collect());
        let mut program = Program::from(agents.collect());
        (program.chained, program.joined) = (round % 10 == 3, round % 10 == 4);
        for model in [MemoryModel::TotalStoreOrder, MemoryModel::SequentiallyConsistent] {
            let options = Options { model, ..Options::default() };
            program.apart = false;
            let (all, whole) = search_with(&program, &options, Box::new(Exhaustive::new()));
            program.apart = true;
            let (seen, apart) = search_with(&program, &options, Box::new(Exhaustive::new()));
            assert!(apart.exhausted && seen.is_subset(&all), "{program:?} under {model:?}");
            for place in 0..all.first().map_or(0, Vec::len) {
                let values = |outcomes: &BTreeSet<Vec<u64>>| -> BTreeSet<u64> {
                    outcomes.iter().map(|outcome| outcome[place]).collect()
                };
                assert_eq!(values(&seen), values(&all), "{program:?} under {model:?}: {place}");
            }
            (runs, runs_apart) = (runs + whole.runs, runs_apart + apart.runs);
            same += u64::from(seen == all);
        }
    }
    println!("{runs} runs of whole programs, {runs_apart} of groups; {same} with all outcomes");
    assert!(runs_apart < runs && (1..80).contains(&same));
}

#[test]
fn an_agent_that_goes_back_to_a_position_panics() {
    let platform = machine(Replay::default(), MemoryModel::TotalStoreOrder);
    let mine = platform.clone();
    let report = platform.run(move || {
        mine.forget_history(2);
        mine.forget_history(2);
    });
    assert!(report.panics[0].contains("from position 2 to 2: they must rise"), "{report:?}");
}

/// A second panic in a destructor would end the process.
#[test]
fn an_endless_loop_panics_although_its_destructors_take_steps() {
    struct Counted(tidegate_platform::Word);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1);
        }
    }
    let platform = machine(Replay::default(), MemoryModel::TotalStoreOrder);
    let words = platform.page(2);
    let (turns, ends) = (words.word(0), words.word(1));
    let counted = ends.clone();
    let report = platform.run(move || {
        let _counted = Counted(counted);
        loop {
            turns.fetch_add(1);
        }
    });
    assert!(report.panics[0].contains("some loop polls without sleeping"), "{report:?}");
    assert_eq!(ends.load(), 1);
}

#[test]
fn regressions_of_pruning_and_reduction() {
    use Op::{Fence, Load, Store};
    // A flush decides whether the first agent's second load is answered by its buffer or by memory.
    // That is not a part of the agent's earlier observations.
    let forwarded = Program::new(&[&[Store(0, 1), Load(1), Load(0), Load(1)], &[Store(0, 2)]]);
    same_outcomes(&forwarded, MemoryModel::TotalStoreOrder);
    let (seen, _) = search(&forwarded, MemoryModel::TotalStoreOrder, Box::new(Exhaustive::new()));
    let second_loads: BTreeSet<u64> = seen.iter().map(|o| o[1]).collect();
    assert_eq!(second_loads, BTreeSet::from([1, 2]));
    // Agents that are started by different agents race for their numbers.
    let mut chained =
        Program::new(&[&[Store(1, 2), Fence], &[Store(1, 1), Store(0, 1)], &[Load(1), Load(1)]]);
    chained.chained = true;
    same_outcomes(&chained, MemoryModel::SequentiallyConsistent);
    // A store to a full buffer allows other agents to move first.
    let mut full = vec![Store(0, 1)];
    full.resize(17, Store(1, 2));
    let full = Program::from(vec![full, vec![Load(0)]]);
    same_outcomes(&full, MemoryModel::TotalStoreOrder);
    let (seen, _) = search(&full, MemoryModel::TotalStoreOrder, Box::new(Exhaustive::new()));
    assert_eq!(seen.iter().map(|o| o[0]).collect::<Vec<_>>(), [0, 1]);
}
