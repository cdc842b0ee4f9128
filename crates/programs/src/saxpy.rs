//! `saxpy(x, y, n, a)`: `y[i] = a * x[i] + y[i]` over `n` single-precision numbers.
//!
//! Product and sum are rounded one after the other. A group reads its block of both vectors and then stores its block of
//! `y` by one access. `x` and `y` may be the same range.

use super::arguments::Arguments;
use super::lanes::{BLOCK, THREADS, block, check_elements, linear_grid, read_f32, write_f32};
use super::signature::{Argument, Signature, Spans};
use super::{ProgramFault, ProgramId, ProgramMemory};

pub(super) static SIGNATURE: Signature = Signature {
    id: ProgramId::SAXPY,
    name: "saxpy",
    summary: "y[i] = a * x[i] + y[i]",
    arguments: &[Argument::read("x"), Argument::read_write("y"), Argument::u32("n"), Argument::f32("a")],
    threads_per_group: [THREADS as u32, 1, 1],
    grid: |args| linear_grid(args.u64(2)),
    spans,
    run,
};

fn spans(args: &Arguments<'_>) -> Result<Spans, ProgramFault> {
    let n = check_elements(args.u64(2))?;
    Ok(args.span(0, 4 * n).with(args, 1, 4 * n).in_place_allowed())
}

fn run(args: &Arguments<'_>, group: [u32; 3], mem: &mut dyn ProgramMemory) -> Result<(), ProgramFault> {
    let (first, count) = block(args.u64(2), group[0]);
    let a = args.f32(3);
    let (mut x, mut y) = ([0.0f32; BLOCK], [0.0f32; BLOCK]);
    read_f32(mem, args.va(0) + 4 * first, &mut x[..count])?;
    read_f32(mem, args.va(1) + 4 * first, &mut y[..count])?;
    for (y, x) in y.iter_mut().zip(&x) {
        *y += a * x;
    }
    write_f32(mem, args.va(1) + 4 * first, &y[..count])
}
