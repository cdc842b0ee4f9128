//! Preemption on the engine's side: which queue is next, and how a node's ring goes back to the
//! kernel.
//!
//! The order that matters when a ring goes back: 1. the state of a packet in the middle is stored
//! in its save area; 2. every slot that is published and not complete is dropped, and the read
//! pointer says so; 3. under the CMP's lock, the registers say which request is answered and what
//! was complete, and the request is over; 4. with no lock held, the cause is set. A packet that was
//! completed before has raised its cause before.

use super::{Engine, Outcome};
use crate::cmp::reports::FaultRecord;
use crate::cmp::{Cmp, OTHERS, Shared};
use crate::queue::{Packet, Run};
use crate::save::{self, SYSTEM_PROCESS};
use std::sync::Arc;
use tidegate_gpu_abi::{Cause, QueueId, Summary};
use tidegate_platform::Word;

/// What an engine does with the queue that it has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Execute,
    /// Gives the ring back to the kernel.
    GiveBack,
}

/// What an engine sees of others without a lock, while it works.
pub(super) struct Outlook<'a> {
    pub(super) attention: &'a Word,
    pub(super) summaries: &'a [(usize, Arc<Summary>)],
}

impl Outlook<'_> {
    /// Whether the engine is recalled, or somebody comes before the queue that it works for.
    pub(super) fn is_called(&self) -> bool {
        self.attention.load() >= OTHERS
    }

    /// The same, or a doorbell was rung: whose, a turn's beginning tells.
    pub(super) fn is_wanted(&self) -> bool {
        let rung = || self.summaries.iter().any(|(_, summary)| summary.is_rung());
        self.is_called() || rung()
    }
}

impl Engine {
    pub(super) fn outlook(&self) -> Outlook<'_> {
        Outlook { attention: &self.attention, summaries: &self.summaries }
    }

    /// The queue whose turn it is: the node's ring, if it is to go back and may; else the one that
    /// the engine may not leave yet; else the first of the run list.
    pub(super) fn pick(&mut self, cmp: &mut Cmp) -> Option<QueueId> {
        let gpu = Arc::clone(&self.gpu);
        let (config, clock) = (gpu.config.node_of(self.node), || gpu.platform.now());
        self.task = Task::Execute;
        let serves = cmp.holds == 0 && cmp.serves(self.node);
        if let Some(ring) = cmp.ring_to_give_back(self.node, config).filter(|_| serves) {
            self.task = Task::GiveBack;
            cmp.withdraw(&gpu.armed, ring);
            cmp.nodes[self.node].list.left(clock);
            cmp.nodes[self.node].asked = None;
            return Some(ring);
        }
        let kept = cmp.committed(self.node, config);
        let list = &mut cmp.nodes[self.node].list;
        list.keep(kept);
        let amid = self.note_asked(cmp);
        let list = &mut cmp.nodes[self.node].list;
        let picked = if serves { list.pop(clock) } else { None };
        if picked.is_none() {
            list.left(clock);
        }
        self.note_answered(cmp, amid, picked);
        picked
    }

    /// What a turn on `queue` leaves behind: `leaves` says whether the engine may turn to another
    /// one now.
    pub(super) fn end_turn(&mut self, cmp: &mut Cmp, queue: QueueId, leaves: bool) {
        let node = self.gpu.config.node_of(self.node);
        if let Some(entry) = cmp.queue(queue)
            && leaves
            && std::mem::take(&mut entry.suspending)
        {
            entry.suspended = true;
            if let Some(run) = &mut entry.run {
                run.pause(self.gpu.platform.now());
            }
            cmp.suspended_late.push_back(queue);
            self.causes |= Cause::QUEUE_SUSPENDED.0;
        }
        let kept = cmp.committed(self.node, node);
        cmp.nodes[self.node].list.keep(kept);
        if cmp.ring_to_give_back(self.node, node).is_some() {
            cmp.nodes[self.node].recall = true;
        }
    }

    /// Steps 1 and 2.
    pub(super) fn give_back(&mut self, gpu: &Shared, run: &mut Run) -> Outcome {
        self.end_busy();
        run.pause(gpu.platform.now());
        let system = gpu.cmp.lock().space(SYSTEM_PROCESS, self.physical_gpu);
        let mut fault = None;
        if let Some(Packet::Execute(work)) = &run.packet
            && work.is_begun()
        {
            self.tally.of(work.queue).preempted += 1;
        }
        if let Some(Packet::Execute(work)) = &run.packet
            && let Err(stopped) = save::store(&mut self.port.mmu, system, work, gpu.left_ns())
        {
            let (queue, position) =
                (run.state.shape.id, u64::from(work.submission_fence_id().unwrap_or(0)));
            fault = Some(FaultRecord::of_ring(queue, position, stopped));
        }
        gpu.empty_ring(run);
        Outcome::GivenBack(fault)
    }

    /// Step 3, and what follows for the others.
    pub(super) fn answer_preemption(
        &mut self,
        cmp: &mut Cmp,
        queue: QueueId,
        fault: Option<FaultRecord>,
    ) {
        if let Some(record) = fault {
            self.fault_queue(cmp, record, false);
        }
        let node = &mut cmp.nodes[self.node];
        if node.current == Some(queue) {
            node.current = None;
        }
        let Some(preemption_fence_id) = node.preemption.take() else { return };
        self.note_given_back(cmp);
        let port = &self.gpu.nodes[self.node];
        port.preempted_completed.store(port.completed.load());
        port.preempted_fence.store(u64::from(preemption_fence_id));
        self.gpu.line.note_preempted(self.node);
        self.causes |= Cause::DMA_PREEMPTED.0;
    }
}
