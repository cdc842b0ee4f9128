//! Coverage of triangles and interpolation of attributes.
//!
//! Corners are rounded to 1/256 of a pixel, as Direct3D specifies, and edges are integers from then
//! on. Coverage is therefore exact and independent of the tile, and triangles with a common edge
//! neither overlap nor leave a gap. A pixel whose centre is on an edge belongs to the triangle if
//! that is a top or left edge.
//!
//! The values of a pixel are computed from its own edge values, never incrementally from a
//! neighbour, because the last bits would then depend on the start of the tile.

use super::clip::{ATTRIBUTES, Corner};
use crate::ProgramFault;
use crate::tile::Tile;
use std::ops::ControlFlow;

/// Number of subpixel steps per pixel.
const SUBPIXELS: i64 = 256;

/// Maximum coordinate of a corner in pixels. It keeps twice the area of a triangle below 2^61.
const FARTHEST: f32 = 2_097_152.0;

/// A line through two corners: `a * x + b * y + c`, positive inside, in subpixel steps.
#[derive(Debug, Clone, Copy)]
struct Edge {
    a: i64,
    b: i64,
    c: i64,
    /// 0 if pixel centres on the line are covered, otherwise -1.
    bias: i64,
}

impl Edge {
    fn new(from: [i64; 2], to: [i64; 2]) -> Self {
        let (dx, dy) = (to[0] - from[0], to[1] - from[1]);
        let top_or_left = dy < 0 || (dy == 0 && dx > 0);
        Self {
            a: -dy,
            b: dx,
            c: dy * from[0] - dx * from[1],
            bias: if top_or_left { 0 } else { -1 },
        }
    }

    /// Returns the value at the centre of a pixel.
    fn at(&self, x: usize, y: usize) -> i64 {
        let centre = |pixel: usize| pixel as i64 * SUBPIXELS + SUBPIXELS / 2;
        self.a * centre(x) + self.b * centre(y) + self.c
    }
}

/// A triangle on the screen with clockwise corners.
pub(super) struct Triangle {
    /// Edge `i` is opposite of corner `i`.
    edges: [Edge; 3],
    inverse_area: f32,
    z: [f32; 3],
    inverse_w: [f32; 3],
    attributes: [[f32; ATTRIBUTES]; 3],
    first: [i64; 2],
    last: [i64; 2],
}

/// A pixel that a triangle covers.
pub(super) struct Covered {
    /// Its index among the pixels of the tile.
    pub(super) index: usize,
    /// Its depth.
    pub(super) z: f32,
    edges: [i64; 3],
}

/// Interpolated values at a pixel.
pub(super) struct Pixel {
    /// Distance in the viewing direction.
    pub(super) w: f32,
    pub(super) attributes: [f32; ATTRIBUTES],
}

/// Texture coordinates of a pixel and of its neighbours to the right and below.
pub(super) struct Footprint {
    pub(super) uv: [f32; 2],
    pub(super) right: [f32; 2],
    pub(super) below: [f32; 2],
}

impl Triangle {
    /// Returns `None` for a triangle without area, beyond the guard band, or culled.
    pub(super) fn new(
        corners: &[Corner; 3],
        width: u32,
        height: u32,
        cull_back: bool,
    ) -> Option<Self> {
        let mut order = [0, 1, 2];
        let [a, b, c] = [0, 1, 2].map(|corner: usize| screen(&corners[corner], width, height));
        let mut at = [a?, b?, c?];
        let mut area = twice_area(&at);
        if area < 0 {
            if cull_back {
                return None;
            }
            order.swap(1, 2);
            at.swap(1, 2);
            area = -area;
        }
        if area == 0 {
            return None;
        }
        let inverse_w = order.map(|corner| 1.0 / corners[corner].clip[3]);
        let bound = |axis: usize, pick: fn(i64, i64) -> i64| {
            pick(pick(at[0][axis], at[1][axis]), at[2][axis])
        };
        // The first pixel centre from the smallest coordinate, and the last up to the largest.
        let first =
            [0, 1].map(|axis| (bound(axis, i64::min) + SUBPIXELS / 2 - 1).div_euclid(SUBPIXELS));
        let last = [0, 1].map(|axis| (bound(axis, i64::max) - SUBPIXELS / 2).div_euclid(SUBPIXELS));
        Some(Self {
            edges: [Edge::new(at[1], at[2]), Edge::new(at[2], at[0]), Edge::new(at[0], at[1])],
            inverse_area: 1.0 / area as f32,
            z: std::array::from_fn(|index| corners[order[index]].clip[2] * inverse_w[index]),
            inverse_w,
            attributes: order.map(|corner| corners[corner].attributes),
            first,
            last,
        })
    }

    /// Calls `each` for every pixel of the tile that the triangle covers between the near and the
    /// far plane, row by row, until it breaks.
    pub(super) fn scan(
        &self,
        tile: Tile,
        mut each: impl FnMut(Covered) -> Result<ControlFlow<()>, ProgramFault>,
    ) -> Result<(), ProgramFault> {
        let (x0, x1) = (self.first[0].max(tile.x0 as i64), (self.last[0] + 1).min(tile.x1 as i64));
        let (y0, y1) = (self.first[1].max(tile.y0 as i64), (self.last[1] + 1).min(tile.y1 as i64));
        if x0 >= x1 {
            return Ok(());
        }
        for y in y0..y1 {
            let mut edges = self.edges.map(|edge| edge.at(x0 as usize, y as usize));
            for x in x0..x1 {
                let outside = (0..3).any(|index| edges[index] + self.edges[index].bias < 0);
                let z = self.depth(edges);
                if !outside && (0.0..=1.0).contains(&z) {
                    let covered = Covered { index: tile.index(x as usize, y as usize), z, edges };
                    if each(covered)?.is_break() {
                        return Ok(());
                    }
                }
                edges = self.step(edges, |edge| edge.a);
            }
        }
        Ok(())
    }

    /// Returns all interpolated values at a pixel.
    pub(super) fn pixel(&self, covered: &Covered) -> Pixel {
        let (weights, w) = self.weights(covered.edges);
        let attributes = std::array::from_fn(|index| self.interpolate(weights, index));
        Pixel { w, attributes }
    }

    /// Returns the texture coordinates around a pixel.
    pub(super) fn footprint(&self, covered: &Covered, pixel: &Pixel) -> Footprint {
        let uv = |edges: [i64; 3]| {
            let (weights, _) = self.weights(edges);
            [self.interpolate(weights, 3), self.interpolate(weights, 4)]
        };
        Footprint {
            uv: [pixel.attributes[3], pixel.attributes[4]],
            right: uv(self.step(covered.edges, |edge| edge.a)),
            below: uv(self.step(covered.edges, |edge| edge.b)),
        }
    }

    /// Returns the edge values of the next pixel. They are integers, so repeated steps stay exact.
    fn step(&self, edges: [i64; 3], along: fn(&Edge) -> i64) -> [i64; 3] {
        std::array::from_fn(|index| edges[index] + along(&self.edges[index]) * SUBPIXELS)
    }

    fn depth(&self, edges: [i64; 3]) -> f32 {
        let share = edges.map(|edge| edge as f32 * self.inverse_area);
        share[0] * self.z[0] + share[1] * self.z[1] + share[2] * self.z[2]
    }

    /// Returns the perspective-correct weights of the corners, and w.
    fn weights(&self, edges: [i64; 3]) -> ([f32; 3], f32) {
        let shares: [f32; 3] = std::array::from_fn(|index| {
            edges[index] as f32 * self.inverse_area * self.inverse_w[index]
        });
        let w = 1.0 / (shares[0] + shares[1] + shares[2]);
        (shares.map(|share| share * w), w)
    }

    fn interpolate(&self, weights: [f32; 3], attribute: usize) -> f32 {
        weights[0] * self.attributes[0][attribute]
            + weights[1] * self.attributes[1][attribute]
            + weights[2] * self.attributes[2][attribute]
    }
}

/// Returns a corner on the screen in subpixel steps, with y down. Returns `None` beyond the guard
/// band, which rounding can cause for very large triangles; such a triangle is skipped.
fn screen(corner: &Corner, width: u32, height: u32) -> Option<[i64; 2]> {
    let [x, y, _, w] = corner.clip;
    let across = (x / w * 0.5 + 0.5) * width as f32;
    let down = (0.5 - y / w * 0.5) * height as f32;
    let within = |pixels: f32| pixels.abs() <= FARTHEST;
    let steps = |pixels: f32| (pixels * SUBPIXELS as f32 + 0.5).floor() as i64;
    (within(across) && within(down)).then(|| [steps(across), steps(down)])
}

fn twice_area(at: &[[i64; 2]; 3]) -> i64 {
    let side = |corner: usize| [at[corner][0] - at[0][0], at[corner][1] - at[0][1]];
    let (first, second) = (side(1), side(2));
    first[0] * second[1] - first[1] * second[0]
}
