//! Marks all work that a device has queued at one moment.
//!
//! A packet context drops its part with a software signal behind its queued work. A hardware queue
//! does so by its progress fence: for a user-mode queue, at the last value announced by the
//! process. A process that announces too much keeps its memory in use while its queue lives. One
//! that announces too little faults.

use std::sync::Arc;
use tidegate_platform::{Event, Platform, Step, Word};
use tidegate_vidmm::LastUse;

struct Pending {
    /// Number of outstanding parts.
    left: Word,
    /// Set when the last part is dropped.
    over: Event,
}

/// The work queued at one moment.
#[derive(Clone)]
pub(crate) struct UseMark(Arc<Pending>);

impl UseMark {
    /// Creates a mark without parts. `over` is set when its last part is dropped.
    pub(crate) fn new(platform: &Platform, over: &Event) -> UseMark {
        UseMark(Arc::new(Pending { left: platform.page(1).word(0), over: over.clone() }))
    }

    /// Returns whether all marked work is complete.
    pub(crate) fn is_over(&self) -> bool {
        self.0.left.load() == 0
    }

    /// Adds one queue's part.
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

/// One queue's part in a mark: dropped when that work is complete or will never run.
pub(crate) struct InUse(UseMark);

impl Drop for InUse {
    fn drop(&mut self) {
        let Pending { left, over } = &*self.0.0;
        if left.fetch_add(1u64.wrapping_neg()) == 1 {
            over.set(Step::ThreadWake);
        }
    }
}
