//! Owns what a reset does to packets: an engine stops, its packets are over or come back, it goes
//! on. Pure.
//!
//! An engine that stops is given nothing and asked for nothing; what it has is as it was. After the
//! reset of one engine ([`VidSch::aftermath`]) the packet that it names, and those before it, are
//! over, and those behind it come back as from a preemption: paging packets under the numbers that
//! they had. After that of an adapter everything is over ([`VidSch::end`]).

use super::super::pending::{CommandKind, Now, Work};
use super::super::preempt::{Aftermath, Reason};
use super::VidSch;
use crate::driver::{DdiCall, OutstandingWork};
use tidegate_ddi::{EngineId, OsHandle};
use tidegate_platform::{CpuTime, Event};

/// A packet that an engine has, for a report.
pub(crate) struct InFlight<F> {
    pub(crate) context: OsHandle,
    pub(crate) tag: u32,
    /// In words.
    pub(crate) command: String,
    /// The signals that stand behind it in its context.
    pub(crate) signals: Vec<F>,
}

impl<F: Clone> VidSch<F> {
    /// Who has the right to carry out decisions gives it to whoever waits for this event.
    pub(crate) fn hand_to(&mut self, heir: Event) {
        self.heirs.push_back(heir);
    }

    /// Whoever waited waits no longer; `false` when he has been given the right.
    pub(crate) fn withdraw_heir(&mut self, heir: &Event) -> bool {
        let waiting = self.heirs.len();
        self.heirs.retain(|other| other.id() != heir.id());
        self.heirs.len() < waiting
    }

    /// The heir, when the right was given back and somebody waits for it: he has it then.
    pub(crate) fn take_heir(&mut self) -> Option<Event> {
        if self.running {
            return None;
        }
        let heir = self.heirs.pop_front()?;
        self.running = true;
        Some(heir)
    }

    /// The engine is given nothing from now on.
    pub(crate) fn stop(&mut self, engine: u32) {
        if let Some(engine) = self.engines.get_mut(engine as usize) {
            engine.stopped = true;
        }
    }

    /// The numbers of the last packet that was complete and of the last one that was submitted.
    pub(crate) fn completed_and_submitted(&self, engine: u32) -> (u32, u32) {
        let of_engine = self.engines.get(engine as usize);
        of_engine.map_or((0, 0), |engine| (engine.last_completed(), engine.last_submitted()))
    }

    /// Contexts that have anything queued or in flight.
    pub(crate) fn busy(&self) -> Vec<OsHandle> {
        let busy = self.contexts.iter().filter(|(_, q)| q.in_flight > 0 || !q.items.is_empty());
        busy.map(|(context, _)| *context).collect()
    }

    /// The engine was reset: `last` was cut off, or was complete. Returns whose packet was cut off,
    /// and whether it pages.
    pub(crate) fn aftermath(
        &mut self,
        engine: u32,
        last: u32,
        cut_off: bool,
    ) -> Option<(OsHandle, bool)> {
        let engine = self.engines.get_mut(engine as usize)?;
        engine.aftermath = Some(Aftermath { last, cut_off });
        let packet = engine.in_flight.iter().find(|packet| cut_off && packet.id == last)?;
        Some((packet.context, packet.command.kind == CommandKind::Paging))
    }

    /// The engine is given packets again, those first that its reset left over. Returns the
    /// contexts of packets that are over.
    // spec: PRE-050
    pub(crate) fn go_on(&mut self, engine: u32, now: Now) -> Vec<OsHandle> {
        let Some(e) = self.engines.get_mut(engine as usize) else { return Vec::new() };
        e.stopped = false;
        let Some(Aftermath { last, cut_off }) = e.aftermath.take() else {
            // A request about packets that are all complete needs no answer.
            if e.in_flight.is_empty() {
                e.withdraw();
            }
            return Vec::new();
        };
        let aborted = if cut_off { e.take_aborted(last) } else { None };
        if let Some(packet) = &aborted {
            self.left_engine(packet.context, now);
        }
        let complete = if aborted.is_some() { last.wrapping_sub(1) } else { last };
        let over = self.complete_up_to(engine, complete, now);
        let e = &mut self.engines[engine as usize];
        e.withdraw();
        let packets = e.take_back();
        self.put_back(engine, packets, Reason::Timeout, now);
        over
    }

    /// Packets of these contexts are over, with their engines or on their way back to them.
    pub(crate) fn end(&mut self, which: impl Fn(OsHandle) -> bool, now: Now) {
        for number in 0..self.engines.len() {
            let engine = &mut self.engines[number];
            engine.withdraw();
            let ended = engine.end_all(|packet| which(packet.context));
            ended.into_iter().for_each(|context| self.left_engine(context, now));
        }
    }

    /// Packets of this context may run for ever (DisableGpuTimeout).
    pub(crate) fn disable_timeout(&mut self, context: OsHandle) {
        if let Some(queue) = self.contexts.get(&context) {
            self.engines[queue.engine as usize].exempt.insert(context);
        }
    }

    /// Asks for the packets of an engine, whoever waits; `None` when there are none, or they were
    /// asked for already.
    pub(crate) fn ask_at_once(&mut self, engine: u32, now: CpuTime) -> Option<u32> {
        let engine = self.engines.get_mut(engine as usize)?;
        let asks = !engine.in_flight.is_empty() && engine.request().is_none();
        asks.then(|| engine.ask(Reason::Timeout, now))
    }

    /// Whether an engine has packets.
    pub(crate) fn has_packets(&self, engine: u32) -> bool {
        self.engines.get(engine as usize).is_some_and(|engine| !engine.in_flight.is_empty())
    }

    /// Engines that count as hung by now. Each request, or packet where nothing is asked for, is
    /// reported once: when nothing is done about it, it is not due again.
    // spec: PRE-026
    pub(crate) fn take_timed_out(&mut self, now: CpuTime, delay_ns: u64) -> Vec<u32> {
        let limits = self.limits;
        let hung = |(number, engine): (u32, &mut super::Engine)| {
            let (id, due) = engine.times_out(&limits, delay_ns)?;
            (due <= now).then(|| {
                engine.note_timeout(id);
                number
            })
        };
        (0..).zip(&mut self.engines).filter_map(hung).collect()
    }

    /// When the first engine counts as hung.
    pub(crate) fn next_timeout(&self, delay_ns: u64) -> Option<CpuTime> {
        let due = |engine: &super::Engine| Some(engine.times_out(&self.limits, delay_ns)?.1);
        self.engines.iter().filter_map(due).min()
    }
}

impl<F: Clone> VidSch<F> {
    /// The packets of an engine that are not reported, by context, with the calls that were made
    /// about them.
    pub(crate) fn outstanding_on(&self, number: u32, engine: EngineId) -> Vec<OutstandingWork> {
        let Some(e) = self.engines.get(number as usize) else { return Vec::new() };
        let mut found: Vec<OutstandingWork> = Vec::new();
        let request = e.request().map(|request| DdiCall {
            entry: "DxgkDdiPreemptCommand",
            number: Some(request.id.into()),
            at: request.asked,
        });
        for packet in &e.in_flight {
            let entry = match packet.command.kind {
                CommandKind::Patched { .. } => "DxgkDdiSubmitCommand",
                _ => "DxgkDdiSubmitCommandVirtual",
            };
            let submitted = DdiCall { entry, number: Some(packet.id.into()), at: packet.submitted };
            if let Some(known) = found.iter_mut().find(|work| work.context == packet.context) {
                known.calls.push(submitted);
                continue;
            }
            let tag = self.contexts.get(&packet.context).map_or(0, |queue| queue.tag);
            let (calls, reported, context) =
                (vec![submitted], e.last_completed().into(), packet.context);
            found.push(OutstandingWork { tag, engine, calls, reported, context });
        }
        found.iter_mut().for_each(|work| work.calls.extend(request.clone()));
        found
    }
}

impl VidSch {
    /// What an engine has, for a report.
    pub(crate) fn describe_in_flight(
        &self,
        engine: u32,
    ) -> Vec<InFlight<super::super::FenceTarget>> {
        let packets = self.engines.get(engine as usize).into_iter().flat_map(|e| &e.in_flight);
        let describe = |packet: &super::super::preempt::Packet| {
            let queue = self.contexts.get(&packet.context);
            let items = queue.iter().flat_map(|q| &q.items);
            let tickets = items
                .filter(|item| matches!(item.work, Work::Signal { .. }))
                .map(|item| item.ticket);
            let signals =
                tickets.filter_map(|ticket| match &self.signals.get(&ticket)?.signal.effect {
                    super::Effect::Fences(fences) => Some(fences.clone()),
                    _ => None,
                });
            let command = &packet.command;
            InFlight {
                context: packet.context,
                tag: queue.map_or(0, |q| q.tag),
                command: match command.kind {
                    CommandKind::Render => format!(
                        "packet {}, {} bytes of commands at {:#x}",
                        packet.id, command.bytes, command.gpu_va
                    ),
                    CommandKind::Patched { .. } => format!(
                        "packet {}, {} bytes of commands with physical addresses",
                        packet.id, command.bytes
                    ),
                    CommandKind::Paging => format!("packet {}, a paging operation", packet.id),
                    CommandKind::ContextSwitch => format!("packet {}, a context switch", packet.id),
                },
                signals: signals.flatten().collect(),
            }
        };
        packets.map(describe).collect()
    }
}
