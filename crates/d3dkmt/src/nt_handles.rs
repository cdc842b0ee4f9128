//! The NT handles of this process, as numbers of descriptors.
//!
//! The objects of a kernel in this process are behind pipes ([`service::NtHandles`]). Those of a
//! service have descriptors of the service, which are passed on. What is closed everywhere is
//! dropped at the latest at the next call that shares, opens by name, or ends a device.

use crate::backend::Handles;
use crate::caller::Caller;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd};
use tidegate::service::{self, client};
use tidegate_calls::{NtHandle, Status};
use tidegate_platform::Platform;

/// Most NT handles of the process.
const MOST: u32 = 1 << 16;
/// All of them count for the process itself.
const OWNER: u64 = 0;

/// The NT handles of this process.
pub(crate) struct NtHandles {
    handles: Handles,
    known: service::NtHandles,
}

/// Copies a descriptor for the caller. A standard stream that the process has closed leaves its
/// number free, and 0 would be NULL, so the number is at least 3.
fn above_standard_streams(descriptor: BorrowedFd<'_>) -> Result<u64, Status> {
    let above = rustix::io::fcntl_dupfd_cloexec(descriptor, 3);
    above.map(|above| above.into_raw_fd() as u64).map_err(|_| Status::INSUFFICIENT_RESOURCES)
}

impl NtHandles {
    pub(crate) fn new(platform: &Platform, handles: Handles) -> NtHandles {
        NtHandles { handles, known: service::NtHandles::new(platform) }
    }

    /// Makes a descriptor for a shared object. The caller of the library closes it.
    pub(crate) fn export(&self, object: NtHandle) -> Result<u64, Status> {
        match client::nt_handle_file(&object) {
            Some(file) => above_standard_streams(file),
            None => above_standard_streams(self.known.export(object, OWNER, MOST)?.as_fd()),
        }
    }

    /// Returns the object of a descriptor.
    pub(crate) fn import(&self, caller: &Caller, handle: u64) -> Result<NtHandle, Status> {
        let descriptor = caller.descriptor(handle)?;
        match (self.known.import(&descriptor), self.handles) {
            (Err(Status::INVALID_HANDLE), Handles::OfService) => Ok(client::nt_handle(descriptor)),
            (known, _) => known,
        }
    }

    /// Returns how many objects of this process have descriptors.
    pub(crate) fn count(&self) -> usize {
        self.known.count()
    }

    /// Drops the objects whose descriptors are all closed.
    pub(crate) fn collect(&self) {
        self.known.sweep();
    }
}
