//! The steps of a driver that a planted bug omits, implemented in `seam`.

/// The omitted step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeftOut {
    /// No step.
    Nothing,
    /// The barrier of UpdateMonitoredValues.
    CpuBarrier,
    /// The CMP's part of UpdateMonitoredValues: MonitoredValue in memory is updated with a barrier,
    /// and the shadow is stale.
    ShadowUpdate,
    /// The hint after a doorbell's store, which wakes a sleeping engine.
    RingHint,
    /// UpdateMonitoredValues to the maximum when no wait is left.
    Disarm,
    /// The check of parked queues in UpdateCurrentValuesFromCpu: the value is only stored.
    Notification,
    /// Holding and releasing engines while fence storage moves.
    EngineHold,
    /// The call that reports a victimised doorbell to the kernel.
    VictimNotice,
    /// UpdateNativeFenceLogs as a whole.
    LogFlush,
    /// Removing a context's queues from the run list. The driver reports success.
    Suspension,
    /// Putting them back on the run list.
    Resume,
    /// Changing a context's priority. The driver reports success.
    Priority,
    /// The hardware's part in a preemption: the driver answers every request itself, with the
    /// current completions.
    Preemption,
    /// Resubmission of preempted packets. The driver reports success.
    Resubmission,
    /// The fences in a fence-signalled interrupt.
    SignalReport,
    /// All but the first signalled fence of an interrupt. Models a lookup by address, for scenarios
    /// whose fences all have the same address.
    SecondAtAddress,
    /// An interrupt raised while the interrupt routine runs.
    InterruptInRoutine,
    /// The hardware queue in the report of a fault.
    FaultReport,
    /// The report that names the context aborted by an engine reset, and every other fact about
    /// what the engine ran.
    Blame,
    /// The ID of the packet that an engine reset aborted. The driver names the next one.
    AbortedId,
    /// Restarting the hardware after a reset. The driver reports success.
    Restart,
    /// Disconnecting the doorbell of a lost device, which stays on the hardware.
    Disconnection,
    /// The driver's part in destroying a doorbell, until the next doorbell is connected. The
    /// destroy call returns before the doorbell is destroyed.
    DoorbellEnd,
    /// Waiting for the destruction of the first device. The destroy call returns, and another agent
    /// makes the driver's call.
    DeviceEnd,
    /// Making the victim's callback on the connecting agent: a worker makes it.
    CallbackOwner,
}
