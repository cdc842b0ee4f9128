//! The packets of one engine: which are in flight, when they are preempted, and what comes back.
//!
//! A preemption is requested, one at a time and by fence ID:
//! 1. for a packet of higher rank that waits while a lower one runs. That packet is not submitted
//!    before, because it would come back;
//! 2. when a packet has run for a quantum and another context of its rank waits;
//! 3. when a packet has run for the timeout delay. A request without an answer is a timeout then.
//!
//! Invariant: nothing is submitted while a request is open, so every packet after the last
//! completed one came back. Paging packets are next then, under the IDs that they had; only 3 preempts them.
//! Without preemption the timeout is that the first packet has run for the delay.

use crate::config::Config;
use crate::fence_id::{FenceIds, is_after};
use crate::queue::{Command, CommandKind};
use crate::ready::{Candidate, LIFTED, Ready};
use std::collections::{BTreeSet, VecDeque};
use tidegate_ddi::{EngineId, OsHandle, Priority};
use tidegate_platform::CpuTime;

/// Why an engine is preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreemptionReason {
    /// A context of higher rank waits.
    Priority,
    /// The quantum of the running packet is over, and a context of its rank waits.
    Quantum,
    /// The running packet has run for the timeout delay.
    Timeout,
}

/// A packet that the driver has.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) id: u32,
    pub(crate) context: OsHandle,
    pub(crate) command: Command,
    pub(crate) priority: Priority,
    /// Since when its band had waited, if the band was lifted.
    pub(crate) lifted_since: Option<CpuTime>,
    /// Since when it is the first packet of its engine.
    pub(crate) began: Option<CpuTime>,
    pub(crate) submitted: CpuTime,
}

impl Packet {
    fn rank(&self, quantum_ns: u64, now: CpuTime) -> Priority {
        let over = self.began.is_some_and(|began| now >= began.after(quantum_ns));
        if self.lifted_since.is_some() && !over { self.priority.max(LIFTED) } else { self.priority }
    }
}

/// A preemption request without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreemptionRequest {
    /// Its preemption fence ID.
    pub id: u32,
    /// Why it was made.
    pub reason: PreemptionReason,
    /// When it was made. It is a timeout after the timeout delay.
    pub requested: CpuTime,
}

pub(crate) struct Engine {
    pub(crate) id: EngineId,
    cap: usize,
    fence_ids: FenceIds,
    last_submitted: u32,
    last_completed: u32,
    pub(crate) in_flight: VecDeque<Packet>,
    /// Paging packets that came back, in their order.
    pub(crate) returned: VecDeque<Packet>,
    pub(crate) ready: Ready,
    request: Option<PreemptionRequest>,
    /// The last request that ended without an answer.
    withdrawn: Option<u32>,
    /// The fence ID of the request or packet whose timeout was reported.
    timed_out: Option<u32>,
    /// The context that an idle engine switches to, where the hardware keeps the last one
    /// otherwise.
    pub(crate) idle_context: Option<OsHandle>,
    /// The context of the last submitted packet.
    current_context: Option<OsHandle>,
    /// The context of a split buffer whose last part was not submitted yet.
    split: Option<OsHandle>,
    /// Contexts whose packets have no timeout (DisableGpuTimeout).
    pub(crate) exempt: BTreeSet<OsHandle>,
    /// It is being reset: nothing is submitted.
    pub(crate) stopped: bool,
    /// The outcome of its reset, until it is resumed.
    pub(crate) reset: Option<ResetOutcome>,
}

/// What the driver reported of an engine's reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResetOutcome {
    /// The last packet that was aborted or complete.
    pub(crate) last: u32,
    /// It was aborted.
    pub(crate) aborted: bool,
}

impl Engine {
    pub(crate) fn new(id: EngineId, cap: usize) -> Engine {
        Engine {
            id,
            cap,
            fence_ids: FenceIds::default(),
            last_submitted: 0,
            last_completed: 0,
            in_flight: VecDeque::new(),
            returned: VecDeque::new(),
            ready: Ready::default(),
            request: None,
            withdrawn: None,
            timed_out: None,
            idle_context: None,
            current_context: None,
            split: None,
            exempt: BTreeSet::new(),
            stopped: false,
            reset: None,
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        !self.stopped && self.request.is_none() && self.in_flight.len() < self.cap
    }

    /// Submits a packet of the candidate. Returns its fence ID.
    pub(crate) fn submit(&mut self, of: Candidate, command: Command, now: CpuTime) -> u32 {
        let id = self.fence_ids.next();
        let Candidate { context, priority, lifted_since } = of;
        match command.kind {
            CommandKind::Patched { last: false } => self.split = Some(context),
            CommandKind::Patched { last: true } => self.end_split(context),
            _ => {}
        }
        self.enter(
            Packet { id, context, command, priority, lifted_since, began: None, submitted: now },
            now,
        );
        id
    }

    /// Submits the first paging packet that came back, under the ID that it had.
    // spec: PRE-028, PRE-029, PRE-030
    pub(crate) fn resubmit_paging(&mut self, now: CpuTime) -> Option<Packet> {
        // Its time begins anew.
        let packet = Packet { began: None, submitted: now, ..self.returned.pop_front()? };
        self.enter(packet.clone(), now);
        Some(packet)
    }

    pub(crate) fn split(&self) -> Option<OsHandle> {
        self.split
    }

    /// The split buffer of this context has no further part.
    pub(crate) fn end_split(&mut self, context: OsHandle) {
        self.split = self.split.filter(|split| *split != context);
    }

    /// Returns the idle context, if the engine is idle and still has another one.
    pub(crate) fn idle_switch_due(&self) -> Option<OsHandle> {
        let idle = !self.stopped
            && self.in_flight.is_empty()
            && self.returned.is_empty()
            && self.request.is_none();
        let kept = self.current_context.is_some_and(|context| self.idle_context != Some(context));
        self.idle_context.filter(|_| idle && kept)
    }

    fn enter(&mut self, packet: Packet, now: CpuTime) {
        (self.last_submitted, self.current_context) = (packet.id, Some(packet.context));
        self.in_flight.push_back(packet);
        self.begin_first(now);
    }

    fn begin_first(&mut self, now: CpuTime) {
        if let Some(first) = self.in_flight.front_mut() {
            first.began.get_or_insert(now);
        }
    }

    /// Whether a completion may name this ID.
    pub(crate) fn was_submitted(&self, id: u32) -> bool {
        !is_after(id, self.last_submitted)
    }

    /// Packets up to this ID are complete. Returns their contexts. `last_completed` is the last
    /// packet that was in flight: preempted packets after it are not complete.
    // spec: PRE-025
    pub(crate) fn complete_up_to(&mut self, id: u32, now: CpuTime) -> Vec<OsHandle> {
        let mut completed = Vec::new();
        while let Some(packet) = self.in_flight.front().filter(|packet| !is_after(packet.id, id)) {
            self.last_completed = packet.id;
            completed.push(packet.context);
            self.in_flight.pop_front();
        }
        self.begin_first(now);
        completed
    }

    /// Removes a packet that the driver did not accept.
    pub(crate) fn not_accepted(&mut self, id: u32, now: CpuTime) -> Option<Packet> {
        let at = self.in_flight.iter().position(|packet| packet.id == id)?;
        let packet = self.in_flight.remove(at);
        self.begin_first(now);
        packet
    }

    /// Returns why the packets in flight are to be preempted now, if they are.
    // spec: PRE-002
    pub(crate) fn preemption_due(&self, config: &Config, now: CpuTime) -> Option<PreemptionReason> {
        if !config.preempts {
            return None;
        }
        if self.is_overdue(config, now) {
            return Some(PreemptionReason::Timeout);
        }
        let first = self.in_flight.front().filter(|_| self.request.is_none() && !self.stopped)?;
        let ran_ns = now.since(first.began?);
        let (waits, rank) =
            (self.highest_waiting(config, now)?, first.rank(config.quantum_ns, now));
        match waits.cmp(&rank) {
            std::cmp::Ordering::Greater => Some(PreemptionReason::Priority),
            std::cmp::Ordering::Equal if ran_ns >= config.quantum_ns => {
                Some(PreemptionReason::Quantum)
            }
            _ => None,
        }
    }

    /// Whether the first packet has run for the timeout delay without a preemption request.
    pub(crate) fn is_overdue(&self, config: &Config, now: CpuTime) -> bool {
        let first = self.in_flight.front().filter(|_| self.request.is_none() && !self.stopped);
        let began = first.and_then(|packet| packet.began);
        let limit = began.zip(self.timeout_ns(config));
        limit.is_some_and(|(began, delay_ns)| now >= began.after(delay_ns))
    }

    /// Returns when the engine counts as hung, with the ID of the unanswered request, or of the
    /// first packet where the driver cannot preempt. A timeout is reported once.
    pub(crate) fn timeout(&self, config: &Config, delay_ns: u64) -> Option<(u32, CpuTime)> {
        if self.stopped || self.is_exempt() {
            return None;
        }
        let (id, since) = match config.preempts {
            true => self.request.map(|request| (request.id, request.requested))?,
            false => self.in_flight.front().and_then(|first| Some((first.id, first.began?)))?,
        };
        (self.timed_out != Some(id)).then(|| (id, since.after(delay_ns)))
    }

    pub(crate) fn note_timeout(&mut self, id: u32) {
        self.timed_out = Some(id);
    }

    fn timeout_ns(&self, config: &Config) -> Option<u64> {
        config.timeout_ns.filter(|_| !self.is_exempt())
    }

    /// Whether the first packet has no timeout.
    pub(crate) fn is_exempt(&self) -> bool {
        self.in_flight.front().is_some_and(|packet| self.exempt.contains(&packet.context))
    }

    /// Returns the highest rank among other contexts that wait behind the first packet, on the
    /// engine or in its ready list. `None` if the first packet is not preempted for them.
    fn highest_waiting(&self, config: &Config, now: CpuTime) -> Option<Priority> {
        let first = self.in_flight.front().filter(|packet| packet.command.kind.is_preemptible())?;
        let behind = self.in_flight.iter().skip(1).filter(|packet| packet.context != first.context);
        let behind = behind.map(|packet| packet.rank(config.quantum_ns, now));
        let ready = self.ready.best(config.quantum_ns, now, Some((first.context, first.priority)));
        behind.chain(ready.map(|candidate| candidate.rank())).max()
    }

    /// Returns the next time after `since` at which time alone can make a preemption due.
    pub(crate) fn deadline(&self, config: &Config, since: CpuTime) -> Option<CpuTime> {
        let first = self.in_flight.front().filter(|_| self.request.is_none() && !self.stopped)?;
        let began = first.began?;
        let timeout = self.timeout_ns(config).map(|delay_ns| began.after(delay_ns));
        let waits = self.highest_waiting(config, since).filter(|_| config.preempts);
        let quantum =
            waits.filter(|w| *w >= first.priority).map(|_| began.after(config.quantum_ns));
        let lifts = self.ready.lifts(config.quantum_ns).filter(|_| waits.is_some());
        timeout.into_iter().chain(quantum).chain(lifts).filter(|deadline| *deadline > since).min()
    }

    /// Opens a preemption request. Returns its fence ID.
    pub(crate) fn request_preemption(&mut self, reason: PreemptionReason, now: CpuTime) -> u32 {
        let id = self.fence_ids.next();
        self.request = Some(PreemptionRequest { id, reason, requested: now });
        id
    }

    /// Ends the open request without an answer. A late answer is stale.
    pub(crate) fn withdraw(&mut self) {
        if let Some(request) = self.request.take() {
            self.withdrawn = Some(request.id);
        }
    }

    pub(crate) fn request(&self) -> Option<PreemptionRequest> {
        self.request
    }

    /// Matches a report of DMA_PREEMPTED with the requests that were made.
    pub(crate) fn match_answer(&self, request: u32, last_completed: u32) -> Answer {
        match self.request {
            // spec: PRE-022, PRE-024
            Some(open) if open.id == request => {
                let known = !is_after(last_completed, self.last_completed)
                    || self.in_flight.iter().any(|packet| packet.id == last_completed);
                if known { Answer::Open(open.reason) } else { Answer::Unknown(last_completed) }
            }
            _ if self.withdrawn == Some(request) => Answer::Withdrawn,
            _ => Answer::Unknown(request),
        }
    }

    /// The request is answered. Returns everything that was in flight.
    pub(crate) fn take_back(&mut self) -> Vec<Packet> {
        self.request = None;
        self.in_flight.drain(..).collect()
    }

    pub(crate) fn last_submitted(&self) -> u32 {
        self.last_submitted
    }

    /// Takes the packet that a reset aborted. It counts as the last complete one.
    pub(crate) fn take_aborted(&mut self, id: u32) -> Option<Packet> {
        let at = self.in_flight.iter().position(|packet| packet.id == id)?;
        self.last_completed = id;
        self.in_flight.remove(at)
    }

    /// Ends the packets that an adapter's reset removed. Returns their contexts.
    pub(crate) fn end_packets(&mut self, which: impl Fn(&Packet) -> bool) -> Vec<OsHandle> {
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

    pub(crate) fn last_completed(&self) -> u32 {
        self.last_completed
    }
}

/// What a report of DMA_PREEMPTED answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The open request.
    Open(PreemptionReason),
    /// A withdrawn one.
    Withdrawn,
    /// No request: the ID that was never given out.
    Unknown(u32),
}

#[cfg(test)]
impl Engine {
    /// Continues after the ID `last`.
    pub(crate) fn continue_ids_after(&mut self, last: u32) {
        (self.fence_ids, self.last_submitted, self.last_completed) =
            (FenceIds::after(last), last, last);
    }
}
