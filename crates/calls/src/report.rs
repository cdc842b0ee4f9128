//! What a kernel reports of queues and displays to the owner of a machine.

use std::fmt;
use tidegate_platform::QueueNumber;

/// A wait at which a queue is parked, for reports of machines that stand still. VidSch or an engine
/// holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingWait {
    /// The context or hardware queue.
    pub queue: QueueNumber,
    /// The fence's name.
    pub fence: String,
    /// The value that is waited for.
    pub value: u64,
    /// The fence's value; 0 where the CPU cannot see it.
    pub current: u64,
    /// The ended process that could have signalled it, in words.
    pub lost: Option<String>,
}

impl fmt::Display for PendingWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fence '{}' to reach {} (it is at {})", self.fence, self.value, self.current)
    }
}

/// What became of the presents of an adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisplayStats {
    /// Flips that were queued.
    pub presents: u64,
    /// Those that a vertical sync has latched.
    pub shown: u64,
    /// Those that gave way to a newer one, or that went with their queue or device.
    pub discarded: u64,
    /// Vertical syncs that were reported.
    pub vsyncs: u64,
    /// Vertical syncs that showed an older picture, although a newer one was queued and its
    /// interval over.
    pub missed_vsyncs: u64,
    /// From the call to the vertical sync that latched the flip, of all that were shown, in
    /// nanoseconds.
    pub latency_ns: u64,
    /// The longest of these times.
    pub latency_max_ns: u64,
}
