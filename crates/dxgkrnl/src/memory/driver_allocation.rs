//! Allocations of processes as objects of the driver, where it has the entries for them.
//!
//! Order: the object is created for the memory, and opened for each device that has the memory;
//! then closed, and destroyed when no device has it open. Each end is at PASSIVE level, once.
//! Memory of a shared resource may be there without an object, if only an NT handle holds it.
//!
//! Entry points: [`OpenedAllocation::create`], [`OpenedAllocation::open`].

use crate::driver::DriverPort;
use crate::memory::OwningDevice;
use crate::timer::{AtPassive, EndAtPassive};
use std::sync::{Arc, Weak};
use tidegate_calls::Status;
use tidegate_ddi::allocation::{CloseAllocation, CreateAllocation, OpenAllocation};
use tidegate_ddi::{DriverHandle, OsHandle, Passive};
use tidegate_platform::Mutex;

/// The driver's object for memory.
pub(super) type DriverAllocation = AtPassive<DriverAllocationBody>;

/// The parts of it.
pub(super) struct DriverAllocationBody {
    driver: Arc<DriverPort>,
    handle: DriverHandle,
    bytes: u64,
}

impl EndAtPassive for DriverAllocationBody {
    fn end(&mut self, level: &Passive) {
        self.driver.driver(level).destroy_allocation(level, self.handle);
    }
}

/// A device's handle of it (hDeviceSpecificAllocation).
pub(crate) type OpenedAllocation = AtPassive<OpenedAllocationBody>;

/// The parts of it.
pub(crate) struct OpenedAllocationBody {
    device: Arc<dyn OwningDevice>,
    os_handle: OsHandle,
    handle: DriverHandle,
    /// Destroyed after the handle is closed.
    allocation: Arc<DriverAllocation>,
}

impl EndAtPassive for OpenedAllocationBody {
    // spec: RES-020
    fn end(&mut self, level: &Passive) {
        let args = CloseAllocation {
            device: self.device.driver_handle(),
            os_handle: self.os_handle,
            opened: self.handle,
        };
        self.allocation.driver.driver(level).close_allocation(level, args);
    }
}

/// The object of memory that several devices may have open.
pub(super) type SharedObject = Mutex<Weak<DriverAllocation>>;

impl DriverAllocation {
    fn create(
        level: &Passive,
        driver: &Arc<DriverPort>,
        bytes: u64,
    ) -> Result<Arc<DriverAllocation>, Status> {
        let handle = driver.driver(level).create_allocation(level, CreateAllocation { bytes })?;
        let body = DriverAllocationBody { driver: driver.clone(), handle, bytes };
        Ok(Arc::new(AtPassive::wrap(&driver.timer, body)))
    }
}

impl OpenedAllocation {
    /// Creates the driver's object for new memory of a device, and opens it. `None` if the driver
    /// has no entries for it, or refuses it.
    ///
    /// # Errors
    /// The driver lacks memory.
    // spec: RES-019
    pub(super) fn create(
        level: &Passive,
        driver: &Arc<DriverPort>,
        device: &Arc<dyn OwningDevice>,
        bytes: u64,
    ) -> Result<Option<OpenedAllocation>, Status> {
        if !driver.declared.opens_allocations {
            return Ok(None);
        }
        let created = DriverAllocation::create(level, driver, bytes);
        let opened = created.and_then(|of| OpenedAllocation::of(level, device, of, true));
        none_if_refused(opened)
    }

    /// Opens the object of shared memory for another device. `None` if the driver refuses it.
    ///
    /// # Errors
    /// The driver lacks memory.
    pub(super) fn open(
        level: &Passive,
        driver: &Arc<DriverPort>,
        device: &Arc<dyn OwningDevice>,
        (object, bytes): (&SharedObject, u64),
    ) -> Result<Option<OpenedAllocation>, Status> {
        let found = object.lock().upgrade();
        let allocation = match found {
            Some(allocation) => Ok(allocation),
            None => DriverAllocation::create(level, driver, bytes).map(|made| {
                let mut kept = object.lock();
                // Another device may have opened it meanwhile.
                kept.upgrade().unwrap_or_else(|| {
                    *kept = Arc::downgrade(&made);
                    made.clone()
                })
            }),
        };
        let opened = allocation.and_then(|of| OpenedAllocation::of(level, device, of, false));
        none_if_refused(opened)
    }

    fn of(
        level: &Passive,
        device: &Arc<dyn OwningDevice>,
        allocation: Arc<DriverAllocation>,
        create: bool,
    ) -> Result<OpenedAllocation, Status> {
        let driver = allocation.driver.clone();
        let args = OpenAllocation {
            device: device.driver_handle(),
            os_handle: driver.new_handle(),
            allocation: allocation.handle,
            bytes: allocation.bytes,
            create,
        };
        let handle = driver.driver(level).open_allocation(level, args)?;
        let (device, os_handle) = (device.clone(), args.os_handle);
        let body = OpenedAllocationBody { device, os_handle, handle, allocation };
        Ok(AtPassive::wrap(&driver.timer, body))
    }

    /// Returns the object, as other devices find it.
    pub(super) fn shared_object(&self) -> SharedObject {
        let of = Arc::downgrade(&self.allocation);
        self.allocation.driver.platform.mutex("driver's object of memory", of)
    }

    /// Returns the handle.
    pub(super) fn handle(&self) -> DriverHandle {
        self.handle
    }
}

/// A driver whose user-mode driver is another one does not know the private data.
fn none_if_refused(
    opened: Result<OpenedAllocation, Status>,
) -> Result<Option<OpenedAllocation>, Status> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(status @ (Status::NO_MEMORY | Status::INSUFFICIENT_RESOURCES)) => Err(status),
        Err(_) => Ok(None),
    }
}
