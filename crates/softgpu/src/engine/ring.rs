//! Ring slots: how an engine takes the next one, and the loop that executes a bounded part of a
//! queue's packets.
//!
//! A slot's 64 bytes are copied once and decoded from the copy. The read pointer of a process's ring
//! is stored at the end of the turn, and covers the slots that are no longer needed. Slots are
//! written by untrusted processes and may change at any time. A malformed slot is a fault of its
//! queue.

use super::executor::{Executor, Outcome, Pace};
use super::fence::Signal;
use crate::cmp::reports::FaultRecord;
use crate::doorbell::Reading;
use crate::granularity::may_switch;
use crate::mmu::{Fault, Space};
use crate::queue::{Completion, ContextKey, Execution, Packet, PendingWait, Run, RunState};
use crate::save_area::{self, SYSTEM_PROCESS};
use tidegate_d3dukmdt::FenceWait;
use tidegate_gpu_abi::regs::FaultKind;
use tidegate_gpu_abi::ring::DmaFlags;
use tidegate_gpu_abi::{AddressSpaceId, GpuTime, GpuVa, QueueKind, RingPacket};
use tidegate_platform::{QueueNumber, Step, Untrusted};
use tidegate_trace::NameId;

impl Executor {
    /// Executes a bounded part of the queue's packets, then stores the read pointer.
    pub(super) fn execute(&mut self, run: &mut Run) -> Outcome {
        let outcome = self.execute_slots(run);
        self.store_read_pointer(&run.state);
        outcome
    }

    fn execute_slots(&mut self, run: &mut Run) -> Outcome {
        let mut budget = self.gpu.config.slots_per_turn.max(1);
        loop {
            match self.step(run) {
                Ok(Pace::Light) => (budget, self.progress) = (budget - 1, self.progress + 1),
                Ok(Pace::Heavy) => {
                    self.progress += 1;
                    return Outcome::More;
                }
                Ok(Pace::Ends(outcome)) => return outcome,
                Err(fault) => return self.fault(run, fault),
            }
            let gives_way = self.is_called() && may_switch(run, self.gpu.config.node_of(self.node));
            if budget == 0 || self.raised || gives_way {
                return Outcome::More;
            }
        }
    }

    fn step(&mut self, run: &mut Run) -> Result<Pace, Fault> {
        match &mut run.packet {
            None => self.next_slot(run),
            Some(Packet::Wait(_)) => self.resume_wait(run),
            Some(Packet::Execute(work)) => {
                let pace = self.command(&run.state, work)?;
                if work.is_done() {
                    self.complete(run)?;
                }
                Ok(pace)
            }
        }
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
            // An overwritten ring has set a bit of the summary, which the next turn takes.
            if let Reading::Pointer(rung) = doorbell.read() {
                state.ring(rung)?;
            }
        }
        if state.taken == state.known {
            return Ok(Pace::Ends(Outcome::Empty));
        }
        self.gpu.platform.spend(Step::RingFetch);
        let packet = if self.gpu.platform.fault("double fetch") {
            self.read_slot(ring_space, state)?;
            self.slots.clear();
            self.decode_slot(ring_space, state)?
        } else {
            self.read_slot(ring_space, state)?
        };
        self.begin(run, packet)
    }

    /// Returns the packet of the next slot, which the queue may hold.
    #[inline]
    fn read_slot(&mut self, ring_space: Space, state: &RunState) -> Result<RingPacket, Fault> {
        let packet = self.decode_slot(ring_space, state)?;
        if matches!(packet, RingPacket::ExecuteDma { .. }) && state.shape.kind == QueueKind::User {
            return Err(bad_slot(state));
        }
        Ok(packet)
    }

    #[inline]
    fn decode_slot(&mut self, ring_space: Space, state: &RunState) -> Result<RingPacket, Fault> {
        let bytes = self.slots.next(&mut self.port.mmu, ring_space, state)?;
        RingPacket::decode(bytes).map_err(|_| bad_slot(state))
    }

    /// Begins a packet that the queue may hold.
    #[inline]
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
            RingPacket::Execute { commands, bytes, progress, log_entry } => {
                let shape = &run.state.shape;
                let owner = (shape.address_space, shape.number);
                self.work_space = self.space;
                self.begin_commands(run, (commands, bytes), owner, Completion::Progress(progress));
                if let Some(Packet::Execute(work)) = &mut run.packet {
                    work.logged = log_entry.map(|entry| (entry, self.gpu.clock.now()));
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

    /// Enters a DMA packet and loads its state if it was preempted. A packet without commands only
    /// switches the context.
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
                save_area::load(&mut self.port.mmu, system, work, self.gpu.platform.stamp_ns())?;
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
        self.window.clear();
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
            queued: platform.take_queued(queue, completion.key()),
            start_ns: self.gpu.timeline_ns(),
            skips: false,
            label: NameId::NONE,
            running: None,
            command_ns: None,
            logged: None,
        }));
    }
}

#[cold]
fn bad_slot(state: &RunState) -> Fault {
    Fault::new(FaultKind::BadPacket, state.next_slot().1)
}
