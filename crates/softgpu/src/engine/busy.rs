//! Busy time of an engine: one stretch at a time, counted for its queue and drawn as one
//! slice on the engine's lane.
//!
//! A stretch begins when a command takes the engine. It ends when the command is done, is left in
//! the middle, faults, or is cut off by a reset. A command that was left and resumed has one slice
//! for each stretch; `queued_ns` of each is the start of the first.
//!
//! Invariants: slices of one engine do not overlap, and their sum is the busy time that is counted.
//! A gap has a slice and is no busy time. An engine that hangs stays busy until it is reset.
//!
//! Entry points: `begin_busy`, `end_busy`, and `leave_previous` at the start of each turn.

use super::Engine;
use crate::cmp::Cmp;
use crate::queue::{Execution, Packet, RunState, Running};
use std::sync::Arc;
use tidegate_gpu_abi::QueueId;
use tidegate_platform::{CpuTime, QueueNumber};
use tidegate_trace::{Kind, LaneId, NameId, Record};

/// The stretch that an engine is in.
pub(super) struct Busy {
    queue: QueueId,
    number: QueueNumber,
    since: CpuTime,
    /// The command is a gap: the engine is taken and does no work.
    gap: bool,
    /// What its slice shows; none without a timeline.
    slice: Option<Slice>,
}

/// A slice whose end is open.
struct Slice {
    kind: Kind,
    label: NameId,
    /// Bytes or groups of the whole command.
    arg: u64,
    queue_lane: Option<LaneId>,
    /// When the command began, and when this stretch of it did.
    command_ns: u64,
    start_ns: u64,
}

impl Engine {
    /// Begins a stretch of the command that runs, unless one has begun.
    pub(super) fn begin_busy(&mut self, state: &RunState, work: &mut Execution) {
        if self.busy.is_some() {
            return;
        }
        let platform = &self.gpu.platform;
        let since = platform.now();
        let slice = work.running.as_ref().filter(|_| platform.tracing()).map(|running| {
            let (start_ns, (kind, arg)) = (platform.stamp_ns(), shown_as(running));
            let command_ns = *work.command_ns.get_or_insert(start_ns);
            let queue_lane = platform.lane_of(work.queue);
            Slice { kind, label: work.label, arg, queue_lane, command_ns, start_ns }
        });
        let gap = matches!(work.running, Some(Running::Timed { gap: true, .. }));
        if !gap {
            self.gpu.cmp.lock().overlap.changes(true, since.0);
        }
        self.busy = Some(Busy { queue: state.shape.id, number: work.queue, since, gap, slice });
    }

    /// Ends the stretch.
    pub(super) fn end_busy(&mut self) {
        if self.busy.is_some() {
            let gpu = Arc::clone(&self.gpu);
            self.end_busy_locked(&mut gpu.cmp.lock());
        }
    }

    fn end_busy_locked(&mut self, cmp: &mut Cmp) {
        let Some(busy) = self.busy.take() else { return };
        let platform = &self.gpu.platform;
        let now = platform.now();
        if !busy.gap {
            cmp.overlap.changes(false, now.0);
            self.tally.of(busy.number).busy_ns += now.since(busy.since);
        }
        if let Some(slice) = busy.slice {
            let end_ns = platform.stamp_ns();
            let span = Record::span(self.lane, slice.kind, slice.label, slice.start_ns, end_ns);
            let span = span.queued(slice.command_ns).with_arg(slice.arg);
            platform.record(match slice.queue_lane {
                None => span,
                Some(lane) => span.for_queue(lane),
            });
        }
    }

    /// Ends the stretch of a command that this turn does not resume: the engine turns to another
    /// queue or to none, or a reset took the command away.
    pub(super) fn leave_previous(&mut self, cmp: &mut Cmp, picked: Option<QueueId>) {
        let Some(previous) = self.busy.as_ref().map(|busy| busy.queue) else { return };
        let run = cmp.queue(previous).and_then(|entry| entry.run.as_ref());
        let runs = run.is_some_and(
            |run| matches!(&run.packet, Some(Packet::Execute(work)) if work.running.is_some()),
        );
        if cmp.nodes[self.node].hung == Some(previous) || runs && picked == Some(previous) {
            return;
        }
        self.end_busy_locked(cmp);
        let now = self.gpu.platform.now();
        if let Some(run) = cmp.queue(previous).and_then(|entry| entry.run.as_mut()) {
            run.pause(now);
        }
    }
}

/// Kind and extra number of a command's slices. A hang is no work: its slice is a mark.
fn shown_as(running: &Running) -> (Kind, u64) {
    match running {
        Running::Copy { bytes, .. } => (Kind::Copy, *bytes),
        Running::Fill { bytes, .. } => (Kind::Fill, *bytes),
        Running::Grid { draw, groups, .. } => {
            let groups = groups.iter().map(|count| u64::from(*count)).product();
            (if *draw { Kind::Draw } else { Kind::Dispatch }, groups)
        }
        Running::Timed { gap: true, .. } => (Kind::Gap, 0),
        Running::Timed { .. } => (Kind::Timed, 0),
        Running::Hang => (Kind::Mark, 0),
    }
}

/// The stretch of an engine that stops ends there, for the counters and for the timeline.
impl Drop for Engine {
    fn drop(&mut self) {
        if self.busy.is_some() && !tidegate_platform::current::is_panicking() {
            self.end_busy();
            let gpu = Arc::clone(&self.gpu);
            self.tally.hand_over(self.node, &mut gpu.cmp.lock().stats);
        }
    }
}
