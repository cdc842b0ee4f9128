//! `tidegate replay`: runs a printed schedule again, prints its choices, and draws it as a timeline
//! of steps.
//!
//! Two more runs with recording make the timeline and the names of agents and of touched objects.
//! They repeat the choices whatever the state.

use super::selection::{named, unknown_scenario};
use crate::output::{self, Outputs};
use crate::streams::{errln, outln};
use crate::{BadInput, End, arguments};
use std::collections::HashMap;
use std::fmt::Write as _;
use tidegate::Platform;
use tidegate::explorer::schedule::Schedule;
use tidegate::explorer::strategy::replay::Replay;
use tidegate::explorer::{
    ExplorerError, MemoryModel, Move, Replayed, machine, replay, step_in_words,
};
use tidegate::platform::{Happened, StepLog};
use tidegate::trace::{Kind, LaneId, LaneKind, LinkId, Record, Trace, html};
use tidegate_scenarios::find;

/// `tidegate replay`.
pub(crate) fn command(arguments: &arguments::Replay) -> Result<End, BadInput> {
    let outputs = Outputs::check(&[("--timeline", arguments.timeline.as_deref())])?;
    let replayed = match replay(&arguments.line, &|name| find(name)) {
        Ok(replayed) => replayed,
        Err(error @ ExplorerError::NotDeterministic { .. }) => {
            errln!("{error}");
            return Ok(End::Wrong);
        }
        Err(ExplorerError::UnknownScenario(name)) => return Err(unknown_scenario(&name)),
        Err(error) => return Err(BadInput(error.to_string())),
    };
    let (trace, log) = traced(&replayed)?;
    if !outputs.take_stdout() {
        print_replayed(&replayed, &log);
    }
    if let Some(path) = &arguments.timeline {
        output::write(path, |out| html::write(&trace, out))?;
        if !outputs.take_stdout() {
            outln!("timeline: {} (its clock counts steps)", path.display());
        }
    }
    Ok(if replayed.failure.is_some() { End::Wrong } else { End::Right })
}

fn print_replayed(replayed: &Replayed, log: &StepLog) {
    let schedule = &replayed.schedule;
    outln!("{}: {}", schedule.scenario, replayed.about);
    if let Some(bug) = &schedule.bug {
        let scenario = find(&schedule.scenario);
        let about =
            scenario.and_then(|s| s.planted().iter().find(|p| p.name == *bug).map(|p| p.about));
        outln!("planted bug {bug}: {}", about.unwrap_or_default());
    }
    let buffers = match schedule.model {
        MemoryModel::TotalStoreOrder => "stores wait in store buffers (tso)",
        MemoryModel::SequentiallyConsistent => "every store is visible at once (sc)",
    };
    let (choices, turns) = (replayed.moves.len(), schedule.turns());
    outln!("{buffers}; {} steps, {choices} choices, {turns} of them turns (*)\n", replayed.steps);
    let names = &log.agents;
    let width = names.iter().map(|n| n.len()).max().unwrap_or(0).max("agent 99".len());
    outln!("  {:>5}  {:width$}  what", "step", "agent");
    for (index, step) in replayed.moves.iter().enumerate() {
        let turned = schedule.choices.get(index).is_some_and(|choice| *choice != 0);
        let mark = if turned { '*' } else { ' ' };
        outln!(
            "{mark} {:>5}  {:width$}  {}",
            step.step,
            agent(names, step),
            what(names, step, log)
        );
    }
    outln!("\n{}", verdict_of(replayed));
}

fn name_of(names: &[String], number: u16) -> String {
    names.get(usize::from(number)).cloned().unwrap_or_else(|| format!("agent {number}"))
}

fn agent(names: &[String], step: &Move) -> String {
    name_of(names, step.choice.agent().0)
}

/// Describes a move, with the names of `log` for agents and touched objects.
fn what(names: &[String], step: &Move, log: &StepLog) -> String {
    let text = step.in_words(log);
    match step.instead_of {
        Some(other) => format!("{text} ({} was runnable)", name_of(names, other.0)),
        None => text,
    }
}

/// Runs the schedule again with recording on. Returns its timeline, on which each agent has a lane
/// with its steps, and the log of steps. The clock counts the events of that log.
fn traced(replayed: &Replayed) -> Result<(Trace, StepLog), BadInput> {
    let schedule = &replayed.schedule;
    // The agents' lanes come first, and only a run has the names of agents.
    let (_, _, named) = recorded(schedule, &[])?;
    let (platform, lanes, log) = recorded(schedule, &named.agents)?;
    record_steps(&platform, &lanes, &log);
    let verdict = verdict_of(replayed);
    if let Some(last) = log.events.last() {
        let (lane, name) = (lanes[usize::from(last.agent.0)], platform.trace_name(&verdict));
        platform.record(Record::instant(lane, Kind::Mark, name, log.events.len() as u64));
    }
    let name = schedule.bug.as_ref().map_or_else(String::new, |bug| format!("+{bug}"));
    let mut trace =
        platform.take_trace(&format!("{}{name}: {}", schedule.scenario, replayed.about));
    trace.verdict = vec![verdict, format!("tidegate replay '{schedule}'")];
    Ok((trace, log))
}

/// A run of the schedule with recording on: its machine, the lanes of the agents, the log of steps.
fn recorded(
    schedule: &Schedule,
    agents: &[String],
) -> Result<(Platform, Vec<LaneId>, StepLog), BadInput> {
    let scenario = named(&schedule.scenario, schedule.bug.as_deref())?;
    let platform = machine(Replay::new(&schedule.choices), schedule.model);
    platform.enable_tracing();
    let lane = |name: &String| platform.lane(LaneKind::CpuThread, "schedule", name);
    let lanes = agents.iter().map(lane).collect();
    let prepared = scenario.prepare(&platform);
    // This run is for its records only.
    let _again = prepared.run(&platform);
    let log = platform.take_steps();
    Ok((platform, lanes, log))
}

/// The result of the replay, for the last line of the output.
fn verdict_of(replayed: &Replayed) -> String {
    match &replayed.failure {
        Some(failure) => format!("fails: {failure}"),
        None => "does not fail: nothing is wrong with this schedule".to_owned(),
    }
}

/// Puts each event of the log on the lane of its agent. A store and the moment at which every agent
/// sees it are linked.
fn record_steps(platform: &Platform, lanes: &[LaneId], log: &StepLog) {
    let mut links: HashMap<u32, LinkId> = HashMap::new();
    for (at, event) in (0..).zip(&log.events) {
        let object = || log.name_of(event.object);
        let (kind, mut text, link) = match event.what {
            Happened::Step(op) => (Kind::Step, step_in_words(op, event.object, log), LinkId::NONE),
            Happened::Buffered(store) => {
                let link = *links.entry(store).or_insert_with(|| platform.new_link());
                (Kind::Store, format!("stores {}", object()), link)
            }
            Happened::Visible(store) => {
                let link = links.get(&store).copied().unwrap_or_default();
                (Kind::Flush, format!("{} is visible", object()), link)
            }
        };
        if let Some(value) = event.value {
            let _ = write!(text, ": {}", value_in_words(value));
        }
        let lane = lanes[usize::from(event.agent.0)];
        let record = Record::span(lane, kind, platform.trace_name(&text), at, at + 1);
        platform.record(record.linked(link).with_arg(event.value.unwrap_or(0)));
    }
}

/// Small numbers are counts; large ones are bit patterns.
fn value_in_words(value: u64) -> String {
    match value {
        u64::MAX => "maximum".to_owned(),
        0..=0xFFFF_FFFF => value.to_string(),
        _ => format!("{value:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Progress, search, select};
    use super::*;
    use tidegate::explorer::Report;
    use tidegate::trace::{ClockName, FlowKind};

    #[test]
    fn a_found_bug_is_replayed_and_drawn() {
        let Ok(selection) = select(Some("wake-word+no-barrier")) else { panic!("it is there") };
        let outcome = search(selection.searches[0].as_ref(), false, &Progress::new(1, false));
        assert!(outcome.is_right());
        let Ok(Report { failure: Some(found), .. }) = &outcome.searched else {
            panic!("it is found")
        };
        let replayed = tidegate::explorer::replay(&found.shrunk_line, &|name| find(name)).unwrap();
        assert_eq!(replayed.failure.as_ref(), Some(&found.failure));
        let (trace, log) = traced(&replayed).unwrap_or_else(|BadInput(text)| panic!("{text}"));
        let lanes: Vec<&str> = trace.lanes.iter().map(|lane| lane.name.as_str()).collect();
        assert_eq!(lanes, ["main", "engine"]);
        assert_eq!(trace.clock, ClockName::Steps);
        // Each event is one unit long, none hides another, and the verdict stands at the end.
        assert_eq!(trace.records.len(), log.events.len() + 1);
        let starts: Vec<u64> = trace.records.iter().map(|record| record.start_ns).collect();
        assert_eq!(starts, (0..=log.events.len() as u64).collect::<Vec<_>>());
        let verdict = format!("fails: {}", found.failure);
        assert_eq!(trace.name_of(trace.records.last().unwrap()), verdict);
        assert_eq!(trace.verdict, [verdict, format!("tidegate replay '{}'", found.shrunk_line)]);
        // The bug is a store that waits in the buffer while the next load goes to memory: an arrow
        // shows for how long.
        let named: Vec<&str> = trace.records.iter().map(|record| trace.name_of(record)).collect();
        assert!(!named.iter().any(|name| name.contains(" of page ")), "{named:?}");
        let flow = trace
            .flows()
            .into_iter()
            .find(|f| f.kind == FlowKind::Flush)
            .expect("a store is flushed");
        let (store, flush) = (&trace.records[flow.from], &trace.records[flow.to]);
        assert!(store.start_ns + 1 < flush.start_ns, "the store waits: {named:?}");
        let text: Vec<String> = replayed.moves.iter().map(|step| what(&[], step, &log)).collect();
        assert!(!text.iter().any(|line| line.contains(" of page ")), "{text:?}");
    }
}
