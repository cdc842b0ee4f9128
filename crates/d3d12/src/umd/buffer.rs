//! The memory of a resource: a private kernel allocation or a range of a heap's allocation, with
//! the CPU's window; or reserved addresses, to which a queue maps memory.

use crate::umd::checked_memory;
use crate::umd::kernel_object::{KernelDevice, Object, Owned};
use std::sync::Arc;
use tidegate_calls::{
    AllocationKind, AllocationMemory, CreateAllocation, Handle, MovingBytes, Placement,
    ReserveGpuVirtualAddress, ReservedAddresses, Status,
};
use tidegate_platform::hazard::{AccessKind, ResourceKey};
use tidegate_platform::{Bulk, BulkWindow, OutOfBounds};

pub(crate) struct BufferMemory {
    pub(crate) name: String,
    pub(crate) gpu_va: u64,
    pub(crate) bytes: u64,
    /// Its key in the hazard check.
    checked: Option<ResourceKey>,
    backing: Backing,
}

/// The backing of a resource's addresses.
enum Backing {
    /// A range of an allocation.
    Allocation {
        /// The offset of the range.
        offset: u64,
        allocation: Arc<MappedAllocation>,
    },
    /// Reserved addresses, to which queues map tiles.
    Reserved(Owned),
}

/// A CPU-visible allocation.
pub(crate) struct MappedAllocation {
    gpu_va: u64,
    bytes: u64,
    mapping: Mapping,
    owned: Owned,
}

/// The CPU's mapping of an allocation.
enum Mapping {
    Fixed(Bulk),
    /// The allocation moves between local and system memory, and the window follows it.
    Movable(BulkWindow),
    /// The same, of a kernel in another process.
    ByCalls(Arc<dyn MovingBytes>),
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
            AllocationMemory::ByCalls(bytes) => Mapping::ByCalls(bytes),
            AllocationMemory::Protocol(_) => return Err(Status::OBJECT_TYPE_MISMATCH),
        };
        Ok(MappedAllocation { gpu_va: made.gpu_va, bytes, mapping, owned })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn gpu_va(&self) -> u64 {
        self.gpu_va
    }

    pub(crate) fn handle(&self) -> Handle {
        self.owned.handle()
    }

    pub(crate) fn device(&self) -> &Arc<KernelDevice> {
        self.owned.device()
    }
}

impl Drop for MappedAllocation {
    fn drop(&mut self) {
        checked_memory::free(self.device(), self.gpu_va..self.gpu_va + self.bytes);
    }
}

impl BufferMemory {
    /// Creates memory with its own allocation.
    pub(crate) fn new(
        device: &Arc<KernelDevice>,
        name: String,
        bytes: u64,
        placement: Placement,
    ) -> Result<BufferMemory, Status> {
        let allocation = Arc::new(MappedAllocation::new(device, bytes, placement)?);
        Ok(BufferMemory::placed(&allocation, name, 0, bytes))
    }

    /// Creates memory in a heap's allocation. The caller has checked the bounds.
    pub(crate) fn placed(
        allocation: &Arc<MappedAllocation>,
        name: String,
        offset: u64,
        bytes: u64,
    ) -> BufferMemory {
        let (gpu_va, allocation) = (allocation.gpu_va + offset, Arc::clone(allocation));
        let checked = checked_memory::add(allocation.device(), gpu_va..gpu_va + bytes, &name);
        let backing = Backing::Allocation { offset, allocation };
        BufferMemory { name, gpu_va, bytes, backing, checked }
    }

    /// Reserves addresses without memory.
    pub(crate) fn reserved(
        device: &Arc<KernelDevice>,
        name: String,
        bytes: u64,
    ) -> Result<BufferMemory, Status> {
        let args = ReserveGpuVirtualAddress { device: device.handle(), bytes };
        let ReservedAddresses { handle, gpu_va } =
            device.enter().reserve_gpu_virtual_address(args)?;
        let backing = Backing::Reserved(Owned::new(device, Object::Reserved, handle));
        let checked = checked_memory::add(device, gpu_va..gpu_va + bytes, &name);
        Ok(BufferMemory { name, gpu_va, bytes, backing, checked })
    }

    /// Returns the handle of its reserved addresses, if it has no memory of its own.
    pub(crate) fn reserved_handle(&self) -> Option<Handle> {
        match &self.backing {
            Backing::Reserved(owned) => Some(owned.handle()),
            Backing::Allocation { .. } => None,
        }
    }

    fn part(&self) -> Option<(&Arc<MappedAllocation>, u64)> {
        match &self.backing {
            Backing::Allocation { offset, allocation } => Some((allocation, *offset)),
            Backing::Reserved(_) => None,
        }
    }

    /// Returns the allocation, if the resource starts at its offset 0.
    pub(crate) fn begun_allocation(&self) -> Option<Handle> {
        self.part().filter(|(_, offset)| *offset == 0).map(|(a, _)| a.owned.handle())
    }

    /// Returns the allocation, if it moves between local and system memory.
    pub(crate) fn movable(&self) -> Option<Handle> {
        let (allocation, _) = self.part()?;
        matches!(allocation.mapping, Mapping::Movable(_) | Mapping::ByCalls(_))
            .then(|| allocation.owned.handle())
    }

    pub(crate) fn device(&self) -> &Arc<KernelDevice> {
        match &self.backing {
            Backing::Allocation { allocation, .. } => allocation.device(),
            Backing::Reserved(owned) => owned.device(),
        }
    }

    /// The caller has checked the bounds.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<(), OutOfBounds> {
        let (start, bytes) = (self.gpu_va + offset, data.len() as u64);
        checked_memory::note_access(self.device(), AccessKind::Write, start, bytes);
        let Some((allocation, first)) = self.part() else {
            return Err(OutOfBounds { offset, len: bytes, size: 0 });
        };
        match &allocation.mapping {
            Mapping::Fixed(bulk) => bulk.write(first + offset, data),
            Mapping::Movable(window) => window.write(first + offset, data),
            Mapping::ByCalls(bytes) => bytes.write(first + offset, data),
        }
    }

    /// The caller has checked the bounds.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), OutOfBounds> {
        let (start, bytes) = (self.gpu_va + offset, out.len() as u64);
        checked_memory::note_access(self.device(), AccessKind::Read, start, bytes);
        let Some((allocation, first)) = self.part() else {
            return Err(OutOfBounds { offset, len: bytes, size: 0 });
        };
        match &allocation.mapping {
            Mapping::Fixed(bulk) => bulk.read(first + offset, out),
            Mapping::Movable(window) => window.read(first + offset, out),
            Mapping::ByCalls(bytes) => bytes.read(first + offset, out),
        }
    }
}

impl Drop for BufferMemory {
    fn drop(&mut self) {
        checked_memory::remove(self.device(), self.checked);
        if let Backing::Reserved(owned) = &self.backing {
            checked_memory::free(owned.device(), self.gpu_va..self.gpu_va + self.bytes);
        }
    }
}
