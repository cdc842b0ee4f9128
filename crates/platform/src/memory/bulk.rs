//! Owns bulk bytes: allocations, ring packets, log entries. Reads and writes are bounds-checked
//! copies.
//!
//! Ordering comes from the protocol words around a bulk access, not from the access.

use crate::cells::BulkCells;
use crate::{Object, Platform, PlatformKind, world};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An access past the end of a run of bulk bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bytes {offset}..{} lie beyond the end ({size} bytes)", u128::from(*.offset) + u128::from(*.len))]
pub struct OutOfBounds {
    /// The first byte of the access.
    pub offset: u64,
    /// The length of the access in bytes.
    pub len: u64,
    /// The size of the run in bytes.
    pub size: u64,
}

/// A run of bytes shared between agents.
#[derive(Clone)]
pub struct Bulk {
    inner: Arc<BulkCells>,
}

impl Bulk {
    pub(crate) fn new(platform: &Platform, bytes: usize) -> Bulk {
        let explored = platform.kind() == PlatformKind::Explored;
        let id = if explored { world::next_object_id() } else { 0 };
        Bulk { inner: Arc::new(BulkCells::zeroed(id, explored, bytes)) }
    }

    /// Names the bytes in the log of steps ([`Platform::take_steps`]). No effect without a log.
    pub fn named(self, name: &str) -> Bulk {
        if self.inner.explored {
            world::name(|log| log.name(Object::Bulk(self.inner.id), name));
        }
        self
    }

    /// Marks the bytes as written by a hostile process; see [`super::Page::hand_to_hostile`].
    pub fn hand_to_hostile(&self) {
        self.inner.hostile.store(true, Ordering::Relaxed);
    }

    /// Returns the size in bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        self.inner.bytes as u64
    }

    /// Returns whether the size is 0.
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

    /// Copies bytes out that an untrusted process may write.
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

    /// Replaces the little-endian number of 4 or 8 bytes at `offset` by `new` of it, as one atomic
    /// step with a full barrier. Returns the old number. `new` may be called several times.
    ///
    /// # Errors
    ///
    /// The range leaves the bytes.
    ///
    /// # Panics
    ///
    /// The number has another width, or `offset` is not a multiple of it.
    pub fn update(
        &self,
        offset: u64,
        bytes: usize,
        new: impl Fn(u64) -> u64,
    ) -> Result<u64, OutOfBounds> {
        assert!(matches!(bytes, 4 | 8) && offset.is_multiple_of(bytes as u64));
        let start = self.check(offset, bytes)?;
        if self.inner.explored {
            return Ok(world::bulk_update(&self.inner, start, bytes, new));
        }
        Ok(self.inner.update(start, bytes, new))
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
