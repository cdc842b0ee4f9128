//! Arguments of the DDIs for allocations of processes.

use crate::{DriverHandle, OsHandle};

/// DXGKARG_CREATEALLOCATION, of one allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateAllocation {
    /// Size in bytes. The allocation has no GPU address yet.
    pub bytes: u64,
}

/// DXGKARG_OPENALLOCATION, of one allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenAllocation {
    /// The driver's device.
    pub device: DriverHandle,
    /// The kernel's handle of the allocation in this device.
    pub os_handle: OsHandle,
    /// The driver's allocation, which DxgkCbGetHandleData returns for the kernel's handle.
    pub allocation: DriverHandle,
    /// Size in bytes.
    pub bytes: u64,
    /// Flags.Create: the device creates the allocation. Otherwise it opens a shared resource.
    pub create: bool,
}

/// DXGKARG_CLOSEALLOCATION, of one allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseAllocation {
    /// The driver's device.
    pub device: DriverHandle,
    /// The kernel's handle of the allocation in this device.
    pub os_handle: OsHandle,
    /// The handle that DxgkDdiOpenAllocation returned for it.
    pub opened: DriverHandle,
}
