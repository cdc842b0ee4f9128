//! Sharing of objects between processes: handles, and the arguments of opening them.

use crate::Handle;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use tidegate_d3dukmdt::SyncObjectFlags;

/// An NT handle: keeps the shared object alive, and can be passed to another process. Each clone is
/// another handle.
#[derive(Clone)]
pub struct NtHandle(Arc<Shared>);

/// What an NT handle keeps alive.
struct Shared {
    /// Of different types.
    objects: Vec<Box<dyn Any + Send + Sync>>,
    _name: Option<Arc<dyn Any + Send + Sync>>,
}

impl NtHandle {
    /// For the kernel: a handle of `object`.
    pub fn new(object: impl Any + Send + Sync) -> NtHandle {
        NtHandle::of(vec![Box::new(object)], None)
    }

    /// For the kernel: a handle of objects of different types, which keeps its name.
    pub fn of(
        objects: Vec<Box<dyn Any + Send + Sync>>,
        name: Option<Arc<dyn Any + Send + Sync>>,
    ) -> NtHandle {
        NtHandle(Arc::new(Shared { objects, _name: name }))
    }

    /// For the kernel: the object of this type, if there is one.
    pub fn object<T: Any>(&self) -> Option<&T> {
        self.0.objects.iter().find_map(|object| object.downcast_ref())
    }
}

impl fmt::Debug for NtHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NtHandle({:p})", Arc::as_ptr(&self.0))
    }
}

bitflags::bitflags! {
    /// Access rights of a shared handle: D3DDDI_SYNC_OBJECT_WAIT, D3DDDI_SYNC_OBJECT_SIGNAL, and
    /// the standard rights. The object can be opened with any of them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct SyncObjectAccess: u32 {
        /// Wait for it.
        const WAIT = 1;
        /// Signal it.
        const SIGNAL = 2;
        /// The standard rights of all objects. An instance that is opened with no other right
        /// neither waits nor signals.
        const STANDARD = 0x2_0000;
    }
}

/// D3DKMTOpenSyncObjectFromNtHandle2 and D3DKMTOpenNativeFenceFromNtHandle.
#[derive(Clone, Copy, Debug)]
pub struct OpenSyncObject<'a> {
    /// The device that opens it.
    pub device: Handle,
    /// The shared object.
    pub nt_handle: &'a NtHandle,
    /// Restrictions of the new instance: NO_SIGNAL, NO_WAIT, or none. SHARED and
    /// NT_SECURITY_SHARING together are accepted and have no effect. INVALID_PARAMETER for any
    /// other flag.
    pub flags: SyncObjectFlags,
    /// The physical adapters whose engines reach it; 0 for all.
    pub engine_affinity: u32,
}
