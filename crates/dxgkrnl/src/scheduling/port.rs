//! Ports of scheduling to the rooms above it: [`SchedulingPort`] to objects, [`ReportPort`]
//! to interrupts.

use super::dma_buffer::QueuedPart;
use crate::fence::Fence;
use std::sync::Arc;
use tidegate_ddi::{DriverHandle, EngineId, Irql, OsHandle, Passive};
use tidegate_platform::CpuTime;

/// A packet context.
pub(crate) trait PacketContext: Send + Sync {
    fn os_handle(&self) -> OsHandle;

    /// Returns the handle of the context's device.
    fn device_handle(&self) -> OsHandle;

    /// The driver's handle.
    fn driver_handle(&self) -> DriverHandle;

    fn engine(&self) -> EngineId;

    /// Returns a queued part of a DMA buffer with physical addresses.
    fn part(&self, number: u64) -> Option<Arc<QueuedPart>>;

    /// Keeps a queued part until it is over.
    fn keep_part(&self, number: u64, part: Arc<QueuedPart>);

    /// Returns the monitored fences open in the context's process.
    fn monitored_fences(&self) -> Arc<[Arc<Fence>]>;

    /// Returns whether the context belongs to the kernel rather than a process.
    fn is_of_kernel(&self) -> bool;
}

/// A hardware queue that takes commands from the kernel.
pub(crate) trait KernelModeQueue: Send + Sync {
    fn os_handle(&self) -> OsHandle;

    /// The driver's handle.
    fn driver_handle(&self) -> DriverHandle;

    fn engine(&self) -> EngineId;

    fn progress_fence(&self) -> &Arc<Fence>;
}

/// Contexts and hardware queues.
pub(crate) trait SchedulingPort: Send + Sync {
    /// Returns a packet context if it still exists.
    fn packet_context(&self, context: OsHandle) -> Option<Arc<dyn PacketContext>>;

    /// Returns a kernel-mode hardware queue if it still exists.
    fn kernel_mode_queue(&self, queue: OsHandle) -> Option<Arc<dyn KernelModeQueue>>;

    /// Returns `false` for a context or hardware queue that is being destroyed or whose device
    /// is lost.
    fn is_active(&self, queue: OsHandle) -> bool;

    /// The driver refused a command: the device of its context or queue is lost. `position` is the
    /// fence ID or progress value.
    fn command_refused(&self, level: Irql<'_>, queue: OsHandle, position: u64, gpu_va: u64);
}

/// The driver's pending reports.
pub(crate) trait ReportPort: Send + Sync {
    /// Takes reports that the driver made outside an interrupt.
    fn serve_reports(self: Arc<Self>);

    /// Takes all pending reports.
    fn flush_reports(self: Arc<Self>, level: &Passive);

    /// Takes reports whose DPC is overdue at `now`, which the timer has read before its run: the
    /// process may have been stopped since.
    fn take_overdue_reports(self: Arc<Self>, level: &Passive, now: CpuTime);

    /// Leaves the last `ns` out of the time for which reports are pending.
    fn leave_out(&self, ns: u64, now: CpuTime);

    /// Starts to ignore completions of the engine's packets. The caller holds the interrupt lock.
    /// Returns the last completion still pending.
    fn ignore_packets(&self, engine: EngineId) -> Option<u32>;

    /// Accepts completions of the engine's packets again. The caller holds the interrupt lock.
    fn heed_packets(&self, engine: EngineId);
}
