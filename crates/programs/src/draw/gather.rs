//! Vertex stage: the triangles that touch a tile, and their corners.
//!
//! 1. All positions are transformed to clip space, once for a draw.
//! 2. A position gets a code with one bit per side that it is beyond. A triangle whose corners
//!    share
//!    a bit misses the tile. The test is done in clip space, where it also holds for corners behind
//!    the eye, with a margin of one pixel for the rounding of later stages. The sides that a row of
//!    tiles shares are tested once for the row.
//! 3. All attributes of the remaining triangles are fetched.
//!
//! Buffers are read in large chunks. An index beyond the vertices is an error.

use super::arguments::Draw;
use super::clip::Corner;
use crate::camera::normalised;
use crate::lanes::{BLOCK, read_u32};
use crate::layout::{DrawConstants, VERTEX_LEN, Vertex, position};
use crate::tile::Tile;
use crate::{ProgramFault, ProgramMemory};

/// Number of vertices per read.
const CHUNK: usize = 512;

/// Indices of three vertices.
pub(super) type Primitive = [u32; 3];

/// The vertices and triangles that the tiles of a draw share.
pub(super) struct Geometry {
    /// Positions in clip space from vertex `first` on.
    positions: Vec<[f32; 4]>,
    first: u32,
    row: Option<Row>,
}

/// The triangles that may cover pixels of a row of tiles, in order.
struct Row {
    y0: usize,
    primitives: Vec<Primitive>,
}

impl Geometry {
    /// Loads the positions of a draw.
    pub(super) fn load(
        draw: &Draw,
        constants: &DrawConstants,
        mem: &mut dyn ProgramMemory,
    ) -> Result<Geometry, ProgramFault> {
        let range = match draw.indices {
            0 => 3 * draw.first_primitive..3 * draw.end_primitive(),
            _ => 0..draw.vertex_count,
        };
        let mut positions = Vec::with_capacity(range.len());
        let mut bytes = vec![0u8; CHUNK.min(range.len()) * VERTEX_LEN];
        for from in range.clone().step_by(CHUNK) {
            let count = (range.end - from).min(CHUNK as u32);
            let bytes = &mut bytes[..count as usize * VERTEX_LEN];
            mem.read(draw.vertices + u64::from(from) * VERTEX_LEN as u64, bytes)?;
            let vertices = bytes.as_chunks::<VERTEX_LEN>().0.iter();
            positions
                .extend(vertices.map(|bytes| constants.clip_from_object.apply(position(bytes))));
        }
        Ok(Geometry { positions, first: range.start, row: None })
    }

    /// Returns the triangles that may cover pixels of `tile`, in order.
    pub(super) fn gather(
        &mut self,
        draw: &Draw,
        tile: Tile,
        mem: &mut dyn ProgramMemory,
    ) -> Result<Vec<Primitive>, ProgramFault> {
        let sides = Sides::new(draw, tile);
        let row = match self.row.take() {
            Some(row) if row.y0 == tile.y0 => row,
            _ => Row { y0: tile.y0, primitives: self.of_row(draw, &sides, mem)? },
        };
        let code =
            |corner: u32| sides.code_in_columns(&self.positions[(corner - self.first) as usize]);
        let inside = |corners: &&Primitive| {
            let [a, b, c] = corners.map(code);
            a & b & c == 0
        };
        let kept = row.primitives.iter().filter(inside).copied().collect();
        self.row = Some(row);
        Ok(kept)
    }

    fn of_row(
        &self,
        draw: &Draw,
        sides: &Sides,
        mem: &mut dyn ProgramMemory,
    ) -> Result<Vec<Primitive>, ProgramFault> {
        let codes: Vec<u8> = self.positions.iter().map(|at| sides.code_in_rows(at)).collect();
        let primitives = draw.first_primitive..draw.end_primitive();
        if draw.indices == 0 {
            let corners = codes.as_chunks::<3>().0.iter().zip(primitives);
            let kept = corners.filter(|(code, _)| code[0] & code[1] & code[2] == 0);
            return Ok(kept
                .map(|(_, primitive)| [0, 1, 2].map(|corner| 3 * primitive + corner))
                .collect());
        }
        let mut kept = Vec::new();
        let mut indices = vec![0u32; 3 * BLOCK.min(primitives.len())];
        for primitive in primitives.clone().step_by(BLOCK) {
            let count = (primitives.end - primitive).min(BLOCK as u32);
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
        }
        Ok(kept)
    }
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

    /// The code of a position for the sides that a row of tiles shares, near and far included.
    fn code_in_rows(&self, &[_, y, z, w]: &[f32; 4]) -> u8 {
        u8::from(y < self.bottom * w)
            | u8::from(y > self.top * w) << 1
            | u8::from(z < 0.0) << 2
            | u8::from(z > w) << 3
    }

    /// The code of a position for the other sides.
    fn code_in_columns(&self, &[x, _, _, w]: &[f32; 4]) -> u8 {
        u8::from(x < self.left * w) | u8::from(x > self.right * w) << 1
    }
}
