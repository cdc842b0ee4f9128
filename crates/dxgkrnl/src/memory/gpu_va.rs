//! Owns a process's GPU address space: which addresses are taken, and the page tables, which the driver writes.
//!
//! Addresses are given out upwards and never twice, so that a stale address faults. The lock orders page table updates: a
//! table is linked before anything that needs the link is returned to a caller.

use crate::adapter::Adapter;
use std::collections::HashMap;
use std::sync::Arc;
use tidegate_ddi::memory::{PageTableEntry, UpdatePageTable};
use tidegate_ddi::queue::SetRootPageTable;
use tidegate_ddi::{Passive, Status};
use tidegate_platform::{Bulk, Mutex, PhysicalAddress};

/// First address given out: the lowest pages stay unmapped, so that small numbers are never valid.
const FIRST_VA: u64 = 0x1_0000;

/// Most entries written in one call.
const ENTRIES_PER_UPDATE: usize = 512;

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
    fn entry(self, region: PhysicalAddress, offset: u64) -> PageTableEntry {
        PageTableEntry::Page {
            at: PhysicalAddress(region.0 + offset),
            writable: self != Access::Read,
            fence_values: self == Access::FenceValues,
        }
    }
}

struct Table {
    at: PhysicalAddress,
    memory: Bulk,
}

struct Tables {
    /// By level and index path: the address shifted down to what the table covers.
    tables: HashMap<(u32, u64), Table>,
    next_va: u64,
}

/// One process's address space on one adapter.
pub(crate) struct AddressSpace {
    adapter: Arc<Adapter>,
    pub(crate) number: u32,
    tables: Mutex<Tables>,
}

impl AddressSpace {
    pub(crate) fn new(adapter: &Arc<Adapter>) -> Result<AddressSpace, Status> {
        let number = adapter.new_address_space().ok_or(Status::INSUFFICIENT_RESOURCES)?;
        let (at, memory) = adapter.system_memory.bulk(adapter.shape.table_bytes as usize);
        let root = Table { at, memory };
        let tables = Tables { tables: HashMap::from([((0, 0), root)]), next_va: FIRST_VA };
        let set = SetRootPageTable { address_space: number, root: Some(at) };
        adapter.driver().set_root_page_table(&Passive::enter(), set)?;
        Ok(AddressSpace {
            adapter: adapter.clone(),
            number,
            tables: adapter.platform.mutex("page tables", tables),
        })
    }

    /// Maps `bytes` from physical address `from` at a fresh place and returns it.
    pub(crate) fn map(&self, from: PhysicalAddress, bytes: u64, access: Access) -> Result<u64, Status> {
        self.map_parts(&[(from, bytes, access)])
    }

    /// Maps parts (from where, how many bytes, what engines may do there) one behind the other, each in pages of its own.
    pub(crate) fn map_parts(&self, parts: &[(PhysicalAddress, u64, Access)]) -> Result<u64, Status> {
        let page = self.adapter.shape.page_bytes;
        let pages_of = |bytes: u64| bytes.div_ceil(page).max(1);
        let pages: u64 = parts.iter().map(|(_, bytes, _)| pages_of(*bytes)).sum();
        let mut tables = self.tables.lock_device();
        let va = tables.next_va;
        // One page is left out after each mapping: running over an end faults.
        let end = pages.checked_add(1).and_then(|p| p.checked_mul(page)).and_then(|b| va.checked_add(b));
        let end = end.filter(|e| *e <= self.adapter.shape.va_end()).ok_or(Status::NO_MEMORY)?;
        tables.next_va = end;
        let mut at = va;
        for &(from, bytes, access) in parts {
            self.write_pages(&mut tables, at, pages_of(bytes), |i| access.entry(from, i * page))?;
            at += pages_of(bytes) * page;
        }
        Ok(va)
    }

    /// Maps another region where one is mapped: what stood there is not reached any more when this returns.
    pub(crate) fn remap(&self, va: u64, to: PhysicalAddress, bytes: u64, access: Access) {
        let page = self.adapter.shape.page_bytes;
        let mut tables = self.tables.lock_device();
        // Tables that exist are written, so this cannot run out of anything.
        let _ =
            self.write_pages(&mut tables, va, bytes.div_ceil(page).max(1), |i| access.entry(to, i * page));
    }

    /// Takes a mapping away. Its addresses are not used again.
    pub(crate) fn unmap(&self, va: u64, bytes: u64) {
        let pages = bytes.div_ceil(self.adapter.shape.page_bytes).max(1);
        let mut tables = self.tables.lock_device();
        // Unmapping writes into tables that exist, so it cannot run out of anything.
        let _ = self.write_pages(&mut tables, va, pages, |_| PageTableEntry::Invalid);
    }

    fn write_pages(
        &self,
        tables: &mut Tables,
        va: u64,
        pages: u64,
        entry: impl Fn(u64) -> PageTableEntry,
    ) -> Result<(), Status> {
        let shape = self.adapter.shape;
        let last = shape.levels - 1;
        let mut done = 0;
        while done < pages {
            let at = va + done * shape.page_bytes;
            let start = shape.index(at, last);
            let room = (1 << shape.index_bits) - start;
            let count = room.min(pages - done).min(ENTRIES_PER_UPDATE as u64);
            let entries: Vec<PageTableEntry> = (done..done + count).map(&entry).collect();
            self.table_for(tables, at)?;
            let table = &tables.tables[&(last, self.path(at, last))];
            self.update(&table.memory, last, start, &entries)?;
            done += count;
        }
        Ok(())
    }

    /// What of an address chooses the table of `level`.
    fn path(&self, va: u64, level: u32) -> u64 {
        let shape = self.adapter.shape;
        let shift = shape.page_bytes.trailing_zeros() + shape.index_bits * (shape.levels - level);
        va.checked_shr(shift).unwrap_or(0)
    }

    /// Makes and links the tables on the way to `va`.
    fn table_for(&self, tables: &mut Tables, va: u64) -> Result<(), Status> {
        let shape = self.adapter.shape;
        for level in 1..shape.levels {
            let key = (level, self.path(va, level));
            if tables.tables.contains_key(&key) {
                continue;
            }
            let (at, memory) = self.adapter.system_memory.bulk(shape.table_bytes as usize);
            let parent = &tables.tables[&(level - 1, self.path(va, level - 1))];
            self.update(&parent.memory, level - 1, shape.index(va, level - 1), &[PageTableEntry::Table(at)])?;
            tables.tables.insert(key, Table { at, memory });
        }
        Ok(())
    }

    fn update(
        &self,
        table: &Bulk,
        level: u32,
        start_index: u64,
        entries: &[PageTableEntry],
    ) -> Result<(), Status> {
        let args = UpdatePageTable { address_space: self.number, table, level, start_index, entries };
        self.adapter.driver().update_page_table(&Passive::enter(), args)
    }
}

impl Drop for AddressSpace {
    fn drop(&mut self) {
        let clear = SetRootPageTable { address_space: self.number, root: None };
        // The driver cannot refuse to forget; whatever it says, the tables go.
        let _ = self.adapter.driver().set_root_page_table(&Passive::enter(), clear);
        let tables = std::mem::take(&mut self.tables.lock_device().tables);
        for table in tables.into_values() {
            self.adapter.system_memory.remove(table.at);
        }
    }
}
