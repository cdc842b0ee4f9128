//! The state shared by engines, registers and the mailbox: the CMP under its lock, the words that
//! are read without it, and the operations that take the lock and then wake engines.
//!
//! Order when a queue becomes ready: 1. under the lock, put it on its engine's run list and publish
//! the attention level; 2. drop the lock; 3. ring the service's wake word (a full barrier). An
//! engine that parks announces its sleep first and reads its attention word again afterwards.

use crate::bus::Bus;
use crate::clock::Clock;
use crate::cmp::Cmp;
use crate::cmp::peers::Peers;
use crate::cmp::shadow::Shadow;
use crate::cmp::waits::Armed;
use crate::config::Config;
use crate::display::Display;
use crate::interrupt::InterruptLine;
use crate::posted_stores::PostedStores;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use tidegate_d3dukmdt::FenceCell;
use tidegate_d3dukmdt::fence_cell::Verdict;
use tidegate_gpu_abi::device::END_OF_TURN;
use tidegate_gpu_abi::peer::{ANY_FENCE, CommonDoorbell};
use tidegate_gpu_abi::regs::MAILBOX_WORDS;
use tidegate_gpu_abi::{AdminError, QueueId};
use tidegate_platform::{
    Bulk, Mutex, MutexGuard, PhysicalAddress, Platform, Step, WaitEnd, WakeWord, Word, current,
};
use tidegate_platform::{PlantedFault, planted};

/// The per-engine state outside the lock.
pub(crate) struct NodePort {
    /// The engine's attention level (see `cmp::node`).
    pub(crate) attention: Word,
    /// The last completed submission fence id.
    pub(crate) completed: Word,
    /// The last answered preemption, and the last completed id at that time.
    pub(crate) preempted_fence: Word,
    pub(crate) preempted_completed: Word,
    /// The number of the engine's service.
    pub(crate) service: usize,
}

pub(crate) struct Hardware {
    pub(crate) platform: Platform,
    pub(crate) config: Config,
    pub(crate) bus: Arc<Bus>,
    pub(crate) clock: Clock,
    pub(crate) line: Arc<InterruptLine>,
    pub(crate) cmp: Mutex<Cmp>,
    pub(crate) armed: Armed,
    pub(crate) nodes: Vec<NodePort>,
    /// The wake words, by service number.
    pub(crate) wakes: Vec<WakeWord>,
    /// Counts turns whose end a mailbox command waits for.
    pub(crate) turn_ends: Word,
    /// The mailbox: words, status and two results. The driver serialises the writes to it.
    pub(crate) mailbox: Bulk,
    /// Stores that are not yet in memory.
    pub(crate) posted: PostedStores,
    /// Whether it stores a fence value at once and with all its bits.
    stores_directly: bool,
    /// The CMP's copies of MonitoredValue.
    pub(crate) shadow: Shadow,
    pub(crate) display: Option<Arc<Display>>,
    /// The links to other GPUs, once there are any.
    pub(crate) peers: OnceLock<Peers>,
}

/// A bitmap of services to wake.
#[derive(Clone, Copy, Default)]
struct Wakes(u64);

impl Hardware {
    pub(crate) fn new(platform: &Platform, bus: Bus, config: Config) -> Hardware {
        // The modelled times of engines on one agent would add up.
        let services = match platform.models_time() {
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
        Hardware {
            nodes: (0..config.engines()).map(port).collect(),
            wakes: (0..services).map(|_| WakeWord::new(platform)).collect(),
            cmp: platform.mutex("cmp", Cmp::new(platform, &config)),
            armed: Armed::new(platform),
            clock: Clock::new(platform),
            line: Arc::new(InterruptLine::new(platform)),
            turn_ends: platform.page(1).word(0).named("the count of turns"),
            mailbox: platform.bulk((MAILBOX_WORDS as usize + 3) * 8).named("the mailbox"),
            posted: PostedStores::new(platform, &config),
            stores_directly: config.atomics_64bit && !config.posted_fence_writes,
            shadow: Shadow::new(platform, config.shadow_entries),
            display: config.display.map(|display| Arc::new(Display::new(platform, display))),
            peers: OnceLock::new(),
            platform: platform.clone(),
            bus: Arc::new(bus),
            config,
        }
    }

    /// Publishes the attention level of an engine. Called under the lock after any change of it.
    pub(crate) fn publish(&self, cmp: &mut Cmp, engine: u32) {
        if let Some(level) = cmp.changed_attention(engine as usize) {
            self.nodes[engine as usize].attention.store(level);
        }
    }

    /// Publishes the level, and adds the engine's service to those to wake after the lock
    /// is dropped.
    fn call(&self, cmp: &mut Cmp, engine: u32, wakes: &mut Wakes) {
        self.publish(cmp, engine);
        wakes.0 |= 1 << self.nodes[engine as usize].service;
    }

    /// Drops the lock, then wakes the services.
    fn wake(&self, cmp: MutexGuard<'_, Cmp>, wakes: Wakes, step: Step) {
        drop(cmp);
        let mut left = wakes.0;
        while left != 0 {
            self.wakes[left.trailing_zeros() as usize].ring(step);
            left &= left - 1;
        }
    }

    /// Publishes the attention of these engines, drops the lock and wakes their services.
    pub(crate) fn wake_engines(
        &self,
        mut cmp: MutexGuard<'_, Cmp>,
        engines: impl IntoIterator<Item = u32>,
        step: Step,
    ) {
        let mut wakes = Wakes::default();
        engines.into_iter().for_each(|engine| self.call(&mut cmp, engine, &mut wakes));
        self.wake(cmp, wakes, step);
    }

    /// Stores to a protocol word for an engine, with the history of a fence's cell. A full barrier,
    /// on which [`Hardware::stored`] relies; if the store is posted, the barrier is there instead.
    #[inline(always)]
    pub(crate) fn store(&self, cell: &FenceCell, value: u64) {
        if self.stores_directly && !self.platform.instruments().has_fault() {
            cell.store(value);
        } else {
            self.store_of_variant(cell, value);
        }
    }

    #[cold]
    fn store_of_variant(&self, cell: &FenceCell, value: u64) {
        // Without 64-bit atomics the upper half of such a word is always 0.
        let value = if self.config.atomics_64bit { value } else { u64::from(value as u32) };
        if self.posted.post_fence(cell, value) {
            return;
        }
        if planted!(self.platform, NoSignalBarrier) {
            cell.word().store(value);
        } else {
            cell.store(value);
        }
    }

    /// Flushes posted stores after an engine's store to the cell at `at`, then unblocks the queues
    /// that wait for the cell.
    #[inline]
    // spec: NF-151
    pub(crate) fn stored(&self, at: PhysicalAddress, node: usize) {
        if self.posted.is_used() {
            self.flush_posted();
        }
        if self.armed.may_hold(at) {
            self.unblock(Some(at), Some(node));
        }
    }

    #[cold]
    fn flush_posted(&self) {
        if !(self.config.posted_fence_writes && planted!(self.platform, NoSignalBarrier)) {
            self.posted.flush();
        }
    }

    /// Puts the queues whose waits for the cell at `at`, or for any cell, are judged on their run
    /// lists. Satisfied waits are latched: a lower value later does not undo this. `by` is the
    /// calling engine, if any, whose service is awake.
    // spec: NF-005
    #[cold]
    pub(crate) fn unblock(&self, at: Option<PhysicalAddress>, by: Option<usize>) {
        let mut wakes = Wakes::default();
        let mut cmp = self.cmp.lock();
        while let Some((queue, verdict)) = cmp.waits.take(&self.armed, at) {
            if self.misses_loss(verdict, PlantedFault::LossLeavesTheQueueParked) {
                continue;
            }
            cmp.end_parking(queue, verdict);
            if let Some(engine) = cmp.queue(queue).map(|e| e.shape.engine) {
                self.call(&mut cmp, engine, &mut wakes);
            }
        }
        if let Some(engine) = by {
            wakes.0 &= !(1 << self.nodes[engine].service);
        }
        self.wake(cmp, wakes, Step::GpuWaitUnblock);
    }

    /// Returns whether a planted fault keeps a queue parked whose wait is lost.
    #[inline]
    pub(crate) fn misses_loss(&self, verdict: Verdict, fault: PlantedFault) -> bool {
        let is_planted = |fault| self.platform.has_planted(fault);
        verdict == Verdict::Lost
            && (is_planted(fault) || is_planted(PlantedFault::LostWaitsAreParked))
    }

    /// Unblocks every queue whose wait is satisfied, after a change without a signal.
    pub(crate) fn rescan_waits(&self) {
        self.platform.fence();
        self.unblock(None, None);
    }

    /// Handles another GPU's signal of one fence or of any fence. Returns whether to interrupt.
    pub(crate) fn receive_signal(&self, payload: u64) -> bool {
        if payload == 0 {
            return false;
        }
        let at = (payload != ANY_FENCE).then_some(PhysicalAddress(payload));
        self.unblock(at, None);
        self.peers.get().is_some_and(|peers| peers.take_due(at))
    }

    /// Returns the time on the timeline; 0 without a timeline.
    #[inline]
    pub(crate) fn timeline_ns(&self) -> u64 {
        if self.platform.tracing() { self.platform.stamp_ns() } else { 0 }
    }

    /// Sleeps, without the lock, until every turn has ended that an engine was in, or until the
    /// machine stops. Then takes the lock.
    pub(crate) fn await_ends_of_turns(&self) -> MutexGuard<'_, Cmp> {
        current::assert_no_guards("a wait for the end of a turn");
        self.platform.may_wait_for(&END_OF_TURN);
        let mut cmp = self.cmp.lock();
        let turns: Vec<u64> = cmp.nodes.iter().map(|node| node.turns).collect();
        while !cmp.nodes.iter().zip(&turns).all(|(node, turn)| node.has_ended(*turn)) {
            self.request_queues(&mut cmp, 0..self.nodes.len() as u32);
            cmp.turn_is_awaited = true;
            let seen = self.turn_ends.load();
            drop(cmp);
            let end = self.turn_ends.wait_while(seen as u32, None, &END_OF_TURN);
            cmp = self.cmp.lock();
            if end == WaitEnd::Stopped {
                break;
            }
        }
        cmp
    }

    /// Has engines that are in a turn return their queues at its end. They are awake.
    pub(crate) fn request_queues(&self, cmp: &mut Cmp, engines: Range<u32>) {
        for engine in engines {
            let node = &mut cmp.nodes[engine as usize];
            node.queue_requested = node.is_in_turn();
            self.publish(cmp, engine);
        }
    }

    /// Takes the lock.
    ///
    /// # Errors
    ///
    /// The device has no power.
    pub(crate) fn awake(&self) -> Result<MutexGuard<'_, Cmp>, AdminError> {
        let cmp = self.cmp.lock();
        if cmp.asleep { Err(AdminError::Asleep) } else { Ok(cmp) }
    }

    /// Takes the lock, and returns it with the engine's index.
    ///
    /// # Errors
    ///
    /// The device has no power, or no such engine.
    pub(crate) fn awake_engine(
        &self,
        engine: u32,
    ) -> Result<(MutexGuard<'_, Cmp>, usize), AdminError> {
        let index = engine as usize;
        if index >= self.nodes.len() {
            return Err(AdminError::NoSuchEngine);
        }
        Ok((self.awake()?, index))
    }

    /// Enlists a queue if it is ready, and calls its engine.
    pub(crate) fn release_queue(&self, mut cmp: MutexGuard<'_, Cmp>, queue: QueueId) {
        cmp.enlist(queue, false);
        let engine = cmp.queue(queue).filter(|e| e.listed).map(|e| e.shape.engine);
        self.wake_engines(cmp, engine, Step::DoorbellToFetch);
    }

    /// Returns the common doorbell, which engine 0 reads like the doorbells of its queues.
    pub(crate) fn common_doorbell(&self) -> CommonDoorbell {
        let mut cmp = self.cmp.lock();
        if let Some(doorbell) = cmp.doorbells.common() {
            return doorbell.clone();
        }
        let wake = self.wakes[self.nodes[0].service].clone();
        let doorbell = CommonDoorbell::new(&self.platform, wake, self.armed.page().clone());
        cmp.doorbells.add_common(&doorbell);
        cmp.nodes[0].summaries += 1;
        self.recall(cmp, 0);
        doorbell
    }

    /// Has the engine of a queue look at the page of its doorbell.
    pub(crate) fn poll_doorbell(&self, queue: QueueId) {
        let mut cmp = self.cmp.lock();
        let Some((entry, doorbells)) = cmp.queue_and_doorbells(queue) else { return };
        let Some(seat) = &entry.seat else { return };
        let node = entry.shape.engine;
        if doorbells.poll(seat) {
            cmp.nodes[node as usize].summaries += 1;
            self.recall(cmp, node);
        }
    }

    /// Makes an engine reload all of its state, because its current work may have been removed.
    pub(crate) fn recall(&self, cmp: MutexGuard<'_, Cmp>, engine: u32) {
        self.recall_each(cmp, engine..engine + 1);
    }

    /// Recalls every engine.
    pub(crate) fn recall_all(&self, cmp: MutexGuard<'_, Cmp>) {
        self.recall_each(cmp, 0..self.nodes.len() as u32);
    }

    fn recall_each(&self, mut cmp: MutexGuard<'_, Cmp>, engines: Range<u32>) {
        cmp.nodes[engines.start as usize..engines.end as usize]
            .iter_mut()
            .for_each(|node| node.recall = true);
        self.wake_engines(cmp, engines, Step::DoorbellToFetch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_platform::{PhysicalMemory, StepCosts};

    #[test]
    fn a_wait_for_a_turn_that_never_ends_ends_with_the_machine() {
        let platform = Platform::virtual_time(StepCosts::free());
        let (config, system) =
            (Config::default(), PhysicalMemory::new(&platform, PhysicalAddress(0x1000)));
        let bus = Bus::new(&platform, system, &config);
        let hardware = Arc::new(Hardware::new(&platform, bus, config));
        hardware.cmp.lock().nodes[0].turns = 1;
        let waits = hardware.clone();
        let report = platform.run(move || drop(waits.await_ends_of_turns()));
        assert_eq!(report.blocked.len(), 1, "{report:?}");
        let cmp = hardware.cmp.lock();
        assert!(cmp.turn_is_awaited && cmp.nodes[0].queue_requested);
    }
}
