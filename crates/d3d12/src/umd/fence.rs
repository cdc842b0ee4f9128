//! A fence for queues: its kernel object, the reader of its value, and the address that engines
//! use.

use crate::umd::device::UmdDevice;
use crate::umd::failure::{Failure, Why};
use crate::umd::kernel_object::{KernelDevice, Object, Owned};
use crate::umd::progress::FenceReader;
use std::sync::Arc;
use tidegate_calls::{
    CreateMonitoredFence, CreateNativeFence, FenceInstance, FenceValue, Handle, NativeFenceType,
    ReadOnly, Status, SyncObjectFlags,
};
use tidegate_d3dukmdt::fence_cell::{FenceWait, NO_EPOCH, REACHED};
use tidegate_trace::FenceId;

pub(crate) struct FenceObject {
    pub(crate) name: String,
    pub(crate) instance: FenceInstance,
    pub(crate) value: FenceReader,
    /// The address of its value for engines of the device's adapter.
    pub(crate) engine_va: u64,
    owned: Owned,
}

impl FenceObject {
    /// Wraps a fence created by the kernel, at `initial_value`. Returns `None` if its value is not
    /// CPU-visible.
    pub(crate) fn new(
        device: &UmdDevice,
        name: &str,
        instance: FenceInstance,
        initial_value: u64,
    ) -> Option<FenceObject> {
        let owned = Owned::new(&device.kernel, Object::Fence, instance.handle);
        let value = device.reader(instance.value.read_only().cloned()?, initial_value);
        let (name, engine_va) = (name.to_owned(), instance.engine_va(&device.info));
        Some(FenceObject { name, instance, value, engine_va, owned })
    }

    /// Creates a driver-internal fence with value 0, usable by any queue of the device. It is
    /// native if the adapter has native fences.
    pub(crate) fn internal(device: &UmdDevice, name: &str) -> Result<Arc<FenceObject>, Failure> {
        let native = device.info.native_gpu_fence_supported;
        let (call, made) = create(device, native, name, 0, SyncObjectFlags::empty());
        let made = FenceObject::new(device, name, made.map_err(Why::of(call))?, 0);
        made.map(Arc::new).ok_or_else(|| Why::Refused(call, Status::NOT_SUPPORTED).into())
    }

    pub(crate) fn handle(&self) -> Handle {
        self.instance.handle
    }

    pub(crate) fn device(&self) -> &Arc<KernelDevice> {
        self.owned.device()
    }

    pub(crate) fn at(&self, value: u64) -> FenceValue {
        FenceValue { fence: self.handle(), value }
    }

    /// Returns a wait for `value` that latches from now on: its epoch is loaded before the value.
    // spec: ME-043
    pub(crate) fn wait_for(&self, value: u64) -> FenceWait {
        let epoch = self.instance.epoch.as_ref().map_or(NO_EPOCH, ReadOnly::load);
        FenceWait { value, epoch: if self.value.load() >= value { REACHED } else { epoch } }
    }

    /// Returns the fence's ID and a value for a timeline record; `None` without a timeline.
    pub(crate) fn on_timeline(&self, value: u64) -> Option<(FenceId, u64)> {
        self.instance.trace_fence.checked_sub(1).map(|number| (FenceId(number), value))
    }
}

/// Creates a native or a monitored fence. Also returns the official name of the call.
pub(crate) fn create(
    device: &UmdDevice,
    native: bool,
    name: &str,
    initial_value: u64,
    flags: SyncObjectFlags,
) -> (&'static str, Result<FenceInstance, Status>) {
    let (device, kernel, engine_affinity) = (device.handle(), device.enter(), 0);
    if native {
        let args = CreateNativeFence {
            device,
            initial_value,
            fence_type: NativeFenceType::Default,
            flags,
            engine_affinity,
            private_data: [0; 64],
            name,
        };
        return ("D3DKMTCreateNativeFence", kernel.create_native_fence(args));
    }
    let args = CreateMonitoredFence { device, initial_value, flags, engine_affinity, name };
    ("D3DKMTCreateSynchronizationObject2", kernel.create_monitored_fence(args))
}
