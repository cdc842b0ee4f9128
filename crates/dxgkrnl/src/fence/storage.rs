//! Owns where fence cells stand, and at which addresses a process's engines reach them.
//!
//! Three kinds of storage. DEFAULT: both values in system memory. Optimised DEFAULT, which nobody
//! outside can tell from it: MonitoredValue in local memory that the CPU sees. INTRA_GPU: both in
//! local memory that the CPU does not see; neither the process nor the kernel has an address of
//! CurrentValue, hardware makes and ends the cells, and the CPU neither waits nor signals. What
//! stands in local memory can move (`residency`), so nobody keeps an address of it beyond a call.
//!
//! Fences that cannot be shared are packed into pages of their process, CurrentValue and
//! MonitoredValue in pages of their own kind at the same index; the stride is the driver's. A
//! shareable fence has pages that hold nothing else, since another process or adapter will see
//! them, and CurrentValue's page may be that of several adapters.
//!
//! CurrentValue pages are mapped read/write for engines, MonitoredValue pages read-only: an
//! engine's store there faults. The histories behind CurrentValues are not mapped: nobody but the
//! hardware and the kernel reaches them. A slot is used again only after its fence died, which is
//! after the driver destroyed it. A shareable fence stays mapped where it was opened until it ends,
//! since rings may hold waits for it longer than their process holds the instance. Then the
//! adapter's grave is mapped there: a packet that comes late finds a fence that lets every wait
//! pass. Where the driver asks for it, both pages are mapped in the system process as well, for the
//! CMP.

use super::waiter_set::NO_WAITER;
use crate::adapter::Adapter;
use crate::memory::{Access, AddressSpace, Affinity};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use tidegate_calls::{NativeFenceType, Status, SyncObjectFlags};
use tidegate_d3dukmdt::FenceCell;
use tidegate_d3dukmdt::fence_cell::{PAGE_WORDS, VALUE_BYTES, VALUE_WORDS};
use tidegate_ddi::OsHandle;
use tidegate_ddi::feature::NativeFenceOsCaps;
use tidegate_ddi::memory::FenceStorageValueType;
use tidegate_platform::{Mutex, MutexGuard, Page, PhysicalAddress, PhysicalMemory, Platform, Word};

const WORD_BYTES: u64 = 8;

/// Which memory the two values of a fence stand in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorageKind {
    /// Both in system memory.
    Default,
    /// MonitoredValue in local memory that the CPU sees.
    OptimizedDefault,
    /// Both in local memory that the CPU does not see.
    IntraGpu,
}

impl StorageKind {
    /// The kind for a fence: DEFAULT and INTRA_GPU are the caller's word, the optimised one is our
    /// choice.
    // spec: NF-030, NF-034
    pub(crate) fn choose(
        adapter: &Arc<Adapter>,
        native: Option<NativeFenceType>,
        flags: SyncObjectFlags,
    ) -> Result<StorageKind, Status> {
        let Some(fence_type) = native else { return Ok(StorageKind::Default) };
        let makes = |cap| adapter.config.native_fence_os_caps.contains(cap);
        let has_segment = |value| Ok(adapter.fence_segment(value, fence_type)?.is_some());
        match fence_type {
            NativeFenceType::IntraGpu => {
                let both = has_segment(FenceStorageValueType::CurrentValue)?
                    && has_segment(FenceStorageValueType::MonitoredValue)?;
                if both { Ok(StorageKind::IntraGpu) } else { Err(Status::NOT_SUPPORTED) }
            }
            // Others than this adapter's engines may look at what is shared.
            NativeFenceType::Default if flags.contains(SyncObjectFlags::SHARED) => {
                Ok(StorageKind::Default)
            }
            NativeFenceType::Default if !makes(NativeFenceOsCaps::OPTIMIZED_DEFAULT_FENCE_TYPE) => {
                Ok(StorageKind::Default)
            }
            NativeFenceType::Default => match has_segment(FenceStorageValueType::MonitoredValue)? {
                true => Ok(StorageKind::OptimizedDefault),
                false => Ok(StorageKind::Default),
            },
        }
    }

    /// The type of fence for whose value local memory is asked for; `None` for system memory.
    fn in_local(self, value: FenceStorageValueType) -> Option<NativeFenceType> {
        match (self, value) {
            (StorageKind::OptimizedDefault, FenceStorageValueType::MonitoredValue) => {
                Some(NativeFenceType::Default)
            }
            (StorageKind::IntraGpu, _) => Some(NativeFenceType::IntraGpu),
            _ => None,
        }
    }
}

/// A place of a page on the bus.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) memory: PhysicalMemory,
    pub(crate) at: PhysicalAddress,
    /// As the kernel's CPU reaches it, if it does.
    pub(crate) page: Option<Page>,
    pub(crate) local: bool,
}

impl Place {
    pub(crate) fn new(
        memory: &PhysicalMemory,
        words: usize,
        reached_by_cpu: bool,
        local: bool,
    ) -> Place {
        let (at, page) = memory.protocol(words);
        Place { memory: memory.clone(), at, page: reached_by_cpu.then_some(page), local }
    }
}

/// Where engines have a page: in which address space, on which physical adapters, and what they may
/// do there.
#[derive(Clone)]
pub(crate) struct Mapped<Space> {
    pub(crate) space: Space,
    pub(crate) affinity: Affinity,
    pub(crate) va: u64,
    pub(crate) access: Access,
}

enum Stands {
    Fixed(Place),
    /// It may move; `mapped` is where engines have it.
    Movable {
        place: Mutex<Place>,
        mapped: Mutex<Vec<Mapped<Weak<AddressSpace>>>>,
    },
}

/// A page of values on the bus; it leaves the bus with its last holder.
pub(crate) struct ValuePage {
    stands: Stands,
    value: FenceStorageValueType,
    history: bool,
}

impl ValuePage {
    /// A page in system memory, for ever. CurrentValues have their histories behind them where the
    /// hardware keeps them.
    // spec: NF-032, NF-035
    fn fixed(memory: &PhysicalMemory, value: FenceStorageValueType, history: bool) -> ValuePage {
        let history = history && value == FenceStorageValueType::CurrentValue;
        let place = Place::new(memory, words(history), true, false);
        ValuePage { stands: Stands::Fixed(place), value, history }
    }

    /// A page of CurrentValues in system memory, which several adapters may share.
    pub(crate) fn of_current_values(memory: &PhysicalMemory, history: bool) -> ValuePage {
        ValuePage::fixed(memory, FenceStorageValueType::CurrentValue, history)
    }

    /// A page that may move.
    pub(crate) fn movable(
        platform: &Platform,
        place: Place,
        value: FenceStorageValueType,
    ) -> ValuePage {
        let mapped = platform.mutex("mappings of fence storage", Vec::new());
        let history = value == FenceStorageValueType::CurrentValue;
        let place = platform.mutex("place of fence storage", place);
        ValuePage { stands: Stands::Movable { place, mapped }, value, history }
    }

    /// Words of a page of such values in local memory.
    pub(crate) fn words_of(value: FenceStorageValueType) -> usize {
        words(value == FenceStorageValueType::CurrentValue)
    }

    fn of_kind(
        adapter: &Arc<Adapter>,
        kind: StorageKind,
        value: FenceStorageValueType,
    ) -> Result<Arc<ValuePage>, Status> {
        match kind.in_local(value) {
            Some(fence_type) => adapter.allocate_local_values(value, fence_type),
            None => {
                let history = adapter.caps.fence_history;
                Ok(Arc::new(ValuePage::fixed(&adapter.system_memory, value, history)))
            }
        }
    }

    fn is_movable(&self) -> bool {
        matches!(self.stands, Stands::Movable { .. })
    }

    pub(crate) fn bytes(&self) -> u64 {
        words(self.history) as u64 * WORD_BYTES
    }

    /// Where it stands now.
    pub(crate) fn place(&self) -> Place {
        match &self.stands {
            Stands::Fixed(place) => place.clone(),
            Stands::Movable { place, .. } => place.lock().clone(),
        }
    }

    pub(crate) fn at(&self) -> PhysicalAddress {
        match &self.stands {
            Stands::Fixed(place) => place.at,
            Stands::Movable { place, .. } => place.lock().at,
        }
    }

    fn page(&self) -> Option<Page> {
        match &self.stands {
            Stands::Fixed(place) => place.page.clone(),
            Stands::Movable { place, .. } => place.lock().page.clone(),
        }
    }

    /// It stands elsewhere from now on; returns where it stood. Only `residency` calls this.
    pub(crate) fn put(&self, to: Place) -> Option<Place> {
        match &self.stands {
            Stands::Fixed(_) => None,
            Stands::Movable { place, .. } => Some(std::mem::replace(&mut *place.lock(), to)),
        }
    }

    /// Where engines have it and what they may do there, in spaces that are alive.
    pub(crate) fn mapped(&self) -> Vec<Mapped<Arc<AddressSpace>>> {
        match &self.stands {
            Stands::Fixed(_) => Vec::new(),
            Stands::Movable { mapped, .. } => {
                let mapped = mapped.lock();
                let alive = mapped.iter().filter_map(|m| {
                    let Mapped { affinity, va, access, .. } = *m;
                    Some(Mapped { space: m.space.upgrade()?, affinity, va, access })
                });
                alive.collect()
            }
        }
    }

    /// Engines have it at `va` from now on, with this access.
    fn note_mapped(&self, space: &Arc<AddressSpace>, affinity: Affinity, va: u64, access: Access) {
        self.note_unmapped(space, va);
        if let Stands::Movable { mapped, .. } = &self.stands {
            mapped.lock().push(Mapped { space: Arc::downgrade(space), affinity, va, access });
        }
    }

    fn note_unmapped(&self, space: &Arc<AddressSpace>, va: u64) {
        if let Stands::Movable { mapped, .. } = &self.stands {
            let is_it = |m: &Mapped<Weak<AddressSpace>>| {
                m.va == va && std::ptr::eq(m.space.as_ptr(), Arc::as_ptr(space))
            };
            mapped.lock().retain(|m| m.space.strong_count() > 0 && !is_it(m));
        }
    }

    fn word(&self, number: usize) -> Option<Word> {
        Some(self.page()?.word(number))
    }

    fn cell(&self, number: usize) -> Option<FenceCell> {
        let word = self.word(number)?;
        Some(if self.history { FenceCell::in_fence_page(word, 0) } else { FenceCell::plain(word) })
    }

    /// How engines of `adapter` may use it. What several adapters share may have histories that
    /// this one does not keep.
    fn access(&self, adapter: &Adapter) -> Access {
        let kept = self.history && (self.is_movable() || adapter.caps.fence_history);
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

impl Drop for ValuePage {
    fn drop(&mut self) {
        let Place { memory, at, .. } = self.place();
        memory.remove(at);
    }
}

/// The pages of both values, which never stand in one.
// spec: NF-025
#[derive(Clone)]
struct Pages {
    current: Arc<ValuePage>,
    monitored: Arc<ValuePage>,
}

impl Pages {
    fn of_kind(adapter: &Arc<Adapter>, kind: StorageKind) -> Result<Pages, Status> {
        Ok(Pages {
            current: ValuePage::of_kind(adapter, kind, FenceStorageValueType::CurrentValue)?,
            monitored: ValuePage::of_kind(adapter, kind, FenceStorageValueType::MonitoredValue)?,
        })
    }

    /// Keeps both where they are, if they could move.
    fn hold_still<'a>(&self, adapter: &'a Adapter) -> Option<MutexGuard<'a, ()>> {
        let movable = self.current.is_movable() || self.monitored.is_movable();
        movable.then(|| adapter.residency.moves.lock_device())
    }
}

/// What stands at the addresses of a mapping that ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Afterwards {
    Nothing,
    Grave,
}

/// Both pages in one address space. The mapping does not keep the space: a process may be gone
/// before a fence that it had open.
struct MappedPages {
    adapter: Arc<Adapter>,
    space: Weak<AddressSpace>,
    affinity: Affinity,
    pages: Pages,
    current_va: u64,
    monitored_va: u64,
    /// Whether engines may store to CurrentValue: an instance of the process may signal, or ever
    /// might, since rings hold signals longer than instances live.
    may_signal: Mutex<bool>,
    afterwards: Afterwards,
}

impl MappedPages {
    fn new(
        adapter: &Arc<Adapter>,
        (space, affinity): (&Arc<AddressSpace>, Affinity),
        pages: &Pages,
        may_signal: bool,
        afterwards: Afterwards,
    ) -> Result<MappedPages, Status> {
        let _still = pages.hold_still(adapter);
        let (current, monitored) = (&pages.current, &pages.monitored);
        // spec: NF-012, MF-011, MF-012, ME-037, NF-113
        let access = if may_signal { current.access(adapter) } else { Access::Read };
        let current_va = space.map_fence_values(affinity, current.at(), VALUE_BYTES, access)?;
        // spec: NF-018
        let monitored_va =
            space.map_fence_values(affinity, monitored.at(), VALUE_BYTES, Access::Read);
        let monitored_va = monitored_va.inspect_err(|_| space.unmap(current_va, VALUE_BYTES))?;
        current.note_mapped(space, affinity, current_va, access);
        monitored.note_mapped(space, affinity, monitored_va, Access::Read);
        Ok(MappedPages {
            adapter: adapter.clone(),
            space: Arc::downgrade(space),
            affinity,
            pages: pages.clone(),
            current_va,
            monitored_va,
            may_signal: adapter.platform.mutex("who may signal through a mapping", may_signal),
            afterwards,
        })
    }

    /// Lets engines store through a mapping that was made for an instance which must not signal.
    fn let_signal(&self) {
        let Some(space) = self.space.upgrade() else { return };
        if *self.may_signal.lock() {
            return;
        }
        // Two at once do the same; neither returns before it is done.
        let _still = self.pages.hold_still(&self.adapter);
        let current = &self.pages.current;
        let access = current.access(&self.adapter);
        space.remap_on(self.affinity, self.current_va, current.at(), VALUE_BYTES, access);
        current.note_mapped(&space, self.affinity, self.current_va, access);
        *self.may_signal.lock() = true;
    }

    /// The same in the system process, where the driver asks for it: the CMP is that of all
    /// physical adapters.
    // spec: NF-074
    fn in_system_process(
        adapter: &Arc<Adapter>,
        pages: &Pages,
    ) -> Result<Option<MappedPages>, Status> {
        let Some(space) = adapter.system_process() else { return Ok(None) };
        MappedPages::new(adapter, (&space, Affinity::ALL), pages, true, Afterwards::Nothing)
            .map(Some)
    }
}

impl Drop for MappedPages {
    fn drop(&mut self) {
        let Some(space) = self.space.upgrade() else { return };
        let _still = self.pages.hold_still(&self.adapter);
        self.pages.current.note_unmapped(&space, self.current_va);
        self.pages.monitored.note_unmapped(&space, self.monitored_va);
        if self.afterwards == Afterwards::Nothing {
            space.unmap(self.current_va, VALUE_BYTES);
            space.unmap(self.monitored_va, VALUE_BYTES);
            return;
        }
        let grave = self.adapter.grave();
        let (on, access) = (self.affinity, grave.access(&self.adapter));
        space.remap_on(on, self.current_va, grave.current.at(), VALUE_BYTES, access);
        space.remap_on(on, self.monitored_va, grave.monitored.at(), VALUE_BYTES, Access::Read);
    }
}

struct PackedPage {
    kind: StorageKind,
    pages: Pages,
    mapped: MappedPages,
    in_system_process: Option<MappedPages>,
    free: Vec<usize>,
}

/// The fence pages of one process on one adapter, mapped on the same physical adapters.
pub(crate) struct FencePool {
    adapter: Arc<Adapter>,
    space: Arc<AddressSpace>,
    affinity: Affinity,
    /// Those for other affinities; held by the one for all physical adapters.
    others: Mutex<BTreeMap<Affinity, Arc<FencePool>>>,
    packed: Mutex<Vec<PackedPage>>,
    /// One shareable fence is mapped at a time: where engines use CPU addresses, two mappings of it
    /// would be one.
    mapping_own: Mutex<()>,
    /// Where shareable fences stand in this process.
    own: Mutex<BTreeMap<OsHandle, Weak<Mapping>>>,
}

struct PackedSlot {
    pool: Weak<FencePool>,
    page: usize,
    index: usize,
    current_va: u64,
    monitored_va: u64,
}

enum Room {
    Packed(PackedSlot),
    // spec: NF-029
    Own { _in_system_process: Option<MappedPages> },
}

/// One fence's cells on one adapter.
pub(crate) struct FenceStorage {
    pages: Pages,
    /// Where in both pages.
    offset: u64,
    /// Bytes of a page that the fence has.
    stride_bytes: u64,
    /// CurrentValue and MonitoredValue in the system process.
    pub(crate) system_process_va: Option<(u64, u64)>,
    room: Room,
}

/// MonitoredValue as the kernel's CPU reaches it.
pub(crate) enum MonitoredCell {
    Fixed(Word),
    /// In a page that may move, at this word.
    Movable(Arc<ValuePage>, usize),
}

impl MonitoredCell {
    /// Its address now. Whoever stores there holds the interrupt lock, under which it moves.
    pub(crate) fn word(&self) -> Option<Word> {
        match self {
            MonitoredCell::Fixed(word) => Some(word.clone()),
            MonitoredCell::Movable(page, number) => page.word(*number),
        }
    }
}

/// At which addresses a process's engines reach a fence.
pub(crate) struct Mapping {
    pub(crate) current_va: u64,
    pub(crate) monitored_va: u64,
    /// Packed fences are mapped with their page.
    own: Option<MappedPages>,
}

impl Mapping {
    /// Whether the process that it is of is there.
    pub(crate) fn is_there(&self) -> bool {
        self.own.as_ref().is_none_or(|own| own.space.strong_count() > 0)
    }
}

impl FenceStorage {
    /// Pages of its own for a fence that others will see.
    // spec: NF-038
    pub(crate) fn of_its_own(
        adapter: &Arc<Adapter>,
        kind: StorageKind,
    ) -> Result<FenceStorage, Status> {
        let current = ValuePage::of_kind(adapter, kind, FenceStorageValueType::CurrentValue)?;
        FenceStorage::around(adapter, kind, &current)
    }

    /// The same around a CurrentValue that is there already, on another adapter.
    pub(crate) fn around(
        adapter: &Arc<Adapter>,
        kind: StorageKind,
        current: &Arc<ValuePage>,
    ) -> Result<FenceStorage, Status> {
        let monitored = ValuePage::of_kind(adapter, kind, FenceStorageValueType::MonitoredValue)?;
        let pages = Pages { current: current.clone(), monitored };
        let in_system_process = MappedPages::in_system_process(adapter, &pages)?;
        let system_process_va = in_system_process.as_ref().map(|m| (m.current_va, m.monitored_va));
        let room = Room::Own { _in_system_process: in_system_process };
        Ok(FenceStorage { pages, offset: 0, stride_bytes: VALUE_BYTES, system_process_va, room })
    }

    /// The cells become those of a new fence. Where no CPU reaches them, hardware sees to that,
    /// nobody waits, and the user-mode driver stores the initial value with a GPU write.
    // spec: NF-099, MF-004
    pub(crate) fn begin(
        &self,
        adapter: &Adapter,
        name: &str,
        (initial_value, monitored_value): (u64, u64),
    ) {
        if let Some(cell) = self.current() {
            cell.word().clone().named_by(|| format!("CurrentValue of '{name}'"));
            if let Some(epoch) = cell.epoch_word() {
                epoch.named_by(|| format!("the epoch of '{name}'"));
            }
            cell.renew(initial_value, self.stride_bytes);
        }
        self.begin_monitored(adapter, name, monitored_value);
    }

    /// The same around a CurrentValue that others have already.
    pub(crate) fn begin_monitored(&self, adapter: &Adapter, name: &str, monitored_value: u64) {
        let _still = self.hold_still(adapter);
        if let Some(word) = self.monitored().word() {
            word.clone().named_by(|| format!("MonitoredValue of '{name}'")).store(monitored_value);
        }
    }

    /// CurrentValue; `None` where no CPU reaches it. Where one does, it never moves.
    // spec: NF-039
    pub(crate) fn current(&self) -> Option<FenceCell> {
        self.pages.current.cell(self.index())
    }

    /// MonitoredValue.
    pub(crate) fn monitored(&self) -> MonitoredCell {
        match self.pages.monitored.is_movable() {
            true => MonitoredCell::Movable(self.pages.monitored.clone(), self.index()),
            false => match self.pages.monitored.word(self.index()) {
                Some(word) => MonitoredCell::Fixed(word),
                None => MonitoredCell::Movable(self.pages.monitored.clone(), self.index()),
            },
        }
    }

    fn index(&self) -> usize {
        (self.offset / WORD_BYTES) as usize
    }

    /// Where CurrentValue stands on the bus.
    pub(crate) fn current_at(&self) -> PhysicalAddress {
        PhysicalAddress(self.pages.current.at().0 + self.offset)
    }

    /// Where MonitoredValue stands on the bus.
    pub(crate) fn monitored_at(&self) -> PhysicalAddress {
        PhysicalAddress(self.pages.monitored.at().0 + self.offset)
    }

    /// Whether a part of it may move.
    pub(crate) fn is_movable(&self) -> bool {
        self.pages.current.is_movable() || self.pages.monitored.is_movable()
    }

    /// Whether the fence stands in this page.
    pub(crate) fn is_in(&self, page: &Arc<ValuePage>) -> bool {
        Arc::ptr_eq(&self.pages.current, page) || Arc::ptr_eq(&self.pages.monitored, page)
    }

    /// Keeps it where it is, if it could move.
    pub(crate) fn hold_still<'a>(&self, adapter: &'a Adapter) -> Option<MutexGuard<'a, ()>> {
        self.pages.hold_still(adapter)
    }

    /// Where the process of `pool` finds the fence; the same addresses for all instances there.
    // spec: NF-103
    pub(crate) fn map(
        &self,
        fence: OsHandle,
        pool: &FencePool,
        may_signal: bool,
    ) -> Result<Arc<Mapping>, Status> {
        match &self.room {
            Room::Packed(slot) => Ok(Arc::new(Mapping {
                current_va: slot.current_va,
                monitored_va: slot.monitored_va,
                own: None,
            })),
            Room::Own { .. } => pool.map_own(fence, &self.pages, may_signal),
        }
    }
}

impl FencePool {
    pub(crate) fn new(adapter: &Arc<Adapter>, space: &Arc<AddressSpace>) -> Arc<FencePool> {
        FencePool::with_affinity(adapter, space, Affinity::ALL)
    }

    /// The pool of the same process for fences that are mapped on these physical adapters: a page
    /// is mapped as a whole, so each affinity has pages of its own.
    // spec: NF-321
    pub(crate) fn on(self: &Arc<FencePool>, affinity: Affinity) -> Arc<FencePool> {
        if affinity == self.affinity {
            return self.clone();
        }
        let fresh = || FencePool::with_affinity(&self.adapter, &self.space, affinity);
        self.others.lock().entry(affinity).or_insert_with(fresh).clone()
    }

    fn with_affinity(
        adapter: &Arc<Adapter>,
        space: &Arc<AddressSpace>,
        affinity: Affinity,
    ) -> Arc<FencePool> {
        let others = adapter.platform.mutex("fence pages of other affinities", BTreeMap::new());
        let packed = adapter.platform.mutex("fence pages", Vec::new());
        let own = adapter.platform.mutex("mappings of shareable fences", BTreeMap::new());
        let mapping_own = adapter.platform.mutex("mapping of a shareable fence", ());
        let (adapter, space) = (adapter.clone(), space.clone());
        Arc::new(FencePool { adapter, space, affinity, others, packed, mapping_own, own })
    }

    fn stride_words(&self) -> usize {
        (self.adapter.native_fence_caps.monitored_value_stride as usize / WORD_BYTES as usize)
            .max(1)
    }

    /// Takes a slot for a fence that stays in this process.
    // spec: NF-026
    pub(crate) fn allocate(
        self: &Arc<FencePool>,
        kind: StorageKind,
    ) -> Result<FenceStorage, Status> {
        loop {
            if let Some(slot) = self.take_free(kind) {
                return Ok(slot);
            }
            let page = self.new_page(kind)?;
            self.packed.lock().push(page);
        }
    }

    fn take_free(self: &Arc<FencePool>, kind: StorageKind) -> Option<FenceStorage> {
        let stride = self.stride_words();
        let mut packed = self.packed.lock();
        let has_room = |page: &PackedPage| page.kind == kind && !page.free.is_empty();
        let (number, page) = packed.iter_mut().enumerate().find(|(_, page)| has_room(page))?;
        let index = page.free.pop()?;
        // spec: NF-027
        let offset = (index * stride) as u64 * WORD_BYTES;
        Some(FenceStorage {
            pages: page.pages.clone(),
            offset,
            stride_bytes: stride as u64 * WORD_BYTES,
            system_process_va: page
                .in_system_process
                .as_ref()
                .map(|m| (m.current_va + offset, m.monitored_va + offset)),
            room: Room::Packed(PackedSlot {
                pool: Arc::downgrade(self),
                page: number,
                index,
                current_va: page.mapped.current_va + offset,
                monitored_va: page.mapped.monitored_va + offset,
            }),
        })
    }

    fn new_page(&self, kind: StorageKind) -> Result<PackedPage, Status> {
        let pages = Pages::of_kind(&self.adapter, kind)?;
        let here = (&self.space, self.affinity);
        let mapped = MappedPages::new(&self.adapter, here, &pages, true, Afterwards::Nothing)?;
        let in_system_process = MappedPages::in_system_process(&self.adapter, &pages)?;
        let free = (0..VALUE_WORDS / self.stride_words()).rev().collect();
        Ok(PackedPage { kind, pages, mapped, in_system_process, free })
    }

    fn map_own(
        &self,
        fence: OsHandle,
        pages: &Pages,
        may_signal: bool,
    ) -> Result<Arc<Mapping>, Status> {
        let _one_at_a_time = self.mapping_own.lock_device();
        let known = self.own.lock().get(&fence).and_then(Weak::upgrade);
        let mapping = match known {
            Some(known) => known,
            None => self.keep_own(fence, self.new_own(pages, may_signal)?),
        };
        if may_signal && let Some(mapped) = &mapping.own {
            mapped.let_signal();
        }
        Ok(mapping)
    }

    fn new_own(&self, pages: &Pages, may_signal: bool) -> Result<Arc<Mapping>, Status> {
        let here = (&self.space, self.affinity);
        let mapped = MappedPages::new(&self.adapter, here, pages, may_signal, Afterwards::Grave)?;
        let (current_va, monitored_va) = (mapped.current_va, mapped.monitored_va);
        Ok(Arc::new(Mapping { current_va, monitored_va, own: Some(mapped) }))
    }

    fn keep_own(&self, fence: OsHandle, mapping: Arc<Mapping>) -> Arc<Mapping> {
        let mut own = self.own.lock();
        own.retain(|_, mapping| mapping.strong_count() > 0);
        own.insert(fence, Arc::downgrade(&mapping));
        mapping
    }
}

impl Drop for FencePool {
    fn drop(&mut self) {
        // Mappings end while their address space is still there.
        let packed = std::mem::take(&mut *self.packed.lock());
        drop(packed);
    }
}

impl Drop for FenceStorage {
    fn drop(&mut self) {
        if let Room::Packed(slot) = &self.room
            && let Some(pool) = slot.pool.upgrade()
        {
            // spec: NF-042
            pool.packed.lock()[slot.page].free.push(slot.index);
        }
    }
}

/// What is mapped where a shareable fence stood: a fence that is over. One for all processes of an
/// adapter, which can learn and change nothing by it.
pub(crate) struct Grave {
    current: ValuePage,
    monitored: ValuePage,
}

impl Grave {
    pub(crate) fn new(memory: &PhysicalMemory, history: bool) -> Grave {
        let current = ValuePage::fixed(memory, FenceStorageValueType::CurrentValue, history);
        if let Some(cell) = current.cell(0) {
            cell.condemn();
        }
        let monitored = ValuePage::fixed(memory, FenceStorageValueType::MonitoredValue, history);
        if let Some(word) = monitored.word(0) {
            word.store(NO_WAITER);
        }
        Grave { current, monitored }
    }

    /// Engines may store where the hardware knows that the fence is over; elsewhere a store would
    /// be seen by others.
    fn access(&self, adapter: &Adapter) -> Access {
        if adapter.caps.fence_history { Access::FenceValues } else { Access::Read }
    }
}
