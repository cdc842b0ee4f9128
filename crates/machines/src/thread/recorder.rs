//! The recorder of an agent or thread. It holds records of one platform.

use std::sync::{Arc, Weak};
use tidegate_trace::{Record, Recorder};

/// A platform, as the owner of records.
pub trait TakesRecords: Send + Sync {
    /// Adds the records to the timeline.
    fn take(&self, records: Vec<Record>);
}

/// The recorder of an agent or thread, and the owner of its records.
pub struct OwnRecorder {
    recorder: Recorder,
    /// Weak: a thread may live longer than the platform.
    of: Weak<dyn TakesRecords>,
}

impl OwnRecorder {
    /// Gives the records to their owner, if it still exists.
    pub fn give_back(mut self) {
        if let Some(owner) = self.of.upgrade() {
            owner.take(self.recorder.take());
        }
    }

    /// Adds a record of `owner` to the recorder in `own`. Returns a recorder of another owner that
    /// was in its place.
    #[inline]
    pub fn push<T: TakesRecords + 'static>(
        own: &mut Option<OwnRecorder>,
        owner: &Arc<T>,
        record: Record,
    ) -> Option<OwnRecorder> {
        let is_of = |own: &mut OwnRecorder| own.of.as_ptr().addr() == Arc::as_ptr(owner).addr();
        let before = own.take_if(|own| !is_of(own));
        let new = || OwnRecorder {
            recorder: Recorder::new(),
            of: Arc::downgrade(owner) as Weak<dyn TakesRecords>,
        };
        own.get_or_insert_with(new).recorder.push(record);
        before
    }
}
