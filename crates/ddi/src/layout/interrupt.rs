//! Owns the numbers of interrupts, the arms of their data that this contract speaks of, and the engine's states.

use crate::{DriverHandle, InterruptData, OsHandle, Status};
use tidegate_d3dukmdt::layout;

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

bitflags::bitflags! {
    /// What a page fault was; it also says which handle of the faulted one is valid.
    #[doc(alias = "DXGK_PAGE_FAULT_FLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct PageFaultFlags: u32 {
        /// A store.
        const WRITE = 1;
        /// The fence id, and with it the queue, is unknown.
        const FENCE_INVALID = 1 << 1;
        /// Only a reset of the adapter helps.
        const ADAPTER_RESET_REQUIRED = 1 << 2;
        /// Only a reset of the engine helps.
        const ENGINE_RESET_REQUIRED = 1 << 3;
        /// The hardware is broken.
        const FATAL_HARDWARE_ERROR = 1 << 4;
        /// The system's address translation refused it, not the GPU's.
        const IOMMU = 1 << 5;
        /// The context is known.
        const HW_CONTEXT_VALID = 1 << 6;
        /// The process is known.
        const PROCESS_HANDLE_VALID = 1 << 7;
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
    /// The arm and the flags of `data`, whose fences were copied to `array`; `None` for data of another type.
    pub fn of(data: &InterruptData, array: u64) -> Option<(NativeFenceSignaled, NotifyInterruptFlags)> {
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
        flags.set(NotifyInterruptFlags::EVALUATE_LEGACY_MONITORED_FENCES, *evaluate_legacy_monitored_fences);
        let arm = NativeFenceSignaled {
            node_ordinal: *node_ordinal,
            engine_ordinal: *engine_ordinal,
            signaled_native_fence_count: fences.as_ref().map_or(0, |f| f.len() as u32),
            signaled_native_fence_array: if fences.is_some() { array } else { 0 },
            hw_queue: hw_queue.map_or(0, |q| q.0),
        };
        Some((arm, flags))
    }

    /// How many handles to copy in from the array: none where there is no array, whatever the count says.
    pub fn fence_count(&self) -> usize {
        if self.signaled_native_fence_array == 0 { 0 } else { self.signaled_native_fence_count as usize }
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

    fn data(fences: Option<Vec<OsHandle>>, hw_queue: Option<DriverHandle>, legacy: bool) -> InterruptData {
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
        assert_eq!(PageFaultFlags::all().bits(), 0xFF);
    }
}
