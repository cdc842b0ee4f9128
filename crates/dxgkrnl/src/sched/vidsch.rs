//! Owns VidSch's policy for the packet model: pure, no lock, no clock, no fence; times are
//! arguments, decisions are returned.
//!
//! A context's queue is first in, first out over commands, waits and signals. A command goes to its
//! engine when it heads the queue and the engine has room; a wait holds what stands behind it; a
//! signal is made when it heads the queue and every earlier command is complete (a signal at
//! submission does not ask for that), on every context that it was given to. Between contexts of an
//! engine the higher priority goes first, and equal ones take turns (`priority`). Packets that the
//! engine has are asked for when others should run instead (`preempt`), and come back to where they
//! were.
//!
//! An engine is a node of a physical adapter; here it is a number (`AdapterCaps::engine_number`).
//! Packets are numbered per engine (`line`). What contexts have queued is in `pending`. A context
//! whose save area cannot take a state is held (`areas`).

mod areas;

mod reset;

use super::broadcast::{Broadcast, Standing};
use super::pending::{
    Command, CommandKind, ContextQueue, Effect, FenceOperations, Finished, GivenUp, Item, Now,
    QueuedSignal, Signal, Work,
};
use super::preempt::{Answered, Engine, Limits, Packet, Reason};
use super::priority::Candidate;
use areas::Areas;
use std::collections::{BTreeMap, VecDeque};
use tidegate_calls::{Priority, SignalFlags};
use tidegate_ddi::{AdapterCaps, OsHandle, SubmitCommandFlags};
use tidegate_platform::{CpuTime, Event};

/// Packets that an engine holds at once when the driver states no cap.
const DEFAULT_PACKET_CAP: usize = 2;

/// What to do next.
#[derive(Debug)]
pub(crate) enum Decision<F> {
    /// Give a packet to the driver.
    Submit {
        context: OsHandle,
        engine: u32,
        command: Command,
        fence_id: u32,
        flags: SubmitCommandFlags,
    },
    /// Ask for the packets of an engine.
    Preempt { engine: u32, fence_id: u32 },
    /// Signal, then report [`VidSch::signalled`].
    Signal { contexts: Vec<OsHandle>, signal: Signal<F> },
}

/// What a report of a preemption came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Preempted {
    /// The open request is answered: the contexts of packets that completed with it, and how many
    /// packets came back.
    Answered { completed: Vec<OsHandle>, returned: usize },
    /// The answer to a request that nobody waits for any more.
    Stale,
    /// It names a number that nothing in flight has.
    Unknown(u32),
}

/// The scheduler of one adapter's packet contexts. `F` is a fence and a value; here it is only
/// carried.
pub(crate) struct VidSch<F = super::FenceTarget> {
    limits: Limits,
    engines: Vec<Engine>,
    contexts: BTreeMap<OsHandle, ContextQueue<F>>,
    signals: BTreeMap<u64, QueuedSignal<F>>,
    /// Signals that every context has reached, in that order.
    reached_signals: VecDeque<u64>,
    finished: Vec<Finished<F>>,
    areas: Areas,
    next_ticket: u64,
    running: bool,
    /// Who gets the right to carry out decisions when whoever has it is done.
    heirs: VecDeque<Event>,
    /// When decisions were asked for last.
    seen: CpuTime,
}

impl<F: Clone> VidSch<F> {
    pub(crate) fn new(caps: &AdapterCaps, limits: Limits) -> VidSch<F> {
        let cap = match caps.hw_queue_packet_cap {
            0 => DEFAULT_PACKET_CAP,
            cap => cap as usize,
        };
        VidSch {
            limits,
            // spec: NF-323
            engines: (0..caps.engine_count()).map(|_| Engine::new(cap)).collect(),
            contexts: BTreeMap::new(),
            signals: BTreeMap::new(),
            reached_signals: VecDeque::new(),
            finished: Vec::new(),
            areas: Areas::default(),
            next_ticket: 0,
            running: false,
            heirs: VecDeque::new(),
            seen: CpuTime(0),
        }
    }

    pub(crate) fn add_context(
        &mut self,
        context: OsHandle,
        engine: u32,
        priority: Priority,
        tag: u32,
        lane: u32,
    ) {
        self.contexts.insert(context, ContextQueue::new(engine, priority, tag, lane));
    }

    /// An engine whose hardware keeps the context that it worked for last is turned to this one
    /// when it has nothing to do.
    pub(crate) fn turn_idle_engine_to(&mut self, engine: u32, context: OsHandle) {
        if let Some(engine) = self.engines.get_mut(engine as usize) {
            engine.idle_context = Some(context);
        }
    }

    /// Forgets a context.
    pub(crate) fn remove_context(&mut self, context: OsHandle) -> GivenUp<F> {
        let given_up = self.clear_contexts(&[context]);
        if let Some(queue) = self.contexts.remove(&context) {
            self.engines[queue.engine as usize].exempt.remove(&context);
        }
        given_up
    }

    /// Gives up everything that these contexts have queued, at once: their device is lost, and none
    /// of them makes a signal because another one went first. What of theirs comes back from an
    /// engine is not submitted again.
    pub(crate) fn clear_contexts(&mut self, contexts: &[OsHandle]) -> GivenUp<F> {
        let mut given_up =
            GivenUp { news: false, waits: Vec::new(), commands: Vec::new(), abandoned: Vec::new() };
        let mut left = Vec::new();
        for context in contexts {
            let Some(queue) = self.contexts.get_mut(context) else { continue };
            queue.given_up = true;
            self.engines[queue.engine as usize].end_split(*context);
            for item in queue.items.drain(..) {
                match item.work {
                    Work::Command(command) if !item.came_back => {
                        given_up.commands.push((*context, command))
                    }
                    Work::Command(_) => {}
                    Work::Wait { fences, .. } => {
                        given_up.waits.extend(fences.into_iter().map(|fence| (*context, fence)));
                    }
                    Work::Signal { .. } => left.push((item.ticket, *context)),
                }
            }
        }
        let mut complete = Vec::new();
        for (ticket, context) in left {
            let Some(queued) = self.signals.get_mut(&ticket) else { continue };
            match queued.contexts.leave(context) {
                Standing::Held => {}
                Standing::Complete => complete.push(ticket),
                // Nobody is left who could say that the event will not come: it comes.
                Standing::Abandoned if matches!(queued.signal.effect, Effect::CpuEvent(_)) => {
                    complete.push(ticket)
                }
                Standing::Abandoned => {
                    given_up.abandoned.extend(self.signals.remove(&ticket).map(|s| s.signal))
                }
            }
        }
        // One that was complete for a moment may have lost its last context after that.
        complete.retain(|ticket| self.signals.contains_key(ticket));
        given_up.news = !complete.is_empty();
        self.reached_signals.extend(complete);
        given_up
    }

    /// Appends work to a context; returns the ticket that names it.
    pub(crate) fn push(&mut self, context: OsHandle, work: Work<F>, now: Now) -> u64 {
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        if let Some(queue) = self.contexts.get_mut(&context) {
            let queued_ns = if let Work::Command(c) = &work { c.queued_ns } else { now.stamp_ns };
            // spec: MF-032
            queue.items.push_back(Item {
                ticket,
                queued_ns,
                head_ns: None,
                came_back: false,
                work,
            });
        }
        self.touch(context, now);
        ticket
    }

    /// Appends one signal packet to every one of `contexts`: made when all of them have reached it.
    pub(crate) fn push_signal(&mut self, contexts: &[OsHandle], signal: Signal<F>, now: Now) {
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        // spec: MF-064
        let at_submission = signal.flags.contains(SignalFlags::SIGNAL_AT_SUBMISSION);
        self.signals.insert(ticket, QueuedSignal { signal, contexts: Broadcast::new(contexts) });
        for context in contexts {
            let Some(queue) = self.contexts.get_mut(context) else { continue };
            let (work, queued_ns) = (Work::Signal { at_submission, reached: false }, now.stamp_ns);
            queue.items.push_back(Item {
                ticket,
                queued_ns,
                head_ns: None,
                came_back: false,
                work,
            });
        }
        for context in contexts {
            self.touch(*context, now);
        }
    }

    /// One condition of the wait `ticket` came true.
    pub(crate) fn wait_satisfied(&mut self, context: OsHandle, ticket: u64, now: Now) {
        let Some(queue) = self.contexts.get_mut(&context) else { return };
        if let Some(Item { work: Work::Wait { remaining, .. }, .. }) =
            queue.items.iter_mut().find(|i| i.ticket == ticket)
        {
            *remaining = remaining.saturating_sub(1);
        }
        self.touch(context, now);
    }

    /// The signal that was decided is made: its contexts go on.
    pub(crate) fn signalled(&mut self, contexts: &[OsHandle], now: Now) {
        for context in contexts {
            if let Some(queue) = self.contexts.get_mut(context) {
                queue.signalling = false;
            }
            self.touch(*context, now);
        }
    }

    /// The contexts of all packets of `engine` that are in flight.
    pub(crate) fn in_flight_on(&self, engine: u32) -> Vec<OsHandle> {
        let packets = self.engines.get(engine as usize).into_iter().flat_map(|n| &n.in_flight);
        packets.map(|packet| packet.context).collect()
    }

    /// Whether memory must stay where it is for a packet: one that an engine has, or one with
    /// physical addresses that an engine gave back. What was saved of such a packet says where its
    /// allocations stood, and no patch reaches that.
    pub(crate) fn holds_places(&self) -> bool {
        let holds = |item: &Item<F>| match &item.work {
            Work::Command(command) => {
                item.came_back && matches!(command.kind, CommandKind::Patched { .. })
            }
            _ => false,
        };
        self.engines.iter().any(|engine| !engine.in_flight.is_empty())
            || self.contexts.values().any(|queue| queue.items.iter().any(holds))
    }

    /// Packets of `engine` up to `fence_id` are complete; returns their contexts. `None` when no
    /// packet of that number was submitted.
    pub(crate) fn completed(
        &mut self,
        engine: u32,
        fence_id: u32,
        now: Now,
    ) -> Option<Vec<OsHandle>> {
        let known = self.engines.get(engine as usize)?.was_submitted(fence_id);
        known.then(|| self.complete_up_to(engine, fence_id, now))
    }

    fn complete_up_to(&mut self, engine: u32, fence_id: u32, now: Now) -> Vec<OsHandle> {
        let completed = self.engines[engine as usize].complete_up_to(fence_id, now.at);
        completed.iter().for_each(|context| self.left_engine(*context, now));
        completed
    }

    fn left_engine(&mut self, context: OsHandle, now: Now) {
        if let Some(queue) = self.contexts.get_mut(&context) {
            queue.in_flight -= 1;
        }
        self.touch(context, now);
    }

    /// A packet did not reach the engine: nothing is left of it. The packets before it are where
    /// they were; they may be running.
    pub(crate) fn not_taken(&mut self, engine: u32, fence_id: u32, now: Now) {
        let packet =
            self.engines.get_mut(engine as usize).and_then(|e| e.not_taken(fence_id, now.at));
        if let Some(packet) = packet {
            self.left_engine(packet.context, now);
        }
    }

    /// The context whose packet this is, while it is in flight.
    pub(crate) fn context_of_packet(&self, engine: u32, fence_id: u32) -> Option<OsHandle> {
        let engine = self.engines.get(engine as usize)?;
        engine.in_flight.iter().find(|packet| packet.id == fence_id).map(|packet| packet.context)
    }

    /// The driver reports that a preemption is over: packets up to `last_completed` are complete,
    /// and the others came back.
    pub(crate) fn preempted(
        &mut self,
        engine: u32,
        (request, last_completed): (u32, u32),
        now: Now,
    ) -> Preempted {
        let answered =
            self.engines.get(engine as usize).map(|e| e.answered(request, last_completed));
        let reason = match answered {
            Some(Answered::Open(reason)) => reason,
            Some(Answered::Withdrawn) => return Preempted::Stale,
            Some(Answered::Unknown(id)) => return Preempted::Unknown(id),
            None => return Preempted::Unknown(request),
        };
        let completed = self.complete_up_to(engine, last_completed, now);
        let packets = self.engines[engine as usize].take_back();
        let returned = packets.len();
        self.put_back(engine, packets, reason, now);
        Preempted::Answered { completed, returned }
    }

    /// Packets that an engine gave back go to where they were: paging packets before everything
    /// else on the engine, others to the heads of their contexts, which go on where their turns
    /// ended.
    fn put_back(&mut self, engine: u32, packets: Vec<Packet>, reason: Reason, now: Now) {
        for (place, packet) in packets.into_iter().enumerate().rev() {
            match packet.command.kind {
                CommandKind::Paging => self.engines[engine as usize].returned.push_front(packet),
                CommandKind::ContextSwitch => self.left_engine(packet.context, now),
                CommandKind::Render | CommandKind::Patched { .. } => {
                    let began = packet.began.filter(|_| packet.lifted_since.is_some());
                    let lift_over =
                        began.is_some_and(|began| now.at >= began.after(self.limits.quantum_ns));
                    let turn_over = place == 0 && (reason == Reason::Quantum || lift_over);
                    self.put_back_command(&packet, turn_over, now);
                }
            }
        }
    }

    // spec: PRE-031, PRE-041
    fn put_back_command(&mut self, packet: &Packet, turn_over: bool, now: Now) {
        let context = packet.context;
        let Some(queue) = self.contexts.get_mut(&context).filter(|queue| !queue.given_up) else {
            return self.left_engine(context, now);
        };
        queue.in_flight -= 1;
        let (queued_ns, work) = (packet.command.queued_ns, Work::Command(packet.command));
        queue.items.push_front(Item { ticket: 0, queued_ns, head_ns: None, came_back: true, work });
        self.areas.note_quiet(queue);
        if queue.signalling || queue.hold.is_on() {
            return;
        }
        let (listed, ready) = (
            std::mem::replace(&mut queue.listed, true),
            &mut self.engines[queue.engine as usize].ready,
        );
        if listed {
            ready.remove(context, queue.priority);
        }
        match turn_over {
            true => ready.push_back(context, queue.priority, now.at),
            false => ready.push_front(context, queue.priority, (now.at, packet.lifted_since)),
        }
    }

    /// When decisions are due although nothing happens; `None` while they are being carried out.
    pub(crate) fn next_deadline(&self) -> Option<CpuTime> {
        if self.running {
            return None;
        }
        self.engines.iter().filter_map(|engine| engine.deadline(&self.limits, self.seen)).min()
    }

    /// Whether packets are asked for.
    pub(crate) fn preempts(&self) -> bool {
        self.limits.preempts
    }

    /// Engines whose first packet has run for the timeout delay, and was not asked for.
    pub(crate) fn overdue(&self, now: CpuTime) -> Vec<u32> {
        let engines = (0..).zip(&self.engines);
        engines
            .filter(|(_, engine)| engine.is_overdue(&self.limits, now))
            .map(|(number, _)| number)
            .collect()
    }

    /// Takes the right to carry out decisions; `false` when somebody has it, who will see what was
    /// just entered.
    pub(crate) fn begin_run(&mut self) -> bool {
        !std::mem::replace(&mut self.running, true)
    }

    /// The next decision; `None` gives the right back.
    pub(crate) fn next_decision(&mut self, now: Now) -> Option<Decision<F>> {
        self.seen = now.at;
        // Whoever waits for the right goes before everything that is to be decided.
        if !self.heirs.is_empty() {
            self.running = false;
            return None;
        }
        let decision = self
            .next_signal(now)
            .or_else(|| self.next_request(now))
            .or_else(|| (0..self.engines.len()).find_map(|engine| self.next_packet(engine, now)));
        self.running = decision.is_some();
        decision
    }

    /// Waits and signals that are over since the last call.
    pub(crate) fn take_finished(&mut self) -> Vec<Finished<F>> {
        std::mem::take(&mut self.finished)
    }

    fn next_signal(&mut self, now: Now) -> Option<Decision<F>> {
        while let Some(ticket) = self.reached_signals.pop_front() {
            // One whose contexts went away meanwhile is abandoned.
            let Some(QueuedSignal { signal, contexts }) = self.signals.remove(&ticket) else {
                continue;
            };
            let contexts = contexts.queues();
            for context in &contexts {
                let Some(queue) = self.contexts.get_mut(context) else { continue };
                // A signal at submission was reached when the packet before it went; that one may
                // have come back since.
                let at = queue.items.iter().position(|item| item.ticket == ticket);
                let Some(item) = at.and_then(|at| queue.items.remove(at)) else { continue };
                queue.signalling = true;
                let Effect::Fences(fences) = &signal.effect else { continue };
                queue.done.signals += 1;
                self.finished.push(Finished {
                    lane: queue.lane,
                    wait: false,
                    fences: fences.clone(),
                    queued_ns: item.queued_ns,
                    start_ns: item.head_ns.unwrap_or(now.stamp_ns),
                    end_ns: now.stamp_ns,
                });
            }
            return Some(Decision::Signal { contexts, signal });
        }
        None
    }

    fn next_request(&mut self, now: Now) -> Option<Decision<F>> {
        let limits = self.limits;
        (0..).zip(&mut self.engines).find_map(|(engine, e)| {
            let reason = e.wants_back(&limits, now.at)?;
            Some(Decision::Preempt { engine, fence_id: e.ask(reason, now.at) })
        })
    }

    fn next_packet(&mut self, index: usize, now: Now) -> Option<Decision<F>> {
        let engine = index as u32;
        if !self.engines[index].has_room() {
            return None;
        }
        if let Some(packet) = self.engines[index].resubmit_paging(now.at) {
            let Packet { id: fence_id, context, command, .. } = packet;
            let flags = SubmitCommandFlags::PAGING | SubmitCommandFlags::RESUBMISSION;
            return Some(Decision::Submit { context, engine, command, fence_id, flags });
        }
        while let Some(candidate) = self.take_candidate(index, now) {
            let context = candidate.context;
            let Some(queue) = self.contexts.get_mut(&context) else { continue };
            queue.listed = false;
            let Some(command) = queue.head_command().copied() else {
                self.touch(context, now);
                continue;
            };
            let came_back = queue.items.pop_front().is_some_and(|item| item.came_back);
            return Some(self.submit(engine, candidate, (command, came_back), now));
        }
        // spec: PRE-012
        let context =
            self.engines[index].turns_away().filter(|_| self.held_for_split(index).is_none())?;
        let idle = Candidate { context, priority: Priority::Realtime, lifted_since: None };
        Some(self.submit(engine, idle, (Command::CONTEXT_SWITCH, false), now))
    }

    /// Takes the context whose turn it is. While an engine is held for a split buffer, only the
    /// contexts of the memory manager and then the context of the buffer have a turn.
    fn take_candidate(&mut self, index: usize, now: Now) -> Option<Candidate> {
        let Some(held) = self.held_for_split(index) else {
            return self.engines[index].ready.pop(self.limits.quantum_ns, now.at);
        };
        let listed = || {
            self.contexts.iter().filter(|(_, queue)| queue.listed && queue.engine as usize == index)
        };
        let pages = |queue: &ContextQueue<F>| {
            queue.head_command().is_some_and(|c| c.kind == CommandKind::Paging)
        };
        let paging = listed().find(|(_, queue)| pages(queue));
        let (context, queue) =
            paging.or_else(|| listed().find(|(context, _)| **context == held))?;
        let (context, priority) = (*context, queue.priority);
        self.engines[index].ready.remove(context, priority);
        Some(Candidate { context, priority, lifted_since: None })
    }

    // spec: PRE-111
    /// The context of the split buffer that an engine is held for: the parts of a buffer run back
    /// to back where the driver is not preemption aware. While a wait heads the context's queue
    /// other contexts run, because the wait may depend on them.
    fn held_for_split(&self, index: usize) -> Option<OsHandle> {
        let context = self.engines[index].split().filter(|_| !self.limits.preempts)?;
        let queue = self.contexts.get(&context)?;
        let waits = matches!(queue.items.front(), Some(Item { work: Work::Wait { .. }, .. }));
        (!waits).then_some(context)
    }

    fn submit(
        &mut self,
        engine: u32,
        candidate: Candidate,
        (command, came_back): (Command, bool),
        now: Now,
    ) -> Decision<F> {
        let context = candidate.context;
        let fence_id = self.engines[engine as usize].submit(candidate, command, now.at);
        if let Some(queue) = self.contexts.get_mut(&context) {
            queue.in_flight += 1;
        }
        self.touch(context, now);
        let mut flags = SubmitCommandFlags::empty();
        flags.set(SubmitCommandFlags::PAGING, command.kind == CommandKind::Paging);
        flags.set(SubmitCommandFlags::CONTEXT_SWITCH, command.kind == CommandKind::ContextSwitch);
        flags.set(SubmitCommandFlags::RESUBMISSION, came_back);
        Decision::Submit { context, engine, command, fence_id, flags }
    }

    /// Something about the context changed: takes satisfied waits off its head and lists it if its
    /// head can go.
    fn touch(&mut self, context: OsHandle, now: Now) {
        let Some(queue) = self.contexts.get_mut(&context) else { return };
        while let Some(head) = queue.items.front_mut() {
            let start_ns = *head.head_ns.get_or_insert(now.stamp_ns);
            // spec: MF-031, MF-034
            let Work::Wait { fences, remaining: 0 } = &mut head.work else { break };
            let (fences, queued_ns) = (std::mem::take(fences), head.queued_ns);
            queue.done.pass_wait(start_ns, now.stamp_ns);
            self.finished.push(Finished {
                lane: queue.lane,
                wait: true,
                fences,
                queued_ns,
                start_ns,
                end_ns: now.stamp_ns,
            });
            queue.items.pop_front();
        }
        self.areas.note_quiet(queue);
        if queue.listed || queue.signalling {
            return;
        }
        let idle = queue.in_flight == 0;
        match queue.items.front_mut() {
            Some(Item { work: Work::Command(_), .. }) if queue.hold.is_on() => {}
            Some(Item { work: Work::Command(_), .. }) => {
                queue.listed = true;
                self.engines[queue.engine as usize].ready.push_back(
                    context,
                    queue.priority,
                    now.at,
                );
            }
            // spec: MF-023
            Some(Item { ticket, work: Work::Signal { at_submission, reached }, .. })
                if !*reached && (*at_submission || idle) =>
            {
                *reached = true;
                let ticket = *ticket;
                let signal = self.signals.get_mut(&ticket);
                if signal.is_some_and(|s| s.contexts.reach(context) == Standing::Complete) {
                    self.reached_signals.push_back(ticket);
                }
            }
            _ => {}
        }
    }
}

impl<F: Clone> VidSch<F> {
    /// Whether a context has nothing queued and nothing in flight.
    pub(crate) fn is_idle(&self, context: OsHandle) -> bool {
        self.contexts
            .get(&context)
            .is_none_or(|queue| queue.items.is_empty() && queue.in_flight == 0 && !queue.signalling)
    }
}

impl VidSch {
    /// What each context did with fences until `now_ns`, by the context's tag.
    pub(crate) fn fence_operations(
        &self,
        now_ns: u64,
    ) -> impl Iterator<Item = (u32, FenceOperations)> {
        self.contexts.values().map(move |queue| {
            let mut done = queue.done;
            if let Some(Item { head_ns: Some(head_ns), work: Work::Wait { .. }, .. }) =
                queue.items.front()
            {
                done.block(*head_ns, now_ns);
            }
            (queue.tag, done)
        })
    }

    /// Waits at the head of their queues.
    pub(crate) fn pending_waits(&self) -> Vec<crate::PendingWait> {
        let heads = self.contexts.values().filter_map(|q| Some((q.tag, &q.items.front()?.work)));
        let waits = heads.filter_map(|(tag, work)| match work {
            Work::Wait { fences, .. } => Some((tag, fences)),
            _ => None,
        });
        waits
            .flat_map(|(tag, fences)| fences.iter().filter_map(move |f| f.0.pending(tag, f.1)))
            .collect()
    }
}

#[cfg(test)]
mod tests;
