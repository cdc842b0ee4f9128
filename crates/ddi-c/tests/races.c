/*
 * The packet driver with a race, by its number in RACE, or without one (0): another interrupt
 * routine, DPC and submission. `conform` does not notice the races, and `conform --explore` does.
 */
#define DXGKDDI_INTERFACE_VERSION DXGKDDI_INTERFACE_VERSION_WDDM2_0
#include <ntddk.h>
#include <dispmprt.h>

static NTSTATUS Planted(
    PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath, PDRIVER_INITIALIZATION_DATA data);

#define DxgkInitialize Planted
#include "../../../drivers/packet/packet.c"
#undef DxgkInitialize

#define COMPLETED_BEFORE_CAUSE 1 /* the completed ids are read before the causes are cleared */
#define NOT_SYNCHRONIZED 2       /* the DPC clears what the interrupt routine sets */
#define UNLOCKED_MASK 3          /* the DPC clears what a submission on another thread sets */
#define LOST_WAKE_UP 4           /* a DPC that runs counts as one that will run */
#define ID_AFTER_DOORBELL 5      /* the last submitted id is stored after the engine was told */

/* Reports since the last DPC. Guarded by the interrupt level. */
static ULONG64 reports;

/* The nodes that are to be told about their rings, and the DPC that tells them. */
static KDPC kick;
static volatile LONG kicks;
static volatile BOOLEAN kicking;

static BOOLEAN Interrupt(PVOID MiniportDeviceContext, ULONG MessageNumber) {
    PADAPTER adapter = (PADAPTER)MiniportDeviceContext;
    ULONG early[MAX_NODES];
    BOOLEAN ours = FALSE;
    ULONG64 cause;
    ULONG number;
    UNREFERENCED_PARAMETER(MessageNumber);
    for (number = 0; RACE == COMPLETED_BEFORE_CAUSE && number < adapter->Nodes; number++) {
        early[number] = (ULONG)Read(adapter, REG_COMPLETED_FENCE + number);
    }
    while ((cause = Read(adapter, REG_INTERRUPT_CAUSE)) != 0 && cause != NO_DEVICE) {
        ULONG64 preempted =
            cause & CAUSE_DMA_PREEMPTED ? Read(adapter, REG_PREEMPTED_ENGINES) : 0;
        ours = TRUE;
        for (number = 0; number < adapter->Nodes; number++) {
            NODE *node = &adapter->Node[number];
            ULONG completed;
            if (!(cause & CAUSE_ENGINE(number)) && !(preempted >> number & 1)) {
                continue;
            }
            completed = RACE == COMPLETED_BEFORE_CAUSE
                ? early[number]
                : (ULONG)Read(adapter, REG_COMPLETED_FENCE + number);
            if (RACE == ID_AFTER_DOORBELL && (LONG)(completed - node->Submitted) > 0) {
                continue;
            }
            reports++;
            node->Reported = completed;
            NotifyCompleted(adapter, number, completed);
            if (preempted >> number & 1) {
                NotifyPreempted(
                    adapter, number, (ULONG)Read(adapter, REG_PREEMPTED_FENCE + number),
                    (ULONG)Read(adapter, REG_PREEMPTED_COMPLETED + number));
            }
        }
    }
    if (ours) {
        adapter->Kernel.DxgkCbQueueDpc(adapter->Kernel.DeviceHandle);
    }
    return ours;
}

static BOOLEAN Take(PVOID SynchronizeContext) {
    *(ULONG64 *)SynchronizeContext = reports;
    reports = 0;
    return TRUE;
}

static VOID Dpc(PVOID MiniportDeviceContext) {
    PADAPTER adapter = (PADAPTER)MiniportDeviceContext;
    ULONG64 taken = reports;
    BOOLEAN done;
    if (RACE != NOT_SYNCHRONIZED) {
        (void)adapter->Kernel.DxgkCbSynchronizeExecution(
            adapter->Kernel.DeviceHandle, Take, &taken, 0, &done);
    }
    if (taken != 0 || RACE != NOT_SYNCHRONIZED) {
        adapter->Kernel.DxgkCbNotifyDpc(adapter->Kernel.DeviceHandle);
    }
    if (RACE == NOT_SYNCHRONIZED) {
        reports = 0;
    }
}

static VOID Tell(PADAPTER adapter, ULONG number) {
    COMMAND command;
    Fill(&command, CMD_KICK_QUEUE, adapter->Node[number].Queue, 0, 0);
    (void)Run(adapter, &command);
}

static VOID TellAll(PKDPC Dpc, PVOID DeferredContext, PVOID First, PVOID Second) {
    PADAPTER adapter = (PADAPTER)DeferredContext;
    ULONG number;
    LONG taken;
    UNREFERENCED_PARAMETER(Dpc);
    UNREFERENCED_PARAMETER(First);
    UNREFERENCED_PARAMETER(Second);
    kicking = TRUE;
    taken = RACE == UNLOCKED_MASK ? kicks : InterlockedExchange(&kicks, 0);
    for (number = 0; number < adapter->Nodes; number++) {
        if (taken >> number & 1) {
            Tell(adapter, number);
        }
    }
    if (RACE == UNLOCKED_MASK) {
        kicks = 0;
    }
    kicking = FALSE;
}

static NTSTATUS SubmitRacing(HANDLE hAdapter, const DXGKARG_SUBMITCOMMANDVIRTUAL *pSubmitCommand) {
    PADAPTER adapter = (PADAPTER)hAdapter;
    PCONTEXT context = (PCONTEXT)pSubmitCommand->hContext;
    NODE *node = &adapter->Node[context->Node];
    ULONG64 flags = 0, bytes = pSubmitCommand->DmaBufferSize;
    ULONG64 *slot;
    KIRQL level;
    if (pSubmitCommand->Flags.ContextSwitch) {
        flags |= DMA_CONTEXT_SWITCH;
        bytes = 0;
    }
    if (pSubmitCommand->Flags.Resubmission) {
        flags |= DMA_RESUME;
    }
    KeAcquireSpinLock(&node->Lock, &level);
    slot = node->Slots + node->Written % RING_SLOTS * SLOT_WORDS;
    node->Written++;
    if (RACE != ID_AFTER_DOORBELL) {
        node->Submitted = pSubmitCommand->SubmissionFenceId;
    }
    slot[0] = SLOT_EXECUTE_DMA | (ULONG64)pSubmitCommand->SubmissionFenceId << 32;
    slot[1] = pSubmitCommand->DmaBufferVirtualAddress;
    slot[2] = bytes | (ULONG64)context->Device->Process->Space << 32;
    slot[3] = flags << 32;
    slot[4] = 0;
    slot[5] = (ULONG64)(ULONG_PTR)context->Kernel;
    KeMemoryBarrier();
    node->Control[CONTROL_WRITE] = node->Written;
    if (RACE == ID_AFTER_DOORBELL) {
        Tell(adapter, context->Node);
    } else {
        (void)InterlockedOr(&kicks, 1 << context->Node);
        if (RACE != LOST_WAKE_UP || !kicking) {
            (void)KeInsertQueueDpc(&kick, NULL, NULL);
        }
    }
    node->Submitted = pSubmitCommand->SubmissionFenceId;
    KeReleaseSpinLock(&node->Lock, level);
    return STATUS_SUCCESS;
}

static NTSTATUS Start(
    PVOID MiniportDeviceContext, PDXGK_START_INFO DxgkStartInfo, PDXGKRNL_INTERFACE DxgkInterface,
    PULONG NumberOfVideoPresentSources, PULONG NumberOfChildren) {
    KeInitializeDpc(&kick, TellAll, MiniportDeviceContext);
    return StartDevice(
        MiniportDeviceContext, DxgkStartInfo, DxgkInterface, NumberOfVideoPresentSources,
        NumberOfChildren);
}

static NTSTATUS Planted(
    PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath, PDRIVER_INITIALIZATION_DATA data) {
    data->DxgkDdiStartDevice = Start;
    data->DxgkDdiInterruptRoutine = Interrupt;
    data->DxgkDdiDpcRoutine = Dpc;
    data->DxgkDdiSubmitCommandVirtual = SubmitRacing;
    return DxgkInitialize(DriverObject, RegistryPath, data);
}
