//! The allocations in one budgeted segment, and the choice of what to evict.
//!
//! An allocation is *committed* from the decision to page it in until the decision to evict it. It
//! is *local* while its bytes are in the segment, which lags behind the decisions.
//!
//! Invariants
//! - Committed bytes never exceed the room. [`Commitment::keep_in`] is the exception: its caller
//!   then frees the excess with [`Commitment::keep_out`].
//! - An allocation with references or pins stays committed. MakeResident adds a reference and Evict
//!   removes one. Kernel objects hold pins.
//! - Other allocations are evicted on demand. Idle ones are evicted before those that engines may
//!   still use; of each kind the lowest priority first, and these in LRU order.

use std::collections::{BTreeMap, BTreeSet};
use tidegate_ddi::OsHandle;

/// An allocation that moves between local and system memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllocationId(pub u64);

/// The GPU work that a device had queued when an allocation lost its last reference.
pub trait LastUse: Clone {
    /// Whether all of this work is complete.
    fn is_complete(&self) -> bool;
}

/// Properties of an allocation that VidMm uses.
#[derive(Clone, Copy, Debug)]
pub struct Allocation {
    /// Its number.
    pub id: AllocationId,
    /// The device whose usage includes it; 0 is the kernel.
    pub owner: OsHandle,
    /// Size in bytes.
    pub bytes: u64,
    /// For a save area, the context whose state it holds.
    pub context: Option<OsHandle>,
}

/// Allocations to move. Evictions come first, because they free the space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Allocations to move to system memory.
    pub evict: Vec<AllocationId>,
    /// Allocations to move to local memory.
    pub page_in: Vec<AllocationId>,
}

impl Moves {
    /// Whether nothing moves.
    pub fn is_empty(&self) -> bool {
        self.evict.is_empty() && self.page_in.is_empty()
    }

    /// Whether `id` is among the moves.
    pub fn names(&self, id: AllocationId) -> bool {
        self.evict.contains(&id) || self.page_in.contains(&id)
    }
}

/// The reason why allocations cannot be made resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// At least one of them is unknown.
    Unknown,
    /// Referenced allocations leave too little room.
    OverBudget {
        /// Bytes that must lose their references first.
        bytes: u64,
    },
}

/// D3DDDI_ALLOCATIONPRIORITY_NORMAL: the priority of a new allocation.
const NORMAL_PRIORITY: u32 = 0x7800_0000;

#[derive(Clone, Debug)]
struct Member<U> {
    allocation: Allocation,
    references: u32,
    pins: u32,
    committed: bool,
    local: bool,
    /// How late it leaves; lower ones leave first.
    priority: u32,
    /// Sequence number of its creation, or of the last release of a reference.
    used: u64,
    /// Work that may still use it, recorded when it lost its last reference.
    last_use: Option<U>,
}

impl<U: LastUse> Member<U> {
    fn is_held(&self) -> bool {
        self.references > 0 || self.pins > 0
    }

    /// A save area is never idle, because the next packet of its context may use it.
    fn is_idle(&self) -> bool {
        self.allocation.context.is_none() && self.last_use.as_ref().is_none_or(U::is_complete)
    }
}

/// The allocations of a segment.
#[derive(Debug)]
pub struct Commitment<U> {
    capacity: u64,
    /// Bytes of fence storage.
    fence_bytes: u64,
    committed: u64,
    local: u64,
    /// Peak of the local bytes.
    most_local: u64,
    clock: u64,
    members: BTreeMap<AllocationId, Member<U>>,
}

impl<U: LastUse> Commitment<U> {
    /// Creates an empty segment of `capacity` bytes.
    pub fn new(capacity: u64) -> Commitment<U> {
        let members = BTreeMap::new();
        Commitment {
            capacity,
            fence_bytes: 0,
            committed: 0,
            local: 0,
            most_local: 0,
            clock: 0,
            members,
        }
    }

    /// Returns the size of the segment in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the bytes of committed allocations.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Returns the bytes of local allocations.
    pub fn local(&self) -> u64 {
        self.local
    }

    /// Returns the peak of the local bytes.
    pub fn most_local(&self) -> u64 {
        self.most_local
    }

    /// Returns the bytes available to allocations: the capacity minus fence storage.
    pub fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.fence_bytes)
    }

    /// Whether the committed bytes exceed the room.
    pub fn is_over_budget(&self) -> bool {
        self.committed > self.room()
    }

    /// Sets the bytes of the segment that fence storage occupies.
    pub fn set_fence_bytes(&mut self, bytes: u64) {
        self.fence_bytes = bytes;
    }

    /// Adds an allocation in system memory, without references.
    pub fn add(&mut self, allocation: Allocation) {
        let used = self.tick();
        let member = Member {
            allocation,
            references: 0,
            pins: 0,
            committed: false,
            local: false,
            priority: NORMAL_PRIORITY,
            used,
            last_use: None,
        };
        self.members.insert(allocation.id, member);
    }

    /// Removes a destroyed allocation. Returns whether it was known.
    pub fn remove(&mut self, id: AllocationId) -> bool {
        self.set_committed(id, false);
        self.set_local(id, false);
        self.members.remove(&id).is_some()
    }

    /// Returns the number of MakeResident references.
    pub fn references(&self, id: AllocationId) -> u32 {
        self.members.get(&id).map_or(0, |m| m.references)
    }

    /// Whether it has a pin or more than one reference.
    pub fn is_shared(&self, id: AllocationId) -> bool {
        self.members.get(&id).is_some_and(|m| m.references > 1 || m.pins > 0)
    }

    /// Whether no engine uses it.
    pub fn is_idle(&self, id: AllocationId) -> bool {
        self.members.get(&id).is_none_or(Member::is_idle)
    }

    /// Whether it will be local once all decisions are carried out.
    pub fn is_committed(&self, id: AllocationId) -> bool {
        self.members.get(&id).is_some_and(|m| m.committed)
    }

    /// Whether its bytes are in the segment.
    pub fn is_local(&self, id: AllocationId) -> bool {
        self.members.get(&id).is_some_and(|m| m.local)
    }

    /// Returns the size of an allocation in bytes; 0 if it is unknown.
    pub fn bytes(&self, id: AllocationId) -> u64 {
        self.members.get(&id).map_or(0, |m| m.allocation.bytes)
    }

    /// Returns the context whose save area it is.
    pub fn context(&self, id: AllocationId) -> Option<OsHandle> {
        self.members.get(&id)?.allocation.context
    }

    /// Returns the work that may still use it, recorded when it lost its last reference.
    pub fn last_use(&self, id: AllocationId) -> Option<&U> {
        self.members.get(&id)?.last_use.as_ref()
    }

    /// Returns all local allocations.
    pub fn all_local(&self) -> BTreeSet<AllocationId> {
        self.members.iter().filter(|(_, m)| m.local).map(|(id, _)| *id).collect()
    }

    /// Sets how late allocations are evicted, compared with others that may be.
    pub fn set_priority(&mut self, ids: &[AllocationId], priority: u32) {
        for id in ids {
            if let Some(member) = self.members.get_mut(id) {
                member.priority = priority;
            }
        }
    }

    /// Records that its bytes have entered or left the segment.
    pub fn set_local(&mut self, id: AllocationId, local: bool) {
        let Some(member) = self.members.get_mut(&id).filter(|m| m.local != local) else { return };
        member.local = local;
        match local {
            true => self.local += member.allocation.bytes,
            false => self.local -= member.allocation.bytes,
        }
        self.most_local = self.most_local.max(self.local);
    }

    // spec: RES-004
    /// Adds a reference to each of `ids` and commits them, all or none. An id that is listed twice
    /// gets two references.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if an id is unknown or the budget is exceeded; nothing changes then.
    pub fn make_resident(&mut self, ids: &[AllocationId]) -> Result<Moves, Refusal> {
        let wanted: BTreeSet<AllocationId> = ids.iter().copied().collect();
        if wanted.iter().any(|id| !self.members.contains_key(id)) {
            return Err(Refusal::Unknown);
        }
        let page_in: Vec<_> = wanted.iter().copied().filter(|id| !self.is_committed(*id)).collect();
        let incoming: u64 = page_in.iter().map(|id| self.bytes(*id)).sum();
        let over = (self.committed + incoming).saturating_sub(self.room());
        // Committed allocations need no room, even if fence storage has grown since.
        let over = if incoming == 0 { 0 } else { over };
        let (evict, missing) = self.victims(over, |id| wanted.contains(&id));
        if missing > 0 {
            return Err(Refusal::OverBudget { bytes: missing });
        }
        let moves = Moves { evict, page_in };
        self.commit(&moves);
        for id in ids {
            if let Some(member) = self.members.get_mut(id) {
                member.references = member.references.saturating_add(1);
            }
        }
        Ok(moves)
    }

    /// Whether these allocations could be resident together after all possible evictions.
    pub fn can_hold(&self, ids: &[AllocationId]) -> bool {
        let stays = |(id, m): &(&AllocationId, &Member<U>)| m.is_held() || ids.contains(id);
        let bytes: u64 = self.members.iter().filter(stays).map(|(_, m)| m.allocation.bytes).sum();
        bytes <= self.room()
    }

    /// Commits an allocation without a reference, if it fits without an eviction.
    pub fn commit_if_room(&mut self, id: AllocationId) -> bool {
        let fits = self.members.contains_key(&id)
            && !self.is_committed(id)
            && self.committed + self.bytes(id) <= self.room();
        if fits {
            self.set_committed(id, true);
        }
        fits
    }

    /// Removes one reference. `last_use` is recorded if it was the last one. Returns the number of
    /// remaining references, or `None` if there was none.
    pub fn release(&mut self, id: AllocationId, last_use: Option<&U>) -> Option<u32> {
        let used = self.tick();
        let member = self.members.get_mut(&id)?;
        member.references = member.references.checked_sub(1)?;
        member.used = used;
        if member.references == 0 {
            member.last_use = last_use.cloned();
        }
        Some(member.references)
    }

    /// Pins an allocation for a kernel object. Returns `false` if it has no reference.
    pub fn pin(&mut self, id: AllocationId) -> bool {
        match self.members.get_mut(&id) {
            Some(member) if member.references > 0 => {
                member.pins += 1;
                true
            }
            _ => false,
        }
    }

    /// Removes a pin.
    pub fn unpin(&mut self, id: AllocationId) {
        if let Some(member) = self.members.get_mut(&id) {
            member.pins = member.pins.saturating_sub(1);
        }
    }

    /// Cancels the eviction of an allocation.
    pub fn keep_in(&mut self, id: AllocationId) {
        self.set_committed(id, true);
    }

    /// Cancels the page-in of an allocation, which stays in system memory for now.
    pub fn keep_out(&mut self, id: AllocationId) {
        self.set_committed(id, false);
    }

    /// Evicts until at most `keep_bytes` are committed, or only held allocations are left.
    pub fn trim(&mut self, keep_bytes: u64) -> Moves {
        let (evict, _) = self.victims(self.committed.saturating_sub(keep_bytes), |_| false);
        let moves = Moves { evict, page_in: Vec::new() };
        self.commit(&moves);
        moves
    }

    /// Evicts everything before power is lost. References and pins are kept for
    /// [`Commitment::restore`].
    pub fn evict_all(&mut self) -> Vec<AllocationId> {
        let evict = self.members.iter().filter(|(_, m)| m.committed).map(|(id, _)| *id).collect();
        let moves = Moves { evict, page_in: Vec::new() };
        self.commit(&moves);
        moves.evict
    }

    /// Commits the evicted allocations that are held or still in use.
    pub fn restore(&mut self, ids: &[AllocationId]) -> Vec<AllocationId> {
        let returns = |id: &AllocationId| {
            let member = self.members.get(id);
            member.is_some_and(|m| !m.committed && (m.is_held() || !m.is_idle()))
        };
        let page_in = ids.iter().copied().filter(returns).collect();
        let moves = Moves { evict: Vec::new(), page_in };
        self.commit(&moves);
        moves.page_in
    }

    // spec: RES-014
    /// Returns the joint budget and usage of these owners in bytes. The budget is the room minus
    /// what others hold; the usage is what they have committed.
    pub fn budget_of(&self, owners: &[OsHandle]) -> (u64, u64) {
        let (mut held_by_others, mut usage) = (0, 0);
        for member in self.members.values().filter(|m| m.committed) {
            let Allocation { owner, bytes, .. } = member.allocation;
            match owners.contains(&owner) {
                true => usage += bytes,
                false if member.is_held() => held_by_others += bytes,
                false => {}
            }
        }
        (self.room().saturating_sub(held_by_others), usage)
    }

    /// Returns the allocations to evict to free `over` bytes, and the bytes that cannot be freed.
    fn victims(
        &self,
        mut over: u64,
        stays: impl Fn(AllocationId) -> bool,
    ) -> (Vec<AllocationId>, u64) {
        let mut candidates: Vec<(bool, u32, u64, AllocationId)> = match over {
            0 => Vec::new(),
            _ => {
                let may_leave = |(id, m): &(&AllocationId, &Member<U>)| {
                    m.committed && !m.is_held() && !stays(**id)
                };
                let all = self.members.iter().filter(may_leave);
                all.map(|(id, m)| (!m.is_idle(), m.priority, m.used, *id)).collect()
            }
        };
        candidates.sort_unstable();
        let mut victims = Vec::new();
        for (.., id) in candidates {
            if over == 0 {
                break;
            }
            over = over.saturating_sub(self.bytes(id));
            victims.push(id);
        }
        (victims, over)
    }

    fn commit(&mut self, moves: &Moves) {
        moves.evict.iter().for_each(|id| self.set_committed(*id, false));
        moves.page_in.iter().for_each(|id| self.set_committed(*id, true));
    }

    fn set_committed(&mut self, id: AllocationId, committed: bool) {
        let Some(member) = self.members.get_mut(&id) else { return };
        if std::mem::replace(&mut member.committed, committed) != committed {
            match committed {
                true => self.committed += member.allocation.bytes,
                false => self.committed -= member.allocation.bytes,
            }
        }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    /// Work whose completion the test controls.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Work(Rc<Cell<bool>>);

    impl Work {
        pub(crate) fn complete(&self) {
            self.0.set(true);
        }
    }

    impl LastUse for Work {
        fn is_complete(&self) -> bool {
            self.0.get()
        }
    }

    pub(crate) fn id(number: u64) -> AllocationId {
        AllocationId(number)
    }

    pub(crate) fn ids<const N: usize>(numbers: [u64; N]) -> Vec<AllocationId> {
        numbers.map(AllocationId).to_vec()
    }

    pub(crate) fn moves<const O: usize, const I: usize>(
        evict: [u64; O],
        page_in: [u64; I],
    ) -> Moves {
        Moves { evict: ids(evict), page_in: ids(page_in) }
    }

    /// Creates allocations 0, 1, 2, ... of these sizes. Device 0 owns even ones, 1 odd ones.
    fn segment(capacity: u64, bytes: &[u64]) -> Commitment<Work> {
        let mut segment = Commitment::new(capacity);
        for (number, bytes) in (0..).zip(bytes) {
            let owner = OsHandle(number % 2);
            segment.add(Allocation { id: id(number), owner, bytes: *bytes, context: None });
        }
        segment
    }

    impl Commitment<Work> {
        fn resident(&mut self, number: u64) -> Result<Moves, Refusal> {
            self.make_resident(&[id(number)])
        }

        fn released(&mut self, number: u64) -> Option<u32> {
            self.release(id(number), None)
        }
    }

    #[test]
    fn the_least_recently_used_without_references_is_evicted_first() {
        let mut s = segment(30, &[10, 10, 10, 10]);
        assert_eq!(s.resident(0), Ok(moves([], [0])));
        assert_eq!(s.resident(1), Ok(moves([], [1])));
        assert_eq!(s.resident(2), Ok(moves([], [2])));
        assert_eq!((s.released(1), s.released(0)), (Some(0), Some(0)));
        assert_eq!(s.resident(3), Ok(moves([1], [3])));
        assert_eq!(
            (s.is_committed(id(0)), s.is_committed(id(1)), s.committed()),
            (true, false, 30)
        );
        assert_eq!(s.resident(0), Ok(Moves::default()), "it has not been evicted");
    }

    #[test]
    fn a_lower_priority_is_evicted_first_and_a_busy_allocation_last() {
        let mut s = segment(40, &[10, 10, 10, 10, 10, 30]);
        for number in [0, 1, 2, 3] {
            s.resident(number).unwrap();
        }
        s.release(id(0), Some(&Work::default()));
        for number in [1, 2, 3] {
            s.released(number);
        }
        s.set_priority(&ids([0, 3]), NORMAL_PRIORITY - 1);
        s.set_priority(&ids([1]), NORMAL_PRIORITY + 1);
        assert_eq!(s.resident(4), Ok(moves([3], [4])), "lower, although used last");
        s.released(4);
        assert_eq!(s.resident(5), Ok(moves([2, 4, 1], [5])), "the busy one stays");
    }

    #[test]
    fn a_save_area_is_committed_only_without_an_eviction() {
        let mut s = segment(20, &[10, 10, 10]);
        assert!(s.commit_if_room(id(0)) && s.commit_if_room(id(1)));
        assert!(!s.commit_if_room(id(2)), "full");
        assert!(!s.commit_if_room(id(0)), "already committed");
        assert!(!s.commit_if_room(id(9)), "unknown");
        assert_eq!((s.committed(), s.references(id(0))), (20, 0));
        assert_eq!(s.resident(2), Ok(moves([0], [2])), "it has no reference either");
    }

    #[test]
    fn busy_allocations_are_evicted_after_idle_ones() {
        let mut s = segment(20, &[10, 10, 10, 10]);
        let work = Work::default();
        s.make_resident(&ids([0, 1])).unwrap();
        assert_eq!((s.release(id(0), Some(&work)), s.released(1)), (Some(0), Some(0)));
        assert_eq!(s.resident(2), Ok(moves([1], [2])), "0 is older and in use");
        s.released(2);
        work.complete();
        assert_eq!(s.resident(3), Ok(moves([0], [3])), "0 is older and idle");
    }

    #[test]
    fn a_save_area_is_evicted_after_idle_allocations() {
        let mut s = segment(20, &[10, 10, 10]);
        let area =
            Allocation { id: id(7), owner: OsHandle(0), bytes: 10, context: Some(OsHandle(70)) };
        s.add(area);
        assert!(s.commit_if_room(id(7)));
        s.resident(0).unwrap();
        s.released(0);
        assert_eq!(s.resident(1), Ok(moves([0], [1])));
        assert_eq!(s.resident(2), Ok(moves([7], [2])), "a reference displaces it");
        assert_eq!((s.context(id(7)), s.context(id(1))), (Some(OsHandle(70)), None));
    }

    #[test]
    fn the_last_use_counts_from_the_last_reference() {
        let mut s = segment(20, &[10, 10, 10]);
        let (first, last) = (Work::default(), Work::default());
        s.make_resident(&ids([0, 0])).unwrap();
        assert_eq!(s.release(id(0), Some(&first)), Some(1));
        assert!(s.last_use(id(0)).is_none());
        assert_eq!(s.release(id(0), Some(&last)), Some(0));
        first.complete();
        assert!(!s.is_idle(id(0)));
        last.complete();
        assert!(s.is_idle(id(0)));
    }

    // spec: RES-004
    #[test]
    fn an_over_budget_refusal_states_the_bytes_to_trim() {
        let mut s = segment(30, &[10, 10, 10, 15]);
        s.make_resident(&ids([0, 1])).unwrap();
        assert_eq!(s.make_resident(&ids([2, 3])), Err(Refusal::OverBudget { bytes: 15 }));
        assert_eq!((s.references(id(2)), s.is_committed(id(2)), s.committed()), (0, false, 20));
        assert_eq!(s.make_resident(&ids([2, 9])), Err(Refusal::Unknown));
        assert_eq!((s.released(2), s.released(9)), (None, None));
        s.set_fence_bytes(15);
        assert_eq!(s.resident(2), Err(Refusal::OverBudget { bytes: 15 }));
        assert_eq!(s.resident(0), Ok(Moves::default()), "a committed allocation needs no room");
    }

    #[test]
    fn fence_storage_reduces_the_room_to_zero() {
        let mut s = segment(30, &[10, 10]);
        s.make_resident(&ids([0, 1])).unwrap();
        s.released(0);
        s.set_fence_bytes(20);
        assert!(s.is_over_budget() && s.room() == 10);
        assert_eq!(s.trim(s.room()), moves([0], []));
        assert!(!s.is_over_budget());
        s.set_fence_bytes(50);
        assert_eq!((s.room(), s.trim(0)), (0, Moves::default()), "1 has a reference");
        assert!(s.is_over_budget());
    }

    #[test]
    fn can_hold_counts_held_allocations() {
        let mut s = segment(30, &[10, 10, 10, 10]);
        assert!(s.can_hold(&ids([0, 1, 2])) && !s.can_hold(&ids([0, 1, 2, 3])));
        s.resident(3).unwrap();
        assert!(s.can_hold(&ids([0, 1])) && !s.can_hold(&ids([0, 1, 2])));
        s.released(3);
        assert!(s.can_hold(&ids([0, 1, 2])) && s.can_hold(&[]));
    }

    #[test]
    fn a_cancelled_eviction_cancels_a_page_in() {
        let mut s = segment(20, &[10, 10, 15]);
        s.make_resident(&ids([0, 1])).unwrap();
        assert_eq!((s.released(0), s.released(1)), (Some(0), Some(0)));
        assert_eq!(s.resident(2), Ok(moves([0, 1], [2])));
        s.keep_in(id(1));
        s.keep_in(id(1));
        assert!(s.is_over_budget() && s.committed() == 25);
        s.keep_out(id(2));
        s.keep_out(id(2));
        assert!(!s.is_over_budget() && s.committed() == 10);
        assert_eq!(s.resident(2), Ok(moves([1], [2])), "the next request pages it in");
    }

    #[test]
    fn a_pinned_allocation_stays_when_its_process_evicts_it() {
        let mut s = segment(20, &[10, 10, 10]);
        assert!(!s.pin(id(0)), "it has no reference");
        s.make_resident(&ids([0, 1])).unwrap();
        assert!(s.pin(id(0)) && s.is_shared(id(0)) && !s.is_shared(id(1)));
        assert_eq!((s.released(0), s.released(0), s.released(1)), (Some(0), None, Some(0)));
        assert_eq!(s.resident(2), Ok(moves([1], [2])));
        assert_eq!(s.evict_all(), ids([0, 2]), "a loss of power evicts pinned allocations too");
        assert_eq!(s.restore(&ids([0, 2])), ids([0, 2]));
        s.unpin(id(0));
        s.unpin(id(0));
        assert_eq!(s.trim(0), moves([0], []));
    }

    #[test]
    fn power_evicts_everything_and_restores_what_is_held_or_used() {
        let mut s = segment(50, &[10, 10, 10, 10, 10]);
        let work = Work::default();
        s.make_resident(&ids([0, 1, 2, 3])).unwrap();
        assert_eq!((s.released(1), s.release(id(2), Some(&work))), (Some(0), Some(0)));
        assert_eq!(s.evict_all(), ids([0, 1, 2, 3]));
        assert_eq!(s.committed(), 0);
        s.remove(id(3));
        assert_eq!(s.restore(&ids([0, 1, 2, 3])), ids([0, 2]), "queued work uses 2");
        assert_eq!((s.committed(), s.references(id(0))), (20, 1));
    }

    // spec: RES-014
    #[test]
    fn a_budget_is_the_room_minus_the_holdings_of_others() {
        let mut s = segment(40, &[10, 10, 10]);
        s.make_resident(&ids([0, 1])).unwrap();
        assert_eq!(s.budget_of(&[OsHandle(0)]), (30, 10));
        s.released(1);
        assert_eq!(s.budget_of(&[OsHandle(0)]), (40, 10), "1 can be evicted");
        assert_eq!(s.budget_of(&[OsHandle(1)]), (30, 10));
        assert_eq!(s.budget_of(&[OsHandle(0), OsHandle(1)]), (40, 20));
        s.set_fence_bytes(25);
        assert_eq!(s.budget_of(&[OsHandle(1)]), (5, 10), "usage may be above the budget");
    }

    #[test]
    fn local_bytes_follow_the_moves_and_their_peak_is_kept() {
        let mut s = segment(40, &[10, 20]);
        s.make_resident(&ids([0, 1])).unwrap();
        assert_eq!((s.local(), s.committed()), (0, 30));
        s.set_local(id(1), true);
        s.set_local(id(1), true);
        s.set_local(id(0), true);
        assert_eq!((s.local(), s.all_local()), (30, BTreeSet::from([id(0), id(1)])));
        s.set_local(id(0), false);
        assert!(s.remove(id(1)) && !s.remove(id(1)));
        assert_eq!((s.local(), s.committed(), s.most_local()), (0, 10, 30));
    }

    /// For any sequence of calls, the committed bytes fit, referenced allocations are committed,
    /// and a refusal changes nothing.
    #[test]
    fn any_sequence_stays_within_the_room_and_keeps_references() {
        let mut seed = 0x9E37_79B9_7F4A_7C15u64;
        let mut random = move |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        for _ in 0..200 {
            let sizes: Vec<u64> = (0..8).map(|_| 1 + random(20)).collect();
            let mut s = segment(40, &sizes);
            let mut references = [0u32; 8];
            for _ in 0..100 {
                match random(5) {
                    0..=2 => {
                        let wanted: Vec<u64> = (0..=random(3)).map(|_| random(8)).collect();
                        let wanted_ids: Vec<_> = wanted.iter().copied().map(id).collect();
                        let before = s.committed();
                        match s.make_resident(&wanted_ids) {
                            Ok(done) => {
                                wanted.iter().for_each(|n| references[*n as usize] += 1);
                                let held = |a: &AllocationId| references[a.0 as usize] > 0;
                                assert!(!done.evict.iter().any(held));
                                assert!(done.page_in.iter().all(|a| wanted_ids.contains(a)));
                            }
                            Err(Refusal::OverBudget { bytes }) => {
                                let of = |held: bool| {
                                    let ours = (0..8u64).filter(|n| {
                                        (references[*n as usize] > 0) == held
                                            && (held || wanted.contains(n))
                                    });
                                    ours.map(|n| sizes[n as usize]).sum::<u64>()
                                };
                                assert_eq!(
                                    of(true) + of(false),
                                    40 + bytes,
                                    "a smaller trim is not enough"
                                );
                                assert_eq!(s.committed(), before);
                            }
                            Err(Refusal::Unknown) => unreachable!(),
                        }
                    }
                    3 => {
                        let key = random(8);
                        let work = Work::default();
                        (random(2) == 0).then(|| work.complete());
                        let count = &mut references[key as usize];
                        assert_eq!(s.release(id(key), Some(&work)).is_some(), *count > 0);
                        *count = count.saturating_sub(1);
                    }
                    _ => {
                        let trimmed = s.trim(random(40));
                        assert!(trimmed.evict.iter().all(|a| references[a.0 as usize] == 0));
                    }
                }
                let sum: u64 =
                    (0..8).filter(|n| s.is_committed(id(*n))).map(|n| sizes[n as usize]).sum();
                assert_eq!(sum, s.committed());
                assert!(sum <= 40);
                for n in 0..8 {
                    assert_eq!(references[n as usize], s.references(id(n)));
                    assert!(references[n as usize] == 0 || s.is_committed(id(n)));
                }
            }
        }
    }
}
