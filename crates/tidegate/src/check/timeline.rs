//! A schedule as a timeline: each agent has a lane with its steps, and the clock counts them.
//!
//! Invariant: a step has one number, its place in the log. Pages, replays and failed checks print
//! that number, for stores and flushes too.
//!
//! Entry points: [`record`], which runs a schedule again with recording on, and [`numbered`]. Only
//! a run has the names of its agents, so there are two runs: one for the names, one for the
//! records.

use std::collections::HashMap;
use std::fmt::Write as _;
use tidegate_explorer::schedule::Schedule;
use tidegate_explorer::strategy::replay::Replay;
use tidegate_explorer::{Choice, Failure, Move, Scenario, machine, step_in_words};
use tidegate_platform::{AgentIx, Happened, Platform, StepEvent, StepLog};
use tidegate_trace::{Kind, LaneId, LaneKind, LinkId, Record, Trace};

/// Runs `schedule` again with recording on. Returns its timeline, on which each agent has a lane
/// with its steps, and the log of steps. `verdict` is at the end, and `replay` is the command
/// that repeats it.
pub fn record(
    scenario: &dyn Scenario,
    schedule: &Schedule,
    verdict: &str,
    replay: &str,
) -> (Trace, StepLog) {
    // The agents' lanes come first, and only a run has the names of agents.
    let (_, _, named) = recorded(scenario, schedule, &[]);
    let (platform, lanes, log) = recorded(scenario, schedule, &named.agents);
    record_steps(&platform, &lanes, &log);
    if let Some(last) = log.events.last() {
        let (lane, name) = (lanes[usize::from(last.agent.0)], platform.trace_name(verdict));
        platform.record(Record::instant(lane, Kind::Mark, name, log.events.len() as u64));
    }
    let name = schedule.bug.as_ref().map_or_else(String::new, |bug| format!("+{bug}"));
    let mut trace =
        platform.take_trace(&format!("{}{name}: {}", schedule.scenario, scenario.about()));
    trace.verdict = vec![verdict.to_owned(), replay.to_owned()];
    (trace, log)
}

/// Runs `schedule` again and returns its log of steps.
pub fn steps_of(scenario: &dyn Scenario, schedule: &Schedule) -> StepLog {
    recorded(scenario, schedule, &[]).2
}

/// Runs `schedule` again, whatever the state, and returns its failure.
pub fn failure_of(scenario: &dyn Scenario, schedule: &Schedule) -> Option<Failure> {
    let platform = machine(Replay::new(&schedule.choices), schedule.model);
    scenario.prepare(&platform).run(&platform).1
}

/// A run of the schedule with recording on: its machine, the lanes of the agents, the log of steps.
fn recorded(
    scenario: &dyn Scenario,
    schedule: &Schedule,
    agents: &[String],
) -> (Platform, Vec<LaneId>, StepLog) {
    let platform = machine(Replay::new(&schedule.choices), schedule.model);
    platform.enable_tracing();
    let lane = |name: &String| platform.lane(LaneKind::CpuThread, "schedule", name);
    let lanes = agents.iter().map(lane).collect();
    let prepared = scenario.prepare(&platform);
    // This run is for its records only.
    let _again = prepared.run(&platform);
    let log = platform.take_steps();
    (platform, lanes, log)
}

/// Puts each event of the log on the lane of its agent. A store and the moment at which every agent
/// sees it are linked.
fn record_steps(platform: &Platform, lanes: &[LaneId], log: &StepLog) {
    let mut links: HashMap<u32, LinkId> = HashMap::new();
    for (at, event) in (0..).zip(&log.events) {
        let (kind, link) = match event.what {
            Happened::Step(_) => (Kind::Step, LinkId::NONE),
            Happened::Buffered(store) => {
                (Kind::Store, *links.entry(store).or_insert_with(|| platform.new_link()))
            }
            Happened::Visible(store) => {
                (Kind::Flush, links.get(&store).copied().unwrap_or_default())
            }
        };
        let mut text = event_in_words(event, log);
        if event.site.is_some() {
            let call = event.site.call();
            let call = if call.is_empty() { String::new() } else { format!("{call}, ") };
            let _ = write!(text, " ({call}{})", event.site.place());
        }
        let lane = lanes[usize::from(event.agent.0)];
        let record = Record::span(lane, kind, platform.trace_name(&text), at, at + 1);
        platform.record(record.linked(link).with_arg(event.value.unwrap_or(0)));
    }
}

/// A step of a replay, with its number on the timeline.
#[derive(Clone, Debug)]
pub struct NumberedStep {
    /// Its place in the log.
    pub number: usize,
    /// The step.
    pub event: StepEvent,
    /// The schedule made another choice than the first before it.
    pub is_turn: bool,
    /// The agent that was preempted by it.
    pub instead_of: Option<AgentIx>,
    /// Values that it found in hostile memory.
    pub found: Vec<u64>,
}

/// The steps of a log in order, with the moves of `schedule` that chose them. A move without a step
/// in the log, such as the start of an agent, chooses none.
pub fn numbered(log: &StepLog, schedule: &Schedule, moves: &[Move]) -> Vec<NumberedStep> {
    let unchosen = |(number, event): (usize, &StepEvent)| NumberedStep {
        number,
        event: *event,
        is_turn: false,
        instead_of: None,
        found: Vec::new(),
    };
    let mut steps: Vec<NumberedStep> = log.events.iter().enumerate().map(unchosen).collect();
    let mut at = 0;
    for (index, step) in moves.iter().enumerate() {
        let is_flush = matches!(step.choice, Choice::Flush(_));
        let is_found = matches!(step.choice, Choice::Find(..));
        let chose = |event: &StepEvent| {
            let flushed = matches!(event.what, Happened::Visible(_));
            let same = event.agent == step.choice.agent() && event.step == step.step;
            same && (flushed == is_flush || is_found)
        };
        let Some(ahead) = steps[at..].iter().position(|step| chose(&step.event)) else { continue };
        let chosen = &mut steps[at + ahead];
        if let Choice::Find(_, value) = step.choice {
            chosen.found.push(value);
            continue;
        }
        chosen.is_turn = schedule.choices.get(index).is_some_and(|choice| *choice != 0);
        chosen.instead_of = step.instead_of;
        at += ahead + 1;
    }
    steps
}

/// Describes an event with the names of `log`, and the value that it loaded or stored.
pub fn event_in_words(event: &StepEvent, log: &StepLog) -> String {
    let object = || log.name_of(event.object);
    let mut text = match event.what {
        Happened::Step(op) => step_in_words(op, event.object, log),
        Happened::Buffered(_) => format!("stores {} (in its store buffer)", object()),
        Happened::Visible(_) => format!("{} is visible", object()),
    };
    if let Some(value) = event.value {
        let _ = write!(text, ": {}", value_in_words(value));
    }
    text
}

/// Small numbers are counts; large ones are bit patterns.
fn value_in_words(value: u64) -> String {
    match value {
        u64::MAX => "maximum".to_owned(),
        0..=0xFFFF_FFFF => value.to_string(),
        _ => format!("{value:#x}"),
    }
}
