//! The state of a thread of `interpret` between two instructions.

/// Maximum number of instructions of a program.
pub const MAX_INSTRUCTIONS: u32 = 256;
/// Maximum number of instructions that a thread executes.
pub const MAX_STEPS: u32 = 4096;
/// Number of registers per thread.
pub const REGISTERS: usize = 16;

/// A thread between two instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ThreadState {
    /// Index of the next instruction.
    pub(super) at: u32,
    /// Number of executed instructions.
    pub(super) steps: u32,
    pub(super) registers: [u32; REGISTERS],
}

impl ThreadState {
    pub(super) fn words(&self) -> Vec<u64> {
        let mut words = vec![u64::from(self.at) | u64::from(self.steps) << 32];
        words.extend(
            self.registers
                .as_chunks::<2>()
                .0
                .iter()
                .map(|[low, high]| u64::from(*low) | u64::from(*high) << 32),
        );
        words
    }

    pub(super) fn from_words(words: &[u64]) -> Option<ThreadState> {
        let (head, rest) = words.split_first()?;
        let (at, steps) = (*head as u32, (*head >> 32) as u32);
        let mut registers = [0; REGISTERS];
        for (pair, word) in
            registers.as_chunks_mut::<2>().0.iter_mut().zip(rest.get(..REGISTERS / 2)?)
        {
            *pair = [*word as u32, (*word >> 32) as u32];
        }
        // A position beyond the end ends the thread, as if its code had become shorter meanwhile.
        (at <= MAX_INSTRUCTIONS && steps <= MAX_STEPS).then_some(ThreadState {
            at,
            steps,
            registers,
        })
    }
}
