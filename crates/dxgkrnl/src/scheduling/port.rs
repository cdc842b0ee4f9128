//! What scheduling needs of the rooms above it: [`SchedulingPort`] of objects, [`ReportPort`] of
//! interrupts.

use super::dma_buffer::QueuedPart;
use crate::fence::Fence;
use std::sync::Arc;
use tidegate_ddi::{DriverHandle, EngineId, Irql, OsHandle, Passive};

/// A packet context, as long as the kernel keeps it.
pub(crate) trait PacketContext: Send + Sync {
    fn os_handle(&self) -> OsHandle;

    /// The handle of its device.
    fn device_handle(&self) -> OsHandle;

    /// The driver's handle.
    fn driver_handle(&self) -> DriverHandle;

    fn engine(&self) -> EngineId;

    /// A queued part of a DMA buffer with physical addresses.
    fn part(&self, number: u64) -> Option<Arc<QueuedPart>>;

    /// Keeps a queued part until it is over.
    fn keep_part(&self, number: u64, part: Arc<QueuedPart>);

    /// The monitored fences that are open in its process.
    fn monitored_fences(&self) -> Arc<[Arc<Fence>]>;

    /// The context belongs to the kernel, not to a process.
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
    /// A packet context that still exists.
    fn packet_context(&self, context: OsHandle) -> Option<Arc<dyn PacketContext>>;

    /// A hardware queue that still exists.
    fn kernel_mode_queue(&self, queue: OsHandle) -> Option<Arc<dyn KernelModeQueue>>;

    /// Whether a context or hardware queue is neither being destroyed nor of a lost device.
    fn is_active(&self, queue: OsHandle) -> bool;

    /// The driver refused a command: the device of its context or queue is lost. `position` is the
    /// fence ID or progress value.
    fn command_refused(&self, level: Irql<'_>, queue: OsHandle, position: u64, gpu_va: u64);
}

/// Reports of the driver, as interrupts take them.
pub(crate) trait ReportPort: Send + Sync {
    /// Takes reports that the driver made outside of an interrupt.
    fn serve_reports(self: Arc<Self>);

    /// Takes everything that was reported until now.
    fn flush_reports(&self);

    /// Takes reports whose deferred routine is overdue.
    fn take_overdue_reports(self: Arc<Self>, level: &Passive);

    /// Ignores completions of the engine's packets from now on. The caller holds the interrupt
    /// lock. Returns the last completion that was reported and not taken.
    fn ignore_packets(&self, engine: EngineId) -> Option<u32>;

    /// Takes completions of the engine's packets again.
    fn heed_packets(&self, engine: EngineId);
}
