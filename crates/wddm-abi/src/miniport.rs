//! d3dkmddi.h and dispmprt.h: structures of start, capabilities, packets, paging and recovery, as a
//! loader of drivers passes them.
//!
//! Structures that grow with the interface version have their newest size. Later versions only add
//! fields at the end, so a driver of an older version uses the first part.

published! {
    /// Queries the driver.
    QueryAdapterInfo = "DXGKARG_QUERYADAPTERINFO", 48 bytes {
        /// Type of the query.
        0 "Type" query_type: u32,
        /// Where the input is.
        8 "pInputData" input_data: u64,
        /// Bytes of input.
        16 "InputDataSize" input_data_size: u32,
        /// Where the output goes.
        24 "pOutputData" output_data: u64,
        /// Bytes of output.
        32 "OutputDataSize" output_data_size: u32,
        /// Reserved for virtual functions.
        36 "Flags" flags: u32,
        /// Handle of a virtual function's process.
        40 "hKmdProcessHandle" kmd_process_handle: u64,
    }

    /// Capabilities of a driver, up to the last field that version 1.2 has.
    DriverCaps = "DXGK_DRIVERCAPS", 592 bytes {
        /// Highest physical address that the device reaches.
        0 "HighestAcceptableAddress" highest_acceptable_address: u64,
        /// Highest slot of patch lists.
        8 "MaxAllocationListSlotId" max_allocation_list_slot_id: u32,
        /// Bytes of an aperture segment that may be committed.
        16 "ApertureSegmentCommitLimit" aperture_segment_commit_limit: u64,
        /// From here on: pointer, interrupt message, swizzling, overlays, gamma.
        24 "MaxPointerWidth" pointer_to_gamma: [u32; 7],
        /// DXGK_PRESENTATIONCAPS.
        52 "PresentationCaps" presentation_caps: u32,
        /// Flips that wait for a vertical sync.
        56 "MaxQueuedFlipOnVSync" max_queued_flip_on_vsync: u32,
        /// DXGK_FLIPCAPS.
        60 "FlipCaps" flip_caps: u32,
        /// DXGK_VIDSCHCAPS.
        64 "SchedulingCaps" scheduling_caps: u32,
        /// DXGK_VIDMMCAPS.
        68 "MemoryManagementCaps" memory_management_caps: [u32; 2],
        /// Number of nodes, the first field of the topology.
        76 "GpuEngineTopology" nodes: u32,
        /// The rest of the topology.
        80 "GpuEngineTopology.Reserved" topology_reserved: [u32; 64],
        /// DXGK_WDDMVERSION.
        336 "WDDMVersion" wddm_version: u32,
        /// Reserved.
        340 "Reserved" reserved: [u32; 47],
        /// Granularity of preemption in draws.
        528 "PreemptionCaps.GraphicsPreemptionGranularity" graphics_preemption: u32,
        /// Granularity of preemption in other work.
        532 "PreemptionCaps.ComputePreemptionGranularity" compute_preemption: u32,
        /// Whether it works without VGA.
        536 "SupportNonVGA" support_non_vga: u8,
        /// Whether rotation is smooth.
        537 "SupportSmoothRotation" support_smooth_rotation: u8,
        /// Whether engines are reset one by one.
        538 "SupportPerEngineTDR" support_per_engine_tdr: u8,
        /// From here on: fields of displays and of later versions.
        539 "SupportDirectFlip" display_and_later: [u8; 53],
    }

    /// Properties of the GPU's memory management.
    GpuMmuCaps = "DXGK_GPUMMUCAPS", 24 bytes {
        /// See [`GpuMmuCapsFlags`].
        0 "Value" flags: u32,
        /// How page tables are written: 0 by the CPU.
        4 "PageTableUpdateMode" page_table_update_mode: u32,
        /// Bits of a GPU virtual address.
        8 "VirtualAddressBitCount" virtual_address_bit_count: u32,
        /// Bytes of a last-level table of 64 KiB pages.
        12 "LeafPageTableSizeFor64KPagesInBytes" leaf_table_bytes_64k: u32,
        /// Levels of page tables.
        16 "PageTableLevelCount" page_table_level_count: u32,
        /// Behaviour of older drivers.
        20 "LegacyBehaviors" legacy_behaviors: u32,
    }

    /// A level of page tables. Level 0 maps pages.
    PageTableLevelDesc = "DXGK_PAGE_TABLE_LEVEL_DESC", 20 bytes {
        /// Bits of the index.
        0 "PageTableIndexBitCount" page_table_index_bit_count: u32,
        /// Segment of the tables; 0 for system memory.
        4 "PageTableSegmentId" page_table_segment_id: u32,
        /// The same in the system process.
        8 "PagingProcessPageTableSegmentId" paging_process_page_table_segment_id: u32,
        /// Bytes of a table.
        12 "PageTableSizeInBytes" page_table_size_in_bytes: u32,
        /// Alignment of a table.
        16 "PageTableAlignmentInBytes" page_table_alignment_in_bytes: u32,
    }

    /// The segments of a driver before WDDM 2.0: first their number, then their descriptors.
    QuerySegmentOut3 = "DXGK_QUERYSEGMENTOUT3", 32 bytes {
        /// Number of segments.
        0 "NbSegment" segments: u32,
        /// Where descriptors go; 0 in the call that queries their number.
        8 "pSegmentDescriptor" segment_descriptor: u64,
        /// Segment of paging buffers.
        16 "PagingBufferSegmentId" paging_buffer_segment_id: u32,
        /// Bytes of a paging buffer.
        20 "PagingBufferSize" paging_buffer_size: u32,
        /// Bytes of a paging buffer's private data.
        24 "PagingBufferPrivateDataSize" paging_buffer_private_data_size: u32,
    }

    /// A segment of a driver before WDDM 2.0.
    SegmentDescriptor3 = "DXGK_SEGMENTDESCRIPTOR3", 72 bytes {
        /// See [`SegmentFlags`].
        0 "Flags" flags: u32,
        /// Its address in the driver's terms.
        8 "BaseAddress" base_address: u64,
        /// Bus address at which the CPU reaches it.
        16 "CpuTranslatedAddress" cpu_translated_address: u64,
        /// Bytes.
        24 "Size" size: u64,
        /// Number of banks.
        32 "NbOfBanks" banks: u32,
        /// Where the banks are described.
        40 "pBankRangeTable" bank_range_table: u64,
        /// Bytes that may be committed.
        48 "CommitLimit" commit_limit: u64,
        /// End of the part that system memory backs.
        56 "SystemMemoryEndAddress" system_memory_end_address: u64,
        /// Reserved.
        64 "Reserved" reserved: u64,
    }

    /// The driver's segments: first their number, then their descriptors.
    QuerySegmentOut4 = "DXGK_QUERYSEGMENTOUT4", 40 bytes {
        /// Number of segments.
        0 "NbSegment" segments: u32,
        /// Where descriptors go; 0 in the call that queries their number.
        8 "pSegmentDescriptor" segment_descriptor: u64,
        /// Segment of paging buffers.
        16 "PagingBufferSegmentId" paging_buffer_segment_id: u32,
        /// Bytes of a paging buffer.
        20 "PagingBufferSize" paging_buffer_size: u32,
        /// Bytes of a paging buffer's private data.
        24 "PagingBufferPrivateDataSize" paging_buffer_private_data_size: u32,
        /// Bytes from one descriptor to the next.
        32 "SegmentDescriptorStride" segment_descriptor_stride: u64,
    }

    /// A segment.
    SegmentDescriptor4 = "DXGK_SEGMENTDESCRIPTOR4", 96 bytes {
        /// See [`SegmentFlags`].
        0 "Flags" flags: u32,
        /// Its address in the driver's terms.
        8 "BaseAddress" base_address: u64,
        /// Bytes.
        16 "Size" size: u64,
        /// Bytes that may be committed.
        24 "CommitLimit" commit_limit: u64,
        /// End of the part that system memory backs.
        32 "SystemMemoryEndAddress" system_memory_end_address: u64,
        /// Bus address at which the CPU reaches it, and the rest of the host aperture.
        40 "CpuTranslatedAddress" cpu_translated_address: [u64; 2],
        /// Number of ranges that must not be used.
        56 "NumInvalidMemoryRanges" invalid_memory_ranges: u32,
        /// From here on: protected regions.
        64 "VprRangeStartOffset" protected_regions: [u64; 4],
    }
}

bitflags::bitflags! {
    /// Bits of [`GpuMmuCaps`] that packet drivers use.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct GpuMmuCapsFlags: u32 {
        /// Page table entries can forbid stores.
        #[doc(alias = "ReadOnlyMemorySupported")]
        const READ_ONLY_MEMORY_SUPPORTED = 1;
        /// Page table entries can select coherent accesses.
        #[doc(alias = "CacheCoherentMemorySupported")]
        const CACHE_COHERENT_MEMORY_SUPPORTED = 1 << 4;
    }

    /// Bits of [`SegmentDescriptor4`] that packet drivers use.
    #[doc(alias = "DXGK_SEGMENTFLAGS")]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SegmentFlags: u32 {
        /// It has no memory: system memory is mapped into it.
        #[doc(alias = "Aperture")]
        const APERTURE = 1;
        /// The CPU reaches it.
        #[doc(alias = "CpuVisible")]
        const CPU_VISIBLE = 1 << 2;
        /// The CPUs' caches are coherent with it.
        #[doc(alias = "CacheCoherent")]
        const CACHE_COHERENT = 1 << 4;
        /// It is system memory, at the addresses that the device uses.
        #[doc(alias = "PopulatedFromSystemMemory")]
        const POPULATED_FROM_SYSTEM_MEMORY = 1 << 6;
    }
}

published! {
    /// A process uses the adapter for the first time.
    CreateProcess = "DXGKARG_CREATEPROCESS", 56 bytes {
        /// The kernel's handle. In.
        0 "hDxgkProcess" dxgk_process: u64,
        /// The driver's handle. Out.
        8 "hKmdProcess" kmd_process: u64,
        /// Bit 0: the system process. In.
        16 "Flags" flags: u32,
        /// Number of address space identifiers.
        20 "NumPasid" pasids: u32,
        /// Where they are.
        24 "pPasid" pasid: u64,
        /// The process that serves a virtual machine.
        32 "hKmdVmWorkerProcess" kmd_vm_worker_process: u64,
        /// Characters of the name.
        40 "ProcessNameLength" process_name_length: u32,
        /// The name.
        48 "pProcessName" process_name: u64,
    }

    /// A device.
    CreateDevice = "DXGKARG_CREATEDEVICE", 32 bytes {
        /// In: the kernel's handle. Out: the driver's.
        0 "hDevice" device: u64,
        /// DXGK_CREATEDEVICEFLAGS, in a union with a pointer. In.
        8 "Flags" flags: u64,
        /// Address space identifier. In.
        16 "Pasid" pasid: u32,
        /// The driver's handle of the process. In.
        24 "hKmdProcess" kmd_process: u64,
    }

    /// A context.
    CreateContext = "DXGKARG_CREATECONTEXT", 72 bytes {
        /// In: the kernel's handle. Out: the driver's.
        0 "hContext" context: u64,
        /// Node ordinal. In.
        8 "NodeOrdinal" node_ordinal: u32,
        /// Physical adapters, one bit each. In.
        12 "EngineAffinity" engine_affinity: u32,
        /// See [`CreateContextFlags`]. In.
        16 "Flags" flags: u32,
        /// Private data of the user-mode driver. In.
        24 "pPrivateDriverData" private_driver_data: u64,
        /// Its bytes. In.
        32 "PrivateDriverDataSize" private_driver_data_size: u32,
        /// Bytes of a DMA buffer. Out.
        36 "ContextInfo.DmaBufferSize" dma_buffer_size: u32,
        /// Segments of DMA buffers. Out.
        40 "ContextInfo.DmaBufferSegmentSet" dma_buffer_segment_set: u32,
        /// Bytes of a DMA buffer's private data. Out.
        44 "ContextInfo.DmaBufferPrivateDataSize" dma_buffer_private_data_size: u32,
        /// Entries of an allocation list. Out.
        48 "ContextInfo.AllocationListSize" allocation_list_size: u32,
        /// Entries of a patch list. Out.
        52 "ContextInfo.PatchLocationListSize" patch_location_list_size: u32,
        /// Reserved.
        56 "ContextInfo.Reserved" reserved: u32,
        /// Capabilities of the context. Out.
        60 "ContextInfo.Caps" caps: u32,
        /// Node of paging for the context. Out.
        64 "ContextInfo.PagingCompanionNodeId" paging_companion_node_id: u32,
    }

    /// The root page table of a context.
    SetRootPageTable = "DXGKARG_SETROOTPAGETABLE", 32 bytes {
        /// The driver's handle of the context.
        0 "hContext" context: u64,
        /// Segment of the table; 0 for system memory.
        8 "Address.SegmentId" segment_id: u32,
        /// Padding.
        12 "Address.Padding" padding: u32,
        /// Offset in the segment: the bus address for system memory.
        16 "Address.SegmentOffset" segment_offset: u64,
        /// Entries of the table.
        24 "NumEntries" entries: u32,
    }

    /// A packet with GPU virtual addresses.
    SubmitCommandVirtual = "DXGKARG_SUBMITCOMMANDVIRTUAL", 64 bytes {
        /// The driver's handle of the context.
        0 "hContext" context: u64,
        /// Process GPU address of the commands.
        8 "DmaBufferVirtualAddress" dma_buffer_virtual_address: u64,
        /// Their bytes.
        16 "DmaBufferSize" dma_buffer_size: u32,
        /// Private data of the DMA buffer.
        24 "pDmaBufferPrivateData" dma_buffer_private_data: u64,
        /// Its bytes.
        32 "DmaBufferPrivateDataSize" dma_buffer_private_data_size: u32,
        /// Bytes of it that the user-mode driver has written.
        36 "DmaBufferUmdPrivateDataSize" dma_buffer_umd_private_data_size: u32,
        /// Returned by the completion interrupt.
        40 "SubmissionFenceId" submission_fence_id: u32,
        /// Source of a flip.
        44 "VidPnSourceId" vid_pn_source_id: u32,
        /// Interval of a flip.
        48 "FlipInterval" flip_interval: u32,
        /// DXGK_SUBMITCOMMANDFLAGS.
        52 "Flags" flags: u32,
        /// Physical adapter.
        56 "EngineOrdinal" engine_ordinal: u32,
        /// Node ordinal.
        60 "NodeOrdinal" node_ordinal: u32,
    }

    /// Makes a DMA buffer of commands of a process.
    Render = "DXGKARG_RENDER", 112 bytes {
        /// The commands.
        0 "pCommand" command: u64,
        /// Their bytes.
        8 "CommandLength" command_length: u32,
        /// The DMA buffer. In and out: the driver moves it past its commands.
        16 "pDmaBuffer" dma_buffer: u64,
        /// Its bytes.
        24 "DmaSize" dma_size: u32,
        /// Private data of the DMA buffer. In and out.
        32 "pDmaBufferPrivateData" dma_buffer_private_data: u64,
        /// Its bytes.
        40 "DmaBufferPrivateDataSize" dma_buffer_private_data_size: u32,
        /// Allocations: DXGK_ALLOCATIONLIST.
        48 "pAllocationList" allocation_list: u64,
        /// Their number.
        56 "AllocationListSize" allocation_list_size: u32,
        /// [`PatchLocation`] of the commands.
        64 "pPatchLocationListIn" patch_location_list_in: u64,
        /// Their number.
        72 "PatchLocationListInSize" patch_location_list_in_size: u32,
        /// [`PatchLocation`] of the DMA buffer. In and out: the driver moves it past its entries.
        80 "pPatchLocationListOut" patch_location_list_out: u64,
        /// Entries that fit.
        88 "PatchLocationListOutSize" patch_location_list_out_size: u32,
        /// Progress over several calls, 0 in the first. In and out.
        92 "MultipassOffset" multipass_offset: u32,
        /// Segment of the DMA buffer.
        96 "DmaBufferSegmentId" dma_buffer_segment_id: u32,
        /// Its address in the segment.
        104 "DmaBufferPhysicalAddress" dma_buffer_physical_address: u64,
    }

    /// A place in commands that needs the address of an allocation.
    PatchLocation = "D3DDDI_PATCHLOCATIONLIST", 24 bytes {
        /// Entry of the allocation list; 0 for no allocation.
        0 "AllocationIndex" allocation_index: u32,
        /// The row of the binding table in the low 24 bits.
        4 "Value" slot_id: u32,
        /// A number of the driver.
        8 "DriverId" driver_id: u32,
        /// Offset in the allocation.
        12 "AllocationOffset" allocation_offset: u32,
        /// Offset of the address in the commands.
        16 "PatchOffset" patch_offset: u32,
        /// The commands before this offset run without the allocation.
        20 "SplitOffset" split_offset: u32,
    }

    /// Addresses for a part of a DMA buffer.
    Patch = "DXGKARG_PATCH", 120 bytes {
        /// The driver's handle of the context.
        0 "hContext" context: u64,
        /// Segment of the DMA buffer.
        8 "DmaBufferSegmentId" dma_buffer_segment_id: u32,
        /// Its address in the segment.
        16 "DmaBufferPhysicalAddress" dma_buffer_physical_address: u64,
        /// The DMA buffer, kernel CPU address.
        24 "pDmaBuffer" dma_buffer: u64,
        /// Its bytes.
        32 "DmaBufferSize" dma_buffer_size: u32,
        /// First byte of the part.
        36 "DmaBufferSubmissionStartOffset" submission_start_offset: u32,
        /// First byte after the part.
        40 "DmaBufferSubmissionEndOffset" submission_end_offset: u32,
        /// Private data of the DMA buffer.
        48 "pDmaBufferPrivateData" dma_buffer_private_data: u64,
        /// Its bytes.
        56 "DmaBufferPrivateDataSize" dma_buffer_private_data_size: u32,
        /// First byte of private data of the part.
        60 "DmaBufferPrivateDataSubmissionStartOffset" private_data_start_offset: u32,
        /// First byte after it.
        64 "DmaBufferPrivateDataSubmissionEndOffset" private_data_end_offset: u32,
        /// Allocations with their addresses: DXGK_ALLOCATIONLIST.
        72 "pAllocationList" allocation_list: u64,
        /// Their number.
        80 "AllocationListSize" allocation_list_size: u32,
        /// [`PatchLocation`] of the DMA buffer.
        88 "pPatchLocationList" patch_location_list: u64,
        /// Their number.
        96 "PatchLocationListSize" patch_location_list_size: u32,
        /// The first entry for the part.
        100 "PatchLocationListSubmissionStart" patch_location_list_start: u32,
        /// Number of entries for the part.
        104 "PatchLocationListSubmissionLength" patch_location_list_length: u32,
        /// The submission that follows.
        108 "SubmissionFenceId" submission_fence_id: u32,
        /// DXGK_PATCHFLAGS.
        112 "Flags" flags: u32,
        /// Physical adapter.
        116 "EngineOrdinal" engine_ordinal: u32,
    }

    /// A packet with physical addresses.
    SubmitCommand = "DXGKARG_SUBMITCOMMAND", 96 bytes {
        /// The driver's handle of the context.
        0 "hContext" context: u64,
        /// Segment of the DMA buffer.
        8 "DmaBufferSegmentId" dma_buffer_segment_id: u32,
        /// Its address in the segment.
        16 "DmaBufferPhysicalAddress" dma_buffer_physical_address: u64,
        /// Its bytes.
        24 "DmaBufferSize" dma_buffer_size: u32,
        /// First byte of the part.
        28 "DmaBufferSubmissionStartOffset" submission_start_offset: u32,
        /// First byte after the part.
        32 "DmaBufferSubmissionEndOffset" submission_end_offset: u32,
        /// Private data of the DMA buffer.
        40 "pDmaBufferPrivateData" dma_buffer_private_data: u64,
        /// Its bytes.
        48 "DmaBufferPrivateDataSize" dma_buffer_private_data_size: u32,
        /// First byte of private data of the part.
        52 "DmaBufferPrivateDataSubmissionStartOffset" private_data_start_offset: u32,
        /// First byte after it.
        56 "DmaBufferPrivateDataSubmissionEndOffset" private_data_end_offset: u32,
        /// Returned by the completion interrupt.
        60 "SubmissionFenceId" submission_fence_id: u32,
        /// Source of a flip.
        64 "VidPnSourceId" vid_pn_source_id: u32,
        /// Interval of a flip.
        68 "FlipInterval" flip_interval: u32,
        /// DXGK_SUBMITCOMMANDFLAGS.
        72 "Flags" flags: u32,
        /// Physical adapter.
        76 "EngineOrdinal" engine_ordinal: u32,
        /// GPU address; 0 with physical addresses.
        80 "DmaBufferVirtualAddress" dma_buffer_virtual_address: u64,
        /// Node ordinal.
        88 "NodeOrdinal" node_ordinal: u32,
    }

    /// Shows another surface, in the form of WDDM 1.3.
    SetVidPnSourceAddress = "DXGKARG_SETVIDPNSOURCEADDRESS", 560 bytes {
        /// The video present source.
        0 "VidPnSourceId" vid_pn_source_id: u32,
        /// Segment of the surface.
        4 "PrimarySegment" primary_segment: u32,
        /// Its address in the segment.
        8 "PrimaryAddress" primary_address: u64,
        /// The driver's handle of its allocation.
        16 "hAllocation" allocation: u64,
        /// Number of contexts.
        24 "ContextCount" context_count: u32,
        /// The driver's handles of contexts that drew it.
        32 "Context" contexts: [u64; 65],
        /// DXGK_SETVIDPNSOURCEADDRESS_FLAGS.
        552 "Flags" flags: u32,
        /// Duration of a refresh.
        556 "Duration" duration: u32,
    }

    /// Makes a source visible or dark.
    SetVidPnSourceVisibility = "DXGKARG_SETVIDPNSOURCEVISIBILITY", 8 bytes {
        /// The video present source.
        0 "VidPnSourceId" vid_pn_source_id: u32,
        /// Whether it is visible.
        4 "Visible" visible: u8,
    }

    /// Requests the return of an engine's packets.
    PreemptCommand = "DXGKARG_PREEMPTCOMMAND", 16 bytes {
        /// Returned by the interrupt.
        0 "PreemptionFenceId" preemption_fence_id: u32,
        /// Node ordinal.
        4 "NodeOrdinal" node_ordinal: u32,
        /// Physical adapter.
        8 "EngineOrdinal" engine_ordinal: u32,
        /// Reserved.
        12 "Flags" flags: u32,
    }

    /// A packet that the kernel will never submit.
    CancelCommand = "DXGKARG_CANCELCOMMAND", 112 bytes {
        /// The driver's handle of the context.
        0 "hContext" context: u64,
        /// The DMA buffer, kernel CPU address; 0 with GPU virtual addresses.
        8 "pDmaBuffer" dma_buffer: u64,
        /// Its bytes.
        16 "DmaBufferSize" dma_buffer_size: u32,
        /// First byte of the part.
        20 "DmaBufferSubmissionStartOffset" submission_start_offset: u32,
        /// First byte after the part.
        24 "DmaBufferSubmissionEndOffset" submission_end_offset: u32,
        /// Private data, allocation list and patch list.
        32 "pDmaBufferPrivateData" private_data_and_lists: [u64; 8],
        /// Process GPU address of the commands.
        96 "DmaBufferVirtualAddress" dma_buffer_virtual_address: u64,
        /// Bytes of private data that the user-mode driver has written.
        104 "DmaBufferUmdPrivateDataSize" dma_buffer_umd_private_data_size: u32,
    }
}

bitflags::bitflags! {
    /// DXGK_CREATECONTEXTFLAGS.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CreateContextFlags: u32 {
        /// A context of the kernel.
        #[doc(alias = "SystemContext")]
        const SYSTEM_CONTEXT = 1;
        /// Packets have GPU virtual addresses.
        #[doc(alias = "VirtualAddressing")]
        const VIRTUAL_ADDRESSING = 1 << 2;
    }
}

published! {
    /// An operation of the memory manager. `arm` is the union of the operations' arguments.
    BuildPagingBuffer = "DXGKARG_BUILDPAGINGBUFFER", 320 bytes {
        /// Where commands go. In and out: the driver moves it past its commands.
        0 "pDmaBuffer" dma_buffer: u64,
        /// Bytes that are left.
        8 "DmaSize" dma_size: u32,
        /// Private data of the buffer. In and out.
        16 "pDmaBufferPrivateData" dma_buffer_private_data: u64,
        /// Bytes of it that are left.
        24 "DmaBufferPrivateDataSize" dma_buffer_private_data_size: u32,
        /// See [`PagingOperation`].
        28 "Operation" operation: u32,
        /// Progress over several calls, 0 in the first.
        32 "MultipassOffset" multipass_offset: u32,
        /// The arguments.
        40 "Reserved" arm: [u64; 32],
        /// The driver's handle of the paging context.
        296 "hSystemContext" system_context: u64,
        /// GPU address of the buffer.
        304 "DmaBufferGpuVirtualAddress" dma_buffer_gpu_virtual_address: u64,
        /// Bytes written before.
        312 "DmaBufferWriteOffset" dma_buffer_write_offset: u32,
    }

    /// Copies between GPU addresses.
    TransferVirtual = "DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL", 64 bytes {
        /// The driver's handle of the allocation.
        0 "hAllocation" allocation: u64,
        /// Offset in the allocation.
        8 "AllocationOffsetInBytes" allocation_offset: u64,
        /// Bytes.
        16 "TransferSizeInBytes" transfer_size: u64,
        /// Source.
        24 "SourceVirtualAddress" source_virtual_address: u64,
        /// Destination.
        32 "DestinationVirtualAddress" destination_virtual_address: u64,
        /// Address of the source's page table.
        40 "SourcePageTable" source_page_table: u64,
        /// Direction.
        48 "TransferDirection" transfer_direction: u32,
        /// Flags.
        52 "Flags" flags: u32,
        /// Address of the destination's page table.
        56 "DestinationPageTable" destination_page_table: u64,
    }

    /// Fills GPU addresses.
    FillVirtual = "DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL", 40 bytes {
        /// The driver's handle of the allocation.
        0 "hAllocation" allocation: u64,
        /// Offset in the allocation.
        8 "AllocationOffsetInBytes" allocation_offset: u64,
        /// Bytes.
        16 "FillSizeInBytes" fill_size: u64,
        /// The value that is repeated.
        24 "FillPattern" fill_pattern: u32,
        /// Destination.
        32 "DestinationVirtualAddress" destination_virtual_address: u64,
    }

    /// Writes page table entries.
    UpdatePageTable = "DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE", 104 bytes {
        /// Level of the table; 0 maps pages.
        0 "PageTableLevel" page_table_level: u32,
        /// The driver's handle of the table's allocation.
        8 "hAllocation" allocation: u64,
        /// CPU address of the table, the first word of the union, with the mode 0.
        16 "PageTableAddress" page_table_address: [u64; 2],
        /// Where the entries are.
        32 "pPageTableEntries" page_table_entries: u64,
        /// First entry to write.
        40 "StartIndex" start_index: u32,
        /// Number of entries.
        44 "NumPageTableEntries" entries: u32,
        /// Reserved.
        48 "Reserved0" reserved: u32,
        /// Bit 0: the first entry is written to all.
        52 "Flags" flags: u32,
        /// Protection in the driver's terms.
        56 "DriverProtection" driver_protection: u64,
        /// Offset in the allocation that is mapped.
        64 "AllocationOffsetInBytes" allocation_offset: u64,
        /// The driver's handle of the process.
        72 "hProcess" process: u64,
        /// How the table is written: 0 by the CPU.
        80 "UpdateMode" update_mode: u32,
        /// Entries of 64 KiB pages.
        88 "pPageTableEntries64KB" page_table_entries_64k: u64,
        /// GPU address of the first entry.
        96 "FirstPteVirtualAddress" first_pte_virtual_address: u64,
    }

    /// Invalidates translations.
    FlushTlb = "DXGK_BUILDPAGINGBUFFER_FLUSHTLB", 40 bytes {
        /// Segment and offset of the root page table.
        0 "RootPageTableAddress" root_page_table_address: [u64; 2],
        /// The driver's handle of the process.
        16 "hProcess" process: u64,
        /// First address.
        24 "StartVirtualAddress" start_virtual_address: u64,
        /// Last address.
        32 "EndVirtualAddress" end_virtual_address: u64,
    }
}

/// An entry of a page table. Its two words are in unions, which the headers name by their fields.
#[doc(alias = "DXGK_PTE")]
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageTableEntry {
    /// See [`PageTableEntryFlags`].
    pub flags: u64,
    /// Number of the page: its bus address divided by 4 KiB.
    pub page_address: u64,
}

bitflags::bitflags! {
    /// Bits of [`PageTableEntry`] that packet drivers use.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct PageTableEntryFlags: u64 {
        /// It maps a page or points to a table.
        const VALID = 1;
        /// Accesses are coherent with the CPUs' caches.
        const CACHE_COHERENT = 1 << 2;
        /// Stores are faults.
        const READ_ONLY = 1 << 3;
    }
}

/// Operations of [`BuildPagingBuffer`] that packet drivers have.
#[doc(alias = "DXGK_BUILDPAGINGBUFFER_OPERATION")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PagingOperation {
    /// hAllocation, TransferOffset, TransferSize, then segment and address of source and
    /// destination.
    #[doc(alias = "DXGK_OPERATION_TRANSFER")]
    Transfer = 0,
    /// hAllocation, FillSize, FillPattern, then segment and address.
    #[doc(alias = "DXGK_OPERATION_FILL")]
    Fill = 1,
    /// [`TransferVirtual`].
    #[doc(alias = "DXGK_OPERATION_VIRTUAL_TRANSFER")]
    VirtualTransfer = 8,
    /// [`FillVirtual`].
    #[doc(alias = "DXGK_OPERATION_VIRTUAL_FILL")]
    VirtualFill = 9,
    /// hAllocation, then segment, address, and at byte 32 the GPU address.
    #[doc(alias = "DXGK_OPERATION_INIT_CONTEXT_RESOURCE")]
    InitContextResource = 10,
    /// [`UpdatePageTable`].
    #[doc(alias = "DXGK_OPERATION_UPDATE_PAGE_TABLE")]
    UpdatePageTable = 11,
    /// [`FlushTlb`].
    #[doc(alias = "DXGK_OPERATION_FLUSH_TLB")]
    FlushTlb = 12,
}

published! {
    /// The last complete packet of an engine.
    QueryCurrentFence = "DXGKARG_QUERYCURRENTFENCE", 12 bytes {
        /// Its id. Out.
        0 "CurrentFence" current_fence: u32,
        /// Node ordinal. In.
        4 "NodeOrdinal" node_ordinal: u32,
        /// Physical adapter. In.
        8 "EngineOrdinal" engine_ordinal: u32,
    }

    /// Resets an engine.
    ResetEngine = "DXGKARG_RESETENGINE", 12 bytes {
        /// Node ordinal. In.
        0 "NodeOrdinal" node_ordinal: u32,
        /// Physical adapter. In.
        4 "EngineOrdinal" engine_ordinal: u32,
        /// Id of the aborted packet, or of the last complete one. Out.
        8 "LastAbortedFenceId" last_aborted_fence_id: u32,
    }

    /// Whether an engine responds.
    QueryEngineStatus = "DXGKARG_QUERYENGINESTATUS", 12 bytes {
        /// Node ordinal. In.
        0 "NodeOrdinal" node_ordinal: u32,
        /// Physical adapter. In.
        4 "EngineOrdinal" engine_ordinal: u32,
        /// Bit 0: it responds. Out.
        8 "EngineStatus" engine_status: u32,
    }

    /// The engines that are reset together.
    QueryDependentEngineGroup = "DXGKARG_QUERYDEPENDENTENGINEGROUP", 16 bytes {
        /// Node ordinal. In.
        0 "NodeOrdinal" node_ordinal: u32,
        /// Physical adapter. In.
        4 "EngineOrdinal" engine_ordinal: u32,
        /// Nodes, one bit each. Out.
        8 "DependentNodeOrdinalMask" dependent_node_ordinal_mask: u64,
    }

    /// The driver's description of its state at a recovery.
    CollectDbgInfo = "DXGKARG_COLLECTDBGINFO", 32 bytes {
        /// Code of the recovery.
        0 "Reason" reason: u32,
        /// Where it goes.
        8 "pBuffer" buffer: u64,
        /// Bytes.
        16 "BufferSize" buffer_size: u64,
        /// More of it.
        24 "pExtension" extension: u64,
    }

    /// One interrupt's data. `arm` is the union of the kinds.
    NotifyInterruptData = "DXGKARGCB_NOTIFY_INTERRUPT_DATA", 80 bytes {
        /// DXGK_INTERRUPT_TYPE.
        0 "InterruptType" interrupt_type: u32,
        /// The fields of the kind.
        8 "Reserved" arm: [u64; 8],
        /// DXGKCB_NOTIFY_INTERRUPT_DATA_FLAGS.
        72 "Flags" flags: u32,
    }

    /// Arm of [`NotifyInterruptData`] for a packet that faulted.
    DmaPageFaulted = "DXGKARGCB_NOTIFY_INTERRUPT_DATA::DmaPageFaulted", 64 bytes {
        /// Id of the packet.
        0 "FaultedFenceId" faulted_fence_id: u32,
        /// Sequence number of the primitive.
        8 "FaultedPrimitiveAPISequenceNumber" faulted_primitive_api_sequence_number: u64,
        /// Stage of a draw.
        16 "FaultedPipelineStage" faulted_pipeline_stage: u32,
        /// Row of the binding table.
        20 "FaultedBindTableEntry" faulted_bind_table_entry: u32,
        /// DXGK_PAGE_FAULT_FLAGS.
        24 "PageFaultFlags" page_fault_flags: u32,
        /// The address.
        32 "FaultedVirtualAddress" faulted_virtual_address: u64,
        /// Node ordinal.
        40 "NodeOrdinal" node_ordinal: u32,
        /// Physical adapter.
        44 "EngineOrdinal" engine_ordinal: u32,
        /// Level at which translation stopped.
        48 "PageTableLevel" page_table_level: u32,
        /// The code.
        52 "FaultErrorCode" fault_error_code: u32,
        /// Handle of the process.
        56 "FaultedProcessHandle" faulted_process_handle: u64,
    }

    /// The device, for the driver's start.
    DeviceInfo = "DXGK_DEVICE_INFO", 80 bytes {
        /// The driver's context.
        0 "MiniportDeviceContext" miniport_device_context: u64,
        /// The device object.
        8 "PhysicalDeviceObject" physical_device_object: u64,
        /// Path of the registry key: bytes, and where the text is.
        16 "DeviceRegistryPath" device_registry_path: [u64; 2],
        /// CM_RESOURCE_LIST.
        32 "TranslatedResourceList" translated_resource_list: u64,
        /// Bytes of system memory.
        40 "SystemMemorySize" system_memory_size: u64,
        /// Highest bus address of system memory.
        48 "HighestPhysicalAddress" highest_physical_address: u64,
        /// AGP.
        56 "AgpApertureBase" agp_aperture_base: u64,
        /// AGP.
        64 "AgpApertureSize" agp_aperture_size: u64,
        /// Docking.
        72 "DockingState" docking_state: u32,
    }
}

published! {
    /// An allocation, as the driver creates it.
    AllocationInfo = "DXGK_ALLOCATIONINFO", 88 bytes {
        /// Private data of the user-mode driver. In.
        0 "pPrivateDriverData" private_driver_data: u64,
        /// Its bytes. In.
        8 "PrivateDriverDataSize" private_driver_data_size: u32,
        /// Alignment. Out.
        12 "Alignment" alignment: u32,
        /// Bytes. Out.
        16 "Size" size: u64,
        /// Bytes with a row's padding. Out.
        24 "PitchAlignedSize" pitch_aligned_size: u64,
        /// Part of a segment. Out.
        32 "HintedBank" hinted_bank: u32,
        /// Segment. Out.
        36 "PreferredSegment" preferred_segment: u32,
        /// Segments to read in, one bit each. Out.
        40 "SupportedReadSegmentSet" supported_read_segment_set: u32,
        /// Segments to write in, one bit each. Out.
        44 "SupportedWriteSegmentSet" supported_write_segment_set: u32,
        /// Segments to evict to, one bit each. Out.
        48 "EvictionSegmentSet" eviction_segment_set: u32,
        /// Physical adapter. In.
        52 "PhysicalAdapterIndex" physical_adapter_index: u32,
        /// The driver's handle. Out.
        56 "hAllocation" allocation: u64,
        /// Flags. Out.
        64 "Flags" flags: u32,
        /// Hint. Out.
        72 "pAllocationUsageHint" allocation_usage_hint: u64,
        /// Priority. Out.
        80 "AllocationPriority" allocation_priority: u32,
        /// More flags. Out.
        84 "Flags2" flags2: u32,
    }

    /// Creates allocations.
    CreateAllocation = "DXGKARG_CREATEALLOCATION", 40 bytes {
        /// Private data of the resource.
        0 "pPrivateDriverData" private_driver_data: u64,
        /// Its bytes.
        8 "PrivateDriverDataSize" private_driver_data_size: u32,
        /// Number of allocations.
        12 "NumAllocations" allocations: u32,
        /// Where they are.
        16 "pAllocationInfo" allocation_info: u64,
        /// The driver's handle of the resource; 0 for none. In and out.
        24 "hResource" resource: u64,
        /// Bit 0: a resource is created.
        32 "Flags" flags: u32,
    }

    /// Destroys allocations.
    DestroyAllocation = "DXGKARG_DESTROYALLOCATION", 32 bytes {
        /// Number of allocations.
        0 "NumAllocations" allocations: u32,
        /// The driver's handles of them.
        8 "pAllocationList" allocation_list: u64,
        /// The driver's handle of the resource.
        16 "hResource" resource: u64,
        /// Bit 0: the resource is destroyed.
        24 "Flags" flags: u32,
    }

    /// An allocation, as a device opens it.
    OpenAllocationInfo = "DXGK_OPENALLOCATIONINFO", 32 bytes {
        /// The kernel's handle.
        0 "hAllocation" allocation: u32,
        /// Private data of the user-mode driver.
        8 "pPrivateDriverData" private_driver_data: u64,
        /// Its bytes.
        16 "PrivateDriverDataSize" private_driver_data_size: u32,
        /// The device's handle of it. Out.
        24 "hDeviceSpecificAllocation" device_specific_allocation: u64,
    }

    /// Opens allocations for a device.
    OpenAllocation = "DXGKARG_OPENALLOCATION", 56 bytes {
        /// Number of allocations.
        0 "NumAllocations" allocations: u32,
        /// Where they are.
        8 "pOpenAllocation" open_allocation: u64,
        /// Private data of the resource.
        16 "pPrivateDriverData" private_driver_data: u64,
        /// Its bytes.
        24 "PrivateDriverSize" private_driver_size: u32,
        /// Bit 0: the allocations are created.
        28 "Flags" flags: u32,
        /// Subresource.
        32 "SubresourceIndex" subresource_index: u32,
        /// Its offset.
        40 "SubresourceOffset" subresource_offset: u64,
        /// Bytes of a row.
        48 "Pitch" pitch: u32,
    }

    /// Closes allocations of a device.
    CloseAllocation = "DXGKARG_CLOSEALLOCATION", 16 bytes {
        /// Number of allocations.
        0 "NumAllocations" allocations: u32,
        /// The device's handles of them.
        8 "pOpenHandleList" open_handle_list: u64,
    }
}

/// A version of the driver interface: a value of DXGKDDI_INTERFACE_VERSION, with the sizes of the
/// structures that grow with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceVersion {
    /// The number, which is Version of DRIVER_INITIALIZATION_DATA.
    pub number: u32,
    /// The driver model: major and minor number.
    pub wddm: (u8, u8),
    /// Bytes of DRIVER_INITIALIZATION_DATA.
    pub initialization_data_bytes: u32,
    /// Bytes of DXGKRNL_INTERFACE.
    pub interface_bytes: u32,
    /// Bytes of DXGK_DRIVERCAPS.
    pub driver_caps_bytes: u32,
}

const fn version(number: u32, wddm: (u8, u8), bytes: [u32; 3]) -> InterfaceVersion {
    let [initialization_data_bytes, interface_bytes, driver_caps_bytes] = bytes;
    InterfaceVersion { number, wddm, initialization_data_bytes, interface_bytes, driver_caps_bytes }
}

/// The versions from WDDM 1.2 on.
#[doc(alias = "DXGKDDI_INTERFACE_VERSION")]
pub const INTERFACE_VERSIONS: &[InterfaceVersion] = &[
    version(0x300E, (1, 2), [664, 256, 544]),
    version(0x4002, (1, 3), [712, 264, 552]),
    version(0x5023, (2, 0), [832, 312, 576]),
    version(0x6003, (2, 1), [880, 328, 576]),
    version(0x700A, (2, 2), [1032, 360, 576]),
    version(0x8001, (2, 3), [1056, 368, 576]),
    version(0x9006, (2, 4), [1152, 456, 584]),
    version(0xA00B, (2, 5), [1192, 464, 584]),
    version(0xB004, (2, 6), [1224, 480, 584]),
    version(0xC004, (2, 7), [1232, 480, 584]),
    version(0xD001, (2, 8), [1232, 488, 584]),
    version(0xE003, (2, 9), [1264, 568, 592]),
    version(0xF003, (3, 0), [1296, 568, 592]),
    version(0x1_0004, (3, 1), [1376, 576, 592]),
    version(0x1_1007, (3, 2), [1544, 576, 592]),
];

impl InterfaceVersion {
    /// Returns the version with this number. The low 12 bits count revisions of a version: one
    /// page has 0x6002 for the version that the bindings have as 0x6003. `None` for a version that
    /// is not in the list.
    pub fn of_number(number: u32) -> Option<&'static InterfaceVersion> {
        INTERFACE_VERSIONS.iter().find(|version| version.number >> 12 == number >> 12)
    }
}
