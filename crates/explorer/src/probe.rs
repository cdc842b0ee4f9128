//! Notes that agents leave for a scenario's check. No agent reads a note, so it is no part of the
//! machine: taking it is no step, makes no choice and adds no state.

use std::sync::{Arc, OnceLock};

/// How many notes a [`Probe`] holds.
pub const NOTES: usize = 24;

/// A few numbered notes, each written at most once in a run and read after it. Agents must not read
/// them.
#[derive(Clone, Debug, Default)]
pub struct Probe {
    notes: Arc<[OnceLock<u64>; NOTES]>,
}

impl Probe {
    /// A probe without notes.
    pub fn new() -> Probe {
        Probe::default()
    }

    /// Notes `value` in `slot` (below [`NOTES`]); the first note stays.
    pub fn note(&self, slot: usize, value: u64) {
        // A second note in the same slot says that something happened again.
        let _ = self.notes[slot].set(value);
    }

    /// Notes `value` in `first`, or in `second` when `first` is taken.
    pub fn note_either(&self, first: usize, second: usize, value: u64) {
        if self.notes[first].set(value).is_err() {
            self.note(second, value);
        }
    }

    /// What was noted in `slot`.
    pub fn seen(&self, slot: usize) -> Option<u64> {
        self.notes[slot].get().copied()
    }
}
