//! How often each clause was checked in a run, and where it was first broken.

use crate::journal::Facts;
use std::collections::BTreeMap;
use tidegate::platform::CpuTime;

/// An event of a run, by its number, and its time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub(crate) number: usize,
    pub(crate) at: CpuTime,
}

/// The first break of a clause.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    /// The event; the number of events for an obligation that was due at the end.
    pub(crate) place: Place,
    pub(crate) what: String,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Judged {
    pub(crate) checks: u64,
    pub(crate) broken: Option<Broken>,
}

/// Judgements by the id of the clause.
pub(crate) struct Tally {
    pub(crate) facts: Facts,
    pub(crate) judged: BTreeMap<&'static str, Judged>,
    /// The present event.
    place: Place,
    /// Whether a violation has stopped the adapter.
    pub(crate) is_stopped: bool,
    /// Clauses that broke since the last take.
    newly_broken: Vec<&'static str>,
}

impl Tally {
    pub(crate) fn new(facts: Facts) -> Tally {
        let (judged, newly_broken) = (BTreeMap::new(), Vec::new());
        Tally { facts, judged, place: Place::default(), is_stopped: false, newly_broken }
    }

    /// Goes on to an event.
    pub(crate) fn go_to(&mut self, place: Place) {
        self.place = place;
    }

    /// Returns the present event.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Counts a check of a clause at the present event, and keeps the first that fails.
    pub(crate) fn check(&mut self, id: &'static str, holds: bool, what: impl FnOnce() -> String) {
        self.check_of(id, self.place, holds, what);
    }

    /// As [`Tally::check`], for an event of the past.
    pub(crate) fn check_of(
        &mut self,
        id: &'static str,
        place: Place,
        holds: bool,
        what: impl FnOnce() -> String,
    ) {
        let judged = self.judged.entry(id).or_default();
        judged.checks += 1;
        if !holds && judged.broken.is_none() {
            judged.broken = Some(Broken { place, what: what() });
            self.newly_broken.push(id);
        }
    }

    /// As [`Tally::check`], for an obligation that is due at the end of the run. Void if a
    /// violation has stopped the adapter.
    pub(crate) fn check_at_end(
        &mut self,
        id: &'static str,
        holds: bool,
        what: impl FnOnce() -> String,
    ) {
        if !self.is_stopped {
            self.check(id, holds, what);
        }
    }

    /// Returns whether a clause was checked.
    pub(crate) fn was_checked(&self, id: &str) -> bool {
        self.judged.contains_key(id)
    }

    /// Takes the clauses that broke since the last take, with their breaks.
    pub(crate) fn take_newly_broken(&mut self) -> Vec<(&'static str, Broken)> {
        let ids = std::mem::take(&mut self.newly_broken);
        let of = |id: &'static str| Some((id, self.judged.get(id)?.broken.clone()?));
        ids.into_iter().filter_map(of).collect()
    }
}
