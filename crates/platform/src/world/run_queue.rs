//! Owns the run queue of a virtual-time machine: agents and timers in order of time.

use crate::controller::AgentIx;
use crate::time::StepCosts;
use crate::wait::Deadline;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// (time in nanoseconds, order of entry, agent, the sleep that this timer ends).
type Entry = (u64, u64, AgentIx, Option<u64>);

/// Agents and timers in order of time.
pub(super) struct RunQueue {
    pub(super) costs: StepCosts,
    pub(super) queue: BinaryHeap<Reverse<Entry>>,
    /// Timers that expire only if a later event exists. They do not keep a machine running.
    background: BTreeSet<Entry>,
    entries: u64,
    pub(super) lock_waiters: usize,
}

impl RunQueue {
    pub(super) fn new(costs: StepCosts) -> RunQueue {
        RunQueue {
            costs,
            queue: BinaryHeap::new(),
            background: BTreeSet::new(),
            entries: 0,
            lock_waiters: 0,
        }
    }

    /// Queues `agent` for time `at`.
    pub(super) fn push(&mut self, at: u64, agent: AgentIx) {
        self.entries += 1;
        self.queue.push(Reverse((at, self.entries, agent, None)));
    }

    /// Queues the end of the sleep numbered `sleep` of `agent`.
    pub(super) fn push_timer(&mut self, deadline: Deadline, agent: AgentIx, sleep: u64) {
        self.entries += 1;
        let entry = (deadline.time.0, self.entries, agent, Some(sleep));
        if deadline.in_background {
            self.background.insert(entry);
        } else {
            self.queue.push(Reverse(entry));
        }
    }

    pub(super) fn pop(&mut self) -> Option<Entry> {
        if let Some(background) = self.background.first()
            && self.queue.peek().is_some_and(|Reverse(next)| background < next)
        {
            return self.background.pop_first();
        }
        self.queue.pop().map(|Reverse(entry)| entry)
    }
}
