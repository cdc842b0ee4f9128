//! The payload of VidSch's queues: fences, events, actions, and objects that engines may still use.

use crate::fence::FenceTarget;
use std::any::Any;
use std::sync::Arc;
use tidegate_calls::{SignalFlags, WaitNotice};
use tidegate_ddi::Irql;
use tidegate_vidsch::{Payload, SignalEffect};

/// The payload types.
pub(crate) struct QueuePayload;

impl Payload for QueuePayload {
    type Fence = FenceTarget;
    type Event = WaitNotice;
    type Action = Box<dyn SignalAction>;
    type Kept = Kept;
}

/// An action of a signal packet. Dropped if the packet is abandoned.
pub(crate) trait SignalAction: Send + Sync {
    /// Called when all earlier work of the queue is complete.
    fn carry_out(self: Box<Self>, level: Irql<'_>);
}

/// A save area or a DMA buffer that an engine may use after its context has ended.
pub(crate) type Kept = Arc<dyn Any + Send + Sync>;

/// A signal packet.
pub(crate) type Signal = tidegate_vidsch::Signal<QueuePayload>;

/// Creates a signal packet for fences.
pub(crate) fn fence_signal(fences: Vec<FenceTarget>, flags: SignalFlags) -> Signal {
    Signal { effect: SignalEffect::Fences(fences), flags }
}
