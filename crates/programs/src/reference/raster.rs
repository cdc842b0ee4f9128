//! Reference of `draw`: all triangles in order, tested at every pixel in double precision.
//!
//! A pixel's ray meets the plane of a triangle at a point whose barycentric coordinates solve three
//! linear equations in clip space. The triangle covers the pixel if none of them is negative and
//! the point is in front of the eye. There is no clipping, no rounding of corners and no edge rule,
//! so pixels whose centre is close to an edge may differ from the GPU.

use super::comparison::{Compare, Expected, float_bytes, floats, word_bytes, words};
use crate::ProgramFault;
use crate::draw::{COLOUR, CULL_BACK, PRE_PASS};
use crate::layout::{decode_rgb, encode_rgb};
use std::ops::Range;

struct Corner {
    clip: [f64; 4],
    /// Normal, texture coordinates, linear colour.
    attributes: [f64; 8],
}

struct Triangle {
    corners: [Corner; 3],
    /// Adjugate of the matrix with the columns (x, y, w) of the corners.
    adjugate: [[f64; 3]; 3],
    determinant: f64,
}

/// Offsets of the constants, in `f32` words.
struct Constants(Vec<f64>);

impl Constants {
    fn new(bytes: &[u8]) -> Self {
        if !bytes.is_empty() {
            return Self(floats(bytes).into_iter().map(f64::from).collect());
        }
        let mut words = vec![0.0; 40];
        for diagonal in [0, 5, 10, 15, 16, 21, 26] {
            words[diagonal] = 1.0;
        }
        words[28..31].fill(1.0);
        words[36] = 1.0;
        Self(words)
    }

    fn row(&self, first: usize, vector: &[f64]) -> f64 {
        vector.iter().zip(&self.0[first..]).map(|(a, b)| a * b).sum()
    }
}

/// Tolerance by which a colour pass may be behind the rounded depth of a pre-pass.
const SAME_DEPTH: f64 = 1e-6;

pub(super) fn draw(args: &[u64], inputs: &[&[u8]]) -> Result<Vec<Expected>, ProgramFault> {
    let mut picture = Picture::new(args, inputs);
    for triangle in triangles(args, inputs, &picture.constants)? {
        let (columns, rows) = triangle.bounds(picture.width, picture.height);
        for y in rows {
            for x in columns.clone() {
                picture.visit(&triangle, x, y);
            }
        }
    }
    Ok(picture.expected())
}

/// The target of a draw.
struct Picture<'a> {
    args: &'a [u64],
    texture: &'a [u8],
    constants: Constants,
    width: usize,
    height: usize,
    mode: u32,
    cull_back: bool,
    depth: Vec<f32>,
    colour: Vec<u32>,
    geometry: Vec<f32>,
    light: Vec<f32>,
}

impl<'a> Picture<'a> {
    fn new(args: &'a [u64], inputs: &[&'a [u8]]) -> Self {
        let (width, height) = (args[8] as usize, args[9] as usize);
        let (mode, pixels) = (args[15] as u32 & !CULL_BACK, width * height);
        let target =
            |words: usize, of: u32| if mode == of { &inputs[6][..4 * words * pixels] } else { &[] };
        Self {
            args,
            texture: inputs[10],
            constants: Constants::new(if args[5] == 0 { &[] } else { inputs[5] }),
            width,
            height,
            mode,
            cull_back: args[15] as u32 & CULL_BACK != 0,
            depth: floats(&inputs[7][..4 * pixels]),
            colour: words(target(1, COLOUR)),
            geometry: floats(target(4, PRE_PASS)),
            light: floats(inputs[14]),
        }
    }

    /// Returns the ray through a pixel's centre, offset by `dx` and `dy` pixels.
    fn ray(&self, x: usize, y: usize, dx: f64, dy: f64) -> [f64; 3] {
        let across = (x as f64 + 0.5 + dx) / self.width as f64 * 2.0 - 1.0;
        let up = 1.0 - (y as f64 + 0.5 + dy) / self.height as f64 * 2.0;
        [across, up, 1.0]
    }

    fn visit(&mut self, triangle: &Triangle, x: usize, y: usize) {
        let pixel = y * self.width + x;
        let Some((shares, z, w)) = triangle.meet(self.ray(x, y, 0.0, 0.0), self.cull_back) else {
            return;
        };
        let old = f64::from(self.depth[pixel]);
        let passes = if self.mode == COLOUR {
            z <= old + SAME_DEPTH
        } else {
            (z as f32) < self.depth[pixel]
        };
        if !passes {
            return;
        }
        self.depth[pixel] = z as f32;
        let attributes: Vec<f64> = (0..8).map(|i| triangle.mix(shares, i)).collect();
        if self.mode == COLOUR {
            let texel = self.texel(triangle, x, y);
            let light = (self.args[14] != 0).then(|| &self.light[4 * pixel..4 * pixel + 4]);
            self.colour[pixel] = shade(&self.constants, &attributes[5..], texel, light, w);
        } else if self.mode == PRE_PASS {
            let length = attributes[..3].iter().map(|part| part * part).sum::<f64>().sqrt();
            let normal = attributes[..3].iter().map(|part| (part / length) as f32);
            self.geometry.splice(4 * pixel..4 * pixel + 3, normal);
            self.geometry[4 * pixel + 3] = w as f32;
        }
    }

    fn texel(&self, triangle: &Triangle, x: usize, y: usize) -> [f64; 3] {
        if self.args[10] == 0 {
            return [1.0; 3];
        }
        let scale = self.constants.0[36];
        let uvs = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)].map(|(dx, dy)| {
            let shares = triangle.shares(self.ray(x, y, dx, dy));
            [triangle.mix(shares, 3) * scale, triangle.mix(shares, 4) * scale]
        });
        filter(self.args, self.texture, uvs)
    }

    fn expected(self) -> Vec<Expected> {
        let pixels = self.width * self.height * 15 / 1000 + 4;
        let numbers = |absolute, outliers| Compare::Float { absolute, relative: 1e-3, outliers };
        let mut out = vec![Expected::new(7, float_bytes(&self.depth), numbers(1e-5, pixels))];
        if self.mode == COLOUR {
            let compare = Compare::Colour { step: 3, outliers: 4 * pixels };
            out.push(Expected::new(6, word_bytes(&self.colour), compare));
        } else if self.mode == PRE_PASS {
            out.push(Expected::new(6, float_bytes(&self.geometry), numbers(2e-3, 4 * pixels)));
        }
        out
    }
}

fn triangles(
    args: &[u64],
    inputs: &[&[u8]],
    constants: &Constants,
) -> Result<Vec<Triangle>, ProgramFault> {
    let indices = if args[2] == 0 { Vec::new() } else { words(inputs[2]) };
    let vertices: Vec<&[u8]> = inputs[0].chunks_exact(40).take(args[1] as usize).collect();
    let vertex = |place: u64| {
        let index = if args[2] == 0 { place as usize } else { indices[place as usize] as usize };
        vertices
            .get(index)
            .copied()
            .ok_or(ProgramFault::bad("an index names a vertex beyond vertex_count"))
    };
    (args[3]..args[3] + args[4])
        .map(|primitive| {
            let [a, b, c] = [0, 1, 2].map(|corner| vertex(3 * primitive + corner));
            Ok(Triangle::new([a?, b?, c?].map(|bytes| corner_of(bytes, constants))))
        })
        .collect()
}

fn corner_of(bytes: &[u8], constants: &Constants) -> Corner {
    let numbers: Vec<f64> = floats(&bytes[..36]).into_iter().map(f64::from).collect();
    let clip = [0, 1, 2, 3].map(|row| constants.row(4 * row, &numbers[..4]));
    let turned = [0, 1, 2].map(|row| constants.row(16 + 4 * row, &numbers[4..7]));
    let length = turned.iter().map(|part| part * part).sum::<f64>().sqrt();
    let normal = turned.map(|part| if length > 0.0 { part / length } else { part });
    let colour = [36, 37, 38].map(|byte: usize| (f64::from(bytes[byte]) / 255.0).powi(2));
    let attributes =
        [normal[0], normal[1], normal[2], numbers[7], numbers[8], colour[0], colour[1], colour[2]];
    Corner { clip, attributes }
}

impl Triangle {
    fn new(corners: [Corner; 3]) -> Self {
        let columns = [0, 1, 2].map(|i: usize| {
            let [x, y, _, w] = corners[i].clip;
            [x, y, w]
        });
        let [a, b, c] = columns;
        let adjugate = [cross(b, c), cross(c, a), cross(a, b)];
        Self { corners, adjugate, determinant: dot(a, adjugate[0]) }
    }

    /// Returns the barycentric coordinates at which a ray meets the plane, in perspective.
    fn shares(&self, ray: [f64; 3]) -> [f64; 3] {
        let shares = self.adjugate.map(|row| dot(row, ray));
        let sum: f64 = shares.iter().sum();
        shares.map(|share| share / sum)
    }

    fn meet(&self, ray: [f64; 3], cull_back: bool) -> Option<([f64; 3], f64, f64)> {
        // With y up, clockwise corners have a negative determinant.
        if self.determinant == 0.0 || (cull_back && self.determinant > 0.0) {
            return None;
        }
        let shares = self.shares(ray);
        let mixed =
            |part: usize| (0..3).map(|i| shares[i] * self.corners[i].clip[part]).sum::<f64>();
        let (z, w) = (mixed(2) / mixed(3), mixed(3));
        let inside =
            shares.iter().all(|share| *share >= 0.0) && w > 0.0 && (0.0..=1.0).contains(&z);
        inside.then_some((shares, z, w))
    }

    /// Returns the columns and rows that the triangle may cover: all if it reaches behind the eye.
    fn bounds(&self, width: usize, height: usize) -> (Range<usize>, Range<usize>) {
        if self.corners.iter().any(|corner| corner.clip[3] <= 1e-6) {
            return (0..width, 0..height);
        }
        let range = |size: usize, place: &dyn Fn(&Corner) -> f64| {
            let places = || self.corners.iter().map(|corner| place(corner) * size as f64);
            let (low, high) =
                (places().fold(f64::MAX, f64::min), places().fold(f64::MIN, f64::max));
            let low = (low.floor().max(0.0) as usize).min(size);
            low..(high.ceil().max(0.0) as usize).min(size)
        };
        (
            range(width, &|corner| (1.0 + corner.clip[0] / corner.clip[3]) / 2.0),
            range(height, &|corner| (1.0 - corner.clip[1] / corner.clip[3]) / 2.0),
        )
    }

    fn mix(&self, shares: [f64; 3], attribute: usize) -> f64 {
        (0..3).map(|i| shares[i] * self.corners[i].attributes[attribute]).sum()
    }
}

fn shade(
    constants: &Constants,
    own: &[f64],
    texel: [f64; 3],
    light: Option<&[f32]>,
    w: f64,
) -> u32 {
    let c = &constants.0;
    let haze = if c[35] > 0.0 { 1.0 - 1.0 / (1.0 + (w / c[35]).powi(4)) } else { 0.0 };
    encode_rgb([0, 1, 2].map(|i| {
        let mut value = own[i] * c[28 + i] * texel[i];
        if let Some(light) = light {
            value = value * f64::from(light[i]) + c[31] * f64::from(light[3]);
        }
        if c[37] > 0.0 {
            let x = value * c[37];
            value = x * (2.51 * x + 0.03) / (x * (2.43 * x + 0.59) + 0.14);
        }
        (value * (1.0 - haze) + c[32 + i] * haze) as f32
    }))
}

/// Filters the texture over a footprint: the pixel and its right and lower neighbours.
fn filter(args: &[u64], texture: &[u8], [uv, right, below]: [[f64; 2]; 3]) -> [f64; 3] {
    let (width, height, levels) = (args[11] as f64, args[12] as f64, args[13] as f64);
    let span = |to: [f64; 2]| [to[0] - uv[0], to[1] - uv[1]];
    let length = |span: [f64; 2]| (span[0] * width).hypot(span[1] * height);
    let mut axes = [span(right), span(below)];
    if length(axes[0]) < length(axes[1]) {
        axes.swap(0, 1);
    }
    let (long, short) = (length(axes[0]), length(axes[1]));
    let samples = (long / short.max(1.0)).ceil().clamp(1.0, 8.0);
    let reduction = (long / samples).max(1.0);
    let whole = reduction.log2().floor();
    let level = (whole + reduction / whole.exp2() - 1.0).min(levels - 1.0);
    let mut sum = [0.0; 3];
    for sample in 0..samples as usize {
        let along = (sample as f64 + 0.5) / samples - 0.5;
        let place = [uv[0] + axes[0][0] * along, uv[1] + axes[0][1] * along];
        for (level, weight) in
            [(level.floor(), 1.0 - level.fract()), (level.floor() + 1.0, level.fract())]
        {
            if weight > 0.0 {
                let light = bilinear(args, texture, place, level as u32);
                sum = [0, 1, 2].map(|i| sum[i] + weight * light[i] / samples);
            }
        }
    }
    sum
}

fn bilinear(args: &[u64], texture: &[u8], uv: [f64; 2], level: u32) -> [f64; 3] {
    let size = |level: u32| [(args[11] >> level).max(1) as i64, (args[12] >> level).max(1) as i64];
    let before: i64 = (0..level).map(|finer| size(finer)[0] * size(finer)[1]).sum();
    let [width, height] = size(level);
    let (x, y) = (uv[0] * width as f64 - 0.5, uv[1] * height as f64 - 0.5);
    let mut sum = [0.0; 3];
    for (dx, dy) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        let part =
            |at: f64, step: i64| if step == 0 { 1.0 - (at - at.floor()) } else { at - at.floor() };
        let weight = part(x, dx) * part(y, dy);
        let (column, row) =
            ((x.floor() as i64 + dx).rem_euclid(width), (y.floor() as i64 + dy).rem_euclid(height));
        let at = 4 * (before + row * width + column) as usize;
        let light =
            decode_rgb(u32::from_le_bytes([texture[at], texture[at + 1], texture[at + 2], 0]));
        sum = [0, 1, 2].map(|i| sum[i] + weight * f64::from(light[i]));
    }
    sum
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}
