//! Scenarios: a [`Scenario`] builds the same machine for each run and checks its end.
//!
//! A scenario is deterministic except for the platform's choices: it uses no clock, address or hash
//! map order. Waits must sleep, because a polling loop has infinitely many states.

use crate::property::{Check, Failure, Rules, Verdict};
use crate::quiet::Quiet;
use tidegate_platform::{Platform, RunReport};

/// A scenario to explore. One value prepares any number of runs, on any platform.
pub trait Scenario {
    /// Returns the name used in schedules: short, of lower-case letters, digits and hyphens.
    fn name(&self) -> &str;

    /// Returns one sentence that states which agents race, and for what.
    fn about(&self) -> &str;

    /// Returns the names passed to [`Verdict::sometimes`]. A scenario with a mark that no schedule
    /// reaches is vacuous.
    fn marks(&self) -> &[&'static str] {
        &[]
    }

    /// Whether the check of a run judges groups of agents that share nothing one by one: no
    /// property combines what two such groups have done. A search then explores each group by
    /// itself, and omits combinations of their ends.
    fn judges_groups_apart(&self) -> bool {
        false
    }

    /// Builds one run: creates pages, mutexes and services on `platform`.
    fn prepare(&self, platform: &Platform) -> Prepared;

    /// Returns the bugs that can be planted.
    fn planted(&self) -> Vec<PlantedBug> {
        Vec::new()
    }

    /// Returns this scenario with a planted bug; `None` if there is no such bug.
    fn with_bug(&self, _bug: &str) -> Option<Box<dyn Scenario>> {
        None
    }

    /// Returns the name of the planted bug.
    fn bug(&self) -> Option<&str> {
        None
    }
}

/// A bug that can be planted in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlantedBug {
    /// Name used in schedules: short, of lower-case letters, digits and hyphens.
    pub name: &'static str,
    /// The change, and its consequence.
    pub about: &'static str,
}

/// One run, ready to start.
pub struct Prepared {
    pub(crate) main: Box<dyn FnOnce() + Send>,
    pub(crate) check: Check,
    pub(crate) may_block: bool,
    pub(crate) of_program: bool,
}

impl Prepared {
    /// Creates a run of `main` as the first agent, followed by `check`. A blocked agent or a panic
    /// is a failure and skips `check`. A panic of `check` is a failure too.
    pub fn new(
        main: impl FnOnce() + Send + 'static,
        check: impl FnOnce(&mut Verdict<'_>) + 'static,
    ) -> Prepared {
        Prepared {
            main: Box::new(main),
            check: Box::new(check),
            may_block: false,
            of_program: false,
        }
    }

    /// Allows agents to be blocked at the end; `check` can inspect [`Verdict::report`].
    pub fn may_block(mut self) -> Prepared {
        self.may_block = true;
        self
    }

    /// Marks the run as one of a user's program: a panic counts before the standstill that it
    /// causes, and says where it is.
    pub fn of_program(mut self) -> Prepared {
        self.of_program = true;
        self
    }

    /// Runs and checks it on `platform` without an exploration (host and virtual time).
    pub fn run(self, platform: &Platform) -> (RunReport, Option<Failure>) {
        let _quiet = self.of_program.then(Quiet::with_places);
        let report = platform.run(self.main);
        let mut reached = Vec::new();
        let rules = Rules { may_block: self.may_block, of_program: self.of_program };
        let failure = Verdict::of(&report, rules, &mut reached).judge(self.check);
        (report, failure)
    }
}
