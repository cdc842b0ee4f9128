//! The report of a recovery: its cause, the work on the engine, the waiters that the work blocked,
//! and the outcome.
//!
//! Invariants: typed facts; `Display` creates the text. Bounded, and created with no lock held.
//!
//! `collect` creates a report.

use crate::driver::OutstandingWork;
use crate::error::BugCheck;
use std::fmt;
use tidegate_calls::PendingWait;
use tidegate_ddi::{EngineId, OsHandle, Status};
use tidegate_platform::{CpuTime, QueueNumber};

/// Number of recovery reports kept.
pub(crate) const KEPT: usize = 16;

/// Why an engine or an adapter counts as hung.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeoutCause {
    /// The engine did not acknowledge a preemption request in time.
    PreemptionNotAnswered {
        /// The engine.
        engine: EngineId,
        /// Its packets.
        work: Vec<OutstandingWork>,
    },
    /// The engine takes no preemption request, and ran a packet for longer than TdrDelay.
    PacketTooLong {
        /// The engine.
        engine: EngineId,
        /// Its packets.
        work: Vec<OutstandingWork>,
    },
    /// The driver did not take a hardware context off the run list in time.
    ContextNotSuspended {
        /// The context's engine.
        engine: EngineId,
    },
    /// The driver accepted work of a hardware queue, does not run it, and does not report it as
    /// held back.
    WorkNotServed {
        /// The engine.
        engine: EngineId,
        /// The work.
        work: Vec<OutstandingWork>,
    },
    /// Every context left the engine, and it neither responds nor makes progress: it hangs in work
    /// whose queue or context has ended.
    EngineHungWithoutContext {
        /// The engine.
        engine: EngineId,
    },
    /// The driver reported the engine as hung.
    EngineReportedHung {
        /// The engine.
        engine: EngineId,
    },
    /// A fault after which the driver wants the engine reset.
    EngineFaulted {
        /// The engine.
        engine: EngineId,
        /// Whether the fault named its queue, context or process. What a reset cuts off is then
        /// innocent.
        is_named: bool,
    },
    /// A fault after which the driver wants the adapter reset.
    AdapterFaulted {
        /// The engine of the fault.
        engine: EngineId,
    },
    /// A debugger forced a timeout of the engine.
    EngineForced {
        /// The engine.
        engine: EngineId,
    },
    /// A debugger forced a timeout of the adapter.
    AdapterForced,
}

impl TimeoutCause {
    /// The engine to reset; `None` for the adapter.
    pub(super) fn engine(&self) -> Option<EngineId> {
        match self {
            TimeoutCause::PreemptionNotAnswered { engine, .. }
            | TimeoutCause::PacketTooLong { engine, .. }
            | TimeoutCause::ContextNotSuspended { engine }
            | TimeoutCause::WorkNotServed { engine, .. }
            | TimeoutCause::EngineHungWithoutContext { engine }
            | TimeoutCause::EngineReportedHung { engine }
            | TimeoutCause::EngineFaulted { engine, .. }
            | TimeoutCause::EngineForced { engine } => Some(*engine),
            TimeoutCause::AdapterFaulted { .. } | TimeoutCause::AdapterForced => None,
        }
    }
}

impl TimeoutCause {
    /// Whether a debugger asked for the reset, whatever the engines do.
    pub(super) fn is_forced(&self) -> bool {
        matches!(self, TimeoutCause::EngineForced { .. } | TimeoutCause::AdapterForced)
    }
}

impl fmt::Display for TimeoutCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, work: &[OutstandingWork]| {
            let calls: Vec<String> = work.iter().map(OutstandingWork::to_string).collect();
            write!(f, ": {}", calls.join("; "))
        };
        match self {
            TimeoutCause::PreemptionNotAnswered { engine, work } => {
                write!(f, "{engine} did not answer a preemption request within TdrDelay")?;
                list(f, work)
            }
            TimeoutCause::PacketTooLong { engine, work } => {
                write!(f, "{engine} ran a packet for longer than TdrDelay")?;
                list(f, work)
            }
            TimeoutCause::ContextNotSuspended { engine } => {
                write!(f, "{engine} did not suspend a context within TdrDelay")
            }
            TimeoutCause::WorkNotServed { engine, work } => {
                write!(
                    f,
                    "{engine} works for no context, and DxgkDdiQueryEngineStatus counts work as \
                     neither running nor held back"
                )?;
                list(f, work)
            }
            TimeoutCause::EngineHungWithoutContext { engine } => {
                write!(f, "{engine} does not respond after every context has left it")
            }
            TimeoutCause::EngineReportedHung { engine } => {
                write!(f, "the driver of {engine} reported that it is hung")
            }
            TimeoutCause::EngineFaulted { engine, .. } => {
                write!(f, "{engine} faulted, and its driver requested an engine reset")
            }
            TimeoutCause::AdapterFaulted { engine } => {
                write!(f, "{engine} faulted, and its driver requested an adapter reset")
            }
            TimeoutCause::EngineForced { engine } => write!(f, "a timeout of {engine} was forced"),
            TimeoutCause::AdapterForced => write!(f, "a timeout was forced"),
        }
    }
}

/// Why an engine reset was promoted to an adapter reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Promotion {
    /// A DDI call of the engine reset failed.
    DdiFailed {
        /// The entry, by its official name.
        ddi: &'static str,
        /// What the driver returned.
        status: Status,
    },
    /// The driver cannot reset single engines.
    NoEngineReset,
    /// The reset interrupted a paging packet, whose content other work needs.
    PagingCutOff,
}

impl fmt::Display for Promotion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Promotion::DdiFailed { ddi, status } => write!(f, "{ddi} failed with {status}"),
            Promotion::NoEngineReset => f.write_str("the driver cannot reset a single engine"),
            Promotion::PagingCutOff => f.write_str("a paging packet was cut off"),
        }
    }
}

/// Why a recovery began and, if it began with an engine, why it reset the adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryReason {
    /// The detected cause.
    pub cause: TimeoutCause,
    /// `None` if the engine reset was sufficient.
    pub promotion: Option<Promotion>,
}

impl fmt::Display for RecoveryReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)?;
        self.promotion.iter().try_for_each(|promotion| write!(f, "; {promotion}"))
    }
}

/// Work that an engine had when it was reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkAtReset {
    /// Its context or hardware queue.
    pub queue: QueueNumber,
    /// The context; of a packet, the same as `queue`.
    pub context: OsHandle,
    /// The kernel's handle of the device.
    pub device: OsHandle,
    /// Whether the engine ran it, as the driver reports.
    pub running: bool,
    /// The running or next work: a packet or a command buffer.
    pub command: String,
    /// The progress value of the command buffer, or the packet's number.
    pub fence_id: u64,
    /// GPU address of the packet's commands; 0 for a hardware queue.
    pub commands_gpu_va: u64,
    /// Number of the command that ran, counted from 1 without labels; 0 if unknown.
    pub command_number: u64,
    /// Fences and values that the work would have signalled.
    pub signals: Vec<(String, u64)>,
    /// Whether this work caused the reset.
    pub guilty: bool,
}

/// A waiter on a fence that the work would have signalled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBack {
    /// The wait.
    pub wait: PendingWait,
    /// The queue that should have signalled it.
    pub signaller: QueueNumber,
}

/// How a recovery ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryOutcome {
    /// In progress.
    Begun,
    /// No action was taken, as configured.
    Ignored,
    /// The engine had completed its work: no reset.
    NothingLeft,
    /// The engine was reset.
    EngineReset,
    /// The device was lost and nothing was reset: the engine did not run its work.
    DeviceLost,
    /// The adapter was reset.
    AdapterReset,
    /// The adapter is stopped.
    Fatal(BugCheck),
}

/// The report of one recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Sequence number, from 1.
    pub number: u64,
    /// When it began.
    pub at: CpuTime,
    /// Published code: 0x141 for an engine, 0x117 for the adapter, 0x116 for a fatal recovery.
    pub code: u32,
    /// The engine; `None` when the adapter was reset for no engine in particular.
    pub engine: Option<EngineId>,
    /// Why it began.
    pub reason: RecoveryReason,
    /// The work of the engine.
    pub work: Vec<WorkAtReset>,
    /// The waiters blocked by the work.
    pub held_back: Vec<HeldBack>,
    /// The driver's debug text about the engine; may be empty.
    pub driver: String,
    /// How it ended.
    pub outcome: RecoveryOutcome,
    /// Queues whose devices were lost, each with whether the device was guilty.
    pub lost: Vec<(QueueNumber, bool)>,
    /// Whether the process is blocked from the GPU for causing too many timeouts (0x142).
    pub blocked: bool,
}

impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "recovery {} at {} ms ({:#x}): {}",
            self.number,
            self.at.0 / 1_000_000,
            self.code,
            self.reason
        )?;
        for work in &self.work {
            let guilty = if work.guilty { "hangs in" } else { "has" };
            write!(f, "\n  queue {} {guilty} {}", work.queue, work.command)?;
            for (fence, value) in &work.signals {
                write!(f, "; it was to signal fence '{fence}' to {value}")?;
            }
        }
        for held in &self.held_back {
            let (queue, wait, by) = (held.wait.queue, &held.wait, held.signaller);
            write!(
                f,
                "\n  queue {queue} waits for {wait}, which queue {by} should have signalled"
            )?;
        }
        if !self.driver.is_empty() {
            write!(f, "\n  driver: {}", self.driver.trim_end().replace('\n', "\n    "))?;
        }
        match &self.outcome {
            RecoveryOutcome::Begun => write!(f, "\n  the recovery is in progress"),
            RecoveryOutcome::Ignored => write!(f, "\n  ignored because of TdrDebugMode"),
            RecoveryOutcome::NothingLeft => {
                write!(f, "\n  the engine had completed its work: nothing was reset")
            }
            RecoveryOutcome::EngineReset => write!(f, "\n  the engine was reset"),
            RecoveryOutcome::DeviceLost => {
                write!(
                    f,
                    "\n  the device was lost: the engine did not run its work, so nothing was reset"
                )
            }
            RecoveryOutcome::AdapterReset => write!(f, "\n  the adapter was reset"),
            RecoveryOutcome::Fatal(why) => write!(f, "\n  the adapter is stopped: {why}"),
        }?;
        for (queue, guilty) in &self.lost {
            let reads = if *guilty { "HUNG" } else { "RESET" };
            write!(f, "\n  the device of queue {queue} is lost and reads {reads}")?;
        }
        if self.blocked {
            write!(f, "\n  its process is blocked from the GPU (0x142)")?;
        }
        Ok(())
    }
}
