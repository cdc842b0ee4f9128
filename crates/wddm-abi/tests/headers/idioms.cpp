/*
 * Forms that the C++ code of published drivers has and that the C++ compilers of Linux do not know
 * without the headers. The program checks what they do.
 */
#include <initguid.h>
#include <ntddk.h>
#include <ntintsafe.h>
#include <ntstrsafe.h>

#define ENABLE_DXGK_SAL

extern "C" {
#include <dispmprt.h>
}

DEFINE_GUID(
    GUID_OF_TEST, 0x01234567, 0x89AB, 0xCDEF, 0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF);

#define PAGED_BEGIN __pragma(code_seg(push)) __pragma(code_seg("PAGE"))
#define PAGED_END __pragma(code_seg(pop))

extern "C" VOID TidegatePagedCode(PCSTR, ULONG) {
}

extern "C" VOID TidegateAssertionFailed(PCSTR, PCSTR, ULONG) {
    __builtin_abort();
}

extern "C" __control_entrypoint(DeviceDriver) NTSTATUS DriverEntry(
    __in IN DRIVER_OBJECT *pDriverObject, __in IN UNICODE_STRING *pRegistryPath)
{
    UNREFERENCED_PARAMETER(pDriverObject);
    UNREFERENCED_PARAMETER(pRegistryPath);
    return STATUS_SUCCESS;
}

enum TAGS : ULONG { TAG_OF_DEVICE = 0x4D454F44 };

class Adapter {
public:
    virtual BOOLEAN InterruptRoutine(IN_ULONG MessageNumber) = NULL;
    static NTSTATUS __stdcall Start(
        IN_CONST_PVOID MiniportDeviceContext, IN_PDXGK_START_INFO DxgkStartInfo,
        IN_PDXGKRNL_INTERFACE DxgkInterface, OUT_PULONG NumberOfVideoPresentSources,
        OUT_PULONG NumberOfChildren);
    static NTSTATUS __stdcall Query(
        IN_CONST_HANDLE hAdapter, IN_CONST_PDXGKARG_QUERYADAPTERINFO pQueryAdapterInfo);
    static NTSTATUS __stdcall Render(IN_CONST_HANDLE hContext, INOUT_PDXGKARG_RENDER pRender);
    static void __stdcall SetStablePowerState(
        IN_CONST_HANDLE hAdapter, IN_CONST_PDXGKARG_SETSTABLEPOWERSTATE pArgs);
    static DXGKDDI_OPENALLOCATIONINFO OpenAllocation;

    _Check_return_
    _Function_class_DXGK_(DXGKDDI_COMMITVIDPN)
    _IRQL_requires_(PASSIVE_LEVEL)
    static NTSTATUS CommitVidPn(HANDLE hAdapter, IN_CONST_PDXGKARG_COMMITVIDPN_CONST pCommitVidPn);

protected:
    virtual ~Adapter() {
    }
};

_Use_decl_annotations_
NTSTATUS Adapter::Start(
    PVOID, PDXGK_START_INFO, PDXGKRNL_INTERFACE kernel, PULONG sources, PULONG children)
{
    *sources = *children = 0;
    return kernel == NULL ? STATUS_INVALID_PARAMETER : STATUS_SUCCESS;
}

NTSTATUS Adapter::Query(HANDLE, const DXGKARG_QUERYADAPTERINFO *query)
{
    return query->Type == DXGKQAITYPE_DRIVERCAPS ? STATUS_SUCCESS : STATUS_NOT_SUPPORTED;
}

NTSTATUS Adapter::Render(HANDLE, DXGKARG_RENDER *render)
{
    __try {
        memcpy(render->pDmaBuffer, render->pCommand, min(render->CommandLength, render->DmaSize));
    }
    __except (EXCEPTION_EXECUTE_HANDLER)
    {
        return STATUS_INVALID_USER_BUFFER;
    }
    return STATUS_SUCCESS;
}

void Adapter::SetStablePowerState(HANDLE, const DXGKARG_SETSTABLEPOWERSTATE *)
{
}

NTSTATUS Adapter::OpenAllocation(HANDLE, const DXGKARG_OPENALLOCATION *)
{
    return STATUS_SUCCESS;
}

PAGED_BEGIN;

static D3DKMDT_VIDPN_SOURCE_MODE pinned_mode;
static D3DKMDT_HVIDPN only_network;

static NTSTATUS pin(
    const DXGK_VIDPN_INTERFACE *network, D3DKMDT_HVIDPN hVidPn,
    D3DDDI_VIDEO_PRESENT_SOURCE_ID source)
{
    D3DKMDT_HVIDPNSOURCEMODESET set = NULL;
    const DXGK_VIDPNSOURCEMODESET_INTERFACE *modes = NULL;
    const D3DKMDT_VIDPN_SOURCE_MODE *mode = NULL;
    NTSTATUS status = network->pfnAcquireSourceModeSet(hVidPn, source, &set, &modes);
    if (NT_SUCCESS(status)) {
        status = modes->pfnAcquirePinnedModeInfo(set, &mode);
        if (NT_SUCCESS(status) && mode->Type == D3DKMDT_RMT_GRAPHICS) {
            pinned_mode = *mode;
            status = modes->pfnReleaseModeInfo(set, mode);
        }
    }
    return status;
}

_Use_decl_annotations_
NTSTATUS Adapter::CommitVidPn(HANDLE hAdapter, const DXGKARG_COMMITVIDPN *const commit)
{
    PAGED_CODE();
    if (commit->Flags.PathPoweredOff) {
        return STATUS_SUCCESS;
    }
    only_network = commit->hFunctionalVidPn;
    const DXGK_VIDPN_INTERFACE *network = (const DXGK_VIDPN_INTERFACE *)hAdapter;
    return pin(network, only_network, commit->AffectedVidPnSourceId);
}

PAGED_END;

static bool fills_the_table()
{
    DRIVER_INITIALIZATION_DATA data;
    memset(&data, 0, sizeof(data));
    data.DxgkDdiStartDevice = Adapter::Start;
    data.DxgkDdiQueryAdapterInfo = Adapter::Query;
    data.DxgkDdiRender = Adapter::Render;
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
    data.DxgkDdiSetStablePowerState = Adapter::SetStablePowerState;
#endif
    data.DxgkDdiOpenAllocation = Adapter::OpenAllocation;
    data.DxgkDdiCommitVidPn = Adapter::CommitVidPn;
    return data.DxgkDdiStartDevice != NULL && data.DxgkDdiPresent == NULL;
}

static NTSTATUS acquire_pinned(D3DKMDT_HVIDPNSOURCEMODESET, const D3DKMDT_VIDPN_SOURCE_MODE **mode)
{
    static D3DKMDT_VIDPN_SOURCE_MODE only = {};
    only.Type = D3DKMDT_RMT_GRAPHICS;
    only.Format.Graphics.PixelFormat = D3DDDIFMT_A8R8G8B8;
    only.Format.Graphics.PrimSurfSize.cx = 640;
    *mode = &only;
    return STATUS_SUCCESS;
}

static NTSTATUS release_mode(D3DKMDT_HVIDPNSOURCEMODESET, const D3DKMDT_VIDPN_SOURCE_MODE *)
{
    return STATUS_SUCCESS;
}

static NTSTATUS acquire_set(
    D3DKMDT_HVIDPN, D3DDDI_VIDEO_PRESENT_SOURCE_ID, D3DKMDT_HVIDPNSOURCEMODESET *,
    const DXGK_VIDPNSOURCEMODESET_INTERFACE **modes)
{
    static DXGK_VIDPNSOURCEMODESET_INTERFACE only = {};
    only.pfnAcquirePinnedModeInfo = acquire_pinned;
    only.pfnReleaseModeInfo = release_mode;
    *modes = &only;
    return STATUS_SUCCESS;
}

static bool reads_the_pinned_mode()
{
    DXGK_VIDPN_INTERFACE network = {};
    network.Version = DXGK_VIDPN_INTERFACE_VERSION_V1;
    network.pfnAcquireSourceModeSet = acquire_set;
    DXGKARG_COMMITVIDPN commit = {};
    return Adapter::CommitVidPn(&network, &commit) == STATUS_SUCCESS
           && pinned_mode.Format.Graphics.PrimSurfSize.cx == 640;
}

static bool copies_a_command()
{
    char command[4] = {1, 2, 3, 4}, buffer[4] = {};
    DXGKARG_RENDER render = {
        command, sizeof(command), buffer, 3, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 0, 0, {}};
    return Adapter::Render(NULL, &render) == STATUS_SUCCESS && buffer[2] == 3 && buffer[3] == 0;
}

static bool keeps_lists()
{
    LIST_ENTRY head, a, b, c;
    InitializeListHead(&head);
    InsertTailList(&head, &b);
    InsertHeadList(&head, &a);
    InsertTailList(&head, &c);
    bool inner = !RemoveEntryList(&b);
    bool order = RemoveHeadList(&head) == &a && RemoveTailList(&head) == &c;
    return inner && order && IsListEmpty(&head) && RemoveHeadList(&head) == &head;
}

static bool appends_lists()
{
    LIST_ENTRY head, a, b, c;
    InitializeListHead(&head);
    InsertTailList(&head, &a);
    InitializeListHead(&b);
    InsertTailList(&b, &c);
    AppendTailList(&head, &b);
    bool order = head.Flink == &a && a.Flink == &b && b.Flink == &c && c.Flink == &head;
    return order && head.Blink == &c && c.Blink == &b && b.Blink == &a && a.Blink == &head;
}

static bool notices_overflow()
{
    ULONG sum = 0;
    USHORT narrow = 0;
    SIZE_T product = 0;
    return RtlULongAdd(1, 2, &sum) == STATUS_SUCCESS && sum == 3
           && RtlULongAdd(MAXULONG, 1, &sum) == STATUS_INTEGER_OVERFLOW && sum == MAXULONG
           && RtlSizeTMult(1ull << 63, 2, &product) == STATUS_INTEGER_OVERFLOW
           && RtlULongSub(1, 2, &sum) == STATUS_INTEGER_OVERFLOW
           && RtlULongToUShort(0x12345, &narrow) == STATUS_INTEGER_OVERFLOW && narrow == MAXUSHORT
           && RtlULongToUShort(0x1234, &narrow) == STATUS_SUCCESS && narrow == 0x1234;
}

static bool compares_identifiers()
{
    GUID same = GUID_OF_TEST;
    bool equal = IsEqualGUID(same, GUID_OF_TEST);
    same.Data4[7]++;
    return equal && !IsEqualGUID(same, GUID_OF_TEST)
           && !IsEqualGUID(
               GUID_DXGKDDI_POWER_MANAGEMENT_STARTED, GUID_DXGKDDI_POWER_MANAGEMENT_STOPPED);
}

static bool has_wide_strings()
{
    DECLARE_CONST_UNICODE_STRING(name, L"RenderOnly");
    return name.Length == 20 && name.MaximumLength == 22 && name.Buffer[1] == L'e';
}

static bool counts_pages()
{
    return BYTES_TO_PAGES(1u) == 1 && BYTES_TO_PAGES(PAGE_SIZE) == 1
           && ADDRESS_AND_SIZE_TO_SPAN_PAGES((PVOID)0x1FFF, 2) == 2
           && ROUND_TO_PAGES(PAGE_SIZE + 1) == 2 * PAGE_SIZE;
}

static bool walks_arguments()
{
    UCHAR room[32] = {};
    ACPI_METHOD_ARGUMENT *first = (ACPI_METHOD_ARGUMENT *)room;
    first->Type = ACPI_METHOD_ARGUMENT_STRING;
    first->DataLength = 6;
    bool after = (PUCHAR)ACPI_METHOD_NEXT_ARGUMENT(first) == room + 10;
    first->DataLength = 1;
    return after && (PUCHAR)ACPI_METHOD_NEXT_ARGUMENT(first) == room + 8;
}

static bool names_what_a_driver_waited_for()
{
    NTSTATUS status = STATUS_WAIT_2;
    return status == STATUS_WAIT_0 + 2 && STATUS_ABANDONED_WAIT_0 == STATUS_ABANDONED
           && VIDEO_ENGINE_TIMEOUT_DETECTED == 0x141 && VIDEO_TDR_TIMEOUT_DETECTED == 0x117;
}

static bool builds_a_request()
{
    IRP request = {};
    auto outcome = IO_STATUS_BLOCK();
    request.UserIosb = &outcome;
    IO_STACK_LOCATION *next = IoGetNextIrpStackLocation(&request);
    next->FileObject = NULL;
    next->MajorFunction = IRP_MJ_WRITE;
    return request.UserIosb->Status == STATUS_SUCCESS && outcome.Information == 0;
}

static NTSTATUS QueryGroup(INOUT_DXGKARG_QUERYDEPENDENTENGINEGROUP pGroup)
{
    pGroup->DependentNodeOrdinalMask = 1;
    return STATUS_SUCCESS;
}

static bool takes_arguments_of_each_direction()
{
    DXGKARG_QUERYDEPENDENTENGINEGROUP group = {};
    FLOAT constant = 0.5f;
    volatile void *caller = _ReturnAddress();
    return NT_SUCCESS(QueryGroup(&group)) && group.DependentNodeOrdinalMask == 1
           && constant < 1 && caller != NULL;
}

int main()
{
    NT_ASSERT(fills_the_table());
    NT_ASSERT(reads_the_pinned_mode());
    NT_ASSERT(copies_a_command());
    NT_ASSERT(keeps_lists());
    NT_ASSERT(appends_lists());
    NT_ASSERT(notices_overflow());
    NT_ASSERT(compares_identifiers());
    NT_ASSERT(has_wide_strings());
    NT_ASSERT(counts_pages());
    NT_ASSERT(walks_arguments());
    NT_ASSERT(names_what_a_driver_waited_for());
    NT_ASSERT(builds_a_request());
    NT_ASSERT(takes_arguments_of_each_direction());
    return DriverEntry(NULL, NULL) == STATUS_SUCCESS ? 0 : 1;
}
