//! The copies of MonitoredValue that engines compare their signals with, on hardware with shadows.
//! Engines read the copies without a lock.
//!
//! A copy and CurrentValue are a store-buffering pair. Engine: 1. store CurrentValue; 2. full
//! barrier; 3. load the copy. CMP: 1. store the copy; 2. full barrier against the engines; 3. load
//! CurrentValue (`mailbox::shadow`).
//!
//! The table is bounded. Signals of a fence without a copy are compared with MonitoredValue in
//! memory, which the driver always stores too.

use std::collections::BTreeMap;
use tidegate_gpu_abi::{AddressSpaceId, GpuVa};
use tidegate_platform::{PhysicalAddress, Platform, Word};

/// The number of ways in one set.
const WAYS: usize = 4;

/// The copies, keyed by the bus address of MonitoredValue, in sets of [`WAYS`].
pub(crate) struct Shadow {
    /// Pairs of the key (the address plus one; 0 for none) and the copy.
    words: Vec<Word>,
    /// The driver's number of the fence that the next value is for.
    pub(crate) chosen: Word,
}

impl Shadow {
    pub(crate) fn new(platform: &Platform, entries: u32) -> Shadow {
        let sets =
            if entries == 0 { 0 } else { (entries as usize).div_ceil(WAYS).next_power_of_two() };
        let page = platform.page(1 + sets * WAYS * 2);
        let words = (0..sets * WAYS * 2).map(|word| page.word(1 + word)).collect();
        Shadow { words, chosen: page.word(0) }
    }

    /// Returns the ways that may hold the copy for `place`.
    fn set(&self, place: PhysicalAddress) -> std::ops::Range<usize> {
        let sets = self.words.len() / (WAYS * 2);
        let mixed = (place.0 >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let first = if sets == 0 { 0 } else { (mixed as usize & (sets - 1)) * WAYS };
        first..first + if sets == 0 { 0 } else { WAYS }
    }

    fn owner(&self, way: usize) -> &Word {
        &self.words[way * 2]
    }

    /// Returns the copy in a way.
    pub(crate) fn copy(&self, way: usize) -> &Word {
        &self.words[way * 2 + 1]
    }

    /// Returns the copy of the MonitoredValue at `place`, if there is one.
    #[inline]
    pub(crate) fn load(&self, place: PhysicalAddress) -> Option<u64> {
        if self.words.is_empty() { None } else { self.find(place) }
    }

    fn find(&self, place: PhysicalAddress) -> Option<u64> {
        let way = self.set(place).find(|way| self.owner(*way).load() == place.0 + 1)?;
        Some(self.copy(way).load())
    }

    /// Adds a copy of the MonitoredValue at `place`, initialised with `value`. Returns its way;
    /// `None` if there is no room.
    pub(crate) fn add(&self, place: PhysicalAddress, value: impl FnOnce() -> u64) -> Option<usize> {
        let way = self.set(place).find(|way| self.owner(*way).load() == 0)?;
        self.copy(way).store(value());
        self.owner(way).store(place.0 + 1);
        Some(way)
    }

    /// Frees a way.
    pub(crate) fn remove(&self, way: usize) {
        self.owner(way).store(0);
    }
}

/// A fence with a copy.
#[derive(Clone)]
pub(crate) struct ShadowedFence {
    pub(crate) way: usize,
    pub(crate) current: Word,
    /// The address space of the address that an interrupt reports.
    pub(crate) address_space: AddressSpaceId,
    pub(crate) current_value: GpuVa,
}

/// The fences with copies, by the driver's number.
pub(crate) type ShadowedFences = BTreeMap<u64, ShadowedFence>;
