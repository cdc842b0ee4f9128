//! `tidegate replay`: runs a printed schedule again, prints its steps, and draws it as a timeline
//! of the same steps.
//!
//! Two more runs with recording make the timeline and the names of agents and of touched objects.
//! They repeat the choices whatever the state. A line of a check is replayed by its test
//! (`of_test`).

use super::of_test;
use super::selection::{named, unknown_scenario};
use crate::output::Outputs;
use crate::streams::{errln, outln};
use crate::{BadInput, End, arguments};
use std::fmt::Write as _;
use tidegate::check::timeline::{self, NumberedStep};
use tidegate::explorer::{ExplorerError, MemoryModel, Replayed, replay};
use tidegate::platform::{AgentIx, StepLog};
use tidegate::trace::{Trace, html};
use tidegate_scenarios::find;
use tidegate_swarm::line::{BadReplayLine, ReplayLine};

/// `tidegate replay`.
pub(crate) fn command(arguments: &arguments::Replay, outputs: &Outputs) -> Result<End, BadInput> {
    if let Some(command) = &arguments.test {
        return of_test::replay(arguments, command, outputs);
    }
    if ReplayLine::is_meant_by(&arguments.line) {
        return of_swarm(arguments, outputs);
    }
    let replayed = match replay(&arguments.line, &|name| find(name)) {
        Ok(replayed) => replayed,
        Err(error @ ExplorerError::NotDeterministic { .. }) => {
            errln!("{error}");
            return Ok(End::Wrong);
        }
        Err(ExplorerError::UnknownScenario(name)) => return Err(no_scenario(&name)),
        Err(error) => return Err(BadInput(error.to_string())),
    };
    let (trace, log) = traced(&replayed)?;
    if !outputs.take_stdout() {
        print_replayed(&replayed, &log);
    }
    if let Some(path) = &arguments.timeline {
        outputs.write(path, |out| html::write(&trace, out))?;
        if !outputs.take_stdout() {
            outln!("the clock of the timeline counts steps");
        }
    }
    Ok(if replayed.failure.is_some() { End::Wrong } else { End::Right })
}

/// Replays a line of the swarm: a program, with or without a schedule.
fn of_swarm(arguments: &arguments::Replay, outputs: &Outputs) -> Result<End, BadInput> {
    let line: ReplayLine =
        arguments.line.parse().map_err(|e: BadReplayLine| BadInput(e.to_string()))?;
    let traced = arguments.timeline.is_some();
    let executable = std::env::current_exe().map_err(|e| BadInput(e.to_string()))?;
    let rerun = line.replay(arguments.once, traced, &executable);
    let rerun = rerun.map_err(|e| BadInput(e.to_string()))?;
    if let (Some(path), Some(trace)) = (&arguments.timeline, &rerun.trace) {
        outputs.write(path, |out| html::write(trace, out))?;
    }
    if !outputs.take_stdout() {
        outln!("{}", line.program);
        if let Some((replayed, log)) = &rerun.schedule {
            print_steps(replayed, log);
        }
        match &rerun.failure {
            Some(failure) => outln!("fails: {failure}"),
            None => outln!("does not fail"),
        }
    }
    Ok(if rerun.failure.is_some() { End::Wrong } else { End::Right })
}

/// A line of a check names no scenario of this program.
fn no_scenario(name: &str) -> BadInput {
    let BadInput(text) = unknown_scenario(name);
    BadInput(format!(
        "{text}; a line of tidegate::check is replayed by its test: --test 'cargo test NAME'"
    ))
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
    print_steps(replayed, log);
    outln!("{}", verdict_of(replayed));
}

/// Prints every step of a schedule, numbered as on its timeline: stores that enter a buffer, the
/// moments in which they leave it, and the values.
fn print_steps(replayed: &Replayed, log: &StepLog) {
    let schedule = &replayed.schedule;
    let buffers = match schedule.model {
        MemoryModel::TotalStoreOrder => "stores wait in store buffers (tso)",
        MemoryModel::SequentiallyConsistent => "every store is visible at once (sc)",
    };
    let (choices, turns) = (replayed.moves.len(), schedule.turns());
    let steps = timeline::numbered(log, schedule, &replayed.moves);
    outln!("{buffers}; {} steps, {choices} choices, {turns} of them turns (*)\n", steps.len());
    let names = &log.agents;
    let width = names.iter().map(|n| n.len()).max().unwrap_or(0).max("agent 99".len());
    outln!("  {:>5}  {:width$}  what", "step", "agent");
    for step in &steps {
        let mark = if step.is_turn { '*' } else { ' ' };
        let agent = name_of(names, step.event.agent);
        outln!("{mark} {:>5}  {agent:width$}  {}", step.number, what(step, log));
    }
    outln!();
}

fn name_of(names: &[String], agent: AgentIx) -> String {
    names.get(usize::from(agent.0)).cloned().unwrap_or_else(|| format!("agent {}", agent.0))
}

/// Describes a step: what it did, what it found in hostile memory, and the agent that could run.
fn what(step: &NumberedStep, log: &StepLog) -> String {
    let mut text = timeline::event_in_words(&step.event, log);
    for value in &step.found {
        let _ = write!(text, ", finds {value:#x} in hostile memory");
    }
    if let Some(other) = step.instead_of {
        let _ = write!(text, " ({} was runnable)", name_of(&log.agents, other));
    }
    text
}

/// Runs the schedule again with recording on. Returns its timeline, on which each agent has a lane
/// with its steps, and the log of steps. The clock counts the events of that log.
fn traced(replayed: &Replayed) -> Result<(Trace, StepLog), BadInput> {
    let schedule = &replayed.schedule;
    let scenario = named(&schedule.scenario, schedule.bug.as_deref())?;
    let command = format!("tidegate replay '{schedule}'");
    Ok(timeline::record(scenario.as_ref(), schedule, &verdict_of(replayed), &command))
}

/// The result of the replay, for the last line of the output.
fn verdict_of(replayed: &Replayed) -> String {
    match &replayed.failure {
        Some(failure) => format!("fails: {failure}"),
        None => "does not fail: nothing is wrong with this schedule".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Interrupt, Progress, search, select};
    use super::*;
    use tidegate::explorer::Report;
    use tidegate::trace::{ClockName, FlowKind};

    #[test]
    fn a_found_bug_is_replayed_and_drawn() {
        let Ok(selection) = select(Some("wake-word+no-barrier")) else { panic!("it is there") };
        let Ok(interrupt) = Interrupt::new() else { panic!("signals can be taken over") };
        let progress = Progress::new(1, false);
        let outcome = search(selection.searches[0].as_ref(), false, &progress, &interrupt);
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
        // Each event is one unit long, none hides another, and the verdict is at the end.
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
        // The printed steps are the timeline's, with its numbers: the racing store, its
        // flush, and each value.
        let steps = timeline::numbered(&log, &replayed.schedule, &replayed.moves);
        let text: Vec<String> = steps.iter().map(|step| what(step, &log)).collect();
        for (step, record) in steps.iter().zip(&trace.records) {
            assert_eq!(step.number as u64, record.start_ns);
            assert!(text[step.number].starts_with(trace.name_of(record)), "{text:?}");
        }
        let wanted = [
            "stores the doorbell (in its store buffer): 1",
            "loads the wake word: 0",
            "loads the doorbell: 0",
            "exchanges the wake word: 1",
            "loads the doorbell: 0",
            "sleeps on the wake word",
            "the doorbell is visible: 1",
        ];
        assert_eq!(text, wanted);
    }
}
