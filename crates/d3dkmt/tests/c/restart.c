/* A client whose service is killed and started again. It is told on standard input. */
#include <sys/eventfd.h>
#include "contexts.h"
#include "memory.h"

static void hear(const char *wanted) {
    char line[32];
    CHECK(fgets(line, sizeof line, stdin) != NULL);
    CHECK(strncmp(line, wanted, strlen(wanted)) == 0);
}

static void say(const char *what) {
    puts(what);
    fflush(stdout);
}

static NTSTATUS enumerate(void) {
    D3DKMT_ENUMADAPTERS2 all;
    memset(&all, 0, sizeof all);
    return D3DKMTEnumAdapters2(&all);
}

static NTSTATUS new_device(D3DKMT_HANDLE adapter) {
    D3DKMT_CREATEDEVICE create;
    memset(&create, 0, sizeof create);
    create.hAdapter = adapter;
    return D3DKMTCreateDevice(&create);
}

/* Objects of one connection. */
struct objects {
    D3DKMT_HANDLE adapter, device, fence, mutex, global, context, queue, allocation;
    D3DGPU_VIRTUAL_ADDRESS reserved;
    HANDLE shared;
    const UINT64 *value;
    UINT64 *memory;
};

static struct objects create_objects(D3DKMT_HANDLE adapter) {
    struct objects made;
    memset(&made, 0, sizeof made);
    made.adapter = adapter;
    made.device = device = create_device(adapter);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = monitored_fence(device, 0x3, 0);
    made.fence = fence.hSyncObject;
    made.value = fence.Info.MonitoredFence.FenceValueCPUVirtualAddress;
    OK(D3DKMTShareObjects(1, &made.fence, NULL, D3DDDI_SYNC_OBJECT_ALL_ACCESS, &made.shared));
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 mutex = description(D3DDDI_SYNCHRONIZATION_MUTEX, 0x1);
    OK(D3DKMTCreateSynchronizationObject2(&mutex));
    made.mutex = mutex.hSyncObject;
    made.global = mutex.Info.SharedHandle;
    made.context = new_context();
    D3DKMT_CREATEPAGINGQUEUE queue;
    memset(&queue, 0, sizeof queue);
    queue.hDevice = device;
    OK(D3DKMTCreatePagingQueue(&queue));
    made.queue = queue.hPagingQueue;
    struct memory memory = allocate(4096, 0);
    made.allocation = memory.handle;
    made.memory = memory.cpu;
    D3DDDI_RESERVEGPUVIRTUALADDRESS reserve;
    memset(&reserve, 0, sizeof reserve);
    reserve.hPagingQueue = made.queue;
    reserve.Size = 1 << 16;
    OK(D3DKMTReserveGpuVirtualAddress(&reserve));
    made.reserved = reserve.VirtualAddress;
    return made;
}

static void work(const struct objects *objects) {
    UINT64 next = load(objects->value) + 1;
    OK(signal_cpu(objects->device, objects->fence, next));
    OK(wait_cpu(objects->device, objects->fence, next, 0));
    CHECK(load(objects->value) == next);
    store(&objects->memory[1], next);
    CHECK(load(&objects->memory[1]) == next);
    OK(wait_gpu(objects->context, objects->mutex, 0));
    OK(signal_gpu(objects->context, objects->mutex, 0));
}

static void are_removed(const struct objects *old) {
    IS(new_device(old->adapter), STATUS_DEVICE_REMOVED);
    IS(signal_cpu(old->device, old->fence, 100), STATUS_DEVICE_REMOVED);
    IS(wait_cpu(old->device, old->fence, 100, 0), STATUS_DEVICE_REMOVED);
    IS(wait_gpu(old->context, old->mutex, 0), STATUS_DEVICE_REMOVED);
    D3DKMT_LOCK2 lock = {old->device, old->allocation, 0, NULL};
    IS(D3DKMTLock2(&lock), STATUS_DEVICE_REMOVED);
    D3DKMT_GETDEVICESTATE state;
    memset(&state, 0, sizeof state);
    state.hDevice = old->device;
    state.StateType = D3DKMT_DEVICESTATE_EXECUTION;
    OK(D3DKMTGetDeviceState(&state));
    CHECK(state.ExecutionState == D3DKMT_DEVICEEXECUTION_STOPPED);
    /* Addresses stay valid. */
    load(old->value);
    store(&old->memory[2], load(&old->memory[1]));
}

/* Objects of two connections are not named in one call. */
static void are_apart(const struct objects *old, const struct objects *new) {
    IS(signal_cpu(new->device, old->fence, 100), STATUS_INVALID_PARAMETER);
    IS(wait_gpu(new->context, old->mutex, 0), STATUS_INVALID_PARAMETER);
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 open;
    memset(&open, 0, sizeof open);
    open.hNtHandle = old->shared;
    open.hDevice = new->device;
    IS(D3DKMTOpenSyncObjectFromNtHandle2(&open), STATUS_INVALID_HANDLE);
    D3DDDI_MAPGPUVIRTUALADDRESS map;
    memset(&map, 0, sizeof map);
    map.hPagingQueue = new->queue;
    map.hAllocation = old->allocation;
    IS(D3DKMTMapGpuVirtualAddress(&map), STATUS_INVALID_PARAMETER);
    D3DKMT_FREEGPUVIRTUALADDRESS free_range = {new->adapter, new->reserved, 1 << 17};
    IS(D3DKMTFreeGpuVirtualAddress(&free_range), STATUS_INVALID_PARAMETER);
}

static void destroy_objects(const struct objects *old, int one_by_one) {
    close((int)(intptr_t)old->shared);
    if (one_by_one) {
        destroy_fence(old->fence);
        D3DKMT_DESTROYSYNCHRONIZATIONOBJECT again = {old->fence};
        IS(D3DKMTDestroySynchronizationObject(&again), STATUS_INVALID_PARAMETER);
        destroy_context(old->context);
        D3DKMT_DESTROYALLOCATION2 destroy = {old->device, 0, &old->allocation, 1, 0};
        OK(D3DKMTDestroyAllocation2(&destroy));
        D3DKMT_FREEGPUVIRTUALADDRESS free_range = {old->adapter, old->reserved, 1 << 16};
        OK(D3DKMTFreeGpuVirtualAddress(&free_range));
        D3DDDI_DESTROYPAGINGQUEUE queue = {old->queue};
        OK(D3DKMTDestroyPagingQueue(&queue));
    }
    destroy_device(old->device);
    D3DKMT_DESTROYDEVICE again = {old->device};
    IS(D3DKMTDestroyDevice(&again), STATUS_INVALID_PARAMETER);
    close_adapter(old->adapter);
}

static D3DKMT_HANDLE open_again(LUID luid) {
    D3DKMT_OPENADAPTERFROMLUID open;
    memset(&open, 0, sizeof open);
    open.AdapterLuid = luid;
    OK(D3DKMTOpenAdapterFromLuid(&open));
    return open.hAdapter;
}

int main(void) {
    /* The service is not there yet. */
    IS(enumerate(), STATUS_OBJECT_NAME_NOT_FOUND);
    IS(enumerate(), STATUS_OBJECT_NAME_NOT_FOUND);
    say("absent");
    hear("there");
    D3DKMT_ADAPTERINFO info;
    D3DKMT_ENUMADAPTERS2 all = {1, &info};
    OK(D3DKMTEnumAdapters2(&all));
    struct objects objects = create_objects(info.hAdapter);
    int before = descriptors();
    for (int round = 0; round < 2; round++) {
        work(&objects);
        int event = eventfd(0, EFD_CLOEXEC);
        OK(wait_cpu(objects.device, objects.fence, 50, event));
        say("ready");
        hear("killed");
        struct pollfd polled = {event, POLLIN, 0};
        CHECK(poll(&polled, 1, -1) == 1);
        close(event);
        are_removed(&objects);
        IS(enumerate(), STATUS_OBJECT_NAME_NOT_FOUND);
        IS(enumerate(), STATUS_OBJECT_NAME_NOT_FOUND);
        are_removed(&objects);
        say("gone");
        hear("there");
        are_removed(&objects);
        D3DKMT_HANDLE adapter;
        if (round == 0) {
            adapter = open_again(info.AdapterLuid);
        } else {
            /* A call that names no adapter connects, too. */
            D3DKMT_OPENSYNCHRONIZATIONOBJECT open;
            memset(&open, 0, sizeof open);
            open.hSharedHandle = objects.global;
            IS(D3DKMTOpenSynchronizationObject(&open), STATUS_INVALID_PARAMETER);
            adapter = open_adapter();
        }
        struct objects new = create_objects(adapter);
        are_removed(&objects);
        are_apart(&objects, &new);
        work(&new);
        destroy_objects(&objects, round == 0);
        work(&new);
        objects = new;
        /* The ended connection has left nothing open. */
        no_descriptor_is_left(before);
    }
    destroy_objects(&objects, 1);
    say("restart: all checks hold");
    return 0;
}
