//! Collects one run of HIP processes and joins event records, waits and streams.
//!
//! Invariant: a stream is identified by its number and its device. Where no numbers are recorded, a
//! hardware queue takes its place. The stream behind a pointer is that of the work which a call on
//! this pointer launched. Entry points: [`Run::process`], [`Run::kernel`], [`Run::copy`],
//! [`Run::fill`], [`Run::call`], [`Run::finish`].

use std::collections::HashMap;

use crate::recording::{
    Awaited, Call, CallId, CallRecord, CallRef, EventKey, EventRecord, Launcher, ProcessId,
    Recording, Remark, Source, StreamId, StreamKey, SyncKind, SyncRecord, WorkKind, WorkRecord,
    call,
};

/// Where work ran.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The GPU's number.
    pub device: i64,
    /// The HIP stream's number, where it is recorded.
    pub stream: Option<i64>,
    /// The hardware queue's number, where it is recorded.
    pub queue: Option<i64>,
}

/// Interval and correlation of a record. Times in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    pub start: Option<i64>,
    pub end: Option<i64>,
    pub correlation: Option<i64>,
}

impl Span {
    fn interval(self) -> Option<(i64, i64)> {
        let (start, end) = (self.start?, self.end?);
        // A call or dispatch that never completed has 0 for its end.
        (end >= start).then_some((start, end))
    }
}

/// The direction of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    HostToHost,
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
    Unknown,
}

impl Direction {
    /// Reads `MEMORY_COPY_HOST_TO_DEVICE` and the like.
    pub fn of(name: &str) -> Self {
        let name = name.strip_prefix("MEMORY_COPY_").unwrap_or(name);
        match name {
            "HOST_TO_HOST" => Self::HostToHost,
            "HOST_TO_DEVICE" => Self::HostToDevice,
            "DEVICE_TO_HOST" => Self::DeviceToHost,
            "DEVICE_TO_DEVICE" => Self::DeviceToDevice,
            _ => Self::Unknown,
        }
    }

    /// The GPU of a copy, from its source and destination.
    pub fn device(self, source: i64, destination: i64) -> i64 {
        if self == Self::DeviceToHost { source } else { destination }
    }

    fn name(self) -> &'static str {
        match self {
            Self::HostToHost => "Memcpy HtoH",
            Self::HostToDevice => "Memcpy HtoD",
            Self::DeviceToHost => "Memcpy DtoH",
            Self::DeviceToDevice => "Memcpy DtoD",
            Self::Unknown => "Memcpy",
        }
    }
}

/// The arguments of a call that concern order: pointers as numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Args {
    pub event: Option<u64>,
    pub stream: Option<u64>,
}

impl Args {
    /// Reads one argument.
    pub fn take(&mut self, name: &str, value: &str) {
        match name {
            "event" => self.event = pointer(value),
            "stream" | "hStream" => self.stream = pointer(value),
            _ => {}
        }
    }
}

/// A pointer as it is printed.
fn pointer(text: &str) -> Option<u64> {
    let text = text.trim().trim_matches('"');
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if matches!(text, "nullptr" | "(nil)" | "NULL" | "null") => Some(0),
        None => text.parse().ok(),
    }
}

/// A HIP call that orders streams.
struct Ordering {
    call: CallId,
    process: ProcessId,
    stream: Option<i64>,
    args: Args,
}

/// A run that is being read.
pub struct Run {
    recording: Recording,
    process: ProcessId,
    ordering: Vec<Ordering>,
    /// Calls with a stream pointer, by correlation: what they launch shows the stream behind the
    /// pointer.
    pointers: HashMap<(ProcessId, i64), u64>,
    unusable: u64,
    copies_without_stream: u64,
}

impl Run {
    pub fn new(source: Source) -> Self {
        let mut recording = Recording::of(source);
        let process = recording.process(0);
        Self {
            recording,
            process,
            ordering: Vec::new(),
            pointers: HashMap::new(),
            unusable: 0,
            copies_without_stream: 0,
        }
    }

    /// Sets the process of the next records.
    pub fn process(&mut self, number: i64) {
        self.process = self.recording.process(number);
    }

    pub fn kernel(&mut self, name: &str, place: Place, span: Span) {
        self.work(WorkKind::Kernel, name, None, place, span);
    }

    pub fn copy(&mut self, direction: Direction, place: Place, span: Span) {
        self.work(WorkKind::Copy, direction.name(), Some(direction), place, span);
    }

    pub fn fill(&mut self, name: &str, place: Place, span: Span) {
        self.work(WorkKind::Fill, name, None, place, span);
    }

    fn work(
        &mut self,
        kind: WorkKind,
        name: &str,
        copy: Option<Direction>,
        place: Place,
        span: Span,
    ) {
        self.recording.events += 1;
        let Some((start, end)) = span.interval() else {
            self.unusable += 1;
            return;
        };
        let stream = match (place.stream, place.queue) {
            (Some(stream), _) => self.stream(place.device, stream, None),
            (None, Some(queue)) => self.stream(place.device, queue, Some(format!("queue {queue}"))),
            (None, None) => {
                self.copies_without_stream += u64::from(copy.is_some());
                // Streams and queues have no negative numbers.
                let number = copy.map_or(-1, |direction| -2 - direction as i64);
                self.stream(place.device, number, Some(format!("{name} of gpu {}", place.device)))
            }
        };
        let name = self.recording.name(name);
        let launcher = span.correlation.map_or(Launcher::Unknown, Launcher::Correlation);
        self.recording.work(WorkRecord { kind, name, stream, start, end, launcher });
    }

    /// The stream of a device; a new one gets `name`.
    fn stream(&mut self, device: i64, stream: i64, name: Option<String>) -> StreamId {
        let key = StreamKey { process: self.process, context: device, stream };
        let known = self.recording.streams.len();
        let id = self.recording.stream(key, device);
        if id.index() == known {
            self.recording.streams[known].name = name;
        }
        id
    }

    /// Adds a HIP call. `stream` is the number of its stream, if the call records one.
    pub fn call(&mut self, name: &str, thread: i64, span: Span, stream: Option<i64>, args: Args) {
        self.recording.events += 1;
        let Some((start, end)) = span.interval() else {
            self.unusable += 1;
            return;
        };
        let (process, correlation) = (self.process, span.correlation);
        let track = self.recording.track(process, thread);
        let meaning = call(name);
        let call =
            self.recording.call(CallRecord { call: meaning, track, start, end, correlation });
        if let (Some(correlation), Some(pointer)) = (correlation, args.stream) {
            self.pointers.insert((process, correlation), pointer);
        }
        if sync_kind(meaning).is_some() || meaning == Call::EventRecord {
            self.ordering.push(Ordering { call, process, stream, args });
        }
    }

    /// Adds a remark of a reader.
    pub fn remark(&mut self, remark: Remark) {
        self.recording.remarks.push(remark);
    }

    /// Joins the collected records.
    pub fn finish(mut self) -> Recording {
        let behind = self.streams_behind_pointers();
        let ordering = std::mem::take(&mut self.ordering);
        let needs_arguments =
            |o: &&Ordering| self.recording.calls[o.call.index()].call != Call::DeviceSynchronize;
        let mut open = ordering.iter().filter(needs_arguments).peekable();
        if open.peek().is_some() && open.all(|o| o.args == Args::default() && o.stream.is_none()) {
            self.recording.remarks.push(Remark::NoArguments);
        }
        for ordering in ordering {
            self.order(&ordering, &behind);
        }
        let Self { mut recording, unusable, copies_without_stream, .. } = self;
        recording.remark(unusable, |rows| Remark::Unusable { rows });
        recording.remark(copies_without_stream, |copies| Remark::CopiesWithoutStream { copies });
        if recording.calls.is_empty() && !recording.work.is_empty() {
            recording.remarks.push(Remark::NoHostCalls);
        }
        recording
    }

    fn streams_behind_pointers(&self) -> HashMap<(ProcessId, u64), StreamId> {
        let mut behind = HashMap::new();
        for work in &self.recording.work {
            let process = self.recording.process_of_work(work);
            if let Launcher::Correlation(id) = work.launcher
                && let Some(pointer) = self.pointers.get(&(process, id))
            {
                behind.insert((process, *pointer), work.stream);
            }
        }
        behind
    }

    fn order(&mut self, ordering: &Ordering, behind: &HashMap<(ProcessId, u64), StreamId>) {
        let Ordering { call, process, stream, args } = *ordering;
        let meaning = self.recording.calls[call.index()].call;
        let by_pointer = args.stream.and_then(|pointer| behind.get(&(process, pointer))).copied();
        let stream = by_pointer.or_else(|| self.numbered(process, stream?));
        let event = args.event.map(|event| {
            self.recording.event(EventKey { process, context: 0, event: event as i64 })
        });
        let call = CallRef::Call(call);
        if meaning == Call::EventRecord {
            if let (Some(event), Some(stream)) = (event, stream) {
                self.recording.record_event(EventRecord { call, event, sequence: None, stream });
            }
            return;
        }
        let Some(kind) = sync_kind(meaning) else { return };
        let awaited = event.map(|event| Awaited::Event(event, None));
        self.recording.sync(SyncRecord {
            call,
            kind,
            device: None,
            stream,
            awaited,
            awaited_stream: None,
        });
    }

    /// The stream of a process with a number, if exactly one device has it.
    fn numbered(&self, process: ProcessId, number: i64) -> Option<StreamId> {
        let of = |facts: &crate::recording::StreamFacts| {
            (facts.key.process, facts.key.stream) == (process, number)
        };
        let mut found = self.recording.streams.iter().enumerate().filter(|(_, facts)| of(facts));
        let first = found.next()?.0;
        found.next().is_none().then(|| StreamId::new(first))
    }
}

/// The kind of synchronisation of a call.
fn sync_kind(call: Call) -> Option<SyncKind> {
    match call {
        Call::StreamWaitEvent => Some(SyncKind::StreamWaitEvent),
        Call::EventSynchronize => Some(SyncKind::Event),
        Call::StreamSynchronize => Some(SyncKind::Stream),
        Call::DeviceSynchronize => Some(SyncKind::Context),
        Call::EventRecord
        | Call::Query
        | Call::GraphLaunch
        | Call::BlockingCopy
        | Call::Free
        | Call::Present
        | Call::Other => None,
    }
}
