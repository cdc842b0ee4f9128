//! `image_gradient(dst, width, height, top, horizon, bottom, horizon_row)`: a vertical gradient in
//! an RGBA8 image, the sky behind a scene.
//!
//! Above `horizon_row` the colour changes from `top` to `horizon`, faster near the horizon as in
//! real skies. Below it changes linearly to `bottom`. Colours are mixed in linear light, and a 4 by
//! 4 dither pattern hides the 256 steps. Alpha is 255.

use super::layout::{decode_rgb, encode_rgb_dithered};
use super::part::Part;
use super::signature::{Argument, Arguments, Signature, Spans};
use super::tile::{TILE_THREADS, Tile, check_image, image_len, tile_grid};
use super::{ProgramFault, ProgramId, ProgramMemory};

pub(super) static SIGNATURE: Signature = Signature {
    id: ProgramId::IMAGE_GRADIENT,
    name: "image_gradient",
    summary: "vertical gradient from top over horizon to bottom",
    arguments: &[
        Argument::write("dst"),
        Argument::u32("width"),
        Argument::u32("height"),
        Argument::u32("top"),
        Argument::u32("horizon"),
        Argument::u32("bottom"),
        Argument::u32("horizon_row"),
    ],
    threads_per_group: TILE_THREADS,
    grid: |args| tile_grid(args.u32(1), args.u32(2)),
    spans,
    run,
};

/// Bayer's ordered pattern.
const PATTERN: [[f32; 4]; 4] =
    [[0.0, 8.0, 2.0, 10.0], [12.0, 4.0, 14.0, 6.0], [3.0, 11.0, 1.0, 9.0], [15.0, 7.0, 13.0, 5.0]];

fn spans(args: &Arguments<'_>) -> Result<Spans, ProgramFault> {
    check_image(args.u32(1), args.u32(2))?;
    Ok(args.span(0, image_len(args.u32(1), args.u32(2), 4)))
}

fn run(
    args: &Arguments<'_>,
    group: [u32; 3],
    part: &mut Part<'_>,
    mem: &mut dyn ProgramMemory,
) -> Result<(), ProgramFault> {
    let tile = Tile::of(group, args.u32(1), args.u32(2));
    let mut pixels = Vec::with_capacity(tile.pixels());
    let threads = part.threads(tile.pixels(), |threads| {
        for row in tile.rows(threads) {
            let colour = row_colour(args, row.y0 as u32);
            pixels.extend((row.x0..row.x1).map(|x| {
                let threshold = (PATTERN[row.y0 % 4][x % 4] + 0.5) / 16.0;
                encode_rgb_dithered(colour, threshold)
            }));
        }
        Ok(())
    })?;
    tile.store_u32_from(mem, args.va(0), threads.start, &pixels)
}

fn row_colour(args: &Arguments<'_>, y: u32) -> [f32; 3] {
    let (height, horizon_row) = (args.u32(2), args.u32(6));
    let [top, horizon, bottom] = [3, 4, 5].map(|index| decode_rgb(args.u32(index)));
    if y < horizon_row {
        let up = 1.0 - y as f32 / horizon_row as f32;
        // Steep at the horizon and flat towards the zenith.
        let share = up * (2.0 - up);
        return mix(horizon, top, share);
    }
    let below = (height - horizon_row.min(height)).max(1);
    mix(horizon, bottom, (y - horizon_row) as f32 / below as f32)
}

fn mix(from: [f32; 3], to: [f32; 3], share: f32) -> [f32; 3] {
    std::array::from_fn(|channel| from[channel] + (to[channel] - from[channel]) * share)
}
