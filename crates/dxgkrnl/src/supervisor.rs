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
//! While a deadline is armed, the agent reads the clock every eighth of TdrDelay. A gap of more
//! than two eighths shows that the process had no processor: it was stopped, or its host was. The
//! engines had none either, so the watches leave the gap out, all but an eighth. Then the agent
//! sleeps for half an eighth, in which the engines and DPCs run, before it looks for deadlines. A
//! second gap in a row delays no deadline, so a hang is found on a slow host, too.
//!
//! Entry point: [`start`], with the watches of the adapter.

use crate::driver::DriverPort;
use crate::error::BugCheck;
use crate::timer::Watch;
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
    pulse: Pulse,
}

/// Readings of the clock while a deadline is armed.
struct Pulse {
    /// The most time between two readings.
    beat_ns: u64,
    /// `None` while no deadline is armed.
    last: Option<CpuTime>,
    /// The last reading was after a gap.
    after_gap: bool,
}

/// What a reading of the clock shows.
#[derive(Debug, PartialEq, Eq)]
enum Reading {
    /// Deadlines are armed since this time at the earliest.
    First(CpuTime),
    OnTime,
    /// The time for which the process had no processor, in nanoseconds. `is_first`: the reading
    /// before was on time.
    Gap {
        ns: u64,
        is_first: bool,
    },
}

impl Pulse {
    fn new(timeout_ns: u64) -> Pulse {
        Pulse { beat_ns: (timeout_ns / 8).max(1), last: None, after_gap: false }
    }

    // spec: PRE-169
    fn read(&mut self, now: CpuTime) -> Reading {
        let Some(last) = self.last.replace(now) else {
            self.after_gap = false;
            return Reading::First(CpuTime(now.0.saturating_sub(self.beat_ns)));
        };
        let ns = now.since(last).saturating_sub(self.beat_ns);
        let is_first = !std::mem::replace(&mut self.after_gap, ns > self.beat_ns);
        if self.after_gap { Reading::Gap { ns, is_first } } else { Reading::OnTime }
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
        if strict.is_none() {
            self.pulse.last = None;
        }
        let Some((deadline, watch)) =
            strict.into_iter().chain(background).min_by_key(|(deadline, _)| *deadline)
        else {
            return Turn::Park;
        };
        let now = port.platform.now();
        if strict.is_some() {
            match self.pulse.read(now) {
                Reading::First(from) => {
                    self.watches.strict.iter().for_each(|watch| watch.count_from(from));
                }
                Reading::OnTime => {}
                Reading::Gap { ns, is_first } => {
                    self.watches.strict.iter().for_each(|watch| watch.leave_out(ns, now));
                    if is_first {
                        return Turn::Until(now.after(self.pulse.beat_ns / 2));
                    }
                }
            }
        }
        if deadline <= now {
            let changed = watch.run(level, now);
            if self.repeats.is_stuck(watch.name(), deadline, changed) {
                let (watch, deadline_ns) = (watch.name(), deadline.0);
                port.bug_check(level, BugCheck::TimerStuck { watch, deadline_ns });
            }
            return Turn::Again;
        }
        self.repeats = Repeats::default();
        // 3.
        match strict {
            Some((until, _)) => {
                port.timer.sleep_until(until.0);
                Turn::Until(deadline.min(now.after(self.pulse.beat_ns)))
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
    let pulse = Pulse::new(port.config.tdr.delay_ns);
    let (port_of_agent, repeats) = (Arc::downgrade(port), Repeats::default());
    let agent = TimerAgent { port: port_of_agent, watches, repeats, pulse };
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
    fn a_gap_of_two_beats_is_time_without_a_processor() {
        let mut pulse = Pulse::new(80);
        let mut read = |at| pulse.read(CpuTime(at));
        assert_eq!(read(100), Reading::First(CpuTime(90)));
        assert_eq!([110, 130].map(&mut read), [Reading::OnTime, Reading::OnTime]);
        assert_eq!(read(151), Reading::Gap { ns: 11, is_first: true });
        assert_eq!(read(200), Reading::Gap { ns: 39, is_first: false });
        assert_eq!(read(200), Reading::OnTime);
        assert_eq!(read(230), Reading::Gap { ns: 20, is_first: true });
        pulse.last = None;
        assert_eq!(pulse.read(CpuTime(999)), Reading::First(CpuTime(989)));
        assert_eq!(pulse.read(CpuTime(1_020)), Reading::Gap { ns: 11, is_first: true });
    }
}
