//! How often each clause was checked in a run, and where it was first broken.

use crate::journal::Journal;
use std::collections::BTreeMap;
use tidegate::platform::CpuTime;

/// The first break of a clause.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    /// Place in the journal; its length for an obligation that was due at the end.
    pub(crate) place: usize,
    pub(crate) at: CpuTime,
    pub(crate) what: String,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Judged {
    pub(crate) checks: u64,
    pub(crate) broken: Option<Broken>,
}

/// Judgements by the id of the clause.
pub(crate) struct Tally<'j> {
    pub(crate) journal: &'j Journal,
    pub(crate) judged: BTreeMap<&'static str, Judged>,
}

impl<'j> Tally<'j> {
    pub(crate) fn new(journal: &'j Journal) -> Tally<'j> {
        Tally { journal, judged: BTreeMap::new() }
    }

    /// Counts a check of a clause at a place of the journal, and keeps the first that fails.
    pub(crate) fn check(
        &mut self,
        id: &'static str,
        place: usize,
        holds: bool,
        what: impl FnOnce() -> String,
    ) {
        let judged = self.judged.entry(id).or_default();
        judged.checks += 1;
        if !holds && judged.broken.is_none() {
            let seen = &self.journal.seen;
            let at = seen.get(place).or(seen.last()).map_or(CpuTime(0), |seen| seen.at);
            judged.broken = Some(Broken { place, at, what: what() });
        }
    }

    /// As [`Tally::check`], for an obligation that is due at the end of the run. Void if a
    /// violation has stopped the adapter, or if the journal ends before the run.
    pub(crate) fn check_at_end(
        &mut self,
        id: &'static str,
        holds: bool,
        what: impl FnOnce() -> String,
    ) {
        if !self.journal.stopped && self.journal.is_whole {
            self.check(id, self.journal.seen.len(), holds, what);
        }
    }
}
