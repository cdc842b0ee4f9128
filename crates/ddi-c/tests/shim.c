/*
 * The packet driver with uses of the NT kernel's functions. The value Mistake of the software key
 * selects a mistake. 0 runs every family as it should be used.
 */
#define DXGKDDI_INTERFACE_VERSION DXGKDDI_INTERFACE_VERSION_WDDM2_0
#include <ntddk.h>
#include <dispmprt.h>
#include <ntstrsafe.h>

static NTSTATUS Extended(
    PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath, PDRIVER_INITIALIZATION_DATA data);

#define DxgkInitialize Extended
#include "../../../drivers/packet/packet.c"
#undef DxgkInitialize

/* Situations beside the numbered mistakes. */
#define SEMAPHORE 97u
#define STACK 98u
/* Families of functions in UseFamilies. */
#define FAMILIES 7

static PDEVICE_OBJECT physical_device;
static UNICODE_STRING service;
static WCHAR service_path[128];
static KEVENT done;
static LONG runs;
static PVOID context_of_item;
static KSEMAPHORE semaphore;
static KMUTEX mutex;
static FAST_MUTEX fast;

/* An array that the compiler keeps. */
static DECLSPEC_NOINLINE VOID Touch(volatile UCHAR *bytes, SIZE_T count) {
    SIZE_T i;
    for (i = 0; i < count; i += 64) {
        bytes[i] = 1;
    }
}

/* Uses more than a kernel stack, and calls a function of the kernel then. */
static DECLSPEC_NOINLINE VOID UseStack(BOOLEAN calls) {
    UCHAR large[26 * 1024];
    Touch(large, sizeof(large));
    if (calls) {
        (void)KeReadStateMutex(&mutex);
    }
    Touch(large, sizeof(large));
}

static BOOLEAN Is(PCUNICODE_STRING text, PCWSTR expected) {
    UNICODE_STRING other;
    RtlInitUnicodeString(&other, expected);
    return RtlEqualUnicodeString(text, &other, FALSE);
}

static BOOLEAN IsNarrow(PCSTR text, PCSTR expected) {
    SIZE_T i = 0;
    while (text[i] != 0 && text[i] == expected[i]) {
        i++;
    }
    return text[i] == expected[i];
}

/* Clean uses */

static VOID OwnerOfMutexes(PVOID StartContext) {
    UNREFERENCED_PARAMETER(StartContext);
    ExAcquireFastMutex(&fast);
    NT_ASSERT(KeGetCurrentIrql() == APC_LEVEL);
    (void)InterlockedIncrement(&runs);
    ExReleaseFastMutex(&fast);
    NT_ASSERT(
        KeWaitForSingleObject(&mutex, Executive, KernelMode, FALSE, NULL) == STATUS_SUCCESS);
    (void)InterlockedIncrement(&runs);
    (void)KeReleaseMutex(&mutex, FALSE);
    (void)KeReleaseSemaphore(&semaphore, 0, 1, FALSE);
    (void)PsTerminateSystemThread(STATUS_SUCCESS);
}

static VOID UseMutexes(VOID) {
    LARGE_INTEGER now;
    HANDLE handle;
    PVOID thread;
    now.QuadPart = 0;
    runs = 0;
    KeInitializeMutex(&mutex, 0);
    KeInitializeSemaphore(&semaphore, 1, 2);
    ExInitializeFastMutex(&fast);
    ExAcquireFastMutex(&fast);
    NT_ASSERT(KeGetCurrentIrql() == APC_LEVEL);
    NT_ASSERT(
        KeWaitForSingleObject(&mutex, Executive, KernelMode, FALSE, NULL) == STATUS_SUCCESS);
    NT_ASSERT(
        KeWaitForSingleObject(&mutex, Executive, KernelMode, FALSE, NULL) == STATUS_SUCCESS);
    NT_ASSERT(KeReadStateMutex(&mutex) == -1);
    ExReleaseFastMutex(&fast);
    NT_ASSERT(KeGetCurrentIrql() == PASSIVE_LEVEL);
    NT_ASSERT(
        KeWaitForSingleObject(&semaphore, Executive, KernelMode, FALSE, NULL) == STATUS_SUCCESS);
    NT_ASSERT(
        KeWaitForSingleObject(&semaphore, Executive, KernelMode, FALSE, &now) == STATUS_TIMEOUT);
    NT_ASSERT(NT_SUCCESS(
        PsCreateSystemThread(&handle, 0, NULL, NULL, NULL, OwnerOfMutexes, NULL)));
    NT_ASSERT(NT_SUCCESS(ObReferenceObjectByHandle(
        handle, THREAD_ALL_ACCESS, *PsThreadType, KernelMode, &thread, NULL)));
    NT_ASSERT(NT_SUCCESS(ZwClose(handle)));
    NT_ASSERT(thread != KeGetCurrentThread());
    NT_ASSERT(KeReleaseMutex(&mutex, FALSE) == -1);
    NT_ASSERT(KeReleaseMutex(&mutex, FALSE) == 0);
    {
        PVOID objects[2] = {thread, &semaphore};
        NT_ASSERT(
            KeWaitForMultipleObjects(
                2, objects, WaitAll, Executive, KernelMode, FALSE, NULL, NULL) ==
            STATUS_SUCCESS);
        NT_ASSERT(runs == 2);
        NT_ASSERT(KeReadStateSemaphore(&semaphore) == 0);
        NT_ASSERT(KeReleaseSemaphore(&semaphore, 0, 2, FALSE) == 0);
        objects[0] = &done;
        KeInitializeEvent(&done, SynchronizationEvent, FALSE);
        NT_ASSERT(
            KeWaitForMultipleObjects(
                2, objects, WaitAny, Executive, KernelMode, FALSE, NULL, NULL) == STATUS_WAIT_1);
        NT_ASSERT(KeReadStateSemaphore(&semaphore) == 1);
        NT_ASSERT(
            KeWaitForMultipleObjects(
                2, objects, WaitAll, Executive, KernelMode, FALSE, &now, NULL) ==
            STATUS_TIMEOUT);
        NT_ASSERT(KeReadStateSemaphore(&semaphore) == 1);
    }
    ObDereferenceObject(thread);
}

static VOID UseLocks(VOID) {
    static EX_PUSH_LOCK push;
    static ERESOURCE resource;
    static KGUARDED_MUTEX guarded;
    ExInitializePushLock(&push);
    (void)ExInitializeResourceLite(&resource);
    KeInitializeGuardedMutex(&guarded);
    KeAcquireGuardedMutex(&guarded);
    NT_ASSERT(KeGetCurrentIrql() == PASSIVE_LEVEL);
    KeReleaseGuardedMutex(&guarded);
    KeEnterCriticalRegion();
    ExAcquirePushLockShared(&push);
    ExReleasePushLockShared(&push);
    ExAcquirePushLockExclusive(&push);
    ExReleasePushLockExclusive(&push);
    NT_ASSERT(ExAcquireResourceSharedLite(&resource, TRUE));
    NT_ASSERT(!ExIsResourceAcquiredExclusiveLite(&resource));
    NT_ASSERT(!ExAcquireResourceExclusiveLite(&resource, FALSE));
    ExReleaseResourceLite(&resource);
    NT_ASSERT(ExAcquireResourceExclusiveLite(&resource, TRUE));
    NT_ASSERT(ExAcquireResourceExclusiveLite(&resource, TRUE));
    NT_ASSERT(ExAcquireResourceSharedLite(&resource, TRUE));
    NT_ASSERT(ExIsResourceAcquiredExclusiveLite(&resource));
    ExReleaseResourceLite(&resource);
    ExReleaseResourceLite(&resource);
    ExReleaseResourceLite(&resource);
    NT_ASSERT(ExIsResourceAcquiredSharedLite(&resource) == 0);
    KeLeaveCriticalRegion();
    (void)ExDeleteResourceLite(&resource);
}

static VOID RunItem(PDEVICE_OBJECT DeviceObject, PVOID Context) {
    NT_ASSERT(DeviceObject == physical_device && Context == context_of_item);
    NT_ASSERT(KeGetCurrentIrql() == PASSIVE_LEVEL);
    (void)KeSetEvent(&done, 0, FALSE);
}

static VOID RunParameter(PVOID Parameter) {
    NT_ASSERT(Parameter == &runs);
    (void)KeSetEvent(&done, 0, FALSE);
}

static VOID RunTimer(PEX_TIMER Timer, PVOID Context) {
    UNREFERENCED_PARAMETER(Timer);
    NT_ASSERT(Context == &runs && KeGetCurrentIrql() == DISPATCH_LEVEL);
    (void)KeSetEvent(&done, 0, FALSE);
}

/* A timer that is deleted in its callback is there until that returns, and is not set again. */
static VOID EndTimer(PEX_TIMER Timer, PVOID Context) {
    NT_ASSERT(Context == &runs && !ExDeleteTimer(Timer, FALSE, FALSE, NULL));
    NT_ASSERT(!ExSetTimer(Timer, -10, 0, NULL) && !ExCancelTimer(Timer, NULL));
    (void)KeSetEvent(&done, 0, FALSE);
}

static VOID UseWork(VOID) {
    static WORK_QUEUE_ITEM work;
    PIO_WORKITEM item = IoAllocateWorkItem(physical_device);
    PEX_TIMER timer = ExAllocateTimer(RunTimer, &runs, 0);
    context_of_item = &item;
    KeInitializeEvent(&done, SynchronizationEvent, FALSE);
    IoQueueWorkItem(item, RunItem, DelayedWorkQueue, &item);
    (void)KeWaitForSingleObject(&done, Executive, KernelMode, FALSE, NULL);
    IoFreeWorkItem(item);
    ExInitializeWorkItem(&work, RunParameter, &runs);
    ExQueueWorkItem(&work, CriticalWorkQueue);
    (void)KeWaitForSingleObject(&done, Executive, KernelMode, FALSE, NULL);
    NT_ASSERT(!ExSetTimer(timer, -10, 0, NULL));
    (void)KeWaitForSingleObject(&done, Executive, KernelMode, FALSE, NULL);
    NT_ASSERT(!ExSetTimer(timer, -36000000000, 0, NULL));
    NT_ASSERT(ExCancelTimer(timer, NULL));
    NT_ASSERT(!ExDeleteTimer(timer, TRUE, TRUE, NULL));
    timer = ExAllocateTimer(EndTimer, &runs, 0);
    NT_ASSERT(!ExSetTimer(timer, -10, 0, NULL));
    (void)KeWaitForSingleObject(&done, Executive, KernelMode, FALSE, NULL);
    KeFlushQueuedDpcs();
}

static BOOLEAN AtInterruptLevel(PVOID SynchronizeContext) {
    NT_ASSERT(SynchronizeContext == &runs && KeGetCurrentIrql() > DISPATCH_LEVEL);
    return TRUE;
}

/* The device as a PCI function, and code that is ordered with its interrupt. */
static VOID UseDevice(PDXGKRNL_INTERFACE kernel) {
    ULONG bytes = 0, ids = 0;
    USHORT header[2] = {1, 1};
    NT_ASSERT(KeSynchronizeExecution(NULL, AtInterruptLevel, &runs));
    NT_ASSERT(KeGetCurrentIrql() == PASSIVE_LEVEL);
    NT_ASSERT(NT_SUCCESS(kernel->DxgkCbReadDeviceSpace(
        kernel->DeviceHandle, 0, &ids, 0, sizeof(ids), &bytes)));
    NT_ASSERT(bytes == sizeof(ids) && ids == 0x008C1414);
    NT_ASSERT(NT_SUCCESS(kernel->DxgkCbReadDeviceSpace(
        kernel->DeviceHandle, 0, header, 4094, sizeof(header), &bytes)));
    NT_ASSERT(bytes == 2 && header[0] == 0 && header[1] == 1);
    NT_ASSERT(kernel->DxgkCbReadDeviceSpace(
        kernel->DeviceHandle, 7, &ids, 0, sizeof(ids), &bytes) == STATUS_NOT_SUPPORTED);
}

static VOID UseMemory(VOID) {
    PHYSICAL_ADDRESS any, none;
    PMDL mdl;
    PUCHAR memory;
    NPAGED_LOOKASIDE_LIST list;
    SLIST_HEADER head;
    SLIST_ENTRY entries[2];
    RTL_BITMAP map;
    ULONG words[2];
    any.QuadPart = -1;
    none.QuadPart = 0;
    memory = (PUCHAR)MmAllocateContiguousMemory(2 * PAGE_SIZE, any);
    mdl = IoAllocateMdl(memory + 100, PAGE_SIZE, FALSE, FALSE, NULL);
    MmBuildMdlForNonPagedPool(mdl);
    NT_ASSERT(MmGetSystemAddressForMdlSafe(mdl, NormalPagePriority) == memory + 100);
    NT_ASSERT(
        (MmGetMdlPfnArray(mdl)[0] << PAGE_SHIFT) + MmGetMdlByteOffset(mdl) ==
        (ULONG64)MmGetPhysicalAddress(memory + 100).QuadPart);
    NT_ASSERT(MmGetMdlPfnArray(mdl)[1] == MmGetMdlPfnArray(mdl)[0] + 1);
    NT_ASSERT(MmGetMdlVirtualAddress(mdl) == memory + 100 && MmGetMdlByteCount(mdl) == PAGE_SIZE);
    IoFreeMdl(mdl);
    mdl = IoAllocateMdl(memory, 64, FALSE, FALSE, NULL);
    MmProbeAndLockPages(mdl, KernelMode, IoModifyAccess);
    NT_ASSERT(MmGetSystemAddressForMdlSafe(mdl, NormalPagePriority) == memory);
    MmUnmapLockedPages(memory, mdl);
    MmUnlockPages(mdl);
    IoFreeMdl(mdl);
    MmFreeContiguousMemory(memory);
    mdl = MmAllocatePagesForMdlEx(none, any, none, 3 * PAGE_SIZE, MmCached, 0);
    NT_ASSERT(MmGetMdlPfnArray(mdl)[2] == MmGetMdlPfnArray(mdl)[0] + 2);
    memory = (PUCHAR)MmMapLockedPagesSpecifyCache(
        mdl, KernelMode, MmCached, NULL, FALSE, NormalPagePriority);
    memory[3 * PAGE_SIZE - 1] = 1;
    MmUnmapLockedPages(memory, mdl);
    MmFreePagesFromMdl(mdl);
    ExFreePool(mdl);
    ExInitializeNPagedLookasideList(&list, NULL, NULL, 0, 40, TAG, 0);
    memory = (PUCHAR)ExAllocateFromNPagedLookasideList(&list);
    memory[39] = 1;
    ExFreeToNPagedLookasideList(&list, memory);
    ExDeleteNPagedLookasideList(&list);
    InitializeSListHead(&head);
    (void)InterlockedPushEntrySList(&head, &entries[0]);
    (void)InterlockedPushEntrySList(&head, &entries[1]);
    NT_ASSERT(ExQueryDepthSList(&head) == 2);
    NT_ASSERT(InterlockedPopEntrySList(&head) == &entries[1]);
    NT_ASSERT(InterlockedFlushSList(&head) == &entries[0]);
    RtlInitializeBitMap(&map, words, 40);
    RtlClearAllBits(&map);
    RtlSetBits(&map, 0, 33);
    NT_ASSERT(RtlFindClearBitsAndSet(&map, 4, 0) == 33 && RtlNumberOfSetBits(&map) == 37);
    NT_ASSERT(RtlFindClearBits(&map, 4, 0) == 0xFFFFFFFF && RtlAreBitsClear(&map, 37, 3));
    RtlClearBit(&map, 5);
    NT_ASSERT(!RtlTestBit(&map, 5) && RtlTestBit(&map, 6));
    memory = (PUCHAR)ExAllocatePool2(POOL_FLAG_PAGED, 16, TAG);
    NT_ASSERT(memory[15] == 0);
    ExFreePool(memory);
}

static VOID UseStrings(VOID) {
    WCHAR wide[32];
    CHAR narrow[96];
    UNICODE_STRING text, other;
    ANSI_STRING ansi;
    ULONG number;
    SIZE_T length;
    RtlInitEmptyUnicodeString(&text, wide, sizeof(wide));
    NT_ASSERT(NT_SUCCESS(RtlAppendUnicodeToString(&text, L"Tide")));
    RtlInitUnicodeString(&other, L"GATE");
    NT_ASSERT(NT_SUCCESS(RtlAppendUnicodeStringToString(&text, &other)));
    NT_ASSERT(Is(&text, L"TideGATE"));
    RtlInitUnicodeString(&other, L"tide");
    NT_ASSERT(RtlPrefixUnicodeString(&other, &text, TRUE));
    NT_ASSERT(!RtlPrefixUnicodeString(&other, &text, FALSE));
    NT_ASSERT(RtlCompareUnicodeString(&other, &text, FALSE) > 0);
    RtlInitUnicodeString(&other, L"0x1fz");
    NT_ASSERT(NT_SUCCESS(RtlUnicodeStringToInteger(&other, 0, &number)) && number == 31);
    NT_ASSERT(NT_SUCCESS(RtlIntegerToUnicodeString(4096, 16, &text)) && Is(&text, L"1000"));
    RtlInitAnsiString(&ansi, "plain");
    NT_ASSERT(NT_SUCCESS(RtlAnsiStringToUnicodeString(&other, &ansi, TRUE)));
    NT_ASSERT(Is(&other, L"plain"));
    NT_ASSERT(NT_SUCCESS(RtlUnicodeStringToAnsiString(&ansi, &other, TRUE)));
    NT_ASSERT(ansi.Length == 5 && IsNarrow(ansi.Buffer, "plain"));
    NT_ASSERT(NT_SUCCESS(RtlStringCbPrintfA(
        narrow, sizeof(narrow), "%wZ|%Z|%S|%ws|%hs|%wc|%c", &other, &ansi, L"a", L"b", "c", L'd',
        'e')));
    NT_ASSERT(IsNarrow(narrow, "plain|plain|a|b|c|d|e"));
    NT_ASSERT(NT_SUCCESS(RtlStringCbPrintfA(
        narrow, sizeof(narrow), "%ld|%lu|%I64x|%llX|%#x|%5d|%-5u|%05d|%.3s|%p|%u%%", -1,
        4000000000u, 0x123456789ull, 0xABCDEF0123ull, 255, 42, 7u, -42, "abcdef",
        (PVOID)(ULONG_PTR)0x1000, 9u)));
    NT_ASSERT(IsNarrow(
        narrow,
        "-1|4000000000|123456789|ABCDEF0123|0xff|   42|7    |-0042|abc|0000000000001000|9%"));
    NT_ASSERT(
        RtlStringCchPrintfW(wide, 4, L"%s%S", L"ab", "cd") == STATUS_BUFFER_OVERFLOW &&
        wide[2] == 'c' && wide[3] == 0);
    NT_ASSERT(RtlStringCbCopyA(narrow, 4, "abcdef") == STATUS_BUFFER_OVERFLOW);
    NT_ASSERT(IsNarrow(narrow, "abc"));
    NT_ASSERT(NT_SUCCESS(RtlStringCchCatA(narrow, sizeof(narrow), "de")));
    NT_ASSERT(NT_SUCCESS(RtlStringCchLengthA(narrow, sizeof(narrow), &length)) && length == 5);
    NT_ASSERT(NT_SUCCESS(RtlStringCbCopyW(wide, sizeof(wide), L"ab")));
    NT_ASSERT(NT_SUCCESS(RtlStringCbLengthW(wide, sizeof(wide), &length)) && length == 4);
    RtlFreeUnicodeString(&other);
    RtlFreeAnsiString(&ansi);
}

static NTSTATUS TakeValue(
    PWSTR ValueName, ULONG ValueType, PVOID ValueData, ULONG ValueLength, PVOID Context,
    PVOID EntryContext) {
    UNREFERENCED_PARAMETER(ValueName);
    NT_ASSERT(ValueType == REG_BINARY && ValueLength == 3 && ((PUCHAR)ValueData)[2] == 9);
    NT_ASSERT(Context == &runs && EntryContext == &done);
    runs = -1;
    return STATUS_SUCCESS;
}

static HANDLE OpenDriverKey(VOID) {
    HANDLE key = NULL;
    (void)IoOpenDeviceRegistryKey(physical_device, PLUGPLAY_REGKEY_DRIVER, KEY_READ, &key);
    return key;
}

/* Returns the value Mistake of the software key. */
static ULONG ReadMistake(VOID) {
    HANDLE key = OpenDriverKey();
    UCHAR buffer[sizeof(KEY_VALUE_PARTIAL_INFORMATION) + 8];
    PKEY_VALUE_PARTIAL_INFORMATION value = (PKEY_VALUE_PARTIAL_INFORMATION)buffer;
    UNICODE_STRING name;
    ULONG bytes, mistake = 0;
    NTSTATUS status;
    RtlInitUnicodeString(&name, L"mistake");
    status = ZwQueryValueKey(
        key, &name, KeyValuePartialInformation, buffer, sizeof(buffer), &bytes);
    if (NT_SUCCESS(status)) {
        NT_ASSERT(value->Type == REG_DWORD && value->DataLength == sizeof(ULONG));
        RtlCopyMemory(&mistake, value->Data, sizeof(mistake));
    } else {
        NT_ASSERT(status == STATUS_OBJECT_NAME_NOT_FOUND);
    }
    (void)ZwClose(key);
    return mistake;
}

static VOID UseRegistry(VOID) {
    static RTL_QUERY_REGISTRY_TABLE table[5];
    OBJECT_ATTRIBUTES attributes;
    UNICODE_STRING name, text;
    HANDLE key, below;
    ULONG number = 0, fallback = 77, missing = 0, bytes, disposition;
    UCHAR buffer[64];
    PKEY_VALUE_FULL_INFORMATION full = (PKEY_VALUE_FULL_INFORMATION)buffer;
    key = OpenDriverKey();
    RtlZeroMemory(&text, sizeof(text));
    table[0].Flags = RTL_QUERY_REGISTRY_DIRECT | RTL_QUERY_REGISTRY_TYPECHECK;
    table[0].Name = (PWSTR)(ULONG_PTR)L"Number";
    table[0].EntryContext = &number;
    table[0].DefaultType = (REG_DWORD << RTL_QUERY_REGISTRY_TYPECHECK_SHIFT) | REG_NONE;
    table[1] = table[0];
    table[1].Name = (PWSTR)(ULONG_PTR)L"Text";
    table[1].EntryContext = &text;
    table[1].DefaultType = (REG_SZ << RTL_QUERY_REGISTRY_TYPECHECK_SHIFT) | REG_NONE;
    table[2] = table[0];
    table[2].Name = (PWSTR)(ULONG_PTR)L"Missing";
    table[2].EntryContext = &missing;
    table[2].DefaultType = (REG_DWORD << RTL_QUERY_REGISTRY_TYPECHECK_SHIFT) | REG_DWORD;
    table[2].DefaultData = &fallback;
    table[3].QueryRoutine = TakeValue;
    table[3].Name = (PWSTR)(ULONG_PTR)L"Bytes";
    table[3].EntryContext = &done;
    NT_ASSERT(NT_SUCCESS(
        RtlQueryRegistryValues(RTL_REGISTRY_HANDLE, (PCWSTR)key, table, &runs, NULL)));
    NT_ASSERT(number == 3000000000u && missing == 77 && runs == -1 && Is(&text, L"short"));
    RtlFreeUnicodeString(&text);
    RtlInitUnicodeString(&name, L"Text");
    NT_ASSERT(NT_SUCCESS(ZwQueryValueKey(
        key, &name, KeyValueFullInformation, buffer, sizeof(buffer), &bytes)));
    NT_ASSERT(full->DataLength == 12 && *(PWSTR)(buffer + full->DataOffset) == 's');
    NT_ASSERT(
        ZwQueryValueKey(key, &name, KeyValuePartialInformation, buffer, 14, &bytes) ==
        STATUS_BUFFER_OVERFLOW);
    /* A subkey by a handle, and the service's key by its path. */
    RtlInitUnicodeString(&name, L"Sub");
    InitializeObjectAttributes(&attributes, &name, OBJ_KERNEL_HANDLE, key, NULL);
    NT_ASSERT(NT_SUCCESS(ZwOpenKey(&below, KEY_READ, &attributes)));
    (void)ZwClose(below);
    RtlInitUnicodeString(&name, L"None");
    NT_ASSERT(ZwOpenKey(&below, KEY_READ, &attributes) == STATUS_OBJECT_NAME_NOT_FOUND);
    InitializeObjectAttributes(&attributes, &service, OBJ_KERNEL_HANDLE, NULL, NULL);
    NT_ASSERT(NT_SUCCESS(ZwCreateKey(
        &below, KEY_ALL_ACCESS, &attributes, 0, NULL, REG_OPTION_VOLATILE, &disposition)));
    NT_ASSERT(disposition == 2);
    RtlInitUnicodeString(&name, L"Written");
    NT_ASSERT(NT_SUCCESS(ZwSetValueKey(below, &name, 0, REG_DWORD, &number, sizeof(number))));
    NT_ASSERT(NT_SUCCESS(ZwQueryValueKey(
        below, &name, KeyValuePartialInformation, buffer, sizeof(buffer), &bytes)));
    (void)ZwFlushKey(below);
    (void)ZwClose(below);
    (void)ZwClose(key);
}

/* Mistakes */

static VOID Wait(PVOID object) {
    LARGE_INTEGER now;
    now.QuadPart = 0;
    (void)KeWaitForSingleObject(object, Executive, KernelMode, FALSE, &now);
}

static VOID Make(ULONG number_of_mistake) {
    static KSPIN_LOCK lock;
    static ERESOURCE resource;
    static EX_PUSH_LOCK push;
    static NPAGED_LOOKASIDE_LIST list;
    static WORK_QUEUE_ITEM work;
    static SLIST_HEADER heads[2];
    KIRQL level;
    PHYSICAL_ADDRESS any;
    PMDL mdl = NULL;
    PVOID block = ExAllocatePoolWithTag(NonPagedPoolNx, 64, TAG);
    CHAR text[16];
    UNICODE_STRING name;
    HANDLE key;
    ULONG number = 0;
    any.QuadPart = -1;
    KeInitializeMutex(&mutex, 0);
    KeInitializeSemaphore(&semaphore, 0, 1);
    ExInitializeFastMutex(&fast);
    KeInitializeSpinLock(&lock);
    switch (number_of_mistake) {
    case 1:
        (void)KeReleaseMutex(&mutex, FALSE);
        break;
    case 2:
        (void)KeReleaseSemaphore(&semaphore, 0, 2, FALSE);
        break;
    case 3:
        KeRaiseIrql(DISPATCH_LEVEL, &level);
        ExAcquireFastMutex(&fast);
        KeLowerIrql(level);
        break;
    case 4:
        ExAcquireFastMutex(&fast);
        ExAcquireFastMutex(&fast);
        ExReleaseFastMutex(&fast);
        break;
    case 5:
        ExReleaseFastMutex(&fast);
        break;
    case 6: /* it keeps APC level */
        ExAcquireFastMutex(&fast);
        break;
    case 7:
        ExAcquireFastMutex(&fast);
        KeFlushQueuedDpcs();
        ExReleaseFastMutex(&fast);
        break;
    case 8:
        Wait(block);
        break;
    case 9: {
        PVOID objects[4] = {&mutex, &mutex, &mutex, &mutex};
        (void)KeWaitForMultipleObjects(
            4, objects, WaitAny, Executive, KernelMode, FALSE, NULL, NULL);
        break;
    }
    case 10:
        KeEnterCriticalRegion();
        break;
    case 11:
        KeLeaveCriticalRegion();
        break;
    case 12:
        (void)ExInitializeResourceLite(&resource);
        (void)ExAcquireResourceExclusiveLite(&resource, TRUE);
        ExReleaseResourceLite(&resource);
        break;
    case 13:
        (void)ExInitializeResourceLite(&resource);
        KeEnterCriticalRegion();
        (void)ExAcquireResourceSharedLite(&resource, TRUE);
        (void)ExDeleteResourceLite(&resource);
        KeLeaveCriticalRegion();
        break;
    case 14:
        ExInitializePushLock(&push);
        KeEnterCriticalRegion();
        ExAcquirePushLockShared(&push);
        ExAcquirePushLockExclusive(&push);
        ExReleasePushLockShared(&push);
        KeLeaveCriticalRegion();
        break;
    case 15: { /* a work item that is never freed */
        PIO_WORKITEM item = IoAllocateWorkItem(physical_device);
        UNREFERENCED_PARAMETER(item);
        break;
    }
    case 16:
        KeInitializeEvent(&done, NotificationEvent, FALSE);
        ExInitializeWorkItem(&work, RunParameter, &runs);
        KeRaiseIrql(DISPATCH_LEVEL, &level);
        ExQueueWorkItem(&work, DelayedWorkQueue);
        ExQueueWorkItem(&work, DelayedWorkQueue);
        KeLowerIrql(level);
        break;
    case 17: {
        PEX_TIMER timer = ExAllocateTimer(RunTimer, &runs, 0);
        (void)ExSetTimer(timer, -36000000000, 0, NULL);
        (void)ExDeleteTimer(timer, FALSE, FALSE, NULL);
        break;
    }
    case 18:
        mdl = IoAllocateMdl(block, 64, FALSE, FALSE, NULL);
        (void)MmGetSystemAddressForMdlSafe(mdl, NormalPagePriority);
        IoFreeMdl(mdl);
        break;
    case 19:
        mdl = IoAllocateMdl(block, 64, FALSE, FALSE, NULL);
        MmBuildMdlForNonPagedPool(mdl);
        (void)MmGetMdlPfnArray(mdl);
        IoFreeMdl(mdl);
        break;
    case 20:
        mdl = IoAllocateMdl(block, 64, FALSE, FALSE, NULL);
        MmProbeAndLockPages(mdl, KernelMode, IoReadAccess);
        IoFreeMdl(mdl);
        break;
    case 21:
        mdl = IoAllocateMdl(block, 64, FALSE, FALSE, NULL);
        MmUnlockPages(mdl);
        IoFreeMdl(mdl);
        break;
    case 22:
        mdl = IoAllocateMdl(block, 64, FALSE, FALSE, NULL);
        MmFreePagesFromMdl(mdl);
        IoFreeMdl(mdl);
        break;
    case 23:
        (void)ExAllocateFromNPagedLookasideList(&list);
        break;
    case 24: {
        PVOID entry;
        ExInitializeNPagedLookasideList(&list, NULL, NULL, 0, 16, TAG, 0);
        entry = ExAllocateFromNPagedLookasideList(&list);
        ExDeleteNPagedLookasideList(&list);
        ExFreePoolWithTag(entry, TAG);
        break;
    }
    case 25:
        (void)MmMapIoSpace(any, 16, MmNonCached);
        break;
    case 26: { /* a mapping that stays */
        PHYSICAL_ADDRESS registers;
        registers.QuadPart = 0xE00000000000;
        (void)MmMapIoSpace(registers, PAGE_SIZE, MmNonCached);
        break;
    }
    case 27:
        InitializeSListHead((PSLIST_HEADER)((PUCHAR)heads + 8));
        break;
    case 28:
        (void)READ_PORT_UCHAR((PUCHAR)(ULONG_PTR)0x3F8);
        break;
    case 29: {
        RTL_BITMAP map;
        RtlInitializeBitMap(&map, &number, 20);
        RtlSetBit(&map, 20);
        break;
    }
    case 30:
        KeRaiseIrql(DISPATCH_LEVEL, &level);
        (void)DbgPrint("%ws\n", L"wide");
        KeLowerIrql(level);
        break;
    case 31:
        KeRaiseIrql(DISPATCH_LEVEL, &level);
        (void)RtlStringCbPrintfA(text, sizeof(text), "%d", 1);
        KeLowerIrql(level);
        break;
    case 32:
        (void)RtlStringCbPrintfA(text, sizeof(text), "%y", 1);
        break;
    case 33:
        RtlInitUnicodeString(&name, L"12");
        (void)RtlUnicodeStringToInteger(&name, 7, &number);
        break;
    case 34:
        KeRaiseIrql(APC_LEVEL, &level);
        key = OpenDriverKey();
        KeLowerIrql(level);
        (void)ZwClose(key);
        break;
    case 35: /* a handle that stays open */
        (void)OpenDriverKey();
        break;
    case 36:
        key = OpenDriverKey();
        (void)ZwClose(key);
        (void)ZwClose(key);
        break;
    case 37: {
        RTL_QUERY_REGISTRY_TABLE table[2];
        RtlZeroMemory(table, sizeof(table));
        table[0].Flags = RTL_QUERY_REGISTRY_DIRECT;
        table[0].Name = (PWSTR)(ULONG_PTR)L"Number";
        table[0].EntryContext = &number;
        key = OpenDriverKey();
        (void)RtlQueryRegistryValues(RTL_REGISTRY_HANDLE, (PCWSTR)key, table, NULL, NULL);
        (void)ZwClose(key);
        break;
    }
    case 38: {
        OBJECT_ATTRIBUTES attributes;
        InitializeObjectAttributes(&attributes, &service, 0, NULL, NULL);
        (void)ZwOpenKey(&key, KEY_READ, &attributes);
        (void)ZwClose(key);
        break;
    }
    case 39:
        ObDereferenceObject(&number);
        break;
    case 40:
        ObReferenceObject(block);
        break;
    case 41:
        UseStack(TRUE);
        break;
    case 42:
        ProbeForRead((PUCHAR)block + 1, 8, 4);
        break;
    case 43:
        (void)KeSetPriorityThread(KeGetCurrentThread(), 32);
        break;
    case 44:
        mdl = IoAllocateMdl(block, 64, FALSE, FALSE, NULL);
        MmBuildMdlForNonPagedPool(mdl);
        (void)MmMapLockedPagesSpecifyCache(
            mdl, KernelMode, MmCached, NULL, FALSE, NormalPagePriority);
        IoFreeMdl(mdl);
        break;
    case 45:
        DbgBreakPoint();
        break;
    case 46:
        (void)IoBuildDeviceIoControlRequest(
            1, physical_device, NULL, 0, NULL, 0, FALSE, NULL, NULL);
        break;
    case STACK:
        UseStack(FALSE);
        break;
    default:
        break;
    }
    ExFreePoolWithTag(block, TAG);
}

static NTSTATUS ExtendedAddDevice(
    const PDEVICE_OBJECT PhysicalDeviceObject, PVOID *MiniportDeviceContext) {
    physical_device = PhysicalDeviceObject;
    return AddDevice(PhysicalDeviceObject, MiniportDeviceContext);
}

/* The host has neither files nor other drivers. */
static VOID UseRequests(VOID) {
    IO_STATUS_BLOCK outcome;
    KEVENT ended;
    HANDLE file;
    OBJECT_ATTRIBUTES attributes;
    CHAR answer[4] = "yes";
    PIRP request;
    UNICODE_STRING name;
    RtlInitUnicodeString(&name, L"\\Device\\Other");
    InitializeObjectAttributes(&attributes, &name, OBJ_KERNEL_HANDLE, NULL, NULL);
    NT_ASSERT(
        ZwCreateFile(
            &file, GENERIC_READ, &attributes, &outcome, NULL, FILE_ATTRIBUTE_NORMAL,
            FILE_SHARE_READ, FILE_OPEN, FILE_NON_DIRECTORY_FILE, NULL, 0) ==
        STATUS_OBJECT_NAME_NOT_FOUND);
    NT_ASSERT(file == NULL && outcome.Status == STATUS_OBJECT_NAME_NOT_FOUND);
    NT_ASSERT(IoGetRelatedDeviceObject(NULL) == NULL && *IoFileObjectType != NULL);

    KeInitializeEvent(&ended, SynchronizationEvent, FALSE);
    request = IoBuildDeviceIoControlRequest(
        1, physical_device, NULL, 0, NULL, 0, TRUE, &ended, &outcome);
    NT_ASSERT(
        IoGetNextIrpStackLocation(request)->MajorFunction == IRP_MJ_INTERNAL_DEVICE_CONTROL);
    NT_ASSERT(IoCallDriver(physical_device, request) == STATUS_INVALID_DEVICE_REQUEST);
    NT_ASSERT(
        KeWaitForSingleObject(&ended, Executive, KernelMode, FALSE, NULL) == STATUS_WAIT_0);
    NT_ASSERT(outcome.Status == STATUS_INVALID_DEVICE_REQUEST && outcome.Information == 0);
    request = IoBuildSynchronousFsdRequest(
        IRP_MJ_WRITE, physical_device, NULL, 0, NULL, &ended, &outcome);
    NT_ASSERT(IoGetNextIrpStackLocation(request)->MajorFunction == IRP_MJ_WRITE);
    NT_ASSERT(IoCallDriver(physical_device, request) == STATUS_INVALID_DEVICE_REQUEST);

    NT_ASSERT(KdRefreshDebuggerNotPresent() && KD_DEBUGGER_NOT_PRESENT && !KD_DEBUGGER_ENABLED);
    NT_ASSERT(DbgPrompt("Go on?", answer, sizeof(answer)) == 0 && answer[0] == '\0');
}

static PVOID families;
static ULONG mistake;
static LONG used;

static VOID UseFamilies(PVOID StartContext) {
    UNREFERENCED_PARAMETER(StartContext);
    UseMutexes();
    used++;
    UseLocks();
    used++;
    UseWork();
    used++;
    UseMemory();
    used++;
    UseStrings();
    used++;
    UseRegistry();
    used++;
    UseRequests();
    used++;
    (void)PsTerminateSystemThread(STATUS_SUCCESS);
}

static KSEMAPHORE permits;

static VOID TakeTwice(PVOID StartContext) {
    UNREFERENCED_PARAMETER(StartContext);
    (void)KeWaitForSingleObject(&permits, Executive, KernelMode, FALSE, NULL);
    (void)KeWaitForSingleObject(&permits, Executive, KernelMode, FALSE, NULL);
    (void)PsTerminateSystemThread(STATUS_SUCCESS);
}

/* Two releases of a semaphore with the limit 1: a waiting thread has the first permit at once. */
static VOID ReleaseTwice(PVOID StartContext) {
    LARGE_INTEGER interval;
    HANDLE handle;
    PVOID taker;
    UNREFERENCED_PARAMETER(StartContext);
    KeInitializeSemaphore(&permits, 0, 1);
    NT_ASSERT(NT_SUCCESS(PsCreateSystemThread(&handle, 0, NULL, NULL, NULL, TakeTwice, NULL)));
    NT_ASSERT(NT_SUCCESS(ObReferenceObjectByHandle(handle, 0, NULL, KernelMode, &taker, NULL)));
    (void)ZwClose(handle);
    interval.QuadPart = -100;
    (void)KeDelayExecutionThread(KernelMode, FALSE, &interval);
    (void)KeReleaseSemaphore(&permits, 0, 1, FALSE);
    (void)KeReleaseSemaphore(&permits, 0, 1, FALSE);
    (void)KeWaitForSingleObject(taker, Executive, KernelMode, FALSE, NULL);
    ObDereferenceObject(taker);
    NT_ASSERT(KeReadStateSemaphore(&permits) == 0);
    used = FAMILIES;
    (void)PsTerminateSystemThread(STATUS_SUCCESS);
}

static NTSTATUS ExtendedStartDevice(
    PVOID MiniportDeviceContext, PDXGK_START_INFO DxgkStartInfo, PDXGKRNL_INTERFACE DxgkInterface,
    PULONG NumberOfVideoPresentSources, PULONG NumberOfChildren) {
    NTSTATUS status = StartDevice(
        MiniportDeviceContext, DxgkStartInfo, DxgkInterface, NumberOfVideoPresentSources,
        NumberOfChildren);
    DXGK_DEVICE_INFO info;
    HANDLE handle;
    mistake = ReadMistake();
    if (!NT_SUCCESS(status)) {
        return status;
    }
    NT_ASSERT(NT_SUCCESS(DxgkInterface->DxgkCbGetDeviceInformation(
        DxgkInterface->DeviceHandle, &info)));
    NT_ASSERT(info.DeviceRegistryPath.Length != 0 && info.DeviceRegistryPath.Buffer[0] == '\\');
    UseDevice(DxgkInterface);
    if (mistake == 0 || mistake == SEMAPHORE) {
        NT_ASSERT(NT_SUCCESS(PsCreateSystemThread(
            &handle, 0, NULL, NULL, NULL, mistake == 0 ? UseFamilies : ReleaseTwice, NULL)));
        NT_ASSERT(NT_SUCCESS(
            ObReferenceObjectByHandle(handle, 0, NULL, KernelMode, &families, NULL)));
        (void)ZwClose(handle);
    } else {
        Make(mistake);
    }
    return STATUS_SUCCESS;
}

static NTSTATUS ExtendedStopDevice(PVOID MiniportDeviceContext) {
    if (mistake == 0 || mistake == SEMAPHORE) {
        (void)KeWaitForSingleObject(families, Executive, KernelMode, FALSE, NULL);
        ObDereferenceObject(families);
        NT_ASSERT(used == FAMILIES);
    }
    if (mistake == 16) {
        (void)KeWaitForSingleObject(&done, Executive, KernelMode, FALSE, NULL);
    }
    return StopDevice(MiniportDeviceContext);
}

/* Memory that the device reaches is there before the device is. */
static VOID UseContiguousMemory(VOID) {
    PHYSICAL_ADDRESS highest;
    PVOID memory;
    highest.QuadPart = -1;
    memory = MmAllocateContiguousMemory(PAGE_SIZE, highest);
    NT_ASSERT(memory != NULL && MmGetPhysicalAddress(memory).QuadPart != 0);
    MmFreeContiguousMemory(memory);
}

static NTSTATUS Extended(
    PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath, PDRIVER_INITIALIZATION_DATA data) {
    RtlInitEmptyUnicodeString(&service, service_path, sizeof(service_path));
    RtlCopyUnicodeString(&service, RegistryPath);
    UseContiguousMemory();
    data->DxgkDdiAddDevice = ExtendedAddDevice;
    data->DxgkDdiStartDevice = ExtendedStartDevice;
    data->DxgkDdiStopDevice = ExtendedStopDevice;
    return DxgkInitialize(DriverObject, RegistryPath, data);
}
