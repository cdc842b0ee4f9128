//! Owns a process's GPU address space: which addresses are taken, and the page tables, which the
//! driver writes.
//!
//! Each physical adapter has page tables of its own. Addresses are common: one means the same
//! memory wherever it is mapped, and an [`Affinity`] says where that is.
//!
//! Addresses are given out upwards and never twice, so that a stale address faults. Where the
//! driver states bounds for fence values, those and nothing else are mapped between them, in every
//! address space. The lock orders page table updates. A caller wakes the device before it takes the
//! lock, because waking changes tables for what power had taken out of local memory.
//!
//! A table exists while one of its entries is valid. It is linked before any address that needs the
//! link is returned to a caller. When its last entry becomes invalid, 1. its entry in the table
//! above is made invalid, by an update that returns when no engine uses a cached translation any
//! more; 2. its memory is freed.
//!
//! On hardware that is coherent with the CPUs' caches every page of system memory is mapped as
//! coherent. Elsewhere what is mapped for engines is taken out of those caches first, also when
//! another adapter's engines have it already.
//!
//! Behind an IoMmu engines use the process's CPU addresses, so fence values are mapped at those;
//! other addresses are taken from the same space.

use crate::adapter::Adapter;
use crate::error::{BugCheck, StartError};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use tidegate_ddi::caps::NativeFenceCaps;
use tidegate_ddi::memory::{PageTableEntry, PageTableShape, UpdatePageTable};
use tidegate_ddi::queue::SetRootPageTable;
use tidegate_ddi::{Passive, Status};
use tidegate_platform::{Bulk, CacheType, Mutex, PhysicalAddress};

/// First address given out: the lowest pages stay unmapped, so that small numbers are never valid.
const FIRST_VA: u64 = 0x1_0000;

/// Most entries written in one call.
const ENTRIES_PER_UPDATE: usize = 512;

/// The physical adapters on which something is mapped, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Affinity(u32);

impl Affinity {
    /// All of them.
    pub(crate) const ALL: Affinity = Affinity(u32::MAX);

    /// An engine affinity of a call on an adapter of so many physical ones: 0 is all of them, and
    /// so is the bit of each. `None` when it has the bit of an absent one.
    // spec: MF-014, NF-105, NF-106
    pub(crate) fn of_call(engine_affinity: u32, physical_adapters: u32) -> Option<Affinity> {
        let present = (1 << physical_adapters) - 1;
        match engine_affinity {
            bits if bits & !present != 0 => None,
            0 => Some(Affinity::ALL),
            bits if bits == present => Some(Affinity::ALL),
            bits => Some(Affinity(bits)),
        }
    }

    fn has(self, physical_adapter: usize) -> bool {
        self.0 >> physical_adapter & 1 != 0
    }
}

/// What engines may do with a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Load.
    Read,
    /// Load and store.
    ReadWrite,
    /// Load and store, and every store is one to a fence's cell.
    FenceValues,
}

impl Access {
    fn entry(self, at: PhysicalAddress, cache_coherent: bool) -> PageTableEntry {
        PageTableEntry::Page {
            at,
            writable: self != Access::Read,
            fence_values: self == Access::FenceValues,
            cache_coherent,
        }
    }
}

/// Where a process's CPU has its system memory: page by page, and each at its own address, since a
/// physical address is never given out twice.
const CPU_WINDOW: u64 = 0x7000_0000_0000;

/// Where the CPU of a process that may see it has what stands at `at`.
pub(crate) fn cpu_va(at: PhysicalAddress) -> u64 {
    CPU_WINDOW + at.0
}

/// From where, how many bytes, and what engines may do there.
pub(crate) type Part = (PhysicalAddress, u64, Access);

struct Table {
    at: PhysicalAddress,
    memory: Bulk,
    used: Used,
}

/// The valid entries of a table, one bit each.
struct Used(Vec<u64>);

impl Used {
    fn none(shape: PageTableShape) -> Used {
        Used(vec![0; (1usize << shape.index_bits).div_ceil(64)])
    }

    fn set(&mut self, start: u64, count: u64, on: bool) {
        for index in start..start + count {
            let (word, bit) = (&mut self.0[index as usize / 64], 1 << (index % 64));
            *word = if on { *word | bit } else { *word & !bit };
        }
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

/// By level and index path: the address shifted down to what the table covers.
type TableSet = HashMap<(u32, u64), Table>;

struct Tables {
    /// By physical adapter.
    sets: Vec<TableSet>,
    next_va: u64,
    next_fence_va: u64,
}

/// One process's address space on one adapter.
pub(crate) struct AddressSpace {
    adapter: Arc<Adapter>,
    pub(crate) number: u32,
    /// Where fence values are mapped, if not anywhere.
    window: Option<Range<u64>>,
    tables: Mutex<Tables>,
}

/// Number of the system process's address space.
const SYSTEM_PROCESS: u32 = 0;

/// The pages between the bounds that a driver states for fence values; `None` when it states none.
fn fence_window(caps: &NativeFenceCaps, shape: PageTableShape) -> Option<Range<u64>> {
    let page = shape.page_bytes;
    let (lowest, highest) =
        (caps.minimum_address.unwrap_or(0), caps.maximum_address.unwrap_or(u64::MAX));
    let start = lowest.max(FIRST_VA).checked_next_multiple_of(page).unwrap_or(u64::MAX);
    let end = highest.saturating_add(1).min(shape.va_end()) / page * page;
    // Bounds that leave nothing out are none.
    let all = start == FIRST_VA && end == shape.va_end();
    (!all).then_some(start..end)
}

/// A window that holds no page fails the start.
pub(crate) fn check_fence_window(
    caps: &NativeFenceCaps,
    shape: PageTableShape,
) -> Result<(), StartError> {
    match fence_window(caps, shape) {
        Some(window) if window.is_empty() => Err(StartError::FenceWindow(window.start, window.end)),
        _ => Ok(()),
    }
}

impl AddressSpace {
    /// A process's.
    pub(crate) fn new(adapter: &Arc<Adapter>) -> Result<AddressSpace, Status> {
        let number = adapter.new_address_space().ok_or(Status::INSUFFICIENT_RESOURCES)?;
        AddressSpace::with_number(adapter, number)
    }

    /// The system (paging) process's, where the CMP finds what is its business.
    pub(crate) fn of_system_process(adapter: &Arc<Adapter>) -> Result<AddressSpace, Status> {
        AddressSpace::with_number(adapter, SYSTEM_PROCESS)
    }

    fn with_number(adapter: &Arc<Adapter>, number: u32) -> Result<AddressSpace, Status> {
        let mut sets = Vec::new();
        for physical_adapter in 0..adapter.physical_adapters() {
            let (at, memory) = adapter.system_memory.bulk(adapter.shape.table_bytes as usize);
            let set = SetRootPageTable { address_space: number, physical_adapter, root: Some(at) };
            let root = Table { at, memory, used: Used::none(adapter.shape) };
            let told = adapter.driver().set_root_page_table(&Passive::enter(), set);
            if let Err(status) = told {
                adapter.system_memory.remove(root.at);
                release(adapter, number, sets);
                return Err(status);
            }
            sets.push(HashMap::from([((0, 0), root)]));
        }
        let window = fence_window(&adapter.native_fence_caps, adapter.shape);
        let next_fence_va = window.as_ref().map_or(0, |w| w.start);
        let tables = Tables { sets, next_va: FIRST_VA, next_fence_va };
        Ok(AddressSpace {
            adapter: adapter.clone(),
            number,
            window,
            tables: adapter.platform.mutex("page tables", tables),
        })
    }

    /// Maps `bytes` from physical address `from` at a fresh place and returns it.
    pub(crate) fn map(
        &self,
        from: PhysicalAddress,
        bytes: u64,
        access: Access,
    ) -> Result<u64, Status> {
        self.map_parts(&[(from, bytes, access)])
    }

    /// Maps parts one behind the other, each in pages of its own.
    pub(crate) fn map_parts(&self, parts: &[Part]) -> Result<u64, Status> {
        self.map_parts_on(Affinity::ALL, parts)
    }

    fn map_parts_on(&self, affinity: Affinity, parts: &[Part]) -> Result<u64, Status> {
        let _awake = self.adapter.awake();
        let mut tables = self.tables.lock_device();
        let (va, end) = self.next_place(&tables, parts)?;
        tables.next_va = end;
        self.write_parts(&mut tables, affinity, va, parts)
    }

    /// The next free place, outside of what is kept for fence values.
    fn next_place(&self, tables: &Tables, parts: &[Part]) -> Result<(u64, u64), Status> {
        let (va, end) = self.place(tables.next_va, parts, self.own_end())?;
        match &self.window {
            Some(window) if va < window.end && end > window.start => {
                self.place(window.end, parts, self.own_end())
            }
            _ => Ok((va, end)),
        }
    }

    /// The same as `map` for a page of fence values, on some physical adapters: where the CPU has
    /// it, if engines use CPU addresses and it does, and between the bounds that the driver states.
    // spec: NF-076, MF-071
    pub(crate) fn map_fence_values(
        &self,
        affinity: Affinity,
        from: PhysicalAddress,
        bytes: u64,
        access: Access,
    ) -> Result<u64, Status> {
        if self.adapter.caps.io_mmu && self.adapter.system_memory.cache_type(from).is_some() {
            return self.map_at_cpu_va(affinity, (from, bytes, access));
        }
        let parts = [(from, bytes, access)];
        let Some(window) = &self.window else { return self.map_parts_on(affinity, &parts) };
        let _awake = self.adapter.awake();
        let mut tables = self.tables.lock_device();
        let (va, end) = self.place(tables.next_fence_va, &parts, window.end)?;
        tables.next_fence_va = end;
        self.write_parts(&mut tables, affinity, va, &parts)
    }

    fn pages_of(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.adapter.shape.page_bytes).max(1)
    }

    /// Where a mapping stands that is put at `va`, and where the next one may; NO_MEMORY beyond
    /// `limit`. One page is left out after each mapping: running over an end faults.
    fn place(&self, va: u64, parts: &[Part], limit: u64) -> Result<(u64, u64), Status> {
        let page = self.adapter.shape.page_bytes;
        let pages: u64 = parts.iter().map(|(_, bytes, _)| self.pages_of(*bytes)).sum();
        let end = pages.checked_mul(page).and_then(|b| va.checked_add(b));
        let end = end.filter(|e| *e <= limit).ok_or(Status::NO_MEMORY)?;
        Ok((va, end + page))
    }

    fn write_parts(
        &self,
        tables: &mut Tables,
        affinity: Affinity,
        va: u64,
        parts: &[Part],
    ) -> Result<u64, Status> {
        let page = self.adapter.shape.page_bytes;
        let mut at = va;
        for &(from, bytes, access) in parts {
            let written = self.write_region(tables, affinity, at, (from, bytes, access));
            at += self.pages_of(bytes) * page;
            if let Err(status) = written {
                // Undo. A refusal here adds nothing to the status of the first failure.
                let _as_before = self.clear(tables, va, (at - va) / page);
                return Err(status);
            }
        }
        Ok(va)
    }

    /// Takes addresses that lead nowhere yet; [`AddressSpace::remap_on`] makes them lead somewhere.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<u64, Status> {
        let parts = [(PhysicalAddress(0), bytes, Access::Read)];
        let mut tables = self.tables.lock_device();
        let (va, end) = self.next_place(&tables, &parts)?;
        tables.next_va = end;
        Ok(va)
    }

    fn map_at_cpu_va(&self, affinity: Affinity, part: Part) -> Result<u64, Status> {
        let (va, end) = (cpu_va(part.0), cpu_va(part.0).saturating_add(part.1));
        let bounds = self.window.clone().unwrap_or(0..self.adapter.shape.va_end());
        if va < bounds.start || end > bounds.end {
            return Err(Status::NO_MEMORY);
        }
        let _awake = self.adapter.awake();
        self.write_region(&mut self.tables.lock_device(), affinity, va, part)?;
        Ok(va)
    }

    /// First address that is never given out.
    fn own_end(&self) -> u64 {
        let end = self.adapter.shape.va_end();
        if self.adapter.caps.io_mmu { end.min(CPU_WINDOW) } else { end }
    }

    /// An address at which nothing will ever be mapped.
    pub(crate) fn unmapped_va(&self) -> u64 {
        let mut tables = self.tables.lock_device();
        let va = tables.next_va;
        tables.next_va += self.adapter.shape.page_bytes;
        va
    }

    /// Maps another region where one is mapped: what stood there is not reached any more when this
    /// returns.
    pub(crate) fn remap_on(
        &self,
        affinity: Affinity,
        va: u64,
        to: PhysicalAddress,
        bytes: u64,
        access: Access,
    ) {
        let _awake = self.adapter.awake();
        let mut tables = self.tables.lock_device();
        let done = self.write_region(&mut tables, affinity, va, (to, bytes, access));
        drop(tables);
        self.must(done);
    }

    /// Removes a mapping: no engine reaches it any more when this returns. Its addresses are not
    /// given out again.
    pub(crate) fn unmap(&self, va: u64, bytes: u64) {
        let _awake = self.adapter.awake();
        let done = self.clear(&mut self.tables.lock_device(), va, self.pages_of(bytes));
        self.must(done);
    }

    /// The driver writes any entry of the shape that it states: a refusal breaks the contract.
    fn must(&self, done: Result<(), Status>) {
        if let Err(status) = done {
            self.adapter.stop_later(BugCheck::DdiFailed { ddi: "UpdatePageTable", status });
        }
    }

    /// Makes entries invalid, and frees the tables that are empty then. What the driver refuses
    /// stays as it is.
    // spec: MF-097
    fn clear(&self, tables: &mut Tables, va: u64, pages: u64) -> Result<(), Status> {
        let last = self.adapter.shape.levels - 1;
        let mut all = Ok(());
        for (physical_adapter, set) in tables.sets.iter_mut().enumerate() {
            let mut done = 0;
            while done < pages {
                let (start, count) = self.run_of_entries(va, pages, done);
                let at = va + done * self.adapter.shape.page_bytes;
                // Where nothing was mapped there may be no table.
                if set.contains_key(&(last, self.path(at, last))) {
                    let cleared = self.clear_run(physical_adapter, set, at, (start, count));
                    all = all.and(cleared);
                }
                done += count;
            }
        }
        all
    }

    /// The same for entries of the last table on the way to `va`.
    fn clear_run(
        &self,
        physical_adapter: usize,
        set: &mut TableSet,
        va: u64,
        (start, count): (u64, u64),
    ) -> Result<(), Status> {
        let shape = self.adapter.shape;
        let mut level = shape.levels - 1;
        let (mut start, mut count) = (start, count);
        // The tables on the way that are empty without these entries: all of them go by one entry
        // of the table that stays.
        let mut empty = Vec::new();
        loop {
            let key = (level, self.path(va, level));
            let Some(table) = set.get_mut(&key) else { return Ok(()) };
            table.used.set(start, count, false);
            if level == 0 || !table.used.is_empty() {
                let entries = vec![PageTableEntry::Invalid; count as usize];
                // 1. When this returns no engine is on the way through them.
                self.update(physical_adapter, &table.memory, level, start, &entries)?;
                break;
            }
            empty.push(key);
            level -= 1;
            (start, count) = (shape.index(va, level), 1);
        }
        // 2. They are unreachable now.
        for table in empty.iter().filter_map(|key| set.remove(key)) {
            self.adapter.system_memory.remove(table.at);
        }
        Ok(())
    }

    /// Of `pages` from `va` on, `done` are written: where in its table the next one stands, and how
    /// many follow there.
    fn run_of_entries(&self, va: u64, pages: u64, done: u64) -> (u64, u64) {
        let shape = self.adapter.shape;
        let start = shape.index(va + done * shape.page_bytes, shape.levels - 1);
        let room = (1 << shape.index_bits) - start;
        (start, room.min(pages - done).min(ENTRIES_PER_UPDATE as u64))
    }

    /// Maps a region: from where, how many bytes, what engines may do there.
    // spec: MF-008, MF-068
    fn write_region(
        &self,
        tables: &mut Tables,
        affinity: Affinity,
        va: u64,
        (from, bytes, access): Part,
    ) -> Result<(), Status> {
        let page = self.adapter.shape.page_bytes;
        let system = &self.adapter.system_memory;
        let cached = system.cache_type(from) == Some(CacheType::WriteBack);
        if cached && !self.adapter.caps.cache_coherent_memory {
            system.set_cache_type(from, CacheType::Uncached);
        }
        // No CPU caches local memory.
        let coherent = self.adapter.caps.cache_coherent_memory && system.cache_type(from).is_some();
        self.write_pages(tables, affinity, va, bytes.div_ceil(page).max(1), |i| {
            access.entry(PhysicalAddress(from.0 + i * page), coherent)
        })
    }

    fn write_pages(
        &self,
        tables: &mut Tables,
        affinity: Affinity,
        va: u64,
        pages: u64,
        entry: impl Fn(u64) -> PageTableEntry,
    ) -> Result<(), Status> {
        let last = self.adapter.shape.levels - 1;
        for physical_adapter in (0..tables.sets.len()).filter(|n| affinity.has(*n)) {
            let mut done = 0;
            while done < pages {
                let at = va + done * self.adapter.shape.page_bytes;
                let (start, count) = self.run_of_entries(va, pages, done);
                let entries: Vec<PageTableEntry> = (done..done + count).map(&entry).collect();
                let table = self.table_for(tables, physical_adapter, at)?;
                table.used.set(start, count, true);
                self.update(physical_adapter, &table.memory, last, start, &entries)?;
                done += count;
            }
        }
        Ok(())
    }

    /// What of an address chooses the table of `level`.
    fn path(&self, va: u64, level: u32) -> u64 {
        let shape = self.adapter.shape;
        let shift = shape.page_bytes.trailing_zeros() + shape.index_bits * (shape.levels - level);
        va.checked_shr(shift).unwrap_or(0)
    }

    /// The last table on the way to `va`. Makes and links those that are not there.
    fn table_for<'a>(
        &self,
        tables: &'a mut Tables,
        physical_adapter: usize,
        va: u64,
    ) -> Result<&'a mut Table, Status> {
        let shape = self.adapter.shape;
        let set = &mut tables.sets[physical_adapter];
        let key = |level| (level, self.path(va, level));
        for level in 1..shape.levels {
            if set.contains_key(&key(level)) {
                continue;
            }
            let parent = set.get_mut(&key(level - 1)).ok_or(Status::NO_MEMORY)?;
            let (at, memory) = self.adapter.system_memory.bulk(shape.table_bytes as usize);
            let (index, link) = (shape.index(va, level - 1), [PageTableEntry::Table(at)]);
            let linked = self.update(physical_adapter, &parent.memory, level - 1, index, &link);
            linked.inspect_err(|_| {
                self.adapter.system_memory.remove(at);
            })?;
            parent.used.set(index, 1, true);
            set.insert(key(level), Table { at, memory, used: Used::none(shape) });
        }
        set.get_mut(&key(shape.levels - 1)).ok_or(Status::NO_MEMORY)
    }

    fn update(
        &self,
        physical_adapter: usize,
        table: &Bulk,
        level: u32,
        start_index: u64,
        entries: &[PageTableEntry],
    ) -> Result<(), Status> {
        let (address_space, physical_adapter) = (self.number, physical_adapter as u32);
        let args =
            UpdatePageTable { address_space, physical_adapter, table, level, start_index, entries };
        self.adapter.driver().update_page_table(&Passive::enter(), args)
    }
}

impl Drop for AddressSpace {
    fn drop(&mut self) {
        let sets = std::mem::take(&mut self.tables.lock_device().sets);
        release(&self.adapter, self.number, sets);
    }
}

/// Takes the page tables away, one physical adapter after the other.
fn release(adapter: &Adapter, address_space: u32, sets: Vec<TableSet>) {
    for (physical_adapter, set) in (0..).zip(sets) {
        let clear = SetRootPageTable { address_space, physical_adapter, root: None };
        let forgotten = adapter.driver().set_root_page_table(&Passive::enter(), clear);
        if let Err(status) = forgotten {
            adapter.stop_later(BugCheck::DdiFailed { ddi: "DxgkDdiSetRootPageTable", status });
        }
        for table in set.into_values() {
            adapter.system_memory.remove(table.at);
        }
    }
}
