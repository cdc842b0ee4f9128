//! The signals of a fence, and which of them a satisfied wait has certainly observed.
//!
//! A wait for `value` may have been satisfied by any signal of at least `value`, except one
//! followed by a lower signal (a rewind) before the wait. Operations that precede all of these
//! signals precede the wait. A read of the completed value observes a signal of exactly that value.
//!
//! At most [`KEPT`] signals are kept. A wait for a lower value counts as a wait for the first kept
//! signal.

use crate::access::SpaceKey;
use crate::clock::{Clock, Epoch, TimelineId};
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of signals kept per fence.
const KEPT: usize = 4096;

/// The signal that satisfies a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relay {
    pub(crate) timeline: TimelineId,
    pub(crate) sequence: u64,
}

/// A signal of a queue or a CPU thread.
#[derive(Clone, Debug)]
pub(crate) struct Signal {
    pub(crate) value: u64,
    /// `None` for the initial value, which precedes all operations.
    pub(crate) epoch: Option<Epoch>,
    pub(crate) clock: Arc<Clock>,
    /// The number of its call.
    pub(crate) sequence: u64,
    /// Whether the value is above the previous signal's, if that signal precedes.
    pub(crate) raises: bool,
    /// Other timelines whose waits it may have satisfied.
    pub(crate) waiters: Vec<TimelineId>,
}

impl Signal {
    pub(crate) fn new(
        value: u64,
        sequence: u64,
        epoch: Option<Epoch>,
        clock: Arc<Clock>,
    ) -> Signal {
        Signal { value, sequence, epoch, clock, raises: true, waiters: Vec::new() }
    }

    fn note_waiter(&mut self, waiter: TimelineId) {
        let own = self.epoch.is_none_or(|epoch| epoch.timeline == waiter);
        if !own && !self.waiters.contains(&waiter) {
            self.waiters.push(waiter);
        }
    }

    fn precedes(&self, clock: &Clock) -> bool {
        self.epoch.is_none_or(|epoch| clock.includes(epoch))
    }
}

/// Why the end of a wait does not tell which signal ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The timelines of the first two unordered signals.
    Unordered([TimelineId; 2]),
    /// The first signal of a lower value than the signal before it.
    Falls { timeline: TimelineId, from: u64, to: u64 },
}

#[derive(Debug)]
pub(crate) struct Fence {
    pub(crate) name: String,
    /// The address spaces of the devices that use it.
    pub(crate) spaces: Vec<SpaceKey>,
    signals: VecDeque<Signal>,
    /// Values increase, and each signal precedes the next.
    ordered: bool,
    /// Queues that may be held at a wait for the fence.
    pub(crate) held: Vec<TimelineId>,
    /// The timelines that wait for the fence.
    pub(crate) waiters: Vec<TimelineId>,
    /// The first reason that was seen.
    pub(crate) fault: Option<Fault>,
}

impl Fence {
    pub(crate) fn new(name: String, initial: u64) -> Fence {
        let first = Signal::new(initial, 0, None, Arc::default());
        Fence {
            name,
            spaces: Vec::new(),
            signals: VecDeque::from([first]),
            ordered: true,
            held: Vec::new(),
            waiters: Vec::new(),
            fault: None,
        }
    }

    pub(crate) fn add(&mut self, mut signal: Signal) {
        let lowers = |last: &Signal| last.value >= signal.value && last.precedes(&signal.clock);
        signal.raises = !self.signals.back().is_some_and(lowers);
        if let (Some(last), Some(epoch)) = (self.signals.back(), signal.epoch) {
            let follows = last.precedes(&signal.clock);
            let falls = last.value > signal.value;
            self.ordered &= follows && !falls;
            let fault = match last.epoch {
                Some(before) if !follows => {
                    Some(Fault::Unordered([before.timeline, epoch.timeline]))
                }
                _ => falls.then_some(Fault::Falls {
                    timeline: epoch.timeline,
                    from: last.value,
                    to: signal.value,
                }),
            };
            self.fault = self.fault.or(fault);
        }
        self.signals.push_back(signal);
        if self.signals.len() > KEPT {
            self.signals.pop_front();
        }
    }

    /// Returns the highest signalled value.
    pub(crate) fn highest(&self) -> Option<u64> {
        let signals = self.signals.iter().filter(|signal| signal.epoch.is_some());
        signals.map(|signal| signal.value).max()
    }

    /// Returns the operations that certainly precede a satisfied wait for `value` whose other
    /// predecessors are in `clock`; `None` while no signal satisfies it.
    pub(crate) fn waited(&self, value: u64, clock: &Clock) -> Option<Arc<Clock>> {
        if self.ordered {
            let first = self.signals.partition_point(|signal| signal.value < value);
            return self.signals.get(first).map(|signal| Arc::clone(&signal.clock));
        }
        self.common(clock, |signal| signal.value >= value, |signal| signal.value < value)
    }

    /// Records a wait of a timeline for `value`, with its other predecessors in `clock`.
    pub(crate) fn note_wait(&mut self, value: u64, waiter: TimelineId, clock: &Clock) {
        if !self.waiters.contains(&waiter) {
            self.waiters.push(waiter);
        }
        if self.ordered {
            let first = self.signals.partition_point(|signal| signal.value < value);
            if let Some(signal) = self.signals.get_mut(first) {
                signal.note_waiter(waiter);
            }
            return;
        }
        self.unhidden(clock, |signal| signal.value >= value, |signal| signal.value < value)
            .into_iter()
            .for_each(|at| self.signals[at].note_waiter(waiter));
    }

    /// Returns the signal that satisfies a wait for `value`, if it is known.
    pub(crate) fn relay(&self, value: u64) -> Option<Relay> {
        let first = self.signals.partition_point(|signal| signal.value < value);
        let signal = self.signals.get(first).filter(|_| self.ordered)?;
        signal.epoch.map(|epoch| Relay { timeline: epoch.timeline, sequence: signal.sequence })
    }

    /// Returns the lowest value whose signal covers `needed`, if it is below the value of the
    /// signal for `value`.
    pub(crate) fn enough(&self, value: u64, needed: &[Epoch]) -> Option<u64> {
        if !self.ordered {
            return None;
        }
        let until = self.signals.partition_point(|signal| signal.value < value);
        let covers = |signal: &&Signal| needed.iter().all(|epoch| signal.clock.includes(*epoch));
        self.signals.range(..until).find(covers).map(|signal| signal.value)
    }

    /// Returns the signals.
    pub(crate) fn signals(&self) -> impl Iterator<Item = &Signal> {
        self.signals.iter()
    }

    /// Returns the operations that certainly precede a read of the completed value `value`.
    pub(crate) fn read(&self, value: u64, clock: &Clock) -> Option<Arc<Clock>> {
        if self.ordered {
            let first = self.signals.partition_point(|signal| signal.value < value);
            let found = self.signals.get(first).filter(|signal| signal.value == value);
            return found.map(|signal| Arc::clone(&signal.clock));
        }
        self.common(clock, |signal| signal.value == value, |signal| signal.value != value)
    }

    /// Returns the operations that precede every signal that `satisfies`, except signals followed
    /// by one that `hides` before `clock`.
    fn common(
        &self,
        clock: &Clock,
        satisfies: impl Fn(&Signal) -> bool,
        hides: impl Fn(&Signal) -> bool,
    ) -> Option<Arc<Clock>> {
        let mut found: Option<Arc<Clock>> = None;
        for at in self.unhidden(clock, satisfies, hides) {
            let signal = &self.signals[at];
            match &mut found {
                None => found = Some(Arc::clone(&signal.clock)),
                Some(common) => Arc::make_mut(common).meet(&signal.clock),
            }
        }
        found
    }

    /// Returns the indices of the signals that `satisfies`, except signals followed by one that
    /// `hides` before `clock`.
    fn unhidden(
        &self,
        clock: &Clock,
        satisfies: impl Fn(&Signal) -> bool,
        hides: impl Fn(&Signal) -> bool,
    ) -> Vec<usize> {
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
        let signals = self.signals.iter().enumerate();
        signals.filter(|(_, s)| satisfies(s) && !is_hidden(s)).map(|(at, _)| at).collect()
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
            fence.add(Signal::new(value, 0, Some(epoch), Arc::new(self.clock.clone())));
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
        assert_eq!(fence.fault, Some(Fault::Unordered([TimelineId(0), TimelineId(1)])));
        let seen = fence.waited(6, &Clock::default()).unwrap();
        assert!(seen.includes(b) && !seen.includes(a), "one signal alone reaches 6");
    }

    #[test]
    fn a_wait_for_a_value_that_is_kept_no_more_counts_as_one_for_the_first_kept_signal() {
        let (mut fence, mut queue) = (Fence::new("f".into(), 0), Line::new(0));
        let first = queue.signal(&mut fence, 1);
        (2..KEPT as u64).for_each(|value| _ = queue.signal(&mut fence, value));
        assert_eq!(fence.signals().count(), KEPT, "with the initial value");
        let last = [KEPT, KEPT + 1].map(|value| queue.signal(&mut fence, value as u64));
        assert_eq!(fence.signals().count(), KEPT);
        let seen = fence.waited(1, &Clock::default()).unwrap();
        assert!(seen.includes(first) && !seen.includes(last[0]));
        assert_eq!(fence.signals().next().map(|signal| signal.value), Some(2));
    }

    #[test]
    fn a_rewind_before_the_wait_hides_the_signals_before_it() {
        let (mut fence, mut queue) = (Fence::new("f".into(), 0), Line::new(0));
        let old = queue.signal(&mut fence, 5);
        queue.signal(&mut fence, 0);
        let after_the_rewind = queue.clock.clone();
        assert_eq!(fence.fault, Some(Fault::Falls { timeline: TimelineId(0), from: 5, to: 0 }));
        assert!(fence.waited(5, &after_the_rewind).is_none(), "the old signal is hidden");
        let seen = fence.waited(5, &Clock::default()).unwrap();
        assert!(seen.includes(old), "a wait that may be older than the rewind has seen it");
        let new = queue.signal(&mut fence, 5);
        assert!(fence.waited(5, &after_the_rewind).unwrap().includes(new));
        assert!(!fence.waited(5, &Clock::default()).unwrap().includes(new));
    }
}
