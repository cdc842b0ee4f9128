//! Translation: page tables walked by physical address, and the translation caches of an engine.
//!
//! Two direct-mapped caches are tagged with address space and generation: pages (for byte ranges)
//! and words (for fence cells and ring pointers, without reference counting). A fence word has its
//! history. Loads and stores have separate word caches, so a fence's two cells never evict each
//! other between translation and use.
//!
//! The CMP gives an address space a new generation, then waits for turns that began before. An
//! engine reads generations at the start of its turn, so it uses no stale translation afterwards.
//! Coherency is checked when an entry enters the cache, except for tables and physical accesses,
//! which are the driver's. Nothing here stores to memory.

use crate::bus::Bus;
use crate::config::Config;
use std::ops::Deref;
use std::sync::Arc;
use tidegate_d3dukmdt::FenceCell;
use tidegate_d3dukmdt::fence_cell::PAGE_WORDS;
use tidegate_gpu_abi::address::{TABLE_LEVELS, VA_END};
use tidegate_gpu_abi::regs::FaultKind;
use tidegate_gpu_abi::{AddressSpaceId, GpuVa, PAGE_BYTES, Pte};
use tidegate_platform::{Bulk, FoundRegion, Lines, Page, PhysicalAddress, Target, Untrusted, Word};

/// Why an access failed. A box, so that a result without a fault is returned in registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault(Box<FaultCause>);

/// The cause of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FaultCause {
    pub(crate) kind: FaultKind,
    pub(crate) va: GpuVa,
    /// The level of page tables at which translation failed, counted from the last level; 0 if
    /// translation did not fail.
    pub(crate) level: u8,
}

impl Fault {
    #[cold]
    pub(crate) fn new(kind: FaultKind, va: GpuVa) -> Fault {
        Fault(Box::new(FaultCause { kind, va, level: 0 }))
    }

    /// Returns the fault of a translation that failed at this level.
    fn at_level(mut self, level: u8) -> Fault {
        self.0.level = level;
        self
    }
}

impl Deref for Fault {
    type Target = FaultCause;

    fn deref(&self) -> &FaultCause {
        &self.0
    }
}

/// An address space as an engine sees it during one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    /// Address space and generation in one word, compared on every hit.
    tag: u64,
    root: PhysicalAddress,
}

impl Space {
    /// The address space of physical addresses, used by kernel-owned rings.
    pub(crate) const PHYSICAL: Space = Space { tag: u64::MAX, root: PhysicalAddress(0) };

    pub(crate) fn new(id: AddressSpaceId, generation: u32, root: PhysicalAddress) -> Space {
        Space { tag: u64::from(generation) << 32 | u64::from(id.0), root }
    }
}

/// A cached page of an address space.
pub(crate) struct PageEntry {
    tag: u64,
    page: u64,
    writable: bool,
    fence_values: bool,
    /// The bus address of the page.
    pub(crate) physical: PhysicalAddress,
    /// The memory from the start of the page.
    pub(crate) target: Target,
}

/// A cached word of an address space.
pub(crate) struct WordEntry {
    tag: u64,
    va: GpuVa,
    /// The bus address of the word, which is the key of waits.
    pub(crate) physical: PhysicalAddress,
    pub(crate) cell: FenceCell,
}

impl PageEntry {
    /// Returns the cell of word `number` of `page`, which begins at `start`. It has a history if
    /// the page holds fence values.
    pub(crate) fn cell(&self, page: &Page, start: u64, number: usize) -> FenceCell {
        let word = page.word(number);
        if self.fence_values {
            FenceCell::in_fence_page(word, start as usize / 8)
        } else {
            FenceCell::plain(word)
        }
    }

    /// Returns the lines of `len` bytes at `va`, if the page has some.
    pub(crate) fn lines(&self, va: GpuVa, len: usize) -> Option<Lines<'_>> {
        match &self.target {
            Target::Bulk(bytes, start) => bytes.lines(start + va.0 % PAGE_BYTES, len),
            Target::Protocol(..) => None,
        }
    }
}

/// A last-level table, which maps 2 MiB.
struct TableEntry {
    tag: u64,
    region: u64,
    table: Bulk,
    start: u64,
}

/// Names a word that was just translated. Valid until the next translation of the same kind (load
/// or store).
#[derive(Clone, Copy)]
pub(crate) struct Slot(usize);

impl Slot {
    /// A fence's two values have the same offset in neighbouring pages, and each a slot of its own.
    #[inline]
    fn of(va: GpuVa) -> Slot {
        Slot(((va.0 >> 3) ^ (va.0 / PAGE_BYTES)) as usize % RECENT_WORDS)
    }
}

/// The words that were translated last, found without a hash: a fence is often used several times
/// in turn.
const RECENT_WORDS: usize = 4;

/// The cached words of loads or of stores.
struct Words {
    recent: [Option<WordEntry>; RECENT_WORDS],
    /// All others.
    table: Cache<WordEntry>,
}

impl Words {
    fn new(entries: usize) -> Words {
        Words { recent: [const { None }; RECENT_WORDS], table: Cache::new(entries) }
    }

    #[inline]
    fn is_recent(&self, slot: Slot, space: Space, va: GpuVa) -> bool {
        is_word(self.recent[slot.0 % RECENT_WORDS].as_ref(), space, va)
    }

    /// Makes room for the word at `va` among the recent ones. Returns whether it was in the table.
    /// A word with a physical address does not enter the table: no invalidation names it, so the
    /// table would keep the memory of kernel-owned rings that have ended.
    fn recall(&mut self, slot: Slot, space: Space, va: GpuVa) -> bool {
        let entries = self.table.len();
        if let Some(last) = self.recent[slot.0].take()
            && last.tag != Space::PHYSICAL.tag
        {
            let index = place(last.va.0 >> 3, last.tag, entries);
            self.table.put(index, last);
        }
        let index = place(va.0 >> 3, space.tag, entries);
        let found = is_word(self.table.at(index), space, va);
        if found {
            self.recent[slot.0] = self.table.take(index);
        }
        found
    }

    #[inline]
    fn at(&self, slot: Slot) -> &WordEntry {
        self.recent[slot.0 % RECENT_WORDS].as_ref().expect("a slot names a translated word")
    }

    fn drop_stale(&mut self, stale: impl Fn(&WordEntry) -> bool) {
        self.recent.iter_mut().for_each(|entry| drop(entry.take_if(|e| stale(e))));
        self.table.drop_stale(&stale);
    }
}

/// The translations of one engine.
pub(crate) struct Mmu {
    bus: Arc<Bus>,
    io_coherent: bool,
    pages: Cache<PageEntry>,
    tables: Cache<TableEntry>,
    /// The regions of the last page that was loaded and stored.
    regions: [Option<FoundRegion>; 2],
    loads: Words,
    stores: Words,
}

/// A direct-mapped cache. An invalidation looks at the places that were filled alone: the caches of
/// an engine are 200 KiB, mostly empty. One that is never filled has no places, since a machine has
/// more engines than most explored runs use.
struct Cache<T> {
    /// Empty until the first entry.
    places: Vec<Option<T>>,
    /// A bit for each place, set since it was filled. A place whose entry was taken keeps its bit.
    filled: Vec<u64>,
    entries: usize,
}

impl<T> Cache<T> {
    fn new(entries: usize) -> Cache<T> {
        Cache { places: Vec::new(), filled: Vec::new(), entries }
    }

    #[inline]
    fn len(&self) -> usize {
        self.entries
    }

    #[inline]
    fn at(&self, place: usize) -> Option<&T> {
        self.places.get(place)?.as_ref()
    }

    #[inline]
    fn take(&mut self, place: usize) -> Option<T> {
        self.places.get_mut(place)?.take()
    }

    #[inline]
    fn put(&mut self, place: usize, entry: T) {
        if self.places.is_empty() {
            self.make_places();
        }
        self.places[place] = Some(entry);
        self.filled[place / 64] |= 1 << (place % 64);
    }

    #[cold]
    fn make_places(&mut self) {
        self.places.resize_with(self.entries, || None);
        self.filled.resize(self.entries.div_ceil(64), 0);
    }

    /// Drops the entries that are stale.
    fn drop_stale(&mut self, stale: impl Fn(&T) -> bool) {
        for (word, filled) in self.filled.iter_mut().enumerate() {
            let mut bits = *filled;
            while bits != 0 {
                let bit = bits.trailing_zeros();
                bits &= bits - 1;
                let place = &mut self.places[word * 64 + bit as usize];
                drop(place.take_if(|entry| stale(entry)));
                if place.is_none() {
                    *filled &= !(1 << bit);
                }
            }
        }
    }
}

/// Returns the index of `key` in a cache of `entries`. Neighbours are spread apart.
#[inline]
fn place(key: u64, tag: u64, entries: usize) -> usize {
    let mixed = (key ^ tag.rotate_left(40)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 40) as usize & (entries - 1)
}

impl Mmu {
    pub(crate) fn new(bus: Arc<Bus>, config: &Config) -> Mmu {
        let entries = (config.kept_translations as usize).next_power_of_two();
        Mmu {
            bus,
            io_coherent: config.io_coherent,
            pages: Cache::new(entries),
            tables: Cache::new(entries.min(64)),
            regions: [None, None],
            loads: Words::new(entries),
            stores: Words::new(entries),
        }
    }

    /// Drops the translations of stale generations, so that unmapped memory is released.
    pub(crate) fn forget_stale(&mut self, current: impl Fn(AddressSpaceId) -> Space) {
        let stale =
            |tag: u64| tag != Space::PHYSICAL.tag && current(AddressSpaceId(tag as u32)).tag != tag;
        self.regions = [None, None];
        self.pages.drop_stale(|e| stale(e.tag));
        self.tables.drop_stale(|e| stale(e.tag));
        self.loads.drop_stale(|e| stale(e.tag));
        self.stores.drop_stale(|e| stale(e.tag));
    }

    /// Returns the page that contains `va`.
    #[inline]
    pub(crate) fn page(
        &mut self,
        space: Space,
        va: GpuVa,
        write: bool,
    ) -> Result<&PageEntry, Fault> {
        let page = va.0 / PAGE_BYTES;
        let index = place(page, space.tag, self.pages.len());
        let hit = matches!(self.pages.at(index), Some(e) if e.tag == space.tag && e.page == page);
        if !hit {
            self.fill_page(index, space, va, write)?;
        }
        match self.pages.at(index) {
            Some(entry) if entry.writable || !write => Ok(entry),
            _ => Err(unmapped(va, write)),
        }
    }

    #[cold]
    fn fill_page(
        &mut self,
        index: usize,
        space: Space,
        va: GpuVa,
        write: bool,
    ) -> Result<(), Fault> {
        let entry = self.walk(space, va, write)?;
        self.pages.put(index, entry);
        Ok(())
    }

    /// Returns the page of a load at `source` and the page of a store at `destination`. `None` if
    /// one of them has a fault, or if both have the same place in the cache.
    #[inline]
    pub(crate) fn pages_of_copy(
        &mut self,
        space: Space,
        source: GpuVa,
        destination: GpuVa,
    ) -> Option<(&PageEntry, &PageEntry)> {
        self.page(space, source, false).ok()?;
        self.page(space, destination, true).ok()?;
        let cached = |va: GpuVa| {
            let page = va.0 / PAGE_BYTES;
            let entry = self.pages.at(place(page, space.tag, self.pages.len()));
            entry.filter(|entry| entry.tag == space.tag && entry.page == page)
        };
        Some((cached(source)?, cached(destination)?))
    }

    fn walk(&mut self, space: Space, va: GpuVa, write: bool) -> Result<PageEntry, Fault> {
        let page = va.0 / PAGE_BYTES;
        let (physical, writable, fence_values) = if space == Space::PHYSICAL {
            (PhysicalAddress(page * PAGE_BYTES), true, false)
        } else {
            let pte =
                self.last_entry(space, va).map_err(|level| unmapped(va, write).at_level(level))?;
            if !self.is_coherent(pte) {
                return Err(Fault::new(FaultKind::Incoherent, va));
            }
            (pte.address(), pte.is_writable(), pte.has_fence_values())
        };
        let last = &mut self.regions[usize::from(write)];
        let target = self.bus.resolve_near(physical, last).ok_or_else(|| unmapped(va, write))?;
        let fence_values = fence_values && is_fence_page(&target);
        Ok(PageEntry { tag: space.tag, page, writable, fence_values, physical, target })
    }

    /// Returns whether accesses through `pte` are coherent with the CPUs.
    // spec: MF-069, MF-070
    fn is_coherent(&self, pte: Pte) -> bool {
        if pte.is_coherent() { self.io_coherent } else { !self.bus.is_cached(pte.address()) }
    }

    /// Returns the entry that maps `va`, or the level of tables at which translation failed.
    fn last_entry(&mut self, space: Space, va: GpuVa) -> Result<Pte, u8> {
        let region = va.0 >> 21;
        let index = place(region, space.tag, self.tables.len());
        let hit =
            matches!(self.tables.at(index), Some(t) if t.tag == space.tag && t.region == region);
        if !hit {
            let (table, start) = last_table(&self.bus, space.root, va)?;
            self.tables.put(index, TableEntry { tag: space.tag, region, table, start });
        }
        let entry = self.tables.at(index).ok_or(0)?;
        read_entry(&entry.table, entry.start, va, TABLE_LEVELS - 1).ok_or(0)
    }

    /// Translates a word to load.
    #[inline]
    pub(crate) fn load_slot(&mut self, space: Space, va: GpuVa) -> Result<Slot, Fault> {
        let slot = Slot::of(va);
        if !self.loads.is_recent(slot, space, va) {
            self.recall_load(slot, space, va)?;
        }
        Ok(slot)
    }

    #[cold]
    fn recall_load(&mut self, slot: Slot, space: Space, va: GpuVa) -> Result<(), Fault> {
        if !self.loads.recall(slot, space, va) {
            self.loads.recent[slot.0] = Some(self.find_word(space, va, false)?);
        }
        Ok(())
    }

    /// Translates a word to store to.
    #[inline]
    pub(crate) fn store_slot(&mut self, space: Space, va: GpuVa) -> Result<Slot, Fault> {
        let slot = Slot::of(va);
        if !self.stores.is_recent(slot, space, va) {
            self.recall_store(slot, space, va)?;
        }
        Ok(slot)
    }

    #[cold]
    fn recall_store(&mut self, slot: Slot, space: Space, va: GpuVa) -> Result<(), Fault> {
        if !self.stores.recall(slot, space, va) {
            self.stores.recent[slot.0] = Some(self.find_word(space, va, true)?);
        }
        Ok(())
    }

    /// Returns the word at `va`, which [`Mmu::load_slot`] translated last.
    pub(crate) fn loaded(&self, va: GpuVa) -> &WordEntry {
        self.loads.at(Slot::of(va))
    }

    /// Returns the word that [`Mmu::load_slot`] translated last.
    #[inline]
    pub(crate) fn to_load(&self, slot: Slot) -> &WordEntry {
        self.loads.at(slot)
    }

    /// Returns the word that [`Mmu::store_slot`] translated last.
    #[inline]
    pub(crate) fn to_store(&self, slot: Slot) -> &WordEntry {
        self.stores.at(slot)
    }

    fn find_word(&mut self, space: Space, va: GpuVa, write: bool) -> Result<WordEntry, Fault> {
        let entry = self.page(space, va, write)?;
        let physical = PhysicalAddress(entry.physical.0 + va.0 % PAGE_BYTES);
        let cell = cell_of(entry, va).ok_or_else(|| Fault::new(FaultKind::BadPacket, va))?;
        Ok(WordEntry { tag: space.tag, va, physical, cell })
    }

    /// Copies bytes out of an address space.
    pub(crate) fn read(&mut self, space: Space, va: GpuVa, out: &mut [u8]) -> Result<(), Fault> {
        if piece(va, out.len() as u64) == out.len() as u64 {
            return self.read_piece(space, va, out);
        }
        let mut done = 0;
        while done < out.len() {
            let at = va.plus(done as u64);
            let len = piece(at, (out.len() - done) as u64) as usize;
            self.read_piece(space, at, &mut out[done..done + len])?;
            done += len;
        }
        Ok(())
    }

    /// Copies bytes that lie in one page. A process may concurrently write anything that an engine
    /// reads for a queue, ring slots and commands included.
    #[inline]
    pub(crate) fn read_piece(
        &mut self,
        space: Space,
        va: GpuVa,
        out: &mut [u8],
    ) -> Result<(), Fault> {
        let within = va.0 % PAGE_BYTES;
        let done = match &self.page(space, va, false)?.target {
            Target::Bulk(bytes, start) => {
                Untrusted::new(bytes).read_once(start + within, out).is_ok()
            }
            Target::Protocol(page, start) => read_words(&Untrusted::new(page), start + within, out),
        };
        if done { Ok(()) } else { Err(unmapped(va, false)) }
    }
}

#[inline]
fn is_word(entry: Option<&WordEntry>, space: Space, va: GpuVa) -> bool {
    matches!(entry, Some(e) if e.tag == space.tag && e.va == va)
}

/// Returns the fault of an access to an unmapped address.
#[cold]
pub(crate) fn unmapped(va: GpuVa, write: bool) -> Fault {
    Fault::new(if write { FaultKind::WriteUnmapped } else { FaultKind::ReadUnmapped }, va)
}

/// Returns the part of `len` bytes at `va` that lies in the page of `va`.
#[inline]
pub(crate) fn piece(va: GpuVa, len: u64) -> u64 {
    len.min(PAGE_BYTES - va.0 % PAGE_BYTES)
}

/// Returns whether the page has histories.
fn is_fence_page(target: &Target) -> bool {
    matches!(target, Target::Protocol(page, start) if page.len() as u64 * 8 >= start + PAGE_WORDS as u64 * 8)
}

/// Returns the protocol word at `va` in the page of `entry`; `None` if it is bulk memory or `va` is
/// not aligned.
fn cell_of(entry: &PageEntry, va: GpuVa) -> Option<FenceCell> {
    let Target::Protocol(page, start) = &entry.target else { return None };
    let offset = start + va.0 % PAGE_BYTES;
    let index = (offset / 8) as usize;
    (offset.is_multiple_of(8) && index < page.len()).then(|| entry.cell(page, *start, index))
}

#[cold]
fn read_words(page: &Untrusted<&Page>, start: u64, out: &mut [u8]) -> bool {
    let mut done = 0;
    while done < out.len() {
        let at = start + done as u64;
        let (index, skip) = ((at / 8) as usize, (at % 8) as usize);
        let Some(word) = page.word_once(index) else { return false };
        let len = (8 - skip).min(out.len() - done);
        let bytes = word.to_le_bytes();
        out[done..done + len].copy_from_slice(&bytes[skip..skip + len]);
        done += len;
    }
    true
}

fn read_entry(table: &Bulk, start: u64, va: GpuVa, level: u32) -> Option<Pte> {
    let pte = Pte(table.read_u64(start + va.table_index(level) * 8).ok()?);
    pte.is_valid().then_some(pte)
}

/// Returns the last-level table of `va`, or the level at which translation failed, where 0 is the
/// last level.
fn last_table(bus: &Bus, root: PhysicalAddress, va: GpuVa) -> Result<(Bulk, u64), u8> {
    let above_last = |level: u32| (TABLE_LEVELS - 1 - level) as u8;
    if va.0 >= VA_END || root.0 == 0 {
        return Err(above_last(0));
    }
    let table_at = |at, level| match bus.resolve(at) {
        Some(Target::Bulk(table, start)) => Ok((table, start)),
        _ => Err(above_last(level)),
    };
    let mut at = root;
    for level in 0..TABLE_LEVELS - 1 {
        let (table, start) = table_at(at, level)?;
        at = read_entry(&table, start, va, level).ok_or(above_last(level))?.address();
    }
    table_at(at, TABLE_LEVELS - 1)
}

/// Returns a protocol word and its bus address without caching the translation.
pub(crate) fn find_protocol_word(
    bus: &Bus,
    space: Space,
    va: GpuVa,
) -> Option<(PhysicalAddress, Word)> {
    let (table, start) = last_table(bus, space.root, va).ok()?;
    let page = read_entry(&table, start, va, TABLE_LEVELS - 1)?.address();
    let Target::Protocol(words, start) = bus.resolve(page)? else { return None };
    let index = ((start + va.0 % PAGE_BYTES) / 8) as usize;
    let is_word = va.0.is_multiple_of(8) && index < words.len();
    is_word.then(|| (PhysicalAddress(page.0 + va.0 % PAGE_BYTES), words.word(index)))
}
