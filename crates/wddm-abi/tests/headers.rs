//! The C headers of drivers (`include/wddm`): they compile without warnings as C11 and C++17, their
//! layouts are the published ones for each interface version, and the Rust structures have the same
//! layouts.

use std::fmt::Write;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;
use tidegate_wddm_abi::d3dkmddi::{self, *};
use tidegate_wddm_abi::d3dukmdt::*;
use tidegate_wddm_abi::{Layout, Published, miniport};
use windows_sys::Wdk::Graphics::Direct3D as wdk;

const HEADERS: [&str; 12] = [
    "ntddk",
    "bugcodes",
    "ntverp",
    "wdm",
    "initguid",
    "ntintsafe",
    "ntstrsafe",
    "d3dukmdt",
    "d3dkmdt",
    "d3dkmddi",
    "dispmprt",
    "tidegate_device",
];

/// The versions that a header knows and a driver can be compiled for.
const VERSIONS: [&str; 15] = [
    "WIN8", "WDDM1_3", "WDDM2_0", "WDDM2_1", "WDDM2_2", "WDDM2_3", "WDDM2_4", "WDDM2_5", "WDDM2_6",
    "WDDM2_7", "WDDM2_8", "WDDM2_9", "WDDM3_0", "WDDM3_1", "WDDM3_2",
];

/// The oldest and the newest version.
const ENDS: [&str; 2] = ["WIN8", "WDDM3_2"];

#[derive(Clone, Copy)]
enum Language {
    C,
    Cpp,
}

use Language::{C, Cpp};

impl Language {
    /// The compiler and the options that select the language.
    fn parts(self) -> (&'static str, [&'static str; 3]) {
        match self {
            C => ("cc", ["-x", "c", "-std=c11"]),
            Cpp => ("c++", ["-x", "c++", "-std=c++17"]),
        }
    }

    /// Finds the compiler; prints a line if there is none.
    fn is_available(self) -> bool {
        let (compiler, _) = self.parts();
        let found =
            Command::new(compiler).arg("--version").output().is_ok_and(|o| o.status.success());
        if !found {
            println!("skipped: this machine has no {compiler}");
        }
        found
    }

    /// Compiles a source with warnings as errors, as a driver for `version` is compiled.
    fn compile(self, source: &Path, version: Option<&str>, options: &[&str]) {
        let (compiler, language) = self.parts();
        let mut command = Command::new(compiler);
        command.args(language).arg("-fshort-wchar").args(["-Wall", "-Wextra", "-Wpedantic"]);
        command.arg("-Werror").arg("-I").arg(folder("../../include/wddm"));
        if let Some(version) = version {
            command.arg(format!("-DDXGKDDI_INTERFACE_VERSION=DXGKDDI_INTERFACE_VERSION_{version}"));
        }
        let output = command.arg(source).args(options).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        let name = source.display();
        assert!(output.status.success(), "{compiler} {name} for {version:?}:\n{errors}");
    }

    /// Compiles a text of this test without making a program.
    fn check(self, name: &str, text: &str, version: Option<&str>) {
        let source = written(name, self, text);
        self.compile(&source, version, &["-fsyntax-only"]);
    }

    /// Compiles a source of `tests/headers`, runs the program, and returns what it printed.
    fn run(self, source: &str, version: &str) -> String {
        let name = format!("headers-{source}-{version}-{}", self.parts().0);
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let source = folder("tests/headers").join(source);
        self.compile(&source, Some(version), &["-o", program.to_str().unwrap()]);
        let output = Command::new(&program).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} for {version}:\n{printed}{errors}", source.display());
        printed
    }
}

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Writes a source of this test; its name is unique among the tests of this file.
fn written(name: &str, language: Language, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("headers-{name}-{}", language.parts().0));
    std::fs::write(&path, text).unwrap();
    path
}

fn languages() -> impl Iterator<Item = Language> {
    [C, Cpp].into_iter().filter(|language| language.is_available())
}

#[test]
fn each_header_compiles_without_another_before_it() {
    for language in languages() {
        for header in HEADERS {
            let text =
                format!("#include <{header}.h>\n#include <{header}.h>\nextern int declared;\n");
            language.check(header, &text, None);
        }
    }
}

#[test]
fn several_files_of_a_driver_may_define_the_identifiers() {
    for language in languages() {
        let file = |name: &str| {
            let text = "#include <initguid.h>\n#include <ntddk.h>\n#include <dispmprt.h>\n";
            written(name, language, &format!("{text}int {name};\n"))
        };
        let files = [file("one_file"), file("another_file")];
        let library = files[0].with_extension("so");
        let [other, library] = [&files[1], &library].map(|path| path.to_str().unwrap());
        language.compile(&files[0], None, &[other, "-fPIC", "-shared", "-o", library]);
    }
}

#[test]
fn the_headers_include_nothing_else() {
    for header in HEADERS {
        let text =
            std::fs::read_to_string(folder("../../include/wddm").join(format!("{header}.h")));
        for line in text.unwrap().lines().filter_map(|line| line.strip_prefix("#include ")) {
            let name = line.trim_matches(['<', '>', '"']);
            let ours = name.strip_suffix(".h").is_some_and(|stem| HEADERS.contains(&stem));
            assert!(ours || matches!(name, "stddef.h" | "stdint.h"), "{header}.h includes {name}");
        }
    }
}

#[test]
fn sizes_and_offsets_are_the_published_ones_for_each_version() {
    let source = folder("tests/headers/layouts.c");
    for language in languages() {
        for version in VERSIONS {
            language.compile(&source, Some(version), &["-fsyntax-only"]);
        }
    }
}

#[test]
fn bits_are_the_published_ones() {
    for language in languages() {
        for version in ENDS {
            let printed = language.run("layouts.c", version);
            assert!(printed.contains("bit fields"), "{printed}");
        }
    }
}

#[test]
fn forms_of_published_drivers_compile_and_do_what_their_names_say() {
    for version in if Cpp.is_available() { &ENDS[..] } else { &[] } {
        Cpp.run("idioms.cpp", version);
    }
}

#[test]
fn a_small_driver_compiles() {
    for language in languages() {
        language.compile(&folder("tests/headers/skeleton.c"), None, &["-fsyntax-only"]);
    }
}

macro_rules! layouts {
    ($($type:ty,)+) => { &[$(<$type as Published>::LAYOUT,)+] };
}

/// The Rust structures that the headers have, too.
const LAYOUTS: &[Layout] = layouts![
    PreemptionCaps,
    NodeMetadata,
    IsFeatureEnabledResult,
    NativeFenceMapping,
    NativeFenceInfo,
    LogHeader,
    LogEntry,
    NativeFenceCaps,
    UserModeSubmissionCaps,
    d3dkmddi::CreateDoorbell,
    d3dkmddi::ConnectDoorbell,
    d3dkmddi::DisconnectDoorbell,
    d3dkmddi::DestroyDoorbell,
    d3dkmddi::NotifyWorkSubmission,
    DisconnectDoorbellCallback,
    FenceStorageSurface,
    UpdateMonitoredValues,
    UpdateCurrentValuesFromCpu,
    d3dkmddi::CreateHwQueue,
    d3dkmddi::SubmitCommandToHwQueue,
    CreateHwContext,
    SuspendContext,
    ResumeContext,
    ResetHwEngine,
    ResumeHwEngine,
    SetContextSchedulingProperties,
    SetupPriorityBands,
    InvalidateHwContextCallback,
    CalibrateGpuClock,
    QueryInterface,
    KernelFeatureInterface,
    DriverFeatureInterface,
    QueryFeatureSupport,
    QueryFeatureInterface,
    QueryFeatureInterfaceCallback,
    IsFeatureEnabled2,
    IsFeatureEnabled,
    NativeFenceSignaled,
    HwQueuePageFaulted,
    MonitoredFenceSignaled,
    SuspendContextCompleted,
    EngineStateChange,
    SetNativeFenceLogBuffer,
    UpdateNativeFenceLogs,
    d3dkmddi::CreateNativeFence,
    OpenNativeFence,
    CloseNativeFence,
    DestroyNativeFence,
    miniport::QueryAdapterInfo,
    miniport::DriverCaps,
    miniport::GpuMmuCaps,
    miniport::PageTableLevelDesc,
    miniport::QuerySegmentOut3,
    miniport::SegmentDescriptor3,
    miniport::QuerySegmentOut4,
    miniport::SegmentDescriptor4,
    miniport::CreateProcess,
    miniport::CreateDevice,
    miniport::CreateContext,
    miniport::SetRootPageTable,
    miniport::SubmitCommandVirtual,
    miniport::Render,
    miniport::PatchLocation,
    miniport::Patch,
    miniport::SubmitCommand,
    miniport::SetVidPnSourceAddress,
    miniport::SetVidPnSourceVisibility,
    miniport::PreemptCommand,
    miniport::CancelCommand,
    miniport::BuildPagingBuffer,
    miniport::TransferVirtual,
    miniport::FillVirtual,
    miniport::UpdatePageTable,
    miniport::FlushTlb,
    miniport::QueryCurrentFence,
    miniport::ResetEngine,
    miniport::QueryEngineStatus,
    miniport::QueryDependentEngineGroup,
    miniport::CollectDbgInfo,
    miniport::NotifyInterruptData,
    miniport::DmaPageFaulted,
    miniport::DeviceInfo,
    miniport::AllocationInfo,
    miniport::CreateAllocation,
    miniport::DestroyAllocation,
    miniport::OpenAllocationInfo,
    miniport::OpenAllocation,
    miniport::CloseAllocation,
];

macro_rules! bindings {
    ($($name:ident { $($field:ident),* })+) => {
        &[$(Layout {
            name: stringify!($name),
            bytes: size_of::<wdk::$name>(),
            fields: &[$((stringify!($field), offset_of!(wdk::$name, $field)),)*],
        },)+]
    };
}

/// Structures of the headers that the public bindings have, too.
const BINDINGS: &[Layout] = bindings! {
    D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE {}
    D3DDDI_ALLOCATIONLIST { hAllocation }
    D3DDDI_CREATEHWCONTEXTFLAGS {}
    D3DDDI_CREATEHWQUEUEFLAGS {}
    D3DDDI_ESCAPEFLAGS {}
    D3DDDI_GAMMA_RAMP_RGB256x3x16 { Red, Green, Blue }
    D3DDDI_MULTISAMPLINGMETHOD { NumSamples, NumQualityLevels }
    D3DDDI_PATCHLOCATIONLIST {
        AllocationIndex, DriverId, AllocationOffset, PatchOffset, SplitOffset
    }
    D3DDDI_RATIONAL { Numerator, Denominator }
    D3DGPU_PHYSICAL_ADDRESS { SegmentId, Padding, SegmentOffset }
    D3DKMDT_2DREGION { cx, cy }
    D3DKMDT_COLOR_COEFF_DYNAMIC_RANGES { FirstChannel, SecondChannel, ThirdChannel, FourthChannel }
    D3DKMDT_GAMMA_RAMP { Type, DataSize, Data }
    D3DKMDT_GDISURFACEDATA { Width, Height, Format, Type, Flags, Pitch }
    D3DKMDT_GDISURFACEFLAGS {}
    D3DKMDT_GRAPHICS_RENDERING_FORMAT {
        PrimSurfSize, VisibleRegionSize, Stride, PixelFormat, ColorBasis, PixelValueAccessMode
    }
    D3DKMDT_MONITOR_SOURCE_MODE {
        Id, VideoSignalInfo, ColorBasis, ColorCoeffDynamicRanges, Origin, Preference
    }
    D3DKMDT_PREEMPTION_CAPS { GraphicsPreemptionGranularity, ComputePreemptionGranularity }
    D3DKMDT_SHADOWSURFACEDATA { Width, Height, Format, Pitch }
    D3DKMDT_SHAREDPRIMARYSURFACEDATA { Width, Height, Format, RefreshRate, VidPnSourceId }
    D3DKMDT_STAGINGSURFACEDATA { Width, Height, Pitch }
    D3DKMDT_VIDEO_SIGNAL_INFO {
        VideoStandard, TotalSize, ActiveSize, VSyncFreq, HSyncFreq, PixelRate
    }
    D3DKMDT_VIDPN_HW_CAPABILITY {}
    D3DKMDT_VIDPN_PRESENT_PATH {
        VidPnSourceId, VidPnTargetId, ImportanceOrdinal, ContentTransformation,
        VisibleFromActiveTLOffset, VisibleFromActiveBROffset, VidPnTargetColorBasis,
        VidPnTargetColorCoeffDynamicRanges, Content, CopyProtection, GammaRamp
    }
    D3DKMDT_VIDPN_PRESENT_PATH_COPYPROTECTION {
        CopyProtectionType, APSTriggerBits, OEMCopyProtection, CopyProtectionSupport
    }
    D3DKMDT_VIDPN_PRESENT_PATH_COPYPROTECTION_SUPPORT {}
    D3DKMDT_VIDPN_PRESENT_PATH_ROTATION_SUPPORT {}
    D3DKMDT_VIDPN_PRESENT_PATH_SCALING_SUPPORT {}
    D3DKMDT_VIDPN_PRESENT_PATH_TRANSFORMATION { Scaling, ScalingSupport, Rotation, RotationSupport }
    D3DKMDT_VIDPN_SOURCE_MODE { Id, Type, Format }
    D3DKMDT_VIDPN_TARGET_MODE { Id, VideoSignalInfo, MinimumVSyncFreq }
    D3DKMDT_VIRTUALGPUSURFACEDATA { Size, Alignment, DriverSegmentId, PrivateDriverData }
    DXGK_DISPLAY_INFORMATION { Width, Height, Pitch, ColorFormat, PhysicAddress, TargetId, AcpiId }
    DXGK_FAULT_ERROR_CODE {}
    DXGK_GPUCLOCKDATA_FLAGS {}
    DXGK_MIRACAST_CHUNK_ID {}
    DXGK_MIRACAST_CHUNK_INFO { ChunkType, ChunkId, ProcessingTime, EncodeRate }
    DXGK_NODEMETADATA { EngineType, FriendlyName, Flags, GpuMmuSupported, IoMmuSupported }
    DXGK_NODEMETADATA_FLAGS {}
    DXGK_PTE {}
};

/// A C program that compiles if the headers have these sizes and offsets. The name of an arm of a
/// union has the structure before `::`.
fn assertions(layouts: &[Layout]) -> String {
    let mut text = String::from("#include <dispmprt.h>\n");
    text.push_str("#ifdef __cplusplus\n#define _Static_assert static_assert\n#endif\n");
    for Layout { name, bytes, fields } in layouts {
        let (structure, arm) = name.split_once("::").unwrap_or((name, ""));
        let (size, before) = if arm.is_empty() {
            (format!("sizeof({structure})"), String::new())
        } else {
            (format!("sizeof((({structure} *)0)->{arm})"), format!("{arm}."))
        };
        writeln!(text, "_Static_assert({size} == {bytes}, \"{name}\");").unwrap();
        for (field, at) in *fields {
            let start = if arm.is_empty() {
                String::from("0")
            } else {
                format!("offsetof({structure}, {arm})")
            };
            writeln!(
                text,
                "_Static_assert(offsetof({structure}, {before}{field}) - {start} == {at}, \
                 \"{name}.{field}\");"
            )
            .unwrap();
        }
    }
    text
}

#[test]
fn the_rust_structures_have_the_layouts_of_the_headers() {
    for language in languages() {
        language.check("rust", &assertions(LAYOUTS), Some("WDDM3_2"));
    }
}

#[test]
fn the_public_bindings_have_the_layouts_of_the_headers() {
    for language in languages() {
        language.check("bindings", &assertions(BINDINGS), Some("WDDM3_2"));
    }
}

#[test]
fn structures_have_the_listed_size_in_each_version() {
    assert_eq!(miniport::INTERFACE_VERSIONS.len(), VERSIONS.len());
    for (version, name) in miniport::INTERFACE_VERSIONS.iter().zip(VERSIONS) {
        let miniport::InterfaceVersion { number, wddm: (major, minor), .. } = *version;
        let is_named =
            name == format!("WDDM{major}_{minor}") || (name, major, minor) == ("WIN8", 1, 2);
        assert!(is_named, "{name} is WDDM {major}.{minor}");
        assert_eq!(miniport::InterfaceVersion::of_number(number), Some(version));
        let sizes = [
            ("DRIVER_INITIALIZATION_DATA", version.initialization_data_bytes),
            ("DXGKRNL_INTERFACE", version.interface_bytes),
            ("DXGK_DRIVERCAPS", version.driver_caps_bytes),
        ];
        let mut text = String::from("#include <dispmprt.h>\n");
        text.push_str("#ifdef __cplusplus\n#define _Static_assert static_assert\n#endif\n");
        writeln!(text, "_Static_assert(DXGKDDI_INTERFACE_VERSION == {number}, \"number\");")
            .unwrap();
        for (structure, bytes) in sizes {
            writeln!(text, "_Static_assert(sizeof({structure}) == {bytes}, \"{structure}\");")
                .unwrap();
        }
        if C.is_available() {
            C.check(&format!("version-{name}"), &text, Some(name));
        }
    }
    assert_eq!(miniport::InterfaceVersion::of_number(0x6002).map(|v| v.wddm), Some((2, 1)));
    assert_eq!(miniport::InterfaceVersion::of_number(0x2005), None);
}

/// Each structure of the modules of drivers is in [`LAYOUTS`].
#[test]
fn no_structure_of_drivers_is_left_out() {
    let sources = [include_str!("../src/d3dkmddi.rs"), include_str!("../src/miniport.rs")];
    let names = sources.iter().flat_map(|source| source.lines()).filter_map(|line| {
        let (_, rest) = line.strip_prefix("    ")?.split_once(" = \"")?;
        rest.contains(" bytes {").then(|| rest.split('"').next())?
    });
    let mut count = 0;
    for name in names {
        assert!(
            LAYOUTS.iter().any(|layout| layout.name == name),
            "{name} is compared with nothing"
        );
        count += 1;
    }
    assert!(count > 45, "{count} structures found");
}
