//! Owns what the driver asks of engines when scheduling or recovery takes work off them: preempt a
//! node's ring, suspend a queue that cannot be left at once, reset an engine, and say how it does.
//!
//! A preemption is only noted here; the engine answers it (`engine::preempt`), at once when nothing
//! of the ring runs. A reset is done here, between two turns: an engine that hangs is in none, it
//! just takes nothing more.
//!
//! The order that matters for a reset: 1. wait for the end of the turn; 2. find what is cut off; 3.
//! stop a queue of a process that is; save a packet that is not; 4. empty the ring; 5. forget the
//! hang and the request; 6. call the engine.

use super::admin::{Answer, NOTHING};
use super::waits::Armed;
use super::{Cmp, Entry, Shared};
use crate::boundary::{may_give_back, may_switch};
use crate::config::NodeConfig;
use crate::mmu::Mmu;
use crate::queue::{Packet, Run, Shape};
use crate::save::{self, SYSTEM_PROCESS};
use std::sync::Arc;
use tidegate_gpu_abi::admin::EngineAnswer;
use tidegate_gpu_abi::{AdminError, CONTROL_READ_WORD, CONTROL_WRITE_WORD, QueueId, QueueKind};
use tidegate_platform::{PhysicalAddress, Target};

impl Entry {
    /// Whether the queue is in the middle of a command buffer.
    fn is_in_commands(&self) -> bool {
        self.run.as_ref().is_none_or(|run| matches!(run.packet, Some(Packet::Execute(_))))
    }
}

impl Cmp {
    /// The ring of a node.
    fn ring_of(&self, engine: usize) -> Option<QueueId> {
        let shapes = self.queues.iter().flatten().map(|entry| entry.shape);
        let of_engine =
            |shape: &Shape| shape.kind == QueueKind::Node && shape.node as usize == engine;
        shapes.into_iter().find(of_engine).map(|shape| shape.id)
    }

    /// The ring of a node that was asked for, if the engine may give it back now.
    pub(crate) fn ring_to_give_back(&self, engine: usize, node: &NodeConfig) -> Option<QueueId> {
        self.nodes[engine].preemption?;
        let ring = self.ring_of(engine)?;
        let entry = self.queues.get(ring.0 as usize)?.as_deref()?;
        let run = entry.run.as_ref()?;
        (entry.faulted || may_give_back(run, node)).then_some(ring)
    }

    /// The queue that an engine may not leave yet.
    pub(crate) fn committed(&self, engine: usize, node: &NodeConfig) -> Option<QueueId> {
        let queue = self.nodes[engine].current?;
        let entry = self.queues.get(queue.0 as usize)?.as_deref()?;
        let run = entry.run.as_ref()?;
        (!entry.suspended && !entry.faulted && !may_switch(run, node)).then_some(queue)
    }

    /// Whether an engine is in the middle of this queue, which wants to go on.
    pub(crate) fn is_amid(&self, engine: usize, queue: QueueId, node: &NodeConfig) -> bool {
        let entry = self.queues.get(queue.0 as usize).and_then(|entry| entry.as_deref());
        let wants = |entry: &Entry| entry.listed && !entry.suspended && !entry.faulted;
        entry.is_some_and(|entry| wants(entry) && entry.is_in_commands())
            || self.committed(engine, node) == Some(queue)
    }

    /// Takes a queue from wherever it waits for its turn.
    pub(crate) fn withdraw(&mut self, armed: &Armed, queue: QueueId) {
        self.delist(queue);
        if let Some(key) = self.queue(queue).and_then(|entry| entry.waiting.take()) {
            self.waits.leave(armed, key, queue);
        }
    }
}

impl Shared {
    #[doc(alias = "DxgkDdiPreemptCommand")]
    pub(super) fn preempt_node(&self, engine: u32, preemption_fence_id: u32) -> Answer {
        let index = self.checked_engine(engine)?;
        let mut cmp = self.awake()?;
        cmp.ring_of(index).ok_or(AdminError::NoSuchQueue)?;
        let node = &mut cmp.nodes[index];
        if node.preemption.is_some() {
            return Err(AdminError::Busy);
        }
        node.preemption = Some(preemption_fence_id);
        node.ring_asked = Some(self.platform.now());
        cmp.stats.nodes[index].preemptions_asked += 1;
        self.recall(cmp, engine);
        NOTHING
    }

    #[doc(alias = "DxgkDdiQueryEngineStatus")]
    pub(super) fn query_engine(&self, engine: u32) -> Answer {
        let index = self.checked_engine(engine)?;
        let mut cmp = self.awake()?;
        let node = &cmp.nodes[index];
        let (hung, current, progress) = (node.hung, node.current, node.progress);
        let works =
            |entry: &&mut Entry| !entry.suspended && !entry.faulted && entry.is_in_commands();
        let queue = hung.or_else(|| current.filter(|q| cmp.queue(*q).as_ref().is_some_and(works)));
        Ok(EngineAnswer { responsive: hung.is_none(), queue, progress }.encode())
    }

    #[doc(alias = "DxgkDdiResetEngine")]
    pub(super) fn reset_engine(&self, engine: u32) -> Answer {
        let index = self.checked_engine(engine)?;
        // 1.
        let cmp = self.awake()?;
        let mut cmp = self.await_turns(cmp, |cmp| cmp.nodes[index].turns.is_multiple_of(2));
        // 2.
        let ring = cmp.ring_of(index);
        let current = cmp.nodes[index].hung.or(cmp.nodes[index].current);
        let in_commands = |cmp: &mut Cmp, q| {
            cmp.queue(q).is_none_or(|e| !e.suspended && !e.faulted && e.is_in_commands())
        };
        let culprit = current.filter(|queue| in_commands(&mut cmp, *queue));
        // 3.
        let stopped = culprit.filter(|queue| Some(*queue) != ring);
        if let Some(queue) = stopped {
            cmp.withdraw(&self.armed, queue);
            if let Some(entry) = cmp.queue(queue) {
                (entry.faulted, entry.suspending) = (true, false);
            }
        }
        // 4.
        let aborted = ring.and_then(|ring| self.reset_ring(&mut cmp, ring, culprit == Some(ring)));
        // 5.
        let node = &mut cmp.nodes[index];
        (node.hung, node.current, node.preemption) = (None, None, None);
        (node.ring_asked, node.asked) = (None, None);
        let last = aborted.unwrap_or_else(|| self.nodes[index].completed.load() as u32);
        // 6.
        self.recall(cmp, engine);
        Ok((u64::from(last), stopped.map_or(0, |queue| u64::from(queue.0) + 1)))
    }

    /// Empties a node's ring; returns the submission fence id of the packet that is lost with it,
    /// if one is.
    fn reset_ring(&self, cmp: &mut Cmp, ring: QueueId, is_culprit: bool) -> Option<u32> {
        cmp.withdraw(&self.armed, ring);
        let (now, engine) = (self.platform.now(), cmp.queue(ring)?.shape.node as usize);
        let system = cmp.space(SYSTEM_PROCESS, self.config.physical_gpu_of(engine));
        let entry = cmp.queue(ring)?;
        (entry.faulted, entry.suspended, entry.suspending, entry.kicked) =
            (false, false, false, false);
        let run = entry.run.as_mut()?;
        run.pause(now);
        let lost = match &run.packet {
            Some(Packet::Execute(work)) if is_culprit => work.submission_fence_id(),
            // A bystander: its state is kept as in a preemption, where there is a place for it.
            Some(Packet::Execute(work)) if work.is_begun() => {
                let mut mmu = Mmu::new(Arc::clone(&self.bus), &self.config);
                let kept = work.save_area.0 != 0
                    && save::store(&mut mmu, system, work, self.left_ns()).is_ok();
                if kept { None } else { work.submission_fence_id() }
            }
            _ => None,
        };
        self.empty_ring(run);
        entry.taken = run.state.taken;
        lost
    }

    /// Time on the timeline at which work is left in the middle now; 0 without a timeline.
    pub(crate) fn left_ns(&self) -> u64 {
        if self.platform.tracing() { self.platform.stamp_ns() } else { 0 }
    }

    /// Drops every slot of a node's ring that is published, kicked or not.
    pub(crate) fn empty_ring(&self, run: &mut Run) {
        run.packet = None;
        let state = &mut run.state;
        (state.reread, state.last_ring) = (false, None);
        let Some(Target::Protocol(page, start)) =
            self.bus.resolve(PhysicalAddress(state.shape.control.0))
        else {
            return;
        };
        let word = |number: usize| page.word((start / 8) as usize + number);
        // A write pointer that makes no sense stops the ring when it is read by the next kick.
        let _ = state.publish(word(CONTROL_WRITE_WORD).load());
        state.taken = state.known;
        word(CONTROL_READ_WORD).store(state.taken);
    }
}
