//! What the hardware knows of one queue: its shape, its pointers, and the packet that it is in the
//! middle of.
//!
//! A [`Run`] stands in the CMP while no engine runs the queue, and is moved to the engine for a
//! turn. Whatever a preempted, waiting or suspended queue needs to go on is in it.

use crate::bus::Bus;
use crate::doorbell::Bell;
use crate::log::LogBuffer;
use crate::mmu::{Fault, Space};
use crate::running_command::Running;
use std::ops::Deref;
use tidegate_d3dukmdt::FenceWait;
use tidegate_gpu_abi::regs::FaultKind;
use tidegate_gpu_abi::{
    AddressSpaceId, CONTROL_READ_WORD, CONTROL_WRITE_WORD, GpuTime, GpuVa, QueueId, QueueKind,
    QueueShape,
};
use tidegate_platform::{CpuTime, PhysicalAddress, QueueNumber, Queued, SubmissionKey, Target};
use tidegate_trace::NameId;

/// Tells contexts apart, of which an engine has one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContextKey(Result<QueueId, QueueNumber>, AddressSpaceId);

impl ContextKey {
    /// The context that a DMA packet belongs to.
    pub(crate) fn of_packet(address_space: AddressSpaceId, queue: QueueNumber) -> ContextKey {
        ContextKey(Err(queue), address_space)
    }
}

/// What never changes about a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) id: QueueId,
    /// The kernel's number of it.
    pub(crate) number: QueueNumber,
    /// As the driver made it.
    pub(crate) made: QueueShape,
}

impl Deref for Shape {
    type Target = QueueShape;

    fn deref(&self) -> &QueueShape {
        &self.made
    }
}

impl Shape {
    /// Where ring and control area stand: kernel-owned ones on the bus, user ones in `space`, the
    /// queue's own.
    pub(crate) fn ring_space(&self, space: Space) -> Space {
        if self.kind == QueueKind::User { space } else { Space::PHYSICAL }
    }

    /// Where software stores the write pointer.
    pub(crate) fn write_pointer(&self) -> GpuVa {
        self.control.plus(CONTROL_WRITE_WORD as u64 * 8)
    }

    /// Where the engine stores the read pointer.
    pub(crate) fn read_pointer(&self) -> GpuVa {
        self.control.plus(CONTROL_READ_WORD as u64 * 8)
    }
}

/// The part of a queue that its engine works on.
pub(crate) struct Run {
    pub(crate) state: RunState,
    /// What the queue is in the middle of.
    pub(crate) packet: Option<Packet>,
    /// When its engine left it in the middle, for the timeline.
    pub(crate) left_ns: Option<u64>,
}

/// Pointers and places of a queue.
pub(crate) struct RunState {
    pub(crate) shape: Shape,
    /// Slots that software is known to have published.
    pub(crate) known: u64,
    /// Slots that are finished.
    pub(crate) taken: u64,
    /// The write pointer in the control area must be read before anything else.
    pub(crate) reread: bool,
    /// The last word of a doorbell that was taken away; to be looked at in the engine's turn, which
    /// can fault.
    pub(crate) last_ring: Option<u64>,
    /// The connected doorbell.
    pub(crate) doorbell: Option<Bell>,
    /// Whether a ring brought news since the CMP was told.
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
            rung: false,
            wait_log: None,
            signal_log: None,
            command_log: None,
        };
        Run { state, packet: None, left_ns: None }
    }

    /// Whether the engine would find something to do, unless it is a wait that is not satisfied.
    pub(crate) fn has_work(&self) -> bool {
        let state = &self.state;
        self.packet.is_some()
            || state.taken < state.known
            || state.reread
            || state.last_ring.is_some()
    }

    /// Whether the packet that the queue is in the middle of has physical addresses.
    pub(crate) fn is_physical(&self) -> bool {
        matches!(&self.packet, Some(Packet::Execute(work)) if work.physical)
    }

    /// The address space of the packet that the queue is in the middle of, else its own.
    pub(crate) fn work_space(&self) -> AddressSpaceId {
        match &self.packet {
            Some(Packet::Execute(work)) => work.address_space,
            _ => self.state.shape.address_space,
        }
    }

    /// Whose state the engine needs: that of a queue, or, for DMA packets of a node's ring, that of
    /// the packet's context. `None` between two packets of such a ring.
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

    /// Drops every slot of a node's ring that is published, kicked or not.
    pub(crate) fn empty_ring(&mut self, bus: &Bus) {
        self.packet = None;
        let state = &mut self.state;
        (state.reread, state.last_ring) = (false, None);
        let control = PhysicalAddress(state.shape.control.0);
        let Some(Target::Protocol(page, start)) = bus.resolve(control) else { return };
        let word = |number: usize| page.word((start / 8) as usize + number);
        // A write pointer outside the ring stops the ring when the next kick reads it.
        let _ = state.publish(word(CONTROL_WRITE_WORD).load());
        state.taken = state.known;
        word(CONTROL_READ_WORD).store(state.taken);
    }

    /// The wait that heads the queue is satisfied; it stays so, whatever becomes of the value.
    pub(crate) fn latch_wait(&mut self) {
        if let Some(Packet::Wait(wait)) = &mut self.packet {
            wait.satisfied = true;
        }
    }
}

impl RunState {
    /// Takes over a write pointer that a doorbell shows. A value that is known already is a late or
    /// repeated ring.
    // spec: UMS-008
    pub(crate) fn ring(&mut self, value: u64) -> Result<(), Fault> {
        if value <= self.known {
            return Ok(());
        }
        self.rung = true;
        self.publish(value)
    }

    /// Takes over the write pointer that the control area shows; software never moves it back.
    pub(crate) fn publish(&mut self, value: u64) -> Result<(), Fault> {
        if value < self.known || value - self.taken > self.shape.slots {
            return Err(Fault::new(FaultKind::BadPacket, self.shape.write_pointer()));
        }
        self.known = value;
        Ok(())
    }
}

/// A packet that takes more than one step.
pub(crate) enum Packet {
    Execute(Execution),
    Wait(PendingWait),
}

/// A wait that heads its queue and was not satisfied when it came there.
pub(crate) struct PendingWait {
    pub(crate) current_value: GpuVa,
    pub(crate) wait: FenceWait,
    pub(crate) fence_handle: u32,
    pub(crate) log_entry: u32,
    pub(crate) queued: Queued,
    /// When it was first seen unsatisfied.
    pub(crate) observed: GpuTime,
    /// The same on the timeline.
    pub(crate) head_ns: u64,
    pub(crate) satisfied: bool,
}

/// What is reported when a command buffer is done.
#[derive(Clone, Copy)]
pub(crate) enum Completion {
    /// A value for the queue's progress fence; 0 for none.
    Progress(u64),
    /// A submission fence id.
    Dma(u32),
}

impl Completion {
    /// The timeline's key of the submission.
    pub(crate) fn key(self) -> SubmissionKey {
        match self {
            Completion::Progress(value) => SubmissionKey::Completion(value),
            Completion::Dma(id) => SubmissionKey::Completion(id.into()),
        }
    }
}

/// A command buffer that is being executed.
pub(crate) struct Execution {
    pub(crate) commands: GpuVa,
    pub(crate) bytes: u32,
    /// Where the next command begins, in bytes.
    pub(crate) at: u32,
    /// How many commands were begun, without labels.
    pub(crate) number: u32,
    pub(crate) address_space: AddressSpaceId,
    /// Whether its addresses are physical ones.
    pub(crate) physical: bool,
    /// Where its state is kept; 0 for nowhere.
    pub(crate) save_area: GpuVa,
    pub(crate) completion: Completion,
    /// The kernel's number of its context or queue.
    pub(crate) queue: QueueNumber,
    pub(crate) queued: Queued,
    /// When the engine took it, on the timeline.
    pub(crate) start_ns: u64,
    /// What the commands are called.
    pub(crate) label: NameId,
    /// The command that takes more than one step.
    pub(crate) running: Option<Running>,
    /// When it began, on the timeline; none before, and without a timeline.
    pub(crate) command_ns: Option<u64>,
    /// The entry of the verbose log that is due behind it, and when it began.
    pub(crate) logged: Option<(u32, GpuTime)>,
}

impl Execution {
    /// Whether anything of it was executed.
    pub(crate) fn is_begun(&self) -> bool {
        self.at != 0 || self.running.is_some()
    }

    /// Whether no command is left.
    pub(crate) fn is_done(&self) -> bool {
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
