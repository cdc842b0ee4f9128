//! `[[buffer]]`, `[[fence]]`, `[[queue]]` and `[[frame]]`: fields, templates (`count`), first
//! contents. All names enter `Symbols` before any program is read.

use super::fields::Fields;
use super::names::{Groups, Symbols, Variables, is_object_name};
use super::reader::{Section, float_of, suggest};
use crate::model::{
    Buffer, BufferId, Content, Display, EngineKind, Fence, FenceId, Frame, GroupMember, Init,
    Priority, Queue, QueueId, Submission,
};

/// Limit on the length of a buffer.
pub const LARGEST_BUFFER_BYTES: u64 = 4 << 30;
/// Limit on buffers, queues, fences or threads of a workload, with the instances of templates.
pub const MOST_OBJECTS: u32 = 65_536;

/// The objects of a file, and the queue sections with their groups for the programs.
pub struct Objects<'r, 'i> {
    buffers: Vec<Buffer>,
    queues: Vec<Queue>,
    fences: Vec<Fence>,
    /// Each `[[queue]]` with its name, first id and count.
    pub queue_sections: Vec<(Section<'r, 'i>, String, QueueId, u32)>,
}

impl Objects<'_, '_> {
    pub fn into_parts(self) -> (Vec<Buffer>, Vec<Queue>, Vec<Fence>) {
        (self.buffers, self.queues, self.fences)
    }
}

/// Reads all declarations and enters their names.
pub fn read<'r, 'i>(top: &Section<'r, 'i>, symbols: &mut Symbols<'r>) -> Objects<'r, 'i> {
    let mut buffers = Vec::new();
    for section in top.tables("buffer") {
        let declared = declare(&section, symbols, "buffer", buffers.len());
        let bytes = buffer_bytes(&section, symbols);
        let init = read_init(&section, symbols, bytes);
        section.finish();
        let Some((name, count)) = declared else { continue };
        enter(&mut symbols.buffers, &section, "buffer", &name, BufferId(id(buffers.len())), count);
        for member in members(&name, count) {
            buffers.push(Buffer {
                name: member,
                bytes: bytes.unwrap_or(4),
                init: init.clone(),
                span: section.span(),
            });
        }
    }
    let mut fences = Vec::new();
    for section in top.tables("fence") {
        let declared = declare(&section, symbols, "fence", fences.len());
        let initial = symbols.constant(&section, "initial", u64::MAX).unwrap_or(0);
        section.finish();
        let Some((name, count)) = declared else { continue };
        enter(&mut symbols.fences, &section, "fence", &name, FenceId(id(fences.len())), count);
        fences.extend(members(&name, count).map(|name| Fence {
            name,
            initial,
            span: section.span(),
        }));
    }
    let mut queues = Vec::new();
    let mut queue_sections = Vec::new();
    for section in top.tables("queue") {
        let declared = declare(&section, symbols, "queue", queues.len());
        let template = queue_fields(&section, symbols);
        section.allow("program");
        section.allow("variables");
        section.finish();
        let Some((name, count)) = declared else { continue };
        let first = QueueId(id(queues.len()));
        enter(&mut symbols.queues, &section, "queue", &name, first, count);
        queues.extend(members(&name, count).map(|name| Queue { name, ..template.clone() }));
        queue_sections.push((section, name, first, count));
    }
    Objects { buffers, queues, fences, queue_sections }
}

fn id(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// `name`, or `name[0]`, `name[1]`, … of a template.
pub fn members(name: &str, count: u32) -> impl Iterator<Item = String> + '_ {
    (0..count).map(move |k| if count == 1 { name.to_owned() } else { format!("{name}[{k}]") })
}

/// The name and the count of a declaration.
pub fn declare(
    section: &Section<'_, '_>,
    symbols: &Symbols<'_>,
    kind: &str,
    have: usize,
) -> Option<(String, u32)> {
    let count = match section.get("count") {
        Some(_) => symbols.constant_u32(section, "count")?,
        None => 1,
    };
    let name = section.need_string("name")?;
    if !is_object_name(&name) {
        let text = format!(
            "'{name}' cannot be a name; begin with a letter and use letters, digits, '_', '-', '.'"
        );
        section.problem(text);
        return None;
    }
    if count == 0 {
        section
            .problem(format!("{kind} '{name}' has a count of 0; leave it out or give at least 1"));
        return None;
    }
    if have as u64 + u64::from(count) > u64::from(MOST_OBJECTS) {
        section.problem(format!("more than {MOST_OBJECTS} of [[{kind}]]; use fewer"));
        return None;
    }
    Some((name, count))
}

fn enter<I: GroupMember>(
    groups: &mut Groups<I>,
    section: &Section<'_, '_>,
    kind: &str,
    name: &str,
    first: I,
    count: u32,
) {
    if groups.insert(name.to_owned(), (first, count)).is_some() {
        section
            .problem(format!("a {kind} '{name}' is already declared; give this one another name"));
    }
}

fn buffer_bytes(section: &Section<'_, '_>, symbols: &Symbols<'_>) -> Option<u64> {
    let value = section.need("bytes")?;
    let bytes = symbols.constant(section, "bytes", LARGEST_BUFFER_BYTES)?;
    let wrong = match bytes {
        0 => "a buffer of 0 bytes; give at least 4",
        n if n % 4 != 0 => "the length of a buffer must be a multiple of 4",
        _ => return Some(bytes),
    };
    section.reader.problem(value.span().start, wrong.into());
    None
}

const PRIORITIES: [(&str, Priority); 4] = [
    ("idle", Priority::Idle),
    ("normal", Priority::Normal),
    ("high", Priority::High),
    ("realtime", Priority::Realtime),
];

/// The fields of a queue except its name.
fn queue_fields(section: &Section<'_, '_>, symbols: &Symbols<'_>) -> Queue {
    section.need("engine");
    let engines: Vec<(&str, EngineKind)> =
        EngineKind::ALL.iter().map(|kind| (kind.word(), *kind)).collect();
    Queue {
        name: String::new(),
        engine: section.word("engine", &engines).unwrap_or(EngineKind::ThreeD),
        node: symbols
            .constant(section, "node", 63)
            .map_or(0, |node| u32::try_from(node).unwrap_or_default()),
        gpu: 0,
        priority: section.word("priority", &PRIORITIES).unwrap_or_default(),
        submission: section.word("submission", &Submission::ALL.map(|model| (model.name(), model))),
        span: section.span(),
    }
}

/// The fields for the first content of a buffer, at most one of which is given.
const INITS: [&str; 7] =
    ["fill", "sequence_u32", "sequence_f32", "random_f32", "values_u32", "values_f32", "content"];

fn read_init(section: &Section<'_, '_>, symbols: &Symbols<'_>, bytes: Option<u64>) -> Init {
    let given: Vec<&str> = INITS.into_iter().filter(|key| section.get(key).is_some()).collect();
    let Some(key) = given.first() else { return Init::Zero };
    if let Some(second) = given.get(1) {
        section.problem(format!(
            "a buffer has one first content; '{key}' and '{second}' are both given"
        ));
    }
    let fields = &Fields { section, symbols, variables: &Variables::default() };
    let init = match *key {
        "fill" => symbols.constant_u32(section, "fill").map(Init::Pattern),
        "sequence_u32" => sequence_u32(fields),
        "sequence_f32" => floats(section, "sequence_f32", "start, step")
            .map(|[start, step]| Init::SequenceF32 { start, step }),
        "random_f32" => random_f32(section, symbols),
        "values_u32" => fields.words("values_u32").map(Init::ValuesU32),
        "values_f32" => values_f32(section, "values_f32").map(Init::ValuesF32),
        _ => content(section, symbols).map(Init::Content),
    };
    let needed = match &init {
        Some(Init::ValuesU32(words)) => words.len() as u64 * 4,
        Some(Init::ValuesF32(floats)) => floats.len() as u64 * 4,
        _ => 0,
    };
    if bytes.is_some_and(|bytes| bytes < needed) {
        section.problem(format!(
            "its first content has {needed} bytes and does not fit; raise 'bytes'"
        ));
    }
    init.unwrap_or(Init::Zero)
}

/// `[a, b]` of floats.
fn floats<const N: usize>(
    section: &Section<'_, '_>,
    key: &'static str,
    names: &str,
) -> Option<[f32; N]> {
    let values = values_f32(section, key)?;
    let array = <[f32; N]>::try_from(values);
    if array.is_err() {
        section.problem(format!("'{key}' needs [{names}]"));
    }
    array.ok()
}

/// A field that is an array of floats.
pub fn values_f32(section: &Section<'_, '_>, key: &'static str) -> Option<Vec<f32>> {
    let array = section.array(key)?;
    let mut floats = Vec::with_capacity(array.len());
    for value in array {
        match float_of(value) {
            Some(float) => floats.push(float),
            None => {
                section.wrong_type(key, value, "made of numbers");
                return None;
            }
        }
    }
    Some(floats)
}

fn sequence_u32(fields: &Fields<'_>) -> Option<Init> {
    match fields.words("sequence_u32")?[..] {
        [start, step] => Some(Init::SequenceU32 { start, step }),
        _ => {
            fields.section.problem("'sequence_u32' needs [start, step]".into());
            None
        }
    }
}

fn random_f32(section: &Section<'_, '_>, symbols: &Symbols<'_>) -> Option<Init> {
    let table = Section::of(section.reader, section.get("random_f32")?, "'random_f32'")?;
    let seed = symbols.constant_u32(&table, "seed").unwrap_or(1);
    let (low, high) = (table.float("low").unwrap_or(0.0), table.float("high").unwrap_or(1.0));
    table.finish();
    Some(Init::RandomF32 { seed, low, high })
}

fn content(section: &Section<'_, '_>, symbols: &Symbols<'_>) -> Option<Content> {
    let table = Section::of(section.reader, section.get("content")?, "'content'")?;
    let name = table.need_string("name");
    let size = picture_size(&table, symbols);
    table.finish();
    let (width, height) = size?;
    Some(Content { name: name?, width, height })
}

/// `width` and `height` in pixels.
fn picture_size(section: &Section<'_, '_>, symbols: &Symbols<'_>) -> Option<(u32, u32)> {
    let size = |key: &'static str| {
        section.need(key)?;
        let pixels = symbols.constant(section, key, 16_384)?;
        if pixels == 0 {
            section.problem(format!("'{key}' of {} is 0; give at least 1", section.what));
            return None;
        }
        u32::try_from(pixels).ok()
    };
    let (width, height) = (size("width"), size("height"));
    Some((width?, height?))
}

/// Reads `[display]`. A queue that presents and says nothing else submits through the kernel.
pub fn read_display(
    top: &Section<'_, '_>,
    symbols: &Symbols<'_>,
    objects: &mut Objects<'_, '_>,
) -> Option<Display> {
    let section = Section::of(top.reader, top.get("display")?, "[display]")?;
    let variables = &Variables::default();
    let queue = Fields { section: &section, symbols, variables }.queue("queue");
    let group = section.need_string("buffer");
    let size = picture_size(&section, symbols);
    let refresh_us = section.get("refresh_us").is_some();
    let refresh_us =
        if refresh_us { symbols.constant(&section, "refresh_us", 60_000_000)? } else { 16_667 };
    let latency = section.get("latency").is_some();
    let latency = if latency { symbols.constant(&section, "latency", 15)? } else { 2 };
    section.finish();
    let (queue, group, (width, height)) = (queue?, group?, size?);
    let Some((first, count)) = symbols.buffers.get(&group).copied() else {
        let hint = suggest(&group, symbols.buffers.keys().map(String::as_str));
        section.problem(format!("unknown buffer '{group}'{hint}"));
        return None;
    };
    let wrong = if refresh_us == 0 {
        Some("a refresh of 0 us; give at least 1".to_owned())
    } else if latency == 0 {
        Some("a latency of 0 presents; give at least 1".to_owned())
    } else if !(2..=16).contains(&count) {
        Some(format!(
            "'{group}' is {count} of [[buffer]]; a display has from 2 to 16: give it a count"
        ))
    } else {
        let (has, needs) =
            (objects.buffers[first.0 as usize].bytes, u64::from(width) * u64::from(height) * 4);
        (has < needs).then(|| {
            format!("a picture has {needs} bytes, and '{group}' has {has}; raise its 'bytes'")
        })
    };
    if let Some(text) = wrong {
        section.problem(text);
        return None;
    }
    let queue = queue.first;
    let presenting = &mut objects.queues[queue.0 as usize];
    if *presenting.submission.get_or_insert(Submission::Hardware) == Submission::User {
        let name = &presenting.name;
        section.problem(format!(
            "'{name}' submits from user mode, and a user-mode queue presents nothing; give it submission = \"hardware\" \
             or \"packet\""
        ));
    }
    let (refresh_ns, latency) = (refresh_us * 1_000, u32::try_from(latency).unwrap_or(1));
    let (vsync_at_ns, span) = (None, section.span());
    Some(Display { queue, first, count, width, height, refresh_ns, vsync_at_ns, latency, span })
}

/// Reads `[[frame]]`.
pub fn read_frames(top: &Section<'_, '_>, symbols: &Symbols<'_>) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    for section in top.tables("frame") {
        let file = section.need_string("file");
        let variables = &Variables::default();
        let buffer = Fields { section: &section, symbols, variables }.buffer("buffer");
        let size = picture_size(&section, symbols);
        section.finish();
        let (Some(file), Some(buffer), Some((width, height))) = (file, buffer, size) else {
            continue;
        };
        // Workloads are untrusted: a name has no folder.
        if file.contains(['/', '\\']) || !file.ends_with(".png") || file.len() < 5 {
            section.problem(format!(
                "'{file}' must be a file name without a folder that ends in .png"
            ));
        }
        if frames.iter().any(|frame| frame.file == file) {
            section.problem(format!("'{file}' is written twice{}", suggest(&file, [])));
        }
        frames.push(Frame { file, buffer, width, height, span: section.span() });
    }
    frames
}
