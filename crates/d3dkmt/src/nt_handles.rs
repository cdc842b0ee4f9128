//! The NT handles of this process.
//!
//! An NT handle is the reading end of a pipe, closed on exec. The library keeps the writing end
//! with the shared object, and knows a descriptor by device and inode of its pipe. So a duplicate,
//! and a descriptor that travelled over a socket, name the same object.
//!
//! Invariant: the library's end and its reference to the object go when no descriptor of the
//! reading end is left, at the latest at the next call that shares, opens by name, or ends a device.

use crate::caller::Caller;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::PipeWriter;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
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
pub(crate) struct NtHandles(Mutex<BTreeMap<(u64, u64), Shared>>);

/// Device and inode of a descriptor.
fn identity(descriptor: OwnedFd) -> Result<((u64, u64), OwnedFd), Status> {
    let file = File::from(descriptor);
    let metadata = file.metadata().map_err(|_| Status::INVALID_HANDLE)?;
    Ok(((metadata.dev(), metadata.ino()), file.into()))
}

impl NtHandles {
    pub(crate) fn new(platform: &Platform) -> NtHandles {
        NtHandles(platform.mutex("NT handles", BTreeMap::new()))
    }

    /// Makes a descriptor for a shared object. The caller of the library closes it.
    pub(crate) fn export(&self, object: NtHandle) -> Result<u64, Status> {
        self.collect();
        let refusal = |_| Status::INSUFFICIENT_RESOURCES;
        let (reading, end) = std::io::pipe().map_err(refusal)?;
        let (id, reading) = identity(reading.into())?;
        let mut known = self.0.lock();
        if known.len() >= MOST {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        known.insert(id, Shared { object, end });
        drop(known);
        // A standard stream that the process has closed leaves its number free. 0 would be NULL, so
        // the number is at least 3.
        let above = rustix::io::fcntl_dupfd_cloexec(&reading, 3)
            .map_err(|_| Status::INSUFFICIENT_RESOURCES)?;
        Ok(above.into_raw_fd() as u64)
    }

    /// Returns the object of a descriptor.
    pub(crate) fn import(&self, caller: &Caller, handle: u64) -> Result<NtHandle, Status> {
        let (id, _descriptor) = identity(caller.descriptor(handle)?)?;
        let found = self.0.lock().get(&id).map(|shared| shared.object.clone());
        found.ok_or(Status::INVALID_HANDLE)
    }

    /// Drops the objects whose descriptors are all closed.
    pub(crate) fn collect(&self) {
        let closed: Vec<Shared> = {
            let mut known = self.0.lock();
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
