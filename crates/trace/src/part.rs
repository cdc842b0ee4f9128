//! A recording of a machine that goes on, part by part.
//!
//! A builder is bounded while it is recorded from: a record for which it has no room is counted as
//! lost. Lanes, fences and names keep their numbers, so a [`Part`] has those that are new, and a
//! builder elsewhere that adds all parts finishes the same trace.
//!
//! Entry points: [`TraceBuilder::begin_parts`], [`TraceBuilder::push_bounded`],
//! [`TraceBuilder::take_part`], [`TraceBuilder::add_part`].

use crate::builder::TraceBuilder;
use crate::model::{FenceId, LaneKind, Record};
use serde::{Deserialize, Serialize};

/// Fences that may end during a recording without their numbers being used again.
const ENDED_KEPT: usize = 65_536;

/// How many lanes, fences and names a reader knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    lanes: usize,
    fences: usize,
    names: usize,
}

/// What is new since the part before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Lanes: kind, group and name.
    pub lanes: Vec<(LaneKind, String, String)>,
    /// Names of fences.
    pub fences: Vec<String>,
    /// Interned names.
    pub names: Vec<String>,
    /// Records, in no order.
    pub records: Vec<Record>,
    /// Records for which there was no room.
    pub lost: u64,
}

impl Part {
    /// Whether nothing is new.
    pub fn is_empty(&self) -> bool {
        *self == Part::default()
    }

    /// Takes the first items of each kind: at most `strings` of those with text, and `records`.
    pub fn split_off_first(&mut self, strings: usize, records: usize) -> Part {
        fn first<T>(all: &mut Vec<T>, most: usize) -> Vec<T> {
            let rest = all.split_off(most.min(all.len()));
            std::mem::replace(all, rest)
        }
        // From the end, which moves no other record.
        let of_records = self.records.split_off(self.records.len().saturating_sub(records));
        Part {
            lanes: first(&mut self.lanes, strings),
            fences: first(&mut self.fences, strings),
            names: first(&mut self.names, strings),
            records: of_records,
            lost: std::mem::take(&mut self.lost),
        }
    }
}

impl TraceBuilder {
    /// Begins a recording: records that were left are dropped, and numbers of fences that end are
    /// not used again until [`TraceBuilder::end_parts`].
    pub fn begin_parts(&mut self) {
        self.trace.records = Vec::new();
        self.trace.lost_records = 0;
        self.ended.append(&mut self.removed);
    }

    /// Ends a recording.
    pub fn end_parts(&mut self) {
        self.trace.records = Vec::new();
        let ended = std::mem::take(&mut self.ended);
        ended.into_iter().for_each(|fence| self.remove_fence(fence));
    }

    /// Removes a fence that records may name, when the recording ends.
    pub fn end_fence(&mut self, fence: FenceId) {
        match self.ended.len() < ENDED_KEPT {
            true => self.ended.push(fence),
            false => self.remove_fence(fence),
        }
    }

    /// Adds a record if there are fewer than `most`, else counts it as lost.
    pub fn push_bounded(&mut self, record: Record, most: usize) {
        match self.trace.records.len() < most {
            true => self.trace.records.push(record),
            false => self.add_lost(1),
        }
    }

    /// Takes the records, and what a reader that knows `known` does not.
    pub fn take_part(&mut self, known: &mut Known) -> Part {
        let trace = &mut self.trace;
        let lanes = trace.lanes.iter().skip(known.lanes);
        let part = Part {
            lanes: lanes.map(|l| (l.kind, l.group.clone(), l.name.clone())).collect(),
            fences: trace.fences.iter().skip(known.fences).map(|f| f.name.clone()).collect(),
            names: trace.names.after(known.names),
            records: std::mem::take(&mut trace.records),
            lost: std::mem::take(&mut trace.lost_records),
        };
        let (lanes, fences) = (trace.lanes.len(), trace.fences.len());
        *known = Known { lanes, fences, names: trace.names.len() };
        part
    }

    /// Adds a part, in the order in which they were taken.
    pub fn add_part(&mut self, part: Part) {
        for (kind, group, name) in part.lanes {
            self.add_lane(kind, group, name);
        }
        for fence in part.fences {
            self.add_fence(fence);
        }
        for name in part.names {
            self.name(&name);
        }
        self.append(part.records);
        self.add_lost(part.lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClockName, Kind};

    #[test]
    fn parts_make_the_same_trace() {
        let mut source = TraceBuilder::new("", ClockName::Wall);
        let lane = source.add_lane(LaneKind::Queue, "app", "q");
        let (early, name) = (source.add_fence("early"), source.name("first"));
        source.push_bounded(Record::instant(lane, Kind::Mark, name, 1), 9);
        source.begin_parts();
        source.end_fence(early);
        let (mut known, mut copy) = (Known::default(), TraceBuilder::new("", ClockName::Wall));
        for at in [5, 3] {
            let (fence, name) = (source.add_fence("late"), source.name(&at.to_string()));
            for at in [at, at + 1, at + 2] {
                let record = Record::instant(lane, Kind::Signal, name, at).on_fence(fence, at);
                source.push_bounded(record, 2);
            }
            let mut part = source.take_part(&mut known);
            while !part.is_empty() {
                copy.add_part(part.split_off_first(1, 1));
            }
        }
        let trace = copy.finish();
        let seen: Vec<_> =
            trace.records.iter().map(|record| (record.start_ns, trace.name_of(record))).collect();
        assert_eq!(seen, [(3, "3"), (4, "3"), (5, "5"), (6, "5")]);
        assert_eq!((trace.lost_records, trace.fences.len(), trace.lanes.len()), (2, 3, 1));
        source.end_parts();
        assert_eq!(source.add_fence("next"), early, "numbers are used again afterwards");
        assert_eq!(source.take_part(&mut Known::default()).records, []);
    }
}
