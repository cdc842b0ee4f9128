//! Owns bulk bytes: allocations, ring packets, log entries. Reads and writes are bounds-checked
//! copies.
//!
//! Bytes live in 64-bit cells that are read and written with relaxed atomics, so that a race
//! between a client and an engine is a race of values and never undefined behaviour. A write that
//! covers part of a cell replaces only its bytes. Ordering comes from the protocol words around a
//! bulk access, not from the access.

use super::cells::Cells;
use crate::{Object, Platform, PlatformKind, world};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const CELL: usize = 8;

/// An access beyond the end of a run of bulk bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bytes {offset}..{} lie beyond the end ({size} bytes)", u128::from(*.offset) + u128::from(*.len))]
pub struct OutOfBounds {
    /// First byte asked for.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
    /// How many there are.
    pub size: u64,
}

/// A run of bytes shared between agents.
#[derive(Clone)]
pub struct Bulk {
    inner: Arc<BulkInner>,
}

pub(crate) struct BulkInner {
    pub(crate) id: u32,
    explored: bool,
    hostile: AtomicBool,
    bytes: usize,
    cells: Cells,
}

impl Bulk {
    pub(crate) fn new(platform: &Platform, bytes: usize) -> Bulk {
        let explored = platform.kind() == PlatformKind::Explored;
        let id = if explored { world::next_object_id() } else { 0 };
        let cells = Cells::zeroed(bytes.div_ceil(CELL));
        let hostile = AtomicBool::new(false);
        Bulk { inner: Arc::new(BulkInner { id, explored, hostile, bytes, cells }) }
    }

    /// Names the bytes in the log of steps ([`Platform::take_steps`]); does nothing while none is
    /// kept.
    pub fn named(self, name: &str) -> Bulk {
        if self.inner.explored {
            world::name(|log| log.name(Object::Bulk(self.inner.id), name));
        }
        self
    }

    /// A hostile process writes them, as [`super::Page::hand_to_hostile`] has it for words.
    pub fn hand_to_hostile(&self) {
        self.inner.hostile.store(true, Ordering::Relaxed);
    }

    /// How many bytes there are.
    #[inline]
    pub fn len(&self) -> u64 {
        self.inner.bytes as u64
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.inner.bytes == 0
    }

    #[inline]
    fn check(&self, offset: u64, len: usize) -> Result<usize, OutOfBounds> {
        let len = len as u64;
        match offset.checked_add(len) {
            Some(end) if end <= self.len() => Ok(offset as usize),
            _ => Err(OutOfBounds { offset, len, size: self.len() }),
        }
    }

    /// Copies bytes out.
    #[inline]
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), OutOfBounds> {
        let start = self.check(offset, out.len())?;
        if self.inner.explored {
            world::bulk_read(&self.inner, start, out);
        } else {
            self.inner.copy_out(start, out);
        }
        Ok(())
    }

    /// The same where a process writes that is not trusted.
    #[inline]
    pub(super) fn read_untrusted(&self, offset: u64, out: &mut [u8]) -> Result<(), OutOfBounds> {
        if self.inner.explored && self.inner.hostile.load(Ordering::Relaxed) {
            let start = self.check(offset, out.len())?;
            world::bulk_read_untrusted(&self.inner, start, out);
            return Ok(());
        }
        self.read(offset, out)
    }

    /// Copies bytes in.
    #[inline]
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), OutOfBounds> {
        let start = self.check(offset, data.len())?;
        if self.inner.explored {
            world::bulk_write(&self.inner, start, data);
        } else {
            self.inner.copy_in(start, data);
        }
        Ok(())
    }

    /// Reads one little-endian 64-bit value.
    #[inline]
    pub fn read_u64(&self, offset: u64) -> Result<u64, OutOfBounds> {
        let mut bytes = [0; 8];
        self.read(offset, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Writes one little-endian 64-bit value.
    pub fn write_u64(&self, offset: u64, value: u64) -> Result<(), OutOfBounds> {
        self.write(offset, &value.to_le_bytes())
    }
}

impl fmt::Debug for Bulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bulk({} bytes)", self.inner.bytes)
    }
}

impl BulkInner {
    /// Copies bytes out of memory proper. The range was checked.
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

    /// Copies bytes into memory proper. The range was checked.
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
