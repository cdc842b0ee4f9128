//! Context allocations: driver memory for context and device state, in the system process's GPU
//! address space.
//!
//! 1. A context is registered before DxgkDdiCreateContext, in which its driver may create them.
//! 2. A created context is held until the paging context has run the driver's commands for their
//!    initial content (InitContextResource).
//! 3. Afterwards they move as allocations do. Their address is fixed.
//! 4. They end by the driver's call or with their context, once none of its packets is on
//!    an engine.
//!
//! Allocations of the paging context, of hardware contexts and of devices stay in system memory,
//! since they may be used at any time. A device's allocation is initialised before the driver gets
//! its address.

use super::allocation::AllocationObject;
use super::local_memory::Memory;
use super::ports::OwningDevice;
use super::save_areas::{Areas, OfContext, SaveAreaUse};
use crate::wait_classes::FIRST_CONTENT;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::{
    ContextAllocation, ContextAllocationOwner, CreateContextAllocation, OsHandle, Passive,
};
use tidegate_platform::WaitEnd;

/// Largest context allocation, in bytes.
const MAX_BYTES: u64 = 1 << 24;

/// Maximum number of allocations per context, and per device.
const MAX_PER_OWNER: usize = 64;

impl Memory {
    /// Registers a context before its creation.
    pub(crate) fn begin_context(
        &self,
        device: Arc<dyn OwningDevice>,
        context: OsHandle,
        kind: SaveAreaUse,
    ) {
        let areas = Areas::new();
        let of_context = OfContext { device, kind, made: false, areas };
        self.save_areas.contexts.lock().insert(context, of_context);
    }

    /// Starts the initialisation of a created context's allocations.
    pub(crate) fn initialise_context(self: &Arc<Memory>, context: OsHandle) {
        let areas = {
            let mut contexts = self.save_areas.contexts.lock();
            let Some(of_context) = contexts.get_mut(&context) else { return };
            of_context.made = true;
            if of_context.kind == SaveAreaUse::Paging {
                return;
            }
            of_context.areas.clone()
        };
        areas.iter().for_each(|(handle, area)| self.initialise(context, *handle, area));
    }

    fn initialise(
        self: &Arc<Memory>,
        context: OsHandle,
        allocation: OsHandle,
        area: &Arc<AllocationObject>,
    ) {
        if let Some(holds) = self.holds.get() {
            holds.hold_uninitialised(context);
        }
        self.queue_content(allocation, context, area, None);
    }

    /// DxgkCbCreateContextAllocation.
    ///
    /// # Errors
    /// INVALID_PARAMETER if the size is too large or not a multiple of the page size.
    /// INVALID_HANDLE for an unknown owner. INSUFFICIENT_RESOURCES if the owner has too many.
    /// CANCELLED if the machine stopped, or a reset or a removal waits for the driver's call.
    // spec: PRE-013
    pub(crate) fn create_context_allocation(
        self: &Arc<Memory>,
        level: &Passive,
        args: CreateContextAllocation,
    ) -> Result<ContextAllocation, Status> {
        let whole_pages = args.bytes.is_multiple_of(self.driver.declared.shape.page_bytes);
        if !whole_pages || args.bytes == 0 || args.bytes > MAX_BYTES {
            return Err(Status::INVALID_PARAMETER);
        }
        match args.owner {
            ContextAllocationOwner::Context(context) => {
                self.create_of_context(level, context, args.bytes)
            }
            ContextAllocationOwner::Device(device) => {
                self.create_of_device(level, device, args.bytes)
            }
        }
    }

    fn create_of_context(
        self: &Arc<Memory>,
        level: &Passive,
        context: OsHandle,
        bytes: u64,
    ) -> Result<ContextAllocation, Status> {
        let (device, stays) = {
            let contexts = self.save_areas.contexts.lock();
            let of_context = contexts.get(&context).ok_or(Status::INVALID_HANDLE)?;
            if of_context.areas.len() >= MAX_PER_OWNER {
                return Err(Status::INSUFFICIENT_RESOURCES);
            }
            (of_context.device.clone(), of_context.kind != SaveAreaUse::Movable)
        };
        let area = self.create_save_area(level, &device, bytes, context, stays)?;
        let (os_handle, system_gpu_va) = (self.driver.new_handle(), area.gpu_va);
        let at_once = {
            let mut contexts = self.save_areas.contexts.lock();
            // The context may have ended concurrently.
            let of_context = contexts.get_mut(&context).ok_or(Status::INVALID_HANDLE)?;
            of_context.areas.insert(os_handle, area.clone());
            of_context.made && of_context.kind != SaveAreaUse::Paging
        };
        if at_once {
            self.initialise(context, os_handle, &area);
        }
        Ok(ContextAllocation { os_handle, system_gpu_va })
    }

    /// Blocks until the allocation has its initial content. The memory manager's device has none,
    /// because the pager would wait for itself.
    fn create_of_device(
        self: &Arc<Memory>,
        level: &Passive,
        owner: OsHandle,
        bytes: u64,
    ) -> Result<ContextAllocation, Status> {
        let work = self.work()?;
        let device = work.live_device(owner).ok_or(Status::INVALID_HANDLE)?;
        let count = self.save_areas.devices.lock().get(&owner).map_or(0, Areas::len);
        if count >= MAX_PER_OWNER {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        let _awake = self.driver.awake(level);
        let area = self.create_save_area(level, &device, bytes, owner, true)?;
        let (os_handle, system_gpu_va) = (self.driver.new_handle(), area.gpu_va);
        let mut devices = self.save_areas.devices.lock();
        devices.entry(owner).or_default().insert(os_handle, area.clone());
        drop(devices);
        // A device that ended concurrently either released this allocation or is no longer live.
        if work.live_device(owner).is_none() {
            self.end_device(owner);
            return Err(Status::INVALID_HANDLE);
        }
        let done = self.driver.platform.event(true);
        let cut_off = {
            let mut state = self.state.lock();
            state.content_waits.push(done.clone());
            state.cut_off
        };
        self.queue_content(os_handle, owner, &area, Some(done.clone()));
        let end = match cut_off {
            false => done.wait_for(None, &FIRST_CONTENT),
            true => WaitEnd::Woken,
        };
        let cut_off = {
            let mut state = self.state.lock();
            state.content_waits.retain(|event| event.id() != done.id());
            state.cut_off
        };
        if cut_off || end == WaitEnd::Stopped {
            self.destroy_context_allocation(os_handle)?;
            return Err(Status::CANCELLED);
        }
        Ok(ContextAllocation { os_handle, system_gpu_va })
    }

    /// DxgkCbDestroyContextAllocation.
    ///
    /// # Errors
    /// INVALID_HANDLE if the allocation does not exist.
    pub(crate) fn destroy_context_allocation(&self, allocation: OsHandle) -> Result<(), Status> {
        let found = {
            let mut contexts = self.save_areas.contexts.lock();
            contexts
                .iter_mut()
                .find_map(|(context, of)| Some((*context, of.areas.remove(&allocation)?)))
        };
        if let Some((context, area)) = found {
            self.drop_when_idle(&[context], [area]);
            return Ok(());
        }
        let found = {
            let mut devices = self.save_areas.devices.lock();
            let mut owners = devices.iter_mut();
            owners.find_map(|(device, areas)| Some((*device, areas.remove(&allocation)?)))
        };
        let (device, area) = found.ok_or(Status::INVALID_HANDLE)?;
        self.drop_when_idle(&self.save_areas.contexts_of(device), [area]);
        Ok(())
    }

    /// Ends the allocations of an ending device that its driver has not destroyed.
    pub(crate) fn end_device(&self, device: OsHandle) {
        let areas = self.save_areas.devices.lock().remove(&device);
        let areas = areas.into_iter().flat_map(Areas::into_values);
        self.drop_when_idle(&self.save_areas.contexts_of(device), areas);
    }

    /// Ends the allocations of a context that has ended or was never created.
    pub(crate) fn end_context(&self, context: OsHandle) {
        let of_context = self.save_areas.contexts.lock().remove(&context);
        let Some(of_context) = of_context else { return };
        let of_device = {
            let devices = self.save_areas.devices.lock();
            devices.get(&of_context.device.os_handle()).cloned().unwrap_or_default()
        };
        // The last packet may also use the device's allocations.
        let areas = of_context.areas.into_values().chain(of_device.into_values());
        self.drop_when_idle(&[context], areas);
    }

    /// Drops each area once no packet of the contexts is on an engine.
    fn drop_when_idle(
        &self,
        contexts: &[OsHandle],
        areas: impl IntoIterator<Item = Arc<AllocationObject>>,
    ) {
        let Some(holds) = self.holds.get() else { return };
        for area in areas {
            contexts.iter().for_each(|context| holds.drop_when_idle(*context, area.clone()));
        }
    }
}
