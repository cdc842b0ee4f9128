/*
 * The native driver, which checks the kernel's functions of features in DxgkDdiStartDevice, and
 * the logs that it is given, and it opens allocations. It declares room for 5 packets. With MISTAKE
 * 1 a connected doorbell has a wrong address, with 2 and 3 a capability is impossible, with 4 the
 * handle of an allocation stays acquired, with 5 it is released twice.
 */
#define INITGUID
#define DXGKDDI_INTERFACE_VERSION DXGKDDI_INTERFACE_VERSION_WDDM3_2
#include <ntddk.h>
#include <dispmprt.h>

static NTSTATUS Checked(
    PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath, PDRIVER_INITIALIZATION_DATA data);

#define DxgkInitialize Checked
#include "../../../drivers/native/native.c"
#undef DxgkInitialize

static VOID CheckServices(PADAPTER adapter) {
    DXGK_FEATURE_INTERFACE kernel;
    DXGKARGCB_QUERYFEATUREINTERFACE query;
    DXGKARGCB_ISFEATUREENABLED2 enabled;
    DXGKARGCB_ISFEATUREENABLED old;
    DXGKARGCB_DISCONNECTDOORBELL doorbell;
    DXGKCBINT_FEATURE_NATIVEFENCE_1 table;
    DXGKARGCB_FEATURE_NATIVEFENCE_CAPS_1 caps;
    HANDLE device = adapter->Kernel.DeviceHandle;
    RtlZeroMemory(&kernel, sizeof(kernel));
    kernel.Size = sizeof(kernel);
    kernel.Version = DXGK_FEATURE_INTERFACE_VERSION_1;
    NT_ASSERT(adapter->Kernel.DxgkCbQueryServices(
        device, DxgkServicesAgp, (PINTERFACE)&kernel) == STATUS_NOT_SUPPORTED);
    NT_ASSERT(NT_SUCCESS(adapter->Kernel.DxgkCbQueryServices(
        device, DxgkServicesFeature, (PINTERFACE)&kernel)));
    kernel.InterfaceReference(kernel.Context);
    kernel.InterfaceDereference(kernel.Context);

    RtlZeroMemory(&enabled, sizeof(enabled));
    enabled.FeatureId = DXGK_FEATURE_NATIVE_FENCE;
    NT_ASSERT(NT_SUCCESS(kernel.IsFeatureEnabled(kernel.Context, &enabled)));
    NT_ASSERT(enabled.Result.Enabled && enabled.Result.KnownFeature);
    NT_ASSERT(enabled.Result.SupportedByDriver && enabled.Result.SupportedOnCurrentConfig);
    NT_ASSERT(enabled.Result.Version == FEATURE_VERSION);
    RtlZeroMemory(&old, sizeof(old));
    old.DeviceHandle = device;
    old.FeatureId = DXGK_FEATURE_NATIVE_FENCE;
    NT_ASSERT(NT_SUCCESS(adapter->Kernel.DxgkCbIsFeatureEnabled(&old)) && old.Enabled);
    enabled.FeatureId = DXGK_FEATURE_SAMPLE;
    NT_ASSERT(NT_SUCCESS(kernel.IsFeatureEnabled(kernel.Context, &enabled)));
    NT_ASSERT(!enabled.Result.Enabled && !enabled.Result.KnownFeature);

    RtlZeroMemory(&query, sizeof(query));
    query.FeatureId = DXGK_FEATURE_NATIVE_FENCE;
    query.Version = FEATURE_VERSION;
    query.Interface = &table;
    NT_ASSERT(
        kernel.QueryFeatureInterface(kernel.Context, &query) == STATUS_BUFFER_TOO_SMALL);
    query.InterfaceSize = sizeof(table);
    query.Version = FEATURE_VERSION + 1;
    NT_ASSERT(
        kernel.QueryFeatureInterface(kernel.Context, &query) == STATUS_INVALID_PARAMETER);
    query.Version = FEATURE_VERSION;
    NT_ASSERT(NT_SUCCESS(kernel.QueryFeatureInterface(kernel.Context, &query)));
    RtlZeroMemory(&caps, sizeof(caps));
    table.GetOSCaps(&caps);
    NT_ASSERT(caps.SupportOptimizedDefaultFenceType && caps.SupportIntraGpuFenceType);

    RtlZeroMemory(&doorbell, sizeof(doorbell));
    doorbell.DisconnectReason = D3DDDI_DOORBELLSTATUS_CONNECTED;
    NT_ASSERT(
        adapter->Kernel.DxgkCbDisconnectDoorbell(&doorbell) == STATUS_INVALID_PARAMETER);
}

static NTSTATUS CheckedStartDevice(
    PVOID MiniportDeviceContext, PDXGK_START_INFO DxgkStartInfo, PDXGKRNL_INTERFACE DxgkInterface,
    PULONG NumberOfVideoPresentSources, PULONG NumberOfChildren) {
    NTSTATUS status = StartNativeDevice(
        MiniportDeviceContext, DxgkStartInfo, DxgkInterface, NumberOfVideoPresentSources,
        NumberOfChildren);
    if (NT_SUCCESS(status)) {
        CheckServices((PADAPTER)MiniportDeviceContext);
    }
    return status;
}

static NTSTATUS CheckedConnectDoorbell(DXGKARG_CONNECTDOORBELL *pArgs) {
    NTSTATUS status = ConnectDoorbell(pArgs);
    if (MISTAKE == 1) {
        pArgs->KernelCpuVirtualAddress = (PUCHAR)pArgs->KernelCpuVirtualAddress + 8;
    }
    return status;
}

static NTSTATUS CheckedSetLogBuffer(const DXGKARG_SETNATIVEFENCELOGBUFFER *args) {
    const DXGK_NATIVE_FENCE_LOG_HEADER *header =
        (const DXGK_NATIVE_FENCE_LOG_HEADER *)args->LogBufferCpuVa;
    NT_ASSERT(args->hHwQueue != NULL && args->Flags.Value == 0);
    if (args->NumberOfEntries != 0) {
        NT_ASSERT(header->NumberOfEntries == args->NumberOfEntries);
        NT_ASSERT(args->LogBufferGpuVa != 0);
        NT_ASSERT(args->LogBufferSystemProcessGpuVa != 0);
    }
    return SetNativeFenceLogBuffer(args);
}

/* What a device has of an allocation. The object of the allocation is its size. */
typedef struct _OPENED {
    HANDLE Device;
    D3DKMT_HANDLE Handle;
    PULONG64 Bytes;
} OPENED, *POPENED;

static PADAPTER OpeningAdapter;
static D3DKMT_HANDLE ClosedHandle;

static PVOID HandleData(D3DKMT_HANDLE handle, BOOLEAN of_device) {
    DXGKARGCB_GETHANDLEDATA query;
    DXGKARGCB_RELEASEHANDLEDATA release;
    PVOID data, acquired;
    RtlZeroMemory(&query, sizeof(query));
    query.hObject = handle;
    query.Type = DXGK_HANDLE_ALLOCATION;
    query.Flags.DeviceSpecific = of_device;
    data = OpeningAdapter->Kernel.DxgkCbGetHandleData(&query);
    RtlZeroMemory(&release, sizeof(release));
    release.Type = DXGK_HANDLE_ALLOCATION;
    acquired = OpeningAdapter->Kernel.DxgkCbAcquireHandleData(&query, &release.ReleaseHandle);
    NT_ASSERT(acquired == data);
    if (MISTAKE != 4) {
        OpeningAdapter->Kernel.DxgkCbReleaseHandleData(release);
    }
    if (MISTAKE == 5) {
        OpeningAdapter->Kernel.DxgkCbReleaseHandleData(release);
    }
    return data;
}

static NTSTATUS CheckedCreateAllocation(HANDLE hAdapter, DXGKARG_CREATEALLOCATION *pCreate) {
    DXGK_ALLOCATIONINFO *info = pCreate->pAllocationInfo;
    PULONG64 bytes;
    DXGK_ALLOCATIONINFO unset;
    RtlZeroMemory(&unset, sizeof(unset));
    unset.pPrivateDriverData = info->pPrivateDriverData;
    unset.PrivateDriverDataSize = info->PrivateDriverDataSize;
    /* Bytes that belong to no field follow Flags. */
    NT_ASSERT(RtlCompareMemory(info, &unset, sizeof(unset)) >=
              FIELD_OFFSET(DXGK_ALLOCATIONINFO, Flags) + sizeof(unset.Flags));
    NT_ASSERT(info->pAllocationUsageHint == NULL && info->AllocationPriority == 0);
    NT_ASSERT(pCreate->NumAllocations == 1 && pCreate->hResource == NULL);
    NT_ASSERT(pCreate->pPrivateDriverData == NULL && pCreate->Flags.Value == 0);
    OpeningAdapter = (PADAPTER)hAdapter;
    if (info->PrivateDriverDataSize != sizeof(*bytes)) {
        return CreateAllocation(hAdapter, pCreate); /* a ring, or its control area */
    }
    bytes = (PULONG64)ExAllocatePoolZero(NonPagedPoolNx, sizeof(*bytes), TAG);
    if (bytes == NULL) {
        return STATUS_NO_MEMORY;
    }
    RtlCopyMemory(bytes, info->pPrivateDriverData, sizeof(*bytes));
    info->Size = *bytes;
    info->SupportedReadSegmentSet = info->SupportedWriteSegmentSet = SEGMENT_APERTURE;
    info->hAllocation = bytes;
    return STATUS_SUCCESS;
}

static NTSTATUS CheckedOpenAllocation(HANDLE hDevice, const DXGKARG_OPENALLOCATION *pOpen) {
    DXGK_OPENALLOCATIONINFO *info = pOpen->pOpenAllocation;
    POPENED opened;
    NT_ASSERT(pOpen->NumAllocations == 1 && pOpen->Flags.Create);
    opened = (POPENED)ExAllocatePoolZero(NonPagedPoolNx, sizeof(*opened), TAG);
    if (opened == NULL) {
        return STATUS_NO_MEMORY;
    }
    opened->Device = hDevice;
    opened->Handle = info->hAllocation;
    opened->Bytes = (PULONG64)HandleData(info->hAllocation, FALSE);
    NT_ASSERT(opened->Bytes != NULL && HandleData(info->hAllocation, TRUE) == NULL);
    NT_ASSERT(HandleData(0, FALSE) == NULL && HandleData(ClosedHandle, FALSE) == NULL);
    NT_ASSERT(RtlCompareMemory(opened->Bytes, info->pPrivateDriverData, 8) == 8);
    info->hDeviceSpecificAllocation = opened;
    return STATUS_SUCCESS;
}

static NTSTATUS CheckedCloseAllocation(HANDLE hDevice, const DXGKARG_CLOSEALLOCATION *pClose) {
    POPENED opened = (POPENED)pClose->pOpenHandleList[0];
    NT_ASSERT(pClose->NumAllocations == 1 && opened->Device == hDevice);
    NT_ASSERT(HandleData(opened->Handle, TRUE) == opened);
    NT_ASSERT(HandleData(ClosedHandle, FALSE) == NULL);
    ClosedHandle = opened->Handle;
    ExFreePoolWithTag(opened, TAG);
    return STATUS_SUCCESS;
}

static NTSTATUS CheckedQueryAdapterInfo(
    HANDLE hAdapter, const DXGKARG_QUERYADAPTERINFO *pQueryAdapterInfo) {
    NTSTATUS status = QueryNativeAdapterInfo(hAdapter, pQueryAdapterInfo);
    PVOID output = pQueryAdapterInfo->pOutputData;
    if (pQueryAdapterInfo->Type == DXGKQAITYPE_DRIVERCAPS) {
        ((DXGK_DRIVERCAPS *)output)->SchedulingCaps.HwQueuePacketCap = 5;
    }
    if (MISTAKE == 2 && pQueryAdapterInfo->Type == DXGKQAITYPE_NATIVE_FENCE_CAPS) {
        ((DXGK_NATIVE_FENCE_CAPS *)output)->MonitoredValueStride = 24;
    }
    if (MISTAKE == 3 && pQueryAdapterInfo->Type == DXGKQAITYPE_USERMODESUBMISSION_CAPS) {
        ((DXGK_USERMODESUBMISSION_CAPS *)output)->DoorbellSizeInBytes = 1u << 20;
    }
    return status;
}

static NTSTATUS Checked(
    PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath, PDRIVER_INITIALIZATION_DATA data) {
    data->DxgkDdiQueryAdapterInfo = CheckedQueryAdapterInfo;
    data->DxgkDdiStartDevice = CheckedStartDevice;
    data->DxgkDdiSetNativeFenceLogBuffer = CheckedSetLogBuffer;
    data->DxgkDdiConnectDoorbell = CheckedConnectDoorbell;
    data->DxgkDdiCreateAllocation = CheckedCreateAllocation;
    data->DxgkDdiOpenAllocation = CheckedOpenAllocation;
    data->DxgkDdiCloseAllocation = CheckedCloseAllocation;
    return DxgkInitialize(DriverObject, RegistryPath, data);
}
