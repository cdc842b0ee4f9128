//! The reference model: admits the steps of a program one by one, and knows what memory holds at
//! the end.
//!
//! Invariants: a program whose steps are admitted in its reference order ends under every schedule.
//! Each wait that can block is for a value that earlier steps guarantee. Each fence is signalled in
//! rising values, or pulsed by one thread inside of single steps. No steady process depends on a
//! doomed one. Only the reference order of one thread is the order of a run, so a queue, a buffer
//! and a pulsed fence belong to a thread. Other threads add work to its queue, and nothing else.
//!
//! Entry points: [`Model::admit`], [`Model::words`].

mod fences;
mod state;
#[cfg(test)]
mod tests;

use state::Signaller;
pub(crate) use state::{BufferState, FenceState, LocalUse, QueueState, WaitState};

use crate::operation::{NewFence, NewQueue, Operation};
use crate::program::{Program, ProgramStep};
use crate::setup::AdapterSetup;
use crate::words::{
    AdapterId, Band, BufferId, Fate, FenceId, FenceKind, Model as Submission, ProcessId, QueueId,
    Sharing, Surface, ThreadId, WaitId,
};
use std::collections::{BTreeMap, BTreeSet};
use tidegate::d3d12::HardwareFences;
use tidegate::variants::Caps;

/// The queued steps that a ring at the call surface takes before the next drain.
const RAW_RING_STEPS: u32 = 40;
/// Resets and hangs of a program. Five of them within a minute stop an adapter (TdrLimitCount).
const RECOVERIES: u32 = 2;
/// Words of a page of a buffer.
pub(crate) const PAGE_WORDS: u64 = 1024;

/// The state after some steps.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub(crate) queues: BTreeMap<QueueId, QueueState>,
    pub(crate) fences: BTreeMap<FenceId, FenceState>,
    pub(crate) buffers: BTreeMap<BufferId, BufferState>,
    pub(crate) waits: BTreeMap<WaitId, WaitState>,
    killed: BTreeSet<ProcessId>,
    /// Processes whose D3DKMT device may be destroyed.
    pub(crate) destroyed: BTreeSet<ProcessId>,
    /// Adapters that are removed.
    pub(crate) removed: BTreeSet<AdapterId>,
    pub(crate) recoveries: u32,
    /// Rings that may lose a wait to a short history.
    pub(crate) may_fault: BTreeSet<QueueId>,
    local: BTreeMap<ThreadId, LocalUse>,
}

/// Why a step is not admitted.
pub type Refusal = &'static str;

/// A program with what its adapters can do, which the model asks for at each step.
pub struct Facts<'p> {
    /// The program.
    pub program: &'p Program,
    caps: Vec<Caps>,
    /// The local memory of each adapter.
    local_bytes: Vec<u64>,
    /// The values that the histories of fences have room for.
    history_rooms: Vec<usize>,
    /// By adapter: what carries out waits of its hardware queues at the queue API.
    hardware_fences: Vec<HardwareFences>,
}

impl<'p> Facts<'p> {
    /// Returns the facts of a program.
    pub fn of(program: &'p Program) -> Facts<'p> {
        let adapters = program.adapters.iter();
        let local_bytes = adapters.clone().map(|adapter| adapter.local_bytes()).collect();
        let history_rooms = adapters.clone().map(|adapter| adapter.history_room()).collect();
        let caps = adapters.clone().map(|adapter| adapter.caps()).collect();
        let hardware_fences = adapters.map(|adapter| adapter.hardware_fences()).collect();
        Facts { program, caps, local_bytes, history_rooms, hardware_fences }
    }

    /// Returns whether the pulses of a program can fill the history of a fence.
    pub(crate) fn has_short_history(&self) -> bool {
        self.history_rooms.iter().any(|room| *room <= state::MOST_SHORT)
    }

    /// Returns whether an engine judges the waits of a queue when it comes to them. The kernel
    /// latches the waits of others.
    pub(crate) fn waits_on_engine(&self, queue: &QueueState) -> bool {
        let adapter = usize::from(self.program.process(queue.process).adapter.0);
        match (queue.model, queue.surface) {
            (Submission::User, _) => true,
            (Submission::Hardware, Surface::Api) => {
                self.hardware_fences[adapter] == HardwareFences::Engine
            }
            _ => false,
        }
    }

    fn history_room(&self, process: ProcessId) -> usize {
        self.history_rooms[usize::from(self.program.process(process).adapter.0)]
    }

    pub(crate) fn caps(&self, process: ProcessId) -> &Caps {
        &self.caps[usize::from(self.program.process(process).adapter.0)]
    }

    /// Returns the kind of fences that the queue API makes.
    pub(crate) fn api_kind(&self, process: ProcessId) -> FenceKind {
        match self.caps(process).native_fences {
            true => FenceKind::Native,
            false => FenceKind::Monitored,
        }
    }

    /// Returns whether every process of the adapter of `process` may lose its device.
    fn is_doomed_adapter(&self, process: ProcessId) -> bool {
        let adapter = self.program.process(process).adapter;
        let mut users = self.program.processes.iter().filter(|p| p.adapter == adapter);
        users.all(|process| process.fate == Fate::Doomed)
    }
}

fn adapter_of<'f>(facts: &'f Facts<'_>, process: ProcessId) -> &'f AdapterSetup {
    &facts.program.adapters[usize::from(facts.program.process(process).adapter.0)]
}

fn has_display(facts: &Facts<'_>, process: ProcessId) -> Result<(), Refusal> {
    require(adapter_of(facts, process).has_display(), "the adapter has no display")
}

fn require(holds: bool, why: Refusal) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(why) }
}

impl Model {
    /// Admits one step after those before it.
    ///
    /// # Errors
    /// The step could block for ever, names an object that is not there, or is outside of what the
    /// adapter can do.
    pub fn admit(&mut self, facts: &Facts<'_>, step: &ProgramStep) -> Result<(), Refusal> {
        let process = facts.program.process_of(step.thread);
        match step.operation {
            Operation::CreateQueue { queue, surface, model, class, band } => {
                let new = NewQueue { surface, model, class, band };
                self.create_queue(facts, step.thread, queue, new)
            }
            Operation::CreateFence { fence, surface, kind, sharing, initial } => {
                let new = NewFence { surface, kind, sharing, initial };
                self.create_fence(facts, process, fence, new)
            }
            Operation::OpenFence { fence, surface } => {
                self.open_fence(facts, process, fence, surface)
            }
            Operation::CloseFence { fence } => self.close_fence(step.thread, process, fence),
            Operation::DropFence { fence, surface } => {
                self.drop_fence(step.thread, process, fence, surface)
            }
            Operation::DropQueue { .. }
            | Operation::CloseQueue { .. }
            | Operation::Flood { .. }
            | Operation::Prompt { .. }
            | Operation::Drain { .. }
            | Operation::Execute { .. }
            | Operation::Hang { .. }
            | Operation::Store { .. }
            | Operation::SetPriority { .. }
            | Operation::QueueSignal { .. }
            | Operation::Broadcast { .. }
            | Operation::QueueWait { .. }
            | Operation::PulseQueue { .. } => self.admit_on_queue(facts, step),
            Operation::Signal { .. }
            | Operation::PulseWait { .. }
            | Operation::Wait { .. }
            | Operation::WaitAll { .. }
            | Operation::WaitAny { .. }
            | Operation::Register { .. }
            | Operation::Await { .. }
            | Operation::Cancel { .. } => self.admit_on_cpu(facts, step),
            Operation::CreateBuffer { .. }
            | Operation::DropBuffer { .. }
            | Operation::Evict { .. }
            | Operation::PageOut { .. }
            | Operation::PageIn { .. }
            | Operation::Scratch { .. }
            | Operation::Tiles { .. }
            | Operation::ShareResource { .. } => self.admit_on_memory(facts, process, step),
            Operation::Query { .. } | Operation::IdleEngines {} => Ok(()),
            Operation::Semaphore { rounds } | Operation::KeyedMutex { rounds } => {
                require((1..=4).contains(&rounds), "1 to 4 rounds")
            }
            Operation::NameFence { value } => require((1..1 << 31).contains(&value), "a low value"),
            Operation::Vsync {} => has_display(facts, process),
            Operation::Flip { interval } => {
                require((1..=4).contains(&interval), "an interval is 1 to 4")?;
                has_display(facts, process)
            }
            Operation::Rest { ns } | Operation::Suspend { ns } => {
                require(ns <= 1_000_000_000, "a rest is at most a second")
            }
            Operation::StopProcess { ns } => {
                require(ns <= 10_000_000_000, "a stop is at most ten seconds")
            }
            Operation::SleepResume { ns } => {
                require(ns <= 1_000_000_000, "a rest is at most a second")?;
                let setup = adapter_of(facts, process);
                require(setup.is_power_managed(), "power is not managed")
            }
            Operation::ResetEngine { .. } | Operation::ResetAdapter {} => {
                let is_doomed = facts.is_doomed_adapter(process);
                require(is_doomed, "a reset may lose the device of a steady process")?;
                self.recover()
            }
            Operation::RemoveAdapter {} => {
                let is_doomed = facts.is_doomed_adapter(process);
                require(is_doomed, "the adapter has a steady process")?;
                let adapter = facts.program.process(process).adapter;
                require(self.removed.insert(adapter), "the adapter is removed already")
            }
            Operation::DestroyDevice {} => self.destroy_device(facts, process),
            Operation::MarkDevice { process: target } => {
                let is_doomed = facts.program.is_doomed(process);
                require(target == process && is_doomed, "only an own doomed device is marked")
            }
            Operation::Kill { process: target } => {
                let exists = usize::from(target.0) < facts.program.processes.len();
                require(exists && facts.program.is_doomed(target), "the process is not doomed")?;
                require(target != process, "a process does not kill itself")?;
                require(self.killed.insert(target), "the process is killed already")
            }
        }
    }

    fn admit_on_queue(&mut self, facts: &Facts<'_>, step: &ProgramStep) -> Result<(), Refusal> {
        let thread = step.thread;
        let process = facts.program.process_of(thread);
        match step.operation {
            Operation::CloseQueue { queue } => {
                let state = self.own_queue(thread, queue)?;
                let has_ring = state.model == Submission::User;
                require(state.surface == Surface::Raw && !has_ring, "no context to close")?;
                let is_named = !state.fences.is_empty() || !state.buffers.is_empty();
                require(!is_named, "queued steps have results")?;
                (state.dropped, state.is_closed) = (true, true);
                Ok(())
            }
            Operation::Flood { queue, count, ns, signals } => {
                require((1..=200).contains(&count) && signals <= 1, "1 to 200 packets")?;
                let state = self.own_raw_queue(thread, queue)?;
                // The share of packets is counted in packets that are not left.
                let most = if state.model == Submission::Packet { 50_000_000 } else { 500_000_000 };
                require(ns <= most, "a packet is at most 50 ms, and another buffer 500 ms")?;
                let has_ring = state.model == Submission::User;
                let steps = if has_ring { count as u32 * (1 + signals as u32) } else { 1 };
                let has_room = !has_ring || state.steps + steps <= RAW_RING_STEPS;
                require(has_room, "the ring has no room")?;
                state.steps += steps;
                Ok(())
            }
            Operation::Prompt { queue, .. } => {
                let state = self.own_raw_queue(thread, queue)?;
                let is_normal = state.band == Band::Normal && !state.is_lowered;
                require(is_normal, "the queue is not NORMAL")?;
                require(state.steps == 0 && !state.is_shared, "the queue has work")
            }
            Operation::DropQueue { queue } => {
                let state = self.own_queue(thread, queue)?;
                require(state.steps == 0, "the queue is not drained")?;
                require(!state.is_shared, "another thread has added work")?;
                state.dropped = true;
                Ok(())
            }
            Operation::Drain { queue } => {
                let state = self.own_queue(thread, queue)?;
                state.steps = 0;
                state.fences.clear();
                state.buffers.clear();
                Ok(())
            }
            Operation::Execute { queue, .. } => {
                let closed = self.queues.get(&queue).filter(|state| state.is_closed);
                if closed.is_some_and(|state| state.process == process && state.owner != thread) {
                    return Ok(());
                }
                let state = self.queue_step(process, queue)?;
                state.is_shared |= state.owner != thread;
                Ok(())
            }
            Operation::Hang { queue } => {
                let is_doomed = facts.program.is_doomed(process);
                require(is_doomed, "only a doomed process hangs")?;
                self.own_queue(thread, queue)?;
                self.recover()?;
                self.queue_step(process, queue).map(|_| ())
            }
            Operation::Store { queue, buffer, word, value } => {
                self.store(thread, process, queue, buffer, word, value)
            }
            Operation::SetPriority { queue, below } => {
                let state = self.own_queue(thread, queue)?;
                let has_context = state.model != Submission::Packet;
                require(state.surface == Surface::Raw && has_context, "no hardware context")?;
                require(below <= 7, "bands reach 7 below NORMAL")?;
                state.is_lowered = below > 0;
                Ok(())
            }
            Operation::QueueSignal { queue, fence, value } => {
                self.can_use(facts, thread, queue, fence)?;
                self.signal(facts, process, fence, Signaller::Queue(queue), value)?;
                self.queue_step(process, queue)?.fences.insert(fence);
                Ok(())
            }
            Operation::Broadcast { queue, other, fence, value } => {
                require(queue != other, "the queues are one")?;
                let models = [queue, other].map(|queue| {
                    let state = self.own_queue(thread, queue)?;
                    require(state.surface == Surface::Raw, "a queue of the queue API")?;
                    require(state.model != Submission::User, "a ring has no such signal")?;
                    Ok(state.model)
                });
                require(models[0]? == models[1]?, "the queues are of two kinds")?;
                self.can_use(facts, thread, queue, fence)?;
                self.can_use(facts, thread, other, fence)?;
                self.signal(facts, process, fence, Signaller::Queue(queue), value)?;
                for queue in [queue, other] {
                    self.queue_step(process, queue)?.fences.insert(fence);
                }
                Ok(())
            }
            Operation::QueueWait { queue, fence, value } => {
                self.can_use(facts, thread, queue, fence)?;
                self.is_guaranteed(fence, value)?;
                self.queue_step(process, queue)?.fences.insert(fence);
                Ok(())
            }
            Operation::PulseQueue { queue, fence, value, low } => {
                self.can_use(facts, thread, queue, fence)?;
                let ring = facts.waits_on_engine(&self.queues[&queue]).then_some(queue);
                self.pulse(facts, thread, fence, ring, value, low)?;
                self.queue_step(process, queue)?.fences.insert(fence);
                Ok(())
            }
            _ => Err("no step of a queue"),
        }
    }

    fn admit_on_cpu(&mut self, facts: &Facts<'_>, step: &ProgramStep) -> Result<(), Refusal> {
        let thread = step.thread;
        let process = facts.program.process_of(thread);
        match step.operation {
            Operation::Signal { fence, surface, value } => {
                self.instance(thread, process, fence, surface)?;
                self.signal(facts, process, fence, Signaller::Thread(thread), value)
            }
            Operation::PulseWait { fence, surface, value, low } => {
                self.instance(thread, process, fence, surface)?;
                self.pulse(facts, thread, fence, None, value, low)
            }
            Operation::Wait { fence, surface, value } => {
                self.instance(thread, process, fence, surface)?;
                self.is_guaranteed(fence, value)
            }
            Operation::WaitAll { fence, value, other, least } => {
                self.wait_for_two(thread, process, [(fence, value), (other, least)], true)
            }
            Operation::WaitAny { fence, value, other, least } => {
                self.wait_for_two(thread, process, [(fence, value), (other, least)], false)
            }
            Operation::Register { wait, fence, surface, value } => {
                let state = self.instance(thread, process, fence, surface)?;
                require(!state.is_pulsed(), "the fence is pulsed")?;
                require(!self.waits.contains_key(&wait), "the wait is there already")?;
                self.waits.insert(wait, WaitState { thread, fence, value, is_over: false });
                Ok(())
            }
            Operation::Await { wait } => {
                let state = self.wait_of(thread, wait)?;
                let (fence, value) = (state.fence, state.value);
                self.is_guaranteed(fence, value)?;
                self.end_wait(wait);
                Ok(())
            }
            Operation::Cancel { wait } => {
                self.wait_of(thread, wait)?;
                self.end_wait(wait);
                Ok(())
            }
            _ => Err("no step of a CPU"),
        }
    }

    fn admit_on_memory(
        &mut self,
        facts: &Facts<'_>,
        process: ProcessId,
        step: &ProgramStep,
    ) -> Result<(), Refusal> {
        let is_used = |model: &Model, buffer: BufferId| {
            model.queues.values().any(|queue| queue.buffers.contains(&buffer))
        };
        match step.operation {
            Operation::CreateBuffer { buffer, surface, pages } => {
                require(!self.buffers.contains_key(&buffer), "the buffer is there already")?;
                require((1..=64).contains(&pages), "a buffer has 1 to 64 pages")?;
                let (owner, words) = (step.thread, BTreeMap::new());
                self.reference(facts, owner, surface, pages)?;
                let (dropped, is_out) = (false, false);
                let state = BufferState { process, owner, surface, pages, dropped, is_out, words };
                self.buffers.insert(buffer, state);
                Ok(())
            }
            Operation::DropBuffer { buffer } => {
                require(!is_used(self, buffer), "work may use the buffer")?;
                let state = self.own_buffer(step.thread, buffer)?;
                state.dropped = true;
                let freed = if state.is_out { 0 } else { state.pages };
                let surface = state.surface;
                self.release(step.thread, surface, freed);
                Ok(())
            }
            Operation::Evict { buffer } | Operation::PageOut { buffer } => {
                require(!is_used(self, buffer), "work may use the buffer")?;
                let state = self.own_buffer(step.thread, buffer)?;
                require(state.surface == Surface::Raw, "only allocations are evicted")?;
                require(!state.is_out, "the buffer is paged out")?;
                if matches!(step.operation, Operation::PageOut { .. }) {
                    state.is_out = true;
                    let (surface, pages) = (state.surface, state.pages);
                    self.release(step.thread, surface, pages);
                }
                Ok(())
            }
            Operation::PageIn { buffer } => {
                let state = self.own_buffer(step.thread, buffer)?;
                require(state.is_out, "the buffer is not paged out")?;
                let (surface, pages) = (state.surface, state.pages);
                self.reference(facts, step.thread, surface, pages)?;
                self.own_buffer(step.thread, buffer)?.is_out = false;
                Ok(())
            }
            Operation::Scratch { surface, pages } => {
                require((1..=64).contains(&pages), "a buffer has 1 to 64 pages")?;
                self.reference(facts, step.thread, surface, pages)?;
                self.release(step.thread, surface, pages);
                Ok(())
            }
            Operation::ShareResource { pages } => {
                require((1..=64).contains(&pages), "a buffer has 1 to 64 pages")
            }
            Operation::Tiles { tiles } => require((1..=8).contains(&tiles), "1 to 8 tiles"),
            _ => Err("no step of memory"),
        }
    }

    /// Counts a reference to local memory. What all threads of an adapter reference at most fits.
    fn reference(
        &mut self,
        facts: &Facts<'_>,
        thread: ThreadId,
        surface: Surface,
        pages: u64,
    ) -> Result<(), Refusal> {
        if surface == Surface::Api {
            return Ok(());
        }
        let bytes = pages * PAGE_WORDS * 4;
        let adapter_of = |thread| facts.program.process(facts.program.process_of(thread)).adapter;
        let adapter = adapter_of(thread);
        let own = self.local.get(&thread).copied().unwrap_or_default();
        let now = own.now + bytes;
        let others = self.local.iter().filter(|(t, _)| **t != thread && adapter_of(**t) == adapter);
        let most = now.max(own.most);
        let all = most + others.map(|(_, local)| local.most).sum::<u64>();
        let room = facts.local_bytes[usize::from(adapter.0)];
        require(all <= room, "local memory has no room for what is referenced")?;
        self.local.insert(thread, LocalUse { now, most });
        Ok(())
    }

    fn release(&mut self, thread: ThreadId, surface: Surface, pages: u64) {
        if let Some(local) = self.local.get_mut(&thread).filter(|_| surface == Surface::Raw) {
            local.now -= pages * PAGE_WORDS * 4;
        }
    }

    fn create_queue(
        &mut self,
        facts: &Facts<'_>,
        owner: ThreadId,
        queue: QueueId,
        NewQueue { surface, model, band, .. }: NewQueue,
    ) -> Result<(), Refusal> {
        let process = facts.program.process_of(owner);
        require(!self.queues.contains_key(&queue), "the queue is there already")?;
        let offered = &facts.caps(process).submissions;
        require(offered.contains(&model.submission()), "the adapter has no such queues")?;
        let is_raw_ring = surface == Surface::Raw && model == Submission::User;
        // Rings at the call surface hold GPU addresses, which such engines do not use.
        require(!is_raw_ring || !facts.caps(process).io_mmu, "engines use CPU addresses")?;
        let has_band = band == Band::Normal || model == Submission::Packet;
        require(has_band || surface == Surface::Api, "a hardware context begins as normal")?;
        let state = QueueState {
            process,
            owner,
            is_shared: false,
            surface,
            model,
            band,
            dropped: false,
            is_lowered: false,
            is_closed: false,
            steps: 0,
            fences: BTreeSet::new(),
            buffers: BTreeSet::new(),
        };
        self.queues.insert(queue, state);
        Ok(())
    }

    fn store(
        &mut self,
        thread: ThreadId,
        process: ProcessId,
        queue: QueueId,
        buffer: BufferId,
        word: u64,
        value: u64,
    ) -> Result<(), Refusal> {
        let surface = self.own_queue(thread, queue)?.surface;
        let value = u32::try_from(value).map_err(|_| "a stored value has 32 bits")?;
        let state = self.own_buffer(thread, buffer)?;
        require(state.surface == surface, "the queue cannot use the buffer")?;
        require(!state.is_out, "the buffer is paged out")?;
        require(word < state.pages * PAGE_WORDS, "the word is outside of the buffer")?;
        let owner = state.words.get(&word).map_or(queue, |(owner, _)| *owner);
        require(owner == queue, "another queue stores to the word")?;
        state.words.insert(word, (queue, value));
        self.queue_step(process, queue)?.buffers.insert(buffer);
        Ok(())
    }

    fn queue_of(&mut self, process: ProcessId, queue: QueueId) -> Result<&mut QueueState, Refusal> {
        let state = self.queues.get_mut(&queue).ok_or("there is no such queue")?;
        require(!state.dropped, "the queue is dropped")?;
        require(state.process == process, "the queue is another process's")?;
        Ok(state)
    }

    fn own_queue(&mut self, thread: ThreadId, queue: QueueId) -> Result<&mut QueueState, Refusal> {
        let state = self.queues.get_mut(&queue).ok_or("there is no such queue")?;
        require(!state.dropped, "the queue is dropped")?;
        require(state.owner == thread, "the queue is another thread's")?;
        Ok(state)
    }

    /// Returns an own queue at the call surface.
    fn own_raw_queue(
        &mut self,
        thread: ThreadId,
        queue: QueueId,
    ) -> Result<&mut QueueState, Refusal> {
        let state = self.own_queue(thread, queue)?;
        require(state.surface == Surface::Raw, "a queue of the queue API")?;
        Ok(state)
    }

    fn destroy_device(&mut self, facts: &Facts<'_>, process: ProcessId) -> Result<(), Refusal> {
        require(facts.program.is_doomed(process), "the process is not doomed")?;
        // Signals of the device would be missed at the other surface.
        let mut own = self.fences.values().filter(|fence| fence.owner == process);
        require(own.all(|fence| fence.sharing == Sharing::Private), "a fence is shared")?;
        require(self.destroyed.insert(process), "the device is destroyed already")
    }

    fn queue_step(
        &mut self,
        process: ProcessId,
        queue: QueueId,
    ) -> Result<&mut QueueState, Refusal> {
        let state = self.queue_of(process, queue)?;
        let is_raw_ring = state.surface == Surface::Raw && state.model == Submission::User;
        require(!is_raw_ring || state.steps < RAW_RING_STEPS, "the ring has no room")?;
        state.steps += 1;
        Ok(state)
    }

    fn own_buffer(
        &mut self,
        thread: ThreadId,
        buffer: BufferId,
    ) -> Result<&mut BufferState, Refusal> {
        let state = self.buffers.get_mut(&buffer).ok_or("there is no such buffer")?;
        require(!state.dropped, "the buffer is dropped")?;
        require(state.owner == thread, "the buffer is another thread's")?;
        Ok(state)
    }

    fn wait_of(&self, thread: ThreadId, wait: WaitId) -> Result<&WaitState, Refusal> {
        let state = self.waits.get(&wait).ok_or("there is no such wait")?;
        require(!state.is_over, "the wait is over")?;
        require(state.thread == thread, "the wait is another thread's")?;
        Ok(state)
    }

    fn end_wait(&mut self, wait: WaitId) {
        if let Some(state) = self.waits.get_mut(&wait) {
            state.is_over = true;
        }
    }

    fn recover(&mut self) -> Result<(), Refusal> {
        require(self.recoveries < RECOVERIES, "too many recoveries")?;
        self.recoveries += 1;
        Ok(())
    }

    /// Returns the words that a buffer holds at the end, if it is still there.
    pub fn words(&self, buffer: BufferId) -> impl Iterator<Item = (u64, u32)> + '_ {
        let state = self.buffers.get(&buffer).filter(|state| !state.dropped);
        state.into_iter().flat_map(|state| state.words.iter().map(|(at, (_, v))| (*at, *v)))
    }

    /// Returns the queues of a process that are there.
    pub(crate) fn live_queues(
        &self,
        process: ProcessId,
    ) -> impl Iterator<Item = (QueueId, &QueueState)> {
        let queues = self.queues.iter().map(|(id, state)| (*id, state));
        queues.filter(move |(_, state)| !state.dropped && state.process == process)
    }

    /// Returns the buffers of a process that are there.
    pub(crate) fn live_buffers(
        &self,
        process: ProcessId,
    ) -> impl Iterator<Item = (BufferId, &BufferState)> {
        let buffers = self.buffers.iter().map(|(id, state)| (*id, state));
        buffers.filter(move |(_, state)| !state.dropped && state.process == process)
    }
}

/// Returns the program without the steps that the model does not admit.
pub fn repaired(program: &Program) -> Program {
    let facts = Facts::of(program);
    let mut model = Model::default();
    let is_admitted = |step: &&ProgramStep| {
        let mut next = model.clone();
        let admitted = next.admit(&facts, step).is_ok();
        if admitted {
            model = next;
        }
        admitted
    };
    let steps = program.steps.iter().filter(is_admitted).copied().collect();
    Program { steps, ..program.clone() }
}
