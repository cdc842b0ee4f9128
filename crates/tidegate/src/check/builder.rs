//! The search for a failing schedule of a program, and its replay.
//!
//! Order of a check: 1. a line in [`REPLAY`] that names this check is replayed, and nothing else is
//! done; 2. the search, by one strategy or by the default two; 3. on a failure its report.

use super::program::{Program, REPLAY};
use super::progress::Progress;
use super::report;
use super::timeline;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::Arc;
use tidegate_check::thread;
use tidegate_explorer::schedule::Schedule;
use tidegate_explorer::{
    Coverage, ExplorerError, MemoryModel, Options, Report, Scenario, StrategyKind, explore,
};

/// Schedules of the default search: exhaustive, then sampled.
const EXHAUSTIVE: u64 = 20_000;
const SAMPLES: u64 = 500;
/// Steps of the default exhaustive search, so that a program of long runs is sampled soon.
const STEPS: u64 = 2_000_000;
/// The depth of the bugs for which the default samples.
const DEPTH: u32 = 3;

/// A check's limits and choices.
///
/// ```
/// use tidegate::check::{Builder, Coverage, MemoryModel, StrategyKind, thread};
///
/// let checked = Builder::new()
///     .name("two-threads")
///     .strategy(StrategyKind::Bounded(2))
///     .memory_model(MemoryModel::SequentiallyConsistent)
///     .check(|| {
///         thread::spawn(|| {}).join().unwrap();
///     });
/// assert_eq!(checked.coverage, Coverage::Everything);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a check begins with `check`"]
pub struct Builder {
    name: Option<String>,
    strategy: Option<StrategyKind>,
    schedules: Option<u64>,
    seconds: Option<u64>,
    seed: Option<u64>,
    model: Option<MemoryModel>,
    replay: Option<String>,
}

/// What a check that found nothing has covered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Number of schedules.
    pub schedules: u64,
    /// Number of distinct states; 0 if the strategy does not count them.
    pub states: u64,
    /// How much of the program that is.
    pub coverage: Coverage,
}

impl Builder {
    /// Begins a check with the default limits: every schedule, up to 20,000 or two million steps;
    /// a program with more is sampled by 500 schedules of probabilistic concurrency testing.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Names the check in its line. Without this it has the name of the test, with `.2` and so on
    /// for further checks of one test.
    pub fn name(self, name: impl Into<String>) -> Builder {
        Builder { name: Some(name.into()), ..self }
    }

    /// Searches by one strategy. Sampling strategies stop after 500 schedules, the others at their
    /// end, if [`Builder::schedules`] sets no limit.
    pub fn strategy(self, strategy: StrategyKind) -> Builder {
        Builder { strategy: Some(strategy), ..self }
    }

    /// Limits the number of schedules.
    pub fn schedules(self, most: u64) -> Builder {
        Builder { schedules: Some(most), ..self }
    }

    /// Limits the time in seconds of the host's clock, in place of the default numbers of schedules
    /// and steps. A run that has begun is finished. Without a strategy half of the time is for the
    /// exhaustive search, and the rest for samples if that search did not end.
    pub fn seconds(self, most: u64) -> Builder {
        Builder { seconds: Some(most), ..self }
    }

    /// Sets the seed of sampling strategies. Without this it is 1.
    pub fn seed(self, seed: u64) -> Builder {
        Builder { seed: Some(seed), ..self }
    }

    /// Sets the memory model. Without this it is total store order.
    pub fn memory_model(self, model: MemoryModel) -> Builder {
        Builder { model: Some(model), ..self }
    }

    /// Replays this line instead of a search, as [`REPLAY`] does.
    pub fn replay(self, line: impl Into<String>) -> Builder {
        Builder { replay: Some(line.into()), ..self }
    }

    /// Explores `program`.
    ///
    /// # Panics
    /// A schedule fails; runs with the same choices diverge; a line to replay does not fit.
    #[track_caller]
    pub fn check(self, program: impl Fn() + Send + Sync + 'static) -> Checked {
        let test = thread::name();
        let name = match &self.name {
            Some(name) => schedule_name(name),
            None => numbered(schedule_name(&default_name(&test, Location::caller()))),
        };
        let program = Program { name, body: Arc::new(program) };
        match self.check_program(&program) {
            Ok(checked) => checked,
            Err(failed) => panic!("{}", failed.in_words(&test)),
        }
    }

    fn check_program(&self, program: &Program) -> Result<Checked, Box<report::Failed>> {
        if let Some(schedule) = self.line_for(program) {
            return replay(program, &schedule);
        }
        let progress = Progress::new(&program.name, self.seconds);
        let Some(strategy) = self.strategy else {
            return self.check_by_default(program, &progress);
        };
        let is_sampling = matches!(strategy, StrategyKind::Random | StrategyKind::Pct(_));
        let schedules = if is_sampling { self.unless_timed(SAMPLES) } else { u64::MAX };
        let searched = self.search(program, strategy, (schedules, u64::MAX), (&progress, 100));
        found_or(program, searched.unwrap_or_else(|error| cannot(program, &error)))
    }

    /// Searches exhaustively, and samples a program for which that ends early. A systematic search
    /// also ends when a prefix of a schedule reaches another state than before. Sampling needs no
    /// prefix, so such a program is sampled too.
    fn check_by_default(
        &self,
        program: &Program,
        progress: &Progress,
    ) -> Result<Checked, Box<report::Failed>> {
        let (all, limits) =
            (StrategyKind::Exhaustive, [EXHAUSTIVE, STEPS].map(|n| self.unless_timed(n)));
        let schedules = match self.search(program, all, limits.into(), (progress, 50)) {
            Ok(report) => {
                let searched = found_or(program, report)?;
                if searched.coverage != Coverage::CutShort || self.schedules.is_some() {
                    return Ok(searched);
                }
                searched.schedules
            }
            Err(ExplorerError::NotDeterministic { .. }) => 0,
            Err(error) => cannot(program, &error),
        };
        let (some, limits) = (StrategyKind::Pct(DEPTH), (self.unless_timed(SAMPLES), u64::MAX));
        let sampled = self.search(program, some, limits, (progress, 100));
        let sampled = sampled.unwrap_or_else(|error| cannot(program, &error));
        let sampled = found_or(program, sampled)?;
        Ok(Checked { schedules: schedules + sampled.schedules, ..sampled })
    }

    /// A default limit, which a limit of time replaces.
    fn unless_timed(&self, limit: u64) -> u64 {
        if self.seconds.is_some() { u64::MAX } else { limit }
    }

    /// Returns the line to replay, if it is one of this check.
    fn line_for(&self, program: &Program) -> Option<Schedule> {
        let of_environment = || std::env::var(REPLAY).ok();
        let line = self.replay.clone().or_else(of_environment)?;
        match line.parse::<Schedule>() {
            Ok(schedule) => (schedule.scenario == program.name).then_some(schedule),
            Err(error) => panic!("{REPLAY}: {error}"),
        }
    }

    fn search(
        &self,
        program: &Program,
        strategy: StrategyKind,
        (schedules, steps): (u64, u64),
        (progress, share): (&Progress, u64),
    ) -> Result<Report, ExplorerError> {
        let search = strategy.to_string();
        let keep_going = || progress.go_on(&search, share);
        let options = Options {
            strategy,
            max_runs: self.schedules.unwrap_or(schedules),
            seed: self.seed.unwrap_or(1),
            model: self.model.unwrap_or(MemoryModel::TotalStoreOrder),
            max_steps: steps,
            keep_going: &keep_going,
            ..Options::default()
        };
        explore(program, &options)
    }
}

/// Returns what a search has covered, or the failure that it found.
fn found_or(program: &Program, report: Report) -> Result<Checked, Box<report::Failed>> {
    let Report { runs, states, coverage, failure, .. } = report;
    match failure {
        None => Ok(Checked { schedules: runs, states, coverage }),
        Some(found) => {
            Err(Box::new(report::Failed::of(program, &found.shrunk, found.failure, runs)))
        }
    }
}

/// Replays `schedule`, and writes the files that the environment names.
fn replay(program: &Program, schedule: &Schedule) -> Result<Checked, Box<report::Failed>> {
    let line = schedule.to_string();
    let lookup = |_: &str| Some(Box::new(program.clone()) as Box<dyn Scenario>);
    let replayed = tidegate_explorer::replay(&line, &lookup);
    let replayed = match replayed {
        Ok(replayed) => replayed,
        // The states differ. The line is still one of this program if it fails.
        Err(error) => match timeline::failure_of(program, schedule) {
            Some(failure) => {
                return Err(Box::new(report::Failed::of(program, schedule, failure, 1)));
            }
            None => cannot(program, &error),
        },
    };
    report::write_files(program, &replayed);
    match replayed.failure {
        None => Ok(Checked { schedules: 1, states: 0, coverage: Coverage::Sampled }),
        Some(failure) => Err(Box::new(report::Failed::of(program, schedule, failure, 1))),
    }
}

fn cannot(program: &Program, error: &ExplorerError) -> ! {
    panic!("check '{}': {error}", program.name)
}

/// The name of a check without one: its test, else its place.
fn default_name(test: &str, place: &Location<'_>) -> String {
    if test.is_empty() || test == "main" {
        let file = place.file().rsplit('/').next().unwrap_or("check");
        return format!("{}-{}", file.trim_end_matches(".rs"), place.line());
    }
    test.replace("::", ".")
}

/// `name` with the characters that a line allows.
fn schedule_name(name: &str) -> String {
    let allowed = |c: char| c.is_alphanumeric() || "._-".contains(c);
    name.chars().map(|c| if allowed(c) { c } else { '-' }).collect()
}

thread_local! {
    static CHECKS: RefCell<BTreeMap<String, u32>> = const { RefCell::new(BTreeMap::new()) };
}

/// `name`, with a number if this thread has made a check of that name before.
fn numbered(name: String) -> String {
    let number = CHECKS.with_borrow_mut(|checks| {
        let number = checks.entry(name.clone()).or_default();
        *number += 1;
        *number
    });
    if number == 1 { name } else { format!("{name}.{number}") }
}
