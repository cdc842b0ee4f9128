//! The pseudo-random order in which an engine continues commands that overlap.

/// The pseudo-random order of an engine (xorshift).
pub(super) struct RandomOrder {
    state: u64,
}

impl RandomOrder {
    pub(super) fn new(seed: u64, engine: usize) -> RandomOrder {
        let spread = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        RandomOrder { state: spread.wrapping_add(engine as u64) | 1 }
    }

    /// Returns a number below `choices`.
    pub(super) fn pick(&mut self, choices: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 32) as usize % choices.max(1)
    }
}
