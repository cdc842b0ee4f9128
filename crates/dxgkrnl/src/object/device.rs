//! Devices: a process's container for contexts and allocations on an adapter. Calls on a lost
//! device return DEVICE_REMOVED.

use crate::fence::Fence;
use crate::fence::storage::FencePool;
use crate::memory::AddressSpace;
use crate::object::layers::Layers;
use crate::registry::Registry;
use crate::stats::Count;
use crate::timer::{AtPassive, EndAtPassive};
use std::sync::{Arc, Weak};
use tidegate_calls::{DeviceState, Status};
use tidegate_ddi::queue::CreateDevice;
use tidegate_ddi::{DriverHandle, OsHandle, Passive};
use tidegate_platform::{Mutex, Step, Word};

/// Monitored fences in order of creation, each once.
pub(crate) type MonitoredFences = Arc<[Arc<Fence>]>;

/// The fences that a process has open.
pub(crate) trait OpenFences: Send + Sync {
    /// Returns the fence of a handle.
    fn fence(&self, handle: u32) -> Option<Arc<Fence>>;

    /// Returns the open monitored fences, and the number of objects visited to find them.
    fn monitored_fences(&self) -> (MonitoredFences, u64);

    /// Returns the fences with an instance on `device`.
    fn fences_of(&self, device: OsHandle) -> Vec<Arc<Fence>>;
}

/// One device.
pub(crate) type Device = AtPassive<DeviceBody>;

/// The parts of a device.
pub(crate) struct DeviceBody {
    pub(crate) layers: Arc<Layers>,
    table: Arc<Mutex<Registry<Device>>>,
    pub(crate) os_handle: OsHandle,
    pub(crate) driver: DriverHandle,
    /// Outlives the driver's device, which refers to it.
    pub(crate) space: Arc<AddressSpace>,
    pub(crate) fence_pool: Arc<FencePool>,
    /// `None` for a device of the kernel.
    handles: Option<Weak<dyn OpenFences>>,
    /// Whether its process may raise priorities (SE_INC_BASE_PRIORITY).
    pub(crate) may_raise_priority: bool,
    state: Mutex<DeviceState>,
    /// Not 0 once the device is lost. Stored under the lock of `state`.
    lost: Word,
}

/// What a new device belongs to.
pub(crate) struct DeviceOwner<'a> {
    pub(crate) space: &'a Arc<AddressSpace>,
    pub(crate) fence_pool: &'a Arc<FencePool>,
    /// The fences of its process; `None` for a device of the kernel.
    pub(crate) fences: Option<Weak<dyn OpenFences>>,
    /// Whether its process may raise priorities (SE_INC_BASE_PRIORITY).
    pub(crate) may_raise_priority: bool,
}

impl<'a> DeviceOwner<'a> {
    /// The kernel itself.
    pub(crate) fn kernel(space: &'a Arc<AddressSpace>, fence_pool: &'a Arc<FencePool>) -> Self {
        DeviceOwner { space, fence_pool, fences: None, may_raise_priority: false }
    }
}

impl Device {
    pub(crate) fn new(
        level: &Passive,
        layers: &Arc<Layers>,
        table: &Arc<Mutex<Registry<Device>>>,
        owner: DeviceOwner<'_>,
    ) -> Result<Arc<Device>, Status> {
        let DeviceOwner { space, fence_pool, fences, may_raise_priority } = owner;
        let port = &layers.port;
        port.check()?;
        let os_handle = port.new_handle();
        let args = CreateDevice { os_handle, address_space: space.number };
        let driver = port.driver(level).create_device(level, args)?;
        let body = DeviceBody {
            layers: layers.clone(),
            table: table.clone(),
            os_handle,
            driver,
            space: space.clone(),
            fence_pool: fence_pool.clone(),
            handles: fences,
            may_raise_priority,
            state: port.platform.mutex("device state", DeviceState::Active),
            lost: port.platform.page(1).word(0).named("the loss of a device"),
        };
        let device = Arc::new(AtPassive::wrap(&port.timer, body));
        table.lock().insert(os_handle, &device);
        // A contract violation that raced with this call lost only the devices already in
        // the table.
        port.check()?;
        Ok(device)
    }

    /// Returns whether the device belongs to the kernel. Only a contract violation loses such
    /// a device.
    pub(crate) fn is_of_kernel(&self) -> bool {
        self.handles.is_none()
    }

    /// Returns the number of its process; `None` for a device of the kernel.
    pub(crate) fn process(&self) -> Option<u32> {
        self.handles.as_ref().map(|_| self.space.number)
    }

    /// Returns the device state.
    pub(crate) fn state(&self) -> DeviceState {
        self.state.lock().clone()
    }

    /// Removes the device from all lists at the start of its destruction.
    pub(crate) fn retire(&self) {
        self.table.lock().retire(self.os_handle);
    }

    /// Ends the allocations of a retired device that its driver has not destroyed. The caller holds
    /// no lock: the end of one that no engine uses calls the driver.
    pub(crate) fn end_allocations(&self) {
        self.layers.memory.end_device(self.os_handle);
    }

    /// Checks that the device is usable.
    ///
    /// # Errors
    /// DEVICE_REMOVED if the device is lost.
    // spec: MF-049
    pub(crate) fn check(&self) -> Result<(), Status> {
        if self.lost.load() == 0 { Ok(()) } else { Err(Status::DEVICE_REMOVED) }
    }

    /// Marks the device lost. Returns `false` if it was already lost; the first reason is kept.
    pub(crate) fn lose(&self, reason: DeviceState) -> bool {
        let mut state = self.state.lock();
        let first = *state == DeviceState::Active;
        if first {
            *state = reason;
            self.lost.exchange(1);
        }
        first
    }

    fn open_fences(&self) -> Option<Arc<dyn OpenFences>> {
        self.handles.as_ref()?.upgrade()
    }

    /// Returns the fence that a handle in a log entry names in this device's process.
    pub(crate) fn fence_of_handle(&self, handle: u32) -> Option<Arc<Fence>> {
        self.open_fences()?.fence(handle)
    }

    /// Returns the fences open on this device.
    pub(crate) fn fences(&self) -> Vec<Arc<Fence>> {
        self.open_fences().map_or_else(Vec::new, |open| open.fences_of(self.os_handle))
    }

    /// Returns the monitored fences open in the process that owns this device.
    pub(crate) fn monitored_fences_of_process(&self) -> MonitoredFences {
        let Some(open) = self.open_fences() else { return Arc::new([]) };
        let (fences, walked) = open.monitored_fences();
        self.layers.port.stats.add(Count::objects_walked, walked);
        fences
    }
}

impl EndAtPassive for DeviceBody {
    fn end(&mut self, level: &Passive) {
        self.layers.port.driver(level).destroy_device(level, self.driver);
        // Last, because a removal stops the driver when no device is left.
        let emptied = self.table.lock().remove(self.os_handle);
        emptied.iter().for_each(|event| event.set(Step::ThreadWake));
    }
}
