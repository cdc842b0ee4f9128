//! Sharing of fences and resources: NT handles as file descriptors, their names, and opening them.

use crate::call::Call;
use crate::caller::Caller;
use crate::legacy;
use crate::library::Library;
use crate::named_object::Object;
use crate::object::Adapter;
use crate::sync::{enter_fence, mapping, value_address};
use std::sync::Arc;
use tidegate_calls::{
    Handle, Kernel, NtHandle, OpenSyncObject, Status, SyncObjectAccess, SyncObjectFlags,
};
use tidegate_wddm_abi::d3dkmthk::{
    ObjectAttributes, OpenNativeFenceFromNtHandle, OpenNtHandleFromName,
    OpenSyncObjectFromNtHandle, OpenSyncObjectFromNtHandle2, OpenSyncObjectNtHandleFromName,
    UnicodeString,
};
use tidegate_wddm_abi::d3dukmdt::{MAX_OBJECTS_PER_HANDLE, SyncObjectAccess as Rights};

/// Most bytes of a name.
const MOST_NAME_BYTES: u16 = 4 * 260;
const GENERIC_ALL: u32 = 0x1000_0000;
const GENERIC_EXECUTE: u32 = 0x2000_0000;
const GENERIC_WRITE: u32 = 0x4000_0000;
const GENERIC_READ: u32 = 0x8000_0000;
/// Where programs of Windows put names.
const NAMED_OBJECTS: &str = "\\BaseNamedObjects\\";

/// The rights of a mask: those of fences, the standard rights and the generic ones. GENERIC_READ
/// grants waits, GENERIC_WRITE signals, GENERIC_EXECUTE the standard rights. Only the kernel
/// refuses a mask of no rights.
fn rights(mask: u32) -> Result<SyncObjectAccess, Status> {
    let generic = mask & (GENERIC_ALL | GENERIC_EXECUTE | GENERIC_WRITE | GENERIC_READ);
    let specific = Rights::from_bits(mask - generic).ok_or(Status::INVALID_PARAMETER)?;
    let has = |bits: u32| mask & (bits | GENERIC_ALL) != 0;
    let standard = (Rights::STANDARD_RIGHTS | Rights::SYNCHRONIZE).bits();
    let mut rights = SyncObjectAccess::empty();
    rights.set(SyncObjectAccess::WAIT, specific.contains(Rights::WAIT) || has(GENERIC_READ));
    rights.set(SyncObjectAccess::SIGNAL, specific.contains(Rights::SIGNAL) || has(GENERIC_WRITE));
    rights.set(SyncObjectAccess::STANDARD, generic != 0 || has(standard));
    Ok(rights)
}

/// The name in the attributes of an object.
fn name(caller: &Caller, attributes: u64) -> Result<Option<String>, Status> {
    if attributes == 0 {
        return Ok(None);
    }
    let attributes: ObjectAttributes = caller.read(attributes)?;
    if attributes.object_name == 0 {
        return Ok(None);
    }
    let text: UnicodeString = caller.read(attributes.object_name)?;
    if text.length > MOST_NAME_BYTES || !text.length.is_multiple_of(4) {
        return Err(Status::OBJECT_NAME_INVALID);
    }
    let count = u32::from(text.length / 4);
    let wide = caller.numbers::<u32>(text.buffer, count, count as usize)?;
    let name: Option<String> = wide.into_iter().map(char::from_u32).collect();
    let name = name.ok_or(Status::OBJECT_NAME_INVALID)?;
    let folder = name.get(..NAMED_OBJECTS.len());
    let is_there = folder.is_some_and(|folder| folder.eq_ignore_ascii_case(NAMED_OBJECTS));
    Ok(Some(if is_there { name[NAMED_OBJECTS.len()..].to_owned() } else { name }))
}

/// Returns the kernel's handle of an object that can be shared, and its adapter.
fn in_kernel(object: &Object) -> Result<(Arc<Adapter>, Handle), Status> {
    let (adapter, handle) = match object {
        Object::Fence(fence) => (&fence.device.adapter, Some(fence.handle)),
        Object::Legacy(instance) => (&instance.adapter, instance.handle()),
        Object::Resource(resource) => (&resource.device.adapter, resource.shared),
        Object::KeyedMutex(mutex) => (&mutex.device.adapter, Some(mutex.handle)),
        _ => return Err(Status::INVALID_PARAMETER),
    };
    Ok((adapter.clone(), handle.ok_or(Status::INVALID_PARAMETER)?))
}

// spec: MF-087
pub(crate) fn share_objects(
    call: &Call,
    objects: (u64, u32),
    attributes: u64,
    access: u32,
    handle_out: u64,
) -> Result<(), Status> {
    let (handles, count) = objects;
    if count == 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    let handles = call.caller.handles(handles, count, MAX_OBJECTS_PER_HANDLE)?;
    // Checks the address before anything is shared.
    call.caller.numbers::<u64>(handle_out, 1, 1)?;
    let objects = handles.iter().map(|handle| call.library.object(handle.0));
    let objects: Vec<Object> = objects.collect::<Result<_, Status>>()?;
    // A keyed mutex is shared only between a resource and an object for waits.
    let parts = match &objects[..] {
        [Object::KeyedMutex(_)] => return Err(Status::INVALID_PARAMETER),
        [one] => vec![in_kernel(one)?],
        [
            resource @ Object::Resource(_),
            mutex @ Object::KeyedMutex(_),
            object @ Object::Legacy(_),
        ] => vec![in_kernel(resource)?, in_kernel(mutex)?, in_kernel(object)?],
        _ => return Err(Status::INVALID_PARAMETER),
    };
    let adapter = parts[0].0.clone();
    if !parts.iter().all(|(other, _)| other.is(&adapter)) {
        return Err(Status::INVALID_PARAMETER);
    }
    let parts: Vec<Handle> = parts.into_iter().map(|(_, handle)| handle).collect();
    let name = name(&call.caller, attributes)?;
    if name.is_some() {
        // A name is free once all handles of its object are closed.
        call.library.nt_handles.collect();
    }
    let access = rights(access)?;
    let shared = adapter.kernel.share_objects(&parts, access, name.as_deref())?;
    let handle = call.library.nt_handles.export(shared)?;
    call.caller.write_numbers(handle_out, &[handle])
}

/// Opens an object by its name, on any adapter.
fn open_name(
    call: &Call,
    attributes: u64,
    open: impl FnOnce(&dyn Kernel, &str) -> Result<NtHandle, Status>,
) -> Result<u64, Status> {
    let name = name(&call.caller, attributes)?.ok_or(Status::INVALID_PARAMETER)?;
    call.library.nt_handles.collect();
    let adapters = call.library.adapters()?;
    let adapter = adapters.first().ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
    call.library.nt_handles.export(open(&*adapter.kernel, &name)?)
}

pub(crate) fn open_sync_object_nt_handle_from_name(
    call: &Call,
    args: &mut OpenSyncObjectNtHandleFromName,
) -> Result<(), Status> {
    let access = rights(args.access)?;
    args.nt_handle = open_name(call, args.attributes, |kernel, name| {
        kernel.open_sync_object_nt_handle_from_name(name, access)
    })?;
    Ok(())
}

pub(crate) fn open_nt_handle_from_name(
    call: &Call,
    args: &mut OpenNtHandleFromName,
) -> Result<(), Status> {
    let access = rights(args.access)?;
    args.nt_handle = open_name(call, args.attributes, |kernel, name| {
        kernel.open_nt_handle_from_name(name, access)
    })?;
    Ok(())
}

// spec: MF-081
pub(crate) fn open_sync_object_from_nt_handle2(
    call: &Call,
    args: &mut OpenSyncObjectFromNtHandle2,
) -> Result<(), Status> {
    let device = call.library.device(args.device)?;
    let object = call.library.nt_handles.import(&call.caller, args.nt_handle)?;
    let flags = SyncObjectFlags::from_caller(args.flags)?;
    let opened = device.kernel().open_sync_object_from_nt_handle(OpenSyncObject {
        device: device.handle,
        nt_handle: &object,
        flags,
        engine_affinity: args.arm[2] as u32,
    });
    let fence = match opened {
        Err(Status::OBJECT_TYPE_MISMATCH) => {
            args.sync_object = legacy::open(call, Some(&device), &object, flags)?.0;
            return Ok(());
        }
        opened => opened?,
    };
    args.sync_object = enter_fence(call, &device, &fence, true)?.0;
    (args.arm[0], args.arm[1]) = (value_address(&fence), fence.current_value_gpu_va);
    Ok(())
}

pub(crate) fn open_sync_object_from_nt_handle(
    call: &Call,
    args: &mut OpenSyncObjectFromNtHandle,
) -> Result<(), Status> {
    let object = call.library.nt_handles.import(&call.caller, args.nt_handle)?;
    // The call names no device, and a monitored or native fence needs one.
    let opened = legacy::open(call, None, &object, SyncObjectFlags::empty());
    let opened = opened.map_err(|status| match status {
        Status::OBJECT_TYPE_MISMATCH => Status::NOT_SUPPORTED,
        status => status,
    });
    args.sync_object = opened?.0;
    Ok(())
}

// spec: NF-097
pub(crate) fn open_native_fence_from_nt_handle(
    call: &Call,
    args: &mut OpenNativeFenceFromNtHandle,
) -> Result<(), Status> {
    let library: &Library = call.library;
    let device = library.device(args.device)?;
    let object = library.nt_handles.import(&call.caller, args.nt_handle)?;
    let fence = device.kernel().open_native_fence_from_nt_handle(OpenSyncObject {
        device: device.handle,
        nt_handle: &object,
        flags: SyncObjectFlags::from_caller(args.flags)?,
        engine_affinity: args.engine_affinity,
    })?;
    args.sync_object = enter_fence(call, &device, &fence, true)?.0;
    args.mapping = mapping(&fence);
    args.private_driver_data = fence.private_data;
    Ok(())
}
