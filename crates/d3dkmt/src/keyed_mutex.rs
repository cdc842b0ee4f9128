//! Calls about keyed mutexes. They are the kernel's, on the first adapter. A caller that has to
//! wait does so for the fence of the mutex's changes, on a device of the library.

use crate::call::Call;
use crate::library::ended;
use crate::named_object::Object;
use crate::object::{Adapter, KeyedMutex};
use crate::timeout::{Next, Timeout};
use std::sync::Arc;
use tidegate_calls::{
    self as calls, FenceValue, Handle, KeyedMutexAcquire, MAX_KEYED_MUTEX_DATA_BYTES, ResourceName,
    Status, WaitMode, WaitNotice,
};
use tidegate_platform::{CpuTime, Platform};
use tidegate_wddm_abi::d3dkmthk::{
    AcquireKeyedMutex, AcquireKeyedMutex2, CreateKeyedMutex, CreateKeyedMutex2, DestroyKeyedMutex,
    OpenKeyedMutex, OpenKeyedMutex2, OpenKeyedMutexFromNtHandle, ReleaseKeyedMutex,
    ReleaseKeyedMutex2,
};

/// NtSecuritySharing of D3DKMT_CREATEKEYEDMUTEX2_FLAGS.
const NT_SECURITY_SHARING: u32 = 1;

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

/// Waits until the mutex has changed, or the deadline has passed.
fn wait(
    platform: &Platform,
    mutex: &KeyedMutex,
    change: u64,
    deadline: Option<CpuTime>,
) -> Result<(), Status> {
    let fences = [FenceValue { fence: mutex.changes.handle, value: change }];
    if deadline.is_none() {
        return mutex.kernel().wait_from_cpu(&fences, WaitMode::All, None);
    }
    let event = platform.event(false);
    let notice = WaitNotice::Event(event.clone());
    let _wait = mutex.kernel().register_cpu_wait(&fences, WaitMode::All, notice)?;
    event.wait_for(deadline, "keyed mutex");
    Ok(())
}

/// What an acquire returns: its status, the fence value and the data of the release.
type Acquired = (Status, u64, Vec<u8>);

/// Acquires a mutex that is released with the key within the time.
fn acquire_within(
    platform: &Platform,
    mutex: &KeyedMutex,
    key: u64,
    timeout: Timeout,
) -> Result<Acquired, Status> {
    loop {
        let change = match mutex.kernel().acquire_keyed_mutex(mutex.handle, key)? {
            KeyedMutexAcquire::Acquired { fence_value, data } => {
                return Ok((Status::SUCCESS, fence_value, data));
            }
            KeyedMutexAcquire::Abandoned => return Ok((Status::ABANDONED, 0, Vec::new())),
            KeyedMutexAcquire::Held { change } => change,
        };
        let deadline = match timeout.next(platform) {
            Next::Expired => return Ok((Status::TIMEOUT, 0, Vec::new())),
            Next::Wait => None,
            Next::WaitUntil(deadline) => Some(deadline),
        };
        wait(platform, mutex, change, deadline)?;
    }
}

/// Acquires a mutex. `timeout`: the address of the timeout, or NULL.
fn acquire(call: &Call, mutex: u32, key: u64, timeout: u64) -> Result<Acquired, Status> {
    let mutex = call.library.keyed_mutex(mutex)?;
    let units = match timeout {
        0 => None,
        address => Some(call.caller.numbers::<u64>(address, 1, 1)?[0].cast_signed()),
    };
    let platform = &call.library.platform;
    acquire_within(platform, &mutex, key, Timeout::begin(platform, units))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::PendingWaits;
    use crate::object::{Device, OwnDevice};
    use tidegate_testbed::prelude::World;
    use tidegate_testbed::world;

    /// An instance of the mutex of that global handle, or of a new one whose key is 0.
    fn instance(w: &World, shared: Option<u32>) -> (KeyedMutex, u32) {
        let adapter = Arc::new(Adapter { index: 0, connection: 0, kernel: w.kernel.clone() });
        let handle = adapter.kernel.create_device().unwrap();
        let waits = PendingWaits::new(&w.platform);
        let device = Arc::new(OwnDevice(Arc::new(Device { adapter, handle, waits })));
        let (mutex, shared) = match shared {
            Some(shared) => {
                let name = ResourceName::Shared(shared);
                (w.kernel.open_keyed_mutex(name).unwrap().handle, shared)
            }
            None => {
                let args = calls::CreateKeyedMutex {
                    device: handle,
                    initial_key: 0,
                    data: Vec::new(),
                    nt_security_sharing: false,
                };
                let made = w.kernel.create_keyed_mutex(args).unwrap();
                (made.handle, made.shared_handle)
            }
        };
        let changes = w.kernel.open_keyed_mutex_changes(handle, mutex).unwrap();
        (KeyedMutex { device, handle: mutex, changes }, shared)
    }

    /// D3DKMT_ACQUIREKEYEDMUTEX (d3dkmthk.h): a positive timeout is a time since 1601, a negative
    /// one an interval.
    #[test]
    fn an_acquire_ends_at_its_time_or_with_the_release() {
        const UNITS_TO_1970: i64 = 11_644_473_600 * 10_000_000;
        world().run(|w| {
            let platform = &w.platform;
            let (mine, shared) = instance(w, None);
            let yours = instance(w, Some(shared)).0;
            let acquire = |key, units| {
                let timeout = Timeout::begin(platform, Some(units));
                acquire_within(platform, &yours, key, timeout).unwrap().0
            };
            let at =
                |ns: u64| UNITS_TO_1970 + ((platform.system_time_ns() + ns) / 100).cast_signed();
            let never = acquire_within(platform, &mine, 0, Timeout::None).unwrap();
            assert_eq!(never.0, Status::SUCCESS);
            for (is_time, ns) in [(false, 7_000_000), (true, 2_600_000_000), (true, 0)] {
                let start = platform.now().0;
                let units = if is_time { at(ns) } else { -((ns / 100).cast_signed()) };
                assert_eq!(acquire(0, units), Status::TIMEOUT);
                let took = platform.now().0 - start;
                assert!((ns..ns + 1_000_000).contains(&took), "{took} for {ns}");
            }
            // A release within the time ends the wait.
            let (kernel, handle, own) = (w.kernel.clone(), mine.handle, platform.clone());
            let release = platform.spawn("the owner", move || {
                own.busy(1_500_000_000);
                let args = calls::ReleaseKeyedMutex {
                    mutex: handle,
                    key: 1,
                    fence_value: 7,
                    replaces_data: false,
                    data: &[],
                };
                kernel.release_keyed_mutex(args).unwrap();
            });
            let start = platform.now().0;
            assert_eq!(acquire(1, at(3_600_000_000_000)), Status::SUCCESS);
            let took = platform.now().0 - start;
            assert!((1_500_000_000..1_600_000_000).contains(&took), "{took}");
            release.join();
            mine.end();
            yours.end();
        });
    }
}
