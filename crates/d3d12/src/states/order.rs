//! The order of submissions by queues, fences and CPU waits, as vector clocks.

/// One submission of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) queue: usize,
    /// The number of the submission on its queue, from 1.
    pub(crate) unit: u64,
}

/// The last submission of each queue that is known to be complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock(Vec<u64>);

impl Clock {
    pub(crate) fn covers(&self, stamp: Stamp) -> bool {
        self.0.get(stamp.queue).is_some_and(|unit| *unit >= stamp.unit)
    }

    pub(crate) fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    pub(crate) fn reach(&mut self, stamp: Stamp) {
        if self.0.len() <= stamp.queue {
            self.0.resize(stamp.queue + 1, 0);
        }
        self.0[stamp.queue] = self.0[stamp.queue].max(stamp.unit);
    }
}

/// Number of signals kept per fence. A wait for a lower value counts as a wait for the oldest kept
/// signal.
const MOST_SIGNALS: usize = 4096;

/// The signals of a fence in the order of execution, each with its clock.
#[derive(Debug)]
pub(crate) struct FenceSignals {
    /// Other devices may signal it.
    pub(crate) external: bool,
    signals: Vec<(u64, Clock)>,
    /// Number of older signals dropped.
    dropped: u64,
    /// The number of the last signal that lowered the value.
    rewound: u64,
}

impl FenceSignals {
    pub(crate) fn new(initial: u64, external: bool) -> FenceSignals {
        let signals = vec![(initial, Clock::default())];
        FenceSignals { external, signals, dropped: 0, rewound: 0 }
    }

    pub(crate) fn signal(&mut self, value: u64, known: Clock) {
        if self.signals.last().is_some_and(|(last, _)| value < *last) {
            self.rewound = self.dropped + self.signals.len() as u64;
        }
        self.signals.push((value, known));
        if self.signals.len() > MOST_SIGNALS {
            self.signals.drain(..MOST_SIGNALS / 2);
            self.dropped += MOST_SIGNALS as u64 / 2;
        }
    }

    /// Returns the number of the first signal that can satisfy a wait called now.
    pub(crate) fn mark(&self) -> u64 {
        self.rewound
    }

    /// Returns the clock of the first signal from `mark` on that reaches `value`; `None` if there
    /// is none yet.
    pub(crate) fn reached(&self, value: u64, mark: u64) -> Option<&Clock> {
        let from = mark.saturating_sub(self.dropped) as usize;
        let signals = self.signals.get(from..).unwrap_or(&[]);
        signals.iter().find(|(signalled, _)| *signalled >= value).map(|(_, known)| known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(queue: usize, unit: u64) -> Clock {
        let mut clock = Clock::default();
        clock.reach(Stamp { queue, unit });
        clock
    }

    #[test]
    fn a_wait_knows_what_the_first_signal_that_satisfies_it_knew() {
        let mut fence = FenceSignals::new(0, false);
        assert_eq!(fence.reached(1, 0), None);
        assert_eq!(fence.reached(0, 0), Some(&Clock::default()));
        fence.signal(2, clock(0, 1));
        fence.signal(5, clock(0, 9));
        assert_eq!(fence.reached(1, 0), Some(&clock(0, 1)));
        assert_eq!(fence.reached(3, 0), Some(&clock(0, 9)));
    }

    #[test]
    fn a_wait_after_a_rewind_counts_from_there_and_one_before_it_is_latched() {
        let mut fence = FenceSignals::new(0, false);
        let early = fence.mark();
        fence.signal(5, clock(0, 1));
        fence.signal(1, clock(1, 1));
        let late = fence.mark();
        assert_eq!(fence.reached(3, early), Some(&clock(0, 1)));
        assert_eq!(fence.reached(3, late), None);
        assert_eq!(fence.reached(1, late), Some(&clock(1, 1)));
    }

    #[test]
    fn dropped_signals_leave_marks_valid() {
        let mut fence = FenceSignals::new(0, false);
        for value in 1..=3 * MOST_SIGNALS as u64 {
            fence.signal(value, clock(0, value));
        }
        let last = 3 * MOST_SIGNALS as u64;
        assert_eq!(fence.reached(last, 0), Some(&clock(0, last)));
        fence.signal(7, clock(1, 1));
        assert_eq!(fence.reached(8, fence.mark()), None);
        assert_eq!(fence.reached(7, fence.mark()), Some(&clock(1, 1)));
    }
}
