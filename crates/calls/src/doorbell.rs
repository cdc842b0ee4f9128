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
    /// REQUIRE_SECONDARY_CPU_VA: NOT_SUPPORTED on an adapter without secondary doorbells.
    /// RESIZE_RING_BUFFER_OPERATION: the queue's live doorbell gets DISCONNECTED_ABORT when this
    /// call succeeds, and must be destroyed. Pending work in its ring does not run: wait for it
    /// first.
    pub flags: CreateDoorbellFlags,
    /// Private data for the driver, which may change it in [`Doorbell::private_data`]. At most 16
    /// bytes (D3DDDI_DOORBELL_PRIVATEDATA_MAX_BYTES).
    pub private_data: Vec<u8>,
}

/// A created doorbell. It starts disconnected: status DISCONNECTED_RETRY.
#[derive(Clone)]
pub struct Doorbell {
    /// Its handle.
    pub handle: Handle,
    /// DoorbellCPUVirtualAddress. It is the same for all connects; store the write pointer to word
    /// 0.
    pub mapping: Mapping,
    /// DoorbellSecondaryCPUVirtualAddress, if it was required. It rings the same queue.
    pub secondary: Option<Mapping>,
    /// DoorbellStatusCPUVirtualAddress.
    // spec: UMS-028
    pub status: ReadOnly,
    /// HwQueueProgressFenceLastQueuedValueCPUVirtualAddress: the process stores its latest queued
    /// progress value here.
    // spec: UMS-072
    pub last_queued: Word,
    /// The private data after the call, of the same length.
    pub private_data: Vec<u8>,
}

impl fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Doorbell({:?})", self.handle)
    }
}

/// Result of D3DKMTConnectDoorbell. Not published: the vendor's user-mode and kernel-mode drivers
/// agree on it.
#[derive(Clone)]
pub struct Connection {
    /// The value stored to the doorbell is the write pointer plus this base, until the next
    /// connect.
    pub value_base: u64,
    /// Wakes the engine after a ring.
    pub hint: Arc<dyn RingHint>,
    /// For a process that maps the doorbell's page itself: the status is stored when the process
    /// says that it has. `None` if the status is stored already.
    pub announcement: Option<Arc<dyn ConnectAnnouncement>>,
}

/// The status of a connection whose page the process maps itself. It must not read CONNECTED
/// before: a ring would reach the page that the process has mapped until then.
pub trait ConnectAnnouncement: Send + Sync {
    /// The number of the connection among its doorbell's.
    fn number(&self) -> u64;

    /// The process has mapped the page. Stores the status, unless the doorbell was disconnected
    /// meanwhile.
    fn page_is_mapped(&self);
}
