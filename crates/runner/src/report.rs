//! The report of a run: the fields of `--json`, and its lines as text. Fields that do not apply are
//! 0 or null.

use serde::Serialize;

use crate::measure::replay::ReplayError;
use crate::probe::MachineCounters;
use crate::recovery::{EngineRow, Fate, RecoveryRow, figures};
use crate::verify::MetricRow;
use tidegate_calls::DisplayStats;
use tidegate_trace::Durations;
use tidegate_workload::model::Display;
use tidegate_workload::recording::ImportReport;

/// Problems that are shown at once: one screen.
const SHOWN_PROBLEMS: usize = 12;

/// A queue of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct QueueRow {
    /// Its name.
    pub name: String,
    /// The kind of engine that ran it.
    pub engine: &'static str,
    /// Submission model.
    pub submission: &'static str,
    /// Command buffers submitted to it.
    pub packets: u64,
    /// Time for which an engine was busy with its commands, in nanoseconds. Replayed gaps do not
    /// count.
    pub busy_ns: u64,
    /// Time for which waits headed it, in nanoseconds. A wait at which it is parked counts to the
    /// end of the run.
    pub blocked_ns: u64,
    /// Times its doorbell was connected in the run. The queues of a recording were connected
    /// before.
    pub doorbell_connects: u64,
    /// Rings that were repeated because the doorbell was disconnected.
    pub doorbell_retries: u64,
    /// Slots of its ring; 0 for a queue without one.
    pub ring_slots: u64,
    /// Submissions that stood in the queue's backlog because its ring was full.
    pub ring_waits: u64,
    /// How long anything stood in the backlog, in nanoseconds.
    pub ring_wait_ns: u64,
    /// `idle`, `normal`, `high` or `realtime`.
    pub priority: &'static str,
    /// Preemptions in the middle of its work: for another queue, or to return it to the kernel.
    pub preempted: u64,
    /// How long its engine took to leave other work for it.
    #[serde(serialize_with = "figures")]
    pub preempts: Durations,
    /// Its fate.
    pub fate: Fate,
}

/// A fence of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FenceRow {
    /// Its name.
    pub name: String,
    /// Its last value; 2^64 - 1 if the device was lost.
    pub final_value: u64,
}

/// A display of a run. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DisplayRow {
    /// Refresh period.
    pub refresh_ns: u64,
    /// Pictures presented.
    pub presents: u64,
    /// Pictures shown.
    pub frames_shown: u64,
    /// Pictures replaced by a newer one before they were shown.
    pub frames_discarded: u64,
    /// Vertical syncs reported to the kernel.
    pub vsyncs: u64,
    /// Vertical syncs that showed an older picture although a newer one was presented and its
    /// interval over.
    pub missed_vsyncs: u64,
    /// Mean time from the present to the vertical sync that showed it.
    pub latency_mean_ns: u64,
    /// Longest time from the present to the vertical sync that showed it.
    pub latency_max_ns: u64,
}

impl DisplayRow {
    /// Creates the row of a display from its counters.
    pub(crate) fn of(display: &Display, counted: &DisplayStats) -> DisplayRow {
        DisplayRow {
            refresh_ns: display.refresh_ns,
            presents: counted.presents,
            frames_shown: counted.shown,
            frames_discarded: counted.discarded,
            vsyncs: counted.vsyncs,
            missed_vsyncs: counted.missed_vsyncs,
            latency_mean_ns: counted.latency_ns.checked_div(counted.shown).unwrap_or(0),
            latency_max_ns: counted.latency_max_ns,
        }
    }
}

/// A run. Times in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Name of the workload.
    pub workload: String,
    /// `packet`, `hardware`, `user`, or `mixed`.
    pub submission: &'static str,
    /// `wall` or `virtual`.
    pub clock: &'static str,
    /// Duration of the run on the host, in real time only. The caller sets it.
    pub elapsed_ns: Option<u64>,
    /// Start of the first thread on the timeline. All other times of the report count from it.
    pub started_ns: u64,
    /// From the start of the run to the end of the last work, on the run's clock. If work was lost
    /// or never ran, to the end of the run.
    pub makespan_ns: u64,
    /// From the start of the run to the first work of its queues on an engine; 0 without a
    /// timeline.
    pub first_work_ns: u64,
    /// From the start of the run until half of its command buffers had ended; `None` for fewer than
    /// 20, and without a timeline.
    pub halfway_ns: Option<u64>,
    /// Makespan of the replayed recording.
    pub recorded_ns: Option<u64>,
    /// Every thread ended and every queue is idle.
    pub completed: bool,
    /// It completed, and all expectations hold.
    pub verified: bool,
    /// Expectations that were compared.
    pub judged: u64,
    /// Calls into the kernel that the application caused.
    pub kernel_calls: u64,
    /// The machine belongs to a service, whose counters a client does not read: they are 0 here.
    pub remote_machine: bool,
    /// Counters of the hardware and the kernel.
    #[serde(flatten)]
    pub machine: MachineCounters,
    /// Waits of threads for fences.
    pub cpu_waits: u64,
    /// Waits in which the thread slept and was woken.
    pub cpu_wakes: u64,
    /// Waits that queues passed.
    pub gpu_waits: u64,
    /// Signals that queues made.
    pub gpu_signals: u64,
    /// Stores to doorbells.
    pub doorbell_rings: u64,
    /// Rings that were repeated because the doorbell was disconnected.
    pub doorbell_retries: u64,
    /// Slots of the largest ring of the queues; 0 where no queue has one.
    pub ring_slots: u64,
    /// Submissions that stood in a backlog because a ring was full.
    pub ring_waits: u64,
    /// Time of submissions in backlogs, in nanoseconds, summed over the queues. If it is not 0, the
    /// makespan may depend on the size of the rings. Packet and hardware queues have no backlog.
    pub ring_wait_ns: u64,
    /// By queue, in the order of the file.
    pub queues: Vec<QueueRow>,
    /// The display, if the workload has one.
    pub display: Option<DisplayRow>,
    /// By fence, in the order of the file.
    pub fences: Vec<FenceRow>,
    /// By engine.
    pub engines: Vec<EngineRow>,
    /// Injected hangs that were begun, as `hang:QUEUE@N`.
    pub hangs: Vec<String>,
    /// Injected hangs that were not reached before the run ended.
    pub hangs_not_reached: Vec<String>,
    /// Recoveries, oldest first.
    pub recoveries: Vec<RecoveryRow>,
    /// The report of another workload on the same machine, in a process of its own. Counters of the
    /// machine count both.
    pub beside: Option<Box<Report>>,
    /// The metrics of the workload.
    pub metrics: Vec<MetricRow>,
    /// Errors of a replay.
    pub replay: Option<ReplayError>,
    /// The import report of a recording.
    pub import: Option<ImportReport>,
    /// Problems, each with file and line.
    pub problems: Vec<String>,
}

impl Report {
    /// Whether it completed with right results.
    pub fn is_right(&self) -> bool {
        self.completed && self.verified && self.problems.is_empty()
    }

    /// Whether it and the workload beside it completed with right results.
    pub fn are_right(&self) -> bool {
        self.is_right() && self.beside.as_ref().is_none_or(|other| other.is_right())
    }

    /// The problems, at most one screen.
    pub fn problem_lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.problems.iter().take(SHOWN_PROBLEMS).cloned().collect();
        if let Some(more) = self.problems.len().checked_sub(SHOWN_PROBLEMS).filter(|more| *more > 0)
        {
            lines.push(format!("and {more} more; fix these first"));
        }
        lines
    }

    /// Report line about paging; `None` without paging.
    pub fn paging_line(&self) -> Option<String> {
        (self.machine.page_ins + self.machine.page_outs > 0).then(|| {
            let MachineCounters { page_outs: out, page_ins: ins, bytes_paged: bytes, .. } = self.machine;
            let (peak, budget) =
                (self.machine.local_memory_peak_bytes, self.machine.local_memory_bytes);
            format!(
                "paging: {out} evictions, {ins} page-ins, {bytes} bytes moved; at most {peak} of {budget} bytes of local memory"
            )
        })
    }

    /// Report line about the display.
    pub fn display_line(&self) -> Option<String> {
        self.display.as_ref().map(|d| {
            let us = |ns: u64| format!("{}.{} us", ns / 1_000, ns % 1_000 / 100);
            format!(
                "display: {} of {} frames shown, {} discarded; {} vsyncs, {} missed; from present to screen {} in the mean, {} at most",
                d.frames_shown,
                d.presents,
                d.frames_discarded,
                d.vsyncs,
                d.missed_vsyncs,
                us(d.latency_mean_ns),
                us(d.latency_max_ns)
            )
        })
    }

    /// Report lines about preemptions, one for each engine.
    pub fn preemption_lines(&self) -> Vec<String> {
        self.engines.iter().filter_map(EngineRow::line).collect()
    }

    /// Report lines about hangs and recoveries.
    pub fn recovery_lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.recoveries.iter().flat_map(RecoveryRow::lines).collect();
        let missed = self.hangs_not_reached.iter();
        lines.extend(missed.map(|hang| format!("{hang} was not reached: the run ended before")));
        lines
    }

    /// Whether a queue has a priority other than normal, or was preempted.
    pub fn has_priorities(&self) -> bool {
        self.queues.iter().any(|queue| {
            queue.priority != "normal" || queue.preempted > 0 || queue.preempts.count() > 0
        })
    }

    /// Report lines about metrics.
    pub fn metric_lines(&self) -> Vec<String> {
        metric_lines(&[self])
    }
}

/// Report lines about the metrics of several runs of a workload. Bounds are beside the values of
/// the runs to which they apply.
pub fn metric_lines(runs: &[&Report]) -> Vec<String> {
    let rows = runs.first().map_or(&[][..], |run| &run.metrics);
    rows.iter().enumerate().map(|(number, row)| metric_line(runs, number, row)).collect()
}

fn metric_line(runs: &[&Report], number: usize, row: &MetricRow) -> String {
    let of_run = |run: &&Report| Some((run.submission, run.metrics.get(number)?.clone()));
    let all: Vec<(&str, MetricRow)> = runs.iter().filter_map(of_run).collect();
    let bounded: Vec<(&str, MetricRow)> =
        all.iter().filter(|(_, row)| row.applies).cloned().collect();
    // Bounds that apply to none of these runs are not shown; their values are.
    let shown = if bounded.is_empty() { all } else { bounded };
    let value = |row: &MetricRow| {
        row.value.map_or_else(|| "not measured".to_owned(), |value| value.to_string())
    };
    let values = match shown.as_slice() {
        [(_, first), rest @ ..]
            if row.under.is_empty() && rest.iter().all(|(_, r)| r.value == first.value) =>
        {
            value(first)
        }
        [(_, only)] if runs.len() == 1 => value(only),
        several => {
            let each = several.iter().map(|(model, row)| format!("{} under {model}", value(row)));
            each.collect::<Vec<_>>().join(", ")
        }
    };
    let of = if row.queues.is_empty() {
        String::new()
    } else {
        format!(" of {}", row.queues.join(", "))
    };
    let bounds = match (row.at_least, row.at_most) {
        _ if !shown.iter().any(|(_, row)| row.applies) => String::new(),
        (None, None) => String::new(),
        (Some(least), None) => format!(" (at least {least})"),
        (None, Some(most)) => format!(" (at most {most})"),
        (Some(least), Some(most)) => format!(" ({least} to {most})"),
    };
    let wrong: Vec<&str> =
        shown.iter().filter(|(_, row)| row.met == Some(false)).map(|(model, _)| *model).collect();
    let wrong = match wrong.as_slice() {
        [] => String::new(),
        _ if runs.len() == 1 => " — not met".to_owned(),
        models => format!(" — not met under {}", models.join(", ")),
    };
    let says = match row.says.as_str() {
        says if says.is_empty() || !shown.iter().any(|(_, row)| row.applies) => String::new(),
        says => format!(": {says}"),
    };
    format!("{}{of} = {values}{bounds}{wrong}{says}", row.name)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn report() -> Report {
        let machine = MachineCounters { local_memory_bytes: 1 << 20, ..MachineCounters::default() };
        let queue = QueueRow {
            name: "q".into(),
            engine: "copy",
            submission: "user",
            packets: 1,
            busy_ns: 2,
            blocked_ns: 3,
            ring_slots: 1024,
            priority: "normal",
            ..QueueRow::default()
        };
        Report {
            workload: "w".into(),
            submission: "user",
            clock: "virtual",
            makespan_ns: 5,
            completed: true,
            verified: true,
            judged: 1,
            machine,
            ring_slots: 1024,
            queues: vec![queue],
            fences: vec![FenceRow { name: "f".into(), final_value: u64::MAX }],
            ..Report::default()
        }
    }

    #[test]
    fn the_documented_fields_are_there() {
        let json = serde_json::to_value(report()).unwrap();
        for field in [
            "workload",
            "submission",
            "clock",
            "elapsed_ns",
            "makespan_ns",
            "recorded_ns",
            "completed",
            "verified",
            "kernel_calls",
            "interrupts",
            "interrupts_suppressed",
            "cpu_waits",
            "cpu_wakes",
            "gpu_waits",
            "gpu_signals",
            "log_entries_lost",
            "kernel_packets",
            "local_memory_peak_bytes",
            "ring_slots",
            "ring_waits",
            "ring_wait_ns",
            "queues",
            "fences",
        ] {
            assert!(json.get(field).is_some(), "{field}");
        }
        assert!(json["recorded_ns"].is_null());
        assert_eq!(json["queues"][0]["blocked_ns"], 3);
        assert_eq!(json["queues"][0]["engine"], "copy");
        assert_eq!(json["fences"][0]["final_value"], u64::MAX);
    }

    #[test]
    fn problems_fit_a_screen() {
        let report = Report { problems: (0..20).map(|n| format!("p{n}")).collect(), ..report() };
        assert_eq!(report.problem_lines().len(), 13);
        assert!(!report.is_right());
    }

    #[test]
    fn paging_has_a_line_where_there_was_any() {
        assert_eq!(report().paging_line(), None);
        let machine = MachineCounters {
            page_ins: 3,
            page_outs: 2,
            bytes_paged: 500,
            local_memory_peak_bytes: 200,
            ..report().machine
        };
        let paged = Report { machine, ..report() };
        let line = "paging: 2 evictions, 3 page-ins, 500 bytes moved; at most 200 of 1048576 bytes of local memory";
        assert_eq!(paged.paging_line().as_deref(), Some(line));
    }

    #[test]
    fn what_was_shown_has_a_line() {
        assert_eq!(report().display_line(), None);
        let display = DisplayRow {
            refresh_ns: 1_000_000,
            presents: 5,
            frames_shown: 4,
            frames_discarded: 1,
            vsyncs: 9,
            missed_vsyncs: 2,
            latency_mean_ns: 1_234_567,
            latency_max_ns: 2_000_000,
        };
        let line = "display: 4 of 5 frames shown, 1 discarded; 9 vsyncs, 2 missed; from present to screen \
                    1234.5 us in the mean, 2000.0 us at most";
        let report = Report { display: Some(display), ..report() };
        assert_eq!(report.display_line().as_deref(), Some(line));
    }

    #[test]
    fn metrics_read_as_sentences() {
        let row = MetricRow {
            name: "busy_ns",
            queues: vec!["q".into()],
            value: Some(7),
            at_least: Some(9),
            at_most: None,
            met: Some(false),
            under: Vec::new(),
            applies: true,
            says: "it works".into(),
        };
        let report = Report { metrics: vec![row], ..report() };
        assert_eq!(report.metric_lines(), ["busy_ns of q = 7 (at least 9) — not met: it works"]);
    }

    #[test]
    fn bounds_stand_beside_the_values_of_the_models_that_they_are_for() {
        let run = |submission: &'static str, value, under: &[&'static str]| {
            let applies = under.is_empty() || under.contains(&submission);
            let met = applies.then_some(value <= 10);
            let (queues, says) = (Vec::new(), "few".to_owned());
            let row = MetricRow {
                name: "interrupts",
                queues,
                value: Some(value),
                at_least: None,
                at_most: Some(10),
                met,
                under: under.to_vec(),
                applies,
                says,
            };
            Report { submission, metrics: vec![row], ..report() }
        };
        let lines = |runs: &[Report]| metric_lines(&runs.iter().collect::<Vec<_>>());
        let of_one = [run("packet", 1801, &["user"]), run("user", 1, &["user"])];
        assert_eq!(lines(&of_one), ["interrupts = 1 under user (at most 10): few"]);
        assert_eq!(
            of_one[0].metric_lines(),
            ["interrupts = 1801"],
            "a bound for another model is not shown"
        );
        assert_eq!(of_one[1].metric_lines(), ["interrupts = 1 (at most 10): few"]);
        assert_eq!(lines(&of_one[..1]), ["interrupts = 1801"]);
        let of_all = [run("packet", 12, &[]), run("user", 1, &[])];
        let line =
            "interrupts = 12 under packet, 1 under user (at most 10) — not met under packet: few";
        assert_eq!(lines(&of_all), [line]);
        assert_eq!(
            lines(&[run("packet", 3, &[]), run("user", 3, &[])]),
            ["interrupts = 3 (at most 10): few"]
        );
        let two = [run("packet", 1, &["packet", "user"]), run("hardware", 9, &["packet", "user"])];
        assert_eq!(lines(&two), ["interrupts = 1 under packet (at most 10): few"]);
    }
}
