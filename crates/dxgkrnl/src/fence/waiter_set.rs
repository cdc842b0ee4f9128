//! The waiters of one fence, ordered by value. Pure policy.
//!
//! Invariants: MonitoredValue is the smallest awaited value minus one, or the maximum without
//! waiters. A wait for 0 is never entered, so the subtraction cannot underflow. A wait for the
//! maximum arms one below it, so it is distinct from "no waiter".
//!
//! A waiter has the epoch of its call (see `fence_cell`). A value from before that epoch does not
//! satisfy it. A later one does, even if the fence has fallen again.

use super::waiter_queue::{WaiterId, WaiterQueue};
use smallvec::SmallVec;
use tidegate_d3dukmdt::FenceWait;
use tidegate_d3dukmdt::fence_cell::Snapshot;
use tidegate_ddi::OsHandle;

/// MonitoredValue without waiters.
pub(crate) const NO_WAITER: u64 = u64::MAX;

/// MonitoredValue of a cross-adapter member that is not linked: every signal exceeds it except a
/// signal of 0, which satisfies no wait.
// spec: NF-147, NF-148
pub(crate) const EVERY_SIGNAL: u64 = 0;

/// The object that ends a wait, at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOwner {
    /// A CPU wait: the instance of the call.
    Instance(OsHandle),
    /// A queued wait: its context or hardware queue.
    Queue(OsHandle),
    /// The kernel's own wait: the fence.
    Kernel,
}

struct Registration<W> {
    waiter: W,
    ticket: u64,
    epoch: u64,
    owner: WaitOwner,
}

/// A change of the smallest awaited value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AwaitedChange {
    pub(crate) value: u64,
    /// A signal that does not see the change may miss a waiter.
    pub(crate) lowered: bool,
}

/// Waiters that were taken from a set, with their tickets: mostly one, which takes no memory.
pub(crate) type Taken<W> = SmallVec<[(W, u64); 1]>;

/// Waiters of one fence, each with a caller-chosen ticket.
// spec: NF-019
pub(crate) struct WaiterSet<W> {
    by_value: WaiterQueue<Registration<W>>,
    /// The instances that may enter CPU waits.
    open: Vec<OsHandle>,
    /// Lower bound of the waiters' epochs.
    oldest_epoch: u64,
    registrations: u64,
    published: u64,
    /// The publishers whose stores may not have been made yet.
    publishing: u32,
    /// The smallest awaited value as CPU signals see it.
    awaited_seen: u64,
    /// The fence is being destroyed: no waiter enters and nothing is published.
    closed: bool,
    /// Nothing is published, whatever the waiters.
    pinned: bool,
    /// Dropped peaks of the fence that were counted.
    history_lost: u64,
}

impl<W> WaiterSet<W> {
    /// Takes the total of the fence's dropped peaks. Returns how many of them were not counted.
    pub(crate) fn count_history_lost(&mut self, total: u64) -> u64 {
        let more = total.saturating_sub(self.history_lost);
        self.history_lost += more;
        more
    }

    /// Creates an empty set. `published` is the content of MonitoredValue.
    pub(crate) fn new(published: u64) -> WaiterSet<W> {
        WaiterSet {
            by_value: WaiterQueue::new(),
            open: Vec::new(),
            oldest_epoch: 0,
            registrations: 0,
            published,
            publishing: 0,
            awaited_seen: NO_WAITER,
            closed: false,
            pinned: false,
            history_lost: 0,
        }
    }

    /// Admits CPU waits of this instance.
    pub(crate) fn open(&mut self, instance: OsHandle) {
        self.open.push(instance);
    }

    /// Admits no further CPU waits of this instance. Waits in the set stay.
    pub(crate) fn shut(&mut self, instance: OsHandle) {
        self.open.retain(|open| *open != instance);
    }

    /// Enters a waiter for a value above 0. Returns `None` if the set or the instance is closed, so
    /// a wait that races with the close of its instance leaves no entry.
    pub(crate) fn insert(
        &mut self,
        wait: FenceWait,
        waiter: W,
        ticket: u64,
        owner: WaitOwner,
    ) -> Option<WaiterId> {
        debug_assert!(wait.value > 0, "a wait for 0 is satisfied");
        let shut = matches!(owner, WaitOwner::Instance(instance) if !self.open.contains(&instance));
        if self.closed || shut {
            return None;
        }
        self.oldest_epoch =
            if self.by_value.is_empty() { wait.epoch } else { self.oldest_epoch.min(wait.epoch) };
        self.registrations += 1;
        let id = WaiterId { value: wait.value, number: self.registrations };
        self.by_value.insert(id, Registration { waiter, ticket, epoch: wait.epoch, owner });
        Some(id)
    }

    /// Returns an epoch before which no waiter was entered; `None` without waiters.
    pub(crate) fn oldest_epoch(&self) -> Option<u64> {
        (!self.by_value.is_empty()).then_some(self.oldest_epoch)
    }

    /// Ends the set: no waiter enters and nothing is published. Waiters stay until they are taken.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Stops publishing: satisfied waiters are collected after every signal.
    pub(crate) fn pin(&mut self) {
        self.pinned = true;
    }

    /// Returns whether publishing has stopped.
    pub(crate) fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// Whether the set is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Removes a registration. Returns `false` if it was already satisfied or removed.
    pub(crate) fn remove(&mut self, id: WaiterId) -> bool {
        self.by_value.remove(id).is_some()
    }

    /// Takes the waiters that `seen` satisfies, smallest value first, then in order of
    /// registration.
    pub(crate) fn take_satisfied(&mut self, seen: &Snapshot) -> Taken<W> {
        let is_satisfied = |id: WaiterId, entry: &Registration<W>| {
            seen.satisfies(FenceWait { value: id.value, epoch: entry.epoch })
        };
        let mut taken = Taken::new();
        // Without rewinds the satisfied waiters are the first ones.
        while self.by_value.first().is_some_and(|(id, entry)| is_satisfied(id, entry))
            && let Some(entry) = self.by_value.pop_first()
        {
            taken.push((entry.waiter, entry.ticket));
        }
        let within = WaiterId { value: seen.highest(), number: u64::MAX };
        if self.by_value.first().is_some_and(|(id, _)| id <= within) {
            let others = self.by_value.extract(within, is_satisfied);
            taken.extend(others.into_iter().map(|entry| (entry.waiter, entry.ticket)));
        }
        taken
    }

    /// Whether `seen` satisfies a waiter.
    pub(crate) fn has_satisfied(&self, seen: &Snapshot) -> bool {
        let within = WaiterId { value: seen.highest(), number: u64::MAX };
        let mut entries = self.by_value.iter().take_while(|(id, _)| *id <= within);
        entries.any(|(id, entry)| seen.satisfies(FenceWait { value: id.value, epoch: entry.epoch }))
    }

    /// The value published last.
    pub(crate) fn published(&self) -> u64 {
        self.published
    }

    /// Takes the waiters of this owner. An instance is also shut.
    pub(crate) fn take_of(&mut self, owner: WaitOwner) -> Taken<W> {
        if let WaitOwner::Instance(instance) = owner {
            self.shut(instance);
        }
        let last = WaiterId { value: u64::MAX, number: u64::MAX };
        let of_owner = self.by_value.extract(last, |_, entry| entry.owner == owner);
        of_owner.into_iter().map(|entry| (entry.waiter, entry.ticket)).collect()
    }

    /// Returns the values and owners of at most `most` waits, the smallest values first.
    pub(crate) fn first_waits(&self, most: usize) -> Vec<(u64, WaitOwner)> {
        let waits = self.by_value.iter().take(most);
        waits.map(|(id, registration)| (id.value, registration.owner)).collect()
    }

    /// Takes every waiter.
    pub(crate) fn take_all(&mut self) -> Taken<W> {
        let all = self.by_value.take_all().into_iter();
        all.map(|entry| (entry.waiter, entry.ticket)).collect()
    }

    /// Returns the value that MonitoredValue should hold.
    // spec: NF-014
    // spec: NF-015, NF-024
    pub(crate) fn monitored_value(&self) -> u64 {
        self.by_value.first().map_or(NO_WAITER, |(first, _)| first.value - 1)
    }

    /// Returns the value that the driver is to publish if it differs from the published one, and
    /// records it as published. The publisher ends with [`WaiterSet::end_publishing`].
    pub(crate) fn take_unpublished(&mut self) -> Option<u64> {
        let wanted = self.monitored_value();
        (!self.closed && !self.pinned && wanted != self.published).then(|| {
            self.published = wanted;
            self.publishing += 1;
            wanted
        })
    }

    /// Records that a publisher's store is made. If the value has changed since, it publishes
    /// again.
    pub(crate) fn end_publishing(&mut self) {
        self.publishing -= 1;
    }

    /// Returns the value to which the kernel may raise MonitoredValue under the lock of the
    /// waiters, and records it as published; `None` while the driver publishes, whose store would
    /// come later.
    ///
    /// A value that is too low costs an interrupt at most, so a raise needs no barrier, and no
    /// waiter has to be collected after it.
    pub(crate) fn take_raised(&mut self) -> Option<u64> {
        let wanted = self.monitored_value();
        let raises =
            !self.closed && !self.pinned && self.publishing == 0 && wanted > self.published;
        raises.then(|| {
            self.published = wanted;
            wanted
        })
    }

    /// Returns whether the value that MonitoredValue should hold is published.
    pub(crate) fn is_published(&self) -> bool {
        self.closed || self.pinned || self.monitored_value() == self.published
    }

    /// Returns the smallest value whose CPU signal must look at the waiters: the smallest awaited
    /// value, the maximum without waiters, 0 in a set that publishes nothing.
    pub(crate) fn awaited(&self) -> u64 {
        match self.by_value.first() {
            _ if self.closed || self.pinned => 0,
            Some((first, _)) => first.value,
            None => NO_WAITER,
        }
    }

    /// Returns a change of [`WaiterSet::awaited`] since the last call, for CPU signals to see.
    #[inline]
    pub(crate) fn take_awaited_change(&mut self) -> Option<AwaitedChange> {
        let value = self.awaited();
        let before = std::mem::replace(&mut self.awaited_seen, value);
        (value != before).then_some(AwaitedChange { value, lowered: value < before })
    }

    /// Returns the number of waiters.
    pub(crate) fn len(&self) -> usize {
        self.by_value.len()
    }

    /// Returns whether there are no waiters.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_value.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_d3dukmdt::FenceCell;
    use tidegate_d3dukmdt::fence_cell::PAGE_WORDS;
    use tidegate_platform::Platform;

    fn wait(value: u64) -> FenceWait {
        FenceWait { value, epoch: 0 }
    }

    fn list<W>(taken: Taken<W>) -> Vec<(W, u64)> {
        taken.into_vec()
    }

    fn at(value: u64) -> Snapshot {
        Snapshot::at_value(value)
    }

    // spec: NF-014, NF-015, NF-022, NF-024
    #[test]
    fn monitored_value_is_the_smallest_wait_less_one() {
        let mut set = WaiterSet::new(NO_WAITER);
        assert_eq!(set.take_unpublished(), None);
        set.insert(wait(42), "a", 0, WaitOwner::Kernel);
        set.insert(wait(50), "b", 0, WaitOwner::Kernel);
        assert_eq!(set.take_unpublished(), Some(41));
        assert_eq!(set.take_unpublished(), None);
        assert_eq!(list(set.take_satisfied(&at(42))), [("a", 0)]);
        assert_eq!(set.take_unpublished(), Some(49));
        let last = set.insert(wait(u64::MAX), "c", 0, WaitOwner::Kernel).unwrap();
        assert_eq!(list(set.take_satisfied(&at(60))), [("b", 0)]);
        assert_eq!(
            set.take_unpublished(),
            Some(u64::MAX - 1),
            "a wait for the maximum differs from no waiter"
        );
        assert!(set.remove(last) && !set.remove(last));
        assert_eq!(set.take_unpublished(), Some(NO_WAITER));
        assert!(set.is_empty());
    }

    #[test]
    fn the_waits_of_an_owner_end_with_it_and_the_minimum_is_that_of_the_others() {
        let (dead, alive, queue) = (OsHandle(1), OsHandle(2), OsHandle(3));
        let mut set = WaiterSet::new(NO_WAITER);
        set.open(dead);
        set.open(alive);
        set.insert(wait(5), "dead", 0, WaitOwner::Instance(dead));
        set.insert(wait(6), "queue", 0, WaitOwner::Queue(queue));
        set.insert(wait(9), "alive", 0, WaitOwner::Instance(alive));
        assert_eq!(set.take_unpublished(), Some(4));
        assert_eq!(list(set.take_of(WaitOwner::Instance(dead))), [("dead", 0)]);
        assert_eq!(set.insert(wait(2), "late", 0, WaitOwner::Instance(dead)), None);
        assert_eq!(list(set.take_of(WaitOwner::Queue(queue))), [("queue", 0)]);
        assert_eq!(set.take_unpublished(), Some(8));
        set.shut(alive);
        assert_eq!(list(set.take_satisfied(&at(9))), [("alive", 0)]);
    }

    #[test]
    fn a_closed_set_publishes_nothing_and_admits_no_waiter() {
        let mut set = WaiterSet::new(NO_WAITER);
        set.insert(wait(5), "a", 0, WaitOwner::Kernel);
        set.close();
        assert_eq!(
            (set.take_unpublished(), set.insert(wait(6), "b", 0, WaitOwner::Kernel)),
            (None, None)
        );
        assert_eq!(list(set.take_satisfied(&at(u64::MAX))), [("a", 0)]);
    }

    #[test]
    fn cpu_signals_see_the_smallest_awaited_value() {
        let mut set = WaiterSet::new(NO_WAITER);
        let change = |value, lowered| Some(AwaitedChange { value, lowered });
        assert_eq!((set.awaited(), set.take_awaited_change()), (NO_WAITER, None));
        set.insert(wait(50), "b", 0, WaitOwner::Kernel);
        set.insert(wait(42), "a", 0, WaitOwner::Kernel);
        assert_eq!(
            (set.take_awaited_change(), set.take_awaited_change()),
            (change(42, true), None)
        );
        set.take_satisfied(&at(42));
        assert_eq!(set.take_awaited_change(), change(50, false));
        set.close();
        assert_eq!(set.take_awaited_change(), change(0, true), "a signal of a closed fence looks");
        let mut pinned = WaiterSet::<()>::new(NO_WAITER);
        pinned.pin();
        assert_eq!(pinned.take_awaited_change(), change(0, true));
    }

    #[test]
    fn the_oldest_epoch_is_no_later_than_any_wait_and_a_set_that_was_empty_begins_again() {
        let mut set = WaiterSet::new(NO_WAITER);
        assert_eq!(set.oldest_epoch(), None);
        for (value, epoch) in [(5, 6), (9, 4), (7, 8)] {
            set.insert(FenceWait { value, epoch }, value, 0, WaitOwner::Kernel);
        }
        assert_eq!(set.oldest_epoch(), Some(4), "neither the first wait nor the last");
        assert_eq!(set.take_all().len(), 3);
        assert_eq!(set.oldest_epoch(), None);
        set.insert(FenceWait { value: 5, epoch: 10 }, 5, 0, WaitOwner::Kernel);
        assert_eq!(set.oldest_epoch(), Some(10));
    }

    #[test]
    fn the_kernel_raises_the_published_value_only_while_no_publisher_may_still_store() {
        let mut set = WaiterSet::new(NO_WAITER);
        let first = set.insert(wait(5), "a", 0, WaitOwner::Kernel).unwrap();
        assert_eq!(set.take_unpublished(), Some(4));
        set.insert(wait(3), "b", 0, WaitOwner::Kernel);
        assert_eq!(set.take_unpublished(), Some(2));
        assert_eq!(list(set.take_satisfied(&at(3))), [("b", 0)]);
        assert!(set.remove(first));
        // Both publishers may store below what would be raised now.
        assert_eq!(set.take_raised(), None);
        set.end_publishing();
        assert_eq!(set.take_raised(), None);
        set.end_publishing();
        assert_eq!(set.take_raised(), Some(NO_WAITER));
        assert_eq!((set.take_raised(), set.is_published()), (None, true));
        set.insert(wait(5), "c", 0, WaitOwner::Kernel);
        assert_eq!(set.take_raised(), None, "a lower value is for the driver, with a barrier");
    }

    #[test]
    fn a_wait_that_a_dropped_value_satisfied_is_taken_from_behind_an_unsatisfied_one() {
        let page = Platform::host().page(PAGE_WORDS);
        let cell = FenceCell::in_fence_page(page.word(0), 0);
        cell.renew(0, 64, 0);
        let mut set = WaiterSet::new(NO_WAITER);
        for (value, ticket) in [(7, 1), (9, 2)] {
            set.insert(cell.wait_for(value), "early", ticket, WaitOwner::Kernel);
        }
        cell.store(8);
        cell.store(2);
        set.insert(cell.wait_for(5), "late", 3, WaitOwner::Kernel);
        assert!(set.has_satisfied(&cell.snapshot()));
        assert_eq!(list(set.take_satisfied(&cell.snapshot())), [("early", 1)]);
        assert!(!set.has_satisfied(&cell.snapshot()));
        cell.store(9);
        assert_eq!(list(set.take_satisfied(&cell.snapshot())), [("late", 3), ("early", 2)]);
    }

    #[test]
    fn equal_values_are_released_in_order_of_registration() {
        let mut set = WaiterSet::new(NO_WAITER);
        for ticket in 0..5 {
            set.insert(wait(7), (), ticket, WaitOwner::Kernel);
        }
        let tickets: Vec<u64> = set.take_satisfied(&at(7)).into_iter().map(|(_, t)| t).collect();
        assert_eq!(tickets, [0, 1, 2, 3, 4]);
    }
}
