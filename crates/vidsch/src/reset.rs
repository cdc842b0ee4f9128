//! The effect of resets on packets.
//!
//! A stopped engine receives no submissions and no preemption requests; its packets stay in flight.
//! An engine reset ([`VidSch::note_reset`]) ends the packets up to the one that the driver names.
//! Later packets are requeued as after a preemption. An adapter reset ends all packets
//! ([`VidSch::end_packets`]).

use crate::config::Now;
use crate::engine::{PreemptionReason, ResetOutcome};
use crate::queue::{CommandKind, Payload, SoftwareQueue};
use crate::scheduler::VidSch;
use tidegate_ddi::{EngineId, OsHandle};
use tidegate_platform::CpuTime;

impl<P: Payload> VidSch<P> {
    /// Stops submissions to an engine.
    pub fn stop(&mut self, engine: EngineId) {
        if let Some(engine) = self.engines.get_mut(engine) {
            engine.stopped = true;
        }
    }

    /// Stops submissions to all engines.
    pub fn stop_all(&mut self) {
        self.engines.iter_mut().for_each(|(_, engine)| engine.stopped = true);
    }

    /// Returns the fence IDs of the last completed and the last submitted packet.
    pub fn completed_and_submitted(&self, engine: EngineId) -> (u32, u32) {
        self.engines.get(engine).map_or((0, 0), |e| (e.last_completed(), e.last_submitted()))
    }

    /// Returns the contexts with packets queued or in flight.
    pub fn busy_contexts(&self) -> Vec<OsHandle> {
        let busy = |queue: &SoftwareQueue<P::Fence>| {
            queue.context().is_some() && (!queue.is_complete() || !queue.items.is_empty())
        };
        self.queues.iter().filter(|(_, queue)| busy(queue)).map(|(handle, _)| *handle).collect()
    }

    /// Records a reset of the engine: packet `last` was aborted, or was the last completed one.
    /// Returns the context of an aborted packet, and whether it is a paging packet.
    pub fn note_reset(
        &mut self,
        engine: EngineId,
        last: u32,
        aborted: bool,
    ) -> Option<(OsHandle, bool)> {
        let engine = self.engines.get_mut(engine)?;
        engine.reset = Some(ResetOutcome { last, aborted });
        let packet = engine.in_flight.iter().find(|packet| aborted && packet.id == last)?;
        Some((packet.context, packet.command.kind == CommandKind::Paging))
    }

    /// Resumes submissions to the engine, first of the packets that its reset returned. Returns the
    /// contexts of completed packets.
    // spec: PRE-050
    pub fn resume(&mut self, engine: EngineId, now: Now) -> Vec<OsHandle> {
        let Some(e) = self.engines.get_mut(engine) else { return Vec::new() };
        e.stopped = false;
        let Some(ResetOutcome { last, aborted }) = e.reset.take() else {
            // A request whose packets are all complete needs no answer.
            if e.in_flight.is_empty() {
                e.withdraw();
            }
            return Vec::new();
        };
        let aborted = aborted && e.in_flight.iter().any(|packet| packet.id == last);
        let complete = if aborted { last.wrapping_sub(1) } else { last };
        let completed = self.complete_up_to(engine, complete, now);
        // After the completion of earlier packets: the aborted one is the last that is complete.
        let aborted = self.engines[engine].end_at_reset(last);
        if let Some(packet) = aborted {
            self.left_engine(packet.context, now);
        }
        let e = &mut self.engines[engine];
        e.withdraw();
        let packets = e.reclaim_in_flight();
        self.requeue(engine, packets, PreemptionReason::Timeout, now);
        completed
    }

    /// Ends the packets in flight of the matching contexts.
    pub fn end_packets(&mut self, which: impl Fn(OsHandle) -> bool, now: Now) {
        for id in self.engines.engines() {
            let engine = &mut self.engines[id];
            engine.withdraw();
            let ended = engine.end_packets(|packet| which(packet.context));
            ended.into_iter().for_each(|context| self.left_engine(context, now));
        }
    }

    /// Exempts the packets of a context from timeouts (DisableGpuTimeout).
    pub fn disable_timeout(&mut self, context: OsHandle) {
        if let Some(state) = self.queues.get(&context).and_then(SoftwareQueue::context) {
            self.engines[state.engine].exempt.insert(context);
        }
    }

    /// Requests a preemption of the engine unconditionally. Returns the fence ID, or `None` if no
    /// packet is in flight or a request is open.
    pub fn preempt_now(&mut self, engine: EngineId, now: CpuTime) -> Option<u32> {
        let engine = self.engines.get_mut(engine)?;
        let requests = !engine.in_flight.is_empty() && engine.request().is_none();
        requests.then(|| engine.request_preemption(PreemptionReason::Timeout, now))
    }

    /// Returns the engines that count as hung. Each request, or packet if the driver cannot
    /// preempt, is reported once.
    // spec: PRE-026
    pub fn take_timed_out(&mut self, now: CpuTime, delay_ns: u64) -> Vec<EngineId> {
        let mut hung = Vec::new();
        for (id, engine) in self.engines.iter_mut() {
            if let Some((fence_id, due)) = engine.timeout(&self.config, delay_ns)
                && due <= now
            {
                engine.note_timeout(fence_id);
                hung.push(id);
            }
        }
        hung
    }

    /// Counts no time of an engine before `from` towards its timeout.
    pub fn count_timeouts_from(&mut self, from: CpuTime) {
        self.engines.iter_mut().for_each(|(_, engine)| engine.count_timeouts_from(from));
    }

    /// Leaves the last `ns` out of the time of each engine: nothing had a processor then.
    pub fn leave_out(&mut self, ns: u64, now: CpuTime) {
        self.engines.iter_mut().for_each(|(_, engine)| engine.leave_out(ns, now));
    }

    /// Returns the time of the next timeout.
    pub fn next_timeout(&self, delay_ns: u64) -> Option<CpuTime> {
        let timeouts = self.engines.values().filter_map(|e| e.timeout(&self.config, delay_ns));
        timeouts.map(|(_, due)| due).min()
    }
}
