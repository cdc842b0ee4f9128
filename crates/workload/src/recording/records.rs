//! The neutral form of a recorded run: GPU work, host calls, and the recorded order between them.
//!
//! Purpose: every reader of a trace format fills a [`Recording`]; `correlate` reads it. Invariants:
//! times are nanoseconds since one arbitrary origin per recording, with `end >= start`. Names,
//! streams, tracks and events are interned, so a record holds 32-bit ids. The process of work is
//! that of its stream, the process of a call that of its track; a correlation id is unique within a
//! process only. Entry points: [`Recording::work`], [`Recording::call`], [`Recording::sync`],
//! [`Recording::record_event`], [`Recording::depends`] and the interning methods. [`Recording::at`]
//! precedes them and sets the place for messages.

use std::hash::Hash;
use std::sync::Arc;

use foldhash::HashMap;

use super::call::Call;
pub use crate::model::recorded::WorkKind;
use crate::model::recorded::{Damage, Extent, Fault, Position, Remark, Source};

/// Defines an index into a list of the recording.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u32);

        impl $name {
            /// The id of the entry at `index`.
            ///
            /// # Panics
            /// When the index exceeds 32 bits; the size limit of a trace file excludes it.
            pub fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("a recording has fewer than 2^32 records of a kind"))
            }

            /// The place in its list.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// An interned text.
    NameId
    /// An interned process.
    ProcessId
    /// An interned stream (a hardware or software queue of the recorded program).
    StreamId
    /// An interned host thread.
    TrackId
    /// An interned event object of the recorded program.
    EventId
    /// A host call, in the order of its addition.
    CallId
    /// A piece of GPU work, in the order of its addition.
    WorkId
}

/// Kinds of synchronisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SyncKind {
    /// A stream waits for an event.
    StreamWaitEvent,
    /// The host waits for an event.
    Event,
    /// The host waits for a stream.
    Stream,
    /// The host waits for a context or device.
    Context,
}

/// The key of a stream. A format without contexts uses one value for all streams of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamKey {
    /// The process that owns it.
    pub process: ProcessId,
    /// The context's number.
    pub context: i64,
    /// The stream's number in its context.
    pub stream: i64,
}

/// A stream and the device that runs it.
#[derive(Debug, Clone)]
pub struct StreamFacts {
    /// Its key.
    pub key: StreamKey,
    /// The device's number in its process.
    pub device: i64,
    /// A name from the format; `None` for one made of the numbers.
    pub name: Option<String>,
}

/// The key of an event object. The reader sets `context` to 0 where event ids are unique per
/// process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventKey {
    /// The process that owns it.
    pub process: ProcessId,
    /// The context's number, or 0.
    pub context: i64,
    /// The event's number.
    pub event: i64,
}

/// A host thread.
#[derive(Debug, Clone)]
pub struct TrackFacts {
    /// Its process.
    pub process: ProcessId,
    /// Its name for display.
    pub name: String,
}

/// The recorded host call that launched a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launcher {
    /// Not recorded.
    Unknown,
    /// The call of the same process with this correlation id; of several, the last that began
    /// before the work.
    Correlation(i64),
    /// This call.
    Call(CallId),
}

/// A piece of GPU work.
#[derive(Debug, Clone, Copy)]
pub struct WorkRecord {
    /// Kind of work.
    pub kind: WorkKind,
    /// The kernel's name, or the direction of a copy.
    pub name: NameId,
    /// The stream that ran it.
    pub stream: StreamId,
    /// When it started, in nanoseconds.
    pub start: i64,
    /// When it ended, no earlier than `start`.
    pub end: i64,
    /// The call that launched it.
    pub launcher: Launcher,
}

/// A host call.
#[derive(Debug, Clone, Copy)]
pub struct CallRecord {
    /// Its effect on streams; [`super::call()`] derives it from the name.
    pub call: Call,
    /// The thread that made it.
    pub track: TrackId,
    /// When it began, in nanoseconds.
    pub start: i64,
    /// When it returned, no earlier than `start`.
    pub end: i64,
    /// Its number, unique in its process.
    pub correlation: Option<i64>,
}

/// A record's reference to its host call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallRef {
    /// The last call of the process with this correlation id.
    Correlation(ProcessId, i64),
    /// This call.
    Call(CallId),
}

/// The event record that a wait is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// The record call of the waiter's process with this correlation id.
    Correlation(i64),
    /// This record call.
    Call(CallId),
    /// The record of this event with this sequence number; without a number, the last one before
    /// the wait.
    Event(EventId, Option<i64>),
}

/// A synchronisation: the stream or event of a host call.
#[derive(Debug, Clone, Copy)]
pub struct SyncRecord {
    /// The call that waits, or that makes a stream wait.
    pub call: CallRef,
    /// The recorded kind. For stream waits it must agree with the call.
    pub kind: SyncKind,
    /// The device that a host wait is for.
    pub device: Option<i64>,
    /// The stream that waits, or that the host waits for.
    pub stream: Option<StreamId>,
    /// The event record that is waited for.
    pub awaited: Option<Awaited>,
    /// The stream on which the awaited event was recorded, if the wait has it.
    pub awaited_stream: Option<StreamId>,
}

/// The event and the stream of a record call.
#[derive(Debug, Clone, Copy)]
pub struct EventRecord {
    /// The record call.
    pub call: CallRef,
    /// The event.
    pub event: EventId,
    /// Distinguishes records of one event, where the format numbers them.
    pub sequence: Option<i64>,
    /// The stream on which it is recorded.
    pub stream: StreamId,
}

/// A present call of a swap chain.
#[derive(Debug, Clone, Copy)]
pub struct PresentRecord {
    /// The call.
    pub call: CallId,
    /// The stream that rendered the frame.
    pub stream: StreamId,
    /// Vertical syncs between the previous frame and this one, at least; from 0 to 4.
    pub interval: u32,
    /// When the frame was on the screen, in nanoseconds; `None` for a dropped frame.
    pub shown: Option<i64>,
}

/// The display of a recording.
#[derive(Debug, Clone, Copy)]
pub struct DisplayFacts {
    /// The stream whose presents it shows.
    pub stream: StreamId,
    /// Refresh period in nanoseconds.
    pub refresh_ns: u64,
    /// The time of one vertical sync, in nanoseconds.
    pub vsync: i64,
    /// Presents in flight above which a presenting thread blocks, from 1 to 14.
    pub latency: u32,
}

/// A list of distinct values with their ids.
#[derive(Debug)]
struct Interned<K> {
    ids: HashMap<K, u32>,
}

impl<K> Default for Interned<K> {
    fn default() -> Self {
        Self { ids: HashMap::default() }
    }
}

impl<K: Eq + Hash> Interned<K> {
    /// The index of `key`, and whether it is new.
    fn index(&mut self, key: K) -> (usize, bool) {
        let next = self.ids.len();
        let index = *self.ids.entry(key).or_insert_with(|| NameId::new(next).0);
        (index as usize, index as usize == next)
    }
}

/// A recorded run.
#[derive(Debug, Default)]
pub struct Recording {
    /// The format of the file.
    pub source: Source,
    /// Facts that the file lacks, for the report.
    pub remarks: Vec<Remark>,
    /// Events or rows in the file, for the report.
    pub events: u64,
    /// Damaged events, which are left out.
    pub damage: Damage,
    /// The event that is being read.
    position: Option<Position>,
    pub(super) extent: Extent,
    /// GPU work, in any order.
    pub work: Vec<WorkRecord>,
    /// Host calls, in any order.
    pub calls: Vec<CallRecord>,
    /// Synchronisations.
    pub syncs: Vec<SyncRecord>,
    /// Event records, beside their calls.
    pub event_records: Vec<EventRecord>,
    /// Explicit dependencies: the first started only after the second had ended.
    pub dependencies: Vec<(WorkId, WorkId)>,
    /// Presents, beside their calls.
    pub presents: Vec<PresentRecord>,
    /// The display, if the recording has one.
    pub display: Option<DisplayFacts>,
    /// Streams by [`StreamId`].
    pub streams: Vec<StreamFacts>,
    /// Host threads by [`TrackId`].
    pub tracks: Vec<TrackFacts>,
    /// Texts by [`NameId`].
    pub names: Vec<Arc<str>>,
    name_ids: HashMap<Arc<str>, NameId>,
    process_ids: Interned<i64>,
    /// Process numbers as recorded, by [`ProcessId`].
    pub processes: Vec<i64>,
    stream_ids: Interned<StreamKey>,
    track_ids: Interned<(ProcessId, i64)>,
    event_ids: Interned<EventKey>,
}

impl Recording {
    /// An empty recording of a format.
    pub fn of(source: Source) -> Self {
        Self { source, ..Self::default() }
    }

    /// Interns a text.
    pub fn name(&mut self, text: &str) -> NameId {
        if let Some(name) = self.name_ids.get(text) {
            return *name;
        }
        let name = NameId::new(self.names.len());
        let text: Arc<str> = Arc::from(text);
        self.names.push(Arc::clone(&text));
        self.name_ids.insert(text, name);
        name
    }

    /// The text of a name.
    pub fn text(&self, name: NameId) -> &Arc<str> {
        &self.names[name.index()]
    }

    /// Interns a process by its recorded number.
    pub fn process(&mut self, number: i64) -> ProcessId {
        let (index, new) = self.process_ids.index(number);
        if new {
            self.processes.push(number);
        }
        ProcessId::new(index)
    }

    /// Interns a stream. `device` counts at its first mention; [`Recording::streams`] can be
    /// amended later.
    pub fn stream(&mut self, key: StreamKey, device: i64) -> StreamId {
        let (index, new) = self.stream_ids.index(key);
        if new {
            self.streams.push(StreamFacts { key, device, name: None });
        }
        StreamId::new(index)
    }

    /// Interns a host thread by its number. Its name is `thread NUMBER` until [`Recording::tracks`]
    /// is amended.
    pub fn track(&mut self, process: ProcessId, thread: i64) -> TrackId {
        let (index, new) = self.track_ids.index((process, thread));
        if new {
            self.tracks.push(TrackFacts { process, name: format!("thread {thread}") });
        }
        TrackId::new(index)
    }

    /// Interns an event object.
    pub fn event(&mut self, key: EventKey) -> EventId {
        EventId::new(self.event_ids.index(key).0)
    }

    /// Adds a remark about `count` things, unless there are none.
    pub fn remark(&mut self, count: u64, remark: impl FnOnce(u64) -> Remark) {
        if count > 0 {
            self.remarks.push(remark(count));
        }
    }

    /// Sets the position of the event whose records follow.
    pub fn at(&mut self, position: Position) {
        self.position = Some(position);
    }

    /// Counts the event at the current position as damaged. The reader leaves it out.
    pub fn damaged(&mut self, name: &str, field: &'static str, value: &str, fault: Fault) {
        if let Some(position) = self.position {
            self.damage.add(Some(position), name, field, value, fault);
        }
    }

    /// Adds GPU work.
    pub fn work(&mut self, work: WorkRecord) -> WorkId {
        self.extent.add(work.start, work.end, self.position);
        self.work.push(work);
        WorkId::new(self.work.len() - 1)
    }

    /// Adds a host call.
    pub fn call(&mut self, call: CallRecord) -> CallId {
        self.extent.add(call.start, call.end, self.position);
        self.calls.push(call);
        CallId::new(self.calls.len() - 1)
    }

    /// Adds a synchronisation.
    pub fn sync(&mut self, sync: SyncRecord) {
        self.syncs.push(sync);
    }

    /// Adds an event record.
    pub fn record_event(&mut self, record: EventRecord) {
        self.event_records.push(record);
    }

    /// Adds a dependency: `waiter` started only after `awaited` had ended. Work of one stream is
    /// ordered by its starts without dependencies.
    pub fn depends(&mut self, waiter: WorkId, awaited: WorkId) {
        self.dependencies.push((waiter, awaited));
    }

    /// Adds a present.
    pub fn present(&mut self, present: PresentRecord) {
        self.presents.push(present);
    }

    /// The device of a stream.
    pub fn device(&self, stream: StreamId) -> i64 {
        self.streams[stream.index()].device
    }

    /// The process of a piece of work.
    pub fn process_of_work(&self, work: &WorkRecord) -> ProcessId {
        self.streams[work.stream.index()].key.process
    }

    /// The process of a host call.
    pub fn process_of_call(&self, call: &CallRecord) -> ProcessId {
        self.tracks[call.track.index()].process
    }
}
