//! The verdict on one run. Properties are `always` (holds in every run), `sometimes` (holds in at
//! least one run, or the scenario is vacuous) or `eventually` (holds at the end of every run that
//! is not cut short).
//!
//! Order: 1. blocked agents; 2. panics (in a program, a panic before the standstill comes first);
//! 3. the scenario's own properties, in its order. The first violation is the run's failure.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tidegate_platform::RunReport;

/// The failure of a run. Equal failures count as the same bug in shrinking and replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No agent is runnable: each agent and what it waits for (a lost wake-up or a deadlock).
    Blocked(Vec<(String, String)>),
    /// An agent or the check panicked.
    Panicked(String),
    /// Locks and waits of which each may wait for the next, although no agent was blocked.
    WaitCircle(String),
    /// A property that must hold in every run is violated.
    Always(String),
    /// A property that must hold by the end of the run does not.
    Eventually(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Blocked(agents) => {
                write!(f, "no agent is runnable: ")?;
                for (index, (agent, what)) in agents.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}'{agent}' waits for {what}")?;
                }
                Ok(())
            }
            Failure::Panicked(text) | Failure::WaitCircle(text) => f.write_str(text),
            Failure::Always(name) => write!(f, "violated property: {name}"),
            Failure::Eventually(name) => write!(f, "does not hold at the end of the run: {name}"),
        }
    }
}

/// The check of a run, called once after it.
pub type Check = Box<dyn FnOnce(&mut Verdict<'_>)>;

/// What a run is judged by.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// Agents may be blocked at the end.
    pub(crate) may_block: bool,
    /// A panic counts before the standstill that it causes.
    pub(crate) of_program: bool,
}

/// A verdict under construction. The scenario's check adds its properties.
pub struct Verdict<'a> {
    report: &'a RunReport,
    failure: Option<Failure>,
    reached: &'a mut Vec<&'static str>,
}

impl<'a> Verdict<'a> {
    pub(crate) fn of(
        report: &'a RunReport,
        rules: Rules,
        reached: &'a mut Vec<&'static str>,
    ) -> Verdict<'a> {
        let panicked_first = rules.of_program && report.panicked_first;
        let failure = if !rules.may_block && !panicked_first && !report.blocked.is_empty() {
            Some(Failure::Blocked(report.blocked.clone()))
        } else {
            let circle = || report.wait_circles.first().cloned().map(Failure::WaitCircle);
            report.panics.first().cloned().map(Failure::Panicked).or_else(circle)
        };
        Verdict { report, failure, reached }
    }

    /// Returns the report on the end of the run.
    pub fn report(&self) -> &'a RunReport {
        self.report
    }

    /// Requires `holds` in every run.
    pub fn always(&mut self, name: &'static str, holds: bool) {
        if !holds && self.failure.is_none() {
            self.failure = Some(Failure::Always(name.to_owned()));
        }
    }

    /// Requires `happened` in at least one run of the exploration. `name` must be listed in
    /// [`crate::Scenario::marks`].
    pub fn sometimes(&mut self, name: &'static str, happened: bool) {
        if happened && !self.reached.contains(&name) {
            self.reached.push(name);
        }
    }

    /// Requires `came` at the end of every run. Blocked agents and panics take precedence.
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
