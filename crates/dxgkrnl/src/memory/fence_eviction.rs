//! Fence storage in local memory: the driver's segments for it, and its eviction to system memory.
//!
//! Invariants
//! - One lock, [`Memory::hold_fence_pages`], orders moving, mapping, unmapping and notifying of
//!   pages. It is taken before the locks of page tables, CPU updates and interrupts. No waiter is
//!   released under it.
//! - A page is accounted for as soon as its location is decided, so no space is promised twice.
//!
//! Entry points: [`Memory::allocate_fence_page`], [`Memory::trim_fence_storage`].

use super::fence_page::{FenceValuePage, Location, Mapping};
use super::local_memory::Memory;
use crate::error::BugCheck;
use std::any::Any;
use std::sync::{Arc, Weak};
use tidegate_calls::{NativeFenceType, Status};
use tidegate_d3dukmdt::fence_cell::{VALUE_BYTES, VALUE_WORDS};
use tidegate_ddi::memory::{
    FenceStorageSurfaceData, FenceStorageValueType, PagingOperation, Segment, StandardAllocation,
    StandardAllocationType,
};
use tidegate_ddi::{Irql, Passive};
use tidegate_platform::MutexGuard;
use tidegate_platform::level::assert_may_block;
use tidegate_vidmm::{FencePage, FencePageId, choose_segment};

const WORD_BYTES: u64 = 8;

impl Memory {
    /// Prevents pages of fence values from moving until the guard is dropped. The lock is held over
    /// waits for the ends of turns, so a DPC must not take it.
    pub(crate) fn hold_fence_pages(&self) -> MutexGuard<'_, ()> {
        assert_may_block("the moves of fence storage");
        self.fence_pages.moves.lock_device()
    }

    /// Returns the local memory segment for a value. The driver is queried once per kind, before
    /// the first page.
    #[doc(alias = "DxgkDdiGetStandardAllocationDriverData")]
    // spec: NF-109
    pub(crate) fn fence_segment(
        &self,
        level: &Passive,
        value: FenceStorageValueType,
        fence_type: NativeFenceType,
    ) -> Result<Option<usize>, Status> {
        let kind = (value, fence_type as u32);
        if let Some(known) = self.fence_pages.segments.lock().get(&kind) {
            return Ok(*known);
        }
        let surface = FenceStorageSurfaceData {
            physical_adapter_index: 0,
            value,
            fence_type,
            private_driver_data: &[],
        };
        let args =
            StandardAllocation { allocation_type: StandardAllocationType::FenceStorage, surface };
        let driver = &self.driver;
        let answer = driver.driver(level).get_standard_allocation_driver_data(level, args);
        let segment = match answer {
            Err(Status::NOT_SUPPORTED) => None,
            Err(status) => return Err(status),
            Ok(answer) => {
                let visible: Vec<bool> =
                    driver.declared.segments.iter().map(|s| s.cpu_visible).collect();
                let chosen = choose_segment(&answer, &visible, fence_type);
                Some(chosen.map_err(|what| {
                    driver.bug_check(level, BugCheck::FenceStorageSegments(what));
                    Status::DEVICE_REMOVED
                })?)
            }
        };
        self.fence_pages.segments.lock().insert(kind, segment);
        Ok(segment)
    }

    /// Allocates a page in the driver's segment. Evicts the oldest pages if the budget is
    /// exhausted. A page larger than the budget starts in system memory.
    // spec: NF-033, NF-036, NF-108
    pub(crate) fn allocate_fence_page(
        self: &Arc<Memory>,
        level: &Passive,
        value: FenceStorageValueType,
        fence_type: NativeFenceType,
    ) -> Result<Arc<FenceValuePage>, Status> {
        let segment = self.fence_segment(level, value, fence_type)?.ok_or(Status::NOT_SUPPORTED)?;
        let Segment { memory, cpu_visible, .. } = &self.driver.declared.segments[segment];
        let cpu_visible = *cpu_visible;
        let words = FenceValuePage::words_of(value);
        let bytes = words as u64 * WORD_BYTES;
        let (keep, budget) = {
            let fences = self.state.lock();
            (fences.vidmm.fences().keep_for(bytes), fences.vidmm.fences().budget())
        };
        let mut seen = Vec::new();
        let placed = {
            let _driver = self.driver.driver(level);
            let _still = self.hold_fence_pages();
            // 1. Evict older pages.
            self.evict_fence_pages(level, keep.unwrap_or(budget), &mut seen).map(|_| {
                // 2. Account for the page, evicting allocations for it.
                let page = FencePage { bytes, cpu_visible, local: keep.is_some() };
                let now_ns = self.driver.platform.stamp_ns();
                let (id, start) = self.state.lock().vidmm.add_fence_page(page, now_ns);
                // 3. Place the page on the bus.
                let location = match keep {
                    // spec: NF-007
                    Some(_) => Location::new(memory, words, cpu_visible),
                    None => Location::new(&self.driver.system_memory, words, cpu_visible),
                };
                let platform = &self.driver.platform;
                let page = FenceValuePage::movable(platform, id, self.clone(), location, value);
                let page = Arc::new(page);
                self.state.lock().fence_pages.insert(id, Arc::downgrade(&page));
                (page, start)
            })
        };
        let (page, start) = self.end_eviction(level.into(), placed, seen)?;
        if let Some(start) = start {
            self.start_pager(start);
        }
        Ok(page)
    }

    /// Evicts fence storage, oldest first, until at most `keep_bytes` are in local memory. Returns
    /// the number of bytes evicted.
    ///
    /// # Errors
    /// DEVICE_REMOVED when the driver fails, which is a bug check.
    pub(crate) fn trim_fence_storage(
        &self,
        level: &Passive,
        keep_bytes: u64,
    ) -> Result<u64, Status> {
        let mut seen = Vec::new();
        let evicted = {
            let _driver = self.driver.driver(level);
            let _still = self.hold_fence_pages();
            self.evict_fence_pages(level, keep_bytes, &mut seen)
        };
        self.end_eviction(level.into(), evicted, seen)
    }

    /// Finishes an eviction after the page lock is dropped, since the drop of a fence or a bug
    /// check may take that lock.
    fn end_eviction<T>(
        &self,
        level: Irql<'_>,
        evicted: Result<T, Status>,
        seen: Vec<Box<dyn Any>>,
    ) -> Result<T, Status> {
        drop(seen);
        evicted.map_err(|status| {
            let ddi = "DxgkDdiBuildPagingBuffer";
            self.driver.bug_check(level, BugCheck::DdiFailed { ddi, status });
            Status::DEVICE_REMOVED
        })
    }

    /// Returns the bytes of fence storage in local memory.
    pub(crate) fn local_fence_storage_bytes(&self) -> u64 {
        self.state.lock().vidmm.fences().local_bytes()
    }

    /// Evicts pages. The caller holds the page lock.
    fn evict_fence_pages(
        &self,
        level: &Passive,
        keep_bytes: u64,
        seen: &mut Vec<Box<dyn Any>>,
    ) -> Result<u64, Status> {
        let mut bytes = 0;
        while let Some((id, page)) = self.next_fence_page(keep_bytes) {
            // A page that has ended needs no eviction.
            if let Some(page) = page {
                self.evict_fence_page(level, &page, seen)?;
            }
            bytes += self.state.lock().vidmm.fence_page_evicted(id);
        }
        Ok(bytes)
    }

    fn next_fence_page(
        &self,
        keep_bytes: u64,
    ) -> Option<(FencePageId, Option<Arc<FenceValuePage>>)> {
        let state = self.state.lock();
        let id = state.vidmm.fences().next_to_evict(keep_bytes)?;
        Some((id, state.fence_pages.get(&id).and_then(Weak::upgrade)))
    }

    /// Moves a page from local to system memory, without losing CPU or queue waiters:
    /// 1. engines are held between turns, so only the CPU accesses the values;
    /// 2. the values are copied. CPU-visible MonitoredValues are copied under the interrupt lock,
    ///    so later values are published at the new location. Otherwise the hardware moves values,
    ///    histories and waiting queues;
    /// 3. each address of the page is remapped, and old translations are invalidated;
    /// 4. the driver gets the new addresses;
    /// 5. engines continue and re-evaluate each wait;
    /// 6. the old location leaves the bus.
    fn evict_fence_page(
        &self,
        level: &Passive,
        page: &Arc<FenceValuePage>,
        seen: &mut Vec<Box<dyn Any>>,
    ) -> Result<(), Status> {
        // 1.
        self.page_fences(level, PagingOperation::HoldEngines)?;
        let moved = self.move_fence_page(level, page, seen);
        // 5.
        self.page_fences(level, PagingOperation::ReleaseEngines)?;
        // 6.
        if let Some(old) = moved? {
            old.memory.remove(old.at);
        }
        Ok(())
    }

    /// Performs steps 2 to 4. Returns the old location.
    fn move_fence_page(
        &self,
        level: &Passive,
        page: &Arc<FenceValuePage>,
        seen: &mut Vec<Box<dyn Any>>,
    ) -> Result<Option<Location>, Status> {
        let from = page.location();
        let to = Location::new(&self.driver.system_memory, page.words(), from.page.is_some());
        let at = to.at;
        // 2.
        let old = match (&from.page, &to.page) {
            (Some(old), Some(new)) => {
                let _not_published = self.driver.interrupt_lock.lock_device();
                // Values are stored at multiples of the stride, and the new page is zeroed.
                let stride = u64::from(self.driver.declared.native_fence.monitored_value_stride);
                for number in (0..VALUE_WORDS).step_by((stride / WORD_BYTES).max(1) as usize) {
                    new.store(number, old.word(number).load());
                }
                page.relocate(to)
            }
            _ => {
                let transfer = PagingOperation::TransferFenceValues { from: from.at, to: at };
                self.page_fences(level, transfer).inspect_err(|_| _ = to.memory.remove(at))?;
                page.relocate(to)
            }
        };
        // 3.
        for Mapping { space, affinity, va, access } in page.mappings() {
            space.remap_on(level, affinity, va, at, VALUE_BYTES, access);
        }
        // 4.
        if let Some(fences) = self.fences.get() {
            let (notified, fences) = fences.notify_residency(level, page);
            seen.push(fences);
            notified?;
        }
        Ok(old)
    }

    fn page_fences(&self, level: &Passive, operation: PagingOperation<'_>) -> Result<(), Status> {
        self.driver.driver(level).build_paging_buffer(level, operation)
    }
}
