//! Owns context allocations: what drivers have for the state of their contexts, in the system process's GPU address space.
//!
//! The order that matters:
//! 1. a context that is being made is entered here before the driver hears of it, so that the driver may ask for allocations in the
//!    middle of DxgkDdiCreateContext;
//! 2. when the context is there, each of them is held back from use until the paging context has executed what the driver wrote for
//!    its first content (InitContextResource): VidSch submits no packet of the context before;
//! 3. from then on it is a member of local memory like any allocation: it leaves and comes with its content, and its address stays;
//! 4. when the driver gives it back, or its context ends, it goes, but not before the last packet of the context is off its engine.
//!
//! Those of the memory manager's own context stand in system memory for ever: nobody could move them. So do those of hardware contexts,
//! which are on their engine whenever the hardware likes.
//!
//! `interrupt` (the callbacks) and `context` call in. What stands in an allocation is the driver's business.

use super::AllocationObject;
use crate::adapter::Adapter;
use crate::context::ContextDesc;
use crate::device::Device;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::{ContextAllocation, CreateContextAllocation, OsHandle};
use tidegate_platform::{Mutex, Platform};

/// Largest context allocation, in bytes.
const MAX_BYTES: u64 = 1 << 24;

/// Most allocations of one context.
const MAX_PER_CONTEXT: usize = 64;

/// The allocations of one context.
struct OfContext {
    device: Arc<Device>,
    /// They are never moved.
    stay: bool,
    /// The memory manager's own context, which gives them their content itself.
    paging: bool,
    /// Its making is over: what comes now is given its content at once.
    made: bool,
    areas: BTreeMap<OsHandle, Arc<AllocationObject>>,
}

/// All of an adapter, by context.
pub(crate) struct ContextAllocations {
    contexts: Mutex<BTreeMap<OsHandle, OfContext>>,
}

impl ContextAllocations {
    pub(crate) fn new(platform: &Platform) -> ContextAllocations {
        ContextAllocations { contexts: platform.mutex("context allocations", BTreeMap::new()) }
    }

    /// Those of a context, with their handles.
    pub(crate) fn of(&self, context: OsHandle) -> Vec<(OsHandle, Arc<AllocationObject>)> {
        let contexts = self.contexts.lock();
        let areas = contexts.get(&context).into_iter().flat_map(|of| &of.areas);
        areas.map(|(handle, area)| (*handle, area.clone())).collect()
    }

    /// How many there are, and how many of them are in local memory.
    pub(crate) fn census(&self) -> (usize, usize) {
        let areas: Vec<Arc<AllocationObject>> = {
            let contexts = self.contexts.lock();
            contexts.values().flat_map(|of| of.areas.values().cloned()).collect()
        };
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
    adapter.sched.lock().area_lacks_content(context);
    adapter.memory.give_content(adapter, allocation, context, area);
}

/// DxgkCbCreateContextAllocation.
///
/// # Errors
/// INVALID_PARAMETER for a size that is not whole pages, or too large; INVALID_HANDLE for a context that is not there;
/// INSUFFICIENT_RESOURCES when it has too many.
pub(crate) fn create(
    adapter: &Arc<Adapter>,
    args: CreateContextAllocation,
) -> Result<ContextAllocation, Status> {
    let whole_pages = args.bytes.is_multiple_of(adapter.shape.page_bytes);
    if !whole_pages || args.bytes == 0 || args.bytes > MAX_BYTES {
        return Err(Status::INVALID_PARAMETER);
    }
    let (device, stays) = {
        let contexts = adapter.context_allocations.contexts.lock();
        let of_context = contexts.get(&args.context).ok_or(Status::INVALID_HANDLE)?;
        if of_context.areas.len() >= MAX_PER_CONTEXT {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        (of_context.device.clone(), of_context.stay)
    };
    let area = AllocationObject::save_area(&device, args.bytes, args.context, stays)?;
    let (os_handle, system_gpu_va) = (adapter.new_handle(), area.gpu_va);
    let at_once = {
        let mut contexts = adapter.context_allocations.contexts.lock();
        match contexts.get_mut(&args.context) {
            Some(of_context) => {
                of_context.areas.insert(os_handle, area.clone());
                of_context.made && !of_context.paging
            }
            // It ended meanwhile.
            None => return Err(Status::INVALID_HANDLE),
        }
    };
    if at_once {
        give_content(adapter, args.context, os_handle, &area);
    }
    Ok(ContextAllocation { os_handle, system_gpu_va })
}

/// DxgkCbDestroyContextAllocation.
///
/// # Errors
/// INVALID_HANDLE when there is none.
pub(crate) fn destroy(adapter: &Arc<Adapter>, allocation: OsHandle) -> Result<(), Status> {
    let found = {
        let mut contexts = adapter.context_allocations.contexts.lock();
        contexts.iter_mut().find_map(|(context, of)| Some((*context, of.areas.remove(&allocation)?)))
    };
    let (context, area) = found.ok_or(Status::INVALID_HANDLE)?;
    let gone = adapter.sched.lock().let_go(context, area);
    drop(gone);
    Ok(())
}

/// The context is gone, or was never made: what its driver has not given back goes with it.
pub(crate) fn end(adapter: &Arc<Adapter>, context: OsHandle) {
    let of_context = adapter.context_allocations.contexts.lock().remove(&context);
    let Some(of_context) = of_context else { return };
    for area in of_context.areas.into_values() {
        let gone = adapter.sched.lock().let_go(context, area);
        drop(gone);
    }
}
