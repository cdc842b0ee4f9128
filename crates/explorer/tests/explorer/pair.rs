//! The race of CurrentValue and MonitoredValue: exhausted, on all three platforms. Every strategy
//! finds its planted bugs, which are replayed from their lines and shrunk.

use tidegate_explorer::{
    Coverage, ExplorerError, Failure, Litmus, MemoryModel, Options, Platform, Scenario, Schedule,
    StrategyKind, explore, explore_planted, replay,
};
use tidegate_platform::{Step, StepCosts};

const STRATEGIES: [StrategyKind; 4] = [
    StrategyKind::Exhaustive,
    StrategyKind::Bounded(2),
    StrategyKind::Random,
    StrategyKind::Pct(3),
];

fn lookup(name: &str) -> Option<Box<dyn Scenario>> {
    Litmus::named(name)
}

#[test]
fn the_pair_is_exhausted_in_a_known_number_of_states() {
    let report = explore(&Litmus::pair(), &Options::default()).unwrap();
    assert!(report.exhausted && report.passed(), "{report:?}");
    assert_eq!(report.coverage.to_string(), "exhausted");
    // The count changes only if the scenario, the events or the definition of a state change.
    assert_eq!((report.states, report.runs, report.longest_steps), (21, 40, 17));
}

#[test]
fn more_values_and_more_fences_are_exhausted() {
    let two_values = explore(&Litmus::new(1, 2), &Options::default()).unwrap();
    assert!(two_values.exhausted && two_values.passed(), "{two_values:?}");
    assert_eq!(two_values.states, 210);
    let two_fences = explore(&Litmus::new(2, 1), &Options::default()).unwrap();
    assert!(two_fences.exhausted && two_fences.passed(), "{two_fences:?}");
    // Each fence is searched by itself.
    assert_eq!(two_fences.states, 2 * 21);
}

/// Groups of agents that share nothing advance together, one node each in a run.
#[test]
fn groups_that_share_nothing_take_the_runs_of_one_group() {
    let one = explore(&Litmus::new(1, 1), &Options::default()).unwrap();
    for fences in [2, 4, 8] {
        let several = explore(&Litmus::new(fences, 1), &Options::default()).unwrap();
        assert!(several.exhausted && several.passed(), "{several:?}");
        assert_eq!(several.states, fences as u64 * one.states);
        assert!(several.runs <= 2 * one.runs, "{} runs, {} of one group", several.runs, one.runs);
        for planted in explore_planted(&Litmus::new(fences, 1), &Options::default()).unwrap() {
            assert!(planted.report.failure.is_some(), "{} fences: {:?}", fences, planted.bug);
        }
    }
}

#[test]
fn every_strategy_finds_every_planted_bug_within_1000_schedules() {
    for strategy in STRATEGIES {
        let options = Options { strategy, max_runs: 1_000, ..Options::default() };
        for planted in explore_planted(&Litmus::pair(), &options).unwrap() {
            let (bug, report) = (planted.bug.name, &planted.report);
            let found =
                report.failure.as_ref().unwrap_or_else(|| panic!("{strategy} misses {bug}"));
            assert!(
                matches!(&found.failure, Failure::Blocked(agents) if agents[0].0 == "main"),
                "{found:?}"
            );
            for line in [&found.line, &found.shrunk_line] {
                assert!(line.starts_with(&format!("litmus+{bug}/tso/{strategy}:")), "{line}");
                let again = replay(line, &lookup).unwrap();
                assert_eq!(again.failure.as_ref(), Some(&found.failure), "{line}");
                let twice = replay(line, &lookup).unwrap();
                assert_eq!((twice.moves, twice.steps), (again.moves, again.steps), "{line}");
            }
        }
    }
}

#[test]
fn sampling_finds_a_missing_barrier_soon_with_most_seeds() {
    for strategy in [StrategyKind::Random, StrategyKind::Pct(3)] {
        let needed = |bug: &str| {
            let broken = Litmus::pair().with_bug(bug).unwrap();
            let mut runs: Vec<u64> = (0..100)
                .map(|seed| {
                    let options = Options {
                        strategy,
                        seed,
                        max_runs: 1_000,
                        shrink_runs: 0,
                        ..Options::default()
                    };
                    let report = explore(broken.as_ref(), &options).unwrap();
                    assert!(report.failure.is_some(), "{strategy} misses {bug} with seed {seed}");
                    report.runs
                })
                .collect();
            runs.sort_unstable();
            runs[50]
        };
        for bug in ["no-gpu-barrier", "no-cpu-barrier"] {
            let median = needed(bug);
            println!("{strategy} finds {bug} after {median} schedules (median of 100 seeds)");
            assert!(median <= 100, "{strategy} needs {median} schedules for {bug}");
        }
    }
}

#[test]
fn sequential_consistency_cannot_see_a_missing_barrier() {
    // A checker without store buffers cannot find the bug, which is why the explorer has them.
    let options = Options { model: MemoryModel::SequentiallyConsistent, ..Options::default() };
    for planted in explore_planted(&Litmus::pair(), &options).unwrap() {
        assert_eq!(planted.found(), planted.bug.name == "no-resample", "{}", planted.bug.name);
        assert!(planted.found() || planted.report.exhausted);
    }
}

#[test]
fn bounded_search_finds_what_exhaustive_search_finds() {
    for bug in Litmus::pair().planted() {
        let broken = Litmus::pair().with_bug(bug.name).unwrap();
        let fewest = (0..4).find(|switches| {
            let options =
                Options { strategy: StrategyKind::Bounded(*switches), ..Options::default() };
            explore(broken.as_ref(), &options).unwrap().failure.is_some()
        });
        println!("{}: {fewest:?} forced switches", bug.name);
        assert!(fewest.is_some_and(|f| f <= 2), "{}", bug.name);
    }
    let options = Options { strategy: StrategyKind::Bounded(1), ..Options::default() };
    let report = explore(&Litmus::pair(), &options).unwrap();
    assert_eq!(report.coverage, Coverage::UpToSwitches(1));
    assert!(!report.exhausted && report.failure.is_none());
    let options = Options { strategy: StrategyKind::Bounded(100), ..Options::default() };
    let report = explore(&Litmus::pair(), &options).unwrap();
    assert!(report.exhausted && report.passed(), "enough switches cover everything: {report:?}");
    assert_eq!(report.states, 21, "the same states as in the exhaustive search");
}

#[test]
fn a_shrunk_schedule_fails_in_the_same_way() {
    let broken = Litmus::new(2, 1).with_bug("no-cpu-barrier").unwrap();
    let options = Options { strategy: StrategyKind::Random, seed: 7, ..Options::default() };
    let found = explore(broken.as_ref(), &options).unwrap().failure.expect("found");
    let long: Schedule = found.line.parse().unwrap();
    assert!(
        found.shrunk.turns() < long.turns(),
        "{} is not smaller than {}",
        found.shrunk_line,
        found.line
    );
    assert_eq!(replay(&found.shrunk_line, &lookup).unwrap().failure, Some(found.failure));
}

#[test]
fn a_line_of_a_fixed_or_changed_scenario_is_detected() {
    let broken = Litmus::pair().with_bug("no-gpu-barrier").unwrap();
    let found = explore(broken.as_ref(), &Options::default()).unwrap().failure.unwrap();
    let mended = found.shrunk_line.replace("+no-gpu-barrier", "");
    assert!(
        matches!(replay(&mended, &lookup), Err(ExplorerError::DoesNotFit { .. })),
        "the checksum differs"
    );
    let (without_sum, _) = mended.rsplit_once('-').unwrap();
    assert_eq!(
        replay(without_sum, &lookup).unwrap().failure,
        None,
        "the barrier fixes this schedule"
    );
}

#[test]
fn an_invalid_line_reports_its_error() {
    let text = |line: &str| replay(line, &lookup).unwrap_err().to_string();
    assert!(text("").contains("no ':'"), "{}", text(""));
    assert!(text("litmus/tso:A").contains("2 parts"), "{}", text("litmus/tso:A"));
    assert!(text("nothing/tso/random:A").contains("no scenario 'nothing'"));
    assert!(
        text("litmus+typo/tso/random:A")
            .contains("it has: no-resample, no-gpu-barrier, no-cpu-barrier")
    );
    assert!(text("litmus/arm/random:A").contains("no memory model 'arm'"));
    assert!(text("litmus/tso/luck:A").contains("no strategy 'luck'"));
    assert!(text("litmus/tso/random:A!").contains("'!' is not a move"));
    assert!(text("litmus/tso/random:12").contains("ends in a count"));
    assert!(text("litmus/tso/random:zzzzzzzzzzzzzzzA").contains("count"));
    assert!(text("litmus/tso/random:A-ä").contains("is not a checksum"));
    assert!(text("litmus/tso/random:Y").contains("choice 0 is not available"));
    assert!(text("litmus/tso/random:zzA").contains("is not available"));
}

#[test]
fn the_pair_runs_on_the_host_and_in_virtual_time() {
    let costs =
        StepCosts::free().with(Step::ThreadWake, 9_000).with(Step::InterruptDelivery, 3_000);
    for (platform, values) in
        [(Platform::closed_host(), 20_000), (Platform::virtual_time(costs), 2_000)]
    {
        let (report, failure) = Litmus::new(1, values).prepare(&platform).run(&platform);
        assert_eq!(failure, None, "{:?}", platform.kind());
        assert!(report.completed());
    }
}
