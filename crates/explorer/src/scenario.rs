//! What is explored: a [`Scenario`] builds the same machine for each run and checks its end.
//!
//! A scenario is deterministic but for the choices of the platform: no clock, no addresses, no
//! order of a hash map. Waits sleep: a loop that polls has no end of states.

use crate::property::{Check, Failure, Verdict};
use tidegate_platform::{Platform, RunReport};

/// A world to explore. The same value prepares any number of runs, on any platform.
pub trait Scenario {
    /// Short name in lower case, digits and hyphens: it stands in schedules.
    fn name(&self) -> &str;

    /// One sentence: which agents race, and for what.
    fn about(&self) -> &str;

    /// What at least one schedule must reach, or the scenario shows nothing: the names that
    /// [`Verdict::sometimes`] is called with.
    fn marks(&self) -> &[&'static str] {
        &[]
    }

    /// Builds one run: makes pages, mutexes and services on `platform` and returns what to run.
    fn prepare(&self, platform: &Platform) -> Prepared;

    /// The bugs that can be put in on purpose.
    fn planted(&self) -> Vec<PlantedBug> {
        Vec::new()
    }

    /// This scenario with a planted bug; `None` if there is no such bug.
    fn with_bug(&self, _bug: &str) -> Option<Box<dyn Scenario>> {
        None
    }

    /// The planted bug that is in it.
    fn bug(&self) -> Option<&str> {
        None
    }
}

/// A bug that a scenario can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlantedBug {
    /// Short name in lower case, digits and hyphens: it stands in schedules.
    pub name: &'static str,
    /// What is left out or turned round, and what then goes wrong.
    pub about: &'static str,
}

/// One run, ready to go.
pub struct Prepared {
    pub(crate) main: Box<dyn FnOnce() + Send>,
    pub(crate) check: Check,
    pub(crate) may_block: bool,
}

impl Prepared {
    /// A run of `main` as the first agent, then of `check`. A blocked agent or a panic is a failure
    /// before `check` is called; a panic of `check` is a failure too.
    pub fn new(
        main: impl FnOnce() + Send + 'static,
        check: impl FnOnce(&mut Verdict<'_>) + 'static,
    ) -> Prepared {
        Prepared { main: Box::new(main), check: Box::new(check), may_block: false }
    }

    /// A run in which agents may be left blocked at the end; `check` can look at
    /// [`Verdict::report`].
    pub fn may_block(mut self) -> Prepared {
        self.may_block = true;
        self
    }

    /// Runs it on `platform` and judges it, outside any exploration (host and virtual time).
    pub fn run(self, platform: &Platform) -> (RunReport, Option<Failure>) {
        let report = platform.run(self.main);
        let mut reached = Vec::new();
        let failure = Verdict::of(&report, self.may_block, &mut reached).judge(self.check);
        (report, failure)
    }
}
