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
    let source = Extended::load(mem, args.va(0), tile, radius)?;
    let mut out = vec![0.0f32; tile.pixels()];
    let threads = part.threads(tile.pixels(), |threads| {
        for own in tile.rows(threads) {
            let sums = &mut out[tile.index(own.x0, own.y0)..][..own.width()];
            let rows = (0..side).map(|j| source.row(own.x0 - tile.x0, own.y0 - tile.y0 + j));
            let weighted = kernel.chunks_exact(side).zip(rows);
            match <&mut [f32; TILE]>::try_from(&mut *sums) {
                // A fixed length keeps the sums in registers.
                Ok(sums) => *sums = filtered(weighted),
                Err(_) => filter(weighted, sums),
            }
        }
        Ok(())
    })?;
    tile.store_f32_from(mem, args.va(1), 1, threads.start, &out[threads])
}

/// Returns the sums of a full row.
fn filtered<'a>(weighted: impl Iterator<Item = (&'a [f32], &'a [f32])>) -> [f32; TILE] {
    let mut sums = [0.0f32; TILE];
    for (weights, row) in weighted {
        for (weight, pixels) in weights.iter().zip(row.windows(TILE)) {
            for (sum, pixel) in sums.iter_mut().zip(pixels) {
                *sum += weight * pixel;
            }
        }
    }
    sums
}

/// Adds the sums of a part of a row.
fn filter<'a>(weighted: impl Iterator<Item = (&'a [f32], &'a [f32])>, sums: &mut [f32]) {
    for (weights, row) in weighted {
        for (i, weight) in weights.iter().enumerate() {
            for (sum, pixel) in sums.iter_mut().zip(&row[i..]) {
                *sum += weight * pixel;
            }
        }
    }
}

/// A tile and the margin that the filter needs, with the edges of the image repeated.
struct Extended {
    pixels: Vec<f32>,
    width: usize,
}

impl Extended {
    fn load(
        mem: &mut dyn ProgramMemory,
        image: u64,
        tile: Tile,
        radius: usize,
    ) -> Result<Extended, ProgramFault> {
        let inside = tile.grown(radius);
        let loaded = inside.load_f32(mem, image, 1)?;
        let (width, height) = (tile.width() + 2 * radius, tile.height() + 2 * radius);
        // The margin that is outside of the image.
        let left = radius - (tile.x0 - inside.x0);
        let above = radius - (tile.y0 - inside.y0);
        let mut pixels = Vec::with_capacity(width * height);
        for y in 0..height {
            let from = y.saturating_sub(above).min(inside.height() - 1);
            let row = &loaded[from * inside.width()..][..inside.width()];
            pixels.extend(std::iter::repeat_n(row[0], left));
            pixels.extend_from_slice(row);
            pixels.resize((y + 1) * width, row[row.len() - 1]);
        }
        Ok(Extended { pixels, width })
    }

    /// Returns row `y` from column `x`, both counted from the margin's upper left.
    fn row(&self, x: usize, y: usize) -> &[f32] {
        &self.pixels[y * self.width + x..(y + 1) * self.width]
    }
}
