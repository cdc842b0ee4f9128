//! The findings of the checker: pairs of unordered accesses, and the missing edge.

use crate::deadlock::Deadlock;
use crate::footprint::AccessKind;
use std::fmt;
use std::ops::Range;

/// The kind of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TimelineKind {
    /// A CPU thread.
    Thread,
    /// A queue.
    Queue,
    /// The display, which reads presented buffers.
    Display,
}

impl fmt::Display for TimelineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TimelineKind::Thread => "thread",
            TimelineKind::Queue => "queue",
            TimelineKind::Display => "display of",
        })
    }
}

/// One access of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// The kind of its timeline.
    pub kind: TimelineKind,
    /// The name of its queue, thread or swap chain.
    pub timeline: String,
    /// The kind of access.
    pub access: AccessKind,
    /// The call of ExecuteCommandLists on its queue, or the present, counted from 1; 0 for a CPU
    /// access.
    pub submission: u32,
    /// The label of the list, if any.
    pub list: Option<String>,
    /// The number of the command in its list, from 1; 0 if unknown.
    pub command: u32,
    /// The command or the call: `copy`, `dispatch of saxpy`, `map-write`.
    pub what: String,
    /// The link of its submission on the timeline; 0 for none.
    pub link: u32,
}

impl Side {
    fn place(&self) -> String {
        match (self.kind, &self.list) {
            (TimelineKind::Queue, Some(list)) => {
                format!("list '{list}' (submission {})", self.submission)
            }
            (TimelineKind::Queue, None) => format!("submission {}", self.submission),
            (TimelineKind::Display, _) => format!("present {}", self.submission),
            (TimelineKind::Thread, _) => self.what.clone(),
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.access {
            AccessKind::Read => "reads",
            AccessKind::Write => "writes",
            AccessKind::Atomic => "changes atomically",
        };
        write!(f, "{} '{}' {verb} in ", self.kind, self.timeline)?;
        match (self.kind, self.command) {
            (TimelineKind::Queue, 0) => write!(f, "{} ({})", self.place(), self.what),
            (TimelineKind::Queue, n) => write!(f, "{}, command {n} ({})", self.place(), self.what),
            _ => f.write_str(&self.place()),
        }
    }
}

/// Why the end of a wait for a fence does not tell which signal ended it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FenceFault {
    /// Two timelines signal it without an order.
    TwoSignallers([String; 2]),
    /// A timeline signals a lower value after a higher one.
    Falls {
        /// The queue or thread that signals the lower value.
        timeline: String,
        /// The value before.
        from: u64,
        /// The lower value.
        to: u64,
    },
}

impl fmt::Display for FenceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FenceFault::TwoSignallers([one, other]) => write!(
                f,
                "is signalled from '{one}' and '{other}' without an order, so a wait may be ended by \
                 either; use one fence for each timeline"
            ),
            FenceFault::Falls { timeline, from, to } => write!(
                f,
                "falls from {from} to {to} on '{timeline}', so a wait for {to} may be ended by the \
                 signal of {from}; signal rising values"
            ),
        }
    }
}

/// A signal of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceSignal {
    /// The fence.
    pub fence: String,
    /// Its value.
    pub value: u64,
    /// The kind of the timeline that signals it.
    pub kind: TimelineKind,
    /// The name of that timeline.
    pub timeline: String,
    /// Why a wait for it orders nothing, although the program may have that wait.
    pub fault: Option<FenceFault>,
}

/// Two accesses of the same bytes without a path of waits and signals between them. At least one is
/// a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hazard {
    /// The access that should precede: an earlier submission, or a read before the write that
    /// reuses its bytes.
    pub first: Side,
    /// The other access.
    pub second: Side,
    /// The resource; `None` for bytes outside all resources.
    pub resource: Option<String>,
    /// A signal after [`Hazard::first`] that the program already makes. A wait for it before
    /// [`Hazard::second`] would order the two.
    pub signal: Option<FenceSignal>,
    /// The bytes, as offsets in the resource, or GPU addresses without a resource.
    pub bytes: Range<u64>,
    /// The number of such pairs of these two timelines and this resource.
    pub count: u64,
}

impl Hazard {
    /// Returns a description of the edge that would order the two.
    pub fn missing_edge(&self) -> String {
        let first = &self.first;
        let after = match first.kind {
            TimelineKind::Thread => format!("the {}", first.place()),
            _ => first.place(),
        };
        if let Some(FenceSignal { fence, value, kind, timeline, fault }) = &self.signal {
            if let Some(fault) = fault {
                let waiter = self.waiter();
                return format!(
                    "fence '{fence}' {fault}; wait {waiter} for the signal after {after}"
                );
            }
            let after = if *kind == first.kind && *timeline == first.timeline {
                after
            } else {
                format!("{} '{}' has ended {after}", first.kind, first.timeline)
            };
            return format!(
                "wait for value {value} of fence '{fence}' {}; {kind} '{timeline}' signals it after \
                 {after}",
                self.waiter()
            );
        }
        let signals = match first.kind {
            TimelineKind::Queue => {
                format!("signal a fence on queue '{}' after {after}", first.timeline)
            }
            TimelineKind::Thread => {
                format!("signal a fence on thread '{}' after {after}", first.timeline)
            }
            TimelineKind::Display => {
                format!("use the fence of swap chain '{}' after {after}", first.timeline)
            }
        };
        format!("{signals}, and wait for it {}", self.waiter())
    }

    /// Returns a description of where the wait must be.
    fn waiter(&self) -> String {
        let second = &self.second;
        match second.kind {
            TimelineKind::Queue => {
                format!("on queue '{}' before {}", second.timeline, second.place())
            }
            TimelineKind::Thread => {
                format!("on thread '{}' before the {}", second.timeline, second.what)
            }
            TimelineKind::Display => {
                format!("before {} of '{}'", second.place(), second.timeline)
            }
        }
    }
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.resource {
            Some(name) => write!(f, "bytes {}..{} of '{name}'", self.bytes.start, self.bytes.end)?,
            None => write!(f, "addresses {:#x}..{:#x}", self.bytes.start, self.bytes.end)?,
        }
        writeln!(f, " are accessed without a path of waits and signals:")?;
        writeln!(f, "  {}", self.first)?;
        writeln!(f, "  {}", self.second)?;
        write!(f, "  missing: {}", self.missing_edge())?;
        if self.count > 1 {
            write!(f, "\n  {} pairs in all", self.count)?;
        }
        Ok(())
    }
}

/// A remark that is not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// A wait that adds no order, because earlier waits already imply it.
    RedundantWait {
        /// The queue or thread that waits.
        waiter: String,
        /// The fence and value.
        fence: String,
        /// The awaited value.
        value: u64,
        /// The number of redundant waits of this waiter on this fence.
        count: u64,
        /// The number of all waits of this waiter on this fence.
        of: u64,
    },
    /// A wait for a later value than its accesses need.
    OverWideWait {
        /// The queue or thread that waits.
        waiter: String,
        /// The fence.
        fence: String,
        /// The value of the first such wait.
        value: u64,
        /// The lowest value that orders the same accesses.
        enough: u64,
        /// The number of waits of this waiter on this fence that order accesses.
        count: u64,
    },
    /// The end of a wait for the fence does not tell which signal ended it.
    FaultyFence {
        /// The fence.
        fence: String,
        /// Why.
        fault: FenceFault,
    },
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hint::RedundantWait { waiter, fence, value, count, of } => write!(
                f,
                "'{waiter}' waits for fence '{fence}' where earlier waits imply it: {count} of {of} \
                 waits, first for {value}; leave it out"
            ),
            Hint::OverWideWait { waiter, fence, value, enough, count } => write!(
                f,
                "'{waiter}' waits for a later value of fence '{fence}' than its accesses need, {count} \
                 times: {enough} is enough where it first waits for {value}"
            ),
            Hint::FaultyFence { fence, fault } => write!(f, "fence '{fence}' {fault}"),
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The hazards, one per missing edge and resource.
    pub hazards: Vec<Hazard>,
    /// Hazards that the edges of [`Report::hazards`] would also resolve.
    pub implied: Vec<Hazard>,
    /// Remarks that are not errors.
    pub hints: Vec<Hint>,
    /// Deadlocks: circles of waits that no submitted call ends.
    ///
    /// While the program submits, a circle of queues is listed once its last call is submitted:
    /// each of its waits has a queued signal of exactly the awaited value, and each such signal is
    /// behind a wait of the circle. Only a second signal of such a value, or a higher one, could
    /// end it; the finding is withdrawn when one is submitted. After a blocked CPU wait was ended
    /// because the machine stopped, circles through higher values are listed too, and all of them
    /// are kept.
    pub deadlocks: Vec<Deadlock>,
    /// Waits that no submitted signal ends, with the waits that depend on them. While the program
    /// submits, such a wait may precede its signal. None should be left after the run.
    pub unsignalled: Vec<Deadlock>,
}

impl Report {
    /// Returns whether there is no hazard and no deadlock. Ignores [`Report::unsignalled`].
    pub fn is_clean(&self) -> bool {
        self.hazards.is_empty() && self.deadlocks.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hazards = self.hazards.iter().map(ToString::to_string);
        let waits = self.deadlocks.iter().chain(&self.unsignalled).map(ToString::to_string);
        f.write_str(&hazards.chain(waits).collect::<Vec<_>>().join("\n"))?;
        if !self.implied.is_empty() {
            write!(f, "\nthe same edges would end {} more", self.implied.len())?;
        }
        Ok(())
    }
}
