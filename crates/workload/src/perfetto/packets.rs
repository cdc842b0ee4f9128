//! Decodes Perfetto packets to slices on tracks and GPU render stages.
//!
//! Invariants: interned numbers belong to a packet sequence until it clears its state. A packet
//! that needs missing state is counted and skipped. An end closes the newest begin of its track.
//! Entry point: [`read`].

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use super::clocks::Clocks;
use crate::unpack::LARGEST_TRACE_BYTES;
use tidegate_trace::perfetto::wire::{Fields, Value};

/// Annotations that readers use; a note is an index into this list.
const NOTES: [&str; 10] = [
    "queued_ns",
    "fence",
    "value",
    "submission",
    "queue",
    "corr_id",
    "stream_ID",
    "tid",
    "src_agent",
    "dst_agent",
];

/// An annotation that readers use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Note {
    Queued,
    Fence,
    Value,
    Submission,
    Queue,
    Correlation,
    Stream,
    Thread,
    SourceAgent,
    DestinationAgent,
}

const NOTE_OF: [Note; NOTES.len()] = [
    Note::Queued,
    Note::Fence,
    Note::Value,
    Note::Submission,
    Note::Queue,
    Note::Correlation,
    Note::Stream,
    Note::Thread,
    Note::SourceAgent,
    Note::DestinationAgent,
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoteValue {
    Number(u64),
    Text(Arc<str>),
}

/// A slice of a track, or an instant, whose start is its end. Times in nanoseconds.
#[derive(Debug, Clone)]
pub struct Slice {
    pub track: u64,
    pub start: i64,
    pub end: i64,
    pub name: Arc<str>,
    pub category: Arc<str>,
    notes: Vec<(Note, NoteValue)>,
    /// GPU events that this host call launches, and for which it waits.
    pub launches: Vec<u64>,
    pub awaits: Vec<u64>,
}

impl Slice {
    /// A number; a text that begins with `0x` or ends with digits counts as one.
    pub fn number(&self, note: Note) -> Option<u64> {
        self.notes.iter().find(|(n, _)| *n == note).and_then(|(_, value)| match value {
            NoteValue::Number(number) => Some(*number),
            NoteValue::Text(text) => text.rsplit(' ').next()?.parse().ok(),
        })
    }

    pub fn text(&self, note: Note) -> Option<Arc<str>> {
        self.notes.iter().find(|(n, _)| *n == note).and_then(|(_, value)| match value {
            NoteValue::Number(_) => None,
            NoteValue::Text(text) => Some(Arc::clone(text)),
        })
    }
}

#[derive(Debug, Clone, Default)]
pub struct Track {
    pub parent: u64,
    pub name: String,
    /// Process and thread numbers of a thread's track.
    pub process: i64,
    pub thread: Option<i64>,
}

/// GPU work of a hardware queue.
#[derive(Debug, Clone)]
pub struct Stage {
    pub start: i64,
    pub end: i64,
    /// The queue's name and the sequence of its number.
    pub queue: (u64, Arc<str>),
    pub gpu: i64,
    pub process: i64,
    pub name: Arc<str>,
    /// 0 for none.
    pub event: u64,
    pub submission: u64,
    pub awaits: Vec<u64>,
}

/// A `vkQueueSubmit` as recorded.
#[derive(Debug, Clone, Copy)]
pub struct Submit {
    pub start: i64,
    pub end: i64,
    pub process: i64,
    pub thread: i64,
    pub submission: u64,
}

#[derive(Default)]
pub struct Packets {
    pub packets: u64,
    pub tracks: HashMap<u64, Track>,
    pub slices: Vec<Slice>,
    pub stages: Vec<Stage>,
    pub submits: Vec<Submit>,
    /// Packets whose state or clock is not in the file, and slices without an end.
    pub lost: u64,
    /// Names of annotations that occur.
    pub annotations: Vec<String>,
}

/// The interned data of a sequence since it last cleared its state.
#[derive(Default)]
struct State {
    valid: bool,
    names: HashMap<u64, Arc<str>>,
    categories: HashMap<u64, Arc<str>>,
    notes: HashMap<u64, Option<Note>>,
    texts: HashMap<u64, Arc<str>>,
    specifications: HashMap<u64, Arc<str>>,
    kernels: HashMap<u64, Arc<str>>,
    /// Process of a graphics context.
    contexts: HashMap<u64, i64>,
    track: Option<u64>,
    clock: Option<u64>,
}

/// The parts of a packet, in any order.
#[derive(Default)]
struct Packet<'a> {
    timestamp: u64,
    clock: Option<u64>,
    sequence: u64,
    flags: u64,
    dropped: bool,
    interned: Vec<&'a [u8]>,
    defaults: Option<&'a [u8]>,
    body: Option<(u64, &'a [u8])>,
}

mod packet {
    pub const CLOCK_SNAPSHOT: u64 = 6;
    pub const TIMESTAMP: u64 = 8;
    pub const SEQUENCE: u64 = 10;
    pub const TRACK_EVENT: u64 = 11;
    pub const INTERNED: u64 = 12;
    pub const FLAGS: u64 = 13;
    pub const DROPPED: u64 = 42;
    pub const COMPRESSED: u64 = 50;
    pub const RENDER_STAGE: u64 = 53;
    pub const CLOCK: u64 = 58;
    pub const DEFAULTS: u64 = 59;
    pub const TRACK: u64 = 60;
    pub const VULKAN: u64 = 65;
    pub const COMPRESSED_ZSTD: u64 = 133;
}

const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;

/// Reads a trace.
///
/// # Errors
/// Bytes that are not packets, and unsupported compression, with the place.
pub fn read(bytes: &[u8]) -> Result<Packets, String> {
    let mut reader = Reader::default();
    reader.trace(bytes, true)?;
    reader.name_late(None);
    reader.out.lost += reader.open.values().map(|open| open.len() as u64).sum::<u64>();
    Ok(reader.out)
}

#[derive(Default)]
struct Reader {
    out: Packets,
    clocks: Clocks,
    states: HashMap<u64, State>,
    /// Slices without an end so far, by track.
    open: HashMap<u64, Vec<Slice>>,
    /// Queue and stage names of the old form, by sequence. Several packets can have parts of them.
    lists: HashMap<u64, Lists>,
    /// Stages that came before the name of their queue or kind.
    unnamed: Vec<Unnamed>,
    unpacked: u64,
}

fn text(message: &[u8], field: u64) -> Option<String> {
    Fields::of(message).flatten().find(|(f, _)| *f == field).map(|(_, value)| value.text())
}

fn number(message: &[u8], field: u64) -> Option<u64> {
    Fields::of(message).flatten().find(|(f, _)| *f == field).map(|(_, value)| value.number())
}

fn signed(number: u64) -> i64 {
    i64::from_ne_bytes(number.to_ne_bytes())
}

impl Reader {
    fn trace(&mut self, bytes: &[u8], outermost: bool) -> Result<(), String> {
        for field in Fields::of(bytes) {
            let Some((field, value)) = field else {
                let packets = self.out.packets;
                return Err(format!(
                    "the trace ends in the middle of a packet, after {packets} packets; copy or record it again"
                ));
            };
            if field == 1 {
                self.packet(value.bytes(), outermost)?;
            }
        }
        Ok(())
    }

    fn packet(&mut self, bytes: &[u8], outermost: bool) -> Result<(), String> {
        self.out.packets += 1;
        let mut p = Packet::default();
        for (field, value) in Fields::of(bytes).flatten() {
            match field {
                packet::TIMESTAMP => p.timestamp = value.number(),
                packet::CLOCK => p.clock = Some(value.number()),
                packet::SEQUENCE => p.sequence = value.number(),
                packet::FLAGS => p.flags = value.number(),
                packet::DROPPED => p.dropped = value.number() != 0,
                packet::INTERNED => p.interned.push(value.bytes()),
                packet::DEFAULTS => p.defaults = Some(value.bytes()),
                packet::COMPRESSED if outermost => {
                    let packets = self.inflate(value.bytes())?;
                    self.trace(&packets, false)?;
                }
                packet::COMPRESSED_ZSTD => {
                    return Err(
                        "packets are compressed with zstd; convert with `traceconv decompress_packets`"
                            .into(),
                    );
                }
                packet::CLOCK_SNAPSHOT
                | packet::TRACK_EVENT
                | packet::RENDER_STAGE
                | packet::TRACK
                | packet::VULKAN => p.body = Some((field, value.bytes())),
                _ => {}
            }
        }
        self.state(&p);
        self.body(&p);
        Ok(())
    }

    fn inflate(&mut self, packed: &[u8]) -> Result<Vec<u8>, String> {
        let mut packets = Vec::new();
        let left = LARGEST_TRACE_BYTES.saturating_sub(self.unpacked);
        let read = flate2::read::ZlibDecoder::new(packed).take(left).read_to_end(&mut packets);
        self.unpacked += packets.len() as u64;
        match read {
            Ok(_) if self.unpacked < LARGEST_TRACE_BYTES => Ok(packets),
            Ok(_) => Err(format!(
                "longer than {} GiB when unpacked; record a shorter window",
                LARGEST_TRACE_BYTES >> 30
            )),
            Err(error) => {
                Err(format!("damaged compressed packets ({error}); copy or record the trace again"))
            }
        }
    }

    fn state(&mut self, p: &Packet<'_>) {
        if p.flags & STATE_CLEARED != 0 {
            // Numbers mean something else from here on, and drivers list their queues again.
            self.name_late(Some(p.sequence));
            self.lists.remove(&p.sequence);
        }
        let state = self.states.entry(p.sequence).or_default();
        if p.dropped {
            state.valid = false;
        }
        if p.flags & STATE_CLEARED != 0 {
            *state = State { valid: true, ..State::default() };
        }
        for data in &p.interned {
            state.intern(data, &mut self.out.annotations);
        }
        if let Some(defaults) = p.defaults {
            state.clock = number(defaults, packet::CLOCK);
            let event = Fields::of(defaults).flatten().find(|(field, _)| *field == 11);
            state.track = event.and_then(|(_, event)| number(event.bytes(), 11));
        }
    }

    fn body(&mut self, p: &Packet<'_>) {
        let Some((kind, bytes)) = p.body else { return };
        match kind {
            packet::CLOCK_SNAPSHOT => return self.clocks.snapshot(p.sequence, bytes),
            packet::TRACK => return self.track(bytes),
            _ => {}
        }
        let state = self.states.entry(p.sequence).or_default();
        let clock = p.clock.or(state.clock).unwrap_or(6);
        let unusable = p.flags & NEEDS_STATE != 0 && !state.valid;
        let Some(at) = self.clocks.time(p.sequence, clock, p.timestamp).filter(|_| !unusable)
        else {
            self.out.lost += 1;
            return;
        };
        match kind {
            packet::TRACK_EVENT => self.track_event(p.sequence, at, bytes),
            packet::RENDER_STAGE => self.stage(p.sequence, at, bytes),
            _ => self.submit(at, bytes),
        }
    }

    fn track(&mut self, bytes: &[u8]) {
        let (mut uuid, mut track) = (0, Track::default());
        for (field, value) in Fields::of(bytes).flatten() {
            match field {
                1 => uuid = value.number(),
                2 | 10 => track.name = value.text(),
                3 => {
                    track.process = number(value.bytes(), 1).map_or(0, signed);
                    if let (true, Some(name)) = (track.name.is_empty(), text(value.bytes(), 6)) {
                        track.name = name;
                    }
                }
                4 => {
                    track.process = number(value.bytes(), 1).map_or(0, signed);
                    track.thread = number(value.bytes(), 2).map(signed);
                    if let (true, Some(name)) = (track.name.is_empty(), text(value.bytes(), 5)) {
                        track.name = name;
                    }
                }
                5 => track.parent = value.number(),
                _ => {}
            }
        }
        self.out.tracks.insert(uuid, track);
    }

    fn track_event(&mut self, sequence: u64, at: i64, bytes: &[u8]) {
        let Some(state) = self.states.get(&sequence) else { return };
        // Events without a track are on their sequence's; uuids of tracks are random, these
        // are not.
        let mut slice = Slice {
            track: state.track.unwrap_or(sequence),
            start: at,
            end: at,
            name: Arc::from(""),
            category: Arc::from(""),
            notes: Vec::new(),
            launches: Vec::new(),
            awaits: Vec::new(),
        };
        let mut kind = 0;
        let known = |texts: &HashMap<u64, Arc<str>>, iid| {
            texts.get(&iid).cloned().unwrap_or_else(|| Arc::from(""))
        };
        for (field, value) in Fields::of(bytes).flatten() {
            match field {
                3 => slice.category = known(&state.categories, value.number()),
                4 => slice.notes.extend(state.note(value.bytes())),
                9 => kind = value.number(),
                10 => slice.name = known(&state.names, value.number()),
                11 => slice.track = value.number(),
                22 => slice.category = Arc::from(value.text()),
                23 => slice.name = Arc::from(value.text()),
                3000 => {
                    for (field, value) in Fields::of(value.bytes()).flatten() {
                        match field {
                            1 => value.add_to(&mut slice.launches),
                            2 => value.add_to(&mut slice.awaits),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        match kind {
            1 => self.open.entry(slice.track).or_default().push(slice),
            2 => match self.open.get_mut(&slice.track).and_then(Vec::pop) {
                Some(begun) if begun.start <= at => {
                    self.out.slices.push(Slice { end: at, ..begun })
                }
                _ => self.out.lost += 1,
            },
            3 => self.out.slices.push(slice),
            _ => {}
        }
    }

    fn stage(&mut self, sequence: u64, at: i64, bytes: &[u8]) {
        let (mut stage, mut queue, mut kind) = (None, None, None);
        let (mut old_queue, mut old_kind, mut length) = (0, 0, None);
        let (mut name, mut kernel, mut context) = (None, None, 0);
        let (mut gpu, mut event, mut submission, mut awaits) = (0, 0, 0, Vec::new());
        let Some(state) = self.states.get(&sequence) else { return };
        for (field, value) in Fields::of(bytes).flatten() {
            let number = value.number();
            match field {
                1 => event = number,
                2 => length = Some(number),
                3 => old_queue = number,
                4 => old_kind = number,
                5 => context = number,
                7 => stage = Some(value.bytes()),
                10 => submission = number,
                11 => gpu = signed(number),
                13 => queue = Some(number),
                14 => kind = Some(number),
                17 => name = Some(Arc::from(value.text())),
                18 => value.add_to(&mut awaits),
                19 => kernel = state.kernels.get(&number).cloned(),
                20 => name = state.names.get(&number).cloned(),
                _ => {}
            }
        }
        if let Some(specifications) = stage {
            let (queues, kinds) = lists(specifications);
            let known = self.lists.entry(sequence).or_default();
            known.0.extend(queues);
            known.1.extend(kinds);
        }
        // The packet that describes the queues has no length.
        let Some(length) = length.and_then(|length| i64::try_from(length).ok()) else { return };
        let queue = queue.map_or(Reference::Listed(old_queue), Reference::Interned);
        let kind = kind.map_or(Reference::Listed(old_kind), Reference::Interned);
        let named = self.name(sequence, queue, |lists| &lists.0);
        let own_name: Option<Arc<str>> = kernel.or(name);
        let kind_named = own_name.clone().or_else(|| self.name(sequence, kind, |lists| &lists.1));
        if named.is_none() || kind_named.is_none() {
            self.unnamed.push(Unnamed {
                stage: self.out.stages.len(),
                queue: named.is_none().then_some(queue),
                kind: kind_named.is_none().then_some(kind),
            });
        }
        let queue = named.unwrap_or_else(|| format!("queue {}", queue.number()).into());
        let name = kind_named.unwrap_or_else(|| Arc::from("stage"));
        let process = state.contexts.get(&context).copied().unwrap_or(0);
        let Some(end) = at.checked_add(length) else {
            self.out.lost += 1;
            return;
        };
        let queue = (sequence, queue);
        self.out.stages.push(Stage {
            start: at,
            end,
            queue,
            gpu,
            process,
            name,
            event,
            submission,
            awaits,
        });
    }

    /// The name of a queue or kind. A sequence without lists has the lists of the only sequence
    /// with some.
    fn name(
        &self,
        sequence: u64,
        of: Reference,
        list: impl Fn(&Lists) -> &Vec<Arc<str>>,
    ) -> Option<Arc<str>> {
        let place = match of {
            Reference::Interned(iid) => {
                return self.states.get(&sequence)?.specifications.get(&iid).cloned();
            }
            Reference::Listed(place) => usize::try_from(place).ok()?,
        };
        let own = self.lists.get(&sequence);
        let only = || self.lists.values().next().filter(|_| self.lists.len() == 1);
        list(own.or_else(only)?).get(place).cloned()
    }

    /// Gives stages of `sequence`, or of all, the names that came after them.
    fn name_late(&mut self, sequence: Option<u64>) {
        for late in std::mem::take(&mut self.unnamed) {
            let of = self.out.stages[late.stage].queue.0;
            if sequence.is_some_and(|sequence| sequence != of) {
                self.unnamed.push(late);
                continue;
            }
            let queue = late.queue.and_then(|queue| self.name(of, queue, |lists| &lists.0));
            let kind = late.kind.and_then(|kind| self.name(of, kind, |lists| &lists.1));
            let stage = &mut self.out.stages[late.stage];
            stage.queue.1 = queue.unwrap_or_else(|| Arc::clone(&stage.queue.1));
            stage.name = kind.unwrap_or_else(|| Arc::clone(&stage.name));
        }
    }

    fn submit(&mut self, at: i64, bytes: &[u8]) {
        let submits = Fields::of(bytes).flatten().filter(|(field, _)| *field == 2);
        for (_, submit) in submits {
            let number = |field| number(submit.bytes(), field).unwrap_or(0);
            let end = at.saturating_add(i64::try_from(number(1)).unwrap_or(0));
            self.out.submits.push(Submit {
                start: at,
                end,
                process: signed(number(2)),
                thread: signed(number(3)),
                submission: number(6),
            });
        }
    }
}

/// The queue or kind of a stage: an interned number, or in the old form a place in a list.
#[derive(Debug, Clone, Copy)]
enum Reference {
    Interned(u64),
    Listed(u64),
}

impl Reference {
    fn number(self) -> u64 {
        match self {
            Reference::Interned(number) | Reference::Listed(number) => number,
        }
    }
}

/// A stage without a name for its queue or kind so far.
struct Unnamed {
    stage: usize,
    queue: Option<Reference>,
    kind: Option<Reference>,
}

/// Queue and stage names of the old form, which events refer to by place.
type Lists = (Vec<Arc<str>>, Vec<Arc<str>>);

fn lists(specifications: &[u8]) -> Lists {
    let of = |wanted: u64| {
        (Fields::of(specifications).flatten())
            .filter(|(field, _)| *field == wanted)
            .map(|(_, value)| Arc::from(text(value.bytes(), 1).unwrap_or_default()))
            .collect()
    };
    (of(2), of(3))
}

impl State {
    fn intern(&mut self, data: &[u8], annotations: &mut Vec<String>) {
        for (field, value) in Fields::of(data).flatten() {
            let entry = value.bytes();
            let iid = number(entry, 1).unwrap_or(0);
            // Packets add to an entry: one without a name leaves the name that is there.
            let merge = |texts: &mut HashMap<u64, Arc<str>>, field| {
                if let Some(name) = text(entry, field) {
                    texts.insert(iid, Arc::from(name));
                }
            };
            match field {
                1 => merge(&mut self.categories, 2),
                2 => merge(&mut self.names, 2),
                3 => {
                    let name = text(entry, 2).unwrap_or_default();
                    let note = NOTES.iter().position(|note| *note == name).map(|k| NOTE_OF[k]);
                    if note.is_some() && !annotations.contains(&name) {
                        annotations.push(name);
                    }
                    self.notes.insert(iid, note);
                }
                23 => {
                    if let Some(process) = number(entry, 2) {
                        self.contexts.insert(iid, signed(process));
                    }
                }
                24 => merge(&mut self.specifications, 2),
                29 => merge(&mut self.texts, 2),
                1000 => merge(&mut self.kernels, if text(entry, 3).is_some() { 3 } else { 2 }),
                _ => {}
            }
        }
    }

    /// An annotation, if a reader uses it.
    fn note(&self, annotation: &[u8]) -> Option<(Note, NoteValue)> {
        let (mut note, mut read) = (None, None);
        for (field, value) in Fields::of(annotation).flatten() {
            match (field, value) {
                (1, _) => note = self.notes.get(&value.number()).copied().flatten(),
                (10, _) => note = NOTES.iter().position(|n| *n == value.text()).map(|k| NOTE_OF[k]),
                (2..=4 | 7, Value::Number(number)) => read = Some(NoteValue::Number(number)),
                (6, _) => read = Some(NoteValue::Text(Arc::from(value.text()))),
                (17, _) => read = self.texts.get(&value.number()).cloned().map(NoteValue::Text),
                _ => {}
            }
        }
        note.zip(read)
    }
}
