//! Makes the report of a finished run. The only reader of the run's state.
//!
//! 1. Counters and timeline.
//! 2. Failures, then a standstill: a failed thread leaves others waiting, so failures come first.
//! 3. Expectations, only of a run that reached its end.

use tidegate_d3d12::{QueueStats, RemovedReason};
use tidegate_platform::{QueueNumber, RunReport, WorkStats};
use tidegate_trace::Trace;

use crate::deadlock::{self, Standstill};
use crate::fault::{self, Placed};
use crate::kernels::KernelRow;
use crate::measure::metrics::{Measured, first_work, halfway, last_end, work_overlap_ns};
use crate::measure::replay::{self, ReplayError};
use crate::measure::{QueueOnTimeline, QueueTimes, queue_times};
use crate::options::HangAt;
use crate::prepare::Prepared;
use crate::queue_log::QueueLog;
use crate::recovery::{Fate, HeldBackRow, RecoveryRow};
use crate::report::{DisplayRow, FenceRow, QueueRow, Report};
use crate::run_state::RunState;
use crate::scene::Scenes;
use crate::verdict::RunOnTimeline;
use crate::verify::{self, Circumstances, Evidence, Judgement};
use crate::{held_back, work};
use tidegate_calls::PendingWait;
use tidegate_workload::expect::{Clock, Metric};
use tidegate_workload::model::{BufferId, FenceId, Priority, QueueId, Submission, Workload};

/// A picture: file name, width, height, and four bytes a pixel (red, green, blue, alpha).
pub type Picture = (String, u32, u32, Vec<u8>);

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The report.
    pub report: Report,
    /// Problems, each a text of at most one screen; the same as in the report.
    pub problems: Vec<String>,
    /// The pictures of the workload; none of a run that did not complete.
    pub frames: Vec<Picture>,
    /// The run and its queues on the timeline.
    pub on_timeline: RunOnTimeline,
    /// The per-kernel table, if [`crate::RunOptions::kernels`] is set and there is a timeline.
    pub kernels: Vec<KernelRow>,
}

/// Buffers, fences and counters after the run.
struct After<'a> {
    run: &'a Prepared,
    fences: Vec<u64>,
    measured: Measured,
}

impl Evidence for After<'_> {
    fn fence(&self, fence: FenceId) -> u64 {
        self.fences[fence.0 as usize]
    }

    fn read(&self, buffer: BufferId, offset: u64, bytes: u64) -> Result<Vec<u8>, String> {
        let buffer = &self.run.buffers[buffer.0 as usize];
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= buffer.bytes());
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        if !fits {
            let (name, size) = (buffer.name(), buffer.bytes());
            return Err(format!(
                "{bytes} bytes from {offset} leave buffer '{name}' of {size} bytes"
            ));
        }
        let mut out = vec![0; len];
        buffer.read(offset, &mut out).map_err(|error| error.to_string())?;
        Ok(out)
    }

    fn metric(&self, metric: Metric, queues: &[usize]) -> Option<u64> {
        self.measured.value(metric, queues)
    }
}

impl Prepared {
    /// Judges a finished run. Without its timeline `trace`, times of queues are unknown and
    /// expectations about them are not judged. Times of the report count from `origin_ns`, the
    /// start of the run on the timeline: the earliest [`Prepared::started_ns`] of the workloads on
    /// the machine. The caller sets the report's `elapsed_ns`.
    pub fn finish(&self, run: &RunReport, trace: Option<&Trace>, origin_ns: u64) -> Outcome {
        let mut state = std::mem::take(&mut *self.state.lock());
        state.started_ns = origin_ns;
        let logs: Vec<QueueLog> =
            self.logs.iter().map(|log| std::mem::take(&mut *log.lock())).collect();
        let fences: Vec<u64> =
            self.fences.iter().map(tidegate_d3d12::Fence::completed_value).collect();
        let times = trace.map(|trace| queue_times(trace, &self.on_timeline(&logs)));
        let hangs = self.hangs(&logs);
        let started_ns = state.started_ns;
        let runs = times.as_ref().map(|times| work::Runs { logs: &logs, times, started_ns });
        let recorded = self.workload.recorded.as_ref();
        let replay = recorded.zip(runs).map(|(r, runs)| replay::compare(r, &work::starts(r, runs)));
        let kernels = match (runs, trace) {
            (Some(runs), Some(trace)) if self.options.kernels => self.kernels(runs, trace),
            _ => Vec::new(),
        };
        let measured = self.measure(&state, &logs, times, run);
        let after = After { run: self, fences, measured };

        let mut problems = [&run.panics[..], &run.wait_circles].concat();
        problems.extend(self.what_failed(&state, &logs, &after.fences, run));
        let all_ended = state.finished_threads == self.workload.threads.len() && state.is_idle;
        let goes_on = run.completed() || self.options.shares_machine && run.panics.is_empty();
        let completed = all_ended && goes_on && problems.is_empty();
        let on_timeline = RunOnTimeline {
            started_ns: state.started_ns,
            first_work_ns: state.started_ns + after.measured.first_work_ns,
            ended_ns: state.started_ns + after.measured.makespan_ns,
            queues: self
                .queues
                .iter()
                .map(tidegate_d3d12::Queue::timeline_lane)
                .zip(self.nodes.clone())
                .collect(),
            gpus: self.workload.queues.iter().map(|queue| queue.gpu).collect(),
        };
        let judgement = match completed {
            true => self.judge(&after),
            false => Judgement { metrics: self.judge(&after).metrics, ..Judgement::default() },
        };
        problems.extend(judgement.problems.iter().cloned());
        let mut frames = Vec::new();
        if completed {
            for frame in self.frames(&after) {
                match frame {
                    Ok(frame) => frames.push(frame),
                    Err(problem) => problems.push(problem),
                }
            }
        }
        let (hangs, hangs_not_reached) = hangs;
        let rest = Rest { completed, replay, problems: problems.clone(), hangs, hangs_not_reached };
        let report = self.report(&state, &logs, after, judgement, rest);
        Outcome { report, problems, frames, on_timeline, kernels }
    }

    fn on_timeline(&self, logs: &[QueueLog]) -> Vec<QueueOnTimeline> {
        let queues = self.queues.iter().zip(&self.nodes).zip(logs);
        let on =
            |((queue, node), log): ((&tidegate_d3d12::Queue, &u32), &QueueLog)| QueueOnTimeline {
                lane: queue.timeline_lane(),
                node: *node,
                submissions: log.submissions,
            };
        queues.map(on).collect()
    }

    /// The model of all queues; `None` when they differ.
    fn submission(&self) -> Option<Submission> {
        let mut models = self
            .workload
            .queues
            .iter()
            .map(|q| crate::probe::submission_of(q, self.options.submission));
        let first = models.next().or(self.options.submission).unwrap_or(Submission::User);
        models.all(|model| model == first).then_some(first)
    }

    fn measure(
        &self,
        state: &RunState,
        logs: &[QueueLog],
        times: Option<Vec<QueueTimes>>,
        run: &RunReport,
    ) -> Measured {
        let end_ns = state.ended_ns.unwrap_or(run.end.0);
        // The run ends with its last command buffer. No lane of a queue shows the end of a picture
        // on the screen, or of work that was cut off or never ran; then the end of the run counts.
        let all_done = state.is_idle && state.removed.is_none() && self.workload.display.is_none();
        let worked = times.as_ref().filter(|_| all_done);
        let worked_until = worked.and_then(|all| last_end(&all.iter().collect::<Vec<_>>()));
        let makespan_ns = worked_until.unwrap_or(end_ns).saturating_sub(state.started_ns);
        let since_start = |ns: u64| ns.saturating_sub(state.started_ns).min(makespan_ns);
        let all_times = times.as_deref().unwrap_or_default();
        // Counters include operations of memory management and of waits for idle queues, which the
        // workload did not queue.
        let done = |queued: fn(&QueueStats) -> u64, counted: fn(&WorkStats) -> u64| {
            let counted = state.after.queues.iter().map(counted);
            self.queues
                .iter()
                .zip(counted)
                .map(|(queue, counted)| queued(&queue.stats()).min(counted))
                .sum()
        };
        let queues = logs.iter().enumerate().map(|(number, log)| {
            let counted = |all: &[WorkStats]| all.get(number).cloned().unwrap_or_default();
            let (before, after) = (counted(&state.before.queues), counted(&state.after.queues));
            WorkStats {
                packets: log.submissions,
                busy_ns: after.busy_ns.saturating_sub(before.busy_ns),
                blocked_ns: after.blocked_ns.saturating_sub(before.blocked_ns),
                preempted: after.preempted.saturating_sub(before.preempted),
                ..after
            }
        });
        let mut machine = state.after.machine.since(&state.before.machine);
        // The machine counts the gaps of a replay as work; the timeline does not.
        if let (Some(_), Some(times)) = (&self.workload.recorded, &times) {
            machine.overlap_ns = work_overlap_ns(times);
        }
        Measured {
            started_ns: state.started_ns,
            makespan_ns,
            first_work_ns: first_work(all_times).map_or(0, since_start),
            halfway_ns: worked_until.and_then(|_| halfway(all_times)).map(since_start),
            machine,
            has_counters: self.probe.has_counters(),
            calls: state.calls.since(&state.before.device),
            gpu_waits: done(|queue| queue.waits, |queue| queue.waits),
            gpu_signals: done(|queue| queue.signals, |queue| queue.signals),
            display: state.display,
            queues: queues.collect(),
            times,
        }
    }

    /// Failures of threads and a lost device, or else a standstill.
    fn what_failed(
        &self,
        state: &RunState,
        logs: &[QueueLog],
        fences: &[u64],
        run: &RunReport,
    ) -> Vec<String> {
        let mut problems = state.failures.clone();
        if let Some(reason) = &state.removed {
            problems.push(self.removal(reason, logs));
        }
        let all_ended = state.finished_threads == self.workload.threads.len() && state.is_idle;
        let only_others = self.options.shares_machine && all_ended;
        if !problems.is_empty() || !run.panics.is_empty() || run.blocked.is_empty() || only_others {
            return problems;
        }
        let parked = self.parked();
        let standstill = Standstill {
            workload: &self.workload,
            fences,
            stuck: &state.stuck,
            parked,
            logs: logs.iter().collect(),
            largest: &state.largest,
        };
        problems.push(
            deadlock::explain(&standstill).unwrap_or_else(|| unexplained(&self.workload, run)),
        );
        problems
    }

    /// The index of the workload's queue with this kernel number.
    fn index_of(&self, queue: QueueNumber) -> Option<usize> {
        let lane = self.platform.lane_of(queue)?;
        self.queues.iter().position(|queue| queue.timeline_lane() == lane)
    }

    /// Waits at which queues of this workload are parked.
    fn parked(&self) -> Vec<(QueueId, PendingWait)> {
        let waits = self.probe.pending_waits().into_iter();
        let mut parked: Vec<(QueueId, PendingWait)> = waits
            .filter_map(|wait| Some((QueueId(self.index_of(wait.queue)? as u32), wait)))
            .collect();
        parked.sort_by_key(|(queue, _)| *queue);
        parked.dedup_by_key(|(queue, _)| *queue);
        parked
    }

    fn removal(&self, reason: &RemovedReason, logs: &[QueueLog]) -> String {
        let RemovedReason::Faulted(fault) = reason else {
            let begun: Vec<String> = self.hangs(logs).0;
            let injected = match begun[..] {
                [] => String::new(),
                _ => format!(" (injected: {})", begun.join(", ")),
            };
            return format!("{}: the device was lost: {reason}{injected}", self.workload.file);
        };
        let queue = self.index_of(fault.report.queue);
        let placed: Vec<Placed> = self
            .buffers
            .iter()
            .map(|buffer| Placed {
                name: buffer.name().to_owned(),
                gpu_va: buffer.gpu_va(),
                bytes: buffer.bytes(),
            })
            .collect();
        fault::explain(&self.workload, fault, queue.map(|queue| &logs[queue]), &placed)
    }

    /// The recoveries of the run, with the names of queues.
    fn recoveries(&self, state: &RunState, logs: &[QueueLog]) -> Vec<RecoveryRow> {
        let name = |queue: QueueNumber| {
            let lane = self.platform.lane_of(queue);
            let of_other = || self.other_queues.get()?.get(&lane?).cloned();
            let own = self.index_of(queue).map(|index| self.workload.queues[index].name.clone());
            own.or_else(of_other).unwrap_or_else(|| format!("number {queue}"))
        };
        let mut rows = self.probe.recoveries(&name);
        for row in &mut rows {
            row.at_ns = row.at_ns.saturating_sub(state.started_ns);
            for work in &mut row.work {
                let injected = |hang: &&HangAt| work.guilty && hang.queue == work.queue;
                work.injected = self.options.hangs.iter().find(injected).map(ToString::to_string);
            }
        }
        rows.iter_mut().for_each(|row| self.name_the_guilty(row));
        rows.iter_mut().for_each(|row| self.add_held_up(row, state, logs));
        rows
    }

    /// The kernel names a guilty device by one of its queues. Replaces it by the queue with the
    /// injected hang.
    fn name_the_guilty(&self, row: &mut RecoveryRow) {
        if row.work.iter().any(|work| work.injected.is_some()) {
            row.work.iter_mut().for_each(|work| work.guilty &= work.injected.is_some());
        }
        let own = |name: &str| self.workload.queues.iter().any(|queue| queue.name == name);
        let guilty = row.work.iter().find(|work| work.guilty && own(&work.queue));
        let Some(guilty) = guilty.map(|work| work.queue.clone()) else { return };
        for lost in row.lost.iter_mut().filter(|lost| lost.guilty && own(&lost.queue)) {
            lost.queue.clone_from(&guilty);
        }
    }

    /// Adds the signals and waiters that injected hangs hold back.
    fn add_held_up(&self, row: &mut RecoveryRow, state: &RunState, logs: &[QueueLog]) {
        for work in &mut row.work {
            let hang =
                self.options.hangs.iter().find(|hang| work.injected == Some(hang.to_string()));
            let Some(hang) = hang else { continue };
            let Some(queue) =
                self.workload.queues.iter().position(|queue| queue.name == hang.queue)
            else {
                continue;
            };
            let held = held_back::by(
                &self.workload,
                logs,
                &state.removed_threads,
                QueueId(queue as u32),
                hang.submission,
            );
            if !held.signals.is_empty() {
                work.signals = held.signals;
            }
            work.submission = held.label.map(|label| (hang.submission, label));
            for new in held.held_back {
                let known = |old: &HeldBackRow| {
                    (old.kind, &old.waiter, &old.wait) == (new.kind, &new.waiter, &new.wait)
                };
                if !row.held_back.iter().any(known) {
                    row.held_back.push(new);
                }
            }
        }
    }

    /// The injected hangs that were begun, and those that were not reached.
    fn hangs(&self, logs: &[QueueLog]) -> (Vec<String>, Vec<String>) {
        let missed = |hang: &&HangAt| {
            let queue = self.workload.queues.iter().position(|queue| queue.name == hang.queue);
            queue.is_some_and(|queue| logs[queue].hangs.contains(&hang.submission))
        };
        let (missed, begun): (Vec<&HangAt>, Vec<&HangAt>) =
            self.options.hangs.iter().partition(missed);
        let text = |hangs: Vec<&HangAt>| hangs.into_iter().map(ToString::to_string).collect();
        (text(begun), text(missed))
    }

    fn judge(&self, after: &After<'_>) -> Judgement {
        let run = Circumstances { submission: self.submission(), clock: self.options.clock };
        verify::judge(&self.workload, after, &Scenes::new(), run)
    }

    fn frames(&self, after: &After<'_>) -> Vec<Result<Picture, String>> {
        let picture = |frame: &tidegate_workload::model::Frame| {
            let placed = |text: String| format!("{}: {text}", self.workload.place(frame.span));
            let buffer = frame
                .buffer
                .resolve(&tidegate_workload::expression::Constants)
                .map_err(|e| placed(e.to_string()))?;
            let bytes = u64::from(frame.width) * u64::from(frame.height) * 4;
            let pixels = after.read(buffer, 0, bytes).map_err(placed)?;
            Ok((frame.file.clone(), frame.width, frame.height, pixels))
        };
        self.workload.frames.iter().map(picture).collect()
    }

    fn kernels(&self, runs: work::Runs<'_>, trace: &Trace) -> Vec<KernelRow> {
        let queues = &self.workload.queues;
        let model =
            |queue: usize| crate::probe::submission_of(&queues[queue], self.options.submission);
        work::rows(&self.workload, runs, trace, model)
    }

    fn report(
        &self,
        state: &RunState,
        logs: &[QueueLog],
        after: After<'_>,
        judgement: Judgement,
        rest: Rest,
    ) -> Report {
        let Rest { completed, replay, problems, hangs, hangs_not_reached } = rest;
        let rings = state.after.device.since(&state.before.device);
        let recoveries = self.recoveries(state, logs);
        let After { fences, measured, .. } = after;
        let queues = self.workload.queues.iter().zip(&self.queues);
        let queues = queues.zip(measured.queues.iter().zip(&state.before.connects));
        let queues = queues.map(|((queue, made), (numbers, connects_before))| {
            let stats = made.stats();
            QueueRow {
                name: queue.name.clone(),
                engine: queue.engine.name(),
                submission: made.submission().name(),
                packets: numbers.packets,
                busy_ns: numbers.busy_ns,
                blocked_ns: numbers.blocked_ns,
                doorbell_connects: stats.connects - connects_before,
                doorbell_retries: stats.retries,
                ring_slots: made.ring_slots().unwrap_or(0),
                ring_waits: stats.ring_waits,
                ring_wait_ns: stats.ring_wait_ns,
                priority: priority_name(queue.priority),
                preempted: numbers.preempted,
                preempts: numbers.preempts.clone(),
                fate: fate_of(&recoveries, &queue.name, state.removed.is_some(), &hangs),
            }
        });
        let queues: Vec<QueueRow> = queues.collect();
        let fences = self.workload.fences.iter().zip(fences);
        Report {
            workload: self.workload.name.clone(),
            submission: self.submission().map_or("mixed", Submission::name),
            clock: clock_name(self.options.clock),
            elapsed_ns: None,
            started_ns: measured.started_ns,
            makespan_ns: measured.makespan_ns,
            first_work_ns: measured.first_work_ns,
            halfway_ns: measured.halfway_ns,
            recorded_ns: self.workload.recorded.as_ref().map(|recorded| recorded.makespan_ns),
            completed,
            verified: completed && problems.is_empty(),
            judged: judgement.judged as u64,
            kernel_calls: measured.calls.kernel_calls,
            remote_machine: false,
            machine: measured.machine,
            cpu_waits: measured.calls.cpu_waits,
            cpu_wakes: measured.calls.cpu_wakes,
            gpu_waits: measured.gpu_waits,
            gpu_signals: measured.gpu_signals,
            doorbell_rings: rings.doorbell_rings,
            doorbell_retries: rings.retries,
            ring_slots: queues.iter().map(|queue| queue.ring_slots).max().unwrap_or(0),
            ring_waits: queues.iter().map(|queue| queue.ring_waits).sum(),
            ring_wait_ns: queues.iter().map(|queue| queue.ring_wait_ns).sum(),
            queues,
            display: self
                .workload
                .display
                .as_ref()
                .map(|display| DisplayRow::of(display, &state.display)),
            fences: fences
                .map(|(fence, final_value)| FenceRow { name: fence.name.clone(), final_value })
                .collect(),
            engines: self.probe.engines(),
            hangs,
            hangs_not_reached,
            recoveries,
            beside: None,
            metrics: judgement.metrics,
            replay,
            import: self.workload.recorded.as_ref().map(|recorded| recorded.report.clone()),
            problems,
        }
    }
}

/// Facts of a report besides numbers.
struct Rest {
    completed: bool,
    replay: Option<ReplayError>,
    problems: Vec<String>,
    /// The injected hangs that were begun.
    hangs: Vec<String>,
    hangs_not_reached: Vec<String>,
}

/// The fate of a queue, in a run whose device may be lost.
fn fate_of(recoveries: &[RecoveryRow], queue: &str, removed: bool, hangs: &[String]) -> Fate {
    let mut lost =
        recoveries.iter().flat_map(|recovery| &recovery.lost).filter(|lost| lost.queue == queue);
    let put_in = |hang: &String| {
        hang.strip_prefix("hang:").and_then(|h| h.rsplit_once('@')).is_some_and(|h| h.0 == queue)
    };
    let hung = lost.any(|lost| lost.guilty) || removed && hangs.iter().any(put_in);
    match (hung, removed) {
        (true, _) => Fate::Hung,
        (false, true) => Fate::Lost,
        (false, false) => Fate::WentOn,
    }
}

fn priority_name(priority: Priority) -> &'static str {
    match priority {
        Priority::Idle => "idle",
        Priority::Normal => "normal",
        Priority::High => "high",
        Priority::Realtime => "realtime",
    }
}

fn clock_name(clock: Clock) -> &'static str {
    match clock {
        Clock::Wall => "wall",
        Clock::Virtual => "virtual",
    }
}

/// Describes a standstill only by the platform's report.
fn unexplained(workload: &Workload, run: &RunReport) -> String {
    let mut text = format!("{}: deadlock: nothing can move any more", workload.file);
    for (agent, what) in run.blocked.iter().take(8) {
        let what = if what.is_empty() { "something" } else { what };
        text += &format!("\n  '{agent}' waits for {what}");
    }
    if run.blocked.len() > 8 {
        text += &format!("\n  and {} more", run.blocked.len() - 8);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_workload::{LoadOptions, load_bytes};

    #[test]
    fn a_standstill_that_only_the_platform_detected_is_reported() {
        let text = "[[thread]]\nname = \"t\"\nprogram = [{ sleep_ns = 1 }]\n";
        let workload = load_bytes(text.as_bytes(), "w.toml", &LoadOptions::default()).unwrap().0;
        let blocked =
            (0..10).map(|n| (format!("agent{n}"), "fence 'f' to reach 1".to_owned())).collect();
        let run = RunReport { blocked, ..RunReport::default() };
        let text = unexplained(&workload, &run);
        assert_eq!(text.lines().count(), 10);
        assert!(text.ends_with("and 2 more"));
    }
}
