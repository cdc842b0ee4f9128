//! Engines: one agent per node of each physical GPU. Owns what an engine does in one turn, and
//! which queue it does it for.
//!
//! A turn: 1. look at the summaries for doorbells that were rung; 2. if nothing asks for the
//! engine, rest; 3. under the CMP's lock, read the rung doorbells and take the queue whose turn it
//! is; 4. without a lock, execute a bounded part of its packets; 5. under the lock, give the queue
//! back, parked, empty or in the middle of a packet; 6. raise what is to be raised; 7. if the line
//! went up in this turn, let deferred routines run.
//!
//! A turn is bounded: some ring slots and small commands, or one command that takes time, or a part
//! of it. A queue of higher priority comes in between two turns. Timed work keeps the engine, not
//! the turn: other engines of the service go on.
//!
//! Rooms: `fence` (waits and signals) · `packet` (ring slots, command buffers) · `copy` · `compute`
//! · `graphics` · `preempt` (what is next, and a ring that goes back) · `asked` (how often, and how
//! long it takes) · `busy` (busy time and slices) · `port` (an engine's way to memory). The
//! platform's service calls in; CMP, interrupt line and programs are called.

mod asked;
mod busy;
mod compute;
mod copy;
mod fence;
mod graphics;
mod packet;
mod port;
mod preempt;

pub(crate) use graphics::stage_of;

use crate::boundary::may_switch;
use crate::cmp::reports::FaultRecord;
use crate::cmp::waits::WaitKey;
use crate::cmp::{Cmp, OTHERS, Resting, Shared};
use crate::config::EngineClass;
use crate::doorbell::Heard;
use crate::mmu::{Fault, Slot, Space};
use crate::queue::{ContextKey, Packet, Run};
use crate::runlist::Place;
use crate::stats::Tally;
pub(crate) use asked::Asked;
use busy::Busy;
use packet::Window;
use port::Port;
use preempt::Task;
use std::cell::OnceCell;
use std::sync::Arc;
use tidegate_gpu_abi::{AddressSpaceId, Cause, QueueId, QueueKind, Summary};
use tidegate_platform::{Agent, CpuTime, Step, Turn, Word};
use tidegate_trace::{LaneId, LaneKind};

/// How a step on a queue went.
enum Pace {
    /// Done with something small.
    Light,
    /// Done with something that takes time, or with a part of it.
    Heavy,
    /// The ring has nothing more.
    Empty,
    /// The head is a wait that is not satisfied.
    Blocked(WaitKey, Slot),
    /// Timed work until then.
    Until(CpuTime),
    /// The engine hangs.
    Hung,
}

/// How a turn on a queue ended.
enum Outcome {
    /// There may be more.
    More,
    Empty,
    Blocked(WaitKey, Slot),
    Until(CpuTime),
    /// A fault; whether it stops the queue.
    Faulted(FaultRecord, bool),
    /// It hangs in a command.
    Hung,
    /// The ring goes back to the kernel; a packet whose state could not be kept has faulted.
    GivenBack(Option<FaultRecord>),
}

/// Timed work keeps the engine until then, or until somebody asks for whom it gives way.
struct Rest {
    until: CpuTime,
}

/// Since when the engine has had nothing to do, as far as somebody wants to know.
#[derive(Clone, Copy, Default)]
struct Idle {
    /// How long it takes until it is reported; 0 for never.
    report_ns: u64,
    since: Option<CpuTime>,
    reported: bool,
}

/// An engine and what it keeps between turns.
pub(crate) struct Engine {
    gpu: Arc<Shared>,
    /// Its number: through the nodes of physical GPU 0 first.
    node: usize,
    /// Whose page tables it walks.
    physical_gpu: u32,
    class: EngineClass,
    /// As its node is configured.
    writes_fences: bool,
    attention: Word,
    lane: LaneId,
    port: Port,
    summaries: Vec<(usize, Arc<Summary>)>,
    summaries_seen: u64,
    invalidations_seen: u32,
    rung: Vec<(usize, u32)>,
    /// What other GPUs wrote into the common doorbell.
    told: Vec<u64>,
    tally: Tally,
    doorbell_looks: u64,
    busy: Option<Busy>,
    rest: Option<Rest>,
    idle: Idle,
    task: Task,
    /// What was done since the last turn's end.
    progress: u64,
    /// Queue and address space that the engine worked for last.
    context: Option<ContextKey>,
    /// The present queue's own address space, and that of the packet that it is in the middle of.
    space: Space,
    work_space: Space,
    window: Window,
    /// Where the present queue's read pointer stands, once it was stored in this turn.
    read_pointer: Option<Word>,
    /// Where the queue stood that it has: a planted fault gives it back there.
    stale_place: Option<Place>,
    /// Causes to raise once the lock is dropped.
    causes: u64,
    raised: bool,
    /// When its last signal was stored, for the timeline.
    signal_ns: u64,
}

impl Engine {
    pub(crate) fn new(gpu: Arc<Shared>, node: usize) -> Engine {
        let physical_gpu = gpu.config.physical_gpu_of(node);
        let (summaries, summaries_seen, invalidations_seen) = {
            let cmp = gpu.cmp.lock();
            (cmp.doorbells.of_node(node as u32), cmp.nodes[node].summaries, cmp.invalidations)
        };
        let nowhere = Space::new(AddressSpaceId(0), 0, tidegate_platform::PhysicalAddress(0));
        Engine {
            node,
            physical_gpu,
            class: gpu.config.node_of(node).class,
            writes_fences: gpu.config.node_of(node).writes_fences,
            attention: gpu.nodes[node].attention.clone(),
            lane: gpu.platform.lane(
                LaneKind::Engine,
                &gpu.config.lane_group,
                &gpu.config.engine_name(node),
            ),
            port: Port::new(Arc::clone(&gpu), node),
            summaries,
            summaries_seen,
            invalidations_seen,
            rung: Vec::new(),
            told: Vec::new(),
            tally: Tally::default(),
            doorbell_looks: 0,
            busy: None,
            rest: None,
            idle: Idle::default(),
            task: Task::Execute,
            progress: 0,
            context: None,
            space: nowhere,
            work_space: nowhere,
            window: Window::default(),
            read_pointer: None,
            stale_place: None,
            causes: 0,
            raised: false,
            signal_ns: 0,
            gpu,
        }
    }

    /// Takes the numbers of the doorbells that were rung.
    // spec: UMS-004
    fn look(&mut self) {
        let rung = &mut self.rung;
        for (group, summary) in &self.summaries {
            summary.take(|bit| rung.push((*group, bit)));
        }
    }

    /// Whether something asks for the engine that it has not seen.
    fn is_called(&self) -> bool {
        let attention = self.attention.load();
        match &self.rest {
            None => attention != 0,
            Some(rest) => attention >= OTHERS || self.gpu.platform.now() >= rest.until,
        }
    }

    fn rest(&mut self) -> Turn {
        match &self.rest {
            Some(rest) => Turn::Until(rest.until),
            None => self.idle(),
        }
    }

    /// Nothing asks for the engine: parks, and says so when that has lasted as long as somebody
    /// wants to know.
    fn idle(&mut self) -> Turn {
        if self.idle.report_ns == 0 || self.idle.reported {
            return Turn::Park;
        }
        let now = self.gpu.platform.now();
        let due = self.idle.since.get_or_insert(now).after(self.idle.report_ns);
        if now < due {
            return Turn::Until(due);
        }
        self.idle.reported = true;
        let gpu = Arc::clone(&self.gpu);
        let idle = {
            let cmp = gpu.cmp.lock();
            cmp.serves(self.node) && cmp.is_idle(self.node)
        };
        if !idle {
            return Turn::Park;
        }
        gpu.line.note_idle(self.node);
        self.raise(Cause::ENGINE_IDLE);
        self.raise_what_is_due();
        Turn::Again
    }

    /// Takes the queue whose turn it is, if there is one. The second value says that there are
    /// summaries not looked at yet.
    fn check_out(&mut self, gpu: &Shared) -> (Option<Box<Run>>, bool) {
        let mut cmp = gpu.cmp.lock();
        let news = self.learn(&mut cmp);
        self.read_doorbells(&mut cmp);
        self.causes |= std::mem::take(&mut cmp.causes_due);
        self.rest = None;
        cmp.nodes[self.node].recall = false;
        cmp.nodes[self.node].resting = None;
        let picked = self.pick(&mut cmp);
        self.leave_previous(&mut cmp, picked);
        let mut run = None;
        if let Some(queue) = picked
            && let Some(entry) = cmp.queue(queue)
        {
            entry.listed = false;
            self.stale_place = gpu.platform.fault("stale place").then_some(entry.place);
            run = entry.run.take();
        }
        gpu.publish(&mut cmp, self.node as u32);
        if let Some(run) = &run {
            (self.idle.since, self.idle.reported) = (None, false);
            cmp.nodes[self.node].turns += 1;
            if self.task == Task::Execute {
                cmp.nodes[self.node].current = picked;
            }
            self.space = cmp.space(run.state.shape.address_space, self.physical_gpu);
            self.work_space = match run.is_physical() {
                true => Space::PHYSICAL,
                false => cmp.space(run.work_space(), self.physical_gpu),
            };
        }
        (run, news)
    }

    /// Learns of new summaries and of translations that became stale.
    fn learn(&mut self, cmp: &mut Cmp) -> bool {
        let node = &cmp.nodes[self.node];
        let news = self.summaries_seen != node.summaries;
        if news {
            self.summaries_seen = node.summaries;
            self.summaries = cmp.doorbells.of_node(self.node as u32);
        }
        if self.idle.report_ns != node.report_idle_ns {
            self.idle = Idle { report_ns: node.report_idle_ns, ..Idle::default() };
        }
        if self.invalidations_seen != cmp.invalidations {
            self.invalidations_seen = cmp.invalidations;
            let physical_gpu = self.physical_gpu;
            self.port.mmu.forget_stale(|id| cmp.space(id, physical_gpu));
        }
        news
    }

    /// Reads the doorbells that were rung and puts their queues on the run list. A suspended
    /// queue's ring is not read.
    fn read_doorbells(&mut self, cmp: &mut Cmp) {
        let rung = std::mem::take(&mut self.rung);
        self.doorbell_looks += rung.len() as u64;
        for &(group, bit) in &rung {
            if let Some(payload) = cmp.doorbells.payload(group, bit) {
                cmp.stats.peer_signals += 1;
                self.told.push(payload);
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
                Heard::Pointer(pointer) => run.state.ring(pointer),
                Heard::WrittenOver => {
                    run.state.reread = true;
                    Ok(())
                }
            };
            run.state.rung = false;
            cmp.note_ring(queue);
            let Some(run) = cmp.queue(queue).and_then(|entry| entry.run.as_ref()) else { continue };
            if let Err(fault) = rung {
                let position = run.state.taken;
                self.fault_queue(cmp, FaultRecord::of_ring(queue, position, fault), true);
                continue;
            }
            cmp.enlist(queue, false);
        }
        self.rung = rung;
        self.rung.clear();
    }

    /// Looks at what other GPUs have told; says whether there was anything.
    fn hear(&mut self) -> bool {
        let told = std::mem::take(&mut self.told);
        for payload in &told {
            if self.gpu.hear(*payload) {
                // It names no queue of ours, and so no fence: the kernel scans.
                self.causes |= Cause::FENCE_COLLAPSED.0;
            }
        }
        !told.is_empty()
    }

    /// Gives the queue back as the turn left it.
    fn check_in(&mut self, gpu: &Shared, mut run: Box<Run>, outcome: Outcome) {
        let queue = run.state.shape.id;
        let goes_on = !matches!(outcome, Outcome::Blocked(..) | Outcome::Faulted(..));
        let in_packet = run.packet.is_some() && goes_on;
        let mut cmp = gpu.cmp.lock();
        let mut timed = None;
        let now = OnceCell::new();
        let clock = || *now.get_or_init(|| gpu.platform.now());
        let leaves = may_switch(&run, gpu.config.node_of(self.node));
        if self.task == Task::Execute {
            cmp.nodes[self.node].list.turn_ended(in_packet, leaves, clock);
        }
        self.tally.hand_over(self.node, &mut cmp.stats);
        cmp.stats.doorbell_looks += std::mem::take(&mut self.doorbell_looks);
        cmp.nodes[self.node].turns += 1;
        cmp.nodes[self.node].progress += std::mem::take(&mut self.progress);
        if let Some(entry) = cmp.queue(queue) {
            entry.taken = run.state.taken;
            entry.place = self.stale_place.take().unwrap_or(entry.place);
            run.state.reread |= std::mem::take(&mut entry.kicked);
            let rung = std::mem::take(&mut run.state.rung);
            entry.run = Some(run);
            match outcome {
                Outcome::More | Outcome::Empty => {}
                Outcome::Until(until) => timed = Some(until),
                Outcome::Hung => cmp.nodes[self.node].hung = Some(queue),
                Outcome::GivenBack(fault) => self.answer_preemption(&mut cmp, queue, fault),
                Outcome::Blocked(key, slot) => self.block(&mut cmp, queue, key, slot),
                Outcome::Faulted(record, stops) => self.fault_queue(&mut cmp, record, stops),
            }
            if rung {
                cmp.note_ring(queue);
            }
            self.end_turn(&mut cmp, queue, leaves);
        }
        cmp.enlist(queue, in_packet);
        self.stay(&mut cmp, queue, (timed, leaves), clock);
        gpu.publish(&mut cmp, self.node as u32);
        let watched = cmp.turn_watchers > 0;
        if watched {
            gpu.turn_ends.fetch_add(1);
        }
        drop(cmp);
        if watched {
            gpu.turn_ends.wake(u32::MAX, Step::ThreadWake);
        }
    }

    /// Keeps the engine on timed work that was entered again while no other queue comes before it.
    /// Otherwise the engine has left the queue. Timed work that may not be left is not checked
    /// before its end.
    fn stay(
        &mut self,
        cmp: &mut Cmp,
        queue: QueueId,
        (timed, leaves): (Option<CpuTime>, bool),
        clock: impl Fn() -> CpuTime,
    ) {
        let node = &mut cmp.nodes[self.node];
        let Some(until) = timed.filter(|_| node.list.next() == Some(queue)) else {
            return node.list.left(clock);
        };
        let gives_way_at = node.list.gives_way_at();
        let until = gives_way_at.filter(|_| leaves).map_or(until, |at| until.min(at));
        node.resting = Some(Resting { queue, contended: node.list.is_contended(), gives_way_at });
        self.rest = Some(Rest { until });
    }

    /// Takes the queue off the run list until its wait is satisfied: enter the table, arm, look
    /// again.
    fn block(&mut self, cmp: &mut Cmp, queue: QueueId, key: WaitKey, slot: Slot) {
        let cell = &self.port.mmu.to_load(slot).cell;
        cmp.waits.enter(&self.gpu.armed, key, queue, cell);
        if let Some(entry) = cmp.queue(queue) {
            entry.waiting = Some(key);
        }
        if cell.satisfies(key.wait) {
            cmp.waits.leave(&self.gpu.armed, key, queue);
            cmp.satisfy(queue);
        }
    }

    fn fault_queue(&mut self, cmp: &mut Cmp, record: FaultRecord, stops: bool) {
        cmp.faults.add(record);
        cmp.stats.faults += 1;
        self.causes |= Cause::FAULT.0;
        if stops && let Some(entry) = cmp.queue(record.queue) {
            entry.faulted = true;
            cmp.delist(record.queue);
        }
    }

    /// Executes a bounded part of the queue's packets.
    fn execute(&mut self, run: &mut Run) -> Outcome {
        let mut budget = self.gpu.config.slots_per_turn.max(1);
        loop {
            match self.step(run) {
                Ok(Pace::Light) => (budget, self.progress) = (budget - 1, self.progress + 1),
                Ok(Pace::Heavy) => {
                    self.progress += 1;
                    return Outcome::More;
                }
                Ok(Pace::Hung) => return Outcome::Hung,
                Ok(Pace::Empty) => return Outcome::Empty,
                Ok(Pace::Blocked(key, slot)) => return Outcome::Blocked(key, slot),
                Ok(Pace::Until(until)) => return Outcome::Until(until),
                Err(fault) => return self.fault(run, fault),
            }
            let asked =
                self.outlook().is_called() && may_switch(run, self.gpu.config.node_of(self.node));
            if budget == 0 || self.raised || asked {
                return Outcome::More;
            }
        }
    }

    fn step(&mut self, run: &mut Run) -> Result<Pace, Fault> {
        match &mut run.packet {
            None => self.next_slot(run),
            Some(Packet::Wait(_)) => self.resume_wait(run),
            Some(Packet::Execute(work)) => {
                let pace = self.command(&run.state, work)?;
                if work.is_done() {
                    self.complete(run)?;
                }
                Ok(pace)
            }
        }
    }

    /// A fault stops its queue; a DMA packet that faults is left out, since the fault is its
    /// context's and not the node's.
    fn fault(&mut self, run: &mut Run, fault: Fault) -> Outcome {
        self.end_busy();
        let state = &run.state;
        let mut record = FaultRecord::of_ring(state.shape.id, state.taken, fault);
        let work = run.packet.take().and_then(|p| match p {
            Packet::Execute(work) => Some(work),
            Packet::Wait(_) => None,
        });
        if let Some(work) = &work {
            record = record.of_commands(work);
        }
        let dma = work.and_then(|work| work.submission_fence_id());
        let Some(id) = dma else { return Outcome::Faulted(record, true) };
        record.position = u64::from(id);
        let goes_on =
            state.shape.kind == QueueKind::Node && self.finish_slot(&mut run.state).is_ok();
        Outcome::Faulted(record, !goes_on)
    }

    /// The engine works for this context from now on.
    fn switch_to(&mut self, context: ContextKey) {
        if self.context.is_some_and(|c| c != context) {
            self.gpu.platform.spend(Step::ContextSwitch);
        }
        self.context = Some(context);
    }

    /// Sets a cause. No lock is held.
    fn raise(&mut self, cause: Cause) {
        self.raised |= self.gpu.line.set(cause);
    }

    fn raise_what_is_due(&mut self) {
        if self.port.take_fence_write() {
            let cause = self.monitored_write();
            self.raise(cause);
        }
        let causes = std::mem::take(&mut self.causes);
        if causes != 0 {
            self.raise(Cause(causes));
        }
        if std::mem::take(&mut self.raised) {
            self.gpu.line.turn_ended();
        }
    }
}

impl Agent for Engine {
    fn turn(&mut self) -> Turn {
        self.look();
        if self.rung.is_empty() && !self.is_called() {
            return self.rest();
        }
        let gpu = Arc::clone(&self.gpu);
        let (run, news) = self.check_out(&gpu);
        self.port.learn();
        let idle = !self.hear() && run.is_none();
        if let Some(mut run) = run {
            self.window.forget();
            self.read_pointer = None;
            self.record_return(&mut run);
            // A node's own ring has no context of its own: the next DMA packet brings one.
            if self.task == Task::Execute
                && let Some(context) = run.context()
            {
                self.switch_to(context);
            }
            let outcome = match self.task {
                Task::Execute => self.execute(&mut run),
                Task::GiveBack => self.give_back(&gpu, &mut run),
            };
            self.check_in(&gpu, run, outcome);
        }
        self.raise_what_is_due();
        if gpu.config.posted_fence_writes && gpu.platform.fault("no signal barrier") {
            // A store that no barrier made visible arrives by itself at some time.
            gpu.posted.flush();
        }
        if idle && !news { self.rest() } else { Turn::Again }
    }
}
