//! The hardware's state of a queue: its shape, its pointers, and its current packet.
//!
//! A [`Run`] is in the CMP while no engine runs the queue, and moves to the engine for a turn. It
//! holds everything that a preempted, waiting or suspended queue needs to continue.

use crate::bus::Bus;
use crate::doorbell::Bell;
use crate::log::LogBuffer;
use crate::looks::Looks;
use crate::mmu::{Fault, Space};
use crate::running_command::Running;
use std::ops::Deref;
use tidegate_d3dukmdt::FenceWait;
use tidegate_gpu_abi::regs::FaultKind;
use tidegate_gpu_abi::{
    AddressSpaceId, CONTROL_READ_WORD, CONTROL_WRITE_WORD, GpuTime, GpuVa, QueueId, QueueKind,
    QueueShape, SLOT_BYTES,
};
use tidegate_platform::{CpuTime, PhysicalAddress, QueueNumber, Queued, SubmissionKey, Target};
use tidegate_trace::NameId;

/// The identity of a context. An engine holds one context at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContextKey(Result<QueueId, QueueNumber>, AddressSpaceId);

impl ContextKey {
    /// Returns the context of a DMA packet.
    pub(crate) fn of_packet(address_space: AddressSpaceId, queue: QueueNumber) -> ContextKey {
        ContextKey(Err(queue), address_space)
    }
}

/// The properties of a queue that never change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) id: QueueId,
    /// The kernel's number of the queue.
    pub(crate) number: QueueNumber,
    /// The shape from the driver.
    pub(crate) made: QueueShape,
}

impl Deref for Shape {
    type Target = QueueShape;

    fn deref(&self) -> &QueueShape {
        &self.made
    }
}

impl Shape {
    /// Returns the address space of ring and control area: the bus for kernel-owned rings, else
    /// `space`, the queue's own.
    pub(crate) fn ring_space(&self, space: Space) -> Space {
        if self.kind == QueueKind::User { space } else { Space::PHYSICAL }
    }

    /// Returns the address of the write pointer, which software stores.
    pub(crate) fn write_pointer(&self) -> GpuVa {
        self.control.plus(CONTROL_WRITE_WORD as u64 * 8)
    }

    /// Returns the address of the read pointer, which the engine stores.
    pub(crate) fn read_pointer(&self) -> GpuVa {
        self.control.plus(CONTROL_READ_WORD as u64 * 8)
    }
}

/// The part of a queue that its engine works on.
pub(crate) struct Run {
    pub(crate) state: RunState,
    /// The current packet.
    pub(crate) packet: Option<Packet>,
    /// When its engine left it in the middle, for the timeline.
    pub(crate) left_ns: Option<u64>,
}

/// The pointers and addresses of a queue.
pub(crate) struct RunState {
    pub(crate) shape: Shape,
    /// The number of slots known to be published.
    pub(crate) known: u64,
    /// The number of finished slots.
    pub(crate) taken: u64,
    /// Whether the write pointer in the control area must be reloaded first.
    pub(crate) reread: bool,
    /// The last value of a disconnected doorbell. It is checked in the engine's turn, which
    /// can fault.
    pub(crate) last_ring: Option<u64>,
    /// The connected doorbell.
    pub(crate) doorbell: Option<Bell>,
    /// How often the engine looks at it.
    pub(crate) looks: Looks,
    /// Whether a ring moved the write pointer since the last report to the CMP.
    pub(crate) rung: bool,
    pub(crate) wait_log: Option<LogBuffer>,
    pub(crate) signal_log: Option<LogBuffer>,
    pub(crate) command_log: Option<LogBuffer>,
}

impl Run {
    pub(crate) fn new(shape: Shape) -> Run {
        let state = RunState {
            shape,
            known: 0,
            taken: 0,
            reread: false,
            last_ring: None,
            doorbell: None,
            looks: Looks::default(),
            rung: false,
            wait_log: None,
            signal_log: None,
            command_log: None,
        };
        Run { state, packet: None, left_ns: None }
    }

    /// Returns whether the queue has work. That may be an unsatisfied wait.
    pub(crate) fn has_work(&self) -> bool {
        let state = &self.state;
        self.packet.is_some()
            || state.taken < state.known
            || state.reread
            || state.last_ring.is_some()
    }

    /// Returns whether the current packet has physical addresses.
    pub(crate) fn is_physical(&self) -> bool {
        matches!(&self.packet, Some(Packet::Execute(work)) if work.physical)
    }

    /// Returns the address space of the current packet, else the queue's own.
    pub(crate) fn work_space(&self) -> AddressSpaceId {
        match &self.packet {
            Some(Packet::Execute(work)) => work.address_space,
            _ => self.state.shape.address_space,
        }
    }

    /// Returns the context that the engine needs: the queue's, or for a node's ring that of the
    /// current DMA packet. `None` between two packets of such a ring.
    pub(crate) fn context(&self) -> Option<ContextKey> {
        let queue = self.state.shape.id;
        match &self.packet {
            Some(Packet::Execute(work)) if self.state.shape.kind == QueueKind::Node => {
                Some(ContextKey::of_packet(work.address_space, work.queue))
            }
            _ if self.state.shape.kind == QueueKind::Node => None,
            _ => Some(ContextKey(Ok(queue), self.work_space())),
        }
    }

    /// Stops the clock of timed work that loses its engine.
    pub(crate) fn pause(&mut self, now: CpuTime) {
        if let Some(Packet::Execute(work)) = &mut self.packet
            && let Some(Running::Timed { left_ns, until, .. }) = &mut work.running
            && let Some(end) = until.take()
        {
            *left_ns = end.since(now);
        }
    }

    /// Drops every published slot of a node's ring, kicked or not.
    pub(crate) fn empty_ring(&mut self, bus: &Bus) {
        self.packet = None;
        let state = &mut self.state;
        (state.reread, state.last_ring) = (false, None);
        let control = PhysicalAddress(state.shape.control.0);
        let Some(Target::Protocol(page, start)) = bus.resolve(control) else { return };
        let word = |number: usize| page.word((start / 8) as usize + number);
        // An invalid write pointer stops the ring when the next kick reads it.
        let _ = state.publish(word(CONTROL_WRITE_WORD).load());
        state.taken = state.known;
        word(CONTROL_READ_WORD).store(state.taken);
    }

    /// Returns the wait at which the queue stays, if it was not satisfied at first.
    pub(crate) fn pending_wait(&self) -> Option<&PendingWait> {
        match &self.packet {
            Some(Packet::Wait(wait)) => Some(wait),
            Some(Packet::Execute(work)) => work.wait.as_deref(),
            None => None,
        }
    }

    /// Latches the satisfied wait at which the queue stays. Later values do not undo this.
    pub(crate) fn latch_wait(&mut self) {
        match &mut self.packet {
            Some(Packet::Wait(wait)) => wait.satisfied = true,
            Some(Packet::Execute(Execution { wait: Some(wait), .. })) => wait.satisfied = true,
            _ => {}
        }
    }
}

impl RunState {
    /// Returns the next slot's number in the ring, and its address. A slot lies in one page.
    pub(crate) fn next_slot(&self) -> (u64, GpuVa) {
        // The number of slots is a power of two.
        let in_ring = self.taken & (self.shape.slots - 1);
        (in_ring, self.shape.ring.plus(in_ring * SLOT_BYTES))
    }

    /// Applies a write pointer from a doorbell. A value that is already known is a late or
    /// repeated ring.
    // spec: UMS-008
    pub(crate) fn ring(&mut self, value: u64) -> Result<(), Fault> {
        if value <= self.known {
            return Ok(());
        }
        self.rung = true;
        self.publish(value)
    }

    /// Applies a write pointer from the control area. Software never moves it back.
    pub(crate) fn publish(&mut self, value: u64) -> Result<(), Fault> {
        if value < self.known || value - self.taken > self.shape.slots {
            return Err(Fault::new(FaultKind::BadPacket, self.shape.write_pointer()));
        }
        self.known = value;
        Ok(())
    }
}

/// A packet that takes more than one step.
#[expect(clippy::large_enum_variant, reason = "a queue has one, inside of its boxed `Run`")]
pub(crate) enum Packet {
    Execute(Execution),
    Wait(PendingWait),
}

/// A wait of a ring or of a command buffer that was not satisfied when first evaluated.
#[derive(Clone, Copy)]
pub(crate) struct PendingWait {
    pub(crate) current_value: GpuVa,
    pub(crate) wait: FenceWait,
    pub(crate) fence_handle: u32,
    pub(crate) log_entry: u32,
    pub(crate) queued: Queued,
    /// When it was first evaluated.
    pub(crate) observed: GpuTime,
    /// The same time on the timeline.
    pub(crate) head_ns: u64,
    pub(crate) satisfied: bool,
}

/// Bytes of each wait or signal in a command buffer.
const FENCE_COMMAND_BYTES: u32 = 5 * 8;

/// What is reported when a command buffer completes.
#[derive(Clone, Copy)]
pub(crate) enum Completion {
    /// A value for the queue's progress fence; 0 for none.
    Progress(u64),
    /// A submission fence id.
    Dma(u32),
}

impl Completion {
    /// Returns the timeline's key of the submission.
    pub(crate) fn key(self) -> SubmissionKey {
        match self {
            Completion::Progress(value) => SubmissionKey::Completion(value),
            Completion::Dma(id) => SubmissionKey::Completion(id.into()),
        }
    }
}

/// A command that another one of its command buffer has overtaken.
pub(crate) struct InFlight {
    pub(crate) running: Running,
    pub(crate) number: u32,
    pub(crate) label: NameId,
    pub(crate) command_ns: Option<u64>,
}

/// A command buffer in execution.
pub(crate) struct Execution {
    pub(crate) commands: GpuVa,
    pub(crate) bytes: u32,
    /// The byte offset of the next command.
    pub(crate) at: u32,
    /// The number of the current command, without labels and fence commands.
    pub(crate) number: u32,
    /// Number and label of the command that was begun last.
    pub(crate) latest: (u32, NameId),
    /// Commands in flight beside the current one.
    pub(crate) beside: Vec<InFlight>,
    pub(crate) address_space: AddressSpaceId,
    /// Whether its addresses are physical.
    pub(crate) physical: bool,
    /// The address of its save area; 0 for none.
    pub(crate) save_area: GpuVa,
    pub(crate) completion: Completion,
    /// The kernel's number of its context or queue.
    pub(crate) queue: QueueNumber,
    pub(crate) queued: Queued,
    /// When the engine took it, on the timeline.
    pub(crate) start_ns: u64,
    /// The label of the commands.
    pub(crate) label: NameId,
    /// Whether the predicate skips commands.
    pub(crate) skips: bool,
    /// The number of fence commands so far.
    pub(crate) fence_commands: u32,
    /// The wait command at which the queue stays. No command is in flight then.
    pub(crate) wait: Option<Box<PendingWait>>,
    /// The current command, if it takes more than one step.
    pub(crate) running: Option<Running>,
    /// When that command began, on the timeline; `None` before, and without a timeline.
    pub(crate) command_ns: Option<u64>,
    /// The number of its verbose log entry, and when it began.
    pub(crate) logged: Option<(u32, GpuTime)>,
}

impl Execution {
    /// Returns whether it has had fence commands only. A list behind them begins with a label.
    pub(crate) fn has_fence_commands_only(&self) -> bool {
        self.fence_commands > 0 && self.at == self.fence_commands * FENCE_COMMAND_BYTES
    }

    /// Returns whether any of it was executed.
    pub(crate) fn is_begun(&self) -> bool {
        self.at != 0 || self.running.is_some()
    }

    /// Returns whether its state survives a switch of queues and a reset. The CMP keeps the state
    /// of a process's queue. The state of a started DMA packet is kept in its save area.
    pub(crate) fn can_be_kept(&self) -> bool {
        !self.is_begun() || self.save_area.0 != 0 || self.submission_fence_id().is_none()
    }

    /// Returns whether no command is left.
    pub(crate) fn is_done(&self) -> bool {
        self.at == self.bytes && !self.is_in_flight() && self.wait.is_none()
    }

    /// Returns whether a command is begun and not complete.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.running.is_some() || !self.beside.is_empty()
    }

    /// Returns the id to report for a DMA packet.
    pub(crate) fn submission_fence_id(&self) -> Option<u32> {
        match self.completion {
            Completion::Dma(id) => Some(id),
            Completion::Progress(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use tidegate_gpu_abi::{Command, CommandWriter, SignalPacket};
    use tidegate_platform::{PhysicalMemory, Platform};

    #[test]
    fn every_fence_command_has_the_same_length() {
        let (current_value, value, fence_handle, log_entry) = (GpuVa(8), 1, 2, 3);
        let wait = Command::WaitFence { current_value, value, epoch: 4, fence_handle, log_entry };
        let monitored_value = GpuVa(16);
        let signal = Command::SignalFence(SignalPacket {
            current_value,
            monitored_value,
            value,
            fence_handle,
            log_entry,
        });
        for command in [wait, signal] {
            let mut writer = CommandWriter::new();
            writer.push(&command);
            assert_eq!(writer.bytes(), u64::from(FENCE_COMMAND_BYTES));
        }
    }

    #[test]
    fn a_ring_that_was_emptied_has_no_work_kicked_or_rung() {
        let platform = Platform::host();
        let system = PhysicalMemory::new(&platform, PhysicalAddress(0));
        let (control, page) = system.protocol(CONTROL_READ_WORD + 1);
        let bus = Bus::new(&platform, system, &Config::default());
        let made = QueueShape {
            engine: 0,
            kind: QueueKind::Node,
            address_space: AddressSpaceId(0),
            ring: GpuVa(0x1000),
            slots: 8,
            control: GpuVa(control.0),
            progress_current: GpuVa(0),
            progress_monitored: GpuVa(0),
        };
        let mut run = Run::new(Shape { id: QueueId::new(0, 0), number: QueueNumber(0), made });
        let state = &mut run.state;
        (state.taken, state.known, state.reread, state.last_ring) = (1, 2, true, Some(4));
        page.word(CONTROL_WRITE_WORD).store(5);
        assert!(run.has_work());
        run.empty_ring(&bus);
        assert!(!run.has_work());
        assert_eq!((run.state.taken, page.word(CONTROL_READ_WORD).load()), (5, 5));
    }
}
