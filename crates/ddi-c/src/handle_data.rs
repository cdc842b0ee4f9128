//! What the driver keeps by the kernel's handles of allocations: its own handles, which
//! DxgkCbGetHandleData and DxgkCbAcquireHandleData return.

use std::collections::BTreeMap;

/// The driver's handles of an allocation of a device; 0 for none.
#[derive(Clone, Copy, Default)]
pub(crate) struct DriverHandles {
    /// hAllocation of DXGK_ALLOCATIONINFO.
    pub(crate) allocation: u64,
    /// hDeviceSpecificAllocation; 0 until the device has opened it.
    pub(crate) opened: u64,
}

/// The handles of all open allocations.
#[derive(Default)]
pub(crate) struct HandleData {
    by_kernel_handle: BTreeMap<u32, DriverHandles>,
    /// How often each of them is acquired.
    acquired: BTreeMap<u64, u32>,
}

impl HandleData {
    pub(crate) fn set(&mut self, handle: u32, handles: DriverHandles) {
        self.by_kernel_handle.insert(handle, handles);
    }

    pub(crate) fn remove(&mut self, handle: u32) {
        self.by_kernel_handle.remove(&handle);
    }

    /// Returns the driver's handle: the device's, or the allocation's.
    pub(crate) fn find(&self, handle: u32, of_device: bool) -> u64 {
        let handles = self.by_kernel_handle.get(&handle).copied().unwrap_or_default();
        if of_device { handles.opened } else { handles.allocation }
    }

    /// As [`HandleData::find`], until [`HandleData::release`]. A handle that is not there is
    /// acquired as 0.
    pub(crate) fn acquire(&mut self, handle: u32, of_device: bool) -> u64 {
        let found = self.find(handle, of_device);
        *self.acquired.entry(found).or_default() += 1;
        found
    }

    /// Returns whether it was acquired.
    pub(crate) fn release(&mut self, acquired: u64) -> bool {
        let Some(times) = self.acquired.get_mut(&acquired) else { return false };
        *times -= 1;
        if *times == 0 {
            self.acquired.remove(&acquired);
        }
        true
    }

    /// Returns how many are acquired.
    pub(crate) fn acquired(&self) -> u32 {
        self.acquired.values().sum()
    }
}
