/* Fences: creation, CPU waits that block or set an eventfd, signals, sharing by descriptor and by
 * name, and nothing left behind. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include "check.h"

#define SHARED 0x3u /* Shared | NtSecuritySharing */

static D3DKMT_HANDLE device;

struct waiter {
    D3DKMT_HANDLE fence;
    UINT64 value;
    int began;
};

static void *block(void *argument) {
    struct waiter *waiter = argument;
    __atomic_store_n(&waiter->began, 1, __ATOMIC_RELEASE);
    OK(wait_cpu(device, waiter->fence, waiter->value, 0));
    return NULL;
}

/* Counts of an eventfd, 0 if it is not set. */
static UINT64 taken(int event) {
    UINT64 count = 0;
    return read(event, &count, sizeof count) == sizeof count ? count : 0;
}

static int new_event(void) {
    int event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    CHECK(event > 0);
    return event;
}

static void monitored(void) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = monitored_fence(device, 0, 7);
    const void *value = fence.Info.MonitoredFence.FenceValueCPUVirtualAddress;
    CHECK(value != NULL && fence.Info.MonitoredFence.FenceValueGPUVirtualAddress != 0);
    CHECK(fence.Info.SharedHandle == 0 && load(value) == 7);
    OK(wait_cpu(device, fence.hSyncObject, 7, 0));

    struct waiter waiter = {fence.hSyncObject, 9, 0};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, block, &waiter) == 0);
    while (!__atomic_load_n(&waiter.began, __ATOMIC_ACQUIRE)) sched_yield();
    OK(signal_cpu(device, fence.hSyncObject, 8));
    OK(signal_cpu(device, fence.hSyncObject, 9));
    CHECK(load(value) == 9);
    CHECK(pthread_join(thread, NULL) == 0);

    int event = new_event();
    OK(wait_cpu(device, fence.hSyncObject, 9, event));
    CHECK(taken(event) == 1);
    OK(wait_cpu(device, fence.hSyncObject, 11, event));
    OK(signal_cpu(device, fence.hSyncObject, 10));
    CHECK(taken(event) == 0);
    OK(signal_cpu(device, fence.hSyncObject, 11));
    CHECK(taken(event) == 1);

    /* The wait holds the event, so the caller may close its descriptor. */
    int other = dup(event);
    OK(wait_cpu(device, fence.hSyncObject, 12, event));
    close(event);
    OK(signal_cpu(device, fence.hSyncObject, 12));
    CHECK(taken(other) == 1);

    /* A destroyed fence releases its waits. */
    OK(wait_cpu(device, fence.hSyncObject, 100, other));
    destroy_fence(fence.hSyncObject);
    CHECK(taken(other) == 1);
    close(other);
    IS(signal_cpu(device, fence.hSyncObject, 13), STATUS_INVALID_PARAMETER);
}

static void any_and_all(void) {
    D3DKMT_HANDLE fences[2];
    UINT64 values[2] = {1, 1};
    int event = new_event();
    for (int i = 0; i < 2; i++) fences[i] = monitored_fence(device, 0, 0).hSyncObject;
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait;
    memset(&wait, 0, sizeof wait);
    wait.hDevice = device;
    wait.ObjectCount = 2;
    wait.ObjectHandleArray = fences;
    wait.FenceValueArray = values;
    wait.hAsyncEvent = (HANDLE)(intptr_t)event;
    OK(D3DKMTWaitForSynchronizationObjectFromCpu(&wait));
    OK(signal_cpu(device, fences[1], 1));
    CHECK(taken(event) == 0);
    OK(signal_cpu(device, fences[0], 1));
    CHECK(taken(event) == 1);
    values[0] = values[1] = 2;
    wait.Flags.WaitAny = 1;
    OK(D3DKMTWaitForSynchronizationObjectFromCpu(&wait));
    OK(signal_cpu(device, fences[1], 2));
    CHECK(taken(event) == 1);
    OK(signal_cpu(device, fences[0], 2));
    CHECK(taken(event) == 0);
    for (int i = 0; i < 2; i++) destroy_fence(fences[i]);
    close(event);
}

static D3DKMT_CREATENATIVEFENCE native_fence(UINT flags, UINT64 initial) {
    D3DKMT_CREATENATIVEFENCE create;
    memset(&create, 0, sizeof create);
    create.hDevice = device;
    create.Info.InitialFenceValue = initial;
    create.Info.Flags.Value = flags;
    create.PrivateDriverData[0] = 7;
    OK(D3DKMTCreateNativeFence(&create));
    return create;
}

static void native(void) {
    D3DKMT_CREATENATIVEFENCE fence = native_fence(SHARED, 3);
    const D3DDDI_NATIVEFENCEMAPPING *mapping = &fence.Info.NativeFenceMapping;
    CHECK(load(mapping->CurrentValueCpuVa) == 3);
    CHECK(mapping->CurrentValueGpuVa != 0 && mapping->MonitoredValueGpuVa != 0);

    HANDLE shared = NULL;
    OK(D3DKMTShareObjects(1, &fence.hSyncObject, NULL, D3DDDI_SYNC_OBJECT_ALL_ACCESS, &shared));
    int descriptor = (int)(intptr_t)shared;
    CHECK(descriptor > 2 && (fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
    D3DKMT_OPENNATIVEFENCEFROMNTHANDLE open;
    memset(&open, 0, sizeof open);
    open.hNtHandle = shared;
    open.hDevice = device;
    OK(D3DKMTOpenNativeFenceFromNtHandle(&open));
    CHECK(open.hSyncObject != fence.hSyncObject);
    CHECK(fence.PrivateDriverData[0] == 7 && open.PrivateDriverData[0] == 7);
    OK(signal_cpu(device, open.hSyncObject, 4));
    CHECK(load(mapping->CurrentValueCpuVa) == 4 && load(open.NativeFenceMapping.CurrentValueCpuVa) == 4);
    /* The object lives as long as one instance or one NT handle. */
    destroy_fence(fence.hSyncObject);
    destroy_fence(open.hSyncObject);
    OK(D3DKMTOpenNativeFenceFromNtHandle(&open));
    CHECK(load(open.NativeFenceMapping.CurrentValueCpuVa) == 4);
    destroy_fence(open.hSyncObject);
    close(descriptor);
    IS(D3DKMTOpenNativeFenceFromNtHandle(&open), STATUS_INVALID_HANDLE);
}

/* Sends a descriptor over a socket and returns the one that arrives. */
static int sent(int descriptor) {
    int ends[2];
    char byte = 0, control[CMSG_SPACE(sizeof(int))];
    memset(control, 0, sizeof control);
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(part), &descriptor, sizeof descriptor);
    CHECK(sendmsg(ends[0], &message, 0) == 1);
    CHECK(recvmsg(ends[1], &message, 0) == 1);
    int received;
    memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof received);
    close(ends[0]);
    close(ends[1]);
    return received;
}

static D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 opening(int descriptor, UINT flags) {
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 open;
    memset(&open, 0, sizeof open);
    open.hNtHandle = (HANDLE)(intptr_t)descriptor;
    open.hDevice = device;
    open.Flags.Value = flags;
    return open;
}

static void sharing(void) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = monitored_fence(device, SHARED, 0);
    HANDLE shared = NULL;
    OK(D3DKMTShareObjects(1, &fence.hSyncObject, NULL, D3DDDI_SYNC_OBJECT_ALL_ACCESS, &shared));
    int descriptor = (int)(intptr_t)shared, copy = dup(descriptor), received = sent(descriptor);
    close(descriptor);
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 first = opening(copy, 0), second = opening(received, 1u << 4);
    OK(D3DKMTOpenSyncObjectFromNtHandle2(&first));
    OK(D3DKMTOpenSyncObjectFromNtHandle2(&second));
    OK(signal_cpu(device, first.hSyncObject, 5));
    CHECK(load(second.MonitoredFence.FenceValueCPUVirtualAddress) == 5);
    IS(signal_cpu(device, second.hSyncObject, 6), STATUS_ACCESS_DENIED);
    destroy_fence(first.hSyncObject);
    destroy_fence(second.hSyncObject);
    close(copy);
    close(received);

    /* Rights that were not granted, handles of other kinds, unshared fences. */
    OK(D3DKMTShareObjects(1, &fence.hSyncObject, NULL, D3DDDI_SYNC_OBJECT_WAIT, &shared));
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 weak = opening((int)(intptr_t)shared, 0);
    OK(D3DKMTOpenSyncObjectFromNtHandle2(&weak));
    IS(signal_cpu(device, weak.hSyncObject, 6), STATUS_ACCESS_DENIED);
    OK(wait_cpu(device, weak.hSyncObject, 5, 0));
    destroy_fence(weak.hSyncObject);
    close((int)(intptr_t)shared);
    int strange[3] = {open("/dev/null", O_RDONLY | O_CLOEXEC), new_event(), 9999};
    for (int i = 0; i < 3; i++) {
        D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 wrong = opening(strange[i], 0);
        IS(D3DKMTOpenSyncObjectFromNtHandle2(&wrong), STATUS_INVALID_HANDLE);
    }
    IS(wait_cpu(device, fence.hSyncObject, 9, strange[0]), STATUS_INVALID_HANDLE);
    IS(wait_cpu(device, fence.hSyncObject, 9, strange[2]), STATUS_INVALID_HANDLE);
    close(strange[0]);
    close(strange[1]);
    D3DKMT_HANDLE own = monitored_fence(device, 0, 0).hSyncObject;
    IS(D3DKMTShareObjects(1, &own, NULL, 3, &shared), STATUS_INVALID_PARAMETER);
    destroy_fence(own);
    destroy_fence(fence.hSyncObject);
}

static void names(void) {
    static WCHAR text[] = {'\\', 'B', 'a', 's', 'e', 'N', 'a', 'm', 'e', 'd', 'O', 'b', 'j', 'e', 'c', 't', 's',
                           '\\', 't', 'i', 'd', 'e', 0x1F30A};
    UNICODE_STRING name = {sizeof text, sizeof text, text};
    OBJECT_ATTRIBUTES attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.Length = sizeof attributes;
    attributes.ObjectName = &name;
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = monitored_fence(device, SHARED, 21);
    HANDLE shared = NULL, again = NULL;
    OK(D3DKMTShareObjects(1, &fence.hSyncObject, &attributes, 3, &shared));
    IS(D3DKMTShareObjects(1, &fence.hSyncObject, &attributes, 3, &again), STATUS_OBJECT_NAME_COLLISION);
    D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME named = {3, &attributes, NULL};
    OK(D3DKMTOpenSyncObjectNtHandleFromName(&named));
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 open = opening((int)(intptr_t)named.hNtHandle, 0);
    OK(D3DKMTOpenSyncObjectFromNtHandle2(&open));
    CHECK(load(open.MonitoredFence.FenceValueCPUVirtualAddress) == 21);
    close((int)(intptr_t)named.hNtHandle);
    close((int)(intptr_t)shared);
    IS(D3DKMTOpenSyncObjectNtHandleFromName(&named), STATUS_OBJECT_NAME_NOT_FOUND);
    destroy_fence(open.hSyncObject);
    destroy_fence(fence.hSyncObject);
}

/* A blocking eventfd whose counter is full is set already: ending its wait blocks no thread. */
static void full_event(void) {
    D3DKMT_HANDLE fence = monitored_fence(device, 0, 0).hSyncObject;
    int event = eventfd(0, EFD_CLOEXEC);
    UINT64 most = UINT64_MAX - 1;
    CHECK(event > 0 && write(event, &most, sizeof most) == sizeof most);
    OK(wait_cpu(device, fence, 1, event));
    OK(signal_cpu(device, fence, 1));
    OK(wait_cpu(device, fence, 1, 0));
    CHECK(taken(event) == most);
    close(event);
    destroy_fence(fence);
}

int main(int argc, char **argv) {
    /* The first call starts the machine, which may open descriptors of its own. */
    D3DKMT_HANDLE adapter = open_adapter();
    int before = descriptors();
    for (int round = 0; round < 3; round++) {
        device = create_device(adapter);
        if (PART("monitored")) monitored();
        if (PART("any-and-all")) any_and_all();
        if (PART("native")) native();
        if (PART("sharing")) sharing();
        if (PART("names")) names();
        if (PART("full-event")) full_event();
        /* What is still open ends with the device. */
        D3DKMT_HANDLE left = monitored_fence(device, SHARED, 0).hSyncObject;
        int event = new_event();
        OK(wait_cpu(device, left, 1, event));
        destroy_device(device);
        CHECK(taken(event) == 1);
        close(event);
        IS(signal_cpu(device, left, 1), STATUS_INVALID_PARAMETER);
        no_descriptor_is_left(before);
    }
    close_adapter(adapter);
    no_descriptor_is_left(before);
    puts("fences: all checks hold");
    return 0;
}
