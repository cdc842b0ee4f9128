//! Calls about keyed mutexes. They are the kernel's, on the first adapter. A caller that has to
//! wait does so for the fence of the mutex's changes, on a device of the library.

use crate::call::Call;
use crate::library::ended;
use crate::named_object::Object;
use crate::object::{Adapter, KeyedMutex};
use std::sync::Arc;
use tidegate_calls::{
    self as calls, FenceValue, Handle, KeyedMutexAcquire, MAX_KEYED_MUTEX_DATA_BYTES, ResourceName,
    Status, WaitMode, WaitNotice,
};
use tidegate_platform::CpuTime;
use tidegate_wddm_abi::d3dkmthk::{
    AcquireKeyedMutex, AcquireKeyedMutex2, CreateKeyedMutex, CreateKeyedMutex2, DestroyKeyedMutex,
    OpenKeyedMutex, OpenKeyedMutex2, OpenKeyedMutexFromNtHandle, ReleaseKeyedMutex,
    ReleaseKeyedMutex2,
};

/// NtSecuritySharing of D3DKMT_CREATEKEYEDMUTEX2_FLAGS.
const NT_SECURITY_SHARING: u32 = 1;
/// Nanoseconds of the unit of a timeout.
const TIMEOUT_UNIT_NS: u64 = 100;

/// Reads data of the runtime. NULL has no bytes.
fn data(call: &Call, address: u64, bytes: u32) -> Result<Vec<u8>, Status> {
    call.caller.numbers(address, bytes, MAX_KEYED_MUTEX_DATA_BYTES)
}

/// Gives a mutex of the kernel its handle.
fn enter(call: &Call, adapter: &Arc<Adapter>, handle: Handle) -> Result<u32, Status> {
    let end = || {
        let _ended = adapter.kernel.destroy_keyed_mutex(handle);
    };
    let own = call.library.own_devices.on(&call.library.platform, adapter);
    let device = own.inspect_err(|_| end())?;
    let opened = adapter.kernel.open_keyed_mutex_changes(device.handle, handle);
    let changes = opened.inspect_err(|_| end())?;
    let mutex = Arc::new(KeyedMutex { device, handle, changes });
    let entered = call.library.insert(Object::KeyedMutex(mutex.clone()), || mutex.end());
    Ok(entered?.0)
}

fn create(
    call: &Call,
    initial_key: u64,
    data: Vec<u8>,
    nt_security_sharing: bool,
) -> Result<(u32, u32), Status> {
    let adapters = call.library.adapters()?;
    let adapter = adapters.first().ok_or(Status::NOT_SUPPORTED)?;
    let device = call.library.own_devices.on(&call.library.platform, adapter)?;
    let device = device.handle;
    let args = calls::CreateKeyedMutex { device, initial_key, data, nt_security_sharing };
    let made = adapter.kernel.create_keyed_mutex(args)?;
    Ok((enter(call, adapter, made.handle)?, made.shared_handle))
}

pub(crate) fn create_keyed_mutex(call: &Call, args: &mut CreateKeyedMutex) -> Result<(), Status> {
    let (mutex, shared) = create(call, args.initial_value, Vec::new(), false)?;
    (args.keyed_mutex, args.shared_handle) = (mutex, shared);
    Ok(())
}

pub(crate) fn create_keyed_mutex2(call: &Call, args: &mut CreateKeyedMutex2) -> Result<(), Status> {
    if args.flags & !NT_SECURITY_SHARING != 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    let data = data(call, args.private_runtime_data, args.private_runtime_data_size)?;
    let nt_security_sharing = args.flags == NT_SECURITY_SHARING;
    let (mutex, shared) = create(call, args.initial_value, data, nt_security_sharing)?;
    (args.keyed_mutex, args.shared_handle) = (mutex, shared);
    Ok(())
}

/// Opens a mutex. An opener states no bytes of data, or those of the creator, if there are any: a
/// rule of Windows, which writes none (Wine's dlls/win32u/tests/d3dkmt.c).
pub(crate) fn open(
    call: &Call,
    name: ResourceName<'_>,
    (address, bytes): (u64, u32),
) -> Result<u32, Status> {
    let adapters = call.library.adapters()?;
    let adapter = adapters.first().ok_or(Status::INVALID_PARAMETER)?;
    let opened = adapter.kernel.open_keyed_mutex(name)?;
    let differs = opened.data_bytes != 0 && bytes != opened.data_bytes;
    if bytes != 0 && (address == 0 || differs) {
        let _ended = adapter.kernel.destroy_keyed_mutex(opened.handle);
        return Err(Status::INVALID_PARAMETER);
    }
    enter(call, adapter, opened.handle)
}

pub(crate) fn open_keyed_mutex(call: &Call, args: &mut OpenKeyedMutex) -> Result<(), Status> {
    args.keyed_mutex = open(call, ResourceName::Shared(args.shared_handle), (0, 0))?;
    Ok(())
}

pub(crate) fn open_keyed_mutex2(call: &Call, args: &mut OpenKeyedMutex2) -> Result<(), Status> {
    let data = (args.private_runtime_data, args.private_runtime_data_size);
    args.keyed_mutex = open(call, ResourceName::Shared(args.shared_handle), data)?;
    Ok(())
}

pub(crate) fn open_keyed_mutex_from_nt_handle(
    call: &Call,
    args: &mut OpenKeyedMutexFromNtHandle,
) -> Result<(), Status> {
    let handle = call.library.nt_handles.import(&call.caller, args.nt_handle)?;
    let data = (args.private_runtime_data, args.private_runtime_data_size);
    args.keyed_mutex = open(call, ResourceName::NtHandle(&handle), data)?;
    Ok(())
}

pub(crate) fn destroy_keyed_mutex(call: &Call, args: &DestroyKeyedMutex) -> Result<(), Status> {
    let mutex = call.library.keyed_mutex(args.keyed_mutex)?;
    ended(mutex.kernel().destroy_keyed_mutex(mutex.handle))?;
    // Its waiters find that the mutex has ended.
    let _ended = mutex.kernel().destroy_synchronization_object(mutex.changes.handle);
    call.library.remove(args.keyed_mutex);
    Ok(())
}

/// How long an acquire may wait.
enum Limit {
    None,
    Until(CpuTime),
}

/// Reads the timeout of an acquire: a time from now in units of 100 ns, below 0.
///
/// # Errors
/// NOT_SUPPORTED for a time of the clock.
fn limit(call: &Call, address: u64) -> Result<Limit, Status> {
    if address == 0 {
        return Ok(Limit::None);
    }
    let timeout = call.caller.numbers::<u64>(address, 1, 1)?[0].cast_signed();
    if timeout > 0 {
        return Err(Status::NOT_SUPPORTED);
    }
    let ns = timeout.unsigned_abs().saturating_mul(TIMEOUT_UNIT_NS);
    Ok(Limit::Until(call.library.platform.now().after(ns)))
}

/// Waits until the mutex has changed. Returns whether it has.
fn wait(call: &Call, mutex: &KeyedMutex, change: u64, limit: &Limit) -> Result<bool, Status> {
    let fences = [FenceValue { fence: mutex.changes.handle, value: change }];
    let deadline = match limit {
        Limit::None => {
            mutex.kernel().wait_from_cpu(&fences, WaitMode::All, None)?;
            return Ok(true);
        }
        Limit::Until(deadline) => *deadline,
    };
    let platform = &call.library.platform;
    if platform.now() >= deadline {
        return Ok(false);
    }
    let event = platform.event(false);
    let notice = WaitNotice::Event(event.clone());
    let wait = mutex.kernel().register_cpu_wait(&fences, WaitMode::All, notice)?;
    event.wait_for(Some(deadline), "keyed mutex");
    Ok(wait.is_over())
}

fn acquire(
    call: &Call,
    mutex: u32,
    key: u64,
    timeout: u64,
) -> Result<(Status, u64, Vec<u8>), Status> {
    let mutex = call.library.keyed_mutex(mutex)?;
    let limit = limit(call, timeout)?;
    loop {
        match mutex.kernel().acquire_keyed_mutex(mutex.handle, key)? {
            KeyedMutexAcquire::Acquired { fence_value, data } => {
                return Ok((Status::SUCCESS, fence_value, data));
            }
            KeyedMutexAcquire::Abandoned => return Ok((Status::ABANDONED, 0, Vec::new())),
            KeyedMutexAcquire::Held { change } => {
                if !wait(call, &mutex, change, &limit)? {
                    return Ok((Status::TIMEOUT, 0, Vec::new()));
                }
            }
        }
    }
}

pub(crate) fn acquire_keyed_mutex(
    call: &Call,
    args: &mut AcquireKeyedMutex,
) -> Result<Status, Status> {
    let (status, value, _) = acquire(call, args.keyed_mutex, args.key, args.timeout)?;
    if status == Status::SUCCESS {
        args.fence_value = value;
    }
    Ok(status)
}

pub(crate) fn acquire_keyed_mutex2(
    call: &Call,
    args: &mut AcquireKeyedMutex2,
) -> Result<Status, Status> {
    let room = args.private_runtime_data_size as usize;
    // The buffer is checked before the mutex is acquired.
    let buffer = data(call, args.private_runtime_data, args.private_runtime_data_size)?;
    drop(buffer);
    let (status, value, data) = acquire(call, args.keyed_mutex, args.key, args.timeout)?;
    if status == Status::SUCCESS {
        args.fence_value = value;
        let passed = data.len().min(room);
        call.caller.write_numbers(args.private_runtime_data, &data[..passed])?;
    }
    Ok(status)
}

fn release(
    call: &Call,
    mutex: u32,
    (key, fence_value): (u64, u64),
    data: Option<&[u8]>,
) -> Result<(), Status> {
    let mutex = call.library.keyed_mutex(mutex)?;
    mutex.kernel().release_keyed_mutex(calls::ReleaseKeyedMutex {
        mutex: mutex.handle,
        key,
        fence_value,
        replaces_data: data.is_some(),
        data: data.unwrap_or(&[]),
    })
}

pub(crate) fn release_keyed_mutex(call: &Call, args: &ReleaseKeyedMutex) -> Result<(), Status> {
    release(call, args.keyed_mutex, (args.key, args.fence_value), None)
}

pub(crate) fn release_keyed_mutex2(call: &Call, args: &ReleaseKeyedMutex2) -> Result<(), Status> {
    let data = data(call, args.private_runtime_data, args.private_runtime_data_size)?;
    let replaces = args.private_runtime_data_size != 0;
    let data = replaces.then_some(&data[..]);
    release(call, args.keyed_mutex, (args.key, args.fence_value), data)
}
