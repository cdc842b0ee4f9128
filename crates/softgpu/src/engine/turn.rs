//! The turn of an engine, and its choice of queue.
//!
//! A turn: 1. take the bits of rung doorbells from the summaries, and look at the doorbells whose
//! rings set no bit; 2. rest if nothing calls the engine; 3. under the CMP's lock, read the rung
//! doorbells and take the next queue; 4. without a lock, execute a bounded part of its packets;
//! 5. under the lock, return the queue, parked, empty or in the middle of a packet; 6. raise the
//! pending causes; 7. if the line was raised in this turn, let DPCs run.
//!
//! A process's queue that is between two packets, or at an unsatisfied wait, is kept while nothing
//! else calls the engine: the next turns consist of step 4 without the lock, and of steps 6 and 7.
//! The engine returns the queue when its attention word or another doorbell calls it, after
//! [`TURNS_KEPT`] turns, and before its service parks. A queue that is kept at a wait is in no
//! table: the engine loads the value. While a queue is kept, its own bit stays in the summary,
//! because the engine loads its doorbell.
//!
//! A turn is bounded: some ring slots and small commands, or a part of one long command. A queue of
//! higher priority runs between two turns. Timed work occupies the engine but not the service's
//! thread, so other engines continue.

use super::executor::{Executor, Outcome};
use super::preemption::Task;
use crate::cmp::Cmp;
use crate::cmp::node::{OUTRANKED, Resting};
use crate::cmp::reports::FaultRecord;
use crate::cmp::waits::WaitKey;
use crate::doorbell::{Polled, Reading, Seat};
use crate::granularity::may_switch;
use crate::hardware::Hardware;
use crate::mmu::Space;
use crate::queue::{PendingWait, Run};
use crate::runlist::Place;
use std::cell::OnceCell;
use std::sync::Arc;
use tidegate_d3dukmdt::fence_cell::Verdict;
use tidegate_gpu_abi::device::END_OF_TURN;
use tidegate_gpu_abi::{Cause, QueueId, Summary, SummaryPlace};
use tidegate_platform::{Agent, CpuTime, Step, Turn, WaitClass};
use tidegate_platform::{PlantedFault, planted};

/// Timed work occupies the engine until this time, or until a queue that precedes calls it.
struct Rest {
    until: CpuTime,
}

/// The start of the engine's idle time, while the driver wants it reported.
#[derive(Clone, Copy, Default)]
struct Idle {
    /// The idle time in nanoseconds to report; 0 for never.
    report_ns: u64,
    since: Option<CpuTime>,
    reported: bool,
}

/// The most turns that an engine keeps a queue without returning it. The CMP's counters, by which
/// the driver tells a slow engine from a hung one, are as old as that at most.
const TURNS_KEPT: u32 = 64;

/// How long an idle engine looks at doorbells whose rings set no bit before it parks. A ring in
/// this time needs no help; the next one has to wake the engine (decision 171).
const LOOKS_FOR_NS: u64 = 120_000;

/// The sleep between two such looks. The engine does not spin: on its processor may be the thread
/// that stores. A thread that sleeps is also given a processor before one that spins, which a
/// thread that yields is not. A trapped store takes about 30 µs from its hint, so that a shorter
/// sleep would end before it.
const LOOK_INTERVAL_NS: u64 = 40_000;

/// How a turn left the queue that the engine keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Between two packets.
    BetweenPackets,
    /// At the end of its ring.
    EndOfRing,
    /// At an unsatisfied wait.
    Wait,
}

impl Position {
    /// Returns `None` if the engine may not keep a queue that a turn left so.
    #[inline]
    fn of(run: &Run, outcome: &Outcome) -> Option<Position> {
        match outcome {
            Outcome::More if run.packet.is_none() => Some(Position::BetweenPackets),
            Outcome::Empty => Some(Position::EndOfRing),
            Outcome::Blocked => Some(Position::Wait),
            _ => None,
        }
    }

    fn outcome(self) -> Outcome {
        match self {
            Position::BetweenPackets => Outcome::More,
            Position::EndOfRing => Outcome::Empty,
            Position::Wait => Outcome::Blocked,
        }
    }
}

/// An engine with its executor, summaries and rung doorbells.
pub(crate) struct Engine {
    exec: Executor,
    summaries_seen: u64,
    invalidations_seen: u32,
    /// Rung doorbells: group and bit.
    rung: Vec<(usize, u32)>,
    /// Payloads of other GPUs from the common doorbell.
    payloads: Vec<u64>,
    doorbell_reads: u64,
    rest: Option<Rest>,
    idle: Idle,
    /// The end of the time in which the idle engine looks at doorbells, once it has begun.
    looks_until: Option<CpuTime>,
    task: Task,
    /// The place of the current queue when it was taken. A planted fault returns it there.
    stale_place: Option<Place>,
    /// The queue that the engine keeps for the next turn, and how the last one left it.
    kept: Option<Box<Run>>,
    position: Position,
    /// The group of the current queue's doorbell and the place of its bit, if the engine may keep
    /// the queue. It is computed when the queue is taken: each turn uses it.
    own_bit: Option<(usize, SummaryPlace)>,
    /// The number of turns for which the engine may keep the current queue.
    turns_left: u32,
}

impl Engine {
    pub(crate) fn new(gpu: Arc<Hardware>, node: usize) -> Engine {
        let (summaries, summaries_seen, invalidations_seen) = {
            let cmp = gpu.cmp.lock();
            (cmp.doorbells.of_node(node as u32), cmp.nodes[node].summaries, cmp.invalidations)
        };
        Engine {
            exec: Executor::new(gpu, node, summaries),
            summaries_seen,
            invalidations_seen,
            rung: Vec::new(),
            payloads: Vec::new(),
            doorbell_reads: 0,
            rest: None,
            idle: Idle::default(),
            looks_until: None,
            task: Task::Execute,
            stale_place: None,
            kept: None,
            position: Position::BetweenPackets,
            own_bit: None,
            turns_left: 0,
        }
    }

    /// Takes the numbers of the rung doorbells.
    // spec: UMS-004
    #[inline]
    fn take_rung(&mut self) {
        let rung = &mut self.rung;
        for (group, summary) in &self.exec.summaries {
            summary.take(|bit| rung.push((*group, bit)));
        }
        for polled in &mut self.exec.polled {
            if polled.take() {
                rung.push((polled.group, polled.bit));
            }
        }
    }

    /// Returns whether anything that the engine has not seen calls it.
    fn is_called(&self) -> bool {
        let attention = self.exec.attention.load();
        match &self.rest {
            None => attention != 0,
            Some(rest) => attention >= OUTRANKED || self.exec.gpu.platform.now() >= rest.until,
        }
    }

    #[inline(always)]
    fn rest(&mut self) -> Turn {
        match &self.rest {
            Some(rest) => Turn::Until(rest.until),
            None if !self.exec.polled.is_empty() => self.rest_between_looks(),
            None if self.idle.report_ns == 0 => Turn::Park,
            None => self.idle(),
        }
    }

    /// Has the service sleep for short times only, until the time of looks ends. Each turn looks at
    /// the doorbells.
    #[cold]
    fn rest_between_looks(&mut self) -> Turn {
        let now = self.exec.gpu.platform.now();
        let until = *self.looks_until.get_or_insert(now.after(LOOKS_FOR_NS));
        if now < until {
            Turn::Background(now.after(LOOK_INTERVAL_NS).min(until))
        } else {
            self.idle()
        }
    }

    /// Parks the engine because nothing calls it, and reports it idle after the time that the
    /// driver set.
    #[cold]
    fn idle(&mut self) -> Turn {
        if self.idle.reported || self.idle.report_ns == 0 {
            return Turn::Park;
        }
        let now = self.exec.gpu.platform.now();
        let due = self.idle.since.get_or_insert(now).after(self.idle.report_ns);
        if now < due {
            return Turn::Until(due);
        }
        self.idle.reported = true;
        let gpu = Arc::clone(&self.exec.gpu);
        let idle = {
            let cmp = gpu.cmp.lock();
            cmp.serves(self.exec.node) && cmp.is_idle(self.exec.node)
        };
        if !idle {
            return Turn::Park;
        }
        gpu.line.idle.note(self.exec.node);
        self.exec.raise(Cause::ENGINE_IDLE);
        self.raise_due_causes();
        Turn::Again
    }

    /// Takes the next queue, if there is one. The second value is whether there are summaries that
    /// this turn has not read.
    fn check_out(&mut self, gpu: &Hardware) -> (Option<Box<Run>>, bool) {
        let mut cmp = gpu.cmp.lock();
        let has_new_summaries = self.refresh(&mut cmp);
        self.read_doorbells(&mut cmp);
        self.exec.causes |= std::mem::take(&mut cmp.causes_due);
        if let Some(Rest { until }) = self.rest.take() {
            let list = &mut cmp.nodes[self.exec.node].list;
            list.timed_work_ended(until, || gpu.platform.now());
        }
        // A hint may come before the store to which it belongs.
        self.looks_until = None;
        cmp.nodes[self.exec.node].recall = false;
        cmp.nodes[self.exec.node].resting = None;
        let picked;
        (picked, self.task) = self.exec.pick(&mut cmp);
        self.exec.leave_previous(&mut cmp, picked);
        let is_committed = cmp.nodes[self.exec.node].list.keeps_a_queue();
        let mut run = None;
        if let Some(queue) = picked
            && let Some(entry) = cmp.queue(queue)
        {
            entry.listed = false;
            self.stale_place = planted!(gpu.platform, StalePlace).then_some(entry.place);
            let seat = entry.seat.as_ref().filter(|_| !is_committed && !entry.suspending);
            self.own_bit =
                seat.and_then(Seat::own_bit).map(|(group, bit)| (group, SummaryPlace::of(bit)));
            self.turns_left = TURNS_KEPT;
            run = entry.run.take();
        }
        gpu.publish(&mut cmp, self.exec.node as u32);
        if let Some(run) = &run {
            (self.idle.since, self.idle.reported) = (None, false);
            cmp.nodes[self.exec.node].turns += 1;
            if self.task == Task::Execute {
                cmp.nodes[self.exec.node].current = picked;
            }
            self.exec.space = cmp.space(run.state.shape.address_space, self.exec.physical_gpu);
            self.exec.work_space = match run.is_physical() {
                true => Space::PHYSICAL,
                false => cmp.space(run.work_space(), self.exec.physical_gpu),
            };
        }
        (run, has_new_summaries)
    }

    /// Picks up new summaries and settings, and drops stale translations. Returns whether there are
    /// new summaries.
    fn refresh(&mut self, cmp: &mut Cmp) -> bool {
        let node = &cmp.nodes[self.exec.node];
        let has_new_summaries = self.summaries_seen != node.summaries;
        if has_new_summaries {
            self.summaries_seen = node.summaries;
            self.exec.summaries = cmp.doorbells.of_node(self.exec.node as u32);
            self.exec.polled = cmp.doorbells.polled_of_node(self.exec.node as u32);
        }
        if self.idle.report_ns != node.report_idle_ns {
            self.idle = Idle { report_ns: node.report_idle_ns, ..Idle::default() };
        }
        if self.invalidations_seen != cmp.invalidations {
            self.invalidations_seen = cmp.invalidations;
            let physical_gpu = self.exec.physical_gpu;
            self.exec.port.mmu.forget_stale(|id| cmp.space(id, physical_gpu));
            // The next queue begins with none of it either.
            self.exec.begin_queue();
        }
        has_new_summaries
    }

    /// Reads rung doorbells and puts their queues on the run list. A suspended queue's doorbell is
    /// not read.
    fn read_doorbells(&mut self, cmp: &mut Cmp) {
        let rung = std::mem::take(&mut self.rung);
        self.doorbell_reads += rung.len() as u64;
        for &(group, bit) in &rung {
            if let Some(payload) = cmp.doorbells.payload(group, bit) {
                cmp.stats.peer_signals += 1;
                self.payloads.push(payload);
                continue;
            }
            let Some(queue) = cmp.doorbells.owner(group, bit) else { continue };
            let Some(entry) = cmp.queue(queue) else { continue };
            if entry.suspended || entry.faulted {
                continue;
            }
            let Some(run) = &mut entry.run else { continue };
            let Some(doorbell) = &run.state.doorbell else { continue };
            let rung = match doorbell.read() {
                Reading::Pointer(pointer) => run.state.ring(pointer),
                Reading::InControlArea => {
                    run.state.reread = true;
                    Ok(())
                }
            };
            run.state.rung = false;
            cmp.note_ring(queue);
            let Some(run) = cmp.queue(queue).and_then(|entry| entry.run.as_ref()) else { continue };
            if let Err(fault) = rung {
                let position = run.state.taken;
                self.exec.report_fault(cmp, FaultRecord::of_ring(queue, position, fault), true);
                continue;
            }
            cmp.enlist(queue, false);
        }
        self.rung = rung;
        self.rung.clear();
    }

    /// Handles the payloads of other GPUs. Returns whether there were any.
    fn receive_payloads(&mut self) -> bool {
        let payloads = std::mem::take(&mut self.payloads);
        for payload in &payloads {
            if self.exec.gpu.receive_signal(*payload) {
                // It names no queue of this GPU, and therefore no fence: the kernel scans.
                self.exec.causes |= Cause::FENCE_COLLAPSED.0;
            }
        }
        !payloads.is_empty()
    }

    /// Returns whether something other than the current queue calls the engine.
    #[inline]
    fn is_called_away(&self) -> bool {
        let by_doorbell = |(group, summary): &(usize, Arc<Summary>)| match &self.own_bit {
            Some((own, place)) if own == group => summary.is_rung_besides(place),
            _ => summary.is_rung(),
        };
        self.exec.attention.load() != 0
            || self.exec.summaries.iter().any(by_doorbell)
            || !self.exec.polled.is_empty() && self.is_called_by_polled()
    }

    /// Returns whether a doorbell of another queue is rung whose rings set no bit.
    #[cold]
    fn is_called_by_polled(&self) -> bool {
        let is_own =
            |polled: &Polled| self.own_bit == Some((polled.group, SummaryPlace::of(polled.bit)));
        self.exec.polled.iter().any(|polled| !is_own(polled) && polled.is_rung())
    }

    /// Keeps the queue for the next turn if it may be kept, else returns it.
    #[inline(always)]
    fn keep_or_check_in(&mut self, run: Box<Run>, outcome: Outcome) {
        if let Some(position) = Position::of(&run, &outcome)
            && self.own_bit.is_some()
            && self.turns_left > 0
            && !self.is_called_away()
        {
            self.position = position;
            self.kept = Some(run);
        } else {
            self.check_in(run, outcome);
        }
    }

    /// A turn on the queue that the engine has kept.
    #[inline]
    fn go_on(&mut self, mut run: Box<Run>) -> Turn {
        self.exec.port.refresh_links();
        self.turns_left -= 1;
        let taken = run.state.taken;
        let outcome = self.exec.execute(&mut run);
        let idle = run.state.taken == taken && matches!(outcome, Outcome::Empty | Outcome::Blocked);
        self.keep_or_check_in(run, outcome);
        self.raise_due_causes();
        if idle && self.kept.is_some() { Turn::Park } else { Turn::Again }
    }

    /// Returns the queue to the CMP in the state in which the turn left it.
    #[inline(never)]
    fn check_in(&mut self, mut run: Box<Run>, outcome: Outcome) {
        let gpu = Arc::clone(&self.exec.gpu);
        let queue = run.state.shape.id;
        let goes_on = !matches!(outcome, Outcome::Blocked | Outcome::Faulted(..));
        let blocked = run.pending_wait().copied();
        let in_packet = run.packet.is_some() && goes_on;
        let mut cmp = gpu.cmp.lock();
        cmp.nodes[self.exec.node].queue_requested = false;
        let mut timed = None;
        let now = OnceCell::new();
        let clock = || *now.get_or_init(|| gpu.platform.now());
        let leaves = may_switch(&run, gpu.config.node_of(self.exec.node));
        if self.task == Task::Execute {
            cmp.nodes[self.exec.node].list.turn_ended(in_packet, leaves, clock);
        }
        self.exec.tally.hand_over(self.exec.node, &mut cmp.stats);
        cmp.stats.doorbell_reads += std::mem::take(&mut self.doorbell_reads);
        cmp.nodes[self.exec.node].turns += 1;
        cmp.nodes[self.exec.node].progress += std::mem::take(&mut self.exec.progress);
        if let Some(entry) = cmp.queue(queue) {
            entry.taken = run.state.taken;
            entry.place = self.stale_place.take().unwrap_or(entry.place);
            run.state.reread |= std::mem::take(&mut entry.kicked);
            let rung = std::mem::take(&mut run.state.rung);
            entry.run = Some(run);
            if !entry.new_logs.is_empty() {
                entry.take_new_logs(&gpu.posted);
            }
            match outcome {
                Outcome::More | Outcome::Empty => {}
                Outcome::Until(until) => timed = Some(until),
                Outcome::Hung => cmp.nodes[self.exec.node].hung = Some(queue),
                Outcome::GivenBack(fault) => {
                    self.exec.answer_preemption(&mut cmp, queue, fault.map(|fault| *fault));
                }
                Outcome::Blocked => self.block(&mut cmp, queue, blocked),
                Outcome::Faulted(record, stops) => self.exec.report_fault(&mut cmp, *record, stops),
            }
            if rung {
                cmp.note_ring(queue);
            }
            self.exec.end_turn(&mut cmp, queue, leaves);
        }
        cmp.enlist(queue, in_packet);
        self.stay(&mut cmp, queue, timed, leaves, clock);
        gpu.publish(&mut cmp, self.exec.node as u32);
        // Under the lock, so that a command that goes on finds nothing left to be done for it.
        if std::mem::take(&mut cmp.turn_is_awaited) {
            gpu.turn_ends.fetch_add(1);
            gpu.turn_ends.wake(u32::MAX, Step::ThreadWake);
        }
    }

    /// Keeps the engine on timed work that was entered again while no other queue precedes it.
    /// Otherwise the engine leaves the queue. Uninterruptible timed work is checked only at
    /// its end.
    fn stay(
        &mut self,
        cmp: &mut Cmp,
        queue: QueueId,
        timed: Option<CpuTime>,
        leaves: bool,
        clock: impl Fn() -> CpuTime,
    ) {
        let node = &mut cmp.nodes[self.exec.node];
        let Some(until) = timed.filter(|_| node.list.next() == Some(queue)) else {
            return node.list.left(clock);
        };
        let gives_way_at = node.list.gives_way_at();
        let until = gives_way_at.filter(|_| leaves).map_or(until, |at| until.min(at));
        node.resting = Some(Resting { queue, contended: node.list.is_contended(), gives_way_at });
        self.rest = Some(Rest { until });
    }

    /// Parks the queue until its wait is satisfied: enter the table, arm, check again.
    /// The turn that ends here has translated its fence last.
    fn block(&mut self, cmp: &mut Cmp, queue: QueueId, wait: Option<PendingWait>) {
        let Some(wait) = wait else { return };
        let entry = self.exec.port.mmu.loaded(wait.current_value);
        let (cell, key) = (&entry.cell, WaitKey { cell: entry.physical, wait: wait.wait });
        cmp.waits.enter(&self.exec.gpu.armed, key, queue, cell);
        if let Some(entry) = cmp.queue(queue) {
            entry.waiting = Some(key);
        }
        let verdict = cell.judge(key.wait);
        let is_missed = self.exec.gpu.misses_loss(verdict, PlantedFault::LossBeforeTheParkIsMissed);
        if verdict != Verdict::Unsatisfied && !is_missed {
            cmp.waits.leave(&self.exec.gpu.armed, key, queue);
            cmp.end_parking(queue, verdict);
        }
    }

    #[inline]
    fn raise_due_causes(&mut self) {
        if !self.exec.held.is_empty() {
            let goes_on = self.kept.is_some() && self.position == Position::BetweenPackets;
            self.exec.end_turn_with_held(goes_on);
        }
        if self.exec.port.take_fence_write() {
            let cause = self.exec.monitored_write();
            self.exec.raise(cause);
        }
        let causes = std::mem::take(&mut self.exec.causes);
        if causes != 0 {
            self.exec.raise(Cause(causes));
        }
        if std::mem::take(&mut self.exec.raised) {
            self.exec.gpu.line.turn_ended();
        }
    }
}

impl Engine {
    /// A turn that begins with the choice of a queue.
    #[inline(never)]
    fn serve(&mut self) -> Turn {
        let gpu = Arc::clone(&self.exec.gpu);
        let (run, has_new_summaries) = self.check_out(&gpu);
        self.exec.port.refresh_links();
        let idle = !self.receive_payloads() && run.is_none();
        if let Some(mut run) = run {
            self.exec.begin_queue();
            self.exec.record_return(&mut run);
            // A node's ring has no context of its own: the next DMA packet brings one.
            if self.task == Task::Execute
                && let Some(context) = run.context()
            {
                self.exec.switch_to(context);
            }
            let outcome = match self.task {
                Task::Execute => self.exec.execute(&mut run),
                Task::GiveBack => self.exec.give_back(&mut run),
            };
            self.keep_or_check_in(run, outcome);
        }
        self.raise_due_causes();
        if gpu.config.posted_fence_writes && planted!(gpu.platform, NoSignalBarrier) {
            // A store without a barrier still becomes visible eventually.
            gpu.posted.flush();
        }
        if idle && !has_new_summaries { self.rest() } else { Turn::Again }
    }
}

impl Agent for Engine {
    fn ends(&self) -> Option<&'static WaitClass> {
        Some(&END_OF_TURN)
    }

    fn turn(&mut self) -> Turn {
        if let Some(run) = self.kept.take() {
            return self.go_on(run);
        }
        self.take_rung();
        if self.rung.is_empty() && !self.is_called() {
            return self.rest();
        }
        self.serve()
    }

    fn give_back(&mut self) {
        if let Some(run) = self.kept.take() {
            if planted!(self.exec.gpu.platform, ForgetsItsBit) {
                self.take_rung();
                self.rung.clear();
            }
            self.check_in(run, self.position.outcome());
            self.raise_due_causes();
        }
    }
}
