//! Lines of 64 bytes as values: a program computes on them without a copy in private memory.
//!
//! Invariants: as in [`super::runs`], each cell is loaded or stored once, relaxed, and a line is
//! four 16-byte accesses in assembly on x86-64. The values are in registers, so the compiler makes
//! vector instructions of a plain loop over them (decision 98).
//!
//! Entry points: [`Lines::load`], [`Lines::store`].

use super::{LINE_BYTES, LINE_CELLS};
use std::sync::atomic::AtomicU64;

/// The 32-bit words of a line.
pub type LineWords = [u32; LINE_BYTES / 4];

/// Whole lines of bulk bytes.
///
/// Other agents may access the same bytes. Then each 8 bytes are from one of the stores.
#[derive(Clone, Copy)]
pub struct Lines<'a> {
    cells: &'a [[AtomicU64; LINE_CELLS]],
}

impl<'a> Lines<'a> {
    /// The lines of `cells`; `None` if there is a rest.
    pub(super) fn of(cells: &'a [AtomicU64]) -> Option<Lines<'a>> {
        let (cells, rest) = cells.as_chunks();
        rest.is_empty().then_some(Lines { cells })
    }

    /// Returns the number of lines.
    #[inline]
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Returns whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Loads a line.
    ///
    /// # Panics
    ///
    /// `line` is past the end.
    #[inline]
    pub fn load(&self, line: usize) -> LineWords {
        words::load(&self.cells[line])
    }

    /// Stores a line.
    ///
    /// # Panics
    ///
    /// `line` is past the end.
    #[inline]
    pub fn store(&self, line: usize, words: LineWords) {
        words::store(&self.cells[line], words);
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod words {
    use super::{LINE_CELLS, LineWords};
    use std::arch::x86_64::__m128i;
    use std::sync::atomic::AtomicU64;

    #[inline]
    pub(super) fn load(from: &[AtomicU64; LINE_CELLS]) -> LineWords {
        let (a, b, c, d): (__m128i, __m128i, __m128i, __m128i);
        // SAFETY: the assembly loads the 64 bytes of `from` and changes only the named registers.
        // To the language it is a relaxed load of each cell; `runs::copy_blocks` says why that is
        // no data race. Any bits are valid in both types of the transmutation, of the same size.
        unsafe {
            std::arch::asm!(
                "movups {a}, [{from}]",
                "movups {b}, [{from} + 16]",
                "movups {c}, [{from} + 32]",
                "movups {d}, [{from} + 48]",
                from = in(reg) from.as_ptr(),
                a = out(xmm_reg) a,
                b = out(xmm_reg) b,
                c = out(xmm_reg) c,
                d = out(xmm_reg) d,
                options(nostack, preserves_flags, readonly),
            );
            std::mem::transmute::<[__m128i; 4], LineWords>([a, b, c, d])
        }
    }

    #[inline]
    pub(super) fn store(to: &[AtomicU64; LINE_CELLS], words: LineWords) {
        // SAFETY: as in `load`; the assembly stores 64 bytes to `to`, which may be written through
        // a shared reference because its elements are atomics.
        unsafe {
            let [a, b, c, d] = std::mem::transmute::<LineWords, [__m128i; 4]>(words);
            std::arch::asm!(
                "movups [{to}], {a}",
                "movups [{to} + 16], {b}",
                "movups [{to} + 32], {c}",
                "movups [{to} + 48], {d}",
                to = in(reg) to.as_ptr(),
                a = in(xmm_reg) a,
                b = in(xmm_reg) b,
                c = in(xmm_reg) c,
                d = in(xmm_reg) d,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod words {
    use super::{LINE_CELLS, LineWords};
    use std::sync::atomic::{AtomicU64, Ordering};

    pub(super) fn load(from: &[AtomicU64; LINE_CELLS]) -> LineWords {
        std::array::from_fn(|word| {
            (from[word / 2].load(Ordering::Relaxed) >> (32 * (word % 2))) as u32
        })
    }

    pub(super) fn store(to: &[AtomicU64; LINE_CELLS], words: LineWords) {
        for (cell, [low, high]) in to.iter().zip(words.as_chunks::<2>().0) {
            cell.store(u64::from(*low) | u64::from(*high) << 32, Ordering::Relaxed);
        }
    }
}
