//! Fences held for queued signals. Each is kept alive until its queue has passed the last of them.
//! So a queued signal never writes to a later fence in the same storage. A queued wait holds no
//! fence and ends with it (NF-107, `decisions/0057`).
//!
//! The queue numbers each use: by ring slots, or by progress values. Fences are released lazily,
//! when the list has grown or the queue is idle. The caller holds the queue's submitter lock.

use crate::umd::fence::FenceObject;
use std::collections::BTreeMap;
use std::sync::Arc;

const COLLECT_FIRST: usize = 64;
/// Fences that are found without a search.
const RECENT: usize = 8;

struct Held {
    fence: Arc<FenceObject>,
    /// The number that the queue must reach.
    until: u64,
}

pub(crate) struct HeldFences {
    held: Vec<Held>,
    /// Positions in `held` by handle.
    positions: BTreeMap<u32, usize>,
    /// Positions that were used last, each at the place of its handle. They may be out of date.
    recent: [usize; RECENT],
    collect_at: usize,
}

impl HeldFences {
    pub(crate) fn new() -> HeldFences {
        HeldFences {
            held: Vec::new(),
            positions: BTreeMap::new(),
            recent: [0; RECENT],
            collect_at: COLLECT_FIRST,
        }
    }

    /// Holds `fence` until the queue has reached `until`, which must not be below the value of an
    /// earlier use.
    #[inline]
    pub(crate) fn hold(&mut self, fence: &Arc<FenceObject>, until: u64) {
        let recent = self.recent[place(fence)];
        match self.held.get_mut(recent) {
            Some(held) if Arc::ptr_eq(&held.fence, fence) => held.until = until,
            _ => self.hold_another(fence, until),
        }
    }

    #[inline(never)]
    fn hold_another(&mut self, fence: &Arc<FenceObject>, until: u64) {
        let end = self.held.len();
        let position = *self.positions.entry(fence.handle().0).or_insert(end);
        match self.held.get_mut(position) {
            Some(held) => held.until = until,
            None => self.held.push(Held { fence: Arc::clone(fence), until }),
        }
        self.recent[place(fence)] = position;
    }

    /// Returns whether enough fences are held to justify reading the queue's progress.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.held.len() >= self.collect_at
    }

    /// Releases the fences whose last use the queue has passed. `reached` is its progress.
    pub(crate) fn collect(&mut self, reached: u64) {
        self.held.retain(|held| held.until > reached);
        let handles = self.held.iter().map(|held| held.fence.handle().0);
        self.positions = handles.zip(0..).collect();
        self.collect_at = COLLECT_FIRST.max(2 * self.held.len());
    }

    /// Returns whether many fences would still be held after the queue reaches `queued`, the number
    /// queued last.
    pub(crate) fn want_marker(&self, queued: u64) -> bool {
        self.held.len() >= COLLECT_FIRST && self.held.iter().any(|held| held.until > queued)
    }

    /// Takes over the fences of another queue until this one has reached `until`.
    pub(crate) fn take_over(&mut self, from: &mut HeldFences, until: u64) {
        for held in std::mem::replace(from, HeldFences::new()).held {
            self.hold(&held.fence, until);
        }
    }
}

#[inline]
fn place(fence: &FenceObject) -> usize {
    let mixed = fence.handle().0.wrapping_mul(0x9E37_79B9);
    (mixed >> (u32::BITS - RECENT.ilog2())) as usize
}
