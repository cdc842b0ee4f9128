//! The fences that queued signals and waits are for. Each stays alive until its queue is past the
//! last of them. So a queued signal never reaches the next fence in the same storage, and a queued
//! wait ends by its value alone (`decisions/0057`).
//!
//! The queue numbers each use: by ring slots, or by progress values. Fences are released lazily:
//! when the list has grown, and when the queue is idle. The caller holds the queue's submitter
//! lock.

use crate::umd::fence::FenceObject;
use std::collections::BTreeMap;
use std::sync::Arc;

const COLLECT_FIRST: usize = 64;

pub(crate) struct HeldFences {
    /// By handle, with the number that the queue has to reach.
    fences: BTreeMap<u32, (Arc<FenceObject>, u64)>,
    collect_at: usize,
}

impl HeldFences {
    pub(crate) fn new() -> HeldFences {
        HeldFences { fences: BTreeMap::new(), collect_at: COLLECT_FIRST }
    }

    /// Keeps `fence` until the queue has reached `until`, which is not below that of any use
    /// before.
    #[inline]
    pub(crate) fn hold(&mut self, fence: &Arc<FenceObject>, until: u64) {
        let entry = self.fences.entry(fence.handle().0);
        entry.or_insert_with(|| (Arc::clone(fence), until)).1 = until;
    }

    /// Whether so many fences are held that the queue's progress is worth reading.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.fences.len() >= self.collect_at
    }

    /// Releases the fences whose last use is behind the queue, which has reached `reached`.
    pub(crate) fn collect(&mut self, reached: u64) {
        self.fences.retain(|_, (_, until)| *until > reached);
        self.collect_at = COLLECT_FIRST.max(2 * self.fences.len());
    }

    /// Whether many fences are held that the queue does not release by reaching `queued`, which was
    /// queued last.
    pub(crate) fn want_marker(&self, queued: u64) -> bool {
        self.fences.len() >= COLLECT_FIRST && self.fences.values().any(|(_, until)| *until > queued)
    }

    /// Takes over what another queue held, until this one has reached `until`.
    pub(crate) fn take_over(&mut self, from: &mut HeldFences, until: u64) {
        for (fence, _) in std::mem::take(&mut from.fences).into_values() {
            self.hold(&fence, until);
        }
    }
}
