//! Durations: statistics ([`Durations`]), and text with a unit ([`duration`], [`durations`]).
//!
//! The count and the maximum are exact. The median and the 99th percentile are exact up to [`KEPT`]
//! durations, and sampled beyond: every second is kept, then every fourth, and so on. Buckets would
//! round the maximum, which tests compare exactly, and the medians of short runs.

/// Durations that are kept.
const KEPT: usize = 4096;

/// Durations of one thing, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    count: u64,
    max_ns: u64,
    kept_ns: Vec<u64>,
    /// One duration in 2 to this power is kept.
    halvings: u32,
}

impl Durations {
    /// Counts a duration.
    pub fn add(&mut self, ns: u64) {
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

    /// Adds the durations of `more`. The median and p99 are exact while both have kept every one.
    pub fn merge(&mut self, more: &Durations) {
        more.kept_ns.iter().for_each(|ns| self.add(*ns));
        self.count += more.count - more.kept_ns.len() as u64;
        self.max_ns = self.max_ns.max(more.max_ns);
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest, in nanoseconds; 0 without a duration.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The median, in nanoseconds; 0 without a duration.
    pub fn median_ns(&self) -> u64 {
        self.at(50)
    }

    /// The 99th percentile, in nanoseconds; 0 without a duration.
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

/// Digits of the longest duration of a row, at least.
const LEAST_DIGITS: usize = 4;

/// A duration in nanoseconds as text: four digits and a unit.
pub fn duration(ns: u64) -> String {
    durations(&[ns]).concat()
}

/// Durations in nanoseconds as text with one unit and one precision, so that they compare at a
/// glance.
pub fn durations(all_ns: &[u64]) -> Vec<String> {
    let longest = all_ns.iter().copied().max().unwrap_or(0);
    let (divisor, unit) = match longest {
        0..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "µs"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let whole = (longest / divisor).max(1).ilog10() as usize + 1;
    let most = if divisor == 1 { 0 } else { 3 };
    let digits = LEAST_DIGITS.saturating_sub(whole).min(most);
    all_ns.iter().map(|ns| format!("{:.digits$} {unit}", *ns as f64 / divisor as f64)).collect()
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

    #[test]
    fn a_row_of_durations_has_one_unit_and_one_precision() {
        assert_eq!(
            super::durations(&[10_054_321, 9_987_654, 9_956_789]),
            ["10.05 ms", "9.99 ms", "9.96 ms"]
        );
        assert_eq!(super::durations(&[1_496_709, 1_146_730]), ["1.497 ms", "1.147 ms"]);
        assert_eq!(super::durations(&[113_000, 60_600, 400]), ["113.0 µs", "60.6 µs", "0.4 µs"]);
        assert_eq!(super::durations(&[12_900_000_000, 5]), ["12.90 s", "0.00 s"]);
        assert_eq!(super::durations(&[7, 0]), ["7 ns", "0 ns"]);
        assert_eq!(super::durations(&[]), Vec::<String>::new());
        assert_eq!([0, 2_000_000_000].map(duration), ["0 ns", "2.000 s"]);
    }

    #[test]
    fn merged_durations_count_what_was_not_kept() {
        let (mut few, mut many) = (Durations::default(), Durations::default());
        (1..=10).for_each(|ns| few.add(ns));
        // One in four is kept, and the largest is not.
        (0..10_000).for_each(|ns| many.add(ns));
        few.merge(&many);
        assert_eq!((few.count(), few.max_ns()), (10_010, 9_999));
        assert!(few.median_ns().abs_diff(5_000) < 50, "{}", few.median_ns());
    }

    #[test]
    fn a_unit_begins_with_one_of_it() {
        let whole = [1_000, 1_000_000, 1_000_000_000].map(duration);
        assert_eq!(whole, ["1.000 µs", "1.000 ms", "1.000 s"]);
        assert_eq!([999, 1].map(duration), ["999 ns", "1 ns"]);
    }
}
