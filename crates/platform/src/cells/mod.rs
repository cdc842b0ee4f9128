//! Owns the 64-bit cells of pages and bulk bytes. They are zeroed, and committed when touched. A
//! run of at least a cache line is aligned, so a ring slot, doorbell or fence laid out for one line
//! occupies exactly one.

#![allow(unsafe_code)]

mod bulk;
mod lines;
mod page;
mod runs;

pub(crate) use bulk::BulkCells;
pub use lines::{LineWords, Lines};
pub(crate) use page::{Annexes, PageCells, PinnedCell, WordRef};

use std::ops::Range;
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
    /// The allocation, with padding before the aligned cells.
    all: Box<[AtomicU64]>,
    start: usize,
    len: usize,
}

impl Cells {
    pub(crate) fn zeroed(len: usize) -> Cells {
        let spare = if len < LINE_CELLS { 0 } else { LINE_CELLS - 1 };
        let all = zeroed(len + spare);
        let past = all.as_ptr().addr() % LINE_BYTES / size_of::<AtomicU64>();
        let start = if spare == 0 { 0 } else { (LINE_CELLS - past) % LINE_CELLS };
        Cells { all, start, len }
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
        // SAFETY: `index` is below `len`, and `all` has `start + len` cells or more: `zeroed` adds
        // as many spare cells as `start` can be. None of the fields changes after that.
        unsafe { self.all.get_unchecked(self.start + index) }
    }

    /// Returns a range of cells, which the caller has checked.
    #[inline]
    pub(crate) fn range(&self, range: Range<usize>) -> &[AtomicU64] {
        debug_assert!(range.end <= self.len);
        &self.all[self.start + range.start..self.start + range.end]
    }
}
