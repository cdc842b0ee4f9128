//! Work of a run from its timeline: the recorded item of each command, and the rows of the
//! per-kernel table.
//!
//! Entry points: [`Runs`], [`starts`], [`rows`], [`restore_kinds`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tidegate_trace::{Kind, LaneKind, NameId, Trace};

use crate::kernels::{KernelRow, Replayed, recorded_rows};
use crate::lists::Evaluated;
use crate::measure::QueueTimes;
use crate::queue_log::{Entry, QueueLog};
use tidegate_workload::model::recorded::WorkKind;
use tidegate_workload::model::{Recorded, Submission, Workload};

/// A piece of work that ran, with its queue and its name on the timeline.
#[derive(Clone, Copy, Debug)]
struct Ran {
    queue: usize,
    name: NameId,
    run: Replayed,
}

/// A run of a workload: its logs and times by queue, and its start.
#[derive(Clone, Copy)]
pub(crate) struct Runs<'a> {
    pub(crate) logs: &'a [QueueLog],
    pub(crate) times: &'a [QueueTimes],
    pub(crate) started_ns: u64,
}

/// Passes the work of a run without gaps to `each`, queue by queue in the order of time.
fn for_each(Runs { logs, times, started_ns }: Runs<'_>, mut each: impl FnMut(&Ran)) {
    for (queue, (log, times)) in logs.iter().zip(times).enumerate() {
        let mut items = Items::of(log);
        // The command that began last: a later stretch may follow.
        let mut last: Option<Ran> = None;
        let mut previous_end_ns = 0;
        for span in &times.commands {
            let (start, end) =
                (span.start_ns.saturating_sub(started_ns), span.end_ns.saturating_sub(started_ns));
            let (before, is_gap) = (previous_end_ns, span.kind == Kind::Gap);
            if !is_gap {
                previous_end_ns = end;
            }
            if span.resumed {
                if let Some(last) = last.as_mut().filter(|_| !is_gap) {
                    last.run.busy_ns += end - start;
                }
                continue;
            }
            let timed = matches!(span.kind, Kind::Timed | Kind::Gap);
            let number = span.execution as usize;
            let item = if timed { items.next(number) } else { None };
            let Some(execution) = times.executions.get(number).filter(|_| !is_gap) else {
                continue;
            };
            let queued_ns = execution.queued_ns.saturating_sub(started_ns);
            let run = Replayed {
                item,
                queued_ns,
                start_ns: start,
                busy_ns: end - start,
                previous_end_ns: before,
            };
            last.replace(Ran { queue, name: span.name, run }).iter().for_each(&mut each);
        }
        last.iter().for_each(&mut each);
    }
}

/// The recorded items of a queue's submissions, in the order in which their commands run.
struct Items<'a> {
    /// For each submission its commands, and its first item.
    submissions: Vec<(&'a [Evaluated], Option<u32>)>,
    execution: usize,
    /// The next command of the submission.
    command: usize,
    item: Option<usize>,
}

impl Items<'_> {
    fn of(log: &QueueLog) -> Items<'_> {
        let submissions = log.entries.iter().filter_map(|entry| match entry {
            Entry::Submit { list, first_item, .. } => Some((&list.commands[..], *first_item)),
            _ => None,
        });
        Items { submissions: submissions.collect(), execution: usize::MAX, command: 0, item: None }
    }

    /// Takes the next timed command of a submission; returns its item if it is recorded work.
    fn next(&mut self, execution: usize) -> Option<usize> {
        let (commands, first) = *self.submissions.get(execution)?;
        if self.execution != execution {
            (self.execution, self.command, self.item) =
                (execution, 0, first.map(|item| item as usize));
        }
        let timed = |command: &Evaluated| {
            matches!(command, Evaluated::Work { .. } | Evaluated::Delay { .. })
        };
        let at = self.command + commands.get(self.command..)?.iter().position(timed)?;
        self.command = at + 1;
        let item = self.item.filter(|_| matches!(commands[at], Evaluated::Work { .. }))?;
        self.item = Some(item + 1);
        Some(item)
    }
}

/// Returns the start of each recorded item from the start of the run; `None` for those that did not
/// run.
pub(crate) fn starts(recorded: &Recorded, runs: Runs<'_>) -> Vec<Option<u64>> {
    let mut starts = vec![None; recorded.items.len()];
    for_each(runs, |ran| {
        if let Some(start) = ran.run.item.and_then(|item| starts.get_mut(item)) {
            *start = Some(ran.run.start_ns);
        }
    });
    starts
}

/// Copies and fills of a recording are replayed as timed work. Their boxes on engines become copies
/// and fills again.
pub fn restore_kinds(workload: &Workload, trace: &mut Trace) {
    let Some(recorded) = &workload.recorded else { return };
    let kind_of = |kind: &WorkKind| match kind {
        WorkKind::Kernel => None,
        WorkKind::Copy => Some(Kind::Copy),
        WorkKind::Fill => Some(Kind::Fill),
    };
    let named = recorded.names.iter().zip(&recorded.kinds);
    let kinds: HashMap<&str, Kind> =
        named.filter_map(|(name, kind)| Some((&**name, kind_of(kind)?))).collect();
    if kinds.is_empty() {
        return;
    }
    let mut known: HashMap<NameId, Option<Kind>> = HashMap::new();
    for record in &mut trace.records {
        let lane = &trace.lanes[record.lane.0 as usize];
        if record.kind != Kind::Timed || lane.kind != LaneKind::Engine {
            continue;
        }
        let kind = known
            .entry(record.name)
            .or_insert_with(|| kinds.get(trace.names.get(record.name)).copied());
        record.kind = kind.unwrap_or(Kind::Timed);
    }
}

/// Returns the per-kernel table of a run: all recorded work in the order of the host calls, or all
/// work in the order of its start.
pub(crate) fn rows(
    workload: &Workload,
    runs: Runs<'_>,
    trace: &Trace,
    model: impl Fn(usize) -> Submission,
) -> Vec<KernelRow> {
    let mut rows = recorded_rows(workload);
    if let Some(recorded) = &workload.recorded {
        for (row, item) in rows.iter_mut().zip(&recorded.items) {
            row.model = model(item.queue.0 as usize).name();
        }
        for_each(runs, |ran| {
            if let Some(row) = ran.run.item.and_then(|item| rows.get_mut(item)) {
                *row = row.clone().with_run(&ran.run);
            }
        });
        return rows;
    }
    let mut names: BTreeMap<NameId, Arc<str>> = BTreeMap::new();
    let queues: Vec<Arc<str>> =
        workload.queues.iter().map(|queue| queue.name.as_str().into()).collect();
    for_each(runs, |ran| {
        let name = names.entry(ran.name).or_insert_with(|| trace.names.get(ran.name).into());
        let name = Arc::clone(name);
        let row = KernelRow::new(name, Arc::clone(&queues[ran.queue]), model(ran.queue).name());
        rows.push(row.with_run(&ran.run));
    });
    rows.sort_by_key(|row| row.replayed_start_ns);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_trace::{ClockName, Record, TraceBuilder};
    use tidegate_workload::{LoadOptions, load_bytes};

    #[test]
    fn copies_and_fills_of_a_recording_are_copies_and_fills_on_its_engines() {
        let event = |category: &str, name: &str, at: u32| {
            format!(
                r#"{{"ph":"X","cat":"{category}","name":"{name}","ts":{at},"dur":5,"args":{{"device":0,"stream":7}}}}"#
            )
        };
        let events = [
            event("gpu_memcpy", "Memcpy HtoD", 10),
            event("gpu_memset", "Memset", 20),
            event("kernel", "gemm", 30),
            // A name with two kinds.
            event("kernel", "both", 40),
            event("gpu_memcpy", "both", 50),
        ];
        let text = format!("{{\"traceEvents\": [{}]}}", events.join(","));
        let (workload, _) = load_bytes(text.as_bytes(), "t", &LoadOptions::default()).unwrap();
        let mut builder = TraceBuilder::new("t", ClockName::Virtual);
        let lanes =
            [LaneKind::Engine, LaneKind::Queue].map(|kind| builder.add_lane(kind, "g", "l"));
        let names = ["Memcpy HtoD", "Memset", "gemm", "both"].map(|name| builder.name(name));
        for lane in lanes {
            builder.append(names.map(|name| Record::span(lane, Kind::Timed, name, 0, 5)).to_vec());
        }
        builder.append(vec![Record::span(lanes[0], Kind::Gap, names[0], 5, 9)]);
        let mut trace = builder.finish();
        restore_kinds(&workload, &mut trace);
        let kinds = |lane| {
            let of = trace.records.iter().filter(move |record| record.lane == lane);
            of.map(|record| record.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(lanes[0]), [Kind::Copy, Kind::Fill, Kind::Timed, Kind::Timed, Kind::Gap]);
        assert_eq!(kinds(lanes[1]), [Kind::Timed; 4], "queues keep their records");
    }
}
