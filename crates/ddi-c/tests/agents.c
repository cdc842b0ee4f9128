/*
 * The packet driver with a timer, a DPC and a thread. The timer's DPC sets an event for which the
 * thread waits. DxgkDdiStartDevice waits for the thread. With MISTAKE 1 the timer stays set at the
 * end. With MISTAKE 2 DxgkDdiAddDevice fails and leaves a thread that runs. With MISTAKE 3
 * DxgkDdiStartDevice waits for an event that nothing sets, with 4 DxgkDdiAddDevice does. With
 * MISTAKE 5 DxgkDdiRemoveDevice reports a packet.
 */
#define DXGKDDI_INTERFACE_VERSION DXGKDDI_INTERFACE_VERSION_WDDM2_0
#include <ntddk.h>
#include <dispmprt.h>

static NTSTATUS Extended(
    PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath, PDRIVER_INITIALIZATION_DATA data);

#define DxgkInitialize Extended
#include "../../../drivers/packet/packet.c"
#undef DxgkInitialize

static KTIMER timer;
static KTIMER again;
static KDPC dpc;
static KEVENT begun;
static KEVENT ticked;
static KEVENT woken;
static PVOID thread;
static LONG dpcs;
static LONG rearmed;
static LONG stops;

static VOID Tick(PRKDPC Dpc, PVOID DeferredContext, PVOID SystemArgument1, PVOID SystemArgument2) {
    NT_ASSERT(Dpc == &dpc && DeferredContext == &ticked);
    NT_ASSERT(KeGetCurrentIrql() == DISPATCH_LEVEL);
    UNREFERENCED_PARAMETER(SystemArgument1);
    UNREFERENCED_PARAMETER(SystemArgument2);
    (void)InterlockedIncrement(&dpcs);
    /* A thread that waits for a timer wakes if the timer is set again. */
    if (KeReadStateEvent(&begun) != 0 && InterlockedIncrement(&rearmed) == 1) {
        LARGE_INTEGER due;
        due.QuadPart = -10;
        NT_ASSERT(KeSetTimer(&again, due, NULL));
    }
    (void)KeSetEvent(&ticked, 0, FALSE);
}

/* A synchronization timer releases one wait for each expiry. */
static VOID WaitOnce(VOID) {
    KTIMER once;
    LARGE_INTEGER due, now;
    due.QuadPart = -10;
    now.QuadPart = 0;
    KeInitializeTimerEx(&once, SynchronizationTimer);
    NT_ASSERT(!KeSetTimer(&once, due, NULL));
    NT_ASSERT(
        KeWaitForSingleObject(&once, Executive, KernelMode, FALSE, NULL) == STATUS_SUCCESS);
    NT_ASSERT(
        KeWaitForSingleObject(&once, Executive, KernelMode, FALSE, &now) == STATUS_TIMEOUT);
}

static VOID Serve(PVOID StartContext) {
    NT_ASSERT(StartContext == &woken);
    WaitOnce();
    (void)KeSetEvent(&begun, 0, FALSE);
    (void)KeWaitForSingleObject(&again, Executive, KernelMode, FALSE, NULL);
    for (;;) {
        (void)KeWaitForSingleObject(&ticked, Executive, KernelMode, FALSE, NULL);
        (void)KeSetEvent(&woken, 0, FALSE);
        if (InterlockedOr(&stops, 0) != 0) {
            (void)PsTerminateSystemThread(STATUS_SUCCESS);
        }
    }
}

static NTSTATUS ExtendedStartDevice(
    PVOID MiniportDeviceContext, PDXGK_START_INFO DxgkStartInfo, PDXGKRNL_INTERFACE DxgkInterface,
    PULONG NumberOfVideoPresentSources, PULONG NumberOfChildren) {
    LARGE_INTEGER due, late, now;
    HANDLE handle;
    NTSTATUS status;
    due.QuadPart = -10;
    late.QuadPart = -36000000000; /* an hour */
    now.QuadPart = 0;
    KeInitializeEvent(&begun, NotificationEvent, FALSE);
    KeInitializeEvent(&ticked, SynchronizationEvent, FALSE);
    KeInitializeEvent(&woken, NotificationEvent, FALSE);
    NT_ASSERT(
        KeWaitForSingleObject(&woken, Executive, KernelMode, FALSE, &now) == STATUS_TIMEOUT);
    KeInitializeDpc(&dpc, Tick, &ticked);
    KeInitializeTimer(&timer);
    KeInitializeTimer(&again);
    NT_ASSERT(!KeSetTimer(&again, late, NULL));
    status = PsCreateSystemThread(&handle, 0, NULL, NULL, NULL, Serve, &woken);
    if (!NT_SUCCESS(status)) {
        return status;
    }
    (void)ObReferenceObjectByHandle(handle, 0, NULL, KernelMode, &thread, NULL);
    (void)ZwClose(handle);
    NT_ASSERT(
        KeWaitForSingleObject(&begun, Executive, KernelMode, FALSE, NULL) == STATUS_SUCCESS);
    if (MISTAKE == 3) {
        (void)KeWaitForSingleObject(&woken, Executive, KernelMode, FALSE, NULL);
    }
    NT_ASSERT(!KeSetTimerEx(&timer, due, 1, &dpc));
    return StartDevice(
        MiniportDeviceContext, DxgkStartInfo, DxgkInterface, NumberOfVideoPresentSources,
        NumberOfChildren);
}

static NTSTATUS ExtendedStopDevice(PVOID MiniportDeviceContext) {
    (void)KeWaitForSingleObject(&woken, Executive, KernelMode, FALSE, NULL);
    if (MISTAKE != 1) {
        NT_ASSERT(KeCancelTimer(&timer));
        NT_ASSERT(!KeCancelTimer(&timer));
    }
    KeFlushQueuedDpcs();
    NT_ASSERT(dpcs > 0);
    NT_ASSERT(KeReadStateEvent(&woken) != 0);
    (void)InterlockedIncrement(&stops);
    (void)KeSetEvent(&ticked, 0, FALSE);
    (void)KeWaitForSingleObject(thread, Executive, KernelMode, FALSE, NULL);
    ObDereferenceObject(thread);
    return StopDevice(MiniportDeviceContext);
}

static VOID Remain(PVOID StartContext) {
    LARGE_INTEGER interval;
    UNREFERENCED_PARAMETER(StartContext);
    interval.QuadPart = -1000;
    do {
        (void)KeSetEvent(&begun, 0, FALSE);
    } while (KeDelayExecutionThread(KernelMode, FALSE, &interval) == STATUS_SUCCESS);
}

static NTSTATUS FailingAddDevice(
    const PDEVICE_OBJECT PhysicalDeviceObject, PVOID *MiniportDeviceContext) {
    HANDLE handle;
    UNREFERENCED_PARAMETER(PhysicalDeviceObject);
    UNREFERENCED_PARAMETER(MiniportDeviceContext);
    KeInitializeEvent(&begun, NotificationEvent, FALSE);
    (void)PsCreateSystemThread(&handle, 0, NULL, NULL, NULL, Remain, NULL);
    (void)KeWaitForSingleObject(&begun, Executive, KernelMode, FALSE, NULL);
    return STATUS_UNSUCCESSFUL;
}

static NTSTATUS WaitingAddDevice(
    const PDEVICE_OBJECT PhysicalDeviceObject, PVOID *MiniportDeviceContext) {
    KeInitializeEvent(&begun, NotificationEvent, FALSE);
    (void)KeWaitForSingleObject(&begun, Executive, KernelMode, FALSE, NULL);
    return AddDevice(PhysicalDeviceObject, MiniportDeviceContext);
}

static BOOLEAN Report(PVOID SynchronizeContext) {
    PADAPTER adapter = (PADAPTER)SynchronizeContext;
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
    RtlZeroMemory(&data, sizeof(data));
    data.InterruptType = DXGK_INTERRUPT_DMA_COMPLETED;
    data.DmaCompleted.SubmissionFenceId = 1;
    adapter->Kernel.DxgkCbNotifyInterrupt(adapter->Kernel.DeviceHandle, &data);
    return TRUE;
}

static NTSTATUS ReportingRemoveDevice(PVOID MiniportDeviceContext) {
    PADAPTER adapter = (PADAPTER)MiniportDeviceContext;
    BOOLEAN done = FALSE;
    (void)adapter->Kernel.DxgkCbSynchronizeExecution(
        adapter->Kernel.DeviceHandle, Report, adapter, 0, &done);
    return RemoveDevice(MiniportDeviceContext);
}

static NTSTATUS Extended(
    PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath, PDRIVER_INITIALIZATION_DATA data) {
    if (MISTAKE == 5) {
        data->DxgkDdiRemoveDevice = ReportingRemoveDevice;
    }
    if (MISTAKE == 4) {
        data->DxgkDdiAddDevice = WaitingAddDevice;
    }
    if (MISTAKE == 2) {
        data->DxgkDdiAddDevice = FailingAddDevice;
    }
    data->DxgkDdiStartDevice = ExtendedStartDevice;
    data->DxgkDdiStopDevice = ExtendedStopDevice;
    return DxgkInitialize(DriverObject, RegistryPath, data);
}
