//! The scheduler's deadlines: expiring quanta and packets that run too long.

use super::scheduler::Scheduling;
use crate::timer::Watch;
use std::sync::Weak;
use tidegate_ddi::Passive;
use tidegate_platform::CpuTime;

/// Serves the scheduler's deadlines on the timer's agent.
pub(crate) struct SchedulerWatch(pub(crate) Weak<Scheduling>);

impl Watch for SchedulerWatch {
    fn name(&self) -> &'static str {
        "packets"
    }

    fn next_deadline(&self) -> Option<CpuTime> {
        self.0.upgrade()?.next_deadline()
    }

    fn run(&self, level: &Passive, now: CpuTime) -> bool {
        self.0.upgrade().is_some_and(|scheduling| scheduling.run_deadlines(level, now))
    }
}
