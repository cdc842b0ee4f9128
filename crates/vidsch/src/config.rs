//! What a scheduler is configured with, and the time of a decision.

use tidegate_platform::CpuTime;

/// A moment: on the timeline, and on the clock of deadlines. They differ under exploration, where
/// the timeline counts steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// The time on the timeline, in nanoseconds.
    pub stamp_ns: u64,
    /// The time on the clock of deadlines.
    pub at: CpuTime,
}

/// What holds for all engines of an adapter.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Nodes of each physical adapter.
    pub nodes: u32,
    /// Physical adapters.
    pub physical_adapters: u32,
    /// Packets that an engine holds at once (HwQueuePacketCap); 0 for the default.
    pub packet_cap: u32,
    /// Whether packets are preempted (PreemptionAware).
    pub preempts: bool,
    /// How long a packet may keep its engine from contexts of its priority.
    pub quantum_ns: u64,
    /// How long a packet may run before it is preempted; `None` for no limit.
    pub timeout_ns: Option<u64>,
}
