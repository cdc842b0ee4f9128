//! The frame of the frame-graph workload: objects, light, camera, and the content of every buffer.
//! Its dispatches, in order:
//!
//! 1. `draw` in [`DEPTH_ONLY`](super::draw::DEPTH_ONLY) of each object into the shadow map;
//! 2. `draw` in [`PRE_PASS`](super::draw::PRE_PASS) of each object into rt1;
//! 3. `shade` from rt1 into the light buffer;
//! 4. `image_gradient`, then `draw` in [`COLOUR`](super::draw::COLOUR) of each object, with the
//!    depth of 2;
//! 5. `downsample` if the target has twice the size of the picture.

use super::camera::{Camera, Matrix, along, normalised};
use super::layout::{DrawConstants, PointLight, ShadeConstants, decode_rgb};
use super::mesh::{self, Mesh};
use super::texture::Texture;

/// An object of the frame.
#[derive(Debug, Clone)]
pub struct Object {
    /// Its name, such as `"knot"`.
    pub name: &'static str,
    /// Its triangles.
    pub mesh: Mesh,
    /// Its texture.
    pub texture: Texture,
    /// Constants for the pre-pass and for colour.
    pub constants: DrawConstants,
    /// Constants for the shadow map.
    pub shadow_constants: DrawConstants,
}

/// Colours and position of the sky, as arguments of `image_gradient`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sky {
    /// Colour of the first row.
    pub top: u32,
    /// Colour at the horizon and of the fog.
    pub horizon: u32,
    /// Colour of the last row.
    pub bottom: u32,
    /// Row of the horizon.
    pub horizon_row: u32,
}

/// All inputs of the dispatches of one frame.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Width of the render target in pixels.
    pub width: u32,
    /// Height of the render target in pixels.
    pub height: u32,
    /// Side of the shadow map in texels.
    pub shadow_size: u32,
    /// The objects, in the order in which they are drawn: floor, knot, pearls, boulder.
    pub objects: Vec<Object>,
    /// Constants of `shade`.
    pub shade: ShadeConstants,
    /// The sky.
    pub sky: Sky,
}

const TO_SUN: [f32; 3] = [-0.74, 0.74, 0.34];
const TOP: u32 = colour(30, 78, 140);
const HORIZON: u32 = colour(228, 220, 206);
const EXPOSURE: f32 = 0.62;

const fn colour(red: u8, green: u8, blue: u8) -> u32 {
    u32::from_le_bytes([red, green, blue, 255])
}

impl Frame {
    /// Creates the frame at a size, with the knot rotated by `turn` radians.
    #[must_use]
    pub fn new(width: u32, height: u32, turn: f32) -> Self {
        let camera = camera(width, height);
        let sun = sun_camera();
        let place = |world: Matrix, specular: f32| DrawConstants {
            clip_from_object: camera.clip_from_world().after(&world),
            world_from_object: world,
            specular,
            fog: decode_rgb(HORIZON),
            fog_distance: 27.0,
            exposure: EXPOSURE,
            ..DrawConstants::default()
        };
        let shadow = |world: Matrix| DrawConstants {
            clip_from_object: sun.parallel_clip_from_world().after(&world),
            ..DrawConstants::default()
        };
        let object = |name, mesh, texture, world: Matrix, specular, uv_scale| Object {
            name,
            mesh,
            texture,
            constants: DrawConstants { uv_scale, ..place(world, specular) },
            shadow_constants: shadow(world),
        };
        let knot = Matrix::translation([0.0, 2.2, 0.0])
            .after(&Matrix::rotation_y(turn + 0.5))
            .after(&Matrix::rotation_x(-0.28));
        let still = Matrix::IDENTITY;
        let objects = vec![
            object("floor", mesh::ground(90.0, 24), floor_texture(), still, 0.10, 0.125),
            object("knot", mesh::torus_knot(288, 28), knot_texture(), knot, 1.1, 0.5),
            object("pearls", pearls(), pearl_texture(), still, 0.9, 1.0),
            object("boulder", boulders(), boulder_texture(), still, 0.35, 1.0),
        ];
        let shade = shade_constants(&camera, &sun);
        Self { width, height, shadow_size: 1024, objects, shade, sky: sky(&camera, height) }
    }
}

fn camera(width: u32, height: u32) -> Camera {
    Camera {
        eye: [0.4, 2.9, 7.4],
        target: [0.0, 1.75, 0.0],
        half_height: 0.42,
        aspect: width as f32 / height as f32,
        near: 0.2,
        far: 200.0,
    }
}

fn sun_camera() -> Camera {
    let target = [0.3, 1.0, 0.0];
    Camera {
        eye: along(target, normalised(TO_SUN), 16.0),
        target,
        half_height: 6.5,
        aspect: 1.0,
        near: 2.0,
        far: 34.0,
    }
}

fn sky(camera: &Camera, height: u32) -> Sky {
    let [_, up, forward] = camera.axes();
    // The horizon is where a horizontal ray meets the image plane.
    let rise = -forward[1] / (up[1] * camera.half_height);
    let row = (0.5 - 0.5 * rise) * height as f32;
    Sky { top: TOP, horizon: HORIZON, bottom: HORIZON, horizon_row: row.max(0.0) as u32 }
}

fn shade_constants(camera: &Camera, sun: &Camera) -> ShadeConstants {
    let [right, up, forward] = camera.axes();
    let lamp = |position, radius, colour| PointLight { position, radius, colour };
    ShadeConstants {
        eye: camera.eye,
        right: right.map(|axis| axis * camera.half_height * camera.aspect),
        up: up.map(|axis| axis * camera.half_height),
        forward,
        to_sun: normalised(TO_SUN),
        sun: [3.3, 2.85, 2.25],
        sky: [0.34, 0.46, 0.70],
        occlusion_radius: 0.6,
        ground: [0.24, 0.20, 0.16],
        occlusion_strength: 2.1,
        shadow_from_world: sun.parallel_clip_from_world(),
        lights: vec![
            lamp([3.1, 1.3, 2.2], 4.5, [1.6, 0.55, 0.18]),
            lamp([-3.4, 1.1, 1.2], 4.0, [0.15, 0.65, 1.5]),
            lamp([0.4, 3.6, -2.8], 5.0, [0.9, 0.3, 0.9]),
        ],
    }
}

/// Returns spheres in a half circle around the knot.
fn pearls() -> Mesh {
    let mut mesh = Mesh::default();
    let colours = [
        [214, 62, 48],
        [236, 152, 42],
        [240, 214, 86],
        [92, 178, 88],
        [52, 146, 190],
        [104, 84, 184],
    ];
    for (index, colour) in colours.into_iter().enumerate() {
        let (sine, cosine) = super::camera::sine_cosine(0.25 + 0.53 * index as f32);
        let at = [3.3 * cosine, 0.42, 2.2 * sine];
        mesh.append(&mesh::sphere(0.42, 40).coloured(colour).moved(at));
    }
    mesh
}

/// Returns large stones in the middle distance.
fn boulders() -> Mesh {
    let mut mesh = Mesh::default();
    for (radius, at) in [
        (1.25, [-5.4, 1.25, -4.6]),
        (0.8, [5.2, 0.8, -3.4]),
        (1.7, [7.6, 1.7, -9.5]),
        (1.1, [-2.6, 1.1, -11.0]),
    ] {
        mesh.append(&mesh::sphere(radius, 56).moved(at));
    }
    mesh
}

fn floor_texture() -> Texture {
    Texture::chequer(1024, 8, [0.56, 0.53, 0.48], [0.075, 0.088, 0.115])
}

fn knot_texture() -> Texture {
    Texture::bands(256, 1, [0.62, 0.075, 0.045], [0.90, 0.66, 0.30])
}

fn pearl_texture() -> Texture {
    Texture::new(64, |_, v| [0.80 + 0.2 * v; 3])
}

fn boulder_texture() -> Texture {
    Texture::veins(512, [0.60, 0.62, 0.60], [0.12, 0.15, 0.17])
}
