//! Counts recoveries: pure policy, with the time as an argument.
//!
//! TdrLimitCount is the number of recoveries that TdrLimitTime may have; the time-out that would
//! need one more is fatal (0x116). With the default of 5, five resets of the adapter (0x117) are
//! made and the sixth time-out is fatal. Engine time-outs (0x141) are counted apart, and their
//! limit is one less: four engine resets are made and the fifth time-out is fatal. An engine
//! time-out counts with the adapter's too when it is promoted to a reset of the adapter.

use crate::config::{TdrConfig, TdrDebugMode};
use std::collections::VecDeque;
use tidegate_platform::CpuTime;

/// Whether a recovery may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may.
    Recover,
    /// It is one too many.
    Fatal,
}

/// The recoveries that count now.
pub(crate) struct RecoveryWindow {
    limit_ns: u64,
    most: usize,
    most_of_application: usize,
    unconditional: bool,
    adapter: VecDeque<CpuTime>,
    engines: VecDeque<CpuTime>,
    /// Who caused which of the engines' time-outs.
    applications: VecDeque<(CpuTime, u32)>,
}

impl RecoveryWindow {
    pub(crate) fn new(config: &TdrConfig) -> RecoveryWindow {
        RecoveryWindow {
            limit_ns: config.limit_time_ns,
            most: config.limit_count as usize,
            most_of_application: config.application_limit_count as usize,
            unconditional: config.debug_mode == TdrDebugMode::RecoverAlways,
            adapter: VecDeque::new(),
            engines: VecDeque::new(),
            applications: VecDeque::new(),
        }
    }

    /// Counts nothing from now on, as a debugger asks.
    pub(crate) fn never_fatal(&mut self) {
        self.unconditional = true;
    }

    /// An adapter is about to be reset.
    pub(crate) fn adapter_timed_out(&mut self, now: CpuTime) -> Verdict {
        self.forget(now);
        self.adapter.push_back(now);
        self.verdict(self.adapter.len(), self.most)
    }

    /// An engine is about to be reset.
    pub(crate) fn engine_timed_out(&mut self, now: CpuTime) -> Verdict {
        self.forget(now);
        self.engines.push_back(now);
        self.verdict(self.engines.len(), self.most.saturating_sub(1))
    }

    /// An application caused an engine's time-out. `true` when it has caused as many as it may: it
    /// is blocked from now on.
    pub(crate) fn caused_by(&mut self, application: u32, now: CpuTime) -> bool {
        self.forget(now);
        self.applications.push_back((now, application));
        let of_it = self.applications.iter().filter(|(_, who)| *who == application).count();
        !self.unconditional && of_it >= self.most_of_application
    }

    /// `count` includes the time-out that is judged.
    // spec: PRE-044
    fn verdict(&self, count: usize, most: usize) -> Verdict {
        if count > most && !self.unconditional { Verdict::Fatal } else { Verdict::Recover }
    }

    fn forget(&mut self, now: CpuTime) {
        let limit_ns = self.limit_ns;
        let old = |at: CpuTime| now.since(at) >= limit_ns;
        for times in [&mut self.adapter, &mut self.engines] {
            while times.front().is_some_and(|at| old(*at)) {
                times.pop_front();
            }
        }
        while self.applications.front().is_some_and(|(at, _)| old(*at)) {
            self.applications.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> RecoveryWindow {
        RecoveryWindow::new(&TdrConfig::standard())
    }

    fn s(seconds: u64) -> CpuTime {
        CpuTime(seconds * 1_000_000_000)
    }

    // spec: PRE-044
    #[test]
    fn five_recoveries_in_a_minute_are_survived_and_the_sixth_is_fatal() {
        let mut window = window();
        let verdicts: Vec<_> = (0..6).map(|n| window.adapter_timed_out(s(n * 10))).collect();
        assert_eq!(verdicts[..5], [Verdict::Recover; 5]);
        assert_eq!(verdicts[5], Verdict::Fatal);
    }

    #[test]
    fn what_is_a_minute_old_does_not_count() {
        let mut window = window();
        for n in 0..50 {
            assert_eq!(window.adapter_timed_out(s(n * 12)), Verdict::Recover, "recovery {n}");
        }
        assert_eq!(window.adapter_timed_out(s(49 * 12 + 1)), Verdict::Fatal);
    }

    // spec: PRE-044
    #[test]
    fn engines_have_one_fewer_and_a_count_of_their_own() {
        let mut window = window();
        for n in 0..4 {
            assert_eq!(window.engine_timed_out(s(n)), Verdict::Recover);
        }
        for n in 4..9 {
            assert_eq!(
                window.adapter_timed_out(s(n)),
                Verdict::Recover,
                "engines' do not count here"
            );
        }
        assert_eq!(window.engine_timed_out(s(9)), Verdict::Fatal);
    }

    #[test]
    fn an_application_is_blocked_at_its_third_time_out() {
        let mut window = window();
        assert_eq!([1, 1, 2].map(|who| window.caused_by(who, s(1))), [false; 3]);
        assert!(window.caused_by(1, s(60)));
        assert!(!window.caused_by(2, s(61)), "its first one is a minute old");
    }

    #[test]
    fn unconditionally_means_however_often() {
        let mut window = window();
        window.never_fatal();
        assert!((0..20).all(|n| window.adapter_timed_out(s(n)) == Verdict::Recover));
        assert!((0..20).all(|n| !window.caused_by(1, s(n))));
    }
}
