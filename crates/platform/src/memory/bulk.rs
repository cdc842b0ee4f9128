//! Bulk bytes: allocations, ring packets, log entries. Reads and writes are bounds-checked copies.
//!
//! Ordering comes from the protocol words around a bulk access, not from the access.

use crate::platform::{Platform, PlatformKind};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tidegate_machines::cells::{BulkCells, Cells, Lines};
use tidegate_machines::{Object, world};

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

/// The longest piece of [`Bulk::copy_to`].
pub const COPY_PIECE_BYTES: usize = 4096;

/// A run of bytes shared between agents.
#[derive(Clone)]
pub struct Bulk {
    pub(super) inner: Arc<BulkCells>,
}

impl Platform {
    /// Creates a zeroed run of bulk bytes.
    pub fn bulk(&self, bytes: usize) -> Bulk {
        let explored = self.kind() == PlatformKind::Explored;
        Bulk::of(self, Cells::private(bytes.div_ceil(8), explored, None), bytes)
    }
}

impl Bulk {
    pub(super) fn of(platform: &Platform, cells: Cells, bytes: usize) -> Bulk {
        let (id, explored) = (platform.new_object_id(), platform.kind() == PlatformKind::Explored);
        Bulk { inner: Arc::new(BulkCells::new(id, explored, cells, bytes)) }
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

    /// Returns the address at which the CPU reaches the first byte while the bytes live, for
    /// programs in other languages; `None` for no bytes. Meaningless on an explored platform.
    pub fn cpu_address(&self) -> Option<u64> {
        self.inner.cpu_address()
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
            self.read_explored(start, out);
        } else {
            self.inner.copy_out(start, out);
        }
        Ok(())
    }

    /// Marked cold, as in `Word`.
    #[cold]
    fn read_explored(&self, start: usize, out: &mut [u8]) {
        world::bulk_read(&self.inner, start, out);
    }

    #[cold]
    fn write_explored(&self, start: usize, data: &[u8]) {
        world::bulk_write(&self.inner, start, data);
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
            self.write_explored(start, data);
        } else {
            self.inner.copy_in(start, data);
        }
        Ok(())
    }

    /// Copies little-endian words in. Words that were just computed go to memory one by one, while
    /// a copy of bytes would have to wait until all are in one place.
    ///
    /// # Errors
    ///
    /// The range lies beyond the end.
    #[inline(always)]
    pub fn write_words<const N: usize>(
        &self,
        offset: u64,
        words: [u64; N],
    ) -> Result<(), OutOfBounds> {
        let start = self.check(offset, 8 * N)?;
        if self.inner.explored || !start.is_multiple_of(8) {
            self.write_words_as_bytes(start, &words);
        } else {
            self.inner.store_words(start, &words);
        }
        Ok(())
    }

    /// Apart from [`Bulk::write_words`], which becomes part of its caller. The caller has checked
    /// the range.
    #[cold]
    #[inline(never)]
    fn write_words_as_bytes<const N: usize>(&self, start: usize, words: &[u64; N]) {
        let bytes = words.map(u64::to_le_bytes);
        if self.inner.explored {
            self.write_explored(start, bytes.as_flattened());
        } else {
            self.inner.copy_in(start, bytes.as_flattened());
        }
    }

    /// Copies `bytes` from `offset` to `to_offset` of `to`, in ascending pieces of at most
    /// [`COPY_PIECE_BYTES`]. Each piece is read completely before it is written. An untrusted
    /// process may write the source.
    ///
    /// # Errors
    ///
    /// A range leaves its bytes. Then nothing is written.
    pub fn copy_to(
        &self,
        offset: u64,
        to: &Bulk,
        to_offset: u64,
        bytes: usize,
    ) -> Result<(), OutOfBounds> {
        let (start, to_start) = (self.check(offset, bytes)?, to.check(to_offset, bytes)?);
        let explored = self.inner.explored || to.inner.explored;
        if !explored && self.inner.copy_whole(start, &to.inner, to_start, bytes) {
            return Ok(());
        }
        let mut piece = [0; COPY_PIECE_BYTES];
        let mut done = 0;
        while done < bytes {
            let piece = &mut piece[..(bytes - done).min(COPY_PIECE_BYTES)];
            self.read_untrusted(offset + done as u64, piece)?;
            to.write(to_offset + done as u64, piece)?;
            done += piece.len();
        }
        Ok(())
    }

    /// Returns the lines of a range, on which a program computes in place. `None` if the range
    /// leaves the bytes, begins between two cells or has a part of a line, and on the explored
    /// platform, which has steps of bytes.
    #[inline]
    pub fn lines(&self, offset: u64, bytes: usize) -> Option<Lines<'_>> {
        let start = self.check(offset, bytes).ok()?;
        if self.inner.explored { None } else { self.inner.lines(start, bytes) }
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
        assert!(matches!(bytes, 4 | 8), "a number of {bytes} bytes");
        assert!(offset.is_multiple_of(bytes as u64), "a number of {bytes} bytes at {offset}");
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

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 3 * COPY_PIECE_BYTES;

    fn numbered(platform: &Platform) -> Bulk {
        let bulk = platform.bulk(BYTES);
        let bytes: Vec<u8> = (0..BYTES).map(|n| (n % 251) as u8).collect();
        bulk.write(0, &bytes).unwrap();
        bulk
    }

    fn bytes_of(bulk: &Bulk) -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        bulk.read(0, &mut bytes).unwrap();
        bytes
    }

    #[test]
    #[should_panic(expected = "a number of 2 bytes")]
    fn a_number_of_another_width_is_not_updated() {
        let _ = Platform::closed_host().bulk(BYTES).update(8, 2, |old| old + 1);
    }

    #[test]
    #[should_panic(expected = "a number of 8 bytes at 12")]
    fn a_number_across_two_cells_is_not_updated() {
        let _ = Platform::closed_host().bulk(BYTES).update(12, 8, |old| old + 1);
    }

    #[test]
    fn a_copy_between_runs_is_that_of_slices_at_every_alignment() {
        let platform = Platform::closed_host();
        let from = numbered(&platform);
        for start in [0, 1, 8, 17, 4_090] {
            for to_start in [0, 3, 8, 4_095] {
                for bytes in [0, 1, 7, 8, 64, 4_097, 8_000] {
                    let to = platform.bulk(BYTES);
                    from.copy_to(start, &to, to_start, bytes).unwrap();
                    let mut expected = vec![0; BYTES];
                    let (start, to_start) = (start as usize, to_start as usize);
                    expected[to_start..to_start + bytes]
                        .copy_from_slice(&bytes_of(&from)[start..start + bytes]);
                    assert!(bytes_of(&to) == expected, "{start} {to_start} {bytes}");
                }
            }
        }
    }

    #[test]
    fn a_piece_that_overlaps_its_destination_is_read_before_it_is_written() {
        let platform = Platform::closed_host();
        for (start, to_start) in [(0, 8), (8, 0), (0, 64), (16, 16)] {
            let bulk = numbered(&platform);
            let mut expected = bytes_of(&bulk);
            expected.copy_within(start..start + COPY_PIECE_BYTES, to_start);
            bulk.copy_to(start as u64, &bulk, to_start as u64, COPY_PIECE_BYTES).unwrap();
            assert!(bytes_of(&bulk) == expected, "{start} {to_start}");
        }
    }

    #[test]
    fn lines_are_the_bytes_of_their_range_in_words() {
        let platform = Platform::closed_host();
        let bulk = numbered(&platform);
        for start in [0, 8, 64, 4_032] {
            let lines = bulk.lines(start, 128).unwrap();
            let words = [lines.load(0), lines.load(1)];
            let bytes: Vec<u8> = words.iter().flatten().flat_map(|w| w.to_le_bytes()).collect();
            assert_eq!(bytes, bytes_of(&bulk)[start as usize..][..128], "{start}");
            let mut expected = bytes_of(&bulk);
            lines.store(1, words[0].map(|word| !word));
            for byte in 0..64 {
                expected[start as usize + 64 + byte] = !bytes[byte];
            }
            assert!(bytes_of(&bulk) == expected, "{start}");
        }
    }

    #[test]
    fn parts_of_lines_and_of_cells_have_no_lines() {
        let bulk = Platform::closed_host().bulk(BYTES);
        assert_eq!(bulk.lines(8, 4_096).map(|lines| lines.len()), Some(64));
        assert_eq!(bulk.lines(8, 0).map(|lines| lines.is_empty()), Some(true));
        for (start, bytes) in [(4, 64), (0, 8), (0, 96), (BYTES as u64, 64), (u64::MAX, 64)] {
            assert!(bulk.lines(start, bytes).is_none(), "{start} {bytes}");
        }
    }

    #[test]
    fn a_copy_that_leaves_its_bytes_writes_nothing() {
        let platform = Platform::closed_host();
        let (from, to) = (numbered(&platform), platform.bulk(BYTES / 2));
        assert_eq!(from.copy_to(0, &to, 0, BYTES).unwrap_err().size, BYTES as u64 / 2);
        assert_eq!(from.copy_to(BYTES as u64, &to, 0, 1).unwrap_err().offset, BYTES as u64);
        let mut copied = vec![1; BYTES / 2];
        to.read(0, &mut copied).unwrap();
        assert!(copied.iter().all(|byte| *byte == 0));
    }
}
