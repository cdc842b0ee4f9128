//! Prefix sum over 32-bit numbers, inclusive and wrapping, in two programs.
//!
//! 1. `scan_blocks(src, dst, sums, n)` scans blocks of 1,024: `dst[i]` is the sum from the start of
//!    its block through `src[i]`, and `sums[b]` is the sum of all of block `b`. `src` and `dst` may
//!    be the same range; `sums` may be 0.
//! 2. The caller scans `sums` with the same programs; [`levels`] returns the number of levels.
//! 3. `add_offsets(dst, sums_scanned, n)` adds the scanned sum of all previous blocks to each block
//!    after the first.

use super::lanes::{
    BLOCK, THREADS, block, check_elements, elements_of, linear_grid, read_u32, write_u32,
};
use super::part::Part;
use super::signature::{Argument, Arguments, Signature, Spans};
use super::{ProgramFault, ProgramId, ProgramMemory};

pub(super) static SCAN_BLOCKS: Signature = Signature {
    id: ProgramId::SCAN_BLOCKS,
    name: "scan_blocks",
    summary: "inclusive prefix sums within blocks of 1,024; sums[b] = sum of block b",
    arguments: &[
        Argument::read("src"),
        Argument::write("dst"),
        Argument::write("sums").optional(),
        Argument::u32("n"),
    ],
    threads_per_group: [THREADS as u32, 1, 1],
    grid: |args| linear_grid(args.u64(3)),
    spans: scan_spans,
    run: scan,
};

pub(super) static ADD_OFFSETS: Signature = Signature {
    id: ProgramId::ADD_OFFSETS,
    name: "add_offsets",
    summary: "dst[i] += sums_scanned[block of i - 1], from the second block on",
    arguments: &[Argument::read_write("dst"), Argument::read("sums_scanned"), Argument::u32("n")],
    threads_per_group: [THREADS as u32, 1, 1],
    grid: |args| linear_grid(args.u64(2)),
    spans: add_spans,
    run: add,
};

/// Returns the lengths of the arrays to scan for a prefix sum of `n` elements: `n`, its block sums,
/// their block sums, until a single block remains. `levels(2_000_000)` is `[2_000_000, 1_954, 2]`.
/// Scan each in turn with `sums` set to the next one (0 for the last), then add the offsets of each
/// to the previous one, in reverse order.
#[must_use]
pub fn levels(n: u64) -> Vec<u64> {
    super::reduction::passes(n)
}

fn scan_spans(args: &Arguments<'_>) -> Result<Spans, ProgramFault> {
    let n = check_elements(args.u64(3))?;
    let sums = 4 * n.div_ceil(BLOCK as u64);
    Ok(args.span(0, 4 * n).with(args, 1, 4 * n).with(args, 2, sums).in_place_allowed())
}

/// The threads cooperate, so the group can only stop before or after it.
fn scan(
    args: &Arguments<'_>,
    group: [u32; 3],
    _: &mut Part<'_>,
    mem: &mut dyn ProgramMemory,
) -> Result<(), ProgramFault> {
    let (first, count) = block(args.u64(3), group[0]);
    let mut elements = [0u32; BLOCK];
    let elements = &mut elements[..count];
    read_u32(mem, args.va(0) + 4 * first, elements)?;
    let mut sum = 0u32;
    for element in elements.iter_mut() {
        sum = sum.wrapping_add(*element);
        *element = sum;
    }
    if args.va(2) != 0 {
        write_u32(mem, args.va(2) + 4 * u64::from(group[0]), &[sum])?;
    }
    // Stored last, because it may be the range that was read.
    write_u32(mem, args.va(1) + 4 * first, elements)
}

fn add_spans(args: &Arguments<'_>) -> Result<Spans, ProgramFault> {
    let n = check_elements(args.u64(2))?;
    Ok(args.span(0, 4 * n).with(args, 1, 4 * n.div_ceil(BLOCK as u64)))
}

fn add(
    args: &Arguments<'_>,
    group: [u32; 3],
    part: &mut Part<'_>,
    mem: &mut dyn ProgramMemory,
) -> Result<(), ProgramFault> {
    let Some(before) = group[0].checked_sub(1) else { return Ok(()) };
    let (first, count) = block(args.u64(2), group[0]);
    let mut offset = [0u32];
    read_u32(mem, args.va(1) + 4 * u64::from(before), &mut offset)?;
    let start = args.va(0) + 4 * first;
    if part.is_whole()
        && let Some((_, to)) = mem.lines(start, start, 4 * count)
    {
        for line in 0..to.len() {
            to.store(line, to.load(line).map(|element| element.wrapping_add(offset[0])));
        }
        return Ok(());
    }
    let from = elements_of(part.first(THREADS)..THREADS, count).start;
    let at = start + 4 * from as u64;
    let mut elements = [0u32; BLOCK];
    read_u32(mem, at, &mut elements[from..count])?;
    let threads = part.threads(THREADS, |threads| {
        for element in &mut elements[elements_of(threads, count)] {
            *element = element.wrapping_add(offset[0]);
        }
        Ok(())
    })?;
    write_u32(mem, at, &elements[elements_of(threads, count)])
}
