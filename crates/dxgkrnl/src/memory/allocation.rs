//! Allocations: memory, bus location, GPU address and CPU window.
//!
//! Allocations in system memory, of words, or on a physical adapter other than the first are fixed.
//! All others move between system memory and the CPU-visible segment. Eviction order: 1. the GPU
//! address is unmapped; 2. the CPU window closes; 3. the bytes are copied;
//! 4. the window opens at the new place; 5. the old place leaves the bus. Paging in is the same the
//! other way, and the address is mapped last. During a move engines fault and CPUs wait.
//!
//! Engines may also use an allocation in system memory if local memory has no room for it.

use super::address_space::AddressSpace;
use super::driver_allocation::{OpenedAllocation, SharedObject};
use super::paging_context::{Carrier, Contents};
use super::ports::{LocalMemoryMembers, OwningDevice};
use crate::driver::DriverPort;
use crate::timer::{AtPassive, EndAtPassive};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use tidegate_calls::{AllocationKind, AllocationMemory, AllocationResidency, Status, TILE_BYTES};
use tidegate_ddi::{DriverHandle, OsHandle, Passive};
use tidegate_platform::{
    Bulk, BulkWindow, ClientAccess, Mutex, PhysicalAddress, PhysicalMemory, once,
};
use tidegate_vidmm::{Access, Affinity, AllocationId};

/// The owner of a new allocation, and its address space.
pub(crate) struct Owner<'a> {
    pub(crate) device: &'a Arc<dyn OwningDevice>,
    pub(crate) space: &'a Arc<AddressSpace>,
    /// The context whose state the allocation holds, if it is a save area. Engines may use a save
    /// area in system memory.
    pub(crate) context: Option<OsHandle>,
    /// The driver's handle of a process's allocation.
    pub(super) opened: Option<OpenedAllocation>,
}

/// Location of a movable allocation.
struct Location {
    local: bool,
    at: PhysicalAddress,
    bulk: Bulk,
    /// Whether the GPU address is mapped.
    mapped: bool,
    /// Whether the address was ever mapped, so engines may have written the bytes.
    was_mapped: bool,
}

struct Movable {
    id: AllocationId,
    location: Mutex<Location>,
    window: BulkWindow,
    segment: PhysicalMemory,
    members: Arc<dyn LocalMemoryMembers>,
}

/// Memory that never moves. It leaves the bus with its last user: an allocation, or a shared
/// resource.
pub(crate) struct FixedMemory {
    bus: PhysicalMemory,
    at: PhysicalAddress,
    bytes: u64,
    view: AllocationMemory,
    /// The driver's object; `None` if the driver has no entries for it.
    object: Option<SharedObject>,
}

impl FixedMemory {
    /// Returns the driver's object, and the bytes.
    pub(super) fn object(&self) -> Option<(&SharedObject, u64)> {
        Some((self.object.as_ref()?, self.bytes))
    }
}

impl Drop for FixedMemory {
    fn drop(&mut self) {
        self.bus.remove(self.at);
    }
}

enum Backing {
    Fixed {
        memory: Arc<FixedMemory>,
        /// Number of MakeResident references.
        references: Mutex<u32>,
    },
    Movable(Movable),
}

/// One allocation of a device. It lives while a handle, a doorbell or a fence holds it.
pub(crate) type AllocationObject = AtPassive<AllocationBody>;

/// The parts of an allocation.
// spec: UMS-037
pub(crate) struct AllocationBody {
    /// Dropped first, because the driver port has the bus.
    backing: Backing,
    driver: Arc<DriverPort>,
    space: Arc<AddressSpace>,
    context: Option<OsHandle>,
    opened: Option<OpenedAllocation>,
    pub(crate) gpu_va: u64,
    pub(crate) bytes: u64,
    pub(crate) memory: AllocationMemory,
    pub(crate) device: Arc<dyn OwningDevice>,
    /// Tiles of reserved addresses that show its bytes: the offset by address. They are mapped
    /// while the allocation is. Changed under the lock of the paging context, which moves hold.
    tiles: OnceLock<Mutex<BTreeMap<u64, u64>>>,
    /// The shared resource that ends the allocation.
    resource: OnceLock<Weak<dyn Any + Send + Sync>>,
}

impl AllocationBody {
    fn as_movable(&self) -> Option<&Movable> {
        match &self.backing {
            Backing::Fixed { .. } => None,
            Backing::Movable(movable) => Some(movable),
        }
    }
}

impl AllocationObject {
    /// Creates a mapped allocation that never moves.
    pub(super) fn fixed(
        level: &Passive,
        driver: &Arc<DriverPort>,
        owner: Owner<'_>,
        bus: &PhysicalMemory,
        bytes: u64,
        kind: AllocationKind,
    ) -> Result<Arc<AllocationObject>, Status> {
        let (at, memory) = match kind {
            AllocationKind::Bulk => {
                // A save area is the kernel's, and no process maps it.
                let (at, bulk) = match owner.context {
                    Some(_) => bus.bulk(bytes as usize),
                    None => bus.client_bulk(bytes as usize),
                };
                (at, AllocationMemory::Bulk(bulk))
            }
            AllocationKind::Protocol => {
                let (at, page) =
                    bus.client_protocol(bytes.div_ceil(8) as usize, ClientAccess::ReadWrite);
                (at, AllocationMemory::Protocol(page))
            }
        };
        let object = owner.opened.as_ref().map(|opened| opened.shared_object());
        let memory = FixedMemory { bus: bus.clone(), at, bytes, view: memory, object };
        AllocationObject::of_fixed(level, driver, owner, Arc::new(memory))
    }

    /// Creates a mapped allocation of memory that may have other users.
    pub(super) fn of_fixed(
        level: &Passive,
        driver: &Arc<DriverPort>,
        owner: Owner<'_>,
        memory: Arc<FixedMemory>,
    ) -> Result<Arc<AllocationObject>, Status> {
        let FixedMemory { at, bytes, .. } = *memory;
        let gpu_va = owner.space.map(level, at, bytes, Access::ReadWrite)?;
        let view = memory.view.clone();
        let references = driver.platform.mutex("references of an allocation", 1);
        let backing = Backing::Fixed { memory, references };
        Ok(Arc::new(Self::of(driver, owner, backing, gpu_va, bytes, view)))
    }

    /// Returns the memory of an allocation that never moves.
    pub(crate) fn fixed_memory(&self) -> Option<&Arc<FixedMemory>> {
        match &self.backing {
            Backing::Fixed { memory, .. } => Some(memory),
            Backing::Movable(_) => None,
        }
    }

    /// Makes the allocation one of a shared resource, which ends it.
    ///
    /// # Errors
    /// INVALID_PARAMETER for one that was shared before.
    pub(crate) fn enter_resource(
        &self,
        resource: Weak<dyn Any + Send + Sync>,
    ) -> Result<(), Status> {
        self.resource.set(resource).map_err(|_| Status::INVALID_PARAMETER)
    }

    /// Returns whether the allocation is one of a shared resource.
    pub(crate) fn is_shared(&self) -> bool {
        self.resource.get().is_some_and(|resource| resource.strong_count() > 0)
    }

    /// Creates a movable allocation, in system memory with its address unmapped.
    pub(super) fn movable(
        driver: &Arc<DriverPort>,
        owner: Owner<'_>,
        segment: &PhysicalMemory,
        members: Arc<dyn LocalMemoryMembers>,
        bytes: u64,
    ) -> Result<Arc<AllocationObject>, Status> {
        // A process cannot map what moves.
        let (at, bulk) = driver.system_memory.bulk(bytes as usize);
        let gpu_va = owner.space.reserve(bytes).inspect_err(|_| {
            driver.system_memory.remove(at);
        })?;
        let window = BulkWindow::new(&driver.platform, bulk.clone());
        let location = Location { local: false, at, bulk, mapped: false, was_mapped: false };
        let backing = Backing::Movable(Movable {
            id: AllocationId(driver.new_handle().0),
            location: driver.platform.mutex("place of an allocation", location),
            window: window.clone(),
            segment: segment.clone(),
            members,
        });
        let memory = AllocationMemory::Window(window);
        Ok(Arc::new(Self::of(driver, owner, backing, gpu_va, bytes, memory)))
    }

    fn of(
        driver: &Arc<DriverPort>,
        owner: Owner<'_>,
        backing: Backing,
        gpu_va: u64,
        bytes: u64,
        memory: AllocationMemory,
    ) -> AllocationObject {
        let body = AllocationBody {
            driver: driver.clone(),
            space: owner.space.clone(),
            backing,
            context: owner.context,
            opened: owner.opened,
            gpu_va,
            bytes,
            memory,
            device: owner.device.clone(),
            tiles: OnceLock::new(),
            resource: OnceLock::new(),
        };
        AtPassive::wrap(&driver.timer, body)
    }

    /// Returns the allocation's number in VidMm, if it is movable.
    pub(super) fn id(&self) -> Option<AllocationId> {
        self.as_movable().map(|movable| movable.id)
    }

    /// Returns the driver's handle of it for the device (hDeviceSpecificAllocation).
    pub(crate) fn opened(&self) -> Option<DriverHandle> {
        self.opened.as_ref().map(|opened| opened.handle())
    }

    /// Returns the context whose state the allocation holds, if it is a save area.
    pub(super) fn context(&self) -> Option<OsHandle> {
        self.context
    }

    /// Returns the device charged for the memory; 0 for the kernel.
    pub(super) fn accounted_to(&self) -> OsHandle {
        if self.context.is_some() { OsHandle(0) } else { self.device.os_handle() }
    }

    /// Returns the present bus address.
    pub(crate) fn at(&self) -> PhysicalAddress {
        match &self.backing {
            Backing::Fixed { memory, .. } => memory.at,
            Backing::Movable(movable) => movable.location.lock().at,
        }
    }

    /// Returns the references of a fixed allocation.
    pub(super) fn fixed_references(&self) -> Option<&Mutex<u32>> {
        match &self.backing {
            Backing::Fixed { references, .. } => Some(references),
            Backing::Movable(_) => None,
        }
    }

    /// Returns whether the allocation is movable and in local memory.
    pub(super) fn is_local(&self) -> bool {
        self.as_movable().is_some_and(|movable| movable.location.lock().local)
    }

    /// Returns whether the GPU address is mapped.
    pub(super) fn is_mapped(&self) -> bool {
        self.as_movable().is_none_or(|movable| movable.location.lock().mapped)
    }

    /// Returns where the allocation is, as of now.
    pub(crate) fn residency(&self) -> AllocationResidency {
        let (local, mapped) = match &self.backing {
            Backing::Fixed { memory, .. } => (!memory.bus.same(&self.driver.system_memory), true),
            Backing::Movable(movable) => {
                let location = movable.location.lock();
                (location.local, location.mapped)
            }
        };
        match (mapped, local) {
            (false, _) => AllocationResidency::NotResident,
            (true, true) => AllocationResidency::Local,
            (true, false) => AllocationResidency::System,
        }
    }

    /// Maps the GPU address to the present location.
    pub(super) fn map(&self, level: &Passive) {
        let Some(Movable { location, .. }) = self.as_movable() else { return };
        let at = {
            let mut location = location.lock();
            (location.mapped, location.was_mapped) = (true, true);
            location.at
        };
        self.space.remap_on(level, Affinity::ALL, self.gpu_va, at, self.bytes, Access::ReadWrite);
        self.tiles().into_iter().for_each(|(va, offset)| self.write_tile(level, va, offset));
    }

    fn tiles(&self) -> Vec<(u64, u64)> {
        let tiles = self.tiles.get().map(|tiles| tiles.lock());
        tiles.map_or_else(Vec::new, |tiles| tiles.iter().map(|(va, at)| (*va, *at)).collect())
    }

    fn write_tile(&self, level: &Passive, va: u64, offset: u64) {
        let at = PhysicalAddress(self.at().0 + offset);
        self.space.remap_on(level, Affinity::ALL, va, at, TILE_BYTES, Access::ReadWrite);
    }

    /// Shows the tile at `offset` at a reserved address of the same address space too.
    pub(super) fn map_tile(&self, level: &Passive, va: u64, offset: u64) {
        let new = || self.driver.platform.mutex("tiles of an allocation", BTreeMap::new());
        once::make_alone(&self.tiles, new).lock().insert(va, offset);
        if self.is_mapped() {
            self.write_tile(level, va, offset);
        }
    }

    /// Ends a mapping of [`AllocationObject::map_tile`]. On return, no engine uses it.
    pub(super) fn unmap_tile(&self, level: &Passive, va: u64) {
        if let Some(tiles) = self.tiles.get() {
            tiles.lock().remove(&va);
        }
        self.space.unmap(level, va, TILE_BYTES);
    }

    /// Unmaps the GPU address. Engines that use it fault.
    fn unmap(&self, level: &Passive) {
        let Some(Movable { location, .. }) = self.as_movable() else { return };
        self.space.unmap(level, self.gpu_va, self.bytes);
        for (va, _) in self.tiles() {
            self.space.unmap(level, va, TILE_BYTES);
        }
        location.lock().mapped = false;
    }

    /// Returns the bytes at the present location; `None` for words.
    pub(crate) fn bulk(&self) -> Option<Bulk> {
        match &self.memory {
            AllocationMemory::Bulk(bulk) => Some(bulk.clone()),
            AllocationMemory::Window(window) => Some(window.bulk()),
            AllocationMemory::Protocol(_) | AllocationMemory::ByCalls(_) => None,
        }
    }

    /// Places a new, empty allocation in local memory before any CPU or engine uses it.
    pub(super) fn begin_local(&self, level: &Passive) {
        let Some(movable) = self.as_movable() else { return };
        let old_at = self.replace(movable, &movable.segment, true);
        self.driver.system_memory.remove(old_at);
        self.map(level);
    }

    /// Moves the allocation to system memory, zeroed, because its content in local memory is lost.
    pub(super) fn lose_content(&self, level: &Passive) {
        let Some(movable) = self.as_movable() else { return };
        self.unmap(level);
        movable.window.close();
        let old_at = self.replace(movable, &self.driver.system_memory, false);
        movable.segment.remove(old_at);
        // A save area that is all zero holds no state.
        if self.context.is_some() {
            self.map(level);
        }
    }

    /// Opens the window on new, zeroed memory. Returns the old address.
    fn replace(&self, movable: &Movable, to: &PhysicalMemory, local: bool) -> PhysicalAddress {
        let (at, bulk) = to.bulk(self.bytes as usize);
        let new = Location { local, at, bulk: bulk.clone(), mapped: false, was_mapped: false };
        let old = std::mem::replace(&mut *movable.location.lock(), new);
        movable.window.open(bulk);
        old.at
    }

    /// Moves the bytes to local or to system memory. Returns `false` if the machine stopped.
    pub(super) fn carry(
        &self,
        level: &Passive,
        to_local: bool,
        by: Carrier<'_>,
    ) -> Result<bool, Status> {
        let Some(movable) = self.as_movable() else { return Ok(true) };
        if self.is_mapped() {
            self.unmap(level);
        }
        let system_memory = &self.driver.system_memory;
        let carried = match to_local {
            true => self.carry_bytes(level, movable, system_memory, &movable.segment, by),
            false => self.carry_bytes(level, movable, &movable.segment, system_memory, by),
        };
        if carried == Ok(true) && to_local || self.context.is_some() {
            self.map(level);
        }
        carried
    }

    fn carry_bytes(
        &self,
        level: &Passive,
        Movable { location, window, .. }: &Movable,
        from: &PhysicalMemory,
        to: &PhysicalMemory,
        by: Carrier<'_>,
    ) -> Result<bool, Status> {
        window.close();
        let (old_at, old_bulk, was_mapped) = {
            let location = location.lock();
            (location.at, location.bulk.clone(), location.was_mapped)
        };
        let (at, bulk) = to.bulk(self.bytes as usize);
        // Memory that neither an engine nor a CPU has written is zero.
        let contents = match was_mapped || window.is_written() {
            true => Contents::From(old_at),
            false => Contents::Zero,
        };
        let carried = by.fill(level, contents, &old_bulk, at, &bulk);
        if carried != Ok(true) {
            // The allocation stays where it was.
            window.open(old_bulk);
            to.remove(at);
            return carried;
        }
        let mut location = location.lock();
        let local = !location.local;
        *location = Location { local, at, bulk: bulk.clone(), mapped: false, was_mapped };
        drop(location);
        window.open(bulk);
        from.remove(old_at);
        Ok(true)
    }
}

impl EndAtPassive for AllocationBody {
    fn end(&mut self, level: &Passive) {
        self.space.unmap(level, self.gpu_va, self.bytes);
        self.opened = None;
        let Some(movable) = self.as_movable() else { return };
        movable.members.remove_allocation(movable.id);
        let location = movable.location.lock();
        let bus = if location.local { &movable.segment } else { &self.driver.system_memory };
        bus.remove(location.at);
    }
}
