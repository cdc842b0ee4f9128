//! The local memory of one adapter and its only pager: allocations, save areas and fence storage.
//!
//! Calls decide and queue operations. While operations are queued, one agent runs
//! [`VidMm::next_content`], [`VidMm::save_areas_to_hold`] and [`VidMm::next`] in a loop.
//!
//! Invariants
//! - No operation begins without power or during a reset, except the moves for power itself.
//! - A save area moves only while its context is held, and receives its initial content first.
//! - Evicting an allocation can deadlock: its user may wait for the work that needs the space. An
//!   eviction therefore times out ([`VidMm::take_timed_out`]). Allocations that then do not fit are
//!   used in system memory.

use crate::commitment::{Allocation, AllocationId, Commitment, LastUse, Moves, Refusal};
use crate::fence_storage::{FencePage, FencePageId, FenceStorage};
use crate::operation::{Next, Operation, PagingOrder};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tidegate_calls::PagingPriority;
use tidegate_ddi::OsHandle;
use tidegate_platform::CpuTime;

/// The pending initial content of a save area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitialContent {
    /// The driver's handle of the context allocation.
    pub allocation: OsHandle,
    /// The context, which is held until then, or the device that owns the allocation.
    pub owner: OsHandle,
}

/// Whether the caller must start the pager's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "operations are carried out by an agent that the caller starts"]
pub enum Start {
    /// The caller must start it.
    Now,
    /// The agent is running.
    Runs,
}

/// The video memory manager of one adapter. `U` is a last use, `C` a completion.
#[derive(Debug)]
pub struct VidMm<U, C> {
    segment: Commitment<U>,
    order: PagingOrder<U, C>,
    fences: FenceStorage,
    contents: VecDeque<InitialContent>,
    timeout_ns: u64,
    /// Whether the pager's agent is running.
    running: bool,
    /// Moves of the operation that is running.
    moving: Moves,
    /// Allocations evicted for a loss of power. `None` while there is power.
    evicted_for_power: Option<Vec<AllocationId>>,
    resetting: bool,
}

impl<U: LastUse, C: Default> VidMm<U, C> {
    /// Creates a manager for `capacity` bytes. An eviction waits up to `timeout_ns` for engines.
    pub fn new(capacity: u64, fence_budget: u64, timeout_ns: u64) -> VidMm<U, C> {
        VidMm {
            segment: Commitment::new(capacity),
            order: PagingOrder::default(),
            fences: FenceStorage::new(fence_budget),
            contents: VecDeque::new(),
            timeout_ns,
            running: false,
            moving: Moves::default(),
            evicted_for_power: None,
            resetting: false,
        }
    }

    /// Returns the state of allocations.
    pub fn segment(&self) -> &Commitment<U> {
        &self.segment
    }

    /// Returns the state of fence storage.
    pub fn fences(&self) -> &FenceStorage {
        &self.fences
    }

    /// Adds an allocation in system memory.
    pub fn add(&mut self, allocation: Allocation) {
        self.segment.add(allocation);
    }

    /// Sets how late allocations are evicted, compared with others that may be.
    pub fn set_priority(&mut self, ids: &[AllocationId], priority: u32) {
        self.segment.set_priority(ids, priority);
    }

    /// Removes a destroyed allocation. Returns whether it was known.
    pub fn remove(&mut self, id: AllocationId) -> bool {
        self.order.forget(id);
        self.segment.remove(id)
    }

    /// Removes and returns all queued operations, because the adapter stops.
    pub fn take_operations(&mut self) -> PagingOrder<U, C> {
        std::mem::take(&mut self.order)
    }

    /// Adds a reference to each of these. Returns the moves, or `None` if they are resident.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if an id is unknown or the budget is exceeded; nothing changes then.
    pub fn make_resident(&mut self, ids: &[AllocationId]) -> Result<Option<Moves>, Refusal> {
        let moves = self.segment.make_resident(ids)?;
        // A committed allocation may not be local yet.
        let is_settled = |id: &AllocationId| self.segment.is_local(*id) && !self.order.names(*id);
        if moves.is_empty() && ids.iter().all(is_settled) {
            return Ok(None);
        }
        Ok(Some(Moves { page_in: ids.to_vec(), ..moves }))
    }

    /// Makes a new allocation resident, and local immediately if nothing has to move.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if the budget is exceeded; nothing changes then.
    pub fn make_new_resident(&mut self, id: AllocationId) -> Result<Option<Moves>, Refusal> {
        let moves = self.segment.make_resident(&[id])?;
        // Queued operations have a claim on room that is not free yet.
        if moves.evict.is_empty() && !self.has_pending_moves() {
            self.segment.set_local(id, true);
            return Ok(None);
        }
        Ok(Some(moves))
    }

    /// Makes a new save area local if it fits now. Callers never wait for a save area.
    pub fn place_save_area(&mut self, id: AllocationId) -> bool {
        let fits = !self.has_pending_moves() && self.segment.commit_if_room(id);
        if fits {
            self.segment.set_local(id, true);
        }
        fits
    }

    /// Removes one reference; see [`Commitment::release`].
    pub fn release(&mut self, id: AllocationId, last_use: Option<&U>) -> Option<u32> {
        self.segment.release(id, last_use)
    }

    /// Pins an allocation for a kernel object. Returns `false` if its process has not made it
    /// resident, or has not waited for that.
    pub fn pin(&mut self, id: AllocationId) -> bool {
        let moves = self.moving.evict.contains(&id)
            || self.moving.page_in.contains(&id) && !self.segment.is_local(id)
            || self.order.evicted().any(|evicted| evicted == id);
        !moves && self.segment.pin(id)
    }

    /// Removes a pin.
    pub fn unpin(&mut self, id: AllocationId) {
        self.segment.unpin(id);
    }

    /// Queues an operation of a paging queue; `None` stands for the kernel.
    pub fn queue(
        &mut self,
        queue: Option<(OsHandle, PagingPriority)>,
        moves: Moves,
        completion: C,
        queued_ns: u64,
    ) -> Start {
        let last_use = |id: &AllocationId| Some((*id, self.segment.last_use(*id)?.clone()));
        let last_uses: BTreeMap<_, _> = moves.evict.iter().filter_map(last_use).collect();
        self.order.push(Operation {
            queue: queue.map(|(queue, _)| queue),
            priority: queue.map_or(PagingPriority::AboveNormal, |(_, priority)| priority),
            moves,
            in_system: Vec::new(),
            last_uses,
            completion,
            queued_ns,
        });
        self.start()
    }

    /// Queues the initial content of a save area.
    pub fn queue_content(&mut self, content: InitialContent) -> Start {
        self.contents.push_back(content);
        self.start()
    }

    /// Requeues initial content at the front, because a reset interrupted it.
    pub fn retry_content(&mut self, content: InitialContent) {
        self.contents.push_front(content);
    }

    /// Returns the next save area to receive its initial content. The previous operation has ended.
    pub fn next_content(&mut self) -> Option<InitialContent> {
        self.moving = Moves::default();
        if self.is_suspended() { None } else { self.contents.pop_front() }
    }

    /// Returns the save areas to evict, with the contexts to hold. A context whose save area has no
    /// content is already held.
    pub fn save_areas_to_hold(&self) -> Vec<(AllocationId, OsHandle)> {
        let has_content = |context: &OsHandle| !self.contents.iter().any(|c| c.owner == *context);
        let area = |id| Some((id, self.segment.context(id).filter(has_content)?));
        self.order.evicted().filter_map(area).collect()
    }

    /// Returns the contexts of the save areas among these.
    pub fn contexts_of(&self, ids: &[AllocationId]) -> Vec<OsHandle> {
        ids.iter().filter_map(|id| self.segment.context(*id)).collect()
    }

    /// Removes and returns the next operation. `idle_areas`: the save areas that no packet uses.
    /// The agent ends after [`Next::Idle`].
    pub fn next(&mut self, idle_areas: &BTreeSet<AllocationId>) -> Next<U, C> {
        if self.is_suspended() {
            return Next::Wait(Vec::new());
        }
        match self.order.next(&self.segment, idle_areas) {
            Next::Idle if !self.contents.is_empty() => Next::Wait(Vec::new()),
            Next::Idle => {
                self.running = false;
                Next::Idle
            }
            Next::Run(operation) => Next::Run(self.begin(operation)),
            next => next,
        }
    }

    /// Returns the deadline of a wait for engines that use these; `None` if there is no limit.
    pub fn deadline(&self, in_use: &[AllocationId], now: CpuTime) -> Option<CpuTime> {
        (!in_use.is_empty()).then(|| now.after(self.timeout_ns))
    }

    /// Handles a timed-out wait for engines. Returns the oldest operation without the moves that
    /// are impossible or no longer fit, and the allocations that cannot be evicted.
    // spec: RES-008
    pub fn take_timed_out(
        &mut self,
        idle_areas: &BTreeSet<AllocationId>,
    ) -> Option<(Operation<U, C>, Vec<AllocationId>)> {
        let mut operation = self.order.take_oldest()?;
        let evict = std::mem::take(&mut operation.moves.evict);
        let (stay, evict): (Vec<_>, Vec<_>) =
            evict.into_iter().partition(|id| operation.waits_for(*id, &self.segment, idle_areas));
        operation.moves.evict = evict;
        stay.iter().for_each(|id| self.segment.keep_in(*id));
        // Later decisions relied on this room. Cancel this operation's page-ins, then the newest.
        while self.segment.is_over_budget() {
            let promised =
                |id: &AllocationId| !self.segment.is_local(*id) && self.segment.is_committed(*id);
            let own = operation.moves.page_in.iter().rev().copied().find(promised);
            let Some(id) = own.or_else(|| self.order.paged_in().find(promised)) else { break };
            self.keep_in_system(&mut operation, id);
        }
        Some((self.begin(operation), stay))
    }

    /// Cancels the page-in of an allocation that is in use in system memory. Returns whether it is.
    pub fn stays_in_system(&mut self, id: AllocationId) -> bool {
        let in_use = self.segment.is_shared(id) || !self.segment.is_idle(id);
        if in_use {
            self.segment.keep_out(id);
        }
        in_use
    }

    /// Records that its bytes have entered or left local memory.
    pub fn set_local(&mut self, id: AllocationId, local: bool) {
        self.segment.set_local(id, local);
    }

    /// Evicts everything before power is lost, and suspends operations. Returns `None` if the
    /// caller must wait for the pager first.
    // spec: RES-015
    pub fn evict_for_power(&mut self, waits_for_pager: bool) -> Option<Vec<AllocationId>> {
        if self.running && waits_for_pager {
            return None;
        }
        let evicted = self.segment.evict_all();
        self.evicted_for_power = Some(evicted.clone());
        Some(evicted)
    }

    /// Returns the held or used allocations to page in after power-up, if power was lost.
    pub fn page_in_for_power(&mut self) -> Option<Vec<AllocationId>> {
        self.evicted_for_power.as_ref().map(|evicted| self.segment.restore(evicted))
    }

    /// Resumes operations.
    pub fn end_power_change(&mut self) {
        self.evicted_for_power = None;
    }

    /// Suspends operations for an adapter reset. The running operation ends first.
    pub fn begin_reset(&mut self) {
        self.resetting = true;
    }

    /// Discards the content of local memory. Returns the lost allocations; no operation moves them.
    pub fn lose_content(&mut self) -> Vec<AllocationId> {
        let lost = self.segment.all_local();
        for id in &lost {
            self.segment.keep_out(*id);
            self.order.forget(*id);
        }
        lost.into_iter().collect()
    }

    /// Resumes operations.
    pub fn end_reset(&mut self) {
        self.resetting = false;
    }

    /// Adds a page of fence values. Queues an operation if allocations must be evicted for it.
    pub fn add_fence_page(&mut self, page: FencePage, now_ns: u64) -> (FencePageId, Option<Start>) {
        (self.fences.add(page), self.share_room(now_ns))
    }

    /// Records that a page of fence values was evicted. Returns the bytes freed in local memory.
    pub fn fence_page_evicted(&mut self, id: FencePageId) -> u64 {
        let bytes = self.fences.evicted(id);
        self.segment.set_fence_bytes(self.fences.shared_bytes());
        bytes
    }

    /// Removes a destroyed page of fence values.
    pub fn remove_fence_page(&mut self, id: FencePageId) {
        self.fences.remove(id);
        self.segment.set_fence_bytes(self.fences.shared_bytes());
    }

    /// Gives allocations the room that fence storage leaves, and evicts the excess.
    fn share_room(&mut self, now_ns: u64) -> Option<Start> {
        self.segment.set_fence_bytes(self.fences.shared_bytes());
        if !self.segment.is_over_budget() {
            return None;
        }
        let moves = self.segment.trim(self.segment.room());
        Some(self.queue(None, moves, C::default(), now_ns))
    }

    /// Returns whether the agent has operations or initial contents to carry out.
    pub fn is_running(&self) -> bool {
        self.running
    }

    fn start(&mut self) -> Start {
        match std::mem::replace(&mut self.running, true) {
            true => Start::Runs,
            false => Start::Now,
        }
    }

    /// Whether local memory differs from what is decided.
    fn has_pending_moves(&self) -> bool {
        !self.moving.is_empty() || !self.order.is_empty()
    }

    fn is_suspended(&self) -> bool {
        self.evicted_for_power.is_some() || self.resetting
    }

    /// Begins an operation, reduced to the page-ins that fit.
    fn begin(&mut self, mut operation: Operation<U, C>) -> Operation<U, C> {
        while operation.excess(&self.segment) > 0 {
            let mut page_in = operation.moves.page_in.iter().rev().copied();
            let Some(id) = page_in.find(|id| !self.segment.is_local(*id)) else { break };
            self.keep_in_system(&mut operation, id);
        }
        self.moving = operation.moves.clone();
        operation
    }

    fn keep_in_system(&mut self, operation: &mut Operation<U, C>, id: AllocationId) {
        operation.keep_in_system(id);
        self.order.keep_in_system(id);
        self.segment.keep_out(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commitment::tests::{Work, id, ids, moves};
    use PagingPriority::Normal;

    const TIMEOUT_NS: u64 = 100;
    const QUEUE: Option<(OsHandle, PagingPriority)> = Some((OsHandle(9), Normal));

    /// Allocations 0 to 5 of 10 bytes each, and the agent that carries out operations.
    struct Pager {
        vidmm: VidMm<Work, &'static str>,
        idle_areas: BTreeSet<AllocationId>,
    }

    impl Pager {
        fn new(capacity: u64) -> Pager {
            let mut vidmm = VidMm::new(capacity, 30, TIMEOUT_NS);
            for number in 0..6 {
                let owner = OsHandle(1);
                vidmm.add(Allocation { id: id(number), owner, bytes: 10, context: None });
            }
            Pager { vidmm, idle_areas: BTreeSet::new() }
        }

        fn with_save_area(capacity: u64, number: u64, context: u64) -> Pager {
            let mut pager = Pager::new(capacity);
            let context = Some(OsHandle(context));
            pager.vidmm.add(Allocation { id: id(number), owner: OsHandle(0), bytes: 10, context });
            assert!(pager.vidmm.place_save_area(id(number)));
            pager
        }

        /// Calls MakeResident. Queues an operation if anything moves.
        fn make_resident<const N: usize>(&mut self, numbers: [u64; N], name: &'static str) -> bool {
            match self.vidmm.make_resident(&ids(numbers)).unwrap() {
                None => true,
                Some(moves) => {
                    let _ = self.vidmm.queue(QUEUE, moves, name, 0);
                    false
                }
            }
        }

        fn carry_out(&mut self, operation: &Operation<Work, &'static str>) {
            for id in &operation.moves.evict {
                self.vidmm.set_local(*id, false);
            }
            for id in &operation.moves.page_in {
                self.vidmm.set_local(*id, true);
            }
            let segment = self.vidmm.segment();
            assert!(segment.local() <= segment.room(), "more is local than fits");
        }

        /// Runs one step of the agent. Returns what completed, or what it waits for.
        fn turn(&mut self) -> Result<&'static str, Vec<AllocationId>> {
            assert_eq!(self.vidmm.next_content(), None);
            match self.vidmm.next(&self.idle_areas) {
                Next::Run(operation) => {
                    self.carry_out(&operation);
                    Ok(operation.completion)
                }
                Next::Wait(in_use) => Err(in_use),
                Next::Idle => Ok("idle"),
            }
        }

        /// Runs until the agent ends.
        fn run(&mut self) -> Vec<&'static str> {
            let turns = std::iter::from_fn(|| self.turn().ok().filter(|name| *name != "idle"));
            turns.collect()
        }

        fn time_out(&mut self) -> (Operation<Work, &'static str>, Vec<AllocationId>) {
            let (operation, stay) = self.vidmm.take_timed_out(&self.idle_areas).unwrap();
            self.carry_out(&operation);
            (operation, stay)
        }

        fn release(&mut self, number: u64) -> Work {
            let work = Work::default();
            assert!(self.vidmm.release(id(number), Some(&work)).is_some());
            work
        }

        fn local(&self) -> Vec<u64> {
            self.vidmm.segment().all_local().into_iter().map(|id| id.0).collect()
        }
    }

    #[test]
    fn one_agent_carries_out_all_operations() {
        let mut p = Pager::new(30);
        let moves = p.vidmm.make_resident(&ids([0])).unwrap().unwrap();
        assert_eq!(p.vidmm.queue(QUEUE, moves, "first", 7), Start::Now);
        let moves = p.vidmm.make_resident(&ids([1])).unwrap().unwrap();
        assert_eq!(p.vidmm.queue(QUEUE, moves, "second", 8), Start::Runs);
        assert_eq!(p.run(), ["first", "second"]);
        assert_eq!(p.local(), [0, 1]);
        let content = InitialContent { allocation: OsHandle(3), owner: OsHandle(4) };
        assert_eq!(p.vidmm.queue_content(content), Start::Now, "the agent had ended");
    }

    #[test]
    fn resident_allocations_are_local_and_not_being_evicted() {
        let mut p = Pager::new(20);
        assert!(!p.make_resident([0, 1], "both"));
        assert!(!p.make_resident([0], "not local yet"));
        assert_eq!(p.run(), ["both", "not local yet"]);
        assert!(p.make_resident([0, 1], "nothing to do"));
        for number in [0, 0, 0, 1, 1] {
            p.release(number).complete();
        }
        assert!(!p.make_resident([2], "evicts 0"));
        assert!(p.make_resident([1], ""), "no operation names it");
        p.release(1).complete();
        assert!(!p.make_resident([0], "evicts 1"), "local, but being evicted");
        assert_eq!((p.run(), p.local()), (vec!["evicts 0", "evicts 1"], vec![0, 2]));
    }

    #[test]
    fn a_new_allocation_is_local_immediately_only_without_pending_moves() {
        let mut p = Pager::new(20);
        assert_eq!(p.vidmm.make_new_resident(id(0)), Ok(None));
        assert_eq!(p.local(), [0]);
        assert!(!p.make_resident([1], "queued"));
        p.release(0).complete();
        assert_eq!(p.vidmm.make_new_resident(id(2)), Ok(Some(moves([0], [2]))));
        assert_eq!(
            p.vidmm.make_new_resident(id(3)),
            Err(Refusal::OverBudget { bytes: 10 }),
            "1 and 2 use all of it"
        );
        assert_eq!(p.run(), ["queued"]);
    }

    /// Room is not promised twice: a decided operation counts before it is carried out.
    #[test]
    fn promised_room_is_not_promised_again() {
        let mut p = Pager::with_save_area(20, 7, 70);
        assert!(!p.make_resident([0], "takes the rest"));
        let area =
            Allocation { id: id(8), owner: OsHandle(0), bytes: 10, context: Some(OsHandle(80)) };
        p.vidmm.add(area);
        assert!(!p.vidmm.place_save_area(id(8)), "10 bytes are free but promised");
        assert_eq!((p.run(), p.local()), (vec!["takes the rest"], vec![0, 7]));
        assert!(!p.vidmm.place_save_area(id(8)), "full");
        assert_eq!(p.vidmm.segment().most_local(), 20);
    }

    #[test]
    fn a_pin_needs_a_local_allocation_that_is_not_being_evicted() {
        let mut p = Pager::new(20);
        assert!(!p.make_resident([0], "in"));
        assert_eq!(p.vidmm.next_content(), None);
        let Next::Run(operation) = p.vidmm.next(&p.idle_areas) else { panic!("it is queued") };
        assert!(!p.vidmm.pin(id(0)), "it is not local yet");
        p.carry_out(&operation);
        assert!(p.vidmm.pin(id(0)));
        p.release(0).complete();
        assert_eq!(p.vidmm.segment.trim(0), Moves::default(), "the pin holds it");
        p.vidmm.unpin(id(0));
        assert!(!p.vidmm.pin(id(0)), "no reference");
        p.make_resident([1, 2], "evicts 0");
        p.release(1).complete();
        p.make_resident([0], "evicts 1");
        assert!(!p.vidmm.pin(id(0)), "local, but being evicted");
        p.run();
        assert!(p.vidmm.pin(id(0)));
    }

    #[test]
    fn a_timed_out_eviction_keeps_busy_allocations() {
        let mut p = Pager::new(20);
        p.make_resident([0, 1], "in");
        p.run();
        let work = p.release(0);
        p.release(1).complete();
        assert!(!p.make_resident([2, 3], "both others"));
        assert_eq!(p.turn(), Err(ids([0])));
        let now = CpuTime(1_000);
        assert_eq!(p.vidmm.deadline(&ids([0]), now), Some(CpuTime(1_000 + TIMEOUT_NS)));
        assert_eq!(p.vidmm.deadline(&[], now), None, "nothing to time out");
        let (operation, stay) = p.time_out();
        assert_eq!((operation.completion, stay), ("both others", ids([0])));
        assert_eq!((operation.moves, operation.in_system), (moves([1], [2]), ids([3])));
        assert_eq!((p.local(), p.vidmm.segment().committed()), (vec![0, 2], 20));
        work.complete();
        assert!(!p.make_resident([3], "retry"));
        assert_eq!((p.run(), p.local()), (vec!["retry"], vec![2, 3]));
    }

    /// 0 stays, so the promised page-ins no longer fit. The newest operation loses its own.
    #[test]
    fn the_newest_operation_loses_page_ins_that_no_longer_fit() {
        let mut p = Pager::new(20);
        p.make_resident([0, 1], "in");
        p.run();
        let _work = p.release(0);
        p.release(1).complete();
        let evict_only = p.vidmm.segment.trim(0);
        let _ = p.vidmm.queue(None, evict_only, "empties", 0);
        p.make_resident([2], "older");
        p.make_resident([3], "newer");
        assert_eq!(p.turn(), Err(ids([0])));
        let (operation, stay) = p.time_out();
        assert_eq!((operation.moves, stay), (moves([1], []), ids([0])));
        assert_eq!((p.run(), p.local()), (vec!["older", "newer"], vec![0, 2]));
        assert!(!p.vidmm.segment().is_over_budget() && !p.vidmm.segment().is_committed(id(3)));
    }

    #[test]
    fn an_allocation_that_is_used_in_system_memory_stays_there() {
        let mut p = Pager::new(20);
        p.make_resident([0], "in");
        assert!(!p.vidmm.stays_in_system(id(0)), "only this operation references it");
        p.make_resident([0], "again");
        assert!(p.vidmm.stays_in_system(id(0)), "an earlier call references it");
        assert_eq!(p.vidmm.segment().committed(), 0);
        p.make_resident([1], "in");
        let work = p.release(1);
        assert!(p.vidmm.stays_in_system(id(1)));
        work.complete();
        assert!(!p.vidmm.stays_in_system(id(1)));
    }

    // spec: PRE-016
    #[test]
    fn a_save_area_moves_while_its_context_is_held() {
        let mut p = Pager::with_save_area(10, 7, 70);
        assert!(p.vidmm.save_areas_to_hold().is_empty());
        assert!(!p.make_resident([0], "swap"));
        assert_eq!(p.vidmm.save_areas_to_hold(), [(id(7), OsHandle(70))]);
        assert_eq!(p.turn(), Err(ids([7])), "a packet of its context is in flight");
        p.idle_areas.insert(id(7));
        assert_eq!((p.turn(), p.local()), (Ok("swap"), vec![0]));
        assert_eq!(p.vidmm.contexts_of(&ids([7, 0])), [OsHandle(70)], "it may run again");
        assert!(p.vidmm.save_areas_to_hold().is_empty());
    }

    #[test]
    fn a_save_area_whose_context_stays_busy_stays_in() {
        let mut p = Pager::with_save_area(10, 7, 70);
        p.make_resident([0], "swap");
        assert_eq!(p.turn(), Err(ids([7])));
        let (operation, stay) = p.time_out();
        assert_eq!((stay, operation.in_system), (ids([7]), ids([0])));
        assert_eq!(p.local(), [7]);
    }

    #[test]
    fn save_areas_get_their_content_before_anything_moves() {
        let mut p = Pager::with_save_area(10, 7, 70);
        let content = InitialContent { allocation: OsHandle(3), owner: OsHandle(70) };
        let _ = p.vidmm.queue_content(content);
        p.make_resident([0], "swap");
        assert!(p.vidmm.save_areas_to_hold().is_empty(), "its context is held for its content");
        assert_eq!(p.vidmm.next_content(), Some(content));
        p.vidmm.retry_content(content);
        p.vidmm.begin_reset();
        assert_eq!(p.vidmm.next_content(), None, "a reset is under way");
        p.vidmm.end_reset();
        assert_eq!(p.vidmm.next_content(), Some(content));
        assert_eq!(p.vidmm.save_areas_to_hold().len(), 1);
    }

    #[test]
    fn queued_content_keeps_the_agent_running() {
        let mut p = Pager::new(10);
        let content = InitialContent { allocation: OsHandle(3), owner: OsHandle(70) };
        assert_eq!(p.vidmm.queue_content(content), Start::Now);
        assert!(matches!(p.vidmm.next(&p.idle_areas), Next::Wait(ids) if ids.is_empty()));
        assert_eq!(p.vidmm.next_content(), Some(content));
        assert_eq!(p.turn(), Ok("idle"));
        assert_eq!(p.vidmm.queue_content(content), Start::Now);
    }

    #[test]
    fn a_power_cycle_evicts_everything_and_restores_what_is_needed() {
        let mut p = Pager::with_save_area(40, 7, 70);
        p.make_resident([0, 1, 2], "in");
        assert_eq!(p.vidmm.evict_for_power(true), None, "the agent has work");
        p.run();
        p.release(1).complete();
        let _work = p.release(2);
        let out = p.vidmm.evict_for_power(true).unwrap();
        assert_eq!(out, ids([0, 1, 2, 7]));
        out.iter().for_each(|id| p.vidmm.set_local(*id, false));
        p.make_resident([1], "requested without power");
        assert_eq!(p.turn(), Err(vec![]), "operations wait for power");
        let back = p.vidmm.page_in_for_power().unwrap();
        assert_eq!(back, ids([0, 2, 7]), "held, used by queued work, a save area");
        back.iter().for_each(|id| p.vidmm.set_local(*id, true));
        p.vidmm.end_power_change();
        assert_eq!((p.run(), p.local()), (vec!["requested without power"], vec![0, 1, 2, 7]));
        assert_eq!(p.vidmm.page_in_for_power(), None, "there is power");
        p.make_resident([3], "runs");
        assert!(p.vidmm.evict_for_power(false).is_some(), "the caller does not wait for the pager");
    }

    #[test]
    fn a_reset_loses_local_content_and_then_operations_resume() {
        let mut p = Pager::new(20);
        p.make_resident([0, 1], "in");
        p.run();
        p.release(0).complete();
        p.make_resident([2], "evicts 0");
        p.vidmm.begin_reset();
        assert_eq!(p.turn(), Err(vec![]));
        assert_eq!(p.vidmm.lose_content(), ids([0, 1]));
        ids([0, 1]).into_iter().for_each(|id| p.vidmm.set_local(id, false));
        assert_eq!(p.vidmm.segment().committed(), 10, "2 is still to be paged in");
        p.vidmm.end_reset();
        assert_eq!((p.run(), p.local()), (vec!["evicts 0"], vec![2]));
        assert_eq!(p.vidmm.segment().references(id(1)), 1, "its process has not evicted it");
    }

    #[test]
    fn fence_storage_takes_room_from_allocations() {
        let fence_page = FencePage { bytes: 15, cpu_visible: true, local: true };
        let mut p = Pager::new(40);
        p.make_resident([0, 1, 2], "in");
        p.run();
        (0..3).for_each(|number| p.release(number).complete());
        let (first, start) =
            p.vidmm.add_fence_page(FencePage { cpu_visible: false, ..fence_page }, 5);
        assert_eq!((start, p.vidmm.segment().room()), (None, 40), "another segment");
        let (second, start) = p.vidmm.add_fence_page(fence_page, 5);
        assert_eq!((start, p.vidmm.segment().room()), (Some(Start::Now), 25));
        assert_eq!((p.run(), p.local()), (vec![""], vec![1, 2]), "0 is the least recently used");
        assert_eq!(p.vidmm.fences().next_to_evict(15), Some(first));
        assert_eq!((p.vidmm.fence_page_evicted(first), p.vidmm.segment().room()), (15, 25));
        assert_eq!((p.vidmm.fence_page_evicted(second), p.vidmm.segment().room()), (15, 40));
        let (third, _) = p.vidmm.add_fence_page(fence_page, 5);
        p.vidmm.remove_fence_page(third);
        assert_eq!((p.vidmm.segment().room(), p.vidmm.fences().local_bytes()), (40, 0));
    }

    #[test]
    fn a_destroyed_allocation_leaves_no_state() {
        let mut p = Pager::new(10);
        p.make_resident([0], "in");
        p.run();
        p.release(0).complete();
        p.make_resident([1], "swap");
        assert!(p.vidmm.remove(id(0)) && !p.vidmm.remove(id(0)));
        assert_eq!((p.run(), p.local()), (vec!["swap"], vec![1]));
        p.make_resident([1], "");
        p.release(1).complete();
        p.release(1).complete();
        p.make_resident([2], "never begins");
        assert!(!p.vidmm.take_operations().is_empty());
        assert_eq!(p.turn(), Ok("idle"));
    }

    #[test]
    fn room_that_a_queued_or_running_operation_will_take_is_not_given_away() {
        let mut p = Pager::new(30);
        let area =
            Allocation { id: id(7), owner: OsHandle(0), bytes: 10, context: Some(OsHandle(70)) };
        p.vidmm.add(area);
        assert!(!p.make_resident([0], "queued"));
        assert_eq!(p.vidmm.make_new_resident(id(1)), Ok(Some(moves([], [1]))), "it is queued too");
        assert!(!p.vidmm.place_save_area(id(7)));
        assert_eq!(p.vidmm.next_content(), None);
        let Next::Run(operation) = p.vidmm.next(&p.idle_areas) else { panic!("it is queued") };
        assert!(!p.vidmm.place_save_area(id(7)), "it is being carried out");
        assert_eq!(p.vidmm.make_new_resident(id(2)), Ok(Some(moves([], [2]))));
        p.carry_out(&operation);
        assert_eq!(p.turn(), Ok("idle"));
        assert!(!p.vidmm.place_save_area(id(7)), "1 and 2 were promised the rest");
    }

    #[test]
    fn a_content_that_was_cut_off_comes_before_the_others() {
        let mut p = Pager::new(10);
        let of = |n| InitialContent { allocation: OsHandle(n), owner: OsHandle(70) };
        [1, 2, 3].map(of).into_iter().for_each(|content| _ = p.vidmm.queue_content(content));
        assert_eq!(p.vidmm.next_content(), Some(of(1)));
        p.vidmm.retry_content(of(1));
        let order: Vec<_> = std::iter::from_fn(|| p.vidmm.next_content()).collect();
        assert_eq!(order, [1, 2, 3].map(of));
    }

    #[test]
    fn what_a_reset_lost_is_moved_no_more() {
        let mut p = Pager::with_save_area(20, 7, 70);
        p.make_resident([0], "in");
        p.run();
        p.make_resident([1], "evicts the save area");
        assert_eq!(p.vidmm.save_areas_to_hold(), [(id(7), OsHandle(70))]);
        p.vidmm.begin_reset();
        assert_eq!(p.vidmm.lose_content(), ids([0, 7]));
        ids([0, 7]).into_iter().for_each(|id| p.vidmm.set_local(id, false));
        p.vidmm.end_reset();
        assert_eq!(p.vidmm.save_areas_to_hold(), [], "its context is not held for it");
        assert_eq!((p.run(), p.local()), (vec!["evicts the save area"], vec![1]));
    }
}
