//! `conform --explore`: each situation in other orders of the driver's steps (decision 176).

use super::child::{Answer, Broken, Child, Ran};
use super::driver_in_c::all_clauses;
use super::order::Order;
use super::search::Search;
use crate::BadInput;
use crate::arguments::Conform;
use std::ffi::OsString;
use tidegate_conform::{
    Family, Finding, Report, Row, Schedule, Situation, Verdict, Words, situations,
};
use tidegate_ddi_c::StepSeen;

/// The clause of a driver that ends its process.
const PROCESS: Words = Words {
    id: "code-process",
    family: Family::Code,
    rule: "the driver's code makes no invalid access and no loop without an end",
    source: "page Bug check codes",
};

/// Explores the chosen situations of a driver in a process of its own.
pub(super) fn explore(arguments: &Conform, driver: &str) -> Result<Report, BadInput> {
    let has_family =
        |words: &Words| arguments.family.is_empty() || arguments.family.contains(&words.family);
    // A process that ends is told whatever was chosen.
    let rows = all_clauses(arguments.device.is_some()).filter(has_family).chain([PROCESS]);
    let rows = rows.map(|clause| Row {
        clause,
        checks: 0,
        verdict: Verdict::NotReached,
        findings: Vec::new(),
    });
    let mut exploration = Exploration {
        arguments,
        child: None,
        report: Report {
            driver: driver.to_owned(),
            ran: Vec::new(),
            left_out: Vec::new(),
            rows: rows.collect(),
            unexplained: Vec::new(),
        },
    };
    let is_chosen = |situation: &Situation| {
        let names = &arguments.situation;
        names.is_empty() || names.iter().any(|name| *name == *situation.name)
    };
    for situation in situations().into_iter().filter(is_chosen) {
        for is_inline in [false, true] {
            if !exploration.situation(&situation.name, is_inline)? {
                break;
            }
        }
    }
    Ok(exploration.report)
}

struct Exploration<'a> {
    arguments: &'a Conform,
    child: Option<Child>,
    report: Report,
}

impl Exploration<'_> {
    /// Explores one situation, up to the first run that breaks a clause. Returns whether every run
    /// kept all clauses.
    fn situation(&mut self, name: &str, is_inline: bool) -> Result<bool, BadInput> {
        let mut search = Search::new(self.arguments.switches);
        let (mut runs, mut is_kept) = (0, true);
        while runs < self.arguments.schedules
            && let Some(switches) = search.next()
        {
            let order = Order { situation: name.to_owned(), is_inline, switches };
            runs += 1;
            match self.run(&order)? {
                Ran::Died(what) => {
                    self.child = None;
                    let broken = Broken { id: PROCESS.id.to_owned(), at_ns: 0, place: 0, what };
                    self.take(&order, vec![broken], Vec::new(), None, Vec::new());
                    is_kept = false;
                    break;
                }
                Ran::Answer(answer) => {
                    if let Some(reason) = answer.left_out {
                        self.report.left_out.push((name.to_owned(), reason));
                        return Ok(false);
                    }
                    let seen: Vec<StepSeen> = answer
                        .steps
                        .iter()
                        .map(|(agent, place)| StepSeen { agent: *agent, place: *place })
                        .collect();
                    search.ran(&order.switches, &seen);
                    self.count(&answer.checks);
                    if !answer.broken.is_empty() || !answer.unexplained.is_empty() {
                        let Answer { broken, unexplained, made, .. } = answer;
                        self.take(&order, broken, unexplained, Some(&seen), made);
                        is_kept = false;
                        break;
                    }
                }
            }
        }
        let where_interrupts_run = if is_inline { ", interrupts on the engines" } else { "" };
        self.report.ran.push(format!("{name} ({runs} orders{where_interrupts_run})"));
        Ok(is_kept)
    }

    /// Runs one order in the child process, which is started if it does not run.
    fn run(&mut self, order: &Order) -> Result<Ran, BadInput> {
        let mut child = match self.child.take() {
            Some(child) => child,
            None => Child::start(&self.process_arguments())?,
        };
        let ran = child.run(order)?;
        self.child = Some(child);
        Ok(ran)
    }

    fn process_arguments(&self) -> Vec<OsString> {
        let driver = self.arguments.driver.iter().map(|path| path.clone().into_os_string());
        let families = self.arguments.family.iter();
        let families = families.flat_map(|family| ["--family".into(), family.name().into()]);
        let device = self.arguments.device.iter();
        let device = device.flat_map(|path| ["--device".into(), path.clone().into_os_string()]);
        let fixed = ["conform", "--run-schedules"].map(OsString::from);
        fixed.into_iter().chain(driver).chain(device).chain(families).collect()
    }

    fn count(&mut self, checks: &[(String, u64)]) {
        for (id, count) in checks {
            let Some(row) = self.report.rows.iter_mut().find(|row| row.clause.id == *id) else {
                continue;
            };
            row.checks += count;
            if row.verdict == Verdict::NotReached {
                row.verdict = Verdict::Kept;
            }
        }
    }

    /// Enters what a run has broken.
    fn take(
        &mut self,
        order: &Order,
        broken: Vec<Broken>,
        unexplained: Vec<String>,
        seen: Option<&[StepSeen]>,
        made: Vec<String>,
    ) {
        let schedule = Schedule { line: order.line(seen), switches: made };
        for Broken { id, at_ns, place, what } in broken {
            let Some(row) = self.report.rows.iter_mut().find(|row| row.clause.id == id) else {
                continue;
            };
            row.verdict = Verdict::Broken;
            let (situation, schedule) = (order.situation.clone(), Some(schedule.clone()));
            row.findings.push(Finding { situation, seed: 0, at_ns, place, what, schedule });
        }
        for what in unexplained {
            let what = format!("{what}; again: --schedule {}", schedule.line);
            self.report.unexplained.push((order.situation.clone(), what));
        }
    }
}
