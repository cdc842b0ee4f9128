//! Owns what a driver reports at interrupt level (DXGKARGCB_NOTIFY_INTERRUPT_DATA).

use crate::{DriverHandle, OsHandle};

/// One interrupt's data, already copied out of the driver's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterruptData {
    /// DXGK_INTERRUPT_DMA_COMPLETED: all packets of the node up to this id are complete.
    DmaCompleted {
        /// Which engine.
        node_ordinal: u32,
        /// The last complete packet's id.
        submission_fence_id: u32,
    },
    /// DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED: some monitored fence was written by this engine.
    MonitoredFenceSignaled {
        /// Which engine.
        node_ordinal: u32,
    },
    /// DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED.
    NativeFenceSignaled {
        /// Which engine.
        node_ordinal: u32,
        /// The kernel's handles of fences whose signal passed MonitoredValue; `None` is the NULL array: any may be meant.
        fences: Option<Vec<OsHandle>>,
        /// Optimized mode: the driver's hardware queue whose logs tell; `None` is NULL.
        hw_queue: Option<DriverHandle>,
        /// DXGKCB_NOTIFY_INTERRUPT_DATA_FLAGS::EvaluateLegacyMonitoredFences.
        evaluate_legacy_monitored_fences: bool,
    },
    /// DXGK_INTERRUPT_DMA_PAGE_FAULTED: a DMA packet faulted.
    DmaPageFaulted {
        /// Which engine.
        node_ordinal: u32,
        /// The packet's id.
        faulted_fence_id: u32,
        /// Where and why.
        fault: PageFault,
    },
    /// DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED: a hardware queue faulted and was stopped.
    HwQueuePageFaulted {
        /// Which engine.
        node_ordinal: u32,
        /// The kernel's handle of the queue.
        hw_queue: OsHandle,
        /// Which ring slot, counted from the queue's birth.
        slot: u64,
        /// Where and why.
        fault: PageFault,
    },
}

/// What faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFault {
    /// The address that was used.
    pub gpu_va: u64,
    /// Whether it was a store.
    pub write: bool,
    /// What else it was than an address: a packet that makes no sense, arguments that a program refused, a command that the
    /// engine cannot run.
    pub what: &'static str,
}
