//! Calls about fences: creation, destruction, waits and signals of the CPU and of contexts.

use crate::call::Call;
use crate::event;
use crate::legacy;
use crate::library::ended;
use crate::named_object::Object;
use crate::object::{Device, Fence};
use std::sync::Arc;
use tidegate_calls::{
    self as calls, CreateMonitoredFence, FenceInstance, FenceValue, Handle,
    MAX_OBJECTS_PER_CPU_WAIT, NativeFenceType, SignalFlags, Status, SyncObjectFlags, WaitMode,
};
use tidegate_wddm_abi::d3dkmthk::{
    CreateNativeFence, CreateSynchronizationObject2, DestroySynchronizationObject,
    SignalSynchronizationObjectFromCpu, SignalSynchronizationObjectFromGpu,
    SignalSynchronizationObjectFromGpu2, WaitForSynchronizationObjectFromCpu,
    WaitForSynchronizationObjectFromGpu, WaitFromCpuFlags,
};
use tidegate_wddm_abi::d3dukmdt::{
    MAX_BROADCAST_CONTEXTS, MAX_OBJECTS_SIGNALED, MAX_OBJECTS_WAITED_ON, NativeFenceMapping,
    SynchronizationObjectType,
};

/// The CPU address of a fence's value; 0 if no CPU reaches it.
pub(crate) fn value_address(fence: &FenceInstance) -> u64 {
    fence.value.read_only().map_or(0, |word| word.cpu_address())
}

/// The addresses of a native fence.
// spec: NF-096
pub(crate) fn mapping(fence: &FenceInstance) -> NativeFenceMapping {
    NativeFenceMapping {
        current_value_cpu_va: value_address(fence),
        current_value_gpu_va: fence.current_value_gpu_va,
        monitored_value_gpu_va: fence.monitored_value_gpu_va,
        reserved: Default::default(),
    }
}

/// Gives a fence of the kernel its handle.
pub(crate) fn enter_fence(
    call: &Call,
    device: &Arc<Device>,
    fence: &FenceInstance,
    is_own: bool,
) -> Result<Handle, Status> {
    let (handle, value) = (fence.handle, fence.value.clone());
    let object = Fence { device: device.clone(), handle, is_own, _value: value };
    call.library.insert(Object::Fence(Arc::new(object)), || {
        if is_own {
            let _ended = device.kernel().destroy_synchronization_object(handle);
        }
    })
}

/// The type of a synchronisation object by its number.
// spec: MF-002
fn object_type(number: u32) -> Option<SynchronizationObjectType> {
    use SynchronizationObjectType as Type;
    [
        Type::SynchronizationMutex,
        Type::Semaphore,
        Type::Fence,
        Type::CpuNotification,
        Type::MonitoredFence,
        Type::PeriodicMonitoredFence,
        Type::NativeFence,
    ]
    .into_iter()
    .find(|known| *known as u32 == number)
}

// spec: MF-003, MF-093
pub(crate) fn create_synchronization_object2(
    call: &Call,
    args: &mut CreateSynchronizationObject2,
) -> Result<(), Status> {
    use SynchronizationObjectType as Type;
    let device = call.library.device(args.device)?;
    let kind = object_type(args.info.object_type).ok_or(Status::INVALID_PARAMETER)?;
    let flags = SyncObjectFlags::from_caller(args.info.flags)?;
    match kind {
        Type::MonitoredFence => {
            let [initial_value, _, _, affinity, ..] = args.info.arm;
            let fence = device.kernel().create_monitored_fence(CreateMonitoredFence {
                device: device.handle,
                initial_value,
                flags,
                engine_affinity: affinity as u32,
                name: "a monitored fence",
            })?;
            args.sync_object = enter_fence(call, &device, &fence, true)?.0;
            args.info.arm[1] = value_address(&fence);
            args.info.arm[2] = fence.current_value_gpu_va;
            args.info.shared_handle = 0;
            Ok(())
        }
        Type::NativeFence => Err(Status::INVALID_PARAMETER),
        Type::PeriodicMonitoredFence => Err(Status::NOT_SUPPORTED),
        _ => {
            let (object, shared) = legacy::create(call, device, kind, flags, args.info.arm[0])?;
            (args.sync_object, args.info.shared_handle) = (object.0, shared);
            Ok(())
        }
    }
}

// spec: NF-094, NF-095
pub(crate) fn create_native_fence(call: &Call, args: &mut CreateNativeFence) -> Result<(), Status> {
    let device = call.library.device(args.device)?;
    let types = [NativeFenceType::Default, NativeFenceType::IntraGpu];
    let fence_type = types.into_iter().find(|known| *known as u32 == args.info.fence_type);
    if args.flags != 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    let fence = device.kernel().create_native_fence(calls::CreateNativeFence {
        device: device.handle,
        initial_value: args.info.initial_fence_value,
        fence_type: fence_type.ok_or(Status::INVALID_PARAMETER)?,
        flags: SyncObjectFlags::from_caller(args.info.flags)?,
        engine_affinity: args.info.engine_affinity,
        private_data: args.private_driver_data,
        name: "a native fence",
    })?;
    args.sync_object = enter_fence(call, &device, &fence, true)?.0;
    args.info.mapping = mapping(&fence);
    args.private_driver_data = fence.private_data;
    Ok(())
}

pub(crate) fn destroy_synchronization_object(
    call: &Call,
    args: &DestroySynchronizationObject,
) -> Result<(), Status> {
    if legacy::is_legacy(call, Handle(args.sync_object)) {
        return legacy::destroy(call, args.sync_object);
    }
    let fence = call.library.fence(args.sync_object)?;
    if !fence.is_own {
        return Err(Status::INVALID_PARAMETER);
    }
    ended(fence.device.kernel().destroy_synchronization_object(fence.handle))?;
    call.library.remove(args.sync_object);
    call.library.nt_handles.collect();
    Ok(())
}

/// The arrays of fences and values that a call passes.
#[derive(Clone, Copy)]
pub(crate) struct FenceArrays {
    /// Address of the handles.
    pub(crate) handles: u64,
    /// Address of the values.
    pub(crate) values: u64,
    pub(crate) count: u32,
}

/// Resolves fences and their values. All are of the device's adapter.
pub(crate) fn fence_values(
    call: &Call,
    device: &Device,
    FenceArrays { handles, values, count }: FenceArrays,
    most: usize,
) -> Result<Vec<FenceValue>, Status> {
    if count == 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    let handles = call.caller.handles(handles, count, most)?;
    let values = call.caller.numbers::<u64>(values, count, most)?;
    let resolve = |(handle, value): (Handle, u64)| {
        let fence = call.library.fence(handle)?;
        match fence.device.adapter.is(&device.adapter) {
            true => Ok(FenceValue { fence: fence.handle, value }),
            false => Err(Status::INVALID_PARAMETER),
        }
    };
    handles.into_iter().zip(values).map(resolve).collect()
}

// spec: MF-082
pub(crate) fn wait_from_cpu(
    call: &Call,
    args: &WaitForSynchronizationObjectFromCpu,
) -> Result<(), Status> {
    let device = call.library.device(args.device)?;
    let flags = WaitFromCpuFlags::from_bits(args.flags).ok_or(Status::INVALID_PARAMETER)?;
    let arrays = FenceArrays {
        handles: args.object_handle_array,
        values: args.fence_value_array,
        count: args.object_count,
    };
    let fences = fence_values(call, &device, arrays, MAX_OBJECTS_PER_CPU_WAIT)?;
    let any = flags.contains(WaitFromCpuFlags::WAIT_ANY);
    let mode = if any { WaitMode::Any } else { WaitMode::All };
    if args.async_event == 0 {
        return device.kernel().wait_from_cpu(&fences, mode, None);
    }
    let notice = event::notice(&call.library.platform, &call.caller, args.async_event)?;
    let wait = device.kernel().register_cpu_wait(&fences, mode, notice)?;
    device.waits.keep(wait)
}

// spec: MF-084
pub(crate) fn signal_from_cpu(
    call: &Call,
    args: &SignalSynchronizationObjectFromCpu,
) -> Result<(), Status> {
    let device = call.library.device(args.device)?;
    let arrays = FenceArrays {
        handles: args.object_handle_array,
        values: args.fence_value_array,
        count: args.object_count,
    };
    let fences = fence_values(call, &device, arrays, MAX_OBJECTS_SIGNALED)?;
    device.kernel().signal_from_cpu(&fences, signal_flags(args.flags)?)
}

/// The flags of a signal.
pub(crate) fn signal_flags(bits: u32) -> Result<SignalFlags, Status> {
    SignalFlags::from_bits(bits).ok_or(Status::INVALID_PARAMETER)
}

/// Returns the handles of a list whose first object is of an older type.
fn legacy_objects(call: &Call, list: u64, count: u32) -> Result<Option<Vec<Handle>>, Status> {
    let handles = call.caller.handles(list, count, MAX_OBJECTS_WAITED_ON)?;
    let is_legacy = handles.first().is_some_and(|first| legacy::is_legacy(call, *first));
    Ok(is_legacy.then_some(handles))
}

// spec: MF-083
pub(crate) fn wait_from_gpu(
    call: &Call,
    args: &WaitForSynchronizationObjectFromGpu,
) -> Result<(), Status> {
    let context = call.library.context(args.context)?;
    // The type of the first object decides how the values are passed.
    if let Some(handles) = legacy_objects(call, args.object_handle_array, args.object_count)? {
        return legacy::wait(call, &context, &handles, args.arm[0]);
    }
    let arrays = FenceArrays {
        handles: args.object_handle_array,
        values: args.arm[0],
        count: args.object_count,
    };
    let fences = fence_values(call, &context.device, arrays, MAX_OBJECTS_WAITED_ON)?;
    context.device.kernel().wait_from_gpu(context.handle, &fences)
}

// spec: MF-085
pub(crate) fn signal_from_gpu(
    call: &Call,
    args: &SignalSynchronizationObjectFromGpu,
) -> Result<(), Status> {
    let context = call.library.context(args.context)?;
    let arrays = FenceArrays {
        handles: args.object_handle_array,
        values: args.arm[0],
        count: args.object_count,
    };
    let fences = fence_values(call, &context.device, arrays, MAX_OBJECTS_SIGNALED)?;
    context.device.kernel().signal_from_gpu(context.handle, &fences)
}

// spec: MF-086
pub(crate) fn signal_from_gpu2(
    call: &Call,
    args: &SignalSynchronizationObjectFromGpu2,
) -> Result<(), Status> {
    let count = args.broadcast_context_count;
    let contexts =
        call.caller.handles(args.broadcast_context_array, count, MAX_BROADCAST_CONTEXTS)?;
    let contexts = contexts.into_iter().map(|handle| call.library.context(handle));
    let contexts = contexts.collect::<Result<Vec<_>, Status>>()?;
    let device = &contexts.first().ok_or(Status::INVALID_PARAMETER)?.device;
    let same = |other: &Arc<Device>| other.adapter.is(&device.adapter);
    if !contexts.iter().all(|context| same(&context.device)) {
        return Err(Status::INVALID_PARAMETER);
    }
    let flags = signal_flags(args.flags)?;
    let objects = (args.object_handle_array, args.object_count);
    if flags.contains(SignalFlags::ENQUEUE_CPU_EVENT) {
        let handles = call.caller.handles(objects.0, objects.1, MAX_OBJECTS_SIGNALED)?;
        return legacy::signal(call, &contexts, &handles, flags, args.arm[0]);
    }
    if let Some(handles) = legacy_objects(call, objects.0, objects.1)? {
        return legacy::signal(call, &contexts, &handles, flags, args.arm[0]);
    }
    let arrays = FenceArrays {
        handles: args.object_handle_array,
        values: args.arm[0],
        count: args.object_count,
    };
    let fences = fence_values(call, device, arrays, MAX_OBJECTS_SIGNALED)?;
    let contexts: Vec<Handle> = contexts.iter().map(|context| context.handle).collect();
    let (contexts, fences) = (&contexts[..], &fences[..]);
    let signal = calls::SignalFromGpu2 { contexts, fences, flags, cpu_event: None };
    device.kernel().signal_from_gpu2(signal)
}
