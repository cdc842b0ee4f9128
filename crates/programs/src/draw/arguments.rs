//! Arguments of a draw, decoded and checked.

use super::sampler::Texture;
use crate::lanes::read_f32;
use crate::layout::{DRAW_CONSTANTS_LEN, DrawConstants};
use crate::signature::Arguments;
use crate::tile::check_image;
use crate::{ProgramFault, ProgramMemory};

/// Mode: lit and textured colour.
pub const COLOUR: u32 = 0;
/// Mode: normals and distances, input of `shade`.
pub const PRE_PASS: u32 = 1;
/// Mode: depth only, for a shadow map.
pub const DEPTH_ONLY: u32 = 2;
/// Flag in the mode: cull triangles that are anticlockwise on the screen.
pub const CULL_BACK: u32 = 0x100;

/// Maximum number of vertices and of primitives of a draw. It bounds the cost of a group.
const MAX_COUNT: u32 = 1 << 20;

/// The output of a pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Colour,
    PrePass,
    DepthOnly,
}

/// The arguments of a draw by name.
pub(super) struct Draw {
    pub(super) vertices: u64,
    pub(super) vertex_count: u32,
    pub(super) indices: u64,
    pub(super) first_primitive: u32,
    pub(super) primitive_count: u32,
    pub(super) constants: u64,
    pub(super) target: u64,
    pub(super) depth: u64,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) texture: Option<Texture>,
    pub(super) light: u64,
    pub(super) mode: Mode,
    pub(super) cull_back: bool,
}

impl Draw {
    pub(super) fn new(args: &Arguments<'_>) -> Result<Self, ProgramFault> {
        let mode = match args.u32(15) & !CULL_BACK {
            COLOUR => Mode::Colour,
            PRE_PASS => Mode::PrePass,
            DEPTH_ONLY => Mode::DepthOnly,
            _ => return Err(ProgramFault::bad("the mode of a draw does not exist")),
        };
        Ok(Self {
            vertices: args.va(0),
            vertex_count: args.u32(1),
            indices: args.va(2),
            first_primitive: args.u32(3),
            primitive_count: args.u32(4),
            constants: args.va(5),
            target: args.va(6),
            depth: args.va(7),
            width: args.u32(8),
            height: args.u32(9),
            texture: Texture::new(args.va(10), args.u32(11), args.u32(12), args.u32(13))?,
            light: args.va(14),
            mode,
            cull_back: args.u32(15) & CULL_BACK != 0,
        })
    }

    /// Returns the end of the primitive range. Both terms are at most [`MAX_COUNT`].
    pub(super) fn end_primitive(&self) -> u32 {
        self.first_primitive + self.primitive_count
    }

    pub(super) fn check(&self) -> Result<(), ProgramFault> {
        check_image(self.width, self.height)?;
        if [self.vertex_count, self.first_primitive, self.primitive_count]
            .iter()
            .any(|&n| n > MAX_COUNT)
        {
            return Err(ProgramFault::bad("a draw has more than 2^20 vertices or primitives"));
        }
        if self.indices == 0 && 3 * self.end_primitive() > self.vertex_count {
            return Err(ProgramFault::bad(
                "a draw without indices has fewer vertices than its primitives need",
            ));
        }
        if self.target == 0 && self.mode != Mode::DepthOnly {
            return Err(ProgramFault::bad("a draw that is not depth only has no target"));
        }
        Ok(())
    }

    /// Returns the bytes per pixel of the target.
    pub(super) fn target_pixel_len(&self) -> u64 {
        match self.mode {
            Mode::Colour => 4,
            Mode::PrePass => 16,
            Mode::DepthOnly => 0,
        }
    }

    pub(super) fn read_constants(
        &self,
        mem: &mut dyn ProgramMemory,
    ) -> Result<DrawConstants, ProgramFault> {
        if self.constants == 0 {
            return Ok(DrawConstants::default());
        }
        let mut words = [0.0f32; DRAW_CONSTANTS_LEN / 4];
        read_f32(mem, self.constants, &mut words)?;
        Ok(DrawConstants::from_words(&words))
    }
}
