//! d3dkmddi.h: argument structures of the DDIs and callbacks, numbers of interrupts and features.
//! In several structures one field has the kernel's handle on input and the driver's on output.

use crate::d3dukmdt::{IsFeatureEnabledResult, NATIVE_FENCE_PRIVATE_DATA_BYTES};

/// Query type of [`NativeFenceCaps`].
#[doc(alias = "DXGKQAITYPE_NATIVE_FENCE_CAPS")]
pub const NATIVE_FENCE_CAPS_QUERY: u32 = 37;

/// Query type of [`UserModeSubmissionCaps`].
#[doc(alias = "DXGKQAITYPE_USERMODESUBMISSION_CAPS")]
pub const USER_MODE_SUBMISSION_CAPS_QUERY: u32 = 38;

/// Lowest of the four bits of HwQueuePacketCap in the word of scheduling capabilities.
#[doc(alias = "DXGK_VIDSCHCAPS")]
pub const HW_QUEUE_PACKET_CAP_SHIFT: u32 = 7;

published! {
    /// The driver's requirements on storage and mapping of native fences.
    NativeFenceCaps = "DXGK_NATIVE_FENCE_CAPS", 56 bytes {
        /// Bytes between two fences packed into a page.
        0 "MonitoredValueStride" monitored_value_stride: u32,
        /// 1: map both values into the system process, too.
        4 "MapToGpuSystemProcess" map_to_gpu_system_process: u8,
        /// Lowest GPU address for them; 0 for no bound.
        8 "MinimumAddress" minimum_address: u64,
        /// Highest GPU address for them; 0 for no bound.
        16 "MaximumAddress" maximum_address: u64,
        /// Zero.
        24 "Reserved" reserved: [u8; 28],
    }

    /// The driver's doorbell capabilities.
    UserModeSubmissionCaps = "DXGK_USERMODESUBMISSION_CAPS", 28 bytes {
        /// See [`UserModeSubmissionCapsFlags`].
        0 "Flags" flags: u32,
        /// Bytes of a doorbell.
        4 "DoorbellSizeInBytes" doorbell_size_bytes: u32,
        /// Bytes of a secondary doorbell.
        8 "SecondaryDoorbellSizeInBytes" secondary_doorbell_size_bytes: u32,
        /// Zero.
        12 "Reserved" reserved: [u8; 16],
    }
}

bitflags::bitflags! {
    /// Bits of [`UserModeSubmissionCaps`]; the others are reserved.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct UserModeSubmissionCapsFlags: u32 {
        /// There are secondary doorbells.
        #[doc(alias = "SecondaryDoorbellSupported")]
        const SECONDARY_DOORBELL_SUPPORTED = 1;
    }
}

published! {
    /// Makes a doorbell object.
    CreateDoorbell = "DXGKARG_CREATEDOORBELL", 56 bytes {
        /// The driver's handle of the queue. In.
        0 "hHwQueue" hw_queue: u64,
        /// In: the kernel's handle. Out: the driver's.
        8 "hDoorbell" doorbell: u64,
        /// Bytes of private driver data, at most 16. In.
        16 "PrivateDriverDataSize" private_driver_data_size: u32,
        /// Its address. In; the data behind it out.
        24 "PrivateDriverData" private_driver_data: u64,
        /// The driver's handle of the ring's slots. In.
        32 "hRingBuffer" ring_buffer: u64,
        /// The driver's handle of the control area; 0 for none. In.
        40 "hRingBufferControl" ring_buffer_control: u64,
        /// See [`CreateDoorbellFlags`]. In.
        48 "Flags" flags: u32,
    }

    /// Connects a doorbell.
    ConnectDoorbell = "DXGKARG_CONNECTDOORBELL", 40 bytes {
        /// The driver's handle. In.
        0 "hDoorbell" doorbell: u64,
        /// See [`ConnectDoorbellFlags`]. In.
        8 "Flags" flags: u32,
        /// The doorbell, kernel CPU address. Out.
        16 "KernelCpuVirtualAddress" kernel_cpu_va: u64,
        /// The secondary one; 0 for none. Out.
        24 "SecondaryKernelCpuVirtualAddress" secondary_kernel_cpu_va: u64,
        /// CONNECTED or CONNECTED_NOTIFY. Out.
        32 "Status" status: u32,
    }

    /// Disconnects a doorbell.
    DisconnectDoorbell = "DXGKARG_DISCONNECTDOORBELL", 16 bytes {
        /// The driver's handle.
        0 "hDoorbell" doorbell: u64,
        /// Reserved.
        8 "Flags" flags: u32,
    }

    /// Frees the object.
    DestroyDoorbell = "DXGKARG_DESTROYDOORBELL", 8 bytes {
        /// The driver's handle.
        0 "hDoorbell" doorbell: u64,
    }

    /// Notifies the driver of new work.
    NotifyWorkSubmission = "DXGKARG_NOTIFYWORKSUBMISSION", 16 bytes {
        /// The driver's handle of the queue.
        0 "hHwQueue" hw_queue: u64,
        /// Reserved.
        8 "Flags" flags: u32,
    }

    /// The driver disconnects the doorbell of a queue.
    DisconnectDoorbellCallback = "DXGKARGCB_DISCONNECTDOORBELL", 24 bytes {
        /// The kernel's handle of the queue.
        0 "hHwQueue" hw_queue: u64,
        /// The kernel's handle of the doorbell.
        8 "hDoorbell" doorbell: u64,
        /// Reserved.
        16 "Flags" flags: u32,
        /// DISCONNECTED_RETRY or DISCONNECTED_ABORT.
        20 "DisconnectReason" disconnect_reason: u32,
    }
}

bitflags::bitflags! {
    /// Flags of a new doorbell; the others are reserved.
    #[doc(alias = "DXGK_CREATEDOORBELL_FLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CreateDoorbellFlags: u32 {
        /// The queue's doorbell is made again because its ring grows.
        #[doc(alias = "ResizeRingBufferOperation")]
        const RESIZE_RING_BUFFER_OPERATION = 1;
    }
}

bitflags::bitflags! {
    /// Flags of a connect; the others are reserved.
    #[doc(alias = "DXGK_CONNECTDOORBELL_FLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ConnectDoorbellFlags: u32 {
        /// A second address is needed.
        #[doc(alias = "RequireSecondaryAddress")]
        const REQUIRE_SECONDARY_ADDRESS = 1;
    }
}

/// Owner of a feature: the upper four bits of its id.
#[doc(alias = "DXGK_FEATURE_CATEGORY")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum FeatureCategory {
    /// Drivers.
    Driver = 0,
    /// The operating system.
    Os = 1,
    /// Corrections.
    BugFix = 2,
    /// Tests.
    Test = 3,
}

/// Numbers of published features.
pub mod feature {
    /// DXGK_FEATURE_HWSCH
    pub const HWSCH: u32 = 0;
    /// DXGK_FEATURE_HWFLIPQUEUE
    pub const HW_FLIP_QUEUE: u32 = 1;
    /// DXGK_FEATURE_LDA_GPUPV
    pub const LDA_GPUPV: u32 = 2;
    /// DXGK_FEATURE_KMD_SIGNAL_CPU_EVENT
    pub const KMD_SIGNAL_CPU_EVENT: u32 = 3;
    /// DXGK_FEATURE_USER_MODE_SUBMISSION
    pub const USER_MODE_SUBMISSION: u32 = 4;
    /// DXGK_FEATURE_SHARE_BACKING_STORE_WITH_KMD
    pub const SHARE_BACKING_STORE_WITH_KMD: u32 = 5;
    /// DXGK_FEATURE_PAGE_BASED_MEMORY_MANAGER
    pub const PAGE_BASED_MEMORY_MANAGER: u32 = 32;
    /// DXGK_FEATURE_KERNEL_MODE_TESTING
    pub const KERNEL_MODE_TESTING: u32 = 33;
    /// DXGK_FEATURE_64K_PT_DEMOTION_FIX
    pub const PT_DEMOTION_FIX_64K: u32 = 34;
    /// DXGK_FEATURE_GPUPV_PRESENT_HWQUEUE
    pub const GPUPV_PRESENT_HW_QUEUE: u32 = 35;
    /// DXGK_FEATURE_GPUVAIOMMU
    pub const GPU_VA_IOMMU: u32 = 36;
    /// DXGK_FEATURE_NATIVE_FENCE
    pub const NATIVE_FENCE: u32 = 37;
    /// DXGK_FEATURE_SYNC_PRESENT_RENDER_HWQ_ONLY
    pub const SYNC_PRESENT_RENDER_HWQ_ONLY: u32 = 41;
    /// DXGK_FEATURE_PANEL_BUFFER_CONTROL
    pub const PANEL_BUFFER_CONTROL: u32 = 46;

    /// All of them.
    pub const ALL: [u32; 14] = [
        HWSCH,
        HW_FLIP_QUEUE,
        LDA_GPUPV,
        KMD_SIGNAL_CPU_EVENT,
        USER_MODE_SUBMISSION,
        SHARE_BACKING_STORE_WITH_KMD,
        PAGE_BASED_MEMORY_MANAGER,
        KERNEL_MODE_TESTING,
        PT_DEMOTION_FIX_64K,
        GPUPV_PRESENT_HW_QUEUE,
        GPU_VA_IOMMU,
        NATIVE_FENCE,
        SYNC_PRESENT_RENDER_HWQ_ONLY,
        PANEL_BUFFER_CONTROL,
    ];
}

published! {
    /// Storage of fences as a standard allocation, for DxgkDdiGetStandardAllocationDriverData.
    FenceStorageSurface = "D3DKMDT_FENCESTORAGESURFACEDATA", 120 bytes {
        /// Physical adapter.
        0 "PhysicalAdapterIndex" physical_adapter_index: u32,
        /// See [`FenceStorageValueType`].
        4 "FenceStorageValueType" value_type: u32,
        /// See `NativeFenceType`.
        8 "FenceStorageType" fence_type: u32,
        /// Not used.
        12 "PrivateDriverDataSize" private_driver_data_size: u32,
        /// Not used.
        16 "pPrivateDriverData" private_driver_data: u64,
        /// Reserved.
        24 "Flags" flags: u32,
        /// Zero.
        28 "Reserved" reserved: u32,
        /// The driver's DXGK_ALLOCATIONINFO. Out.
        32 "AllocationInfo" allocation_info: [u64; 11],
    }
}

/// The standard allocation type of fence storage, for DxgkDdiGetStandardAllocationDriverData.
#[doc(alias = "D3DKMDT_STANDARDALLOCATION_FENCESTORAGE")]
pub const FENCE_STORAGE_ALLOCATION: u32 = 6;

/// Value of a fence that the storage holds.
#[doc(alias = "D3DKMDT_FENCESTORAGEVALUETYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum FenceStorageValueType {
    /// CurrentValue.
    CurrentValue = 0,
    /// MonitoredValue.
    MonitoredValue = 1,
}

published! {
    /// New MonitoredValues.
    UpdateMonitoredValues = "DXGKARG_UPDATEMONITOREDVALUES", 64 bytes {
        /// Address of the driver's handles of the fences.
        0 "NativeFenceArray" native_fence_array: u64,
        /// Address of the new values.
        8 "UpdatedValueArray" updated_value_array: u64,
        /// Address of the cells' addresses.
        16 "MonitoredValueKernelCpuVa" monitored_value_kernel_cpu_va: u64,
        /// Number of each.
        24 "NumFences" num_fences: u32,
        /// Reserved.
        28 "Flags" flags: u32,
        /// Zero.
        32 "Reserved" reserved: [u8; 28],
    }

    /// New CurrentValues.
    UpdateCurrentValuesFromCpu = "DXGKARG_UPDATECURRENTVALUESFROMCPU", 64 bytes {
        /// Address of the driver's handles of the fences.
        0 "NativeFenceArray" native_fence_array: u64,
        /// Address of the new values.
        8 "UpdatedValueArray" updated_value_array: u64,
        /// Address of the cells' addresses.
        16 "CurrentValueKernelCpuVa" current_value_kernel_cpu_va: u64,
        /// Number of each.
        24 "NumFences" num_fences: u32,
        /// See [`UpdateCurrentValuesFlags`].
        28 "Flags" flags: u32,
        /// Zero.
        32 "Reserved" reserved: [u8; 28],
    }
}

bitflags::bitflags! {
    /// How CurrentValues change. The other bits are reserved.
    #[doc(alias = "DXGK_UPDATECURRENTVALUESFROMCPU_FLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct UpdateCurrentValuesFlags: u32 {
        /// The parent device is in error.
        #[doc(alias = "AlwaysSignaled")]
        const ALWAYS_SIGNALED = 1;
        /// The values have changed already.
        #[doc(alias = "NotificationOnly")]
        const NOTIFICATION_ONLY = 1 << 1;
    }
}

published! {
    /// Makes a hardware queue.
    CreateHwQueue = "DXGKARG_CREATEHWQUEUE", 48 bytes {
        /// In: the kernel's handle. Out: the driver's.
        0 "hHwQueue" hw_queue: u64,
        /// See `CreateHwQueueFlags`. In.
        8 "Flags" flags: u32,
        /// Bytes of private driver data. In.
        12 "PrivateDriverDataSize" private_driver_data_size: u32,
        /// Its address. In.
        16 "pPrivateDriverData" private_driver_data: u64,
        /// The progress fence: with NativeProgressFence the driver's handle of a native fence, else
        /// the kernel's. In.
        24 "hHwQueueProgressFence" progress_fence: u64,
        /// The progress fence's value, kernel CPU address. In.
        32 "HwQueueProgressFenceCPUVirtualAddress" progress_fence_cpu_va: u64,
        /// The progress fence's value, process GPU address. In.
        40 "HwQueueProgressFenceGPUVirtualAddress" progress_fence_gpu_va: u64,
    }

    /// Submits a command buffer to a kernel-mode hardware queue.
    SubmitCommandToHwQueue = "DXGKARG_SUBMITCOMMANDTOHWQUEUE", 64 bytes {
        /// The driver's handle of the queue.
        0 "hHwQueue" hw_queue: u64,
        /// The progress value of its completion.
        8 "HwQueueProgressFenceId" progress_fence_id: u64,
        /// Process GPU address of the commands.
        16 "DmaBufferVirtualAddress" dma_buffer_gpu_va: u64,
        /// Size in bytes.
        24 "DmaBufferSize" dma_buffer_size: u32,
        /// Bytes of private driver data.
        28 "DmaBufferPrivateDataSize" dma_buffer_private_data_size: u32,
        /// Its address; valid only during the call.
        32 "pDmaBufferPrivateData" dma_buffer_private_data: u64,
        /// Reserved.
        40 "Flags" flags: u32,
        /// The progress fence's value, process GPU address.
        48 "HwQueueProgressFenceGpuVa" progress_fence_gpu_va: u64,
        /// The progress fence's value, kernel CPU address.
        56 "HwQueueProgressFenceCpuVa" progress_fence_cpu_va: u64,
    }
}

published! {
    /// Makes a context for hardware queues.
    CreateHwContext = "DXGKARG_CREATEHWCONTEXT", 40 bytes {
        /// In: the kernel's handle. Out: the driver's.
        0 "hHwContext" hw_context: u64,
        /// Node ordinal. In.
        8 "NodeOrdinal" node_ordinal: u32,
        /// Physical adapters, one bit each. In.
        12 "EngineAffinity" engine_affinity: u32,
        /// Reserved. In.
        16 "Flags" flags: u32,
        /// Bytes of private data of the user-mode driver. In.
        20 "PrivateDriverDataSize" private_driver_data_size: u32,
        /// Its address. In.
        24 "pPrivateDriverData" private_driver_data: u64,
        /// Capabilities of the context. Out.
        32 "ContextCaps" context_caps: u32,
    }

    /// Takes a context's hardware queues off the run list.
    SuspendContext = "DXGKARG_SUSPENDCONTEXT", 16 bytes {
        /// The driver's handle.
        0 "hContext" context: u64,
        /// Returned by the interrupt if the suspension is pending.
        8 "contextSuspendFence" context_suspend_fence: u64,
    }

    /// Puts them back.
    ResumeContext = "DXGKARG_RESUMECONTEXT", 8 bytes {
        /// The driver's handle.
        0 "hContext" context: u64,
    }

    /// Resets an engine of hardware queues.
    ResetHwEngine = "DXGKARG_RESETHWENGINE", 8 bytes {
        /// Node ordinal.
        0 "NodeOrdinal" node_ordinal: u32,
        /// Physical adapter.
        4 "EngineOrdinal" engine_ordinal: u32,
    }

    /// Lets the engine run again.
    ResumeHwEngine = "DXGKARG_RESUMEHWENGINE", 8 bytes {
        /// Node ordinal.
        0 "NodeOrdinal" node_ordinal: u32,
        /// Physical adapter.
        4 "EngineOrdinal" engine_ordinal: u32,
    }

    /// Priority of a context. Times are in units of 100 ns.
    SetContextSchedulingProperties = "DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES", 48 bytes {
        /// The driver's handle.
        0 "hContext" context: u64,
        /// 0 idle to 3 realtime.
        8 "priorityBand" priority_band: u32,
        /// From 0 to 31, in the band of realtime.
        12 "realtimeBandPriorityLevel" realtime_band_priority_level: i32,
        /// From -7 to 7.
        16 "inProcessPriority" in_process_priority: i32,
        /// Quantum.
        24 "quantum" own_quantum: u64,
        /// Grace period against equal contexts.
        32 "gracePeriodSamePriority" grace_period_same_priority: u64,
        /// Grace period against lower contexts.
        40 "gracePeriodLowerPriority" grace_period_lower_priority: u64,
    }

    /// Rules of the priority bands. Times are in units of 100 ns.
    SetupPriorityBands = "DXGKARG_SETUPPRIORITYBANDS", 104 bytes {
        /// By band.
        0 "gracePeriodForBand" grace_period_for_band: [u64; 4],
        /// By band.
        32 "processQuantumForBand" process_quantum_for_band: [u64; 4],
        /// By band.
        64 "processGracePeriodForBand" process_grace_period_for_band: [u64; 4],
        /// Percent.
        96 "targetNormalBandPercentage" target_normal_band_percentage: u32,
    }

    /// A context lost work in a reset.
    InvalidateHwContextCallback = "DXGKARGCB_INVALIDATEHWCONTEXT", 24 bytes {
        /// DeviceHandle.
        0 "hAdapter" adapter: u64,
        /// The kernel's handle of the context.
        8 "hHwContext" hw_context: u64,
        /// Bit 0: the context is not the cause (CollateralDamage).
        16 "Flags" flags: u32,
    }

    /// Both clocks at one moment.
    CalibrateGpuClock = "DXGKARG_CALIBRATEGPUCLOCK", 32 bytes {
        /// Ticks of the GPU's clock in a second. Out.
        0 "GpuFrequency" gpu_frequency: u64,
        /// The GPU's clock. Out.
        8 "GpuClockCounter" gpu_clock_counter: u64,
        /// The performance counter. Out.
        16 "CpuClockCounter" cpu_clock_counter: u64,
        /// Reserved.
        24 "Flags" flags: u32,
    }
}

/// The version of the feature interfaces. The number is not published.
#[doc(alias = "DXGK_FEATURE_INTERFACE_VERSION_1")]
pub const FEATURE_INTERFACE_VERSION: u16 = 1;

/// The number of the features' service, for DxgkCbQueryServices. The number is derived.
#[doc(alias = "DxgkServicesFeature")]
pub const SERVICES_FEATURE: u32 = 7;

/// GUID_WDDM_INTERFACE_FEATURE, which the headers here define: the number is not published.
pub const FEATURE_INTERFACE_GUID: [u32; 4] = [0x7469_6465, 0x4665_6761, 0x7275_7461, 0x3165_7365];

published! {
    /// Queries an interface of the driver (DxgkDdiQueryInterface).
    QueryInterface = "QUERY_INTERFACE", 32 bytes {
        /// Address of the GUID. In.
        0 "InterfaceType" interface_type: u64,
        /// Bytes of the interface. In.
        8 "Size" size: u16,
        /// Its version. In.
        10 "Version" version: u16,
        /// Where it goes.
        16 "Interface" interface: u64,
        /// More.
        24 "InterfaceSpecificData" interface_specific_data: u64,
    }

    /// The kernel's functions of features.
    KernelFeatureInterface = "DXGK_FEATURE_INTERFACE", 48 bytes {
        /// Bytes. In.
        0 "Size" size: u16,
        /// Version. In.
        2 "Version" version: u16,
        /// First argument of the functions.
        8 "Context" context: u64,
        /// Takes a reference.
        16 "InterfaceReference" interface_reference: u64,
        /// Drops a reference.
        24 "InterfaceDereference" interface_dereference: u64,
        /// Takes [`IsFeatureEnabled2`].
        32 "IsFeatureEnabled" is_feature_enabled: u64,
        /// Takes [`QueryFeatureInterfaceCallback`].
        40 "QueryFeatureInterface" query_feature_interface: u64,
    }

    /// The driver's functions of features.
    DriverFeatureInterface = "DXGKDDI_FEATURE_INTERFACE", 48 bytes {
        /// Bytes. In.
        0 "Size" size: u16,
        /// Version. In.
        2 "Version" version: u16,
        /// The driver's context.
        8 "Context" context: u64,
        /// Takes a reference.
        16 "InterfaceReference" interface_reference: u64,
        /// Drops a reference.
        24 "InterfaceDereference" interface_dereference: u64,
        /// Takes [`QueryFeatureSupport`].
        32 "QueryFeatureSupport" query_feature_support: u64,
        /// Takes [`QueryFeatureInterface`].
        40 "QueryFeatureInterface" query_feature_interface: u64,
    }

    /// Which versions of a feature the driver supports.
    QueryFeatureSupport = "DXGKARG_QUERYFEATURESUPPORT", 12 bytes {
        /// The feature. In.
        0 "FeatureId" feature_id: u32,
        /// Lowest version. In: the kernel's. Out: the driver's.
        4 "MinSupportedVersion" min_supported_version: u16,
        /// Highest version. In: the kernel's. Out: the driver's.
        6 "MaxSupportedVersion" max_supported_version: u16,
        /// In.
        8 "AllowExperimental" allow_experimental: u8,
        /// Out.
        9 "SupportedByDriver" supported_by_driver: u8,
        /// Out.
        10 "SupportedOnCurrentConfig" supported_on_current_config: u8,
    }

    /// The driver's table of a feature.
    QueryFeatureInterface = "DXGKARG_QUERYFEATUREINTERFACE", 16 bytes {
        /// The feature.
        0 "FeatureId" feature_id: u32,
        /// Its version.
        4 "Version" version: u16,
        /// Bytes of the table.
        6 "InterfaceSize" interface_size: u16,
        /// Where the table goes.
        8 "Interface" interface: u64,
    }

    /// The kernel's table of a feature.
    QueryFeatureInterfaceCallback = "DXGKARGCB_QUERYFEATUREINTERFACE", 16 bytes {
        /// The feature.
        0 "FeatureId" feature_id: u32,
        /// Its version.
        4 "Version" version: u16,
        /// Bytes of the table.
        6 "InterfaceSize" interface_size: u16,
        /// Where the table goes.
        8 "Interface" interface: u64,
    }

    /// Whether a feature is enabled.
    IsFeatureEnabled2 = "DXGKARGCB_ISFEATUREENABLED2", 12 bytes {
        /// The feature. In.
        0 "FeatureId" feature_id: u32,
        /// Reserved. In.
        4 "Flags" flags: u32,
        /// Out.
        8 "Result" result: IsFeatureEnabledResult,
    }

    /// The same without the feature interface.
    IsFeatureEnabled = "DXGKARGCB_ISFEATUREENABLED", 16 bytes {
        /// DeviceHandle. In.
        0 "DeviceHandle" device_handle: u64,
        /// The feature. In.
        8 "FeatureId" feature_id: u32,
        /// Out.
        12 "Enabled" enabled: u8,
    }
}

published! {
    /// Arm of [`InterruptType::NativeFenceSignaled`].
    NativeFenceSignaled = "DXGKARGCB_NOTIFY_INTERRUPT_DATA::NativeFenceSignaled", 32 bytes {
        /// Node ordinal.
        0 "NodeOrdinal" node_ordinal: u32,
        /// Physical adapter.
        4 "EngineOrdinal" engine_ordinal: u32,
        /// Number of fences.
        8 "SignaledNativeFenceCount" signaled_native_fence_count: u32,
        /// Address of the kernel's handles of them; NULL when any fence may have been signalled.
        16 "pSignaledNativeFenceArray" signaled_native_fence_array: u64,
        /// The driver's handle of the queue whose logs have the entries; NULL for all queues of
        /// the engine.
        24 "hHWQueue" hw_queue: u64,
    }

    /// Arm of [`InterruptType::HwQueuePageFaulted`].
    HwQueuePageFaulted = "DXGKARGCB_NOTIFY_INTERRUPT_DATA::HwQueuePageFaulted", 64 bytes {
        /// The progress value of the command buffer that faulted.
        0 "FaultedFenceId" faulted_fence_id: u64,
        /// Faulting address.
        8 "FaultedVirtualAddress" faulted_virtual_address: u64,
        /// Number of the primitive, counted by the API; 0 when unknown.
        16 "FaultedPrimitiveAPISequenceNumber" faulted_primitive_api_sequence_number: u64,
        /// A union, selected by the flags: the kernel's handle of the queue, of the context, or
        /// of the process.
        24 "FaultedHwQueue" faulted: u64,
        /// Node ordinal.
        32 "NodeOrdinal" node_ordinal: u32,
        /// Physical adapter.
        36 "EngineOrdinal" engine_ordinal: u32,
        /// Stage of the pipeline; 0 when unknown.
        40 "FaultedPipelineStage" faulted_pipeline_stage: u32,
        /// Entry of the bind table; 0 when unknown.
        44 "FaultedBindTableEntry" faulted_bind_table_entry: u32,
        /// See `PageFaultFlags`.
        48 "PageFaultFlags" page_fault_flags: u32,
        /// Page table level at which translation stopped; the last level is 0.
        52 "PageTableLevel" page_table_level: u32,
        /// See `FaultErrorCode`.
        56 "FaultErrorCode" fault_error_code: u32,
    }

    /// Arm of [`InterruptType::MonitoredFenceSignaled`].
    MonitoredFenceSignaled = "DXGKARGCB_NOTIFY_INTERRUPT_DATA::MonitoredFenceSignaled", 8 bytes {
        /// Node ordinal.
        0 "NodeOrdinal" node_ordinal: u32,
        /// Physical adapter.
        4 "EngineOrdinal" engine_ordinal: u32,
    }

    /// Arm of [`InterruptType::SuspendContextCompleted`].
    SuspendContextCompleted = "DXGKARGCB_NOTIFY_INTERRUPT_DATA::SuspendContextCompleted", 16 bytes {
        /// The kernel's handle of the context.
        0 "hContext" context: u64,
        /// The request that completed.
        8 "ContextSuspendFence" context_suspend_fence: u64,
    }

    /// Arm of [`InterruptType::GpuEngineStateChange`].
    EngineStateChange = "DXGKARGCB_NOTIFY_INTERRUPT_DATA::EngineStateChange", 12 bytes {
        /// Node ordinal.
        0 "NodeOrdinal" node_ordinal: u32,
        /// Physical adapter.
        4 "EngineOrdinal" engine_ordinal: u32,
        /// See [`EngineState`].
        8 "NewState" new_state: u32,
    }
}

/// Kind of interrupt.
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

bitflags::bitflags! {
    /// Flags of an interrupt's data; the others are reserved.
    #[doc(alias = "DXGKCB_NOTIFY_INTERRUPT_DATA_FLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct NotifyInterruptFlags: u32 {
        /// The mask of physical adapters is valid.
        const VALID_PHYSICAL_ADAPTER_MASK = 1;
        /// A flip was completed at a horizontal blank.
        const HSYNC_FLIP_COMPLETION = 1 << 1;
        /// Waits for monitored fences are evaluated, too.
        #[doc(alias = "EvaluateLegacyMonitoredFences")]
        const EVALUATE_LEGACY_MONITORED_FENCES = 1 << 2;
    }
}

/// State of an engine.
#[doc(alias = "DXGK_ENGINE_STATE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum EngineState {
    /// Working.
    Active = 0,
    /// Idle; may be powered down.
    TransitionToF1 = 1,
    /// Makes no progress.
    Hung = 2,
}

published! {
    /// Tells where one log of a hardware queue is from now on; its header says which of the two it
    /// is.
    SetNativeFenceLogBuffer = "DXGKARG_SETNATIVEFENCELOGBUFFER", 80 bytes {
        /// The driver's handle of the queue.
        0 "hHwQueue" hw_queue: u64,
        /// Number of entries.
        8 "NumberOfEntries" number_of_entries: u32,
        /// The header, kernel CPU address.
        16 "LogBufferCpuVa" log_buffer_cpu_va: u64,
        /// The header, process GPU address.
        24 "LogBufferGpuVa" log_buffer_gpu_va: u64,
        /// The header, GPU address of the system process.
        32 "LogBufferSystemProcessGpuVa" log_buffer_system_process_gpu_va: u64,
        /// Reserved.
        40 "Flags" flags: u32,
        /// Zero.
        44 "Reserved" reserved: [u8; 32],
    }

    /// Makes the entries of all logs of the named queues readable.
    UpdateNativeFenceLogs = "DXGKARG_UPDATENATIVEFENCELOGS", 56 bytes {
        /// Number of queues.
        0 "NumberOfQueues" number_of_queues: u32,
        /// Where the driver's handles of them are.
        8 "hHWQueue" hw_queues: u64,
        /// Reserved.
        16 "Flags" flags: u32,
        /// Zero.
        20 "Reserved" reserved: [u8; 32],
    }
}

published! {
    /// Makes a native fence on an adapter.
    CreateNativeFence = "DXGKARG_CREATENATIVEFENCE", 136 bytes {
        /// In: the kernel's handle. Out: the driver's.
        0 "hGlobalNativeFence" global_native_fence: u64,
        /// See `NativeFenceType`. In.
        8 "Type" fence_type: u32,
        /// CurrentValue in the system process's GPU address space; 0 unless the caps ask for it.
        /// In.
        16 "CurrentValueSystemProcessGpuVa" current_value_system_process_gpu_va: u64,
        /// MonitoredValue in the system process's GPU address space; 0 unless the caps ask for it.
        /// In.
        24 "MonitoredValueSystemProcessGpuVa" monitored_value_system_process_gpu_va: u64,
        /// Private driver data, in spite of its name the bytes themselves. In and out.
        32 "pPrivateDriverData" private_driver_data: [u8; NATIVE_FENCE_PRIVATE_DATA_BYTES],
        /// Reserved.
        96 "Flags" flags: u32,
        /// Zero.
        100 "Reserved" reserved: [u8; 32],
    }

    /// Opens an instance of a native fence for a device.
    OpenNativeFence = "DXGKARG_OPENNATIVEFENCE", 80 bytes {
        /// The driver's handle of the fence. In.
        0 "hGlobalNativeFence" global_native_fence: u64,
        /// In: the kernel's handle of the instance. Out: the driver's.
        8 "hLocalNativeFence" local_native_fence: u64,
        /// The driver's handle of the device. In.
        16 "hDevice" device: u64,
        /// CurrentValue, process GPU address. In.
        24 "CurrentValueGpuVa" current_value_gpu_va: u64,
        /// MonitoredValue, process GPU address. In.
        32 "MonitoredValueGpuVa" monitored_value_gpu_va: u64,
        /// Reserved.
        40 "Flags" flags: u32,
        /// Zero.
        44 "Reserved" reserved: [u8; 32],
    }

    /// Closes an instance.
    CloseNativeFence = "DXGKARG_CLOSENATIVEFENCE", 48 bytes {
        /// The driver's handle of the instance.
        0 "hLocalNativeFence" local_native_fence: u64,
        /// Reserved.
        8 "Flags" flags: u32,
        /// Zero.
        12 "Reserved" reserved: [u8; 32],
    }

    /// Destroys a fence, after its last instance was closed.
    DestroyNativeFence = "DXGKARG_DESTROYNATIVEFENCE", 48 bytes {
        /// The driver's handle of the fence.
        0 "hGlobalNativeFence" global_native_fence: u64,
        /// Reserved.
        8 "Flags" flags: u32,
        /// Zero.
        12 "Reserved" reserved: [u8; 32],
    }
}
