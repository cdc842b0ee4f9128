//! A clause that a driver has broken, in words.

use crate::clause::Words;
use crate::judge::words;
use crate::tally::Broken;
use std::fmt;

/// A clause that a driver has broken, and where it was first broken.
#[derive(Clone, Debug)]
pub struct Breach {
    /// The clause.
    pub clause: Words,
    /// Time of the event, in nanoseconds of the machine's clock.
    pub at_ns: u64,
    /// Number of the event.
    pub place: usize,
    /// What was seen.
    pub what: String,
}

impl Breach {
    pub(crate) fn of(id: &str, broken: Broken) -> Option<Breach> {
        let Broken { place, what } = broken;
        Some(Breach { clause: words(id)?, at_ns: place.at.0, place: place.number, what })
    }

    /// Returns the clause and what was seen as one line.
    pub fn line(&self) -> String {
        let Words { id, rule, .. } = self.clause;
        format!("{id} at {} ns (event {}): {}; {rule}", self.at_ns, self.place, self.what)
    }
}

/// A failed test: the rule, its source, and what was seen.
impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Words { id, rule, source, .. } = self.clause;
        writeln!(f, "{id}: {rule}")?;
        writeln!(f, "  source: {source}")?;
        write!(f, "  at {} ns (event {}): {}", self.at_ns, self.place, self.what)
    }
}

/// Receives a clause when it is broken.
pub(crate) type Report = dyn Fn(&Breach) + Send + Sync;

/// Calls `report` with each break.
pub(crate) fn report_all(report: &Report, broken: Vec<(&'static str, Broken)>) {
    for (id, broken) in broken {
        if let Some(breach) = Breach::of(id, broken) {
            report(&breach);
        }
    }
}
