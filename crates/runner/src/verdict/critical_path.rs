//! Accounts for the makespan of a run: its critical path, in parts that sum to the makespan.
//!
//! The walk starts at the end of the last work and goes back to the start of the run. It is always
//! at one record: a command buffer, a wait or a signal of a queue, or a call of a CPU thread. The
//! time of that record gets a part, and the walk continues at the latest record that this one
//! waited for. `decisions/0038` has the definition of each part.
//!
//! - Each moment between start and end gets exactly one part, so the parts sum to the makespan.
//! - Before the first work of the run, all time except the host's own is start-up.
//! - The walk never goes forward in time and visits each record of a queue once, so it ends.
//!
//! Entry points: [`account()`], and [`account_and_path`] with the path for the timeline.

use std::collections::{BTreeMap, HashSet};

use super::account::{Account, Busy, EngineBusy, Part, RunOnTimeline};
use super::path_index::{Index, Lane};
use tidegate_trace::{Kind, LaneId, LaneKind, Record, Stretch, Trace};

/// Accounts for the makespan of a run. `trace` is its whole timeline.
pub fn account(trace: &Trace, run: &RunOnTimeline) -> Account {
    account_and_path(trace, run).0
}

/// The same, and the stretches of the path for [`Trace::critical_path`].
pub fn account_and_path(trace: &Trace, run: &RunOnTimeline) -> (Account, Vec<Stretch>) {
    let index = Index::new(trace, run);
    let mut walk = Walk {
        index: &index,
        run,
        at_ns: run.ended_ns,
        visited: HashSet::new(),
        account: Account::default(),
        path: Vec::new(),
    };
    walk.run();
    let Walk { mut account, mut path, .. } = walk;
    path.reverse();
    account.busy = busy(&index, run);
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
    (account, path)
}

/// The time in which the engines worked between start and end of the run.
fn busy(index: &Index<'_>, run: &RunOnTimeline) -> Busy {
    let inside = |start: u64, end: u64| {
        let (start, end) = (start.max(run.started_ns), end.min(run.ended_ns));
        (start < end).then_some((start, end))
    };
    let engines = index.trace.lanes.iter().filter(|lane| lane.kind == LaneKind::Engine);
    let gpu_of = |node: usize| {
        let mut queues = run.queues.iter().zip(run.gpus.iter().chain(std::iter::repeat(&0)));
        queues.find(|((_, of), _)| *of as usize == node).map_or(0, |(_, gpu)| *gpu)
    };
    let mut of_gpus: BTreeMap<u32, [Vec<(u64, u64)>; 2]> = BTreeMap::new();
    let mut of_engines = Vec::new();
    for (node, (lane, commands)) in engines.zip(&index.commands).enumerate() {
        let of = |wanted: Part| -> Vec<(u64, u64)> {
            let commands = commands.iter().filter(|command| command.part == wanted);
            commands.filter_map(|command| inside(command.start_ns, command.end_ns)).collect()
        };
        let (gpu, copy) = (of(Part::Gpu), of(Part::Copy));
        if gpu.is_empty() && copy.is_empty() {
            continue;
        }
        let of_gpu = of_gpus.entry(gpu_of(node)).or_default();
        of_gpu[0].extend(&gpu);
        of_gpu[1].extend(&copy);
        let engine = lane.name.clone();
        of_engines.push(EngineBusy { engine, gpu_ns: covered(gpu), copy_ns: covered(copy) });
    }
    let gpus = u32::try_from(of_gpus.len()).unwrap_or(u32::MAX);
    let sums = of_gpus
        .into_values()
        .map(|[gpu, copy]| (covered([&gpu[..], &copy].concat()), covered(gpu), covered(copy)));
    let (any_ns, gpu_ns, copy_ns) = sums.max_by_key(|(any_ns, ..)| *any_ns).unwrap_or_default();
    Busy { gpus, any_ns, gpu_ns, copy_ns, engines: of_engines }
}

/// The length of the union of intervals.
fn covered(mut intervals: Vec<(u64, u64)>) -> u64 {
    intervals.sort_unstable();
    let (mut covered, mut until) = (0, 0);
    for (start, end) in intervals {
        covered += end.max(until) - start.max(until);
        until = end.max(until);
    }
    covered
}

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
    /// The stretches so far, the last one of the run first.
    path: Vec<Stretch>,
}

/// What took the time of a stretch.
#[derive(Clone, Copy)]
enum Taker {
    /// A record.
    Record(usize),
    /// A lane, between its records.
    Lane(LaneId),
    /// Nothing on the timeline.
    Nothing,
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
        self.back_to(self.run.started_ns, Part::Host, Taker::Nothing);
    }

    fn record(&self, number: usize) -> &Record {
        &self.index.trace.records[number]
    }

    /// The end of the run: the last work of a queue, or the last call where there is none.
    fn begin(&mut self) -> Option<At> {
        if let Some(last) = self.index.last_item(self.at_ns) {
            self.back_to(self.record(last).end_ns, Part::Idle, Taker::Nothing);
            return Some(At::Item(last));
        }
        let calls = self.index.trace.records.iter().filter(|r| r.start_ns < self.at_ns);
        let threads =
            calls.filter(|r| matches!(self.index.lanes[r.lane.0 as usize], Lane::Thread(_)));
        threads.max_by_key(|r| r.end_ns).map(|r| At::Thread(r.lane))
    }

    /// Assigns the time back to `to_ns` to a part, and to what took it.
    fn back_to(&mut self, to_ns: u64, part: Part, taker: Taker) {
        let to_ns = to_ns.clamp(self.run.started_ns, self.at_ns);
        let first_work_ns = self.run.first_work_ns.clamp(to_ns, self.at_ns);
        let before = if part == Part::Host { part } else { Part::StartUp };
        self.account.add(part, self.at_ns - first_work_ns);
        self.account.add(before, first_work_ns - to_ns);
        if part == before {
            self.add_stretch(part, to_ns, self.at_ns, taker);
        } else {
            self.add_stretch(part, first_work_ns, self.at_ns, taker);
            self.add_stretch(before, to_ns, first_work_ns, taker);
        }
        self.at_ns = to_ns;
    }

    /// Adds a stretch to the path, as a part of the one after it where both are of one record.
    fn add_stretch(&mut self, part: Part, start_ns: u64, end_ns: u64, taker: Taker) {
        if start_ns >= end_ns {
            return;
        }
        let (lane, record) = match taker {
            Taker::Record(number) => (Some(self.record(number).lane), Some(number)),
            Taker::Lane(lane) => (Some(lane), None),
            Taker::Nothing => (None, None),
        };
        match self.path.last_mut() {
            Some(next) if (next.part, next.lane, next.record) == (part, lane, record) => {
                next.start_ns = start_ns;
            }
            _ => self.path.push(Stretch { part, start_ns, end_ns, lane, record }),
        }
    }

    /// Continues at the item that ended last. For records that contradict each other or have no
    /// known dependency.
    fn last_item_not_seen(&mut self) -> Option<At> {
        let last = self.index.last_item(self.at_ns).filter(|last| !self.visited.contains(last))?;
        self.back_to(self.record(last).end_ns, Part::Idle, Taker::Nothing);
        Some(At::Item(last))
    }

    fn item(&mut self, number: usize) -> Option<At> {
        let record = *self.record(number);
        match record.kind {
            Kind::Execute => {
                self.engine(number, &record);
                self.before(number, Part::Launch)
            }
            _ => self.before(number, Part::Sync),
        }
    }

    /// A command buffer: the work of its engine, and the front end before that work.
    fn engine(&mut self, number: usize, record: &Record) {
        let own = Taker::Record(number);
        let node = match &self.index.lanes[record.lane.0 as usize] {
            Lane::Queue { node: Some(node), .. } => *node as usize,
            _ => return self.back_to(record.start_ns, Part::Copy, own),
        };
        let commands = self.index.commands.get(node).map_or(&[][..], Vec::as_slice);
        let begun = commands.partition_point(|command| command.start_ns < self.at_ns);
        for command in commands[..begun].iter().rev() {
            if command.end_ns <= record.start_ns {
                break;
            }
            self.back_to(command.end_ns.max(record.start_ns), Part::Launch, own);
            let work = Taker::Record(command.number);
            self.back_to(command.start_ns.max(record.start_ns), command.part, work);
        }
        self.back_to(record.start_ns, Part::Launch, own);
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
        self.back_to(record.queued_ns.min(record.start_ns), Part::Idle, Taker::Record(signal));
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
        self.back_to(at_ns, part, Taker::Record(number));
        Some(at)
    }

    /// The last call of a thread before the present moment.
    fn thread(&mut self, lane: LaneId) -> Option<At> {
        let Lane::Thread(calls) = &self.index.lanes[lane.0 as usize] else { return None };
        let records = &self.index.trace.records;
        let begun = calls.partition_point(|r| records[*r].start_ns < self.at_ns);
        let number = *calls[..begun].last()?;
        let record = records[number];
        self.back_to(record.end_ns, Part::Host, Taker::Lane(lane));
        let own = Taker::Record(number);
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
                    self.back_to(records[signal].end_ns, Part::Sync, own);
                    return Some(self.at_signal(signal));
                }
                // A wait without a fence is a blocked call of a recording that names no object.
                let part = if record.fence().is_some() { Part::Sync } else { Part::Idle };
                self.back_to(record.start_ns, part, own);
            }
            Kind::Submit => self.back_to(record.start_ns, Part::Launch, own),
            Kind::CpuSignal => self.back_to(record.start_ns, Part::Sync, own),
            _ => self.back_to(record.start_ns, Part::Host, own),
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
        /// The GPUs of the queues.
        gpus: Vec<u32>,
        /// The busy times of the last account.
        busy: Busy,
        /// The path of the last account.
        path: Vec<Stretch>,
    }

    const NONE: NameId = NameId::NONE;

    impl Scene {
        fn new() -> Scene {
            let mut b = TraceBuilder::new("t", ClockName::Virtual);
            let thread = b.add_lane(LaneKind::CpuThread, "app", "main");
            let queues = ["a", "b", "c"].map(|name| b.add_lane(LaneKind::Queue, "app", name));
            let engines = ["compute", "copy"].map(|name| b.add_lane(LaneKind::Engine, "gpu", name));
            let fence = b.add_fence("f");
            let gpus = Vec::new();
            let (busy, path) = (Busy::default(), Vec::new());
            Scene { builder: b, thread, queues, engines, fence, gpus, busy, path }
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
            self.account_of(started_ns, started_ns, ended_ns)
        }

        fn account_of(&mut self, started_ns: u64, first_work_ns: u64, ended_ns: u64) -> Account {
            let queues = vec![(self.queues[0], 0), (self.queues[1], 0), (self.queues[2], 1)];
            let gpus = self.gpus.clone();
            let run = RunOnTimeline { started_ns, first_work_ns, ended_ns, queues, gpus };
            let (mut account, path) = account_and_path(&self.builder.clone().finish(), &run);
            self.busy = std::mem::take(&mut account.busy);
            // The stretches are the makespan without a hole, and make the same parts.
            let mut of_path = Account::default();
            let mut at_ns = started_ns;
            for stretch in &path {
                assert_eq!(stretch.start_ns, at_ns, "{path:?}");
                at_ns = stretch.end_ns;
                of_path.add(stretch.part, stretch.end_ns - stretch.start_ns);
            }
            assert_eq!((at_ns, of_path.parts()), (ended_ns, account.parts()), "{path:?}");
            self.path = path;
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
    fn what_holds_the_first_work_up_is_start_up() {
        let mut scene = Scene::new();
        scene.submit(10, 15).execute(0, Kind::Timed, (12, 20, 52));
        let found = scene.account_of(0, 22, 52);
        // The call, and the time from it to the engine.
        assert_eq!((found.host_ns, found.start_up_ns, found.gpu_ns), (10, 12, 30));
        assert_eq!((found.launch_ns, found.cpu_submission_ns), (0, 5));
        assert_eq!(found.steady_ns(), 40);
    }

    /// A thread that goes on while the first work is held up loses nothing by it.
    #[test]
    fn work_of_the_host_before_the_first_work_is_of_the_host() {
        let mut scene = Scene::new();
        scene.submit(0, 4).execute(2, Kind::Copy, (2, 50, 60));
        scene.submit(90, 92).execute(0, Kind::Timed, (91, 94, 110));
        let found = scene.account_of(0, 52, 110);
        assert_eq!((found.host_ns, found.start_up_ns), (86, 4));
        assert_eq!((found.launch_ns, found.gpu_ns), (2 + 2 + 2, 14));
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
        let ([copy, compute], thread) = ([scene.engines[1], scene.engines[0]], scene.thread);
        let stretches = [
            (Part::Launch, 0, 2, thread, 0),
            (Part::Launch, 2, 6, c, 1),
            (Part::Copy, 6, 40, copy, 3),
            (Part::Sync, 40, 43, c, 4),
            (Part::Sync, 43, 48, a, 2),
            (Part::Launch, 48, 52, a, 5),
            (Part::Gpu, 52, 60, compute, 6),
        ];
        let wanted = stretches.map(|(part, start_ns, end_ns, lane, record)| Stretch {
            part,
            start_ns,
            end_ns,
            lane: Some(lane),
            record: Some(record),
        });
        assert_eq!(scene.path, wanted);
    }

    #[test]
    fn time_of_a_thread_between_its_calls_is_of_its_lane_and_other_time_of_nothing() {
        let mut scene = Scene::new();
        scene.submit(0, 4).execute(0, Kind::Timed, (2, 6, 20));
        scene.submit(44, 46).execute(0, Kind::Copy, (45, 50, 60));
        scene.account(0, 66);
        let of = |part| {
            let stretch = scene.path.iter().find(|stretch| stretch.part == part).unwrap();
            (stretch.start_ns, stretch.end_ns, stretch.lane, stretch.record)
        };
        assert_eq!(of(Part::Host), (4, 44, Some(scene.thread), None));
        assert_eq!(of(Part::Idle), (60, 66, None, None));
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
    fn a_wait_for_two_fences_counts_once_and_ends_with_the_last_signal() {
        let mut scene = Scene::new();
        let ([a, _, c], thread) = (scene.queues, scene.thread);
        let other = scene.builder.add_fence("g");
        scene.submit(0, 2).execute(0, Kind::Timed, (1, 4, 24));
        scene.on_fence(a, Kind::Signal, (1, 24, 25), 1);
        scene.submit(2, 3).execute(2, Kind::Copy, (2, 5, 30));
        scene.add(Record::span(c, Kind::Signal, NONE, 30, 32).queued(2).on_fence(other, 1));
        scene.on_fence(thread, Kind::CpuWait, (3, 3, 40), 1);
        scene.add(Record::span(thread, Kind::CpuWait, NONE, 3, 40).queued(3).on_fence(other, 1));
        scene.submit(45, 47).execute(0, Kind::Timed, (46, 50, 62));
        let found = scene.account(0, 62);
        let wanted = Account {
            gpu_ns: 10,
            copy_ns: 23,
            // 8 from the later signal to the end of the wait, 2 in that signal.
            sync_ns: 10,
            host_ns: 5,
            // From the end: 2 in the front end, 3 after the call, 2 in it; 2, 2 and 1 for the copy;
            // 2 in the first call.
            launch_ns: 14,
            cpu_submission_ns: 5,
            // One wait from 3 to 40, with a record for each fence.
            cpu_waiting_ns: 37,
            ..Account::default()
        };
        assert_eq!(found, wanted);
    }

    #[test]
    fn waits_of_equal_length_of_two_threads_count_twice() {
        let mut scene = Scene::new();
        let second = scene.builder.add_lane(LaneKind::CpuThread, "app", "second");
        scene.submit(0, 2).execute(0, Kind::Timed, (1, 4, 24));
        scene.on_fence(scene.queues[0], Kind::Signal, (1, 24, 25), 1);
        scene.on_fence(scene.thread, Kind::CpuWait, (2, 2, 40), 1);
        scene.on_fence(second, Kind::CpuWait, (2, 2, 40), 1);
        assert_eq!(scene.account(0, 40).cpu_waiting_ns, 2 * 38);
    }

    /// Records that touch: each one begins in the nanosecond in which another ends.
    #[test]
    fn work_that_begins_when_its_wait_ends_follows_that_wait() {
        let mut scene = Scene::new();
        let [a, _, c] = scene.queues;
        scene.submit(0, 2).execute(2, Kind::Copy, (1, 4, 40));
        // A signal without length.
        scene.on_fence(c, Kind::Signal, (1, 40, 40), 1);
        scene.on_fence(a, Kind::Wait, (2, 5, 48), 1).execute(0, Kind::Timed, (2, 48, 60));
        let found = scene.account(0, 60);
        let wanted = Account {
            copy_ns: 34,
            gpu_ns: 10,
            sync_ns: 8,
            // 2 in the front end of the work; 2, 2 and 2 for the copy.
            launch_ns: 8,
            cpu_submission_ns: 2,
            ..Account::default()
        };
        assert_eq!(found, wanted);
    }

    #[test]
    fn work_that_begins_when_other_work_of_its_engine_ends_follows_it() {
        let mut scene = Scene::new();
        scene.submit(0, 4).execute(0, Kind::Timed, (2, 6, 50));
        scene.submit(4, 8).execute(1, Kind::Dispatch, (6, 50, 62));
        let found = scene.account(0, 62);
        assert_eq!((found.gpu_ns, found.launch_ns), (42 + 10, 4 + 2 + 2 + 2), "{found:?}");
    }

    #[test]
    fn work_queued_in_the_last_moment_of_its_call_is_of_that_call() {
        for queued in [10, 15] {
            let mut scene = Scene::new();
            scene.submit(10, 15).execute(0, Kind::Timed, (queued, 20, 52));
            let found = scene.account(0, 52);
            assert_eq!((found.host_ns, found.launch_ns, found.gpu_ns), (10, 12, 30), "{queued}");
        }
    }

    #[test]
    fn command_buffers_without_length_take_nothing_and_end_no_path() {
        let mut scene = Scene::new();
        let a = scene.queues[0];
        scene.submit(0, 4).execute(0, Kind::Timed, (2, 6, 50));
        for _ in 0..2 {
            scene.add(Record::span(a, Kind::Execute, NONE, 50, 50).queued(3));
        }
        scene.execute(0, Kind::Copy, (3, 50, 60));
        let found = scene.account(0, 60);
        let wanted = Account {
            gpu_ns: 42,
            copy_ns: 8,
            launch_ns: 4 + 2 + 2 + 2,
            cpu_submission_ns: 4,
            ..Account::default()
        };
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_command_buffer_without_length_follows_its_call_and_not_itself() {
        let mut scene = Scene::new();
        scene.submit(0, 4).execute(0, Kind::Timed, (2, 6, 40));
        let empty = Record::span(scene.queues[0], Kind::Execute, NONE, 50, 50).queued(45);
        scene.submit(44, 46).add(empty).execute(0, Kind::Copy, (45, 50, 60));
        let wanted = Account {
            copy_ns: 8,
            // From the end: 2 in the front end, 4 after the second call, 2 in it, 4 in the first.
            launch_ns: 2 + 4 + 2 + 4,
            host_ns: 40,
            cpu_submission_ns: 4 + 2,
            ..Account::default()
        };
        assert_eq!(scene.account(0, 60), wanted);
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

    #[test]
    fn moments_of_several_busy_engines_count_once() {
        let mut scene = Scene::new();
        scene.submit(0, 4).execute(0, Kind::Timed, (2, 6, 50)).execute(2, Kind::Copy, (2, 28, 60));
        scene.execute(1, Kind::Dispatch, (6, 60, 82));
        scene.account(20, 80);
        let (gpu_ns, copy_ns) = (30 + 18, 30);
        let of =
            |engine: &str, gpu_ns, copy_ns| EngineBusy { engine: engine.into(), gpu_ns, copy_ns };
        let engines = vec![of("compute", gpu_ns, 0), of("copy", 0, copy_ns)];
        assert_eq!(scene.busy, Busy { gpus: 1, any_ns: 30 + 10 + 18, gpu_ns, copy_ns, engines });
    }

    #[test]
    fn the_busy_time_is_that_of_the_gpu_that_worked_for_longest() {
        let mut scene = Scene::new();
        // The queues of the first engine are on one GPU, the queue of the second is on another.
        scene.gpus = vec![0, 0, 1];
        scene.submit(0, 4).execute(0, Kind::Timed, (2, 6, 50)).execute(2, Kind::Copy, (2, 48, 100));
        scene.account(0, 100);
        let (any_ns, gpu_ns, copy_ns) = (50, 0, 50);
        let busy = &scene.busy;
        assert_eq!(
            (busy.gpus, busy.any_ns, busy.gpu_ns, busy.copy_ns),
            (2, any_ns, gpu_ns, copy_ns)
        );
        scene.gpus.clear();
        scene.account(0, 100);
        assert_eq!((scene.busy.gpus, scene.busy.any_ns), (1, 92));
    }

    #[test]
    fn a_blocked_call_of_a_recording_that_says_not_for_what_is_idle() {
        let mut scene = Scene::new();
        scene.add(Record::span(scene.thread, Kind::CpuWait, NONE, 5, 35));
        scene.submit(40, 42).execute(0, Kind::Timed, (41, 44, 60));
        let found = scene.account(0, 60);
        assert_eq!((found.idle_ns, found.sync_ns, found.host_ns), (30, 0, 5 + 5));
        assert_eq!(found.cpu_waiting_ns, 30);
    }

    #[test]
    fn a_wait_counts_from_the_start_of_the_run() {
        let mut scene = Scene::new();
        scene.on_fence(scene.thread, Kind::CpuWait, (0, 0, 30), 1);
        scene.submit(30, 32).execute(0, Kind::Timed, (31, 34, 50));
        assert_eq!(scene.account(20, 50).cpu_waiting_ns, 10);
    }

    #[test]
    fn a_signal_that_ends_as_a_wait_begins_has_not_released_it() {
        let mut scene = Scene::new();
        scene.submit(0, 2).execute(2, Kind::Copy, (1, 4, 8));
        scene.on_fence(scene.queues[2], Kind::Signal, (1, 8, 10), 1);
        scene.submit(3, 10);
        scene.on_fence(scene.thread, Kind::CpuWait, (10, 10, 14), 1);
        scene.submit(14, 16).execute(0, Kind::Timed, (15, 18, 30));
        // The thread itself was late: 2 in its first call, 1 between the calls, 7 in the second.
        let wanted = Account {
            gpu_ns: 10,
            launch_ns: 2 + 2 + 2 + 7 + 2,
            sync_ns: 4,
            host_ns: 1,
            cpu_submission_ns: 2 + 7 + 2,
            cpu_waiting_ns: 4,
            ..Account::default()
        };
        assert_eq!(scene.account(0, 30), wanted);
    }

    /// A flip that waited for its vertical sync, beside a copy that ended meanwhile.
    #[test]
    fn a_signal_of_the_display_goes_back_to_the_moment_in_which_its_flip_was_queued() {
        let mut scene = Scene::new();
        let display = scene.builder.add_lane(LaneKind::Display, "gpu", "display");
        scene.submit(0, 2).execute(0, Kind::Timed, (1, 4, 14)).execute(2, Kind::Copy, (1, 4, 30));
        scene.on_fence(display, Kind::Signal, (20, 40, 40), 1);
        scene.on_fence(scene.thread, Kind::CpuWait, (5, 5, 44), 1);
        scene.submit(44, 46).execute(0, Kind::Timed, (45, 48, 60));
        let wanted = Account {
            gpu_ns: 10 + 8,
            launch_ns: 2 + 2 + 2 + 2 + 2 + 2,
            sync_ns: 4,
            // 20 for the vertical sync, 6 from the work before it to the flip.
            idle_ns: 26,
            cpu_submission_ns: 4,
            cpu_waiting_ns: 39,
            ..Account::default()
        };
        assert_eq!(scene.account(0, 60), wanted);
    }
}
