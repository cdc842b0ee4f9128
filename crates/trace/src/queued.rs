//! Joins what was recorded when a fence operation was queued with what was recorded when it was carried out.
//!
//! The two come from different hands: the CPU that queued it, and whoever read the GPU's fence log, in which no CPU time
//! stands. They are joined by lane, fence and value, first queued with first carried out. What was queued and has no
//! counterpart stays a mark of its own: it never came to be carried out, or its log entry was lost.

use std::collections::{HashMap, VecDeque};

use crate::model::{Kind, Record};

/// What a queued event and its operation have in common.
type Key = (u32, Kind, Option<(u32, u64)>);

fn key(record: &Record, kind: Kind) -> Key {
    (record.lane.0, kind, record.fence.map(|(fence, value)| (fence.0, value)))
}

/// Gives each operation its time of queueing, and takes the events away that did. `records` are sorted by start.
// spec: NF-195
pub(crate) fn join(records: &mut Vec<Record>) {
    let mut queued: HashMap<Key, VecDeque<usize>> = HashMap::new();
    for (index, record) in records.iter().enumerate() {
        let of = match record.kind {
            Kind::WaitQueued => Kind::Wait,
            Kind::SignalQueued => Kind::Signal,
            _ => continue,
        };
        queued.entry(key(record, of)).or_default().push_back(index);
    }
    if queued.is_empty() {
        return;
    }
    let mut joined = vec![false; records.len()];
    for index in 0..records.len() {
        let record = records[index];
        if !matches!(record.kind, Kind::Wait | Kind::Signal) {
            continue;
        }
        let Some(waiting) = queued.get_mut(&key(&record, record.kind)) else { continue };
        let Some(event) = waiting.front().copied() else { continue };
        // Nothing is carried out before it was queued: this one was recorded whole, by hardware that knows both times.
        if records[event].start_ns > record.end_ns {
            continue;
        }
        waiting.pop_front();
        records[index].queued_ns = records[event].start_ns;
        joined[event] = true;
    }
    let mut joined = joined.into_iter();
    records.retain(|_| !joined.next().unwrap_or(false));
}

#[cfg(test)]
mod tests {
    use crate::{ClockName, FenceId, Kind, LaneId, LaneKind, NameId, Record, TraceBuilder};

    fn builder() -> (TraceBuilder, LaneId, [FenceId; 2]) {
        let mut b = TraceBuilder::new("t", ClockName::Virtual);
        let lane = b.add_lane(LaneKind::Queue, "app", "q");
        let fences = [b.add_fence("a"), b.add_fence("b")];
        (b, lane, fences)
    }

    #[test]
    // spec: NF-195
    fn an_operation_gets_the_time_at_which_it_was_queued() {
        let (mut b, lane, [a, other]) = builder();
        let event =
            |kind, at, fence, value| Record::instant(lane, kind, NameId::NONE, at).on_fence(fence, value);
        let wait = |start, end| Record::span(lane, Kind::Wait, NameId::NONE, start, end).on_fence(a, 1);
        b.append(vec![wait(40, 50), event(Kind::Signal, 50, a, 2), wait(60, 60)]);
        b.append(vec![
            event(Kind::WaitQueued, 1, a, 1),
            event(Kind::SignalQueued, 2, a, 2),
            event(Kind::WaitQueued, 3, a, 1),
            event(Kind::SignalQueued, 4, other, 2),
            event(Kind::WaitQueued, 5, other, 1),
        ]);
        let trace = b.finish();
        let seen: Vec<_> =
            trace.records.iter().map(|r| (r.kind, r.queued_ns, r.start_ns, r.end_ns)).collect();
        let pending = [(Kind::SignalQueued, 4, 4, 4), (Kind::WaitQueued, 5, 5, 5)];
        let done = [(Kind::Wait, 1, 40, 50), (Kind::Signal, 2, 50, 50), (Kind::Wait, 3, 60, 60)];
        assert_eq!(seen, [&pending[..], &done[..]].concat());
    }

    #[test]
    fn what_was_carried_out_before_is_another_operation() {
        let (mut b, lane, [a, _]) = builder();
        b.append(vec![
            Record::instant(lane, Kind::Signal, NameId::NONE, 10).on_fence(a, 1).queued(7),
            Record::instant(lane, Kind::SignalQueued, NameId::NONE, 20).on_fence(a, 1),
        ]);
        let kinds: Vec<_> = b.finish().records.iter().map(|r| (r.kind, r.queued_ns)).collect();
        assert_eq!(kinds, [(Kind::Signal, 7), (Kind::SignalQueued, 20)]);
    }

    #[test]
    fn losses_are_summed() {
        let (mut b, lane, _) = builder();
        let lost = |at, count| Record::instant(lane, Kind::Lost, NameId::NONE, at).with_arg(count);
        b.append(vec![lost(1, 3), lost(2, 4)]);
        b.add_lost(1);
        assert_eq!(b.finish().lost_records, 8);
    }
}
