//! `saxpy(x, y, n, a)`: `y[i] = a * x[i] + y[i]` over `n` single-precision numbers.
//!
//! Product and sum are rounded separately. A group computes in place, line by line, if its blocks
//! of both vectors have lines. Else it reads them, and stores its block of `y` in one access. `x`
//! and
//! `y` may be the same range.

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
    let (from_x, from_y) = (args.va(0) + 4 * first, args.va(1) + 4 * first);
    if part.is_whole()
        && let Some((x, y)) = mem.lines(from_x, from_y, 4 * count)
    {
        for line in 0..y.len() {
            let x = x.load(line).map(f32::from_bits);
            let mut sums = y.load(line).map(f32::from_bits);
            add_products(a, &x, &mut sums);
            y.store(line, sums.map(f32::to_bits));
        }
        return Ok(());
    }
    let from = elements_of(part.first(THREADS)..THREADS, count).start;
    let (mut x, mut y) = ([0.0f32; BLOCK], [0.0f32; BLOCK]);
    read_f32(mem, from_x + 4 * from as u64, &mut x[from..count])?;
    read_f32(mem, from_y + 4 * from as u64, &mut y[from..count])?;
    let threads = part.threads(THREADS, |threads| {
        let own = elements_of(threads, count);
        add_products(a, &x[own.clone()], &mut y[own]);
        Ok(())
    })?;
    write_f32(mem, from_y + 4 * from as u64, &y[elements_of(threads, count)])
}

#[inline]
fn add_products(a: f32, x: &[f32], y: &mut [f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
}
