//! Texture filter: trilinear, with up to eight samples along the footprint's longer axis.
//!
//! A texture is RGBA8, row by row, followed by its mip levels. Each level has half the width and
//! height of the one before, rounded down, at least 1. Coordinates wrap. Filtering is in linear
//! light.
//!
//! Texels are read through a small cache of lines of 16, because a separate access per texel would
//! need a translation each time. The cache lives for one group, so a write by a copy engine is
//! visible to the next group at the latest.

use super::raster::Footprint;
use crate::layout::decode_rgb;
use crate::tile::{MAX_SIDE, check_image};
use crate::{ProgramFault, ProgramMemory};

/// Number of mip levels of the largest texture.
const MAX_LEVELS: u32 = MAX_SIDE.ilog2() + 1;

const MAX_SAMPLES: u32 = 8;
const LINE: usize = 16;
const LINES_LOG2: u32 = 9;

/// One mip level.
#[derive(Debug, Clone, Copy)]
struct Level {
    /// Number of texels before it.
    offset: u64,
    width: u32,
    height: u32,
}

/// A texture as described by the arguments.
#[derive(Debug, Clone)]
pub(super) struct Texture {
    va: u64,
    levels: Vec<Level>,
    texels: u64,
}

impl Texture {
    /// Returns `None` if `va` is 0.
    pub(super) fn new(
        va: u64,
        width: u32,
        height: u32,
        levels: u32,
    ) -> Result<Option<Self>, ProgramFault> {
        if va == 0 {
            return Ok(None);
        }
        check_image(width, height)?;
        if width == 0 || height == 0 || levels == 0 || levels > MAX_LEVELS {
            return Err(ProgramFault::bad(
                "a texture has no texels or does not have 1 to 15 levels",
            ));
        }
        let mut texture = Self { va, levels: Vec::with_capacity(levels as usize), texels: 0 };
        for level in 0..levels {
            let (width, height) = ((width >> level).max(1), (height >> level).max(1));
            texture.levels.push(Level { offset: texture.texels, width, height });
            texture.texels += u64::from(width) * u64::from(height);
        }
        Ok(Some(texture))
    }

    /// Returns the size of all levels in bytes.
    pub(super) fn len(&self) -> u64 {
        4 * self.texels
    }
}

struct CacheLine {
    /// Line number plus 1; 0 if empty.
    tag: u64,
    texels: [u32; LINE],
}

/// A texture and its cache.
pub(super) struct Sampler {
    texture: Texture,
    lines: Vec<CacheLine>,
}

impl Sampler {
    pub(super) fn new(texture: Texture) -> Self {
        let empty = || CacheLine { tag: 0, texels: [0; LINE] };
        Self { texture, lines: std::iter::repeat_with(empty).take(1 << LINES_LOG2).collect() }
    }

    /// Returns the filtered linear colour of the texture over a footprint.
    pub(super) fn sample(
        &mut self,
        footprint: Footprint,
        mem: &mut dyn ProgramMemory,
    ) -> Result<[f32; 3], ProgramFault> {
        let base = self.texture.levels[0];
        let size = [base.width as f32, base.height as f32];
        let span = |to: [f32; 2]| [to[0] - footprint.uv[0], to[1] - footprint.uv[1]];
        let length = |span: [f32; 2]| {
            let (u, v) = (span[0] * size[0], span[1] * size[1]);
            (u * u + v * v).sqrt()
        };
        let (right, below) = (span(footprint.right), span(footprint.below));
        let (axis, long, short) = if length(right) >= length(below) {
            (right, length(right), length(below))
        } else {
            (below, length(below), length(right))
        };
        // Casts saturate, so a NaN footprint takes one sample.
        let samples = ((long / short.max(1.0)).ceil() as u32).clamp(1, MAX_SAMPLES);
        let level =
            log2((long / samples as f32).max(1.0)).min((self.texture.levels.len() - 1) as f32);
        let mut sum = [0.0f32; 3];
        for sample in 0..samples {
            let along = (sample as f32 + 0.5) / samples as f32 - 0.5;
            let uv = [footprint.uv[0] + axis[0] * along, footprint.uv[1] + axis[1] * along];
            let light = self.trilinear(uv, level, mem)?;
            sum = std::array::from_fn(|channel| sum[channel] + light[channel]);
        }
        Ok(sum.map(|channel| channel / samples as f32))
    }

    fn trilinear(
        &mut self,
        uv: [f32; 2],
        level: f32,
        mem: &mut dyn ProgramMemory,
    ) -> Result<[f32; 3], ProgramFault> {
        let fine = level as usize;
        let share = level - fine as f32;
        let near = self.bilinear(uv, fine, mem)?;
        if share == 0.0 {
            return Ok(near);
        }
        let far = self.bilinear(uv, fine + 1, mem)?;
        Ok(mix(near, far, share))
    }

    fn bilinear(
        &mut self,
        uv: [f32; 2],
        level: usize,
        mem: &mut dyn ProgramMemory,
    ) -> Result<[f32; 3], ProgramFault> {
        let level = self.texture.levels[level];
        let (columns, across) = neighbours(uv[0], level.width);
        let (rows, down) = neighbours(uv[1], level.height);
        let mut lines = [[0.0f32; 3]; 2];
        for (line, row) in lines.iter_mut().zip(rows) {
            let first = level.offset + row * u64::from(level.width);
            let left = decode_rgb(self.texel(first + columns[0], mem)?);
            let right = decode_rgb(self.texel(first + columns[1], mem)?);
            *line = mix(left, right, across);
        }
        Ok(mix(lines[0], lines[1], down))
    }

    fn texel(&mut self, index: u64, mem: &mut dyn ProgramMemory) -> Result<u32, ProgramFault> {
        let number = index / LINE as u64;
        // The multiplication distributes the rows of a texture over the cache.
        let place = (number as u32).wrapping_mul(0x9e37_79b1) >> (32 - LINES_LOG2);
        let line = &mut self.lines[place as usize];
        if line.tag != number + 1 {
            let first = number * LINE as u64;
            let count = (self.texture.texels - first).min(LINE as u64) as usize;
            line.tag = 0;
            let mut bytes = [0u8; 4 * LINE];
            mem.read(self.texture.va + 4 * first, &mut bytes[..4 * count])?;
            line.texels =
                std::array::from_fn(|texel| u32::from_le_bytes(bytes.as_chunks::<4>().0[texel]));
            line.tag = number + 1;
        }
        Ok(line.texels[(index % LINE as u64) as usize])
    }
}

/// Returns the two texels next to a coordinate, and the weight of the second.
fn neighbours(coordinate: f32, size: u32) -> ([u64; 2], f32) {
    let wrapped = coordinate - coordinate.floor();
    let place = if wrapped.is_finite() { wrapped * size as f32 - 0.5 } else { 0.0 };
    let first = place.floor();
    let texel = |at: i64| at.rem_euclid(i64::from(size)) as u64;
    ([texel(first as i64), texel(first as i64 + 1)], place - first)
}

fn mix(from: [f32; 3], to: [f32; 3], share: f32) -> [f32; 3] {
    std::array::from_fn(|channel| from[channel] + (to[channel] - from[channel]) * share)
}

/// Returns a piecewise linear logarithm: exact at powers of two, accurate enough to select a level,
/// and the same on every machine.
fn log2(number: f32) -> f32 {
    let bits = number.to_bits();
    let exponent = (bits >> 23) as f32 - 127.0;
    let mantissa = f32::from_bits(bits & 0x007f_ffff | 0x3f80_0000);
    (exponent + (mantissa - 1.0)).max(0.0)
}
