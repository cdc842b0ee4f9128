//! Judges the events of a run as they come. It keeps no events, so a run may be of any length.

use crate::clause::{Clause, Words};
use crate::families::{Walk, clauses, walks};
use crate::journal::{Event, Facts, RunEnd};
use crate::tally::{Broken, Judged, Place, Tally};
use std::collections::BTreeMap;
use tidegate::ddi::AdapterCaps;
use tidegate::platform::CpuTime;

/// The clauses and what was seen of them.
pub(crate) struct Judge {
    tally: Tally,
    walks: Vec<Box<dyn Walk>>,
    /// Events so far, and the time of the last one.
    events: usize,
    last: CpuTime,
    /// The first answer of DxgkDdiQueryAdapterInfo.
    pub(crate) caps: Option<Box<AdapterCaps>>,
}

/// The judgement of a run.
pub(crate) struct Judgement {
    pub(crate) judged: BTreeMap<&'static str, Judged>,
    /// The end of the run.
    pub(crate) end: Place,
}

impl Judge {
    pub(crate) fn new(facts: Facts) -> Judge {
        let (tally, walks) = (Tally::new(facts), walks());
        Judge { tally, walks, events: 0, last: CpuTime(0), caps: None }
    }

    /// Judges an event.
    pub(crate) fn event(&mut self, at: CpuTime, event: &Event) {
        if let (None, Event::Caps(caps)) = (&self.caps, event) {
            self.caps = Some(caps.clone());
        }
        self.tally.go_to(Place { number: self.events, at });
        for walk in &mut self.walks {
            walk.event(&mut self.tally, event);
        }
        self.events += 1;
        self.last = at;
    }

    /// Returns the number of events.
    pub(crate) fn events(&self) -> usize {
        self.events
    }

    /// Takes the clauses that broke since the last take.
    pub(crate) fn take_newly_broken(&mut self) -> Vec<(&'static str, Broken)> {
        self.tally.take_newly_broken()
    }

    /// Judges what is due at the end.
    pub(crate) fn end(mut self, end: &RunEnd) -> Judgement {
        let place = Place { number: self.events, at: self.last };
        self.tally.go_to(place);
        self.tally.is_stopped = end.stopped;
        for walk in &mut self.walks {
            walk.end(&mut self.tally, end);
        }
        let mut judged = self.tally.judged;
        if end.stopped {
            keep_first(&mut judged);
        }
        Judgement { judged, end: place }
    }
}

/// Keeps the first break only: what comes after the violation that stopped the adapter is a
/// consequence.
fn keep_first(judged: &mut BTreeMap<&'static str, Judged>) {
    let place = |judged: &Judged| Some(judged.broken.as_ref()?.place.number);
    let Some(first) = judged.values().filter_map(place).min() else { return };
    judged.retain(|_, judged| place(judged).is_none_or(|place| place == first));
}

/// Returns the words of a clause that a walk judges.
pub(crate) fn words(id: &str) -> Option<Words> {
    clauses().find(|clause| clause.id == id).map(Clause::words)
}
