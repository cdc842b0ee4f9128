//! Failures of the user-mode driver. They become [`crate::Error`]s in `shared_device` after every
//! submitter lock has been dropped, because the removal reason names the queues' running work.

use tidegate_calls::{DeviceState, Status};

/// A failed call. It is one pointer, so that a call that succeeds moves nothing for it.
pub(crate) type Failure = Box<Why>;

/// The reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The kernel refused the call with this official name.
    Refused(&'static str, Status),
    /// The kernel refused a wait for the queue's progress.
    ProgressRefused(Status),
    /// The device was lost during a wait for the queue's progress. Holds its state.
    DeviceLost(Result<DeviceState, Status>),
    /// The doorbell is permanently lost.
    Aborted,
    /// The queue was recreated, and the command buffer with this label was interrupted.
    Interrupted(Option<String>),
    /// The allocations of a submission exceed local memory by this many bytes.
    OverBudget(u64),
    /// More lists in one call than the ring accepts as one unit.
    TooManyLists { lists: usize, most: u64 },
    /// A present on a user-mode queue.
    PresentOnUserQueue,
}

impl Why {
    /// Returns the failure of a queue whose doorbell is permanently lost.
    #[cold]
    pub(crate) fn aborted() -> Failure {
        Why::Aborted.into()
    }

    /// Returns whether the kernel refused a call with this status.
    pub(crate) fn is_status(&self, status: Status) -> bool {
        matches!(self, Why::Refused(_, refused) if *refused == status)
    }

    /// Returns a function that converts the status of a refused call into a failure.
    pub(crate) fn of(call: &'static str) -> impl Fn(Status) -> Failure {
        move |status| Why::Refused(call, status).into()
    }
}
