/* A queue in user mode: the GPU writes a value, and no call submits the work. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <tidegate_d3dkmt.h>

#define OK(call)                                                              \
    do {                                                                      \
        NTSTATUS status = (call);                                             \
        if (status != STATUS_SUCCESS) {                                       \
            fprintf(stderr, "%s returned %#010x\n", #call, (unsigned)status); \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

/* What engines read and write is stored and loaded whole, and in order. */
static void store(void *to, UINT64 value) { __atomic_store_n((UINT64 *)to, value, __ATOMIC_SEQ_CST); }
static UINT64 load(const void *from) { return __atomic_load_n((const UINT64 *)from, __ATOMIC_SEQ_CST); }

struct memory {
    D3DKMT_HANDLE handle;
    UINT64 gpu;  /* its address for engines */
    UINT64 *cpu; /* and for this program */
};

/* Kind 1 is for the control area of a ring, 0 for all else. */
static struct memory allocate(D3DKMT_HANDLE device, UINT64 bytes, UINT kind) {
    TIDEGATE_ALLOCATION_DATA data = {.Bytes = bytes, .Kind = kind};
    D3DDDI_ALLOCATIONINFO2 info = {.pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data};
    D3DKMT_CREATEALLOCATION create = {.hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
    OK(D3DKMTCreateAllocation2(&create));
    D3DKMT_LOCK2 lock = {.hDevice = device, .hAllocation = info.hAllocation};
    OK(D3DKMTLock2(&lock));
    return (struct memory){info.hAllocation, info.GpuVirtualAddress, lock.pData};
}

int main(void) {
    /* 1. An adapter, a device, a context, and a queue that takes its work from a ring. */
    D3DKMT_ADAPTERINFO adapters[MAX_ENUM_ADAPTERS];
    D3DKMT_ENUMADAPTERS2 all = {.NumAdapters = MAX_ENUM_ADAPTERS, .pAdapters = adapters};
    OK(D3DKMTEnumAdapters2(&all));
    D3DKMT_CREATEDEVICE device = {.hAdapter = adapters[0].hAdapter};
    OK(D3DKMTCreateDevice(&device));
    D3DKMT_CREATEHWCONTEXT context = {.hDevice = device.hDevice};
    OK(D3DKMTCreateHwContext(&context));
    D3DKMT_CREATEHWQUEUE queue = {.hHwContext = context.hHwContext, .Flags.UserModeSubmission = 1};
    OK(D3DKMTCreateHwQueue(&queue));

    /* 2. A ring of 16 slots of 64 bytes, its control area, and a doorbell. */
    struct memory ring = allocate(device.hDevice, 16 * 64, 0);
    struct memory control = allocate(device.hDevice, 16 * 8, 1);
    D3DKMT_CREATE_DOORBELL doorbell = {.hHwQueue = queue.hHwQueue,
                                       .hRingBuffer = ring.handle,
                                       .hRingBufferControl = control.handle};
    OK(D3DKMTCreateDoorbell(&doorbell));
    D3DKMT_CONNECT_DOORBELL connect = {.hDoorbell = doorbell.hDoorbell};
    OK(D3DKMTConnectDoorbell(&connect));

    /* 3. A command that writes a value, and a packet in the first slot that runs it. */
    struct memory commands = allocate(device.hDevice, 4096, 0);
    struct memory result = allocate(device.hDevice, 4096, 0);
    store(&commands.cpu[0], 6 | 3 << 16);
    store(&commands.cpu[1], result.gpu);
    store(&commands.cpu[2], 42);
    store(doorbell.HwQueueProgressFenceLastQueuedValueCPUVirtualAddress, 1);
    store(&ring.cpu[1], commands.gpu);
    store(&ring.cpu[2], 24);
    store(&ring.cpu[3], 1);
    store(&ring.cpu[0], 1 | 1 << 8);

    /* 4. The write pointer, and the doorbell: no call. */
    store(&control.cpu[0], 1);
    store(doorbell.DoorbellCPUVirtualAddress, 1);
    if (load(doorbell.DoorbellStatusCPUVirtualAddress) != D3DDDI_DOORBELLSTATUS_CONNECTED) {
        fprintf(stderr, "the doorbell was taken away: connect it again, and ring\n");
        return 1;
    }
    while (load(queue.HwQueueProgressFenceCPUVirtualAddress) < 1) sched_yield();
    printf("the GPU wrote %llu\n", (unsigned long long)load(result.cpu));

    D3DKMT_DESTROYDEVICE destroy = {.hDevice = device.hDevice};
    OK(D3DKMTDestroyDevice(&destroy));
    return 0;
}
