//! Counts preemption requests, by a queue that precedes or by the kernel for its ring, and measures
//! how long the engine takes to leave its work. For the timeline, also measures how long work was
//! left in the middle.
//!
//! A request begins when the engine sees it: a doorbell rung during a turn is seen at its end. It
//! is answered when the engine switches queues or the ring is preempted. It lapses when no queue
//! precedes any more.

use super::executor::Executor;
use crate::cmp::Cmp;
use crate::cmp::node::PreemptionRequest;
use crate::queue::{Packet, Run};
use tidegate_gpu_abi::QueueId;
use tidegate_platform::{CpuTime, QueueNumber};
use tidegate_trace::{Kind, NameId, Record};

impl Executor {
    /// Records, before selection, whether a queue precedes the one that the engine is in the middle
    /// of. Returns the latter.
    pub(super) fn note_request(&self, cmp: &mut Cmp) -> Option<QueueId> {
        let current = cmp.nodes[self.node].current?;
        if !cmp.is_amid(self.node, current, self.gpu.config.node_of(self.node)) {
            return None;
        }
        let first = cmp.nodes[self.node].list.first_of_all().filter(|first| *first != current);
        let request = match (first, cmp.nodes[self.node].requested) {
            (Some(first), None) => {
                cmp.stats.nodes[self.node].preemptions_requested += 1;
                let queue = cmp.queue(first).map(|entry| entry.shape.number).unwrap_or_default();
                Some(PreemptionRequest { since: self.gpu.platform.now(), queue })
            }
            (Some(_), request) => request,
            (None, _) => None,
        };
        cmp.nodes[self.node].requested = request;
        Some(current)
    }

    /// Records, after selection, whether the engine has left that queue.
    pub(super) fn note_answer(
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
            run.left_ns = self.gpu.platform.tracing().then(|| self.gpu.platform.stamp_ns());
        }
        if picked != cmp.nodes[self.node].current
            && let Some(request) = cmp.nodes[self.node].requested.take()
        {
            self.count_answer(cmp, request.since, Some(request.queue));
        }
    }

    /// Records on the lane how long a resumed queue was left in the middle.
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

    /// Records that the ring's preemption, requested at that time, is answered.
    pub(super) fn note_given_back(&mut self, cmp: &mut Cmp) {
        if let Some(since) = cmp.nodes[self.node].ring_requested.take() {
            self.count_answer(cmp, since, None);
        }
    }

    fn count_answer(&self, cmp: &mut Cmp, since: CpuTime, queue: Option<QueueNumber>) {
        let took_ns = self.gpu.platform.now().since(since);
        cmp.stats.nodes[self.node].preemptions.add(took_ns);
        if let Some(queue) = queue {
            cmp.stats.queues.entry(queue).or_default().preempts.add(took_ns);
        }
    }
}
