//! Keyed mutexes: a lock of several processes that is released with a key, and acquired next with
//! the same key. CPUs acquire and release it. Its data goes from one owner to the next.

use crate::Handle;
use serde::{Deserialize, Serialize};

/// Most bytes of the data of a keyed mutex.
pub const MAX_KEYED_MUTEX_DATA_BYTES: usize = 4096;

/// D3DKMTCreateKeyedMutex and D3DKMTCreateKeyedMutex2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateKeyedMutex {
    /// The device whose adapter has the mutex. The creator's instance ends with its process.
    pub device: Handle,
    /// The key of the first acquire.
    pub initial_key: u64,
    /// Data of the runtime; at most [`MAX_KEYED_MUTEX_DATA_BYTES`].
    pub data: Vec<u8>,
    /// NtSecuritySharing: it is shared by NT handle together with a resource, and has no global
    /// handle.
    pub nt_security_sharing: bool,
}

/// A keyed mutex, as its creator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyedMutex {
    /// Its handle in the process.
    pub handle: Handle,
    /// Its global handle, as of [`crate::SynchronizationObject`]; 0 for none.
    pub shared_handle: u32,
}

/// A keyed mutex that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedKeyedMutex {
    /// Its handle in the process.
    pub handle: Handle,
    /// The bytes of the data that its creator has passed.
    pub data_bytes: u32,
}

/// The outcome of an attempt to acquire a keyed mutex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyedMutexAcquire {
    /// The instance owns it.
    Acquired {
        /// What the last owner has passed, 0 at first.
        fence_value: u64,
        /// The data of the last owner, or of the creator.
        data: Vec<u8>,
    },
    /// It is owned, or was released with another key.
    Held {
        /// The value of the fence of its changes at which a further attempt can succeed.
        change: u64,
    },
    /// An owner has ended without a release. Nothing acquires it any more.
    Abandoned,
}

/// D3DKMTReleaseKeyedMutex and D3DKMTReleaseKeyedMutex2.
#[derive(Clone, Copy, Debug)]
pub struct ReleaseKeyedMutex<'a> {
    /// The mutex, which the instance owns.
    pub mutex: Handle,
    /// The key of the next acquire.
    pub key: u64,
    /// For the next owner.
    pub fence_value: u64,
    /// Whether `data` takes the place of what there is.
    pub replaces_data: bool,
    /// Data for the next owner; at most [`MAX_KEYED_MUTEX_DATA_BYTES`].
    pub data: &'a [u8],
}
