/* The submission loop of the public document "User-mode work submission" (MicrosoftDocs,
   windows-driver-docs, display/user-mode-work-submission), with a queue and memory around it, and a
   user-mode driver that fills and reads the logs of its queue. */
#include "contexts.h"
#include "memory.h"

#define WRITE_VALUE (6u | 3u << 16)
#define COPY (1u | 4u << 16)
#define EXECUTE (1u | 1u << 8)
#define WAIT (3u | 1u << 8)
#define SIGNAL (4u | 1u << 8)
#define SLOTS 16u

static struct memory ring, control;
static D3DKMT_CREATEHWQUEUE queue;
static D3DKMT_CREATE_DOORBELL CreateDoorbell;
static UINT64 written;

static void create_queue(void) {
    D3DKMT_CREATEHWCONTEXT context;
    memset(&context, 0, sizeof context);
    context.hDevice = device;
    context.NodeOrdinal = 1;
    OK(D3DKMTCreateHwContext(&context));
    memset(&queue, 0, sizeof queue);
    queue.hHwContext = context.hHwContext;
    queue.Flags.UserModeSubmission = 1;
    OK(D3DKMTCreateHwQueue(&queue));
    written = 0;
    ring = allocate(SLOTS * 64, 0);
    control = allocate(16 * 8, 1);
    memset(&CreateDoorbell, 0, sizeof CreateDoorbell);
    CreateDoorbell.hHwQueue = queue.hHwQueue;
    CreateDoorbell.hRingBuffer = ring.handle;
    CreateDoorbell.hRingBufferControl = control.handle;
    CreateDoorbell.Flags.Value = 0;
    NTSTATUS ApiStatus = D3DKMTCreateDoorbell(&CreateDoorbell);
    CHECK(NT_SUCCESS(ApiStatus));
    CHECK(CreateDoorbell.DoorbellCPUVirtualAddress != NULL);
    CHECK(CreateDoorbell.DoorbellStatusCPUVirtualAddress != NULL);
}

/* Writes a slot: its first word and four more. */
static void put(UINT64 head, UINT64 a, UINT64 b, UINT64 c, UINT64 d) {
    UINT64 *slot = ring.cpu + written++ % SLOTS * 8;
    store(&slot[1], a);
    store(&slot[2], b);
    store(&slot[3], c);
    store(&slot[4], d);
    store(&slot[0], head);
}

/* The loop of the document, with its names. */
static void submit(UINT64 progress) {
    UINT64 *WritePointerCPUVirtualAddress = control.cpu;
    D3DDDI_DOORBELL_STATUS DoorbellStatus = D3DDDI_DOORBELL_STATUS_CONNECTED;
    do {
        D3DKMT_CONNECT_DOORBELL connect = {CreateDoorbell.hDoorbell, 0};
        NTSTATUS ApiStatus = D3DKMTConnectDoorbell(&connect);
        DoorbellStatus = load(CreateDoorbell.DoorbellStatusCPUVirtualAddress);
        CHECK(NT_SUCCESS(ApiStatus));
        CHECK(DoorbellStatus != D3DDDI_DOORBELL_STATUS_DISCONNECTED_ABORT);
        store(CreateDoorbell.HwQueueProgressFenceLastQueuedValueCPUVirtualAddress, progress);
        store(WritePointerCPUVirtualAddress, written);
        store(CreateDoorbell.DoorbellCPUVirtualAddress, load(WritePointerCPUVirtualAddress));
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        DoorbellStatus = load(CreateDoorbell.DoorbellStatusCPUVirtualAddress);
        if (DoorbellStatus == D3DDDI_DOORBELL_STATUS_CONNECTED_NOTIFY) {
            D3DKMT_NOTIFY_WORK_SUBMISSION notify = {CreateDoorbell.hDoorbell, 0};
            OK(D3DKMTNotifyWorkSubmission(&notify));
        }
    } while (DoorbellStatus == D3DDDI_DOORBELL_STATUS_DISCONNECTED_RETRY);
    OK(wait_cpu(device, queue.hHwQueueProgressFence, progress, 0));
}

static void sample(void) {
    create_queue();
    struct memory commands = allocate(4096, 0), result = allocate(4096, 0);
    for (UINT64 n = 1; n <= 2 * SLOTS; n++) {
        store(&commands.cpu[0], WRITE_VALUE);
        store(&commands.cpu[1], result.gpu);
        store(&commands.cpu[2], 100 + n);
        put(EXECUTE, commands.gpu, 24, n, 0);
        submit(n);
        CHECK(load(result.cpu) == 100 + n);
        if (n != SLOTS) continue;
        /* The ring and its control area stay mapped as long as the doorbell, although their
           allocations are destroyed. */
        D3DKMT_HANDLE both[2] = {ring.handle, control.handle};
        D3DKMT_DESTROYALLOCATION2 destroy = {device, 0, both, 2, 0};
        OK(D3DKMTDestroyAllocation2(&destroy));
        IS(D3DKMTDestroyAllocation2(&destroy), STATUS_INVALID_PARAMETER);
    }
    D3DKMT_DESTROY_DOORBELL destroy = {CreateDoorbell.hDoorbell};
    OK(D3DKMTDestroyDoorbell(&destroy));
}

/* Copies a log to memory that the CPU reads, by the queue itself. */
static DXGK_NATIVE_FENCE_LOG_HEADER *copy_log(D3DGPU_VIRTUAL_ADDRESS log, UINT entries,
                                              UINT64 progress) {
    struct memory commands = allocate(4096, 0), result = allocate(4096, 0);
    store(&commands.cpu[0], COPY);
    store(&commands.cpu[1], log);
    store(&commands.cpu[2], result.gpu);
    store(&commands.cpu[3],
          sizeof(DXGK_NATIVE_FENCE_LOG_HEADER) + entries * sizeof(DXGK_NATIVE_FENCE_LOG_ENTRY));
    put(EXECUTE, commands.gpu, 32, progress, 0);
    submit(progress);
    return (DXGK_NATIVE_FENCE_LOG_HEADER *)(void *)result.cpu;
}

static void logs(void) {
    create_queue();
    D3DKMT_CREATENATIVEFENCE fence;
    memset(&fence, 0, sizeof fence);
    fence.hDevice = device;
    OK(D3DKMTCreateNativeFence(&fence));
    D3DDDI_NATIVEFENCEMAPPING at = fence.Info.NativeFenceMapping;
    D3DKMT_GETNATIVEFENCELOGDETAIL detail;
    memset(&detail, 0, sizeof detail);
    detail.hHwQueue = queue.hHwQueue;
    OK(D3DKMTGetNativeFenceLogDetail(&detail));

    /* Two signals and a wait that holds already name their entries; the third signal names none. */
    struct memory commands = allocate(4096, 0), result = allocate(4096, 0);
    store(&commands.cpu[0], WRITE_VALUE);
    store(&commands.cpu[1], result.gpu);
    store(&commands.cpu[2], 7);
    UINT64 handle = (UINT64)fence.hSyncObject << 32;
    put(SIGNAL | handle, at.CurrentValueGpuVa, at.MonitoredValueGpuVa, 5, 0);
    put(WAIT | handle, at.CurrentValueGpuVa, 0, 5, 0);
    put(SIGNAL | handle, at.CurrentValueGpuVa, at.MonitoredValueGpuVa, 6, 1);
    put(SIGNAL | handle, at.CurrentValueGpuVa, at.MonitoredValueGpuVa, 7, TIDEGATE_NO_LOG_ENTRY);
    put(EXECUTE, commands.gpu, 24, 1, 0);
    submit(1);
    CHECK(load(result.cpu) == 7 && load(at.CurrentValueCpuVa) == 7);

    const DXGK_NATIVE_FENCE_LOG_HEADER *signals =
        copy_log(detail.SignalLogGpuBaseAddress, detail.SignalLogNumberOfEntries, 2);
    const DXGK_NATIVE_FENCE_LOG_ENTRY *entries = (const DXGK_NATIVE_FENCE_LOG_ENTRY *)(signals + 1);
    CHECK(signals->Type == DXGK_NATIVE_FENCE_LOG_TYPE_SIGNALS);
    CHECK(signals->NumberOfEntries == 84 && signals->FirstFreeEntryIndex == 2);
    CHECK(signals->WraparoundCount == 0 && signals->AtomicWraparoundAndEntryIndex == 2);
    for (UINT64 i = 0; i < 2; i++) {
        CHECK(entries[i].FenceValue == 5 + i && entries[i].hNativeFence == fence.hSyncObject);
        CHECK(entries[i].OperationType == DXGK_NATIVE_FENCE_LOG_OPERATION_SIGNAL_EXECUTED);
        CHECK(entries[i].FenceEndGpuTimestamp > 0 && entries[i].FenceObservedGpuTimestamp == 0);
    }
    CHECK(entries[0].FenceEndGpuTimestamp <= entries[1].FenceEndGpuTimestamp);
    const DXGK_NATIVE_FENCE_LOG_HEADER *waits =
        copy_log(detail.WaitLogGpuBaseAddress, detail.WaitLogNumberOfEntries, 3);
    const DXGK_NATIVE_FENCE_LOG_ENTRY *waited = (const DXGK_NATIVE_FENCE_LOG_ENTRY *)(waits + 1);
    CHECK(waits->Type == DXGK_NATIVE_FENCE_LOG_TYPE_WAITS && waits->FirstFreeEntryIndex == 1);
    CHECK(waited->OperationType == DXGK_NATIVE_FENCE_LOG_OPERATION_WAIT_UNBLOCKED);
    CHECK(waited->FenceValue == 5 && waited->hNativeFence == fence.hSyncObject);
    CHECK(waited->FenceEndGpuTimestamp <= entries[1].FenceEndGpuTimestamp);
}

int main(int argc, char **argv) {
    D3DKMT_HANDLE adapter = open_adapter();
    device = create_device(adapter);
    if (PART("submission")) sample();
    if (PART("logs")) logs();
    destroy_device(device);
    close_adapter(adapter);
    puts("sample: all checks hold");
    return 0;
}
