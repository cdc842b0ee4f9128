//! The room of a process for queued work: what is left of its limit, and the updates of reserved
//! addresses that wait outside of its queues.

use crate::object::tile_update::TileUpdate;
use std::sync::{Arc, Weak};

/// The room of a process with a limit.
#[derive(Default)]
pub(super) struct QueueRoom {
    pub(super) left: usize,
    /// Updates that waited for their fences at the last count, and those since, with their costs.
    /// Each has taken room, so the limit bounds their number.
    updates: Vec<(Weak<TileUpdate>, usize)>,
}

impl QueueRoom {
    /// Counts an update for as long as it waits.
    pub(super) fn add_update(&mut self, update: &Arc<TileUpdate>, cost: usize) {
        self.updates.push((Arc::downgrade(update), cost));
    }

    /// Returns what the updates count for that wait now, and forgets the others.
    pub(super) fn cost_of_updates(&mut self) -> usize {
        self.updates.retain(|(update, _)| update.strong_count() > 0);
        self.updates.iter().map(|(_, cost)| cost).sum()
    }
}
