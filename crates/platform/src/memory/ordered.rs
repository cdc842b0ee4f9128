//! Accesses to a [`Word`] with the orders of std's atomics, for the checker.
//!
//! On the explored platform a relaxed or releasing store goes through the store buffer, and a
//! sequentially consistent one drains it, as on x86. The clocks of the race detector follow the
//! order that was named.

use super::{Watch, Word};
use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_machines::{Step, world};

impl Word {
    /// Loads in this order.
    pub fn load_as(&self, order: Ordering) -> u64 {
        match self.explored() {
            None => self.cell().load(order),
            Some(word) => world::load_as(word, order),
        }
    }

    /// Stores in this order.
    pub fn store_as(&self, value: u64, order: Ordering) {
        match self.watch() {
            None => self.cell().store(value, order),
            Some(Watch::World(word)) if order == Ordering::SeqCst => {
                world::store_through(word, value, order);
            }
            Some(Watch::World(word)) => world::store_as(self.at.page(), word.index, value, order),
            Some(Watch::Copies(watched)) => watched.change(|cell| cell.store(value, order)),
        }
    }

    /// Replaces the value unless `new` returns `None`. Returns the previous value.
    pub fn update_as(
        &self,
        (update, load): (Ordering, Ordering),
        new: impl FnMut(u64) -> Option<u64>,
    ) -> u64 {
        let in_memory = |cell: &AtomicU64, new| match cell.fetch_update(update, load, new) {
            Ok(old) | Err(old) => old,
        };
        match self.watch() {
            None => in_memory(self.cell(), new),
            Some(Watch::World(word)) => world::update_as(word, (update, load), new),
            Some(Watch::Copies(watched)) => watched.change(|cell| in_memory(cell, new)),
        }
    }

    /// Replaces the value and wakes all waiters, without a step: an agent that unwinds must not be
    /// switched.
    pub fn update_at_once(&self, new: impl Fn(u64) -> u64) {
        match self.explored() {
            None => {
                self.update_as((Ordering::AcqRel, Ordering::Acquire), |old| Some(new(old)));
                self.wake(u32::MAX, Step::ThreadWake);
            }
            Some(word) => world::update_at_once(word, new),
        }
    }

    /// Returns the value of a word that only the caller reaches.
    pub fn final_value(&self) -> u64 {
        // Stores that still wait in the caller's own buffer count.
        if self.platform().is_current() {
            self.load_as(Ordering::Relaxed)
        } else {
            self.seen_value()
        }
    }

    /// Returns the value in memory without a step, for reports.
    pub fn seen_value(&self) -> u64 {
        self.cell().load(Ordering::Relaxed)
    }
}
