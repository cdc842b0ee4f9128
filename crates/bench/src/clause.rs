//! What a clause of a goal is, and what a run says of it.

use serde::{Deserialize, Serialize};
use std::fmt;
use tidegate_measure::time;

/// A figure of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    /// The median of a row.
    Median(&'static str),
    P99(&'static str),
    /// A further figure of a row.
    Figure(&'static str, &'static str),
    /// A count of a row, summed over all passes.
    Count(&'static str, &'static str),
    /// The floor of a row.
    Floor(&'static str),
    /// A measurement of a peer beside a row.
    Peer(&'static str, &'static str),
    /// Nanoseconds.
    Ns(f64),
    /// A number without a unit.
    One,
    /// The first over the second: growth.
    Growth(&'static Value, &'static Value),
    /// The larger one.
    More(&'static Value, &'static Value),
    /// A multiple of the value.
    Times(f64, &'static Value),
    Sum(&'static Value, &'static Value),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Median(row) => f.write_str(row),
            Value::P99(row) => write!(f, "p99 of {row}"),
            Value::Figure(row, name) | Value::Count(row, name) => write!(f, "{row}: {name}"),
            Value::Floor(row) => write!(f, "floor of {row}"),
            Value::Peer(_, key) => f.write_str(key),
            Value::Ns(ns) => f.write_str(&time(*ns)),
            Value::One => f.write_str("1"),
            Value::Growth(large, small) => write!(f, "{large} / {small}"),
            Value::More(a, b) => write!(f, "the larger of {a} and {b}"),
            Value::Times(times, value) => write!(f, "{times} x {value}"),
            Value::Sum(a, b) => write!(f, "{a} + {b}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sense {
    AtMost,
    AtLeast,
}

/// A clause of a goal.
pub(crate) struct Clause {
    pub(crate) id: &'static str,
    pub(crate) text: &'static str,
    pub(crate) figure: Value,
    pub(crate) against: Value,
    pub(crate) sense: Sense,
    pub(crate) limit: f64,
    /// Beyond the goal: a miss is not a miss of the goal.
    pub(crate) is_stretch: bool,
    /// Counts that the clause needs at least, summed over all passes.
    pub(crate) needs: Option<(Value, f64)>,
    /// Why nothing can be measured yet.
    pub(crate) later: Option<&'static str>,
}

/// A clause as the JSON has it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct GoalResult {
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) row: String,
    pub(crate) against: String,
    /// Of the median pass; `None` if it is not measured.
    pub(crate) ratio: Option<f64>,
    /// The smallest and the largest ratio of the passes. JSON has no infinite number: a figure that
    /// was measured as 0 makes a ratio without one.
    pub(crate) spread: Option<[Option<f64>; 2]>,
    pub(crate) sense: String,
    pub(crate) limit: f64,
    pub(crate) met: Option<bool>,
    pub(crate) stretch: bool,
    /// Why it is not measured.
    pub(crate) note: Option<String>,
}
