//! A fence log's entries on the timeline: a wait from the first time it was observed unsatisfied
//! until it was satisfied, a signal at its execution, a command buffer of the verbose log, and a
//! mark where entries were lost.
//!
//! The log has no queue times. The user-mode driver records those, and the finished trace
//! joins both.

use super::object::Fence;
use crate::driver::DriverPort;
use std::sync::{Arc, OnceLock};
use tidegate_d3dukmdt::log::LogEntry;
use tidegate_ddi::Irql;
use tidegate_ddi::fence::LogType;
use tidegate_platform::once;
use tidegate_trace::{Kind, LaneId, NameId, Record};

/// DXGK_NATIVE_FENCE_LOG_OPERATION numbers.
const SIGNAL_EXECUTED: u32 = 0;
const WAIT_UNBLOCKED: u32 = 1;
/// Private to this project, in the verbose log.
const COMMANDS_EXECUTED: u32 = 256;

/// The timeline's time at the GPU clock's 0. The clocks are compared once: both count nanoseconds
/// of the same oscillator.
#[derive(Default)]
pub(super) struct GpuClock(OnceLock<u64>);

impl GpuClock {
    fn now(&self, level: Irql<'_>, port: &DriverPort) -> Clocks {
        let zero_ns = *once::make_first(&self.0, || {
            let read = port.driver(level).calibrate_gpu_clock(&level.raise(), 0);
            read.cpu.0.saturating_sub(read.gpu_ns)
        });
        Clocks { zero_ns, now_ns: port.platform.stamp_ns() }
    }
}

/// Converts GPU times to times of the timeline.
struct Clocks {
    /// The timeline's time at the GPU's 0.
    zero_ns: u64,
    /// Upper bound for any time that the GPU has written.
    now_ns: u64,
}

impl Clocks {
    fn stamp(&self, gpu_ns: u64) -> u64 {
        self.zero_ns.saturating_add(gpu_ns).min(self.now_ns)
    }

    /// When an operation was complete. Hardware of a linked adapter may omit the time, which leaves
    /// the present as the only bound.
    // spec: NF-325
    fn end_of(&self, entry: &LogEntry) -> u64 {
        if entry.end_ns == 0 { self.now_ns } else { self.stamp(entry.end_ns) }
    }
}

/// The entries of one log, oldest first.
pub(super) struct ReadEntries<'a> {
    pub(super) log_type: LogType,
    pub(super) entries: &'a [LogEntry],
    /// Number of entries overwritten before the first one, since `before_ns`.
    pub(super) lost: u64,
    pub(super) before_ns: u64,
}

/// Records entries on the lane of their queue. `fence_of` resolves a handle in the queue's process.
pub(super) fn record(
    level: Irql<'_>,
    port: &DriverPort,
    clock: &GpuClock,
    lane: LaneId,
    read: &ReadEntries<'_>,
    fence_of: &dyn Fn(u32) -> Option<Arc<Fence>>,
) {
    let (platform, clocks) = (&port.platform, clock.now(level, port));
    let ReadEntries { log_type, entries, lost, before_ns } = *read;
    // spec: NF-204
    if lost > 0 {
        let from = clocks.stamp(before_ns);
        let to = entries.first().map_or(clocks.now_ns, |first| clocks.end_of(first)).max(from);
        platform.record(Record::span(lane, Kind::Lost, NameId::NONE, from, to).with_arg(lost));
    }
    for entry in entries {
        let end = clocks.end_of(entry);
        // A wait that never stalled has no observed time.
        let start = match entry.observed_ns {
            0 => end,
            observed => clocks.stamp(observed).min(end),
        };
        let fence = || fence_of(entry.fence_handle).map(|fence| fence.trace());
        let of_fence = |kind, start| {
            let span = Record::span(lane, kind, NameId::NONE, start, end);
            platform.record(match fence() {
                Some(fence) => span.on_fence(fence, entry.fence_value),
                None => span,
            });
        };
        match (log_type, entry.operation) {
            (LogType::Waits, WAIT_UNBLOCKED) => of_fence(Kind::Wait, start),
            (LogType::Signals, SIGNAL_EXECUTED) => of_fence(Kind::Signal, end),
            (LogType::Commands, COMMANDS_EXECUTED) => {
                let name = platform.trace_name("command buffer");
                platform.record(
                    Record::span(lane, Kind::Mark, name, start, end).with_arg(entry.fence_value),
                );
            }
            // Hardware writes no such entry, so a process wrote it.
            _ => {}
        }
    }
}
