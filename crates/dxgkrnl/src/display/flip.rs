//! Queued flips: from the call to the completion of earlier work.
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

/// Maximum number of pending flips of a display.
const MAX_QUEUED_FLIPS: usize = 16;
/// Longest sync interval (D3DDDI_FLIPINTERVAL_FOUR).
const MAX_SYNC_INTERVAL: u32 = 4;

/// A flip in a queue. Dropping it before it is rendered abandons it.
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

/// Creates a flip, which the caller queues behind the work that renders its picture.
///
/// # Errors
/// INVALID_PARAMETER for an unknown source, an interval above 4, an invalid surface or one that
/// does not fit its allocation, or an allocation that is not resident or will be moved by paging;
/// GRAPHICS_VIDPN_SOURCE_IN_USE; GRAPHICS_TRY_AGAIN_LATER if too many flips are queued.
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

/// Marks a flip ready, because earlier work of its queue is complete.
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
