//! The statistics of a device and its queues.

use std::ops::AddAssign;

/// Statistics of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Calls of [`crate::Queue::execute`] with at least one list.
    pub executes: u64,
    /// Command buffers submitted.
    pub submissions: u64,
    /// Command buffers submitted to another engine than the queue's own.
    pub submissions_elsewhere: u64,
    /// Changes of the engine, each of which waited for all earlier work of the queue.
    pub hand_overs: u64,
    /// Waits queued.
    pub waits: u64,
    /// Signals queued.
    pub signals: u64,
    /// Stores to the doorbell.
    pub doorbell_rings: u64,
    /// Connects of the doorbell.
    pub connects: u64,
    /// Rings that were repeated because the doorbell was disconnected, not counting the first
    /// connect.
    pub retries: u64,
    /// Recreations after DISCONNECTED_ABORT.
    pub recreations: u64,
    /// Submissions that went into the backlog because the ring was full. Always 0 for packet and
    /// hardware queues, whose software queues have no limit.
    pub ring_waits: u64,
    /// Time for which the backlog was not empty, in nanoseconds.
    pub ring_wait_ns: u64,
}

impl AddAssign for QueueStats {
    fn add_assign(&mut self, other: QueueStats) {
        self.executes += other.executes;
        self.submissions += other.submissions;
        self.submissions_elsewhere += other.submissions_elsewhere;
        self.hand_overs += other.hand_overs;
        self.waits += other.waits;
        self.signals += other.signals;
        self.doorbell_rings += other.doorbell_rings;
        self.connects += other.connects;
        self.retries += other.retries;
        self.recreations += other.recreations;
        self.ring_waits += other.ring_waits;
        self.ring_wait_ns += other.ring_wait_ns;
    }
}

/// Statistics of one engine that a queue drives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineStats {
    /// The node (NodeOrdinal).
    pub node: u32,
    /// The name of the engine's lane on the timeline.
    pub name: String,
    /// Command buffers of the queue that were submitted to it.
    pub submissions: u64,
}

/// Statistics of a device and all its queues, including ended ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls into the graphics kernel. Not counted in an explored machine, where counting would be
    /// a step of its own.
    pub kernel_calls: u64,
    /// Blocking CPU waits of the application. Not counted in an explored machine.
    pub cpu_waits: u64,
    /// CPU waits that blocked and returned. Not counted in an explored machine.
    pub cpu_wakes: u64,
    /// Command buffers submitted.
    pub submissions: u64,
    /// Stores to doorbells.
    pub doorbell_rings: u64,
    /// Connects of doorbells.
    pub connects: u64,
    /// Rings that were repeated because the doorbell was disconnected.
    pub retries: u64,
}

impl Counters {
    /// Returns the counts since `earlier`.
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            kernel_calls: self.kernel_calls - earlier.kernel_calls,
            cpu_waits: self.cpu_waits - earlier.cpu_waits,
            cpu_wakes: self.cpu_wakes - earlier.cpu_wakes,
            submissions: self.submissions - earlier.submissions,
            doorbell_rings: self.doorbell_rings - earlier.doorbell_rings,
            connects: self.connects - earlier.connects,
            retries: self.retries - earlier.retries,
        }
    }
}
