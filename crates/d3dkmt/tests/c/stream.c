/* A stream of submissions of one user-mode queue. Between the connected doorbell and the last value
   of the progress fence the program makes no call. Its argument is the number of submissions. */
#include "memory.h"

#define WRITE_VALUE (6u | 3u << 16)
#define EXECUTE (1u | 1u << 8)
#define SLOTS 16u

int main(int argc, char **argv) {
    CHECK(argc == 2);
    UINT64 count = strtoull(argv[1], NULL, 10);
    D3DKMT_HANDLE adapter = open_adapter();
    device = create_device(adapter);
    D3DKMT_CREATEHWCONTEXT context;
    memset(&context, 0, sizeof context);
    context.hDevice = device;
    OK(D3DKMTCreateHwContext(&context));
    D3DKMT_CREATEHWQUEUE queue;
    memset(&queue, 0, sizeof queue);
    queue.hHwContext = context.hHwContext;
    queue.Flags.UserModeSubmission = 1;
    OK(D3DKMTCreateHwQueue(&queue));
    struct memory ring = allocate(SLOTS * 64, 0), control = allocate(16 * 8, 1);
    D3DKMT_CREATE_DOORBELL doorbell;
    memset(&doorbell, 0, sizeof doorbell);
    doorbell.hHwQueue = queue.hHwQueue;
    doorbell.hRingBuffer = ring.handle;
    doorbell.hRingBufferControl = control.handle;
    OK(D3DKMTCreateDoorbell(&doorbell));
    D3DKMT_CONNECT_DOORBELL connect = {doorbell.hDoorbell, 0};
    OK(D3DKMTConnectDoorbell(&connect));

    /* Each slot has a command buffer of 32 bytes. */
    struct memory commands = allocate(4096, 0), result = allocate(4096, 0);
    const UINT64 *progress = queue.HwQueueProgressFenceCPUVirtualAddress;
    for (UINT64 n = 1; n <= count; n++) {
        while (load(progress) + SLOTS < n) sched_yield();
        UINT64 place = (n - 1) % SLOTS, *command = commands.cpu + 4 * place, *slot = ring.cpu + 8 * place;
        store(&command[0], WRITE_VALUE);
        store(&command[1], result.gpu);
        store(&command[2], 100 + n);
        store(doorbell.HwQueueProgressFenceLastQueuedValueCPUVirtualAddress, n);
        store(&slot[1], commands.gpu + 32 * place);
        store(&slot[2], 24);
        store(&slot[3], n);
        store(&slot[0], EXECUTE);
        store(&control.cpu[0], n);
        store(doorbell.DoorbellCPUVirtualAddress, n);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        CHECK(load(doorbell.DoorbellStatusCPUVirtualAddress) == D3DDDI_DOORBELLSTATUS_CONNECTED);
    }
    while (load(progress) < count) sched_yield();
    CHECK(load(result.cpu) == 100 + count);
    destroy_device(device);
    close_adapter(adapter);
    puts("stream: all checks hold");
    return 0;
}
