//! Physical address spaces, in which devices find pages: system memory and each local memory
//! segment.
//!
//! Invariants: a region keeps its kind. Addresses increase and are never reused, so a stale
//! translation resolves to nothing instead of another owner's page.
//!
//! Each region records its cache type, for devices that do not snoop CPU caches. Caches are not
//! modelled: such a device must refuse accesses that bypass them.

use super::{Bulk, Page, PageKind, Word};
use crate::platform::Platform;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use tidegate_machines::ClientAccess;

/// An address on the bus, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalAddress(pub u64);

/// Regions start on multiples of this many bytes.
const REGION_ALIGN: u64 = 0x1000;

/// The memory at a physical address.
#[derive(Clone, Debug)]
pub enum Target {
    /// A protocol page and the byte offset in it.
    Protocol(Page, u64),
    /// Bulk bytes and the offset in them.
    Bulk(Bulk, u64),
}

impl Target {
    /// Returns the kind of memory.
    pub fn kind(&self) -> PageKind {
        match self {
            Target::Protocol(..) => PageKind::Protocol,
            Target::Bulk(..) => PageKind::Bulk,
        }
    }

    /// Returns the protocol word at this address, if it is one and the address is aligned to
    /// 8 bytes.
    pub fn word(&self) -> Option<Word> {
        match self {
            Target::Protocol(page, offset) if offset % 8 == 0 => {
                Some(page.word((offset / 8) as usize))
            }
            _ => None,
        }
    }
}

enum Region {
    Protocol(Page),
    Bulk(Bulk),
}

impl Region {
    fn bytes(&self) -> u64 {
        match self {
            Region::Protocol(page) => page.len() as u64 * 8,
            Region::Bulk(bulk) => bulk.len(),
        }
    }
}

/// The cache type of CPU mappings of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CacheType {
    /// Cached: a CPU's stores may be only in its cache, and its loads may come from there.
    #[default]
    WriteBack,
    /// Uncached: every load and store goes to memory.
    Uncached,
}

struct Map {
    /// The regions with their cache types.
    regions: BTreeMap<u64, (Region, CacheType)>,
    next: u64,
}

impl Map {
    /// Returns the region at an address, and its start.
    fn at(&self, at: PhysicalAddress) -> Option<(u64, &(Region, CacheType))> {
        let (start, found) = self.regions.range(..=at.0).next_back()?;
        (at.0 - start < found.0.bytes()).then_some((*start, found))
    }
}

/// A physical address space.
#[derive(Clone)]
pub struct PhysicalMemory {
    platform: Platform,
    shared: Arc<Shared>,
}

struct Shared {
    map: RwLock<Map>,
    /// The number of regions that were removed. Changes under the lock of the map.
    removals: AtomicU64,
}

/// The bulk region that [`PhysicalMemory::resolve_near`] found last.
pub struct FoundRegion {
    start: u64,
    bulk: Bulk,
    /// [`Shared::removals`] when it was found.
    removals: u64,
}

impl PhysicalMemory {
    /// Returns an empty address space whose first region will be at `base`.
    pub fn new(platform: &Platform, base: PhysicalAddress) -> PhysicalMemory {
        let map = Map { regions: BTreeMap::new(), next: base.0.next_multiple_of(REGION_ALIGN) };
        let shared = Shared { map: RwLock::new(map), removals: AtomicU64::new(0) };
        PhysicalMemory { platform: platform.clone(), shared: Arc::new(shared) }
    }

    /// Returns whether both are the same address space.
    pub fn same(&self, other: &PhysicalMemory) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    fn place(&self, region: Region) -> PhysicalAddress {
        let mut map = self.shared.map.write().unwrap_or_else(PoisonError::into_inner);
        let at = map.next;
        map.next += region.bytes().next_multiple_of(REGION_ALIGN).max(REGION_ALIGN);
        map.regions.insert(at, (region, CacheType::default()));
        PhysicalAddress(at)
    }

    /// Creates a protocol page of `words` words and returns its address.
    pub fn protocol(&self, words: usize) -> (PhysicalAddress, Page) {
        let page = self.platform.page(words);
        (self.place(Region::Protocol(page.clone())), page)
    }

    /// Creates a protocol page as [`PhysicalMemory::protocol`] does, for a process
    /// ([`Platform::client_page`]).
    pub fn client_protocol(&self, words: usize, access: ClientAccess) -> (PhysicalAddress, Page) {
        let page = self.platform.client_page(words, access);
        (self.place(Region::Protocol(page.clone())), page)
    }

    /// Creates bytes as [`PhysicalMemory::bulk`] does, for a process ([`Platform::client_bulk`]).
    pub fn client_bulk(&self, bytes: usize) -> (PhysicalAddress, Bulk) {
        let bulk = self.platform.client_bulk(bytes);
        (self.place(Region::Bulk(bulk.clone())), bulk)
    }

    /// Creates `bytes` bulk bytes and returns their address.
    pub fn bulk(&self, bytes: usize) -> (PhysicalAddress, Bulk) {
        let bulk = self.platform.bulk(bytes);
        (self.place(Region::Bulk(bulk.clone())), bulk)
    }

    /// Removes the region at `start` from the bus. Its memory lives on while it is referenced.
    pub fn remove(&self, start: PhysicalAddress) -> bool {
        let mut map = self.shared.map.write().unwrap_or_else(PoisonError::into_inner);
        let removed = map.regions.remove(&start.0).is_some();
        self.shared.removals.fetch_add(u64::from(removed), Ordering::Release);
        removed
    }

    /// Returns the number of regions on the bus, which reveals leaks.
    pub fn regions(&self) -> usize {
        self.shared.map.read().unwrap_or_else(PoisonError::into_inner).regions.len()
    }

    /// Returns the cache type of the region at `at`; `None` if there is no region.
    pub fn cache_type(&self, at: PhysicalAddress) -> Option<CacheType> {
        let map = self.shared.map.read().unwrap_or_else(PoisonError::into_inner);
        map.at(at).map(|(_, (_, cached))| *cached)
    }

    /// Sets the cache type of the region at `at`. No effect if there is no region.
    pub fn set_cache_type(&self, at: PhysicalAddress, cache_type: CacheType) {
        let mut map = self.shared.map.write().unwrap_or_else(PoisonError::into_inner);
        let start = map.at(at).map(|(start, _)| start);
        if let Some((_, cached)) = start.and_then(|start| map.regions.get_mut(&start)) {
            *cached = cache_type;
        }
    }

    /// Returns the memory at `at` as [`PhysicalMemory::resolve`] does, without the lock where it is
    /// in the bulk region that the last call with `last` found.
    pub fn resolve_near(
        &self,
        at: PhysicalAddress,
        last: &mut Option<FoundRegion>,
    ) -> Option<Target> {
        // Taken before the region is found: a removal in between makes the region outdated.
        let removals = self.shared.removals.load(Ordering::Acquire);
        if let Some(found) = last
            && found.removals == removals
            && let Some(offset) = at.0.checked_sub(found.start)
            && offset < found.bulk.len()
        {
            return Some(Target::Bulk(found.bulk.clone(), offset));
        }
        let target = self.resolve(at)?;
        if let Target::Bulk(bulk, offset) = &target {
            *last = Some(FoundRegion { start: at.0 - offset, bulk: bulk.clone(), removals });
        }
        Some(target)
    }

    /// Returns the memory at `at`, if any.
    pub fn resolve(&self, at: PhysicalAddress) -> Option<Target> {
        let map = self.shared.map.read().unwrap_or_else(PoisonError::into_inner);
        let (start, (region, _)) = map.at(at)?;
        let offset = at.0 - start;
        Some(match region {
            Region::Protocol(page) => Target::Protocol(page.clone(), offset),
            Region::Bulk(bulk) => Target::Bulk(bulk.clone(), offset),
        })
    }
}
