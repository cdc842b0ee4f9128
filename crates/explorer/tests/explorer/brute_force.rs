//! Every reduction, strategy and bound against brute force, on small random programs with every
//! kind of operation.
//!
//! Two references: [`reference::outcomes`](crate::reference::outcomes), which knows only the
//! contract of the platform, and [`AllSchedules`], which runs every schedule of the machine and
//! skips none. The first judges what a search reaches, the second what it reaches with few
//! switches.
//! `xtask/mistakes.toml` has the mistakes that these tests must notice.

use crate::dice::Dice;
use crate::reference;
use crate::statements::{EVENTS, FLAG, LOCKS, Limit, OBSERVED, Op, Outcome, Statements};
use std::collections::BTreeSet;
use tidegate_explorer::strategy::bounded::Bounded;
use tidegate_explorer::strategy::exhaustive::Exhaustive;
use tidegate_explorer::{Choice, Coverage, MemoryModel, Options, Strategy, StrategyKind};
use tidegate_platform::Point;

const MODELS: [MemoryModel; 2] =
    [MemoryModel::TotalStoreOrder, MemoryModel::SequentiallyConsistent];

/// Every schedule with at most so many forced switches, without pruning.
struct AllSchedules {
    most: u32,
    /// The choice that is taken at each point, and the choices that it may take.
    path: Vec<(usize, Vec<usize>)>,
    depth: usize,
    left: u32,
    started: bool,
}

impl AllSchedules {
    fn new(most: u32) -> AllSchedules {
        AllSchedules { most, path: Vec::new(), depth: 0, left: 0, started: false }
    }

    fn is_forced_switch(point: &Point<'_>, index: usize) -> bool {
        match (point.choices[index], point.current) {
            (Choice::Run(agent), Some(current)) => agent != current,
            _ => false,
        }
    }
}

impl Strategy for AllSchedules {
    fn begin(&mut self) -> bool {
        (self.depth, self.left) = (0, self.most);
        if !std::mem::replace(&mut self.started, true) {
            return true;
        }
        while let Some((at, allowed)) = self.path.last_mut() {
            *at += 1;
            if *at < allowed.len() {
                return true;
            }
            self.path.pop();
        }
        false
    }

    fn choose(&mut self, point: &Point<'_>) -> usize {
        if self.depth == self.path.len() {
            let cost = |index: &usize| u32::from(Self::is_forced_switch(point, *index));
            let allowed = (0..point.choices.len()).filter(|index| cost(index) <= self.left);
            self.path.push((0, allowed.collect()));
        }
        let (at, allowed) = &self.path[self.depth];
        let index = allowed[*at];
        self.left -= u32::from(Self::is_forced_switch(point, index));
        self.depth += 1;
        index
    }

    fn restart(&mut self) {
        *self = AllSchedules::new(self.most);
    }

    fn counts_switches(&self) -> bool {
        true
    }

    fn coverage(&self) -> Coverage {
        Coverage::UpToSwitches(self.most)
    }
}

/// Which operations a program is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    /// Operations on words and bytes, each one step.
    Words,
    /// The same and sleeps on words, wakes, naps and locks.
    Sleeps,
    /// The same and waits for one, any and all events.
    Events,
}

fn limit(dice: &mut Dice) -> Limit {
    if dice.below(3) == 0 { Limit::Nanosecond } else { Limit::None }
}

fn word_op(dice: &mut Dice, word: usize) -> Op {
    let value = dice.below(2) + 1;
    match dice.below(16) {
        0..=3 => Op::Store(word, value),
        4..=6 => Op::Load(word),
        7 => Op::Fence,
        8 => Op::Swap(word, value),
        9 => Op::Compare(word, dice.below(2), 2),
        10 => Op::Add(word, value),
        11 => Op::Or(word, if value == 1 { 2 } else { FLAG }),
        12 => Op::And(word, !value),
        _ => Op::AddAndTest(word, value),
    }
}

/// Adds one statement, or a locked part, to `ops`.
fn add_op(dice: &mut Dice, made: Made, ops: &mut Vec<Op>) {
    let word = dice.below(2) as usize;
    let event = dice.below(EVENTS as u64) as usize;
    let two = [event, (event + 1 + dice.below(2) as usize) % EVENTS];
    match made {
        Made::Words if dice.below(6) == 0 => ops.push(match dice.below(3) {
            0 => Op::ReadBytes(dice.below(2)),
            1 => Op::WriteBytes(dice.below(2), dice.below(2) + 1),
            _ => Op::AddToBytes(dice.below(2), 1),
        }),
        Made::Sleeps if dice.below(3) > 0 => match dice.below(8) {
            0 | 1 => ops.push(Op::Sleep(word, dice.below(2) as u32, limit(dice))),
            2 => ops.push(Op::Wake(word, 1)),
            3 => ops.push(Op::Wake(word, u32::MAX)),
            4 => ops.push(Op::Nap),
            5 => ops.push(Op::Now),
            _ => {
                let lock = dice.below(LOCKS as u64) as usize;
                let inside = [word_op(dice, word), word_op(dice, 1 - word)];
                ops.extend([Op::Lock(lock), inside[0], inside[1], Op::Unlock(lock)]);
            }
        },
        Made::Events if dice.below(5) > 0 => ops.push(match dice.below(12) {
            0..=4 => Op::Set(event),
            5 => Op::Reset(event),
            6 => Op::IsSet(event),
            7 => Op::Take(event),
            8 => Op::Await(event, limit(dice)),
            9 | 10 => Op::Any(two, limit(dice)),
            _ => Op::All(two, limit(dice)),
        }),
        _ => ops.push(word_op(dice, word)),
    }
}

fn program(dice: &mut Dice, made: Made, lengths: &[u64]) -> Statements {
    let agent = |length: &u64| {
        let mut ops = Vec::new();
        (0..*length).for_each(|_| add_op(dice, made, &mut ops));
        assert!(ops.len() <= 2 * OBSERVED);
        ops
    };
    Statements::new(lengths.iter().map(agent).collect())
}

fn search(
    program: &Statements,
    options: &Options<'_>,
    strategy: Box<dyn Strategy>,
) -> (BTreeSet<Outcome>, BTreeSet<u64>) {
    let (seen, report) = program.search(options, strategy);
    assert!(report.exhausted || report.coverage.to_string().contains("switches"), "{report:?}");
    (seen, report.ends)
}

/// Returns what all schedules with at most `switches` forced switches reach; `None` if there are
/// too many.
fn brute_force(
    program: &Statements,
    options: &Options<'_>,
    switches: u32,
    most: u64,
) -> Option<BTreeSet<Outcome>> {
    let options = Options { max_runs: most, ..*options };
    let (seen, report) = program.search(&options, Box::new(AllSchedules::new(switches)));
    (report.runs < most).then_some(seen)
}

/// Panics with the outcomes that only one of two searches reached.
fn assert_same(seen: &BTreeSet<Outcome>, all: &BTreeSet<Outcome>, what: &str) {
    let missed: Vec<_> = all.difference(seen).collect();
    let extra: Vec<_> = seen.difference(all).collect();
    assert!(seen == all, "misses {missed:?}, adds {extra:?}: {what}");
}

/// Counts of the programs that were compared.
#[derive(Debug, Default)]
struct Compared {
    outcomes: usize,
    states: usize,
    unreduced: u64,
    whole: u64,
    bounded: u64,
    bounded_reduced: u64,
    sampled: u64,
}

/// The most schedules of a program of which each is run.
const SCHEDULES: u64 = 3_000;

fn compare(program: &Statements, seed: u64, compared: &mut Compared) {
    for model in MODELS {
        let what = || format!("seed {seed}, {model:?}: {program:?}");
        let (all, states) = reference::outcomes(program, model);
        (compared.outcomes, compared.states) =
            (compared.outcomes + all.len(), compared.states + states);
        let reduced = Options { model, seed, ..Options::default() };
        let unreduced = Options { reduce: false, ..reduced };
        let (seen, reduced_ends) = search(program, &reduced, Box::new(Exhaustive::new()));
        assert_same(&seen, &all, &format!("reduced, {}", what()));
        if let Some(ends) = compare_unreduced(program, &unreduced, &all, &what) {
            assert_eq!(reduced_ends, ends, "ends, {}", what());
            compared.unreduced += 1;
        }
        if let Some(seen) = brute_force(program, &unreduced, u32::MAX, SCHEDULES) {
            assert_same(&seen, &all, &format!("every schedule, {}", what()));
            compared.whole += 1;
        }
        for switches in 0..3 {
            let bounded = || Box::new(Bounded::new(switches));
            let (with_reduction, _) = search(program, &reduced, bounded());
            assert!(with_reduction.is_subset(&all), "{switches} switches, {}", what());
            // Without pruning a search learns more of what agents share, so fewer steps commute
            // there and cost no switch.
            if let Some(few) = brute_force(program, &reduced, switches, SCHEDULES) {
                let missed: Vec<_> = few.difference(&with_reduction).collect();
                assert!(missed.is_empty(), "{switches} switches, misses {missed:?}, {}", what());
                compared.bounded_reduced += 1;
            }
            let Some(few) = brute_force(program, &unreduced, switches, SCHEDULES) else {
                continue;
            };
            let (seen, _) = search(program, &unreduced, bounded());
            assert_same(
                &seen,
                &few,
                &format!("{switches} switches, without reduction, {}", what()),
            );
            compared.bounded += 1;
        }
        for kind in [StrategyKind::Random, StrategyKind::Pct(1), StrategyKind::Pct(3)] {
            let options = Options { max_runs: 20, ..reduced };
            let (seen, _) = program.search(&options, kind.build(seed));
            assert!(seen.is_subset(&all), "{kind}, {}", what());
            compared.sampled += seen.len() as u64;
        }
        compare_apart(program, &reduced, &all, &what);
    }
}

/// The most runs of a search without reduction, which events of many steps would make long.
const UNREDUCED: u64 = 2_000;

/// Compares a search without reduction, and returns its final states; `None` if it takes too many
/// runs.
fn compare_unreduced(
    program: &Statements,
    options: &Options<'_>,
    all: &BTreeSet<Outcome>,
    what: &dyn Fn() -> String,
) -> Option<BTreeSet<u64>> {
    let options = Options { max_runs: UNREDUCED, ..*options };
    let (seen, report) = program.search(&options, Box::new(Exhaustive::new()));
    if report.exhausted {
        assert_same(&seen, all, &format!("without reduction, {}", what()));
    }
    report.exhausted.then_some(report.ends)
}

/// Searched by themselves, groups of agents that share nothing show the same values.
fn compare_apart(
    program: &Statements,
    options: &Options<'_>,
    all: &BTreeSet<Outcome>,
    what: &dyn Fn() -> String,
) {
    let mut apart = program.clone();
    apart.apart = true;
    let (seen, _) = search(&apart, options, Box::new(Exhaustive::new()));
    assert!(seen.is_subset(all), "groups apart, {}", what());
    for agent in 0..program.agents.len() {
        let of_agent = |outcomes: &BTreeSet<Outcome>| -> BTreeSet<Vec<u64>> {
            outcomes.iter().map(|(agents, _)| agents[agent].clone()).collect()
        };
        assert_eq!(of_agent(&seen), of_agent(all), "agent {agent} of groups apart, {}", what());
    }
}

fn compare_programs(made: Made, lengths: &[u64], seeds: std::ops::Range<u64>) -> Compared {
    let mut compared = Compared::default();
    for seed in seeds {
        let mut dice = Dice::new(seed);
        let mut program = program(&mut dice, made, lengths);
        let automatic = |dice: &mut Dice| dice.below(3) == 0;
        program.manual = [automatic(&mut dice), automatic(&mut dice), true];
        if dice.below(3) == 0 {
            let joined = 1 + dice.below(lengths.len() as u64 - 1) as usize;
            let own = &mut program.agents[0];
            own.extend([Op::Join(joined), Op::Load(0)]);
        }
        compare(&program, seed, &mut compared);
    }
    println!("{made:?} {lengths:?}: {compared:?}");
    compared
}

#[test]
fn programs_of_words() {
    let two = compare_programs(Made::Words, &[3, 3], 0..150);
    let three = compare_programs(Made::Words, &[2, 2, 2], 1_000..1_060);
    assert!(two.whole > 250 && two.bounded > 700, "{two:?}");
    assert!(three.whole > 80 && three.bounded > 250, "{three:?}");
}

/// The random runs before a search show most of what agents share. Without them the search itself
/// has to refute what it took for granted.
#[test]
fn programs_without_first_runs() {
    for seed in 6_000..6_150 {
        let mut dice = Dice::new(seed);
        let program = program(&mut dice, Made::Words, &[3, 2, 2]);
        for model in MODELS {
            let (all, _) = reference::outcomes(&program, model);
            let options = Options { model, first_runs: 0, ..Options::default() };
            let what = format!("seed {seed}, {model:?}: {program:?}");
            let (seen, _) = search(&program, &options, Box::new(Exhaustive::new()));
            assert_same(&seen, &all, &what);
        }
    }
}

#[test]
fn programs_that_sleep_and_lock() {
    let two = compare_programs(Made::Sleeps, &[3, 3], 2_000..2_100);
    let three = compare_programs(Made::Sleeps, &[2, 2, 2], 3_000..3_040);
    assert!(two.whole > 150 && two.bounded > 500 && three.bounded > 200, "{two:?} {three:?}");
}

#[test]
fn programs_of_events() {
    let two = compare_programs(Made::Events, &[3, 2], 4_000..4_040);
    let three = compare_programs(Made::Events, &[2, 1, 1], 5_000..5_025);
    assert!(two.unreduced > 50 && two.bounded > 200 && three.bounded > 100, "{two:?} {three:?}");
}

/// Programs that random ones rarely are.
#[test]
fn programs_written_by_hand() {
    use Limit::None as Never;
    use Op::{AddAndTest, Fence, Join, Load, Lock, Nap, Sleep, Store, Swap, Unlock, Wake};
    let programs: [&[&[Op]]; 11] = [
        // Two loads between two additions.
        &[&[Load(0), Load(0)], &[AddAndTest(0, 1), AddAndTest(0, 1)]],
        // A flush comes between the store and the second load of the word.
        &[&[Store(0, 1), Load(1), Load(0)], &[Store(1, 1), Fence, Load(0), Store(0, 2)]],
        // The order in which two agents fall asleep decides which one a wake ends.
        &[
            &[Store(2, 1), Load(1), Wake(0, 1), Load(1)],
            &[Sleep(0, 0, Never), Store(1, 1)],
            &[Sleep(0, 0, Never)],
        ],
        // The first agent is asleep when the clock moves, and the second one falls asleep later.
        &[&[Nap, Nap, Wake(0, 1)], &[Sleep(0, 0, Never)], &[Nap, Sleep(0, 0, Never)]],
        // A barrier on either side: one of the two agents sees the other one's store.
        &[&[Store(0, 1), Fence, Load(1)], &[Store(1, 1), Fence, Load(0)]],
        // Two sleeps end at one time, and either agent is the first to swap.
        &[&[Nap, Swap(0, 1)], &[Nap, Swap(0, 2), Load(0)]],
        // An agent that waits for a lock competes with a load, and its owner has a step to do.
        &[
            &[Load(0), Load(1)],
            &[Lock(0), Store(0, 1), Unlock(0)],
            &[Lock(0), Swap(1, 1), Load(0), Unlock(0)],
        ],
        // Each of two agents wakes the other one.
        &[&[Sleep(0, 0, Never), Wake(1, 1)], &[Wake(0, 1), Sleep(1, 0, Never)]],
        // The same with the end of an agent in place of a lock.
        &[&[Join(2), Swap(0, 1)], &[Load(0)], &[Load(0)]],
        // Which agent ran last decides which one goes on without a switch after two flushes.
        &[&[Load(1), Store(0, 1), Swap(1, 1)], &[Load(1), Store(0, 2), Swap(1, 2)]],
        // Two agents change a word once more after a third has loaded it.
        &[&[Load(0), Load(0)], &[AddAndTest(0, 1), Load(0)], &[AddAndTest(0, 2)]],
    ];
    let mut compared = Compared::default();
    for (seed, agents) in (0..).zip(programs) {
        let agents = agents.iter().map(|ops| ops.to_vec());
        compare(&Statements::new(agents.collect()), seed, &mut compared);
    }
    println!("by hand: {compared:?}");
}

/// An event that a wait for all holds, and gives back because another one is taken, is set for
/// every wait that met it meanwhile.
#[test]
fn a_wait_for_any_gets_what_a_wait_for_all_gives_back() {
    use Limit::{Nanosecond, None as Never};
    let program = Statements::new(vec![
        vec![Op::Set(0), Op::Set(1), Op::Any([0, 2], Never)],
        vec![Op::All([0, 1], Nanosecond), Op::Set(0)],
        vec![Op::Take(1)],
    ]);
    let model = MemoryModel::SequentiallyConsistent;
    let (all, _) = reference::outcomes(&program, model);
    let options = Options { model, ..Options::default() };
    let (seen, _) = search(&program, &options, Box::new(Exhaustive::new()));
    assert_same(&seen, &all, "a wait for any beside a wait for all");
}

/// A step that commutes is taken at once, so it may take away a switch that was free: the reduced
/// search finds with one switch what takes none without reduction.
#[test]
fn a_commuting_step_is_no_switch() {
    let program = Statements::new(vec![
        vec![Op::AddAndTest(0, 2), Op::AddAndTest(1, 1), Op::Load(1)],
        vec![Op::Or(1, 2), Op::Store(1, 2), Op::Add(1, 1)],
    ]);
    let reach = |switches, reduce| {
        let options = Options { reduce, ..Options::default() };
        search(&program, &options, Box::new(Bounded::new(switches))).0
    };
    assert!(!reach(0, false).is_subset(&reach(0, true)));
    assert!(reach(0, false).is_subset(&reach(1, true)));
}

#[test]
#[ignore = "minutes"]
fn many_programs() {
    for (made, lengths, programs) in [
        (Made::Words, &[4, 4][..], 1_500),
        (Made::Words, &[3, 2, 2], 1_000),
        (Made::Sleeps, &[4, 3], 1_000),
        (Made::Sleeps, &[2, 2, 2], 1_000),
        (Made::Events, &[3, 3], 300),
        (Made::Events, &[2, 2, 2], 150),
    ] {
        compare_programs(made, lengths, 10_000..10_000 + programs);
    }
}
