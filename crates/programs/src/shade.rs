//! `shade(rt1, light, constants, shadow, shadow_size, width, height)`: computes the light on every
//! pixel of a pre-pass.
//!
//! `rt1` is the output of `draw` in its pre-pass: world normal and distance, four `f32` per pixel.
//! `light` receives four `f32` per pixel: red, green and blue light on the surface, and the
//! intensity of its highlight; all 0 if nothing was drawn. [`layout`](super::layout) describes the
//! constants. `shadow` is a square depth buffer seen from the sun, or 0.
//!
//! A group reads its tile with a margin for occlusion, and the rectangle of the shadow map onto
//! which its pixels project.

use super::camera::{along, difference, dot, normalised};
use super::lanes::read_f32;
use super::layout::{SHADE_CONSTANTS_LEN, ShadeConstants};
use super::part::Part;
use super::signature::{Argument, Arguments, Signature, Spans};
use super::tile::{TILE_THREADS, Tile, check_image, image_len, tile_grid};
use super::{ProgramFault, ProgramId, ProgramMemory};

/// Distance in pixels within which a surface may occlude a pixel.
pub const OCCLUSION_REACH: usize = 24;

/// Number of samples of the occlusion term.
pub const OCCLUSION_SAMPLES: usize = 16;

/// Maximum side of a shadow map in texels. It bounds the reads of a group.
const MAX_SHADOW_SIZE: u32 = 4096;

/// Number of texels compared in each direction from a place in the shadow map.
const SHADOW_REACH: i64 = 2;

/// The light on a pixel is the sum of, in this order:
/// 1. light from sky and ground by its normal, reduced by screen-space occlusion: sixteen samples
///    of `rt1` on a spiral, within 24 pixels;
/// 2. the sun, by the shadow map: 25 comparisons, blended for the position between the texels;
/// 3. point lights, which fade to 0 at their radius.
pub(super) static SIGNATURE: Signature = Signature {
    id: ProgramId::SHADE,
    name: "shade",
    summary: "light on every pixel of a pre-pass: sun, sky with occlusion, point lights",
    arguments: &[
        Argument::read("rt1"),
        Argument::write("light"),
        Argument::read("constants"),
        Argument::read("shadow").optional(),
        Argument::u32("shadow_size").optional(),
        Argument::u32("width"),
        Argument::u32("height"),
    ],
    threads_per_group: TILE_THREADS,
    grid: |args| tile_grid(args.u32(5), args.u32(6)),
    spans,
    run,
};

fn spans(args: &Arguments<'_>) -> Result<Spans, ProgramFault> {
    let (size, width, height) = (args.u32(4), args.u32(5), args.u32(6));
    check_image(width, height)?;
    if args.va(3) != 0 && !(1..=MAX_SHADOW_SIZE).contains(&size) {
        return Err(ProgramFault::bad("the side of a shadow map is not 1 to 4,096 texels"));
    }
    let image = image_len(width, height, 16);
    Ok(args.span(0, image).with(args, 1, image).with(args, 2, SHADE_CONSTANTS_LEN as u64).with(
        args,
        3,
        image_len(size, size, 4),
    ))
}

fn run(
    args: &Arguments<'_>,
    group: [u32; 3],
    part: &mut Part<'_>,
    mem: &mut dyn ProgramMemory,
) -> Result<(), ProgramFault> {
    let (width, height) = (args.u32(5), args.u32(6));
    let tile = Tile::of(group, width, height);
    let mut words = [0.0f32; SHADE_CONSTANTS_LEN / 4];
    read_f32(mem, args.va(2), &mut words)?;
    let mut scene =
        Scene::load(ShadeConstants::from_words(&words), tile, args.va(0), [width, height], mem)?;
    scene.load_shadow(tile, args.va(3), args.u32(4), mem)?;
    let mut out = Vec::with_capacity(4 * tile.pixels());
    let threads = part.threads(tile.pixels(), |threads| {
        for row in tile.rows(threads) {
            (row.x0..row.x1).for_each(|x| out.extend(scene.light(x, row.y0)));
        }
        Ok(())
    })?;
    tile.store_f32_from(mem, args.va(1), 4, threads.start, &out)
}

/// A surface point.
struct Point {
    position: [f32; 3],
    normal: [f32; 3],
    /// Distance in the viewing direction.
    distance: f32,
}

/// A rectangle of the shadow map.
struct Shadow {
    area: Tile,
    texels: Vec<f32>,
    size: u32,
}

/// Inputs of the pixels of one group.
struct Scene {
    constants: ShadeConstants,
    area: Tile,
    geometry: Vec<f32>,
    size: [f32; 2],
    spiral: [[f32; 2]; OCCLUSION_SAMPLES],
    shadow: Option<Shadow>,
}

impl Scene {
    fn load(
        constants: ShadeConstants,
        tile: Tile,
        rt1: u64,
        size: [u32; 2],
        mem: &mut dyn ProgramMemory,
    ) -> Result<Self, ProgramFault> {
        let reach = if constants.occlusion_strength > 0.0 { OCCLUSION_REACH } else { 0 };
        let area = tile.grown(reach);
        let geometry = area.load_f32(mem, rt1, 4)?;
        let size = size.map(|side| side as f32);
        Ok(Self { constants, area, geometry, size, spiral: spiral(), shadow: None })
    }

    /// Loads the part of the shadow map onto which the pixels of the tile project.
    fn load_shadow(
        &mut self,
        tile: Tile,
        map: u64,
        size: u32,
        mem: &mut dyn ProgramMemory,
    ) -> Result<(), ProgramFault> {
        if map == 0 {
            return Ok(());
        }
        let (mut low, mut high) = ([i64::MAX; 2], [i64::MIN; 2]);
        for y in tile.y0..tile.y1 {
            for x in tile.x0..tile.x1 {
                let Some(point) = self.point(x, y) else { continue };
                let Some((texel, _, _)) = self.shadow_place(&point, size) else { continue };
                for axis in 0..2 {
                    low[axis] = low[axis].min(texel[axis] - SHADOW_REACH);
                    high[axis] = high[axis].max(texel[axis] + SHADOW_REACH + 2);
                }
            }
        }
        if low[0] > high[0] {
            return Ok(());
        }
        let area = Tile::of([0; 3], size, size).rectangle(low[0], low[1], high[0], high[1]);
        let texels = area.load_f32(mem, map, 1)?;
        self.shadow = Some(Shadow { area, texels, size });
        Ok(())
    }

    /// Returns the surface point at pixel `(x, y)`, or `None` if nothing was drawn.
    fn point(&self, x: usize, y: usize) -> Option<Point> {
        let [nx, ny, nz, distance] = self.geometry.as_chunks::<4>().0[self.area.index(x, y)];
        // Not `distance <= 0.0`, so that a NaN counts as nothing drawn.
        if !(distance > 0.0 && distance.is_finite()) {
            return None;
        }
        let across = 2.0 * (x as f32 + 0.5) / self.size[0] - 1.0;
        let up = 1.0 - 2.0 * (y as f32 + 0.5) / self.size[1];
        let c = &self.constants;
        let ray = along(along(c.forward, c.right, across), c.up, up);
        Some(Point { position: along(c.eye, ray, distance), normal: [nx, ny, nz], distance })
    }

    fn light(&self, x: usize, y: usize) -> [f32; 4] {
        let Some(point) = self.point(x, y) else { return [0.0; 4] };
        let c = &self.constants;
        let to_eye = normalised(difference(c.eye, point.position));
        let open = self.openness(&point, x, y);
        let above = 0.5 + 0.5 * point.normal[1];
        let mut sum: [f32; 3] =
            std::array::from_fn(|i| (c.ground[i] + (c.sky[i] - c.ground[i]) * above) * open);
        let sunlit = dot(point.normal, c.to_sun).max(0.0);
        let mut highlight = 0.0;
        if sunlit > 0.0 {
            let through = self.sun_visible(&point);
            sum = along(sum, c.sun, sunlit * through);
            highlight = through * gloss(point.normal, c.to_sun, to_eye);
        }
        for lamp in &c.lights {
            let to_lamp = difference(lamp.position, point.position);
            let ratio = dot(to_lamp, to_lamp) / (lamp.radius * lamp.radius);
            let direction = normalised(to_lamp);
            let facing = dot(point.normal, direction);
            if ratio < 1.0 && facing > 0.0 {
                let fading = (1.0 - ratio) * (1.0 - ratio);
                sum = along(sum, lamp.colour, facing * fading * open);
                highlight += 0.5 * fading * gloss(point.normal, direction, to_eye);
            }
        }
        [sum[0], sum[1], sum[2], highlight]
    }

    /// Returns the occlusion term: 1 in the open, less if close surfaces rise above its plane.
    fn openness(&self, point: &Point, x: usize, y: usize) -> f32 {
        let c = &self.constants;
        // Both comparisons are false for NaN.
        if !(c.occlusion_strength > 0.0 && c.occlusion_radius > 0.0) {
            return 1.0;
        }
        let pixels_per_unit = 0.5 * self.size[1] / (dot(c.up, c.up).sqrt() * point.distance);
        let reach = (c.occlusion_radius * pixels_per_unit).min(OCCLUSION_REACH as f32);
        let mut hidden = 0.0;
        for offset in &self.spiral {
            let [dx, dy] = turned(*offset, x, y).map(|part| (part * reach + 0.5).floor() as i64);
            let (at_x, at_y) = (x as i64 + dx, y as i64 + dy);
            let inside = at_x >= self.area.x0 as i64
                && at_x < self.area.x1 as i64
                && at_y >= self.area.y0 as i64
                && at_y < self.area.y1 as i64;
            if !inside {
                continue;
            }
            let Some(other) = self.point(at_x as usize, at_y as usize) else { continue };
            let to_other = difference(other.position, point.position);
            let squared = dot(to_other, to_other);
            let near = 1.0 - squared / (c.occlusion_radius * c.occlusion_radius);
            if squared > 0.0 && near > 0.0 {
                let rise = dot(point.normal, to_other) / squared.sqrt();
                hidden += (rise - 0.08).max(0.0) * near;
            }
        }
        (1.0 - c.occlusion_strength * hidden / OCCLUSION_SAMPLES as f32).max(0.0)
    }

    /// Returns the shadow map texel to the upper left of a point, the offset, and the depth.
    fn shadow_place(&self, point: &Point, size: u32) -> Option<([i64; 2], [f32; 2], f32)> {
        let m = &self.constants.shadow_from_world;
        // Offset from the surface, which would otherwise shadow itself.
        let [x, y, z] = along(point.position, point.normal, 0.04);
        let [x, y, z, w] = m.apply([x, y, z, 1.0]);
        let place =
            [(x / w * 0.5 + 0.5) * size as f32 - 0.5, (0.5 - y / w * 0.5) * size as f32 - 0.5];
        let depth = z / w;
        let inside = |at: &f32| *at >= 0.0 && *at < size as f32;
        if !place.iter().all(inside) || !(0.0..1.0).contains(&depth) {
            return None;
        }
        let floor = place.map(f32::floor);
        Some((floor.map(|at| at as i64), [place[0] - floor[0], place[1] - floor[1]], depth))
    }

    /// Returns the share of the sun that reaches a point. Points outside of the map are lit.
    fn sun_visible(&self, point: &Point) -> f32 {
        let Some(shadow) = &self.shadow else { return 1.0 };
        let Some((texel, share, depth)) = self.shadow_place(point, shadow.size) else { return 1.0 };
        let lit = |x: i64, y: i64| {
            let inside = x >= shadow.area.x0 as i64
                && x < shadow.area.x1 as i64
                && y >= shadow.area.y0 as i64
                && y < shadow.area.y1 as i64;
            let open = !inside || shadow.texels[shadow.area.index(x as usize, y as usize)] >= depth;
            f32::from(u8::from(open))
        };
        // A window of 5 by 5 texels around a position between texels. The outer texels are weighted
        // by the part inside.
        let weight = |step: i64, share: f32| {
            if step == -SHADOW_REACH {
                1.0 - share
            } else if step == SHADOW_REACH + 1 {
                share
            } else {
                1.0
            }
        };
        let mut sum = 0.0;
        for row in -SHADOW_REACH..=SHADOW_REACH + 1 {
            for column in -SHADOW_REACH..=SHADOW_REACH + 1 {
                let part = weight(column, share[0]) * weight(row, share[1]);
                sum += part * lit(texel[0] + column, texel[1] + row);
            }
        }
        sum / 25.0
    }
}

/// Blinn-Phong highlight with exponent 64, by repeated squaring.
fn gloss(normal: [f32; 3], to_light: [f32; 3], to_eye: [f32; 3]) -> f32 {
    let half = normalised(along(to_light, to_eye, 1.0));
    let mut gloss = dot(normal, half).max(0.0);
    for _ in 0..6 {
        gloss *= gloss;
    }
    gloss
}

/// Returns evenly distributed points of the unit disc, rotated by the golden angle each.
fn spiral() -> [[f32; 2]; OCCLUSION_SAMPLES] {
    const COSINE: f32 = -0.737_368_9;
    const SINE: f32 = 0.675_490_3;
    let mut direction = [1.0f32, 0.0];
    std::array::from_fn(|index| {
        let radius = ((index as f32 + 0.5) / OCCLUSION_SAMPLES as f32).sqrt();
        let point = [direction[0] * radius, direction[1] * radius];
        let [x, y] = direction;
        direction = [x * COSINE - y * SINE, x * SINE + y * COSINE];
        point
    })
}

/// Rotates the spiral differently for the four pixels of a square, so that their mean has four
/// times the samples.
fn turned([x, y]: [f32; 2], pixel_x: usize, pixel_y: usize) -> [f32; 2] {
    const DIAGONAL: f32 = std::f32::consts::FRAC_1_SQRT_2;
    match (pixel_x % 2, pixel_y % 2) {
        (0, 0) => [x, y],
        (1, 0) => [-y, x],
        (0, _) => [(x - y) * DIAGONAL, (x + y) * DIAGONAL],
        _ => [(-x - y) * DIAGONAL, (x - y) * DIAGONAL],
    }
}
