//! Queues whose last handle was dropped while work was queued: each ends when its work is complete,
//! or with its device (decisions/0057).
//!
//! The engine or the kernel completes the work by itself, so no thread waits for it. Calls that
//! create or drop an object of the device end the queues that have become idle. The end of the
//! device waits for the rest, for a bounded time.
//!
//! Locks: the list is locked over no call of a queue. A queue that a call examines is not in it
//! meanwhile.

use crate::umd::queue::UmdQueue;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use tidegate_platform::planted;
use tidegate_platform::{Mutex, Platform};

/// How long the end of a device waits for the work of its queues: the published TdrDelay, which
/// bounds normal terminations.
const END_NS: u64 = 2_000_000_000;

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

impl Drop for RetiredQueues {
    fn drop(&mut self) {
        let queues = std::mem::take(&mut *self.0.lock());
        let Some(first) = queues.front() else { return };
        let platform = &first.id.device.platform;
        let deadline = platform.now().after(END_NS);
        for queue in &queues {
            // Work that fails, or is not complete by then, ends with its queue.
            let _ = queue.wait_idle(Some(deadline));
        }
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
