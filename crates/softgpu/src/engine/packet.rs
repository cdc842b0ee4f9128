//! Ring slots and command buffers: how an engine takes the next of either, and what follows when
//! one is done.
//!
//! The order that matters: a slot's 64 bytes are copied out once and decoded from the copy, and so
//! is each command; the read pointer moves when the slot is no longer needed. Slots and commands
//! are written by untrusted processes and may change at any moment: nothing is read twice, and
//! whatever makes no sense is a fault of its queue.

use super::fence::Signal;
use super::{Engine, Pace};
use crate::doorbell::Heard;
use crate::mmu::{Fault, Space};
use crate::queue::{
    Completion, ContextKey, Execution, Packet, PendingWait, Run, RunState, Running,
};
use crate::save::{self, SYSTEM_PROCESS};
use tidegate_d3dukmdt::FenceWait;
use tidegate_gpu_abi::command::MAX_COMMAND_WORDS;
use tidegate_gpu_abi::regs::FaultKind;
use tidegate_gpu_abi::ring::{DmaFlags, NO_LOG_ENTRY};
use tidegate_gpu_abi::{
    AddressSpaceId, Cause, Command, CommandReader, GpuTime, GpuVa, QueueKind, RingPacket,
    SLOT_BYTES,
};
use tidegate_platform::{QueueNumber, Step, Untrusted};
use tidegate_trace::{Kind, NameId, Record};

/// The part of a command buffer that was copied out last.
pub(super) struct Window {
    words: [u64; MAX_COMMAND_WORDS],
    /// Byte offset of the first word in its buffer, and how many words there are.
    start: u32,
    len: usize,
}

impl Default for Window {
    fn default() -> Window {
        Window { words: [0; MAX_COMMAND_WORDS], start: 0, len: 0 }
    }
}

impl Window {
    /// Nothing copied out is good any more: another buffer, or another turn.
    pub(super) fn forget(&mut self) {
        self.len = 0;
    }

    /// The words that were copied out from offset `at` on.
    fn from(&self, at: u32) -> &[u64] {
        let skip = (at.wrapping_sub(self.start) / 8) as usize;
        if at < self.start || skip >= self.len { &[] } else { &self.words[skip..self.len] }
    }
}

impl Execution {
    /// Whether no command is left.
    pub(super) fn is_done(&self) -> bool {
        self.at == self.bytes && self.running.is_none()
    }

    /// The id to report for a DMA packet.
    pub(crate) fn submission_fence_id(&self) -> Option<u32> {
        match self.completion {
            Completion::Dma(id) => Some(id),
            Completion::Progress(_) => None,
        }
    }
}

impl Engine {
    /// Takes the next ring slot, if there is one.
    pub(super) fn next_slot(&mut self, run: &mut Run) -> Result<Pace, Fault> {
        let state = &mut run.state;
        let ring_space = state.shape.ring_space(self.space);
        if std::mem::take(&mut state.reread) {
            let slot = self.port.mmu.load_slot(ring_space, state.shape.write_pointer())?;
            let written = Untrusted::new(self.port.mmu.to_load(slot).cell.word());
            state.publish(written.load_once())?;
        }
        if let Some(last) = state.last_ring.take() {
            state.ring(last)?;
        }
        if state.taken == state.known
            && let Some(doorbell) = &state.doorbell
        {
            // A ring that another queue's was written over has set a bit of the summary, which is
            // looked at next.
            if let Heard::Pointer(rung) = doorbell.read() {
                state.ring(rung)?;
            }
        }
        if state.taken == state.known {
            return Ok(Pace::Empty);
        }
        self.gpu.platform.spend(Step::RingFetch);
        let at = state.shape.ring.plus(state.taken % state.shape.slots * SLOT_BYTES);
        let mut packet = self.read_slot(ring_space, at)?;
        if matches!(packet, RingPacket::ExecuteDma { .. }) && state.shape.kind == QueueKind::User {
            return Err(Fault::new(FaultKind::BadPacket, at));
        }
        if self.gpu.platform.fault("double fetch") {
            packet = self.read_slot(ring_space, at)?;
        }
        self.begin(run, packet)
    }

    fn read_slot(&mut self, ring_space: Space, at: GpuVa) -> Result<RingPacket, Fault> {
        let mut bytes = [0; SLOT_BYTES as usize];
        self.port.mmu.read_piece(ring_space, at, &mut bytes)?;
        RingPacket::decode(&bytes).map_err(|_| Fault::new(FaultKind::BadPacket, at))
    }

    /// Begins a packet that the queue may hold.
    fn begin(&mut self, run: &mut Run, packet: RingPacket) -> Result<Pace, Fault> {
        match packet {
            RingPacket::Nop => self.finish_slot(&mut run.state)?,
            RingPacket::Wait { current_value, value, epoch, fence_handle, log_entry } => {
                let wait = PendingWait {
                    current_value,
                    wait: FenceWait { value, epoch },
                    fence_handle,
                    log_entry,
                    queued: self.take_queued(&run.state),
                    observed: GpuTime(0),
                    head_ns: 0,
                    satisfied: false,
                };
                return self.first_wait(run, wait);
            }
            RingPacket::Signal {
                current_value,
                monitored_value,
                value,
                fence_handle,
                log_entry,
            } => {
                let signal =
                    Signal { current_value, monitored_value, value, fence_handle, log_entry };
                self.signal_packet(&mut run.state, signal)?;
                self.finish_slot(&mut run.state)?;
            }
            RingPacket::Execute { commands, bytes, progress } => {
                let shape = &run.state.shape;
                let owner = (shape.address_space, shape.number);
                self.work_space = self.space;
                self.begin_commands(run, (commands, bytes), owner, Completion::Progress(progress));
            }
            RingPacket::ExecuteLogged { commands, bytes, progress, log_entry } => {
                let shape = &run.state.shape;
                let owner = (shape.address_space, shape.number);
                self.work_space = self.space;
                self.begin_commands(run, (commands, bytes), owner, Completion::Progress(progress));
                if let Some(Packet::Execute(work)) = &mut run.packet {
                    work.logged = Some((log_entry, self.gpu.clock.now()));
                }
            }
            RingPacket::ExecuteDma {
                commands,
                bytes,
                address_space,
                submission_fence_id,
                os_handle,
                save_area,
                flags,
            } => {
                let (own, system) = {
                    let cmp = self.gpu.cmp.lock();
                    let space = |id| cmp.space(id, self.physical_gpu);
                    (space(address_space), space(SYSTEM_PROCESS))
                };
                let physical = flags.contains(DmaFlags::PHYSICAL);
                self.work_space = if physical { Space::PHYSICAL } else { own };
                self.switch_to(ContextKey::of_packet(address_space, QueueNumber(os_handle)));
                let owner = (address_space, QueueNumber(os_handle));
                let completion = Completion::Dma(submission_fence_id);
                self.begin_commands(run, (commands, bytes), owner, completion);
                return self.enter_packet(run, (physical, save_area), flags, system);
            }
        }
        Ok(Pace::Light)
    }

    /// A DMA packet was begun: its state is loaded if it was preempted. One without commands is
    /// there for its context alone.
    fn enter_packet(
        &mut self,
        run: &mut Run,
        (physical, save_area): (bool, GpuVa),
        flags: DmaFlags,
        system: Space,
    ) -> Result<Pace, Fault> {
        let Some(Packet::Execute(work)) = &mut run.packet else { return Ok(Pace::Light) };
        (work.physical, work.save_area) = (physical, save_area);
        if flags.contains(DmaFlags::RESUME) && save_area.0 != 0 {
            run.left_ns =
                save::load(&mut self.port.mmu, system, work, self.gpu.platform.stamp_ns())?;
            self.record_return(run);
        }
        let Some(Packet::Execute(work)) = &run.packet else { return Ok(Pace::Light) };
        if work.is_done() {
            self.complete(run)?;
        }
        Ok(Pace::Light)
    }

    fn begin_commands(
        &mut self,
        run: &mut Run,
        (commands, bytes): (GpuVa, u32),
        (address_space, queue): (AddressSpaceId, QueueNumber),
        completion: Completion,
    ) {
        let platform = &self.gpu.platform;
        self.window.forget();
        run.packet = Some(Packet::Execute(Execution {
            commands,
            bytes,
            at: 0,
            number: 0,
            address_space,
            physical: false,
            save_area: GpuVa(0),
            completion,
            queue,
            queued: platform.take_queued(queue, completion.key()),
            start_ns: if platform.tracing() { platform.stamp_ns() } else { 0 },
            label: NameId::NONE,
            running: None,
            command_ns: None,
            logged: None,
        }));
    }

    /// Executes the next command, or a part of it.
    pub(super) fn command(
        &mut self,
        state: &RunState,
        work: &mut Execution,
    ) -> Result<Pace, Fault> {
        if work.running.is_some() {
            return self.advance(state, work);
        }
        let at = work.commands.plus(u64::from(work.at));
        let bad = |_| Fault::new(FaultKind::BadPacket, at);
        work.number += 1;
        let words = self.fetch(work, at)?;
        let command = CommandReader::decode(&self.window.from(work.at)[..words]).map_err(bad)?;
        work.at += words as u32 * 8;
        // A label is there only while somebody looks, and looking must not change the times.
        if !matches!(command, Command::Label { .. }) {
            self.gpu.platform.spend(Step::PacketDecode);
        }
        work.running = match command {
            Command::Label { name } => {
                work.number -= 1;
                work.label = NameId(name.saturating_sub(1));
                None
            }
            Command::WriteValue { .. } if !self.writes_fences => {
                return Err(Fault::new(FaultKind::WrongEngine, at));
            }
            Command::WriteValue { destination, value } => {
                self.port.write(self.work_space, destination, &value.to_le_bytes())?;
                None
            }
            Command::Copy { source, destination, bytes } => {
                Some(Running::Copy { source, destination, left: bytes, bytes })
            }
            Command::Fill { destination, bytes, value } => {
                Some(Running::Fill { destination, left: bytes, value, bytes })
            }
            Command::Hang => Some(Running::Hang),
            Command::Timed { ns } => Some(Running::Timed { left_ns: ns, until: None, gap: false }),
            Command::Gap { ns } => Some(Running::Timed { left_ns: ns, until: None, gap: true }),
            Command::Dispatch { program, groups, args } => {
                self.begin_dispatch((program, groups, args), at)?
            }
            Command::Draw { program, groups, args } => {
                self.begin_draw((program, groups, args), at)?
            }
        };
        if work.running.is_none() {
            self.tally.of(work.queue).commands += 1;
            return Ok(Pace::Light);
        }
        work.command_ns = None;
        self.advance(state, work)
    }

    /// Copies out the command at the present place unless it is there already; returns how many
    /// words it has.
    fn fetch(&mut self, work: &Execution, at: GpuVa) -> Result<usize, Fault> {
        let bad = |_| Fault::new(FaultKind::BadPacket, at);
        let left = u64::from(work.bytes - work.at) / 8;
        if let [head, rest @ ..] = self.window.from(work.at) {
            let words = CommandReader::words(*head, left).map_err(bad)?;
            if words <= rest.len() + 1 {
                return Ok(words);
            }
        }
        let len = left.min(MAX_COMMAND_WORDS as u64) as usize;
        let mut bytes = [0; MAX_COMMAND_WORDS * 8];
        // A command may end where the mapped memory does, and the window reach beyond: then take
        // what its page holds.
        let space = self.work_space;
        let len = match self.port.mmu.read(space, at, &mut bytes[..len * 8]) {
            Ok(()) => len,
            Err(_) => self.fetch_one(space, at, left, &mut bytes)?,
        };
        for (word, chunk) in self.window.words.iter_mut().zip(bytes.as_chunks::<8>().0).take(len) {
            *word = u64::from_le_bytes(*chunk);
        }
        (self.window.start, self.window.len) = (work.at, len);
        CommandReader::words(self.window.words[0], left).map_err(bad)
    }

    /// Copies out one command alone, head first.
    fn fetch_one(
        &mut self,
        space: Space,
        at: GpuVa,
        left: u64,
        bytes: &mut [u8; MAX_COMMAND_WORDS * 8],
    ) -> Result<usize, Fault> {
        let (head, rest) = bytes.split_at_mut(8);
        self.port.mmu.read(space, at, head)?;
        let mut word = [0; 8];
        word.copy_from_slice(head);
        let bad = |_| Fault::new(FaultKind::BadPacket, at);
        let words = CommandReader::words(u64::from_le_bytes(word), left).map_err(bad)?;
        self.port.mmu.read(space, at.plus(8), &mut rest[..(words - 1) * 8])?;
        Ok(words)
    }

    /// Goes on with a command that takes time, for a bounded part of it.
    fn advance(&mut self, state: &RunState, work: &mut Execution) -> Result<Pace, Fault> {
        self.begin_busy(state, work);
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
            Running::Grid { draw, program, groups, args, done, cursor } => {
                self.run_groups(*draw, (*program, *groups, args), done, cursor)?;
                None
            }
            Running::Timed { left_ns, until, .. } => self.timed_part(left_ns, until),
            Running::Hang => return Ok(Pace::Hung),
        };
        if let Some(until) = until {
            return Ok(Pace::Until(until));
        }
        if is_done(running) {
            self.end_command(work);
        }
        Ok(Pace::Heavy)
    }

    fn end_command(&mut self, work: &mut Execution) {
        self.end_busy();
        self.tally.of(work.queue).commands += 1;
        work.running = None;
    }

    /// A command buffer is done: report it and go to the next slot.
    pub(super) fn complete(&mut self, run: &mut Run) -> Result<(), Fault> {
        let Some(Packet::Execute(work)) = run.packet.take() else { return Ok(()) };
        self.tally.of(work.queue).packets += 1;
        self.record_execution(&work);
        match work.completion {
            Completion::Progress(value) => {
                self.log_commands(&mut run.state, value, work.logged);
                let ended = self
                    .signal_progress(&run.state, value)
                    .and_then(|()| self.finish_slot(&mut run.state));
                if ended.is_err() {
                    // The fault is still its own.
                    run.packet = Some(Packet::Execute(work));
                }
                ended
            }
            Completion::Dma(id) => {
                self.finish_slot(&mut run.state)?;
                self.gpu.platform.spend(Step::DmaCompletion);
                self.gpu.nodes[self.node].completed.store(u64::from(id));
                self.tally.hand_over(self.node, &mut self.gpu.cmp.lock().stats);
                self.raise(Cause(Cause::DMA_COMPLETED.0 | Cause::engine(self.node as u32).0));
                Ok(())
            }
        }
    }

    /// The progress fence is signalled like any other, without a log entry.
    fn signal_progress(&mut self, state: &RunState, value: u64) -> Result<(), Fault> {
        let shape = &state.shape;
        if value == 0 || shape.progress_current.0 == 0 {
            return Ok(());
        }
        let signal = Signal {
            current_value: shape.progress_current,
            monitored_value: shape.progress_monitored,
            value,
            fence_handle: 0,
            log_entry: NO_LOG_ENTRY,
        };
        self.signal(self.space, shape.id, signal, None)?;
        if shape.progress_monitored.0 == 0 {
            // Nothing says whether anybody waits.
            // spec: NF-301
            self.port.note_progress();
        }
        Ok(())
    }

    fn record_execution(&self, work: &Execution) {
        let platform = &self.gpu.platform;
        let Some(lane) = platform.traced_lane_of(work.queue) else { return };
        let name = NameId(work.queued.name.saturating_sub(1));
        let now_ns = platform.stamp_ns();
        let span = Record::span(lane, Kind::Execute, name, work.start_ns, now_ns);
        platform.record(span.queued(work.queued.at_or(work.start_ns)));
    }

    /// The slot is no longer needed: store the read pointer.
    pub(super) fn finish_slot(&mut self, state: &mut RunState) -> Result<(), Fault> {
        state.taken += 1;
        if self.read_pointer.is_none() {
            let space = state.shape.ring_space(self.space);
            let slot = self.port.mmu.store_slot(space, state.shape.read_pointer())?;
            self.read_pointer = Some(self.port.mmu.to_store(slot).cell.word().clone());
        }
        if let Some(word) = &self.read_pointer {
            word.store(state.taken);
        }
        Ok(())
    }
}

fn is_done(running: &Running) -> bool {
    match running {
        Running::Copy { left, .. } | Running::Fill { left, .. } => *left == 0,
        Running::Grid { groups, done, .. } => {
            *done == groups.iter().map(|g| u64::from(*g)).product::<u64>()
        }
        Running::Timed { .. } => true,
        Running::Hang => false,
    }
}
