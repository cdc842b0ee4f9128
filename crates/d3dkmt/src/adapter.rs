//! Calls about adapters: enumeration, opening, queries, features, clocks, the debug escape.

use crate::call::Call;
use crate::caller::Number;
use crate::library::Library;
use crate::named_object::Object;
use crate::object::Adapter;
use crate::process;
use std::sync::Arc;
use tidegate_calls::{self as calls, NodeInfo, SegmentGroup, Status, TdrTest};
use tidegate_wddm_abi::Published;
use tidegate_wddm_abi::d3dkmddi::feature;
use tidegate_wddm_abi::d3dkmthk::{
    AdapterAddress, AdapterInfo, AdapterRegistryInfoWide, AdapterType, AdapterTypeFlags,
    CloseAdapter, DRIVER_VERSION_WDDM_3_1, DeviceIds, DriverDescriptionWide, ENUM_ADAPTERS_FILTER,
    ESCAPE_TDRDBGCTRL, EnumAdapters, EnumAdapters2, EnumAdapters3, Escape, GpuClockData,
    GpuMmuCaps, IsFeatureEnabled, NodeMetadataWide, OpenAdapterFromLuid, PhysicalAdapterCount,
    QueryAdapterInfo, QueryClockCalibration, QueryDeviceIds, QueryGpuMmuCaps,
    QueryNodeMetadataWide, QueryVideoMemoryInfo, SegmentGroupSizeInfo, SegmentSizeInfo,
    TdrDebugControl, WDDM_3_1_CAPS_QUERY, Wddm12Caps, Wddm20CapsFlags, Wddm27CapsFlags, Wddm31Caps,
    Wddm31CapsFlags, query,
};
use tidegate_wddm_abi::d3dukmdt::{
    FeatureResultFlags, IsFeatureEnabledResult, NodeMetadataFlags, PreemptionCaps,
};

/// 0.1.0.0.
const VERSION: u64 = 1 << 32;
/// The ids by which programs know a software adapter: those of the Basic Render Driver.
const SOFTWARE_VENDOR: u32 = 0x1414;
const SOFTWARE_DEVICE: u32 = 0x8C;
/// Bits of a GPU address.
const GPU_VA_BITS: u32 = 48;

fn open(library: &Library, adapter: &Arc<Adapter>) -> Result<AdapterInfo, Status> {
    let handle = library.insert(Object::Adapter(adapter.clone()), || {})?;
    Ok(AdapterInfo {
        adapter: handle.0,
        luid: Library::luid(adapter),
        sources: u32::from(adapter.kernel.display().is_some()),
        precise_present_regions: 0,
    })
}

/// Opens as many adapters as there is room for, all or none.
/// `count` is the room, and becomes their number.
fn open_all(call: &Call, info: u64, count: &mut u32) -> Result<(), Status> {
    let adapters = call.library.adapters()?;
    let room = std::mem::replace(count, adapters.len() as u32);
    if info == 0 {
        return Ok(());
    }
    if room < *count {
        return Err(Status::BUFFER_TOO_SMALL);
    }
    // The address is checked before anything is opened.
    call.caller.read::<AdapterInfo>(info)?;
    for (index, adapter) in open_each(call, &adapters)?.into_iter().enumerate() {
        let at = info + (index * size_of::<AdapterInfo>()) as u64;
        call.caller.write(at, adapter)?;
    }
    Ok(())
}

/// Opens all of them, or none.
fn open_each(call: &Call, adapters: &[Arc<Adapter>]) -> Result<Vec<AdapterInfo>, Status> {
    let mut opened: Vec<AdapterInfo> = Vec::with_capacity(adapters.len());
    for adapter in adapters {
        match open(call.library, adapter) {
            Ok(info) => opened.push(info),
            Err(refusal) => {
                opened.iter().for_each(|info| drop(call.library.remove(info.adapter)));
                return Err(refusal);
            }
        }
    }
    Ok(opened)
}

pub(crate) fn enum_adapters(call: &Call, args: &mut EnumAdapters) -> Result<(), Status> {
    let adapters = call.library.adapters()?;
    // There is room for MAX_ENUM_ADAPTERS.
    let opened = open_each(call, &adapters[..adapters.len().min(args.info.len())])?;
    args.adapters = opened.len() as u32;
    args.info[..opened.len()].copy_from_slice(&opened);
    Ok(())
}

pub(crate) fn enum_adapters2(call: &Call, args: &mut EnumAdapters2) -> Result<(), Status> {
    open_all(call, args.info, &mut args.adapters)
}

/// Each adapter renders and computes, so every filter admits all of them.
pub(crate) fn enum_adapters3(call: &Call, args: &mut EnumAdapters3) -> Result<(), Status> {
    if args.filter & !ENUM_ADAPTERS_FILTER != 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    open_all(call, args.info, &mut args.adapters)
}

pub(crate) fn open_adapter_from_luid(
    call: &Call,
    args: &mut OpenAdapterFromLuid,
) -> Result<(), Status> {
    let adapters = call.library.adapters()?;
    let found = adapters.iter().find(|a| Library::luid(a) == args.luid);
    args.adapter = open(call.library, found.ok_or(Status::INVALID_PARAMETER)?)?.adapter;
    Ok(())
}

pub(crate) fn close_adapter(call: &Call, args: &CloseAdapter) -> Result<(), Status> {
    call.library.adapter(args.adapter)?;
    call.library.nt_handles.collect();
    call.library.remove(args.adapter).map(|_| ()).ok_or(Status::INVALID_PARAMETER)
}

/// Writes an answer to the buffer of a query.
fn answer<T: Published>(call: &Call, args: &QueryAdapterInfo, value: T) -> Result<(), Status> {
    if (args.data_bytes as usize) < size_of::<T>() {
        return Err(Status::INVALID_PARAMETER);
    }
    call.caller.write(args.data, value)
}

/// Writes an answer of one number.
fn answer_number<T: Number>(call: &Call, args: &QueryAdapterInfo, number: T) -> Result<(), Status> {
    if (args.data_bytes as usize) < size_of::<T>() {
        return Err(Status::INVALID_PARAMETER);
    }
    call.caller.write_numbers(args.data, &[number])
}

/// Reads the part of a query that is in the buffer of its answer.
fn question<T: Published>(call: &Call, args: &QueryAdapterInfo) -> Result<T, Status> {
    if (args.data_bytes as usize) < size_of::<T>() {
        return Err(Status::INVALID_PARAMETER);
    }
    call.caller.read(args.data)
}

fn wide<const N: usize>(text: &str) -> [u32; N] {
    let mut wide = [0; N];
    wide.iter_mut().zip(text.chars().take(N - 1)).for_each(|(to, c)| *to = c.into());
    wide
}

fn node_metadata(node: &NodeInfo, info: &calls::AdapterInfo) -> NodeMetadataWide {
    let mut flags = NodeMetadataFlags::empty();
    flags.set(NodeMetadataFlags::USER_MODE_SUBMISSION, node.user_mode_submission);
    flags.set(NodeMetadataFlags::CONTEXT_SCHEDULING_SUPPORTED, info.hardware_scheduling);
    NodeMetadataWide {
        engine_type: node.engine_type,
        friendly_name: wide(&node.name),
        flags: flags.bits(),
        gpu_mmu_supported: 1,
        iommu_supported: info.io_mmu.into(),
    }
}

fn segment_sizes(adapter: &Adapter) -> Result<SegmentSizeInfo, Status> {
    let budget = |group| adapter.kernel.query_video_memory_info(group).map(|info| info.budget);
    Ok(SegmentSizeInfo {
        dedicated_video: budget(SegmentGroup::Local)?,
        dedicated_system: 0,
        shared_system: budget(SegmentGroup::NonLocal)?,
    })
}

/// The parts of an answer about a physical adapter.
fn checked_physical(adapter: &Adapter, index: u32) -> Result<(), Status> {
    let count = adapter.kernel.query_adapter_info().physical_adapters;
    if index < count { Ok(()) } else { Err(Status::INVALID_PARAMETER) }
}

pub(crate) fn query_adapter_info(call: &Call, args: &QueryAdapterInfo) -> Result<(), Status> {
    let adapter = call.library.adapter(args.adapter)?;
    let info = adapter.kernel.query_adapter_info();
    match args.query_type {
        query::SEGMENT_SIZE => answer(call, args, segment_sizes(&adapter)?),
        query::ADAPTER_ADDRESS | query::ADAPTER_ADDRESS_RENDER => {
            answer(call, args, AdapterAddress { bus: 0, device: adapter.index as u32, function: 0 })
        }
        query::ADAPTER_REGISTRY_INFO | query::ADAPTER_REGISTRY_INFO_RENDER => {
            let adapter = wide(&info.description);
            let names =
                AdapterRegistryInfoWide { adapter, bios: [0; 260], dac: [0; 260], chip: adapter };
            answer(call, args, names)
        }
        // The version of this implementation, one part to 16 bits.
        query::KMD_DRIVER_VERSION | query::UMD_DRIVER_VERSION => answer_number(call, args, VERSION),
        query::DRIVER_VERSION | query::DRIVER_VERSION_RENDER => {
            answer_number(call, args, DRIVER_VERSION_WDDM_3_1)
        }
        // No update of the driver is under way.
        query::CHECK_DRIVER_UPDATE_STATUS | query::CHECK_DRIVER_UPDATE_STATUS_RENDER => {
            answer_number(call, args, 0u32)
        }
        query::ADAPTER_TYPE | query::ADAPTER_TYPE_RENDER => {
            let mut flags = AdapterTypeFlags::RENDER_SUPPORTED | AdapterTypeFlags::SOFTWARE_DEVICE;
            flags.set(AdapterTypeFlags::DISPLAY_SUPPORTED, adapter.kernel.display().is_some());
            answer(call, args, AdapterType { flags: flags.bits() })
        }
        query::WDDM_1_2_CAPS | query::WDDM_1_2_CAPS_RENDER => {
            // spec: PRE-070
            let preemption = PreemptionCaps {
                graphics_granularity: info.graphics_preemption,
                compute_granularity: info.compute_preemption,
            };
            answer(call, args, Wddm12Caps { preemption, flags: 0 })
        }
        query::WDDM_1_3_CAPS
        | query::WDDM_1_3_CAPS_RENDER
        | query::WDDM_2_9_CAPS
        | query::WDDM_3_0_CAPS => answer_number(call, args, 0u32),
        query::WDDM_2_0_CAPS => {
            let mut flags = Wddm20CapsFlags::GPU_MMU_SUPPORTED;
            flags.set(Wddm20CapsFlags::SUPPORT_64BIT_ATOMICS, !info.no_64bit_atomics);
            flags.set(Wddm20CapsFlags::IO_MMU_SUPPORTED, info.io_mmu);
            answer_number(call, args, flags.bits())
        }
        query::NODE_METADATA => {
            let asked: QueryNodeMetadataWide = question(call, args)?;
            let (node, physical) = (asked.node_and_adapter & 0xFFFF, asked.node_and_adapter >> 16);
            checked_physical(&adapter, physical)?;
            let found = info.nodes.get(node as usize).ok_or(Status::INVALID_PARAMETER)?;
            let node = node_metadata(found, &info);
            answer(call, args, QueryNodeMetadataWide { node, ..asked })
        }
        query::PHYSICAL_ADAPTER_COUNT => {
            answer(call, args, PhysicalAdapterCount { count: info.physical_adapters })
        }
        query::PHYSICAL_ADAPTER_DEVICE_IDS => {
            let asked: QueryDeviceIds = question(call, args)?;
            checked_physical(&adapter, asked.physical_adapter)?;
            // The ids of a software adapter. No bus gives any.
            let ids = DeviceIds {
                vendor: SOFTWARE_VENDOR,
                device: SOFTWARE_DEVICE,
                sub_vendor: 0,
                sub_system: 0,
                revision: 0,
                bus_type: 0,
            };
            answer(call, args, QueryDeviceIds { ids, ..asked })
        }
        query::GPUMMU_CAPS => {
            let asked: QueryGpuMmuCaps = question(call, args)?;
            checked_physical(&adapter, asked.physical_adapter)?;
            let caps = GpuMmuCaps { flags: 0, virtual_address_bits: GPU_VA_BITS };
            answer(call, args, QueryGpuMmuCaps { caps, ..asked })
        }
        query::SEGMENT_GROUP_SIZE => {
            let asked: SegmentGroupSizeInfo = question(call, args)?;
            checked_physical(&adapter, asked.physical_adapter)?;
            let legacy = segment_sizes(&adapter)?;
            let (local, non_local) = (legacy.dedicated_video, legacy.shared_system);
            answer(call, args, SegmentGroupSizeInfo { legacy, local, non_local, ..asked })
        }
        query::DRIVER_DESCRIPTION | query::DRIVER_DESCRIPTION_RENDER => {
            answer(call, args, DriverDescriptionWide { description: wide(&info.description) })
        }
        query::WDDM_2_7_CAPS => {
            let all = Wddm27CapsFlags::all();
            let flags = if info.hardware_scheduling { all } else { Wddm27CapsFlags::empty() };
            answer_number(call, args, flags.bits())
        }
        // spec: NF-073
        WDDM_3_1_CAPS_QUERY => {
            let mut flags = Wddm31CapsFlags::empty();
            let native = Wddm31CapsFlags::NATIVE_GPU_FENCE_SUPPORTED;
            flags.set(native, info.native_gpu_fence_supported);
            answer(call, args, Wddm31Caps { flags: flags.bits() })
        }
        _ => Err(Status::INVALID_PARAMETER),
    }
}

/// What GetCurrentProcess returns.
const CURRENT_PROCESS: u64 = u64::MAX;

/// Checks the handle of a process: NULL, the pseudo handle of the current process, or a pidfd.
///
/// # Errors
/// INVALID_HANDLE for any other descriptor; ACCESS_DENIED for another process, whose memory this
/// process has no right to query.
fn checked_process(call: &Call, handle: u64) -> Result<(), Status> {
    if handle == 0 || handle == CURRENT_PROCESS {
        return Ok(());
    }
    match process::is_own(&call.caller.descriptor(handle)?) {
        Some(true) => Ok(()),
        Some(false) => Err(Status::ACCESS_DENIED),
        None => Err(Status::INVALID_HANDLE),
    }
}

// spec: RES-013
pub(crate) fn query_video_memory_info(
    call: &Call,
    args: &mut QueryVideoMemoryInfo,
) -> Result<(), Status> {
    let adapter = call.library.adapter(args.adapter)?;
    checked_physical(&adapter, args.physical_adapter_index)?;
    checked_process(call, args.process)?;
    let group = match args.memory_segment_group {
        0 => SegmentGroup::Local,
        1 => SegmentGroup::NonLocal,
        _ => return Err(Status::INVALID_PARAMETER),
    };
    let info = adapter.kernel.query_video_memory_info(group)?;
    (args.budget, args.current_usage) = (info.budget, info.current_usage);
    (args.current_reservation, args.available_for_reservation) = (0, 0);
    Ok(())
}

// spec: NF-291
pub(crate) fn is_feature_enabled(call: &Call, args: &mut IsFeatureEnabled) -> Result<(), Status> {
    let adapter = call.library.adapter(args.adapter)?;
    let info = adapter.kernel.query_adapter_info();
    let enabled = match args.feature_id {
        feature::HWSCH => Some(info.hardware_scheduling),
        feature::USER_MODE_SUBMISSION => Some(info.nodes.iter().any(|n| n.user_mode_submission)),
        feature::NATIVE_FENCE => Some(info.native_gpu_fence_supported),
        other if feature::ALL.contains(&other) => Some(false),
        _ => None,
    };
    let mut flags = FeatureResultFlags::empty();
    flags.set(FeatureResultFlags::KNOWN_FEATURE, enabled.is_some());
    let on = FeatureResultFlags::ENABLED
        | FeatureResultFlags::SUPPORTED_BY_DRIVER
        | FeatureResultFlags::SUPPORTED_ON_CURRENT_CONFIG;
    flags.set(on, enabled == Some(true));
    let version = u16::from(enabled == Some(true));
    args.result = IsFeatureEnabledResult { version, flags: flags.bits() };
    Ok(())
}

pub(crate) fn query_clock_calibration(
    call: &Call,
    args: &mut QueryClockCalibration,
) -> Result<(), Status> {
    let adapter = call.library.adapter(args.adapter)?;
    let read = adapter.kernel.query_clock_calibration(args.node_ordinal, args.physical_adapter)?;
    args.clocks = GpuClockData {
        gpu_frequency: read.gpu_frequency,
        gpu_clock: read.gpu_clock,
        cpu_clock: read.cpu.0,
        flags: 0,
    };
    Ok(())
}

pub(crate) fn escape(call: &Call, args: &Escape) -> Result<(), Status> {
    let adapter = call.library.adapter(args.adapter)?;
    if args.escape_type != ESCAPE_TDRDBGCTRL {
        return Err(Status::NOT_SUPPORTED);
    }
    let test = tdr_test(call, args)?;
    adapter.kernel.debug_timeouts(test.ok_or(Status::INVALID_PARAMETER)?)
}

/// Reads the data of D3DKMT_ESCAPE_TDRDBGCTRL. No data forces a timeout, as the page of
/// DXGK_TDR_TYPE_FORCED says. A type without a node is the data of Windows 7.
fn tdr_test(call: &Call, args: &Escape) -> Result<Option<TdrTest>, Status> {
    const WHOLE: usize = size_of::<TdrDebugControl>();
    match args.data_bytes as usize {
        0 => Ok(Some(TdrTest::ForceTdr)),
        bytes if bytes >= WHOLE => {
            let control: TdrDebugControl = call.caller.read(args.data)?;
            Ok(TdrTest::from_number(control.control, control.node_ordinal, 0))
        }
        4..WHOLE => {
            let control = call.caller.numbers::<u32>(args.data, 1, 1)?[0];
            let test = TdrTest::from_number(control, 0, 0);
            Ok(test.filter(|test| !matches!(test, TdrTest::EngineTdr { .. })))
        }
        _ => Ok(None),
    }
}
