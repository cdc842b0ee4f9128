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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::DdiCall;

    const ENGINE: EngineId = EngineId { node_ordinal: 2, engine_ordinal: 1 };
    const QUEUE: QueueNumber = QueueNumber(0x50);

    fn outstanding() -> Vec<OutstandingWork> {
        let entry = "DxgkDdiSubmitCommandVirtual";
        let call = |number, ms: u64| DdiCall { entry, number, at: CpuTime(ms * 1_000_000) };
        let work = |queue, calls| OutstandingWork {
            queue,
            engine: ENGINE,
            calls,
            reported: 2,
            context: OsHandle(9),
        };
        vec![
            work(QUEUE, vec![call(Some(3), 5), call(None, 6)]),
            work(QueueNumber(0x51), vec![call(Some(4), 7)]),
        ]
    }

    fn reason(cause: TimeoutCause, promotion: Option<Promotion>) -> RecoveryReason {
        RecoveryReason { cause, promotion }
    }

    fn report() -> RecoveryReport {
        RecoveryReport {
            number: 3,
            at: CpuTime(2_500_000_000),
            code: 0x141,
            engine: Some(ENGINE),
            reason: reason(TimeoutCause::EngineReportedHung { engine: ENGINE }, None),
            work: Vec::new(),
            held_back: Vec::new(),
            driver: String::new(),
            outcome: RecoveryOutcome::EngineReset,
            lost: Vec::new(),
            blocked: false,
        }
    }

    #[test]
    fn a_cause_names_its_engine_and_the_last_calls_of_its_work() {
        let node = "node 2 of physical adapter 1";
        let work = format!(
            ": queue 0x50 has work on {node}: last calls DxgkDdiSubmitCommandVirtual 3 at 5 ms, \
             DxgkDdiSubmitCommandVirtual at 6 ms; reported up to 2; queue 0x51 has work on {node}: \
             last calls DxgkDdiSubmitCommandVirtual 4 at 7 ms; reported up to 2"
        );
        let engine = ENGINE;
        let causes = [
            (
                TimeoutCause::PreemptionNotAnswered { engine, work: outstanding() },
                format!("{node} did not answer a preemption request within TdrDelay{work}"),
            ),
            (
                TimeoutCause::PacketTooLong { engine, work: outstanding() },
                format!("{node} ran a packet for longer than TdrDelay{work}"),
            ),
            (
                TimeoutCause::ContextNotSuspended { engine },
                format!("{node} did not suspend a context within TdrDelay"),
            ),
            (
                TimeoutCause::WorkNotServed { engine, work: outstanding() },
                format!(
                    "{node} works for no context, and DxgkDdiQueryEngineStatus counts work as \
                     neither running nor held back{work}"
                ),
            ),
            (
                TimeoutCause::EngineHungWithoutContext { engine },
                format!("{node} does not respond after every context has left it"),
            ),
            (
                TimeoutCause::EngineReportedHung { engine },
                format!("the driver of {node} reported that it is hung"),
            ),
            (
                TimeoutCause::EngineFaulted { engine, is_named: true },
                format!("{node} faulted, and its driver requested an engine reset"),
            ),
            (
                TimeoutCause::AdapterFaulted { engine },
                format!("{node} faulted, and its driver requested an adapter reset"),
            ),
            (TimeoutCause::EngineForced { engine }, format!("a timeout of {node} was forced")),
            (TimeoutCause::AdapterForced, "a timeout was forced".to_owned()),
        ];
        for (cause, text) in causes {
            assert_eq!(cause.to_string(), text);
            let is_of_adapter =
                matches!(cause, TimeoutCause::AdapterFaulted { .. } | TimeoutCause::AdapterForced);
            assert_eq!(cause.engine(), Some(ENGINE).filter(|_| !is_of_adapter), "{text}");
            assert_eq!(cause.is_forced(), text.ends_with("forced"), "{text}");
        }
    }

    #[test]
    fn a_promotion_follows_the_cause() {
        let (ddi, status) = ("DxgkDdiResetEngine", Status::NO_MEMORY);
        let refused = format!("DxgkDdiResetEngine failed with {status}");
        for (promotion, text) in [
            (Promotion::DdiFailed { ddi, status }, refused.as_str()),
            (Promotion::NoEngineReset, "the driver cannot reset a single engine"),
            (Promotion::PagingCutOff, "a paging packet was cut off"),
        ] {
            let reason = reason(TimeoutCause::AdapterForced, Some(promotion));
            assert_eq!(reason.to_string(), format!("a timeout was forced; {text}"));
        }
    }

    #[test]
    fn each_outcome_ends_the_report() {
        let begin = "recovery 3 at 2500 ms (0x141): the driver of node 2 of physical adapter 1 \
                     reported that it is hung";
        let broken = BugCheck::StuckInDriver;
        let fatal = format!("the adapter is stopped: {broken}");
        for (outcome, text) in [
            (RecoveryOutcome::Begun, "the recovery is in progress"),
            (RecoveryOutcome::Ignored, "ignored because of TdrDebugMode"),
            (RecoveryOutcome::NothingLeft, "the engine had completed its work: nothing was reset"),
            (RecoveryOutcome::EngineReset, "the engine was reset"),
            (
                RecoveryOutcome::DeviceLost,
                "the device was lost: the engine did not run its work, so nothing was reset",
            ),
            (RecoveryOutcome::AdapterReset, "the adapter was reset"),
            (RecoveryOutcome::Fatal(broken), fatal.as_str()),
        ] {
            let report = RecoveryReport { outcome, ..report() };
            assert_eq!(report.to_string(), format!("{begin}\n  {text}"));
        }
    }

    #[test]
    fn a_report_names_the_work_its_waiters_the_driver_s_text_and_the_lost_devices() {
        let work = |queue: u64, guilty, signals: &[(&str, u64)]| WorkAtReset {
            queue: QueueNumber(queue),
            context: OsHandle(queue),
            device: OsHandle(1),
            running: guilty,
            command: format!("packet {queue}"),
            fence_id: queue,
            commands_gpu_va: 0,
            command_number: 0,
            signals: signals.iter().map(|(fence, value)| ((*fence).to_owned(), *value)).collect(),
            guilty,
        };
        let wait = PendingWait {
            queue: QueueNumber(0x60),
            fence: "done".to_owned(),
            value: 8,
            current: 6,
            lost: None,
        };
        let report = RecoveryReport {
            work: vec![work(5, true, &[("done", 7), ("other", 1)]), work(6, false, &[])],
            held_back: vec![HeldBack { wait, signaller: QueueNumber(5) }],
            driver: "node 2 hangs\nin a draw\n".to_owned(),
            lost: vec![(QueueNumber(5), true), (QueueNumber(6), false)],
            blocked: true,
            ..report()
        };
        let text = report.to_string();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "  queue 0x5 hangs in packet 5; it was to signal fence 'done' to 7; it was to signal \
                 fence 'other' to 1",
                "  queue 0x6 has packet 6",
                "  queue 0x60 waits for fence 'done' to reach 8 (it is at 6), which queue 0x5 should \
                 have signalled",
                "  driver: node 2 hangs",
                "    in a draw",
                "  the engine was reset",
                "  the device of queue 0x5 is lost and reads HUNG",
                "  the device of queue 0x6 is lost and reads RESET",
                "  its process is blocked from the GPU (0x142)",
            ]
        );
    }
}
