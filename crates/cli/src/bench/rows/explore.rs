//! Measures the explorer: schedules in a second of the litmus pair and of the whole stack, with the
//! share of building the machine, and the time to the verdict on a small protocol.

use crate::bench::measure::{
    CLIENT_CPU, Count, CpuMeter, Measured, Samples, Trouble, on_own_thread, pin,
};
use crate::bench::sizes::VERDICT_VALUES;
use tidegate::Platform;
use tidegate::explorer::{Options, Prepared, Report, Scenario, StrategyKind, explore};

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
        let scenario =
            tidegate_scenarios::find(name).ok_or(format!("there is no scenario '{name}'"))?;
        let (samples, cpu_ns) = schedules(scenario.as_ref(), runs)?;
        let host = Platform::host();
        let clock = || host.now().0;
        let report = random_runs(scenario.as_ref(), runs, Some(&clock))?;
        let setup_ns = report.time_ns.map_or(0, |(_, setup)| setup / runs);
        let note = format!(
            "building the machine is {:.0} % of a schedule, {setup_ns} ns; {} visible steps in a schedule",
            report.setup_share().unwrap_or(0.0) * 100.0,
            report.steps / report.runs.max(1)
        );
        Ok(Measured { samples, cpu_ns, counts: Vec::new(), note: Some(note) })
    })
}

/// Row `litmus_verdict`.
pub(super) fn litmus_verdict() -> Result<Measured, Trouble> {
    on_own_thread(|| {
        pin(CLIENT_CPU)?;
        let name = format!("litmus-2x{VERDICT_VALUES}");
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
        Ok(Measured { samples, cpu_ns: cpu.per(1), counts, note: None })
    })
}
