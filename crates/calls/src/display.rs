//! Arguments of presents, and how a present reports that it was shown.

use crate::{FenceValue, Handle};
use tidegate_d3dukmdt::Surface;

/// The queue behind whose work a picture is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresentQueue {
    /// A context for packets.
    Context(Handle),
    /// A kernel-mode hardware queue.
    HwQueue(Handle),
}

/// D3DKMTPresent with a flip, or D3DKMTSubmitPresentToHwQueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Present {
    /// Behind everything that this queue has now.
    pub queue: PresentQueue,
    /// Where the picture is; resident, and of the queue's device. It stays in its place until
    /// another picture was latched.
    pub allocation: Handle,
    /// Its format and size, from the allocation's first byte on.
    pub surface: Surface,
    /// Which display; 0 is the one that there is.
    pub vid_pn_source_id: u32,
    /// Vertical syncs from the picture before to this one, at least: 1 to 4; 0 to give way to a
    /// newer one.
    pub sync_interval: u32,
    /// A fence that is signalled when a vertical sync has latched the picture, and the one before
    /// it is free. A picture that gave way signals nothing.
    pub shown: Option<FenceValue>,
}

/// A display, as a process sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DisplayInfo {
    /// How long a refresh takes, in nanoseconds.
    pub refresh_period_ns: u64,
}
