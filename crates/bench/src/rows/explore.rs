//! Measures the explorer: schedules in a second of the litmus pair and of the whole stack, with the
//! share of building the machine, and the time to the verdict on a small protocol.

use crate::aim::{Aimed, peer, pure, row};
use crate::floors;
use crate::sizes::{Calls, GROUP_VALUES, SCHEDULES, VERDICT_VALUES, VERDICTS};
use tidegate::Platform;
use tidegate::explorer::{Options, Prepared, Report, Scenario, StrategyKind, explore};
use tidegate_measure::{
    CLIENT_CPU, Count, CpuMeter, Floor, Found, Measured, Samples, Scale, floor, pin,
};

/// Nanoseconds to build the machine of a schedule.
pub(crate) const SETUP: &str = "set-up of a schedule";
pub(crate) const MOST_OF_ANY: &str = "most schedules of any strategy";
pub(crate) const MEDIAN_RANDOM: &str = "median schedules of random";
pub(crate) const MEDIAN_PCT: &str = "median schedules of PCT";

const EMPTY: Floor = floor("empty_schedule", empty_schedules);
const SMALL_SEARCH: Floor = floor("packed_search_of_groups", floors::packed_search_of_groups);

/// Rows of schedules and searches.
pub(super) const ROWS: &[Aimed] = &[
    row("litmus_schedules", "one random schedule of the litmus pair, store buffers on", EMPTY, |_| {
        measure_schedules("litmus", 40_000)
    })
    .per_second(2_000_000.0)
    .beside(&[
        pure("shuttle", "schedules", "random schedules, no store buffers", SCHEDULES),
        pure("loom", "executions", "executions of the pair with C11 atomics", SCHEDULES),
    ]),
    row(
        "seven_stations_schedules",
        "one random schedule of the whole stack: submission, signal, interrupt, wait",
        EMPTY,
        |_| measure_schedules("seven-stations", 3_000),
    )
    .per_second(50_000.0),
    row(
        "litmus_verdict",
        "the litmus protocol with two fences of seven values each, every state, to the verdict",
        floor("packed_search", floors::packed_search),
        |_| exhaust(&format!("litmus-2x{VERDICT_VALUES}")),
    )
    .within(0.4)
    .beside(&[
        pure("stateright", "verdict", "depth-first search of a model of it", VERDICTS),
        pure("spin", "spin_verdict", "depth-first search with partial-order reduction", VERDICTS),
    ]),
    row(
        "missing_barrier_found",
        "a search of the litmus pair until the missing barrier is found; 100 seeds of each strategy",
        EMPTY,
        missing_barrier,
    )
    .within(1_000.0)
    .beside(&[peer(
        "loom",
        "missing_barrier",
        "model checking of the pair with C11 atomics",
        "more: the C11 memory model; less: no machine",
        Calls::new(1, 3),
    )]),
    row(
        "groups_of_1",
        "the litmus protocol of one fence with one value, every state",
        SMALL_SEARCH,
        |_| exhaust(&format!("litmus-1x{GROUP_VALUES}")),
    )
    .within(10.0),
    row("groups_of_4", "the same of four fences, whose agents share no word", SMALL_SEARCH, |_| {
        exhaust(&format!("litmus-4x{GROUP_VALUES}"))
    })
    .within(40.0),
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
) -> Found<Report> {
    let options = Options {
        strategy: StrategyKind::Random,
        max_runs: runs,
        clock_ns: clock,
        ..Options::default()
    };
    let report = explore(scenario, &options)?;
    match &report.failure {
        None => Ok(report),
        Some(found) => Err(format!("{} fails: {}", report.scenario, found.line).into()),
    }
}

/// Runs random schedules of the scenario `name`.
pub(crate) fn random_schedules(name: &str, runs: u64) -> Found<()> {
    random_runs(found(name)?.as_ref(), runs, None).map(drop)
}

fn found(name: &str) -> Found<Box<dyn Scenario>> {
    Ok(tidegate_scenarios::find(name).ok_or(format!("there is no scenario '{name}'"))?)
}

/// Times batches of random schedules after one that warms up.
fn schedules(scenario: &dyn Scenario, runs: u64) -> Found<Measured> {
    const BATCHES: u64 = 5;
    pin(CLIENT_CPU)?;
    let host = Platform::host();
    random_runs(scenario, runs, None)?;
    let (mut samples, cpu) = (Samples::default(), CpuMeter::start());
    for _ in 0..BATCHES {
        let start = host.now();
        random_runs(scenario, runs, None)?;
        samples.push_batch(host.now().since(start), runs);
    }
    Ok(Measured::of(samples, cpu.per(runs * BATCHES)))
}

/// Floor of a schedule.
fn empty_schedules() -> Found<Samples> {
    schedules(&Nothing, 50_000).map(|measured| measured.samples)
}

fn measure_schedules(name: &str, runs: u64) -> Found<Measured> {
    let scenario = found(name)?;
    let measured = schedules(scenario.as_ref(), runs)?;
    let host = Platform::host();
    let clock = || host.now().0;
    let report = random_runs(scenario.as_ref(), runs, Some(&clock))?;
    let setup_ns = report.time_ns.map_or(0, |(_, setup)| setup / runs);
    let note = format!(
        "building the machine is {:.0} % of a schedule, {setup_ns} ns; {} visible steps in a schedule",
        report.setup_share().unwrap_or(0.0) * 100.0,
        report.steps / report.runs.max(1)
    );
    Ok(Measured { figures: vec![(SETUP, setup_ns as f64)], note: Some(note), ..measured })
}

/// Searches the litmus pair without the engine's barrier by each strategy.
fn missing_barrier(scale: Scale) -> Found<Measured> {
    const MOST: u64 = 20_000;
    pin(CLIENT_CPU)?;
    let seeds = scale.of(100, 3);
    let scenario = tidegate_scenarios::find("litmus")
        .and_then(|scenario| scenario.with_bug("no-gpu-barrier"))
        .ok_or("the litmus pair has no planted missing barrier")?;
    let host = Platform::host();
    let (mut samples, cpu) = (Samples::default(), CpuMeter::start());
    let mut search = |strategy, seed| -> Found<f64> {
        let options =
            Options { strategy, seed, max_runs: MOST, shrink_runs: 0, ..Options::default() };
        let start = host.now();
        let report = explore(scenario.as_ref(), &options)?;
        samples.push(host.now().since(start) as f64);
        match report.failure {
            Some(_) => Ok(report.runs as f64),
            None => {
                Err(format!("{strategy} does not find the missing barrier: {MOST} runs").into())
            }
        }
    };
    let mut of_seeds = |strategy| -> Found<Samples> {
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
    let figures =
        vec![(MOST_OF_ANY, most), (MEDIAN_RANDOM, random.median()), (MEDIAN_PCT, pct.median())];
    let searches = 2 * seeds + systematic.len() as u64;
    Ok(Measured { figures, ..Measured::of(samples, cpu.per(searches)) })
}

/// Exhausts a scenario.
pub(crate) fn exhaust(name: &str) -> Found<Measured> {
    pin(CLIENT_CPU)?;
    let (scenario, host) = (found(name)?, Platform::host());
    let (start, cpu) = (host.now(), CpuMeter::start());
    let report = explore(scenario.as_ref(), &Options::default())?;
    let mut samples = Samples::default();
    samples.push(host.now().since(start) as f64);
    let counts = vec![
        Count::of("runs", report.runs),
        Count::of("states", report.states),
        Count::exactly("exhausted", u64::from(report.exhausted), 1),
    ];
    Ok(Measured { counts, ..Measured::of(samples, cpu.per(1)) })
}
