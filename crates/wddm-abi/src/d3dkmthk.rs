//! d3dkmthk.h: argument structures of the D3DKMT calls. Here are devices, queues, fences and
//! residency; `adapter` has adapters and queries, `memory` allocations and GPU addresses, `sync`
//! the older forms of synchronisation objects, and their names.

mod adapter;
mod memory;
mod sync;

pub use adapter::*;
pub use memory::*;
pub use sync::*;

use crate::Union64;
use crate::d3dukmdt::{
    IsFeatureEnabledResult, MAX_BROADCAST_CONTEXTS, MAX_WRITTEN_PRIMARIES,
    NATIVE_FENCE_PRIVATE_DATA_BYTES, NativeFenceInfo, NativeFenceMapping,
    SynchronizationObjectInfo2,
};
use serde::{Deserialize, Serialize};

/// Query type of [`Wddm31Caps`].
#[doc(alias = "KMTQAITYPE_WDDM_3_1_CAPS")]
pub const WDDM_3_1_CAPS_QUERY: u32 = 80;

public! {
    /// Arguments of a query about an adapter.
    QueryAdapterInfo = D3DKMT_QUERYADAPTERINFO {
        /// The adapter.
        hAdapter adapter: u32,
        /// Kind of query: a number of KMTQUERYADAPTERINFOTYPE.
        Type query_type: u32,
        /// Address of the answer.
        pPrivateDriverData data: u64,
        /// Size of the buffer for the answer, in bytes.
        PrivateDriverDataSize data_bytes: u32,
    }

    /// The adapter's support of WDDM 3.1 and 3.2 features.
    Wddm31Caps = D3DKMT_WDDM_3_1_CAPS {
        /// See [`Wddm31CapsFlags`].
        Anonymous flags: u32,
    }
}

published! {
    /// Arguments of a query for the state of a feature.
    IsFeatureEnabled = "D3DKMT_ISFEATUREENABLED", 12 bytes {
        /// The adapter. In.
        0 "hAdapter" adapter: u32,
        /// A number of DXGK_FEATURE_ID. In.
        4 "FeatureId" feature_id: u32,
        /// The state. Out.
        8 "Result" result: IsFeatureEnabledResult,
    }
}

bitflags::bitflags! {
    /// Bits of [`Wddm31Caps`].
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Wddm31CapsFlags: u32 {
        /// Native fences may be made.
        #[doc(alias = "NativeGpuFenceSupported")]
        const NATIVE_GPU_FENCE_SUPPORTED = 1;
    }
}

public! {
    /// Makes a context.
    CreateContextVirtual = D3DKMT_CREATECONTEXTVIRTUAL {
        /// The device. In.
        hDevice device: u32,
        /// Node ordinal. In.
        NodeOrdinal node_ordinal: u32,
        /// Physical adapter, as a bit. In.
        EngineAffinity engine_affinity: u32,
        /// See `CreateContextFlags`. In.
        Flags flags: u32,
        /// Address of the private driver data. In.
        pPrivateDriverData private_driver_data: u64,
        /// Bytes of it. In.
        PrivateDriverDataSize private_driver_data_size: u32,
        /// Which interface the context serves: a number of D3DKMT_CLIENTHINT, for reports. In.
        ClientHint client_hint: u32,
        /// Its handle. Out.
        hContext context: u32,
    }

    /// Submits a command buffer to one or several contexts.
    SubmitCommand = D3DKMT_SUBMITCOMMAND {
        /// Process GPU address of the commands.
        Commands commands: u64,
        /// Size in bytes.
        CommandLength command_length: u32,
        /// See [`SubmitCommandFlags`].
        Flags flags: u32,
        /// For presents that are redirected.
        PresentHistoryToken present_history_token: u64,
        /// Number of contexts.
        BroadcastContextCount broadcast_context_count: u32,
        /// Their handles.
        BroadcastContext broadcast_context: [u32; MAX_BROADCAST_CONTEXTS],
        /// Address of the private driver data.
        pPrivateDriverData private_driver_data: u64,
        /// Bytes of it.
        PrivateDriverDataSize private_driver_data_size: u32,
        /// Number of primaries written; at most 16.
        NumPrimaries num_primaries: u32,
        /// Their handles.
        WrittenPrimaries written_primaries: [u32; MAX_WRITTEN_PRIMARIES],
        /// Number of history buffers.
        NumHistoryBuffers num_history_buffers: u32,
        /// Address of their handles.
        HistoryBufferArray history_buffer_array: u64,
    }
}

published! {
    /// Puts a context into a band; see `Kernel::set_context_scheduling_priority`.
    SetContextSchedulingPriority = "D3DKMT_SETCONTEXTSCHEDULINGPRIORITY", 8 bytes {
        /// The context. In.
        0 "hContext" context: u32,
        /// In.
        4 "Priority" priority: i32,
    }

    /// Orders a context among the contexts of its process.
    SetContextInProcessSchedulingPriority = "D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY", 8 bytes {
        /// The context. In.
        0 "hContext" context: u32,
        /// In.
        4 "Priority" priority: i32,
    }
}

bitflags::bitflags! {
    /// Flags of a submission; the others are reserved.
    #[doc(alias = "D3DKMT_SUBMITCOMMANDFLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SubmitCommandFlags: u32 {
        /// Nothing is rendered.
        const NULL_RENDERING = 1;
        /// It carries a present that is redirected.
        const PRESENT_REDIRECTED = 1 << 1;
        /// The kernel-mode driver does not touch the buffer.
        const NO_KMD_ACCESS = 1 << 2;
    }
}

public! {
    /// Makes a device. The lists serve the packets of WDDM 1.x and stay empty.
    CreateDevice = D3DKMT_CREATEDEVICE {
        /// The adapter's handle, in the low half of a union with a kernel pointer. In.
        Anonymous adapter: u64,
        /// Bits of D3DKMT_CREATEDEVICEFLAGS. In.
        Flags flags: u32,
        /// Its handle. Out.
        hDevice device: u32,
        /// A command buffer. Out.
        pCommandBuffer command_buffer: u64,
        /// Its bytes. Out.
        CommandBufferSize command_buffer_size: u32,
        /// An allocation list. Out.
        pAllocationList allocation_list: u64,
        /// Its elements. Out.
        AllocationListSize allocation_list_size: u32,
        /// A patch location list. Out.
        pPatchLocationList patch_location_list: u64,
        /// Its elements. Out.
        PatchLocationListSize patch_location_list_size: u32,
    }

    /// Makes an allocation's memory visible to the process.
    Lock2 = D3DKMT_LOCK2 {
        /// The device. In.
        hDevice device: u32,
        /// The allocation. In.
        hAllocation allocation: u32,
        /// Reserved. In.
        Flags flags: u32,
        /// Its address. Out.
        pData data: u64,
    }

    /// Arguments of a query for the state of a device.
    GetDeviceState = D3DKMT_GETDEVICESTATE {
        /// The device. In.
        hDevice device: u32,
        /// See [`DeviceStateType`]. In.
        StateType state_type: u32,
        /// A union. For EXECUTION its low half is a number of D3DKMT_DEVICEEXECUTION_STATE, for
        /// PAGE_FAULT it is a [`DevicePageFaultState`]. Out.
        Anonymous state: [u64; 6],
    }

    /// Page fault that removed the device.
    DevicePageFaultState = D3DKMT_DEVICEPAGEFAULT_STATE {
        /// Number of the primitive, counted by the API; 0 when unknown.
        FaultedPrimitiveAPISequenceNumber faulted_primitive_api_sequence_number: u64,
        /// Stage of the pipeline; see `RenderPipelineStage`.
        FaultedPipelineStage faulted_pipeline_stage: u32,
        /// Entry of the bind table; 0 when unknown.
        FaultedBindTableEntry faulted_bind_table_entry: u32,
        /// See `PageFaultFlags`.
        PageFaultFlags page_fault_flags: u32,
        /// The driver's code; see `FaultErrorCode`.
        FaultErrorCode fault_error_code: u32,
        /// Faulting address, process GPU address.
        FaultedVirtualAddress faulted_virtual_address: u64,
    }
}

/// Kind of device state query.
#[doc(alias = "D3DKMT_DEVICESTATE_TYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum DeviceStateType {
    /// Execution state.
    Execution = 1,
    /// State of its presents.
    Present = 2,
    /// Whether it was reset.
    Reset = 3,
    /// State of the compositor's presents.
    PresentDwm = 4,
    /// Page fault that removed it.
    PageFault = 5,
    /// State of its present queue.
    PresentQueue = 6,
}

published! {
    /// Makes a doorbell.
    CreateDoorbell = "D3DKMT_CREATE_DOORBELL", 72 bytes {
        /// A queue made for user-mode submission. In.
        0 "hHwQueue" hw_queue: u32,
        /// The ring's slots, an allocation. In.
        4 "hRingBuffer" ring_buffer: u32,
        /// The control area, an allocation; 0 for none. In.
        8 "hRingBufferControl" ring_buffer_control: u32,
        /// See [`CreateDoorbellFlags`]. In.
        12 "Flags" flags: u32,
        /// Bytes of private driver data, at most 16. In.
        16 "PrivateDriverDataSize" private_driver_data_size: u32,
        /// Its address. In; the data behind it out.
        24 "PrivateDriverData" private_driver_data: u64,
        /// Process CPU address of the doorbell. Out.
        32 "DoorbellCPUVirtualAddress" doorbell_cpu_va: u64,
        /// A second one, process CPU address; 0 for none. Out.
        40 "DoorbellSecondaryCPUVirtualAddress" doorbell_secondary_cpu_va: u64,
        /// The status word, process CPU address, read-only. Out.
        48 "DoorbellStatusCPUVirtualAddress" doorbell_status_cpu_va: u64,
        /// Process CPU address of the last queued progress value, which the process stores. Out.
        56 "HwQueueProgressFenceLastQueuedValueCPUVirtualAddress" last_queued_value_cpu_va: u64,
        /// Its handle. Out.
        64 "hDoorbell" doorbell: u32,
    }

    /// Connects a doorbell.
    ConnectDoorbell = "D3DKMT_CONNECT_DOORBELL", 8 bytes {
        /// The doorbell.
        0 "hDoorbell" doorbell: u32,
        /// Reserved.
        4 "Flags" flags: u32,
    }

    /// Ends a doorbell.
    DestroyDoorbell = "D3DKMT_DESTROY_DOORBELL", 4 bytes {
        /// The doorbell.
        0 "hDoorbell" doorbell: u32,
    }

    /// Notifies the driver of new work after a ring.
    NotifyWorkSubmission = "D3DKMT_NOTIFY_WORK_SUBMISSION", 8 bytes {
        /// The doorbell.
        0 "hDoorbell" doorbell: u32,
        /// Reserved.
        4 "Flags" flags: u32,
    }
}

bitflags::bitflags! {
    /// Flags of a new doorbell; the others are reserved.
    #[doc(alias = "D3DKMT_CREATE_DOORBELL_FLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct CreateDoorbellFlags: u32 {
        /// A second address is needed.
        #[doc(alias = "RequireSecondaryCpuVA")]
        const REQUIRE_SECONDARY_CPU_VA = 1;
        /// A hint: the queue's doorbell is made again because its ring grows.
        #[doc(alias = "ResizeRingBufferOperation")]
        const RESIZE_RING_BUFFER_OPERATION = 1 << 1;
    }
}

public! {
    /// Makes a hardware context.
    CreateHwContext = D3DKMT_CREATEHWCONTEXT {
        /// The device. In.
        hDevice device: u32,
        /// Node ordinal. In.
        NodeOrdinal node_ordinal: u32,
        /// Physical adapter, as a bit. In.
        EngineAffinity engine_affinity: u32,
        /// Reserved. In.
        Flags flags: u32,
        /// Bytes of private driver data. In.
        PrivateDriverDataSize private_driver_data_size: u32,
        /// Its address. In; the data behind it out.
        pPrivateDriverData private_driver_data: u64,
        /// Its handle. Out.
        hHwContext hw_context: u32,
    }

    /// Ends a hardware context.
    DestroyHwContext = D3DKMT_DESTROYHWCONTEXT {
        /// The context.
        hHwContext hw_context: u32,
    }

    /// Makes a hardware queue.
    CreateHwQueue = D3DKMT_CREATEHWQUEUE {
        /// The hardware context. In.
        hHwContext hw_context: u32,
        /// See `CreateHwQueueFlags`. In, and NativeProgressFence out.
        Flags flags: u32,
        /// Bytes of private driver data. In.
        PrivateDriverDataSize private_driver_data_size: u32,
        /// Its address. In; the data behind it out.
        pPrivateDriverData private_driver_data: u64,
        /// Its handle. Out.
        hHwQueue hw_queue: u32,
        /// The handle of its progress fence. Out.
        hHwQueueProgressFence progress_fence: u32,
        /// The progress fence's value, process CPU address, read-only. Out.
        HwQueueProgressFenceCPUVirtualAddress progress_fence_cpu_va: u64,
        /// The progress fence's value, process GPU address. Out.
        HwQueueProgressFenceGPUVirtualAddress progress_fence_gpu_va: u64,
    }

    /// Ends a hardware queue.
    DestroyHwQueue = D3DKMT_DESTROYHWQUEUE {
        /// The queue.
        hHwQueue hw_queue: u32,
    }

    /// Submits a command buffer to a kernel-mode hardware queue.
    SubmitCommandToHwQueue = D3DKMT_SUBMITCOMMANDTOHWQUEUE {
        /// The queue.
        hHwQueue hw_queue: u32,
        /// The progress value of its completion.
        HwQueueProgressFenceId progress_fence_id: u64,
        /// Process GPU address of the commands.
        CommandBuffer command_buffer: u64,
        /// Size in bytes.
        CommandLength command_length: u32,
        /// Bytes of private driver data.
        PrivateDriverDataSize private_driver_data_size: u32,
        /// Its address.
        pPrivateDriverData private_driver_data: u64,
        /// Number of primaries written; at most 16.
        NumPrimaries num_primaries: u32,
        /// Address of their handles.
        WrittenPrimaries written_primaries: u64,
    }

    /// Queues a wait on a kernel-mode hardware queue.
    SubmitWaitForSyncObjectsToHwQueue = D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE {
        /// The queue.
        hHwQueue hw_queue: u32,
        /// Number of fences.
        ObjectCount object_count: u32,
        /// Address of their handles.
        ObjectHandleArray object_handle_array: u64,
        /// Address of the values to wait for.
        FenceValueArray fence_value_array: u64,
    }

    /// Queues a signal on one or several kernel-mode hardware queues.
    SubmitSignalSyncObjectsToHwQueue = D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE {
        /// See `SignalFlags`.
        Flags flags: u32,
        /// Number of queues.
        BroadcastHwQueueCount broadcast_hw_queue_count: u32,
        /// Address of their handles.
        BroadcastHwQueueArray broadcast_hw_queue_array: u64,
        /// Number of fences.
        ObjectCount object_count: u32,
        /// Address of their handles.
        ObjectHandleArray object_handle_array: u64,
        /// Address of the new values.
        FenceValueArray fence_value_array: u64,
    }
}

published! {
    /// Makes a native fence.
    CreateNativeFence = "D3DKMT_CREATENATIVEFENCE", 216 bytes {
        /// The owning device. In.
        0 "hDevice" device: u32,
        /// Its handle in this process. Out.
        4 "hSyncObject" sync_object: u32,
        /// Private driver data. In and out.
        8 "PrivateDriverData" private_driver_data: [u8; NATIVE_FENCE_PRIVATE_DATA_BYTES],
        /// Its description. In, and its mapping out.
        72 "Info" info: NativeFenceInfo,
        /// Reserved. In.
        184 "Flags" flags: u32,
        /// Zero.
        188 "Reserved" reserved: [u8; 28],
    }

    /// Opens an instance of a shared native fence.
    OpenNativeFenceFromNtHandle = "D3DKMT_OPENNATIVEFENCEFROMNTHANDLE", 176 bytes {
        /// The shared handle. In.
        0 "hNtHandle" nt_handle: u64,
        /// The opening device. In.
        8 "hDevice" device: u32,
        /// One bit for each physical adapter that gets the GPU mapping; 0 for all. In.
        12 "EngineAffinity" engine_affinity: u32,
        /// Rules of this instance. In.
        16 "Flags" flags: u32,
        /// Its handle in this process. Out.
        20 "hSyncObject" sync_object: u32,
        /// Addresses of its values. Out.
        24 "NativeFenceMapping" mapping: NativeFenceMapping,
        /// Private driver data. In and out.
        80 "PrivateDriverData" private_driver_data: [u8; NATIVE_FENCE_PRIVATE_DATA_BYTES],
        /// Zero.
        144 "Reserved" reserved: [u8; 32],
    }

    /// Arguments of a query for the logs of a user-mode queue.
    GetNativeFenceLogDetail = "D3DKMT_GETNATIVEFENCELOGDETAIL", 96 bytes {
        /// The queue. In.
        0 "hHwQueue" hw_queue: u32,
        /// Reserved. In.
        4 "Flags" flags: u32,
        /// Entries of the wait log; 0 when there is none. Out.
        8 "WaitLogNumberOfEntries" wait_log_number_of_entries: u32,
        /// Entries of the signal log; 0 when there is none. Out.
        12 "SignalLogNumberOfEntries" signal_log_number_of_entries: u32,
        /// GPU address of the wait log. Out.
        16 "WaitLogGpuBaseAddress" wait_log_gpu_va: u64,
        /// GPU address of the signal log. Out.
        24 "SignalLogGpuBaseAddress" signal_log_gpu_va: u64,
        /// Zero.
        32 "Reserved" reserved: [u8; 64],
    }
}

public! {
    /// Makes a paging queue.
    CreatePagingQueue = D3DKMT_CREATEPAGINGQUEUE {
        /// The device. In.
        hDevice device: u32,
        /// -1, 0 or 1. In.
        Priority priority: u32,
        /// Its handle. Out.
        hPagingQueue paging_queue: u32,
        /// Its fence. Out.
        hSyncObject sync_object: u32,
        /// Process CPU address of the fence's value, read-only. Out.
        FenceValueCPUVirtualAddress fence_value_cpu_va: u64,
        /// Physical adapter. In.
        PhysicalAdapterIndex physical_adapter_index: u32,
    }

    /// Ends a paging queue.
    DestroyPagingQueue = D3DDDI_DESTROYPAGINGQUEUE {
        /// The paging queue.
        hPagingQueue paging_queue: u32,
    }

    /// Adds references to allocations and makes them resident.
    MakeResident = D3DDDI_MAKERESIDENT {
        /// The paging queue. In.
        hPagingQueue paging_queue: u32,
        /// Count of allocations. In; out, the count of those done.
        NumAllocations num_allocations: u32,
        /// Address of their handles. In.
        AllocationList allocation_list: u64,
        /// Address of their priorities; 0 for none. In.
        PriorityList priority_list: u64,
        /// See [`MakeResidentFlags`]. In.
        Flags flags: u32,
        /// Paging fence value at which they are resident. Out.
        PagingFenceValue paging_fence_value: u64,
        /// Bytes to trim first. Out.
        NumBytesToTrim num_bytes_to_trim: u64,
    }

    /// Removes references.
    Evict = D3DKMT_EVICT {
        /// The device. In.
        hDevice device: u32,
        /// Number of allocations. In.
        NumAllocations num_allocations: u32,
        /// Address of their handles. In.
        AllocationList allocation_list: u64,
        /// See [`EvictFlags`]. In.
        Flags flags: u32,
        /// Bytes still to trim. Out.
        NumBytesToTrim num_bytes_to_trim: u64,
    }

    /// Arguments of a query for a process's memory budget.
    QueryVideoMemoryInfo = D3DKMT_QUERYVIDEOMEMORYINFO {
        /// Which process; 0 for the caller. In.
        hProcess process: u64,
        /// The adapter. In.
        hAdapter adapter: u32,
        /// Which memory: see `SegmentGroup`. In.
        MemorySegmentGroup memory_segment_group: u32,
        /// Budget in bytes. Out.
        Budget budget: u64,
        /// Resident bytes. Out.
        CurrentUsage current_usage: u64,
        /// Reserved bytes. Out.
        CurrentReservation current_reservation: u64,
        /// Bytes that can still be reserved. Out.
        AvailableForReservation available_for_reservation: u64,
        /// Physical adapter. In.
        PhysicalAdapterIndex physical_adapter_index: u32,
    }
}

bitflags::bitflags! {
    /// Flags of MakeResident; the others are reserved.
    #[doc(alias = "D3DDDI_MAKERESIDENT_FLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct MakeResidentFlags: u32 {
        /// The caller cannot trim further.
        const CANT_TRIM_FURTHER = 1;
        /// Failure is fatal to the caller.
        const MUST_SUCCEED = 1 << 1;
    }

    /// Flags of Evict; the others are reserved.
    #[doc(alias = "D3DDDI_EVICT_FLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct EvictFlags: u32 {
        /// Only when the memory is needed. This kernel always evicts this way.
        const EVICT_ONLY_IF_NECESSARY = 1;
        /// Hint: not written since they became resident.
        const NOT_WRITTEN_TO = 1 << 1;
    }
}

public! {
    /// The CPU signals.
    SignalSynchronizationObjectFromCpu = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU {
        /// The device.
        hDevice device: u32,
        /// Number of fences.
        ObjectCount object_count: u32,
        /// Address of their handles.
        ObjectHandleArray object_handle_array: u64,
        /// Address of the new values.
        FenceValueArray fence_value_array: u64,
        /// See `SignalFlags`.
        Flags flags: u32,
    }

    /// A context signals, behind everything that was submitted to it before.
    SignalSynchronizationObjectFromGpu = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU {
        /// The context.
        hContext context: u32,
        /// Number of fences.
        ObjectCount object_count: u32,
        /// Address of their handles.
        ObjectHandleArray object_handle_array: u64,
        /// Its first word is the address of the new values.
        Anonymous arm: Union64,
    }

    /// One or several contexts signal, or have an event set, once all of them got there.
    SignalSynchronizationObjectFromGpu2 = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 {
        /// Number of fences; 0 with EnqueueCpuEvent.
        ObjectCount object_count: u32,
        /// Address of their handles.
        ObjectHandleArray object_handle_array: u64,
        /// See `SignalFlags`.
        Flags flags: u32,
        /// Number of contexts.
        BroadcastContextCount broadcast_context_count: u32,
        /// Address of their handles.
        BroadcastContextArray broadcast_context_array: u64,
        /// Its first word is the address of the new values or, with EnqueueCpuEvent, the event.
        Anonymous arm: Union64,
    }
}

public! {
    /// Makes a synchronisation object.
    CreateSynchronizationObject2 = D3DKMT_CREATESYNCHRONIZATIONOBJECT2 {
        /// The owning device. In.
        hDevice device: u32,
        /// Its description. In, and its addresses out.
        Info info: SynchronizationObjectInfo2,
        /// Its handle in this process. Out.
        hSyncObject sync_object: u32,
    }

    /// Closes an instance of a synchronisation object.
    DestroySynchronizationObject = D3DKMT_DESTROYSYNCHRONIZATIONOBJECT {
        /// The instance. In.
        hSyncObject sync_object: u32,
    }

    /// Opens an instance of a shared synchronisation object.
    OpenSyncObjectFromNtHandle2 = D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 {
        /// The shared handle. In.
        hNtHandle nt_handle: u64,
        /// The opening device. In.
        hDevice device: u32,
        /// Rules of this instance. In.
        Flags flags: u32,
        /// Its handle in this process. Out.
        hSyncObject sync_object: u32,
        /// See [`OpenedFenceArm`]. In and out.
        Anonymous arm: Union64,
    }

    /// Arm of a monitored fence. Offsets count from the union.
    #[doc(alias = "MonitoredFence")]
    OpenedFenceArm = D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2_0_0 {
        /// The value, process CPU address, read-only. Out.
        FenceValueCPUVirtualAddress fence_value_cpu_va: u64,
        /// The value, process GPU address. Out.
        FenceValueGPUVirtualAddress fence_value_gpu_va: u64,
        /// One bit for each physical adapter that gets the GPU mapping; 0 for all. In.
        EngineAffinity engine_affinity: u32,
    }
}

public! {
    /// A CPU thread waits, or has an event set.
    WaitForSynchronizationObjectFromCpu = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU {
        /// The device.
        hDevice device: u32,
        /// Number of fences.
        ObjectCount object_count: u32,
        /// Address of their handles.
        ObjectHandleArray object_handle_array: u64,
        /// Address of the values to wait for.
        FenceValueArray fence_value_array: u64,
        /// NULL to block; else the event that is set.
        hAsyncEvent async_event: u64,
        /// See [`WaitFromCpuFlags`].
        Flags flags: u32,
    }

    /// A context waits before anything that is submitted to it later.
    WaitForSynchronizationObjectFromGpu = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU {
        /// The context.
        hContext context: u32,
        /// Number of fences.
        ObjectCount object_count: u32,
        /// Address of their handles.
        ObjectHandleArray object_handle_array: u64,
        /// Its first word is the address of the values; for fences of WDDM 1.x, which
        /// this project has none of, it is the value.
        Anonymous arm: Union64,
    }
}

bitflags::bitflags! {
    /// Flags of a CPU wait; the others are reserved.
    #[doc(alias = "D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct WaitFromCpuFlags: u32 {
        /// One fence is enough.
        const WAIT_ANY = 1;
    }
}
