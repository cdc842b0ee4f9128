//! Makes records of the JSON of an event.
//!
//! Numbers may be texts, fields may be repeated or absent, and categories have old and new names.
//! Events of XLA's profiler have no categories: process and thread names say what they are.
//! Most events (operators, annotations, Python stacks) are dropped before `args` is read.
//! Invariant: an event with GPU work or a host call and an impossible value is counted as damaged
//! and left out. Entry point: [`read`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;

use foldhash::HashMap;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::members::{members, value_end};
use super::number::{us_to_ns, whole};
use super::repair::repair;
use super::scan::{EventReader, scan};
use super::xla_names;
use crate::recording::{
    Awaited, CallId, CallRecord, CallRef, Fault, Foreign, LONGEST_NS, Launcher, NameId, Position,
    ProcessId, Recording, Remark, Source, StreamId, StreamKey, SyncKind, SyncRecord, TrackId,
    WorkKind, WorkRecord, call,
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
    /// Events of devices that are not read, and the processes of such devices.
    foreign: BTreeMap<Foreign, u64>,
    foreign_processes: HashMap<NameId, Foreign>,
    /// GPUs by process, in the JSON that the tools of XLA's profiler make: its events have no
    /// categories.
    gpus: HashMap<NameId, i64>,
    /// Work without a correlation, which flow arrows may join: its place and its index.
    unjoined: Vec<(Track, i64, usize)>,
}

impl Trace {
    /// The process of every record: a file has one, or several whose host calls are distinguished
    /// by time.
    fn process(&mut self) -> ProcessId {
        self.recording.process(0)
    }

    /// A stream of a device. The format has no contexts; the device stands for the context.
    fn stream(&mut self, device: i64, stream: i64) -> StreamId {
        let process = self.process();
        self.recording.stream(StreamKey { process, context: device, stream }, device)
    }

    fn track(&mut self, track: Track) -> TrackId {
        let process = self.process();
        let next = self.tracks.len() as i64;
        *self.tracks.entry(track).or_insert_with(|| self.recording.track(process, next))
    }

    /// Records that are resolved after all events are read.
    fn finish(mut self) -> Recording {
        self.name_tracks();
        self.join_flows();
        let foreign = std::mem::take(&mut self.foreign).into_iter();
        let remarks = foreign.map(|(of, events)| Remark::Foreign { of, events });
        self.recording.remarks.extend(remarks);
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
            .filter_map(|flow| {
                Some((flow.id, *calls.get(&(*self.tracks.get(&flow.track)?, flow.at))?))
            })
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

/// Reads the events.
///
/// # Errors
/// A truncated file, and JSON that is malformed or not a trace, with the place.
pub fn read(source: impl Read) -> Result<Recording, String> {
    let mut trace = Trace::default();
    trace.recording.events = scan(source, &mut trace)?;
    Ok(trace.finish())
}

impl EventReader for Trace {
    fn read_common(&mut self, position: Position, text: &[u8]) -> Option<usize> {
        let (mut fields, mut is_text) = (Fields::default(), true);
        let length = members(text, 0, |name, at| {
            let mut read_args = None;
            let end = match name {
                b"args" if text[at] == b'{' => {
                    let args = read_args.insert(ArgFields::default());
                    args_end(text, at, args)?
                }
                _ => value_end(text, at)?,
            };
            if let Some(field) = fields.named(name) {
                // Of a repeated field the last value counts, as in every browser.
                *field = std::str::from_utf8(&text[at..end]).unwrap_or_default();
                is_text &= !field.is_empty();
            }
            if name == b"args" {
                fields.read_args = read_args;
            }
            Some(end)
        });
        let length = length.filter(|_| is_text)?;
        self.recording.at(position);
        take_or_count(self, &fields);
        Some(length)
    }

    fn read(&mut self, position: Position, event: &[u8]) -> Result<(), (usize, String)> {
        self.recording.at(position);
        match attempt(self, event) {
            Ok(()) => Ok(()),
            Err(error) => repair(event)
                .and_then(|repaired| attempt(self, repaired.as_bytes()).ok())
                .ok_or_else(|| describe(&error, event)),
        }
    }
}

fn attempt(trace: &mut Trace, event: &[u8]) -> serde_json::Result<()> {
    let mut reader = serde_json::Deserializer::from_slice(event);
    reader.deserialize_map(Event(trace))?;
    reader.end()
}

/// The place of an error in the event, and the error.
fn describe(error: &serde_json::Error, event: &[u8]) -> (usize, String) {
    let lines = event.split_inclusive(|byte| *byte == b'\n');
    let before: usize = lines.take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    let what = error.to_string();
    let what = what.split(" at line ").next().unwrap_or("not JSON");
    (before + error.column().saturating_sub(1), what.to_owned())
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

impl<'de> Visitor<'de> for Event<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event { … }")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut fields = Fields::default();
        while let Some(key) = map.next_key_seed(Text)? {
            match fields.named(key.as_bytes()) {
                Some(field) => *field = raw(&mut map)?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        take_or_count(self.0, &fields);
        Ok(())
    }
}

fn raw<'de, A: MapAccess<'de>>(map: &mut A) -> Result<&'de str, A::Error> {
    map.next_value::<&'de RawValue>().map(RawValue::get)
}

/// The fields of an event as written; empty when absent.
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
    /// The members of `args`, if they were read with the event.
    read_args: Option<ArgFields<'a>>,
}

impl<'a> Fields<'a> {
    fn args(&self) -> ArgFields<'a> {
        self.read_args.unwrap_or_else(|| args(self.args))
    }

    fn named(&mut self, name: &[u8]) -> Option<&mut &'a str> {
        Some(match name {
            b"ph" => &mut self.ph,
            b"cat" => &mut self.cat,
            b"name" => &mut self.name,
            b"pid" => &mut self.pid,
            b"tid" => &mut self.tid,
            b"ts" => &mut self.ts,
            b"dur" => &mut self.dur,
            b"id" => &mut self.id,
            b"args" => &mut self.args,
            _ => return None,
        })
    }
}

/// A JSON text without its quotes; escapes are undone only when there are any.
fn unquoted(raw: &str) -> Cow<'_, str> {
    match raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) if !inner.contains('\\') => Cow::Borrowed(inner),
        Some(_) => serde_json::from_str::<String>(raw).map_or(Cow::Borrowed(raw), Cow::Owned),
        None => Cow::Borrowed(raw),
    }
}

/// The kinds of events that are read.
enum Category {
    Work(WorkKind),
    Call,
    Sync,
    Flow,
    Foreign(Foreign),
    Nothing,
}

/// Old and new names of the categories.
fn category(cat: &str) -> Category {
    match cat {
        "kernel" | "Kernel" => Category::Work(WorkKind::Kernel),
        "gpu_memcpy" | "Memcpy" => Category::Work(WorkKind::Copy),
        "gpu_memset" | "Memset" => Category::Work(WorkKind::Fill),
        "Runtime" | "runtime" => Category::Call,
        "cuda_profiler_range" => Category::Foreign(Foreign::Ranges),
        _ if cat.starts_with("mtia_") && cat != "mtia_runtime" => Category::Foreign(Foreign::Mtia),
        _ if cat.starts_with("hpu_") => Category::Foreign(Foreign::Hpu),
        // Every vendor has a pair of these: cuda_runtime, hip_runtime, xpu_driver, …
        _ if cat.ends_with("_runtime") || cat.ends_with("_driver") => Category::Call,
        "cuda_sync" | "hip_sync" | "synchronization" => Category::Sync,
        "ac2g" | "async_gpu" | "async_cpu_to_gpu" | "async" => Category::Flow,
        _ => Category::Nothing,
    }
}

/// A field with an impossible value, the value, and the fault.
type Wrong<'a> = (&'static str, &'a str, Fault);

/// Takes the records of an event, or counts it as damaged.
fn take_or_count(trace: &mut Trace, fields: &Fields<'_>) {
    if let Err((field, value, fault)) = take(trace, fields) {
        trace.recording.damaged(&unquoted(fields.name), field, &unquoted(value), fault);
    }
}

fn take<'a>(trace: &mut Trace, fields: &Fields<'a>) -> Result<(), Wrong<'a>> {
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
        ("M", _) if fields.name == "\"process_name\"" => {
            let device =
                thread_name(fields.args).and_then(|name| xla_names::device_of_plane(&name));
            let process = name(trace, fields.pid);
            if let Some(device) = device {
                trace.gpus.insert(process, device);
                trace.recording.source = Source::Xla;
            }
            if thread_name(fields.args).is_some_and(|name| name == "Ascend Hardware") {
                trace.foreign_processes.insert(process, Foreign::Npu);
            }
        }
        ("s" | "t" | "f", Category::Flow) => {
            let Some(id) = id("id", fields.id)? else { return Ok(()) };
            let at = time("ts", fields.ts)?;
            let track = track(trace);
            trace.flows.push(RawFlow { begins: ph == "s", id, track, at });
        }
        ("X", Category::Work(kind)) => {
            let (start, end) = interval(fields)?;
            let args = fields.args();
            let or_field = |raw: Option<i64>, field, of| match raw {
                Some(number) => Ok(number),
                None => id(field, of).map(Option::unwrap_or_default),
            };
            let device = or_field(id("device", args.device)?, "pid", fields.pid)?;
            let stream = or_field(id("stream", args.stream)?, "tid", fields.tid)?;
            let correlation = id("correlation", args.correlation)?;
            let (name, stream) = (name(trace, fields.name), trace.stream(device, stream));
            if correlation.is_none() {
                let track = track(trace);
                trace.unjoined.push((track, start, trace.recording.work.len()));
            }
            let launcher = correlation.map_or(Launcher::Unknown, Launcher::Correlation);
            trace.recording.work(WorkRecord { kind, name, stream, start, end, launcher });
        }
        ("X", Category::Call) => {
            let (start, end) = interval(fields)?;
            let correlation = id("correlation", fields.args().correlation)?;
            let track = track(trace);
            let track = trace.track(track);
            let call = call(&unquoted(fields.name));
            trace.recording.call(CallRecord { call, track, start, end, correlation });
        }
        ("X", Category::Sync) => take_sync(trace, fields)?,
        ("X", Category::Foreign(of)) => *trace.foreign.entry(of).or_default() += 1,
        ("X", Category::Nothing) if !trace.foreign_processes.is_empty() => {
            let process = name(trace, fields.pid);
            if let Some(of) = trace.foreign_processes.get(&process) {
                *trace.foreign.entry(*of).or_default() += 1;
            }
        }
        ("X", Category::Nothing) if fields.cat.is_empty() && !trace.gpus.is_empty() => {
            let track = track(trace);
            take_xla(trace, fields, track)?;
        }
        _ => {}
    }
    Ok(())
}

/// An event of XLA's profiler: work of a stream, or a call of CUDA or HIP.
fn take_xla<'a>(trace: &mut Trace, fields: &Fields<'a>, track: Track) -> Result<(), Wrong<'a>> {
    let name = unquoted(fields.name);
    let line = trace.thread_names.get(&track);
    match (trace.gpus.get(&track.0).copied(), line.and_then(|line| xla_names::stream_of_line(line)))
    {
        (Some(device), Some(stream)) => {
            let (start, end) = interval(fields)?;
            let correlation = id("correlation_id", fields.args().correlation)?;
            let kind = xla_names::kind_of_copy(&name).unwrap_or(WorkKind::Kernel);
            let (name, stream) = (trace.recording.name(&name), trace.stream(device, stream));
            let launcher = correlation.map_or(Launcher::Unknown, Launcher::Correlation);
            trace.recording.work(WorkRecord { kind, name, stream, start, end, launcher });
        }
        (None, _) if xla_names::is_call(&name) => {
            let (start, end) = interval(fields)?;
            let correlation = id("correlation_id", fields.args().correlation)?;
            let track = trace.track(track);
            trace.recording.call(CallRecord { call: call(&name), track, start, end, correlation });
        }
        // Steps, modules and operators are sums over the work of streams.
        _ => {}
    }
    Ok(())
}

fn take_sync<'a>(trace: &mut Trace, fields: &Fields<'a>) -> Result<(), Wrong<'a>> {
    let args = fields.args();
    let kind = if args.sync_kind.is_empty() { fields.name } else { args.sync_kind };
    let kind = match unquoted(kind).as_ref() {
        "Stream Wait Event" => SyncKind::StreamWaitEvent,
        "Event Sync" => SyncKind::Event,
        "Stream Sync" => SyncKind::Stream,
        "Context Sync" => SyncKind::Context,
        _ => return Ok(()),
    };
    // No stream or event is written as -1 or as 2^32 - 1.
    let stream = |id: Option<i64>| id.filter(|id| *id >= 0 && *id != i64::from(u32::MAX));
    let device = id("device", args.device)?;
    let of = stream(id("stream", args.stream)?);
    let wait_on_stream = stream(id("wait_on_stream", args.wait_on_stream)?);
    let wait_on_record =
        id("wait_on_cuda_event_record_corr_id", args.wait_on_record)?.filter(|id| *id >= 0);
    let Some(correlation) = id("correlation", args.correlation)? else { return Ok(()) };
    trace.syncs.push(RawSync {
        kind,
        device,
        stream: of,
        correlation,
        wait_on_stream,
        wait_on_record,
    });
    Ok(())
}

/// Whether a field is absent or null.
fn is_absent(raw: &str) -> bool {
    raw.is_empty() || raw == "null"
}

/// A time or a duration, in nanoseconds.
fn time<'a>(field: &'static str, us: &'a str) -> Result<i64, Wrong<'a>> {
    match is_absent(us) {
        true => Err((field, us, Fault::Missing)),
        false => us_to_ns(us).map_err(|fault| (field, us, fault)),
    }
}

/// Start and end; a missing length is 0.
fn interval<'a>(fields: &Fields<'a>) -> Result<(i64, i64), Wrong<'a>> {
    let start = time("ts", fields.ts)?;
    let length = if is_absent(fields.dur) { 0 } else { time("dur", fields.dur)? };
    let fault = match length {
        ..0 => Fault::Negative,
        0..=LONGEST_NS => {
            let end = start.checked_add(length).ok_or(("dur", fields.dur, Fault::OutOfRange))?;
            return Ok((start, end));
        }
        _ => Fault::TooLong,
    };
    Err(("dur", fields.dur, fault))
}

/// A number that identifies something; `None` when it is absent or a text.
fn id<'a>(field: &'static str, raw: &'a str) -> Result<Option<i64>, Wrong<'a>> {
    match whole(raw) {
        Ok(number) => Ok(Some(number)),
        Err(Fault::OutOfRange) => Err((field, raw, Fault::OutOfRange)),
        Err(_) => Ok(None),
    }
}

fn thread_name(args: &str) -> Option<String> {
    let map: HashMap<String, String> = serde_json::from_str(args).ok()?;
    map.get("name").map(|name| name.trim().to_owned())
}

/// The members of `args` that are read, as written; empty when absent.
#[derive(Clone, Copy, Default)]
struct ArgFields<'a> {
    correlation: &'a str,
    stream: &'a str,
    device: &'a str,
    wait_on_stream: &'a str,
    wait_on_record: &'a str,
    sync_kind: &'a str,
}

impl<'a> ArgFields<'a> {
    fn named(&mut self, name: &[u8]) -> Option<&mut &'a str> {
        Some(match name {
            b"correlation" | b"correlation id" | b"correlation_id" => &mut self.correlation,
            b"stream" | b"queue" => &mut self.stream,
            b"device" => &mut self.device,
            b"wait_on_stream" => &mut self.wait_on_stream,
            b"wait_on_cuda_event_record_corr_id" | b"wait_on_hip_event_record_corr_id" => {
                &mut self.wait_on_record
            }
            b"cuda_sync_kind" | b"hip_sync_kind" => &mut self.sync_kind,
            _ => return None,
        })
    }

    fn set(&mut self, name: &[u8], value: &'a str) {
        let is_name =
            matches!(name, b"stream" | b"queue") && whole(value) == Err(Fault::NotANumber);
        if let Some(field) = self.named(name).filter(|_| !is_name) {
            *field = value;
        }
    }
}

/// Reads the `args` at `at` of an event of common spelling; returns the place behind them.
fn args_end<'a>(text: &'a [u8], at: usize, fields: &mut ArgFields<'a>) -> Option<usize> {
    members(text, at, |name, at| {
        let end = value_end(text, at)?;
        if fields.named(name).is_some() {
            fields.set(name, std::str::from_utf8(&text[at..end]).ok()?);
        }
        Some(end)
    })
}

fn args(text: &str) -> ArgFields<'_> {
    if text.is_empty() {
        return ArgFields::default();
    }
    let mut fields = ArgFields::default();
    if args_end(text.as_bytes(), 0, &mut fields).is_some() {
        return fields;
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
            fields.set(key.as_bytes(), raw(&mut map)?);
        }
        Ok(fields)
    }
}
