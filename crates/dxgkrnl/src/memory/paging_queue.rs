//! A paging queue: its operations complete in order, and its fence counts them.

use super::ports::PagingFence;
use std::sync::Arc;
use tidegate_calls::PagingPriority;
use tidegate_ddi::OsHandle;
use tidegate_platform::{Mutex, Platform};

pub(crate) struct PagingQueue {
    pub(super) id: OsHandle,
    pub(super) priority: PagingPriority,
    pub(super) fence: Arc<dyn PagingFence>,
    /// The fence value of the last queued operation.
    promised: Mutex<u64>,
}

impl PagingQueue {
    pub(crate) fn new(
        platform: &Platform,
        id: OsHandle,
        priority: PagingPriority,
        fence: Arc<dyn PagingFence>,
    ) -> PagingQueue {
        PagingQueue { id, priority, fence, promised: platform.mutex("a paging queue", 0) }
    }

    /// Allocates the fence value of the next operation.
    pub(super) fn next_value(&self) -> u64 {
        let mut promised = self.promised.lock();
        *promised += 1;
        *promised
    }
}
