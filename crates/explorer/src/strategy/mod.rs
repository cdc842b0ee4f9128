//! The choice of the next agent. A [`Strategy`] makes every choice of every run; each room's header
//! says what it guarantees.
//!
//! | strategy | room | guarantee |
//! |---|---|---|
//! | `exhaustive` | [`exhaustive`] | every reachable state; when it ends without a failure there is none |
//! | `bounded-N` | [`bounded`] | every schedule with at most N forced switches |
//! | `random` | [`random`] | none but chance; every schedule has some |
//! | `pct-N` | [`pct`] | a bug of depth N with probability at least 1/(n k^(N-1)) in each run |
//! | a given schedule | [`replay`] | that very run |

pub mod bounded;
pub mod exhaustive;
pub mod pct;
pub mod random;
pub mod replay;

use crate::error::ExplorerError;
use crate::explore::Coverage;
use std::fmt;
use std::str::FromStr;
use tidegate_platform::Point;

/// Chooses in run after run.
pub trait Strategy {
    /// Called before each run; `false` when there is nothing left to try.
    fn begin(&mut self) -> bool;

    /// Begins the search again: other steps are choices now, so what was seen says nothing. A
    /// strategy that remembers nothing goes on.
    fn restart(&mut self) {}

    /// Index into `point.choices`; beyond the end counts as 0.
    fn choose(&mut self, point: &Point<'_>) -> usize;

    /// Whether it counts the switches between agents, so that no choice may be left out because
    /// another can come first.
    fn counts_switches(&self) -> bool {
        false
    }

    /// Different states seen; 0 if it does not count them.
    fn states(&self) -> u64 {
        0
    }

    /// What has been covered once [`Strategy::begin`] has said `false`.
    fn coverage(&self) -> Coverage {
        Coverage::Sampled
    }

    /// Number of the first choice at which a run did not repeat what an earlier run showed.
    fn parted_at(&self) -> Option<u64> {
        None
    }
}

impl Strategy for Box<dyn Strategy> {
    fn begin(&mut self) -> bool {
        (**self).begin()
    }
    fn restart(&mut self) {
        (**self).restart();
    }
    fn choose(&mut self, point: &Point<'_>) -> usize {
        (**self).choose(point)
    }
    fn counts_switches(&self) -> bool {
        (**self).counts_switches()
    }
    fn states(&self) -> u64 {
        (**self).states()
    }
    fn coverage(&self) -> Coverage {
        (**self).coverage()
    }
    fn parted_at(&self) -> Option<u64> {
        (**self).parted_at()
    }
}

/// A strategy's name, as it stands in schedules and on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrategyKind {
    /// Everything, depth first.
    Exhaustive,
    /// Up to so many forced switches, fewest first.
    Bounded(u32),
    /// A random walk.
    Random,
    /// Probabilistic concurrency testing for bugs of this depth (1 or more).
    Pct(u32),
}

impl StrategyKind {
    /// A strategy of this kind; `seed` is for the random ones.
    pub fn build(self, seed: u64) -> Box<dyn Strategy> {
        match self {
            StrategyKind::Exhaustive => Box::new(exhaustive::Exhaustive::new()),
            StrategyKind::Bounded(switches) => Box::new(bounded::Bounded::new(switches)),
            StrategyKind::Random => Box::new(random::RandomWalk::new(seed)),
            StrategyKind::Pct(depth) => Box::new(pct::Pct::new(depth, seed)),
        }
    }
}

impl fmt::Display for StrategyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StrategyKind::Exhaustive => f.write_str("exhaustive"),
            StrategyKind::Bounded(switches) => write!(f, "bounded-{switches}"),
            StrategyKind::Random => f.write_str("random"),
            StrategyKind::Pct(depth) => write!(f, "pct-{depth}"),
        }
    }
}

impl FromStr for StrategyKind {
    type Err = ExplorerError;

    fn from_str(text: &str) -> Result<StrategyKind, ExplorerError> {
        let unknown = || ExplorerError::UnknownStrategy(text.to_owned());
        let (name, number) = match text.split_once('-') {
            Some((name, number)) => (name, Some(number.parse::<u32>().map_err(|_| unknown())?)),
            None => (text, None),
        };
        match (name, number) {
            ("exhaustive", None) => Ok(StrategyKind::Exhaustive),
            ("bounded", switches) => Ok(StrategyKind::Bounded(switches.unwrap_or(2))),
            ("random", None) => Ok(StrategyKind::Random),
            ("pct", None) => Ok(StrategyKind::Pct(3)),
            ("pct", Some(depth)) if (1..=1000).contains(&depth) => Ok(StrategyKind::Pct(depth)),
            _ => Err(unknown()),
        }
    }
}

/// How a run that need not be continued gets to its end. The machine finishes every run. The moving
/// agent goes on, since that is fastest, until it seems to poll; then all agents take turns.
#[derive(Default)]
pub(crate) struct Finish {
    taken: usize,
}

/// Choices before all take turns.
const PATIENCE: usize = 4096;

impl Finish {
    pub(crate) fn restart(&mut self) {
        self.taken = 0;
    }

    pub(crate) fn choose(&mut self, point: &Point<'_>) -> usize {
        self.taken += 1;
        if self.taken < PATIENCE { 0 } else { self.taken % point.choices.len() }
    }
}
