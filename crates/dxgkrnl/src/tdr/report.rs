//! Owns the report of a recovery: what was noticed, whose work it was, what it kept others from,
//! and what became of it. Bounded, and made with no lock held.

use crate::PendingWait;
use crate::adapter::Adapter;
use crate::device::Device;
use crate::fence::Fence;
use std::fmt;
use std::sync::Arc;
use tidegate_ddi::{DebugReason, EngineId, Passive};
use tidegate_platform::CpuTime;

/// Recoveries whose reports are kept.
pub(crate) const KEPT: usize = 16;
/// Pieces of work and waiters that one report names.
const NAMED: usize = 16;
/// Bytes of the driver's words that are kept.
const DRIVER_BYTES: usize = 4096;

/// Work that an engine had when it was reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkAtReset {
    /// The tag of its context or hardware queue.
    pub tag: u32,
    /// What ran, or was next: a packet, a command buffer.
    pub command: String,
    /// What it would have signalled: fence and value.
    pub signals: Vec<(String, u64)>,
    /// Whether it is why the engine was reset.
    pub guilty: bool,
}

/// Somebody who waits for what the work would have signalled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBack {
    /// The wait.
    pub wait: PendingWait,
    /// The tag of the queue that should have signalled it.
    pub signaller: u32,
}

/// What became of a recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryOutcome {
    /// It is under way.
    Begun,
    /// Nothing was done, as it is configured.
    Ignored,
    /// The engine was done by itself: nothing was reset.
    NothingLeft,
    /// The engine was reset.
    EngineReset,
    /// The device was lost and nothing was reset: the engine did not run its work.
    DeviceLost,
    /// The adapter was reset.
    AdapterReset,
    /// The adapter is stopped: why.
    Fatal(String),
}

/// The report of one recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Counts from 1.
    pub number: u64,
    /// When it began.
    pub at: CpuTime,
    /// Its code: 0x141 for an engine, 0x117 for the adapter, 0x116 for the last one.
    pub code: u32,
    /// The engine; `None` when the adapter was reset for no engine in particular.
    pub engine: Option<EngineId>,
    /// What was noticed.
    pub noticed: String,
    /// The work of the engine.
    pub work: Vec<WorkAtReset>,
    /// Who waits for it.
    pub held_back: Vec<HeldBack>,
    /// What the driver says of the engine; empty when it says nothing.
    pub driver: String,
    /// What became of it.
    pub outcome: RecoveryOutcome,
    /// Tags of queues whose devices were lost, and whether as the guilty.
    pub lost: Vec<(u32, bool)>,
    /// The process that is blocked from the GPU for having caused too many time-outs (0x142).
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
            self.noticed
        )?;
        for work in &self.work {
            let guilty = if work.guilty { "hangs in" } else { "has" };
            write!(f, "\n  queue {} {guilty} {}", work.tag, work.command)?;
            for (fence, value) in &work.signals {
                write!(f, "; it was to signal fence '{fence}' to {value}")?;
            }
        }
        for held in &self.held_back {
            let (tag, wait, by) = (held.wait.tag, &held.wait, held.signaller);
            write!(f, "\n  queue {tag} waits for {wait}, which queue {by} should have signalled")?;
        }
        if !self.driver.is_empty() {
            write!(f, "\n  driver: {}", self.driver.trim_end().replace('\n', "\n    "))?;
        }
        match &self.outcome {
            RecoveryOutcome::Begun => write!(f, "\n  the recovery is under way"),
            RecoveryOutcome::Ignored => write!(f, "\n  ignored, as TdrDebugMode says"),
            RecoveryOutcome::NothingLeft => write!(f, "\n  the engine was done: nothing was reset"),
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
        for (tag, guilty) in &self.lost {
            let reads = if *guilty { "HUNG" } else { "RESET" };
            write!(f, "\n  the device of queue {tag} is lost and reads {reads}")?;
        }
        if self.blocked {
            write!(f, "\n  its process is blocked from the GPU (0x142)")?;
        }
        Ok(())
    }
}

/// The report of what stands on `engine`, or on the adapter as a whole. `guilty` says which
/// devices' work is at fault as far as is known by now.
pub(super) fn collect(
    adapter: &Arc<Adapter>,
    engine: Option<EngineId>,
    reason: DebugReason,
    noticed: String,
    guilty: impl Fn(&Device) -> bool,
) -> RecoveryReport {
    let mut work = work_of(adapter, engine, guilty);
    let held_back = held_back(adapter, &work);
    work.truncate(NAMED);
    RecoveryReport {
        number: 0,
        at: adapter.platform.now(),
        code: reason as u32,
        engine,
        noticed,
        work,
        held_back,
        driver: driver_words(adapter, engine, reason),
        outcome: RecoveryOutcome::Begun,
        lost: Vec::new(),
        blocked: false,
    }
}

fn work_of(
    adapter: &Arc<Adapter>,
    engine: Option<EngineId>,
    guilty: impl Fn(&Device) -> bool,
) -> Vec<WorkAtReset> {
    let here = |of: EngineId| engine.is_none_or(|e| e == of);
    let mut work = Vec::new();
    for queue in adapter.hw_queues_of(|q| here(q.engine()) && q.has_work(adapter)) {
        let (command, progress) = queue.describe_work(adapter);
        let mut signals = vec![progress];
        signals.extend(named(&queue.signals_behind()));
        work.push(WorkAtReset { tag: queue.tag, command, signals, guilty: guilty(&queue.device) });
    }
    let engines = (0..adapter.caps.engine_count()).filter(|n| here(adapter.caps.engine(*n)));
    for number in engines {
        let packets = adapter.sched.lock().describe_in_flight(number);
        for packet in packets {
            let context = adapter.contexts_of(|c| c.os_handle == packet.context).pop();
            let guilty = context.as_ref().is_some_and(|c| guilty(&c.device));
            let signals = named(&packet.signals);
            work.push(WorkAtReset { tag: packet.tag, command: packet.command, signals, guilty });
        }
    }
    work
}

fn named(signals: &[(Arc<Fence>, u64)]) -> Vec<(String, u64)> {
    signals.iter().take(NAMED).map(|(fence, value)| (fence.name.clone(), *value)).collect()
}

/// Waits of the adapter's queues for what the work would have signalled.
fn held_back(adapter: &Adapter, work: &[WorkAtReset]) -> Vec<HeldBack> {
    let signaller = |wait: &PendingWait| {
        let reaches = |(fence, value): &(String, u64)| *fence == wait.fence && *value >= wait.value;
        work.iter().find(|w| w.signals.iter().any(reaches)).map(|w| w.tag)
    };
    let waits = adapter.pending_waits().into_iter();
    let held = waits.filter_map(|wait| Some(HeldBack { signaller: signaller(&wait)?, wait }));
    held.take(NAMED).collect()
}

#[doc(alias = "DxgkDdiCollectDbgInfo")]
fn driver_words(adapter: &Adapter, engine: Option<EngineId>, reason: DebugReason) -> String {
    let mut words =
        adapter.driver().collect_debug_info(&Passive::enter(), engine, reason).unwrap_or_default();
    let mut end = words.len().min(DRIVER_BYTES);
    while !words.is_char_boundary(end) {
        end -= 1;
    }
    words.truncate(end);
    words
}
