//! `tidegate explore` and `tidegate replay`: searches the scenarios for failures, looks for the planted bugs, and runs a printed
//! schedule again.
//!
//! The order of an exploration: 1. a scenario by its plan; 2. each of its planted bugs, which must be found; 3. tables, then what
//! failed with the line that replays it. Every search is bounded by its plan and by the clock.

use crate::output::{self, Outputs};
use crate::streams::{errln, outln};
use crate::tables::{duration, table};
use crate::{BadInput, End, arguments};
use comfy_table::CellAlignment;
use indicatif::ProgressBar;
use serde::Serialize;
use std::fmt::Write as _;
use tidegate::Platform;
use tidegate::explorer::schedule::model_name;
use tidegate::explorer::{
    Coverage, ExplorerError, MemoryModel, Move, Options, Replayed, Report, Scenario, explore,
};
use tidegate::platform::{Controller, Point};
use tidegate::trace::{Kind, LaneId, LaneKind, Record, Trace, html};
use tidegate_scenarios::{Plan, agents, all, find, plan, plan_of_bugs};

/// How long one search may take.
const SHORT_NS: u64 = 60_000_000_000;
/// The same in the full form.
const FULL_NS: u64 = 3_600_000_000_000;
/// Runs spent on making a failing schedule smaller.
const SHRINK_RUNS: u64 = 1_000;

/// `tidegate explore`.
pub(crate) fn command(arguments: &arguments::Explore) -> Result<End, BadInput> {
    let wanted = match &arguments.scenario {
        Some(name) => chosen(name)?,
        None => all().into_iter().flat_map(with_bugs).collect(),
    };
    if arguments.list {
        list(&wanted);
        return Ok(End::Right);
    }
    let outputs = Outputs::check(&[("--json", arguments.json.as_deref())])?;
    let bar = ProgressBar::new_spinner();
    let outcomes: Vec<Outcome> = wanted.iter().map(|s| search(s.as_ref(), arguments.full, &bar)).collect();
    bar.finish_and_clear();
    let passed = outcomes.iter().all(Outcome::is_right);
    if let Some(path) = &arguments.json {
        output::write_json(path, &Results { passed, results: outcomes.iter().map(Row::of).collect() })?;
    }
    if !outputs.take_stdout() {
        print(&outcomes);
    }
    Ok(if passed { End::Right } else { End::Wrong })
}

type Scenarios = Vec<Box<dyn Scenario>>;

/// A scenario, then the same with each of its bugs.
fn with_bugs(scenario: Box<dyn Scenario>) -> Scenarios {
    let mut all: Scenarios = scenario.planted().iter().filter_map(|b| scenario.with_bug(b.name)).collect();
    all.insert(0, scenario);
    all
}

/// What `NAME` or `NAME+BUG` asks for.
fn chosen(wanted: &str) -> Result<Scenarios, BadInput> {
    let (name, bug) = match wanted.split_once('+') {
        Some((name, bug)) => (name, Some(bug)),
        None => (wanted, None),
    };
    let scenario = find(name).ok_or_else(|| unknown_scenario(name))?;
    let Some(bug) = bug else { return Ok(with_bugs(scenario)) };
    let broken = scenario.with_bug(bug).ok_or_else(|| {
        let names: Vec<&str> = scenario.planted().iter().map(|b| b.name).collect();
        let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        BadInput(format!(
            "scenario '{name}' has no planted bug '{bug}'; it has: {has}{}",
            did_you_mean(bug, &names)
        ))
    })?;
    Ok(vec![broken])
}

fn unknown_scenario(name: &str) -> BadInput {
    let scenarios = all();
    let names: Vec<&str> = scenarios.iter().map(|s| s.name()).collect();
    let hint = did_you_mean(name, &names);
    BadInput(format!("no scenario '{name}'{hint}; `tidegate explore --list` shows all of them"))
}

/// `; did you mean 'x'?` when one of `names` is near.
fn did_you_mean(wanted: &str, names: &[&str]) -> String {
    let near = |name: &str| name.contains(wanted) || distance(wanted, name) <= 1 + wanted.len() / 4;
    let nearest = names.iter().filter(|n| near(n)).min_by_key(|n| distance(wanted, n));
    nearest.map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}

/// Single-letter changes from one word to the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, other) in to.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

fn list(scenarios: &Scenarios) {
    for scenario in scenarios {
        match scenario.bug() {
            None => outln!("{}\n    {}", scenario.name(), scenario.about()),
            Some(bug) => {
                let about = scenario.planted().iter().find(|p| p.name == bug).map_or("", |p| p.about);
                outln!("    +{bug}: {about}");
            }
        }
    }
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

fn search(scenario: &dyn Scenario, full: bool, bar: &ProgressBar) -> Outcome {
    let (name, bug) = (scenario.name().to_owned(), scenario.bug().map(str::to_owned));
    let plan = if bug.is_some() { plan_of_bugs(&name) } else { plan(&name, full) };
    bar.set_message(bug.as_ref().map_or_else(|| name.clone(), |bug| format!("{name}+{bug}")));
    let host = Platform::host();
    let limit = if full { FULL_NS } else { SHORT_NS };
    let clock = || host.now().0;
    let keep_going = || {
        bar.tick();
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

fn print(outcomes: &[Outcome]) {
    let (planted, plain): (Vec<&Outcome>, Vec<&Outcome>) = outcomes.iter().partition(|o| o.bug.is_some());
    if !plain.is_empty() {
        print_scenarios(&plain);
    }
    if !planted.is_empty() {
        print_planted(&planted);
    }
    for outcome in outcomes.iter().filter(|o| !o.is_right()) {
        outln!("{}: {}", outcome.name(), what_is_wrong(outcome));
    }
    if let [Outcome { bug: Some(_), searched: Ok(Report { failure: Some(found), .. }), .. }] = outcomes {
        outln!("{}\n\n  tidegate replay '{}'", found.failure, found.shrunk_line);
    }
}

fn print_scenarios(outcomes: &[&Outcome]) {
    let header = ["scenario", "model", "strategy", "runs", "states", "steps", "coverage", "verdict", "time"];
    let mut table = table(header);
    for outcome in outcomes {
        let verdict = verdict(outcome);
        let mut row = vec![outcome.name(), "-".to_owned(), outcome.plan.strategy.to_string()];
        match &outcome.searched {
            Ok(report) => {
                row[1] = model_name(report.model).to_owned();
                row.extend([report.runs.to_string(), states(report), report.steps.to_string()]);
                row.extend([report.coverage.to_string(), verdict.to_owned(), duration(time_ns(report))]);
            }
            Err(_) => row.extend(["-", "-", "-", "-", verdict, "-"].map(str::to_owned)),
        }
        table.add_row(row);
    }
    right_align(&mut table, &[3, 4, 5, 8]);
    outln!("{table}\n");
}

/// A search that was not through says less than one that was.
fn verdict(outcome: &Outcome) -> &'static str {
    match &outcome.searched {
        Ok(report) if !outcome.is_right() && report.failure.is_none() => "SHOWS NOTHING",
        _ if !outcome.is_right() => "FAILS",
        Ok(Report { coverage: Coverage::Sampled | Coverage::CutShort, .. }) => "no failure",
        _ => "holds",
    }
}

fn print_planted(outcomes: &[&Outcome]) {
    let mut table = table(["planted bug", "strategy", "found after", "time", "schedule"]);
    for outcome in outcomes {
        let mut row = vec![outcome.name(), outcome.plan.strategy.to_string()];
        match &outcome.searched {
            Ok(report) => {
                let runs =
                    if report.runs == 1 { "1 run".to_owned() } else { format!("{} runs", report.runs) };
                let found = report.failure.as_ref();
                row.push(found.map_or_else(|| format!("NOT FOUND in {runs}"), |_| runs.clone()));
                row.push(duration(time_ns(report)));
                row.push(found.map_or_else(|| "-".to_owned(), |f| f.shrunk_line.clone()));
            }
            Err(_) => row.extend(["FAILS", "-", "-"].map(str::to_owned)),
        }
        table.add_row(row);
    }
    right_align(&mut table, &[2, 3]);
    outln!("{table}\n");
}

fn right_align(table: &mut comfy_table::Table, columns: &[usize]) {
    for column in columns {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// A sampling strategy keeps no states.
fn states(report: &Report) -> String {
    if report.states == 0 { "-".to_owned() } else { report.states.to_string() }
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
    fn a_name_that_is_nearly_right_is_suggested() {
        let text = |wanted: &str| match chosen(wanted) {
            Ok(_) => String::new(),
            Err(BadInput(text)) => text,
        };
        assert!(text("seven-statoins").contains("did you mean 'seven-stations'?"));
        assert!(text("victimise").contains("did you mean 'ring-against-victimise'?"));
        assert!(!text("nothing at all").contains("did you mean"));
        assert!(text("litmus+no-gpu-barier").contains("did you mean 'no-gpu-barrier'?"));
        assert!(text("two-signallers+any").contains("it has: none"));
        assert_eq!((text("seven-stations"), text("litmus-2x2+no-resample")), (String::new(), String::new()));
    }

    #[test]
    fn distances_count_changes() {
        assert_eq!(["", "ring", "rings", "sing", "gnir"].map(|word| distance(word, "ring")), [4, 0, 1, 1, 4]);
    }

    #[test]
    fn every_planted_bug_of_a_scenario_follows_it() {
        let names: Vec<Option<String>> =
            chosen("litmus").unwrap_or_default().iter().map(|s| s.bug().map(str::to_owned)).collect();
        let bugs = ["no-resample", "no-gpu-barrier", "no-cpu-barrier"].map(|bug| Some(bug.to_owned()));
        assert_eq!((&names[0], &names[1..]), (&None, &bugs[..]));
    }

    #[test]
    fn a_found_bug_is_replayed_and_drawn() {
        let bar = ProgressBar::hidden();
        let outcome = search(chosen("wake-word+no-barrier").unwrap_or_default()[0].as_ref(), false, &bar);
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
