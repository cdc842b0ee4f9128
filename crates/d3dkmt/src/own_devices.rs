//! The device of the library itself, for what the caller makes without one. It ends with the last
//! object that holds it.

use crate::event::PendingWaits;
use crate::object::{Adapter, Device, OwnDevice};
use std::sync::{Arc, Weak};
use tidegate_calls::Status;
use tidegate_platform::{Mutex, Platform};

/// The device of the library, if there is one.
pub(crate) struct OwnDevices(Mutex<Weak<OwnDevice>>);

impl OwnDevices {
    pub(crate) fn new(platform: &Platform) -> OwnDevices {
        OwnDevices(platform.mutex("the library's own device", Weak::new()))
    }

    /// Returns the device on an adapter, and creates it if there is none.
    pub(crate) fn on(
        &self,
        platform: &Platform,
        adapter: &Arc<Adapter>,
    ) -> Result<Arc<OwnDevice>, Status> {
        let on_adapter =
            |device: &Weak<OwnDevice>| device.upgrade().filter(|device| device.adapter.is(adapter));
        let known = on_adapter(&self.0.lock_device());
        if let Some(device) = known {
            return Ok(device);
        }
        let handle = adapter.kernel.create_device()?;
        let waits = PendingWaits::new(platform);
        let made = Device { adapter: adapter.clone(), handle, waits };
        let made = Arc::new(OwnDevice(Arc::new(made)));
        // Another call may have been first. A device that is not kept ends outside of the lock.
        let first = {
            let mut kept = self.0.lock_device();
            let first = on_adapter(&kept);
            if first.is_none() {
                *kept = Arc::downgrade(&made);
            }
            first
        };
        Ok(first.unwrap_or(made))
    }
}
