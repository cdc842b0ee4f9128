//! The recorder of an agent or thread. It holds records of one platform.

use crate::{Inner, Platform};
use std::sync::{Arc, Weak};
use tidegate_trace::{Record, Recorder};

/// The recorder of an agent or thread, and the platform of its records.
pub(crate) struct OwnRecorder {
    recorder: Recorder,
    /// Weak: a thread may live longer than the platform.
    of: Weak<Inner>,
}

impl OwnRecorder {
    fn new(platform: &Platform) -> OwnRecorder {
        OwnRecorder { recorder: Recorder::new(), of: Arc::downgrade(&platform.inner) }
    }

    fn is_of(&self, platform: &Platform) -> bool {
        std::ptr::eq(self.of.as_ptr(), Arc::as_ptr(&platform.inner))
    }

    /// Merges the records into the trace of their platform, if it still exists.
    pub(crate) fn give_back(mut self) {
        if let Some(inner) = self.of.upgrade() {
            inner.tracing.with_builder(|builder| builder.append(self.recorder.take()));
        }
    }

    /// Adds a record of `platform` to the recorder in `own`. Returns a recorder of another platform
    /// that was in its place.
    #[inline]
    pub(crate) fn push(
        own: &mut Option<OwnRecorder>,
        platform: &Platform,
        record: Record,
    ) -> Option<Self> {
        let before = own.take_if(|own| !own.is_of(platform));
        own.get_or_insert_with(|| OwnRecorder::new(platform)).recorder.push(record);
        before
    }
}
