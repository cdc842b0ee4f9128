//! Owns where fence cells stand, and at which addresses a process's engines reach them.
//!
//! Fences that cannot be shared are packed into pages of their process, CurrentValue and MonitoredValue in pages of their own
//! kind at the same index; the stride is the driver's. A shareable fence has pages that hold nothing else, since another
//! process or adapter will see them, and CurrentValue's page may be that of several adapters.
//!
//! CurrentValue pages are mapped read/write for engines, MonitoredValue pages read-only: an engine's store there faults. The
//! histories behind CurrentValues are not mapped: nobody but the hardware and the kernel reaches them. A slot is used again
//! only after its fence died, which is after the driver destroyed it. A shareable fence stays mapped where it was opened until it
//! ends, since rings may hold waits for it longer than their process holds the instance. Then the adapter's grave is mapped
//! there: a packet that comes late finds a fence that lets every wait pass.

use crate::adapter::Adapter;
use crate::memory::{Access, AddressSpace};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use tidegate_calls::Status;
use tidegate_d3dukmdt::FenceCell;
use tidegate_d3dukmdt::fence_cell::{PAGE_WORDS, VALUE_BYTES, VALUE_WORDS};
use tidegate_ddi::OsHandle;
use tidegate_platform::{Mutex, Page, PhysicalAddress, PhysicalMemory, Word};

const WORD_BYTES: u64 = 8;

/// A page of values on the bus; it leaves the bus with its last holder.
pub(crate) struct ValuePage {
    memory: PhysicalMemory,
    at: PhysicalAddress,
    page: Page,
    history: bool,
}

impl ValuePage {
    /// A page of CurrentValues, with their histories behind it where the hardware keeps them.
    pub(crate) fn of_current_values(memory: &PhysicalMemory, history: bool) -> ValuePage {
        let (at, page) = memory.protocol(if history { PAGE_WORDS } else { VALUE_WORDS });
        ValuePage { memory: memory.clone(), at, page, history }
    }

    fn of_monitored_values(memory: &PhysicalMemory) -> ValuePage {
        let (at, page) = memory.protocol(VALUE_WORDS);
        ValuePage { memory: memory.clone(), at, page, history: false }
    }

    fn cell(&self, number: usize) -> FenceCell {
        let word = self.page.word(number);
        if self.history { FenceCell::in_fence_page(word, 0) } else { FenceCell::plain(word) }
    }

    /// How engines of `adapter` may use a page of CurrentValues.
    fn access(&self, adapter: &Adapter) -> Access {
        let kept = self.history && adapter.caps.fence_history;
        if kept { Access::FenceValues } else { Access::ReadWrite }
    }
}

impl Drop for ValuePage {
    fn drop(&mut self) {
        self.memory.remove(self.at);
    }
}

// spec: NF-025
struct PackedPage {
    current: ValuePage,
    monitored: ValuePage,
    current_va: u64,
    monitored_va: u64,
    free: Vec<usize>,
}

/// The fence pages of one process on one adapter.
pub(crate) struct FencePool {
    adapter: Arc<Adapter>,
    space: Arc<AddressSpace>,
    pages: Mutex<Vec<PackedPage>>,
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

enum Place {
    Packed(PackedSlot),
    // spec: NF-029
    Own { current: Arc<ValuePage>, monitored: ValuePage },
}

/// One fence's cells on one adapter, as the kernel's CPU reaches them.
pub(crate) struct FenceStorage {
    pub(crate) current: FenceCell,
    /// Where CurrentValue stands on the bus.
    pub(crate) current_at: PhysicalAddress,
    pub(crate) monitored: Word,
    /// Bytes of a page that the fence has.
    pub(crate) stride_bytes: u64,
    place: Place,
}

/// At which addresses a process's engines reach a fence.
pub(crate) struct Mapping {
    pub(crate) current_va: u64,
    pub(crate) monitored_va: u64,
    /// The address space in which a grave is dug when the fence ends; packed fences are mapped with their page. The mapping
    /// does not keep it: a process may be gone before a fence that it had open.
    own_in: Option<OwnMapping>,
}

struct OwnMapping {
    adapter: Arc<Adapter>,
    space: Weak<AddressSpace>,
    /// Whether an instance of the process may signal, or ever might: rings hold signals longer than instances live.
    signals: Mutex<bool>,
}

impl FenceStorage {
    /// Pages of its own for a fence that others will see.
    // spec: NF-032, NF-035, NF-038
    pub(crate) fn of_its_own(adapter: &Adapter) -> FenceStorage {
        let current = ValuePage::of_current_values(&adapter.system_memory, adapter.caps.fence_history);
        FenceStorage::around(adapter, &Arc::new(current))
    }

    /// The same around a CurrentValue that is there already, on another adapter.
    pub(crate) fn around(adapter: &Adapter, current: &Arc<ValuePage>) -> FenceStorage {
        let monitored = ValuePage::of_monitored_values(&adapter.system_memory);
        FenceStorage {
            current: current.cell(0),
            current_at: current.at,
            monitored: monitored.page.word(0),
            stride_bytes: VALUE_BYTES,
            place: Place::Own { current: current.clone(), monitored },
        }
    }

    /// Where MonitoredValue of a shareable fence stands on the bus.
    pub(crate) fn monitored_at(&self) -> Option<PhysicalAddress> {
        match &self.place {
            Place::Own { monitored, .. } => Some(monitored.at),
            Place::Packed(_) => None,
        }
    }

    /// Where the process of `pool` finds the fence; the same addresses for all instances there.
    // spec: NF-103
    pub(crate) fn map(
        &self,
        fence: OsHandle,
        pool: &FencePool,
        may_signal: bool,
    ) -> Result<Arc<Mapping>, Status> {
        match &self.place {
            Place::Packed(slot) => Ok(Arc::new(Mapping {
                current_va: slot.current_va,
                monitored_va: slot.monitored_va,
                own_in: None,
            })),
            Place::Own { current, monitored } => pool.map_own(fence, (current, monitored), may_signal),
        }
    }
}

impl FencePool {
    pub(crate) fn new(adapter: &Arc<Adapter>, space: &Arc<AddressSpace>) -> Arc<FencePool> {
        let pages = adapter.platform.mutex("fence pages", Vec::new());
        let own = adapter.platform.mutex("mappings of shareable fences", BTreeMap::new());
        Arc::new(FencePool { adapter: adapter.clone(), space: space.clone(), pages, own })
    }

    fn stride_words(&self) -> usize {
        (self.adapter.native_fence_caps.monitored_value_stride as usize / WORD_BYTES as usize).max(1)
    }

    /// Takes a slot for a fence that stays in this process.
    // spec: NF-026
    pub(crate) fn allocate(self: &Arc<FencePool>) -> Result<FenceStorage, Status> {
        loop {
            if let Some(slot) = self.take_free() {
                return Ok(slot);
            }
            let page = self.new_page()?;
            self.pages.lock().push(page);
        }
    }

    fn take_free(self: &Arc<FencePool>) -> Option<FenceStorage> {
        let stride = self.stride_words();
        let mut pages = self.pages.lock();
        let (number, page) = pages.iter_mut().enumerate().find(|(_, p)| !p.free.is_empty())?;
        let index = page.free.pop()?;
        // spec: NF-027
        let offset = (index * stride) as u64 * WORD_BYTES;
        Some(FenceStorage {
            current: page.current.cell(index * stride),
            current_at: PhysicalAddress(page.current.at.0 + offset),
            monitored: page.monitored.page.word(index * stride),
            stride_bytes: stride as u64 * WORD_BYTES,
            place: Place::Packed(PackedSlot {
                pool: Arc::downgrade(self),
                page: number,
                index,
                current_va: page.current_va + offset,
                monitored_va: page.monitored_va + offset,
            }),
        })
    }

    fn new_page(&self) -> Result<PackedPage, Status> {
        let memory = &self.adapter.system_memory;
        let current = ValuePage::of_current_values(memory, self.adapter.caps.fence_history);
        let monitored = ValuePage::of_monitored_values(memory);
        let access = current.access(&self.adapter);
        let (current_va, monitored_va) = self.map_values(&current, &monitored, access)?;
        let free = (0..VALUE_WORDS / self.stride_words()).rev().collect();
        Ok(PackedPage { current, monitored, current_va, monitored_va, free })
    }

    fn map_values(
        &self,
        current: &ValuePage,
        monitored: &ValuePage,
        access: Access,
    ) -> Result<(u64, u64), Status> {
        // spec: NF-012, MF-011, MF-012, ME-037
        let current_va = self.space.map(current.at, VALUE_BYTES, access)?;
        // spec: NF-018
        let monitored_va = self.space.map(monitored.at, VALUE_BYTES, Access::Read);
        let monitored_va = monitored_va.inspect_err(|_| self.space.unmap(current_va, VALUE_BYTES))?;
        Ok((current_va, monitored_va))
    }

    fn map_own(
        &self,
        fence: OsHandle,
        (current, monitored): (&ValuePage, &ValuePage),
        may_signal: bool,
    ) -> Result<Arc<Mapping>, Status> {
        let known = self.own.lock().get(&fence).and_then(Weak::upgrade);
        if let Some(known) = known {
            self.let_signal(&known, current, may_signal);
            return Ok(known);
        }
        let access = if may_signal { current.access(&self.adapter) } else { Access::Read };
        let (current_va, monitored_va) = self.map_values(current, monitored, access)?;
        let own_in = Some(OwnMapping {
            adapter: self.adapter.clone(),
            space: Arc::downgrade(&self.space),
            signals: self.adapter.platform.mutex("who may signal through a mapping", may_signal),
        });
        let mapping = Arc::new(Mapping { current_va, monitored_va, own_in });
        let mut own = self.own.lock();
        own.retain(|_, mapping| mapping.strong_count() > 0);
        // Two opens at once may both have mapped it; the first one stays.
        Ok(match own.get(&fence).and_then(Weak::upgrade) {
            Some(first) => {
                drop(own);
                self.let_signal(&first, current, may_signal);
                first
            }
            None => {
                own.insert(fence, Arc::downgrade(&mapping));
                mapping
            }
        })
    }
}

impl FencePool {
    /// Lets engines store through a mapping that was made for an instance which must not signal.
    fn let_signal(&self, known: &Mapping, current: &ValuePage, may_signal: bool) {
        let Some(own) = known.own_in.as_ref().filter(|_| may_signal) else { return };
        if !*own.signals.lock() {
            // Two at once do the same; neither returns before it is done.
            self.space.remap(known.current_va, current.at, VALUE_BYTES, current.access(&self.adapter));
            *own.signals.lock() = true;
        }
    }
}

impl Drop for FencePool {
    fn drop(&mut self) {
        let pages = std::mem::take(&mut *self.pages.lock());
        for page in pages {
            self.space.unmap(page.current_va, VALUE_BYTES);
            self.space.unmap(page.monitored_va, VALUE_BYTES);
        }
    }
}

impl Drop for FenceStorage {
    fn drop(&mut self) {
        if let Place::Packed(slot) = &self.place
            && let Some(pool) = slot.pool.upgrade()
        {
            // spec: NF-042
            pool.pages.lock()[slot.page].free.push(slot.index);
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Some(OwnMapping { adapter, space, .. }) = &self.own_in
            && let Some(space) = space.upgrade()
        {
            let grave = adapter.grave();
            space.remap(self.current_va, grave.current.at, VALUE_BYTES, grave.access(adapter));
            space.remap(self.monitored_va, grave.monitored.at, VALUE_BYTES, Access::Read);
        }
    }
}

/// What is mapped where a shareable fence stood: a fence that is over. One for all processes of an adapter, which can learn
/// and change nothing by it.
pub(crate) struct Grave {
    current: ValuePage,
    monitored: ValuePage,
}

impl Grave {
    pub(crate) fn new(memory: &PhysicalMemory, history: bool) -> Grave {
        let current = ValuePage::of_current_values(memory, history);
        current.cell(0).condemn();
        let monitored = ValuePage::of_monitored_values(memory);
        monitored.page.store(0, u64::MAX);
        Grave { current, monitored }
    }

    /// Engines may store where the hardware knows that the fence is over; elsewhere a store would be seen by others.
    fn access(&self, adapter: &Adapter) -> Access {
        if adapter.caps.fence_history { Access::FenceValues } else { Access::Read }
    }
}
