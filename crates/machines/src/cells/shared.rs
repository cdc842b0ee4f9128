//! Cells in a file of memory (memfd) that other processes map, or in a mapping of this process that
//! can be shown at a second address (`placed`).
//!
//! Invariants: the file is sealed before another process can have it, so that it neither shrinks
//! nor grows: no access to the mapping faults, whatever the others do. All its memory is reserved
//! when it is made. A file that others may only read is sealed against writing, too, after this
//! process has mapped it: the system then refuses every later mapping and every call that would
//! write.

use crate::access::ClientAccess;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

const CELL_BYTES: u64 = size_of::<AtomicU64>() as u64;

/// A whole file of cells, mapped.
pub struct SharedCells {
    at: NonNull<AtomicU64>,
    bytes: usize,
    access: ClientAccess,
    /// Kept by the process that made it, to hand it on.
    file: Option<OwnedFd>,
}

impl SharedCells {
    /// Makes a file of at least `bytes` zeroed bytes that other processes may map as `access` says,
    /// and maps it for reading and writing.
    ///
    /// # Errors
    /// The system has no memory, descriptor or mapping left.
    pub fn create(bytes: u64, access: ClientAccess) -> io::Result<SharedCells> {
        let bytes = bytes.max(1).next_multiple_of(rustix::param::page_size() as u64);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("tidegate", flags)?;
        rustix::fs::ftruncate(&file, bytes)?;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
        let at = map(&file, bytes, ProtFlags::READ | ProtFlags::WRITE)?;
        let mut mapped = SharedCells { at, bytes: bytes as usize, access, file: None };
        let write = match access {
            ClientAccess::ReadOnly => SealFlags::FUTURE_WRITE,
            ClientAccess::ReadWrite => SealFlags::empty(),
        };
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL | write;
        rustix::fs::fcntl_add_seals(&file, seals)?;
        mapped.file = Some(file);
        Ok(mapped)
    }

    /// Maps at least `bytes` zeroed bytes of memory that has no file.
    ///
    /// # Errors
    /// The system has no memory or mapping left.
    pub fn anonymous(bytes: u64, access: ClientAccess) -> io::Result<SharedCells> {
        let bytes = bytes.max(1).next_multiple_of(rustix::param::page_size() as u64);
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as in `map`.
        let at = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED)?
        };
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(SharedCells { at, bytes, access, file: None })
    }

    /// Maps the file of another process. The caller trusts neither its size nor its seals.
    ///
    /// # Errors
    /// InvalidData for a file that can shrink, or has less than `bytes`; what the system refuses.
    pub fn open(file: OwnedFd, bytes: u64, access: ClientAccess) -> io::Result<SharedCells> {
        let refuse = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
        if !rustix::fs::fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
            return refuse("the file is not sealed against shrinking");
        }
        let size = u64::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or(0);
        if bytes == 0 || size < bytes || usize::try_from(size).is_err() {
            return refuse("the file is shorter than its description");
        }
        let protection = match access {
            ClientAccess::ReadOnly => ProtFlags::READ,
            ClientAccess::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        let at = map(&file, size, protection)?;
        Ok(SharedCells { at, bytes: size as usize, access, file: None })
    }

    pub(crate) fn at(&self) -> NonNull<AtomicU64> {
        self.at
    }

    /// Returns the number of cells.
    pub(crate) fn len(&self) -> usize {
        self.bytes / CELL_BYTES as usize
    }

    /// Returns what other processes may do with the file.
    pub fn access(&self) -> ClientAccess {
        self.access
    }

    /// Returns the file; `None` if another process made it and its descriptor is closed.
    pub fn file(&self) -> Option<&OwnedFd> {
        self.file.as_ref()
    }
}

fn map(file: impl AsFd, bytes: u64, protection: ProtFlags) -> io::Result<NonNull<AtomicU64>> {
    let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
    // SAFETY: no address is given, so the mapping replaces none. It is used only through atomics,
    // which other processes may change at any time, and ends in `drop`.
    let at = unsafe {
        rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0)?
    };
    NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))
}

impl Drop for SharedCells {
    fn drop(&mut self) {
        // SAFETY: `map` made this mapping of so many bytes, and the references to its cells were
        // borrowed from `self`. An error leaves the mapping behind, which does no harm.
        let _ = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}
