//! Sizes that a row and its floor share.

/// Releases between two additions; half of the fewest waiters.
pub(super) const BATCH: u64 = 5;

/// A permutation of `0..count`, so that waiters come in another order than they leave.
pub(super) fn shuffled(n: u64, count: u64) -> u64 {
    // Coprime to every count that is made of twos, threes and fives.
    const STRIDE: u64 = 7_919;
    n * STRIDE % count
}

/// Values of each of the two fences of the protocol.
pub(super) const VERDICT_VALUES: u8 = 1;

/// Engines, and with them pending timers.
pub(super) const NODES: u32 = 48;

/// How long a thread sleeps before it is woken.
pub(super) const ASLEEP_NS: u64 = 70_000;

#[cfg(test)]
mod tests {
    use super::shuffled;

    #[test]
    fn every_waiter_comes_once() {
        for count in [10, 100_000] {
            let mut seen = vec![false; count as usize];
            (0..count).for_each(|n| seen[shuffled(n, count) as usize] = true);
            assert!(seen.iter().all(|s| *s), "{count}");
        }
    }
}
