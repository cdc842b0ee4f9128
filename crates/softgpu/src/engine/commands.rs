//! Command buffers: how an engine takes the next command, and what follows the last one.
//!
//! Commands are written by untrusted processes. Each is decoded from a copy (`window`), and a
//! malformed command is a fault of its queue. A new command needs its format in `gpu-abi`, its
//! state in `running_command`, and its parts here.

use super::executor::{Executor, Outcome, Pace};
use super::grid::begin_grid;
use super::overlap::may_overlap;
use crate::mmu::Fault;
use crate::queue::{Completion, Execution, Packet, Run, RunState};
use crate::running_command::Running;
use tidegate_gpu_abi::regs::FaultKind;
use tidegate_gpu_abi::ring::NO_LOG_ENTRY;
use tidegate_gpu_abi::{Cause, Command, CommandReader, GpuVa, SignalPacket, abilities};
use tidegate_platform::Step;
use tidegate_platform::hazard::AccessKind;
use tidegate_trace::{Kind, NameId, Record};

impl Executor {
    /// Executes the next command, or a part of it.
    pub(super) fn command(
        &mut self,
        state: &mut RunState,
        work: &mut Execution,
    ) -> Result<Pace, Fault> {
        if work.is_in_flight() && !self.begins_next(work)? {
            return self.advance(state, work);
        }
        let at = work.commands.plus(u64::from(work.at));
        let bad = |_| Fault::new(FaultKind::BadPacket, at);
        (work.number, work.label) = work.latest;
        let words = self.window.fetch(&mut self.port, self.work_space, work, at)?;
        let words = &self.window.from(work.at)[..words];
        work.at += words.len() as u32 * 8;
        // A label exists for the timeline only, which must not change the times.
        if let Some(name) = CommandReader::label(words) {
            work.label = NameId(name.saturating_sub(1));
            work.latest = (work.number, work.label);
            self.tally.of(work.queue).commands += 1;
            return Ok(Pace::Light);
        }
        let command = CommandReader::decode(words).map_err(bad)?;
        // The user-mode driver puts fence commands in front of a list's commands, which keep their
        // numbers.
        let is_fence_command =
            matches!(command, Command::WaitFence { .. } | Command::SignalFence(_));
        work.number += u32::from(!is_fence_command);
        if !work.beside.is_empty() && !may_overlap(&command, work) {
            // The commands were changed after the engine had read them.
            return Err(Fault::new(FaultKind::BadPacket, at));
        }
        // A barrier costs what the engine waits for.
        if self.gpu.platform.instruments().any() && !matches!(command, Command::Barrier) {
            self.gpu.platform.spend(Step::PacketDecode);
        }
        let is_fence_write = matches!(command, Command::WriteValue { .. });
        if !abilities::runs(self.class, &command) || is_fence_write && !self.writes_fences {
            return Err(Fault::new(FaultKind::WrongEngine, at));
        }
        if is_fence_command {
            return self.fence_command(state, work, &command, at);
        }
        let is_skipped = work.skips && is_predicated(&command);
        let is_done = is_skipped || self.run_at_once(work, &command)?;
        if !is_done {
            // No command is in flight, or those in flight are beside.
            work.running = self.first_part(work, command, at)?;
        }
        work.latest = (work.number, work.label);
        if work.running.is_none() {
            self.tally.of(work.queue).commands += 1;
            return Ok(Pace::Light);
        }
        work.command_ns = None;
        if self.overlap.is_some() {
            return Ok(Pace::Light);
        }
        self.advance(state, work)
    }

    /// Executes a command that takes one step. Returns `false` without effect for any other.
    fn run_at_once(&mut self, work: &mut Execution, command: &Command) -> Result<bool, Fault> {
        match *command {
            // Everything before it is complete.
            Command::Barrier => {}
            Command::WriteValue { destination, value } => {
                self.port.write(self.work_space, destination, &value.to_le_bytes())?;
            }
            Command::Timestamp { destination } => {
                let (platform, accesses) = (&self.gpu.platform, &mut self.port.accesses);
                let kind = AccessKind::Write;
                accesses.note_single(platform, work, "timestamp", kind, destination, 8);
                let now = self.gpu.clock.now().0;
                self.port.write(self.work_space, destination, &now.to_le_bytes())?;
            }
            Command::Predicate { value_at, unless_zero } => {
                let (platform, accesses) = (&self.gpu.platform, &mut self.port.accesses);
                let (kind, bytes) = (AccessKind::Read, if value_at.0 == 0 { 0 } else { 8 });
                accesses.note_single(platform, work, "predicate", kind, value_at, bytes);
                work.skips = value_at.0 != 0 && {
                    let mut value = [0; 8];
                    self.port.mmu.read(self.work_space, value_at, &mut value)?;
                    (value != [0; 8]) == unless_zero
                };
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the state of a command that takes more than one step; `None` if it has nothing to
    /// do.
    #[inline(never)]
    fn first_part(
        &mut self,
        work: &Execution,
        command: Command,
        at: GpuVa,
    ) -> Result<Option<Running>, Fault> {
        Ok(match command {
            Command::Label { .. }
            | Command::Barrier
            | Command::WriteValue { .. }
            | Command::Timestamp { .. }
            | Command::WaitFence { .. }
            | Command::SignalFence(_)
            | Command::Predicate { .. } => None,
            Command::DispatchIndirect { program, groups_at, count_at, index, args } => {
                for (va, bytes) in
                    [(groups_at, 12), (count_at, if count_at.0 == 0 { 0 } else { 4 })]
                {
                    let (platform, accesses) = (&self.gpu.platform, &mut self.port.accesses);
                    let kind = AccessKind::Read;
                    accesses.note_single(platform, work, "indirect", kind, va, bytes);
                }
                match self.indirect_groups(groups_at, count_at, index)? {
                    Some(groups) => begin_grid(false, program, groups, args, at)?,
                    None => None,
                }
            }
            Command::Copy { source, destination, bytes }
            | Command::Resolve { source, destination, bytes } => {
                Some(Running::Copy { source, destination, left: bytes, bytes })
            }
            Command::Fill { destination, bytes, value } => {
                Some(Running::Fill { destination, left: bytes, value, bytes })
            }
            Command::Hang => Some(Running::Hang),
            Command::Timed { ns } => Some(Running::Timed { left_ns: ns, until: None, gap: false }),
            Command::Gap { ns } => Some(Running::Timed { left_ns: ns, until: None, gap: true }),
            Command::Dispatch { program, groups, args } => {
                begin_grid(false, program, groups, args, at)?
            }
            Command::Draw { program, groups, args } => begin_grid(true, program, groups, args, at)?,
        })
    }

    /// Returns the grid of an indirect dispatch; `None` if there is nothing to run.
    fn indirect_groups(
        &mut self,
        groups_at: GpuVa,
        count_at: GpuVa,
        index: u32,
    ) -> Result<Option<[u32; 3]>, Fault> {
        if count_at.0 != 0 {
            let mut count = [0; 4];
            self.port.mmu.read(self.work_space, count_at, &mut count)?;
            if index >= u32::from_le_bytes(count) {
                return Ok(None);
            }
        }
        let mut bytes = [[0; 4]; 3];
        self.port.mmu.read(self.work_space, groups_at, bytes.as_flattened_mut())?;
        let groups = bytes.map(u32::from_le_bytes);
        Ok((!groups.contains(&0)).then_some(groups))
    }

    /// Executes a bounded part of a command that takes time.
    #[inline(never)]
    fn advance(&mut self, state: &RunState, work: &mut Execution) -> Result<Pace, Fault> {
        // Signals are not held back by work.
        self.raise_held();
        self.begin_busy(state, work);
        self.port.accesses.begin(&self.gpu.platform, work);
        let Some(running) = &mut work.running else { return Ok(Pace::Light) };
        let until = match running {
            Running::Copy { source, destination, left, .. } => {
                self.copy_part(source, destination, left)?;
                None
            }
            Running::Fill { destination, left, value, .. } => {
                self.fill_part(destination, left, *value)?;
                None
            }
            Running::Grid(grid) => {
                self.run_groups(grid)?;
                None
            }
            Running::Timed { left_ns, until, .. } => self.timed_part(left_ns, until),
            Running::Hang => return Ok(self.end_with(Outcome::Hung)),
        };
        if let Some(until) = until {
            return Ok(self.end_with(Outcome::Until(until)));
        }
        if running.is_done() {
            self.end_command(work);
        }
        Ok(Pace::Heavy)
    }

    fn end_command(&mut self, work: &mut Execution) {
        self.port.accesses.flush(&self.gpu.platform);
        self.end_busy();
        self.tally.of(work.queue).commands += 1;
        work.running = None;
    }

    /// Reports a completed command buffer and goes to the next slot.
    pub(super) fn complete(&mut self, run: &mut Run) -> Result<(), Fault> {
        let Run { state, packet, .. } = run;
        let Some(Packet::Execute(work)) = packet else { return Ok(()) };
        if !work.has_fence_commands_only() {
            self.tally.of(work.queue).packets += 1;
        }
        self.record_execution(work);
        match work.completion {
            // The packet stays until its slot is finished: a fault before that is the packet's.
            Completion::Progress(value) => {
                self.log_commands(state, value, work.logged);
                self.signal_progress(state, value)?;
                self.finish_slot(state)?;
                *packet = None;
                Ok(())
            }
            Completion::Dma(id) => {
                *packet = None;
                self.finish_slot(state)?;
                self.gpu.platform.spend(Step::DmaCompletion);
                self.gpu.nodes[self.node].completed.store(u64::from(id));
                self.tally.hand_over(self.node, &mut self.gpu.cmp.lock().stats);
                self.raise(Cause(Cause::DMA_COMPLETED.0 | Cause::engine(self.node as u32).0));
                Ok(())
            }
        }
    }

    /// Signals the progress fence without a log entry.
    fn signal_progress(&mut self, state: &RunState, value: u64) -> Result<(), Fault> {
        let shape = &state.shape;
        if value == 0 || shape.progress_current.0 == 0 {
            return Ok(());
        }
        let signal = SignalPacket {
            current_value: shape.progress_current,
            monitored_value: shape.progress_monitored,
            value,
            fence_handle: 0,
            log_entry: NO_LOG_ENTRY,
        };
        let on = self.gpu.platform.instruments();
        self.signal(self.space, shape.id, &signal, None, on)?;
        if shape.progress_monitored.0 == 0 {
            // There is no MonitoredValue to compare with, so the write is always reported.
            // spec: NF-301
            self.port.note_progress();
        }
        Ok(())
    }

    fn record_execution(&self, work: &Execution) {
        let platform = &self.gpu.platform;
        let Some(lane) = platform.traced_lane_of(work.queue) else { return };
        if work.has_fence_commands_only() {
            return;
        }
        let name = NameId(work.queued.name.saturating_sub(1));
        let now_ns = platform.stamp_ns();
        let span = Record::span(lane, Kind::Execute, name, work.start_ns, now_ns);
        let span = span.queued(work.queued.at_or(work.start_ns)).linked(work.queued.link);
        platform.record(span.on_engine(self.lane));
    }
}

/// Returns whether a predicate can skip the command.
fn is_predicated(command: &Command) -> bool {
    matches!(
        command,
        Command::Copy { .. }
            | Command::Fill { .. }
            | Command::Dispatch { .. }
            | Command::DispatchIndirect { .. }
            | Command::Draw { .. }
    )
}
