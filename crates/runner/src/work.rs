//! Work of a run from its timeline: the recorded item of each command, and the rows of the
//! per-kernel table.
//!
//! Entry points: [`Runs`], [`starts`], [`rows`].

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
