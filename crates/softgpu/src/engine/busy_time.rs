//! The busy time of an engine: stretches that are counted for a queue and drawn as slices on the
//! engine's lane.
//!
//! A stretch begins when a command takes the engine. It ends when the command completes, is left in
//! the middle, faults, or is cut off by a reset. Each stretch of a resumed command has a slice,
//! whose `queued_ns` is the start of the first.
//!
//! Invariants: slices of one engine do not overlap, and their sum is the counted busy time. A gap
//! has a slice but is not busy time. An engine that hangs stays busy until it is reset.

use crate::cmp::Cmp;
use crate::hardware::Hardware;
use crate::queue::{Execution, RunState};
use crate::running_command::Running;
use crate::stats::Tally;
use tidegate_gpu_abi::QueueId;
use tidegate_platform::{CpuTime, QueueNumber};
use tidegate_trace::{Kind, LaneId, NameId, Record};

/// The current stretch of an engine.
pub(super) struct Stretch {
    pub(super) queue: QueueId,
    engine: usize,
    number: QueueNumber,
    since: CpuTime,
    /// Whether the command is a gap, which occupies the engine without work.
    gap: bool,
    /// The slice; `None` without a timeline.
    slice: Option<Slice>,
}

/// A slice without its end.
struct Slice {
    kind: Kind,
    label: NameId,
    /// Bytes or groups of the whole command.
    arg: u64,
    queue_lane: Option<LaneId>,
    /// The start of the command and of this stretch.
    command_ns: u64,
    start_ns: u64,
}

impl Stretch {
    /// Begins a stretch of the current command.
    pub(super) fn begin(gpu: &Hardware, state: &RunState, work: &mut Execution) -> Stretch {
        let platform = &gpu.platform;
        let since = platform.now();
        let slice = work.running.as_ref().filter(|_| platform.tracing()).map(|running| {
            let (start_ns, (kind, arg)) = (platform.stamp_ns(), running.slice());
            let command_ns = *work.command_ns.get_or_insert(start_ns);
            let queue_lane = platform.lane_of(work.queue);
            Slice { kind, label: work.label, arg, queue_lane, command_ns, start_ns }
        });
        let gap = matches!(work.running, Some(Running::Timed { gap: true, .. }));
        if !gap {
            let mut cmp = gpu.cmp.lock();
            cmp.overlap.changes(true, since.0);
            cmp.nodes[state.shape.engine as usize].busy_since = Some(since);
        }
        let (queue, engine) = (state.shape.id, state.shape.engine as usize);
        Stretch { queue, engine, number: work.queue, since, gap, slice }
    }

    /// Ends the stretch and draws it on `lane`.
    pub(super) fn end(self, gpu: &Hardware, cmp: &mut Cmp, tally: &mut Tally, lane: LaneId) {
        let platform = &gpu.platform;
        let now = platform.now();
        if !self.gap {
            cmp.overlap.changes(false, now.0);
            let busy_ns = now.since(self.since);
            tally.of(self.number).busy_ns += busy_ns;
            cmp.nodes[self.engine].busy_since = None;
            cmp.stats.nodes[self.engine].busy_ns += busy_ns;
        }
        if let Some(slice) = self.slice {
            let end_ns = platform.stamp_ns();
            let span = Record::span(lane, slice.kind, slice.label, slice.start_ns, end_ns);
            let span = span.queued(slice.command_ns).with_arg(slice.arg);
            platform.record(match slice.queue_lane {
                None => span,
                Some(lane) => span.for_queue(lane),
            });
        }
    }
}
