//! Runs of a program on a platform, each on a fresh machine.
//!
//! A run that fails can leave agents that a lock blocks, and with them its machine. A thread has
//! one cooperative machine, so the runs of a hunt have a thread of their own each (`apart`).
//!
//! Entry points: [`in_virtual_time`], [`sample`] (schedules of an explorer), [`run`] (any platform,
//! on the calling thread).

use crate::coverage::Coverage;
use crate::failure::Failure;
use crate::program::Program;
use crate::stage::Stage;
use crate::words::Costs;
use std::sync::Arc;
use tidegate::Platform;
use tidegate::explorer::{self, Found, Options, Prepared, Scenario, StrategyKind};
use tidegate::platform::PlantedFault;
use tidegate::platform::{Mutex, StepCosts};
use tidegate::runner::cost::CostModel;

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What is wrong, if anything is.
    pub failure: Option<Failure>,
    /// What the run has met.
    pub coverage: Coverage,
    /// A number that equal runs have in common: the time and the turns of virtual time.
    pub digest: (u64, u64),
}

impl Outcome {
    pub(crate) fn of_failure(failure: Failure) -> Outcome {
        Outcome { failure: Some(failure), coverage: Coverage::default(), digest: (0, 0) }
    }
}

/// Runs a program in virtual time.
pub fn in_virtual_time(program: &Arc<Program>) -> Outcome {
    let program = program.clone();
    let outcome = apart(move || run(&virtual_platform(&program), &program));
    outcome.unwrap_or_else(Outcome::of_failure)
}

/// Runs a program in virtual time on a machine with a planted fault ([`Platform::plant`]).
pub fn with_fault(program: &Arc<Program>, fault: PlantedFault) -> Outcome {
    let program = program.clone();
    let outcome = apart(move || {
        let platform = virtual_platform(&program);
        platform.plant(fault);
        run(&platform, &program)
    });
    outcome.unwrap_or_else(Outcome::of_failure)
}

/// Runs `act` on a thread of its own, which keeps what `act` leaves behind.
///
/// # Errors
/// The panic of `act`.
fn apart<R: Send + 'static>(act: impl FnOnce() -> R + Send + 'static) -> Result<R, Failure> {
    let host = Platform::host();
    let result = Arc::new(host.mutex("result of a run", None));
    let (by, into) = (host.clone(), result.clone());
    let report = host.run(move || {
        by.spawn("run", move || {
            let value = act();
            *into.lock() = Some(value);
        })
        .join();
    });
    let value = result.lock().take();
    value.ok_or_else(|| Failure::Panic(report.panics.join("; ")))
}

/// Returns the platform of virtual time with the costs of the program.
pub(crate) fn virtual_platform(program: &Program) -> Platform {
    Platform::virtual_time(match program.costs {
        Costs::Nominal => CostModel::nominal().steps,
        Costs::Low => CostModel::low().steps,
        Costs::High => CostModel::high().steps,
        Costs::Free => StepCosts::free(),
    })
}

/// Runs a program on a platform that has not run.
pub fn run(platform: &Platform, program: &Arc<Program>) -> Outcome {
    run_beside(platform, program, |_| ())
}

/// Runs a program as [`run`] does. `beside` is called with the run before it begins.
pub(crate) fn run_beside(
    platform: &Platform,
    program: &Arc<Program>,
    beside: impl FnOnce(&Arc<Stage>),
) -> Outcome {
    let stage = match Stage::new(platform, program.clone()) {
        Ok(stage) => Arc::new(stage),
        // A wrong driver may be refused.
        Err(_) if program.is_faulty() => {
            return Outcome { failure: None, coverage: Coverage::default(), digest: (0, 0) };
        }
        Err(error) => {
            return Outcome::of_failure(Failure::Panic(format!(
                "the machine did not start: {error}"
            )));
        }
    };
    beside(&stage);
    let (performed, own) = (stage.clone(), platform.clone());
    let (_, report) = stage.machine().run_to_report(move || match own.models_time() {
        // A main agent that a lock blocks for ever would end the process.
        true => drop(own.spawn("program", move || performed.perform()).join()),
        false => performed.perform(),
    });
    let failure = stage.verdict(&report);
    Outcome { failure, coverage: stage.coverage(), digest: (report.end.0, report.steps) }
}

/// A program as a scenario of the explorer.
#[derive(Clone)]
pub struct ProgramScenario {
    program: Arc<Program>,
    /// The failure of the last run that failed, and what all runs have met.
    seen: Arc<Mutex<(Option<Failure>, Coverage)>>,
}

impl ProgramScenario {
    /// The name in schedules.
    pub const NAME: &'static str = "swarm";

    /// Returns the scenario of a program.
    pub fn new(program: Arc<Program>) -> ProgramScenario {
        let seen = Platform::host().mutex("failure of a program", (None, Coverage::default()));
        ProgramScenario { program, seen: Arc::new(seen) }
    }

    /// Returns the failure of the last run that failed.
    pub fn failure(&self) -> Option<Failure> {
        self.seen.lock().0.clone()
    }
}

impl Scenario for ProgramScenario {
    fn name(&self) -> &str {
        ProgramScenario::NAME
    }

    fn about(&self) -> &'static str {
        "a random program on the whole machine"
    }

    fn prepare(&self, platform: &Platform) -> Prepared {
        let stage = match Stage::new(platform, self.program.clone()) {
            Ok(stage) => Arc::new(stage),
            // A wrong driver may be refused.
            Err(_) if self.program.is_faulty() => return Prepared::new(|| (), |_| ()),
            Err(error) => panic!("the generator draws valid machines: {error}"),
        };
        let (performed, seen) = (stage.clone(), self.seen.clone());
        Prepared::new(
            move || performed.perform(),
            move |end| {
                let (failed, coverage) = &mut *seen.lock();
                coverage.add(&stage.coverage());
                if let Some(failure) = stage.verdict(end.report()) {
                    end.always(failure.oracle(), false);
                    *failed = Some(failure);
                }
            },
        )
        .may_block()
    }
}

/// A failure that [`sample`] has found.
pub struct Sampled {
    /// What is wrong.
    pub failure: Failure,
    /// Its schedule; `None` if the run has left its machine behind, so that it was not repeated.
    pub found: Option<Found>,
}

/// Samples schedules of a program: odd seeds by a random walk, even ones by probabilistic
/// concurrency testing. Returns the first failure, and adds what the runs have met to `coverage`.
pub fn sample(
    program: &Arc<Program>,
    seed: u64,
    schedules: u64,
    coverage: &mut Coverage,
) -> Option<Sampled> {
    let strategy = match seed % 2 {
        0 => StrategyKind::Pct(3),
        _ => StrategyKind::Random,
    };
    let scenario = ProgramScenario::new(program.clone());
    let explored = scenario.clone();
    let report = apart(move || {
        let options =
            Options { strategy, max_runs: schedules, seed, shrink_runs: 60, ..Options::default() };
        explorer::explore(&explored, &options)
    });
    coverage.add(&scenario.seen.lock().1);
    match report {
        Err(panic) => Some(Sampled { failure: scenario.failure().unwrap_or(panic), found: None }),
        Ok(report) => {
            let found = report.ok()?.failure?;
            let failure = scenario.failure();
            let failure = failure.unwrap_or_else(|| Failure::Panic(found.failure.to_string()));
            Some(Sampled { failure, found: Some(found) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_a_run_leaves_behind_ends_no_later_run() {
        for _ in 0..2 {
            let made = apart(|| std::mem::forget(Platform::virtual_time(StepCosts::free())));
            assert_eq!(made, Ok(()));
        }
        let panicked = apart(|| -> u8 { panic!("of the run") });
        assert!(matches!(&panicked, Err(Failure::Panic(text)) if text.contains("of the run")));
    }
}
