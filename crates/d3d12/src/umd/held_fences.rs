//! Fences held for queued signals and waits. Each is kept alive until its queue has passed the last
//! of them. So a queued signal never writes to a later fence in the same storage, and a queued wait
//! ends only by its value (`decisions/0057`).
//!
//! The queue numbers each use: by ring slots, or by progress values. Fences are released lazily,
//! when the list has grown or the queue is idle. The caller holds the queue's submitter lock.

use crate::umd::fence::FenceObject;
use std::collections::BTreeMap;
use std::sync::Arc;

const COLLECT_FIRST: usize = 64;

pub(crate) struct HeldFences {
    /// Fences by handle, with the number that the queue must reach.
    fences: BTreeMap<u32, (Arc<FenceObject>, u64)>,
    collect_at: usize,
}

impl HeldFences {
    pub(crate) fn new() -> HeldFences {
        HeldFences { fences: BTreeMap::new(), collect_at: COLLECT_FIRST }
    }

    /// Holds `fence` until the queue has reached `until`, which must not be below that of an
    /// earlier use.
    #[inline]
    pub(crate) fn hold(&mut self, fence: &Arc<FenceObject>, until: u64) {
        let entry = self.fences.entry(fence.handle().0);
        entry.or_insert_with(|| (Arc::clone(fence), until)).1 = until;
    }

    /// Returns whether enough fences are held to justify reading the queue's progress.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.fences.len() >= self.collect_at
    }

    /// Releases the fences whose last use the queue has passed. `reached` is its progress.
    pub(crate) fn collect(&mut self, reached: u64) {
        self.fences.retain(|_, (_, until)| *until > reached);
        self.collect_at = COLLECT_FIRST.max(2 * self.fences.len());
    }

    /// Returns whether many fences would still be held after the queue reaches `queued`, the number
    /// queued last.
    pub(crate) fn want_marker(&self, queued: u64) -> bool {
        self.fences.len() >= COLLECT_FIRST && self.fences.values().any(|(_, until)| *until > queued)
    }

    /// Takes over the fences of another queue until this one has reached `until`.
    pub(crate) fn take_over(&mut self, from: &mut HeldFences, until: u64) {
        for (fence, _) in std::mem::take(&mut from.fences).into_values() {
            self.hold(&fence, until);
        }
    }
}
