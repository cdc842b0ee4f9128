//! How a trace is read.

/// What becomes of idle time on a stream that no recorded launch or wait explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gaps {
    /// It is replayed as a delay on the queue.
    #[default]
    Keep,
    /// It is left out.
    Drop,
}

/// How a trace is read. Times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportOptions {
    /// What becomes of unexplained gaps.
    pub gaps: Gaps,
    /// How long the machine that replays takes by itself from a submission to the start of its
    /// work. It is taken off the recorded distance, so that it is not counted twice.
    pub launch_ns: u64,
    /// The same from the end of one piece of work to the start of the next on a queue.
    pub turnaround_ns: u64,
    /// The same from the moment at which a wait of the host is met to its return, when the host
    /// sleeps.
    pub wake_ns: u64,
    /// The same when the host looks again and again. A recorded wait that was over sooner than a
    /// sleeper is woken was of this kind.
    pub seen_ns: u64,
    /// How long a submission keeps the host that replays. It is taken out of the recorded call, so
    /// that a thread does not fall behind by the length of every call that it makes.
    pub call_ns: u64,
    /// How long the machine that replays takes by itself from one command of a list to the next.
    pub command_ns: u64,
    /// Gaps longer than this are unexplained; shorter ones are the device's own turn-around.
    pub explained_within_ns: u64,
}

impl Default for ImportOptions {
    /// Gaps kept, a machine without delays of its own, and 10 µs as the border of what a device's
    /// turn-around explains: in the A100 traces on which this was measured nine tenths of the
    /// distances between queued kernels are at most 5 µs, and half of the launches on an idle
    /// stream start within 5 µs of the end of their call.
    fn default() -> Self {
        Self {
            gaps: Gaps::Keep,
            launch_ns: 0,
            turnaround_ns: 0,
            wake_ns: 0,
            seen_ns: 0,
            call_ns: 0,
            command_ns: 0,
            explained_within_ns: 10_000,
        }
    }
}
