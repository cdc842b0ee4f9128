//! Contradictions in a timeline.
//!
//! Checked: no record ends before it starts or starts before it was queued; slices of one engine do
//! not overlap (commands may lie inside their own Execute); a slice that ends inside a command
//! buffer of its queue began inside it; busy time by slices is the busy time that was counted.
//!
//! Entry points: [`Trace::contradictions`] for every timeline, [`Trace::busy_contradictions`]
//! beside a report.

use std::collections::BTreeMap;
use std::fmt;

use crate::model::{Kind, Lane, LaneId, LaneKind, Record, Trace};

/// One contradiction. Indices are into [`Trace::records`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// The times of the record are out of order.
    TimesFall(usize),
    /// Both are slices of one engine, and the second starts before the first ends.
    Overlap(usize, usize),
    /// The slice ends inside a command buffer of its queue (the second) and starts before it.
    BeforeSubmission(usize, usize),
    /// Time for which engines were busy with work of a queue, in nanoseconds.
    BusyTime {
        /// The queue's lane.
        queue: LaneId,
        /// The sum of its slices.
        slices_ns: u64,
        /// The counted time.
        counted_ns: u64,
    },
}

/// A contradiction with its records, for display.
#[derive(Clone, Copy)]
pub struct Explained<'a> {
    trace: &'a Trace,
    what: Contradiction,
}

impl Trace {
    /// Every contradiction between records, in the order of their lanes.
    pub fn contradictions(&self) -> Vec<Contradiction> {
        let falls =
            |record: &Record| record.queued_ns > record.start_ns || record.start_ns > record.end_ns;
        let falling = (0..self.records.len()).filter(|index| falls(&self.records[*index]));
        let mut found: Vec<Contradiction> = falling.map(Contradiction::TimesFall).collect();
        let buffers = self.command_buffers();
        for engine in self.lanes.iter().filter(|lane| lane.kind == LaneKind::Engine) {
            self.check_engine(engine, &buffers, &mut found);
        }
        found
    }

    /// Compares the busy time by slices with counted times: pairs of a queue's lane and
    /// nanoseconds.
    pub fn busy_contradictions(&self, counted: &[(LaneId, u64)]) -> Vec<Contradiction> {
        let mut busy: BTreeMap<LaneId, u64> = BTreeMap::new();
        for record in &self.records {
            if let Some(queue) = record.queue().filter(|_| self.is_slice(record)) {
                *busy.entry(queue).or_default() += record.duration_ns();
            }
        }
        let differs = |&(queue, counted_ns): &(LaneId, u64)| {
            let slices_ns = busy.get(&queue).copied().unwrap_or(0);
            (slices_ns != counted_ns).then_some(Contradiction::BusyTime {
                queue,
                slices_ns,
                counted_ns,
            })
        };
        counted.iter().filter_map(differs).collect()
    }

    /// The contradiction in words, with lanes, names and times.
    pub fn explain(&self, what: Contradiction) -> Explained<'_> {
        Explained { trace: self, what }
    }

    /// Whether the record is busy time of an engine. Replayed gaps are not.
    fn is_slice(&self, record: &Record) -> bool {
        let is_engine = self.lanes[record.lane.0 as usize].kind == LaneKind::Engine;
        is_engine && !matches!(record.kind, Kind::Execute | Kind::Gap)
    }

    /// Command buffers by queue, ordered by their ends.
    fn command_buffers(&self) -> BTreeMap<LaneId, Vec<usize>> {
        let mut buffers: BTreeMap<LaneId, Vec<usize>> = BTreeMap::new();
        for (index, record) in self.records.iter().enumerate() {
            if record.kind == Kind::Execute {
                buffers.entry(record.lane).or_default().push(index);
            }
        }
        buffers.values_mut().for_each(|all| all.sort_by_key(|index| self.records[*index].end_ns));
        buffers
    }

    fn check_engine(
        &self,
        engine: &Lane,
        buffers: &BTreeMap<LaneId, Vec<usize>>,
        found: &mut Vec<Contradiction>,
    ) {
        let mut last: Option<usize> = None;
        let of_engine = |index: &usize| self.records[*index].lane == engine.id;
        for index in (0..self.records.len()).filter(of_engine) {
            let record = &self.records[index];
            if record.kind == Kind::Execute {
                continue;
            }
            if let Some(before) =
                last.filter(|before| self.records[*before].end_ns > record.start_ns)
            {
                found.push(Contradiction::Overlap(before, index));
            }
            if last.is_none_or(|before| self.records[before].end_ns < record.end_ns) {
                last = Some(index);
            }
            let Some(of_queue) = record.queue().and_then(|queue| buffers.get(&queue)) else {
                continue;
            };
            let first =
                of_queue.partition_point(|buffer| self.records[*buffer].end_ns < record.end_ns);
            if let Some(buffer) = of_queue.get(first) {
                let Record { start_ns, .. } = self.records[*buffer];
                if start_ns < record.end_ns && record.start_ns < start_ns {
                    found.push(Contradiction::BeforeSubmission(index, *buffer));
                }
            }
        }
    }

    fn describe(&self, index: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = &self.records[index];
        let (lane, kind, name) =
            (&self.lanes[record.lane.0 as usize].name, record.kind.label(), self.name_of(record));
        let Record { queued_ns, start_ns, end_ns, .. } = record;
        write!(f, "{kind} '{name}' on '{lane}' (queued {queued_ns}, {start_ns} to {end_ns} ns)")
    }
}

impl fmt::Display for Explained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            Contradiction::TimesFall(record) => {
                self.trace.describe(record, f)?;
                f.write_str(": times must not fall")
            }
            Contradiction::Overlap(first, second) => {
                self.trace.describe(second, f)?;
                f.write_str(" overlaps ")?;
                self.trace.describe(first, f)
            }
            Contradiction::BeforeSubmission(slice, buffer) => {
                self.trace.describe(slice, f)?;
                f.write_str(" starts before its command buffer, ")?;
                self.trace.describe(buffer, f)
            }
            Contradiction::BusyTime { queue, slices_ns, counted_ns } => {
                let name = &self.trace.lanes[queue.0 as usize].name;
                write!(
                    f,
                    "queue '{name}': slices of {slices_ns} ns, counted busy time of {counted_ns} ns"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClockName, NameId, TraceBuilder};

    /// A trace of one engine and one queue with these spans, and a command buffer from 10 to 100.
    fn trace(spans: &[(Kind, u64, u64)]) -> (Trace, LaneId) {
        let mut b = TraceBuilder::new("t", ClockName::Virtual);
        let engine = b.add_lane(LaneKind::Engine, "GPU", "3D");
        let queue = b.add_lane(LaneKind::Queue, "app", "render");
        let span = |&(kind, start, end): &(Kind, u64, u64)| {
            Record::span(engine, kind, NameId::NONE, start, end).for_queue(queue)
        };
        b.append(spans.iter().map(span).collect());
        b.append(vec![Record::span(queue, Kind::Execute, NameId::NONE, 10, 100).queued(5)]);
        (b.finish(), queue)
    }

    #[test]
    fn stretches_of_commands_that_follow_each_other_are_right() {
        let (trace, queue) = trace(&[
            (Kind::Execute, 10, 100),
            (Kind::Timed, 10, 20),
            (Kind::Draw, 20, 30),
            (Kind::Timed, 30, 100),
        ]);
        assert_eq!(trace.contradictions(), []);
        assert_eq!(trace.busy_contradictions(&[(queue, 90)]), []);
    }

    #[test]
    fn overlaps_are_found_also_behind_a_long_slice() {
        let (trace, _) =
            trace(&[(Kind::Timed, 10, 90), (Kind::Draw, 20, 30), (Kind::Timed, 40, 100)]);
        let found = trace.contradictions();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|what| matches!(what, Contradiction::Overlap(..))));
        let text = trace.explain(found[0]).to_string();
        let overlap = "draw '' on '3D' (queued 20, 20 to 30 ns) overlaps timed '' on '3D' (queued 10, 10 to 90 ns)";
        assert_eq!(text, overlap);
    }

    #[test]
    fn a_slice_that_starts_before_its_submission_is_found() {
        let (trace, _) = trace(&[(Kind::Timed, 0, 20)]);
        let [found @ Contradiction::BeforeSubmission(..)] = trace.contradictions()[..] else {
            panic!("{:?}", trace.contradictions())
        };
        assert!(trace.explain(found).to_string().contains("starts before its command buffer"));
    }

    #[test]
    fn times_that_fall_and_busy_time_that_differs_are_found() {
        let (trace, queue) = trace(&[(Kind::Timed, 30, 20)]);
        assert!(matches!(trace.contradictions()[..], [Contradiction::TimesFall(_)]));
        let found = trace.busy_contradictions(&[(queue, 7)]);
        assert_eq!(found, [Contradiction::BusyTime { queue, slices_ns: 0, counted_ns: 7 }]);
        let text = "queue 'render': slices of 0 ns, counted busy time of 7 ns";
        assert_eq!(trace.explain(found[0]).to_string(), text);
    }

    #[test]
    fn a_record_that_was_queued_after_its_start_contradicts_itself() {
        let mut b = TraceBuilder::new("t", ClockName::Virtual);
        let thread = b.add_lane(LaneKind::CpuThread, "app", "main");
        b.append(vec![Record::span(thread, Kind::Mark, NameId::NONE, 10, 20).queued(11)]);
        assert_eq!(b.finish().contradictions(), [Contradiction::TimesFall(0)]);
    }

    #[test]
    fn gaps_are_not_busy_and_a_slice_may_end_as_its_command_buffer_begins() {
        let gap = [(Kind::Timed, 10, 20), (Kind::Gap, 20, 60), (Kind::Timed, 60, 100)];
        let (gaps, queue) = trace(&gap);
        assert_eq!(gaps.busy_contradictions(&[(queue, 50)]), []);
        let (before, _) = trace(&[(Kind::Timed, 0, 10)]);
        assert_eq!(before.contradictions(), []);
    }
}
