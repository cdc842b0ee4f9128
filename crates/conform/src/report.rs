//! The verdicts of an examination, and their form for people and for JSON.

use crate::clause::Words;
use crate::situation::situation;
use serde::Serialize;
use std::fmt::Write;

/// How many situations with the words of an earlier one are named, at most.
const NAMED_AGAIN: usize = 4;

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

impl Finding {
    /// Returns whether it says of another situation what `earlier` says, in no order of its own.
    fn repeats(&self, earlier: &Finding) -> bool {
        let is_plain = |finding: &Finding| finding.seed == 0 && finding.schedule.is_none();
        is_plain(self) && is_plain(earlier) && self.what == earlier.what
    }
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
    /// arguments that run it again. What other situations show in the same words is there once.
    pub fn text(&self) -> String {
        let clause = self.clause;
        let mut text = format!("{}: {}\n  source: {}\n", clause.id, clause.rule, clause.source);
        for (index, finding) in self.findings.iter().enumerate() {
            let (earlier, later) = (&self.findings[..index], &self.findings[index + 1..]);
            if earlier.iter().any(|other| finding.repeats(other)) {
                continue;
            }
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
            let again = later.iter().filter(|other| other.repeats(finding));
            let again: Vec<String> = again.map(|other| format!("'{}'", other.situation)).collect();
            if !again.is_empty() {
                let (named, more) = again.split_at(again.len().min(NAMED_AGAIN));
                let _ = write!(text, "    also in {}", named.join(", "));
                let _ = match more.len() {
                    0 => writeln!(text),
                    more => writeln!(text, ", and in {more} more"),
                };
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a broken clause that say what was seen, with `names` as the situations.
    fn lines(findings: &[(&str, u64, &str)]) -> Vec<String> {
        let clause = crate::families::clauses().next().unwrap().words();
        let finding = |(situation, seed, what): &(&str, u64, &str)| Finding {
            situation: (*situation).to_owned(),
            seed: *seed,
            at_ns: 7,
            place: 1,
            what: (*what).to_owned(),
            schedule: None,
        };
        let findings = findings.iter().map(finding).collect();
        let text = Row { clause, checks: 1, verdict: Verdict::Broken, findings }.text();
        let seen = text.lines().filter(|line| line.contains("in '"));
        seen.map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn what_several_situations_show_is_there_once() {
        let (bad, worse) = ("is bad", "is worse");
        let first = "in 'a' at 7 ns (event 1): is bad";
        assert_eq!(lines(&[("a", 0, bad)]), [first]);
        assert_eq!(
            lines(&[("a", 0, bad), ("b", 0, worse), ("c", 0, bad)]),
            [first, "also in 'c'", "in 'b' at 7 ns (event 1): is worse"]
        );
        let of = |names: &'static str| {
            lines(&names.split(' ').map(|name| (name, 0, bad)).collect::<Vec<_>>())
        };
        assert_eq!(of("a b c d e"), [first, "also in 'b', 'c', 'd', 'e'"]);
        assert_eq!(of("a b c d e f g"), [first, "also in 'b', 'c', 'd', 'e', and in 2 more"]);
        // Each seed is repeated by a line of its own.
        let seeds = lines(&[("a", 0, bad), ("a", 3, bad)]);
        assert_eq!(seeds, [first, "in 'a' (seed 3) at 7 ns (event 1): is bad"]);
    }
}
