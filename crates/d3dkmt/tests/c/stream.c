/* A stream of submissions of one user-mode queue. Between the connected doorbell and the last value
   of the progress fence the program makes no call but sched_yield.

   stream COUNT [SLOTS BATCHES]: the number of submissions of a batch. With the slots of the ring and
   a number of batches it prints the time for each submission, median of the batches after the first.
   The engines then have processor 1, and the program has processor 0, as in `tidegate bench`; with
   one processor nothing is pinned.
   stream COUNT SLOTS 0: prints the time from the doorbell of one submission to its progress fence
   after 20 ms of rest, median of COUNT. The system places the threads. */
#define _GNU_SOURCE
#include "memory.h"
#include <time.h>
#include <unistd.h>

#define WRITE_VALUE (6u | 3u << 16)
#define EXECUTE (1u | 1u << 8)
#define MOST_TIMES 1000
#define REST_NS 20000000

static UINT64 slots = 16;
static struct memory ring, control, commands, result;
static D3DKMT_CREATE_DOORBELL doorbell;
static const UINT64 *progress;
/* The submissions so far, and those of them that were seen complete. */
static UINT64 submitted, finished;

static void pin(int processor) {
    if (sysconf(_SC_NPROCESSORS_ONLN) == 1)
        return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
}

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

static int compare(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Waits until no more than `most` submissions are left. The fence's line belongs to the engine, so
   it is loaded only when the ring seems full. */
static void wait_until_left(UINT64 most) {
    while (finished + most < submitted && (finished = load(progress)) + most < submitted)
        sched_yield();
}

/* Each slot has a command buffer of 32 bytes. */
static void submit(void) {
    wait_until_left(slots - 1);
    UINT64 place = submitted++ % slots, *command = commands.cpu + 4 * place, *slot = ring.cpu + 8 * place;
    command[0] = WRITE_VALUE;
    command[1] = result.gpu;
    command[2] = 100 + submitted;
    store(doorbell.HwQueueProgressFenceLastQueuedValueCPUVirtualAddress, submitted);
    slot[1] = commands.gpu + 32 * place;
    slot[2] = 24;
    slot[3] = submitted;
    store(&slot[0], EXECUTE);
    store(&control.cpu[0], submitted);
    store(doorbell.DoorbellCPUVirtualAddress, submitted);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    CHECK(load(doorbell.DoorbellStatusCPUVirtualAddress) == D3DDDI_DOORBELLSTATUS_CONNECTED);
}

/* Returns the time for each submission of a batch. */
static double batch_ns(UINT64 count) {
    double start = now_ns();
    for (UINT64 left = count; left > 0; left--)
        submit();
    wait_until_left(0);
    return (now_ns() - start) / count;
}

/* Returns the time of a submission after a rest, for a program that spins. */
static double first_ns(void) {
    struct timespec rest = {0, REST_NS};
    nanosleep(&rest, NULL);
    double start = now_ns();
    submit();
    while (load(progress) < submitted)
        ;
    return now_ns() - start;
}

static double median(double *times, UINT64 count) {
    qsort(times, count, sizeof *times, compare);
    return times[count / 2];
}

int main(int argc, char **argv) {
    CHECK(argc == 2 || argc == 4);
    UINT64 count = strtoull(argv[1], NULL, 10), batches = 1;
    int measures = argc == 4;
    if (measures) {
        slots = strtoull(argv[2], NULL, 10);
        batches = strtoull(argv[3], NULL, 10);
        CHECK(count > 0 && batches != 1 && (batches > 0 ? batches : count) <= MOST_TIMES);
    }
    if (measures && batches > 0)
        pin(1);
    D3DKMT_HANDLE adapter = open_adapter();
    if (measures && batches > 0)
        pin(0);
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
    ring = allocate(slots * 64, 0);
    control = allocate(16 * 8, 1);
    doorbell.hHwQueue = queue.hHwQueue;
    doorbell.hRingBuffer = ring.handle;
    doorbell.hRingBufferControl = control.handle;
    OK(D3DKMTCreateDoorbell(&doorbell));
    D3DKMT_CONNECT_DOORBELL connect = {doorbell.hDoorbell, 0};
    OK(D3DKMTConnectDoorbell(&connect));
    commands = allocate(slots * 32, 0);
    result = allocate(4096, 0);
    progress = queue.HwQueueProgressFenceCPUVirtualAddress;

    double times[MOST_TIMES];
    if (measures && batches == 0) {
        for (UINT64 i = 0; i < count; i++)
            times[i] = first_ns();
        printf("stream: %.1f ns for each first submission\n", median(times, count));
    } else {
        for (UINT64 batch = 0; batch < batches; batch++)
            times[batch] = batch_ns(count);
        if (measures)
            printf("stream: %.1f ns for each submission\n", median(times + 1, batches - 1));
    }
    CHECK(load(result.cpu) == 100 + submitted);
    destroy_device(device);
    close_adapter(adapter);
    puts("stream: all checks hold");
    return 0;
}
