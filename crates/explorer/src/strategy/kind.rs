//! Names of strategies, as used in schedules and on the command line.

use super::{Strategy, bounded, exhaustive, pct, random};
use crate::error::ExplorerError;
use std::fmt;
use std::str::FromStr;

/// A strategy's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrategyKind {
    /// Everything, depth first.
    Exhaustive,
    /// Up to this number of forced switches, fewest first.
    Bounded(u32),
    /// A random walk.
    Random,
    /// Probabilistic concurrency testing for bugs of this depth (at least 1).
    Pct(u32),
}

impl StrategyKind {
    /// Returns a strategy of this kind. `seed` is used by the random ones.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_strategy_has_a_name_that_is_read_again_and_numbers_have_defaults() {
        let kinds = [
            ("exhaustive", StrategyKind::Exhaustive, "exhaustive"),
            ("bounded", StrategyKind::Bounded(2), "bounded-2"),
            ("bounded-0", StrategyKind::Bounded(0), "bounded-0"),
            ("random", StrategyKind::Random, "random"),
            ("pct", StrategyKind::Pct(3), "pct-3"),
            ("pct-1", StrategyKind::Pct(1), "pct-1"),
            ("pct-1000", StrategyKind::Pct(1000), "pct-1000"),
        ];
        for (text, kind, name) in kinds {
            assert_eq!(text.parse::<StrategyKind>().expect(text), kind);
            assert_eq!((kind.to_string(), name.parse().ok()), (name.to_owned(), Some(kind)));
        }
        for text in ["", "pct-0", "pct-1001", "pct-", "random-1", "exhaustive-1", "bounded-x"] {
            assert!(text.parse::<StrategyKind>().is_err(), "{text}");
        }
    }
}
