//! What VidSch's queues carry: fences, events, actions, and objects that engines may still use.

use crate::fence::FenceTarget;
use std::any::Any;
use std::sync::Arc;
use tidegate_calls::SignalFlags;
use tidegate_ddi::Irql;
use tidegate_platform::Event;
use tidegate_vidsch::{Payload, SignalEffect};

/// What the queues carry.
pub(crate) struct QueuePayload;

impl Payload for QueuePayload {
    type Fence = FenceTarget;
    type Event = Event;
    type Action = Box<dyn SignalAction>;
    type Kept = Kept;
}

/// What a signal packet does besides signalling. It is dropped when the packet is abandoned.
pub(crate) trait SignalAction: Send + Sync {
    /// Everything that was queued before the packet is complete.
    fn carry_out(self: Box<Self>, level: Irql<'_>);
}

/// A save area or a DMA buffer that an engine may use after its context is gone.
pub(crate) type Kept = Arc<dyn Any + Send + Sync>;

/// A signal packet.
pub(crate) type Signal = tidegate_vidsch::Signal<QueuePayload>;

/// A signal packet for fences.
pub(crate) fn fence_signal(fences: Vec<FenceTarget>, flags: SignalFlags) -> Signal {
    Signal { effect: SignalEffect::Fences(fences), flags }
}
