//! Flips in queues: from the call to the end of what was queued before them.
//!
//! Entry point: [`begin`].

use super::state::{Display, Flip};
use crate::object::FlipDesc;
use crate::object::device::Device;
use crate::scheduling::SignalAction;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::display::VID_PN_SOURCE;
use tidegate_ddi::{Irql, OsHandle};
use tidegate_platform::Mutex;

/// Most flips of a display that are queued and not shown yet.
const MAX_QUEUED_FLIPS: usize = 16;
/// Longest sync interval (D3DDDI_FLIPINTERVAL_FOUR).
const MAX_SYNC_INTERVAL: u32 = 4;

/// A flip in a queue. Dropping it before it was rendered gives it up.
pub(super) struct QueuedFlip {
    display: Arc<Display>,
    device: OsHandle,
    flip: Mutex<Option<Arc<Flip>>>,
}

impl SignalAction for QueuedFlip {
    fn carry_out(self: Box<Self>, level: Irql<'_>) {
        rendered(level, &self);
    }
}

impl Drop for QueuedFlip {
    fn drop(&mut self) {
        let left = self.flip.lock().take();
        if left.is_some() {
            self.display.state.lock().flips.cancel(self.device);
        }
        drop(left);
    }
}

/// Queues a flip: what the caller puts into a queue, behind what is to be shown.
///
/// # Errors
/// INVALID_PARAMETER for a source that is not there, an interval
/// above 4, a surface that makes no sense or does not fit its allocation, or an allocation that is
/// not resident or that a paging operation will move; GRAPHICS_VIDPN_SOURCE_IN_USE;
/// GRAPHICS_TRY_AGAIN_LATER when too many flips are queued.
pub(super) fn begin(
    level: Irql<'_>,
    display: &Arc<Display>,
    device: &Arc<Device>,
    desc: FlipDesc,
) -> Result<Box<QueuedFlip>, Status> {
    let fits = desc.surface.bytes().is_some_and(|bytes| bytes <= desc.allocation.bytes);
    let of_device = desc.allocation.device.os_handle() == device.os_handle;
    if desc.vid_pn_source_id != VID_PN_SOURCE
        || desc.sync_interval > MAX_SYNC_INTERVAL
        || !fits
        || !of_device
        || desc.allocation.bulk().is_none()
    {
        return Err(Status::INVALID_PARAMETER);
    }
    // spec: PRE-082
    let allocation = display.objects.memory.pin(level, &desc.allocation)?;
    let flip = Arc::new(Flip {
        device: device.os_handle,
        allocation,
        surface: desc.surface,
        sync_interval: desc.sync_interval,
        shown: desc.shown,
        queued: display.objects.port.platform.now(),
        queued_ns: display.objects.port.platform.stamp_ns(),
    });
    {
        let mut state = display.state.lock();
        if state.flips.queued() >= MAX_QUEUED_FLIPS {
            return Err(Status::GRAPHICS_TRY_AGAIN_LATER);
        }
        if !state.flips.begin(device.os_handle) {
            return Err(Status::GRAPHICS_VIDPN_SOURCE_IN_USE);
        }
        state.stats.presents += 1;
    }
    let flip = display.objects.port.platform.mutex("a queued flip", Some(flip));
    Ok(Box::new(QueuedFlip { display: display.clone(), device: device.os_handle, flip }))
}

/// What was queued before a flip is complete.
// spec: PRE-081
fn rendered(level: Irql<'_>, queued: &QueuedFlip) {
    let (flip, display) = (queued.flip.lock().take(), &queued.display);
    let Some(flip) = flip else { return };
    let (device, interval) = (flip.device, flip.sync_interval);
    let gone = {
        let mut state = display.state.lock();
        let gone = state.flips.rendered(device, flip, interval);
        state.stats.discarded += gone.len() as u64;
        gone
    };
    drop(gone);
    display.run(level, None);
}
