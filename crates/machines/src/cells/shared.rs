//! Cells in a file of memory (memfd) that other processes map, or in a mapping of this process that
//! can be shown at a second address (`placed`).
//!
//! Invariants: the file is sealed before another process can have it, so that it neither shrinks
//! nor grows: no access to the mapping faults, whatever the others do. All its memory is reserved
//! when it is made. A file that others may only read is sealed against writing, too, after this
//! process has mapped it: the system then refuses every later mapping and every call that would
//! write.
//!
//! A guest maps a `room` and no file. Memory to which it may store moves there. Memory that it may
//! only read stays, and has a copy there that follows each change and is never read.

use super::mapped::{MappedCells, free_memory, new_file};
use super::room::{Place, Room};
use crate::access::ClientAccess;
use rustix::fs::SealFlags;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A whole file of cells, mapped.
pub struct SharedCells {
    memory: MappedCells,
    access: ClientAccess,
    /// Kept by the process that made it, to hand it on.
    file: Option<OwnedFd>,
    handed: Mutex<Handed>,
    /// Copies in rooms; `None` for cells that have none.
    copies: Option<RwLock<Vec<Arc<Place>>>>,
}

/// Which processes may have mapped the memory beside its maker.
enum Handed {
    ToNone,
    /// Its file was read, and may have been handed on.
    AsFile,
    /// It lies in a room.
    InRoom(Place),
}

impl SharedCells {
    fn of(memory: MappedCells, access: ClientAccess, file: Option<OwnedFd>) -> SharedCells {
        SharedCells { memory, access, file, handed: Mutex::new(Handed::ToNone), copies: None }
    }

    /// Makes a file of at least `bytes` zeroed bytes that other processes may map as `access` says,
    /// and maps it for reading and writing. `for_guests`: what may only be read can have copies in
    /// rooms.
    ///
    /// # Errors
    /// The system has no memory, descriptor or mapping left.
    pub fn create(bytes: u64, access: ClientAccess, for_guests: bool) -> io::Result<SharedCells> {
        let bytes = bytes.max(1).next_multiple_of(rustix::param::page_size() as u64);
        let file = new_file(bytes)?;
        let memory = MappedCells::of_file(&file, bytes, ClientAccess::ReadWrite)?;
        let write = match access {
            ClientAccess::ReadOnly => SealFlags::FUTURE_WRITE,
            ClientAccess::ReadWrite => SealFlags::empty(),
        };
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL | write;
        rustix::fs::fcntl_add_seals(&file, seals)?;
        let mut made = SharedCells::of(memory, access, Some(file));
        made.copies = (for_guests && access == ClientAccess::ReadOnly).then(RwLock::default);
        Ok(made)
    }

    /// Maps at least `bytes` zeroed bytes of memory that has no file.
    ///
    /// # Errors
    /// The system has no memory or mapping left.
    pub fn anonymous(bytes: u64, access: ClientAccess) -> io::Result<SharedCells> {
        let bytes = bytes.max(1).next_multiple_of(rustix::param::page_size() as u64);
        Ok(SharedCells::of(MappedCells::anonymous(bytes)?, access, None))
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
        Ok(SharedCells::of(MappedCells::of_file(&file, size, access)?, access, None))
    }

    pub(crate) fn at(&self) -> NonNull<AtomicU64> {
        self.memory.at()
    }

    /// Returns the number of cells.
    pub(crate) fn len(&self) -> usize {
        self.memory.len()
    }

    /// Returns what other processes may do with the file.
    pub fn access(&self) -> ClientAccess {
        self.access
    }

    fn handed(&self) -> std::sync::MutexGuard<'_, Handed> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether another process can have the memory as a file or in a room.
    pub fn can_be_handed(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the file, to hand it on; `None` if another process made it and its descriptor is
    /// closed, and for memory that lies in a room.
    pub fn file(&self) -> Option<&OwnedFd> {
        let mut handed = self.handed();
        if let Handed::InRoom(_) = *handed {
            return None;
        }
        *handed = Handed::AsFile;
        self.file.as_ref()
    }

    /// Moves memory that no other process has mapped into a room. Its addresses stay. Changes
    /// during the call may be lost, so no other thread makes any. Returns its offset there, also
    /// if it lies there already.
    ///
    /// # Errors
    /// InvalidInput for memory that was handed on as a file, lies in another room, or may only be
    /// read; OutOfMemory if the room has no place.
    pub fn move_into(&self, room: &Arc<Room>) -> io::Result<u64> {
        let mut handed = self.handed();
        if let Handed::InRoom(place) = &*handed
            && place.is_of(room)
        {
            return Ok(place.offset());
        }
        let refused = || io::Error::from(io::ErrorKind::InvalidInput);
        let movable = self.access == ClientAccess::ReadWrite;
        if !movable || !matches!(*handed, Handed::ToNone) {
            return Err(refused());
        }
        let file = self.file.as_ref().ok_or_else(refused)?;
        let place = room.take(self.memory.bytes())?;
        for index in 0..self.len() {
            let value = self.memory.cell(index).load(Ordering::Relaxed);
            place.cell(index).store(value, Ordering::Relaxed);
        }
        if let Err(error) = self.memory.show(place.file(), place.offset()) {
            // The system may have ended the old mapping.
            let _same = self.memory.show(file, 0);
            return Err(error);
        }
        free_memory(file, self.memory.bytes() as u64);
        let offset = place.offset();
        *handed = Handed::InRoom(place);
        Ok(offset)
    }

    /// Returns whether the cells can have copies, so that each change must be followed by
    /// [`SharedCells::refresh`].
    pub fn has_copies(&self) -> bool {
        self.copies.is_some()
    }

    /// Puts a copy into a room, which follows the changes from now on.
    ///
    /// # Errors
    /// The cells can have no copy; the room has no place.
    pub fn copy_into(&self, room: &Arc<Room>) -> io::Result<Arc<Place>> {
        let copies = self.copies.as_ref().ok_or(io::ErrorKind::InvalidInput)?;
        let place = Arc::new(room.take(self.memory.bytes())?);
        copies.write().unwrap_or_else(PoisonError::into_inner).push(place.clone());
        // A change from before the copy was listed is found here. A later one finds the copy.
        (0..self.len()).for_each(|index| self.refresh_copy(&place, index));
        Ok(place)
    }

    /// Ends a copy.
    pub fn end_copy(&self, copy: &Arc<Place>) {
        if let Some(copies) = &self.copies {
            let mut copies = copies.write().unwrap_or_else(PoisonError::into_inner);
            copies.retain(|other| !Arc::ptr_eq(other, copy));
        }
    }

    /// Brings the copies of a cell to its value.
    pub fn refresh(&self, index: usize) {
        if let Some(copies) = &self.copies {
            let copies = copies.read().unwrap_or_else(PoisonError::into_inner);
            copies.iter().for_each(|copy| self.refresh_copy(copy, index));
        }
    }

    /// Of two threads that change a cell at the same time, the one that stores to the copy last
    /// finds the last value of the cell when it loads it again.
    fn refresh_copy(&self, copy: &Place, index: usize) {
        let cell = self.memory.cell(index);
        let mut value = cell.load(Ordering::SeqCst);
        loop {
            copy.cell(index).store(value, Ordering::SeqCst);
            let now = cell.load(Ordering::SeqCst);
            if now == value {
                return;
            }
            value = now;
        }
    }
}
