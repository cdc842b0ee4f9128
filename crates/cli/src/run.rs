//! `tidegate run`: one workload, one submission model, a report, and a timeline on request.

use crate::arguments::{self, Gaps, Reading};
use crate::driver::DriverFile;
use crate::kernels;
use crate::output::Outputs;
use crate::progress::Progress;
use crate::streams::{errln, outln};
use crate::tables;
use crate::{BadInput, End};
use serde::Serialize;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tidegate::d3d12::Validation;
use tidegate::platform::hazard;
use tidegate::runner::cost::{self, CostModel};
use tidegate::runner::kernels::{Table, summary};
use tidegate::runner::report::Report;
use tidegate::runner::verdict::{self, Trust};
use tidegate::runner::{Outcome, Picture, submission_of};
use tidegate::trace::{self, Trace};
use tidegate::workload::expect::Clock;
use tidegate::workload::model::{Submission, Workload};
use tidegate::workload::recording;
use tidegate::{
    ConnectedRun, MachineError, Platform, RunError, RunRequest, RunResult, run_connected,
    run_workload, workload,
};
use tidegate_conform::{Breach, RunEnd, Verifier};

/// Default workload of `compare`: the ring buffer, with its file name.
const DEFAULT_WORKLOAD: (&str, &str) =
    (include_str!("../../../workloads/ring-buffer.toml"), "workloads/ring-buffer.toml");

/// A workload, and the machine that it runs on.
pub(crate) struct Read {
    pub(crate) workload: Arc<Workload>,
    /// Costs: calibrated by a recording, else nominal.
    pub(crate) costs: CostModel,
}

/// Reads a workload, or the default one without a path. A recording is arranged twice: first as it
/// is, which measures the recorded machine, then without that machine's delays. Prints warnings.
pub(crate) fn read(path: Option<&Path>, reading: &Reading) -> Result<Read, BadInput> {
    let read = load(path, reading)?;
    let workload = &read.workload;
    for warning in &workload.warnings {
        errln!("warning: {}:{}:{}: {}", workload.file, warning.line, warning.column, warning.text);
    }
    Ok(read)
}

/// Reads as [`read`] does, and prints nothing.
pub(crate) fn load(path: Option<&Path>, reading: &Reading) -> Result<Read, BadInput> {
    let gaps = match reading.gaps {
        Gaps::Keep => recording::Gaps::Keep,
        Gaps::Drop => recording::Gaps::Drop,
    };
    let mut costs = CostModel::nominal();
    let mut fit = |report: &recording::ImportReport| {
        costs = CostModel::calibrated(report);
        let import =
            cost::import_options_for(&costs, reading.recorded_as(report.presents_replayed > 0));
        recording::ImportOptions { gaps, ..import }
    };
    let first = recording::ImportOptions { gaps, ..recording::ImportOptions::default() };
    let loaded = match path {
        Some(path) => {
            let constants = reading.constants.clone();
            let options = workload::LoadOptions { import: first, constants };
            let loaded = match path == Path::new("-") {
                true => {
                    let bytes = standard_input()?;
                    workload::load_bytes_fitted(bytes, "standard input", &options, &mut fit)
                }
                false => workload::load_fitted(path, &options, &mut fit),
            };
            loaded.map(|(workload, _)| workload)
        }
        None => {
            let (text, file) = DEFAULT_WORKLOAD;
            workload::toml_file::parse_with(text, file, &reading.constants)
        }
    };
    let workload = loaded.map_err(|error| BadInput(error.to_string()))?;
    Ok(Read { workload: Arc::new(workload), costs })
}

/// The bytes of standard input, which are read once for all readings of a command.
fn standard_input() -> Result<&'static [u8], BadInput> {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    if BYTES.get().is_none() {
        let mut bytes = Vec::new();
        let mut bounded = io::stdin().lock().take(workload::LARGEST_TRACE_BYTES + 1);
        let read = bounded.read_to_end(&mut bytes);
        read.map_err(|error| BadInput(format!("standard input: {error}")))?;
        let _ = BYTES.set(bytes);
    }
    Ok(BYTES.get().map_or(&[], Vec::as_slice))
}

/// The requested clock, or by default virtual time for a recording and real time for a workload.
pub(crate) fn clock(workload: &Workload, reading: &Reading) -> Clock {
    match reading.clock {
        Some(arguments::Clock::Wall) => Clock::Wall,
        Some(arguments::Clock::Virtual) => Clock::Virtual,
        None if workload.recorded.is_some() => Clock::Virtual,
        None => Clock::Wall,
    }
}

/// Runs a workload once and puts the wall time of the run into its report.
pub(crate) fn run_once(
    workload: &Arc<Workload>,
    submission: Option<Submission>,
    reading: &Reading,
    tracing: bool,
    costs: CostModel,
) -> Result<RunResult, BadInput> {
    let keep = Keep { timeline: tracing, ..Keep::default() };
    run_both(workload, None, submission, reading, keep, costs, Driven::default())
}

/// Data that a run keeps beside its report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keep {
    pub(crate) timeline: bool,
    /// Every picture that the display shows.
    pub(crate) frames: bool,
    /// The per-kernel table.
    pub(crate) kernels: bool,
}

/// The driver of a run.
#[derive(Clone, Copy, Default)]
pub(crate) struct Driven<'a> {
    /// A driver in C; `None` is the reference driver.
    pub(crate) file: Option<&'a DriverFile>,
    /// Whether it is judged by the clauses of `conform`.
    pub(crate) is_verified: bool,
}

/// Runs a workload with another one beside it, on a driver in C or on the reference driver.
pub(crate) fn run_both(
    workload: &Arc<Workload>,
    beside: Option<&Arc<Workload>>,
    submission: Option<Submission>,
    reading: &Reading,
    keep: Keep,
    costs: CostModel,
    driver: Driven<'_>,
) -> Result<RunResult, BadInput> {
    let submissions: Vec<Submission> =
        workload.queues.iter().map(|queue| submission_of(queue, submission)).collect();
    let what = submission
        .map_or_else(|| workload.name.clone(), |s| format!("{} ({})", workload.name, s.name()));
    let progress = Progress::new(&what, reading.quiet);
    let verifier = driver.is_verified.then(|| Arc::new(Verifier::new()));
    let request = RunRequest {
        workload: workload.clone(),
        submission,
        clock: clock(workload, reading),
        tracing: keep.timeline,
        kernels: keep.kernels,
        local_memory_bytes: reading.local_memory.map(|bytes| bytes.0),
        ring_slots: reading.ring_slots,
        hardware_fences: reading.hardware_fences.into(),
        doorbells: if submissions.contains(&Submission::User) {
            reading.doorbells(&submissions).map_err(BadInput)?
        } else {
            None
        },
        costs,
        adapter: reading.adapter.map(|named| named.0),
        progress: progress.callback(),
        preemption: reading.preempting.preemption.unwrap_or_default(),
        tdr_delay_ns: reading.preempting.tdr_delay.map(|delay| delay.ns),
        machine: |_| {},
        sleeps_at_ns: reading.sleep_at.iter().map(|time| time.ns).collect(),
        hangs: reading.preempting.inject.clone(),
        frames: keep.frames,
        beside: beside.cloned(),
        validation: if reading.validate { Validation::HAZARDS } else { Validation::empty() },
        driver: driver.file.map(DriverFile::make),
        interrupts: None,
        layer: verifier.as_ref().map(Verifier::layer),
    };
    let stopwatch = Platform::host();
    let result = run_workload(&request);
    let broken = verifier.map_or_else(Vec::new, |verifier| verifier.finish(&end_of(&result)));
    let broken: Vec<String> = broken.iter().map(|of| breach_text(of, request.clock)).collect();
    let mut result = result.map_err(|error| {
        let lines: Vec<String> = std::iter::once(error.to_string()).chain(broken.clone()).collect();
        BadInput(lines.join("\n"))
    })?;
    result.outcome.report.problems.splice(0..0, broken);
    let broken = driver.file.into_iter().flat_map(DriverFile::take_problems);
    result.outcome.report.problems.extend(broken);
    // In virtual time two runs write the same report.
    if request.clock == Clock::Wall {
        result.outcome.report.elapsed_ns = Some(stopwatch.now().0);
    }
    Ok(result)
}

/// Returns what is known about a run that has ended.
fn end_of(result: &Result<RunResult, RunError>) -> RunEnd {
    match result {
        Ok(result) => RunEnd::of_run(result),
        Err(RunError::Machine(MachineError::Start(why))) => {
            RunEnd { stopped: true, refused: Some(why.clone()), ..RunEnd::default() }
        }
        Err(_) => RunEnd { stopped: true, ..RunEnd::default() },
    }
}

/// Returns a broken clause as a failed test. A run in virtual time has the line that repeats it.
fn breach_text(breach: &Breach, clock: Clock) -> String {
    match clock {
        Clock::Wall => breach.to_string(),
        Clock::Virtual => {
            let words: Vec<_> = std::env::args_os().skip(1).collect();
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            format!("{breach}\n  again: tidegate {}", words.join(" "))
        }
    }
}

/// Runs a workload as a client of a service.
fn run_on_service(
    workload: &Arc<Workload>,
    socket: &Path,
    arguments: &arguments::Run,
) -> Result<RunResult, BadInput> {
    let progress = Progress::new(&workload.name, arguments.reading.quiet);
    let request = ConnectedRun {
        workload: workload.clone(),
        socket: socket.to_owned(),
        adapter: 0,
        kernel_queues_only: arguments.kernel_queues_only,
        submission: arguments.submission,
        ring_slots: arguments.reading.ring_slots,
        hardware_fences: arguments.reading.hardware_fences.into(),
        progress: progress.callback(),
    };
    let stopwatch = Platform::host();
    let mut result = run_connected(&request).map_err(|e| BadInput(e.to_string()))?;
    result.outcome.report.elapsed_ns = Some(stopwatch.now().0);
    Ok(result)
}

/// Checks the pictures that the workload writes by itself.
pub(crate) fn add_pictures(workload: &Workload, outputs: &mut Outputs) -> Result<(), BadInput> {
    for frame in &workload.frames {
        outputs.add(&format!("picture of workload '{}'", workload.name), Path::new(&frame.file))?;
    }
    Ok(())
}

/// Prints problems on standard error.
pub(crate) fn show_problems(outcome: &Outcome) {
    for line in outcome.report.problem_lines() {
        errln!("{line}");
    }
}

/// Writes the pictures of a run beside the caller's other files.
pub(crate) fn write_frames(outcome: &Outcome, outputs: &Outputs) -> Result<(), BadInput> {
    write_pictures(Path::new(""), &outcome.frames, outputs)
}

/// Writes pictures into a folder.
fn write_pictures(folder: &Path, pictures: &[Picture], outputs: &Outputs) -> Result<(), BadInput> {
    for (file, width, height, rgba) in pictures {
        let path = folder.join(file);
        outputs.write(&path, |out| {
            let mut encoder = png::Encoder::new(out, *width, *height);
            encoder.set_color(png::ColorType::Rgba);
            encoder.set_depth(png::BitDepth::Eight);
            let mut writer = encoder.write_header()?;
            writer.write_image_data(rgba)?;
            Ok(())
        })?;
    }
    Ok(())
}

/// The models that the adapter offers on every node and the workload supports.
pub(crate) fn models(workload: &Workload, reading: &Reading) -> Vec<Submission> {
    let mut models = match reading.adapter {
        Some(named) => named.0.submissions(),
        None => Submission::ALL.to_vec(),
    };
    // User-mode queues cannot present.
    models.retain(|model| workload.display.is_none() || *model != Submission::User);
    models
}

/// Grades the replay of a recording under the model that it was recorded under, with its gaps kept.
/// If none of `reports` is that replay, it runs once more. `None` for a workload that is no
/// recording, an adapter without that model, and runs with planted hangs.
pub(crate) fn trust(
    path: Option<&Path>,
    reading: &Reading,
    base: &Read,
    reports: &[&Report],
) -> Result<Option<Trust>, BadInput> {
    let as_recorded = reading.recorded_as(base.workload.display.is_some());
    if base.workload.recorded.is_none()
        || !models(&base.workload, reading).contains(&as_recorded)
        || !reading.preempting.inject.is_empty()
    {
        return Ok(None);
    }
    let replayed = reports.iter().find(|report| report.submission == as_recorded.name());
    if let (Some(replayed), Gaps::Keep) = (replayed, reading.gaps) {
        return Ok(verdict::trust(replayed));
    }
    let kept = Reading { gaps: Gaps::Keep, quiet: true, ..reading.clone() };
    let kept_read = match reading.gaps {
        Gaps::Keep => None,
        Gaps::Drop => Some(read(path, &kept)?),
    };
    let Read { workload, costs } = kept_read.as_ref().unwrap_or(base);
    let result = run_once(workload, Some(as_recorded), &kept, false, costs.clone())?;
    Ok(verdict::trust(&result.outcome.report))
}

/// What `run --json` writes.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    report: &'a Report,
    /// The grade of a recording's replay, as in `compare`.
    trust: Option<&'a Trust>,
}

/// `tidegate run`.
pub(crate) fn command(arguments: &arguments::Run, outputs: &mut Outputs) -> Result<End, BadInput> {
    let base = read(Some(&arguments.workload), &arguments.reading)?;
    let Read { workload, costs } = &base;
    let device = arguments.device.as_deref();
    if device.is_some() && arguments.driver.is_none() {
        return Err(BadInput("--device needs a driver in C: give --driver DRIVER.so".to_owned()));
    }
    let driver = arguments.driver.as_deref().map(|path| DriverFile::new(path, device));
    // Drivers in C have packets only.
    let submission = arguments.submission.or(driver.as_ref().map(|_| Submission::Packet));
    let submissions: Vec<Submission> =
        workload.queues.iter().map(|queue| submission_of(queue, submission)).collect();
    arguments.reading.doorbells(&submissions).map_err(BadInput)?;
    let wants_timeline =
        arguments.timeline.is_some() || arguments.perfetto.is_some() || arguments.chrome.is_some();
    if let Some(folder) = &arguments.frames {
        if workload.display.is_none() {
            return Err(BadInput(format!(
                "--frames: workload '{}' has no display; add a [display], or leave --frames out",
                workload.name
            )));
        }
        Outputs::folder("--frames", folder)?;
    }
    add_pictures(workload, outputs)?;
    arguments.kernels.as_deref().map_or(Ok(()), kernels::check_format)?;
    let keep = Keep {
        timeline: wants_timeline,
        frames: arguments.frames.is_some(),
        kernels: arguments.kernels.is_some() || arguments.summary,
    };
    let beside =
        arguments.beside.as_deref().map(|path| read(Some(path), &arguments.reading)).transpose()?;
    let beside = beside.map(|read| read.workload);
    let mut result = match &arguments.connect {
        Some(socket) => run_on_service(workload, socket, arguments)?,
        None => {
            let (beside, reading) = (beside.as_ref(), &arguments.reading);
            let costs = costs.clone();
            let is_verified = arguments.verify_driver;
            let driver = Driven { file: driver.as_ref(), is_verified };
            run_both(workload, beside, submission, reading, keep, costs, driver)?
        }
    };
    let trust = match arguments.connect.is_some() || driver.is_some() {
        true => None,
        false => {
            let report = &result.outcome.report;
            trust(Some(&arguments.workload), &arguments.reading, &base, &[report])?
        }
    };
    if let Some(trust) = &trust {
        result.outcome.kernels.iter_mut().for_each(|row| row.grade = trust.grade.name());
        result.trace.iter_mut().for_each(|trace| trace.verdict.push(trust.line()));
    }
    if let Some(trace) = &mut result.trace {
        if let Some(path) = &arguments.timeline {
            if result.outcome.report.completed {
                let on_timeline = &result.outcome.on_timeline;
                trace.critical_path = verdict::account_and_path(trace, on_timeline).1;
            }
            outputs.write(path, |out| trace::html::write(trace, out))?;
        }
        if let Some(path) = &arguments.perfetto {
            outputs.write(path, |out| trace::perfetto::write(trace, out))?;
        }
        if let Some(path) = &arguments.chrome {
            outputs.write(path, |out| trace::chrome::write(trace, out))?;
        }
    }
    write_frames(&result.outcome, outputs)?;
    if let Some(folder) = &arguments.frames {
        write_pictures(folder, &result.shown, outputs)?;
    }
    if let Some(path) = &arguments.kernels {
        kernels::write(path, &result.outcome.kernels, outputs)?;
    }
    if let Some(path) = &arguments.json {
        outputs
            .write_json(path, &Written { report: &result.outcome.report, trust: trust.as_ref() })?;
    }
    if !outputs.take_stdout() {
        print_report(workload, &result.outcome, trust.as_ref());
        if let Some(report) = &result.hazards {
            if workload.recorded.is_some() {
                print_checked_of_recording(report);
            } else {
                print_hazards(report, result.trace.as_ref(), arguments.timeline.as_deref());
            }
        }
        if arguments.summary {
            let table =
                Table::of_run(std::mem::take(&mut result.outcome.kernels), &result.outcome.report);
            outln!("{}", kernels::summary(&summary(&table)));
        }
        if let (Some(workload), Some(report)) = (&beside, &result.outcome.report.beside) {
            outln!("beside it, {}: {}", report.workload, workload.description);
            outln!("{}", tables::queues(report));
            report.metric_lines().iter().for_each(|line| outln!("{line}"));
        }
    }
    show_problems(&result.outcome);
    if let Some(beside) = &result.outcome.report.beside {
        beside.problem_lines().iter().for_each(|line| errln!("beside it: {line}"));
    }
    Ok(if result.outcome.report.are_right() { End::Right } else { End::Wrong })
}

/// The lines below the tables: paging, display and preemption, and for a recording the errors of
/// the replay and the import report.
pub(crate) fn print_details(report: &Report) {
    let mut lines = Vec::new();
    lines.extend(report.paging_line());
    lines.extend(report.display_line());
    lines.extend(report.preemption_lines());
    lines.extend(report.replay.iter().map(|r| r.line()));
    lines.extend(report.import.iter().flat_map(|i| i.lines()));
    for line in lines {
        outln!("{line}");
    }
}

/// A number with its noun.
fn counted(number: usize, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

/// What `--validate` of a recording checked. Its work names no memory: edges cannot be missing, and
/// no wait can be known to be redundant, so there are no hints.
fn print_checked_of_recording(report: &hazard::Report) {
    outln!(
        "hazard check of a recording: its work names no memory, so missing and redundant edges cannot be found; \
         its waits and signals were checked: {}, {}",
        counted(report.deadlocks.len(), "deadlock", "deadlocks"),
        counted(report.unsignalled.len(), "wait that no signal ends", "waits that no signal ends")
    );
}

/// The summary of the hazard check, and the page that shows it. The findings themselves are
/// problems of the run.
fn print_hazards(report: &hazard::Report, trace: Option<&Trace>, page: Option<&Path>) {
    outln!(
        "hazard check: {}, {}, {}",
        counted(report.hazards.len(), "missing edge", "missing edges"),
        counted(
            report.implied.len(),
            "pair that an edge ends too",
            "pairs that these edges end too"
        ),
        counted(report.hints.len(), "hint", "hints")
    );
    if !report.deadlocks.is_empty() || !report.unsignalled.is_empty() {
        outln!(
            "waits: {}, {}",
            counted(report.deadlocks.len(), "deadlock", "deadlocks"),
            counted(
                report.unsignalled.len(),
                "wait that no signal ends",
                "waits that no signal ends"
            )
        );
    }
    report.hints.iter().for_each(|hint| outln!("hint: {hint}"));
    match (trace.filter(|trace| !trace.findings.is_empty()), page) {
        (Some(trace), Some(page)) => outln!(
            "findings on the timeline, with their missing edges: {}, {}#finding=1",
            trace.findings.len(),
            page.display()
        ),
        (Some(_), None) => outln!("--timeline FILE shows the findings with their missing edges"),
        (None, _) if !report.hazards.is_empty() => {
            outln!("--timeline FILE shows the findings with their missing edges");
        }
        (None, _) => {}
    }
}

fn print_report(workload: &Workload, outcome: &Outcome, trust: Option<&Trust>) {
    let report = &outcome.report;
    outln!("{}: {}", report.workload, workload.description);
    outln!("{}", tables::side_by_side(&[report], &[]));
    outln!("{}", tables::queues(report));
    report.metric_lines().iter().for_each(|line| outln!("{line}"));
    trust.iter().for_each(|trust| outln!("{}", trust.line()));
    print_details(report);
    report.recovery_lines().iter().for_each(|line| outln!("{line}"));
}
