//! Owns fence storage in local memory: which segments the driver named for it, how much of it there
//! is, and its way to system memory when there is too much.
//!
//! One lock, `moves`, lets a page be moved, mapped, unmapped, or told of only one at a time; it is
//! outside of page tables, of CPU updates and of the interrupt lock, and nothing is given to a
//! waiter under it. The order of a move is in [`demote`]. Nothing comes back to local memory once
//! it left: pressure that is gone shows in new pages.
//!
//! `storage` and `create` call in; so does whoever sees memory pressure
//! ([`Adapter::trim_fence_storage`]). Which page goes is simple: the oldest.

use super::object::Fence;
use super::storage::{Mapped, Place, ValuePage};
use crate::adapter::Adapter;
use crate::error::BugCheck;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use tidegate_calls::{NativeFenceType, Status};
use tidegate_d3dukmdt::FenceCell;
use tidegate_d3dukmdt::fence_cell::{VALUE_BYTES, VALUE_WORDS};
use tidegate_ddi::memory::{
    AllocationSegments, FenceResidency, FenceStorageSurfaceData, FenceStorageValueType,
    PagingOperation, Segment, StandardAllocation, StandardAllocationType,
};
use tidegate_ddi::{DriverHandle, Passive};
use tidegate_platform::{Mutex, PhysicalAddress, Platform, Word};

/// Which storage a driver was asked about.
type Asked = (FenceStorageValueType, u32);

/// Fence storage in local memory of one adapter.
pub(crate) struct Residency {
    /// Held over every move, and over what a move must not meet.
    pub(crate) moves: Mutex<()>,
    /// Pages that may move, oldest first.
    pages: Mutex<Vec<Weak<ValuePage>>>,
    /// What the driver answered: the number of a segment, or none.
    segments: Mutex<BTreeMap<Asked, Option<usize>>>,
}

impl Residency {
    pub(crate) fn new(platform: &Platform) -> Residency {
        Residency {
            moves: platform.mutex("moves of fence storage", ()),
            pages: platform.mutex("fence storage in local memory", Vec::new()),
            segments: platform.mutex("segments of fence storage", BTreeMap::new()),
        }
    }

    fn local_pages(&self) -> Vec<Arc<ValuePage>> {
        let mut pages = self.pages.lock();
        pages.retain(|page| page.strong_count() > 0);
        let alive: Vec<Arc<ValuePage>> = pages.iter().filter_map(Weak::upgrade).collect();
        drop(pages);
        alive.into_iter().filter(|page| page.place().local).collect()
    }
}

fn bytes_of(pages: &[Arc<ValuePage>]) -> u64 {
    pages.iter().map(|page| page.bytes()).sum()
}

/// The segment that an answer means, or what is wrong with it. `visible` says of each segment
/// whether the CPU sees it.
// spec: NF-112
fn chosen_segment(
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

impl Adapter {
    /// The segment in which a value may stand in local memory; the driver is asked once, before the
    /// first page of a kind.
    #[doc(alias = "DxgkDdiGetStandardAllocationDriverData")]
    // spec: NF-109
    pub(crate) fn fence_segment(
        self: &Arc<Adapter>,
        value: FenceStorageValueType,
        fence_type: NativeFenceType,
    ) -> Result<Option<usize>, Status> {
        let asked = (value, fence_type as u32);
        if let Some(known) = self.residency.segments.lock().get(&asked) {
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
        let segment =
            match self.driver().get_standard_allocation_driver_data(&Passive::enter(), args) {
                Err(Status::NOT_SUPPORTED) => None,
                Err(status) => return Err(status),
                Ok(answer) => {
                    let visible: Vec<bool> = self.segments.iter().map(|s| s.cpu_visible).collect();
                    match chosen_segment(&answer, &visible, fence_type) {
                        Ok(segment) => Some(segment),
                        Err(what) => {
                            self.bug_check(BugCheck::FenceStorageSegments(what));
                            return Err(Status::DEVICE_REMOVED);
                        }
                    }
                }
            };
        self.residency.segments.lock().insert(asked, segment);
        Ok(segment)
    }

    /// A page in the segment that the driver named; the oldest pages leave when there is no room.
    // spec: NF-033, NF-036, NF-108
    pub(crate) fn allocate_local_values(
        self: &Arc<Adapter>,
        value: FenceStorageValueType,
        fence_type: NativeFenceType,
    ) -> Result<Arc<ValuePage>, Status> {
        let segment = self.fence_segment(value, fence_type)?.ok_or(Status::NOT_SUPPORTED)?;
        let Segment { memory, cpu_visible, .. } = &self.segments[segment];
        let words = ValuePage::words_of(value);
        let bytes = words as u64 * 8;
        let budget = self.config.fence_storage_budget_bytes;
        let keep = budget.checked_sub(bytes);
        self.make_room(keep.unwrap_or(budget))?;
        // A budget of less than a page: then it stands where it would be demoted to.
        let place = match keep {
            // spec: NF-007
            Some(_) => Place::new(memory, words, *cpu_visible, true),
            None => Place::new(&self.system_memory, words, *cpu_visible, false),
        };
        let page = Arc::new(ValuePage::movable(&self.platform, place, value));
        self.residency.pages.lock().push(Arc::downgrade(&page));
        self.share_room();
        Ok(page)
    }

    /// Memory pressure: fence storage leaves local memory, the oldest first, until at most
    /// `keep_bytes` of it are there. Returns how many bytes left.
    ///
    /// # Errors
    /// DEVICE_REMOVED when the driver failed at it, which is a bug check.
    pub fn trim_fence_storage(self: &Arc<Adapter>, keep_bytes: u64) -> Result<u64, Status> {
        self.make_room(keep_bytes)
    }

    /// Bytes of fence storage in local memory.
    pub fn local_fence_storage_bytes(&self) -> u64 {
        bytes_of(&self.residency.local_pages())
    }

    /// Allocations have what fence storage leaves of the segment that the CPU sees.
    fn share_room(self: &Arc<Adapter>) {
        let visible =
            self.residency.local_pages().into_iter().filter(|page| page.place().page.is_some());
        self.memory.set_fence_storage(self, bytes_of(&visible.collect::<Vec<_>>()));
    }

    fn make_room(self: &Arc<Adapter>, keep_bytes: u64) -> Result<u64, Status> {
        // Fences that were looked at end outside of the lock: the last reference to one may take
        // it.
        let mut seen = Vec::new();
        let outcome = {
            let _moving = self.residency.moves.lock_device();
            self.demote_to(keep_bytes, &mut seen)
        };
        drop(seen);
        self.share_room();
        outcome.map_err(|status| {
            self.bug_check(BugCheck::DdiFailed { ddi: "DxgkDdiBuildPagingBuffer", status });
            Status::DEVICE_REMOVED
        })
    }

    fn demote_to(
        self: &Arc<Adapter>,
        keep_bytes: u64,
        seen: &mut Vec<Arc<Fence>>,
    ) -> Result<u64, Status> {
        let pages = self.residency.local_pages();
        let (mut left, mut gone) = (bytes_of(&pages), 0);
        for page in &pages {
            if left <= keep_bytes {
                break;
            }
            demote(self, page, seen)?;
            left -= page.bytes();
            gone += page.bytes();
        }
        Ok(gone)
    }

    fn page_fences(&self, operation: PagingOperation<'_>) -> Result<(), Status> {
        self.driver().build_paging_buffer(&Passive::enter(), operation)
    }

    /// Tells the driver where fences stand. `moves` is held.
    #[doc(alias = "NOTIFY_FENCE_RESIDENCY")]
    pub(crate) fn notify_fence_residency(&self, fences: &[Arc<Fence>]) -> Result<(), Status> {
        let told: Vec<Told> = fences.iter().filter_map(|fence| Told::of(fence)).collect();
        let residencies: Vec<FenceResidency<'_>> = told.iter().map(Told::residency).collect();
        self.page_fences(PagingOperation::NotifyFenceResidency(&residencies))
    }
}

/// What a driver is told of one fence.
struct Told {
    fence: DriverHandle,
    at: [PhysicalAddress; 2],
    current: Option<FenceCell>,
    monitored: Option<Word>,
}

impl Told {
    fn of(fence: &Fence) -> Option<Told> {
        let native = fence.native.as_ref()?;
        Some(Told {
            fence: native.driver_global,
            at: [fence.storage.current_at(), fence.storage.monitored_at()],
            current: fence.current.as_ref().map(|value| value.cell().clone()),
            monitored: native.monitored.word(),
        })
    }

    fn residency(&self) -> FenceResidency<'_> {
        FenceResidency {
            fence: self.fence,
            current_value: self.at[0],
            monitored_value: self.at[1],
            current_value_cpu: self.current.as_ref(),
            monitored_value_cpu: self.monitored.as_ref(),
        }
    }
}

/// Moves a page from local to system memory; `moves` is held. No waiter is lost, neither the CPU's
/// nor a queue's:
/// 1. engines are held, none is in a turn: nobody but the CPU looks at the values or stores them;
/// 2. what stands in the page goes over. Where the CPU sees it, that is MonitoredValues: under the
///    interrupt lock, under which they are published, and the next one is published at the new
///    place. Where it does not, the hardware takes values, histories and the queues that wait
///    along;
/// 3. every address of the page leads to the new place; translations of the old one are forgotten;
/// 4. the driver is told;
/// 5. engines go on: each wait is looked at anew;
/// 6. the old place leaves the bus.
fn demote(
    adapter: &Arc<Adapter>,
    page: &Arc<ValuePage>,
    seen: &mut Vec<Arc<Fence>>,
) -> Result<(), Status> {
    // 1.
    adapter.page_fences(PagingOperation::HoldEngines)?;
    let moved = move_held(adapter, page, seen);
    // 5.
    adapter.page_fences(PagingOperation::ReleaseEngines)?;
    let old = moved?;
    // 6.
    if let Some(old) = old {
        old.memory.remove(old.at);
    }
    Ok(())
}

fn move_held(
    adapter: &Arc<Adapter>,
    page: &Arc<ValuePage>,
    seen: &mut Vec<Arc<Fence>>,
) -> Result<Option<Place>, Status> {
    let from = page.place();
    let words = page.bytes() as usize / 8;
    let to = Place::new(&adapter.system_memory, words, from.page.is_some(), false);
    let at = to.at;
    // 2.
    let old = match (&from.page, &to.page) {
        (Some(old), Some(new)) => {
            let _not_published = adapter.interrupt_lock.lock_device();
            // Values stand at multiples of the stride, and the new page is zero.
            let stride_words =
                (adapter.native_fence_caps.monitored_value_stride / 8).max(1) as usize;
            for number in (0..VALUE_WORDS).step_by(stride_words) {
                new.store(number, old.word(number).load());
            }
            page.put(to)
        }
        _ => {
            let transfer = PagingOperation::TransferFenceValues { from: from.at, to: at };
            adapter.page_fences(transfer).inspect_err(|_| _ = to.memory.remove(at))?;
            page.put(to)
        }
    };
    // 3.
    for Mapped { space, affinity, va, access } in page.mapped() {
        space.remap_on(affinity, va, at, VALUE_BYTES, access);
    }
    // 4.
    let fences = adapter.fences.matching(|f| f.native.is_some() && f.storage.is_in(page));
    let told = adapter.notify_fence_residency(&fences);
    seen.extend(fences);
    told?;
    Ok(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(set: u32, preferred: u32) -> AllocationSegments {
        AllocationSegments {
            supported_write_segment_set: set,
            eviction_segment_set: 0,
            preferred_segment: preferred,
        }
    }

    #[test]
    fn an_answer_names_segments_that_are_there_and_that_the_cpu_sees_if_it_must() {
        let (visible, default, intra) =
            ([true, false, true], NativeFenceType::Default, NativeFenceType::IntraGpu);
        let chosen =
            |set, preferred, of| chosen_segment(&answer(set, preferred), &visible, of).ok();
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
        assert!(chosen_segment(&evicted_to_nowhere, &visible, default).is_err());
    }
}
