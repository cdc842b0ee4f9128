//! Pages of fence values: where each stands on the bus, and where engines have it mapped.
//!
//! A page in system memory is fixed. A page that begins in local memory is movable, so its address
//! is valid only while [`super::Memory::hold_fence_pages`] is held. CurrentValues have their
//! histories behind them where the hardware keeps them.
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
use tidegate_platform::{Mutex, Page, PhysicalAddress, PhysicalMemory, Platform, Word};
use tidegate_vidmm::{Access, Affinity, FencePageId};

/// MonitoredValue of a fence that has no waiter.
const NO_WAITER: u64 = u64::MAX;

/// Where a page stands on the bus.
#[derive(Clone)]
pub(super) struct Location {
    pub(super) memory: PhysicalMemory,
    pub(super) at: PhysicalAddress,
    /// As the kernel's CPU reaches it, if it does.
    pub(super) page: Option<Page>,
}

impl Location {
    pub(super) fn new(memory: &PhysicalMemory, words: usize, reached_by_cpu: bool) -> Location {
        let (at, page) = memory.protocol(words);
        Location { memory: memory.clone(), at, page: reached_by_cpu.then_some(page) }
    }
}

/// Where engines have a page: in which address space, on which physical adapters, and what they may
/// do there.
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
    /// A page in system memory.
    // spec: NF-032, NF-035
    pub(crate) fn fixed(
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
        (id, members): (FencePageId, Arc<dyn LocalMemoryMembers>),
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

    /// Words of a page of such values in local memory.
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

    /// Where it stands now.
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

    /// The value as the kernel's CPU reaches it, if it does.
    pub(crate) fn word(&self, number: usize) -> Option<Word> {
        let word_in = |location: &Location| Some(location.page.as_ref()?.word(number));
        match &self.backing {
            Backing::Fixed(location) => word_in(location),
            Backing::Movable(movable) => word_in(&movable.location.lock()),
        }
    }

    /// The same with its history.
    pub(crate) fn cell(&self, number: usize) -> Option<FenceCell> {
        let word = self.word(number)?;
        Some(if self.history { FenceCell::in_fence_page(word, 0) } else { FenceCell::plain(word) })
    }

    /// It stands elsewhere from now on. Returns where it stood.
    pub(super) fn relocate(&self, to: Location) -> Option<Location> {
        let movable = self.as_movable()?;
        Some(std::mem::replace(&mut *movable.location.lock(), to))
    }

    /// Its mappings in address spaces that are alive.
    pub(super) fn mappings(&self) -> Vec<Mapping<Arc<AddressSpace>>> {
        let Some(Movable { mappings, .. }) = self.as_movable() else { return Vec::new() };
        let mappings = mappings.lock();
        let alive = mappings.iter().filter_map(|m| {
            let Mapping { affinity, va, access, .. } = *m;
            Some(Mapping { space: m.space.upgrade()?, affinity, va, access })
        });
        alive.collect()
    }

    /// Engines have it at `va`, with this access.
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

    /// How engines of this adapter may use it. A page that several adapters share may have
    /// histories that this one does not keep.
    pub(crate) fn access(&self, driver: &DriverPort) -> Access {
        let kept = self.history && (self.is_movable() || driver.caps.fence_history);
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

/// What is mapped in place of a shareable fence that has ended: a fence that every wait passes. One
/// for all processes of an adapter, which cannot change it.
pub(crate) struct EndedFence {
    pub(crate) current: FenceValuePage,
    pub(crate) monitored: FenceValuePage,
    /// Engines may store where the hardware knows that the fence has ended. Elsewhere other
    /// processes would see the store.
    pub(crate) access: Access,
}

impl EndedFence {
    pub(super) fn new(driver: &DriverPort) -> EndedFence {
        let history = driver.caps.fence_history;
        let page = |value| FenceValuePage::fixed(&driver.system_memory, value, history);
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

/// The fences whose values stand in pages of local memory. Implemented above and set once.
pub(crate) trait FencesInPages: Send + Sync {
    /// Tells the driver where the fences in `page` stand now. Also returns what the caller drops
    /// once it holds no lock: the last reference to a fence may be among it.
    fn notify_residency(
        &self,
        level: &Passive,
        page: &Arc<FenceValuePage>,
    ) -> (Result<(), Status>, Box<dyn Any>);
}

/// A kind of storage: the value, and the type of its fences.
type Kind = (FenceStorageValueType, u32);

/// The locks of fence storage of one adapter.
pub(super) struct FencePages {
    /// Held over every move, and over what must not happen during one.
    pub(super) moves: Mutex<()>,
    /// The driver's segment for each kind, once it was queried.
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
