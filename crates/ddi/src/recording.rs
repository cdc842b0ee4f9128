//! A driver layer that records each call and changes none. It hides the words of `FenceWaitDdi`, so
//! each CPU signal of a native fence is a call of the published entry.

use crate::driver::{DdiCall, Driver, DriverLayer, Entry, EntryGroup};
use std::sync::Arc;
use tidegate_d3dukmdt::Status;
use tidegate_platform::{Mutex, Platform};

/// A driver that records its calls, in order.
pub struct Recording {
    inner: Arc<dyn Driver>,
    calls: Mutex<Vec<DdiCall>>,
}

impl Recording {
    /// Wraps `inner`.
    pub fn new(platform: &Platform, inner: Arc<dyn Driver>) -> Arc<Recording> {
        Arc::new(Recording { inner, calls: platform.mutex("recorded calls", Vec::new()) })
    }

    /// Returns the calls since the last take. Queries for page tables, segments and clocks change
    /// nothing and are left out.
    pub fn take(&self) -> Vec<DdiCall> {
        std::mem::take(&mut *self.calls.lock())
    }

    /// Returns the names of [`Recording::take`], without page tables and interrupts.
    pub fn take_names(&self) -> Vec<&'static str> {
        let frequent = [Entry::UpdatePageTable, Entry::InterruptRoutine, Entry::DpcRoutine];
        let entries = self.take().into_iter().map(|call| call.entry());
        entries.filter(|entry| !frequent.contains(entry)).map(Entry::name).collect()
    }
}

impl DriverLayer for Recording {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn hides(&self, group: EntryGroup) -> bool {
        group == EntryGroup::FenceWaits
    }

    fn before(&self, entry: Entry, call: &dyn Fn() -> DdiCall) -> Result<(), Status> {
        let queries = [Entry::PageTableShape, Entry::QuerySegments, Entry::CalibrateGpuClock];
        if !queries.contains(&entry) {
            self.calls.lock().push(call());
        }
        Ok(())
    }
}
