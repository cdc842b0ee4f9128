//! Arguments of the doorbell calls: create, connect, destroy and notify.

use crate::{Handle, ReadOnly, RingHint};
use std::fmt;
use std::sync::Arc;
use tidegate_platform::{Mapping, Word};
pub use tidegate_wddm_abi::d3dkmthk::CreateDoorbellFlags;

/// D3DKMTCreateDoorbell.
#[derive(Clone, Debug)]
pub struct CreateDoorbell {
    /// A queue made for user-mode submission.
    pub hw_queue: Handle,
    /// The ring's slots: a bulk allocation of a power of two of slots.
    pub ring: Handle,
    /// The control area: a protocol allocation.
    pub control: Handle,
    /// REQUIRE_SECONDARY_CPU_VA: NOT_SUPPORTED where the adapter has no secondary doorbells.
    /// RESIZE_RING_BUFFER_OPERATION: the queue's live doorbell, if it has one, gets
    /// DISCONNECTED_ABORT when this call succeeds, and is to be destroyed. What stands in its ring
    /// then and was not taken does not run: wait for it first.
    pub flags: CreateDoorbellFlags,
    /// For the driver, which may answer in [`Doorbell::private_data`]: at most 16 bytes
    /// (D3DDDI_DOORBELL_PRIVATEDATA_MAX_BYTES).
    pub private_data: Vec<u8>,
}

/// A created doorbell. It starts disconnected: status DISCONNECTED_RETRY.
#[derive(Clone)]
pub struct Doorbell {
    /// Its handle.
    pub handle: Handle,
    /// DoorbellCPUVirtualAddress: stays the same over connects; store the write pointer to word 0.
    pub mapping: Mapping,
    /// DoorbellSecondaryCPUVirtualAddress, if it was required: to ring here is as good.
    pub secondary: Option<Mapping>,
    /// DoorbellStatusCPUVirtualAddress.
    // spec: UMS-028
    pub status: ReadOnly,
    /// HwQueueProgressFenceLastQueuedValueCPUVirtualAddress: the process stores its latest queued
    /// progress value here.
    // spec: UMS-072
    pub last_queued: Word,
    /// The private data as the driver left it, as many bytes as were given.
    pub private_data: Vec<u8>,
}

impl fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Doorbell({:?})", self.handle)
    }
}

/// What D3DKMTConnectDoorbell gives back beside success. It is the vendor's business, which the
/// published call leaves to its user-mode and kernel-mode driver.
#[derive(Clone)]
pub struct Connection {
    /// What is added to a write pointer to make the value that is stored to the doorbell, until the
    /// next connect.
    pub value_base: u64,
    /// How to find the engine after a ring.
    pub hint: Arc<dyn RingHint>,
}
