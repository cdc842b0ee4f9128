//! The order in which queued paging operations run.
//!
//! An operation may run when:
//! 1. No earlier operation moves an allocation that it moves.
//! 2. No earlier operation is on the same paging queue, because the paging fence value covers all
//!    operations before it.
//! 3. No engine uses an allocation that it evicts.
//! 4. The allocations that it pages in fit; an earlier operation may have to evict first.
//!
//! Of the runnable operations, the one with the highest priority runs next, then the oldest. Rules
//! 1 and 2 never block the oldest operation. If only it can run and it lacks room, it pages in what
//! fits.

use crate::commitment::{AllocationId, Commitment, LastUse, Moves};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tidegate_calls::PagingPriority;
use tidegate_ddi::OsHandle;

/// One operation: evictions, then page-ins, then its completion of type `C`.
#[derive(Clone, Debug)]
pub struct Operation<U, C> {
    /// The paging queue, or `None` for the kernel's own operations.
    pub queue: Option<OsHandle>,
    /// Priority of the paging queue.
    pub priority: PagingPriority,
    /// The allocations to move.
    pub moves: Moves,
    /// Allocations that did not fit. Engines access them in system memory.
    pub in_system: Vec<AllocationId>,
    /// Work that was using the evicted allocations at the time of the decision. Later work has made
    /// them resident again.
    pub last_uses: BTreeMap<AllocationId, U>,
    /// Completed together with the operation.
    pub completion: C,
    /// Timeline time at which it was queued, in nanoseconds.
    pub queued_ns: u64,
}

/// The next action of the pager.
#[derive(Debug)]
pub enum Next<U, C> {
    /// Carry out this operation, then continue.
    Run(Operation<U, C>),
    /// Wait until one of these is no longer in use or another operation is queued.
    Wait(Vec<AllocationId>),
    /// No operation is queued.
    Idle,
}

/// Queued operations, oldest first.
#[derive(Debug)]
pub struct PagingOrder<U, C>(VecDeque<Operation<U, C>>);

impl<U, C> Default for PagingOrder<U, C> {
    fn default() -> PagingOrder<U, C> {
        PagingOrder(VecDeque::new())
    }
}

impl<U: LastUse, C> PagingOrder<U, C> {
    /// Appends an operation.
    pub fn push(&mut self, operation: Operation<U, C>) {
        self.0.push_back(operation);
    }

    /// Removes a destroyed allocation from all operations.
    pub fn forget(&mut self, id: AllocationId) {
        for operation in &mut self.0 {
            operation.moves.evict.retain(|other| *other != id);
            operation.moves.page_in.retain(|other| *other != id);
        }
    }

    /// Whether an operation moves this allocation.
    pub fn names(&self, id: AllocationId) -> bool {
        self.0.iter().any(|operation| operation.moves.names(id))
    }

    /// Whether no operation is queued.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the allocations to be evicted.
    pub fn evicted(&self) -> impl Iterator<Item = AllocationId> {
        self.0.iter().flat_map(|operation| operation.moves.evict.iter().copied())
    }

    /// Returns the allocations to be paged in, the newest operation's first.
    pub fn paged_in(&self) -> impl Iterator<Item = AllocationId> {
        self.0.iter().rev().flat_map(|operation| operation.moves.page_in.iter().rev().copied())
    }

    /// Removes an allocation from all page-ins, so that it stays in system memory.
    pub fn keep_in_system(&mut self, id: AllocationId) {
        self.0.iter_mut().for_each(|operation| operation.keep_in_system(id));
    }

    /// Removes and returns the next operation. `idle_areas`: the save areas that no packet uses.
    /// The oldest operation may be returned although not all of its page-ins fit.
    pub fn next(
        &mut self,
        segment: &Commitment<U>,
        idle_areas: &BTreeSet<AllocationId>,
    ) -> Next<U, C> {
        let mut best: Option<(usize, PagingPriority)> = None;
        let mut awaited = Vec::new();
        let mut oldest_lacks_room = false;
        for (index, operation) in self.0.iter().enumerate() {
            if self.0.iter().take(index).any(|earlier| earlier.blocks(operation)) {
                continue;
            }
            let fits = operation.excess(segment) == 0;
            if index > 0 && !fits {
                continue;
            }
            let in_use = operation.in_use(segment, idle_areas);
            if !in_use.is_empty() {
                awaited.extend(in_use);
            } else if !fits {
                oldest_lacks_room = true;
            } else if best.is_none_or(|(_, priority)| operation.priority > priority) {
                best = Some((index, operation.priority));
            }
        }
        match best.and_then(|(index, _)| self.0.remove(index)) {
            Some(operation) => Next::Run(operation),
            None if self.0.is_empty() => Next::Idle,
            None if oldest_lacks_room && awaited.is_empty() => {
                self.0.pop_front().map_or(Next::Idle, Next::Run)
            }
            None => Next::Wait(awaited),
        }
    }

    /// Removes and returns the oldest operation, because its wait for engines has timed out.
    pub fn take_oldest(&mut self) -> Option<Operation<U, C>> {
        self.0.pop_front()
    }
}

impl<U: LastUse, C> Operation<U, C> {
    /// Removes an allocation from the page-ins, so that it stays in system memory.
    pub fn keep_in_system(&mut self, id: AllocationId) {
        let before = self.moves.page_in.len();
        self.moves.page_in.retain(|other| *other != id);
        self.in_system.extend((self.moves.page_in.len() < before).then_some(id));
    }

    /// Returns the bytes by which local memory would be exceeded after this operation.
    pub fn excess(&self, segment: &Commitment<U>) -> u64 {
        let bytes = |ids: &[AllocationId], local: bool| {
            let moved = ids.iter().filter(|id| segment.is_local(**id) == local);
            moved.map(|id| segment.bytes(*id)).sum::<u64>()
        };
        let (incoming, outgoing) =
            (bytes(&self.moves.page_in, false), bytes(&self.moves.evict, true));
        (segment.local() + incoming).saturating_sub(outgoing).saturating_sub(segment.room())
    }

    /// Whether the eviction of this allocation must wait for engines.
    pub fn waits_for(
        &self,
        id: AllocationId,
        segment: &Commitment<U>,
        idle_areas: &BTreeSet<AllocationId>,
    ) -> bool {
        let in_use = self.last_uses.get(&id).is_some_and(|last_use| !last_use.is_complete());
        let may_run = segment.context(id).is_some() && !idle_areas.contains(&id);
        segment.is_local(id) && (in_use || may_run)
    }

    fn in_use(
        &self,
        segment: &Commitment<U>,
        idle_areas: &BTreeSet<AllocationId>,
    ) -> Vec<AllocationId> {
        let evicted = self.moves.evict.iter().copied();
        evicted.filter(|id| self.waits_for(*id, segment, idle_areas)).collect()
    }

    /// Whether this older operation must run before `later`.
    fn blocks(&self, later: &Operation<U, C>) -> bool {
        let same_queue = self.queue.is_some() && self.queue == later.queue;
        let mut named = self.moves.evict.iter().chain(&self.moves.page_in);
        same_queue || named.any(|id| later.moves.names(*id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commitment::Allocation;
    use crate::commitment::tests::{Work, id, ids, moves};
    use PagingPriority::{AboveNormal, Normal};

    /// Operations on allocations 0 to 9 of 10 bytes each. The moves determine what is local.
    struct Order {
        order: PagingOrder<Work, &'static str>,
        segment: Commitment<Work>,
        work: BTreeMap<u64, Work>,
    }

    impl Order {
        fn new(room: u64, local: &[u64]) -> Order {
            let mut segment = Commitment::new(room);
            for number in 0..10 {
                let (id, owner) = (id(number), OsHandle(0));
                segment.add(Allocation { id, owner, bytes: 10, context: None });
                segment.set_local(id, local.contains(&number));
            }
            Order { order: PagingOrder::default(), segment, work: BTreeMap::new() }
        }

        fn push(
            &mut self,
            (queue, priority): (u64, PagingPriority),
            moves: Moves,
            completion: &'static str,
        ) {
            let last_use = |id: &AllocationId| Some((*id, self.work.get(&id.0)?.clone()));
            let last_uses = moves.evict.iter().filter_map(last_use).collect();
            self.order.push(Operation {
                queue: Some(OsHandle(queue)),
                priority,
                moves,
                in_system: Vec::new(),
                last_uses,
                completion,
                queued_ns: 0,
            });
        }

        fn use_by_engine(&mut self, number: u64) -> Work {
            let work = Work::default();
            self.work.insert(number, work.clone());
            work
        }

        fn next(&mut self) -> Result<&'static str, Vec<AllocationId>> {
            match self.order.next(&self.segment, &BTreeSet::new()) {
                Next::Run(operation) => {
                    let Moves { evict, page_in } = operation.moves;
                    evict.iter().for_each(|id| self.segment.set_local(*id, false));
                    page_in.iter().for_each(|id| self.segment.set_local(*id, true));
                    assert!(self.segment.local() <= self.segment.room(), "more than fits");
                    Ok(operation.completion)
                }
                Next::Wait(ids) => Err(ids),
                Next::Idle => Ok("idle"),
            }
        }
    }

    #[test]
    fn urgent_operations_overtake_independent_ones() {
        let mut order = Order::new(100, &[]);
        order.push((1, Normal), moves([], [1]), "slow");
        order.push((2, AboveNormal), moves([], [2]), "urgent");
        order.push((1, AboveNormal), moves([], [3]), "same queue");
        order.push((3, AboveNormal), moves([1], []), "same allocation");
        let ran: Vec<_> = (0..5).map(|_| order.next().unwrap()).collect();
        assert_eq!(ran, ["urgent", "slow", "same queue", "same allocation", "idle"]);
    }

    #[test]
    fn an_eviction_waits_for_engines_and_others_overtake_it() {
        let mut order = Order::new(20, &[1]);
        let work = order.use_by_engine(1);
        order.push((1, Normal), moves([1], [2]), "swap");
        order.push((2, Normal), moves([], [3]), "add");
        assert_eq!(order.next(), Ok("add"));
        assert_eq!(order.next(), Err(ids([1])));
        work.complete();
        assert_eq!((order.next(), order.next()), (Ok("swap"), Ok("idle")));
    }

    #[test]
    fn evicting_an_allocation_in_system_memory_does_not_wait() {
        let mut order = Order::new(20, &[]);
        order.use_by_engine(1);
        order.push((1, Normal), moves([1], [2]), "it never came");
        assert_eq!(order.next(), Ok("it never came"));
    }

    #[test]
    fn a_save_area_waits_until_no_packet_uses_it() {
        let mut order = Order::new(10, &[]);
        let area =
            Allocation { id: id(7), owner: OsHandle(0), bytes: 10, context: Some(OsHandle(70)) };
        order.segment.add(area);
        order.segment.set_local(id(7), true);
        order.push((1, Normal), moves([7], [1]), "swap");
        assert_eq!(order.next(), Err(ids([7])), "its context is not held");
        let idle_areas = BTreeSet::from([id(7)]);
        assert!(matches!(order.order.next(&order.segment, &idle_areas), Next::Run(_)));
    }

    #[test]
    fn nothing_is_paged_in_before_there_is_room() {
        let mut order = Order::new(20, &[1, 2]);
        let work = order.use_by_engine(2);
        order.push((1, Normal), moves([1, 2], [3]), "makes room");
        order.push((2, AboveNormal), moves([], [4]), "uses it");
        assert_eq!(order.next(), Err(ids([2])), "the urgent one does not fit");
        work.complete();
        assert_eq!((order.next(), order.next()), (Ok("makes room"), Ok("uses it")));
    }

    #[test]
    fn the_oldest_runs_without_room_only_when_nothing_else_can_run() {
        // 2 stayed although its eviction was decided.
        let mut order = Order::new(20, &[1, 2]);
        let work = order.use_by_engine(1);
        order.push((1, Normal), moves([], [3]), "promised");
        order.push((2, Normal), moves([1], []), "makes room");
        assert_eq!(order.next(), Err(ids([1])));
        work.complete();
        assert_eq!((order.next(), order.next()), (Ok("makes room"), Ok("promised")));
        order.push((1, Normal), moves([], [4]), "promised too");
        assert_eq!(order.order.paged_in().collect::<Vec<_>>(), ids([4]));
        order.order.keep_in_system(id(4));
        assert_eq!((order.order.paged_in().count(), order.next()), (0, Ok("promised too")));
        assert_eq!(order.segment.local(), 20);
    }

    #[test]
    fn what_does_not_fit_is_accessible_in_system_memory() {
        let mut order = Order::new(20, &[1]);
        order.push((1, Normal), moves([], [2, 3]), "both");
        let Some(mut operation) = order.order.take_oldest() else { panic!("it is queued") };
        assert_eq!(operation.excess(&order.segment), 10);
        operation.keep_in_system(id(3));
        operation.keep_in_system(id(9));
        assert_eq!((operation.excess(&order.segment), operation.in_system), (0, ids([3])));
        assert!(order.order.take_oldest().is_none() && order.order.is_empty());
    }

    #[test]
    fn a_destroyed_allocation_is_skipped() {
        let mut order = Order::new(10, &[1]);
        order.use_by_engine(1);
        order.push((1, Normal), moves([1], [2]), "swap");
        assert_eq!(order.order.evicted().collect::<Vec<_>>(), ids([1]));
        order.order.forget(id(1));
        order.segment.remove(id(1));
        assert!(!order.order.names(id(1)) && order.order.names(id(2)));
        assert_eq!((order.next(), order.next()), (Ok("swap"), Ok("idle")));
    }

    /// Carries out all decisions in any allowed order; local memory never exceeds the room.
    #[test]
    fn decisions_can_be_carried_out_in_every_allowed_order() {
        let mut seed = 88_172_645_463_325_252u64;
        let mut random = move |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        for _ in 0..300 {
            let mut order = Order::new(40, &[]);
            let (mut decided, mut done) = (0, 0);
            for _ in 0..40 {
                let wanted = id(random(8));
                if let Ok(mut moves) = order.segment.make_resident(&[wanted]) {
                    order.segment.release(wanted, None);
                    let priority = if random(2) == 0 { Normal } else { AboveNormal };
                    moves.page_in = vec![wanted];
                    order.push((random(3), priority), moves, "done");
                    decided += 1;
                }
                if random(3) == 0 {
                    done += usize::from(order.next() == Ok("done"));
                }
            }
            while order.next() == Ok("done") {
                done += 1;
            }
            assert_eq!(done, decided);
            for number in 0..10 {
                let id = id(number);
                assert_eq!(order.segment.is_local(id), order.segment.is_committed(id));
            }
        }
    }

    #[test]
    fn an_operation_that_lacks_room_runs_if_nothing_makes_room() {
        let mut order = Order::new(10, &[1]);
        order.push((1, Normal), moves([], [2]), "alone");
        let next = order.order.next(&order.segment, &BTreeSet::new());
        assert!(matches!(next, Next::Run(operation) if operation.completion == "alone"));
        assert!(order.order.is_empty());
    }

    #[test]
    fn the_newest_page_in_comes_first() {
        let mut order = Order::new(100, &[]);
        order.push((1, Normal), moves([], [1, 2]), "older");
        order.push((2, Normal), moves([], [3, 4]), "newer");
        assert_eq!(order.order.paged_in().collect::<Vec<_>>(), ids([4, 3, 2, 1]));
    }
}
