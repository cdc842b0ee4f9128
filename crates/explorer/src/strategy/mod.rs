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
mod kind;
pub mod pct;
pub mod random;
pub mod replay;

pub use kind::StrategyKind;

use std::fmt;
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

/// What a search covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Every state that can be reached.
    Everything,
    /// Every state that can be reached with at most so many forced switches.
    UpToSwitches(u32),
    /// Samples.
    Sampled,
    /// The search ended at a failure or a limit before its strategy was through.
    CutShort,
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Coverage::Everything => f.write_str("exhausted"),
            Coverage::UpToSwitches(switches) => {
                write!(f, "exhausted up to {switches} forced switches")
            }
            Coverage::Sampled => f.write_str("sampled"),
            Coverage::CutShort => f.write_str("cut short"),
        }
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
