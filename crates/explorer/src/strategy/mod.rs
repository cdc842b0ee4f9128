//! Strategies choose the next agent. Each room's header states its guarantee.
//!
//! | strategy | room | guarantee |
//! |---|---|---|
//! | `exhaustive` | [`exhaustive`] | every reachable state |
//! | `bounded-N` | [`bounded`] | every schedule with at most N forced switches |
//! | `random` | [`random`] | none, but every schedule has a probability above 0 |
//! | `pct-N` | [`pct`] | a bug of depth N with a probability of at least 1/(n k^(N-1)) per run |
//! | a given schedule | [`replay`] | exactly that run |

pub mod bounded;
pub mod exhaustive;
mod kind;
pub mod pct;
pub mod random;
pub mod replay;

pub use kind::StrategyKind;

use std::fmt;
use tidegate_platform::Point;

/// Makes the choices of consecutive runs.
pub trait Strategy {
    /// Called before each run. Returns `false` if the search is complete.
    fn begin(&mut self) -> bool;

    /// Restarts the search, because the set of choices has changed. A strategy without memory
    /// simply continues.
    fn restart(&mut self) {}

    /// Returns an index into `point.choices`. An index out of range counts as 0.
    fn choose(&mut self, point: &Point<'_>) -> usize;

    /// Chooses as [`Strategy::choose`] does, in the search of one group of agents that share
    /// nothing with other agents. The choices are the group's.
    fn choose_in(&mut self, _group: usize, point: &Point<'_>) -> usize {
        self.choose(point)
    }

    /// Whether the strategy searches groups of agents that share nothing at the same time.
    fn searches_groups(&self) -> bool {
        false
    }

    /// Returns the number of its nodes on the way of the coming run in this group. The run repeats
    /// the previous one up to the last of these nodes, where the strategy chooses next. `None` if
    /// runs do not build on each other.
    fn resumes_at(&self, _group: usize) -> Option<usize> {
        None
    }

    /// Whether the rest of the run only finishes it in this group.
    fn is_finishing(&self, _group: usize) -> bool {
        false
    }

    /// Whether the strategy counts switches between agents. Then only commuting steps are skipped.
    fn counts_switches(&self) -> bool {
        false
    }

    /// Returns the number of distinct states seen; 0 if they are not counted.
    fn states(&self) -> u64 {
        0
    }

    /// Returns the coverage after [`Strategy::begin`] has returned `false`.
    fn coverage(&self) -> Coverage {
        Coverage::Sampled
    }

    /// Returns the index of the first choice at which a run diverged from an earlier one.
    fn diverged_at(&self) -> Option<u64> {
        None
    }
}

/// The coverage of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Every reachable state.
    Everything,
    /// Every state reachable with at most this number of forced switches.
    UpToSwitches(u32),
    /// Samples.
    Sampled,
    /// The search ended at a failure or a limit.
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
    fn choose_in(&mut self, group: usize, point: &Point<'_>) -> usize {
        (**self).choose_in(group, point)
    }
    fn searches_groups(&self) -> bool {
        (**self).searches_groups()
    }
    fn resumes_at(&self, group: usize) -> Option<usize> {
        (**self).resumes_at(group)
    }
    fn is_finishing(&self, group: usize) -> bool {
        (**self).is_finishing(group)
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
    fn diverged_at(&self) -> Option<u64> {
        (**self).diverged_at()
    }
}

/// Finishes a run that need not be explored further, because the machine must run to its end. The
/// current agent continues, which is fastest, until it seems to poll. Then all agents take turns.
#[derive(Default)]
pub(crate) struct Finish {
    taken: usize,
}

/// Number of choices before all agents take turns.
const POLL_LIMIT: usize = 4096;

impl Finish {
    pub(crate) fn restart(&mut self) {
        self.taken = 0;
    }

    pub(crate) fn choose(&mut self, point: &Point<'_>) -> usize {
        self.taken += 1;
        if self.taken < POLL_LIMIT { 0 } else { self.taken % point.choices.len() }
    }
}
