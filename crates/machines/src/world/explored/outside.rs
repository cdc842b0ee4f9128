//! Accesses to an explored machine outside of its run: while it is built, and while it ends.
//!
//! Invariants: no agent runs or sleeps then, and nothing is recorded. An access therefore acts on
//! memory at once, and the owner of a lock is the only one that can want it. While clocks are kept,
//! accesses take the path of a run, because the clocks follow each of them.
//!
//! Entry points: the accesses of the seam, with the names and the contracts of [`super`].

use crate::cells::{BulkCells, OwnedPage, Owner, WordRef};
use crate::world::explored;
use crate::world::machine::{changes_outside, is_outside};
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[inline]
fn put(word: WordRef<'_>, value: u64) {
    word.page.cells().put(word.index as usize, value);
}

/// Loads a word, with acquire order.
#[inline]
pub fn load(word: WordRef<'_>) -> u64 {
    load_as(word, Ordering::Acquire)
}

/// Loads a word that an untrusted process writes.
#[inline]
pub fn load_untrusted(word: WordRef<'_>) -> u64 {
    if word.page.is_hostile() { explored::load_hostile(word) } else { load(word) }
}

/// Loads a word; `order` matters to the clocks only.
#[inline]
pub fn load_as(word: WordRef<'_>, order: Ordering) -> u64 {
    if is_outside() { word.cell().load(Ordering::Relaxed) } else { explored::load_as(word, order) }
}

/// Stores to a word of the page, with release order.
#[inline]
pub fn store<O: Owner>(page: &OwnedPage<O>, index: u32, value: u64) {
    store_as(page, index, value, Ordering::Release);
}

/// Stores to a word of the page; `order` matters to the clocks only.
#[inline]
pub fn store_as<O: Owner>(page: &OwnedPage<O>, index: u32, value: u64, order: Ordering) {
    if changes_outside() {
        put(WordRef { page, index }, value);
    } else {
        explored::store_as(page, index, value, order);
    }
}

/// Replaces the value of a word and returns the previous one. A full barrier.
#[inline]
pub fn exchange(word: WordRef<'_>, new: impl FnOnce(u64) -> u64) -> u64 {
    if !changes_outside() {
        return explored::exchange(word, new);
    }
    let old = word.cell().load(Ordering::Relaxed);
    put(word, new(old));
    old
}

/// Adds to a word and returns whether a bit of `mask` was set. A full barrier.
#[inline]
pub fn add_and_test(word: WordRef<'_>, value: u64, mask: u64) -> bool {
    if !changes_outside() {
        return explored::add_and_test(word, value, mask);
    }
    let old = word.cell().load(Ordering::Relaxed);
    put(word, old.wrapping_add(value));
    old & mask != 0
}

/// Executes a full barrier.
#[inline]
pub fn fence() {
    if !is_outside() {
        explored::fence();
    }
}

/// Copies bytes out.
#[inline]
pub fn bulk_read(bulk: &BulkCells, start: usize, out: &mut [u8]) {
    if is_outside() { bulk.copy_out(start, out) } else { explored::bulk_read(bulk, start, out) }
}

/// Copies bytes in.
#[inline]
pub fn bulk_write(bulk: &Arc<BulkCells>, start: usize, data: &[u8]) {
    if changes_outside() { bulk.put(start, data) } else { explored::bulk_write(bulk, start, data) }
}

/// Takes a lock. Outside of a run the lock itself knows whether it is free.
#[inline]
pub fn lock(mutex: u32, name: &'static str) {
    if !is_outside() {
        explored::lock(mutex, name);
    }
}

/// Takes a lock if it is free, as [`lock`] does.
#[inline]
pub fn try_lock(mutex: u32, name: &'static str) -> bool {
    is_outside() || super::program::try_lock(mutex, name)
}

/// Drops a lock.
#[inline]
pub fn unlock(mutex: u32) {
    if !changes_outside() {
        explored::unlock(mutex);
    }
}
