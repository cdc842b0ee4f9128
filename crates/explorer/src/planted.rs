//! The search for planted bugs. A search that misses one proves nothing.

use crate::error::ExplorerError;
use crate::explore::{Options, Report, explore};
use crate::scenario::{PlantedBug, Scenario};

/// The result of the search for one planted bug.
#[derive(Clone, Debug)]
pub struct PlantedReport {
    /// The bug.
    pub bug: PlantedBug,
    /// The search. The bug was found if it has a failure, after [`Report::runs`] schedules.
    pub report: Report,
}

impl PlantedReport {
    /// Whether the bug was found.
    pub fn found(&self) -> bool {
        self.report.failure.is_some()
    }
}

/// Searches for each planted bug of `scenario`.
pub fn explore_planted(
    scenario: &dyn Scenario,
    options: &Options<'_>,
) -> Result<Vec<PlantedReport>, ExplorerError> {
    let bugs = scenario.planted().into_iter();
    bugs.map(|bug| {
        let broken = with_bug(scenario, bug.name)?;
        Ok(PlantedReport { bug, report: explore(broken.as_ref(), options)? })
    })
    .collect()
}

/// Returns `scenario` with the planted bug `bug`.
pub(crate) fn with_bug(
    scenario: &dyn Scenario,
    bug: &str,
) -> Result<Box<dyn Scenario>, ExplorerError> {
    scenario.with_bug(bug).ok_or_else(|| {
        let names: Vec<&str> = scenario.planted().iter().map(|b| b.name).collect();
        ExplorerError::UnknownBug {
            scenario: scenario.name().to_owned(),
            bug: bug.to_owned(),
            has: if names.is_empty() { "none".to_owned() } else { names.join(", ") },
        }
    })
}
