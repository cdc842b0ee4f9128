//! Owns what the service counts, and its text.

use std::fmt;
use tidegate_platform::{Platform, Word};

/// The counters that sessions raise.
pub(crate) struct Counters {
    pub(super) accepted: Word,
    pub(super) refused: Word,
    pub(super) calls: Word,
}

impl Counters {
    pub(super) fn new(platform: &Platform) -> Counters {
        let page = platform.page(3);
        Counters { accepted: page.word(0), refused: page.word(1), calls: page.word(2) }
    }

    pub(super) fn read(&self, sessions: u64, nt_handles: u64) -> Counts {
        Counts {
            sessions,
            nt_handles,
            accepted: self.accepted.load(),
            refused: self.refused.load(),
            calls: self.calls.load(),
        }
    }
}

/// What a service has counted. Its text is that of Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Clients now.
    pub sessions: u64,
    /// NT handles that clients hold now.
    pub nt_handles: u64,
    /// Clients that were taken.
    pub accepted: u64,
    /// Clients that were turned away before their first message.
    pub refused: u64,
    /// Calls that were answered.
    pub calls: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            ("sessions", "gauge", "clients now", self.sessions),
            ("nt_handles", "gauge", "NT handles that clients hold", self.nt_handles),
            ("clients_accepted_total", "counter", "clients that were taken", self.accepted),
            ("clients_refused_total", "counter", "clients that were turned away", self.refused),
            ("calls_total", "counter", "calls that were answered", self.calls),
        ];
        for (name, kind, help, value) in rows {
            writeln!(f, "# HELP tidegate_{name} {help}")?;
            writeln!(f, "# TYPE tidegate_{name} {kind}")?;
            writeln!(f, "tidegate_{name} {value}")?;
        }
        Ok(())
    }
}
