//! Measures the explorer: schedules in a second of the litmus pair and of the whole stack, with the
//! share of building the machine, and the time to the verdict on a small protocol.

use crate::bench::floors;
use crate::bench::measure::{
    CLIENT_CPU, Count, CpuMeter, Measured, Samples, Trouble, on_own_thread, pin,
};
use crate::bench::row::{Counterpart, Goal, Row, Unit, floor};
use crate::bench::sizes::{Calls, GROUP_VALUES, Scale, VERDICT_VALUES};
use tidegate::Platform;
use tidegate::explorer::{Options, Prepared, Report, Scenario, StrategyKind, explore};

/// Nanoseconds to build the machine of a schedule.
pub(crate) const SETUP: &str = "set-up of a schedule";
pub(crate) const MOST_OF_ANY: &str = "most schedules of any strategy";
pub(crate) const MEDIAN_RANDOM: &str = "median schedules of random";
pub(crate) const MEDIAN_PCT: &str = "median schedules of PCT";

/// Rows of searches.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "missing_barrier_found",
        about: "a search of the litmus pair until the missing barrier is found; 100 seeds of each strategy",
        unit: Unit::Time,
        floor: floor("empty_schedule", empty_schedules),
        goal: Goal::TimesFloor(1_000.0),
        measure: |scale| missing_barrier(scale),
        peers: &[Counterpart::Calls {
            peer: "loom",
            key: "missing_barrier",
            calls: "model checking of the pair with C11 atomics",
            does: "more: the C11 memory model; less: no machine",
            size: Calls::new(1, 3),
        }],
    },
    Row {
        name: "groups_of_1",
        about: "the litmus protocol of one fence with one value, every state",
        unit: Unit::Time,
        floor: floor("packed_search_of_groups", floors::packed_search_of_groups),
        goal: Goal::TimesFloor(10.0),
        measure: |_| groups(1),
        peers: &[],
    },
    Row {
        name: "groups_of_4",
        about: "the same of four fences, whose agents share no word",
        unit: Unit::Time,
        floor: floor("packed_search_of_groups", floors::packed_search_of_groups),
        goal: Goal::TimesFloor(40.0),
        measure: |_| groups(4),
        peers: &[],
    },
];

/// What a schedule costs in which nothing happens: a machine, one agent, its end.
struct Nothing;

impl Scenario for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }

    fn about(&self) -> &str {
        "one agent that returns at once"
    }

    fn prepare(&self, _: &Platform) -> Prepared {
        Prepared::new(|| (), |_| ())
    }
}

fn random_runs(
    scenario: &dyn Scenario,
    runs: u64,
    clock: Option<&dyn Fn() -> u64>,
) -> Result<Report, Trouble> {
    let options = Options {
        strategy: StrategyKind::Random,
        max_runs: runs,
        clock_ns: clock,
        ..Options::default()
    };
    let report = explore(scenario, &options).map_err(|e| e.to_string())?;
    match &report.failure {
        None => Ok(report),
        Some(found) => Err(format!("{} fails: {}", report.scenario, found.line)),
    }
}

/// Runs so many random schedules of the scenario `name`.
pub(crate) fn random_schedules(name: &str, runs: u64) -> Result<(), Trouble> {
    random_runs(found(name)?.as_ref(), runs, None).map(drop)
}

fn found(name: &str) -> Result<Box<dyn Scenario>, Trouble> {
    tidegate_scenarios::find(name).ok_or(format!("there is no scenario '{name}'"))
}

/// Times batches of random schedules after one that warms up.
fn schedules(scenario: &dyn Scenario, runs: u64) -> Result<(Samples, f64), Trouble> {
    const BATCHES: u64 = 5;
    let host = Platform::host();
    random_runs(scenario, runs, None)?;
    let (mut samples, cpu) = (Samples::default(), CpuMeter::start());
    for _ in 0..BATCHES {
        let start = host.now();
        random_runs(scenario, runs, None)?;
        samples.push_batch(host.now().since(start), runs);
    }
    Ok((samples, cpu.per(runs * BATCHES)))
}

/// Floor of a schedule.
pub(super) fn empty_schedules() -> Result<Samples, Trouble> {
    on_own_thread(|| {
        pin(CLIENT_CPU)?;
        schedules(&Nothing, 50_000).map(|(samples, _)| samples)
    })
}

/// Row `litmus_schedules`.
pub(super) fn litmus_schedules() -> Result<Measured, Trouble> {
    measure_schedules("litmus", 40_000)
}

/// Row `seven_stations_schedules`.
pub(super) fn seven_stations_schedules() -> Result<Measured, Trouble> {
    measure_schedules("seven-stations", 3_000)
}

fn measure_schedules(name: &'static str, runs: u64) -> Result<Measured, Trouble> {
    on_own_thread(move || {
        pin(CLIENT_CPU)?;
        let scenario = found(name)?;
        let (samples, cpu_ns) = schedules(scenario.as_ref(), runs)?;
        let host = Platform::host();
        let clock = || host.now().0;
        let report = random_runs(scenario.as_ref(), runs, Some(&clock))?;
        let setup_ns = report.time_ns.map_or(0, |(_, setup)| setup / runs);
        let figures = vec![(SETUP, setup_ns as f64)];
        let note = format!(
            "building the machine is {:.0} % of a schedule, {setup_ns} ns; {} visible steps in a schedule",
            report.setup_share().unwrap_or(0.0) * 100.0,
            report.steps / report.runs.max(1)
        );
        Ok(Measured { samples, cpu_ns, figures, note: Some(note), ..Measured::default() })
    })
}

/// Row `litmus_verdict`.
pub(super) fn litmus_verdict() -> Result<Measured, Trouble> {
    exhaust(&format!("litmus-2x{VERDICT_VALUES}"))
}

/// Searches the litmus pair without the engine's barrier by each strategy.
fn missing_barrier(scale: Scale) -> Result<Measured, Trouble> {
    const MOST: u64 = 20_000;
    on_own_thread(move || {
        pin(CLIENT_CPU)?;
        let seeds = (100 / scale.0).max(3);
        let scenario = tidegate_scenarios::find("litmus")
            .and_then(|scenario| scenario.with_bug("no-gpu-barrier"))
            .ok_or("the litmus pair has no planted missing barrier")?;
        let host = Platform::host();
        let (mut measured, cpu) = (Measured::default(), CpuMeter::start());
        let mut search = |strategy, seed| {
            let options =
                Options { strategy, seed, max_runs: MOST, shrink_runs: 0, ..Options::default() };
            let start = host.now();
            let report = explore(scenario.as_ref(), &options).map_err(|e| e.to_string())?;
            measured.samples.push(host.now().since(start) as f64);
            match report.failure {
                Some(_) => Ok(report.runs as f64),
                None => Err(format!("{strategy} does not find the missing barrier: {MOST} runs")),
            }
        };
        let mut of_seeds = |strategy| -> Result<Samples, Trouble> {
            let mut schedules = Samples::default();
            for seed in 1..=seeds {
                schedules.push(search(strategy, seed)?);
            }
            Ok(schedules)
        };
        let (random, pct) = (of_seeds(StrategyKind::Random)?, of_seeds(StrategyKind::Pct(3))?);
        let systematic = [StrategyKind::Exhaustive, StrategyKind::Bounded(2)];
        let mut most = random.most().max(pct.most());
        for strategy in systematic {
            most = most.max(search(strategy, 1)?);
        }
        measured.cpu_ns = cpu.per(2 * seeds + systematic.len() as u64);
        measured.figures =
            vec![(MOST_OF_ANY, most), (MEDIAN_RANDOM, random.median()), (MEDIAN_PCT, pct.median())];
        Ok(measured)
    })
}

/// Exhausts the litmus protocol with so many fences. The agents of a fence share no word with those
/// of another.
pub(super) fn groups(fences: usize) -> Result<Measured, Trouble> {
    exhaust(&format!("litmus-{fences}x{GROUP_VALUES}"))
}

/// Exhausts a scenario.
pub(super) fn exhaust(name: &str) -> Result<Measured, Trouble> {
    let name = name.to_owned();
    on_own_thread(move || {
        pin(CLIENT_CPU)?;
        let scenario =
            tidegate_scenarios::find(&name).ok_or(format!("there is no scenario '{name}'"))?;
        let host = Platform::host();
        let (start, cpu) = (host.now(), CpuMeter::start());
        let report = explore(scenario.as_ref(), &Options::default()).map_err(|e| e.to_string())?;
        let mut samples = Samples::default();
        samples.push(host.now().since(start) as f64);
        let counts = vec![
            Count::of("runs", report.runs),
            Count::of("states", report.states),
            Count::exactly("exhausted", u64::from(report.exhausted), 1),
        ];
        Ok(Measured { samples, cpu_ns: cpu.per(1), counts, ..Measured::default() })
    })
}
