//! The hunt: runs the programs of many seeds on a platform, and shrinks what fails.
//!
//! The caller has the clock: it ends a hunt, and bounds the shrinking of a failure.
//!
//! Entry point: [`hunt`].

use crate::coverage::Coverage;
use crate::failure::Failure;
use crate::generate::{self, Shape};
use crate::line::{ReplayLine, Where};
use crate::program::Program;
use crate::run;
use crate::setup::AdapterSetup;
use crate::shrink::{self, Shrunk};
use std::sync::Arc;
use tidegate_conform::Clause;

/// Where a hunt runs its programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// Virtual time: one schedule of each program.
    Virtual,
    /// Explored machines: this many schedules of each program, with store buffers.
    Explored {
        /// Schedules of each program.
        schedules: u64,
    },
    /// Threads of the host.
    Threads,
    /// Processes of the host, which are clients of a service.
    Processes,
}

impl Ground {
    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Ground::Virtual => "virtual time",
            Ground::Explored { .. } => "explored",
            Ground::Threads => "threads",
            Ground::Processes => "processes",
        }
    }

    /// Returns whether overlaps and states of its runs are counted: they run in this process.
    pub fn has_coverage(self) -> bool {
        matches!(self, Ground::Virtual | Ground::Explored { .. })
    }

    /// Returns the shape of its programs.
    pub fn shape(self) -> Shape {
        match self {
            Ground::Explored { .. } => Shape::SMALL,
            Ground::Virtual | Ground::Threads => Shape::WHOLE,
            Ground::Processes => Shape::CLIENTS,
        }
    }
}

/// A failure of a seed.
pub struct Caught {
    /// The seed.
    pub seed: u64,
    /// The failure as it was found.
    pub failure: Failure,
    /// Steps of the program of the seed.
    pub steps: usize,
    /// The shrunk program, its failure and the runs that it took.
    pub shrunk: Shrunk,
    /// The shrunk program as a line.
    pub line: ReplayLine,
}

/// What a hunt has done.
#[derive(Default)]
pub struct Hunted {
    /// Programs run.
    pub programs: u64,
    /// Steps of all programs.
    pub steps: u64,
    /// Failures, the first of each kind.
    pub caught: Vec<Caught>,
    /// Programs that failed.
    pub failed: u64,
    /// What the runs in virtual time and on explored machines have met.
    pub coverage: Coverage,
}

/// Runs a program on threads or in processes.
pub type RunOnHost = dyn Fn(Where, &Program) -> Option<Failure>;

/// Bounds of a hunt.
pub struct Bounds<'a> {
    /// Seeds to run.
    pub seeds: &'a mut dyn Iterator<Item = u64>,
    /// Steps of a program; `None` for the number of the ground.
    pub steps: Option<usize>,
    /// Returns whether another program is run.
    pub keep_going: &'a dyn Fn() -> bool,
    /// Returns whether the shrinker may run again, given the number of this run for the failure.
    pub keep_shrinking: &'a dyn Fn(u32) -> bool,
    /// Whether the drivers are judged by the clauses of `tidegate conform`.
    pub is_verified: bool,
    /// The clause whose mistake every driver makes.
    pub faulty: Option<&'static Clause>,
    /// Runs a program on threads or in processes.
    pub on_host: &'a RunOnHost,
    /// Receives each failure as soon as it is shrunk.
    pub report: &'a mut dyn FnMut(&Caught),
}

/// Each program of this many is run twice in virtual time, and both runs must be equal.
const REPEATED: u64 = 16;

/// Runs the programs of the seeds.
pub fn hunt(ground: Ground, bounds: Bounds<'_>) -> Hunted {
    let mut hunted = Hunted::default();
    for seed in bounds.seeds {
        if !(bounds.keep_going)() {
            break;
        }
        let shape = ground.shape();
        let steps = bounds.steps.unwrap_or(shape.steps);
        let mut program = generate::program(seed, Shape { steps, ..shape });
        if bounds.is_verified {
            program.adapters.iter_mut().for_each(AdapterSetup::verify);
        }
        program.adapters.iter_mut().for_each(|adapter| adapter.set_mistake(bounds.faulty));
        let program = Arc::new(program);
        hunted.programs += 1;
        hunted.steps += program.steps.len() as u64;
        let Some(failure) = run_once(ground, &program, seed, &mut hunted.coverage, bounds.on_host)
        else {
            continue;
        };
        hunted.failed += 1;
        if hunted.caught.iter().any(|caught| caught.failure.is_like(&failure)) {
            continue;
        }
        let caught =
            shrink_failure(ground, seed, &program, failure, bounds.keep_shrinking, bounds.on_host);
        (bounds.report)(&caught);
        hunted.caught.push(caught);
    }
    hunted
}

fn run_once(
    ground: Ground,
    program: &Arc<Program>,
    seed: u64,
    coverage: &mut Coverage,
    on_host: &RunOnHost,
) -> Option<Failure> {
    match ground {
        Ground::Virtual => {
            let outcome = run::in_virtual_time(program);
            coverage.add(&outcome.coverage);
            if outcome.failure.is_none() && seed.is_multiple_of(REPEATED) {
                let again = run::in_virtual_time(program);
                if again.digest != outcome.digest || again.failure.is_some() {
                    let text = format!(
                        "{:?}, and then {:?}",
                        outcome.digest,
                        (again.digest, again.failure)
                    );
                    return Some(Failure::NotDeterministic(text));
                }
            }
            outcome.failure
        }
        Ground::Threads => on_host(Where::Threads, program),
        Ground::Processes => on_host(Where::Processes, program),
        Ground::Explored { schedules } => {
            run::sample(program, seed, schedules, coverage).map(|sampled| sampled.failure)
        }
    }
}

fn shrink_failure(
    ground: Ground,
    seed: u64,
    program: &Arc<Program>,
    failure: Failure,
    keep_shrinking: &dyn Fn(u32) -> bool,
    on_host: &RunOnHost,
) -> Caught {
    let mut runs = 0;
    let mut run = |candidate: &Program| {
        runs += 1;
        if !keep_shrinking(runs) {
            return None;
        }
        let candidate = Arc::new(candidate.clone());
        match ground {
            // A failure on the host may need several runs to come again.
            Ground::Threads => (0..8).find_map(|_| on_host(Where::Threads, &candidate)),
            Ground::Processes if !candidate.served => None,
            Ground::Processes => (0..8).find_map(|_| on_host(Where::Processes, &candidate)),
            Ground::Virtual => run::in_virtual_time(&candidate).failure,
            Ground::Explored { schedules } => {
                let found = run::sample(&candidate, seed, schedules * 4, &mut Coverage::default());
                Some(found?.failure)
            }
        }
    };
    let budget = 1_000;
    let shrunk = shrink::shrink(program, &failure, budget, &mut run);
    let on = match ground {
        Ground::Virtual => Where::Virtual,
        Ground::Threads => Where::Threads,
        Ground::Processes => Where::Processes,
        Ground::Explored { schedules } => {
            let best = Arc::new(shrunk.program.clone());
            // The same seed finds the same schedule again.
            let sampled = run::sample(&best, seed, schedules * 4, &mut Coverage::default());
            let found = sampled.and_then(|sampled| sampled.found);
            let schedule =
                found.and_then(|found| Some(found.shrunk_line.split_once('/')?.1.to_owned()));
            schedule.map_or(Where::Sampled(seed), Where::Explored)
        }
    };
    let line = ReplayLine { on, program: shrunk.program.clone() };
    Caught { seed, failure, steps: program.steps.len(), shrunk, line }
}
