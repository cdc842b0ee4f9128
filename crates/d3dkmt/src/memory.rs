//! Calls about allocations, residency, and GPU addresses.
//!
//! An allocation is described by its private driver data, [`AllocationData`], or is a standard
//! allocation: memory that the caller has. It is created resident and mapped, with one reference.
//!
//! Invariant: pages of the caller become the memory of an allocation by a second mapping of it, so
//! that engines and caller see the same bytes, also behind a service.

use crate::call::Call;
use crate::library::ended;
use crate::named_object::Object;
use crate::object::{Allocation, Device, PagingQueue};
use crate::resource;
use crate::sync::{enter_fence, value_address};
use std::sync::Arc;
use tidegate_calls::{
    self as calls, AllocationKind, AllocationMemory, Handle, PagingPriority, Placement, Residency,
    ResidencyPriority, Status,
};
use tidegate_wddm_abi::d3dkmthk::{
    AllocationInfo, AllocationInfo2, CreateAllocation, CreateAllocationFlags, CreatePagingQueue,
    CreateStandardAllocation, DestroyAllocation, DestroyAllocation2, DestroyPagingQueue, Evict,
    EvictFlags, GetAllocationPriority, Lock2, MakeResident, MakeResidentFlags,
    QueryAllocationResidency, STANDARD_ALLOCATION_EXISTING_HEAP, SetAllocationPriority, Unlock2,
};

/// Most allocations of one call.
const MOST_ALLOCATIONS: usize = 4096;
/// Bits of D3DKMT_CREATEALLOCATIONFLAGS that no kit defines.
const RESERVED_FLAGS: u32 = !0 << 18;
/// Bytes of the private driver data of an allocation: its size as 64 bits, its kind and its
/// placement as 32 bits each. `TIDEGATE_ALLOCATION_DATA` in the header.
const ALLOCATION_DATA_BYTES: u32 = 16;

/// What is created.
struct Description {
    bytes: u64,
    kind: AllocationKind,
    placement: Placement,
    /// Address of the caller's pages that become its memory; 0 for none.
    system_memory: u64,
}

/// Reads the description of an allocation from its private driver data.
fn description(call: &Call, data: u64, bytes: u32) -> Result<Description, Status> {
    if bytes != ALLOCATION_DATA_BYTES {
        return Err(Status::INVALID_PARAMETER);
    }
    let words = call.caller.numbers::<u64>(data, 2, 2)?;
    let kind = match words[1] as u32 {
        0 => AllocationKind::Bulk,
        1 => AllocationKind::Protocol,
        _ => return Err(Status::INVALID_PARAMETER),
    };
    let placement = match (words[1] >> 32) as u32 {
        0 => Placement::System,
        1 => Placement::Local,
        2 => Placement::LocalOnDemand,
        _ => return Err(Status::INVALID_PARAMETER),
    };
    Ok(Description { bytes: words[0], kind, placement, system_memory: 0 })
}

/// Reads the bytes of a standard allocation, if a call describes one: memory that the caller has.
/// The statuses are those of Windows (Wine's dlls/win32u/tests/d3dkmt.c).
fn standard(
    call: &Call,
    args: &CreateAllocation,
    flags: CreateAllocationFlags,
) -> Result<Option<u64>, Status> {
    use CreateAllocationFlags as Flags;
    if !flags.contains(Flags::STANDARD_ALLOCATION) {
        let existing = flags.intersects(Flags::EXISTING_SYS_MEM | Flags::EXISTING_SECTION);
        return if existing { Err(Status::INVALID_PARAMETER) } else { Ok(None) };
    }
    if flags.contains(Flags::EXISTING_SECTION) {
        return Err(Status::NOT_SUPPORTED);
    }
    let is_one = args.num_allocations == 1 && args.private_driver_data_size == 0;
    if !flags.contains(Flags::EXISTING_SYS_MEM) || !is_one || args.resource != 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    let standard: CreateStandardAllocation = call.caller.read(args.private_driver_data)?;
    if standard.allocation_type != STANDARD_ALLOCATION_EXISTING_HEAP {
        return Err(Status::INVALID_PARAMETER);
    }
    match standard.heap_bytes {
        0 => Err(Status::INVALID_PARAMETER),
        bytes => Ok(Some(bytes)),
    }
}

/// Makes pages of the caller the memory of an allocation.
fn adopt(call: &Call, made: &calls::Allocation, address: u64) -> Result<(), Status> {
    let memory = match &made.memory {
        AllocationMemory::Bulk(bytes) => bytes.cpu_address(),
        _ => None,
    };
    let overlaps = |other: &Allocation| {
        let at = other.system_memory;
        at != 0 && at < address.saturating_add(made.bytes) && address < at + other.bytes
    };
    // The pages of two allocations would be one of them's only.
    if call.library.has_allocation(overlaps) {
        return Err(Status::NOT_SUPPORTED);
    }
    let memory = memory.ok_or(Status::NOT_SUPPORTED)?;
    call.caller.replace_pages(address, memory, made.bytes)
}

fn create_one(
    call: &Call,
    device: &Arc<Device>,
    wanted: &Description,
    of_shared: bool,
) -> Result<(Handle, u64), Status> {
    let kernel = device.kernel();
    let made = kernel.create_allocation(calls::CreateAllocation {
        device: device.handle,
        bytes: wanted.bytes,
        kind: wanted.kind,
        placement: wanted.placement,
    })?;
    let (in_kernel, gpu_va) = (made.handle, made.gpu_va);
    let end = || {
        let _ended = kernel.destroy_allocation(in_kernel);
    };
    if wanted.system_memory != 0 {
        adopt(call, &made, wanted.system_memory).inspect_err(|_| end())?;
    }
    let mut allocation = Allocation::new(&call.library.platform, device, made, of_shared);
    allocation.system_memory = wanted.system_memory;
    let handle = call.library.insert(Object::Allocation(Arc::new(allocation)), end)?;
    Ok((handle, gpu_va))
}

/// Ends an allocation of a device.
fn destroy_one(call: &Call, device: &Arc<Device>, handle: Handle) -> Result<(), Status> {
    let allocation = call.library.allocation(handle)?;
    if !Arc::ptr_eq(&allocation.device, device) {
        return Err(Status::INVALID_PARAMETER);
    }
    ended(device.kernel().destroy_allocation(allocation.handle))?;
    call.library.remove(handle);
    Ok(())
}

/// One of the two forms of a description in the caller's array.
trait Info: tidegate_wddm_abi::Published {
    fn private_data(&self) -> (u64, u32);
    fn system_memory(&self) -> u64;
    fn answer(&mut self, allocation: Handle, gpu_va: u64);
}

impl Info for AllocationInfo {
    fn private_data(&self) -> (u64, u32) {
        (self.private_driver_data, self.private_driver_data_size)
    }

    fn system_memory(&self) -> u64 {
        self.system_memory
    }

    fn answer(&mut self, allocation: Handle, _gpu_va: u64) {
        self.allocation = allocation.0;
    }
}

impl Info for AllocationInfo2 {
    fn private_data(&self) -> (u64, u32) {
        (self.private_driver_data, self.private_driver_data_size)
    }

    fn system_memory(&self) -> u64 {
        self.system_memory
    }

    fn answer(&mut self, allocation: Handle, gpu_va: u64) {
        (self.allocation, self.gpu_va) = (allocation.0, gpu_va);
    }
}

fn create<I: Info>(call: &Call, args: &mut CreateAllocation) -> Result<(), Status> {
    use CreateAllocationFlags as Flags;
    let library = call.library;
    let device = library.device(args.device)?;
    if args.flags & RESERVED_FLAGS != 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    let flags = Flags::from_bits_truncate(args.flags);
    let count = args.num_allocations as usize;
    let makes_resource = flags.contains(Flags::CREATE_RESOURCE);
    let shares = flags.contains(Flags::CREATE_SHARED);
    if (shares && !makes_resource) || (flags.contains(Flags::NT_SECURITY_SHARING) && !shares) {
        return Err(Status::INVALID_PARAMETER);
    }
    if count > MOST_ALLOCATIONS || (count == 0 && !makes_resource) {
        return Err(Status::INVALID_PARAMETER);
    }
    let existing = match args.resource {
        0 => None,
        named => Some(library.resource(named).map_err(|_| Status::INVALID_HANDLE)?),
    };
    if existing.is_some() && makes_resource {
        return Err(Status::INVALID_PARAMETER);
    }
    // What is shared stays what its openers were told.
    if existing.as_ref().is_some_and(|resource| resource.shared.is_some()) {
        return Err(Status::INVALID_PARAMETER);
    }
    let standard = standard(call, args, flags)?;
    let at = |index: usize| args.allocation_info + (index * size_of::<I>()) as u64;
    let infos: Result<Vec<I>, Status> = (0..count).map(|n| call.caller.read(at(n))).collect();
    let mut infos = infos?;
    let describe = |info: &I| match (standard, info.system_memory()) {
        (Some(_), 0) => Err(Status::INVALID_PARAMETER),
        (Some(bytes), system_memory) => {
            let (kind, placement) = (AllocationKind::Bulk, Placement::System);
            Ok(Description { bytes, kind, placement, system_memory })
        }
        (None, system_memory) => {
            let (data, bytes) = info.private_data();
            Ok(Description { system_memory, ..description(call, data, bytes)? })
        }
    };
    let wanted = infos.iter().map(describe).collect::<Result<Vec<_>, Status>>()?;
    let private = infos.iter().map(Info::private_data);
    let data = match shares {
        true => Some(resource::passed_data(call, args, standard.is_none(), private)?),
        false => None,
    };
    let mut made = Vec::with_capacity(count);
    let undo = |made: &[Handle]| {
        made.iter().for_each(|handle| {
            let _ended = destroy_one(call, &device, *handle);
        });
    };
    for (info, wanted) in infos.iter_mut().zip(&wanted) {
        match create_one(call, &device, wanted, shares) {
            Ok((handle, gpu_va)) => {
                info.answer(handle, gpu_va);
                made.push(handle);
            }
            Err(refusal) => {
                undo(&made);
                return Err(refusal);
            }
        }
    }
    args.global_share = 0;
    if let Some(resource) = existing {
        resource.allocations.lock().extend(made);
    } else if makes_resource {
        let nt_shared = flags.contains(Flags::NT_SECURITY_SHARING);
        let shared = data.map(|data| resource::share(call, &device, &made, &data, nt_shared));
        let shared = shared.transpose().inspect_err(|_| undo(&made))?;
        let entered = resource::enter(call, &device, made, shared.map(|shared| shared.handle));
        args.resource = entered?.0;
        args.global_share = shared.map_or(0, |shared| shared.shared_handle);
    }
    infos.into_iter().enumerate().try_for_each(|(n, info)| call.caller.write(at(n), info))
}

pub(crate) fn create_allocation(call: &Call, args: &mut CreateAllocation) -> Result<(), Status> {
    create::<AllocationInfo>(call, args)
}

pub(crate) fn create_allocation2(call: &Call, args: &mut CreateAllocation) -> Result<(), Status> {
    create::<AllocationInfo2>(call, args)
}

fn destroy(call: &Call, device: u32, resource: u32, list: u64, count: u32) -> Result<(), Status> {
    let device = call.library.device(device)?;
    let allocations = if resource != 0 {
        let found = call.library.resource(resource)?;
        if count != 0 || !Arc::ptr_eq(&found.device, &device) {
            return Err(Status::INVALID_PARAMETER);
        }
        if found.shared.is_some() {
            return resource::destroy(call, Handle(resource), &found);
        }
        call.library.remove(resource).ok_or(Status::INVALID_PARAMETER)?;
        found.allocations.lock().clone()
    } else {
        let named = call.caller.handles(list, count, MOST_ALLOCATIONS)?;
        // All are checked before one ends.
        for handle in &named {
            let found = call.library.allocation(*handle)?;
            if !Arc::ptr_eq(&found.device, &device) || found.of_shared {
                return Err(Status::INVALID_PARAMETER);
            }
        }
        named
    };
    let mut first = Ok(());
    for handle in allocations {
        let destroyed = destroy_one(call, &device, handle);
        // An allocation of a resource may have ended by itself.
        if resource == 0 {
            first = first.and(destroyed);
        }
    }
    first
}

pub(crate) fn destroy_allocation(call: &Call, args: &DestroyAllocation) -> Result<(), Status> {
    destroy(call, args.device, args.resource, args.allocation_list, args.allocation_count)
}

pub(crate) fn destroy_allocation2(call: &Call, args: &DestroyAllocation2) -> Result<(), Status> {
    destroy(call, args.device, args.resource, args.allocation_list, args.allocation_count)
}

/// An allocation of a device.
fn of_device(
    call: &Call,
    device: u32,
    allocation: impl Into<crate::library::NamedHandle>,
) -> Result<(Arc<Device>, Arc<Allocation>), Status> {
    let device = call.library.device(device)?;
    let allocation = call.library.allocation(allocation)?;
    match Arc::ptr_eq(&allocation.device, &device) {
        true => Ok((device, allocation)),
        false => Err(Status::INVALID_PARAMETER),
    }
}

// spec: MF-091
pub(crate) fn lock2(call: &Call, args: &mut Lock2) -> Result<(), Status> {
    let (device, allocation) = of_device(call, args.device, args.allocation)?;
    if args.flags != 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    device.kernel().lock2(device.handle, allocation.handle)?;
    // Memory that moves has no address that stays valid.
    args.data = match &allocation.memory {
        AllocationMemory::Bulk(bytes) => bytes.cpu_address().ok_or(Status::INVALID_PARAMETER)?,
        AllocationMemory::Protocol(words) => words.word(0).cpu_address(),
        AllocationMemory::Window(_) | AllocationMemory::ByCalls(_) => {
            return Err(Status::NOT_SUPPORTED);
        }
    };
    let mut locks = allocation.locks.lock();
    *locks = locks.checked_add(1).ok_or(Status::INSUFFICIENT_RESOURCES)?;
    Ok(())
}

/// Ends one lock. The address stays valid as long as the allocation.
pub(crate) fn unlock2(call: &Call, args: &Unlock2) -> Result<(), Status> {
    let (_, allocation) = of_device(call, args.device, args.allocation)?;
    let mut locks = allocation.locks.lock();
    *locks = locks.checked_sub(1).ok_or(Status::INVALID_PARAMETER)?;
    Ok(())
}

// spec: RES-011
pub(crate) fn create_paging_queue(call: &Call, args: &mut CreatePagingQueue) -> Result<(), Status> {
    let library = call.library;
    let device = library.device(args.device)?;
    let priority = match args.priority as i32 {
        -1 => PagingPriority::BelowNormal,
        0 => PagingPriority::Normal,
        1 => PagingPriority::AboveNormal,
        _ => return Err(Status::INVALID_PARAMETER),
    };
    if args.physical_adapter_index >= device.kernel().query_adapter_info().physical_adapters {
        return Err(Status::INVALID_PARAMETER);
    }
    let create = calls::CreatePagingQueue { device: device.handle, priority };
    let made = device.kernel().create_paging_queue(create)?;
    let end = || {
        let _ended = device.kernel().destroy_paging_queue(made.handle);
    };
    let fence = enter_fence(call, &device, &made.fence, false).inspect_err(|_| end())?;
    let queue = PagingQueue { device: device.clone(), handle: made.handle, fence };
    let handle = library.insert(Object::PagingQueue(Arc::new(queue)), || {
        library.remove(fence);
        end();
    })?;
    (args.paging_queue, args.sync_object) = (handle.0, fence.0);
    args.fence_value_cpu_va = value_address(&made.fence);
    Ok(())
}

pub(crate) fn destroy_paging_queue(call: &Call, args: &DestroyPagingQueue) -> Result<(), Status> {
    let queue = call.library.paging_queue(args.paging_queue)?;
    ended(queue.device.kernel().destroy_paging_queue(queue.handle))?;
    call.library.remove(args.paging_queue);
    call.library.remove(queue.fence);
    Ok(())
}

/// The kernel's handles of allocations.
fn in_kernel(allocations: &[Arc<Allocation>]) -> Vec<Handle> {
    allocations.iter().map(|allocation| allocation.handle).collect()
}

/// Resolves a list of allocations of a device.
fn allocations(
    call: &Call,
    device: &Arc<Device>,
    list: u64,
    count: u32,
) -> Result<Vec<Arc<Allocation>>, Status> {
    let handles = call.caller.handles(list, count, MOST_ALLOCATIONS)?;
    if handles.is_empty() {
        return Err(Status::INVALID_PARAMETER);
    }
    let resolve = |handle: Handle| {
        let found = call.library.allocation(handle)?;
        match Arc::ptr_eq(&found.device, device) {
            true => Ok(found),
            false => Err(Status::INVALID_PARAMETER),
        }
    };
    handles.into_iter().map(resolve).collect()
}

// spec: RES-012
pub(crate) fn make_resident(call: &Call, args: &mut MakeResident) -> Result<Status, Status> {
    let queue = call.library.paging_queue(args.paging_queue)?;
    MakeResidentFlags::from_bits(args.flags).ok_or(Status::INVALID_PARAMETER)?;
    let (device, count) = (&queue.device, args.num_allocations);
    let named = allocations(call, device, args.allocation_list, count)?;
    if args.priority_list != 0 {
        let priorities = call.caller.numbers(args.priority_list, count, MOST_ALLOCATIONS)?;
        set_priorities(&named, &priorities)?;
    }
    let (paging_queue, allocations) = (queue.handle, &in_kernel(&named)[..]);
    let wanted = calls::MakeResident { paging_queue, allocations };
    let outcome = device.kernel().make_resident(wanted)?;
    (args.paging_fence_value, args.num_bytes_to_trim) = (0, 0);
    match outcome {
        Residency::Resident => Ok(Status::SUCCESS),
        Residency::Pending { paging_fence_value } => {
            args.paging_fence_value = paging_fence_value;
            Ok(Status::PENDING)
        }
        Residency::OverBudget { bytes_to_trim } => {
            (args.num_allocations, args.num_bytes_to_trim) = (0, bytes_to_trim);
            Err(Status::NO_MEMORY)
        }
    }
}

pub(crate) fn evict(call: &Call, args: &mut Evict) -> Result<(), Status> {
    let device = call.library.device(args.device)?;
    EvictFlags::from_bits(args.flags).ok_or(Status::INVALID_PARAMETER)?;
    let named = allocations(call, &device, args.allocation_list, args.num_allocations)?;
    args.num_bytes_to_trim = 0;
    device.kernel().evict(device.handle, &in_kernel(&named))
}

fn set_priorities(allocations: &[Arc<Allocation>], all: &[u32]) -> Result<(), Status> {
    allocations.iter().zip(all).try_for_each(|(allocation, priority)| {
        let priority = ResidencyPriority(*priority);
        let (device, named) = (&allocation.device, &[allocation.handle]);
        device.kernel().set_allocation_priority(device.handle, named, priority)?;
        *allocation.priority.lock() = priority;
        Ok(())
    })
}

/// Resolves the allocations of a resource or of a list: at least one.
fn of_resource_or_list(
    call: &Call,
    device: u32,
    resource: u32,
    list: u64,
    count: u32,
) -> Result<Vec<Arc<Allocation>>, Status> {
    let device = call.library.device(device)?;
    if resource == 0 {
        return allocations(call, &device, list, count);
    }
    let found = call.library.resource(resource)?;
    if count != 0 || !Arc::ptr_eq(&found.device, &device) {
        return Err(Status::INVALID_PARAMETER);
    }
    let handles = found.allocations.lock().clone();
    // An allocation of a resource may have ended by itself.
    let named = handles.into_iter().filter_map(|handle| call.library.allocation(handle).ok());
    let named: Vec<Arc<Allocation>> = named.collect();
    if named.is_empty() { Err(Status::INVALID_PARAMETER) } else { Ok(named) }
}

pub(crate) fn query_allocation_residency(
    call: &Call,
    args: &QueryAllocationResidency,
) -> Result<(), Status> {
    let (list, count) = (args.allocation_list, args.allocation_count);
    let named = of_resource_or_list(call, args.device, args.resource, list, count)?;
    let device = &named[0].device;
    let found = device.kernel().query_allocation_residency(device.handle, &in_kernel(&named))?;
    let all: Vec<u32> = found.into_iter().map(|status| status as u32).collect();
    // A resource is where its furthest allocation is.
    let of_resource = all.iter().copied().max();
    match args.resource {
        0 => call.caller.write_numbers(args.residency_status, &all),
        _ => call.caller.write_numbers(args.residency_status, of_resource.as_slice()),
    }
}

pub(crate) fn set_allocation_priority(
    call: &Call,
    args: &SetAllocationPriority,
) -> Result<(), Status> {
    let (list, count) = (args.allocation_list, args.allocation_count);
    let named = of_resource_or_list(call, args.device, args.resource, list, count)?;
    // A resource has one priority for all its allocations.
    let count = if args.resource == 0 { args.allocation_count } else { 1 };
    let mut priorities = call.caller.numbers(args.priorities, count, MOST_ALLOCATIONS)?;
    priorities.resize(named.len(), priorities[0]);
    set_priorities(&named, &priorities)
}

pub(crate) fn get_allocation_priority(
    call: &Call,
    args: &GetAllocationPriority,
) -> Result<(), Status> {
    let (list, count) = (args.allocation_list, args.allocation_count);
    let named = of_resource_or_list(call, args.device, args.resource, list, count)?;
    let count = if args.resource == 0 { named.len() } else { 1 };
    let priorities = named.iter().take(count).map(|found| found.priority.lock().0);
    call.caller.write_numbers(args.priorities, &priorities.collect::<Vec<u32>>())
}
