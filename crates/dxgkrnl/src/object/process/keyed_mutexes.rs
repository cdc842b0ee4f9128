//! Calls about keyed mutexes, and NT handles of resources.

use super::Process;
use super::calls::entered;
use crate::fence::names::ShareKind;
use crate::object::FenceObject;
use crate::object::keyed_mutex::KeyedMutexInstance;
use crate::object::object_table::Object;
use std::sync::Arc;
use tidegate_calls::{
    CreateKeyedMutex, FenceInstance, Handle, KeyedMutex, KeyedMutexAcquire, NtHandle,
    OpenedKeyedMutex, ReleaseKeyedMutex, ResourceName, Status, SyncObjectAccess, SyncObjectFlags,
};

impl Process {
    pub(super) fn create_keyed_mutex(&self, args: CreateKeyedMutex) -> Result<KeyedMutex, Status> {
        let level = &entered();
        let device = self.live_device(args.device)?;
        let made = KeyedMutexInstance::create(level, &device, &self.objects.names, &args)?;
        let shared_handle = made.shared_handle();
        let handle = self.insert(level, Object::KeyedMutex(Arc::new(made)))?;
        Ok(KeyedMutex { handle, shared_handle })
    }

    pub(super) fn open_keyed_mutex(
        &self,
        name: ResourceName<'_>,
    ) -> Result<OpenedKeyedMutex, Status> {
        let level = &entered();
        if self.handles.lock().is_closed() {
            return Err(Status::DEVICE_REMOVED);
        }
        let opened = KeyedMutexInstance::open(&self.objects.fences, &self.objects.names, name)?;
        let data_bytes = opened.data_bytes();
        let handle = self.insert(level, Object::KeyedMutex(Arc::new(opened)))?;
        Ok(OpenedKeyedMutex { handle, data_bytes })
    }

    pub(super) fn open_keyed_mutex_changes(
        &self,
        device: Handle,
        mutex: Handle,
    ) -> Result<FenceInstance, Status> {
        let level = &entered();
        let device = self.live_device(device)?;
        let hold = self.keyed_mutex(mutex)?.changes()?;
        let flags = SyncObjectFlags::NO_SIGNAL;
        self.enter_fence(level, Arc::new(FenceObject::of_hold(level, &device, hold, flags)?))
    }

    pub(super) fn release_keyed_mutex(&self, args: ReleaseKeyedMutex<'_>) -> Result<(), Status> {
        let level = &entered();
        self.keyed_mutex(args.mutex)?.release(level, args)
    }

    pub(super) fn acquire_keyed_mutex(
        &self,
        mutex: Handle,
        key: u64,
    ) -> Result<KeyedMutexAcquire, Status> {
        Ok(self.keyed_mutex(mutex)?.try_acquire(key))
    }

    pub(super) fn destroy_keyed_mutex(&self, mutex: Handle) -> Result<(), Status> {
        let level = &entered();
        self.destroy(level, mutex, |o| matches!(o, Object::KeyedMutex(_)))
    }

    pub(super) fn open_nt_handle_from_name(
        &self,
        name: &str,
        access: SyncObjectAccess,
    ) -> Result<NtHandle, Status> {
        self.open_name(name, ShareKind::Resource, access)
    }

    /// Creates the NT handle of a resource with a keyed mutex and an older object.
    pub(super) fn share_together(
        &self,
        [resource, mutex, object]: [Handle; 3],
        access: SyncObjectAccess,
        name: Option<&str>,
    ) -> Result<NtHandle, Status> {
        let mut share = self.resource(resource)?.share(access)?;
        share.objects.push(self.keyed_mutex(mutex)?.shareable()?);
        share.objects.extend(self.older(object)?.share(access)?.objects);
        self.objects.names.share(share, name)
    }
}
