/* What Windows does, as Wine's tests show it, which also run there (wine-mirror/wine,
   dlls/win32u/tests/d3dkmt.c). Statuses and order are those of the test that each part names. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include "contexts.h"
#include "memory.h"

#define NT_SHARED 0x3u

static NTSTATUS create2(D3DKMT_CREATESYNCHRONIZATIONOBJECT2 *create) {
    create->hSyncObject = create->Info.SharedHandle = 0x1eadbeed;
    NTSTATUS status = D3DKMTCreateSynchronizationObject2(create);
    if (status == STATUS_SUCCESS) CHECK(create->hSyncObject != 0 && (create->hSyncObject & 0x3F) == 0);
    return status;
}

static NTSTATUS destroy(D3DKMT_HANDLE object) {
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy = {object};
    return D3DKMTDestroySynchronizationObject(&destroy);
}

static NTSTATUS create1(D3DKMT_HANDLE of, int type, D3DKMT_HANDLE *made) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT create;
    memset(&create, 0, sizeof create);
    create.hDevice = of;
    create.Info.Type = (D3DDDI_SYNCHRONIZATIONOBJECT_TYPE)type;
    NTSTATUS status = D3DKMTCreateSynchronizationObject(&create);
    *made = create.hSyncObject;
    return status;
}

/* test_D3DKMTCreateSynchronizationObject. */
static void objects(void) {
    D3DKMT_HANDLE made;
    IS(create1(0, 0, &made), STATUS_INVALID_PARAMETER);
    IS(create1(device, 0, &made), STATUS_INVALID_PARAMETER);
    IS(create1(0, D3DDDI_SYNCHRONIZATION_MUTEX, &made), STATUS_INVALID_PARAMETER);
    OK(create1(device, D3DDDI_SYNCHRONIZATION_MUTEX, &made));
    OK(destroy(made));
    IS(destroy(made), STATUS_INVALID_PARAMETER);
    OK(create1(device, D3DDDI_SEMAPHORE, &made)); /* MaxCount and InitialCount are 0 */
    OK(destroy(made));
    IS(create1(device, D3DDDI_FENCE, &made), STATUS_INVALID_PARAMETER);

    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = description(0, 0);
    IS(create2(&create), STATUS_INVALID_PARAMETER);
    for (int type = 1; type <= 5; type++) {
        create = description(type, 0);
        if (type == D3DDDI_CPU_NOTIFICATION) {
            IS(create2(&create), STATUS_INVALID_HANDLE);
            create.Info.CPUNotification.Event = (HANDLE)(intptr_t)eventfd(0, EFD_CLOEXEC);
        }
        OK(create2(&create));
        OK(destroy(create.hSyncObject));
        if (type == D3DDDI_CPU_NOTIFICATION) close((int)(intptr_t)create.Info.CPUNotification.Event);
        /* A signal at the top of the pipeline is not made, and only a CPU notification is signalled
           by the driver (documented with D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS). */
        create = description(type, 1u << 3);
        if (type == D3DDDI_CPU_NOTIFICATION) continue;
        IS(create2(&create), STATUS_NOT_SUPPORTED);
        create = description(type, 1u << 8);
        IS(create2(&create), STATUS_INVALID_PARAMETER);
    }
    D3DKMT_CREATENATIVEFENCE native;
    memset(&native, 0, sizeof native);
    native.hDevice = device;
    native.Info.Flags.TopOfPipeline = 1;
    IS(D3DKMTCreateNativeFence(&native), STATUS_NOT_SUPPORTED);
    native.Info.Flags.Value = 0;
    native.Info.Flags.SignalByKmd = 1;
    IS(D3DKMTCreateNativeFence(&native), STATUS_INVALID_PARAMETER);

    /* A semaphore without room takes no signal, so its waiters wait. */
    create = description(D3DDDI_SEMAPHORE, 0);
    OK(create2(&create));
    D3DKMT_HANDLE waits = new_context(), signals = new_context();
    struct marker marker = new_marker(), signalled = new_marker();
    OK(wait_gpu(waits, create.hSyncObject, 0));
    mark(&marker, waits);
    OK(signal_gpu(signals, create.hSyncObject, 0));
    mark(&signalled, signals);
    reached(&signalled);
    CHECK(is_held(&marker));
    OK(destroy(create.hSyncObject));
    reached(&marker);
    destroy_context(waits);
    destroy_context(signals);

    create = description(D3DDDI_SYNCHRONIZATION_MUTEX, 1);
    OK(create2(&create));
    CHECK((create.Info.SharedHandle & 0x3F) == 2);
    D3DKMT_HANDLE first = create.hSyncObject;
    OK(create2(&create));
    OK(destroy(first));
    IS(destroy(create.Info.SharedHandle), STATUS_INVALID_PARAMETER);
    D3DKMT_OPENSYNCHRONIZATIONOBJECT open;
    memset(&open, 0, sizeof open);
    open.hSharedHandle = 0x1eadbeed;
    IS(D3DKMTOpenSynchronizationObject(&open), STATUS_INVALID_PARAMETER);
    open.hSharedHandle = 0;
    IS(D3DKMTOpenSynchronizationObject(&open), STATUS_INVALID_PARAMETER);
    open.hSyncObject = create.hSyncObject;
    IS(D3DKMTOpenSynchronizationObject(&open), STATUS_INVALID_PARAMETER);
    open.hSharedHandle = create.Info.SharedHandle;
    for (int i = 0; i < 2; i++) {
        OK(D3DKMTOpenSynchronizationObject(&open));
        OK(destroy(open.hSyncObject));
        IS(destroy(open.hSyncObject), STATUS_INVALID_PARAMETER);
    }
    OK(destroy(create.hSyncObject));
    IS(D3DKMTOpenSynchronizationObject(&open), STATUS_INVALID_PARAMETER);

    create = description(D3DDDI_SYNCHRONIZATION_MUTEX, 2);
    IS(create2(&create), STATUS_INVALID_PARAMETER);
    create = description(D3DDDI_SYNCHRONIZATION_MUTEX, NT_SHARED);
    OK(create2(&create));
    CHECK(create.Info.SharedHandle == 0x1eadbeed || create.Info.SharedHandle == 0);
    OK(destroy(create.hSyncObject));
}

/* A name for one run: the service keeps names of other runs apart. */
struct name {
    WCHAR text[64];
    UNICODE_STRING string;
    OBJECT_ATTRIBUTES attributes;
};

static OBJECT_ATTRIBUTES *named(struct name *name, const char *text) {
    memset(name, 0, sizeof *name);
    char whole[64];
    int length = snprintf(whole, sizeof whole, "\\BaseNamedObjects\\%s_%d", text, (int)getpid());
    for (int i = 0; i < length; i++) name->text[i] = (WCHAR)whole[i];
    name->string.Length = name->string.MaximumLength = (USHORT)(4 * length);
    name->string.Buffer = name->text;
    name->attributes.Length = sizeof name->attributes;
    name->attributes.ObjectName = &name->string;
    return &name->attributes;
}

static NTSTATUS share(D3DKMT_HANDLE object, OBJECT_ATTRIBUTES *attributes, DWORD access, HANDLE *handle) {
    return D3DKMTShareObjects(1, &object, attributes, access, handle);
}

static NTSTATUS by_name(OBJECT_ATTRIBUTES *attributes, DWORD access, HANDLE *handle) {
    D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME open = {access, attributes, NULL};
    NTSTATUS status = D3DKMTOpenSyncObjectNtHandleFromName(&open);
    *handle = open.hNtHandle;
    return status;
}

static NTSTATUS resource_by_name(OBJECT_ATTRIBUTES *attributes, DWORD access, HANDLE *handle) {
    D3DKMT_OPENNTHANDLEFROMNAME open = {access, attributes, NULL};
    NTSTATUS status = D3DKMTOpenNtHandleFromName(&open);
    *handle = open.hNtHandle;
    return status;
}

static void close_handle(HANDLE handle) { CHECK(close((int)(intptr_t)handle) == 0); }

/* An object of this type is found by its name in any letter case, with the rights that count. */
static void name_of(int type) {
    struct name name, lower, other, unknown;
    named(&name, "__WineTest_D3DKMT");
    named(&lower, "__winetest_d3dkmt");
    named(&other, "__WineTest_D3DKMT_2");
    named(&unknown, "__winetest_invalid");
    HANDLE handle, found;
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = description(type, 0);
    OK(create2(&create));
    IS(share(create.hSyncObject, NULL, STANDARD_RIGHTS_WRITE, &handle), STATUS_INVALID_PARAMETER);
    OK(destroy(create.hSyncObject));
    create = description(type, NT_SHARED);
    OK(create2(&create));
    OK(share(create.hSyncObject, &name.attributes, STANDARD_RIGHTS_WRITE, &handle));
    IS(share(create.hSyncObject, &lower.attributes, STANDARD_RIGHTS_WRITE, &found),
       STATUS_OBJECT_NAME_COLLISION);
    IS(destroy((D3DKMT_HANDLE)(intptr_t)handle), STATUS_INVALID_PARAMETER);
    OK(destroy(create.hSyncObject));

    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 open;
    memset(&open, 0, sizeof open);
    open.hNtHandle = handle;
    IS(D3DKMTOpenSyncObjectFromNtHandle2(&open), STATUS_INVALID_PARAMETER);
    open.hDevice = device;
    OK(D3DKMTOpenSyncObjectFromNtHandle2(&open));
    /* It has no right to wait and none to signal. */
    D3DKMT_HANDLE context = new_context();
    NTSTATUS waits = type == D3DDDI_MONITORED_FENCE ? wait_cpu(device, open.hSyncObject, 1, 0)
                                                    : wait_gpu(context, open.hSyncObject, 1);
    NTSTATUS signals = type == D3DDDI_MONITORED_FENCE ? signal_cpu(device, open.hSyncObject, 1)
                                                      : signal_gpu(context, open.hSyncObject, 1);
    CHECK(waits == STATUS_ACCESS_DENIED && signals == STATUS_ACCESS_DENIED);
    destroy_context(context);
    OK(share(open.hSyncObject, &other.attributes, STANDARD_RIGHTS_READ, &found));
    close_handle(found);
    IS(share(open.hSyncObject, &other.attributes, D3DDDI_SYNC_OBJECT_WAIT, &found), STATUS_ACCESS_DENIED);
    OK(destroy(open.hSyncObject));

    IS(by_name(NULL, 0, &found), STATUS_INVALID_PARAMETER);
    IS(by_name(&unknown.attributes, 0, &found), STATUS_OBJECT_NAME_NOT_FOUND);
    IS(by_name(&lower.attributes, 0, &found), STATUS_ACCESS_DENIED);
    IS(resource_by_name(&lower.attributes, GENERIC_ALL, &found), STATUS_OBJECT_TYPE_MISMATCH);
    OK(by_name(&lower.attributes, STANDARD_RIGHTS_WRITE, &found));
    close_handle(handle);
    IS(D3DKMTOpenSyncObjectFromNtHandle2(&open), STATUS_INVALID_HANDLE);
    open.hNtHandle = found;
    OK(D3DKMTOpenSyncObjectFromNtHandle2(&open));
    close_handle(found);
    IS(by_name(&lower.attributes, STANDARD_RIGHTS_WRITE, &found), STATUS_OBJECT_NAME_NOT_FOUND);
    OK(share(open.hSyncObject, &name.attributes, STANDARD_RIGHTS_READ, &handle));
    OK(by_name(&name.attributes, STANDARD_RIGHTS_READ, &found));
    close_handle(found);
    close_handle(handle);
    OK(destroy(open.hSyncObject));

    /* The generic rights. */
    create = description(type, NT_SHARED);
    OK(create2(&create));
    static const DWORD masks[] = {GENERIC_READ, GENERIC_WRITE, GENERIC_EXECUTE, GENERIC_ALL};
    for (int i = 0; i < 4; i++) {
        OK(share(create.hSyncObject, NULL, masks[i], &handle));
        open.hNtHandle = handle;
        OK(D3DKMTOpenSyncObjectFromNtHandle2(&open));
        close_handle(handle);
        context = new_context();
        signals = type == D3DDDI_MONITORED_FENCE ? signal_cpu(device, open.hSyncObject, 1)
                                                 : signal_gpu(context, open.hSyncObject, 1);
        CHECK(signals == (masks[i] & (GENERIC_WRITE | GENERIC_ALL) ? STATUS_SUCCESS : STATUS_ACCESS_DENIED));
        /* Not reached, so that the kernel decides; the end of the instance ends the wait. */
        int event = eventfd(0, EFD_CLOEXEC);
        waits = type == D3DDDI_MONITORED_FENCE ? wait_cpu(device, open.hSyncObject, 9, event)
                                               : wait_gpu(context, open.hSyncObject, 0);
        close(event);
        CHECK(waits == (masks[i] & (GENERIC_READ | GENERIC_ALL) ? STATUS_SUCCESS : STATUS_ACCESS_DENIED));
        destroy_context(context);
        OK(destroy(open.hSyncObject));
    }
    OK(destroy(create.hSyncObject));
}

/* A resource has a name, too, and each of its rights opens it. */
static void name_of_resource(void) {
    struct name name, lower;
    named(&name, "__WineTest_D3DKMT");
    named(&lower, "__winetest_d3dkmt");
    TIDEGATE_ALLOCATION_DATA data = {4096, 0, 0};
    D3DDDI_ALLOCATIONINFO2 info;
    D3DKMT_CREATEALLOCATION create;
    describe_allocation(&create, &info, &data);
    create.Flags.CreateResource = create.Flags.CreateShared = create.Flags.NtSecuritySharing = 1;
    OK(D3DKMTCreateAllocation2(&create));
    HANDLE handle, found;
    IS(share(info.hAllocation, &name.attributes, STANDARD_RIGHTS_READ, &handle), STATUS_INVALID_PARAMETER);
    OK(share(create.hResource, &name.attributes, STANDARD_RIGHTS_READ, &handle));
    IS(resource_by_name(NULL, 0, &found), STATUS_INVALID_PARAMETER);
    IS(resource_by_name(&lower.attributes, 0, &found), STATUS_ACCESS_DENIED);
    IS(by_name(&lower.attributes, GENERIC_ALL, &found), STATUS_OBJECT_TYPE_MISMATCH);
    OK(resource_by_name(&lower.attributes, GENERIC_ALL, &found));
    close_handle(handle);
    D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE query;
    memset(&query, 0, sizeof query);
    query.hDevice = device;
    query.hNtHandle = found;
    query.NumAllocations = 0xdeadbeef;
    OK(D3DKMTQueryResourceInfoFromNtHandle(&query));
    CHECK(query.NumAllocations == 1 && query.PrivateRuntimeDataSize == 0);
    close_handle(found);
    IS(resource_by_name(&lower.attributes, GENERIC_ALL, &found), STATUS_OBJECT_NAME_NOT_FOUND);
    D3DKMT_DESTROYALLOCATION2 end = {device, create.hResource, NULL, 0, 0};
    OK(D3DKMTDestroyAllocation2(&end));
}

/* test_D3DKMTShareObjects. */
static void names(void) {
    D3DKMT_HANDLE made;
    HANDLE handle;
    OK(create1(device, D3DDDI_SYNCHRONIZATION_MUTEX, &made));
    IS(share(made, NULL, STANDARD_RIGHTS_WRITE, &handle), STATUS_INVALID_PARAMETER);
    OK(destroy(made));
    name_of(D3DDDI_SYNCHRONIZATION_MUTEX);
    name_of(D3DDDI_SEMAPHORE);
    name_of(D3DDDI_FENCE);
    name_of(D3DDDI_MONITORED_FENCE);
    name_of_resource();
}

#define HEAP 0x10000u

/* Memory of the program, as VirtualAlloc gives it. */
static unsigned char *heap(void) {
    void *memory = mmap(NULL, HEAP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static NTSTATUS end(D3DKMT_HANDLE resource, const D3DKMT_HANDLE *allocation) {
    D3DKMT_DESTROYALLOCATION end = {device, resource, allocation, allocation != NULL};
    return D3DKMTDestroyAllocation(&end);
}

/* Has an engine store a value to an allocation. */
static void store_by_engine(D3DGPU_VIRTUAL_ADDRESS destination, UINT64 value) {
    struct memory commands = allocate(4096, 0);
    store(&commands.cpu[0], 6u | 3u << 16);
    store(&commands.cpu[1], destination);
    store(&commands.cpu[2], value);
    run_commands(commands.gpu, 24);
    OK(end(0, &commands.handle));
}

/* test_D3DKMTCreateAllocation: memory of the program, ExistingSysMem. */
static void allocations(void) {
    unsigned char *memory[2] = {heap(), heap()};
    const unsigned char alloc_data[6] = {1, 2, 3, 4, 5, 6}, runtime_data[4] = {7, 8, 9, 10};
    D3DKMT_CREATESTANDARDALLOCATION standard[2];
    D3DDDI_ALLOCATIONINFO allocs[2];
    D3DDDI_ALLOCATIONINFO2 allocs2[1];
    D3DKMT_CREATEALLOCATION create;
    memset(standard, 0, sizeof standard);
    memset(allocs, 0, sizeof allocs);
    memset(allocs2, 0, sizeof allocs2);
    memset(&create, 0, sizeof create);
    IS(D3DKMTCreateAllocation(&create), STATUS_INVALID_PARAMETER);
    for (int i = 0; i < 2; i++) {
        allocs[i].pSystemMem = memory[i];
        standard[i].Type = D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP;
        standard[i].ExistingHeapData.Size = HEAP;
    }
    allocs2[0].pSystemMem = memory[0];
    memset(memory[0], 0x5A, HEAP);
    create.hDevice = device;
    create.Flags.ExistingSysMem = 1;
    create.Flags.StandardAllocation = 1;
    create.pStandardAllocation = standard;
    create.NumAllocations = 1;
    create.pAllocationInfo = allocs;
    create.hGlobalShare = 0x1eadbeed;
    create.hPrivateRuntimeResourceHandle = (HANDLE)(uintptr_t)0xdeadbeef;
    OK(D3DKMTCreateAllocation(&create));
    CHECK(create.hGlobalShare == 0 && create.hResource == 0 && allocs[0].hAllocation != 0);
    CHECK(create.hPrivateRuntimeResourceHandle == (HANDLE)(uintptr_t)0xdeadbeef);
    OK(end(0, NULL));
    OK(end(0, &allocs[0].hAllocation));
    IS(end(0, &allocs[0].hAllocation), STATUS_INVALID_PARAMETER);

    /* The program's memory is the allocation's, for engines and for locks. It stays the program's. */
    create.pAllocationInfo2 = allocs2;
    create.hGlobalShare = 0x1eadbeed;
    OK(D3DKMTCreateAllocation2(&create));
    CHECK(create.hGlobalShare == 0 && create.hResource == 0 && allocs2[0].PrivateDriverDataSize == 0);
    CHECK(memory[0][0] == 0x5A && memory[0][HEAP - 1] == 0x5A);
    store_by_engine(allocs2[0].GpuVirtualAddress + 0x8008, 1234);
    CHECK(load(memory[0] + 0x8008) == 1234);
    D3DKMT_LOCK2 lock = {device, allocs2[0].hAllocation, 0, NULL};
    OK(D3DKMTLock2(&lock));
    memory[0][77] = 1;
    CHECK(((unsigned char *)lock.pData)[77] == 1 && ((unsigned char *)lock.pData)[76] == 0x5A);
    /* The same memory is one allocation's at a time: this is not of Wine's test. */
    D3DKMT_HANDLE first = allocs2[0].hAllocation;
    IS(D3DKMTCreateAllocation2(&create), STATUS_NOT_SUPPORTED);
    OK(end(0, &first));
    CHECK(load(memory[0] + 0x8008) == 1234 && memory[0][77] == 1);
    memory[0][78] = 2;
    create.pAllocationInfo = allocs;

    /* Private data of the allocation and of the runtime is taken. */
    allocs[0].pPrivateDriverData = (void *)(uintptr_t)alloc_data;
    allocs[0].PrivateDriverDataSize = sizeof alloc_data;
    create.pPrivateRuntimeData = runtime_data;
    create.PrivateRuntimeDataSize = sizeof runtime_data;
    OK(D3DKMTCreateAllocation(&create));
    OK(end(0, &allocs[0].hAllocation));
    CHECK(memory[0][78] == 2);

    create.PrivateDriverDataSize = 64;
    IS(D3DKMTCreateAllocation(&create), STATUS_INVALID_PARAMETER);
    create.PrivateDriverDataSize = 0;
    create.hDevice = 0;
    IS(D3DKMTCreateAllocation(&create), STATUS_INVALID_PARAMETER);
    create.hDevice = device;
    create.hResource = 0x1eadbeed;
    IS(D3DKMTCreateAllocation(&create), STATUS_INVALID_HANDLE);
    create.hResource = 0;
    create.NumAllocations = 0;
    IS(D3DKMTCreateAllocation(&create), STATUS_INVALID_PARAMETER);
    create.NumAllocations = 1;
    standard[0].Type = 0;
    IS(D3DKMTCreateAllocation(&create), STATUS_INVALID_PARAMETER);
    standard[0].Type = D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP;
    allocs[0].pSystemMem = NULL;
    IS(D3DKMTCreateAllocation(&create), STATUS_INVALID_PARAMETER);
    allocs[0].pSystemMem = memory[0];
    create.NumAllocations = 2;
    IS(D3DKMTCreateAllocation(&create), STATUS_INVALID_PARAMETER);
    create.NumAllocations = 1;
    standard[0].ExistingHeapData.Size = 0x1100;
    IS(D3DKMTCreateAllocation(&create), STATUS_INVALID_PARAMETER);
    standard[0].ExistingHeapData.Size = HEAP;
    create.Flags.ExistingSysMem = 0;
    IS(D3DKMTCreateAllocation(&create), STATUS_INVALID_PARAMETER);
    create.Flags.ExistingSysMem = 1;
    create.Flags.StandardAllocation = 0;
    IS(D3DKMTCreateAllocation(&create), STATUS_INVALID_PARAMETER);
    create.Flags.StandardAllocation = 1;
    create.Flags.CreateShared = 1;
    IS(D3DKMTCreateAllocation(&create), STATUS_INVALID_PARAMETER);
    create.Flags.CreateShared = 0;

    create.Flags.CreateResource = 1;
    create.hGlobalShare = create.hResource = 0x1eadbeed;
    IS(D3DKMTCreateAllocation(&create), STATUS_INVALID_HANDLE);
    create.hResource = 0;
    OK(D3DKMTCreateAllocation(&create));
    CHECK(create.hGlobalShare == 0 && create.hResource != 0);
    OK(end(0, &allocs[0].hAllocation));
    OK(end(create.hResource, NULL));
    IS(end(create.hResource, NULL), STATUS_INVALID_PARAMETER);
    create.hResource = 0;
    OK(D3DKMTCreateAllocation(&create));
    create.Flags.CreateResource = 0;
    create.pAllocationInfo = &allocs[1];
    IS(D3DKMTCreateAllocation(&create), STATUS_INVALID_PARAMETER);
    create.pAllocationInfo = allocs;
    OK(end(create.hResource, NULL));
    IS(end(0, &allocs[0].hAllocation), STATUS_INVALID_PARAMETER);
    create.hResource = 0;
    create.Flags.CreateResource = 1;
    create.NumAllocations = 0;
    IS(D3DKMTCreateAllocation(&create), STATUS_INVALID_PARAMETER);
    create.NumAllocations = 1;
    OK(D3DKMTCreateAllocation(&create));
    D3DKMT_QUERYRESOURCEINFO query;
    memset(&query, 0, sizeof query);
    query.hDevice = device;
    query.hGlobalShare = create.hResource;
    IS(D3DKMTQueryResourceInfo(&query), STATUS_INVALID_PARAMETER);
    OK(end(create.hResource, NULL));
    create.hResource = 0;

    /* A shared resource of the program's memory. */
    create.Flags.CreateShared = 1;
    create.hGlobalShare = 0x1eadbeed;
    OK(D3DKMTCreateAllocation(&create));
    CHECK((create.hGlobalShare & 0x3F) == 2);
    unsigned char runtime[256], driver[4096];
    memset(runtime, 0xCD, sizeof runtime);
    query.hGlobalShare = create.hGlobalShare;
    query.pPrivateRuntimeData = runtime;
    query.PrivateRuntimeDataSize = sizeof runtime;
    OK(D3DKMTQueryResourceInfo(&query));
    CHECK(query.PrivateRuntimeDataSize == sizeof runtime_data && runtime[0] == 0xCD);
    CHECK(query.TotalPrivateDriverDataSize > 0 && query.TotalPrivateDriverDataSize < sizeof driver);
    CHECK(query.ResourcePrivateDriverDataSize == 0 && query.NumAllocations == 1);
    D3DDDI_OPENALLOCATIONINFO2 opened;
    D3DKMT_OPENRESOURCE open;
    memset(&opened, 0, sizeof opened);
    memset(&open, 0, sizeof open);
    open.hDevice = device;
    open.hGlobalShare = create.hGlobalShare;
    open.NumAllocations = 1;
    open.pOpenAllocationInfo2 = &opened;
    open.pPrivateRuntimeData = runtime;
    open.PrivateRuntimeDataSize = query.PrivateRuntimeDataSize;
    open.pTotalPrivateDriverDataBuffer = driver;
    open.TotalPrivateDriverDataBufferSize = sizeof driver;
    OK(D3DKMTOpenResource2(&open));
    CHECK(open.TotalPrivateDriverDataBufferSize == query.TotalPrivateDriverDataSize);
    CHECK(memcmp(runtime, runtime_data, sizeof runtime_data) == 0);
    CHECK(opened.PrivateDriverDataSize == sizeof alloc_data);
    CHECK(memcmp(opened.pPrivateDriverData, alloc_data, sizeof alloc_data) == 0);
    store_by_engine(opened.GpuVirtualAddress + 16, 4321);
    CHECK(load(memory[0] + 16) == 4321);
    OK(end(open.hResource, NULL));
    OK(end(create.hResource, NULL));
    create.hResource = 0;
    create.Flags.NtSecuritySharing = 1;
    create.hGlobalShare = 0x1eadbeed;
    OK(D3DKMTCreateAllocation(&create));
    CHECK(create.hGlobalShare == 0 && create.hResource != 0);
    OK(end(create.hResource, NULL));
    CHECK(munmap(memory[0], HEAP) == 0 && munmap(memory[1], HEAP) == 0);

    /* Intel's compute runtime passes memory with its driver's private data and without the flag. */
    unsigned char *host = heap();
    TIDEGATE_ALLOCATION_DATA data = {HEAP, 0, 0};
    memset(&create, 0, sizeof create);
    host[5] = 5;
    allocs2[0].pSystemMem = host;
    allocs2[0].pPrivateDriverData = &data;
    allocs2[0].PrivateDriverDataSize = sizeof data;
    create.hDevice = device;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = allocs2;
    OK(D3DKMTCreateAllocation2(&create));
    store_by_engine(allocs2[0].GpuVirtualAddress + 8, 99);
    CHECK(host[5] == 5 && load(host + 8) == 99);
    OK(end(0, &allocs2[0].hAllocation));
    data.Placement = 1;
    IS(D3DKMTCreateAllocation2(&create), STATUS_NOT_SUPPORTED);
    data.Placement = 0;
    allocs2[0].pSystemMem = host + 8;
    IS(D3DKMTCreateAllocation2(&create), STATUS_INVALID_PARAMETER);
    CHECK(munmap(host, HEAP) == 0);
}

/* test_D3DKMTQueryVideoMemoryInfo. A process is a pidfd. */
static void memory_info(D3DKMT_HANDLE adapter) {
    D3DKMT_QUERYVIDEOMEMORYINFO query;
    memset(&query, 0, sizeof query);
    query.hAdapter = adapter;
    for (int group = 0; group < 2; group++) {
        query.MemorySegmentGroup = (D3DKMT_MEMORY_SEGMENT_GROUP)group;
        OK(D3DKMTQueryVideoMemoryInfo(&query));
        CHECK(query.Budget >= query.AvailableForReservation && query.CurrentUsage <= query.Budget);
        CHECK(query.CurrentReservation == 0);
    }
    query.hProcess = (HANDLE)(intptr_t)-1; /* GetCurrentProcess */
    OK(D3DKMTQueryVideoMemoryInfo(&query));
    int mine = (int)syscall(SYS_pidfd_open, getpid(), 0);
    int parent = (int)syscall(SYS_pidfd_open, getppid(), 0);
    if (mine >= 0 && parent >= 0) {
        query.hProcess = (HANDLE)(intptr_t)mine;
        OK(D3DKMTQueryVideoMemoryInfo(&query));
        query.hProcess = (HANDLE)(intptr_t)parent;
        IS(D3DKMTQueryVideoMemoryInfo(&query), STATUS_ACCESS_DENIED);
        close(mine);
        close(parent);
        IS(D3DKMTQueryVideoMemoryInfo(&query), STATUS_INVALID_HANDLE);
    }
    query.hProcess = (HANDLE)(uintptr_t)0xdeadbeef;
    IS(D3DKMTQueryVideoMemoryInfo(&query), STATUS_INVALID_HANDLE);
    int event = eventfd(0, EFD_CLOEXEC);
    query.hProcess = (HANDLE)(intptr_t)event;
    IS(D3DKMTQueryVideoMemoryInfo(&query), STATUS_INVALID_HANDLE);
    close(event);
    query.hProcess = NULL;
    query.hAdapter = 0xdeadbeef;
    IS(D3DKMTQueryVideoMemoryInfo(&query), STATUS_INVALID_PARAMETER);
    query.hAdapter = adapter;
    query.PhysicalAdapterIndex = 99;
    IS(D3DKMTQueryVideoMemoryInfo(&query), STATUS_INVALID_PARAMETER);
    query.PhysicalAdapterIndex = 0;
    query.MemorySegmentGroup = (D3DKMT_MEMORY_SEGMENT_GROUP)2;
    IS(D3DKMTQueryVideoMemoryInfo(&query), STATUS_INVALID_PARAMETER);
}

static NTSTATUS end_mutex(D3DKMT_HANDLE mutex) {
    D3DKMT_DESTROYKEYEDMUTEX destroy = {mutex};
    return D3DKMTDestroyKeyedMutex(&destroy);
}

static NTSTATUS open_mutex(D3DKMT_HANDLE global, void *data, UINT bytes, D3DKMT_HANDLE *mutex) {
    D3DKMT_OPENKEYEDMUTEX2 open = {global, 0x1eadbeed, data, bytes};
    NTSTATUS status = D3DKMTOpenKeyedMutex2(&open);
    CHECK(open.PrivateRuntimeDataSize == bytes);
    *mutex = open.hKeyedMutex;
    return status;
}

static NTSTATUS acquire(D3DKMT_HANDLE mutex, UINT64 key, int64_t timeout, UINT64 *value) {
    LARGE_INTEGER limit = {timeout};
    D3DKMT_ACQUIREKEYEDMUTEX acquire = {mutex, key, &limit, 0x1eadbeed};
    NTSTATUS status = D3DKMTAcquireKeyedMutex(&acquire);
    *value = acquire.FenceValue;
    return status;
}

/* test_D3DKMTCreateKeyedMutex. */
static void keyed_mutexes(void) {
    D3DKMT_CREATEKEYEDMUTEX create;
    memset(&create, 0, sizeof create);
    create.hKeyedMutex = create.hSharedHandle = 0x1eadbeed;
    OK(D3DKMTCreateKeyedMutex(&create));
    CHECK((create.hKeyedMutex & 0x3F) == 0 && (create.hSharedHandle & 0x3F) == 2);
    D3DKMT_OPENKEYEDMUTEX open = {0, 0};
    IS(D3DKMTOpenKeyedMutex(&open), STATUS_INVALID_PARAMETER);
    open.hKeyedMutex = create.hKeyedMutex;
    IS(D3DKMTOpenKeyedMutex(&open), STATUS_INVALID_PARAMETER);
    open.hSharedHandle = create.hSharedHandle;
    OK(D3DKMTOpenKeyedMutex(&open));
    CHECK(open.hKeyedMutex != create.hKeyedMutex);
    IS(end_mutex(0), STATUS_INVALID_PARAMETER);
    IS(end_mutex(create.hSharedHandle), STATUS_INVALID_PARAMETER);
    OK(end_mutex(open.hKeyedMutex));
    IS(end_mutex(open.hKeyedMutex), STATUS_INVALID_PARAMETER);
    OK(end_mutex(create.hKeyedMutex));
    IS(D3DKMTOpenKeyedMutex(&open), STATUS_INVALID_PARAMETER);

    unsigned char data[6] = {1, 2, 3, 4, 5, 6}, buffer[64];
    D3DKMT_HANDLE opened;
    D3DKMT_CREATEKEYEDMUTEX2 create2;
    memset(&create2, 0, sizeof create2);
    OK(D3DKMTCreateKeyedMutex2(&create2));
    CHECK((create2.hSharedHandle & 0x3F) == 2);
    IS(open_mutex(create2.hKeyedMutex, NULL, 0, &opened), STATUS_INVALID_PARAMETER);
    IS(open_mutex(create2.hSharedHandle, NULL, sizeof buffer, &opened), STATUS_INVALID_PARAMETER);
    OK(open_mutex(create2.hSharedHandle, buffer, sizeof buffer, &opened));
    OK(end_mutex(opened));
    OK(end_mutex(create2.hKeyedMutex));
    create2.pPrivateRuntimeData = data;
    create2.PrivateRuntimeDataSize = sizeof data;
    OK(D3DKMTCreateKeyedMutex2(&create2));
    OK(open_mutex(create2.hSharedHandle, NULL, 0, &opened));
    OK(end_mutex(opened));
    IS(open_mutex(create2.hSharedHandle, buffer, sizeof buffer, &opened), STATUS_INVALID_PARAMETER);
    IS(open_mutex(create2.hSharedHandle, buffer, sizeof data - 1, &opened), STATUS_INVALID_PARAMETER);
    memset(buffer, 0xCD, sizeof buffer);
    OK(open_mutex(create2.hSharedHandle, buffer, sizeof data, &opened));
    CHECK(buffer[0] == 0xCD);
    OK(end_mutex(opened));
    OK(end_mutex(create2.hKeyedMutex));
    create2.Flags.NtSecuritySharing = 1;
    create2.hSharedHandle = 0x1eadbeed;
    OK(D3DKMTCreateKeyedMutex2(&create2));
    CHECK(create2.hSharedHandle == 0);
    OK(end_mutex(create2.hKeyedMutex));
    create2.Flags.Value = 2;
    IS(D3DKMTCreateKeyedMutex2(&create2), STATUS_INVALID_PARAMETER);
}

/* The system's clock in units of 100 ns since 1 January 1601. */
static int64_t system_time(void) {
    struct timespec now;
    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    return (now.tv_sec + 11644473600LL) * 10000000 + now.tv_nsec / 100;
}

/* What a key admits: the documents of D3DKMTAcquireKeyedMutex and of IDXGIKeyedMutex. */
static void keys(void) {
    D3DKMT_CREATEKEYEDMUTEX create;
    memset(&create, 0, sizeof create);
    create.InitialValue = 7;
    OK(D3DKMTCreateKeyedMutex(&create));
    D3DKMT_OPENKEYEDMUTEX open = {create.hSharedHandle, 0};
    OK(D3DKMTOpenKeyedMutex(&open));
    D3DKMT_HANDLE mine = create.hKeyedMutex, yours = open.hKeyedMutex;
    UINT64 value;
    IS(acquire(mine, 0, 0, &value), STATUS_TIMEOUT);
    CHECK(value == 0x1eadbeed);
    IS(acquire(mine, 0, -10, &value), STATUS_TIMEOUT);
    /* A positive timeout is a time of the system's clock since 1601 (D3DKMT_ACQUIREKEYEDMUTEX). */
    IS(acquire(mine, 0, 1, &value), STATUS_TIMEOUT);
    int64_t limit = system_time() + 50000;
    IS(acquire(mine, 0, limit, &value), STATUS_TIMEOUT);
    CHECK(system_time() >= limit);
    OK(acquire(mine, 7, 0, &value));
    CHECK(value == 0);
    IS(acquire(yours, 7, 0, &value), STATUS_TIMEOUT);
    D3DKMT_RELEASEKEYEDMUTEX release = {yours, 8, 100};
    IS(D3DKMTReleaseKeyedMutex(&release), STATUS_INVALID_PARAMETER);
    release.hKeyedMutex = mine;
    OK(D3DKMTReleaseKeyedMutex(&release));
    IS(D3DKMTReleaseKeyedMutex(&release), STATUS_INVALID_PARAMETER);
    IS(acquire(yours, 7, 0, &value), STATUS_TIMEOUT);
    OK(acquire(yours, 8, INT64_MAX, &value));
    CHECK(value == 100);
    /* The second form passes data of the runtime on. */
    unsigned char text[4] = {'d', 'a', 't', 'a'}, heard[8] = {0};
    D3DKMT_RELEASEKEYEDMUTEX2 release2 = {yours, 9, 101, text, sizeof text};
    OK(D3DKMTReleaseKeyedMutex2(&release2));
    D3DKMT_ACQUIREKEYEDMUTEX2 acquire2 = {mine, 9, NULL, 0, heard, sizeof heard};
    OK(D3DKMTAcquireKeyedMutex2(&acquire2));
    CHECK(acquire2.FenceValue == 101 && memcmp(heard, "data\0", 5) == 0);
    /* An owner that ends abandons the mutex. */
    OK(end_mutex(mine));
    IS(acquire(yours, 9, 0, &value), STATUS_ABANDONED);
    OK(end_mutex(yours));
}

/* test_D3DKMTShareObjects: a resource with a keyed mutex and a mutex of contexts. */
static void combined(void) {
    struct name name;
    named(&name, "__WineTest_D3DKMT_combined");
    unsigned char mutex_data[20] = {0, 1, 2};
    TIDEGATE_ALLOCATION_DATA data = {4096, 0, 0};
    D3DDDI_ALLOCATIONINFO2 info;
    D3DKMT_CREATEALLOCATION create;
    describe_allocation(&create, &info, &data);
    create.Flags.CreateResource = create.Flags.CreateShared = create.Flags.NtSecuritySharing = 1;
    OK(D3DKMTCreateAllocation2(&create));
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 sync = description(D3DDDI_SYNCHRONIZATION_MUTEX, NT_SHARED);
    OK(create2(&sync));
    D3DKMT_CREATEKEYEDMUTEX2 mutex;
    memset(&mutex, 0, sizeof mutex);
    mutex.Flags.NtSecuritySharing = 1;
    mutex.pPrivateRuntimeData = mutex_data;
    mutex.PrivateRuntimeDataSize = sizeof mutex_data;
    OK(D3DKMTCreateKeyedMutex2(&mutex));
    HANDLE handle;
    IS(share(mutex.hKeyedMutex, NULL, STANDARD_RIGHTS_WRITE, &handle), STATUS_INVALID_PARAMETER);
    const D3DKMT_HANDLE r = create.hResource, k = mutex.hKeyedMutex, s = sync.hSyncObject;
    const struct {
        UINT count;
        D3DKMT_HANDLE objects[4];
    } refused[] = {
        {3, {r, r, r, 0}}, {2, {r, k, 0, 0}}, {2, {r, s, 0, 0}}, {2, {k, s, 0, 0}},
        {4, {r, k, s, s}}, {3, {r, s, k, 0}},
    };
    for (int i = 0; i < 6; i++) {
        IS(D3DKMTShareObjects(refused[i].count, refused[i].objects, NULL, STANDARD_RIGHTS_ALL, &handle),
           STATUS_INVALID_PARAMETER);
    }
    const D3DKMT_HANDLE objects[3] = {r, k, s};
    OK(D3DKMTShareObjects(3, objects, &name.attributes, STANDARD_RIGHTS_ALL, &handle));
    OK(end_mutex(k));
    OK(destroy(s));
    OK(end(r, NULL));

    D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE query;
    memset(&query, 0, sizeof query);
    query.hDevice = device;
    query.hNtHandle = handle;
    OK(D3DKMTQueryResourceInfoFromNtHandle(&query));
    CHECK(query.NumAllocations == 1);
    HANDLE found;
    OK(resource_by_name(&name.attributes, GENERIC_ALL, &found));
    D3DDDI_OPENALLOCATIONINFO2 opened;
    TIDEGATE_ALLOCATION_DATA described;
    D3DKMT_OPENRESOURCEFROMNTHANDLE open;
    memset(&open, 0, sizeof open);
    open.hDevice = device;
    open.hNtHandle = found;
    open.hKeyedMutex = open.hSyncObject = 0x1eadbeed;
    open.NumAllocations = 1;
    open.pOpenAllocationInfo2 = &opened;
    open.pTotalPrivateDriverDataBuffer = &described;
    open.TotalPrivateDriverDataBufferSize = query.TotalPrivateDriverDataSize;
    open.pKeyedMutexPrivateRuntimeData = mutex_data;
    open.KeyedMutexPrivateRuntimeDataSize = sizeof mutex_data - 1;
    IS(D3DKMTOpenResourceFromNtHandle(&open), STATUS_INVALID_PARAMETER);
    open.KeyedMutexPrivateRuntimeDataSize = sizeof mutex_data;
    OK(D3DKMTOpenResourceFromNtHandle(&open));
    CHECK(open.hResource != 0 && open.hKeyedMutex != 0 && open.hSyncObject != 0);
    close_handle(found);
    close_handle(handle);
    UINT64 value;
    OK(acquire(open.hKeyedMutex, 0, 0, &value));
    OK(end(open.hResource, NULL));
    OK(end_mutex(open.hKeyedMutex));
    OK(destroy(open.hSyncObject));
}

/* D3DKMTCloseDxCoreDevice of libdxg: everything ends, and the next enumeration begins anew. */
static void close_all(void) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 shared = description(D3DDDI_SYNCHRONIZATION_MUTEX, 1);
    OK(create2(&shared));
    D3DKMT_OPENSYNCHRONIZATIONOBJECT open;
    memset(&open, 0, sizeof open);
    open.hSharedHandle = shared.Info.SharedHandle;
    OK(D3DKMTOpenSynchronizationObject(&open));
    D3DKMT_CREATEKEYEDMUTEX mutex;
    memset(&mutex, 0, sizeof mutex);
    OK(D3DKMTCreateKeyedMutex(&mutex));
    D3DKMT_HANDLE fence = monitored_fence(device, 0, 0).hSyncObject;
    int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    OK(wait_cpu(device, fence, 1, event));
    D3DKMTCloseDxCoreDevice();
    struct pollfd polled = {event, POLLIN, 0};
    CHECK(poll(&polled, 1, -1) == 1);
    close(event);
    IS(signal_cpu(device, fence, 1), STATUS_INVALID_PARAMETER);
    IS(destroy(open.hSyncObject), STATUS_INVALID_PARAMETER);
    IS(end_mutex(mutex.hKeyedMutex), STATUS_INVALID_PARAMETER);
    D3DKMTCloseDxCoreDevice();
    D3DKMT_HANDLE adapter = open_adapter();
    device = create_device(adapter);
    IS(D3DKMTOpenSynchronizationObject(&open), STATUS_INVALID_PARAMETER);
    fence = monitored_fence(device, 0, 0).hSyncObject;
    OK(signal_cpu(device, fence, 1));
    OK(wait_cpu(device, fence, 1, 0));
}

/* Locks are counted: each has one unlock. */
static void locks(void) {
    TIDEGATE_ALLOCATION_DATA data = {4096, 0, 0};
    D3DDDI_ALLOCATIONINFO2 info;
    D3DKMT_CREATEALLOCATION create;
    describe_allocation(&create, &info, &data);
    create.hGlobalShare = 0x1eadbeed;
    OK(D3DKMTCreateAllocation2(&create));
    CHECK(create.hGlobalShare == 0 && create.hResource == 0);
    D3DKMT_LOCK2 lock = {device, info.hAllocation, 0, NULL};
    D3DKMT_UNLOCK2 unlock = {device, info.hAllocation};
    IS(D3DKMTUnlock2(&unlock), STATUS_INVALID_PARAMETER);
    OK(D3DKMTLock2(&lock));
    OK(D3DKMTLock2(&lock));
    OK(D3DKMTUnlock2(&unlock));
    OK(D3DKMTUnlock2(&unlock));
    IS(D3DKMTUnlock2(&unlock), STATUS_INVALID_PARAMETER);
    OK(D3DKMTLock2(&lock));
    /* test_D3DKMTCreateAllocation: an empty list is destroyed. */
    D3DKMT_DESTROYALLOCATION list = {device, 0, NULL, 0};
    OK(D3DKMTDestroyAllocation(&list));
    list.AllocationCount = 1;
    IS(D3DKMTDestroyAllocation(&list), STATUS_INVALID_PARAMETER);
    list.phAllocationList = &info.hAllocation;
    OK(D3DKMTDestroyAllocation(&list));
    IS(D3DKMTDestroyAllocation(&list), STATUS_INVALID_PARAMETER);
}

int main(int argc, char **argv) {
    D3DKMT_HANDLE adapter = open_adapter();
    device = create_device(adapter);
    if (PART("objects")) objects();
    if (PART("memory-info")) memory_info(adapter);
    if (PART("locks")) locks();
    if (PART("names")) names();
    if (PART("allocations")) allocations();
    if (PART("keyed-mutexes")) keyed_mutexes();
    if (PART("keys")) keys();
    if (PART("combined")) combined();
    if (PART("close")) close_all();
    destroy_device(device);
    puts("windows: all checks hold");
    return 0;
}
