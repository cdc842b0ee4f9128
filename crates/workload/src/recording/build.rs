//! Makes a workload of an ordered recording.
//!
//! Each stream becomes a queue and a fence, each host thread a thread. A call becomes:
//!
//! 1. `Host`: the thread's own time up to the call.
//! 2. `AwaitMark`: the previous feeder of the stream has made its call.
//! 3. The call, then `Mark` for the next feeder of the stream.
//! 4. After a wait, `Resume`: recorded time continues from its end.
//!
//! Invariant: a fence gets a new value for each awaited entry, in the order of the recording, so
//! its values rise while the marks are kept. Entry point: [`workload`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::correlate::{Joined, Screen, Stream};
use super::engines::{self, Engines};
use super::records::{NameId, WorkKind};
use super::timeline::{Action, Entry, Item, Timeline};
use super::{Gaps, ImportOptions};
use crate::expression::Expr;
use crate::model::{
    Buffer, BufferId, Command, CommandKind, Display, EngineKind, Fence, FenceId, FenceRef,
    FenceWait, Init, Op, OpKind, Priority, Queue, QueueId, QueueRef, Ready, Recorded, RecordedItem,
    Span, Submission, Thread, Workload,
};

/// Buffers of a display: with fewer, rendering waits for the screen between frames that replace one
/// another.
const LEAST_BUFFERS: u32 = 4;
const MOST_BUFFERS: u32 = 16;
/// Pixels in a row of a picture, and rows.
const PICTURE_PIXELS: u32 = 16;

/// Makes the workload.
pub fn workload(timeline: Timeline, file: &str, options: &ImportOptions) -> Workload {
    let mut timeline = timeline;
    let (queues, shares) = queues(&mut timeline.joined);
    let (display, buffers) = timeline.joined.display.map(display_of).unzip();
    let mut builder = Builder {
        values: fence_values(&timeline),
        marks: marks(&timeline.entries),
        timeline: &timeline,
        options,
        recorded: Vec::with_capacity(timeline.joined.work.len()),
        names: Names::of(timeline.joined.names.len()),
        late: vec![Late::default(); timeline.joined.streams.len()],
        bodies: vec![Body::default(); timeline.joined.threads.len() + 1],
        commands: Vec::new(),
        shares,
        gaps: Vec::new(),
        gap_fences: Vec::new(),
    };
    for number in 0..timeline.entries.len() {
        builder.entry(number);
    }
    let (gaps, gap_fences) = (builder.gaps, builder.gap_fences);
    let gaps_timed_by_host = gaps.len() as u64;
    let (marks, items) = (builder.marks.count, builder.recorded);
    let Names { list: names, kinds, .. } = builder.names;
    let of = |mut body: Body| {
        body.ops.shrink_to_fit();
        body.ops
    };
    let bodies = builder.bodies.into_iter().map(of).chain(std::iter::once(ends_of_gaps(gaps)));
    let bodies: Vec<Vec<Op>> = bodies.collect();
    timeline.joined.report.gaps_timed_by_host = gaps_timed_by_host;
    let fence = |name| Fence { name, initial: 0, span: Span::default() };
    let fences = timeline.joined.streams.iter().map(|stream| fence(stream.name.clone()));
    let of_gap =
        |(stream, _): &(usize, u64)| format!("gaps of {}", timeline.joined.streams[*stream].name);
    let fences = fences.chain(gap_fences.iter().map(|gap| fence(of_gap(gap))));
    Workload {
        name: name(file),
        description: "a recorded run of a real program, replayed".into(),
        file: file.to_owned(),
        buffers: buffers.unwrap_or_default(),
        queues,
        fences: fences.collect(),
        threads: threads(&timeline, bodies),
        expects: Vec::new(),
        frames: Vec::new(),
        display,
        marks,
        recorded: Some(Recorded {
            makespan_ns: timeline.makespan_ns(),
            items,
            names,
            kinds,
            report: timeline.joined.report.clone(),
        }),
        local_memory_bytes: None,
        scale: None,
        warnings: Vec::new(),
    }
}

fn name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    let name = name.strip_suffix(".gz").unwrap_or(name);
    name.strip_suffix(".json").unwrap_or(name).to_owned()
}

impl ImportOptions {
    /// Whether a thread whose wait was met at `done` returned sooner than a sleeper is woken.
    fn polled(&self, entry: &Entry, done: u64) -> bool {
        done > entry.submit && entry.end.saturating_sub(done) < self.wake_ns
    }

    /// The recorded moment from which a thread's own time counts again after a wait that was met at
    /// `done`.
    fn resumes_at(&self, entry: &Entry, done: u64) -> u64 {
        if done <= entry.submit {
            // Nothing was pending: the call's length is the host's own time.
            return entry.submit;
        }
        // What the recorded return took longer than the replaying machine takes is the host's own
        // time too.
        let own = if self.polled(entry, done) { self.seen_ns } else { self.wake_ns };
        entry.end.min(done.saturating_add(own))
    }
}

/// One queue per stream, and whether it shares its engine.
fn queues(joined: &mut Joined) -> (Vec<Queue>, Vec<bool>) {
    let Engines { of_streams, shares, overlapped } = engines::assign(joined);
    joined.report.streams_sharing_an_engine =
        overlapped.iter().map(|shared| shared.streams.len() as u64).sum();
    joined.report.shared_engines = overlapped;
    let gpus: BTreeSet<_> = joined.streams.iter().map(|stream| stream.device).collect();
    let gpu = |stream: &Stream| gpus.iter().position(|device| *device == stream.device);
    let queue = |(stream, (engine, node)): (&Stream, (EngineKind, u32))| Queue {
        name: stream.name.clone(),
        engine,
        node,
        gpu: gpu(stream).and_then(|gpu| u32::try_from(gpu).ok()).unwrap_or(0),
        priority: Priority::Normal,
        // A user-mode queue presents nothing.
        submission: joined.display.map(|_| Submission::Hardware),
        span: Span::default(),
    };
    let mut queues: Vec<Queue> = joined.streams.iter().zip(of_streams).map(queue).collect();
    let presents = joined.display.map(|display| display.stream);
    if let Some(queue) = presents.filter(|of| !shares[*of]).and_then(|of| queues.get_mut(of)) {
        (queue.engine, queue.node) = (EngineKind::ThreeD, 0);
    }
    (queues, shares)
}

/// The display, and its buffers. A recording has no pictures: the buffers are small.
fn display_of(screen: Screen) -> (Display, Vec<Buffer>) {
    let count = (screen.latency + 2).clamp(LEAST_BUFFERS, MOST_BUFFERS);
    let display = Display {
        queue: queue_id(screen.stream),
        first: BufferId(0),
        count,
        width: PICTURE_PIXELS,
        height: PICTURE_PIXELS,
        refresh_ns: screen.refresh_ns,
        vsync_at_ns: Some(screen.vsync_ns),
        latency: screen.latency,
        span: Span::default(),
    };
    let buffer = |number| Buffer {
        name: format!("screen[{number}]"),
        bytes: u64::from(PICTURE_PIXELS * PICTURE_PIXELS * 4),
        init: Init::Zero,
        span: Span::default(),
    };
    (display, (0..count).map(buffer).collect())
}

fn threads(timeline: &Timeline, bodies: Vec<Vec<Op>>) -> Vec<Thread> {
    let names = timeline
        .joined
        .threads
        .iter()
        .cloned()
        .chain(["launches not recorded".into(), "gaps of streams that share an engine".into()]);
    let variable_names = Arc::new(vec!["index".to_owned()]);
    let thread = |(name, body): (String, Vec<Op>)| Thread {
        name,
        queue: None,
        variables: vec![0],
        variable_names: Arc::clone(&variable_names),
        body: Arc::new(body),
        span: Span::default(),
    };
    names.zip(bodies).filter(|(_, body)| !body.is_empty()).map(thread).collect()
}

/// The operations of the thread that ends gaps: a signal at the time of each, in the order of time.
fn ends_of_gaps(mut gaps: Vec<(u64, FenceRef, u64)>) -> Vec<Op> {
    gaps.sort_by_key(|(at, _, value)| (*at, *value));
    let ops = gaps.into_iter().flat_map(|(until_ns, fence, value)| {
        let value = Expr::number(value);
        [OpKind::Host { until_ns, work_ns: 0 }, OpKind::CpuSignal { fence, value }]
    });
    ops.map(|kind| Op { kind, span: Span::default() }).collect()
}

/// The fence value of each awaited entry.
fn fence_values(timeline: &Timeline) -> Vec<Option<u64>> {
    let mut newest = vec![0u64; timeline.joined.streams.len()];
    let value = |entry: &Entry| {
        let stream = entry.stream().filter(|_| entry.awaited)?;
        newest[stream] += 1;
        Some(newest[stream])
    };
    timeline.entries.iter().map(value).collect()
}

/// A change of the thread that feeds a stream.
struct Marks {
    count: u32,
    /// Set after this entry.
    after: Vec<Option<u32>>,
    /// Awaited before this entry.
    before: Vec<Option<u32>>,
}

fn marks(entries: &[Entry]) -> Marks {
    let mut marks =
        Marks { count: 0, after: vec![None; entries.len()], before: vec![None; entries.len()] };
    let mut newest: BTreeMap<usize, usize> = BTreeMap::new();
    for (number, entry) in entries.iter().enumerate() {
        let Some(stream) = entry.stream() else { continue };
        if let Some(last) = newest.insert(stream, number)
            && entries[last].thread != entry.thread
        {
            marks.after[last] = Some(marks.count);
            marks.before[number] = Some(marks.count);
            marks.count += 1;
        }
    }
    marks
}

/// The operations of one thread so far.
#[derive(Debug, Clone, Default)]
struct Body {
    ops: Vec<Op>,
    /// Recorded time up to which its calls have been replayed.
    returned: u64,
}

impl Body {
    fn push(&mut self, kind: OpKind) {
        self.ops.push(Op { kind, span: Span::default() });
    }

    fn go_on_to(&mut self, until_ns: u64) {
        if until_ns > 0 {
            self.push(OpKind::Host { until_ns, work_ns: until_ns.saturating_sub(self.returned) });
        }
        self.returned = self.returned.max(until_ns);
    }

    fn resume(&mut self, at_ns: u64) {
        self.push(OpKind::Resume { at_ns });
        self.returned = at_ns;
    }
}

/// Lateness of a stream's replay, in nanoseconds, from gaps shorter than the replaying machine's
/// own turn-around. Later gaps are shortened by it.
#[derive(Debug, Clone, Copy, Default)]
struct Late(i128);

impl Late {
    /// The delay before an item whose start takes the machine `own` by itself; a delay is a
    /// command, and takes `command`.
    fn delay(&mut self, item: &Item, own: u64, command: u64) -> u64 {
        if item.ready != Ready::Previous {
            // The host or another stream determines the start, so the stream's lateness does not
            // count.
            self.0 = 0;
        }
        let wanted = i128::from(item.gap_ns) - self.0;
        match u64::try_from(wanted - i128::from(own) - i128::from(command)) {
            Ok(delay) if delay > 0 => {
                self.0 = 0;
                delay
            }
            _ => {
                self.0 = i128::from(own) - wanted;
                0
            }
        }
    }
}

/// Names of work in the order of their first use, each once.
#[derive(Debug)]
struct Names {
    list: Vec<Arc<str>>,
    kinds: Vec<WorkKind>,
    /// The number of each name of the recording.
    numbers: Vec<Option<u32>>,
}

impl Names {
    fn of(recorded: usize) -> Self {
        Self { list: Vec::new(), kinds: Vec::new(), numbers: vec![None; recorded] }
    }

    fn number(&mut self, name: NameId, text: &Arc<str>, kind: WorkKind) -> u32 {
        let number = *self.numbers[name.index()].get_or_insert_with(|| {
            self.list.push(Arc::clone(text));
            self.kinds.push(kind);
            u32::try_from(self.list.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(known) = self.kinds.get_mut(number as usize).filter(|known| **known != kind) {
            *known = WorkKind::Kernel;
        }
        number
    }
}

struct Builder<'a> {
    timeline: &'a Timeline,
    options: &'a ImportOptions,
    values: Vec<Option<u64>>,
    marks: Marks,
    recorded: Vec<RecordedItem>,
    names: Names,
    /// By stream.
    late: Vec<Late>,
    bodies: Vec<Body>,
    /// Commands of the list that is being made.
    commands: Vec<Command>,
    /// By stream: whether it shares its engine. A gap must not occupy that: the stream waits for a
    /// fence, which a thread of the host signals at the recorded time.
    shares: Vec<bool>,
    /// The recorded ends of such gaps, with fence and value.
    gaps: Vec<(u64, FenceRef, u64)>,
    /// The streams with such gaps, and the newest value of the fence of each. These fences follow
    /// those of the streams.
    gap_fences: Vec<(usize, u64)>,
}

impl Builder<'_> {
    fn entry(&mut self, number: usize) {
        let timeline = self.timeline;
        let entry = &timeline.entries[number];
        let thread = entry.thread as usize;
        self.bodies[thread].go_on_to(entry.submit);
        if let Some(mark) = self.marks.before[number] {
            self.bodies[thread].push(OpKind::AwaitMark { mark, at_ns: entry.submit });
        }
        match (&entry.action, entry.stream()) {
            (Action::Launch { items, .. }, Some(stream)) => {
                if self.shares[stream] {
                    self.submit_apart(items, stream, entry);
                } else {
                    let commands = self.list(items, stream, entry.submit);
                    self.bodies[thread].push(OpKind::Submit { queue: queue(stream), commands });
                }
            }
            (Action::StreamWait { on }, Some(stream)) => {
                if let Some(FenceWait { fence, value }) = self.reached(*on) {
                    self.bodies[thread].push(OpKind::Wait { queue: queue(stream), fence, value });
                }
            }
            (Action::Present { interval, waits }, _) => {
                let interval = Expr::number(u64::from(*interval));
                let returned_ns = waits.then_some(entry.end);
                self.bodies[thread].push(OpKind::Present { interval, returned_ns });
            }
            _ => {}
        }
        if let (Some(stream), Some(value)) = (entry.stream(), self.values[number]) {
            let (fence, value) = (fence(stream), Expr::number(value));
            self.bodies[thread].push(OpKind::Signal { queue: queue(stream), fence, value });
        }
        if let Some(mark) = self.marks.after[number] {
            self.bodies[thread].push(OpKind::Mark { mark });
        }
        self.after_call(number, entry);
    }

    /// The part of a call that blocks the host, and where its clock is afterwards.
    fn after_call(&mut self, number: usize, entry: &Entry) {
        let (on, done) = match &entry.action {
            Action::HostWait { on, done } => (on.clone(), *done),
            Action::Launch { items, blocks: true } => {
                let ends = items.iter().map(|item| self.timeline.joined.work(item.work).end);
                (vec![number], ends.max().unwrap_or(0))
            }
            _ => {
                let body = &mut self.bodies[entry.thread as usize];
                if let Action::Blocked = entry.action {
                    body.push(OpKind::Blocked { until_ns: entry.end });
                }
                body.returned = body.returned.max(entry.end);
                return;
            }
        };
        let of: Vec<FenceWait> = on.into_iter().filter_map(|on| self.reached(on)).collect();
        let body = &mut self.bodies[entry.thread as usize];
        if !of.is_empty() {
            body.push(match self.options.polled(entry, done) {
                true => OpKind::PollWait { of, done_ns: done },
                false => OpKind::CpuWait { any: false, of, chosen: None },
            });
        }
        body.resume(self.options.resumes_at(entry, done));
    }

    /// The fence and value of an entry's completion.
    fn reached(&self, entry: usize) -> Option<FenceWait> {
        let stream = self.timeline.entries[entry].stream()?;
        Some(FenceWait { fence: fence(stream), value: Expr::number(self.values[entry]?) })
    }

    /// Submits items of a stream that shares its engine. Each gap is a wait between submissions.
    fn submit_apart(&mut self, items: &[Item], stream: usize, entry: &Entry) {
        let mut commands = Vec::new();
        let queue = || queue(stream);
        let body = entry.thread as usize;
        for (place, item) in items.iter().enumerate() {
            let first = commands.is_empty() || place == 0;
            for command in self.commands(item, stream, entry.submit, first) {
                // A device's own turn-around is too short to hold others back.
                if !item.unexplained || !matches!(command.kind, CommandKind::Delay { .. }) {
                    commands.push(command);
                    continue;
                }
                if !commands.is_empty() {
                    let commands = std::mem::take(&mut commands);
                    self.bodies[body].push(OpKind::Submit { queue: queue(), commands });
                }
                let (fence, value) = self.end_of_gap(item, stream);
                let value = Expr::number(value);
                self.bodies[body].push(OpKind::Wait { queue: queue(), fence, value });
            }
        }
        self.bodies[body].push(OpKind::Submit { queue: queue(), commands });
    }

    /// A fence and its value at the recorded end of the gap before an item.
    fn end_of_gap(&mut self, item: &Item, stream: usize) -> (FenceRef, u64) {
        let start = self.timeline.joined.work(item.work).start;
        let known = self.gap_fences.iter().position(|(of, _)| *of == stream);
        let place = known.unwrap_or_else(|| {
            self.gap_fences.push((stream, 0));
            self.gap_fences.len() - 1
        });
        let newest = &mut self.gap_fences[place].1;
        *newest += 1;
        let fence = fence(self.timeline.joined.streams.len() + place);
        let at = start.saturating_sub(self.options.launch_ns);
        self.gaps.push((at, fence.clone(), *newest));
        (fence, *newest)
    }

    /// The commands of one submission.
    fn list(&mut self, items: &[Item], stream: usize, submit_ns: u64) -> Vec<Command> {
        // Collected elsewhere first: a list that is cut to its length leaves a hole that no other
        // list fits into.
        let mut commands = std::mem::take(&mut self.commands);
        for (place, item) in items.iter().enumerate() {
            commands.extend(self.commands(item, stream, submit_ns, place == 0));
        }
        let list = Vec::from_iter(commands.drain(..));
        self.commands = commands;
        list
    }

    /// The work of an item, after a delay for an unexplained gap.
    fn commands(
        &mut self,
        item: &Item,
        stream: usize,
        submit_ns: u64,
        first: bool,
    ) -> impl Iterator<Item = Command> + use<> {
        let joined = &self.timeline.joined;
        let work = joined.work(item.work);
        let name = &joined.names[work.name.index()];
        let number = u32::try_from(self.recorded.len()).unwrap_or(u32::MAX);
        self.recorded.push(RecordedItem {
            queue: queue_id(stream),
            name: self.names.number(work.name, name, work.kind),
            launched_ns: work.launched.then_some(submit_ns.min(work.start)),
            start_ns: work.start,
            end_ns: work.end,
            ready: item.ready,
            gap_ns: item.gap_ns,
            unexplained: item.unexplained,
        });
        let own = match item.ready {
            _ if !first => self.options.command_ns,
            Ready::Launch => self.options.launch_ns,
            Ready::Previous | Ready::Dependency | Ready::Unknown => self.options.turnaround_ns,
        };
        let delay_ns = match self.options.gaps {
            Gaps::Keep => self.late[stream].delay(item, own, self.options.command_ns),
            Gaps::Drop => 0,
        };
        let command = |kind| Command { kind, span: Span::default() };
        let delay =
            (delay_ns > 0).then(|| command(CommandKind::Delay { ns: Expr::number(delay_ns) }));
        let work = command(CommandKind::Work {
            ns: Expr::number(work.end - work.start),
            label: Some(Arc::clone(name)),
            recorded: Some(number),
        });
        delay.into_iter().chain(std::iter::once(work))
    }
}

fn queue_id(stream: usize) -> QueueId {
    QueueId(u32::try_from(stream).unwrap_or(u32::MAX))
}

fn queue(stream: usize) -> QueueRef {
    QueueRef::to(queue_id(stream))
}

fn fence(stream: usize) -> FenceRef {
    FenceRef::to(FenceId(u32::try_from(stream).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::super::records::WorkId;
    use super::*;

    #[test]
    fn what_a_short_gap_cannot_give_the_next_one_gives_back() {
        let item = |ready, gap_ns| Item { work: WorkId::new(0), ready, gap_ns, unexplained: false };
        let mut late = Late::default();
        let mut delay = |ready, gap_ns| late.delay(&item(ready, gap_ns), 2_000, 500);
        assert_eq!(delay(Ready::Previous, 1_000), 0, "1 us late");
        assert_eq!(
            delay(Ready::Previous, 5_000),
            1_500,
            "of 5 us: 1 late, 2 by itself, 0.5 for the delay"
        );
        assert_eq!(delay(Ready::Previous, 2_300), 0, "0.3 us early: too little for a delay");
        assert_eq!(delay(Ready::Previous, 2_300), 100);
        assert_eq!(delay(Ready::Previous, 0), 0);
        assert_eq!(delay(Ready::Launch, 2_600), 100, "a launch begins anew");
        let mut ideal = Late::default();
        assert_eq!(ideal.delay(&item(Ready::Previous, 7), 0, 0), 7);
        assert_eq!(ideal.delay(&item(Ready::Previous, 0), 0, 0), 0);
    }
}
