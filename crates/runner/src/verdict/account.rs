//! Accounts for the makespan of a run: its critical path, in parts that sum to the makespan.
//!
//! The walk starts at the end of the last work and goes back to the start of the run. It is always
//! at one record: a command buffer, a wait or a signal of a queue, or a call of a CPU thread. The
//! time of that record gets a part, and the walk continues at the latest record that this one
//! waited for. `decisions/0038` has the definition of each part.
//!
//! - Each moment between start and end gets exactly one part, so the parts sum to the makespan.
//! - The walk never goes forward in time and visits each record of a queue once, so it ends.
//!
//! Entry point: [`account`].

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use tidegate_trace::{Kind, LaneId, LaneKind, LinkId, Record, Trace};

/// Parts of the critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// An engine draws, dispatches, or runs timed work.
    Gpu,
    /// An engine copies or fills.
    Copy,
    /// Submitting calls, and the time from the last dependency of a command buffer to its start on
    /// the engine.
    Launch,
    /// Waits and signals: from the end of the awaited work to the release of the waiter, through
    /// engine, interrupt, scheduler and thread.
    Sync,
    /// The own time of CPU threads: sleeps, writes through mappings, and recorded time between
    /// calls.
    Host,
    /// Time without a cause on the timeline: replayed gaps of a recording, and waits for a display.
    Idle,
}

impl Part {
    /// Every part, in the order in which reports show them.
    pub const ALL: [Part; 6] =
        [Part::Gpu, Part::Copy, Part::Launch, Part::Sync, Part::Host, Part::Idle];

    /// The words of reports.
    pub fn label(self) -> &'static str {
        match self {
            Part::Gpu => "GPU work",
            Part::Copy => "copies",
            Part::Launch => "launch",
            Part::Sync => "sync",
            Part::Host => "host",
            Part::Idle => "idle",
        }
    }

    /// Description of a run whose largest part this is.
    pub fn bound(self) -> &'static str {
        match self {
            Part::Gpu => "GPU-bound",
            Part::Copy => "copy-bound",
            Part::Launch => "launch-bound",
            Part::Sync => "sync-bound",
            Part::Host => "host-bound",
            Part::Idle => "mostly idle",
        }
    }
}

/// The makespan of a run by part, and the time of its CPU threads. Times in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// [`Part::Gpu`].
    pub gpu_ns: u64,
    /// [`Part::Copy`].
    pub copy_ns: u64,
    /// [`Part::Launch`].
    pub launch_ns: u64,
    /// [`Part::Sync`].
    pub sync_ns: u64,
    /// [`Part::Host`].
    pub host_ns: u64,
    /// [`Part::Idle`].
    pub idle_ns: u64,
    /// The time of all threads in calls that submit, on the critical path or not.
    pub cpu_submission_ns: u64,
    /// The time of all threads in waits for fences.
    pub cpu_waiting_ns: u64,
}

impl Account {
    /// The time of a part.
    pub fn of(&self, part: Part) -> u64 {
        match part {
            Part::Gpu => self.gpu_ns,
            Part::Copy => self.copy_ns,
            Part::Launch => self.launch_ns,
            Part::Sync => self.sync_ns,
            Part::Host => self.host_ns,
            Part::Idle => self.idle_ns,
        }
    }

    /// The parts with their times. They sum to the makespan.
    pub fn parts(&self) -> [(Part, u64); 6] {
        Part::ALL.map(|part| (part, self.of(part)))
    }

    /// The largest part; of equal ones the first.
    pub fn bound(&self) -> Part {
        let largest = Part::ALL.into_iter().rev().max_by_key(|part| self.of(*part));
        largest.unwrap_or(Part::Gpu)
    }

    fn add(&mut self, part: Part, ns: u64) {
        *match part {
            Part::Gpu => &mut self.gpu_ns,
            Part::Copy => &mut self.copy_ns,
            Part::Launch => &mut self.launch_ns,
            Part::Sync => &mut self.sync_ns,
            Part::Host => &mut self.host_ns,
            Part::Idle => &mut self.idle_ns,
        } += ns;
    }
}

/// Facts of a run that its timeline lacks. Times in nanoseconds on the timeline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunOnTimeline {
    /// Start of the run.
    pub started_ns: u64,
    /// Start plus makespan.
    pub ended_ns: u64,
    /// The lane of each queue of the workload, and the engine that runs it (place among the
    /// timeline's engine lanes).
    pub queues: Vec<(LaneId, u32)>,
}

/// Accounts for the makespan of a run. `trace` is its whole timeline.
pub fn account(trace: &Trace, run: &RunOnTimeline) -> Account {
    let index = Index::new(trace, run);
    let mut walk = Walk {
        index: &index,
        run,
        at_ns: run.ended_ns,
        visited: HashSet::new(),
        account: Account::default(),
    };
    walk.run();
    let mut account = walk.account;
    for lane in &index.lanes {
        let Lane::Thread(calls) = lane else { continue };
        let inside = |r: &Record| r.end_ns.saturating_sub(r.start_ns.max(run.started_ns));
        let submitting =
            calls.iter().map(|r| &trace.records[*r]).filter(|r| r.kind == Kind::Submit);
        account.cpu_submission_ns += submitting.map(inside).sum::<u64>();
        // A wait for several fences has a record for each, one behind the other.
        let mut waits: Vec<(u64, u64)> = calls
            .iter()
            .map(|r| &trace.records[*r])
            .filter(|r| r.kind == Kind::CpuWait)
            .map(|r| (r.start_ns.max(run.started_ns), r.end_ns))
            .collect();
        waits.dedup();
        account.cpu_waiting_ns +=
            waits.iter().map(|(start, end)| end.saturating_sub(*start)).sum::<u64>();
    }
    account
}

/// The records of one lane, by index into the trace.
enum Lane {
    /// Not on the path.
    Other,
    /// Command buffers, waits and signals in the order of their ends; a queue finishes them in that
    /// order.
    Queue { node: Option<u32>, items: Vec<usize> },
    /// Calls in the order of their starts.
    Thread(Vec<usize>),
}

/// Indexes of a trace for the walk.
struct Index<'a> {
    trace: &'a Trace,
    lanes: Vec<Lane>,
    /// Place of each record in the items of its queue.
    place: HashMap<usize, usize>,
    /// By node: commands of the engine, in the order of time.
    commands: Vec<Vec<(u64, u64, Part)>>,
    /// By node: ends of command buffers, in the order of time.
    ends: Vec<Vec<(u64, usize)>>,
    /// Submissions in the order of their starts.
    submits: Vec<usize>,
    by_link: HashMap<LinkId, usize>,
    /// By wait: the signal that released it.
    releases: HashMap<usize, usize>,
}

impl<'a> Index<'a> {
    fn new(trace: &'a Trace, run: &RunOnTimeline) -> Self {
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
            self.commands[node].push((record.start_ns, record.end_ns, part));
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
        self.commands.iter_mut().for_each(|commands| commands.sort_unstable_by_key(|c| (c.0, c.1)));
    }

    /// The call that submitted a record of a queue: that of its link, else the call that was
    /// running when the record was queued.
    fn submission(&self, record: &Record) -> Option<usize> {
        if let Some(found) = self.by_link.get(&record.link) {
            return Some(*found);
        }
        let records = &self.trace.records;
        let begun = self.submits.partition_point(|r| records[*r].start_ns <= record.queued_ns);
        let lasted = |r: &&usize| records[**r].end_ns >= record.queued_ns;
        let same = |r: &&usize| {
            (records[**r].queue, records[**r].fence) == (Some(record.lane), record.fence)
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
    fn previous(&self, number: usize) -> Option<usize> {
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
    fn on_engine_before(&self, number: usize) -> Option<usize> {
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
    fn last_item(&self, by_ns: u64) -> Option<usize> {
        let last = self.lanes.iter().filter_map(|lane| {
            let Lane::Queue { items, node: Some(_) } = lane else { return None };
            let ended = items.partition_point(|r| self.trace.records[*r].end_ns <= by_ns);
            ended.checked_sub(1).map(|place| items[place])
        });
        last.max_by_key(|r| self.trace.records[*r].end_ns)
    }
}

/// Limit on concurrent calls of different threads in the search for a submission.
const MOST_CONCURRENT_CALLS: usize = 1_024;

/// Position of the walk.
#[derive(Clone, Copy)]
enum At {
    /// At an item of a queue, which ends at the present moment or contains it.
    Item(usize),
    /// On a thread.
    Thread(LaneId),
    /// At a signal of a display.
    Display(usize),
}

struct Walk<'a> {
    index: &'a Index<'a>,
    run: &'a RunOnTimeline,
    /// All time after this moment has a part.
    at_ns: u64,
    visited: HashSet<usize>,
    account: Account,
}

impl Walk<'_> {
    fn run(&mut self) {
        let mut at = self.begin();
        while let Some(here) = at.filter(|_| self.at_ns > self.run.started_ns) {
            at = match here {
                At::Item(number) if !self.visited.insert(number) => self.last_item_not_seen(),
                At::Item(number) => self.item(number),
                At::Thread(lane) => self.thread(lane),
                At::Display(signal) => self.display(signal),
            };
        }
        self.back_to(self.run.started_ns, Part::Host);
    }

    fn record(&self, number: usize) -> &Record {
        &self.index.trace.records[number]
    }

    /// The end of the run: the last work of a queue, or the last call where there is none.
    fn begin(&mut self) -> Option<At> {
        if let Some(last) = self.index.last_item(self.at_ns) {
            self.back_to(self.record(last).end_ns, Part::Idle);
            return Some(At::Item(last));
        }
        let calls = self.index.trace.records.iter().filter(|r| r.start_ns < self.at_ns);
        let threads =
            calls.filter(|r| matches!(self.index.lanes[r.lane.0 as usize], Lane::Thread(_)));
        threads.max_by_key(|r| r.end_ns).map(|r| At::Thread(r.lane))
    }

    /// Assigns the time back to `to_ns` to a part.
    fn back_to(&mut self, to_ns: u64, part: Part) {
        let to_ns = to_ns.clamp(self.run.started_ns, self.at_ns);
        self.account.add(part, self.at_ns - to_ns);
        self.at_ns = to_ns;
    }

    /// Continues at the item that ended last. For records that contradict each other or have no
    /// known dependency.
    fn last_item_not_seen(&mut self) -> Option<At> {
        let last = self.index.last_item(self.at_ns).filter(|last| !self.visited.contains(last))?;
        self.back_to(self.record(last).end_ns, Part::Idle);
        Some(At::Item(last))
    }

    fn item(&mut self, number: usize) -> Option<At> {
        let record = *self.record(number);
        match record.kind {
            Kind::Execute => {
                self.engine(&record);
                self.before(number, Part::Launch)
            }
            _ => self.before(number, Part::Sync),
        }
    }

    /// A command buffer: the work of its engine, and the front end before that work.
    fn engine(&mut self, record: &Record) {
        let node = match &self.index.lanes[record.lane.0 as usize] {
            Lane::Queue { node: Some(node), .. } => *node as usize,
            _ => return self.back_to(record.start_ns, Part::Copy),
        };
        let commands = self.index.commands.get(node).map_or(&[][..], Vec::as_slice);
        let begun = commands.partition_point(|(start, ..)| *start < self.at_ns);
        for (start, end, part) in commands[..begun].iter().rev() {
            if *end <= record.start_ns {
                break;
            }
            self.back_to((*end).max(record.start_ns), Part::Launch);
            self.back_to((*start).max(record.start_ns), *part);
        }
        self.back_to(record.start_ns, Part::Launch);
    }

    /// The signal that released a wait of a thread, if the thread blocked.
    fn releaser(&self, wait: usize) -> Option<usize> {
        let signal = *self.index.releases.get(&wait)?;
        (self.record(signal).end_ns > self.record(wait).start_ns).then_some(signal)
    }

    /// The position of a signal.
    fn at_signal(&self, signal: usize) -> At {
        let lane = self.record(signal).lane;
        match &self.index.lanes[lane.0 as usize] {
            Lane::Thread(_) => At::Thread(lane),
            Lane::Queue { .. } => At::Item(signal),
            Lane::Other => At::Display(signal),
        }
    }

    /// A signal of a display: the picture waited for its vertical sync, and before that for its
    /// queue.
    fn display(&mut self, signal: usize) -> Option<At> {
        let record = *self.record(signal);
        self.back_to(record.queued_ns.min(record.start_ns), Part::Idle);
        self.last_item_not_seen()
    }

    /// Goes from an item to its latest dependency: the item before it on its queue, its submitting
    /// call, the signal of a wait, or the earlier work on the engine of a command buffer. The time
    /// between gets `part`, or [`Part::Launch`] if the call is the latest.
    fn before(&mut self, number: usize, part: Part) -> Option<At> {
        let record = *self.record(number);
        let mut latest: Option<(u64, At)> = None;
        let mut consider = |at_ns: u64, at: At| {
            if latest.is_none_or(|(then, _)| at_ns > then) {
                latest = Some((at_ns, at));
            }
        };
        if let Some(previous) = self.index.previous(number) {
            consider(self.record(previous).end_ns, At::Item(previous));
        }
        if let Some(submission) = self.index.submission(&record) {
            let call = self.record(submission);
            consider(call.end_ns.min(self.at_ns), At::Thread(call.lane));
        }
        if let Some(signal) = self.index.releases.get(&number) {
            consider(self.record(*signal).end_ns.min(self.at_ns), self.at_signal(*signal));
        }
        if let Some(other) =
            self.index.on_engine_before(number).filter(|_| record.kind == Kind::Execute)
        {
            consider(self.record(other).end_ns, At::Item(other));
        }
        let (at_ns, at) = latest?;
        let part = if matches!(at, At::Thread(_)) && record.kind != Kind::Wait {
            Part::Launch
        } else {
            part
        };
        self.back_to(at_ns, part);
        Some(at)
    }

    /// The last call of a thread before the present moment.
    fn thread(&mut self, lane: LaneId) -> Option<At> {
        let Lane::Thread(calls) = &self.index.lanes[lane.0 as usize] else { return None };
        let records = &self.index.trace.records;
        let begun = calls.partition_point(|r| records[*r].start_ns < self.at_ns);
        let number = *calls[..begun].last()?;
        let record = records[number];
        self.back_to(record.end_ns, Part::Host);
        match record.kind {
            Kind::CpuWait => {
                let same = |r: &&usize| {
                    let other = &records[**r];
                    other.kind == Kind::CpuWait
                        && (other.start_ns, other.end_ns) == (record.start_ns, record.end_ns)
                };
                let all = calls[..begun].iter().rev().take_while(same);
                let signals = all.filter_map(|wait| self.releaser(*wait));
                if let Some(signal) = signals.max_by_key(|signal| records[*signal].end_ns) {
                    self.back_to(records[signal].end_ns, Part::Sync);
                    return Some(self.at_signal(signal));
                }
                self.back_to(record.start_ns, Part::Sync);
            }
            Kind::Submit => self.back_to(record.start_ns, Part::Launch),
            Kind::CpuSignal => self.back_to(record.start_ns, Part::Sync),
            _ => self.back_to(record.start_ns, Part::Host),
        }
        Some(At::Thread(lane))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_trace::{ClockName, FenceId, NameId, TraceBuilder};

    /// A machine with one engine, two queues on it, one queue on a second engine, and a thread.
    struct Scene {
        builder: TraceBuilder,
        thread: LaneId,
        queues: [LaneId; 3],
        engines: [LaneId; 2],
        fence: FenceId,
    }

    const NONE: NameId = NameId::NONE;

    impl Scene {
        fn new() -> Scene {
            let mut b = TraceBuilder::new("t", ClockName::Virtual);
            let thread = b.add_lane(LaneKind::CpuThread, "app", "main");
            let queues = ["a", "b", "c"].map(|name| b.add_lane(LaneKind::Queue, "app", name));
            let engines = ["compute", "copy"].map(|name| b.add_lane(LaneKind::Engine, "gpu", name));
            let fence = b.add_fence("f");
            Scene { builder: b, thread, queues, engines, fence }
        }

        fn add(&mut self, record: Record) -> &mut Scene {
            self.builder.append(vec![record]);
            self
        }

        fn submit(&mut self, start: u64, end: u64) -> &mut Scene {
            self.add(Record::span(self.thread, Kind::Submit, NONE, start, end))
        }

        /// A command buffer whose engine is busy from 2 ns after its start to its end.
        fn execute(
            &mut self,
            queue: usize,
            kind: Kind,
            (queued, start, end): (u64, u64, u64),
        ) -> &mut Scene {
            let engine = self.engines[queue / 2];
            self.add(
                Record::span(self.queues[queue], Kind::Execute, NONE, start, end).queued(queued),
            );
            self.add(Record::span(engine, kind, NONE, start + 2, end))
        }

        fn on_fence(
            &mut self,
            lane: LaneId,
            kind: Kind,
            times: (u64, u64, u64),
            value: u64,
        ) -> &mut Scene {
            let (queued, start, end) = times;
            let record = Record::span(lane, kind, NONE, start, end).queued(queued);
            self.add(record.on_fence(self.fence, value))
        }

        fn account(&mut self, started_ns: u64, ended_ns: u64) -> Account {
            let queues = vec![(self.queues[0], 0), (self.queues[1], 0), (self.queues[2], 1)];
            let run = RunOnTimeline { started_ns, ended_ns, queues };
            let account = account(&self.builder.clone().finish(), &run);
            let sum: u64 = account.parts().iter().map(|(_, ns)| ns).sum();
            assert_eq!(sum, ended_ns - started_ns, "{account:?}");
            account
        }
    }

    #[test]
    fn one_submission_is_host_launch_and_work() {
        let mut scene = Scene::new();
        scene.submit(10, 15).execute(0, Kind::Timed, (12, 20, 52));
        let found = scene.account(0, 52);
        // 10 before the call, 5 in it and 5 to the engine and 2 in its front end, 30 of work.
        let wanted = Account {
            host_ns: 10,
            launch_ns: 12,
            gpu_ns: 30,
            cpu_submission_ns: 5,
            ..Account::default()
        };
        assert_eq!(found, wanted);
        assert_eq!(found.bound(), Part::Gpu);
    }

    #[test]
    fn work_that_follows_work_waits_for_the_engine_and_not_for_its_call() {
        let mut scene = Scene::new();
        scene.submit(0, 4).execute(0, Kind::Timed, (2, 6, 50));
        scene.submit(4, 8).execute(0, Kind::Copy, (6, 53, 65));
        let found = scene.account(0, 65);
        let (launch_ns, gpu_ns, copy_ns) = (4 + 2 + 2 + 3 + 2, 42, 10);
        assert_eq!(
            found,
            Account { launch_ns, gpu_ns, copy_ns, cpu_submission_ns: 8, ..Account::default() }
        );
    }

    #[test]
    fn work_of_another_queue_on_the_same_engine_is_work() {
        let mut scene = Scene::new();
        scene.submit(0, 4).execute(0, Kind::Timed, (2, 6, 50));
        scene.submit(4, 8).execute(1, Kind::Dispatch, (6, 51, 63));
        let found = scene.account(0, 63);
        assert_eq!((found.gpu_ns, found.launch_ns, found.sync_ns), (42 + 10, 4 + 2 + 2 + 1 + 2, 0));
    }

    #[test]
    fn a_wait_of_a_queue_goes_back_to_its_signal() {
        let mut scene = Scene::new();
        let [a, _, c] = scene.queues;
        scene.submit(0, 2).execute(2, Kind::Copy, (1, 4, 40));
        scene.on_fence(c, Kind::Signal, (1, 40, 43), 1);
        scene.on_fence(a, Kind::Wait, (2, 5, 48), 1).execute(0, Kind::Timed, (2, 50, 60));
        let found = scene.account(0, 60);
        // The signal takes 3, the release 5; the launch of the copy 2 + 2 + 2, that of the work 2 +
        // 2.
        let wanted = Account {
            copy_ns: 34,
            gpu_ns: 8,
            sync_ns: 8,
            launch_ns: 10,
            cpu_submission_ns: 2,
            ..Account::default()
        };
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_thread_that_waits_goes_back_to_the_signal_and_its_wake_is_sync() {
        let mut scene = Scene::new();
        let (a, thread) = (scene.queues[0], scene.thread);
        scene.submit(0, 2).execute(0, Kind::Timed, (1, 4, 24)).on_fence(
            a,
            Kind::Signal,
            (1, 24, 25),
            1,
        );
        scene.on_fence(thread, Kind::CpuWait, (2, 2, 40), 1);
        scene.submit(45, 47).execute(0, Kind::Timed, (46, 50, 62));
        let found = scene.account(0, 62);
        let wanted = Account {
            gpu_ns: 18 + 10,
            // 1 for the signal, 15 for interrupt, deferred routine and wake.
            sync_ns: 16,
            host_ns: 5,
            launch_ns: 2 + 2 + 2 + 2 + 3 + 2,
            cpu_submission_ns: 4,
            cpu_waiting_ns: 38,
            ..Account::default()
        };
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_wait_that_was_met_costs_what_it_takes_and_no_more() {
        let mut scene = Scene::new();
        let (a, c, thread) = (scene.queues[0], scene.queues[2], scene.thread);
        scene.on_fence(thread, Kind::CpuSignal, (0, 0, 3), 1).submit(3, 5);
        scene.on_fence(a, Kind::Wait, (4, 7, 9), 1).execute(0, Kind::Draw, (4, 10, 22));
        scene.on_fence(c, Kind::Signal, (4, 5, 6), 9);
        let found = scene.account(0, 22);
        let wanted = Account {
            gpu_ns: 10,
            sync_ns: 3 + 4,
            launch_ns: 2 + 1 + 2,
            cpu_submission_ns: 2,
            ..Account::default()
        };
        assert_eq!(found, wanted);
    }

    #[test]
    fn gaps_of_a_recording_are_idle_and_what_comes_before_the_run_does_not_count() {
        let mut scene = Scene::new();
        scene.submit(0, 4).execute(0, Kind::Timed, (2, 6, 50));
        let engine = scene.engines[0];
        let queue = scene.queues[0];
        scene.add(Record::span(queue, Kind::Execute, NONE, 52, 90).queued(3));
        scene.add(Record::span(engine, Kind::Gap, NONE, 54, 74)).add(Record::span(
            engine,
            Kind::Timed,
            NONE,
            75,
            90,
        ));
        let found = scene.account(20, 90);
        assert_eq!((found.idle_ns, found.gpu_ns, found.launch_ns), (20, 30 + 15, 2 + 2 + 1));
        assert_eq!(found.cpu_submission_ns, 0);
    }

    #[test]
    fn records_that_contradict_each_other_end_the_walk_all_the_same() {
        let mut scene = Scene::new();
        let [a, _, c] = scene.queues;
        // Two queues that released each other.
        scene.on_fence(a, Kind::Wait, (0, 1, 10), 1).on_fence(a, Kind::Signal, (0, 10, 10), 2);
        scene.on_fence(c, Kind::Wait, (0, 1, 10), 2).on_fence(c, Kind::Signal, (0, 10, 10), 1);
        scene.account(0, 10);
        assert_eq!(Scene::new().account(3, 8).host_ns, 5, "a run without records is the host's");
    }
}
