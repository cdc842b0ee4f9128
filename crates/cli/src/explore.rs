//! `tidegate explore` and `tidegate replay`: searches the scenarios for failures, looks for the planted bugs, and runs a printed
//! schedule again.
//!
//! The order of an exploration: 1. a scenario by its plan; 2. each of its planted bugs, which must be found; 3. a summary, then what
//! failed with the line that replays it. A line is printed as each search ends. Every search is bounded by its plan and by the clock.
//!
//! Rooms: `selection` (which scenarios) · `lines` (what is printed, progress) · `junit` (the same as XML).

mod junit;
mod lines;
mod selection;

use crate::output::{self, Outputs};
use crate::streams::{errln, outln};
use crate::{BadInput, End, arguments};
use lines::Progress;
use selection::{full_name, select, unknown_scenario};
use serde::Serialize;
use std::fmt::Write as _;
use tidegate::Platform;
use tidegate::explorer::schedule::model_name;
use tidegate::explorer::{ExplorerError, MemoryModel, Move, Options, Replayed, Report, Scenario, explore};
use tidegate::platform::{Controller, Point};
use tidegate::trace::{Kind, LaneId, LaneKind, Record, Trace, html};
use tidegate_scenarios::{Plan, agents, find, plan, plan_of_bugs};

/// How long one search may take.
const SHORT_NS: u64 = 60_000_000_000;
/// The same in the full form.
const FULL_NS: u64 = 3_600_000_000_000;
/// Runs spent on making a failing schedule smaller.
const SHRINK_RUNS: u64 = 1_000;

/// `tidegate explore`.
pub(crate) fn command(arguments: &arguments::Explore) -> Result<End, BadInput> {
    let selection = select(arguments.filter.as_deref())?;
    if arguments.list {
        selection.list();
        return Ok(End::Right);
    }
    let outputs =
        Outputs::check(&[("--json", arguments.json.as_deref()), ("--junit", arguments.junit.as_deref())])?;
    let progress = Progress::new(selection.searches.len(), !outputs.take_stdout());
    progress.head(&selection);
    let mut outcomes = Vec::new();
    for scenario in &selection.searches {
        let outcome = search(scenario.as_ref(), arguments.full, &progress);
        progress.end(&outcome);
        outcomes.push(outcome);
    }
    progress.summary(&outcomes);
    let passed = outcomes.iter().all(Outcome::is_right);
    if let Some(path) = &arguments.junit {
        junit::write(path, &outcomes)?;
    }
    if let Some(path) = &arguments.json {
        output::write_json(path, &Results { passed, results: outcomes.iter().map(Row::of).collect() })?;
    }
    Ok(if passed { End::Right } else { End::Wrong })
}

/// A search that was made.
struct Outcome {
    scenario: String,
    bug: Option<String>,
    plan: Plan,
    searched: Result<Report, ExplorerError>,
}

impl Outcome {
    /// A scenario must hold, and its planted bug be found.
    fn is_right(&self) -> bool {
        match (&self.searched, &self.bug) {
            (Ok(report), None) => report.passed(),
            (Ok(report), Some(_)) => report.failure.is_some(),
            (Err(_), _) => false,
        }
    }

    fn name(&self) -> String {
        match &self.bug {
            Some(bug) => format!("{}+{bug}", self.scenario),
            None => self.scenario.clone(),
        }
    }
}

/// Searches one scenario by its plan; at most as long as the form allows.
fn search(scenario: &dyn Scenario, full: bool, progress: &Progress) -> Outcome {
    let (name, bug) = (scenario.name().to_owned(), scenario.bug().map(str::to_owned));
    let plan = if bug.is_some() { plan_of_bugs(&name) } else { plan(&name, full) };
    progress.begin(&full_name(scenario), &plan);
    let host = Platform::host();
    let limit = if full { FULL_NS } else { SHORT_NS };
    let clock = || host.now().0;
    let keep_going = || {
        progress.count_run();
        host.now().0 < limit
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

fn time_ns(report: &Report) -> u64 {
    report.time_ns.map_or(0, |(all, _)| all)
}

fn what_is_wrong(outcome: &Outcome) -> String {
    let report = match &outcome.searched {
        Ok(report) => report,
        Err(error) => return error.to_string(),
    };
    let mut text = String::new();
    if outcome.bug.is_some() {
        let _ = write!(text, "the planted bug was not found ({})", report.coverage);
    } else if let Some(found) = &report.failure {
        let _ = write!(text, "{}\n\n  tidegate replay '{}'\n", found.failure, found.shrunk_line);
    } else {
        let _ = write!(text, "no run reached: {} ({})", report.never_reached.join("; "), report.coverage);
    }
    text
}

#[derive(Serialize)]
struct Results {
    /// All scenarios hold and all planted bugs were found.
    passed: bool,
    results: Vec<Row>,
}

/// One search as JSON. What does not apply is null or 0.
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
    /// Part of the time that building machines took, from 0 to 1.
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

/// `tidegate replay`.
pub(crate) fn replay(arguments: &arguments::Replay) -> Result<End, BadInput> {
    let outputs = Outputs::check(&[("--timeline", arguments.timeline.as_deref())])?;
    let replayed = match tidegate::explorer::replay(&arguments.line, &|name| find(name)) {
        Ok(replayed) => replayed,
        Err(error @ ExplorerError::NotDeterministic { .. }) => {
            errln!("{error}");
            return Ok(End::Wrong);
        }
        Err(ExplorerError::UnknownScenario(name)) => return Err(unknown_scenario(&name)),
        Err(error) => return Err(BadInput(error.to_string())),
    };
    if !outputs.take_stdout() {
        print_replayed(&replayed);
    }
    if let Some(path) = &arguments.timeline {
        let trace = traced(&replayed)?;
        output::write(path, |out| html::write(&trace, out))?;
        if !outputs.take_stdout() {
            outln!("timeline: {} (its clock counts steps)", path.display());
        }
    }
    Ok(if replayed.failure.is_some() { End::Wrong } else { End::Right })
}

fn print_replayed(replayed: &Replayed) {
    let schedule = &replayed.schedule;
    outln!("{}: {}", schedule.scenario, replayed.about);
    if let Some(bug) = &schedule.bug {
        let scenario = find(&schedule.scenario);
        let about = scenario.and_then(|s| s.planted().iter().find(|p| p.name == *bug).map(|p| p.about));
        outln!("planted bug {bug}: {}", about.unwrap_or_default());
    }
    let buffers = match schedule.model {
        MemoryModel::TotalStoreOrder => "stores wait in store buffers (tso)",
        MemoryModel::SequentiallyConsistent => "every store is visible at once (sc)",
    };
    let (choices, turns) = (replayed.moves.len(), schedule.turns());
    outln!("{buffers}; {} steps, {choices} choices, {turns} of them turns (*)\n", replayed.steps);
    let names = agents(&schedule.scenario);
    let width = names.iter().map(|n| n.len()).max().unwrap_or(0).max("agent 99".len());
    outln!("  {:>5}  {:width$}  what", "step", "agent");
    for (index, step) in replayed.moves.iter().enumerate() {
        let turned = schedule.choices.get(index).is_some_and(|choice| *choice != 0);
        let mark = if turned { '*' } else { ' ' };
        outln!("{mark} {:>5}  {:width$}  {}", step.step, agent(names, step), what(names, step));
    }
    match &replayed.failure {
        Some(failure) => outln!("\nfails: {failure}"),
        None => outln!("\ndoes not fail: nothing is wrong with this schedule"),
    }
}

fn name_of(names: &[&str], number: u16) -> String {
    names.get(usize::from(number)).map_or_else(|| format!("agent {number}"), |name| (*name).to_owned())
}

fn agent(names: &[&str], step: &Move) -> String {
    name_of(names, step.choice.agent().0)
}

/// What a move does, with the names of the scenario for its agents.
fn what(names: &[&str], step: &Move) -> String {
    let plain = Move { instead_of: None, ..*step }.to_string();
    let text = plain.split_once(": ").map_or(plain.as_str(), |(_, text)| text);
    match step.instead_of {
        Some(other) => format!("{text} ({} could have gone on)", name_of(names, other.0)),
        None => text.to_owned(),
    }
}

/// Makes the choices of a schedule, whatever the state: with recording on, stamps stand in packets that are 0 without.
struct Choices {
    choices: Vec<u16>,
    at: usize,
}

impl Controller for Choices {
    fn choose(&mut self, _point: &Point<'_>) -> usize {
        let choice = self.choices.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::from(choice)
    }
}

/// Runs the schedule once more with recording on, and adds a lane for each agent with its moves. The clock counts steps.
fn traced(replayed: &Replayed) -> Result<Trace, BadInput> {
    let schedule = &replayed.schedule;
    let lost = || BadInput(format!("scenario '{}' is not what it was", schedule.scenario));
    let mut scenario = find(&schedule.scenario).ok_or_else(lost)?;
    if let Some(bug) = &schedule.bug {
        scenario = scenario.with_bug(bug).ok_or_else(lost)?;
    }
    let controller = Choices { choices: schedule.choices.clone(), at: 0 };
    let platform = Platform::explored(Box::new(controller), schedule.model);
    platform.enable_tracing();
    let prepared = scenario.prepare(&platform);
    // The verdict has been given; this run is for its records.
    let _again = prepared.run(&platform);
    record_moves(&platform, replayed);
    Ok(platform.take_trace(&schedule.to_string()))
}

fn record_moves(platform: &Platform, replayed: &Replayed) {
    let names = agents(&replayed.schedule.scenario);
    let last = replayed.moves.iter().map(|m| m.choice.agent().0).max().unwrap_or(0);
    let lane = |number: u16| platform.lane(LaneKind::CpuThread, "schedule", &name_of(names, number));
    let lanes: Vec<LaneId> = (0..=last).map(lane).collect();
    for step in &replayed.moves {
        let (lane, text) =
            (lanes[usize::from(step.choice.agent().0)], platform.trace_name(&what(names, step)));
        platform.record(Record::span(lane, Kind::Mark, text, step.step, step.step + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_found_bug_is_replayed_and_drawn() {
        let Ok(selection) = select(Some("wake-word+no-barrier")) else { panic!("it is there") };
        let outcome = search(selection.searches[0].as_ref(), false, &Progress::new(1, false));
        assert!(outcome.is_right());
        let Ok(Report { failure: Some(found), .. }) = &outcome.searched else { panic!("it is found") };
        let replayed = tidegate::explorer::replay(&found.shrunk_line, &|name| find(name)).unwrap();
        assert_eq!(replayed.failure.as_ref(), Some(&found.failure));
        let trace = traced(&replayed).unwrap_or_else(|BadInput(text)| panic!("{text}"));
        let lanes: Vec<&str> = trace.lanes.iter().map(|lane| lane.name.as_str()).collect();
        assert_eq!(lanes, ["ringer", "engine"]);
        assert_eq!(trace.records.len(), replayed.moves.len());
    }
}
