//! Why a device was lost, as data: what the kernel reports, with the names that user mode knows.
//! Text is made in `Display` alone.

use std::fmt;
use tidegate_calls::{FaultReport, Status};

/// Why a device was removed. It stays removed: drop it with everything in it and create it again.
#[doc(alias = "GetDeviceRemovedReason")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemovedReason {
    /// Its work accessed memory that it may not access, or sent a packet that makes no sense.
    Faulted(Box<Fault>),
    /// Its work hung (DXGI_ERROR_DEVICE_HUNG): what was noticed.
    Hung(String),
    /// The GPU was reset for the work of another device (DXGI_ERROR_DEVICE_RESET): for what.
    Reset(String),
    /// The adapter stopped with a bug check (DXGI_ERROR_DEVICE_REMOVED).
    AdapterStopped,
    /// The adapter was removed, or was stopped while the device was there
    /// (DXGI_ERROR_DEVICE_REMOVED).
    AdapterRemoved,
    /// Its process was ended (DXGI_ERROR_DEVICE_REMOVED).
    ProcessEnded,
    /// The kernel refused a call with a status of a lost device and has no state of the device.
    Refused {
        /// The call's official name.
        call: &'static str,
        /// For which object.
        object: String,
        /// What the kernel answered.
        status: Status,
    },
}

/// A fault of a queue of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What the kernel reports: queue by number, address, kind of access.
    pub report: FaultReport,
    /// Name of the queue; `None` where the hardware did not know which it was.
    pub queue: Option<String>,
    /// Label of the list; only user-mode queues know it.
    pub list: Option<String>,
    /// Whether the adapter has several physical GPUs, so that the one of the report must be said.
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
