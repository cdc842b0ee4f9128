//! What a clause is. The clauses are in `families`.

use crate::twin::Twin;
use std::fmt;
use std::sync::Arc;
use tidegate::Platform;
use tidegate::ddi::Driver;

/// What clauses are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// Which capability needs which entry, and which answer.
    Capabilities,
    /// The statuses that each entry may return.
    Statuses,
    /// Packets: completion, order, interrupts.
    Packets,
    /// Preemption of packets.
    Preemption,
    /// Hangs and resets.
    Recovery,
    /// Hardware queues, native fences, doorbells.
    Queues,
    /// Paging operations and page tables.
    Paging,
    /// Flips and vertical syncs.
    Display,
    /// D-states.
    Power,
    /// Start, stop, and the handles of objects.
    Life,
    /// The functions of the kernel that the code of a driver calls. Its clauses come with the
    /// subject ([`crate::Subject::with_findings`]).
    Code,
}

impl Family {
    /// All families, in the order in which they are reported.
    pub const ALL: [Family; 11] = [
        Family::Capabilities,
        Family::Statuses,
        Family::Packets,
        Family::Preemption,
        Family::Recovery,
        Family::Queues,
        Family::Paging,
        Family::Display,
        Family::Power,
        Family::Life,
        Family::Code,
    ];

    /// The name, as a user types it.
    pub fn name(self) -> &'static str {
        match self {
            Family::Capabilities => "capabilities",
            Family::Statuses => "statuses",
            Family::Packets => "packets",
            Family::Preemption => "preemption",
            Family::Recovery => "recovery",
            Family::Queues => "queues",
            Family::Paging => "paging",
            Family::Display => "display",
            Family::Power => "power",
            Family::Life => "life",
            Family::Code => "code",
        }
    }

    /// Returns the family of this name.
    pub fn of_name(name: &str) -> Option<Family> {
        Family::ALL.into_iter().find(|family| family.name() == name)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The words of a clause.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// The id, which begins with the family's name.
    pub id: &'static str,
    /// The family.
    pub family: Family,
    /// The rule, in one sentence.
    pub rule: &'static str,
    /// Where the rule comes from: requirements of `spec/`, or a published page.
    pub source: &'static str,
}

/// One rule, and a mistake that breaks it.
pub struct Clause {
    /// The id, which begins with the family's name.
    pub id: &'static str,
    /// The family.
    pub family: Family,
    /// The rule, in one sentence.
    pub rule: &'static str,
    /// Where the rule comes from: requirements of `spec/`, or a published page.
    pub source: &'static str,
    /// The situations in which the twin is tried.
    pub(crate) situations: &'static [&'static str],
    /// The named machine on which the twin is tried with the reference driver; `None` is the
    /// standard one.
    pub(crate) adapter: Option<&'static str>,
    /// A mistake that breaks the rule.
    pub(crate) twin: Twin,
    /// Clauses that the same mistake necessarily breaks, too.
    pub(crate) also: &'static [&'static str],
}

impl Clause {
    /// A clause whose twin breaks no other one, tried with the standard machine.
    pub(crate) const fn new(
        family: Family,
        id: &'static str,
        rule: &'static str,
        source: &'static str,
        situations: &'static [&'static str],
        twin: Twin,
    ) -> Clause {
        Clause { id, family, rule, source, situations, twin, also: &[], adapter: None }
    }

    /// Returns the words of the clause.
    pub fn words(&self) -> Words {
        let Clause { id, family, rule, source, .. } = *self;
        Words { id, family, rule, source }
    }

    /// Returns the names of the situations in which [`crate::Subject::with_mistake`] shows.
    pub fn situations(&self) -> &'static [&'static str] {
        self.situations
    }

    /// Returns the named machine on which the reference driver with the mistake shows it.
    pub fn adapter(&self) -> Option<&'static str> {
        self.adapter
    }

    /// Returns a driver that makes the mistake of the clause, with `inner` behind it. A test of a
    /// watch puts it behind a [`crate::Verifier`].
    pub fn plant(&self, platform: &Platform, inner: Arc<dyn Driver>) -> Arc<dyn Driver> {
        self.twin.before(platform, inner)
    }

    /// The clause, tried on a named machine.
    pub(crate) const fn on(self, adapter: &'static str) -> Clause {
        Clause { adapter: Some(adapter), ..self }
    }

    /// Returns the clauses that the twin breaks beside this one.
    pub fn also(&self) -> &'static [&'static str] {
        self.also
    }
}
