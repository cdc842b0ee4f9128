//! Owns the order in which the queues of one node run: highest priority first, in turn inside a priority.
//!
//! A queue stands on the list at most once, and only when it could go on. A queue in the middle of a packet goes back to
//! the front of its priority, so that only a higher priority comes between two parts of a packet.

use std::collections::VecDeque;
use tidegate_gpu_abi::QueueId;

/// Priorities are 0 (idle), 1 (normal), 2 (high) and 3 (realtime).
pub(crate) const PRIORITIES: u32 = 4;

#[derive(Default)]
pub(crate) struct RunList {
    ready: [VecDeque<QueueId>; PRIORITIES as usize],
}

impl RunList {
    pub(crate) fn push_back(&mut self, queue: QueueId, priority: u32) {
        self.ready[priority as usize].push_back(queue);
    }

    pub(crate) fn push_front(&mut self, queue: QueueId, priority: u32) {
        self.ready[priority as usize].push_front(queue);
    }

    /// Takes the queue whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<QueueId> {
        self.ready.iter_mut().rev().find_map(VecDeque::pop_front)
    }

    pub(crate) fn remove(&mut self, queue: QueueId) {
        for ready in &mut self.ready {
            ready.retain(|q| *q != queue);
        }
    }

    /// The highest priority that has a queue, plus one; 0 when the list is empty.
    pub(crate) fn level(&self) -> u64 {
        self.ready.iter().rposition(|r| !r.is_empty()).map_or(0, |p| p as u64 + 1)
    }
}
