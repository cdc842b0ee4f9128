//! The errors of this crate: one enum; each message says what failed, where, and what to do.

use crate::device_loss::RemovedReason;
use crate::model::CommandListType;
use tidegate_calls::Status;

/// Result of a call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed. Unless said otherwise the call changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The machine stopped; what was waited for will not come.
    #[error("the machine stopped before the call could end")]
    Stopped,
    /// The device was lost. It stays lost.
    #[error("the device was removed: {0}; drop it with everything in it and create it again")]
    DeviceRemoved(RemovedReason),
    /// A user-mode queue lost its doorbell for good (DISCONNECTED_ABORT). What was queued may never
    /// run.
    #[error(
        "queue '{queue}' lost its doorbell for good; drop the queue and create it again, or create it with packet or \
         hardware submission"
    )]
    QueueAborted {
        /// The queue.
        queue: String,
    },
    /// A user-mode queue was recreated (see [`crate::OnAbort`]) while the GPU was in the middle of
    /// a command buffer: that one does not run to its end. Everything else that was queued was
    /// submitted again, what the failed call was given too.
    #[error(
        "queue '{queue}' was recreated after it had lost its doorbell for good, and its command buffer{} was interrupted; \
         its results are incomplete, run it again",
        list.as_ref().map_or_else(String::new, |label| format!(" '{label}'"))
    )]
    WorkLost {
        /// The queue.
        queue: String,
        /// The label of the list, if it had one.
        list: Option<String>,
    },
    /// A user-mode queue met a monitored fence.
    #[error(
        "queue '{queue}' submits from user mode and takes native fences only, and fence '{fence}' is a monitored fence; \
         create the device with native fences, or the queue with packet or hardware submission"
    )]
    MonitoredFence {
        /// The queue.
        queue: String,
        /// The fence.
        fence: String,
    },
    /// A list does not take such a command.
    #[error("a {list_type} list takes no {command}; record it in a list of a {takes} queue")]
    NotAccepted {
        /// The list's type.
        list_type: CommandListType,
        /// The command.
        command: &'static str,
        /// Which queues take it.
        takes: &'static str,
    },
    /// A list was given to a queue of another type.
    #[error(
        "queue '{queue}' runs {queue_type} lists and was given a {list_type} list; record it for this queue's type"
    )]
    WrongQueue {
        /// The queue.
        queue: String,
        /// What it runs.
        queue_type: CommandListType,
        /// What it was given.
        list_type: CommandListType,
    },
    /// More lists in one call than fit the ring as one unit.
    #[error(
        "queue '{queue}' was given {lists} lists in one call and its ring takes {most}; split the call, or create the \
         device with more ring_slots"
    )]
    TooManyLists {
        /// The queue.
        queue: String,
        /// How many lists.
        lists: usize,
        /// How many fit.
        most: u64,
    },
    /// A range leaves its buffer.
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
        /// How many.
        bytes: u64,
        /// The buffer's length.
        size: u64,
    },
    /// A number that makes no sense.
    #[error("{what}: {why}")]
    BadValue {
        /// Which call or command, and of which object.
        what: String,
        /// What is wrong, and what to do.
        why: &'static str,
    },
    /// Buffers do not fit into local memory at once.
    #[error(
        "{what} needs {bytes} more bytes of local memory at once than the process can have; use fewer buffers in one \
         submission, evict others, or give the adapter more local memory"
    )]
    OverBudget {
        /// What was requested.
        what: String,
        /// How many bytes are too many.
        bytes: u64,
    },
    /// The adapter or a node cannot do it.
    #[error("{what} is not supported: {why}")]
    NotSupported {
        /// What was requested.
        what: String,
        /// What is missing, and what to do.
        why: &'static str,
    },
    /// A realtime priority without the privilege to raise priorities.
    #[error(
        "queue '{queue}' asks for priority realtime, and its process has not the privilege to raise priorities; make the \
         device with may_raise_priority, or give the queue priority high"
    )]
    PrivilegeNotHeld {
        /// The queue.
        queue: String,
    },
    /// An object of another device.
    #[error("{what} belongs to another device; create it with the device that uses it")]
    Foreign {
        /// Which.
        what: String,
    },
    /// The graphics kernel refused a call.
    #[error("{call} for {object}: {status}")]
    Call {
        /// The call's official name.
        call: &'static str,
        /// For which object.
        object: String,
        /// What the kernel answered.
        status: Status,
    },
}
