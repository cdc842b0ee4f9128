//! Handles. Kernel and driver each name their own objects. Several DDIs exchange the two names of
//! an object.

use tidegate_platform::QueueNumber;

/// A handle of the kernel. The driver does not interpret it and only passes it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OsHandle(pub u64);

/// Reports, statistics and the timeline name contexts and hardware queues by the kernel's handle.
impl From<OsHandle> for QueueNumber {
    fn from(handle: OsHandle) -> QueueNumber {
        QueueNumber(handle.0)
    }
}

/// A handle of the driver. The kernel does not interpret it and only passes it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriverHandle(pub u64);
