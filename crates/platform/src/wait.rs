//! How a wait ends: [`Deadline`] is when it ends by itself, [`WaitEnd`] is how it ended.

use crate::time::CpuTime;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// The waiter was woken, or the condition held already.
    Woken,
    /// The deadline passed.
    TimedOut,
    /// The machine stopped; nothing that is waited for will come.
    Stopped,
}

/// When a wait ends by itself.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    pub(crate) time: CpuTime,
    /// No agent depends on it: it comes only while the machine moves for other reasons.
    pub(crate) in_background: bool,
}

impl Deadline {
    pub(crate) fn at(time: CpuTime) -> Deadline {
        Deadline { time, in_background: false }
    }

    pub(crate) fn background(time: CpuTime) -> Deadline {
        Deadline { time, in_background: true }
    }

    /// Whether it is due within `ns`, and an agent depends on it.
    pub(crate) fn is_within(self, ns: u64, now: CpuTime) -> bool {
        !self.in_background && self.time.since(now) <= ns
    }

    /// This deadline `ns` earlier.
    pub(crate) fn before(self, ns: u64) -> Deadline {
        Deadline { time: CpuTime(self.time.0.saturating_sub(ns)), ..self }
    }

    /// The deadline of a waiter for the earlier of two.
    pub(crate) fn and(self, other: Deadline) -> Deadline {
        Deadline {
            time: self.time.min(other.time),
            in_background: self.in_background && other.in_background,
        }
    }
}
