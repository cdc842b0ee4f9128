//! The clauses of the performance goals, computed from the rows of one run.
//!
//! - A clause compares two figures of the same pass; of all passes the median ratio counts.
//! - `at most`: the ratio is the figure over what it is compared with. `at least`: the reverse, so
//!   the ratio says how many times better the figure is.
//! - A clause without a figure on either side is not measured, and is neither met nor missed.
//!
//! The table is `clauses`.

use super::report::{Finished, time};
use serde::Serialize;
use std::fmt;

/// A figure of a run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    /// The median of a row.
    Median(&'static str),
    P99(&'static str),
    /// CPU time of the process for one operation of a row.
    Cpu(&'static str),
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
    /// So many times the value.
    Times(f64, &'static Value),
    Sum(&'static Value, &'static Value),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Median(row) => f.write_str(row),
            Value::P99(row) => write!(f, "p99 of {row}"),
            Value::Cpu(row) => write!(f, "CPU time of {row}"),
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
pub(super) enum Sense {
    AtMost,
    AtLeast,
}

/// A clause of a goal.
pub(super) struct Clause {
    pub(super) id: &'static str,
    pub(super) text: &'static str,
    pub(super) figure: Value,
    pub(super) against: Value,
    pub(super) sense: Sense,
    pub(super) limit: f64,
    /// Beyond the goal: a miss is no miss of the goal.
    pub(super) is_stretch: bool,
    /// Counts that the clause needs at least, summed over all passes.
    pub(super) needs: Option<(Value, f64)>,
    /// Why nothing can be measured yet.
    pub(super) later: Option<&'static str>,
}

/// A clause as the JSON has it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct GoalResult {
    pub(super) id: &'static str,
    pub(super) text: &'static str,
    row: String,
    against: String,
    /// Of the median pass; `None` if it is not measured.
    pub(super) ratio: Option<f64>,
    /// The smallest and the largest ratio of the passes.
    pub(super) spread: Option<[f64; 2]>,
    pub(super) sense: &'static str,
    pub(super) limit: f64,
    pub(super) met: Option<bool>,
    stretch: bool,
    /// Why it is not measured.
    pub(super) note: Option<String>,
}

/// What a run measured, by the names of its rows.
pub(super) struct Run<'a>(pub(super) &'a [Finished]);

impl Run<'_> {
    fn row(&self, name: &str) -> Result<&Finished, String> {
        let row = self.0.iter().find(|row| row.name() == name);
        row.ok_or_else(|| format!("not measured: row {name} is not in this run"))
    }

    fn figure(&self, value: &Value, pass: usize) -> Result<f64, String> {
        let of = |value: &Value| self.figure(value, pass);
        match *value {
            Value::Median(row) => Ok(self.row(row)?.pass(pass).row.samples.median()),
            Value::P99(row) => Ok(self.row(row)?.pass(pass).row.samples.p99()),
            Value::Cpu(row) => Ok(self.row(row)?.pass(pass).row.cpu_ns),
            Value::Floor(row) => Ok(self.row(row)?.pass(pass).floor.median()),
            Value::Figure(row, name) => {
                let figures = &self.row(row)?.pass(pass).row.figures;
                let found = figures.iter().find(|(figure, _)| *figure == name);
                found.map(|(_, figure)| *figure).ok_or_else(|| format!("not measured: {value}"))
            }
            Value::Count(row, name) => self.row(row)?.sum_of(name).map(|sum| sum as f64),
            Value::Peer(row, key) => self.row(row)?.peer_ns(key, pass),
            Value::Ns(ns) => Ok(ns),
            Value::One => Ok(1.0),
            Value::Growth(large, small) => Ok(of(large)? / of(small)?.max(f64::MIN_POSITIVE)),
            Value::More(a, b) => Ok(of(a)?.max(of(b)?)),
            Value::Times(times, value) => Ok(times * of(value)?),
            Value::Sum(a, b) => Ok(of(a)? + of(b)?),
        }
    }

    fn ratios(&self, clause: &Clause) -> Result<Vec<f64>, String> {
        if let Some(later) = clause.later {
            return Err(format!("not measured: {later}"));
        }
        let passes = self.0.first().map_or(0, Finished::passes);
        let mut ratios = Vec::new();
        for pass in 0..passes {
            let (figure, against) =
                (self.figure(&clause.figure, pass)?, self.figure(&clause.against, pass)?);
            let (over, under) = match clause.sense {
                Sense::AtMost => (figure, against),
                Sense::AtLeast => (against, figure),
            };
            ratios.push(over / under.max(f64::MIN_POSITIVE));
        }
        if ratios.is_empty() {
            return Err("not measured: no pass".to_owned());
        }
        if let Some((count, least)) = clause.needs {
            let counted = self.figure(&count, 0)?;
            if counted < least {
                return Err(format!("not measured: {count} {counted}, needs {least}: more passes"));
            }
        }
        ratios.sort_by(f64::total_cmp);
        Ok(ratios)
    }

    /// Computes a clause.
    pub(super) fn result(&self, clause: &Clause) -> GoalResult {
        let (ratios, note) = match self.ratios(clause) {
            Ok(ratios) => (Some(ratios), None),
            Err(note) => (None, Some(note)),
        };
        let ratio = ratios.as_ref().map(|ratios| ratios[ratios.len() / 2]);
        let (sense, is_met): (_, fn(f64, f64) -> bool) = match clause.sense {
            Sense::AtMost => ("at most", |ratio, limit| ratio <= limit),
            Sense::AtLeast => ("at least", |ratio, limit| ratio >= limit),
        };
        GoalResult {
            id: clause.id,
            text: clause.text,
            row: clause.figure.to_string(),
            against: clause.against.to_string(),
            ratio,
            spread: ratios.map(|ratios| [ratios[0], ratios[ratios.len() - 1]]),
            sense,
            limit: clause.limit,
            met: ratio.map(|ratio| is_met(ratio, clause.limit)),
            stretch: clause.is_stretch,
            note,
        }
    }
}
