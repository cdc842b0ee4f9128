//! Owns the virtual-time discipline: the agent whose time is earliest runs. Equal times run in the
//! order in which they were made ready, so a run is the same every time.
//!
//! Between two charges of time an agent runs alone; other agents see its stores in the order of
//! time.

use super::{AgentIx, Discipline, State, World, with};
use crate::WaitEnd;
use crate::fiber;
use crate::time::{Deadline, Step, StepCosts};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// (time, order of entry, agent, the sleep that this timer ends).
type Entry = (u64, u64, AgentIx, Option<u64>);

pub(super) struct Virtual {
    pub(super) costs: StepCosts,
    queue: BinaryHeap<Reverse<Entry>>,
    /// Timers that come only when something else comes later: they keep no machine going.
    background: BTreeSet<Entry>,
    entries: u64,
    lock_waiters: usize,
}

impl Virtual {
    pub(super) fn new(costs: StepCosts) -> Virtual {
        Virtual {
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

    /// Queues the end of that very sleep of `agent`.
    pub(super) fn push_timer(&mut self, deadline: Deadline, agent: AgentIx, sleep: u64) {
        self.entries += 1;
        let entry = (deadline.time.0, self.entries, agent, Some(sleep));
        if deadline.in_background {
            self.background.insert(entry);
        } else {
            self.queue.push(Reverse(entry));
        }
    }

    fn pop(&mut self) -> Option<Entry> {
        if let Some(background) = self.background.first()
            && self.queue.peek().is_some_and(|Reverse(next)| background < next)
        {
            return self.background.pop_first();
        }
        self.queue.pop().map(|Reverse(entry)| entry)
    }
}

impl World {
    fn virtual_mut(&mut self) -> &mut Virtual {
        match &mut self.discipline {
            Discipline::Virtual(v) => v,
            Discipline::Explored(_) => panic!("virtual time in an explored machine"),
        }
    }

    pub(super) fn pick_earliest(&mut self) -> Option<AgentIx> {
        loop {
            let (at, _, agent, sleep) = self.virtual_mut().pop()?;
            let slot = self.slot(agent);
            match sleep {
                None if slot.state == State::Ready => {}
                Some(number) if slot.state == State::Blocked && slot.sleep_number == number => {
                    self.now = self.now.max(at);
                    self.end_sleep(agent, WaitEnd::TimedOut, 0);
                    continue;
                }
                _ => continue,
            }
            self.now = self.now.max(at);
            self.steps += 1;
            return Some(agent);
        }
    }

    /// Charges `ns` to the running agent; returns whether another agent's time comes first.
    fn charge(&mut self, ns: u64) -> bool {
        let Some(agent) = self.current else { return false };
        let until = self.now + ns;
        let v = self.virtual_mut();
        match v.queue.peek() {
            Some(Reverse((at, ..))) if *at <= until => {
                v.push(until, agent);
                self.slot(agent).state = State::Ready;
                true
            }
            _ => {
                self.now = until;
                false
            }
        }
    }
}

pub(crate) fn spend_ns(ns: u64) {
    if ns > 0 && with(|w| w.charge(ns)) {
        fiber::suspend();
    }
}

pub(crate) fn spend_step(step: Step) {
    let ns = with(|w| w.virtual_mut().costs.ns(step));
    spend_ns(ns);
}

/// The lock at `key` is taken by an agent whose time passed inside it: wait until it is dropped.
pub(crate) fn wait_for_lock(key: usize, name: &'static str) {
    with(|w| w.virtual_mut().lock_waiters += 1);
    super::block(key, None, name);
    with(|w| w.virtual_mut().lock_waiters -= 1);
}

pub(crate) fn lock_dropped(key: usize) {
    with(|w| {
        if w.virtual_mut().lock_waiters > 0 {
            w.wake(key, 1, 0);
        }
    });
}
