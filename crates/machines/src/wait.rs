//! The deadline ([`Deadline`]) and the result ([`WaitEnd`]) of a wait.

use crate::time::CpuTime;

/// The result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// The waiter was woken, or the condition was already met.
    Woken,
    /// The deadline passed.
    TimedOut,
    /// The machine stopped, so the condition cannot be met.
    Stopped,
}

/// When a wait times out.
#[derive(Clone, Copy)]
pub struct Deadline {
    /// The time at which it expires.
    pub time: CpuTime,
    /// No agent depends on it: it expires only while the machine moves for other reasons.
    pub in_background: bool,
}

impl Deadline {
    /// Returns the deadline of a waiter.
    pub fn at(time: CpuTime) -> Deadline {
        Deadline { time, in_background: false }
    }

    /// Returns the deadline of background work.
    pub fn background(time: CpuTime) -> Deadline {
        Deadline { time, in_background: true }
    }

    /// Returns whether it expires within `ns` and an agent depends on it.
    pub fn is_within(self, ns: u64, now: CpuTime) -> bool {
        !self.in_background && self.time.since(now) <= ns
    }

    /// Returns when a sleep has to end whose last `ns` nanoseconds are spun. Nothing spins for
    /// background work.
    pub fn before(self, ns: u64) -> Deadline {
        match self.in_background {
            true => self,
            false => Deadline { time: CpuTime(self.time.0.saturating_sub(ns)), ..self },
        }
    }

    /// Returns the deadline of a waiter for the earlier of two.
    pub fn and(self, other: Deadline) -> Deadline {
        Deadline {
            time: self.time.min(other.time),
            in_background: self.in_background && other.in_background,
        }
    }
}

/// The payload of an agent that ends because its machine has stopped.
pub struct Stopped;
