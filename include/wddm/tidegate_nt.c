/*
 * The functions of the NT kernel for a driver that runs on tidegate, for C11 and C++17. Compile it
 * into the driver's shared library:
 *
 *     cc -std=c11 -fshort-wchar -fPIC -shared -I include/wddm driver.c include/wddm/tidegate_nt.c
 *
 * - The folder tidegate_nt has its other parts, which it includes.
 * - The host gives a table of its functions to TidegateBind before it calls DriverEntry. Each copy
 *   of the library has one host.
 * - What needs no host is carried out here: pool guards, atomics, strings.
 * - A function that is missing is an undefined symbol, which the host names when it loads the
 *   driver.
 */
#include <ntddk.h>
#include <dispmprt.h>
#include <ntstrsafe.h>
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
    VOID (*Violation)(PVOID, const char *rule, const char *what);
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
    /* Whether a test has this allocation of pool memory fail. */
    BOOLEAN (*AllocationFails)(PVOID);
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
    /* Checks how much of the stack is used at an address of it. */
    VOID (*CheckStack)(PVOID, const char *function, UINT64 at);
    VOID (*InitializeSemaphore)(PVOID, PVOID object, LONG count, LONG limit);
    LONG (*ReleaseSemaphore)(PVOID, PVOID object, LONG by);
    VOID (*InitializeMutex)(PVOID, PVOID object);
    BOOLEAN (*AcquireMutex)(PVOID, const char *function, PVOID object, BOOLEAN waits);
    /* How often the caller held it; 0 if it does not own it. */
    ULONG (*ReleaseMutex)(PVOID, const char *function, PVOID object);
    VOID (*InitializeShared)(PVOID, PVOID object);
    BOOLEAN (*AcquireShared)(
        PVOID, const char *function, PVOID object, BOOLEAN exclusive, BOOLEAN recursive,
        BOOLEAN waits);
    VOID (*ReleaseShared)(PVOID, const char *function, PVOID object);
    /* 2 exclusive, 1 shared, 0 not owned. */
    ULONG (*OwnsShared)(PVOID, const char *function, PVOID object);
    VOID (*DeleteObject)(PVOID, const char *function, PVOID object);
    LONG (*StateOf)(PVOID, const char *function, PVOID object);
    /* A status: the index, STATUS_TIMEOUT, or STATUS_ALERTED if the machine stops. */
    ULONG (*WaitMany)(
        PVOID, PVOID const *objects, ULONG count, BOOLEAN all, BOOLEAN bounded, UINT64 units);
    VOID (*EnterRegion)(PVOID);
    VOID (*LeaveRegion)(PVOID);
    VOID (*CheckRegion)(PVOID, const char *function);
    BOOLEAN (*QueueWork)(PVOID, PVOID item, UINT64 routine, UINT64 context);
    BOOLEAN (*IsWorkQueued)(PVOID, PVOID item);
    PVOID (*ThreadObject)(PVOID);
    PVOID (*MapIo)(PVOID, UINT64 bus, UINT64 bytes);
    VOID (*UnmapIo)(PVOID, PVOID at, UINT64 bytes);
    /* 0 for memory that the device does not reach. */
    UINT64 (*BusAddress)(PVOID, PVOID at);
    VOID (*BugCheck)(PVOID, ULONG code, UINT64 one, UINT64 two, UINT64 three, UINT64 four);
    BOOLEAN (*ReferenceHandle)(PVOID, HANDLE handle);
    VOID (*Reference)(PVOID, PVOID object);
    VOID (*Dereference)(PVOID, PVOID object);
    BOOLEAN (*CloseHandle)(PVOID, HANDLE handle);
    /* `root`: 0 a path, 1 the hardware key, 2 the software key, 3 a path below the services. */
    NTSTATUS (*OpenKey)(
        PVOID, ULONG root, HANDLE parent, PCWSTR path, ULONG characters, BOOLEAN create,
        PHANDLE handle);
    NTSTATUS (*QueryValue)(
        PVOID, const char *function, HANDLE key, PCWSTR name, ULONG characters, PULONG type,
        PUCHAR data, ULONG capacity, PULONG bytes);
    NTSTATUS (*SetValue)(
        PVOID, HANDLE key, PCWSTR name, ULONG characters, ULONG type, const UCHAR *data,
        ULONG bytes);
    NTSTATUS (*DisconnectDoorbell)(PVOID, const VOID *arguments);
    BOOLEAN (*Synchronize)(PVOID, UINT64 routine, PVOID argument);
    BOOLEAN (*IsDpcRunning)(PVOID, PVOID dpc);
    /* DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1 as a number. */
    UINT (*OsCaps)(PVOID);
    /* A step of an atomic operation: another agent may run before and after it. */
    VOID (*Atomic)(PVOID);
    PVOID (*HandleData)(PVOID, D3DKMT_HANDLE handle, UINT of_device, BOOLEAN acquire);
    VOID (*ReleaseHandleData)(PVOID, PVOID data);
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

/* Callbacks without an argument for the adapter. The host finds them by their names. */

NTSTATUS TidegateDisconnectDoorbell(const VOID *Arguments);
VOID TidegateGetOSCaps(UINT *Caps);
PVOID TidegateGetHandleData(const DXGKARGCB_GETHANDLEDATA *Data);
PVOID TidegateAcquireHandleData(const DXGKARGCB_GETHANDLEDATA *Data, PHANDLE ReleaseHandle);
VOID TidegateReleaseHandleData(DXGKARGCB_RELEASEHANDLEDATA Data);

NTSTATUS TidegateDisconnectDoorbell(const VOID *Arguments) {
    if (!check("DxgkCbDisconnectDoorbell", PASSIVE_LEVEL) || Arguments == NULL) {
        return STATUS_INVALID_PARAMETER;
    }
    return host->DisconnectDoorbell(host->Host, Arguments);
}

VOID TidegateGetOSCaps(UINT *Caps) {
    check("GetOSCaps", PASSIVE_LEVEL);
    *Caps = host->OsCaps(host->Host);
}

static PVOID handle_data(
    const char *function, const DXGKARGCB_GETHANDLEDATA *data, BOOLEAN acquire) {
    if (!check(function, APC_LEVEL) || data == NULL || data->Type != DXGK_HANDLE_ALLOCATION) {
        return NULL;
    }
    return host->HandleData(host->Host, data->hObject, data->Flags.DeviceSpecific, acquire);
}

PVOID TidegateGetHandleData(const DXGKARGCB_GETHANDLEDATA *Data) {
    return handle_data("DxgkCbGetHandleData", Data, FALSE);
}

PVOID TidegateAcquireHandleData(const DXGKARGCB_GETHANDLEDATA *Data, PHANDLE ReleaseHandle) {
    PVOID found = handle_data("DxgkCbAcquireHandleData", Data, TRUE);
    if (ReleaseHandle != NULL) {
        *ReleaseHandle = found;
    }
    return found;
}

VOID TidegateReleaseHandleData(DXGKARGCB_RELEASEHANDLEDATA Data) {
    if (check("DxgkCbReleaseHandleData", APC_LEVEL)) {
        host->ReleaseHandleData(host->Host, Data.ReleaseHandle);
    }
}

/* Messages */

/* `rule` is an id of crates/ddi-c/src/rule.rs. */
static VOID report(const char *rule, const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    host->Violation(host->Host, rule, text);
}

#include "tidegate_nt/formats.c"

VOID TidegatePagedCode(PCSTR File, ULONG Line) {
    if (host->Level(host->Host) > APC_LEVEL) {
        report("code-level", "PAGED_CODE at level %u: %s:%u", host->Level(host->Host), File, Line);
    }
}

VOID TidegateAssertionFailed(PCSTR Expression, PCSTR File, ULONG Line) {
    report("code-assertion", "the assertion %s failed: %s:%u", Expression, File, Line);
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
        report(
            "code-level", "KeLowerIrql raises from level %u to %u", host->Level(host->Host),
            NewIrql);
        return;
    }
    (void)host->SetLevel(host->Host, NewIrql);
}

/* The device has one interrupt, which the graphics kernel has connected. */
BOOLEAN KeSynchronizeExecution(
    PKINTERRUPT Interrupt, PKSYNCHRONIZE_ROUTINE SynchronizeRoutine, PVOID SynchronizeContext) {
    UNREFERENCED_PARAMETER(Interrupt);
    return host->Synchronize(
        host->Host, (UINT64)(ULONG_PTR)SynchronizeRoutine, SynchronizeContext);
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
        report(
            "code-level", "%s at level %u: the level must be DISPATCH", function,
            host->Level(host->Host));
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
        report("code-pool", "a pool allocation of %llu bytes", (unsigned long long)bytes);
        return NULL;
    }
    if (tag == 0) {
        report("code-pool", "a pool allocation without a tag");
    }
    if (host->AllocationFails(host->Host)) {
        return NULL;
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

/* Frees pool memory that the host no longer counts. */
static VOID destroy(PVOID at) {
    POOL_HEAD *head = (POOL_HEAD *)((PUCHAR)at - GUARD_BYTES);
    if (!is_guard(head->Guard, sizeof(head->Guard))) {
        report("code-pool", "pool memory was written before its start: it is freed now");
    } else if (!is_guard((PUCHAR)at + head->Bytes, GUARD_BYTES)) {
        report(
            "code-pool",
            "pool memory of %llu bytes was written after its end: it is freed now",
            (unsigned long long)head->Bytes);
    } else {
        memset(at, 0xDD, head->Bytes);
    }
    free(head);
}

static VOID release(PVOID at, ULONG tag) {
    if (at == NULL) {
        report("code-pool", "a free of no pool memory");
    } else if (host->PoolFreed(host->Host, at, tag)) {
        destroy(at);
    }
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

PVOID ExAllocatePoolUninitialized(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag) {
    check("ExAllocatePoolUninitialized", highest(PoolType == PagedPool));
    return allocate(NumberOfBytes, Tag, FALSE);
}

/* The tag that the published function gives. */
PVOID ExAllocatePool(POOL_TYPE PoolType, SIZE_T NumberOfBytes) {
    check("ExAllocatePool", highest(PoolType == PagedPool));
    return allocate(NumberOfBytes, 0x656E6F4Eu /* 'None' */, FALSE);
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
        report(
            "code-stall", "KeStallExecutionProcessor for %u microseconds: 50 are allowed",
            MicroSeconds);
    }
    host->Stall(host->Host, MicroSeconds);
}

ULONGLONG KeQueryInterruptTime(VOID) {
    return host->Time(host->Host);
}

VOID KeQuerySystemTime(PLARGE_INTEGER CurrentTime) {
    CurrentTime->QuadPart = (LONGLONG)host->Time(host->Host);
}

ULONG64 KeQueryInterruptTimePrecise(PULONG64 QpcTimeStamp) {
    ULONG64 now = host->Time(host->Host);
    if (QpcTimeStamp != NULL) {
        *QpcTimeStamp = now;
    }
    return now;
}

ULONGLONG KeQueryUnbiasedInterruptTime(VOID) {
    return host->Time(host->Host);
}

/* Units of 100 ns in a clock tick */
#define TICK_UNITS 156250u

ULONG KeQueryTimeIncrement(VOID) {
    return TICK_UNITS;
}

VOID KeQueryTickCount(PLARGE_INTEGER CurrentCount) {
    CurrentCount->QuadPart = (LONGLONG)(host->Time(host->Host) / TICK_UNITS);
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

/* Threads. A handle has the address of the thread's object. */

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

/* Atomics: full barriers */

#define ATOMIC __ATOMIC_SEQ_CST

static VOID atomic(VOID) {
    host->Atomic(host->Host);
}

LONG InterlockedIncrement(LONG volatile *Addend) {
    atomic();
    return __atomic_add_fetch(Addend, 1, ATOMIC);
}

LONG InterlockedDecrement(LONG volatile *Addend) {
    atomic();
    return __atomic_sub_fetch(Addend, 1, ATOMIC);
}

LONG InterlockedExchange(LONG volatile *Target, LONG Value) {
    atomic();
    return __atomic_exchange_n(Target, Value, ATOMIC);
}

LONG InterlockedExchangeAdd(LONG volatile *Addend, LONG Value) {
    atomic();
    return __atomic_fetch_add(Addend, Value, ATOMIC);
}

LONG InterlockedCompareExchange(LONG volatile *Destination, LONG Exchange, LONG Comparand) {
    atomic();
    (void)__atomic_compare_exchange_n(Destination, &Comparand, Exchange, 0, ATOMIC, ATOMIC);
    return Comparand;
}

LONG InterlockedOr(LONG volatile *Destination, LONG Value) {
    atomic();
    return __atomic_fetch_or(Destination, Value, ATOMIC);
}

LONG InterlockedAnd(LONG volatile *Destination, LONG Value) {
    atomic();
    return __atomic_fetch_and(Destination, Value, ATOMIC);
}

LONG InterlockedXor(LONG volatile *Destination, LONG Value) {
    atomic();
    return __atomic_fetch_xor(Destination, Value, ATOMIC);
}

PVOID InterlockedExchangePointer(PVOID volatile *Target, PVOID Value) {
    atomic();
    return __atomic_exchange_n(Target, Value, ATOMIC);
}

PVOID InterlockedCompareExchangePointer(PVOID *Destination, PVOID Exchange, PVOID Comparand) {
    atomic();
    (void)__atomic_compare_exchange_n(Destination, &Comparand, Exchange, 0, ATOMIC, ATOMIC);
    return Comparand;
}

LONG64 InterlockedIncrement64(LONG64 volatile *Addend) {
    atomic();
    return __atomic_add_fetch(Addend, 1, ATOMIC);
}

LONG64 InterlockedDecrement64(LONG64 volatile *Addend) {
    atomic();
    return __atomic_sub_fetch(Addend, 1, ATOMIC);
}

LONG64 InterlockedExchange64(LONG64 volatile *Target, LONG64 Value) {
    atomic();
    return __atomic_exchange_n(Target, Value, ATOMIC);
}

LONG64 InterlockedExchangeAdd64(LONG64 volatile *Addend, LONG64 Value) {
    atomic();
    return __atomic_fetch_add(Addend, Value, ATOMIC);
}

LONG64 InterlockedCompareExchange64(
    LONG64 volatile *Destination, LONG64 Exchange, LONG64 Comparand) {
    atomic();
    (void)__atomic_compare_exchange_n(Destination, &Comparand, Exchange, 0, ATOMIC, ATOMIC);
    return Comparand;
}

LONG64 InterlockedOr64(LONG64 volatile *Destination, LONG64 Value) {
    atomic();
    return __atomic_fetch_or(Destination, Value, ATOMIC);
}

LONG64 InterlockedAnd64(LONG64 volatile *Destination, LONG64 Value) {
    atomic();
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

/* Errors */

VOID KeBugCheckEx(
    ULONG BugCheckCode, ULONG_PTR BugCheckParameter1, ULONG_PTR BugCheckParameter2,
    ULONG_PTR BugCheckParameter3, ULONG_PTR BugCheckParameter4) {
    host->BugCheck(
        host->Host, BugCheckCode, BugCheckParameter1, BugCheckParameter2, BugCheckParameter3,
        BugCheckParameter4);
    /* The host unwinds the thread. */
    abort();
}

static BOOLEAN debugger_enabled = FALSE;
static BOOLEAN debugger_not_present = TRUE;
PBOOLEAN KdDebuggerEnabled = &debugger_enabled;
PBOOLEAN KdDebuggerNotPresent = &debugger_not_present;

BOOLEAN KdRefreshDebuggerNotPresent(VOID) {
    return debugger_not_present;
}

VOID DbgBreakPoint(VOID) {
    report(
        "code-assertion", "DbgBreakPoint, called at %p, stops a system without a debugger",
        __builtin_return_address(0));
}

ULONG DbgPrompt(PCSTR Prompt, PSTR Response, ULONG Length) {
    UNREFERENCED_PARAMETER(Prompt);
    if (Length != 0) {
        Response[0] = '\0';
    }
    return 0;
}

/*
 * Stack. Functions of the shim check how much is used. A driver that is compiled with
 * -finstrument-functions is checked at the start of each of its functions.
 */

/* Hidden: the C library has functions of these names, which a driver would find first. */
#define UNINSTRUMENTED __attribute__((no_instrument_function, visibility("hidden")))

VOID UNINSTRUMENTED __cyg_profile_func_enter(VOID *function, VOID *caller);
VOID UNINSTRUMENTED __cyg_profile_func_exit(VOID *function, VOID *caller);

VOID __cyg_profile_func_enter(VOID *function, VOID *caller) {
    UNREFERENCED_PARAMETER(function);
    UNREFERENCED_PARAMETER(caller);
    if (host != NULL) {
        host->CheckStack(
            host->Host, "the start of a function", (UINT64)(ULONG_PTR)__builtin_frame_address(0));
    }
}

VOID __cyg_profile_func_exit(VOID *function, VOID *caller) {
    UNREFERENCED_PARAMETER(function);
    UNREFERENCED_PARAMETER(caller);
}

#include "tidegate_nt/waits.c"
#include "tidegate_nt/memory.c"
#include "tidegate_nt/strings.c"
#include "tidegate_nt/registry.c"
#include "tidegate_nt/requests.c"

#ifdef __cplusplus
}
#endif
