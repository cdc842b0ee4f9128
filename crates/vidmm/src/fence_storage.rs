//! Pages of fence values: their segment, and which of them are evicted from local memory.
//!
//! Invariants
//! - The pages in local memory do not exceed the budget.
//! - The oldest page is evicted first. No page returns; new pages use the freed space.

use std::collections::BTreeMap;
use tidegate_ddi::NativeFenceType;
use tidegate_ddi::memory::AllocationSegments;

/// A page of fence values that may move. Newer pages have higher numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FencePageId(pub u64);

/// One page of fence values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FencePage {
    /// Size in bytes.
    pub bytes: u64,
    /// Whether it is in the CPU-visible segment, which allocations share.
    pub cpu_visible: bool,
    /// Whether it is in local memory.
    pub local: bool,
}

/// The pages of fence values of one adapter.
#[derive(Debug)]
pub struct FenceStorage {
    budget: u64,
    last: u64,
    pages: BTreeMap<FencePageId, FencePage>,
}

impl FenceStorage {
    /// Creates storage without pages. `budget` is the maximum in local memory, in bytes.
    pub fn new(budget: u64) -> FenceStorage {
        FenceStorage { budget, last: 0, pages: BTreeMap::new() }
    }

    /// Returns the bytes that may stay in local memory when a page of `bytes` is added. `None` if
    /// the page exceeds the budget and starts in system memory.
    pub fn keep_for(&self, bytes: u64) -> Option<u64> {
        self.budget.checked_sub(bytes)
    }

    /// Returns the budget in bytes.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// Adds a page.
    pub fn add(&mut self, page: FencePage) -> FencePageId {
        self.last += 1;
        self.pages.insert(FencePageId(self.last), page);
        FencePageId(self.last)
    }

    /// Removes a destroyed page.
    pub fn remove(&mut self, id: FencePageId) {
        self.pages.remove(&id);
    }

    /// Returns the next page to evict so that at most `keep_bytes` stay in local memory.
    pub fn next_to_evict(&self, keep_bytes: u64) -> Option<FencePageId> {
        let mut local = self.pages.iter().filter(|(_, page)| page.local);
        let oldest = local.next().map(|(id, _)| *id);
        oldest.filter(|_| self.local_bytes() > keep_bytes)
    }

    /// Records that a page was evicted. Returns the bytes freed in local memory.
    pub fn evicted(&mut self, id: FencePageId) -> u64 {
        let page = self.pages.get_mut(&id).filter(|page| page.local);
        page.map_or(0, |page| {
            page.local = false;
            page.bytes
        })
    }

    /// Returns the bytes in local memory.
    pub fn local_bytes(&self) -> u64 {
        self.bytes_of(|page| page.local)
    }

    /// Returns the bytes in the segment that allocations share.
    pub fn shared_bytes(&self) -> u64 {
        self.bytes_of(|page| page.local && page.cpu_visible)
    }

    fn bytes_of(&self, which: impl Fn(&FencePage) -> bool) -> u64 {
        self.pages.values().filter(|page| which(page)).map(|page| page.bytes).sum()
    }
}

/// Returns the segment that a driver chose for fence storage. `visible` states for each segment
/// whether the CPU can access it.
///
/// # Errors
/// Describes the part of the contract that the driver's answer violates.
// spec: NF-112
pub fn choose_segment(
    answer: &AllocationSegments,
    visible: &[bool],
    fence_type: NativeFenceType,
) -> Result<usize, &'static str> {
    let known = u32::MAX >> (32 - visible.len().clamp(1, 32));
    let AllocationSegments { supported_write_segment_set: set, preferred_segment, .. } = *answer;
    if (set | answer.eviction_segment_set) & !known != 0 {
        return Err("names a segment that the adapter does not have");
    }
    let named: Vec<usize> =
        (0..visible.len().min(32)).filter(|number| set & (1 << number) != 0).collect();
    let Some(first) = named.first() else { return Err("names no segment") };
    let intra_gpu = fence_type == NativeFenceType::IntraGpu;
    if named.iter().any(|number| visible[*number] == intra_gpu) {
        return Err(match intra_gpu {
            false => "puts a MonitoredValue that the CPU publishes where the CPU does not see it",
            true => "puts an INTRA_GPU fence where the CPU sees it",
        });
    }
    match preferred_segment {
        0 => Ok(*first),
        number if named.contains(&(number as usize - 1)) => Ok(number as usize - 1),
        _ => Err("prefers a segment that it does not support"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage(budget: u64) -> FenceStorage {
        FenceStorage::new(budget)
    }

    fn page(bytes: u64) -> FencePage {
        FencePage { bytes, cpu_visible: true, local: true }
    }

    #[test]
    fn the_oldest_pages_are_evicted_until_the_budget_is_met() {
        let mut s = storage(30);
        let [a, b, c] = [1, 2, 3].map(|_| s.add(page(10)));
        assert_eq!((s.local_bytes(), s.next_to_evict(30)), (30, None));
        assert_eq!(s.keep_for(10), Some(20), "one more page");
        assert_eq!(s.next_to_evict(20), Some(a));
        assert_eq!((s.evicted(a), s.next_to_evict(20)), (10, None));
        assert_eq!((s.next_to_evict(0), s.evicted(b), s.next_to_evict(0)), (Some(b), 10, Some(c)));
        assert_eq!((s.evicted(c), s.evicted(c), s.next_to_evict(0)), (10, 0, None));
    }

    #[test]
    fn a_budget_below_one_page_keeps_all_pages_in_system_memory() {
        let s = storage(5);
        assert_eq!((s.keep_for(10), s.keep_for(5), s.budget()), (None, Some(0), 5));
    }

    /// A page counts as soon as its place is decided, so a second page does not get the same room.
    #[test]
    fn room_is_promised_to_one_page() {
        let mut s = storage(20);
        s.add(page(10));
        for _ in 0..2 {
            while let Some(oldest) = s.next_to_evict(s.keep_for(10).unwrap()) {
                s.evicted(oldest);
            }
            s.add(page(10));
            assert!(s.local_bytes() <= s.budget());
        }
        assert_eq!(s.local_bytes(), 20);
    }

    #[test]
    fn destroyed_or_evicted_pages_use_no_room() {
        let mut s = storage(100);
        let (a, b) = (s.add(page(10)), s.add(FencePage { cpu_visible: false, ..page(20) }));
        s.add(FencePage { local: false, ..page(40) });
        assert_eq!((s.local_bytes(), s.shared_bytes()), (30, 10));
        s.remove(a);
        assert_eq!((s.local_bytes(), s.shared_bytes(), s.next_to_evict(0)), (20, 0, Some(b)));
        s.remove(b);
        assert_eq!((s.local_bytes(), s.next_to_evict(0)), (0, None));
    }

    fn answer(set: u32, preferred: u32) -> AllocationSegments {
        AllocationSegments {
            supported_write_segment_set: set,
            eviction_segment_set: 0,
            preferred_segment: preferred,
        }
    }

    #[test]
    fn a_driver_must_choose_existing_and_accessible_segments() {
        let (visible, default, intra) =
            ([true, false, true], NativeFenceType::Default, NativeFenceType::IntraGpu);
        let chosen =
            |set, preferred, of| choose_segment(&answer(set, preferred), &visible, of).ok();
        assert_eq!(chosen(0b101, 0, default), Some(0));
        assert_eq!(chosen(0b101, 3, default), Some(2));
        assert_eq!(chosen(0b010, 2, intra), Some(1));
        let refused = [
            (0, 0, default),
            (0b1001, 1, default),
            (0b011, 1, default),
            (0b001, 3, default),
            (0b001, 1, intra),
        ];
        for (set, preferred, of) in refused {
            assert_eq!(chosen(set, preferred, of), None, "{set:#b} {preferred} {of:?}");
        }
        let evicted_to_nowhere =
            AllocationSegments { eviction_segment_set: 1 << 7, ..answer(1, 1) };
        assert!(choose_segment(&evicted_to_nowhere, &visible, default).is_err());
    }
}
