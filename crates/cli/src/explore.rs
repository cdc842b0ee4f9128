//! `tidegate explore`: searches the scenarios for failures and for their planted bugs.
//! `tidegate replay` runs a printed schedule again.
//!
//! 1. A scenario is searched by its plan.
//! 2. Each of its planted bugs is searched for and must be found.
//! 3. A summary follows, then each failure with the line that replays it.
//!
//! Searches run in parallel, one for each processor. A line is printed as each ends. Every search
//! is bounded by its plan and by the clock.
//!
//! Rooms: `selection` (scenarios) · `outcome` · `lines` (output, progress) · `junit` (XML) ·
//! `interrupt` (Ctrl-C) · `replay` · `of_test` (a check of the user's tests).

mod interrupt;
mod junit;
mod lines;
mod of_test;
mod outcome;
pub(crate) mod replay;
mod selection;

use crate::output::Outputs;
use crate::streams::errln;
use crate::{BadInput, End, arguments};
use interrupt::Interrupt;
use lines::Progress;
use outcome::Outcome;
use rayon::iter::{ParallelBridge, ParallelIterator};
use selection::{full_name, named, select};
use serde::Serialize;
use std::cell::Cell;
use tidegate::Platform;
use tidegate::explorer::schedule::model_name;
use tidegate::explorer::{Options, Report, Scenario, explore};
use tidegate_scenarios::{plan, plan_of_bugs};

/// Time limit of a search.
const SHORT_NS: u64 = 60_000_000_000;
/// Time limit of a search with `--full`.
const FULL_NS: u64 = 3_600_000_000_000;
/// Runs for shrinking a failing schedule.
const SHRINK_RUNS: u64 = 1_000;

/// `tidegate explore`.
pub(crate) fn command(arguments: &arguments::Explore, outputs: &Outputs) -> Result<End, BadInput> {
    let selection = select(arguments.filter.as_deref())?;
    if arguments.list {
        selection.list();
        return Ok(End::Right);
    }
    let progress = Progress::new(selection.searches.len(), !outputs.take_stdout());
    progress.head(&selection);
    let interrupt = Interrupt::new()?;
    let outcomes = search_all(&selection.searches, arguments.full, &progress, &interrupt)?;
    progress.summary(&outcomes);
    if interrupt.arrived() {
        let (ended, all) = (outcomes.len(), selection.searches.len());
        errln!(
            "interrupted: {ended} of {all} searches had ended, and only these are in the results"
        );
    }
    let passed = outcomes.iter().all(Outcome::is_right) && !interrupt.arrived();
    if let Some(path) = &arguments.junit {
        junit::write(path, &outcomes, outputs)?;
    }
    if let Some(path) = &arguments.json {
        outputs.write_json(
            path,
            &Results { passed, results: outcomes.iter().map(Row::of).collect() },
        )?;
    }
    Ok(if passed { End::Right } else { End::Wrong })
}

/// Runs all searches, one for each processor at a time. The outcomes are in the order of
/// `searches`, without searches that a signal cut or kept from beginning.
fn search_all(
    searches: &[Box<dyn Scenario>],
    full: bool,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<Vec<Outcome>, BadInput> {
    // A scenario stays on its thread, so each thread creates its own. Searches begin in order, so
    // that lines are printed nearly in order.
    let names: Vec<_> = searches.iter().map(|s| (s.name(), s.bug())).collect();
    let one = |(at, (name, bug)): (usize, &(&str, Option<&str>))| {
        if interrupt.arrived() {
            return Ok(None);
        }
        let scenario = named(name, *bug)?;
        let outcome = search(scenario.as_ref(), full, progress, interrupt);
        if interrupt.arrived() && !outcome.has_failure() {
            return Ok(None);
        }
        progress.end(&outcome);
        Ok(Some((at, outcome)))
    };
    let outcomes: Result<Vec<Option<_>>, BadInput> =
        names.iter().enumerate().par_bridge().map(one).collect();
    let mut outcomes: Vec<(usize, Outcome)> = outcomes?.into_iter().flatten().collect();
    outcomes.sort_by_key(|(at, _)| *at);
    Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
}

/// Searches one scenario by its plan, up to the time limit.
fn search(
    scenario: &dyn Scenario,
    full: bool,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Outcome {
    let (name, bug) = (scenario.name().to_owned(), scenario.bug().map(str::to_owned));
    let plan = if bug.is_some() { plan_of_bugs(&name) } else { plan(&name, full) };
    let running = progress.begin(full_name(scenario), &plan);
    let host = Platform::host();
    let limit = if full { FULL_NS } else { SHORT_NS };
    let clock = || host.now().0;
    let polled_ns = Cell::new(0);
    let keep_going = || {
        running.count_run();
        let now_ns = host.now().0;
        now_ns < limit && !interrupt.poll(&polled_ns, now_ns)
    };
    let options = Options {
        strategy: plan.strategy,
        max_runs: plan.max_runs,
        max_states: plan.max_states,
        shrink_runs: SHRINK_RUNS,
        keep_going: &keep_going,
        clock_ns: Some(&clock),
        ..Options::default()
    };
    Outcome { scenario: name, bug, plan, searched: explore(scenario, &options) }
}

#[derive(Serialize)]
struct Results {
    /// All scenarios hold and all planted bugs were found.
    passed: bool,
    results: Vec<Row>,
}

/// A search as JSON. Fields that do not apply are null or 0.
#[derive(Serialize)]
struct Row {
    scenario: String,
    bug: Option<String>,
    strategy: String,
    right: bool,
    error: Option<String>,
    #[serde(flatten)]
    search: Option<Searched>,
}

#[derive(Serialize)]
struct Searched {
    model: &'static str,
    runs: u64,
    states: u64,
    steps: u64,
    longest_steps: u64,
    coverage: String,
    exhausted: bool,
    never_reached: Vec<&'static str>,
    failure: Option<Failed>,
    time_ns: u64,
    schedules_per_second: f64,
    /// Share of the time for building machines, from 0 to 1.
    setup_share: f64,
    setup_ns_per_run: f64,
}

#[derive(Serialize)]
struct Failed {
    what: String,
    at_run: u64,
    steps: u64,
    line: String,
    shrunk_line: String,
}

impl Row {
    fn of(outcome: &Outcome) -> Row {
        Row {
            scenario: outcome.scenario.clone(),
            bug: outcome.bug.clone(),
            strategy: outcome.plan.strategy.to_string(),
            right: outcome.is_right(),
            error: outcome.searched.as_ref().err().map(ToString::to_string),
            search: outcome.searched.as_ref().ok().map(Searched::of),
        }
    }
}

impl Searched {
    fn of(report: &Report) -> Searched {
        let (time_ns, setup_ns) = report.time_ns.unwrap_or((0, 0));
        Searched {
            model: model_name(report.model),
            runs: report.runs,
            states: report.states,
            steps: report.steps,
            longest_steps: report.longest_steps,
            coverage: report.coverage.to_string(),
            exhausted: report.exhausted,
            never_reached: report.never_reached.clone(),
            failure: report.failure.as_ref().map(|found| Failed {
                what: found.failure.to_string(),
                at_run: found.at_run,
                steps: found.steps,
                line: found.line.clone(),
                shrunk_line: found.shrunk_line.clone(),
            }),
            time_ns,
            schedules_per_second: report.runs as f64 * 1e9 / time_ns.max(1) as f64,
            setup_share: report.setup_share().unwrap_or(0.0),
            setup_ns_per_run: setup_ns as f64 / report.runs.max(1) as f64,
        }
    }
}
