//! The timeout watch, run by the timer's agent.

use super::detect::{self, ResetsByEngine};
use super::recover::recover;
use super::state::Recovery;
use crate::timer::Watch;
use std::sync::Weak;
use tidegate_ddi::Passive;
use tidegate_platform::CpuTime;

/// Serves the detection deadlines and the due recoveries.
pub(crate) struct TimeoutWatch(pub(crate) Weak<Recovery>);

impl Watch for TimeoutWatch {
    fn name(&self) -> &'static str {
        "timeouts"
    }

    fn next_deadline(&self) -> Option<CpuTime> {
        detect::next_deadline(&*self.0.upgrade()?)
    }

    fn run(&self, level: &Passive, now: CpuTime) -> bool {
        self.0.upgrade().is_some_and(|recovery| run_detection(&recovery, level, now))
    }

    fn count_from(&self, from: CpuTime) {
        if let Some(recovery) = self.0.upgrade() {
            detect::count_from(&recovery, from);
        }
    }

    fn leave_out(&self, ns: u64, now: CpuTime) {
        if let Some(recovery) = self.0.upgrade() {
            detect::leave_out(&recovery, ns, now);
        }
    }
}

/// Serves the samplings at rest, for which no other agent waits.
pub(crate) struct TimeoutWatchAtRest(pub(crate) Weak<Recovery>);

impl Watch for TimeoutWatchAtRest {
    fn name(&self) -> &'static str {
        "timeouts at rest"
    }

    fn next_deadline(&self) -> Option<CpuTime> {
        detect::next_deadline_at_rest(&*self.0.upgrade()?)
    }

    fn run(&self, level: &Passive, now: CpuTime) -> bool {
        self.0.upgrade().is_some_and(|recovery| run_detection(&recovery, level, now))
    }
}

/// Recovers from all detected timeouts. Returns whether anything changed.
fn run_detection(recovery: &Recovery, level: &Passive, now: CpuTime) -> bool {
    // 1. Findings queued by agents that cannot run a recovery.
    let (mut changed, resets) = recover_reported(recovery, level);
    // 2. Packets. A report that the driver left may be the answer of an engine.
    if recovery.objects.sched.next_timeout().is_some_and(|at| at <= now)
        && let Some(reports) = recovery.objects.sched.reports.get()
    {
        reports.take_overdue_reports(level, now);
    }
    for finding in detect::timed_out_packets(recovery, now, &resets) {
        changed = true;
        recover(recovery, level, finding);
    }
    // 3. Hardware queues: acknowledged probes end.
    changed |= detect::end_answered_probes(recovery, level);
    changed |= detect::release_missed_waiters(level.into(), recovery, now);
    // 4. Hardware queues: all engines are sampled.
    if detect::begin_sampling(recovery, now) {
        changed = true;
        recovery.objects.fences.note_lost_histories();
        for engine in recovery.port.declared.caps.engines() {
            if let Some(finding) = detect::sample(recovery, level, engine) {
                recover(recovery, level, finding);
                detect::end_finding(recovery, level, engine);
            }
        }
        detect::end_sampling(level, recovery, now);
    }
    changed
}

/// Recovers from queued findings. Returns whether there was any, and the resets of each engine
/// after that.
fn recover_reported(recovery: &Recovery, level: &Passive) -> (bool, ResetsByEngine) {
    let mut any = false;
    loop {
        match detect::take_reported(recovery) {
            Ok(finding) => {
                any = true;
                recover(recovery, level, finding);
            }
            Err(resets) => return (any, resets),
        }
    }
}
