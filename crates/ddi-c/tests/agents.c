/*
 * The packet driver with a timer, a DPC and a thread. The timer's DPC sets an event for which the
 * thread waits. With MISTAKE 1 the timer stays set at the end.
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
static KDPC dpc;
static KEVENT ticked;
static KEVENT woken;
static PVOID thread;
static LONG dpcs;
static LONG stops;

static VOID Tick(PRKDPC Dpc, PVOID DeferredContext, PVOID SystemArgument1, PVOID SystemArgument2) {
    NT_ASSERT(Dpc == &dpc && DeferredContext == &ticked);
    NT_ASSERT(KeGetCurrentIrql() == DISPATCH_LEVEL);
    UNREFERENCED_PARAMETER(SystemArgument1);
    UNREFERENCED_PARAMETER(SystemArgument2);
    (void)InterlockedIncrement(&dpcs);
    (void)KeSetEvent(&ticked, 0, FALSE);
}

static VOID Serve(PVOID StartContext) {
    NT_ASSERT(StartContext == &woken);
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
    LARGE_INTEGER due, now;
    HANDLE handle;
    NTSTATUS status;
    due.QuadPart = -10;
    now.QuadPart = 0;
    KeInitializeEvent(&ticked, SynchronizationEvent, FALSE);
    KeInitializeEvent(&woken, NotificationEvent, FALSE);
    NT_ASSERT(
        KeWaitForSingleObject(&woken, Executive, KernelMode, FALSE, &now) == STATUS_TIMEOUT);
    KeInitializeDpc(&dpc, Tick, &ticked);
    KeInitializeTimer(&timer);
    status = PsCreateSystemThread(&handle, 0, NULL, NULL, NULL, Serve, &woken);
    if (!NT_SUCCESS(status)) {
        return status;
    }
    (void)ObReferenceObjectByHandle(handle, 0, NULL, KernelMode, &thread, NULL);
    (void)ZwClose(handle);
    NT_ASSERT(!KeSetTimerEx(&timer, due, 1, &dpc));
    return StartDevice(
        MiniportDeviceContext, DxgkStartInfo, DxgkInterface, NumberOfVideoPresentSources,
        NumberOfChildren);
}

static NTSTATUS ExtendedStopDevice(PVOID MiniportDeviceContext) {
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

static NTSTATUS Extended(
    PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath, PDRIVER_INITIALIZATION_DATA data) {
    data->DxgkDdiStartDevice = ExtendedStartDevice;
    data->DxgkDdiStopDevice = ExtendedStopDevice;
    return DxgkInitialize(DriverObject, RegistryPath, data);
}
