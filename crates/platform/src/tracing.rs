//! The platform's side of a trace: lanes, names and fences. Each agent records into its own
//! recorder, which is merged when the agent ends or the trace is taken. A recorder holds records of
//! one platform: a thread that goes on to another one gives them back first.

use crate::findings;
use crate::platform::{Instruments, Platform, PlatformKind};
use std::sync::atomic::Ordering;
use tidegate_machines::thread::OwnRecorder;
use tidegate_machines::{StepLog, thread, world};
use tidegate_trace::{
    FenceId, Known, LaneId, LaneKind, LinkId, NameId, Part, QueueNumber, Queued, Record,
    SubmissionKey, Trace, TraceBuilder,
};

/// A recording of a machine that goes on.
pub struct Recording {
    known: Known,
    began_ns: u64,
}

/// What the timeline knows a fence or a lane by.
struct Registered<I> {
    platform: Platform,
    id: I,
    serial: u64,
    /// `Timeline::taken` at the registration.
    taken: u32,
}

macro_rules! registered {
    ($(#[$doc:meta])* $Name:ident, $Id:ty) => {
        $(#[$doc])*
        pub struct $Name(Registered<$Id>);

        impl $Name {
            /// Returns the number by which records name it.
            pub fn id(&self) -> $Id {
                self.0.id
            }

            /// Returns a number that no other object of this platform has or gets.
            pub fn serial(&self) -> u64 {
                self.0.serial
            }
        }
    };
}

registered!(
    /// A fence of the timeline. Its number and name are kept while it exists, and afterwards if a
    /// record may name it: while a timeline is on.
    TracedFence,
    FenceId
);
registered!(
    /// A lane of the timeline that ends with its object. Its number is used again, unless a record
    /// may name it: while a timeline is on.
    TracedLane,
    LaneId
);

impl Drop for TracedFence {
    fn drop(&mut self) {
        let Registered { platform, id, taken, .. } = &self.0;
        let (timeline, tracing) = (&platform.inner.timeline, platform.tracing());
        let recorded = tracing && timeline.room.load(Ordering::Relaxed) > 0;
        if tracing && !recorded {
            return;
        }
        timeline.with_builder(|builder| match recorded {
            _ if timeline.taken.load(Ordering::Relaxed) != *taken => {}
            true => builder.end_fence(*id),
            false => builder.remove_fence(*id),
        });
    }
}

impl Drop for TracedLane {
    fn drop(&mut self) {
        let Registered { platform, id, taken, .. } = &self.0;
        let timeline = &platform.inner.timeline;
        if platform.tracing() {
            return;
        }
        timeline.queues().remove_lane(*id);
        timeline.with_builder(|builder| {
            if timeline.taken.load(Ordering::Relaxed) == *taken {
                builder.remove_lane(*id);
            }
        });
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
        self.inner.timeline.executions_only.store(true, Ordering::Relaxed);
        self.enable_tracing();
    }

    /// Returns whether recording is enabled.
    #[inline]
    pub fn tracing(&self) -> bool {
        self.instruments().has_timeline()
    }

    /// Registers a lane of the timeline.
    pub fn lane(&self, kind: LaneKind, group: &str, name: &str) -> LaneId {
        self.inner.timeline.with_builder(|b| b.add_lane(kind, group, name))
    }

    /// Registers a lane of the timeline that ends with its object.
    pub fn trace_lane(&self, kind: LaneKind, group: &str, name: &str) -> TracedLane {
        TracedLane(self.register(|builder| builder.add_lane(kind, group, name)))
    }

    fn register<I>(&self, add: impl FnOnce(&mut TraceBuilder) -> I) -> Registered<I> {
        let (timeline, serial) = (&self.inner.timeline, self.serial());
        // The builder's lock orders this with `take_trace`.
        let (id, taken) =
            timeline.with_builder(|b| (add(b), timeline.taken.load(Ordering::Relaxed)));
        Registered { platform: self.clone(), id, serial, taken }
    }

    /// Returns a number that this platform gives to no other object.
    pub fn serial(&self) -> u64 {
        self.inner.timeline.serials.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Assigns the work of a queue to `lane`.
    pub fn assign_lane(&self, queue: QueueNumber, lane: LaneId) {
        self.inner.timeline.queues().assign_lane(queue, lane);
    }

    /// Returns the lane on which the work of a queue is drawn.
    pub fn lane_of(&self, queue: QueueNumber) -> Option<LaneId> {
        self.inner.timeline.queues().lane_of(queue)
    }

    /// Returns the queues whose work is drawn on `lane`.
    pub fn queues_on(&self, lane: LaneId) -> Vec<QueueNumber> {
        self.inner.timeline.queues().queues_on(lane)
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
            self.inner.timeline.queues().note_queued(queue, key, queued);
        }
    }

    /// Takes the record of a submission; the default if there is none. `on` is what the caller has
    /// read from [`Platform::instruments`].
    #[inline]
    pub fn take_queued(&self, on: Instruments, queue: QueueNumber, key: SubmissionKey) -> Queued {
        if !on.follows_queued() {
            return Queued::default();
        }
        self.inner.timeline.queues().take_queued(queue, key)
    }

    /// Registers a fence of the timeline.
    pub fn trace_fence(&self, name: &str) -> TracedFence {
        TracedFence(self.register(|builder| builder.add_fence(name)))
    }

    /// Interns a name for records.
    pub fn trace_name(&self, name: &str) -> NameId {
        self.inner.timeline.with_builder(|b| b.name(name))
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
        LinkId(self.inner.timeline.links.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
    }

    /// Appends a record to the calling agent's own buffer, or to that of a recording. No effect
    /// while tracing is off.
    #[inline]
    pub fn record(&self, record: Record) {
        let dropped = || {
            let executions_only = self.inner.timeline.executions_only.load(Ordering::Relaxed);
            executions_only && !record.kind.is_of_execution()
        };
        if self.tracing() && !dropped() {
            let tracing = &self.inner.timeline;
            match tracing.room.load(Ordering::Relaxed) {
                0 => {
                    let push = |own: &mut _| OwnRecorder::push(own, &self.inner, record);
                    if let Some(before) = thread::with_recorder(push) {
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
        let tracing = &self.inner.timeline;
        tracing.with_builder(TraceBuilder::begin_parts);
        tracing.room.store(room, Ordering::Relaxed);
        let recording = Recording { known: Known::default(), began_ns: self.stamp_ns() };
        self.inner.switches.set_timeline(true);
        recording
    }

    /// Takes what is new in a recording. Records that ended before its beginning, for example of
    /// old log entries, are left out.
    pub fn take_recorded(&self, recording: &mut Recording) -> Part {
        let mut part = self.inner.timeline.with_builder(|b| b.take_part(&mut recording.known));
        part.records.retain(|record| record.end_ns >= recording.began_ns);
        part
    }

    /// Ends a recording.
    pub fn end_recording(&self) {
        let tracing = &self.inner.timeline;
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
        let tracing = &self.inner.timeline;
        thread::collect();
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
