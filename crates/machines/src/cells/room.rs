//! One file of memory with the memory of many objects: the BAR of a guest, which maps all of it.
//!
//! Invariants: places do not overlap, and begin at a page. Which bytes are free is known here only,
//! and never read from the memory, to which the guest may store. A place that ends is the last to
//! be used again, so that a guest which reads an ended object finds other objects late.

use super::mapped::{MappedCells, new_file};
use crate::access::ClientAccess;
use rustix::fs::SealFlags;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

/// A file of memory with room for objects.
pub struct Room {
    memory: Arc<MappedCells>,
    file: OwnedFd,
    free: Mutex<Free>,
}

/// The free bytes.
struct Free {
    /// Bytes by their first one. Neighbours are joined.
    runs: BTreeMap<usize, usize>,
    /// Where the search for the next place begins.
    next: usize,
}

impl Free {
    fn take(&mut self, bytes: usize) -> Option<usize> {
        let fits = |(_, run): &(&usize, &usize)| **run >= bytes;
        let found = self.runs.range(self.next..).find(fits).or_else(|| self.runs.iter().find(fits));
        let (first, run) = found.map(|(first, run)| (*first, *run))?;
        self.runs.remove(&first);
        self.next = first + bytes;
        if run > bytes {
            self.runs.insert(self.next, run - bytes);
        }
        Some(first)
    }

    fn give(&mut self, first: usize, bytes: usize) {
        let (mut first, mut bytes) = (first, bytes);
        if let Some(after) = self.runs.remove(&(first + bytes)) {
            bytes += after;
        }
        let before = self.runs.range(..first).next_back().map(|(start, run)| (*start, *run));
        if let Some((start, run)) = before.filter(|(start, run)| start + run == first) {
            self.runs.remove(&start);
            (first, bytes) = (start, run + bytes);
        }
        self.runs.insert(first, bytes);
    }
}

impl Room {
    /// Makes a file of `bytes` zeroed bytes. Places begin after the first `reserved` bytes. Both
    /// are multiples of a page.
    ///
    /// # Errors
    /// The system has no memory, descriptor or mapping left.
    pub fn create(bytes: u64, reserved: usize) -> io::Result<Arc<Room>> {
        let file = new_file(bytes)?;
        let memory = Arc::new(MappedCells::of_file(&file, bytes, ClientAccess::ReadWrite)?);
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let runs = BTreeMap::from([(reserved, memory.bytes().saturating_sub(reserved))]);
        let free = Mutex::new(Free { runs, next: reserved });
        Ok(Arc::new(Room { memory, file, free }))
    }

    /// Returns the file, for the guest.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns all of the memory.
    pub fn memory(&self) -> &Arc<MappedCells> {
        &self.memory
    }

    /// Takes a place of `bytes` bytes, a multiple of a page.
    ///
    /// # Errors
    /// OutOfMemory if no free place is large enough.
    pub fn take(self: &Arc<Room>, bytes: usize) -> io::Result<Place> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let first = free.take(bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Place { room: self.clone(), first, bytes })
    }
}

/// Bytes of a room, which are free again when this is dropped.
pub struct Place {
    room: Arc<Room>,
    first: usize,
    bytes: usize,
}

impl Place {
    /// Returns the offset of the first byte.
    pub fn offset(&self) -> u64 {
        self.first as u64
    }

    /// Returns a cell of the place.
    ///
    /// # Panics
    /// `index` is past the end.
    pub(super) fn cell(&self, index: usize) -> &AtomicU64 {
        let bytes = size_of::<AtomicU64>();
        assert!(index < self.bytes / bytes, "cell {index} of a place");
        self.room.memory.cell(self.first / bytes + index)
    }

    pub(super) fn is_of(&self, room: &Arc<Room>) -> bool {
        Arc::ptr_eq(&self.room, room)
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.room.file()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut free = self.room.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.give(self.first, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free() -> Free {
        Free { runs: BTreeMap::from([(10, 90)]), next: 10 }
    }

    #[test]
    fn ended_places_are_joined_and_used_again_last() {
        let mut free = free();
        let [one, two, three] = [20, 30, 10].map(|bytes| free.take(bytes).unwrap());
        assert_eq!([one, two, three], [10, 30, 60]);
        free.give(one, 20);
        assert_eq!(free.take(20), Some(70), "after the last place");
        free.give(three, 10);
        free.give(two, 30);
        assert_eq!(free.runs, BTreeMap::from([(10, 60), (90, 10)]));
        assert_eq!((free.take(61), free.take(60), free.take(10)), (None, Some(10), Some(90)));
        assert_eq!(free.take(1), None);
        [(70, 20), (10, 60), (90, 10)]
            .into_iter()
            .for_each(|(first, bytes)| free.give(first, bytes));
        assert_eq!(free.runs, BTreeMap::from([(10, 90)]));
    }
}
