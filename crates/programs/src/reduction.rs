//! `reduction(src, dst, n)`: sums of blocks of 1,024 `f32` numbers, one per group.
//!
//! Thread `t` of 256 adds elements `t`, `t + 256`, `t + 512` and `t + 768`; the threads' sums are
//! then added in a binary tree. The order is fixed, so the result is reproducible, and its error
//! grows with the depth of the tree (at most eleven roundings), not with `n`. An empty sum is 0.
//!
//! One dispatch is one pass. The caller repeats it on the partial sums; see [`passes`].

use super::lanes::{BLOCK, THREADS, block, check_elements, linear_grid, read_f32, write_f32};
use super::part::Part;
use super::signature::{Argument, Arguments, Signature, Spans};
use super::{ProgramFault, ProgramId, ProgramMemory};

pub(super) static SIGNATURE: Signature = Signature {
    id: ProgramId::REDUCTION,
    name: "reduction",
    summary: "dst[b] = sum of the 1,024 elements of block b of src",
    arguments: &[Argument::read("src"), Argument::write("dst"), Argument::u32("n")],
    threads_per_group: [THREADS as u32, 1, 1],
    grid: |args| linear_grid(args.u64(2).max(1)),
    spans,
    run,
};

/// Returns the input lengths of the passes that reduce `n` elements to one: `n`, then the number of
/// partial sums of each pass, until one block is left. `passes(1_000_000)` is `[1_000_000, 977]`.
#[must_use]
pub fn passes(n: u64) -> Vec<u64> {
    let mut lengths = vec![n];
    let mut length = n;
    while length > BLOCK as u64 {
        length = length.div_ceil(BLOCK as u64);
        lengths.push(length);
    }
    lengths
}

fn spans(args: &Arguments<'_>) -> Result<Spans, ProgramFault> {
    let n = check_elements(args.u64(2))?;
    let partials = n.max(1).div_ceil(BLOCK as u64);
    Ok(args.span(0, 4 * n).with(args, 1, 4 * partials))
}

/// The threads cooperate, so the group can only stop before or after it.
fn run(
    args: &Arguments<'_>,
    group: [u32; 3],
    _: &mut Part<'_>,
    mem: &mut dyn ProgramMemory,
) -> Result<(), ProgramFault> {
    let (first, count) = block(args.u64(2), group[0]);
    // Elements beyond the end stay 0 and do not change the sum.
    let mut elements = [0.0f32; BLOCK];
    read_f32(mem, args.va(0) + 4 * first, &mut elements[..count])?;
    write_f32(mem, args.va(1) + 4 * u64::from(group[0]), &[sum_block(&elements)])
}

fn sum_block(elements: &[f32; BLOCK]) -> f32 {
    let mut sums = [0.0f32; THREADS];
    for row in elements.as_chunks::<THREADS>().0 {
        for (sum, element) in sums.iter_mut().zip(row) {
            *sum += element;
        }
    }
    let mut half = THREADS / 2;
    while half > 0 {
        for thread in 0..half {
            sums[thread] += sums[thread + half];
        }
        half /= 2;
    }
    sums[0]
}
