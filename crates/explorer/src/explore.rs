//! The search: runs with one strategy until a failure, the end of the search space, or a limit.
//!
//! On a failure: 1. the schedule is repeated and must lead to the same states; 2. it is shrunk; 3.
//! both schedules are printed as lines.

use crate::error::ExplorerError;
use crate::execution::{Ran, Runner, Trail};
use crate::property::Failure;
use crate::scenario::Scenario;
use crate::schedule::Schedule;
use crate::shrink::shrink;
use crate::strategy::random::RandomWalk;
use crate::strategy::replay::Replay;
use crate::strategy::{Coverage, Strategy, StrategyKind};
use std::collections::BTreeSet;
use tidegate_platform::MemoryModel;

/// Parameters and limits of a search.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The strategy that chooses the next agent.
    pub strategy: StrategyKind,
    /// The memory model.
    pub model: MemoryModel,
    /// Maximum number of runs.
    pub max_runs: u64,
    /// Maximum number of visible steps of all runs together.
    pub max_steps: u64,
    /// Maximum number of distinct states to keep (about 10 bytes each).
    pub max_states: u64,
    /// Seed of the random strategies.
    pub seed: u64,
    /// Whether a systematic search performs steps that commute with all others without consulting
    /// its strategy. Off only in tests of the reduction.
    pub reduce: bool,
    /// Maximum number of random runs before a systematic search. They end earlier when as many in a
    /// row as the longest run has steps have shown no new sharing. Fewer only in tests of the
    /// reduction.
    pub first_runs: u64,
    /// Whether the report contains the final states of runs.
    pub keep_ends: bool,
    /// Maximum number of runs for shrinking a failing schedule; 0 disables shrinking.
    pub shrink_runs: u64,
    /// Called between runs. The search ends when it returns `false`, so it can limit the time.
    pub keep_going: &'a dyn Fn() -> bool,
    /// The caller's clock in nanoseconds, which measures the share of set-up.
    pub clock_ns: Option<&'a dyn Fn() -> u64>,
}

fn always() -> bool {
    true
}

impl Default for Options<'_> {
    /// Exhaustive search with store buffers, up to 10 million runs or 20 million states.
    fn default() -> Self {
        Options {
            strategy: StrategyKind::Exhaustive,
            model: MemoryModel::TotalStoreOrder,
            max_runs: 10_000_000,
            max_steps: u64::MAX,
            max_states: 20_000_000,
            seed: 1,
            reduce: true,
            first_runs: 64,
            keep_ends: false,
            shrink_runs: 2_000,
            keep_going: &always,
            clock_ns: None,
        }
    }
}

/// A failure and the schedules that reproduce it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The failure.
    pub failure: Failure,
    /// The original schedule, for [`crate::replay`].
    pub line: String,
    /// The shrunk schedule, which fails in the same way.
    pub shrunk_line: String,
    /// The shrunk schedule as data.
    pub shrunk: Schedule,
    /// Number of the failing run, from 1.
    pub at_run: u64,
    /// Number of visible steps of that run.
    pub steps: u64,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct Report {
    /// The scenario.
    pub scenario: String,
    /// The planted bug.
    pub bug: Option<String>,
    /// The memory model.
    pub model: MemoryModel,
    /// The strategy.
    pub strategy: StrategyKind,
    /// Number of runs.
    pub runs: u64,
    /// Number of distinct states; 0 if the strategy does not count them.
    pub states: u64,
    /// Number of visible steps of all runs.
    pub steps: u64,
    /// Number of visible steps of the longest run.
    pub longest_steps: u64,
    /// Whether every reachable state was covered ([`Coverage::Everything`]).
    pub exhausted: bool,
    /// The coverage.
    pub coverage: Coverage,
    /// The first failure.
    pub failure: Option<Found>,
    /// Marks that some run reached.
    pub reached: Vec<&'static str>,
    /// Marks that no run reached, which makes the scenario vacuous.
    pub never_reached: Vec<&'static str>,
    /// Final states of the runs, if [`Options::keep_ends`] is set.
    pub ends: BTreeSet<u64>,
    /// Total time and set-up time of all runs in nanoseconds, if [`Options::clock_ns`] is set.
    pub time_ns: Option<(u64, u64)>,
}

impl Report {
    /// Whether there was no failure and every mark was reached.
    pub fn passed(&self) -> bool {
        self.failure.is_none() && self.never_reached.is_empty()
    }

    /// Returns the share of the time spent on building machines, from 0 to 1.
    pub fn setup_share(&self) -> Option<f64> {
        self.time_ns.map(|(all, setup)| if all == 0 { 0.0 } else { setup as f64 / all as f64 })
    }
}

/// Searches `scenario` for a failure.
///
/// # Errors
/// Returns [`ExplorerError::NotDeterministic`] if runs with the same choices diverge.
pub fn explore(scenario: &dyn Scenario, options: &Options<'_>) -> Result<Report, ExplorerError> {
    explore_with(scenario, options, options.strategy.build(options.seed))
}

/// [`explore`] with the caller's own strategy. `options.strategy` is the name in schedules.
pub fn explore_with(
    scenario: &dyn Scenario,
    options: &Options<'_>,
    strategy: Box<dyn Strategy>,
) -> Result<Report, ExplorerError> {
    let mut search = Search::new(scenario, options, strategy);
    let failed = search.run()?;
    let failure = match failed {
        Some(failed) => Some(search.found(failed)?),
        None => None,
    };
    Ok(search.report(failure))
}

struct Failed {
    failure: Failure,
    trail: Trail,
    at_run: u64,
    steps: u64,
}

struct Search<'a> {
    scenario: &'a dyn Scenario,
    options: &'a Options<'a>,
    runner: Runner<Box<dyn Strategy>>,
    runs: u64,
    steps: u64,
    longest: u64,
    /// Number of runs since sharing between agents was last found.
    quiet_runs: u64,
    /// Number of runs of the current pass, and the number after which it ends because it is
    /// refuted.
    pass_runs: u64,
    pass_ends_at: Option<u64>,
    is_complete: bool,
    ends: BTreeSet<u64>,
    setup_ns: u64,
    start_ns: u64,
}

impl<'a> Search<'a> {
    fn new(
        scenario: &'a dyn Scenario,
        options: &'a Options<'a>,
        strategy: Box<dyn Strategy>,
    ) -> Search<'a> {
        let start_ns = options.clock_ns.map_or(0, |clock| clock());
        let is_systematic = strategy.coverage() != Coverage::Sampled;
        let mut runner = Runner::new(strategy, options.model);
        if options.reduce && is_systematic {
            runner.reduce(scenario.judges_groups_apart());
        }
        Search {
            scenario,
            options,
            runner,
            runs: 0,
            steps: 0,
            longest: 0,
            quiet_runs: 0,
            pass_runs: 0,
            pass_ends_at: None,
            is_complete: false,
            ends: BTreeSet::new(),
            setup_ns: 0,
            start_ns,
        }
    }

    fn has_budget(&self) -> bool {
        self.runs < self.options.max_runs
            && self.steps < self.options.max_steps
            && self.runner.strategy(|s| s.states()) < self.options.max_states
            && (self.options.keep_going)()
    }

    /// Runs until a failure, a limit or the end of the search space. Random runs come first: they
    /// reveal most of the sharing between agents, which saves restarts of the search.
    fn run(&mut self) -> Result<Option<Failed>, ExplorerError> {
        if self.runner.is_reduced() {
            let random = Box::new(RandomWalk::new(self.options.seed));
            let strategy = self.runner.exchange_strategy(random);
            // A run takes the steps of all groups at once.
            let is_enough = |s: &Self| s.quiet_runs >= s.longest / s.runner.groups();
            let failed = self.run_at_most(self.options.first_runs, is_enough);
            self.runner.exchange_strategy(strategy);
            if let Some(failed) = failed? {
                return Ok(Some(failed));
            }
            self.begin_pass();
        }
        self.run_at_most(u64::MAX, |_| false)
    }

    /// Begins a pass with all that is known. Discards marks and ends, because the report covers the
    /// last pass of the search only.
    fn begin_pass(&mut self) {
        (self.pass_runs, self.pass_ends_at) = (0, None);
        self.runner.begin_pass();
        self.runner.reached.clear();
        self.ends.clear();
    }

    fn restart(&mut self) {
        self.runner.strategy(|s| s.restart());
        self.begin_pass();
    }

    /// Records that the knowledge of the current pass is refuted. The pass goes on for as many runs
    /// as it has made, because they refute more at once.
    fn note_refuted(&mut self) {
        self.quiet_runs = 0;
        self.pass_ends_at.get_or_insert(2 * self.pass_runs);
    }

    fn run_at_most(
        &mut self,
        runs: u64,
        is_enough: impl Fn(&Self) -> bool,
    ) -> Result<Option<Failed>, ExplorerError> {
        let last = self.runs.saturating_add(runs);
        while self.runs < last && self.has_budget() && (self.runs == 0 || !is_enough(self)) {
            if !self.runner.strategy(|s| s.begin()) {
                if self.pass_ends_at.is_none() {
                    self.is_complete = true;
                    break;
                }
                self.restart();
                continue;
            }
            let ran = self.one_run();
            self.runs += 1;
            self.pass_runs += 1;
            self.steps += ran.steps;
            self.longest = self.longest.max(ran.steps);
            if let Some(failure) = ran.failure {
                let trail = self.runner.trail(Trail::clone);
                return Ok(Some(Failed { failure, trail, at_run: self.runs, steps: ran.steps }));
            }
            if self.options.keep_ends {
                self.ends.insert(ran.end);
            }
            self.quiet_runs += 1;
            if self.runner.take_refuted() {
                self.note_refuted();
            }
            let diverged_at = self.runner.diverged_at();
            match (self.pass_ends_at, diverged_at) {
                (None, Some(choice)) => return Err(self.not_deterministic(choice)),
                // Groups that turn out to share something disturb each other.
                (Some(end), _) if self.pass_runs >= end || diverged_at.is_some() => self.restart(),
                _ => {}
            }
        }
        Ok(None)
    }

    fn one_run(&mut self) -> Ran {
        let Some(clock) = self.options.clock_ns else { return self.runner.run(self.scenario) };
        let start = clock();
        let platform = self.runner.machine();
        let prepared = self.scenario.prepare(&platform);
        self.setup_ns += clock().saturating_sub(start);
        self.runner.finish(&platform, prepared)
    }

    fn not_deterministic(&self, choice: u64) -> ExplorerError {
        ExplorerError::NotDeterministic { scenario: self.scenario.name().to_owned(), choice }
    }

    /// Repeats the failure, shrinks it and formats both schedules.
    fn found(&self, failed: Failed) -> Result<Found, ExplorerError> {
        let Failed { failure, trail, at_run, steps } = failed;
        let mut again = Runner::new(Replay::new(&trail.choices), self.options.model).keep_states();
        let mut before = trail;
        // Twice, because the search keeps no states.
        for _ in 0..2 {
            again.strategy(|s| s.set(&before.choices));
            let ran = again.run(self.scenario);
            if let Some(choice) = again.trail(|t| t.diverges_from(&before)) {
                return Err(self.not_deterministic(choice));
            }
            if ran.failure.as_ref() != Some(&failure) {
                return Err(self.not_deterministic(before.choices.len() as u64));
            }
            before = again.trail(Trail::clone);
        }
        let trail = before;
        let blank = Schedule::of(self.scenario, self.options.model, self.options.strategy);
        let found = blank.with(&trail.choices, trail.checksum());
        let (runs, go_on) = (self.options.shrink_runs, self.options.keep_going);
        let smaller = shrink(self.scenario, &mut again, &failure, &trail, runs, go_on);
        let shrunk = blank.with(&smaller.choices, smaller.checksum());
        Ok(Found {
            failure,
            line: found.to_string(),
            shrunk_line: shrunk.to_string(),
            shrunk,
            at_run,
            steps,
        })
    }

    fn report(self, failure: Option<Found>) -> Report {
        let coverage = if self.is_complete {
            self.runner.strategy(|s| s.coverage())
        } else {
            self.cut_short(&failure)
        };
        let marks = self.scenario.marks().iter().copied();
        let never_reached = marks.filter(|m| !self.runner.reached.contains(m)).collect();
        let all_ns = self.options.clock_ns.map(|clock| clock().saturating_sub(self.start_ns));
        Report {
            scenario: self.scenario.name().to_owned(),
            bug: self.scenario.bug().map(str::to_owned),
            model: self.options.model,
            strategy: self.options.strategy,
            runs: self.runs,
            states: self.runner.strategy(|s| s.states()),
            steps: self.steps,
            longest_steps: self.longest,
            exhausted: coverage == Coverage::Everything,
            coverage,
            failure,
            never_reached,
            reached: self.runner.reached,
            ends: self.ends,
            time_ns: all_ns.map(|all| (all, self.setup_ns)),
        }
    }

    /// A sampling strategy never covers more than samples. A stopped search proves nothing.
    fn cut_short(&self, failure: &Option<Found>) -> Coverage {
        match self.runner.strategy(|s| s.coverage()) {
            Coverage::Sampled if failure.is_none() => Coverage::Sampled,
            _ => Coverage::CutShort,
        }
    }
}
