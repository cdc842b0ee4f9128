//! Owns what a driver reports at interrupt level (DXGKARGCB_NOTIFY_INTERRUPT_DATA).

use crate::{DriverHandle, FaultErrorCode, OsHandle, PageFaultFlags, RenderPipelineStage};
use tidegate_platform::PhysicalAddress;
pub use tidegate_wddm_abi::d3dkmddi::{EngineState, InterruptType};

/// One interrupt's data, already copied out of the driver's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterruptData {
    /// DXGK_INTERRUPT_DMA_COMPLETED: all packets of the engine up to this id are complete.
    DmaCompleted {
        /// Which engine: its node.
        node_ordinal: u32,
        /// And its physical adapter.
        engine_ordinal: u32,
        /// The last complete packet's id.
        submission_fence_id: u32,
    },
    /// DXGK_INTERRUPT_DMA_PREEMPTED: a preemption is over, and everything behind
    /// `last_completed_fence_id` is back with the kernel.
    DmaPreempted {
        /// Which engine: its node.
        node_ordinal: u32,
        /// And its physical adapter.
        engine_ordinal: u32,
        /// The request that is answered.
        preemption_fence_id: u32,
        /// The last complete packet's id.
        last_completed_fence_id: u32,
    },
    /// DXGK_INTERRUPT_CRTC_VSYNC: a vertical sync. Reported after the packets that are complete by
    /// then: a flip may depend on one.
    CrtcVsync {
        /// VidPnTargetId: which display.
        vid_pn_target_id: u32,
        /// PhysicalAddress: where the surface stands that it latched.
        physical_address: PhysicalAddress,
    },
    /// DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED: some monitored fence was written by this engine.
    MonitoredFenceSignaled {
        /// Which engine: its node.
        node_ordinal: u32,
        /// And its physical adapter.
        engine_ordinal: u32,
    },
    /// DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED. Which of `fences` and `hw_queue` counts is fixed by
    /// what the adapter declared (OptimizedNativeFenceSignaledInterrupt); the other is not looked
    /// at.
    NativeFenceSignaled {
        /// Which engine: its node.
        node_ordinal: u32,
        /// And its physical adapter.
        engine_ordinal: u32,
        /// The kernel's handles of fences whose signal passed MonitoredValue; `None` is the NULL
        /// array: any may be meant. An empty array names as little as none and means the same.
        fences: Option<Vec<OsHandle>>,
        /// Optimized mode: the driver's hardware queue whose logs tell; `None` is NULL: all of the
        /// engine.
        hw_queue: Option<DriverHandle>,
        /// DXGKCB_NOTIFY_INTERRUPT_DATA_FLAGS::EvaluateLegacyMonitoredFences.
        evaluate_legacy_monitored_fences: bool,
    },
    /// The form that the native fence document wishes for and leaves to future hardware: an array
    /// of hardware queues whose logs tell. Ours, not published; only from an adapter that declares
    /// [`crate::AdapterCaps::signaled_hw_queue_array`].
    HwQueuesSignaled {
        /// Which engine: its node.
        node_ordinal: u32,
        /// And its physical adapter.
        engine_ordinal: u32,
        /// The driver's handles of the hardware queues that signalled above a MonitoredValue; an
        /// empty array means all of the engine.
        hw_queues: Vec<DriverHandle>,
        /// As in [`InterruptData::NativeFenceSignaled`].
        evaluate_legacy_monitored_fences: bool,
    },
    /// DXGK_INTERRUPT_DMA_PAGE_FAULTED: a DMA packet faulted.
    DmaPageFaulted {
        /// Which engine: its node.
        node_ordinal: u32,
        /// And its physical adapter.
        engine_ordinal: u32,
        /// The packet's id.
        faulted_fence_id: u32,
        /// Where and why.
        fault: PageFault,
    },
    /// DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED: a hardware queue faulted and was stopped.
    HwQueuePageFaulted {
        /// Which engine: its node.
        node_ordinal: u32,
        /// And its physical adapter.
        engine_ordinal: u32,
        /// The kernel's handle of the object that faulted, by the flags: the queue, where
        /// FENCE_INVALID is clear; else the context (HW_CONTEXT_VALID), the process
        /// (PROCESS_HANDLE_VALID), or none.
        faulted: OsHandle,
        /// The progress value of the command buffer that faulted; 0 where it was none, and where
        /// FENCE_INVALID is set.
        faulted_fence_id: u64,
        /// Which ring slot, counted from the queue's birth. Ours, not published.
        slot: u64,
        /// Where and why.
        fault: PageFault,
    },
    /// DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED: a suspension that was pending is complete.
    SuspendContextCompleted {
        /// The kernel's handle of the context.
        context: OsHandle,
        /// Which request is answered: what [`crate::HwQueueDdi::suspend_context`] was given.
        suspend_fence: u64,
    },
    /// DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE: the driver asks for a power action, or says that an
    /// engine makes no progress.
    // spec: UMS-050
    EngineStateChange {
        /// Which engine: its node.
        node_ordinal: u32,
        /// And its physical adapter.
        engine_ordinal: u32,
        /// What became of it.
        new_state: EngineState,
    },
}

impl InterruptData {
    /// The DXGK_INTERRUPT_TYPE under which a C driver would report it; `None` for the form that is
    /// not published.
    pub fn interrupt_type(&self) -> Option<InterruptType> {
        match self {
            InterruptData::DmaCompleted { .. } => Some(InterruptType::DmaCompleted),
            InterruptData::DmaPreempted { .. } => Some(InterruptType::DmaPreempted),
            InterruptData::CrtcVsync { .. } => Some(InterruptType::CrtcVsync),
            InterruptData::DmaPageFaulted { .. } => Some(InterruptType::DmaPageFaulted),
            InterruptData::MonitoredFenceSignaled { .. } => {
                Some(InterruptType::MonitoredFenceSignaled)
            }
            InterruptData::HwQueuePageFaulted { .. } => Some(InterruptType::HwQueuePageFaulted),
            InterruptData::NativeFenceSignaled { .. } => Some(InterruptType::NativeFenceSignaled),
            InterruptData::SuspendContextCompleted { .. } => {
                Some(InterruptType::SuspendContextCompleted)
            }
            InterruptData::EngineStateChange { .. } => Some(InterruptType::GpuEngineStateChange),
            InterruptData::HwQueuesSignaled { .. } => None,
        }
    }
}

/// What faulted: what reports of packets and of hardware queues have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageFault {
    /// The address that was used (FaultedVirtualAddress).
    pub gpu_va: u64,
    /// Whether it was a store, which object is named, and what must be reset.
    pub flags: PageFaultFlags,
    /// Which primitive, counted by the API (FaultedPrimitiveAPISequenceNumber); 0 when unknown.
    pub primitive_api_sequence_number: u64,
    /// Where in the pipeline of a draw (FaultedPipelineStage).
    pub pipeline_stage: RenderPipelineStage,
    /// Which entry of the bind table (FaultedBindTableEntry); 0 when unknown.
    pub bind_table_entry: u32,
    /// The level of page tables that did not lead on; the last one is 0.
    pub page_table_level: u32,
    /// The code.
    pub error_code: FaultErrorCode,
    /// The same in words; a driver's own. What else it was than an address: a packet that makes no
    /// sense, arguments that a program refused, a command that the engine cannot run.
    pub what: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: NF-118
    #[test]
    fn interrupts_have_their_published_numbers() {
        let (node_ordinal, engine_ordinal, evaluate_legacy_monitored_fences) = (0, 0, false);
        let fault = PageFault::default();
        let (fences, hw_queue) = (None, None);
        let published = [
            InterruptData::DmaCompleted { node_ordinal, engine_ordinal, submission_fence_id: 0 },
            InterruptData::DmaPageFaulted {
                node_ordinal,
                engine_ordinal,
                faulted_fence_id: 0,
                fault,
            },
            InterruptData::MonitoredFenceSignaled { node_ordinal, engine_ordinal },
            InterruptData::HwQueuePageFaulted {
                node_ordinal,
                engine_ordinal,
                faulted: OsHandle(0),
                faulted_fence_id: 0,
                slot: 0,
                fault,
            },
            InterruptData::NativeFenceSignaled {
                node_ordinal,
                engine_ordinal,
                fences,
                hw_queue,
                evaluate_legacy_monitored_fences,
            },
            InterruptData::SuspendContextCompleted { context: OsHandle(0), suspend_fence: 0 },
            InterruptData::EngineStateChange {
                node_ordinal,
                engine_ordinal,
                new_state: EngineState::TransitionToF1,
            },
        ];
        assert_eq!(
            published.map(|data| data.interrupt_type().map(|t| t as u32)),
            [1, 9, 11, 12, 19, 17, 20].map(Some)
        );
        let hw_queues = Vec::new();
        let ours = InterruptData::HwQueuesSignaled {
            node_ordinal,
            engine_ordinal,
            hw_queues,
            evaluate_legacy_monitored_fences,
        };
        assert_eq!(ours.interrupt_type(), None);
    }
}
