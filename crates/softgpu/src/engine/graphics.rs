//! The 3D engine: draws, which are grids of tiles of the rasteriser. It can do what the others can, too.

use super::Engine;
use super::compute::{Grid, begin_grid};
use crate::config::EngineClass;
use crate::mmu::Fault;
use crate::queue::Running;
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
