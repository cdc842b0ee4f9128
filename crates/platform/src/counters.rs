//! Counts for reports. Any agent adds to them, and no protocol reads them.
//!
//! On the host each thread adds to its row, with a load and a store. Threads beyond
//! [`ROWS`] share one row, with a locked addition. A cooperative machine has one thread and one
//! row.
//!
//! Invariants
//! - One living thread at most has a row of its own ([`row`]).
//! - Adding is no visible step of an explored machine. The sum does not depend on the order of the
//!   additions, and each addition is already part of its agent's history.

use crate::platform::Platform;
use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_machines::thread::{ROWS, row, take_row};

/// The row of the threads that have none to themselves.
const SHARED: usize = ROWS;
/// Counts in a cache line.
const LINE: usize = 8;

/// A set of counts that start at 0.
#[derive(Debug)]
pub struct Counters {
    /// Row by row.
    counts: Box<[AtomicU64]>,
    /// From a row to the next one; 0 if there is one row.
    stride: usize,
}

impl Counters {
    /// Creates `len` counts of 0.
    pub fn new(platform: &Platform, len: usize) -> Counters {
        // A line lies between two rows, so that no line has counts of both.
        let stride = if platform.is_cooperative() { 0 } else { len + LINE };
        let counts = (0..stride * ROWS + len).map(|_| AtomicU64::new(0)).collect();
        Counters { counts, stride }
    }

    /// Adds `by` to count number `index`.
    #[inline]
    pub fn add(&self, index: usize, by: u64) {
        let row = row();
        if row >= SHARED {
            return self.add_to_shared(index, by);
        }
        let count = &self.counts[row * self.stride + index];
        // No other thread adds to it, so nothing is lost in between.
        count.store(count.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn add_to_shared(&self, index: usize, by: u64) {
        match take_row() {
            SHARED => {
                self.counts[SHARED * self.stride + index].fetch_add(by, Ordering::Relaxed);
            }
            _ => self.add(index, by),
        }
    }

    /// Returns count number `index`, for reports only: the behaviour of an agent of an explored
    /// machine must not depend on it.
    pub fn get(&self, index: usize) -> u64 {
        let distance = if self.stride == 0 { self.counts.len() } else { self.stride };
        let of_rows = self.counts[index..].iter().step_by(distance);
        of_rows.fold(0, |sum, count| sum.wrapping_add(count.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn no_addition_is_lost_whatever_the_number_of_threads() {
        const TIMES: u64 = 20_000;
        for threads in [1, 2, 3 * ROWS] {
            let (counters, start) = (Counters::new(&Platform::host(), 11), Barrier::new(threads));
            // A second round takes the rows of threads that have ended.
            for _ in 0..2 {
                std::thread::scope(|scope| {
                    for _ in 0..threads {
                        scope.spawn(|| {
                            start.wait();
                            for _ in 0..TIMES {
                                counters.add(3, 1);
                                counters.add(10, 2);
                            }
                        });
                    }
                });
            }
            let all = 2 * threads as u64 * TIMES;
            assert_eq!((counters.get(3), counters.get(10), counters.get(4)), (all, 2 * all, 0));
        }
    }

    #[test]
    fn threads_that_live_together_have_rows_of_their_own() {
        let (counters, all_have_one) =
            (Counters::new(&Platform::host(), 1), Barrier::new(2 * ROWS));
        let rows = || {
            counters.add(0, 1);
            all_have_one.wait();
            row()
        };
        let mut rows: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2 * ROWS).map(|_| scope.spawn(rows)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        rows.retain(|row| *row != SHARED);
        let many = rows.len();
        rows.sort_unstable();
        rows.dedup();
        assert_eq!(rows.len(), many, "two threads have one row");
    }
}
