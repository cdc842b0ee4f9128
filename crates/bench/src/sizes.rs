//! Sizes that a row shares with its floor or its peers.

use tidegate_measure::Scale;

/// Releases between two additions; half of the fewest waiters.
pub(crate) const BATCH: u64 = 5;

/// A permutation of `0..count`, so that waiters come in another order than they leave.
pub(crate) fn shuffled(n: u64, count: u64) -> u64 {
    // Coprime to every count that is made of twos, threes and fives.
    const STRIDE: u64 = 7_919;
    n * STRIDE % count
}

/// Values of each of the two fences of the protocol.
pub(crate) const VERDICT_VALUES: u8 = 7;

/// Values of the fence of each of the groups that share no word.
pub(crate) const GROUP_VALUES: u8 = 1;

/// Stack of a thread that only waits, and threads that are released one after the other.
pub(crate) const THREAD_STACK_BYTES: usize = 64 << 10;
pub(crate) const THREAD_RELEASES: u64 = 50;
pub(crate) const BETWEEN_RELEASES_NS: u64 = 1_000_000;

/// Copies in a list of the API's rows, and the bytes of one in a command buffer.
pub(crate) const COPIES_IN_A_LIST: u64 = 100;
pub(crate) const COPY_COMMAND_BYTES: usize = 32;

/// The size of a row of the group `api`: operations that are timed together, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Calls {
    pub(crate) batch: u64,
    pub(crate) batches: u64,
}

impl Calls {
    pub(crate) const fn new(batch: u64, batches: u64) -> Calls {
        Calls { batch, batches }
    }

    /// Fewer batches, and smaller ones where that is not enough.
    pub(crate) fn scaled(self, Scale(divisor): Scale) -> Calls {
        let batches = (self.batches / divisor).max(1);
        let all = (self.batch * self.batches / divisor).max(1);
        Calls { batch: all.div_ceil(batches).min(self.batch), batches }
    }

    pub(crate) fn all(self) -> u64 {
        self.batch * self.batches
    }
}

/// Of peers: round trips, submissions and packets of a stream, schedules, and verdicts by the
/// values of each fence.
pub(crate) const TRIPS: Calls = Calls::new(1, 3_000);
pub(crate) const STREAM: Calls = Calls::new(2_000, 5);
pub(crate) const LONG_STREAM: Calls = Calls::new(1_000_000, 3);
pub(crate) const SCHEDULES: Calls = Calls::new(10_000, 3);
pub(crate) const VERDICTS: Calls = Calls::new(VERDICT_VALUES as u64, 3);

pub(crate) const CALLS: Calls = Calls::new(500, 200);
pub(crate) const LISTS: Calls = CALLS;
pub(crate) const LONG_LISTS: Calls = Calls::new(50, 200);
pub(crate) const WAKES: Calls = Calls::new(1, 2_000);
/// Queues and fences that exist at the same time.
pub(crate) const QUEUES: Calls = Calls::new(1_024, 64);
pub(crate) const FENCES: Calls = Calls::new(15_625, 64);
pub(crate) const FEW_FENCES: Calls = Calls::new(100, 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_divides_all_calls() {
        assert_eq!((FENCES.all(), QUEUES.all()), (1_000_000, 65_536));
        assert_eq!(CALLS.scaled(Scale(1)), CALLS);
        assert_eq!(CALLS.scaled(Scale(100)), Calls { batch: 500, batches: 2 });
        assert_eq!(FENCES.scaled(Scale(1_000)).all(), 1_000);
        assert_eq!(CALLS.scaled(Scale(1 << 40)), Calls { batch: 1, batches: 1 });
    }

    #[test]
    fn every_waiter_comes_once() {
        for count in [10, 100_000] {
            let mut seen = vec![false; count as usize];
            (0..count).for_each(|n| seen[shuffled(n, count) as usize] = true);
            assert!(seen.iter().all(|s| *s), "{count}");
        }
    }
}
