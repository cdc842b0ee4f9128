//! Vertex stage: the triangles that touch a tile, and their corners.
//!
//! 1. Positions are transformed to clip space. Each gets a code with one bit per side of the tile
//!    that it is beyond.
//! 2. A triangle whose corners share a bit misses the tile. The test is done in clip space, where
//!    it also holds for corners behind the eye, with a margin of one pixel for the rounding of
//!    later stages.
//! 3. All attributes of the remaining triangles are fetched.
//!
//! Buffers are read in large chunks. An index beyond the vertices is an error.

use super::arguments::Draw;
use super::clip::Corner;
use crate::camera::{Matrix, normalised};
use crate::lanes::{BLOCK, read_u32};
use crate::layout::{DrawConstants, VERTEX_LEN, Vertex, position};
use crate::tile::Tile;
use crate::{ProgramFault, ProgramMemory};

/// Number of vertices per read.
const CHUNK: usize = 512;

/// Indices of three vertices.
pub(super) type Primitive = [u32; 3];

/// Returns the triangles that may cover pixels of `tile`, in order.
pub(super) fn gather(
    draw: &Draw,
    clip_from_object: &Matrix,
    tile: Tile,
    mem: &mut dyn ProgramMemory,
) -> Result<Vec<Primitive>, ProgramFault> {
    let sides = Sides::new(draw, tile);
    if draw.indices == 0 {
        let codes = codes(
            draw,
            draw.first_primitive * 3..draw.end_primitive() * 3,
            clip_from_object,
            &sides,
            mem,
        )?;
        let corners = codes.as_chunks::<3>().0.iter().zip(draw.first_primitive..);
        let kept = corners.filter(|(code, _)| code[0] & code[1] & code[2] == 0);
        return Ok(kept
            .map(|(_, primitive)| [0, 1, 2].map(|corner| 3 * primitive + corner))
            .collect());
    }
    let codes = codes(draw, 0..draw.vertex_count, clip_from_object, &sides, mem)?;
    let mut kept = Vec::new();
    let mut indices = [0u32; 3 * BLOCK];
    let mut primitive = draw.first_primitive;
    while primitive < draw.end_primitive() {
        let count = (draw.end_primitive() - primitive).min(BLOCK as u32);
        let indices = &mut indices[..3 * count as usize];
        read_u32(mem, draw.indices + 12 * u64::from(primitive), indices)?;
        for corners in indices.as_chunks::<3>().0 {
            let code = |corner: usize| codes.get(corners[corner] as usize).copied();
            let (Some(a), Some(b), Some(c)) = (code(0), code(1), code(2)) else {
                return Err(ProgramFault::bad(
                    "an index of a draw names a vertex beyond vertex_count",
                ));
            };
            if a & b & c == 0 {
                kept.push(*corners);
            }
        }
        primitive += count;
    }
    Ok(kept)
}

/// Returns the corners of one triangle with all interpolated values.
pub(super) fn fetch(
    draw: &Draw,
    constants: &DrawConstants,
    primitive: &Primitive,
    mem: &mut dyn ProgramMemory,
) -> Result<[Corner; 3], ProgramFault> {
    let mut corners = [Corner::default(); 3];
    for (corner, &index) in corners.iter_mut().zip(primitive) {
        let mut bytes = [0; VERTEX_LEN];
        mem.read(draw.vertices + u64::from(index) * VERTEX_LEN as u64, &mut bytes)?;
        let vertex = Vertex::from_bytes(&bytes);
        let normal = normalised(constants.world_from_object.turn(vertex.normal));
        let [red, green, blue] = crate::layout::decode_rgb(u32::from_le_bytes(vertex.colour));
        *corner = Corner {
            clip: constants.clip_from_object.apply(vertex.position),
            attributes: [
                normal[0],
                normal[1],
                normal[2],
                vertex.uv[0],
                vertex.uv[1],
                red,
                green,
                blue,
            ],
        };
    }
    Ok(corners)
}

/// The sides of a tile as factors of w.
struct Sides {
    left: f32,
    right: f32,
    bottom: f32,
    top: f32,
}

impl Sides {
    fn new(draw: &Draw, tile: Tile) -> Self {
        let (width, height) = (draw.width as f32, draw.height as f32);
        Self {
            left: 2.0 * (tile.x0 as f32 - 1.0) / width - 1.0,
            right: 2.0 * (tile.x1 as f32 + 1.0) / width - 1.0,
            bottom: 1.0 - 2.0 * (tile.y1 as f32 + 1.0) / height,
            top: 1.0 - 2.0 * (tile.y0 as f32 - 1.0) / height,
        }
    }

    fn code(&self, [x, y, z, w]: [f32; 4]) -> u8 {
        u8::from(x < self.left * w)
            | u8::from(x > self.right * w) << 1
            | u8::from(y < self.bottom * w) << 2
            | u8::from(y > self.top * w) << 3
            | u8::from(z < 0.0) << 4
            | u8::from(z > w) << 5
    }
}

fn codes(
    draw: &Draw,
    range: std::ops::Range<u32>,
    clip_from_object: &Matrix,
    sides: &Sides,
    mem: &mut dyn ProgramMemory,
) -> Result<Vec<u8>, ProgramFault> {
    let mut codes = Vec::new();
    let mut bytes = vec![0u8; CHUNK.min(range.len()) * VERTEX_LEN];
    let mut vertex = range.start;
    while vertex < range.end {
        let count = (range.end - vertex).min(CHUNK as u32);
        let bytes = &mut bytes[..count as usize * VERTEX_LEN];
        mem.read(draw.vertices + u64::from(vertex) * VERTEX_LEN as u64, bytes)?;
        let vertices = bytes.as_chunks::<VERTEX_LEN>().0.iter();
        codes.extend(vertices.map(|bytes| sides.code(clip_from_object.apply(position(bytes)))));
        vertex += count;
    }
    Ok(codes)
}
