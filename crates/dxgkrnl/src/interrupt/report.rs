//! The driver's reports, queued by the interrupt and taken by the DPC.
//!
//! Invariants: reports are taken in FIFO order. Handles are resolved when the report is made, at
//! interrupt level.

use super::page_fault::{Faulted, HwQueueFault};
use super::signal_report::SignalReport;
use crate::driver::DriverPort;
use crate::error::BugCheck;
use crate::fence::Fence;
use crate::object::context::Context;
use crate::stats::Count;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, Weak};
use tidegate_ddi::{EngineId, EngineState, PageFault};
use tidegate_platform::{CpuTime, Mutex, PhysicalAddress, Platform, WakeWord, Word};

/// Reported data pending for the DPC. Handles are already resolved, because the object may be
/// destroyed before the DPC runs.
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
    /// Returns the engine of a report about packets.
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
    /// Engines whose packets are being recovered. Their reports are dropped.
    pub(super) ignored: BTreeSet<EngineId>,
    /// The adapter has stopped: reports are dropped.
    pub(super) closed: bool,
    /// The time of the oldest pending report, and the number of DPCs run by then.
    pub(super) since: Option<(CpuTime, u64)>,
}

impl Reports {
    /// Adds a report of the driver or of another adapter. Returns `false` if the adapter has
    /// stopped, so that it is dropped.
    pub(super) fn push(&mut self, port: &DriverPort, reported: Reported) -> bool {
        if self.closed {
            return false;
        }
        if self.list.is_empty() {
            self.since = Some((port.platform.now(), port.stats.get(Count::dpcs)));
        }
        self.list.push(reported);
        true
    }
}

pub(super) struct DpcQueue {
    pub(super) reported: Mutex<Reports>,
    pub(super) wanted: Word,
    /// Set while a DPC runs for a report made outside an interrupt. The DPC re-checks `wanted`
    /// before it returns.
    pub(super) relaying: Word,
    /// Wakes the interrupt agent, if there is one.
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

    /// Returns when the oldest pending report was made, and the number of DPCs run by then.
    pub(super) fn pending_since(&self) -> Option<(CpuTime, u64)> {
        let reports = self.reported.lock();
        reports.since.filter(|_| !reports.list.is_empty())
    }

    /// Leaves the last `ns` out of the time for which reports are pending.
    pub(super) fn leave_out(&self, ns: u64, now: CpuTime) {
        if let Some((since, _)) = &mut self.reported.lock().since {
            *since = since.after(ns).min(now);
        }
    }

    /// Drops all present and later reports, because the adapter has stopped. Otherwise reports
    /// would keep fences, and fences the adapter, alive.
    pub(super) fn forget(&self) {
        let left = {
            let mut reports = self.reported.lock();
            reports.closed = true;
            std::mem::take(&mut reports.list)
        };
        drop(left);
    }

    /// Starts to drop reports of this engine's packets. The caller holds the interrupt lock.
    /// Returns the last completion that is still pending.
    pub(super) fn ignore(&self, engine: EngineId) -> Option<u32> {
        let mut reports = self.reported.lock();
        reports.ignored.insert(engine);
        reports.list.iter().rev().find_map(|reported| match reported {
            Reported::DmaCompleted { engine: of, fence_id } if *of == engine => Some(*fence_id),
            _ => None,
        })
    }

    /// Accepts reports of this engine's packets again.
    pub(super) fn heed(&self, engine: EngineId) {
        self.reported.lock().ignored.remove(&engine);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::start_driver;

    /// A report of another adapter may come after the stop. It would keep its fence for ever.
    #[test]
    fn an_adapter_that_has_stopped_keeps_no_report() {
        let (port, _driver) = start_driver();
        let queue = DpcQueue::new(&port.platform);
        assert!(queue.reported.lock().push(&port, Reported::Monitored));
        queue.forget();
        assert!(!queue.reported.lock().push(&port, Reported::Monitored));
        assert!(queue.reported.lock().list.is_empty());
    }
}
