//! Packets of contexts: selection, completion and preemption.
//!
//! A packet is submitted when it is at the head of its context's queue and the engine has room.
//! Contexts are ordered by rank (`ready`). Preempted packets (`engine`) return to these heads.

use crate::config::Now;
use crate::engine::{Answer, Engine, Packet, PreemptionReason};
use crate::queue::{Command, CommandKind, Item, Payload, SoftwareQueue, Work};
use crate::ready::Candidate;
use crate::scheduler::{DuePacket, Effect, VidSch};
use tidegate_ddi::{EngineId, OsHandle, Priority, SubmitCommandFlags};
use tidegate_platform::CpuTime;

/// The driver's report of a preemption: packets up to `last_completed` are complete, and the others
/// were preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreemptionReport {
    /// Fence ID of the preemption request.
    pub request: u32,
    /// Fence ID of the last completed packet.
    pub last_completed: u32,
}

/// The meaning of a DMA_PREEMPTED report.
#[derive(Debug, PartialEq, Eq)]
pub enum Preempted {
    /// It answers the open request.
    Answered {
        /// Contexts of the packets that completed before the preemption.
        completed: Vec<OsHandle>,
        /// Number of preempted packets.
        returned: usize,
    },
    /// It answers a withdrawn request.
    Stale,
    /// Its ID matches no request or packet in flight.
    Unknown(u32),
}

impl<P: Payload> VidSch<P> {
    /// Sets the context to which the engine switches when idle. For hardware that otherwise keeps
    /// the last context loaded.
    pub fn set_idle_context(&mut self, engine: EngineId, context: OsHandle) {
        if let Some(engine) = self.engines.get_mut(engine) {
            engine.idle_context = Some(context);
        }
    }

    /// Returns the contexts of the packets in flight on an engine.
    pub fn contexts_in_flight(&self, engine: EngineId) -> Vec<OsHandle> {
        let packets = self.engines.get(engine).into_iter().flat_map(|engine| &engine.in_flight);
        packets.map(|packet| packet.context).collect()
    }

    /// Whether an engine has packets in flight.
    pub fn has_packets(&self, engine: EngineId) -> bool {
        self.engines.get(engine).is_some_and(|engine| !engine.in_flight.is_empty())
    }

    /// Whether the driver owes a report of an engine: about a packet or a preemption request.
    pub fn owes_report(&self, engine: EngineId) -> bool {
        self.engines.get(engine).is_some_and(Engine::owes_report)
    }

    /// Whether an engine has packets or a preemption request in flight, or packets that are ready.
    pub fn has_due_work(&self) -> bool {
        self.engines.values().any(Engine::has_due_work)
    }

    /// Returns the context of a packet in flight.
    pub fn context_of_packet(&self, engine: EngineId, fence_id: u32) -> Option<OsHandle> {
        self.packet_in_flight(engine, fence_id).map(|(context, _)| context)
    }

    /// Returns the context of a packet in flight, and the GPU address of its commands.
    pub fn packet_in_flight(&self, engine: EngineId, fence_id: u32) -> Option<(OsHandle, u64)> {
        let mut packets = self.engines.get(engine)?.in_flight.iter();
        let packet = packets.find(|packet| packet.id == fence_id)?;
        Some((packet.context, packet.command.address()))
    }

    /// Whether memory must stay in place, because a packet is in flight or a patched packet was
    /// preempted. The saved state of a patched packet has unpatchable physical addresses.
    pub fn holds_places(&self) -> bool {
        let holds = |item: &Item<P::Fence>| match &item.work {
            Work::Command(command) => {
                item.returned.is_some() && matches!(command.kind, CommandKind::Patched { .. })
            }
            _ => false,
        };
        self.engines.values().any(|engine| !engine.in_flight.is_empty())
            || self.queues.values().any(|queue| queue.items.iter().any(holds))
    }

    /// Retires the packets of an engine up to `fence_id`. Returns their contexts, or `None` if no
    /// packet with that ID was submitted.
    pub fn completed(
        &mut self,
        engine: EngineId,
        fence_id: u32,
        now: Now,
    ) -> Option<Vec<OsHandle>> {
        let known = self.engines.get(engine)?.was_submitted(fence_id);
        known.then(|| self.complete_up_to(engine, fence_id, now))
    }

    pub(crate) fn complete_up_to(
        &mut self,
        engine: EngineId,
        fence_id: u32,
        now: Now,
    ) -> Vec<OsHandle> {
        self.engines[engine].count_shares(&self.config, now.at);
        let completed = self.engines[engine].complete_up_to(fence_id, now.at);
        for context in &completed {
            if let Some(state) = self.queues.get_mut(context).and_then(SoftwareQueue::context_mut) {
                state.packets.1 += 1;
            }
            self.left_engine(*context, now);
        }
        completed
    }

    pub(crate) fn left_engine(&mut self, context: OsHandle, now: Now) {
        if let Some(state) = self.queues.get_mut(&context).and_then(SoftwareQueue::context_mut) {
            state.in_flight -= 1;
        }
        self.advance(context, now);
    }

    /// Removes a packet that the driver rejected. Packets before it may be running.
    pub fn not_accepted(&mut self, engine: EngineId, fence_id: u32, now: Now) {
        let packet = self.engines.get_mut(engine).and_then(|e| e.not_accepted(fence_id, now.at));
        if let Some(packet) = packet {
            self.left_engine(packet.context, now);
        }
    }

    /// Handles the driver's report of a preemption.
    pub fn preempted(
        &mut self,
        engine: EngineId,
        PreemptionReport { request, last_completed }: PreemptionReport,
        now: Now,
    ) -> Preempted {
        let Some(of) = self.engines.get_mut(engine) else { return Preempted::Unknown(request) };
        let reason = match of.match_answer(request, last_completed) {
            Answer::Open(reason) => reason,
            Answer::Withdrawn => return Preempted::Stale,
            Answer::Unknown(id) => return Preempted::Unknown(id),
        };
        let completed = self.complete_up_to(engine, last_completed, now);
        self.engines[engine].note_answer(now.at);
        let packets = self.engines[engine].reclaim_in_flight();
        let returned = packets.len();
        self.requeue(engine, packets, reason, now);
        Preempted::Answered { completed, returned }
    }

    /// Requeues preempted packets: paging packets ahead of all other work of the engine, others at
    /// the heads of their contexts, whose turns continue.
    pub(crate) fn requeue(
        &mut self,
        engine: EngineId,
        packets: Vec<Packet>,
        reason: PreemptionReason,
        now: Now,
    ) {
        let turn_ns = self.engines[engine].turn_ns(&self.config);
        for (place, packet) in packets.into_iter().enumerate().rev() {
            match packet.command.kind {
                CommandKind::Paging => self.engines[engine].returned.push_front(packet),
                CommandKind::Render | CommandKind::Patched { .. } => {
                    let used_ns = packet.turn_ns(now.at);
                    let is_used_up = reason == PreemptionReason::Quantum || used_ns >= turn_ns;
                    let continues = (place > 0 || !is_used_up).then_some(used_ns);
                    let ran = place == 0 && packet.began.is_some_and(|began| began < now.at);
                    self.requeue_command(&packet, continues, ran, now);
                }
                CommandKind::ContextSwitch | CommandKind::HwQueue { .. } => {
                    self.left_engine(packet.context, now)
                }
            }
        }
    }

    /// Requeues a preempted command. `continues` is the used part of its context's turn in
    /// nanoseconds, or `None` if the turn is over. `ran`: the engine had begun the packet.
    // spec: PRE-031, PRE-041
    fn requeue_command(&mut self, packet: &Packet, continues: Option<u64>, ran: bool, now: Now) {
        let context = packet.context;
        let Some(queue) = self.queues.get_mut(&context) else { return };
        let Some(state) = queue.context_mut().filter(|state| !state.abandoned) else {
            return self.left_engine(context, now);
        };
        state.in_flight -= 1;
        if ran {
            self.engines[state.engine].note_fruitless(packet);
        }
        let Command { queued_ns, kind, bytes, .. } = packet.command;
        let (cost, work) = (kind.cost(bytes as usize), Work::Command(packet.command));
        let returned = Some(continues.unwrap_or(0));
        let item = Item { ticket: 0, cost, queued_ns, head_ns: None, returned, work };
        queue.items.push_front(item);
        self.holds.area_became_movable |= queue.can_move_area();
        let signalling = queue.signalling;
        let Some(state) = queue.context_mut() else { return };
        if signalling || state.hold.is_on() {
            return;
        }
        let ready = &mut self.engines[state.engine].ready;
        if std::mem::replace(&mut state.listed, true) {
            ready.remove(context, state.priority);
        }
        match continues {
            None => ready.push_back(context, state.priority),
            Some(_) => ready.push_front(context, state.priority),
        }
    }

    /// Returns the next deadline at which an effect of the packets becomes due; `None` while an
    /// agent holds the submission right.
    pub fn next_deadline(&self) -> Option<CpuTime> {
        if self.right.is_held() {
            return None;
        }
        let deadline = |engine: &Engine| engine.deadline(&self.config, self.decided_at);
        self.engines.values().filter_map(deadline).min()
    }

    /// Whether the driver supports preemption.
    pub fn preempts(&self) -> bool {
        self.config.preempts
    }

    /// Returns the engines whose first packet has run for the timeout delay without a request.
    pub fn overdue(&self, now: CpuTime) -> Vec<EngineId> {
        let overdue = self.engines.iter().filter(|(_, state)| state.is_overdue(&self.config, now));
        overdue.map(|(engine, _)| engine).collect()
    }

    /// Returns the next effect of the packets. If there is none, the submission right is released.
    pub fn next_effect(&mut self, now: Now) -> Option<Effect<P>> {
        self.decided_at = now.at;
        let config = self.config;
        self.engines.iter_mut().for_each(|(_, engine)| engine.count_shares(&config, now.at));
        // Hand off the right before deciding further effects.
        let effect = match self.right.has_waiter() {
            true => None,
            false => self.next_signal(now).or_else(|| self.next_preemption(now)).or_else(|| {
                self.engines.engines().find_map(|engine| self.next_packet(engine, now))
            }),
        };
        if effect.is_none() {
            self.right.release();
        }
        effect
    }

    fn next_signal(&mut self, now: Now) -> Option<Effect<P>> {
        while let Some(ticket) = self.due_signals.pop_front() {
            if let Some((queues, signal)) = self.take_due_signal(ticket, now) {
                return Some(Effect::Signal { queues, signal });
            }
        }
        None
    }

    fn next_preemption(&mut self, now: Now) -> Option<Effect<P>> {
        let config = self.config;
        self.engines.iter_mut().find_map(|(engine, state)| {
            let reason = state.preemption_due(&config, now.at)?;
            let fence_id = state.request_preemption(reason, now.at);
            Some(Effect::Preempt { engine, fence_id })
        })
    }

    fn next_packet(&mut self, engine: EngineId, now: Now) -> Option<Effect<P>> {
        if !self.engines[engine].has_room() {
            return None;
        }
        if let Some(packet) = self.engines[engine].resubmit_paging(now.at) {
            let Packet { id: fence_id, context, command, .. } = packet;
            let flags = SubmitCommandFlags::PAGING | SubmitCommandFlags::RESUBMISSION;
            return Some(Effect::Submit(DuePacket { context, engine, command, fence_id, flags }));
        }
        while let Some(candidate) = self.take_candidate(engine) {
            let context = candidate.context;
            let Some(queue) = self.queues.get_mut(&context) else { continue };
            if let Some(state) = queue.context_mut() {
                state.listed = false;
            }
            let Some(command) = queue.head_command().copied() else {
                self.advance(context, now);
                continue;
            };
            let returned = queue.items.pop_front().and_then(|item| item.returned);
            return Some(self.submit(engine, candidate, command, returned, now));
        }
        // spec: PRE-012
        let idle = self.engines[engine].idle_switch_due();
        let context = idle.filter(|_| self.held_for_split(engine).is_none())?;
        let priority = Priority::Realtime;
        let idle = Candidate { context, priority, rank: priority };
        Some(self.submit(engine, idle, Command::CONTEXT_SWITCH, None, now))
    }

    /// Takes the next context to run. An engine held for a split buffer runs only paging contexts,
    /// then the context of that buffer.
    fn take_candidate(&mut self, engine: EngineId) -> Option<Candidate> {
        let Some(held) = self.held_for_split(engine) else {
            return self.engines[engine].ready.pop();
        };
        let mut found = None;
        for (handle, queue) in &self.queues {
            let Some(state) = queue.context().filter(|s| s.listed && s.engine == engine) else {
                continue;
            };
            if queue.head_command().is_some_and(|command| command.kind == CommandKind::Paging) {
                found = Some((*handle, state.priority));
                break;
            }
            if *handle == held {
                found = Some((held, state.priority));
            }
        }
        let (context, priority) = found?;
        self.engines[engine].ready.remove(context, priority);
        Some(Candidate { context, priority, rank: priority })
    }

    // spec: PRE-111
    /// Returns the context whose split buffer reserves an engine. If the driver cannot preempt, the
    /// parts of a buffer run back to back. Other contexts may run while the context waits for a
    /// fence, because they may signal it.
    fn held_for_split(&self, engine: EngineId) -> Option<OsHandle> {
        let context = self.engines[engine].split().filter(|_| !self.config.preempts)?;
        let waits = self.queues.get(&context)?.head_wait().is_some();
        (!waits).then_some(context)
    }

    fn submit(
        &mut self,
        engine: EngineId,
        candidate: Candidate,
        command: Command,
        returned: Option<u64>,
        now: Now,
    ) -> Effect<P> {
        let context = candidate.context;
        let used_ns = returned.unwrap_or(0);
        let fence_id = self.engines[engine].submit(candidate, command, used_ns, now.at);
        if let Some(state) = self.queues.get_mut(&context).and_then(SoftwareQueue::context_mut) {
            state.in_flight += 1;
        }
        self.advance(context, now);
        let mut flags = SubmitCommandFlags::empty();
        flags.set(SubmitCommandFlags::PAGING, command.kind == CommandKind::Paging);
        flags.set(SubmitCommandFlags::CONTEXT_SWITCH, command.kind == CommandKind::ContextSwitch);
        flags.set(SubmitCommandFlags::RESUBMISSION, returned.is_some());
        Effect::Submit(DuePacket { context, engine, command, fence_id, flags })
    }
}
