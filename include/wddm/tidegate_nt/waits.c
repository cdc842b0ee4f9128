/*
 * Mutexes, semaphores, locks with shared owners, waits for several objects, work items, timers of
 * the Ex family. Part of tidegate_nt.c.
 */

/* Waits for several objects */

NTSTATUS KeWaitForMultipleObjects(
    ULONG Count, PVOID Object[], WAIT_TYPE WaitType, KWAIT_REASON WaitReason,
    KPROCESSOR_MODE WaitMode, BOOLEAN Alertable, PLARGE_INTEGER Timeout,
    PKWAIT_BLOCK WaitBlockArray) {
    UINT64 units = Timeout == NULL ? 0 : units_until(Timeout);
    BOOLEAN polls = Timeout != NULL && units == 0;
    UNREFERENCED_PARAMETER(WaitReason);
    UNREFERENCED_PARAMETER(WaitMode);
    UNREFERENCED_PARAMETER(Alertable);
    if (!check("KeWaitForMultipleObjects", polls ? DISPATCH_LEVEL : APC_LEVEL)) {
        return STATUS_UNSUCCESSFUL;
    }
    if (Count == 0 || Count > 64 || (Count > 3 && WaitBlockArray == NULL)) {
        report(
            "code-object",
            "KeWaitForMultipleObjects of %u objects: 1 to 64 are allowed, and more than 3 need "
            "WaitBlockArray", Count);
        return STATUS_INVALID_PARAMETER;
    }
    return (NTSTATUS)host->WaitMany(
        host->Host, Object, Count, WaitType == WaitAll, Timeout != NULL, units);
}

/* Mutexes. The owner takes one again without waiting. */

VOID KeInitializeMutex(PRKMUTEX Mutex, ULONG Level) {
    UNREFERENCED_PARAMETER(Level);
    host->InitializeMutex(host->Host, (PVOID)Mutex);
}

/* 0 if the mutex is free now. */
LONG KeReleaseMutex(PRKMUTEX Mutex, BOOLEAN Wait) {
    ULONG held;
    UNREFERENCED_PARAMETER(Wait);
    check("KeReleaseMutex", DISPATCH_LEVEL);
    held = host->ReleaseMutex(host->Host, "KeReleaseMutex", (PVOID)Mutex);
    return held == 0 ? 0 : 1 - (LONG)held;
}

LONG KeReadStateMutex(PRKMUTEX Mutex) {
    check("KeReadStateMutex", DISPATCH_LEVEL);
    return host->StateOf(host->Host, "KeReadStateMutex", (PVOID)Mutex);
}

/* Semaphores */

VOID KeInitializeSemaphore(PRKSEMAPHORE Semaphore, LONG Count, LONG Limit) {
    check("KeInitializeSemaphore", PASSIVE_LEVEL);
    host->InitializeSemaphore(host->Host, (PVOID)Semaphore, Count, Limit);
}

LONG KeReleaseSemaphore(
    PRKSEMAPHORE Semaphore, KPRIORITY Increment, LONG Adjustment, BOOLEAN Wait) {
    UNREFERENCED_PARAMETER(Increment);
    UNREFERENCED_PARAMETER(Wait);
    check("KeReleaseSemaphore", DISPATCH_LEVEL);
    return host->ReleaseSemaphore(host->Host, (PVOID)Semaphore, Adjustment);
}

LONG KeReadStateSemaphore(PRKSEMAPHORE Semaphore) {
    check("KeReadStateSemaphore", DISPATCH_LEVEL);
    return host->StateOf(host->Host, "KeReadStateSemaphore", (PVOID)Semaphore);
}

BOOLEAN KeReadStateTimer(PKTIMER Timer) {
    check("KeReadStateTimer", DISPATCH_LEVEL);
    return host->StateOf(host->Host, "KeReadStateTimer", (PVOID)Timer) != 0;
}

/* Fast mutexes raise the level to APC. Guarded mutexes do not. */

static KIRQL raise_to_apc(VOID) {
    KIRQL old = KeGetCurrentIrql();
    if (old < APC_LEVEL) {
        (void)host->SetLevel(host->Host, APC_LEVEL);
    }
    return old;
}

VOID ExInitializeFastMutex(PFAST_MUTEX FastMutex) {
    check("ExInitializeFastMutex", DISPATCH_LEVEL);
    host->InitializeMutex(host->Host, (PVOID)FastMutex);
}

VOID ExAcquireFastMutex(PFAST_MUTEX FastMutex) {
    KIRQL old;
    if (!check("ExAcquireFastMutex", APC_LEVEL)) {
        return;
    }
    old = raise_to_apc();
    if (host->AcquireMutex(host->Host, "ExAcquireFastMutex", (PVOID)FastMutex, TRUE)) {
        FastMutex->Opaque[0] = old;
    } else {
        (void)host->SetLevel(host->Host, old);
    }
}

BOOLEAN ExTryToAcquireFastMutex(PFAST_MUTEX FastMutex) {
    KIRQL old;
    if (!check("ExTryToAcquireFastMutex", APC_LEVEL)) {
        return FALSE;
    }
    old = raise_to_apc();
    if (!host->AcquireMutex(host->Host, "ExTryToAcquireFastMutex", (PVOID)FastMutex, FALSE)) {
        (void)host->SetLevel(host->Host, old);
        return FALSE;
    }
    FastMutex->Opaque[0] = old;
    return TRUE;
}

VOID ExReleaseFastMutex(PFAST_MUTEX FastMutex) {
    KIRQL old = (KIRQL)FastMutex->Opaque[0];
    if (!check("ExReleaseFastMutex", APC_LEVEL)) {
        return;
    }
    if (host->ReleaseMutex(host->Host, "ExReleaseFastMutex", (PVOID)FastMutex) != 0) {
        (void)host->SetLevel(host->Host, old);
    }
}

VOID KeInitializeGuardedMutex(PKGUARDED_MUTEX Mutex) {
    check("KeInitializeGuardedMutex", DISPATCH_LEVEL);
    host->InitializeMutex(host->Host, (PVOID)Mutex);
}

VOID KeAcquireGuardedMutex(PKGUARDED_MUTEX Mutex) {
    if (check("KeAcquireGuardedMutex", APC_LEVEL)) {
        (void)host->AcquireMutex(host->Host, "KeAcquireGuardedMutex", (PVOID)Mutex, TRUE);
    }
}

BOOLEAN KeTryToAcquireGuardedMutex(PKGUARDED_MUTEX Mutex) {
    return check("KeTryToAcquireGuardedMutex", APC_LEVEL) &&
           host->AcquireMutex(host->Host, "KeTryToAcquireGuardedMutex", (PVOID)Mutex, FALSE);
}

VOID KeReleaseGuardedMutex(PKGUARDED_MUTEX Mutex) {
    check("KeReleaseGuardedMutex", APC_LEVEL);
    (void)host->ReleaseMutex(host->Host, "KeReleaseGuardedMutex", (PVOID)Mutex);
}

/* Critical regions, and the locks that need them */

VOID KeEnterCriticalRegion(VOID) {
    check("KeEnterCriticalRegion", APC_LEVEL);
    host->EnterRegion(host->Host);
}

VOID KeLeaveCriticalRegion(VOID) {
    check("KeLeaveCriticalRegion", APC_LEVEL);
    host->LeaveRegion(host->Host);
}

static BOOLEAN acquire_shared(
    const char *function, PVOID lock, BOOLEAN exclusive, BOOLEAN recursive, BOOLEAN waits) {
    if (!check(function, APC_LEVEL)) {
        return FALSE;
    }
    host->CheckRegion(host->Host, function);
    return host->AcquireShared(host->Host, function, lock, exclusive, recursive, waits);
}

VOID ExInitializePushLock(PEX_PUSH_LOCK PushLock) {
    host->InitializeShared(host->Host, (PVOID)PushLock);
}

VOID ExAcquirePushLockExclusive(PEX_PUSH_LOCK PushLock) {
    (void)acquire_shared("ExAcquirePushLockExclusive", (PVOID)PushLock, TRUE, FALSE, TRUE);
}

VOID ExReleasePushLockExclusive(PEX_PUSH_LOCK PushLock) {
    check("ExReleasePushLockExclusive", APC_LEVEL);
    host->ReleaseShared(host->Host, "ExReleasePushLockExclusive", (PVOID)PushLock);
}

VOID ExAcquirePushLockShared(PEX_PUSH_LOCK PushLock) {
    (void)acquire_shared("ExAcquirePushLockShared", (PVOID)PushLock, FALSE, FALSE, TRUE);
}

VOID ExReleasePushLockShared(PEX_PUSH_LOCK PushLock) {
    check("ExReleasePushLockShared", APC_LEVEL);
    host->ReleaseShared(host->Host, "ExReleasePushLockShared", (PVOID)PushLock);
}

NTSTATUS ExInitializeResourceLite(PERESOURCE Resource) {
    check("ExInitializeResourceLite", DISPATCH_LEVEL);
    host->InitializeShared(host->Host, (PVOID)Resource);
    return STATUS_SUCCESS;
}

NTSTATUS ExDeleteResourceLite(PERESOURCE Resource) {
    check("ExDeleteResourceLite", DISPATCH_LEVEL);
    host->DeleteObject(host->Host, "ExDeleteResourceLite", (PVOID)Resource);
    return STATUS_SUCCESS;
}

BOOLEAN ExAcquireResourceExclusiveLite(PERESOURCE Resource, BOOLEAN Wait) {
    return acquire_shared("ExAcquireResourceExclusiveLite", (PVOID)Resource, TRUE, TRUE, Wait);
}

BOOLEAN ExAcquireResourceSharedLite(PERESOURCE Resource, BOOLEAN Wait) {
    return acquire_shared("ExAcquireResourceSharedLite", (PVOID)Resource, FALSE, TRUE, Wait);
}

VOID ExReleaseResourceLite(PERESOURCE Resource) {
    check("ExReleaseResourceLite", DISPATCH_LEVEL);
    host->ReleaseShared(host->Host, "ExReleaseResourceLite", (PVOID)Resource);
}

BOOLEAN ExIsResourceAcquiredExclusiveLite(PERESOURCE Resource) {
    check("ExIsResourceAcquiredExclusiveLite", DISPATCH_LEVEL);
    return host->OwnsShared(host->Host, "ExIsResourceAcquiredExclusiveLite", (PVOID)Resource) == 2;
}

ULONG ExIsResourceAcquiredSharedLite(PERESOURCE Resource) {
    check("ExIsResourceAcquiredSharedLite", DISPATCH_LEVEL);
    return host->OwnsShared(host->Host, "ExIsResourceAcquiredSharedLite", (PVOID)Resource);
}

/* Work items. They run at PASSIVE level, one after the other. */

#define WORK_TAG 0x69576F49u /* 'IoWi' */

struct _IO_WORKITEM {
    PDEVICE_OBJECT Device;
    PIO_WORKITEM_ROUTINE Routine;
    PIO_WORKITEM_ROUTINE_EX RoutineEx;
    PVOID Context;
};

static VOID run_io_item(PVOID item) {
    /* The routine may free the item. */
    struct _IO_WORKITEM work = *(PIO_WORKITEM)item;
    if (work.RoutineEx != NULL) {
        work.RoutineEx(work.Device, work.Context, (PIO_WORKITEM)item);
    } else {
        work.Routine(work.Device, work.Context);
    }
}

static VOID run_ex_item(PVOID item) {
    WORK_QUEUE_ITEM work = *(PWORK_QUEUE_ITEM)item;
    work.WorkerRoutine(work.Parameter);
}

static VOID queue_work(const char *function, PVOID item, PKSTART_ROUTINE routine) {
    if (!host->QueueWork(host->Host, item, (UINT64)(ULONG_PTR)routine, (UINT64)(ULONG_PTR)item)) {
        report("code-work", "%s of a work item that is queued already", function);
    }
}

PIO_WORKITEM IoAllocateWorkItem(PDEVICE_OBJECT DeviceObject) {
    PIO_WORKITEM item;
    check("IoAllocateWorkItem", DISPATCH_LEVEL);
    item = (PIO_WORKITEM)allocate(sizeof(*item), WORK_TAG, TRUE);
    if (item != NULL) {
        item->Device = DeviceObject;
    }
    return item;
}

VOID IoQueueWorkItem(
    PIO_WORKITEM IoWorkItem, PIO_WORKITEM_ROUTINE WorkerRoutine, WORK_QUEUE_TYPE QueueType,
    PVOID Context) {
    UNREFERENCED_PARAMETER(QueueType);
    check("IoQueueWorkItem", DISPATCH_LEVEL);
    IoWorkItem->Routine = WorkerRoutine;
    IoWorkItem->RoutineEx = NULL;
    IoWorkItem->Context = Context;
    queue_work("IoQueueWorkItem", IoWorkItem, run_io_item);
}

VOID IoQueueWorkItemEx(
    PIO_WORKITEM IoWorkItem, PIO_WORKITEM_ROUTINE_EX WorkerRoutine, WORK_QUEUE_TYPE QueueType,
    PVOID Context) {
    UNREFERENCED_PARAMETER(QueueType);
    check("IoQueueWorkItemEx", DISPATCH_LEVEL);
    IoWorkItem->RoutineEx = WorkerRoutine;
    IoWorkItem->Context = Context;
    queue_work("IoQueueWorkItemEx", IoWorkItem, run_io_item);
}

VOID IoFreeWorkItem(PIO_WORKITEM IoWorkItem) {
    check("IoFreeWorkItem", DISPATCH_LEVEL);
    if (host->IsWorkQueued(host->Host, IoWorkItem)) {
        report("code-work", "IoFreeWorkItem of a work item that is queued");
        return;
    }
    release(IoWorkItem, WORK_TAG);
}

VOID ExInitializeWorkItem(PWORK_QUEUE_ITEM Item, PWORKER_THREAD_ROUTINE Routine, PVOID Context) {
    Item->WorkerRoutine = Routine;
    Item->Parameter = Context;
    Item->List.Flink = NULL;
}

VOID ExQueueWorkItem(PWORK_QUEUE_ITEM WorkItem, WORK_QUEUE_TYPE QueueType) {
    UNREFERENCED_PARAMETER(QueueType);
    check("ExQueueWorkItem", DISPATCH_LEVEL);
    queue_work("ExQueueWorkItem", WorkItem, run_ex_item);
}

/* Timers of the Ex family: a timer and a DPC in one block of pool */

#define TIMER_TAG 0x6D547845u /* 'ExTm' */

struct _EX_TIMER {
    KTIMER Timer;
    KDPC Dpc;
    PEXT_CALLBACK Callback;
    PVOID Context;
    /* Frees the timer after its DPC has run. */
    KDPC End;
    BOOLEAN IsDeleted;
};

static VOID end_ex_timer(struct _KDPC *dpc, PVOID context, PVOID one, PVOID two) {
    UNREFERENCED_PARAMETER(dpc);
    UNREFERENCED_PARAMETER(one);
    UNREFERENCED_PARAMETER(two);
    destroy(context);
}

static VOID run_ex_timer(struct _KDPC *dpc, PVOID context, PVOID one, PVOID two) {
    PEX_TIMER timer = (PEX_TIMER)context;
    UNREFERENCED_PARAMETER(dpc);
    UNREFERENCED_PARAMETER(one);
    UNREFERENCED_PARAMETER(two);
    timer->Callback(timer, timer->Context);
}

PEX_TIMER ExAllocateTimer(PEXT_CALLBACK Callback, PVOID CallbackContext, ULONG Attributes) {
    PEX_TIMER timer;
    UNREFERENCED_PARAMETER(Attributes);
    check("ExAllocateTimer", DISPATCH_LEVEL);
    timer = (PEX_TIMER)allocate(sizeof(*timer), TIMER_TAG, TRUE);
    if (timer != NULL) {
        timer->Callback = Callback;
        timer->Context = CallbackContext;
        KeInitializeTimerEx(&timer->Timer, NotificationTimer);
        KeInitializeDpc(&timer->Dpc, run_ex_timer, timer);
    }
    return timer;
}

/* The period has units of 100 ns. */
BOOLEAN ExSetTimer(PEX_TIMER Timer, LONGLONG DueTime, LONGLONG Period, PVOID Parameters) {
    LARGE_INTEGER due;
    UNREFERENCED_PARAMETER(Parameters);
    check("ExSetTimer", DISPATCH_LEVEL);
    if (Timer->IsDeleted) {
        return FALSE;
    }
    due.QuadPart = DueTime;
    return KeSetTimerEx(
        &Timer->Timer, due, (LONG)((Period + 9999) / 10000),
        Timer->Callback == NULL ? NULL : &Timer->Dpc);
}

BOOLEAN ExCancelTimer(PEX_TIMER Timer, PVOID Parameters) {
    UNREFERENCED_PARAMETER(Parameters);
    check("ExCancelTimer", DISPATCH_LEVEL);
    if (Timer->IsDeleted) {
        return FALSE;
    }
    return host->CancelTimer(host->Host, (PVOID)&Timer->Timer);
}

BOOLEAN ExDeleteTimer(PEX_TIMER Timer, BOOLEAN Cancel, BOOLEAN Wait, PVOID Parameters) {
    BOOLEAN cancelled;
    UNREFERENCED_PARAMETER(Parameters);
    check("ExDeleteTimer", Wait ? APC_LEVEL : DISPATCH_LEVEL);
    if (Wait && !Cancel) {
        report("code-timer", "ExDeleteTimer with Wait and without Cancel");
    }
    cancelled = host->CancelTimer(host->Host, (PVOID)&Timer->Timer);
    if (cancelled && !Cancel) {
        report("code-timer", "ExDeleteTimer of a timer that is set, without Cancel");
    }
    (void)host->RemoveDpc(host->Host, (PVOID)&Timer->Dpc);
    /* The timer outlives its running DPC. */
    if (Wait || KeGetCurrentIrql() == PASSIVE_LEVEL) {
        host->FlushDpcs(host->Host);
    }
    host->DeleteObject(host->Host, "ExDeleteTimer", (PVOID)&Timer->Timer);
    if (host->IsDpcRunning(host->Host, (PVOID)&Timer->Dpc)) {
        Timer->IsDeleted = TRUE;
        if (host->PoolFreed(host->Host, Timer, TIMER_TAG)) {
            KeInitializeDpc(&Timer->End, end_ex_timer, Timer);
            (void)KeInsertQueueDpc(&Timer->End, NULL, NULL);
        }
        return cancelled;
    }
    release(Timer, TIMER_TAG);
    return cancelled;
}

/* It runs as another DPC does. */
VOID KeInitializeThreadedDpc(
    PRKDPC Dpc, PKDEFERRED_ROUTINE DeferredRoutine, PVOID DeferredContext) {
    KeInitializeDpc(Dpc, DeferredRoutine, DeferredContext);
}

/* Threads and processes. There is one process, and all threads have one priority. */

#define THREAD_PRIORITY 8

PKTHREAD KeGetCurrentThread(VOID) {
    return (PKTHREAD)host->ThreadObject(host->Host);
}

PETHREAD PsGetCurrentThread(VOID) {
    return (PETHREAD)host->ThreadObject(host->Host);
}

HANDLE PsGetCurrentThreadId(VOID) {
    return (HANDLE)((ULONG_PTR)host->ThreadObject(host->Host) & 0xFFFFFFFFu);
}

static ULONG_PTR system_process;

PEPROCESS PsGetCurrentProcess(VOID) {
    return (PEPROCESS)(PVOID)&system_process;
}

HANDLE PsGetCurrentProcessId(VOID) {
    return (HANDLE)(ULONG_PTR)4;
}

KPRIORITY KeSetPriorityThread(PKTHREAD Thread, KPRIORITY Priority) {
    UNREFERENCED_PARAMETER(Thread);
    check("KeSetPriorityThread", PASSIVE_LEVEL);
    if (Priority < 1 || Priority > HIGH_PRIORITY) {
        report(
            "code-priority",
            "KeSetPriorityThread with the priority %d: 1 to 31 are allowed", Priority);
    }
    return THREAD_PRIORITY;
}

VOID KeStackAttachProcess(PRKPROCESS Process, PKAPC_STATE ApcState) {
    check("KeStackAttachProcess", DISPATCH_LEVEL);
    ApcState->Opaque[0] = (ULONG_PTR)Process;
}

VOID KeUnstackDetachProcess(PKAPC_STATE ApcState) {
    UNREFERENCED_PARAMETER(ApcState);
    check("KeUnstackDetachProcess", DISPATCH_LEVEL);
}

ULONG KeGetCurrentProcessorNumberEx(PPROCESSOR_NUMBER ProcNumber) {
    if (ProcNumber != NULL) {
        RtlZeroMemory(ProcNumber, sizeof(*ProcNumber));
    }
    return 0;
}

ULONG KeGetCurrentProcessorNumber(VOID) {
    return 0;
}

ULONG KeQueryActiveProcessorCount(KAFFINITY *ActiveProcessors) {
    if (ActiveProcessors != NULL) {
        *ActiveProcessors = 1;
    }
    return 1;
}
