//! Configuration of a scheduler, and the time passed to its decisions.

use tidegate_platform::CpuTime;

/// The current time on two clocks. The timeline counts steps under exploration, so it differs from
/// the deadline clock there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Timeline time in nanoseconds.
    pub stamp_ns: u64,
    /// Time on the clock that deadlines use.
    pub at: CpuTime,
}

/// Scheduling parameters, common to all engines of an adapter.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Number of nodes per physical adapter.
    pub nodes: u32,
    /// Number of physical adapters.
    pub physical_adapters: u32,
    /// Maximum number of packets in flight per engine (HwQueuePacketCap); 0 selects the default.
    pub packet_cap: u32,
    /// Whether the driver supports packet preemption (PreemptionAware).
    pub preempts: bool,
    /// Time after which a packet is preempted for an equal-priority context, in nanoseconds.
    pub quantum_ns: u64,
    /// Time after which a packet is preempted unconditionally, in nanoseconds; `None` for no limit.
    pub timeout_ns: Option<u64>,
    /// Fence IDs that each engine leaves out, so that a test sees IDs wrap. They are left out in
    /// parts, whenever every packet of the engine is complete, because drivers compare IDs with the
    /// last completed one.
    pub fence_ids_ahead: u32,
}
