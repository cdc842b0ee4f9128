//! Owns a physical address space: where devices find pages. One for system memory, one per local memory segment.
//!
//! Each region keeps its kind from birth, and resolving an address yields it. Regions are laid out upwards and their
//! addresses are never given out twice, so that a stale translation finds nothing rather than somebody else's page.

use super::{Bulk, Page, PageKind, Word};
use crate::Platform;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// An address on the bus, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalAddress(pub u64);

/// Regions start on multiples of this many bytes.
const REGION_ALIGN: u64 = 0x1000;

/// What stands at a physical address.
#[derive(Clone, Debug)]
pub enum Target {
    /// A protocol page and the byte offset in it.
    Protocol(Page, u64),
    /// Bulk bytes and the offset in them.
    Bulk(Bulk, u64),
}

impl Target {
    /// The kind of memory.
    pub fn kind(&self) -> PageKind {
        match self {
            Target::Protocol(..) => PageKind::Protocol,
            Target::Bulk(..) => PageKind::Bulk,
        }
    }

    /// The protocol word at this place, if it is one and the place is aligned to 8 bytes.
    pub fn word(&self) -> Option<Word> {
        match self {
            Target::Protocol(page, offset) if offset % 8 == 0 => Some(page.word((offset / 8) as usize)),
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

struct Map {
    regions: BTreeMap<u64, Region>,
    next: u64,
}

/// A physical address space.
#[derive(Clone)]
pub struct PhysicalMemory {
    platform: Platform,
    map: Arc<RwLock<Map>>,
}

impl PhysicalMemory {
    /// An empty address space whose first region will stand at `base`.
    pub fn new(platform: &Platform, base: PhysicalAddress) -> PhysicalMemory {
        let map = Map { regions: BTreeMap::new(), next: base.0.next_multiple_of(REGION_ALIGN) };
        PhysicalMemory { platform: platform.clone(), map: Arc::new(RwLock::new(map)) }
    }

    /// Whether both are the same address space.
    pub fn same(&self, other: &PhysicalMemory) -> bool {
        Arc::ptr_eq(&self.map, &other.map)
    }

    fn place(&self, region: Region) -> PhysicalAddress {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        let at = map.next;
        map.next += region.bytes().next_multiple_of(REGION_ALIGN).max(REGION_ALIGN);
        map.regions.insert(at, region);
        PhysicalAddress(at)
    }

    /// Makes a protocol page of `words` words and gives it an address.
    pub fn protocol(&self, words: usize) -> (PhysicalAddress, Page) {
        let page = self.platform.page(words);
        (self.place(Region::Protocol(page.clone())), page)
    }

    /// Makes `bytes` bulk bytes and gives them an address.
    pub fn bulk(&self, bytes: usize) -> (PhysicalAddress, Bulk) {
        let bulk = self.platform.bulk(bytes);
        (self.place(Region::Bulk(bulk.clone())), bulk)
    }

    /// Takes the region at `start` off the bus; its memory lives on while somebody holds it.
    pub fn remove(&self, start: PhysicalAddress) -> bool {
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        map.regions.remove(&start.0).is_some()
    }

    /// What stands at `at`, if anything.
    pub fn resolve(&self, at: PhysicalAddress) -> Option<Target> {
        let map = self.map.read().unwrap_or_else(PoisonError::into_inner);
        let (&start, region) = map.regions.range(..=at.0).next_back()?;
        let offset = at.0 - start;
        if offset >= region.bytes() {
            return None;
        }
        Some(match region {
            Region::Protocol(page) => Target::Protocol(page.clone(), offset),
            Region::Bulk(bulk) => Target::Bulk(bulk.clone(), offset),
        })
    }
}
