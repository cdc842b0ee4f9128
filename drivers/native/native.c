/*
 * A driver of WDDM 3.2 for the software GPU: hardware queues, native fences, their logs, and
 * doorbells, added to the packet driver, which this file includes. Flips are the packet driver's.
 *
 * Locks, in addition to those of the packet driver:
 * - a queue's lock guards its ring, its hardware and its logs; it is taken like a node's;
 * - the interrupt level guards the lists of hardware and of fence instances, and the suspension
 *   and priority of contexts.
 *
 * No lock is held while a command of the device is pending: an engine that hangs is reset by
 * another thread, which suspends contexts before. The kernel orders the calls for one queue, and
 * those for doorbells.
 *
 * A queue of the kernel has hardware from its creation on. A queue of user mode gets hardware with
 * its doorbell, which brings the ring.
 */
#define INITGUID
#define DXGKDDI_INTERFACE_VERSION DXGKDDI_INTERFACE_VERSION_WDDM3_2
#define OTHER_DRIVER_ENTRY
#include <ntddk.h>
#include <dispmprt.h>
#include "../packet/packet.c"

/* Doorbells that are connected at the same time. */
#ifndef MOST_DOORBELLS
#define MOST_DOORBELLS 64u
#endif
/* How long an engine is idle before it is offered for F1, in nanoseconds. */
#define IDLE_AFTER_NS 100000u
#define FENCE_STRIDE 64u
#define FEATURE_VERSION 1
#define NS_PER_UNIT 100ull /* of priorities */
#define GPU_CLOCK_HZ 1000000000ull
#define CALIBRATION_READINGS 8u
/* Kinds of logs. */
#define LOG_KINDS 3u
#define LOG_OF_COMMANDS 256u

typedef struct _HW_QUEUE HW_QUEUE;
typedef struct _HW_CONTEXT HW_CONTEXT;

typedef struct _NATIVE_ADAPTER {
    ADAPTER Packet;
    BOOLEAN HardwareScheduling;
    BOOLEAN NativeFences;
    BOOLEAN UserModeSubmission;
    PHYSICAL_ADDRESS Doorbells;
    LONG LastContext;
    ULONG64 Unpowered; /* nodes that a reset has left without power */
    LIST_ENTRY Hardware;
    LIST_ENTRY Instances;
    LIST_ENTRY Connected; /* doorbells, the earliest first; the kernel orders their calls */
    ULONG ConnectedCount;
} NATIVE_ADAPTER, *PNATIVE_ADAPTER;

/* A hardware queue of the device. */
typedef struct _HARDWARE {
    LIST_ENTRY Entry;
    ULONG64 Number;
    HW_QUEUE *Queue;
    BOOLEAN Suspending;
} HARDWARE;

typedef struct _LOG {
    ULONG Kind;
    ULONG Entries;
    ULONG64 Header;
    ULONG64 Payload;
} LOG;

typedef struct _DOORBELL {
    LIST_ENTRY Entry; /* while it is connected */
    HW_QUEUE *Queue;
    HANDLE Kernel;
    HARDWARE *Hardware;
    PVOID Mapped;
    BOOLEAN Superseded;
} DOORBELL;

struct _HW_QUEUE {
    HW_CONTEXT *Context;
    HANDLE Kernel;
    BOOLEAN UserMode;
    BOOLEAN NativeProgress;
    ULONG64 ProgressCurrent;
    ULONG64 ProgressMonitored;
    KSPIN_LOCK Lock;
    HARDWARE *Hardware;
    LOG Logs[LOG_KINDS];
    DOORBELL *Doorbell;
    ULONG64 *Slots;
    volatile ULONG64 *Control;
    ULONG64 Written;
};

struct _HW_CONTEXT {
    CONTEXT Base; /* the part that page tables need */
    ULONG Number;
    BOOLEAN Suspended;
    ULONG64 SuspendFence;
    ULONG Suspending; /* hardware that has not left its engine */
    DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES Properties;
    ULONG PropertiesSet; /* how often */
};

/* CurrentValue and MonitoredValue of a fence in a process. */
typedef struct _FENCE {
    PNATIVE_ADAPTER Adapter;
    HANDLE Kernel;
    BOOLEAN AlwaysSignaled;
} FENCE;

typedef struct _INSTANCE {
    LIST_ENTRY Entry;
    FENCE *Fence;
    ULONG Space;
    ULONG64 Current;
    ULONG64 Monitored;
} INSTANCE;

/* Begins as the packet driver's SURFACE: an allocation is of a ring, or of a surface. */
typedef struct _RING_ALLOCATION {
    ULONG64 Address;
    ULONG64 Bytes;
} RING_ALLOCATION;

static PNATIVE_ADAPTER AdapterOf(const HW_QUEUE *queue) {
    return (PNATIVE_ADAPTER)queue->Context->Base.Device->Adapter;
}

static ULONG SpaceOf(const HW_QUEUE *queue) {
    return queue->Context->Base.Device->Process->Space;
}

/* Runs a function at the interrupt level. */
static BOOLEAN Synchronize(
    PNATIVE_ADAPTER adapter, PKSYNCHRONIZE_ROUTINE routine, PVOID argument) {
    BOOLEAN result = FALSE;
    NTSTATUS status = adapter->Packet.Kernel.DxgkCbSynchronizeExecution(
        adapter->Packet.Kernel.DeviceHandle, routine, argument, 0, &result);
    NT_ASSERT(NT_SUCCESS(status));
    return result;
}

/* Lists at the interrupt level */

typedef struct _LIST_CHANGE {
    PLIST_ENTRY List;
    PLIST_ENTRY Entry;
} LIST_CHANGE;

static BOOLEAN InsertAtInterruptLevel(PVOID SynchronizeContext) {
    LIST_CHANGE *change = (LIST_CHANGE *)SynchronizeContext;
    InsertTailList(change->List, change->Entry);
    return TRUE;
}

static BOOLEAN RemoveAtInterruptLevel(PVOID SynchronizeContext) {
    (void)RemoveEntryList(((LIST_CHANGE *)SynchronizeContext)->Entry);
    return TRUE;
}

static VOID Insert(PNATIVE_ADAPTER adapter, PLIST_ENTRY list, PLIST_ENTRY entry) {
    LIST_CHANGE change = {list, entry};
    (void)Synchronize(adapter, InsertAtInterruptLevel, &change);
}

static VOID Remove(PNATIVE_ADAPTER adapter, PLIST_ENTRY entry) {
    LIST_CHANGE change = {NULL, entry};
    (void)Synchronize(adapter, RemoveAtInterruptLevel, &change);
}

/* At the interrupt level. */
static HARDWARE *FindHardware(PNATIVE_ADAPTER adapter, ULONG64 number) {
    PLIST_ENTRY entry;
    for (entry = adapter->Hardware.Flink; entry != &adapter->Hardware; entry = entry->Flink) {
        HARDWARE *hardware = CONTAINING_RECORD(entry, HARDWARE, Entry);
        if (hardware->Number == number) {
            return hardware;
        }
    }
    return NULL;
}

/* At the interrupt level. */
static INSTANCE *FindInstance(PNATIVE_ADAPTER adapter, ULONG space, ULONG64 current) {
    PLIST_ENTRY entry;
    for (entry = adapter->Instances.Flink; entry != &adapter->Instances; entry = entry->Flink) {
        INSTANCE *instance = CONTAINING_RECORD(entry, INSTANCE, Entry);
        if (instance->Space == space && instance->Current == current) {
            return instance;
        }
    }
    return NULL;
}

typedef struct _NEXT {
    PNATIVE_ADAPTER Adapter;
    const HW_CONTEXT *Context; /* NULL: all suspended contexts of the node */
    ULONG Node;
    ULONG64 From;
    ULONG64 Number;
} NEXT;

/* Finds the hardware of a context with the lowest number from `From` on. */
static BOOLEAN FindNext(PVOID SynchronizeContext) {
    NEXT *next = (NEXT *)SynchronizeContext;
    PLIST_ENTRY list = &next->Adapter->Hardware, entry;
    BOOLEAN found = FALSE;
    for (entry = list->Flink; entry != list; entry = entry->Flink) {
        const HARDWARE *hardware = CONTAINING_RECORD(entry, HARDWARE, Entry);
        const HW_CONTEXT *context = hardware->Queue->Context;
        BOOLEAN matches = next->Context == NULL
                              ? context->Suspended && context->Base.Node == next->Node
                              : context == next->Context;
        if (matches && hardware->Number >= next->From &&
            (!found || hardware->Number < next->Number)) {
            next->Number = hardware->Number;
            found = TRUE;
        }
    }
    next->From = found ? next->Number + 1 : next->From;
    return found;
}

/* Interrupts */

static VOID NotifySignaled(PADAPTER adapter, ULONG node, HANDLE *fence, BOOLEAN monitored) {
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
    RtlZeroMemory(&data, sizeof(data));
    data.InterruptType = DXGK_INTERRUPT_NATIVE_FENCE_SIGNALED;
    data.NativeFenceSignaled.NodeOrdinal = node;
    data.NativeFenceSignaled.SignaledNativeFenceCount = fence == NULL ? 0 : 1;
    data.NativeFenceSignaled.pSignaledNativeFenceArray = fence;
    data.Flags.EvaluateLegacyMonitoredFences = monitored;
    Notify(adapter, &data);
}

static VOID NotifyMonitored(PADAPTER adapter, ULONG node) {
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
    RtlZeroMemory(&data, sizeof(data));
    data.InterruptType = DXGK_INTERRUPT_MONITORED_FENCE_SIGNALED;
    data.MonitoredFenceSignaled.NodeOrdinal = node;
    Notify(adapter, &data);
}

/* Any fence may be signalled. */
static VOID NotifyAnything(PNATIVE_ADAPTER adapter) {
    ULONG node;
    if (adapter->NativeFences) {
        NotifySignaled(&adapter->Packet, 0, NULL, TRUE);
        return;
    }
    for (node = 0; node < adapter->Packet.Nodes; node++) {
        NotifyMonitored(&adapter->Packet, node);
    }
}

/* Reports the signals of the list. */
static VOID ReportSignals(PNATIVE_ADAPTER adapter, BOOLEAN anything) {
    ULONG64 number;
    while ((number = Read(&adapter->Packet, REG_SIGNALED_QUEUE)) != 0 && number != NO_DEVICE) {
        ULONG64 current = Read(&adapter->Packet, REG_SIGNALED_VA);
        BOOLEAN byDevice = (number >> 32) != 0;
        HARDWARE *hardware = byDevice ? NULL : FindHardware(adapter, number - 1);
        INSTANCE *instance;
        ULONG node = 0;
        if (hardware == NULL && !byDevice) {
            anything = TRUE; /* the queue was destroyed, or is a node's */
            continue;
        }
        if (hardware != NULL) {
            HW_QUEUE *queue = hardware->Queue;
            node = queue->Context->Base.Node;
            if (!adapter->NativeFences ||
                (!queue->NativeProgress && queue->ProgressCurrent == current)) {
                NotifyMonitored(&adapter->Packet, node);
                continue;
            }
            instance = FindInstance(adapter, SpaceOf(queue), current);
        } else {
            instance = FindInstance(adapter, (ULONG)number, current);
        }
        NotifySignaled(
            &adapter->Packet, node, instance == NULL ? NULL : &instance->Fence->Kernel, FALSE);
    }
    if (anything) {
        NotifyAnything(adapter);
    }
}

/* Counts that hardware has left its engine. Returns whether it was the last of a suspension. */
static BOOLEAN HasLeft(HARDWARE *hardware) {
    if (!hardware->Suspending) {
        return FALSE;
    }
    hardware->Suspending = FALSE;
    hardware->Queue->Context->Suspending--;
    return hardware->Queue->Context->Suspending == 0;
}

static VOID NotifySuspended(PADAPTER adapter, const HW_CONTEXT *context) {
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
    RtlZeroMemory(&data, sizeof(data));
    data.InterruptType = DXGK_INTERRUPT_SUSPEND_CONTEXT_COMPLETED;
    data.SuspendContextCompleted.hContext = context->Base.Kernel;
    data.SuspendContextCompleted.ContextSuspendFence = context->SuspendFence;
    Notify(adapter, &data);
}

/* Offers engines that were idle for a time to the kernel, which may have them enter F1. */
static VOID OfferIdleEngines(PADAPTER packet) {
    ULONG64 idle = Read(packet, REG_IDLE_ENGINES);
    ULONG node;
    for (node = 0; node < packet->Nodes && idle != NO_DEVICE; node++) {
        if (idle >> node & 1) {
            DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
            RtlZeroMemory(&data, sizeof(data));
            data.InterruptType = DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE;
            data.EngineStateChange.NodeOrdinal = node;
            data.EngineStateChange.NewState = DXGK_ENGINE_STATE_TRANSITION_TO_F1;
            Notify(packet, &data);
        }
    }
}

static VOID ServeCause(PADAPTER packet, ULONG64 cause) {
    PNATIVE_ADAPTER adapter = (PNATIVE_ADAPTER)packet;
    if (cause & (CAUSE_FENCE_SIGNALED | CAUSE_FENCE_COLLAPSED)) {
        ReportSignals(adapter, (cause & CAUSE_FENCE_COLLAPSED) != 0);
    }
    if (cause & CAUSE_ENGINE_IDLE) {
        OfferIdleEngines(packet);
    }
    if (cause & CAUSE_QUEUE_SUSPENDED) {
        ULONG64 number;
        while ((number = Read(packet, REG_SUSPENDED_QUEUE)) != 0 && number != NO_DEVICE) {
            HARDWARE *hardware = FindHardware(adapter, number - 1);
            if (hardware != NULL && HasLeft(hardware)) {
                NotifySuspended(packet, hardware->Queue->Context);
            }
        }
    }
}

static VOID ReportFault(
    PADAPTER packet, ULONG64 number, ULONG64 progress, ULONG64 address, UCHAR kind) {
    HARDWARE *hardware = FindHardware((PNATIVE_ADAPTER)packet, number);
    DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
    if (hardware == NULL) {
        return;
    }
    RtlZeroMemory(&data, sizeof(data));
    data.InterruptType = DXGK_INTERRUPT_HWQUEUE_PAGE_FAULTED;
    data.HwQueuePageFaulted.FaultedFenceId = progress;
    data.HwQueuePageFaulted.FaultedVirtualAddress = address;
    data.HwQueuePageFaulted.FaultedHwQueue = hardware->Queue->Kernel;
    data.HwQueuePageFaulted.NodeOrdinal = hardware->Queue->Context->Base.Node;
    if (kind == FAULT_WRITE_UNMAPPED) {
        data.HwQueuePageFaulted.PageFaultFlags = DXGK_PAGE_FAULT_WRITE;
    }
    data.HwQueuePageFaulted.FaultErrorCode.GeneralErrorCode =
        kind == FAULT_READ_UNMAPPED || kind == FAULT_WRITE_UNMAPPED
            ? DXGK_GENERAL_ERROR_PAGE_FAULT
            : DXGK_GENERAL_ERROR_INVALID_INSTRUCTION;
    Notify(packet, &data);
}

/* Hardware of queues */

static VOID SendLog(PNATIVE_ADAPTER adapter, ULONG64 number, const LOG *log) {
    COMMAND command;
    Fill(&command, CMD_SET_LOG_BUFFER, number, log->Kind, log->Header);
    command.Words[4] = log->Payload;
    command.Words[5] = log->Entries;
    /* A queue that was destroyed needs no log. */
    (void)Run(&adapter->Packet, &command);
}

static NTSTATUS SendProperties(
    PNATIVE_ADAPTER adapter, ULONG64 number,
    const DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES *properties) {
    COMMAND command;
    ULONG64 status;
    Fill(
        &command, CMD_SET_SCHEDULING, number, (ULONG64)properties->priorityBand,
        (ULONG64)properties->realtimeBandPriorityLevel);
    command.Words[4] = (ULONG64)(LONG64)properties->inProcessPriority;
    command.Words[5] = properties->quantum * NS_PER_UNIT;
    status = Exchange(&adapter->Packet, &command);
    return status == 0 || status == MAILBOX_NO_SUCH_QUEUE ? STATUS_SUCCESS : STATUS_UNSUCCESSFUL;
}

/* Runs a command for a queue, which another thread may have destroyed. */
static NTSTATUS CompleteForQueue(PNATIVE_ADAPTER adapter, ULONG64 command, ULONG64 number) {
    COMMAND words;
    ULONG64 status;
    Fill(&words, command, number, 0, 0);
    status = Finish(&adapter->Packet, &words);
    return status == 0 || status == MAILBOX_NO_SUCH_QUEUE || status == MAILBOX_BUSY
               ? STATUS_SUCCESS
               : STATUS_UNSUCCESSFUL;
}

/* Ends the suspension that waits for this hardware. */
static BOOLEAN EndSuspension(PVOID SynchronizeContext) {
    HARDWARE *hardware = (HARDWARE *)SynchronizeContext;
    if (HasLeft(hardware)) {
        PADAPTER adapter = &AdapterOf(hardware->Queue)->Packet;
        NotifySuspended(adapter, hardware->Queue->Context);
        (void)adapter->Kernel.DxgkCbQueueDpc(adapter->Kernel.DeviceHandle);
    }
    return TRUE;
}

/* Destroys hardware. No interrupt names it afterwards. */
static NTSTATUS RetireHardware(HARDWARE *hardware) {
    HW_QUEUE *queue = hardware->Queue;
    PNATIVE_ADAPTER adapter = AdapterOf(queue);
    NTSTATUS status;
    KIRQL level;
    KeAcquireSpinLock(&queue->Lock, &level);
    if (queue->Hardware == hardware) {
        queue->Hardware = NULL;
    }
    KeReleaseSpinLock(&queue->Lock, level);
    Remove(adapter, &hardware->Entry);
    status = CompleteWith(&adapter->Packet, CMD_DESTROY_QUEUE, hardware->Number, 0);
    (void)Synchronize(adapter, EndSuspension, hardware);
    ExFreePoolWithTag(hardware, TAG);
    return status;
}

typedef struct _STATE {
    const HW_CONTEXT *Context;
    BOOLEAN Suspended;
    ULONG PropertiesSet;
    DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES Properties;
} STATE;

static BOOLEAN ReadState(PVOID SynchronizeContext) {
    STATE *state = (STATE *)SynchronizeContext;
    state->Suspended = state->Context->Suspended;
    state->PropertiesSet = state->Context->PropertiesSet;
    state->Properties = state->Context->Properties;
    return TRUE;
}

/*
 * Gives new hardware the state of its context. A later change may reach the hardware before this
 * does, so both are compared until they are equal.
 */
static NTSTATUS ApplyState(PNATIVE_ADAPTER adapter, const HW_CONTEXT *context, ULONG64 number) {
    STATE wanted, told;
    NTSTATUS status = STATUS_SUCCESS;
    RtlZeroMemory(&told, sizeof(told));
    for (;;) {
        wanted.Context = context;
        (void)Synchronize(adapter, ReadState, &wanted);
        if (!NT_SUCCESS(status) || (wanted.Suspended == told.Suspended &&
                                    wanted.PropertiesSet == told.PropertiesSet)) {
            return status;
        }
        if (wanted.PropertiesSet != told.PropertiesSet) {
            status = SendProperties(adapter, number, &wanted.Properties);
        }
        if (NT_SUCCESS(status) && wanted.Suspended != told.Suspended) {
            status = CompleteForQueue(
                adapter, wanted.Suspended ? CMD_SUSPEND_QUEUE : CMD_RESUME_QUEUE, number);
        }
        told = wanted;
    }
}

/* Creates hardware with the state of the queue. */
static NTSTATUS MakeHardware(
    HW_QUEUE *queue, ULONG kind, ULONG64 ring, ULONG64 slots, ULONG64 control, HARDWARE **made) {
    PNATIVE_ADAPTER adapter = AdapterOf(queue);
    HW_CONTEXT *context = queue->Context;
    HARDWARE *hardware = (HARDWARE *)ExAllocatePoolZero(NonPagedPoolNx, sizeof(*hardware), TAG);
    COMMAND command;
    NTSTATUS status;
    KIRQL level;
    ULONG i;
    if (hardware == NULL) {
        return STATUS_NO_MEMORY;
    }
    Fill(&command, CMD_CREATE_QUEUE, context->Base.Node, kind, SpaceOf(queue));
    command.Words[4] = ring;
    command.Words[5] = slots;
    command.Words[6] = control;
    command.Words[7] = queue->ProgressCurrent;
    command.Words[8] = queue->ProgressMonitored;
    command.Words[9] = BAND_NORMAL;
    command.Words[10] = (ULONG64)(ULONG_PTR)queue->Kernel;
    command.Words[11] = context->Number;
    status = Run(&adapter->Packet, &command);
    if (!NT_SUCCESS(status)) {
        ExFreePoolWithTag(hardware, TAG);
        return status;
    }
    hardware->Number = command.Result;
    hardware->Queue = queue;
    Insert(adapter, &adapter->Hardware, &hardware->Entry);
    KeAcquireSpinLock(&queue->Lock, &level);
    queue->Hardware = hardware;
    for (i = 0; i < LOG_KINDS; i++) {
        if (queue->Logs[i].Entries != 0) {
            SendLog(adapter, hardware->Number, &queue->Logs[i]);
        }
    }
    KeReleaseSpinLock(&queue->Lock, level);
    status = ApplyState(adapter, context, hardware->Number);
    if (!NT_SUCCESS(status)) {
        (void)RetireHardware(hardware);
        return status;
    }
    *made = hardware;
    return STATUS_SUCCESS;
}

/* Contexts */

static NTSTATUS CreateHwContext(HANDLE hDevice, DXGKARG_CREATEHWCONTEXT *pCreateContext) {
    PDEVICE device = (PDEVICE)hDevice;
    PNATIVE_ADAPTER adapter = (PNATIVE_ADAPTER)device->Adapter;
    HW_CONTEXT *context;
    PAGED_CODE();
    if (pCreateContext->NodeOrdinal >= adapter->Packet.Nodes) {
        return STATUS_INVALID_PARAMETER;
    }
    context = (HW_CONTEXT *)ExAllocatePoolZero(NonPagedPoolNx, sizeof(*context), TAG);
    if (context == NULL) {
        return STATUS_NO_MEMORY;
    }
    context->Base.Device = device;
    context->Base.Kernel = pCreateContext->hHwContext;
    context->Base.Node = pCreateContext->NodeOrdinal;
    context->Number = (ULONG)InterlockedIncrement(&adapter->LastContext);
    pCreateContext->hHwContext = context;
    return STATUS_SUCCESS;
}

static NTSTATUS DestroyHwContext(HANDLE hHwContext) {
    PAGED_CODE();
    ExFreePoolWithTag(hHwContext, TAG);
    return STATUS_SUCCESS;
}

typedef struct _SUSPENSION {
    PNATIVE_ADAPTER Adapter;
    HW_CONTEXT *Context;
    ULONG64 Fence;
    BOOLEAN Begins;
} SUSPENSION;

/* Begins or ends a suspension. Returns whether there is hardware to wait for. */
static BOOLEAN SetSuspension(PVOID SynchronizeContext) {
    SUSPENSION *suspension = (SUSPENSION *)SynchronizeContext;
    HW_CONTEXT *context = suspension->Context;
    PLIST_ENTRY list = &suspension->Adapter->Hardware, entry;
    context->Suspended = suspension->Begins;
    context->SuspendFence = suspension->Fence;
    context->Suspending = 0;
    for (entry = list->Flink; entry != list; entry = entry->Flink) {
        HARDWARE *hardware = CONTAINING_RECORD(entry, HARDWARE, Entry);
        if (hardware->Queue->Context == context) {
            hardware->Suspending = suspension->Begins;
            context->Suspending += suspension->Begins ? 1 : 0;
        }
    }
    return context->Suspending != 0;
}

typedef struct _LEFT {
    PNATIVE_ADAPTER Adapter;
    ULONG64 Number;
} LEFT;

static BOOLEAN LeftInCommand(PVOID SynchronizeContext) {
    LEFT *left = (LEFT *)SynchronizeContext;
    HARDWARE *hardware = FindHardware(left->Adapter, left->Number);
    return hardware != NULL && HasLeft(hardware);
}

/*
 * Hardware that has left its engine at the end of the command is counted here, and hardware that
 * leaves later by the interrupt routine. The one that counts the last completes the suspension.
 */
static NTSTATUS SuspendContext(HANDLE hAdapter, DXGKARG_SUSPENDCONTEXT *pSuspendContext) {
    PNATIVE_ADAPTER adapter = (PNATIVE_ADAPTER)hAdapter;
    HW_CONTEXT *context = (HW_CONTEXT *)pSuspendContext->hContext;
    SUSPENSION suspension = {adapter, context, pSuspendContext->contextSuspendFence, TRUE};
    NEXT next = {adapter, context, 0, 0, 0};
    BOOLEAN complete;
    PAGED_CODE();
    complete = !Synchronize(adapter, SetSuspension, &suspension);
    while (Synchronize(adapter, FindNext, &next)) {
        LEFT left = {adapter, next.Number};
        COMMAND command;
        ULONG64 status;
        Fill(&command, CMD_SUSPEND_QUEUE, next.Number, 0, 0);
        status = Finish(&adapter->Packet, &command);
        if (status == MAILBOX_BUSY || status == MAILBOX_NO_SUCH_QUEUE) {
            continue;
        }
        if (status != 0) {
            return STATUS_UNSUCCESSFUL;
        }
        if (Synchronize(adapter, LeftInCommand, &left)) {
            complete = TRUE;
        }
    }
    return complete ? STATUS_SUCCESS : STATUS_PENDING;
}

static NTSTATUS ResumeContext(HANDLE hAdapter, DXGKARG_RESUMECONTEXT *pResumeContext) {
    PNATIVE_ADAPTER adapter = (PNATIVE_ADAPTER)hAdapter;
    HW_CONTEXT *context = (HW_CONTEXT *)pResumeContext->hContext;
    SUSPENSION suspension = {adapter, context, 0, FALSE};
    NEXT next = {adapter, context, 0, 0, 0};
    NTSTATUS status = STATUS_SUCCESS;
    PAGED_CODE();
    (void)Synchronize(adapter, SetSuspension, &suspension);
    while (NT_SUCCESS(status) && Synchronize(adapter, FindNext, &next)) {
        status = CompleteForQueue(adapter, CMD_RESUME_QUEUE, next.Number);
    }
    return status;
}

static NTSTATUS SetupPriorityBands(HANDLE hAdapter, DXGKARG_SETUPPRIORITYBANDS *pBands) {
    COMMAND command;
    ULONG band;
    PAGED_CODE();
    Fill(&command, CMD_SET_BANDS, 0, 0, 0);
    for (band = 0; band < ARRAYSIZE(pBands->processQuantumForBand); band++) {
        command.Words[1 + band] = pBands->processQuantumForBand[band] * NS_PER_UNIT;
    }
    command.Words[1 + band] = pBands->targetNormalBandPercentage;
    return Run((PADAPTER)hAdapter, &command);
}

static BOOLEAN SetProperties(PVOID SynchronizeContext) {
    const DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES *properties =
        (const DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES *)SynchronizeContext;
    HW_CONTEXT *context = (HW_CONTEXT *)properties->hContext;
    context->Properties = *properties;
    context->PropertiesSet++;
    return TRUE;
}

static NTSTATUS SetContextSchedulingProperties(
    HANDLE hAdapter, DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES *pProperties) {
    PNATIVE_ADAPTER adapter = (PNATIVE_ADAPTER)hAdapter;
    NEXT next = {adapter, (HW_CONTEXT *)pProperties->hContext, 0, 0, 0};
    NTSTATUS status = STATUS_SUCCESS;
    PAGED_CODE();
    (void)Synchronize(adapter, SetProperties, pProperties);
    while (NT_SUCCESS(status) && Synchronize(adapter, FindNext, &next)) {
        status = SendProperties(adapter, next.Number, pProperties);
    }
    return status;
}

/* Hardware queues */

static NTSTATUS MakeKernelRing(HW_QUEUE *queue) {
    PHYSICAL_ADDRESS lowest, highest, none;
    HARDWARE *hardware;
    lowest.QuadPart = 0;
    highest.QuadPart = -1;
    none.QuadPart = 0;
    queue->Slots = (ULONG64 *)MmAllocateContiguousMemorySpecifyCache(
        RING_SLOTS * SLOT_BYTES, lowest, highest, none, MmCached);
    queue->Control = (volatile ULONG64 *)MmAllocateContiguousMemorySpecifyCache(
        CONTROL_BYTES, lowest, highest, none, MmNonCached);
    if (queue->Slots == NULL || queue->Control == NULL) {
        return STATUS_INSUFFICIENT_RESOURCES;
    }
    return MakeHardware(
        queue, QUEUE_KIND_KERNEL, (ULONG64)MmGetPhysicalAddress(queue->Slots).QuadPart, RING_SLOTS,
        (ULONG64)MmGetPhysicalAddress((PVOID)queue->Control).QuadPart, &hardware);
}

static VOID FreeQueue(HW_QUEUE *queue) {
    if (queue->Slots != NULL) {
        MmFreeContiguousMemory(queue->Slots);
    }
    if (queue->Control != NULL) {
        MmFreeContiguousMemory((PVOID)queue->Control);
    }
    ExFreePoolWithTag(queue, TAG);
}

typedef struct _SEARCH {
    PNATIVE_ADAPTER Adapter;
    FENCE *Fence; /* NULL for any */
    ULONG Space;
    ULONG64 Current;
    ULONG64 Monitored;
} SEARCH;

/* Finds MonitoredValue of the instance at an address. */
static BOOLEAN FindMonitored(PVOID SynchronizeContext) {
    SEARCH *search = (SEARCH *)SynchronizeContext;
    INSTANCE *instance = FindInstance(search->Adapter, search->Space, search->Current);
    if (instance == NULL) {
        return FALSE;
    }
    search->Monitored = instance->Monitored;
    return TRUE;
}

static NTSTATUS CreateHwQueue(HANDLE hHwContext, DXGKARG_CREATEHWQUEUE *pCreateHwQueue) {
    HW_CONTEXT *context = (HW_CONTEXT *)hHwContext;
    PNATIVE_ADAPTER adapter = (PNATIVE_ADAPTER)context->Base.Device->Adapter;
    HW_QUEUE *queue;
    NTSTATUS status = STATUS_SUCCESS;
    PAGED_CODE();
    queue = (HW_QUEUE *)ExAllocatePoolZero(NonPagedPoolNx, sizeof(*queue), TAG);
    if (queue == NULL) {
        return STATUS_NO_MEMORY;
    }
    KeInitializeSpinLock(&queue->Lock);
    queue->Context = context;
    queue->Kernel = pCreateHwQueue->hHwQueue;
    queue->UserMode = pCreateHwQueue->Flags.UserModeSubmission;
    queue->NativeProgress = pCreateHwQueue->Flags.NativeProgressFence;
    queue->ProgressCurrent = pCreateHwQueue->HwQueueProgressFenceGPUVirtualAddress;
    if (queue->NativeProgress) {
        SEARCH search = {adapter, NULL, SpaceOf(queue), queue->ProgressCurrent, 0};
        if (!Synchronize(adapter, FindMonitored, &search)) {
            ExFreePoolWithTag(queue, TAG);
            return STATUS_INVALID_PARAMETER;
        }
        queue->ProgressMonitored = search.Monitored;
    }
    if (!queue->UserMode) {
        status = MakeKernelRing(queue);
    }
    if (!NT_SUCCESS(status)) {
        FreeQueue(queue);
        return status;
    }
    pCreateHwQueue->hHwQueue = queue;
    return STATUS_SUCCESS;
}

static NTSTATUS DestroyHwQueue(HANDLE hHwQueue) {
    HW_QUEUE *queue = (HW_QUEUE *)hHwQueue;
    NTSTATUS status = STATUS_SUCCESS;
    PAGED_CODE();
    if (queue->Hardware != NULL) {
        status = RetireHardware(queue->Hardware);
    }
    FreeQueue(queue);
    return status;
}

static NTSTATUS SubmitCommandToHwQueue(
    HANDLE hAdapter, DXGKARG_SUBMITCOMMANDTOHWQUEUE *pSubmitCommand) {
    HW_QUEUE *queue = (HW_QUEUE *)pSubmitCommand->hHwQueue;
    ULONG bytes = pSubmitCommand->DmaBufferSize;
    COMMAND command;
    NTSTATUS status;
    KIRQL level;
    if (queue->UserMode || bytes == 0 || bytes % 8 != 0 || bytes > MAX_COMMAND_BYTES) {
        return STATUS_INVALID_PARAMETER;
    }
    KeAcquireSpinLock(&queue->Lock, &level);
    /* MaxInFlightHwQueueBuffers is half of the ring. */
    if (queue->Written - queue->Control[CONTROL_READ] >= RING_SLOTS) {
        status = STATUS_INSUFFICIENT_RESOURCES;
    } else {
        ULONG64 *slot = queue->Slots + queue->Written % RING_SLOTS * SLOT_WORDS;
        slot[0] = SLOT_EXECUTE;
        slot[1] = pSubmitCommand->DmaBufferVirtualAddress;
        slot[2] = bytes;
        slot[3] = pSubmitCommand->HwQueueProgressFenceId;
        queue->Written++;
        KeMemoryBarrier();
        queue->Control[CONTROL_WRITE] = queue->Written;
        Fill(&command, CMD_KICK_QUEUE, queue->Hardware->Number, 0, 0);
        status = Run((PADAPTER)hAdapter, &command);
    }
    KeReleaseSpinLock(&queue->Lock, level);
    return status;
}

/* Recovery of engines with hardware queues */

typedef struct _CUT_OFF {
    PNATIVE_ADAPTER Adapter;
    ULONG64 Number;
    HANDLE Context;
} CUT_OFF;

static BOOLEAN FindContext(PVOID SynchronizeContext) {
    CUT_OFF *cutOff = (CUT_OFF *)SynchronizeContext;
    HARDWARE *hardware = FindHardware(cutOff->Adapter, cutOff->Number);
    if (hardware == NULL) {
        return FALSE;
    }
    cutOff->Context = hardware->Queue->Context->Base.Kernel;
    return TRUE;
}

static BOOLEAN EndSuspensionOf(PVOID SynchronizeContext) {
    LEFT *left = (LEFT *)SynchronizeContext;
    HARDWARE *hardware = FindHardware(left->Adapter, left->Number);
    return hardware != NULL && EndSuspension(hardware);
}

/* Suspends the contexts again that waited for the engine, which holds no queue any longer. */
static NTSTATUS SuspendAgain(PNATIVE_ADAPTER adapter, ULONG node) {
    NEXT next = {adapter, NULL, node, 0, 0};
    NTSTATUS status = STATUS_SUCCESS;
    while (NT_SUCCESS(status) && Synchronize(adapter, FindNext, &next)) {
        LEFT left = {adapter, next.Number};
        status = CompleteForQueue(adapter, CMD_SUSPEND_QUEUE, next.Number);
        (void)Synchronize(adapter, EndSuspensionOf, &left);
    }
    return status;
}

static NTSTATUS EngineWasReset(PADAPTER packet, ULONG node, ULONG64 cutOff, BOOLEAN collateral) {
    PNATIVE_ADAPTER adapter = (PNATIVE_ADAPTER)packet;
    CUT_OFF found = {adapter, cutOff - 1, NULL};
    NTSTATUS status = SuspendAgain(adapter, node);
    if (NT_SUCCESS(status) && cutOff != 0 && Synchronize(adapter, FindContext, &found)) {
        DXGKARGCB_INVALIDATEHWCONTEXT lost;
        RtlZeroMemory(&lost, sizeof(lost));
        lost.hAdapter = packet->Kernel.DeviceHandle;
        lost.hHwContext = found.Context;
        lost.Flags.CollateralDamage = collateral;
        /* The kernel may have destroyed the context. */
        (void)packet->Kernel.DxgkCbInvalidateHwContext(&lost);
    }
    return status;
}

static NTSTATUS ResetHwEngine(HANDLE hAdapter, DXGKARG_RESETHWENGINE *pResetHwEngine) {
    PNATIVE_ADAPTER adapter = (PNATIVE_ADAPTER)hAdapter;
    ULONG node = pResetHwEngine->NodeOrdinal;
    COMMAND command;
    NTSTATUS status;
    PAGED_CODE();
    status = CompleteWith(&adapter->Packet, CMD_POWER_ENGINE, node, 0);
    if (!NT_SUCCESS(status)) {
        return status;
    }
    (void)InterlockedOr64((volatile LONG64 *)&adapter->Unpowered, (LONG64)(1ull << node));
    Fill(&command, CMD_RESET_ENGINE, node, 0, 0);
    command.HasSecond = TRUE;
    status = Complete(&adapter->Packet, &command);
    if (!NT_SUCCESS(status)) {
        return status;
    }
    return EngineWasReset(&adapter->Packet, node, command.Second, FALSE);
}

static NTSTATUS ResumeHwEngine(HANDLE hAdapter, DXGKARG_RESUMEHWENGINE *pResumeHwEngine) {
    PNATIVE_ADAPTER adapter = (PNATIVE_ADAPTER)hAdapter;
    ULONG node = pResumeHwEngine->NodeOrdinal;
    PAGED_CODE();
    (void)InterlockedAnd64((volatile LONG64 *)&adapter->Unpowered, (LONG64) ~(1ull << node));
    return CompleteWith(&adapter->Packet, CMD_POWER_ENGINE, node, 1);
}

static NTSTATUS RestartAllFromTimeout(HANDLE hAdapter) {
    PNATIVE_ADAPTER adapter = (PNATIVE_ADAPTER)hAdapter;
    NTSTATUS status = STATUS_SUCCESS;
    ULONG node;
    PAGED_CODE();
    for (node = 0; NT_SUCCESS(status) && node < adapter->Packet.Nodes; node++) {
        if (adapter->Unpowered >> node & 1) {
            DXGKARG_RESUMEHWENGINE resume = {node, 0};
            status = ResumeHwEngine(hAdapter, &resume);
        }
    }
    return NT_SUCCESS(status) ? RestartFromTimeout(hAdapter) : status;
}

/* Native fences */

static NTSTATUS CreateNativeFence(HANDLE hAdapter, DXGKARG_CREATENATIVEFENCE *pCreateNativeFence) {
    FENCE *fence;
    PAGED_CODE();
    if (pCreateNativeFence->Type != D3DDDI_NATIVEFENCE_TYPE_DEFAULT) {
        return STATUS_NOT_SUPPORTED;
    }
    fence = (FENCE *)ExAllocatePoolZero(NonPagedPoolNx, sizeof(*fence), TAG);
    if (fence == NULL) {
        return STATUS_NO_MEMORY;
    }
    fence->Adapter = (PNATIVE_ADAPTER)hAdapter;
    fence->Kernel = pCreateNativeFence->hGlobalNativeFence;
    pCreateNativeFence->hGlobalNativeFence = fence;
    return STATUS_SUCCESS;
}

static NTSTATUS DestroyNativeFence(DXGKARG_DESTROYNATIVEFENCE *pDestroyNativeFence) {
    PAGED_CODE();
    ExFreePoolWithTag(pDestroyNativeFence->hGlobalNativeFence, TAG);
    return STATUS_SUCCESS;
}

static NTSTATUS OpenNativeFence(HANDLE hAdapter, DXGKARG_OPENNATIVEFENCE *pOpenNativeFence) {
    PNATIVE_ADAPTER adapter = (PNATIVE_ADAPTER)hAdapter;
    INSTANCE *instance;
    PAGED_CODE();
    instance = (INSTANCE *)ExAllocatePoolZero(NonPagedPoolNx, sizeof(*instance), TAG);
    if (instance == NULL) {
        return STATUS_NO_MEMORY;
    }
    instance->Fence = (FENCE *)pOpenNativeFence->hGlobalNativeFence;
    instance->Space = ((PDEVICE)pOpenNativeFence->hDevice)->Process->Space;
    instance->Current = pOpenNativeFence->CurrentValueGpuVa;
    instance->Monitored = pOpenNativeFence->MonitoredValueGpuVa;
    Insert(adapter, &adapter->Instances, &instance->Entry);
    pOpenNativeFence->hLocalNativeFence = instance;
    return STATUS_SUCCESS;
}

static NTSTATUS CloseNativeFence(HANDLE hAdapter, DXGKARG_CLOSENATIVEFENCE *pCloseNativeFence) {
    INSTANCE *instance = (INSTANCE *)pCloseNativeFence->hLocalNativeFence;
    PAGED_CODE();
    Remove((PNATIVE_ADAPTER)hAdapter, &instance->Entry);
    ExFreePoolWithTag(instance, TAG);
    return STATUS_SUCCESS;
}

/*
 * A signal of an engine stores CurrentValue, executes a barrier and loads MonitoredValue. Of its
 * barrier and this one, one is first: the engine sees the new MonitoredValue, or the kernel sees
 * CurrentValue when this has returned.
 */
static NTSTATUS UpdateMonitoredValues(const DXGKARG_UPDATEMONITOREDVALUES *pUpdate) {
    UINT i;
    for (i = 0; i < pUpdate->NumFences; i++) {
        *(volatile ULONG64 *)pUpdate->MonitoredValueKernelCpuVa[i] =
            pUpdate->UpdatedValueArray[i];
    }
    KeMemoryBarrier();
    return STATUS_SUCCESS;
}

/* Finds an instance of a fence. */
static BOOLEAN FindOpen(PVOID SynchronizeContext) {
    SEARCH *search = (SEARCH *)SynchronizeContext;
    PLIST_ENTRY list = &search->Adapter->Instances, entry;
    for (entry = list->Flink; entry != list; entry = entry->Flink) {
        INSTANCE *instance = CONTAINING_RECORD(entry, INSTANCE, Entry);
        if (instance->Fence == search->Fence) {
            search->Space = instance->Space;
            search->Current = instance->Current;
            return TRUE;
        }
    }
    return FALSE;
}

/* Evaluates the queues that wait for a fence. All instances lead to the same value. */
static VOID NotifyWaits(FENCE *fence) {
    SEARCH search = {fence->Adapter, fence, 0, 0, 0};
    COMMAND command;
    NTSTATUS status = STATUS_UNSUCCESSFUL;
    if (Synchronize(fence->Adapter, FindOpen, &search)) {
        Fill(&command, CMD_NOTIFY_FENCE, search.Space, search.Current, 0);
        status = Run(&fence->Adapter->Packet, &command);
    }
    if (!NT_SUCCESS(status)) {
        /* Queues may wait for a fence whose instances are closed. */
        Fill(&command, CMD_RESCAN_WAITS, 0, 0, 0);
        (void)Run(&fence->Adapter->Packet, &command);
    }
}

static VOID UpdateCurrentValuesFromCpu(const DXGKARG_UPDATECURRENTVALUESFROMCPU *pUpdate) {
    UINT i;
    for (i = 0; i < pUpdate->NumFences; i++) {
        FENCE *fence = (FENCE *)pUpdate->NativeFenceArray[i];
        if (pUpdate->Flags.AlwaysSignaled) {
            /* The kernel has stored the maximum, and no queue of the device runs any longer. */
            fence->AlwaysSignaled = TRUE;
        } else if (!pUpdate->Flags.NotificationOnly && !fence->AlwaysSignaled) {
            *(volatile ULONG64 *)pUpdate->CurrentValueKernelCpuVa[i] =
                pUpdate->UpdatedValueArray[i];
        }
    }
    KeMemoryBarrier();
    for (i = 0; i < pUpdate->NumFences; i++) {
        NotifyWaits((FENCE *)pUpdate->NativeFenceArray[i]);
    }
}

/* Logs */

static ULONG PlaceOfLog(ULONG kind) {
    return kind == LOG_OF_COMMANDS ? 2 : kind - DXGK_NATIVE_FENCE_LOG_TYPE_WAITS;
}

static NTSTATUS SetNativeFenceLogBuffer(const DXGKARG_SETNATIVEFENCELOGBUFFER *pSetLogBuffer) {
    HW_QUEUE *queue = (HW_QUEUE *)pSetLogBuffer->hHwQueue;
    PUCHAR header = (PUCHAR)pSetLogBuffer->LogBufferCpuVa;
    LOG log;
    KIRQL level;
    RtlZeroMemory(&log, sizeof(log));
    log.Kind = (ULONG)((DXGK_NATIVE_FENCE_LOG_HEADER *)header)->Type;
    log.Entries = pSetLogBuffer->NumberOfEntries;
    if (PlaceOfLog(log.Kind) >= LOG_KINDS) {
        return STATUS_INVALID_PARAMETER;
    }
    if (log.Entries != 0) {
        log.Header = (ULONG64)MmGetPhysicalAddress(header).QuadPart;
        log.Payload = (ULONG64)MmGetPhysicalAddress(
            header + sizeof(DXGK_NATIVE_FENCE_LOG_HEADER)).QuadPart;
    }
    KeAcquireSpinLock(&queue->Lock, &level);
    queue->Logs[PlaceOfLog(log.Kind)] = log;
    if (queue->Hardware != NULL) {
        SendLog(AdapterOf(queue), queue->Hardware->Number, &log);
    }
    KeReleaseSpinLock(&queue->Lock, level);
    return STATUS_SUCCESS;
}

/* The kernel has loaded the index of each log. The flush makes the counted entries visible. */
static NTSTATUS UpdateNativeFenceLogs(const DXGKARG_UPDATENATIVEFENCELOGS *pUpdateLogs) {
    if (pUpdateLogs->NumberOfQueues != 0) {
        HW_QUEUE *queue = (HW_QUEUE *)pUpdateLogs->hHWQueue[0];
        (void)Read(&AdapterOf(queue)->Packet, REG_LOG_FLUSH);
        KeMemoryBarrier();
    }
    return STATUS_SUCCESS;
}

/* Reads both clocks. The shortest of several readings is the best. */
static NTSTATUS CalibrateGpuClock(
    HANDLE hAdapter, UINT32 NodeOrdinal, UINT32 EngineOrdinal,
    DXGKARG_CALIBRATEGPUCLOCK *pClockCalibration) {
    LONGLONG shortest = MAXLONGLONG;
    ULONG i;
    UNREFERENCED_PARAMETER(NodeOrdinal);
    UNREFERENCED_PARAMETER(EngineOrdinal);
    RtlZeroMemory(pClockCalibration, sizeof(*pClockCalibration));
    pClockCalibration->GpuFrequency = GPU_CLOCK_HZ;
    for (i = 0; i < CALIBRATION_READINGS; i++) {
        LONGLONG before = KeQueryPerformanceCounter(NULL).QuadPart;
        ULONG64 clock = Read((PADAPTER)hAdapter, REG_CLOCK);
        LONGLONG taken = KeQueryPerformanceCounter(NULL).QuadPart - before;
        if (taken < shortest) {
            shortest = taken;
            pClockCalibration->GpuClockCounter = clock;
            pClockCalibration->CpuClockCounter = (ULONGLONG)(before + taken / 2);
        }
    }
    return STATUS_SUCCESS;
}

/* Allocations: rings and their control areas, which a user-mode driver describes by two words */

static NTSTATUS CreateAllocation(HANDLE hAdapter, DXGKARG_CREATEALLOCATION *pCreateAllocation) {
    UINT i;
    PAGED_CODE();
    UNREFERENCED_PARAMETER(hAdapter);
    for (i = 0; i < pCreateAllocation->NumAllocations; i++) {
        DXGK_ALLOCATIONINFO *info = &pCreateAllocation->pAllocationInfo[i];
        RING_ALLOCATION *allocation;
        if (info->PrivateDriverDataSize != sizeof(*allocation)) {
            return STATUS_INVALID_PARAMETER;
        }
        allocation = (RING_ALLOCATION *)ExAllocatePoolZero(NonPagedPoolNx, sizeof(*allocation), TAG);
        if (allocation == NULL) {
            return STATUS_NO_MEMORY;
        }
        RtlCopyMemory(allocation, info->pPrivateDriverData, sizeof(*allocation));
        info->hAllocation = allocation;
        info->Size = allocation->Bytes;
        info->SupportedReadSegmentSet = SEGMENT_APERTURE;
        info->SupportedWriteSegmentSet = SEGMENT_APERTURE;
    }
    return STATUS_SUCCESS;
}

static NTSTATUS DestroyAllocation(
    HANDLE hAdapter, const DXGKARG_DESTROYALLOCATION *pDestroyAllocation) {
    UINT i;
    PAGED_CODE();
    UNREFERENCED_PARAMETER(hAdapter);
    for (i = 0; i < pDestroyAllocation->NumAllocations; i++) {
        ExFreePoolWithTag(pDestroyAllocation->pAllocationList[i], TAG);
    }
    return STATUS_SUCCESS;
}

/* Doorbells */

static NTSTATUS CreateDoorbell(DXGKARG_CREATEDOORBELL *pArgs) {
    HW_QUEUE *queue = (HW_QUEUE *)pArgs->hHwQueue;
    const RING_ALLOCATION *ring = (const RING_ALLOCATION *)pArgs->hRingBuffer;
    const RING_ALLOCATION *control = (const RING_ALLOCATION *)pArgs->hRingBufferControl;
    ULONG64 slots = ring->Bytes / SLOT_BYTES;
    DOORBELL *doorbell;
    NTSTATUS status;
    PAGED_CODE();
    if (!queue->UserMode || ring->Bytes % SLOT_BYTES != 0 || slots == 0 ||
        (slots & (slots - 1)) != 0 || slots > MAX_RING_SLOTS || control->Bytes < CONTROL_BYTES ||
        (queue->Doorbell != NULL && !pArgs->Flags.ResizeRingBufferOperation)) {
        return STATUS_INVALID_PARAMETER;
    }
    doorbell = (DOORBELL *)ExAllocatePoolZero(NonPagedPoolNx, sizeof(*doorbell), TAG);
    if (doorbell == NULL) {
        return STATUS_NO_MEMORY;
    }
    doorbell->Queue = queue;
    doorbell->Kernel = pArgs->hDoorbell;
    status = MakeHardware(
        queue, QUEUE_KIND_USER, ring->Address, slots, control->Address, &doorbell->Hardware);
    if (!NT_SUCCESS(status)) {
        ExFreePoolWithTag(doorbell, TAG);
        return status;
    }
    if (queue->Doorbell != NULL) {
        /* Its hardware stays until the kernel disconnects it, which is the next call. */
        queue->Doorbell->Superseded = TRUE;
    }
    queue->Doorbell = doorbell;
    pArgs->hDoorbell = doorbell;
    return STATUS_SUCCESS;
}

static NTSTATUS Disconnect(DOORBELL *doorbell) {
    PNATIVE_ADAPTER adapter = AdapterOf(doorbell->Queue);
    NTSTATUS status = STATUS_SUCCESS;
    if (doorbell->Mapped != NULL) {
        (void)RemoveEntryList(&doorbell->Entry);
        adapter->ConnectedCount--;
        status = CompleteWith(
            &adapter->Packet, CMD_DISCONNECT_DOORBELL, doorbell->Hardware->Number, 0);
        (void)adapter->Packet.Kernel.DxgkCbUnmapMemory(
            adapter->Packet.Kernel.DeviceHandle, doorbell->Mapped);
        doorbell->Mapped = NULL;
    }
    if (doorbell->Superseded && doorbell->Hardware != NULL) {
        (void)RetireHardware(doorbell->Hardware);
        doorbell->Hardware = NULL;
    }
    return status;
}

/* Takes the doorbell away that was connected first. */
static NTSTATUS Victimise(PNATIVE_ADAPTER adapter) {
    DOORBELL *victim = CONTAINING_RECORD(adapter->Connected.Flink, DOORBELL, Entry);
    DXGKARGCB_DISCONNECTDOORBELL args;
    RtlZeroMemory(&args, sizeof(args));
    args.hHwQueue = victim->Queue->Kernel;
    args.hDoorbell = victim->Kernel;
    args.DisconnectReason = D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY;
    /* The kernel first: no ring of the process reaches the device unseen afterwards. */
    (void)adapter->Packet.Kernel.DxgkCbDisconnectDoorbell(&args);
    return Disconnect(victim);
}

static NTSTATUS ConnectDoorbell(DXGKARG_CONNECTDOORBELL *pArgs) {
    DOORBELL *doorbell = (DOORBELL *)pArgs->hDoorbell;
    PNATIVE_ADAPTER adapter = AdapterOf(doorbell->Queue);
    NTSTATUS status = STATUS_SUCCESS;
    PAGED_CODE();
    if (pArgs->Flags.RequireSecondaryAddress) {
        return STATUS_NOT_SUPPORTED;
    }
    if (doorbell->Mapped == NULL) {
        PHYSICAL_ADDRESS page = adapter->Doorbells;
        ULONG64 number = doorbell->Hardware->Number;
        page.QuadPart += (LONGLONG)(number * DOORBELL_BYTES);
        if (adapter->ConnectedCount >= MOST_DOORBELLS) {
            status = Victimise(adapter);
        }
        if (NT_SUCCESS(status)) {
            status = CompleteWith(&adapter->Packet, CMD_CONNECT_DOORBELL, number, 0);
        }
        if (NT_SUCCESS(status)) {
            InsertTailList(&adapter->Connected, &doorbell->Entry);
            adapter->ConnectedCount++;
            status = adapter->Packet.Kernel.DxgkCbMapMemory(
                adapter->Packet.Kernel.DeviceHandle, page, DOORBELL_BYTES, FALSE, FALSE,
                MmNonCached, &doorbell->Mapped);
        }
    }
    pArgs->KernelCpuVirtualAddress = doorbell->Mapped;
    pArgs->SecondaryKernelCpuVirtualAddress = NULL;
    pArgs->Status = D3DDDI_DOORBELLSTATUS_CONNECTED;
    return status;
}

static NTSTATUS DisconnectDoorbell(DXGKARG_DISCONNECTDOORBELL *pArgs) {
    PAGED_CODE();
    return Disconnect((DOORBELL *)pArgs->hDoorbell);
}

static NTSTATUS DestroyDoorbell(DXGKARG_DESTROYDOORBELL *pArgs) {
    DOORBELL *doorbell = (DOORBELL *)pArgs->hDoorbell;
    HW_QUEUE *queue = doorbell->Queue;
    NTSTATUS status;
    PAGED_CODE();
    status = Disconnect(doorbell);
    if (doorbell->Hardware != NULL) {
        NTSTATUS retired = RetireHardware(doorbell->Hardware);
        status = NT_SUCCESS(status) ? retired : status;
    }
    if (queue->Doorbell == doorbell) {
        queue->Doorbell = NULL;
    }
    ExFreePoolWithTag(doorbell, TAG);
    return status;
}

static NTSTATUS NotifyWorkSubmission(const DXGKARG_NOTIFYWORKSUBMISSION *pArgs) {
    HW_QUEUE *queue = (HW_QUEUE *)pArgs->hHwQueue;
    KIRQL level;
    NTSTATUS status = STATUS_SUCCESS;
    PAGED_CODE();
    KeAcquireSpinLock(&queue->Lock, &level);
    if (queue->Hardware != NULL) {
        COMMAND command;
        Fill(&command, CMD_KICK_QUEUE, queue->Hardware->Number, 0, 0);
        status = Run(&AdapterOf(queue)->Packet, &command);
    }
    KeReleaseSpinLock(&queue->Lock, level);
    return status;
}

/* Features and capabilities */

static NTSTATUS QueryFeatureSupport(HANDLE hAdapter, DXGKARG_QUERYFEATURESUPPORT *pArgs) {
    PAGED_CODE();
    UNREFERENCED_PARAMETER(hAdapter);
    pArgs->SupportedByDriver = pArgs->FeatureId == DXGK_FEATURE_HWSCH ||
                               pArgs->FeatureId == DXGK_FEATURE_NATIVE_FENCE ||
                               pArgs->FeatureId == DXGK_FEATURE_USER_MODE_SUBMISSION;
    pArgs->SupportedOnCurrentConfig = pArgs->SupportedByDriver;
    pArgs->MinSupportedVersion = pArgs->SupportedByDriver ? FEATURE_VERSION : 0;
    pArgs->MaxSupportedVersion = pArgs->SupportedByDriver ? FEATURE_VERSION : 0;
    return STATUS_SUCCESS;
}

/* The entries of the features are in the table of DriverEntry. */
static NTSTATUS QueryFeatureInterface(HANDLE hAdapter, DXGKARG_QUERYFEATUREINTERFACE *pArgs) {
    PAGED_CODE();
    UNREFERENCED_PARAMETER(hAdapter);
    return pArgs->Version == FEATURE_VERSION ? STATUS_SUCCESS : STATUS_INVALID_PARAMETER;
}

static VOID ReferenceInterface(PVOID Context) {
    UNREFERENCED_PARAMETER(Context);
}

static NTSTATUS QueryInterface(PVOID MiniportDeviceContext, PQUERY_INTERFACE Query) {
    DXGKDDI_FEATURE_INTERFACE *features;
    PAGED_CODE();
    if (!IsEqualGUID(Query->InterfaceType, &GUID_WDDM_INTERFACE_FEATURE) ||
        Query->Version != DXGK_FEATURE_INTERFACE_VERSION_1 || Query->Size < sizeof(*features)) {
        return STATUS_NOT_SUPPORTED;
    }
    features = (DXGKDDI_FEATURE_INTERFACE *)Query->Interface;
    features->Size = sizeof(*features);
    features->Version = DXGK_FEATURE_INTERFACE_VERSION_1;
    features->Context = MiniportDeviceContext;
    features->InterfaceReference = ReferenceInterface;
    features->InterfaceDereference = ReferenceInterface;
    features->QueryFeatureSupport = QueryFeatureSupport;
    features->QueryFeatureInterface = QueryFeatureInterface;
    return STATUS_SUCCESS;
}

static BOOLEAN IsEnabled(const DXGK_FEATURE_INTERFACE *kernel, DXGK_FEATURE_ID feature) {
    DXGKARGCB_ISFEATUREENABLED2 args;
    RtlZeroMemory(&args, sizeof(args));
    args.FeatureId = feature;
    return NT_SUCCESS(kernel->IsFeatureEnabled(kernel->Context, &args)) && args.Result.Enabled;
}

static NTSTATUS NegotiateFeatures(PNATIVE_ADAPTER adapter) {
    DXGK_FEATURE_INTERFACE kernel;
    ULONG64 traits = Read(&adapter->Packet, REG_DEVICE_TRAITS);
    NTSTATUS status;
    RtlZeroMemory(&kernel, sizeof(kernel));
    kernel.Size = sizeof(kernel);
    kernel.Version = DXGK_FEATURE_INTERFACE_VERSION_1;
    status = adapter->Packet.Kernel.DxgkCbQueryServices(
        adapter->Packet.Kernel.DeviceHandle, DxgkServicesFeature, (PINTERFACE)&kernel);
    if (!NT_SUCCESS(status)) {
        return status;
    }
    adapter->HardwareScheduling = IsEnabled(&kernel, DXGK_FEATURE_HWSCH);
    adapter->NativeFences = adapter->HardwareScheduling &&
                            (traits & (TRAIT_MONITORED_SHADOW | TRAIT_NO_64BIT_ATOMICS)) == 0 &&
                            IsEnabled(&kernel, DXGK_FEATURE_NATIVE_FENCE);
    adapter->UserModeSubmission =
        adapter->NativeFences && IsEnabled(&kernel, DXGK_FEATURE_USER_MODE_SUBMISSION);
    return STATUS_SUCCESS;
}

static NTSTATUS QueryNativeAdapterInfo(
    HANDLE hAdapter, const DXGKARG_QUERYADAPTERINFO *pQueryAdapterInfo) {
    PNATIVE_ADAPTER adapter = (PNATIVE_ADAPTER)hAdapter;
    PAGED_CODE();
    switch (pQueryAdapterInfo->Type) {
    case DXGKQAITYPE_DRIVERCAPS: {
        DXGK_DRIVERCAPS *caps = (DXGK_DRIVERCAPS *)pQueryAdapterInfo->pOutputData;
        NTSTATUS status = QueryAdapterInfo(hAdapter, pQueryAdapterInfo);
        if (NT_SUCCESS(status)) {
            caps->WDDMVersion = DXGKDDI_WDDMv3_2;
            caps->SchedulingCaps.NativeGpuFence = adapter->NativeFences;
        }
        return status;
    }
    case DXGKQAITYPE_NATIVE_FENCE_CAPS: {
        DXGK_NATIVE_FENCE_CAPS *caps = (DXGK_NATIVE_FENCE_CAPS *)pQueryAdapterInfo->pOutputData;
        RtlZeroMemory(caps, sizeof(*caps));
        caps->MonitoredValueStride = FENCE_STRIDE;
        return STATUS_SUCCESS;
    }
    case DXGKQAITYPE_USERMODESUBMISSION_CAPS: {
        DXGK_USERMODESUBMISSION_CAPS *caps =
            (DXGK_USERMODESUBMISSION_CAPS *)pQueryAdapterInfo->pOutputData;
        RtlZeroMemory(caps, sizeof(*caps));
        caps->DoorbellSizeInBytes = sizeof(ULONG64);
        return STATUS_SUCCESS;
    }
    default:
        return QueryAdapterInfo(hAdapter, pQueryAdapterInfo);
    }
}

static NTSTATUS GetNativeNodeMetadata(
    HANDLE hAdapter, UINT NodeOrdinal, DXGKARG_GETNODEMETADATA *pGetNodeMetadata) {
    PNATIVE_ADAPTER adapter = (PNATIVE_ADAPTER)hAdapter;
    NTSTATUS status;
    PAGED_CODE();
    status = GetNodeMetadata(hAdapter, NodeOrdinal, pGetNodeMetadata);
    if (NT_SUCCESS(status)) {
        BOOLEAN writes = (Read(&adapter->Packet, REG_NODE_TRAITS + NodeOrdinal) &
                          NODE_NO_FENCE_WRITES) == 0;
        pGetNodeMetadata->Flags.ContextSchedulingSupported = adapter->HardwareScheduling;
        pGetNodeMetadata->Flags.UserModeSubmission = adapter->UserModeSubmission && writes;
        pGetNodeMetadata->Flags.MaxInFlightHwQueueBuffers = RING_SLOTS / 2;
    }
    return status;
}

/* Start */

static const EXTENSION extension = {ServeCause, ReportFault, EngineWasReset};

static NTSTATUS AddNativeDevice(
    const PDEVICE_OBJECT PhysicalDeviceObject, PVOID *MiniportDeviceContext) {
    PNATIVE_ADAPTER adapter;
    PAGED_CODE();
    UNREFERENCED_PARAMETER(PhysicalDeviceObject);
    adapter = (PNATIVE_ADAPTER)NewAdapter(sizeof(*adapter));
    if (adapter == NULL) {
        return STATUS_NO_MEMORY;
    }
    adapter->Packet.Extension = &extension;
    InitializeListHead(&adapter->Hardware);
    InitializeListHead(&adapter->Instances);
    InitializeListHead(&adapter->Connected);
    *MiniportDeviceContext = adapter;
    return STATUS_SUCCESS;
}

static NTSTATUS FindDoorbells(PNATIVE_ADAPTER adapter) {
    DXGK_DEVICE_INFO device;
    PCM_PARTIAL_RESOURCE_LIST resources;
    ULONG i;
    NTSTATUS status = adapter->Packet.Kernel.DxgkCbGetDeviceInformation(
        adapter->Packet.Kernel.DeviceHandle, &device);
    if (!NT_SUCCESS(status)) {
        return status;
    }
    resources = &device.TranslatedResourceList->List[0].PartialResourceList;
    for (i = 0; i < resources->Count; i++) {
        if (resources->PartialDescriptors[i].Type == CmResourceTypeMemoryLarge) {
            adapter->Doorbells = resources->PartialDescriptors[i].u.Memory48.Start;
            return STATUS_SUCCESS;
        }
    }
    return STATUS_DEVICE_CONFIGURATION_ERROR;
}

/* Has the device tell which engines are idle. */
static NTSTATUS WatchIdleEngines(PADAPTER packet) {
    NTSTATUS status = STATUS_SUCCESS;
    ULONG node;
    for (node = 0; node < packet->Nodes && NT_SUCCESS(status); node++) {
        COMMAND command;
        Fill(&command, CMD_REPORT_IDLE, node, IDLE_AFTER_NS, 0);
        status = Run(packet, &command);
    }
    return status;
}

static NTSTATUS StartNativeDevice(
    PVOID MiniportDeviceContext, PDXGK_START_INFO DxgkStartInfo, PDXGKRNL_INTERFACE DxgkInterface,
    PULONG NumberOfVideoPresentSources, PULONG NumberOfChildren) {
    PNATIVE_ADAPTER adapter = (PNATIVE_ADAPTER)MiniportDeviceContext;
    NTSTATUS status;
    PAGED_CODE();
    adapter->Unpowered = 0;
    status = StartDevice(
        MiniportDeviceContext, DxgkStartInfo, DxgkInterface, NumberOfVideoPresentSources,
        NumberOfChildren);
    if (!NT_SUCCESS(status)) {
        return status;
    }
    status = FindDoorbells(adapter);
    if (NT_SUCCESS(status)) {
        status = NegotiateFeatures(adapter);
    }
    if (NT_SUCCESS(status)) {
        status = WatchIdleEngines(&adapter->Packet);
    }
    if (!NT_SUCCESS(status)) {
        (void)StopDevice(MiniportDeviceContext);
    }
    return status;
}

NTSTATUS DriverEntry(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath) {
    DRIVER_INITIALIZATION_DATA data;
    PAGED_CODE();
    FillEntries(&data);
    data.DxgkDdiAddDevice = AddNativeDevice;
    data.DxgkDdiStartDevice = StartNativeDevice;
    data.DxgkDdiQueryInterface = QueryInterface;
    data.DxgkDdiQueryAdapterInfo = QueryNativeAdapterInfo;
    data.DxgkDdiGetNodeMetadata = GetNativeNodeMetadata;
    data.DxgkDdiCreateAllocation = CreateAllocation;
    data.DxgkDdiDestroyAllocation = DestroyAllocation;
    data.DxgkDdiRestartFromTimeout = RestartAllFromTimeout;
    data.DxgkDdiCalibrateGpuClock = CalibrateGpuClock;
    data.DxgkDdiCreateHwContext = CreateHwContext;
    data.DxgkDdiDestroyHwContext = DestroyHwContext;
    data.DxgkDdiCreateHwQueue = CreateHwQueue;
    data.DxgkDdiDestroyHwQueue = DestroyHwQueue;
    data.DxgkDdiSubmitCommandToHwQueue = SubmitCommandToHwQueue;
    data.DxgkDdiResetHwEngine = ResetHwEngine;
    data.DxgkDdiResumeHwEngine = ResumeHwEngine;
    data.DxgkDdiSuspendContext = SuspendContext;
    data.DxgkDdiResumeContext = ResumeContext;
    data.DxgkDdiSetupPriorityBands = SetupPriorityBands;
    data.DxgkDdiSetContextSchedulingProperties = SetContextSchedulingProperties;
    data.DxgkDdiCreateNativeFence = CreateNativeFence;
    data.DxgkDdiDestroyNativeFence = DestroyNativeFence;
    data.DxgkDdiOpenNativeFence = OpenNativeFence;
    data.DxgkDdiCloseNativeFence = CloseNativeFence;
    data.DxgkDdiUpdateMonitoredValues = UpdateMonitoredValues;
    data.DxgkDdiUpdateCurrentValuesFromCpu = UpdateCurrentValuesFromCpu;
    data.DxgkDdiSetNativeFenceLogBuffer = SetNativeFenceLogBuffer;
    data.DxgkDdiUpdateNativeFenceLogs = UpdateNativeFenceLogs;
    data.DxgkDdiCreateDoorbell = CreateDoorbell;
    data.DxgkDdiConnectDoorbell = ConnectDoorbell;
    data.DxgkDdiDisconnectDoorbell = DisconnectDoorbell;
    data.DxgkDdiDestroyDoorbell = DestroyDoorbell;
    data.DxgkDdiNotifyWorkSubmission = NotifyWorkSubmission;
    return DxgkInitialize(DriverObject, RegistryPath, &data);
}
