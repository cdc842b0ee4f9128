//! Random numbers of the programs that are compared with brute force.

use tidegate_explorer::random_numbers::Numbers;

/// Numbers by remainder, as the seeds of the tests were chosen for.
pub struct Dice(Numbers);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(Numbers::new(seed))
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.draw() % bound
    }
}
