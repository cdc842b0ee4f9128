//! Owns allocations: memory, its place on the bus, its GPU address, its CPU window.
//!
//! What stands in system memory, in words, or on another physical adapter than the first, stays
//! where it is. Bytes of local memory move: `segment` decides when, and here is how. Out: 1.
//! engines lose the address; 2. the CPU window closes; 3. the bytes go over; 4. the window opens at
//! the new place; 5. the old one leaves the bus. In: the same the other way, and the address leads
//! there last. Where there is no room for it, engines can have an allocation in system memory as
//! well: it is slower there, and as right. So nobody ever sees half of a move: an engine faults, a
//! CPU waits.

use super::transfer::{Contents, Mover};
use super::{AddressSpace, segment};
use crate::adapter::Adapter;
use crate::device::Device;
use crate::memory::{Access, Affinity};
use std::sync::Arc;
use tidegate_calls::{AllocationKind, AllocationMemory, CreateAllocation, Placement, Status};
use tidegate_ddi::OsHandle;
use tidegate_ddi::memory::Segment;
use tidegate_platform::{Bulk, BulkWindow, Mutex, Page, PhysicalAddress, PhysicalMemory};

/// Whose an allocation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A process's.
    OfProcess,
    /// The state of a context stands in it. Engines have it wherever it stands.
    SaveArea {
        /// The context.
        context: OsHandle,
    },
}

/// Largest allocation.
const MAX_BYTES: u64 = 1 << 36;

/// Where bytes that move stand now.
struct Stands {
    local: bool,
    at: PhysicalAddress,
    bulk: Bulk,
    /// Engines have it where it stands.
    mapped: bool,
    /// Engines had it: it may hold anything.
    was_mapped: bool,
}

enum Place {
    /// There for ever.
    Fixed {
        bus: PhysicalMemory,
        at: PhysicalAddress,
        /// How often MakeResident was called and not taken back.
        references: Mutex<u32>,
    },
    /// In local memory, or on its way there.
    Moving { stands: Mutex<Stands>, window: BulkWindow },
}

/// One allocation of a device. It lives while a handle, a doorbell or a fence holds it.
// spec: UMS-037
pub(crate) struct AllocationObject {
    adapter: Arc<Adapter>,
    space: Arc<AddressSpace>,
    place: Place,
    /// What the residency policy calls it.
    pub(crate) id: u64,
    pub(crate) gpu_va: u64,
    pub(crate) bytes: u64,
    pub(crate) memory: AllocationMemory,
    pub(crate) device: Arc<Device>,
    pub(crate) purpose: Purpose,
}

impl AllocationObject {
    /// D3DKMTCreateAllocation2. What is not made on demand is resident, with one reference.
    pub(crate) fn create(
        device: &Arc<Device>,
        args: &CreateAllocation,
    ) -> Result<Arc<AllocationObject>, Status> {
        if args.bytes == 0 || args.bytes > MAX_BYTES {
            return Err(Status::INVALID_PARAMETER);
        }
        let here = (device, &device.space, Purpose::OfProcess);
        match (args.placement, args.kind) {
            (Placement::System, _) => {
                Self::fixed(here, &device.adapter.system_memory, (args.bytes, args.kind))
            }
            (Placement::LocalOf(physical_adapter), _) if physical_adapter > 0 => Self::fixed(
                here,
                &local(&device.adapter, physical_adapter)?,
                (args.bytes, args.kind),
            ),
            (_, AllocationKind::Protocol) => Err(Status::NOT_SUPPORTED),
            (placement, AllocationKind::Bulk) => {
                let made = Self::moving((device, &device.space), args.bytes, Purpose::OfProcess)?;
                if placement != Placement::LocalOnDemand {
                    segment::make_resident_now(&device.adapter, &made)?;
                }
                Ok(made)
            }
        }
    }

    /// The save area of a context, in the system process's address space. It is in local memory
    /// from its first moment if there is room, else in system memory. `stays`: it is there for
    /// ever.
    pub(crate) fn save_area(
        device: &Arc<Device>,
        bytes: u64,
        context: OsHandle,
        stays: bool,
    ) -> Result<Arc<AllocationObject>, Status> {
        let adapter = &device.adapter;
        let (space, purpose) = (adapter.system_space()?, Purpose::SaveArea { context });
        if stays || adapter.memory.has_segment().is_err() {
            let here = (device, &space, purpose);
            return Self::fixed(here, &adapter.system_memory, (bytes, AllocationKind::Bulk));
        }
        let made = Self::moving((device, &space), bytes, purpose)?;
        if !segment::begin_in_if_room(adapter, &made) {
            made.map();
        }
        Ok(made)
    }

    fn fixed(
        (device, space, purpose): (&Arc<Device>, &Arc<AddressSpace>, Purpose),
        bus: &PhysicalMemory,
        (bytes, kind): (u64, AllocationKind),
    ) -> Result<Arc<AllocationObject>, Status> {
        let adapter = &device.adapter;
        let (at, memory) = match kind {
            AllocationKind::Bulk => {
                let (at, bulk) = bus.bulk(bytes as usize);
                (at, AllocationMemory::Bulk(bulk))
            }
            AllocationKind::Protocol => {
                let (at, page): (PhysicalAddress, Page) = bus.protocol(bytes.div_ceil(8) as usize);
                (at, AllocationMemory::Protocol(page))
            }
        };
        let gpu_va = space.map(at, bytes, Access::ReadWrite).inspect_err(|_| {
            bus.remove(at);
        })?;
        let references = adapter.platform.mutex("references of an allocation", 1);
        Ok(Arc::new(AllocationObject {
            adapter: adapter.clone(),
            space: space.clone(),
            place: Place::Fixed { bus: bus.clone(), at, references },
            id: 0,
            gpu_va,
            bytes,
            memory,
            device: device.clone(),
            purpose,
        }))
    }

    /// One that stands in system memory until it is made resident; its address leads nowhere.
    fn moving(
        (device, space): (&Arc<Device>, &Arc<AddressSpace>),
        bytes: u64,
        purpose: Purpose,
    ) -> Result<Arc<AllocationObject>, Status> {
        let adapter = &device.adapter;
        adapter.memory.has_segment()?;
        let (at, bulk) = adapter.system_memory.bulk(bytes as usize);
        let gpu_va = space.reserve(bytes).inspect_err(|_| {
            adapter.system_memory.remove(at);
        })?;
        let window = BulkWindow::new(&adapter.platform, bulk.clone());
        let stands = Stands { local: false, at, bulk, mapped: false, was_mapped: false };
        let stands = adapter.platform.mutex("place of an allocation", stands);
        let made = Arc::new(AllocationObject {
            adapter: adapter.clone(),
            space: space.clone(),
            place: Place::Moving { stands, window: window.clone() },
            id: adapter.new_handle().0,
            gpu_va,
            bytes,
            memory: AllocationMemory::Window(window),
            device: device.clone(),
            purpose,
        });
        adapter.memory.add(&made);
        Ok(made)
    }

    /// Whether it moves between local and system memory.
    pub(crate) fn moves(&self) -> bool {
        matches!(self.place, Place::Moving { .. })
    }

    /// The context whose state stands in it, if it is a save area.
    pub(crate) fn context(&self) -> Option<OsHandle> {
        match self.purpose {
            Purpose::OfProcess => None,
            Purpose::SaveArea { context } => Some(context),
        }
    }

    /// Who is said to use local memory by it: a device, or 0 for the kernel.
    pub(crate) fn owner(&self) -> u64 {
        match self.purpose {
            Purpose::OfProcess => self.device.os_handle.0,
            Purpose::SaveArea { .. } => 0,
        }
    }

    /// Where it stands on the bus at this moment.
    pub(crate) fn at(&self) -> PhysicalAddress {
        match &self.place {
            Place::Fixed { at, .. } => *at,
            Place::Moving { stands, .. } => stands.lock().at,
        }
    }

    /// The counter of one that does not move.
    pub(crate) fn own_references(&self) -> Option<&Mutex<u32>> {
        match &self.place {
            Place::Fixed { references, .. } => Some(references),
            Place::Moving { .. } => None,
        }
    }

    /// Where it stands on the bus now.
    pub(crate) fn address(&self) -> PhysicalAddress {
        match &self.place {
            Place::Fixed { at, .. } => *at,
            Place::Moving { stands, .. } => stands.lock().at,
        }
    }

    /// Whether its bytes are in local memory.
    pub(crate) fn is_local(&self) -> bool {
        match &self.place {
            Place::Fixed { .. } => false,
            Place::Moving { stands, .. } => stands.lock().local,
        }
    }

    /// Whether engines reach its bytes, wherever they are.
    pub(crate) fn is_mapped(&self) -> bool {
        match &self.place {
            Place::Fixed { .. } => true,
            Place::Moving { stands, .. } => stands.lock().mapped,
        }
    }

    /// Engines reach it where it stands.
    pub(crate) fn map(&self) {
        let Place::Moving { stands, .. } = &self.place else { return };
        let at = {
            let mut stands = stands.lock();
            (stands.mapped, stands.was_mapped) = (true, true);
            stands.at
        };
        self.space.remap_on(Affinity::ALL, self.gpu_va, at, self.bytes, Access::ReadWrite);
    }

    /// Engines lose it: whoever uses its address faults.
    fn unmap(&self) {
        let Place::Moving { stands, .. } = &self.place else { return };
        self.space.unmap(self.gpu_va, self.bytes);
        stands.lock().mapped = false;
    }

    /// Its bytes as the kernel's CPU sees them now; `None` for words.
    pub(crate) fn bulk(&self) -> Option<Bulk> {
        match &self.memory {
            AllocationMemory::Bulk(bulk) => Some(bulk.clone()),
            AllocationMemory::Window(window) => Some(window.bulk()),
            AllocationMemory::Protocol(_) => None,
        }
    }

    /// Stands in `local` from now on, which is empty: for an allocation that nobody has seen yet.
    pub(crate) fn begin_in(&self, local: &PhysicalMemory) {
        let Place::Moving { stands, window } = &self.place else { return };
        let (at, bulk) = local.bulk(self.bytes as usize);
        let new = Stands { local: true, at, bulk: bulk.clone(), mapped: true, was_mapped: true };
        let old = std::mem::replace(&mut *stands.lock(), new);
        window.open(bulk);
        self.adapter.system_memory.remove(old.at);
        self.space.remap_on(Affinity::ALL, self.gpu_va, at, self.bytes, Access::ReadWrite);
    }

    /// Goes out to system memory, from local memory. `false` when the machine stopped meanwhile.
    pub(crate) fn page_out(&self, local: &PhysicalMemory, by: Mover<'_>) -> Result<bool, Status> {
        // 1.
        self.unmap();
        // 2 to 5.
        let moved = self.carry_over((local, &self.adapter.system_memory), false, by);
        if self.context().is_some() {
            self.map();
        }
        moved
    }

    /// Goes out to system memory, and what stood in local memory is lost: zeros are left.
    pub(crate) fn lose_content(&self, local: &PhysicalMemory) {
        let Place::Moving { stands, window } = &self.place else { return };
        self.unmap();
        window.close();
        let (at, bulk) = self.adapter.system_memory.bulk(self.bytes as usize);
        let new = Stands { local: false, at, bulk: bulk.clone(), mapped: false, was_mapped: false };
        let old = std::mem::replace(&mut *stands.lock(), new);
        window.open(bulk);
        local.remove(old.at);
        // A new one, all zero, holds no state.
        if self.context().is_some() {
            self.map();
        }
    }

    /// Comes in to local memory, from system memory. `false` when the machine stopped meanwhile.
    pub(crate) fn page_in(&self, local: &PhysicalMemory, by: Mover<'_>) -> Result<bool, Status> {
        if self.is_mapped() {
            self.unmap();
        }
        let came = self.carry_over((&self.adapter.system_memory, local), true, by);
        if came == Ok(true) || self.context().is_some() {
            self.map();
        }
        came
    }

    /// The bytes go over, the window opens at the new place, the old one leaves the bus.
    fn carry_over(
        &self,
        (from, to): (&PhysicalMemory, &PhysicalMemory),
        local: bool,
        by: Mover<'_>,
    ) -> Result<bool, Status> {
        let Place::Moving { stands, window } = &self.place else { return Ok(true) };
        window.close();
        let (old_at, old_bulk, was_mapped) = {
            let stands = stands.lock();
            (stands.at, stands.bulk.clone(), stands.was_mapped)
        };
        let (at, bulk) = to.bulk(self.bytes as usize);
        // Nobody has seen it but a CPU, which has not written it either: there is nothing to copy.
        let contents = match was_mapped || window.is_written() {
            true => Contents::From(old_at),
            false => Contents::Zero,
        };
        let moved = by.run(contents, &old_bulk, (at, &bulk));
        if moved != Ok(true) {
            // It stays where it was: nothing of it is lost, whoever looks at it now.
            window.open(old_bulk);
            to.remove(at);
            return moved;
        }
        *stands.lock() = Stands { local, at, bulk: bulk.clone(), mapped: false, was_mapped };
        window.open(bulk);
        from.remove(old_at);
        Ok(true)
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
        let (bus, at) = match &self.place {
            Place::Fixed { bus, at, .. } => (bus, *at),
            Place::Moving { stands, .. } => {
                let (local, at) = {
                    let stands = stands.lock();
                    (stands.local, stands.at)
                };
                self.adapter.memory.remove(self.id, if local { self.bytes } else { 0 });
                match self.adapter.memory.segment() {
                    Some(segment) if local => (segment, at),
                    _ => (&self.adapter.system_memory, at),
                }
            }
        };
        bus.remove(at);
    }
}
