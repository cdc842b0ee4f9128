//! Results of rows as text and as JSON: the pass with the median ratio to its floor.

use crate::measure::{Count, Found, Measured, Samples, own, time};
use crate::others::Others;
use crate::row::{Row, Scale, Unit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One pass of one row, with the floor that was measured just before it.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    /// The row.
    pub row: Measured,
    /// Its floor.
    pub floor: Samples,
    /// The share of all processors that other programs used.
    pub foreign_share: f64,
}

impl Pass {
    /// The row in times of its floor.
    pub fn ratio(&self) -> f64 {
        self.row.samples.median() / self.floor.median().max(f64::MIN_POSITIVE)
    }
}

impl Row {
    /// Measures the floor, then the row.
    ///
    /// # Errors
    /// Why there is no figure, after the row's name.
    pub fn pass(&self, scale: Scale) -> Found<Pass> {
        let measure = self.measure;
        let others = Others::start();
        let named = |trouble| format!("{}: {trouble}", self.name);
        let floor = own(self.floor.measure).map_err(named)?;
        let row = own(move || measure(scale)).map_err(named)?;
        Ok(Pass { floor, row, foreign_share: others.share() })
    }
}

/// Returns the rows that a filter means: the one of that name, or those whose name contains it.
///
/// # Errors
/// A filter that means no row, with the names of all.
pub fn choose<'r>(
    rows: impl Iterator<Item = &'r Row> + Clone,
    filter: &str,
) -> Result<Vec<&'r Row>, String> {
    if let Some(row) = rows.clone().find(|row| row.name == filter) {
        return Ok(vec![row]);
    }
    let wanted: Vec<&Row> = rows.clone().filter(|row| row.name.contains(filter)).collect();
    if wanted.is_empty() {
        let names: Vec<&str> = rows.map(|row| row.name).collect();
        return Err(format!("no row's name contains '{filter}'; rows: {}", names.join(", ")));
    }
    Ok(wanted)
}

/// A row with all its passes, in their order.
pub struct Finished<'r> {
    row: &'r Row,
    passes: Vec<Pass>,
    /// The pass with the median ratio.
    median: usize,
}

impl<'r> Finished<'r> {
    /// `None` without a pass.
    pub fn new(row: &'r Row, passes: Vec<Pass>) -> Option<Finished<'r>> {
        let mut order: Vec<usize> = (0..passes.len()).collect();
        order.sort_by(|a, b| passes[*a].ratio().total_cmp(&passes[*b].ratio()));
        let median = *order.get(order.len() / 2)?;
        Some(Finished { row, passes, median })
    }

    /// The row that was measured.
    pub fn row(&self) -> &'r Row {
        self.row
    }

    /// All passes, in the order of the run.
    pub fn passes(&self) -> &[Pass] {
        &self.passes
    }

    /// The pass that counts.
    pub fn median_pass(&self) -> &Pass {
        &self.passes[self.median]
    }

    /// The counts of all passes, pass by pass.
    pub fn counts(&self) -> impl Iterator<Item = &Count> {
        self.passes.iter().flat_map(|pass| &pass.row.counts)
    }

    /// A sentence for each count that differs from its only right value, in any pass.
    pub fn wrong_counts(&self) -> Vec<String> {
        let wrong = self.counts().filter(|count| !count.is_right());
        let sentence = |count: &Count| {
            let right = count.must_be.unwrap_or_default();
            format!("{}: {} {}, must be {right}", self.row.name, count.value, count.name)
        };
        wrong.map(sentence).collect()
    }

    /// What was counted, and what there is to say; empty if there is nothing.
    pub fn remark(&self) -> String {
        let row = &self.median_pass().row;
        let counts = row.counts.iter().map(|count| format!("{} {}", count.value, count.name));
        counts.chain(row.note.clone()).collect::<Vec<_>>().join(", ")
    }

    /// The figures as tables have them.
    pub fn shown(&self) -> Shown {
        let pass = self.median_pass();
        let figure = |ns: f64| match self.row.unit {
            Unit::Time => time(ns),
            Unit::Rate => rate(1e9 / ns),
        };
        Shown {
            median: figure(pass.row.samples.median()),
            p99: figure(pass.row.samples.p99()),
            floor: figure(pass.floor.median()),
            ratio: format!("{:.2}x", pass.ratio()),
        }
    }

    /// The results as JSON has them.
    pub fn result(&self) -> RowResult {
        let (row, pass) = (self.row, self.median_pass());
        let of_all = |of: fn(&Pass) -> f64, take: fn(f64, f64) -> f64, first| {
            self.passes.iter().map(of).fold(first, take)
        };
        RowResult {
            name: row.name.to_owned(),
            about: row.about.to_owned(),
            shown: self.shown(),
            median_ns: pass.row.samples.median(),
            p99_ns: pass.row.samples.p99(),
            per_second: 1e9 / pass.row.samples.median(),
            cpu_ns: pass.row.cpu_ns,
            floor: FloorResult {
                name: row.floor.name.to_owned(),
                median_ns: pass.floor.median(),
                p99_ns: pass.floor.p99(),
            },
            ratio: pass.ratio(),
            spread: [
                of_all(Pass::ratio, f64::min, f64::INFINITY),
                of_all(Pass::ratio, f64::max, 0.0),
            ],
            counts: pass.row.counts.iter().map(|c| (c.name.to_owned(), c.value)).collect(),
            figures: pass.row.figures.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect(),
            note: pass.row.note.clone(),
            foreign_share: of_all(|pass| pass.foreign_share, f64::max, 0.0),
            passes: self.passes.iter().map(PassResult::of).collect(),
        }
    }
}

/// Operations in a second, with a unit.
pub fn rate(per_second: f64) -> String {
    match per_second {
        1e6.. => format!("{:.2} M/s", per_second / 1e6),
        1e3.. => format!("{:.1} k/s", per_second / 1e3),
        _ => format!("{per_second:.1} /s"),
    }
}

/// A row as JSON has it: the pass with the median ratio, and a line for each pass.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[expect(missing_docs, reason = "the names of the JSON say what they are")]
pub struct RowResult {
    pub name: String,
    pub about: String,
    pub shown: Shown,
    pub median_ns: f64,
    pub p99_ns: f64,
    pub per_second: f64,
    /// CPU time of the process for one operation.
    pub cpu_ns: f64,
    pub floor: FloorResult,
    pub ratio: f64,
    /// The smallest and the largest ratio of the passes.
    pub spread: [f64; 2],
    pub counts: BTreeMap<String, u64>,
    pub figures: BTreeMap<String, f64>,
    pub note: Option<String>,
    /// The share of all processors that other programs used; the most of all passes.
    pub foreign_share: f64,
    pub passes: Vec<PassResult>,
}

/// Figures of a row as tables have them.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[expect(missing_docs, reason = "the names of the JSON say what they are")]
pub struct Shown {
    pub median: String,
    pub p99: String,
    pub floor: String,
    pub ratio: String,
}

/// The floor of a row.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[expect(missing_docs, reason = "the names of the JSON say what they are")]
pub struct FloorResult {
    pub name: String,
    pub median_ns: f64,
    pub p99_ns: f64,
}

/// One pass.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[expect(missing_docs, reason = "the names of the JSON say what they are")]
pub struct PassResult {
    pub median_ns: f64,
    pub floor_ns: f64,
    pub ratio: f64,
    pub foreign_share: f64,
}

impl PassResult {
    fn of(pass: &Pass) -> PassResult {
        PassResult {
            median_ns: pass.row.samples.median(),
            floor_ns: pass.floor.median(),
            ratio: pass.ratio(),
            foreign_share: pass.foreign_share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::ROWS;

    fn pass(row_ns: f64, floor_ns: f64) -> Pass {
        let mut pass = Pass::default();
        pass.row.samples.push(row_ns);
        pass.floor.push(floor_ns);
        pass
    }

    #[test]
    fn the_median_pass_is_chosen_by_its_ratio() {
        let passes = vec![pass(300.0, 100.0), pass(1_000.0, 1_000.0), pass(200.0, 100.0)];
        let finished = Finished::new(&ROWS[0], passes).unwrap();
        assert_eq!((finished.median_pass().ratio(), finished.result().spread), (2.0, [1.0, 3.0]));
        let result = finished.result();
        assert_eq!((result.median_ns, result.per_second, result.ratio), (200.0, 5e6, 2.0));
        assert!(Finished::new(&ROWS[0], Vec::new()).is_none());
    }

    #[test]
    fn a_count_that_must_not_happen_is_wrong_in_any_pass() {
        let mut bad = pass(900.0, 100.0);
        bad.row.counts.push(Count::exactly("interrupts", 1, 0));
        let passes = vec![pass(100.0, 100.0), bad, pass(100.0, 100.0)];
        let wrong = Finished::new(&ROWS[0], passes).unwrap().wrong_counts();
        assert_eq!(wrong, [format!("{}: 1 interrupts, must be 0", ROWS[0].name)]);
    }

    #[test]
    fn figures_have_units() {
        assert_eq!([time(7.04), time(370.4), time(12_340.0)], ["7.0 ns", "370 ns", "12.34 µs"]);
        assert_eq!([rate(2.5e6), rate(50_400.0), rate(12.0)], ["2.50 M/s", "50.4 k/s", "12.0 /s"]);
    }

    #[test]
    fn rows_are_chosen_by_a_part_of_their_name() {
        let names = |filter| choose(ROWS.iter(), filter).map(|rows| rows.len());
        assert_eq!(
            (names(""), names("submissions_"), names("wake_parked_thread")),
            (Ok(8), Ok(3), Ok(1))
        );
        assert!(names("nothing of this name").unwrap_err().contains("import_kineto"));
    }
}
