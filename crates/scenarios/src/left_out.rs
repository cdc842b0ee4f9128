//! The steps of a driver that a planted bug can leave out. `seam` carries it out.

/// The step that the layer leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeftOut {
    /// Nothing.
    Nothing,
    /// The barrier of UpdateMonitoredValues.
    CpuBarrier,
    /// The CMP's part of UpdateMonitoredValues: MonitoredValue stands in memory behind a barrier,
    /// and the shadow is old.
    ShadowUpdate,
    /// The hint after a doorbell's store, which wakes an engine that sleeps.
    RingHint,
    /// UpdateMonitoredValues to the maximum, when no wait is left.
    Disarm,
    /// The check of waiting queues in UpdateCurrentValuesFromCpu: the value is stored, no more.
    Notification,
    /// The hold of engines while fence storage moves, and its end.
    EngineHold,
    /// The call that reports a victimised doorbell to the kernel.
    VictimNotice,
    /// All of UpdateNativeFenceLogs.
    LogFlush,
    /// The removal of a context's queues from the run list: the driver reports success.
    Suspension,
    /// Their return to it.
    Resume,
    /// A context's new place among others: the driver reports success.
    Priority,
    /// The hardware's part in a preemption: the driver answers every request itself, by what is
    /// complete at that moment.
    Preemption,
    /// Packets that come back: the driver reports that they were submitted again.
    Resubmission,
    /// What a fence signalled interrupt reports to the kernel.
    SignalReport,
    /// The reports of signalled fences of one interrupt, except the first: right for a bug of
    /// fences at one address, where a scenario has all its fences at one address.
    SecondAtAddress,
    /// An interrupt that is raised while the interrupt routine runs.
    InterruptInRoutine,
    /// What an interrupt reports of a hardware queue that faulted.
    FaultReport,
    /// The report of an engine's reset that names the context whose work was cut off.
    Blame,
    /// The id of the packet that an engine's reset cut off: the driver names the next one.
    AbortedId,
    /// The restart of the hardware after a reset: the driver reports success.
    Restart,
    /// The disconnect of a doorbell whose device is lost: it stays on the hardware.
    Disconnection,
    /// The driver's part in the end of a doorbell, until the next doorbell is connected: the
    /// destroy call of the first doorbell returns before the doorbell has ended.
    DoorbellEnd,
    /// The wait for the end of the first device: its destroy call returns, and another agent makes
    /// the driver's call.
    DeviceEnd,
    /// That the callback of a victimised doorbell runs on the agent that connects: a worker makes
    /// it, and the driver waits.
    CallbackOwner,
}
