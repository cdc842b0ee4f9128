//! Host calls in order → what each does to its stream, and what each piece of GPU work was waiting for.
//!
//! This room owns the order of a recording. The host calls are walked once, in the order of their starts; every
//! wait in the result points backwards in that order, so a replay can never wait in a circle. The order that
//! matters: entries (`Entry`) for calls → work without a launch is put where its stream's order has it → gaps. A
//! gap is the distance from the last recorded reason to the start; what is longer than a device's turn-around is
//! not explained by the trace. `correlate` is read, `build` takes the result.

use std::collections::{BTreeMap, HashMap};

use super::ImportOptions;
use super::correlate::{HostCall, Joined, Role, Work};
use super::records::CallId;
use crate::model::Ready;

/// A piece of work in its place.
#[derive(Debug, Clone, Copy)]
pub struct Item {
    /// Index into [`Joined::work`].
    pub work: usize,
    pub ready: Ready,
    /// From the last reason to the start.
    pub gap_ns: u64,
    pub unexplained: bool,
}

impl Item {
    fn new(work: usize) -> Self {
        Self { work, ready: Ready::Unknown, gap_ns: 0, unexplained: false }
    }
}

/// What an entry does.
#[derive(Debug, Clone)]
pub enum Action {
    /// Submits work to a stream.
    Launch { items: Vec<Item>, blocks: bool },
    /// Records an event on a stream.
    Record,
    /// Makes a stream wait for an entry of another.
    StreamWait { on: usize },
    /// Makes the host wait for entries; in the recording they were done at `done`.
    HostWait { on: Vec<usize>, done: u64 },
}

/// One step of a host thread. Times in nanoseconds since the start of the recording.
#[derive(Debug, Clone)]
pub struct Entry {
    pub thread: usize,
    /// The stream that it feeds; `None` for a host wait.
    pub stream: Option<usize>,
    /// When the call began.
    pub start: u64,
    /// When the call handed its work over, as late as the recording allows.
    pub submit: u64,
    pub end: u64,
    pub action: Action,
    /// Whether something waits for it.
    pub awaited: bool,
}

/// A recording in order.
#[derive(Debug)]
pub struct Timeline {
    pub joined: Joined,
    pub entries: Vec<Entry>,
    /// Work at the beginning of a stream whose launches are not in the trace.
    pub heads: BTreeMap<usize, Vec<Item>>,
}

/// Puts a joined trace in order.
pub fn arrange(mut joined: Joined, options: &ImportOptions) -> Timeline {
    let calls = std::mem::take(&mut joined.calls);
    let mut walk = Walk {
        joined: &joined,
        options,
        entries: Vec::with_capacity(calls.len()),
        newest: vec![None; joined.streams.len()],
        records: HashMap::new(),
    };
    for call in &calls {
        walk.call(call);
    }
    let entries = walk.entries;
    let mut timeline = Timeline { joined, entries, heads: BTreeMap::new() };
    timeline.place_unlaunched();
    timeline.leave_room_for_calls(options.call_ns);
    timeline.explain(options);
    timeline
}

/// The walk over the calls.
struct Walk<'a> {
    joined: &'a Joined,
    options: &'a ImportOptions,
    entries: Vec<Entry>,
    /// The newest entry of each stream.
    newest: Vec<Option<usize>>,
    /// Entries of event records by their call.
    records: HashMap<CallId, usize>,
}

impl Walk<'_> {
    fn call(&mut self, call: &HostCall) {
        match &call.role {
            Role::Launch { work, blocks } => self.launch(call, work, *blocks),
            Role::Record { stream, record } => {
                let entry = self.push(call, Some(*stream), call.start, Action::Record);
                self.records.insert(*record, entry);
            }
            Role::StreamWait { stream, record } => {
                let Some(on) = self.records.get(record).copied() else { return };
                self.push(call, Some(*stream), call.start, Action::StreamWait { on });
                self.entries[on].awaited = true;
            }
            Role::EventSync { record } => {
                let on = self.records.get(record).copied().into_iter().collect();
                self.host_wait(call, on);
            }
            Role::StreamSync { stream } => {
                let on = self.newest[*stream].into_iter().collect();
                self.host_wait(call, on);
            }
            Role::DeviceSync { device } => {
                let streams = self.joined.streams.iter().zip(&self.newest);
                let on =
                    streams.filter(|(s, _)| s.device == *device).filter_map(|(_, newest)| *newest).collect();
                self.host_wait(call, on);
            }
        }
    }

    fn push(&mut self, call: &HostCall, stream: Option<usize>, submit: u64, action: Action) -> usize {
        let number = self.entries.len();
        self.entries.push(Entry {
            thread: call.thread,
            stream,
            start: call.start.min(submit),
            submit,
            end: call.end.max(submit),
            action,
            awaited: false,
        });
        if let Some(stream) = stream {
            self.newest[stream] = Some(number);
        }
        number
    }

    /// One entry per stream: a graph may have several.
    fn launch(&mut self, call: &HostCall, work: &[usize], blocks: bool) {
        let mut streams: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for index in work {
            streams.entry(self.joined.work[*index].stream).or_default().push(*index);
        }
        for (stream, work) in streams {
            let first = work.iter().map(|w| self.joined.work[*w].start).min().unwrap_or(call.start);
            // Somewhere inside the call, and before the work began: no later can be, and nothing says earlier.
            let submit = first.saturating_sub(self.options.launch_ns).clamp(call.start, call.end);
            let items = work.into_iter().map(Item::new).collect();
            let entry = self.push(call, Some(stream), submit, Action::Launch { items, blocks });
            self.entries[entry].awaited |= blocks;
        }
    }

    fn host_wait(&mut self, call: &HostCall, on: Vec<usize>) {
        for entry in &on {
            self.entries[*entry].awaited = true;
        }
        if !on.is_empty() {
            self.push(call, None, call.start, Action::HostWait { on, done: 0 });
        }
    }
}

impl Timeline {
    /// Puts each piece of work without a launch behind the work that ran before it on its stream.
    fn place_unlaunched(&mut self) {
        let Self { joined, entries, heads } = self;
        let mut launches: Vec<Vec<(u64, usize)>> = vec![Vec::new(); joined.streams.len()];
        for (number, entry) in entries.iter().enumerate() {
            if let (Some(stream), Action::Launch { items, .. }) = (entry.stream, &entry.action) {
                let last = items.iter().map(|item| joined.work[item.work].start).max().unwrap_or(0);
                launches[stream].push((last, number));
            }
        }
        for list in &mut launches {
            list.sort_unstable();
        }
        for (index, work) in joined.work.iter().enumerate().filter(|(_, work)| !work.launched) {
            let list = &launches[work.stream];
            let before = list.partition_point(|(start, _)| *start <= work.start);
            let place = before.checked_sub(1).map(|k| list[k].1);
            match place.map(|entry| &mut entries[entry].action) {
                Some(Action::Launch { items, .. }) => items.push(Item::new(index)),
                _ => heads.entry(work.stream).or_default().push(Item::new(index)),
            }
        }
    }

    /// Lets submissions begin so early that they are back when the recorded call was; never before that call began.
    fn leave_room_for_calls(&mut self, call_ns: u64) {
        for entry in &mut self.entries {
            if let Action::Launch { .. } = entry.action {
                // A submission that something waits for is followed by a signal.
                let calls = 1 + u64::from(entry.awaited);
                let latest = entry.end.saturating_sub(call_ns.saturating_mul(calls)).max(entry.start);
                entry.submit = entry.submit.min(latest);
            }
        }
    }

    /// Finds for every piece of work what it waited for last, and for every host wait when it was met.
    fn explain(&mut self, options: &ImportOptions) {
        let mut tails = vec![Tail::default(); self.joined.streams.len()];
        let mut report = std::mem::take(&mut self.joined.report);
        let work = &self.joined.work;
        let (mut launches, mut turnarounds, mut wakes) = (Vec::new(), Vec::new(), Vec::new());
        let mut explained = |item: &mut Item, tail: &mut Tail, submit: Option<u64>| {
            tail.explain(item, &work[item.work], submit, options);
            report.overlaps_on_a_stream += u64::from(tail.overlapped);
            report.gaps += u64::from(item.unexplained);
            *if item.unexplained { &mut report.gaps_ns } else { &mut report.turnaround_ns } += item.gap_ns;
            match item.ready {
                _ if item.unexplained => {}
                Ready::Launch => launches.push(item.gap_ns),
                Ready::Previous | Ready::Dependency => turnarounds.push(item.gap_ns),
                Ready::Unknown => {}
            }
        };
        for (stream, items) in &mut self.heads {
            for item in items {
                explained(item, &mut tails[*stream], None);
            }
        }
        // When each entry's stream had done everything up to it.
        let mut done = vec![0u64; self.entries.len()];
        for number in 0..self.entries.len() {
            let entry = &mut self.entries[number];
            let submit = entry.submit;
            match &mut entry.action {
                Action::Launch { items, .. } => {
                    let tail = &mut tails[entry.stream.unwrap_or(0)];
                    for item in items {
                        let launched = work[item.work].launched;
                        explained(item, tail, launched.then_some(submit));
                    }
                }
                Action::StreamWait { on } => {
                    let tail = &mut tails[entry.stream.unwrap_or(0)];
                    tail.dependency = tail.dependency.max(done[*on]);
                }
                Action::HostWait { on, done: met } => {
                    *met = on.iter().map(|entry| done[*entry]).max().unwrap_or(0);
                    if *met > submit {
                        wakes.push(entry.end.saturating_sub(*met));
                    }
                }
                Action::Record => {}
            }
            if let Some(stream) = self.entries[number].stream {
                done[number] = tails[stream].reached();
            }
        }
        report.median_launch_ns = median(launches);
        report.median_turnaround_ns = median(turnarounds);
        report.median_wake_ns = median(wakes);
        self.joined.report = report.with_gaps(options.gaps);
    }

    /// When the last work ends.
    pub fn makespan_ns(&self) -> u64 {
        self.joined.work.iter().map(|work| work.end).max().unwrap_or(0)
    }
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// How far a stream has come while the recording is walked.
#[derive(Debug, Clone, Default)]
struct Tail {
    /// When its last work ended; `None` before the first.
    end: Option<u64>,
    /// When the newest wait in front of its next work was met; 0 for none.
    dependency: u64,
    overlapped: bool,
}

impl Tail {
    fn reached(&self) -> u64 {
        self.end.unwrap_or(0).max(self.dependency)
    }

    fn explain(&mut self, item: &mut Item, work: &Work, submit: Option<u64>, options: &ImportOptions) {
        let mut latest = (0, Ready::Unknown);
        // Of reasons at the same time the later in this list counts: it is the more direct one.
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
        self.overlapped = self.end.is_some_and(|end| work.start < end);
        self.end = Some(self.end.unwrap_or(0).max(work.end));
        self.dependency = 0;
    }
}
