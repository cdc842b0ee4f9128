//! TDR settings: the published registry values and their published defaults.

use crate::error::StartError;

/// What a timeout leads to (TdrLevel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TdrLevel {
    /// TdrLevelOff: nothing is detected. What the kernel itself waits for, it still waits for no
    /// longer than the delay.
    Off = 0,
    /// TdrLevelBugcheck: every timeout stops the adapter immediately.
    BugCheck = 1,
    /// TdrLevelRecoverVGA: there is no VGA to recover to, and no adapter starts with it.
    RecoverVga = 2,
    /// TdrLevelRecover: engines and adapters are reset.
    Recover = 3,
}

/// What becomes of a timeout that would be recovered from (TdrDebugMode).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TdrDebugMode {
    /// TDR_DEBUG_MODE_OFF: a debugger is called before the recovery begins, see
    /// [`crate::Adapter::before_recovery`].
    Break = 0,
    /// TDR_DEBUG_MODE_IGNORE_TIMEOUT: the timeout is reported, and nothing is done.
    Ignore = 1,
    /// TDR_DEBUG_MODE_RECOVER_NO_PROMPT: recovers without a prompt.
    Recover = 2,
    /// TDR_DEBUG_MODE_RECOVER_UNCONDITIONAL: recovers however often it was done before.
    RecoverAlways = 3,
}

/// How adapters find out that their GPU hangs, and what they do then.
// spec: PRE-043
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TdrConfig {
    /// TdrLevel.
    pub level: TdrLevel,
    /// TdrDelay: how long the GPU may take for a request, above all a preemption, in nanoseconds.
    /// Where power is managed it is also the period of the progress checks of engines with
    /// user-mode queues.
    pub delay_ns: u64,
    /// TdrDdiDelay: how long threads may take to leave the driver before an adapter is reset, in
    /// nanoseconds.
    pub ddi_delay_ns: u64,
    /// TdrLimitTime: the window in which recoveries are counted, in nanoseconds.
    pub limit_time_ns: u64,
    /// TdrLimitCount: how many recoveries the window may have; one fewer of single engines.
    pub limit_count: u32,
    /// How many engine time-outs in the window a process may cause before it gets no device any
    /// more (0x142). No number is published: one below what is fatal for engines, so that one
    /// process cannot stop the adapter with them.
    pub application_limit_count: u32,
    /// How long engines that depend on one that is reset may take to give back what they have, in
    /// nanoseconds.
    pub dependent_delay_ns: u64,
    /// TdrDebugMode.
    pub debug_mode: TdrDebugMode,
}

impl TdrConfig {
    /// The published values.
    pub fn standard() -> TdrConfig {
        TdrConfig {
            level: TdrLevel::Recover,
            delay_ns: 2_000_000_000,
            ddi_delay_ns: 5_000_000_000,
            limit_time_ns: 60_000_000_000,
            limit_count: 5,
            application_limit_count: 3,
            dependent_delay_ns: 500_000_000,
            debug_mode: TdrDebugMode::Recover,
        }
    }

    /// Returns whether timeouts are detected.
    pub fn is_on(&self) -> bool {
        self.level != TdrLevel::Off
    }

    /// What an adapter cannot work with.
    pub(crate) fn check(&self) -> Result<(), StartError> {
        match self {
            TdrConfig { level: TdrLevel::RecoverVga, .. } => Err(StartError::RecoverToVga),
            TdrConfig { delay_ns: 0, .. } => Err(StartError::TdrDelay),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: PRE-043
    #[test]
    fn the_published_values_are_the_defaults() {
        let config = TdrConfig::standard();
        let TdrConfig {
            level, delay_ns, ddi_delay_ns, limit_time_ns, limit_count, debug_mode, ..
        } = config;
        assert_eq!((level as u32, debug_mode as u32, limit_count), (3, 2, 5));
        assert_eq!(
            [delay_ns, ddi_delay_ns, limit_time_ns].map(|ns| ns / 1_000_000_000),
            [2, 5, 60]
        );
        assert!(config.is_on() && config.check().is_ok());
        let vga = TdrConfig { level: TdrLevel::RecoverVga, ..config };
        assert_eq!(vga.check(), Err(StartError::RecoverToVga));
        assert_eq!(TdrConfig { delay_ns: 0, ..config }.check(), Err(StartError::TdrDelay));
    }
}
