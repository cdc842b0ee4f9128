//! Results of the rows: the median pass by its ratio to the floor of the same pass, as a table and
//! as JSON. `docs/performance.json` is such a JSON; `cargo xtask performance` reads it.

use super::measure::{Count, Measured, Samples};
use super::peer::PeerMeasured;
use super::rows::{Counterpart, Goal, Row, Unit};
use crate::tables;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use std::collections::BTreeMap;

/// One pass of one row, with the floor that was measured just before it and the peer just behind.
pub(super) struct Pass {
    pub(super) row: Measured,
    pub(super) floor: Samples,
    pub(super) peer: Option<PeerMeasured>,
}

impl Pass {
    fn ratio(&self) -> f64 {
        self.row.samples.median() / self.floor.median().max(f64::MIN_POSITIVE)
    }
}

/// A row with all its passes; in order of their ratios.
pub(super) struct Finished {
    row: &'static Row,
    passes: Vec<Pass>,
}

/// How far a row is from its goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Met,
    /// Missed, by less than three times.
    Near,
    Far,
    /// Something was counted that must not happen.
    Wrong,
}

impl Verdict {
    /// From the factor by which the goal is missed.
    fn of(off: f64) -> Verdict {
        match off {
            ..=1.0 => Verdict::Met,
            ..=3.0 => Verdict::Near,
            _ => Verdict::Far,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Near => "within 3x",
            Verdict::Far => "off: docs/performance.md",
            Verdict::Wrong => "WRONG",
        }
    }
}

impl Finished {
    /// `None` without a pass.
    pub(super) fn new(row: &'static Row, mut passes: Vec<Pass>) -> Option<Finished> {
        passes.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
        (!passes.is_empty()).then_some(Finished { row, passes })
    }

    fn median_pass(&self) -> &Pass {
        &self.passes[self.passes.len() / 2]
    }

    /// Counts that have another value than the only right one, in any pass.
    pub(super) fn wrong_counts(&self) -> Vec<Count> {
        let all = self.passes.iter().flat_map(|p| &p.row.counts);
        all.filter(|count| !count.is_right()).copied().collect()
    }

    pub(super) fn name(&self) -> &'static str {
        self.row.name
    }

    /// The peer's figures of the pass that counts.
    fn peer(&self) -> Option<PeerResult> {
        let Some(Counterpart::Call { name, .. }) = self.row.peer else { return None };
        let pass = self.median_pass();
        let peer = pass.peer.as_ref()?;
        let median_ns = peer.samples.median();
        Some(PeerResult {
            calls: name,
            median_ns,
            p99_ns: peer.samples.p99(),
            times_faster: median_ns / pass.row.samples.median().max(f64::MIN_POSITIVE),
            bytes_each: peer.bytes_each,
        })
    }

    /// How many times worse than the goal; at most 1 is met.
    fn off(&self) -> f64 {
        let pass = self.median_pass();
        match self.row.goal {
            Goal::TimesFloor(times) => pass.ratio() / times,
            Goal::TimesFloorOr(times, ns) => {
                pass.row.samples.median() / (times * pass.floor.median()).max(ns)
            }
            Goal::PerSecond(rate) => pass.row.samples.median() * rate / 1e9,
        }
    }

    fn verdict(&self) -> Verdict {
        if self.wrong_counts().is_empty() { Verdict::of(self.off()) } else { Verdict::Wrong }
    }

    fn shown(&self, ns: f64) -> String {
        match self.row.unit {
            Unit::Time => time(ns),
            Unit::Rate => rate(1e9 / ns),
        }
    }

    fn cells(&self) -> Shown {
        let pass = self.median_pass();
        Shown {
            median: self.shown(pass.row.samples.median()),
            p99: self.shown(pass.row.samples.p99()),
            floor: self.shown(pass.floor.median()),
            ratio: format!("{:.2}x", pass.ratio()),
            goal: self.goal(),
        }
    }

    fn goal(&self) -> String {
        match self.row.goal {
            Goal::TimesFloor(times) => format!("≤ {times}x"),
            Goal::TimesFloorOr(times, ns) => format!("≤ {times}x or {}", time(ns)),
            Goal::PerSecond(at_least) => format!("≥ {}", rate(at_least)),
        }
    }
}

/// Nanoseconds with a unit.
fn time(ns: f64) -> String {
    match ns {
        ..1_000.0 if ns < 100.0 => format!("{ns:.1} ns"),
        _ => tidegate::trace::duration(ns.round() as u64),
    }
}

fn rate(per_second: f64) -> String {
    match per_second {
        1e6.. => format!("{:.2} M/s", per_second / 1e6),
        1e3.. => format!("{:.1} k/s", per_second / 1e3),
        _ => format!("{per_second:.1} /s"),
    }
}

/// One line for each row.
pub(super) fn table(rows: &[Finished]) -> Table {
    let mut table =
        tables::table(["row", "median", "p99", "floor", "", "ratio", "goal", "verdict"]);
    for finished in rows {
        let Shown { median, p99, floor, ratio, goal } = finished.cells();
        let (name, floor_name) = (finished.name().to_owned(), finished.row.floor.name.to_owned());
        let verdict = finished.verdict().words().to_owned();
        table.add_row([name, median, p99, floor_name, floor, ratio, goal, verdict]);
    }
    for column in [1, 2, 4, 5, 6] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// The rows that have a counterpart, beside it. The pass is that of [`table`].
pub(super) fn peer_table(rows: &[Finished]) -> Table {
    let mut table = tables::table(["row", "median", "calls of the peer", "median", "row is"]);
    for finished in rows {
        let Some(counterpart) = finished.row.peer else { continue };
        let median = finished.cells().median;
        let cells = match (counterpart, finished.peer()) {
            (Counterpart::Call { name, .. }, Some(PeerResult { median_ns, .. })) => {
                let speed = finished.peer().map_or_else(String::new, |peer| peer.shown());
                [finished.name().to_owned(), median, name.to_owned(), time(median_ns), speed]
            }
            (Counterpart::None(why), _) => {
                [finished.name().to_owned(), median, format!("none: {why}"), "".into(), "".into()]
            }
            _ => continue,
        };
        table.add_row(cells);
    }
    for column in [1, 3, 4] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// What was counted, and what there is to say: one paragraph for each row.
pub(super) fn remarks(rows: &[Finished]) -> String {
    let mut text = String::new();
    for finished in rows {
        let pass = finished.median_pass();
        let counts = pass.row.counts.iter().map(|c| format!("{} {}", c.value, c.name));
        let said: Vec<String> = counts.chain(pass.row.note.clone()).collect();
        if !said.is_empty() {
            text += &format!("  {}: {}\n", finished.name(), said.join(", "));
        }
    }
    text
}

/// The JSON form of everything.
#[derive(Serialize)]
pub(super) struct Results {
    /// Processor and kernel.
    machine: String,
    passes: u32,
    /// The peer that was measured beside the rows.
    peer: Option<String>,
    right: bool,
    rows: Vec<RowResult>,
}

/// The same calls of the peer.
#[derive(Serialize)]
struct PeerResult {
    calls: &'static str,
    median_ns: f64,
    p99_ns: f64,
    /// The peer's time in times of the row's.
    times_faster: f64,
    bytes_each: Option<u64>,
}

impl PeerResult {
    fn shown(&self) -> String {
        match self.times_faster {
            times @ 1.0.. => format!("{times:.2}x faster"),
            times => format!("{:.2}x slower", 1.0 / times),
        }
    }
}

#[derive(Serialize)]
struct RowResult {
    name: &'static str,
    about: &'static str,
    shown: Shown,
    median_ns: f64,
    p99_ns: f64,
    per_second: f64,
    cpu_ns: f64,
    floor: FloorResult,
    ratio: f64,
    goal_ratio: Option<f64>,
    goal_per_second: Option<f64>,
    times_off_goal: f64,
    verdict: &'static str,
    counts: BTreeMap<&'static str, u64>,
    note: Option<String>,
    peer: Option<PeerResult>,
    passes: Vec<PassResult>,
}

/// Figures of a row as the table prints them.
#[derive(Serialize)]
struct Shown {
    median: String,
    p99: String,
    floor: String,
    ratio: String,
    goal: String,
}

#[derive(Serialize)]
struct FloorResult {
    name: &'static str,
    median_ns: f64,
    p99_ns: f64,
}

#[derive(Serialize)]
struct PassResult {
    median_ns: f64,
    floor_ns: f64,
    ratio: f64,
}

impl Results {
    pub(super) fn of(rows: &[Finished], passes: u32, peer: Option<&str>) -> Results {
        let right = rows.iter().all(|row| row.wrong_counts().is_empty());
        Results {
            machine: machine(),
            passes,
            peer: peer.map(str::to_owned),
            right,
            rows: rows.iter().map(RowResult::of).collect(),
        }
    }
}

/// Processor model, processors and kernel of this machine.
fn machine() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let models = cpus.lines().filter_map(|line| line.strip_prefix("model name"));
    let model = models.clone().next().map_or("", |line| line.trim_start_matches([':', '\t', ' ']));
    let release = read("/proc/sys/kernel/osrelease");
    let kernel: Vec<&str> = release.trim().splitn(3, '.').take(2).collect();
    format!("{model}, {} processors, Linux {}", models.count(), kernel.join("."))
}

impl RowResult {
    fn of(finished: &Finished) -> RowResult {
        let (row, pass) = (finished.row, finished.median_pass());
        let median_ns = pass.row.samples.median();
        let (goal_ratio, goal_per_second) = match row.goal {
            Goal::TimesFloor(times) | Goal::TimesFloorOr(times, _) => (Some(times), None),
            Goal::PerSecond(rate) => (None, Some(rate)),
        };
        RowResult {
            name: row.name,
            about: row.about,
            shown: finished.cells(),
            median_ns,
            p99_ns: pass.row.samples.p99(),
            per_second: 1e9 / median_ns,
            cpu_ns: pass.row.cpu_ns,
            floor: FloorResult {
                name: row.floor.name,
                median_ns: pass.floor.median(),
                p99_ns: pass.floor.p99(),
            },
            ratio: pass.ratio(),
            goal_ratio,
            goal_per_second,
            times_off_goal: finished.off(),
            verdict: finished.verdict().words(),
            counts: pass.row.counts.iter().map(|c| (c.name, c.value)).collect(),
            note: pass.row.note.clone(),
            peer: finished.peer(),
            passes: finished.passes.iter().map(PassResult::of).collect(),
        }
    }
}

impl PassResult {
    fn of(pass: &Pass) -> PassResult {
        PassResult {
            median_ns: pass.row.samples.median(),
            floor_ns: pass.floor.median(),
            ratio: pass.ratio(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::rows::ROWS;

    fn pass(row_ns: f64, floor_ns: f64) -> Pass {
        let mut pass = Pass { row: Measured::default(), floor: Samples::default(), peer: None };
        pass.row.samples.push(row_ns);
        pass.floor.push(floor_ns);
        pass
    }

    #[test]
    fn the_median_pass_is_chosen_by_its_ratio() {
        let passes = vec![pass(300.0, 100.0), pass(1_000.0, 1_000.0), pass(200.0, 100.0)];
        let finished = Finished::new(&ROWS[0], passes).unwrap();
        assert_eq!(finished.median_pass().ratio(), 2.0);
        assert_eq!(finished.verdict(), Verdict::Near);
        assert!(Finished::new(&ROWS[0], Vec::new()).is_none());
    }

    #[test]
    fn a_count_that_must_not_happen_is_wrong_in_any_pass() {
        let mut bad = pass(900.0, 100.0);
        bad.row.counts.push(Count::exactly("interrupts", 1, 0));
        let finished =
            Finished::new(&ROWS[0], vec![pass(100.0, 100.0), bad, pass(100.0, 100.0)]).unwrap();
        assert_eq!(finished.verdict(), Verdict::Wrong);
        assert!(!Results::of(&[finished], 3, None).right);
    }

    #[test]
    fn figures_have_units() {
        assert_eq!([time(7.04), time(370.4), time(12_340.0)], ["7.0 ns", "370 ns", "12.34 µs"]);
        assert_eq!([rate(2.5e6), rate(50_400.0), rate(12.0)], ["2.50 M/s", "50.4 k/s", "12.0 /s"]);
        assert_eq!([0.9, 2.0, 4.0].map(Verdict::of), [Verdict::Met, Verdict::Near, Verdict::Far]);
    }
}
