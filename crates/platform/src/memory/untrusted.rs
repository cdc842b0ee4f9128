//! The type of memory that untrusted processes write: ring slots, write pointers, doorbells,
//! command buffers, last-queued cells, log payloads.
//!
//! Rule: load once, then validate and use the copy, because the next load may return another value.
//! On an explored platform the strategy chooses the value of each load from hostile memory
//! ([`Page::hand_to_hostile`], [`Bulk::hand_to_hostile`]), so code that loads twice is caught.

use super::{Bulk, OutOfBounds, Page, Word};
use std::borrow::Borrow;

// spec: UMS-170
/// Memory that an untrusted process writes: a [`Word`], a [`Page`] or [`Bulk`] bytes, owned or
/// borrowed.
#[derive(Clone, Debug)]
pub struct Untrusted<T>(T);

impl<T> Untrusted<T> {
    /// Marks `inner` as written by others.
    pub fn new(inner: T) -> Untrusted<T> {
        Untrusted(inner)
    }

    /// Returns the memory itself, for its owner, which trusts its own writes, and for code that
    /// only passes it on.
    pub fn trusted(&self) -> &T {
        &self.0
    }
}

impl<W: Borrow<Word>> Untrusted<W> {
    /// Loads the word once. The next load may return another value.
    #[inline]
    pub fn load_once(&self) -> u64 {
        self.0.borrow().load_untrusted()
    }
}

impl<P: Borrow<Page>> Untrusted<P> {
    /// Loads the word at `index` once; `None` past the end.
    #[inline]
    pub fn word_once(&self, index: usize) -> Option<u64> {
        let page: &Page = self.0.borrow();
        (index < page.len()).then(|| page.word(index).load_untrusted())
    }
}

impl<B: Borrow<Bulk>> Untrusted<B> {
    /// Copies bytes out. The next copy may return other values.
    ///
    /// # Errors
    /// The range lies beyond the end.
    #[inline]
    pub fn read_once(&self, offset: u64, out: &mut [u8]) -> Result<(), OutOfBounds> {
        self.0.borrow().read_untrusted(offset, out)
    }
}
