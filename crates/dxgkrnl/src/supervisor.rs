//! Owns the kernel's timer: one agent that looks when the deadline of one of its watches has come. A watch is a policy that says when
//! it is to be looked at next, and the protocol that looks.
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
use crate::{power, sched, tdr};
use std::sync::{Arc, Weak};
use tidegate_platform::{Agent, CpuTime, Mutex, Platform, ServiceHandle, Step, Turn, WakeWord, Word};

/// Something that is to be looked at from time to time.
pub(crate) struct Watch {
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
        let until = platform.page(1).word(0);
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

struct SupervisorAgent(Weak<Adapter>);

impl Agent for SupervisorAgent {
    fn turn(&mut self) -> Turn {
        let Some(adapter) = self.0.upgrade() else { return Turn::Park };
        let supervisor = &adapter.supervisor;
        // 1.
        supervisor.until.store(u64::MAX);
        // 2.
        let (strict, leisurely) = (earliest(&WATCHES, &adapter), earliest(&AT_LEISURE, &adapter));
        let Some((deadline, look)) =
            strict.into_iter().chain(leisurely).min_by_key(|(deadline, _)| *deadline)
        else {
            return Turn::Park;
        };
        if deadline <= adapter.platform.now() {
            look(&adapter);
            return Turn::Again;
        }
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

/// The first of the deadlines of `watches`, and who looks then.
fn earliest(watches: &[Watch], adapter: &Adapter) -> Option<(CpuTime, Look)> {
    let deadlines = watches.iter().filter_map(|watch| Some(((watch.next)(adapter)?, watch.look)));
    deadlines.min_by_key(|(deadline, _)| *deadline)
}

/// Starts the agent of an adapter that has one.
pub(crate) fn start(adapter: &Arc<Adapter>) {
    let supervisor = &adapter.supervisor;
    if !supervisor.is_there {
        return;
    }
    let agent: Box<dyn Agent> = Box::new(SupervisorAgent(Arc::downgrade(adapter)));
    let service = adapter.platform.spawn_service("supervisor", supervisor.wake.clone(), vec![agent]);
    *supervisor.service.lock() = Some(service);
}
