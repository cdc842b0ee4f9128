//! The platform's side of a trace: lanes, names and fences. Each agent records into its own
//! recorder, which is merged when the agent ends or the trace is taken. A recorder holds records of
//! one platform: a thread that goes on to another one gives them back first.

use crate::own_recorder::OwnRecorder;
use crate::{Instruments, Platform, PlatformKind, StepLog, current, findings, world};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use tidegate_trace::{
    ClockName, FenceId, Known, LaneId, LaneKind, LinkId, NameId, Part, QueueNumber, QueueTable,
    Queued, Record, SubmissionKey, Trace, TraceBuilder,
};

pub(crate) struct Tracing {
    /// Only records of what engines executed are kept.
    executions_only: AtomicBool,
    /// Created on first use: most explored machines are never traced.
    builder: Mutex<Option<Box<TraceBuilder>>>,
    queues: Mutex<QueueTable>,
    clock: ClockName,
    /// The last allocated link.
    links: AtomicU32,
    /// The last number of [`Platform::serial`].
    serials: AtomicU64,
    /// The number of traces that were taken. Each begins a new builder.
    taken: AtomicU32,
    /// Records for which a recording has room; 0 before the first one. Records then go to the
    /// builder, because its agents do not end.
    room: AtomicUsize,
}

/// A recording of a machine that goes on.
pub struct Recording {
    known: Known,
    began_ns: u64,
}

/// A fence of the timeline. Its number and name are kept while it exists, and afterwards if a
/// record may name it: while a timeline is on.
pub struct TracedFence {
    platform: Platform,
    id: FenceId,
    serial: u64,
    /// [`Tracing::taken`] at the registration.
    taken: u32,
}

impl TracedFence {
    /// Returns the number by which records name it.
    pub fn id(&self) -> FenceId {
        self.id
    }

    /// Returns a number that no other fence or object of this platform has or gets.
    pub fn serial(&self) -> u64 {
        self.serial
    }
}

impl Drop for TracedFence {
    fn drop(&mut self) {
        let Platform { inner } = &self.platform;
        let tracing = self.platform.tracing();
        let recorded = tracing && inner.tracing.room.load(Ordering::Relaxed) > 0;
        if tracing && !recorded {
            return;
        }
        inner.tracing.with_builder(|builder| {
            if inner.tracing.taken.load(Ordering::Relaxed) != self.taken {
                return;
            }
            match recorded {
                true => builder.end_fence(self.id),
                false => builder.remove_fence(self.id),
            }
        });
    }
}

/// A lane of the timeline that ends with its object. Its number is used again, unless a record may
/// name it: while a timeline is on.
pub struct TracedLane {
    platform: Platform,
    id: LaneId,
    serial: u64,
    /// [`Tracing::taken`] at the registration.
    taken: u32,
}

impl TracedLane {
    /// Returns the number by which records name it.
    pub fn id(&self) -> LaneId {
        self.id
    }

    /// Returns a number that no other lane or object of this platform has or gets.
    pub fn serial(&self) -> u64 {
        self.serial
    }
}

impl Drop for TracedLane {
    fn drop(&mut self) {
        let tracing = &self.platform.inner.tracing;
        if self.platform.tracing() {
            return;
        }
        tracing.queues().remove_lane(self.id);
        tracing.with_builder(|builder| {
            if tracing.taken.load(Ordering::Relaxed) == self.taken {
                builder.remove_lane(self.id);
            }
        });
    }
}

impl Tracing {
    pub(crate) fn new(clock: ClockName) -> Tracing {
        Tracing {
            executions_only: AtomicBool::new(false),
            builder: Mutex::new(None),
            queues: Mutex::new(QueueTable::new()),
            clock,
            links: AtomicU32::new(0),
            serials: AtomicU64::new(0),
            taken: AtomicU32::new(0),
            room: AtomicUsize::new(0),
        }
    }

    pub(crate) fn with_builder<R>(&self, f: impl FnOnce(&mut TraceBuilder) -> R) -> R {
        let mut builder = self.builder.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        f(builder.get_or_insert_with(|| Box::new(TraceBuilder::new("", self.clock))))
    }

    fn queues(&self) -> MutexGuard<'_, QueueTable> {
        self.queues.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Merges the records of the calling agent, which ends.
pub(crate) fn collect() {
    if let Some(own) = current::take_recorder() {
        own.give_back();
    }
}

impl Platform {
    /// Enables recording. Lanes registered before stay valid. An explored machine also starts its
    /// log of steps.
    pub fn enable_tracing(&self) {
        if self.kind() == PlatformKind::Explored {
            world::log_steps();
        }
        self.inner.switches.set_timeline(true);
    }

    /// Enables recording of what engines execute, for measurements: records of calls, waits,
    /// signals and interrupts are dropped, which are most of the memory of a long run.
    pub fn enable_tracing_of_executions(&self) {
        self.inner.tracing.executions_only.store(true, Ordering::Relaxed);
        self.enable_tracing();
    }

    /// Returns whether recording is enabled.
    #[inline]
    pub fn tracing(&self) -> bool {
        self.instruments().has_timeline()
    }

    /// Registers a lane of the timeline.
    pub fn lane(&self, kind: LaneKind, group: &str, name: &str) -> LaneId {
        self.inner.tracing.with_builder(|b| b.add_lane(kind, group, name))
    }

    /// Registers a lane of the timeline that ends with its object.
    pub fn trace_lane(&self, kind: LaneKind, group: &str, name: &str) -> TracedLane {
        let (tracing, serial) = (&self.inner.tracing, self.serial());
        // The builder's lock orders this with `take_trace`.
        let register = |b: &mut TraceBuilder| {
            (b.add_lane(kind, group, name), tracing.taken.load(Ordering::Relaxed))
        };
        let (id, taken) = tracing.with_builder(register);
        TracedLane { platform: self.clone(), id, serial, taken }
    }

    /// Returns a number that this platform gives to no other object.
    pub fn serial(&self) -> u64 {
        self.inner.tracing.serials.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Assigns the work of a queue to `lane`.
    pub fn assign_lane(&self, queue: QueueNumber, lane: LaneId) {
        self.inner.tracing.queues().assign_lane(queue, lane);
    }

    /// Returns the lane on which the work of a queue is drawn.
    pub fn lane_of(&self, queue: QueueNumber) -> Option<LaneId> {
        self.inner.tracing.queues().lane_of(queue)
    }

    /// Returns the queues whose work is drawn on `lane`.
    pub fn queues_on(&self, lane: LaneId) -> Vec<QueueNumber> {
        self.inner.tracing.queues().queues_on(lane)
    }

    /// Returns the lane of a queue while records are kept.
    #[inline]
    pub fn traced_lane_of(&self, queue: QueueNumber) -> Option<LaneId> {
        if self.tracing() { self.lane_of(queue) } else { None }
    }

    /// Records when a submission was queued. No effect while neither a timeline nor a hazard
    /// check needs it.
    #[inline]
    pub fn note_queued(&self, queue: QueueNumber, key: SubmissionKey, queued: Queued) {
        if self.instruments().follows_queued() {
            self.inner.tracing.queues().note_queued(queue, key, queued);
        }
    }

    /// Takes the record of a submission; the default if there is none. `on` is what the caller has
    /// read from [`Platform::instruments`].
    #[inline]
    pub fn take_queued(&self, on: Instruments, queue: QueueNumber, key: SubmissionKey) -> Queued {
        if !on.follows_queued() {
            return Queued::default();
        }
        self.inner.tracing.queues().take_queued(queue, key)
    }

    /// Registers a fence of the timeline.
    pub fn trace_fence(&self, name: &str) -> TracedFence {
        let tracing = &self.inner.tracing;
        // The builder's lock orders this with `take_trace`.
        let register =
            |b: &mut TraceBuilder| (b.add_fence(name), tracing.taken.load(Ordering::Relaxed));
        let (id, taken) = tracing.with_builder(register);
        TracedFence { platform: self.clone(), id, serial: self.serial(), taken }
    }

    /// Interns a name for records.
    pub fn trace_name(&self, name: &str) -> NameId {
        self.inner.tracing.with_builder(|b| b.name(name))
    }

    /// Takes the log of steps of an explored machine; empty for any other, and while tracing
    /// is off.
    pub fn take_steps(&self) -> StepLog {
        if self.kind() == PlatformKind::Explored { world::take_log() } else { StepLog::default() }
    }

    /// Returns an unused link; [`LinkId::NONE`] while neither a timeline nor a hazard check needs
    /// it.
    #[inline]
    pub fn new_link(&self) -> LinkId {
        if !self.instruments().follows_queued() {
            return LinkId::NONE;
        }
        LinkId(self.inner.tracing.links.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
    }

    /// Appends a record to the calling agent's own buffer, or to that of a recording. No effect
    /// while tracing is off.
    #[inline]
    pub fn record(&self, record: Record) {
        let dropped = || {
            let executions_only = self.inner.tracing.executions_only.load(Ordering::Relaxed);
            executions_only && !record.kind.is_of_execution()
        };
        if self.tracing() && !dropped() {
            let tracing = &self.inner.tracing;
            match tracing.room.load(Ordering::Relaxed) {
                0 => {
                    let push = |own: &mut _| OwnRecorder::push(own, self, record);
                    if let Some(before) = current::with_recorder(push) {
                        before.give_back();
                    }
                }
                room => tracing.with_builder(|b| b.push_bounded(record, room)),
            }
        }
    }

    /// Begins a recording of a machine that goes on. Records for which there is no `room` are
    /// counted as lost. Its platform makes no whole trace any more, and one recording at a time.
    pub fn begin_recording(&self, room: usize) -> Recording {
        let tracing = &self.inner.tracing;
        tracing.with_builder(TraceBuilder::begin_parts);
        tracing.room.store(room, Ordering::Relaxed);
        let recording = Recording { known: Known::default(), began_ns: self.stamp_ns() };
        self.inner.switches.set_timeline(true);
        recording
    }

    /// Takes what is new in a recording. Records that ended before its beginning, such as those of
    /// old log entries, are left out.
    pub fn take_recorded(&self, recording: &mut Recording) -> Part {
        let mut part = self.inner.tracing.with_builder(|b| b.take_part(&mut recording.known));
        part.records.retain(|record| record.end_ns >= recording.began_ns);
        part
    }

    /// Ends a recording.
    pub fn end_recording(&self) {
        let tracing = &self.inner.tracing;
        self.inner.switches.set_timeline(false);
        tracing.queues().clear_queued();
        tracing.with_builder(TraceBuilder::end_parts);
    }

    /// Merges the records of the caller and all ended agents. Called after [`Platform::run`]. What
    /// the hazard check has found is among [`Trace::findings`].
    ///
    /// # Panics
    ///
    /// In debug builds, if records contradict each other ([`Trace::contradictions`]).
    pub fn take_trace(&self, title: &str) -> Trace {
        let tracing = &self.inner.tracing;
        collect();
        tracing.queues().clear_queued();
        let empty = TraceBuilder::new("", tracing.clock);
        let take = |b: &mut TraceBuilder| {
            tracing.taken.fetch_add(1, Ordering::Relaxed);
            std::mem::replace(b, empty)
        };
        let mut trace = tracing.with_builder(take).finish();
        trace.title = title.to_owned();
        if let Some(report) = self.hazard_report() {
            findings::add(&mut trace, &report);
        }
        if cfg!(debug_assertions)
            && let Some(what) = trace.contradictions().first()
        {
            panic!("the timeline '{title}' contradicts itself: {}", trace.explain(*what));
        }
        trace
    }
}
