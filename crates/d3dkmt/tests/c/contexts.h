/* Contexts of one device, what they wait for and signal, and how far they are. */
#ifndef CONTEXTS_H
#define CONTEXTS_H

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "check.h"

static D3DKMT_HANDLE device;

static inline D3DKMT_HANDLE new_context(void) {
    D3DKMT_CREATECONTEXTVIRTUAL context;
    memset(&context, 0, sizeof context);
    context.hDevice = device;
    OK(D3DKMTCreateContextVirtual(&context));
    return context.hContext;
}

static inline void destroy_context(D3DKMT_HANDLE context) {
    D3DKMT_DESTROYCONTEXT destroy = {context};
    OK(D3DKMTDestroyContext(&destroy));
}

static inline D3DKMT_CREATESYNCHRONIZATIONOBJECT2 description(int type, UINT flags) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create;
    memset(&create, 0, sizeof create);
    create.hDevice = device;
    create.Info.Type = (D3DDDI_SYNCHRONIZATIONOBJECT_TYPE)type;
    create.Info.Flags.Value = flags;
    return create;
}

static inline NTSTATUS wait_gpu(D3DKMT_HANDLE context, D3DKMT_HANDLE object, UINT64 value) {
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECT2 wait;
    memset(&wait, 0, sizeof wait);
    wait.hContext = context;
    wait.ObjectCount = 1;
    wait.ObjectHandleArray[0] = object;
    wait.Fence.FenceValue = value;
    return D3DKMTWaitForSynchronizationObject2(&wait);
}

static inline NTSTATUS signal_gpu(D3DKMT_HANDLE context, D3DKMT_HANDLE object, UINT64 value) {
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECT2 signal;
    memset(&signal, 0, sizeof signal);
    signal.hContext = context;
    signal.ObjectCount = 1;
    signal.ObjectHandleArray[0] = object;
    signal.Fence.FenceValue = value;
    return D3DKMTSignalSynchronizationObject2(&signal);
}

/* A fence that says how far a context is. */
struct marker {
    D3DKMT_HANDLE fence;
    UINT64 value;
};

static inline struct marker new_marker(void) {
    struct marker marker = {monitored_fence(device, 0, 0).hSyncObject, 0};
    return marker;
}

static inline void mark(struct marker *marker, D3DKMT_HANDLE context) {
    marker->value++;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU signal;
    memset(&signal, 0, sizeof signal);
    signal.hContext = context;
    signal.ObjectCount = 1;
    signal.ObjectHandleArray = &marker->fence;
    signal.MonitoredFenceValueArray = &marker->value;
    OK(D3DKMTSignalSynchronizationObjectFromGpu(&signal));
}

static inline void reached(const struct marker *marker) {
    OK(wait_cpu(device, marker->fence, marker->value, 0));
}

/* Submits commands of one buffer to a new context, and waits for their end. */
static inline void run_commands(D3DGPU_VIRTUAL_ADDRESS commands, UINT bytes) {
    D3DKMT_HANDLE context = new_context();
    struct marker marker = new_marker();
    D3DKMT_SUBMITCOMMAND submit;
    memset(&submit, 0, sizeof submit);
    submit.Commands = commands;
    submit.CommandLength = bytes;
    submit.BroadcastContextCount = 1;
    submit.BroadcastContext[0] = context;
    OK(D3DKMTSubmitCommand(&submit));
    mark(&marker, context);
    reached(&marker);
    destroy_context(context);
    destroy_fence(marker.fence);
}

/* Whether the mark is reached within a while in which nothing holds it. */
static inline int is_held(const struct marker *marker) {
    int event = eventfd(0, EFD_CLOEXEC);
    OK(wait_cpu(device, marker->fence, marker->value, event));
    struct pollfd polled = {event, POLLIN, 0};
    int held = poll(&polled, 1, 0) == 0;
    close(event);
    return held;
}

#endif
