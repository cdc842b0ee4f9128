//! Local memory of an adapter: VidMm, the objects in local memory, and the deciding calls.
//!
//! A call locks VidMm, takes its decision and queues an operation, which `pager` carries out. GPU
//! work is ordered by the paging fence: work that runs before it, or after an eviction, faults. A
//! call blocks only if a new allocation must be resident and has no space.
//!
//! Invariants
//! - No guard of the state is held over a call of another room.
//! - Operations wake the device before they are queued, since waking pages in memory evicted
//!   for power.

use super::address_space::AddressSpace;
use super::allocation::{AllocationObject, FixedMemory, Owner};
use super::driver_allocation::OpenedAllocation;
use super::fence_page::{EndedFence, FencePages, FenceValuePage, FencesInPages};
use super::paging_context::PagingContext;
use super::paging_queue::PagingQueue;
use super::ports::{ContextHolds, EngineWork, LocalMemoryMembers, OwningDevice, PagingFence};
use super::save_areas::SaveAreas;
use super::use_mark::UseMark;
use crate::driver::DriverPort;
use crate::port::Port;
use crate::wait_classes::ROOM;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, Weak};
use tidegate_calls::{
    AllocationKind, CreateAllocation, Placement, Residency, ResidencyPriority, SegmentGroup,
    Status, VideoMemoryInfo,
};
use tidegate_ddi::{Irql, OsHandle, Passive};
use tidegate_platform::{Event, Mutex, PhysicalMemory, Step, WaitEnd, once};
use tidegate_trace::LaneId;
use tidegate_vidmm::{Allocation, AllocationId, FencePageId, Moves, Refusal, Start, VidMm};

/// Largest allocation, in bytes.
pub(super) const MAX_BYTES: u64 = 1 << 36;

/// Completion of a paging operation.
#[derive(Default)]
pub(super) struct Completion {
    /// A paging fence and its value.
    pub(super) fence: Option<(Arc<dyn PagingFence>, u64)>,
    pub(super) event: Option<Event>,
}

/// A save area without content.
pub(super) struct Uninitialised {
    pub(super) area: Weak<AllocationObject>,
    /// Set once the content is initialised.
    pub(super) done: Option<Event>,
}

/// VidMm, and the objects by VidMm number.
pub(super) struct State {
    pub(super) vidmm: VidMm<UseMark, Completion>,
    pub(super) allocations: BTreeMap<AllocationId, Weak<AllocationObject>>,
    pub(super) fence_pages: BTreeMap<FencePageId, Weak<FenceValuePage>>,
    /// By context allocation.
    pub(super) uninitialised: BTreeMap<OsHandle, Uninitialised>,
    /// Events of callers that wait inside the driver for the content of a context allocation.
    pub(super) content_waits: Vec<Event>,
    /// Events of callers that wait for room.
    room_waits: Vec<Event>,
    /// No caller waits inside the driver: an exclusive call would wait for it, and the pager for
    /// the exclusive call.
    pub(super) cut_off: bool,
}

impl State {
    pub(super) fn allocation(&self, id: AllocationId) -> Option<Arc<AllocationObject>> {
        self.allocations.get(&id)?.upgrade()
    }
}

/// A queued paging operation that a call waits for.
struct QueuedOperation {
    done: Event,
    start: Start,
}

/// The memory of one adapter.
pub(crate) struct Memory {
    pub(crate) driver: Arc<DriverPort>,
    pub(crate) work: Port<dyn EngineWork>,
    pub(crate) holds: Port<dyn ContextHolds>,
    pub(crate) fences: Port<dyn FencesInPages>,
    /// The CPU-visible segment, if any.
    pub(super) segment: Option<PhysicalMemory>,
    pub(super) state: Mutex<State>,
    /// Set on any change that the pager may wait for.
    pub(super) changed: Event,
    /// Runs paging operations. Created with the first, `None` after the stop.
    pub(super) paging_context: Mutex<Option<PagingContext>>,
    /// The timeline lane of paging operations, created on first use.
    pub(super) lane: OnceLock<LaneId>,
    pub(crate) save_areas: SaveAreas,
    pub(super) fence_pages: FencePages,
    /// The system process's address space. Created on first use, `None` after the stop.
    system_space: Mutex<Option<Arc<AddressSpace>>>,
    ended_fence: OnceLock<EndedFence>,
}

/// Capacity and use of an adapter's local memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalMemoryUse {
    /// Capacity, in bytes.
    pub capacity_bytes: u64,
    /// Peak use by allocations, in bytes.
    pub most_bytes: u64,
    /// Present use by allocations, in bytes.
    pub used_bytes: u64,
}

/// An allocation pinned in place for a kernel object.
pub(crate) struct Pinned {
    memory: Arc<Memory>,
    allocation: Arc<AllocationObject>,
}

impl Deref for Pinned {
    type Target = Arc<AllocationObject>;

    fn deref(&self) -> &Arc<AllocationObject> {
        &self.allocation
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(id) = self.allocation.id() {
            self.memory.state.lock().vidmm.unpin(id);
        }
    }
}

impl LocalMemoryMembers for Memory {
    fn remove_allocation(&self, id: AllocationId) {
        let known = {
            let mut state = self.state.lock();
            state.allocations.remove(&id);
            state.vidmm.remove(id)
        };
        // The pager may wait for the space or for the allocation itself.
        if known {
            self.wake_pager();
        }
    }

    fn remove_fence_page(&self, id: FencePageId) {
        let mut state = self.state.lock();
        state.fence_pages.remove(&id);
        state.vidmm.remove_fence_page(id);
    }
}

impl Memory {
    pub(crate) fn new(driver: &Arc<DriverPort>) -> Arc<Memory> {
        let (platform, config) = (&driver.platform, &driver.config);
        let segment = driver.declared.segments.iter().find(|s| s.cpu_visible);
        let capacity = segment.map_or(0, |s| s.bytes);
        let state = State {
            vidmm: VidMm::new(
                capacity,
                config.fence_storage_budget_bytes,
                config.paging_timeout_ns,
            ),
            allocations: BTreeMap::new(),
            fence_pages: BTreeMap::new(),
            uninitialised: BTreeMap::new(),
            content_waits: Vec::new(),
            room_waits: Vec::new(),
            cut_off: false,
        };
        Arc::new(Memory {
            driver: driver.clone(),
            work: Port::default(),
            holds: Port::default(),
            fences: Port::default(),
            segment: segment.map(|s| s.memory.clone()),
            state: platform.mutex("local memory", state),
            changed: platform.event(false),
            paging_context: platform.mutex("the paging context", None),
            lane: OnceLock::new(),
            save_areas: SaveAreas::new(platform),
            fence_pages: FencePages::new(platform),
            system_space: platform.mutex("system process", None),
            ended_fence: OnceLock::new(),
        })
    }

    /// Returns the port to engine work.
    ///
    /// # Errors
    /// DEVICE_REMOVED once the adapter has ended.
    pub(super) fn work(&self) -> Result<Arc<dyn EngineWork>, Status> {
        self.work.get().ok_or(Status::DEVICE_REMOVED)
    }

    /// Wakes the pager, which may wait for the caller's change.
    pub(crate) fn wake_pager(&self) {
        self.changed.set(Step::ThreadWake);
    }

    /// Stops the start of paging operations, because the adapter stops.
    pub(crate) fn stop(&self, level: &Passive) {
        let context = self.paging_context.lock().take();
        self.cut_off_waits();
        let (left, waits) = {
            let mut state = self.state.lock();
            (state.vidmm.take_operations(), std::mem::take(&mut state.room_waits))
        };
        waits.iter().for_each(|event| event.set(Step::ThreadWake));
        if let Some(context) = context {
            context.end(level);
        }
        drop(left);
    }

    /// Ends the system process's address space, once no context is left.
    pub(crate) fn end_system_space(&self) {
        let space = self.system_space.lock().take();
        drop(space);
    }

    /// Returns the system process's address space if the driver needs fences mapped there.
    pub(crate) fn system_space_for_fences(&self) -> Option<Arc<AddressSpace>> {
        let wanted = self.driver.declared.native_fence.map_to_gpu_system_process;
        wanted.then(|| self.system_space.lock().clone()).flatten()
    }

    /// Returns the system process's address space, creating it on first use.
    pub(crate) fn system_space(&self, level: &Passive) -> Result<Arc<AddressSpace>, Status> {
        let _driver = self.driver.driver(level);
        let mut space = self.system_space.lock_device();
        if let Some(space) = &*space {
            return Ok(space.clone());
        }
        let new = Arc::new(AddressSpace::of_system_process(level, &self.driver)?);
        *space = Some(new.clone());
        Ok(new)
    }

    /// Returns the fence mapped in place of ended shareable fences.
    pub(crate) fn ended_fence(&self) -> &EndedFence {
        once::make_first(&self.ended_fence, || EndedFence::new(&self.driver))
    }

    /// Returns the present use of local memory.
    pub(crate) fn usage(&self) -> LocalMemoryUse {
        let state = self.state.lock();
        let segment = state.vidmm.segment();
        LocalMemoryUse {
            capacity_bytes: segment.capacity(),
            most_bytes: segment.most_local(),
            used_bytes: segment.local(),
        }
    }

    /// Returns whether the pager has work.
    pub(crate) fn is_paging(&self) -> bool {
        self.state.lock().vidmm.is_running()
    }

    /// Creates an allocation (D3DKMTCreateAllocation2). Unless created on demand, it is resident
    /// with one reference.
    pub(crate) fn create_allocation(
        self: &Arc<Memory>,
        level: &Passive,
        device: Arc<dyn OwningDevice>,
        space: &Arc<AddressSpace>,
        args: &CreateAllocation,
    ) -> Result<Arc<AllocationObject>, Status> {
        match args.bytes {
            0 => return Err(Status::INVALID_PARAMETER),
            1..=MAX_BYTES => {}
            _ => return Err(Status::NO_MEMORY),
        }
        let (bytes, system) = (args.bytes, &self.driver.system_memory);
        let opened = OpenedAllocation::create(level, &self.driver, &device, bytes)?;
        let owner = Owner { device: &device, space, context: None, opened };
        match (args.placement, args.kind) {
            (Placement::System, kind) => {
                AllocationObject::fixed(level, &self.driver, owner, system, bytes, kind)
            }
            (Placement::LocalOf(physical_adapter), kind) if physical_adapter > 0 => {
                let segment = self.segment_of(physical_adapter)?;
                AllocationObject::fixed(level, &self.driver, owner, &segment, bytes, kind)
            }
            (_, AllocationKind::Protocol) => Err(Status::NOT_SUPPORTED),
            (placement, AllocationKind::Bulk) => {
                let made = self.create_movable(owner, bytes)?;
                if placement != Placement::LocalOnDemand {
                    self.make_new_resident(level, &made)?;
                }
                Ok(made)
            }
        }
    }

    /// Opens memory of a shared resource: another allocation of it, resident with one reference.
    pub(crate) fn open_shared(
        &self,
        level: &Passive,
        device: Arc<dyn OwningDevice>,
        space: &Arc<AddressSpace>,
        memory: &Arc<FixedMemory>,
    ) -> Result<Arc<AllocationObject>, Status> {
        let open = |object| OpenedAllocation::open(level, &self.driver, &device, object);
        let opened = memory.object().map(open).transpose()?.flatten();
        let owner = Owner { device: &device, space, context: None, opened };
        AllocationObject::of_fixed(level, &self.driver, owner, memory.clone())
    }

    /// Creates a context's save area in the system process's address space, in local memory if
    /// space is available, else in system memory. With `stays` it never moves.
    pub(super) fn create_save_area(
        self: &Arc<Memory>,
        level: &Passive,
        device: &Arc<dyn OwningDevice>,
        bytes: u64,
        context: OsHandle,
        stays: bool,
    ) -> Result<Arc<AllocationObject>, Status> {
        let space = &self.system_space(level)?;
        let owner = Owner { device, space, context: Some(context), opened: None };
        if stays || self.segment.is_none() {
            let (system, kind) = (&self.driver.system_memory, AllocationKind::Bulk);
            return AllocationObject::fixed(level, &self.driver, owner, system, bytes, kind);
        }
        let made = self.create_movable(owner, bytes)?;
        let _awake = self.driver.awake(level);
        let fits = made.id().is_some_and(|id| self.state.lock().vidmm.place_save_area(id));
        if fits {
            made.begin_local(level)
        } else {
            made.map(level)
        }
        Ok(made)
    }

    fn create_movable(
        self: &Arc<Memory>,
        owner: Owner<'_>,
        bytes: u64,
    ) -> Result<Arc<AllocationObject>, Status> {
        let segment = self.segment.as_ref().ok_or(Status::NOT_SUPPORTED)?;
        let members: Arc<dyn LocalMemoryMembers> = self.clone();
        let made = AllocationObject::movable(&self.driver, owner, segment, members, bytes)?;
        if let Some(id) = made.id() {
            let (owner, context) = (made.accounted_to(), made.context());
            let mut state = self.state.lock();
            state.vidmm.add(Allocation { id, owner, bytes, context });
            state.allocations.insert(id, Arc::downgrade(&made));
        }
        Ok(made)
    }

    /// Returns the CPU-visible segment of a physical adapter.
    fn segment_of(&self, physical_adapter: u32) -> Result<PhysicalMemory, Status> {
        if physical_adapter >= self.driver.declared.caps.physical_adapters {
            return Err(Status::INVALID_PARAMETER);
        }
        let mut segments = self.driver.declared.segments.iter();
        let segment = segments.find(|s| s.cpu_visible && s.physical_adapter == physical_adapter);
        Ok(segment.ok_or(Status::NOT_SUPPORTED)?.memory.clone())
    }

    /// Makes a new allocation resident, after evictions if space is lacking.
    fn make_new_resident(
        self: &Arc<Memory>,
        level: &Passive,
        allocation: &AllocationObject,
    ) -> Result<(), Status> {
        let Some(id) = allocation.id() else { return Ok(()) };
        let _awake = self.driver.awake(level);
        let mut state = self.state.lock();
        match state.vidmm.make_new_resident(id).map_err(|_| Status::NO_MEMORY)? {
            None => {
                drop(state);
                allocation.begin_local(level);
                Ok(())
            }
            Some(moves) => {
                let done = self.queue_with_event(&mut state, moves);
                drop(state);
                self.wait_for_operation(done)
            }
        }
    }

    /// Adds a reference to each allocation and queues the paging operation; see
    /// [`tidegate_calls::Kernel::make_resident`].
    pub(crate) fn make_resident(
        self: &Arc<Memory>,
        level: &Passive,
        queue: &PagingQueue,
        allocations: &[Arc<AllocationObject>],
    ) -> Result<Residency, Status> {
        let _awake = self.driver.awake(level);
        let mut state = self.state.lock();
        let moves = match state.vidmm.make_resident(&movable(allocations)) {
            Ok(moves) => moves,
            Err(Refusal::OverBudget { bytes }) => {
                return Ok(Residency::OverBudget { bytes_to_trim: bytes });
            }
            Err(Refusal::Unknown) => return Err(Status::INVALID_PARAMETER),
        };
        reference_fixed(allocations);
        let Some(moves) = moves else { return Ok(Residency::Resident) };
        let paging_fence_value = queue.next_value();
        let fence = Some((queue.fence.clone(), paging_fence_value));
        let completion = Completion { fence, event: None };
        let (queue, queued_ns) = ((queue.id, queue.priority), self.driver.platform.stamp_ns());
        let start = state.vidmm.queue(Some(queue), moves, completion, queued_ns);
        drop(state);
        self.start_pager(start);
        // spec: RES-003
        Ok(Residency::Pending { paging_fence_value })
    }

    /// Returns whether the allocations fit in local memory together.
    pub(crate) fn can_hold(&self, allocations: &[Arc<AllocationObject>]) -> bool {
        let ids = movable(allocations);
        ids.is_empty() || self.state.lock().vidmm.segment().can_hold(&ids)
    }

    /// Pages in the allocations and references each until [`Memory::release_after_use`]. Blocks
    /// while other allocations are evicted.
    pub(crate) fn page_in_and_hold(
        self: &Arc<Memory>,
        level: &Passive,
        allocations: &[Arc<AllocationObject>],
    ) -> Result<(), Status> {
        let _awake = self.driver.awake(level);
        let mut state = self.state.lock();
        let moves = state.vidmm.make_resident(&movable(allocations));
        let moves = moves.map_err(|_| Status::NO_MEMORY)?;
        reference_fixed(allocations);
        let Some(moves) = moves else { return Ok(()) };
        let done = self.queue_with_event(&mut state, moves);
        drop(state);
        self.wait_for_operation(done)
    }

    /// Drops the references. The allocations can be evicted once all queued work of the device is
    /// complete. Returns the mark of that work, if incomplete.
    pub(crate) fn release_after_use(
        &self,
        level: &Passive,
        device: OsHandle,
        allocations: &[Arc<AllocationObject>],
    ) -> Option<UseMark> {
        let mark = self.mark_last_use(level, device);
        // Each allocation still has the reference from `page_in_and_hold`.
        let _held = self.release(mark.as_ref(), allocations);
        mark
    }

    /// Drops one reference of each allocation, or of none.
    pub(crate) fn evict(
        &self,
        level: &Passive,
        device: OsHandle,
        allocations: &[Arc<AllocationObject>],
    ) -> Result<(), Status> {
        let mark = self.mark_last_use(level, device);
        self.release(mark.as_ref(), allocations)
    }

    /// Sets how late the allocations leave local memory.
    pub(crate) fn set_priority(
        &self,
        allocations: &[Arc<AllocationObject>],
        priority: ResidencyPriority,
    ) {
        let ids = movable(allocations);
        self.state.lock().vidmm.set_priority(&ids, priority.0);
    }

    /// Marks the device's queued work, which may use an allocation that loses its last reference.
    fn mark_last_use(&self, level: &Passive, device: OsHandle) -> Option<UseMark> {
        self.work().ok()?.mark_last_use(level, device, &self.changed)
    }

    fn release(
        &self,
        mark: Option<&UseMark>,
        allocations: &[Arc<AllocationObject>],
    ) -> Result<(), Status> {
        let taken_from = |a: &Arc<AllocationObject>| {
            allocations.iter().filter(|other| Arc::ptr_eq(a, other)).count() as u32
        };
        let mut state = self.state.lock();
        for allocation in allocations {
            let references = match (allocation.fixed_references(), allocation.id()) {
                (Some(references), _) => *references.lock(),
                (None, id) => id.map_or(0, |id| state.vidmm.segment().references(id)),
            };
            if references < taken_from(allocation) {
                return Err(Status::INVALID_PARAMETER);
            }
        }
        for allocation in allocations {
            match (allocation.fixed_references(), allocation.id()) {
                (Some(references), _) => *references.lock() -= 1,
                (None, Some(id)) => _ = state.vidmm.release(id, mark),
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// Pins an allocation in place for a kernel object.
    ///
    /// # Errors
    /// INVALID_PARAMETER if the process has not made it resident or has not waited for the
    /// paging fence.
    pub(crate) fn pin(
        self: &Arc<Memory>,
        level: Irql<'_>,
        allocation: &Arc<AllocationObject>,
    ) -> Result<Pinned, Status> {
        let _awake = self.driver.awake(level);
        let pinned = match (allocation.fixed_references(), allocation.id()) {
            (Some(references), _) => *references.lock() > 0,
            (None, Some(id)) => {
                let mut state = self.state.lock();
                allocation.is_mapped() && state.vidmm.pin(id)
            }
            (None, None) => false,
        };
        let pin = || Pinned { memory: self.clone(), allocation: allocation.clone() };
        pinned.then(pin).ok_or(Status::INVALID_PARAMETER)
    }

    /// Returns budget and usage of these devices. System memory has no budget.
    pub(crate) fn info(&self, group: SegmentGroup, owners: &[OsHandle]) -> VideoMemoryInfo {
        let (budget, current_usage) = match group {
            SegmentGroup::NonLocal => (u64::MAX, 0),
            SegmentGroup::Local => self.state.lock().vidmm.segment().budget_of(owners),
        };
        VideoMemoryInfo { budget, current_usage }
    }

    fn queue_with_event(&self, state: &mut State, moves: Moves) -> QueuedOperation {
        let done = self.driver.platform.event(true);
        state.room_waits.push(done.clone());
        let completion = Completion { fence: None, event: Some(done.clone()) };
        let start = state.vidmm.queue(None, moves, completion, self.driver.platform.stamp_ns());
        QueuedOperation { done, start }
    }

    fn wait_for_operation(self: &Arc<Memory>, queued: QueuedOperation) -> Result<(), Status> {
        let QueuedOperation { done, start } = queued;
        self.start_pager(start);
        // A removal ends the waits that it finds.
        let end = match self.driver.condition.check_present() {
            Ok(()) => done.wait_for(None, &ROOM),
            Err(_) => WaitEnd::Woken,
        };
        self.state.lock().room_waits.retain(|event| event.id() != done.id());
        match end {
            WaitEnd::Stopped => Err(Status::CANCELLED),
            _ => self.driver.check(),
        }
    }
}

fn movable(allocations: &[Arc<AllocationObject>]) -> Vec<AllocationId> {
    allocations.iter().filter_map(|allocation| allocation.id()).collect()
}

fn reference_fixed(allocations: &[Arc<AllocationObject>]) {
    for references in allocations.iter().filter_map(|a| a.fixed_references()) {
        *references.lock() += 1;
    }
}
