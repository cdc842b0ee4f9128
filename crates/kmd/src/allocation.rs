//! Allocations of processes as objects of the driver, if the configuration has the driver keep
//! them. A device names an allocation by the handle of its opening, in the allocation lists of its
//! commands too.

use crate::objects::{Allocation, OpenedAllocation};
use crate::{Kind, KmdError, ReferenceDriver};
use tidegate_ddi::allocation::{CloseAllocation, CreateAllocation, OpenAllocation};
use tidegate_ddi::{DriverHandle, RenderAllocation};

impl ReferenceDriver {
    pub(crate) fn add_allocation(&self, args: CreateAllocation) -> Result<DriverHandle, KmdError> {
        if args.bytes == 0 {
            return Err(KmdError::Argument("an allocation has no bytes"));
        }
        let mut objects = self.objects.lock();
        objects.started()?;
        objects.allocations.insert(Allocation { bytes: args.bytes, opens: 0 })
    }

    pub(crate) fn open(&self, args: OpenAllocation) -> Result<DriverHandle, KmdError> {
        let OpenAllocation { device, allocation, .. } = args;
        let mut objects = self.objects.lock();
        objects.devices.get(device)?;
        objects.allocations.get(allocation)?;
        let opened = objects.opened_allocations.insert(OpenedAllocation { device, allocation })?;
        objects.devices.get_mut(device)?.children += 1;
        objects.allocations.get_mut(allocation)?.opens += 1;
        Ok(opened)
    }

    pub(crate) fn close(&self, args: CloseAllocation) -> Result<(), KmdError> {
        let mut objects = self.objects.lock();
        let closed = objects.opened_allocations.remove(args.opened)?;
        objects.allocations.get_mut(closed.allocation)?.opens -= 1;
        objects.devices.get_mut(closed.device)?.children -= 1;
        match closed.device == args.device {
            true => Ok(()),
            false => Err(KmdError::Argument("a device closes an allocation of another device")),
        }
    }

    pub(crate) fn remove_allocation(&self, allocation: DriverHandle) -> Result<(), KmdError> {
        let removed = self.objects.lock().allocations.remove(allocation)?;
        match removed.opens {
            0 => Ok(()),
            children => Err(KmdError::StillInUse { parent: Kind::Allocation, children }),
        }
    }

    /// Checks that an allocation list names allocations that devices have open.
    pub(crate) fn check_opened(&self, listed: &[RenderAllocation]) -> Result<(), KmdError> {
        if !self.config.opens_allocations {
            return Ok(());
        }
        let objects = self.objects.lock();
        listed.iter().try_for_each(|of| {
            let opened = of.opened.ok_or(KmdError::Argument("an allocation is not open"))?;
            let allocation = objects.opened_allocations.get(opened)?.allocation;
            match objects.allocations.get(allocation)?.bytes == of.bytes {
                true => Ok(()),
                false => Err(KmdError::Argument("an allocation has another size in a list")),
            }
        })
    }
}
