//! Owns the arguments of the doorbell DDIs.

use crate::queue::RingAllocations;
use crate::{DoorbellStatus, DriverHandle, OsHandle, RingHint};
use std::fmt;
use std::sync::Arc;
use tidegate_platform::Page;
pub use tidegate_wddm_abi::d3dkmddi::{ConnectDoorbellFlags, CreateDoorbellFlags};

/// Why a driver disconnects: the two DISCONNECTED values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisconnectReason {
    /// D3DDDI_DOORBELLSTATUS_DISCONNECTED_RETRY
    Retry,
    /// D3DDDI_DOORBELLSTATUS_DISCONNECTED_ABORT
    Abort,
}

/// DXGKARG_CREATEDOORBELL.
#[derive(Clone, Debug)]
pub struct CreateDoorbell {
    /// The driver's hardware queue.
    pub hw_queue: DriverHandle,
    /// The kernel's handle.
    pub os_handle: OsHandle,
    /// Ring and control area.
    pub ring: RingAllocations,
    /// With RESIZE_RING_BUFFER_OPERATION the queue has a doorbell already, which the kernel aborts
    /// and disconnects when this call has succeeded.
    pub flags: CreateDoorbellFlags,
    /// From the user-mode driver, at most 16 bytes, and back to it as the driver leaves them: as
    /// many as came.
    pub private_data: Vec<u8>,
}

/// What DxgkDdiConnectDoorbell returns.
#[derive(Clone)]
pub struct ConnectedDoorbell {
    /// The doorbell's page, to be shown through the process's mapping.
    pub page: Page,
    /// The page of the secondary doorbell; there must be one when it was asked for
    /// (RequireSecondaryAddress).
    pub secondary: Option<Page>,
    /// What is added to a write pointer to make the value that is stored to the doorbell: 0 for a
    /// doorbell of the queue's own, the queue's number in the high bits for a location that all
    /// queues share.
    pub value_base: u64,
    /// CONNECTED or CONNECTED_NOTIFY.
    pub status: DoorbellStatus,
    /// For the user-mode driver.
    pub hint: Arc<dyn RingHint>,
}

impl fmt::Debug for ConnectedDoorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectedDoorbell({:?})", self.status)
    }
}
