//! Signals behind an injected hang, and their waiters.
//!
//! The source is the log of calls on the queues, because the kernel does not see the waits and
//! signals in the ring of a user-mode queue. Values are compared as if they only rose, so a fence
//! that is rewound on purpose may be named without need.

use std::collections::BTreeMap;

use crate::lists::Evaluated;
use crate::queue_log::{Entry, QueueLog};
use crate::recovery::{FenceAt, HeldBackRow, WaiterKind};
use crate::run_state::{Obstacle, StuckThread};
use tidegate_workload::model::{FenceId, QueueId, Workload};

/// Signals and waiters that are named.
const NAMED: usize = 8;

/// Signals and waiters behind a submission.
pub(crate) struct HeldBack {
    /// Label of its first command.
    pub(crate) label: Option<String>,
    pub(crate) signals: Vec<FenceAt>,
    pub(crate) held_back: Vec<HeldBackRow>,
}

/// Finds the signals and waiters behind submission `number` of `queue`.
pub(crate) fn by(
    workload: &Workload,
    logs: &[QueueLog],
    threads: &[StuckThread],
    queue: QueueId,
    number: u64,
) -> HeldBack {
    let log = &logs[queue.0 as usize];
    let submits = |entry: &Entry| matches!(entry, Entry::Submit { number: n, .. } if *n == number);
    let at = log.entries.iter().position(submits).unwrap_or(log.entries.len());
    let signal = |entry: &Entry| match entry {
        Entry::Signal { fence, value, .. } => Some((*fence, *value)),
        _ => None,
    };
    // Earlier signals of other queues are unknown. Those of this queue are most of them.
    let mut reached: BTreeMap<FenceId, u64> = BTreeMap::new();
    for (fence, value) in log.entries.iter().take(at).filter_map(signal) {
        let known = reached.entry(fence).or_default();
        *known = (*known).max(value);
    }
    let behind: Vec<(FenceId, u64)> = log.entries.iter().skip(at).filter_map(signal).collect();
    let current = |fence: FenceId| {
        reached.get(&fence).copied().unwrap_or_default().max(workload.fence(fence).initial)
    };
    let held = |fence: FenceId, value: u64| {
        value > current(fence)
            && behind.iter().any(|(f, signalled)| *f == fence && *signalled >= value)
    };
    let row = |kind, waiter: &str, fence: FenceId, value| HeldBackRow {
        kind,
        waiter: waiter.to_owned(),
        wait: FenceAt { fence: workload.fence(fence).name.clone(), value },
        current: current(fence),
        signaller: workload.queue(queue).name.clone(),
    };
    let mut held_back = Vec::new();
    for (other, log) in workload.queues.iter().zip(logs) {
        for entry in &log.entries {
            if let Entry::Wait { fence, value, .. } = entry
                && held(*fence, *value)
            {
                held_back.push(row(WaiterKind::Queue, &other.name, *fence, *value));
                break;
            }
        }
    }
    for stuck in threads {
        let Obstacle::Fences { of, .. } = &stuck.at else { continue };
        if let Some((fence, value)) = of.iter().find(|(fence, value)| held(*fence, *value)) {
            held_back.push(row(
                WaiterKind::Thread,
                &workload.threads[stuck.thread].name,
                *fence,
                *value,
            ));
        }
    }
    held_back.truncate(NAMED);
    let name = |(fence, value): &(FenceId, u64)| FenceAt {
        fence: workload.fence(*fence).name.clone(),
        value: *value,
    };
    let label = match log.entries.get(at) {
        Some(Entry::Submit { list, .. }) => {
            list.commands.iter().find(|c| **c != Evaluated::Hang).map(|c| c.label(workload))
        }
        _ => None,
    };
    HeldBack { label, signals: behind.iter().take(NAMED).map(name).collect(), held_back }
}
