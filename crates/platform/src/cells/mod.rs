//! Owns the 64-bit cells of pages and bulk bytes: memory of this process, or of a file that other
//! processes map ([`shared`]); and the page that a window shows ([`shown`]). They are zeroed. Cells of this process are committed when touched.
//! A run of at least a cache line is aligned, so a ring slot, doorbell or fence laid out for one
//! line occupies exactly one.

#![allow(unsafe_code)]

mod bulk;
mod lines;
mod page;
mod runs;
mod shared;
mod shown;

pub(crate) use bulk::BulkCells;
pub use lines::{LineWords, Lines};
pub(crate) use page::{Annexes, PageCells, PinnedCell, WordRef};
pub(crate) use shared::SharedCells;
pub(crate) use shown::Shown;

use crate::access::ClientAccess;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

const LINE_BYTES: usize = 64;
const LINE_CELLS: usize = LINE_BYTES / size_of::<AtomicU64>();

/// Below this number of cells, zeros that are written cost less than zeroed memory of the
/// allocator. Above it, the allocator commits memory when it is touched.
const WRITTEN_ZEROS: usize = 64;

fn zeroed(len: usize) -> Box<[AtomicU64]> {
    if len <= WRITTEN_ZEROS {
        return (0..len).map(|_| AtomicU64::new(0)).collect();
    }
    let cells = Box::<[AtomicU64]>::new_zeroed_slice(len);
    // SAFETY: an AtomicU64 has the layout of a u64, for which all-zero bytes are the valid value 0.
    unsafe { cells.assume_init() }
}

/// A run of cells.
pub(crate) struct Cells {
    /// `len` cells, which live as long as `memory`.
    at: NonNull<AtomicU64>,
    len: usize,
    memory: Memory,
}

/// The memory of a run of cells.
enum Memory {
    /// The allocation, with padding before the aligned cells. `access`: it is handed to processes that
    /// are agents of this machine, which may do so much with it.
    Private {
        all: NonNull<[AtomicU64]>,
        access: Option<ClientAccess>,
    },
    Shared(SharedCells),
}

impl Drop for Cells {
    fn drop(&mut self) {
        if let Memory::Private { all, .. } = self.memory {
            // SAFETY: `zeroed` leaked this box, and nothing else ends it. No reference to its cells
            // outlives `self`.
            drop(unsafe { Box::from_raw(all.as_ptr()) });
        }
    }
}

// SAFETY: `at` is used as references to atomics alone, and `memory` may be moved and shared between
// threads: neither a box nor a mapping belongs to a thread.
unsafe impl Send for Cells {}
// SAFETY: as for `Send`.
unsafe impl Sync for Cells {}

impl Cells {
    pub(crate) fn zeroed(len: usize) -> Cells {
        Cells::private(len, None)
    }

    /// Cells of this process, with what processes may do with them that are agents of this machine.
    pub(crate) fn private(len: usize, access: Option<ClientAccess>) -> Cells {
        let spare = if len < LINE_CELLS { 0 } else { LINE_CELLS - 1 };
        let all = zeroed(len + spare);
        let past = all.as_ptr().addr() % LINE_BYTES / size_of::<AtomicU64>();
        let start = if spare == 0 { 0 } else { (LINE_CELLS - past) % LINE_CELLS };
        let all = NonNull::from(Box::leak(all));
        // SAFETY: `start` is at most `spare`, so the place is inside of the allocation or at its end.
        let at = unsafe { all.cast().add(start) };
        Cells { at, len, memory: Memory::Private { all, access } }
    }

    /// The first `len` cells of a mapped file, which has room for them.
    pub(crate) fn of_file(shared: SharedCells, len: usize) -> Cells {
        assert!(len <= shared.len(), "{len} cells of a file of {}", shared.len());
        Cells { at: shared.at(), len, memory: Memory::Shared(shared) }
    }

    /// Returns the file that other processes map; `None` for memory of this process.
    pub(crate) fn shared(&self) -> Option<&SharedCells> {
        match &self.memory {
            Memory::Private { .. } => None,
            Memory::Shared(shared) => Some(shared),
        }
    }

    /// Returns what processes may do with the cells that are agents of this machine; `None` for cells
    /// that they are not handed, and for those of a file.
    pub(crate) fn client_access(&self) -> Option<ClientAccess> {
        match &self.memory {
            Memory::Private { access, .. } => *access,
            Memory::Shared(_) => None,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the cell at `index`.
    ///
    /// # Panics
    ///
    /// `index` is past the end.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.len, "cell {index} of {}", self.len);
        // SAFETY: `index` is below `len`, and there are as many cells at `at`: `zeroed` adds as many
        // spare cells as it skips, and `of_file` checks. They live as long as `memory`, and none of
        // the fields changes.
        unsafe { self.at.add(index).as_ref() }
    }

    /// Returns a range of cells, which the caller has checked.
    #[inline]
    pub(crate) fn range(&self, range: Range<usize>) -> &[AtomicU64] {
        &self.all()[range]
    }

    #[inline]
    fn all(&self) -> &[AtomicU64] {
        // SAFETY: as in `at`: there are `len` cells, which live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}
