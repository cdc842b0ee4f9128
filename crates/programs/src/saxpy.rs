//! `saxpy(x, y, n, a)`: `y[i] = a * x[i] + y[i]` over `n` single-precision numbers.
//!
//! Product and sum are rounded separately. A group reads its block of both vectors, then stores its
//! block of `y` in one access. `x` and `y` may be the same range.

use super::lanes::{
    BLOCK, THREADS, block, check_elements, elements_of, linear_grid, read_f32, write_f32,
};
use super::part::Part;
use super::signature::{Argument, Arguments, Signature, Spans};
use super::{ProgramFault, ProgramId, ProgramMemory};

pub(super) static SIGNATURE: Signature = Signature {
    id: ProgramId::SAXPY,
    name: "saxpy",
    summary: "y[i] = a * x[i] + y[i]",
    arguments: &[
        Argument::read("x"),
        Argument::read_write("y"),
        Argument::u32("n"),
        Argument::f32("a"),
    ],
    threads_per_group: [THREADS as u32, 1, 1],
    grid: |args| linear_grid(args.u64(2)),
    spans,
    run,
};

fn spans(args: &Arguments<'_>) -> Result<Spans, ProgramFault> {
    let n = check_elements(args.u64(2))?;
    Ok(args.span(0, 4 * n).with(args, 1, 4 * n).in_place_allowed())
}

fn run(
    args: &Arguments<'_>,
    group: [u32; 3],
    part: &mut Part<'_>,
    mem: &mut dyn ProgramMemory,
) -> Result<(), ProgramFault> {
    let (first, count) = block(args.u64(2), group[0]);
    let a = args.f32(3);
    let from = elements_of(part.first(THREADS)..THREADS, count).start;
    let (mut x, mut y) = ([0.0f32; BLOCK], [0.0f32; BLOCK]);
    read_f32(mem, args.va(0) + 4 * (first + from as u64), &mut x[from..count])?;
    read_f32(mem, args.va(1) + 4 * (first + from as u64), &mut y[from..count])?;
    let threads = part.threads(THREADS, |threads| {
        let own = elements_of(threads, count);
        for (y, x) in y[own.clone()].iter_mut().zip(&x[own]) {
            *y += a * x;
        }
        Ok(())
    })?;
    write_f32(mem, args.va(1) + 4 * (first + from as u64), &y[elements_of(threads, count)])
}
