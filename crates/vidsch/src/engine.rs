//! The packets of one engine: those in flight, and the requests that preempt them.
//!
//! A preemption request is made, one at a time and identified by fence ID, when:
//! 1. A context of higher rank waits; its packet would be preempted as well if submitted first.
//! 2. A packet has run for a quantum and another context of its rank waits.
//! 3. A packet has run for the timeout delay.
//!
//! A request that is unanswered for the delay is a timeout. Without preemption, a first packet that
//! runs for the delay is one. Invariant: nothing is submitted while a request is open, so every
//! packet after the last completed one was preempted. Preempted paging packets are resubmitted
//! first, under their old IDs; only reason 3 preempts them.

use crate::config::Config;
use crate::fence_id::{FenceIds, is_after};
use crate::queue::{Command, CommandKind};
use crate::ready::{Candidate, Ready};
use crate::share::Turn;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tidegate_ddi::{OsHandle, Priority};
use tidegate_platform::CpuTime;

/// The reason for a preemption request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreemptionReason {
    /// A context of higher rank is waiting.
    Priority,
    /// The running packet has used its quantum and a context of its rank is waiting.
    Quantum,
    /// The running packet has run for the timeout delay.
    Timeout,
}

/// The longest turn in quanta, however long an engine takes to leave a context.
const LONGEST_TURN: u64 = 10;

/// The same beside hardware contexts, which the engine repays the time of a packet that it could
/// not leave.
const LONGEST_REPAID_TURN: u64 = 100;

/// The turns, without the end of a packet of their contexts, after which turns get longer.
const FRUITLESS_TURNS: u64 = 8;

/// The longest turn beside hardware contexts in nanoseconds, unless the quantum is longer.
const LONGEST_SHARED_TURN_NS: u64 = 10_000_000;

/// A packet in flight.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) id: u32,
    pub(crate) context: OsHandle,
    pub(crate) command: Command,
    pub(crate) priority: Priority,
    /// Whether its band was lifted when it was submitted.
    pub(crate) lifted: bool,
    /// The part of its context's turn that it had used before this submission, in nanoseconds.
    pub(crate) used_ns: u64,
    /// Time at which the packet became the first in flight.
    pub(crate) began: Option<CpuTime>,
    pub(crate) submitted: CpuTime,
}

impl Packet {
    /// Returns the used part of its context's turn, in nanoseconds.
    pub(crate) fn turn_ns(&self, now: CpuTime) -> u64 {
        let ran_ns = self.began.map_or(0, |began| now.since(began));
        self.used_ns.saturating_add(ran_ns)
    }

    /// Returns when its context's turn ends.
    fn turn_ends(&self, quantum_ns: u64) -> Option<CpuTime> {
        Some(self.began?.after(quantum_ns.saturating_sub(self.used_ns)))
    }
}

/// An unanswered preemption request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreemptionRequest {
    /// The preemption fence ID.
    pub id: u32,
    /// The reason for the request.
    pub reason: PreemptionReason,
    /// Time of the request. An unanswered request is a timeout after the timeout delay.
    pub requested: CpuTime,
}

pub(crate) struct Engine {
    cap: usize,
    fence_ids: FenceIds,
    last_submitted: u32,
    last_completed: u32,
    pub(crate) in_flight: VecDeque<Packet>,
    /// Preempted paging packets in submission order.
    pub(crate) returned: VecDeque<Packet>,
    pub(crate) ready: Ready,
    /// The time up to which the shares of the bands are counted.
    counted: CpuTime,
    request: Option<PreemptionRequest>,
    /// How long the last answered request took, in nanoseconds.
    leaving_ns: u64,
    /// Turns of a context since a packet of it completed. The packets of another context may
    /// complete at each turn, so an end of one of those says nothing about it.
    fruitless: BTreeMap<OsHandle, u64>,
    /// The hardware contexts of the engine. Their queues use it too, unseen by this scheduler.
    hardware_contexts: usize,
    /// The last withdrawn request.
    withdrawn: Option<u32>,
    /// Fence ID of the request or packet whose timeout was reported.
    timed_out: Option<u32>,
    /// No time before this one counts towards a timeout.
    timeouts_from: CpuTime,
    /// The context to which an idle engine switches, if the hardware otherwise keeps the last one.
    pub(crate) idle_context: Option<OsHandle>,
    /// The context of the last submitted packet.
    current_context: Option<OsHandle>,
    /// The context of a split buffer whose last part was not submitted yet.
    split: Option<OsHandle>,
    /// Contexts whose packets have no timeout (DisableGpuTimeout).
    pub(crate) exempt: BTreeSet<OsHandle>,
    /// Whether the engine is being reset. Nothing is submitted then.
    pub(crate) stopped: bool,
    /// The outcome of a reset, until the engine resumes.
    pub(crate) reset: Option<ResetOutcome>,
}

/// The driver's report of an engine reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResetOutcome {
    /// Fence ID of the last packet that was aborted or completed.
    pub(crate) last: u32,
    /// Whether that packet was aborted.
    pub(crate) aborted: bool,
}

impl Engine {
    pub(crate) fn new(cap: usize, fence_ids_ahead: u32) -> Engine {
        Engine {
            cap,
            fence_ids: FenceIds::new(fence_ids_ahead),
            last_submitted: 0,
            last_completed: 0,
            in_flight: VecDeque::new(),
            returned: VecDeque::new(),
            ready: Ready::default(),
            counted: CpuTime(0),
            request: None,
            leaving_ns: 0,
            fruitless: BTreeMap::new(),
            hardware_contexts: 0,
            withdrawn: None,
            timed_out: None,
            timeouts_from: CpuTime(0),
            idle_context: None,
            current_context: None,
            split: None,
            exempt: BTreeSet::new(),
            stopped: false,
            reset: None,
        }
    }

    /// Returns how long a context may keep the engine beside others of its rank. Two things can use
    /// up a short turn before its packet goes on: a switch of contexts, and slices that the
    /// hardware gives to queues of hardware contexts. Where no packet of a context ends for some
    /// turns, all turns are therefore longer than a switch, and beside hardware contexts twice as
    /// long each time that this happens again. An engine restores a context in less than twice the
    /// time of leaving one, and repays hardware queues the time of a packet that it could not
    /// leave.
    // spec: PRE-163
    pub(crate) fn turn_ns(&self, config: &Config) -> u64 {
        let doublings = self.fruitless.values().sum::<u64>() / FRUITLESS_TURNS;
        if doublings == 0 {
            return config.quantum_ns;
        }
        let longest = match self.hardware_contexts {
            0 => LONGEST_TURN,
            _ => LONGEST_REPAID_TURN,
        };
        let longest_ns = config.quantum_ns.saturating_mul(longest);
        let switch_ns = self.leaving_ns.saturating_mul(4).min(longest_ns);
        let shared_ns = match self.hardware_contexts {
            0 => 0,
            // spec: PRE-167
            _ => {
                config.quantum_ns.saturating_mul(1 << doublings.min(32)).min(LONGEST_SHARED_TURN_NS)
            }
        };
        config.quantum_ns.max(switch_ns).max(shared_ns)
    }

    pub(crate) fn add_hardware_context(&mut self) {
        self.hardware_contexts += 1;
    }

    pub(crate) fn remove_hardware_context(&mut self) {
        self.hardware_contexts -= 1;
    }

    pub(crate) fn has_room(&self) -> bool {
        !self.stopped && self.request.is_none() && self.in_flight.len() < self.cap
    }

    fn turn(&self, config: &Config) -> Turn {
        Turn { quantum_ns: config.quantum_ns, turn_ns: self.turn_ns(config) }
    }

    /// Counts the time since the last call for the band of the first packet in flight, and for
    /// those that wait. Called before the packets in flight change, and before a decision.
    pub(crate) fn count_shares(&mut self, config: &Config, now: CpuTime) {
        let turn = self.turn(config);
        let since = std::mem::replace(&mut self.counted, now);
        let Some(first) = self.in_flight.front() else { return };
        let since = first.began.map_or(now, |began| began.max(since));
        let (running, spent_ns) = (first.priority, now.since(since));
        let behind = waits_behind(&self.in_flight);
        self.ready.account(running, behind, spent_ns, turn);
    }

    /// Submits a packet of the candidate's context, which has used `used_ns` of its turn. Returns
    /// its fence ID.
    pub(crate) fn submit(
        &mut self,
        of: Candidate,
        command: Command,
        used_ns: u64,
        now: CpuTime,
    ) -> u32 {
        if self.in_flight.is_empty() && self.last_completed == self.last_submitted {
            self.fence_ids.leave_out();
        }
        let id = self.fence_ids.next();
        let Candidate { context, priority, rank } = of;
        match command.kind {
            CommandKind::Patched { last: false } => self.split = Some(context),
            CommandKind::Patched { last: true } => self.clear_split(context),
            _ => {}
        }
        self.enter(
            Packet {
                id,
                context,
                command,
                priority,
                lifted: rank != priority,
                used_ns,
                began: None,
                submitted: now,
            },
            now,
        );
        id
    }

    /// Resubmits the first preempted paging packet under its old ID.
    // spec: PRE-028, PRE-029, PRE-030
    pub(crate) fn resubmit_paging(&mut self, now: CpuTime) -> Option<Packet> {
        // The timeout restarts.
        let packet = Packet { began: None, submitted: now, ..self.returned.pop_front()? };
        self.enter(packet.clone(), now);
        Some(packet)
    }

    pub(crate) fn split(&self) -> Option<OsHandle> {
        self.split
    }

    /// Ends the split buffer of a context. Its remaining parts are not submitted.
    pub(crate) fn clear_split(&mut self, context: OsHandle) {
        self.split = self.split.filter(|split| *split != context);
    }

    /// Returns the idle context if the engine is idle and has another context loaded. The engine
    /// has room, and its returned packets have been submitted again.
    pub(crate) fn idle_switch_due(&self) -> Option<OsHandle> {
        let idle = self.in_flight.is_empty();
        let kept = self.current_context.is_some_and(|context| self.idle_context != Some(context));
        self.idle_context.filter(|_| idle && kept)
    }

    /// Whether the driver owes a report: about a packet or a preemption request.
    pub(crate) fn owes_report(&self) -> bool {
        !self.in_flight.is_empty() || self.request.is_some()
    }

    /// Whether the driver owes a report, or is given a packet next.
    pub(crate) fn has_due_work(&self) -> bool {
        let is_next = self.idle_switch_due().is_some() || self.ready.best(None).is_some();
        !self.stopped && (self.owes_report() || is_next)
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

    /// Retires packets up to this ID. Returns their contexts. `last_completed` becomes the ID of
    /// the last retired packet: preempted packets after it are not complete.
    // spec: PRE-025
    pub(crate) fn complete_up_to(&mut self, id: u32, now: CpuTime) -> Vec<OsHandle> {
        let mut completed = Vec::new();
        while let Some(packet) = self.in_flight.front().filter(|packet| !is_after(packet.id, id)) {
            self.last_completed = packet.id;
            completed.push(packet.context);
            self.fruitless.remove(&packet.context);
            self.in_flight.pop_front();
        }
        self.begin_first(now);
        completed
    }

    /// Removes a packet that the driver rejected.
    pub(crate) fn not_accepted(&mut self, id: u32, now: CpuTime) -> Option<Packet> {
        let at = self.in_flight.iter().position(|packet| packet.id == id)?;
        let packet = self.in_flight.remove(at);
        self.begin_first(now);
        packet
    }

    /// Returns the reason to preempt the packets in flight now, if there is one.
    // spec: PRE-002
    pub(crate) fn preemption_due(&self, config: &Config, now: CpuTime) -> Option<PreemptionReason> {
        if !config.preempts {
            return None;
        }
        if self.is_overdue(config, now) {
            return Some(PreemptionReason::Timeout);
        }
        let first = self.in_flight.front().filter(|_| self.request.is_none() && !self.stopped)?;
        let turn_ends = first.turn_ends(self.turn_ns(config))?;
        match self.highest_waiting()?.cmp(&self.ready.rank(first.priority)) {
            std::cmp::Ordering::Greater => Some(PreemptionReason::Priority),
            std::cmp::Ordering::Equal if now >= turn_ends => Some(PreemptionReason::Quantum),
            _ => None,
        }
    }

    /// Whether the first packet has run for the timeout delay without a preemption request.
    pub(crate) fn is_overdue(&self, config: &Config, now: CpuTime) -> bool {
        let first = self.in_flight.front().filter(|_| self.request.is_none() && !self.stopped);
        let began = first.and_then(|packet| packet.began);
        began.and_then(|began| self.overdue_at(began, config)).is_some_and(|at| now >= at)
    }

    /// Returns when a first packet that began at this time has run for the timeout delay.
    fn overdue_at(&self, began: CpuTime, config: &Config) -> Option<CpuTime> {
        let delay_ns = config.timeout_ns.filter(|_| !self.is_exempt())?;
        Some(began.max(self.timeouts_from).after(delay_ns))
    }

    /// Returns the ID and time of the next timeout. The ID is that of the unanswered request, or of
    /// the first packet if the driver cannot preempt. A timeout is reported once.
    pub(crate) fn timeout(&self, config: &Config, delay_ns: u64) -> Option<(u32, CpuTime)> {
        if self.stopped || self.is_exempt() {
            return None;
        }
        let (id, since) = match config.preempts {
            true => self.request.map(|request| (request.id, request.requested))?,
            false => self.in_flight.front().and_then(|first| Some((first.id, first.began?)))?,
        };
        let since = since.max(self.timeouts_from);
        (self.timed_out != Some(id)).then(|| (id, since.after(delay_ns)))
    }

    pub(crate) fn count_timeouts_from(&mut self, from: CpuTime) {
        self.timeouts_from = self.timeouts_from.max(from);
    }

    /// Leaves the last `ns` out of the time of the request and of the first packet.
    pub(crate) fn leave_out(&mut self, ns: u64, now: CpuTime) {
        let request = self.request.as_mut().map(|request| &mut request.requested);
        let began = self.in_flight.front_mut().and_then(|first| first.began.as_mut());
        for time in request.into_iter().chain(began).chain([&mut self.timeouts_from]) {
            *time = time.after(ns).min(now);
        }
    }

    pub(crate) fn note_timeout(&mut self, id: u32) {
        self.timed_out = Some(id);
    }

    /// Whether the first packet is exempt from timeouts.
    pub(crate) fn is_exempt(&self) -> bool {
        self.in_flight.front().is_some_and(|packet| self.exempt.contains(&packet.context))
    }

    /// Returns the highest rank of a context that waits behind the first packet, on the engine or
    /// in the ready list. Returns `None` if the first packet cannot be preempted for it.
    fn highest_waiting(&self) -> Option<Priority> {
        let first = self.in_flight.front().filter(|packet| packet.command.kind.is_preemptible())?;
        let behind = self.in_flight.iter().skip(1).filter(|packet| packet.context != first.context);
        let behind = behind.map(|packet| self.ready.rank(packet.priority));
        let ready = self.ready.best(Some(first.context));
        behind.chain(ready.map(|candidate| candidate.rank)).max()
    }

    /// Returns the next deadline after `since` at which a preemption may become due. The shares are
    /// counted up to `since`.
    pub(crate) fn deadline(&self, config: &Config, since: CpuTime) -> Option<CpuTime> {
        let first = self.in_flight.front().filter(|_| self.request.is_none() && !self.stopped)?;
        let began = first.began?;
        let timeout = self.overdue_at(began, config);
        let waits = self.highest_waiting().filter(|_| config.preempts);
        let turn = waits.filter(|w| *w >= first.priority);
        let turn = turn.and_then(|_| first.turn_ends(self.turn_ns(config)));
        let behind = waits_behind(&self.in_flight);
        let changes = self.ready.rank_changes(first.priority, behind, self.turn(config));
        let changes = changes.filter(|_| waits.is_some()).map(|ns| self.counted.after(ns));
        timeout.into_iter().chain(turn).chain(changes).filter(|deadline| *deadline > since).min()
    }

    /// Opens a preemption request. Returns its fence ID.
    pub(crate) fn request_preemption(&mut self, reason: PreemptionReason, now: CpuTime) -> u32 {
        let id = self.fence_ids.next();
        self.request = Some(PreemptionRequest { id, reason, requested: now });
        id
    }

    /// Withdraws the open request. A late answer is stale.
    pub(crate) fn withdraw(&mut self) {
        if let Some(request) = self.request.take() {
            self.withdrawn = Some(request.id);
        }
    }

    pub(crate) fn request(&self) -> Option<PreemptionRequest> {
        self.request
    }

    /// Matches a DMA_PREEMPTED report with the requests that were made.
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

    /// Notes how long the engine took to answer the open request. The longest answer counts while
    /// turns are fruitless: the request that ends such a turn may find nothing to leave.
    pub(crate) fn note_answer(&mut self, now: CpuTime) {
        let took_ns = self.request.map_or(0, |request| now.since(request.requested));
        let before_ns = if self.fruitless.is_empty() { 0 } else { self.leaving_ns };
        self.leaving_ns = took_ns.max(before_ns);
    }

    /// Records that a turn of a packet's context has ended and no packet of it. A lifted band has
    /// one turn in ten, so each of its turns counts as all that make turns longer.
    pub(crate) fn note_fruitless(&mut self, packet: &Packet) {
        let turns = if packet.lifted { FRUITLESS_TURNS } else { 1 };
        *self.fruitless.entry(packet.context).or_default() += turns;
    }

    /// Forgets a context that is gone.
    pub(crate) fn forget(&mut self, context: OsHandle) {
        self.exempt.remove(&context);
        self.fruitless.remove(&context);
    }

    /// Closes the answered request. Returns all packets in flight.
    pub(crate) fn reclaim_in_flight(&mut self) -> Vec<Packet> {
        self.request = None;
        self.in_flight.drain(..).collect()
    }

    pub(crate) fn last_submitted(&self) -> u32 {
        self.last_submitted
    }

    /// Makes the packet that a reset returned the last completed one. Removes it if it was aborted.
    pub(crate) fn end_at_reset(&mut self, id: u32) -> Option<Packet> {
        self.last_completed = id;
        let at = self.in_flight.iter().position(|packet| packet.id == id)?;
        self.in_flight.remove(at)
    }

    /// Removes the packets that an adapter reset ended. Returns their contexts.
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
            // The outcome of a reset of the engine from before the adapter's is void.
            // spec: PRE-174
            self.reset = None;
            self.last_completed = self.last_submitted;
        }
        ended
    }

    pub(crate) fn last_completed(&self) -> u32 {
        self.last_completed
    }
}

/// Returns the bands with a packet behind the first one in flight.
fn waits_behind(in_flight: &VecDeque<Packet>) -> impl Fn(Priority) -> bool {
    |priority| in_flight.iter().skip(1).any(|packet| packet.priority == priority)
}

/// The request that a DMA_PREEMPTED report answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The open request.
    Open(PreemptionReason),
    /// A withdrawn request.
    Withdrawn,
    /// No request has this ID.
    Unknown(u32),
}

#[cfg(test)]
impl Engine {
    /// Makes the next ID follow `last`.
    pub(crate) fn continue_ids_after(&mut self, last: u32) {
        (self.fence_ids, self.last_submitted, self.last_completed) =
            (FenceIds::after(last), last, last);
    }
}
