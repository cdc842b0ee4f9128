//! Owns counts for reports. Any agent adds to them, and no protocol reads them.
//!
//! Invariant: adding is no visible step of an explored machine. The sum does not depend on the
//! order of the additions, and each addition is already part of its agent's history.

use std::sync::atomic::{AtomicU64, Ordering};

/// A row of counts that start at 0.
#[derive(Debug)]
pub struct Counters {
    counts: Box<[AtomicU64]>,
}

impl Counters {
    /// Creates `len` counts of 0.
    pub fn new(len: usize) -> Counters {
        Counters { counts: (0..len).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Adds `by` to count number `index`.
    #[inline]
    pub fn add(&self, index: usize, by: u64) {
        self.counts[index].fetch_add(by, Ordering::Relaxed);
    }

    /// Returns count number `index`, for reports only: the behaviour of an agent of an explored
    /// machine must not depend on it.
    pub fn get(&self, index: usize) -> u64 {
        self.counts[index].load(Ordering::Relaxed)
    }
}
