//! Calls about devices and contexts, their state and their priorities.

use crate::call::Call;
use crate::event::PendingWaits;
use crate::library::ended;
use crate::named_object::Object;
use crate::object::{Context, ContextKind, Device};
use std::sync::Arc;
use tidegate_calls::{
    self as calls, DeviceErrorReason, DeviceState, Handle, Priority, Status, SubmitCommand,
};
use tidegate_wddm_abi::d3dkmthk::{
    CreateContextVirtual, CreateDevice, CreateHwContext, DestroyContext, DestroyDevice,
    DestroyHwContext, DevicePageFaultState, DeviceStateType, GetDeviceState, MarkDeviceAsError,
    SetContextInProcessSchedulingPriority, SetContextSchedulingPriority, SubmitCommand as Submit,
    SubmitCommandFlags,
};
use tidegate_wddm_abi::d3dukmdt::{
    CreateContextFlags, MAX_BROADCAST_CONTEXTS, MAX_WRITTEN_PRIMARIES,
};

/// Bits of D3DKMT_CREATEDEVICEFLAGS: LegacyMode, RequestVSync, DisableGpuTimeout.
const CREATE_DEVICE_FLAGS: u32 = 0b111;
const DISABLE_GPU_TIMEOUT: u32 = 0b100;

// spec: MF-090
pub(crate) fn create_device(call: &Call, args: &mut CreateDevice) -> Result<(), Status> {
    let library = call.library;
    let adapter = library.adapter(args.adapter as u32)?;
    if args.flags & !CREATE_DEVICE_FLAGS != 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    if args.flags & DISABLE_GPU_TIMEOUT != 0 {
        return Err(Status::ACCESS_DENIED);
    }
    let handle = adapter.kernel.create_device()?;
    let kernel = adapter.kernel.clone();
    let waits = PendingWaits::new(&library.platform);
    let device = Object::Device(Arc::new(Device { adapter, handle, waits }));
    args.device = library
        .insert(device, || {
            let _ended = kernel.destroy_device(handle);
        })?
        .0;
    Ok(())
}

pub(crate) fn destroy_device(call: &Call, args: &DestroyDevice) -> Result<(), Status> {
    let device = call.library.device(args.device)?;
    ended(device.kernel().destroy_device(device.handle))?;
    call.library.remove_device(&device);
    call.library.nt_handles.collect();
    Ok(())
}

/// D3DKMT_DEVICEEXECUTION_STATE.
fn execution_state(state: &DeviceState) -> u32 {
    match state {
        DeviceState::Active => 1,
        DeviceState::Reset(_) => 2,
        DeviceState::Hung(_) => 3,
        DeviceState::Stopped | DeviceState::Removed | DeviceState::ProcessEnded => 4,
        DeviceState::MarkedAsError(_) => 6,
        DeviceState::Faulted(_) => 7,
    }
}

// spec: MF-092
pub(crate) fn get_device_state(call: &Call, args: &mut GetDeviceState) -> Result<(), Status> {
    use DeviceStateType as Type;
    let device = call.library.device(args.device)?;
    let state = device.kernel().device_state(device.handle)?;
    let is = |kind: Type| args.state_type == kind as u32;
    if is(Type::Execution) {
        args.state[0] = u64::from(execution_state(&state));
    } else if is(Type::PageFault) {
        let fault = match state {
            DeviceState::Faulted(fault) => fault,
            _ => Default::default(),
        };
        let DevicePageFaultState {
            faulted_primitive_api_sequence_number,
            faulted_pipeline_stage,
            faulted_bind_table_entry,
            page_fault_flags,
            fault_error_code,
            faulted_virtual_address,
        } = DevicePageFaultState {
            faulted_primitive_api_sequence_number: fault.primitive_api_sequence_number,
            faulted_pipeline_stage: fault.pipeline_stage as u32,
            faulted_bind_table_entry: fault.bind_table_entry,
            page_fault_flags: fault.flags.bits(),
            fault_error_code: fault.error_code.0,
            faulted_virtual_address: fault.gpu_va,
        };
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        args.state = [
            faulted_primitive_api_sequence_number,
            pair(faulted_pipeline_stage, faulted_bind_table_entry),
            pair(page_fault_flags, fault_error_code),
            faulted_virtual_address,
            0,
            0,
        ];
    } else if [Type::Present, Type::Reset, Type::PresentDwm, Type::PresentQueue].into_iter().any(is)
    {
        // No present is lost, and no desktop is switched.
        args.state = [0; 6];
    } else {
        return Err(Status::INVALID_PARAMETER);
    }
    Ok(())
}

pub(crate) fn mark_device_as_error(call: &Call, args: &MarkDeviceAsError) -> Result<(), Status> {
    let device = call.library.device(args.device)?;
    let reasons = [DeviceErrorReason::Generic, DeviceErrorReason::DriverError];
    let reason = reasons.into_iter().find(|reason| *reason as u32 == args.reason);
    device.kernel().mark_device_as_error(device.handle, reason.ok_or(Status::INVALID_PARAMETER)?)
}

/// Gives a context of the kernel its handle.
fn enter_context(
    call: &Call,
    device: Arc<Device>,
    handle: Handle,
    kind: ContextKind,
    end: impl FnOnce(&Device),
) -> Result<u32, Status> {
    let priority = call.library.platform.mutex("priority of a context", (0, 0));
    let context = Arc::new(Context { device: device.clone(), handle, kind, priority });
    let object = match kind {
        ContextKind::ForPackets => Object::Context(context),
        ContextKind::Hw | ContextKind::ForHwQueues { .. } => Object::HwContext(context),
    };
    Ok(call.library.insert(object, || end(&device))?.0)
}

/// Creates a hardware context by either call.
fn new_hw_context(
    call: &Call,
    device: Arc<Device>,
    create: calls::CreateHwContext,
    kind: ContextKind,
) -> Result<u32, Status> {
    let context = device.kernel().create_hw_context(create)?;
    let end = |device: &Device| {
        let _ended = device.kernel().destroy_hw_context(context);
    };
    enter_context(call, device, context, kind, end)
}

// spec: MF-088
pub(crate) fn create_context_virtual(
    call: &Call,
    args: &mut CreateContextVirtual,
) -> Result<(), Status> {
    let device = call.library.device(args.device)?;
    let flags = CreateContextFlags::from_bits(args.flags).ok_or(Status::INVALID_PARAMETER)?;
    if flags.contains(CreateContextFlags::TEST_CONTEXT) {
        return Err(Status::INVALID_PARAMETER);
    }
    let disables_timeout = flags.contains(CreateContextFlags::DISABLE_GPU_TIMEOUT);
    if flags.contains(CreateContextFlags::HW_QUEUE_SUPPORTED) {
        let (node_ordinal, engine_affinity) = (args.node_ordinal, args.engine_affinity);
        let create =
            calls::CreateHwContext { device: device.handle, node_ordinal, engine_affinity };
        let kind = ContextKind::ForHwQueues { disables_timeout };
        args.context = new_hw_context(call, device, create, kind)?;
        return Ok(());
    }
    let context = device.kernel().create_context_virtual(calls::CreateContextVirtual {
        device: device.handle,
        node_ordinal: args.node_ordinal,
        engine_affinity: args.engine_affinity,
        priority: Priority::Normal,
    })?;
    let end = |device: &Device| {
        let _ended = device.kernel().destroy_context(context);
    };
    if disables_timeout && let Err(refusal) = device.kernel().disable_gpu_timeout(context) {
        end(&device);
        return Err(refusal);
    }
    args.context = enter_context(call, device, context, ContextKind::ForPackets, end)?;
    Ok(())
}

pub(crate) fn destroy_context(call: &Call, args: &DestroyContext) -> Result<(), Status> {
    let context = any_context(call, args.context)?;
    let kernel = context.device.kernel();
    ended(match context.kind {
        ContextKind::ForPackets => kernel.destroy_context(context.handle),
        ContextKind::ForHwQueues { .. } => kernel.destroy_hw_context(context.handle),
        ContextKind::Hw => return Err(Status::INVALID_PARAMETER),
    })?;
    call.library.remove(args.context);
    Ok(())
}

// spec: MF-089
pub(crate) fn submit_command(call: &Call, args: &Submit) -> Result<(), Status> {
    let contexts = args.broadcast_context_count as usize;
    let known = SubmitCommandFlags::from_bits(args.flags).is_some();
    if !known || contexts > MAX_BROADCAST_CONTEXTS || contexts == 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    if args.num_primaries as usize > MAX_WRITTEN_PRIMARIES {
        return Err(Status::INVALID_PARAMETER);
    }
    // The kernel has no packet of several contexts of one adapter but for linked adapters.
    if contexts > 1 {
        return Err(Status::NOT_SUPPORTED);
    }
    let context = call.library.context(args.broadcast_context[0])?;
    context.device.kernel().submit_command(SubmitCommand {
        context: context.handle,
        commands_gpu_va: args.commands,
        command_bytes: args.command_length,
    })
}

pub(crate) fn create_hw_context(call: &Call, args: &mut CreateHwContext) -> Result<(), Status> {
    let device = call.library.device(args.device)?;
    if args.flags != 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    let (node_ordinal, engine_affinity) = (args.node_ordinal, args.engine_affinity);
    let create = calls::CreateHwContext { device: device.handle, node_ordinal, engine_affinity };
    args.hw_context = new_hw_context(call, device, create, ContextKind::Hw)?;
    Ok(())
}

pub(crate) fn destroy_hw_context(call: &Call, args: &DestroyHwContext) -> Result<(), Status> {
    let context = call.library.hw_context(args.hw_context)?;
    if context.kind != ContextKind::Hw {
        return Err(Status::INVALID_PARAMETER);
    }
    ended(context.device.kernel().destroy_hw_context(context.handle))?;
    call.library.remove(args.hw_context);
    Ok(())
}

/// The context of a call about priorities.
fn any_context(call: &Call, handle: u32) -> Result<Arc<Context>, Status> {
    match call.library.object(handle)? {
        Object::HwContext(context) | Object::Context(context) => Ok(context),
        _ => Err(Status::INVALID_PARAMETER),
    }
}

// spec: HS-010
pub(crate) fn set_context_scheduling_priority(
    call: &Call,
    args: &SetContextSchedulingPriority,
) -> Result<(), Status> {
    let context = any_context(call, args.context)?;
    context.device.kernel().set_context_scheduling_priority(context.handle, args.priority)?;
    context.priority.lock().0 = args.priority;
    Ok(())
}

pub(crate) fn get_context_scheduling_priority(
    call: &Call,
    args: &mut SetContextSchedulingPriority,
) -> Result<(), Status> {
    args.priority = any_context(call, args.context)?.priority.lock().0;
    Ok(())
}

pub(crate) fn set_context_in_process_scheduling_priority(
    call: &Call,
    args: &SetContextInProcessSchedulingPriority,
) -> Result<(), Status> {
    let context = any_context(call, args.context)?;
    let kernel = context.device.kernel();
    kernel.set_context_in_process_scheduling_priority(context.handle, args.priority)?;
    context.priority.lock().1 = args.priority;
    Ok(())
}

pub(crate) fn get_context_in_process_scheduling_priority(
    call: &Call,
    args: &mut SetContextInProcessSchedulingPriority,
) -> Result<(), Status> {
    args.priority = any_context(call, args.context)?.priority.lock().1;
    Ok(())
}
