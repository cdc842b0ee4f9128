/*
 * The packet driver with one mistake, by its number in MISTAKE. Entries are replaced between the
 * driver's table and DxgkInitialize.
 */
#define DXGKDDI_INTERFACE_VERSION DXGKDDI_INTERFACE_VERSION_WDDM2_0
#include <ntddk.h>
#include <dispmprt.h>

static NTSTATUS Planted(
    PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath, PDRIVER_INITIALIZATION_DATA data);

#define DxgkInitialize Planted
#include "../../../drivers/packet/packet.c"
#undef DxgkInitialize

#define OTHER_TAG 0x6B61656Cu /* 'leak' */

static LONG interrupts;
static LONG dpcs;
static BOOLEAN refuses;

static DXGKCB_QUEUE_DPC queue_dpc;

static BOOLEAN APIENTRY ForgetsDpc(HANDLE DeviceHandle) {
    return InterlockedIncrement(&dpcs) == 1 ? FALSE : queue_dpc(DeviceHandle);
}

static NTSTATUS PlantedCreateDevice(HANDLE hAdapter, DXGKARG_CREATEDEVICE *pCreateDevice) {
    PUCHAR block = (PUCHAR)ExAllocatePoolWithTag(NonPagedPoolNx, 24, TAG);
    KSPIN_LOCK lock;
    KIRQL level = KeGetCurrentIrql();
    NTSTATUS status;
    KeInitializeSpinLock(&lock);
    switch (MISTAKE) {
    case 1: /* a leak */
        (void)ExAllocatePoolWithTag(NonPagedPoolNx, 40, OTHER_TAG);
        break;
    case 2: /* a store after the block */
        block[24] = 1;
        break;
    case 3: /* a second free */
        ExFreePoolWithTag(block, TAG);
        break;
    case 4: /* a free with another tag */
        ExFreePoolWithTag(block, OTHER_TAG);
        block = NULL;
        break;
    case 5: /* a level that stays raised */
        KeRaiseIrql(DISPATCH_LEVEL, &level);
        break;
    case 6: /* a lock that is not held */
        KeReleaseSpinLock(&lock, level);
        break;
    case 7: /* half a register */
        (void)READ_REGISTER_ULONG((volatile ULONG *)((PADAPTER)hAdapter)->Registers);
        break;
    case 8: /* a lock for code at DISPATCH level */
        KeAcquireSpinLockAtDpcLevel(&lock);
        KeReleaseSpinLockFromDpcLevel(&lock);
        break;
    case 9: /* new memory that is taken for zero */
        NT_ASSERT(block[3] == 0);
        break;
    case 10: /* an address that the device cannot have */
        (void)MmGetPhysicalAddress(&lock);
        break;
    case 29: /* a long stall */
        KeStallExecutionProcessor(51);
        break;
    case 30: /* a free of memory that is not contiguous */
        MmFreeContiguousMemory(&lock);
        break;
    case 31: /* a report without data */
        ((PADAPTER)hAdapter)->Kernel.DxgkCbNotifyInterrupt(
            ((PADAPTER)hAdapter)->Kernel.DeviceHandle, NULL);
        break;
    case 32: /* reports without a DPC, once */
        if (queue_dpc == NULL) {
            queue_dpc = ((PADAPTER)hAdapter)->Kernel.DxgkCbQueueDpc;
            ((PADAPTER)hAdapter)->Kernel.DxgkCbQueueDpc = ForgetsDpc;
        }
        break;
    case 36: /* another status for want of memory */
        if (block == NULL) {
            return STATUS_UNSUCCESSFUL;
        }
        break;
    case 37: /* a block that stays after a failure */
        if (block == NULL) {
            return STATUS_NO_MEMORY;
        }
        status = CreateDevice(hAdapter, pCreateDevice);
        if (NT_SUCCESS(status)) {
            ExFreePoolWithTag(block, TAG);
        }
        return status;
    case 38: /* no device after one failure */
        if (block == NULL) {
            refuses = TRUE;
        }
        break;
    case 21: { /* allowed: a DPC without an interrupt */
        const DXGKRNL_INTERFACE *kernel = &((PADAPTER)hAdapter)->Kernel;
        NT_ASSERT(kernel->DxgkCbQueueDpc(kernel->DeviceHandle));
        break;
    }
    default:
        break;
    }
    if (block != NULL) {
        ExFreePoolWithTag(block, TAG);
    }
    return refuses ? STATUS_NO_MEMORY : CreateDevice(hAdapter, pCreateDevice);
}

static VOID PlantedDpcRoutine(PVOID MiniportDeviceContext) {
    LARGE_INTEGER interval;
    interval.QuadPart = -10;
    switch (MISTAKE) {
    case 11: /* a wait in a DPC */
        (void)KeDelayExecutionThread(KernelMode, FALSE, &interval);
        break;
    case 12: /* paged code in a DPC */
        PAGED_CODE();
        break;
    case 21:
        if (InterlockedIncrement(&dpcs) == 1) {
            NT_ASSERT(InterlockedOr(&interrupts, 0) == 0);
        }
        break;
    case 13: /* paged pool in a DPC */
        ExFreePool(ExAllocatePoolWithTag(PagedPool, 8, TAG));
        break;
    default:
        break;
    }
    DpcRoutine(MiniportDeviceContext);
}

static BOOLEAN PlantedInterruptRoutine(PVOID MiniportDeviceContext, ULONG MessageNumber) {
    PADAPTER adapter = (PADAPTER)MiniportDeviceContext;
    (void)InterlockedIncrement(&interrupts);
    if (MISTAKE == 14) { /* a callback above its level */
        adapter->Kernel.DxgkCbNotifyDpc(adapter->Kernel.DeviceHandle);
    }
    if (MISTAKE == 34) { /* the line stays high */
        return TRUE;
    }
    NT_ASSERT(MISTAKE != 35 || MessageNumber == 1);
    return InterruptRoutine(MiniportDeviceContext, MessageNumber);
}

/* Allowed, on a device model with messages and two ranges: finds them all. */
static NTSTATUS PlantedStartDevice(
    PVOID MiniportDeviceContext, PDXGK_START_INFO DxgkStartInfo, PDXGKRNL_INTERFACE DxgkInterface,
    PULONG NumberOfVideoPresentSources, PULONG NumberOfChildren) {
    PVOID block = ExAllocatePoolWithTag(PagedPool, 24, TAG);
    NTSTATUS status;
    DXGK_DEVICE_INFO device;
    PCM_PARTIAL_RESOURCE_LIST resources;
    PHYSICAL_ADDRESS at;
    ULONG read = 0, i;
    USHORT ids[2] = {0, 0};
    UCHAR capability[4] = {0, 0, 0, 0}, place = 0;
    if (block == NULL) {
        return STATUS_NO_MEMORY;
    }
    status = StartDevice(
        MiniportDeviceContext, DxgkStartInfo, DxgkInterface, NumberOfVideoPresentSources,
        NumberOfChildren);
    /* A block that stays after a failure. */
    if (MISTAKE != 40 || NT_SUCCESS(status)) {
        ExFreePoolWithTag(block, TAG);
    }
    if (MISTAKE != 35 || !NT_SUCCESS(status)) {
        return status;
    }
    NT_ASSERT(NT_SUCCESS(DxgkInterface->DxgkCbReadDeviceSpace(
        DxgkInterface->DeviceHandle, 0, ids, 0, sizeof(ids), &read)));
    NT_ASSERT(read == sizeof(ids) && ids[0] == 0x1234 && ids[1] == 1);
    NT_ASSERT(NT_SUCCESS(DxgkInterface->DxgkCbReadDeviceSpace(
        DxgkInterface->DeviceHandle, 0, &place, 0x34, sizeof(place), &read)));
    NT_ASSERT(NT_SUCCESS(DxgkInterface->DxgkCbReadDeviceSpace(
        DxgkInterface->DeviceHandle, 0, capability, place, sizeof(capability), &read)));
    /* Two messages are there, and are on. */
    NT_ASSERT(capability[0] == 5 && capability[1] == 0 && capability[2] == 0x93);
    NT_ASSERT(NT_SUCCESS(
        DxgkInterface->DxgkCbGetDeviceInformation(DxgkInterface->DeviceHandle, &device)));
    resources = &device.TranslatedResourceList->List[0].PartialResourceList;
    NT_ASSERT(resources->Count == 4);
    for (i = 1; i < 3; i++) {
        NT_ASSERT(resources->PartialDescriptors[i].Type == CmResourceTypeInterrupt);
        NT_ASSERT(resources->PartialDescriptors[i].Flags == CM_RESOURCE_INTERRUPT_MESSAGE);
    }
    NT_ASSERT(resources->PartialDescriptors[3].u.Memory.Length == 8192);
    at = resources->PartialDescriptors[3].u.Memory.Start;
    {
        PUCHAR range = (PUCHAR)MmMapIoSpace(at, 8192, MmNonCached);
        NT_ASSERT(READ_REGISTER_UCHAR(range + 3) == 4);
        NT_ASSERT(READ_REGISTER_ULONG((volatile ULONG *)(range + 16)) == 20);
        /* The device makes steps while its start reads a register. */
        while (READ_REGISTER_USHORT((volatile USHORT *)(range + 0x1000)) < 9) {
        }
        MmUnmapIoSpace(range, 8192);
    }
    return status;
}

/* Allowed: private data of a packet is kept when it is preempted. */
static NTSTATUS PlantedCreateContext(HANDLE hDevice, DXGKARG_CREATECONTEXT *pCreateContext) {
    NTSTATUS status = CreateContext(hDevice, pCreateContext);
    pCreateContext->ContextInfo.DmaBufferPrivateDataSize = 16;
    return status;
}

/* Allowed: a kick that the device refuses leaves no packet in the ring. */
static VOID RefuseKick(HANDLE hAdapter, const DXGKARG_SUBMITCOMMANDVIRTUAL *pSubmitCommand) {
    PADAPTER adapter = (PADAPTER)hAdapter;
    NODE *node = &adapter->Node[((PCONTEXT)pSubmitCommand->hContext)->Node];
    ULONG64 queue = node->Queue, written = node->Written;
    ULONG submitted = node->Submitted;
    if (node->Control[CONTROL_READ] == written) {
        node->Queue = 0xFFFF;
        NT_ASSERT(!NT_SUCCESS(SubmitCommandVirtual(hAdapter, pSubmitCommand)));
        node->Queue = queue;
        NT_ASSERT(node->Written == written && node->Control[CONTROL_WRITE] == written);
        NT_ASSERT(node->Submitted == submitted);
    }
}

static LONG resubmitted;

static NTSTATUS PlantedStopDevice(PVOID MiniportDeviceContext) {
    NT_ASSERT(MISTAKE != 28 || resubmitted > 0);
    if (MISTAKE == 33) { /* a ring at an address without memory, which the device reads at once */
        COMMAND command;
        Fill(&command, CMD_CREATE_QUEUE, 0, QUEUE_KIND_NODE, 0);
        command.Words[4] = command.Words[6] = 0x7000;
        command.Words[5] = RING_SLOTS;
        (void)Run((PADAPTER)MiniportDeviceContext, &command);
        (void)CompleteWith((PADAPTER)MiniportDeviceContext, CMD_PREEMPT_NODE, 0, 1);
    }
    return StopDevice(MiniportDeviceContext);
}

static NTSTATUS PlantedSubmitCommandVirtual(
    HANDLE hAdapter, const DXGKARG_SUBMITCOMMANDVIRTUAL *pSubmitCommand) {
    if (MISTAKE == 27) {
        RefuseKick(hAdapter, pSubmitCommand);
    }
    if (MISTAKE == 39) { /* a packet that needs memory */
        PVOID block = ExAllocatePoolWithTag(NonPagedPoolNx, 24, TAG);
        if (block == NULL) {
            return STATUS_NO_MEMORY;
        }
        ExFreePoolWithTag(block, TAG);
    }
    if (MISTAKE == 28) {
        ULONG64 *words = (ULONG64 *)pSubmitCommand->pDmaBufferPrivateData;
        NT_ASSERT(pSubmitCommand->DmaBufferPrivateDataSize == 16);
        if (pSubmitCommand->Flags.Resubmission) {
            (void)InterlockedIncrement(&resubmitted);
            NT_ASSERT(words[1] == pSubmitCommand->DmaBufferVirtualAddress);
        }
        words[1] = pSubmitCommand->DmaBufferVirtualAddress;
    }
    return SubmitCommandVirtual(hAdapter, pSubmitCommand);
}

/* With COPY_BYTES of a page: each buffer begins with the first page again. */
static NTSTATUS PlantedBuildPagingBuffer(
    HANDLE hAdapter, DXGKARG_BUILDPAGINGBUFFER *pBuildPagingBuffer) {
    if (MISTAKE == 33) {
        pBuildPagingBuffer->MultipassOffset = 0;
    }
    if (MISTAKE == 34) { /* a buffer is taken for larger than it is */
        pBuildPagingBuffer->DmaSize = PAGE_SIZE;
    }
    return BuildPagingBuffer(hAdapter, pBuildPagingBuffer);
}

static NTSTATUS PlantedDestroyDevice(HANDLE hDevice) {
    NTSTATUS status = DestroyDevice(hDevice);
    return MISTAKE == 15 ? STATUS_UNSUCCESSFUL : status; /* an entry that must not fail */
}

static NTSTATUS PlantedResetEngine(HANDLE hAdapter, DXGKARG_RESETENGINE *pResetEngine) {
    UNREFERENCED_PARAMETER(hAdapter);
    UNREFERENCED_PARAMETER(pResetEngine);
    return STATUS_UNSUCCESSFUL;
}

static NTSTATUS PlantedQueryAdapterInfo(
    HANDLE hAdapter, const DXGKARG_QUERYADAPTERINFO *pQueryAdapterInfo) {
    NTSTATUS status = QueryAdapterInfo(hAdapter, pQueryAdapterInfo);
    PVOID output = pQueryAdapterInfo->pOutputData;
    if (pQueryAdapterInfo->Type == DXGKQAITYPE_PAGETABLELEVELDESC) {
        DXGK_PAGE_TABLE_LEVEL_DESC *level = (DXGK_PAGE_TABLE_LEVEL_DESC *)output;
        if (MISTAKE == 22) {
            level->PageTableIndexBitCount = 64;
        }
        if (MISTAKE == 23) {
            level->PageTableSizeInBytes /= 2;
        }
    }
    if (MISTAKE == 24 && pQueryAdapterInfo->Type == DXGKQAITYPE_GPUMMUCAPS) {
        ((DXGK_GPUMMUCAPS *)output)->PageTableLevelCount = 0;
    }
    if (MISTAKE == 25 && pQueryAdapterInfo->Type == DXGKQAITYPE_DRIVERCAPS) {
        return STATUS_UNSUCCESSFUL;
    }
    return status;
}

static NTSTATUS Planted(
    PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath, PDRIVER_INITIALIZATION_DATA data) {
    data->DxgkDdiCreateDevice = PlantedCreateDevice;
    data->DxgkDdiQueryAdapterInfo = PlantedQueryAdapterInfo;
    data->DxgkDdiDestroyDevice = PlantedDestroyDevice;
    data->DxgkDdiBuildPagingBuffer = PlantedBuildPagingBuffer;
    data->DxgkDdiDpcRoutine = PlantedDpcRoutine;
    data->DxgkDdiInterruptRoutine = PlantedInterruptRoutine;
    data->DxgkDdiSubmitCommandVirtual = PlantedSubmitCommandVirtual;
    data->DxgkDdiStartDevice = PlantedStartDevice;
    data->DxgkDdiStopDevice = PlantedStopDevice;
    if (MISTAKE == 28) {
        data->DxgkDdiCreateContext = PlantedCreateContext;
    }
    if (MISTAKE == 16) {
        data->Version = 0x2005;
    }
    if (MISTAKE == 17) {
        data->DxgkDdiSubmitCommandVirtual = NULL;
        data->DxgkDdiStopDevice = NULL;
    }
    if (MISTAKE == 18) {
        data->Version = DXGKDDI_INTERFACE_VERSION_WIN8;
    }
    if (MISTAKE == 20) { /* allowed: the adapter is reset then */
        data->DxgkDdiResetEngine = PlantedResetEngine;
    }
    if (MISTAKE == 26) { /* declared: recovery of engines */
        data->DxgkDdiQueryEngineStatus = NULL;
    }
    return MISTAKE == 19 ? STATUS_SUCCESS : DxgkInitialize(DriverObject, RegistryPath, data);
}
