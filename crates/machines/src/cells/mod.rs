//! The 64-bit cells of pages and bulk bytes: memory of this process, or of a file that other
//! processes map (`shared`); what windows show, by reference (`shown`) and at an address
//! (`placed`); parts of a guest's memory (`room`, `mapped`). Cells are zeroed. Those of
//! this process are committed when touched. Every store to cells of an explored machine goes
//! through [`Cells::put`] or [`BulkCells::put`], because its longer runs are zeroed for the next
//! machine where they were written ([`crate::explorer`]). A run of at least a cache line is
//! aligned, so a ring slot, doorbell or fence laid out for one line occupies exactly one.

#![allow(unsafe_code)]

mod bulk;
mod guarded;
mod lines;
mod mapped;
mod page;
mod placed;
mod room;
mod runs;
mod shared;
mod shown;

pub use bulk::BulkCells;
pub use guarded::{Guarded, Header, Held, HeldHere};
pub use lines::{LineWords, Lines};
pub use mapped::MappedCells;
pub use page::{KeptPage, OwnedPage, Owner, PageCells, PinnedCell, WordRef};
pub use placed::PlacedPage;
pub use room::{Place, Room};
pub use shared::SharedCells;
pub use shown::{Accesses, MOST_KEPT, Shown, replace, use_announced};

use crate::access::ClientAccess;
use crate::explorer::spare::{self, Written};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
pub struct Cells {
    /// `len` cells, which live as long as `memory`.
    at: NonNull<AtomicU64>,
    len: usize,
    memory: Memory,
}

/// The memory of a run of cells.
enum Memory {
    /// The allocation, with padding before the aligned cells. `access`: it is handed to processes
    /// that are agents of this machine, which may do so much with it.
    Private {
        all: NonNull<[AtomicU64]>,
        access: Option<ClientAccess>,
    },
    /// As `Private`, of an explored machine. The next machine of the thread takes the allocation.
    Kept {
        all: NonNull<[AtomicU64]>,
        access: Option<ClientAccess>,
        written: Written,
    },
    Shared(SharedCells),
    /// A part of a room, or of a device.
    Part {
        of: Arc<MappedCells>,
        first: usize,
    },
    /// The cells lie in the page that owns this.
    Beside,
}

impl Drop for Cells {
    fn drop(&mut self) {
        let all = match &self.memory {
            Memory::Private { all, .. } | Memory::Kept { all, .. } => *all,
            Memory::Shared(_) | Memory::Part { .. } | Memory::Beside => return,
        };
        // SAFETY: `private` leaked this box, and nothing else ends it. No reference to its cells
        // outlives `self`.
        let mut all = unsafe { Box::from_raw(all.as_ptr()) };
        if let Memory::Kept { written, .. } = &self.memory {
            let start = Cells::start(&all, self.len);
            written.zero(&mut all[start..start + self.len]);
            spare::keep(all);
        }
    }
}

// SAFETY: `at` is used only as references to atomics, and `memory` may be moved and shared between
// threads: neither a box nor a mapping belongs to a thread.
unsafe impl Send for Cells {}
// SAFETY: as for `Send`.
unsafe impl Sync for Cells {}

impl Cells {
    /// Returns zeroed cells of this process, of a machine that is `explored` or not. `access`: what
    /// processes may do with them that are agents of this machine.
    pub fn private(len: usize, explored: bool, access: Option<ClientAccess>) -> Cells {
        let spare = if len < LINE_CELLS { 0 } else { LINE_CELLS - 1 };
        let kept = if explored { spare::take(len + spare) } else { None };
        let all = kept.unwrap_or_else(|| zeroed(len + spare));
        let start = Cells::start(&all, len);
        let all = NonNull::from(Box::leak(all));
        // SAFETY: `start` is at most `spare`, so the place is inside of the allocation or at its
        // end.
        let at = unsafe { all.cast().add(start) };
        let memory = match explored {
            true => Memory::Kept { all, access, written: Written::none(len) },
            false => Memory::Private { all, access },
        };
        Cells { at, len, memory }
    }

    /// Returns the index of the first of `len` cells in their allocation.
    fn start(all: &[AtomicU64], len: usize) -> usize {
        let past = all.as_ptr().addr() % LINE_BYTES / size_of::<AtomicU64>();
        if len < LINE_CELLS { 0 } else { (LINE_CELLS - past) % LINE_CELLS }
    }

    /// Returns no cells.
    fn none() -> Cells {
        Cells { at: NonNull::dangling(), len: 0, memory: Memory::Beside }
    }

    /// Returns cells that lie in the owner of the result.
    ///
    /// # Safety
    ///
    /// The cells live as long as the result, and are not moved.
    unsafe fn beside(cells: &[AtomicU64]) -> Cells {
        Cells { at: NonNull::from(cells).cast(), len: cells.len(), memory: Memory::Beside }
    }

    /// The first `len` cells of a mapped file, which has room for them.
    pub fn of_file(shared: SharedCells, len: usize) -> Cells {
        assert!(len <= shared.len(), "{len} cells of a file of {}", shared.len());
        Cells { at: shared.at(), len, memory: Memory::Shared(shared) }
    }

    /// The `len` cells from number `first` on of a room or a device, which has them.
    pub fn of_part(memory: &Arc<MappedCells>, first: usize, len: usize) -> Cells {
        let end = first.checked_add(len);
        let fits = end.is_some_and(|end| end <= memory.len());
        assert!(fits, "{len} cells from {first} on of {}", memory.len());
        // SAFETY: the place is inside of the mapping or at its end.
        let at = unsafe { memory.at().add(first) };
        Cells { at, len, memory: Memory::Part { of: memory.clone(), first } }
    }

    /// Returns the file that other processes map; `None` for memory of this process.
    pub fn shared(&self) -> Option<&SharedCells> {
        match &self.memory {
            Memory::Shared(shared) => Some(shared),
            _ => None,
        }
    }

    /// Returns the mapping that these cells are a part of, and the offset there in bytes.
    fn of_device(&self) -> Option<(&MappedCells, u64)> {
        match &self.memory {
            Memory::Part { of, first } => Some((of, (first * size_of::<AtomicU64>()) as u64)),
            _ => None,
        }
    }

    /// Returns whether each change must be followed by [`SharedCells::refresh`].
    pub fn has_copies(&self) -> bool {
        self.shared().is_some_and(SharedCells::has_copies)
    }

    /// Returns what processes may do with the cells that are agents of this machine; `None` for
    /// cells that they are not handed, and for those of a file.
    pub fn client_access(&self) -> Option<ClientAccess> {
        match &self.memory {
            Memory::Private { access, .. } | Memory::Kept { access, .. } => *access,
            Memory::Shared(_) | Memory::Part { .. } | Memory::Beside => None,
        }
    }

    /// Returns the number of cells.
    #[inline]
    pub fn count(&self) -> usize {
        self.len
    }

    /// Returns the cell at `index`.
    ///
    /// # Panics
    ///
    /// `index` is past the end.
    #[inline]
    pub fn at(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.len, "cell {index} of {}", self.len);
        // SAFETY: `index` is below `len`, and there are as many cells at `at`: `zeroed` adds as
        // many spare cells as it skips, and `of_file` checks. They live as long as `memory`, and
        // none of the fields changes.
        unsafe { self.at.add(index).as_ref() }
    }

    /// Stores to a cell of an explored machine, whose agents run one at a time.
    ///
    /// # Panics
    ///
    /// `index` is past the end.
    #[inline]
    pub fn put(&self, index: usize, value: u64) {
        let cell = self.at(index);
        self.note_written(index..index + 1);
        cell.store(value, Ordering::Relaxed);
    }

    /// Notes that these cells, at least one, are about to be written, in an explored machine.
    #[inline]
    pub fn note_written(&self, cells: Range<usize>) {
        if let Memory::Kept { written, .. } = &self.memory {
            written.note(cells);
        }
    }

    /// Returns a range of cells, which the caller has checked.
    #[inline]
    pub fn range(&self, range: Range<usize>) -> &[AtomicU64] {
        &self.all()[range]
    }

    #[inline]
    fn all(&self) -> &[AtomicU64] {
        // SAFETY: as in `at`: there are `len` cells, which live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}
