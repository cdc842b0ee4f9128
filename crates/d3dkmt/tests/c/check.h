/* Checks of the test programs, and what each of them begins with. */
#ifndef CHECK_H
#define CHECK_H

#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tidegate_d3dkmt.h"

#define CHECK(condition)                                                               \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

#define IS(call, expected)                                                             \
    do {                                                                               \
        NTSTATUS is_status = (call);                                                   \
        if (is_status != (expected)) {                                                 \
            fprintf(stderr, "%s:%d: %s returned %#010x, expected %s\n", __FILE__, __LINE__, #call, \
                    (unsigned)is_status, #expected);                                   \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

#define OK(call) IS(call, STATUS_SUCCESS)

/* Whether the command line names this part of the program, or none. */
#define PART(name) (argc < 2 || strcmp(argv[1], name) == 0)

static inline D3DKMT_HANDLE open_adapter(void) {
    D3DKMT_ADAPTERINFO adapters[MAX_ENUM_ADAPTERS];
    D3DKMT_ENUMADAPTERS2 all;
    memset(&all, 0, sizeof all);
    all.NumAdapters = MAX_ENUM_ADAPTERS;
    all.pAdapters = adapters;
    OK(D3DKMTEnumAdapters2(&all));
    CHECK(all.NumAdapters >= 1);
    for (UINT i = 1; i < all.NumAdapters; i++) {
        D3DKMT_CLOSEADAPTER close = {adapters[i].hAdapter};
        OK(D3DKMTCloseAdapter(&close));
    }
    return adapters[0].hAdapter;
}

static inline void close_adapter(D3DKMT_HANDLE adapter) {
    D3DKMT_CLOSEADAPTER close = {adapter};
    OK(D3DKMTCloseAdapter(&close));
}

static inline D3DKMT_HANDLE create_device(D3DKMT_HANDLE adapter) {
    D3DKMT_CREATEDEVICE create;
    memset(&create, 0, sizeof create);
    create.hAdapter = adapter;
    OK(D3DKMTCreateDevice(&create));
    CHECK(create.hDevice != 0);
    return create.hDevice;
}

static inline void destroy_device(D3DKMT_HANDLE device) {
    D3DKMT_DESTROYDEVICE destroy = {device};
    OK(D3DKMTDestroyDevice(&destroy));
}

static inline D3DKMT_CREATESYNCHRONIZATIONOBJECT2 monitored_fence(D3DKMT_HANDLE device, UINT flags,
                                                                  UINT64 initial) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create;
    memset(&create, 0, sizeof create);
    create.hDevice = device;
    create.Info.Type = D3DDDI_MONITORED_FENCE;
    create.Info.Flags.Value = flags;
    create.Info.MonitoredFence.InitialFenceValue = initial;
    OK(D3DKMTCreateSynchronizationObject2(&create));
    CHECK(create.hSyncObject != 0);
    return create;
}

static inline void destroy_fence(D3DKMT_HANDLE fence) {
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy = {fence};
    OK(D3DKMTDestroySynchronizationObject(&destroy));
}

static inline NTSTATUS wait_cpu(D3DKMT_HANDLE device, D3DKMT_HANDLE fence, UINT64 value, int event) {
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait;
    memset(&wait, 0, sizeof wait);
    wait.hDevice = device;
    wait.ObjectCount = 1;
    wait.ObjectHandleArray = &fence;
    wait.FenceValueArray = &value;
    wait.hAsyncEvent = (HANDLE)(intptr_t)event;
    return D3DKMTWaitForSynchronizationObjectFromCpu(&wait);
}

static inline NTSTATUS signal_cpu(D3DKMT_HANDLE device, D3DKMT_HANDLE fence, UINT64 value) {
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal;
    memset(&signal, 0, sizeof signal);
    signal.hDevice = device;
    signal.ObjectCount = 1;
    signal.ObjectHandleArray = &fence;
    signal.FenceValueArray = &value;
    return D3DKMTSignalSynchronizationObjectFromCpu(&signal);
}

static inline UINT64 load(const void *address) {
    return __atomic_load_n((const UINT64 *)address, __ATOMIC_ACQUIRE);
}

static inline void store(void *address, UINT64 value) {
    __atomic_store_n((UINT64 *)address, value, __ATOMIC_RELEASE);
}

/* The open descriptors of this process, which has fewer than 4096. A container may have no /proc. */
static inline int descriptors(void) {
    int count = 0;
    for (int file = 0; file < 4096; file++) count += fcntl(file, F_GETFD) >= 0;
    return count;
}

/* Checks that no more descriptors are open than before. A call does not wait for the thread of the
   library that drops the last reference of memory, so they are counted until it has. There may be
   fewer: one that the start of the machine opened may be closed later. */
static inline void no_descriptor_is_left(int before) {
    int now = descriptors();
    for (int tries = 0; tries < 100000 && now > before; tries++) {
        sched_yield();
        now = descriptors();
    }
    if (now > before) fprintf(stderr, "%d descriptors, %d before\n", now, before);
    CHECK(now <= before);
}

#endif
