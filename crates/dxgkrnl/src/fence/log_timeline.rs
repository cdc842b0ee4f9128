//! Owns what a fence log's entries come to on the timeline: a wait from when it was first seen
//! unmet to when it was met, a signal at the time of its execution, a command buffer of the verbose
//! log, and a mark where entries were lost.
//!
//! The queued times are not in the log: the user-mode driver records those, and the trace joins the
//! two when it is finished.

use crate::adapter::Adapter;
use crate::hwqueue::HwQueue;
use tidegate_d3dukmdt::log::LogEntry;
use tidegate_ddi::Dispatch;
use tidegate_ddi::fence::LogType;
use tidegate_trace::{Kind, LaneId, NameId, Record};

/// DXGK_NATIVE_FENCE_LOG_OPERATION numbers.
const SIGNAL_EXECUTED: u32 = 0;
const WAIT_UNBLOCKED: u32 = 1;
/// This project's own, in the verbose log.
const COMMANDS_EXECUTED: u32 = 256;

/// GPU times as the timeline has them. The clocks are compared once: both count nanoseconds of the
/// same oscillator.
struct Clocks {
    /// The timeline's time at the GPU's 0.
    zero_ns: u64,
    /// A later time than now is no time that the GPU wrote.
    now_ns: u64,
}

impl Clocks {
    fn of(adapter: &Adapter) -> Clocks {
        let zero_ns = *adapter.gpu_clock_zero.get_or_init(|| {
            let read = adapter.driver().calibrate_gpu_clock(&Dispatch::enter(), 0);
            read.cpu.0.saturating_sub(read.gpu_ns)
        });
        Clocks { zero_ns, now_ns: adapter.platform.stamp_ns() }
    }

    fn stamp(&self, gpu_ns: u64) -> u64 {
        self.zero_ns.saturating_add(gpu_ns).min(self.now_ns)
    }
}

impl Clocks {
    /// When an operation was complete. Hardware of a linked adapter may leave the time out: then
    /// all that is known is that it was before now.
    // spec: NF-325
    fn end_of(&self, entry: &LogEntry) -> u64 {
        if entry.end_ns == 0 { self.now_ns } else { self.stamp(entry.end_ns) }
    }
}

/// Records the entries of one log, oldest first. `lost` were overwritten before the first of them,
/// since `before_ns`.
pub(super) fn record(
    adapter: &Adapter,
    queue: &HwQueue,
    log_type: LogType,
    entries: &[LogEntry],
    lost: u64,
    before_ns: u64,
) {
    let Some(lane) = queue.lane.checked_sub(1).map(LaneId) else { return };
    let (platform, clocks) = (&adapter.platform, Clocks::of(adapter));
    // spec: NF-204
    if lost > 0 {
        let from = clocks.stamp(before_ns);
        let to = entries.first().map_or(clocks.now_ns, |first| clocks.end_of(first)).max(from);
        platform.record(Record::span(lane, Kind::Lost, NameId::NONE, from, to).with_arg(lost));
    }
    for entry in entries {
        let end = clocks.end_of(entry);
        // A wait that never stalled was not seen to.
        let start = match entry.observed_ns {
            0 => end,
            observed => clocks.stamp(observed).min(end),
        };
        let fence = || queue.device.fence_of_handle(entry.fence_handle).map(|fence| fence.trace);
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
            // No entry that the hardware writes: a process wrote it.
            _ => {}
        }
    }
}
