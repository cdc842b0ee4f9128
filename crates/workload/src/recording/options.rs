//! Options of reading a trace.

/// Treatment of idle time on a stream without a recorded launch or wait as its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gaps {
    /// It is replayed as a delay on the queue.
    #[default]
    Keep,
    /// It is left out.
    Drop,
}

/// Options of reading a trace. Times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportOptions {
    /// Treatment of unexplained gaps.
    pub gaps: Gaps,
    /// The replaying machine's own time from a submission to the start of its work. It is
    /// subtracted from the recorded distance, so that it is not counted twice.
    pub launch_ns: u64,
    /// Its own time from the end of one piece of work to the start of the next on a queue.
    pub turnaround_ns: u64,
    /// Its own time from the signal that ends a wait of the host to the return of a sleeping host.
    pub wake_ns: u64,
    /// The same for a host that polls. A recorded wait that ended sooner than a sleeper is woken
    /// was polled.
    pub seen_ns: u64,
    /// The replaying host's own time in a submission. It is subtracted from the recorded call, so
    /// that a thread does not fall behind with every call.
    pub call_ns: u64,
    /// The replaying machine's own time from one command of a list to the next.
    pub command_ns: u64,
    /// Gaps longer than this are unexplained; shorter ones are the device's own turn-around.
    pub explained_within_ns: u64,
}

impl Default for ImportOptions {
    /// Keeps gaps, for a machine without delays of its own. Gaps up to 10 µs count as turn-around:
    /// in the measured A100 traces nine tenths of the distances between queued kernels are at most
    /// 5 µs, and half of the launches on an idle stream start within 5 µs of the end of their call.
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
