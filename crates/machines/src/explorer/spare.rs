//! Zeroed blocks between two explored machines. A search builds thousands of machines a second, and
//! each of them needs blocks of the same sizes, of which it writes a small part.
//!
//! Invariants: a kept block is all zero. The cells of a page or of bulk bytes note each chunk
//! before it is written ([`Written::note`]), and only noted chunks are zeroed again.
//!
//! Entry points: [`take`], [`keep`], [`Written`].

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words that a thread keeps at most: 4 MiB. A machine of the whole stack has 150 KiB.
const MOST_WORDS: usize = 512 * 1024;

/// Bits in [`Written::chunks`].
const CHUNKS: usize = u64::BITS as usize;

#[derive(Default)]
struct Spare {
    blocks: VecDeque<Box<[AtomicU64]>>,
    words: usize,
}

thread_local! {
    static SPARE: RefCell<Spare> = const { RefCell::new(Spare { blocks: VecDeque::new(), words: 0 }) };
}

/// Returns a kept block of `len` words, all zero.
pub(crate) fn take(len: usize) -> Option<Box<[AtomicU64]>> {
    let block = SPARE.with_borrow_mut(|spare| {
        let at = spare.blocks.iter().rposition(|block| block.len() == len)?;
        spare.words -= len;
        spare.blocks.remove(at)
    })?;
    debug_assert!(block.iter().all(|cell| cell.load(Ordering::Relaxed) == 0));
    Some(block)
}

/// Keeps a block of zeros for another machine of this thread. The oldest ones make room for it.
pub(crate) fn keep(block: Box<[AtomicU64]>) {
    // Freed instead if the thread is ending.
    let _ = SPARE.try_with(|spare| {
        let spare = &mut *spare.borrow_mut();
        spare.words += block.len();
        spare.blocks.push_back(block);
        while spare.words > MOST_WORDS
            && let Some(oldest) = spare.blocks.pop_front()
        {
            spare.words -= oldest.len();
        }
    });
}

/// The chunks of a block that may have been written.
pub(crate) struct Written {
    /// One bit for each chunk. Only the thread of the machine changes it.
    chunks: AtomicU64,
    /// Binary logarithm of the cells of a chunk.
    shift: u32,
}

impl Written {
    /// Nothing of `len` cells is written.
    pub(crate) fn none(len: usize) -> Written {
        let shift = len.div_ceil(CHUNKS).next_power_of_two().trailing_zeros();
        Written { chunks: AtomicU64::new(0), shift }
    }

    /// Notes that these cells, at least one, are about to be written.
    #[inline]
    pub(crate) fn note(&self, cells: Range<usize>) {
        let (first, last) = (cells.start >> self.shift, (cells.end - 1) >> self.shift);
        let bits = u64::MAX >> (CHUNKS - 1 - (last - first)) << first;
        self.chunks.store(self.chunks.load(Ordering::Relaxed) | bits, Ordering::Relaxed);
    }

    /// Zeroes the cells that may have been written.
    pub(crate) fn zero(&self, cells: &mut [AtomicU64]) {
        let mut left = self.chunks.load(Ordering::Relaxed);
        while left != 0 {
            let start = (left.trailing_zeros() as usize) << self.shift;
            let end = cells.len().min(start + (1 << self.shift));
            cells[start..end].iter_mut().for_each(|cell| *cell.get_mut() = 0);
            left &= left - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_zero_again_after_any_noted_range_was_written() {
        for len in [65, 512, 1_000, 4_609, 8_199] {
            for (start, end) in [(0, 1), (0, len), (len - 1, len), (63, 65), (len / 3, len / 2)] {
                let mut cells: Box<[AtomicU64]> = (0..len).map(|_| AtomicU64::new(0)).collect();
                let written = Written::none(len);
                written.note(start..end);
                cells[start..end].iter_mut().for_each(|cell| *cell.get_mut() = u64::MAX);
                written.zero(&mut cells);
                let left = cells.iter().position(|cell| cell.load(Ordering::Relaxed) != 0);
                assert_eq!(left, None, "{len} cells, {start}..{end} written");
            }
        }
    }

    #[test]
    fn a_kept_block_is_taken_by_its_size_and_the_oldest_make_room() {
        let block = |len| (0..len).map(|_| AtomicU64::new(0)).collect::<Box<[AtomicU64]>>();
        keep(block(100));
        assert!(take(101).is_none());
        assert_eq!(take(100).map(|block| block.len()), Some(100));
        assert!(take(100).is_none());
        keep(block(100));
        keep(block(MOST_WORDS));
        assert!(take(100).is_none());
        assert_eq!(take(MOST_WORDS).map(|block| block.len()), Some(MOST_WORDS));
    }
}
