//! The data model of a trace: lanes, fences, kinds, records and the links between records.
//!
//! - A record is small and `Copy`, so recording is one store into a buffer. Its strings are
//!   interned.
//! - A record has three times: queued, started, done. The box of a queue's lane runs from the first
//!   to the last.
//! - A finished [`Trace`] is immutable for its writers.
//!
//! Entry points: [`Record::span`], [`Record::instant`], and [`crate::TraceBuilder`], which makes a
//! [`Trace`].

use crate::critical_path::PathPart;
use crate::finding::{Finding, MissingEdge};
use crate::names::{NameId, Names};
use serde::{Deserialize, Serialize};

/// A lane of the timeline: index into [`Trace::lanes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LaneId(pub u32);

/// A fence of the timeline: index into [`Trace::fences`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FenceId(pub u32);

/// Joins the records of one submission: the CPU call, its box on the queue, its boxes on the
/// engine. A store and the flush that makes it visible share a link too. Unique within a trace; 0
/// is not a link.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct LinkId(pub u32);

impl LinkId {
    /// The record belongs to no submission.
    pub const NONE: LinkId = LinkId(0);

    /// Whether the record belongs to a submission or a store.
    pub fn is_some(self) -> bool {
        self != LinkId::NONE
    }
}

/// Defines an enum whose variants have labels, in the order of its `u8` values.
#[macro_export]
macro_rules! labelled {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $($(#[$of:meta])* $variant:ident = $label:literal,)* }
    ) => {
        $(#[$meta])*
        pub enum $name { $($(#[$of])* $variant,)* }

        impl $name {
            /// Every variant, in order.
            pub const ALL: [$name; [$($name::$variant),*].len()] = [$($name::$variant),*];

            /// Its label in reports, files and timelines.
            pub fn label(self) -> &'static str {
                match self { $($name::$variant => $label,)* }
            }
        }
    };
}

labelled! {
    /// Kinds of lanes.
    #[derive(
        Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
    )]
    pub enum LaneKind {
        /// A thread of a program: calls, CPU waits and CPU signals.
        CpuThread = "CPU thread",
        /// A queue: boxes run from queued to executed.
        Queue = "queue",
        /// An engine: boxes run from start to end of execution.
        Engine = "engine",
        /// An interrupt line with its deferred calls.
        Interrupt = "interrupt",
        /// A display: flips from their call to the vertical sync that latched them, and vertical
        /// syncs.
        Display = "display",
    }
}

/// One row of the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Its own index in [`Trace::lanes`].
    pub id: LaneId,
    /// Its kind.
    pub kind: LaneKind,
    /// Its name, such as `main` or `compute`.
    pub name: String,
    /// Its process or adapter. Lanes of one group are drawn together.
    pub group: String,
}

/// A fence that records refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Its name in the workload.
    pub name: String,
}

labelled! {
    /// Kinds of records.
    #[derive(
        Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
    )]
    pub enum Kind {
        /// A command buffer or packet as a whole.
        Execute = "execute",
        /// A copy between buffers.
        Copy = "copy",
        /// A fill of a buffer.
        Fill = "fill",
        /// A dispatch of a compute program.
        Dispatch = "dispatch",
        /// A draw.
        Draw = "draw",
        /// Work of a stated duration, for modelling.
        Timed = "timed",
        /// A wait on a queue: from the moment it heads the queue until it is unblocked.
        Wait = "wait",
        /// A signal on a queue.
        Signal = "signal",
        /// A CPU thread waits for a fence.
        CpuWait = "CPU wait",
        /// A CPU thread signals a fence.
        CpuSignal = "CPU signal",
        /// A submission as the CPU sees it.
        Submit = "submit",
        /// A call into the graphics kernel.
        KernelCall = "kernel call",
        /// An interrupt service routine.
        Interrupt = "interrupt",
        /// A deferred procedure call.
        Dpc = "DPC",
        /// A doorbell rung.
        Doorbell = "doorbell",
        /// A CPU write through a mapping.
        MapWrite = "map-write",
        /// A mark set by the workload.
        Mark = "mark",
        /// Lost records; `arg` is their number.
        Lost = "lost records",
        /// A wait was queued (FENCE_WAIT_QUEUED). It is joined with its [`Kind::Wait`] when the
        /// trace is finished. Without one it runs to the end of the trace.
        WaitQueued = "wait queued",
        /// A signal was queued (FENCE_SIGNAL_QUEUED), likewise.
        SignalQueued = "signal queued",
        /// A picture, from the call that presents it to the vertical sync that latches it.
        Flip = "flip",
        /// A vertical sync of a display.
        VSync = "vsync",
        /// Time in which the recorded engine had no work, kept by the replay. Drawn hatched, and
        /// not busy time.
        Gap = "gap",
        /// Work that was pending when the run ended. It runs from queued to the end of the trace.
        NeverRan = "never ran",
        /// A preemption, from the time at which the engine left the work to its return.
        Preempted = "preempted",
        /// A recovery, from the detection to the end of the reset. Drawn as a band over all lanes
        /// of its group.
        Recovery = "recovery",
        /// One step of a replayed schedule.
        Step = "step",
        /// A store of a replayed schedule. Its [`Kind::Flush`] has the same link.
        Store = "store",
        /// A store buffer's entry becomes visible to other agents.
        Flush = "flush",
        /// A command buffer was queued; `name` names its list. When the trace is finished it
        /// is joined with its [`Kind::Execute`], or becomes a [`Kind::NeverRan`]: no finished trace
        /// has one.
        ExecuteQueued = "execute queued",
    }
}

impl Kind {
    /// Whether a record of this kind waits for a fence.
    pub fn is_wait(self) -> bool {
        matches!(self, Kind::Wait | Kind::CpuWait)
    }

    /// Whether a record of this kind signals a fence.
    pub fn is_signal(self) -> bool {
        matches!(self, Kind::Signal | Kind::CpuSignal)
    }

    /// Whether a record of this kind says what an engine executed, for which times of queues and
    /// work are measured.
    pub fn is_of_execution(self) -> bool {
        let beside_work =
            matches!(self, Kind::ExecuteQueued | Kind::Gap | Kind::Preempted | Kind::Lost);
        self.is_work() || beside_work
    }

    /// Whether an engine works while a record of this kind runs. Gaps and waits are not work.
    pub fn is_work(self) -> bool {
        matches!(
            self,
            Kind::Execute | Kind::Copy | Kind::Fill | Kind::Dispatch | Kind::Draw | Kind::Timed
        )
    }
}

/// One operation on one lane. Times are nanoseconds since the start of the run, or steps where the
/// trace's clock is [`ClockName::Steps`]. An instant has `start_ns == end_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Record {
    /// Its lane.
    pub lane: LaneId,
    /// Its kind.
    pub kind: Kind,
    /// Its name; empty if the kind suffices.
    pub name: NameId,
    /// Its submission.
    pub link: LinkId,
    /// The number of its queue's lane plus one, or 0.
    queue: u32,
    /// When it was queued (for a native fence, the CPU time at which the instruction was inserted).
    /// Equal to `start_ns` for records that are not queued. On an engine's lane, the first start of
    /// the command: a preempted command has a record for each stretch of execution.
    pub queued_ns: u64,
    /// When it began: the engine takes a command, a wait heads its queue, a call enters.
    pub start_ns: u64,
    /// When it ended: executed, unblocked, returned.
    pub end_ns: u64,
    /// The number of the fence that it waits for or signals plus one, or 0.
    fence: u32,
    /// The value that it waits for or signals; 0 without a fence.
    value: u64,
    /// An extra number that depends on the kind, such as bytes of a copy or the count of lost
    /// records; 0 for none. For a command buffer it is the number of its engine's lane plus one.
    pub arg: u64,
}

// One line of the cache, and what bounds the memory of a long recording.
const _: () = assert!(size_of::<Record>() == 64);

impl Record {
    /// A record from `start_ns` to `end_ns` that was not queued.
    pub fn span(lane: LaneId, kind: Kind, name: NameId, start_ns: u64, end_ns: u64) -> Record {
        Record {
            lane,
            kind,
            name,
            link: LinkId::NONE,
            queue: 0,
            queued_ns: start_ns,
            start_ns,
            end_ns,
            fence: 0,
            value: 0,
            arg: 0,
        }
    }

    /// An instant.
    pub fn instant(lane: LaneId, kind: Kind, name: NameId, at_ns: u64) -> Record {
        Record::span(lane, kind, name, at_ns, at_ns)
    }

    /// The same, queued at `queued_ns`.
    pub fn queued(mut self, queued_ns: u64) -> Record {
        self.queued_ns = queued_ns;
        self
    }

    /// The same, with the lane of its queue.
    pub fn for_queue(self, queue: LaneId) -> Record {
        self.on_queue(Some(queue))
    }

    /// The same, waiting for or signaling `fence` with `value`.
    pub fn on_fence(self, fence: FenceId, value: u64) -> Record {
        self.on(Some((fence, value)))
    }

    /// The same, as a part of the submission `link`.
    pub fn linked(mut self, link: LinkId) -> Record {
        self.link = link;
        self
    }

    /// The same, with the lane of its queue if it has one.
    pub fn on_queue(mut self, queue: Option<LaneId>) -> Record {
        self.queue = queue.map_or(0, |queue| queue.0 + 1);
        self
    }

    /// The same, with a fence if there is one.
    pub fn on(mut self, fence: Option<(FenceId, u64)>) -> Record {
        (self.fence, self.value) = fence.map_or((0, 0), |(fence, value)| (fence.0 + 1, value));
        self
    }

    /// The same, with its extra number.
    pub fn with_arg(mut self, arg: u64) -> Record {
        self.arg = arg;
        self
    }

    /// The same command buffer, executed by an engine.
    pub fn on_engine(self, engine: LaneId) -> Record {
        self.with_arg(u64::from(engine.0) + 1)
    }

    /// Its queue, on records of engines and of submitting calls.
    pub fn queue(&self) -> Option<LaneId> {
        self.queue.checked_sub(1).map(LaneId)
    }

    /// The fence it waits for or signals, and the value.
    pub fn fence(&self) -> Option<(FenceId, u64)> {
        self.fence.checked_sub(1).map(|fence| (FenceId(fence), self.value))
    }

    /// The lane of the engine that executed it, if it is a command buffer.
    pub fn engine(&self) -> Option<LaneId> {
        let lane = self.arg.checked_sub(1).filter(|_| self.kind == Kind::Execute)?;
        u32::try_from(lane).ok().map(LaneId)
    }

    /// Its duration; 0 for an instant, and for a record whose clocks disagree.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Time in its queue before it began.
    pub fn pending_ns(&self) -> u64 {
        self.start_ns.saturating_sub(self.queued_ns)
    }
}

labelled! {
    /// Clock of a trace.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ClockName {
        /// Time of the host.
        Wall = "wall clock",
        /// Modelled time.
        Virtual = "virtual clock",
        /// Steps of a replayed schedule: every time of the trace is a number of steps.
        Steps = "steps",
    }
}

impl ClockName {
    /// The unit of one tick.
    pub fn unit(self) -> &'static str {
        match self {
            ClockName::Wall | ClockName::Virtual => "ns",
            ClockName::Steps => "step",
        }
    }
}

/// A stretch of the critical path. Times are on the trace's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Its part.
    pub part: PathPart,
    /// Its start.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// The lane of what took the time; `None` for time without a cause.
    pub lane: Option<LaneId>,
    /// The record that took the time; `None` for the time of a thread between its calls.
    pub record: Option<usize>,
}

/// A whole run, ready to be written.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Name of the run: the page's title.
    pub title: String,
    /// Its clock.
    pub clock: ClockName,
    /// The verdict, in sentences that are shown above the timeline. Empty if the run was not
    /// judged.
    pub verdict: Vec<String>,
    /// Its lanes, in the order in which they are drawn.
    pub lanes: Vec<Lane>,
    /// Its fences.
    pub fences: Vec<Fence>,
    /// The names of its records.
    pub names: Names,
    /// Its records, sorted by `start_ns`; records of one moment stay in the order in which they
    /// were appended.
    pub records: Vec<Record>,
    /// Number of missing records (an overrun log, a record of an unknown lane).
    pub lost_records: u64,
    /// What checks of the run found.
    pub findings: Vec<Finding>,
    /// The critical path in the order of time, without overlaps; empty if the run was not accounted
    /// for.
    pub critical_path: Vec<Stretch>,
}

impl Trace {
    /// The name of a record; empty for none.
    pub fn name_of(&self, record: &Record) -> &str {
        self.names.get(record.name)
    }

    /// Earliest and latest time of all records; `None` without a record.
    pub fn extent_ns(&self) -> Option<(u64, u64)> {
        let first = self.records.iter().map(|r| r.queued_ns.min(r.start_ns)).min()?;
        let last = self.records.iter().map(|r| r.end_ns.max(r.start_ns)).max()?;
        Some((first, last))
    }

    /// Adds a finding; records of other indices are left out of it.
    pub fn add_finding(&mut self, mut finding: Finding) {
        let count = self.records.len();
        finding.records.retain(|index| *index < count);
        finding.edges.retain(|edge| edge.from < count && edge.to < count);
        self.findings.push(finding);
    }

    /// The records of an edge in the order of their starts, for files whose arrows run forward.
    pub(crate) fn forward(&self, edge: MissingEdge) -> [usize; 2] {
        let mut ends = [edge.from, edge.to];
        ends.sort_by_key(|index| (self.records[*index].start_ns, *index));
        ends
    }

    /// Where a finding is shown if it is shown at one moment: at its first record.
    pub(crate) fn moment_of(&self, finding: &Finding) -> u64 {
        let starts = finding.records.iter().map(|index| self.records[*index].start_ns);
        starts.min().or_else(|| self.extent_ns().map(|(first, _)| first)).unwrap_or(0)
    }
}
