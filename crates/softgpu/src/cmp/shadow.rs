//! Owns the shadow of MonitoredValue: the copies that engines compare their signals with on
//! hardware that keeps them, and the one function that changes a copy.
//!
//! Shadow and CurrentValue are a store-buffering pair, like MonitoredValue in memory and
//! CurrentValue. Engine: 1. store CurrentValue; 2. full barrier; 3. load the shadow. CMP: 1. store
//! the shadow; 2. full barrier against the engines; 3. load CurrentValue. The register by which the
//! driver asks for it is written when all three are done.
//!
//! The table is bounded, and a fence that finds no room is not lost: its signals are compared with
//! MonitoredValue in memory, where the driver stores it in any case. So is a fence that was opened
//! a moment ago.
//!
//! The driver calls in, by mailbox (what is kept) and by registers (values); engines look up
//! without a lock.

use super::{Cmp, Shared};
use crate::mmu;
use std::collections::BTreeMap;
use tidegate_gpu_abi::{AddressSpaceId, AdminError, Cause, GpuVa};
use tidegate_platform::{PhysicalAddress, Platform, Word};

/// Copies of one set: as many places as a fence may stand in.
const WAYS: usize = 4;

/// The copies: by the place of MonitoredValue on the bus, in sets of [`WAYS`].
pub(crate) struct Shadow {
    /// In pairs: whose copy it is (the place plus one; 0 for nobody's), and the copy.
    words: Vec<Word>,
    /// Which of the driver's fences the next value is for.
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

    /// The copies that `place` may stand in.
    fn set(&self, place: PhysicalAddress) -> std::ops::Range<usize> {
        let sets = self.words.len() / (WAYS * 2);
        let mixed = (place.0 >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let first = if sets == 0 { 0 } else { (mixed as usize & (sets - 1)) * WAYS };
        first..first + if sets == 0 { 0 } else { WAYS }
    }

    fn owner(&self, way: usize) -> &Word {
        &self.words[way * 2]
    }

    fn copy(&self, way: usize) -> &Word {
        &self.words[way * 2 + 1]
    }

    /// The copy of the MonitoredValue at `place`, if there is one.
    #[inline]
    pub(crate) fn load(&self, place: PhysicalAddress) -> Option<u64> {
        if self.words.is_empty() {
            return None;
        }
        let way = self.set(place).find(|way| self.owner(*way).load() == place.0 + 1)?;
        Some(self.copy(way).load())
    }
}

/// A fence that has a copy.
#[derive(Clone)]
struct Kept {
    way: usize,
    current: Word,
    /// How the driver finds the fence that an interrupt is about.
    address_space: AddressSpaceId,
    current_value: GpuVa,
}

/// The fences that have copies, by the driver's number. Under the `cmp` lock.
#[derive(Default)]
pub(crate) struct KeptFences {
    by_number: BTreeMap<u64, Kept>,
}

impl Shared {
    /// Keeps a copy for the driver's fence `number`, beginning with what memory says; no longer
    /// news for a fence that has one. Returns whether there is a copy now.
    pub(crate) fn keep_shadow(
        &self,
        number: u64,
        address_space: AddressSpaceId,
        current_value: GpuVa,
        monitored_value: GpuVa,
    ) -> Result<bool, AdminError> {
        let mut cmp = self.cmp.lock();
        let find = |va| {
            let mut spaces =
                (0..self.config.physical_gpus).map(|gpu| cmp.space(address_space, gpu));
            let found = spaces.find_map(|space| mmu::find_protocol_word(&self.bus, space, va));
            found.ok_or(AdminError::BadAddress)
        };
        let ((_, current), (place, monitored)) = (find(current_value)?, find(monitored_value)?);
        if cmp.shadows.by_number.contains_key(&number) {
            return Ok(true);
        }
        let Some(way) = self.shadow.set(place).find(|way| self.shadow.owner(*way).load() == 0)
        else {
            return Ok(false);
        };
        // An update of this fence that came before told nobody, and has stored to memory before it
        // took the lock.
        self.shadow.copy(way).store(monitored.load());
        self.shadow.owner(way).store(place.0 + 1);
        cmp.shadows.by_number.insert(number, Kept { way, current, address_space, current_value });
        Ok(true)
    }

    /// The driver's fence `number` is gone, and its copy with it.
    pub(crate) fn drop_shadow(&self, number: u64) {
        if let Some(kept) = self.cmp.lock().shadows.by_number.remove(&number) {
            self.shadow.owner(kept.way).store(0);
        }
    }

    /// MonitoredValue of the driver's fence `number` is `value` from now on. A fence without a copy
    /// is compared in memory.
    ///
    /// 1. Store the shadow.
    /// 2. Full barrier against the engines: behind it, no store to CurrentValue is on its way that
    ///    belongs to a signal which has compared with the old shadow.
    /// 3. Load CurrentValue.
    /// 4. If it is above, ask for an interrupt; else nothing.
    ///
    /// The interrupt is handed to an engine: whoever writes the register holds the lock that the
    /// interrupt routine takes.
    #[doc(alias = "DxgkDdiUpdateMonitoredValues")]
    pub(crate) fn update_shadow(&self, number: u64, value: u64) {
        let mut cmp = self.cmp.lock();
        let Some(kept) = cmp.shadows.by_number.get(&number).cloned() else { return };
        cmp.stats.shadow_updates += 1;
        // 1.
        // spec: NF-043
        self.shadow.copy(kept.way).store(value);
        // 2.
        // spec: NF-044, NF-047
        if !self.platform.fault("no shadow barrier") {
            self.platform.fence();
            self.posted.flush();
        }
        // 3.
        let current = kept.current.load();
        // 4.
        // spec: NF-045, NF-046
        if current > value {
            self.ask_for_interrupt(&mut cmp, &kept);
            self.recall(cmp, 0);
        }
    }

    fn ask_for_interrupt(&self, cmp: &mut Cmp, kept: &Kept) {
        cmp.stats.shadow_interrupts += 1;
        let cause = if self.config.tells_fence_kinds {
            cmp.signaled.add_of_cmp(kept.address_space, kept.current_value)
        } else {
            Cause::FENCE_COLLAPSED
        };
        cmp.stats.signals_collapsed +=
            u64::from(self.config.tells_fence_kinds && cause.has(Cause::FENCE_COLLAPSED));
        cmp.causes_due |= cause.0;
    }
}
