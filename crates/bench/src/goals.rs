//! The clauses of the performance goals, computed from the rows of one run.
//!
//! - A clause compares two figures of the same pass; of all passes the median ratio counts.
//! - `at most`: the ratio is the figure over what it is compared with. `at least`: the reverse, so
//!   the ratio says how many times better the figure is.
//! - A clause without a figure on either side is not measured, and is neither met nor missed.
//!
//! The table is `clauses`.

use crate::clause::{Clause, GoalResult, Sense, Value};
use crate::clauses::CLAUSES;
use crate::results::Taken;
use tidegate_measure::Pass;

/// What a figure that was measured as 0 counts as, in nanoseconds or as a count: less than the
/// clock can tell.
const LEAST: f64 = 0.01;

/// Computes all clauses.
pub(crate) fn goals(rows: &[Taken]) -> Vec<GoalResult> {
    let run = Run(rows);
    CLAUSES.iter().map(|clause| run.result(clause)).collect()
}

/// What a run measured, by the names of its rows.
struct Run<'a>(&'a [Taken]);

impl Run<'_> {
    fn taken(&self, name: &str) -> Result<&Taken, String> {
        let row = self.0.iter().find(|taken| taken.finished.row().name == name);
        row.ok_or_else(|| format!("not measured: row {name} is not in this run"))
    }

    fn pass(&self, name: &str, pass: usize) -> Result<&Pass, String> {
        Ok(&self.taken(name)?.finished.passes()[pass])
    }

    fn figure(&self, value: &Value, pass: usize) -> Result<f64, String> {
        let of = |value: &Value| self.figure(value, pass);
        match *value {
            Value::Median(row) => Ok(self.pass(row, pass)?.row.samples.median()),
            Value::P99(row) => Ok(self.pass(row, pass)?.row.samples.p99()),
            Value::Floor(row) => Ok(self.pass(row, pass)?.floor.median()),
            Value::Figure(row, name) => {
                let figures = &self.pass(row, pass)?.row.figures;
                let found = figures.iter().find(|(figure, _)| *figure == name);
                found.map(|(_, figure)| *figure).ok_or_else(|| format!("not measured: {value}"))
            }
            Value::Count(row, name) => {
                let counts = self.taken(row)?.finished.counts();
                let found: Vec<u64> =
                    counts.filter(|count| count.name == name).map(|count| count.value).collect();
                match found.is_empty() {
                    true => Err(format!("not measured: {row} counts no '{name}'")),
                    false => Ok(found.iter().sum::<u64>() as f64),
                }
            }
            Value::Peer(row, key) => {
                let measured = self.taken(row)?.peer(key, pass);
                let measured = measured.ok_or_else(|| format!("not measured: no peer's {key}"))?;
                Ok(measured.samples.median())
            }
            Value::Ns(ns) => Ok(ns),
            Value::One => Ok(1.0),
            Value::Growth(large, small) => Ok(of(large)? / of(small)?.max(LEAST)),
            Value::More(a, b) => Ok(of(a)?.max(of(b)?)),
            Value::Times(times, value) => Ok(times * of(value)?),
            Value::Sum(a, b) => Ok(of(a)? + of(b)?),
        }
    }

    fn ratios(&self, clause: &Clause) -> Result<Vec<f64>, String> {
        if let Some(later) = clause.later {
            return Err(format!("not measured: {later}"));
        }
        let passes = self.0.first().map_or(0, |taken| taken.finished.passes().len());
        let mut ratios = Vec::new();
        for pass in 0..passes {
            let (figure, against) =
                (self.figure(&clause.figure, pass)?, self.figure(&clause.against, pass)?);
            let (over, under) = match clause.sense {
                Sense::AtMost => (figure, against),
                Sense::AtLeast => (against, figure),
            };
            ratios.push(over / under.max(LEAST));
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
    fn result(&self, clause: &Clause) -> GoalResult {
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
            id: clause.id.to_owned(),
            text: clause.text.to_owned(),
            row: clause.figure.to_string(),
            against: clause.against.to_string(),
            ratio,
            spread: ratios.map(|ratios| [Some(ratios[0]), ratios.last().copied()]),
            sense: sense.to_owned(),
            limit: clause.limit,
            met: ratio.map(|ratio| is_met(ratio, clause.limit)),
            stretch: clause.is_stretch,
            note,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::PeerMeasured;
    use crate::rows::all_rows;
    use tidegate_measure::Finished;

    /// The first row with passes of these times and floors, each beside its first peer.
    fn taken(passes: &[(f64, f64)], peer_ns: Option<f64>) -> [Taken; 1] {
        let pass = |(row_ns, floor_ns): &(f64, f64)| {
            let mut pass = Pass::default();
            pass.row.samples.push(*row_ns);
            pass.floor.push(*floor_ns);
            pass
        };
        let beside = peer_ns.map(|ns| {
            let mut measured = PeerMeasured::default();
            measured.samples.push(ns);
            measured
        });
        let aimed = all_rows().next().unwrap();
        let finished = Finished::new(&aimed.row, passes.iter().map(pass).collect()).unwrap();
        [Taken { aimed, finished, peers: vec![vec![beside]; passes.len()] }]
    }

    #[test]
    fn a_clause_takes_the_median_of_the_ratios_of_the_same_passes() {
        let goals = goals(&taken(&[(300.0, 100.0), (1_000.0, 1_000.0), (160.0, 100.0)], None));
        let goal = |id: &str| goals.iter().find(|goal| goal.id == id).unwrap();
        let doorbell = goal("1a");
        assert_eq!((doorbell.ratio, doorbell.spread), (Some(1.6), Some([Some(1.0), Some(3.0)])));
        assert_eq!(doorbell.met, Some(false));
        assert_eq!(goal("1b").met, Some(true));
        let lavapipe = goal("1c").note.as_ref().unwrap();
        assert!(lavapipe.contains("no peer's submit_wait"), "{lavapipe}");
        assert!(goal("4a").note.as_ref().unwrap().contains("row chain_1000000"), "{goals:?}");
    }

    #[test]
    fn a_clause_compares_with_a_peer() {
        let goals = goals(&taken(&[(100.0, 100.0)], Some(700.0)));
        let lavapipe = goals.iter().find(|goal| goal.id == "1c").unwrap();
        assert_eq!((lavapipe.ratio, lavapipe.met), (Some(7.0), Some(true)));
    }
}
