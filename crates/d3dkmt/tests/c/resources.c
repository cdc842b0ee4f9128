/* Resources that are shared by global handle and by NT handle, in a process and between two. */
#include "contexts.h"
#include "other.h"

#define WRITE_VALUE (6u | 3u << 16)
#define BYTES 8192u

static const char runtime_data[7] = "runtime", driver_data[5] = "state";

/* A resource of two allocations: bytes, and 64-bit words. */
struct resource {
    D3DKMT_HANDLE handle, global, allocations[2];
    D3DGPU_VIRTUAL_ADDRESS gpu[2];
    UINT64 *cpu[2];
};

static void lock_all(struct resource *resource) {
    for (int i = 0; i < 2; i++) {
        D3DKMT_LOCK2 lock = {device, resource->allocations[i], 0, NULL};
        OK(D3DKMTLock2(&lock));
        resource->cpu[i] = lock.pData;
    }
}

/* What a resource is made of. */
struct plan {
    TIDEGATE_ALLOCATION_DATA data[2];
    D3DDDI_ALLOCATIONINFO2 infos[2];
    D3DKMT_CREATEALLOCATION create;
};

static void plan(struct plan *plan, int nt) {
    memset(plan, 0, sizeof *plan);
    for (UINT i = 0; i < 2; i++) {
        plan->data[i].Bytes = BYTES >> i;
        plan->data[i].Kind = i;
        plan->infos[i].pPrivateDriverData = &plan->data[i];
        plan->infos[i].PrivateDriverDataSize = sizeof plan->data[i];
    }
    plan->create.hDevice = device;
    plan->create.pPrivateRuntimeData = runtime_data;
    plan->create.PrivateRuntimeDataSize = sizeof runtime_data;
    plan->create.pPrivateDriverData = driver_data;
    plan->create.PrivateDriverDataSize = sizeof driver_data;
    plan->create.NumAllocations = 2;
    plan->create.pAllocationInfo2 = plan->infos;
    plan->create.Flags.CreateResource = 1;
    plan->create.Flags.CreateShared = 1;
    plan->create.Flags.NtSecuritySharing = nt ? 1 : 0;
}

static struct resource create(int nt) {
    struct plan planned;
    plan(&planned, nt);
    OK(D3DKMTCreateAllocation2(&planned.create));
    struct resource made;
    memset(&made, 0, sizeof made);
    made.handle = planned.create.hResource;
    made.global = planned.create.hGlobalShare;
    CHECK(made.handle != 0);
    CHECK(nt ? made.global == 0 : (made.global & 0x3F) == 2);
    for (int i = 0; i < 2; i++) {
        made.allocations[i] = planned.infos[i].hAllocation;
        made.gpu[i] = planned.infos[i].GpuVirtualAddress;
    }
    lock_all(&made);
    return made;
}

static NTSTATUS destroy(D3DKMT_HANDLE resource) {
    D3DKMT_DESTROYALLOCATION2 destroy = {device, resource, NULL, 0, 0};
    return D3DKMTDestroyAllocation2(&destroy);
}

static HANDLE share(D3DKMT_HANDLE resource) {
    HANDLE handle = NULL;
    OK(D3DKMTShareObjects(1, &resource, NULL, SHARED_ALLOCATION_ALL_ACCESS, &handle));
    return handle;
}

/* Room for what an opener receives. */
struct room {
    D3DDDI_OPENALLOCATIONINFO2 infos[2];
    char runtime[16], driver[16];
    TIDEGATE_ALLOCATION_DATA data[2];
};

static void is_right(const struct room *room, UINT runtime, UINT driver, UINT total) {
    CHECK(runtime == sizeof runtime_data && driver == sizeof driver_data);
    CHECK(total == sizeof room->data);
    CHECK(memcmp(room->runtime, runtime_data, runtime) == 0);
    CHECK(memcmp(room->driver, driver_data, driver) == 0);
    for (UINT i = 0; i < 2; i++) {
        CHECK(room->data[i].Bytes == BYTES >> i && room->data[i].Kind == i);
        CHECK(room->infos[i].pPrivateDriverData == &room->data[i]);
        CHECK(room->infos[i].PrivateDriverDataSize == sizeof room->data[i]);
    }
}

static struct resource opened(const struct room *room, D3DKMT_HANDLE handle) {
    struct resource made;
    memset(&made, 0, sizeof made);
    made.handle = handle;
    CHECK(handle != 0);
    for (int i = 0; i < 2; i++) {
        made.allocations[i] = room->infos[i].hAllocation;
        made.gpu[i] = room->infos[i].GpuVirtualAddress;
        CHECK(made.allocations[i] != 0 && made.gpu[i] != 0);
    }
    lock_all(&made);
    return made;
}

static D3DKMT_OPENRESOURCE by_global(D3DKMT_HANDLE global, struct room *room) {
    D3DKMT_OPENRESOURCE open;
    memset(&open, 0, sizeof open);
    memset(room, 0, sizeof *room);
    open.hDevice = device;
    open.hGlobalShare = global;
    open.NumAllocations = 2;
    open.pOpenAllocationInfo2 = room->infos;
    open.pPrivateRuntimeData = room->runtime;
    open.PrivateRuntimeDataSize = sizeof runtime_data;
    open.pResourcePrivateDriverData = room->driver;
    open.ResourcePrivateDriverDataSize = sizeof driver_data;
    open.pTotalPrivateDriverDataBuffer = room->data;
    open.TotalPrivateDriverDataBufferSize = sizeof room->data;
    return open;
}

static struct resource open_global(D3DKMT_HANDLE global) {
    struct room room;
    D3DKMT_OPENRESOURCE open = by_global(global, &room);
    OK(D3DKMTOpenResource2(&open));
    is_right(&room, open.PrivateRuntimeDataSize, open.ResourcePrivateDriverDataSize,
             open.TotalPrivateDriverDataBufferSize);
    return opened(&room, open.hResource);
}

static D3DKMT_OPENRESOURCEFROMNTHANDLE by_nt_handle(HANDLE handle, struct room *room) {
    D3DKMT_OPENRESOURCEFROMNTHANDLE open;
    memset(&open, 0, sizeof open);
    memset(room, 0, sizeof *room);
    open.hDevice = device;
    open.hNtHandle = handle;
    open.NumAllocations = 2;
    open.pOpenAllocationInfo2 = room->infos;
    open.pPrivateRuntimeData = room->runtime;
    open.PrivateRuntimeDataSize = sizeof runtime_data;
    open.pResourcePrivateDriverData = room->driver;
    open.ResourcePrivateDriverDataSize = sizeof driver_data;
    open.pTotalPrivateDriverDataBuffer = room->data;
    open.TotalPrivateDriverDataBufferSize = sizeof room->data;
    return open;
}

static struct resource open_nt_handle(HANDLE handle) {
    struct room room;
    D3DKMT_OPENRESOURCEFROMNTHANDLE open = by_nt_handle(handle, &room);
    open.hKeyedMutex = open.hSyncObject = 77;
    OK(D3DKMTOpenResourceFromNtHandle(&open));
    CHECK(open.hKeyedMutex == 0 && open.hSyncObject == 0);
    is_right(&room, open.PrivateRuntimeDataSize, open.ResourcePrivateDriverDataSize,
             open.TotalPrivateDriverDataBufferSize);
    return opened(&room, open.hResource);
}

/* Has an engine store a value to word 8 of the resource, by a command in its second allocation. */
static void store_by_engine(const struct resource *resource, UINT64 value) {
    store(&resource->cpu[0][16], WRITE_VALUE);
    store(&resource->cpu[0][17], resource->gpu[0] + 64);
    store(&resource->cpu[0][18], value);
    run_commands(resource->gpu[0] + 128, 24);
    CHECK(load(&resource->cpu[0][8]) == value);
}

/* Both see what the other one stores. */
static void is_common(const struct resource *a, const struct resource *b) {
    for (UINT64 i = 0; i < 2; i++) {
        store(&a->cpu[i][5], 100 + i);
        CHECK(load(&b->cpu[i][5]) == 100 + i);
        store(&b->cpu[i][6], 200 + i);
        CHECK(load(&a->cpu[i][6]) == 200 + i);
    }
    store_by_engine(b, 300);
    CHECK(load(&a->cpu[0][8]) == 300);
    store_by_engine(a, 301);
    CHECK(load(&b->cpu[0][8]) == 301);
}

static D3DKMT_QUERYRESOURCEINFO query_of(D3DKMT_HANDLE global, void *data, UINT bytes) {
    D3DKMT_QUERYRESOURCEINFO query;
    memset(&query, 0, sizeof query);
    query.hDevice = device;
    query.hGlobalShare = global;
    query.pPrivateRuntimeData = data;
    query.PrivateRuntimeDataSize = bytes;
    return query;
}

static void global(void) {
    struct resource mine = create(0);
    store(&mine.cpu[0][1], 42);
    char data[8] = "........";
    D3DKMT_QUERYRESOURCEINFO query = query_of(mine.global, NULL, 0);
    OK(D3DKMTQueryResourceInfo(&query));
    CHECK(query.PrivateRuntimeDataSize == 7 && query.ResourcePrivateDriverDataSize == 5);
    CHECK(query.TotalPrivateDriverDataSize == 32 && query.NumAllocations == 2);
    /* As on Windows, a query answers the size and leaves the buffer alone. */
    query = query_of(mine.global, data, 6);
    OK(D3DKMTQueryResourceInfo(&query));
    CHECK(query.PrivateRuntimeDataSize == 7 && memcmp(data, "........", 8) == 0);
    struct resource other = open_global(mine.global);
    CHECK(load(&other.cpu[0][1]) == 42);
    CHECK(other.handle != mine.handle && other.gpu[0] != mine.gpu[0]);
    is_common(&mine, &other);
    /* The first form has no GPU addresses. */
    struct room room;
    D3DDDI_OPENALLOCATIONINFO infos[2];
    D3DKMT_OPENRESOURCE open = by_global(mine.global, &room);
    open.pOpenAllocationInfo = infos;
    OK(D3DKMTOpenResource(&open));
    CHECK(infos[1].hAllocation != 0 && infos[1].pPrivateDriverData == &room.data[1]);
    OK(destroy(open.hResource));
    /* The creator's part ends, and the resource goes on. */
    OK(destroy(mine.handle));
    IS(destroy(mine.handle), STATUS_INVALID_PARAMETER);
    D3DKMT_LOCK2 lock = {device, mine.allocations[0], 0, NULL};
    IS(D3DKMTLock2(&lock), STATUS_INVALID_PARAMETER);
    CHECK(load(&other.cpu[0][1]) == 42);
    struct resource third = open_global(mine.global);
    is_common(&other, &third);
    OK(destroy(other.handle));
    CHECK(load(&third.cpu[0][1]) == 42);
    OK(destroy(third.handle));
    open = by_global(mine.global, &room);
    IS(D3DKMTOpenResource2(&open), STATUS_INVALID_PARAMETER);
    /* A device ends its part. */
    D3DKMT_HANDLE first = device;
    device = create_device(open_adapter());
    D3DKMT_HANDLE ended = create(0).global;
    destroy_device(device);
    device = first;
    open = by_global(ended, &room);
    IS(D3DKMTOpenResource2(&open), STATUS_INVALID_PARAMETER);
}

static void nt_handle(void) {
    int before = descriptors();
    struct resource mine = create(1);
    store(&mine.cpu[1][1], 43);
    HANDLE handle = share(mine.handle);
    int copy = fcntl((int)(intptr_t)handle, F_DUPFD_CLOEXEC, 3);
    D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE query;
    memset(&query, 0, sizeof query);
    query.hDevice = device;
    query.hNtHandle = handle;
    char data[8] = "........";
    query.pPrivateRuntimeData = data;
    query.PrivateRuntimeDataSize = sizeof data;
    OK(D3DKMTQueryResourceInfoFromNtHandle(&query));
    CHECK(query.PrivateRuntimeDataSize == 7 && query.ResourcePrivateDriverDataSize == 5);
    CHECK(query.TotalPrivateDriverDataSize == 32 && query.NumAllocations == 2);
    CHECK(memcmp(data, "........", 8) == 0);
    struct resource other = open_nt_handle(handle);
    CHECK(load(&other.cpu[1][1]) == 43);
    is_common(&mine, &other);
    close((int)(intptr_t)handle);
    OK(destroy(mine.handle));
    OK(destroy(other.handle));
    /* The copy of the handle keeps the memory. */
    struct resource third = open_nt_handle((HANDLE)(intptr_t)copy);
    CHECK(load(&third.cpu[1][1]) == 43);
    close(copy);
    store_by_engine(&third, 302);
    OK(destroy(third.handle));
    no_descriptor_is_left(before);
}

static void arguments(void) {
    static char misaligned[256] __attribute__((aligned(8)));
    void *odd = misaligned + 4;
    IS(D3DKMTQueryResourceInfo(NULL), STATUS_INVALID_PARAMETER);
    IS(D3DKMTQueryResourceInfoFromNtHandle(NULL), STATUS_INVALID_PARAMETER);
    IS(D3DKMTOpenResource(NULL), STATUS_INVALID_PARAMETER);
    IS(D3DKMTOpenResource2(NULL), STATUS_INVALID_PARAMETER);
    IS(D3DKMTOpenResourceFromNtHandle(NULL), STATUS_INVALID_PARAMETER);
    IS(D3DKMTQueryResourceInfo(odd), STATUS_INVALID_PARAMETER);
    IS(D3DKMTQueryResourceInfoFromNtHandle(odd), STATUS_INVALID_PARAMETER);
    IS(D3DKMTOpenResource2(odd), STATUS_INVALID_PARAMETER);
    IS(D3DKMTOpenResourceFromNtHandle(odd), STATUS_INVALID_PARAMETER);

    struct plan planned;
    plan(&planned, 0);
    planned.create.Flags.CreateResource = 0;
    IS(D3DKMTCreateAllocation2(&planned.create), STATUS_INVALID_PARAMETER);
    plan(&planned, 1);
    planned.create.Flags.CreateShared = 0;
    IS(D3DKMTCreateAllocation2(&planned.create), STATUS_INVALID_PARAMETER);
    plan(&planned, 0);
    planned.create.Flags.Reserved = 1;
    IS(D3DKMTCreateAllocation2(&planned.create), STATUS_INVALID_PARAMETER);
    plan(&planned, 0);
    planned.create.pPrivateRuntimeData = NULL;
    IS(D3DKMTCreateAllocation2(&planned.create), STATUS_INVALID_PARAMETER);
    plan(&planned, 0);
    planned.create.PrivateDriverDataSize = 1 << 20;
    IS(D3DKMTCreateAllocation2(&planned.create), STATUS_INVALID_PARAMETER);
    /* Memory that moves is not shared, and what was made is gone. */
    plan(&planned, 0);
    planned.data[0].Placement = 1;
    IS(D3DKMTCreateAllocation2(&planned.create), STATUS_NOT_SUPPORTED);

    struct resource mine = create(0);
    D3DKMT_DESTROYALLOCATION2 one = {device, 0, &mine.allocations[0], 1, 0};
    IS(D3DKMTDestroyAllocation2(&one), STATUS_INVALID_PARAMETER);
    plan(&planned, 0);
    memset(&planned.create.Flags, 0, sizeof planned.create.Flags);
    planned.create.hResource = mine.handle;
    IS(D3DKMTCreateAllocation2(&planned.create), STATUS_INVALID_PARAMETER);
    HANDLE handle = NULL;
    IS(D3DKMTShareObjects(1, &mine.handle, NULL, SHARED_ALLOCATION_WRITE, &handle),
       STATUS_INVALID_PARAMETER);
    IS(D3DKMTShareObjects(1, &mine.allocations[0], NULL, SHARED_ALLOCATION_WRITE, &handle),
       STATUS_INVALID_PARAMETER);

    D3DKMT_QUERYRESOURCEINFO query = query_of(mine.global, NULL, 0);
    query.hDevice = mine.handle;
    IS(D3DKMTQueryResourceInfo(&query), STATUS_INVALID_PARAMETER);
    query = query_of(mine.handle, NULL, 0);
    IS(D3DKMTQueryResourceInfo(&query), STATUS_INVALID_PARAMETER);
    struct room room;
    D3DKMT_OPENRESOURCE open = by_global(mine.global, &room);
    open.NumAllocations = 1;
    IS(D3DKMTOpenResource2(&open), STATUS_INVALID_PARAMETER);
    open = by_global(mine.global, &room);
    open.pOpenAllocationInfo2 = NULL;
    IS(D3DKMTOpenResource2(&open), STATUS_INVALID_PARAMETER);
    open = by_global(mine.global, &room);
    open.pOpenAllocationInfo2 = odd;
    IS(D3DKMTOpenResource2(&open), STATUS_INVALID_PARAMETER);
    open = by_global(mine.global, &room);
    open.pOpenAllocationInfo2 = odd;
    IS(D3DKMTOpenResource(&open), STATUS_INVALID_PARAMETER);
    open = by_global(mine.global, &room);
    open.pPrivateRuntimeData = NULL;
    IS(D3DKMTOpenResource2(&open), STATUS_INVALID_PARAMETER);
    open = by_global(mine.global, &room);
    open.pTotalPrivateDriverDataBuffer = NULL;
    IS(D3DKMTOpenResource2(&open), STATUS_INVALID_PARAMETER);
    open = by_global(mine.global, &room);
    open.pResourcePrivateDriverData = NULL;
    IS(D3DKMTOpenResource2(&open), STATUS_INVALID_PARAMETER);
    /* Sizes as Wine's tests show them (dlls/win32u/tests/d3dkmt.c, test_D3DKMTCreateAllocation):
       runtime data and driver data of the resource are exact, the buffer of all may be larger, and a
       refused call changes no size. */
    for (int difference = -1; difference < 2; difference += 2) {
        open = by_global(mine.global, &room);
        open.PrivateRuntimeDataSize += (UINT)difference;
        IS(D3DKMTOpenResource2(&open), STATUS_INVALID_PARAMETER);
        CHECK(open.PrivateRuntimeDataSize == 7 + (UINT)difference && open.hResource == 0);
        open = by_global(mine.global, &room);
        open.ResourcePrivateDriverDataSize += (UINT)difference;
        IS(D3DKMTOpenResource2(&open), STATUS_INVALID_PARAMETER);
    }
    open = by_global(mine.global, &room);
    open.TotalPrivateDriverDataBufferSize = 31;
    IS(D3DKMTOpenResource2(&open), STATUS_NO_MEMORY);
    CHECK(open.TotalPrivateDriverDataBufferSize == 31);
    char larger[64];
    open.pTotalPrivateDriverDataBuffer = larger;
    open.TotalPrivateDriverDataBufferSize = sizeof larger;
    OK(D3DKMTOpenResource2(&open));
    CHECK(open.TotalPrivateDriverDataBufferSize == 32);
    OK(destroy(open.hResource));
    OK(destroy(mine.handle));
    /* No refused call has left it open: it ends with its creator's part. */
    open = by_global(mine.global, &room);
    IS(D3DKMTOpenResource2(&open), STATUS_INVALID_PARAMETER);

    struct resource shared = create(1);
    HANDLE refused = share(shared.handle);
    D3DKMT_OPENRESOURCEFROMNTHANDLE wrong = by_nt_handle(refused, &room);
    wrong.pOpenAllocationInfo2 = odd;
    IS(D3DKMTOpenResourceFromNtHandle(&wrong), STATUS_INVALID_PARAMETER);
    wrong = by_nt_handle(refused, &room);
    wrong.pOpenAllocationInfo2 = NULL;
    IS(D3DKMTOpenResourceFromNtHandle(&wrong), STATUS_INVALID_PARAMETER);
    close((int)(intptr_t)refused);
    IS(D3DKMTShareObjects(1, &shared.handle, NULL, 0, &handle), STATUS_INVALID_PARAMETER);
    OK(D3DKMTShareObjects(1, &shared.handle, NULL, STANDARD_RIGHTS_READ, &handle));
    close((int)(intptr_t)handle);
    IS(D3DKMTShareObjects(1, &shared.handle, NULL, 0x100, &handle), STATUS_INVALID_PARAMETER);
    OK(D3DKMTShareObjects(1, &shared.handle, NULL, 0x10000000, &handle));
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 as_fence;
    memset(&as_fence, 0, sizeof as_fence);
    as_fence.hNtHandle = handle;
    as_fence.hDevice = device;
    IS(D3DKMTOpenSyncObjectFromNtHandle2(&as_fence), STATUS_OBJECT_TYPE_MISMATCH);
    close((int)(intptr_t)handle);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = monitored_fence(device, 0x3, 0);
    OK(D3DKMTShareObjects(1, &fence.hSyncObject, NULL, 3, &handle));
    D3DKMT_OPENRESOURCEFROMNTHANDLE by_fence = by_nt_handle(handle, &room);
    IS(D3DKMTOpenResourceFromNtHandle(&by_fence), STATUS_OBJECT_TYPE_MISMATCH);
    close((int)(intptr_t)handle);
    int event = eventfd(0, EFD_CLOEXEC);
    by_fence = by_nt_handle((HANDLE)(intptr_t)event, &room);
    IS(D3DKMTOpenResourceFromNtHandle(&by_fence), STATUS_INVALID_HANDLE);
    close(event);
    by_fence = by_nt_handle((HANDLE)(intptr_t)event, &room);
    IS(D3DKMTOpenResourceFromNtHandle(&by_fence), STATUS_INVALID_HANDLE);
    destroy_fence(fence.hSyncObject);
    OK(destroy(shared.handle));
}

static NTSTATUS set_priorities(D3DKMT_HANDLE resource, const D3DKMT_HANDLE *list, UINT count,
                               const UINT *priorities) {
    D3DKMT_SETALLOCATIONPRIORITY set = {device, resource, list, count, priorities};
    return D3DKMTSetAllocationPriority(&set);
}

static NTSTATUS get_priorities(D3DKMT_HANDLE resource, const D3DKMT_HANDLE *list, UINT count,
                               UINT *priorities) {
    D3DKMT_GETALLOCATIONPRIORITY get = {device, resource, list, count, priorities};
    return D3DKMTGetAllocationPriority(&get);
}

/* Priorities of allocations, and the one of a resource. */
static void priorities(void) {
    struct resource mine = create(0);
    UINT found[2] = {0, 0}, wanted[2] = {0x28000000, 0xC8000000}, low = 0x50000000;
    OK(get_priorities(0, mine.allocations, 2, found));
    CHECK(found[0] == 0x78000000 && found[1] == 0x78000000);
    OK(set_priorities(0, mine.allocations, 2, wanted));
    OK(get_priorities(0, mine.allocations, 2, found));
    CHECK(found[0] == wanted[0] && found[1] == wanted[1]);
    OK(get_priorities(mine.handle, NULL, 0, found));
    CHECK(found[0] == wanted[0] && found[1] == wanted[1]);
    OK(set_priorities(mine.handle, NULL, 0, &low));
    OK(get_priorities(0, mine.allocations, 2, found));
    CHECK(found[0] == low && found[1] == low);
    IS(set_priorities(mine.handle, mine.allocations, 2, wanted), STATUS_INVALID_PARAMETER);
    IS(set_priorities(mine.handle, NULL, 0, NULL), STATUS_INVALID_PARAMETER);
    IS(set_priorities(0, mine.allocations, 0, wanted), STATUS_INVALID_PARAMETER);
    IS(set_priorities(0, NULL, 1, wanted), STATUS_INVALID_PARAMETER);
    IS(set_priorities(device, NULL, 0, wanted), STATUS_INVALID_PARAMETER);
    IS(get_priorities(0, mine.allocations, 2, NULL), STATUS_INVALID_PARAMETER);
    IS(get_priorities(0, &mine.handle, 1, found), STATUS_INVALID_PARAMETER);
    OK(destroy(mine.handle));
    IS(get_priorities(mine.handle, NULL, 0, found), STATUS_INVALID_PARAMETER);
}

static NTSTATUS where(D3DKMT_HANDLE resource, const D3DKMT_HANDLE *list, UINT count,
                      D3DKMT_ALLOCATIONRESIDENCYSTATUS *found) {
    D3DKMT_QUERYALLOCATIONRESIDENCY query = {device, resource, list, count, found};
    return D3DKMTQueryAllocationResidency(&query);
}

/* An allocation in local memory on demand is paged in; the others are where they were made. */
static void residency(void) {
    struct resource mine = create(0);
    D3DKMT_ALLOCATIONRESIDENCYSTATUS found[2];
    OK(where(0, mine.allocations, 2, found));
    CHECK(found[0] == D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINSHAREDMEMORY && found[1] == found[0]);
    TIDEGATE_ALLOCATION_DATA data[2] = {{1 << 16, 0, 1}, {1 << 16, 0, 2}};
    struct plan planned;
    plan(&planned, 0);
    memset(&planned.create.Flags, 0, sizeof planned.create.Flags);
    planned.create.Flags.CreateResource = 1;
    for (int i = 0; i < 2; i++) planned.infos[i].pPrivateDriverData = &data[i];
    OK(D3DKMTCreateAllocation2(&planned.create));
    D3DKMT_HANDLE local[2] = {planned.infos[0].hAllocation, planned.infos[1].hAllocation};
    OK(where(0, local, 2, found));
    CHECK(found[0] == D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINGPUMEMORY);
    CHECK(found[1] == D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT);
    D3DKMT_HANDLE resource = planned.create.hResource;
    OK(where(resource, NULL, 0, found));
    CHECK(found[0] == D3DKMT_ALLOCATIONRESIDENCYSTATUS_NOTRESIDENT);
    D3DKMT_CREATEPAGINGQUEUE paging;
    memset(&paging, 0, sizeof paging);
    paging.hDevice = device;
    OK(D3DKMTCreatePagingQueue(&paging));
    D3DDDI_MAKERESIDENT resident;
    memset(&resident, 0, sizeof resident);
    resident.hPagingQueue = paging.hPagingQueue;
    resident.NumAllocations = 1;
    resident.AllocationList = &local[1];
    IS(D3DKMTMakeResident(&resident), STATUS_PENDING);
    OK(wait_cpu(device, paging.hSyncObject, resident.PagingFenceValue, 0));
    OK(where(resource, NULL, 0, found));
    CHECK(found[0] == D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINGPUMEMORY);
    IS(where(0, local, 0, found), STATUS_INVALID_PARAMETER);
    IS(where(0, local, 2, NULL), STATUS_INVALID_PARAMETER);
    IS(where(0, &device, 1, found), STATUS_INVALID_PARAMETER);
    IS(where(device, NULL, 0, found), STATUS_INVALID_PARAMETER);
    IS(where(resource, local, 2, found), STATUS_INVALID_PARAMETER);
    D3DDDI_DESTROYPAGINGQUEUE queue = {paging.hPagingQueue};
    OK(D3DKMTDestroyPagingQueue(&queue));
    OK(destroy(resource));
    OK(destroy(mine.handle));
}

/* The other process opens the resource by a descriptor that it inherits. */
static void between(void) {
    struct resource mine = create(1);
    store(&mine.cpu[0][1], 44);
    HANDLE handle = share(mine.handle);
    int inherited = fcntl((int)(intptr_t)handle, F_DUPFD, 3);
    struct other other = start("opens", (D3DKMT_HANDLE)inherited);
    close(inherited);
    close((int)(intptr_t)handle);
    CHECK(hear(other.says) == 1);
    CHECK(load(&mine.cpu[0][8]) == 303 && load(&mine.cpu[1][2]) == 45);
    store_by_engine(&mine, 304);
    say(other.hears, 2);
    CHECK(hear(other.says) == 3);
    /* The end of this part leaves the other process its own. */
    OK(destroy(mine.handle));
    say(other.hears, 4);
    finish(&other, 0);
}

static void opens(int inherited, int out, int in) {
    struct resource theirs = open_nt_handle((HANDLE)(intptr_t)inherited);
    close(inherited);
    CHECK(load(&theirs.cpu[0][1]) == 44);
    store(&theirs.cpu[1][2], 45);
    store_by_engine(&theirs, 303);
    say(out, 1);
    CHECK(hear(in) == 2);
    CHECK(load(&theirs.cpu[0][8]) == 304);
    say(out, 3);
    CHECK(hear(in) == 4);
    store_by_engine(&theirs, 305);
    OK(destroy(theirs.handle));
}

static void killed_creator(void) {
    struct other creator = start("creates", 0);
    D3DKMT_HANDLE global = hear(creator.says);
    struct resource mine = open_global(global);
    CHECK(load(&mine.cpu[0][1]) == 46);
    finish(&creator, 1);
    store_by_engine(&mine, 306);
    struct other opener = start("opens-global", global);
    CHECK(hear(opener.says) == 1);
    CHECK(load(&mine.cpu[0][2]) == 47);
    finish(&opener, 1);
    CHECK(load(&mine.cpu[0][8]) == 307);
    OK(destroy(mine.handle));
    struct room room;
    D3DKMT_OPENRESOURCE open = by_global(global, &room);
    NTSTATUS status = STATUS_SUCCESS;
    /* The service ends a killed process when it notices the end of its socket. */
    while ((status = D3DKMTOpenResource2(&open)) == STATUS_SUCCESS) {
        OK(destroy(open.hResource));
        open = by_global(global, &room);
    }
    IS(status, STATUS_INVALID_PARAMETER);
}

static void creates(int out, int in) {
    struct resource made = create(0);
    store(&made.cpu[0][1], 46);
    say(out, made.global);
    hear(in);
}

static void opens_global(D3DKMT_HANDLE global, int out, int in) {
    struct resource theirs = open_global(global);
    CHECK(load(&theirs.cpu[0][1]) == 46 && load(&theirs.cpu[0][8]) == 306);
    store(&theirs.cpu[0][2], 47);
    store_by_engine(&theirs, 307);
    say(out, 1);
    hear(in);
}

int main(int argc, char **argv) {
    D3DKMT_HANDLE adapter = open_adapter();
    device = create_device(adapter);
    if (argc == 5) {
        D3DKMT_HANDLE handle = (D3DKMT_HANDLE)strtoul(argv[2], NULL, 10);
        int out = atoi(argv[3]), in = atoi(argv[4]);
        if (PART("opens")) opens((int)handle, out, in);
        if (PART("creates")) creates(out, in);
        if (PART("opens-global")) opens_global(handle, out, in);
        return 0;
    }
    if (PART("arguments")) arguments();
    if (PART("global")) global();
    if (PART("nt-handle")) nt_handle();
    if (PART("priorities")) priorities();
    if (PART("residency")) residency();
    if (PART("between")) between();
    if (PART("killed-creator")) killed_creator();
    destroy_device(device);
    close_adapter(adapter);
    puts("resources: all checks hold");
    return 0;
}
