//! Counts what became of the presents of a display.

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
