//! Overlap of commands: an engine with several commands of a command buffer in flight.
//!
//! Between two parts the engine continues any command in flight, or begins the next one where
//! nothing orders it behind them. The choice is pseudo-random, so that a seed gives one order.
//!
//! Invariants
//! - A barrier, a draw, a predicate, a query and the end of the buffer wait for everything before.
//! - Copies and fills keep their order, since one unit runs them. Dispatches overlap with all.
//! - An engine that another queue calls begins nothing, so that it can leave soon.

use super::executor::Executor;
use crate::mmu::Fault;
use crate::queue::{Execution, InFlight};
use crate::running_command::Running;
use tidegate_gpu_abi::regs::FaultKind;
use tidegate_gpu_abi::{Command, CommandReader};

/// Most commands in flight.
const MOST_IN_FLIGHT: usize = 4;

impl Executor {
    /// Chooses what continues while commands are in flight. Returns whether the next command
    /// begins; else the current command is the one to continue.
    pub(super) fn begins_next(&mut self, work: &mut Execution) -> Result<bool, Fault> {
        if self.overlap.is_none() {
            return Ok(false);
        }
        let begins = !self.is_called() && self.next_may_overlap(work)?;
        let (beside, current) = (work.beside.len(), usize::from(work.running.is_some()));
        let Some(overlap) = &mut self.overlap else { return Ok(false) };
        let picked = overlap.pick(beside + current + usize::from(begins));
        if picked == beside && current == 1 {
            return Ok(false);
        }
        let resumed = (picked < beside).then(|| work.beside.swap_remove(picked));
        self.port.accesses.flush(&self.gpu.platform);
        self.end_busy();
        if let Some(running) = work.running.take() {
            let (number, label, command_ns) = (work.number, work.label, work.command_ns);
            work.beside.push(InFlight { running, number, label, command_ns });
        }
        let Some(InFlight { running, number, label, command_ns }) = resumed else {
            return Ok(true);
        };
        work.running = Some(running);
        (work.number, work.label, work.command_ns) = (number, label, command_ns);
        Ok(false)
    }

    fn next_may_overlap(&mut self, work: &Execution) -> Result<bool, Fault> {
        if work.at == work.bytes {
            return Ok(false);
        }
        let at = work.commands.plus(u64::from(work.at));
        let words = self.window.fetch(&mut self.port, self.work_space, work, at)?;
        let command = CommandReader::decode(&self.window.from(work.at)[..words]);
        let command = command.map_err(|_| Fault::new(FaultKind::BadPacket, at))?;
        Ok(may_overlap(&command, work))
    }
}

/// Returns whether a command may begin while commands of `work` are in flight.
pub(super) fn may_overlap(command: &Command, work: &Execution) -> bool {
    let in_flight = || work.beside.iter().map(|other| &other.running).chain(&work.running);
    let overlaps = |running: &Running| match running {
        Running::Copy { .. } | Running::Fill { .. } => true,
        Running::Grid(grid) => !grid.draw,
        Running::Timed { .. } | Running::Hang => false,
    };
    if in_flight().count() >= MOST_IN_FLIGHT || !in_flight().all(overlaps) {
        return false;
    }
    match command {
        Command::Dispatch { .. } | Command::DispatchIndirect { .. } | Command::Label { .. } => true,
        Command::Copy { .. } | Command::Fill { .. } => {
            in_flight().all(|running| matches!(running, Running::Grid(_)))
        }
        _ => false,
    }
}
