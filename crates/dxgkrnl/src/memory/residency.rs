//! Owns the policy of one budgeted segment: who is resident there, who leaves when there is no
//! room, and what is refused. Pure: nothing is moved here; decisions are returned, and whoever
//! asked has them carried out in the order of decision.
//!
//! A member is *in* from the decision that brings it in to the decision that sends it out: what is
//! *committed* is what the segment holds once all decisions so far are carried out, and never
//! exceeds the capacity. A member that is held stays in: by references, of which each MakeResident
//! gives one and each Evict takes one, or by pins, which kernel objects have and no call of a
//! process takes. One that is not held stays in as well until its room is needed: the least
//! recently used leaves first, and before those that engines may still use, those that nobody uses
//! any more.
//!
//! `segment` calls in; `paging` puts what is decided here into order.

use std::collections::{BTreeMap, BTreeSet};

/// What the policy knows of a member.
#[derive(Clone, Copy, Debug)]
struct Member {
    owner: u64,
    bytes: u64,
    /// Of MakeResident.
    references: u32,
    /// Of kernel objects that need it where it is.
    pins: u32,
    resident: bool,
    /// When it was last given a reference or lost its last one.
    used: u64,
}

impl Member {
    fn is_held(&self) -> bool {
        self.references > 0 || self.pins > 0
    }
}

/// What must be done so that members are resident: the first leave before the others come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan<K> {
    pub(crate) out: Vec<K>,
    pub(crate) bring: Vec<K>,
}

impl<K> Plan<K> {
    pub(crate) fn is_empty(&self) -> bool {
        self.out.is_empty() && self.bring.is_empty()
    }
}

/// Why members cannot be resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// One of them is not a member.
    Unknown,
    /// There is no room, whoever without references leaves: so many bytes must lose their
    /// references first.
    Trim { bytes: u64 },
}

/// Who is in a segment. `K` names a member.
#[derive(Debug)]
pub(crate) struct Residency<K> {
    capacity: u64,
    /// Bytes that others than members hold (fence storage).
    taken: u64,
    committed: u64,
    clock: u64,
    members: BTreeMap<K, Member>,
}

impl<K: Copy + Ord> Residency<K> {
    pub(crate) fn new(capacity: u64) -> Residency<K> {
        Residency { capacity, taken: 0, committed: 0, clock: 0, members: BTreeMap::new() }
    }

    /// Bytes of the segment.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes of members that are in.
    pub(crate) fn committed(&self) -> u64 {
        self.committed
    }

    /// Bytes that members may have in all.
    pub(crate) fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.taken)
    }

    /// Others than members hold this much from now on; who must leave for it leaves by the next
    /// plan.
    pub(crate) fn set_taken(&mut self, bytes: u64) {
        self.taken = bytes;
    }

    /// Enters a member of `owner` that is out and has no references.
    pub(crate) fn add(&mut self, key: K, owner: u64, bytes: u64) {
        self.clock += 1;
        let member =
            Member { owner, bytes, references: 0, pins: 0, resident: false, used: self.clock };
        self.members.insert(key, member);
    }

    /// Forgets a member; its bytes are free.
    pub(crate) fn remove(&mut self, key: K) {
        if let Some(member) = self.members.remove(&key)
            && member.resident
        {
            self.committed -= member.bytes;
        }
    }

    pub(crate) fn references(&self, key: K) -> u32 {
        self.members.get(&key).map_or(0, |m| m.references)
    }

    /// Whether more than one reference or pin holds it.
    pub(crate) fn is_shared(&self, key: K) -> bool {
        self.members.get(&key).is_some_and(|m| m.references > 1 || m.pins > 0)
    }

    // spec: RES-004
    /// Gives each of `keys` a reference and plans what that needs; all or nothing. A key that
    /// stands there twice gets two references. `is_idle` says of a member without references that
    /// no engine uses it any more.
    pub(crate) fn make_resident(
        &mut self,
        keys: &[K],
        is_idle: impl Fn(K) -> bool,
    ) -> Result<Plan<K>, Refusal> {
        let wanted: BTreeSet<K> = keys.iter().copied().collect();
        if wanted.iter().any(|key| !self.members.contains_key(key)) {
            return Err(Refusal::Unknown);
        }
        let missing = |m: &Member| if m.resident { 0 } else { m.bytes };
        let incoming: u64 = wanted.iter().map(|key| missing(&self.members[key])).sum();
        let out = self.leavers(incoming, |key| wanted.contains(&key), is_idle)?;
        let bring = wanted.iter().copied().filter(|key| !self.members[key].resident).collect();
        let plan = Plan { out, bring };
        self.commit(&plan);
        self.clock += 1;
        for key in keys {
            if let Some(member) = self.members.get_mut(key) {
                member.references = member.references.saturating_add(1);
                member.used = self.clock;
            }
        }
        Ok(plan)
    }

    /// Whether these could be held together, whoever is not held leaves.
    pub(crate) fn can_hold(&self, keys: &[K]) -> bool {
        let counts = |(key, member): &(&K, &Member)| member.is_held() || keys.contains(key);
        self.members.iter().filter(counts).map(|(_, member)| member.bytes).sum::<u64>()
            <= self.room()
    }

    /// Lets a member in if there is room, without anybody leaving for it; it gets no reference.
    pub(crate) fn enter_if_room(&mut self, key: K) -> bool {
        let Some(member) = self.members.get(&key) else { return false };
        let fits = !member.resident && self.committed + member.bytes <= self.room();
        if fits {
            self.commit(&Plan { out: Vec::new(), bring: vec![key] });
        }
        fits
    }

    /// Takes one reference away; `None` when there is none to take, else how many are left. It is
    /// used last now: engines may have it in what was queued.
    pub(crate) fn release(&mut self, key: K) -> Option<u32> {
        self.clock += 1;
        let used = self.clock;
        let member = self.members.get_mut(&key)?;
        member.references = member.references.checked_sub(1)?;
        member.used = used;
        Some(member.references)
    }

    /// A kernel object needs the member; `false` when nobody asked for it to be resident.
    pub(crate) fn pin(&mut self, key: K) -> bool {
        match self.members.get_mut(&key) {
            Some(member) if member.references > 0 => {
                member.pins += 1;
                true
            }
            _ => false,
        }
    }

    /// The object is gone.
    pub(crate) fn unpin(&mut self, key: K) {
        if let Some(member) = self.members.get_mut(&key) {
            member.pins = member.pins.saturating_sub(1);
        }
    }

    /// A member that was to leave stays after all.
    pub(crate) fn stays(&mut self, key: K) {
        if let Some(member) = self.members.get_mut(&key)
            && !member.resident
        {
            member.resident = true;
            self.committed += member.bytes;
        }
    }

    /// A member that was to come in stays out; it may be brought in another time.
    pub(crate) fn stays_out(&mut self, key: K) {
        if let Some(member) = self.members.get_mut(&key)
            && member.resident
        {
            member.resident = false;
            self.committed -= member.bytes;
        }
    }

    /// Whether more is committed than there is room for.
    pub(crate) fn is_over(&self) -> bool {
        self.committed > self.room()
    }

    /// Who leaves so that at most `keep_bytes` are in; what is held stays.
    pub(crate) fn trim(&mut self, keep_bytes: u64, is_idle: impl Fn(K) -> bool) -> Plan<K> {
        let over = self.committed.saturating_sub(keep_bytes);
        let mut out = Vec::new();
        let mut gone = 0;
        for key in self.candidates(|_| false, is_idle) {
            if gone >= over {
                break;
            }
            gone += self.members[&key].bytes;
            out.push(key);
        }
        let plan = Plan { out, bring: Vec::new() };
        self.commit(&plan);
        plan
    }

    /// Everybody leaves, whatever references there are: power goes away. Returns who was in; their
    /// references stay.
    pub(crate) fn all_out(&mut self) -> Plan<K> {
        let out = self.members.iter().filter(|(_, m)| m.resident).map(|(key, _)| *key).collect();
        let plan = Plan { out, bring: Vec::new() };
        self.commit(&plan);
        plan
    }

    /// What these had in the segment is lost, and they with it: they are out.
    pub(crate) fn lose(&mut self, keys: &BTreeSet<K>) {
        let plan = Plan {
            out: keys.iter().copied().filter(|key| self.is_in(*key)).collect(),
            bring: Vec::new(),
        };
        self.commit(&plan);
    }

    /// Whether it is in once all decisions are carried out.
    pub(crate) fn is_in(&self, key: K) -> bool {
        self.members.get(&key).is_some_and(|m| m.resident)
    }

    /// Power is there again. Of those who were sent out for it, which were in together before,
    /// whoever is held or not idle comes back.
    pub(crate) fn back_in(&mut self, keys: &[K], is_idle: impl Fn(K) -> bool) -> Plan<K> {
        let returns = |key: &K| {
            let member = self.members.get(key);
            member.is_some_and(|m| !m.resident && (m.is_held() || !is_idle(*key)))
        };
        let bring = keys.iter().copied().filter(|key| returns(key)).collect();
        let plan = Plan { out: Vec::new(), bring };
        self.commit(&plan);
        plan
    }

    // spec: RES-014
    /// What these owners together may count on, and what they have in: the room less what others
    /// hold.
    pub(crate) fn budget_of(&self, owners: &[u64]) -> (u64, u64) {
        let resident = || self.members.values().filter(|m| m.resident);
        let held: u64 =
            resident().filter(|m| m.is_held() && !owners.contains(&m.owner)).map(|m| m.bytes).sum();
        let own = resident().filter(|m| owners.contains(&m.owner));
        (self.room().saturating_sub(held), own.map(|m| m.bytes).sum())
    }

    /// Who leaves so that `incoming` bytes fit.
    fn leavers(
        &self,
        incoming: u64,
        stays: impl Fn(K) -> bool,
        is_idle: impl Fn(K) -> bool,
    ) -> Result<Vec<K>, Refusal> {
        let mut over = (self.committed + incoming).saturating_sub(self.room());
        let mut out = Vec::new();
        if incoming == 0 {
            return Ok(out);
        }
        for key in self.candidates(stays, is_idle) {
            if over == 0 {
                break;
            }
            over = over.saturating_sub(self.members[&key].bytes);
            out.push(key);
        }
        if over > 0 { Err(Refusal::Trim { bytes: over }) } else { Ok(out) }
    }

    /// Who may leave, in the order in which they do: those that no engine uses before the others,
    /// and among them the least recently used first.
    fn candidates(&self, stays: impl Fn(K) -> bool, is_idle: impl Fn(K) -> bool) -> Vec<K> {
        let free =
            self.members.iter().filter(|(key, m)| m.resident && !m.is_held() && !stays(**key));
        let mut order: Vec<(bool, u64, K)> =
            free.map(|(key, m)| (!is_idle(*key), m.used, *key)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, _, key)| key).collect()
    }

    fn commit(&mut self, plan: &Plan<K>) {
        for (keys, resident) in [(&plan.out, false), (&plan.bring, true)] {
            for key in keys {
                let Some(member) = self.members.get_mut(key) else { continue };
                member.resident = resident;
                match resident {
                    true => self.committed += member.bytes,
                    false => self.committed -= member.bytes,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(capacity: u64, bytes: &[u64]) -> Residency<usize> {
        let mut segment = Residency::new(capacity);
        for (key, bytes) in bytes.iter().enumerate() {
            segment.add(key, key as u64 % 2, *bytes);
        }
        segment
    }

    fn idle(_: usize) -> bool {
        true
    }

    #[test]
    fn the_least_recently_used_without_references_leaves_first() {
        let mut s = segment(30, &[10, 10, 10, 10]);
        for key in [0, 1, 2] {
            assert_eq!(s.make_resident(&[key], idle), Ok(Plan { out: vec![], bring: vec![key] }));
        }
        assert_eq!((s.release(1), s.release(0)), (Some(0), Some(0)));
        assert_eq!(s.make_resident(&[3], idle), Ok(Plan { out: vec![1], bring: vec![3] }));
        assert_eq!((s.is_in(0), s.is_in(1), s.committed()), (true, false, 30));
        assert_eq!(s.make_resident(&[0], idle), Ok(Plan::default()), "it is still there");
    }

    #[test]
    fn who_enters_if_there_is_room_sends_nobody_out() {
        let mut s = segment(20, &[10, 10, 10]);
        assert!(s.enter_if_room(0) && s.enter_if_room(1));
        assert!(!s.enter_if_room(2) && !s.enter_if_room(0) && !s.enter_if_room(9));
        assert_eq!((s.committed(), s.references(0)), (20, 0));
        assert_eq!(
            s.make_resident(&[2], |key| key != 0).unwrap().out,
            [1],
            "it holds no place either"
        );
    }

    #[test]
    fn who_is_in_use_leaves_after_who_is_not() {
        let mut s = segment(20, &[10, 10, 10]);
        s.make_resident(&[0, 1], idle).unwrap();
        assert_eq!((s.release(0), s.release(1)), (Some(0), Some(0)));
        let plan = s.make_resident(&[2], |key| key != 0).unwrap();
        assert_eq!(plan.out, [1], "0 is older, and an engine may still use it");
    }

    // spec: RES-004
    #[test]
    fn too_much_at_once_says_how_much_and_changes_nothing() {
        let mut s = segment(30, &[10, 10, 10, 15]);
        s.make_resident(&[0, 1], idle).unwrap();
        assert_eq!(s.make_resident(&[2, 3], idle), Err(Refusal::Trim { bytes: 15 }));
        assert_eq!((s.references(2), s.is_in(2), s.committed()), (0, false, 20));
        assert_eq!(s.make_resident(&[9], idle), Err(Refusal::Unknown));
        assert_eq!((s.release(2), s.release(9)), (None, None));
        s.set_taken(15);
        assert_eq!(s.make_resident(&[2], idle), Err(Refusal::Trim { bytes: 15 }));
        assert_eq!(s.make_resident(&[0], idle), Ok(Plan::default()), "who is in needs no room");
    }

    #[test]
    fn what_is_in_use_may_stay_and_what_should_come_stays_out_then() {
        let mut s = segment(20, &[10, 10, 15]);
        s.make_resident(&[0, 1], idle).unwrap();
        assert_eq!((s.release(0), s.release(1)), (Some(0), Some(0)));
        assert_eq!(s.make_resident(&[2], idle).unwrap().out, [0, 1]);
        s.stays(1);
        s.stays(1);
        assert!(s.is_over() && s.committed() == 25);
        s.stays_out(2);
        s.stays_out(2);
        assert!(!s.is_over() && s.committed() == 10);
        assert_eq!(
            s.make_resident(&[2], idle),
            Ok(Plan { out: vec![1], bring: vec![2] }),
            "another time"
        );
    }

    #[test]
    fn a_pinned_member_stays_whatever_its_process_says() {
        let mut s = segment(20, &[10, 10, 10]);
        assert!(!s.pin(0), "nobody asked for it");
        s.make_resident(&[0, 1], idle).unwrap();
        assert!(s.pin(0));
        assert_eq!((s.release(0), s.release(0), s.release(1)), (Some(0), None, Some(0)));
        assert_eq!(s.make_resident(&[2], idle).unwrap().out, [1]);
        assert_eq!(s.all_out().out, [0, 2]);
        assert_eq!(s.back_in(&[0, 2], idle).bring, [0, 2]);
        s.unpin(0);
        assert_eq!(s.trim(0, idle).out, [0]);
    }

    #[test]
    fn power_takes_everybody_out_and_brings_back_who_is_needed() {
        let mut s = segment(40, &[10, 10, 10, 10]);
        s.make_resident(&[0, 1, 2, 3], idle).unwrap();
        (1..4).for_each(|key| _ = s.release(key));
        assert_eq!(s.all_out().out, [0, 1, 2, 3]);
        assert_eq!(s.committed(), 0);
        s.remove(3);
        assert_eq!(
            s.back_in(&[0, 1, 2, 3], |key| key != 2).bring,
            [0, 2],
            "2 is in use by what was queued"
        );
        assert_eq!(s.committed(), 20);
    }

    // spec: RES-014
    #[test]
    fn a_budget_is_what_others_do_not_hold() {
        let mut s = segment(40, &[10, 10, 10]);
        s.make_resident(&[0, 1], idle).unwrap();
        assert_eq!(s.budget_of(&[0]), (30, 10));
        s.release(1);
        assert_eq!(s.budget_of(&[0]), (40, 10), "what has no references leaves when it must");
        assert_eq!(s.budget_of(&[1]), (30, 10));
    }

    /// Any sequence of calls: never more in than fits, what has references is in, a refusal changes
    /// nothing.
    #[test]
    fn whatever_is_asked_the_segment_holds_what_fits_and_what_is_referenced() {
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
                let key = random(8) as usize;
                let busy = random(8) as usize;
                match random(5) {
                    0..=2 => {
                        let keys: Vec<usize> =
                            (0..=random(3)).map(|_| random(8) as usize).collect();
                        let before = s.committed();
                        match s.make_resident(&keys, |key| key != busy) {
                            Ok(plan) => {
                                keys.iter().for_each(|key| references[*key] += 1);
                                assert!(plan.out.iter().all(|key| references[*key] == 0));
                                assert!(plan.bring.iter().all(|key| keys.contains(key)));
                            }
                            Err(Refusal::Trim { bytes }) => {
                                let held: u64 =
                                    (0..8).filter(|k| references[*k] > 0).map(|k| sizes[k]).sum();
                                let new: BTreeSet<usize> =
                                    keys.iter().copied().filter(|k| references[*k] == 0).collect();
                                let asked: u64 = new.iter().map(|k| sizes[*k]).sum();
                                assert_eq!(
                                    held + asked,
                                    40 + bytes,
                                    "refused for no less than it says"
                                );
                                assert_eq!(s.committed(), before);
                            }
                            Err(Refusal::Unknown) => unreachable!(),
                        }
                    }
                    3 => {
                        let left = s.release(key);
                        assert_eq!(left.is_some(), references[key] > 0);
                        references[key] = references[key].saturating_sub(1);
                    }
                    _ => {
                        let plan = s.trim(random(40), |key| key != busy);
                        assert!(plan.out.iter().all(|key| references[*key] == 0));
                    }
                }
                let resident: u64 = (0..8).filter(|k| s.is_in(*k)).map(|k| sizes[k]).sum();
                assert_eq!(resident, s.committed());
                assert!(resident <= 40);
                assert!((0..8).all(|k| references[k] == 0 || s.is_in(k)));
                assert!((0..8).all(|k| references[k] == s.references(k)));
            }
        }
    }
}
