//! Reads JSON of rocprofv3.
//!
//! Invariant: kinds and operations are numbers that differ between releases; the file has their
//! names. Entry point: [`read`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::run::{Args, Direction, Place, Run, Span};
use crate::recording::{Recording, Source};

/// `agents[].type` of a GPU.
const GPU: u64 = 2;

#[derive(Deserialize)]
struct File<'a> {
    #[serde(rename = "rocprofiler-sdk-tool", borrow)]
    processes: Vec<Process<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Process<'a> {
    metadata: Metadata,
    agents: Vec<Agent>,
    #[serde(borrow)]
    strings: Strings<'a>,
    #[serde(borrow)]
    kernel_symbols: Vec<Symbol<'a>>,
    buffer_records: Records,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    pid: i64,
    config: Config,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Config {
    group_by_queue: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Handle {
    handle: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Agent {
    id: Handle,
    r#type: u64,
    logical_node_type_id: i64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Strings<'a> {
    #[serde(borrow)]
    buffer_records: Vec<Kind<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Kind<'a> {
    #[serde(borrow)]
    operations: Vec<Cow<'a, str>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Symbol<'a> {
    kernel_id: u64,
    #[serde(borrow)]
    formatted_kernel_name: Cow<'a, str>,
    #[serde(borrow)]
    kernel_name: Cow<'a, str>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Records {
    kernel_dispatch: Vec<Dispatch>,
    memory_copy: Vec<Copy>,
    hip_api: Vec<Api>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Correlation {
    internal: Option<i64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Dispatch {
    correlation_id: Correlation,
    start_timestamp: Option<i64>,
    end_timestamp: Option<i64>,
    dispatch_info: DispatchInfo,
    stream_id: Option<Handle>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct DispatchInfo {
    agent_id: Handle,
    queue_id: Handle,
    kernel_id: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Copy {
    kind: usize,
    operation: usize,
    correlation_id: Correlation,
    start_timestamp: Option<i64>,
    end_timestamp: Option<i64>,
    dst_agent_id: Handle,
    src_agent_id: Handle,
    stream_id: Option<Handle>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Api {
    kind: usize,
    operation: usize,
    thread_id: i64,
    correlation_id: Correlation,
    start_timestamp: Option<i64>,
    end_timestamp: Option<i64>,
    stream_id: Option<Handle>,
    args: Args,
}

#[derive(Deserialize)]
struct Arg<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
}

impl<'de> Deserialize<'de> for Args {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(ArgsVisitor)
    }
}

/// Arguments as a list of `{type, name, value}` or as an object of names and values.
struct ArgsVisitor;

impl<'de> Visitor<'de> for ArgsVisitor {
    type Value = Args;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the arguments of a call")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Args, A::Error> {
        let mut args = Args::default();
        while let Some(Arg { name, value }) = seq.next_element::<Arg<'de>>()? {
            args.take(&name, value.map_or("", RawValue::get));
        }
        Ok(args)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Args, A::Error> {
        let mut args = Args::default();
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            args.take(&name, map.next_value::<&'de RawValue>()?.get());
        }
        Ok(args)
    }

    fn visit_unit<E>(self) -> Result<Args, E> {
        Ok(Args::default())
    }
}

/// Reads a file.
///
/// # Errors
/// Truncated or malformed JSON, and types that rocprofv3 does not write, with the place.
pub fn read(bytes: &[u8]) -> Result<Recording, String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let file: File<'_> = serde_json::from_str(text).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        match error.is_eof() {
            true => {
                format!("the JSON ends in the middle, at {place}; it was cut short: copy or record it again")
            }
            false => format!("{place}: {error}; give the JSON that rocprofv3 wrote"),
        }
    })?;
    let mut run = Run::new(Source::RocprofJson);
    for process in file.processes {
        process.add_to(&mut run);
    }
    Ok(run.finish())
}

impl Process<'_> {
    fn add_to(self, run: &mut Run) {
        run.process(self.metadata.pid);
        let devices: HashMap<u64, i64> = (self.agents.iter())
            .filter(|agent| agent.r#type == GPU)
            .map(|agent| (agent.id.handle, agent.logical_node_type_id))
            .collect();
        let device =
            |agent: &Handle| devices.get(&agent.handle).copied().unwrap_or_else(|| number(agent));
        // With --group-by-queue all streams are 0.
        let stream = |id: &Option<Handle>| {
            id.as_ref().filter(|_| !self.metadata.config.group_by_queue).map(number)
        };
        let operation = |kind: usize, operation: usize| {
            let names = self.strings.buffer_records.get(kind).map(|kind| &kind.operations);
            names.and_then(|names| names.get(operation)).map_or("", |name| name.as_ref())
        };
        let symbols: HashMap<u64, &Symbol<'_>> =
            self.kernel_symbols.iter().map(|symbol| (symbol.kernel_id, symbol)).collect();
        for d in &self.buffer_records.kernel_dispatch {
            let name =
                symbols.get(&d.dispatch_info.kernel_id).map_or("kernel", |symbol| symbol.name());
            let place = Place {
                device: device(&d.dispatch_info.agent_id),
                stream: stream(&d.stream_id),
                queue: Some(number(&d.dispatch_info.queue_id)),
            };
            run.kernel(name, place, span(d.start_timestamp, d.end_timestamp, &d.correlation_id));
        }
        for c in &self.buffer_records.memory_copy {
            let direction = Direction::of(operation(c.kind, c.operation));
            let device = direction.device(device(&c.src_agent_id), device(&c.dst_agent_id));
            let place = Place { device, stream: stream(&c.stream_id), queue: None };
            run.copy(direction, place, span(c.start_timestamp, c.end_timestamp, &c.correlation_id));
        }
        for a in &self.buffer_records.hip_api {
            let span = span(a.start_timestamp, a.end_timestamp, &a.correlation_id);
            run.call(
                operation(a.kind, a.operation),
                a.thread_id,
                span,
                stream(&a.stream_id),
                a.args,
            );
        }
    }
}

impl Symbol<'_> {
    fn name(&self) -> &str {
        match self.formatted_kernel_name.as_ref() {
            "" => self.kernel_name.strip_suffix(".kd").unwrap_or(&self.kernel_name),
            name => name,
        }
    }
}

fn number(handle: &Handle) -> i64 {
    handle.handle as i64
}

fn span(start: Option<i64>, end: Option<i64>, correlation: &Correlation) -> Span {
    Span { start, end, correlation: correlation.internal }
}
