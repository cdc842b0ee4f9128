//! Keyed mutexes. An attempt to acquire does not block: the kernel answers which change of the
//! mutex to wait for, and the caller waits for the value of a fence.
//!
//! Invariants
//! - One instance at most owns a mutex. A release with a key admits acquires with that key only.
//! - Each change has a number, and the fence reads the last one once all signals are made. The
//!   number is taken under the lock and signalled outside of it, so a late signal is followed by a
//!   signal of the last number.
//! - The end of an owner's instance abandons the mutex for ever.
//! - A global handle keeps nothing alive.
//!
//! Entry points: [`KeyedMutexInstance`].

use super::device::Device;
use super::older::new_fence;
use crate::fence::instance::FenceHold;
use crate::fence::names::{ObjectNames, Shareable};
use crate::fence::{FenceTarget, Fences, signal};
use crate::timer::{AtPassive, EndAtPassive};
use std::any::Any;
use std::sync::{Arc, Weak};
use tidegate_calls::{
    CreateKeyedMutex, KeyedMutexAcquire, MAX_KEYED_MUTEX_DATA_BYTES, ReleaseKeyedMutex,
    ResourceName, SignalFlags, Status, SyncObjectAccess, SyncObjectFlags,
};
use tidegate_ddi::{Irql, Passive};
use tidegate_platform::Mutex;

/// A keyed mutex behind its instances.
pub(crate) struct KeyedMutex {
    /// Those of its adapter.
    fences: Arc<Fences>,
    /// The fence of its changes.
    changes: FenceHold,
    /// Bytes of the creator's data.
    data_bytes: u32,
    /// `None` if it is shared by NT handle.
    global: Option<(u32, ObjectNames)>,
    state: Mutex<State>,
}

struct State {
    /// Number of the last change.
    changes: u64,
    /// Instances until now, which are their numbers.
    instances: u64,
    owner: Option<u64>,
    is_abandoned: bool,
    key: u64,
    fence_value: u64,
    data: Vec<u8>,
}

impl KeyedMutex {
    /// Changes the state and signals the change.
    fn change(
        &self,
        level: Irql<'_>,
        change: impl FnOnce(&mut State) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let mut value = {
            let mut state = self.state.lock();
            change(&mut state)?;
            state.changes += 1;
            state.changes
        };
        loop {
            let target = FenceTarget { fence: self.changes.fence().clone(), value };
            let rewind = SignalFlags::ALLOW_FENCE_REWIND;
            signal::signal(level, std::slice::from_ref(&target), rewind);
            let last = self.state.lock().changes;
            if last == value {
                return Ok(());
            }
            value = last;
        }
    }
}

impl Drop for KeyedMutex {
    fn drop(&mut self) {
        if let Some((handle, names)) = &self.global {
            names.remove_global(*handle);
        }
    }
}

impl Shareable for Arc<KeyedMutex> {
    fn hold(&self, _access: SyncObjectAccess) -> Box<dyn Any + Send + Sync> {
        Box::new(SharedKeyedMutex(self.clone()))
    }
}

/// What an NT handle holds.
struct SharedKeyedMutex(Arc<KeyedMutex>);

/// An instance in its process, which it ends with.
pub(crate) struct KeyedMutexInstance(AtPassive<Body>);

struct Body {
    mutex: Arc<KeyedMutex>,
    number: u64,
}

impl EndAtPassive for Body {
    fn end(&mut self, level: &Passive) {
        let is_owner = self.mutex.state.lock().owner == Some(self.number);
        if is_owner {
            let _abandoned = self.mutex.change(level.into(), |state| {
                (state.owner, state.is_abandoned) = (None, true);
                Ok(())
            });
        }
    }
}

impl KeyedMutexInstance {
    /// Creates a mutex and its creator's instance.
    pub(crate) fn create(
        level: &Passive,
        device: &Arc<Device>,
        names: &ObjectNames,
        args: &CreateKeyedMutex,
    ) -> Result<KeyedMutexInstance, Status> {
        if args.data.len() > MAX_KEYED_MUTEX_DATA_BYTES {
            return Err(Status::INVALID_PARAMETER);
        }
        let shared = SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING;
        let flags = shared | SyncObjectFlags::NO_SIGNAL_MAX_VALUE_ON_TDR;
        let fence = new_fence(level, device, "changes of a keyed mutex", 0, flags)?;
        let changes = FenceHold::new(&fence.fence).ok_or(Status::INVALID_PARAMETER)?;
        let fences = device.layers.fences.clone();
        let state = State {
            changes: 0,
            instances: 0,
            owner: None,
            is_abandoned: false,
            key: args.initial_key,
            fence_value: 0,
            data: args.data.clone(),
        };
        let state = fences.port.platform.mutex("a keyed mutex", state);
        let has_global = !args.nt_security_sharing;
        let mutex = Arc::new_cyclic(|mutex: &Weak<KeyedMutex>| {
            let handle = has_global.then(|| names.enter_global(mutex.clone())).flatten();
            let global = handle.map(|handle| (handle, names.clone()));
            let data_bytes = args.data.len() as u32;
            KeyedMutex { fences, changes, data_bytes, global, state }
        });
        if has_global && mutex.global.is_none() {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        Ok(KeyedMutexInstance::of(mutex))
    }

    /// Opens a mutex of these fences' adapter.
    ///
    /// # Errors
    /// As [`tidegate_calls::Kernel::open_keyed_mutex`].
    pub(crate) fn open(
        fences: &Arc<Fences>,
        names: &ObjectNames,
        name: ResourceName<'_>,
    ) -> Result<KeyedMutexInstance, Status> {
        let (mutex, elsewhere) = match name {
            ResourceName::Shared(handle) => {
                let found = names.find_global::<KeyedMutex>(handle);
                (found.ok_or(Status::INVALID_PARAMETER)?, Status::INVALID_PARAMETER)
            }
            ResourceName::NtHandle(handle) => {
                let found: &SharedKeyedMutex =
                    handle.object().ok_or(Status::OBJECT_TYPE_MISMATCH)?;
                (found.0.clone(), Status::NOT_SUPPORTED)
            }
        };
        if !Arc::ptr_eq(&mutex.fences, fences) {
            return Err(elsewhere);
        }
        Ok(KeyedMutexInstance::of(mutex))
    }

    fn of(mutex: Arc<KeyedMutex>) -> KeyedMutexInstance {
        let number = {
            let mut state = mutex.state.lock();
            state.instances += 1;
            state.instances
        };
        let timer = mutex.fences.port.timer.clone();
        KeyedMutexInstance(AtPassive::wrap(&timer, Body { mutex, number }))
    }

    /// Returns the global handle; 0 for none.
    pub(crate) fn shared_handle(&self) -> u32 {
        self.0.mutex.global.as_ref().map_or(0, |(handle, _)| *handle)
    }

    /// Returns the bytes of the creator's data.
    pub(crate) fn data_bytes(&self) -> u32 {
        self.0.mutex.data_bytes
    }

    /// Returns a further hold on the fence of the changes.
    pub(crate) fn changes(&self) -> Result<FenceHold, Status> {
        FenceHold::new(self.0.mutex.changes.fence()).ok_or(Status::INVALID_PARAMETER)
    }

    /// Returns the object that NT handles share.
    ///
    /// # Errors
    /// INVALID_PARAMETER for a mutex with a global handle.
    pub(crate) fn shareable(&self) -> Result<Box<dyn Shareable>, Status> {
        match self.0.mutex.global {
            None => Ok(Box::new(self.0.mutex.clone())),
            Some(_) => Err(Status::INVALID_PARAMETER),
        }
    }

    /// Acquires the mutex if that is possible now.
    pub(crate) fn try_acquire(&self, key: u64) -> KeyedMutexAcquire {
        let mut state = self.0.mutex.state.lock();
        if state.is_abandoned {
            return KeyedMutexAcquire::Abandoned;
        }
        if state.owner.is_some() || state.key != key {
            return KeyedMutexAcquire::Held { change: state.changes + 1 };
        }
        state.owner = Some(self.0.number);
        KeyedMutexAcquire::Acquired { fence_value: state.fence_value, data: state.data.clone() }
    }

    /// Releases the mutex.
    ///
    /// # Errors
    /// INVALID_PARAMETER for an instance that does not own it, and for too much data.
    pub(crate) fn release(
        &self,
        level: &Passive,
        args: ReleaseKeyedMutex<'_>,
    ) -> Result<(), Status> {
        if args.data.len() > MAX_KEYED_MUTEX_DATA_BYTES {
            return Err(Status::INVALID_PARAMETER);
        }
        let number = self.0.number;
        self.0.mutex.change(level.into(), |state| {
            if state.owner != Some(number) {
                return Err(Status::INVALID_PARAMETER);
            }
            (state.owner, state.key, state.fence_value) = (None, args.key, args.fence_value);
            if args.replaces_data {
                state.data = args.data.to_vec();
            }
            Ok(())
        })
    }
}
