//! The run queue of a virtual-time machine: agents and timers in order of time.
//!
//! Invariants: an agent has at most one live entry, which its slot names by its number. A
//! foreground entry that is no longer live stays in the queue until its time. In the background
//! each agent has one entry that counts: a timer behind it waits in the agent's slot.

use super::wheel::{Entry, Wheel};
use crate::explorer::AgentIx;
use crate::time::{CpuTime, StepCosts};
use crate::wait::Deadline;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The timer of an agent in the background queue that counts, if there is one.
#[derive(Clone, Copy, Default)]
pub(super) struct QueuedTimer {
    at: u64,
    /// The number of its entry; 0 for none.
    number: u64,
}

impl QueuedTimer {
    pub(super) fn is(self, entry: Entry) -> bool {
        self.number == entry.number()
    }
}

/// Agents and timers in order of time.
pub(super) struct RunQueue {
    pub(super) costs: StepCosts,
    /// The earliest entry of the foreground, apart from the others; [`Entry::NONE`] if there is
    /// none.
    earliest: Entry,
    queue: Wheel,
    /// Timers that expire only if a later event exists, or in the last moments of a stalled
    /// machine. They do not keep a machine running.
    background: BinaryHeap<Reverse<Entry>>,
    entries: u64,
    /// Whether a timer of the background expires although no later event exists.
    pub(super) is_stalled: bool,
}

/// An entry that has left the queue.
pub(super) enum Popped {
    Foreground(Entry),
    Background(Entry),
}

impl RunQueue {
    pub(super) fn new(costs: StepCosts) -> RunQueue {
        RunQueue {
            costs,
            earliest: Entry::NONE,
            queue: Wheel::default(),
            background: BinaryHeap::new(),
            entries: 0,
            is_stalled: false,
        }
    }

    #[inline]
    fn next_entry(&mut self, at: u64, agent: AgentIx) -> Entry {
        self.entries += 1;
        Entry::new(at, self.entries, agent)
    }

    /// Queues `agent` for time `at`. Returns the number of the entry.
    #[inline]
    pub(super) fn push(&mut self, at: u64, agent: AgentIx) -> u64 {
        let entry = self.next_entry(at, agent);
        self.insert(entry);
        entry.number()
    }

    #[inline]
    fn insert(&mut self, entry: Entry) {
        let later = self.earliest.max(entry);
        self.earliest = self.earliest.min(entry);
        if later != Entry::NONE {
            self.queue.insert(later);
        }
    }

    /// Enters the end of a sleep of `agent`, whose queued timer is `queued`. Returns the number of
    /// the entry.
    pub(super) fn push_timer(
        &mut self,
        deadline: Deadline,
        agent: AgentIx,
        queued: &mut QueuedTimer,
    ) -> u64 {
        let entry = self.next_entry(deadline.time.0, agent);
        if !deadline.in_background {
            self.insert(entry);
        } else if queued.number == 0 || queued.at > entry.time() {
            self.push_background(entry, queued);
        }
        entry.number()
    }

    /// Queues the timer of a sleep that waited behind an earlier timer of the same agent.
    pub(super) fn push_behind_timer(
        &mut self,
        (at, number): (CpuTime, u64),
        agent: AgentIx,
        queued: &mut QueuedTimer,
    ) {
        self.push_background(Entry::new(at.0, number, agent), queued);
    }

    fn push_background(&mut self, entry: Entry, queued: &mut QueuedTimer) {
        self.background.push(Reverse(entry));
        *queued = QueuedTimer { at: entry.time(), number: entry.number() };
    }

    /// Returns whether an entry of the foreground comes no later than `at`.
    #[inline]
    pub(super) fn is_due(&self, at: u64) -> bool {
        self.earliest.time() <= at && self.earliest != Entry::NONE
    }

    /// Returns whether any entry comes no later than `at`.
    #[inline]
    pub(super) fn is_any_due(&self, at: u64) -> bool {
        self.is_due(at) || self.background.peek().is_some_and(|Reverse(next)| next.time() <= at)
    }

    /// Returns the agent of the earliest entry of the foreground.
    #[inline]
    pub(super) fn earliest(&self) -> Option<AgentIx> {
        (self.earliest != Entry::NONE).then(|| self.earliest.agent())
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Popped> {
        let earliest = self.earliest;
        if earliest == Entry::NONE && !self.is_stalled {
            return None;
        }
        if let Some(Reverse(timer)) = self.background.peek()
            && *timer < earliest
        {
            return self.background.pop().map(|Reverse(timer)| Popped::Background(timer));
        }
        if earliest == Entry::NONE {
            return None;
        }
        self.earliest = self.queue.pop(earliest).unwrap_or(Entry::NONE);
        Some(Popped::Foreground(earliest))
    }

    /// Removes all entries: their agents have ended.
    pub(super) fn clear(&mut self) {
        self.earliest = Entry::NONE;
        self.queue.clear();
        self.background.clear();
    }
}
