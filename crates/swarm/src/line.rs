//! A failure as one line: `swarm/WHERE | PROGRAM`.
//!
//! WHERE is `virtual`, `threads`, `processes`, the schedule of an explored run
//! (`tso/pct-3:3A2B-1k9x2f`), or
//! `sampled-SEED`: schedules that are sampled again.
//!
//! Entry points: [`ReplayLine`], [`ReplayLine::replay`].

use crate::clients;
use crate::coverage::Coverage;
use crate::failure::Failure;
use crate::program::{BadProgram, Program};
use crate::run::{self, ProgramScenario};
use crate::threads;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use tidegate::Platform;
use tidegate::check::timeline;
use tidegate::explorer::{self, ExplorerError, Replayed, Scenario};
use tidegate::platform::StepLog;
use tidegate::trace::Trace;

/// Runs of a replay on threads or in processes, whose schedule is not repeated.
pub const RUNS_ON_THE_HOST: u32 = 200;
/// Schedules of a program whose line has none, or one of other code.
const SAMPLES: u64 = 200;

/// Where a program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where {
    /// In virtual time.
    Virtual,
    /// On threads.
    Threads,
    /// In processes.
    Processes,
    /// Under this schedule.
    Explored(String),
    /// Under sampled schedules of this seed.
    Sampled(u64),
}

/// A program and where it fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayLine {
    /// Where it runs.
    pub on: Where,
    /// The program.
    pub program: Program,
}

/// A line that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadReplayLine {
    /// The form is wrong.
    #[error(
        "a line of the swarm is 'swarm/WHERE | PROGRAM', where WHERE is virtual, threads, processes, \
         a schedule or sampled-SEED"
    )]
    Form,
    /// The program is wrong.
    #[error("the program: {0}")]
    Program(#[from] BadProgram),
    /// A step blocks, or names what is not there.
    #[error("the model does not admit step {step} ('{text}'): {why}")]
    Model {
        /// Number of the step, counted from 1.
        step: usize,
        /// The step.
        text: String,
        /// The rule.
        why: &'static str,
    },
}

/// A run of a line.
#[derive(Default)]
pub struct Rerun {
    /// What is wrong, if anything is.
    pub failure: Option<Failure>,
    /// The timeline, if it was asked for.
    pub trace: Option<Trace>,
    /// The steps of a schedule with the names of what they touch, for a line with one.
    pub schedule: Option<(Replayed, StepLog)>,
}

impl ReplayLine {
    /// Returns whether the text is meant as a line of the swarm.
    pub fn is_meant_by(line: &str) -> bool {
        line.trim_start().starts_with("swarm/")
    }

    /// Runs the program again. The run has a timeline if it is `traced`. On threads and in
    /// processes it runs up to [`RUNS_ON_THE_HOST`] times, or `once`. Its clients are processes of
    /// `executable`.
    ///
    /// # Errors
    /// A schedule that does not fit the program any more.
    pub fn replay(
        &self,
        once: bool,
        traced: bool,
        executable: &Path,
    ) -> Result<Rerun, ExplorerError> {
        let program = Arc::new(self.program.clone());
        match &self.on {
            Where::Virtual => {
                let platform = run::virtual_platform(&program);
                Ok(self.replay_on(&platform, &program, (traced, executable)))
            }
            Where::Threads | Where::Processes => {
                // The last run is the one that fails, or one of many that do not.
                let mut last = Rerun::default();
                for _ in 0..if once { 1 } else { RUNS_ON_THE_HOST } {
                    let platform = threads::platform(&program);
                    last = self.replay_on(&platform, &program, (traced, executable));
                    if last.failure.is_some() {
                        break;
                    }
                }
                Ok(last)
            }
            Where::Explored(schedule) => self.replay_schedule(schedule, &program, traced),
            Where::Sampled(seed) => {
                let sampled = run::sample(&program, *seed, SAMPLES, &mut Coverage::default());
                let failure = sampled.map(|sampled| sampled.failure);
                Ok(Rerun { failure, ..Rerun::default() })
            }
        }
    }

    fn replay_on(
        &self,
        platform: &Platform,
        program: &Arc<Program>,
        (traced, executable): (bool, &Path),
    ) -> Rerun {
        if traced {
            platform.enable_tracing();
        }
        let failure = match self.on {
            Where::Threads => threads::run_watched(platform, program).failure,
            Where::Processes => clients::run_watched(platform, program, executable).failure,
            _ => run::run(platform, program).failure,
        };
        let trace = traced.then(|| {
            let mut trace = platform.take_trace("a program of the swarm");
            trace.verdict = vec![verdict(failure.as_ref()), format!("tidegate replay '{self}'")];
            trace
        });
        Rerun { failure, trace, schedule: None }
    }

    fn replay_schedule(
        &self,
        schedule: &str,
        program: &Arc<Program>,
        traced: bool,
    ) -> Result<Rerun, ExplorerError> {
        let line = format!("{}/{schedule}", ProgramScenario::NAME);
        let scenario = ProgramScenario::new(program.clone());
        let find = |name: &str| {
            let scenario = scenario.clone();
            (name == ProgramScenario::NAME).then(|| Box::new(scenario) as Box<dyn Scenario>)
        };
        let replayed = explorer::replay(&line, &find)?;
        let failure = replayed.failure.is_some().then(|| scenario.failure()).flatten();
        let command = format!("tidegate replay '{self}'");
        let verdict = verdict(failure.as_ref());
        let (trace, log) = timeline::record(&scenario, &replayed.schedule, &verdict, &command);
        Ok(Rerun { failure, trace: traced.then_some(trace), schedule: Some((replayed, log)) })
    }

    /// Returns a test that holds when the program does not fail.
    pub fn test(&self, name: &str) -> String {
        // The command line starts the processes, so its tests have the function.
        let holds = match self.on {
            Where::Processes => "holds",
            _ => "tidegate_swarm::assert_holds",
        };
        let mut text = format!("#[test]\nfn {name}() {{\n    {holds}(\n        \"");
        let line = self.to_string();
        let mut column = 0;
        for part in line.split_inclusive("; ") {
            if column + part.len() > 84 {
                text.push_str("\\\n         ");
                column = 0;
            }
            column += part.len();
            text.push_str(part);
        }
        text.push_str("\",\n    );\n}\n");
        text
    }
}

/// Asserts that a line does not fail.
///
/// # Panics
/// It fails, or it is not a line of the swarm, or one of processes: `tidegate replay` has those.
pub fn assert_holds(line: &str) {
    let line: ReplayLine = line.parse().unwrap_or_else(|error| panic!("{error}"));
    assert_ne!(line.on, Where::Processes, "the clients are processes of the command line");
    let failure = match line.replay(false, false, Path::new("")) {
        Ok(rerun) => rerun.failure,
        // A schedule of other code says nothing. The program is sampled instead.
        Err(_) => {
            let program = Arc::new(line.program.clone());
            run::sample(&program, 1, SAMPLES, &mut Coverage::default())
                .map(|sampled| sampled.failure)
        }
    };
    if let Some(failure) = failure {
        panic!("{failure}\n{}", line.program);
    }
}

fn verdict(failure: Option<&Failure>) -> String {
    failure.map_or_else(|| "does not fail".to_owned(), |failure| format!("fails: {failure}"))
}

impl fmt::Display for ReplayLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.on {
            Where::Virtual => f.write_str("swarm/virtual | ")?,
            Where::Threads => f.write_str("swarm/threads | ")?,
            Where::Processes => f.write_str("swarm/processes | ")?,
            Where::Explored(schedule) => write!(f, "swarm/{schedule} | ")?,
            Where::Sampled(seed) => write!(f, "swarm/sampled-{seed} | ")?,
        }
        f.write_str(&self.program.line())
    }
}

impl FromStr for ReplayLine {
    type Err = BadReplayLine;

    fn from_str(line: &str) -> Result<ReplayLine, BadReplayLine> {
        let (at, program) = line.split_once('|').ok_or(BadReplayLine::Form)?;
        let at = at.trim().strip_prefix("swarm/").ok_or(BadReplayLine::Form)?;
        let on = match at {
            "virtual" => Where::Virtual,
            "threads" => Where::Threads,
            "processes" => Where::Processes,
            schedule if schedule.contains(':') => Where::Explored(schedule.to_owned()),
            _ => {
                let seed = at.strip_prefix("sampled-").and_then(|seed| seed.parse().ok());
                Where::Sampled(seed.ok_or(BadReplayLine::Form)?)
            }
        };
        let program: Program = program.parse()?;
        let facts = crate::model::Facts::of(&program);
        let mut model = crate::model::Model::default();
        for (index, step) in program.steps.iter().enumerate() {
            model.admit(&facts, step).map_err(|why| BadReplayLine::Model {
                step: index + 1,
                text: format!("{} {}", step.thread, step.operation),
                why,
            })?;
        }
        Ok(ReplayLine { on, program })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "adapter standard; process a0 steady; process a0 steady; thread p0; \
        thread p1; t0 queue q0 api packet direct high; t1 queue q1 api user copy normal; \
        t0 execute q0 5; t1 execute q1 7";

    #[test]
    fn a_line_reads_back_from_its_text() {
        for at in ["virtual", "threads", "processes", "tso/pct-3:-uhccuf", "sampled-9"] {
            let text = format!("swarm/{at} | {PROGRAM}");
            let line: ReplayLine = text.parse().unwrap();
            assert_eq!(line.to_string(), text);
        }
        for wrong in ["virtual", "sampled-x", "sampled", ""] {
            assert!(format!("swarm/{wrong}| x").parse::<ReplayLine>().is_err(), "{wrong}");
        }
    }

    /// What the test of a line asserts is that line.
    #[test]
    fn a_test_has_its_name_its_function_and_the_line() {
        for (at, holds) in [("virtual", "tidegate_swarm::assert_holds"), ("processes", "holds")] {
            let text = format!("swarm/{at} | {PROGRAM}");
            let line: ReplayLine = text.parse().unwrap();
            let test = line.test("seed_7");
            let head = format!("#[test]\nfn seed_7() {{\n    {holds}(\n        \"");
            let body = test.strip_prefix(&head).unwrap_or_else(|| panic!("{test}"));
            let body = body.strip_suffix("\",\n    );\n}\n").unwrap_or_else(|| panic!("{test}"));
            assert_eq!(body.replace("\\\n         ", ""), text);
            assert!(test.lines().all(|line| line.len() <= 100), "{test}");
            assert!(test.lines().count() > 6, "a long line is divided: {test}");
        }
    }
}
