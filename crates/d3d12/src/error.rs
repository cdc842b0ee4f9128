//! The errors of this crate: one enum; each message says what failed, where, and what to do.

use crate::device_loss::RemovedReason;
use crate::error_code::ErrorCode;
use crate::model::CommandListType;
use crate::states::violation::StateViolation;
use tidegate_calls::Status;

/// Result of a call of this crate. Not exported at the root, where a glob import of it would hide
/// the `Result` of the standard library.
pub type Result<T> = std::result::Result<T, Error>;

/// Errors of a call. Unless stated otherwise the call changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The machine stopped before the end of a wait.
    #[error("the machine stopped before the call could end")]
    Stopped,
    /// The device was lost. It stays lost.
    #[error("the device was removed: {0}; drop it with everything in it and create it again")]
    DeviceRemoved(RemovedReason),
    /// A user-mode queue lost its doorbell for good (DISCONNECTED_ABORT). Queued work may never
    /// run.
    #[error(
        "queue '{queue}' lost its doorbell for good; create it again, or with packet or hardware \
         submission"
    )]
    QueueAborted {
        /// The queue.
        queue: String,
    },
    /// A user-mode queue was recreated (see [`crate::OnAbort`]) while the GPU was in the middle of
    /// a command buffer, which does not run to its end. All other queued work was submitted again,
    /// including the failed call.
    #[error(
        "queue '{queue}' was recreated without its doorbell; its command buffer{} was interrupted, \
         run it again",
        list.as_ref().map_or_else(String::new, |label| format!(" '{label}'"))
    )]
    WorkLost {
        /// The queue.
        queue: String,
        /// The label of the list, if it had one.
        list: Option<String>,
    },
    /// A wait or signal of a user-mode queue names a monitored fence.
    #[error(
        "fence '{fence}' is monitored, and user-mode queue '{queue}' needs native fences; create the \
         device with native fences, or the queue with packet or hardware submission"
    )]
    MonitoredFence {
        /// The queue.
        queue: String,
        /// The fence.
        fence: String,
    },
    /// A command that lists of this type do not take.
    #[error("a {list_type} list takes no {command}; record it in a list of a {takes} queue")]
    NotAccepted {
        /// The list's type.
        list_type: CommandListType,
        /// The command.
        command: &'static str,
        /// The queues that take it.
        takes: &'static str,
    },
    /// A second list or a reset of an allocator from which a list records.
    #[error("allocator '{allocator}' records a list; close or drop that list first")]
    AllocatorRecords {
        /// The allocator.
        allocator: String,
    },
    /// A reset of an allocator while one of its lists executes.
    #[error(
        "allocator '{allocator}' cannot be reset: list '{list}' executes on queue '{queue}'; wait for \
         a fence that the queue signals behind it"
    )]
    AllocatorExecutes {
        /// The allocator.
        allocator: String,
        /// The label of the list; empty without one.
        list: String,
        /// The queue.
        queue: String,
    },
    /// A list of another type than its allocator.
    #[error("allocator '{allocator}' is for {has} lists, not for a {list_type} list")]
    WrongAllocator {
        /// The allocator.
        allocator: String,
        /// The allocator's list type.
        has: CommandListType,
        /// The type of the list.
        list_type: CommandListType,
    },
    /// A list of another type than its queue.
    #[error(
        "queue '{queue}' runs {queue_type} lists, not a {list_type} list; record it for this type"
    )]
    WrongQueue {
        /// The queue.
        queue: String,
        /// The queue's list type.
        queue_type: CommandListType,
        /// The type of the list.
        list_type: CommandListType,
    },
    /// More lists in one call than the ring takes as one unit.
    #[error(
        "{lists} lists in one call to queue '{queue}', and its ring takes {most}; split the call, or \
         create the device with more ring_slots"
    )]
    TooManyLists {
        /// The queue.
        queue: String,
        /// Number of lists.
        lists: usize,
        /// Number of lists that fit.
        most: u64,
    },
    /// A range that ends outside of its buffer.
    #[error(
        "{command}: bytes {offset}..{} leave buffer '{buffer}' of {size} bytes; correct offset or length",
        u128::from(*.offset) + u128::from(*.bytes)
    )]
    OutOfRange {
        /// What was requested.
        command: &'static str,
        /// The buffer.
        buffer: String,
        /// First byte.
        offset: u64,
        /// Size in bytes.
        bytes: u64,
        /// The buffer's length.
        size: u64,
    },
    /// An invalid argument.
    #[error("{what}: {why}")]
    BadValue {
        /// The call or command, and its object.
        what: String,
        /// The mistake and the next step.
        why: &'static str,
    },
    /// A list breaks the rules of resource states, on a device that checks them with errors
    /// ([`crate::Validation::STATE_ERRORS`]).
    #[error("the recording of a list failed: {0}")]
    State(Box<StateViolation>),
    /// Buffers do not fit into local memory at once.
    #[error(
        "{what} needs {bytes} bytes of local memory more than its budget; use fewer buffers in one \
         submission, evict others, or add local memory"
    )]
    OverBudget {
        /// What was requested.
        what: String,
        /// Missing bytes.
        bytes: u64,
    },
    /// The adapter or a node does not support it.
    #[error("{what} is not supported: {why}")]
    NotSupported {
        /// What was requested.
        what: String,
        /// The missing capability and the next step.
        why: &'static str,
    },
    /// A queue needs the privilege to raise priorities.
    #[error(
        "queue '{queue}' needs the privilege to raise priorities for {wanted}; create the device with \
         may_raise_priority, or the queue {instead}"
    )]
    PrivilegeNotHeld {
        /// The queue.
        queue: String,
        /// The request that needs the privilege.
        wanted: &'static str,
        /// The request that needs no privilege.
        instead: &'static str,
    },
    /// An object of another device.
    #[error("{what} belongs to another device; create it with the device that uses it")]
    Foreign {
        /// The object.
        what: String,
    },
    /// An object was to be shared under a name that another shared object of the machine has.
    #[error("the shared name '{name}' is taken; choose another, or open the object that has it")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// No shared object of the machine has this name.
    #[error(
        "no shared object has the name '{name}'; share it before, and keep a handle with that name"
    )]
    NameNotFound {
        /// The name.
        name: String,
    },
    /// The graphics kernel refused a call.
    #[error("{call} for {object}: {status}")]
    Call {
        /// The call's official name.
        call: &'static str,
        /// The object of the call.
        object: String,
        /// The status.
        status: Status,
    },
}

impl Error {
    /// Returns the kind of the error. That of a removed device is the code of its reason, as
    /// GetDeviceRemovedReason returns it.
    pub fn code(&self) -> ErrorCode {
        match self {
            Error::DeviceRemoved(reason) => reason.code(),
            Error::Stopped | Error::QueueAborted { .. } | Error::WorkLost { .. } => {
                ErrorCode::Aborted
            }
            Error::MonitoredFence { .. }
            | Error::WrongAllocator { .. }
            | Error::NotAccepted { .. }
            | Error::WrongQueue { .. }
            | Error::TooManyLists { .. }
            | Error::OutOfRange { .. }
            | Error::BadValue { .. }
            | Error::Foreign { .. } => ErrorCode::InvalidArgument,
            Error::NameTaken { .. } => ErrorCode::InvalidCall,
            Error::NameNotFound { .. } => ErrorCode::NotFound,
            Error::AllocatorRecords { .. } | Error::AllocatorExecutes { .. } | Error::State(_) => {
                ErrorCode::Failed
            }
            Error::OverBudget { .. } => ErrorCode::OutOfMemory,
            Error::NotSupported { .. } => ErrorCode::Unsupported,
            Error::PrivilegeNotHeld { .. } => ErrorCode::AccessDenied,
            Error::Call { status, .. } => ErrorCode::of_status(*status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: Status) -> Error {
        Error::Call { call: "D3DKMTCreateDevice", object: "a device".to_owned(), status }
    }

    /// Applications branch on these numbers, which Windows has published.
    #[test]
    fn each_error_has_the_published_number_of_its_kind() {
        let name = || "x".to_owned();
        let what = || (name(), "why");
        for (error, code) in [
            (Error::Stopped, 0x8000_4004),
            (Error::QueueAborted { queue: name() }, 0x8000_4004),
            (Error::DeviceRemoved(RemovedReason::ProcessEnded), 0x887A_0005),
            (Error::DeviceRemoved(RemovedReason::Reset(name())), 0x887A_0007),
            (Error::MonitoredFence { queue: name(), fence: name() }, 0x8007_0057),
            (Error::BadValue { what: what().0, why: what().1 }, 0x8007_0057),
            (Error::NameTaken { name: name() }, 0x887A_0001),
            (Error::NameNotFound { name: name() }, 0x887A_0002),
            (Error::AllocatorRecords { allocator: name() }, 0x8000_4005),
            (Error::NotSupported { what: what().0, why: what().1 }, 0x887A_0004),
            (refused(Status::DEVICE_REMOVED), 0x887A_0005),
            (refused(Status::DEVICE_HUNG), 0x887A_0006),
            (refused(Status::GRAPHICS_ADAPTER_WAS_RESET), 0x887A_0007),
            (refused(Status::NO_MEMORY), 0x8007_000E),
            (refused(Status::INSUFFICIENT_RESOURCES), 0x8007_000E),
            (refused(Status::NOT_SUPPORTED), 0x887A_0004),
            (refused(Status::GRAPHICS_PRESENT_DENIED), 0x887A_0004),
            (refused(Status::ACCESS_DENIED), 0x8007_0005),
            (refused(Status::PRIVILEGE_NOT_HELD), 0x8007_0005),
            (refused(Status::CANCELLED), 0x8000_4004),
            (refused(Status::INVALID_HANDLE), 0x8007_0057),
            (refused(Status::INVALID_PARAMETER), 0x8007_0057),
            (refused(Status::OBJECT_TYPE_MISMATCH), 0x8007_0057),
            (refused(Status::BUFFER_TOO_SMALL), 0x8007_0057),
            (refused(Status::GRAPHICS_VIDPN_SOURCE_IN_USE), 0x8000_4005),
        ] {
            assert_eq!(error.code().hresult(), code, "{error}");
        }
    }
}
