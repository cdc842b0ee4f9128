//! Owns the errors of the driver, and the status that the kernel gets for each.
//!
//! A DDI that may fail returns the status. A DDI that must succeed writes a [`Violation`] instead:
//! the kernel or the driver broke the contract. Tests assert that there are none.

use crate::Kind;
use tidegate_ddi::Status;
use tidegate_gpu_abi::AdminError;
use tidegate_platform::OutOfBounds;

/// Why a call to the driver failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KmdError {
    /// A handle that the driver never gave out, has taken back, or gave out for another kind of
    /// object.
    #[error(
        "handle {handle:#x} names no live {kind:?}; pass one that the driver returned and that is not destroyed"
    )]
    NoSuchObject {
        /// What it should name.
        kind: Kind,
        /// The handle.
        handle: u64,
    },
    /// An object went while others still hang on it.
    #[error("a {parent:?} is destroyed while {children} object(s) hang on it; destroy those first")]
    StillInUse {
        /// What is destroyed.
        parent: Kind,
        /// How many hang on it.
        children: usize,
    },
    /// The handle table is full.
    #[error("more than 2^24 objects of kind {0:?}; destroy some")]
    TooManyObjects(Kind),
    /// An argument makes no sense.
    #[error("{0}")]
    Argument(&'static str),
    /// The node or the negotiated features do not have it.
    #[error("not supported: {0}")]
    NotSupported(&'static str),
    /// A ring of the driver is full.
    #[error("all {slots} slots of the ring hold work; wait for a completion")]
    RingFull {
        /// How many slots it has.
        slots: u64,
    },
    /// A write beyond the memory that was handed in.
    #[error(transparent)]
    OutOfBounds(#[from] OutOfBounds),
    /// The CMP refused an admin command.
    #[error("the CMP refused the command: {0}")]
    Refused(#[from] AdminError),
    /// The mailbox returned a value that is no status: the device does not respond.
    #[error("the mailbox answers {0:#x}, which is no status; the device is gone")]
    Gone(u64),
    /// The kernel refused what the driver needs for it.
    #[error("the kernel refused it: {0}")]
    Kernel(Status),
    /// Before start, or after stop.
    #[error("the adapter is not started")]
    NotStarted,
}

impl From<KmdError> for Status {
    fn from(error: KmdError) -> Status {
        match error {
            KmdError::NoSuchObject { .. }
            | KmdError::StillInUse { .. }
            | KmdError::Argument(_)
            | KmdError::OutOfBounds(_)
            | KmdError::Refused(_) => Status::INVALID_PARAMETER,
            KmdError::TooManyObjects(_) | KmdError::RingFull { .. } => {
                Status::INSUFFICIENT_RESOURCES
            }
            KmdError::Kernel(status) => status,
            KmdError::NotSupported(_) => Status::NOT_SUPPORTED,
            KmdError::Gone(_) | KmdError::NotStarted => Status::DEVICE_REMOVED,
        }
    }
}

/// A call that must succeed and could not: a broken contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{ddi}: {error}")]
pub struct Violation {
    /// The call, by its official name.
    pub ddi: &'static str,
    /// What was wrong.
    pub error: KmdError,
}
