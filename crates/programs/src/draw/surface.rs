//! Target, depth and light of one tile while a group works on it, and the depth test.
//!
//! Pixels are stored only if one has changed. The target is stored before the depth, so a tile
//! whose last store faults finds the old depth when it is run again.

use super::arguments::{Draw, Mode};
use crate::tile::Tile;
use crate::{ProgramFault, ProgramMemory};

pub(super) struct Surface {
    tile: Tile,
    mode: Mode,
    target_va: u64,
    depth_va: u64,
    depth: Vec<f32>,
    colour: Vec<u32>,
    geometry: Vec<f32>,
    light: Vec<f32>,
    changed: bool,
}

impl Surface {
    pub(super) fn load(
        draw: &Draw,
        tile: Tile,
        mem: &mut dyn ProgramMemory,
    ) -> Result<Self, ProgramFault> {
        let lit = draw.mode == Mode::Colour && draw.light != 0;
        let colour =
            if draw.mode == Mode::Colour { tile.load_u32(mem, draw.target)? } else { Vec::new() };
        let geometry = if draw.mode == Mode::PrePass {
            tile.load_f32(mem, draw.target, 4)?
        } else {
            Vec::new()
        };
        Ok(Self {
            tile,
            mode: draw.mode,
            target_va: draw.target,
            depth_va: draw.depth,
            depth: tile.load_f32(mem, draw.depth, 1)?,
            colour,
            geometry,
            light: if lit { tile.load_f32(mem, draw.light, 4)? } else { Vec::new() },
            changed: false,
        })
    }

    pub(super) fn store(&self, mem: &mut dyn ProgramMemory) -> Result<(), ProgramFault> {
        if !self.changed {
            return Ok(());
        }
        match self.mode {
            Mode::Colour => self.tile.store_u32(mem, self.target_va, &self.colour)?,
            Mode::PrePass => self.tile.store_f32(mem, self.target_va, 4, &self.geometry)?,
            Mode::DepthOnly => {}
        }
        self.tile.store_f32(mem, self.depth_va, 1, &self.depth)
    }

    pub(super) fn tile(&self) -> Tile {
        self.tile
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// Depth test. Colour passes at equal depth, because it can follow a pre-pass.
    pub(super) fn passes(&self, index: usize, z: f32) -> bool {
        match self.mode {
            Mode::Colour => z <= self.depth[index],
            Mode::PrePass | Mode::DepthOnly => z < self.depth[index],
        }
    }

    pub(super) fn light(&self, index: usize) -> Option<[f32; 4]> {
        self.light.as_chunks::<4>().0.get(index).copied()
    }

    pub(super) fn put_colour(&mut self, index: usize, z: f32, colour: u32) {
        self.colour[index] = colour;
        self.put_depth(index, z);
    }

    pub(super) fn put_geometry(&mut self, index: usize, z: f32, geometry: [f32; 4]) {
        self.geometry.as_chunks_mut::<4>().0[index] = geometry;
        self.put_depth(index, z);
    }

    pub(super) fn put_depth(&mut self, index: usize, z: f32) {
        self.depth[index] = z;
        self.changed = true;
    }
}
