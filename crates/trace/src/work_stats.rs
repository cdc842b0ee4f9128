//! What the hardware and the scheduler count for a queue.

use crate::Durations;

/// The work of one queue, or of several added up. The engines count for hardware queues and rings;
/// VidSch counts the waits, signals and blocked time of software queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkStats {
    /// Ring slots of work that were completed.
    pub packets: u64,
    /// Commands that were completed.
    pub commands: u64,
    /// Time for which an engine was busy with its copies, fills, dispatches, draws and timed work,
    /// in nanoseconds.
    pub busy_ns: u64,
    /// Waits that the queue passed. Those of memory management count.
    pub waits: u64,
    /// Signals that the queue made. Those of memory management and of waits for idle queues count.
    pub signals: u64,
    /// Time for which a wait that was not satisfied headed the queue, in nanoseconds.
    pub blocked_ns: u64,
    /// Preemptions in the middle of its work: for another queue, or to return it to the kernel.
    pub preempted: u64,
    /// How long engines took to leave other work for this queue.
    pub preempts: Durations,
}

impl std::ops::AddAssign<&WorkStats> for WorkStats {
    fn add_assign(&mut self, more: &WorkStats) {
        self.packets += more.packets;
        self.commands += more.commands;
        self.busy_ns += more.busy_ns;
        self.waits += more.waits;
        self.signals += more.signals;
        self.blocked_ns += more.blocked_ns;
        self.preempted += more.preempted;
        self.preempts.merge(&more.preempts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_of_two_queues_is_the_sum_of_both() {
        let of = |n: u64| {
            let mut preempts = Durations::default();
            preempts.add(100 * n);
            let (packets, commands, busy_ns, waits) = (n, 10 * n, 20 * n, 30 * n);
            let (signals, blocked_ns, preempted) = (40 * n, 50 * n, 60 * n);
            WorkStats {
                packets,
                commands,
                busy_ns,
                waits,
                signals,
                blocked_ns,
                preempted,
                preempts,
            }
        };
        let mut sum = of(1);
        sum += &of(2);
        assert_eq!((sum.preempts.count(), sum.preempts.max_ns()), (2, 200));
        assert_eq!(sum, WorkStats { preempts: sum.preempts.clone(), ..of(3) });
    }
}
