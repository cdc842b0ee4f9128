//! Reports of a driver at interrupt level (DXGKARGCB_NOTIFY_INTERRUPT_DATA).

use crate::{
    DriverHandle, EngineId, FaultErrorCode, OsHandle, PageFaultFlags, RenderPipelineStage,
};
use tidegate_platform::PhysicalAddress;
pub use tidegate_wddm_abi::d3dkmddi::{EngineState, InterruptType};

/// One interrupt's data, copied out of the driver's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterruptData {
    /// DXGK_INTERRUPT_DMA_COMPLETED: all packets of the engine up to this id are complete.
    DmaCompleted {
        /// The engine: NodeOrdinal and EngineOrdinal.
        engine: EngineId,
        /// The last complete packet's id.
        submission_fence_id: u32,
    },
    /// DXGK_INTERRUPT_DMA_PREEMPTED: a preemption is complete. Packets after
    /// `last_completed_fence_id` are back with the kernel.
    DmaPreempted {
        /// The engine: NodeOrdinal and EngineOrdinal.
        engine: EngineId,
        /// The id of the preemption request.
        preemption_fence_id: u32,
        /// The last complete packet's id.
        last_completed_fence_id: u32,
    },
    /// DXGK_INTERRUPT_CRTC_VSYNC: a vertical sync. Reported after the packets that completed before
    /// it, because a flip may depend on them.
    CrtcVsync {
        /// VidPnTargetId: the display.
        vid_pn_target_id: u32,
        /// PhysicalAddress: bus address of the latched surface.
        physical_address: PhysicalAddress,
    },
    /// DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED: this engine wrote a monitored fence.
    MonitoredFenceSignaled {
        /// The engine: NodeOrdinal and EngineOrdinal.
        engine: EngineId,
    },
    /// DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED. The cap OptimizedNativeFenceSignaledInterrupt selects
    /// `hw_queue`; without it the kernel reads `fences`.
    NativeFenceSignaled {
        /// The engine: NodeOrdinal and EngineOrdinal.
        engine: EngineId,
        /// The kernel's handles of fences whose signal passed MonitoredValue. `None` (the NULL
        /// array) and an empty array stand for any fence.
        fences: Option<Vec<OsHandle>>,
        /// Optimized mode: the driver's hardware queue whose logs have the entries. `None` (NULL)
        /// stands for all queues of the engine.
        hw_queue: Option<DriverHandle>,
        /// DXGKCB_NOTIFY_INTERRUPT_DATA_FLAGS::EvaluateLegacyMonitoredFences.
        evaluate_legacy_monitored_fences: bool,
    },
    /// The form that the native fence document leaves to future hardware: an array of hardware
    /// queues whose logs have the entries. Not published. Only from an adapter that declares
    /// [`crate::AdapterCaps::signaled_hw_queue_array`].
    HwQueuesSignaled {
        /// The engine: NodeOrdinal and EngineOrdinal.
        engine: EngineId,
        /// The driver's handles of the hardware queues that signalled above a MonitoredValue. An
        /// empty array stands for all queues of the engine.
        hw_queues: Vec<DriverHandle>,
        /// As in [`InterruptData::NativeFenceSignaled`].
        evaluate_legacy_monitored_fences: bool,
    },
    /// DXGK_INTERRUPT_DMA_PAGE_FAULTED: a DMA packet faulted.
    DmaPageFaulted {
        /// The engine: NodeOrdinal and EngineOrdinal.
        engine: EngineId,
        /// The packet's id.
        faulted_fence_id: u32,
        /// Place and cause.
        fault: PageFault,
    },
    /// DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED: a hardware queue faulted and was stopped.
    HwQueuePageFaulted {
        /// The engine: NodeOrdinal and EngineOrdinal.
        engine: EngineId,
        /// The kernel's handle of the object that faulted. The flags select it: the queue if
        /// FENCE_INVALID is clear, else the context (HW_CONTEXT_VALID), the process
        /// (PROCESS_HANDLE_VALID), or none.
        faulted: OsHandle,
        /// The progress value of the command buffer that faulted; 0 for any other packet and with
        /// FENCE_INVALID.
        faulted_fence_id: u64,
        /// Number of the ring slot since the queue was created. Not published.
        slot: u64,
        /// Place and cause.
        fault: PageFault,
    },
    /// DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED: a suspension that was pending is complete.
    SuspendContextCompleted {
        /// The kernel's handle of the context.
        context: OsHandle,
        /// The fence that [`crate::HwQueueDdi::suspend_context`] received.
        suspend_fence: u64,
    },
    /// DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE: the driver requests a power action, or reports that
    /// an engine makes no progress.
    // spec: UMS-050
    EngineStateChange {
        /// The engine: NodeOrdinal and EngineOrdinal.
        engine: EngineId,
        /// The new state.
        new_state: EngineState,
    },
}

impl InterruptData {
    /// The DXGK_INTERRUPT_TYPE of the report; `None` for the form that is not published.
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

/// Place and cause of a fault, of packets and of hardware queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageFault {
    /// FaultedVirtualAddress.
    pub gpu_va: u64,
    /// The kind of access, the object that is named, and the reset that is needed.
    pub flags: PageFaultFlags,
    /// FaultedPrimitiveAPISequenceNumber; 0 when unknown.
    pub primitive_api_sequence_number: u64,
    /// FaultedPipelineStage of a draw.
    pub pipeline_stage: RenderPipelineStage,
    /// FaultedBindTableEntry; 0 when unknown.
    pub bind_table_entry: u32,
    /// Page table level at which translation stopped; the last level is 0.
    pub page_table_level: u32,
    /// The code.
    pub error_code: FaultErrorCode,
    /// The driver's description. For faults without an address: a malformed packet, arguments that
    /// a program rejects, a command that the engine cannot run.
    pub what: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: NF-118
    #[test]
    fn interrupts_have_their_published_numbers() {
        let (engine, evaluate_legacy_monitored_fences) = (EngineId::of_node(0), false);
        let fault = PageFault::default();
        let (fences, hw_queue) = (None, None);
        let published = [
            InterruptData::DmaCompleted { engine, submission_fence_id: 0 },
            InterruptData::DmaPageFaulted { engine, faulted_fence_id: 0, fault },
            InterruptData::MonitoredFenceSignaled { engine },
            InterruptData::HwQueuePageFaulted {
                engine,
                faulted: OsHandle(0),
                faulted_fence_id: 0,
                slot: 0,
                fault,
            },
            InterruptData::NativeFenceSignaled {
                engine,
                fences,
                hw_queue,
                evaluate_legacy_monitored_fences,
            },
            InterruptData::SuspendContextCompleted { context: OsHandle(0), suspend_fence: 0 },
            InterruptData::EngineStateChange { engine, new_state: EngineState::TransitionToF1 },
        ];
        assert_eq!(
            published.map(|data| data.interrupt_type().map(|t| t as u32)),
            [1, 9, 11, 12, 19, 17, 20].map(Some)
        );
        let hw_queues = Vec::new();
        let ours =
            InterruptData::HwQueuesSignaled { engine, hw_queues, evaluate_legacy_monitored_fences };
        assert_eq!(ours.interrupt_type(), None);
    }
}
