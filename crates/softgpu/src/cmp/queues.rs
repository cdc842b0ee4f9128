//! The table of queues. A number names one queue for ever. The place of a queue that has ended is
//! given to a later one, so the table is as large as the most queues that were there at a time.
//!
//! Invariant: `live` has the places of all queues that are in the table. What looks at each queue
//! goes through it, so the queues that have ended cost it nothing.

use std::collections::BTreeSet;
use tidegate_gpu_abi::{AdminError, QueueId};

/// The number of places. The last one of those that a number can name stands for no queue.
const PLACES: usize = (1 << QueueId::PLACE_BITS) - 1;

struct Place<Entry> {
    /// The number of its queue, or of the next one.
    queue: QueueId,
    entry: Option<Box<Entry>>,
}

pub(super) struct Queues<Entry> {
    all: Vec<Place<Entry>>,
    /// Places without a queue that have numbers left.
    free: Vec<u32>,
    live: BTreeSet<u32>,
}

impl<Entry> Queues<Entry> {
    pub(super) fn new() -> Queues<Entry> {
        Queues { all: Vec::new(), free: Vec::new(), live: BTreeSet::new() }
    }

    pub(super) fn get(&self, queue: QueueId) -> Option<&Entry> {
        let place = self.all.get(queue.place() as usize)?;
        place.entry.as_deref().filter(|_| place.queue == queue)
    }

    pub(super) fn get_mut(&mut self, queue: QueueId) -> Option<&mut Entry> {
        let place = self.all.get_mut(queue.place() as usize)?;
        place.entry.as_deref_mut().filter(|_| place.queue == queue)
    }

    /// Returns the queue at a place.
    pub(super) fn at(&self, place: u32) -> Option<&Entry> {
        self.all.get(place as usize)?.entry.as_deref()
    }

    /// Adds a queue. `entry` is called with its number.
    pub(super) fn add(
        &mut self,
        entry: impl FnOnce(QueueId) -> Entry,
    ) -> Result<QueueId, AdminError> {
        let place = match self.free.pop() {
            Some(place) => place as usize,
            None if self.all.len() == PLACES => return Err(AdminError::BadValue),
            None => {
                let queue = QueueId::new(self.all.len() as u32, 0);
                self.all.push(Place { queue, entry: None });
                self.all.len() - 1
            }
        };
        let place = &mut self.all[place];
        place.entry = Some(Box::new(entry(place.queue)));
        self.live.insert(place.queue.place());
        Ok(place.queue)
    }

    /// Removes a queue permanently.
    pub(super) fn remove(&mut self, queue: QueueId) -> Option<Box<Entry>> {
        let place = self.all.get_mut(queue.place() as usize).filter(|p| p.queue == queue)?;
        let entry = place.entry.take()?;
        self.live.remove(&queue.place());
        // A place without further numbers stays empty.
        if let Some(next) = queue.0.checked_add(1 << QueueId::PLACE_BITS) {
            place.queue = QueueId(next);
            self.free.push(queue.place());
        }
        Some(entry)
    }

    /// Returns the queues in the order of their places.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> + Clone {
        self.live.iter().filter_map(|place| self.at(*place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_one_queue_and_the_table_has_no_place_more_than_queues_at_a_time() {
        let mut queues = Queues::new();
        let kept = queues.add(|id| id).unwrap();
        let mut before = Vec::new();
        for _ in 0..QueueId::QUEUES_OF_A_PLACE {
            let queue = queues.add(|id| id).unwrap();
            assert_eq!((queues.get(queue), queues.at(1)), (Some(&queue), Some(&queue)));
            assert!(before.iter().all(|old| queues.get(*old).is_none()));
            assert_eq!(
                (queues.remove(queue).as_deref(), queues.remove(queue)),
                (Some(&queue), None)
            );
            before.push(queue);
        }
        before.dedup();
        assert_eq!(before.len(), QueueId::QUEUES_OF_A_PLACE as usize);
        assert_eq!((queues.all.len(), queues.iter().count()), (2, 1));
        // The second place has no number left.
        let queue = queues.add(|id| id).unwrap();
        assert_eq!((queue.place(), queues.all.len()), (2, 3));
        assert_eq!(queues.iter().copied().collect::<Vec<_>>(), [kept, queue]);
    }

    #[test]
    fn there_is_no_queue_at_the_place_that_stands_for_none() {
        let mut queues = Queues::new();
        for place in 0..PLACES {
            assert_eq!(queues.add(|_| ()).map(QueueId::place), Ok(place as u32));
        }
        assert_eq!(PLACES, 1_048_575);
        assert_eq!(queues.add(|_| ()), Err(AdminError::BadValue));
        queues.remove(QueueId::new(7, 0)).unwrap();
        assert_eq!(queues.add(|_| ()), Ok(QueueId::new(7, 1)));
        assert_eq!(queues.add(|_| ()), Err(AdminError::BadValue));
    }
}
