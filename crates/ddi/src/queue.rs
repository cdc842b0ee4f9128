//! Owns the arguments of context and hardware queue DDIs, of the packet path and of the hardware
//! queue path.

use crate::{DriverHandle, OsHandle, SubmitCommandFlags};
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
    /// On which physical adapter: each has page tables of its own (PhysicalAdapterIndex).
    pub physical_adapter: u32,
    /// Where the root table stands on the bus; `None` when the process is gone.
    pub root: Option<PhysicalAddress>,
}

/// DXGKARG_CREATECONTEXT and DXGKARG_CREATEHWCONTEXT.
#[derive(Clone, Copy, Debug)]
pub struct CreateContext {
    /// The driver's device.
    pub device: DriverHandle,
    /// The kernel's handle.
    pub os_handle: OsHandle,
    /// Which engine: its node.
    pub node_ordinal: u32,
    /// And its physical adapter: one bit.
    pub engine_affinity: u32,
    /// Whether hardware queues will be made in it.
    pub hardware_scheduled: bool,
}

/// The progress fence of a hardware queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressFence {
    /// A native fence (flag NativeProgressFence): the driver's handle.
    // spec: NF-116
    Native(DriverHandle),
    /// A monitored fence: where its value stands in the process's GPU address space.
    Monitored {
        /// GPU address of the value.
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
    /// Which engine: its node.
    pub node_ordinal: u32,
    /// And its physical adapter.
    pub engine_ordinal: u32,
    /// Where the commands stand, process GPU address.
    pub dma_buffer_gpu_va: u64,
    /// How many bytes.
    pub dma_buffer_bytes: u32,
    /// Comes back with the completion interrupt; per engine, increasing, wraps.
    pub submission_fence_id: u32,
    /// What is particular about it.
    pub flags: SubmitCommandFlags,
}

/// DXGKARG_SUBMITCOMMANDTOHWQUEUE.
#[derive(Clone, Copy, Debug)]
pub struct SubmitCommandToHwQueue {
    /// The driver's hardware queue.
    pub hw_queue: DriverHandle,
    /// The progress value that says that it is done.
    pub progress_fence_id: u64,
    /// Where the commands stand, process GPU address.
    pub dma_buffer_gpu_va: u64,
    /// How many bytes.
    pub dma_buffer_bytes: u32,
}

/// A ring that a process brings to a doorbell: its slots, its control area, and both GPU addresses.
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
