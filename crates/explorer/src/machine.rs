//! Explored machines without a scenario, for tests of one crate.
//!
//! Entry points: [`machine`] makes one machine under a strategy; [`search`] makes one for each
//! schedule that a strategy picks.

use crate::execution::Runner;
use crate::strategy::Strategy;
use std::ops::ControlFlow;
use tidegate_platform::{MemoryModel, Platform};

/// What a [`search`] covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Searched {
    /// Schedules.
    pub runs: u64,
    /// Different states; 0 if the strategy does not count them.
    pub states: u64,
}

/// Returns a machine whose choices `strategy` makes. [`Replay::default`] takes the first choice
/// always.
///
/// [`Replay::default`]: crate::strategy::replay::Replay
pub fn machine(strategy: impl Strategy + 'static, model: MemoryModel) -> Platform {
    Runner::new(strategy, model).machine()
}

/// Calls `run` with a fresh machine for each schedule, until `strategy` has no more or `run`
/// breaks.
///
/// # Panics
/// When a run does not repeat what an earlier run with the same choices showed.
pub fn search(
    strategy: impl Strategy + 'static,
    model: MemoryModel,
    mut run: impl FnMut(&Platform) -> ControlFlow<()>,
) -> Searched {
    let runner = Runner::new(strategy, model);
    let mut runs = 0;
    while runner.strategy(Strategy::begin) {
        runs += 1;
        let ended = run(&runner.machine());
        let parted = runner.strategy(|strategy| strategy.parted_at());
        assert_eq!(parted, None, "run {runs} differs from an earlier one at this choice");
        if ended.is_break() {
            break;
        }
    }
    Searched { runs, states: runner.strategy(|strategy| strategy.states()) }
}
