//! `tidegate compare`: a workload under the three submission models, one table.

use crate::arguments::{self, Reading};
use crate::run::{
    check_outputs, clock, print_details, read, run_once, show_problems, write_frames, write_timeline,
};
use crate::streams::{errln, outln};
use crate::{BadInput, End, output, tables};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate::RunResult;
use tidegate::workload::cost::CostModel;
use tidegate::workload::expect::Clock;
use tidegate::workload::model::{Submission, Workload};
use tidegate::workload::ranking::{self, Measurement, Ranking};
use tidegate::workload::report::{self, Report};

/// Where the timeline of the frame graph goes when nobody says where.
const DEFAULT_TIMELINE: &str = "timeline.html";

/// A run with more operations on queues than this is repeated at the ends of all ranges at once, and not for each constant.
const LONG_RUN: u64 = 4_000;

/// Submissions, waits and signals on queues. Unlike the time that a run takes, it is the same on every machine.
fn queue_operations(report: &Report) -> u64 {
    let submissions: u64 = report.queues.iter().map(|queue| queue.packets).sum();
    submissions + report.gpu_waits + report.gpu_signals
}

#[derive(Serialize)]
struct Comparison<'a> {
    workload: &'a str,
    runs: Vec<&'a Report>,
    /// Whether the order of the models by makespan survives the ranges of the cost model; only in virtual time.
    ranking: Option<Ranking>,
}

/// `tidegate compare`.
pub(crate) fn command(arguments: &arguments::Compare) -> Result<End, BadInput> {
    let reading = &arguments.reading;
    let workload = read(arguments.workload.as_deref(), reading)?;
    reading.doorbells(&models(&workload, reading)).map_err(BadInput)?;
    let timeline = timeline_path(arguments);
    let outputs = check_outputs(
        &workload,
        &[("--timeline", timeline.as_deref()), ("--json", arguments.json.as_deref())],
    )?;
    let mut results = Vec::new();
    for submission in models(&workload, reading) {
        let traced = models(&workload, reading).last() == Some(&submission) && timeline.is_some();
        results.push(run_once(&workload, Some(submission), reading, traced, CostModel::nominal())?);
    }
    let reports: Vec<&Report> = results.iter().map(|r| &r.outcome.report).collect();
    let ranking = match clock(&workload, reading) {
        // What hangs takes as long as the timeout delay says, under each model.
        Clock::Virtual if reading.preempting.inject.is_empty() => ranking(&workload, reading, &reports)?,
        Clock::Virtual | Clock::Wall => None,
    };
    let written = write_files(&results, timeline.as_deref())?;
    if let Some(path) = &arguments.json {
        let comparison =
            Comparison { workload: &workload.name, runs: reports.clone(), ranking: ranking.clone() };
        output::write_json(path, &comparison)?;
    }
    if !outputs.take_stdout() {
        print(&workload, &reports, ranking.as_ref(), &written);
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

/// The models that the adapter offers on every node, and that the workload can run under.
fn models(workload: &Workload, reading: &Reading) -> Vec<Submission> {
    let mut models = match reading.adapter {
        Some(named) => named.0.submissions(),
        None => Submission::ALL.to_vec(),
    };
    // User-mode queues present nothing.
    models.retain(|model| workload.display.is_none() || *model != Submission::User);
    models
}

fn timeline_path(arguments: &arguments::Compare) -> Option<PathBuf> {
    let default = arguments.workload.is_none().then(|| PathBuf::from(DEFAULT_TIMELINE));
    arguments.timeline.clone().or(default)
}

fn write_files(results: &[RunResult], timeline: Option<&Path>) -> Result<Vec<PathBuf>, BadInput> {
    let mut written = Vec::new();
    let Some(last) = results.last() else { return Ok(written) };
    written.extend(write_frames(&last.outcome)?);
    if let (Some(path), Some(trace)) = (timeline, &last.trace) {
        write_timeline(trace, path)?;
        written.push(path.to_owned());
    }
    Ok(written)
}

/// Runs the models on machines with the cost model's constants at the ends of their ranges; [`LONG_RUN`] limits how many.
fn ranking(
    workload: &Arc<Workload>,
    reading: &Reading,
    nominal: &[&Report],
) -> Result<Option<Ranking>, BadInput> {
    let quiet = Reading { quiet: true, ..reading.clone() };
    let long = nominal.iter().any(|report| queue_operations(report) > LONG_RUN);
    let plan = if long { ranking::short_plan() } else { ranking::plan(&ranking::DECISIVE) };
    let mut measurements = Vec::new();
    for variation in plan {
        let mut makespans = Vec::new();
        for submission in models(workload, reading) {
            let result = run_once(workload, Some(submission), &quiet, false, variation.costs.clone())?;
            makespans.push((submission, result.outcome.report.makespan_ns));
        }
        measurements.push(Measurement::new(&variation, &makespans));
    }
    Ok(ranking::judge(measurements))
}

fn print(workload: &Workload, reports: &[&Report], ranking: Option<&Ranking>, written: &[PathBuf]) {
    outln!("{}: {}", workload.name, workload.description);
    outln!("{}", tables::side_by_side(reports));
    for line in report::metric_lines(reports) {
        outln!("{line}");
    }
    // A recording was made under hardware scheduling, so that is the run to hold against it.
    let recorded_model = reports.iter().find(|r| r.submission == Submission::Hardware.name());
    if let Some(report) = recorded_model {
        print_details(report);
    }
    for line in ranking.iter().flat_map(|r| r.lines()) {
        outln!("{line}");
    }
    for path in written {
        outln!("wrote {}", path.display());
    }
}
