//! Location of fence values, and the addresses at which a process's engines access them.
//!
//! - DEFAULT: both values in system memory. Its optimised form, which clients cannot distinguish,
//!   has MonitoredValue in CPU-visible local memory.
//! - INTRA_GPU: both in local memory that the CPU cannot access. Hardware initialises and
//!   ends them.
//! - Fences that are not shareable are packed into pages of their process, both values at the same
//!   index. A shareable fence has its own pages, which several adapters may share.
//!
//! Invariants: a slot is reused once the driver has destroyed its fence. A shareable fence stays
//! mapped until it ends, since rings may hold waits for it longer than a process holds the
//! instance. Then [`crate::memory::Memory::ended_fence`] is mapped there.

use super::free_slots::{FreeSlots, SlotAt};
use crate::memory::{Access, AddressSpace, Affinity, FenceValuePage, Memory};
use crate::timer::{AtPassive, EndAtPassive};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use tidegate_calls::{NativeFenceType, Status, SyncObjectFlags};
use tidegate_d3dukmdt::FenceCell;
use tidegate_d3dukmdt::fence_cell::{VALUE_BYTES, VALUE_WORDS};
use tidegate_ddi::feature::NativeFenceOsCaps;
use tidegate_ddi::memory::FenceStorageValueType;
use tidegate_ddi::{OsHandle, Passive};
use tidegate_platform::{Mutex, MutexGuard, PhysicalAddress, Word};

const WORD_BYTES: u64 = 8;

/// The memory that holds the two values of a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorageKind {
    /// Both values in system memory.
    Default,
    /// MonitoredValue in CPU-visible local memory.
    OptimizedDefault,
    /// Both values in local memory that the CPU cannot access.
    IntraGpu,
}

impl StorageKind {
    /// Chooses the kind of a fence. The caller states DEFAULT or INTRA_GPU; the kernel optimises.
    // spec: NF-030, NF-034
    pub(crate) fn choose(
        level: &Passive,
        memory: &Memory,
        native: Option<NativeFenceType>,
        flags: SyncObjectFlags,
    ) -> Result<StorageKind, Status> {
        let Some(fence_type) = native else { return Ok(StorageKind::Default) };
        let has_cap = |cap| memory.driver.config.native_fence_os_caps.contains(cap);
        let has_segment = |value| Ok(memory.fence_segment(level, value, fence_type)?.is_some());
        match fence_type {
            NativeFenceType::IntraGpu => {
                let both = has_segment(FenceStorageValueType::CurrentValue)?
                    && has_segment(FenceStorageValueType::MonitoredValue)?;
                if both { Ok(StorageKind::IntraGpu) } else { Err(Status::NOT_SUPPORTED) }
            }
            // Engines of other adapters may read a shared fence.
            NativeFenceType::Default if flags.contains(SyncObjectFlags::SHARED) => {
                Ok(StorageKind::Default)
            }
            NativeFenceType::Default
                if !has_cap(NativeFenceOsCaps::OPTIMIZED_DEFAULT_FENCE_TYPE) =>
            {
                Ok(StorageKind::Default)
            }
            NativeFenceType::Default => match has_segment(FenceStorageValueType::MonitoredValue)? {
                true => Ok(StorageKind::OptimizedDefault),
                false => Ok(StorageKind::Default),
            },
        }
    }

    /// Returns the fence type for a value in local memory; `None` for system memory.
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

/// Allocates a page of values of this kind.
fn new_page(
    level: &Passive,
    memory: &Arc<Memory>,
    kind: StorageKind,
    value: FenceStorageValueType,
) -> Result<Arc<FenceValuePage>, Status> {
    match kind.in_local(value) {
        Some(fence_type) => memory.allocate_fence_page(level, value, fence_type),
        None => {
            let history = memory.driver.declared.caps.fence_history;
            let system_memory = &memory.driver.system_memory;
            Ok(Arc::new(FenceValuePage::fixed(system_memory, value, history)))
        }
    }
}

/// The pages of both values, which are always distinct.
// spec: NF-025
#[derive(Clone)]
struct Pages {
    current: Arc<FenceValuePage>,
    monitored: Arc<FenceValuePage>,
}

impl Pages {
    fn of_kind(level: &Passive, memory: &Arc<Memory>, kind: StorageKind) -> Result<Pages, Status> {
        Ok(Pages {
            current: new_page(level, memory, kind, FenceStorageValueType::CurrentValue)?,
            monitored: new_page(level, memory, kind, FenceStorageValueType::MonitoredValue)?,
        })
    }

    fn is_movable(&self) -> bool {
        self.current.is_movable() || self.monitored.is_movable()
    }

    /// Prevents both pages from moving, if they can.
    fn hold_still<'a>(&self, memory: &'a Memory) -> Option<MutexGuard<'a, ()>> {
        self.is_movable().then(|| memory.hold_fence_pages())
    }
}

/// What replaces a mapping that ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Afterwards {
    Nothing,
    EndedFence,
}

/// Both pages mapped in one address space. The address space may end first, since a process ends
/// before the fences that it had open.
type MappedPages = AtPassive<MappedPagesBody>;

/// The parts of a mapping of both pages.
struct MappedPagesBody {
    memory: Arc<Memory>,
    space: Weak<AddressSpace>,
    affinity: Affinity,
    pages: Pages,
    current_va: u64,
    monitored_va: u64,
    /// Whether engines may store to CurrentValue. True once any instance of the process may signal,
    /// since rings can hold signals longer than instances live.
    may_signal: Mutex<bool>,
    afterwards: Afterwards,
}

impl MappedPages {
    fn new(
        level: &Passive,
        memory: &Arc<Memory>,
        space: &Arc<AddressSpace>,
        affinity: Affinity,
        pages: &Pages,
        may_signal: bool,
        afterwards: Afterwards,
    ) -> Result<MappedPages, Status> {
        let _driver = memory.driver.driver(level);
        let _still = pages.hold_still(memory);
        let (current, monitored) = (&pages.current, &pages.monitored);
        // spec: NF-012, MF-011, MF-012, ME-037, NF-113
        let access = if may_signal { current.access(&memory.driver) } else { Access::Read };
        let current_va =
            space.map_fence_values(level, affinity, current.at(), VALUE_BYTES, access)?;
        // spec: NF-018
        let monitored_va =
            space.map_fence_values(level, affinity, monitored.at(), VALUE_BYTES, Access::Read);
        let monitored_va =
            monitored_va.inspect_err(|_| space.unmap(level, current_va, VALUE_BYTES))?;
        current.note_mapped(space, affinity, current_va, access);
        monitored.note_mapped(space, affinity, monitored_va, Access::Read);
        let platform = &memory.driver.platform;
        let body = MappedPagesBody {
            memory: memory.clone(),
            space: Arc::downgrade(space),
            affinity,
            pages: pages.clone(),
            current_va,
            monitored_va,
            may_signal: platform.mutex("signal right of a mapping", may_signal),
            afterwards,
        };
        Ok(AtPassive::wrap(&memory.driver.timer, body))
    }

    /// Makes a mapping writable that was created for an instance without signal rights.
    fn allow_signals(&self, level: &Passive) {
        let Some(space) = self.space.upgrade() else { return };
        if *self.may_signal.lock() {
            return;
        }
        // Concurrent callers do the same work, and each returns only when it is done.
        let _driver = self.memory.driver.driver(level);
        let _still = self.pages.hold_still(&self.memory);
        let current = &self.pages.current;
        let access = current.access(&self.memory.driver);
        space.remap_on(level, self.affinity, self.current_va, current.at(), VALUE_BYTES, access);
        current.note_mapped(&space, self.affinity, self.current_va, access);
        *self.may_signal.lock() = true;
    }

    /// Maps both pages in the system process, if the driver needs fences mapped there. The CMP
    /// serves all physical adapters.
    // spec: NF-074
    fn in_system_process(
        level: &Passive,
        memory: &Arc<Memory>,
        pages: &Pages,
    ) -> Result<Option<MappedPages>, Status> {
        let Some(space) = memory.system_space_for_fences() else { return Ok(None) };
        MappedPages::new(level, memory, &space, Affinity::ALL, pages, true, Afterwards::Nothing)
            .map(Some)
    }
}

impl EndAtPassive for MappedPagesBody {
    fn end(&mut self, level: &Passive) {
        let Some(space) = self.space.upgrade() else { return };
        let _driver = self.memory.driver.driver(level);
        let _still = self.pages.hold_still(&self.memory);
        self.pages.current.note_unmapped(&space, self.current_va);
        self.pages.monitored.note_unmapped(&space, self.monitored_va);
        if self.afterwards == Afterwards::Nothing {
            space.unmap(level, self.current_va, VALUE_BYTES);
            space.unmap(level, self.monitored_va, VALUE_BYTES);
            return;
        }
        let (on, ended) = (self.affinity, self.memory.ended_fence());
        space.remap_on(level, on, self.current_va, ended.current.at(), VALUE_BYTES, ended.access);
        space.remap_on(
            level,
            on,
            self.monitored_va,
            ended.monitored.at(),
            VALUE_BYTES,
            Access::Read,
        );
    }
}

struct PackedPage {
    pages: Pages,
    mapped: MappedPages,
    in_system_process: Option<MappedPages>,
}

/// The packed pages of a pool, and their free slots.
struct Packed {
    pages: Vec<PackedPage>,
    free: FreeSlots<StorageKind>,
}

/// The fence pages of one process on one adapter, mapped on the same physical adapters.
pub(crate) struct FencePool {
    memory: Arc<Memory>,
    space: Arc<AddressSpace>,
    affinity: Affinity,
    /// The pools of other affinities. Used only in the pool of all physical adapters.
    others: Mutex<BTreeMap<Affinity, Arc<FencePool>>>,
    packed: Mutex<Packed>,
    /// Serialises the mapping of shareable fences: where engines use CPU addresses, two mappings of
    /// one fence would coincide.
    mapping_own: Mutex<()>,
    /// The mappings of shareable fences in this process.
    own: Mutex<OwnMappings>,
}

/// Fewest mappings that are looked through for ended ones. The number doubles with that of the
/// live ones, so a mapping costs the same however many there are.
const COLLECT_FIRST: usize = 64;

#[derive(Default)]
struct OwnMappings {
    of: BTreeMap<OsHandle, Weak<Mapping>>,
    /// How many of them are looked through.
    collect_at: usize,
}

struct PackedSlot {
    pool: Weak<FencePool>,
    kind: StorageKind,
    at: SlotAt,
    current_va: u64,
    monitored_va: u64,
}

enum Slot {
    Packed(PackedSlot),
    // spec: NF-029
    Own { _in_system_process: Option<MappedPages> },
}

/// The cells of one fence on one adapter.
pub(crate) struct FenceStorage {
    pages: Pages,
    /// Byte offset in both pages.
    offset: u64,
    /// Bytes of each page that belong to the fence.
    stride_bytes: u64,
    /// CurrentValue and MonitoredValue in the system process.
    pub(crate) system_process_va: Option<(u64, u64)>,
    slot: Slot,
}

/// MonitoredValue as the kernel's CPU reaches it.
pub(crate) struct MonitoredCell {
    page: Arc<FenceValuePage>,
    index: usize,
}

impl MonitoredCell {
    /// Returns the word at its present location. A caller that stores there holds the interrupt
    /// lock, under which the word moves.
    pub(crate) fn word(&self) -> Option<Word> {
        self.page.word(self.index)
    }
}

/// The addresses of a fence in one process.
pub(crate) struct Mapping {
    pub(crate) current_va: u64,
    pub(crate) monitored_va: u64,
    /// `None` for packed fences, which are mapped with their page.
    own: Option<MappedPages>,
}

impl Mapping {
    /// Returns whether the mapping is in this address space, in which the fence is open. A packed
    /// fence is open in one process only.
    pub(crate) fn is_in(&self, space: &Arc<AddressSpace>) -> bool {
        let is_it = |own: &MappedPages| std::ptr::eq(own.space.as_ptr(), Arc::as_ptr(space));
        self.own.as_ref().is_none_or(is_it)
    }

    /// Returns whether the address space still exists.
    pub(crate) fn exists(&self) -> bool {
        self.own.as_ref().is_none_or(|own| own.space.strong_count() > 0)
    }
}

impl FenceStorage {
    /// Allocates the storage of a shareable fence, in its own pages.
    // spec: NF-038
    pub(crate) fn of_its_own(
        level: &Passive,
        memory: &Arc<Memory>,
        kind: StorageKind,
    ) -> Result<FenceStorage, Status> {
        let current = new_page(level, memory, kind, FenceStorageValueType::CurrentValue)?;
        FenceStorage::around(level, memory, kind, &current)
    }

    /// Like [`FenceStorage::of_its_own`], with the CurrentValue of a member on another adapter.
    pub(crate) fn around(
        level: &Passive,
        memory: &Arc<Memory>,
        kind: StorageKind,
        current: &Arc<FenceValuePage>,
    ) -> Result<FenceStorage, Status> {
        let monitored = new_page(level, memory, kind, FenceStorageValueType::MonitoredValue)?;
        let pages = Pages { current: current.clone(), monitored };
        let in_system_process = MappedPages::in_system_process(level, memory, &pages)?;
        let system_process_va = in_system_process.as_ref().map(|m| (m.current_va, m.monitored_va));
        let slot = Slot::Own { _in_system_process: in_system_process };
        Ok(FenceStorage { pages, offset: 0, stride_bytes: VALUE_BYTES, system_process_va, slot })
    }

    /// Initialises the cells of a new fence. If the CPU cannot access them, the hardware does, and
    /// the user-mode driver stores the initial value with a GPU write.
    // spec: NF-099, MF-004
    pub(crate) fn begin(
        &self,
        memory: &Memory,
        name: &str,
        initial_value: u64,
        monitored_value: u64,
    ) {
        if let Some(cell) = self.current() {
            cell.word().clone().named_by(|| format!("CurrentValue of '{name}'"));
            if let Some(epoch) = cell.epoch_word() {
                epoch.named_by(|| format!("the epoch of '{name}'"));
            }
            let annex_peaks = memory.driver.declared.caps.fence_history_peaks as usize;
            cell.renew(initial_value, self.stride_bytes, annex_peaks);
        }
        self.begin_monitored(memory, name, monitored_value);
    }

    /// Initialises only MonitoredValue: other members use CurrentValue already.
    pub(crate) fn begin_monitored(&self, memory: &Memory, name: &str, monitored_value: u64) {
        let _still = self.hold_still(memory);
        if let Some(word) = self.monitored().word() {
            word.clone().named_by(|| format!("MonitoredValue of '{name}'")).store(monitored_value);
        }
    }

    /// Returns CurrentValue, or `None` if the CPU cannot access it. A CPU-visible CurrentValue
    /// never moves.
    // spec: NF-039
    pub(crate) fn current(&self) -> Option<FenceCell> {
        self.pages.current.cell(self.index())
    }

    /// MonitoredValue.
    pub(crate) fn monitored(&self) -> MonitoredCell {
        MonitoredCell { page: self.pages.monitored.clone(), index: self.index() }
    }

    fn index(&self) -> usize {
        (self.offset / WORD_BYTES) as usize
    }

    /// Returns the bus address of CurrentValue.
    pub(crate) fn current_at(&self) -> PhysicalAddress {
        PhysicalAddress(self.pages.current.at().0 + self.offset)
    }

    /// Returns the bus address of MonitoredValue.
    pub(crate) fn monitored_at(&self) -> PhysicalAddress {
        PhysicalAddress(self.pages.monitored.at().0 + self.offset)
    }

    /// Returns whether either value may move.
    pub(crate) fn is_movable(&self) -> bool {
        self.pages.is_movable()
    }

    /// Returns whether the fence is stored in this page.
    pub(crate) fn is_in(&self, page: &Arc<FenceValuePage>) -> bool {
        Arc::ptr_eq(&self.pages.current, page) || Arc::ptr_eq(&self.pages.monitored, page)
    }

    /// Prevents the values from moving, if they can.
    pub(crate) fn hold_still<'a>(&self, memory: &'a Memory) -> Option<MutexGuard<'a, ()>> {
        self.pages.hold_still(memory)
    }

    /// Returns the fence's addresses in the process of `pool`, which all its instances share.
    pub(crate) fn map(
        &self,
        level: &Passive,
        fence: OsHandle,
        pool: &FencePool,
        may_signal: bool,
    ) -> Result<Arc<Mapping>, Status> {
        match &self.slot {
            Slot::Packed(slot) => Ok(Arc::new(Mapping {
                current_va: slot.current_va,
                monitored_va: slot.monitored_va,
                own: None,
            })),
            Slot::Own { .. } => pool.map_own(level, fence, &self.pages, may_signal),
        }
    }
}

impl FencePool {
    pub(crate) fn new(memory: &Arc<Memory>, space: &Arc<AddressSpace>) -> Arc<FencePool> {
        FencePool::with_affinity(memory, space, Affinity::ALL)
    }

    /// Returns this process's pool for fences mapped on these physical adapters. A page is mapped
    /// as a whole, so each affinity has its own pages.
    // spec: NF-321
    pub(crate) fn on(self: &Arc<FencePool>, affinity: Affinity) -> Arc<FencePool> {
        if affinity == self.affinity {
            return self.clone();
        }
        let fresh = || FencePool::with_affinity(&self.memory, &self.space, affinity);
        self.others.lock().entry(affinity).or_insert_with(fresh).clone()
    }

    fn with_affinity(
        memory: &Arc<Memory>,
        space: &Arc<AddressSpace>,
        affinity: Affinity,
    ) -> Arc<FencePool> {
        let platform = &memory.driver.platform;
        let others = platform.mutex("fence pages of other affinities", BTreeMap::new());
        let packed = Packed { pages: Vec::new(), free: FreeSlots::new() };
        let packed = platform.mutex("fence pages", packed);
        let own = platform.mutex("mappings of shareable fences", OwnMappings::default());
        let mapping_own = platform.mutex("mapping of a shareable fence", ());
        let (memory, space) = (memory.clone(), space.clone());
        Arc::new(FencePool { memory, space, affinity, others, packed, mapping_own, own })
    }

    fn stride_words(&self) -> usize {
        let stride_bytes =
            u64::from(self.memory.driver.declared.native_fence.monitored_value_stride);
        (stride_bytes / WORD_BYTES).max(1) as usize
    }

    /// Allocates a slot for a fence that is not shareable.
    // spec: NF-026
    pub(crate) fn allocate(
        self: &Arc<FencePool>,
        level: &Passive,
        kind: StorageKind,
    ) -> Result<FenceStorage, Status> {
        loop {
            if let Some(slot) = self.take_free(kind) {
                return Ok(slot);
            }
            let page = self.new_page(level, kind)?;
            let mut packed = self.packed.lock();
            let (number, slots) = (packed.pages.len(), VALUE_WORDS / self.stride_words());
            packed.pages.push(page);
            packed.free.add_page(kind, number as u32, slots as u32);
        }
    }

    fn take_free(self: &Arc<FencePool>, kind: StorageKind) -> Option<FenceStorage> {
        let stride = self.stride_words();
        let mut packed = self.packed.lock();
        let at = packed.free.take(kind)?;
        let page = &packed.pages[at.page as usize];
        // spec: NF-027
        let offset = (at.index as usize * stride) as u64 * WORD_BYTES;
        Some(FenceStorage {
            pages: page.pages.clone(),
            offset,
            stride_bytes: stride as u64 * WORD_BYTES,
            system_process_va: page
                .in_system_process
                .as_ref()
                .map(|m| (m.current_va + offset, m.monitored_va + offset)),
            slot: Slot::Packed(PackedSlot {
                pool: Arc::downgrade(self),
                kind,
                at,
                current_va: page.mapped.current_va + offset,
                monitored_va: page.mapped.monitored_va + offset,
            }),
        })
    }

    fn new_page(&self, level: &Passive, kind: StorageKind) -> Result<PackedPage, Status> {
        let pages = Pages::of_kind(level, &self.memory, kind)?;
        let mapped = self.mapped(level, &pages, true, Afterwards::Nothing)?;
        let in_system_process = MappedPages::in_system_process(level, &self.memory, &pages)?;
        Ok(PackedPage { pages, mapped, in_system_process })
    }

    /// Maps pages into the address space of the pool.
    fn mapped(
        &self,
        level: &Passive,
        pages: &Pages,
        may_signal: bool,
        afterwards: Afterwards,
    ) -> Result<MappedPages, Status> {
        let (memory, space) = (&self.memory, &self.space);
        MappedPages::new(level, memory, space, self.affinity, pages, may_signal, afterwards)
    }

    fn map_own(
        &self,
        level: &Passive,
        fence: OsHandle,
        pages: &Pages,
        may_signal: bool,
    ) -> Result<Arc<Mapping>, Status> {
        let _one_at_a_time = self.mapping_own.lock_device();
        // spec: NF-103
        let known = self.own.lock().of.get(&fence).and_then(Weak::upgrade);
        let mapping = match known {
            Some(known) => known,
            None => self.keep_own(fence, self.new_own(level, pages, may_signal)?),
        };
        if may_signal && let Some(mapped) = &mapping.own {
            mapped.allow_signals(level);
        }
        Ok(mapping)
    }

    fn new_own(
        &self,
        level: &Passive,
        pages: &Pages,
        may_signal: bool,
    ) -> Result<Arc<Mapping>, Status> {
        let mapped = self.mapped(level, pages, may_signal, Afterwards::EndedFence)?;
        let (current_va, monitored_va) = (mapped.current_va, mapped.monitored_va);
        Ok(Arc::new(Mapping { current_va, monitored_va, own: Some(mapped) }))
    }

    fn keep_own(&self, fence: OsHandle, mapping: Arc<Mapping>) -> Arc<Mapping> {
        let mut own = self.own.lock();
        own.of.insert(fence, Arc::downgrade(&mapping));
        if own.of.len() >= own.collect_at {
            own.of.retain(|_, mapping| mapping.strong_count() > 0);
            own.collect_at = COLLECT_FIRST.max(2 * own.of.len());
        }
        mapping
    }
}

impl Drop for FencePool {
    fn drop(&mut self) {
        // Mappings must end while their address space exists.
        let pages = std::mem::take(&mut self.packed.lock().pages);
        drop(pages);
    }
}

impl Drop for FenceStorage {
    fn drop(&mut self) {
        if let Slot::Packed(slot) = &self.slot
            && let Some(pool) = slot.pool.upgrade()
        {
            // spec: NF-042
            pool.packed.lock().free.free(slot.kind, slot.at);
        }
    }
}
