/* Allocations, hardware queues fed by calls, and a user-mode queue with ring and doorbell. */
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "memory.h"

/* The software GPU's commands and ring packets; see docs/d3dkmt.md. */
#define WRITE_VALUE (6u | 3u << 16)
#define HANG (8u | 1u << 16)
#define EXECUTE (1u | 1u << 8)

/* Creates an allocation, and destroys it. */
static NTSTATUS create_described(TIDEGATE_ALLOCATION_DATA *data, UINT bytes) {
    D3DDDI_ALLOCATIONINFO2 info;
    D3DKMT_CREATEALLOCATION create;
    memset(&info, 0, sizeof info);
    memset(&create, 0, sizeof create);
    info.pPrivateDriverData = data;
    info.PrivateDriverDataSize = bytes;
    create.hDevice = device;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    NTSTATUS status = D3DKMTCreateAllocation2(&create);
    CHECK((status == STATUS_SUCCESS) == (info.hAllocation != 0));
    if (status == STATUS_SUCCESS) {
        D3DKMT_DESTROYALLOCATION2 destroy = {device, 0, &info.hAllocation, 1, 0};
        OK(D3DKMTDestroyAllocation2(&destroy));
    }
    return status;
}

static void release(struct memory memory) {
    D3DKMT_UNLOCK2 unlock = {device, memory.handle};
    OK(D3DKMTUnlock2(&unlock));
    D3DKMT_DESTROYALLOCATION2 destroy = {device, 0, &memory.handle, 1, 0};
    OK(D3DKMTDestroyAllocation2(&destroy));
    IS(D3DKMTDestroyAllocation2(&destroy), STATUS_INVALID_PARAMETER);
}

/* Writes the command that stores a value. */
static UINT write_value(UINT64 *at, D3DGPU_VIRTUAL_ADDRESS destination, UINT64 value) {
    store(&at[0], WRITE_VALUE);
    store(&at[1], destination);
    store(&at[2], value);
    return 24;
}

static D3DKMT_CREATEHWQUEUE hw_queue(D3DKMT_HANDLE context, UINT flags) {
    D3DKMT_CREATEHWQUEUE create;
    memset(&create, 0, sizeof create);
    create.hHwContext = context;
    create.Flags.Value = flags;
    OK(D3DKMTCreateHwQueue(&create));
    CHECK(create.hHwQueue != 0 && create.hHwQueueProgressFence != 0);
    CHECK(create.Flags.NativeProgressFence == 1);
    return create;
}

static NTSTATUS signal_queues(D3DKMT_HANDLE *queues, UINT count, D3DKMT_HANDLE fence, UINT64 value) {
    D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE signal;
    memset(&signal, 0, sizeof signal);
    signal.BroadcastHwQueueCount = count;
    signal.BroadcastHwQueueArray = queues;
    signal.ObjectCount = 1;
    signal.ObjectHandleArray = &fence;
    signal.FenceValueArray = &value;
    return D3DKMTSubmitSignalSyncObjectsToHwQueue(&signal);
}

static void broadcasts(D3DKMT_HANDLE context) {
    const UINT no_signal = 1u << 1, no_wait = 1u << 2;
    D3DKMT_HANDLE queues[3] = {
        hw_queue(context, 0).hHwQueue, hw_queue(context, no_wait).hHwQueue,
        hw_queue(context, no_signal | no_wait).hHwQueue,
    };
    D3DKMT_HANDLE gate = monitored_fence(device, 0, 0).hSyncObject;
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = monitored_fence(device, 0, 0);
    OK(signal_queues(queues, 2, fence.hSyncObject, 1));
    IS(signal_queues(queues, 3, fence.hSyncObject, 2), STATUS_INVALID_PARAMETER);
    OK(wait_cpu(device, fence.hSyncObject, 1, 0));
    UINT64 one = 1;
    D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE wait = {queues[1], 1, &gate, &one};
    OK(D3DKMTSubmitWaitForSyncObjectsToHwQueue(&wait));
    OK(signal_queues(&queues[1], 1, fence.hSyncObject, 2));
    CHECK(load(fence.Info.MonitoredFence.FenceValueCPUVirtualAddress) == 1);
    OK(signal_cpu(device, gate, 1));
    OK(wait_cpu(device, fence.hSyncObject, 2, 0));
    OK(signal_queues(&queues[2], 1, fence.hSyncObject, 3));
    OK(wait_cpu(device, fence.hSyncObject, 3, 0));
    for (int i = 0; i < 3; i++) {
        D3DKMT_DESTROYHWQUEUE destroy = {queues[i]};
        OK(D3DKMTDestroyHwQueue(&destroy));
    }
}

static void kernel_mode(D3DKMT_HANDLE context) {
    /* Work without a timeout needs a privilege, and a refused queue is not left. */
    D3DKMT_CREATEHWQUEUE endless;
    memset(&endless, 0, sizeof endless);
    endless.hHwContext = context;
    endless.Flags.DisableGpuTimeout = 1;
    IS(D3DKMTCreateHwQueue(&endless), STATUS_ACCESS_DENIED);
    CHECK(endless.hHwQueue == 0);
    /* NoBroadcastSignal and NoBroadcastWait: a signal of several queues does not name the first one, and a wait
       that names the second one holds it. */
    broadcasts(context);
    D3DKMT_CREATEHWQUEUE queue = hw_queue(context, 0);
    struct memory commands = allocate(4096, 0), result = allocate(4096, 0);
    D3DKMT_HANDLE gate = monitored_fence(device, 0, 0).hSyncObject;
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 done = monitored_fence(device, 0, 0);
    UINT64 one = 1, two = 2;

    D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE wait = {queue.hHwQueue, 1, &gate, &one};
    OK(D3DKMTSubmitWaitForSyncObjectsToHwQueue(&wait));
    D3DKMT_SUBMITCOMMANDTOHWQUEUE submit;
    memset(&submit, 0, sizeof submit);
    submit.hHwQueue = queue.hHwQueue;
    submit.HwQueueProgressFenceId = 1;
    submit.CommandBuffer = commands.gpu;
    submit.CommandLength = write_value(commands.cpu, result.gpu, 0x7469646567617465);
    OK(D3DKMTSubmitCommandToHwQueue(&submit));
    D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE signal;
    memset(&signal, 0, sizeof signal);
    signal.BroadcastHwQueueCount = 1;
    signal.BroadcastHwQueueArray = &queue.hHwQueue;
    signal.ObjectCount = 1;
    signal.ObjectHandleArray = &done.hSyncObject;
    signal.FenceValueArray = &two;
    OK(D3DKMTSubmitSignalSyncObjectsToHwQueue(&signal));
    CHECK(load(result.cpu) == 0 && load(queue.HwQueueProgressFenceCPUVirtualAddress) == 0);
    OK(signal_cpu(device, gate, 1));
    OK(wait_cpu(device, done.hSyncObject, 2, 0));
    CHECK(load(result.cpu) == 0x7469646567617465);
    CHECK(load(done.Info.MonitoredFence.FenceValueCPUVirtualAddress) == 2);
    OK(wait_cpu(device, queue.hHwQueueProgressFence, 1, 0));
    CHECK(load(queue.HwQueueProgressFenceCPUVirtualAddress) == 1);

    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT progress = {queue.hHwQueueProgressFence};
    IS(D3DKMTDestroySynchronizationObject(&progress), STATUS_INVALID_PARAMETER);
    D3DKMT_DESTROYHWQUEUE destroy = {queue.hHwQueue};
    OK(D3DKMTDestroyHwQueue(&destroy));
    IS(D3DKMTDestroyHwQueue(&destroy), STATUS_INVALID_PARAMETER);
    destroy_fence(gate);
    destroy_fence(done.hSyncObject);
    release(commands);
    release(result);
}

#define SLOTS 16

struct user_queue {
    D3DKMT_CREATEHWQUEUE queue;
    D3DKMT_CREATE_DOORBELL doorbell;
    struct memory ring, control;
    UINT64 written;
    void *bell;
};

/* Submissions that needed D3DKMTNotifyWorkSubmission. */
static int notified;

/* Puts a packet into the ring and rings until the doorbell has taken it: the published sequence. */
static void submit(struct user_queue *queue, const struct memory *commands, UINT bytes) {
    UINT64 progress = queue->written + 1;
    UINT64 *slot = queue->ring.cpu + queue->written % SLOTS * 8;
    store(queue->doorbell.HwQueueProgressFenceLastQueuedValueCPUVirtualAddress, progress);
    store(&slot[0], EXECUTE);
    store(&slot[1], commands->gpu);
    store(&slot[2], bytes);
    store(&slot[3], progress);
    store(&slot[4], 0);
    queue->written = progress;
    store(&queue->control.cpu[0], queue->written);
    for (;;) {
        store(queue->bell, queue->written);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        switch (load(queue->doorbell.DoorbellStatusCPUVirtualAddress)) {
        case D3DDDI_DOORBELLSTATUS_CONNECTED:
            return;
        case D3DDDI_DOORBELLSTATUS_CONNECTED_NOTIFY_KMD: {
            D3DKMT_NOTIFY_WORK_SUBMISSION notify = {queue->doorbell.hDoorbell, 0};
            OK(D3DKMTNotifyWorkSubmission(&notify));
            notified++;
            return;
        }
        case D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY: {
            D3DKMT_CONNECT_DOORBELL connect = {queue->doorbell.hDoorbell, 0};
            OK(D3DKMTConnectDoorbell(&connect));
            break;
        }
        default:
            CHECK(!"the queue was given up");
        }
    }
}

/* A queue that rings its doorbell, or the secondary one. */
static void user_mode(D3DKMT_HANDLE context, UINT secondary) {
    struct user_queue user;
    memset(&user, 0, sizeof user);
    user.queue = hw_queue(context, 1u << 4);
    user.ring = allocate(SLOTS * 64, 0);
    user.control = allocate(16 * 8, 1);
    BYTE private_data[16] = {1, 2, 3};
    user.doorbell.hHwQueue = user.queue.hHwQueue;
    user.doorbell.hRingBuffer = user.ring.handle;
    user.doorbell.hRingBufferControl = user.control.handle;
    user.doorbell.PrivateDriverData = private_data;
    user.doorbell.PrivateDriverDataSize = sizeof private_data;
    user.doorbell.Flags.RequireSecondaryCpuVA = secondary;
    OK(D3DKMTCreateDoorbell(&user.doorbell));
    CHECK(load(user.doorbell.DoorbellStatusCPUVirtualAddress) == D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY);
    CHECK(user.doorbell.DoorbellCPUVirtualAddress != NULL);
    CHECK((user.doorbell.DoorbellSecondaryCPUVirtualAddress != NULL) == secondary);
    user.bell = secondary ? user.doorbell.DoorbellSecondaryCPUVirtualAddress
                          : user.doorbell.DoorbellCPUVirtualAddress;

    D3DKMT_GETNATIVEFENCELOGDETAIL logs;
    memset(&logs, 0, sizeof logs);
    logs.hHwQueue = user.queue.hHwQueue;
    OK(D3DKMTGetNativeFenceLogDetail(&logs));
    CHECK(logs.WaitLogNumberOfEntries >= 84 && logs.SignalLogNumberOfEntries >= 84);
    CHECK(logs.WaitLogGpuBaseAddress != 0 && logs.SignalLogGpuBaseAddress != logs.WaitLogGpuBaseAddress);
    logs.Flags = 1;
    IS(D3DKMTGetNativeFenceLogDetail(&logs), STATUS_INVALID_PARAMETER);

    /* A user-mode queue takes no work by call. */
    struct memory commands = allocate(4096, 0), result = allocate(4096, 0);
    D3DKMT_SUBMITCOMMANDTOHWQUEUE refused;
    memset(&refused, 0, sizeof refused);
    refused.hHwQueue = user.queue.hHwQueue;
    refused.HwQueueProgressFenceId = 1;
    refused.CommandBuffer = commands.gpu;
    refused.CommandLength = 24;
    IS(D3DKMTSubmitCommandToHwQueue(&refused), STATUS_INVALID_PARAMETER);

    /* Each second packet is waited for without a call. */
    for (UINT64 n = 1; n <= 3 * SLOTS; n++) {
        UINT bytes = write_value(commands.cpu, result.gpu, 100 + n);
        submit(&user, &commands, bytes);
        if (n % 2 == 1) OK(wait_cpu(device, user.queue.hHwQueueProgressFence, n, 0));
        while (load(user.queue.HwQueueProgressFenceCPUVirtualAddress) < n) sched_yield();
        CHECK(load(user.queue.HwQueueProgressFenceCPUVirtualAddress) == n);
        CHECK(load(result.cpu) == 100 + n);
    }

    /* Clients of a service take doorbells from each other. */
    CHECK(notified == 0 || *getenv("TIDEGATE_SOCKET"));
    /* A notification that is not needed does no harm. */
    D3DKMT_NOTIFY_WORK_SUBMISSION notify = {user.doorbell.hDoorbell, 0};
    OK(D3DKMTNotifyWorkSubmission(&notify));
    CHECK(load(user.queue.HwQueueProgressFenceCPUVirtualAddress) == 3 * SLOTS);

    D3DKMT_DESTROYHWQUEUE destroy = {user.queue.hHwQueue};
    IS(D3DKMTDestroyHwQueue(&destroy), STATUS_INVALID_PARAMETER); /* it has a doorbell */
    D3DKMT_DESTROY_DOORBELL destroy_doorbell = {user.doorbell.hDoorbell};
    OK(D3DKMTDestroyDoorbell(&destroy_doorbell));
    IS(D3DKMTDestroyDoorbell(&destroy_doorbell), STATUS_INVALID_PARAMETER);
    OK(D3DKMTDestroyHwQueue(&destroy));
    release(user.ring);
    release(user.control);
    release(commands);
    release(result);
}

/* A context for packets: waits and signals of the context, and a command between them. */
static void packets(void) {
    D3DKMT_CREATECONTEXTVIRTUAL context;
    memset(&context, 0, sizeof context);
    context.hDevice = device;
    /* For tests of the kernel, or reserved. */
    for (UINT bit = 0; bit < 32; bit++) {
        D3DKMT_CREATECONTEXTVIRTUAL refused = context;
        refused.Flags.Value = (UINT)1 << bit;
        if (bit >= 6) {
            IS(D3DKMTCreateContextVirtual(&refused), STATUS_INVALID_PARAMETER);
        }
    }
    OK(D3DKMTCreateContextVirtual(&context));
    struct memory commands = allocate(4096, 0), result = allocate(4096, 0);
    D3DKMT_HANDLE fence = monitored_fence(device, 0, 0).hSyncObject;
    UINT64 one = 1, two = 2;
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU wait;
    memset(&wait, 0, sizeof wait);
    wait.hContext = context.hContext;
    wait.ObjectCount = 1;
    wait.ObjectHandleArray = &fence;
    wait.MonitoredFenceValueArray = &one;
    OK(D3DKMTWaitForSynchronizationObjectFromGpu(&wait));
    D3DKMT_SUBMITCOMMAND submit;
    memset(&submit, 0, sizeof submit);
    submit.Commands = commands.gpu;
    submit.CommandLength = write_value(commands.cpu, result.gpu, 77);
    submit.BroadcastContextCount = 1;
    submit.BroadcastContext[0] = context.hContext;
    OK(D3DKMTSubmitCommand(&submit));
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU signal;
    memset(&signal, 0, sizeof signal);
    signal.hContext = context.hContext;
    signal.ObjectCount = 1;
    signal.ObjectHandleArray = &fence;
    signal.MonitoredFenceValueArray = &two;
    OK(D3DKMTSignalSynchronizationObjectFromGpu(&signal));
    CHECK(load(result.cpu) == 0);
    OK(signal_cpu(device, fence, 1));
    OK(wait_cpu(device, fence, 2, 0));
    CHECK(load(result.cpu) == 77);

    /* One packet of two contexts: made when both have reached it. */
    D3DKMT_CREATECONTEXTVIRTUAL other = context;
    OK(D3DKMTCreateContextVirtual(&other));
    UINT64 three = 3, four = 4;
    wait.hContext = other.hContext;
    wait.MonitoredFenceValueArray = &three;
    OK(D3DKMTWaitForSynchronizationObjectFromGpu(&wait));
    D3DKMT_HANDLE both[2] = {context.hContext, other.hContext};
    D3DKMT_HANDLE joined = monitored_fence(device, 0, 0).hSyncObject;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU2 signal2;
    memset(&signal2, 0, sizeof signal2);
    signal2.ObjectCount = 1;
    signal2.ObjectHandleArray = &joined;
    signal2.BroadcastContextCount = 2;
    signal2.BroadcastContextArray = both;
    signal2.MonitoredFenceValueArray = &four;
    OK(D3DKMTSignalSynchronizationObjectFromGpu2(&signal2));
    int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    OK(wait_cpu(device, joined, 4, event));
    UINT64 count = 0;
    CHECK(read(event, &count, sizeof count) < 0);
    /* An event in the order of the contexts. */
    int queued = eventfd(0, EFD_CLOEXEC);
    signal2.ObjectCount = 0;
    signal2.Flags.EnqueueCpuEvent = 1;
    signal2.CpuEventHandle = (HANDLE)(intptr_t)queued;
    OK(D3DKMTSignalSynchronizationObjectFromGpu2(&signal2));
    OK(signal_cpu(device, fence, 3));
    OK(wait_cpu(device, joined, 4, 0));
    CHECK(read(queued, &count, sizeof count) == sizeof count && count == 1);
    signal2.BroadcastContextCount = 65;
    IS(D3DKMTSignalSynchronizationObjectFromGpu2(&signal2), STATUS_INVALID_PARAMETER);
    close(event);
    close(queued);
    destroy_fence(joined);
    D3DKMT_DESTROYCONTEXT destroy_other = {other.hContext};
    OK(D3DKMTDestroyContext(&destroy_other));
    D3DKMT_DESTROYCONTEXT destroy = {context.hContext};
    OK(D3DKMTDestroyContext(&destroy));
    destroy_fence(fence);
    release(commands);
    release(result);
}

static void residency(D3DKMT_HANDLE adapter) {
    D3DKMT_CREATEPAGINGQUEUE paging;
    memset(&paging, 0, sizeof paging);
    paging.hDevice = device;
    OK(D3DKMTCreatePagingQueue(&paging));
    struct memory memory = allocate(1 << 16, 0);
    D3DDDI_MAKERESIDENT resident;
    memset(&resident, 0, sizeof resident);
    resident.hPagingQueue = paging.hPagingQueue;
    resident.NumAllocations = 1;
    resident.AllocationList = &memory.handle;
    NTSTATUS status = D3DKMTMakeResident(&resident);
    CHECK(status == STATUS_SUCCESS || status == STATUS_PENDING);
    OK(wait_cpu(device, paging.hSyncObject, resident.PagingFenceValue, 0));
    CHECK(load(paging.FenceValueCPUVirtualAddress) >= resident.PagingFenceValue);
    D3DKMT_EVICT evict;
    memset(&evict, 0, sizeof evict);
    evict.hDevice = device;
    evict.NumAllocations = 1;
    evict.AllocationList = &memory.handle;
    OK(D3DKMTEvict(&evict));
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT progress = {paging.hSyncObject};
    IS(D3DKMTDestroySynchronizationObject(&progress), STATUS_INVALID_PARAMETER);
    D3DKMT_QUERYVIDEOMEMORYINFO info;
    memset(&info, 0, sizeof info);
    info.hAdapter = adapter;
    OK(D3DKMTQueryVideoMemoryInfo(&info));
    CHECK(info.Budget > 0);
    D3DDDI_DESTROYPAGINGQUEUE destroy = {paging.hPagingQueue};
    OK(D3DKMTDestroyPagingQueue(&destroy));
    release(memory);
}

#define TILE 65536

/* Runs one command buffer that stores a value, on a queue of its own progress. */
static void store_by_gpu(D3DKMT_CREATEHWQUEUE *queue, struct memory *commands, UINT64 progress,
                         D3DGPU_VIRTUAL_ADDRESS destination, UINT64 value) {
    D3DKMT_SUBMITCOMMANDTOHWQUEUE submit;
    memset(&submit, 0, sizeof submit);
    submit.hHwQueue = queue->hHwQueue;
    submit.HwQueueProgressFenceId = progress;
    submit.CommandBuffer = commands->gpu;
    submit.CommandLength = write_value(commands->cpu, destination, value);
    OK(D3DKMTSubmitCommandToHwQueue(&submit));
    OK(wait_cpu(device, queue->hHwQueueProgressFence, progress, 0));
}

static void addresses(D3DKMT_HANDLE adapter, D3DKMT_HANDLE context) {
    D3DKMT_CREATEHWQUEUE queue = hw_queue(context, 0);
    struct memory commands = allocate(4096, 0), first = allocate(2 * TILE, 0), second = allocate(TILE, 0);
    D3DKMT_CREATEPAGINGQUEUE paging;
    memset(&paging, 0, sizeof paging);
    paging.hDevice = device;
    OK(D3DKMTCreatePagingQueue(&paging));
    D3DDDI_RESERVEGPUVIRTUALADDRESS reserve;
    memset(&reserve, 0, sizeof reserve);
    reserve.hPagingQueue = paging.hPagingQueue;
    IS(D3DKMTReserveGpuVirtualAddress(&reserve), STATUS_INVALID_PARAMETER);
    reserve.Size = 4 * TILE;
    OK(D3DKMTReserveGpuVirtualAddress(&reserve));
    D3DGPU_VIRTUAL_ADDRESS base = reserve.VirtualAddress;
    CHECK(base != 0 && base % TILE == 0);
    /* Addresses of 4 KiB in between do not shift the next reservation. */
    struct memory between = allocate(4096, 0);
    reserve.Size = TILE - 4096;
    OK(D3DKMTReserveGpuVirtualAddress(&reserve));
    CHECK(reserve.VirtualAddress % TILE == 0);
    D3DKMT_FREEGPUVIRTUALADDRESS release_second = {adapter, reserve.VirtualAddress, TILE};
    OK(D3DKMTFreeGpuVirtualAddress(&release_second));
    release(between);

    D3DDDI_MAPGPUVIRTUALADDRESS map;
    memset(&map, 0, sizeof map);
    map.hPagingQueue = paging.hPagingQueue;
    map.hAllocation = first.handle;
    OK(D3DKMTMapGpuVirtualAddress(&map));
    CHECK(map.VirtualAddress == first.gpu);
    map.BaseAddress = base + TILE;
    map.OffsetInPages = 16;
    map.SizeInPages = 16;
    map.Protection.Write = 1;
    OK(D3DKMTMapGpuVirtualAddress(&map));
    CHECK(map.VirtualAddress == base + TILE);
    store_by_gpu(&queue, &commands, 1, base + TILE + 8, 31);
    CHECK(load(first.cpu + TILE / 8 + 1) == 31);
    map.OffsetInPages = 17;
    IS(D3DKMTMapGpuVirtualAddress(&map), STATUS_INVALID_PARAMETER);
    map.OffsetInPages = 0;
    map.BaseAddress = base + 4 * TILE;
    IS(D3DKMTMapGpuVirtualAddress(&map), STATUS_INVALID_PARAMETER);
    /* Without an allocation the addresses lead nowhere, which the protection has to say. */
    memset(&map, 0, sizeof map);
    map.hPagingQueue = paging.hPagingQueue;
    map.PagingFenceValue = 5;
    map.BaseAddress = base + 2 * TILE;
    map.SizeInPages = 16;
    IS(D3DKMTMapGpuVirtualAddress(&map), STATUS_NOT_SUPPORTED);
    map.Protection.NoAccess = 1;
    OK(D3DKMTMapGpuVirtualAddress(&map));
    CHECK(map.VirtualAddress == base + 2 * TILE && map.PagingFenceValue == 0);

    /* An update in the order of a fence. */
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = monitored_fence(device, 0, 0);
    D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION operations[2];
    memset(operations, 0, sizeof operations);
    operations[0].OperationType = D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP;
    operations[0].Map.BaseAddress = base + TILE;
    operations[0].Map.SizeInBytes = TILE;
    operations[0].Map.hAllocation = second.handle;
    operations[1].OperationType = D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP;
    operations[1].Unmap.BaseAddress = base;
    operations[1].Unmap.SizeInBytes = TILE;
    D3DKMT_UPDATEGPUVIRTUALADDRESS update;
    memset(&update, 0, sizeof update);
    update.hDevice = device;
    update.hContext = context;
    update.hFenceObject = fence.hSyncObject;
    update.NumOperations = 2;
    update.Operations = operations;
    update.FenceValue = 1;
    OK(D3DKMTUpdateGpuVirtualAddress(&update));
    store_by_gpu(&queue, &commands, 2, base + TILE + 8, 32);
    CHECK(load(first.cpu + TILE / 8 + 1) == 32);
    OK(signal_cpu(device, fence.hSyncObject, 1));
    OK(wait_cpu(device, fence.hSyncObject, 2, 0));
    store_by_gpu(&queue, &commands, 3, base + TILE + 8, 33);
    CHECK(load(first.cpu + TILE / 8 + 1) == 32 && load(second.cpu + 1) == 33);
    update.Flags = 1; /* DoNotWait */
    IS(D3DKMTUpdateGpuVirtualAddress(&update), STATUS_NOT_SUPPORTED);
    update.Flags = 0;
    operations[1].OperationType = D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY;
    IS(D3DKMTUpdateGpuVirtualAddress(&update), STATUS_NOT_SUPPORTED);
    update.NumOperations = 0;
    IS(D3DKMTUpdateGpuVirtualAddress(&update), STATUS_INVALID_PARAMETER);

    D3DKMT_FREEGPUVIRTUALADDRESS release_addresses = {adapter, base, 4 * TILE};
    OK(D3DKMTFreeGpuVirtualAddress(&release_addresses));
    IS(D3DKMTFreeGpuVirtualAddress(&release_addresses), STATUS_INVALID_PARAMETER);
    D3DKMT_FREEGPUVIRTUALADDRESS unmap = {adapter, first.gpu, 2 * TILE};
    OK(D3DKMTFreeGpuVirtualAddress(&unmap));
    destroy_fence(fence.hSyncObject);
    D3DKMT_DESTROYHWQUEUE destroy = {queue.hHwQueue};
    OK(D3DKMTDestroyHwQueue(&destroy));
    D3DDDI_DESTROYPAGINGQUEUE destroy_paging = {paging.hPagingQueue};
    OK(D3DKMTDestroyPagingQueue(&destroy_paging));
    release(commands);
    release(first);
    release(second);
}

static D3DKMT_GETDEVICESTATE state_of(D3DKMT_HANDLE of, D3DKMT_DEVICESTATE_TYPE type) {
    D3DKMT_GETDEVICESTATE state;
    memset(&state, 0, sizeof state);
    state.hDevice = of;
    state.StateType = type;
    OK(D3DKMTGetDeviceState(&state));
    return state;
}

static NTSTATUS debug_timeouts(D3DKMT_HANDLE adapter, const void *data, UINT bytes) {
    D3DKMT_ESCAPE escape;
    memset(&escape, 0, sizeof escape);
    escape.hAdapter = adapter;
    escape.Type = D3DKMT_ESCAPE_TDRDBGCTRL;
    escape.pPrivateDriverData = (void *)(uintptr_t)data;
    escape.PrivateDriverDataSize = bytes;
    return D3DKMTEscape(&escape);
}

/* A device whose work hangs an engine of this node, until a simulated timeout. Returns its state. */
static D3DKMT_DEVICEEXECUTION_STATE state_after(D3DKMT_HANDLE adapter, const void *data, UINT bytes,
                                                UINT node) {
    D3DKMT_HANDLE before = device, lost = device = create_device(adapter);
    D3DKMT_CREATEHWCONTEXT context;
    memset(&context, 0, sizeof context);
    context.hDevice = lost;
    context.NodeOrdinal = node;
    OK(D3DKMTCreateHwContext(&context));
    D3DKMT_CREATEHWQUEUE queue = hw_queue(context.hHwContext, 0);
    struct memory commands = allocate(4096, 0), begun = allocate(4096, 0);
    D3DKMT_SUBMITCOMMANDTOHWQUEUE submit;
    memset(&submit, 0, sizeof submit);
    submit.hHwQueue = queue.hHwQueue;
    submit.HwQueueProgressFenceId = 1;
    submit.CommandBuffer = commands.gpu;
    submit.CommandLength = write_value(commands.cpu, begun.gpu, 1) + 8;
    store(commands.cpu + 3, HANG);
    CHECK(state_of(lost, D3DKMT_DEVICESTATE_EXECUTION).ExecutionState == D3DKMT_DEVICEEXECUTION_ACTIVE);
    OK(D3DKMTSubmitCommandToHwQueue(&submit));
    while (load(begun.cpu) != 1) sched_yield();
    OK(debug_timeouts(adapter, data, bytes));
    IS(wait_cpu(device, queue.hHwQueueProgressFence, 1, 0), STATUS_DEVICE_REMOVED);
    IS(D3DKMTSubmitCommandToHwQueue(&submit), STATUS_DEVICE_REMOVED);
    /* No desktop is switched. */
    D3DKMT_GETDEVICESTATE reset = state_of(lost, D3DKMT_DEVICESTATE_RESET);
    UINT64 none = 0;
    CHECK(memcmp(&reset.ExecutionState, &none, sizeof none) == 0);
    D3DKMT_DEVICEEXECUTION_STATE state = state_of(lost, D3DKMT_DEVICESTATE_EXECUTION).ExecutionState;
    destroy_device(lost);
    device = before;
    return state;
}

/* The simulated timeouts: D3DKMT_TDRDBGCTRLTYPE, and DXGK_TDR_TYPE_FORCED for an escape without data. */
static void recoveries(D3DKMT_HANDLE adapter, D3DKMT_HANDLE idle) {
    D3DKMT_TDRDBGCTRL_ESCAPE control = {D3DKMT_TDRDBGCTRLTYPE_UNCONDITIONAL, 0};
    OK(debug_timeouts(adapter, &control, sizeof control));
    /* The adapter is reset, and no device is to blame. */
    static const D3DKMT_TDRDBGCTRLTYPE of_adapter[] = {
        D3DKMT_TDRDBGCTRLTYPE_FORCETDR, D3DKMT_TDRDBGCTRLTYPE_GPUTDR,
    };
    CHECK(state_after(adapter, NULL, 0, 0) == D3DKMT_DEVICEEXECUTION_RESET);
    for (int i = 0; i < 2; i++) {
        control.TdrControl = of_adapter[i];
        CHECK(state_after(adapter, &control, sizeof control, 0) == D3DKMT_DEVICEEXECUTION_RESET);
        /* Without a node, as in Windows 7. */
        CHECK(state_after(adapter, &control, 4, 1) == D3DKMT_DEVICEEXECUTION_RESET);
    }
    /* The engine is reset, and its work is to blame. */
    control.TdrControl = D3DKMT_TDRDBGCTRLTYPE_ENGINETDR;
    for (control.NodeOrdinal = 0; control.NodeOrdinal < 2; control.NodeOrdinal++) {
        D3DKMT_DEVICEEXECUTION_STATE state = state_after(adapter, &control, sizeof control, control.NodeOrdinal);
        CHECK(state == D3DKMT_DEVICEEXECUTION_HUNG);
    }
    IS(debug_timeouts(adapter, &control, 4), STATUS_INVALID_PARAMETER);
    control.NodeOrdinal = 99;
    IS(debug_timeouts(adapter, &control, sizeof control), STATUS_INVALID_PARAMETER);
    IS(debug_timeouts(adapter, &control, 3), STATUS_INVALID_PARAMETER);
    IS(debug_timeouts(adapter, NULL, sizeof control), STATUS_INVALID_PARAMETER);
    control.TdrControl = (D3DKMT_TDRDBGCTRLTYPE)9;
    IS(debug_timeouts(adapter, &control, sizeof control), STATUS_INVALID_PARAMETER);
    /* This adapter has no display. */
    static const D3DKMT_TDRDBGCTRLTYPE of_display[] = {
        D3DKMT_TDRDBGCTRLTYPE_VSYNCTDR, D3DKMT_TDRDBGCTRLTYPE_FORCEDODTDR,
        D3DKMT_TDRDBGCTRLTYPE_FORCEDODVSYNCTDR,
    };
    for (int i = 0; i < 3; i++) {
        control.TdrControl = of_display[i];
        IS(debug_timeouts(adapter, &control, sizeof control), STATUS_NOT_SUPPORTED);
    }
    CHECK(state_of(idle, D3DKMT_DEVICESTATE_EXECUTION).ExecutionState == D3DKMT_DEVICEEXECUTION_ACTIVE);
    D3DKMT_HANDLE after = create_device(adapter);
    CHECK(state_of(after, D3DKMT_DEVICESTATE_EXECUTION).ExecutionState == D3DKMT_DEVICEEXECUTION_ACTIVE);
    destroy_device(after);
}

/* Work that faults, and work that hangs until the adapter is reset: their devices are lost. */
static void faults(D3DKMT_HANDLE adapter) {
    D3DKMT_HANDLE healthy = device;
    device = create_device(adapter);
    D3DKMT_CREATEHWCONTEXT context;
    memset(&context, 0, sizeof context);
    context.hDevice = device;
    OK(D3DKMTCreateHwContext(&context));
    D3DKMT_CREATEHWQUEUE queue = hw_queue(context.hHwContext, 0);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = monitored_fence(device, 0, 0);
    struct memory commands = allocate(4096, 0);
    D3DKMT_SUBMITCOMMANDTOHWQUEUE submit;
    memset(&submit, 0, sizeof submit);
    submit.hHwQueue = queue.hHwQueue;
    submit.HwQueueProgressFenceId = 1;
    submit.CommandBuffer = commands.gpu;
    submit.CommandLength = write_value(commands.cpu, 0x7F0000001000, 1);
    OK(D3DKMTSubmitCommandToHwQueue(&submit));
    IS(wait_cpu(device, queue.hHwQueueProgressFence, 1, 0), STATUS_DEVICE_REMOVED);
    CHECK(state_of(device, D3DKMT_DEVICESTATE_EXECUTION).ExecutionState ==
          D3DKMT_DEVICEEXECUTION_ERROR_DMAPAGEFAULT);
    D3DKMT_GETDEVICESTATE fault = state_of(device, D3DKMT_DEVICESTATE_PAGE_FAULT);
    CHECK(fault.PageFaultState.FaultedVirtualAddress == 0x7F0000001000);
    CHECK((fault.PageFaultState.PageFaultFlags & 1) != 0); /* a store */
    /* The fences of a lost device are raised one after the other. */
    while (load(fence.Info.MonitoredFence.FenceValueCPUVirtualAddress) != UINT64_MAX) sched_yield();
    IS(D3DKMTSubmitCommandToHwQueue(&submit), STATUS_DEVICE_REMOVED);
    destroy_device(device);

    device = healthy;
    CHECK(state_of(device, D3DKMT_DEVICESTATE_EXECUTION).ExecutionState == D3DKMT_DEVICEEXECUTION_ACTIVE);
    recoveries(adapter, healthy);
}

/* Descriptions that describe no allocation, and a control area that would move. */
static void descriptions(void) {
    static const TIDEGATE_ALLOCATION_DATA refused[] = {
        {0, 0, 0}, {4096, 2, 0}, {4096, 0, 3}, {4096, 1, 1}, {4096, 1, 2},
    };
    for (int i = 0; i < 5; i++) {
        TIDEGATE_ALLOCATION_DATA data = refused[i];
        IS(create_described(&data, sizeof data), i < 3 ? STATUS_INVALID_PARAMETER : STATUS_NOT_SUPPORTED);
    }
    TIDEGATE_ALLOCATION_DATA right[2] = {{4096, 0, 0}, {4096, 0, 0}};
    IS(create_described(right, sizeof *right - 1), STATUS_INVALID_PARAMETER);
    IS(create_described(right, sizeof *right + 1), STATUS_INVALID_PARAMETER);
    IS(create_described(NULL, sizeof *right), STATUS_INVALID_PARAMETER);
    OK(create_described(right, sizeof *right));
}

/* A resource of two allocations. */
static void resources(void) {
    TIDEGATE_ALLOCATION_DATA data = {10000, 0, 0};
    D3DDDI_ALLOCATIONINFO2 infos[2];
    D3DKMT_CREATEALLOCATION create;
    memset(infos, 0, sizeof infos);
    memset(&create, 0, sizeof create);
    for (int i = 0; i < 2; i++) {
        infos[i].pPrivateDriverData = &data;
        infos[i].PrivateDriverDataSize = sizeof data;
    }
    create.hDevice = device;
    create.Flags.CreateResource = 1;
    create.NumAllocations = 2;
    create.pAllocationInfo2 = infos;
    OK(D3DKMTCreateAllocation2(&create));
    CHECK(create.hResource != 0 && infos[0].hAllocation != infos[1].hAllocation);
    D3DKMT_LOCK2 lock = {device, infos[1].hAllocation, 0, NULL};
    OK(D3DKMTLock2(&lock));
    memset(lock.pData, 0x5A, 10000);
    D3DKMT_DESTROYALLOCATION2 destroy = {device, create.hResource, NULL, 0, 0};
    OK(D3DKMTDestroyAllocation2(&destroy));
    IS(D3DKMTLock2(&lock), STATUS_INVALID_PARAMETER);
    /* As on Windows (Wine's test_D3DKMTCreateAllocation), a call that makes a resource names none. */
    IS(D3DKMTCreateAllocation2(&create), STATUS_INVALID_HANDLE);
    create.hResource = 0;
    /* More than there can be, in this process and over a service. */
    data.Bytes = (UINT64)1 << 40;
    IS(D3DKMTCreateAllocation2(&create), STATUS_NO_MEMORY);
}

static void priorities(D3DKMT_HANDLE context) {
    D3DKMT_SETCONTEXTSCHEDULINGPRIORITY priority = {context, -3};
    OK(D3DKMTSetContextSchedulingPriority(&priority));
    priority.Priority = 99;
    OK(D3DKMTGetContextSchedulingPriority(&priority));
    CHECK(priority.Priority == -3);
    priority.Priority = 1; /* needs a privilege */
    IS(D3DKMTSetContextSchedulingPriority(&priority), STATUS_ACCESS_DENIED);
    D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY inside = {context, 5};
    OK(D3DKMTSetContextInProcessSchedulingPriority(&inside));
    inside.Priority = 8;
    IS(D3DKMTSetContextInProcessSchedulingPriority(&inside), STATUS_INVALID_PARAMETER);
    OK(D3DKMTGetContextInProcessSchedulingPriority(&inside));
    CHECK(inside.Priority == 5);
    priority.hContext = device;
    IS(D3DKMTSetContextSchedulingPriority(&priority), STATUS_INVALID_PARAMETER);
}

int main(int argc, char **argv) {
    D3DKMT_HANDLE adapter = open_adapter();
    int before = descriptors();
    device = create_device(adapter);
    D3DKMT_CREATEHWCONTEXT context;
    memset(&context, 0, sizeof context);
    context.hDevice = device;
    context.NodeOrdinal = 1;
    OK(D3DKMTCreateHwContext(&context));
    if (PART("kernel-mode")) kernel_mode(context.hHwContext);
    if (PART("user-mode")) {
        user_mode(context.hHwContext, 0);
        user_mode(context.hHwContext, 1);
    }
    if (PART("addresses")) addresses(adapter, context.hHwContext);
    if (PART("priorities")) priorities(context.hHwContext);
    D3DKMT_DESTROYHWCONTEXT destroy = {context.hHwContext};
    OK(D3DKMTDestroyHwContext(&destroy));
    if (PART("packets")) packets();
    if (PART("residency")) residency(adapter);
    if (PART("descriptions")) descriptions();
    if (PART("resources")) resources();
    if (PART("faults")) faults(adapter);
    destroy_device(device);
    close_adapter(adapter);
    no_descriptor_is_left(before);
    puts("queues: all checks hold");
    return 0;
}
