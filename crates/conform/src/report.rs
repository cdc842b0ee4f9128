//! The verdicts of an examination, and their form for people and for JSON.

use crate::clause::Words;
use crate::situation::situation;
use serde::Serialize;
use std::fmt::Write;

/// The verdict on a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It was checked, and each check held.
    Kept,
    /// A check failed.
    Broken,
    /// No situation that ran checks it.
    NotReached,
}

/// A check that failed.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The situation.
    pub situation: String,
    /// The order of the situation; 0 if no delays were drawn.
    pub seed: u64,
    /// Virtual time of the event, in nanoseconds.
    pub at_ns: u64,
    /// Number of the event in the journal of the run.
    pub place: usize,
    /// What was seen.
    pub what: String,
    /// Where agents were stopped in the driver's code, and the line that repeats it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
}

/// An order of the steps of a driver's code.
#[derive(Clone, Debug, Serialize)]
pub struct Schedule {
    /// The line that repeats it.
    pub line: String,
    /// A text for each agent that was stopped.
    pub switches: Vec<String>,
}

/// A clause and its verdict.
pub struct Row {
    /// The clause.
    pub clause: Words,
    /// Checks in all situations.
    pub checks: u64,
    /// The verdict.
    pub verdict: Verdict,
    /// The first failed check of each situation.
    pub findings: Vec<Finding>,
}

impl Row {
    /// Returns the broken clause as a failed test: the rule, its source, what was seen, and the
    /// arguments that run it again.
    pub fn text(&self) -> String {
        let clause = self.clause;
        let mut text = format!("{}: {}\n  source: {}\n", clause.id, clause.rule, clause.source);
        for finding in &self.findings {
            let Finding { situation, seed, at_ns, place, what, schedule } = finding;
            let order = match seed {
                0 => String::new(),
                seed => format!(" (seed {seed})"),
            };
            let _ =
                writeln!(text, "  in '{situation}'{order} at {at_ns} ns (event {place}): {what}");
            for switch in schedule.iter().flat_map(|schedule| &schedule.switches) {
                let _ = writeln!(text, "    {switch}");
            }
        }
        // A workload is run again by its file.
        let of_ours = |finding: &&Finding| situation(&finding.situation).is_ok();
        if let Some(finding) = self.findings.iter().find(of_ours) {
            let (family, situation) = (clause.family, &finding.situation);
            let again = match (&finding.schedule, finding.seed) {
                (Some(Schedule { line, .. }), _) => format!("--schedule {line}"),
                (None, 0) => format!("--situation {situation}"),
                (None, seed) => format!("--situation {situation} --seed {seed}"),
            };
            let _ = writeln!(text, "  again: --family {family} {again}");
        }
        text
    }
}

/// The verdicts on a driver.
pub struct Report {
    /// The driver.
    pub driver: String,
    /// Situations that ran.
    pub ran: Vec<String>,
    /// Situations that the driver's capabilities do not allow, with the reason.
    pub left_out: Vec<(String, String)>,
    /// One row for each selected clause.
    pub rows: Vec<Row>,
    /// Wrong results and findings of the kernel that no broken clause explains, by situation.
    pub unexplained: Vec<(String, String)>,
}

#[derive(Serialize)]
struct JsonReport<'a> {
    driver: &'a str,
    conforms: bool,
    situations: &'a [String],
    left_out: Vec<JsonLeftOut<'a>>,
    clauses: Vec<JsonRow<'a>>,
    unexplained: Vec<JsonProblem<'a>>,
}

#[derive(Serialize)]
struct JsonLeftOut<'a> {
    situation: &'a str,
    reason: &'a str,
}

#[derive(Serialize)]
struct JsonRow<'a> {
    id: &'static str,
    family: &'static str,
    rule: &'static str,
    source: &'static str,
    verdict: Verdict,
    checks: u64,
    findings: &'a [Finding],
}

#[derive(Serialize)]
struct JsonProblem<'a> {
    situation: &'a str,
    what: &'a str,
}

impl Report {
    pub(crate) fn new(driver: String) -> Report {
        let (ran, left_out, rows) = (Vec::new(), Vec::new(), Vec::new());
        Report { driver, ran, left_out, rows, unexplained: Vec::new() }
    }

    /// Notes a situation that does not run, once for all its orders.
    pub(crate) fn leave_out(&mut self, situation: &str, reason: &str) {
        if !self.left_out.iter().any(|(known, _)| known == situation) {
            self.left_out.push((situation.to_owned(), reason.to_owned()));
        }
    }

    /// Returns whether no clause is broken and nothing else is wrong.
    pub fn conforms(&self) -> bool {
        self.broken().next().is_none() && self.unexplained.is_empty()
    }

    /// Returns the rows of broken clauses.
    pub fn broken(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.verdict == Verdict::Broken)
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict == verdict).count()
    }

    /// Returns the report for people: each broken clause as a failed test, then a summary.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for row in self.broken() {
            let _ = write!(text, "{}", row.text());
        }
        for (situation, what) in &self.unexplained {
            let _ = writeln!(text, "in '{situation}': {what}");
        }
        for (situation, reason) in &self.left_out {
            let _ = writeln!(text, "not run: '{situation}': {reason}");
        }
        let (kept, broken, not_reached) = (
            self.count(Verdict::Kept),
            self.count(Verdict::Broken),
            self.count(Verdict::NotReached),
        );
        let verdict = if self.conforms() { "conforms" } else { "does not conform" };
        let _ = writeln!(
            text,
            "{} {verdict}: {} clauses: {kept} kept, {broken} broken, {not_reached} not reached; {} \
             situations ran",
            self.driver,
            self.rows.len(),
            self.ran.len()
        );
        text
    }

    /// Returns the report in the form that is written as JSON.
    pub fn for_json(&self) -> impl Serialize + '_ {
        let rows = self.rows.iter().map(|row| JsonRow {
            id: row.clause.id,
            family: row.clause.family.name(),
            rule: row.clause.rule,
            source: row.clause.source,
            verdict: row.verdict,
            checks: row.checks,
            findings: &row.findings,
        });
        let left_out = self.left_out.iter();
        let unexplained = self.unexplained.iter();
        JsonReport {
            driver: &self.driver,
            conforms: self.conforms(),
            situations: &self.ran,
            left_out: left_out
                .map(|(situation, reason)| JsonLeftOut { situation, reason })
                .collect(),
            clauses: rows.collect(),
            unexplained: unexplained
                .map(|(situation, what)| JsonProblem { situation, what })
                .collect(),
        }
    }
}
