//! Owns the order of paging operations: which of those that were decided is carried out next. Pure.
//!
//! An operation may be carried out when
//! 1. no earlier one names a member that it names: a member comes and goes in the order of the
//!    decisions about it;
//! 2. no earlier one is of the same paging queue: the value of a paging fence says that all before
//!    it are done;
//! 3. no engine uses a member that it sends out;
//! 4. there is room: an earlier one may have to send members out before.
//!
//! An operation that waits for 3 for too long gives the room up: see `segment`. Later operations
//! were decided with that room, so what they bring may not fit any more. What does not fit stays
//! outside ([`PagingOrder::keep_outside`], [`Operation::keep_outside`]), so the segment never holds
//! more than fits.
//!
//! Of those that may, the one of the paging queue with the highest priority is next, then the
//! oldest. The oldest of all is never held by 1 or 2. When nothing else can run and it lacks room,
//! it runs with what fits, so there is always one that only waits for engines.

use super::residency::Plan;
use std::collections::VecDeque;
use tidegate_calls::PagingPriority;

/// One operation: what leaves, then what comes, then what is said.
#[derive(Debug)]
pub(crate) struct Operation<K, S> {
    /// The paging queue; `None` for the kernel's own, which say nothing.
    pub(crate) queue: Option<u64>,
    pub(crate) priority: PagingPriority,
    pub(crate) plan: Plan<K>,
    /// Who is resident without coming in: engines reach it where it stands.
    pub(crate) outside: Vec<K>,
    /// What is said when it is done.
    pub(crate) says: S,
}

/// What to do next.
#[derive(Debug)]
pub(crate) enum Next<K, S> {
    /// Carry this out, then ask again.
    Run(Operation<K, S>),
    /// Wait until one of these is not in use any more, or a new operation comes.
    Await(Vec<K>),
    /// There is nothing.
    Idle,
}

/// The segment as it is at this moment, while operations are under way.
pub(crate) struct Present<I, B, G> {
    /// How much it holds.
    pub(crate) room: u64,
    /// How much of that is in use.
    pub(crate) occupied: u64,
    /// Whether no engine uses a member any more, as far as that mattered when the operation was
    /// decided.
    pub(crate) is_idle: I,
    /// Bytes that come when a member is brought in; 0 for one that is in.
    pub(crate) bytes_in: B,
    /// Bytes that go when a member is sent out; 0 for one that is out.
    pub(crate) bytes_out: G,
}

/// The operations that were decided and are not carried out.
#[derive(Debug)]
pub(crate) struct PagingOrder<K, S> {
    operations: VecDeque<Operation<K, S>>,
}

impl<K: Copy + Ord, S> PagingOrder<K, S> {
    pub(crate) fn new() -> PagingOrder<K, S> {
        PagingOrder { operations: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, operation: Operation<K, S>) {
        self.operations.push_back(operation);
    }

    /// A member is gone: operations do nothing about it any more.
    pub(crate) fn forget(&mut self, key: K) {
        for operation in &mut self.operations {
            operation.plan.out.retain(|k| *k != key);
            operation.plan.bring.retain(|k| *k != key);
        }
    }

    /// Whether an operation that is not carried out yet concerns this member.
    pub(crate) fn names(&self, key: K) -> bool {
        self.operations.iter().any(|o| o.names(key))
    }

    /// Whether all that was decided was begun.
    pub(crate) fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Members that are to leave by operations that are not carried out yet.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = K> {
        self.operations.iter().flat_map(|o| o.plan.out.iter().copied())
    }

    /// A member that is out stays out, and is resident where it stands: no operation brings it in
    /// any more.
    pub(crate) fn keep_outside(&mut self, key: K) {
        self.operations.iter_mut().for_each(|operation| _ = operation.keep_outside(key));
    }

    /// Members that operations which are not carried out yet are to bring, those of the newest
    /// operation first.
    pub(crate) fn coming(&self) -> impl Iterator<Item = K> {
        self.operations.iter().rev().flat_map(|o| o.plan.bring.iter().rev().copied())
    }

    /// What is next; [`Next::Run`] takes it out. The oldest may be given out without room for all
    /// that it brings.
    pub(crate) fn next<I, B, G>(&mut self, present: &Present<I, B, G>) -> Next<K, S>
    where
        I: Fn(&S, K) -> bool,
        B: Fn(K) -> u64,
        G: Fn(K) -> u64,
    {
        let mut best: Option<(usize, PagingPriority)> = None;
        let mut awaited = Vec::new();
        let mut oldest_lacks_room = false;
        for (index, operation) in self.operations.iter().enumerate() {
            let mut earlier = self.operations.iter().take(index);
            if earlier.any(|o| o.goes_before(operation)) {
                continue;
            }
            let Plan { out, bring } = &operation.plan;
            let comes: u64 = bring.iter().map(|key| (present.bytes_in)(*key)).sum();
            let goes: u64 = out.iter().map(|key| (present.bytes_out)(*key)).sum();
            let fits = (present.occupied + comes).saturating_sub(goes) <= present.room;
            if index > 0 && !fits {
                continue;
            }
            let in_use = operation.in_use(&present.is_idle);
            if !in_use.is_empty() {
                awaited.extend(in_use);
            } else if !fits {
                oldest_lacks_room = true;
            } else if best.is_none_or(|(_, priority)| operation.priority > priority) {
                best = Some((index, operation.priority));
            }
        }
        match best.and_then(|(index, _)| self.operations.remove(index)) {
            Some(operation) => Next::Run(operation),
            None if self.operations.is_empty() => Next::Idle,
            None if oldest_lacks_room && awaited.is_empty() => {
                self.operations.pop_front().map_or(Next::Idle, Next::Run)
            }
            None => Next::Await(awaited),
        }
    }

    /// Takes the oldest operation out although somebody whom it sends out is in use: it has waited
    /// long enough, and the caller makes do without them.
    pub(crate) fn take_oldest(&mut self) -> Option<Operation<K, S>> {
        self.operations.pop_front()
    }
}

impl<K: Copy + Ord, S> Operation<K, S> {
    /// A member is not brought in, and is resident where it stands. Says whether it was to come.
    pub(crate) fn keep_outside(&mut self, key: K) -> bool {
        let before = self.plan.bring.len();
        self.plan.bring.retain(|k| *k != key);
        let came = self.plan.bring.len() < before;
        self.outside.extend(came.then_some(key));
        came
    }

    fn in_use(&self, is_idle: impl Fn(&S, K) -> bool) -> Vec<K> {
        let waits_for = |key: &&K| !is_idle(&self.says, **key);
        self.plan.out.iter().filter(waits_for).copied().collect()
    }

    fn names(&self, key: K) -> bool {
        self.plan.out.contains(&key) || self.plan.bring.contains(&key)
    }

    /// Whether this one, which is older, holds `later`.
    fn goes_before(&self, later: &Operation<K, S>) -> bool {
        let same_queue = self.queue.is_some() && self.queue == later.queue;
        same_queue || self.plan.out.iter().chain(&self.plan.bring).any(|key| later.names(*key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use PagingPriority::{AboveNormal, Normal};
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    /// Operations on members of 10 bytes each, and who is in.
    struct Order {
        order: PagingOrder<u32, &'static str>,
        inside: RefCell<BTreeSet<u32>>,
        room: u64,
    }

    impl Order {
        fn new(room: u64, inside: &[u32]) -> Order {
            let inside = RefCell::new(inside.iter().copied().collect());
            Order { order: PagingOrder::new(), inside, room }
        }

        fn push(
            &mut self,
            queue: u64,
            priority: PagingPriority,
            out: &[u32],
            bring: &[u32],
            says: &'static str,
        ) {
            let plan = Plan { out: out.to_vec(), bring: bring.to_vec() };
            let queue = Some(queue);
            self.order.push(Operation { queue, priority, plan, outside: Vec::new(), says });
        }

        fn next(&mut self, busy: &[u32]) -> Result<&'static str, Vec<u32>> {
            let inside = &self.inside;
            let present = Present {
                room: self.room,
                occupied: inside.borrow().len() as u64 * 10,
                is_idle: |_: &&'static str, key: u32| !busy.contains(&key),
                bytes_in: |key| if inside.borrow().contains(&key) { 0 } else { 10 },
                bytes_out: |key| if inside.borrow().contains(&key) { 10 } else { 0 },
            };
            let next = self.order.next(&present);
            match next {
                Next::Run(operation) => {
                    let mut inside = inside.borrow_mut();
                    operation.plan.out.iter().for_each(|key| _ = inside.remove(key));
                    inside.extend(operation.plan.bring);
                    assert!(inside.len() as u64 * 10 <= self.room, "more is in than fits");
                    Ok(operation.says)
                }
                Next::Await(keys) => Err(keys),
                Next::Idle => Ok("idle"),
            }
        }
    }

    #[test]
    fn urgent_ones_pass_those_that_they_have_nothing_to_do_with() {
        let mut order = Order::new(100, &[]);
        order.push(1, Normal, &[], &[1], "slow");
        order.push(2, AboveNormal, &[], &[2], "urgent");
        order.push(1, AboveNormal, &[], &[3], "same queue");
        order.push(3, AboveNormal, &[1], &[], "same member");
        let ran: Vec<_> = (0..5).map(|_| order.next(&[]).unwrap()).collect();
        assert_eq!(ran, ["urgent", "slow", "same queue", "same member", "idle"]);
    }

    #[test]
    fn whoever_is_in_use_is_waited_for_and_others_go_on() {
        let mut order = Order::new(20, &[1]);
        order.push(1, Normal, &[1], &[2], "swap");
        order.push(2, Normal, &[], &[3], "add");
        assert_eq!(order.next(&[1]), Ok("add"));
        assert_eq!(order.next(&[1]), Err(vec![1]));
        assert_eq!((order.next(&[]), order.next(&[])), (Ok("swap"), Ok("idle")));
    }

    #[test]
    fn nobody_comes_before_there_is_room() {
        let mut order = Order::new(20, &[1, 2]);
        order.push(1, Normal, &[1, 2], &[3], "makes room");
        order.push(2, AboveNormal, &[], &[4], "uses it");
        assert_eq!(order.next(&[2]), Err(vec![2]), "the urgent one would be one too many");
        assert_eq!((order.next(&[]), order.next(&[])), (Ok("makes room"), Ok("uses it")));
    }

    #[test]
    fn the_oldest_runs_without_room_only_when_nothing_else_can_make_it_some() {
        // 2 stayed, although it had been decided that it leaves.
        let mut order = Order::new(20, &[1, 2]);
        order.push(1, Normal, &[], &[3], "promised");
        order.push(2, Normal, &[1], &[], "makes room");
        assert_eq!(order.next(&[1]), Err(vec![1]));
        assert_eq!((order.next(&[]), order.next(&[])), (Ok("makes room"), Ok("promised")));
        order.push(1, Normal, &[], &[4], "promised too");
        assert_eq!(order.order.coming().collect::<Vec<_>>(), [4]);
        order.order.keep_outside(4);
        assert_eq!((order.order.coming().count(), order.next(&[])), (0, Ok("promised too")));
        assert_eq!(order.inside.borrow().len(), 2);
    }

    #[test]
    fn a_member_that_is_gone_is_left_out() {
        let mut order = Order::new(10, &[]);
        order.push(1, Normal, &[1], &[2], "swap");
        order.order.forget(1);
        assert!(!order.order.names(1) && order.order.names(2));
        assert_eq!((order.next(&[1]), order.next(&[])), (Ok("swap"), Ok("idle")));
    }

    /// Whatever is decided, all of it is carried out, and never is more in than fits.
    #[test]
    fn decisions_of_the_residency_policy_can_be_carried_out_in_every_order_that_is_allowed() {
        use super::super::residency::Residency;
        let mut seed = 88_172_645_463_325_252u64;
        let mut random = move |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        for _ in 0..300 {
            let (mut order, mut segment) = (Order::new(40, &[]), Residency::new(40));
            (0..8).for_each(|key| segment.add(key, 0, 10));
            let mut decided = 0;
            let mut done = 0;
            for _ in 0..40 {
                let key = random(8) as u32;
                if let Ok(plan) = segment.make_resident(&[key], |_| true) {
                    segment.release(key);
                    let priority = if random(2) == 0 { Normal } else { AboveNormal };
                    order.push(random(3), priority, &plan.out, &[key], "done");
                    decided += 1;
                }
                if random(3) == 0 {
                    done += usize::from(order.next(&[random(8) as u32]) == Ok("done"));
                }
            }
            while order.next(&[]) == Ok("done") {
                done += 1;
            }
            assert_eq!(done, decided);
            let inside: BTreeSet<u32> = (0..8).filter(|key| segment.is_in(*key)).collect();
            assert_eq!(*order.inside.borrow(), inside);
        }
    }
}
