//! Decides how often an engine looks at the doorbell of a queue that has no known slot.
//!
//! A look takes the doorbell's cache line away from the process that rings, and its next ring waits
//! for the line. While a process rings for each slot and the engine is faster, each ring would
//! wait. If several looks in turn find few slots, the engine therefore looks less often until it
//! finds more at once (decision 91). A look that finds nothing ends this, so a queue that is not
//! in a stream is looked at without a pause.

/// A look that finds fewer slots was too early.
const FEW_SLOTS: u64 = 4;

/// The longest pause is half of this, about half a microsecond.
const LONGEST: u32 = 63;

/// The looks at one doorbell.
#[derive(Default)]
pub(crate) struct Looks {
    /// The number of known slots at the last look.
    known: u64,
    /// Twice the pause before the next look.
    pause: u32,
}

impl Looks {
    /// Returns how many turns of an empty loop pass before the next look. `known` slots were
    /// published until now.
    #[inline]
    pub(crate) fn pause_before(&mut self, known: u64) -> u32 {
        let found = known - self.known;
        if found == 0 && self.pause == 0 { 0 } else { self.pause_after(found) }
    }

    #[inline(never)]
    fn pause_after(&mut self, found: u64) -> u32 {
        self.known += found;
        self.pause = match found {
            0 => 0,
            1..FEW_SLOTS => (2 * self.pause + 1).min(LONGEST),
            _ => self.pause,
        };
        // One look that finds few slots is not a stream.
        self.pause / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pauses after looks that found so many slots.
    fn pauses(found: &[u64]) -> Vec<u32> {
        let (mut looks, mut known) = (Looks::default(), 0);
        let pause = |slots: &u64| {
            known += slots;
            looks.pause_before(known)
        };
        found.iter().map(pause).collect()
    }

    #[test]
    fn a_queue_that_is_in_no_stream_is_looked_at_without_a_pause() {
        assert_eq!(pauses(&[0, 0, 1, 0, 3, 0, 100, 0, 1, 0]), [0; 10]);
    }

    #[test]
    fn few_slots_make_looks_rare_up_to_a_limit() {
        assert_eq!(pauses(&[1, 1, 1, 1, 1, 1, 1, 1]), [0, 1, 3, 7, 15, 31, 31, 31]);
    }

    #[test]
    fn enough_slots_keep_a_pause_and_none_ends_it() {
        assert_eq!(pauses(&[1, 2, 3, 4, 100, 3, 0, 1]), [0, 1, 3, 3, 3, 7, 0, 0]);
    }
}
