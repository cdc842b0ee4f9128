//! A page of addresses that stay, and show one page at a time, of memory or of a device: the
//! doorbell of a program that only stores.
//!
//! Invariants: the addresses are mapped, for loads and stores, as long as the value lives. The
//! system replaces what they show in one step, so a store reaches the old memory or the new one.

use super::{Cells, MappedCells, SharedCells};
use rustix::mm::{MapFlags, MremapFlags, ProtFlags};
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// A page of addresses.
pub struct PlacedPage {
    at: NonNull<AtomicU64>,
    bytes: usize,
}

// SAFETY: the memory is used only through atomics, and belongs to no thread.
unsafe impl Send for PlacedPage {}
// SAFETY: as for `Send`.
unsafe impl Sync for PlacedPage {}

impl PlacedPage {
    /// Reserves a page of addresses, which shows memory of its own.
    ///
    /// # Errors
    /// The system has no memory or mapping left.
    pub fn reserve() -> io::Result<PlacedPage> {
        let bytes = rustix::param::page_size();
        // SAFETY: no address is given, so the mapping replaces none.
        let at = unsafe { map_zeroed(std::ptr::null_mut(), bytes, MapFlags::PRIVATE)? };
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(PlacedPage { at, bytes })
    }

    /// Returns the first address.
    pub fn address(&self) -> u64 {
        self.at.as_ptr().addr() as u64
    }

    fn start(&self) -> *mut c_void {
        self.at.as_ptr().cast()
    }

    /// Shows the first page of `memory`, from now on and whatever becomes of `memory`.
    ///
    /// # Errors
    /// The system has no mapping left. The page shows zeroed memory then.
    pub fn show(&self, memory: &SharedCells) -> io::Result<()> {
        let from: *mut c_void = memory.at().as_ptr().cast();
        let flags = MremapFlags::MAYMOVE;
        // SAFETY: `memory` is a mapping that can be shared, of at least a page. An old size of 0
        // leaves it as it is and maps its memory once more. The new address is this page's, which
        // is used only through atomics.
        let shown = unsafe { rustix::mm::mremap_fixed(from, 0, self.bytes, flags, self.start()) };
        shown.map(drop).map_err(|error| {
            self.hide();
            error.into()
        })
    }

    /// Shows the first page of `cells`, which are memory that can be shared or a device's. The page
    /// shows it also after `cells` is dropped.
    ///
    /// # Errors
    /// Unsupported for other memory, or cells of a device that begin at no page. The system has no
    /// mapping left. The page shows zeroed memory then.
    pub fn show_cells(&self, cells: &Cells) -> io::Result<()> {
        if let Some(memory) = cells.shared() {
            return self.show(memory);
        }
        let shown = match cells.of_device() {
            // A device's mapping cannot be duplicated as that of memory can.
            Some((device, offset)) => self.show_device(device, offset),
            None => Err(io::ErrorKind::Unsupported.into()),
        };
        shown.inspect_err(|_| self.hide())
    }

    fn show_device(&self, device: &MappedCells, offset: u64) -> io::Result<()> {
        let fits = offset.saturating_add(self.bytes as u64) <= device.bytes() as u64;
        let (true, true, Some(file)) =
            (offset.is_multiple_of(self.bytes as u64), fits, device.file())
        else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: the new mapping replaces the old one, which is used only through atomics.
        // The device has the bytes.
        unsafe { rustix::mm::mmap(self.start(), self.bytes, access, flags, file, offset)? };
        Ok(())
    }

    /// Shows zeroed memory of its own.
    pub fn hide(&self) {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: the new mapping replaces the old one, which is used only through atomics.
        // A system without a mapping left keeps the old one: a late store there reaches a page
        // that no engine reads.
        let _ = unsafe { map_zeroed(self.start(), self.bytes, flags) };
    }

    /// Loads a word of what is shown.
    ///
    /// # Panics
    ///
    /// `index` is past the page's end.
    pub fn load(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Acquire)
    }

    /// Stores to a word of what is shown, as a program does.
    ///
    /// # Panics
    ///
    /// `index` is past the page's end.
    pub fn store(&self, index: usize, value: u64) {
        self.word(index).store(value, Ordering::Release);
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.bytes / size_of::<AtomicU64>(), "word {index} of a page");
        // SAFETY: the page is mapped as long as `self` lives, and the index is inside of it.
        unsafe { self.at.add(index).as_ref() }
    }
}

/// # Safety
///
/// With `MapFlags::FIXED`, nothing depends on what is mapped at `at`.
unsafe fn map_zeroed(at: *mut c_void, bytes: usize, flags: MapFlags) -> io::Result<*mut c_void> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: as the caller says.
    Ok(unsafe { rustix::mm::mmap_anonymous(at, bytes, access, flags)? })
}

impl Drop for PlacedPage {
    fn drop(&mut self) {
        // SAFETY: `reserve` made the mapping, or a later one took its place, and no reference to
        // its words outlives `self`. An error leaves the mapping behind, which does no harm.
        let _ = unsafe { rustix::mm::munmap(self.start(), self.bytes) };
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::ClientAccess;
    use std::sync::Arc;

    #[test]
    fn the_addresses_stay_and_show_one_page_after_another() {
        let placed = PlacedPage::reserve().unwrap();
        let address = placed.address();
        placed.store(0, 9);
        let file = SharedCells::create(64, ClientAccess::ReadWrite, false).unwrap();
        let mapping = SharedCells::anonymous(64, ClientAccess::ReadWrite).unwrap();
        // SAFETY: the mapping lives until the end of the test.
        let word = |cells: &SharedCells| unsafe { cells.at().as_ref().load(Ordering::Acquire) };
        for (number, memory) in [&file, &mapping, &file].into_iter().enumerate() {
            let before = word(memory);
            placed.show(memory).unwrap();
            assert_eq!(placed.load(0), before, "what the memory held");
            placed.store(0, number as u64 + 5);
            assert_eq!(word(memory), number as u64 + 5);
        }
        placed.hide();
        assert_eq!((placed.load(0), placed.address()), (0, address));
        placed.store(0, 1);
        assert_eq!((word(&file), word(&mapping)), (7, 6), "a store after that reaches none");
    }

    #[test]
    fn it_shows_pages_of_a_device_and_no_others() {
        let page = rustix::param::page_size();
        let file = SharedCells::create(2 * page as u64, ClientAccess::ReadWrite, false).unwrap();
        let file = file.file().unwrap().try_clone().unwrap();
        let device = Arc::new(MappedCells::device(&file).unwrap());
        let placed = PlacedPage::reserve().unwrap();
        let second = Cells::of_part(&device, page / 8, 8);
        second.at(0).store(4, Ordering::Release);
        placed.show_cells(&second).unwrap();
        assert_eq!(placed.load(0), 4);
        placed.store(0, 5);
        assert_eq!(second.at(0).load(Ordering::Acquire), 5);
        // Inside of a page; past the last page; memory of this process.
        let others = [
            Cells::of_part(&device, 8, 8),
            Cells::of_part(&device, 2 * page / 8, 0),
            Cells::private(8, false, None),
        ];
        for cells in &others {
            placed.show_cells(&second).unwrap();
            placed.show_cells(cells).unwrap_err();
            assert_eq!(placed.load(0), 0, "the page shows no memory of others");
        }
    }

    #[test]
    fn it_shows_memory_whose_own_mapping_has_ended() {
        let placed = PlacedPage::reserve().unwrap();
        placed.show(&SharedCells::anonymous(64, ClientAccess::ReadWrite).unwrap()).unwrap();
        placed.store(3, 4);
        assert_eq!(placed.load(3), 4);
    }

    #[test]
    fn a_store_beside_a_rotation_reaches_the_old_memory_or_the_new() {
        let placed = PlacedPage::reserve().unwrap();
        let memory = SharedCells::anonymous(64, ClientAccess::ReadWrite).unwrap();
        std::thread::scope(|threads| {
            let stores = threads.spawn(|| (1..100_000).for_each(|value| placed.store(0, value)));
            while !stores.is_finished() {
                placed.show(&memory).unwrap();
                placed.hide();
            }
        });
    }
}
