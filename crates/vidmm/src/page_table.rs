//! The page tables of one address space on one physical adapter: tables and valid entries.
//!
//! Invariants
//! - A table exists while it has a valid entry. The root always exists.
//! - All tables of an address are linked before a caller receives the address.
//! - An empty table is freed after the entry that leads to it was invalidated.
//!
//! Entry points: [`PageTableTree::entry_runs`] splits a region into updates of one table each.
//! [`PageTableTree::next_missing`] and [`PageTableTree::link`] create the tables of an address.
//! [`PageTableTree::clear`] returns the entries to invalidate and the tables that become empty.

use smallvec::{SmallVec, smallvec};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use tidegate_ddi::memory::{PageTableEntry, PageTableShape};
use tidegate_platform::PhysicalAddress;

/// Maximum number of entries per update.
const ENTRIES_PER_UPDATE: u64 = 512;

/// Bit mask of the physical adapters on which a region is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Affinity(u32);

impl Affinity {
    /// All physical adapters.
    pub const ALL: Affinity = Affinity(u32::MAX);

    /// Returns the affinity for a call's engine affinity: 0 and all present bits both mean all.
    /// `None` if it has the bit of an absent physical adapter.
    // spec: MF-014, NF-105, NF-106
    pub fn of_call(engine_affinity: u32, physical_adapters: u32) -> Option<Affinity> {
        let present = (1 << physical_adapters) - 1;
        match engine_affinity {
            bits if bits & !present != 0 => None,
            0 => Some(Affinity::ALL),
            bits if bits == present => Some(Affinity::ALL),
            bits => Some(Affinity(bits)),
        }
    }

    /// Whether it includes this physical adapter.
    pub fn has(self, physical_adapter: usize) -> bool {
        self.0 >> physical_adapter & 1 != 0
    }
}

/// Permitted engine accesses to a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Loads only.
    Read,
    /// Loads and stores.
    ReadWrite,
    /// Loads, and stores that all go to a fence's cell.
    FenceValues,
}

impl Access {
    /// Returns the page table entry for a page at `at`.
    pub fn entry(self, at: PhysicalAddress, cache_coherent: bool) -> PageTableEntry {
        PageTableEntry::Page {
            at,
            writable: self != Access::Read,
            fence_values: self == Access::FenceValues,
            cache_coherent,
        }
    }
}

/// Identifies a table by its level and the address bits that lead to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableKey {
    /// Level; 0 is the root.
    pub level: u32,
    path: u64,
}

/// Hashes table keys. The kernel chooses addresses, so the hash need not resist attacks.
#[derive(Debug, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        // Maps take their bucket from the lower bits.
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// Consecutive entries of one last-level table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRun {
    /// The address of the first entry.
    pub va: u64,
    /// Number of pages of the region before it.
    pub first_page: u64,
    /// Index of the first entry in its table.
    pub start: u64,
    /// Number of entries.
    pub count: u64,
}

/// A table to create, and the entry that will lead to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The table to create.
    pub table: TableKey,
    /// The existing parent table.
    pub parent: TableKey,
    /// Index of the entry in the parent.
    pub index: u64,
}

/// Entries to invalidate in `table`, and the tables that this makes unreachable.
#[derive(Debug, PartialEq, Eq)]
pub struct Cleared {
    /// The lowest table that remains: it keeps a valid entry or is the root.
    pub table: TableKey,
    /// Index of the first entry to invalidate.
    pub start: u64,
    /// Number of entries.
    pub count: u64,
    /// Tables to free after the update.
    pub emptied: Vec<TableKey>,
}

/// The valid entries of a table as a bit mask, and its memory.
#[derive(Debug)]
struct Table<T> {
    memory: T,
    /// A table of 512 entries takes no memory for it.
    valid: SmallVec<[u64; 8]>,
}

impl<T> Table<T> {
    fn new(shape: PageTableShape, memory: T) -> Table<T> {
        Table { memory, valid: smallvec![0; (1usize << shape.index_bits).div_ceil(64)] }
    }

    fn set(&mut self, start: u64, count: u64, valid: bool) {
        for index in start..start + count {
            let (word, bit) = (&mut self.valid[index as usize / 64], 1 << (index % 64));
            *word = if valid { *word | bit } else { *word & !bit };
        }
    }

    fn is_empty(&self) -> bool {
        self.valid.iter().all(|word| *word == 0)
    }
}

/// The tables of one address space on one physical adapter. `T` is the memory of a table.
#[derive(Debug)]
pub struct PageTableTree<T> {
    shape: PageTableShape,
    tables: HashMap<TableKey, Table<T>, BuildHasherDefault<KeyHasher>>,
}

impl<T> PageTableTree<T> {
    /// Creates a tree with only a root.
    pub fn new(shape: PageTableShape, root: T) -> PageTableTree<T> {
        // Room for one table of each level and a few of the last, which is most address spaces.
        let mut tables = HashMap::with_capacity_and_hasher(7, BuildHasherDefault::default());
        tables.insert(TableKey { level: 0, path: 0 }, Table::new(shape, root));
        PageTableTree { shape, tables }
    }

    /// Returns the number of tables.
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Whether no entry is valid.
    pub fn is_empty(&self) -> bool {
        self.tables.values().all(Table::is_empty)
    }

    /// Splits a region into runs of entries that one update can write.
    pub fn entry_runs(
        shape: PageTableShape,
        va: u64,
        pages: u64,
    ) -> impl Iterator<Item = EntryRun> {
        let mut first_page = 0;
        std::iter::from_fn(move || {
            let left = (first_page < pages).then_some(pages - first_page)?;
            let at = va + first_page * shape.page_bytes;
            let start = shape.index(at, shape.levels - 1);
            let count = ((1 << shape.index_bits) - start).min(left).min(ENTRIES_PER_UPDATE);
            let run = EntryRun { va: at, first_page, start, count };
            first_page += count;
            Some(run)
        })
    }

    /// Returns the last-level table of an address.
    pub fn last_level(&self, va: u64) -> TableKey {
        self.key(va, self.shape.levels - 1)
    }

    /// Returns the highest missing table for `va`.
    pub fn next_missing(&self, va: u64) -> Option<Link> {
        let is_missing = |level: &u32| !self.tables.contains_key(&self.key(va, *level));
        // A table exists only below its parents.
        if !is_missing(&(self.shape.levels - 1)) {
            return None;
        }
        let level = (1..self.shape.levels).find(is_missing)?;
        let index = self.shape.index(va, level - 1);
        Some(Link { table: self.key(va, level), parent: self.key(va, level - 1), index })
    }

    /// Adds a table whose link was written.
    pub fn link(&mut self, link: Link, memory: T) {
        if let Some(parent) = self.tables.get_mut(&link.parent) {
            parent.set(link.index, 1, true);
            self.tables.insert(link.table, Table::new(self.shape, memory));
        }
    }

    /// Marks the run's entries as valid. Returns their table, which must exist.
    pub fn set_valid(&mut self, run: EntryRun) -> Option<&T> {
        let table = self.tables.get_mut(&self.last_level(run.va))?;
        table.set(run.start, run.count, true);
        Some(&table.memory)
    }

    /// Marks the run's entries as invalid. Returns the update that makes them unreachable, in the
    /// highest table that must change. `None` if no table exists.
    pub fn clear(&mut self, run: EntryRun) -> Option<Cleared> {
        let (mut start, mut count) = (run.start, run.count);
        let mut emptied = Vec::new();
        for level in (0..self.shape.levels).rev() {
            let key = self.key(run.va, level);
            let table = self.tables.get_mut(&key)?;
            table.set(start, count, false);
            if level == 0 || !table.is_empty() {
                return Some(Cleared { table: key, start, count, emptied });
            }
            emptied.push(key);
            (start, count) = (self.shape.index(run.va, level - 1), 1);
        }
        None
    }

    /// Removes a table and returns its memory.
    pub fn remove(&mut self, key: TableKey) -> Option<T> {
        self.tables.remove(&key).map(|table| table.memory)
    }

    /// Returns the memory of a table.
    pub fn memory(&self, key: TableKey) -> Option<&T> {
        self.tables.get(&key).map(|table| &table.memory)
    }

    /// Returns the memory of all tables, because the address space ends. The order is that of the
    /// keys, so that it is the same in each run of a program that is explored.
    pub fn into_memory(self) -> impl Iterator<Item = T> {
        let mut tables: Vec<_> = self.tables.into_iter().collect();
        tables.sort_by_key(|(key, _)| *key);
        tables.into_iter().map(|(_, table)| table.memory)
    }

    fn key(&self, va: u64, level: u32) -> TableKey {
        let PageTableShape { page_bytes, index_bits, levels, .. } = self.shape;
        let shift = page_bytes.trailing_zeros() + index_bits * (levels - level);
        TableKey { level, path: va.checked_shr(shift).unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const PAGE: u64 = 0x1000;

    /// 3 levels of 2 bits: tables of 4 entries, 64 pages in total.
    const SHAPE: PageTableShape =
        PageTableShape { page_bytes: PAGE, levels: 3, index_bits: 2, table_bytes: 32 };

    #[test]
    fn a_table_is_empty_when_each_of_its_entries_is() {
        let shape = PageTableShape { index_bits: 9, ..SHAPE };
        let entries = 1u64 << shape.index_bits;
        for kept in 0..entries {
            let mut table = Table::new(shape, 0u32);
            table.set(0, entries, true);
            table.set(0, kept, false);
            table.set(kept + 1, entries - kept - 1, false);
            assert!(!table.is_empty(), "entry {kept} is valid");
            table.set(kept, 1, false);
            assert!(table.is_empty(), "entry {kept}");
            table.set(kept, 1, true);
            assert!(!table.is_empty(), "entry {kept} is valid alone");
        }
    }

    fn tree() -> PageTableTree<u32> {
        PageTableTree::new(SHAPE, 0)
    }

    /// Maps pages as the kernel does. Returns the number of tables created.
    fn map(tree: &mut PageTableTree<u32>, first: u64, pages: u64) -> u32 {
        let mut made = 0;
        for run in PageTableTree::<u32>::entry_runs(SHAPE, first * PAGE, pages) {
            while let Some(link) = tree.next_missing(run.va) {
                made += 1;
                tree.link(link, made);
            }
            assert!(tree.set_valid(run).is_some());
        }
        made
    }

    /// Unmaps pages as the kernel does. Returns the level of each update and the tables freed.
    fn unmap(tree: &mut PageTableTree<u32>, first: u64, pages: u64) -> (Vec<u32>, usize) {
        let (mut levels, mut freed) = (Vec::new(), 0);
        for run in PageTableTree::<u32>::entry_runs(SHAPE, first * PAGE, pages) {
            let Some(cleared) = tree.clear(run) else { continue };
            levels.push(cleared.table.level);
            freed += cleared.emptied.into_iter().filter_map(|key| tree.remove(key)).count();
        }
        (levels, freed)
    }

    #[test]
    fn an_affinity_of_a_call_names_present_adapters() {
        assert_eq!(Affinity::of_call(0, 2), Some(Affinity::ALL));
        assert_eq!(Affinity::of_call(0b11, 2), Some(Affinity::ALL));
        let second = Affinity::of_call(0b10, 2).unwrap();
        assert!(second.has(1) && !second.has(0));
        assert_eq!(Affinity::of_call(0b100, 2), None);
    }

    #[test]
    fn an_entry_states_the_permitted_access() {
        let at = PhysicalAddress(PAGE);
        let bits = |access: Access| match access.entry(at, true) {
            PageTableEntry::Page { writable, fence_values, cache_coherent: true, .. } => {
                (writable, fence_values)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(bits(Access::Read), (false, false));
        assert_eq!(bits(Access::ReadWrite), (true, false));
        assert_eq!(bits(Access::FenceValues), (true, true));
    }

    #[test]
    fn a_region_is_split_at_table_boundaries() {
        let runs = PageTableTree::<u32>::entry_runs(SHAPE, 2 * PAGE, 7);
        let runs: Vec<_> = runs.map(|r| (r.va / PAGE, r.first_page, r.start, r.count)).collect();
        assert_eq!(runs, [(2, 0, 2, 2), (4, 2, 0, 4), (8, 6, 0, 1)]);
        let wide = PageTableShape { index_bits: 10, levels: 1, ..SHAPE };
        let counts = PageTableTree::<u32>::entry_runs(wide, 0, 1000).map(|run| run.count);
        assert_eq!(counts.collect::<Vec<_>>(), [512, 488], "at most 512 entries in one update");
        assert_eq!(PageTableTree::<u32>::entry_runs(SHAPE, 0, 0).count(), 0);
    }

    #[test]
    fn tables_are_created_once_from_the_root_down() {
        let mut tree = tree();
        let link = tree.next_missing(5 * PAGE).unwrap();
        assert_eq!((link.parent.level, link.table.level, link.index), (0, 1, 0));
        assert_eq!(map(&mut tree, 4, 2), 2, "levels 1 and 2");
        assert_eq!(map(&mut tree, 6, 2), 0, "the same table");
        assert_eq!(map(&mut tree, 7, 2), 1, "its neighbour under the same level-1 table");
        assert_eq!(map(&mut tree, 63, 1), 2);
        assert_eq!(tree.len(), 6);
    }

    #[test]
    fn clearing_a_missing_table_does_nothing() {
        let mut tree = tree();
        let run = PageTableTree::<u32>::entry_runs(SHAPE, 0, 1).next().unwrap();
        assert_eq!(tree.set_valid(run), None);
        assert_eq!(tree.clear(run), None);
        assert_eq!(unmap(&mut tree, 0, 64), (vec![], 0));
    }

    #[test]
    fn a_table_is_freed_with_its_last_entry() {
        let mut tree = tree();
        map(&mut tree, 0, 6);
        assert_eq!(unmap(&mut tree, 0, 3), (vec![2], 0), "entry 3 is valid");
        assert_eq!(unmap(&mut tree, 3, 1), (vec![1], 1), "one entry of level 1 instead");
        assert_eq!(unmap(&mut tree, 4, 2), (vec![0], 2), "levels 2 and 1 together");
        assert_eq!((tree.len(), tree.is_empty()), (1, true));
        assert_eq!(map(&mut tree, 0, 1), 2, "they are created again");
    }

    #[test]
    fn one_unmap_frees_several_tables_and_their_parents() {
        let mut tree = tree();
        map(&mut tree, 0, 16);
        assert_eq!(tree.len(), 6);
        assert_eq!(unmap(&mut tree, 0, 16), (vec![1, 1, 1, 0], 5));
        assert_eq!(tree.len(), 1);
    }

    #[test]
    fn a_link_whose_entry_was_never_written_is_cleared_with_its_region() {
        let mut tree = tree();
        while let Some(link) = tree.next_missing(0) {
            tree.link(link, 1);
        }
        assert_eq!(unmap(&mut tree, 0, 1), (vec![0], 2), "the driver refused the entry");
    }

    #[test]
    fn memory_of_a_table_is_what_was_linked() {
        let mut tree = tree();
        map(&mut tree, 0, 1);
        let last = tree.last_level(0);
        assert_eq!((last.level, tree.memory(last)), (2, Some(&2)));
        assert_eq!(tree.remove(last), Some(2));
        assert_eq!(tree.memory(last), None);
        assert_eq!(tree.into_memory().collect::<BTreeSet<_>>(), BTreeSet::from([0, 1]));
    }

    /// After random maps and unmaps, exactly the tables of mapped pages exist.
    #[test]
    fn tables_exist_exactly_where_pages_are_mapped() {
        let mut seed = 0x2545_F491_4F6C_DD1Du64;
        let mut random = move |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        let (mut tree, mut mapped) = (tree(), BTreeSet::new());
        for _ in 0..2_000 {
            let first = random(64);
            let pages = 1 + random((64 - first).min(9));
            match random(2) {
                0 => {
                    map(&mut tree, first, pages);
                    mapped.extend(first..first + pages);
                }
                _ => {
                    unmap(&mut tree, first, pages);
                    (first..first + pages).for_each(|page| _ = mapped.remove(&page));
                }
            }
            let last: BTreeSet<u64> = mapped.iter().map(|page| page / 4).collect();
            let middle: BTreeSet<u64> = mapped.iter().map(|page| page / 16).collect();
            assert_eq!(tree.len(), 1 + last.len() + middle.len());
        }
    }
}
