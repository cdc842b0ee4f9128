//! The outcome of one search.

use std::fmt::Write as _;
use tidegate::explorer::{ExplorerError, Report};
use tidegate_scenarios::Plan;

/// A finished search.
pub(super) struct Outcome {
    pub(super) scenario: String,
    pub(super) bug: Option<String>,
    pub(super) plan: Plan,
    pub(super) searched: Result<Report, ExplorerError>,
}

impl Outcome {
    /// Whether a scenario holds, or its planted bug was found.
    pub(super) fn is_right(&self) -> bool {
        match (&self.searched, &self.bug) {
            (Ok(report), None) => report.passed(),
            (Ok(report), Some(_)) => report.failure.is_some(),
            (Err(_), _) => false,
        }
    }

    /// Whether the search found a failure.
    pub(super) fn has_failure(&self) -> bool {
        self.searched.as_ref().is_ok_and(|report| report.failure.is_some())
    }

    /// The scenario, with `+bug` for a planted bug.
    pub(super) fn name(&self) -> String {
        match &self.bug {
            Some(bug) => format!("{}+{bug}", self.scenario),
            None => self.scenario.clone(),
        }
    }
}

/// How long the search took, in nanoseconds; 0 without a clock.
pub(super) fn time_ns(report: &Report) -> u64 {
    report.time_ns.map_or(0, |(all, _)| all)
}

/// The failure of the search, with the line that replays it.
pub(super) fn what_is_wrong(outcome: &Outcome) -> String {
    let report = match &outcome.searched {
        Ok(report) => report,
        Err(error) => return error.to_string(),
    };
    let mut text = String::new();
    if outcome.bug.is_some() {
        let _ = write!(text, "the planted bug was not found ({})", report.coverage);
    } else if let Some(found) = &report.failure {
        let _ = write!(text, "{}\n\n  tidegate replay '{}'\n", found.failure, found.shrunk_line);
    } else {
        let _ = write!(
            text,
            "no run reached: {} ({})",
            report.never_reached.join("; "),
            report.coverage
        );
    }
    text
}
