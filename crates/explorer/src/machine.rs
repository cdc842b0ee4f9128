//! Explored machines without a scenario, for tests of one crate.
//!
//! Entry points: [`machine`] returns one machine under a strategy. [`search`] creates one for each
//! schedule of a strategy.

use crate::execution::Runner;
use crate::strategy::Strategy;
use std::ops::ControlFlow;
use tidegate_platform::{MemoryModel, Platform};

/// Coverage of a [`search`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Searched {
    /// Number of schedules.
    pub runs: u64,
    /// Number of distinct states; 0 if the strategy does not count them.
    pub states: u64,
}

/// Returns a machine whose choices `strategy` makes. [`Replay::default`] always picks the first.
///
/// [`Replay::default`]: crate::strategy::replay::Replay
pub fn machine(strategy: impl Strategy + 'static, model: MemoryModel) -> Platform {
    Runner::new(strategy, model).machine()
}

/// Calls `run` with a fresh machine per schedule, until `strategy` ends or `run` breaks.
///
/// # Panics
/// Panics if a run diverges from an earlier one with the same choices.
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
        let diverged = runner.diverged_at();
        assert_eq!(diverged, None, "run {runs} diverges from an earlier one at this choice");
        if ended.is_break() {
            break;
        }
    }
    Searched { runs, states: runner.strategy(|strategy| strategy.states()) }
}
