//! Owns the memory of a resource: a kernel allocation, its own or a part of a heap's, and the window
//! through which the CPU reaches it.

use crate::umd::checked_memory;
use crate::umd::kernel_object::{KernelDevice, Object, Owned};
use std::sync::Arc;
use tidegate_calls::{
    AllocationKind, AllocationMemory, CreateAllocation, Handle, Placement, Status,
};
use tidegate_platform::hazard::{AccessKind, ResourceKey};
use tidegate_platform::{Bulk, BulkWindow, OutOfBounds};

pub(crate) struct BufferMemory {
    pub(crate) name: String,
    pub(crate) gpu_va: u64,
    pub(crate) bytes: u64,
    /// Its name in the hazard check.
    checked: Option<ResourceKey>,
    /// Where it begins in the allocation.
    offset: u64,
    allocation: Arc<MappedAllocation>,
}

/// An allocation that the CPU reaches.
pub(crate) struct MappedAllocation {
    gpu_va: u64,
    bytes: u64,
    mapping: Mapping,
    owned: Owned,
}

/// Where the CPU finds an allocation's bytes.
enum Mapping {
    Fixed(Bulk),
    /// The bytes move between local and system memory; the window follows them.
    Movable(BulkWindow),
}

impl MappedAllocation {
    pub(crate) fn new(
        device: &Arc<KernelDevice>,
        bytes: u64,
        placement: Placement,
    ) -> Result<MappedAllocation, Status> {
        let kind = AllocationKind::Bulk;
        let args = CreateAllocation { device: device.handle(), bytes, kind, placement };
        let made = device.enter().create_allocation(args)?;
        let owned = Owned::new(device, Object::Allocation, made.handle);
        let mapping = match made.memory {
            AllocationMemory::Bulk(bulk) => Mapping::Fixed(bulk),
            AllocationMemory::Window(window) => Mapping::Movable(window),
            AllocationMemory::Protocol(_) => return Err(Status::OBJECT_TYPE_MISMATCH),
        };
        Ok(MappedAllocation { gpu_va: made.gpu_va, bytes, mapping, owned })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn device(&self) -> &Arc<KernelDevice> {
        self.owned.device()
    }
}

impl BufferMemory {
    /// Memory with an allocation of its own.
    pub(crate) fn new(
        device: &Arc<KernelDevice>,
        name: String,
        bytes: u64,
        placement: Placement,
    ) -> Result<BufferMemory, Status> {
        let allocation = Arc::new(MappedAllocation::new(device, bytes, placement)?);
        Ok(BufferMemory::placed(&allocation, name, 0, bytes))
    }

    /// A part of a heap's allocation; the caller has checked that it lies inside.
    pub(crate) fn placed(
        allocation: &Arc<MappedAllocation>,
        name: String,
        offset: u64,
        bytes: u64,
    ) -> BufferMemory {
        let (gpu_va, allocation) = (allocation.gpu_va + offset, Arc::clone(allocation));
        let checked = checked_memory::add(allocation.device(), gpu_va..gpu_va + bytes, &name);
        BufferMemory { name, gpu_va, bytes, offset, allocation, checked }
    }

    /// Whether it is the beginning of its allocation.
    pub(crate) fn begins_allocation(&self) -> bool {
        self.offset == 0
    }

    /// Its allocation, if it moves between local and system memory.
    pub(crate) fn movable(&self) -> Option<Handle> {
        matches!(self.allocation.mapping, Mapping::Movable(_)).then(|| self.allocation())
    }

    pub(crate) fn allocation(&self) -> Handle {
        self.allocation.owned.handle()
    }

    pub(crate) fn device(&self) -> &Arc<KernelDevice> {
        self.allocation.device()
    }

    /// The caller has checked that the range lies inside.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<(), OutOfBounds> {
        let (start, bytes) = (self.gpu_va + offset, data.len() as u64);
        checked_memory::note_access(self.device(), AccessKind::Write, start, bytes);
        match &self.allocation.mapping {
            Mapping::Fixed(bulk) => bulk.write(self.offset + offset, data),
            Mapping::Movable(window) => window.write(self.offset + offset, data),
        }
    }

    /// The caller has checked that the range lies inside.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), OutOfBounds> {
        let (start, bytes) = (self.gpu_va + offset, out.len() as u64);
        checked_memory::note_access(self.device(), AccessKind::Read, start, bytes);
        match &self.allocation.mapping {
            Mapping::Fixed(bulk) => bulk.read(self.offset + offset, out),
            Mapping::Movable(window) => window.read(self.offset + offset, out),
        }
    }
}

impl Drop for BufferMemory {
    fn drop(&mut self) {
        checked_memory::remove(self.device(), self.checked, true);
    }
}
