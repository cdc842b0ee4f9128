//! Repeats given choices, then always takes the first one.
//!
//! **Guarantee.** The same run, if the scenario is deterministic. A choice that is not available is
//! replaced by the first. The index of the first such choice is kept: a shrinker continues from it,
//! and a replay reports it.

use super::Strategy;
use tidegate_platform::Point;

/// Repeats given choices.
#[derive(Default)]
pub struct Replay {
    choices: Vec<u16>,
    at: usize,
    misfit: Option<u64>,
}

impl Replay {
    /// Creates a replay of `choices`.
    pub fn new(choices: &[u16]) -> Replay {
        Replay { choices: choices.to_vec(), ..Replay::default() }
    }

    /// Sets the choices of the next run.
    pub fn set(&mut self, choices: &[u16]) {
        self.choices.clear();
        self.choices.extend_from_slice(choices);
        self.at = 0;
        self.misfit = None;
    }

    /// Returns the index of the first choice that was not available or not reached.
    pub fn misfit(&self) -> Option<u64> {
        self.misfit.or((self.at < self.choices.len()).then_some(self.at as u64))
    }
}

impl Strategy for Replay {
    fn begin(&mut self) -> bool {
        self.at = 0;
        self.misfit = None;
        true
    }

    fn choose(&mut self, point: &Point<'_>) -> usize {
        let at = self.at;
        self.at += 1;
        let Some(choice) = self.choices.get(at) else { return 0 };
        let choice = usize::from(*choice);
        if choice >= point.choices.len() {
            self.misfit.get_or_insert(at as u64);
            return 0;
        }
        choice
    }
}
