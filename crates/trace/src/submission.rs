//! Submissions: from the CPU call to the box on the queue's lane and to the slices on the engine's.
//!
//! Derived from the links that [`crate::TraceBuilder::finish`] completes.

use std::collections::BTreeMap;

use crate::model::{Kind, LaneKind, LinkId, Trace};

/// The records of a command buffer, as indices into [`Trace::records`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The call that submitted it; `None` if the calling thread has no lane.
    pub call: Option<usize>,
    /// Its box on the queue's lane.
    pub queued: Option<usize>,
    /// The slices of its commands on engines, in the order of time.
    pub slices: Vec<usize>,
}

impl Chain {
    /// Its records, from the call to the last slice.
    pub fn records(&self) -> impl Iterator<Item = usize> {
        self.call.into_iter().chain(self.queued).chain(self.slices.iter().copied())
    }
}

/// The records of one link by kind.
#[derive(Default)]
struct Parts {
    call: Option<usize>,
    boxes: Vec<usize>,
    slices: Vec<usize>,
}

impl Trace {
    /// The chains of this trace, by submission; one for each command buffer.
    pub fn chains(&self) -> Vec<Chain> {
        let mut by_link: BTreeMap<LinkId, Parts> = BTreeMap::new();
        for (index, record) in self.records.iter().enumerate().filter(|(_, r)| r.link.is_some()) {
            let lane = self.lanes[record.lane.0 as usize].kind;
            let parts = by_link.entry(record.link).or_default();
            match (record.kind, lane) {
                (Kind::Submit, _) => parts.call = Some(index),
                (Kind::Execute | Kind::NeverRan, LaneKind::Queue) => parts.boxes.push(index),
                (_, LaneKind::Engine) => parts.slices.push(index),
                _ => {}
            }
        }
        let submissions =
            by_link.into_values().filter(|p| !p.boxes.is_empty() || !p.slices.is_empty());
        submissions.flat_map(|parts| self.chains_of(parts)).collect()
    }

    fn chains_of(&self, parts: Parts) -> Vec<Chain> {
        let chain = |queued| Chain { call: parts.call, queued, slices: Vec::new() };
        let mut chains: Vec<Chain> =
            parts.boxes.iter().map(|&queued| chain(Some(queued))).collect();
        if chains.is_empty() {
            chains.push(chain(None));
        }
        for slice in parts.slices {
            let runs = |&queued: &usize| {
                let (outer, inner) = (&self.records[queued], &self.records[slice]);
                outer.start_ns <= inner.start_ns && inner.end_ns <= outer.end_ns
            };
            let of = parts.boxes.iter().position(runs).unwrap_or(0);
            chains[of].slices.push(slice);
        }
        chains
    }
}

#[cfg(test)]
mod tests {
    use crate::{ClockName, Kind, LaneKind, LinkId, NameId, Record, TraceBuilder};

    #[test]
    fn a_slice_leads_to_its_box_and_to_the_call() {
        let mut b = TraceBuilder::new("t", ClockName::Virtual);
        let main = b.add_lane(LaneKind::CpuThread, "app", "main");
        let lane = b.add_lane(LaneKind::Queue, "app", "q");
        let engine = b.add_lane(LaneKind::Engine, "GPU", "copy");
        let call = |link, start| {
            let call = Record::span(main, Kind::Submit, NameId::NONE, start, start + 2);
            call.for_queue(lane).linked(LinkId(link))
        };
        let list = |link, at| {
            Record::instant(lane, Kind::ExecuteQueued, NameId::NONE, at).linked(LinkId(link))
        };
        let done = |link, start, end| {
            Record::span(lane, Kind::Execute, NameId::NONE, start, end).linked(LinkId(link))
        };
        let slice =
            |start, end| Record::span(engine, Kind::Fill, NameId::NONE, start, end).for_queue(lane);
        b.append(vec![call(1, 0), call(2, 4), list(1, 1), list(1, 1), list(2, 5)]);
        b.append(vec![
            done(1, 10, 20),
            done(1, 20, 30),
            slice(12, 20),
            slice(20, 22),
            slice(24, 30),
        ]);
        let trace = b.finish();
        let times = |index: usize| (trace.records[index].kind, trace.records[index].start_ns);
        let seen: Vec<Vec<_>> =
            trace.chains().iter().map(|chain| chain.records().map(times).collect()).collect();
        use Kind::{Execute, Fill, NeverRan, Submit};
        assert_eq!(
            seen,
            [
                vec![(Submit, 0), (Execute, 10), (Fill, 12)],
                vec![(Submit, 0), (Execute, 20), (Fill, 20), (Fill, 24)],
                vec![(Submit, 4), (NeverRan, 5)],
            ]
        );
    }
}
