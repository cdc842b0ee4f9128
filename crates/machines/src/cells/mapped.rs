//! A shared mapping of a whole file: memory of several processes, or of a device.
//!
//! Invariant: the mapping is used only through atomics, because others may store to it at any time.
//! It ends when the value is dropped.

use crate::access::ClientAccess;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const CELL_BYTES: usize = size_of::<AtomicU64>();

/// A mapped run of cells.
pub struct MappedCells {
    at: NonNull<AtomicU64>,
    bytes: usize,
    /// Kept for a device, whose pages can be shown at a second address.
    file: Option<OwnedFd>,
}

// SAFETY: the memory is used only through atomics, and belongs to no thread.
unsafe impl Send for MappedCells {}
// SAFETY: as for `Send`.
unsafe impl Sync for MappedCells {}

/// Makes a file of `bytes` bytes of memory, which are reserved. It can still be resized.
pub(super) fn new_file(bytes: u64) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("tidegate", flags)?;
    rustix::fs::ftruncate(&file, bytes)?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
    Ok(file)
}

/// Gives the memory of a file of [`new_file`] back, which reads as zeros then.
pub(super) fn free_memory(file: impl AsFd, bytes: u64) {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    // A system that refuses keeps the memory until the file is closed.
    let _ = rustix::fs::fallocate(file, hole, 0, bytes);
}

impl MappedCells {
    /// Maps the first `bytes` bytes of a file.
    pub(super) fn of_file(
        file: impl AsFd,
        bytes: u64,
        access: ClientAccess,
    ) -> io::Result<MappedCells> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        let protection = match access {
            ClientAccess::ReadOnly => ProtFlags::READ,
            ClientAccess::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        let (at, flags) = (std::ptr::null_mut(), MapFlags::SHARED);
        // SAFETY: no address is given, so the mapping replaces none.
        let at = unsafe { rustix::mm::mmap(at, bytes, protection, flags, file, 0)? };
        MappedCells::at_address(at.cast(), bytes)
    }

    /// Maps zeroed memory that has no file.
    pub(super) fn anonymous(bytes: u64) -> io::Result<MappedCells> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as in `of_file`.
        let at = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED)?
        };
        MappedCells::at_address(at.cast(), bytes)
    }

    fn at_address(at: *mut AtomicU64, bytes: usize) -> io::Result<MappedCells> {
        let at = NonNull::new(at).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(MappedCells { at, bytes, file: None })
    }

    /// Maps the memory of a device, or a file of memory that cannot shrink.
    ///
    /// # Errors
    /// InvalidData for a file of memory that can shrink, or a file without bytes; what the system
    /// refuses.
    pub fn device(file: &OwnedFd) -> io::Result<MappedCells> {
        let refuse = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
        // Only a file of memory has seals. The memory of a device does not shrink.
        match rustix::fs::fcntl_get_seals(file) {
            Ok(seals) if !seals.contains(SealFlags::SHRINK) => {
                return refuse("the file is not sealed against shrinking");
            }
            _ => {}
        }
        let size = u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0);
        if size < CELL_BYTES as u64 {
            return refuse("the file has no memory");
        }
        let mut mapped = MappedCells::of_file(file, size, ClientAccess::ReadWrite)?;
        mapped.file = Some(file.try_clone()?);
        Ok(mapped)
    }

    /// Returns the file of a device.
    pub(super) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(OwnedFd::as_fd)
    }

    /// Has the addresses show bytes of `file` from `offset` on, which are multiples of a page. The
    /// system replaces the old memory in one step.
    pub(super) fn show(&self, file: impl AsFd, offset: u64) -> io::Result<()> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: the new mapping replaces exactly this one, which is used only through atomics.
        // The caller names bytes that the file has.
        unsafe {
            rustix::mm::mmap(self.at.as_ptr().cast(), self.bytes, protection, flags, file, offset)?
        };
        Ok(())
    }

    pub(super) fn at(&self) -> NonNull<AtomicU64> {
        self.at
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of cells.
    pub fn len(&self) -> usize {
        self.bytes / CELL_BYTES
    }

    /// Returns whether it has no cells.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a cell.
    ///
    /// # Panics
    /// `index` is past the end.
    pub(super) fn cell(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.len(), "cell {index} of {}", self.len());
        // SAFETY: the index is inside of the mapping, which lives as long as `self`.
        unsafe { self.at.add(index).as_ref() }
    }

    /// Stores to a register of 32 bits, at a multiple of 4 bytes.
    ///
    /// # Panics
    /// The register is past the end, or its offset is not a multiple of 4.
    pub fn store_register(&self, offset: usize, value: u32) {
        let bytes = size_of::<AtomicU32>();
        assert!(offset.is_multiple_of(bytes) && offset + bytes <= self.bytes, "register {offset}");
        // SAFETY: the register is inside of the mapping, which lives as long as `self`, begins at a
        // page, and is used only through atomics.
        let register = unsafe { self.at.cast::<AtomicU32>().add(offset / bytes).as_ref() };
        register.store(value, Ordering::Release);
    }
}

impl Drop for MappedCells {
    fn drop(&mut self) {
        // SAFETY: this value made the mapping of `bytes` bytes, and the references to its cells
        // were borrowed from it. An error leaves the mapping in place, which does no harm.
        let _ = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}
