//! The compute engine: dispatches of built-in programs, a few thread groups per turn.
//!
//! A dispatch is checked when it is decoded, so nothing of a bad one runs. Groups run in ascending order, x first; between
//! two of them the engine may turn to a queue of higher priority and come back.

use super::Engine;
use super::port::ProgramPort;
use crate::cmp::OTHERS;
use crate::config::EngineClass;
use crate::mmu::Fault;
use crate::queue::Running;
use tidegate_gpu_abi::GpuVa;
use tidegate_gpu_abi::regs::FaultKind;
use tidegate_platform::PlatformKind;
use tidegate_programs::{Dispatch, ProgramFault, ProgramId, run_group, validate};

/// Program, grid and arguments as a command has them.
pub(super) type Grid = (u32, [u32; 3], Vec<u64>);

impl Engine {
    /// Begins a dispatch; `at` is where its command stands.
    pub(super) fn begin_dispatch(&mut self, grid: Grid, at: GpuVa) -> Result<Option<Running>, Fault> {
        if self.class == EngineClass::Copy {
            return Err(Fault::new(FaultKind::WrongEngine, at));
        }
        if ProgramId(grid.0) == ProgramId::DRAW {
            return Err(Fault::new(FaultKind::BadArguments, at));
        }
        begin_grid(false, grid, at)
    }

    /// Runs a turn's worth of groups; fewer when somebody rings, or asks for the engine, meanwhile.
    pub(super) fn run_groups(
        &mut self,
        (program, groups, args): (u32, [u32; 3], &[u64]),
        done: &mut u64,
    ) -> Result<(), Fault> {
        let dispatch = Dispatch { program: ProgramId(program), groups, args };
        let [x, y, z] = groups.map(u64::from);
        let end = (x * y * z).min(*done + u64::from(self.gpu.config.groups_per_turn.max(1)));
        let (platform, group_ns) = (&self.gpu.platform, self.gpu.config.rates.group_ns);
        // Explorations count each look as a step, and run no long grids.
        let looks = platform.kind() != PlatformKind::Explored;
        let asked = || self.attention.load() >= OTHERS || self.summaries.iter().any(|(_, s)| s.is_rung());
        let mut memory = ProgramPort { port: &mut self.port, space: self.work_space, fault: None };
        while *done < end {
            let group = [*done % x, *done / x % y, *done / (x * y)].map(|g| g as u32);
            if let Err(stopped) = run_group(&dispatch, group, &mut memory) {
                return Err(memory.fault.unwrap_or_else(|| fault_of(stopped)));
            }
            *done += 1;
            if platform.kind() == PlatformKind::Virtual {
                platform.busy(group_ns);
            }
            if looks && asked() {
                break;
            }
        }
        Ok(())
    }
}

/// Checks a grid and begins it.
pub(super) fn begin_grid(
    draw: bool,
    (program, groups, args): Grid,
    at: GpuVa,
) -> Result<Option<Running>, Fault> {
    let dispatch = Dispatch { program: ProgramId(program), groups, args: &args };
    validate(&dispatch).map_err(|_| Fault::new(FaultKind::BadArguments, at))?;
    Ok(Some(Running::Grid { draw, program, groups, args, done: 0 }))
}

fn fault_of(stopped: ProgramFault) -> Fault {
    match stopped {
        ProgramFault::Memory { va, write: true, .. } => Fault::new(FaultKind::WriteUnmapped, GpuVa(va)),
        ProgramFault::Memory { va, write: false, .. } => Fault::new(FaultKind::ReadUnmapped, GpuVa(va)),
        ProgramFault::BadArguments { .. } => Fault::new(FaultKind::BadArguments, GpuVa(0)),
    }
}
