//! Context allocations: what drivers have for the state of their contexts and devices, in the
//! system process's GPU address space.
//!
//! The order that matters:
//! 1. a context that is being made is entered here before DxgkDdiCreateContext, so that the driver
//!    may create allocations inside that call;
//! 2. when the context is there, each of them is held back from use until the paging context has
//!    executed what the driver wrote for its first content (InitContextResource): VidSch submits no
//!    packet of the context before;
//! 3. from then on it is a member of local memory like any allocation: it leaves and comes with its
//!    content, and its address stays;
//! 4. when the driver destroys it, or its context ends, it is freed, but not before the last packet
//!    of the context is off its engine.
//!
//! Allocations of the memory manager's own context stay in system memory, since no other context
//! could move them. Those of hardware contexts do so too, because the hardware may run such a
//! context at any time.
//!
//! Those of a device stay in system memory too: any of its contexts may use them at any time. They
//! have their content before the driver gets their address. They end with their device, but not
//! before the last packet of its contexts is off its engine.
//!
//! `interrupt` (the callbacks), `context` and `device` call in. What stands in an allocation is the
//! driver's business.

use super::AllocationObject;
use crate::adapter::Adapter;
use crate::context::ContextDesc;
use crate::device::Device;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::{ContextAllocation, ContextAllocationOwner, CreateContextAllocation, OsHandle};
use tidegate_platform::{Mutex, Platform, WaitEnd};

/// Largest context allocation, in bytes.
const MAX_BYTES: u64 = 1 << 24;

/// Most allocations of one context, and of one device.
const MAX_PER_OWNER: usize = 64;

/// The allocations of one context.
struct OfContext {
    device: Arc<Device>,
    /// They are never moved.
    stay: bool,
    /// The memory manager's own context, which gives them their content itself.
    paging: bool,
    /// Its making is over: what comes now is given its content at once.
    made: bool,
    areas: Areas,
}

/// The allocations of one owner, by their handles.
type Areas = BTreeMap<OsHandle, Arc<AllocationObject>>;

/// All of an adapter, by context and by device.
pub(crate) struct ContextAllocations {
    contexts: Mutex<BTreeMap<OsHandle, OfContext>>,
    devices: Mutex<BTreeMap<OsHandle, Areas>>,
}

impl ContextAllocations {
    pub(crate) fn new(platform: &Platform) -> ContextAllocations {
        ContextAllocations {
            contexts: platform.mutex("context allocations", BTreeMap::new()),
            devices: platform.mutex("context allocations of devices", BTreeMap::new()),
        }
    }

    /// Those of a context, with their handles.
    pub(crate) fn of(&self, context: OsHandle) -> Vec<(OsHandle, Arc<AllocationObject>)> {
        let contexts = self.contexts.lock();
        let areas = contexts.get(&context).into_iter().flat_map(|of| &of.areas);
        areas.map(|(handle, area)| (*handle, area.clone())).collect()
    }

    /// How many there are, and how many of them are in local memory.
    pub(crate) fn census(&self) -> (usize, usize) {
        let mut areas: Vec<Arc<AllocationObject>> = {
            let contexts = self.contexts.lock();
            contexts.values().flat_map(|of| of.areas.values().cloned()).collect()
        };
        areas.extend(self.devices.lock().values().flat_map(|areas| areas.values().cloned()));
        (areas.len(), areas.iter().filter(|area| area.is_local()).count())
    }
}

/// A context is about to be made.
pub(crate) fn begin(device: &Arc<Device>, context: OsHandle, desc: &ContextDesc) {
    let of_context = OfContext {
        device: device.clone(),
        stay: desc.paging || desc.hardware_scheduled,
        paging: desc.paging,
        made: false,
        areas: BTreeMap::new(),
    };
    device.adapter.context_allocations.contexts.lock().insert(context, of_context);
}

/// The context is made: what its driver has asked for is given its first content.
pub(crate) fn initialise(adapter: &Arc<Adapter>, context: OsHandle) {
    let areas = {
        let mut contexts = adapter.context_allocations.contexts.lock();
        let Some(of_context) = contexts.get_mut(&context) else { return };
        of_context.made = true;
        if of_context.paging {
            return;
        }
        of_context.areas.clone()
    };
    areas.iter().for_each(|(handle, area)| give_content(adapter, context, *handle, area));
}

fn give_content(
    adapter: &Arc<Adapter>,
    context: OsHandle,
    allocation: OsHandle,
    area: &Arc<AllocationObject>,
) {
    adapter.sched.area_lacks_content(context);
    adapter.memory.give_content(adapter, allocation, context, area, None);
}

/// DxgkCbCreateContextAllocation.
///
/// # Errors
/// INVALID_PARAMETER for a size that is not whole pages, or too large; INVALID_HANDLE for an
/// unknown owner; INSUFFICIENT_RESOURCES when it has too many; CANCELLED when the machine stopped.
// spec: PRE-013
pub(crate) fn create(
    adapter: &Arc<Adapter>,
    args: CreateContextAllocation,
) -> Result<ContextAllocation, Status> {
    let whole_pages = args.bytes.is_multiple_of(adapter.shape.page_bytes);
    if !whole_pages || args.bytes == 0 || args.bytes > MAX_BYTES {
        return Err(Status::INVALID_PARAMETER);
    }
    match args.owner {
        ContextAllocationOwner::Context(context) => create_of_context(adapter, context, args.bytes),
        ContextAllocationOwner::Device(device) => create_of_device(adapter, device, args.bytes),
    }
}

fn create_of_context(
    adapter: &Arc<Adapter>,
    context: OsHandle,
    bytes: u64,
) -> Result<ContextAllocation, Status> {
    let (device, stays) = {
        let contexts = adapter.context_allocations.contexts.lock();
        let of_context = contexts.get(&context).ok_or(Status::INVALID_HANDLE)?;
        if of_context.areas.len() >= MAX_PER_OWNER {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        (of_context.device.clone(), of_context.stay)
    };
    let area = AllocationObject::save_area(&device, bytes, context, stays)?;
    let (os_handle, system_gpu_va) = (adapter.new_handle(), area.gpu_va);
    let at_once = {
        let mut contexts = adapter.context_allocations.contexts.lock();
        match contexts.get_mut(&context) {
            Some(of_context) => {
                of_context.areas.insert(os_handle, area.clone());
                of_context.made && !of_context.paging
            }
            // It ended meanwhile.
            None => return Err(Status::INVALID_HANDLE),
        }
    };
    if at_once {
        give_content(adapter, context, os_handle, &area);
    }
    Ok(ContextAllocation { os_handle, system_gpu_va })
}

/// Blocks until the allocation has its first content. The memory manager's own device has none: it
/// would wait for itself.
fn create_of_device(
    adapter: &Arc<Adapter>,
    owner: OsHandle,
    bytes: u64,
) -> Result<ContextAllocation, Status> {
    let live = || adapter.devices.lock().get(owner);
    let device = live().filter(|device| !device.is_of_kernel()).ok_or(Status::INVALID_HANDLE)?;
    let of_device = |adapter: &Adapter| {
        adapter.context_allocations.devices.lock().get(&owner).map_or(0, Areas::len)
    };
    if of_device(adapter) >= MAX_PER_OWNER {
        return Err(Status::INSUFFICIENT_RESOURCES);
    }
    let _awake = adapter.awake();
    let area = AllocationObject::save_area(&device, bytes, owner, true)?;
    let (os_handle, system_gpu_va) = (adapter.new_handle(), area.gpu_va);
    adapter
        .context_allocations
        .devices
        .lock()
        .entry(owner)
        .or_default()
        .insert(os_handle, area.clone());
    // A device that ended meanwhile searched its allocations either before this one was entered, or
    // found it.
    if live().is_none() {
        end_of_device(adapter, owner);
        return Err(Status::INVALID_HANDLE);
    }
    let done = adapter.platform.event(true);
    adapter.memory.give_content(adapter, os_handle, owner, &area, Some(done.clone()));
    match done.wait_for(None, "the first content of a context allocation") {
        WaitEnd::Stopped => Err(Status::CANCELLED),
        _ => Ok(ContextAllocation { os_handle, system_gpu_va }),
    }
}

/// DxgkCbDestroyContextAllocation.
///
/// # Errors
/// INVALID_HANDLE when there is none.
pub(crate) fn destroy(adapter: &Arc<Adapter>, allocation: OsHandle) -> Result<(), Status> {
    let found = {
        let mut contexts = adapter.context_allocations.contexts.lock();
        contexts
            .iter_mut()
            .find_map(|(context, of)| Some((*context, of.areas.remove(&allocation)?)))
    };
    if let Some((context, area)) = found {
        let gone = adapter.sched.release_or_keep(context, area);
        drop(gone);
        return Ok(());
    }
    let found = {
        let mut devices = adapter.context_allocations.devices.lock();
        devices.iter_mut().find_map(|(device, areas)| Some((*device, areas.remove(&allocation)?)))
    };
    let (device, area) = found.ok_or(Status::INVALID_HANDLE)?;
    let_go_of_device(adapter, device, vec![area]);
    Ok(())
}

/// Ends the allocations of a device that ends and that its driver has not destroyed.
pub(crate) fn end_of_device(adapter: &Arc<Adapter>, device: OsHandle) {
    let areas = adapter.context_allocations.devices.lock().remove(&device);
    let_go_of_device(adapter, device, areas.into_iter().flat_map(Areas::into_values).collect());
}

/// Frees the areas of a device once no packet of its contexts is on an engine.
fn let_go_of_device(adapter: &Arc<Adapter>, device: OsHandle, areas: Vec<Arc<AllocationObject>>) {
    let contexts: Vec<OsHandle> = {
        let contexts = adapter.context_allocations.contexts.lock();
        let of_device = contexts.iter().filter(|(_, of)| of.device.os_handle == device);
        of_device.map(|(context, _)| *context).collect()
    };
    for area in areas {
        for context in &contexts {
            let gone = adapter.sched.release_or_keep(*context, area.clone());
            drop(gone);
        }
    }
}

/// The context is gone, or was never made: what its driver has not given back goes with it.
pub(crate) fn end(adapter: &Arc<Adapter>, context: OsHandle) {
    let of_context = adapter.context_allocations.contexts.lock().remove(&context);
    let Some(of_context) = of_context else { return };
    let of_device = {
        let devices = adapter.context_allocations.devices.lock();
        devices.get(&of_context.device.os_handle).cloned().unwrap_or_default()
    };
    // Its last packet may use those of its device too.
    for area in of_context.areas.into_values().chain(of_device.into_values()) {
        let gone = adapter.sched.release_or_keep(context, area);
        drop(gone);
    }
}
