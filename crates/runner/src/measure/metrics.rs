//! Metrics that a workload can name. Times of queues come from the timeline and are unknown without
//! one. `verify` compares metrics with bounds.

use super::{Execution, QueueTimes, preemptions};
use crate::probe::MachineCounters;
use tidegate_calls::DisplayStats;
use tidegate_d3d12::Counters;
use tidegate_trace::{Kind, WorkStats};
use tidegate_workload::expect::Metric;

/// The source of the metrics. Times in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// Start of the run on the timeline.
    pub(crate) started_ns: u64,
    pub(crate) makespan_ns: u64,
    pub(crate) first_work_ns: u64,
    pub(crate) halfway_ns: Option<u64>,
    pub(crate) machine: MachineCounters,
    /// Whether the counters of the machine, its queues and its display were read.
    pub(crate) has_counters: bool,
    /// Calls and waits of the application.
    pub(crate) calls: Counters,
    pub(crate) gpu_waits: u64,
    pub(crate) gpu_signals: u64,
    pub(crate) display: DisplayStats,
    /// By queue. Packets are the submissions of the workload.
    pub(crate) queues: Vec<WorkStats>,
    /// By queue; `None` without a timeline.
    pub(crate) times: Option<Vec<QueueTimes>>,
}

impl Measured {
    /// Returns the metric, for these queues if it is one of queues; `None` if this run cannot
    /// measure it.
    pub(crate) fn value(&self, metric: Metric, queues: &[usize]) -> Option<u64> {
        let of_machine = |number: u64| self.has_counters.then_some(number);
        let submitted = || -> u64 { queues.iter().map(|q| self.queues[*q].packets).sum() };
        let counted = |number: fn(&WorkStats) -> u64| {
            of_machine(queues.iter().map(|q| number(&self.queues[*q])).sum())
        };
        let chosen = || -> Option<Vec<&QueueTimes>> {
            let times = self.times.as_ref()?;
            Some(queues.iter().map(|queue| &times[*queue]).collect())
        };
        match metric {
            Metric::MakespanNs => Some(self.makespan_ns),
            Metric::KernelCalls => Some(self.calls.kernel_calls),
            Metric::Interrupts => of_machine(self.machine.interrupts),
            Metric::InterruptsSuppressed => of_machine(self.machine.interrupts_suppressed),
            Metric::CpuWaits => Some(self.calls.cpu_waits),
            Metric::CpuWakes => Some(self.calls.cpu_wakes),
            Metric::GpuWaits => of_machine(self.gpu_waits),
            Metric::GpuSignals => of_machine(self.gpu_signals),
            Metric::FramesShown => of_machine(self.display.shown),
            Metric::MissedVsyncs => of_machine(self.display.missed_vsyncs),
            Metric::Packets => Some(submitted()),
            Metric::BusyNs => counted(|queue| queue.busy_ns),
            Metric::BlockedNs => counted(|queue| queue.blocked_ns),
            Metric::Preemptions => self.times.as_deref().map(preemptions),
            Metric::OverlapNs => Some(overlap_ns(&chosen()?)),
            Metric::QueueLatencyNs => latencies(&chosen()?).map(|all| all[all.len() / 2]),
            Metric::QueueLatencyMaxNs => latencies(&chosen()?).and_then(|all| all.last().copied()),
            Metric::FinishNs => last_end(&chosen()?).map(|end| end.saturating_sub(self.started_ns)),
            Metric::InFlightMax => Some(in_flight_max(&chosen()?)),
        }
    }
}

fn each<'a>(queues: &'a [&QueueTimes]) -> impl Iterator<Item = &'a Execution> {
    queues.iter().flat_map(|queue| queue.executions.iter())
}

/// The end of the last command buffer of these queues.
pub(crate) fn last_end(queues: &[&QueueTimes]) -> Option<u64> {
    each(queues).map(|execution| execution.end_ns).max()
}

/// When the first work of any queue began on an engine. Replayed gaps do not count.
pub(crate) fn first_work(queues: &[QueueTimes]) -> Option<u64> {
    let commands = queues.iter().flat_map(|queue| &queue.commands);
    commands.filter(|command| command.kind != Kind::Gap).map(|command| command.start_ns).min()
}

/// The fewest command buffers of a run that has halves.
const HALVED: usize = 20;

/// When half of the command buffers of all queues had ended; `None` for a few of them.
pub(crate) fn halfway(queues: &[QueueTimes]) -> Option<u64> {
    let mut ends: Vec<u64> =
        queues.iter().flat_map(|queue| &queue.executions).map(|e| e.end_ns).collect();
    let middle = ends.len() / 2;
    (ends.len() >= HALVED).then(|| *ends.select_nth_unstable(middle - 1).1)
}

/// Times from submission to start, shortest first; `None` if there are none.
fn latencies(queues: &[&QueueTimes]) -> Option<Vec<u64>> {
    let mut all: Vec<u64> = each(queues).map(|e| e.start_ns.saturating_sub(e.queued_ns)).collect();
    all.sort_unstable();
    (!all.is_empty()).then_some(all)
}

/// Whether a change of [`changes`] is a start, beside the number of its group.
const BEGINS: u32 = 1 << 31;

/// Starts and ends in the order of time, as (time, start or end, group). Of equal times ends come
/// first, so spans that touch do not overlap.
fn changes(
    spans: impl Iterator<Item = (u64, u64, usize)>,
) -> impl Iterator<Item = (u64, bool, usize)> {
    // There are two for each command of a run, so they are kept small.
    let mut all: Vec<(u64, u32)> = Vec::new();
    for (start, end, group) in spans {
        let group = group as u32 & !BEGINS;
        all.extend([(start, group | BEGINS), (end.max(start), group)]);
    }
    all.sort_unstable();
    all.into_iter().map(|(at, change)| (at, change & BEGINS != 0, (change & !BEGINS) as usize))
}

/// Time during which at least two of the queues executed.
fn overlap_ns(queues: &[&QueueTimes]) -> u64 {
    let spans = queues.iter().enumerate().flat_map(|(number, queue)| {
        queue
            .executions
            .iter()
            .filter(|e| e.end_ns > e.start_ns)
            .map(move |e| (e.start_ns, e.end_ns, number))
    });
    time_shared(spans, queues.len())
}

/// Time during which at least two nodes worked; gaps are no work.
pub(crate) fn work_overlap_ns(queues: &[QueueTimes]) -> u64 {
    let nodes = queues.iter().map(|queue| queue.node as usize + 1).max().unwrap_or(0);
    let work = queues
        .iter()
        .flat_map(|queue| queue.commands.iter().map(move |c| (c, queue.node as usize)));
    let work =
        work.filter(|(command, _)| command.kind != Kind::Gap && command.end_ns > command.start_ns);
    time_shared(work.map(|(command, node)| (command.start_ns, command.end_ns, node)), nodes)
}

/// Time during which at least two of `groups` groups had a span open; a span is (start, end,
/// group).
fn time_shared(spans: impl Iterator<Item = (u64, u64, usize)>, groups: usize) -> u64 {
    let (mut running, mut active, mut since, mut total) = (vec![0u32; groups], 0, 0, 0);
    for (at, begins, group) in changes(spans) {
        if active >= 2 {
            total += at - since;
        }
        since = at;
        if begins {
            active += usize::from(running[group] == 0);
            running[group] += 1;
        } else {
            running[group] -= 1;
            active -= usize::from(running[group] == 0);
        }
    }
    total
}

/// Most command buffers in flight at once.
fn in_flight_max(queues: &[&QueueTimes]) -> u64 {
    let spans =
        each(queues).map(|e| (e.queued_ns.min(e.start_ns), e.end_ns.max(e.start_ns + 1), 0));
    let (mut now, mut most) = (0u64, 0);
    for (_, begins, _) in changes(spans) {
        now = if begins { now + 1 } else { now - 1 };
        most = most.max(now);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::super::{CommandSpan, queue_times, tests::sample};
    use super::*;
    use tidegate_trace::NameId;

    fn measured() -> Measured {
        let (trace, queues) = sample();
        Measured {
            started_ns: 2,
            has_counters: true,
            gpu_waits: 7,
            gpu_signals: 8,
            makespan_ns: 9,
            calls: Counters {
                kernel_calls: 10,
                cpu_waits: 11,
                cpu_wakes: 12,
                ..Counters::default()
            },
            machine: MachineCounters {
                interrupts: 13,
                interrupts_suppressed: 14,
                ..MachineCounters::default()
            },
            display: DisplayStats { shown: 15, missed_vsyncs: 16, ..DisplayStats::default() },
            queues: vec![
                WorkStats { packets: 2, busy_ns: 160, blocked_ns: 17, ..WorkStats::default() },
                WorkStats { packets: 1, busy_ns: 6, ..WorkStats::default() },
            ],
            times: Some(queue_times(&trace, &queues)),
            ..Measured::default()
        }
    }

    #[test]
    fn the_first_work_is_no_gap_and_the_halves_have_as_many_buffers() {
        let command = |kind, start_ns| CommandSpan {
            start_ns,
            end_ns: start_ns + 5,
            execution: 0,
            name: NameId::NONE,
            kind,
            resumed: false,
        };
        let buffer = |end_ns| Execution { queued_ns: 0, start_ns: 0, end_ns };
        let queue = |commands, ends: std::ops::Range<u64>| QueueTimes {
            commands,
            executions: ends.map(buffer).collect(),
            node: 0,
        };
        let (a, b) =
            (vec![command(Kind::Gap, 1), command(Kind::Timed, 40)], vec![command(Kind::Copy, 30)]);
        let queues = [queue(a, 100..112), queue(b, 201..209)];
        assert_eq!(first_work(&queues), Some(30));
        assert_eq!(halfway(&queues), Some(109), "the tenth of twenty ends");
        assert_eq!(halfway(&queues[..1]), None, "twelve are too few");
        assert_eq!(first_work(&[]), None);
    }

    #[test]
    fn every_metric_has_its_definition() {
        let m = measured();
        assert_eq!(m.value(Metric::OverlapNs, &[0, 1]), Some(8));
        assert_eq!(
            m.value(Metric::QueueLatencyNs, &[0]),
            Some(100),
            "5 and 100: the upper of the two"
        );
        assert_eq!(m.value(Metric::QueueLatencyMaxNs, &[0]), Some(100));
        assert_eq!(m.value(Metric::QueueLatencyNs, &[1]), Some(2));
        assert_eq!(m.value(Metric::FinishNs, &[0]), Some(198));
        assert_eq!(m.value(Metric::InFlightMax, &[0]), Some(2));
        assert_eq!(m.value(Metric::InFlightMax, &[1]), Some(1));
        assert_eq!(m.value(Metric::Packets, &[0, 1]), Some(3));
        assert_eq!(m.value(Metric::BlockedNs, &[0]), Some(17));
        assert_eq!(m.value(Metric::Preemptions, &[]), Some(1));
        let whole = [
            Metric::GpuWaits,
            Metric::GpuSignals,
            Metric::MakespanNs,
            Metric::KernelCalls,
            Metric::CpuWaits,
            Metric::CpuWakes,
            Metric::Interrupts,
            Metric::InterruptsSuppressed,
            Metric::FramesShown,
            Metric::MissedVsyncs,
        ];
        assert_eq!(
            whole.map(|metric| m.value(metric, &[])),
            std::array::from_fn(|n| Some(n as u64 + 7))
        );
        let without = Measured { has_counters: false, times: None, ..m };
        let known = Metric::ALL.into_iter().filter(|of| without.value(*of, &[0]).is_some());
        let known: Vec<Metric> = known.collect();
        let expected =
            [Metric::MakespanNs, Metric::KernelCalls, Metric::CpuWaits, Metric::CpuWakes];
        assert!(expected.iter().all(|metric| known.contains(metric)), "{known:?}");
        assert_eq!(known.len(), 5, "and the packets of a queue: {known:?}");
    }

    #[test]
    fn without_counters_of_the_machine_those_of_the_program_are_known() {
        let m = Measured { has_counters: false, ..measured() };
        for metric in [Metric::GpuWaits, Metric::Interrupts, Metric::FramesShown, Metric::BusyNs] {
            assert_eq!(m.value(metric, &[0]), None, "{metric:?}");
        }
        assert_eq!(m.value(Metric::Packets, &[0, 1]), Some(3));
        assert_eq!(m.value(Metric::CpuWaits, &[]), Some(11));
    }

    #[test]
    fn without_a_timeline_only_counts_are_known() {
        let m = Measured { times: None, ..measured() };
        assert_eq!(m.value(Metric::OverlapNs, &[0, 1]), None);
        assert_eq!(m.value(Metric::Preemptions, &[]), None);
        assert_eq!(m.value(Metric::BusyNs, &[0]), Some(160));
    }

    #[test]
    fn work_that_touches_does_not_overlap() {
        let queue = |start_ns, end_ns| QueueTimes {
            executions: vec![Execution { queued_ns: 0, start_ns, end_ns }],
            ..QueueTimes::default()
        };
        let (a, b, c) = (queue(0, 10), queue(10, 20), queue(15, 30));
        assert_eq!(overlap_ns(&[&a, &b]), 0);
        assert_eq!(overlap_ns(&[&a, &b, &c]), 5);
        let twice = QueueTimes {
            executions: vec![
                Execution { queued_ns: 0, start_ns: 0, end_ns: 9 },
                Execution { queued_ns: 0, start_ns: 3, end_ns: 7 },
            ],
            ..QueueTimes::default()
        };
        assert_eq!(overlap_ns(&[&twice]), 0, "a queue does not overlap with itself");
    }

    #[test]
    fn a_submission_without_length_was_in_flight() {
        let at = |at: u64| Execution { queued_ns: at, start_ns: at, end_ns: at };
        let queue = QueueTimes { executions: vec![at(5), at(9)], ..QueueTimes::default() };
        assert_eq!(in_flight_max(&[&queue]), 1);
    }

    #[test]
    fn a_gap_overlaps_nothing() {
        let queue = |node, spans: &[(Kind, u64, u64)]| QueueTimes {
            commands: spans
                .iter()
                .map(|&(kind, start_ns, end_ns)| CommandSpan {
                    start_ns,
                    end_ns,
                    execution: 0,
                    name: NameId::NONE,
                    kind,
                    resumed: false,
                })
                .collect(),
            node,
            ..QueueTimes::default()
        };
        let work = queue(0, &[(Kind::Timed, 0, 10)]);
        let gap = queue(1, &[(Kind::Gap, 0, 10), (Kind::Copy, 7, 12)]);
        let third = queue(2, &[(Kind::Copy, 8, 11)]);
        assert_eq!(work_overlap_ns(&[work, gap, third]), 4, "from 7 to 11");
    }
}
