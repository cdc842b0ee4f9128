//! Moderation of an engine's fence interrupts.
//!
//! The first signal that must interrupt does so at once. For `interrupt_moderation_ns` after it,
//! further signals are held while the engine keeps the queue and goes on with slots that take no
//! time. One interrupt then reports all of them: before a command that takes time, at the end of
//! the ring, at a wait, when the engine returns the queue, or after that time (decisions/0107).
//! While signals go on, the next times are [`LONGER`] times the first.
//!
//! Invariants: CurrentValue is stored before its signal is held. An engine that holds signals keeps
//! its queue, so its next turn reports them or holds them on.

use tidegate_gpu_abi::{GpuVa, QueueId};
use tidegate_platform::CpuTime;

/// The times in which signals are held while they go on, as a multiple of the first.
const LONGER: u64 = 4;

/// The signals for which an engine will interrupt.
#[derive(Default)]
pub(super) struct HeldSignals {
    /// Each queue and fence once.
    signals: Vec<(QueueId, GpuVa)>,
    /// Signals are held until this time; `None` before the first interrupt.
    until: Option<CpuTime>,
    /// Whether signals were held over the end of a turn in this time.
    went_on: bool,
}

impl HeldSignals {
    pub(super) fn is_empty(&self) -> bool {
        self.signals.is_empty()
    }

    /// Adds a signal.
    pub(super) fn hold(&mut self, queue: QueueId, current_value: GpuVa) {
        let signal = (queue, current_value);
        if !self.signals.contains(&signal) {
            self.signals.push(signal);
        }
    }

    /// Returns whether the signals may be held on. `most` is the length of the list of signalled
    /// fences: with more of them it would name no fence.
    pub(super) fn may_wait(&mut self, most: usize, now: impl FnOnce() -> CpuTime) -> bool {
        let may = self.signals.len() < most && self.until.is_some_and(|until| now() < until);
        self.went_on |= may;
        may
    }

    /// Takes the signals, because an interrupt reports them.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (QueueId, GpuVa)> {
        self.signals.drain(..)
    }

    /// Forgets the signals: a fault.
    pub(super) fn forget(&mut self) {
        self.signals.clear();
    }

    /// Begins the time in which further signals are held: `first_ns` after a pause, longer if
    /// signals went on until the last time was over.
    pub(super) fn begin(&mut self, now: CpuTime, first_ns: u64) {
        let ran_out =
            std::mem::take(&mut self.went_on) && self.until.is_some_and(|until| now >= until);
        let window_ns = if ran_out { LONGER * first_ns } else { first_ns };
        self.until = Some(now.after(window_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(signals: u64) -> HeldSignals {
        let mut held = HeldSignals::default();
        (0..signals).for_each(|fence| held.hold(QueueId(1), GpuVa(8 * fence)));
        held
    }

    #[test]
    fn times_are_longer_while_signals_go_on_and_begin_anew_after_a_pause() {
        let mut held = held(1);
        held.begin(CpuTime(0), 100);
        let mut ends = Vec::new();
        let mut now = 0;
        for _ in 0..3 {
            assert!(held.may_wait(10, || CpuTime(now + 1)));
            now = held.until.unwrap().0;
            assert!(!held.may_wait(10, || CpuTime(now)));
            held.begin(CpuTime(now), 100);
            ends.push(now);
        }
        assert_eq!(ends, [100, 500, 900]);
        // The ring ended before the time was over.
        assert!(held.may_wait(10, || CpuTime(1_299)));
        held.begin(CpuTime(1_299), 100);
        assert_eq!(held.until, Some(CpuTime(1_399)));
        // A pause: nothing was held over a turn.
        held.begin(CpuTime(10_000), 100);
        assert_eq!(held.until, Some(CpuTime(10_100)));
    }

    #[test]
    fn a_list_that_is_full_does_not_wait() {
        let mut held = held(3);
        held.begin(CpuTime(0), 100);
        assert!(held.may_wait(4, || CpuTime(1)) && !held.may_wait(3, || CpuTime(1)));
    }
}
