//! The mark of all work that a device had queued at one moment.
//!
//! Packet contexts drop their part by a software signal behind what is queued. Hardware queues do
//! so by their progress fence; for a user-mode queue, at the value that its process says it queued
//! last. A process that states too much keeps its memory in use as long as its queue lives. One
//! that states too little faults.

use std::sync::Arc;
use tidegate_platform::{Event, Platform, Step, Word};
use tidegate_vidmm::LastUse;

struct Pending {
    /// Parts that are not over.
    left: Word,
    /// Set with the last of them.
    over: Event,
}

/// All that was queued at one moment.
#[derive(Clone)]
pub(crate) struct UseMark(Arc<Pending>);

impl UseMark {
    /// A mark that is over; `over` is set when its last part is dropped.
    pub(crate) fn new(platform: &Platform, over: &Event) -> UseMark {
        UseMark(Arc::new(Pending { left: platform.page(1).word(0), over: over.clone() }))
    }

    /// Whether all of it is complete.
    pub(crate) fn is_over(&self) -> bool {
        self.0.left.load() == 0
    }

    /// One queue's part.
    pub(crate) fn part(&self) -> InUse {
        self.0.left.fetch_add(1);
        InUse(self.clone())
    }
}

impl LastUse for UseMark {
    fn is_complete(&self) -> bool {
        UseMark::is_over(self)
    }
}

/// One queue's part in a mark: dropped when what it had queued is complete, or will never run.
pub(crate) struct InUse(UseMark);

impl Drop for InUse {
    fn drop(&mut self) {
        let Pending { left, over } = &*self.0.0;
        if left.fetch_add(1u64.wrapping_neg()) == 1 {
            over.set(Step::ThreadWake);
        }
    }
}
