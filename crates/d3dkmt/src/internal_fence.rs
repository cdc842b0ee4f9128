//! Monitored fences that the library itself makes on a device of the caller: to learn that a
//! context has reached a place in its order, and to hold it there.
//!
//! Invariant: a fence ends when nothing refers to it, or with its device. Its end releases what
//! waits for it, so a fence that holds a context is kept until it was signalled.

use crate::object::Device;
use std::sync::Arc;
use tidegate_calls::{
    CreateMonitoredFence, FenceValue, Handle, SignalFlags, SignalFromGpu2, Status, SyncObjectFlags,
    WaitMode, WaitNotice,
};

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

    /// The device that it ends with.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The fence with a value, for calls of its adapter.
    pub(crate) fn at(&self, value: u64) -> FenceValue {
        FenceValue { fence: self.handle, value }
    }

    /// Signals it from the CPU. A lost or ended device has released its waiters.
    pub(crate) fn signal(&self, value: u64) {
        let _lost = self.device.kernel().signal_from_cpu(&[self.at(value)], SignalFlags::empty());
    }
}

impl Drop for InternalFence {
    fn drop(&mut self) {
        if !self.device.is_ended() {
            let _ended = self.device.kernel().destroy_synchronization_object(self.handle);
        }
    }
}

/// Gives a notice when all of these contexts of the device's adapter have reached this place in
/// their orders.
///
/// # Errors
/// What the kernel refuses. No notice is given then.
pub(crate) fn notify_when_reached(
    device: &Arc<Device>,
    contexts: &[Handle],
    flags: SignalFlags,
    notice: WaitNotice,
) -> Result<(), Status> {
    let fence = InternalFence::new(device, 0)?;
    let fences = [fence.at(1)];
    let wait = device.kernel().register_cpu_wait(&fences, WaitMode::All, notice)?;
    let signal = SignalFromGpu2 { contexts, fences: &fences, flags, cpu_event: None };
    if let Err(refusal) = device.kernel().signal_from_gpu2(signal) {
        // Before the fence ends, because its end would give the notice.
        drop(wait);
        return Err(refusal);
    }
    device.waits.keep(wait, Some(Box::new(fence)))
}
