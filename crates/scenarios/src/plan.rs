//! How each scenario is searched: by which strategy, and how far. The short form is for every
//! change, the full one for a night.

use std::fmt;
use tidegate::explorer::StrategyKind;

/// How to search one scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What chooses the next agent.
    pub strategy: StrategyKind,
    /// Runs to make at most.
    pub max_runs: u64,
    /// Different states to keep at most.
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

/// Searches everything. The limit is a safeguard that no search reaches.
pub(crate) const fn exhaustive(max_runs: u64) -> Plan {
    Plan { strategy: StrategyKind::Exhaustive, max_runs, max_states: max_runs }
}

/// Makes a number of runs by probabilistic concurrency testing.
pub(crate) const fn sampled(runs: u64) -> Plan {
    Plan { strategy: StrategyKind::Pct(3), max_runs: runs, max_states: u64::MAX }
}

/// Searches everything up to a number of forced switches.
pub(crate) const fn bounded(switches: u32, max_runs: u64) -> Plan {
    Plan { strategy: StrategyKind::Bounded(switches), max_runs, max_states: max_runs }
}

/// How a scenario and its planted bugs are searched.
#[derive(Clone, Copy)]
pub(crate) struct Plans {
    pub(crate) short: Plan,
    pub(crate) full: Plan,
    pub(crate) bugs: Plan,
}

impl Plans {
    /// The three plans of a scenario.
    pub(crate) const fn of(short: Plan, full: Plan, bugs: Plan) -> Plans {
        Plans { short, full, bugs }
    }

    /// One plan for all three.
    pub(crate) const fn all(plan: Plan) -> Plans {
        Plans::of(plan, plan, plan)
    }

    /// Samples: the short form and the search for bugs make fewer runs.
    pub(crate) const fn samples(short: u64, full: u64, bugs: u64) -> Plans {
        Plans::of(sampled(short), sampled(full), sampled(bugs))
    }
}
