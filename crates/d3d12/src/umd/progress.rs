//! Reads a fence's value in user mode. On a GPU that updates only 32 bits atomically, the value is
//! extended from its low half and the value read last.
//!
//! A reader that lags by more than `low_half::WINDOW` values returns a wrong upper half. The
//! kernel's waits do not depend on this value.

use tidegate_calls::ReadOnly;
use tidegate_d3dukmdt::low_half;
use tidegate_platform::{Platform, Word};

/// A reader of a fence's value.
#[derive(Clone, Debug)]
pub(crate) struct FenceReader {
    value: ReadOnly,
    /// The value read last; `None` if `value` holds all 64 bits.
    known: Option<Word>,
}

impl FenceReader {
    /// Returns a reader of `value`, which is now `initial_value`, or its low half if
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

    /// Returns the present value; `u64::MAX` if the device was lost.
    #[inline]
    pub(crate) fn load(&self) -> u64 {
        match &self.known {
            None => self.value.load(),
            Some(known) => followed(&self.value, known),
        }
    }
}

/// Extends the low half of `value`. Concurrent readers may overwrite each other's `known`; either
/// value is recent enough.
fn followed(value: &ReadOnly, known: &Word) -> u64 {
    let stored = value.load();
    if stored == u64::MAX {
        return stored;
    }
    let now = low_half::follow(known.load(), stored as u32);
    known.store(now);
    now
}
