//! `draw`: triangles into a render target, a tile of 32 by 32 pixels a group.
//!
//! Arguments: `vertices, vertex_count, indices, first_primitive, primitive_count, constants,
//! target, depth, width, height, texture, tex_width, tex_height, tex_levels, light, mode`. Layouts
//! of vertices and constants are in [`layout`](super::layout); indices are 32-bit; the depth buffer
//! is one `f32` a pixel, cleared by the caller (1.0 is farthest). `indices`, `constants`, `texture`
//! and `light` may be 0, and `target` too in [`DEPTH_ONLY`].
//!
//! | mode | target | depth test |
//! |---|---|---|
//! | [`COLOUR`] | RGBA8: vertex colour, times texture, times the light buffer when there is one | less or equal |
//! | [`PRE_PASS`] | four `f32`: world normal and distance along the view (0 where nothing was drawn) | less |
//! | [`DEPTH_ONLY`] | none | less |
//!
//! [`CULL_BACK`] may be added to each: triangles that run anticlockwise on the screen are left out.
//!
//! A group goes through these stages, in this order:
//! 1. `gather`: all positions to clip space, then triangles that miss the tile are dropped
//!    (cheaply, as every tile looks at every triangle; this is what makes tiles independent of each
//!    other).
//! 2. `clip`: triangles cut at the near plane and at a guard band.
//! 3. `raster`: coverage in exact fixed point by the top-left rule, depth, perspective-correct
//!    attributes.
//! 4. `shading`: the colour of a pixel. `sampler` filters the texture.
//! 5. `surface`: the tile of the target and depth, loaded before the first triangle and stored
//!    after the last.
//!
//! Triangles are drawn in order in every tile, so the picture does not depend on the order of the
//! tiles. A tile that is run again finds its own depth and stores the same bytes. One that is left
//! between two triangles or pixels stores what it has; when it goes on it gathers its triangles
//! again and counts to where it was.

mod clip;
mod gather;
mod raster;
mod sampler;
mod shading;
mod surface;

use super::arguments::Arguments;
use super::lanes::read_f32;
use super::layout::{DRAW_CONSTANTS_LEN, DrawConstants, VERTEX_LEN};
use super::part::{Cursor, Grain, Part};
use super::signature::{Argument, Signature, Spans};
use super::tile::{MAX_SIDE, TILE_THREADS, Tile, check_image, image_len, tile_grid};
use super::{ProgramFault, ProgramId, ProgramMemory};
use raster::{Covered, Triangle};
use sampler::{Sampler, Texture};
use shading::Shading;
use std::ops::ControlFlow;
use surface::Surface;

/// Mode: lit and textured colour.
pub const COLOUR: u32 = 0;
/// Mode: normals and distances, for `shade`.
pub const PRE_PASS: u32 = 1;
/// Mode: depth alone, for a shadow map.
pub const DEPTH_ONLY: u32 = 2;
/// Flag in the mode: leave out triangles that run anticlockwise on the screen.
pub const CULL_BACK: u32 = 0x100;

/// The most vertices and the most primitives of a draw. They bound what one group costs.
const MAX_COUNT: u32 = 1 << 20;

/// Mip levels of the largest texture.
const MAX_LEVELS: u32 = MAX_SIDE.ilog2() + 1;

pub(super) static SIGNATURE: Signature = Signature {
    id: ProgramId::DRAW,
    name: "draw",
    summary: "triangles into a render target",
    arguments: &[
        Argument::read("vertices"),
        Argument::u32("vertex_count"),
        Argument::read("indices").optional(),
        Argument::u32("first_primitive"),
        Argument::u32("primitive_count"),
        Argument::read("constants").optional(),
        Argument::read_write("target").optional(),
        Argument::read_write("depth"),
        Argument::u32("width"),
        Argument::u32("height"),
        Argument::read("texture").optional(),
        Argument::u32("tex_width"),
        Argument::u32("tex_height"),
        Argument::u32("tex_levels"),
        Argument::read("light").optional(),
        Argument::u32("mode"),
    ],
    threads_per_group: TILE_THREADS,
    grid: |args| tile_grid(args.u32(8), args.u32(9)),
    spans,
    run,
};

/// What a pixel leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Colour,
    PrePass,
    DepthOnly,
}

/// The arguments by name.
struct Draw {
    vertices: u64,
    vertex_count: u32,
    indices: u64,
    first_primitive: u32,
    primitive_count: u32,
    constants: u64,
    target: u64,
    depth: u64,
    width: u32,
    height: u32,
    texture: Option<Texture>,
    light: u64,
    mode: Mode,
    cull_back: bool,
}

impl Draw {
    fn new(args: &Arguments<'_>) -> Result<Self, ProgramFault> {
        let mode = match args.u32(15) & !CULL_BACK {
            COLOUR => Mode::Colour,
            PRE_PASS => Mode::PrePass,
            DEPTH_ONLY => Mode::DepthOnly,
            _ => return Err(ProgramFault::bad("a draw has a mode that does not exist")),
        };
        Ok(Self {
            vertices: args.va(0),
            vertex_count: args.u32(1),
            indices: args.va(2),
            first_primitive: args.u32(3),
            primitive_count: args.u32(4),
            constants: args.va(5),
            target: args.va(6),
            depth: args.va(7),
            width: args.u32(8),
            height: args.u32(9),
            texture: Texture::new(args.va(10), args.u32(11), args.u32(12), args.u32(13))?,
            light: args.va(14),
            mode,
            cull_back: args.u32(15) & CULL_BACK != 0,
        })
    }

    /// One past the last primitive. Both terms are at most [`MAX_COUNT`].
    fn end_primitive(&self) -> u32 {
        self.first_primitive + self.primitive_count
    }

    fn check(&self) -> Result<(), ProgramFault> {
        check_image(self.width, self.height)?;
        if [self.vertex_count, self.first_primitive, self.primitive_count]
            .iter()
            .any(|&n| n > MAX_COUNT)
        {
            return Err(ProgramFault::bad("a draw has more than 2^20 vertices or primitives"));
        }
        if self.indices == 0 && 3 * self.end_primitive() > self.vertex_count {
            return Err(ProgramFault::bad(
                "a draw without indices has fewer vertices than its primitives need",
            ));
        }
        if self.target == 0 && self.mode != Mode::DepthOnly {
            return Err(ProgramFault::bad("a draw that is not depth only has no target"));
        }
        Ok(())
    }

    /// Bytes of a pixel of the target.
    fn target_pixel_len(&self) -> u64 {
        match self.mode {
            Mode::Colour => 4,
            Mode::PrePass => 16,
            Mode::DepthOnly => 0,
        }
    }

    fn read_constants(&self, mem: &mut dyn ProgramMemory) -> Result<DrawConstants, ProgramFault> {
        if self.constants == 0 {
            return Ok(DrawConstants::default());
        }
        let mut words = [0.0f32; DRAW_CONSTANTS_LEN / 4];
        read_f32(mem, self.constants, &mut words)?;
        Ok(DrawConstants::from_words(&words))
    }
}

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
    let tile = Tile::of(group, draw.width, draw.height);
    let constants = draw.read_constants(mem)?;
    let kept = gather::gather(&draw, &constants.clip_from_object, tile, mem)?;
    if kept.is_empty() {
        return Ok(());
    }
    let surface = Surface::load(&draw, tile, mem)?;
    let sampler = draw.texture.clone().map(Sampler::new);
    let mut stage = Stage { shading: Shading::new(&constants), surface, sampler };
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
        let corners = gather::fetch(&draw, &constants, corners, mem)?;
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

/// What triangles are drawn with, and on.
struct Stage {
    shading: Shading,
    surface: Surface,
    sampler: Option<Sampler>,
}

impl Stage {
    /// Draws what one triangle covers of the tile, but for the first `done` pixels. Returns how
    /// many pixels are done if the group is to be left before the next.
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
