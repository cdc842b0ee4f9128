//! The virtual-time discipline: the agent with the earliest time runs. Equal times run in the order
//! in which they became ready, so runs are reproducible.
//!
//! Between two charges of time only one agent runs. Other agents see its stores in the order
//! of time.

use super::machine::{Discipline, World, with};
use super::run_queue::{Popped, QueuedTimer, RunQueue};
use super::slot::{Role, State};
use super::wheel::Entry;
use crate::explorer::AgentIx;
use crate::fiber;
use crate::thread::check_step;
use crate::time::Step;
use crate::wait::WaitEnd;

/// How many timers of the background expire at a stall: one for each kind of background work that
/// one agent has (power and hang detection).
const LAST_EXPIRATIONS: u32 = 2;

impl World {
    fn virtual_mut(&mut self) -> &mut RunQueue {
        match &mut self.discipline {
            Discipline::Virtual(v) => v,
            Discipline::Explored(_) => panic!("virtual time in an explored machine"),
        }
    }

    pub(super) fn pick_earliest(&mut self) -> Option<AgentIx> {
        loop {
            let popped = self.virtual_mut().pop()?;
            let (Popped::Foreground(entry) | Popped::Background(entry)) = popped;
            if let Popped::Background(timer) = popped
                && !self.is_timer_of_sleep(timer)
            {
                continue;
            }
            let agent = entry.agent();
            let slot = self.slot(agent);
            if slot.entry != entry.number() {
                continue;
            }
            let has_timed_out = slot.state == State::Blocked;
            self.now = self.now.max(entry.time());
            if has_timed_out {
                // Agents that are due at the same time entered before this one.
                let now = self.now;
                if self.virtual_mut().is_any_due(now) {
                    self.end_sleep(agent, WaitEnd::TimedOut, 0);
                    continue;
                }
                self.end_wait(agent, WaitEnd::TimedOut);
            }
            self.steps += 1;
            return Some(agent);
        }
    }

    /// Returns the agent of a background timer that expires although the machine stalls. Each stall
    /// has [`LAST_EXPIRATIONS`] of them: it ends when an agent other than a service has run.
    pub(super) fn pick_at_stall(&mut self) -> Option<AgentIx> {
        if !matches!(self.discipline, Discipline::Virtual(_)) || self.scripts_live == 0 {
            return None;
        }
        let others = self.agents.iter().filter(|slot| slot.role != Role::Service);
        let moved = others.map(|slot| slot.entry).max().unwrap_or(0);
        if self.stall.0 != moved {
            self.stall = (moved, LAST_EXPIRATIONS);
        }
        self.stall.1 = self.stall.1.checked_sub(1)?;
        self.virtual_mut().is_stalled = true;
        let agent = self.pick_earliest();
        self.virtual_mut().is_stalled = false;
        agent
    }

    /// Starts to load what the switch to the earliest agent will touch, which mostly is the next
    /// one.
    #[inline]
    pub(super) fn prefetch_earliest(&self) {
        if let Discipline::Virtual(v) = &self.discipline
            && let Some(agent) = v.earliest()
            && let Some(slot) = self.agents.get(usize::from(agent.0))
        {
            slot.prefetch();
        }
    }

    /// Returns whether a timer that has left the background queue is that of its agent's present
    /// sleep. If the agent sleeps behind an earlier timer, its own is queued.
    fn is_timer_of_sleep(&mut self, timer: Entry) -> bool {
        let agent = timer.agent();
        let slot = &mut self.agents[usize::from(agent.0)];
        if !slot.queued_timer.is(timer) {
            return false;
        }
        slot.queued_timer = QueuedTimer::default();
        let deadline = slot.deadline();
        let of_sleep = deadline.filter(|d| d.in_background && slot.entry != timer.number());
        if let Some(deadline) = of_sleep
            && let Discipline::Virtual(v) = &mut self.discipline
        {
            v.push_behind_timer((deadline.time, slot.entry), agent, &mut slot.queued_timer);
            return false;
        }
        true
    }

    /// Charges `ns` to the running agent. Returns whether another agent's time comes first.
    fn charge(&mut self, ns: u64) -> bool {
        let Some(agent) = self.current else { return false };
        let until = self.now + ns;
        let v = self.virtual_mut();
        if !v.is_due(until) {
            self.now = until;
            return false;
        }
        let entry = v.push(until, agent);
        let slot = self.slot(agent);
        (slot.entry, slot.state) = (entry, State::Ready);
        true
    }
}

/// Charges `ns` to the running agent.
pub fn spend_ns(ns: u64) {
    spend(|_| ns);
}

/// Charges the cost of a step to the running agent.
pub fn spend_step(step: Step) {
    spend(|v| v.costs.ns(step));
}

/// Advances the clock by `ns` before another agent runs: the process is stopped meanwhile.
pub fn skip_ns(ns: u64) {
    check_step();
    with(|w| {
        assert!(matches!(w.discipline, Discipline::Virtual(_)), "only virtual time is skipped");
        w.now += ns;
    });
}

fn spend(cost_ns: impl FnOnce(&RunQueue) -> u64) {
    check_step();
    let is_overtaken = with(|w| {
        let ns = cost_ns(w.virtual_mut());
        ns > 0 && w.charge(ns)
    });
    if is_overtaken {
        fiber::suspend();
    }
}
