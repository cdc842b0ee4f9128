//! Indexes of a timeline for the walk along the critical path: records by queue, thread and engine,
//! and the submission and the predecessors of a record.
//!
//! Entry point: [`Index::new`].

use std::collections::HashMap;

use super::account::{Part, RunOnTimeline};
use tidegate_trace::{Kind, LaneKind, LinkId, Record, Trace};

/// Limit on concurrent calls of different threads in the search for a submission.
const MOST_CONCURRENT_CALLS: usize = 1_024;

/// The records of one lane, by index into the trace.
pub(super) enum Lane {
    /// Not on the path.
    Other,
    /// Command buffers, waits and signals in the order of their ends; a queue finishes them in that
    /// order.
    Queue { node: Option<u32>, items: Vec<usize> },
    /// Calls in the order of their starts.
    Thread(Vec<usize>),
}

/// A command of an engine.
#[derive(Clone, Copy)]
pub(super) struct Command {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) part: Part,
    /// Its record.
    pub(super) number: usize,
}

/// Indexes of a trace for the walk.
pub(super) struct Index<'a> {
    pub(super) trace: &'a Trace,
    pub(super) lanes: Vec<Lane>,
    /// Place of each record in the items of its queue.
    place: HashMap<usize, usize>,
    /// By node: commands of the engine, in the order of time.
    pub(super) commands: Vec<Vec<Command>>,
    /// By node: ends of command buffers, in the order of time.
    ends: Vec<Vec<(u64, usize)>>,
    /// Submissions in the order of their starts.
    submits: Vec<usize>,
    by_link: HashMap<LinkId, usize>,
    /// By wait: the signal that released it.
    pub(super) releases: HashMap<usize, usize>,
}

impl<'a> Index<'a> {
    pub(super) fn new(trace: &'a Trace, run: &RunOnTimeline) -> Self {
        let mut nodes = vec![None; trace.lanes.len()];
        let mut next = 0;
        let mut lanes: Vec<Lane> = Vec::with_capacity(trace.lanes.len());
        for (number, lane) in trace.lanes.iter().enumerate() {
            lanes.push(match lane.kind {
                LaneKind::Queue => {
                    let known = run.queues.iter().find(|(id, _)| *id == lane.id);
                    Lane::Queue { node: known.map(|(_, node)| *node), items: Vec::new() }
                }
                LaneKind::CpuThread => Lane::Thread(Vec::new()),
                LaneKind::Engine => {
                    nodes[number] = Some(next);
                    next += 1;
                    Lane::Other
                }
                _ => Lane::Other,
            });
        }
        let mut index = Index {
            trace,
            lanes,
            place: HashMap::new(),
            commands: vec![Vec::new(); next],
            ends: vec![Vec::new(); next],
            submits: Vec::new(),
            by_link: HashMap::new(),
            releases: trace.flows().into_iter().map(|flow| (flow.to, flow.from)).collect(),
        };
        for (number, record) in trace.records.iter().enumerate() {
            index.record(number, record, nodes[record.lane.0 as usize]);
        }
        index.sort();
        index
    }

    fn record(&mut self, number: usize, record: &Record, engine: Option<usize>) {
        if let Some(node) = engine {
            let part = match record.kind {
                Kind::Copy | Kind::Fill => Part::Copy,
                Kind::Gap => Part::Idle,
                Kind::Timed | Kind::Dispatch | Kind::Draw => Part::Gpu,
                _ => return,
            };
            let (start_ns, end_ns) = (record.start_ns, record.end_ns);
            self.commands[node].push(Command { start_ns, end_ns, part, number });
            return;
        }
        match &mut self.lanes[record.lane.0 as usize] {
            Lane::Queue { node, items } => {
                if !matches!(record.kind, Kind::Execute | Kind::Wait | Kind::Signal) {
                    return;
                }
                items.push(number);
                let ends = node.and_then(|node| self.ends.get_mut(node as usize));
                if let (Kind::Execute, Some(ends)) = (record.kind, ends) {
                    ends.push((record.end_ns, number));
                }
            }
            Lane::Thread(calls) => {
                calls.push(number);
                if record.kind == Kind::Submit {
                    self.submits.push(number);
                    if record.link.is_some() {
                        self.by_link.insert(record.link, number);
                    }
                }
            }
            Lane::Other => {}
        }
    }

    fn sort(&mut self) {
        let records = &self.trace.records;
        for lane in &mut self.lanes {
            let Lane::Queue { items, .. } = lane else { continue };
            items.sort_by_key(|r| (records[*r].end_ns, records[*r].start_ns, *r));
            self.place.extend(items.iter().enumerate().map(|(place, r)| (*r, place)));
        }
        self.ends.iter_mut().for_each(|ends| ends.sort_unstable());
        self.commands
            .iter_mut()
            .for_each(|commands| commands.sort_unstable_by_key(|c| (c.start_ns, c.end_ns)));
    }

    /// The call that submitted a record of a queue: its link's, else the call that was
    /// running when the record was queued.
    pub(super) fn submission(&self, record: &Record) -> Option<usize> {
        if let Some(found) = self.by_link.get(&record.link) {
            return Some(*found);
        }
        let records = &self.trace.records;
        let begun = self.submits.partition_point(|r| records[*r].start_ns <= record.queued_ns);
        let lasted = |r: &&usize| records[**r].end_ns >= record.queued_ns;
        let same = |r: &&usize| {
            (records[**r].queue(), records[**r].fence()) == (Some(record.lane), record.fence())
        };
        let near = || {
            self.submits[begun.saturating_sub(MOST_CONCURRENT_CALLS)..begun]
                .iter()
                .rev()
                .filter(lasted)
        };
        near().find(same).or_else(|| near().next()).copied()
    }

    /// The dependency of an item on its own queue. A command buffer begins when the item before it
    /// is complete. A wait or a signal may head its queue while earlier work runs, so its time
    /// begins with the end of that work.
    pub(super) fn previous(&self, number: usize) -> Option<usize> {
        let records = &self.trace.records;
        let record = &records[number];
        let Lane::Queue { items, .. } = &self.lanes[record.lane.0 as usize] else { return None };
        let own = self.place.get(&number).copied().unwrap_or(0);
        if record.kind == Kind::Execute {
            let ended = items.partition_point(|r| records[*r].end_ns <= record.start_ns);
            return ended.min(own).checked_sub(1).map(|place| items[place]);
        }
        // Later work of the same queue may end before the scheduler gets to a signal.
        let near = items[own.saturating_sub(MOST_CONCURRENT_CALLS)..own].iter().rev();
        near.copied().find(|r| records[*r].queued_ns <= record.queued_ns)
    }

    /// The last command buffer of another queue that ended on the engine of this one before this
    /// one began.
    pub(super) fn on_engine_before(&self, number: usize) -> Option<usize> {
        let record = &self.trace.records[number];
        let Lane::Queue { node: Some(node), .. } = &self.lanes[record.lane.0 as usize] else {
            return None;
        };
        let ends = self.ends.get(*node as usize)?;
        let ended = ends.partition_point(|(end, _)| *end <= record.start_ns);
        let (_, before) = *ends[..ended].last()?;
        (before != number).then_some(before)
    }

    /// The item of any queue that ended last, at `by_ns` or before.
    pub(super) fn last_item(&self, by_ns: u64) -> Option<usize> {
        let last = self.lanes.iter().filter_map(|lane| {
            let Lane::Queue { items, node: Some(_) } = lane else { return None };
            let ended = items.partition_point(|r| self.trace.records[*r].end_ns <= by_ns);
            ended.checked_sub(1).map(|place| items[place])
        });
        last.max_by_key(|r| self.trace.records[*r].end_ns)
    }
}
