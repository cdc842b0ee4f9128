//! Owns who waits for what on one fence: pure policy, ordered by value.
//!
//! MonitoredValue is the smallest value that somebody waits for, less one, or the maximum when
//! nobody waits. A wait for 0 is never entered (it is satisfied), so the subtraction cannot
//! underflow; a wait for the maximum is armed one below it, so it is not mistaken for nobody.
//!
//! A waiter has the epoch of its call (see `fence_cell`): a value that the fence had before does
//! not satisfy it, one that it had since does, also when it has fallen again.

use std::collections::BTreeMap;
use tidegate_d3dukmdt::FenceWait;
use tidegate_d3dukmdt::fence_cell::Look;
use tidegate_ddi::OsHandle;

/// MonitoredValue when nobody waits.
pub(crate) const NOBODY_WAITS: u64 = u64::MAX;

/// Names one registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WaiterId {
    value: u64,
    number: u64,
}

/// What a wait goes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A CPU wait: the instance by which it was asked.
    Instance(OsHandle),
    /// A queued wait: its context or hardware queue.
    Queue(OsHandle),
    /// The kernel's own: the fence.
    Kernel,
}

struct Waiter<W> {
    who: W,
    ticket: u64,
    epoch: u64,
    owner: Owner,
}

/// Waiters of one fence, each with a ticket that means something to it.
// spec: NF-019
pub(crate) struct WaiterSet<W> {
    by_value: BTreeMap<WaiterId, Waiter<W>>,
    /// The instances by which it may be waited for.
    open: Vec<OsHandle>,
    /// No waiter is of an earlier epoch.
    oldest_epoch: u64,
    registrations: u64,
    published: u64,
    /// The fence is being destroyed: nobody enters any more, and nothing is published.
    closed: bool,
    /// What is published stays as it is, whoever waits.
    pinned: bool,
}

impl<W> WaiterSet<W> {
    /// Nobody waits, and `published` is what MonitoredValue holds.
    pub(crate) fn new(published: u64) -> WaiterSet<W> {
        WaiterSet {
            by_value: BTreeMap::new(),
            open: Vec::new(),
            oldest_epoch: 0,
            registrations: 0,
            published,
            closed: false,
            pinned: false,
        }
    }

    /// CPU waits may be entered by this instance from now on.
    pub(crate) fn open(&mut self, instance: OsHandle) {
        self.open.push(instance);
    }

    /// No CPU wait is entered by this instance any more; those that are there stay.
    pub(crate) fn shut(&mut self, instance: OsHandle) {
        self.open.retain(|open| *open != instance);
    }

    /// Enters a waiter, whose value must not be 0; `None` when the set is closed, or the instance:
    /// a wait that was under way when its instance went must not stay behind.
    pub(crate) fn insert(
        &mut self,
        wait: FenceWait,
        who: W,
        ticket: u64,
        owner: Owner,
    ) -> Option<WaiterId> {
        debug_assert!(wait.value > 0, "a wait for 0 is satisfied");
        let shut = matches!(owner, Owner::Instance(instance) if !self.open.contains(&instance));
        if self.closed || shut {
            return None;
        }
        self.oldest_epoch =
            if self.by_value.is_empty() { wait.epoch } else { self.oldest_epoch.min(wait.epoch) };
        self.registrations += 1;
        let id = WaiterId { value: wait.value, number: self.registrations };
        self.by_value.insert(id, Waiter { who, ticket, epoch: wait.epoch, owner });
        Some(id)
    }

    /// An epoch before which no waiter was entered; `None` when nobody waits.
    pub(crate) fn oldest_epoch(&self) -> Option<u64> {
        (!self.by_value.is_empty()).then_some(self.oldest_epoch)
    }

    /// Ends the set: who is in it stays until taken, nobody enters, and nothing is published from
    /// now on.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// From now on nothing is published: who waits is found by looking at every signal.
    pub(crate) fn pin(&mut self) {
        self.pinned = true;
    }

    /// Whether nothing is published.
    pub(crate) fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// Whether the set is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Takes a registration back; `false` when it was satisfied or taken back already.
    pub(crate) fn remove(&mut self, id: WaiterId) -> bool {
        self.by_value.remove(&id).is_some()
    }

    /// Takes every waiter that `look` satisfies, smallest value first, in order of registration.
    pub(crate) fn take_satisfied(&mut self, look: &Look) -> Vec<(W, u64)> {
        let within = WaiterId { value: look.highest(), number: u64::MAX };
        let taken = self.by_value.extract_if(..=within, |id, waiter| {
            look.satisfies(FenceWait { value: id.value, epoch: waiter.epoch })
        });
        taken.map(|(_, waiter)| (waiter.who, waiter.ticket)).collect()
    }

    /// Whether `look` satisfies a waiter.
    pub(crate) fn has_satisfied(&self, look: &Look) -> bool {
        let within = WaiterId { value: look.highest(), number: u64::MAX };
        let mut waiters = self.by_value.range(..=within);
        waiters
            .any(|(id, waiter)| look.satisfies(FenceWait { value: id.value, epoch: waiter.epoch }))
    }

    /// What was published last.
    pub(crate) fn published(&self) -> u64 {
        self.published
    }

    /// Takes every waiter that goes with this owner. An instance is shut by that.
    pub(crate) fn take_of(&mut self, owner: Owner) -> Vec<(W, u64)> {
        if let Owner::Instance(instance) = owner {
            self.shut(instance);
        }
        let of_owner = self.by_value.extract_if(.., |_, waiter| waiter.owner == owner);
        of_owner.map(|(_, waiter)| (waiter.who, waiter.ticket)).collect()
    }

    /// Takes every waiter.
    pub(crate) fn take_all(&mut self) -> Vec<(W, u64)> {
        std::mem::take(&mut self.by_value)
            .into_values()
            .map(|waiter| (waiter.who, waiter.ticket))
            .collect()
    }

    /// What MonitoredValue should hold.
    // spec: NF-014
    // spec: NF-015, NF-024
    pub(crate) fn monitored_value(&self) -> u64 {
        self.by_value.keys().next().map_or(NOBODY_WAITS, |first| first.value - 1)
    }

    /// What to publish, if it is not published yet; it counts as published from now on.
    pub(crate) fn take_unpublished(&mut self) -> Option<u64> {
        let wanted = self.monitored_value();
        (!self.closed && !self.pinned && wanted != self.published).then(|| {
            self.published = wanted;
            wanted
        })
    }

    /// Whether somebody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_value.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(value: u64) -> FenceWait {
        FenceWait { value, epoch: 0 }
    }

    fn at(value: u64) -> Look {
        Look::at_value(value)
    }

    // spec: NF-014, NF-015, NF-022, NF-024
    #[test]
    fn monitored_value_is_the_smallest_wait_less_one() {
        let mut set = WaiterSet::new(NOBODY_WAITS);
        assert_eq!(set.take_unpublished(), None);
        set.insert(wait(42), "a", 0, Owner::Kernel);
        set.insert(wait(50), "b", 0, Owner::Kernel);
        assert_eq!(set.take_unpublished(), Some(41));
        assert_eq!(set.take_unpublished(), None);
        assert_eq!(set.take_satisfied(&at(42)), [("a", 0)]);
        assert_eq!(set.take_unpublished(), Some(49));
        let last = set.insert(wait(u64::MAX), "c", 0, Owner::Kernel).unwrap();
        assert_eq!(set.take_satisfied(&at(60)), [("b", 0)]);
        assert_eq!(
            set.take_unpublished(),
            Some(u64::MAX - 1),
            "a wait for the maximum is not nobody"
        );
        assert!(set.remove(last) && !set.remove(last));
        assert_eq!(set.take_unpublished(), Some(NOBODY_WAITS));
        assert!(set.is_empty());
    }

    #[test]
    fn the_waits_of_an_owner_go_with_it_and_the_minimum_is_that_of_the_others() {
        let (dead, alive, queue) = (OsHandle(1), OsHandle(2), OsHandle(3));
        let mut set = WaiterSet::new(NOBODY_WAITS);
        set.open(dead);
        set.open(alive);
        set.insert(wait(5), "dead", 0, Owner::Instance(dead));
        set.insert(wait(6), "queue", 0, Owner::Queue(queue));
        set.insert(wait(9), "alive", 0, Owner::Instance(alive));
        assert_eq!(set.take_unpublished(), Some(4));
        assert_eq!(set.take_of(Owner::Instance(dead)), [("dead", 0)]);
        assert_eq!(set.insert(wait(2), "late", 0, Owner::Instance(dead)), None);
        assert_eq!(set.take_of(Owner::Queue(queue)), [("queue", 0)]);
        assert_eq!(set.take_unpublished(), Some(8));
        set.shut(alive);
        assert_eq!(set.take_satisfied(&at(9)), [("alive", 0)]);
    }

    #[test]
    fn a_closed_set_publishes_nothing_and_lets_nobody_in() {
        let mut set = WaiterSet::new(NOBODY_WAITS);
        set.insert(wait(5), "a", 0, Owner::Kernel);
        set.close();
        assert_eq!(
            (set.take_unpublished(), set.insert(wait(6), "b", 0, Owner::Kernel)),
            (None, None)
        );
        assert_eq!(set.take_satisfied(&at(u64::MAX)), [("a", 0)]);
    }

    #[test]
    fn equal_values_are_released_in_order_of_registration() {
        let mut set = WaiterSet::new(NOBODY_WAITS);
        for ticket in 0..5 {
            set.insert(wait(7), (), ticket, Owner::Kernel);
        }
        let tickets: Vec<u64> = set.take_satisfied(&at(7)).into_iter().map(|(_, t)| t).collect();
        assert_eq!(tickets, [0, 1, 2, 3, 4]);
    }
}
