//! Duration statistics: exact count and maximum, sampled median and 99th percentile.
//!
//! Every duration is kept up to [`KEPT`]; from then on every second, every fourth and so on. Not
//! buckets: they would round the maximum, which tests compare exactly, and the medians of short runs.

/// Durations that are kept.
const KEPT: usize = 4096;

/// Durations of one thing, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    count: u64,
    max_ns: u64,
    kept_ns: Vec<u64>,
    /// Of so many, as a power of two, one is kept.
    halvings: u32,
}

impl Durations {
    pub(crate) fn add(&mut self, ns: u64) {
        if self.count.is_multiple_of(1 << self.halvings) {
            if self.kept_ns.len() == KEPT {
                let mut number = 0;
                self.kept_ns.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
                self.halvings += 1;
            }
            self.kept_ns.push(ns);
        }
        self.count += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds what another counted. The median and p99 are exact while both have kept everything.
    pub(crate) fn merge(&mut self, more: &Durations) {
        more.kept_ns.iter().for_each(|ns| self.add(*ns));
        self.count += more.count - more.kept_ns.len() as u64;
        self.max_ns = self.max_ns.max(more.max_ns);
    }

    /// How often it happened.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest, in nanoseconds; 0 when it never happened.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// What half of them did not exceed, in nanoseconds; 0 when it never happened.
    pub fn median_ns(&self) -> u64 {
        self.at(50)
    }

    /// What 99 of a hundred did not exceed, in nanoseconds; 0 when it never happened.
    pub fn p99_ns(&self) -> u64 {
        self.at(99)
    }

    fn at(&self, percent: usize) -> u64 {
        let mut sorted = self.kept_ns.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(rank).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_durations_are_counted_exactly() {
        let mut durations = Durations::default();
        assert_eq!(
            (durations.count(), durations.median_ns(), durations.p99_ns(), durations.max_ns()),
            (0, 0, 0, 0)
        );
        (1..=100).rev().for_each(|ns| durations.add(ns));
        assert_eq!(
            (durations.count(), durations.median_ns(), durations.p99_ns(), durations.max_ns()),
            (100, 50, 99, 100)
        );
    }

    #[test]
    fn many_durations_stay_small_and_near() {
        let mut durations = Durations::default();
        (0..1_000_000).for_each(|ns| durations.add(ns));
        assert!(durations.kept_ns.len() <= KEPT);
        assert_eq!((durations.count(), durations.max_ns()), (1_000_000, 999_999));
        assert!(durations.median_ns().abs_diff(500_000) < 2_000, "{}", durations.median_ns());
        assert!(durations.p99_ns().abs_diff(990_000) < 2_000, "{}", durations.p99_ns());
    }
}
