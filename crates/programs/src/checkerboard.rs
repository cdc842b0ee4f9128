//! `checkerboard(dst, width, height, cell, colour_a, colour_b)`: a chequered RGBA8 image.
//!
//! The top left cell has `colour_a`. A colour is one word with red in the lowest byte.

use super::part::Part;
use super::signature::{Argument, Arguments, Signature, Spans};
use super::tile::{TILE_THREADS, Tile, check_image, image_len, tile_grid};
use super::{ProgramFault, ProgramId, ProgramMemory};

pub(super) static SIGNATURE: Signature = Signature {
    id: ProgramId::CHECKERBOARD,
    name: "checkerboard",
    summary: "chequered RGBA8 image with cells of `cell` pixels",
    arguments: &[
        Argument::write("dst"),
        Argument::u32("width"),
        Argument::u32("height"),
        Argument::u32("cell"),
        Argument::u32("colour_a"),
        Argument::u32("colour_b"),
    ],
    threads_per_group: TILE_THREADS,
    grid: |args| tile_grid(args.u32(1), args.u32(2)),
    spans,
    run,
};

fn spans(args: &Arguments<'_>) -> Result<Spans, ProgramFault> {
    check_image(args.u32(1), args.u32(2))?;
    if args.u32(3) == 0 {
        return Err(ProgramFault::bad("the cell size of a checkerboard is 0"));
    }
    Ok(args.span(0, image_len(args.u32(1), args.u32(2), 4)))
}

fn run(
    args: &Arguments<'_>,
    group: [u32; 3],
    part: &mut Part<'_>,
    mem: &mut dyn ProgramMemory,
) -> Result<(), ProgramFault> {
    let tile = Tile::of(group, args.u32(1), args.u32(2));
    let (cell, colours) = (args.u32(3) as usize, [args.u32(4), args.u32(5)]);
    let mut pixels = Vec::with_capacity(tile.pixels());
    let threads = part.threads(tile.pixels(), |threads| {
        for row in tile.rows(threads) {
            pixels.extend((row.x0..row.x1).map(|x| colours[(x / cell + row.y0 / cell) % 2]));
        }
        Ok(())
    })?;
    tile.store_u32_from(mem, args.va(0), threads.start, &pixels)
}
