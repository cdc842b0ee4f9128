//! The compute engine: dispatches of built-in programs, a few thread groups per turn.
//!
//! A dispatch is checked when it is decoded, so nothing of a bad one runs. Groups run in ascending
//! order, x first; between two of them, or in the middle of one where the node is preempted as
//! finely as that, the engine may turn to a queue that comes before it and come back. Between
//! pieces of work it looks whether anybody asks for it, so that nobody waits longer than for one.

use super::Engine;
use super::port::ProgramPort;
use super::preempt::Outlook;
use crate::boundary::{grain, parts_may_stop};
use crate::config::EngineClass;
use crate::mmu::Fault;
use crate::queue::Running;
use std::sync::Arc;
use tidegate_gpu_abi::GpuVa;
use tidegate_gpu_abi::regs::FaultKind;
use tidegate_programs::{Cursor, Dispatch, Grain, ProgramFault, ProgramId, run_part, validate};

/// Program, grid and arguments as a command has them.
pub(super) type Grid = (u32, [u32; 3], Vec<u64>);

impl Engine {
    /// Begins a dispatch; `at` is where its command stands.
    pub(super) fn begin_dispatch(
        &mut self,
        grid: Grid,
        at: GpuVa,
    ) -> Result<Option<Running>, Fault> {
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
        draw: bool,
        (program, groups, args): (u32, [u32; 3], &[u64]),
        done: &mut u64,
        cursor: &mut Cursor,
    ) -> Result<(), Fault> {
        let gpu = Arc::clone(&self.gpu);
        let (config, rates) = (gpu.config.node_of(self.node), gpu.config.rates);
        let (grain, stops) = (grain(draw, config), parts_may_stop(draw, config));
        let dispatch = Dispatch { program: ProgramId(program), groups, args };
        let [x, y, z] = groups.map(u64::from);
        let end = (x * y * z).min(*done + u64::from(self.gpu.config.groups_per_turn.max(1)));
        let outlook = Outlook { attention: &self.attention, summaries: &self.summaries };
        let mut memory = ProgramPort { port: &mut self.port, space: self.work_space, fault: None };
        let mut grains_left = gpu.config.grains_per_turn.max(1);
        while *done < end {
            let group = [*done % x, *done / x % y, *done / (x * y)].map(|g| g as u32);
            let before = grains_left;
            // A part begins with a grain that it is not asked about.
            grains_left -= 1;
            let mut go_on = || {
                let goes_on = grains_left > 0 && !outlook.is_wanted();
                grains_left -= u32::from(goes_on);
                goes_on
            };
            let ended = match run_part(&dispatch, group, cursor, grain, &mut go_on, &mut memory) {
                Ok(ended) => ended,
                Err(stopped) => return Err(memory.fault.unwrap_or_else(|| fault_of(stopped))),
            };
            let grains = u64::from(before - grains_left);
            let fine =
                if grain == Grain::Group { 0 } else { grains.saturating_mul(rates.grain_ns) };
            let whole = if ended { rates.group_ns } else { 0 };
            gpu.platform.spend_ns(fine.saturating_add(whole));
            *done += u64::from(ended);
            if grain == Grain::Group {
                grains_left = before;
            }
            if !ended || grains_left == 0 || stops && outlook.is_wanted() {
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
    Ok(Some(Running::Grid { draw, program, groups, args, done: 0, cursor: Cursor::default() }))
}

fn fault_of(stopped: ProgramFault) -> Fault {
    match stopped {
        ProgramFault::Memory { va, write: true, .. } => {
            Fault::new(FaultKind::WriteUnmapped, GpuVa(va))
        }
        ProgramFault::Memory { va, write: false, .. } => {
            Fault::new(FaultKind::ReadUnmapped, GpuVa(va))
        }
        ProgramFault::BadArguments { .. } => Fault::new(FaultKind::BadArguments, GpuVa(0)),
    }
}
