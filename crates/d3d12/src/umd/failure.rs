//! Why a call of the user-mode driver failed. It becomes a [`crate::Error`] in `shared_device`,
//! after every submitter lock was dropped: the reason of a removal names what the queues were
//! running.

use tidegate_calls::{DeviceState, Status};

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The kernel refused a call, given by its official name.
    Refused(&'static str, Status),
    /// The kernel refused a wait for the queue's progress.
    ProgressRefused(Status),
    /// The device was lost during a wait for the queue's progress: its state.
    DeviceLost(Result<DeviceState, Status>),
    /// The doorbell is lost for good.
    Aborted,
    /// The queue was recreated, and the command buffer with this label was interrupted.
    Interrupted(Option<String>),
    /// What a submission uses exceeds local memory by this many bytes.
    OverBudget(u64),
    /// More lists in one call than the ring takes as one unit.
    TooManyLists { lists: usize, most: u64 },
    /// A user-mode queue was given a present.
    PresentOnUserQueue,
}

impl Failure {
    /// Turns the status of a refused call into a failure.
    pub(crate) fn of(call: &'static str) -> impl Fn(Status) -> Failure {
        move |status| Failure::Refused(call, status)
    }
}
