//! What can be wrong with a run.
//!
//! Entry points: [`Failure`]; [`Failure::is_like`] for the shrinker.

use crate::program::ProgramStep;
use std::fmt;

/// The failure of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No agent can move, or the watchdog saw no progress. Each blocked agent with its wait.
    Standstill(Vec<String>),
    /// An agent panicked.
    Panic(String),
    /// A call of a steady process failed, or one of a doomed process with an undocumented status.
    Refused {
        /// The step.
        step: ProgramStep,
        /// The error.
        error: String,
    },
    /// A buffer does not hold what the model says.
    Memory(String),
    /// A registered wait was reported too often, or after its cancellation.
    Event(String),
    /// The driver broke its contract, or the kernel says so.
    Driver(String),
    /// The driver broke a clause of `tidegate conform`.
    Clause(String),
    /// The adapter stopped.
    BugCheck(String),
    /// A device was lost, or kept, or named another culprit than the injected one.
    Blame(String),
    /// An injected hang was found too late, or a queue waited too long.
    Late(String),
    /// Objects are left at the end.
    Leak(String),
    /// Two runs of the same program differ.
    NotDeterministic(String),
    /// A call failed in a child process, in its words.
    Child(String),
}

impl Failure {
    /// Returns the failure that a child process wrote as text.
    pub(crate) fn of_child(text: &str) -> Failure {
        let (oracle, rest) = text.split_once(": ").unwrap_or(("panic", text));
        let rest = rest.to_owned();
        match oracle {
            "standstill" => Failure::Standstill(vec![rest]),
            "memory" => Failure::Memory(rest),
            "event" => Failure::Event(rest),
            "driver" => Failure::Driver(rest),
            "clause" => Failure::Clause(rest),
            "bug check" => Failure::BugCheck(rest),
            "blame" => Failure::Blame(rest),
            "late" => Failure::Late(rest),
            "leak" => Failure::Leak(rest),
            "panic" => Failure::Panic(rest),
            _ => Failure::Child(text.to_owned()),
        }
    }

    /// Returns the oracle's name.
    pub fn oracle(&self) -> &'static str {
        match self {
            Failure::Standstill(_) => "standstill",
            Failure::Panic(_) => "panic",
            Failure::Refused { .. } | Failure::Child(_) => "status",
            Failure::Memory(_) => "memory",
            Failure::Event(_) => "event",
            Failure::Driver(_) => "driver",
            Failure::Clause(_) => "clause",
            Failure::BugCheck(_) => "bug check",
            Failure::Blame(_) => "blame",
            Failure::Late(_) => "late",
            Failure::Leak(_) => "leak",
            Failure::NotDeterministic(_) => "determinism",
        }
    }

    /// Returns whether both are failures of one kind: the same oracle, and the same kind of step or
    /// the same words without numbers.
    pub fn is_like(&self, other: &Failure) -> bool {
        match (self, other) {
            (Failure::Refused { step: a, error: x }, Failure::Refused { step: b, error: y }) => {
                a.operation.kind() == b.operation.kind() && without_numbers(x) == without_numbers(y)
            }
            (Failure::Panic(a), Failure::Panic(b))
            | (Failure::Child(a), Failure::Child(b))
            | (Failure::Clause(a), Failure::Clause(b))
            | (Failure::BugCheck(a), Failure::BugCheck(b)) => {
                without_numbers(a) == without_numbers(b)
            }
            _ => self.oracle() == other.oracle(),
        }
    }
}

fn without_numbers(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Standstill(waits) => write!(f, "standstill: {}", waits.join("; ")),
            Failure::Refused { step, error } => {
                write!(f, "'{} {}' failed: {error}", step.thread, step.operation)
            }
            Failure::Child(text) => f.write_str(text),
            Failure::Panic(text)
            | Failure::Memory(text)
            | Failure::Event(text)
            | Failure::Driver(text)
            | Failure::Clause(text)
            | Failure::BugCheck(text)
            | Failure::Blame(text)
            | Failure::Late(text)
            | Failure::Leak(text)
            | Failure::NotDeterministic(text) => write!(f, "{}: {text}", self.oracle()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_one_kind_differ_in_numbers_only() {
        let panic = |text: &str| Failure::Panic(text.to_owned());
        assert!(panic("a.rs:12: index 7").is_like(&panic("a.rs:9: index 10")));
        assert!(!panic("a.rs:12: index 7").is_like(&panic("b.rs:12: index 7")));
        let stopped = |text: &str| Failure::BugCheck(text.to_owned());
        assert!(stopped("packet 1").is_like(&stopped("packet 22")));
        assert!(!stopped("packet 1").is_like(&stopped("fence 1")));
        assert!(!stopped("packet 1").is_like(&panic("packet 1")));
        let child = |text: &str| Failure::Child(text.to_owned());
        assert!(child("t0 failed: 5").is_like(&child("t1 failed: 6")));
        assert!(!child("t0 failed: 5").is_like(&child("t0 waited: 5")));
        // Others are alike by their oracle.
        let leak = |text: &str| Failure::Leak(text.to_owned());
        assert!(leak("a device").is_like(&leak("a fence")));
        assert!(!leak("a device").is_like(&Failure::Late("a device".to_owned())));
    }

    #[test]
    fn what_a_child_writes_is_the_same_failure_again() {
        let text = || "x: y 1".to_owned();
        for failure in [
            Failure::Standstill(vec![text()]),
            Failure::Panic(text()),
            Failure::Memory(text()),
            Failure::Event(text()),
            Failure::Driver(text()),
            Failure::Clause(text()),
            Failure::BugCheck(text()),
            Failure::Blame(text()),
            Failure::Late(text()),
            Failure::Leak(text()),
        ] {
            assert_eq!(Failure::of_child(&failure.to_string()), failure);
        }
        let other = "'t0 rest 5' failed: NO_MEMORY: none";
        assert_eq!(Failure::of_child(other), Failure::Child(other.to_owned()));
        assert_eq!(Failure::of_child("no oracle"), Failure::Panic("no oracle".to_owned()));
    }
}
