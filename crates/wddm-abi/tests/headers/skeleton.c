/*
 * The start of a packet driver of WDDM 1.2, for C11 and C++17: it fills the table of its entries
 * and gives it to the kernel. The test only compiles it.
 */
#define DXGKDDI_INTERFACE_VERSION DXGKDDI_INTERFACE_VERSION_WIN8
#include <ntddk.h>
#include <dispmprt.h>

#define TAG 0x6C656B73u
#define RING_BYTES 0x10000u
#define REGISTER_FENCE 0x10u
#define REGISTER_CAUSE 0x14u
#define REGISTER_GO 0x18u

typedef struct _ADAPTER {
    PDEVICE_OBJECT PhysicalDevice;
    DXGKRNL_INTERFACE Kernel;
    DXGK_DEVICE_INFO Device;
    PUCHAR Registers;
    KSPIN_LOCK Lock;
    LIST_ENTRY Packets;
    ULONG LastSubmitted;
    ULONG LastCompleted;
} ADAPTER, *PADAPTER;

typedef struct _PACKET {
    LIST_ENTRY Link;
    ULONG FenceId;
} PACKET, *PPACKET;

static DXGKDDI_ADD_DEVICE AddDevice;
static DXGKDDI_START_DEVICE StartDevice;
static DXGKDDI_STOP_DEVICE StopDevice;
static DXGKDDI_REMOVE_DEVICE RemoveDevice;
static DXGKDDI_UNLOAD Unload;
static DXGKDDI_INTERRUPT_ROUTINE InterruptRoutine;
static DXGKDDI_DPC_ROUTINE DpcRoutine;
static DXGKDDI_QUERY_CHILD_RELATIONS QueryChildRelations;
static DXGKDDI_SET_POWER_STATE SetPowerState;
static DXGKDDI_QUERYADAPTERINFO QueryAdapterInfo;
static DXGKDDI_CREATEDEVICE CreateDevice;
static DXGKDDI_DESTROYDEVICE DestroyDevice;
static DXGKDDI_CREATECONTEXT CreateContext;
static DXGKDDI_DESTROYCONTEXT DestroyContext;
static DXGKDDI_CREATEALLOCATION CreateAllocation;
static DXGKDDI_BUILDPAGINGBUFFER BuildPagingBuffer;
static DXGKDDI_RENDER Render;
static DXGKDDI_PRESENT Present;
static DXGKDDI_PATCH Patch;
static DXGKDDI_SUBMITCOMMAND SubmitCommand;
static DXGKDDI_PREEMPTCOMMAND PreemptCommand;
static DXGKDDI_QUERYCURRENTFENCE QueryCurrentFence;
static DXGKDDI_RESETENGINE ResetEngine;
static DXGKDDI_QUERYENGINESTATUS QueryEngineStatus;
static DXGKDDI_QUERYDEPENDENTENGINEGROUP QueryDependentEngineGroup;
static DXGKDDI_RESETFROMTIMEOUT ResetFromTimeout;
static DXGKDDI_ESCAPE Escape;
static KSYNCHRONIZE_ROUTINE ReportPreempted;

static volatile ULONG *Register(PADAPTER adapter, ULONG offset) {
    return (volatile ULONG *)(adapter->Registers + offset);
}

_Use_decl_annotations_
static NTSTATUS AddDevice(PDEVICE_OBJECT PhysicalDeviceObject, PVOID *MiniportDeviceContext) {
    PADAPTER adapter;
    PAGED_CODE();
    adapter = (PADAPTER)ExAllocatePoolWithTag(NonPagedPoolNx, sizeof(*adapter), TAG);
    if (adapter == NULL) {
        return STATUS_NO_MEMORY;
    }
    RtlZeroMemory(adapter, sizeof(*adapter));
    adapter->PhysicalDevice = PhysicalDeviceObject;
    KeInitializeSpinLock(&adapter->Lock);
    InitializeListHead(&adapter->Packets);
    *MiniportDeviceContext = adapter;
    return STATUS_SUCCESS;
}

static NTSTATUS StartDevice(
    PVOID MiniportDeviceContext, PDXGK_START_INFO DxgkStartInfo, PDXGKRNL_INTERFACE DxgkInterface,
    PULONG NumberOfVideoPresentSources, PULONG NumberOfChildren) {
    PADAPTER adapter = (PADAPTER)MiniportDeviceContext;
    PCM_PARTIAL_RESOURCE_LIST resources;
    NTSTATUS status;
    ULONG i;
    PAGED_CODE();
    UNREFERENCED_PARAMETER(DxgkStartInfo);
    adapter->Kernel = *DxgkInterface;
    status = adapter->Kernel.DxgkCbGetDeviceInformation(
        adapter->Kernel.DeviceHandle, &adapter->Device);
    if (!NT_SUCCESS(status)) {
        return status;
    }
    resources = &adapter->Device.TranslatedResourceList->List[0].PartialResourceList;
    for (i = 0; i < resources->Count; i++) {
        PCM_PARTIAL_RESOURCE_DESCRIPTOR resource = &resources->PartialDescriptors[i];
        if (resource->Type == CmResourceTypeMemory && adapter->Registers == NULL) {
            PVOID address = NULL;
            status = adapter->Kernel.DxgkCbMapMemory(
                adapter->Kernel.DeviceHandle, resource->u.Memory.Start, resource->u.Memory.Length,
                FALSE, FALSE, MmNonCached, &address);
            if (!NT_SUCCESS(status)) {
                return status;
            }
            adapter->Registers = (PUCHAR)address;
        }
    }
    *NumberOfVideoPresentSources = 0;
    *NumberOfChildren = 0;
    return adapter->Registers != NULL ? STATUS_SUCCESS : STATUS_DEVICE_CONFIGURATION_ERROR;
}

static NTSTATUS StopDevice(PVOID MiniportDeviceContext) {
    PADAPTER adapter = (PADAPTER)MiniportDeviceContext;
    NTSTATUS status;
    PAGED_CODE();
    status = adapter->Kernel.DxgkCbUnmapMemory(adapter->Kernel.DeviceHandle, adapter->Registers);
    adapter->Registers = NULL;
    return status;
}

static NTSTATUS RemoveDevice(PVOID MiniportDeviceContext) {
    PAGED_CODE();
    ExFreePoolWithTag(MiniportDeviceContext, TAG);
    return STATUS_SUCCESS;
}

static VOID Unload(VOID) {
}

static BOOLEAN InterruptRoutine(PVOID MiniportDeviceContext, ULONG MessageNumber) {
    PADAPTER adapter = (PADAPTER)MiniportDeviceContext;
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
    UNREFERENCED_PARAMETER(MessageNumber);
    if (READ_REGISTER_ULONG(Register(adapter, REGISTER_CAUSE)) == 0) {
        return FALSE;
    }
    WRITE_REGISTER_ULONG(Register(adapter, REGISTER_CAUSE), 0);
    RtlZeroMemory(&data, sizeof(data));
    data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
    data.DmaCompleted.SubmissionFenceId = READ_REGISTER_ULONG(Register(adapter, REGISTER_FENCE));
    data.DmaCompleted.NodeOrdinal = 0;
    adapter->LastCompleted = data.DmaCompleted.SubmissionFenceId;
    adapter->Kernel.DxgkCbNotifyInterrupt(adapter->Kernel.DeviceHandle, &data);
    adapter->Kernel.DxgkCbQueueDpc(adapter->Kernel.DeviceHandle);
    return TRUE;
}

static VOID DpcRoutine(PVOID MiniportDeviceContext) {
    PADAPTER adapter = (PADAPTER)MiniportDeviceContext;
    adapter->Kernel.DxgkCbNotifyDpc(adapter->Kernel.DeviceHandle);
    KeAcquireSpinLockAtDpcLevel(&adapter->Lock);
    while (!IsListEmpty(&adapter->Packets)) {
        PPACKET packet = CONTAINING_RECORD(adapter->Packets.Flink, PACKET, Link);
        if ((LONG)(packet->FenceId - adapter->LastCompleted) > 0) {
            break;
        }
        RemoveEntryList(&packet->Link);
    }
    KeReleaseSpinLockFromDpcLevel(&adapter->Lock);
}

static NTSTATUS QueryChildRelations(
    PVOID MiniportDeviceContext, PDXGK_CHILD_DESCRIPTOR ChildRelations, ULONG ChildRelationsSize) {
    UNREFERENCED_PARAMETER(MiniportDeviceContext);
    UNREFERENCED_PARAMETER(ChildRelations);
    UNREFERENCED_PARAMETER(ChildRelationsSize);
    return STATUS_SUCCESS;
}

static NTSTATUS SetPowerState(
    PVOID MiniportDeviceContext, ULONG DeviceUid, DEVICE_POWER_STATE DevicePowerState,
    POWER_ACTION ActionType) {
    UNREFERENCED_PARAMETER(MiniportDeviceContext);
    UNREFERENCED_PARAMETER(ActionType);
    if (DeviceUid == DISPLAY_ADAPTER_HW_ID && DevicePowerState == PowerDeviceD0) {
        DbgPrintEx(DPFLTR_IHVVIDEO_ID, DPFLTR_INFO_LEVEL, "power on\n");
    }
    return STATUS_SUCCESS;
}

static NTSTATUS QueryAdapterInfo(
    HANDLE hAdapter, const DXGKARG_QUERYADAPTERINFO *pQueryAdapterInfo) {
    UNREFERENCED_PARAMETER(hAdapter);
    switch (pQueryAdapterInfo->Type) {
    case DXGKQAITYPE_DRIVERCAPS: {
        DXGK_DRIVERCAPS *caps = (DXGK_DRIVERCAPS *)pQueryAdapterInfo->pOutputData;
        if (pQueryAdapterInfo->OutputDataSize < sizeof(*caps)) {
            return STATUS_BUFFER_TOO_SMALL;
        }
        RtlZeroMemory(caps, sizeof(*caps));
        caps->WDDMVersion = DXGKDDI_WDDMv1_2;
        caps->HighestAcceptableAddress.QuadPart = -1;
        caps->SchedulingCaps.MultiEngineAware = 1;
        caps->SchedulingCaps.PreemptionAware = 1;
        caps->FlipCaps.FlipOnVSyncMmIo = 1;
        caps->PresentationCaps.SupportKernelModeCommandBuffer = 1;
        caps->GpuEngineTopology.NbAsymetricProcessingNodes = 1;
        caps->PreemptionCaps.GraphicsPreemptionGranularity =
            D3DKMDT_GRAPHICS_PREEMPTION_DMA_BUFFER_BOUNDARY;
        caps->PreemptionCaps.ComputePreemptionGranularity =
            D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY;
        caps->SupportPerEngineTDR = TRUE;
        return STATUS_SUCCESS;
    }
    case DXGKQAITYPE_QUERYSEGMENT3: {
        DXGK_QUERYSEGMENTOUT3 *out = (DXGK_QUERYSEGMENTOUT3 *)pQueryAdapterInfo->pOutputData;
        if (out->pSegmentDescriptor == NULL) {
            out->NbSegment = 1;
            return STATUS_SUCCESS;
        }
        out->pSegmentDescriptor[0].Flags.Aperture = 1;
        out->pSegmentDescriptor[0].Flags.CacheCoherent = 1;
        out->pSegmentDescriptor[0].Size = 0x10000000;
        out->pSegmentDescriptor[0].CommitLimit = 0x10000000;
        out->PagingBufferSegmentId = 0;
        out->PagingBufferSize = PAGE_SIZE;
        return STATUS_SUCCESS;
    }
    default:
        return STATUS_NOT_SUPPORTED;
    }
}

static NTSTATUS CreateDevice(HANDLE hAdapter, DXGKARG_CREATEDEVICE *pCreateDevice) {
    pCreateDevice->hDevice = hAdapter;
    return STATUS_SUCCESS;
}

static NTSTATUS DestroyDevice(HANDLE hDevice) {
    UNREFERENCED_PARAMETER(hDevice);
    return STATUS_SUCCESS;
}

static NTSTATUS CreateContext(HANDLE hDevice, DXGKARG_CREATECONTEXT *pCreateContext) {
    pCreateContext->hContext = hDevice;
    pCreateContext->ContextInfo.DmaBufferSize = RING_BYTES;
    pCreateContext->ContextInfo.DmaBufferPrivateDataSize = sizeof(PACKET);
    pCreateContext->ContextInfo.AllocationListSize = 64;
    pCreateContext->ContextInfo.PatchLocationListSize = 64;
    return STATUS_SUCCESS;
}

static NTSTATUS DestroyContext(HANDLE hContext) {
    UNREFERENCED_PARAMETER(hContext);
    return STATUS_SUCCESS;
}

static NTSTATUS CreateAllocation(HANDLE hAdapter, DXGKARG_CREATEALLOCATION *pCreateAllocation) {
    UINT i;
    UNREFERENCED_PARAMETER(hAdapter);
    for (i = 0; i < pCreateAllocation->NumAllocations; i++) {
        DXGK_ALLOCATIONINFO *info = &pCreateAllocation->pAllocationInfo[i];
        info->Size = ROUND_TO_PAGES(info->PrivateDriverDataSize);
        info->Flags.CpuVisible = 1;
        info->PreferredSegment.SegmentId0 = 1;
        info->SupportedReadSegmentSet = 1;
        info->SupportedWriteSegmentSet = 1;
    }
    return STATUS_SUCCESS;
}

static NTSTATUS BuildPagingBuffer(HANDLE hAdapter, DXGKARG_BUILDPAGINGBUFFER *pBuildPagingBuffer) {
    UNREFERENCED_PARAMETER(hAdapter);
    switch (pBuildPagingBuffer->Operation) {
    case DXGK_OPERATION_TRANSFER:
        if (pBuildPagingBuffer->Transfer.Source.SegmentId == 0) {
            return pBuildPagingBuffer->Transfer.Source.pMdl != NULL
                       ? STATUS_SUCCESS
                       : STATUS_GRAPHICS_ALLOCATION_BUSY;
        }
        return STATUS_SUCCESS;
    case DXGK_OPERATION_FILL:
        if (pBuildPagingBuffer->DmaSize < sizeof(ULONG)) {
            return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
        }
        *(PULONG)pBuildPagingBuffer->pDmaBuffer = pBuildPagingBuffer->Fill.FillPattern;
        pBuildPagingBuffer->pDmaBuffer = (PUCHAR)pBuildPagingBuffer->pDmaBuffer + sizeof(ULONG);
        return STATUS_SUCCESS;
    default:
        return STATUS_SUCCESS;
    }
}

static NTSTATUS Render(HANDLE hContext, DXGKARG_RENDER *pRender) {
    UNREFERENCED_PARAMETER(hContext);
    if (pRender->DmaSize < pRender->CommandLength) {
        return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    }
    RtlCopyMemory(pRender->pDmaBuffer, pRender->pCommand, pRender->CommandLength);
    pRender->pDmaBuffer = (PUCHAR)pRender->pDmaBuffer + pRender->CommandLength;
    pRender->pPatchLocationListOut[0].AllocationIndex = 0;
    pRender->pPatchLocationListOut[0].SlotId = 0;
    pRender->pPatchLocationListOut++;
    return STATUS_SUCCESS;
}

static NTSTATUS Present(HANDLE hContext, DXGKARG_PRESENT *pPresent) {
    UNREFERENCED_PARAMETER(hContext);
    return pPresent->Flags.Blt ? STATUS_SUCCESS : STATUS_NOT_SUPPORTED;
}

static NTSTATUS Patch(HANDLE hAdapter, const DXGKARG_PATCH *pPatch) {
    UINT i;
    UNREFERENCED_PARAMETER(hAdapter);
    for (i = 0; i < pPatch->PatchLocationListSubmissionLength; i++) {
        const D3DDDI_PATCHLOCATIONLIST *location =
            &pPatch->pPatchLocationList[pPatch->PatchLocationListSubmissionStart + i];
        const DXGK_ALLOCATIONLIST *allocation = &pPatch->pAllocationList[location->AllocationIndex];
        *(PULONG)((PUCHAR)pPatch->pDmaBuffer + location->PatchOffset) =
            allocation->PhysicalAddress.LowPart + location->AllocationOffset;
    }
    return STATUS_SUCCESS;
}

static NTSTATUS SubmitCommand(HANDLE hAdapter, const DXGKARG_SUBMITCOMMAND *pSubmitCommand) {
    PADAPTER adapter = (PADAPTER)hAdapter;
    PPACKET packet = (PPACKET)pSubmitCommand->pDmaBufferPrivateData;
    KIRQL level;
    packet->FenceId = pSubmitCommand->SubmissionFenceId;
    KeAcquireSpinLock(&adapter->Lock, &level);
    adapter->LastSubmitted = packet->FenceId;
    InsertTailList(&adapter->Packets, &packet->Link);
    WRITE_REGISTER_ULONG(Register(adapter, REGISTER_GO), packet->FenceId);
    KeReleaseSpinLock(&adapter->Lock, level);
    return STATUS_SUCCESS;
}

typedef struct _PREEMPTION {
    PADAPTER Adapter;
    UINT FenceId;
} PREEMPTION;

static BOOLEAN ReportPreempted(PVOID SynchronizeContext) {
    PREEMPTION *preemption = (PREEMPTION *)SynchronizeContext;
    PADAPTER adapter = preemption->Adapter;
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
    RtlZeroMemory(&data, sizeof(data));
    data.InterruptType = DXGK_INTERRUPT_DMA_PREEMPTED;
    data.DmaPreempted.PreemptionFenceId = preemption->FenceId;
    data.DmaPreempted.LastCompletedFenceId = adapter->LastCompleted;
    adapter->Kernel.DxgkCbNotifyInterrupt(adapter->Kernel.DeviceHandle, &data);
    return adapter->Kernel.DxgkCbQueueDpc(adapter->Kernel.DeviceHandle);
}

static NTSTATUS PreemptCommand(HANDLE hAdapter, const DXGKARG_PREEMPTCOMMAND *pPreemptCommand) {
    PADAPTER adapter = (PADAPTER)hAdapter;
    PREEMPTION preemption;
    BOOLEAN queued = FALSE;
    preemption.Adapter = adapter;
    preemption.FenceId = pPreemptCommand->PreemptionFenceId;
    return adapter->Kernel.DxgkCbSynchronizeExecution(
        adapter->Kernel.DeviceHandle, ReportPreempted, &preemption, 0, &queued);
}

static NTSTATUS QueryCurrentFence(HANDLE hAdapter, DXGKARG_QUERYCURRENTFENCE *pCurrentFence) {
    pCurrentFence->CurrentFence = ((PADAPTER)hAdapter)->LastCompleted;
    return STATUS_SUCCESS;
}

static NTSTATUS ResetEngine(HANDLE hAdapter, DXGKARG_RESETENGINE *pResetEngine) {
    pResetEngine->LastAbortedFenceId = ((PADAPTER)hAdapter)->LastSubmitted;
    return STATUS_SUCCESS;
}

static NTSTATUS QueryEngineStatus(HANDLE hAdapter, DXGKARG_QUERYENGINESTATUS *pQueryEngineStatus) {
    UNREFERENCED_PARAMETER(hAdapter);
    pQueryEngineStatus->EngineStatus.Responsive = 1;
    return STATUS_SUCCESS;
}

static NTSTATUS QueryDependentEngineGroup(
    HANDLE hAdapter, DXGKARG_QUERYDEPENDENTENGINEGROUP *pQueryDependentEngineGroup) {
    UNREFERENCED_PARAMETER(hAdapter);
    pQueryDependentEngineGroup->DependentNodeOrdinalMask = 1;
    return STATUS_SUCCESS;
}

static NTSTATUS ResetFromTimeout(HANDLE hAdapter) {
    UNREFERENCED_PARAMETER(hAdapter);
    return STATUS_SUCCESS;
}

static NTSTATUS Escape(HANDLE hAdapter, const DXGKARG_ESCAPE *pEscape) {
    UNREFERENCED_PARAMETER(hAdapter);
    return pEscape->Flags.HardwareAccess ? STATUS_NOT_SUPPORTED : STATUS_SUCCESS;
}

EXTERN_C NTSTATUS DriverEntry(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath);

NTSTATUS DriverEntry(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath) {
    DRIVER_INITIALIZATION_DATA data;
    PAGED_CODE();
    if (!ARGUMENT_PRESENT(DriverObject) || !ARGUMENT_PRESENT(RegistryPath)) {
        return STATUS_INVALID_PARAMETER;
    }
    RtlZeroMemory(&data, sizeof(data));
    data.Version = DXGKDDI_INTERFACE_VERSION;
    data.DxgkDdiAddDevice = AddDevice;
    data.DxgkDdiStartDevice = StartDevice;
    data.DxgkDdiStopDevice = StopDevice;
    data.DxgkDdiRemoveDevice = RemoveDevice;
    data.DxgkDdiUnload = Unload;
    data.DxgkDdiInterruptRoutine = InterruptRoutine;
    data.DxgkDdiDpcRoutine = DpcRoutine;
    data.DxgkDdiQueryChildRelations = QueryChildRelations;
    data.DxgkDdiSetPowerState = SetPowerState;
    data.DxgkDdiQueryAdapterInfo = QueryAdapterInfo;
    data.DxgkDdiCreateDevice = CreateDevice;
    data.DxgkDdiDestroyDevice = DestroyDevice;
    data.DxgkDdiCreateContext = CreateContext;
    data.DxgkDdiDestroyContext = DestroyContext;
    data.DxgkDdiCreateAllocation = CreateAllocation;
    data.DxgkDdiBuildPagingBuffer = BuildPagingBuffer;
    data.DxgkDdiRender = Render;
    data.DxgkDdiPresent = Present;
    data.DxgkDdiPatch = Patch;
    data.DxgkDdiSubmitCommand = SubmitCommand;
    data.DxgkDdiPreemptCommand = PreemptCommand;
    data.DxgkDdiQueryCurrentFence = QueryCurrentFence;
    data.DxgkDdiResetEngine = ResetEngine;
    data.DxgkDdiQueryEngineStatus = QueryEngineStatus;
    data.DxgkDdiQueryDependentEngineGroup = QueryDependentEngineGroup;
    data.DxgkDdiResetFromTimeout = ResetFromTimeout;
    data.DxgkDdiEscape = Escape;
    return DxgkInitialize(DriverObject, RegistryPath, &data);
}
