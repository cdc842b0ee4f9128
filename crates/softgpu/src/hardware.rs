//! What engines, registers and the mailbox share: the state of the CMP under its lock, the words
//! that are read without it, and the steps that take the lock and then wake engines.
//!
//! The order that matters when a queue becomes able to go on: 1. under the lock, put it on its
//! engine's run list and publish the attention level; 2. drop the lock; 3. ring the service's wake
//! word (a full barrier). An engine that parks announces its sleep first and reads its attention
//! word once more after.

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
use tidegate_gpu_abi::peer::{ANY_FENCE, CommonDoorbell};
use tidegate_gpu_abi::regs::MAILBOX_WORDS;
use tidegate_gpu_abi::{AdminError, QueueId};
use tidegate_platform::{
    Bulk, Mutex, MutexGuard, PhysicalAddress, Platform, Step, WaitEnd, WakeWord, Word,
};

/// What is outside the lock for each engine.
pub(crate) struct NodePort {
    /// The level at which the engine is called (see `cmp::node`).
    pub(crate) attention: Word,
    /// The last completed submission fence id.
    pub(crate) completed: Word,
    /// The last preemption that was answered, and what was complete then.
    pub(crate) preempted_fence: Word,
    pub(crate) preempted_completed: Word,
    /// Number of the service that the engine belongs to.
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
    /// By service number.
    pub(crate) wakes: Vec<WakeWord>,
    /// Counts turns whose end a mailbox command waits for.
    pub(crate) turn_ends: Word,
    /// The mailbox: its words, status and two results. The driver lets one command at a time in.
    pub(crate) mailbox: Bulk,
    /// Stores on their way to memory.
    pub(crate) posted: PostedStores,
    /// The CMP's copies of MonitoredValue.
    pub(crate) shadow: Shadow,
    pub(crate) display: Option<Arc<Display>>,
    /// Other GPUs, once there are any.
    pub(crate) peers: OnceLock<Peers>,
}

/// Services to wake, one bit each.
#[derive(Clone, Copy, Default)]
struct Wakes(u64);

impl Hardware {
    pub(crate) fn new(platform: &Platform, bus: Bus, config: Config) -> Hardware {
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
            shadow: Shadow::new(platform, config.shadow_entries),
            display: config.display.map(|display| Arc::new(Display::new(platform, display))),
            peers: OnceLock::new(),
            platform: platform.clone(),
            bus: Arc::new(bus),
            config,
        }
    }

    /// Publishes the attention level of an engine; called under the lock after any change of it.
    pub(crate) fn publish(&self, cmp: &mut Cmp, engine: u32) {
        if let Some(level) = cmp.changed_attention(engine as usize) {
            self.nodes[engine as usize].attention.store(level);
        }
    }

    /// Publishes, and notes the engine's service among those to wake once the lock is dropped.
    fn call(&self, cmp: &mut Cmp, engine: u32, wakes: &mut Wakes) {
        self.publish(cmp, engine);
        wakes.0 |= 1 << self.nodes[engine as usize].service;
    }

    /// Drops the lock, then wakes the noted services.
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

    /// Stores to a protocol word for an engine; a fence's cell keeps its history. A full barrier,
    /// which [`Hardware::stored`] relies on; hardware that posts the store has its barrier there.
    #[inline]
    pub(crate) fn store(&self, cell: &FenceCell, value: u64) {
        // Without 64-bit atomics the upper half of such a word stays 0.
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

    /// After an engine's store to the cell at `at`: flushes what is posted, then unblocks the queues
    /// that wait for the cell.
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
    /// engine that calls, if one does: its service is awake.
    // spec: NF-005
    pub(crate) fn unblock(&self, at: Option<PhysicalAddress>, by: Option<usize>) {
        let mut wakes = Wakes::default();
        let mut cmp = self.cmp.lock();
        while let Some(queue) = cmp.waits.take(&self.armed, at) {
            cmp.satisfy(queue);
            if let Some(engine) = cmp.queue(queue).map(|e| e.shape.engine) {
                self.call(&mut cmp, engine, &mut wakes);
            }
        }
        if let Some(engine) = by {
            wakes.0 &= !(1 << self.nodes[engine].service);
        }
        self.wake(cmp, wakes, Step::GpuWaitUnblock);
    }

    /// Unblocks every queue whose wait is satisfied, after a change that no signal notified of.
    pub(crate) fn rescan_waits(&self) {
        self.platform.fence();
        self.unblock(None, None);
    }

    /// Another GPU wrote that this fence, or some fence, was signalled. Returns whether to
    /// interrupt.
    pub(crate) fn receive_signal(&self, payload: u64) -> bool {
        if payload == 0 {
            return false;
        }
        let at = (payload != ANY_FENCE).then_some(PhysicalAddress(payload));
        self.unblock(at, None);
        self.peers.get().is_some_and(|peers| peers.take_due(at))
    }

    /// The time on the timeline; 0 without a timeline.
    pub(crate) fn timeline_ns(&self) -> u64 {
        if self.platform.tracing() { self.platform.stamp_ns() } else { 0 }
    }

    /// Sleeps, with the lock dropped, until `done` holds at the end of some turn. Gives up when the
    /// machine stops.
    pub(crate) fn await_turns<'a>(
        &'a self,
        mut cmp: MutexGuard<'a, Cmp>,
        mut done: impl FnMut(&mut Cmp) -> bool,
    ) -> MutexGuard<'a, Cmp> {
        cmp.turn_watchers += 1;
        while !done(&mut cmp) {
            let seen = self.turn_ends.load();
            drop(cmp);
            let end = self.turn_ends.wait_while(seen as u32, None, "the end of an engine's turn");
            cmp = self.cmp.lock();
            if end == WaitEnd::Stopped {
                break;
            }
        }
        cmp.turn_watchers -= 1;
        cmp
    }

    /// The lock, on a device that has power.
    pub(crate) fn awake(&self) -> Result<MutexGuard<'_, Cmp>, AdminError> {
        let cmp = self.cmp.lock();
        if cmp.asleep { Err(AdminError::Asleep) } else { Ok(cmp) }
    }

    /// The lock, on a device that has power and has this engine, with its index.
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

    /// Enlists a queue if it can go on, and calls its engine.
    pub(crate) fn release_queue(&self, mut cmp: MutexGuard<'_, Cmp>, queue: QueueId) {
        cmp.enlist(queue, false);
        let engine = cmp.queue(queue).filter(|e| e.listed).map(|e| e.shape.engine);
        self.wake_engines(cmp, engine, Step::DoorbellToFetch);
    }

    /// The common doorbell, which engine 0 reads like the doorbells of its queues.
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

    /// Has an engine read all of its state anew: what it is busy with may be gone.
    pub(crate) fn recall(&self, cmp: MutexGuard<'_, Cmp>, engine: u32) {
        self.recall_each(cmp, engine..engine + 1);
    }

    /// The same for every engine.
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
