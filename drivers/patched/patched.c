/*
 * A packet driver of WDDM 1.2, or of a later version, for the software GPU: packets with physical
 * addresses, which it patches, preemption, recovery of engines and of the adapter, flips.
 *
 * drivers/packet has rings, interrupts, preemption and recovery. This file has what differs without
 * GPU virtual addresses: segments, contexts, allocations, paging, DxgkDdiRender, DxgkDdiPatch,
 * DxgkDdiSubmitCommand.
 *
 * Binding table: operand n of a command has slot n. A command binds its slots at split points
 * before it, and unbinds them at split points after it, so no part of a buffer inherits a binding.
 * A split point is a label: the state of an engine that a part must set again.
 *
 * -DWINDOWS_7_MODEL makes the driver one that is not preemption aware.
 */
#ifndef DXGKDDI_INTERFACE_VERSION
#define DXGKDDI_INTERFACE_VERSION DXGKDDI_INTERFACE_VERSION_WIN8
#endif
#define VIRTUAL_ADDRESSES 0
#ifndef OTHER_DRIVER_ENTRY
#define OTHER_DRIVER_ENTRY
#define PATCHED_DRIVER_ENTRY
#endif
#include "../packet/packet.c"

/* Segment 1 is system memory as the device reaches it, segment 2 the local memory. */
#define SEGMENT_SYSTEM 1u
#define SEGMENT_LOCAL 2u
#define SYSTEM_BYTES 0x10000000000ull
#define LAST_SLOT 31u
#ifndef BUFFER_BYTES
#define BUFFER_BYTES 16384u
#endif
#ifndef LIST_ENTRIES
#define LIST_ENTRIES 512u
#endif
/* Entry 0 of an allocation list is no allocation. */
#define NO_ALLOCATION 0u

/* What the driver keeps with a DMA buffer. */
typedef struct _BUFFER_DATA {
    ULONG Patches;
    ULONG Submissions;
} BUFFER_DATA;

/*
 * Memory of a process: the user-mode driver passes its bytes as the private data of its allocation.
 * Passes with two words are surfaces.
 */
typedef struct _MEMORY {
    ULONG64 Bytes;
    LONG Opens;
} MEMORY, *PMEMORY;

/* What a device has of it: hDeviceSpecificAllocation. */
typedef struct _OPENED {
    PDEVICE Device;
    PMEMORY Memory;
} OPENED, *POPENED;

/* Capabilities */

static NTSTATUS DescribePatchedDriver(PADAPTER adapter, const DXGKARG_QUERYADAPTERINFO *query) {
    DXGK_DRIVERCAPS *caps = (DXGK_DRIVERCAPS *)query->pOutputData;
    if (query->OutputDataSize < sizeof(*caps)) {
        return STATUS_BUFFER_TOO_SMALL;
    }
    RtlZeroMemory(caps, sizeof(*caps));
    caps->WDDMVersion = DXGKDDI_WDDMv1_2;
    caps->HighestAcceptableAddress.QuadPart = -1;
    caps->MaxAllocationListSlotId = LAST_SLOT;
    caps->SchedulingCaps.MultiEngineAware = 1;
    caps->SchedulingCaps.CancelCommandAware = 1;
    caps->GpuEngineTopology.NbAsymetricProcessingNodes = adapter->Nodes;
    caps->FlipCaps.FlipOnVSyncMmIo = 1;
    caps->MaxQueuedFlipOnVSync = 1;
#ifndef WINDOWS_7_MODEL
    caps->SchedulingCaps.PreemptionAware = 1;
    caps->PreemptionCaps.GraphicsPreemptionGranularity =
        D3DKMDT_GRAPHICS_PREEMPTION_DMA_BUFFER_BOUNDARY;
    caps->PreemptionCaps.ComputePreemptionGranularity =
        D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY;
#endif
    caps->SupportPerEngineTDR = TRUE;
    return STATUS_SUCCESS;
}

/* From WDDM 2.0 on the descriptors have another form. */
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
typedef DXGK_QUERYSEGMENTOUT4 SEGMENTS;
typedef DXGK_SEGMENTDESCRIPTOR4 SEGMENT;
#define QUERY_SEGMENTS DXGKQAITYPE_QUERYSEGMENT4
#else
typedef DXGK_QUERYSEGMENTOUT3 SEGMENTS;
typedef DXGK_SEGMENTDESCRIPTOR3 SEGMENT;
#define QUERY_SEGMENTS DXGKQAITYPE_QUERYSEGMENT3
#endif

static NTSTATUS DescribePhysicalSegments(
    PADAPTER adapter, const DXGKARG_QUERYADAPTERINFO *query) {
    SEGMENTS *out = (SEGMENTS *)query->pOutputData;
    SEGMENT *segments = (SEGMENT *)out->pSegmentDescriptor;
    out->NbSegment = 2;
    out->PagingBufferSegmentId = SEGMENT_SYSTEM;
    out->PagingBufferSize = PAGE_SIZE;
    out->PagingBufferPrivateDataSize = 0;
    if (segments != NULL) {
        SEGMENT *system = &segments[SEGMENT_SYSTEM - 1];
        SEGMENT *local = &segments[SEGMENT_LOCAL - 1];
        system->Flags.PopulatedFromSystemMemory = 1;
        system->Flags.CpuVisible = 1;
        system->Flags.CacheCoherent = 1;
        system->Size = SYSTEM_BYTES;
        system->CommitLimit = SYSTEM_BYTES;
        local->Flags.CpuVisible = 1;
        local->BaseAddress.QuadPart = (LONGLONG)Read(adapter, REG_LOCAL_MEMORY_BASE);
        local->CpuTranslatedAddress = local->BaseAddress;
        local->Size = Read(adapter, REG_LOCAL_MEMORY_BYTES);
        local->CommitLimit = local->Size;
    }
    return STATUS_SUCCESS;
}

static NTSTATUS QueryPatchedAdapterInfo(
    HANDLE hAdapter, const DXGKARG_QUERYADAPTERINFO *pQueryAdapterInfo) {
    PADAPTER adapter = (PADAPTER)hAdapter;
    PAGED_CODE();
    switch (pQueryAdapterInfo->Type) {
    case DXGKQAITYPE_DRIVERCAPS:
        return DescribePatchedDriver(adapter, pQueryAdapterInfo);
    case QUERY_SEGMENTS:
        return DescribePhysicalSegments(adapter, pQueryAdapterInfo);
    case DXGKQAITYPE_NUMPOWERCOMPONENTS:
        return CountComponents(adapter, pQueryAdapterInfo);
    default:
        return STATUS_NOT_SUPPORTED;
    }
}

static NTSTATUS CreatePatchedContext(HANDLE hDevice, DXGKARG_CREATECONTEXT *pCreateContext) {
    PDEVICE device = (PDEVICE)hDevice;
    PCONTEXT context;
    PAGED_CODE();
    if (pCreateContext->NodeOrdinal >= device->Adapter->Nodes) {
        return STATUS_INVALID_PARAMETER;
    }
    context = (PCONTEXT)ExAllocatePoolZero(NonPagedPoolNx, sizeof(*context), TAG);
    if (context == NULL) {
        return STATUS_NO_MEMORY;
    }
    context->Device = device;
    context->Kernel = pCreateContext->hContext;
    context->Node = pCreateContext->NodeOrdinal;
    pCreateContext->hContext = context;
    pCreateContext->ContextInfo.DmaBufferSize = BUFFER_BYTES;
    pCreateContext->ContextInfo.DmaBufferSegmentSet = 1u << (SEGMENT_SYSTEM - 1);
    pCreateContext->ContextInfo.DmaBufferPrivateDataSize = sizeof(BUFFER_DATA);
    pCreateContext->ContextInfo.AllocationListSize = 512;
    pCreateContext->ContextInfo.PatchLocationListSize = LIST_ENTRIES;
    return STATUS_SUCCESS;
}

/* Paging */

/*
 * Operations with addresses of segments. The segment of system memory begins at bus address 0, and
 * the one of local memory where the bus has it, so each address is one of the bus.
 */
static NTSTATUS BuildPhysicalPagingBuffer(
    HANDLE hAdapter, DXGKARG_BUILDPAGINGBUFFER *pBuildPagingBuffer) {
    DXGKARG_BUILDPAGINGBUFFER *args = pBuildPagingBuffer;
    PAGED_CODE();
    UNREFERENCED_PARAMETER(hAdapter);
    switch (args->Operation) {
    case DXGK_OPERATION_TRANSFER:
        /* Every allocation has a segment, so none is described by pages. */
        if (args->Transfer.Source.SegmentId == 0 || args->Transfer.Destination.SegmentId == 0) {
            return STATUS_NOT_SUPPORTED;
        }
        return AppendCopies(
            args,
            (ULONG64)args->Transfer.Source.SegmentAddress.QuadPart + args->Transfer.TransferOffset,
            (ULONG64)args->Transfer.Destination.SegmentAddress.QuadPart +
                args->Transfer.TransferOffset,
            args->Transfer.TransferSize);
    case DXGK_OPERATION_FILL:
        /* The device fills whole words; allocations end with a page. */
        return Append(
            args, GPU_FILL, (ULONG64)args->Fill.Destination.SegmentAddress.QuadPart,
            (args->Fill.FillSize + 3) & ~(SIZE_T)3, args->Fill.FillPattern);
    case DXGK_OPERATION_DISCARD_CONTENT:
        return STATUS_SUCCESS;
    default:
        return STATUS_NOT_SUPPORTED;
    }
}

/* DMA buffers */

/* A DMA buffer under construction. */
typedef struct _BUILDER {
    DXGKARG_RENDER *Args;
    PUCHAR Start;
    PUCHAR Next;
    PUCHAR End;
    D3DDDI_PATCHLOCATIONLIST *NextLocation;
    D3DDDI_PATCHLOCATIONLIST *EndLocation;
    ULONG64 Label;
} BUILDER;

static UINT Here(const BUILDER *builder) {
    return (UINT)(builder->Next - builder->Start);
}

/* Appends a split point, and an entry of the patch list for it. The caller has checked the room. */
static D3DDDI_PATCHLOCATIONLIST *Split(BUILDER *builder) {
    D3DDDI_PATCHLOCATIONLIST *location = builder->NextLocation++;
    ULONG64 words[2];
    RtlZeroMemory(location, sizeof(*location));
    location->SplitOffset = Here(builder);
    words[0] = GPU_LABEL;
    words[1] = builder->Label;
    RtlCopyMemory(builder->Next, words, LABEL_BYTES);
    builder->Next += LABEL_BYTES;
    return location;
}

/* Returns how many addresses a command always has, or -1 for one that no packet may have. */
static INT LeastAddresses(ULONG opcode, const ULONG64 *words) {
    switch (opcode) {
    case OPCODE_COPY:
    case OPCODE_RESOLVE:
        return 2;
    case OPCODE_FILL:
    case OPCODE_WRITE_VALUE:
    case OPCODE_TIMESTAMP:
    case OPCODE_DISPATCH_INDIRECT:
        return 1;
    case OPCODE_PREDICATE:
        /* A predicate ends with a part, so a part after it would run what it skips. */
        return words[1] == 0 ? 0 : -1;
    default:
        return opcode >= OPCODE_WAIT_FENCE ? -1 : 0;
    }
}

/*
 * Copies a command whose addresses are the entries from `in` on. Returns FALSE without an effect if
 * there is no room.
 */
static BOOLEAN AppendCommand(
    BUILDER *builder, const ULONG64 *words, UINT bytes, UINT offset,
    const D3DDDI_PATCHLOCATIONLIST *in, UINT operands) {
    UINT at, i;
    D3DDDI_PATCHLOCATIONLIST *location;
    SIZE_T needed = bytes + (SIZE_T)2 * operands * LABEL_BYTES;
    if ((SIZE_T)(builder->End - builder->Next) < needed ||
        (SIZE_T)(builder->EndLocation - builder->NextLocation) < (SIZE_T)2 * operands) {
        return FALSE;
    }
    at = Here(builder) + operands * LABEL_BYTES;
    for (i = 0; i < operands; i++) {
        location = Split(builder);
        location->AllocationIndex = in[i].AllocationIndex;
        location->SlotId = i;
        location->DriverId = in[i].DriverId;
        location->AllocationOffset = in[i].AllocationOffset;
        location->PatchOffset = at + (in[i].PatchOffset - offset);
    }
    RtlCopyMemory(builder->Next, words, bytes);
    builder->Next += bytes;
    for (i = 0; i < operands; i++) {
        location = Split(builder);
        location->AllocationIndex = NO_ALLOCATION;
        location->SlotId = i;
    }
    return TRUE;
}

/* Allocations */

static NTSTATUS CreateAllocation(HANDLE hAdapter, DXGKARG_CREATEALLOCATION *pCreateAllocation) {
    DXGK_ALLOCATIONINFO *info = pCreateAllocation->pAllocationInfo;
    PMEMORY memory;
    PAGED_CODE();
    if (pCreateAllocation->NumAllocations != 1 ||
        info->PrivateDriverDataSize != sizeof(memory->Bytes)) {
        return CreateSurfaces(hAdapter, pCreateAllocation);
    }
    memory = (PMEMORY)ExAllocatePoolZero(NonPagedPoolNx, sizeof(*memory), TAG);
    if (memory == NULL) {
        return STATUS_NO_MEMORY;
    }
    RtlCopyMemory(&memory->Bytes, info->pPrivateDriverData, sizeof(memory->Bytes));
    info->Alignment = PAGE_SIZE;
    info->Size = (SIZE_T)memory->Bytes;
    info->PreferredSegment.SegmentId0 = SEGMENT_LOCAL;
    info->SupportedReadSegmentSet = info->SupportedWriteSegmentSet =
        1u << (SEGMENT_SYSTEM - 1) | 1u << (SEGMENT_LOCAL - 1);
    info->hAllocation = memory;
    return STATUS_SUCCESS;
}

static NTSTATUS OpenAllocation(HANDLE hDevice, const DXGKARG_OPENALLOCATION *pOpenAllocation) {
    DXGK_OPENALLOCATIONINFO *info = pOpenAllocation->pOpenAllocation;
    PDEVICE device = (PDEVICE)hDevice;
    DXGKARGCB_GETHANDLEDATA query;
    PMEMORY memory;
    POPENED opened;
    PAGED_CODE();
    if (pOpenAllocation->NumAllocations != 1) {
        return STATUS_INVALID_PARAMETER;
    }
    RtlZeroMemory(&query, sizeof(query));
    query.hObject = info->hAllocation;
    query.Type = DXGK_HANDLE_ALLOCATION;
    memory = (PMEMORY)device->Adapter->Kernel.DxgkCbGetHandleData(&query);
    if (memory == NULL) {
        return STATUS_INVALID_PARAMETER;
    }
    opened = (POPENED)ExAllocatePoolZero(NonPagedPoolNx, sizeof(*opened), TAG);
    if (opened == NULL) {
        return STATUS_NO_MEMORY;
    }
    opened->Device = device;
    opened->Memory = memory;
    InterlockedIncrement(&memory->Opens);
    info->hDeviceSpecificAllocation = opened;
    return STATUS_SUCCESS;
}

static NTSTATUS CloseAllocation(HANDLE hDevice, const DXGKARG_CLOSEALLOCATION *pCloseAllocation) {
    UINT i;
    PAGED_CODE();
    for (i = 0; i < pCloseAllocation->NumAllocations; i++) {
        POPENED opened = (POPENED)pCloseAllocation->pOpenHandleList[i];
        NT_ASSERT(opened->Device == (PDEVICE)hDevice);
        NT_ASSERT(opened->Memory->Opens > 0);
        InterlockedDecrement(&opened->Memory->Opens);
        ExFreePoolWithTag(opened, TAG);
    }
    UNREFERENCED_PARAMETER(hDevice);
    return STATUS_SUCCESS;
}

/* Whether an entry of an allocation list has the bytes from an offset on. */
static BOOLEAN HasOffset(const DXGK_ALLOCATIONLIST *allocation, UINT offset) {
    const OPENED *opened = (const OPENED *)allocation->hDeviceSpecificAllocation;
    return opened != NULL && offset < opened->Memory->Bytes;
}

/* Buffers */

static NTSTATUS Render(HANDLE hContext, DXGKARG_RENDER *pRender) {
    const UCHAR *commands = (const UCHAR *)pRender->pCommand;
    const D3DDDI_PATCHLOCATIONLIST *in = pRender->pPatchLocationListIn;
    UINT offset = 0, entry = 0;
    BUILDER builder;
    PAGED_CODE();
    UNREFERENCED_PARAMETER(hContext);
    builder.Args = pRender;
    builder.Start = builder.Next = (PUCHAR)pRender->pDmaBuffer;
    builder.End = builder.Start + pRender->DmaSize;
    builder.NextLocation = pRender->pPatchLocationListOut;
    builder.EndLocation = builder.NextLocation + pRender->PatchLocationListOutSize;
    builder.Label = 0;
    while (offset < pRender->CommandLength) {
        ULONG64 words[64];
        ULONG opcode;
        UINT bytes, operands = 0;
        INT least;
        /* Commands are memory of the process, so each word is read once. */
        RtlCopyMemory(words, commands + offset, sizeof(words[0]));
        opcode = (ULONG)(words[0] & 0xFFFF);
        bytes = (UINT)(words[0] >> 16 & 0xFFFF) * sizeof(words[0]);
        if (bytes == 0 || bytes > sizeof(words) || bytes > pRender->CommandLength - offset) {
            return STATUS_INVALID_PARAMETER;
        }
        RtlCopyMemory(words + 1, commands + offset + sizeof(words[0]), bytes - sizeof(words[0]));
        while (entry + operands < pRender->PatchLocationListInSize &&
               in[entry + operands].PatchOffset < offset + bytes) {
            const D3DDDI_PATCHLOCATIONLIST *location = &in[entry + operands];
            if (location->PatchOffset <= offset || location->PatchOffset % sizeof(words[0]) != 0 ||
                location->AllocationIndex >= pRender->AllocationListSize ||
                location->AllocationIndex == NO_ALLOCATION ||
                !HasOffset(
                    &pRender->pAllocationList[location->AllocationIndex],
                    location->AllocationOffset)) {
                return STATUS_INVALID_PARAMETER;
            }
            operands++;
        }
        least = LeastAddresses(opcode, words);
        if (least < 0 || operands < (UINT)least || operands > LAST_SLOT + 1) {
            return STATUS_INVALID_PARAMETER;
        }
        if (opcode == OPCODE_LABEL && bytes == LABEL_BYTES) {
            builder.Label = words[1];
        }
        if (offset >= pRender->MultipassOffset &&
            !AppendCommand(&builder, words, bytes, offset, in + entry, operands)) {
            /* Another pass continues with this command, if it fits an empty buffer at all. */
            if (builder.Next != builder.Start) {
                pRender->MultipassOffset = offset;
            }
            break;
        }
        offset += bytes;
        entry += operands;
    }
    pRender->pDmaBuffer = builder.Next;
    pRender->pPatchLocationListOut = builder.NextLocation;
    pRender->pDmaBufferPrivateData =
        (PUCHAR)pRender->pDmaBufferPrivateData + sizeof(BUFFER_DATA);
    return offset < pRender->CommandLength ? STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER
                                           : STATUS_SUCCESS;
}

static NTSTATUS Patch(HANDLE hAdapter, const DXGKARG_PATCH *pPatch) {
    BUFFER_DATA *data = (BUFFER_DATA *)pPatch->pDmaBufferPrivateData;
    UINT i;
    PAGED_CODE();
    UNREFERENCED_PARAMETER(hAdapter);
    for (i = 0; i < pPatch->PatchLocationListSubmissionLength; i++) {
        const D3DDDI_PATCHLOCATIONLIST *location =
            &pPatch->pPatchLocationList[pPatch->PatchLocationListSubmissionStart + i];
        const DXGK_ALLOCATIONLIST *allocation =
            &pPatch->pAllocationList[location->AllocationIndex];
        ULONG64 address;
        if (location->AllocationIndex == NO_ALLOCATION ||
            location->PatchOffset < pPatch->DmaBufferSubmissionStartOffset ||
            location->PatchOffset >= pPatch->DmaBufferSubmissionEndOffset) {
            continue;
        }
        if (allocation->SegmentId == 0 || !HasOffset(allocation, location->AllocationOffset)) {
            return STATUS_INVALID_PARAMETER; /* not paged in, or not open */
        }
        address = (ULONG64)allocation->PhysicalAddress.QuadPart + location->AllocationOffset;
        RtlCopyMemory(
            (PUCHAR)pPatch->pDmaBuffer + location->PatchOffset, &address, sizeof(address));
    }
    if (data != NULL) {
        data->Patches++;
    }
    return STATUS_SUCCESS;
}

static NTSTATUS SubmitCommand(HANDLE hAdapter, const DXGKARG_SUBMITCOMMAND *pSubmitCommand) {
    BUFFER_DATA *data = (BUFFER_DATA *)pSubmitCommand->pDmaBufferPrivateData;
    PACKET packet;
    packet.Commands = (ULONG64)pSubmitCommand->DmaBufferPhysicalAddress.QuadPart +
                      pSubmitCommand->DmaBufferSubmissionStartOffset;
    packet.Bytes = pSubmitCommand->DmaBufferSubmissionEndOffset -
                   pSubmitCommand->DmaBufferSubmissionStartOffset;
    packet.Space = 0;
    packet.Flags = DMA_PHYSICAL;
    packet.FenceId = pSubmitCommand->SubmissionFenceId;
    if (pSubmitCommand->Flags.ContextSwitch) {
        packet.Flags = DMA_CONTEXT_SWITCH;
        packet.Bytes = 0;
    }
    if (pSubmitCommand->Flags.Resubmission) {
        packet.Flags |= DMA_RESUME;
    }
    if (data != NULL) {
        data->Submissions++;
        /* The same part may be submitted again without a new patch, but never before the first. */
        NT_ASSERT(data->Patches > 0);
    }
    return Submit((PADAPTER)hAdapter, (PCONTEXT)pSubmitCommand->hContext, &packet);
}

/* Entry */

static VOID FillPatchedEntries(PDRIVER_INITIALIZATION_DATA entries) {
    FillEntries(entries);
    entries->DxgkDdiQueryAdapterInfo = QueryPatchedAdapterInfo;
    entries->DxgkDdiCreateContext = CreatePatchedContext;
    entries->DxgkDdiBuildPagingBuffer = BuildPhysicalPagingBuffer;
    entries->DxgkDdiCreateAllocation = CreateAllocation;
    entries->DxgkDdiOpenAllocation = OpenAllocation;
    entries->DxgkDdiCloseAllocation = CloseAllocation;
    entries->DxgkDdiRender = Render;
    entries->DxgkDdiPatch = Patch;
    entries->DxgkDdiSubmitCommand = SubmitCommand;
#ifdef WINDOWS_7_MODEL
    entries->DxgkDdiPreemptCommand = NULL;
#endif
}

#ifdef PATCHED_DRIVER_ENTRY
NTSTATUS DriverEntry(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath) {
    DRIVER_INITIALIZATION_DATA data;
    PAGED_CODE();
    FillPatchedEntries(&data);
    return DxgkInitialize(DriverObject, RegistryPath, &data);
}
#endif
