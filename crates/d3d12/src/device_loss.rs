//! Reasons of a device's loss, as data: the kernel's report with the names of user mode. `Display`
//! makes the text.

use std::fmt;
use tidegate_calls::{FaultReport, Status};

/// Why a device was removed. It stays removed: drop it with everything in it and create it again.
#[doc(alias = "GetDeviceRemovedReason")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemovedReason {
    /// Its work accessed memory without the right, or sent a malformed packet.
    Faulted(Box<Fault>),
    /// Its work hung (DXGI_ERROR_DEVICE_HUNG), with the symptom.
    Hung(String),
    /// The GPU was reset for another device (DXGI_ERROR_DEVICE_RESET), with the reason.
    Reset(String),
    /// The adapter stopped with a bug check (DXGI_ERROR_DEVICE_REMOVED).
    AdapterStopped,
    /// The adapter was removed, or stopped before the device ended
    /// (DXGI_ERROR_DEVICE_REMOVED).
    AdapterRemoved,
    /// Its process was ended (DXGI_ERROR_DEVICE_REMOVED).
    ProcessEnded,
    /// The kernel refused a call with a status of a lost device and has no state of the device.
    Refused {
        /// The call's official name.
        call: &'static str,
        /// The object of the call.
        object: String,
        /// The status.
        status: Status,
    },
}

/// A fault of a queue of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kernel's report: queue by number, address, kind of access.
    pub report: FaultReport,
    /// Name of the queue; `None` if unknown.
    pub queue: Option<String>,
    /// Label of the list; known for user-mode queues only.
    pub list: Option<String>,
    /// Whether the adapter has several physical GPUs, so that the text names the one of the report.
    pub of_linked_adapter: bool,
}

impl fmt::Display for RemovedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RemovedReason::Faulted(fault) => fault.fmt(f),
            RemovedReason::Hung(what) => write!(f, "DEVICE_HUNG: {what}"),
            RemovedReason::Reset(what) => write!(f, "DEVICE_RESET: {what}"),
            RemovedReason::AdapterStopped => f.write_str("DEVICE_REMOVED: the adapter stopped"),
            RemovedReason::AdapterRemoved => f.write_str("DEVICE_REMOVED: the adapter was removed"),
            RemovedReason::ProcessEnded => f.write_str("DEVICE_REMOVED: its process was ended"),
            RemovedReason::Refused { call, object, status } => {
                write!(f, "{call} for {object}: {status}")
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FaultReport { position, gpu_va, write, what, engine_ordinal, .. } = &self.report;
        match &self.queue {
            Some(name) => write!(f, "queue '{name}'")?,
            None => f.write_str("a queue")?,
        }
        if self.of_linked_adapter {
            write!(f, " on GPU {engine_ordinal}")?;
        }
        write!(f, ", packet {position}")?;
        if let Some(list) = &self.list {
            write!(f, " ('{list}')")?;
        }
        let access = if *write { "store to" } else { "load from" };
        write!(f, ", {access} {gpu_va:#x}: {what}")
    }
}
