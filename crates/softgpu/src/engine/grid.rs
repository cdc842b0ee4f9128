//! Dispatches and draws: grids of thread groups or rasteriser tiles, a bounded number per turn.
//!
//! A grid is validated when it is decoded, so an invalid one does not start. Groups run in
//! ascending order, x first. Between groups, or inside one if the node's granularity allows it, the
//! engine may switch to a queue that precedes and come back. It checks between pieces of work, so a
//! queue waits for at most one piece.

use super::executor::{Executor, is_wanted};
use super::port::ProgramPort;
use crate::granularity::{grain, parts_may_stop};
use crate::mmu::{Fault, unmapped};
use crate::running_command::{Grid, Running};
use tidegate_gpu_abi::GpuVa;
use tidegate_gpu_abi::regs::FaultKind;
use tidegate_programs::{
    CheckedDispatch, Cursor, Dispatch, DispatchCache, Grain, ProgramFault, ProgramId, validate,
};

/// The number of short groups as which any other group counts in a turn.
const SHORT_GROUPS: u32 = 4;

impl Executor {
    /// Runs the groups of one turn; fewer if another queue wants the engine.
    pub(super) fn run_groups(&mut self, grid: &mut Grid) -> Result<(), Fault> {
        let Grid { draw, program, groups, args, done, cursor, cache } = grid;
        let (config, rates) = (self.gpu.config.node_of(self.node), self.gpu.config.rates);
        let (grain, stops) = (grain(*draw, config), parts_may_stop(*draw, config));
        let dispatch = Dispatch { program: *program, groups: *groups, args };
        let dispatch = CheckedDispatch::new(&dispatch).map_err(fault_of)?;
        let [x, y, z] = groups.map(u64::from);
        let each = if dispatch.has_short_groups() { 1 } else { SHORT_GROUPS };
        let most = (self.gpu.config.groups_per_turn / each).max(1);
        let end = (x * y * z).min(*done + u64::from(most));
        let (attention, summaries) = (&self.attention, &self.summaries);
        let mut memory = ProgramPort { port: &mut self.port, space: self.work_space, fault: None };
        let mut grains_left = self.gpu.config.grains_per_turn.max(1);
        while *done < end {
            let group = [*done % x, *done / x % y, *done / (x * y)].map(|g| g as u32);
            let before = grains_left;
            // The first grain of a part needs no check.
            grains_left -= 1;
            let mut go_on = || {
                let goes_on = grains_left > 0 && !is_wanted(attention, summaries);
                grains_left -= u32::from(goes_on);
                goes_on
            };
            let ran = dispatch.run_part(group, cursor, grain, &mut go_on, cache, &mut memory);
            let ended = match ran {
                Ok(ended) => ended,
                Err(stopped) => return Err(memory.fault.unwrap_or_else(|| fault_of(stopped))),
            };
            let grains = u64::from(before - grains_left);
            let fine =
                if grain == Grain::Group { 0 } else { grains.saturating_mul(rates.grain_ns) };
            let whole = if ended { rates.group_ns } else { 0 };
            self.gpu.platform.spend_ns(fine.saturating_add(whole));
            *done += u64::from(ended);
            if grain == Grain::Group {
                grains_left = before;
            }
            if !ended || grains_left == 0 || stops && is_wanted(attention, summaries) {
                break;
            }
        }
        Ok(())
    }
}

/// Validates the grid of the command at `at` and begins it. The draw program runs for draws only.
pub(super) fn begin_grid(
    draw: bool,
    program: u32,
    groups: [u32; 3],
    args: Vec<u64>,
    at: GpuVa,
) -> Result<Option<Running>, Fault> {
    let program = ProgramId(program);
    let (cursor, cache) = (Cursor::default(), DispatchCache::default());
    let grid = Grid { draw, program, groups, args, done: 0, cursor, cache };
    if draw != (program == ProgramId::DRAW) || validate(&grid.dispatch()).is_err() {
        return Err(Fault::new(FaultKind::BadArguments, at));
    }
    Ok(Some(Running::Grid(grid)))
}

fn fault_of(stopped: ProgramFault) -> Fault {
    match stopped {
        ProgramFault::Memory { va, write, .. } => unmapped(GpuVa(va), write),
        ProgramFault::BadArguments { .. } => Fault::new(FaultKind::BadArguments, GpuVa(0)),
    }
}
