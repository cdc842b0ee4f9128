//! Joins the record of an operation's queueing with the record of its execution.
//!
//! The submitting CPU thread makes the first. The engine, or the reader of the GPU's fence log,
//! makes the second. They share no number. Waits and signals are joined by lane, fence and value,
//! command buffers by lane and link: calls of several threads may be of one nanosecond. Equal ones
//! are joined in order.
//!
//! Invariants of a finished trace:
//! - a command buffer on a queue's lane has the name of its list and the link of its submission;
//! - a slice of an engine has the link of its submission;
//! - a queued record without a counterpart stays, and runs from its queueing to the end of the
//!   trace; a command buffer without one becomes a [`Kind::NeverRan`].

use std::hash::Hash;

use foldhash::HashMap;

use crate::model::{Kind, LaneId, LinkId, Record};

/// The key by which the two records of a wait or a signal are joined.
type FenceKey = (u32, Kind, Option<(u32, u64)>);
/// The key of a command buffer: its lane, and the link of the call that queued it.
type BufferKey = (LaneId, LinkId);

fn fence_key(record: &Record, kind: Kind) -> FenceKey {
    (record.lane.0, kind, record.fence().map(|(fence, value)| (fence.0, value)))
}

/// Adds the data of queued records to the records of their operations, and removes the former.
/// `records` are sorted by start.
// spec: NF-195
pub(crate) fn join(records: &mut Vec<Record>) {
    let is_queued =
        |r: &Record| matches!(r.kind, Kind::WaitQueued | Kind::SignalQueued | Kind::ExecuteQueued);
    if !records.iter().any(is_queued) {
        return;
    }
    let mut joined = vec![false; records.len()];
    join_fences(records, &mut joined);
    join_buffers(records, &mut joined);
    let end_ns = records.iter().map(|r| r.end_ns).max().unwrap_or(0);
    let mut joined = joined.into_iter();
    records.retain(|_| !joined.next().unwrap_or(false));
    records.shrink_to_fit();
    for record in records.iter_mut() {
        match record.kind {
            Kind::ExecuteQueued => (record.kind, record.end_ns) = (Kind::NeverRan, end_ns),
            Kind::WaitQueued | Kind::SignalQueued => record.end_ns = end_ns,
            _ => {}
        }
    }
    link_engines(records);
}

/// Indices of records by key, first in first out. There may be millions of keys with one record.
struct Queued<K> {
    /// The first and the last record of a key.
    ends: HashMap<K, (u32, u32)>,
    /// The next record of the same key.
    next: HashMap<u32, u32>,
}

/// No more records of a key.
const LAST: u32 = u32::MAX;

impl<K: Eq + Hash> Queued<K> {
    fn of(records: &[Record], key: impl Fn(&Record) -> Option<K>) -> Queued<K> {
        let mut queued = Queued { ends: HashMap::default(), next: HashMap::default() };
        for (index, record) in (0..LAST).zip(records) {
            let Some(key) = key(record) else { continue };
            let (_, last) = queued.ends.entry(key).or_insert((index, index));
            if *last != index {
                queued.next.insert(*last, index);
                *last = index;
            }
        }
        queued
    }

    /// Takes the first record of `key` if `is_fit` accepts it.
    fn take(&mut self, key: &K, is_fit: impl FnOnce(usize) -> bool) -> Option<usize> {
        let (first, _) = self.ends.get_mut(key)?;
        let index = (*first != LAST).then_some(*first).filter(|index| is_fit(*index as usize))?;
        *first = self.next.get(&index).copied().unwrap_or(LAST);
        Some(index as usize)
    }
}

fn join_fences(records: &mut [Record], joined: &mut [bool]) {
    let mut queued = Queued::of(records, |record| match record.kind {
        Kind::WaitQueued => Some(fence_key(record, Kind::Wait)),
        Kind::SignalQueued => Some(fence_key(record, Kind::Signal)),
        _ => None,
    });
    for index in 0..records.len() {
        let record = records[index];
        if !matches!(record.kind, Kind::Wait | Kind::Signal) {
            continue;
        }
        // An operation that ended before the event was queued is another one: hardware that knows
        // both times recorded it whole.
        let is_fit = |event: usize| records[event].start_ns <= record.end_ns;
        let Some(event) = queued.take(&fence_key(&record, record.kind), is_fit) else { continue };
        // A call is recorded when it returns. The engine may have reached the slot before.
        records[index].queued_ns = records[event].start_ns.min(record.start_ns);
        joined[event] = true;
    }
}

/// Sets the name of each command buffer.
fn join_buffers(records: &mut [Record], joined: &mut [bool]) {
    let key = |record: &Record| -> BufferKey { (record.lane, record.link) };
    let mut queued = Queued::of(records, |r| (r.kind == Kind::ExecuteQueued).then(|| key(r)));
    for index in 0..records.len() {
        if records[index].kind != Kind::Execute {
            continue;
        }
        let Some(event) = queued.take(&key(&records[index]), |_| true) else { continue };
        records[index].name = records[event].name;
        joined[event] = true;
    }
}

/// Sets the link of each engine slice to the link of the command buffer that its queue was
/// executing. A queue executes one at a time; after its last complete one it executes the first
/// pending one.
fn link_engines(records: &mut [Record]) {
    let mut done: HashMap<LaneId, Vec<usize>> = HashMap::default();
    let mut cut_off: HashMap<LaneId, LinkId> = HashMap::default();
    for (index, record) in records.iter().enumerate() {
        match record.kind {
            Kind::Execute => done.entry(record.lane).or_default().push(index),
            Kind::NeverRan => _ = cut_off.entry(record.lane).or_insert(record.link),
            _ => {}
        }
    }
    for index in 0..records.len() {
        let Record { kind, link, start_ns, end_ns, .. } = records[index];
        let of_queue = records[index].queue();
        let Some(queue) = of_queue.filter(|_| kind != Kind::Submit && !link.is_some()) else {
            continue;
        };
        let done = done.get(&queue).map_or(&[][..], Vec::as_slice);
        let begun = done.partition_point(|buffer| records[*buffer].start_ns <= start_ns);
        let last = begun.checked_sub(1).map(|last| records[done[last]]);
        records[index].link = match last {
            Some(buffer) if end_ns <= buffer.end_ns => buffer.link,
            _ => cut_off.get(&queue).copied().unwrap_or_default(),
        };
    }
}

#[cfg(test)]
mod tests {
    use crate::{ClockName, FenceId, Kind, LaneId, LaneKind, LinkId, NameId, Record, TraceBuilder};

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
        let event = |kind, at, fence, value| {
            Record::instant(lane, kind, NameId::NONE, at).on_fence(fence, value)
        };
        let wait =
            |start, end| Record::span(lane, Kind::Wait, NameId::NONE, start, end).on_fence(a, 1);
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
        let pending = [(Kind::SignalQueued, 4, 4, 60), (Kind::WaitQueued, 5, 5, 60)];
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
    fn a_command_buffer_and_its_slices_get_the_name_and_the_link_of_the_submission() {
        let mut b = TraceBuilder::new("t", ClockName::Virtual);
        let lane = b.add_lane(LaneKind::Queue, "app", "q");
        let engine = b.add_lane(LaneKind::Engine, "GPU", "copy");
        let (first, second, command) = (b.name("first"), b.name("second"), b.name("command"));
        let list = |name, at, link| {
            Record::instant(lane, Kind::ExecuteQueued, name, at).linked(LinkId(link))
        };
        let done = |link, start, end| {
            Record::span(lane, Kind::Execute, NameId::NONE, start, end).linked(LinkId(link))
        };
        let slice =
            |start, end| Record::span(engine, Kind::Fill, command, start, end).for_queue(lane);
        b.append(vec![slice(11, 19), slice(21, 29), slice(51, 59), slice(92, 93)]);
        b.append(vec![done(1, 10, 20), done(1, 20, 30), done(0, 91, 94)]);
        // Two lists of the first submission, one of the second, which is cut off in its middle.
        b.append(vec![list(first, 1, 1), list(second, 1, 1), list(first, 5, 3)]);
        let trace = b.finish();
        let seen = |kind| {
            let of_kind = trace.records.iter().filter(move |r| r.kind == kind);
            of_kind.map(|r| (trace.name_of(r), r.link.0, r.start_ns, r.end_ns)).collect::<Vec<_>>()
        };
        assert_eq!(
            seen(Kind::Execute),
            [("first", 1, 10, 20), ("second", 1, 20, 30), ("", 0, 91, 94)],
            "a buffer of no list keeps its own"
        );
        assert_eq!(seen(Kind::NeverRan), [("first", 3, 5, 94)], "to the end of the trace");
        let links: Vec<u32> =
            trace.records.iter().filter(|r| r.kind == Kind::Fill).map(|r| r.link.0).collect();
        assert_eq!(links, [1, 1, 3, 0]);
    }

    #[test]
    fn two_calls_of_one_nanosecond_are_told_apart() {
        let (mut b, lane, _) = builder();
        let names = ["late", "early", "after"].map(|name| b.name(name));
        let list = |call: usize, at| {
            let link = LinkId(1 + call as u32);
            Record::instant(lane, Kind::ExecuteQueued, names[call], at).linked(link)
        };
        let done = |link, start| {
            let span = Record::span(lane, Kind::Execute, NameId::NONE, start, start + 5);
            span.queued(1).linked(LinkId(link))
        };
        // The thread that was first to read the clock was last to get the lock of the queue.
        b.append(vec![list(0, 1)]);
        b.append(vec![list(1, 1), list(2, 2)]);
        b.append(vec![done(2, 10), done(3, 20), done(1, 30)]);
        let trace = b.finish();
        let seen: Vec<_> = trace.records.iter().map(|record| trace.name_of(record)).collect();
        assert_eq!(seen, ["early", "after", "late"]);
    }

    #[test]
    fn losses_are_summed() {
        let (mut b, lane, _) = builder();
        let lost = |at, count| Record::instant(lane, Kind::Lost, NameId::NONE, at).with_arg(count);
        b.append(vec![lost(1, 3), lost(2, 4)]);
        b.add_lost(1);
        assert_eq!(b.finish().lost_records, 8);
    }

    #[test]
    fn an_engine_that_was_faster_than_the_return_of_the_call_queued_nothing() {
        let (mut b, lane, [a, _]) = builder();
        b.append(vec![
            Record::span(lane, Kind::Wait, NameId::NONE, 40, 50).on_fence(a, 1),
            Record::instant(lane, Kind::WaitQueued, NameId::NONE, 45).on_fence(a, 1),
        ]);
        let times: Vec<_> = b.finish().records.iter().map(|r| (r.queued_ns, r.start_ns)).collect();
        assert_eq!(times, [(40, 40)]);
    }

    #[test]
    fn slices_that_fill_their_command_buffers_are_of_those() {
        let mut b = TraceBuilder::new("t", ClockName::Virtual);
        let lane = b.add_lane(LaneKind::Queue, "app", "q");
        let engine = b.add_lane(LaneKind::Engine, "GPU", "copy");
        let done = |link, start, end| {
            Record::span(lane, Kind::Execute, NameId::NONE, start, end).linked(LinkId(link))
        };
        let list =
            |link| Record::instant(lane, Kind::ExecuteQueued, NameId::NONE, 1).linked(LinkId(link));
        let slice =
            |start, end| Record::span(engine, Kind::Fill, NameId::NONE, start, end).for_queue(lane);
        b.append(vec![list(1), list(2), done(1, 10, 20), done(2, 20, 30)]);
        b.append(vec![slice(10, 20), slice(20, 30)]);
        let trace = b.finish();
        let fills = trace.records.iter().filter(|r| r.kind == Kind::Fill);
        assert_eq!(fills.map(|r| r.link.0).collect::<Vec<_>>(), [1, 2]);
    }
}
