/* A child of a process that has called the library: its calls are refused and change nothing, also
   not when it ends. A child that execs begins anew. */
#include <pthread.h>
#include "contexts.h"
#include "other.h"

/* A child that exits has no threads, so their memory would be reported as leaked. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }

static void ends_well(pid_t child) {
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static NTSTATUS new_fence(void) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = description(D3DDDI_MONITORED_FENCE, 0);
    return D3DKMTCreateSynchronizationObject2(&create);
}

static void *calls_first(void *unused) {
    open_adapter();
    return unused;
}

/* A child without the thread that makes the first call waits for nothing. */
static void starting(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, calls_first, NULL) == 0);
    pid_t children[24];
    for (int i = 0; i < 24; i++) {
        children[i] = fork();
        if (children[i] != 0) continue;
        D3DKMT_ENUMADAPTERS all;
        memset(&all, 0, sizeof all);
        NTSTATUS status = D3DKMTEnumAdapters(&all);
        CHECK(status == STATUS_SUCCESS || status == STATUS_NOT_SUPPORTED);
        exit(0);
    }
    for (int i = 0; i < 24; i++) ends_well(children[i]);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv) {
    if (argc > 2) { /* the child of the last check */
        device = create_device(open_adapter());
        OK(new_fence());
        return 0;
    }
    if (PART("starting")) {
        starting();
        puts("forks: all checks hold");
        return 0;
    }
    CHECK(PART("all"));
    /* Without a call before the fork, both have a library. */
    pid_t child = fork();
    if (child == 0) {
        device = create_device(open_adapter());
        OK(new_fence());
        _exit(0);
    }
    ends_well(child);
    D3DKMT_HANDLE adapter = open_adapter();
    device = create_device(adapter);
    D3DKMT_HANDLE fence = monitored_fence(device, 0, 0).hSyncObject;
    child = fork();
    if (child == 0) {
        IS(new_fence(), STATUS_NOT_SUPPORTED);
        IS(signal_cpu(device, fence, 1), STATUS_NOT_SUPPORTED);
        IS(wait_cpu(device, fence, 0, 0), STATUS_NOT_SUPPORTED);
        D3DKMT_ENUMADAPTERS all;
        memset(&all, 0, sizeof all);
        IS(D3DKMTEnumAdapters(&all), STATUS_NOT_SUPPORTED);
        D3DKMT_DESTROYDEVICE destroy = {device};
        IS(D3DKMTDestroyDevice(&destroy), STATUS_NOT_SUPPORTED);
        HANDLE shared = NULL;
        IS(D3DKMTShareObjects(1, &fence, NULL, 3, &shared), STATUS_NOT_SUPPORTED);
        D3DKMTCloseDxCoreDevice();
        exit(0);
    }
    ends_well(child);
    OK(signal_cpu(device, fence, 1));
    OK(wait_cpu(device, fence, 1, 0));
    child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "forks", "all", "again", (char *)NULL);
        _exit(127);
    }
    ends_well(child);
    OK(signal_cpu(device, fence, 2));
    destroy_device(device);
    close_adapter(adapter);
    puts("forks: all checks hold");
    return 0;
}
