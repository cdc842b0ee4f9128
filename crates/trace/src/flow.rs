//! Arrows: from a signal to the waits that it released, and from a store to the flush that made it
//! visible.
//!
//! - A store and its flush share a link. A release follows from fence and value, so agents do not
//!   record their releaser.
//! - A fence may be rewound, so the value in force matters: see `Signals::releaser`.
//! - A wait for 0 never blocks. A wait that no record satisfies (an initial value, a lost record)
//!   has no arrow.
//! - Cost: O(n log n), one segment tree for each fence over its signals in order of time.

use std::collections::HashMap;
use std::ops::Range;

use End::{First, Last};

use crate::model::{Kind, LaneId, LinkId, Record, Trace};

/// Kinds of arrows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FlowKind {
    /// From a signal to a wait that it released.
    Release,
    /// From a store to the flush that makes it visible to other agents.
    Flush,
}

impl FlowKind {
    /// Its label.
    pub fn label(self) -> &'static str {
        match self {
            FlowKind::Release => "release",
            FlowKind::Flush => "flush",
        }
    }
}

/// An arrow; both ends are indices into [`Trace::records`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The signal or the store.
    pub from: usize,
    /// The wait or the flush.
    pub to: usize,
    /// Its kind.
    pub kind: FlowKind,
}

impl Trace {
    /// The arrows of this trace, in the order of their heads.
    pub fn flows(&self) -> Vec<Flow> {
        let signals = self.signals_by_fence();
        let mut stores: HashMap<LinkId, usize> = HashMap::new();
        let mut flows = Vec::new();
        for (to, record) in self.records.iter().enumerate() {
            if record.link != LinkId::NONE && record.kind == Kind::Store {
                stores.entry(record.link).or_insert(to);
            }
            if let (Kind::Flush, Some(from)) = (record.kind, stores.get(&record.link).copied()) {
                flows.push(Flow { from, to, kind: FlowKind::Flush });
            }
            let Some((fence, value)) = record.fence() else { continue };
            if !record.kind.is_wait() || value == 0 {
                continue;
            }
            let from = signals.get(fence.0 as usize).and_then(|s| s.releaser(to, record, value));
            flows.extend(from.map(|from| Flow { from, to, kind: FlowKind::Release }));
        }
        flows
    }

    fn signals_by_fence(&self) -> Vec<Signals> {
        let mut lists: Vec<Vec<Signal>> = vec![Vec::new(); self.fences.len()];
        for (index, record) in self.records.iter().enumerate() {
            if let (Some((fence, value)), true) = (record.fence(), record.kind.is_signal())
                && let Some(list) = lists.get_mut(fence.0 as usize)
            {
                list.push(Signal { at_ns: record.start_ns, value, index, lane: record.lane });
            }
        }
        lists.into_iter().map(Signals::new).collect()
    }
}

#[derive(Clone, Copy)]
struct Signal {
    at_ns: u64,
    value: u64,
    index: usize,
    lane: LaneId,
}

/// The signals of one fence in order of time, with the highest and lowest value of every
/// power-of-two block.
struct Signals {
    list: Vec<Signal>,
    leaves: usize,
    /// (lowest, highest) of each node; node 1 is the root, node `leaves + i` is signal `i`.
    bounds: Vec<(u64, u64)>,
}

impl Signals {
    /// `list` comes sorted by time, as records are.
    fn new(list: Vec<Signal>) -> Signals {
        let leaves = list.len().next_power_of_two();
        // Absent leaves must not widen their parents: lowest is the maximum, highest the minimum.
        let mut bounds = vec![(u64::MAX, 0); 2 * leaves];
        for (i, signal) in list.iter().enumerate() {
            bounds[leaves + i] = (signal.value, signal.value);
        }
        for node in (1..leaves).rev() {
            let (left, right) = (bounds[2 * node], bounds[2 * node + 1]);
            bounds[node] = (left.0.min(right.0), left.1.max(right.1));
        }
        Signals { list, leaves, bounds }
    }

    /// The signal that released a wait, by the value in force:
    ///
    /// 1. If the value in force when the wait began to block already reached its own: the first
    ///    signal of the unbroken run of signals that reach it. It satisfied the wait; the later
    ///    ones did not.
    /// 2. Else, among the signals while it blocked, the last that reaches the value, and back to
    ///    the first of its run.
    /// 3. Else the same among the signals since the wait was queued: it was satisfied behind other
    ///    operations, by a value that has been rewound since.
    /// 4. Else the first signal of the run in force when the wait was queued.
    /// 5. Else the clocks of the two lanes disagree: the earliest later signal that reaches the
    ///    value.
    ///
    /// A later signal of the wait's own lane never releases it: a lane runs in order.
    fn releaser(&self, wait_index: usize, wait: &Record, value: u64) -> Option<usize> {
        let all = self.list.len();
        let queued = self.list.partition_point(|s| s.at_ns < wait.queued_ns.min(wait.start_ns));
        let headed = self.list.partition_point(|s| s.at_ns < wait.start_ns);
        let ended = self.list.partition_point(|s| s.at_ns <= wait.end_ns.max(wait.start_ns));
        let mut found = self
            .in_force(headed, value)
            .or_else(|| self.first_of_run(headed..ended, value))
            .or_else(|| self.first_of_run(queued..headed, value))
            .or_else(|| self.in_force(queued, value))
            .or_else(|| self.find(ended..all, First, |(_, highest)| highest >= value))?;
        while self.list[found].lane == wait.lane && self.list[found].index > wait_index {
            found = self.find(found + 1..all, First, |(_, highest)| highest >= value)?;
        }
        Some(self.list[found].index)
    }

    /// The start of the run that ends with the last signal of `range` that reaches `value`.
    fn first_of_run(&self, range: Range<usize>, value: u64) -> Option<usize> {
        let last = self.find(range.clone(), Last, |(_, highest)| highest >= value)?;
        let short = self.find(range.start..last, Last, |(lowest, _)| lowest < value);
        Some(short.map_or(range.start, |short| short + 1))
    }

    /// The signal that brought the value in force just before signal `at`, if that value reaches
    /// `value`.
    fn in_force(&self, at: usize, value: u64) -> Option<usize> {
        let newest = at.checked_sub(1)?;
        if self.list[newest].value < value { None } else { self.first_of_run(0..at, value) }
    }

    /// The first or last index of `range` whose bounds `accept` takes.
    fn find(
        &self,
        range: Range<usize>,
        end: End,
        accept: impl Fn((u64, u64)) -> bool,
    ) -> Option<usize> {
        self.descend(1, 0..self.leaves, &range, end, &accept)
    }

    fn descend(
        &self,
        node: usize,
        covers: Range<usize>,
        range: &Range<usize>,
        end: End,
        accept: &impl Fn((u64, u64)) -> bool,
    ) -> Option<usize> {
        if covers.end <= range.start || range.end <= covers.start || !accept(self.bounds[node]) {
            return None;
        }
        if covers.len() == 1 {
            return Some(covers.start);
        }
        let middle = covers.start + covers.len() / 2;
        let left = || self.descend(2 * node, covers.start..middle, range, end, accept);
        let right = || self.descend(2 * node + 1, middle..covers.end, range, end, accept);
        match end {
            First => left().or_else(right),
            Last => right().or_else(left),
        }
    }
}

#[derive(Clone, Copy)]
enum End {
    First,
    Last,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClockName, FenceId, LaneKind, NameId, TraceBuilder};

    struct Scene(TraceBuilder, [LaneId; 2], FenceId);

    impl Scene {
        fn new() -> Scene {
            let mut b = TraceBuilder::new("t", ClockName::Virtual);
            let lanes = ["waits", "signals"].map(|name| b.add_lane(LaneKind::Queue, "app", name));
            let fence = b.add_fence("f");
            Scene(b, lanes, fence)
        }

        fn signal(&mut self, at: u64, value: u64) -> &mut Scene {
            let r =
                Record::instant(self.1[1], Kind::Signal, NameId::NONE, at).on_fence(self.2, value);
            self.0.append(vec![r]);
            self
        }

        fn wait(&mut self, queued: u64, start: u64, end: u64, value: u64) -> &mut Scene {
            let r = Record::span(self.1[0], Kind::Wait, NameId::NONE, start, end).queued(queued);
            self.0.append(vec![r.on_fence(self.2, value)]);
            self
        }

        /// The arrows as (time of the signal, its value, start of the wait).
        fn arrows(&mut self) -> Vec<(u64, u64, u64)> {
            let trace = self.0.clone().finish();
            let describe = |f: Flow| {
                let (s, w) = (&trace.records[f.from], &trace.records[f.to]);
                (s.start_ns, s.fence().unwrap().1, w.start_ns)
            };
            trace.flows().into_iter().map(describe).collect()
        }
    }

    #[test]
    fn a_flush_points_back_to_its_store() {
        let mut b = TraceBuilder::new("t", ClockName::Steps);
        let lane = b.add_lane(LaneKind::CpuThread, "schedule", "producer");
        let step = |kind, at, link| {
            Record::span(lane, kind, NameId::NONE, at, at + 1).linked(LinkId(link))
        };
        b.append(vec![step(Kind::Store, 1, 1), step(Kind::Store, 2, 2), step(Kind::Step, 3, 0)]);
        b.append(vec![step(Kind::Flush, 4, 1), step(Kind::Flush, 5, 2), step(Kind::Flush, 6, 0)]);
        let arrow = |from, to| Flow { from, to, kind: FlowKind::Flush };
        assert_eq!(b.finish().flows(), [arrow(0, 3), arrow(1, 4)]);
    }

    #[test]
    fn a_blocked_wait_is_released_by_the_signal_that_reaches_its_value() {
        assert_eq!(
            Scene::new().signal(5, 1).wait(0, 1, 20, 2).signal(20, 2).arrows(),
            [(20, 2, 1)]
        );
    }

    #[test]
    fn a_larger_value_releases_too_and_later_ones_do_not() {
        assert_eq!(
            Scene::new().wait(0, 1, 22, 2).signal(10, 7).signal(21, 8).arrows(),
            [(10, 7, 1)]
        );
    }

    #[test]
    fn one_signal_releases_many() {
        let mut s = Scene::new();
        s.wait(0, 1, 10, 1).wait(0, 2, 11, 1).signal(10, 1);
        assert_eq!(s.arrows(), [(10, 1, 1), (10, 1, 2)]);
    }

    #[test]
    fn a_wait_that_never_blocked_points_to_what_had_satisfied_it() {
        assert_eq!(Scene::new().signal(3, 4).signal(6, 5).wait(8, 9, 9, 4).arrows(), [(3, 4, 9)]);
        assert_eq!(Scene::new().signal(3, 4).wait(8, 9, 9, 4).signal(9, 5).arrows(), [(3, 4, 9)]);
    }

    #[test]
    fn after_a_rewind_the_old_signal_is_not_the_one() {
        let mut s = Scene::new();
        s.signal(1, 5).signal(3, 0).wait(4, 4, 12, 5).signal(12, 5);
        assert_eq!(s.arrows(), [(12, 5, 4)]);
        assert_eq!(
            Scene::new().signal(1, 5).signal(3, 0).signal(6, 5).wait(8, 8, 8, 5).arrows(),
            [(6, 5, 8)]
        );
    }

    #[test]
    fn a_pulse_while_queued_or_blocked_releases() {
        let mut behind_others = Scene::new();
        behind_others.wait(0, 50, 50, 5).signal(10, 5).signal(11, 0);
        assert_eq!(behind_others.arrows(), [(10, 5, 50)]);
        let mut blocked = Scene::new();
        blocked.wait(0, 5, 13, 5).signal(10, 5).signal(11, 0);
        assert_eq!(blocked.arrows(), [(10, 5, 5)]);
        let mut twice = Scene::new();
        twice.wait(0, 5, 31, 5).signal(10, 5).signal(11, 0).signal(30, 6);
        assert_eq!(twice.arrows(), [(30, 6, 5)]);
    }

    #[test]
    fn satisfied_at_the_call_and_rewound_before_its_turn() {
        assert_eq!(Scene::new().signal(1, 5).wait(2, 9, 9, 5).signal(4, 0).arrows(), [(1, 5, 9)]);
    }

    #[test]
    fn disagreeing_clocks_take_the_earliest_later_signal() {
        assert_eq!(
            Scene::new().wait(0, 1, 10, 3).signal(12, 3).signal(14, 4).arrows(),
            [(12, 3, 1)]
        );
    }

    /// The lane of a wait runs in order: only its earlier signals can release the wait.
    #[test]
    fn a_later_signal_of_the_own_lane_releases_nothing() {
        let own = |s: &mut Scene, at| {
            let r = Record::instant(s.1[0], Kind::Signal, NameId::NONE, at).on_fence(s.2, 3);
            s.0.append(vec![r]);
        };
        let mut during = Scene::new();
        during.wait(0, 1, 10, 3);
        own(&mut during, 10);
        during.signal(14, 3);
        assert_eq!(during.arrows(), [(14, 3, 1)], "in the last moment of the wait");
        let mut after = Scene::new();
        after.wait(0, 1, 10, 3);
        own(&mut after, 12);
        own(&mut after, 13);
        after.signal(14, 4);
        assert_eq!(after.arrows(), [(14, 4, 1)], "after the wait");
        let mut alone = Scene::new();
        alone.wait(0, 1, 10, 3);
        own(&mut alone, 12);
        assert_eq!(alone.arrows(), [], "no other lane");
        let mut before = Scene::new();
        own(&mut before, 1);
        before.wait(0, 2, 2, 3).signal(14, 3);
        assert_eq!(before.arrows(), [(1, 3, 2)], "an earlier signal is one like any other");
    }

    /// Records without length, and signals in the moments in which a wait is queued, begins and
    /// ends.
    #[test]
    fn moments_of_a_wait_that_touch_signals() {
        let at = |signal: u64| Scene::new().signal(signal, 3).wait(5, 8, 8, 3).arrows();
        assert_eq!(at(8), [(8, 3, 8)], "as it begins and ends");
        assert_eq!(at(5), [(5, 3, 8)], "as it is queued");
        let mut s = Scene::new();
        s.signal(4, 5).signal(5, 0).wait(5, 8, 8, 5);
        assert_eq!(s.arrows(), [(4, 5, 8)], "rewound as it was queued");
        let mut s = Scene::new();
        s.signal(8, 3).signal(8, 0).signal(9, 3).wait(5, 8, 8, 3);
        assert_eq!(s.arrows(), [(8, 3, 8)], "a pulse in the moment of the wait");
        let mut s = Scene::new();
        s.signal(2, 3).signal(4, 0).signal(10, 3).wait(0, 5, 10, 3);
        assert_eq!(s.arrows(), [(10, 3, 5)], "as it ends, after a pulse while it was queued");
    }

    #[test]
    fn a_signal_in_the_moment_in_which_a_wait_begins_is_not_in_force_before_it() {
        let mut s = Scene::new();
        s.wait(0, 8, 20, 5).signal(8, 5).signal(12, 0).signal(20, 6);
        assert_eq!(s.arrows(), [(20, 6, 8)]);
    }

    /// A step may store to several words, and its link is one.
    #[test]
    fn a_flush_points_to_the_first_store_of_its_link() {
        let mut b = TraceBuilder::new("t", ClockName::Steps);
        let lane = b.add_lane(LaneKind::CpuThread, "schedule", "producer");
        let step = |kind, at| Record::span(lane, kind, NameId::NONE, at, at + 1).linked(LinkId(1));
        b.append(vec![step(Kind::Store, 1), step(Kind::Store, 2), step(Kind::Flush, 3)]);
        assert_eq!(b.finish().flows(), [Flow { from: 0, to: 2, kind: FlowKind::Flush }]);
    }

    #[test]
    fn no_signal_no_arrow() {
        assert_eq!(Scene::new().wait(0, 1, 10, 0).signal(4, 2).arrows(), []);
        assert_eq!(Scene::new().wait(0, 1, 10, 3).signal(4, 2).arrows(), []);
        assert_eq!(Scene::new().arrows(), []);
    }

    #[test]
    fn the_largest_value_is_a_value() {
        let mut s = Scene::new();
        s.wait(0, 1, 10, u64::MAX).signal(5, u64::MAX - 1).signal(10, u64::MAX);
        assert_eq!(s.arrows(), [(10, u64::MAX, 1)]);
    }

    #[test]
    fn the_tree_agrees_with_a_plain_scan() {
        let mut seed = 7u64;
        let mut next = |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let list: Vec<Signal> = (0..37)
            .map(|index| Signal { at_ns: index as u64, value: next(9), index, lane: LaneId(0) })
            .collect();
        let tree = Signals::new(list.clone());
        for _ in 0..2_000 {
            let (from, to, value) = (next(38) as usize, next(38) as usize, next(10));
            let scan: Vec<usize> = (from..to).filter(|&i| list[i].value >= value).collect();
            let reaches = |(_, highest): (u64, u64)| highest >= value;
            assert_eq!(tree.find(from..to, First, reaches), scan.first().copied());
            assert_eq!(tree.find(from..to, Last, reaches), scan.last().copied());
        }
    }
}
