//! Counts of the service, and their text.

use crate::wire::{Message, OwnMessage};
use serde::{Deserialize, Serialize};
use std::fmt;
use tidegate_platform::{Platform, Word};

/// The counters that sessions raise.
pub(crate) struct Counters {
    /// Processes that have not ended.
    pub(super) processes: Word,
    pub(super) accepted: Word,
    pub(super) refused: Word,
    pub(super) calls: Word,
    pub(super) wakes: Word,
    pub(super) sessions_failed: Word,
    /// Guests that have not left.
    pub(super) guests: Word,
    pub(super) guest_wakes: Word,
}

impl Counters {
    pub(super) fn new(platform: &Platform) -> Counters {
        let page = platform.page(8);
        Counters {
            processes: page.word(0),
            accepted: page.word(1),
            refused: page.word(2),
            calls: page.word(3),
            sessions_failed: page.word(4),
            wakes: page.word(5),
            guests: page.word(6),
            guest_wakes: page.word(7),
        }
    }

    /// Returns the counter of a message.
    pub(super) fn of(&self, message: &Message) -> &Word {
        match message {
            Message::Own(OwnMessage::WakeEngine { .. }) => &self.wakes,
            _ => &self.calls,
        }
    }

    pub(super) fn read(&self, connections: u64, nt_handles: u64) -> Counts {
        Counts {
            connections,
            processes: self.processes.load(),
            nt_handles,
            accepted: self.accepted.load(),
            refused: self.refused.load(),
            calls: self.calls.load(),
            wakes: self.wakes.load(),
            sessions_failed: self.sessions_failed.load(),
            guests: self.guests.load(),
            guest_wakes: self.guest_wakes.load(),
        }
    }
}

/// What a service has counted. Its text has the format of Prometheus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Connections that have not ended: of processes, of viewers, and without a first
    /// message.
    pub connections: u64,
    /// Processes that clients are now.
    pub processes: u64,
    /// NT handles that clients hold now.
    pub nt_handles: u64,
    /// Connections that were taken, those for counters among them.
    pub accepted: u64,
    /// Connections that were turned away before their first message.
    pub refused: u64,
    /// Calls that were answered.
    pub calls: u64,
    /// Messages that woke a sleeping engine after a ring, which are not counted as calls.
    pub wakes: u64,
    /// Connections that ended by a fault of the service.
    pub sessions_failed: u64,
    /// Virtual machines that have not left.
    pub guests: u64,
    /// Stores of guests to the register that wakes sleeping engines. They send no message.
    pub guest_wakes: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            ("connections", "gauge", "connections that have not ended", self.connections),
            ("processes", "gauge", "processes that have not ended", self.processes),
            ("nt_handles", "gauge", "NT handles that clients hold", self.nt_handles),
            ("connections_accepted_total", "counter", "connections that were taken", self.accepted),
            (
                "connections_refused_total",
                "counter",
                "connections that were turned away",
                self.refused,
            ),
            ("calls_total", "counter", "calls that were answered", self.calls),
            ("wakes_total", "counter", "messages that woke a sleeping engine", self.wakes),
            (
                "sessions_failed_total",
                "counter",
                "connections that ended by a fault of the service",
                self.sessions_failed,
            ),
            ("guests", "gauge", "virtual machines that have not left", self.guests),
            (
                "guest_wakes_total",
                "counter",
                "stores of guests to the register that wakes engines",
                self.guest_wakes,
            ),
        ];
        for (name, kind, help, value) in rows {
            writeln!(f, "# HELP tidegate_{name} {help}")?;
            writeln!(f, "# TYPE tidegate_{name} {kind}")?;
            writeln!(f, "tidegate_{name} {value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_has_its_row_and_kind() {
        let counters = Counters::new(&Platform::host());
        let raise = |word: &Word, by| (0..by).for_each(|_| _ = word.fetch_add(1));
        raise(&counters.processes, 3);
        raise(&counters.accepted, 4);
        raise(&counters.refused, 5);
        raise(&counters.calls, 6);
        raise(&counters.wakes, 8);
        raise(&counters.sessions_failed, 7);
        raise(&counters.guests, 8);
        raise(&counters.guest_wakes, 9);
        let text = counters.read(1, 2).to_string();
        let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with("# HELP ")).collect();
        let expected = [
            "# TYPE tidegate_connections gauge",
            "tidegate_connections 1",
            "# TYPE tidegate_processes gauge",
            "tidegate_processes 3",
            "# TYPE tidegate_nt_handles gauge",
            "tidegate_nt_handles 2",
            "# TYPE tidegate_connections_accepted_total counter",
            "tidegate_connections_accepted_total 4",
            "# TYPE tidegate_connections_refused_total counter",
            "tidegate_connections_refused_total 5",
            "# TYPE tidegate_calls_total counter",
            "tidegate_calls_total 6",
            "# TYPE tidegate_wakes_total counter",
            "tidegate_wakes_total 8",
            "# TYPE tidegate_sessions_failed_total counter",
            "tidegate_sessions_failed_total 7",
            "# TYPE tidegate_guests gauge",
            "tidegate_guests 8",
            "# TYPE tidegate_guest_wakes_total counter",
            "tidegate_guest_wakes_total 9",
        ];
        assert_eq!(rows, expected);
        assert_eq!(text.lines().count(), 30, "a line of help for each");
    }
}
