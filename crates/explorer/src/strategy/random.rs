//! A random walk: every choice with the same chance.
//!
//! **Guarantee.** None in bounded time; every schedule has a chance above 0, so each failure is
//! found in the end, quickly if many schedules show it. The same seed walks the same way. Nothing
//! is remembered between runs.

use super::Strategy;
use crate::random_numbers::Numbers;
use tidegate_platform::Point;

/// A random walk.
pub struct RandomWalk {
    seed: u64,
    run: u64,
    numbers: Numbers,
}

impl RandomWalk {
    /// Walks that start from `seed`.
    pub fn new(seed: u64) -> RandomWalk {
        RandomWalk { seed, run: 0, numbers: Numbers::new(seed) }
    }
}

impl Strategy for RandomWalk {
    fn begin(&mut self) -> bool {
        // Each run has a stream of its own: what one run draws does not move the next.
        self.numbers = Numbers::new(Numbers::new(self.seed ^ self.run.rotate_left(32)).next());
        self.run += 1;
        true
    }

    fn choose(&mut self, point: &Point<'_>) -> usize {
        self.numbers.below(point.choices.len())
    }
}
