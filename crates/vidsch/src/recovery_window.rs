//! Limits on the number of timeout recoveries in a time window.
//!
//! An adapter may recover TdrLimitCount times within TdrLimitTime. The next timeout is fatal
//! (0x116): with the default of 5, the adapter is reset five times (0x117) and the sixth timeout is
//! fatal. Engine timeouts (0x141) are counted separately, and their limit is lower by one. An
//! engine timeout that is promoted to an adapter reset counts in both.

use std::collections::VecDeque;
use tidegate_platform::CpuTime;

/// Verdict on a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryVerdict {
    /// The recovery may begin.
    Recover,
    /// The limit is exceeded: the timeout is fatal.
    Fatal,
}

/// Limits with their published names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryLimits {
    /// Length of the window (TdrLimitTime), in nanoseconds.
    pub window_ns: u64,
    /// Number of adapter resets in the window (TdrLimitCount).
    pub adapter_resets: usize,
    /// Number of engine timeouts at which their process is blocked (0x142).
    pub caused_by_process: usize,
    /// Whether the limits are disabled (TDR_DEBUG_MODE_RECOVER_UNCONDITIONAL).
    pub unconditional: bool,
}

/// The recoveries within the window.
pub struct RecoveryWindow {
    limits: RecoveryLimits,
    adapter: VecDeque<CpuTime>,
    engines: VecDeque<CpuTime>,
    /// Engine timeouts with the process that caused each.
    processes: VecDeque<(CpuTime, u32)>,
}

impl RecoveryWindow {
    /// Creates a window without recoveries.
    pub fn new(limits: RecoveryLimits) -> RecoveryWindow {
        RecoveryWindow {
            limits,
            adapter: VecDeque::new(),
            engines: VecDeque::new(),
            processes: VecDeque::new(),
        }
    }

    /// Disables the limits (D3DKMT_TDRDBGCTRLTYPE_UNCONDITIONAL).
    pub fn disable_limits(&mut self) {
        self.limits.unconditional = true;
    }

    /// Counts an adapter timeout.
    pub fn adapter_timed_out(&mut self, now: CpuTime) -> RecoveryVerdict {
        self.drop_expired(now);
        self.adapter.push_back(now);
        self.verdict(self.adapter.len(), self.limits.adapter_resets)
    }

    /// Counts an engine timeout.
    pub fn engine_timed_out(&mut self, now: CpuTime) -> RecoveryVerdict {
        self.drop_expired(now);
        self.engines.push_back(now);
        self.verdict(self.engines.len(), self.limits.adapter_resets.saturating_sub(1))
    }

    /// Counts an engine timeout that a process caused. Returns whether the process has reached its
    /// limit and must be blocked.
    pub fn caused_by(&mut self, process: u32, now: CpuTime) -> bool {
        self.drop_expired(now);
        self.processes.push_back((now, process));
        let caused = self.processes.iter().filter(|(_, of)| *of == process).count();
        !self.limits.unconditional && caused >= self.limits.caused_by_process
    }

    /// `count` includes the timeout under consideration.
    // spec: PRE-044
    fn verdict(&self, count: usize, most: usize) -> RecoveryVerdict {
        if count > most && !self.limits.unconditional {
            RecoveryVerdict::Fatal
        } else {
            RecoveryVerdict::Recover
        }
    }

    fn drop_expired(&mut self, now: CpuTime) {
        let window_ns = self.limits.window_ns;
        let old = |at: CpuTime| now.since(at) >= window_ns;
        for times in [&mut self.adapter, &mut self.engines] {
            while times.front().is_some_and(|at| old(*at)) {
                times.pop_front();
            }
        }
        while self.processes.front().is_some_and(|(at, _)| old(*at)) {
            self.processes.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> RecoveryWindow {
        RecoveryWindow::new(RecoveryLimits {
            window_ns: 60_000_000_000,
            adapter_resets: 5,
            caused_by_process: 3,
            unconditional: false,
        })
    }

    fn s(seconds: u64) -> CpuTime {
        CpuTime(seconds * 1_000_000_000)
    }

    // spec: PRE-044
    #[test]
    fn five_recoveries_in_a_minute_are_survived_and_the_sixth_is_fatal() {
        let mut window = window();
        let verdicts: Vec<_> = (0..6).map(|n| window.adapter_timed_out(s(n * 10))).collect();
        assert_eq!(verdicts[..5], [RecoveryVerdict::Recover; 5]);
        assert_eq!(verdicts[5], RecoveryVerdict::Fatal);
    }

    #[test]
    fn recoveries_outside_the_window_do_not_count() {
        let mut window = window();
        for n in 0..50 {
            assert_eq!(
                window.adapter_timed_out(s(n * 12)),
                RecoveryVerdict::Recover,
                "recovery {n}"
            );
        }
        assert_eq!(window.adapter_timed_out(s(49 * 12 + 1)), RecoveryVerdict::Fatal);
    }

    // spec: PRE-044
    #[test]
    fn engine_timeouts_are_counted_separately_with_a_lower_limit() {
        let mut window = window();
        for n in 0..4 {
            assert_eq!(window.engine_timed_out(s(n)), RecoveryVerdict::Recover);
        }
        for n in 4..9 {
            assert_eq!(
                window.adapter_timed_out(s(n)),
                RecoveryVerdict::Recover,
                "engine timeouts do not count here"
            );
        }
        assert_eq!(window.engine_timed_out(s(9)), RecoveryVerdict::Fatal);
    }

    #[test]
    fn a_process_is_blocked_at_its_third_timeout() {
        let mut window = window();
        assert_eq!([1, 1, 2].map(|process| window.caused_by(process, s(1))), [false; 3]);
        assert!(window.caused_by(1, s(60)));
        assert!(!window.caused_by(2, s(61)), "its first one is a minute old");
    }

    #[test]
    fn an_unconditional_window_is_never_fatal() {
        let mut window = window();
        window.disable_limits();
        assert!((0..20).all(|n| window.adapter_timed_out(s(n)) == RecoveryVerdict::Recover));
        assert!((0..20).all(|n| !window.caused_by(1, s(n))));
    }
}
