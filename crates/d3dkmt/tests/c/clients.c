/* What two public clients call, in their order: Microsoft's libdxgtest (microsoft/libdxgtest,
   src/main.cpp) and Intel's compute runtime (intel/compute-runtime, wddm.cpp and
   wddm_interface.cpp). */
#include <pthread.h>
#include "check.h"

#define WRITE_VALUE (6u | 3u << 16)

static D3DKMT_ADAPTERINFO adapters[MAX_ENUM_ADAPTERS];

static void query(KMTQUERYADAPTERINFOTYPE type, void *answer, UINT bytes) {
    D3DKMT_QUERYADAPTERINFO query = {adapters[0].hAdapter, type, answer, bytes};
    OK(D3DKMTQueryAdapterInfo(&query));
}

static D3DKMT_HANDLE create_context(D3DKMT_HANDLE device, UINT affinity, D3DKMT_CLIENTHINT hint,
                                    D3DDDI_CREATECONTEXTFLAGS flags) {
    UINT private_data[12] = {1, 2, 3};
    D3DKMT_CREATECONTEXTVIRTUAL create;
    memset(&create, 0, sizeof create);
    create.hDevice = device;
    create.EngineAffinity = affinity;
    create.ClientHint = hint;
    create.Flags = flags;
    create.pPrivateDriverData = private_data;
    create.PrivateDriverDataSize = sizeof private_data;
    OK(D3DKMTCreateContextVirtual(&create));
    CHECK(create.hContext != 0);
    return create.hContext;
}

static void *open_by_luid(void *status) {
    D3DKMT_OPENADAPTERFROMLUID open;
    memset(&open, 0, sizeof open);
    open.AdapterLuid = adapters[0].AdapterLuid;
    *(NTSTATUS *)status = D3DKMTOpenAdapterFromLuid(&open);
    if (*(NTSTATUS *)status == STATUS_SUCCESS) close_adapter(open.hAdapter);
    return NULL;
}

/* The five tests of libdxgtest. */
static void libdxgtest(D3DKMT_WDDM_2_7_CAPS caps) {
    NTSTATUS status = STATUS_PENDING;
    open_by_luid(&status); /* TestOpenAdapterFromLuid */
    OK(status);
    for (int i = 0; i < 5; i++) { /* TestCreateDevice */
        destroy_device(create_device(adapters[0].hAdapter));
    }
    pthread_t thread; /* TestCreateThread */
    status = STATUS_PENDING;
    CHECK(pthread_create(&thread, NULL, open_by_luid, &status) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    OK(status);
    D3DKMT_HANDLE device = create_device(adapters[0].hAdapter); /* TestCreateContext */
    D3DDDI_CREATECONTEXTFLAGS flags;
    memset(&flags, 0, sizeof flags);
    flags.HwQueueSupported = caps.HwSchEnabled;
    D3DKMT_DESTROYCONTEXT destroy = {create_context(device, 1, D3DKMT_CLIENTHINT_CDD, flags)};
    OK(D3DKMTDestroyContext(&destroy));
    IS(D3DKMTDestroyContext(&destroy), STATUS_INVALID_PARAMETER);
    destroy_device(device);
}

/* A context for hardware queues, one queue, work on it, and the end in the runtime's order. */
static void compute_runtime(D3DKMT_WDDM_2_7_CAPS caps) {
    CHECK(caps.HwSchEnabled);
    D3DKMT_HANDLE device = create_device(adapters[0].hAdapter);
    D3DDDI_CREATECONTEXTFLAGS flags;
    memset(&flags, 0, sizeof flags);
    flags.HwQueueSupported = 1;
    D3DKMT_HANDLE context = create_context(device, 0, D3DKMT_CLIENTHINT_OPENCL, flags);
    UINT64 private_data[4] = {5};
    D3DKMT_CREATEHWQUEUE queue;
    memset(&queue, 0, sizeof queue);
    queue.hHwContext = context;
    queue.pPrivateDriverData = private_data;
    queue.PrivateDriverDataSize = sizeof private_data;
    OK(D3DKMTCreateHwQueue(&queue));
    CHECK(queue.hHwQueue != 0 && queue.HwQueueProgressFenceCPUVirtualAddress != NULL);

    TIDEGATE_ALLOCATION_DATA data = {8192, 0, 0};
    D3DDDI_ALLOCATIONINFO2 info;
    D3DKMT_CREATEALLOCATION allocate;
    memset(&info, 0, sizeof info);
    memset(&allocate, 0, sizeof allocate);
    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof data;
    allocate.hDevice = device;
    allocate.NumAllocations = 1;
    allocate.pAllocationInfo2 = &info;
    OK(D3DKMTCreateAllocation2(&allocate));
    D3DKMT_LOCK2 lock = {device, info.hAllocation, 0, NULL};
    OK(D3DKMTLock2(&lock));
    UINT64 *memory = lock.pData;
    store(&memory[0], WRITE_VALUE);
    store(&memory[1], info.GpuVirtualAddress + 4096);
    store(&memory[2], 1234);
    D3DKMT_SUBMITCOMMANDTOHWQUEUE submit;
    memset(&submit, 0, sizeof submit);
    submit.hHwQueue = queue.hHwQueue;
    submit.HwQueueProgressFenceId = 1;
    submit.CommandBuffer = info.GpuVirtualAddress;
    submit.CommandLength = 24;
    OK(D3DKMTSubmitCommandToHwQueue(&submit));
    OK(wait_cpu(device, queue.hHwQueueProgressFence, 1, 0));
    CHECK(load(&memory[512]) == 1234);

    /* It takes no packets, and the call for hardware contexts does not end it. */
    D3DKMT_SUBMITCOMMAND packet;
    memset(&packet, 0, sizeof packet);
    packet.Commands = info.GpuVirtualAddress;
    packet.CommandLength = 24;
    packet.BroadcastContextCount = 1;
    packet.BroadcastContext[0] = context;
    IS(D3DKMTSubmitCommand(&packet), STATUS_INVALID_PARAMETER);
    D3DKMT_DESTROYHWCONTEXT other = {context};
    IS(D3DKMTDestroyHwContext(&other), STATUS_INVALID_PARAMETER);
    D3DKMT_DESTROYHWQUEUE destroy_queue = {queue.hHwQueue};
    OK(D3DKMTDestroyHwQueue(&destroy_queue));
    D3DKMT_DESTROYCONTEXT destroy = {context};
    OK(D3DKMTDestroyContext(&destroy));

    /* Work without a timeout needs the privilege to raise priorities, and so does a queue of a
       context that has the flag. */
    flags.DisableGpuTimeout = 1;
    queue.hHwContext = create_context(device, 0, D3DKMT_CLIENTHINT_OPENCL, flags);
    queue.Flags.Value = 0;
    queue.hHwQueue = 0;
    IS(D3DKMTCreateHwQueue(&queue), STATUS_ACCESS_DENIED);
    destroy.hContext = queue.hHwContext;
    OK(D3DKMTDestroyContext(&destroy));
    /* A hardware context is ended by its own call alone. */
    D3DKMT_CREATEHWCONTEXT create;
    memset(&create, 0, sizeof create);
    create.hDevice = device;
    OK(D3DKMTCreateHwContext(&create));
    destroy.hContext = create.hHwContext;
    IS(D3DKMTDestroyContext(&destroy), STATUS_INVALID_PARAMETER);
    destroy_device(device);
}

/* With the privilege the runtime has its queue as it asks for it: DisableGpuTimeout on both. */
static void privileged(void) {
    D3DKMT_HANDLE device = create_device(adapters[0].hAdapter);
    D3DDDI_CREATECONTEXTFLAGS flags;
    memset(&flags, 0, sizeof flags);
    flags.HwQueueSupported = 1;
    flags.DisableGpuTimeout = 1;
    D3DKMT_CREATEHWQUEUE queue;
    memset(&queue, 0, sizeof queue);
    queue.hHwContext = create_context(device, 0, D3DKMT_CLIENTHINT_OPENCL, flags);
    for (int i = 0; i < 2; i++) {
        queue.Flags.Value = 0;
        queue.Flags.DisableGpuTimeout = i & 1;
        OK(D3DKMTCreateHwQueue(&queue));
        CHECK(queue.hHwQueue != 0);
    }
    destroy_device(device);
}

int main(int argc, char **argv) {
    D3DKMT_ENUMADAPTERS3 all;
    memset(&all, 0, sizeof all);
    all.Filter.IncludeComputeOnly = 1;
    all.NumAdapters = MAX_ENUM_ADAPTERS;
    all.pAdapters = adapters;
    OK(D3DKMTEnumAdapters3(&all));
    CHECK(all.NumAdapters >= 1);
    D3DKMT_ADAPTERTYPE type;
    query(KMTQAITYPE_ADAPTERTYPE_RENDER, &type, sizeof type);
    CHECK(type.RenderSupported && type.SoftwareDevice && !type.Paravirtualized && !type.ComputeOnly);
    D3DKMT_QUERY_DEVICE_IDS ids;
    memset(&ids, 0, sizeof ids);
    query(KMTQAITYPE_PHYSICALADAPTERDEVICEIDS, &ids, sizeof ids);
    CHECK(ids.DeviceIds.VendorID == 0x1414 && ids.DeviceIds.DeviceID == 0x8C);
    D3DKMT_WDDM_2_7_CAPS caps;
    query(KMTQAITYPE_WDDM_2_7_CAPS, &caps, sizeof caps);
    static D3DKMT_DRIVER_DESCRIPTION description;
    query(KMTQAITYPE_DRIVER_DESCRIPTION, &description, sizeof description);
    CHECK(description.DriverDescription[0] != 0);
    if (PART("libdxgtest")) libdxgtest(caps);
    if (PART("compute-runtime")) compute_runtime(caps);
    if (argc > 1 && strcmp(argv[1], "privileged") == 0) privileged();
    puts("clients: all checks hold");
    return 0;
}
