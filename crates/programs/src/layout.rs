//! Layout of colours, vertices and constants in the buffers of the drawing programs.
//!
//! Encoding and decoding are in this file, so the offset of a field is defined once. Numbers are
//! little endian. Matrices are stored by rows and applied to column vectors.

use super::camera::Matrix;

/// Size of a vertex in bytes.
pub const VERTEX_LEN: usize = 40;

/// Size of the constants of `draw` in bytes.
pub const DRAW_CONSTANTS_LEN: usize = 160;

/// Size of the constants of `shade` in bytes.
pub const SHADE_CONSTANTS_LEN: usize = 704;

/// Maximum number of point lights in the constants of `shade`.
pub const MAX_POINT_LIGHTS: usize = 16;

/// A vertex: 40 bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Vertex {
    /// Offset 0: x, y, z, w in object space, or in clip space when the draw has no constants.
    pub position: [f32; 4],
    /// Offset 16: normal in object space.
    pub normal: [f32; 3],
    /// Offset 28: texture coordinates; 1 is the width or height of the texture.
    pub uv: [f32; 2],
    /// Offset 36: red, green, blue; the fourth byte is reserved for alpha.
    pub colour: [u8; 4],
}

impl Vertex {
    /// Returns the bytes of the vertex as read by `draw`.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; VERTEX_LEN] {
        let mut bytes = [0; VERTEX_LEN];
        let numbers = self.position.iter().chain(&self.normal).chain(&self.uv);
        for (word, number) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
            *word = number.to_le_bytes();
        }
        bytes[36..].copy_from_slice(&self.colour);
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; VERTEX_LEN]) -> Self {
        let words = bytes.as_chunks::<4>().0;
        let number = |index: usize| f32::from_le_bytes(words[index]);
        Self {
            position: std::array::from_fn(number),
            normal: std::array::from_fn(|axis| number(4 + axis)),
            uv: std::array::from_fn(|axis| number(7 + axis)),
            colour: words[9],
        }
    }
}

/// Returns the position of an encoded vertex.
pub(super) fn position(bytes: &[u8; VERTEX_LEN]) -> [f32; 4] {
    let words = bytes.as_chunks::<4>().0;
    std::array::from_fn(|index| f32::from_le_bytes(words[index]))
}

/// Constants of `draw`: 160 bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DrawConstants {
    /// Offset 0: object space to clip space (x and y in -w..w, y up; z in 0..w).
    pub clip_from_object: Matrix,
    /// Offset 64: object space to world space, of which the first three rows are stored. Normals
    /// pass through its 3 by 3 part, which therefore may rotate and scale evenly.
    pub world_from_object: Matrix,
    /// Offset 112: factor on the colour.
    pub tint: [f32; 3],
    /// Offset 124: factor on highlights from the light buffer; 0 for a dull surface.
    pub specular: f32,
    /// Offset 128: fog colour, linear.
    pub fog: [f32; 3],
    /// Offset 140: distance at which the fog's share is one half; 0 for no fog.
    pub fog_distance: f32,
    /// Offset 144: factor on texture coordinates.
    pub uv_scale: f32,
    /// Offset 148: factor on light before the tone curve; 0 disables the curve.
    pub exposure: f32,
}

impl Default for DrawConstants {
    /// The constants of a draw without any: positions are in clip space and colours unchanged.
    fn default() -> Self {
        Self {
            clip_from_object: Matrix::IDENTITY,
            world_from_object: Matrix::IDENTITY,
            tint: [1.0; 3],
            specular: 0.0,
            fog: [0.0; 3],
            fog_distance: 0.0,
            uv_scale: 1.0,
            exposure: 0.0,
        }
    }
}

impl DrawConstants {
    /// Returns the bytes of the constants as read by `draw`.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Words::new();
        out.all(self.clip_from_object.0.as_flattened());
        out.all(&self.world_from_object.0.as_flattened()[..12]);
        out.all(&self.tint).all(&[self.specular]);
        out.all(&self.fog).all(&[self.fog_distance]);
        out.all(&[self.uv_scale, self.exposure, 0.0, 0.0]);
        out.bytes
    }

    pub(super) fn from_words(words: &[f32; DRAW_CONSTANTS_LEN / 4]) -> Self {
        Self {
            clip_from_object: Matrix(rows(words, 0)),
            world_from_object: Matrix([
                rows::<3>(words, 16)[0],
                rows::<3>(words, 16)[1],
                rows::<3>(words, 16)[2],
                [0.0, 0.0, 0.0, 1.0],
            ]),
            tint: triple(words, 28),
            specular: words[31],
            fog: triple(words, 32),
            fog_distance: words[35],
            uv_scale: words[36],
            exposure: words[37],
        }
    }
}

/// A point light with a limited radius.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PointLight {
    /// Position in world space.
    pub position: [f32; 3],
    /// Distance at which it has faded to 0.
    pub radius: f32,
    /// Colour and intensity, linear.
    pub colour: [f32; 3],
}

/// Constants of `shade`: 704 bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct ShadeConstants {
    /// Offset 0: position of the eye in world space.
    pub eye: [f32; 3],
    /// Offset 16: vector from the centre of the image plane at distance 1 to its right edge.
    pub right: [f32; 3],
    /// Offset 32: vector to its upper edge.
    pub up: [f32; 3],
    /// Offset 48: unit vector of the viewing direction.
    pub forward: [f32; 3],
    /// Offset 64: unit vector to the sun.
    pub to_sun: [f32; 3],
    /// Offset 80: colour and intensity of the sun, linear.
    pub sun: [f32; 3],
    /// Offset 96: light from above.
    pub sky: [f32; 3],
    /// Offset 108: radius of the occlusion term in world units.
    pub occlusion_radius: f32,
    /// Offset 112: light from below.
    pub ground: [f32; 3],
    /// Offset 124: strength of the occlusion term; 0 disables it.
    pub occlusion_strength: f32,
    /// Offset 128: world space to the clip space of the shadow map.
    pub shadow_from_world: Matrix,
    /// Offset 192, 32 bytes each. Their number, at most 16, is at offset 92.
    pub lights: Vec<PointLight>,
}

impl Default for ShadeConstants {
    /// No light and no shadow, seen from the origin along z with a right angle of view.
    fn default() -> Self {
        Self {
            eye: [0.0; 3],
            right: [1.0, 0.0, 0.0],
            up: [0.0, 1.0, 0.0],
            forward: [0.0, 0.0, 1.0],
            to_sun: [0.0, 1.0, 0.0],
            sun: [0.0; 3],
            sky: [0.0; 3],
            occlusion_radius: 0.0,
            ground: [0.0; 3],
            occlusion_strength: 0.0,
            shadow_from_world: Matrix::IDENTITY,
            lights: Vec::new(),
        }
    }
}

impl ShadeConstants {
    /// Returns the bytes of the constants as read by `shade`. Ignores lights after the sixteenth.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let lights = &self.lights[..self.lights.len().min(MAX_POINT_LIGHTS)];
        let mut out = Words::new();
        for vector in [&self.eye, &self.right, &self.up, &self.forward, &self.to_sun] {
            out.all(vector).all(&[0.0]);
        }
        out.all(&self.sun).all(&[lights.len() as f32]);
        out.all(&self.sky).all(&[self.occlusion_radius]);
        out.all(&self.ground).all(&[self.occlusion_strength]);
        out.all(self.shadow_from_world.0.as_flattened());
        for light in lights {
            out.all(&light.position).all(&[light.radius]).all(&light.colour).all(&[0.0]);
        }
        out.bytes.resize(SHADE_CONSTANTS_LEN, 0);
        out.bytes
    }

    pub(super) fn from_words(words: &[f32; SHADE_CONSTANTS_LEN / 4]) -> Self {
        // A float cast saturates, so a hostile count becomes a large one and is limited.
        let count = (words[23] as usize).min(MAX_POINT_LIGHTS);
        let lights = words[48..].as_chunks::<8>().0[..count].iter().map(|light| PointLight {
            position: [light[0], light[1], light[2]],
            radius: light[3],
            colour: [light[4], light[5], light[6]],
        });
        Self {
            eye: triple(words, 0),
            right: triple(words, 4),
            up: triple(words, 8),
            forward: triple(words, 12),
            to_sun: triple(words, 16),
            sun: triple(words, 20),
            sky: triple(words, 24),
            occlusion_radius: words[27],
            ground: triple(words, 28),
            occlusion_strength: words[31],
            shadow_from_world: Matrix(rows(words, 32)),
            lights: lights.collect(),
        }
    }
}

struct Words {
    bytes: Vec<u8>,
}

impl Words {
    fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    fn all(&mut self, numbers: &[f32]) -> &mut Self {
        self.bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        self
    }
}

fn triple(words: &[f32], first: usize) -> [f32; 3] {
    std::array::from_fn(|index| words[first + index])
}

fn rows<const N: usize>(words: &[f32], first: usize) -> [[f32; 4]; N] {
    std::array::from_fn(|row| std::array::from_fn(|column| words[first + 4 * row + column]))
}

/// Returns the linear light of an RGBA8 colour without alpha. The display curve is a square, which
/// is close to sRGB and exact on every machine.
#[must_use]
pub fn decode_rgb(colour: u32) -> [f32; 3] {
    let [red, green, blue, _] = colour.to_le_bytes();
    [red, green, blue].map(|channel| {
        let level = f32::from(channel) / 255.0;
        level * level
    })
}

/// Returns the RGBA8 colour of `light`, clamped to 0 to 1, with alpha 255.
#[must_use]
pub fn encode_rgb(light: [f32; 3]) -> u32 {
    encode_rgb_dithered(light, 0.5)
}

/// As [`encode_rgb`], but rounds up at `threshold` instead of one half.
pub(super) fn encode_rgb_dithered(light: [f32; 3], threshold: f32) -> u32 {
    // The cast truncates and converts NaN to 0.
    let [red, green, blue] =
        light.map(|channel| (channel.clamp(0.0, 1.0).sqrt() * 255.0 + threshold) as u8);
    u32::from_le_bytes([red, green, blue, 255])
}
