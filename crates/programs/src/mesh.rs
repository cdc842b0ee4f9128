//! Procedural geometry for `draw`: vertices and indices of knots, spheres, grounds and boxes.
//!
//! Triangles are clockwise on the screen when seen from outside, which is the front in Direct3D, so
//! [`CULL_BACK`](super::draw::CULL_BACK) does not change closed meshes. Vertices are computed in
//! double precision with the host's sine and rounded once; no program executes this code.

use super::camera::{cross, difference, normalised};
use super::layout::{VERTEX_LEN, Vertex};
use std::f64::consts::TAU;

const WHITE: [u8; 4] = [255; 4];

/// Indexed triangles.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mesh {
    /// The vertices.
    pub vertices: Vec<Vertex>,
    /// Three per triangle.
    pub indices: Vec<u32>,
}

impl Mesh {
    /// Returns the number of triangles.
    #[must_use]
    pub fn primitives(&self) -> usize {
        self.indices.len() / 3
    }

    /// Returns the vertex buffer, 40 bytes per vertex.
    #[must_use]
    pub fn vertex_bytes(&self) -> Vec<u8> {
        vertex_bytes(&self.vertices)
    }

    /// Returns the index buffer, 32 bits per index.
    #[must_use]
    pub fn index_bytes(&self) -> Vec<u8> {
        self.indices.iter().flat_map(|index| index.to_le_bytes()).collect()
    }

    /// Returns the vertices of all triangles in sequence, for a draw without indices.
    #[must_use]
    pub fn unindexed(&self) -> Vec<Vertex> {
        self.indices.iter().map(|&index| self.vertices[index as usize]).collect()
    }

    /// Returns the mesh in one colour.
    #[must_use]
    pub fn coloured(mut self, colour: [u8; 3]) -> Self {
        for vertex in &mut self.vertices {
            vertex.colour = [colour[0], colour[1], colour[2], 255];
        }
        self
    }

    /// Returns the mesh translated by `offset`.
    #[must_use]
    pub fn moved(mut self, offset: [f32; 3]) -> Self {
        for vertex in &mut self.vertices {
            for (coordinate, offset) in vertex.position.iter_mut().zip(offset) {
                *coordinate += offset;
            }
        }
        self
    }

    /// Appends the triangles of another mesh.
    pub fn append(&mut self, other: &Self) {
        let first = self.vertices.len() as u32;
        self.vertices.extend_from_slice(&other.vertices);
        self.indices.extend(other.indices.iter().map(|index| first + index));
    }
}

/// Encodes vertices as read by `draw`.
#[must_use]
pub fn vertex_bytes(vertices: &[Vertex]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(vertices.len() * VERTEX_LEN);
    for vertex in vertices {
        bytes.extend_from_slice(&vertex.to_bytes());
    }
    bytes
}

/// Returns a tube of radius 0.42 along a (2, 3) torus knot of radius 2 in the plane of x and y. It
/// has `segments` rings of `ring` quads; 256 and 24 look round.
#[must_use]
pub fn torus_knot(segments: u32, ring: u32) -> Mesh {
    let centre = |angle: f64| {
        let radius = 1.25 + 0.55 * (3.0 * angle).cos();
        [radius * (2.0 * angle).cos(), radius * (2.0 * angle).sin(), -0.75 * (3.0 * angle).sin()]
    };
    grid(segments, ring, |along, around| {
        let angle = along * TAU;
        let (here, ahead) = (centre(angle), centre(angle + 1e-4));
        let forward: [f64; 3] = std::array::from_fn(|axis| ahead[axis] - here[axis]);
        let outward: [f64; 3] = std::array::from_fn(|axis| ahead[axis] + here[axis]);
        let side = unit(cross_wide(forward, outward));
        let top = unit(cross_wide(side, forward));
        let (sine, cosine) = (around * TAU).sin_cos();
        let normal: [f64; 3] = std::array::from_fn(|axis| side[axis] * cosine + top[axis] * sine);
        let position = std::array::from_fn(|axis| here[axis] + 0.42 * normal[axis]);
        vertex(position, normal, [along * 24.0, around * 4.0])
    })
}

/// Returns a ring of radius `major` in the plane of x and z, with a tube of radius `minor`.
#[must_use]
pub fn torus(major: f32, minor: f32, segments: u32, ring: u32) -> Mesh {
    let (major, minor) = (f64::from(major), f64::from(minor));
    grid(segments, ring, |along, around| {
        let ((sine, cosine), (up, out)) = ((along * TAU).sin_cos(), (around * TAU).sin_cos());
        let normal = [out * cosine, up, out * sine];
        let radius = major + minor * out;
        vertex([radius * cosine, minor * up, radius * sine], normal, [along * 8.0, around * 2.0])
    })
}

/// Returns a sphere around the origin with `segments` quads around and half as many in height.
#[must_use]
pub fn sphere(radius: f32, segments: u32) -> Mesh {
    let radius = f64::from(radius);
    grid(segments, segments.div_ceil(2), |along, around| {
        let ((sine, cosine), (height, out)) =
            ((along * TAU).sin_cos(), ((around - 0.5) * TAU / 2.0).sin_cos());
        let normal = [out * cosine, height, out * sine];
        vertex(normal.map(|axis| axis * radius), normal, [along * 2.0, 1.0 - around])
    })
}

/// Returns a square in the plane of x and z around the origin that extends `size` in each
/// direction. Texture coordinates increase by one per unit of length.
#[must_use]
pub fn ground(size: f32, divisions: u32) -> Mesh {
    let size = f64::from(size);
    grid(divisions, divisions, |along, across| {
        let (x, z) = ((2.0 * along - 1.0) * size, (1.0 - 2.0 * across) * size);
        vertex([x, 0.0, z], [0.0, 1.0, 0.0], [x, z])
    })
}

/// Returns hills on a square that extends `size` in each direction, at most `height` high.
#[must_use]
pub fn terrain(size: f32, height: f32, divisions: u32) -> Mesh {
    let (size, height) = (f64::from(size), f64::from(height));
    let level = |x: f64, z: f64| {
        let broad = (x * 3.1).sin() * (z * 2.7 + 0.8).cos();
        let fine = (x * 8.3 + z * 5.9).sin() * 0.3 + (z * 11.7 - x * 4.1).cos() * 0.2;
        height * (0.5 + 0.5 * (broad + fine) / 1.5)
    };
    grid(divisions, divisions, |along, across| {
        let (x, z) = (2.0 * along - 1.0, 1.0 - 2.0 * across);
        let slope =
            |dx: f64, dz: f64| (level(x + dx, z + dz) - level(x - dx, z - dz)) / (2e-3 * size);
        let normal = unit([-slope(1e-3, 0.0), 1.0, -slope(0.0, 1e-3)]);
        vertex([x * size, level(x, z), z * size], normal, [x * size, z * size])
    })
}

/// Returns a box around the origin with the half-lengths `half`.
#[must_use]
pub fn cuboid(half: [f32; 3]) -> Mesh {
    let mut mesh = Mesh::default();
    for axis in 0..3 {
        for sign in [-1.0, 1.0] {
            let mut outward = [0.0f32; 3];
            outward[axis] = sign;
            let across = [outward[1], outward[2], outward[0]];
            let up = cross(outward, across);
            mesh.append(&face(outward, across, up, half));
        }
    }
    mesh
}

fn face(outward: [f32; 3], across: [f32; 3], up: [f32; 3], half: [f32; 3]) -> Mesh {
    let corner = |u: f32, v: f32| {
        let at: [f32; 3] = std::array::from_fn(|axis| {
            (outward[axis] + across[axis] * u + up[axis] * v) * half[axis]
        });
        let uv = [0.5 + 0.5 * u, 0.5 - 0.5 * v];
        Vertex { position: [at[0], at[1], at[2], 1.0], normal: outward, uv, colour: WHITE }
    };
    let vertices = vec![corner(-1.0, -1.0), corner(-1.0, 1.0), corner(1.0, 1.0), corner(1.0, -1.0)];
    Mesh { vertices, indices: vec![0, 1, 2, 0, 2, 3] }
}

/// Returns a sheet of `columns` by `rows` quads whose vertices are `at(u, v)` for parameters from 0
/// to 1. On the front, u points to the right and v up.
fn grid(columns: u32, rows: u32, at: impl Fn(f64, f64) -> Vertex) -> Mesh {
    let (columns, rows) = (columns.max(1), rows.max(1));
    let mut mesh = Mesh::default();
    for row in 0..=rows {
        for column in 0..=columns {
            let (u, v) = (f64::from(column) / f64::from(columns), f64::from(row) / f64::from(rows));
            mesh.vertices.push(at(u, v));
        }
    }
    for row in 0..rows {
        for column in 0..columns {
            let lower = row * (columns + 1) + column;
            let upper = lower + columns + 1;
            mesh.push_facing([lower, upper, upper + 1]);
            mesh.push_facing([lower, upper + 1, lower + 1]);
        }
    }
    mesh
}

impl Mesh {
    /// Adds a triangle, clockwise as seen from the side of its normals. Triangles without area, as
    /// at the poles of a sphere, are skipped.
    fn push_facing(&mut self, [a, b, c]: [u32; 3]) {
        let corner = |index: u32| {
            let [x, y, z, _] = self.vertices[index as usize].position;
            [x, y, z]
        };
        let face = cross(difference(corner(b), corner(a)), difference(corner(c), corner(a)));
        let normals = [a, b, c].map(|index| self.vertices[index as usize].normal);
        let facing: f32 =
            normals.iter().map(|normal| super::camera::dot(normalised(face), *normal)).sum();
        if facing != 0.0 {
            self.indices.extend(if facing < 0.0 { [a, b, c] } else { [a, c, b] });
        }
    }
}

fn vertex(position: [f64; 3], normal: [f64; 3], uv: [f64; 2]) -> Vertex {
    let [x, y, z] = position.map(|axis| axis as f32);
    Vertex {
        position: [x, y, z, 1.0],
        normal: unit(normal).map(|axis| axis as f32),
        uv: uv.map(|coordinate| coordinate as f32),
        colour: WHITE,
    }
}

fn unit(vector: [f64; 3]) -> [f64; 3] {
    let length = vector.iter().map(|axis| axis * axis).sum::<f64>().sqrt();
    vector.map(|axis| axis / length)
}

fn cross_wide(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}
