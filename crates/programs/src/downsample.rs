//! `downsample(src, dst, width, height)`: halves an RGBA8 image. `width` and `height` are the size
//! of `dst`; `src` has twice as many pixels in each dimension.
//!
//! A pixel is the mean of four: of linear light (squares) for colour, of the values for alpha. This
//! produces the next mip level of a texture, or resolves a target drawn at twice its size.

use super::layout::{decode_rgb, encode_rgb};
use super::part::Part;
use super::signature::{Argument, Arguments, Signature, Spans};
use super::tile::{MAX_SIDE, TILE_THREADS, Tile, check_image, image_len, tile_grid};
use super::{ProgramFault, ProgramId, ProgramMemory};

pub(super) static SIGNATURE: Signature = Signature {
    id: ProgramId::DOWNSAMPLE,
    name: "downsample",
    summary: "dst = src at half the width and height, by means of four",
    arguments: &[
        Argument::read("src"),
        Argument::write("dst"),
        Argument::u32("width"),
        Argument::u32("height"),
    ],
    threads_per_group: TILE_THREADS,
    grid: |args| tile_grid(args.u32(2), args.u32(3)),
    spans,
    run,
};

fn spans(args: &Arguments<'_>) -> Result<Spans, ProgramFault> {
    let (width, height) = (args.u32(2), args.u32(3));
    check_image(width, height)?;
    if width > MAX_SIDE / 2 || height > MAX_SIDE / 2 {
        return Err(ProgramFault::bad(
            "the source of a downsample is wider or higher than 16,384 pixels",
        ));
    }
    Ok(args.span(0, image_len(2 * width, 2 * height, 4)).with(args, 1, image_len(width, height, 4)))
}

fn run(
    args: &Arguments<'_>,
    group: [u32; 3],
    part: &mut Part<'_>,
    mem: &mut dyn ProgramMemory,
) -> Result<(), ProgramFault> {
    let (width, height) = (args.u32(2), args.u32(3));
    let tile = Tile::of(group, width, height);
    let whole = Tile::of([0; 3], 2 * width, 2 * height);
    let [x0, y0, x1, y1] = [tile.x0, tile.y0, tile.x1, tile.y1].map(|at| 2 * at as i64);
    let source = whole.rectangle(x0, y0, x1, y1);
    let texels = source.load_u32(mem, args.va(0))?;
    let mut pixels = Vec::with_capacity(tile.pixels());
    let threads = part.threads(tile.pixels(), |threads| {
        for row in tile.rows(threads) {
            pixels.extend((row.x0..row.x1).map(|x| {
                let (upper, lower) =
                    (source.index(2 * x, 2 * row.y0), source.index(2 * x, 2 * row.y0 + 1));
                mean([texels[upper], texels[upper + 1], texels[lower], texels[lower + 1]])
            }));
        }
        Ok(())
    })?;
    tile.store_u32_from(mem, args.va(1), threads.start, &pixels)
}

/// Returns the mean of four RGBA8 colours, computed in linear light.
pub(super) fn mean(texels: [u32; 4]) -> u32 {
    let colours = texels.map(decode_rgb);
    let light = std::array::from_fn(|channel| {
        colours.iter().map(|colour| colour[channel]).sum::<f32>() / 4.0
    });
    let alpha = (texels.iter().map(|texel| texel >> 24).sum::<u32>() + 2) / 4;
    encode_rgb(light) & 0x00ff_ffff | alpha << 24
}
