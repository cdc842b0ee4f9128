//! Counts how often an engine is asked to leave what it runs, by a queue that goes before it or by
//! the kernel for its ring, and how long it takes until it has. For the timeline it also keeps for
//! how long work was left in the middle.
//!
//! A request begins when the engine hears of it: a doorbell that is rung in the middle of a turn is
//! heard of at its end. It is answered when the engine turns to another queue, or gives the ring
//! back; it lapses when nobody goes before any more. Under exploration nothing is counted: a look
//! at the clock would be one of the things that tell states apart.

use super::Engine;
use crate::cmp::Cmp;
use crate::queue::{Packet, Run};
use tidegate_gpu_abi::QueueId;
use tidegate_platform::{CpuTime, QueueNumber};
use tidegate_trace::{Kind, NameId, Record};

/// A request that is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    since: CpuTime,
    /// Whom the engine is wanted for.
    queue: QueueNumber,
}

impl Engine {
    /// Before the engine picks: notes whether somebody goes before the queue that it is in the
    /// middle of. Returns that queue.
    pub(super) fn note_asked(&self, cmp: &mut Cmp) -> Option<QueueId> {
        let current = cmp.nodes[self.node].current?;
        if !cmp.is_amid(self.node, current, self.gpu.config.node_of(self.node)) {
            return None;
        }
        let first = cmp.nodes[self.node].list.first_of_all().filter(|first| *first != current);
        let asked = match (first, cmp.nodes[self.node].asked) {
            (Some(first), None) => {
                cmp.stats.nodes[self.node].preemptions_asked += 1;
                let queue = cmp.queue(first).map(|entry| entry.shape.number).unwrap_or_default();
                Some(Asked { since: self.gpu.platform.now(), queue })
            }
            (Some(_), asked) => asked,
            (None, _) => None,
        };
        cmp.nodes[self.node].asked = asked;
        Some(current)
    }

    /// After it has picked: whether it has left the queue that it was in the middle of.
    pub(super) fn note_answered(
        &mut self,
        cmp: &mut Cmp,
        left: Option<QueueId>,
        picked: Option<QueueId>,
    ) {
        if picked.is_none() {
            return;
        }
        if let Some(left) = left.filter(|left| Some(*left) != picked)
            && let Some(run) = cmp.queue(left).and_then(|entry| entry.run.as_mut())
            && let Some(Packet::Execute(work)) = &run.packet
            && work.is_begun()
        {
            self.tally.of(work.queue).preempted += 1;
            if self.gpu.platform.tracing() {
                run.left_ns = Some(self.gpu.platform.stamp_ns());
            }
        }
        if picked != cmp.nodes[self.node].current
            && let Some(asked) = cmp.nodes[self.node].asked.take()
        {
            self.answered(cmp, asked.since, Some(asked.queue));
        }
    }

    /// The engine comes back to a queue that it had left in the middle: its lane says how long that
    /// was.
    pub(super) fn record_return(&self, run: &mut Run) {
        let (Some(left_ns), Some(Packet::Execute(work))) = (run.left_ns.take(), &run.packet) else {
            return;
        };
        let platform = &self.gpu.platform;
        if let Some(lane) = platform.traced_lane_of(work.queue) {
            let now_ns = platform.stamp_ns();
            platform.record(Record::span(lane, Kind::Preempted, NameId::NONE, left_ns, now_ns));
        }
    }

    /// The ring has gone back to the kernel, which asked for it then.
    pub(super) fn note_given_back(&mut self, cmp: &mut Cmp) {
        if let Some(since) = cmp.nodes[self.node].ring_asked.take() {
            self.answered(cmp, since, None);
        }
    }

    fn answered(&self, cmp: &mut Cmp, since: CpuTime, queue: Option<QueueNumber>) {
        let took_ns = self.gpu.platform.now().since(since);
        cmp.stats.nodes[self.node].preemptions.add(took_ns);
        if let Some(queue) = queue {
            cmp.stats.preemptions.entry(queue).or_default().add(took_ns);
        }
    }
}
