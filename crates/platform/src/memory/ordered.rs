//! Accesses to a [`Word`] with the orders of std's atomics, for [`crate::check`].
//!
//! On the explored platform a relaxed or releasing store goes through the store buffer, and a
//! sequentially consistent one drains it, as on x86. The clocks of the race detector follow the
//! order that was named.

use super::Word;
use crate::world;
use std::sync::atomic::Ordering;

impl Word {
    pub(crate) fn load_as(&self, order: Ordering) -> u64 {
        match self.explored() {
            None => self.cell().load(order),
            Some(word) => world::load_as(word, order),
        }
    }

    pub(crate) fn store_as(&self, value: u64, order: Ordering) {
        match self.explored() {
            None => self.cell().store(value, order),
            Some(word) if order == Ordering::SeqCst => world::store_through(word, value, order),
            Some(word) => world::store_as(word, value, order),
        }
    }

    /// Replaces the value unless `new` returns `None`. Returns the previous value.
    pub(crate) fn update_as(
        &self,
        (update, load): (Ordering, Ordering),
        new: impl FnMut(u64) -> Option<u64>,
    ) -> u64 {
        match self.explored() {
            None => match self.cell().fetch_update(update, load, new) {
                Ok(old) | Err(old) => old,
            },
            Some(word) => world::update_as(word, (update, load), new),
        }
    }

    /// Replaces the value and wakes all waiters, without a step: an agent that unwinds must not be
    /// switched.
    pub(crate) fn update_at_once(&self, new: impl Fn(u64) -> u64) {
        match self.explored() {
            None => {
                self.update_as((Ordering::AcqRel, Ordering::Acquire), |old| Some(new(old)));
                self.wake(u32::MAX, crate::Step::ThreadWake);
            }
            Some(word) => world::update_at_once(word, new),
        }
    }
}
