//! Typed bulk access to GPU memory, and the split of linear work into groups.
//!
//! A linear group has a block of 1,024 elements: 256 threads with four each. A block of 32-bit
//! elements is one 4 KiB page and is accessed at once, because each access needs a translation.
//! Numbers are little endian on every host.

use super::{MAX_GROUPS_PER_DIMENSION, ProgramFault, ProgramMemory};
use std::ops::Range;
use zerocopy::IntoBytes;

/// Number of elements per linear group.
pub(super) const BLOCK: usize = 1024;

/// Number of threads per linear group.
pub(super) const THREADS: usize = 256;

/// Maximum number of elements that linear groups can cover.
pub(super) const MAX_ELEMENTS: u64 = MAX_GROUPS_PER_DIMENSION as u64 * BLOCK as u64;

/// Returns the grid of linear groups for `n` elements, at most [`MAX_ELEMENTS`].
pub(super) fn linear_grid(n: u64) -> [u32; 3] {
    [n.div_ceil(BLOCK as u64) as u32, 1, 1]
}

/// Returns the first element and the number of elements of group `x`; empty beyond the end.
pub(super) fn block(n: u64, x: u32) -> (u64, usize) {
    let first = (u64::from(x) * BLOCK as u64).min(n);
    (first, (n - first).min(BLOCK as u64) as usize)
}

/// Returns the elements of a block of `count` that these threads own: four consecutive ones each.
pub(super) fn elements_of(threads: Range<usize>, count: usize) -> Range<usize> {
    const OWN: usize = BLOCK / THREADS;
    (OWN * threads.start).min(count)..(OWN * threads.end).min(count)
}

pub(super) fn check_elements(n: u64) -> Result<u64, ProgramFault> {
    if n > MAX_ELEMENTS {
        return Err(ProgramFault::bad("n is larger than 65,535 blocks of 1,024 elements"));
    }
    Ok(n)
}

/// Defines bulk accesses to elements of 4 bytes, one block at a time.
macro_rules! elements {
    ($read:ident, $write:ident, $type:ty) => {
        pub(super) fn $read(
            mem: &mut dyn ProgramMemory,
            va: u64,
            out: &mut [$type],
        ) -> Result<(), ProgramFault> {
            let mut at = va;
            for part in out.chunks_mut(BLOCK) {
                let bytes = part.as_mut_bytes();
                mem.read(at, bytes)?;
                at += bytes.len() as u64;
                if cfg!(target_endian = "big") {
                    bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|word| word.reverse());
                }
            }
            Ok(())
        }

        pub(super) fn $write(
            mem: &mut dyn ProgramMemory,
            va: u64,
            values: &[$type],
        ) -> Result<(), ProgramFault> {
            let mut at = va;
            for part in values.chunks(BLOCK) {
                if cfg!(target_endian = "big") {
                    let bytes: Vec<u8> =
                        part.iter().flat_map(|value| value.to_le_bytes()).collect();
                    mem.write(at, &bytes)?;
                } else {
                    mem.write(at, part.as_bytes())?;
                }
                at += size_of_val(part) as u64;
            }
            Ok(())
        }
    };
}

elements!(read_u32, write_u32, u32);
elements!(read_f32, write_f32, f32);
