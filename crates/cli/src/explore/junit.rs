//! The results of an exploration as JUnit XML: a test case for each search, in the suite of its
//! scenario.

use super::outcome::{Outcome, time_ns, what_is_wrong};
use crate::BadInput;
use crate::output::Outputs;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use std::io;
use std::path::Path;
use std::time::Duration;

/// Writes the results.
///
/// # Errors
///
/// As for [`Outputs::write`].
pub(super) fn write(path: &Path, outcomes: &[Outcome], outputs: &Outputs) -> Result<(), BadInput> {
    let mut report = Report::new("tidegate explore");
    report.add_test_suites(outcomes.chunk_by(|a, b| a.scenario == b.scenario).map(suite));
    outputs.write(path, |out| report.serialize(out).map_err(io::Error::other))
}

fn suite(outcomes: &[Outcome]) -> TestSuite {
    let mut suite = TestSuite::new(outcomes.first().map_or("", |outcome| &outcome.scenario));
    suite.add_test_cases(outcomes.iter().map(case));
    suite
}

fn case(outcome: &Outcome) -> TestCase {
    let mut status = TestCaseStatus::success();
    if !outcome.is_right() {
        let kind = match outcome.searched {
            Ok(_) => NonSuccessKind::Failure,
            Err(_) => NonSuccessKind::Error,
        };
        let text = what_is_wrong(outcome);
        status = TestCaseStatus::non_success(kind);
        status.set_message(text.lines().next().unwrap_or_default()).set_description(text);
    }
    let mut case = TestCase::new(outcome.name(), status);
    case.set_classname(&*outcome.scenario);
    if let Ok(report) = &outcome.searched {
        case.set_time(Duration::from_nanos(time_ns(report)));
        case.set_system_out(format!(
            "{}: {} runs, {} states, {}",
            outcome.plan.strategy, report.runs, report.states, report.coverage
        ));
    }
    case
}
