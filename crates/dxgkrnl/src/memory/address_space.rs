//! A process's GPU address space: its addresses and its page tables, which the driver writes.
//!
//! Each physical adapter has its own page tables. An address refers to the same memory on every
//! adapter of its mapping's [`Affinity`].
//!
//! Invariants
//! - The lock orders page table updates. A caller wakes the device and enters the driver before it
//!   takes the lock, because waking remaps memory evicted for power.
//! - If the hardware is not coherent with CPU caches, mapped system memory is uncached.
//!
//! Entry points: [`AddressSpace::map`], [`AddressSpace::remap_on`], [`AddressSpace::unmap`].

use crate::driver::{Declaration, DriverPort};
use crate::error::BugCheck;
use crate::timer::{AtPassive, EndAtPassive};
use smallvec::SmallVec;
use std::sync::Arc;
use tidegate_calls::TILE_BYTES;
use tidegate_ddi::memory::{PageTableEntry, UpdatePageTable};
use tidegate_ddi::queue::SetRootPageTable;
use tidegate_ddi::{Passive, Status};
use tidegate_platform::{Bulk, CacheType, Mutex, PhysicalAddress};
use tidegate_vidmm::{Access, AddressRanges, Affinity, Cleared, EntryRun, PageTableTree, TableKey};

/// Physical address, size in bytes, and engine access.
pub(crate) type Region = (PhysicalAddress, u64, Access);

/// An update of so many entries takes no memory.
const INLINE_ENTRIES: usize = 8;

/// A region among those that one call maps.
struct Part {
    /// Number of the call's pages before it.
    first_page: u64,
    from: PhysicalAddress,
    access: Access,
    coherent: bool,
}

impl Part {
    /// Returns the entry of a page of the call.
    fn entry(&self, page: u64, page_bytes: u64) -> PageTableEntry {
        let at = PhysicalAddress(self.from.0 + (page - self.first_page) * page_bytes);
        self.access.entry(at, self.coherent)
    }
}

/// The memory of a page table.
struct Table {
    at: PhysicalAddress,
    memory: Bulk,
}

struct Tables {
    ranges: AddressRanges,
    /// By physical adapter.
    trees: Vec<PageTableTree<Table>>,
}

/// One process's address space on one adapter.
pub(crate) type AddressSpace = AtPassive<AddressSpaceBody>;

/// The parts of an address space.
pub(crate) struct AddressSpaceBody {
    driver: Arc<DriverPort>,
    pub(crate) number: u32,
    tables: Mutex<Tables>,
}

/// Number of the system process's address space.
const SYSTEM_PROCESS: u32 = 0;

impl AddressSpace {
    /// Creates the address space of a process.
    pub(crate) fn new(level: &Passive, driver: &Arc<DriverPort>) -> Result<AddressSpace, Status> {
        let number = driver.new_address_space().ok_or(Status::INSUFFICIENT_RESOURCES)?;
        AddressSpace::with_number(level, driver, number)
    }

    /// Creates the address space of the system (paging) process, which the CMP uses.
    pub(crate) fn of_system_process(
        level: &Passive,
        driver: &Arc<DriverPort>,
    ) -> Result<AddressSpace, Status> {
        AddressSpace::with_number(level, driver, SYSTEM_PROCESS)
    }

    fn with_number(
        level: &Passive,
        driver: &Arc<DriverPort>,
        number: u32,
    ) -> Result<AddressSpace, Status> {
        let mut trees = Vec::new();
        for physical_adapter in 0..driver.declared.caps.physical_adapters {
            let (at, memory) =
                driver.system_memory.bulk(driver.declared.shape.table_bytes as usize);
            let set = SetRootPageTable { address_space: number, physical_adapter, root: Some(at) };
            let accepted = driver.driver(level).set_root_page_table(level, set);
            if let Err(status) = accepted {
                driver.system_memory.remove(at);
                release(level, driver, number, trees);
                return Err(status);
            }
            trees.push(PageTableTree::new(driver.declared.shape, Table { at, memory }));
        }
        let ranges = AddressRanges::new(
            &driver.declared.native_fence,
            driver.declared.shape,
            driver.declared.caps.io_mmu,
        );
        let tables = driver.platform.mutex("page tables", Tables { ranges, trees });
        let body = AddressSpaceBody { driver: driver.clone(), number, tables };
        Ok(AtPassive::wrap(&driver.timer, body))
    }

    /// Maps `bytes` at physical address `from`. Returns the GPU address.
    pub(crate) fn map(
        &self,
        level: &Passive,
        from: PhysicalAddress,
        bytes: u64,
        access: Access,
    ) -> Result<u64, Status> {
        self.map_regions(level, &[(from, bytes, access)])
    }

    /// As [`AddressSpace::map_regions`], from GPU address 0. The regions end before the first
    /// address that is given out.
    pub(crate) fn map_at_zero(&self, level: &Passive, regions: &[Region]) -> Result<u64, Status> {
        let _driver = self.driver.driver(level);
        let mut tables = self.tables.lock_device();
        self.write_regions(level, &mut tables, Affinity::ALL, 0, regions)
    }

    /// Maps regions consecutively, each in its own pages.
    pub(crate) fn map_regions(&self, level: &Passive, regions: &[Region]) -> Result<u64, Status> {
        let _driver = self.driver.driver(level);
        let mut tables = self.tables.lock_device();
        let bytes: Vec<u64> = regions.iter().map(|(_, bytes, _)| *bytes).collect();
        let va = tables.ranges.reserve(&bytes)?;
        self.write_regions(level, &mut tables, Affinity::ALL, va, regions)
    }

    /// Maps a page of fence values on some physical adapters, within the driver's bounds. Engines
    /// that use CPU addresses get the page at its CPU address.
    // spec: NF-076, MF-071
    pub(crate) fn map_fence_values(
        &self,
        level: &Passive,
        affinity: Affinity,
        from: PhysicalAddress,
        bytes: u64,
        access: Access,
    ) -> Result<u64, Status> {
        let has_cpu_va = self.driver.system_memory.cache_type(from).is_some();
        let _driver = self.driver.driver(level);
        let mut tables = self.tables.lock_device();
        let va = match self.driver.declared.caps.io_mmu && has_cpu_va {
            true => tables.ranges.at_cpu_va(from, bytes)?,
            false => tables.ranges.reserve_fence_values(bytes)?,
        };
        self.write_regions(level, &mut tables, affinity, va, &[(from, bytes, access)])
    }

    /// Reserves addresses, unmapped until [`AddressSpace::remap_on`].
    pub(crate) fn reserve(&self, bytes: u64) -> Result<u64, Status> {
        self.tables.lock_device().ranges.reserve(&[bytes])
    }

    /// As [`AddressSpace::reserve`], for tiles: the addresses begin at a multiple of a tile's size.
    pub(crate) fn reserve_tiles(&self, bytes: u64) -> Result<u64, Status> {
        self.tables.lock_device().ranges.reserve_aligned(&[bytes], TILE_BYTES)
    }

    /// Returns an address that is never mapped.
    pub(crate) fn unmapped_va(&self) -> u64 {
        self.tables.lock_device().ranges.reserve_unmapped()
    }

    /// Maps another region at `va`. On return, no engine accesses the former region.
    pub(crate) fn remap_on(
        &self,
        level: &Passive,
        affinity: Affinity,
        va: u64,
        to: PhysicalAddress,
        bytes: u64,
        access: Access,
    ) {
        let _driver = self.driver.driver(level);
        let region = (to, bytes, access);
        let written = {
            let mut tables = self.tables.lock_device();
            self.write_entries(level, &mut tables, affinity, va, &[region])
        };
        self.bug_check_refusal(written);
    }

    /// Removes a mapping. On return, no engine accesses it. Its addresses stay reserved.
    pub(crate) fn unmap(&self, level: &Passive, va: u64, bytes: u64) {
        let _driver = self.driver.driver(level);
        let cleared = {
            let mut tables = self.tables.lock_device();
            let pages = tables.ranges.pages(bytes);
            self.clear(level, &mut tables, va, pages)
        };
        self.bug_check_refusal(cleared);
    }

    /// Reports a failed page table update, which violates the driver contract.
    fn bug_check_refusal(&self, done: Result<(), Status>) {
        if let Err(status) = done {
            self.driver.stop_later(BugCheck::DdiFailed { ddi: "UpdatePageTable", status });
        }
    }

    /// Maps all regions or none.
    fn write_regions(
        &self,
        level: &Passive,
        tables: &mut Tables,
        affinity: Affinity,
        va: u64,
        regions: &[Region],
    ) -> Result<u64, Status> {
        if let Err(status) = self.write_entries(level, tables, affinity, va, regions) {
            let pages = regions.iter().map(|(_, bytes, _)| tables.ranges.pages(*bytes)).sum();
            // The first status is returned, whatever the result of the undo.
            let _undone = self.clear(level, tables, va, pages);
            return Err(status);
        }
        Ok(va)
    }

    /// Maps regions consecutively. Entries of one table are one update, whatever their regions.
    // spec: MF-008, MF-068
    fn write_entries(
        &self,
        level: &Passive,
        tables: &mut Tables,
        affinity: Affinity,
        va: u64,
        regions: &[Region],
    ) -> Result<(), Status> {
        let DriverPort { declared: Declaration { caps, shape, .. }, system_memory, .. } =
            &*self.driver;
        let (mut parts, mut pages) = (SmallVec::<[Part; 2]>::new(), 0);
        for &(from, bytes, access) in regions {
            let cache_type = system_memory.cache_type(from);
            if cache_type == Some(CacheType::WriteBack) && !caps.cache_coherent_memory {
                system_memory.set_cache_type(from, CacheType::Uncached);
            }
            // No CPU caches local memory.
            let coherent = caps.cache_coherent_memory && cache_type.is_some();
            parts.push(Part { first_page: pages, from, access, coherent });
            pages += tables.ranges.pages(bytes);
        }
        let entry = |page: u64| {
            let part = parts.iter().rfind(|part| part.first_page <= page);
            part.map_or(PageTableEntry::Invalid, |part| part.entry(page, shape.page_bytes))
        };
        for (physical_adapter, tree) in tables.trees.iter_mut().enumerate() {
            if !affinity.has(physical_adapter) {
                continue;
            }
            for run in PageTableTree::<Table>::entry_runs(*shape, va, pages) {
                self.write_run(level, physical_adapter, tree, run, entry)?;
            }
        }
        Ok(())
    }

    /// Writes entries of one table, creating it if needed.
    fn write_run(
        &self,
        level: &Passive,
        physical_adapter: usize,
        tree: &mut PageTableTree<Table>,
        run: EntryRun,
        entry: impl Fn(u64) -> PageTableEntry,
    ) -> Result<(), Status> {
        let system_memory = &self.driver.system_memory;
        while let Some(link) = tree.next_missing(run.va) {
            let (at, memory) = system_memory.bulk(self.driver.declared.shape.table_bytes as usize);
            let entries = [PageTableEntry::Table(at)];
            let linked =
                self.update(level, physical_adapter, tree, link.parent, link.index, &entries);
            linked.inspect_err(|_| {
                system_memory.remove(at);
            })?;
            tree.link(link, Table { at, memory });
        }
        let pages = run.first_page..run.first_page + run.count;
        let entries: SmallVec<[_; INLINE_ENTRIES]> = pages.map(entry).collect();
        tree.set_valid(run);
        self.update(level, physical_adapter, tree, tree.last_level(run.va), run.start, &entries)
    }

    /// Invalidates entries and frees the emptied tables. Entries that the driver refuses to clear
    /// are left unchanged.
    // spec: MF-097
    fn clear(
        &self,
        level: &Passive,
        tables: &mut Tables,
        va: u64,
        pages: u64,
    ) -> Result<(), Status> {
        let mut all = Ok(());
        for (physical_adapter, tree) in tables.trees.iter_mut().enumerate() {
            for run in PageTableTree::<Table>::entry_runs(self.driver.declared.shape, va, pages) {
                // An unmapped range may have no table.
                let Some(cleared) = tree.clear(run) else { continue };
                all = all.and(self.clear_run(level, physical_adapter, tree, cleared));
            }
        }
        all
    }

    fn clear_run(
        &self,
        level: &Passive,
        physical_adapter: usize,
        tree: &mut PageTableTree<Table>,
        Cleared { table, start, count, emptied }: Cleared,
    ) -> Result<(), Status> {
        // 1. After this, no engine walks the emptied tables.
        let invalid = PageTableEntry::Invalid;
        let entries = SmallVec::<[_; INLINE_ENTRIES]>::from_elem(invalid, count as usize);
        self.update(level, physical_adapter, tree, table, start, &entries)?;
        // 2. The tables are unreachable and can be freed.
        for table in emptied.into_iter().filter_map(|key| tree.remove(key)) {
            self.driver.system_memory.remove(table.at);
        }
        Ok(())
    }

    fn update(
        &self,
        level: &Passive,
        physical_adapter: usize,
        tree: &PageTableTree<Table>,
        key: TableKey,
        start_index: u64,
        entries: &[PageTableEntry],
    ) -> Result<(), Status> {
        let table = &tree.memory(key).ok_or(Status::NO_MEMORY)?.memory;
        let args = UpdatePageTable {
            address_space: self.number,
            physical_adapter: physical_adapter as u32,
            table,
            level: key.level,
            start_index,
            entries,
        };
        self.driver.driver(level).update_page_table(level, args)
    }
}

impl EndAtPassive for AddressSpaceBody {
    fn end(&mut self, level: &Passive) {
        let trees = std::mem::take(&mut self.tables.lock_device().trees);
        release(level, &self.driver, self.number, trees);
    }
}

/// Ends the page tables of all physical adapters.
fn release(
    level: &Passive,
    driver: &DriverPort,
    address_space: u32,
    trees: Vec<PageTableTree<Table>>,
) {
    for (physical_adapter, tree) in (0..).zip(trees) {
        let clear = SetRootPageTable { address_space, physical_adapter, root: None };
        let cleared = driver.driver(level).set_root_page_table(level, clear);
        if let Err(status) = cleared {
            driver.stop_later(BugCheck::DdiFailed { ddi: "DxgkDdiSetRootPageTable", status });
        }
        for table in tree.into_memory() {
            driver.system_memory.remove(table.at);
        }
    }
}
