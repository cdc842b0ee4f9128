//! Replay: a printed line is run twice. Both runs must meet the same states, and the line's
//! checksum at the end. The second run can be observed (a trace) and records its moves.

use crate::error::ExplorerError;
use crate::execution::{Runner, Trail};
use crate::planted::with_bug;
use crate::property::Failure;
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::strategy::Strategy;
use crate::strategy::replay::Replay;
use std::fmt;
use tidegate_platform::{AgentIx, Choice, Object, OpKind, Platform, Point, StepLog};

/// One choice of a replayed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// What happened.
    pub choice: Choice,
    /// What kind of step it was; for [`Choice::Flush`] that of the store.
    pub op: OpKind,
    /// What the step touched.
    pub object: Object,
    /// The agent that could have gone on and was left waiting.
    pub instead_of: Option<AgentIx>,
    /// Visible steps of the run before it.
    pub step: u64,
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let agent = self.choice.agent().0;
        write!(f, "agent {agent}: {}", self.in_words(&StepLog::default()))?;
        match self.instead_of {
            Some(other) => write!(f, " (agent {} could have gone on)", other.0),
            None => Ok(()),
        }
    }
}

impl Move {
    /// What the agent does, with the names that `log` has for what it touches.
    pub fn in_words(&self, log: &StepLog) -> String {
        match self.choice {
            Choice::Run(_) => step_in_words(self.op, self.object, log),
            Choice::Flush(_) => "its oldest store reaches memory".to_owned(),
            Choice::Find(_, value) => format!("finds {value:#x} where a hostile process writes"),
        }
    }
}

/// A step with the name that `log` has for what it touches.
pub fn step_in_words(op: OpKind, object: Object, log: &StepLog) -> String {
    let op = match op {
        OpKind::Start => "starts",
        OpKind::Load => "loads",
        OpKind::Store => "stores",
        OpKind::Exchange => "exchanges",
        OpKind::Add => "adds to",
        OpKind::Fence => "passes a barrier",
        OpKind::Lock => "takes",
        OpKind::Unlock => "releases",
        OpKind::Wait => "sleeps on",
        OpKind::Wake => "wakes the sleepers of",
        OpKind::Sleep => "sleeps",
    };
    match object {
        Object::None => op.to_owned(),
        object => format!("{op} {}", log.name_of(object)),
    }
}

/// What a replay came to.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The schedule that was replayed.
    pub schedule: Schedule,
    /// The scenario's sentence.
    pub about: String,
    /// How it failed; `None` if it did not: the bug is fixed, or the schedule was of a good run.
    pub failure: Option<Failure>,
    /// Visible steps.
    pub steps: u64,
    /// The choices of the run, in order.
    pub moves: Vec<Move>,
    /// Marks that the run reached.
    pub reached: Vec<&'static str>,
}

/// Replays a printed line; `lookup` finds scenarios by name.
pub fn replay(
    line: &str,
    lookup: &dyn Fn(&str) -> Option<Box<dyn Scenario>>,
) -> Result<Replayed, ExplorerError> {
    replay_observed(line, lookup, &mut |_| {}, &mut |_| {})
}

/// [`replay`] that passes the second run's platform to `before`, ahead of building its machine (to
/// switch tracing on), and to `after` once it has run (to take the trace).
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

    let mut runner = Runner::new(RecordedReplay::new(&schedule.choices), schedule.model);
    let platform = runner.machine();
    before(&platform);
    let prepared = scenario.prepare(&platform);
    let ran = runner.finish(&platform, prepared);
    if let Some(choice) = runner.trail(|t| t.parts_from(&first)) {
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

/// Runs the schedule once and holds it against the line.
fn first_run(scenario: &dyn Scenario, schedule: &Schedule) -> Result<Trail, ExplorerError> {
    let does_not_fit =
        |what: String| ExplorerError::DoesNotFit { scenario: scenario.name().to_owned(), what };
    let mut runner = Runner::new(Replay::new(&schedule.choices), schedule.model);
    runner.run(scenario);
    if let Some(choice) = runner.strategy(|s| s.misfit()) {
        return Err(does_not_fit(format!("choice {choice} is not there to be made")));
    }
    let trail = runner.trail(Trail::clone);
    match schedule.checksum {
        Some(sum) if sum != trail.checksum() => {
            Err(does_not_fit("it ends in another state".to_owned()))
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
        self.moves.push(Move { choice, op, object, instead_of, step: point.step });
        index
    }
}
