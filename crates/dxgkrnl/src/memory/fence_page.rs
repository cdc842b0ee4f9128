//! Pages of fence values: their bus location and their GPU mappings.
//!
//! A page in system memory is fixed. A page that starts in local memory is movable, so its address
//! is valid only while [`super::Memory::hold_fence_pages`] is held. CurrentValues are followed by
//! their histories if the hardware keeps histories.
//!
//! Invariant: a page leaves the bus with its last holder.

use super::address_space::AddressSpace;
use super::ports::LocalMemoryMembers;
use crate::driver::DriverPort;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use tidegate_calls::Status;
use tidegate_d3dukmdt::FenceCell;
use tidegate_d3dukmdt::fence_cell::{PAGE_WORDS, VALUE_WORDS};
use tidegate_ddi::Passive;
use tidegate_ddi::memory::FenceStorageValueType;
use tidegate_platform::{
    ClientAccess, Mutex, Page, PhysicalAddress, PhysicalMemory, Platform, Word,
};
use tidegate_vidmm::{Access, Affinity, FencePageId};

/// MonitoredValue of a fence without waiters.
const NO_WAITER: u64 = u64::MAX;

/// The bus location of a page.
#[derive(Clone)]
pub(super) struct Location {
    pub(super) memory: PhysicalMemory,
    pub(super) at: PhysicalAddress,
    /// The CPU's view, if the page is CPU-visible.
    pub(super) page: Option<Page>,
}

impl Location {
    pub(super) fn new(memory: &PhysicalMemory, words: usize, reached_by_cpu: bool) -> Location {
        let (at, page) = memory.protocol(words);
        Location { memory: memory.clone(), at, page: reached_by_cpu.then_some(page) }
    }

    /// A place of values that processes may read.
    fn for_processes(memory: &PhysicalMemory, words: usize) -> Location {
        let (at, page) = memory.client_protocol(words, ClientAccess::ReadOnly);
        Location { memory: memory.clone(), at, page: Some(page) }
    }
}

/// A GPU mapping of a page: address space, physical adapters, address and access.
#[derive(Clone)]
pub(super) struct Mapping<Space> {
    pub(super) space: Space,
    pub(super) affinity: Affinity,
    pub(super) va: u64,
    pub(super) access: Access,
}

struct Movable {
    id: FencePageId,
    location: Mutex<Location>,
    mappings: Mutex<Vec<Mapping<Weak<AddressSpace>>>>,
    members: Arc<dyn LocalMemoryMembers>,
}

enum Backing {
    Fixed(Location),
    Movable(Movable),
}

/// A page of values of one kind.
pub(crate) struct FenceValuePage {
    backing: Backing,
    value: FenceStorageValueType,
    history: bool,
}

impl FenceValuePage {
    /// Creates a page in system memory.
    // spec: NF-032, NF-035
    pub(crate) fn fixed(
        memory: &PhysicalMemory,
        value: FenceStorageValueType,
        history: bool,
    ) -> FenceValuePage {
        let history = history && value == FenceStorageValueType::CurrentValue;
        // Processes see no MonitoredValue.
        let location = match value {
            FenceStorageValueType::CurrentValue => Location::for_processes(memory, words(history)),
            FenceStorageValueType::MonitoredValue => Location::new(memory, words(history), true),
        };
        FenceValuePage { backing: Backing::Fixed(location), value, history }
    }

    /// Creates a page in system memory that no process reads. It takes no file.
    fn of_kernel(
        memory: &PhysicalMemory,
        value: FenceStorageValueType,
        history: bool,
    ) -> FenceValuePage {
        let history = history && value == FenceStorageValueType::CurrentValue;
        let location = Location::new(memory, words(history), true);
        FenceValuePage { backing: Backing::Fixed(location), value, history }
    }

    pub(super) fn movable(
        platform: &Platform,
        id: FencePageId,
        members: Arc<dyn LocalMemoryMembers>,
        location: Location,
        value: FenceStorageValueType,
    ) -> FenceValuePage {
        let backing = Backing::Movable(Movable {
            id,
            location: platform.mutex("place of fence storage", location),
            mappings: platform.mutex("mappings of fence storage", Vec::new()),
            members,
        });
        FenceValuePage { backing, value, history: value == FenceStorageValueType::CurrentValue }
    }

    /// Returns the number of words of a local memory page for such values.
    pub(super) fn words_of(value: FenceStorageValueType) -> usize {
        words(value == FenceStorageValueType::CurrentValue)
    }

    fn as_movable(&self) -> Option<&Movable> {
        match &self.backing {
            Backing::Fixed(_) => None,
            Backing::Movable(movable) => Some(movable),
        }
    }

    pub(crate) fn is_movable(&self) -> bool {
        self.as_movable().is_some()
    }

    pub(super) fn words(&self) -> usize {
        words(self.history)
    }

    /// Returns the present location.
    pub(super) fn location(&self) -> Location {
        match &self.backing {
            Backing::Fixed(location) => location.clone(),
            Backing::Movable(movable) => movable.location.lock().clone(),
        }
    }

    pub(crate) fn at(&self) -> PhysicalAddress {
        match &self.backing {
            Backing::Fixed(location) => location.at,
            Backing::Movable(movable) => movable.location.lock().at,
        }
    }

    /// Returns the word of a value, if it is CPU-visible.
    pub(crate) fn word(&self, number: usize) -> Option<Word> {
        let word_in = |location: &Location| Some(location.page.as_ref()?.word(number));
        match &self.backing {
            Backing::Fixed(location) => word_in(location),
            Backing::Movable(movable) => word_in(&movable.location.lock()),
        }
    }

    /// Returns the cell of a value with its history, if it is CPU-visible.
    pub(crate) fn cell(&self, number: usize) -> Option<FenceCell> {
        let word = self.word(number)?;
        Some(if self.history { FenceCell::in_fence_page(word, 0) } else { FenceCell::plain(word) })
    }

    /// Sets a new location. Returns the old one.
    pub(super) fn relocate(&self, to: Location) -> Option<Location> {
        let movable = self.as_movable()?;
        Some(std::mem::replace(&mut *movable.location.lock(), to))
    }

    /// Returns the mappings in live address spaces.
    pub(super) fn mappings(&self) -> Vec<Mapping<Arc<AddressSpace>>> {
        let Some(Movable { mappings, .. }) = self.as_movable() else { return Vec::new() };
        let mappings = mappings.lock();
        let alive = mappings.iter().filter_map(|m| {
            let Mapping { affinity, va, access, .. } = *m;
            Some(Mapping { space: m.space.upgrade()?, affinity, va, access })
        });
        alive.collect()
    }

    /// Records that engines have the page mapped at `va` with this access.
    pub(crate) fn note_mapped(
        &self,
        space: &Arc<AddressSpace>,
        affinity: Affinity,
        va: u64,
        access: Access,
    ) {
        self.note_unmapped(space, va);
        if let Some(Movable { mappings, .. }) = self.as_movable() {
            mappings.lock().push(Mapping { space: Arc::downgrade(space), affinity, va, access });
        }
    }

    pub(crate) fn note_unmapped(&self, space: &Arc<AddressSpace>, va: u64) {
        if let Some(Movable { mappings, .. }) = self.as_movable() {
            let is_it = |m: &Mapping<Weak<AddressSpace>>| {
                m.va == va && std::ptr::eq(m.space.as_ptr(), Arc::as_ptr(space))
            };
            mappings.lock().retain(|m| m.space.strong_count() > 0 && !is_it(m));
        }
    }

    /// Returns the access of this adapter's engines. A page shared by several adapters may have
    /// histories that this one does not keep.
    pub(crate) fn access(&self, driver: &DriverPort) -> Access {
        let kept = self.history && (self.is_movable() || driver.declared.caps.fence_history);
        match (self.value, kept) {
            (FenceStorageValueType::MonitoredValue, _) => Access::Read,
            (FenceStorageValueType::CurrentValue, true) => Access::FenceValues,
            (FenceStorageValueType::CurrentValue, false) => Access::ReadWrite,
        }
    }
}

fn words(history: bool) -> usize {
    if history { PAGE_WORDS } else { VALUE_WORDS }
}

impl Drop for FenceValuePage {
    fn drop(&mut self) {
        let Location { memory, at, .. } = self.location();
        memory.remove(at);
        if let Some(movable) = self.as_movable() {
            movable.members.remove_fence_page(movable.id);
        }
    }
}

/// The fence mapped in place of ended shareable fences. Every wait on it passes. All processes of
/// an adapter share it and cannot change it.
pub(crate) struct EndedFence {
    pub(crate) current: FenceValuePage,
    pub(crate) monitored: FenceValuePage,
    /// Stores are allowed only if the hardware knows that the fence has ended. Otherwise other
    /// processes would see them.
    pub(crate) access: Access,
}

impl EndedFence {
    pub(super) fn new(driver: &DriverPort) -> EndedFence {
        let history = driver.declared.caps.fence_history;
        let page = |value| FenceValuePage::of_kernel(&driver.system_memory, value, history);
        let current = page(FenceStorageValueType::CurrentValue);
        if let Some(cell) = current.cell(0) {
            cell.condemn();
        }
        let monitored = page(FenceStorageValueType::MonitoredValue);
        if let Some(word) = monitored.word(0) {
            word.store(NO_WAITER);
        }
        let access = if history { Access::FenceValues } else { Access::Read };
        EndedFence { current, monitored, access }
    }
}

/// The fences whose values are in pages of local memory. Implemented by an upper room and set once.
pub(crate) trait FencesInPages: Send + Sync {
    /// Notifies the driver of the location of the fences in `page`. Also returns references for the
    /// caller to drop without a lock, since one may be the last of a fence.
    fn notify_residency(
        &self,
        level: &Passive,
        page: &Arc<FenceValuePage>,
    ) -> (Result<(), Status>, Box<dyn Any>);
}

/// A kind of storage: the value and its fence type.
type Kind = (FenceStorageValueType, u32);

/// The locks of fence storage of one adapter.
pub(super) struct FencePages {
    /// Held during every move, and during operations excluded from a move.
    pub(super) moves: Mutex<()>,
    /// The driver's segment for each kind already queried.
    pub(super) segments: Mutex<BTreeMap<Kind, Option<usize>>>,
}

impl FencePages {
    pub(super) fn new(platform: &Platform) -> FencePages {
        FencePages {
            moves: platform.mutex("moves of fence storage", ()),
            segments: platform.mutex("segments of fence storage", BTreeMap::new()),
        }
    }
}
