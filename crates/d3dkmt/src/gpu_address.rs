//! Calls about GPU addresses: reserving, mapping, updating and freeing them.
//!
//! An allocation is mapped when it is created, so a map without a wanted address returns the place
//! where it is. A map into reserved addresses is carried out before the call returns. Addresses and
//! sizes inside of reserved addresses are multiples of 64 KiB.

use crate::call::Call;
use crate::gpu_ranges::ReservedRange;
use crate::internal_fence::InternalFence;
use crate::library::ended;
use crate::named_object::Object;
use crate::object::{Adapter, Allocation, Device};
use std::sync::Arc;
use tidegate_calls::{self as calls, Handle, Status, TILE_BYTES, TileOperation, WaitMode};
use tidegate_wddm_abi::d3dkmthk::{
    FreeGpuVirtualAddress, GPU_PAGE_BYTES, GpuProtection, MapGpuVirtualAddress,
    ReserveGpuVirtualAddress, UpdateGpuVirtualAddress, UpdateGpuVirtualAddressOperation,
};

/// Most operations of one update.
const MOST_OPERATIONS: u32 = 4096;
/// D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP and _UNMAP.
const MAP: u32 = 0;
const UNMAP: u32 = 1;

/// Whether an address obeys the bounds of a call; a bound of 0 is none.
fn is_within(gpu_va: u64, bytes: u64, least: u64, most: u64) -> bool {
    gpu_va >= least && (most == 0 || gpu_va + bytes - 1 <= most)
}

/// The device of a reservation: the paging queue's, or any of the adapter, since all devices
/// of a process share its addresses.
fn device_of(call: &Call, handle: u32) -> Result<Arc<Device>, Status> {
    match call.library.object(handle)? {
        Object::PagingQueue(queue) => Ok(queue.device.clone()),
        Object::Adapter(adapter) => {
            call.library.any_device(&adapter).ok_or(Status::INVALID_PARAMETER)
        }
        _ => Err(Status::INVALID_PARAMETER),
    }
}

pub(crate) fn reserve(call: &Call, args: &mut ReserveGpuVirtualAddress) -> Result<(), Status> {
    let device = device_of(call, args.paging_queue)?;
    if args.base_address != 0 {
        return Err(Status::NOT_SUPPORTED);
    }
    let bytes = args.size.checked_next_multiple_of(TILE_BYTES).ok_or(Status::INVALID_PARAMETER)?;
    let wanted = calls::ReserveGpuVirtualAddress { device: device.handle, bytes };
    let made = device.kernel().reserve_gpu_virtual_address(wanted)?;
    if !is_within(made.gpu_va, bytes, args.minimum_address, args.maximum_address) {
        device.kernel().free_gpu_virtual_address(made.handle)?;
        return Err(Status::NO_MEMORY);
    }
    let (handle, gpu_va) = (made.handle, made.gpu_va);
    call.library.gpu_ranges.insert(ReservedRange { device, handle, gpu_va, bytes });
    (args.virtual_address, args.paging_fence_value) = (gpu_va, 0);
    Ok(())
}

/// Changes tiles of reserved addresses now.
fn change_now(range: &ReservedRange, operation: TileOperation) -> Result<(), Status> {
    let (fence, kernel) = (InternalFence::new(&range.device, 0)?, range.device.kernel());
    kernel.update_gpu_virtual_address(calls::UpdateGpuVirtualAddress {
        reserved: range.handle,
        operations: &[operation],
        fence: fence.at(0).fence,
        value: 0,
    })?;
    kernel.wait_from_cpu(&[fence.at(1)], WaitMode::All, None)
}

/// The tiles of addresses in a range.
fn tiles(
    range: &ReservedRange,
    gpu_va: u64,
    bytes: u64,
    memory: Option<(Handle, u64)>,
) -> Result<TileOperation, Status> {
    let from = gpu_va - range.gpu_va;
    if bytes == 0 || !from.is_multiple_of(TILE_BYTES) || !bytes.is_multiple_of(TILE_BYTES) {
        return Err(Status::INVALID_PARAMETER);
    }
    Ok(TileOperation { first: from / TILE_BYTES, count: bytes / TILE_BYTES, memory })
}

/// Bytes of a number of pages.
fn page_bytes(pages: u64) -> Result<u64, Status> {
    pages.checked_mul(GPU_PAGE_BYTES).ok_or(Status::INVALID_PARAMETER)
}

pub(crate) fn map(call: &Call, args: &mut MapGpuVirtualAddress) -> Result<(), Status> {
    let queue = call.library.paging_queue(args.paging_queue)?;
    let protection = GpuProtection::from_bits(args.protection).ok_or(Status::INVALID_PARAMETER)?;
    let (offset, wanted) = (page_bytes(args.offset_in_pages)?, page_bytes(args.size_in_pages)?);
    let adapter = &queue.device.adapter;
    args.paging_fence_value = 0;
    if args.allocation == 0 {
        if !protection.intersects(GpuProtection::NO_ACCESS) {
            return Err(Status::NOT_SUPPORTED);
        }
        let range = call.library.gpu_ranges.around(adapter, args.base_address, wanted)?;
        change_now(&range, tiles(&range, args.base_address, wanted, None)?)?;
        args.virtual_address = args.base_address;
        return Ok(());
    }
    if protection.intersects(GpuProtection::NO_ACCESS | GpuProtection::ZERO) {
        return Err(Status::NOT_SUPPORTED);
    }
    let allocation = call.library.allocation(args.allocation)?;
    let whole = allocation.bytes.next_multiple_of(GPU_PAGE_BYTES);
    let rest = whole.checked_sub(offset).filter(|rest| *rest > 0);
    let rest = rest.ok_or(Status::INVALID_PARAMETER)?;
    let bytes = if wanted == 0 { rest } else { wanted };
    if !allocation.device.adapter.is(adapter) || bytes > rest {
        return Err(Status::INVALID_PARAMETER);
    }
    if args.base_address == 0 {
        let gpu_va = allocation.gpu_va + offset;
        if !is_within(gpu_va, bytes, args.minimum_address, args.maximum_address) {
            return Err(Status::NO_MEMORY);
        }
        args.virtual_address = gpu_va;
        return Ok(());
    }
    let range = call.library.gpu_ranges.around(adapter, args.base_address, bytes)?;
    let memory = Some((allocation.handle, offset));
    change_now(&range, tiles(&range, args.base_address, bytes, memory)?)?;
    args.virtual_address = args.base_address;
    Ok(())
}

/// One operation of an update, and the range that it changes.
fn operation(
    call: &Call,
    adapter: &Adapter,
    operation: &UpdateGpuVirtualAddressOperation,
) -> Result<(ReservedRange, TileOperation), Status> {
    let [gpu_va, bytes, allocation, offset, ..] = operation.arm;
    let range = call.library.gpu_ranges.around(adapter, gpu_va, bytes)?;
    let memory = match operation.operation_type {
        MAP => {
            let mapped = call.library.allocation(allocation as u32)?;
            if !mapped.device.adapter.is(adapter) {
                return Err(Status::INVALID_PARAMETER);
            }
            Some((mapped.handle, offset))
        }
        UNMAP => None,
        _ => return Err(Status::NOT_SUPPORTED),
    };
    let changed = tiles(&range, gpu_va, bytes, memory)?;
    Ok((range, changed))
}

pub(crate) fn update(call: &Call, args: &UpdateGpuVirtualAddress) -> Result<(), Status> {
    let device = call.library.device(args.device)?;
    let of_device = |object: &Object| {
        let is_context = matches!(object, Object::Context(_) | Object::HwContext(_));
        is_context && object.device().is_some_and(|other| Arc::ptr_eq(other, &device))
    };
    let fence = call.library.fence(args.fence)?;
    let count = args.num_operations;
    let is_known = of_device(&call.library.object(args.context)?);
    if !is_known || args.flags > 1 || count == 0 || count > MOST_OPERATIONS {
        return Err(Status::INVALID_PARAMETER);
    }
    if args.flags == 1 {
        // The kernel orders updates only by the fence.
        return Err(Status::NOT_SUPPORTED);
    }
    let bytes = size_of::<UpdateGpuVirtualAddressOperation>() as u64;
    let read = |n: u32| {
        let next = call.caller.read(args.operations + u64::from(n) * bytes)?;
        operation(call, &device.adapter, &next)
    };
    let operations = (0..count).map(read).collect::<Result<Vec<_>, Status>>()?;
    let (range, _) = &operations[0];
    if operations.iter().any(|(other, _)| other.handle != range.handle) {
        // One update of the kernel is about one reservation.
        return Err(Status::NOT_SUPPORTED);
    }
    let operations: Vec<TileOperation> = operations.iter().map(|(_, tiles)| *tiles).collect();
    device.kernel().update_gpu_virtual_address(calls::UpdateGpuVirtualAddress {
        reserved: range.handle,
        operations: &operations,
        fence: fence.handle,
        value: args.fence_value,
    })
}

/// Whether addresses belong to an allocation, which is mapped while it lives.
fn is_inside(allocation: &Allocation, gpu_va: u64, bytes: u64) -> bool {
    let whole = allocation.bytes.next_multiple_of(GPU_PAGE_BYTES);
    let offset = gpu_va.checked_sub(allocation.gpu_va);
    offset.and_then(|offset| offset.checked_add(bytes)).is_some_and(|end| end <= whole)
}

pub(crate) fn free(call: &Call, args: &FreeGpuVirtualAddress) -> Result<(), Status> {
    let adapter = call.library.adapter(args.adapter)?;
    let bytes = args.size.checked_next_multiple_of(TILE_BYTES).ok_or(Status::INVALID_PARAMETER)?;
    let ranges = &call.library.gpu_ranges;
    if let Some(range) = ranges.exactly(&adapter, args.base_address, bytes) {
        ended(range.device.kernel().free_gpu_virtual_address(range.handle))?;
        ranges.remove(&adapter, args.base_address);
        return Ok(());
    }
    let found = |allocation: &Allocation| {
        let same = allocation.device.adapter.is(&adapter);
        same && args.size > 0 && is_inside(allocation, args.base_address, args.size)
    };
    if call.library.has_allocation(found) { Ok(()) } else { Err(Status::INVALID_PARAMETER) }
}
