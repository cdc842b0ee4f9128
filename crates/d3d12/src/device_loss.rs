//! The reasons of a device's removal, as data: the kernel's reports with the names of user mode.
//! `Display` writes the text.

use crate::error_code::ErrorCode;
use std::fmt;
use tidegate_calls::{FaultReport, HangReport, Status};

/// The reason of a device's removal. A removed device stays removed: drop it with all of its
/// objects and create a new one.
#[doc(alias = "GetDeviceRemovedReason")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemovedReason {
    /// Its work accessed memory that it may not access, or sent a malformed packet.
    Faulted(Box<Fault>),
    /// Its work hung (DXGI_ERROR_DEVICE_HUNG).
    Hung(Box<Hang>),
    /// The GPU was reset for another device (DXGI_ERROR_DEVICE_RESET), with the reason.
    Reset(String),
    /// The adapter stopped with a bug check (DXGI_ERROR_DEVICE_REMOVED).
    AdapterStopped,
    /// The adapter was removed, or stopped before the device ended
    /// (DXGI_ERROR_DEVICE_REMOVED).
    AdapterRemoved,
    /// Its process was ended (DXGI_ERROR_DEVICE_REMOVED).
    ProcessEnded,
    /// The application broke a rule of the API (DXGI_ERROR_INVALID_CALL). The call was dropped.
    InvalidCall(Box<InvalidCall>),
    /// The application removed it, with [`crate::Device::remove`] (DXGI_ERROR_DEVICE_REMOVED).
    ByApplication,
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

impl RemovedReason {
    /// Returns the result code that GetDeviceRemovedReason has for it.
    pub fn code(&self) -> ErrorCode {
        match self {
            RemovedReason::Faulted(_) | RemovedReason::Hung(_) => ErrorCode::DeviceHung,
            RemovedReason::Reset(_) => ErrorCode::DeviceReset,
            RemovedReason::InvalidCall(_) => ErrorCode::InvalidCall,
            RemovedReason::AdapterStopped
            | RemovedReason::AdapterRemoved
            | RemovedReason::ProcessEnded
            | RemovedReason::ByApplication
            | RemovedReason::Refused { .. } => ErrorCode::DeviceRemoved,
        }
    }
}

/// A call of the application that broke a rule, and removed the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidCall {
    /// The call's official name.
    pub call: &'static str,
    /// The name of the queue, for a call of a queue.
    pub queue: Option<String>,
    /// The label of the list that broke the rule, if there is one.
    pub list: Option<String>,
    /// The number of the command in the list, from 0 on, for a rule about a command.
    pub command: Option<u64>,
    /// The rule, the value seen, and the next step.
    pub why: String,
}

impl InvalidCall {
    /// Describes a call that broke a rule.
    pub(crate) fn new(call: &'static str, why: impl Into<String>) -> InvalidCall {
        InvalidCall { call, queue: None, list: None, command: None, why: why.into() }
    }
}

impl fmt::Display for InvalidCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.call)?;
        if let Some(queue) = &self.queue {
            write!(f, " on queue '{queue}'")?;
        }
        if let Some(list) = &self.list {
            write!(f, ", list '{list}'")?;
        }
        if let Some(command) = self.command {
            write!(f, ", command {command}")?;
        }
        write!(f, ": {}", self.why)
    }
}

/// The command of a list at which an engine stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedCommand {
    /// Its number in the list, from 0 on, labels not counted.
    pub number: u64,
    /// Its kind, as `copy` or `dispatch`.
    pub kind: &'static str,
}

impl fmt::Display for ReportedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command {} ({})", self.number, self.kind)
    }
}

/// Work of the device that hung.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hang {
    /// The kernel's report: symptom, queue by number, command buffer.
    pub report: HangReport,
    /// Name of the queue; `None` if unknown.
    pub queue: Option<String>,
    /// Label of the list; `None` without one, or if unknown.
    pub list: Option<String>,
    /// The command of the list that ran; `None` if unknown.
    pub command: Option<ReportedCommand>,
}

impl fmt::Display for Hang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HangReport { what, command, .. } = &self.report;
        f.write_str(what)?;
        if let Some(queue) = &self.queue {
            write!(f, "; queue '{queue}'")?;
        }
        if let Some(list) = &self.list {
            write!(f, ", list '{list}'")?;
        }
        if let Some(reported) = &self.command {
            write!(f, ", {reported}")?;
        }
        match command.is_empty() {
            true => Ok(()),
            false => write!(f, ", {command}"),
        }
    }
}

/// A fault of a queue of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kernel's report: queue by number, address, kind of access.
    pub report: FaultReport,
    /// Name of the queue; `None` if unknown.
    pub queue: Option<String>,
    /// Label of the list; `None` without one, or if unknown.
    pub list: Option<String>,
    /// The command of the list that faulted; `None` if unknown.
    pub command: Option<ReportedCommand>,
    /// Whether the adapter has several physical GPUs, so that the text names the one of the report.
    pub of_linked_adapter: bool,
}

impl fmt::Display for RemovedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RemovedReason::Faulted(fault) => fault.fmt(f),
            RemovedReason::Hung(hang) => write!(f, "DEVICE_HUNG: {hang}"),
            RemovedReason::Reset(what) => write!(f, "DEVICE_RESET: {what}"),
            RemovedReason::AdapterStopped => f.write_str("DEVICE_REMOVED: the adapter stopped"),
            RemovedReason::AdapterRemoved => f.write_str("DEVICE_REMOVED: the adapter was removed"),
            RemovedReason::ProcessEnded => f.write_str("DEVICE_REMOVED: its process was ended"),
            RemovedReason::InvalidCall(call) => write!(f, "INVALID_CALL: {call}"),
            RemovedReason::ByApplication => {
                f.write_str("DEVICE_REMOVED: the application removed it")
            }
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
        if let Some(command) = &self.command {
            write!(f, ", {command}")?;
        }
        let access = if *write { "store to" } else { "load from" };
        write!(f, ", {access} {gpu_va:#x}: {what}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text is all that a user has of a device that is gone.
    #[test]
    fn each_reason_says_what_happened_and_to_what() {
        let call = InvalidCall {
            queue: Some("graphics".to_owned()),
            list: Some("shadows".to_owned()),
            command: Some(3),
            ..InvalidCall::new("ExecuteCommandLists", "it names nothing")
        };
        let hang = Hang {
            report: HangReport { what: "node 0 hangs".to_owned(), ..HangReport::default() },
            queue: Some("graphics".to_owned()),
            list: None,
            command: Some(ReportedCommand { number: 2, kind: "copy" }),
        };
        let fault = Fault {
            report: FaultReport { gpu_va: 0x10, write: true, ..FaultReport::default() },
            queue: None,
            list: None,
            command: None,
            of_linked_adapter: true,
        };
        let refused = RemovedReason::Refused {
            call: "D3DKMTGetDeviceState",
            object: "process 'game'".to_owned(),
            status: Status::DEVICE_REMOVED,
        };
        let refused_text =
            format!("D3DKMTGetDeviceState for process 'game': {}", Status::DEVICE_REMOVED);
        for (reason, code, text) in [
            (
                RemovedReason::Hung(Box::new(hang)),
                ErrorCode::DeviceHung,
                "DEVICE_HUNG: node 0 hangs; queue 'graphics', command 2 (copy)",
            ),
            (
                RemovedReason::Faulted(Box::new(fault)),
                ErrorCode::DeviceHung,
                "a queue on GPU 0, packet 0, store to 0x10: ",
            ),
            (
                RemovedReason::Reset("node 0 was reset".to_owned()),
                ErrorCode::DeviceReset,
                "DEVICE_RESET: node 0 was reset",
            ),
            (
                RemovedReason::AdapterStopped,
                ErrorCode::DeviceRemoved,
                "DEVICE_REMOVED: the adapter stopped",
            ),
            (
                RemovedReason::AdapterRemoved,
                ErrorCode::DeviceRemoved,
                "DEVICE_REMOVED: the adapter was removed",
            ),
            (
                RemovedReason::ProcessEnded,
                ErrorCode::DeviceRemoved,
                "DEVICE_REMOVED: its process was ended",
            ),
            (
                RemovedReason::InvalidCall(Box::new(call)),
                ErrorCode::InvalidCall,
                "INVALID_CALL: ExecuteCommandLists on queue 'graphics', list 'shadows', command 3: it names nothing",
            ),
            (
                RemovedReason::ByApplication,
                ErrorCode::DeviceRemoved,
                "DEVICE_REMOVED: the application removed it",
            ),
            (refused, ErrorCode::DeviceRemoved, refused_text.as_str()),
        ] {
            assert_eq!((reason.to_string().as_str(), reason.code()), (text, code));
        }
    }
}
