//! The kernel's timer: one agent that looks when the deadline of one of its watches has come. A watch is a policy that says when
//! it is to be looked at next, and the protocol that looks.
//!
//! Invariants: no timer is due on an adapter that stopped with a bug check. A deadline that stays due however often its watch
//! looks is a bug check of its own.
//!
//! The order that matters: who changes a policy, under the policy's lock, arms afterwards. The agent 1. says that any deadline is
//! news; 2. asks every watch for its deadline, under their locks; 3. says until when it sleeps. Who arms in between either was
//! asked in 2, or finds the word of 1 and rings.
//!
//! A deadline is not taken back: the agent wakes, finds nothing due, and goes back to sleep, so that who submits work rings
//! nobody as long as some earlier deadline stands. With nothing to watch it sleeps for good.
//!
//! Whoever has deadlines calls [`Supervisor::arm`]; watches stand in [`WATCHES`]. It decides nothing. An adapter that is explored has no
//! such agent unless it is asked for: there, time stands still as long as anybody can move.

use crate::adapter::Adapter;
use crate::error::BugCheck;
use crate::{power, sched, tdr};
use std::sync::{Arc, Weak};
use tidegate_platform::{Agent, CpuTime, Mutex, Platform, ServiceHandle, Step, Turn, WakeWord, Word};

/// Something that is to be looked at from time to time.
pub(crate) struct Watch {
    /// What its timer is for.
    pub(crate) name: &'static str,
    /// When, next; `None` while there is nothing to look at. A time that has passed is due.
    pub(crate) next: fn(&Adapter) -> Option<CpuTime>,
    /// Looks. Afterwards the deadline that was due is not named again.
    pub(crate) look: Look,
}

type Look = fn(&Arc<Adapter>);

/// All watches of an adapter, but for those at leisure.
const WATCHES: [Watch; 3] = [sched::WATCH, tdr::PACKETS, tdr::QUEUES];
/// Watches that help nobody on when they look: they keep no machine going in which nobody else moves.
const AT_LEISURE: [Watch; 1] = [power::WATCH];

/// The way to the agent.
pub(crate) struct Supervisor {
    /// When the agent will look by itself, in ns, whether anybody else moves or not; `u64::MAX`: any deadline is news to it.
    until: Word,
    wake: WakeWord,
    is_there: bool,
    service: Mutex<Option<ServiceHandle>>,
}

impl Supervisor {
    pub(crate) fn new(platform: &Platform, is_there: bool) -> Supervisor {
        let until = platform.page(1).word(0).named("the supervisor's deadline");
        until.store(u64::MAX);
        Supervisor {
            until,
            wake: WakeWord::new(platform),
            is_there,
            service: platform.mutex("supervisor", None),
        }
    }

    /// Whether deadlines are kept.
    pub(crate) fn is_there(&self) -> bool {
        self.is_there
    }

    /// A watch has this deadline now. Called with no lock of policy state held.
    pub(crate) fn arm(&self, deadline: CpuTime) {
        if self.is_there && deadline.0 < self.until.load() {
            self.wake.ring(Step::ThreadWake);
        }
    }

    /// The first deadline of a watch at leisure that had none.
    pub(crate) fn arm_at_leisure(&self) {
        if self.is_there {
            self.wake.ring(Step::ThreadWake);
        }
    }

    /// Ends the agent after its present turn.
    pub(crate) fn stop(&self) {
        let service = self.service.lock().take();
        if let Some(service) = service {
            service.stop();
        }
    }
}

/// Looks of one watch at one deadline, one after the other, that change nothing.
const MOST_LOOKS: u32 = 1_000;

/// How often the same deadline was due.
#[derive(Default)]
struct Repeats {
    last: Option<(&'static str, CpuTime)>,
    looks: u32,
}

impl Repeats {
    /// The watch looks because of this deadline. Says whether it looked so often that the deadline will never pass.
    fn is_stuck(&mut self, watch: &'static str, deadline: CpuTime) -> bool {
        let due = Some((watch, deadline));
        self.looks = if self.last == due { self.looks + 1 } else { 1 };
        self.last = due;
        self.looks > MOST_LOOKS
    }
}

struct SupervisorAgent {
    adapter: Weak<Adapter>,
    repeats: Repeats,
}

impl Agent for SupervisorAgent {
    fn turn(&mut self) -> Turn {
        let Some(adapter) = self.adapter.upgrade() else { return Turn::Park };
        let supervisor = &adapter.supervisor;
        if adapter.check().is_err() {
            return Turn::Park;
        }
        // 1.
        supervisor.until.store(u64::MAX);
        // 2.
        let (strict, leisurely) = (earliest(&WATCHES, &adapter), earliest(&AT_LEISURE, &adapter));
        let Some((deadline, watch)) =
            strict.into_iter().chain(leisurely).min_by_key(|(deadline, _)| *deadline)
        else {
            return Turn::Park;
        };
        if deadline <= adapter.platform.now() {
            if self.repeats.is_stuck(watch.name, deadline) {
                let (watch, deadline_ns) = (watch.name, deadline.0);
                adapter.bug_check(BugCheck::TimerStuck { watch, deadline_ns, looks: MOST_LOOKS });
                return Turn::Park;
            }
            (watch.look)(&adapter);
            return Turn::Again;
        }
        self.repeats = Repeats::default();
        // 3.
        match strict {
            Some((until, _)) => {
                supervisor.until.store(until.0);
                Turn::Until(deadline)
            }
            None => Turn::AtLeisure(deadline),
        }
    }
}

/// The first of the deadlines of `watches`, and the watch that looks then.
fn earliest<'a>(watches: &'a [Watch], adapter: &Adapter) -> Option<(CpuTime, &'a Watch)> {
    let deadlines = watches.iter().filter_map(|watch| Some(((watch.next)(adapter)?, watch)));
    deadlines.min_by_key(|(deadline, _)| *deadline)
}

/// Starts the agent of an adapter that has one.
pub(crate) fn start(adapter: &Arc<Adapter>) {
    let supervisor = &adapter.supervisor;
    if !supervisor.is_there {
        return;
    }
    let agent = SupervisorAgent { adapter: Arc::downgrade(adapter), repeats: Repeats::default() };
    let agent: Box<dyn Agent> = Box::new(agent);
    let service = adapter.platform.spawn_service("supervisor", supervisor.wake.clone(), vec![agent]);
    *supervisor.service.lock() = Some(service);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_that_is_due_for_ever_is_stuck_and_one_that_passes_is_not() {
        let mut repeats = Repeats::default();
        assert!((0..2 * MOST_LOOKS).all(|at| !repeats.is_stuck("a", CpuTime(u64::from(at)))));
        assert!((0..MOST_LOOKS).all(|_| !repeats.is_stuck("b", CpuTime(0))));
        assert!(repeats.is_stuck("b", CpuTime(0)));
        assert!(!repeats.is_stuck("a", CpuTime(0)));
    }
}
