//! Queues whose last handle was dropped while work was queued: each ends when its work is complete,
//! or with its device (decisions/0057).
//!
//! The engine or the kernel completes the work by itself, so no thread waits for it. Calls that
//! create or drop an object of the device end the queues that have become idle.
//!
//! Locks: the list is locked over no call of a queue. A queue that a call examines is not in it
//! meanwhile.

use crate::umd::queue::UmdQueue;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use tidegate_platform::planted;
use tidegate_platform::{Mutex, Platform};

/// Most queues that one call examines.
const EXAMINED: usize = 8;

pub(crate) struct RetiredQueues(Mutex<VecDeque<Arc<UmdQueue>>>);

impl RetiredQueues {
    pub(crate) fn new(platform: &Platform) -> RetiredQueues {
        RetiredQueues(platform.mutex("retired queues of a device", VecDeque::new()))
    }

    /// Ends those that are idle, of the ones that were examined the longest time ago.
    pub(crate) fn collect(&self) {
        let some: Vec<_> = {
            let mut queues = self.0.lock();
            let count = queues.len().min(EXAMINED);
            queues.drain(..count).collect()
        };
        if some.is_empty() {
            return;
        }
        // A queue that refuses the question will not run its work either.
        let pending = |queue: &Arc<UmdQueue>| queue.is_pending().unwrap_or(false);
        let (pending, ended): (Vec<_>, Vec<_>) = some.into_iter().partition(pending);
        self.0.lock().extend(pending);
        drop(ended);
    }
}

/// What the handles of a queue share. The last of them retires the queue.
pub(crate) struct QueueHandle {
    queue: Arc<UmdQueue>,
    retired: Arc<RetiredQueues>,
}

impl QueueHandle {
    pub(crate) fn new(queue: Arc<UmdQueue>, retired: &Arc<RetiredQueues>) -> QueueHandle {
        QueueHandle { queue, retired: Arc::clone(retired) }
    }
}

impl Deref for QueueHandle {
    type Target = Arc<UmdQueue>;

    fn deref(&self) -> &Arc<UmdQueue> {
        &self.queue
    }
}

impl Drop for QueueHandle {
    fn drop(&mut self) {
        self.retired.collect();
        let platform = &self.queue.id.device.platform;
        if !self.queue.is_known_idle() && !planted!(platform, QueueEndsWithItsLastHandle) {
            self.retired.0.lock().push_back(Arc::clone(&self.queue));
        }
    }
}
