//! An instance of a fence as an object of its process, with its device and handle.

use crate::fence::instance::FenceHold;
use crate::fence::{CreateFence, Instance, InstanceOwner, sharing};
use crate::memory::Affinity;
use crate::object::device::Device;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use tidegate_calls::{Handle, NtHandle, Status, SyncObjectFlags};
use tidegate_ddi::Passive;

/// An instance of a fence.
pub(crate) struct FenceObject {
    /// Declared before the device: the instance is closed first.
    instance: Instance,
    /// The handle, once the instance is in its process's table.
    pub(crate) handle: OnceLock<Handle>,
    pub(crate) device: Arc<Device>,
}

impl FenceObject {
    /// Creates a fence and its creator's instance.
    pub(crate) fn create(
        level: &Passive,
        device: &Arc<Device>,
        args: &CreateFence<'_>,
    ) -> Result<FenceObject, Status> {
        let instance = Instance::create(level, &device.layers.fences, &owner(device), args)?;
        Ok(FenceObject { instance, handle: OnceLock::new(), device: device.clone() })
    }

    /// Opens an instance of a fence that is held.
    pub(crate) fn of_hold(
        level: &Passive,
        device: &Arc<Device>,
        hold: FenceHold,
        flags: SyncObjectFlags,
    ) -> Result<FenceObject, Status> {
        let instance = Instance::open(level, hold, &owner(device), flags, Affinity::ALL)?;
        Ok(FenceObject { instance, handle: OnceLock::new(), device: device.clone() })
    }

    /// Opens a fence by an NT handle. `native` selects which of the two calls is made.
    pub(crate) fn open(
        level: &Passive,
        device: &Arc<Device>,
        nt_handle: &NtHandle,
        flags: SyncObjectFlags,
        native: bool,
        affinity: Affinity,
    ) -> Result<FenceObject, Status> {
        let (fences, owner) = (&device.layers.fences, owner(device));
        let instance = sharing::open(level, fences, &owner, nt_handle, flags, native, affinity)?;
        Ok(FenceObject { instance, handle: OnceLock::new(), device: device.clone() })
    }
}

pub(super) fn owner(device: &Arc<Device>) -> InstanceOwner<'_> {
    InstanceOwner { device: device.os_handle, driver: device.driver, pool: &device.fence_pool }
}

impl Deref for FenceObject {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        &self.instance
    }
}
