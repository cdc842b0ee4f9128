//! Objects that are older than monitored fences: mutexes, semaphores and fences of WDDM 1.x.
//! Contexts wait for them and signal them in their order. No CPU waits for them.

use crate::{Handle, NtHandle, SyncObjectFlags};
use serde::{Deserialize, Serialize};

/// What an older object is, and its first state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OlderObject {
    /// D3DDDI_SYNCHRONIZATION_MUTEX. `owned`: its creator has it until it is signalled.
    Mutex {
        /// InitialState.
        owned: bool,
    },
    /// D3DDDI_SEMAPHORE. INVALID_PARAMETER for a count above the maximum.
    Semaphore {
        /// MaxCount.
        max_count: u32,
        /// InitialCount.
        initial_count: u32,
    },
    /// D3DDDI_FENCE.
    Fence {
        /// FenceValue.
        initial_value: u64,
    },
}

/// D3DKMTCreateSynchronizationObject and D3DKMTCreateSynchronizationObject2 of these types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateSynchronizationObject {
    /// The device.
    pub device: Handle,
    /// The object.
    pub object: OlderObject,
    /// SHARED alone gives it a global handle, with NT_SECURITY_SHARING it can be shared by NT
    /// handle. NO_SIGNAL and NO_WAIT restrict the creator's instance.
    pub flags: SyncObjectFlags,
}

/// A created object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SynchronizationObject {
    /// The creator's instance.
    pub handle: Handle,
    /// Its global handle, which any process may open and which keeps nothing alive; 0 for none. Its
    /// low six bits are 2, those of a process's handles are 0.
    pub shared_handle: u32,
}

/// How a further instance is opened: D3DKMTOpenSynchronizationObject,
/// D3DKMTOpenSyncObjectFromNtHandle and D3DKMTOpenSyncObjectFromNtHandle2.
#[derive(Clone, Copy, Debug)]
pub enum OpenSynchronizationObject<'a> {
    /// By global handle. The instance ends with its process.
    Shared(u32),
    /// By NT handle. An instance of a device ends with it.
    NtHandle {
        /// The shared object.
        nt_handle: &'a NtHandle,
        /// The device; `None` for the call that has none.
        device: Option<Handle>,
        /// Restrictions, as of [`crate::OpenSyncObject`].
        flags: SyncObjectFlags,
    },
}
