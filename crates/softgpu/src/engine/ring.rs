//! Ring slots: how an engine takes the next one, and the loop that executes a bounded part of a
//! queue's packets.
//!
//! A slot's 64 bytes are copied once and decoded from the copy. The read pointer of a process's
//! ring is stored at the end of the turn, and covers the slots that are no longer needed. Slots are
//! written by untrusted processes and may change at any time. A malformed slot is a fault of its
//! queue.

use super::executor::{Executor, Outcome, Pace};
use crate::cmp::reports::FaultRecord;
use crate::doorbell::Reading;
use crate::granularity::may_switch;
use crate::mmu::{Fault, Space};
use crate::queue::{Completion, ContextKey, Execution, Packet, PendingWait, Run, RunState};
use crate::save_area::{self, SYSTEM_PROCESS};
use tidegate_d3dukmdt::FenceWait;
use tidegate_gpu_abi::regs::FaultKind;
use tidegate_gpu_abi::ring::DmaFlags;
use tidegate_gpu_abi::{AddressSpaceId, GpuTime, GpuVa, QueueKind, RingPacket, SignalPacket};
use tidegate_platform::planted;
use tidegate_platform::{Instruments, Platform, QueueNumber, Step, Untrusted};
use tidegate_trace::NameId;

impl Executor {
    /// Executes a bounded part of the queue's packets, then stores the read pointer.
    pub(super) fn execute(&mut self, run: &mut Run) -> Outcome {
        self.slots.set_stamp(None);
        let outcome = self.execute_slots(run);
        self.store_read_pointer(&run.state);
        outcome
    }

    fn execute_slots(&mut self, run: &mut Run) -> Outcome {
        let mut budget = self.slots_per_turn;
        loop {
            let pace = match &run.packet {
                None => self.next_slot(run),
                Some(_) => self.continue_packet(run),
            };
            match pace {
                Pace::Light => (budget, self.progress) = (budget - 1, self.progress + 1),
                Pace::Heavy => {
                    self.progress += 1;
                    return Outcome::More;
                }
                Pace::Ends => return std::mem::replace(&mut self.outcome, Outcome::More),
            }
            let gives_way = self.is_called() && self.may_switch(run);
            if budget == 0 || self.raised || gives_way {
                return Outcome::More;
            }
        }
    }

    #[cold]
    fn may_switch(&self, run: &Run) -> bool {
        may_switch(run, self.gpu.config.node_of(self.node))
    }

    /// Carries out the next step of the packet at the head of the queue.
    #[inline(never)]
    fn continue_packet(&mut self, run: &mut Run) -> Pace {
        let pace = match &mut run.packet {
            None => Ok(Pace::Light),
            Some(Packet::Wait(_)) => self.resume_wait(run),
            Some(Packet::Execute(Execution { wait: Some(_), .. })) => self.resume_wait_command(run),
            Some(Packet::Execute(work)) => match self.command(&mut run.state, work) {
                Ok(pace) if work.is_done() => self.complete(run).map(|()| pace),
                pace => pace,
            },
        };
        pace.unwrap_or_else(|fault| self.stop(run, fault))
    }

    #[cold]
    fn stop(&mut self, run: &mut Run, fault: Fault) -> Pace {
        let outcome = self.fault(run, fault);
        self.end_with(outcome)
    }

    /// Handles a fault. It stops the queue, except that a faulted DMA packet is skipped: the fault
    /// belongs to its context and not to the node.
    fn fault(&mut self, run: &mut Run, fault: Fault) -> Outcome {
        self.end_busy();
        self.port.accesses.flush(&self.gpu.platform);
        let state = &run.state;
        let mut record = FaultRecord::of_ring(state.shape.id, state.taken, fault);
        let work = run.packet.take().and_then(|p| match p {
            Packet::Execute(work) => Some(work),
            Packet::Wait(_) => None,
        });
        if let Some(work) = &work {
            record = record.of_commands(work);
        }
        let dma = work.and_then(|work| work.submission_fence_id());
        let Some(id) = dma else { return Outcome::Faulted(Box::new(record), true) };
        record.position = u64::from(id);
        let goes_on =
            state.shape.kind == QueueKind::Node && self.finish_slot(&mut run.state).is_ok();
        Outcome::Faulted(Box::new(record), !goes_on)
    }

    /// Takes the next ring slot, if there is one.
    #[inline]
    fn next_slot(&mut self, run: &mut Run) -> Pace {
        let state = &mut run.state;
        if (state.reread || state.last_ring.is_some() || state.taken == state.known)
            && let Some(pace) = self.find_slot(run)
        {
            return pace;
        }
        let on = self.gpu.platform.instruments();
        if on.any()
            && let Err(fault) = self.before_slot(&run.state, on)
        {
            return self.stop(run, fault);
        }
        let signal = match self.slots.next(&mut self.port.mmu, self.space, &run.state) {
            Ok(slot) => SignalPacket::in_slot(slot),
            Err(fault) => return self.stop(run, fault),
        };
        let Some(signal) = signal else { return self.begin(run, on) };
        match self.signal_packet(&mut run.state, &signal, on) {
            Ok(()) => Pace::Light,
            Err(fault) => self.stop(run, fault),
        }
    }

    /// Looks for a slot where none is known, or where software or the CMP left a write pointer.
    /// Ends the turn if there is none.
    #[inline(never)]
    fn find_slot(&mut self, run: &mut Run) -> Option<Pace> {
        let found = self
            .reload_pointer(&mut run.state)
            .and_then(|()| has_slot(&mut run.state, &self.gpu.platform));
        match found {
            Ok(true) => None,
            Ok(false) => Some(self.end_with(Outcome::Empty)),
            Err(fault) => Some(self.stop(run, fault)),
        }
    }

    fn reload_pointer(&mut self, state: &mut RunState) -> Result<(), Fault> {
        if std::mem::take(&mut state.reread) {
            let space = state.shape.ring_space(self.space);
            let slot = self.port.mmu.load_slot(space, state.shape.write_pointer())?;
            let written = Untrusted::new(self.port.mmu.to_load(slot).cell.word());
            state.publish(written.load_once())?;
        }
        match state.last_ring.take() {
            Some(last) => state.ring(last),
            None => Ok(()),
        }
    }

    /// Charges the fetch of a slot, which takes time. A planted fault checks a copy of the slot
    /// other than that which is executed.
    #[cold]
    fn before_slot(&mut self, state: &RunState, on: Instruments) -> Result<(), Fault> {
        self.gpu.platform.spend(Step::RingFetch);
        self.slots.set_stamp(None);
        if on.has_fault() && planted!(self.gpu.platform, DoubleFetch) {
            let slot = self.slots.next(&mut self.port.mmu, self.space, state)?;
            let packet = RingPacket::decode(slot).map_err(|_| bad_slot(state))?;
            let is_of_kernel = matches!(packet, RingPacket::ExecuteDma { .. });
            if is_of_kernel && state.shape.kind == QueueKind::User {
                return Err(bad_slot(state));
            }
            self.slots.clear();
        }
        Ok(())
    }

    /// Begins a packet other than a signal.
    #[inline(never)]
    fn begin(&mut self, run: &mut Run, on: Instruments) -> Pace {
        match self.begin_packet(run, on) {
            Ok(pace) => pace,
            Err(fault) => self.stop(run, fault),
        }
    }

    #[inline]
    fn begin_packet(&mut self, run: &mut Run, on: Instruments) -> Result<Pace, Fault> {
        let slot = self.slots.next(&mut self.port.mmu, self.space, &run.state)?;
        let packet = RingPacket::decode(slot).map_err(|_| bad_slot(&run.state))?;
        match packet {
            RingPacket::Nop => self.finish_slot(&mut run.state)?,
            // The slot is not a signal.
            RingPacket::Signal { .. } => return Err(bad_slot(&run.state)),
            RingPacket::Wait { current_value, value, epoch, fence_handle, log_entry } => {
                let wait = PendingWait {
                    current_value,
                    wait: FenceWait { value, epoch },
                    fence_handle,
                    log_entry,
                    queued: self.take_queued(&run.state, on),
                    observed: GpuTime(0),
                    head_ns: 0,
                    satisfied: false,
                };
                return self.first_wait(run, wait);
            }
            RingPacket::Execute { commands, bytes, progress, log_entry } => {
                let shape = &run.state.shape;
                let new = NewExecution {
                    commands,
                    bytes,
                    address_space: shape.address_space,
                    queue: shape.number,
                    completion: Completion::Progress(progress),
                    logged: log_entry.map(|entry| (entry, self.gpu.clock.now())),
                };
                self.work_space = self.space;
                self.begin_commands(run, new, on);
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
                let is_planted = || planted!(self.gpu.platform, DoubleFetch);
                if run.state.shape.kind == QueueKind::User && !is_planted() {
                    return Err(bad_slot(&run.state));
                }
                let (own, system) = {
                    let cmp = self.gpu.cmp.lock();
                    let space = |id| cmp.space(id, self.physical_gpu);
                    (space(address_space), space(SYSTEM_PROCESS))
                };
                let physical = flags.contains(DmaFlags::PHYSICAL);
                self.work_space = if physical { Space::PHYSICAL } else { own };
                self.switch_to(ContextKey::of_packet(address_space, QueueNumber(os_handle)));
                let new = NewExecution {
                    commands,
                    bytes,
                    address_space,
                    queue: QueueNumber(os_handle),
                    completion: Completion::Dma(submission_fence_id),
                    logged: None,
                };
                self.begin_commands(run, new, on);
                return self.enter_packet(run, physical, save_area, flags, system);
            }
        }
        Ok(Pace::Light)
    }

    /// Enters a DMA packet and loads its state if it was preempted. A packet without commands only
    /// switches the context.
    fn enter_packet(
        &mut self,
        run: &mut Run,
        physical: bool,
        save_area: GpuVa,
        flags: DmaFlags,
        system: Space,
    ) -> Result<Pace, Fault> {
        let Some(Packet::Execute(work)) = &mut run.packet else { return Ok(Pace::Light) };
        (work.physical, work.save_area) = (physical, save_area);
        if flags.contains(DmaFlags::RESUME) && save_area.0 != 0 {
            run.left_ns =
                save_area::load(&mut self.port.mmu, system, work, self.gpu.platform.stamp_ns())?;
            self.record_return(run);
        }
        let Some(Packet::Execute(work)) = &run.packet else { return Ok(Pace::Light) };
        if work.is_done() {
            self.complete(run)?;
        }
        Ok(Pace::Light)
    }

    #[inline(always)]
    fn begin_commands(&mut self, run: &mut Run, new: NewExecution, on: Instruments) {
        let NewExecution { commands, bytes, address_space, queue, completion, logged } = new;
        let platform = &self.gpu.platform;
        self.window.clear();
        self.slots.set_stamp(None);
        let queued = platform.take_queued(on, queue, completion.key());
        run.packet = Some(Packet::Execute(Execution {
            commands,
            bytes,
            at: 0,
            number: 0,
            latest: (0, NameId::NONE),
            beside: Vec::new(),
            address_space,
            physical: false,
            save_area: GpuVa(0),
            completion,
            queue,
            queued,
            start_ns: if on.has_timeline() { platform.stamp_ns() } else { 0 },
            skips: false,
            label: NameId::NONE,
            fence_commands: 0,
            wait: None,
            running: None,
            command_ns: None,
            logged,
        }));
    }
}

/// What a packet of a ring says about its commands.
struct NewExecution {
    commands: GpuVa,
    bytes: u32,
    address_space: AddressSpaceId,
    queue: QueueNumber,
    completion: Completion,
    /// Entry of the log, and when the packet was taken.
    logged: Option<(u32, GpuTime)>,
}

/// Loads the doorbell of a queue without known slots. Returns whether there is a slot. A ring
/// in a shared location has set a bit of the summary, which the next turn takes.
#[inline]
fn has_slot(state: &mut RunState, platform: &Platform) -> Result<bool, Fault> {
    if state.taken == state.known && state.doorbell.is_some() {
        platform.pause(state.looks.pause_before(state.known));
        if let Some(doorbell) = &state.doorbell
            && let Reading::Pointer(rung) = doorbell.read()
        {
            state.ring(rung)?;
        }
    }
    Ok(state.taken != state.known)
}

#[cold]
fn bad_slot(state: &RunState) -> Fault {
    Fault::new(FaultKind::BadPacket, state.next_slot().1)
}
