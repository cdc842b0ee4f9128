//! Owns allocations: memory, its place on the bus, its GPU address.

use super::AddressSpace;
use crate::adapter::Adapter;
use crate::memory::Access;
use std::sync::Arc;
use tidegate_calls::{AllocationKind, AllocationMemory, CreateAllocation, Placement, Status};
use tidegate_ddi::memory::Segment;
use tidegate_platform::{PhysicalAddress, PhysicalMemory};

/// Largest allocation.
const MAX_BYTES: u64 = 1 << 36;

/// One allocation of a device. It lives while a handle, a doorbell or a fence holds it.
// spec: UMS-037
pub(crate) struct AllocationObject {
    space: Arc<AddressSpace>,
    bus: PhysicalMemory,
    at: PhysicalAddress,
    pub(crate) gpu_va: u64,
    pub(crate) bytes: u64,
    pub(crate) memory: AllocationMemory,
    pub(crate) device: tidegate_ddi::OsHandle,
    /// Whether it stands in the device's memory.
    pub(crate) is_local: bool,
}

impl AllocationObject {
    pub(crate) fn new(
        adapter: &Arc<Adapter>,
        space: &Arc<AddressSpace>,
        device: tidegate_ddi::OsHandle,
        args: &CreateAllocation,
    ) -> Result<AllocationObject, Status> {
        if args.bytes == 0 || args.bytes > MAX_BYTES {
            return Err(Status::INVALID_PARAMETER);
        }
        let bus = match args.placement {
            Placement::System => adapter.system_memory.clone(),
            Placement::Local => local(adapter, 0)?,
            Placement::LocalOf(physical_adapter) => local(adapter, physical_adapter)?,
        };
        let (at, memory) = match args.kind {
            AllocationKind::Bulk => {
                let (at, bulk) = bus.bulk(args.bytes as usize);
                (at, AllocationMemory::Bulk(bulk))
            }
            AllocationKind::Protocol => {
                let (at, page) = bus.protocol(args.bytes.div_ceil(8) as usize);
                (at, AllocationMemory::Protocol(page))
            }
        };
        let gpu_va = space.map(at, args.bytes, Access::ReadWrite).inspect_err(|_| {
            bus.remove(at);
        })?;
        let is_local = args.placement == Placement::Local;
        let bytes = args.bytes;
        Ok(AllocationObject { space: space.clone(), bus, at, gpu_va, bytes, memory, device, is_local })
    }
}

/// The segment of a physical adapter that the CPU reaches.
fn local(adapter: &Adapter, physical_adapter: u32) -> Result<PhysicalMemory, Status> {
    if physical_adapter >= adapter.physical_adapters() {
        return Err(Status::INVALID_PARAMETER);
    }
    let of_it = |s: &&Segment| s.cpu_visible && s.physical_adapter == physical_adapter;
    let visible = adapter.segments.iter().find(of_it);
    Ok(visible.ok_or(Status::NOT_SUPPORTED)?.memory.clone())
}

impl Drop for AllocationObject {
    fn drop(&mut self) {
        self.space.unmap(self.gpu_va, self.bytes);
        self.bus.remove(self.at);
    }
}
