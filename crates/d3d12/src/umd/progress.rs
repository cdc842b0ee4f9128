//! Owns how user mode reads a fence's value: as it stands, or, on a GPU that updates only 32 bits
//! atomically, followed from its low half and the value that was read last.
//!
//! A reader that misses more than `low_half::WINDOW` values returns a wrong upper half; the
//! kernel's waits do not depend on this value.

use tidegate_calls::ReadOnly;
use tidegate_d3dukmdt::low_half;
use tidegate_platform::{Platform, Word};

/// The value of a fence.
#[derive(Clone, Debug)]
pub(crate) struct FenceReader {
    value: ReadOnly,
    /// The value read last; `None` where `value` is the whole.
    known: Option<Word>,
}

impl FenceReader {
    /// Reads `value`, which is at `initial_value`; of that it is the low half if
    /// `no_64bit_atomics`.
    pub(crate) fn new(
        platform: &Platform,
        value: ReadOnly,
        initial_value: u64,
        no_64bit_atomics: bool,
    ) -> FenceReader {
        let known = no_64bit_atomics.then(|| platform.page(1).word(0));
        known.iter().for_each(|word| word.store(initial_value));
        FenceReader { value, known }
    }

    /// The value now; `u64::MAX` when the device was lost.
    #[inline]
    pub(crate) fn load(&self) -> u64 {
        match &self.known {
            None => self.value.load(),
            Some(known) => followed(&self.value, known),
        }
    }
}

/// Two concurrent readers may each keep the value that they read: both are recent.
fn followed(value: &ReadOnly, known: &Word) -> u64 {
    let stored = value.load();
    if stored == u64::MAX {
        return stored;
    }
    let now = low_half::follow(known.load(), stored as u32);
    known.store(now);
    now
}
