//! Builds a trace. Ids are assigned before the run. Afterwards the buffers of the agents are merged
//! and sorted, and records of queueing are joined with records of execution. A record with an
//! unknown lane, fence or name is left out and counted as lost.

use crate::model::{ClockName, Fence, FenceId, Kind, Lane, LaneId, LaneKind, Record, Trace};
use crate::names::{NameId, Names};
use crate::queued;

/// Builds a trace.
#[derive(Clone, Debug)]
pub struct TraceBuilder {
    pub(crate) trace: Trace,
    /// Fences that were removed, whose numbers are used again.
    pub(crate) removed: Vec<FenceId>,
    /// Fences that ended during a recording.
    pub(crate) ended: Vec<FenceId>,
    /// Lanes that were removed, whose numbers are used again.
    pub(crate) removed_lanes: Vec<LaneId>,
}

impl TraceBuilder {
    /// An empty trace called `title`, whose times come from `clock`.
    pub fn new(title: impl Into<String>, clock: ClockName) -> TraceBuilder {
        TraceBuilder {
            trace: Trace {
                title: title.into(),
                clock,
                verdict: Vec::new(),
                lanes: Vec::new(),
                fences: Vec::new(),
                names: Names::new(),
                records: Vec::new(),
                lost_records: 0,
                findings: Vec::new(),
                critical_path: Vec::new(),
            },
            removed: Vec::new(),
            ended: Vec::new(),
            removed_lanes: Vec::new(),
        }
    }

    /// A new lane; lanes are drawn in the order in which they were added, group by group.
    ///
    /// # Panics
    /// When more than `u32::MAX` lanes are added.
    pub fn add_lane(
        &mut self,
        kind: LaneKind,
        group: impl Into<String>,
        name: impl Into<String>,
    ) -> LaneId {
        let (name, group) = (name.into(), group.into());
        if let Some(id) = self.removed_lanes.pop() {
            self.trace.lanes[id.0 as usize] = Lane { id, kind, name, group };
            return id;
        }
        let id = LaneId(u32::try_from(self.trace.lanes.len()).expect("fewer than 2^32 lanes"));
        self.trace.lanes.push(Lane { id, kind, name, group });
        id
    }

    /// Removes a lane that no record names. It is drawn under its name until another one takes its
    /// number.
    pub fn remove_lane(&mut self, id: LaneId) {
        self.removed_lanes.push(id);
    }

    /// A new fence.
    ///
    /// # Panics
    /// When more than `u32::MAX` fences are added.
    pub fn add_fence(&mut self, name: impl Into<String>) -> FenceId {
        if let Some(id) = self.removed.pop() {
            self.trace.fences[id.0 as usize].name = name.into();
            return id;
        }
        let id = FenceId(u32::try_from(self.trace.fences.len()).expect("fewer than 2^32 fences"));
        self.trace.fences.push(Fence { name: name.into() });
        id
    }

    /// Removes a fence that no record names.
    pub fn remove_fence(&mut self, id: FenceId) {
        self.trace.fences[id.0 as usize].name = String::new();
        self.removed.push(id);
    }

    /// Interns a name.
    pub fn name(&mut self, text: &str) -> NameId {
        self.trace.names.intern(text)
    }

    /// Adds the records of one agent.
    pub fn append(&mut self, records: Vec<Record>) {
        let all = &mut self.trace.records;
        if all.is_empty() {
            *all = records;
        } else {
            // Records are most of the memory of a long run: the list grows by an eighth, not to
            // twice its length.
            if all.capacity() - all.len() < records.len() {
                all.reserve_exact(records.len().max(all.len() / 8));
            }
            all.extend(records);
        }
    }

    /// Adds `count` records that are known to be missing, for example after a fence log was
    /// overrun.
    pub fn add_lost(&mut self, count: u64) {
        self.trace.lost_records = self.trace.lost_records.saturating_add(count);
    }

    /// Adds a sentence to the verdict of the run.
    pub fn add_verdict(&mut self, sentence: impl Into<String>) {
        self.trace.verdict.push(sentence.into());
    }

    /// The finished trace, its records sorted by start.
    pub fn finish(self) -> Trace {
        let mut trace = self.trace;
        let (lanes, fences, names) = (trace.lanes.len(), trace.fences.len(), trace.names.len());
        let before = trace.records.len();
        trace.records.retain(|r| {
            (r.lane.0 as usize) < lanes
                && r.queue().is_none_or(|queue| (queue.0 as usize) < lanes)
                && r.engine().is_none_or(|engine| (engine.0 as usize) < lanes)
                && (r.name.0 as usize) < names
                && r.fence().is_none_or(|(fence, _)| (fence.0 as usize) < fences)
        });
        trace.lost_records =
            trace.lost_records.saturating_add((before - trace.records.len()) as u64);
        sort_by_start(&mut trace.records);
        queued::join(&mut trace.records);
        // Records that stand for lost ones have their number.
        let marked = trace.records.iter().filter(|r| r.kind == Kind::Lost).map(|r| r.arg);
        trace.lost_records = marked.fold(trace.lost_records, u64::saturating_add);
        trace
    }
}

/// Sorts by start; records of one moment keep their order. Positions are sorted and not records: a
/// stable sort takes half of what it sorts again.
fn sort_by_start(records: &mut [Record]) {
    if records.is_sorted_by_key(|record| record.start_ns) {
        return;
    }
    let count = u32::try_from(records.len()).expect("fewer than 2^32 records");
    let mut from: Vec<u32> = (0..count).collect();
    from.sort_by_key(|position| records[*position as usize].start_ns);
    // Each cycle of moves is carried out with one record aside. A position that has its record
    // points to itself.
    for first in 0..count {
        let aside = records[first as usize];
        let mut at = first;
        loop {
            let next = std::mem::replace(&mut from[at as usize], at);
            if next == first {
                break;
            }
            records[at as usize] = records[next as usize];
            at = next;
        }
        records[at as usize] = aside;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_sorted_by_start_and_keeps_order_of_ties() {
        let mut b = TraceBuilder::new("t", ClockName::Virtual);
        let lane = b.add_lane(LaneKind::Queue, "app", "q");
        let (one, two) = (b.name("one"), b.name("two"));
        b.append(vec![
            Record::instant(lane, Kind::Mark, one, 5),
            Record::instant(lane, Kind::Mark, one, 1),
        ]);
        b.append(vec![
            Record::instant(lane, Kind::Mark, two, 5),
            Record::instant(lane, Kind::Mark, two, 0),
        ]);
        let trace = b.finish();
        let seen: Vec<_> = trace.records.iter().map(|r| (r.start_ns, trace.name_of(r))).collect();
        assert_eq!(seen, [(0, "two"), (1, "one"), (5, "one"), (5, "two")]);
        assert_eq!(trace.extent_ns(), Some((0, 5)));
        assert_eq!(trace.lost_records, 0);
    }

    #[test]
    fn sorting_keeps_the_order_of_records_of_one_moment() {
        let start = |k: u32| u64::from(k.wrapping_mul(0x9e37_79b9) >> 20) % 40;
        let record = |k: u32| Record::instant(LaneId(k), Kind::Mark, NameId::NONE, start(k));
        for count in [0, 1, 2, 3, 100, 1_000] {
            let mut records: Vec<Record> = (0..count).map(record).collect();
            let mut expected = records.clone();
            expected.sort_by_key(|record| record.start_ns);
            sort_by_start(&mut records);
            assert_eq!(records, expected);
        }
    }

    #[test]
    fn the_number_of_a_removed_fence_is_used_again() {
        let mut b = TraceBuilder::new("t", ClockName::Virtual);
        let [first, second] = ["first", "second"].map(|name| b.add_fence(name));
        b.remove_fence(first);
        let third = b.add_fence("third");
        assert_eq!((third, b.add_fence("fourth")), (first, FenceId(2)));
        let trace = b.finish();
        let names: Vec<_> = trace.fences.iter().map(|fence| fence.name.as_str()).collect();
        assert_eq!((names, second), (vec!["third", "second", "fourth"], FenceId(1)));
    }

    #[test]
    fn the_number_of_a_removed_lane_is_used_again() {
        let mut b = TraceBuilder::new("t", ClockName::Virtual);
        let [first, second] = ["first", "second"].map(|n| b.add_lane(LaneKind::Queue, "app", n));
        b.remove_lane(first);
        let third = b.add_lane(LaneKind::Queue, "app", "third");
        assert_eq!((third, b.add_lane(LaneKind::Queue, "app", "fourth")), (first, LaneId(2)));
        let trace = b.finish();
        let names: Vec<_> = trace.lanes.iter().map(|lane| lane.name.as_str()).collect();
        assert_eq!((names, second), (vec!["third", "second", "fourth"], LaneId(1)));
    }

    #[test]
    fn records_of_unknown_ids_are_counted_as_lost() {
        let mut b = TraceBuilder::new("t", ClockName::Wall);
        let lane = b.add_lane(LaneKind::Engine, "gpu", "3d");
        b.add_lost(2);
        b.append(vec![
            Record::instant(LaneId(7), Kind::Mark, NameId::NONE, 1),
            Record::instant(lane, Kind::Mark, NameId(7), 1),
            Record::instant(lane, Kind::Wait, NameId::NONE, 1).on_fence(FenceId(0), 1),
            Record::instant(lane, Kind::Mark, NameId::NONE, 1),
        ]);
        let trace = b.finish();
        assert_eq!((trace.records.len(), trace.lost_records), (1, 5));
    }
}
