/*
 * The patched driver with one mistake, by its number in MISTAKE.
 */
#define DXGKDDI_INTERFACE_VERSION DXGKDDI_INTERFACE_VERSION_WIN8
#include <ntddk.h>
#include <dispmprt.h>

static NTSTATUS Planted(
    PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath, PDRIVER_INITIALIZATION_DATA data);

#define DxgkInitialize Planted
#include "../../../drivers/patched/patched.c"
#undef DxgkInitialize

static NTSTATUS PlantedRender(HANDLE hContext, DXGKARG_RENDER *pRender) {
    DXGKARG_RENDER before = *pRender;
    NTSTATUS status = Render(hContext, pRender);
    switch (MISTAKE) {
    case 1: /* the buffer is not moved past the commands */
        pRender->pDmaBuffer = before.pDmaBuffer;
        break;
    case 2: /* half an entry of the patch list */
        pRender->pPatchLocationListOut =
            (D3DDDI_PATCHLOCATIONLIST *)((PUCHAR)pRender->pPatchLocationListOut + 4);
        break;
    case 3: /* an allocation that is not in the list */
        before.pPatchLocationListOut->AllocationIndex = before.AllocationListSize;
        break;
    case 4: /* a slot above MaxAllocationListSlotId */
        before.pPatchLocationListOut->SlotId = LAST_SLOT + 1;
        break;
    case 5: /* a pass without progress */
        pRender->pDmaBuffer = before.pDmaBuffer;
        status = STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
        break;
    }
    return status;
}

static NTSTATUS PlantedQuery(HANDLE hAdapter, const DXGKARG_QUERYADAPTERINFO *pQuery) {
    NTSTATUS status = QueryPatchedAdapterInfo(hAdapter, pQuery);
    if (MISTAKE == 6 && pQuery->Type == DXGKQAITYPE_QUERYSEGMENT3) {
        DXGK_QUERYSEGMENTOUT3 *out = (DXGK_QUERYSEGMENTOUT3 *)pQuery->pOutputData;
        if (out->pSegmentDescriptor != NULL) {
            out->pSegmentDescriptor->Flags.PopulatedFromSystemMemory = 0;
            out->pSegmentDescriptor->Flags.Aperture = 1;
        }
    }
    return status;
}

static NTSTATUS PlantedCreateAllocation(HANDLE hAdapter, DXGKARG_CREATEALLOCATION *pCreate) {
    NTSTATUS status = CreateAllocation(hAdapter, pCreate);
    if (MISTAKE == 8 && NT_SUCCESS(status)) {
        pCreate->pAllocationInfo->Size -= 1;
    }
    return status;
}

static NTSTATUS PlantedOpenAllocation(HANDLE hDevice, const DXGKARG_OPENALLOCATION *pOpen) {
    NTSTATUS status = OpenAllocation(hDevice, pOpen);
    DXGK_OPENALLOCATIONINFO *info = pOpen->pOpenAllocation;
    if (MISTAKE == 9 && NT_SUCCESS(status)) {
        ExFreePoolWithTag(info->hDeviceSpecificAllocation, TAG);
        info->hDeviceSpecificAllocation = NULL;
    }
    return status;
}

static NTSTATUS PlantedCloseAllocation(HANDLE hDevice, const DXGKARG_CLOSEALLOCATION *pClose) {
    return pClose->pOpenHandleList[0] == NULL ? STATUS_SUCCESS : CloseAllocation(hDevice, pClose);
}

/* A thread of the driver runs from the start of the device to its stop. */
static KEVENT ending;
static PVOID thread;

static VOID RunUntilTheEnd(PVOID StartContext) {
    UNREFERENCED_PARAMETER(StartContext);
    (void)KeWaitForSingleObject(&ending, Executive, KernelMode, FALSE, NULL);
    (void)PsTerminateSystemThread(STATUS_SUCCESS);
}

static NTSTATUS PlantedStartDevice(
    PVOID MiniportDeviceContext, PDXGK_START_INFO DxgkStartInfo, PDXGKRNL_INTERFACE DxgkInterface,
    PULONG NumberOfVideoPresentSources, PULONG NumberOfChildren) {
    NTSTATUS status = StartDevice(
        MiniportDeviceContext, DxgkStartInfo, DxgkInterface, NumberOfVideoPresentSources,
        NumberOfChildren);
    HANDLE handle;
    if (NT_SUCCESS(status)) {
        KeInitializeEvent(&ending, NotificationEvent, FALSE);
        (void)PsCreateSystemThread(&handle, 0, NULL, NULL, NULL, RunUntilTheEnd, NULL);
        (void)ObReferenceObjectByHandle(handle, 0, NULL, KernelMode, &thread, NULL);
        (void)ZwClose(handle);
    }
    return status;
}

static NTSTATUS PlantedStopDevice(PVOID MiniportDeviceContext) {
    (void)KeSetEvent(&ending, 0, FALSE);
    NT_ASSERT(
        KeWaitForSingleObject(thread, Executive, KernelMode, FALSE, NULL) == STATUS_WAIT_0);
    ObDereferenceObject(thread);
    return StopDevice(MiniportDeviceContext);
}

static NTSTATUS Planted(
    PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath, PDRIVER_INITIALIZATION_DATA data) {
    data->DxgkDdiStartDevice = PlantedStartDevice;
    data->DxgkDdiStopDevice = PlantedStopDevice;
    data->DxgkDdiRender = PlantedRender;
    data->DxgkDdiCreateAllocation = PlantedCreateAllocation;
    data->DxgkDdiOpenAllocation = PlantedOpenAllocation;
    data->DxgkDdiCloseAllocation = PlantedCloseAllocation;
    data->DxgkDdiQueryAdapterInfo = PlantedQuery;
    if (MISTAKE == 7) {
        data->DxgkDdiPatch = NULL;
    }
    return DxgkInitialize(DriverObject, RegistryPath, data);
}
