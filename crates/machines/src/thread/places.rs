//! What the process keeps for each living thread: a row of counts, and an announcement of the value
//! that the thread uses.
//!
//! Invariants
//! - One living thread at most has a row, or an announcement. A lock orders the thread before that
//!   had it.
//! - Both are given back when the thread ends. A thread that is about to end gets neither.
//! - A forked child gives nothing back: another thread of its parent may have had the lock.

use std::cell::Cell;
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Rows that a thread has to itself. All other threads share the next one.
pub const ROWS: usize = 7;
/// No row yet.
const UNKNOWN: usize = usize::MAX;

/// What a thread announces, in a cache line of its own.
#[repr(align(64))]
pub(crate) struct User(pub(crate) AtomicUsize);

struct Places {
    /// The rows without a thread.
    free_rows: [bool; ROWS],
    /// All announcements that were ever made, as many as threads lived at the same time.
    users: Vec<&'static User>,
    /// Those of ended threads.
    free_users: Vec<&'static User>,
}

static PLACES: Mutex<Places> =
    Mutex::new(Places { free_rows: [true; ROWS], users: Vec::new(), free_users: Vec::new() });

thread_local! {
    static ROW: Cell<usize> = const { Cell::new(UNKNOWN) };
    /// The announcement of the thread, if it has one.
    pub(crate) static USER: Cell<Option<&'static User>> = const { Cell::new(None) };
    static POSSESSION: Possession = const { Possession { process: Cell::new(0) } };
}

/// Gives back what the thread has when the thread ends.
struct Possession {
    /// The number of the process in which the thread took something; 0 for nothing.
    process: Cell<u32>,
}

impl Drop for Possession {
    fn drop(&mut self) {
        let (row, user) = (ROW.replace(ROWS), USER.take());
        if self.process.get() != std::process::id() {
            return;
        }
        let mut places = places();
        if row < ROWS {
            places.free_rows[row] = true;
        }
        places.free_users.extend(user);
    }
}

fn places() -> MutexGuard<'static, Places> {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether the thread will give back what it takes.
fn may_possess() -> bool {
    POSSESSION.try_with(|possession| possession.process.set(std::process::id())).is_ok()
}

/// Returns the row of the calling thread, if it is below [`ROWS`]. No other living thread has it.
#[inline]
pub fn row() -> usize {
    ROW.get()
}

/// Returns the row of the calling thread, which gets one if it has not asked before; [`ROWS`] if
/// all are taken, or the thread is about to end.
pub fn take_row() -> usize {
    if ROW.get() != UNKNOWN {
        return ROW.get();
    }
    let free = || {
        let mut places = places();
        let row = places.free_rows.iter().position(|is_free| *is_free)?;
        places.free_rows[row] = false;
        Some(row)
    };
    let row = may_possess().then(free).flatten().unwrap_or(ROWS);
    ROW.set(row);
    row
}

/// Gives the calling thread an announcement, unless it is about to end.
pub(crate) fn become_user() {
    if USER.get().is_some() || !may_possess() {
        return;
    }
    let mut places = places();
    let user = places.free_users.pop().unwrap_or_else(|| {
        let made: &User = Box::leak(Box::new(User(AtomicUsize::new(0))));
        places.users.push(made);
        made
    });
    USER.set(Some(user));
}

/// Returns all announcements, also of ended threads.
pub(crate) fn users() -> Vec<&'static User> {
    places().users.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_ends_without_the_lock_of_its_parent() {
        let of_another_thread = places();
        drop(Possession { process: Cell::new(std::process::id() ^ 1) });
        drop(of_another_thread);
    }
}
