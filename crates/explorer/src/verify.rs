//! Replay of a printed line. It is run twice. Both runs must reach the same states, and the line's
//! checksum at the end. The second run can be traced and records its moves.

use crate::error::ExplorerError;
use crate::execution::{Runner, Trail};
use crate::planted::with_bug;
use crate::property::Failure;
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::strategy::Strategy;
use crate::strategy::replay::Replay;
use std::fmt;
use tidegate_platform::{AgentIx, Choice, Object, OpKind, Platform, Point, Site, StepLog};

/// One move of a replayed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The choice.
    pub choice: Choice,
    /// The kind of step; for [`Choice::Flush`], the kind of the store.
    pub op: OpKind,
    /// The object that the step accesses.
    pub object: Object,
    /// The agent that was preempted by this move.
    pub instead_of: Option<AgentIx>,
    /// Number of visible steps of the run before it.
    pub step: u64,
    /// The place in the program of the step, if the program named one.
    pub site: Site,
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let agent = self.choice.agent().0;
        write!(f, "agent {agent}: {}", self.in_words(&StepLog::default()))?;
        match self.instead_of {
            Some(other) => write!(f, " (agent {} was runnable)", other.0),
            None => Ok(()),
        }
    }
}

impl Move {
    /// Describes the agent's step, with the object names of `log`.
    pub fn in_words(&self, log: &StepLog) -> String {
        match self.choice {
            Choice::Run(_) => step_in_words(self.op, self.object, log),
            Choice::Flush(_) => "its oldest store reaches memory".to_owned(),
            Choice::Find(_, value) => format!("finds {value:#x} in hostile memory"),
        }
    }
}

/// Describes a step, with the object names of `log`.
pub fn step_in_words(op: OpKind, object: Object, log: &StepLog) -> String {
    let op = match op {
        OpKind::Start => "starts",
        OpKind::Load => "loads",
        OpKind::Store => "stores",
        OpKind::Exchange => "exchanges",
        OpKind::Add => "adds to",
        OpKind::Fence => "executes a barrier",
        OpKind::FenceOfAgents => "has all agents execute a barrier",
        OpKind::Lock => "takes",
        OpKind::TryLock => "tries to take",
        OpKind::Unlock => "releases",
        OpKind::Wait => "sleeps on",
        OpKind::Wake => "wakes waiters of",
        OpKind::Sleep => "sleeps",
    };
    match object {
        Object::None => op.to_owned(),
        object => format!("{op} {}", log.name_of(object)),
    }
}

/// The result of a replay.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The schedule that was replayed.
    pub schedule: Schedule,
    /// The scenario's description.
    pub about: String,
    /// The failure; `None` if the bug is fixed or the schedule was of a good run.
    pub failure: Option<Failure>,
    /// Number of visible steps.
    pub steps: u64,
    /// The moves of the run.
    pub moves: Vec<Move>,
    /// Marks that the run reached.
    pub reached: Vec<&'static str>,
}

/// Replays a printed line. `lookup` finds scenarios by name.
///
/// # Errors
/// Returns an error if the line is not a schedule, or if it does not fit the scenario.
pub fn replay(
    line: &str,
    lookup: &dyn Fn(&str) -> Option<Box<dyn Scenario>>,
) -> Result<Replayed, ExplorerError> {
    replay_observed(line, lookup, &mut |_| {}, &mut |_| {})
}

/// As [`replay`], with access to the second run's platform: `before` is called ahead of building
/// its machine (to enable tracing), `after` once it has run (to take the trace).
pub fn replay_observed(
    line: &str,
    lookup: &dyn Fn(&str) -> Option<Box<dyn Scenario>>,
    before: &mut dyn FnMut(&Platform),
    after: &mut dyn FnMut(&Platform),
) -> Result<Replayed, ExplorerError> {
    let schedule: Schedule = line.parse()?;
    let name = schedule.scenario.as_str();
    let plain = lookup(name).ok_or_else(|| ExplorerError::UnknownScenario(name.to_owned()))?;
    let scenario = match &schedule.bug {
        Some(bug) => with_bug(plain.as_ref(), bug)?,
        None => plain,
    };
    let first = first_run(scenario.as_ref(), &schedule)?;

    let replay = RecordedReplay::new(&schedule.choices);
    let mut runner = Runner::new(replay, schedule.model).keep_states();
    let platform = runner.machine();
    before(&platform);
    let prepared = scenario.prepare(&platform);
    let ran = runner.finish(&platform, prepared);
    if let Some(choice) = runner.trail(|t| t.diverges_from(&first)) {
        return Err(ExplorerError::NotDeterministic { scenario: name.to_owned(), choice });
    }
    after(&platform);
    let moves = runner.strategy(|s| std::mem::take(&mut s.moves));
    let about = scenario.about().to_owned();
    Ok(Replayed {
        schedule,
        about,
        failure: ran.failure,
        steps: ran.steps,
        moves,
        reached: runner.reached,
    })
}

/// Runs the schedule once and compares it with the line.
fn first_run(scenario: &dyn Scenario, schedule: &Schedule) -> Result<Trail, ExplorerError> {
    let does_not_fit =
        |what: String| ExplorerError::DoesNotFit { scenario: scenario.name().to_owned(), what };
    let replay = Replay::new(&schedule.choices);
    let mut runner = Runner::new(replay, schedule.model).keep_states();
    runner.run(scenario);
    if let Some(choice) = runner.strategy(|s| s.misfit()) {
        return Err(does_not_fit(format!("choice {choice} is not available")));
    }
    let trail = runner.trail(Trail::clone);
    match schedule.checksum {
        Some(sum) if sum != trail.checksum() => {
            Err(does_not_fit("it ends in a different state".to_owned()))
        }
        _ => Ok(trail),
    }
}

/// A replay that records its moves.
struct RecordedReplay {
    replay: Replay,
    moves: Vec<Move>,
}

impl RecordedReplay {
    fn new(choices: &[u16]) -> RecordedReplay {
        RecordedReplay { replay: Replay::new(choices), moves: Vec::new() }
    }
}

impl Strategy for RecordedReplay {
    fn begin(&mut self) -> bool {
        self.replay.begin()
    }

    fn choose(&mut self, point: &Point<'_>) -> usize {
        let index = self.replay.choose(point);
        let choice = point.choices[index];
        let (op, object) = point.agents.step(choice);
        let agent = choice.agent();
        let instead_of = point.current.filter(|c| *c != agent);
        let site = point.agents.site(choice);
        self.moves.push(Move { choice, op, object, instead_of, step: point.step, site });
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_a_verb_and_the_name_of_its_object() {
        let (log, word) = (StepLog::default(), Object::Word { page: 1, index: 2 });
        let steps = [
            (OpKind::Start, Object::None, "starts"),
            (OpKind::Load, word, "loads word 2 of page 1"),
            (OpKind::Store, word, "stores word 2 of page 1"),
            (OpKind::Exchange, word, "exchanges word 2 of page 1"),
            (OpKind::Add, word, "adds to word 2 of page 1"),
            (OpKind::Fence, Object::None, "executes a barrier"),
            (OpKind::FenceOfAgents, Object::None, "has all agents execute a barrier"),
            (OpKind::Lock, Object::Mutex(3), "takes lock 3"),
            (OpKind::TryLock, Object::Mutex(3), "tries to take lock 3"),
            (OpKind::Unlock, Object::Mutex(3), "releases lock 3"),
            (OpKind::Wait, word, "sleeps on word 2 of page 1"),
            (OpKind::Wake, word, "wakes waiters of word 2 of page 1"),
            (OpKind::Sleep, Object::None, "sleeps"),
        ];
        for (op, object, text) in steps {
            assert_eq!(step_in_words(op, object, &log), text);
        }
    }
}
