//! Decides the response to a timeout. Pure policy, with the time as an argument.
//!
//! Invariants: level and debug mode are checked before the window, so an ignored timeout is not
//! counted. An engine timeout promoted to an adapter reset is decided twice, once per scope.
//!
//! Entry points: [`RecoveryPolicy::decide`], [`engine_action`].

use super::report::TimeoutCause;
use crate::config::{TdrConfig, TdrDebugMode, TdrLevel};
use tidegate_platform::CpuTime;
use tidegate_vidsch::{RecoveryLimits, RecoveryVerdict, RecoveryWindow};

/// The scope of a recovery's reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Engine,
    Adapter,
}

/// Whether a recovery begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Recover,
    /// Report the timeout and take no action (TDR_DEBUG_MODE_IGNORE_TIMEOUT).
    Ignore,
    /// Stop the adapter: TdrLevel does not allow recovery.
    StopAtFirst,
    /// Stop the adapter: TdrLimitCount recoveries have taken place within TdrLimitTime.
    StopAtLimit,
}

/// What a recovery of an engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EngineAction {
    ResetPackets,
    ResetHwQueues,
    /// Only lose the devices: the engine does not run their work, so a reset would hit only
    /// other devices.
    LoseDevices,
}

/// Configuration, debug control and window of an adapter.
pub(super) struct RecoveryPolicy {
    level: TdrLevel,
    debug_mode: TdrDebugMode,
    /// Whether the debugger hook runs before a recovery begins.
    breaks: bool,
    window: RecoveryWindow,
}

impl RecoveryPolicy {
    pub(super) fn new(config: &TdrConfig) -> RecoveryPolicy {
        RecoveryPolicy {
            level: config.level,
            debug_mode: config.debug_mode,
            breaks: config.debug_mode == TdrDebugMode::Break,
            window: RecoveryWindow::new(RecoveryLimits {
                window_ns: config.limit_time_ns,
                adapter_resets: config.limit_count as usize,
                caused_by_process: config.application_limit_count as usize,
                unconditional: config.debug_mode == TdrDebugMode::RecoverAlways,
            }),
        }
    }

    pub(super) fn decide(&mut self, scope: Scope, now: CpuTime) -> Decision {
        if self.debug_mode == TdrDebugMode::Ignore {
            return Decision::Ignore;
        }
        if self.level == TdrLevel::BugCheck {
            return Decision::StopAtFirst;
        }
        let verdict = match scope {
            Scope::Engine => self.window.engine_timed_out(now),
            Scope::Adapter => self.window.adapter_timed_out(now),
        };
        match verdict {
            RecoveryVerdict::Recover => Decision::Recover,
            RecoveryVerdict::Fatal => Decision::StopAtLimit,
        }
    }

    /// Counts an engine timeout that a process caused. Returns whether this blocks the process.
    pub(super) fn blocks_process(&mut self, address_space: u32, now: CpuTime) -> bool {
        self.window.caused_by(address_space, now)
    }

    pub(super) fn breaks(&self) -> bool {
        self.breaks
    }

    /// TdrTest::EnableBreak and DisableBreak.
    pub(super) fn set_break(&mut self, breaks: bool) {
        self.breaks = breaks;
    }

    /// TdrTest::Unconditional: disables the limit on recoveries.
    pub(super) fn recover_always(&mut self) {
        self.window.disable_limits();
    }
}

/// Returns whether a timeout only puts the suspected devices into error. With TdrLevel 0 nothing is
/// reset, but the waiters of such devices are still released.
pub(super) fn only_loses_devices(config: &TdrConfig, cause: &TimeoutCause) -> bool {
    !config.is_on() && *cause != TimeoutCause::AdapterForced
}

/// Returns the action for an engine timeout. An engine that had packets when the timeout
/// was detected, or has packets now, is reset for packets. That reset has no effect if all
/// are complete.
pub(super) fn engine_action(cause: &TimeoutCause, has_packets: bool) -> EngineAction {
    match resets_engine(cause) {
        false => EngineAction::LoseDevices,
        true if has_packets => EngineAction::ResetPackets,
        true => EngineAction::ResetHwQueues,
    }
}

/// Returns whether the driver reports this once, so that it must end with this recovery. Other
/// timeouts are found again while they last.
pub(super) fn is_told_once(cause: &TimeoutCause) -> bool {
    matches!(cause, TimeoutCause::EngineFaulted { .. } | TimeoutCause::EngineReportedHung { .. })
}

/// Returns whether the timeout of an engine ends with a reset of the engine.
pub(super) fn resets_engine(cause: &TimeoutCause) -> bool {
    !matches!(cause, TimeoutCause::WorkNotServed { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_ddi::EngineId;

    const ENGINE: EngineId = EngineId::of_node(1);

    fn decisions(config: TdrConfig, scopes: &[Scope]) -> Vec<Decision> {
        let mut policy = RecoveryPolicy::new(&config);
        scopes.iter().map(|scope| policy.decide(*scope, CpuTime(1))).collect()
    }

    #[test]
    fn debug_mode_and_level_come_before_the_window() {
        let standard = TdrConfig::standard();
        let ignore = TdrConfig { debug_mode: TdrDebugMode::Ignore, ..standard };
        assert_eq!(decisions(ignore, &[Scope::Engine; 9]), [Decision::Ignore; 9]);
        let first = TdrConfig { level: TdrLevel::BugCheck, ..standard };
        assert_eq!(decisions(first, &[Scope::Adapter; 2]), [Decision::StopAtFirst; 2]);
        let always = TdrConfig { debug_mode: TdrDebugMode::RecoverAlways, ..standard };
        assert_eq!(decisions(always, &[Scope::Engine; 9]), [Decision::Recover; 9]);
    }

    #[test]
    fn engines_and_adapter_have_counts_of_their_own() {
        let scopes = [[Scope::Engine; 4].as_slice(), &[Scope::Adapter; 5]].concat();
        assert_eq!(decisions(TdrConfig::standard(), &scopes), [Decision::Recover; 9]);
        let one_more = [scopes.as_slice(), &[Scope::Engine, Scope::Adapter]].concat();
        assert_eq!(
            decisions(TdrConfig::standard(), &one_more)[9..],
            [Decision::StopAtLimit, Decision::StopAtLimit]
        );
    }

    #[test]
    fn work_that_the_engine_does_not_run_is_not_reset() {
        let unserved = TimeoutCause::WorkNotServed { engine: ENGINE, work: Vec::new() };
        assert_eq!(engine_action(&unserved, true), EngineAction::LoseDevices);
        let hung = TimeoutCause::EngineReportedHung { engine: ENGINE };
        assert_eq!(engine_action(&hung, true), EngineAction::ResetPackets);
        assert_eq!(engine_action(&hung, false), EngineAction::ResetHwQueues);
    }

    #[test]
    fn without_recovery_only_a_forced_adapter_timeout_resets() {
        let off = TdrConfig { level: TdrLevel::Off, ..TdrConfig::standard() };
        let hung = TimeoutCause::EngineReportedHung { engine: ENGINE };
        assert!(
            only_loses_devices(&off, &hung) && !only_loses_devices(&TdrConfig::standard(), &hung)
        );
        assert!(!only_loses_devices(&off, &TimeoutCause::AdapterForced));
    }

    #[test]
    fn a_debugger_is_told_where_the_mode_or_the_test_says_so() {
        let mut policy = RecoveryPolicy::new(&TdrConfig::standard());
        assert!(!policy.breaks());
        policy.set_break(true);
        assert!(policy.breaks());
    }
}
