//! `fill_pattern(dst, n, first, step)`: `dst[i] = first + i * step`, wrapping, over `n` 32-bit
//! numbers.

use super::lanes::{BLOCK, THREADS, block, check_elements, elements_of, linear_grid, write_u32};
use super::part::Part;
use super::signature::{Argument, Arguments, Signature, Spans};
use super::{ProgramFault, ProgramId, ProgramMemory};

pub(super) static SIGNATURE: Signature = Signature {
    id: ProgramId::FILL_PATTERN,
    name: "fill_pattern",
    summary: "dst[i] = first + i * step",
    arguments: &[
        Argument::write("dst"),
        Argument::u32("n"),
        Argument::u32("first"),
        Argument::u32("step"),
    ],
    threads_per_group: [THREADS as u32, 1, 1],
    grid: |args| linear_grid(args.u64(1)),
    spans,
    run,
};

fn spans(args: &Arguments<'_>) -> Result<Spans, ProgramFault> {
    Ok(args.span(0, 4 * check_elements(args.u64(1))?))
}

fn run(
    args: &Arguments<'_>,
    group: [u32; 3],
    part: &mut Part<'_>,
    mem: &mut dyn ProgramMemory,
) -> Result<(), ProgramFault> {
    let (first, count) = block(args.u64(1), group[0]);
    let mut elements = [0u32; BLOCK];
    let threads = part.threads(THREADS, |threads| {
        let own = elements_of(threads, count);
        for (element, index) in
            elements[own.clone()].iter_mut().zip(first as u32 + own.start as u32..)
        {
            *element = args.u32(2).wrapping_add(index.wrapping_mul(args.u32(3)));
        }
        Ok(())
    })?;
    let own = elements_of(threads, count);
    write_u32(mem, args.va(0) + 4 * (first + own.start as u64), &elements[own])
}
