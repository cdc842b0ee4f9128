//! Counters that are derived from the records: the depth of each queue over time.
//!
//! A record of a queue counts from the moment it is queued until it is done. Marks of events ([`Kind::WaitQueued`],
//! [`Kind::SignalQueued`], [`Kind::Preempted`]) do not count.
//!
//! Entry point: [`Trace::queue_depths`].

use crate::model::{Kind, LaneId, LaneKind, Trace};

/// A number that changes over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The lane that it counts on.
    pub lane: LaneId,
    /// Each change: the time, and the value from then on. Times ascend strictly.
    pub samples: Vec<(u64, u64)>,
}

impl Trace {
    /// The number of pending and running operations of each queue that has records, in the order of the lanes.
    pub fn queue_depths(&self) -> Vec<Counter> {
        let mut changes: Vec<Vec<(u64, i64)>> = vec![Vec::new(); self.lanes.len()];
        for record in &self.records {
            let lane = record.lane.0 as usize;
            if self.lanes[lane].kind != LaneKind::Queue || !counts(record.kind) {
                continue;
            }
            let queued = record.queued_ns.min(record.start_ns);
            changes[lane].extend([(queued, 1), (record.end_ns.max(record.start_ns), -1)]);
        }
        let lanes = self.lanes.iter().zip(changes).filter(|(_, changes)| !changes.is_empty());
        lanes.map(|(lane, changes)| Counter { lane: lane.id, samples: samples(changes) }).collect()
    }
}

fn counts(kind: Kind) -> bool {
    kind.is_work() || matches!(kind, Kind::Wait | Kind::Signal | Kind::Gap | Kind::NeverRan)
}

/// The values after all changes of each moment.
fn samples(mut changes: Vec<(u64, i64)>) -> Vec<(u64, u64)> {
    changes.sort_unstable();
    let mut samples: Vec<(u64, u64)> = Vec::new();
    let mut depth = 0;
    for moment in changes.chunk_by(|a, b| a.0 == b.0) {
        depth += moment.iter().map(|(_, change)| change).sum::<i64>();
        let value = u64::try_from(depth).unwrap_or(0);
        if samples.last().map_or(0, |last| last.1) != value {
            samples.push((moment[0].0, value));
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use crate::{ClockName, Kind, LaneKind, NameId, Record, TraceBuilder};

    #[test]
    fn a_queue_is_as_deep_as_what_is_queued_and_not_done() {
        let mut b = TraceBuilder::new("t", ClockName::Virtual);
        let queue = b.add_lane(LaneKind::Queue, "app", "q");
        let engine = b.add_lane(LaneKind::Engine, "GPU", "3D");
        let of = |lane, queued, start, end| {
            Record::span(lane, Kind::Execute, NameId::NONE, start, end).queued(queued)
        };
        b.append(vec![of(queue, 0, 5, 20), of(queue, 2, 20, 30), of(queue, 30, 30, 40)]);
        b.append(vec![of(engine, 5, 5, 20), Record::instant(queue, Kind::WaitQueued, NameId::NONE, 7)]);
        let counters = b.finish().queue_depths();
        assert_eq!(counters.len(), 1);
        assert_eq!(counters[0].lane, queue);
        assert_eq!(counters[0].samples, [(0, 1), (2, 2), (20, 1), (40, 0)]);
    }
}
