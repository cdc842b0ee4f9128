//! The report on a schedule that failed: its steps, with names and source lines, and the commands
//! that replay it.
//!
//! Steps that the program itself took have a line each. Steps of a call of the API have one line
//! until another thread moves, and so have steps of the machine's own agents. A `*` marks a step
//! before which the schedule switched.

use super::program::{Program, REPLAY, REPORT, TIMELINE};
use super::timeline;
use std::fmt::Write as _;
use tidegate_explorer::schedule::Schedule;
use tidegate_explorer::{Failure, Move, Replayed};
use tidegate_platform::{Site, StepLog};
use tidegate_trace::html;
use timeline::NumberedStep;

/// Lines of steps in a message. The last ones are kept.
const LINES: usize = 60;

/// A schedule that failed.
pub(super) struct Failed {
    name: String,
    line: String,
    failure: Failure,
    schedules: u64,
    story: String,
}

impl Failed {
    pub(super) fn of(
        program: &Program,
        schedule: &Schedule,
        failure: Failure,
        schedules: u64,
    ) -> Failed {
        let line = schedule.to_string();
        let lookup =
            |_: &str| Some(Box::new(program.clone()) as Box<dyn tidegate_explorer::Scenario>);
        // The steps are an explanation. A line that cannot be repeated is printed without them.
        let moves = tidegate_explorer::replay(&line, &lookup).map(|replayed| replayed.moves);
        let log = timeline::steps_of(program, schedule);
        let story = story(&log, schedule, &moves.unwrap_or_default());
        Failed { name: program.name.clone(), line, failure, schedules, story }
    }

    /// Returns the message, with commands for the test of this name.
    pub(super) fn in_words(&self, test: &str) -> String {
        let Failed { name, line, failure, schedules, story } = self;
        let cargo = cargo_command(test);
        format!(
            "check '{name}' fails in schedule {schedules}: {failure}\n\n{story}\n\
             replay it:     {REPLAY}='{line}' {cargo}\n\
             see its steps: tidegate replay --test '{cargo}' '{line}' --timeline steps.html\n"
        )
    }
}

/// The command that runs the test of this name.
fn cargo_command(test: &str) -> String {
    let package = std::env::var("CARGO_PKG_NAME").map(|name| format!(" -p {name}"));
    let package = package.unwrap_or_default();
    match test {
        "" | "main" => format!("cargo test{package}"),
        test => format!("cargo test{package} {test}"),
    }
}

/// Writes the steps and the timeline of a replay into the files that the environment names.
pub(super) fn write_files(program: &Program, replayed: &Replayed) {
    let schedule = &replayed.schedule;
    let verdict = match &replayed.failure {
        Some(failure) => format!("fails: {failure}"),
        None => "does not fail: nothing is wrong with this schedule".to_owned(),
    };
    if let Ok(path) = std::env::var(REPORT) {
        let log = timeline::steps_of(program, schedule);
        let story = story(&log, schedule, &replayed.moves);
        let text = format!("{}\n{story}\n{verdict}\n", schedule.scenario);
        written(&path, std::fs::write(&path, text));
    }
    if let Ok(path) = std::env::var(TIMELINE) {
        let command = format!("{REPLAY}='{schedule}'");
        let (trace, _) = timeline::record(program, schedule, &verdict, &command);
        let file = std::fs::File::create(&path);
        written(&path, file.and_then(|mut file| html::write(&trace, &mut file)));
    }
}

fn written(path: &str, result: std::io::Result<()>) {
    if let Err(error) = result {
        panic!("cannot write '{path}', which {REPORT} or {TIMELINE} names: {error}");
    }
}

/// The steps of a run, one line each. A line that stands for several steps has the first number.
fn story(log: &StepLog, schedule: &Schedule, moves: &[Move]) -> String {
    let mut lines: Vec<Line> = Vec::new();
    for step in &timeline::numbered(log, schedule, moves) {
        let (event, agent) = (&step.event, &log.agents[usize::from(step.event.agent.0)]);
        if event.site.is_some() && event.site.call().is_empty() {
            lines.push(Line::of(step, log, agent));
            continue;
        }
        match lines.last_mut() {
            Some(last) if last.below > 0 && last.agent == *agent && last.site == event.site => {
                last.below += 1;
                last.is_turn |= step.is_turn;
            }
            _ => lines.push(Line::below(step, agent)),
        }
    }
    let width = lines.iter().map(|line| line.agent.len()).max().unwrap_or(0).max("thread".len());
    let mut text = format!("  {:>6}  {:width$}  what\n", "step", "thread");
    if lines.len() > LINES {
        let _ = writeln!(text, "          ({} lines before)", lines.len() - LINES);
    }
    for line in &lines[lines.len().saturating_sub(LINES)..] {
        let mark = if line.is_turn { '*' } else { ' ' };
        let what = line.what();
        let _ = writeln!(text, "{mark} {:>6}  {:width$}  {what}", line.step, line.agent);
    }
    text
}

struct Line {
    /// The number of its first step.
    step: usize,
    agent: String,
    what: String,
    is_turn: bool,
    site: Site,
    /// The number of steps of a call or of an agent of the machine; 0 for a step of the program.
    below: u64,
}

impl Line {
    fn of(step: &NumberedStep, log: &StepLog, agent: &str) -> Line {
        let NumberedStep { number, event, is_turn, .. } = step;
        let what = timeline::event_in_words(event, log);
        let what = format!("{what}, at {}", event.site.place());
        let (agent, site) = (agent.to_owned(), event.site);
        Line { step: *number, agent, what, is_turn: *is_turn, site, below: 0 }
    }

    fn below(step: &NumberedStep, agent: &str) -> Line {
        let (agent, what, site) = (agent.to_owned(), String::new(), step.event.site);
        Line { step: step.number, agent, what, is_turn: step.is_turn, site, below: 1 }
    }

    fn what(&self) -> String {
        let steps = match self.below {
            0 => return self.what.clone(),
            1 => "1 step".to_owned(),
            steps => format!("{steps} steps"),
        };
        match self.site.call() {
            "" => format!("({steps} below the API)"),
            call => format!("{call} ({steps}), at {}", self.site.place()),
        }
    }
}
