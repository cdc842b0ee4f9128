//! The user-mode driver: what stands between the API and the kernel or the ring.
//!
//! Rooms: [`thunk`] (every kernel call, counted) · [`kernel_object`] (objects that end with their
//! owner) · [`arena`] (command memory) · [`encode`] (ring packets, log entries, joined command
//! buffers) · [`in_flight`] (memory in use by the GPU) · [`signalled_fences`] (fences of queued
//! signals) · [`ring`] (slots and room) · [`backlog`] (what the ring has no room for yet) ·
//! [`submit`] (the published order of a user-mode submission) · [`user_ring`] (what a user-mode
//! queue is made of) · [`successor`] (recreating it when its doorbell is lost for good) ·
//! [`user_queue`], [`hardware_queue`], [`packet_queue`] (the three models; they share no queueing
//! code) · [`residency`] (more buffers than local memory holds).
//!
//! `device`, `queue` and `list` call in. Locks: a queue's submitter lock comes first, the device's
//! residency lock second, the arena's third; the submitter lock orders calls and may be held over a
//! kernel call, the arena's guards state and may not.

pub(crate) mod arena;
pub(crate) mod backlog;
pub(crate) mod encode;
pub(crate) mod hardware_queue;
pub(crate) mod in_flight;
pub(crate) mod kernel_object;
pub(crate) mod packet_queue;
pub(crate) mod progress;
pub(crate) mod residency;
pub(crate) mod ring;
pub(crate) mod signalled_fences;
pub(crate) mod submit;
pub(crate) mod successor;
pub(crate) mod thunk;
pub(crate) mod user_queue;
pub(crate) mod user_ring;

use crate::device::DeviceInner;
use crate::error::Error;
use std::sync::Arc;
use tidegate_calls::{Handle, Status};
use tidegate_platform::QueueNumber;
use tidegate_trace::{Kind, LaneId, Record};

/// The identity of a queue: the names of its errors, its work and its timeline.
pub(crate) struct QueueIdentity {
    pub(crate) device: Arc<DeviceInner>,
    pub(crate) name: String,
    /// Number under which its work is counted.
    pub(crate) tag: u32,
    pub(crate) lane: LaneId,
}

/// On which engine a queue runs.
#[derive(Clone, Copy)]
pub(crate) struct EngineChoice {
    pub(crate) node_ordinal: u32,
    /// 0 or the bit of one physical GPU.
    pub(crate) engine_affinity: u32,
}

/// Why a submission failed, as seen under the submitter lock. It becomes an [`Error`] after the
/// lock was dropped, because telling what removed a device asks its queues what they were running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The kernel refused a call.
    Refused(&'static str, Status),
    /// The doorbell is gone for good.
    Aborted,
    /// The queue was made anew, and the command buffer of this label was interrupted.
    Lost(Option<String>),
    /// What a submission uses does not fit into local memory at once; so many bytes are too many.
    OverBudget(u64),
}

impl QueueIdentity {
    /// The CPU time of a submission for the timeline. While there is none, reading the clock would
    /// be half the cost of a submission. 0 stands for "no time", so the first nanosecond of a run
    /// is 1.
    #[inline]
    pub(crate) fn queued_ns(&self) -> u64 {
        let platform = &self.device.platform;
        if platform.tracing() { platform.stamp_ns().max(1) } else { 0 }
    }

    /// Draws the work of a context or hardware queue, which the kernel made for the queue, on its
    /// lane. Returns the kernel's number.
    pub(crate) fn register(&self, queue: Handle) -> QueueNumber {
        let number = self.device.thunk.queue_number(queue);
        if let Some(number) = number {
            self.device.platform.assign_lane(number, self.lane);
        }
        number.unwrap_or_default()
    }

    /// Something that happened to the queue's doorbell, on its lane of the timeline.
    pub(crate) fn note_doorbell(&self, what: &str) {
        let platform = &self.device.platform;
        if platform.tracing() {
            let (name, now) = (platform.trace_name(what), platform.stamp_ns());
            platform.record(Record::instant(self.lane, Kind::Doorbell, name, now));
        }
    }

    /// The error of a failed submission. Call it without the submitter lock.
    pub(crate) fn error(&self, failure: Failure) -> Error {
        let queue = self.name.clone();
        match failure {
            Failure::Refused(call, status) => {
                self.device.error(call, &format!("queue '{queue}'"), status)
            }
            Failure::OverBudget(bytes) => {
                Error::OverBudget { what: format!("a submission to queue '{queue}'"), bytes }
            }
            Failure::Lost(list) => Error::WorkLost { queue, list },
            Failure::Aborted => match self.device.removed_reason() {
                Some(reason) => Error::DeviceRemoved(reason),
                None => Error::QueueAborted { queue },
            },
        }
    }
}
