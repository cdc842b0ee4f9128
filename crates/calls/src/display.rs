//! Arguments of presents, and the capabilities of a display.

use crate::{FenceValue, Handle};
use serde::{Deserialize, Serialize};
use tidegate_d3dukmdt::Surface;

/// The queue of a present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PresentQueue {
    /// A context for packets.
    Context(Handle),
    /// A kernel-mode hardware queue.
    HwQueue(Handle),
}

/// D3DKMTPresent with a flip, or D3DKMTSubmitPresentToHwQueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Present {
    /// The picture is shown after the present work of this queue.
    pub queue: PresentQueue,
    /// The allocation of the picture: resident, and of the queue's device. It does not move until
    /// another picture is latched.
    pub allocation: Handle,
    /// Format and size of the picture, which starts at the allocation's first byte.
    pub surface: Surface,
    /// The display; always 0.
    pub vid_pn_source_id: u32,
    /// Least number of vertical syncs since the previous picture, 1 to 4. With 0, a newer picture
    /// replaces this one.
    pub sync_interval: u32,
    /// A fence that is signalled when a vertical sync has latched the picture, so that the previous
    /// one is free. A replaced picture signals nothing.
    pub shown: Option<FenceValue>,
}

/// Capabilities of a display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisplayInfo {
    /// Refresh period in nanoseconds.
    pub refresh_period_ns: u64,
}
