//! The litmus book: small programs with known outcomes under total store order and sequential
//! consistency. The explorer must find exactly these.
//!
//! Outcomes under total store order: Owens, Sarkar, Sewell, "A better x86 memory model: x86-TSO",
//! 2009.

use crate::worlds::{Op, Program, outcomes};
use std::collections::BTreeSet;
use tidegate_explorer::{ExplorerError, MemoryModel, Options, Scenario, StrategyKind, explore};

const TSO: MemoryModel = MemoryModel::TotalStoreOrder;
const SC: MemoryModel = MemoryModel::SequentiallyConsistent;

use Op::{Fence, Load, Store, Swap};

fn reaches(program: &Program, model: MemoryModel, wanted: &[u64]) -> bool {
    outcomes(program, model).iter().any(|o| o.starts_with(wanted))
}

#[test]
fn store_buffering_is_seen_with_store_buffers_only() {
    let bare = Program::new(&[&[Store(0, 1), Load(1)], &[Store(1, 1), Load(0)]]);
    assert!(reaches(&bare, TSO, &[0, 0]));
    assert!(!reaches(&bare, SC, &[0, 0]));
    let fenced = Program::new(&[&[Store(0, 1), Fence, Load(1)], &[Store(1, 1), Fence, Load(0)]]);
    assert!(!reaches(&fenced, TSO, &[0, 0]));
    let one_fence = Program::new(&[&[Store(0, 1), Fence, Load(1)], &[Store(1, 1), Load(0)]]);
    assert!(reaches(&one_fence, TSO, &[0, 0]));
    let locked = Program::new(&[&[Swap(0, 1), Load(1)], &[Swap(1, 1), Load(0)]]);
    assert!(!reaches(&locked, TSO, &[0, 0, 0, 0]));
}

#[test]
fn message_passing_needs_no_barrier() {
    let program = Program::new(&[&[Store(0, 1), Store(1, 1)], &[Load(1), Load(0)]]);
    for model in [TSO, SC] {
        let seen = outcomes(&program, model);
        let loads: BTreeSet<&[u64]> = seen.iter().map(|o| &o[..2]).collect();
        assert_eq!(
            loads,
            BTreeSet::from([&[0, 0][..], &[0, 1], &[1, 1]]),
            "the flag without the message"
        );
    }
}

#[test]
fn an_agent_reads_its_own_store_first() {
    // Owens et al., n6: an agent reads its own store before the store reaches memory.
    let n6 = Program::new(&[&[Store(0, 1), Load(0), Load(1)], &[Store(1, 2), Store(0, 2)]]);
    let strange = |model| outcomes(&n6, model).iter().any(|o| o[..2] == [1, 0] && o[2] == 1);
    assert!(strange(TSO));
    assert!(!strange(SC));
}

#[test]
fn independent_readers_agree_on_the_order_of_independent_writers() {
    let iriw =
        Program::new(&[&[Store(0, 1)], &[Store(1, 1)], &[Load(0), Load(1)], &[Load(1), Load(0)]]);
    for model in [TSO, SC] {
        assert!(
            !reaches(&iriw, model, &[1, 0, 1, 0]),
            "{model:?}: all agents see one memory order"
        );
        assert!(reaches(&iriw, model, &[1, 1, 1, 1]));
    }
}

#[test]
fn a_started_agent_sees_what_was_stored_before() {
    for strategy in [StrategyKind::Exhaustive, StrategyKind::Pct(3)] {
        let options = Options { strategy, max_runs: 1_000, ..Options::default() };
        let report = explore(&crate::worlds::StoreBeforeStart, &options).unwrap();
        assert!(report.failure.is_none(), "{strategy:?}: {report:?}");
    }
}

#[test]
fn stores_of_two_agents_do_not_cross() {
    // 2+2W: x = y = 1 at the end requires both first stores to be last.
    let program = Program::new(&[&[Store(0, 1), Store(1, 2)], &[Store(1, 1), Store(0, 2)]]);
    for model in [TSO, SC] {
        let ends: BTreeSet<Vec<u64>> = outcomes(&program, model);
        assert!(!ends.contains(&vec![1, 1]), "{model:?}");
        assert_eq!(ends, BTreeSet::from([vec![1, 2], vec![2, 1], vec![2, 2]]), "{model:?}");
    }
}

#[test]
fn a_load_is_not_delayed_behind_a_later_store() {
    let load_buffering = Program::new(&[&[Load(0), Store(1, 1)], &[Load(1), Store(0, 1)]]);
    for model in [TSO, SC] {
        assert!(!reaches(&load_buffering, model, &[1, 1]), "{model:?}");
    }
}

#[test]
fn a_join_sees_all_stores_of_the_joined_agent() {
    let mut program = Program::new(&[&[], &[Store(0, 1), Store(1, 2)]]);
    program.joined = true;
    assert_eq!(outcomes(&program, TSO), BTreeSet::from([vec![1, 2, 1, 2]]));
}

#[test]
fn a_mutex_orders_critical_sections() {
    use Op::Locked;
    let program = Program::new(&[&[Locked(0), Locked(0)], &[Locked(0)]]);
    // Each locked section reads a counter and increments it, so all values differ.
    for outcome in outcomes(&program, TSO) {
        let reads: BTreeSet<u64> = outcome[..3].iter().copied().collect();
        assert_eq!(reads, BTreeSet::from([0, 1, 2]));
    }
}

#[test]
fn a_lost_wake_up_is_found_and_named() {
    for strategy in [
        StrategyKind::Exhaustive,
        StrategyKind::Bounded(2),
        StrategyKind::Random,
        StrategyKind::Pct(2),
    ] {
        let options = Options { strategy, max_runs: 5_000, ..Options::default() };
        let report = explore(&crate::worlds::LostWakeUp, &options).unwrap();
        let found = report.failure.unwrap_or_else(|| panic!("{strategy} finds it"));
        assert_eq!(
            found.failure.to_string(),
            "no agent is runnable: 'main' waits for the condition"
        );
        assert!(found.shrunk.turns() <= 2, "{}", found.shrunk_line);
    }
}

#[test]
fn a_deadlock_of_two_locks_is_found_and_named() {
    let report = explore(&crate::worlds::CrossedLocks, &Options::default()).unwrap();
    let text = report.failure.expect("found").failure.to_string();
    // The order of waits names it in the first schedule, in which no agent is blocked.
    assert!(
        text.contains("'a', then the lock 'b', in agent 'main'")
            && text.contains("'b', then the lock 'a', in agent 'other'"),
        "{text}"
    );
}

#[test]
fn sleepers_are_woken_in_either_fifo_order() {
    // The order of sleepers is part of the state, so both orders of two waiters are reached.
    let report = explore(&crate::worlds::OneWakeTwoSleepers, &Options::default()).unwrap();
    assert!(report.exhausted && report.passed(), "{report:?}");
}

#[test]
fn a_nondeterministic_scenario_is_reported() {
    for strategy in [StrategyKind::Exhaustive, StrategyKind::Bounded(2)] {
        let restless = crate::worlds::Restless::default();
        match explore(&restless, &Options { strategy, ..Options::default() }) {
            Err(ExplorerError::NotDeterministic { scenario, .. }) => {
                assert_eq!(scenario, restless.name(), "{strategy}");
            }
            other => panic!("{strategy}: {other:?}"),
        }
    }
}

#[test]
fn a_mark_that_no_run_reaches_is_reported() {
    let report = explore(&crate::worlds::Vacuous, &Options::default()).unwrap();
    assert!(report.exhausted && report.failure.is_none());
    assert_eq!(report.never_reached, ["the other agent ran"]);
    assert!(!report.passed());
}

#[test]
fn properties_and_panics_are_failures() {
    let texts: Vec<String> = [
        crate::worlds::Broken::Always,
        crate::worlds::Broken::Eventually,
        crate::worlds::Broken::Panic,
        crate::worlds::Broken::Check,
    ]
    .iter()
    .map(|b| explore(b, &Options::default()).unwrap().failure.expect("fails").failure.to_string())
    .collect();
    assert_eq!(
        texts,
        [
            "violated property: the total is not 2",
            "does not hold at the end of the run: both stores are visible",
            "agent 'other' panicked: observed the store",
            "the check panicked: the total is 2",
        ]
    );
}
