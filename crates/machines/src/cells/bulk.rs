//! The cells of a run of bulk bytes.
//!
//! They are accessed with relaxed atomics, so a race between a client and an engine is a race of
//! values and never undefined behaviour. A write to a part of a cell replaces only its bytes. Runs
//! of whole cells are copied by [`super::runs`], which is as fast as memcpy (decision 98).

use super::{Cells, Lines, runs};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const CELL: usize = 8;

/// The cells of a run of bulk bytes.
pub struct BulkCells {
    /// Number in the explored world; 0 elsewhere.
    pub id: u32,
    /// Whether the bytes belong to an explored machine.
    pub explored: bool,
    /// Whether an explorer may return any bytes to an untrusted read.
    pub hostile: AtomicBool,
    /// The number of bytes.
    pub bytes: usize,
    cells: Cells,
}

impl BulkCells {
    /// `cells` has room for the bytes.
    pub fn new(id: u32, explored: bool, cells: Cells, bytes: usize) -> BulkCells {
        assert!(bytes <= cells.count() * CELL, "{bytes} bytes in {} cells", cells.count());
        BulkCells { id, explored, hostile: AtomicBool::new(false), bytes, cells }
    }

    /// Returns the address of the first byte, if there is one.
    pub fn cpu_address(&self) -> Option<u64> {
        let first = (self.bytes > 0).then(|| self.cells.at(0))?;
        Some(std::ptr::from_ref(first).expose_provenance() as u64)
    }

    /// Returns the cells.
    pub fn cells(&self) -> &Cells {
        &self.cells
    }

    /// Copies bytes out of real memory. The caller has checked the range.
    #[inline]
    pub fn copy_out(&self, start: usize, out: &mut [u8]) {
        // Slots, commands, log entries, and most accesses of programs.
        if let (true, (chunks, [])) = (start.is_multiple_of(CELL), out.as_chunks_mut::<CELL>()) {
            return runs::load(self.whole(start / CELL, chunks.len()), chunks);
        }
        self.copy_out_any(start, out);
    }

    fn copy_out_any(&self, start: usize, out: &mut [u8]) {
        let (mut at, mut rest) = (start, out);
        if !at.is_multiple_of(CELL) {
            let skip = at % CELL;
            let take = rest.len().min(CELL - skip);
            let bytes = self.cells.at(at / CELL).load(Ordering::Relaxed).to_le_bytes();
            let (head, tail) = rest.split_at_mut(take);
            head.copy_from_slice(&bytes[skip..skip + take]);
            (at, rest) = (at + take, tail);
        }
        let (chunks, tail) = rest.as_chunks_mut::<CELL>();
        let first = at / CELL;
        runs::load(self.whole(first, chunks.len()), chunks);
        if !tail.is_empty() {
            let cell = self.cells.at(first + chunks.len());
            tail.copy_from_slice(&cell.load(Ordering::Relaxed).to_le_bytes()[..tail.len()]);
        }
    }

    /// Copies bytes into real memory. The caller has checked the range.
    #[inline]
    pub fn copy_in(&self, start: usize, data: &[u8]) {
        if let (true, (chunks, [])) = (start.is_multiple_of(CELL), data.as_chunks::<CELL>()) {
            return runs::store(self.whole(start / CELL, chunks.len()), chunks);
        }
        self.copy_in_any(start, data);
    }

    /// Stores words to whole cells, in ascending order. The caller has checked the range.
    #[inline(always)]
    pub fn store_words(&self, start: usize, words: &[u64]) {
        let cells = self.whole(start / CELL, words.len());
        for (cell, word) in cells.iter().zip(words) {
            cell.store(word.to_le(), Ordering::Relaxed);
        }
    }

    /// Copies bytes in as [`BulkCells::copy_in`] does, on an explored platform.
    #[inline]
    pub fn put(&self, start: usize, data: &[u8]) {
        if !data.is_empty() {
            self.cells.note_written(start / CELL..(start + data.len()).div_ceil(CELL));
        }
        self.copy_in(start, data);
    }

    fn copy_in_any(&self, start: usize, data: &[u8]) {
        let (mut at, mut rest) = (start, data);
        if !at.is_multiple_of(CELL) {
            let skip = at % CELL;
            let (head, tail) = rest.split_at(rest.len().min(CELL - skip));
            self.replace_bytes(at / CELL, skip, head);
            (at, rest) = (at + head.len(), tail);
        }
        let (chunks, tail) = rest.as_chunks::<CELL>();
        let first = at / CELL;
        runs::store(self.whole(first, chunks.len()), chunks);
        if !tail.is_empty() {
            self.replace_bytes(first + chunks.len(), 0, tail);
        }
    }

    /// Copies `bytes` from `start` to `to_start` of `to`, if both ranges are whole cells and do not
    /// overlap. Returns whether it did. The caller has checked the ranges.
    #[inline]
    pub fn copy_whole(&self, start: usize, to: &BulkCells, to_start: usize, bytes: usize) -> bool {
        let overlap = std::ptr::eq(self, to) && start.abs_diff(to_start) < bytes;
        if overlap || [start, to_start, bytes].iter().any(|at| !at.is_multiple_of(CELL)) {
            return false;
        }
        let cells = bytes / CELL;
        runs::copy(self.whole(start / CELL, cells), to.whole(to_start / CELL, cells));
        true
    }

    /// Returns the lines from `start`; `None` if the range is not whole cells and whole lines. The
    /// caller has checked the range.
    #[inline]
    pub fn lines(&self, start: usize, bytes: usize) -> Option<Lines<'_>> {
        if !start.is_multiple_of(CELL) || !bytes.is_multiple_of(CELL) {
            return None;
        }
        Lines::of(self.whole(start / CELL, bytes / CELL))
    }

    #[inline]
    fn whole(&self, first: usize, cells: usize) -> &[AtomicU64] {
        self.cells.range(first..first + cells)
    }

    /// Replaces the little-endian number of `bytes` at `start` by `new` of it, in one atomic step
    /// with acquire and release order. Returns the old number. The caller has checked the range,
    /// and that the number lies in one cell.
    pub fn update(&self, start: usize, bytes: usize, new: impl Fn(u64) -> u64) -> u64 {
        let (cell, shift) = (self.cells.at(start / CELL), 8 * (start % CELL));
        let mask = if bytes == CELL { u64::MAX } else { (1 << (8 * bytes)) - 1 };
        let mut old = cell.load(Ordering::Relaxed);
        loop {
            let number = old >> shift & mask;
            let next = old & !(mask << shift) | (new(number) & mask) << shift;
            match cell.compare_exchange_weak(old, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return number,
                Err(now) => old = now,
            }
        }
    }

    fn replace_bytes(&self, index: usize, skip: usize, data: &[u8]) {
        let cell = self.cells.at(index);
        let mut old = cell.load(Ordering::Relaxed);
        loop {
            let mut bytes = old.to_le_bytes();
            bytes[skip..skip + data.len()].copy_from_slice(data);
            let new = u64::from_le_bytes(bytes);
            match cell.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => old = now,
            }
        }
    }
}
