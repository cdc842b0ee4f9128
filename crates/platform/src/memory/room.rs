//! Memory of a guest: one file that it maps whole (a BAR), with the memory of many objects.
//!
//! Invariants: a page or bytes to which a process may store move into the room, at the same
//! addresses of this process. A page that a process may only read stays outside. The room has a
//! copy, which follows each change and is never read by this process, because the guest may store
//! to all of the room.
//!
//! Entry points: [`Platform::room`] for the host, [`Platform::map_device`] for the guest.

use super::{Bulk, Page};
use crate::platform::Platform;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use tidegate_machines::ClientAccess;
use tidegate_machines::cells::{self, Cells, MappedCells, Place, SharedCells};

/// The memory of a guest.
#[derive(Clone)]
pub struct Room(Arc<cells::Room>);

/// Where memory lies in a room. Memory that has a copy there loses it when this is dropped.
pub struct InRoom {
    /// The offset of the first byte.
    pub offset: u64,
    copy: Option<(Page, Arc<Place>)>,
}

impl Drop for InRoom {
    fn drop(&mut self) {
        if let Some((page, copy)) = &self.copy
            && let Some(shared) = page.inner.cells().shared()
        {
            shared.end_copy(copy);
        }
    }
}

impl InRoom {
    /// Returns whether it is a copy of a page that nothing else refers to.
    pub fn is_only_reference(&self) -> bool {
        self.copy.as_ref().is_some_and(|(page, _)| page.is_only_reference())
    }

    /// Returns whether the room has a copy, which ends with this value.
    pub fn is_copy(&self) -> bool {
        self.copy.is_some()
    }
}

/// Returns the number of the cell at a byte, if `bytes` bytes from it on are in the memory.
fn first_cell(memory: &MappedCells, offset: u64, bytes: u64) -> Option<usize> {
    let end = offset.checked_add(bytes)?;
    let fits = end <= memory.bytes() as u64 && offset.is_multiple_of(8);
    fits.then(|| usize::try_from(offset / 8).ok()).flatten()
}

fn page_of(platform: &Platform, memory: &Arc<MappedCells>, at: u64, words: usize) -> Option<Page> {
    let first = first_cell(memory, at, 8 * words as u64)?;
    Some(Page::of(platform, Cells::of_part(memory, first, words)))
}

fn bulk_of(platform: &Platform, memory: &Arc<MappedCells>, at: u64, bytes: usize) -> Option<Bulk> {
    let cells = bytes.div_ceil(8);
    let first = first_cell(memory, at, 8 * cells as u64)?;
    Some(Bulk::of(platform, Cells::of_part(memory, first, cells), bytes))
}

impl Platform {
    /// Makes the memory of a guest: `bytes` zeroed bytes, of which the first `reserved` are for
    /// [`Room::page`] and [`Room::bulk`]. Both are multiples of a page.
    ///
    /// # Errors
    /// The system has no memory, descriptor or mapping left.
    pub fn room(&self, bytes: u64, reserved: usize) -> io::Result<Room> {
        cells::Room::create(bytes, reserved).map(Room)
    }

    /// Maps the memory of a device, or the file of a room.
    ///
    /// # Errors
    /// InvalidData for a file of memory that can shrink, or a file without bytes; what the system
    /// refuses.
    pub fn map_device(&self, file: &OwnedFd) -> io::Result<DeviceMemory> {
        Ok(DeviceMemory(Arc::new(MappedCells::device(file)?)))
    }
}

impl Room {
    /// Returns the file, for the guest.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.0.file()
    }

    /// Returns words at a multiple of 8 bytes; `None` beyond the end.
    pub fn page(&self, platform: &Platform, offset: u64, words: usize) -> Option<Page> {
        page_of(platform, self.0.memory(), offset, words)
    }

    /// Returns bytes at a multiple of 8 bytes; `None` beyond the end.
    pub fn bulk(&self, platform: &Platform, offset: u64, bytes: usize) -> Option<Bulk> {
        bulk_of(platform, self.0.memory(), offset, bytes)
    }

    /// Puts a page into the room: all of it, or another copy if a process may only read it. Before
    /// a page moves no other thread stores to it. One that lies there already has its place.
    ///
    /// # Errors
    /// InvalidInput for a page that another process may have, or that no process is handed;
    /// OutOfMemory if the room has no place.
    pub fn enter_page(&self, page: &Page) -> io::Result<InRoom> {
        let shared = page.inner.cells().shared().ok_or(io::ErrorKind::InvalidInput)?;
        if shared.access() == ClientAccess::ReadOnly {
            let copy = shared.copy_into(&self.0)?;
            return Ok(InRoom { offset: copy.offset(), copy: Some((page.clone(), copy)) });
        }
        self.moved(shared)
    }

    /// Puts bytes into the room, as [`Room::enter_page`] does.
    ///
    /// # Errors
    /// As [`Room::enter_page`].
    pub fn enter_bulk(&self, bulk: &Bulk) -> io::Result<InRoom> {
        self.moved(bulk.inner.cells().shared().ok_or(io::ErrorKind::InvalidInput)?)
    }

    fn moved(&self, shared: &SharedCells) -> io::Result<InRoom> {
        Ok(InRoom { offset: shared.move_into(&self.0)?, copy: None })
    }
}

/// The memory of a device as a program in the guest has mapped it.
#[derive(Clone)]
pub struct DeviceMemory(Arc<MappedCells>);

impl std::fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DeviceMemory({} bytes)", self.0.bytes())
    }
}

impl DeviceMemory {
    /// Returns the number of bytes.
    pub fn bytes(&self) -> u64 {
        self.0.bytes() as u64
    }

    /// Returns words at a multiple of 8 bytes; `None` beyond the end.
    pub fn page(&self, platform: &Platform, offset: u64, words: usize) -> Option<Page> {
        page_of(platform, &self.0, offset, words)
    }

    /// Returns bytes at a multiple of 8 bytes; `None` beyond the end.
    pub fn bulk(&self, platform: &Platform, offset: u64, bytes: usize) -> Option<Bulk> {
        bulk_of(platform, &self.0, offset, bytes)
    }

    /// Stores to a register of 32 bits.
    ///
    /// # Panics
    /// The register is past the end, or its offset is not a multiple of 4.
    pub fn store_register(&self, offset: usize, value: u32) {
        self.0.store_register(offset, value);
    }
}
