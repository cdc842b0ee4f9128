//! The data model of a trace: lanes, fences, kinds, records and the links between records.
//!
//! - A record is small and `Copy`: recording is one store into a buffer. Its strings are interned
//!   before.
//! - A record has three times: queued, started, done. The box of a queue's lane runs from the first
//!   to the last.
//! - A finished [`Trace`] is immutable for its writers.
//!
//! Entry points: [`Record::span`], [`Record::instant`], and [`crate::TraceBuilder`], which makes a
//! [`Trace`].

use crate::names::{NameId, Names};

/// A lane of the timeline: index into [`Trace::lanes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneId(pub u32);

/// A fence of the timeline: index into [`Trace::fences`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FenceId(pub u32);

/// Joins the records of one submission: the CPU call, its box on the queue, its boxes on the
/// engine. A store and the flush that makes it visible share a link too. Unique within a trace; 0
/// is no link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

            /// The words of reports, files and timelines.
            pub fn label(self) -> &'static str {
                match self { $($name::$variant => $label,)* }
            }
        }
    };
}

labelled! {
    /// What a lane stands for; it decides how the lane is drawn.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum LaneKind {
        /// A thread of a program: calls, CPU waits and CPU signals.
        CpuThread = "CPU thread",
        /// A queue: boxes run from queued to executed and pile up while they pend.
        Queue = "queue",
        /// An engine: boxes run from start to end of execution.
        Engine = "engine",
        /// An interrupt line with its deferred calls.
        Interrupt = "interrupt",
        /// A display: flips from their call to the vertical sync that latched them, and vertical syncs.
        Display = "display",
    }
}

/// One row of the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Its own index in [`Trace::lanes`].
    pub id: LaneId,
    /// What it stands for.
    pub kind: LaneKind,
    /// What it is called, such as `main` or `compute`.
    pub name: String,
    /// What it belongs to: a process or an adapter. Lanes of one group are drawn together.
    pub group: String,
}

/// A fence that records refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// What the workload calls it.
    pub name: String,
}

labelled! {
    /// What a record is about.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
        /// A place where records were lost; `arg` is how many.
        Lost = "lost records",
        /// A wait was queued (FENCE_WAIT_QUEUED). It is joined with its [`Kind::Wait`] when the trace
        /// is finished. One that stays was not seen to end, and runs to the end of the trace.
        WaitQueued = "wait queued",
        /// A signal was queued (FENCE_SIGNAL_QUEUED), likewise.
        SignalQueued = "signal queued",
        /// A picture, from the call that presents it to the vertical sync that latches it.
        Flip = "flip",
        /// A vertical sync of a display.
        VSync = "vsync",
        /// Time in which the recorded engine had no work, kept by the replay. Drawn hatched, and not
        /// busy time.
        Gap = "gap",
        /// Work that was queued and not done when the run ended. It runs from queued to the end of the
        /// trace.
        NeverRan = "never ran",
        /// The engine left this work in the middle; from leaving it to coming back.
        Preempted = "preempted",
        /// A recovery, from the detection to the end of the reset. Drawn as a band over all lanes of
        /// its group.
        Recovery = "recovery",
        /// One step of a replayed schedule.
        Step = "step",
        /// A store of a replayed schedule. Its [`Kind::Flush`] has the same link.
        Store = "store",
        /// A store buffer's entry becomes visible to other agents.
        Flush = "flush",
        /// A command buffer was queued; `name` is that of its list. When the trace is finished it is
        /// joined with its [`Kind::Execute`], or becomes a [`Kind::NeverRan`]: no finished trace has
        /// one.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Where it is drawn.
    pub lane: LaneId,
    /// What it is.
    pub kind: Kind,
    /// What it is called; the empty name where the kind says enough.
    pub name: NameId,
    /// The submission that it belongs to.
    pub link: LinkId,
    /// The queue that it was done for, or given to: on records of engines and of submitting calls.
    pub queue: Option<LaneId>,
    /// When it was queued (for a native fence, the CPU time at which the instruction was inserted).
    /// Equal to `start_ns` where nothing is queued. On an engine's lane, when the command first
    /// began: a command that was preempted has a record for each stretch of execution.
    pub queued_ns: u64,
    /// When it began: a command is taken by the engine, a wait heads its queue, a call enters.
    pub start_ns: u64,
    /// When it was done: executed, unblocked, returned.
    pub end_ns: u64,
    /// The fence it waits for or signals, and the value.
    pub fence: Option<(FenceId, u64)>,
    /// One number more: bytes of a copy, count of lost records, whatever the kind calls for; 0
    /// where nothing does.
    pub arg: u64,
}

impl Record {
    /// A record from `start_ns` to `end_ns` that never stood in a queue.
    pub fn span(lane: LaneId, kind: Kind, name: NameId, start_ns: u64, end_ns: u64) -> Record {
        let (link, queue, fence) = (LinkId::NONE, None, None);
        Record {
            lane,
            kind,
            name,
            link,
            queue,
            queued_ns: start_ns,
            start_ns,
            end_ns,
            fence,
            arg: 0,
        }
    }

    /// A record of one moment.
    pub fn instant(lane: LaneId, kind: Kind, name: NameId, at_ns: u64) -> Record {
        Record::span(lane, kind, name, at_ns, at_ns)
    }

    /// The same, queued at `queued_ns`.
    pub fn queued(mut self, queued_ns: u64) -> Record {
        self.queued_ns = queued_ns;
        self
    }

    /// The same, done for or given to the queue of this lane.
    pub fn for_queue(mut self, queue: LaneId) -> Record {
        self.queue = Some(queue);
        self
    }

    /// The same, waiting for or signaling `fence` with `value`.
    pub fn on_fence(mut self, fence: FenceId, value: u64) -> Record {
        self.fence = Some((fence, value));
        self
    }

    /// The same, as a part of the submission `link`.
    pub fn linked(mut self, link: LinkId) -> Record {
        self.link = link;
        self
    }

    /// The same, on a fence where there is one.
    pub fn on(mut self, fence: Option<(FenceId, u64)>) -> Record {
        self.fence = fence;
        self
    }

    /// The same, with its extra number.
    pub fn with_arg(mut self, arg: u64) -> Record {
        self.arg = arg;
        self
    }

    /// How long it ran; 0 for an instant, and for a record whose clocks disagree.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// How long it stood in its queue before it began.
    pub fn pending_ns(&self) -> u64 {
        self.start_ns.saturating_sub(self.queued_ns)
    }
}

labelled! {
    /// Where the times of a trace come from.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ClockName {
        /// Time that passed on the machine.
        Wall = "wall clock",
        /// Time that the model computed.
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

/// A whole run, ready to be written.
#[derive(Clone, Debug)]
pub struct Trace {
    /// What the run is called: shown as the page's title.
    pub title: String,
    /// Where its times come from.
    pub clock: ClockName,
    /// What the run came to, one sentence each; shown above the timeline. Empty where nothing was
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
    /// How many records are known to be missing (an overrun log, a record of an unknown lane).
    pub lost_records: u64,
}

impl Trace {
    /// The name of a record, empty where it has none.
    pub fn name_of(&self, record: &Record) -> &str {
        self.names.get(record.name)
    }

    /// Earliest and latest time that any record mentions; `None` where there is no record.
    pub fn extent_ns(&self) -> Option<(u64, u64)> {
        let first = self.records.iter().map(|r| r.queued_ns.min(r.start_ns)).min()?;
        let last = self.records.iter().map(|r| r.end_ns.max(r.start_ns)).max()?;
        Some((first, last))
    }
}
