//! Runs of a program on a platform, each on a machine of its own.
//!
//! Entry points: [`run`] (any platform), [`sample`] (schedules of an explorer).

use crate::coverage::Pairs;
use crate::failure::Failure;
use crate::program::Program;
use crate::stage::Stage;
use crate::words::Costs;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tidegate::Platform;
use tidegate::explorer::{self, Found, Options, Prepared, Scenario, StrategyKind};
use tidegate::platform::StepCosts;
use tidegate::runner::cost::CostModel;

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What is wrong, if anything is.
    pub failure: Option<Failure>,
    /// The operations that overlapped.
    pub pairs: Pairs,
    /// A number that equal runs have in common: the time and the turns of virtual time.
    pub digest: (u64, u64),
}

/// Runs a program in virtual time.
pub fn in_virtual_time(program: &Arc<Program>) -> Outcome {
    run(&virtual_platform(program), program)
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
        Err(error) => {
            let failure = Some(Failure::Panic(format!("the machine did not start: {error}")));
            return Outcome { failure, pairs: Pairs::new(), digest: (0, 0) };
        }
    };
    beside(&stage);
    let performed = stage.clone();
    let (_, report) = stage.machine().run_to_report(move || performed.perform());
    let failure = stage.verdict(&report);
    let mut pairs = Pairs::new();
    stage.overlaps().add_to(&mut pairs);
    Outcome { failure, pairs, digest: (report.end.0, report.steps) }
}

/// A program as a scenario of the explorer.
#[derive(Clone)]
pub struct ProgramScenario {
    program: Arc<Program>,
    /// The failure of the last run that failed.
    failure: Rc<RefCell<Option<Failure>>>,
    /// The operations that overlapped in any run.
    pairs: Rc<RefCell<Pairs>>,
}

impl ProgramScenario {
    /// The name in schedules.
    pub const NAME: &'static str = "swarm";

    /// Returns the scenario of a program.
    pub fn new(program: Arc<Program>) -> ProgramScenario {
        ProgramScenario { program, failure: Rc::default(), pairs: Rc::default() }
    }

    /// Returns the failure of the last run that failed.
    pub fn failure(&self) -> Option<Failure> {
        self.failure.borrow().clone()
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
        let stage = Arc::new(
            Stage::new(platform, self.program.clone()).expect("the generator draws valid machines"),
        );
        let (performed, failed) = (stage.clone(), self.failure.clone());
        let pairs = self.pairs.clone();
        Prepared::new(
            move || performed.perform(),
            move |end| {
                stage.overlaps().add_to(&mut pairs.borrow_mut());
                if let Some(failure) = stage.verdict(end.report()) {
                    end.always(failure.oracle(), false);
                    *failed.borrow_mut() = Some(failure);
                }
            },
        )
        .may_block()
    }
}

/// Samples schedules of a program: odd seeds by a random walk, even ones by probabilistic
/// concurrency testing. Returns the first failure with its schedule, and adds the operations that
/// overlapped to `pairs`.
pub fn sample(
    program: &Arc<Program>,
    seed: u64,
    schedules: u64,
    pairs: &mut Pairs,
) -> Option<(Failure, Found)> {
    let strategy = match seed % 2 {
        0 => StrategyKind::Pct(3),
        _ => StrategyKind::Random,
    };
    let options =
        Options { strategy, max_runs: schedules, seed, shrink_runs: 60, ..Options::default() };
    let scenario = ProgramScenario::new(program.clone());
    let report = explorer::explore(&scenario, &options).ok()?;
    for (pair, times) in scenario.pairs.borrow().iter() {
        *pairs.entry(*pair).or_default() += times;
    }
    let found = report.failure?;
    let failure = scenario.failure().unwrap_or_else(|| Failure::Panic(found.failure.to_string()));
    Some((failure, found))
}
