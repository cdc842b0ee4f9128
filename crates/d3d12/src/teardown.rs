//! The report of refused destroy calls, which a `Drop` cannot return.
//!
//! A refusal leaves a kernel object behind, so it is a defect of this crate or of the kernel.
//! DEVICE_REMOVED does not count: the process has ended together with all of its objects.

use std::fmt;
use std::sync::Arc;
use tidegate_calls::{Handle, Status};
use tidegate_platform::{Mutex, Platform};

/// A destroy call that the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedDestroy {
    /// The published name of the call.
    pub call: &'static str,
    /// The object.
    pub object: Handle,
    /// The status that the kernel returned.
    pub status: Status,
}

impl fmt::Display for RefusedDestroy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of handle {:#x} was refused with {}: the object is left",
            self.call, self.object.0, self.status
        )
    }
}

/// The refused destroy calls of one device. It outlives the device.
#[derive(Clone)]
pub struct TeardownReport(Arc<Mutex<Vec<RefusedDestroy>>>);

impl TeardownReport {
    pub(crate) fn new(platform: &Platform) -> TeardownReport {
        TeardownReport(Arc::new(platform.mutex("refused destroy calls", Vec::new())))
    }

    /// Returns the calls that were refused so far, oldest first.
    pub fn refused(&self) -> Vec<RefusedDestroy> {
        self.0.lock().clone()
    }

    /// Returns whether it is complete: nothing of the device holds it any more.
    pub fn is_complete(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Adds a refused call.
    pub(crate) fn note(&self, call: &'static str, object: Handle, done: Result<(), Status>) {
        match done {
            Ok(()) | Err(Status::DEVICE_REMOVED) => {}
            Err(status) => self.0.lock().push(RefusedDestroy { call, object, status }),
        }
    }
}

impl fmt::Debug for TeardownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TeardownReport").field(&self.refused()).finish()
    }
}
