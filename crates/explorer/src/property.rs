//! The verdict on one run. Properties are of three kinds: `always` (in every run), `sometimes` (in
//! at least one run, or the scenario is vacuous), `eventually` (by the end of every run that is not
//! cut short).
//!
//! Order: 1. agents left blocked; 2. panics; 3. the scenario's own properties, in its order. The
//! first that fails is the run's failure.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tidegate_platform::RunReport;

/// How a run failed. Two failures that are equal are the same bug for shrinking and replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No agent could move any more: each agent and what it waited for. A lost wake-up or a deadlock.
    Blocked(Vec<(String, String)>),
    /// An agent, or the check, panicked.
    Panicked(String),
    /// A property that must hold in every run does not.
    Always(String),
    /// Something that must have happened by the end of the run has not.
    Eventually(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Blocked(agents) => {
                write!(f, "no agent can move any more: ")?;
                for (index, (agent, what)) in agents.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}'{agent}' waits for {what}")?;
                }
                Ok(())
            }
            Failure::Panicked(text) => f.write_str(text),
            Failure::Always(name) => write!(f, "must always hold and does not: {name}"),
            Failure::Eventually(name) => write!(f, "must come by the end and has not: {name}"),
        }
    }
}

/// What judges a run, called once after it.
pub type Check = Box<dyn FnOnce(&mut Verdict<'_>)>;

/// The judgement of one run in the making; the scenario's check adds its properties.
pub struct Verdict<'a> {
    report: &'a RunReport,
    failure: Option<Failure>,
    reached: &'a mut Vec<&'static str>,
}

impl<'a> Verdict<'a> {
    pub(crate) fn of(
        report: &'a RunReport,
        may_block: bool,
        reached: &'a mut Vec<&'static str>,
    ) -> Verdict<'a> {
        let failure = if !may_block && !report.blocked.is_empty() {
            Some(Failure::Blocked(report.blocked.clone()))
        } else {
            report.panics.first().cloned().map(Failure::Panicked)
        };
        Verdict { report, failure, reached }
    }

    /// How the run ended.
    pub fn report(&self) -> &'a RunReport {
        self.report
    }

    /// `holds` must be true in every run.
    pub fn always(&mut self, name: &'static str, holds: bool) {
        if !holds && self.failure.is_none() {
            self.failure = Some(Failure::Always(name.to_owned()));
        }
    }

    /// `happened` must be true in at least one run of the exploration. List `name` in
    /// [`crate::Scenario::marks`].
    pub fn sometimes(&mut self, name: &'static str, happened: bool) {
        if happened && !self.reached.contains(&name) {
            self.reached.push(name);
        }
    }

    /// `came` must be true at the end of every run. A run whose agents blocked or panicked fails
    /// for that instead.
    pub fn eventually(&mut self, name: &'static str, came: bool) {
        if !came && self.failure.is_none() {
            self.failure = Some(Failure::Eventually(name.to_owned()));
        }
    }

    pub(crate) fn judge(mut self, check: Check) -> Option<Failure> {
        let result = catch_unwind(AssertUnwindSafe(|| check(&mut self)));
        if let (Err(payload), None) = (result, &self.failure) {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text =
                text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("(no message)");
            self.failure = Some(Failure::Panicked(format!("the check panicked: {text}")));
        }
        self.failure
    }
}
