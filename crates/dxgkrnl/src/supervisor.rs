//! The kernel's timer: one agent that runs a watch when its deadline has come. A watch is a policy
//! that names its next deadline, and the protocol that acts on it.
//!
//! Invariants: no timer is due on an adapter that stopped. A deadline that is due a second time,
//! after a check that changed nothing, is a bug check.
//!
//! Order: a caller that changes a policy, under the policy's lock, arms afterwards. The agent 1.
//! publishes that it has no deadline;
//! 2. reads the deadline of every watch, under their locks; 3. publishes the earliest and sleeps
//!    until then. A deadline armed in between was either read in step 2, or its caller reads the
//!    word of step 1 and wakes the agent. A deadline is not taken back: the agent wakes, finds
//!    nothing due, and sleeps again.
//!
//! Entry points: `Timer::arm`; [`WATCHES`]. Explored adapters run without the agent by
//! default.

use crate::adapter::Adapter;
use crate::error::BugCheck;
use crate::{power, recovery};
use std::sync::{Arc, Weak};
use tidegate_platform::{Agent, CpuTime, Turn};

/// A policy with deadlines.
pub(crate) struct Watch {
    /// What its timer is for.
    pub(crate) name: &'static str,
    /// The next deadline; `None` while there is nothing to wait for. A time that has passed is due.
    pub(crate) next: fn(&Adapter) -> Option<CpuTime>,
    /// Acts on what is due. Returns whether anything changed: the deadline that was due must be
    /// gone then.
    pub(crate) look: fn(&Arc<Adapter>) -> bool,
}

/// All watches of an adapter, but for those at leisure.
const WATCHES: [Watch; 2] = [PACKETS, recovery::WATCH];
/// The scheduler's deadlines.
const PACKETS: Watch = Watch {
    name: "packets",
    next: |adapter| adapter.sched.next_deadline(),
    look: |adapter| adapter.sched.run_deadlines(),
};
/// Watches that help nobody on when they look: they keep no machine going in which nobody else
/// moves.
const AT_LEISURE: [Watch; 1] = [power::WATCH];

/// Finds a deadline that will never pass. One check that changes nothing is legal: another agent
/// may have served the policy between the deadline and the check. A second one at the same deadline
/// is not: the first check left the policy as it was, so the timer would be due for ever.
#[derive(Default)]
struct Repeats {
    idle: Option<(&'static str, CpuTime)>,
}

impl Repeats {
    /// A watch ran for this deadline. Returns whether it is stuck.
    // spec: PRE-090
    fn is_stuck(&mut self, watch: &'static str, deadline: CpuTime, changed: bool) -> bool {
        let due = Some((watch, deadline)).filter(|_| !changed);
        let again = due.is_some() && self.idle == due;
        self.idle = due;
        again
    }
}

struct SupervisorAgent {
    adapter: Weak<Adapter>,
    repeats: Repeats,
}

impl Agent for SupervisorAgent {
    fn turn(&mut self) -> Turn {
        let Some(adapter) = self.adapter.upgrade() else { return Turn::Park };
        if adapter.check().is_err() {
            return Turn::Park;
        }
        // 1.
        adapter.timer.sleep_until(u64::MAX);
        // 2.
        let (strict, leisurely) = (earliest(&WATCHES, &adapter), earliest(&AT_LEISURE, &adapter));
        let Some((deadline, watch)) =
            strict.into_iter().chain(leisurely).min_by_key(|(deadline, _)| *deadline)
        else {
            return Turn::Park;
        };
        if deadline <= adapter.platform.now() {
            let changed = (watch.look)(&adapter);
            if self.repeats.is_stuck(watch.name, deadline, changed) {
                let (watch, deadline_ns) = (watch.name, deadline.0);
                adapter.bug_check(BugCheck::TimerStuck { watch, deadline_ns });
                return Turn::Park;
            }
            return Turn::Again;
        }
        self.repeats = Repeats::default();
        // 3.
        match strict {
            Some((until, _)) => {
                adapter.timer.sleep_until(until.0);
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
    if !adapter.timer.is_on() {
        return;
    }
    let agent = SupervisorAgent { adapter: Arc::downgrade(adapter), repeats: Repeats::default() };
    let agent: Box<dyn Agent> = Box::new(agent);
    let wake = adapter.timer.wake_word();
    adapter.timer.keep(adapter.platform.spawn_service("supervisor", wake, vec![agent]));
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: PRE-090
    #[test]
    fn a_deadline_that_is_due_again_after_a_look_that_changed_nothing_is_stuck() {
        let mut repeats = Repeats::default();
        assert!(
            (0..9).all(|at| !repeats.is_stuck("a", CpuTime(at), false)),
            "each deadline passed"
        );
        assert!(
            (0..9).all(|_| !repeats.is_stuck("b", CpuTime(0), true)),
            "each look changed something"
        );
        assert!(!repeats.is_stuck("b", CpuTime(0), false));
        assert!(!repeats.is_stuck("a", CpuTime(0), false), "another watch");
        assert!(!repeats.is_stuck("b", CpuTime(0), false));
        assert!(repeats.is_stuck("b", CpuTime(0), false));
    }
}
