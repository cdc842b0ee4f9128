//! Notes that agents take for a scenario's check. Agents never read notes, so they are no part of
//! the machine: a note is not a step, makes no choice and adds no state.

use std::sync::{Arc, OnceLock};

/// Number of notes of a [`Probe`].
pub const NOTES: usize = 24;

/// Numbered notes, each set at most once in a run and read after it. Agents must not read them.
#[derive(Clone, Debug, Default)]
pub struct Probe {
    notes: Arc<[OnceLock<u64>; NOTES]>,
}

impl Probe {
    /// Creates a probe without notes.
    pub fn new() -> Probe {
        Probe::default()
    }

    /// Sets the note `slot` (below [`NOTES`]) to `value`. The first value is kept.
    pub fn note(&self, slot: usize, value: u64) {
        // An error means that the note is already set.
        let _ = self.notes[slot].set(value);
    }

    /// Sets the note `first`, or `second` if `first` is already set.
    pub fn note_either(&self, first: usize, second: usize, value: u64) {
        if self.notes[first].set(value).is_err() {
            self.note(second, value);
        }
    }

    /// Returns the value of a note.
    pub fn seen(&self, slot: usize) -> Option<u64> {
        self.notes[slot].get().copied()
    }
}
