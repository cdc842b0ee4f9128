//! Devices: a process's container on the adapter. Calls on a lost device return DEVICE_REMOVED.

use crate::adapter::Adapter;
use crate::fence::Fence;
use crate::fence::storage::FencePool;
use crate::memory::AddressSpace;
use crate::object::Objects;
use crate::object::object_table::MonitoredFences;
use crate::object::process::HandleLookup;
use crate::stats::Count;
use std::sync::Arc;
use tidegate_calls::{DeviceState, Status};
use tidegate_ddi::queue::CreateDevice;
use tidegate_ddi::{DriverHandle, OsHandle, Passive};
use tidegate_platform::{Mutex, Step};

/// One device.
pub(crate) struct Device {
    pub(crate) adapter: Arc<Adapter>,
    pub(crate) objects: Arc<Objects>,
    pub(crate) os_handle: OsHandle,
    pub(crate) driver: DriverHandle,
    /// Outlives the device by which the driver knows it.
    pub(crate) space: Arc<AddressSpace>,
    pub(crate) fence_pool: Arc<FencePool>,
    handles: HandleLookup,
    /// Whether its process may raise priorities (SE_INC_BASE_PRIORITY).
    pub(crate) may_raise_priority: bool,
    state: Mutex<DeviceState>,
}

impl Device {
    pub(crate) fn new(
        adapter: &Arc<Adapter>,
        space: &Arc<AddressSpace>,
        fence_pool: &Arc<FencePool>,
        handles: HandleLookup,
        may_raise_priority: bool,
    ) -> Result<Arc<Device>, Status> {
        adapter.check()?;
        let os_handle = adapter.new_handle();
        let args = CreateDevice { os_handle, address_space: space.number };
        let driver = adapter.driver().create_device(&Passive::enter(), args)?;
        let device = Arc::new(Device {
            adapter: adapter.clone(),
            objects: adapter.objects.clone(),
            os_handle,
            driver,
            space: space.clone(),
            fence_pool: fence_pool.clone(),
            handles,
            may_raise_priority,
            state: adapter.platform.mutex("device state", DeviceState::Active),
        });
        adapter.objects.devices.lock().insert(os_handle, &device);
        // A contract broken meanwhile has lost only the devices that were in the table then.
        adapter.check()?;
        Ok(device)
    }

    /// Whether it is the kernel's own, of no process: only a broken contract loses it.
    pub(crate) fn is_of_kernel(&self) -> bool {
        self.handles.is_none()
    }

    /// Its state.
    pub(crate) fn state(&self) -> DeviceState {
        self.state.lock().clone()
    }

    /// Takes it off all lists: the call that destroys it begins.
    pub(crate) fn retire(&self) {
        self.objects.devices.lock().retire(self.os_handle);
        self.objects.memory.end_device(self.os_handle);
    }

    /// DEVICE_REMOVED when it is lost.
    pub(crate) fn check(&self) -> Result<(), Status> {
        match *self.state.lock() {
            DeviceState::Active => Ok(()),
            _ => Err(Status::DEVICE_REMOVED),
        }
    }

    /// Marks it lost; `false` when it was lost already (the first reason stays).
    pub(crate) fn lose(&self, reason: DeviceState) -> bool {
        let mut state = self.state.lock();
        let first = *state == DeviceState::Active;
        if first {
            *state = reason;
        }
        first
    }

    /// The fence that a handle names in the process of this device, for log entries.
    pub(crate) fn fence_of_handle(&self, handle: u32) -> Option<Arc<Fence>> {
        self.handles.fence(handle)
    }

    /// The fences that are open in this device.
    pub(crate) fn fences(&self) -> Vec<Arc<Fence>> {
        self.handles.fences(|instance| instance.device.os_handle == self.os_handle)
    }

    /// The monitored fences that are open in the process that owns this device.
    pub(crate) fn monitored_fences_of_process(&self) -> MonitoredFences {
        let (fences, walked) = self.handles.monitored_fences();
        self.objects.port.stats.add(Count::objects_walked, walked);
        fences
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.objects.port.driver().destroy_device(&Passive::enter(), self.driver);
        // Last: a removal stops the driver when no device is left.
        let emptied = self.objects.devices.lock().remove(self.os_handle);
        emptied.iter().for_each(|event| event.set(Step::ThreadWake));
    }
}
