//! Holds our structures against the public bindings of the same headers, where those are not of an
//! older draft: sizes, offsets of fields and numbers. The bindings are types alone, so this runs
//! anywhere.

use std::mem::offset_of;
use tidegate_calls::layout::*;
use tidegate_calls::{DoorbellStatus, Status};
use tidegate_d3dukmdt::SynchronizationObjectType;
use tidegate_d3dukmdt::layout::*;
use windows_sys::Wdk::Graphics::Direct3D as wdk;
use windows_sys::Win32::Foundation as win32;

/// Each structure of ours against theirs: the size, and the offset of each pair of fields.
macro_rules! same {
    ($($ours:ident = $theirs:ident { $($our_field:ident: $their_field:ident),+ $(,)? })+) => {$(
        assert_eq!(size_of::<$ours>(), size_of::<wdk::$theirs>(), stringify!($theirs));
        $(assert_eq!(
            offset_of!($ours, $our_field),
            offset_of!(wdk::$theirs, $their_field),
            concat!(stringify!($theirs), "::", stringify!($their_field))
        );)+
    )+};
}

// spec: MF-003, MF-081, MF-093
#[test]
fn synchronisation_objects_agree() {
    same! {
        SynchronizationObjectInfo2 = D3DDDI_SYNCHRONIZATIONOBJECTINFO2 {
            object_type: Type, flags: Flags, arm: Anonymous, shared_handle: SharedHandle,
        }
        SemaphoreArm = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_0_1 { max_count: MaxCount, initial_count: InitialCount }
        FenceArm = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_0_2 { fence_value: FenceValue }
        CpuNotificationArm = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_0_3 { event: Event }
        MonitoredFenceArm = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_0_4 {
            initial_fence_value: InitialFenceValue, fence_value_cpu_va: FenceValueCPUVirtualAddress,
            fence_value_gpu_va: FenceValueGPUVirtualAddress, engine_affinity: EngineAffinity, padding: Padding,
        }
        PeriodicMonitoredFenceArm = D3DDDI_SYNCHRONIZATIONOBJECTINFO2_0_5 {
            adapter: hAdapter, vidpn_target_id: VidPnTargetId, time_100ns: Time,
            fence_value_cpu_va: FenceValueCPUVirtualAddress, fence_value_gpu_va: FenceValueGPUVirtualAddress,
            engine_affinity: EngineAffinity, padding: Padding,
        }
        CreateSynchronizationObject2 = D3DKMT_CREATESYNCHRONIZATIONOBJECT2 {
            device: hDevice, info: Info, sync_object: hSyncObject,
        }
        DestroySynchronizationObject = D3DKMT_DESTROYSYNCHRONIZATIONOBJECT { sync_object: hSyncObject }
        OpenSyncObjectFromNtHandle2 = D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 {
            nt_handle: hNtHandle, device: hDevice, flags: Flags, sync_object: hSyncObject, arm: Anonymous,
        }
        OpenedFenceArm = D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2_0_0 {
            fence_value_cpu_va: FenceValueCPUVirtualAddress, fence_value_gpu_va: FenceValueGPUVirtualAddress,
            engine_affinity: EngineAffinity,
        }
    }
}

// spec: RES-011, RES-012, RES-013
#[test]
fn residency_calls_agree() {
    same! {
        CreatePagingQueue = D3DKMT_CREATEPAGINGQUEUE {
            device: hDevice, priority: Priority, paging_queue: hPagingQueue, sync_object: hSyncObject,
            fence_value_cpu_va: FenceValueCPUVirtualAddress, physical_adapter_index: PhysicalAdapterIndex,
        }
        DestroyPagingQueue = D3DDDI_DESTROYPAGINGQUEUE { paging_queue: hPagingQueue }
        MakeResident = D3DDDI_MAKERESIDENT {
            paging_queue: hPagingQueue, num_allocations: NumAllocations, allocation_list: AllocationList,
            priority_list: PriorityList, flags: Flags, paging_fence_value: PagingFenceValue,
            num_bytes_to_trim: NumBytesToTrim,
        }
        Evict = D3DKMT_EVICT {
            device: hDevice, num_allocations: NumAllocations, allocation_list: AllocationList, flags: Flags,
            num_bytes_to_trim: NumBytesToTrim,
        }
        QueryVideoMemoryInfo = D3DKMT_QUERYVIDEOMEMORYINFO {
            process: hProcess, adapter: hAdapter, memory_segment_group: MemorySegmentGroup, budget: Budget,
            current_usage: CurrentUsage, current_reservation: CurrentReservation,
            available_for_reservation: AvailableForReservation, physical_adapter_index: PhysicalAdapterIndex,
        }
    }
    assert_eq!(
        wdk::D3DDDI_PAGINGQUEUE_PRIORITY_BELOW_NORMAL,
        tidegate_calls::PagingPriority::BelowNormal as i32
    );
    assert_eq!(
        wdk::D3DKMT_MEMORY_SEGMENT_GROUP_NON_LOCAL,
        tidegate_calls::SegmentGroup::NonLocal as i32
    );
}

// spec: MF-082, MF-083, MF-084, MF-085, MF-086
#[test]
fn waits_and_signals_agree() {
    same! {
        WaitForSynchronizationObjectFromCpu = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU {
            device: hDevice, object_count: ObjectCount, object_handle_array: ObjectHandleArray,
            fence_value_array: FenceValueArray, async_event: hAsyncEvent, flags: Flags,
        }
        WaitForSynchronizationObjectFromGpu = D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU {
            context: hContext, object_count: ObjectCount, object_handle_array: ObjectHandleArray, arm: Anonymous,
        }
        SignalSynchronizationObjectFromCpu = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU {
            device: hDevice, object_count: ObjectCount, object_handle_array: ObjectHandleArray,
            fence_value_array: FenceValueArray, flags: Flags,
        }
        SignalSynchronizationObjectFromGpu = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU {
            context: hContext, object_count: ObjectCount, object_handle_array: ObjectHandleArray, arm: Anonymous,
        }
        SignalSynchronizationObjectFromGpu2 = D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 {
            object_count: ObjectCount, object_handle_array: ObjectHandleArray, flags: Flags,
            broadcast_context_count: BroadcastContextCount, broadcast_context_array: BroadcastContextArray,
            arm: Anonymous,
        }
    }
}

// spec: UMS-130, UMS-131, UMS-132, UMS-133
#[test]
fn hardware_queues_agree() {
    same! {
        CreateHwContext = D3DKMT_CREATEHWCONTEXT {
            device: hDevice, node_ordinal: NodeOrdinal, engine_affinity: EngineAffinity, flags: Flags,
            private_driver_data_size: PrivateDriverDataSize, private_driver_data: pPrivateDriverData,
            hw_context: hHwContext,
        }
        DestroyHwContext = D3DKMT_DESTROYHWCONTEXT { hw_context: hHwContext }
        CreateHwQueue = D3DKMT_CREATEHWQUEUE {
            hw_context: hHwContext, flags: Flags, private_driver_data_size: PrivateDriverDataSize,
            private_driver_data: pPrivateDriverData, hw_queue: hHwQueue, progress_fence: hHwQueueProgressFence,
            progress_fence_cpu_va: HwQueueProgressFenceCPUVirtualAddress,
            progress_fence_gpu_va: HwQueueProgressFenceGPUVirtualAddress,
        }
        DestroyHwQueue = D3DKMT_DESTROYHWQUEUE { hw_queue: hHwQueue }
        SubmitCommandToHwQueue = D3DKMT_SUBMITCOMMANDTOHWQUEUE {
            hw_queue: hHwQueue, progress_fence_id: HwQueueProgressFenceId, command_buffer: CommandBuffer,
            command_length: CommandLength, private_driver_data_size: PrivateDriverDataSize,
            private_driver_data: pPrivateDriverData, num_primaries: NumPrimaries, written_primaries: WrittenPrimaries,
        }
        SubmitWaitForSyncObjectsToHwQueue = D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE {
            hw_queue: hHwQueue, object_count: ObjectCount, object_handle_array: ObjectHandleArray,
            fence_value_array: FenceValueArray,
        }
        SubmitSignalSyncObjectsToHwQueue = D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE {
            flags: Flags, broadcast_hw_queue_count: BroadcastHwQueueCount,
            broadcast_hw_queue_array: BroadcastHwQueueArray, object_count: ObjectCount,
            object_handle_array: ObjectHandleArray, fence_value_array: FenceValueArray,
        }
    }
}

// spec: MF-088, MF-089, MF-090, MF-091, MF-092
#[test]
fn devices_and_contexts_agree() {
    same! {
        CreateContextVirtual = D3DKMT_CREATECONTEXTVIRTUAL {
            device: hDevice, node_ordinal: NodeOrdinal, engine_affinity: EngineAffinity, flags: Flags,
            private_driver_data: pPrivateDriverData, private_driver_data_size: PrivateDriverDataSize,
            client_hint: ClientHint, context: hContext,
        }
        SubmitCommand = D3DKMT_SUBMITCOMMAND {
            commands: Commands, command_length: CommandLength, flags: Flags,
            present_history_token: PresentHistoryToken, broadcast_context_count: BroadcastContextCount,
            broadcast_context: BroadcastContext, private_driver_data: pPrivateDriverData,
            private_driver_data_size: PrivateDriverDataSize, num_primaries: NumPrimaries,
            written_primaries: WrittenPrimaries, num_history_buffers: NumHistoryBuffers,
            history_buffer_array: HistoryBufferArray,
        }
        CreateDevice = D3DKMT_CREATEDEVICE {
            adapter: Anonymous, flags: Flags, device: hDevice, command_buffer: pCommandBuffer,
            command_buffer_size: CommandBufferSize, allocation_list: pAllocationList,
            allocation_list_size: AllocationListSize, patch_location_list: pPatchLocationList,
            patch_location_list_size: PatchLocationListSize,
        }
        Lock2 = D3DKMT_LOCK2 { device: hDevice, allocation: hAllocation, flags: Flags, data: pData }
        GetDeviceState = D3DKMT_GETDEVICESTATE { device: hDevice, state_type: StateType, state: Anonymous }
        DevicePageFaultState = D3DKMT_DEVICEPAGEFAULT_STATE {
            faulted_primitive_api_sequence_number: FaultedPrimitiveAPISequenceNumber,
            faulted_pipeline_stage: FaultedPipelineStage, faulted_bind_table_entry: FaultedBindTableEntry,
            page_fault_flags: PageFaultFlags, fault_error_code: FaultErrorCode,
            faulted_virtual_address: FaultedVirtualAddress,
        }
    }
    let types = [
        (DeviceStateType::Execution, wdk::D3DKMT_DEVICESTATE_EXECUTION),
        (DeviceStateType::Reset, wdk::D3DKMT_DEVICESTATE_RESET),
        (DeviceStateType::PageFault, wdk::D3DKMT_DEVICESTATE_PAGE_FAULT),
        (DeviceStateType::PresentQueue, wdk::D3DKMT_DEVICESTATE_PRESENT_QUEUE),
    ];
    for (ours, theirs) in types {
        assert_eq!(ours as i32, theirs);
    }
}

// The bindings name the handle of these by an older word; sizes and places are those of today.
// spec: UMS-024
#[test]
fn doorbells_agree_where_the_bindings_are_not_stale() {
    same! {
        ConnectDoorbell = D3DKMT_CONNECT_DOORBELL { doorbell: hHwQueue, flags: Flags }
        DestroyDoorbell = D3DKMT_DESTROY_DOORBELL { doorbell: hHwQueue }
        NotifyWorkSubmission = D3DKMT_NOTIFY_WORK_SUBMISSION { doorbell: hHwQueue, flags: Flags }
    }
    let statuses = [
        (DoorbellStatus::Connected, wdk::D3DDDI_DOORBELLSTATUS_CONNECTED),
        (DoorbellStatus::ConnectedNotify, wdk::D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD),
        (DoorbellStatus::DisconnectedRetry, wdk::D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY),
        (DoorbellStatus::DisconnectedAbort, wdk::D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT),
    ];
    for (ours, theirs) in statuses {
        assert_eq!(ours as i32, theirs);
    }
    assert_eq!(
        DOORBELL_PRIVATE_DATA_BYTES as u32,
        wdk::D3DDDI_DOORBELL_PRIVATEDATA_MAX_BYTES_WDDM3_1
    );
}

// spec: NF-073, UMS-134, PRE-070
#[test]
fn adapters_agree() {
    same! {
        QueryAdapterInfo = D3DKMT_QUERYADAPTERINFO {
            adapter: hAdapter, query_type: Type, data: pPrivateDriverData, data_bytes: PrivateDriverDataSize,
        }
        Wddm31Caps = D3DKMT_WDDM_3_1_CAPS { flags: Anonymous }
        NodeMetadata = DXGK_NODEMETADATA {
            engine_type: EngineType, friendly_name: FriendlyName, flags: Flags, gpu_mmu_supported: GpuMmuSupported,
            iommu_supported: IoMmuSupported,
        }
        PreemptionCaps = D3DKMDT_PREEMPTION_CAPS {
            graphics_granularity: GraphicsPreemptionGranularity, compute_granularity: ComputePreemptionGranularity,
        }
    }
    assert_eq!(Wddm31Caps::QUERY_TYPE as i32, wdk::KMTQAITYPE_WDDM_3_1_CAPS);
}

// spec: MF-002, MF-087
#[test]
fn numbers_agree() {
    let types = [
        (SynchronizationObjectType::SynchronizationMutex, wdk::D3DDDI_SYNCHRONIZATION_MUTEX),
        (SynchronizationObjectType::Semaphore, wdk::D3DDDI_SEMAPHORE),
        (SynchronizationObjectType::Fence, wdk::D3DDDI_FENCE),
        (SynchronizationObjectType::CpuNotification, wdk::D3DDDI_CPU_NOTIFICATION),
        (SynchronizationObjectType::MonitoredFence, wdk::D3DDDI_MONITORED_FENCE),
        (SynchronizationObjectType::PeriodicMonitoredFence, wdk::D3DDDI_PERIODIC_MONITORED_FENCE),
    ];
    for (ours, theirs) in types {
        assert_eq!(ours as i32, theirs);
    }
    assert_eq!(SyncObjectAccess::WAIT.bits(), wdk::D3DDDI_SYNC_OBJECT_WAIT);
    assert_eq!(SyncObjectAccess::SIGNAL.bits(), wdk::D3DDDI_SYNC_OBJECT_SIGNAL);
    let limits = [
        (MAX_BROADCAST_CONTEXTS, wdk::D3DDDI_MAX_BROADCAST_CONTEXT),
        (MAX_OBJECTS_WAITED_ON, wdk::D3DDDI_MAX_OBJECT_WAITED_ON),
        (MAX_OBJECTS_SIGNALED, wdk::D3DDDI_MAX_OBJECT_SIGNALED),
        (MAX_OBJECTS_PER_HANDLE, wdk::D3DKMT_MAX_OBJECTS_PER_HANDLE),
        (MAX_WRITTEN_PRIMARIES, wdk::D3DDDI_MAX_WRITTEN_PRIMARIES),
    ];
    for (ours, theirs) in limits {
        assert_eq!(ours as u32, theirs);
    }
    let statuses = [
        (Status::TIMEOUT, win32::STATUS_TIMEOUT),
        (Status::PENDING, win32::STATUS_PENDING),
        (Status::INVALID_HANDLE, win32::STATUS_INVALID_HANDLE),
        (Status::INVALID_PARAMETER, win32::STATUS_INVALID_PARAMETER),
        (Status::NO_MEMORY, win32::STATUS_NO_MEMORY),
        (Status::ACCESS_DENIED, win32::STATUS_ACCESS_DENIED),
        (Status::BUFFER_TOO_SMALL, win32::STATUS_BUFFER_TOO_SMALL),
        (Status::OBJECT_TYPE_MISMATCH, win32::STATUS_OBJECT_TYPE_MISMATCH),
        (Status::PRIVILEGE_NOT_HELD, win32::STATUS_PRIVILEGE_NOT_HELD),
        (Status::INSUFFICIENT_RESOURCES, win32::STATUS_INSUFFICIENT_RESOURCES),
        (Status::NOT_SUPPORTED, win32::STATUS_NOT_SUPPORTED),
        (Status::DEVICE_REMOVED, win32::STATUS_DEVICE_REMOVED),
        (Status::CANCELLED, win32::STATUS_CANCELLED),
        (Status::DEVICE_HUNG, win32::STATUS_DEVICE_HUNG),
        (Status::GRAPHICS_INSUFFICIENT_DMA_BUFFER, win32::STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER),
        (Status::GRAPHICS_ADAPTER_WAS_RESET, win32::STATUS_GRAPHICS_ADAPTER_WAS_RESET),
        (Status::GRAPHICS_ALLOCATION_BUSY, win32::STATUS_GRAPHICS_ALLOCATION_BUSY),
        (Status::GRAPHICS_TOO_MANY_REFERENCES, win32::STATUS_GRAPHICS_TOO_MANY_REFERENCES),
        (Status::GRAPHICS_TRY_AGAIN_LATER, win32::STATUS_GRAPHICS_TRY_AGAIN_LATER),
    ];
    for (ours, theirs) in statuses {
        assert_eq!(ours.0, theirs, "{ours:?}");
    }
}
