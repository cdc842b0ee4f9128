//! Reports of a kernel on queues and displays, for the owner of a machine.

use std::fmt;
use tidegate_platform::QueueNumber;

/// A wait at which a queue is parked, in VidSch or on an engine. For reports of standstills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingWait {
    /// The context or hardware queue.
    pub queue: QueueNumber,
    /// The fence's name.
    pub fence: String,
    /// The awaited value.
    pub value: u64,
    /// The fence's value; 0 if the CPU cannot read it.
    pub current: u64,
    /// The ended process that could have signalled it, in words.
    pub lost: Option<String>,
}

impl fmt::Display for PendingWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fence '{}' to reach {} (it is at {})", self.fence, self.value, self.current)
    }
}

/// Statistics of the presents of an adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisplayStats {
    /// Flips that were queued.
    pub presents: u64,
    /// Flips that a vertical sync has latched.
    pub shown: u64,
    /// Flips replaced by a newer one, or lost with their queue or device.
    pub discarded: u64,
    /// Vertical syncs that were reported.
    pub vsyncs: u64,
    /// Vertical syncs that showed an older picture, although a newer one was queued and its
    /// interval over.
    pub missed_vsyncs: u64,
    /// Sum of the times from the call to the vertical sync that latched the flip, in nanoseconds.
    pub latency_ns: u64,
    /// Longest time from the call to that vertical sync.
    pub latency_max_ns: u64,
}
