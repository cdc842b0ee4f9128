//! Owns the memory of a buffer: its kernel allocation, and the window through which the CPU reaches
//! it.

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
    mapping: Mapping,
    allocation: Owned,
    /// Its name in the hazard check.
    checked: Option<ResourceKey>,
}

/// Where the CPU finds a buffer's bytes.
enum Mapping {
    Fixed(Bulk),
    /// The bytes move between local and system memory; the window follows them.
    Movable(BulkWindow),
}

impl BufferMemory {
    pub(crate) fn new(
        device: &Arc<KernelDevice>,
        name: String,
        bytes: u64,
        placement: Placement,
    ) -> Result<BufferMemory, Status> {
        let kind = AllocationKind::Bulk;
        let args = CreateAllocation { device: device.handle(), bytes, kind, placement };
        let made = device.enter().create_allocation(args)?;
        let allocation = Owned::new(device, Object::Allocation, made.handle);
        let mapping = match made.memory {
            AllocationMemory::Bulk(bulk) => Mapping::Fixed(bulk),
            AllocationMemory::Window(window) => Mapping::Movable(window),
            AllocationMemory::Protocol(_) => return Err(Status::OBJECT_TYPE_MISMATCH),
        };
        let checked = checked_memory::add(device, made.gpu_va..made.gpu_va + bytes, &name);
        Ok(BufferMemory { name, gpu_va: made.gpu_va, bytes, mapping, allocation, checked })
    }

    /// Its allocation, if it moves between local and system memory.
    pub(crate) fn movable(&self) -> Option<Handle> {
        matches!(self.mapping, Mapping::Movable(_)).then(|| self.allocation())
    }

    pub(crate) fn allocation(&self) -> Handle {
        self.allocation.handle()
    }

    pub(crate) fn device(&self) -> &Arc<KernelDevice> {
        self.allocation.device()
    }

    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<(), OutOfBounds> {
        let (start, bytes) = (self.gpu_va + offset, data.len() as u64);
        checked_memory::note_access(self.device(), AccessKind::Write, start, bytes);
        match &self.mapping {
            Mapping::Fixed(bulk) => bulk.write(offset, data),
            Mapping::Movable(window) => window.write(offset, data),
        }
    }

    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), OutOfBounds> {
        let (start, bytes) = (self.gpu_va + offset, out.len() as u64);
        checked_memory::note_access(self.device(), AccessKind::Read, start, bytes);
        match &self.mapping {
            Mapping::Fixed(bulk) => bulk.read(offset, out),
            Mapping::Movable(window) => window.read(offset, out),
        }
    }
}

impl Drop for BufferMemory {
    fn drop(&mut self) {
        checked_memory::remove(self.device(), self.checked, true);
    }
}
