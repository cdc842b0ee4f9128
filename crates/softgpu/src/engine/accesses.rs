//! The record of a command's memory accesses, for the platform's hazard check: the ranges that the
//! engine really loaded and stored, by GPU address.
//!
//! Only commands of the application are recorded: their submission has a link. Loads of ring slots
//! and commands, fence values and progress are not accesses of a command.

use crate::queue::Execution;
use crate::running_command::Running;
use tidegate_gpu_abi::GpuVa;
use tidegate_platform::Platform;
use tidegate_platform::hazard::{AccessKind, CommandRef, Footprint};

/// The accesses of the engine's current command.
#[derive(Default)]
pub(super) struct AccessRecorder {
    command: Option<CommandRef>,
    footprint: Footprint,
}

impl AccessRecorder {
    /// Begins or continues the record of the command that `work` runs.
    pub(super) fn begin(&mut self, platform: &Platform, work: &Execution) {
        let recorded = platform.checks_hazards() && work.queued.link.is_some();
        let command = recorded.then(|| command_of(work)).flatten();
        if self.command != command {
            self.flush(platform);
            self.command = command;
        }
    }

    /// Records an access.
    #[inline]
    pub(super) fn note(&mut self, kind: AccessKind, va: GpuVa, bytes: u64) {
        if self.command.is_some() {
            self.footprint.add(kind, va.0, bytes);
        }
    }

    /// Reports the one access of a command that takes a single step, or of a grid's arguments.
    pub(super) fn note_single(
        &mut self,
        platform: &Platform,
        work: &Execution,
        what: &'static str,
        kind: AccessKind,
        va: GpuVa,
        bytes: u64,
    ) {
        if !platform.checks_hazards() || !work.queued.link.is_some() {
            return;
        }
        self.flush(platform);
        let (link, buffer) = (work.queued.link.0, work.commands.0);
        self.command = Some(CommandRef { link, buffer, number: work.number, what, program: "" });
        self.note(kind, va, bytes);
        self.flush(platform);
    }

    /// Reports what was recorded, and ends the record.
    pub(super) fn flush(&mut self, platform: &Platform) {
        let Some(command) = self.command.take() else { return };
        let mut accesses = Vec::new();
        self.footprint.drain(|kind, range| accesses.push((kind, range)));
        platform.hazard_checker(|checker| checker.gpu_accesses(command, accesses));
    }
}

fn command_of(work: &Execution) -> Option<CommandRef> {
    let (what, program) = match work.running.as_ref()? {
        Running::Copy { .. } => ("copy", ""),
        Running::Fill { .. } => ("fill", ""),
        Running::Grid(grid) if grid.draw => ("draw", ""),
        Running::Grid(grid) => ("dispatch", grid.program.name()),
        Running::Timed { .. } | Running::Hang => return None,
    };
    let (link, buffer) = (work.queued.link.0, work.commands.0);
    Some(CommandRef { link, buffer, number: work.number, what, program })
}
