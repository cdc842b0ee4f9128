//! Results of the rows: the median pass by its ratio to the floor of the same pass, as a table and
//! as JSON. `docs/performance.json` is such a JSON; `cargo xtask performance` reads it.

use super::clause::GoalResult;
use super::measure::{Count, Measured, Samples, time};
use super::peer::{Missing, PeerMeasured, Peers, Present};
use super::row::{Counterpart, Goal, Row, Unit};
use crate::tables::{self, Table};
use comfy_table::CellAlignment;
use serde::Serialize;
use std::collections::BTreeMap;

/// One pass of one row, with the floor that was measured just before it and the peers just behind.
#[derive(Default)]
pub(super) struct Pass {
    pub(super) row: Measured,
    pub(super) floor: Samples,
    /// In the order of the row's counterparts; `None` for a peer that was not measured.
    pub(super) peers: Vec<Option<PeerMeasured>>,
    /// The share of all processors that other programs used.
    pub(super) foreign_share: f64,
}

impl Pass {
    fn ratio(&self) -> f64 {
        self.row.samples.median() / self.floor.median().max(f64::MIN_POSITIVE)
    }
}

/// A row with all its passes, in their order.
pub(super) struct Finished {
    row: &'static Row,
    passes: Vec<Pass>,
    /// The pass with the median ratio.
    median: usize,
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
    pub(super) fn new(row: &'static Row, passes: Vec<Pass>) -> Option<Finished> {
        let mut order: Vec<usize> = (0..passes.len()).collect();
        order.sort_by(|a, b| passes[*a].ratio().total_cmp(&passes[*b].ratio()));
        let median = *order.get(order.len() / 2)?;
        Some(Finished { row, passes, median })
    }

    fn median_pass(&self) -> &Pass {
        &self.passes[self.median]
    }

    /// A pass, in the order of the run.
    pub(super) fn pass(&self, number: usize) -> &Pass {
        &self.passes[number]
    }

    pub(super) fn passes(&self) -> usize {
        self.passes.len()
    }

    /// A count of all passes together.
    pub(super) fn sum_of(&self, name: &str) -> Result<u64, String> {
        let counts = self.passes.iter().flat_map(|pass| &pass.row.counts);
        let found: Vec<u64> =
            counts.filter(|count| count.name == name).map(|count| count.value).collect();
        if found.is_empty() {
            return Err(format!("not measured: {} counts no '{name}'", self.name()));
        }
        Ok(found.iter().sum())
    }

    /// The median of a peer's measurement in a pass.
    pub(super) fn peer_ns(&self, key: &str, pass: usize) -> Result<f64, String> {
        let at = self.row.peers.iter().position(|peer| peer.is(key));
        let measured = at.and_then(|at| self.pass(pass).peers.get(at)?.as_ref());
        let measured = measured.ok_or_else(|| format!("not measured: no peer's {key}"))?;
        Ok(measured.samples.median())
    }

    /// Counts that have another value than the only right one, in any pass.
    pub(super) fn wrong_counts(&self) -> Vec<Count> {
        let all = self.passes.iter().flat_map(|p| &p.row.counts);
        all.filter(|count| !count.is_right()).copied().collect()
    }

    pub(super) fn name(&self) -> &'static str {
        self.row.name
    }

    /// The figures of its peers. The median pass of each is that of its ratio to the row.
    fn peers(&self) -> Vec<PeerResult> {
        let measured = |(at, counterpart): (usize, &Counterpart)| {
            let Counterpart::Calls { peer, key, calls, does, .. } = *counterpart else {
                return None;
            };
            let mut passes: Vec<(f64, &PeerMeasured)> = Vec::new();
            for pass in &self.passes {
                let beside = pass.peers.get(at)?.as_ref()?;
                let own = pass.row.samples.median().max(f64::MIN_POSITIVE);
                passes.push((beside.samples.median() / own, beside));
            }
            passes.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (times_faster, beside) = *passes.get(passes.len() / 2)?;
            Some(PeerResult {
                peer,
                key,
                calls,
                does,
                median_ns: beside.samples.median(),
                p99_ns: beside.samples.p99(),
                times_faster,
                spread: [passes[0].0, passes[passes.len() - 1].0],
                bytes_each: beside.bytes_each,
                cpu_ns: beside.cpu_ns,
                note: beside.note.clone(),
            })
        };
        self.row.peers.iter().enumerate().filter_map(measured).collect()
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

    /// The smallest and the largest ratio to the floor.
    fn spread(&self) -> [f64; 2] {
        let ratios = self.passes.iter().map(Pass::ratio);
        [ratios.clone().fold(f64::INFINITY, f64::min), ratios.fold(0.0, f64::max)]
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

/// The rows that have counterparts, beside them.
pub(super) fn peer_table(rows: &[Finished]) -> Table {
    let mut table =
        tables::table(["row", "median", "peer", "calls", "median", "row is", "the peer does"]);
    for finished in rows {
        let median = finished.cells().median;
        for beside in finished.peers() {
            let PeerResult { peer, calls, median_ns, does, .. } = &beside;
            let cells = [finished.name(), &median, peer, calls, &time(*median_ns)];
            table.add_row(
                cells.map(str::to_owned).into_iter().chain([beside.shown(), (*does).to_owned()]),
            );
        }
        for counterpart in finished.row.peers {
            if let Counterpart::None(why) = counterpart {
                table.add_row([finished.name(), &median, "none", why]);
            }
        }
    }
    for column in [1, 4, 5] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// The clauses that this run measured.
pub(super) fn goal_table(goals: &[GoalResult]) -> Table {
    let mut table = tables::table(["goal", "", "ratio", "limit", ""]);
    for goal in goals {
        let Some(ratio) = goal.ratio else { continue };
        let met = if goal.met == Some(true) { "met" } else { "missed" };
        let limit = format!("{} {}", goal.sense, number(goal.limit));
        table.add_row([goal.id, goal.text, &number(ratio), &limit, met]);
    }
    for column in [2, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A ratio, with as many digits as say something.
fn number(value: f64) -> String {
    match value.abs() {
        100_000.0.. => format!("{value:.2e}"),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
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
    /// The peers that could be measured beside the rows, and those that could not.
    peers: Vec<Present>,
    missing_peers: Vec<Missing>,
    right: bool,
    goals: Vec<GoalResult>,
    rows: Vec<RowResult>,
}

/// What a peer does in place of the row.
#[derive(Serialize)]
struct PeerResult {
    peer: &'static str,
    key: &'static str,
    calls: &'static str,
    /// What it does less or more than the row.
    does: &'static str,
    median_ns: f64,
    p99_ns: f64,
    /// The peer's time in times of the row's.
    times_faster: f64,
    /// The smallest and the largest of the passes.
    spread: [f64; 2],
    bytes_each: Option<u64>,
    cpu_ns: Option<f64>,
    note: Option<String>,
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
    figures: BTreeMap<&'static str, f64>,
    note: Option<String>,
    /// The share of all processors that other programs used; the most of all passes.
    foreign_share: f64,
    /// The smallest and the largest ratio of the passes.
    spread: [f64; 2],
    peers: Vec<PeerResult>,
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
    foreign_share: f64,
}

impl Results {
    pub(super) fn of(
        rows: &[Finished],
        goals: Vec<GoalResult>,
        passes: u32,
        peers: Option<&Peers>,
    ) -> Results {
        let right = rows.iter().all(|row| row.wrong_counts().is_empty());
        Results {
            machine: machine(),
            passes,
            peers: peers.map_or_else(Vec::new, |peers| peers.present().to_vec()),
            missing_peers: peers.map_or_else(Vec::new, |peers| peers.missing().to_vec()),
            right,
            goals,
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
            figures: pass.row.figures.iter().copied().collect(),
            note: pass.row.note.clone(),
            foreign_share: finished.passes.iter().map(|p| p.foreign_share).fold(0.0, f64::max),
            spread: finished.spread(),
            peers: finished.peers(),
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
            foreign_share: pass.foreign_share,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::bench::rows::all_rows;

    pub(in crate::bench) fn first_row() -> &'static Row {
        all_rows().next().unwrap()
    }

    pub(in crate::bench) fn pass(row_ns: f64, floor_ns: f64) -> Pass {
        let mut pass = Pass::default();
        pass.row.samples.push(row_ns);
        pass.floor.push(floor_ns);
        pass
    }

    #[test]
    fn the_median_pass_is_chosen_by_its_ratio() {
        let passes = vec![pass(300.0, 100.0), pass(1_000.0, 1_000.0), pass(200.0, 100.0)];
        let finished = Finished::new(first_row(), passes).unwrap();
        assert_eq!(finished.median_pass().ratio(), 2.0);
        assert_eq!(finished.verdict(), Verdict::Near);
        assert!(Finished::new(first_row(), Vec::new()).is_none());
    }

    #[test]
    fn a_count_that_must_not_happen_is_wrong_in_any_pass() {
        let mut bad = pass(900.0, 100.0);
        bad.row.counts.push(Count::exactly("interrupts", 1, 0));
        let finished =
            Finished::new(first_row(), vec![pass(100.0, 100.0), bad, pass(100.0, 100.0)]).unwrap();
        assert_eq!(finished.verdict(), Verdict::Wrong);
        assert!(!Results::of(&[finished], Vec::new(), 3, None).right);
    }

    #[test]
    fn figures_have_units() {
        assert_eq!([time(7.04), time(370.4), time(12_340.0)], ["7.0 ns", "370 ns", "12.34 µs"]);
        assert_eq!([rate(2.5e6), rate(50_400.0), rate(12.0)], ["2.50 M/s", "50.4 k/s", "12.0 /s"]);
        assert_eq!([0.9, 2.0, 4.0].map(Verdict::of), [Verdict::Met, Verdict::Near, Verdict::Far]);
    }
}
