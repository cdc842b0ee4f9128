//! The search: run after run under one strategy, until a failure, the end of the space, or the
//! caller's limits.
//!
//! Order at a failure: 1. the schedule is run again and must lead to the same states; 2. it is made
//! smaller; 3. both are printed as lines.

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

/// How to search, and for how long.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The strategy that chooses the next agent.
    pub strategy: StrategyKind,
    /// How stores become visible.
    pub model: MemoryModel,
    /// Runs to make at most.
    pub max_runs: u64,
    /// Different states to keep at most (about 10 bytes each).
    pub max_states: u64,
    /// For the random strategies.
    pub seed: u64,
    /// Whether a systematic search takes a step that commutes with all others without asking its
    /// strategy. Off only for checking that this hides nothing.
    pub reduce: bool,
    /// Whether the report names the states in which runs ended.
    pub keep_ends: bool,
    /// Runs to spend at most on making a failing schedule smaller; 0 keeps it as it was found.
    pub shrink_runs: u64,
    /// Called between runs; the search ends when it returns `false`. The caller checks its clock
    /// here.
    pub keep_going: &'a dyn Fn() -> bool,
    /// The caller's clock, in nanoseconds, for the share of set-up in the report.
    pub clock_ns: Option<&'a dyn Fn() -> u64>,
}

fn always() -> bool {
    true
}

impl Default for Options<'_> {
    /// Exhaustive, with store buffers, 10 million runs or 20 million states.
    fn default() -> Self {
        Options {
            strategy: StrategyKind::Exhaustive,
            model: MemoryModel::TotalStoreOrder,
            max_runs: 10_000_000,
            max_states: 20_000_000,
            seed: 1,
            reduce: true,
            keep_ends: false,
            shrink_runs: 2_000,
            keep_going: &always,
            clock_ns: None,
        }
    }
}

/// A failure, with the schedules that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What went wrong.
    pub failure: Failure,
    /// The schedule as it was found: [`crate::replay`] repeats it.
    pub line: String,
    /// A smaller schedule that fails the same way.
    pub shrunk_line: String,
    /// The smaller schedule as data.
    pub shrunk: Schedule,
    /// Number of the run that failed, from 1.
    pub at_run: u64,
    /// Visible steps of that run.
    pub steps: u64,
}

/// What a search came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// The scenario.
    pub scenario: String,
    /// The planted bug in it.
    pub bug: Option<String>,
    /// The memory model.
    pub model: MemoryModel,
    /// The strategy.
    pub strategy: StrategyKind,
    /// Runs made.
    pub runs: u64,
    /// Different states seen; 0 if the strategy does not count them.
    pub states: u64,
    /// Visible steps of all runs together.
    pub steps: u64,
    /// Visible steps of the longest run.
    pub longest_steps: u64,
    /// Whether every reachable state was covered ([`Coverage::Everything`]).
    pub exhausted: bool,
    /// What was covered.
    pub coverage: Coverage,
    /// The first failure.
    pub failure: Option<Found>,
    /// Marks that some run reached.
    pub reached: Vec<&'static str>,
    /// Marks that no run reached: the scenario does not show what it is for.
    pub never_reached: Vec<&'static str>,
    /// The states in which runs ended, by [`Options::keep_ends`].
    pub ends: BTreeSet<u64>,
    /// Time of all runs and of their set-up, in nanoseconds, by [`Options::clock_ns`].
    pub time_ns: Option<(u64, u64)>,
}

impl Report {
    /// No failure, and every mark reached.
    pub fn passed(&self) -> bool {
        self.failure.is_none() && self.never_reached.is_empty()
    }

    /// The part of the time that building machines took, from 0 to 1.
    pub fn setup_share(&self) -> Option<f64> {
        self.time_ns.map(|(all, setup)| if all == 0 { 0.0 } else { setup as f64 / all as f64 })
    }
}

/// Searches `scenario` for a failure.
pub fn explore(scenario: &dyn Scenario, options: &Options<'_>) -> Result<Report, ExplorerError> {
    explore_with(scenario, options, options.strategy.build(options.seed))
}

/// [`explore`] with a strategy of the caller's own; `options.strategy` is what stands in the
/// schedule.
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

/// Random runs before a systematic search.
const FIRST_RUNS: u64 = 64;

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
    over: bool,
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
            runner.reduce();
        }
        Search {
            scenario,
            options,
            runner,
            runs: 0,
            steps: 0,
            longest: 0,
            over: false,
            ends: BTreeSet::new(),
            setup_ns: 0,
            start_ns,
        }
    }

    fn may_go_on(&self) -> bool {
        self.runs < self.options.max_runs
            && self.runner.strategy(|s| s.states()) < self.options.max_states
            && (self.options.keep_going)()
    }

    /// Runs until a failure, a limit or the end of the space. A few random runs come first: they
    /// show most of what agents share, which spares beginning again.
    fn run(&mut self) -> Result<Option<Failed>, ExplorerError> {
        if self.runner.is_reduced() {
            let random = Box::new(RandomWalk::new(self.options.seed));
            let strategy = self.runner.exchange_strategy(random);
            let failed = self.run_at_most(FIRST_RUNS);
            self.runner.exchange_strategy(strategy);
            if let Some(failed) = failed? {
                return Ok(Some(failed));
            }
            self.runner.take_refuted();
            self.forget_reached();
        }
        self.run_at_most(u64::MAX)
    }

    /// What a search reaches is what its last pass reaches.
    fn forget_reached(&mut self) {
        self.runner.reached.clear();
        self.ends.clear();
    }

    fn run_at_most(&mut self, runs: u64) -> Result<Option<Failed>, ExplorerError> {
        let last = self.runs.saturating_add(runs);
        while self.runs < last && self.may_go_on() {
            if !self.runner.strategy(|s| s.begin()) {
                self.over = true;
                break;
            }
            let ran = self.one_run();
            self.runs += 1;
            self.steps += ran.steps;
            self.longest = self.longest.max(ran.steps);
            if let Some(failure) = ran.failure {
                let trail = self.runner.trail(Trail::clone);
                return Ok(Some(Failed { failure, trail, at_run: self.runs, steps: ran.steps }));
            }
            if self.options.keep_ends {
                self.ends.insert(ran.end);
            }
            if self.runner.take_refuted() {
                self.runner.strategy(|s| s.restart());
                self.forget_reached();
            } else if let Some(choice) = self.runner.strategy(|s| s.parted_at()) {
                return Err(self.not_deterministic(choice));
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

    /// Repeats the failure, makes it smaller, and prints both.
    fn found(&self, failed: Failed) -> Result<Found, ExplorerError> {
        let Failed { failure, trail, at_run, steps } = failed;
        let mut again = Runner::new(Replay::new(&trail.choices), self.options.model);
        let ran = again.run(self.scenario);
        if let Some(choice) = again.trail(|t| t.parts_from(&trail)) {
            return Err(self.not_deterministic(choice));
        }
        if ran.failure.as_ref() != Some(&failure) {
            return Err(self.not_deterministic(trail.choices.len() as u64));
        }
        let blank = Schedule::of(self.scenario, self.options.model, self.options.strategy);
        let found = blank.with(&trail.choices, trail.checksum());
        let limits = (self.options.shrink_runs, self.options.keep_going);
        let smaller = shrink(self.scenario, &mut again, &failure, &trail, limits);
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
        let coverage = if self.over {
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

    /// Samples are samples however many there are; a search that was stopped proves nothing.
    fn cut_short(&self, failure: &Option<Found>) -> Coverage {
        match self.runner.strategy(|s| s.coverage()) {
            Coverage::Sampled if failure.is_none() => Coverage::Sampled,
            _ => Coverage::CutShort,
        }
    }
}
