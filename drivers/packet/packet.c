/*
 * A packet driver of WDDM 2.0 for the software GPU: GPU virtual addresses, preemption, recovery of
 * engines and of the adapter, flips of a display if the device has one.
 *
 * Compiled for a version before 2.0 it has everything but packets, contexts and paging, which
 * drivers/patched adds with physical addresses.
 *
 * Locks:
 * - the interrupt level (the interrupt routine, and DxgkCbSynchronizeExecution) guards Reported;
 * - a node's lock guards its ring and Submitted;
 * - the mailbox lock guards the mailbox registers.
 * They are taken in the order node, interrupt level, mailbox.
 *
 * A command that the device answers with "pending" is repeated at PASSIVE level without a lock.
 *
 * drivers/native and drivers/patched include this file. EXTENSION has what native adds.
 */
#ifndef DXGKDDI_INTERFACE_VERSION
#define DXGKDDI_INTERFACE_VERSION DXGKDDI_INTERFACE_VERSION_WDDM2_0
#endif
#include <ntddk.h>
#include <dispmprt.h>
#include "gpu.h"

#ifndef VIRTUAL_ADDRESSES
#define VIRTUAL_ADDRESSES (DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0)
#endif

#define TAG 0x746B6370u /* 'pckt' */
#define RING_SLOTS 64u
/* The most bytes that one command of a transfer copies. */
#ifndef COPY_BYTES
#define COPY_BYTES 0x100000u
#endif
#define SEGMENT_APERTURE 1u
#define APERTURE_BYTES 0x100000000

typedef struct _NODE {
    ULONG64 *Slots;
    volatile ULONG64 *Control;
    ULONG64 Written;
    ULONG64 Queue;
    KSPIN_LOCK Lock;
    ULONG Submitted;
    ULONG Reported;
} NODE;

typedef struct _ADAPTER *PADAPTER;

/* What an including driver does; NULL without one. */
typedef struct _EXTENSION {
    /* Serves the causes of hardware queues, in the interrupt routine. */
    VOID (*ServeCause)(PADAPTER adapter, ULONG64 cause);
    /* Reports a fault of a queue that is not a node's, in the interrupt routine. */
    VOID (*ReportFault)(
        PADAPTER adapter, ULONG64 queue, ULONG64 progress, ULONG64 address, UCHAR kind);
    /* A reset of the node's engine cut off a queue: its number plus 1, or 0 for none. */
    NTSTATUS (*EngineWasReset)(PADAPTER adapter, ULONG node, ULONG64 cutOff, BOOLEAN collateral);
} EXTENSION;

typedef struct _ADAPTER {
    const EXTENSION *Extension;
    DXGKRNL_INTERFACE Kernel;
    PUCHAR Registers;
    ULONG Nodes;
    BOOLEAN Coherent;
    BOOLEAN Display;
    KSPIN_LOCK MailboxLock;
    LONG LastSpace;
    NODE Node[MAX_NODES];
} ADAPTER;

typedef struct _PROCESS {
    ULONG Space;
} PROCESS, *PPROCESS;

typedef struct _DEVICE {
    PADAPTER Adapter;
    PPROCESS Process;
} DEVICE, *PDEVICE;

typedef struct _CONTEXT {
    PDEVICE Device;
    HANDLE Kernel;
    UINT Node;
} CONTEXT, *PCONTEXT;

/* Registers and the mailbox */

static ULONG64 Read(PADAPTER adapter, ULONG number) {
    return READ_REGISTER_ULONG64((volatile ULONG64 *)(adapter->Registers + 8 * (SIZE_T)number));
}

static VOID Write(PADAPTER adapter, ULONG number, ULONG64 value) {
    WRITE_REGISTER_ULONG64(
        (volatile ULONG64 *)(adapter->Registers + 8 * (SIZE_T)number), value);
}

typedef struct _COMMAND {
    ULONG64 Words[MAILBOX_WORDS];
    ULONG64 Result;
    ULONG64 Second;
    BOOLEAN HasSecond;
} COMMAND;

/* Runs a command once, at DISPATCH level or below. Returns the device's status. */
static ULONG64 Exchange(PADAPTER adapter, COMMAND *command) {
    KIRQL level;
    ULONG64 status;
    ULONG i;
    KeAcquireSpinLock(&adapter->MailboxLock, &level);
    for (i = 0; i < MAILBOX_WORDS; i++) {
        Write(adapter, REG_MAILBOX + i, command->Words[i]);
    }
    Write(adapter, REG_MAILBOX_RUN, 1);
    status = Read(adapter, REG_MAILBOX_STATUS);
    command->Result = Read(adapter, REG_MAILBOX_RESULT);
    if (command->HasSecond) {
        command->Second = Read(adapter, REG_MAILBOX_RESULT_HIGH);
    }
    KeReleaseSpinLock(&adapter->MailboxLock, level);
    return status;
}

static VOID Fill(COMMAND *command, ULONG64 number, ULONG64 first, ULONG64 second, ULONG64 third) {
    RtlZeroMemory(command, sizeof(*command));
    command->Words[0] = number;
    command->Words[1] = first;
    command->Words[2] = second;
    command->Words[3] = third;
}

/* Runs a command that is never pending. */
static NTSTATUS Run(PADAPTER adapter, COMMAND *command) {
    ULONG64 status = Exchange(adapter, command);
    return status == 0 ? STATUS_SUCCESS : STATUS_UNSUCCESSFUL;
}

/* Runs a command to its end. Returns the device's status. */
static ULONG64 Finish(PADAPTER adapter, COMMAND *command) {
    ULONG64 status;
    BOOLEAN stops = FALSE, hasSecond = command->HasSecond;
    PAGED_CODE();
    status = Exchange(adapter, command);
    while (status == MAILBOX_PENDING) {
        LARGE_INTEGER interval;
        ULONG64 ticket = command->Result;
        interval.QuadPart = -10; /* 1 microsecond */
        stops = KeDelayExecutionThread(KernelMode, FALSE, &interval) != STATUS_SUCCESS;
        Fill(command, CMD_CONTINUE, ticket, stops, 0);
        command->HasSecond = hasSecond;
        status = Exchange(adapter, command);
    }
    return status;
}

static NTSTATUS Complete(PADAPTER adapter, COMMAND *command) {
    return Finish(adapter, command) == 0 ? STATUS_SUCCESS : STATUS_UNSUCCESSFUL;
}

static NTSTATUS CompleteWith(
    PADAPTER adapter, ULONG64 number, ULONG64 first, ULONG64 second) {
    COMMAND command;
    Fill(&command, number, first, second, 0);
    return Complete(adapter, &command);
}

/* Start and stop */

static NTSTATUS StartNode(PADAPTER adapter, ULONG number) {
    NODE *node = &adapter->Node[number];
    PHYSICAL_ADDRESS lowest, highest, none;
    COMMAND command;
    lowest.QuadPart = 0;
    highest.QuadPart = -1;
    none.QuadPart = 0;
    RtlZeroMemory(node, sizeof(*node));
    KeInitializeSpinLock(&node->Lock);
    node->Slots = (ULONG64 *)MmAllocateContiguousMemorySpecifyCache(
        RING_SLOTS * SLOT_WORDS * sizeof(ULONG64), lowest, highest, none, MmCached);
    node->Control = (volatile ULONG64 *)MmAllocateContiguousMemorySpecifyCache(
        CONTROL_BYTES, lowest, highest, none, MmNonCached);
    if (node->Slots == NULL || node->Control == NULL) {
        return STATUS_INSUFFICIENT_RESOURCES;
    }
    Fill(&command, CMD_CREATE_QUEUE, number, QUEUE_KIND_NODE, 0);
    command.Words[4] = (ULONG64)MmGetPhysicalAddress(node->Slots).QuadPart;
    command.Words[5] = RING_SLOTS;
    command.Words[6] = (ULONG64)MmGetPhysicalAddress((PVOID)node->Control).QuadPart;
    command.Words[9] = BAND_NORMAL;
    if (!NT_SUCCESS(Run(adapter, &command))) {
        return STATUS_UNSUCCESSFUL;
    }
    node->Queue = command.Result;
    return STATUS_SUCCESS;
}

static VOID StopNode(PADAPTER adapter, ULONG number) {
    NODE *node = &adapter->Node[number];
    if (node->Queue != 0 || number < adapter->Nodes) {
        (void)CompleteWith(adapter, CMD_DESTROY_QUEUE, node->Queue, 0);
    }
    if (node->Slots != NULL) {
        MmFreeContiguousMemory(node->Slots);
    }
    if (node->Control != NULL) {
        MmFreeContiguousMemory((PVOID)node->Control);
    }
    RtlZeroMemory(node, sizeof(*node));
}

/* Allocates an adapter with what an including driver keeps after it. */
static PADAPTER NewAdapter(SIZE_T bytes) {
    PADAPTER adapter = (PADAPTER)ExAllocatePoolZero(NonPagedPoolNx, bytes, TAG);
    if (adapter != NULL) {
        KeInitializeSpinLock(&adapter->MailboxLock);
    }
    return adapter;
}

static NTSTATUS AddDevice(
    const PDEVICE_OBJECT PhysicalDeviceObject, PVOID *MiniportDeviceContext) {
    PAGED_CODE();
    UNREFERENCED_PARAMETER(PhysicalDeviceObject);
    *MiniportDeviceContext = NewAdapter(sizeof(ADAPTER));
    return *MiniportDeviceContext == NULL ? STATUS_NO_MEMORY : STATUS_SUCCESS;
}

static NTSTATUS MapRegisters(PADAPTER adapter) {
    DXGK_DEVICE_INFO device;
    PCM_PARTIAL_RESOURCE_LIST resources;
    ULONG i;
    NTSTATUS status =
        adapter->Kernel.DxgkCbGetDeviceInformation(adapter->Kernel.DeviceHandle, &device);
    if (!NT_SUCCESS(status)) {
        return status;
    }
    resources = &device.TranslatedResourceList->List[0].PartialResourceList;
    for (i = 0; i < resources->Count; i++) {
        PCM_PARTIAL_RESOURCE_DESCRIPTOR resource = &resources->PartialDescriptors[i];
        if (resource->Type == CmResourceTypeMemory) {
            return adapter->Kernel.DxgkCbMapMemory(
                adapter->Kernel.DeviceHandle, resource->u.Memory.Start, resource->u.Memory.Length,
                FALSE, FALSE, MmNonCached, (PVOID *)&adapter->Registers);
        }
    }
    return STATUS_DEVICE_CONFIGURATION_ERROR;
}

static NTSTATUS StopDevice(PVOID MiniportDeviceContext) {
    PADAPTER adapter = (PADAPTER)MiniportDeviceContext;
    ULONG number;
    PAGED_CODE();
    for (number = 0; number < adapter->Nodes; number++) {
        StopNode(adapter, number);
    }
    adapter->Nodes = 0;
    return adapter->Kernel.DxgkCbUnmapMemory(adapter->Kernel.DeviceHandle, adapter->Registers);
}

static NTSTATUS StartDevice(
    PVOID MiniportDeviceContext, PDXGK_START_INFO DxgkStartInfo, PDXGKRNL_INTERFACE DxgkInterface,
    PULONG NumberOfVideoPresentSources, PULONG NumberOfChildren) {
    PADAPTER adapter = (PADAPTER)MiniportDeviceContext;
    NTSTATUS status;
    ULONG64 nodes, period;
    PAGED_CODE();
    UNREFERENCED_PARAMETER(DxgkStartInfo);
    adapter->Kernel = *DxgkInterface;
    status = MapRegisters(adapter);
    if (!NT_SUCCESS(status)) {
        return status;
    }
    period = Read(adapter, REG_DISPLAY_PERIOD);
    adapter->Display = period != 0 && period != NO_DEVICE;
    *NumberOfVideoPresentSources = adapter->Display;
    *NumberOfChildren = adapter->Display;
    nodes = Read(adapter, REG_NODE_COUNT);
    if (nodes == 0 || nodes > MAX_NODES) {
        return STATUS_DEVICE_CONFIGURATION_ERROR;
    }
    adapter->Coherent = (Read(adapter, REG_DEVICE_TRAITS) & TRAIT_NOT_IO_COHERENT) == 0;
    for (adapter->Nodes = 0; adapter->Nodes < nodes; adapter->Nodes++) {
        status = StartNode(adapter, adapter->Nodes);
        if (!NT_SUCCESS(status)) {
            StopNode(adapter, adapter->Nodes);
            (void)StopDevice(adapter);
            return status;
        }
    }
    return STATUS_SUCCESS;
}

static NTSTATUS RemoveDevice(PVOID MiniportDeviceContext) {
    PAGED_CODE();
    ExFreePoolWithTag(MiniportDeviceContext, TAG);
    return STATUS_SUCCESS;
}

static VOID Unload(VOID) {
}

/* Capabilities */

/* Each engine is a component with F-states. */
static NTSTATUS CountComponents(PADAPTER adapter, const DXGKARG_QUERYADAPTERINFO *query) {
    if (query->OutputDataSize < sizeof(UINT)) {
        return STATUS_BUFFER_TOO_SMALL;
    }
    *(UINT *)query->pOutputData = adapter->Nodes;
    return STATUS_SUCCESS;
}

#if VIRTUAL_ADDRESSES

static NTSTATUS DescribeDriver(PADAPTER adapter, const DXGKARG_QUERYADAPTERINFO *query) {
    DXGK_DRIVERCAPS *caps = (DXGK_DRIVERCAPS *)query->pOutputData;
    if (query->OutputDataSize < sizeof(*caps)) {
        return STATUS_BUFFER_TOO_SMALL;
    }
    RtlZeroMemory(caps, sizeof(*caps));
    caps->WDDMVersion = DXGKDDI_WDDMv2;
    caps->HighestAcceptableAddress.QuadPart = -1;
    caps->SchedulingCaps.MultiEngineAware = 1;
    caps->SchedulingCaps.PreemptionAware = 1;
    caps->SchedulingCaps.NoDmaPatching = 1;
    caps->SchedulingCaps.CancelCommandAware = 1;
    caps->FlipCaps.FlipOnVSyncMmIo = 1;
    caps->MaxQueuedFlipOnVSync = 1;
    caps->GpuEngineTopology.NbAsymetricProcessingNodes = adapter->Nodes;
    caps->PreemptionCaps.GraphicsPreemptionGranularity =
        D3DKMDT_GRAPHICS_PREEMPTION_DMA_BUFFER_BOUNDARY;
    caps->PreemptionCaps.ComputePreemptionGranularity =
        D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY;
    caps->SupportPerEngineTDR = TRUE;
    return STATUS_SUCCESS;
}

/* Segment 1 is system memory, segment 2 the local memory of the device. */
static NTSTATUS DescribeSegments(PADAPTER adapter, const DXGKARG_QUERYADAPTERINFO *query) {
    DXGK_QUERYSEGMENTOUT4 *out = (DXGK_QUERYSEGMENTOUT4 *)query->pOutputData;
    DXGK_SEGMENTDESCRIPTOR4 *segment = (DXGK_SEGMENTDESCRIPTOR4 *)out->pSegmentDescriptor;
    out->NbSegment = 2;
    out->PagingBufferSegmentId = 0;
    out->PagingBufferSize = PAGE_SIZE;
    out->PagingBufferPrivateDataSize = 0;
    if (segment != NULL) {
        segment->Flags.Aperture = 1;
        segment->Flags.CacheCoherent = 1;
        segment->Size = APERTURE_BYTES;
        segment->CommitLimit = APERTURE_BYTES;
        segment = (DXGK_SEGMENTDESCRIPTOR4 *)((PUCHAR)segment + out->SegmentDescriptorStride);
        segment->Flags.CpuVisible = 1;
        segment->BaseAddress.QuadPart = (LONGLONG)Read(adapter, REG_LOCAL_MEMORY_BASE);
        segment->Size = Read(adapter, REG_LOCAL_MEMORY_BYTES);
        segment->CommitLimit = segment->Size;
    }
    return STATUS_SUCCESS;
}

static NTSTATUS QueryAdapterInfo(
    HANDLE hAdapter, const DXGKARG_QUERYADAPTERINFO *pQueryAdapterInfo) {
    PADAPTER adapter = (PADAPTER)hAdapter;
    PAGED_CODE();
    switch (pQueryAdapterInfo->Type) {
    case DXGKQAITYPE_DRIVERCAPS:
        return DescribeDriver(adapter, pQueryAdapterInfo);
    case DXGKQAITYPE_QUERYSEGMENT4:
        return DescribeSegments(adapter, pQueryAdapterInfo);
    case DXGKQAITYPE_NUMPOWERCOMPONENTS:
        return CountComponents(adapter, pQueryAdapterInfo);
    case DXGKQAITYPE_GPUMMUCAPS: {
        DXGK_GPUMMUCAPS *caps = (DXGK_GPUMMUCAPS *)pQueryAdapterInfo->pOutputData;
        RtlZeroMemory(caps, sizeof(*caps));
        caps->ReadOnlyMemorySupported = 1;
        caps->CacheCoherentMemorySupported = adapter->Coherent != 0;
        caps->PageTableUpdateMode = DXGK_PAGETABLEUPDATE_CPU_VIRTUAL;
        caps->VirtualAddressBitCount = 12 + TABLE_LEVELS * TABLE_INDEX_BITS;
        caps->PageTableLevelCount = TABLE_LEVELS;
        return STATUS_SUCCESS;
    }
    case DXGKQAITYPE_PAGETABLELEVELDESC: {
        DXGK_PAGE_TABLE_LEVEL_DESC *level =
            (DXGK_PAGE_TABLE_LEVEL_DESC *)pQueryAdapterInfo->pOutputData;
        level->PageTableIndexBitCount = TABLE_INDEX_BITS;
        level->PageTableSegmentId = 0;
        level->PagingProcessPageTableSegmentId = 0;
        level->PageTableSizeInBytes = TABLE_BYTES;
        level->PageTableAlignmentInBytes = TABLE_BYTES;
        return STATUS_SUCCESS;
    }
    default:
        return STATUS_NOT_SUPPORTED;
    }
}

#endif

#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM1_3

static NTSTATUS GetNodeMetadata(
    HANDLE hAdapter, UINT NodeOrdinal, DXGKARG_GETNODEMETADATA *pGetNodeMetadata) {
    static const DXGK_ENGINE_TYPE types[] = {
        DXGK_ENGINE_TYPE_3D, DXGK_ENGINE_TYPE_OTHER, DXGK_ENGINE_TYPE_COPY,
        DXGK_ENGINE_TYPE_VIDEO_DECODE, DXGK_ENGINE_TYPE_VIDEO_ENCODE};
    static const WCHAR *const names[] = {L"3D", L"compute", L"copy", L"decode", L"encode"};
    PADAPTER adapter = (PADAPTER)hAdapter;
    ULONG64 kind = Read(adapter, REG_NODE_CLASS + NodeOrdinal);
    ULONG i;
    PAGED_CODE();
    if (NodeOrdinal >= adapter->Nodes || kind >= ARRAYSIZE(types)) {
        return STATUS_INVALID_PARAMETER;
    }
    RtlZeroMemory(pGetNodeMetadata, sizeof(*pGetNodeMetadata));
    pGetNodeMetadata->EngineType = types[kind];
    for (i = 0; names[kind][i] != 0; i++) {
        pGetNodeMetadata->FriendlyName[i] = names[kind][i];
    }
    pGetNodeMetadata->GpuMmuSupported = VIRTUAL_ADDRESSES;
    return STATUS_SUCCESS;
}

#endif

/* Processes, devices, contexts */

#if VIRTUAL_ADDRESSES

static NTSTATUS CreateProcess(HANDLE hAdapter, DXGKARG_CREATEPROCESS *pArgs) {
    PADAPTER adapter = (PADAPTER)hAdapter;
    PPROCESS process;
    PAGED_CODE();
    process = (PPROCESS)ExAllocatePoolZero(NonPagedPoolNx, sizeof(*process), TAG);
    if (process == NULL) {
        return STATUS_NO_MEMORY;
    }
    /* The device has number 0 for the system process. */
    process->Space =
        pArgs->Flags.SystemProcess ? 0 : (ULONG)InterlockedIncrement(&adapter->LastSpace);
    pArgs->hKmdProcess = process;
    return STATUS_SUCCESS;
}

static NTSTATUS DestroyProcess(HANDLE hAdapter, HANDLE hKmdProcess) {
    PADAPTER adapter = (PADAPTER)hAdapter;
    PPROCESS process = (PPROCESS)hKmdProcess;
    NTSTATUS status;
    PAGED_CODE();
    status = CompleteWith(adapter, CMD_SET_ADDRESS_SPACE, process->Space, 0);
    ExFreePoolWithTag(process, TAG);
    return status;
}

#endif

static NTSTATUS CreateDevice(HANDLE hAdapter, DXGKARG_CREATEDEVICE *pCreateDevice) {
    PDEVICE device;
    PAGED_CODE();
    device = (PDEVICE)ExAllocatePoolZero(NonPagedPoolNx, sizeof(*device), TAG);
    if (device == NULL) {
        return STATUS_NO_MEMORY;
    }
    device->Adapter = (PADAPTER)hAdapter;
#if VIRTUAL_ADDRESSES
    device->Process = (PPROCESS)pCreateDevice->hKmdProcess;
#endif
    pCreateDevice->hDevice = device;
    return STATUS_SUCCESS;
}

static NTSTATUS DestroyDevice(HANDLE hDevice) {
    PAGED_CODE();
    ExFreePoolWithTag(hDevice, TAG);
    return STATUS_SUCCESS;
}

#if VIRTUAL_ADDRESSES

static NTSTATUS CreateContext(HANDLE hDevice, DXGKARG_CREATECONTEXT *pCreateContext) {
    PDEVICE device = (PDEVICE)hDevice;
    PCONTEXT context;
    PAGED_CODE();
    if (pCreateContext->NodeOrdinal >= device->Adapter->Nodes ||
        !pCreateContext->Flags.VirtualAddressing) {
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
    pCreateContext->ContextInfo.DmaBufferSize = PAGE_SIZE;
    pCreateContext->ContextInfo.DmaBufferSegmentSet = SEGMENT_APERTURE;
    return STATUS_SUCCESS;
}

#endif

static NTSTATUS DestroyContext(HANDLE hContext) {
    PAGED_CODE();
    ExFreePoolWithTag(hContext, TAG);
    return STATUS_SUCCESS;
}

/* Page tables and paging */

#if VIRTUAL_ADDRESSES

static VOID SetRootPageTable(HANDLE hAdapter, const DXGKARG_SETROOTPAGETABLE *pSetPageTable) {
    PADAPTER adapter = (PADAPTER)hAdapter;
    PCONTEXT context = (PCONTEXT)pSetPageTable->hContext;
    ULONG space = context->Device->Process->Space;
    NTSTATUS status = CompleteWith(
        adapter, CMD_SET_ADDRESS_SPACE, space, pSetPageTable->Address.SegmentOffset);
    if (NT_SUCCESS(status)) {
        status = CompleteWith(adapter, CMD_INVALIDATE_TLB, space, 0);
    }
    NT_ASSERT(NT_SUCCESS(status));
}

static ULONG64 EncodeEntry(const DXGK_PTE *entry, BOOLEAN leaf) {
    ULONG64 bits = entry->PageAddress << 12 | PTE_VALID;
    if (!entry->Valid) {
        return 0;
    }
    if (leaf && !entry->ReadOnly) {
        bits |= PTE_WRITABLE;
    }
    if (leaf && entry->CacheCoherent) {
        bits |= PTE_COHERENT;
    }
    return bits;
}

static VOID UpdatePageTable(const DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE *update) {
    volatile ULONG64 *table = (volatile ULONG64 *)update->PageTableAddress.CpuVirtual;
    UINT i;
    for (i = 0; i < update->NumPageTableEntries; i++) {
        const DXGK_PTE *entry = &update->pPageTableEntries[update->Flags.Repeat ? 0 : i];
        table[update->StartIndex + i] = EncodeEntry(entry, update->PageTableLevel == 0);
    }
}

#endif

static NTSTATUS Append(
    DXGKARG_BUILDPAGINGBUFFER *args, ULONG64 head, ULONG64 first, ULONG64 second, ULONG64 third) {
    ULONG64 *words = (ULONG64 *)args->pDmaBuffer;
    if (args->DmaSize < COMMAND_BYTES) {
        return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    }
    words[0] = head;
    words[1] = first;
    words[2] = second;
    words[3] = third;
    args->pDmaBuffer = words + COMMAND_BYTES / sizeof(ULONG64);
    args->DmaSize -= COMMAND_BYTES;
    return STATUS_SUCCESS;
}

/*
 * Appends the commands of a transfer. MultipassOffset is the number of those that earlier buffers
 * have. A transfer of 0 bytes has none: a reset has lost the content.
 */
static NTSTATUS AppendCopies(
    DXGKARG_BUILDPAGINGBUFFER *args, ULONG64 source, ULONG64 destination, ULONG64 bytes) {
    ULONG64 at;
    while ((at = (ULONG64)args->MultipassOffset * COPY_BYTES) < bytes) {
        ULONG64 rest = bytes - at;
        NTSTATUS status = Append(
            args, GPU_COPY, source + at, destination + at, rest < COPY_BYTES ? rest : COPY_BYTES);
        if (!NT_SUCCESS(status)) {
            return status;
        }
        args->MultipassOffset++;
    }
    return STATUS_SUCCESS;
}

#if VIRTUAL_ADDRESSES

static NTSTATUS BuildPagingBuffer(HANDLE hAdapter, DXGKARG_BUILDPAGINGBUFFER *pBuildPagingBuffer) {
    PADAPTER adapter = (PADAPTER)hAdapter;
    DXGKARG_BUILDPAGINGBUFFER *args = pBuildPagingBuffer;
    PAGED_CODE();
    switch (args->Operation) {
    case DXGK_OPERATION_VIRTUAL_TRANSFER:
        return AppendCopies(
            args, args->TransferVirtual.SourceVirtualAddress,
            args->TransferVirtual.DestinationVirtualAddress,
            args->TransferVirtual.TransferSizeInBytes);
    case DXGK_OPERATION_VIRTUAL_FILL:
        /* The device fills whole words; allocations end with a page. */
        return Append(
            args, GPU_FILL, args->FillVirtual.DestinationVirtualAddress,
            (args->FillVirtual.FillSizeInBytes + 3) & ~3ull, args->FillVirtual.FillPattern);
    case DXGK_OPERATION_UPDATE_PAGE_TABLE:
        UpdatePageTable(&args->UpdatePageTable);
        return STATUS_SUCCESS;
    case DXGK_OPERATION_FLUSH_TLB:
        return CompleteWith(
            adapter, CMD_INVALIDATE_TLB, ((PPROCESS)args->FlushTlb.hProcess)->Space, 0);
    default:
        return STATUS_NOT_SUPPORTED;
    }
}

#endif

/* Packets */

typedef struct _PACKET {
    ULONG64 Commands;
    ULONG64 Bytes;
    ULONG Space;
    ULONG64 Flags;
    ULONG FenceId;
} PACKET;

static NTSTATUS Submit(PADAPTER adapter, PCONTEXT context, const PACKET *packet) {
    NODE *node = &adapter->Node[context->Node];
    ULONG64 *slot;
    COMMAND command;
    KIRQL level;
    NTSTATUS status;
    ULONG last;
    KeAcquireSpinLock(&node->Lock, &level);
    /* The kernel keeps fewer packets on a node than the ring has slots. */
    if (node->Written - node->Control[CONTROL_READ] >= RING_SLOTS) {
        KeReleaseSpinLock(&node->Lock, level);
        return STATUS_INSUFFICIENT_RESOURCES;
    }
    slot = node->Slots + node->Written % RING_SLOTS * SLOT_WORDS;
    slot[0] = SLOT_EXECUTE_DMA | (ULONG64)packet->FenceId << 32;
    slot[1] = packet->Commands;
    slot[2] = packet->Bytes | (ULONG64)packet->Space << 32;
    slot[3] = packet->Flags << 32;
    slot[4] = 0; /* no save area: a packet that has begun runs to its end */
    slot[5] = (ULONG64)(ULONG_PTR)context->Kernel;
    last = node->Submitted;
    node->Submitted = packet->FenceId;
    node->Written++;
    KeMemoryBarrier();
    node->Control[CONTROL_WRITE] = node->Written;
    Fill(&command, CMD_KICK_QUEUE, node->Queue, 0, 0);
    status = Run(adapter, &command);
    if (!NT_SUCCESS(status) && node->Control[CONTROL_READ] != node->Written) {
        /* The engine has not taken the packet, and the kernel takes it back. */
        node->Written--;
        node->Control[CONTROL_WRITE] = node->Written;
        node->Submitted = last;
    }
    KeReleaseSpinLock(&node->Lock, level);
    return status;
}

#if VIRTUAL_ADDRESSES

static NTSTATUS SubmitCommandVirtual(
    HANDLE hAdapter, const DXGKARG_SUBMITCOMMANDVIRTUAL *pSubmitCommand) {
    PCONTEXT context = (PCONTEXT)pSubmitCommand->hContext;
    PACKET packet;
    packet.Commands = pSubmitCommand->DmaBufferVirtualAddress;
    packet.Bytes = pSubmitCommand->DmaBufferSize;
    packet.Space = context->Device->Process->Space;
    packet.Flags = 0;
    packet.FenceId = pSubmitCommand->SubmissionFenceId;
    if (pSubmitCommand->Flags.ContextSwitch) {
        packet.Flags |= DMA_CONTEXT_SWITCH;
        packet.Bytes = 0;
    }
    if (pSubmitCommand->Flags.Resubmission) {
        packet.Flags |= DMA_RESUME;
    }
    return Submit((PADAPTER)hAdapter, context, &packet);
}

#endif

static NTSTATUS CancelCommand(HANDLE hAdapter, const DXGKARG_CANCELCOMMAND *pCancelCommand) {
    UNREFERENCED_PARAMETER(hAdapter);
    UNREFERENCED_PARAMETER(pCancelCommand);
    return STATUS_SUCCESS;
}

/* Display */

/*
 * A surface: what the user-mode driver passes as the private data of its allocation, which are the
 * words of two registers.
 */
typedef struct _SURFACE {
    ULONG64 Size;
    ULONG64 Pitch;
} SURFACE;

static NTSTATUS CreateSurfaces(HANDLE hAdapter, DXGKARG_CREATEALLOCATION *pCreateAllocation) {
    UINT i;
    PAGED_CODE();
    UNREFERENCED_PARAMETER(hAdapter);
    for (i = 0; i < pCreateAllocation->NumAllocations; i++) {
        DXGK_ALLOCATIONINFO *info = &pCreateAllocation->pAllocationInfo[i];
        SURFACE *surface;
        if (info->PrivateDriverDataSize != sizeof(*surface)) {
            return STATUS_INVALID_PARAMETER;
        }
        surface = (SURFACE *)ExAllocatePoolZero(NonPagedPoolNx, sizeof(*surface), TAG);
        if (surface == NULL) {
            return STATUS_NO_MEMORY;
        }
        RtlCopyMemory(surface, info->pPrivateDriverData, sizeof(*surface));
        info->hAllocation = surface;
    }
    return STATUS_SUCCESS;
}

static NTSTATUS DestroySurfaces(
    HANDLE hAdapter, const DXGKARG_DESTROYALLOCATION *pDestroyAllocation) {
    UINT i;
    PAGED_CODE();
    UNREFERENCED_PARAMETER(hAdapter);
    for (i = 0; i < pDestroyAllocation->NumAllocations; i++) {
        ExFreePoolWithTag(pDestroyAllocation->pAllocationList[i], TAG);
    }
    return STATUS_SUCCESS;
}

/* Called at the interrupt's level. The write of the address commits the surface. */
static NTSTATUS SetVidPnSourceAddress(
    HANDLE hAdapter, const DXGKARG_SETVIDPNSOURCEADDRESS *pSetVidPnSourceAddress) {
    PADAPTER adapter = (PADAPTER)hAdapter;
    const SURFACE *surface = (const SURFACE *)pSetVidPnSourceAddress->hAllocation;
    if (!adapter->Display || pSetVidPnSourceAddress->VidPnSourceId != 0 ||
        pSetVidPnSourceAddress->Flags.FlipImmediate) {
        return STATUS_INVALID_PARAMETER;
    }
    Write(
        adapter, REG_DISPLAY_FLIP,
        pSetVidPnSourceAddress->Flags.FlipOnNextVSync ? DISPLAY_AT_VSYNC : 0);
    Write(adapter, REG_DISPLAY_SIZE, surface->Size);
    Write(adapter, REG_DISPLAY_PITCH, surface->Pitch);
    Write(
        adapter, REG_DISPLAY_ADDRESS, (ULONG64)pSetVidPnSourceAddress->PrimaryAddress.QuadPart);
    return STATUS_SUCCESS;
}

/* The kernel makes the calls that change this register one at a time. */
static NTSTATUS SetDisplayBit(PADAPTER adapter, ULONG64 bit, BOOLEAN on) {
    ULONG64 control = Read(adapter, REG_DISPLAY_CONTROL);
    Write(adapter, REG_DISPLAY_CONTROL, on ? control | bit : control & ~bit);
    return STATUS_SUCCESS;
}

static NTSTATUS SetVidPnSourceVisibility(
    HANDLE hAdapter, const DXGKARG_SETVIDPNSOURCEVISIBILITY *pSetVidPnSourceVisibility) {
    PAGED_CODE();
    if (pSetVidPnSourceVisibility->VidPnSourceId != 0) {
        return STATUS_INVALID_PARAMETER;
    }
    return SetDisplayBit(
        (PADAPTER)hAdapter, DISPLAY_SCAN_OUT, pSetVidPnSourceVisibility->Visible);
}

static NTSTATUS ControlInterrupt(
    HANDLE hAdapter, DXGK_INTERRUPT_TYPE InterruptType, BOOLEAN Enable) {
    PAGED_CODE();
    if (InterruptType != DXGK_INTERRUPT_CRTC_VSYNC) {
        return STATUS_NOT_IMPLEMENTED;
    }
    return SetDisplayBit((PADAPTER)hAdapter, DISPLAY_VSYNC_INTERRUPT, Enable);
}

/* Interrupts */

static VOID Notify(PADAPTER adapter, const DXGKARGCB_NOTIFY_INTERRUPT_DATA *data) {
    adapter->Kernel.DxgkCbNotifyInterrupt(adapter->Kernel.DeviceHandle, data);
}

static VOID NotifyCompleted(PADAPTER adapter, ULONG number, ULONG fence) {
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
    RtlZeroMemory(&data, sizeof(data));
    data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
    data.DmaCompleted.SubmissionFenceId = fence;
    data.DmaCompleted.NodeOrdinal = number;
    Notify(adapter, &data);
}

static VOID NotifyPreempted(PADAPTER adapter, ULONG number, ULONG fence, ULONG completed) {
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
    RtlZeroMemory(&data, sizeof(data));
    data.InterruptType = DXGK_INTERRUPT_DMA_PREEMPTED;
    data.DmaPreempted.PreemptionFenceId = fence;
    data.DmaPreempted.LastCompletedFenceId = completed;
    data.DmaPreempted.NodeOrdinal = number;
    Notify(adapter, &data);
}

/*
 * Reports the faults of packets. An engine goes on after a faulted packet, so the packets before it
 * are reported as complete first.
 */
static VOID ReportFaults(PADAPTER adapter) {
    ULONG64 queue;
    while ((queue = Read(adapter, REG_FAULT_QUEUE)) != 0 && queue != NO_DEVICE) {
        ULONG64 address = Read(adapter, REG_FAULT_VA);
        ULONG fence = (ULONG)Read(adapter, REG_FAULT_POSITION);
        ULONG64 progress = adapter->Extension == NULL ? 0 : Read(adapter, REG_FAULT_FENCE);
        UCHAR kind = (UCHAR)Read(adapter, REG_FAULT_INFO);
        ULONG number;
        if (adapter->Extension != NULL) {
            adapter->Extension->ReportFault(adapter, queue - 1, progress, address, kind);
        }
        for (number = 0; number < adapter->Nodes; number++) {
            DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
            if (adapter->Node[number].Queue != queue - 1) {
                continue;
            }
            NotifyCompleted(adapter, number, fence - 1);
            RtlZeroMemory(&data, sizeof(data));
            data.InterruptType = DXGK_INTERRUPT_DMA_PAGE_FAULTED;
            data.DmaPageFaulted.FaultedFenceId = fence;
            data.DmaPageFaulted.FaultedVirtualAddress = address;
            if (kind == FAULT_WRITE_UNMAPPED) {
                data.DmaPageFaulted.PageFaultFlags = DXGK_PAGE_FAULT_WRITE;
            }
            data.DmaPageFaulted.NodeOrdinal = number;
            data.DmaPageFaulted.FaultErrorCode.GeneralErrorCode =
                kind == FAULT_READ_UNMAPPED || kind == FAULT_WRITE_UNMAPPED
                    ? DXGK_GENERAL_ERROR_PAGE_FAULT
                    : DXGK_GENERAL_ERROR_INVALID_INSTRUCTION;
            Notify(adapter, &data);
        }
    }
}

/* Reports a vertical sync with the surface that it latched, after the packets before it. */
static VOID ReportVsync(PADAPTER adapter) {
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
    RtlZeroMemory(&data, sizeof(data));
    data.InterruptType = DXGK_INTERRUPT_CRTC_VSYNC;
    data.CrtcVsync.VidPnTargetId = 0;
    data.CrtcVsync.PhysicalAddress.QuadPart = (LONGLONG)Read(adapter, REG_DISPLAY_LATCHED);
    Notify(adapter, &data);
}

static BOOLEAN InterruptRoutine(PVOID MiniportDeviceContext, ULONG MessageNumber) {
    PADAPTER adapter = (PADAPTER)MiniportDeviceContext;
    BOOLEAN ours = FALSE;
    ULONG64 cause;
    UNREFERENCED_PARAMETER(MessageNumber);
    while ((cause = Read(adapter, REG_INTERRUPT_CAUSE)) != 0 && cause != NO_DEVICE) {
        ULONG64 preempted = 0, monitored = 0;
        ULONG number;
        ours = TRUE;
        /* Read first and reported last: an answer counts all earlier packets as settled. */
        if (cause & CAUSE_DMA_PREEMPTED) {
            preempted = Read(adapter, REG_PREEMPTED_ENGINES);
        }
        if (cause & CAUSE_MONITORED_SIGNALED) {
            monitored = Read(adapter, REG_MONITORED_ENGINES);
        }
        /* Completed values are read before the list of faults, and reported after it. */
        for (number = 0; number < adapter->Nodes; number++) {
            if ((cause & CAUSE_ENGINE(number)) || (preempted >> number & 1)) {
                adapter->Node[number].Reported =
                    (ULONG)Read(adapter, REG_COMPLETED_FENCE + number);
            }
        }
        /* A fault stops a queue after its signals. */
        if (adapter->Extension != NULL) {
            adapter->Extension->ServeCause(adapter, cause);
        }
        if (cause & CAUSE_FAULT) {
            ReportFaults(adapter);
        }
        for (number = 0; number < adapter->Nodes; number++) {
            if ((cause & CAUSE_ENGINE(number)) || (preempted >> number & 1)) {
                NotifyCompleted(adapter, number, adapter->Node[number].Reported);
            }
            if (monitored >> number & 1) {
                DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
                RtlZeroMemory(&data, sizeof(data));
                data.InterruptType = DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED;
                data.MonitoredFenceSignaled.NodeOrdinal = number;
                Notify(adapter, &data);
            }
        }
        for (number = 0; number < adapter->Nodes; number++) {
            if (preempted >> number & 1) {
                NotifyPreempted(
                    adapter, number, (ULONG)Read(adapter, REG_PREEMPTED_FENCE + number),
                    (ULONG)Read(adapter, REG_PREEMPTED_COMPLETED + number));
            }
        }
        if (cause & CAUSE_VSYNC) {
            ReportVsync(adapter);
        }
    }
    if (ours) {
        adapter->Kernel.DxgkCbQueueDpc(adapter->Kernel.DeviceHandle);
    }
    return ours;
}

static VOID DpcRoutine(PVOID MiniportDeviceContext) {
    PADAPTER adapter = (PADAPTER)MiniportDeviceContext;
    adapter->Kernel.DxgkCbNotifyDpc(adapter->Kernel.DeviceHandle);
}

/* Preemption */

typedef struct _PREEMPTION {
    PADAPTER Adapter;
    ULONG Node;
    ULONG FenceId;
} PREEMPTION;

/* Answers a request if every packet is complete and reported. The caller holds the node's lock. */
static BOOLEAN AnswerPreemption(PVOID SynchronizeContext) {
    PREEMPTION *preemption = (PREEMPTION *)SynchronizeContext;
    PADAPTER adapter = preemption->Adapter;
    NODE *node = &adapter->Node[preemption->Node];
    ULONG completed = (ULONG)Read(adapter, REG_COMPLETED_FENCE + preemption->Node);
    if (node->Reported != node->Submitted || completed != node->Submitted) {
        return FALSE;
    }
    NotifyPreempted(adapter, preemption->Node, preemption->FenceId, completed);
    return adapter->Kernel.DxgkCbQueueDpc(adapter->Kernel.DeviceHandle);
}

static NTSTATUS PreemptCommand(HANDLE hAdapter, const DXGKARG_PREEMPTCOMMAND *pPreemptCommand) {
    PADAPTER adapter = (PADAPTER)hAdapter;
    PREEMPTION preemption;
    BOOLEAN answered = FALSE;
    COMMAND command;
    KIRQL level;
    NTSTATUS status;
    preemption.Adapter = adapter;
    preemption.Node = pPreemptCommand->NodeOrdinal;
    preemption.FenceId = pPreemptCommand->PreemptionFenceId;
    KeAcquireSpinLock(&adapter->Node[preemption.Node].Lock, &level);
    status = adapter->Kernel.DxgkCbSynchronizeExecution(
        adapter->Kernel.DeviceHandle, AnswerPreemption, &preemption, 0, &answered);
    KeReleaseSpinLock(&adapter->Node[preemption.Node].Lock, level);
    /* A request that was not answered here is the device's, also if the call failed. */
    if (NT_SUCCESS(status) && answered) {
        return STATUS_SUCCESS;
    }
    Fill(&command, CMD_PREEMPT_NODE, preemption.Node, preemption.FenceId, 0);
    return Run(adapter, &command);
}

/* Power */

static NTSTATUS SetPowerState(
    PVOID MiniportDeviceContext, ULONG DeviceUid, DEVICE_POWER_STATE DevicePowerState,
    POWER_ACTION ActionType) {
    PAGED_CODE();
    if (DeviceUid != DISPLAY_ADAPTER_HW_ID) {
        return STATUS_SUCCESS;
    }
    return CompleteWith(
        (PADAPTER)MiniportDeviceContext, CMD_POWER_DEVICE, DevicePowerState == PowerDeviceD0,
        ActionType == PowerActionNone);
}

/* A component is an engine. F1 waits for the end of its turn, and is refused if it has work. */
static NTSTATUS SetPowerComponentFState(HANDLE DriverContext, UINT ComponentIndex, UINT FState) {
    COMMAND command;
    if (ComponentIndex >= ((PADAPTER)DriverContext)->Nodes) {
        return STATUS_INVALID_PARAMETER;
    }
    Fill(&command, CMD_POWER_ENGINE, ComponentIndex, FState == 0, FState != 0);
    return FState == 0 ? Run((PADAPTER)DriverContext, &command)
                       : Complete((PADAPTER)DriverContext, &command);
}

/* Recovery */

static NTSTATUS QueryCurrentFence(HANDLE hAdapter, DXGKARG_QUERYCURRENTFENCE *pCurrentFence) {
    pCurrentFence->CurrentFence =
        (UINT)Read((PADAPTER)hAdapter, REG_COMPLETED_FENCE + pCurrentFence->NodeOrdinal);
    return STATUS_SUCCESS;
}

static NTSTATUS QueryDependentEngineGroup(
    HANDLE hAdapter, DXGKARG_QUERYDEPENDENTENGINEGROUP *pQueryDependentEngineGroup) {
    UNREFERENCED_PARAMETER(hAdapter);
    pQueryDependentEngineGroup->DependentNodeOrdinalMask =
        1ull << pQueryDependentEngineGroup->NodeOrdinal;
    return STATUS_SUCCESS;
}

static NTSTATUS QueryEngineStatus(HANDLE hAdapter, DXGKARG_QUERYENGINESTATUS *pQueryEngineStatus) {
    COMMAND command;
    NTSTATUS status;
    PAGED_CODE();
    Fill(&command, CMD_QUERY_ENGINE, pQueryEngineStatus->NodeOrdinal, 0, 0);
    status = Complete((PADAPTER)hAdapter, &command);
    pQueryEngineStatus->EngineStatus.Responsive = command.Result & 1;
    return status;
}

typedef struct _COMPLETION {
    PADAPTER Adapter;
    ULONG Node;
    ULONG FenceId;
} COMPLETION;

/* The packets up to this id never complete: the engine goes on after them. */
static BOOLEAN SetCompleted(PVOID SynchronizeContext) {
    COMPLETION *completion = (COMPLETION *)SynchronizeContext;
    Write(completion->Adapter, REG_COMPLETED_FENCE + completion->Node, completion->FenceId);
    completion->Adapter->Node[completion->Node].Reported = completion->FenceId;
    return TRUE;
}

static NTSTATUS Reset(PADAPTER adapter, ULONG number, BOOLEAN all, ULONG *last) {
    NODE *node = &adapter->Node[number];
    COMMAND command;
    COMPLETION completion;
    BOOLEAN set = FALSE;
    KIRQL level;
    NTSTATUS status;
    Fill(&command, CMD_RESET_ENGINE, number, 0, 0);
    command.HasSecond = adapter->Extension != NULL;
    status = Complete(adapter, &command);
    if (!NT_SUCCESS(status)) {
        return status;
    }
    if (adapter->Extension != NULL) {
        status = adapter->Extension->EngineWasReset(adapter, number, command.Second, all);
        if (!NT_SUCCESS(status)) {
            return status;
        }
    }
    KeAcquireSpinLock(&node->Lock, &level);
    *last = all ? node->Submitted : (ULONG)command.Result;
    KeReleaseSpinLock(&node->Lock, level);
    completion.Adapter = adapter;
    completion.Node = number;
    completion.FenceId = *last;
    return adapter->Kernel.DxgkCbSynchronizeExecution(
        adapter->Kernel.DeviceHandle, SetCompleted, &completion, 0, &set);
}

static NTSTATUS ResetEngine(HANDLE hAdapter, DXGKARG_RESETENGINE *pResetEngine) {
    ULONG last = 0;
    NTSTATUS status;
    PAGED_CODE();
    status = Reset((PADAPTER)hAdapter, pResetEngine->NodeOrdinal, FALSE, &last);
    pResetEngine->LastAbortedFenceId = last;
    return status;
}

static NTSTATUS ResetFromTimeout(HANDLE hAdapter) {
    PADAPTER adapter = (PADAPTER)hAdapter;
    NTSTATUS status;
    ULONG number, last;
    PAGED_CODE();
    status = CompleteWith(adapter, CMD_HOLD_ENGINES, 0, 0);
    for (number = 0; NT_SUCCESS(status) && number < adapter->Nodes; number++) {
        status = Reset(adapter, number, TRUE, &last);
    }
    return status;
}

static NTSTATUS RestartFromTimeout(HANDLE hAdapter) {
    PAGED_CODE();
    return CompleteWith((PADAPTER)hAdapter, CMD_RELEASE_ENGINES, 0, 0);
}

static NTSTATUS CollectDbgInfo(HANDLE hAdapter, const DXGKARG_COLLECTDBGINFO *pCollectDbgInfo) {
    static const char text[] = "the packet driver keeps no record of the engines";
    UNREFERENCED_PARAMETER(hAdapter);
    if (pCollectDbgInfo->BufferSize >= sizeof(text)) {
        RtlCopyMemory(pCollectDbgInfo->pBuffer, text, sizeof(text));
    }
    return STATUS_SUCCESS;
}

/* Entry */

static VOID FillEntries(PDRIVER_INITIALIZATION_DATA entries) {
    RtlZeroMemory(entries, sizeof(*entries));
    entries->Version = DXGKDDI_INTERFACE_VERSION;
    entries->DxgkDdiAddDevice = AddDevice;
    entries->DxgkDdiStartDevice = StartDevice;
    entries->DxgkDdiStopDevice = StopDevice;
    entries->DxgkDdiRemoveDevice = RemoveDevice;
    entries->DxgkDdiUnload = Unload;
    entries->DxgkDdiInterruptRoutine = InterruptRoutine;
    entries->DxgkDdiDpcRoutine = DpcRoutine;
    entries->DxgkDdiCreateAllocation = CreateSurfaces;
    entries->DxgkDdiDestroyAllocation = DestroySurfaces;
    entries->DxgkDdiSetVidPnSourceAddress = SetVidPnSourceAddress;
    entries->DxgkDdiSetVidPnSourceVisibility = SetVidPnSourceVisibility;
    entries->DxgkDdiControlInterrupt = ControlInterrupt;
    entries->DxgkDdiCreateDevice = CreateDevice;
    entries->DxgkDdiDestroyDevice = DestroyDevice;
    entries->DxgkDdiDestroyContext = DestroyContext;
    entries->DxgkDdiCancelCommand = CancelCommand;
    entries->DxgkDdiPreemptCommand = PreemptCommand;
    entries->DxgkDdiQueryCurrentFence = QueryCurrentFence;
    entries->DxgkDdiQueryDependentEngineGroup = QueryDependentEngineGroup;
    entries->DxgkDdiQueryEngineStatus = QueryEngineStatus;
    entries->DxgkDdiResetEngine = ResetEngine;
    entries->DxgkDdiResetFromTimeout = ResetFromTimeout;
    entries->DxgkDdiRestartFromTimeout = RestartFromTimeout;
    entries->DxgkDdiCollectDbgInfo = CollectDbgInfo;
    entries->DxgkDdiSetPowerState = SetPowerState;
    entries->DxgkDdiSetPowerComponentFState = SetPowerComponentFState;
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM1_3
    entries->DxgkDdiGetNodeMetadata = GetNodeMetadata;
#endif
#if VIRTUAL_ADDRESSES
    entries->DxgkDdiQueryAdapterInfo = QueryAdapterInfo;
    entries->DxgkDdiCreateProcess = CreateProcess;
    entries->DxgkDdiDestroyProcess = DestroyProcess;
    entries->DxgkDdiCreateContext = CreateContext;
    entries->DxgkDdiSetRootPageTable = SetRootPageTable;
    entries->DxgkDdiBuildPagingBuffer = BuildPagingBuffer;
    entries->DxgkDdiSubmitCommandVirtual = SubmitCommandVirtual;
#endif
}

#ifndef OTHER_DRIVER_ENTRY
NTSTATUS DriverEntry(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath) {
    DRIVER_INITIALIZATION_DATA data;
    PAGED_CODE();
    FillEntries(&data);
    return DxgkInitialize(DriverObject, RegistryPath, &data);
}
#endif
