//! What a reset does to packets.
//!
//! A stopped engine is given nothing and not preempted; its packets stay as they are. After the
//! reset of one engine ([`VidSch::note_reset`]), the packet that the driver names and those before
//! it are over. Those after it come back as from a preemption. After an adapter reset every packet
//! is over ([`VidSch::end_packets`]).

use crate::config::Now;
use crate::engine::{PreemptionReason, ResetOutcome};
use crate::queue::{CommandKind, Payload, SoftwareQueue};
use crate::scheduler::VidSch;
use tidegate_ddi::{EngineId, OsHandle};
use tidegate_platform::CpuTime;

impl<P: Payload> VidSch<P> {
    /// Nothing is submitted to the engine from now on.
    pub fn stop(&mut self, engine: EngineId) {
        if let Some(engine) = self.engine_mut(engine) {
            engine.stopped = true;
        }
    }

    /// Nothing is submitted to any engine from now on.
    pub fn stop_all(&mut self) {
        self.engines.iter_mut().for_each(|engine| engine.stopped = true);
    }

    /// The IDs of the last completed and of the last submitted packet.
    pub fn completed_and_submitted(&self, engine: EngineId) -> (u32, u32) {
        self.engine(engine).map_or((0, 0), |e| (e.last_completed(), e.last_submitted()))
    }

    /// The contexts that have packets queued or in flight.
    pub fn busy_contexts(&self) -> Vec<OsHandle> {
        let busy = |queue: &SoftwareQueue<P::Fence>| {
            queue.context().is_some() && (!queue.is_complete() || !queue.items.is_empty())
        };
        self.queues.iter().filter(|(_, queue)| busy(queue)).map(|(handle, _)| *handle).collect()
    }

    /// The engine was reset: packet `last` was aborted, or was the last complete one. Returns the
    /// context of an aborted packet, and whether the packet pages.
    pub fn note_reset(
        &mut self,
        engine: EngineId,
        last: u32,
        aborted: bool,
    ) -> Option<(OsHandle, bool)> {
        let engine = self.engine_mut(engine)?;
        engine.reset = Some(ResetOutcome { last, aborted });
        let packet = engine.in_flight.iter().find(|packet| aborted && packet.id == last)?;
        Some((packet.context, packet.command.kind == CommandKind::Paging))
    }

    /// Packets are submitted to the engine again, those that its reset returned first. Returns the
    /// contexts of packets that are over.
    // spec: PRE-050
    pub fn resume(&mut self, engine: EngineId, now: Now) -> Vec<OsHandle> {
        let Some(index) = self.index(engine) else { return Vec::new() };
        let e = &mut self.engines[index];
        e.stopped = false;
        let Some(ResetOutcome { last, aborted }) = e.reset.take() else {
            // A request about packets that are all complete needs no answer.
            if e.in_flight.is_empty() {
                e.withdraw();
            }
            return Vec::new();
        };
        let aborted = if aborted { e.take_aborted(last) } else { None };
        if let Some(packet) = &aborted {
            self.left_engine(packet.context, now);
        }
        let complete = if aborted.is_some() { last.wrapping_sub(1) } else { last };
        let over = self.complete_up_to(index, complete, now);
        let e = &mut self.engines[index];
        e.withdraw();
        let packets = e.take_back();
        self.put_back(index, packets, PreemptionReason::Timeout, now);
        over
    }

    /// Packets of these contexts are over, on their engines or on their way back.
    pub fn end_packets(&mut self, which: impl Fn(OsHandle) -> bool, now: Now) {
        for index in 0..self.engines.len() {
            let engine = &mut self.engines[index];
            engine.withdraw();
            let ended = engine.end_packets(|packet| which(packet.context));
            ended.into_iter().for_each(|context| self.left_engine(context, now));
        }
    }

    /// Packets of this context have no timeout (DisableGpuTimeout).
    pub fn disable_timeout(&mut self, context: OsHandle) {
        if let Some(state) = self.queues.get(&context).and_then(SoftwareQueue::context) {
            self.engines[state.engine].exempt.insert(context);
        }
    }

    /// Requests the packets of an engine whatever waits. Returns the fence ID, or `None` without
    /// packets or with an open request.
    pub fn preempt_now(&mut self, engine: EngineId, now: CpuTime) -> Option<u32> {
        let engine = self.engine_mut(engine)?;
        let requests = !engine.in_flight.is_empty() && engine.request().is_none();
        requests.then(|| engine.request_preemption(PreemptionReason::Timeout, now))
    }

    /// Takes the engines that count as hung by now. Each request, or packet where the driver cannot
    /// preempt, is reported once.
    // spec: PRE-026
    pub fn take_timed_out(&mut self, now: CpuTime, delay_ns: u64) -> Vec<EngineId> {
        let mut hung = Vec::new();
        for engine in &mut self.engines {
            if let Some((id, due)) = engine.timeout(&self.config, delay_ns)
                && due <= now
            {
                engine.note_timeout(id);
                hung.push(engine.id);
            }
        }
        hung
    }

    /// When the next engine counts as hung.
    pub fn next_timeout(&self, delay_ns: u64) -> Option<CpuTime> {
        let timeouts = self.engines.iter().filter_map(|e| e.timeout(&self.config, delay_ns));
        timeouts.map(|(_, due)| due).min()
    }
}
