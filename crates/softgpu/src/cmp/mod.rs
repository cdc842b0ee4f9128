//! The state of the context management processor (CMP), under the `cmp` lock: the queues, their run
//! state, and their waits. A queue's [`Run`] is here while no engine runs the queue.
//!
//! Rooms: `queues` (their table) · `posted` (pending commands) · `node` (an engine) · `waits`
//! (parked queues) · `reports` (lists for the interrupt routine) · `shadow` (copies of
//! MonitoredValue) · `peers` (other GPUs).
//! [`crate::hardware`] takes the lock and wakes engines.

pub(crate) mod node;
pub(crate) mod peers;
pub(crate) mod posted;
mod queues;
pub(crate) mod reports;
pub(crate) mod shadow;
pub(crate) mod waits;

use crate::config::{Config, NodeConfig};
use crate::doorbell::{Doorbells, Seat};
use crate::granularity::may_switch;
use crate::log::LogBuffer;
use crate::mmu::Space;
use crate::posted_stores::PostedStores;
use crate::queue::{Packet, Run, Shape};
use crate::runlist::Place;
use crate::stats::{Census, NodeStats, Overlap, ParkedWait, Stats};
use node::Node;
use posted::{Posted, Until};
use queues::Queues;
use reports::{FaultList, SignaledList};
use shadow::ShadowedFences;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use tidegate_d3dukmdt::fence_cell::Verdict;
use tidegate_gpu_abi::log::LogType;
use tidegate_gpu_abi::{AddressSpaceId, AdminError, GpuTime, QueueId, QueueKind};
use tidegate_platform::planted;
use tidegate_platform::{PhysicalAddress, Platform, QueueNumber};
use waits::{Armed, WaitKey, Waits};

/// The CMP's record of a queue, whether or not an engine runs it.
pub(crate) struct Entry {
    pub(crate) shape: Shape,
    /// `None` while an engine runs the queue.
    pub(crate) run: Option<Box<Run>>,
    pub(crate) place: Place,
    pub(crate) suspended: bool,
    /// The queue is suspended as soon as its engine may leave it.
    pub(crate) suspending: bool,
    pub(crate) faulted: bool,
    /// The number of mailbox commands that wait for the queue to leave its engine.
    pub(crate) holds: u32,
    /// The queue was kicked while an engine ran it, so its write pointer must be reloaded.
    pub(crate) kicked: bool,
    pub(crate) waiting: Option<WaitKey>,
    /// Whether the queue is on its node's run list.
    pub(crate) listed: bool,
    pub(crate) seat: Option<Seat>,
    /// The number of its last connect or ring, from `Cmp::rings`.
    pub(crate) last_ring: u64,
    /// Slots taken by the end of the last turn.
    pub(crate) taken: u64,
    /// Logs that were set while an engine ran the queue. `None` removes a log.
    pub(crate) new_logs: Vec<(LogType, Option<LogBuffer>)>,
}

impl Entry {
    pub(crate) fn new(shape: Shape, place: Place) -> Entry {
        Entry {
            shape,
            run: Some(Box::new(Run::new(shape))),
            place,
            suspended: false,
            suspending: false,
            faulted: false,
            holds: 0,
            kicked: false,
            waiting: None,
            listed: false,
            seat: None,
            last_ring: 0,
            taken: 0,
            new_logs: Vec::new(),
        }
    }

    /// Uses the new logs from now on. No engine runs the queue. The entries in the old logs that
    /// their indices count are then in memory.
    pub(crate) fn take_new_logs(&mut self, stores: &PostedStores) {
        let Some(run) = &mut self.run else { return };
        for (kind, log) in self.new_logs.drain(..) {
            match kind {
                LogType::Waits => run.state.wait_log = log,
                LogType::Signals => run.state.signal_log = log,
                LogType::Commands => run.state.command_log = log,
            }
        }
        stores.flush();
    }

    /// Returns whether the queue is in the middle of a command buffer, and at no wait of it.
    // spec: HS-024
    pub(crate) fn is_in_commands(&self) -> bool {
        let works =
            |run: &Run| matches!(&run.packet, Some(Packet::Execute(work)) if work.wait.is_none());
        self.run.as_ref().is_none_or(|run| works(run))
    }

    /// Returns the number of the command that was begun last in the current command buffer; `None`
    /// if there is none, or while an engine runs the queue.
    pub(crate) fn command_number(&self) -> Option<u32> {
        match &self.run.as_ref()?.packet {
            Some(Packet::Execute(work)) => Some(work.number),
            _ => None,
        }
    }
}

/// A root table and its generation, the number of times its translations were invalidated.
#[derive(Clone, Copy, Default)]
struct SpaceEntry {
    root: PhysicalAddress,
    generation: u32,
}

/// The state under the `cmp` lock.
pub(crate) struct Cmp {
    queues: Queues<Entry>,
    pub(crate) nodes: Vec<Node>,
    /// The address spaces of each physical GPU.
    spaces: BTreeMap<(AddressSpaceId, u32), SpaceEntry>,
    /// Counts generations. Engines compare it to detect any change.
    pub(crate) invalidations: u32,
    pub(crate) waits: Waits,
    pub(crate) signaled: SignaledList,
    pub(crate) faults: FaultList,
    /// Fences whose MonitoredValue has a shadow.
    pub(crate) shadows: ShadowedFences,
    /// Queues whose delayed suspension completed.
    pub(crate) suspended_late: VecDeque<QueueId>,
    /// Causes that the next engine raises for the CMP.
    pub(crate) causes_due: u64,
    pub(crate) doorbells: Doorbells,
    /// Counts connects and rings, which orders doorbells by last use.
    rings: u64,
    pub(crate) stats: Stats,
    pub(crate) overlap: Overlap,
    /// Whether the device has no power.
    pub(crate) asleep: bool,
    /// Whether an agent has begun to sleep until a turn ends, and none has ended since.
    pub(crate) turn_is_awaited: bool,
    /// The number of holds. While it is not 0, no engine takes a queue.
    pub(crate) holds: u32,
    /// Mailbox commands that wait for the end of a turn, by ticket.
    pub(crate) posted: BTreeMap<u64, Posted>,
    /// The last ticket given.
    pub(crate) last_ticket: u64,
    /// The clock of the run lists.
    platform: Platform,
}

impl Cmp {
    pub(crate) fn new(platform: &Platform, config: &Config) -> Cmp {
        let named = |engine| NodeStats { name: config.engine_name(engine), ..Default::default() };
        Cmp {
            queues: Queues::new(),
            nodes: (0..config.engines()).map(|_| Node::default()).collect(),
            spaces: BTreeMap::new(),
            invalidations: 0,
            waits: Waits::default(),
            signaled: SignaledList::new(config.signaled_list_entries),
            faults: FaultList::default(),
            shadows: ShadowedFences::new(),
            suspended_late: VecDeque::new(),
            causes_due: 0,
            doorbells: Doorbells::new(platform, config.one_global_doorbell),
            rings: 0,
            stats: Stats::new((0..config.engines()).map(named).collect()),
            overlap: Overlap::default(),
            asleep: false,
            turn_is_awaited: false,
            holds: 0,
            posted: BTreeMap::new(),
            last_ticket: 0,
            platform: platform.clone(),
        }
    }

    pub(crate) fn queue(&mut self, queue: QueueId) -> Option<&mut Entry> {
        self.queues.get_mut(queue)
    }

    /// Returns a queue and the doorbells of all queues.
    pub(crate) fn queue_and_doorbells(
        &mut self,
        queue: QueueId,
    ) -> Option<(&mut Entry, &mut Doorbells)> {
        let entry = self.queues.get_mut(queue)?;
        Some((entry, &mut self.doorbells))
    }

    fn entry(&self, queue: QueueId) -> Option<&Entry> {
        self.queues.get(queue)
    }

    /// Returns the number of the last connect or ring of the queue at a place.
    pub(crate) fn last_ring_at(&self, place: u32) -> u64 {
        self.queues.at(place).map_or(0, |entry| entry.last_ring)
    }

    /// Adds a queue. `entry` is called with its number.
    pub(crate) fn add_queue(
        &mut self,
        entry: impl FnOnce(QueueId) -> Entry,
    ) -> Result<QueueId, AdminError> {
        self.queues.add(entry)
    }

    /// Removes a queue permanently.
    pub(crate) fn remove_queue(&mut self, armed: &Armed, queue: QueueId) -> Option<Box<Entry>> {
        self.withdraw(armed, queue);
        let mut entry = self.queues.remove(queue)?;
        self.stats.note_end(entry.shape.number);
        if let Some(seat) = entry.seat.take() {
            self.doorbells.disconnect(&seat);
        }
        Some(entry)
    }

    /// Records that `queue` was connected, kicked or rung.
    pub(crate) fn note_ring(&mut self, queue: QueueId) {
        self.rings += 1;
        let now = self.rings;
        if let Some(entry) = self.queue(queue) {
            entry.last_ring = now;
        }
    }

    /// Returns the waits that currently block queues.
    pub(crate) fn parked_waits(&self) -> Vec<ParkedWait> {
        let parked = self.queues.iter();
        let parked = parked.filter_map(|entry| Some((entry.shape.number, entry.waiting?)));
        parked
            .map(|(queue, key)| ParkedWait {
                queue,
                current_value: key.cell,
                value: key.wait.value,
            })
            .collect()
    }

    /// Returns the queues that are blocked by waits, with the start of each wait.
    pub(crate) fn held_back(&self) -> impl Iterator<Item = (QueueNumber, GpuTime)> {
        let parked = self.queues.iter().filter(|entry| entry.waiting.is_some());
        parked.filter_map(|entry| {
            Some((entry.shape.number, entry.run.as_ref()?.pending_wait()?.observed))
        })
    }

    /// Waits for the turns that `engines` are in.
    pub(crate) fn turns_of(&self, engines: Range<usize>) -> Until {
        let in_turn = engines.filter(|engine| self.nodes[*engine].is_in_turn());
        Until::TurnEnds(in_turn.map(|engine| (engine, self.nodes[engine].turns)).collect())
    }

    pub(crate) fn is_met(&self, until: &Until) -> bool {
        match until {
            Until::TurnEnds(turns) => {
                turns.iter().all(|(engine, turn)| self.nodes[*engine].has_ended(*turn))
            }
            Until::Between(engines) => {
                !self.nodes[engines.clone()].iter().any(|node| node.is_in_turn())
            }
            Until::Returned(queue) => self.entry(*queue).is_none_or(|entry| entry.run.is_some()),
        }
    }

    /// Returns the engines whose turns a command waits for.
    pub(crate) fn awaited_engines(&self, until: &Until) -> Vec<u32> {
        match until {
            Until::TurnEnds(turns) => turns.iter().map(|(engine, _)| *engine as u32).collect(),
            Until::Between(engines) => engines.clone().map(|engine| engine as u32).collect(),
            Until::Returned(queue) => {
                self.entry(*queue).map(|entry| entry.shape.engine).into_iter().collect()
            }
        }
    }

    /// Holds the engines or the queue of a command, or ends that hold.
    pub(crate) fn hold(&mut self, until: &Until, holds: bool) {
        let count = |of: &mut u32| *of = if holds { *of + 1 } else { *of - 1 };
        match until {
            Until::TurnEnds(_) => {}
            Until::Between(engines) => {
                self.nodes[engines.clone()].iter_mut().for_each(|node| count(&mut node.holds));
            }
            Until::Returned(queue) => {
                if let Some(entry) = self.queue(*queue) {
                    count(&mut entry.holds);
                }
            }
        }
    }

    /// Returns whether an engine may take a queue.
    pub(crate) fn serves(&self, engine: usize) -> bool {
        let node = &self.nodes[engine];
        !self.asleep && !node.unpowered && node.holds == 0 && node.hung.is_none()
    }

    /// Returns the new attention level of an engine if it differs from the published one.
    pub(crate) fn changed_attention(&mut self, engine: usize) -> Option<u64> {
        let node = &mut self.nodes[engine];
        let level = node.attention(self.holds > 0 || self.asleep);
        (std::mem::replace(&mut node.published, level) != level).then_some(level)
    }

    /// Returns whether a queue of `engines` has work or waits. Work of a suspended queue counts:
    /// its resume restores no power (decision 149). A faulted queue never runs again.
    // spec: UMS-202
    pub(crate) fn has_work(&self, engines: Range<usize>) -> bool {
        // The fault is the mistake that the scenario resume-against-f1 must find.
        let blind = planted!(self.platform, SuspendedWorkUnseen);
        let entries = self.queues.iter().filter(|e| engines.contains(&(e.shape.engine as usize)));
        let counted = entries.filter(|e| !(e.faulted || blind && e.suspended));
        let works = |e: &Entry| {
            e.waiting.is_some() || e.kicked || e.run.as_ref().is_none_or(|r| r.has_work())
        };
        counted.into_iter().any(works)
    }

    /// Returns whether the engine has no work, now or after a wait.
    pub(crate) fn is_idle(&self, engine: usize) -> bool {
        !self.has_work(engine..engine + 1)
    }

    /// Returns the current address space on a physical GPU. Without a table it maps nothing.
    pub(crate) fn space(&self, id: AddressSpaceId, physical_gpu: u32) -> Space {
        let entry = self.spaces.get(&(id, physical_gpu)).copied().unwrap_or_default();
        Space::new(id, entry.generation, entry.root)
    }

    /// Invalidates the translations of an address space, and sets its root table if one is given.
    pub(crate) fn renew_space(
        &mut self,
        id: AddressSpaceId,
        physical_gpu: u32,
        root: Option<PhysicalAddress>,
    ) {
        self.invalidations = self.invalidations.wrapping_add(1);
        let entry = self.spaces.entry((id, physical_gpu)).or_default();
        entry.generation = self.invalidations;
        entry.root = root.unwrap_or(entry.root);
    }

    /// Removes the address space from a physical GPU, where its number then maps nothing. Removal
    /// from the last physical GPU makes its doorbell groups vacant. The GPU's `engines` drop the
    /// memory that they have mapped last, and the engines of the groups drop the summaries. Returns
    /// the engines to call. An address space that got another root table meanwhile stays.
    pub(crate) fn forget_space(
        &mut self,
        id: AddressSpaceId,
        physical_gpu: u32,
        engines: Range<usize>,
    ) -> Vec<u32> {
        let mut called: Vec<u32> = engines.map(|engine| engine as u32).collect();
        let has_root = |space: &SpaceEntry| space.root != PhysicalAddress(0);
        if self.spaces.get(&(id, physical_gpu)).is_some_and(has_root) {
            return called;
        }
        self.spaces.remove(&(id, physical_gpu));
        if self.spaces.keys().all(|(other, _)| *other != id) {
            for engine in self.doorbells.forget_space(id) {
                self.nodes[engine as usize].summaries += 1;
                called.push(engine);
            }
        }
        called.iter().for_each(|engine| self.nodes[*engine as usize].recall = true);
        called
    }

    /// Counts the objects that belong to processes.
    pub(crate) fn census(&self) -> Census {
        let queues = self.queues.iter();
        let (doorbell_groups, doorbells) = self.doorbells.in_use();
        Census {
            queues: queues.clone().count(),
            parked: queues.filter(|entry| entry.waiting.is_some()).count(),
            address_spaces: self.spaces.len(),
            doorbell_groups,
            doorbells,
        }
    }

    /// Removes the parked queues of an address space on `engines` from the table of waits, so that
    /// each translates its cell again. Returns their engines.
    pub(crate) fn unpark(
        &mut self,
        armed: &Armed,
        id: AddressSpaceId,
        engines: &Range<usize>,
    ) -> Vec<u32> {
        if self.waits.is_empty() {
            return Vec::new();
        }
        let here =
            |shape: &Shape| shape.address_space == id && engines.contains(&(shape.engine as usize));
        let parked = self.queues.iter().filter(|entry| here(&entry.shape));
        let parked: Vec<_> =
            parked.filter_map(|e| Some((e.shape.id, e.shape.engine, e.waiting?))).collect();
        for (queue, _, key) in &parked {
            if let Some(entry) = self.queue(*queue) {
                entry.waiting = None;
            }
            self.waits.leave(armed, *key, *queue);
            self.enlist(*queue, false);
        }
        parked.into_iter().map(|(_, node, _)| node).collect()
    }

    /// Puts a queue on its node's list if it is ready and not yet on it.
    pub(crate) fn enlist(&mut self, queue: QueueId, in_front: bool) {
        let Some(entry) = self.queues.get_mut(queue) else {
            return;
        };
        let held_back =
            entry.suspended || entry.faulted || entry.holds > 0 || entry.waiting.is_some();
        let Some(run) = &entry.run else { return };
        if entry.listed || held_back || !run.has_work() {
            return;
        }
        entry.listed = true;
        let list = &mut self.nodes[entry.shape.engine as usize].list;
        list.push(queue, entry.place, in_front, || self.platform.now());
    }

    /// Removes a queue from its node's list.
    pub(crate) fn delist(&mut self, queue: QueueId) {
        if let Some(entry) = self.queue(queue)
            && std::mem::take(&mut entry.listed)
        {
            let node = entry.shape.engine as usize;
            self.nodes[node].list.remove(queue);
        }
    }

    /// Makes a parked queue ready, because its wait is judged. A satisfied wait is latched. The
    /// engine judges another one again, and reports it.
    pub(crate) fn end_parking(&mut self, queue: QueueId, verdict: Verdict) {
        if let Some(entry) = self.queue(queue) {
            entry.waiting = None;
            if let Some(run) = entry.run.as_mut().filter(|_| verdict == Verdict::Satisfied) {
                run.latch_wait();
            }
        }
        self.enlist(queue, false);
    }

    /// Returns the ring of a node.
    pub(crate) fn ring_of(&self, engine: usize) -> Option<QueueId> {
        let shapes = self.queues.iter().map(|entry| entry.shape);
        let of_engine =
            |shape: &Shape| shape.kind == QueueKind::Node && shape.engine as usize == engine;
        shapes.into_iter().find(of_engine).map(|shape| shape.id)
    }

    /// Returns the ring of a node whose preemption is requested, if the engine can leave it now.
    pub(crate) fn ring_to_give_back(&self, engine: usize, node: &NodeConfig) -> Option<QueueId> {
        self.nodes[engine].preemption?;
        let ring = self.ring_of(engine)?;
        let entry = self.entry(ring)?;
        let run = entry.run.as_ref()?;
        (entry.faulted || may_switch(run, node)).then_some(ring)
    }

    /// Returns the queue that an engine may not leave yet.
    pub(crate) fn committed(&self, engine: usize, node: &NodeConfig) -> Option<QueueId> {
        let queue = self.nodes[engine].current?;
        let entry = self.entry(queue)?;
        let run = entry.run.as_ref()?;
        (!entry.suspended && !entry.faulted && !may_switch(run, node)).then_some(queue)
    }

    /// Returns whether an engine is in the middle of this queue and the queue is ready.
    pub(crate) fn is_amid(&self, engine: usize, queue: QueueId, node: &NodeConfig) -> bool {
        let wants = |entry: &Entry| entry.listed && !entry.suspended && !entry.faulted;
        self.entry(queue).is_some_and(|entry| wants(entry) && entry.is_in_commands())
            || self.committed(engine, node) == Some(queue)
    }

    /// Removes a queue from the run list and the table of waits.
    pub(crate) fn withdraw(&mut self, armed: &Armed, queue: QueueId) {
        self.delist(queue);
        if let Some(key) = self.queue(queue).and_then(|entry| entry.waiting.take()) {
            self.waits.leave(armed, key, queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doorbell::{Placement, SeatOwner, Sharing};
    use tidegate_platform::WakeWord;

    #[test]
    fn an_engine_drops_the_summary_of_an_address_space_that_ends() {
        let platform = Platform::host();
        let (mut cmp, wake) = (Cmp::new(&platform, &Config::default()), WakeWord::new(&platform));
        let (ended, other) = (AddressSpaceId(3), AddressSpaceId(4));
        for (place, space) in [(0, ended), (1, other)] {
            cmp.renew_space(space, 0, None);
            let queue = QueueId::new(place, 0);
            let owner = SeatOwner { queue, address_space: space, node: 1 };
            let placement =
                Placement { sharing: Sharing::Queue, secondary: false, in_system_memory: false };
            cmp.doorbells.connect(&platform, &wake, owner, placement);
        }
        let seen: Vec<_> = cmp.nodes.iter().map(|node| node.summaries).collect();
        assert!(cmp.forget_space(ended, 0, 0..2).contains(&1));
        assert_eq!((cmp.nodes[0].summaries, cmp.nodes[1].summaries), (seen[0], seen[1] + 1));
    }
}
