//! What a refused call returns: its status where it has one, and the default where it has none.

use crate::caps::{AdapterCaps, NativeFenceCaps, UserModeSubmissionCaps};
use crate::feature::FeatureSupport;
use crate::fence::GpuClockCalibration;
use crate::memory::{PageTableShape, Segment};
use tidegate_d3dukmdt::Status;

/// The result of an entry.
pub(crate) trait Refusal {
    /// Returns the result of a call that is refused with `status`.
    fn refused(status: Status) -> Self;

    /// Returns the status of the result, where it has one.
    fn status(&self) -> Option<Status>;
}

impl<T> Refusal for Result<T, Status> {
    fn refused(status: Status) -> Self {
        Err(status)
    }

    fn status(&self) -> Option<Status> {
        Some(self.as_ref().err().copied().unwrap_or(Status::SUCCESS))
    }
}

macro_rules! default_refusals {
    ($($ty:ty),*) => {$(
        impl Refusal for $ty {
            fn refused(_status: Status) -> Self {
                Self::default()
            }

            fn status(&self) -> Option<Status> {
                None
            }
        }
    )*};
}

default_refusals!((), bool, AdapterCaps, NativeFenceCaps, UserModeSubmissionCaps);
default_refusals!(FeatureSupport, GpuClockCalibration, PageTableShape, Vec<Segment>);
