//! The timeline's side table of queues: the lane of each, and the times at which its submissions
//! were queued. Calls, DDI entries and ring packets carry neither.
//!
//! The creator of a queue enters its lane. The submitter enters a submission before the engine can
//! read it. The engine takes the entry when it begins.

use crate::model::{LaneId, LinkId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The kernel's number of a context or hardware queue: unique on the machine, never reused.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct QueueNumber(pub u64);

impl fmt::Display for QueueNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Names a submission in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SubmissionKey {
    /// The value that reports its completion: a progress value or a submission fence ID.
    Completion(u64),
    /// The slot of a user-mode ring, counted from the creation of the queue.
    Slot(u64),
    /// A wait or signal in a command buffer: the progress value of the buffer, and the number among
    /// its waits and signals, from 1.
    Command(u64, u32),
    /// The packet that the next call submits: the kernel numbers it.
    NextCall,
}

/// An entry of a submission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// When it was queued; 0 if unknown.
    pub at_ns: u64,
    /// Number of its name or fence plus one; 0 for none.
    pub name: u32,
    /// The link of the call that queued it.
    pub link: LinkId,
}

impl Queued {
    /// When it was queued, else `start_ns`.
    pub fn at_or(self, start_ns: u64) -> u64 {
        if self.at_ns == 0 { start_ns } else { self.at_ns }
    }
}

/// The queues of a machine.
#[derive(Debug, Default)]
pub struct QueueTable {
    lanes: BTreeMap<QueueNumber, LaneId>,
    /// By lane.
    of_lanes: BTreeSet<(LaneId, QueueNumber)>,
    queued: BTreeMap<(QueueNumber, SubmissionKey), Queued>,
}

impl QueueTable {
    /// An empty table.
    pub const fn new() -> QueueTable {
        QueueTable { lanes: BTreeMap::new(), of_lanes: BTreeSet::new(), queued: BTreeMap::new() }
    }

    /// Draws the work of `queue` on `lane`.
    pub fn assign_lane(&mut self, queue: QueueNumber, lane: LaneId) {
        if let Some(former) = self.lanes.insert(queue, lane) {
            self.of_lanes.remove(&(former, queue));
        }
        self.of_lanes.insert((lane, queue));
    }

    /// Removes the queues whose work was drawn on `lane`.
    pub fn remove_lane(&mut self, lane: LaneId) {
        for queue in self.queues_on(lane) {
            self.lanes.remove(&queue);
            self.of_lanes.remove(&(lane, queue));
        }
    }

    /// Returns the lane of `queue`.
    pub fn lane_of(&self, queue: QueueNumber) -> Option<LaneId> {
        self.lanes.get(&queue).copied()
    }

    /// Returns the queues whose work is drawn on `lane`, in the order of their numbers.
    pub fn queues_on(&self, lane: LaneId) -> Vec<QueueNumber> {
        let range = (lane, QueueNumber(0))..=(lane, QueueNumber(u64::MAX));
        self.of_lanes.range(range).map(|(_, queue)| *queue).collect()
    }

    /// Enters a submission.
    pub fn note_queued(&mut self, queue: QueueNumber, key: SubmissionKey, queued: Queued) {
        self.queued.insert((queue, key), queued);
    }

    /// Takes a submission; the default for an unknown one.
    pub fn take_queued(&mut self, queue: QueueNumber, key: SubmissionKey) -> Queued {
        self.queued.remove(&(queue, key)).unwrap_or_default()
    }

    /// Removes all submissions.
    pub fn clear_queued(&mut self) {
        self.queued.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_on_one_lane_and_leaves_with_it() {
        let mut table = QueueTable::new();
        let (old, new) = (LaneId(1), LaneId(2));
        let [one, two, three] = [1, 2, 3].map(QueueNumber);
        [one, two].iter().for_each(|queue| table.assign_lane(*queue, old));
        [two, three].iter().for_each(|queue| table.assign_lane(*queue, new));
        assert_eq!((table.queues_on(old), table.queues_on(new)), (vec![one], vec![two, three]));
        table.remove_lane(new);
        assert_eq!([one, two, three].map(|queue| table.lane_of(queue)), [Some(old), None, None]);
        assert_eq!((table.queues_on(old), table.queues_on(new)), (vec![one], vec![]));
    }

    #[test]
    fn what_was_noted_for_a_submission_is_taken_once() {
        let mut table = QueueTable::new();
        let (queue, slot) = (QueueNumber(1), SubmissionKey::Slot(4));
        let noted = Queued { at_ns: 7, ..Queued::default() };
        table.note_queued(queue, slot, noted);
        assert_eq!(table.take_queued(queue, SubmissionKey::Completion(4)), Queued::default());
        assert_eq!([(); 2].map(|()| table.take_queued(queue, slot).at_or(3)), [7, 3]);
    }
}
