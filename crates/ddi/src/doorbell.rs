//! Arguments of the doorbell DDIs.

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
    /// With RESIZE_RING_BUFFER_OPERATION the queue already has a doorbell. The kernel aborts and
    /// disconnects it when this call has succeeded.
    pub flags: CreateDoorbellFlags,
    /// Private data of the user-mode driver, at most 16 bytes. In and out; the length stays.
    pub private_data: Vec<u8>,
}

/// What DxgkDdiConnectDoorbell returns.
#[derive(Clone)]
pub struct ConnectedDoorbell {
    /// The doorbell's page, for the process's mapping.
    pub page: Page,
    /// The page of the secondary doorbell. Required with RequireSecondaryAddress.
    pub secondary: Option<Page>,
    /// The value stored to the doorbell is the write pointer plus this base: 0 for a doorbell of
    /// the queue's own, the queue's number in the high bits for a doorbell that queues share.
    pub value_base: u64,
    /// CONNECTED or CONNECTED_NOTIFY.
    pub status: DoorbellStatus,
    /// Hint for the user-mode driver.
    pub hint: Arc<dyn RingHint>,
}

impl fmt::Debug for ConnectedDoorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectedDoorbell({:?})", self.status)
    }
}
