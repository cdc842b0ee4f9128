/* Allocations of one device that the program and the engines read and write. */
#ifndef MEMORY_H
#define MEMORY_H

#include "check.h"

static D3DKMT_HANDLE device;

struct memory {
    D3DKMT_HANDLE handle;
    D3DGPU_VIRTUAL_ADDRESS gpu;
    UINT64 *cpu;
};

/* Describes one allocation of the device, in the three structures of the call. */
static inline void describe_allocation(D3DKMT_CREATEALLOCATION *create, D3DDDI_ALLOCATIONINFO2 *info,
                                       TIDEGATE_ALLOCATION_DATA *data) {
    memset(info, 0, sizeof *info);
    memset(create, 0, sizeof *create);
    info->pPrivateDriverData = data;
    info->PrivateDriverDataSize = sizeof *data;
    create->hDevice = device;
    create->NumAllocations = 1;
    create->pAllocationInfo2 = info;
}

/* Creates and maps an allocation. Kind 1 is for the control area of a ring, 0 for all else. */
static inline struct memory allocate(UINT64 bytes, UINT kind) {
    TIDEGATE_ALLOCATION_DATA data = {bytes, kind, 0};
    D3DDDI_ALLOCATIONINFO2 info;
    D3DKMT_CREATEALLOCATION create;
    describe_allocation(&create, &info, &data);
    OK(D3DKMTCreateAllocation2(&create));
    D3DKMT_LOCK2 lock = {device, info.hAllocation, 0, NULL};
    OK(D3DKMTLock2(&lock));
    CHECK(info.GpuVirtualAddress != 0 && lock.pData != NULL);
    struct memory memory = {info.hAllocation, info.GpuVirtualAddress, lock.pData};
    return memory;
}

#endif
