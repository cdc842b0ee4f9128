//! Owns handles. Kernel and driver each name their own objects; several DDIs swap one for the
//! other.

use tidegate_platform::QueueNumber;

/// A handle that the kernel gave the driver: the driver only ever passes it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OsHandle(pub u64);

/// Reports, statistics and the timeline name contexts and hardware queues by the kernel's handle.
impl From<OsHandle> for QueueNumber {
    fn from(handle: OsHandle) -> QueueNumber {
        QueueNumber(handle.0)
    }
}

/// A handle that the driver gave the kernel: the kernel only ever passes it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriverHandle(pub u64);
