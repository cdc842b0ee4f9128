//! The errors of the driver and the status that the kernel gets for each.
//!
//! A DDI that may fail returns the status. A DDI that must succeed records a [`Violation`]: the
//! kernel or the driver broke the contract. Tests assert that there are none.

use crate::Kind;
use tidegate_ddi::Status;
use tidegate_gpu_abi::AdminError;
use tidegate_platform::OutOfBounds;

/// Why a call to the driver failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KmdError {
    /// A handle that the driver never returned, has freed, or returned for another kind of object.
    #[error(
        "handle {handle:#x} names no live {kind:?}; pass one that the driver returned and has not destroyed"
    )]
    NoSuchObject {
        /// The kind of object expected.
        kind: Kind,
        /// The handle.
        handle: u64,
    },
    /// An object was destroyed before its children.
    #[error("a {parent:?} is destroyed before its {children} children; destroy those first")]
    StillInUse {
        /// The kind of the destroyed object.
        parent: Kind,
        /// The number of live children.
        children: usize,
    },
    /// The handle table is full.
    #[error("more than 2^24 objects of kind {0:?}; destroy some")]
    TooManyObjects(Kind),
    /// An argument is invalid.
    #[error("{0}")]
    Argument(&'static str),
    /// The node or the negotiated features do not support it.
    #[error("not supported: {0}")]
    NotSupported(&'static str),
    /// A ring of the driver is full.
    #[error("all {slots} slots of the ring hold work; wait for a completion")]
    RingFull {
        /// The size of the ring in slots.
        slots: u64,
    },
    /// The commands of a paging operation do not fit the rest of the kernel's DMA buffer.
    #[error("the paging buffer has no room for one command; pass the next buffer")]
    BufferFull,
    /// A write past the end of a buffer from the kernel.
    #[error(transparent)]
    OutOfBounds(#[from] OutOfBounds),
    /// The CMP refused an admin command.
    #[error("the CMP refused the command: {0}")]
    Refused(#[from] AdminError),
    /// The mailbox returned a value that is not a status: the device does not respond.
    #[error("the mailbox returned {0:#x}, which is not a status; the device is gone")]
    Gone(u64),
    /// A kernel callback refused what the driver requested.
    #[error("the kernel refused the request: {0}")]
    Kernel(Status),
    /// The adapter is not started, or is stopped.
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
            KmdError::BufferFull => Status::GRAPHICS_INSUFFICIENT_DMA_BUFFER,
            KmdError::Kernel(status) => status,
            KmdError::NotSupported(_) => Status::NOT_SUPPORTED,
            KmdError::Gone(_) | KmdError::NotStarted => Status::DEVICE_REMOVED,
        }
    }
}

/// A failed call that must succeed: a broken contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{ddi}: {error}")]
pub struct Violation {
    /// The call's official name.
    pub ddi: &'static str,
    /// Why it failed.
    pub error: KmdError,
}
