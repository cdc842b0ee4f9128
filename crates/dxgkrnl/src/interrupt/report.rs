//! Reports of the driver, from the interrupt that makes them to the DPC that takes them.
//!
//! Invariants: reports are taken in the order in which they were made. A report resolves its handles
//! when it is made, at interrupt level.

use super::page_fault::{Faulted, HwQueueFault};
use super::signal_report::SignalReport;
use crate::error::BugCheck;
use crate::fence::Fence;
use crate::object::context::Context;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, Weak};
use tidegate_ddi::{EngineId, EngineState, PageFault};
use tidegate_platform::{CpuTime, Mutex, PhysicalAddress, Platform, WakeWord, Word};

/// Reported data that waits for the DPC. Handles are resolved when they are reported: the object
/// may be destroyed afterwards, and the report is still about it.
pub(super) enum Reported {
    DmaCompleted {
        engine: EngineId,
        fence_id: u32,
    },
    DmaPreempted {
        engine: EngineId,
        preemption_fence_id: u32,
        last_completed_fence_id: u32,
    },
    DmaFaulted {
        engine: EngineId,
        fence_id: u32,
        fault: PageFault,
    },
    Vsync {
        target: u32,
        address: PhysicalAddress,
    },
    Monitored,
    Native {
        report: SignalReport,
        legacy: bool,
    },
    QueueFaulted {
        faulted: Faulted,
        reported: HwQueueFault,
    },
    Suspended {
        context: Weak<Context>,
        suspend_fence: u64,
    },
    EngineState {
        engine: EngineId,
        new_state: EngineState,
    },
    /// A cross-adapter fence was signalled on another adapter.
    Relayed(Arc<Fence>),
    Broken(BugCheck),
}

impl Reported {
    /// The engine, when it is about packets.
    pub(super) fn engine_of_packets(&self) -> Option<EngineId> {
        match self {
            Reported::DmaCompleted { engine, .. }
            | Reported::DmaPreempted { engine, .. }
            | Reported::DmaFaulted { engine, .. } => Some(*engine),
            _ => None,
        }
    }
}

/// Reports that no DPC has taken, and the engines whose reports are dropped.
#[derive(Default)]
pub(super) struct Reports {
    pub(super) list: Vec<Reported>,
    /// Engines whose packets are being recovered: reports of them are dropped.
    pub(super) ignored: BTreeSet<EngineId>,
    /// The adapter has stopped: no DPC takes reports any more.
    pub(super) closed: bool,
    /// When the oldest one was reported, and how many DPCs had run by then; kept where the timer
    /// is on.
    pub(super) since: Option<(CpuTime, u64)>,
}

pub(super) struct DpcQueue {
    pub(super) reported: Mutex<Reports>,
    pub(super) wanted: Word,
    /// A DPC runs for a report that no interrupt brought; it re-checks `wanted` before it returns.
    pub(super) relaying: Word,
    /// Wakes the agent of interrupts, where they have one.
    pub(super) worker: OnceLock<WakeWord>,
}

impl DpcQueue {
    pub(super) fn new(platform: &Platform) -> DpcQueue {
        DpcQueue {
            reported: platform.mutex("reported interrupts", Reports::default()),
            wanted: platform.page(1).word(0).named("the DPC's request"),
            relaying: platform.page(1).word(0).named("the DPC's relay"),
            worker: OnceLock::new(),
        }
    }

    /// Drops all reports, now and later: the adapter has stopped. Reports hold fences, which hold
    /// the adapter.
    pub(super) fn forget(&self) {
        let left = {
            let mut reports = self.reported.lock();
            reports.closed = true;
            std::mem::take(&mut reports.list)
        };
        drop(left);
    }

    /// Drops reports of this engine's packets from now on. The caller holds the interrupt lock. Returns
    /// the last completion that was reported and not taken.
    pub(super) fn ignore(&self, engine: EngineId) -> Option<u32> {
        let mut reports = self.reported.lock();
        reports.ignored.insert(engine);
        reports.list.iter().rev().find_map(|reported| match reported {
            Reported::DmaCompleted { engine: of, fence_id } if *of == engine => Some(*fence_id),
            _ => None,
        })
    }

    /// Reports of this engine's packets count again.
    pub(super) fn heed(&self, engine: EngineId) {
        self.reported.lock().ignored.remove(&engine);
    }
}
