//! Orders host calls, and determines the last reason for the start of each piece of GPU work.
//!
//! Purpose: entries in the order of the host calls, and for each piece of work the gap from the
//! last recorded reason (launch, end of the work before it, a wait) to its start. A gap longer than
//! a device's turn-around is unexplained. Invariants: a wait refers to an earlier entry, or to work
//! that the recording shows to have ended before its waiter began, so a replay cannot wait in a
//! circle. Work without a launch follows the work before it on its stream, or precedes all calls.
//! Entry point: [`arrange`].

use std::collections::{BTreeMap, HashMap, VecDeque};

use smallvec::SmallVec;

use super::correlate::{HostCall, Joined, Moment, Role, Work};
use super::records::{CallId, WorkId};
use super::{Gaps, ImportOptions};
use crate::model::Ready;

/// A piece of work of a submission.
#[derive(Debug, Clone, Copy)]
pub struct Item {
    /// Time from the last reason to the start.
    pub gap_ns: u64,
    /// Index into [`Joined::work`].
    pub work: WorkId,
    pub ready: Ready,
    pub unexplained: bool,
}

/// The work of a submission: mostly one piece, which takes no memory of its own.
pub type Items = SmallVec<[Item; 1]>;

impl Item {
    fn new(work: WorkId) -> Self {
        Self { work, ready: Ready::Unknown, gap_ns: 0, unexplained: false }
    }
}

/// Kinds of entries.
#[derive(Debug, Clone)]
pub enum Action {
    /// Submits work to a stream.
    Launch { items: Items, blocks: bool },
    /// Records an event on a stream.
    Record,
    /// Makes a stream wait for an entry of another.
    StreamWait { on: usize },
    /// Makes the host wait for entries, which were complete at `done` in the recording.
    HostWait { on: Vec<usize>, done: u64 },
    /// The host waits for something that is not recorded, until the call returns.
    Blocked,
    /// Presents on the display. `waits`: in the recording the call waited for the display.
    Present { interval: u32, waits: bool },
}

/// One step of a host thread. Times in nanoseconds since the start of the recording.
#[derive(Debug, Clone)]
pub struct Entry {
    pub thread: u32,
    /// The stream that it feeds; `None` for a host wait.
    stream: Option<u32>,
    /// When the call began.
    pub start: u64,
    /// When the call handed its work over, as late as the recording allows.
    pub submit: u64,
    pub end: u64,
    pub action: Action,
    /// Whether another entry waits for it.
    pub awaited: bool,
}

impl Entry {
    /// The stream that it feeds; `None` for a host wait.
    pub fn stream(&self) -> Option<usize> {
        self.stream.map(|stream| stream as usize)
    }
}

/// An ordered recording.
#[derive(Debug)]
pub struct Timeline {
    pub joined: Joined,
    pub entries: Vec<Entry>,
}

/// The host calls with all work, whatever the options.
pub struct Placed {
    calls: Vec<HostCall>,
    /// Work whose launch precedes the recording.
    heads: Vec<WorkId>,
}

/// Takes the calls out of a joined trace, and gives work without a launch a place in them.
pub fn place(joined: &mut Joined) -> Placed {
    let mut calls = std::mem::take(&mut joined.calls);
    let heads = place_unlaunched(joined, &mut calls);
    Placed { calls, heads }
}

/// Orders a joined trace whose calls are `placed`.
pub fn arrange(mut joined: Joined, placed: &Placed, options: &ImportOptions) -> Timeline {
    let Placed { calls, heads } = placed;
    let mut walk = Walk {
        joined: &joined,
        options,
        entries: Vec::with_capacity(calls.len()),
        newest: vec![None; joined.streams.len()],
        records: HashMap::new(),
        placed: match calls.iter().any(|call| matches!(call.role, Role::WorkSync { .. })) {
            false if joined.dependencies.is_empty() => Vec::new(),
            _ => vec![None; joined.work.len()],
        },
        ordered_after: HashMap::new(),
        forward: HashMap::new(),
        dependencies: (0, 0),
    };
    walk.heads(heads, calls);
    for call in calls {
        walk.call(call);
    }
    let (entries, (kept, lost)) = (walk.entries, walk.dependencies);
    (joined.report.dependencies, joined.report.dependencies_unpaired) = (kept, lost);
    let mut timeline = Timeline { joined, entries };
    timeline.leave_room_for_calls(options.call_ns);
    timeline.explain(options);
    timeline
}

/// Appends each piece of work without a launch to the call that launched the work before it on its
/// stream. Returns what precedes the first launch of its stream, in the order of the starts.
fn place_unlaunched(joined: &Joined, calls: &mut [HostCall]) -> Vec<WorkId> {
    if joined.work.iter().all(|work| work.launched) {
        return Vec::new();
    }
    // For each stream the last start of each launch.
    let mut launches: Vec<Vec<(u64, usize)>> = vec![Vec::new(); joined.streams.len()];
    for (number, call) in calls.iter().enumerate() {
        let Role::Launch { work, .. } = &call.role else { continue };
        let mut last: BTreeMap<usize, u64> = BTreeMap::new();
        for work in work.iter().map(|work| joined.work(*work)) {
            let start = last.entry(work.stream()).or_default();
            *start = work.start.max(*start);
        }
        last.into_iter().for_each(|(stream, start)| launches[stream].push((start, number)));
    }
    launches.iter_mut().for_each(|list| list.sort_unstable());
    let mut heads = Vec::new();
    for (index, work) in joined.work.iter().enumerate().filter(|(_, work)| !work.launched) {
        let index = WorkId::new(index);
        let list = &launches[work.stream()];
        let before = list.partition_point(|(start, _)| *start <= work.start);
        match before.checked_sub(1).map(|k| &mut calls[list[k].1].role) {
            Some(Role::Launch { work, .. }) => work.push(index),
            _ => heads.push(index),
        }
    }
    heads
}

/// State of the pass over the calls.
struct Walk<'a> {
    joined: &'a Joined,
    options: &'a ImportOptions,
    entries: Vec<Entry>,
    /// The newest entry of each stream.
    newest: Vec<Option<usize>>,
    /// Entries of event records by their call.
    records: HashMap<CallId, usize>,
    /// The entry of each piece of work so far; empty when nothing waits for single pieces.
    placed: Vec<Option<usize>>,
    /// The newest entry of the second stream that the first already waits for.
    ordered_after: HashMap<(usize, usize), usize>,
    /// Stream waits for work that is launched later, by the work.
    forward: HashMap<WorkId, Vec<usize>>,
    /// Explicit dependencies replayed, and not replayed.
    dependencies: (u64, u64),
}

impl Walk<'_> {
    fn call(&mut self, call: &HostCall) {
        match &call.role {
            Role::Launch { work, blocks } => self.submit(work, |_| call.at, *blocks),
            Role::Record { stream, record } => {
                let entry = self.push(call.at, Some(*stream), call.at.start, Action::Record);
                self.records.insert(*record, entry);
            }
            Role::StreamWait { stream, record } => {
                let Some(on) = self.records.get(record).copied() else { return };
                self.stream_wait(call.at, *stream, on);
            }
            Role::EventSync { record } => {
                let on = self.records.get(record).copied().into_iter().collect();
                self.host_wait(call.at, on);
            }
            Role::StreamSync { stream } => {
                let on = self.newest[*stream].into_iter().collect();
                self.host_wait(call.at, on);
            }
            Role::DeviceSync { device } => {
                let streams = self.joined.streams.iter().zip(&self.newest);
                let on = streams
                    .filter(|(s, _)| s.device == *device)
                    .filter_map(|(_, newest)| *newest)
                    .collect();
                self.host_wait(call.at, on);
            }
            Role::WorkSync { work } => match self.ending_with(*work) {
                Some(entry) => self.host_wait(call.at, vec![entry]),
                None => self.blocked(call.at),
            },
            Role::Blocked => self.blocked(call.at),
            Role::Present { stream, interval, waits } => {
                let action = Action::Present { interval: *interval, waits: *waits };
                self.push(call.at, Some(*stream), call.at.start, action);
            }
        }
    }

    /// The submission that ended with a piece of work.
    fn ending_with(&self, work: WorkId) -> Option<usize> {
        let entry = self.placed[work.index()]?;
        let Action::Launch { items, .. } = &self.entries[entry].action else { return None };
        items.last().is_some_and(|last| last.work == work).then_some(entry)
    }

    fn blocked(&mut self, at: Moment) {
        self.push(at, None, at.start, Action::Blocked);
    }

    fn push(&mut self, at: Moment, stream: Option<usize>, submit: u64, action: Action) -> usize {
        let number = self.entries.len();
        self.entries.push(Entry {
            thread: at.thread,
            // Streams have numbers of 32 bits.
            stream: stream.map(|stream| stream as u32),
            start: at.start.min(submit),
            submit,
            end: at.end.max(submit),
            action,
            awaited: false,
        });
        if let Some(stream) = stream {
            self.newest[stream] = Some(number);
        }
        number
    }

    /// Work whose launch precedes the recording is submitted first of all, by the thread that feeds
    /// its stream first. Streams that no recorded thread feeds get a thread of their own.
    fn heads(&mut self, heads: &[WorkId], calls: &[HostCall]) {
        let mut feeders: Vec<Option<u32>> = vec![None; self.joined.streams.len()];
        for call in calls {
            let mut feed = |stream: usize| _ = feeders[stream].get_or_insert(call.at.thread);
            match &call.role {
                Role::Launch { work, .. } => {
                    work.iter().for_each(|w| feed(self.joined.work(*w).stream()))
                }
                Role::Record { stream, .. }
                | Role::StreamWait { stream, .. }
                | Role::Present { stream, .. } => feed(*stream),
                Role::EventSync { .. }
                | Role::StreamSync { .. }
                | Role::DeviceSync { .. }
                | Role::WorkSync { .. }
                | Role::Blocked => {}
            }
        }
        let unfed = self.joined.threads.len() as u32;
        let at =
            |stream: usize| Moment { thread: feeders[stream].unwrap_or(unfed), start: 0, end: 0 };
        self.submit(heads, at, false);
    }

    /// Divides work into one submission per stream: a graph may have several. A new one begins
    /// where work in the middle waits for another stream, and where other work waits for it.
    fn submit(&mut self, work: &[WorkId], at: impl Fn(usize) -> Moment, blocks: bool) {
        let joined = self.joined;
        if let ([only], true) = (work, joined.dependencies.is_empty()) {
            let stream = joined.work(*only).stream();
            return self.segment(stream, Items::from_elem(Item::new(*only), 1), at(stream), blocks);
        }
        let mut open: BTreeMap<usize, Items> = BTreeMap::new();
        for index in work {
            let stream = joined.work(*index).stream();
            for awaited in joined.awaited_by(*index) {
                let other = joined.work(awaited).stream();
                if self.placed[awaited.index()].is_none()
                    && let Some(items) = open.remove(&other)
                {
                    self.segment(other, items, at(other), false);
                }
                let Some(on) = self.placed[awaited.index()] else {
                    if joined.work(awaited).end > joined.work(*index).start {
                        self.dependencies.1 += 1;
                        continue;
                    }
                    self.dependencies.0 += 1;
                    if let Some(items) = open.remove(&stream) {
                        self.segment(stream, items, at(stream), false);
                    }
                    // The entry to wait for is known when its work is submitted.
                    let action = Action::StreamWait { on: self.entries.len() };
                    let wait = self.push(at(stream), Some(stream), at(stream).start, action);
                    self.forward.entry(awaited).or_default().push(wait);
                    continue;
                };
                self.dependencies.0 += 1;
                let newest = self.ordered_after.get(&(stream, other)).copied();
                if newest >= Some(on) {
                    continue;
                }
                self.ordered_after.insert((stream, other), on);
                if let Some(items) = open.remove(&stream) {
                    self.segment(stream, items, at(stream), false);
                }
                self.stream_wait(at(stream), stream, on);
            }
            open.entry(stream).or_default().push(Item::new(*index));
            if self.forward.contains_key(index)
                && let Some(items) = open.remove(&stream)
            {
                self.segment(stream, items, at(stream), false);
            }
        }
        for (stream, items) in open {
            self.segment(stream, items, at(stream), blocks);
        }
    }

    /// One submission to a stream.
    fn segment(&mut self, stream: usize, items: Items, at: Moment, blocks: bool) {
        let first =
            items.iter().map(|item| self.joined.work(item.work).start).min().unwrap_or(at.start);
        // The hand-over is inside the call and before the start of the work. The latest such time
        // is taken.
        let submit = first.saturating_sub(self.options.launch_ns).clamp(at.start, at.end);
        let entry = self.entries.len();
        if !self.placed.is_empty() {
            items.iter().for_each(|item| self.placed[item.work.index()] = Some(entry));
        }
        let waits: Vec<usize> = match self.forward.is_empty() {
            true => Vec::new(),
            false => {
                items.iter().filter_map(|item| self.forward.remove(&item.work)).flatten().collect()
            }
        };
        self.push(at, Some(stream), submit, Action::Launch { items, blocks });
        self.entries[entry].awaited = blocks || !waits.is_empty();
        for wait in waits {
            self.entries[wait].action = Action::StreamWait { on: entry };
        }
    }

    fn stream_wait(&mut self, at: Moment, stream: usize, on: usize) {
        self.push(at, Some(stream), at.start, Action::StreamWait { on });
        self.entries[on].awaited = true;
    }

    fn host_wait(&mut self, at: Moment, on: Vec<usize>) {
        for entry in &on {
            self.entries[*entry].awaited = true;
        }
        if !on.is_empty() {
            self.push(at, None, at.start, Action::HostWait { on, done: 0 });
        }
    }
}

impl Timeline {
    /// Moves submissions forward so that they return with the recorded call, but not before the
    /// call began.
    fn leave_room_for_calls(&mut self, call_ns: u64) {
        for entry in &mut self.entries {
            if let Action::Launch { .. } = entry.action {
                // A signal follows a submission that another entry waits for.
                let calls = 1 + u64::from(entry.awaited);
                let latest =
                    entry.end.saturating_sub(call_ns.saturating_mul(calls)).max(entry.start);
                entry.submit = entry.submit.min(latest);
            }
        }
    }

    /// Finds the last reason of every piece of work, and the time at which every host wait was met.
    fn explain(&mut self, options: &ImportOptions) {
        let mut tails = vec![Tail::default(); self.joined.streams.len()];
        let mut report = std::mem::take(&mut self.joined.report);
        // A trace may be arranged twice.
        (report.overlaps_on_a_stream, report.overlapped_on_a_stream_ns) = (0, 0);
        (report.gaps, report.gaps_ns, report.turnaround_ns) = (0, 0, 0);
        let work = &self.joined.work;
        let (mut launches, mut turnarounds, mut wakes) = (Vec::new(), Vec::new(), Vec::new());
        let mut explained = |item: &mut Item, tail: &mut Tail, submit: Option<u64>| {
            tail.explain(item, &work[item.work.index()], submit, options);
            report.overlaps_on_a_stream += u64::from(tail.overlapped_ns > 0);
            report.overlapped_on_a_stream_ns += tail.overlapped_ns;
            report.gaps += u64::from(item.unexplained);
            *if item.unexplained { &mut report.gaps_ns } else { &mut report.turnaround_ns } +=
                item.gap_ns;
            match item.ready {
                _ if item.unexplained => {}
                Ready::Launch => launches.push(item.gap_ns),
                Ready::Previous | Ready::Dependency => turnarounds.push(item.gap_ns),
                Ready::Unknown => {}
            }
        };
        // When each entry's stream had done everything up to it.
        let mut done = vec![0u64; self.entries.len()];
        for number in 0..self.entries.len() {
            let ahead = self.work_ahead(number);
            let entry = &mut self.entries[number];
            let (submit, stream) = (entry.submit, entry.stream());
            match &mut entry.action {
                Action::Launch { items, .. } => {
                    let tail = &mut tails[stream.unwrap_or(0)];
                    for item in items {
                        let launched = work[item.work.index()].launched;
                        explained(item, tail, launched.then_some(submit));
                    }
                }
                Action::StreamWait { on } => {
                    let tail = &mut tails[stream.unwrap_or(0)];
                    tail.dependency = tail.dependency.max(ahead.unwrap_or(done[*on]));
                }
                Action::HostWait { on, done: met } => {
                    *met = on.iter().map(|entry| done[*entry]).max().unwrap_or(0);
                    if *met > submit {
                        wakes.push(entry.end.saturating_sub(*met));
                    }
                }
                Action::Record | Action::Blocked | Action::Present { .. } => {}
            }
            if let Some(stream) = stream {
                done[number] = tails[stream].reached();
            }
        }
        report.deepest_run_ahead = self.deepest_run_ahead(&done);
        report.median_launch_ns = median(launches);
        report.median_turnaround_ns = median(turnarounds);
        report.median_wake_ns = median(wakes);
        report.gaps_dropped = options.gaps == Gaps::Drop;
        self.joined.report = report;
    }

    /// The end of the work that a stream wait is for, where that is launched after the wait.
    fn work_ahead(&self, number: usize) -> Option<u64> {
        let Action::StreamWait { on } = self.entries[number].action else { return None };
        match &self.entries[on].action {
            Action::Launch { items, .. } if on > number => {
                items.iter().map(|item| self.joined.work(item.work).end).max()
            }
            _ => None,
        }
    }

    /// Most operations of a stream that were in flight at once. `done` is the completion time of
    /// each entry on its stream.
    fn deepest_run_ahead(&self, done: &[u64]) -> u64 {
        let mut queued: Vec<VecDeque<u64>> = vec![VecDeque::new(); self.joined.streams.len()];
        let mut deepest = 0;
        for (entry, done) in self.entries.iter().zip(done) {
            let Some(stream) = entry.stream() else { continue };
            let queued = &mut queued[stream];
            while queued.front().is_some_and(|done| *done <= entry.submit) {
                queued.pop_front();
            }
            // A signal follows an awaited entry. A record without one is that signal.
            let own = usize::from(!matches!(entry.action, Action::Record));
            queued.extend(std::iter::repeat_n(*done, own + usize::from(entry.awaited)));
            deepest = deepest.max(queued.len());
        }
        deepest as u64
    }

    /// End of the last work, or of the last frame on the screen.
    pub fn makespan_ns(&self) -> u64 {
        let shown = self.joined.display.map_or(0, |display| display.shown_ns);
        self.joined.work.iter().map(|work| work.end).max().unwrap_or(0).max(shown)
    }
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// Progress of a stream in the pass over the recording.
#[derive(Debug, Clone, Default)]
struct Tail {
    /// When its last work ended; `None` before the first.
    end: Option<u64>,
    /// When the newest wait in front of its next work was met; 0 for none.
    dependency: u64,
    /// How long its last work overlapped the work before it, in nanoseconds.
    overlapped_ns: u64,
}

impl Tail {
    fn reached(&self) -> u64 {
        self.end.unwrap_or(0).max(self.dependency)
    }

    fn explain(
        &mut self,
        item: &mut Item,
        work: &Work,
        submit: Option<u64>,
        options: &ImportOptions,
    ) {
        let mut latest = (0, Ready::Unknown);
        // Of reasons at the same time the later in this list counts, because it is more direct.
        let dependency = Some(self.dependency).filter(|at| *at > 0);
        for (at, ready) in
            [(self.end, Ready::Previous), (submit, Ready::Launch), (dependency, Ready::Dependency)]
        {
            if let Some(at) = at
                && (at >= latest.0 || latest.1 == Ready::Unknown)
            {
                latest = (at, ready);
            }
        }
        item.ready = latest.1;
        item.gap_ns = work.start.saturating_sub(latest.0);
        item.unexplained = item.gap_ns > options.explained_within_ns;
        self.overlapped_ns = self.end.unwrap_or(0).min(work.end).saturating_sub(work.start);
        self.end = Some(self.end.unwrap_or(0).max(work.end));
        self.dependency = 0;
    }
}
