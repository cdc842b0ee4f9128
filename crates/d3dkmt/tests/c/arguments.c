/* Arguments that calls refuse, and what they answer about the adapter. */
#include "check.h"

/* A misaligned address, for a structure of 8-byte alignment. */
static char room[512] __attribute__((aligned(8)));
#define MISALIGNED(type) ((type *)(void *)(room + 4))

static void nothing(void) {
    IS(D3DKMTEnumAdapters2(NULL), STATUS_INVALID_PARAMETER);
    IS(D3DKMTEnumAdapters3(NULL), STATUS_INVALID_PARAMETER);
    IS(D3DKMTOpenAdapterFromLuid(NULL), STATUS_INVALID_PARAMETER);
    IS(D3DKMTCloseAdapter(NULL), STATUS_INVALID_PARAMETER);
    IS(D3DKMTQueryAdapterInfo(NULL), STATUS_INVALID_PARAMETER);
    IS(D3DKMTCreateDevice(NULL), STATUS_INVALID_PARAMETER);
    IS(D3DKMTDestroyDevice(NULL), STATUS_INVALID_PARAMETER);
    IS(D3DKMTCreateSynchronizationObject2(NULL), STATUS_INVALID_PARAMETER);
    IS(D3DKMTCreateNativeFence(NULL), STATUS_INVALID_PARAMETER);
    IS(D3DKMTDestroySynchronizationObject(NULL), STATUS_INVALID_PARAMETER);
    IS(D3DKMTWaitForSynchronizationObjectFromCpu(NULL), STATUS_INVALID_PARAMETER);
    IS(D3DKMTSignalSynchronizationObjectFromCpu(NULL), STATUS_INVALID_PARAMETER);
    IS(D3DKMTCreateHwQueue(NULL), STATUS_INVALID_PARAMETER);
    IS(D3DKMTCreateDoorbell(NULL), STATUS_INVALID_PARAMETER);
    IS(D3DKMTShareObjects(1, NULL, NULL, 3, NULL), STATUS_INVALID_PARAMETER);
    IS(D3DKMTCreateSynchronizationObject2(MISALIGNED(D3DKMT_CREATESYNCHRONIZATIONOBJECT2)),
       STATUS_INVALID_PARAMETER);
    IS(D3DKMTWaitForSynchronizationObjectFromCpu(MISALIGNED(D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU)),
       STATUS_INVALID_PARAMETER);
    IS(D3DKMTCreateNativeFence(MISALIGNED(D3DKMT_CREATENATIVEFENCE)), STATUS_INVALID_PARAMETER);
}

static void enumeration(void) {
    D3DKMT_ENUMADAPTERS2 count;
    memset(&count, 0, sizeof count);
    OK(D3DKMTEnumAdapters2(&count));
    CHECK(count.NumAdapters >= 1);
    D3DKMT_ADAPTERINFO info[MAX_ENUM_ADAPTERS];
    D3DKMT_ENUMADAPTERS3 all;
    memset(&all, 0, sizeof all);
    all.pAdapters = info;
    IS(D3DKMTEnumAdapters3(&all), STATUS_BUFFER_TOO_SMALL);
    CHECK(all.NumAdapters == count.NumAdapters);
    OK(D3DKMTEnumAdapters3(&all));
    for (UINT filter = 0; filter < 8; filter++) {
        D3DKMT_ENUMADAPTERS3 filtered;
        memset(&filtered, 0, sizeof filtered);
        filtered.Filter.Value = filter;
        /* Bits 0 and 1 admit further adapters; the others are reserved. */
        IS(D3DKMTEnumAdapters3(&filtered), filter < 4 ? STATUS_SUCCESS : STATUS_INVALID_PARAMETER);
        CHECK(filtered.NumAdapters == (filter < 4 ? count.NumAdapters : 0));
    }
    D3DKMT_OPENADAPTERFROMLUID open = {info[0].AdapterLuid, 0};
    OK(D3DKMTOpenAdapterFromLuid(&open));
    CHECK(open.hAdapter != 0 && open.hAdapter != info[0].hAdapter);
    close_adapter(open.hAdapter);
    D3DKMT_CLOSEADAPTER again = {open.hAdapter};
    IS(D3DKMTCloseAdapter(&again), STATUS_INVALID_PARAMETER);
    open.AdapterLuid.LowPart ^= 0x5555;
    IS(D3DKMTOpenAdapterFromLuid(&open), STATUS_INVALID_PARAMETER);
    for (UINT i = 0; i < all.NumAdapters; i++) close_adapter(info[i].hAdapter);
}

static NTSTATUS query(D3DKMT_HANDLE adapter, int type, void *data, UINT bytes) {
    D3DKMT_QUERYADAPTERINFO query = {adapter, (KMTQUERYADAPTERINFOTYPE)type, data, bytes};
    return D3DKMTQueryAdapterInfo(&query);
}

static void queries(D3DKMT_HANDLE adapter) {
    D3DKMT_WDDM_3_1_CAPS caps = {{{0, 0}}};
    OK(query(adapter, KMTQAITYPE_WDDM_3_1_CAPS, &caps, sizeof caps));
    CHECK(caps.Value == 1);
    IS(query(adapter, KMTQAITYPE_WDDM_3_1_CAPS, &caps, 3), STATUS_INVALID_PARAMETER);
    IS(query(adapter, KMTQAITYPE_WDDM_3_1_CAPS, NULL, sizeof caps), STATUS_INVALID_PARAMETER);
    IS(query(adapter, KMTQAITYPE_WDDM_3_1_CAPS, room + 1, sizeof caps), STATUS_INVALID_PARAMETER);
    IS(query(0, KMTQAITYPE_WDDM_3_1_CAPS, &caps, sizeof caps), STATUS_INVALID_PARAMETER);
    IS(query(adapter, 12345, &caps, sizeof caps), STATUS_INVALID_PARAMETER);
    D3DKMT_WDDM_2_7_CAPS scheduling;
    OK(query(adapter, KMTQAITYPE_WDDM_2_7_CAPS, &scheduling, sizeof scheduling));
    CHECK(scheduling.HwSchSupported && scheduling.HwSchEnabled);
    D3DKMT_WDDM_1_2_CAPS preemption;
    OK(query(adapter, KMTQAITYPE_WDDM_1_2_CAPS, &preemption, sizeof preemption));
    CHECK(preemption.PreemptionCaps.GraphicsPreemptionGranularity == 300);
    CHECK(preemption.PreemptionCaps.ComputePreemptionGranularity == 300);
    CHECK(sizeof preemption.PreemptionCaps == 8);
    D3DKMT_ADAPTERTYPE type;
    OK(query(adapter, KMTQAITYPE_ADAPTERTYPE, &type, sizeof type));
    CHECK(type.RenderSupported && type.SoftwareDevice);
    D3DKMT_ADAPTERREGISTRYINFO names;
    OK(query(adapter, KMTQAITYPE_ADAPTERREGISTRYINFO, &names, sizeof names));
    CHECK(names.AdapterString[0] == 't');
    static D3DKMT_DRIVER_DESCRIPTION description;
    OK(query(adapter, KMTQAITYPE_DRIVER_DESCRIPTION, &description, sizeof description));
    CHECK(description.DriverDescription[1] == 'i');
    UINT version = 0;
    OK(query(adapter, KMTQAITYPE_DRIVERVERSION, &version, sizeof version));
    CHECK(version >= 3000);
    /* A query of the rendering half of the adapter has the answer of the query of the whole. */
    static const int twins[][3] = {
        {KMTQAITYPE_ADAPTERADDRESS, KMTQAITYPE_ADAPTERADDRESS_RENDER, sizeof(D3DKMT_ADAPTERADDRESS)},
        {KMTQAITYPE_ADAPTERREGISTRYINFO, KMTQAITYPE_ADAPTERREGISTRYINFO_RENDER, sizeof names},
        {KMTQAITYPE_CHECKDRIVERUPDATESTATUS, KMTQAITYPE_CHECKDRIVERUPDATESTATUS_RENDER, 4},
        {KMTQAITYPE_DRIVERVERSION, KMTQAITYPE_DRIVERVERSION_RENDER, sizeof version},
        {KMTQAITYPE_ADAPTERTYPE, KMTQAITYPE_ADAPTERTYPE_RENDER, sizeof type},
        {KMTQAITYPE_WDDM_1_2_CAPS, KMTQAITYPE_WDDM_1_2_CAPS_RENDER, sizeof preemption},
        {KMTQAITYPE_WDDM_1_3_CAPS, KMTQAITYPE_WDDM_1_3_CAPS_RENDER, 4},
        {KMTQAITYPE_DRIVER_DESCRIPTION, KMTQAITYPE_DRIVER_DESCRIPTION_RENDER, sizeof description},
    };
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++) {
        static UINT whole[8192], half[8192];
        UINT bytes = (UINT)twins[i][2];
        memset(half, 0xFF, sizeof half);
        OK(query(adapter, twins[i][0], whole, bytes));
        OK(query(adapter, twins[i][1], half, bytes));
        CHECK(memcmp(whole, half, bytes) == 0);
        IS(query(adapter, twins[i][1], half, bytes - 1), STATUS_INVALID_PARAMETER);
    }
    UINT64 driver = 0;
    OK(query(adapter, KMTQAITYPE_KMD_DRIVER_VERSION, &driver, sizeof driver));
    CHECK(driver == (UINT64)1 << 32);
    IS(query(adapter, KMTQAITYPE_KMD_DRIVER_VERSION, &driver, 4), STATUS_INVALID_PARAMETER);
    D3DKMT_WDDM_2_0_CAPS memory_caps;
    OK(query(adapter, KMTQAITYPE_WDDM_2_0_CAPS, &memory_caps, sizeof memory_caps));
    CHECK(memory_caps.Support64BitAtomics && memory_caps.GpuMmuSupported && !memory_caps.IoMmuSupported);
    D3DKMT_PHYSICAL_ADAPTER_COUNT physical;
    OK(query(adapter, KMTQAITYPE_PHYSICALADAPTERCOUNT, &physical, sizeof physical));
    CHECK(physical.Count == 1);
    D3DKMT_QUERY_DEVICE_IDS ids;
    memset(&ids, 0xFF, sizeof ids);
    ids.PhysicalAdapterIndex = 0;
    OK(query(adapter, KMTQAITYPE_PHYSICALADAPTERDEVICEIDS, &ids, sizeof ids));
    CHECK(ids.DeviceIds.VendorID == 0x1414 && ids.DeviceIds.DeviceID == 0x8C);
    ids.PhysicalAdapterIndex = 1;
    IS(query(adapter, KMTQAITYPE_PHYSICALADAPTERDEVICEIDS, &ids, sizeof ids), STATUS_INVALID_PARAMETER);
    D3DKMT_SEGMENTSIZEINFO sizes;
    OK(query(adapter, KMTQAITYPE_GETSEGMENTSIZE, &sizes, sizeof sizes));
    CHECK(sizes.DedicatedVideoMemorySize + sizes.SharedSystemMemorySize > 0);
    D3DKMT_QUERYVIDEOMEMORYINFO memory;
    memset(&memory, 0, sizeof memory);
    memory.hAdapter = adapter;
    OK(D3DKMTQueryVideoMemoryInfo(&memory));
    CHECK(memory.Budget == sizes.DedicatedVideoMemorySize && memory.Budget > 0);
    memory.MemorySegmentGroup = (D3DKMT_MEMORY_SEGMENT_GROUP)2;
    IS(D3DKMTQueryVideoMemoryInfo(&memory), STATUS_INVALID_PARAMETER);
    D3DKMT_NODEMETADATA node;
    int user_mode = 0;
    UINT nodes = 0;
    for (;; nodes++) {
        memset(&node, 0, sizeof node);
        node.NodeOrdinalAndAdapterIndex = nodes;
        NTSTATUS status = query(adapter, KMTQAITYPE_NODEMETADATA, &node, sizeof node);
        if (status != STATUS_SUCCESS) {
            IS(status, STATUS_INVALID_PARAMETER);
            break;
        }
        user_mode |= (node.NodeData.Flags >> 3) & 1;
        CHECK(node.NodeData.FriendlyName[0] != 0 && node.NodeData.GpuMmuSupported);
    }
    CHECK(nodes >= 3 && user_mode);

    UINT features[3] = {DXGK_FEATURE_HWSCH, DXGK_FEATURE_USER_MODE_SUBMISSION, DXGK_FEATURE_NATIVE_FENCE};
    for (int i = 0; i < 3; i++) {
        D3DKMT_ISFEATUREENABLED feature;
        memset(&feature, 0, sizeof feature);
        feature.hAdapter = adapter;
        feature.FeatureId = features[i];
        OK(D3DKMTIsFeatureEnabled(&feature));
        CHECK(feature.Result.Enabled && feature.Result.KnownFeature && feature.Result.Version == 1);
        CHECK(feature.Result.SupportedByDriver && feature.Result.SupportedOnCurrentConfig);
    }
    D3DKMT_ISFEATUREENABLED unknown = {adapter, 0x20001234, {0, {{0, 0, 0, 0, 0}}}};
    OK(D3DKMTIsFeatureEnabled(&unknown));
    CHECK(unknown.Result.Value == 0 && unknown.Result.Version == 0);
    unknown.FeatureId = 1;
    OK(D3DKMTIsFeatureEnabled(&unknown));
    CHECK(!unknown.Result.Enabled && unknown.Result.KnownFeature);

    D3DKMT_QUERYCLOCKCALIBRATION clocks;
    memset(&clocks, 0, sizeof clocks);
    clocks.hAdapter = adapter;
    OK(D3DKMTQueryClockCalibration(&clocks));
    CHECK(clocks.ClockData.GpuFrequency == 1000000000 && clocks.ClockData.CpuClockCounter != 0);
    clocks.NodeOrdinal = 99;
    IS(D3DKMTQueryClockCalibration(&clocks), STATUS_INVALID_PARAMETER);
    D3DKMT_ESCAPE escape;
    memset(&escape, 0, sizeof escape);
    escape.hAdapter = adapter;
    IS(D3DKMTEscape(&escape), STATUS_NOT_SUPPORTED);
}

/* Two linked physical GPUs with a display that use CPU addresses. */
static void linked_behind_io_mmu(const D3DKMT_ADAPTERINFO *info) {
    D3DKMT_HANDLE adapter = info->hAdapter;
    CHECK(info->NumOfSources == 1);
    D3DKMT_ADAPTERTYPE type;
    OK(query(adapter, KMTQAITYPE_ADAPTERTYPE, &type, sizeof type));
    CHECK(type.DisplaySupported && type.RenderSupported && type.SoftwareDevice);
    D3DKMT_WDDM_2_0_CAPS memory;
    OK(query(adapter, KMTQAITYPE_WDDM_2_0_CAPS, &memory, sizeof memory));
    CHECK(memory.IoMmuSupported && memory.GpuMmuSupported && memory.Support64BitAtomics);
    D3DKMT_ADAPTERADDRESS address;
    OK(query(adapter, KMTQAITYPE_ADAPTERADDRESS, &address, sizeof address));
    CHECK(address.BusNumber == 0 && address.DeviceNumber == 0 && address.FunctionNumber == 0);
    D3DKMT_PHYSICAL_ADAPTER_COUNT physical;
    OK(query(adapter, KMTQAITYPE_PHYSICALADAPTERCOUNT, &physical, sizeof physical));
    CHECK(physical.Count == 2);
    /* Each query about a physical GPU takes 0 and 1, and keeps the number. */
    for (UINT index = 0; index < 3; index++) {
        NTSTATUS expected = index < 2 ? STATUS_SUCCESS : STATUS_INVALID_PARAMETER;
        D3DKMT_NODEMETADATA node;
        memset(&node, 0, sizeof node);
        node.NodeOrdinalAndAdapterIndex = 2 | index << 16;
        IS(query(adapter, KMTQAITYPE_NODEMETADATA, &node, sizeof node), expected);
        CHECK(node.NodeOrdinalAndAdapterIndex == (2 | index << 16));
        CHECK(index == 2 || (node.NodeData.EngineType == 6 && node.NodeData.IoMmuSupported));
        D3DKMT_QUERY_DEVICE_IDS ids;
        memset(&ids, 0xFF, sizeof ids);
        ids.PhysicalAdapterIndex = index;
        IS(query(adapter, KMTQAITYPE_PHYSICALADAPTERDEVICEIDS, &ids, sizeof ids), expected);
        CHECK(ids.PhysicalAdapterIndex == index);
        CHECK(index == 2 || (ids.DeviceIds.DeviceID == 0x8C && ids.DeviceIds.BusType == 0));
        D3DKMT_QUERY_GPUMMU_CAPS mmu;
        memset(&mmu, 0xFF, sizeof mmu);
        mmu.PhysicalAdapterIndex = index;
        IS(query(adapter, KMTQAITYPE_QUERY_GPUMMU_CAPS, &mmu, sizeof mmu), expected);
        CHECK(mmu.PhysicalAdapterIndex == index);
        CHECK(index == 2 || (mmu.Caps.Flags == 0 && mmu.Caps.VirtualAddressBitCount == 48));
        D3DKMT_SEGMENTSIZEINFO sizes;
        OK(query(adapter, KMTQAITYPE_GETSEGMENTSIZE, &sizes, sizeof sizes));
        D3DKMT_SEGMENTGROUPSIZEINFO groups;
        memset(&groups, 0, sizeof groups);
        groups.PhysicalAdapterIndex = index;
        IS(query(adapter, KMTQAITYPE_GETSEGMENTGROUPSIZE, &groups, sizeof groups), expected);
        CHECK(groups.PhysicalAdapterIndex == index);
        if (index == 2) continue;
        CHECK(memcmp(&groups.LegacyInfo, &sizes, sizeof sizes) == 0);
        CHECK(groups.LocalMemory == sizes.DedicatedVideoMemorySize && groups.LocalMemory > 0);
        CHECK(groups.NonLocalMemory == sizes.SharedSystemMemorySize && groups.NonLocalMemory > 0);
        CHECK(sizes.DedicatedSystemMemorySize == 0 && groups.NonBudgetMemory == 0);
        D3DKMT_QUERYCLOCKCALIBRATION clocks;
        memset(&clocks, 0, sizeof clocks);
        clocks.hAdapter = adapter;
        clocks.PhysicalAdapterIndex = index;
        OK(D3DKMTQueryClockCalibration(&clocks));
    }
    D3DKMT_QUERYVIDEOMEMORYINFO budget;
    memset(&budget, 0, sizeof budget);
    budget.hAdapter = adapter;
    budget.PhysicalAdapterIndex = 1;
    OK(D3DKMTQueryVideoMemoryInfo(&budget));
    budget.PhysicalAdapterIndex = 2;
    IS(D3DKMTQueryVideoMemoryInfo(&budget), STATUS_INVALID_PARAMETER);
}

/* A fence may be on several physical GPUs, and a context runs on one. 0 is all of them, or any. */
static void affinities(D3DKMT_HANDLE adapter) {
    D3DKMT_HANDLE device = create_device(adapter);
    for (UINT mask = 0; mask < 8; mask++) {
        NTSTATUS of_fence = mask < 4 ? STATUS_SUCCESS : STATUS_INVALID_PARAMETER;
        NTSTATUS of_context = mask < 3 ? STATUS_SUCCESS : STATUS_INVALID_PARAMETER;
        D3DKMT_CREATESYNCHRONIZATIONOBJECT2 monitored;
        memset(&monitored, 0, sizeof monitored);
        monitored.hDevice = device;
        monitored.Info.Type = D3DDDI_MONITORED_FENCE;
        monitored.Info.MonitoredFence.EngineAffinity = mask;
        IS(D3DKMTCreateSynchronizationObject2(&monitored), of_fence);
        D3DKMT_CREATENATIVEFENCE native;
        memset(&native, 0, sizeof native);
        native.hDevice = device;
        native.Info.EngineAffinity = mask;
        IS(D3DKMTCreateNativeFence(&native), of_fence);
        D3DKMT_CREATECONTEXTVIRTUAL packets;
        memset(&packets, 0, sizeof packets);
        packets.hDevice = device;
        packets.EngineAffinity = mask;
        IS(D3DKMTCreateContextVirtual(&packets), of_context);
        D3DKMT_CREATEHWCONTEXT queues;
        memset(&queues, 0, sizeof queues);
        queues.hDevice = device;
        queues.EngineAffinity = mask;
        IS(D3DKMTCreateHwContext(&queues), of_context);
    }
    destroy_device(device);
}

/* 32-bit atomics, and neither hardware scheduling nor a display. */
static void oldest(const D3DKMT_ADAPTERINFO *info) {
    D3DKMT_HANDLE adapter = info->hAdapter;
    CHECK(info->NumOfSources == 0);
    D3DKMT_ADAPTERTYPE type;
    OK(query(adapter, KMTQAITYPE_ADAPTERTYPE, &type, sizeof type));
    CHECK(!type.DisplaySupported && type.RenderSupported);
    D3DKMT_WDDM_2_0_CAPS memory;
    OK(query(adapter, KMTQAITYPE_WDDM_2_0_CAPS, &memory, sizeof memory));
    CHECK(!memory.IoMmuSupported && memory.GpuMmuSupported && !memory.Support64BitAtomics);
    D3DKMT_WDDM_2_7_CAPS scheduling;
    OK(query(adapter, KMTQAITYPE_WDDM_2_7_CAPS, &scheduling, sizeof scheduling));
    CHECK(scheduling.Value == 0);
    D3DKMT_WDDM_3_1_CAPS fences;
    OK(query(adapter, KMTQAITYPE_WDDM_3_1_CAPS, &fences, sizeof fences));
    CHECK(fences.Value == 0);
    D3DKMT_ADAPTERADDRESS address;
    OK(query(adapter, KMTQAITYPE_ADAPTERADDRESS, &address, sizeof address));
    CHECK(address.DeviceNumber == 1);
    D3DKMT_NODEMETADATA node;
    memset(&node, 0, sizeof node);
    OK(query(adapter, KMTQAITYPE_NODEMETADATA, &node, sizeof node));
    CHECK(node.NodeData.EngineType == 1 && node.NodeData.Flags == 0 && !node.NodeData.IoMmuSupported);
    UINT features[3] = {DXGK_FEATURE_HWSCH, DXGK_FEATURE_USER_MODE_SUBMISSION, DXGK_FEATURE_NATIVE_FENCE};
    for (int i = 0; i < 3; i++) {
        D3DKMT_ISFEATUREENABLED feature;
        memset(&feature, 0xFF, sizeof feature);
        feature.hAdapter = adapter;
        feature.FeatureId = features[i];
        OK(D3DKMTIsFeatureEnabled(&feature));
        CHECK(feature.Result.KnownFeature && !feature.Result.Enabled && feature.Result.Version == 0);
        CHECK(!feature.Result.SupportedByDriver && !feature.Result.SupportedOnCurrentConfig);
    }
}

/* Adapters that differ from the standard one, in this order. */
static void variants(void) {
    D3DKMT_ADAPTERINFO info[MAX_ENUM_ADAPTERS];
    D3DKMT_ENUMADAPTERS2 all;
    memset(&all, 0, sizeof all);
    all.NumAdapters = MAX_ENUM_ADAPTERS;
    all.pAdapters = info;
    OK(D3DKMTEnumAdapters2(&all));
    CHECK(all.NumAdapters == 2);
    CHECK(info[0].AdapterLuid.LowPart != info[1].AdapterLuid.LowPart);
    linked_behind_io_mmu(&info[0]);
    affinities(info[0].hAdapter);
    oldest(&info[1]);
    for (UINT i = 0; i < all.NumAdapters; i++) close_adapter(info[i].hAdapter);
}

static NTSTATUS create(D3DKMT_HANDLE device, int type, UINT flags) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create;
    memset(&create, 0, sizeof create);
    create.hDevice = device;
    create.Info.Type = (D3DDDI_SYNCHRONIZATIONOBJECT_TYPE)type;
    create.Info.Flags.Value = flags;
    NTSTATUS status = D3DKMTCreateSynchronizationObject2(&create);
    CHECK(status != STATUS_SUCCESS || create.Info.SharedHandle == 0);
    if (status == STATUS_SUCCESS) destroy_fence(create.hSyncObject);
    return status;
}

static void fences(D3DKMT_HANDLE device) {
    IS(create(0, D3DDDI_MONITORED_FENCE, 0), STATUS_INVALID_PARAMETER);
    IS(create(device, 0, 0), STATUS_INVALID_PARAMETER);
    IS(create(device, D3DDDI_SYNCHRONIZATION_TYPE_LIMIT, 0), STATUS_INVALID_PARAMETER);
    IS(create(device, D3DDDI_NATIVE_FENCE, 0), STATUS_INVALID_PARAMETER);
    IS(create(device, D3DDDI_PERIODIC_MONITORED_FENCE, 0), STATUS_NOT_SUPPORTED);
    IS(create(device, D3DDDI_MONITORED_FENCE, 0x2), STATUS_INVALID_PARAMETER);
    IS(create(device, D3DDDI_MONITORED_FENCE, 0x30), STATUS_INVALID_PARAMETER);
    IS(create(device, D3DDDI_MONITORED_FENCE, 1u << 20), STATUS_INVALID_PARAMETER);
    IS(create(device, D3DDDI_MONITORED_FENCE, 1u << 31), STATUS_INVALID_PARAMETER);
    OK(create(device, D3DDDI_MONITORED_FENCE, 0x3));
    D3DKMT_HANDLE fence = monitored_fence(device, 0, 0).hSyncObject;
    /* Local handles: the low six bits are 0, the upper two are not both 0. */
    CHECK((fence & 0x3F) == 0 && fence >> 30 != 0);
    IS(signal_cpu(device, device, 1), STATUS_INVALID_PARAMETER);
    IS(signal_cpu(fence, fence, 1), STATUS_INVALID_PARAMETER);
    IS(wait_cpu(device, fence, 1, -1), STATUS_INVALID_HANDLE);
    UINT64 values[33] = {0};
    D3DKMT_HANDLE handles[33];
    for (int i = 0; i < 33; i++) handles[i] = fence;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal;
    memset(&signal, 0, sizeof signal);
    signal.hDevice = device;
    signal.ObjectHandleArray = handles;
    signal.FenceValueArray = values;
    IS(D3DKMTSignalSynchronizationObjectFromCpu(&signal), STATUS_INVALID_PARAMETER);
    signal.ObjectCount = 33;
    IS(D3DKMTSignalSynchronizationObjectFromCpu(&signal), STATUS_INVALID_PARAMETER);
    signal.ObjectCount = 32;
    OK(D3DKMTSignalSynchronizationObjectFromCpu(&signal));
    signal.Flags.Value = 1u << 5;
    IS(D3DKMTSignalSynchronizationObjectFromCpu(&signal), STATUS_INVALID_PARAMETER);
    signal.Flags.Value = 0;
    signal.FenceValueArray = NULL;
    IS(D3DKMTSignalSynchronizationObjectFromCpu(&signal), STATUS_INVALID_PARAMETER);
    destroy_fence(fence);
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT twice = {fence};
    IS(D3DKMTDestroySynchronizationObject(&twice), STATUS_INVALID_PARAMETER);
}

/* A device in error: its fences read their maximum, its calls return DEVICE_REMOVED. */
static void loss(D3DKMT_HANDLE adapter) {
    D3DKMT_HANDLE device = create_device(adapter);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = monitored_fence(device, 0, 0);
    D3DKMT_GETDEVICESTATE state;
    memset(&state, 0, sizeof state);
    state.hDevice = device;
    IS(D3DKMTGetDeviceState(&state), STATUS_INVALID_PARAMETER);
    state.StateType = D3DKMT_DEVICESTATE_EXECUTION;
    OK(D3DKMTGetDeviceState(&state));
    CHECK(state.ExecutionState == D3DKMT_DEVICEEXECUTION_ACTIVE);
    state.StateType = D3DKMT_DEVICESTATE_PAGE_FAULT;
    OK(D3DKMTGetDeviceState(&state));
    CHECK(state.PageFaultState.FaultedVirtualAddress == 0);
    D3DKMT_MARKDEVICEASERROR mark = {device, 1};
    IS(D3DKMTMarkDeviceAsError(&mark), STATUS_INVALID_PARAMETER);
    mark.Reason = D3DKMT_DEVICE_ERROR_REASON_GENERIC;
    OK(D3DKMTMarkDeviceAsError(&mark));
    state.StateType = D3DKMT_DEVICESTATE_EXECUTION;
    OK(D3DKMTGetDeviceState(&state));
    CHECK(state.ExecutionState != D3DKMT_DEVICEEXECUTION_ACTIVE);
    CHECK(load(fence.Info.MonitoredFence.FenceValueCPUVirtualAddress) == UINT64_MAX);
    IS(signal_cpu(device, fence.hSyncObject, 1), STATUS_DEVICE_REMOVED);
    destroy_device(device);
}

int main(int argc, char **argv) {
    if (PART("nothing")) nothing();
    if (PART("enumeration")) enumeration();
    /* On a service with these adapters only. */
    if (argc == 2 && PART("variants")) variants();
    D3DKMT_HANDLE adapter = open_adapter();
    if (PART("queries")) queries(adapter);
    D3DKMT_HANDLE device = create_device(adapter);
    if (PART("fences")) fences(device);
    destroy_device(device);
    D3DKMT_DESTROYDEVICE twice = {device};
    IS(D3DKMTDestroyDevice(&twice), STATUS_INVALID_PARAMETER);
    if (PART("loss")) loss(adapter);
    close_adapter(adapter);
    puts("arguments: all checks hold");
    return 0;
}
