/*
 * The functions of the NT kernel for a driver that runs on tidegate, for C11 and C++17. Compile it
 * into the driver's shared library:
 *
 *     cc -std=c11 -fshort-wchar -fPIC -shared -I include/wddm driver.c include/wddm/tidegate_nt.c
 *
 * - The host gives a table of its functions to TidegateBind before it calls DriverEntry. Each copy
 *   of the library has one host.
 * - What needs no host is carried out here: pool guards, atomics, strings.
 * - A function that is missing is an undefined symbol, which the host names when it loads the
 *   driver.
 */
#include <ntddk.h>
#include <dispmprt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The host's functions, as crates/ddi-c/src/foreign/table.rs has them. Each takes the host first.
 */
typedef struct _TIDEGATE_HOST {
    UINT64 Bytes;
    PVOID Host;
    NTSTATUS (*Initialize)(PVOID, const VOID *table);
    VOID (*Print)(PVOID, const char *text);
    VOID (*Violation)(PVOID, const char *text);
    /* Whether the level is at most `level`; reports `function` otherwise. */
    BOOLEAN (*CheckLevel)(PVOID, const char *function, ULONG level);
    ULONG (*Level)(PVOID);
    ULONG (*SetLevel)(PVOID, ULONG level);
    VOID (*AcquireLock)(PVOID, PVOID lock);
    BOOLEAN (*TryLock)(PVOID, PVOID lock);
    VOID (*ReleaseLock)(PVOID, PVOID lock);
    VOID (*ForgetLock)(PVOID, PVOID lock);
    VOID (*PoolAllocated)(PVOID, PVOID at, UINT64 bytes, ULONG tag);
    /* Whether the driver owns the memory, with this tag unless it is 0. */
    BOOLEAN (*PoolFreed)(PVOID, PVOID at, ULONG tag);
    PVOID (*AllocateContiguous)(PVOID, UINT64 bytes, ULONG words);
    BOOLEAN (*FreeContiguous)(PVOID, PVOID at);
    UINT64 (*PhysicalAddress)(PVOID, PVOID at);
    UINT64 (*ReadRegister)(PVOID, UINT64 at, ULONG bytes);
    VOID (*WriteRegister)(PVOID, UINT64 at, ULONG bytes, UINT64 value);
    /* Blocks for units of 100 ns; 0 if the machine stops. */
    BOOLEAN (*Delay)(PVOID, UINT64 units);
    VOID (*Stall)(PVOID, ULONG microseconds);
    /* Time in units of 100 ns. */
    UINT64 (*Time)(PVOID);
    VOID (*Barrier)(PVOID);
    VOID (*InitializeEvent)(PVOID, PVOID event, BOOLEAN manual, BOOLEAN set);
    BOOLEAN (*SetEvent)(PVOID, PVOID event);
    BOOLEAN (*ClearEvent)(PVOID, PVOID event);
    BOOLEAN (*ReadEvent)(PVOID, PVOID event);
    /* 0 done, 1 timed out, 2 the machine stops. */
    ULONG (*Wait)(PVOID, PVOID object, BOOLEAN bounded, UINT64 units);
    BOOLEAN (*InsertDpc)(
        PVOID, PVOID dpc, UINT64 routine, UINT64 context, UINT64 one, UINT64 two);
    BOOLEAN (*RemoveDpc)(PVOID, PVOID dpc);
    VOID (*FlushDpcs)(PVOID);
    BOOLEAN (*SetTimer)(
        PVOID, PVOID timer, UINT64 units, ULONG milliseconds, PVOID dpc, UINT64 routine,
        UINT64 context);
    BOOLEAN (*CancelTimer)(PVOID, PVOID timer);
    PVOID (*StartThread)(PVOID, UINT64 routine, UINT64 context);
    VOID (*EndThread)(PVOID);
} TIDEGATE_HOST;

static const TIDEGATE_HOST *host;

NTSTATUS TidegateBind(const TIDEGATE_HOST *table);

/* Called once, before DriverEntry. */
NTSTATUS TidegateBind(const TIDEGATE_HOST *table) {
    if (table->Bytes != sizeof(*table)) {
        return STATUS_REVISION_MISMATCH;
    }
    host = table;
    return STATUS_SUCCESS;
}

static BOOLEAN check(const char *function, KIRQL level) {
    return host->CheckLevel(host->Host, function, level);
}

/* Entry */

NTSTATUS DxgkInitialize(
    PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath,
    PDRIVER_INITIALIZATION_DATA DriverInitializationData) {
    check("DxgkInitialize", PASSIVE_LEVEL);
    if (DriverObject == NULL || RegistryPath == NULL || DriverInitializationData == NULL) {
        return STATUS_INVALID_PARAMETER;
    }
    return host->Initialize(host->Host, DriverInitializationData);
}

/* Messages */

static VOID report(const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    host->Violation(host->Host, text);
}

static VOID print(const char *format, va_list arguments) {
    char text[512];
    (void)vsnprintf(text, sizeof(text), format, arguments);
    host->Print(host->Host, text);
}

ULONG DbgPrint(PCSTR Format, ...) {
    va_list arguments;
    va_start(arguments, Format);
    print(Format, arguments);
    va_end(arguments);
    return 0;
}

ULONG DbgPrintEx(ULONG ComponentId, ULONG Level, PCSTR Format, ...) {
    va_list arguments;
    UNREFERENCED_PARAMETER(ComponentId);
    UNREFERENCED_PARAMETER(Level);
    va_start(arguments, Format);
    print(Format, arguments);
    va_end(arguments);
    return 0;
}

VOID TidegatePagedCode(PCSTR File, ULONG Line) {
    if (host->Level(host->Host) > APC_LEVEL) {
        report("PAGED_CODE at level %u: %s:%u", host->Level(host->Host), File, Line);
    }
}

VOID TidegateAssertionFailed(PCSTR Expression, PCSTR File, ULONG Line) {
    report("the assertion %s failed: %s:%u", Expression, File, Line);
}

/* Levels and spin locks */

KIRQL KeGetCurrentIrql(VOID) {
    return (KIRQL)host->Level(host->Host);
}

VOID KeRaiseIrql(KIRQL NewIrql, PKIRQL OldIrql) {
    check("KeRaiseIrql", NewIrql);
    *OldIrql = (KIRQL)host->SetLevel(host->Host, NewIrql);
}

VOID KeLowerIrql(KIRQL NewIrql) {
    if (host->Level(host->Host) < NewIrql) {
        report("KeLowerIrql raises from level %u to %u", host->Level(host->Host), NewIrql);
        return;
    }
    (void)host->SetLevel(host->Host, NewIrql);
}

VOID KeInitializeSpinLock(PKSPIN_LOCK SpinLock) {
    *SpinLock = 0;
    host->ForgetLock(host->Host, (PVOID)SpinLock);
}

KIRQL KeAcquireSpinLockRaiseToDpc(PKSPIN_LOCK SpinLock) {
    KIRQL old = KeGetCurrentIrql();
    if (check("KeAcquireSpinLock", DISPATCH_LEVEL)) {
        old = (KIRQL)host->SetLevel(host->Host, DISPATCH_LEVEL);
    }
    host->AcquireLock(host->Host, (PVOID)SpinLock);
    return old;
}

/* In the published headers a macro over the function above. */
VOID KeAcquireSpinLock(PKSPIN_LOCK SpinLock, PKIRQL OldIrql) {
    *OldIrql = KeAcquireSpinLockRaiseToDpc(SpinLock);
}

VOID KeReleaseSpinLock(PKSPIN_LOCK SpinLock, KIRQL NewIrql) {
    host->ReleaseLock(host->Host, (PVOID)SpinLock);
    KeLowerIrql(NewIrql);
}

static VOID require_dispatch(const char *function) {
    if (host->Level(host->Host) < DISPATCH_LEVEL) {
        report("%s at level %u: the level must be DISPATCH", function, host->Level(host->Host));
    }
}

VOID KeAcquireSpinLockAtDpcLevel(PKSPIN_LOCK SpinLock) {
    require_dispatch("KeAcquireSpinLockAtDpcLevel");
    host->AcquireLock(host->Host, (PVOID)SpinLock);
}

VOID KeReleaseSpinLockFromDpcLevel(PKSPIN_LOCK SpinLock) {
    require_dispatch("KeReleaseSpinLockFromDpcLevel");
    host->ReleaseLock(host->Host, (PVOID)SpinLock);
}

BOOLEAN KeTryToAcquireSpinLockAtDpcLevel(PKSPIN_LOCK SpinLock) {
    require_dispatch("KeTryToAcquireSpinLockAtDpcLevel");
    return host->TryLock(host->Host, (PVOID)SpinLock);
}

VOID KeAcquireInStackQueuedSpinLock(PKSPIN_LOCK SpinLock, PKLOCK_QUEUE_HANDLE LockHandle) {
    LockHandle->Opaque[0] = (ULONG_PTR)SpinLock;
    LockHandle->Opaque[1] = KeAcquireSpinLockRaiseToDpc(SpinLock);
}

VOID KeReleaseInStackQueuedSpinLock(PKLOCK_QUEUE_HANDLE LockHandle) {
    KeReleaseSpinLock((PKSPIN_LOCK)LockHandle->Opaque[0], (KIRQL)LockHandle->Opaque[1]);
}

VOID KeMemoryBarrier(VOID) {
    host->Barrier(host->Host);
}

/*
 * Pool. A block has a head and a tail of guard bytes. New memory holds 0xA5 unless it is to be
 * zeroed, and freed memory 0xDD before it goes back.
 */

#define GUARD_BYTES 32u
#define GUARD 0xFD

typedef struct _POOL_HEAD {
    UINT64 Bytes;
    UINT64 Tag;
    UCHAR Guard[GUARD_BYTES - 16];
} POOL_HEAD;

static PVOID allocate(SIZE_T bytes, ULONG tag, BOOLEAN zero) {
    POOL_HEAD *head;
    PUCHAR at;
    if (bytes == 0 || bytes > (SIZE_T)1 << 40) {
        report("a pool allocation of %llu bytes", (unsigned long long)bytes);
        return NULL;
    }
    if (tag == 0) {
        report("a pool allocation without a tag");
    }
    head = (POOL_HEAD *)malloc(bytes + 2 * GUARD_BYTES);
    if (head == NULL) {
        return NULL;
    }
    head->Bytes = bytes;
    head->Tag = tag;
    memset(head->Guard, GUARD, sizeof(head->Guard));
    at = (PUCHAR)head + GUARD_BYTES;
    memset(at, zero ? 0 : 0xA5, bytes);
    memset(at + bytes, GUARD, GUARD_BYTES);
    host->PoolAllocated(host->Host, at, bytes, tag);
    return at;
}

static BOOLEAN is_guard(const UCHAR *at, SIZE_T bytes) {
    SIZE_T i;
    for (i = 0; i < bytes; i++) {
        if (at[i] != GUARD) {
            return FALSE;
        }
    }
    return TRUE;
}

static VOID release(PVOID at, ULONG tag) {
    POOL_HEAD *head;
    if (at == NULL) {
        report("a free of no pool memory");
        return;
    }
    if (!host->PoolFreed(host->Host, at, tag)) {
        return;
    }
    head = (POOL_HEAD *)((PUCHAR)at - GUARD_BYTES);
    if (!is_guard(head->Guard, sizeof(head->Guard))) {
        report("pool memory was written before its start: it is freed now");
    } else if (!is_guard((PUCHAR)at + head->Bytes, GUARD_BYTES)) {
        report(
            "pool memory of %llu bytes was written after its end: it is freed now",
            (unsigned long long)head->Bytes);
    } else {
        memset(at, 0xDD, head->Bytes);
    }
    free(head);
}

static KIRQL highest(BOOLEAN paged) {
    return paged ? APC_LEVEL : DISPATCH_LEVEL;
}

PVOID ExAllocatePoolWithTag(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag) {
    check("ExAllocatePoolWithTag", highest(PoolType == PagedPool));
    return allocate(NumberOfBytes, Tag, FALSE);
}

PVOID ExAllocatePoolZero(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag) {
    check("ExAllocatePoolZero", highest(PoolType == PagedPool));
    return allocate(NumberOfBytes, Tag, TRUE);
}

PVOID ExAllocatePool2(POOL_FLAGS Flags, SIZE_T NumberOfBytes, ULONG Tag) {
    check("ExAllocatePool2", highest((Flags & POOL_FLAG_PAGED) != 0));
    return allocate(NumberOfBytes, Tag, (Flags & POOL_FLAG_UNINITIALIZED) == 0);
}

VOID ExFreePool(PVOID P) {
    check("ExFreePool", DISPATCH_LEVEL);
    release(P, 0);
}

VOID ExFreePoolWithTag(PVOID P, ULONG Tag) {
    check("ExFreePoolWithTag", DISPATCH_LEVEL);
    release(P, Tag);
}

/*
 * Contiguous memory. MmNonCached memory consists of 64-bit words that the device reads and writes
 * one at a time: pointers of rings and fences. Other memory consists of bytes.
 */

PVOID MmAllocateContiguousMemorySpecifyCache(
    SIZE_T NumberOfBytes, PHYSICAL_ADDRESS LowestAcceptableAddress,
    PHYSICAL_ADDRESS HighestAcceptableAddress, PHYSICAL_ADDRESS BoundaryAddressMultiple,
    MEMORY_CACHING_TYPE CacheType) {
    UNREFERENCED_PARAMETER(LowestAcceptableAddress);
    UNREFERENCED_PARAMETER(HighestAcceptableAddress);
    UNREFERENCED_PARAMETER(BoundaryAddressMultiple);
    check("MmAllocateContiguousMemorySpecifyCache", DISPATCH_LEVEL);
    return host->AllocateContiguous(host->Host, NumberOfBytes, CacheType == MmNonCached);
}

PVOID MmAllocateContiguousMemory(SIZE_T NumberOfBytes, PHYSICAL_ADDRESS HighestAcceptableAddress) {
    UNREFERENCED_PARAMETER(HighestAcceptableAddress);
    check("MmAllocateContiguousMemory", DISPATCH_LEVEL);
    return host->AllocateContiguous(host->Host, NumberOfBytes, FALSE);
}

VOID MmFreeContiguousMemory(PVOID BaseAddress) {
    check("MmFreeContiguousMemory", DISPATCH_LEVEL);
    (void)host->FreeContiguous(host->Host, BaseAddress);
}

VOID MmFreeContiguousMemorySpecifyCache(
    PVOID BaseAddress, SIZE_T NumberOfBytes, MEMORY_CACHING_TYPE CacheType) {
    UNREFERENCED_PARAMETER(NumberOfBytes);
    UNREFERENCED_PARAMETER(CacheType);
    check("MmFreeContiguousMemorySpecifyCache", DISPATCH_LEVEL);
    (void)host->FreeContiguous(host->Host, BaseAddress);
}

PHYSICAL_ADDRESS MmGetPhysicalAddress(PVOID BaseAddress) {
    PHYSICAL_ADDRESS address;
    address.QuadPart = (LONGLONG)host->PhysicalAddress(host->Host, BaseAddress);
    return address;
}

/* Registers. Their addresses hold no memory. */

#define READ(type, pointer) \
    ((type)host->ReadRegister(host->Host, (UINT64)(ULONG_PTR)(pointer), sizeof(type)))
#define WRITE(type, pointer, value) \
    host->WriteRegister(host->Host, (UINT64)(ULONG_PTR)(pointer), sizeof(type), (value))

UCHAR READ_REGISTER_UCHAR(volatile UCHAR *Register) {
    return READ(UCHAR, Register);
}

USHORT READ_REGISTER_USHORT(volatile USHORT *Register) {
    return READ(USHORT, Register);
}

ULONG READ_REGISTER_ULONG(volatile ULONG *Register) {
    return READ(ULONG, Register);
}

ULONG64 READ_REGISTER_ULONG64(volatile ULONG64 *Register) {
    return READ(ULONG64, Register);
}

VOID WRITE_REGISTER_UCHAR(volatile UCHAR *Register, UCHAR Value) {
    WRITE(UCHAR, Register, Value);
}

VOID WRITE_REGISTER_USHORT(volatile USHORT *Register, USHORT Value) {
    WRITE(USHORT, Register, Value);
}

VOID WRITE_REGISTER_ULONG(volatile ULONG *Register, ULONG Value) {
    WRITE(ULONG, Register, Value);
}

VOID WRITE_REGISTER_ULONG64(volatile ULONG64 *Register, ULONG64 Value) {
    WRITE(ULONG64, Register, Value);
}

ULONG READ_REGISTER_NOFENCE_ULONG(volatile ULONG *Register) {
    return READ(ULONG, Register);
}

VOID WRITE_REGISTER_NOFENCE_ULONG(volatile ULONG *Register, ULONG Value) {
    WRITE(ULONG, Register, Value);
}

/* Time. A negative time is relative, in units of 100 ns. */

static UINT64 units_until(PLARGE_INTEGER time) {
    UINT64 now = host->Time(host->Host);
    if (time->QuadPart < 0) {
        return 0 - (UINT64)time->QuadPart;
    }
    return (UINT64)time->QuadPart > now ? (UINT64)time->QuadPart - now : 0;
}

NTSTATUS KeDelayExecutionThread(
    KPROCESSOR_MODE WaitMode, BOOLEAN Alertable, PLARGE_INTEGER Interval) {
    UNREFERENCED_PARAMETER(WaitMode);
    UNREFERENCED_PARAMETER(Alertable);
    if (!check("KeDelayExecutionThread", APC_LEVEL)) {
        return STATUS_UNSUCCESSFUL;
    }
    return host->Delay(host->Host, units_until(Interval)) ? STATUS_SUCCESS : STATUS_ALERTED;
}

VOID KeStallExecutionProcessor(ULONG MicroSeconds) {
    if (MicroSeconds > 50) {
        report("KeStallExecutionProcessor for %u microseconds: 50 are allowed", MicroSeconds);
    }
    host->Stall(host->Host, MicroSeconds);
}

ULONGLONG KeQueryInterruptTime(VOID) {
    return host->Time(host->Host);
}

VOID KeQuerySystemTime(PLARGE_INTEGER CurrentTime) {
    CurrentTime->QuadPart = (LONGLONG)host->Time(host->Host);
}

VOID KeQuerySystemTimePrecise(PLARGE_INTEGER CurrentTime) {
    KeQuerySystemTime(CurrentTime);
}

LARGE_INTEGER KeQueryPerformanceCounter(PLARGE_INTEGER PerformanceFrequency) {
    LARGE_INTEGER now;
    if (PerformanceFrequency != NULL) {
        PerformanceFrequency->QuadPart = 10000000;
    }
    now.QuadPart = (LONGLONG)host->Time(host->Host);
    return now;
}

/* Events and waits. Threads and timers are waited for as well. */

VOID KeInitializeEvent(PRKEVENT Event, EVENT_TYPE Type, BOOLEAN State) {
    host->InitializeEvent(host->Host, (PVOID)Event, Type == NotificationEvent, State);
}

LONG KeSetEvent(PRKEVENT Event, KPRIORITY Increment, BOOLEAN Wait) {
    UNREFERENCED_PARAMETER(Increment);
    UNREFERENCED_PARAMETER(Wait);
    check("KeSetEvent", DISPATCH_LEVEL);
    return host->SetEvent(host->Host, (PVOID)Event);
}

VOID KeClearEvent(PRKEVENT Event) {
    check("KeClearEvent", DISPATCH_LEVEL);
    (void)host->ClearEvent(host->Host, (PVOID)Event);
}

LONG KeResetEvent(PRKEVENT Event) {
    check("KeResetEvent", DISPATCH_LEVEL);
    return host->ClearEvent(host->Host, (PVOID)Event);
}

LONG KeReadStateEvent(PRKEVENT Event) {
    check("KeReadStateEvent", DISPATCH_LEVEL);
    return host->ReadEvent(host->Host, (PVOID)Event);
}

NTSTATUS KeWaitForSingleObject(
    PVOID Object, KWAIT_REASON WaitReason, KPROCESSOR_MODE WaitMode, BOOLEAN Alertable,
    PLARGE_INTEGER Timeout) {
    UINT64 units = Timeout == NULL ? 0 : units_until(Timeout);
    BOOLEAN polls = Timeout != NULL && units == 0;
    UNREFERENCED_PARAMETER(WaitReason);
    UNREFERENCED_PARAMETER(WaitMode);
    UNREFERENCED_PARAMETER(Alertable);
    if (!check("KeWaitForSingleObject", polls ? DISPATCH_LEVEL : APC_LEVEL)) {
        return STATUS_UNSUCCESSFUL;
    }
    switch (host->Wait(host->Host, Object, Timeout != NULL, units)) {
    case 0:
        return STATUS_SUCCESS;
    case 1:
        return STATUS_TIMEOUT;
    default:
        return STATUS_ALERTED;
    }
}

/* DPCs and timers. A KDPC holds its routine and its context. */

VOID KeInitializeDpc(PRKDPC Dpc, PKDEFERRED_ROUTINE DeferredRoutine, PVOID DeferredContext) {
    RtlZeroMemory(Dpc, sizeof(*Dpc));
    Dpc->Opaque[0] = (ULONG_PTR)DeferredRoutine;
    Dpc->Opaque[1] = (ULONG_PTR)DeferredContext;
}

BOOLEAN KeInsertQueueDpc(PRKDPC Dpc, PVOID SystemArgument1, PVOID SystemArgument2) {
    return host->InsertDpc(
        host->Host, (PVOID)Dpc, Dpc->Opaque[0], Dpc->Opaque[1], (UINT64)(ULONG_PTR)SystemArgument1,
        (UINT64)(ULONG_PTR)SystemArgument2);
}

BOOLEAN KeRemoveQueueDpc(PRKDPC Dpc) {
    return host->RemoveDpc(host->Host, (PVOID)Dpc);
}

VOID KeFlushQueuedDpcs(VOID) {
    if (check("KeFlushQueuedDpcs", PASSIVE_LEVEL)) {
        host->FlushDpcs(host->Host);
    }
}

VOID KeInitializeTimerEx(PKTIMER Timer, TIMER_TYPE Type) {
    check("KeInitializeTimer", DISPATCH_LEVEL);
    host->InitializeEvent(host->Host, (PVOID)Timer, Type == NotificationTimer, FALSE);
}

VOID KeInitializeTimer(PKTIMER Timer) {
    KeInitializeTimerEx(Timer, NotificationTimer);
}

BOOLEAN KeSetTimerEx(PKTIMER Timer, LARGE_INTEGER DueTime, LONG Period, PKDPC Dpc) {
    check("KeSetTimer", DISPATCH_LEVEL);
    return host->SetTimer(
        host->Host, (PVOID)Timer, units_until(&DueTime), (ULONG)Period, (PVOID)Dpc,
        Dpc == NULL ? 0 : Dpc->Opaque[0], Dpc == NULL ? 0 : Dpc->Opaque[1]);
}

BOOLEAN KeSetTimer(PKTIMER Timer, LARGE_INTEGER DueTime, PKDPC Dpc) {
    return KeSetTimerEx(Timer, DueTime, 0, Dpc);
}

BOOLEAN KeCancelTimer(PKTIMER Timer) {
    check("KeCancelTimer", DISPATCH_LEVEL);
    return host->CancelTimer(host->Host, (PVOID)Timer);
}

/* Threads. A handle is the address of the thread's object. */

NTSTATUS PsCreateSystemThread(
    PHANDLE ThreadHandle, ULONG DesiredAccess, POBJECT_ATTRIBUTES ObjectAttributes,
    HANDLE ProcessHandle, PCLIENT_ID ClientId, PKSTART_ROUTINE StartRoutine, PVOID StartContext) {
    UNREFERENCED_PARAMETER(DesiredAccess);
    UNREFERENCED_PARAMETER(ObjectAttributes);
    UNREFERENCED_PARAMETER(ProcessHandle);
    UNREFERENCED_PARAMETER(ClientId);
    if (!check("PsCreateSystemThread", PASSIVE_LEVEL)) {
        return STATUS_UNSUCCESSFUL;
    }
    *ThreadHandle = host->StartThread(
        host->Host, (UINT64)(ULONG_PTR)StartRoutine, (UINT64)(ULONG_PTR)StartContext);
    return STATUS_SUCCESS;
}

/* Does not return in a thread of the driver. */
NTSTATUS PsTerminateSystemThread(NTSTATUS ExitStatus) {
    check("PsTerminateSystemThread", PASSIVE_LEVEL);
    host->EndThread(host->Host);
    return ExitStatus;
}

NTSTATUS ObReferenceObjectByHandle(
    HANDLE Handle, ACCESS_MASK DesiredAccess, POBJECT_TYPE ObjectType, KPROCESSOR_MODE AccessMode,
    PVOID *Object, POBJECT_HANDLE_INFORMATION HandleInformation) {
    UNREFERENCED_PARAMETER(DesiredAccess);
    UNREFERENCED_PARAMETER(ObjectType);
    UNREFERENCED_PARAMETER(AccessMode);
    UNREFERENCED_PARAMETER(HandleInformation);
    check("ObReferenceObjectByHandle", PASSIVE_LEVEL);
    *Object = (PVOID)Handle;
    return STATUS_SUCCESS;
}

VOID ObDereferenceObject(PVOID Object) {
    UNREFERENCED_PARAMETER(Object);
    check("ObDereferenceObject", DISPATCH_LEVEL);
}

NTSTATUS ZwClose(HANDLE Handle) {
    UNREFERENCED_PARAMETER(Handle);
    check("ZwClose", PASSIVE_LEVEL);
    return STATUS_SUCCESS;
}

/* Atomics: full barriers */

#define ATOMIC __ATOMIC_SEQ_CST

LONG InterlockedIncrement(LONG volatile *Addend) {
    return __atomic_add_fetch(Addend, 1, ATOMIC);
}

LONG InterlockedDecrement(LONG volatile *Addend) {
    return __atomic_sub_fetch(Addend, 1, ATOMIC);
}

LONG InterlockedExchange(LONG volatile *Target, LONG Value) {
    return __atomic_exchange_n(Target, Value, ATOMIC);
}

LONG InterlockedExchangeAdd(LONG volatile *Addend, LONG Value) {
    return __atomic_fetch_add(Addend, Value, ATOMIC);
}

LONG InterlockedCompareExchange(LONG volatile *Destination, LONG Exchange, LONG Comparand) {
    (void)__atomic_compare_exchange_n(Destination, &Comparand, Exchange, 0, ATOMIC, ATOMIC);
    return Comparand;
}

LONG InterlockedOr(LONG volatile *Destination, LONG Value) {
    return __atomic_fetch_or(Destination, Value, ATOMIC);
}

LONG InterlockedAnd(LONG volatile *Destination, LONG Value) {
    return __atomic_fetch_and(Destination, Value, ATOMIC);
}

LONG InterlockedXor(LONG volatile *Destination, LONG Value) {
    return __atomic_fetch_xor(Destination, Value, ATOMIC);
}

PVOID InterlockedExchangePointer(PVOID volatile *Target, PVOID Value) {
    return __atomic_exchange_n(Target, Value, ATOMIC);
}

PVOID InterlockedCompareExchangePointer(PVOID *Destination, PVOID Exchange, PVOID Comparand) {
    (void)__atomic_compare_exchange_n(Destination, &Comparand, Exchange, 0, ATOMIC, ATOMIC);
    return Comparand;
}

LONG64 InterlockedIncrement64(LONG64 volatile *Addend) {
    return __atomic_add_fetch(Addend, 1, ATOMIC);
}

LONG64 InterlockedDecrement64(LONG64 volatile *Addend) {
    return __atomic_sub_fetch(Addend, 1, ATOMIC);
}

LONG64 InterlockedExchange64(LONG64 volatile *Target, LONG64 Value) {
    return __atomic_exchange_n(Target, Value, ATOMIC);
}

LONG64 InterlockedExchangeAdd64(LONG64 volatile *Addend, LONG64 Value) {
    return __atomic_fetch_add(Addend, Value, ATOMIC);
}

LONG64 InterlockedCompareExchange64(
    LONG64 volatile *Destination, LONG64 Exchange, LONG64 Comparand) {
    (void)__atomic_compare_exchange_n(Destination, &Comparand, Exchange, 0, ATOMIC, ATOMIC);
    return Comparand;
}

LONG64 InterlockedOr64(LONG64 volatile *Destination, LONG64 Value) {
    return __atomic_fetch_or(Destination, Value, ATOMIC);
}

LONG64 InterlockedAnd64(LONG64 volatile *Destination, LONG64 Value) {
    return __atomic_fetch_and(Destination, Value, ATOMIC);
}

/* Lists under a spin lock */

PLIST_ENTRY ExInterlockedInsertHeadList(
    PLIST_ENTRY ListHead, PLIST_ENTRY ListEntry, PKSPIN_LOCK Lock) {
    KIRQL level;
    PLIST_ENTRY first;
    KeAcquireSpinLock(Lock, &level);
    first = IsListEmpty(ListHead) ? NULL : ListHead->Flink;
    InsertHeadList(ListHead, ListEntry);
    KeReleaseSpinLock(Lock, level);
    return first;
}

PLIST_ENTRY ExInterlockedInsertTailList(
    PLIST_ENTRY ListHead, PLIST_ENTRY ListEntry, PKSPIN_LOCK Lock) {
    KIRQL level;
    PLIST_ENTRY last;
    KeAcquireSpinLock(Lock, &level);
    last = IsListEmpty(ListHead) ? NULL : ListHead->Blink;
    InsertTailList(ListHead, ListEntry);
    KeReleaseSpinLock(Lock, level);
    return last;
}

PLIST_ENTRY ExInterlockedRemoveHeadList(PLIST_ENTRY ListHead, PKSPIN_LOCK Lock) {
    KIRQL level;
    PLIST_ENTRY first;
    KeAcquireSpinLock(Lock, &level);
    first = IsListEmpty(ListHead) ? NULL : RemoveHeadList(ListHead);
    KeReleaseSpinLock(Lock, level);
    return first;
}

/* Strings and memory */

SIZE_T RtlCompareMemory(const VOID *Source1, const VOID *Source2, SIZE_T Length) {
    const UCHAR *one = (const UCHAR *)Source1;
    const UCHAR *two = (const UCHAR *)Source2;
    SIZE_T equal = 0;
    while (equal < Length && one[equal] == two[equal]) {
        equal++;
    }
    return equal;
}

VOID RtlInitUnicodeString(PUNICODE_STRING DestinationString, PCWSTR SourceString) {
    SIZE_T characters = 0;
    while (SourceString != NULL && SourceString[characters] != 0 && characters < 0x7FFE) {
        characters++;
    }
    DestinationString->Length = (USHORT)(characters * sizeof(WCHAR));
    DestinationString->MaximumLength =
        (USHORT)(SourceString == NULL ? 0 : (characters + 1) * sizeof(WCHAR));
    DestinationString->Buffer = (PWSTR)(ULONG_PTR)SourceString;
}

VOID RtlInitEmptyUnicodeString(PUNICODE_STRING UnicodeString, PWCHAR Buffer, USHORT BufferSize) {
    UnicodeString->Length = 0;
    UnicodeString->MaximumLength = BufferSize;
    UnicodeString->Buffer = Buffer;
}

VOID RtlCopyUnicodeString(PUNICODE_STRING DestinationString, PCUNICODE_STRING SourceString) {
    USHORT bytes = SourceString == NULL ? 0 : SourceString->Length;
    if (bytes > DestinationString->MaximumLength) {
        bytes = DestinationString->MaximumLength;
    }
    if (bytes != 0) {
        memmove(DestinationString->Buffer, SourceString->Buffer, bytes);
    }
    DestinationString->Length = bytes;
}

#ifdef __cplusplus
}
#endif
