//! The context management processor: owns which queues there are, which can go on, and what each of
//! the others waits for.
//!
//! [`Cmp`] is the state under the `cmp` lock; [`Shared`] is what engines and the driver's side have
//! in common, with the few steps that take the lock and then ring a service. A queue's [`Run`] is
//! here while no engine runs the queue.
//!
//! The order that matters when a queue becomes able to go on: 1. under the lock, put it on its
//! node's list and publish the list's level in the node's attention word; 2. drop the lock; 3. ring
//! the service's wake word (a full barrier). An engine that parks announces its sleep first and
//! looks at attention once more after.
//!
//! Rooms: `admin` (the mailbox) · `recovery` (preemption, reset) · `waits` (who waits for what) ·
//! `reports` (what an interrupt fetches) · `peers` (other GPUs).
//!
//! Engines and registers call in; it calls nobody. It does not execute packets.

pub(crate) mod admin;
mod fence_page;
pub(crate) mod peers;
mod power;
mod recovery;
pub(crate) mod reports;
pub(crate) mod shadow;
pub(crate) mod waits;

use crate::clock::Clock;
use crate::config::Config;
use crate::display::Display;
use crate::doorbell::{Doorbells, Seat};
use crate::engine::Asked;
use crate::interrupt::InterruptLine;
use crate::memory::Bus;
use crate::mmu::Space;
use crate::posted::Posted;
use crate::queue::{Packet, Run, Shape};
use crate::runlist::{Place, RunList};
use crate::stats::{Overlap, ParkedWait, Stats};
use peers::Peers;
use reports::{FaultList, SignaledList};
use shadow::{KeptFences, Shadow};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use tidegate_d3dukmdt::FenceCell;
use tidegate_gpu_abi::{AddressSpaceId, GpuTime, QueueId};
use tidegate_platform::{
    Bulk, CpuTime, Mutex, PhysicalAddress, Platform, QueueNumber, Step, WakeWord, Word,
};
use waits::{Armed, WaitKey, Waits};

/// What the CMP knows of a queue, whether an engine runs it or not.
pub(crate) struct Entry {
    pub(crate) shape: Shape,
    /// `None` while an engine runs the queue.
    pub(crate) run: Option<Box<Run>>,
    pub(crate) place: Place,
    pub(crate) suspended: bool,
    /// To be suspended as soon as its engine may leave it.
    pub(crate) suspending: bool,
    pub(crate) faulted: bool,
    /// Mailbox commands that wait for the queue to leave its engine.
    pub(crate) holds: u32,
    /// Kicked while an engine ran it: its write pointer is to be read anew.
    pub(crate) kicked: bool,
    pub(crate) waiting: Option<WaitKey>,
    /// Whether it stands on its node's list.
    pub(crate) listed: bool,
    pub(crate) seat: Option<Seat>,
    /// When it was connected or rung last, as counted by `Cmp::rings`.
    pub(crate) last_ring: u64,
    /// Slots taken, as of the last turn.
    pub(crate) taken: u64,
}

/// What the CMP knows of an engine: a node of a physical GPU.
#[derive(Default)]
pub(crate) struct Node {
    pub(crate) list: RunList,
    /// Counts turns; odd while the engine is in one.
    pub(crate) turns: u64,
    /// The engine must look at everything anew, whatever it is busy with.
    pub(crate) recall: bool,
    /// Grows with the number of summaries.
    pub(crate) summaries: u64,
    /// It has no power: its list is not served.
    pub(crate) unpowered: bool,
    /// The queue that the engine took last, unless it is done with it.
    pub(crate) current: Option<QueueId>,
    /// The queue in whose command the engine hangs: it takes no other.
    pub(crate) hung: Option<QueueId>,
    /// The request for its ring that is not answered yet.
    pub(crate) preemption: Option<u32>,
    /// Since when that is; for counting.
    pub(crate) ring_asked: Option<CpuTime>,
    /// A queue goes before the one that runs, and the engine has not left that one yet; for
    /// counting.
    pub(crate) asked: Option<Asked>,
    /// Counts packets, commands and parts of them.
    pub(crate) progress: u64,
    /// The timed work that keeps the engine, with the state of the run list when it began to rest.
    pub(crate) resting: Option<Resting>,
    /// How long the engine may be idle before it says so, in nanoseconds; 0 for ever.
    pub(crate) report_idle_ns: u64,
    /// What the attention word says.
    published: u64,
}

/// An engine that rests in timed work.
#[derive(Clone, Copy)]
pub(crate) struct Resting {
    pub(crate) queue: QueueId,
    /// Whether another band waited for its share.
    pub(crate) contended: bool,
    /// When the queue was to give way.
    pub(crate) gives_way_at: Option<CpuTime>,
}

impl Resting {
    /// Whether the run list still has the state in which the engine began to rest.
    fn stands(&self, list: &RunList) -> bool {
        list.next() == Some(self.queue)
            && list.is_contended() == self.contended
            && list.gives_way_at() == self.gives_way_at
    }
}

impl Node {
    /// What its run list asks for.
    // spec: PRE-003
    fn asks(&self) -> u64 {
        match self.resting {
            _ if self.list.is_empty() || self.list.waits_for_kept() => 0,
            // In a turn: somebody comes before the queue that the engine has.
            _ if !self.turns.is_multiple_of(2) && self.list.is_outranked() => OTHERS,
            Some(resting) if !resting.stands(&self.list) => OTHERS,
            _ => 1,
        }
    }
}

/// A root table and how often its translations were declared stale.
#[derive(Clone, Copy, Default)]
struct SpaceEntry {
    root: PhysicalAddress,
    generation: u32,
}

/// The state under the `cmp` lock.
pub(crate) struct Cmp {
    queues: Vec<Option<Box<Entry>>>,
    pub(crate) nodes: Vec<Node>,
    /// Each physical GPU has its own.
    spaces: BTreeMap<(AddressSpaceId, u32), SpaceEntry>,
    /// Counts generations given out; engines compare it to learn of any change.
    pub(crate) invalidations: u32,
    pub(crate) waits: Waits,
    pub(crate) signaled: SignaledList,
    pub(crate) faults: FaultList,
    /// Fences whose MonitoredValue has a shadow.
    pub(crate) shadows: KeptFences,
    /// Queues that could not be suspended at once and are now.
    pub(crate) suspended_late: VecDeque<QueueId>,
    /// Causes that the CMP leaves to the next engine to raise.
    pub(crate) causes_due: u64,
    pub(crate) doorbells: Doorbells,
    /// Connects and rings so far: what tells which doorbell was used least recently.
    rings: u64,
    pub(crate) stats: Stats,
    pub(crate) overlap: Overlap,
    /// The device has no power.
    pub(crate) asleep: bool,
    /// Mailbox commands that sleep until a turn ends.
    pub(crate) turn_watchers: u32,
    /// Holds: while there are any, no engine takes a queue.
    pub(crate) holds: u32,
    /// What time it is, for the run lists.
    platform: Platform,
}

impl Cmp {
    fn new(platform: &Platform, config: &Config) -> Cmp {
        let named = |engine| crate::stats::NodeStats {
            name: config.engine_name(engine),
            ..Default::default()
        };
        Cmp {
            queues: Vec::new(),
            nodes: (0..config.engines()).map(|_| Node::default()).collect(),
            spaces: BTreeMap::new(),
            invalidations: 0,
            waits: Waits::default(),
            signaled: SignaledList::new(config.signaled_list_entries),
            faults: FaultList::default(),
            shadows: KeptFences::default(),
            suspended_late: VecDeque::new(),
            causes_due: 0,
            doorbells: Doorbells::default(),
            rings: 0,
            stats: Stats { nodes: (0..config.engines()).map(named).collect(), ..Stats::default() },
            overlap: Overlap::default(),
            asleep: false,
            turn_watchers: 0,
            holds: 0,
            platform: platform.clone(),
        }
    }

    pub(crate) fn queue(&mut self, queue: QueueId) -> Option<&mut Entry> {
        self.queues.get_mut(queue.0 as usize)?.as_deref_mut()
    }

    /// `queue` was rung, or told of in another way.
    pub(crate) fn note_ring(&mut self, queue: QueueId) {
        self.rings += 1;
        let now = self.rings;
        if let Some(entry) = self.queue(queue) {
            entry.last_ring = now;
        }
    }

    /// The waits that hold queues back now.
    pub(crate) fn parked_waits(&self) -> Vec<ParkedWait> {
        let parked = self
            .queues
            .iter()
            .flatten()
            .filter_map(|entry| Some((entry.shape.number, entry.waiting?)));
        parked
            .map(|(queue, key)| ParkedWait {
                queue,
                current_value: key.cell,
                value: key.wait.value,
            })
            .collect()
    }

    /// The queues that waits hold back now, and since when.
    pub(crate) fn held_back(&self) -> impl Iterator<Item = (QueueNumber, GpuTime)> {
        let parked = self.queues.iter().flatten().filter(|entry| entry.waiting.is_some());
        parked.filter_map(|entry| match &entry.run.as_ref()?.packet {
            Some(Packet::Wait(wait)) => Some((entry.shape.number, wait.observed)),
            _ => None,
        })
    }

    /// Whether an engine may take a queue.
    pub(crate) fn serves(&self, engine: usize) -> bool {
        !self.asleep && !self.nodes[engine].unpowered && self.nodes[engine].hung.is_none()
    }

    /// Whether a queue of one of `engines` has work or waits. A suspended queue counts where
    /// `suspended` says so.
    fn has_work(&self, engines: std::ops::Range<usize>, suspended: bool) -> bool {
        let entries =
            self.queues.iter().flatten().filter(|e| engines.contains(&(e.shape.node as usize)));
        let counted = entries.filter(|e| !e.faulted && (suspended || !e.suspended));
        let works = |e: &Entry| {
            e.waiting.is_some() || e.kicked || e.run.as_ref().is_none_or(|r| r.has_work())
        };
        counted.into_iter().any(|e| works(e))
    }

    /// Whether the engine has nothing that it could do now or after a wait.
    pub(crate) fn is_idle(&self, engine: usize) -> bool {
        !self.has_work(engine..engine + 1, false)
    }

    /// The address space on a physical GPU, as of now; one without a table maps nothing.
    pub(crate) fn space(&self, id: AddressSpaceId, physical_gpu: u32) -> Space {
        let entry = self.spaces.get(&(id, physical_gpu)).copied().unwrap_or_default();
        Space::new(id, entry.generation, entry.root)
    }

    /// Declares translations of an address space stale, and gives it another root if there is one
    /// to give.
    fn renew_space(
        &mut self,
        (id, physical_gpu): (AddressSpaceId, u32),
        root: Option<PhysicalAddress>,
    ) {
        self.invalidations = self.invalidations.wrapping_add(1);
        let entry = self.spaces.entry((id, physical_gpu)).or_default();
        entry.generation = self.invalidations;
        entry.root = root.unwrap_or(entry.root);
    }

    /// The address space is gone from a physical GPU: its number maps nothing there. With the last
    /// of them its doorbells are others' to have.
    fn forget_space(&mut self, (id, physical_gpu): (AddressSpaceId, u32)) {
        self.spaces.remove(&(id, physical_gpu));
        if self.spaces.keys().all(|(other, _)| *other != id) {
            self.doorbells.forget_space(id);
        }
    }

    /// What there is of what comes and goes with processes.
    pub(crate) fn census(&self) -> crate::stats::Census {
        let queues = self.queues.iter().flatten();
        let (doorbell_groups, doorbells) = self.doorbells.in_use();
        crate::stats::Census {
            queues: queues.clone().count(),
            parked: queues.filter(|entry| entry.waiting.is_some()).count(),
            address_spaces: self.spaces.len(),
            doorbell_groups,
            doorbells,
        }
    }

    /// Takes the parked queues of an address space that are on `engines` out of the table of waits:
    /// each looks up its cell anew. Returns their engines.
    fn unpark(&mut self, armed: &Armed, id: AddressSpaceId, engines: &Range<usize>) -> Vec<u32> {
        if self.waits.is_empty() {
            return Vec::new();
        }
        let here =
            |shape: &Shape| shape.address_space == id && engines.contains(&(shape.node as usize));
        let parked = self.queues.iter_mut().flatten().filter(|e| here(&e.shape));
        let parked: Vec<_> =
            parked.filter_map(|e| Some((e.shape.id, e.shape.node, e.waiting.take()?))).collect();
        for (queue, _, key) in &parked {
            self.waits.leave(armed, *key, *queue);
            self.enlist(*queue, false);
        }
        parked.into_iter().map(|(_, node, _)| node).collect()
    }

    /// Puts a queue on its node's list if it can go on and is not there yet.
    pub(crate) fn enlist(&mut self, queue: QueueId, in_front: bool) {
        let Some(entry) = self.queues.get_mut(queue.0 as usize).and_then(|e| e.as_deref_mut())
        else {
            return;
        };
        let held_back =
            entry.suspended || entry.faulted || entry.holds > 0 || entry.waiting.is_some();
        let Some(run) = &entry.run else { return };
        if entry.listed || held_back || !run.has_work() {
            return;
        }
        entry.listed = true;
        let list = &mut self.nodes[entry.shape.node as usize].list;
        list.push(queue, entry.place, in_front, || self.platform.now());
    }

    /// Takes a queue off its node's list.
    pub(crate) fn delist(&mut self, queue: QueueId) {
        let Some(entry) = self.queues.get_mut(queue.0 as usize).and_then(|e| e.as_deref_mut())
        else {
            return;
        };
        if std::mem::take(&mut entry.listed) {
            self.nodes[entry.shape.node as usize].list.remove(queue);
        }
    }

    /// The wait of a parked queue is satisfied: it can go on.
    pub(crate) fn satisfy(&mut self, queue: QueueId) {
        if let Some(entry) = self.queue(queue) {
            entry.waiting = None;
            if let Some(run) = &mut entry.run {
                run.latch_wait();
            }
        }
        self.enlist(queue, false);
    }
}

/// What is outside the lock for each engine.
pub(crate) struct NodePort {
    /// What asks for the engine: 0 nothing, 1 its run list, [`OTHERS`] somebody for whom timed work
    /// gives way, or [`RECALL`].
    pub(crate) attention: Word,
    /// The last completed submission fence id.
    pub(crate) completed: Word,
    /// The last preemption that was answered, and what was complete then.
    pub(crate) preempted_fence: Word,
    pub(crate) preempted_completed: Word,
    /// Number of the service that the engine belongs to.
    pub(crate) service: usize,
}

/// Asks for an engine that rests: another queue than the one whose timed work keeps it.
pub(crate) const OTHERS: u64 = 2;

/// Asks for an engine that is busy with anything.
const RECALL: u64 = u64::MAX;

/// What engines, registers and services have in common.
pub(crate) struct Shared {
    pub(crate) platform: Platform,
    pub(crate) config: Config,
    pub(crate) bus: Arc<Bus>,
    pub(crate) clock: Clock,
    pub(crate) line: InterruptLine,
    pub(crate) cmp: Mutex<Cmp>,
    pub(crate) armed: Armed,
    pub(crate) nodes: Vec<NodePort>,
    /// By service number.
    pub(crate) wakes: Vec<WakeWord>,
    /// Counts turns whose end a mailbox command waits for.
    pub(crate) turn_ends: Word,
    /// The mailbox: its words, status and results. The driver lets one command at a time into it.
    pub(crate) mailbox: Bulk,
    /// Stores on their way to memory.
    pub(crate) posted: Posted,
    /// The CMP's copies of MonitoredValue.
    pub(crate) shadow: Shadow,
    /// The display, if there is one.
    pub(crate) display: Option<Display>,
    /// Other GPUs, once there are any.
    pub(crate) peers: OnceLock<Peers>,
}

/// Services to ring, one bit each.
#[derive(Clone, Copy, Default)]
pub(crate) struct Calls(u64);

impl Shared {
    pub(crate) fn new(platform: &Platform, bus: Bus, config: Config) -> Shared {
        let services = match platform.is_cooperative() {
            true => config.engines(),
            false => config.service_threads.clamp(1, config.engines()),
        };
        let port = |node: usize| {
            let page = platform.page(16);
            NodePort {
                attention: page.word(0).named_by(|| format!("the attention of engine {node}")),
                completed: page
                    .word(8)
                    .named_by(|| format!("the completed packet of engine {node}")),
                preempted_fence: page.word(9),
                preempted_completed: page.word(10),
                service: node % services,
            }
        };
        Shared {
            nodes: (0..config.engines()).map(port).collect(),
            wakes: (0..services).map(|_| WakeWord::new(platform)).collect(),
            cmp: platform.mutex("cmp", Cmp::new(platform, &config)),
            armed: Armed::new(platform),
            clock: Clock::new(platform),
            line: InterruptLine::new(platform),
            turn_ends: platform.page(1).word(0).named("the count of turns"),
            mailbox: platform.bulk(admin::MAILBOX_BYTES).named("the mailbox"),
            posted: Posted::new(platform, &config),
            shadow: Shadow::new(platform, config.shadow_entries),
            display: config.display.map(|display| Display::new(platform, display)),
            peers: OnceLock::new(),
            platform: platform.clone(),
            bus: Arc::new(bus),
            config,
        }
    }

    /// Publishes what asks for the engine of `node`; called under the lock after any change of it.
    pub(crate) fn publish(&self, cmp: &mut Cmp, node: u32) {
        let state = &mut cmp.nodes[node as usize];
        let held_back = cmp.holds > 0 || cmp.asleep || state.unpowered || state.hung.is_some();
        let level = match (held_back, state.recall) {
            (true, _) => 0,
            (false, true) => RECALL,
            (false, false) => state.asks(),
        };
        if std::mem::replace(&mut state.published, level) != level {
            self.nodes[node as usize].attention.store(level);
        }
    }

    /// Publishes, and notes the node's service among those to ring once the lock is dropped.
    fn call(&self, cmp: &mut Cmp, node: u32, calls: &mut Calls) {
        self.publish(cmp, node);
        calls.0 |= 1 << self.nodes[node as usize].service;
    }

    /// Rings the noted services.
    pub(crate) fn ring(&self, calls: Calls, step: Step) {
        let mut left = calls.0;
        while left != 0 {
            self.wakes[left.trailing_zeros() as usize].ring(step);
            left &= left - 1;
        }
    }

    /// An engine stores to a protocol word: a fence's cell keeps what it has been. A full barrier,
    /// which the look of [`Shared::stored`] rests on; hardware that posts the store has its barrier
    /// there.
    #[inline]
    pub(crate) fn store(&self, cell: &FenceCell, value: u64) {
        // What cannot be updated atomically is not updated: the upper half of such a word stays 0.
        let value = if self.config.atomics_64bit { value } else { u64::from(value as u32) };
        if self.posted.post_fence(cell, value) {
            return;
        }
        if self.platform.fault("no signal barrier") {
            cell.word().store(value);
        } else {
            cell.store(value);
        }
    }

    /// The engine of `node` stored to the cell at `at`: what it has posted goes out, then a look at
    /// who waits for the cell.
    #[inline]
    // spec: NF-151
    pub(crate) fn stored(&self, at: PhysicalAddress, node: usize) {
        if !(self.config.posted_fence_writes && self.platform.fault("no signal barrier")) {
            self.posted.flush();
        }
        if self.armed.may_hold(at) {
            self.unblock(Some(at), Some(node));
        }
    }

    /// Puts the queues whose waits for the cell at `at`, or for any, are satisfied back on their
    /// run lists. Their waits are latched: a value that falls again does not undo it. `by` is the
    /// node whose engine calls, if one does: its service is awake.
    // spec: NF-005
    pub(crate) fn unblock(&self, at: Option<PhysicalAddress>, by: Option<usize>) {
        let mut calls = Calls::default();
        let mut cmp = self.cmp.lock();
        while let Some(queue) = cmp.waits.take(&self.armed, at) {
            cmp.satisfy(queue);
            if let Some(node) = cmp.queue(queue).map(|e| e.shape.node) {
                self.call(&mut cmp, node, &mut calls);
            }
        }
        drop(cmp);
        if let Some(node) = by {
            calls.0 &= !(1 << self.nodes[node].service);
        }
        self.ring(calls, Step::GpuWaitUnblock);
    }
}
