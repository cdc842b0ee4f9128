//! The signals of a fence, and which of them a satisfied wait has certainly seen.
//!
//! A wait for `value` may have been satisfied by any signal of at least `value`, except one that a
//! lower signal follows before the wait (a rewind). What precedes all of these signals precedes the
//! wait. A read of the completed value shows a signal of exactly that value.
//!
//! At most [`KEPT`] signals are kept. A wait for a value below them is taken for one on the first
//! kept signal.

use crate::clock::{Clock, Epoch, TimelineId};
use std::collections::VecDeque;
use std::sync::Arc;

/// Most signals that a fence remembers.
const KEPT: usize = 4096;

/// A signal, as queued or as made by a CPU thread.
#[derive(Clone, Debug)]
pub(crate) struct Signal {
    pub(crate) value: u64,
    /// `None` for the initial value, which precedes everything.
    pub(crate) epoch: Option<Epoch>,
    pub(crate) clock: Arc<Clock>,
}

impl Signal {
    fn precedes(&self, clock: &Clock) -> bool {
        self.epoch.is_none_or(|epoch| clock.includes(epoch))
    }
}

#[derive(Debug)]
pub(crate) struct Fence {
    pub(crate) name: String,
    signals: VecDeque<Signal>,
    /// Values increase, and each signal precedes the next.
    ordered: bool,
    /// The timelines of the first two signals without an order.
    pub(crate) unordered_signallers: Option<[TimelineId; 2]>,
}

impl Fence {
    pub(crate) fn new(name: String, initial: u64) -> Fence {
        let first = Signal { value: initial, epoch: None, clock: Arc::default() };
        Fence { name, signals: VecDeque::from([first]), ordered: true, unordered_signallers: None }
    }

    pub(crate) fn add(&mut self, signal: Signal) {
        if let (Some(last), Some(epoch)) = (self.signals.back(), signal.epoch) {
            let follows = last.precedes(&signal.clock);
            self.ordered &= follows && last.value <= signal.value;
            if let Some(before) = last.epoch.filter(|_| !follows) {
                self.unordered_signallers.get_or_insert([before.timeline, epoch.timeline]);
            }
        }
        self.signals.push_back(signal);
        if self.signals.len() > KEPT {
            self.signals.pop_front();
        }
    }

    /// Returns the highest value that was signalled.
    pub(crate) fn highest(&self) -> Option<u64> {
        let signals = self.signals.iter().filter(|signal| signal.epoch.is_some());
        signals.map(|signal| signal.value).max()
    }

    /// Returns what certainly precedes a satisfied wait for `value` whose other predecessors are in
    /// `clock`; `None` while no signal would satisfy it.
    pub(crate) fn waited(&self, value: u64, clock: &Clock) -> Option<Arc<Clock>> {
        if self.ordered {
            let first = self.signals.partition_point(|signal| signal.value < value);
            return self.signals.get(first).map(|signal| Arc::clone(&signal.clock));
        }
        self.common(clock, |signal| signal.value >= value, |signal| signal.value < value)
    }

    /// Returns what certainly precedes a read of the completed value that returned `value`.
    pub(crate) fn read(&self, value: u64, clock: &Clock) -> Option<Arc<Clock>> {
        if self.ordered {
            let first = self.signals.partition_point(|signal| signal.value < value);
            let found = self.signals.get(first).filter(|signal| signal.value == value);
            return found.map(|signal| Arc::clone(&signal.clock));
        }
        self.common(clock, |signal| signal.value == value, |signal| signal.value != value)
    }

    /// Returns what precedes every signal that `satisfies`, except those that a signal which
    /// `hides` follows before `clock`.
    fn common(
        &self,
        clock: &Clock,
        satisfies: impl Fn(&Signal) -> bool,
        hides: impl Fn(&Signal) -> bool,
    ) -> Option<Arc<Clock>> {
        let hiding: Vec<&Signal> = self
            .signals
            .iter()
            .filter(|s| hides(s) && s.epoch.is_some() && s.precedes(clock))
            .collect();
        let is_hidden = |signal: &Signal| {
            hiding.iter().any(|hiding| {
                !Arc::ptr_eq(&hiding.clock, &signal.clock) && signal.precedes(&hiding.clock)
            })
        };
        let mut found: Option<Arc<Clock>> = None;
        for signal in self.signals.iter().filter(|s| satisfies(s) && !is_hidden(s)) {
            match &mut found {
                None => found = Some(Arc::clone(&signal.clock)),
                Some(common) => Arc::make_mut(common).meet(&signal.clock),
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Line {
        id: TimelineId,
        clock: Clock,
    }

    impl Line {
        fn new(id: u32) -> Line {
            Line { id: TimelineId(id), clock: Clock::default() }
        }

        fn signal(&mut self, fence: &mut Fence, value: u64) -> Epoch {
            let tick = self.clock.advance(self.id);
            let epoch = Epoch { timeline: self.id, tick };
            fence.add(Signal { value, epoch: Some(epoch), clock: Arc::new(self.clock.clone()) });
            epoch
        }
    }

    #[test]
    fn a_wait_has_seen_the_first_signal_of_its_value_and_no_later_one() {
        let (mut fence, mut queue) = (Fence::new("f".into(), 0), Line::new(0));
        let epochs: Vec<Epoch> =
            (1..=5).map(|value| queue.signal(&mut fence, value * 10)).collect();
        let seen = fence.waited(30, &Clock::default()).unwrap();
        assert!(seen.includes(epochs[2]) && !seen.includes(epochs[3]));
        let seen = fence.waited(31, &Clock::default()).unwrap();
        assert!(seen.includes(epochs[3]) && !seen.includes(epochs[4]));
        assert!(fence.waited(51, &Clock::default()).is_none());
        assert_eq!(*fence.waited(0, &Clock::default()).unwrap(), Clock::default());
    }

    #[test]
    fn a_read_has_seen_the_signal_of_its_exact_value() {
        let (mut fence, mut queue) = (Fence::new("f".into(), 0), Line::new(0));
        let one = queue.signal(&mut fence, 1);
        let two = queue.signal(&mut fence, 2);
        let seen = fence.read(2, &Clock::default()).unwrap();
        assert!(seen.includes(one) && seen.includes(two));
        assert!(!fence.read(1, &Clock::default()).unwrap().includes(two));
        assert!(fence.read(3, &Clock::default()).is_none());
    }

    #[test]
    fn two_unordered_signals_give_what_precedes_both() {
        let mut fence = Fence::new("f".into(), 0);
        let (mut left, mut right) = (Line::new(0), Line::new(1));
        left.clock.advance(TimelineId(7));
        right.clock.advance(TimelineId(7));
        let (a, b) = (left.signal(&mut fence, 5), right.signal(&mut fence, 6));
        let seen = fence.waited(5, &Clock::default()).unwrap();
        assert!(!seen.includes(a) && !seen.includes(b));
        assert_eq!(seen.tick(TimelineId(7)), 1);
        assert_eq!(fence.unordered_signallers, Some([TimelineId(0), TimelineId(1)]));
        let seen = fence.waited(6, &Clock::default()).unwrap();
        assert!(seen.includes(b) && !seen.includes(a), "one signal alone reaches 6");
    }

    #[test]
    fn a_rewind_before_the_wait_hides_the_signals_before_it() {
        let (mut fence, mut queue) = (Fence::new("f".into(), 0), Line::new(0));
        let old = queue.signal(&mut fence, 5);
        queue.signal(&mut fence, 0);
        let after_the_rewind = queue.clock.clone();
        assert!(fence.waited(5, &after_the_rewind).is_none(), "the old signal is hidden");
        let seen = fence.waited(5, &Clock::default()).unwrap();
        assert!(seen.includes(old), "a wait that may be older than the rewind has seen it");
        let new = queue.signal(&mut fence, 5);
        assert!(fence.waited(5, &after_the_rewind).unwrap().includes(new));
        assert!(!fence.waited(5, &Clock::default()).unwrap().includes(new));
    }
}
