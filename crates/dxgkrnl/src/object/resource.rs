//! Shared resources: memory that several processes have open, each by its allocations.
//!
//! Invariants
//! - The memory lives while an instance, an NT handle or an allocation holds it. A global handle
//!   holds nothing.
//! - The allocations of an instance end with it, so a process that has destroyed its instance holds
//!   no part of the memory.

use super::device::Device;
use crate::driver::DriverPort;
use crate::fence::names::{ObjectNames, Share, ShareKind, Shareable};
use crate::memory::{AllocationObject, FixedMemory};
use std::any::Any;
use std::sync::{Arc, Weak};
use tidegate_calls::{
    Handle, MAX_RESOURCE_DATA_BYTES, MAX_SHARED_ALLOCATIONS, ResourceData, ResourceName, Status,
    SyncObjectAccess,
};

/// What all instances of a resource share.
pub(crate) struct SharedResource {
    /// The adapter.
    driver: Arc<DriverPort>,
    pub(crate) memory: Vec<Arc<FixedMemory>>,
    pub(crate) data: ResourceData,
    /// `None` if it is shared by NT handle.
    global: Option<(u32, ObjectNames)>,
}

impl Drop for SharedResource {
    fn drop(&mut self) {
        if let Some((handle, names)) = &self.global {
            names.remove_global(*handle);
        }
    }
}

/// A resource of an NT handle.
struct ResourceHandle(Arc<SharedResource>);

impl Shareable for Arc<SharedResource> {
    fn hold(&self, _access: SyncObjectAccess) -> Box<dyn Any + Send + Sync> {
        Box::new(ResourceHandle(self.clone()))
    }
}

/// A shared resource that a process has open.
pub(crate) struct ResourceInstance {
    pub(crate) shared: Arc<SharedResource>,
    pub(crate) device: Arc<Device>,
    /// Its allocations in the process.
    pub(crate) allocations: Vec<Handle>,
}

impl ResourceInstance {
    /// Shares allocations of a device, each with its handle.
    ///
    /// # Errors
    /// As [`tidegate_calls::Kernel::create_resource`]. No allocation is shared then.
    pub(crate) fn create(
        device: &Arc<Device>,
        handles: &[Handle],
        allocations: &[Arc<AllocationObject>],
        data: &ResourceData,
        names: Option<&ObjectNames>,
    ) -> Result<ResourceInstance, Status> {
        let fits =
            data.bytes() <= MAX_RESOURCE_DATA_BYTES && data.allocations.len() == handles.len();
        if !fits || handles.len() > MAX_SHARED_ALLOCATIONS {
            return Err(Status::INVALID_PARAMETER);
        }
        let memory = allocations.iter().map(|allocation| allocation.fixed_memory().cloned());
        let memory: Option<Vec<_>> = memory.collect();
        let memory = memory.ok_or(Status::NOT_SUPPORTED)?;
        let shared = Arc::new_cyclic(|shared: &Weak<SharedResource>| {
            let object: Weak<dyn Any + Send + Sync> = shared.clone();
            let handle = names.and_then(|names| Some((names.enter_global(object)?, names.clone())));
            let driver = device.layers.port.clone();
            SharedResource { driver, memory, data: data.clone(), global: handle }
        });
        if names.is_some() && shared.global.is_none() {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        // A refused resource ends here, and its allocations are shared no longer.
        allocations.iter().try_for_each(|allocation| shared.enter(allocation))?;
        Ok(ResourceInstance { shared, device: device.clone(), allocations: handles.to_vec() })
    }

    /// Returns the global handle; 0 for none.
    pub(crate) fn shared_handle(&self) -> u32 {
        self.shared.global.as_ref().map_or(0, |(handle, _)| *handle)
    }

    /// Returns what NT handles hold.
    ///
    /// # Errors
    /// INVALID_PARAMETER for a resource with a global handle, and for no rights.
    pub(crate) fn share(&self, access: SyncObjectAccess) -> Result<Share, Status> {
        if self.shared.global.is_some() || access.is_empty() {
            return Err(Status::INVALID_PARAMETER);
        }
        let objects: Vec<Box<dyn Shareable>> = vec![Box::new(self.shared.clone())];
        Ok(Share { kind: ShareKind::Resource, objects, access })
    }
}

impl SharedResource {
    /// Makes an allocation of its memory one of the resource.
    pub(crate) fn enter(
        self: &Arc<SharedResource>,
        allocation: &AllocationObject,
    ) -> Result<(), Status> {
        let resource: Weak<SharedResource> = Arc::downgrade(self);
        allocation.enter_resource(resource)
    }

    /// Returns a resource of an adapter.
    ///
    /// # Errors
    /// As [`tidegate_calls::Kernel::query_resource_info`]; NOT_SUPPORTED for an NT handle of a
    /// resource of another adapter.
    pub(crate) fn find(
        driver: &Arc<DriverPort>,
        names: &ObjectNames,
        name: ResourceName<'_>,
    ) -> Result<Arc<SharedResource>, Status> {
        let (found, elsewhere) = match name {
            ResourceName::Shared(handle) => {
                let found = names.find_global::<SharedResource>(handle);
                (found.ok_or(Status::INVALID_PARAMETER)?, Status::INVALID_PARAMETER)
            }
            ResourceName::NtHandle(handle) => {
                let found: &ResourceHandle = handle.object().ok_or(Status::OBJECT_TYPE_MISMATCH)?;
                (found.0.clone(), Status::NOT_SUPPORTED)
            }
        };
        if Arc::ptr_eq(&found.driver, driver) { Ok(found) } else { Err(elsewhere) }
    }
}
