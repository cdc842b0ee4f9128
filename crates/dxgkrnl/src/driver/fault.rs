//! Faults of a driver that the kernel worked around, and work that the driver accepted and has not
//! reported as complete.
//!
//! Invariants: data only; text is made in `Display`. Faults are bounded; the first ones are kept.
//!
//! Entry points: `DriverPort::note_driver_fault`, `Adapter::outstanding_work`.

use std::fmt;
use tidegate_ddi::{EngineId, OsHandle};
use tidegate_platform::{CpuTime, QueueNumber};

/// Maximum number of faults kept.
pub(super) const FAULTS_KEPT: usize = 64;

/// A driver entry that violated its contract, as detected by the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverFault {
    /// Time of detection.
    pub at: CpuTime,
    /// The entry, by its official name.
    pub entry: &'static str,
    /// The observation.
    pub what: String,
}

impl fmt::Display for DriverFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.entry, self.what)
    }
}

/// A DDI call named by a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DdiCall {
    /// The entry, by its official name.
    pub entry: &'static str,
    /// The packet, request, progress value or suspend fence that it named, if any.
    pub number: Option<u64>,
    /// Time of the call.
    pub at: CpuTime,
}

impl fmt::Display for DdiCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.entry)?;
        if let Some(number) = self.number {
            write!(f, " {number}")?;
        }
        write!(f, " at {} ms", self.at.0 / 1_000_000)
    }
}

/// Work of a queue that the driver accepted and has not reported as complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutstandingWork {
    /// The context or hardware queue.
    pub queue: QueueNumber,
    /// The queue's engine.
    pub engine: EngineId,
    /// The last calls for this work, in order.
    pub calls: Vec<DdiCall>,
    /// The last packet or progress value that was reported as complete.
    pub reported: u64,
    pub(crate) context: OsHandle,
}

impl fmt::Display for OutstandingWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls: Vec<String> = self.calls.iter().map(DdiCall::to_string).collect();
        let (queue, engine, calls) = (self.queue, self.engine, calls.join(", "));
        write!(
            f,
            "queue {queue} has work on {engine}: last calls {calls}; reported up to {}",
            self.reported
        )
    }
}
