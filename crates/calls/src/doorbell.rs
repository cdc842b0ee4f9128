//! Owns the arguments of doorbell calls.

use crate::{Handle, ReadOnly, RingHint};
use std::fmt;
use std::sync::Arc;
use tidegate_platform::{Mapping, Word};

/// D3DKMTCreateDoorbell.
#[derive(Clone, Debug)]
pub struct CreateDoorbell {
    /// A queue made for user-mode submission.
    pub hw_queue: Handle,
    /// The ring's slots: a bulk allocation of a power of two of slots.
    pub ring: Handle,
    /// The control area: a protocol allocation.
    pub control: Handle,
    /// For the driver: at most 16 bytes (D3DDDI_DOORBELL_PRIVATEDATA_MAX_BYTES).
    pub private_data: Vec<u8>,
}

/// A created doorbell. It starts disconnected: status DISCONNECTED_RETRY.
#[derive(Clone)]
pub struct Doorbell {
    /// Its handle.
    pub handle: Handle,
    /// DoorbellCPUVirtualAddress: stays the same over connects; store the write pointer to word 0.
    pub mapping: Mapping,
    /// DoorbellStatusCPUVirtualAddress.
    // spec: UMS-028
    pub status: ReadOnly,
    /// HwQueueProgressFenceLastQueuedValueCPUVirtualAddress: the process stores its latest queued progress value here.
    // spec: UMS-072
    pub last_queued: Word,
}

impl fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Doorbell({:?})", self.handle)
    }
}

/// What D3DKMTConnectDoorbell gives back beside success.
#[derive(Clone)]
pub struct Connection {
    /// How to find the engine after a ring.
    pub hint: Arc<dyn RingHint>,
}
