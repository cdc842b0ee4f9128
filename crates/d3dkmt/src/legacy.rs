//! Calls about mutexes, semaphores, fences of WDDM 1.x and CPU notifications.

use crate::call::Call;
use crate::event;
use crate::internal_fence::{InternalFence, notify_when_reached};
use crate::legacy_object::{Arrival, Kind, Legacy, LegacyObject, Release};
use crate::named_object::Object;
use crate::object::{Context, Device};
use std::sync::Arc;
use tidegate_calls::{
    FenceValue, Handle, NtHandle, SignalFlags, SignalFromGpu2, Status, SyncObjectFlags, WaitNotice,
};
use tidegate_wddm_abi::d3dkmthk::{
    CreateSynchronizationObject, OpenSynchronizationObject, SignalSynchronizationObject,
    SignalSynchronizationObject2, WaitForSynchronizationObject, WaitForSynchronizationObject2,
};
use tidegate_wddm_abi::d3dukmdt::{
    MAX_BROADCAST_CONTEXTS, MAX_OBJECTS_WAITED_ON, SynchronizationObjectType as Type,
};

/// Gives an object another instance.
pub(crate) fn enter(
    call: &Call,
    object: Arc<LegacyObject>,
    device: Option<Arc<Device>>,
    flags: SyncObjectFlags,
) -> Result<Handle, Status> {
    if flags.contains(SyncObjectFlags::NO_SIGNAL | SyncObjectFlags::NO_WAIT) {
        return Err(Status::INVALID_PARAMETER);
    }
    let instance = Arc::new(Legacy::new(object, device, flags));
    call.library.insert(Object::Legacy(instance), || {})
}

/// Makes an object of one of the older types. Returns its handle and its global handle.
pub(crate) fn create(
    call: &Call,
    device: Arc<Device>,
    kind: Type,
    flags: SyncObjectFlags,
    arm: u64,
) -> Result<(Handle, u32), Status> {
    let objects = &call.library.legacy;
    let (low, high) = (arm as u32, (arm >> 32) as u32);
    let kind = match kind {
        // A mutex that is owned at birth cannot be acquired before it is signalled.
        Type::SynchronizationMutex => objects.counted(u32::from(low == 0), 1),
        Type::Semaphore if low == 0 || high > low => return Err(Status::INVALID_PARAMETER),
        Type::Semaphore => objects.counted(high, low),
        Type::Fence => Kind::Fence(InternalFence::new(&device, arm)?),
        Type::CpuNotification if arm == 0 => return Err(Status::INVALID_HANDLE),
        Type::CpuNotification if flags.contains(SyncObjectFlags::SHARED) => {
            return Err(Status::INVALID_PARAMETER);
        }
        Type::CpuNotification => Kind::Notification(event::lasting(&call.caller, arm)?),
        _ => return Err(Status::INVALID_PARAMETER),
    };
    let object = objects.make(kind, flags)?;
    let shared = object.shared_handle();
    Ok((enter(call, object, Some(device), flags)?, shared))
}

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
    let object = call.library.legacy.find(args.shared_handle).ok_or(Status::INVALID_PARAMETER)?;
    args.sync_object = enter(call, object, None, SyncObjectFlags::empty())?.0;
    Ok(())
}

/// What an NT handle of such an object holds.
struct SharedLegacy(Arc<LegacyObject>);

/// Makes an NT handle of an instance.
pub(crate) fn share(instance: &Legacy) -> Result<NtHandle, Status> {
    match instance.object.is_nt_shared {
        true => Ok(NtHandle::new(SharedLegacy(instance.object.clone()))),
        false => Err(Status::INVALID_PARAMETER),
    }
}

/// Returns the object of an NT handle, if it is of an older type.
pub(crate) fn shared(handle: &NtHandle) -> Option<Arc<LegacyObject>> {
    handle.object::<SharedLegacy>().map(|shared| shared.0.clone())
}

/// Returns whether a handle names an object of an older type.
pub(crate) fn is_legacy(call: &Call, handle: Handle) -> bool {
    matches!(call.library.object(handle.0), Ok(Object::Legacy(_)))
}

/// Resolves instances of which none has the flag `refused`.
fn instances(
    call: &Call,
    handles: &[Handle],
    device: &Device,
    refused: SyncObjectFlags,
) -> Result<Vec<Arc<Legacy>>, Status> {
    let resolve = |handle: &Handle| match call.library.object(handle.0)? {
        Object::Legacy(instance) if instance.flags.contains(refused) => Err(Status::ACCESS_DENIED),
        Object::Legacy(instance) => match &instance.object.kind {
            Kind::Fence(fence) if fence.device().adapter.index != device.adapter.index => {
                Err(Status::INVALID_PARAMETER)
            }
            _ => Ok(instance),
        },
        _ => Err(Status::INVALID_PARAMETER),
    };
    if handles.is_empty() || handles.len() > MAX_OBJECTS_WAITED_ON {
        return Err(Status::INVALID_PARAMETER);
    }
    handles.iter().map(resolve).collect()
}

/// Queues a wait of a context for all of these objects; `value` is that of fences.
pub(crate) fn wait(
    call: &Call,
    context: &Arc<Context>,
    handles: &[Handle],
    value: u64,
) -> Result<(), Status> {
    let device = &context.device;
    let instances = instances(call, handles, device, SyncObjectFlags::NO_WAIT)?;
    if instances.iter().any(|i| matches!(i.object.kind, Kind::Notification(_))) {
        return Err(Status::INVALID_PARAMETER);
    }
    let platform = &call.library.platform;
    let _order = context.order.lock_device();
    for instance in instances {
        let wait = |fences: &[FenceValue]| device.kernel().wait_from_gpu(context.handle, fences);
        if let Kind::Fence(fence) = &instance.object.kind {
            wait(&[fence.at(value)])?;
            continue;
        }
        let grant = Arc::new(InternalFence::new(device, 0)?);
        let arrival = Arrival::new(platform, &instance.object, context, grant.clone());
        let notice = WaitNotice::Callback(Arc::new(arrival));
        notify_when_reached(device, &[context.handle], SignalFlags::empty(), notice)?;
        wait(&[grant.at(1)])?;
    }
    Ok(())
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
    let numbers: Vec<Handle> = contexts.iter().map(|context| context.handle).collect();
    let rest = flags.difference(SignalFlags::ENQUEUE_CPU_EVENT);
    let when_reached = |notice| notify_when_reached(device, &numbers, rest, notice);
    if flags.contains(SignalFlags::ENQUEUE_CPU_EVENT) {
        if !handles.is_empty() {
            return Err(Status::INVALID_PARAMETER);
        }
        return when_reached(event::notice(&call.library.platform, &call.caller, value)?);
    }
    for instance in instances(call, handles, device, SyncObjectFlags::NO_SIGNAL)? {
        match &instance.object.kind {
            Kind::Fence(fence) => {
                let (contexts, fences) = (&numbers[..], &[fence.at(value)][..]);
                let signal = SignalFromGpu2 { contexts, fences, flags, cpu_event: None };
                device.kernel().signal_from_gpu2(signal)?;
            }
            Kind::Counted(_) => {
                let (object, device) = (instance.object.clone(), device.clone());
                let release = Release { object, device };
                when_reached(WaitNotice::Callback(Arc::new(release)))?;
            }
            Kind::Notification(event) => when_reached(WaitNotice::Callback(event.clone()))?,
        }
    }
    Ok(())
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
    let adapter = contexts[0].device.adapter.index;
    if contexts.iter().any(|context| context.device.adapter.index != adapter) {
        return Err(Status::INVALID_PARAMETER);
    }
    let handles = listed(&args.objects, args.object_count)?;
    signal(call, &contexts, &handles, flags_of(args.flags)?, args.arm[0])
}
