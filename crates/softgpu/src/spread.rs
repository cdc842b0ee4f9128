//! Owns how long something took that happens again and again: how often, the median, the 99th
//! percentile, the longest.
//!
//! It keeps every duration until there are too many; from then on every second, every fourth and so
//! on, so that it stays small and what it says stays near. The number and the longest are always
//! exact.

/// Durations that are kept.
const KEPT: usize = 4096;

/// Durations of one thing, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    count: u64,
    max_ns: u64,
    kept_ns: Vec<u64>,
    /// Of so many, as a power of two, one is kept.
    halvings: u32,
}

impl Spread {
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
    pub(crate) fn merge(&mut self, more: &Spread) {
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
    fn a_hundred_durations_are_told_exactly() {
        let mut spread = Spread::default();
        assert_eq!(
            (spread.count(), spread.median_ns(), spread.p99_ns(), spread.max_ns()),
            (0, 0, 0, 0)
        );
        (1..=100).rev().for_each(|ns| spread.add(ns));
        assert_eq!(
            (spread.count(), spread.median_ns(), spread.p99_ns(), spread.max_ns()),
            (100, 50, 99, 100)
        );
    }

    #[test]
    fn many_durations_stay_small_and_near() {
        let mut spread = Spread::default();
        (0..1_000_000).for_each(|ns| spread.add(ns));
        assert!(spread.kept_ns.len() <= KEPT);
        assert_eq!((spread.count(), spread.max_ns()), (1_000_000, 999_999));
        assert!(spread.median_ns().abs_diff(500_000) < 2_000, "{}", spread.median_ns());
        assert!(spread.p99_ns().abs_diff(990_000) < 2_000, "{}", spread.p99_ns());
    }
}
