//! Owns the virtual-time discipline: the agent with the earliest time runs. Equal times run in the
//! order in which they became ready, so runs are reproducible.
//!
//! Between two charges of time an agent runs alone. Other agents see its stores in the order
//! of time.

use super::machine::{Discipline, World, block, with};
use super::run_queue::RunQueue;
use super::slot::State;
use crate::controller::AgentIx;
use crate::fiber;
use crate::time::Step;
use crate::wait::WaitEnd;
use std::cmp::Reverse;

impl World {
    fn virtual_mut(&mut self) -> &mut RunQueue {
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

    /// Charges `ns` to the running agent. Returns whether another agent's time comes first.
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
    spend(|_| ns);
}

pub(crate) fn spend_step(step: Step) {
    spend(|v| v.costs.ns(step));
}

fn spend(cost_ns: impl FnOnce(&RunQueue) -> u64) {
    let is_overtaken = with(|w| {
        let ns = cost_ns(w.virtual_mut());
        ns > 0 && w.charge(ns)
    });
    if is_overtaken {
        fiber::suspend();
    }
}

/// Waits until the lock at `key` is dropped. Its owner's time has passed while holding it.
pub(crate) fn wait_for_lock(key: usize, name: &'static str) {
    with(|w| w.virtual_mut().lock_waiters += 1);
    block(key, None, name);
    with(|w| w.virtual_mut().lock_waiters -= 1);
}

#[inline]
pub(crate) fn lock_dropped(key: usize) {
    with(|w| {
        if w.virtual_mut().lock_waiters > 0 {
            w.wake(key, 1, 0);
        }
    });
}
