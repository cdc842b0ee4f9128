//! `draw`: draws triangles into a render target. A group is a tile of 32 by 32 pixels.
//!
//! 1. `gather`: transforms all positions to clip space and drops triangles that miss the tile.
//!    Every tile reads every triangle, so tiles are independent.
//! 2. `clip`: clips triangles at the near plane and at a guard band.
//! 3. `raster`: coverage in exact fixed point with the top-left rule, depth, and
//!    perspective-correct attributes.
//! 4. `shading`: the colour of a pixel. `sampler` filters the texture.
//! 5. `surface`: the tile of target and depth, loaded before and stored after all triangles.
//!
//! Every tile draws its triangles in order, so the picture does not depend on the order of tiles. A
//! tile that is run again, or continues after a stop, gathers again and produces the same bytes.

mod arguments;
mod clip;
mod gather;
mod raster;
mod sampler;
mod shading;
mod surface;

use super::layout::{DRAW_CONSTANTS_LEN, DrawConstants, VERTEX_LEN};
use super::part::{Cursor, Grain, Part};
use super::signature::{Argument, Arguments, Signature, Spans};
use super::tile::{TILE_THREADS, Tile, image_len, tile_grid};
use super::{ProgramFault, ProgramId, ProgramMemory};
pub use arguments::{COLOUR, CULL_BACK, DEPTH_ONLY, PRE_PASS};
use arguments::{Draw, Mode};
use gather::Geometry;
use raster::{Covered, Triangle};
use sampler::{Sampler, Texture};
use shading::Shading;
use std::ops::ControlFlow;
use surface::Surface;

/// Arguments: `vertices, vertex_count, indices, first_primitive, primitive_count, constants,
/// target, depth, width, height, texture, tex_width, tex_height, tex_levels, light, mode`. `layout`
/// defines vertices and constants. Indices have 32 bits. The depth buffer has one `f32` per pixel
/// and is cleared by the caller (1.0 is farthest). `indices`, `constants`, `texture` and `light`
/// may be 0, and so may `target` in `DEPTH_ONLY`.
///
/// | mode | target | depth test |
/// |---|---|---|
/// | `COLOUR` | RGBA8: vertex colour times texture and the light buffer, if any | less or equal |
/// | `PRE_PASS` | four `f32`: world normal and distance in view direction (0 if not drawn) | less |
/// | `DEPTH_ONLY` | none | less |
///
/// `CULL_BACK` may be added to each mode and culls triangles that are anticlockwise on the screen.
pub(super) static SIGNATURE: Signature = Signature {
    id: ProgramId::DRAW,
    name: "draw",
    summary: "triangles into a render target",
    arguments: &[
        Argument::read("vertices"),
        Argument::u32("vertex_count"),
        Argument::read("indices").optional(),
        Argument::u32("first_primitive").optional(),
        Argument::u32("primitive_count"),
        Argument::read("constants").optional(),
        Argument::read_write("target").optional(),
        Argument::read_write("depth"),
        Argument::u32("width"),
        Argument::u32("height"),
        Argument::read("texture").optional(),
        Argument::u32("tex_width").optional(),
        Argument::u32("tex_height").optional(),
        Argument::u32("tex_levels").optional(),
        Argument::read("light").optional(),
        Argument::u32("mode").optional(),
    ],
    threads_per_group: TILE_THREADS,
    grid: |args| tile_grid(args.u32(8), args.u32(9)),
    spans,
    run,
};

fn spans(args: &Arguments<'_>) -> Result<Spans, ProgramFault> {
    let draw = Draw::new(args)?;
    draw.check()?;
    let texture = draw.texture.as_ref().map_or(0, Texture::len);
    Ok(args
        .span(0, u64::from(draw.vertex_count) * VERTEX_LEN as u64)
        .with(args, 2, u64::from(draw.end_primitive()) * 12)
        .with(args, 5, DRAW_CONSTANTS_LEN as u64)
        .with(args, 6, image_len(draw.width, draw.height, draw.target_pixel_len()))
        .with(args, 7, image_len(draw.width, draw.height, 4))
        .with(args, 10, texture)
        .with(args, 14, image_len(draw.width, draw.height, 16)))
}

fn run(
    args: &Arguments<'_>,
    group: [u32; 3],
    part: &mut Part<'_>,
    mem: &mut dyn ProgramMemory,
) -> Result<(), ProgramFault> {
    let draw = Draw::new(args)?;
    let mut cache: Box<DrawCache> = match part.cache.take() {
        Some(cache) => cache,
        None => Box::new(DrawCache::load(&draw, mem)?),
    };
    let drawn = run_tile(&draw, group, part, &mut cache, mem);
    part.cache.put(cache);
    drawn
}

/// The inputs that the tiles of a draw share.
struct DrawCache {
    constants: DrawConstants,
    geometry: Geometry,
    sampler: Option<Sampler>,
}

impl DrawCache {
    fn load(draw: &Draw, mem: &mut dyn ProgramMemory) -> Result<DrawCache, ProgramFault> {
        let constants = draw.read_constants(mem)?;
        let geometry = Geometry::load(draw, &constants, mem)?;
        let sampler = draw.texture.clone().map(Sampler::new);
        Ok(DrawCache { constants, geometry, sampler })
    }
}

fn run_tile(
    draw: &Draw,
    group: [u32; 3],
    part: &mut Part<'_>,
    DrawCache { constants, geometry, sampler }: &mut DrawCache,
    mem: &mut dyn ProgramMemory,
) -> Result<(), ProgramFault> {
    let tile = Tile::of(group, draw.width, draw.height);
    let kept = geometry.gather(draw, tile, mem)?;
    if kept.is_empty() {
        return Ok(());
    }
    let surface = Surface::load(draw, tile, mem)?;
    let mut stage = Stage { shading: Shading::new(constants), surface, sampler };
    let from = part.cursor.clone();
    for (at, corners) in (0..).zip(&kept).skip(from.at as usize) {
        let goes_on = match part.grain {
            Grain::Group => true,
            Grain::Triangle => part.next(),
            _ => part.may_go_on(),
        };
        if !goes_on {
            part.stop(Cursor { at, ..Cursor::default() });
            break;
        }
        let (pieces, mut pixels) = if at == from.at { (from.piece, from.pixel) } else { (0, 0) };
        let corners = gather::fetch(draw, constants, corners, mem)?;
        for (piece, corners) in (0..).zip(clip::clip(corners)).skip(pieces as usize) {
            let done = std::mem::take(&mut pixels);
            let Some(triangle) = Triangle::new(&corners, draw.width, draw.height, draw.cull_back)
            else {
                continue;
            };
            if let Some(pixel) = stage.fill(&triangle, done, part, mem)? {
                part.stop(Cursor { at, piece, pixel, machine: None });
                break;
            }
        }
        if part.stopped {
            break;
        }
    }
    stage.surface.store(mem)
}

/// The state of a draw that all its triangles share.
struct Stage<'a> {
    shading: Shading,
    surface: Surface,
    sampler: &'a mut Option<Sampler>,
}

impl Stage<'_> {
    /// Draws the pixels of the tile that one triangle covers, except the first `done`. If the group
    /// must stop, returns the number of pixels done.
    fn fill(
        &mut self,
        triangle: &Triangle,
        done: u32,
        part: &mut Part<'_>,
        mem: &mut dyn ProgramMemory,
    ) -> Result<Option<u32>, ProgramFault> {
        let by_pixel = part.grain >= Grain::Pixel;
        let (mut pixels, mut left_at) = (0, None);
        triangle.scan(self.surface.tile(), |covered| {
            if pixels < done {
                pixels += 1;
                return Ok(ControlFlow::Continue(()));
            }
            if by_pixel && !part.next() {
                left_at = Some(pixels);
                return Ok(ControlFlow::Break(()));
            }
            pixels += 1;
            self.pixel(triangle, &covered, mem)?;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(left_at)
    }

    fn pixel(
        &mut self,
        triangle: &Triangle,
        covered: &Covered,
        mem: &mut dyn ProgramMemory,
    ) -> Result<(), ProgramFault> {
        let Stage { shading, surface, sampler } = self;
        let at = covered.index;
        if !surface.passes(at, covered.z) {
            return Ok(());
        }
        match surface.mode() {
            Mode::Colour => {
                let pixel = triangle.pixel(covered);
                let texel = match sampler {
                    Some(sampler) => sampler
                        .sample(shading.footprint(triangle.footprint(covered, &pixel)), mem)?,
                    None => [1.0; 3],
                };
                let light = surface.light(at);
                surface.put_colour(at, covered.z, shading.colour(&pixel, texel, light));
            }
            Mode::PrePass => {
                let pixel = triangle.pixel(covered);
                surface.put_geometry(at, covered.z, shading.geometry(&pixel));
            }
            Mode::DepthOnly => surface.put_depth(at, covered.z),
        }
        Ok(())
    }
}
