//! A random walk: all choices have the same probability.
//!
//! **Guarantee.** None in bounded time. Every schedule has a probability above 0, so each failure
//! is found eventually, and quickly if many schedules show it. The same seed gives the same walk.
//! Runs share no state.

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
    /// Creates walks from `seed`.
    pub fn new(seed: u64) -> RandomWalk {
        RandomWalk { seed, run: 0, numbers: Numbers::new(seed) }
    }
}

impl Strategy for RandomWalk {
    fn begin(&mut self) -> bool {
        // Each run has its own stream, so the draws of one run do not affect the next.
        self.numbers = Numbers::new(Numbers::new(self.seed ^ self.run.rotate_left(32)).draw());
        self.run += 1;
        true
    }

    fn choose(&mut self, point: &Point<'_>) -> usize {
        self.numbers.below(point.choices.len() as u64) as usize
    }
}
