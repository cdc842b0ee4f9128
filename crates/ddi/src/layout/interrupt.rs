//! Owns the numbers of interrupts, the arms of their data that this contract speaks of, and the
//! engine's states.

use crate::{DriverHandle, InterruptData, OsHandle, PageFault, Status};
use tidegate_d3dukmdt::layout;
pub use tidegate_d3dukmdt::{FaultErrorCode, PageFaultFlags, RenderPipelineStage};

/// What an interrupt reports.
#[doc(alias = "DXGK_INTERRUPT_TYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum InterruptType {
    /// DXGK_INTERRUPT_DMA_COMPLETED
    DmaCompleted = 1,
    /// DXGK_INTERRUPT_DMA_PREEMPTED
    DmaPreempted = 2,
    /// DXGK_INTERRUPT_CRTC_VSYNC
    CrtcVsync = 3,
    /// DXGK_INTERRUPT_DMA_FAULTED: reserved for the system.
    DmaFaulted = 4,
    /// DXGK_INTERRUPT_DISPLAYONLY_VSYNC
    DisplayOnlyVsync = 5,
    /// DXGK_INTERRUPT_DISPLAYONLY_PRESENT_PROGRESS
    DisplayOnlyPresentProgress = 6,
    /// DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY
    CrtcVsyncWithMultiplaneOverlay = 7,
    /// DXGK_INTERRUPT_MICACAST_CHUNK_PROCESSING_COMPLETE
    MicacastChunkProcessingComplete = 8,
    /// DXGK_INTERRUPT_DMA_PAGE_FAULTED
    DmaPageFaulted = 9,
    /// DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY2
    CrtcVsyncWithMultiplaneOverlay2 = 10,
    /// DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED
    MonitoredFenceSignaled = 11,
    /// DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED
    HwQueuePageFaulted = 12,
    /// DXGK_INTERRUPT_HWCONTEXTLIST_SWITCH_COMPLETED
    HwContextListSwitchCompleted = 13,
    /// DXGK_INTERRUPT_PERIODIC_MONITORED_FENCE_SIGNALED
    PeriodicMonitoredFenceSignaled = 14,
    /// DXGK_INTERRUPT_SCHEDULING_LOG_INTERRUPT
    SchedulingLogInterrupt = 15,
    /// DXGK_INTERRUPT_GPU_ENGINE_TIMEOUT
    GpuEngineTimeout = 16,
    /// DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED
    SuspendContextCompleted = 17,
    /// DXGK_INTERRUPT_CRTC_VSYNC_WITH_MULTIPLANE_OVERLAY3
    CrtcVsyncWithMultiplaneOverlay3 = 18,
    // spec: NF-118
    /// DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED
    NativeFenceSignaled = 19,
    /// DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE
    GpuEngineStateChange = 20,
}

impl InterruptType {
    /// All of them, by number.
    pub const ALL: [InterruptType; 20] = [
        InterruptType::DmaCompleted,
        InterruptType::DmaPreempted,
        InterruptType::CrtcVsync,
        InterruptType::DmaFaulted,
        InterruptType::DisplayOnlyVsync,
        InterruptType::DisplayOnlyPresentProgress,
        InterruptType::CrtcVsyncWithMultiplaneOverlay,
        InterruptType::MicacastChunkProcessingComplete,
        InterruptType::DmaPageFaulted,
        InterruptType::CrtcVsyncWithMultiplaneOverlay2,
        InterruptType::MonitoredFenceSignaled,
        InterruptType::HwQueuePageFaulted,
        InterruptType::HwContextListSwitchCompleted,
        InterruptType::PeriodicMonitoredFenceSignaled,
        InterruptType::SchedulingLogInterrupt,
        InterruptType::GpuEngineTimeout,
        InterruptType::SuspendContextCompleted,
        InterruptType::CrtcVsyncWithMultiplaneOverlay3,
        InterruptType::NativeFenceSignaled,
        InterruptType::GpuEngineStateChange,
    ];
}

impl TryFrom<u32> for InterruptType {
    type Error = Status;

    /// The type of that number; INVALID_PARAMETER for any other.
    fn try_from(number: u32) -> Result<InterruptType, Status> {
        let found = InterruptType::ALL.into_iter().find(|t| *t as u32 == number);
        found.ok_or(Status::INVALID_PARAMETER)
    }
}

bitflags::bitflags! {
    /// Flags of an interrupt's data; the others are reserved.
    #[doc(alias = "DXGKCB_NOTIFY_INTERRUPT_DATA_FLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct NotifyInterruptFlags: u32 {
        /// The mask of physical adapters says something.
        const VALID_PHYSICAL_ADAPTER_MASK = 1;
        /// A flip was completed at a horizontal blank.
        const HSYNC_FLIP_COMPLETION = 1 << 1;
        /// Waits for monitored fences are to be looked at, too.
        #[doc(alias = "EvaluateLegacyMonitoredFences")]
        const EVALUATE_LEGACY_MONITORED_FENCES = 1 << 2;
    }
}

layout! {
    // spec: NF-119
    /// Arm of [`InterruptType::NativeFenceSignaled`].
    NativeFenceSignaled = "DXGKARGCB_NOTIFY_INTERRUPT_DATA::NativeFenceSignaled", 32 bytes {
        /// Which engine.
        0 "NodeOrdinal" node_ordinal: u32,
        /// Which physical adapter.
        4 "EngineOrdinal" engine_ordinal: u32,
        /// How many fences.
        8 "SignaledNativeFenceCount" signaled_native_fence_count: u32,
        /// Where the kernel's handles of them stand; NULL when any may be meant.
        16 "pSignaledNativeFenceArray" signaled_native_fence_array: u64,
        /// The driver's handle of the queue whose logs tell; NULL for all of the engine.
        24 "hHWQueue" hw_queue: u64,
    }

    // spec: HS-014
    /// Arm of [`InterruptType::HwQueuePageFaulted`].
    HwQueuePageFaulted = "DXGKARGCB_NOTIFY_INTERRUPT_DATA::HwQueuePageFaulted", 64 bytes {
        /// The progress value of the command buffer that faulted.
        0 "FaultedFenceId" faulted_fence_id: u64,
        /// The address that was used.
        8 "FaultedVirtualAddress" faulted_virtual_address: u64,
        /// Which primitive, counted by the API; 0 when unknown.
        16 "FaultedPrimitiveAPISequenceNumber" faulted_primitive_api_sequence_number: u64,
        /// A union, whose arm the flags tell: the kernel's handle of the queue, of the context, or
        /// of the process.
        24 "FaultedHwQueue" faulted: u64,
        /// Which engine.
        32 "NodeOrdinal" node_ordinal: u32,
        /// Which physical adapter.
        36 "EngineOrdinal" engine_ordinal: u32,
        /// Which stage of the pipeline; 0 when unknown.
        40 "FaultedPipelineStage" faulted_pipeline_stage: u32,
        /// Which entry of the bind table; 0 when unknown.
        44 "FaultedBindTableEntry" faulted_bind_table_entry: u32,
        /// See [`PageFaultFlags`].
        48 "PageFaultFlags" page_fault_flags: u32,
        /// The level of page tables that did not lead on; the last one is 0.
        52 "PageTableLevel" page_table_level: u32,
        /// See [`FaultErrorCode`].
        56 "FaultErrorCode" fault_error_code: u32,
    }

    /// Arm of [`InterruptType::MonitoredFenceSignaled`].
    MonitoredFenceSignaled = "DXGKARGCB_NOTIFY_INTERRUPT_DATA::MonitoredFenceSignaled", 8 bytes {
        /// Which engine.
        0 "NodeOrdinal" node_ordinal: u32,
        /// Which physical adapter.
        4 "EngineOrdinal" engine_ordinal: u32,
    }

    /// Arm of [`InterruptType::SuspendContextCompleted`].
    SuspendContextCompleted = "DXGKARGCB_NOTIFY_INTERRUPT_DATA::SuspendContextCompleted", 16 bytes {
        /// The kernel's handle of the context.
        0 "hContext" context: u64,
        /// Which request is answered.
        8 "ContextSuspendFence" context_suspend_fence: u64,
    }

    /// Arm of [`InterruptType::GpuEngineStateChange`].
    EngineStateChange = "DXGKARGCB_NOTIFY_INTERRUPT_DATA::EngineStateChange", 12 bytes {
        /// Which engine.
        0 "NodeOrdinal" node_ordinal: u32,
        /// Which physical adapter.
        4 "EngineOrdinal" engine_ordinal: u32,
        /// See [`EngineState`].
        8 "NewState" new_state: u32,
    }
}

// spec: UMS-051
/// What an engine is doing, or asks for.
#[doc(alias = "DXGK_ENGINE_STATE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum EngineState {
    /// Working.
    Active = 0,
    /// It could be powered down.
    TransitionToF1 = 1,
    /// It makes no progress.
    Hung = 2,
}

impl TryFrom<u32> for EngineState {
    type Error = Status;

    /// The state of that number; INVALID_PARAMETER for any other.
    fn try_from(number: u32) -> Result<EngineState, Status> {
        match number {
            0 => Ok(EngineState::Active),
            1 => Ok(EngineState::TransitionToF1),
            2 => Ok(EngineState::Hung),
            _ => Err(Status::INVALID_PARAMETER),
        }
    }
}

impl NativeFenceSignaled {
    /// The arm and the flags of `data`, whose fences were copied to `array`; `None` for data of
    /// another type.
    pub fn of(
        data: &InterruptData,
        array: u64,
    ) -> Option<(NativeFenceSignaled, NotifyInterruptFlags)> {
        let InterruptData::NativeFenceSignaled {
            node_ordinal,
            engine_ordinal,
            fences,
            hw_queue,
            evaluate_legacy_monitored_fences,
        } = data
        else {
            return None;
        };
        let mut flags = NotifyInterruptFlags::empty();
        flags.set(
            NotifyInterruptFlags::EVALUATE_LEGACY_MONITORED_FENCES,
            *evaluate_legacy_monitored_fences,
        );
        let arm = NativeFenceSignaled {
            node_ordinal: *node_ordinal,
            engine_ordinal: *engine_ordinal,
            signaled_native_fence_count: fences.as_ref().map_or(0, |f| f.len() as u32),
            signaled_native_fence_array: if fences.is_some() { array } else { 0 },
            hw_queue: hw_queue.map_or(0, |q| q.0),
        };
        Some((arm, flags))
    }

    /// How many handles to copy in from the array: none where there is no array, whatever the count
    /// says.
    pub fn fence_count(&self) -> usize {
        if self.signaled_native_fence_array == 0 {
            0
        } else {
            self.signaled_native_fence_count as usize
        }
    }

    /// The data, once the array was copied into `fences`.
    ///
    /// Errors: INVALID_PARAMETER for reserved flags and for another number of fences than was said.
    pub fn to_data(&self, flags: u32, fences: &[u64]) -> Result<InterruptData, Status> {
        let flags = NotifyInterruptFlags::from_bits(flags).ok_or(Status::INVALID_PARAMETER)?;
        if fences.len() != self.fence_count() {
            return Err(Status::INVALID_PARAMETER);
        }
        let named = self.signaled_native_fence_array != 0;
        Ok(InterruptData::NativeFenceSignaled {
            node_ordinal: self.node_ordinal,
            engine_ordinal: self.engine_ordinal,
            fences: named.then(|| fences.iter().map(|f| OsHandle(*f)).collect()),
            hw_queue: (self.hw_queue != 0).then_some(DriverHandle(self.hw_queue)),
            evaluate_legacy_monitored_fences: flags
                .contains(NotifyInterruptFlags::EVALUATE_LEGACY_MONITORED_FENCES),
        })
    }
}

impl HwQueuePageFaulted {
    /// The arm of `data`; `None` for data of another type. What is ours alone, the slot and the
    /// words, is not in it.
    pub fn of(data: &InterruptData) -> Option<HwQueuePageFaulted> {
        let InterruptData::HwQueuePageFaulted {
            node_ordinal,
            engine_ordinal,
            faulted,
            faulted_fence_id,
            fault,
            ..
        } = data
        else {
            return None;
        };
        Some(HwQueuePageFaulted {
            faulted_fence_id: *faulted_fence_id,
            faulted_virtual_address: fault.gpu_va,
            faulted_primitive_api_sequence_number: fault.primitive_api_sequence_number,
            faulted: faulted.0,
            node_ordinal: *node_ordinal,
            engine_ordinal: *engine_ordinal,
            faulted_pipeline_stage: fault.pipeline_stage as u32,
            faulted_bind_table_entry: fault.bind_table_entry,
            page_fault_flags: fault.flags.bits(),
            page_table_level: fault.page_table_level,
            fault_error_code: fault.error_code.0,
        })
    }

    /// The data.
    ///
    /// Errors: INVALID_PARAMETER for reserved flags and for a stage that does not exist.
    pub fn to_data(&self) -> Result<InterruptData, Status> {
        let flags =
            PageFaultFlags::from_bits(self.page_fault_flags).ok_or(Status::INVALID_PARAMETER)?;
        Ok(InterruptData::HwQueuePageFaulted {
            node_ordinal: self.node_ordinal,
            engine_ordinal: self.engine_ordinal,
            faulted: OsHandle(self.faulted),
            faulted_fence_id: self.faulted_fence_id,
            slot: 0,
            fault: PageFault {
                gpu_va: self.faulted_virtual_address,
                flags,
                primitive_api_sequence_number: self.faulted_primitive_api_sequence_number,
                pipeline_stage: RenderPipelineStage::try_from(self.faulted_pipeline_stage)?,
                bind_table_entry: self.faulted_bind_table_entry,
                page_table_level: self.page_table_level,
                error_code: FaultErrorCode(self.fault_error_code),
                what: "",
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::assert_bytes;
    use tidegate_d3dukmdt::layout::Raw;

    // spec: NF-118
    #[test]
    fn types_have_the_headers_numbers() {
        for (index, interrupt) in InterruptType::ALL.into_iter().enumerate() {
            assert_eq!(InterruptType::try_from(index as u32 + 1), Ok(interrupt));
        }
        assert_eq!(InterruptType::NativeFenceSignaled as u32, 19);
        assert_eq!(InterruptType::MonitoredFenceSignaled as u32, 11);
        assert_eq!(InterruptType::try_from(0), Err(Status::INVALID_PARAMETER));
        assert_eq!(InterruptType::try_from(21), Err(Status::INVALID_PARAMETER));
    }

    fn data(
        fences: Option<Vec<OsHandle>>,
        hw_queue: Option<DriverHandle>,
        legacy: bool,
    ) -> InterruptData {
        let evaluate_legacy_monitored_fences = legacy;
        InterruptData::NativeFenceSignaled {
            node_ordinal: 0x11,
            engine_ordinal: 0x44,
            fences,
            hw_queue,
            evaluate_legacy_monitored_fences,
        }
    }

    // spec: NF-119
    #[test]
    fn the_signalled_arm_carries_fences_and_queue() {
        let named = data(Some(vec![OsHandle(5), OsHandle(6)]), Some(DriverHandle(0x33)), true);
        let (arm, flags) = NativeFenceSignaled::of(&named, 0x22).unwrap();
        assert_bytes(&arm.to_bytes(), 32, &[(0, 0x11), (4, 0x44), (8, 2), (16, 0x22), (24, 0x33)]);
        assert_eq!(flags.bits(), 4);
        assert_eq!(arm.to_data(4, &[5, 6]), Ok(named));
    }

    #[test]
    fn a_null_array_means_any_fence_whatever_the_count() {
        let any = data(None, None, false);
        let (arm, flags) = NativeFenceSignaled::of(&any, 0x22).unwrap();
        assert_bytes(&arm.to_bytes(), 32, &[(0, 0x11), (4, 0x44)]);
        assert_eq!(arm.to_data(flags.bits(), &[]), Ok(any.clone()));
        let counted = NativeFenceSignaled { signaled_native_fence_count: 7, ..arm };
        assert_eq!(counted.fence_count(), 0);
        assert_eq!(counted.to_data(0, &[]), Ok(any));
        let other = InterruptData::MonitoredFenceSignaled { node_ordinal: 0, engine_ordinal: 0 };
        assert_eq!(NativeFenceSignaled::of(&other, 0), None);
    }

    #[test]
    fn data_that_makes_no_sense_is_refused() {
        let arm = NativeFenceSignaled {
            signaled_native_fence_count: 2,
            signaled_native_fence_array: 8,
            ..Raw::ZERO
        };
        assert_eq!(arm.to_data(0, &[1]), Err(Status::INVALID_PARAMETER));
        assert_eq!(arm.to_data(8, &[1, 2]), Err(Status::INVALID_PARAMETER));
        assert!(arm.to_data(3, &[1, 2]).is_ok());
    }

    // spec: UMS-051
    #[test]
    fn the_other_arms_stand_where_the_header_has_them() {
        let monitored = MonitoredFenceSignaled { node_ordinal: 1, engine_ordinal: 2 };
        assert_bytes(&monitored.to_bytes(), 8, &[(0, 1), (4, 2)]);
        let suspended = SuspendContextCompleted { context: 1, context_suspend_fence: 2 };
        assert_bytes(&suspended.to_bytes(), 16, &[(0, 1), (8, 2)]);
        let change = EngineStateChange { node_ordinal: 1, engine_ordinal: 2, new_state: 3 };
        assert_bytes(&change.to_bytes(), 12, &[(0, 1), (4, 2), (8, 3)]);
        let states = [EngineState::Active, EngineState::TransitionToF1, EngineState::Hung];
        assert_eq!([0, 1, 2].map(EngineState::try_from), states.map(Ok));
        assert_eq!(EngineState::try_from(3), Err(Status::INVALID_PARAMETER));
    }

    // spec: HS-014
    #[test]
    fn a_fault_of_a_queue_carries_all_its_fields() {
        let fault = PageFault {
            gpu_va: 0x22,
            flags: PageFaultFlags::WRITE | PageFaultFlags::IOMMU,
            primitive_api_sequence_number: 0x33,
            pipeline_stage: RenderPipelineStage::OutputMerger,
            bind_table_entry: 0x55,
            page_table_level: 3,
            error_code: FaultErrorCode(0x77),
            what: "",
        };
        let data = InterruptData::HwQueuePageFaulted {
            node_ordinal: 0x66,
            engine_ordinal: 0x44,
            faulted: OsHandle(0x99),
            faulted_fence_id: 0x11,
            slot: 0,
            fault,
        };
        let arm = HwQueuePageFaulted::of(&data).unwrap();
        let set = [
            (0, 0x11),
            (8, 0x22),
            (16, 0x33),
            (24, 0x99),
            (32, 0x66),
            (36, 0x44),
            (40, 7),
            (44, 0x55),
            (48, 0x21),
            (52, 3),
            (56, 0x77),
        ];
        assert_bytes(&arm.to_bytes(), 64, &set);
        assert_eq!(arm.to_data(), Ok(data));
        let bad_flags = HwQueuePageFaulted { page_fault_flags: 0x100, ..arm };
        let bad_stage = HwQueuePageFaulted { faulted_pipeline_stage: 8, ..arm };
        assert_eq!(bad_flags.to_data(), Err(Status::INVALID_PARAMETER));
        assert_eq!(bad_stage.to_data(), Err(Status::INVALID_PARAMETER));
        let other = InterruptData::MonitoredFenceSignaled { node_ordinal: 0, engine_ordinal: 0 };
        assert_eq!(HwQueuePageFaulted::of(&other), None);
    }
}
