//! The state of an engine that executes packets, and the steps shared by all kinds of packets.

use super::busy_time::Stretch;
use super::moderation::HeldSignals;
use super::port::Port;
use super::random_order::RandomOrder;
use super::window::{SlotWindow, Window};
use crate::cmp::Cmp;
use crate::cmp::node::OUTRANKED;
use crate::cmp::reports::FaultRecord;
use crate::doorbell::Polled;
use crate::hardware::Hardware;
use crate::mmu::{Fault, Space};
use crate::queue::{ContextKey, Execution, Packet, RunState};
use crate::stats::Tally;
use std::sync::Arc;
use tidegate_gpu_abi::{AddressSpaceId, Cause, EngineKind, QueueId, QueueKind, Summary};
use tidegate_platform::{CpuTime, PhysicalAddress, Step, Word, current};
use tidegate_trace::{LaneId, LaneKind};

/// The result of a step on a queue.
#[derive(Clone, Copy)]
pub(super) enum Pace {
    /// A small step is done.
    Light,
    /// A step that takes time, or a part of it, is done.
    Heavy,
    /// The turn on the queue ends with [`Executor::outcome`].
    Ends,
}

/// The result of a turn on a queue.
pub(super) enum Outcome {
    /// The queue may have more work.
    More,
    /// The ring is empty.
    Empty,
    /// The queue's next packet is an unsatisfied wait.
    Blocked,
    /// The queue is in timed work until this time.
    Until(CpuTime),
    /// A fault, and whether it stops the queue.
    Faulted(Box<FaultRecord>, bool),
    /// The queue hangs in a command.
    Hung,
    /// The ring was preempted. A packet whose state could not be saved has faulted.
    GivenBack(Option<Box<FaultRecord>>),
}

pub(super) struct Executor {
    pub(super) gpu: Arc<Hardware>,
    /// The engine's number.
    pub(super) node: usize,
    /// The physical GPU whose page tables it walks.
    pub(super) physical_gpu: u32,
    pub(super) class: EngineKind,
    /// From the configuration of its node.
    pub(super) writes_fences: bool,
    /// The most slots and small commands of a turn.
    pub(super) slots_per_turn: u32,
    pub(super) attention: Word,
    pub(super) lane: LaneId,
    /// How the turn ends, once a step has ended it.
    pub(super) outcome: Outcome,
    pub(super) port: Port,
    pub(super) summaries: Vec<(usize, Arc<Summary>)>,
    /// Doorbells whose rings set no bit in a summary.
    pub(super) polled: Vec<Polled>,
    pub(super) tally: Tally,
    busy: Option<Stretch>,
    /// Steps since the end of the last turn.
    pub(super) progress: u64,
    /// The context that the engine ran last.
    context: Option<ContextKey>,
    /// The current queue's own address space, and its current packet's.
    pub(super) space: Space,
    pub(super) work_space: Space,
    pub(super) window: Window,
    pub(super) slots: SlotWindow,
    /// The current queue's read pointer, once a slot was finished, and the number stored in it.
    read_pointer: Option<(Word, u64)>,
    /// Causes to raise after the lock is dropped.
    pub(super) causes: u64,
    pub(super) raised: bool,
    pub(super) held: HeldSignals,
    /// When the last signal was stored, for the timeline.
    pub(super) signal_ns: u64,
    /// `None` runs commands one after the other.
    pub(super) overlap: Option<RandomOrder>,
}

impl Executor {
    pub(super) fn new(
        gpu: Arc<Hardware>,
        node: usize,
        summaries: Vec<(usize, Arc<Summary>)>,
    ) -> Executor {
        let nowhere = Space::new(AddressSpaceId(0), 0, PhysicalAddress(0));
        let (group, name) = (&gpu.config.lane_group, gpu.config.engine_name(node));
        Executor {
            node,
            physical_gpu: gpu.config.physical_gpu_of(node),
            class: gpu.config.node_of(node).class,
            writes_fences: gpu.config.node_of(node).writes_fences,
            slots_per_turn: gpu.config.slots_per_turn.max(1),
            attention: gpu.nodes[node].attention.clone(),
            lane: gpu.platform.lane(LaneKind::Engine, group, &name),
            outcome: Outcome::More,
            port: Port::new(Arc::clone(&gpu), node),
            summaries,
            polled: Vec::new(),
            tally: Tally::default(),
            busy: None,
            progress: 0,
            context: None,
            space: nowhere,
            work_space: nowhere,
            window: Window::default(),
            slots: SlotWindow::default(),
            read_pointer: None,
            causes: 0,
            raised: false,
            held: HeldSignals::default(),
            signal_ns: 0,
            overlap: gpu.config.out_of_order.map(|seed| RandomOrder::new(seed, node)),
            gpu,
        }
    }

    /// Ends the turn after the current step.
    #[inline]
    pub(super) fn end_with(&mut self, outcome: Outcome) -> Pace {
        self.outcome = outcome;
        Pace::Ends
    }

    /// Drops the state of the previous queue.
    pub(super) fn begin_queue(&mut self) {
        self.window.clear();
        self.slots.clear();
        self.read_pointer = None;
    }

    /// Returns whether the engine is recalled, or another queue precedes the current one.
    #[inline]
    pub(super) fn is_called(&self) -> bool {
        self.attention.load() >= OUTRANKED
    }

    /// Returns whether the engine is called, or a doorbell of any queue was rung.
    pub(super) fn is_wanted(&self) -> bool {
        is_wanted(&self.attention, &self.summaries)
    }

    /// Switches the engine to this context.
    pub(super) fn switch_to(&mut self, context: ContextKey) {
        if self.context.is_some_and(|c| c != context) {
            self.gpu.platform.spend(Step::ContextSwitch);
            self.tally.context_switches += 1;
        }
        self.context = Some(context);
    }

    /// Raises a cause. No lock is held.
    pub(super) fn raise(&mut self, cause: Cause) {
        self.raised |= self.gpu.line.set(cause);
    }

    /// Reports a fault. `stops`: the fault stops its queue; else it is of a packet that is skipped.
    pub(super) fn report_fault(&mut self, cmp: &mut Cmp, record: FaultRecord, stops: bool) {
        if !stops {
            cmp.nodes[self.node].skipped = Some(record.position as u32);
        }
        cmp.faults.add(record);
        cmp.stats.faults += 1;
        self.causes |= Cause::FAULT.0;
        if stops && let Some(entry) = cmp.queue(record.queue) {
            entry.faulted = true;
            cmp.delist(record.queue);
        }
    }

    /// Counts the slot as taken, because it is no longer needed. The kernel, which owns the other
    /// rings, is told of completions by interrupt and must find their slots taken.
    #[inline]
    pub(super) fn finish_slot(&mut self, state: &mut RunState) -> Result<(), Fault> {
        if self.read_pointer.is_none() {
            self.find_read_pointer(state)?;
        }
        state.taken += 1;
        if state.shape.kind != QueueKind::User {
            self.store_read_pointer(state);
        }
        Ok(())
    }

    #[cold]
    fn find_read_pointer(&mut self, state: &RunState) -> Result<(), Fault> {
        let space = state.shape.ring_space(self.space);
        let slot = self.port.mmu.store_slot(space, state.shape.read_pointer())?;
        let word = self.port.mmu.to_store(slot).cell.word().clone();
        self.read_pointer = Some((word, state.taken));
        Ok(())
    }

    /// Stores the read pointer if it has moved.
    #[inline]
    pub(super) fn store_read_pointer(&mut self, state: &RunState) {
        if let Some((word, stored)) = &mut self.read_pointer
            && *stored != state.taken
        {
            word.store(state.taken);
            *stored = state.taken;
        }
    }

    /// Begins a stretch of busy time for the current command, unless one has begun.
    pub(super) fn begin_busy(&mut self, state: &RunState, work: &mut Execution) {
        if self.busy.is_none() {
            self.busy = Some(Stretch::begin(&self.gpu, state, work));
        }
    }

    /// Ends the stretch.
    pub(super) fn end_busy(&mut self) {
        if let Some(stretch) = self.busy.take() {
            stretch.end(&self.gpu, &mut self.gpu.cmp.lock(), &mut self.tally, self.lane);
        }
    }

    /// Ends the stretch of a command that this turn does not resume: the engine switches to another
    /// queue or to none, or a reset cut the command off.
    pub(super) fn leave_previous(&mut self, cmp: &mut Cmp, picked: Option<QueueId>) {
        let Some(previous) = self.busy.as_ref().map(|busy| busy.queue) else { return };
        let run = cmp.queue(previous).and_then(|entry| entry.run.as_ref());
        let runs = run.is_some_and(
            |run| matches!(&run.packet, Some(Packet::Execute(work)) if work.running.is_some()),
        );
        if cmp.nodes[self.node].hung == Some(previous) || runs && picked == Some(previous) {
            return;
        }
        self.port.accesses.flush(&self.gpu.platform);
        if let Some(stretch) = self.busy.take() {
            stretch.end(&self.gpu, cmp, &mut self.tally, self.lane);
        }
        let now = self.gpu.platform.now();
        if let Some(run) = cmp.queue(previous).and_then(|entry| entry.run.as_mut()) {
            run.pause(now);
        }
    }
}

/// Returns whether an engine with this attention word and these summaries is recalled, outranked
/// or rung.
pub(super) fn is_wanted(attention: &Word, summaries: &[(usize, Arc<Summary>)]) -> bool {
    attention.load() >= OUTRANKED || summaries.iter().any(|(_, summary)| summary.is_rung())
}

/// Ends the stretch of an engine that stops, for the counters and the timeline.
impl Drop for Executor {
    fn drop(&mut self) {
        if self.busy.is_some() && !current::is_panicking() {
            self.end_busy();
            self.tally.hand_over(self.node, &mut self.gpu.cmp.lock().stats);
        }
    }
}
