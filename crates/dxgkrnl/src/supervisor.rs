//! The timer's agent: runs watches when their deadlines expire, and work items immediately.
//!
//! Invariants: no watch runs on a stopped adapter. A deadline that is due again after a run without
//! effect is a bug check.
//!
//! Order: a caller that changes a policy, under the policy's lock, arms afterwards. The agent (1)
//! publishes that it has no deadline, (2) reads the deadline of every watch, under their locks, (3)
//! publishes the earliest and sleeps until then. A deadline armed in between was either read in
//! step 2, or its caller reads the word of step 1 and wakes the agent.
//!
//! An agent that wakes long after its deadline shows that the process had no processor: it was
//! stopped, or its host was. The engines had none either, so the watches count their times anew.
//!
//! Entry point: [`start`], with the watches of the adapter.

use crate::driver::DriverPort;
use crate::error::BugCheck;
use crate::timer::{Watch, is_late};
use std::sync::{Arc, Weak};
use tidegate_ddi::Passive;
use tidegate_platform::{Agent, CpuTime, Turn};

/// The watches of an adapter.
pub(crate) struct Watches {
    pub(crate) strict: Vec<Arc<dyn Watch>>,
    /// Watches that no other agent depends on. Their deadlines do not keep a machine running.
    pub(crate) background: Vec<Arc<dyn Watch>>,
}

/// Detects a deadline that never passes. One run without effect is legal: another agent may have
/// served the policy between the deadline and the run. A second such run at the same deadline is
/// not, because the timer would stay due indefinitely.
#[derive(Default)]
struct Repeats {
    idle: Option<(&'static str, CpuTime)>,
}

impl Repeats {
    /// Records a run of a watch for this deadline. Returns whether it is stuck.
    // spec: PRE-090
    fn is_stuck(&mut self, watch: &'static str, deadline: CpuTime, changed: bool) -> bool {
        let due = Some((watch, deadline)).filter(|_| !changed);
        let again = due.is_some() && self.idle == due;
        self.idle = due;
        again
    }
}

struct TimerAgent {
    port: Weak<DriverPort>,
    watches: Watches,
    repeats: Repeats,
    sleep: Sleep,
}

/// The deadline that the last turn has waited for.
#[derive(Default)]
struct Sleep(Option<CpuTime>);

impl Sleep {
    /// Returns whether the wait for this deadline has ended, and so late that the process had no
    /// processor meanwhile. A wait ends once.
    fn ended_late(&mut self, deadline: CpuTime, now: CpuTime, timeout_ns: u64) -> bool {
        // spec: PRE-169
        let has_slept = self.0.take() == Some(deadline);
        has_slept && is_late(deadline, now, timeout_ns)
    }
}

impl Agent for TimerAgent {
    fn turn(&mut self) -> Turn {
        let Some(port) = self.port.upgrade() else { return Turn::Park };
        let level = &Passive::enter();
        if let Some(item) = port.timer.take_work() {
            item(level);
            return Turn::Again;
        }
        if port.check().is_err() {
            return Turn::Park;
        }
        // 1.
        port.timer.sleep_until(u64::MAX);
        // 2.
        let Watches { strict, background } = &self.watches;
        let (strict, background) = (earliest(strict), earliest(background));
        let Some((deadline, watch)) =
            strict.into_iter().chain(background).min_by_key(|(deadline, _)| *deadline)
        else {
            return Turn::Park;
        };
        let now = port.platform.now();
        if deadline <= now {
            if self.sleep.ended_late(deadline, now, port.config.tdr.delay_ns) {
                self.watches.strict.iter().for_each(|watch| watch.count_anew(now));
                return Turn::Again;
            }
            let changed = watch.run(level);
            if self.repeats.is_stuck(watch.name(), deadline, changed) {
                let (watch, deadline_ns) = (watch.name(), deadline.0);
                port.bug_check(level, BugCheck::TimerStuck { watch, deadline_ns });
            }
            return Turn::Again;
        }
        self.repeats = Repeats::default();
        self.sleep = Sleep::default();
        // 3.
        match strict {
            Some((until, _)) => {
                port.timer.sleep_until(until.0);
                self.sleep = Sleep(Some(deadline));
                Turn::Until(deadline)
            }
            None => Turn::Background(deadline),
        }
    }
}

/// Returns the earliest deadline of `watches`, and its watch.
fn earliest(watches: &[Arc<dyn Watch>]) -> Option<(CpuTime, &dyn Watch)> {
    let deadlines = watches.iter().filter_map(|watch| Some((watch.next_deadline()?, &**watch)));
    deadlines.min_by_key(|(deadline, _)| *deadline)
}

/// Starts the timer's agent.
pub(crate) fn start(port: &Arc<DriverPort>, watches: Watches) {
    let (port_of_agent, repeats) = (Arc::downgrade(port), Repeats::default());
    let agent = TimerAgent { port: port_of_agent, watches, repeats, sleep: Sleep::default() };
    let wake = port.timer.wake_word();
    port.timer.attach(port.platform.spawn_service("timer", wake, vec![Box::new(agent)]));
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: PRE-090
    #[test]
    fn a_deadline_that_is_due_again_after_a_run_that_changed_nothing_is_stuck() {
        let mut repeats = Repeats::default();
        assert!(
            (0..9).all(|at| !repeats.is_stuck("a", CpuTime(at), false)),
            "each deadline passed"
        );
        assert!(
            (0..9).all(|_| !repeats.is_stuck("b", CpuTime(0), true)),
            "each run changed something"
        );
        assert!(!repeats.is_stuck("b", CpuTime(0), false));
        assert!(!repeats.is_stuck("a", CpuTime(0), false), "another watch");
        assert!(!repeats.is_stuck("b", CpuTime(0), false));
        assert!(repeats.is_stuck("b", CpuTime(0), false));
    }

    // spec: PRE-169
    #[test]
    fn a_wait_that_ends_late_counts_once_and_only_if_it_was_waited_for() {
        let (deadline, timeout_ns) = (CpuTime(1_000), 400);
        let late = CpuTime(1_101);
        let mut sleep = Sleep(Some(deadline));
        assert!(sleep.ended_late(deadline, late, timeout_ns));
        assert!(!sleep.ended_late(deadline, late, timeout_ns), "the watch runs now");
        assert!(!Sleep(Some(deadline)).ended_late(deadline, CpuTime(1_100), timeout_ns));
        assert!(!Sleep(Some(CpuTime(999))).ended_late(deadline, late, timeout_ns));
    }
}
