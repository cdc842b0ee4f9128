//! Arguments of the DDIs for contexts, packets and hardware queues.

use crate::{BroadcastExclusions, DriverHandle, EngineId, OsHandle, SubmitCommandFlags};
use tidegate_platform::{Bulk, Page, PhysicalAddress};

/// A device: a process's container on one adapter.
#[derive(Clone, Copy, Debug)]
pub struct CreateDevice {
    /// The kernel's handle.
    pub os_handle: OsHandle,
    /// The process's GPU address space, by number.
    pub address_space: u32,
}

/// Names a process's address space by its root page table (DxgkDdiSetRootPageTable).
#[derive(Clone, Copy, Debug)]
pub struct SetRootPageTable {
    /// The address space.
    pub address_space: u32,
    /// PhysicalAdapterIndex: each physical adapter has its own page tables.
    pub physical_adapter: u32,
    /// Bus address of the root table; `None` when the process has ended.
    pub root: Option<PhysicalAddress>,
}

/// DXGKARG_CREATECONTEXT and DXGKARG_CREATEHWCONTEXT.
#[derive(Clone, Copy, Debug)]
pub struct CreateContext {
    /// The driver's device.
    pub device: DriverHandle,
    /// The kernel's handle.
    pub os_handle: OsHandle,
    /// Node of the engine.
    pub node_ordinal: u32,
    /// Physical adapter of the engine, as a bit.
    pub engine_affinity: u32,
    /// Whether it is for hardware queues.
    pub hardware_scheduled: bool,
}

/// The progress fence of a hardware queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressFence {
    /// A native fence (flag NativeProgressFence): the driver's handle.
    // spec: NF-116
    Native(DriverHandle),
    /// A monitored fence.
    Monitored {
        /// Process GPU address of the value.
        gpu_va: u64,
    },
}

/// DXGKARG_CREATEHWQUEUE.
#[derive(Clone, Copy, Debug)]
pub struct CreateHwQueue {
    /// The driver's context.
    pub context: DriverHandle,
    /// The kernel's handle.
    pub os_handle: OsHandle,
    /// D3DDDI_CREATEHWQUEUEFLAGS::UserModeSubmission.
    pub user_mode_submission: bool,
    /// D3DDDI_CREATEHWQUEUEFLAGS::NoBroadcastSignal and NoBroadcastWait.
    pub exclusions: BroadcastExclusions,
    /// Its progress fence.
    pub progress_fence: ProgressFence,
    /// CurrentValue of the progress fence, process GPU address.
    pub progress_current_gpu_va: u64,
    /// MonitoredValue of the progress fence, process GPU address; 0 for a monitored fence.
    pub progress_monitored_gpu_va: u64,
}

/// DXGKARG_SUBMITCOMMANDVIRTUAL: one DMA packet for a node.
#[derive(Clone, Copy, Debug)]
pub struct SubmitCommandVirtual {
    /// The driver's context.
    pub context: DriverHandle,
    /// The engine: NodeOrdinal and EngineOrdinal.
    pub engine: EngineId,
    /// Process GPU address of the commands.
    pub dma_buffer_gpu_va: u64,
    /// Size in bytes.
    pub dma_buffer_bytes: u32,
    /// Returned by the completion interrupt. Increases per engine, and wraps.
    pub submission_fence_id: u32,
    /// Flags of the submission.
    pub flags: SubmitCommandFlags,
}

/// DXGKARG_SUBMITCOMMANDTOHWQUEUE.
#[derive(Clone, Copy, Debug)]
pub struct SubmitCommandToHwQueue {
    /// The driver's hardware queue.
    pub hw_queue: DriverHandle,
    /// The progress value of its completion.
    pub progress_fence_id: u64,
    /// Process GPU address of the commands.
    pub dma_buffer_gpu_va: u64,
    /// Size in bytes.
    pub dma_buffer_bytes: u32,
}

/// The ring of a doorbell, in memory of the process.
#[derive(Clone, Debug)]
pub struct RingAllocations {
    /// The slots, kernel CPU address.
    pub ring: Bulk,
    /// The slots, process GPU address.
    pub ring_gpu_va: u64,
    /// The control area, kernel CPU address.
    pub control: Page,
    /// The control area, process GPU address.
    pub control_gpu_va: u64,
}
