//! Owns one engine's packets, and its preemption: which are in flight, when they are asked for, and
//! what comes back. Pure.
//!
//! A request is made, by number of the engine's line, and only one at a time:
//! 1. for a packet of higher rank that waits while a lower one runs. It is not given to the engine
//!    before: it would come back;
//! 2. when a packet has run for a quantum and another context of its rank waits;
//! 3. when a packet has run for the timeout delay, whoever waits: what does not come back then is a
//!    timeout.
//!
//! While a request is open nothing is submitted to its engine, so that everything with a number
//! behind the last completed one came back. Paging packets that come back are next, in their order
//! and under their numbers; only 3 preempts them, since nothing may go before them. Others go to
//! the heads of their contexts and get new numbers. A driver that is not preemption aware gets no
//! request: its timeout is that the first packet has run for the delay. Its engine is held for the
//! parts of a split buffer.

use super::line::{FenceLine, is_after};
use super::pending::{Command, CommandKind};
use super::priority::{Candidate, LIFTED, Ready};
use std::collections::{BTreeSet, VecDeque};
use tidegate_calls::Priority;
use tidegate_ddi::OsHandle;
use tidegate_platform::CpuTime;

/// What holds for all engines of an adapter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Whether packets are asked for (PreemptionAware).
    pub(crate) preempts: bool,
    /// How long a packet may keep its engine from equals.
    pub(crate) quantum_ns: u64,
    /// How long it may keep its engine at all before it is asked for; `None`: for ever.
    pub(crate) timeout_ns: Option<u64>,
}

/// Why an engine's packets are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Somebody of higher rank waits.
    Priority,
    /// The quantum of the one that runs is over, and an equal waits.
    Quantum,
    /// The one that runs has run for the timeout delay.
    Timeout,
}

/// A packet that the driver has.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) id: u32,
    pub(super) context: OsHandle,
    pub(super) command: Command,
    pub(super) priority: Priority,
    /// When it was lifted: since when its band had waited.
    pub(super) lifted_since: Option<CpuTime>,
    /// Since when it is the first one of its engine.
    pub(super) began: Option<CpuTime>,
    /// When it was given to the driver.
    pub(super) submitted: CpuTime,
}

impl Packet {
    fn rank(&self, quantum_ns: u64, now: CpuTime) -> Priority {
        let over = self.began.is_some_and(|began| now >= began.after(quantum_ns));
        if self.lifted_since.is_some() && !over { self.priority.max(LIFTED) } else { self.priority }
    }
}

/// A request that is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) id: u32,
    pub(crate) reason: Reason,
    /// When it was made: it is to be answered within the timeout delay.
    pub(crate) asked: CpuTime,
}

/// One engine.
pub(super) struct Engine {
    cap: usize,
    line: FenceLine,
    last_submitted: u32,
    last_completed: u32,
    pub(super) in_flight: VecDeque<Packet>,
    /// Paging packets that came back.
    pub(super) returned: VecDeque<Packet>,
    pub(super) ready: Ready,
    request: Option<Request>,
    /// The last request that is over without an answer.
    withdrawn: Option<u32>,
    /// The request or packet, by its number, whose timeout was reported.
    timed_out: Option<u32>,
    /// Where the engine is turned to when it has nothing to do, if its hardware would keep a
    /// context otherwise.
    pub(super) idle_context: Option<OsHandle>,
    /// Whose packet it was given last.
    turned_to: Option<OsHandle>,
    /// The context of a split buffer of which a part was submitted and the last one was not.
    split: Option<OsHandle>,
    /// Contexts whose packets may run for ever (DisableGpuTimeout).
    pub(super) exempt: BTreeSet<OsHandle>,
    /// It is being reset: it is given nothing.
    pub(super) stopped: bool,
    /// What its reset came to; see `vidsch::reset`.
    pub(super) aftermath: Option<Aftermath>,
}

/// What a reset came to: the packet that it names, and whether that one was cut off or is the last
/// complete one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Aftermath {
    pub(super) last: u32,
    pub(super) cut_off: bool,
}

impl Engine {
    pub(super) fn new(cap: usize) -> Engine {
        Engine {
            cap,
            line: FenceLine::default(),
            last_submitted: 0,
            last_completed: 0,
            in_flight: VecDeque::new(),
            returned: VecDeque::new(),
            ready: Ready::default(),
            request: None,
            withdrawn: None,
            timed_out: None,
            idle_context: None,
            turned_to: None,
            split: None,
            exempt: BTreeSet::new(),
            stopped: false,
            aftermath: None,
        }
    }

    /// Whether it takes one more packet.
    pub(super) fn has_room(&self) -> bool {
        !self.stopped && self.request.is_none() && self.in_flight.len() < self.cap
    }

    /// A packet of this candidate goes to the driver, under the next number.
    pub(super) fn submit(&mut self, of: Candidate, command: Command, now: CpuTime) -> u32 {
        let id = self.line.next();
        let Candidate { context, priority, lifted_since } = of;
        match command.kind {
            CommandKind::Patched { last: false } => self.split = Some(context),
            CommandKind::Patched { last: true } => self.end_split(context),
            CommandKind::Render | CommandKind::Paging | CommandKind::ContextSwitch => {}
        }
        self.enter(
            Packet { id, context, command, priority, lifted_since, began: None, submitted: now },
            now,
        );
        id
    }

    /// The first paging packet that came back goes to the driver, under the number that it had.
    // spec: PRE-028, PRE-029, PRE-030
    pub(super) fn resubmit_paging(&mut self, now: CpuTime) -> Option<Packet> {
        // It begins anew, and has its time again.
        let packet = Packet { began: None, submitted: now, ..self.returned.pop_front()? };
        self.enter(packet.clone(), now);
        Some(packet)
    }

    /// The context of the split buffer that it is in the middle of.
    pub(super) fn split(&self) -> Option<OsHandle> {
        self.split
    }

    /// No part of a split buffer of this context comes any more.
    pub(super) fn end_split(&mut self, context: OsHandle) {
        self.split = self.split.filter(|split| *split != context);
    }

    /// The context that an engine with nothing to do is to be turned to.
    pub(super) fn turns_away(&self) -> Option<OsHandle> {
        let idle = !self.stopped
            && self.in_flight.is_empty()
            && self.returned.is_empty()
            && self.request.is_none();
        let kept = self.turned_to.is_some_and(|context| self.idle_context != Some(context));
        self.idle_context.filter(|_| idle && kept)
    }

    fn enter(&mut self, packet: Packet, now: CpuTime) {
        (self.last_submitted, self.turned_to) = (packet.id, Some(packet.context));
        self.in_flight.push_back(packet);
        self.begin_first(now);
    }

    fn begin_first(&mut self, now: CpuTime) {
        if let Some(first) = self.in_flight.front_mut() {
            first.began.get_or_insert(now);
        }
    }

    /// Whether a completion may name this number.
    pub(super) fn was_submitted(&self, id: u32) -> bool {
        !is_after(id, self.last_submitted)
    }

    /// Packets up to this number are complete. The number of the last one that really was is kept:
    /// what was preempted is not.
    // spec: PRE-025
    pub(super) fn complete_up_to(&mut self, id: u32, now: CpuTime) -> Vec<OsHandle> {
        let mut completed = Vec::new();
        while let Some(packet) = self.in_flight.front().filter(|packet| !is_after(packet.id, id)) {
            self.last_completed = packet.id;
            completed.push(packet.context);
            self.in_flight.pop_front();
        }
        self.begin_first(now);
        completed
    }

    /// A packet did not reach the engine.
    pub(super) fn not_taken(&mut self, id: u32, now: CpuTime) -> Option<Packet> {
        let at = self.in_flight.iter().position(|packet| packet.id == id)?;
        let packet = self.in_flight.remove(at);
        self.begin_first(now);
        packet
    }

    /// Whether the packets in flight are to be asked for now.
    // spec: PRE-002
    pub(super) fn wants_back(&self, limits: &Limits, now: CpuTime) -> Option<Reason> {
        if !limits.preempts {
            return None;
        }
        if self.is_overdue(limits, now) {
            return Some(Reason::Timeout);
        }
        let first = self.in_flight.front().filter(|_| self.request.is_none() && !self.stopped)?;
        let ran_ns = now.since(first.began?);
        let (waits, rank) = (self.who_waits(limits, now)?, first.rank(limits.quantum_ns, now));
        match waits.cmp(&rank) {
            std::cmp::Ordering::Greater => Some(Reason::Priority),
            std::cmp::Ordering::Equal if ran_ns >= limits.quantum_ns => Some(Reason::Quantum),
            _ => None,
        }
    }

    /// Whether the first packet has run for the timeout delay, and was not asked for.
    pub(super) fn is_overdue(&self, limits: &Limits, now: CpuTime) -> bool {
        let first = self.in_flight.front().filter(|_| self.request.is_none() && !self.stopped);
        let began = first.and_then(|packet| packet.began);
        let limit = began.zip(self.timeout_ns(limits));
        limit.is_some_and(|(began, delay_ns)| now >= began.after(delay_ns))
    }

    /// When it counts as hung, with the number of the request that is not answered by then, or of
    /// the packet where nothing is asked for. A timeout is reported once.
    pub(super) fn times_out(&self, limits: &Limits, delay_ns: u64) -> Option<(u32, CpuTime)> {
        if self.stopped || self.is_exempt() {
            return None;
        }
        let (number, since) = match limits.preempts {
            true => self.request.map(|request| (request.id, request.asked))?,
            false => self.in_flight.front().and_then(|first| Some((first.id, first.began?)))?,
        };
        (self.timed_out != Some(number)).then(|| (number, since.after(delay_ns)))
    }

    /// The timeout of the request or packet with this number is reported.
    pub(super) fn note_timeout(&mut self, number: u32) {
        self.timed_out = Some(number);
    }

    /// How long the first packet may run.
    fn timeout_ns(&self, limits: &Limits) -> Option<u64> {
        limits.timeout_ns.filter(|_| !self.is_exempt())
    }

    /// Whether the first packet may run for ever.
    pub(super) fn is_exempt(&self) -> bool {
        self.in_flight.front().is_some_and(|packet| self.exempt.contains(&packet.context))
    }

    /// The highest rank of other contexts that wait for the first packet, on the engine or for it;
    /// `None` when nobody does, or the first packet is one that nobody goes before.
    fn who_waits(&self, limits: &Limits, now: CpuTime) -> Option<Priority> {
        let first = self.in_flight.front().filter(|packet| packet.command.kind.is_work())?;
        let behind = self.in_flight.iter().skip(1).filter(|packet| packet.context != first.context);
        let behind = behind.map(|packet| packet.rank(limits.quantum_ns, now));
        let ready = self.ready.best(limits.quantum_ns, now, Some((first.context, first.priority)));
        behind.chain(ready.map(|candidate| candidate.rank())).max()
    }

    /// When [`Engine::wants_back`] could say something else although nothing happened, later than
    /// `seen`.
    pub(super) fn deadline(&self, limits: &Limits, seen: CpuTime) -> Option<CpuTime> {
        let first = self.in_flight.front().filter(|_| self.request.is_none() && !self.stopped)?;
        let began = first.began?;
        let timeout = self.timeout_ns(limits).map(|delay_ns| began.after(delay_ns));
        let waits = self.who_waits(limits, seen).filter(|_| limits.preempts);
        let quantum =
            waits.filter(|w| *w >= first.priority).map(|_| began.after(limits.quantum_ns));
        let lifts = self.ready.lifts(limits.quantum_ns).filter(|_| waits.is_some());
        timeout.into_iter().chain(quantum).chain(lifts).filter(|deadline| *deadline > seen).min()
    }

    /// Asks; returns the request's number.
    pub(super) fn ask(&mut self, reason: Reason, now: CpuTime) -> u32 {
        let id = self.line.next();
        self.request = Some(Request { id, reason, asked: now });
        id
    }

    /// The open request is over without an answer; one that comes all the same means nothing.
    pub(super) fn withdraw(&mut self) {
        if let Some(request) = self.request.take() {
            self.withdrawn = Some(request.id);
        }
    }

    /// The open request.
    pub(super) fn request(&self) -> Option<Request> {
        self.request
    }

    /// What this report answers.
    pub(super) fn answered(&self, request: u32, last_completed: u32) -> Answered {
        match self.request {
            // spec: PRE-022, PRE-024
            Some(open) if open.id == request => {
                let known = !is_after(last_completed, self.last_completed)
                    || self.in_flight.iter().any(|packet| packet.id == last_completed);
                if known { Answered::Open(open.reason) } else { Answered::Unknown(last_completed) }
            }
            _ if self.withdrawn == Some(request) => Answered::Withdrawn,
            _ => Answered::Unknown(request),
        }
    }

    /// The request is answered: everything in flight is back.
    pub(super) fn take_back(&mut self) -> Vec<Packet> {
        self.request = None;
        self.in_flight.drain(..).collect()
    }

    /// The last packet that the driver was given, by its number.
    pub(super) fn last_submitted(&self) -> u32 {
        self.last_submitted
    }

    /// A reset took this packet; it counts as the last complete one.
    pub(super) fn take_aborted(&mut self, id: u32) -> Option<Packet> {
        let at = self.in_flight.iter().position(|packet| packet.id == id)?;
        self.last_completed = id;
        self.in_flight.remove(at)
    }

    /// An adapter's reset ended everything: what was submitted last is complete.
    pub(super) fn end_all(&mut self, which: impl Fn(&Packet) -> bool) -> Vec<OsHandle> {
        let mut ended = Vec::new();
        for packets in [&mut self.in_flight, &mut self.returned] {
            packets.retain(|packet| {
                let ends = which(packet);
                ended.extend(ends.then_some(packet.context));
                !ends
            });
        }
        if self.in_flight.is_empty() {
            self.last_completed = self.last_submitted;
        }
        ended
    }

    /// The last packet that was complete, by its number.
    pub(super) fn last_completed(&self) -> u32 {
        self.last_completed
    }
}

/// What a report of DMA_PREEMPTED answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// The open request.
    Open(Reason),
    /// One that nobody waits for any more.
    Withdrawn,
    /// Nothing that was asked: the number that makes no sense.
    Unknown(u32),
}

#[cfg(test)]
impl Engine {
    /// An engine whose line has given out `last`.
    pub(super) fn number_from(&mut self, last: u32) {
        (self.line, self.last_submitted, self.last_completed) =
            (FenceLine::behind(last), last, last);
    }
}
