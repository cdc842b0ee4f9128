//! Procedural textures for `draw`: RGBA8 images with their mip levels.
//!
//! The levels are computed as in `downsample`.

use super::downsample::mean;
use super::layout::encode_rgb;

/// An image followed by its mip levels, as read by `draw`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texture {
    /// Width and height of the first level, a power of two.
    pub size: u32,
    /// Number of levels.
    pub levels: u32,
    /// The texels of all levels.
    pub texels: Vec<u32>,
}

impl Texture {
    /// Creates a texture whose first level is the linear `colour(u, v)` for coordinates from 0 to
    /// 1. `size` is rounded up to a power of two of at most 4,096.
    #[must_use]
    pub fn new(size: u32, colour: impl Fn(f32, f32) -> [f32; 3]) -> Self {
        let size = size.clamp(1, 4096).next_power_of_two();
        let place = |texel: u32| (texel as f32 + 0.5) / size as f32;
        let mut level: Vec<u32> = (0..size * size)
            .map(|texel| encode_rgb(colour(place(texel % size), place(texel / size))))
            .collect();
        let mut texels = level.clone();
        let mut side = size as usize;
        while side > 1 {
            level = halved(&level, side);
            side /= 2;
            texels.extend_from_slice(&level);
        }
        Self { size, levels: size.ilog2() + 1, texels }
    }

    /// Returns the bytes of all levels.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.texels.iter().flat_map(|texel| texel.to_le_bytes()).collect()
    }

    /// Returns squares of two colours, `cells` per row, with dark joints.
    #[must_use]
    pub fn chequer(size: u32, cells: u32, light: [f32; 3], dark: [f32; 3]) -> Self {
        Self::new(size, |u, v| {
            let (x, y) = (u * cells as f32, v * cells as f32);
            let own = if (x.floor() + y.floor()) as i32 % 2 == 0 { light } else { dark };
            let joint = [x - x.floor(), y - y.floor()].iter().any(|at| *at < 0.012 || *at > 0.988);
            let grain = 0.88 + 0.24 * noise(x * 5.0, y * 5.0, cells * 5);
            own.map(|channel| channel * grain * if joint { 0.45 } else { 1.0 })
        })
    }

    /// Returns bands along the first coordinate.
    #[must_use]
    pub fn bands(size: u32, count: u32, first: [f32; 3], second: [f32; 3]) -> Self {
        Self::new(size, |u, v| {
            let place = (u + v) * count as f32;
            let (place, step) = (place - place.floor(), 6.0 / size as f32);
            // A soft edge about two texels wide at both ends of the band.
            let share =
                ((place - 0.34) / step).clamp(0.0, 1.0) * ((0.66 - place) / step).clamp(0.0, 1.0);
            blend(first, second, share)
        })
    }

    /// Returns veins, as in stone.
    #[must_use]
    pub fn veins(size: u32, base: [f32; 3], vein: [f32; 3]) -> Self {
        Self::new(size, |u, v| {
            let mut bent = 0.0;
            let mut weight = 0.5;
            for cells in [4u32, 8, 16, 32, 64] {
                bent += weight * noise(u * cells as f32, v * cells as f32, cells);
                weight *= 0.5;
            }
            let wave = u * 2.0 + v * 2.0 + bent * 3.0;
            let distance = (wave - wave.floor() - 0.5).abs() * 2.0;
            blend(base, vein, 0.85 * (1.0 - distance) * (1.0 - distance) * (1.0 - distance))
        })
    }
}

fn halved(level: &[u32], side: usize) -> Vec<u32> {
    let half = side / 2;
    let texel = |x: usize, y: usize| level[y * side + x];
    (0..half * half)
        .map(|index| {
            let (x, y) = (2 * (index % half), 2 * (index / half));
            mean([texel(x, y), texel(x + 1, y), texel(x, y + 1), texel(x + 1, y + 1)])
        })
        .collect()
}

fn blend(from: [f32; 3], to: [f32; 3], share: f32) -> [f32; 3] {
    std::array::from_fn(|channel| from[channel] + (to[channel] - from[channel]) * share)
}

/// Returns smooth noise from 0 to 1 that repeats after `period` cells.
fn noise(x: f32, y: f32, period: u32) -> f32 {
    let cell = |at: f32| (at.floor() as i64).rem_euclid(i64::from(period)) as u32;
    let ease = |at: f32| {
        let part = at - at.floor();
        part * part * (3.0 - 2.0 * part)
    };
    let (column, row) = (cell(x), cell(y));
    let (right, below) = ((column + 1) % period, (row + 1) % period);
    let upper = [lattice(column, row), lattice(right, row)];
    let lower = [lattice(column, below), lattice(right, below)];
    let mix = |pair: [f32; 2], share: f32| pair[0] + (pair[1] - pair[0]) * share;
    mix([mix(upper, ease(x)), mix(lower, ease(x))], ease(y))
}

/// Returns a number from 0 to 1 for a lattice point.
fn lattice(x: u32, y: u32) -> f32 {
    let mut hash = x.wrapping_mul(0x8da6_b343) ^ y.wrapping_mul(0xd816_3841);
    hash = (hash ^ (hash >> 15)).wrapping_mul(0x2c1b_3c6d);
    hash = (hash ^ (hash >> 12)).wrapping_mul(0x297a_2d39);
    ((hash ^ (hash >> 15)) >> 8) as f32 / 16_777_216.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_has_the_lattice_s_numbers_at_its_points_and_their_mean_between_them() {
        let at = |x: f32, y: f32| noise(x, y, 4);
        for (x, y) in [(0, 0), (1, 0), (0, 1), (3, 2)] {
            let (column, row) = (x as f32, y as f32);
            assert_eq!(at(column, row), lattice(x, y));
            assert_eq!(at(column + 4.0, row - 4.0), lattice(x, y), "it repeats");
        }
        let mean = |numbers: &[f32]| numbers.iter().sum::<f32>() / numbers.len() as f32;
        let near = |found: f32, expected: f32| (found - expected).abs() < 1e-6;
        assert!(near(at(1.5, 2.0), mean(&[lattice(1, 2), lattice(2, 2)])));
        assert!(near(at(1.0, 2.5), mean(&[lattice(1, 2), lattice(1, 3)])));
        // The last cells are followed by the first ones.
        let corners = [lattice(3, 3), lattice(0, 3), lattice(3, 0), lattice(0, 0)];
        assert!(near(at(3.5, 3.5), mean(&corners)));
        // 3 t^2 - 2 t^3 at a quarter is 10 / 64.
        let quarter = lattice(1, 2) + (lattice(2, 2) - lattice(1, 2)) * 10.0 / 64.0;
        assert!(near(at(1.25, 2.0), quarter));
    }
}
