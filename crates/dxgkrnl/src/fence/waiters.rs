//! Owns who waits for what on one fence: pure policy, ordered by value.
//!
//! MonitoredValue is the smallest value that somebody waits for, less one, or the maximum when nobody waits. A wait for 0 is
//! never entered (it is satisfied), so the subtraction cannot underflow; a wait for the maximum is armed one below it, so it
//! is not mistaken for nobody.

use std::collections::BTreeMap;

/// MonitoredValue when nobody waits.
pub(crate) const NOBODY_WAITS: u64 = u64::MAX;

/// Names one registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WaiterId {
    value: u64,
    number: u64,
}

/// Waiters of one fence, each with a ticket that means something to it.
// spec: NF-019
pub(crate) struct WaiterSet<W> {
    by_value: BTreeMap<WaiterId, (W, u64)>,
    registrations: u64,
    published: u64,
    /// The fence is being destroyed: nobody enters any more, and nothing is published.
    closed: bool,
}

impl<W> WaiterSet<W> {
    /// Nobody waits, and `published` is what MonitoredValue holds.
    pub(crate) fn new(published: u64) -> WaiterSet<W> {
        WaiterSet { by_value: BTreeMap::new(), registrations: 0, published, closed: false }
    }

    /// Enters a waiter for `value`, which must not be 0; `None` when the set is closed.
    pub(crate) fn insert(&mut self, value: u64, waiter: W, ticket: u64) -> Option<WaiterId> {
        debug_assert!(value > 0, "a wait for 0 is satisfied");
        if self.closed {
            return None;
        }
        self.registrations += 1;
        let id = WaiterId { value, number: self.registrations };
        self.by_value.insert(id, (waiter, ticket));
        Some(id)
    }

    /// Ends the set: who is in it stays until taken, nobody enters, and nothing is published from now on.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Whether the set is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Takes a registration back; `false` when it was satisfied or taken back already.
    pub(crate) fn remove(&mut self, id: WaiterId) -> bool {
        self.by_value.remove(&id).is_some()
    }

    /// Takes every waiter that `value` satisfies, smallest value first, in order of registration.
    pub(crate) fn take_satisfied(&mut self, value: u64) -> Vec<(W, u64)> {
        let mut taken = Vec::new();
        while let Some(first) = self.by_value.first_entry() {
            if first.key().value > value {
                break;
            }
            taken.push(first.remove());
        }
        taken
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
        (!self.closed && wanted != self.published).then(|| {
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

    // spec: NF-014, NF-015, NF-022, NF-024
    #[test]
    fn monitored_value_is_the_smallest_wait_less_one() {
        let mut set = WaiterSet::new(NOBODY_WAITS);
        assert_eq!(set.take_unpublished(), None);
        set.insert(42, "a", 0);
        set.insert(50, "b", 0);
        assert_eq!(set.take_unpublished(), Some(41));
        assert_eq!(set.take_unpublished(), None);
        assert_eq!(set.take_satisfied(42), [("a", 0)]);
        assert_eq!(set.take_unpublished(), Some(49));
        let last = set.insert(u64::MAX, "c", 0).unwrap();
        assert_eq!(set.take_satisfied(60), [("b", 0)]);
        assert_eq!(set.take_unpublished(), Some(u64::MAX - 1), "a wait for the maximum is not nobody");
        assert!(set.remove(last) && !set.remove(last));
        assert_eq!(set.take_unpublished(), Some(NOBODY_WAITS));
        assert!(set.is_empty());
    }

    #[test]
    fn a_closed_set_publishes_nothing_and_lets_nobody_in() {
        let mut set = WaiterSet::new(NOBODY_WAITS);
        set.insert(5, "a", 0);
        set.close();
        assert_eq!((set.take_unpublished(), set.insert(6, "b", 0)), (None, None));
        assert_eq!(set.take_satisfied(u64::MAX), [("a", 0)]);
    }

    #[test]
    fn equal_values_are_released_in_order_of_registration() {
        let mut set = WaiterSet::new(NOBODY_WAITS);
        for ticket in 0..5 {
            set.insert(7, (), ticket);
        }
        let tickets: Vec<u64> = set.take_satisfied(7).into_iter().map(|(_, t)| t).collect();
        assert_eq!(tickets, [0, 1, 2, 3, 4]);
    }
}
