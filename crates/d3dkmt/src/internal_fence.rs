//! A monitored fence that the library itself makes on a device of the caller, to order its own
//! calls.
//!
//! Invariant: a fence ends when nothing refers to it, or with its device. Its end releases what
//! waits for it.

use crate::object::Device;
use std::sync::Arc;
use tidegate_calls::{CreateMonitoredFence, FenceValue, Handle, Status, SyncObjectFlags};

/// A fence of the library. Its first value is 0.
pub(crate) struct InternalFence {
    device: Arc<Device>,
    handle: Handle,
}

impl InternalFence {
    /// Makes a fence on a device.
    pub(crate) fn new(device: &Arc<Device>, initial_value: u64) -> Result<InternalFence, Status> {
        let fence = device.kernel().create_monitored_fence(CreateMonitoredFence {
            device: device.handle,
            initial_value,
            flags: SyncObjectFlags::empty(),
            engine_affinity: 0,
            name: "a fence of the C library",
        })?;
        Ok(InternalFence { device: device.clone(), handle: fence.handle })
    }

    /// The fence with a value, for calls of its adapter.
    pub(crate) fn at(&self, value: u64) -> FenceValue {
        FenceValue { fence: self.handle, value }
    }
}

impl Drop for InternalFence {
    fn drop(&mut self) {
        // A device that has ended took it along.
        let _ended = self.device.kernel().destroy_synchronization_object(self.handle);
    }
}
