//! Allocations, and the GPU addresses behind which they are mapped.

/// D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP
pub const STANDARD_ALLOCATION_EXISTING_HEAP: u32 = 1;

/// Bytes of a page in counts of D3DKMTMapGpuVirtualAddress.
pub const GPU_PAGE_BYTES: u64 = 4096;

public! {
    /// An allocation, in the first form.
    AllocationInfo = D3DDDI_ALLOCATIONINFO {
        /// Its handle. Out.
        hAllocation allocation: u32,
        /// Memory of the process; 0 for none. In.
        pSystemMem system_memory: u64,
        /// Address of the private driver data. In.
        pPrivateDriverData private_driver_data: u64,
        /// Bytes of it. In.
        PrivateDriverDataSize private_driver_data_size: u32,
        /// Display of a primary. In.
        VidPnSourceId vidpn_source_id: u32,
        /// Bits. In.
        Flags flags: u32,
    }

    /// An allocation.
    AllocationInfo2 = D3DDDI_ALLOCATIONINFO2 {
        /// Its handle. Out.
        hAllocation allocation: u32,
        /// Memory of the process, or a section; 0 for none. In.
        Anonymous1 system_memory: u64,
        /// Address of the private driver data. In.
        pPrivateDriverData private_driver_data: u64,
        /// Bytes of it. In.
        PrivateDriverDataSize private_driver_data_size: u32,
        /// Display of a primary. In.
        VidPnSourceId vidpn_source_id: u32,
        /// Bits. In.
        Flags flags: u32,
        /// Its GPU address. Out.
        GpuVirtualAddress gpu_va: u64,
        /// Priority. In.
        Anonymous2 priority: u64,
        /// Zero.
        Reserved reserved: [u64; 5],
    }

    /// Makes allocations, and a resource of them.
    CreateAllocation = D3DKMT_CREATEALLOCATION {
        /// The device. In.
        hDevice device: u32,
        /// A resource in; its handle out with CREATE_RESOURCE.
        hResource resource: u32,
        /// The global handle of a shared resource. Out.
        hGlobalShare global_share: u32,
        /// Address of the runtime's data. In.
        pPrivateRuntimeData private_runtime_data: u64,
        /// Bytes of it. In.
        PrivateRuntimeDataSize private_runtime_data_size: u32,
        /// Address of the private driver data, or of a [`CreateStandardAllocation`]. In.
        Anonymous1 private_driver_data: u64,
        /// Bytes of it. In.
        PrivateDriverDataSize private_driver_data_size: u32,
        /// Number of allocations. In.
        NumAllocations num_allocations: u32,
        /// Address of their descriptions. In and out.
        Anonymous2 allocation_info: u64,
        /// See [`CreateAllocationFlags`]. In.
        Flags flags: u32,
        /// The runtime's handle of the resource. In.
        hPrivateRuntimeResourceHandle private_runtime_resource: u64,
    }

    /// An allocation that the kernel describes to the driver.
    CreateStandardAllocation = D3DKMT_CREATESTANDARDALLOCATION {
        /// Type; EXISTINGHEAP is 1.
        Type allocation_type: u32,
        /// Bytes of a heap.
        Anonymous heap_bytes: u64,
        /// Reserved.
        Flags flags: u32,
    }

    /// Ends allocations, or a resource with its allocations, in the first form.
    DestroyAllocation = D3DKMT_DESTROYALLOCATION {
        /// The device.
        hDevice device: u32,
        /// The resource; 0 to name allocations.
        hResource resource: u32,
        /// Address of the allocations' handles.
        phAllocationList allocation_list: u64,
        /// Number of them.
        AllocationCount allocation_count: u32,
    }

    /// Ends allocations, or a resource with its allocations.
    DestroyAllocation2 = D3DKMT_DESTROYALLOCATION2 {
        /// The device.
        hDevice device: u32,
        /// The resource; 0 to name allocations.
        hResource resource: u32,
        /// Address of the allocations' handles.
        phAllocationList allocation_list: u64,
        /// Number of them.
        AllocationCount allocation_count: u32,
        /// Bits: no use any more, destroy at once.
        Flags flags: u32,
    }

    /// Sizes of what the creator of a shared resource has passed, by its global handle.
    QueryResourceInfo = D3DKMT_QUERYRESOURCEINFO {
        /// The device. In.
        hDevice device: u32,
        /// The global handle. In.
        hGlobalShare global_share: u32,
        /// Address for the runtime's data; 0 to get only sizes. In.
        pPrivateRuntimeData private_runtime_data: u64,
        /// Bytes of it. In and out.
        PrivateRuntimeDataSize private_runtime_data_size: u32,
        /// Bytes of the private driver data of all allocations. Out.
        TotalPrivateDriverDataSize total_private_driver_data_size: u32,
        /// Bytes of the resource's data. Out.
        ResourcePrivateDriverDataSize resource_private_driver_data_size: u32,
        /// Number of allocations. Out.
        NumAllocations num_allocations: u32,
    }

    /// The same by NT handle.
    QueryResourceInfoFromNtHandle = D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE {
        /// The device. In.
        hDevice device: u32,
        /// The NT handle. In.
        hNtHandle nt_handle: u64,
        /// Address for the runtime's data; 0 to get only sizes. In.
        pPrivateRuntimeData private_runtime_data: u64,
        /// Bytes of it. In and out.
        PrivateRuntimeDataSize private_runtime_data_size: u32,
        /// Bytes of the private driver data of all allocations. Out.
        TotalPrivateDriverDataSize total_private_driver_data_size: u32,
        /// Bytes of the resource's data. Out.
        ResourcePrivateDriverDataSize resource_private_driver_data_size: u32,
        /// Number of allocations. Out.
        NumAllocations num_allocations: u32,
    }

    /// An allocation of an opened resource, in the first form.
    OpenAllocationInfo = D3DDDI_OPENALLOCATIONINFO {
        /// Its handle. Out.
        hAllocation allocation: u32,
        /// Address of its private driver data. Out.
        pPrivateDriverData private_driver_data: u64,
        /// Bytes of it. Out.
        PrivateDriverDataSize private_driver_data_size: u32,
    }

    /// An allocation of an opened resource.
    OpenAllocationInfo2 = D3DDDI_OPENALLOCATIONINFO2 {
        /// Its handle. Out.
        hAllocation allocation: u32,
        /// Address of its private driver data. Out.
        pPrivateDriverData private_driver_data: u64,
        /// Bytes of it. Out.
        PrivateDriverDataSize private_driver_data_size: u32,
        /// Its GPU address. Out.
        GpuVirtualAddress gpu_va: u64,
        /// Zero.
        Reserved reserved: [u64; 6],
    }

    /// Opens a shared resource by its global handle.
    OpenResource = D3DKMT_OPENRESOURCE {
        /// The device. In.
        hDevice device: u32,
        /// The global handle. In.
        hGlobalShare global_share: u32,
        /// Number of allocations. In.
        NumAllocations num_allocations: u32,
        /// Address of their descriptions. Out.
        Anonymous allocation_info: u64,
        /// Address for the runtime's data. In.
        pPrivateRuntimeData private_runtime_data: u64,
        /// Bytes of it. In and out.
        PrivateRuntimeDataSize private_runtime_data_size: u32,
        /// Address for the private driver data of the resource. In.
        pResourcePrivateDriverData resource_private_driver_data: u64,
        /// Bytes of it. In and out.
        ResourcePrivateDriverDataSize resource_private_driver_data_size: u32,
        /// Address for the private driver data of all allocations. In.
        pTotalPrivateDriverDataBuffer total_private_driver_data: u64,
        /// Bytes of it. In and out.
        TotalPrivateDriverDataBufferSize total_private_driver_data_size: u32,
        /// The resource. Out.
        hResource resource: u32,
    }

    /// Opens a shared resource by NT handle.
    OpenResourceFromNtHandle = D3DKMT_OPENRESOURCEFROMNTHANDLE {
        /// The device. In.
        hDevice device: u32,
        /// The NT handle. In.
        hNtHandle nt_handle: u64,
        /// Number of allocations. In.
        NumAllocations num_allocations: u32,
        /// Address of their descriptions. Out.
        pOpenAllocationInfo2 allocation_info: u64,
        /// Bytes for the runtime's data. In and out.
        PrivateRuntimeDataSize private_runtime_data_size: u32,
        /// Address for it. In.
        pPrivateRuntimeData private_runtime_data: u64,
        /// Bytes for the private driver data of the resource. In and out.
        ResourcePrivateDriverDataSize resource_private_driver_data_size: u32,
        /// Address for it. In.
        pResourcePrivateDriverData resource_private_driver_data: u64,
        /// Bytes for the private driver data of all allocations. In and out.
        TotalPrivateDriverDataBufferSize total_private_driver_data_size: u32,
        /// Address for it. In.
        pTotalPrivateDriverDataBuffer total_private_driver_data: u64,
        /// The resource. Out.
        hResource resource: u32,
        /// The keyed mutex of the handle; 0 for none. Out.
        hKeyedMutex keyed_mutex: u32,
        /// Address for the mutex's data of the runtime. In.
        pKeyedMutexPrivateRuntimeData keyed_mutex_runtime_data: u64,
        /// Bytes of it. In.
        KeyedMutexPrivateRuntimeDataSize keyed_mutex_runtime_data_size: u32,
        /// The synchronisation object of the handle; 0 for none. Out.
        hSyncObject sync_object: u32,
    }

    /// Ends what D3DKMTLock2 began.
    Unlock2 = D3DKMT_UNLOCK2 {
        /// The device.
        hDevice device: u32,
        /// The allocation.
        hAllocation allocation: u32,
    }

    /// Sets priorities of allocations.
    SetAllocationPriority = D3DKMT_SETALLOCATIONPRIORITY {
        /// The device.
        hDevice device: u32,
        /// The resource; 0 to name allocations.
        hResource resource: u32,
        /// Address of the allocations' handles.
        phAllocationList allocation_list: u64,
        /// Number of them.
        AllocationCount allocation_count: u32,
        /// Address of their priorities.
        pPriorities priorities: u64,
    }

    /// Where allocations are.
    QueryAllocationResidency = D3DKMT_QUERYALLOCATIONRESIDENCY {
        /// The device. In.
        hDevice device: u32,
        /// The resource; 0 to name allocations. In.
        hResource resource: u32,
        /// Address of the allocations' handles. In.
        phAllocationList allocation_list: u64,
        /// Number of them. In.
        AllocationCount allocation_count: u32,
        /// Address for a D3DKMT_ALLOCATIONRESIDENCYSTATUS of each. In.
        pResidencyStatus residency_status: u64,
    }

    /// Reads priorities of allocations.
    GetAllocationPriority = D3DKMT_GETALLOCATIONPRIORITY {
        /// The device. In.
        hDevice device: u32,
        /// The resource; 0 to name allocations. In.
        hResource resource: u32,
        /// Address of the allocations' handles. In.
        phAllocationList allocation_list: u64,
        /// Number of them. In.
        AllocationCount allocation_count: u32,
        /// Address for their priorities. In.
        pPriorities priorities: u64,
    }

    /// Reserves GPU addresses.
    ReserveGpuVirtualAddress = D3DDDI_RESERVEGPUVIRTUALADDRESS {
        /// The paging queue, or the adapter. In.
        Anonymous1 paging_queue: u32,
        /// The address that is wanted; 0 for any. In.
        BaseAddress base_address: u64,
        /// The lowest address. In.
        MinimumAddress minimum_address: u64,
        /// The highest address; 0 for none. In.
        MaximumAddress maximum_address: u64,
        /// Bytes. In.
        Size size: u64,
        /// Type of the reservation. In.
        Anonymous2 reservation_type: u32,
        /// Of the driver. In.
        Anonymous3 driver_protection: u64,
        /// The first address. Out.
        VirtualAddress virtual_address: u64,
        /// Value of the paging fence. Out.
        Anonymous4 paging_fence_value: u64,
    }

    /// Maps an allocation.
    MapGpuVirtualAddress = D3DDDI_MAPGPUVIRTUALADDRESS {
        /// The paging queue. In.
        hPagingQueue paging_queue: u32,
        /// The address that is wanted; 0 for any. In.
        BaseAddress base_address: u64,
        /// The lowest address. In.
        MinimumAddress minimum_address: u64,
        /// The highest address; 0 for none. In.
        MaximumAddress maximum_address: u64,
        /// The allocation; 0 for none. In.
        hAllocation allocation: u32,
        /// First page of the allocation. In.
        OffsetInPages offset_in_pages: u64,
        /// Pages to map; 0 for all. In.
        SizeInPages size_in_pages: u64,
        /// See [`GpuProtection`]. In.
        Protection protection: u64,
        /// Of the driver. In.
        DriverProtection driver_protection: u64,
        /// Zero.
        Reserved0 reserved_0: u32,
        /// Zero.
        Reserved1 reserved_1: u64,
        /// The first address. Out.
        VirtualAddress virtual_address: u64,
        /// Value of the paging fence at which it is mapped. Out.
        PagingFenceValue paging_fence_value: u64,
    }

    /// Frees GPU addresses.
    FreeGpuVirtualAddress = D3DKMT_FREEGPUVIRTUALADDRESS {
        /// The adapter.
        hAdapter adapter: u32,
        /// The first address.
        BaseAddress base_address: u64,
        /// Bytes.
        Size size: u64,
    }

    /// Queues changes of mappings on a context.
    UpdateGpuVirtualAddress = D3DKMT_UPDATEGPUVIRTUALADDRESS {
        /// The device.
        hDevice device: u32,
        /// The context.
        hContext context: u32,
        /// A fence.
        hFenceObject fence: u32,
        /// Number of operations.
        NumOperations num_operations: u32,
        /// Address of the operations.
        Operations operations: u64,
        /// Zero.
        Reserved0 reserved_0: u64,
        /// Zero.
        Reserved1 reserved_1: u64,
        /// Value that the fence has to reach first; it is then signalled with the next one.
        FenceValue fence_value: u64,
        /// Bit 0: do not wait for the fence.
        Flags flags: u32,
    }

    /// One change of a mapping.
    UpdateGpuVirtualAddressOperation = D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION {
        /// MAP 0, UNMAP 1, COPY 2, MAP_PROTECT 3.
        OperationType operation_type: u32,
        /// A union. MAP: base address, bytes, allocation, offset in it, bytes of it. UNMAP: base
        /// address, bytes.
        Anonymous arm: [u64; 7],
    }
}

bitflags::bitflags! {
    /// Bits of D3DKMT_CREATEALLOCATIONFLAGS that have a meaning here.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CreateAllocationFlags: u32 {
        /// Makes a resource.
        #[doc(alias = "CreateResource")]
        const CREATE_RESOURCE = 1;
        /// The resource may be opened by others.
        #[doc(alias = "CreateShared")]
        const CREATE_SHARED = 1 << 1;
        /// The resource is shared by NT handle.
        #[doc(alias = "NtSecuritySharing")]
        const NT_SECURITY_SHARING = 1 << 6;
        /// The allocation is memory of the process.
        #[doc(alias = "ExistingSysMem")]
        const EXISTING_SYS_MEM = 1 << 5;
        /// The structure describes a standard allocation.
        #[doc(alias = "StandardAllocation")]
        const STANDARD_ALLOCATION = 1 << 16;
        /// The allocation is a section.
        #[doc(alias = "ExistingSection")]
        const EXISTING_SECTION = 1 << 17;
    }

    /// Bits of D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct GpuProtection: u64 {
        /// Engines may store.
        const WRITE = 1;
        /// Engines may execute.
        const EXECUTE = 1 << 1;
        /// Reads are 0 and stores are lost.
        const ZERO = 1 << 2;
        /// Accesses fault.
        const NO_ACCESS = 1 << 3;
    }
}
