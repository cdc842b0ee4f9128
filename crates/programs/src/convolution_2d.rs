//! `convolution_2d(src, dst, kernel, width, height, radius)`: a square filter over an image of
//! single-precision numbers.
//!
//! `dst(x, y)` is the sum of `kernel(i, j) * src(x + i - radius, y + j - radius)` over the rows `j`
//! and, within a row, the columns `i` of the kernel, in that order. The kernel has `(2 * radius +
//! 1)^2` elements, row by row, and is not mirrored. Pixels outside of the image equal those of its
//! nearest edge. A group computes one tile and reads a margin of `radius` pixels around it.

use super::lanes::read_f32;
use super::part::Part;
use super::signature::{Argument, Arguments, Signature, Spans};
use super::tile::{TILE, TILE_THREADS, Tile, check_image, image_len, tile_grid};
use super::{ProgramFault, ProgramId, ProgramMemory};

/// The maximum radius. It bounds the cost of a group: 33 * 33 products per pixel.
const MAX_RADIUS: u32 = 16;

const MAX_ROW: usize = TILE + 2 * MAX_RADIUS as usize;

pub(super) static SIGNATURE: Signature = Signature {
    id: ProgramId::CONVOLUTION_2D,
    name: "convolution_2d",
    summary: "square filter over an f32 image, edges clamped",
    arguments: &[
        Argument::read("src"),
        Argument::write("dst"),
        Argument::read("kernel"),
        Argument::u32("width"),
        Argument::u32("height"),
        Argument::u32("radius"),
    ],
    threads_per_group: TILE_THREADS,
    grid: |args| tile_grid(args.u32(3), args.u32(4)),
    spans,
    run,
};

fn spans(args: &Arguments<'_>) -> Result<Spans, ProgramFault> {
    let (width, height, radius) = (args.u32(3), args.u32(4), args.u32(5));
    check_image(width, height)?;
    if radius > MAX_RADIUS {
        return Err(ProgramFault::bad("the radius of a filter is larger than 16"));
    }
    let (image, side) = (image_len(width, height, 4), u64::from(2 * radius + 1));
    Ok(args.span(0, image).with(args, 1, image).with(args, 2, 4 * side * side))
}

fn run(
    args: &Arguments<'_>,
    group: [u32; 3],
    part: &mut Part<'_>,
    mem: &mut dyn ProgramMemory,
) -> Result<(), ProgramFault> {
    let tile = Tile::of(group, args.u32(3), args.u32(4));
    let radius = args.u32(5) as usize;
    let side = 2 * radius + 1;
    let mut kernel = vec![0.0f32; side * side];
    read_f32(mem, args.va(2), &mut kernel)?;
    let source = tile.grown(radius);
    let pixels = source.load_f32(mem, args.va(0), 1)?;
    let mut out = vec![0.0f32; tile.pixels()];
    let threads = part.threads(tile.pixels(), |threads| {
        for own in tile.rows(threads) {
            let sums = &mut out[tile.index(own.x0, own.y0)..][..own.width()];
            for (j, weights) in kernel.chunks_exact(side).enumerate() {
                let from = (own.y0 + j).saturating_sub(radius).clamp(source.y0, source.y1 - 1);
                let row = clamped_row(&pixels, source, from, own, radius);
                for (i, weight) in weights.iter().enumerate() {
                    for (sum, pixel) in sums.iter_mut().zip(&row[i..]) {
                        *sum += weight * pixel;
                    }
                }
            }
        }
        Ok(())
    })?;
    tile.store_f32_from(mem, args.va(1), 1, threads.start, &out[threads])
}

/// Returns row `y` of the source, from `radius` pixels left of the tile, with edges repeated.
fn clamped_row(
    pixels: &[f32],
    source: Tile,
    y: usize,
    tile: Tile,
    radius: usize,
) -> [f32; MAX_ROW] {
    let mut row = [0.0f32; MAX_ROW];
    for (i, pixel) in row[..tile.width() + 2 * radius].iter_mut().enumerate() {
        let x = (tile.x0 + i).saturating_sub(radius).clamp(source.x0, source.x1 - 1);
        *pixel = pixels[source.index(x, y)];
    }
    row
}
