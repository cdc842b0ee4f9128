/* Mutexes, semaphores, fences of WDDM 1.x and CPU notifications, in the order of contexts. */
#include "contexts.h"

static void semaphores(void) {
    D3DKMT_HANDLE first = new_context(), second = new_context(), third = new_context();
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = description(D3DDDI_SEMAPHORE, 0);
    create.Info.Semaphore.InitialCount = 1;
    IS(D3DKMTCreateSynchronizationObject2(&create), STATUS_INVALID_PARAMETER);
    create.Info.Semaphore.MaxCount = 2;
    OK(D3DKMTCreateSynchronizationObject2(&create));
    D3DKMT_HANDLE semaphore = create.hSyncObject;
    struct marker one = new_marker(), two = new_marker(), three = new_marker();
    OK(wait_gpu(first, semaphore, 0));
    mark(&one, first);
    reached(&one);
    OK(wait_gpu(second, semaphore, 0));
    mark(&two, second);
    CHECK(is_held(&two));
    /* A context that is destroyed while it waits takes no count. */
    OK(wait_gpu(third, semaphore, 0));
    destroy_context(third);
    OK(signal_gpu(first, semaphore, 0));
    reached(&two);
    /* The count never exceeds its maximum: after three signals two waits pass. */
    for (int i = 0; i < 3; i++) OK(signal_gpu(first, semaphore, 0));
    mark(&one, first);
    reached(&one);
    for (int i = 0; i < 2; i++) OK(wait_gpu(second, semaphore, 0));
    mark(&two, second);
    reached(&two);
    OK(wait_gpu(second, semaphore, 0));
    mark(&two, second);
    CHECK(is_held(&two));
    /* Destroying the object releases its waiters. */
    destroy_fence(semaphore);
    reached(&two);
    IS(wait_gpu(second, semaphore, 0), STATUS_INVALID_PARAMETER);
    (void)three;
    destroy_context(first);
    destroy_context(second);
    destroy_fence(one.fence);
    destroy_fence(two.fence);
    destroy_fence(three.fence);
}

static void mutexes(void) {
    D3DKMT_HANDLE first = new_context(), second = new_context();
    D3DKMT_CREATESYNCHRONIZATIONOBJECT create;
    memset(&create, 0, sizeof create);
    create.hDevice = device;
    create.Info.Type = D3DDDI_FENCE;
    IS(D3DKMTCreateSynchronizationObject(&create), STATUS_INVALID_PARAMETER);
    create.Info.Type = D3DDDI_SYNCHRONIZATION_MUTEX;
    create.Info.SynchronizationMutex.InitialState = 1;
    OK(D3DKMTCreateSynchronizationObject(&create));
    D3DKMT_HANDLE mutex = create.hSyncObject;
    struct marker one = new_marker(), two = new_marker();
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECT wait;
    memset(&wait, 0, sizeof wait);
    wait.hContext = first;
    wait.ObjectCount = 1;
    wait.ObjectHandleArray[0] = mutex;
    OK(D3DKMTWaitForSynchronizationObject(&wait));
    mark(&one, first);
    CHECK(is_held(&one));
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECT signal;
    memset(&signal, 0, sizeof signal);
    signal.hContext = second;
    signal.ObjectCount = 1;
    signal.ObjectHandleArray[0] = mutex;
    OK(D3DKMTSignalSynchronizationObject(&signal));
    reached(&one);
    /* Two contexts exclude each other, many times. */
    for (int round = 0; round < 50; round++) {
        OK(wait_gpu(second, mutex, 0));
        OK(signal_gpu(first, mutex, 0));
        mark(&two, second);
        OK(signal_gpu(second, mutex, 0));
        OK(wait_gpu(first, mutex, 0));
        mark(&one, first);
    }
    reached(&two);
    reached(&one);
    wait.ObjectCount = 33;
    IS(D3DKMTWaitForSynchronizationObject(&wait), STATUS_INVALID_PARAMETER);
    wait.ObjectCount = 0;
    IS(D3DKMTWaitForSynchronizationObject(&wait), STATUS_INVALID_PARAMETER);
    IS(wait_cpu(device, mutex, 1, 0), STATUS_INVALID_PARAMETER);
    destroy_fence(mutex);
    destroy_fence(one.fence);
    destroy_fence(two.fence);
    destroy_context(first);
    destroy_context(second);
}

static void fences_and_events(void) {
    D3DKMT_HANDLE first = new_context(), second = new_context();
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = description(D3DDDI_FENCE, 0);
    create.Info.Fence.FenceValue = 5;
    OK(D3DKMTCreateSynchronizationObject2(&create));
    D3DKMT_HANDLE fence = create.hSyncObject;
    struct marker one = new_marker();
    OK(wait_gpu(first, fence, 5));
    mark(&one, first);
    reached(&one);
    /* The first object of the list decides how the value is passed. */
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU wait;
    memset(&wait, 0, sizeof wait);
    wait.hContext = first;
    wait.ObjectCount = 1;
    wait.ObjectHandleArray = &fence;
    wait.FenceValue = 7;
    OK(D3DKMTWaitForSynchronizationObjectFromGpu(&wait));
    mark(&one, first);
    OK(signal_gpu(second, fence, 6));
    CHECK(is_held(&one));
    OK(signal_gpu(second, fence, 7));
    reached(&one);

    int event = eventfd(0, EFD_CLOEXEC);
    create = description(D3DDDI_CPU_NOTIFICATION, 0);
    IS(D3DKMTCreateSynchronizationObject2(&create), STATUS_INVALID_HANDLE);
    create.Info.CPUNotification.Event = (HANDLE)(intptr_t)event;
    OK(D3DKMTCreateSynchronizationObject2(&create));
    UINT64 count = 0;
    for (int i = 0; i < 2; i++) {
        OK(signal_gpu(first, create.hSyncObject, 0));
        CHECK(read(event, &count, sizeof count) == sizeof count && count == 1);
    }
    IS(wait_gpu(first, create.hSyncObject, 0), STATUS_INVALID_PARAMETER);
    destroy_fence(create.hSyncObject);
    close(event);
    destroy_fence(fence);
    destroy_fence(one.fence);
    destroy_context(first);
    destroy_context(second);
}

static void sharing(void) {
    D3DKMT_HANDLE context = new_context();
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = description(D3DDDI_SYNCHRONIZATION_MUTEX, 0x1);
    OK(D3DKMTCreateSynchronizationObject2(&create));
    D3DKMT_HANDLE global = create.Info.SharedHandle;
    CHECK((global & 0x3F) == 2 && (create.hSyncObject & 0x3F) == 0);
    D3DKMT_OPENSYNCHRONIZATIONOBJECT open;
    memset(&open, 0, sizeof open);
    open.hSharedHandle = global;
    OK(D3DKMTOpenSynchronizationObject(&open));
    CHECK(open.hSyncObject != create.hSyncObject);
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy = {global};
    IS(D3DKMTDestroySynchronizationObject(&destroy), STATUS_INVALID_PARAMETER);
    destroy_fence(create.hSyncObject);
    OK(wait_gpu(context, open.hSyncObject, 0));
    destroy_fence(open.hSyncObject);
    /* A global handle keeps nothing alive. */
    IS(D3DKMTOpenSynchronizationObject(&open), STATUS_INVALID_PARAMETER);
    open.hSharedHandle = create.hSyncObject;
    IS(D3DKMTOpenSynchronizationObject(&open), STATUS_INVALID_PARAMETER);

    create = description(D3DDDI_SYNCHRONIZATION_MUTEX, 0x3);
    OK(D3DKMTCreateSynchronizationObject2(&create));
    CHECK(create.Info.SharedHandle == 0);
    HANDLE shared = NULL;
    OK(D3DKMTShareObjects(1, &create.hSyncObject, NULL, D3DDDI_SYNC_OBJECT_ALL_ACCESS, &shared));
    destroy_fence(create.hSyncObject);
    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE plain = {shared, 0};
    OK(D3DKMTOpenSyncObjectFromNtHandle(&plain));
    OK(wait_gpu(context, plain.hSyncObject, 0));
    destroy_fence(plain.hSyncObject);
    D3DKMT_OPENNATIVEFENCEFROMNTHANDLE native;
    memset(&native, 0, sizeof native);
    native.hNtHandle = shared;
    native.hDevice = device;
    IS(D3DKMTOpenNativeFenceFromNtHandle(&native), STATUS_OBJECT_TYPE_MISMATCH);
    close((int)(intptr_t)shared);
    IS(D3DKMTOpenSyncObjectFromNtHandle(&plain), STATUS_INVALID_HANDLE);

    create = description(D3DDDI_SYNCHRONIZATION_MUTEX, 0x2);
    IS(D3DKMTCreateSynchronizationObject2(&create), STATUS_INVALID_PARAMETER);
    destroy_context(context);
}

int main(int argc, char **argv) {
    D3DKMT_HANDLE adapter = open_adapter();
    int before = descriptors();
    device = create_device(adapter);
    if (PART("semaphores")) semaphores();
    if (PART("mutexes")) mutexes();
    if (PART("fences-and-events")) fences_and_events();
    if (PART("sharing")) sharing();
    destroy_device(device);
    close_adapter(adapter);
    no_descriptor_is_left(before);
    puts("legacy: all checks hold");
    return 0;
}
