//! The header against the Rust structures, and the exported names against the public ones.

mod compiler;

use compiler::Compiler;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::Command;
use tidegate_d3dkmt::exports::{SUPPORTED, UNSUPPORTED};
use tidegate_wddm_abi::d3dkmthk::*;
use tidegate_wddm_abi::d3dukmdt::*;
use tidegate_wddm_abi::{Layout, Published};

const HEADER: &str = include_str!("../include/tidegate_d3dkmt.h");

macro_rules! layouts {
    ($($type:ty,)+) => { &[$(<$type as Published>::LAYOUT,)+] };
}

/// The structures of the header.
const LAYOUTS: &[Layout] = layouts![
    UnicodeString,
    ObjectAttributes,
    Luid,
    AdapterInfo,
    EnumAdapters,
    EnumAdapters2,
    EnumAdapters3,
    OpenAdapterFromLuid,
    CloseAdapter,
    QueryAdapterInfo,
    SegmentSizeInfo,
    SegmentGroupSizeInfo,
    AdapterAddress,
    AdapterRegistryInfoWide,
    DriverDescriptionWide,
    AdapterType,
    PreemptionCaps,
    Wddm12Caps,
    Wddm31Caps,
    NodeMetadataWide,
    QueryNodeMetadataWide,
    GpuClockData,
    QueryClockCalibration,
    PhysicalAdapterCount,
    DeviceIds,
    QueryDeviceIds,
    GpuMmuCaps,
    QueryGpuMmuCaps,
    QueryVideoMemoryInfo,
    IsFeatureEnabledResult,
    IsFeatureEnabled,
    Escape,
    TdrDebugControl,
    CreateDevice,
    DestroyDevice,
    DevicePageFaultState,
    GetDeviceState,
    MarkDeviceAsError,
    CreateContextVirtual,
    DestroyContext,
    SubmitCommand,
    CreateHwContext,
    DestroyHwContext,
    SetContextSchedulingPriority,
    SetContextInProcessSchedulingPriority,
    CreateHwQueue,
    DestroyHwQueue,
    SubmitCommandToHwQueue,
    SubmitWaitForSyncObjectsToHwQueue,
    SubmitSignalSyncObjectsToHwQueue,
    GetNativeFenceLogDetail,
    LogHeader,
    LogEntry,
    CreateDoorbell,
    ConnectDoorbell,
    DestroyDoorbell,
    NotifyWorkSubmission,
    AllocationInfo,
    AllocationInfo2,
    CreateStandardAllocation,
    CreateAllocation,
    DestroyAllocation,
    DestroyAllocation2,
    QueryResourceInfo,
    QueryResourceInfoFromNtHandle,
    OpenAllocationInfo,
    OpenAllocationInfo2,
    OpenResource,
    OpenResourceFromNtHandle,
    Lock2,
    Unlock2,
    SetAllocationPriority,
    GetAllocationPriority,
    QueryAllocationResidency,
    CreatePagingQueue,
    DestroyPagingQueue,
    MakeResident,
    Evict,
    ReserveGpuVirtualAddress,
    MapGpuVirtualAddress,
    FreeGpuVirtualAddress,
    UpdateGpuVirtualAddressOperation,
    UpdateGpuVirtualAddress,
    SynchronizationObjectInfo,
    SynchronizationObjectInfo2,
    CreateSynchronizationObject,
    OpenSynchronizationObject,
    OpenSyncObjectFromNtHandle,
    WaitForSynchronizationObject,
    WaitForSynchronizationObject2,
    SignalSynchronizationObject,
    SignalSynchronizationObject2,
    CreateSynchronizationObject2,
    DestroySynchronizationObject,
    NativeFenceMapping,
    NativeFenceInfo,
    CreateNativeFence,
    OpenNativeFenceFromNtHandle,
    OpenSyncObjectFromNtHandle2,
    OpenSyncObjectNtHandleFromName,
    OpenNtHandleFromName,
    CreateKeyedMutex,
    CreateKeyedMutex2,
    OpenKeyedMutex,
    OpenKeyedMutex2,
    OpenKeyedMutexFromNtHandle,
    DestroyKeyedMutex,
    AcquireKeyedMutex,
    AcquireKeyedMutex2,
    ReleaseKeyedMutex,
    ReleaseKeyedMutex2,
    WaitForSynchronizationObjectFromCpu,
    SignalSynchronizationObjectFromCpu,
    WaitForSynchronizationObjectFromGpu,
    SignalSynchronizationObjectFromGpu,
    SignalSynchronizationObjectFromGpu2,
];

/// Structures of the header that are bits of one field, a part of another structure, or of this
/// library alone.
const WITHOUT_LAYOUT: [&str; 15] = [
    "LARGE_INTEGER",
    "D3DKMT_CREATEKEYEDMUTEX2_FLAGS",
    "D3DKMT_CREATEDEVICEFLAGS",
    "D3DDDI_CREATECONTEXTFLAGS",
    "D3DKMT_CREATE_DOORBELL_FLAGS",
    "D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE",
    "D3DKMT_WDDM_2_0_CAPS",
    "D3DKMT_WDDM_2_7_CAPS",
    "D3DDDI_CREATEHWQUEUEFLAGS",
    "D3DDDICB_SIGNALFLAGS",
    "D3DKMT_CREATEALLOCATIONFLAGS",
    "D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS",
    "D3DDDI_WAITFORSYNCHRONIZATIONOBJECTFROMCPU_FLAGS",
    "D3DKMT_ENUMADAPTERS_FILTER",
    "TIDEGATE_ALLOCATION_DATA",
];

/// A C program that compiles if the header has the sizes and offsets of the Rust structures.
fn assertions() -> String {
    let mut text = String::from("#include \"tidegate_d3dkmt.h\"\n");
    text.push_str("#ifdef __cplusplus\n#define _Static_assert static_assert\n#endif\n");
    for layout in LAYOUTS {
        let (name, bytes) = (layout.name, layout.bytes);
        writeln!(text, "_Static_assert(sizeof({name}) == {bytes}, \"{name}\");").unwrap();
        // Unions have no name in the bindings.
        for (field, at) in layout.fields.iter().filter(|(f, _)| !f.starts_with("Anonymous")) {
            writeln!(
                text,
                "_Static_assert(offsetof({name}, {field}) == {at}, \"{name}.{field}\");"
            )
            .unwrap();
        }
    }
    text.push_str("_Static_assert(sizeof(WCHAR) == 4, \"WCHAR\");\n");
    text.push_str("_Static_assert(sizeof(TIDEGATE_ALLOCATION_DATA) == 16, \"allocation\");\n");
    text
}

#[test]
fn the_header_has_the_layouts_of_the_rust_structures() {
    for (language, extension) in [("cc", "c"), ("c++", "cpp")] {
        let Some(compiler) = Compiler::find(language) else { continue };
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join(format!("layouts.{extension}"));
        std::fs::write(&source, assertions()).unwrap();
        compiler.compile(&source, &["-fsyntax-only"]);
    }
}

#[test]
fn each_structure_of_the_header_is_compared() {
    let known: BTreeSet<&str> =
        LAYOUTS.iter().map(|layout| layout.name).chain(WITHOUT_LAYOUT).collect();
    for line in HEADER.lines() {
        let line = line.strip_prefix("__extension__ ").unwrap_or(line);
        let Some(rest) = line.strip_prefix("typedef ") else { continue };
        let Some(name) = rest.strip_prefix("struct _").or(rest.strip_prefix("union _")) else {
            continue;
        };
        let name = name.trim_end_matches(" {");
        assert!(known.contains(name), "{name} of the header is compared with no Rust structure");
    }
}

/// The names that a shared library exports.
fn exported() -> BTreeSet<String> {
    let output = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(compiler::library())
        .output()
        .expect("nm is part of every C compiler");
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text.lines().filter_map(|line| line.split_whitespace().last());
    names.filter(|name| name.starts_with("D3DKMT")).map(str::to_owned).collect()
}

#[test]
fn every_listed_name_is_exported_and_every_public_name_is_listed() {
    if Compiler::find("cc").is_none() {
        return;
    }
    let listed: BTreeSet<String> =
        SUPPORTED.iter().chain(UNSUPPORTED).copied().map(str::to_owned).collect();
    assert_eq!(listed.len(), SUPPORTED.len() + UNSUPPORTED.len(), "a name is listed twice");
    let differing: Vec<_> = exported().symmetric_difference(&listed).cloned().collect();
    assert!(differing.is_empty(), "listed or exported alone: {differing:?}");
    for name in compiler::public_names() {
        assert!(listed.contains(&name), "{name} is missing");
    }
}

#[test]
fn the_header_declares_what_is_supported() {
    let declared: BTreeSet<&str> = HEADER
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.starts_with("D3DKMT") && word.chars().any(char::is_lowercase))
        .collect();
    let supported = SUPPORTED.iter().copied().collect();
    let differing: Vec<_> = declared.symmetric_difference(&supported).collect();
    assert!(differing.is_empty(), "supported or declared alone: {differing:?}");
}

#[test]
fn the_document_names_what_is_supported() {
    let document = include_str!("../../../docs/d3dkmt.md");
    for name in SUPPORTED {
        let short = name.strip_prefix("D3DKMT").unwrap();
        assert!(document.contains(&format!("`{short}`")), "docs/d3dkmt.md does not name {short}");
    }
}

/// The calls that take no structure.
const WITHOUT_STRUCTURE: [&str; 2] = ["D3DKMTShareObjects", "D3DKMTCloseDxCoreDevice"];

/// A C program that calls each name: those that are supported with NULL and with a misaligned
/// address, the others without an argument.
fn calls_of_each_name() -> String {
    let mut text = String::from("#include \"check.h\"\n\nstatic char room[1024];\n");
    for name in UNSUPPORTED {
        writeln!(text, "NTSTATUS {name}(void *);").unwrap();
    }
    text.push_str("\nint main(void) {\n");
    for name in SUPPORTED.iter().filter(|name| !WITHOUT_STRUCTURE.contains(name)) {
        for address in ["NULL", "(void *)(room + 1)"] {
            writeln!(text, "    IS({name}({address}), STATUS_INVALID_PARAMETER);").unwrap();
        }
    }
    for name in UNSUPPORTED {
        writeln!(text, "    IS({name}(room), STATUS_NOT_SUPPORTED);").unwrap();
    }
    text.push_str("    return 0;\n}\n");
    text
}

#[test]
fn each_call_refuses_null_and_misaligned_arguments_or_is_not_supported() {
    let Some(compiler) = Compiler::find("cc") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("names.c"), folder.path().join("names"));
    std::fs::write(&source, calls_of_each_name()).unwrap();
    let real = compiler::library();
    std::os::unix::fs::symlink(&real, folder.path().join("libtidegate_d3dkmt.so.0")).unwrap();
    let path = format!("-Wl,-rpath,{}", folder.path().display());
    let options = ["-o", program.to_str().unwrap(), real.to_str().unwrap(), &path];
    compiler.compile(&source, &options);
    let output = Command::new(&program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
