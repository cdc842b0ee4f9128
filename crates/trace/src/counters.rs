//! Counters that are derived from the records: the depth of each queue and the load of each engine
//! over time.
//!
//! A record of a queue counts from its queueing to its end. A record that was not complete when the
//! run ended counts to the end of the trace. [`Kind::Preempted`] and doorbells do not count: they
//! are events of an operation. An engine's load is the part of a window in which it works: gaps,
//! hangs and waits are no work, and overlapping work counts once.
//!
//! Entry points: [`Trace::queue_depths`], [`Trace::engine_loads`].

use crate::model::{Kind, LaneId, LaneKind, Trace};

/// Most windows of a trace for the load of an engine.
const MOST_WINDOWS: u64 = 1_000;

/// A number that changes over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The lane that it counts on.
    pub lane: LaneId,
    /// Changes: the time and the new value. Times ascend strictly.
    pub samples: Vec<(u64, u64)>,
}

impl Trace {
    /// The number of pending and running operations of each queue that has records, in the order of
    /// the lanes.
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

    /// The load of each engine that did work, in percent of the window that begins at the time of
    /// the sample, in the order of the lanes.
    pub fn engine_loads(&self) -> Vec<Counter> {
        let mut work: Vec<Vec<(u64, u64)>> = vec![Vec::new(); self.lanes.len()];
        for record in self.records.iter().filter(|record| record.kind.is_work()) {
            let lane = record.lane.0 as usize;
            if self.lanes[lane].kind == LaneKind::Engine {
                work[lane].push((record.start_ns, record.end_ns));
            }
        }
        let window_ns = self.window_ns();
        let first_ns = self.extent_ns().map_or(0, |(first, _)| first);
        let lanes = self.lanes.iter().zip(work).filter(|(_, work)| !work.is_empty());
        lanes
            .map(|(lane, work)| Counter {
                lane: lane.id,
                samples: load(&work, first_ns, window_ns),
            })
            .collect()
    }

    /// The window of loads: 1, 2 or 5 times a power of ten, so that the trace has at most
    /// [`MOST_WINDOWS`].
    fn window_ns(&self) -> u64 {
        let length = self.extent_ns().map_or(0, |(first, last)| last - first);
        let least = length.div_ceil(MOST_WINDOWS).max(1);
        let mut power = 1u64;
        loop {
            for step in [1, 2, 5] {
                match power.checked_mul(step) {
                    Some(window) if window >= least => return window,
                    Some(_) => {}
                    None => return u64::MAX,
                }
            }
            power = power.saturating_mul(10);
        }
    }
}

fn counts(kind: Kind) -> bool {
    kind.is_work()
        || matches!(
            kind,
            Kind::Wait
                | Kind::Signal
                | Kind::Gap
                | Kind::NeverRan
                | Kind::WaitQueued
                | Kind::SignalQueued
        )
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

/// `work` is sorted by start, as records are; overlapping pieces count once.
fn load(work: &[(u64, u64)], first_ns: u64, window_ns: u64) -> Vec<(u64, u64)> {
    let mut points = Vec::new();
    let (mut window, mut busy_ns, mut free_ns) = (0u64, 0u64, first_ns);
    let begin = |window: u64| first_ns.saturating_add(window.saturating_mul(window_ns));
    let percent = |busy_ns: u64| (u128::from(busy_ns) * 100).div_ceil(u128::from(window_ns)) as u64;
    for &(start, end) in work {
        let mut at = start.max(free_ns);
        while at < end {
            let of = (at - first_ns) / window_ns;
            if of != window {
                add(&mut points, begin(window), percent(busy_ns));
                if of > window + 1 {
                    add(&mut points, begin(window + 1), 0);
                }
                (window, busy_ns) = (of, 0);
            }
            let until = end.min(begin(of + 1)).max(at + 1);
            busy_ns += until - at;
            at = until;
        }
        free_ns = free_ns.max(end);
    }
    add(&mut points, begin(window), percent(busy_ns));
    add(&mut points, begin(window + 1), 0);
    points
}

fn add(points: &mut Vec<(u64, u64)>, at_ns: u64, value: u64) {
    if points.last().is_none_or(|&(_, before)| before != value) {
        points.push((at_ns, value));
    }
}

#[cfg(test)]
mod tests {
    use crate::{ClockName, Kind, LaneKind, NameId, Record, TraceBuilder, sample};

    #[test]
    fn a_queue_is_as_deep_as_what_is_queued_and_not_done() {
        let mut b = TraceBuilder::new("t", ClockName::Virtual);
        let queue = b.add_lane(LaneKind::Queue, "app", "q");
        let engine = b.add_lane(LaneKind::Engine, "GPU", "3D");
        let of = |lane, queued, start, end| {
            Record::span(lane, Kind::Execute, NameId::NONE, start, end).queued(queued)
        };
        b.append(vec![of(queue, 0, 5, 20), of(queue, 2, 20, 30), of(queue, 30, 30, 40)]);
        b.append(vec![
            of(engine, 5, 5, 20),
            Record::instant(queue, Kind::WaitQueued, NameId::NONE, 7),
        ]);
        let counters = b.finish().queue_depths();
        assert_eq!(counters.len(), 1);
        assert_eq!(counters[0].lane, queue);
        assert_eq!(counters[0].samples, [(0, 1), (2, 2), (7, 3), (20, 2), (40, 0)]);
    }

    #[test]
    fn an_engine_is_loaded_by_work_and_not_by_gaps() {
        let mut b = TraceBuilder::new("t", ClockName::Virtual);
        let engine = b.add_lane(LaneKind::Engine, "GPU", "copy");
        let piece = |kind, start, end| Record::span(engine, kind, NameId::NONE, start, end);
        b.append(vec![
            piece(Kind::Mark, 0, 0),
            piece(Kind::Fill, 100, 200),
            piece(Kind::Gap, 200, 1_000),
        ]);
        b.append(vec![piece(Kind::Copy, 1_005, 1_010), piece(Kind::Draw, 1_008, 1_025)]);
        b.append(vec![piece(Kind::Timed, 9_990, 10_000)]);
        let loads = b.finish().engine_loads();
        assert_eq!((loads.len(), loads[0].lane), (1, engine));
        let first =
            [(0, 0), (100, 100), (200, 0), (1_000, 50), (1_010, 100), (1_020, 50), (1_030, 0)];
        assert_eq!(loads[0].samples[..7], first);
        assert_eq!(loads[0].samples[7..], [(9_990, 100), (10_000, 0)]);
    }

    #[test]
    fn a_long_trace_has_few_samples_of_load() {
        let trace = sample::large(100_000, 40);
        let loads = trace.engine_loads();
        assert_eq!(loads.len(), 4);
        for load in loads {
            assert!(load.samples.len() <= 1_002, "{} samples", load.samples.len());
            assert!(load.samples.iter().all(|(_, percent)| *percent <= 100));
            assert!(load.samples.is_sorted_by_key(|(at, _)| *at));
        }
        assert!(sample::empty().engine_loads().is_empty());
    }

    /// The load of an engine with these pieces of work, in windows of 10 ns: the trace is 10 µs
    /// long.
    fn loads(pieces: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut b = TraceBuilder::new("t", ClockName::Virtual);
        let engine = b.add_lane(LaneKind::Engine, "GPU", "copy");
        let end = b.add_lane(LaneKind::CpuThread, "app", "main");
        let piece = |&(start, end)| Record::span(engine, Kind::Copy, NameId::NONE, start, end);
        b.append(pieces.iter().map(piece).collect());
        b.append(vec![Record::span(end, Kind::Mark, NameId::NONE, 0, 10_000)]);
        b.finish().engine_loads().remove(0).samples
    }

    #[test]
    fn one_free_window_is_free() {
        assert_eq!(loads(&[(0, 10), (20, 30)]), [(0, 100), (10, 0), (20, 100), (30, 0)]);
    }

    #[test]
    fn work_inside_of_longer_work_loads_an_engine_once() {
        let beside = loads(&[(100, 200), (110, 120), (150, 180)]);
        assert_eq!(beside, [(0, 0), (100, 100), (200, 0)]);
    }

    #[test]
    fn a_trace_has_at_most_a_thousand_windows() {
        let window_ns = |end| {
            let mut b = TraceBuilder::new("t", ClockName::Virtual);
            let thread = b.add_lane(LaneKind::CpuThread, "app", "main");
            b.append(vec![Record::span(thread, Kind::Mark, NameId::NONE, 0, end)]);
            b.finish().window_ns()
        };
        assert_eq!([0, 1_000, 1_001, 2_000, 2_001, 5_001].map(window_ns), [1, 1, 2, 2, 5, 10]);
    }

    #[test]
    fn an_operation_without_length_is_in_no_queue() {
        let mut b = TraceBuilder::new("t", ClockName::Virtual);
        let queue = b.add_lane(LaneKind::Queue, "app", "q");
        let signal = |at| Record::instant(queue, Kind::Signal, NameId::NONE, at);
        b.append(vec![signal(7), signal(9).queued(8)]);
        assert_eq!(b.finish().queue_depths()[0].samples, [(8, 1), (9, 0)]);
    }
}
