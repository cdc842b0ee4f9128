//! `tidegate compare`: a workload under the three submission models, one table.

use crate::arguments::{self, Reading};
use crate::output::Outputs;
use crate::run::{
    Read, add_pictures, clock, load, models, print_details, read, run_once, show_problems, trust,
    write_frames,
};
use crate::streams::{errln, outln};
use crate::tables::{self, WhatIfRow};
use crate::{BadInput, End};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate::RunResult;
use tidegate::runner::cost::CostModel;
use tidegate::runner::ranking::{self, Measurement, Ranking, RingSpace};
use tidegate::runner::report::{self, Report};
use tidegate::runner::verdict::{self, Account, Grade, ModelVerdict, Verdict};
use tidegate::trace::compare_page::{self, ComparePage, ComparedModel};
use tidegate::workload::expect::Clock;
use tidegate::workload::model::{Scale, Submission, Workload};
use tidegate::workload::what_if::WhatIf;

/// Default path of the page.
const DEFAULT_PAGE: &str = "compare.html";

/// A run with more operations on queues than this is repeated at the ends of all ranges only, not
/// for each constant.
const LONG_RUN: u64 = 4_000;

/// The longer runs that a verdict is checked by, in lengths of the run. A run of more operations on
/// queues than the limit is left out.
const LENGTHS: [u32; 2] = [2, 10];
const LONGEST_RUN: u64 = 100_000;

/// The most runs of a model in real time, and the least: with one run nothing shows what chance is.
const WALL_ROUNDS: u32 = 15;
const LEAST_ROUNDS: u32 = 2;

/// No model runs again once all runs together took this long, in nanoseconds of real time.
const WALL_NS: u64 = 3_000_000_000;

/// Number of submissions, waits and signals on queues. It is the same on every host.
fn queue_operations(report: &Report) -> u64 {
    let submissions: u64 = report.queues.iter().map(|queue| queue.packets).sum();
    submissions + report.gpu_waits + report.gpu_signals
}

#[derive(Serialize)]
struct Comparison<'a> {
    workload: &'a str,
    /// Each model against the first one, with reasons.
    verdict: Option<&'a Verdict>,
    runs: &'a [&'a Report],
    /// Whether the ranking holds over the ranges of the cost model; only in virtual time.
    ranking: Option<&'a Ranking>,
    /// The recording with each requested change.
    what_ifs: &'a [WhatIfRow],
}

/// `tidegate compare`.
pub(crate) fn command(
    arguments: &arguments::Compare,
    outputs: &mut Outputs,
) -> Result<End, BadInput> {
    // The differences between the models are modelled. Threads of this host would take the same
    // time under each.
    let clock_asked = arguments.reading.clock.or(Some(arguments::Clock::Virtual));
    let reading = &Reading { clock: clock_asked, ..arguments.reading.clone() };
    let read = read(arguments.workload.as_deref(), reading)?;
    let Read { workload, costs } = &read;
    let changed = changed(&arguments.what_if, workload)?;
    reading.doorbells(&models(workload, reading)).map_err(BadInput)?;
    add_pictures(workload, outputs)?;
    let page = page_path(arguments, outputs);
    let (runs, runs_ns) = run_models(&read, reading)?;
    let (results, accounts): (Vec<RunResult>, Vec<Option<Account>>) =
        runs.into_iter().map(|run| (run.result, run.account)).unzip();
    let reports: Vec<&Report> = results.iter().map(|r| &r.outcome.report).collect();
    let trust = trust(arguments.workload.as_deref(), reading, &read, &reports)?;
    let poor = trust.as_ref().is_some_and(|trust| trust.grade == Grade::Poor);
    let ranking = match clock(workload, reading) {
        // What hangs takes as long as the timeout delay says, under each model.
        Clock::Virtual if reading.preempting.inject.is_empty() && !poor => {
            ranking(&read, reading, &reports, &accounts)?
        }
        Clock::Virtual | Clock::Wall => None,
    };
    let mut verdict = verdict::judge(&reports, &accounts, ranking.as_ref(), trust);
    if is_repeated(&runs_ns) {
        verdict = verdict.map(|verdict| verdict.repeated(&runs_ns));
    }
    if ranking.is_some() {
        let path = arguments.workload.as_deref();
        let lengths = lengths(path, &read, reading, &reports, &accounts)?;
        verdict = verdict.map(|verdict| verdict.at_lengths(&lengths));
    }
    let what_ifs = what_ifs(&changed, reading, costs)?;
    write_files(&results, verdict.as_ref(), page.as_deref(), outputs)?;
    if let Some(path) = &arguments.json {
        let comparison = Comparison {
            workload: &workload.name,
            verdict: verdict.as_ref(),
            runs: &reports,
            ranking: ranking.as_ref(),
            what_ifs: &what_ifs,
        };
        outputs.write_json(path, &comparison)?;
    }
    if !outputs.take_stdout() {
        outln!("{}: {}", workload.name, workload.description);
        verdict.iter().flat_map(Verdict::sentences).for_each(|sentence| outln!("{sentence}"));
        verdict
            .iter()
            .filter_map(|v| v.trust.as_ref())
            .for_each(|trust| outln!("{}", trust.line()));
        if is_repeated(&runs_ns) {
            let rounds = runs_ns.iter().map(Vec::len).max().unwrap_or(0);
            outln!(
                "each model: the shortest of {rounds} runs in real time, in turn with the others; a \
                 difference counts if both halves of the runs have it"
            );
        }
        ranking.iter().flat_map(Ranking::lines).for_each(|line| outln!("{line}"));
        outln!("{}", tables::side_by_side(&reports, &accounts));
        if !what_ifs.is_empty() {
            outln!("{}", tables::what_ifs(&reports, &what_ifs));
        }
        let as_recorded = reading.recorded_as(workload.display.is_some());
        print_rest(&reports, as_recorded);
    }
    for result in &results {
        if !result.outcome.report.is_right() {
            errln!("under {}:", result.outcome.report.submission);
            result.outcome.report.recovery_lines().iter().for_each(|line| errln!("{line}"));
            show_problems(&result.outcome);
        }
    }
    let right = results.iter().all(|r| r.outcome.report.is_right());
    Ok(if right { End::Right } else { End::Wrong })
}

/// A run with its account, which is made once.
struct Run {
    result: RunResult,
    account: Option<Account>,
}

impl Run {
    fn new(mut result: RunResult) -> Run {
        let account = account(&mut result);
        Run { result, account }
    }

    fn report(&self) -> &Report {
        &self.result.outcome.report
    }

    /// Steady work in nanoseconds.
    fn steady_ns(&self) -> u64 {
        verdict::steady_ns(self.report(), self.account.as_ref())
    }

    /// Whether the run was right, and its steady work.
    fn outcome(&self) -> (bool, u64) {
        (self.report().is_right(), self.steady_ns())
    }
}

/// Runs the workload under each model. Other work of the host makes a run on threads longer and
/// none shorter, so the models take turns there, at least twice, and the shortest run of each is
/// its result. The second value is the steady work of the right runs of each model.
fn run_models(read: &Read, reading: &Reading) -> Result<(Vec<Run>, Vec<Vec<u64>>), BadInput> {
    let Read { workload, costs } = read;
    let models = models(workload, reading);
    let run = |model: &Submission, reading: &Reading| {
        run_once(workload, Some(*model), reading, true, costs.clone()).map(Run::new)
    };
    let mut bests: Vec<Run> =
        models.iter().map(|model| run(model, reading)).collect::<Result<_, _>>()?;
    let repeats = clock(workload, reading) == Clock::Wall && reading.preempting.inject.is_empty();
    let quiet = Reading { quiet: true, ..reading.clone() };
    let mut spent_ns: u64 = bests.iter().map(|run| run.report().makespan_ns).sum();
    let right_ns = |run: &Run| run.report().is_right().then(|| run.steady_ns());
    let mut runs_ns: Vec<Vec<u64>> =
        bests.iter().map(|run| right_ns(run).into_iter().collect()).collect();
    let mut rounds = 1;
    while repeats && rounds < WALL_ROUNDS && (rounds < LEAST_ROUNDS || spent_ns < WALL_NS) {
        for ((model, best), runs_ns) in models.iter().zip(&mut bests).zip(&mut runs_ns) {
            let run = run(model, &quiet)?;
            spent_ns += run.report().makespan_ns;
            runs_ns.extend(right_ns(&run));
            if replaces(run.outcome(), best.outcome()) {
                *best = run;
            }
        }
        rounds += 1;
    }
    Ok((bests, runs_ns))
}

/// Whether a run becomes the result of its model in place of the best one so far. A run that went
/// wrong stays the result.
fn replaces((is_right, ns): (bool, u64), (best_is_right, best_ns): (bool, u64)) -> bool {
    best_is_right && (!is_right || ns < best_ns)
}

/// Whether a model has several right runs, whose shortest one is its result.
fn is_repeated(runs_ns: &[Vec<u64>]) -> bool {
    runs_ns.iter().any(|runs| runs.len() > 1)
}

/// The account of a run, whose timeline gets the critical path; `None` if it did not complete.
fn account(result: &mut RunResult) -> Option<Account> {
    let trace = result.trace.as_mut().filter(|_| result.outcome.report.completed)?;
    let (account, path) = verdict::account_and_path(trace, &result.outcome.on_timeline);
    trace.critical_path = path;
    Some(account)
}

/// Path of the page: as requested, or in the working directory. If the default cannot be written,
/// there is no page and a line reports it.
fn page_path(arguments: &arguments::Compare, outputs: &mut Outputs) -> Option<PathBuf> {
    if let Some(path) = &arguments.html {
        return Some(path.clone());
    }
    let path = PathBuf::from(DEFAULT_PAGE);
    match outputs.add("--html", &path) {
        Ok(()) => Some(path),
        Err(BadInput(why)) => {
            errln!("no page is written: {why}; name a file that can be written with --html");
            None
        }
    }
}

/// Writes the pictures of the last run and the page of all of them.
fn write_files(
    results: &[RunResult],
    verdict: Option<&Verdict>,
    page: Option<&Path>,
    outputs: &Outputs,
) -> Result<(), BadInput> {
    let (Some(last), Some(verdict)) = (results.last(), verdict) else { return Ok(()) };
    write_frames(&last.outcome, outputs)?;
    page.map_or(Ok(()), |path| {
        let page = comparison_page(results, verdict);
        outputs.write(path, |out| compare_page::write(&page, out))
    })
}

fn comparison_page<'a>(results: &'a [RunResult], verdict: &Verdict) -> ComparePage<'a> {
    let of = |(result, model): (&'a RunResult, &ModelVerdict)| {
        let parts = match &model.account {
            Some(account) => account.parts().iter().map(|(part, ns)| (Some(*part), *ns)).collect(),
            None => vec![(None, model.makespan_ns)],
        };
        let (name, makespan_ns) = (model.model.to_owned(), model.makespan_ns);
        Some(ComparedModel { name, makespan_ns, parts, trace: result.trace.as_ref()? })
    };
    ComparePage {
        title: results
            .first()
            .map(|result| result.outcome.report.workload.clone())
            .unwrap_or_default(),
        verdict: verdict.sentences(),
        models: results.iter().zip(&verdict.models).filter_map(of).collect(),
        differences: verdict.differences(),
    }
}

/// Runs the models on machines with the cost model's constants at the ends of their ranges;
/// [`LONG_RUN`] limits their number. The first machine of the plan is the nominal one, which has
/// run already.
fn ranking(
    read: &Read,
    reading: &Reading,
    nominal: &[&Report],
    accounts: &[Option<Account>],
) -> Result<Option<Ranking>, BadInput> {
    let Read { workload, costs } = read;
    let quiet = Reading { quiet: true, ..reading.clone() };
    let models = models(workload, reading);
    let long = nominal.iter().any(|report| queue_operations(report) > LONG_RUN);
    let plan =
        if long { ranking::short_plan(costs) } else { ranking::plan(costs, &ranking::DECISIVE) };
    let (mut measurements, mut ring_space) = (Vec::new(), Vec::new());
    for variation in plan {
        let mut steady_ns = Vec::new();
        for (submission, (nominal, account)) in models.iter().zip(nominal.iter().zip(accounts)) {
            let run;
            let (report, own_ns) = match measurements.is_empty() {
                true => (*nominal, verdict::steady_ns(nominal, account.as_ref())),
                // Times are read from a timeline, as on the nominal machine.
                false => {
                    let costs = variation.costs.clone();
                    run = Run::new(run_once(workload, Some(*submission), &quiet, true, costs)?);
                    (run.report(), run.steady_ns())
                }
            };
            let ring_wait_ns = report.ring_wait_ns;
            if verdict::rests_on_ring_space(ring_wait_ns, report.makespan_ns) {
                let (variation, model) = (variation.name.clone(), submission.name());
                ring_space.push(RingSpace { variation, model, ring_wait_ns });
            }
            steady_ns.push((*submission, own_ns));
        }
        measurements.push(Measurement::new(&variation, &steady_ns));
    }
    Ok(ranking::judge(measurements).map(|ranking| Ranking { ring_space, ..ranking }))
}

/// The models over other lengths: longer runs of a workload that says what makes it longer, else
/// the halves of the run.
fn lengths(
    path: Option<&Path>,
    base: &Read,
    reading: &Reading,
    nominal: &[&Report],
    accounts: &[Option<Account>],
) -> Result<Vec<Measurement>, BadInput> {
    let Some(Scale { constant, value }) = &base.workload.scale else {
        return Ok(verdict::halves(nominal, accounts));
    };
    let operations = nominal.iter().map(|report| queue_operations(report)).max().unwrap_or(0);
    let mut lengths = Vec::new();
    for times in LENGTHS.into_iter().filter(|n| operations * u64::from(*n) <= LONGEST_RUN) {
        let Some(value) = value.checked_mul(i128::from(times)) else { break };
        let mut longer = Reading { quiet: true, ..reading.clone() };
        longer.constants.push((constant.clone(), value));
        let not_checked = |why: &str| {
            errln!(
                "the verdict is not checked at {times}x the length ('scales_with'): --let {constant}={value} {why}"
            );
        };
        let Read { workload, costs } = match load(path, &longer) {
            Ok(read) => read,
            Err(BadInput(why)) => {
                not_checked(&format!("is refused: {why}"));
                break;
            }
        };
        let mut steady_ns = Vec::new();
        for model in models(&workload, &longer) {
            let run = Run::new(run_once(&workload, Some(model), &longer, true, costs.clone())?);
            if !run.report().is_right() {
                not_checked(&format!("goes wrong under {}", model.name()));
                show_problems(&run.result.outcome);
                return Ok(lengths);
            }
            steady_ns.push((model.name(), run.steady_ns()));
        }
        lengths.push(Measurement { variation: format!("{times}x"), steady_ns });
    }
    Ok(lengths)
}

/// The workload with each requested change.
fn changed(
    what_if: &[WhatIf],
    workload: &Workload,
) -> Result<Vec<(WhatIf, Arc<Workload>)>, BadInput> {
    let change = |what_if: &WhatIf| match what_if.apply(workload) {
        Ok(changed) => Ok((*what_if, Arc::new(changed))),
        Err(why) => Err(BadInput(format!("--what-if {why}"))),
    };
    what_if.iter().map(change).collect()
}

fn what_ifs(
    changed: &[(WhatIf, Arc<Workload>)],
    reading: &Reading,
    costs: &CostModel,
) -> Result<Vec<WhatIfRow>, BadInput> {
    let mut rows = Vec::new();
    for (what_if, workload) in changed {
        let ring_slots = match what_if {
            WhatIf::RingSlots(slots) => Some(*slots),
            _ => reading.ring_slots,
        };
        let reading = Reading { ring_slots, ..reading.clone() };
        let mut makespans_ns = Vec::new();
        for submission in models(workload, &reading) {
            let result = run_once(workload, Some(submission), &reading, true, costs.clone())?;
            if !result.outcome.report.completed {
                show_problems(&result.outcome);
                let model = submission.name();
                return Err(BadInput(format!(
                    "--what-if {what_if}: the changed workload does not complete under {model}"
                )));
            }
            makespans_ns.push((submission.name(), result.outcome.report.makespan_ns));
        }
        rows.push(WhatIfRow { change: what_if.to_string(), makespans_ns });
    }
    Ok(rows)
}

fn print_rest(reports: &[&Report], as_recorded: Submission) {
    report::metric_lines(reports).iter().for_each(|line| outln!("{line}"));
    let replayed = reports.iter().find(|r| r.submission == as_recorded.name());
    if let Some(report) = replayed.or(reports.last()) {
        print_details(report);
    }
}

#[cfg(test)]
mod tests {
    use super::{is_repeated, replaces};

    #[test]
    fn two_right_runs_of_one_model_are_a_repetition() {
        assert!(!is_repeated(&[]) && !is_repeated(&[vec![], vec![5]]));
        assert!(!is_repeated(&[vec![5], vec![6]]));
        assert!(is_repeated(&[vec![5, 4], vec![6]]) && is_repeated(&[vec![5], vec![6, 7, 8]]));
    }

    #[test]
    fn the_shortest_right_run_counts_unless_one_went_wrong() {
        assert!(replaces((true, 1), (true, 2)));
        assert!(!replaces((true, 2), (true, 2)));
        assert!(replaces((false, 9), (true, 2)));
        assert!(!replaces((true, 1), (false, 9)));
    }
}
