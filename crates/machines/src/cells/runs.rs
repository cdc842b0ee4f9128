//! Copies of runs of cells: into private memory, out of it, and between two runs.
//!
//! Invariants: each cell is loaded or stored once, relaxed, in ascending order. Runs of the same
//! length only. The compiler does not join relaxed atomics into vector accesses, so on x86-64 the
//! copy is a loop of 16-byte accesses in assembly. Elsewhere, and for short runs, it is a plain
//! loop of atomics (decision 98).
//!
//! Entry points: [`load`], [`store`], [`copy`].

use std::sync::atomic::{AtomicU64, Ordering};

const BLOCK_BYTES: usize = 64;
/// The cells of a block of the assembly.
const BLOCK: usize = BLOCK_BYTES / size_of::<AtomicU64>();

/// Copies cells to private memory.
#[inline]
pub(super) fn load(from: &[AtomicU64], to: &mut [[u8; 8]]) {
    assert_eq!(from.len(), to.len());
    let whole = blocks_of(from.len()) * BLOCK;
    if whole > 0 {
        // SAFETY: both are valid for `whole * 8` bytes, as slices of at least as many elements of
        // 8 bytes, and `to` is borrowed exclusively. Other threads may store to the cells at the
        // same time; `copy_blocks` says why that is no data race.
        unsafe {
            copy_blocks(from.as_ptr().cast(), to.as_mut_ptr().cast(), whole / BLOCK);
        }
    }
    for (to, from) in to[whole..].iter_mut().zip(&from[whole..]) {
        *to = from.load(Ordering::Relaxed).to_le_bytes();
    }
}

/// Copies private memory to cells.
#[inline]
pub(super) fn store(to: &[AtomicU64], from: &[[u8; 8]]) {
    assert_eq!(from.len(), to.len());
    let whole = blocks_of(from.len()) * BLOCK;
    if whole > 0 {
        // SAFETY: both are valid for `whole * 8` bytes, as slices of at least as many elements of
        // 8 bytes. The cells may be written through a shared reference, because they are atomics.
        // Other threads may access them at the same time; `copy_blocks` says why that is no data
        // race.
        unsafe {
            copy_blocks(from.as_ptr().cast(), to.as_ptr().cast_mut().cast(), whole / BLOCK);
        }
    }
    for (to, from) in to[whole..].iter().zip(&from[whole..]) {
        to.store(u64::from_le_bytes(*from), Ordering::Relaxed);
    }
}

/// Copies cells to cells of another run. The runs do not overlap.
#[inline]
pub(super) fn copy(from: &[AtomicU64], to: &[AtomicU64]) {
    assert_eq!(from.len(), to.len());
    let whole = blocks_of(from.len()) * BLOCK;
    if whole > 0 {
        // SAFETY: as in `load` for the source and as in `store` for the destination.
        unsafe {
            copy_blocks(from.as_ptr().cast(), to.as_ptr().cast_mut().cast(), whole / BLOCK);
        }
    }
    for (to, from) in to[whole..].iter().zip(&from[whole..]) {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Returns the blocks of a run of `cells` that [`copy_blocks`] copies.
#[inline]
fn blocks_of(cells: usize) -> usize {
    let assembled = cfg!(all(target_arch = "x86_64", not(miri)));
    // A ring slot is one block.
    if assembled { cells / BLOCK } else { 0 }
}

/// Copies `blocks` of 64 bytes, at least one, in ascending order.
///
/// To the language, the assembly is a loop that loads each 8 bytes of `from` once and stores them
/// to `to` once. Where they are a cell, the access is a relaxed atomic access; where they are
/// private memory, a plain one. The processor keeps to that: a 16-byte access is done in aligned
/// units of 8 bytes at least, and a cell is aligned to 8 bytes. Therefore an access by another
/// thread, which is atomic or goes through this module too, races for the values of cells alone.
///
/// # Safety
///
/// `from` is valid for loads and `to` for stores of `blocks * 64` bytes, which do not overlap. Each
/// of the two is private memory of the caller, or cells that are only accessed as cells.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn copy_blocks(from: *const u8, to: *mut u8, blocks: usize) {
    // SAFETY: the loop accesses `blocks * 64` bytes from both pointers, which the caller vouches
    // for. It changes no other memory, no stack and no register that is not named.
    unsafe {
        std::arch::asm!(
            "2:",
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            "movups [{to}], {a}",
            "movups [{to} + 16], {b}",
            "movups [{to} + 32], {c}",
            "movups [{to} + 48], {d}",
            "add {from}, {block}",
            "add {to}, {block}",
            "dec {blocks}",
            "jnz 2b",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            blocks = inout(reg) blocks => _,
            block = const BLOCK_BYTES,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// Without assembly [`blocks_of`] is 0.
///
/// # Safety
///
/// It is never called.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn copy_blocks(_: *const u8, _: *mut u8, _: usize) {
    unreachable!("no blocks without assembly");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(len: usize, of: impl Fn(usize) -> u64) -> Vec<AtomicU64> {
        (0..len).map(|n| AtomicU64::new(of(n))).collect()
    }

    fn values(cells: &[AtomicU64]) -> Vec<u64> {
        cells.iter().map(|cell| cell.load(Ordering::Relaxed)).collect()
    }

    #[test]
    fn runs_of_every_length_at_every_place_keep_what_lies_beside_them() {
        const LEN: usize = 40;
        let value = |n: usize| 0x0123_4567_89ab_cdef_u64.wrapping_mul(n as u64 + 1);
        for first in 0..5 {
            for len in 0..=LEN - first - 1 {
                let (from, to) = (cells(LEN, value), cells(LEN, |_| 7));
                let mut out = vec![[0; 8]; len + 2];
                load(&from[first..first + len], &mut out[1..=len]);
                store(&to[first..first + len], &out[1..=len]);
                assert_eq!((out[0], out[len + 1]), ([0; 8], [0; 8]));
                let other = cells(LEN, |_| 7);
                copy(&from[first..first + len], &other[first..first + len]);
                let inside = |n: usize| (first..first + len).contains(&n);
                let expected: Vec<u64> =
                    (0..LEN).map(|n| if inside(n) { value(n) } else { 7 }).collect();
                assert_eq!(values(&to), expected, "{first} {len}");
                assert_eq!(values(&other), expected, "{first} {len}");
            }
        }
    }

    #[test]
    fn a_racing_copy_tears_no_cell() {
        const LEN: usize = 512;
        let all = cells(LEN + 1, |_| 0);
        // Blocks that begin and end inside of a vector access.
        let shared = &all[1..];
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for n in 0..2_000u64 {
                    let pattern = (n % 251).wrapping_mul(0x0101_0101_0101_0101);
                    store(shared, &vec![pattern.to_le_bytes(); LEN]);
                }
            });
            let mut seen = vec![[0; 8]; LEN];
            while !writer.is_finished() {
                load(shared, &mut seen);
                assert!(seen.iter().all(|cell| cell.iter().all(|byte| *byte == cell[0])));
            }
        });
    }
}
