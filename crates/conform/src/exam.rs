//! The examination: each situation runs, and the clauses are judged from its events.

use crate::clause::{Clause, Family};
use crate::families::clauses;
use crate::journal::{Accident, RunEnd};
use crate::judge::{Judge, Judgement};
use crate::order::{AS_IT_IS, costs, delayed};
use crate::report::{Finding, Report, Row, Verdict};
use crate::situation::{Situation, situations};
use crate::subject::{DEVICE, Subject};
use crate::tally::Broken;
use crate::watch::{ExaminedDevice, Limit, Log, Truth, Watch};
use std::sync::Arc;
use tidegate::ddi::{AdapterCaps, Driver, Overrides};
use tidegate::dxgkrnl::InterruptDelivery;
use tidegate::platform::Mutex;
use tidegate::workload::model::{Submission, Workload};
use tidegate::{MachineError, MakeDriver, Platform, RunError, run_workload};

/// Nanoseconds of a second.
const NS: u64 = 1_000_000_000;
/// TdrDelay of situations in which nothing hangs. Each takes milliseconds.
const TIME_OUT_NS: u64 = 2 * NS;

const NO_INJECTIONS: &str = "no call of the driver's code can be made to fail";

/// What is examined of a driver.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// These families; all, if there are none.
    pub families: Vec<Family>,
    /// These situations, by name; all, if there are none.
    pub situations: Vec<String>,
    /// These workloads instead, each under every submission model.
    pub workloads: Vec<Arc<Workload>>,
    /// The orders in which each situation runs; the order of seed 0, in which no delay is drawn, if
    /// there are none.
    pub seeds: Vec<u64>,
    /// Interrupts run on the engine that raises them, so the interrupt routine of one engine can
    /// come while the DPC for another runs. Otherwise one agent runs all.
    pub inline_interrupts: bool,
}

impl Selection {
    fn has_family(&self, family: Family) -> bool {
        self.families.is_empty() || self.families.contains(&family)
    }

    fn has_situation(&self, situation: &Situation) -> bool {
        let is_named = |name: &String| *name == situation.name;
        self.situations.is_empty() || self.situations.iter().any(is_named)
    }
}

/// Why a driver was not examined.
#[derive(Debug, thiserror::Error)]
pub enum ExamError {
    /// The driver could not be made.
    #[error("{0}")]
    Driver(String),
    /// The machine was not built for another reason than the driver's declarations.
    #[error(transparent)]
    Run(RunError),
}

/// Examines a driver in each situation.
///
/// # Errors
/// Everything in [`ExamError`].
pub fn examine(subject: &Subject, selection: &Selection) -> Result<Report, ExamError> {
    let of_code = subject.code.iter().flat_map(|code| code.clauses.iter().copied());
    let mut rows: Vec<Row> = clauses()
        .map(Clause::words)
        .chain(of_code)
        .filter(|clause| selection.has_family(clause.family))
        .map(|clause| Row { clause, checks: 0, verdict: Verdict::NotReached, findings: Vec::new() })
        .collect();
    let mut report = Report::new(subject.name.clone());
    let mut caps: Option<Box<AdapterCaps>> = None;
    let chosen: Vec<Situation> = match selection.workloads.is_empty() {
        true => situations().into_iter().filter(|s| selection.has_situation(s)).collect(),
        false => selection.workloads.iter().flat_map(under_each_model).collect(),
    };
    let seeds = match &selection.seeds[..] {
        [] => &[AS_IT_IS][..],
        seeds => seeds,
    };
    let orders =
        chosen.iter().flat_map(|situation| seeds.iter().map(move |seed| (situation, *seed)));
    for (situation, seed) in orders {
        let name = || match seed {
            AS_IT_IS => situation.name.clone().into_owned(),
            seed => format!("{} (seed {seed})", situation.name),
        };
        if let Some(caps) = &caps
            && !(situation.needs)(caps)
        {
            report.leave_out(&situation.name, situation.lacks);
            continue;
        }
        let inject = subject.code.as_ref().and_then(|code| code.inject.as_ref());
        match inject {
            Some(inject) => inject(situation.injection),
            None if situation.injection.is_some() => {
                report.leave_out(&situation.name, NO_INJECTIONS);
                continue;
            }
            None => {}
        }
        let run = run(subject, situation, seed, selection.inline_interrupts)?;
        if caps.is_none() {
            caps.clone_from(&run.caps);
        }
        let judged = &run.judgement.judged;
        // Clauses that were not selected explain nothing to the reader.
        let is_selected = |id: &&'static str| rows.iter().any(|row| row.clause.id == *id);
        let broken =
            judged.iter().filter(|(id, judged)| is_selected(id) && judged.broken.is_some());
        let broken = broken.count();
        if let (Some(reason), 0) = (&run.cannot_run, broken) {
            report.leave_out(&situation.name, reason);
            continue;
        }
        for row in &mut rows {
            let Some(judged) = judged.get(row.clause.id) else { continue };
            row.take((&*situation.name, seed), judged.checks, judged.broken.as_ref());
        }
        for row in rows.iter_mut().filter(|row| row.clause.family == Family::Code) {
            row.take((&*situation.name, seed), 1, run.broken_in_code(row.clause.id).as_ref());
        }
        // What a broken clause explains is not reported twice.
        if broken == 0 {
            let refused = run.end.refused.iter().map(ToString::to_string);
            let results = match situation.accident {
                Accident::None => &run.end.problems[..],
                // Results are wrong then, whatever the driver does.
                _ => &[],
            };
            let lines = refused.chain(run.failures.iter().cloned()).chain(results.iter().cloned());
            report.unexplained.extend(lines.map(|line| (name(), line)));
        }
        report.ran.push(name());
    }
    report.rows = rows;
    Ok(report)
}

impl Row {
    fn take(&mut self, (situation, seed): (&str, u64), checks: u64, broken: Option<&Broken>) {
        self.checks += checks;
        match broken {
            Some(broken) => {
                self.verdict = Verdict::Broken;
                let (at_ns, what) = (broken.place.at.0, broken.what.clone());
                self.findings.push(Finding {
                    situation: situation.to_owned(),
                    seed,
                    at_ns,
                    place: broken.place.number,
                    what,
                    schedule: None,
                });
            }
            None if checks > 0 && self.verdict == Verdict::NotReached => {
                self.verdict = Verdict::Kept;
            }
            None => {}
        }
    }
}

/// Returns the situations of a workload. The first is the one that each driver can be in.
fn under_each_model(workload: &Arc<Workload>) -> [Situation; 3] {
    let models = [Submission::Packet, Submission::Hardware, Submission::User];
    models.map(|model| Situation::of_workload(Arc::clone(workload), model))
}

impl Run {
    /// Returns the first finding of the host of the driver's code that is of a clause.
    fn broken_in_code(&self, id: &str) -> Option<Broken> {
        let (_, what) = self.findings.iter().find(|(of, _)| *of == id)?;
        Some(Broken { place: self.judgement.end, what: what.clone() })
    }
}

struct Run {
    judgement: Judgement,
    end: RunEnd,
    caps: Option<Box<AdapterCaps>>,
    /// Violations of the driver, and why the run did not end.
    failures: Vec<String>,
    /// Why the program does not fit the driver.
    cannot_run: Option<String>,
    findings: Vec<(&'static str, String)>,
}

/// Runs one situation in one order.
fn run(
    subject: &Subject,
    situation: &Situation,
    seed: u64,
    inline_interrupts: bool,
) -> Result<Run, ExamError> {
    let facts = situation.facts();
    let logs: Arc<Watched> = Arc::new(Platform::host().mutex("journals", Vec::new()));
    let make = watched(subject, situation, Arc::clone(&logs), seed);
    let mut request = situation.request(make, subject.adapter);
    request.costs.steps = costs(request.costs.steps, seed);
    request.interrupts = inline_interrupts.then_some(InterruptDelivery::Inline);
    let result = run_workload(&request);
    let watched = logs.lock().pop();
    let overdue = watched.as_ref().is_some_and(|(_, limit)| limit.is_overdue());
    let judge = watched.and_then(|(log, _)| log.take()).unwrap_or_else(|| Judge::new(facts));
    let findings = subject.code.as_ref().map_or(Vec::new(), |code| (code.take)());
    let (mut refused, mut cannot_run, mut stopped) = (None, None, true);
    let (mut driver_faults, mut failures) = (Vec::new(), Vec::new());
    let of_device = findings.iter().filter(|(id, _)| *id == DEVICE);
    failures.extend(of_device.map(|(_, what)| what.clone()));
    let problems = match result {
        Ok(result) => {
            stopped = !result.violations.is_empty();
            driver_faults = result.driver_faults;
            failures.extend(result.violations.iter().map(ToString::to_string));
            failures.extend(overdue.then(|| {
                format!(
                    "kernel and driver go on after {} s of virtual time",
                    situation.limit_ns() / NS
                )
            }));
            result.outcome.problems
        }
        Err(RunError::Machine(MachineError::Start(why))) => {
            refused = Some(why);
            Vec::new()
        }
        Err(RunError::Machine(MachineError::Driver(text))) => {
            return Err(ExamError::Driver(text));
        }
        Err(RunError::Workload(why)) => {
            cannot_run = Some(why.to_string());
            Vec::new()
        }
        Err(error) if judge.events() == 0 => return Err(ExamError::Run(error)),
        // A call of the program's preparation failed, because of what the driver returned.
        Err(error) => {
            failures.push(error.to_string());
            Vec::new()
        }
    };
    let end = RunEnd { stopped, refused, driver_faults, problems, was_ended: overdue };
    let (caps, judgement) = (judge.caps.clone(), judge.end(&end));
    let took_ns = judgement.end.at.0;
    if facts.is_ours && situation.accident == Accident::None && took_ns >= TIME_OUT_NS {
        failures.push(format!(
            "the run took {} ms of virtual time: work waited until timeout detection",
            took_ns / 1_000_000
        ));
    }
    Ok(Run { judgement, end, caps, failures, cannot_run, findings })
}

/// What watched a driver.
type Watched = Mutex<Vec<(Log, Limit)>>;

/// Returns what makes the driver: the kernel's changes, the watch, the mistake, the driver.
fn watched(subject: &Subject, situation: &Situation, logs: Arc<Watched>, seed: u64) -> MakeDriver {
    let (make, kernel) = (Arc::clone(&subject.make), situation.kernel);
    let other_device = subject.device.clone();
    let (limit_ns, facts) = (situation.limit_ns(), situation.facts());
    let mistake: Option<&'static Clause> = subject.mistake;
    Arc::new(move |bus, gpu| {
        let platform = bus.platform;
        let mut driver: Arc<dyn Driver> = make(bus, Arc::clone(&gpu))?;
        if let Some(clause) = mistake {
            driver = clause.plant(platform, driver);
        }
        let log = Log::new(platform, Judge::new(facts), None);
        let device = match &other_device {
            None => Some(gpu as Arc<dyn ExaminedDevice>),
            Some(last) => last(),
        };
        let device = device.ok_or_else(|| "the driver was made without its device".to_owned())?;
        let limit = Limit::new(platform, limit_ns, Arc::clone(&device));
        let truth = Truth { device: Some(device) };
        logs.lock().push((log.clone(), limit.clone()));
        let watch: Arc<dyn Driver> =
            Arc::new(Watch { inner: driver, log, limit: Some(limit), truth });
        let watch = match kernel {
            Some(change) => change(platform, Overrides::default()).before(watch),
            None => watch,
        };
        Ok(delayed(platform, watch, seed))
    })
}
