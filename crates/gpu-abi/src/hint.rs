//! The hint of a doorbell that has a place in a summary.

use crate::{Device, QueueId, Ringer};
use std::sync::Arc;
use tidegate_d3dukmdt::{RingBits, RingHint};

/// Wakes the engine that reads the doorbells of a process.
pub struct SummaryHint {
    /// The doorbell's place in the summary.
    pub ringer: Ringer,
    /// The device whose engine looks at the page if the hint is not given.
    pub device: Arc<dyn Device>,
    /// The queue of the doorbell.
    pub queue: QueueId,
}

impl RingHint for SummaryHint {
    fn rung(&self) {
        self.ringer.ring();
    }

    fn is_not_given(&self) {
        self.device.poll_doorbell(self.queue);
    }

    fn bits(&self) -> Option<RingBits> {
        Some(self.ringer.bits())
    }
}
