//! Calls about allocations: creating and naming them, and the resources that processes share.

use super::Process;
use super::calls::{MAX_ALLOCATIONS, entered};
use crate::memory::AllocationObject;
use crate::object::device::Device;
use crate::object::object_table::Object;
use crate::object::resource::{ResourceInstance, SharedResource};
use std::sync::Arc;
use tidegate_calls::{
    Allocation, AllocationResidency, CreateAllocation, CreateResource, Handle, OpenedResource,
    ResidencyPriority, Resource, ResourceData, ResourceName, Status,
};
use tidegate_ddi::Passive;

impl Process {
    pub(super) fn make_allocation(&self, args: &CreateAllocation) -> Result<Allocation, Status> {
        let level = &entered();
        let device = self.live_device(args.device)?;
        let memory = &self.objects.memory;
        let made = memory.create_allocation(level, device.clone(), &device.space, args)?;
        self.enter_allocation(level, made)
    }

    /// Gives an allocation its handle, and returns the process's view of it.
    fn enter_allocation(
        &self,
        level: &Passive,
        made: Arc<AllocationObject>,
    ) -> Result<Allocation, Status> {
        let (gpu_va, bytes, memory) = (made.gpu_va, made.bytes, made.memory.clone());
        let handle = self.insert(level, Object::Allocation(made))?;
        Ok(Allocation { handle, gpu_va, bytes, memory })
    }

    /// Resolves the allocations of one residency call: at least one, all belonging to `device`.
    pub(super) fn allocations_of(
        &self,
        device: &Device,
        handles: &[Handle],
    ) -> Result<Vec<Arc<AllocationObject>>, Status> {
        if handles.is_empty() || handles.len() > MAX_ALLOCATIONS {
            return Err(Status::INVALID_PARAMETER);
        }
        let found = handles.iter().map(|handle| self.allocation(*handle));
        let found = found.collect::<Result<Vec<_>, Status>>()?;
        match found.iter().all(|a| a.device.os_handle() == device.os_handle) {
            true => Ok(found),
            false => Err(Status::INVALID_PARAMETER),
        }
    }

    pub(super) fn set_priority(
        &self,
        device: Handle,
        allocations: &[Handle],
        priority: ResidencyPriority,
    ) -> Result<(), Status> {
        let device = self.live_device(device)?;
        let allocations = self.allocations_of(&device, allocations)?;
        self.objects.memory.set_priority(&allocations, priority);
        Ok(())
    }

    pub(super) fn residency_of(
        &self,
        device: Handle,
        allocations: &[Handle],
    ) -> Result<Vec<AllocationResidency>, Status> {
        let device = self.live_device(device)?;
        let allocations = self.allocations_of(&device, allocations)?;
        Ok(allocations.iter().map(|allocation| allocation.residency()).collect())
    }

    pub(super) fn make_resource(&self, args: &CreateResource<'_>) -> Result<Resource, Status> {
        let level = &entered();
        let device = self.live_device(args.device)?;
        let allocations = match args.allocations {
            [] => Vec::new(),
            handles => self.allocations_of(&device, handles)?,
        };
        let names = (!args.nt_security_sharing).then_some(&self.objects.names);
        let handles = args.allocations;
        let instance = ResourceInstance::create(&device, handles, &allocations, args.data, names)?;
        let shared_handle = instance.shared_handle();
        let handle = self.insert(level, Object::Resource(Arc::new(instance)))?;
        Ok(Resource { handle, shared_handle })
    }

    fn resource_named(
        &self,
        device: Handle,
        name: ResourceName<'_>,
    ) -> Result<Arc<SharedResource>, Status> {
        self.live_device(device)?;
        SharedResource::find(&self.objects.port, &self.objects.names, name)
    }

    pub(super) fn resource_data(
        &self,
        device: Handle,
        name: ResourceName<'_>,
    ) -> Result<ResourceData, Status> {
        Ok(self.resource_named(device, name)?.data.clone())
    }

    pub(super) fn open_shared_resource(
        &self,
        device: Handle,
        name: ResourceName<'_>,
    ) -> Result<OpenedResource, Status> {
        let level = &entered();
        let shared = self.resource_named(device, name)?;
        let device = self.live_device(device)?;
        let mut allocations: Vec<Allocation> = Vec::with_capacity(shared.memory.len());
        let undo = |made: &[Allocation]| self.end_allocations(level, made.iter().map(|a| a.handle));
        for memory in &shared.memory {
            let memory_of_adapter = &self.objects.memory;
            let opened =
                memory_of_adapter.open_shared(level, device.clone(), &device.space, memory);
            let entered = opened.and_then(|object| {
                shared.enter(&object)?;
                self.enter_allocation(level, object)
            });
            allocations.push(entered.inspect_err(|_| undo(&allocations))?);
        }
        let data = shared.data.clone();
        let handles = allocations.iter().map(|allocation| allocation.handle).collect();
        let instance = ResourceInstance { shared, device, allocations: handles };
        let entered = self.insert(level, Object::Resource(Arc::new(instance)));
        let handle = entered.inspect_err(|_| undo(&allocations))?;
        Ok(OpenedResource { handle, data, allocations })
    }

    pub(super) fn end_resource(&self, resource: Handle) -> Result<(), Status> {
        let level = &entered();
        let removed = self.remove(resource, |o| matches!(o, Object::Resource(_)))?;
        if let Object::Resource(instance) = &removed {
            self.end_allocations(level, instance.allocations.iter().copied());
        }
        removed.end(level, &self.objects.hw_queues);
        Ok(())
    }

    /// Ends allocations of a resource. The end of their device may have been first.
    fn end_allocations(&self, level: &Passive, handles: impl Iterator<Item = Handle>) {
        for handle in handles {
            let _ended = self.destroy(level, handle, |o| matches!(o, Object::Allocation(_)));
        }
    }
}
