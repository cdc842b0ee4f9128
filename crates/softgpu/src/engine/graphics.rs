//! The 3D engine: draws, which are grids of tiles of the rasteriser. It can do what the others can,
//! too.

use super::Engine;
use super::compute::{Grid, begin_grid};
use crate::config::EngineClass;
use crate::mmu::Fault;
use crate::queue::Running;
use tidegate_d3dukmdt::RenderPipelineStage;
use tidegate_gpu_abi::GpuVa;
use tidegate_gpu_abi::regs::FaultKind;
use tidegate_programs::ProgramId;

impl Engine {
    /// Begins a draw; `at` is where its command stands.
    pub(super) fn begin_draw(&mut self, grid: Grid, at: GpuVa) -> Result<Option<Running>, Fault> {
        if self.class != EngineClass::ThreeD {
            return Err(Fault::new(FaultKind::WrongEngine, at));
        }
        if ProgramId(grid.0) != ProgramId::DRAW {
            return Err(Fault::new(FaultKind::BadArguments, at));
        }
        begin_grid(true, grid, at)
    }
}

/// The stage that uses the buffer which is this argument of the draw program, counted from 1.
pub(crate) fn stage_of(argument: u32) -> RenderPipelineStage {
    match argument {
        // Vertices, indices.
        1 | 3 => RenderPipelineStage::InputAssembler,
        // Constants: where vertices come to stand.
        6 => RenderPipelineStage::VertexShader,
        // Target, depth.
        7 | 8 => RenderPipelineStage::OutputMerger,
        // Texture, light.
        11 | 15 => RenderPipelineStage::PixelShader,
        _ => RenderPipelineStage::Unknown,
    }
}
