//! DXGKRNL_INTERFACE: the callbacks of a driver, and the resources of its device.
//!
//! A callback that is not carried out yet returns STATUS_NOT_SUPPORTED, or NULL where it returns a
//! pointer or a handle.

use super::table::HostContext;
use crate::host::{REGISTERS_AT, REGISTERS_BUS, REGISTERS_BYTES};
use crate::rule::Rule;
use std::ffi::c_void;
use std::ptr;
use tidegate_ddi::{
    EngineId, FaultErrorCode, InterruptData, InterruptType, PageFault, PageFaultFlags,
    RenderPipelineStage, Status,
};
use tidegate_wddm_abi::miniport::{DeviceInfo, DmaPageFaulted, NotifyInterruptData};

/// DeviceHandle, which is the hAdapter of callbacks as well.
type Handle = *const HostContext;

/// DXGKRNL_INTERFACE of a version, as words.
pub(crate) struct Interface {
    pub(crate) words: Vec<u64>,
}

/// The place of DeviceHandle.
const DEVICE_HANDLE: usize = 1;
/// The place of the first callback.
const FIRST: usize = 2;

impl Interface {
    /// Returns the structure as a driver of this version knows it.
    pub(crate) fn new(context: &HostContext, version: u32, bytes: u32) -> Interface {
        let address = |function: *const c_void| function.expose_provenance() as u64;
        let mut words = vec![address(unavailable as *const c_void); bytes as usize / 8];
        words[0] = u64::from(bytes) | u64::from(version) << 32;
        words[DEVICE_HANDLE] = ptr::from_ref(context).expose_provenance() as u64;
        for (place, function) in [
            (11, no_handle as *const c_void),
            (12, no_handle as *const c_void),
            (13, no_handle as *const c_void),
            (1, get_device_information as *const c_void),
            (3, map_memory as *const c_void),
            (4, queue_dpc as *const c_void),
            (7, synchronize_execution as *const c_void),
            (8, unmap_memory as *const c_void),
            (14, notify_interrupt as *const c_void),
            (15, notify_dpc as *const c_void),
        ] {
            words[FIRST + place] = address(function);
        }
        Interface { words }
    }
}

/// CM_RESOURCE_LIST as words: the registers and an interrupt.
pub(crate) fn resources() -> Vec<u64> {
    const MEMORY: u8 = 3;
    const INTERRUPT: u8 = 2;
    let mut bytes = Vec::new();
    // Count, InterfaceType (5 is PCI), BusNumber, Version and Revision (1), Count.
    for number in [1_u32, 5, 0, 1 | 1 << 16, 2] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend([MEMORY, 0, 0, 0]);
    bytes.extend(REGISTERS_BUS.to_le_bytes());
    bytes.extend(REGISTERS_BYTES.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend([INTERRUPT, 0, 0, 0]);
    // Level and group, vector, affinity.
    bytes.extend([5, 0, 0, 0, 0x51, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// Every callback that is not carried out. The caller removes the arguments.
unsafe extern "C-unwind" fn unavailable() -> i32 {
    Status::NOT_SUPPORTED.0
}

/// DxgkCbGetHandleData, DxgkCbGetHandleParent, DxgkCbEnumHandleChildren: the driver has opened no
/// allocation, so no handle has data, a parent or children.
unsafe extern "C-unwind" fn no_handle() -> u64 {
    0
}

/// The context of a handle.
fn of<'a>(handle: Handle) -> &'a HostContext {
    // SAFETY: the driver passes the DeviceHandle of its interface, which is a pointer to a context
    // that outlives the library.
    unsafe { &*handle }
}

unsafe extern "C-unwind" fn get_device_information(handle: Handle, info: *mut DeviceInfo) -> i32 {
    let host = &of(handle).host;
    host.check_level("DxgkCbGetDeviceInformation", 0);
    if info.is_null() {
        return Status::INVALID_PARAMETER.0;
    }
    let filled = DeviceInfo {
        miniport_device_context: 0,
        physical_device_object: host.device_object_at(),
        device_registry_path: host.software_path_words(),
        translated_resource_list: host.resources_at(),
        system_memory_size: 1 << 40,
        highest_physical_address: (1 << 52) - 1,
        agp_aperture_base: 0,
        agp_aperture_size: 0,
        docking_state: 0,
    };
    // SAFETY: the driver passes its DXGK_DEVICE_INFO.
    unsafe { info.write_unaligned(filled) };
    Status::SUCCESS.0
}

unsafe extern "C-unwind" fn map_memory(
    handle: Handle,
    at: u64,
    length: u32,
    in_io_space: u8,
    to_user_mode: u8,
    _cache_type: u32,
    address: *mut u64,
) -> i32 {
    let host = &of(handle).host;
    host.check_level("DxgkCbMapMemory", 0);
    let offset = at.checked_sub(REGISTERS_BUS);
    let end = offset.and_then(|offset| offset.checked_add(length.into()));
    let inside = end.is_some_and(|end| end <= u64::from(REGISTERS_BYTES));
    let (Some(offset), true) = (offset, inside && in_io_space == 0 && to_user_mode == 0) else {
        host.violation(Rule::Mapping, format!(
            "DxgkCbMapMemory of {length} bytes at {at:#x}: the device has registers at {REGISTERS_BUS:#x}"
        ));
        return Status::INVALID_PARAMETER.0;
    };
    if address.is_null() {
        return Status::INVALID_PARAMETER.0;
    }
    // SAFETY: the driver passes a variable for the address.
    unsafe { address.write_unaligned(REGISTERS_AT + offset) };
    Status::SUCCESS.0
}

unsafe extern "C-unwind" fn unmap_memory(handle: Handle, _address: u64) -> i32 {
    of(handle).host.check_level("DxgkCbUnmapMemory", 0);
    Status::SUCCESS.0
}

unsafe extern "C-unwind" fn queue_dpc(handle: Handle) -> u8 {
    of(handle).host.queue_dpc();
    1
}

/// KSYNCHRONIZE_ROUTINE
type SynchronizeRoutine = unsafe extern "C-unwind" fn(*mut c_void) -> u8;

unsafe extern "C-unwind" fn synchronize_execution(
    handle: Handle,
    routine: Option<SynchronizeRoutine>,
    argument: *mut c_void,
    _message_number: u32,
    result: *mut u8,
) -> i32 {
    let (Some(routine), false) = (routine, result.is_null()) else {
        return Status::INVALID_PARAMETER.0;
    };
    // SAFETY: the driver passes a function and its argument.
    let answer = of(handle).host.synchronize(|| unsafe { routine(argument) } != 0);
    let Some(answer) = answer else { return Status::INVALID_PARAMETER.0 };
    // SAFETY: the driver passes a variable for the result.
    unsafe { result.write(answer.into()) };
    Status::SUCCESS.0
}

unsafe extern "C-unwind" fn notify_dpc(handle: Handle) {
    of(handle).host.notify_dpc();
}

unsafe extern "C-unwind" fn notify_interrupt(handle: Handle, data: *const NotifyInterruptData) {
    let host = &of(handle).host;
    if data.is_null() {
        return host.violation(Rule::Interrupt, "DxgkCbNotifyInterrupt without data");
    }
    // SAFETY: the driver passes the data of one interrupt. Every bit pattern is a valid value.
    let data = unsafe { data.read_unaligned() };
    match decode(&data) {
        Some(data) => host.notify_interrupt(data),
        None => host.violation(
            Rule::Interrupt,
            format!(
                "DxgkCbNotifyInterrupt with the type {}, which no packet driver reports",
                data.interrupt_type
            ),
        ),
    }
}

/// Translates a report of a packet driver.
fn decode(data: &NotifyInterruptData) -> Option<InterruptData> {
    let word = |number: usize| {
        let word = data.arm[number / 2];
        if number.is_multiple_of(2) { word as u32 } else { (word >> 32) as u32 }
    };
    let engine =
        |node: usize| EngineId { node_ordinal: word(node), engine_ordinal: word(node + 1) };
    let is = |of: InterruptType| data.interrupt_type == of as u32;
    if is(InterruptType::DmaCompleted) {
        return Some(InterruptData::DmaCompleted {
            engine: engine(1),
            submission_fence_id: word(0),
        });
    }
    if is(InterruptType::DmaPreempted) {
        return Some(InterruptData::DmaPreempted {
            engine: engine(2),
            preemption_fence_id: word(0),
            last_completed_fence_id: word(1),
        });
    }
    if is(InterruptType::MonitoredFenceSignaled) {
        return Some(InterruptData::MonitoredFenceSignaled { engine: engine(0) });
    }
    if is(InterruptType::DmaPageFaulted) {
        // SAFETY: the arm is 64 bytes of plain numbers, as the structure is.
        let fault: DmaPageFaulted = unsafe { std::mem::transmute_copy(&data.arm) };
        return Some(page_fault(&fault));
    }
    None
}

fn page_fault(fault: &DmaPageFaulted) -> InterruptData {
    InterruptData::DmaPageFaulted {
        engine: EngineId { node_ordinal: fault.node_ordinal, engine_ordinal: fault.engine_ordinal },
        faulted_fence_id: fault.faulted_fence_id,
        fault: PageFault {
            gpu_va: fault.faulted_virtual_address,
            flags: PageFaultFlags::from_bits_truncate(fault.page_fault_flags),
            primitive_api_sequence_number: fault.faulted_primitive_api_sequence_number,
            pipeline_stage: RenderPipelineStage::try_from(fault.faulted_pipeline_stage)
                .unwrap_or_default(),
            bind_table_entry: fault.faulted_bind_table_entry,
            page_table_level: fault.page_table_level,
            error_code: FaultErrorCode(fault.fault_error_code),
            what: "reported by a driver in C",
        },
    }
}
