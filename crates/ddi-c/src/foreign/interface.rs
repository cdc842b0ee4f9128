//! DXGKRNL_INTERFACE: the callbacks of a driver, and the resources of its device.
//!
//! A callback that is not carried out yet returns STATUS_NOT_SUPPORTED, or NULL where it returns a
//! pointer or a handle.

use super::features::{is_feature_enabled, query_services};
use super::routines::SynchronizeRoutine;
use super::table::HostContext;
use crate::pci::{Bar, PciFunction};
use crate::rule::Rule;
use std::ffi::c_void;
use std::ptr;
use tidegate_ddi::{
    DriverHandle, EngineId, EngineState, FaultErrorCode, Injection, InterruptData, InterruptType,
    OsHandle, PageFault, PageFaultFlags, RenderPipelineStage, Status,
};
use tidegate_platform::PhysicalAddress;
use tidegate_wddm_abi::d3dkmddi::{
    HwQueuePageFaulted, InvalidateHwContextCallback, NativeFenceSignaled, NotifyInterruptFlags,
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

/// Sets a callback, if the driver's version has it.
fn set(words: &mut [u64], place: usize, function: u64) {
    if let Some(word) = words.get_mut(FIRST + place) {
        *word = function;
    }
}

impl Interface {
    /// Returns the structure as a driver of this version knows it.
    pub(crate) fn new(context: &HostContext, version: u32, bytes: u32) -> Interface {
        let address = |function: *const c_void| function.expose_provenance() as u64;
        let mut words = vec![address(unavailable as *const c_void); bytes as usize / 8];
        words[0] = u64::from(bytes) | u64::from(version) << 32;
        words[DEVICE_HANDLE] = ptr::from_ref(context).expose_provenance() as u64;
        for (place, function) in [
            (12, no_handle as *const c_void),
            (13, no_handle as *const c_void),
            (1, get_device_information as *const c_void),
            (3, map_memory as *const c_void),
            (4, queue_dpc as *const c_void),
            (6, read_device_space as *const c_void),
            (7, synchronize_execution as *const c_void),
            (8, unmap_memory as *const c_void),
            (14, notify_interrupt as *const c_void),
            (15, notify_dpc as *const c_void),
            (5, query_services as *const c_void),
            (39, invalidate_hw_context as *const c_void),
            (56, is_feature_enabled as *const c_void),
        ] {
            set(&mut words, place, address(function));
        }
        for (place, function) in [
            (11, context.callbacks.get_handle_data),
            (34, context.callbacks.acquire_handle_data),
            (35, context.callbacks.release_handle_data),
            (69, context.callbacks.disconnect_doorbell),
        ] {
            set(&mut words, place, function);
        }
        Interface { words }
    }
}

/// CM_RESOURCE_LIST as words: the first range of registers, the interrupt or its messages, and the
/// second range.
pub(crate) fn resources(function: &PciFunction) -> Vec<u64> {
    let mut descriptors: Vec<Vec<u8>> = match function.messages {
        0 => vec![interrupt(0, 0)],
        messages => (0..messages).map(|message| interrupt(MESSAGE, message)).collect(),
    };
    let mut bars = function.bars.iter().map(memory);
    descriptors.splice(0..0, bars.next());
    descriptors.extend(bars);
    let mut bytes = Vec::new();
    // Count, InterfaceType (5 is PCI), BusNumber, Version and Revision (1), Count.
    for number in [1_u32, 5, 0, 1 | 1 << 16, descriptors.len() as u32] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(descriptors.concat());
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// CM_RESOURCE_INTERRUPT_MESSAGE.
const MESSAGE: u16 = 2;

/// A descriptor of an interrupt with these flags.
fn interrupt(flags: u16, message: u32) -> Vec<u8> {
    const INTERRUPT: u8 = 2;
    /// The vector of the line, and of the first message.
    const VECTOR: u32 = 0x51;
    const LEVEL: u16 = 5;
    let mut bytes = vec![INTERRUPT, 0];
    bytes.extend(flags.to_le_bytes());
    // Level, group, vector, affinity.
    bytes.extend(LEVEL.to_le_bytes());
    bytes.extend([0; 2]);
    bytes.extend((VECTOR + message).to_le_bytes());
    bytes.extend(1_u64.to_le_bytes());
    bytes
}

/// A descriptor of a range of registers.
fn memory(bar: &Bar) -> Vec<u8> {
    const MEMORY: u8 = 3;
    const MEMORY_LARGE: u8 = 7;
    /// CM_RESOURCE_MEMORY_LARGE_48: the length is in units of 64 KiB.
    const LARGE_48: u16 = 0x400;
    let (kind, flags, length) = match u32::try_from(bar.bytes) {
        Ok(bytes) => (MEMORY, 0, bytes),
        Err(_) => (MEMORY_LARGE, LARGE_48, (bar.bytes >> 16) as u32),
    };
    let mut bytes = vec![kind, 0];
    bytes.extend(flags.to_le_bytes());
    bytes.extend(bar.bus.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes.extend([0; 4]);
    bytes
}

/// Every callback that is not carried out. The caller removes the arguments.
unsafe extern "C-unwind" fn unavailable() -> i32 {
    Status::NOT_SUPPORTED.0
}

/// DxgkCbGetHandleParent, DxgkCbEnumHandleChildren: no allocation is one of a resource of the
/// driver.
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
        physical_device_object: host.device_object_at(),
        device_registry_path: host.software_path_words(),
        translated_resource_list: host.resources_at(),
        system_memory_size: 1 << 40,
        highest_physical_address: (1 << 52) - 1,
        ..DeviceInfo::ZERO
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
    let function = &host.hardware.function;
    let mapped = function.window(at, length.into());
    let mapped = mapped.filter(|_| in_io_space == 0 && to_user_mode == 0);
    let Some(mapped) = mapped else {
        host.violation(
            Rule::Mapping,
            format!(
                "DxgkCbMapMemory of {length} bytes at {at:#x}: the device has registers at {}",
                function.ranges()
            ),
        );
        return Status::INVALID_PARAMETER.0;
    };
    if address.is_null() {
        return Status::INVALID_PARAMETER.0;
    }
    // SAFETY: the driver passes a variable for the address.
    unsafe { address.write_unaligned(mapped) };
    Status::SUCCESS.0
}

/// DxgkCbReadDeviceSpace: PCI configuration space, of which the header has content.
unsafe extern "C-unwind" fn read_device_space(
    handle: Handle,
    space: u32,
    buffer: *mut u8,
    offset: u32,
    length: u32,
    bytes_read: *mut u32,
) -> i32 {
    const CONFIGURATION: u32 = 0;
    let host = &of(handle).host;
    if !host.check_level("DxgkCbReadDeviceSpace", 0) || buffer.is_null() || bytes_read.is_null() {
        return Status::INVALID_PARAMETER.0;
    }
    if space != CONFIGURATION {
        return Status::NOT_SUPPORTED.0;
    }
    let content = host.hardware.function.configuration();
    let end = (offset as usize).saturating_add(length as usize).min(content.len());
    let part = content.get(offset as usize..end).unwrap_or_default();
    // SAFETY: the driver passes a buffer of `length` bytes and a variable for the number of bytes.
    unsafe {
        ptr::copy_nonoverlapping(part.as_ptr(), buffer, part.len());
        bytes_read.write_unaligned(part.len() as u32);
    }
    Status::SUCCESS.0
}

unsafe extern "C-unwind" fn unmap_memory(handle: Handle, _address: u64) -> i32 {
    of(handle).host.check_level("DxgkCbUnmapMemory", 0);
    Status::SUCCESS.0
}

unsafe extern "C-unwind" fn queue_dpc(handle: Handle) -> u8 {
    let host = &of(handle).host;
    host.between_steps("DxgkCbQueueDpc", || host.queue_dpc());
    1
}

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
    const NAME: &str = "DxgkCbSynchronizeExecution";
    let host = &of(handle).host;
    if host.fails(Injection::Synchronize) {
        return Status::UNSUCCESSFUL.0;
    }
    // SAFETY: the driver passes a function and its argument.
    let call = || unsafe { routine(argument) } != 0;
    let answer = host.between_steps(NAME, || host.synchronize(NAME, call));
    let Some(answer) = answer else { return Status::INVALID_PARAMETER.0 };
    // SAFETY: the driver passes a variable for the result.
    unsafe { result.write(answer.into()) };
    Status::SUCCESS.0
}

unsafe extern "C-unwind" fn notify_dpc(handle: Handle) {
    let host = &of(handle).host;
    host.between_steps("DxgkCbNotifyDpc", || host.notify_dpc());
}

unsafe extern "C-unwind" fn notify_interrupt(handle: Handle, data: *const NotifyInterruptData) {
    let host = &of(handle).host;
    if data.is_null() {
        return host.violation(Rule::Interrupt, "DxgkCbNotifyInterrupt without data");
    }
    // SAFETY: the driver passes the data of one interrupt. Every bit pattern is a valid value.
    let data = unsafe { data.read_unaligned() };
    match decode(&data) {
        Some(data) => {
            host.between_steps("DxgkCbNotifyInterrupt", || host.notify_interrupt(data));
        }
        None => host.violation(
            Rule::Interrupt,
            format!(
                "DxgkCbNotifyInterrupt with the type {}: the kernel knows no such interrupt",
                data.interrupt_type
            ),
        ),
    }
}

/// Translates a report.
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
    if is(InterruptType::CrtcVsync) {
        // VidPnTargetId, then the address at the next multiple of 8 bytes.
        return Some(InterruptData::CrtcVsync {
            vid_pn_target_id: word(0),
            physical_address: PhysicalAddress(data.arm[1]),
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
    // spec: HS-014
    if is(InterruptType::HwQueuePageFaulted) {
        // SAFETY: as above.
        let fault: HwQueuePageFaulted = unsafe { std::mem::transmute_copy(&data.arm) };
        return Some(queue_fault(&fault));
    }
    // spec: NF-119
    if is(InterruptType::NativeFenceSignaled) {
        // SAFETY: as above, for the first 32 of these bytes.
        let signaled: NativeFenceSignaled = unsafe { std::mem::transmute_copy(&data.arm) };
        return Some(native_fence_signaled(&signaled, data.flags));
    }
    if is(InterruptType::SuspendContextCompleted) {
        return Some(InterruptData::SuspendContextCompleted {
            context: OsHandle(data.arm[0]),
            suspend_fence: data.arm[1],
        });
    }
    // spec: UMS-051
    if is(InterruptType::GpuEngineStateChange) {
        let states = [EngineState::Active, EngineState::TransitionToF1, EngineState::Hung];
        let new_state = states.into_iter().find(|state| *state as u32 == word(2))?;
        return Some(InterruptData::EngineStateChange { engine: engine(0), new_state });
    }
    None
}

fn native_fence_signaled(signaled: &NativeFenceSignaled, flags: u32) -> InterruptData {
    let count = signaled.signaled_native_fence_count as usize;
    let array: *const u64 =
        ptr::with_exposed_provenance(signaled.signaled_native_fence_array as usize);
    let fences = (!array.is_null()).then(|| {
        // SAFETY: the driver passes an array of as many handles.
        (0..count).map(|place| OsHandle(unsafe { array.add(place).read_unaligned() })).collect()
    });
    InterruptData::NativeFenceSignaled {
        engine: EngineId {
            node_ordinal: signaled.node_ordinal,
            engine_ordinal: signaled.engine_ordinal,
        },
        fences,
        hw_queue: (signaled.hw_queue != 0).then_some(DriverHandle(signaled.hw_queue)),
        evaluate_legacy_monitored_fences: NotifyInterruptFlags::from_bits_truncate(flags)
            .contains(NotifyInterruptFlags::EVALUATE_LEGACY_MONITORED_FENCES),
    }
}

fn queue_fault(fault: &HwQueuePageFaulted) -> InterruptData {
    InterruptData::HwQueuePageFaulted {
        engine: EngineId { node_ordinal: fault.node_ordinal, engine_ordinal: fault.engine_ordinal },
        faulted: OsHandle(fault.faulted),
        faulted_fence_id: fault.faulted_fence_id,
        slot: 0,
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

/// DxgkCbInvalidateHwContext. The adapter is in the argument.
unsafe extern "C-unwind" fn invalidate_hw_context(args: *const InvalidateHwContextCallback) -> i32 {
    if args.is_null() {
        return Status::INVALID_PARAMETER.0;
    }
    // SAFETY: the driver passes its argument.
    let args = unsafe { args.read_unaligned() };
    let handle: Handle = ptr::with_exposed_provenance(args.adapter as usize);
    let host = &of(handle).host;
    if !host.check_level("DxgkCbInvalidateHwContext", 0) {
        return Status::INVALID_PARAMETER.0;
    }
    let call = || host.invalidate_hw_context(&args).err().unwrap_or(Status::SUCCESS).0;
    host.between_steps("DxgkCbInvalidateHwContext", call)
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

#[cfg(test)]
mod tests {
    use super::*;

    // spec: UMS-051
    #[test]
    fn a_state_of_an_engine_is_known_by_its_number() {
        let of_number = |number: u64| {
            let arm = [3, number, 0, 0, 0, 0, 0, 0];
            let interrupt_type = InterruptType::GpuEngineStateChange as u32;
            decode(&NotifyInterruptData { interrupt_type, arm, flags: 0 })
        };
        let engine = EngineId::of_node(3);
        for (number, new_state) in
            [(0, EngineState::Active), (1, EngineState::TransitionToF1), (2, EngineState::Hung)]
        {
            let expected = InterruptData::EngineStateChange { engine, new_state };
            assert_eq!(of_number(number), Some(expected));
        }
        assert_eq!(of_number(3), None);
    }
}
