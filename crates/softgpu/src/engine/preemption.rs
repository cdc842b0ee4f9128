//! Preemption on the engine: selection of the next queue, and the answer to a ring preemption.
//!
//! Order of an answer: 1. the state of a packet in the middle is stored in its save area; 2. every
//! slot that is published and not complete is dropped, and the read pointer is stored; 3. under the
//! CMP's lock, the registers get the answered request and the last completed id, and the request is
//! cleared; 4. with no lock held, the cause is raised. A packet that completed before has already
//! raised its cause.

use super::executor::{Executor, Outcome};
use crate::cmp::Cmp;
use crate::cmp::reports::FaultRecord;
use crate::queue::{Packet, Run};
use crate::save_area::{self, SYSTEM_PROCESS};
use std::sync::Arc;
use tidegate_gpu_abi::{Cause, QueueId};

/// What an engine does with the queue that it has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Execute,
    /// Answer the preemption of the ring.
    GiveBack,
}

impl Executor {
    /// Returns the next queue: the node's ring if its preemption is due, else the queue that the
    /// engine may not leave yet, else the first of the run list.
    pub(super) fn pick(&mut self, cmp: &mut Cmp) -> (Option<QueueId>, Task) {
        let gpu = Arc::clone(&self.gpu);
        let (config, clock) = (gpu.config.node_of(self.node), || gpu.platform.now());
        let serves = cmp.holds == 0 && cmp.serves(self.node);
        if let Some(ring) = cmp.ring_to_give_back(self.node, config).filter(|_| serves) {
            cmp.withdraw(&gpu.armed, ring);
            cmp.nodes[self.node].list.left(clock);
            cmp.nodes[self.node].requested = None;
            return (Some(ring), Task::GiveBack);
        }
        let kept = cmp.committed(self.node, config);
        cmp.nodes[self.node].list.keep(kept);
        let amid = self.note_request(cmp);
        let list = &mut cmp.nodes[self.node].list;
        let picked = if serves { list.pop(clock) } else { None };
        if picked.is_none() {
            list.left(clock);
        }
        self.note_answer(cmp, amid, picked);
        (picked, Task::Execute)
    }

    /// Ends a turn on `queue`. Completes a delayed suspension if the engine may leave the
    /// queue (`leaves`).
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

    /// Carries out steps 1 and 2.
    pub(super) fn give_back(&mut self, run: &mut Run) -> Outcome {
        self.end_busy();
        let gpu = &self.gpu;
        run.pause(gpu.platform.now());
        let (system, until) = {
            let cmp = gpu.cmp.lock();
            (cmp.space(SYSTEM_PROCESS, self.physical_gpu), cmp.nodes[self.node].preempted_until)
        };
        // A late answer to a withdrawn request: packets that were submitted since stay.
        // spec: PRE-152
        if run.state.taken >= until {
            return Outcome::GivenBack(None);
        }
        let mut fault = None;
        if let Some(Packet::Execute(work)) = &run.packet {
            self.tally.of(work.queue).preempted += u64::from(work.is_begun());
            let saved = save_area::store(&mut self.port.mmu, system, work, gpu.timeline_ns());
            fault = saved.err().map(|stopped| {
                let position = u64::from(work.submission_fence_id().unwrap_or(0));
                FaultRecord::of_ring(run.state.shape.id, position, stopped)
            });
        }
        run.empty_ring(&gpu.bus);
        Outcome::GivenBack(fault.map(Box::new))
    }

    /// Carries out step 3. The turn raises the cause.
    pub(super) fn answer_preemption(
        &mut self,
        cmp: &mut Cmp,
        queue: QueueId,
        fault: Option<FaultRecord>,
    ) {
        if let Some(record) = fault {
            self.report_fault(cmp, record, false);
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
        self.gpu.line.preempted.note(self.node);
        self.causes |= Cause::DMA_PREEMPTED.0;
    }
}
