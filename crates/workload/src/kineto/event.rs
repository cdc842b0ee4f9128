//! JSON → the events that matter.
//!
//! This room owns the shape of the file: an object with `traceEvents` or a bare array, numbers that are sometimes
//! texts, fields that come twice or not at all. Events are read one after the other and most of them (operators,
//! annotations, Python stacks) are dropped on the spot; `args` is looked into only where it can say something.
//! `mod` calls in, `correlate` takes the result.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::number::{us_to_ns, whole};
use super::repair::repair;
use crate::recording::{
    Awaited, CallId, CallRecord, CallRef, Launcher, NameId, ProcessId, Recording, StreamId, StreamKey,
    SyncKind, SyncRecord, TrackId, WorkKind, WorkRecord, call,
};

/// Process and thread of an event as written, interned.
type Track = (NameId, NameId);

/// A synchronisation record (`cuda_sync`); its device may be known only when all events are read.
struct RawSync {
    kind: SyncKind,
    device: Option<i64>,
    stream: Option<i64>,
    correlation: i64,
    wait_on_stream: Option<i64>,
    wait_on_record: Option<i64>,
}

/// One end of a flow arrow from a call to its work.
struct RawFlow {
    begins: bool,
    id: i64,
    track: Track,
    at: i64,
}

/// The file as it is read.
#[derive(Default)]
struct Trace {
    recording: Recording,
    tracks: HashMap<Track, TrackId>,
    thread_names: HashMap<Track, String>,
    syncs: Vec<RawSync>,
    flows: Vec<RawFlow>,
    /// Work without a correlation, which flow arrows may join: its place and its index.
    unjoined: Vec<(Track, i64, usize)>,
    has_events_field: bool,
}

impl Trace {
    /// The process of everything: a file has one, or several whose host calls are told apart by time.
    fn process(&mut self) -> ProcessId {
        self.recording.process(0)
    }

    /// A stream of a device. The format says no contexts, so its device stands for its context.
    fn stream(&mut self, device: i64, stream: i64) -> StreamId {
        let process = self.process();
        self.recording.stream(StreamKey { process, context: device, stream }, device)
    }

    fn track(&mut self, track: Track) -> TrackId {
        let process = self.process();
        let next = self.tracks.len() as i64;
        *self.tracks.entry(track).or_insert_with(|| self.recording.track(process, next))
    }

    /// What can be resolved only when all events are read.
    fn finish(mut self) -> Recording {
        self.name_tracks();
        self.join_flows();
        let mut devices = self.recording.work.iter().map(|work| self.recording.device(work.stream));
        let first = devices.next();
        let only = first.filter(|first| devices.all(|device| device == *first));
        for sync in std::mem::take(&mut self.syncs) {
            let device = sync.device.or(only);
            let mut stream = |id: Option<i64>| Some(self.stream(device.unwrap_or(0), id?));
            let (waiter, awaited_stream) = (stream(sync.stream), stream(sync.wait_on_stream));
            let call = CallRef::Correlation(self.process(), sync.correlation);
            self.recording.sync(SyncRecord {
                call,
                kind: sync.kind,
                device: sync.device,
                stream: waiter,
                awaited: sync.wait_on_record.map(Awaited::Correlation),
                awaited_stream,
            });
        }
        self.recording
    }

    fn name_tracks(&mut self) {
        for (track, id) in &self.tracks {
            let name = match self.thread_names.get(track) {
                Some(name) if !name.is_empty() => name.clone(),
                _ => format!("thread {}", self.recording.text(track.1).trim_matches('"')),
            };
            self.recording.tracks[id.index()].name = name;
        }
    }

    /// Flow arrows: from the place of the work's end of an arrow to the call at its other end.
    fn join_flows(&mut self) {
        if self.unjoined.is_empty() {
            return;
        }
        let calls: HashMap<(TrackId, i64), CallId> = (self.recording.calls.iter().enumerate())
            .map(|(k, call)| ((call.track, call.start), CallId::new(k)))
            .collect();
        let begins: HashMap<i64, CallId> = (self.flows.iter())
            .filter(|flow| flow.begins)
            .filter_map(|flow| Some((flow.id, *calls.get(&(*self.tracks.get(&flow.track)?, flow.at))?)))
            .collect();
        let ends: HashMap<(Track, i64), CallId> = (self.flows.iter())
            .filter(|flow| !flow.begins)
            .filter_map(|flow| Some(((flow.track, flow.at), *begins.get(&flow.id)?)))
            .collect();
        for (track, at, work) in &self.unjoined {
            if let Some(call) = ends.get(&(*track, *at)) {
                self.recording.work[*work].launcher = Launcher::Call(*call);
            }
        }
    }
}

/// What some exports put in front of their text.
pub const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// Reads the events. `text` may be repaired in place.
///
/// # Errors
/// A sentence with the place: JSON that ends too early or is none, and JSON that is no trace.
pub fn read(text: &mut [u8]) -> Result<Recording, String> {
    // A byte-order mark is no JSON, and some exports begin with one.
    if text.starts_with(BYTE_ORDER_MARK) {
        text[..BYTE_ORDER_MARK.len()].fill(b' ');
    }
    let first = match attempt(text) {
        Ok(trace) => return Ok(trace.finish()),
        Err(error) => error,
    };
    if repair(text)
        && let Ok(trace) = attempt(text)
    {
        return Ok(trace.finish());
    }
    Err(first)
}

fn attempt(text: &[u8]) -> Result<Trace, String> {
    let json = std::str::from_utf8(text).map_err(|error| {
        format!("byte {} is no text; this is no JSON trace: export it again", error.valid_up_to())
    })?;
    let mut trace = Trace::default();
    let mut reader = serde_json::Deserializer::from_str(json);
    (&mut reader)
        .deserialize_any(File(&mut trace))
        .and_then(|()| reader.end())
        .map_err(|error| describe(&error, json, &trace))?;
    if !trace.has_events_field {
        return Err("the JSON has no \"traceEvents\"; give a trace exported by the PyTorch profiler \
                    (export_chrome_trace)"
            .into());
    }
    Ok(trace)
}

fn describe(error: &serde_json::Error, json: &str, trace: &Trace) -> String {
    let (line, column) = (error.line(), error.column());
    let before: usize = json.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let byte = before + column.saturating_sub(1);
    let seen = trace.recording.events;
    if error.is_eof() {
        return format!(
            "the trace ends in the middle, at line {line} (byte {byte} of {}), after {seen} events; \
             it was cut short: copy or export it again",
            json.len()
        );
    }
    let what = error.to_string();
    let what = what.split(" at line ").next().unwrap_or("not JSON");
    format!(
        "line {line}, column {column} (byte {byte}): {what}, after {seen} events; \
         give a JSON trace exported by the PyTorch profiler"
    )
}

/// The top level.
struct File<'t>(&'t mut Trace);

impl<'de> Visitor<'de> for File<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a trace: an object with \"traceEvents\", or an array of events")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(Text)? {
            if key == "traceEvents" {
                map.next_value_seed(Events(&mut *self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        Events(self.0).visit_seq(seq)
    }
}

/// The array of events.
struct Events<'t>(&'t mut Trace);

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of events in \"traceEvents\"")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.0.has_events_field = true;
        while seq.next_element_seed(Event(&mut *self.0))?.is_some() {
            self.0.recording.events += 1;
        }
        Ok(())
    }
}

/// A text, borrowed where possible.
struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Cow<'de, str>;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Cow<'de, str>, D::Error> {
        reader.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// One event.
struct Event<'t>(&'t mut Trace);

impl<'de> DeserializeSeed<'de> for Event<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Event<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event { … }")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut fields = Fields::default();
        while let Some(key) = map.next_key_seed(Text)? {
            // A field that comes twice keeps its last value, as in every browser.
            match key.as_ref() {
                "ph" => fields.ph = raw(&mut map)?,
                "cat" => fields.cat = raw(&mut map)?,
                "name" => fields.name = raw(&mut map)?,
                "pid" => fields.pid = raw(&mut map)?,
                "tid" => fields.tid = raw(&mut map)?,
                "ts" => fields.ts = raw(&mut map)?,
                "dur" => fields.dur = raw(&mut map)?,
                "id" => fields.id = raw(&mut map)?,
                "args" => fields.args = raw(&mut map)?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        take(self.0, &fields);
        Ok(())
    }
}

fn raw<'de, A: MapAccess<'de>>(map: &mut A) -> Result<&'de str, A::Error> {
    map.next_value::<&'de RawValue>().map(RawValue::get)
}

/// The fields of an event as they are written; empty when absent.
#[derive(Default)]
struct Fields<'a> {
    ph: &'a str,
    cat: &'a str,
    name: &'a str,
    pid: &'a str,
    tid: &'a str,
    ts: &'a str,
    dur: &'a str,
    id: &'a str,
    args: &'a str,
}

/// A JSON text without its quotes; escapes are undone only when there are any.
fn unquoted(raw: &str) -> Cow<'_, str> {
    match raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) if !inner.contains('\\') => Cow::Borrowed(inner),
        Some(_) => serde_json::from_str::<String>(raw).map_or(Cow::Borrowed(raw), Cow::Owned),
        None => Cow::Borrowed(raw),
    }
}

/// What a category means.
enum Category {
    Work(WorkKind),
    Call,
    Sync,
    Flow,
    Nothing,
}

/// Old and new names of the categories.
fn category(cat: &str) -> Category {
    match cat {
        "kernel" | "Kernel" => Category::Work(WorkKind::Kernel),
        "gpu_memcpy" | "Memcpy" => Category::Work(WorkKind::Copy),
        "gpu_memset" | "Memset" => Category::Work(WorkKind::Fill),
        "Runtime" | "runtime" => Category::Call,
        // Every vendor has a pair of these: cuda_runtime, hip_runtime, xpu_driver, …
        _ if cat.ends_with("_runtime") || cat.ends_with("_driver") => Category::Call,
        "cuda_sync" | "hip_sync" | "synchronization" => Category::Sync,
        "ac2g" | "async_gpu" | "async_cpu_to_gpu" | "async" => Category::Flow,
        _ => Category::Nothing,
    }
}

fn take(trace: &mut Trace, fields: &Fields<'_>) {
    let ph = unquoted(fields.ph);
    let name = |trace: &mut Trace, raw| trace.recording.name(&unquoted(raw));
    let track = |trace: &mut Trace| (name(trace, fields.pid), name(trace, fields.tid));
    match (ph.as_ref(), category(&unquoted(fields.cat))) {
        ("M", _) if fields.name == "\"thread_name\"" => {
            let track = track(trace);
            if let Some(name) = thread_name(fields.args) {
                trace.thread_names.insert(track, name);
            }
        }
        ("s" | "t" | "f", Category::Flow) => {
            let (Some(id), Some(at)) = (whole(fields.id), time(fields.ts)) else { return };
            let track = track(trace);
            trace.flows.push(RawFlow { begins: ph == "s", id, track, at });
        }
        ("X", Category::Work(kind)) => {
            let Some((start, end)) = interval(fields) else { return };
            let args = args(fields.args);
            let device = args.device.or_else(|| whole(fields.pid)).unwrap_or(0);
            let stream = args.stream.or_else(|| whole(fields.tid)).unwrap_or(0);
            let (name, stream) = (name(trace, fields.name), trace.stream(device, stream));
            if args.correlation.is_none() {
                let track = track(trace);
                trace.unjoined.push((track, start, trace.recording.work.len()));
            }
            let launcher = args.correlation.map_or(Launcher::Unknown, Launcher::Correlation);
            trace.recording.work(WorkRecord { kind, name, stream, start, end, launcher });
        }
        ("X", Category::Call) => {
            let Some((start, end)) = interval(fields) else { return };
            let track = track(trace);
            let track = trace.track(track);
            trace.recording.call(CallRecord {
                call: call(&unquoted(fields.name)),
                track,
                start,
                end,
                correlation: args(fields.args).correlation,
            });
        }
        ("X", Category::Sync) => take_sync(trace, fields),
        _ => {}
    }
}

fn take_sync(trace: &mut Trace, fields: &Fields<'_>) {
    let args = args(fields.args);
    let kind = args.sync_kind.clone().unwrap_or_else(|| unquoted(fields.name));
    let kind = match kind.as_ref() {
        "Stream Wait Event" => SyncKind::StreamWaitEvent,
        "Event Sync" => SyncKind::Event,
        "Stream Sync" => SyncKind::Stream,
        "Context Sync" => SyncKind::Context,
        _ => return,
    };
    let Some(correlation) = args.correlation else { return };
    // "None of them" is written as -1 or as 2^32 - 1.
    let stream = |id: Option<i64>| id.filter(|id| *id >= 0 && *id != i64::from(u32::MAX));
    trace.syncs.push(RawSync {
        kind,
        device: args.device,
        stream: stream(args.stream),
        correlation,
        wait_on_stream: stream(args.wait_on_stream),
        wait_on_record: args.wait_on_record.filter(|id| *id >= 0),
    });
}

fn time(us: &str) -> Option<i64> {
    i64::try_from(us_to_ns(us)?).ok()
}

/// Start and end; a missing or negative length is no length.
fn interval(fields: &Fields<'_>) -> Option<(i64, i64)> {
    let start = time(fields.ts)?;
    let length = time(fields.dur).unwrap_or(0).max(0);
    Some((start, start.checked_add(length)?))
}

fn thread_name(args: &str) -> Option<String> {
    let map: HashMap<String, String> = serde_json::from_str(args).ok()?;
    map.get("name").map(|name| name.trim().to_owned())
}

/// The members of `args` that matter.
#[derive(Default)]
struct ArgFields<'a> {
    correlation: Option<i64>,
    stream: Option<i64>,
    device: Option<i64>,
    wait_on_stream: Option<i64>,
    wait_on_record: Option<i64>,
    sync_kind: Option<Cow<'a, str>>,
}

fn args(text: &str) -> ArgFields<'_> {
    if text.is_empty() {
        return ArgFields::default();
    }
    serde_json::Deserializer::from_str(text).deserialize_map(ArgVisitor).unwrap_or_default()
}

struct ArgVisitor;

impl<'de> Visitor<'de> for ArgVisitor {
    type Value = ArgFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the args of an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = ArgFields::default();
        while let Some(key) = map.next_key_seed(Text)? {
            let mut number = || map.next_value::<&RawValue>().map(|value| whole(value.get()));
            match key.as_ref() {
                "correlation" | "correlation id" | "correlation_id" => fields.correlation = number()?,
                "stream" | "queue" => fields.stream = number()?.or(fields.stream),
                "device" => fields.device = number()?,
                "wait_on_stream" => fields.wait_on_stream = number()?,
                "wait_on_cuda_event_record_corr_id" | "wait_on_hip_event_record_corr_id" => {
                    fields.wait_on_record = number()?;
                }
                "cuda_sync_kind" | "hip_sync_kind" => {
                    fields.sync_kind = Some(map.next_value_seed(Text)?);
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(fields)
    }
}
