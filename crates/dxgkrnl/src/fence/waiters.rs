//! The waiters of a fence under their lock, and the word that a CPU signal loads instead of it.
//!
//! The word holds the smallest awaited value: `u64::MAX` without waiters, 0 if every signal must
//! look at the waiters. The word and CurrentValue are a store-buffering pair. A waiter enters the
//! set, stores the word, executes a full barrier and loads CurrentValue. A signal stores
//! CurrentValue, executes a full barrier and loads the word. At least one of the two sees the other
//! (decisions/0093).
//!
//! Invariant: the word is stored before the lock that changed the waiters is dropped, so the last
//! store has the latest minimum.

use super::waiter_set::WaiterSet;
use std::ops::{Deref, DerefMut};
use tidegate_platform::{Mutex, MutexGuard, Platform, Word};

/// The waiters of one fence.
pub(crate) struct Waiters<W> {
    set: Mutex<WaiterSet<W>>,
    awaited: Word,
}

impl<W> Waiters<W> {
    pub(super) fn new(platform: &Platform, set: WaiterSet<W>) -> Waiters<W> {
        let awaited = platform.page(1).word(0).named("the smallest awaited value of a fence");
        awaited.store(set.awaited());
        Waiters { set: platform.mutex("waiters of a fence", set), awaited }
    }

    /// Locks the waiters.
    pub(crate) fn lock(&self) -> LockedWaiters<'_, W> {
        LockedWaiters { set: self.set.lock(), awaited: &self.awaited }
    }

    /// Returns whether a signal of `value` may satisfy a waiter. The caller has stored CurrentValue
    /// and executed a full barrier.
    #[inline]
    pub(super) fn may_be_satisfied_by(&self, value: u64) -> bool {
        value >= self.awaited.load()
    }
}

/// The locked waiters. Dropping it stores the word if the smallest awaited value has changed.
pub(crate) struct LockedWaiters<'a, W> {
    set: MutexGuard<'a, WaiterSet<W>>,
    awaited: &'a Word,
}

impl<W> Drop for LockedWaiters<'_, W> {
    fn drop(&mut self) {
        let Some(change) = self.set.take_awaited_change() else { return };
        self.awaited.store(change.value);
        if change.lowered {
            self.awaited.platform().fence();
        }
    }
}

impl<W> Deref for LockedWaiters<'_, W> {
    type Target = WaiterSet<W>;

    fn deref(&self) -> &WaiterSet<W> {
        &self.set
    }
}

impl<W> DerefMut for LockedWaiters<'_, W> {
    fn deref_mut(&mut self) -> &mut WaiterSet<W> {
        &mut self.set
    }
}
