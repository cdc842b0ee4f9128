//! Reads profiles of XLA (JAX, TensorFlow): the `XSpace` protobuf of a file `*.xplane.pb`.
//!
//! Purpose: a plane `/device:GPU:N` has a line for each stream of a device, with its work. Host
//! planes have lines for threads, with the calls of the GPU's runtime. The
//! JSON that the profiler's tools make of a profile is read by `kineto`.
//! Invariant: times are kept in picoseconds until start and end are known. Entry points:
//! [`is_profile`], [`read`].

use foldhash::HashMap;
use tidegate_trace::perfetto::wire::{Fields, Value};

use crate::kineto::xla_names::{device_of_plane, is_call, kind_of_copy, stream_of_line};
use crate::recording::{Recording, Source, WorkKind};
use crate::rocprof::run::{Args, Direction, Place, Run, Span};

/// Planes that are read before a file counts as another kind.
const PROBED_PLANES: usize = 16;

mod space {
    pub const PLANES: u64 = 1;
}

mod plane {
    pub const NAME: u64 = 2;
    pub const LINES: u64 = 3;
    pub const EVENT_NAMES: u64 = 4;
    pub const STAT_NAMES: u64 = 5;
}

mod line {
    pub const ID: u64 = 1;
    pub const NAME: u64 = 2;
    pub const TIMESTAMP_NS: u64 = 3;
    pub const EVENTS: u64 = 4;
}

mod event {
    pub const NAME_ID: u64 = 1;
    pub const OFFSET_PS: u64 = 2;
    pub const DURATION_PS: u64 = 3;
    pub const STATS: u64 = 4;
    /// In place of an offset: the event is a sum of several.
    pub const OCCURRENCES: u64 = 5;
}

/// Whether these bytes are planes.
pub fn is_profile(bytes: &[u8]) -> bool {
    let name_of = |plane: &[u8]| text(plane, plane::NAME).unwrap_or_default();
    let is_plane = |field: Option<(u64, Value<'_>)>| match field {
        Some((space::PLANES, Value::Bytes(plane))) => {
            let name = name_of(plane);
            name.starts_with("/host:") || name.starts_with("/device:")
        }
        _ => false,
    };
    bytes.first() == Some(&0x0a) && Fields::of(bytes).take(PROBED_PLANES).any(is_plane)
}

/// Reads a profile.
///
/// # Errors
/// A truncated or damaged file, and a profile without streams of a GPU.
pub fn read(bytes: &[u8]) -> Result<Recording, String> {
    let mut run = Run::new(Source::Xla);
    let mut devices: Vec<String> = Vec::new();
    let mut has_gpu = false;
    for field in Fields::of(bytes) {
        let Some((field, value)) = field else {
            let planes = devices.len();
            return Err(format!(
                "the profile ends in the middle of a plane, after {planes} planes; copy or record it again"
            ));
        };
        if let (space::PLANES, Value::Bytes(bytes)) = (field, value) {
            let plane = Plane::of(bytes)?;
            has_gpu |= device_of_plane(&plane.name).is_some();
            plane.read(&mut run)?;
            devices.push(plane.name);
        }
    }
    if !has_gpu {
        let devices: Vec<&str> =
            devices.iter().filter_map(|name| name.strip_prefix("/device:")).take(3).collect();
        return Err(match devices.as_slice() {
            [] => "an XLA profile without a GPU; record it with jax.profiler.trace on a machine with one"
                .to_owned(),
            some => format!(
                "an XLA profile of {}, and only streams of GPUs are read; record it on a GPU",
                some.join(", ")
            ),
        });
    }
    Ok(run.finish())
}

fn text(message: &[u8], field: u64) -> Option<String> {
    Fields::of(message).flatten().find(|(f, _)| *f == field).map(|(_, value)| value.text())
}

fn signed(number: u64) -> i64 {
    i64::from_ne_bytes(number.to_ne_bytes())
}

/// A plane with the names that its events refer to by number.
struct Plane<'a> {
    name: String,
    lines: Vec<&'a [u8]>,
    events: HashMap<u64, String>,
    stats: HashMap<u64, Stat>,
}

/// A stat of an event that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stat {
    Correlation,
    Copy,
    Fill,
}

impl<'a> Plane<'a> {
    fn of(bytes: &'a [u8]) -> Result<Self, String> {
        let (events, stats) = (HashMap::default(), HashMap::default());
        let mut plane = Plane { name: String::new(), lines: Vec::new(), events, stats };
        for field in Fields::of(bytes) {
            let (field, value) = field.ok_or_else(|| plane.damaged())?;
            match (field, value) {
                (plane::NAME, name) => plane.name = name.text(),
                (plane::LINES, Value::Bytes(line)) => plane.lines.push(line),
                (plane::EVENT_NAMES, Value::Bytes(entry)) => {
                    let (id, name) = named(entry);
                    plane.events.insert(id, name);
                }
                (plane::STAT_NAMES, Value::Bytes(entry)) => {
                    let (id, name) = named(entry);
                    let stat = match name.as_str() {
                        "correlation_id" => Stat::Correlation,
                        "memcpy_details" => Stat::Copy,
                        "memset_details" => Stat::Fill,
                        _ => continue,
                    };
                    plane.stats.insert(id, stat);
                }
                _ => {}
            }
        }
        Ok(plane)
    }

    fn damaged(&self) -> String {
        format!("plane '{}' is damaged; copy or record the profile again", self.name)
    }

    fn read(&self, run: &mut Run) -> Result<(), String> {
        let device = device_of_plane(&self.name);
        for bytes in &self.lines {
            let (mut id, mut name, mut at) = (0, String::new(), 0);
            for field in Fields::of(bytes) {
                match field.ok_or_else(|| self.damaged())? {
                    (line::ID, value) => id = signed(value.number()),
                    (line::NAME, value) => name = value.text(),
                    (line::TIMESTAMP_NS, value) => at = signed(value.number()),
                    _ => {}
                }
            }
            let stream = stream_of_line(&name);
            for (field, value) in Fields::of(bytes).flatten() {
                if field != line::EVENTS {
                    continue;
                }
                let event = self.event(value.bytes(), at)?;
                match (device, stream) {
                    (Some(device), Some(stream)) => {
                        event.work(run, Place { device, stream: Some(stream), queue: None });
                    }
                    (None, _) if is_call(event.name) => {
                        run.call(event.name, id, event.span, None, Args::default());
                    }
                    // Steps, modules and operators are sums over the work of streams.
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn event(&self, bytes: &[u8], line_ns: i64) -> Result<Event<'_>, String> {
        let (mut name, mut offset, mut length) = ("", Some(0), 0);
        let (mut correlation, mut kind) = (None, WorkKind::Kernel);
        for field in Fields::of(bytes) {
            match field.ok_or_else(|| self.damaged())? {
                (event::NAME_ID, id) => name = self.events.get(&id.number()).map_or("", |n| n),
                (event::OFFSET_PS, at) => offset = Some(signed(at.number())),
                (event::DURATION_PS, ps) => length = signed(ps.number()),
                (event::OCCURRENCES, _) => offset = None,
                (event::STATS, stat) => match self.stat(stat.bytes()) {
                    Some((Stat::Correlation, number)) => correlation = number,
                    Some((Stat::Copy, _)) => kind = WorkKind::Copy,
                    Some((Stat::Fill, _)) => kind = WorkKind::Fill,
                    None => {}
                },
                _ => {}
            }
        }
        let ns = |ps: i128| i64::try_from(ps.div_euclid(1_000)).ok();
        let start_ps = offset.map(|offset| i128::from(line_ns) * 1_000 + i128::from(offset));
        let start = start_ps.and_then(ns);
        let end = start_ps.and_then(|start| ns(start + i128::from(length)));
        Ok(Event { name, kind, span: Span { start, end, correlation } })
    }

    /// A stat that is read, with its number if it has one.
    fn stat(&self, bytes: &[u8]) -> Option<(Stat, Option<i64>)> {
        let (mut stat, mut number) = (None, None);
        for (field, value) in Fields::of(bytes).flatten() {
            match (field, value) {
                (1, id) => stat = self.stats.get(&id.number()).copied(),
                (3 | 4, Value::Number(value)) => number = Some(signed(value)),
                _ => {}
            }
        }
        stat.map(|stat| (stat, number))
    }
}

/// The id and the name of an entry of a plane's tables.
fn named(entry: &[u8]) -> (u64, String) {
    let (mut id, mut name) = (0, String::new());
    for (field, value) in Fields::of(entry).flatten() {
        match field {
            1 => id = value.number(),
            2 => name = text(value.bytes(), 2).unwrap_or_default(),
            _ => {}
        }
    }
    (id, name)
}

struct Event<'a> {
    name: &'a str,
    kind: WorkKind,
    span: Span,
}

impl Event<'_> {
    fn work(&self, run: &mut Run, place: Place) {
        match kind_of_copy(self.name).unwrap_or(self.kind) {
            WorkKind::Kernel => run.kernel(self.name, place, self.span),
            WorkKind::Copy => run.copy(direction(self.name), place, self.span),
            WorkKind::Fill => run.fill(self.name, place, self.span),
        }
    }
}

/// The direction of a copy.
fn direction(name: &str) -> Direction {
    match name {
        "MemcpyH2D" => Direction::HostToDevice,
        "MemcpyD2H" => Direction::DeviceToHost,
        "MemcpyD2D" | "MemcpyP2P" => Direction::DeviceToDevice,
        "MemcpyH2H" => Direction::HostToHost,
        _ => Direction::Unknown,
    }
}

#[cfg(test)]
mod tests;
