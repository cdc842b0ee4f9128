//! The order in which slice begins and ends are written.
//!
//! Readers sort packets by time and keep the order of the file among equals. Within one nanosecond:
//!
//! - on each track a slice ends before the next begins, and inner slices end before outer ones;
//! - the begin of a signal comes before the end of each wait that it released;
//! - the begins of a submission come in the order of its chain.
//!
//! Otherwise a reader finds the end of an arrow before its start. These rules are edges; events are
//! written in topological order, the earliest time first. Arrows that run backwards in time,
//! because clocks disagree, are left out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::flow::Flow;
use crate::model::Trace;
use crate::tracks::Tracks;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The slice of this record begins.
    Begin(usize),
    /// The slice of this record ends.
    End(usize),
}

impl Step {
    /// Its time.
    pub(crate) fn at_ns(self, trace: &Trace) -> u64 {
        match self {
            Step::Begin(index) => trace.records[index].start_ns,
            Step::End(index) => trace.records[index].start_ns + trace.records[index].duration_ns(),
        }
    }
}

/// The arrows of a trace that run forward in time.
pub(crate) struct Edges {
    /// From the begin of a signal to the end of a wait.
    pub(crate) flows: Vec<Flow>,
    /// Records of a command buffer, or the two of a missing edge, from begin to begin.
    pub(crate) chains: Vec<Vec<usize>>,
}

impl Edges {
    pub(crate) fn of(trace: &Trace) -> Edges {
        let flows = trace.flows().into_iter().filter(|flow| runs_forward(trace, flow)).collect();
        let start = |index: &usize| trace.records[*index].start_ns;
        let chains = trace.chains().into_iter().map(|chain| chain.records().collect::<Vec<_>>());
        let missing = trace.findings.iter().flat_map(|finding| &finding.edges);
        // Two records of one moment may be on their track in the other order.
        let missing = missing.map(|edge| trace.forward(*edge));
        let missing = missing.filter(|[from, to]| start(from) < start(to));
        let chains = chains.chain(missing.map(|ends| ends.to_vec()));
        let chains =
            chains.filter(|chain| chain.len() > 1 && chain.is_sorted_by_key(start)).collect();
        Edges { flows, chains }
    }
}

/// Every begin and end, in the order described above.
pub(crate) fn steps(trace: &Trace, tracks: &Tracks, edges: &Edges) -> Vec<Step> {
    let graph = Graph::of(trace, tracks, edges);
    graph.sorted().into_iter().map(step_of).collect()
}

/// Whether an arrow can be shown: its signal begins no later than its wait ends.
fn runs_forward(trace: &Trace, flow: &Flow) -> bool {
    let wait = &trace.records[flow.to];
    trace.records[flow.from].start_ns <= wait.start_ns + wait.duration_ns()
}

/// Node `2 * record` is its begin, `2 * record + 1` its end.
fn step_of(node: usize) -> Step {
    if node.is_multiple_of(2) { Step::Begin(node / 2) } else { Step::End(node / 2) }
}

struct Graph {
    at_ns: Vec<u64>,
    /// The next node on the same track.
    next: Vec<Option<usize>>,
    /// For each begin, the ends and begins that it must precede.
    released: Vec<Vec<usize>>,
    waits_for: Vec<u32>,
}

impl Graph {
    fn of(trace: &Trace, tracks: &Tracks, edges: &Edges) -> Graph {
        let count = 2 * trace.records.len();
        let mut graph = Graph {
            at_ns: vec![0; count],
            next: vec![None; count],
            released: vec![Vec::new(); trace.records.len()],
            waits_for: vec![0; count],
        };
        for (index, record) in trace.records.iter().enumerate() {
            graph.at_ns[2 * index] = record.start_ns;
            graph.at_ns[2 * index + 1] = record.start_ns + record.duration_ns();
        }
        for nodes in nodes_by_track(trace, tracks) {
            for pair in nodes.windows(2) {
                graph.next[pair[0]] = Some(pair[1]);
                graph.waits_for[pair[1]] += 1;
            }
        }
        let releases = edges.flows.iter().map(|flow| (flow.from, 2 * flow.to + 1));
        let chained = edges
            .chains
            .iter()
            .flat_map(|chain| chain.windows(2))
            .map(|pair| (pair[0], 2 * pair[1]));
        for (from, node) in releases.chain(chained) {
            graph.released[from].push(node);
            graph.waits_for[node] += 1;
        }
        graph
    }

    fn sorted(mut self) -> Vec<usize> {
        let count = self.at_ns.len();
        let mut ready: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        let free =
            (0..count).filter(|&n| self.waits_for[n] == 0).map(|n| Reverse((self.at_ns[n], n)));
        ready.extend(free.collect::<Vec<_>>());
        let mut order = Vec::with_capacity(count);
        while let Some(Reverse((_, node))) = ready.pop() {
            order.push(node);
            let released = if node.is_multiple_of(2) {
                std::mem::take(&mut self.released[node / 2])
            } else {
                Vec::new()
            };
            for after in self.next[node].into_iter().chain(released) {
                self.waits_for[after] -= 1;
                if self.waits_for[after] == 0 {
                    ready.push(Reverse((self.at_ns[after], after)));
                }
            }
        }
        self.append_cycles(&mut order);
        order
    }

    /// Signals and waits of one nanosecond that release each other in a circle are written in the
    /// order of time. The reader leaves the arrow out.
    fn append_cycles(&self, order: &mut Vec<usize>) {
        if order.len() == self.at_ns.len() {
            return;
        }
        let heads: Vec<usize> = {
            let mut placed = vec![false; self.at_ns.len()];
            order.iter().for_each(|&n| placed[n] = true);
            let mut has_unplaced_before = vec![false; self.at_ns.len()];
            let unplaced = |n: &usize| !placed[*n];
            (0..self.at_ns.len())
                .filter(unplaced)
                .filter_map(|n| self.next[n])
                .for_each(|n| has_unplaced_before[n] = true);
            (0..self.at_ns.len()).filter(|n| !placed[*n] && !has_unplaced_before[*n]).collect()
        };
        let mut ready: BinaryHeap<Reverse<(u64, usize)>> =
            heads.into_iter().map(|n| Reverse((self.at_ns[n], n))).collect();
        while let Some(Reverse((_, node))) = ready.pop() {
            order.push(node);
            ready.extend(self.next[node].map(|n| Reverse((self.at_ns[n], n))));
        }
    }
}

/// The begins and ends of each track, innermost first to end.
fn nodes_by_track(trace: &Trace, tracks: &Tracks) -> Vec<Vec<usize>> {
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); tracks.tracks.len()];
    for (index, &track) in tracks.of_record.iter().enumerate() {
        members[track].push(index);
    }
    members.into_iter().map(|records| nest(trace, records)).collect()
}

fn nest(trace: &Trace, mut records: Vec<usize>) -> Vec<usize> {
    let start = |i: usize| trace.records[i].start_ns;
    let end = |i: usize| start(i) + trace.records[i].duration_ns();
    records.sort_by_key(|&i| (start(i), Reverse(end(i))));
    let mut nodes = Vec::with_capacity(2 * records.len());
    let mut open: Vec<usize> = Vec::new();
    for index in records {
        while let Some(inner) = open.pop_if(|inner| end(*inner) <= start(index)) {
            nodes.push(2 * inner + 1);
        }
        nodes.push(2 * index);
        open.push(index);
    }
    nodes.extend(open.into_iter().rev().map(|i| 2 * i + 1));
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClockName, Kind, LaneKind, NameId, Record, TraceBuilder};

    #[test]
    fn a_chain_within_one_nanosecond_keeps_cause_before_effect() {
        let mut b = TraceBuilder::new("t", ClockName::Virtual);
        let fences: Vec<_> = (0..4).map(|i| b.add_fence(format!("f{i}"))).collect();
        // Each queue waits for the one after it and then signals, all at 10.
        for i in 0..3 {
            let lane = b.add_lane(LaneKind::Queue, "app", format!("q{i}"));
            b.append(vec![
                Record::span(lane, Kind::Wait, NameId::NONE, 1, 10).on_fence(fences[i + 1], 1),
                Record::instant(lane, Kind::Signal, NameId::NONE, 10).on_fence(fences[i], 1),
            ]);
        }
        let trace = b.finish();
        let flows = trace.flows();
        assert_eq!(flows.len(), 2);
        let tracks = Tracks::of(&trace);
        let steps = steps(&trace, &tracks, &Edges::of(&trace));
        assert_eq!(steps.len(), 2 * trace.records.len());
        let place = |step: Step| steps.iter().position(|s| *s == step).unwrap();
        for flow in flows {
            assert!(
                place(Step::Begin(flow.from)) < place(Step::End(flow.to)),
                "{flow:?} in {steps:?}"
            );
        }
    }

    #[test]
    fn a_circle_loses_no_event() {
        let mut b = TraceBuilder::new("t", ClockName::Virtual);
        let (f, g) = (b.add_fence("f"), b.add_fence("g"));
        for (waits, signals) in [(f, g), (g, f)] {
            let lane = b.add_lane(LaneKind::Queue, "app", "q");
            b.append(vec![
                Record::instant(lane, Kind::Wait, NameId::NONE, 10).on_fence(waits, 1),
                Record::instant(lane, Kind::Signal, NameId::NONE, 10).on_fence(signals, 1),
            ]);
        }
        let trace = b.finish();
        let tracks = Tracks::of(&trace);
        let steps = steps(&trace, &tracks, &Edges::of(&trace));
        let mut seen: Vec<_> = steps.iter().map(|s| format!("{s:?}")).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 8);
    }
}
