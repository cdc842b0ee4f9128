//! Owns the cells of a run of bulk bytes.
//!
//! They are accessed with relaxed atomics, so a race between a client and an engine is a race of
//! values and never undefined behaviour. A write to a part of a cell replaces only its bytes.

use super::Cells;
use std::sync::atomic::{AtomicBool, Ordering};

const CELL: usize = 8;

pub(crate) struct BulkCells {
    pub(crate) id: u32,
    pub(crate) explored: bool,
    pub(crate) hostile: AtomicBool,
    pub(crate) bytes: usize,
    cells: Cells,
}

impl BulkCells {
    pub(crate) fn zeroed(id: u32, explored: bool, bytes: usize) -> BulkCells {
        let cells = Cells::zeroed(bytes.div_ceil(CELL));
        BulkCells { id, explored, hostile: AtomicBool::new(false), bytes, cells }
    }

    /// Copies bytes out of real memory. The caller has checked the range.
    #[inline]
    pub(crate) fn copy_out(&self, start: usize, out: &mut [u8]) {
        // Slots, commands and log entries.
        if let (true, (chunks, [])) = (start.is_multiple_of(CELL), out.as_chunks_mut::<CELL>()) {
            let (first, chunks_len) = (start / CELL, chunks.len());
            for (chunk, cell) in chunks.iter_mut().zip(self.cells.range(first..first + chunks_len))
            {
                *chunk = cell.load(Ordering::Relaxed).to_le_bytes();
            }
            return;
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
        let mut chunks = rest.chunks_exact_mut(CELL);
        let mut cells = self.cells.range(at / CELL..self.cells.len()).iter();
        for (chunk, cell) in chunks.by_ref().zip(cells.by_ref()) {
            chunk.copy_from_slice(&cell.load(Ordering::Relaxed).to_le_bytes());
        }
        let tail = chunks.into_remainder();
        if let (false, Some(cell)) = (tail.is_empty(), cells.next()) {
            tail.copy_from_slice(&cell.load(Ordering::Relaxed).to_le_bytes()[..tail.len()]);
        }
    }

    /// Copies bytes into real memory. The caller has checked the range.
    #[inline]
    pub(crate) fn copy_in(&self, start: usize, data: &[u8]) {
        if let (true, (chunks, [])) = (start.is_multiple_of(CELL), data.as_chunks::<CELL>()) {
            let first = start / CELL;
            for (chunk, cell) in chunks.iter().zip(self.cells.range(first..first + chunks.len())) {
                cell.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
            }
            return;
        }
        self.copy_in_any(start, data);
    }

    fn copy_in_any(&self, start: usize, data: &[u8]) {
        let (mut at, mut rest) = (start, data);
        if !at.is_multiple_of(CELL) {
            let skip = at % CELL;
            let (head, tail) = rest.split_at(rest.len().min(CELL - skip));
            self.replace_bytes(at / CELL, skip, head);
            (at, rest) = (at + head.len(), tail);
        }
        let chunks = rest.chunks_exact(CELL);
        let tail = chunks.remainder();
        let mut index = at / CELL;
        for (chunk, cell) in chunks.zip(self.cells.range(index..self.cells.len())) {
            let mut bytes = [0; CELL];
            bytes.copy_from_slice(chunk);
            cell.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
            index += 1;
        }
        if !tail.is_empty() {
            self.replace_bytes(index, 0, tail);
        }
    }

    /// Replaces the little-endian number of `bytes` at `start` by `new` of it, in one atomic step
    /// with acquire and release order. Returns the old number. The caller has checked the range, and
    /// that the number lies in one cell.
    pub(crate) fn update(&self, start: usize, bytes: usize, new: impl Fn(u64) -> u64) -> u64 {
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
