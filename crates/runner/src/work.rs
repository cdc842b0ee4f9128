//! Work of a run from its timeline: the recorded item of each command, and the rows of the
//! per-kernel table.
//!
//! Entry points: [`ran`], [`starts`], [`rows`].

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_trace::{Kind, NameId, Trace};

use crate::kernels::{KernelRow, Replayed, recorded_rows};
use crate::lists::Evaluated;
use crate::measure::QueueTimes;
use crate::queue_log::{Entry, QueueLog};
use tidegate_workload::model::{Recorded, Submission, Workload};

/// A piece of work that ran, with its queue and its name on the timeline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ran {
    queue: usize,
    name: NameId,
    run: Replayed,
}

/// Returns the work of a run without gaps, queue by queue in the order of time.
pub(crate) fn ran(logs: &[QueueLog], times: &[QueueTimes], started_ns: u64) -> Vec<Ran> {
    let mut all: Vec<Ran> = Vec::new();
    for (queue, (log, times)) in logs.iter().zip(times).enumerate() {
        let mut items = Items::of(log);
        let first = all.len();
        let mut previous_end_ns = 0;
        for span in &times.commands {
            let (start, end) =
                (span.start_ns.saturating_sub(started_ns), span.end_ns.saturating_sub(started_ns));
            let (before, is_gap) = (previous_end_ns, span.kind == Kind::Gap);
            if !is_gap {
                previous_end_ns = end;
            }
            if span.resumed {
                // A later stretch of the command that began last.
                if let Some(last) = all[first..].last_mut().filter(|_| !is_gap) {
                    last.run.busy_ns += end - start;
                }
                continue;
            }
            let timed = matches!(span.kind, Kind::Timed | Kind::Gap);
            let item = if timed { items.next(span.execution) } else { None };
            let Some(execution) = times.executions.get(span.execution).filter(|_| !is_gap) else {
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
            all.push(Ran { queue, name: span.name, run });
        }
    }
    all
}

/// The recorded items of a queue's submissions, in the order in which their commands run.
struct Items<'a> {
    /// For each submission its timed commands, and its first item.
    submissions: Vec<(Vec<&'a Evaluated>, Option<u32>)>,
    execution: usize,
    command: usize,
    item: Option<usize>,
}

impl Items<'_> {
    fn of(log: &QueueLog) -> Items<'_> {
        let timed = |command: &&Evaluated| {
            matches!(command, Evaluated::Work { .. } | Evaluated::Delay { .. })
        };
        let submissions = log.entries.iter().filter_map(|entry| match entry {
            Entry::Submit { list, first_item, .. } => {
                Some((list.commands.iter().filter(timed).collect(), *first_item))
            }
            _ => None,
        });
        Items { submissions: submissions.collect(), execution: usize::MAX, command: 0, item: None }
    }

    /// Takes the next timed command of a submission; returns its item if it is recorded work.
    fn next(&mut self, execution: usize) -> Option<usize> {
        let (commands, first) = self.submissions.get(execution)?;
        if self.execution != execution {
            (self.execution, self.command, self.item) =
                (execution, 0, first.map(|item| item as usize));
        }
        let command = commands.get(self.command)?;
        self.command += 1;
        let item = self.item.filter(|_| matches!(command, Evaluated::Work { .. }))?;
        self.item = Some(item + 1);
        Some(item)
    }
}

/// Returns the start of each recorded item from the start of the run; `None` for those that did not
/// run.
pub(crate) fn starts(recorded: &Recorded, ran: &[Ran]) -> Vec<Option<u64>> {
    let mut starts = vec![None; recorded.items.len()];
    for ran in ran {
        if let Some(start) = ran.run.item.and_then(|item| starts.get_mut(item)) {
            *start = Some(ran.run.start_ns);
        }
    }
    starts
}

/// Returns the per-kernel table of a run: all recorded work in the order of the host calls, or all
/// work in the order of its start.
pub(crate) fn rows(
    workload: &Workload,
    ran: &[Ran],
    trace: &Trace,
    model: impl Fn(usize) -> Submission,
) -> Vec<KernelRow> {
    let mut rows = recorded_rows(workload);
    if let Some(recorded) = &workload.recorded {
        for (row, item) in rows.iter_mut().zip(&recorded.items) {
            row.model = model(item.queue.0 as usize).name();
        }
        for ran in ran {
            if let Some(row) = ran.run.item.and_then(|item| rows.get_mut(item)) {
                *row = row.clone().with_run(&ran.run);
            }
        }
        return rows;
    }
    let mut names: BTreeMap<NameId, Arc<str>> = BTreeMap::new();
    let queues: Vec<Arc<str>> =
        workload.queues.iter().map(|queue| queue.name.as_str().into()).collect();
    for ran in ran {
        let name = names.entry(ran.name).or_insert_with(|| trace.names.get(ran.name).into());
        let name = Arc::clone(name);
        let row = KernelRow::new(name, Arc::clone(&queues[ran.queue]), model(ran.queue).name());
        rows.push(row.with_run(&ran.run));
    }
    rows.sort_by_key(|row| row.replayed_start_ns);
    rows
}
