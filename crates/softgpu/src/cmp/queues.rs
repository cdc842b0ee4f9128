//! The table of queues. A number names one queue for ever, so a place that was left stays empty.
//!
//! Invariant: `live` has the numbers of all queues that are in the table. What looks at each queue
//! goes through it, so the queues that have ended cost it nothing.

use std::collections::BTreeSet;
use tidegate_gpu_abi::{AdminError, QueueId};

pub(super) struct Queues<Entry> {
    all: Vec<Option<Box<Entry>>>,
    live: BTreeSet<u32>,
}

impl<Entry> Queues<Entry> {
    pub(super) fn new() -> Queues<Entry> {
        Queues { all: Vec::new(), live: BTreeSet::new() }
    }

    pub(super) fn get(&self, queue: QueueId) -> Option<&Entry> {
        self.all.get(queue.0 as usize)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, queue: QueueId) -> Option<&mut Entry> {
        self.all.get_mut(queue.0 as usize)?.as_deref_mut()
    }

    /// Adds a queue. `entry` is called with its number.
    pub(super) fn add(
        &mut self,
        entry: impl FnOnce(QueueId) -> Entry,
    ) -> Result<QueueId, AdminError> {
        let number = u32::try_from(self.all.len()).map_err(|_| AdminError::BadValue)?;
        self.all.push(Some(Box::new(entry(QueueId(number)))));
        self.live.insert(number);
        Ok(QueueId(number))
    }

    /// Removes a queue permanently.
    pub(super) fn remove(&mut self, queue: QueueId) -> Option<Box<Entry>> {
        self.live.remove(&queue.0);
        self.all.get_mut(queue.0 as usize)?.take()
    }

    /// Returns the queues in order of their creation.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> + Clone {
        self.live.iter().filter_map(|number| self.get(QueueId(*number)))
    }
}
