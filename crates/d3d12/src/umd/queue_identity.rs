//! The identity of a queue: its device, its engine, and its names in errors and on the timeline.

use crate::model::{CommandListType, OnAbort, QueueFlags, Submission};
use crate::umd::device::UmdDevice;
use crate::umd::failure::{Failure, Why};
use crate::umd::progress::FenceReader;
use std::sync::Arc;
use tidegate_calls::{
    DeviceState, FenceValue, Handle, NodeInfo, Priority, Status, WaitMode, WaitNotice,
};
use tidegate_gpu_abi::EngineKind;
use tidegate_platform::hazard::QueueKey;
use tidegate_platform::{CpuTime, QueueNumber, Queued, TracedLane, WaitEnd};
use tidegate_trace::{Kind, LaneId, Record};

/// The name in the error when a queue without a GPU timeout is refused.
pub(crate) const DISABLE_GPU_TIMEOUT: &str = "DisableGpuTimeout";

#[derive(Clone)]
pub(crate) struct QueueIdentity {
    pub(crate) device: Arc<UmdDevice>,
    pub(crate) name: String,
    pub(crate) list_type: CommandListType,
    pub(crate) node_ordinal: u32,
    /// 0 or the bit of one physical GPU.
    pub(crate) engine_affinity: u32,
    pub(crate) priority: Priority,
    pub(crate) flags: QueueFlags,
    pub(crate) on_abort: OnAbort,
    /// Its timeline lane. The number is used again after the end of the queue.
    pub(crate) lane: LaneId,
    /// Holds the lane. Its serial is unique on the platform.
    pub(crate) traced: Arc<TracedLane>,
    /// Its key in the hazard check.
    pub(crate) checked: Option<QueueKey>,
}

impl QueueIdentity {
    // spec: ME-002
    /// Returns the first node for `class` that the queue drives in addition to its own, if the node
    /// supports the submission model.
    pub(crate) fn other_node_for(&self, class: EngineKind, submission: Submission) -> Option<u32> {
        let made_for = match (self.list_type, class) {
            (CommandListType::Direct, EngineKind::Compute) => CommandListType::Compute,
            (CommandListType::Direct | CommandListType::Compute, EngineKind::Copy) => {
                CommandListType::Copy
            }
            _ => return None,
        };
        let engine_type = made_for.engine_types().next()?;
        let nodes = &self.device.info.nodes;
        if nodes[self.node_ordinal as usize].engine_type == engine_type {
            return None;
        }
        let offers = |node: &NodeInfo| match submission {
            Submission::Packet => true,
            Submission::Hardware => node.writes_fences,
            Submission::User => node.user_mode_submission,
        };
        let fits = |node: &NodeInfo| node.engine_type == engine_type && offers(node);
        nodes.iter().position(fits).map(|ordinal| ordinal as u32)
    }

    /// Returns the CPU time of a submission for the timeline. Without a timeline the clock is not
    /// read, because that would be half the cost of a submission. 0 means "no time", so the first
    /// nanosecond of a run is 1.
    #[inline]
    pub(crate) fn queued(&self) -> Queued {
        let platform = &self.device.platform;
        let at_ns = if platform.tracing() { platform.stamp_ns().max(1) } else { 0 };
        Queued { at_ns, ..Queued::default() }
    }

    /// Returns whether a timeline or a hazard check needs the times and names of submissions.
    #[inline]
    pub(crate) fn notes_submissions(&self) -> bool {
        self.device.platform.instruments().follows_queued()
    }

    /// Records a doorbell event on the queue's timeline lane.
    pub(crate) fn note_doorbell(&self, what: &str) {
        let platform = &self.device.platform;
        if platform.tracing() {
            let (name, now) = (platform.trace_name(what), platform.stamp_ns());
            platform.record(Record::instant(self.lane, Kind::Doorbell, name, now));
        }
    }

    /// Applies the queue's flags to its new context or hardware queue.
    pub(crate) fn apply_flags(&self, object: Handle) -> Result<(), Failure> {
        if self.flags.contains(QueueFlags::DISABLE_GPU_TIMEOUT) {
            let done = self.device.enter().disable_gpu_timeout(object);
            done.map_err(Why::of(DISABLE_GPU_TIMEOUT))?;
        }
        Ok(())
    }

    /// Assigns the work of a context or hardware queue to the queue's lane. Returns the kernel's
    /// number.
    pub(crate) fn register(&self, queue: Handle) -> QueueNumber {
        let number = self.device.kernel.thunk().queue_number(queue);
        if let Some(number) = number {
            self.device.platform.assign_lane(number, self.lane);
        }
        number.unwrap_or_default()
    }

    /// Blocks until the queue's progress has reached `value`, and fails when the deadline `by` has
    /// passed. Not counted as a wait of the application.
    pub(crate) fn wait_for_progress(
        &self,
        fence: Handle,
        progress: &FenceReader,
        value: u64,
        by: Option<CpuTime>,
    ) -> Result<(), Failure> {
        if progress.load() < value {
            let fences = [FenceValue { fence, value }];
            let wait = match by {
                None => self.device.enter().wait_from_cpu(&fences, WaitMode::All, None),
                Some(deadline) => self.wait_until(&fences, deadline),
            };
            // If the queue was recreated meanwhile, its old progress fence was signalled and may be
            // destroyed.
            if let Err(status) = wait
                && progress.load() < value
            {
                return Err(Why::ProgressRefused(status).into());
            }
        }
        if progress.load() != u64::MAX {
            return Ok(());
        }
        // The fence may belong to a lost device or a recreated queue.
        match self.device.state() {
            Ok(DeviceState::Active) | Err(Status::CANCELLED) => Ok(()),
            state => Err(Why::DeviceLost(state).into()),
        }
    }

    fn wait_until(&self, fences: &[FenceValue], deadline: CpuTime) -> Result<(), Status> {
        let event = self.device.platform.event(true);
        let notice = WaitNotice::Event(event.clone());
        // Dropping it cancels a wait that is not over.
        let _registered = self.device.enter().register_cpu_wait(fences, WaitMode::All, notice)?;
        match event.wait_for(Some(deadline), "the work of a device that ends") {
            WaitEnd::Woken => Ok(()),
            WaitEnd::TimedOut | WaitEnd::Stopped => Err(Status::CANCELLED),
        }
    }
}
