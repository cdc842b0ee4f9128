//! The registrations of a fence in ascending order: by value, then by time. Pure policy.
//!
//! Most waiters register for rising values and leave at the front. They stay in a queue, where both
//! take constant time. A waiter that would move more than [`MOST_MOVED`] others goes to a tree.
//!
//! Invariants: neither end of the queue is a gap. At most half of the queue are gaps. An id is in
//! one of the two.
//!
//! Entry points: [`WaiterQueue::insert`], [`WaiterQueue::first`], [`WaiterQueue::extract`].

use std::collections::{BTreeMap, VecDeque};

/// Names one registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WaiterId {
    pub(super) value: u64,
    pub(super) number: u64,
}

/// The largest number of waiters that an insertion into the queue moves.
const MOST_MOVED: usize = 16;

/// Registrations by their id.
pub(super) struct WaiterQueue<T> {
    /// `None` is the gap of a waiter that has left between others.
    queue: VecDeque<(WaiterId, Option<T>)>,
    gaps: usize,
    tree: BTreeMap<WaiterId, T>,
}

impl<T> WaiterQueue<T> {
    pub(super) fn new() -> WaiterQueue<T> {
        WaiterQueue { queue: VecDeque::new(), gaps: 0, tree: BTreeMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len() - self.gaps + self.tree.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.tree.is_empty()
    }

    /// Adds a registration whose id is not in the queue.
    pub(super) fn insert(&mut self, id: WaiterId, entry: T) {
        if self.queue.back().is_none_or(|(last, _)| *last < id) {
            self.queue.push_back((id, Some(entry)));
            return;
        }
        let at = self.queue.partition_point(|(other, _)| *other < id);
        if at.min(self.queue.len() - at) <= MOST_MOVED {
            self.queue.insert(at, (id, Some(entry)));
        } else {
            self.tree.insert(id, entry);
        }
    }

    /// Returns the first registration.
    #[inline]
    pub(super) fn first(&self) -> Option<(WaiterId, &T)> {
        let queued = self.queue.front().and_then(|(id, entry)| Some((*id, entry.as_ref()?)));
        match self.tree.first_key_value() {
            Some((id, entry)) if queued.is_none_or(|(other, _)| *id < other) => Some((*id, entry)),
            _ => queued,
        }
    }

    /// Removes the first registration.
    pub(super) fn pop_first(&mut self) -> Option<T> {
        let (first, _) = self.first()?;
        match self.queue.front() {
            Some((id, _)) if *id == first => {
                let (_, entry) = self.queue.pop_front()?;
                self.drop_end_gaps();
                entry
            }
            _ => self.tree.pop_first().map(|(_, entry)| entry),
        }
    }

    /// Removes a registration. Returns `None` if it has left.
    pub(super) fn remove(&mut self, id: WaiterId) -> Option<T> {
        let Ok(at) = self.queue.binary_search_by(|(other, _)| other.cmp(&id)) else {
            return self.tree.remove(&id);
        };
        let entry = self.queue[at].1.take()?;
        self.gaps += 1;
        self.drop_end_gaps();
        if 2 * self.gaps > self.queue.len() {
            self.queue.retain(|(_, entry)| entry.is_some());
            self.gaps = 0;
        }
        Some(entry)
    }

    fn drop_end_gaps(&mut self) {
        while self.gaps > 0 && self.queue.front().is_some_and(|(_, entry)| entry.is_none()) {
            self.queue.pop_front();
            self.gaps -= 1;
        }
        while self.gaps > 0 && self.queue.back().is_some_and(|(_, entry)| entry.is_none()) {
            self.queue.pop_back();
            self.gaps -= 1;
        }
    }

    /// Removes the registrations up to `last` for which `is_wanted` holds, and returns them in
    /// order.
    pub(super) fn extract(
        &mut self,
        last: WaiterId,
        is_wanted: impl Fn(WaiterId, &T) -> bool,
    ) -> Vec<T> {
        let within = self.queue.partition_point(|(id, _)| *id <= last);
        let mut found: Vec<(WaiterId, T)> = Vec::new();
        for (id, entry) in self.queue.range_mut(..within) {
            found.extend(entry.take_if(|entry| is_wanted(*id, entry)).map(|entry| (*id, entry)));
        }
        if !found.is_empty() {
            self.queue.retain(|(_, entry)| entry.is_some());
            self.gaps = 0;
        }
        found.extend(self.tree.extract_if(..=last, |id, entry| is_wanted(*id, entry)));
        found.sort_by_key(|(id, _)| *id);
        found.into_iter().map(|(_, entry)| entry).collect()
    }

    /// Returns the registrations in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (WaiterId, &T)> {
        let queued = self.queue.iter().filter_map(|(id, entry)| Some((*id, entry.as_ref()?)));
        let mut queued = queued.peekable();
        let mut late = self.tree.iter().map(|(id, entry)| (*id, entry)).peekable();
        std::iter::from_fn(move || match (queued.peek(), late.peek()) {
            (Some((id, _)), Some((other, _))) if other < id => late.next(),
            (Some(_), _) => queued.next(),
            (None, _) => late.next(),
        })
    }

    /// Removes all registrations, and returns them in order.
    pub(super) fn take_all(&mut self) -> Vec<T> {
        self.extract(WaiterId { value: u64::MAX, number: u64::MAX }, |_, _| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(value: u64, number: u64) -> WaiterId {
        WaiterId { value, number }
    }

    fn contents(queue: &WaiterQueue<u64>) -> Vec<(WaiterId, u64)> {
        queue.iter().map(|(id, entry)| (id, *entry)).collect()
    }

    #[test]
    fn a_wait_far_from_both_ends_moves_no_others() {
        let mut queue = WaiterQueue::new();
        (0..100).for_each(|value| queue.insert(id(2 * value, value), value));
        queue.insert(id(99, 100), 100);
        assert_eq!((queue.queue.len(), queue.tree.len()), (100, 1));
        queue.insert(id(5, 101), 101);
        assert_eq!((queue.queue.len(), queue.tree.len()), (101, 1), "close to the front");
        assert_eq!(queue.iter().filter(|(id, _)| id.value < 6).count(), 4);
        assert!(queue.iter().is_sorted_by_key(|(id, _)| id));
    }

    #[test]
    fn gaps_leave_the_queue() {
        let mut queue = WaiterQueue::new();
        (0..10).for_each(|value| queue.insert(id(value, value), value));
        for value in (1..9).rev() {
            assert_eq!(queue.remove(id(value, value)), Some(value));
            assert!(2 * queue.gaps <= queue.queue.len());
        }
        assert_eq!(queue.remove(id(4, 4)), None);
        assert_eq!((queue.pop_first(), queue.queue.len(), queue.gaps), (Some(0), 1, 0));
        assert_eq!((queue.pop_first(), queue.len()), (Some(9), 0));
    }

    /// Random operations against an ordered map.
    #[test]
    fn the_queue_is_an_ordered_map() {
        let mut seed = 0x2545_F491_4F6C_DD1Du64;
        let mut random = move |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        let (mut queue, mut map) = (WaiterQueue::new(), BTreeMap::new());
        for number in 0..20_000 {
            match random(10) {
                0..5 => {
                    let value = if random(2) == 0 { number } else { random(number + 1) };
                    queue.insert(id(value, number), number);
                    map.insert(id(value, number), number);
                }
                5..7 => assert_eq!(queue.pop_first(), map.pop_first().map(|(_, entry)| entry)),
                7..9 => {
                    let at = random(map.len() as u64 + 1) as usize;
                    let wanted = map.keys().nth(at).copied().unwrap_or(id(number, 0));
                    assert_eq!(queue.remove(wanted), map.remove(&wanted));
                }
                _ if random(20) == 0 => {
                    let (last, part) = (id(random(number + 1), u64::MAX), random(3));
                    let taken = queue.extract(last, |_, entry| entry % 3 == part);
                    let expected = map.extract_if(..=last, |_, entry| *entry % 3 == part);
                    assert_eq!(taken, expected.map(|(_, entry)| entry).collect::<Vec<_>>());
                }
                _ => {}
            }
            assert_eq!(queue.len(), map.len());
            assert_eq!(queue.is_empty(), map.is_empty());
            let first = map.first_key_value().map(|(id, entry)| (*id, *entry));
            assert_eq!(queue.first().map(|(id, entry)| (id, *entry)), first);
            if number % 500 == 0 {
                assert_eq!(contents(&queue), map.clone().into_iter().collect::<Vec<_>>());
            }
        }
        assert_eq!(queue.take_all(), map.into_values().collect::<Vec<_>>());
    }
}
