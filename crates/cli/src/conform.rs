//! `tidegate conform`: a driver against the clauses of the contract.

mod child;
mod driver_in_c;
mod explore;
mod order;
mod search;

use self::driver_in_c::{Driver, all_clauses};
use crate::output::Outputs;
use crate::streams::{errln, outln};
use crate::tables::table;
use crate::{BadInput, End, arguments};
use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate::workload::model::Workload;
use tidegate::workload::{self, LoadOptions};
use tidegate_conform::{Report, Row, Selection, Subject, Verdict, examine, situations};

/// The name of the reference driver on the command line.
const REFERENCE: &str = "reference";

/// `tidegate conform`.
pub(crate) fn command(arguments: &arguments::Conform, outputs: &Outputs) -> Result<End, BadInput> {
    let Some(path) = &arguments.driver else {
        list();
        return Ok(End::Right);
    };
    let report = match path.as_os_str() == REFERENCE {
        true if arguments.explore || arguments.schedule.is_some() || arguments.run_schedules => {
            return Err(BadInput("--explore and --schedule need a driver in C".to_owned()));
        }
        true if arguments.device.is_some() => {
            return Err(BadInput("--device needs a driver in C".to_owned()));
        }
        true => {
            let adapter = arguments.adapter.map(|adapter| adapter.0);
            sequential(Subject::reference(adapter), arguments)?
        }
        false if arguments.adapter.is_some() => {
            return Err(BadInput("--adapter is for the reference driver".to_owned()));
        }
        false => {
            let driver = Driver::new(path, arguments.device.as_deref(), &arguments.family);
            if arguments.run_schedules {
                return child::serve(&driver);
            }
            match &arguments.schedule {
                Some(line) => driver.repeat(line)?,
                None if arguments.explore => explore::explore(arguments, &driver.name())?,
                None => sequential(driver.subject, arguments)?,
            }
        }
    };
    if let Some(path) = &arguments.json {
        outputs.write_json(path, &report.for_json())?;
    }
    if let Some(path) = &arguments.junit {
        write_junit(path, &report, outputs)?;
    }
    let text = report.text();
    if outputs.take_stdout() {
        errln!("{}", text.trim_end());
    } else {
        outln!("{}", text.trim_end());
    }
    Ok(if report.conforms() { End::Right } else { End::Wrong })
}

/// Examines a driver in this process, in the order of virtual time.
fn sequential(subject: Subject, arguments: &arguments::Conform) -> Result<Report, BadInput> {
    let subject = match arguments.faulty {
        Some(clause) => subject.with_mistake(clause),
        None => subject,
    };
    let selection = Selection {
        families: arguments.family.clone(),
        situations: arguments.situation.clone(),
        workloads: workloads(&arguments.workload)?,
        seeds: match (arguments.seed, arguments.seeds) {
            (Some(seed), _) => vec![seed],
            (None, Some(count)) => (0..=count).collect(),
            (None, None) => Vec::new(),
        },
        inline_interrupts: false,
    };
    examine(&subject, &selection).map_err(|error| BadInput(error.to_string()))
}

fn workloads(paths: &[PathBuf]) -> Result<Vec<Arc<Workload>>, BadInput> {
    let load = |path: &PathBuf| match workload::load(path, &LoadOptions::default()) {
        Ok((workload, _)) => Ok(Arc::new(workload)),
        Err(error) => Err(BadInput(error.to_string())),
    };
    paths.iter().map(load).collect()
}

fn list() {
    let mut rows = table(["clause", "rule", "source"]);
    for clause in all_clauses(true) {
        rows.add_row([clause.id, clause.rule, clause.source]);
    }
    outln!("{rows}");
    let mut rows = table(["situation", "what happens"]);
    for situation in situations() {
        rows.add_row([&*situation.name, situation.about]);
    }
    outln!("{rows}");
}

/// Writes the verdicts: a suite for each family, a case for each clause.
fn write_junit(path: &Path, report: &Report, outputs: &Outputs) -> Result<(), BadInput> {
    let mut junit = quick_junit::Report::new(format!("tidegate conform {}", report.driver));
    let rows = report.rows.chunk_by(|a, b| a.clause.family == b.clause.family);
    junit.add_test_suites(rows.map(|rows| {
        let mut suite = TestSuite::new(rows[0].clause.family.name());
        suite.add_test_cases(rows.iter().map(case));
        suite
    }));
    let mut others = TestSuite::new("results");
    for (situation, what) in &report.unexplained {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
        status.set_message(what);
        others.add_test_case(TestCase::new(&**situation, status));
    }
    junit.add_test_suite(others);
    outputs.write(path, |out| junit.serialize(out).map_err(io::Error::other))
}

fn case(row: &Row) -> TestCase {
    let status = match row.verdict {
        Verdict::Kept => TestCaseStatus::success(),
        Verdict::NotReached => TestCaseStatus::skipped(),
        Verdict::Broken => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            let what = row.findings.first().map_or("", |finding| &finding.what);
            status.set_message(what).set_description(row.text());
            status
        }
    };
    let mut case = TestCase::new(row.clause.id, status);
    case.set_classname(row.clause.family.name());
    case
}
