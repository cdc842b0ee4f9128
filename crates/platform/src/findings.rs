//! Puts what the hazard check found on the timeline: finds the records of each finding.
//!
//! The waits of packet and hardware queues are recorded when they end, so an open one has no
//! record. A side of a hazard is the engine's record of its command where that is the only one of
//! its kind in the submission, else the queue's record of the submission. A side whose record was
//! not kept has none, and then there is no edge. Form: decisions/0065.

use std::collections::HashMap;
use tidegate_hazard::deadlock::{Awaited, Deadlock, DeadlockKind, Release};
use tidegate_hazard::{Hazard, Report, Side, TimelineKind};
use tidegate_trace::{Finding, FindingKind, Kind, LaneKind, LinkId, MissingEdge, Record, Trace};

/// Adds the findings of a report to a finished trace.
pub(crate) fn add(trace: &mut Trace, report: &Report) {
    let index = Index::of(trace);
    let hazards = report.hazards.iter().map(|hazard| index.hazard(hazard));
    let waits = report.deadlocks.iter().chain(&report.unsignalled);
    let found: Vec<Finding> = hazards.chain(waits.map(|found| index.deadlock(found))).collect();
    found.into_iter().for_each(|finding| trace.add_finding(finding));
}

/// The records of a trace by their links.
struct Index<'a> {
    trace: &'a Trace,
    of_link: HashMap<LinkId, Vec<usize>>,
}

impl Index<'_> {
    fn of(trace: &Trace) -> Index<'_> {
        let mut of_link: HashMap<LinkId, Vec<usize>> = HashMap::new();
        for (index, record) in trace.records.iter().enumerate() {
            if record.link.is_some() {
                of_link.entry(record.link).or_default().push(index);
            }
        }
        Index { trace, of_link }
    }

    fn record(&self, index: usize) -> &Record {
        &self.trace.records[index]
    }

    fn is_on(&self, record: &Record, kind: LaneKind, name: &str) -> bool {
        let lane = &self.trace.lanes[record.lane.0 as usize];
        lane.kind == kind && lane.name == name
    }

    fn hazard(&self, hazard: &Hazard) -> Finding {
        let (first, second) = (&hazard.first, &hazard.second);
        let bytes = &hazard.bytes;
        let what = match &hazard.resource {
            Some(name) => format!("bytes {}..{} of '{name}'", bytes.start, bytes.end),
            None => format!("addresses {:#x}..{:#x}", bytes.start, bytes.end),
        };
        let title = format!("{what}: '{}', then '{}'", first.timeline, second.timeline);
        let mut ends = [first, second].map(|side| self.side(side));
        // The CPU and the display have no link: their access is the one next to the other side.
        if let (None, Some(other)) = (ends[0], ends[1]) {
            let before = self.record(other).start_ns;
            ends[0] = self.unlinked(first, |record| record.end_ns <= before).next_back();
        } else if let (Some(other), None) = (ends[0], ends[1]) {
            let after = self.record(other).start_ns;
            ends[1] = self.unlinked(second, |record| record.end_ns >= after).next();
        }
        let edges = match ends {
            [Some(from), Some(to)] => vec![MissingEdge { from, to }],
            _ => Vec::new(),
        };
        let records = ends.into_iter().flatten().collect();
        Finding { kind: FindingKind::Hazard, title, text: hazard.to_string(), records, edges }
    }

    /// The record of an access of a queue.
    fn side(&self, side: &Side) -> Option<usize> {
        if side.kind != TimelineKind::Queue {
            return None;
        }
        let all = self.of_link.get(&LinkId(side.link))?;
        let kind_of = |index: &usize| self.trace.lanes[self.record(*index).lane.0 as usize].kind;
        let kind = side.what.split(' ').next().unwrap_or_default();
        let commands: Vec<usize> = all
            .iter()
            .copied()
            .filter(|index| kind_of(index) == LaneKind::Engine)
            .filter(|index| self.record(*index).kind.label() == kind)
            .collect();
        // The stretches of a preempted command have one time of queueing.
        let first = commands.first().map(|index| self.record(*index).queued_ns);
        if commands.iter().all(|index| Some(self.record(*index).queued_ns) == first)
            && let Some(command) = commands.last()
        {
            return Some(*command);
        }
        all.iter().copied().find(|index| kind_of(index) == LaneKind::Queue)
    }

    /// The records that may be an access of a CPU thread or of the display.
    fn unlinked(
        &self,
        side: &Side,
        fits: impl Fn(&Record) -> bool,
    ) -> impl DoubleEndedIterator<Item = usize> {
        let is_access = |record: &Record| match side.kind {
            TimelineKind::Queue => false,
            TimelineKind::Thread => {
                record.kind == Kind::MapWrite
                    && self.is_on(record, LaneKind::CpuThread, &side.timeline)
            }
            TimelineKind::Display => record.kind == Kind::Flip,
        };
        let records = self.trace.records.iter().enumerate();
        let found = records.filter(|(_, record)| is_access(record) && fits(record));
        found.map(|(index, _)| index).collect::<Vec<_>>().into_iter()
    }

    fn deadlock(&self, found: &Deadlock) -> Finding {
        let title = match (found.kind, found.chain.last().map(|link| &link.awaits)) {
            (DeadlockKind::Circle, _) => format!("a circle of {} waits", found.chain.len()),
            (_, Some(Awaited::Fence { fence, value, .. })) => {
                format!("no signal takes '{fence}' to {value}")
            }
            _ => "a wait that no signal ends".to_owned(),
        };
        let (mut records, mut edges) = (Vec::new(), Vec::new());
        for link in found.chain.iter().chain(&found.others) {
            let Awaited::Fence { fence, value, .. } = &link.awaits else { continue };
            let waits = [Kind::Wait, Kind::WaitQueued, Kind::CpuWait];
            let wait = self.operation(&link.waiter, fence, *value, &waits);
            records.extend(wait);
            let Release::Signal { signaller, value, .. } = &link.release else { continue };
            let signal =
                self.operation(signaller, fence, *value, &[Kind::Signal, Kind::SignalQueued]);
            records.extend(signal.filter(|signal| !records.contains(signal)));
            if let (Some(from), Some(to)) = (signal, wait) {
                edges.push(MissingEdge { from, to });
            }
        }
        Finding { kind: FindingKind::Deadlock, title, text: found.to_string(), records, edges }
    }

    /// The last operation of this lane on a fence and value.
    fn operation(&self, lane: &str, fence: &str, value: u64, kinds: &[Kind]) -> Option<usize> {
        let is_it = |record: &Record| {
            kinds.contains(&record.kind)
                && self.trace.lanes[record.lane.0 as usize].name == lane
                && record.fence().is_some_and(|(of, at)| {
                    at == value && self.trace.fences[of.0 as usize].name == fence
                })
        };
        self.trace.records.iter().rposition(is_it)
    }
}
