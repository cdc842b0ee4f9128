//! Calls about mutexes, semaphores and fences of WDDM 1.x, which are the kernel's, and CPU
//! notifications, which are eventfds of this process that contexts set.

use crate::call::Call;
use crate::event;
use crate::library::ended;
use crate::named_object::Object;
use crate::object::{Adapter, Context, Device, Legacy, LegacyObject};
use std::sync::Arc;
use tidegate_calls::{
    self as calls, Handle, NtHandle, OlderObject, OpenSynchronizationObject as Open, SignalFlags,
    SignalFromGpu2, Status, SyncObjectFlags, WaitNotice,
};
use tidegate_wddm_abi::d3dkmthk::{
    CreateSynchronizationObject, OpenSynchronizationObject, SignalSynchronizationObject,
    SignalSynchronizationObject2, WaitForSynchronizationObject, WaitForSynchronizationObject2,
};
use tidegate_wddm_abi::d3dukmdt::{
    MAX_BROADCAST_CONTEXTS, MAX_OBJECTS_WAITED_ON, SynchronizationObjectType as Type,
};

/// Gives an instance its handle.
fn enter(
    call: &Call,
    adapter: &Arc<Adapter>,
    device: Option<&Arc<Device>>,
    object: LegacyObject,
) -> Result<Handle, Status> {
    let legacy = Legacy { adapter: adapter.clone(), device: device.cloned(), object };
    let legacy = Arc::new(legacy);
    call.library.insert(Object::Legacy(legacy.clone()), || {
        if let Some(handle) = legacy.handle() {
            let _ended = adapter.kernel.destroy_synchronization_object(handle);
        }
    })
}

/// Makes an object of one of the older types. Returns its handle and its global handle.
pub(crate) fn create(
    call: &Call,
    device: Arc<Device>,
    kind: Type,
    flags: SyncObjectFlags,
    arm: u64,
) -> Result<(Handle, u32), Status> {
    let adapter = &device.adapter;
    let (low, high) = (arm as u32, (arm >> 32) as u32);
    let object = match kind {
        Type::SynchronizationMutex => OlderObject::Mutex { owned: low != 0 },
        Type::Semaphore => OlderObject::Semaphore { max_count: low, initial_count: high },
        Type::Fence => OlderObject::Fence { initial_value: arm },
        Type::CpuNotification if arm == 0 => return Err(Status::INVALID_HANDLE),
        Type::CpuNotification if flags.intersects(NOT_OF_NOTIFICATIONS) => {
            return Err(Status::INVALID_PARAMETER);
        }
        Type::CpuNotification if flags.contains(SyncObjectFlags::TOP_OF_PIPELINE) => {
            return Err(Status::NOT_SUPPORTED);
        }
        Type::CpuNotification => {
            let event = LegacyObject::Notification(event::lasting(&call.caller, arm)?);
            return Ok((enter(call, adapter, Some(&device), event)?, 0));
        }
        _ => return Err(Status::INVALID_PARAMETER),
    };
    let args = calls::CreateSynchronizationObject { device: device.handle, object, flags };
    let made = adapter.kernel.create_synchronization_object(args)?;
    let object = LegacyObject::OfKernel(made.handle);
    Ok((enter(call, adapter, Some(&device), object)?, made.shared_handle))
}

/// Flags that no CPU notification has: it is of one process, and contexts signal it.
const NOT_OF_NOTIFICATIONS: SyncObjectFlags = SyncObjectFlags::SHARED
    .union(SyncObjectFlags::NT_SECURITY_SHARING)
    .union(SyncObjectFlags::CROSS_ADAPTER)
    .union(SyncObjectFlags::NO_SIGNAL);

pub(crate) fn create_synchronization_object(
    call: &Call,
    args: &mut CreateSynchronizationObject,
) -> Result<(), Status> {
    let device = call.library.device(args.device)?;
    let kinds = [Type::SynchronizationMutex, Type::Semaphore];
    let kind = kinds.into_iter().find(|kind| *kind as u32 == args.info.object_type);
    let arm = u64::from(args.info.arm[0]) | u64::from(args.info.arm[1]) << 32;
    let kind = kind.ok_or(Status::INVALID_PARAMETER)?;
    args.sync_object = create(call, device, kind, SyncObjectFlags::empty(), arm)?.0.0;
    Ok(())
}

pub(crate) fn open_synchronization_object(
    call: &Call,
    args: &mut OpenSynchronizationObject,
) -> Result<(), Status> {
    // The call names no adapter, and each object is of one.
    let open = |adapter: &Arc<Adapter>| {
        let opened = adapter.kernel.open_synchronization_object(Open::Shared(args.shared_handle));
        match opened {
            Err(Status::INVALID_PARAMETER) => None,
            opened => Some(opened.map(|handle| (adapter.clone(), handle))),
        }
    };
    let opened = call.library.adapters()?.iter().find_map(open);
    let (adapter, handle) = opened.ok_or(Status::INVALID_PARAMETER)??;
    args.sync_object = enter(call, &adapter, None, LegacyObject::OfKernel(handle))?.0;
    Ok(())
}

/// Opens an object by NT handle, on a device or without one.
///
/// # Errors
/// OBJECT_TYPE_MISMATCH for an NT handle of anything else.
pub(crate) fn open(
    call: &Call,
    device: Option<&Arc<Device>>,
    nt_handle: &NtHandle,
    flags: SyncObjectFlags,
) -> Result<Handle, Status> {
    let args = Open::NtHandle { nt_handle, device: device.map(|device| device.handle), flags };
    let adapters = match device {
        Some(device) => Arc::from([device.adapter.clone()]),
        None => call.library.adapters()?,
    };
    let mut refusal = Status::INVALID_HANDLE;
    for adapter in adapters.iter() {
        match adapter.kernel.open_synchronization_object(args) {
            Ok(handle) => return enter(call, adapter, device, LegacyObject::OfKernel(handle)),
            // It is of another adapter.
            Err(status) => refusal = status,
        }
    }
    Err(refusal)
}

pub(crate) fn destroy(call: &Call, handle: u32) -> Result<(), Status> {
    let Object::Legacy(instance) = call.library.object(handle)? else {
        return Err(Status::INVALID_PARAMETER);
    };
    if let Some(object) = instance.handle() {
        ended(instance.adapter.kernel.destroy_synchronization_object(object))?;
    }
    call.library.remove(handle).map(drop).ok_or(Status::INVALID_PARAMETER)
}

/// Returns whether a handle names an object of an older type.
pub(crate) fn is_legacy(call: &Call, handle: Handle) -> bool {
    matches!(call.library.object(handle.0), Ok(Object::Legacy(_)))
}

/// Resolves the 1 to 32 instances of a wait or signal, all of the device's adapter.
fn instances(call: &Call, handles: &[Handle], device: &Device) -> Result<Vec<Arc<Legacy>>, Status> {
    let resolve = |handle: &Handle| match call.library.object(handle.0)? {
        Object::Legacy(instance) if instance.adapter.is(&device.adapter) => Ok(instance),
        _ => Err(Status::INVALID_PARAMETER),
    };
    if handles.is_empty() || handles.len() > MAX_OBJECTS_WAITED_ON {
        return Err(Status::INVALID_PARAMETER);
    }
    handles.iter().map(resolve).collect()
}

/// Queues a wait of a context for all of these objects; `value` is for fences.
pub(crate) fn wait(
    call: &Call,
    context: &Arc<Context>,
    handles: &[Handle],
    value: u64,
) -> Result<(), Status> {
    let device = &context.device;
    let objects = instances(call, handles, device)?;
    let objects: Option<Vec<Handle>> = objects.iter().map(|object| object.handle()).collect();
    // Nothing waits for a CPU notification.
    let objects = objects.ok_or(Status::INVALID_PARAMETER)?;
    device.kernel().wait_for_synchronization_objects(context.handle, &objects, value)
}

/// Queues signals of contexts of one device: of these objects, or of an event of the caller.
pub(crate) fn signal(
    call: &Call,
    contexts: &[Arc<Context>],
    handles: &[Handle],
    flags: SignalFlags,
    value: u64,
) -> Result<(), Status> {
    let device = &contexts.first().ok_or(Status::INVALID_PARAMETER)?.device;
    let contexts: Vec<Handle> = contexts.iter().map(|context| context.handle).collect();
    let set = |event: WaitNotice| {
        device.kernel().signal_from_gpu2(SignalFromGpu2 {
            contexts: &contexts,
            fences: &[],
            flags: flags | SignalFlags::ENQUEUE_CPU_EVENT,
            cpu_event: Some(event),
        })
    };
    if flags.contains(SignalFlags::ENQUEUE_CPU_EVENT) {
        if !handles.is_empty() {
            return Err(Status::INVALID_PARAMETER);
        }
        return set(event::notice(&call.library.platform, &call.caller, value)?);
    }
    let instances = instances(call, handles, device)?;
    let objects: Vec<Handle> = instances.iter().filter_map(|object| object.handle()).collect();
    if !objects.is_empty() {
        let kernel = device.kernel();
        kernel.signal_synchronization_objects(&contexts, &objects, flags, value)?;
    }
    instances.iter().try_for_each(|instance| match &instance.object {
        LegacyObject::OfKernel(_) => Ok(()),
        LegacyObject::Notification(event) => set(WaitNotice::Callback(event.clone())),
    })
}

/// The handles of an array in a structure.
fn listed(array: &[u32], count: u32) -> Result<Vec<Handle>, Status> {
    let listed = array.get(..count as usize).ok_or(Status::INVALID_PARAMETER)?;
    Ok(listed.iter().copied().map(Handle).collect())
}

pub(crate) fn wait_for_synchronization_object(
    call: &Call,
    args: &WaitForSynchronizationObject,
) -> Result<(), Status> {
    let context = call.library.context(args.context)?;
    wait(call, &context, &listed(&args.objects, args.object_count)?, 0)
}

pub(crate) fn wait_for_synchronization_object2(
    call: &Call,
    args: &WaitForSynchronizationObject2,
) -> Result<(), Status> {
    let context = call.library.context(args.context)?;
    wait(call, &context, &listed(&args.objects, args.object_count)?, args.arm[0])
}

fn flags_of(bits: u32) -> Result<SignalFlags, Status> {
    SignalFlags::from_bits(bits).ok_or(Status::INVALID_PARAMETER)
}

pub(crate) fn signal_synchronization_object(
    call: &Call,
    args: &SignalSynchronizationObject,
) -> Result<(), Status> {
    let context = call.library.context(args.context)?;
    let handles = listed(&args.objects, args.object_count)?;
    let flags = flags_of(args.flags)?;
    if flags.contains(SignalFlags::ENQUEUE_CPU_EVENT) {
        return Err(Status::INVALID_PARAMETER);
    }
    signal(call, &[context], &handles, flags, 0)
}

pub(crate) fn signal_synchronization_object2(
    call: &Call,
    args: &SignalSynchronizationObject2,
) -> Result<(), Status> {
    let mut contexts = vec![Handle(args.context)];
    contexts.extend(listed(&args.broadcast_contexts, args.broadcast_context_count)?);
    if contexts.len() > MAX_BROADCAST_CONTEXTS {
        return Err(Status::INVALID_PARAMETER);
    }
    let contexts = contexts.into_iter().map(|handle| call.library.context(handle));
    let contexts = contexts.collect::<Result<Vec<_>, Status>>()?;
    let adapter = &contexts[0].device.adapter;
    if !contexts.iter().all(|context| context.device.adapter.is(adapter)) {
        return Err(Status::INVALID_PARAMETER);
    }
    let handles = listed(&args.objects, args.object_count)?;
    signal(call, &contexts, &handles, flags_of(args.flags)?, args.arm[0])
}
