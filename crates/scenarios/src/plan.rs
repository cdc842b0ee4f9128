//! Search plans of scenarios: strategy and limits. The short plan is for every change, the full one
//! for a nightly run.

use std::fmt;
use tidegate::explorer::StrategyKind;

/// The search plan of one scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The strategy that chooses the next agent.
    pub strategy: StrategyKind,
    /// Maximum number of runs.
    pub max_runs: u64,
    /// Maximum number of distinct states to keep.
    pub max_states: u64,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.strategy {
            StrategyKind::Exhaustive => f.write_str("exhausted"),
            StrategyKind::Bounded(switches) => write!(f, "up to {switches} forced switches"),
            StrategyKind::Random | StrategyKind::Pct(_) => {
                write!(f, "sampled, {} runs", self.max_runs)
            }
        }
    }
}

/// Searches exhaustively. The limit is a safeguard that no search reaches.
pub(crate) const fn exhaustive(max_runs: u64) -> Plan {
    Plan { strategy: StrategyKind::Exhaustive, max_runs, max_states: max_runs }
}

/// Makes `runs` runs with probabilistic concurrency testing.
pub(crate) const fn sampled(runs: u64) -> Plan {
    Plan { strategy: StrategyKind::Pct(3), max_runs: runs, max_states: u64::MAX }
}

/// Searches exhaustively up to a number of forced switches.
pub(crate) const fn bounded(switches: u32, max_runs: u64) -> Plan {
    Plan { strategy: StrategyKind::Bounded(switches), max_runs, max_states: max_runs }
}

/// The short and the full plan of a scenario, and the plan of its planted bugs.
#[derive(Clone, Copy)]
pub(crate) struct Plans {
    pub(crate) short: Plan,
    pub(crate) full: Plan,
    pub(crate) bugs: Plan,
}

impl Plans {
    /// Uses a separate plan for each purpose.
    pub(crate) const fn of(short: Plan, full: Plan, bugs: Plan) -> Plans {
        Plans { short, full, bugs }
    }

    /// Uses one plan for all purposes.
    pub(crate) const fn all(plan: Plan) -> Plans {
        Plans::of(plan, plan, plan)
    }

    /// Samples with different numbers of runs.
    pub(crate) const fn samples(short: u64, full: u64, bugs: u64) -> Plans {
        Plans::of(sampled(short), sampled(full), sampled(bugs))
    }
}
