/* Objects of two processes of a service. The first one starts the second one, of the named role. */
#include "contexts.h"
#include "other.h"

static D3DKMT_HANDLE open_global(D3DKMT_HANDLE global) {
    D3DKMT_OPENSYNCHRONIZATIONOBJECT open;
    memset(&open, 0, sizeof open);
    open.hSharedHandle = global;
    OK(D3DKMTOpenSynchronizationObject(&open));
    return open.hSyncObject;
}

static D3DKMT_CREATESYNCHRONIZATIONOBJECT2 shared(int type) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = description(type, 0x1);
    if (type == D3DDDI_SEMAPHORE) create.Info.Semaphore.MaxCount = 4;
    OK(D3DKMTCreateSynchronizationObject2(&create));
    CHECK((create.Info.SharedHandle & 0x3F) == 2);
    return create;
}

/* A context of each process acquires in turn. */
static void mutex(void) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = shared(D3DDDI_SYNCHRONIZATION_MUTEX);
    D3DKMT_HANDLE context = new_context();
    struct marker mine = new_marker();
    OK(wait_gpu(context, create.hSyncObject, 0));
    mark(&mine, context);
    reached(&mine);
    struct other other = start("waits", create.Info.SharedHandle);
    CHECK(hear(other.says) == 1);
    OK(signal_gpu(context, create.hSyncObject, 0));
    CHECK(hear(other.says) == 2);
    OK(wait_gpu(context, create.hSyncObject, 0));
    mark(&mine, context);
    CHECK(is_held(&mine));
    say(other.hears, 3);
    reached(&mine);
    finish(&other, 0);
}

static void waits(D3DKMT_HANDLE global, int out, int in) {
    D3DKMT_HANDLE context = new_context(), opened = open_global(global);
    struct marker mine = new_marker();
    OK(wait_gpu(context, opened, 0));
    mark(&mine, context);
    CHECK(is_held(&mine));
    say(out, 1);
    reached(&mine);
    say(out, 2);
    CHECK(hear(in) == 3);
    OK(signal_gpu(context, opened, 0));
    mark(&mine, context);
    reached(&mine);
    destroy_fence(opened);
}

/* A killed process gives its mutex to the next waiter, and takes none of which it was a waiter. */
static void killed_holder(void) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = shared(D3DDDI_SYNCHRONIZATION_MUTEX);
    D3DKMT_HANDLE context = new_context();
    struct marker mine = new_marker();
    for (int round = 0; round < 2; round++) {
        struct other holder = start("holds", create.Info.SharedHandle);
        CHECK(hear(holder.says) == 1);
        struct other waiter = start("waits", create.Info.SharedHandle);
        CHECK(hear(waiter.says) == 1);
        OK(wait_gpu(context, create.hSyncObject, 0));
        mark(&mine, context);
        CHECK(is_held(&mine));
        finish(&waiter, 1);
        CHECK(is_held(&mine));
        finish(&holder, 1);
        reached(&mine);
        OK(signal_gpu(context, create.hSyncObject, 0));
    }
}

static void holds(D3DKMT_HANDLE global, int out, int in) {
    D3DKMT_HANDLE context = new_context(), opened = open_global(global);
    struct marker mine = new_marker();
    OK(wait_gpu(context, opened, 0));
    mark(&mine, context);
    reached(&mine);
    say(out, 1);
    hear(in);
}

/* The work of a process that returns from main is done, although nothing of it was destroyed. */
static void returns(void) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 gate = shared(D3DDDI_FENCE), done = shared(D3DDDI_FENCE);
    D3DKMT_HANDLE context = new_context();
    struct marker mine = new_marker();
    /* The search for leaks waits for ever in a child that was forked while a thread allocated. */
    CHECK(setenv("ASAN_OPTIONS", "detect_leaks=0", 1) == 0);
    struct other other = start("leaves", gate.Info.SharedHandle);
    say(other.hears, done.Info.SharedHandle);
    finish(&other, 0);
    OK(wait_gpu(context, done.hSyncObject, 7));
    mark(&mine, context);
    CHECK(is_held(&mine));
    D3DKMT_HANDLE opener = new_context();
    OK(signal_gpu(opener, gate.hSyncObject, 1));
    reached(&mine);
    destroy_fence(gate.hSyncObject);
    destroy_fence(done.hSyncObject);
}

static void leaves(D3DKMT_HANDLE global, int in) {
    D3DKMT_HANDLE context = new_context(), gate = open_global(global), done = open_global(hear(in));
    OK(wait_gpu(context, gate, 1));
    OK(signal_gpu(context, done, 7));
    /* A forked child that exits is not the end of this process. */
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) exit(0);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(new_context() != 0);
}

static void killed_creator(void) {
    struct other creator = start("creates", 0);
    D3DKMT_HANDLE context = new_context();
    D3DKMT_HANDLE fence = open_global(hear(creator.says));
    D3DKMT_HANDLE semaphore = open_global(hear(creator.says));
    D3DKMT_HANDLE mutex = open_global(hear(creator.says));
    struct marker mine = new_marker();
    OK(wait_gpu(context, fence, 5));
    OK(wait_gpu(context, semaphore, 0));
    mark(&mine, context);
    CHECK(is_held(&mine));
    say(creator.hears, 1);
    reached(&mine);
    /* The creator owns the mutex from its birth. */
    OK(wait_gpu(context, mutex, 0));
    mark(&mine, context);
    CHECK(is_held(&mine));
    finish(&creator, 1);
    reached(&mine);
    OK(wait_gpu(context, fence, 5));
    OK(signal_gpu(context, semaphore, 0));
    OK(wait_gpu(context, semaphore, 0));
    OK(signal_gpu(context, fence, 7));
    OK(wait_gpu(context, fence, 7));
    mark(&mine, context);
    reached(&mine);
    destroy_fence(fence);
    destroy_fence(semaphore);
    destroy_fence(mutex);
}

static void creates(int out, int in) {
    D3DKMT_HANDLE context = new_context();
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = shared(D3DDDI_FENCE);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 semaphore = shared(D3DDDI_SEMAPHORE);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 mutex = description(D3DDDI_SYNCHRONIZATION_MUTEX, 0x1);
    mutex.Info.SynchronizationMutex.InitialState = 1;
    OK(D3DKMTCreateSynchronizationObject2(&mutex));
    say(out, fence.Info.SharedHandle);
    say(out, semaphore.Info.SharedHandle);
    say(out, mutex.Info.SharedHandle);
    hear(in);
    OK(signal_gpu(context, fence.hSyncObject, 5));
    OK(signal_gpu(context, semaphore.hSyncObject, 0));
    hear(in);
}

static void last_instance(void) {
    static const int types[] = {D3DDDI_SYNCHRONIZATION_MUTEX, D3DDDI_SEMAPHORE, D3DDDI_FENCE};
    for (int i = 0; i < 3; i++) {
        D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = shared(types[i]);
        D3DKMT_HANDLE global = create.Info.SharedHandle;
        struct other other = start("opens", global);
        CHECK(hear(other.says) == 1);
        destroy_fence(create.hSyncObject);
        /* The other process has an instance. */
        destroy_fence(open_global(global));
        finish(&other, 1);
        D3DKMT_OPENSYNCHRONIZATIONOBJECT open;
        memset(&open, 0, sizeof open);
        open.hSharedHandle = global;
        /* The service ends a killed process when it notices the end of its socket. */
        NTSTATUS status = STATUS_SUCCESS;
        while ((status = D3DKMTOpenSynchronizationObject(&open)) == STATUS_SUCCESS) {
            destroy_fence(open.hSyncObject);
        }
        IS(status, STATUS_INVALID_PARAMETER);
    }
}

static void opens(D3DKMT_HANDLE global, int out, int in) {
    open_global(global);
    say(out, 1);
    hear(in);
}

static UNICODE_STRING name_of(WCHAR *text, const char *name) {
    USHORT length = 0;
    for (; name[length]; length++) text[length] = (WCHAR)name[length];
    UNICODE_STRING string = {(USHORT)(length * sizeof(WCHAR)), (USHORT)(length * sizeof(WCHAR)),
                             text};
    return string;
}

static OBJECT_ATTRIBUTES attributes_of(UNICODE_STRING *name) {
    OBJECT_ATTRIBUTES attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.Length = sizeof attributes;
    attributes.ObjectName = name;
    return attributes;
}

static NTSTATUS find(HANDLE *handle) {
    WCHAR text[64];
    UNICODE_STRING name = name_of(text, "a fence of two processes");
    OBJECT_ATTRIBUTES attributes = attributes_of(&name);
    D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME open;
    memset(&open, 0, sizeof open);
    open.dwDesiredAccess = D3DDDI_SYNC_OBJECT_ALL_ACCESS;
    open.pObjAttrib = &attributes;
    NTSTATUS status = D3DKMTOpenSyncObjectNtHandleFromName(&open);
    *handle = open.hNtHandle;
    return status;
}

static void names(void) {
    struct other other = start("names", 1);
    CHECK(hear(other.says) == 1);
    HANDLE handle = NULL;
    OK(find(&handle));
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 open;
    memset(&open, 0, sizeof open);
    open.hNtHandle = handle;
    open.hDevice = device;
    OK(D3DKMTOpenSyncObjectFromNtHandle2(&open));
    close((int)(intptr_t)handle);
    say(other.hears, 2);
    OK(wait_cpu(device, open.hSyncObject, 3, 0));
    finish(&other, 1);
    CHECK(load(open.MonitoredFence.FenceValueCPUVirtualAddress) == 3);
    OK(signal_cpu(device, open.hSyncObject, 4));
    OK(wait_cpu(device, open.hSyncObject, 4, 0));
    destroy_fence(open.hSyncObject);
    NTSTATUS status = STATUS_SUCCESS;
    while ((status = find(&handle)) == STATUS_SUCCESS) close((int)(intptr_t)handle);
    IS(status, STATUS_OBJECT_NAME_NOT_FOUND);
}

static void shares_by_name(int out, int in) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = monitored_fence(device, 0x3, 0);
    WCHAR text[64];
    UNICODE_STRING name = name_of(text, "a fence of two processes");
    OBJECT_ATTRIBUTES attributes = attributes_of(&name);
    HANDLE handle = NULL;
    OK(D3DKMTShareObjects(1, &create.hSyncObject, &attributes, D3DDDI_SYNC_OBJECT_ALL_ACCESS,
                          &handle));
    say(out, 1);
    CHECK(hear(in) == 2);
    OK(signal_cpu(device, create.hSyncObject, 3));
    hear(in);
}

/* Acquires a mutex, in turn without a limit and until the last time of the clock. */
static NTSTATUS acquire(D3DKMT_HANDLE mutex, UINT64 key, UINT64 *value) {
    static unsigned calls;
    LARGE_INTEGER last = {INT64_MAX};
    D3DKMT_ACQUIREKEYEDMUTEX acquire = {mutex, key, calls++ % 2 ? &last : NULL, 0};
    NTSTATUS status = D3DKMTAcquireKeyedMutex(&acquire);
    *value = acquire.FenceValue;
    return status;
}

static D3DKMT_CREATEKEYEDMUTEX create_mutex(void) {
    D3DKMT_CREATEKEYEDMUTEX create;
    memset(&create, 0, sizeof create);
    OK(D3DKMTCreateKeyedMutex(&create));
    return create;
}

/* A keyed mutex goes from one process to the other and back, and each waits for it. */
static void keyed_mutex(void) {
    D3DKMT_CREATEKEYEDMUTEX create = create_mutex();
    UINT64 value = 0;
    OK(acquire(create.hKeyedMutex, 0, &value));
    struct other other = start("acquires", create.hSharedHandle);
    CHECK(hear(other.says) == 1);
    for (UINT64 round = 0; round < 50; round++) {
        D3DKMT_RELEASEKEYEDMUTEX release = {create.hKeyedMutex, 1, round};
        OK(D3DKMTReleaseKeyedMutex(&release));
        OK(acquire(create.hKeyedMutex, 2, &value));
        CHECK(value == 100 + round);
    }
    finish(&other, 0);
    D3DKMT_DESTROYKEYEDMUTEX destroy = {create.hKeyedMutex};
    OK(D3DKMTDestroyKeyedMutex(&destroy));
}

static void acquires(D3DKMT_HANDLE global, int out) {
    D3DKMT_OPENKEYEDMUTEX open = {global, 0};
    OK(D3DKMTOpenKeyedMutex(&open));
    say(out, 1);
    for (UINT64 round = 0; round < 50; round++) {
        UINT64 value = 0;
        OK(acquire(open.hKeyedMutex, 1, &value));
        CHECK(value == round);
        D3DKMT_RELEASEKEYEDMUTEX release = {open.hKeyedMutex, 2, 100 + round};
        OK(D3DKMTReleaseKeyedMutex(&release));
    }
}

/* A process that is killed while it owns a keyed mutex abandons it. */
static void killed_owner(void) {
    D3DKMT_CREATEKEYEDMUTEX create = create_mutex();
    struct other owner = start("owns", create.hSharedHandle);
    CHECK(hear(owner.says) == 1);
    finish(&owner, 1);
    UINT64 value = 0;
    IS(acquire(create.hKeyedMutex, 0, &value), STATUS_ABANDONED);
    IS(acquire(create.hKeyedMutex, 5, &value), STATUS_ABANDONED);
}

static void owns(D3DKMT_HANDLE global, int out, int in) {
    D3DKMT_OPENKEYEDMUTEX open = {global, 0};
    OK(D3DKMTOpenKeyedMutex(&open));
    UINT64 value = 0;
    OK(acquire(open.hKeyedMutex, 0, &value));
    say(out, 1);
    hear(in);
}

int main(int argc, char **argv) {
    D3DKMT_HANDLE adapter = open_adapter();
    device = create_device(adapter);
    if (argc == 5) {
        D3DKMT_HANDLE global = (D3DKMT_HANDLE)strtoul(argv[2], NULL, 10);
        int out = atoi(argv[3]), in = atoi(argv[4]);
        if (PART("waits")) waits(global, out, in);
        if (PART("holds")) holds(global, out, in);
        if (PART("opens")) opens(global, out, in);
        if (PART("creates")) creates(out, in);
        if (PART("names")) shares_by_name(out, in);
        if (PART("acquires")) acquires(global, out);
        if (PART("owns")) owns(global, out, in);
        if (PART("leaves")) leaves(global, in);
        return 0;
    }
    if (PART("mutex")) mutex();
    if (PART("killed-holder")) killed_holder();
    if (PART("killed-creator")) killed_creator();
    if (PART("last-instance")) last_instance();
    if (PART("names")) names();
    if (PART("keyed-mutex")) keyed_mutex();
    if (PART("killed-owner")) killed_owner();
    if (PART("returns")) returns();
    destroy_device(device);
    close_adapter(adapter);
    puts("processes: all checks hold");
    return 0;
}
