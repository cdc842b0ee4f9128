//! The NT handles of this process.
//!
//! An NT handle is the reading end of a pipe, closed on exec. The library keeps the writing end
//! with the shared object, and knows a descriptor by device and inode of its pipe. So a duplicate,
//! and a descriptor that travelled over a socket, name the same object. The objects of a service
//! have descriptors of the service, which are passed on.
//!
//! Invariant: the library's end and its reference to the object go when no descriptor of the
//! reading end is left, at the latest at the next call that shares, opens by name, or ends a device.

use crate::backend::Handles;
use crate::caller::Caller;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::PipeWriter;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use tidegate::service::client;
use tidegate_calls::{NtHandle, Status};
use tidegate_platform::{Mutex, Platform};

/// Most NT handles of the process.
const MOST: usize = 1 << 16;

struct Shared {
    object: NtHandle,
    /// Its reading end is the NT handle.
    end: PipeWriter,
}

/// The NT handles of this process, by device and inode of their pipes.
pub(crate) struct NtHandles {
    handles: Handles,
    known: Mutex<BTreeMap<(u64, u64), Shared>>,
}

/// Device and inode of a descriptor.
fn identity(descriptor: OwnedFd) -> Result<((u64, u64), OwnedFd), Status> {
    let file = File::from(descriptor);
    let metadata = file.metadata().map_err(|_| Status::INVALID_HANDLE)?;
    Ok(((metadata.dev(), metadata.ino()), file.into()))
}

/// Copies a descriptor for the caller. A standard stream that the process has closed leaves its
/// number free, and 0 would be NULL, so the number is at least 3.
fn above_standard_streams(descriptor: BorrowedFd<'_>) -> Result<u64, Status> {
    let above = rustix::io::fcntl_dupfd_cloexec(descriptor, 3);
    above.map(|above| above.into_raw_fd() as u64).map_err(|_| Status::INSUFFICIENT_RESOURCES)
}

impl NtHandles {
    pub(crate) fn new(platform: &Platform, handles: Handles) -> NtHandles {
        NtHandles { handles, known: platform.mutex("NT handles", BTreeMap::new()) }
    }

    /// Makes a descriptor for a shared object. The caller of the library closes it.
    pub(crate) fn export(&self, object: NtHandle) -> Result<u64, Status> {
        if let Some(file) = client::nt_handle_file(&object) {
            return above_standard_streams(file);
        }
        self.collect();
        let refusal = |_| Status::INSUFFICIENT_RESOURCES;
        let (reading, end) = std::io::pipe().map_err(refusal)?;
        let (id, reading) = identity(reading.into())?;
        let mut known = self.known.lock();
        if known.len() >= MOST {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        known.insert(id, Shared { object, end });
        drop(known);
        above_standard_streams(reading.as_fd())
    }

    /// Returns the object of a descriptor.
    pub(crate) fn import(&self, caller: &Caller, handle: u64) -> Result<NtHandle, Status> {
        let (id, descriptor) = identity(caller.descriptor(handle)?)?;
        let found = self.known.lock().get(&id).map(|shared| shared.object.clone());
        match (found, self.handles) {
            (Some(object), _) => Ok(object),
            (None, Handles::OfService) => Ok(client::nt_handle(descriptor)),
            (None, Handles::OfProcess) => Err(Status::INVALID_HANDLE),
        }
    }

    /// Drops the objects whose descriptors are all closed.
    pub(crate) fn collect(&self) {
        let closed: Vec<Shared> = {
            let mut known = self.known.lock();
            if known.is_empty() {
                return;
            }
            let mut polled: Vec<PollFd<'_>> =
                known.values().map(|shared| PollFd::new(&shared.end, PollFlags::empty())).collect();
            if poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_err() {
                return;
            }
            let ended = |polled: &PollFd<'_>| polled.revents().contains(PollFlags::ERR);
            let ids: Vec<(u64, u64)> =
                known.keys().zip(&polled).filter(|(_, p)| ended(p)).map(|(id, _)| *id).collect();
            drop(polled);
            ids.iter().filter_map(|id| known.remove(id)).collect()
        };
        drop(closed);
    }
}
