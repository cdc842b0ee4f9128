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

use crate::operation::Operation;
use crate::program::{Program, ProgramStep};
use crate::setup::AdapterSetup;
use crate::words::{
    Band, BufferId, Class, Fate, FenceId, FenceKind, Model as Submission, ProcessId, QueueId,
    Sharing, Surface, ThreadId, WaitId,
};
use std::collections::{BTreeMap, BTreeSet};
use tidegate::variants::Caps;

/// The queued steps that a ring at the call surface takes before the next drain.
const RAW_RING_STEPS: u32 = 40;
/// Resets and hangs of a program. Five of them within a minute stop an adapter (TdrLimitCount).
const RECOVERIES: u32 = 2;
/// Words of a page of a buffer.
pub(crate) const PAGE_WORDS: u64 = 1024;

/// What signals a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Signaller {
    Thread(ThreadId),
    Queue(QueueId),
}

#[derive(Clone, Debug)]
pub(crate) struct QueueState {
    pub(crate) process: ProcessId,
    /// The thread that made it.
    pub(crate) owner: ThreadId,
    /// Whether another thread has added work.
    is_shared: bool,
    pub(crate) surface: Surface,
    pub(crate) model: Submission,
    dropped: bool,
    /// Steps since the last drain.
    steps: u32,
    /// Fences that undrained steps name.
    fences: BTreeSet<FenceId>,
    /// Buffers that undrained steps name.
    buffers: BTreeSet<BufferId>,
}

#[derive(Clone, Debug)]
pub(crate) struct FenceState {
    pub(crate) owner: ProcessId,
    pub(crate) kind: FenceKind,
    pub(crate) sharing: Sharing,
    instances: BTreeSet<(ProcessId, Surface)>,
    /// Instances that were there at any time. None is opened twice.
    opened: BTreeSet<(ProcessId, Surface)>,
    /// The highest value that a step has signalled.
    pub(crate) highest: u64,
    initial: u64,
    /// The last value of each signaller.
    last: BTreeMap<Signaller, u64>,
    pulsed_by: Option<ThreadId>,
    /// The threads whose steps name the fence.
    threads: BTreeSet<ThreadId>,
    /// The threads whose queues have used each instance.
    users: BTreeSet<(ProcessId, Surface, ThreadId)>,
}

impl FenceState {
    /// Returns the value below which the fence cannot be once all earlier steps are done: the last
    /// signal to be made is one of the last signals of the signallers.
    pub(crate) fn guaranteed(&self) -> u64 {
        self.last.values().copied().min().unwrap_or(self.initial)
    }

    pub(crate) fn is_pulsed(&self) -> bool {
        self.pulsed_by.is_some()
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.last.is_empty() && self.pulsed_by.is_none()
    }

    pub(crate) fn has(&self, process: ProcessId, surface: Surface) -> bool {
        self.instances.contains(&(process, surface))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct BufferState {
    pub(crate) process: ProcessId,
    /// The thread that made it.
    pub(crate) owner: ThreadId,
    pub(crate) surface: Surface,
    pub(crate) pages: u64,
    dropped: bool,
    /// The owner and the last value of each stored word.
    words: BTreeMap<u64, (QueueId, u32)>,
}

#[derive(Clone, Debug)]
pub(crate) struct WaitState {
    pub(crate) thread: ThreadId,
    pub(crate) fence: FenceId,
    pub(crate) value: u64,
    pub(crate) is_over: bool,
}

/// The state after some steps.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub(crate) queues: BTreeMap<QueueId, QueueState>,
    pub(crate) fences: BTreeMap<FenceId, FenceState>,
    pub(crate) buffers: BTreeMap<BufferId, BufferState>,
    pub(crate) waits: BTreeMap<WaitId, WaitState>,
    killed: BTreeSet<ProcessId>,
    pub(crate) recoveries: u32,
}

/// Why a step is not admitted.
pub type Refusal = &'static str;

/// A program with what its adapters can do, which the model asks for at each step.
pub struct Facts<'p> {
    /// The program.
    pub program: &'p Program,
    caps: Vec<Caps>,
}

impl<'p> Facts<'p> {
    /// Returns the facts of a program.
    pub fn of(program: &'p Program) -> Facts<'p> {
        Facts { program, caps: program.adapters.iter().map(|adapter| adapter.caps()).collect() }
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

    /// Returns whether every process of the machine may lose its device.
    pub(crate) fn all_doomed(&self) -> bool {
        self.program.processes.iter().all(|process| process.fate == Fate::Doomed)
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
                self.create_queue(facts, step.thread, (queue, surface, model, class, band))
            }
            Operation::CreateFence { fence, surface, kind, sharing, initial } => {
                self.create_fence(facts, process, (fence, surface, kind, sharing, initial))
            }
            Operation::OpenFence { fence, surface } => {
                self.open_fence(facts, process, fence, surface)
            }
            Operation::DropFence { fence, surface } => {
                self.drop_fence(step.thread, process, fence, surface)
            }
            Operation::DropQueue { .. }
            | Operation::Drain { .. }
            | Operation::Execute { .. }
            | Operation::Hang { .. }
            | Operation::Store { .. }
            | Operation::SetPriority { .. }
            | Operation::QueueSignal { .. }
            | Operation::QueueWait { .. }
            | Operation::PulseQueue { .. } => self.admit_on_queue(facts, step),
            Operation::Signal { .. }
            | Operation::PulseWait { .. }
            | Operation::Wait { .. }
            | Operation::Register { .. }
            | Operation::Await { .. }
            | Operation::Cancel { .. } => self.admit_on_cpu(facts, step),
            Operation::CreateBuffer { .. }
            | Operation::DropBuffer { .. }
            | Operation::Evict { .. }
            | Operation::Scratch { .. }
            | Operation::Tiles { .. }
            | Operation::ShareResource { .. } => self.admit_on_memory(process, step),
            Operation::Query { .. } | Operation::IdleEngines {} => Ok(()),
            Operation::Semaphore { rounds } => require((1..=4).contains(&rounds), "1 to 4 rounds"),
            Operation::NameFence { value } => require((1..1 << 31).contains(&value), "a low value"),
            Operation::Vsync {} => has_display(facts, process),
            Operation::Flip { interval } => {
                require((1..=4).contains(&interval), "an interval is 1 to 4")?;
                has_display(facts, process)
            }
            Operation::Rest { ns } | Operation::Suspend { ns } => {
                require(ns <= 1_000_000_000, "a rest is at most a second")
            }
            Operation::SleepResume { ns } => {
                require(ns <= 1_000_000_000, "a rest is at most a second")?;
                let setup = adapter_of(facts, process);
                require(setup.is_power_managed(), "power is not managed")
            }
            Operation::ResetEngine { .. } => {
                require(facts.all_doomed(), "a reset may lose the device of a steady process")?;
                self.recover()
            }
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
        let is_doomed = facts.program.is_doomed(process);
        match step.operation {
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
                let state = self.queue_step(process, queue)?;
                state.is_shared |= state.owner != thread;
                Ok(())
            }
            Operation::Hang { queue } => {
                require(is_doomed, "only a doomed process hangs")?;
                self.own_queue(thread, queue)?;
                self.recover()?;
                self.queue_step(process, queue).map(|_| ())
            }
            Operation::Store { queue, buffer, word, value } => {
                self.store(thread, process, queue, (buffer, word, value))
            }
            Operation::SetPriority { queue, below } => {
                let state = self.own_queue(thread, queue)?;
                let has_context = state.model != Submission::Packet;
                require(state.surface == Surface::Raw && has_context, "no hardware context")?;
                require(below <= 7, "bands reach 7 below NORMAL")
            }
            Operation::QueueSignal { queue, fence, value } => {
                self.can_use(facts, thread, queue, fence)?;
                self.signal(is_doomed, process, fence, Signaller::Queue(queue), value)?;
                self.queue_step(process, queue)?.fences.insert(fence);
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
                self.pulse(facts, thread, process, fence, (value, low))?;
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
                let is_doomed = facts.program.is_doomed(process);
                self.signal(is_doomed, process, fence, Signaller::Thread(thread), value)
            }
            Operation::PulseWait { fence, surface, value, low } => {
                self.instance(thread, process, fence, surface)?;
                self.pulse(facts, thread, process, fence, (value, low))
            }
            Operation::Wait { fence, surface, value } => {
                self.instance(thread, process, fence, surface)?;
                self.is_guaranteed(fence, value)
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

    fn admit_on_memory(&mut self, process: ProcessId, step: &ProgramStep) -> Result<(), Refusal> {
        let is_used = |model: &Model, buffer: BufferId| {
            model.queues.values().any(|queue| queue.buffers.contains(&buffer))
        };
        match step.operation {
            Operation::CreateBuffer { buffer, surface, pages } => {
                require(!self.buffers.contains_key(&buffer), "the buffer is there already")?;
                require((1..=64).contains(&pages), "a buffer has 1 to 64 pages")?;
                let (owner, words) = (step.thread, BTreeMap::new());
                let state = BufferState { process, owner, surface, pages, dropped: false, words };
                self.buffers.insert(buffer, state);
                Ok(())
            }
            Operation::DropBuffer { buffer } => {
                require(!is_used(self, buffer), "work may use the buffer")?;
                self.own_buffer(step.thread, buffer)?.dropped = true;
                Ok(())
            }
            Operation::Evict { buffer } => {
                require(!is_used(self, buffer), "work may use the buffer")?;
                let state = self.own_buffer(step.thread, buffer)?;
                require(state.surface == Surface::Raw, "only allocations are evicted")
            }
            Operation::Scratch { pages, .. } | Operation::ShareResource { pages } => {
                require((1..=64).contains(&pages), "a buffer has 1 to 64 pages")
            }
            Operation::Tiles { tiles } => require((1..=8).contains(&tiles), "1 to 8 tiles"),
            _ => Err("no step of memory"),
        }
    }

    fn create_queue(
        &mut self,
        facts: &Facts<'_>,
        owner: ThreadId,
        (queue, surface, model, _class, band): (QueueId, Surface, Submission, Class, Band),
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
            dropped: false,
            steps: 0,
            fences: BTreeSet::new(),
            buffers: BTreeSet::new(),
        };
        self.queues.insert(queue, state);
        Ok(())
    }

    fn create_fence(
        &mut self,
        facts: &Facts<'_>,
        process: ProcessId,
        (fence, surface, kind, sharing, initial): (FenceId, Surface, FenceKind, Sharing, u64),
    ) -> Result<(), Refusal> {
        require(!self.fences.contains_key(&fence), "the fence is there already")?;
        let native = facts.caps(process).native_fences;
        require(native || kind == FenceKind::Monitored, "the adapter has no native fences")?;
        require(
            surface == Surface::Raw || kind == facts.api_kind(process),
            "the queue API makes fences of the other kind",
        )?;
        require(initial <= 1 << 20, "the initial value is at most 2^20")?;
        let state = FenceState {
            owner: process,
            kind,
            sharing,
            instances: BTreeSet::from([(process, surface)]),
            opened: BTreeSet::from([(process, surface)]),
            highest: initial,
            initial,
            last: BTreeMap::new(),
            pulsed_by: None,
            threads: BTreeSet::new(),
            users: BTreeSet::new(),
        };
        self.fences.insert(fence, state);
        Ok(())
    }

    fn open_fence(
        &mut self,
        facts: &Facts<'_>,
        process: ProcessId,
        fence: FenceId,
        surface: Surface,
    ) -> Result<(), Refusal> {
        let state = self.fences.get_mut(&fence).ok_or("there is no such fence")?;
        require(!state.instances.is_empty(), "every instance is closed")?;
        let owner = facts.program.process(state.owner);
        // The storage of a fence has one width on all adapters (decision 143).
        let atomics = |process| facts.caps(process).atomics_64bit;
        require(atomics(state.owner) == atomics(process), "the adapters have different atomics")?;
        // The devices of a doomed process are lost one by one: what one no longer signals, another
        // would wait for.
        require(owner.fate == Fate::Steady, "its owner is doomed")?;
        let is_near = owner.adapter == facts.program.process(process).adapter;
        require(
            match state.sharing {
                Sharing::Private => false,
                Sharing::Shared => is_near,
                Sharing::Cross => true,
            },
            "the fence is not shared with the process",
        )?;
        require(
            is_near || surface == Surface::Raw || state.kind == facts.api_kind(process),
            "the adapters make fences of different kinds",
        )?;
        require(state.opened.insert((process, surface)), "the instance was opened before")?;
        state.instances.insert((process, surface));
        Ok(())
    }

    fn drop_fence(
        &mut self,
        thread: ThreadId,
        process: ProcessId,
        fence: FenceId,
        surface: Surface,
    ) -> Result<(), Refusal> {
        let state = self.instance(thread, process, fence, surface)?;
        let is_foreign = |user: &(ProcessId, Surface, ThreadId)| {
            (user.0, user.1) == (process, surface) && user.2 != thread
        };
        let foreign = state.users.iter().any(is_foreign);
        require(!foreign, "a queue of another thread has used the fence")?;
        let uses = |queue: &QueueState| {
            !queue.dropped && queue.process == process && queue.fences.contains(&fence)
        };
        require(!self.queues.values().any(uses), "queued steps use the fence")?;
        let waits = self.waits.values().any(|wait| wait.fence == fence && !wait.is_over);
        require(!waits, "a registered wait uses the fence")?;
        let state = self.fences.get_mut(&fence).ok_or("there is no such fence")?;
        state.instances.remove(&(process, surface));
        Ok(())
    }

    fn store(
        &mut self,
        thread: ThreadId,
        process: ProcessId,
        queue: QueueId,
        (buffer, word, value): (BufferId, u64, u64),
    ) -> Result<(), Refusal> {
        let surface = self.own_queue(thread, queue)?.surface;
        let value = u32::try_from(value).map_err(|_| "a stored value has 32 bits")?;
        let state = self.own_buffer(thread, buffer)?;
        require(state.surface == surface, "the queue cannot use the buffer")?;
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

    fn instance(
        &mut self,
        thread: ThreadId,
        process: ProcessId,
        fence: FenceId,
        surface: Surface,
    ) -> Result<&mut FenceState, Refusal> {
        let state = self.fences.get_mut(&fence).ok_or("there is no such fence")?;
        require(state.has(process, surface), "the process has no such instance")?;
        state.threads.insert(thread);
        Ok(state)
    }

    /// Whether a queue's waits and signals can name the fence.
    fn can_use(
        &mut self,
        facts: &Facts<'_>,
        thread: ThreadId,
        queue: QueueId,
        fence: FenceId,
    ) -> Result<(), Refusal> {
        let (process, surface, model) = {
            let state = self.own_queue(thread, queue)?;
            (state.process, state.surface, state.model)
        };
        let state = self.instance(thread, process, fence, surface)?;
        state.users.insert((process, surface, thread));
        let needs_native = model == Submission::User;
        let is_native = state.kind == FenceKind::Native && facts.caps(process).native_fences;
        require(!needs_native || is_native, "a user-mode queue needs a native fence")
    }

    fn is_guaranteed(&self, fence: FenceId, value: u64) -> Result<(), Refusal> {
        let state = self.fences.get(&fence).ok_or("there is no such fence")?;
        require(!state.is_pulsed(), "the fence is pulsed")?;
        require(value <= state.guaranteed(), "no earlier step guarantees the value")
    }

    fn signal(
        &mut self,
        is_doomed: bool,
        process: ProcessId,
        fence: FenceId,
        by: Signaller,
        value: u64,
    ) -> Result<(), Refusal> {
        let state = self.fences.get_mut(&fence).ok_or("there is no such fence")?;
        require(!state.is_pulsed(), "the fence is pulsed")?;
        require(!is_doomed || state.owner == process, "a doomed process signals its own fences")?;
        require(value > state.highest, "signals of a fence rise")?;
        require(value < 1 << 31, "values stay below 2^31")?;
        state.highest = value;
        state.last.insert(by, value);
        Ok(())
    }

    fn pulse(
        &mut self,
        facts: &Facts<'_>,
        thread: ThreadId,
        process: ProcessId,
        fence: FenceId,
        (value, low): (u64, u64),
    ) -> Result<(), Refusal> {
        require(facts.caps(process).fence_history, "the hardware keeps no history")?;
        let state = self.fences.get_mut(&fence).ok_or("there is no such fence")?;
        require(state.last.is_empty(), "the fence has signals")?;
        require(state.sharing == Sharing::Private, "only private fences are pulsed")?;
        let waits = self.waits.values().any(|wait| wait.fence == fence);
        require(!waits, "waits are registered with the fence")?;
        require(state.threads.iter().all(|other| *other == thread), "another thread uses it")?;
        require(low < value && value < 1 << 31, "a pulse falls")?;
        state.pulsed_by = Some(thread);
        Ok(())
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
