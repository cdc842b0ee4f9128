//! Owns the explored discipline: words behind store buffers, and a choice at every visible step.
//!
//! The rules. A store goes into its agent's own buffer and is no choice. A load that its own buffer cannot answer, a
//! locked operation, a lock, a wait and a wake are visible: before one, the controller chooses who moves. A locked
//! operation, a barrier, a lock, a wait and a wake need an empty buffer. Dropping a lock is a store: it leaves in order
//! with the others. Time passes only when nothing else can happen.
//!
//! The state of an agent is its history: the hash of all that it observed and did, since between two observations it is
//! deterministic. Policy state behind a lock is covered by the lock's own hash, into which each owner's history goes
//! when it drops the lock and which the next owner observes. Two runs with the same state have the same future, so a
//! strategy need not continue the second.

use super::{AgentIx, Discipline, State, WaitEnd, WordRef, World, with};
use crate::controller::{Choice, Controller, MemoryModel, Object, OpKind, Point};
use crate::fiber;
use crate::memory::bulk::BulkInner;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;

/// Stores that a buffer holds before the oldest leaves by itself (real ones hold some 50).
const BUFFER_ENTRIES: usize = 16;

/// Runs longer than this are taken for a loop that no schedule leaves.
const STEP_LIMIT: u64 = 2_000_000;

enum Buffered {
    Word { page: std::sync::Arc<PageCells>, index: u32, value: u64 },
    Bulk { bulk: std::sync::Arc<BulkInner>, start: usize, data: Vec<u8> },
    Unlock { mutex: u32 },
}

type PageCells = crate::memory::PageInner;

#[derive(Default)]
pub(super) struct AgentState {
    history: u64,
    pending: Option<(OpKind, Object)>,
    buffer: VecDeque<Buffered>,
    /// Hash of the buffer's content, in order.
    buffer_hash: u64,
}

pub(super) struct Explored {
    controller: Box<dyn Controller>,
    model: MemoryModel,
    memory_hash: u64,
    bulk_hashes: HashMap<u32, u64>,
    locks: HashMap<u32, LockState>,
    next_object: u32,
    last: Option<AgentIx>,
    next: Option<AgentIx>,
    choices: Vec<Choice>,
    pending: Vec<(OpKind, Object)>,
}

#[derive(Default)]
struct LockState {
    taken: bool,
    hash: u64,
}

impl Explored {
    pub(super) fn new(controller: Box<dyn Controller>, model: MemoryModel) -> Explored {
        Explored {
            controller,
            model,
            memory_hash: 0,
            bulk_hashes: HashMap::new(),
            locks: HashMap::new(),
            next_object: 1,
            last: None,
            next: None,
            choices: Vec::new(),
            pending: Vec::new(),
        }
    }
}

#[inline]
fn mix(hash: u64, value: u64) -> u64 {
    let x = (hash ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (x ^ (x >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9).rotate_left(27)
}

fn word_hash(page: u32, index: u32, value: u64) -> u64 {
    if value == 0 { 0 } else { mix(mix(u64::from(page) << 32 | u64::from(index), 0x57), value) }
}

fn bytes_hash(data: &[u8]) -> u64 {
    let mut hash = data.len() as u64;
    for chunk in data.chunks(8) {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        hash = mix(hash, u64::from_le_bytes(bytes));
    }
    hash
}

impl World {
    fn explored_mut(&mut self) -> &mut Explored {
        match &mut self.discipline {
            Discipline::Explored(e) => e,
            Discipline::Virtual(_) => panic!("exploration in a virtual-time machine"),
        }
    }

    fn is_explored(&self) -> bool {
        matches!(self.discipline, Discipline::Explored(_))
    }

    fn agent_state(&mut self, agent: AgentIx) -> &mut AgentState {
        &mut self.slot(agent).explored
    }

    fn absorb(&mut self, value: u64) {
        if let Some(agent) = self.current {
            let state = self.agent_state(agent);
            state.history = mix(state.history, value);
        }
    }

    /// Whether the agent's pending step can be taken now.
    fn can_step(&mut self, agent: AgentIx) -> bool {
        let slot = self.slot(agent);
        if !matches!(slot.state, State::Ready | State::Running) {
            return false;
        }
        let drained = slot.explored.buffer.is_empty();
        match slot.explored.pending {
            None | Some((OpKind::Start | OpKind::Load | OpKind::Sleep, _)) => true,
            Some((OpKind::Lock, Object::Mutex(id))) => {
                drained && !self.explored_mut().locks.get(&id).is_some_and(|l| l.taken)
            }
            Some(_) => drained,
        }
    }

    /// Fills in what could happen next: first what lets the last agent go on, then the others, then the flushes.
    fn list_choices(&mut self) {
        let mut choices = std::mem::take(&mut self.explored_mut().choices);
        choices.clear();
        let last = self.explored_mut().last;
        let all = 0..self.agents.len();
        let order = last.into_iter().chain(all.map(|i| AgentIx(i as u16)).filter(|a| Some(*a) != last));
        let mut flushes = Vec::new();
        for agent in order {
            if self.can_step(agent) {
                choices.push(Choice::Run(agent));
            }
            if !self.agent_state(agent).buffer.is_empty() {
                flushes.push(Choice::Flush(agent));
            }
        }
        choices.append(&mut flushes);
        self.explored_mut().choices = choices;
    }

    fn state_hash(&mut self) -> u64 {
        let mut hash = mix(self.explored_mut().memory_hash, self.now);
        for slot in &self.agents {
            hash = mix(hash, slot.explored.history ^ slot.state as u64);
            hash = mix(hash, slot.explored.buffer_hash);
        }
        hash
    }

    /// Lets things happen until an agent is to take its pending step.
    fn choose(&mut self) -> Option<AgentIx> {
        loop {
            self.list_choices();
            let choice = match self.explored_mut().choices.len() {
                0 => {
                    self.pass_time()?;
                    continue;
                }
                1 => self.explored_mut().choices[0],
                _ => self.ask(),
            };
            match choice {
                Choice::Run(agent) => {
                    self.explored_mut().last = Some(agent);
                    self.steps += 1;
                    return Some(agent);
                }
                Choice::Flush(agent) => self.flush_one(agent),
                Choice::Timeout(_) => {}
            }
        }
    }

    fn ask(&mut self) -> Choice {
        let state = self.state_hash();
        let (step, slots) = (self.steps, std::mem::take(&mut self.agents));
        let explored = self.explored_mut();
        explored.pending.clear();
        explored
            .pending
            .extend(slots.iter().map(|s| s.explored.pending.unwrap_or((OpKind::Start, Object::None))));
        let current = explored.last.filter(|a| explored.choices.contains(&Choice::Run(*a)));
        let point = Point { choices: &explored.choices, current, state, step, pending: &explored.pending };
        let index = explored.controller.choose(&point);
        let choice = *explored.choices.get(index).unwrap_or(&explored.choices[0]);
        self.agents = slots;
        choice
    }

    /// Nothing can happen now: the earliest sleeper's time comes.
    fn pass_time(&mut self) -> Option<()> {
        let sleeping = self.agents.iter().enumerate().filter(|(_, s)| s.state == State::Blocked);
        let timers = sleeping.filter_map(|(i, s)| Some((s.wait.as_ref()?.deadline?, i)));
        let (deadline, index) = timers.min()?;
        self.now = self.now.max(deadline.0);
        self.end_sleep(AgentIx(index as u16), WaitEnd::TimedOut, 0);
        Some(())
    }

    pub(super) fn pick_chosen(&mut self) -> Option<AgentIx> {
        let next = self.explored_mut().next.take();
        next.or_else(|| self.choose())
    }

    fn flush_one(&mut self, agent: AgentIx) {
        let state = self.agent_state(agent);
        let Some(entry) = state.buffer.pop_front() else { return };
        state.buffer_hash = state.buffer.iter().fold(0, |h, b| mix(h, b.hash()));
        match entry {
            Buffered::Word { page, index, value } => self.commit_word(&page, index, value),
            Buffered::Bulk { bulk, start, data } => self.commit_bulk(&bulk, start, &data),
            Buffered::Unlock { mutex } => self.release_lock(mutex),
        }
    }

    fn commit_word(&mut self, page: &PageCells, index: u32, value: u64) {
        let old = page.cells[index as usize].swap(value, Ordering::Relaxed);
        self.explored_mut().memory_hash ^= word_hash(page.id, index, old) ^ word_hash(page.id, index, value);
    }

    fn commit_bulk(&mut self, bulk: &BulkInner, start: usize, data: &[u8]) {
        bulk.copy_in(start, data);
        let explored = self.explored_mut();
        let hash = explored.bulk_hashes.entry(bulk.id).or_default();
        let old = *hash;
        *hash = mix(mix(old, start as u64), bytes_hash(data));
        explored.memory_hash ^= old ^ *hash;
    }

    fn release_lock(&mut self, mutex: u32) {
        self.explored_mut().locks.entry(mutex).or_default().taken = false;
    }

    fn buffer(&mut self, agent: AgentIx, entry: Buffered) {
        let hash = entry.hash();
        let state = self.agent_state(agent);
        state.history = mix(state.history, hash);
        state.buffer_hash = mix(state.buffer_hash, hash);
        state.buffer.push_back(entry);
        if state.buffer.len() > BUFFER_ENTRIES {
            self.flush_one(agent);
        }
    }

    /// The newest value of the word in the agent's own buffer.
    fn forwarded(&mut self, agent: AgentIx, word: WordRef<'_>) -> Option<u64> {
        self.agent_state(agent).buffer.iter().rev().find_map(|b| match b {
            Buffered::Word { page, index, value } if page.id == word.page.id && *index == word.index => {
                Some(*value)
            }
            _ => None,
        })
    }

    fn buffers_stores(&mut self) -> bool {
        self.explored_mut().model == MemoryModel::TotalStoreOrder
    }
}

impl Buffered {
    fn hash(&self) -> u64 {
        match self {
            Buffered::Word { page, index, value } => {
                mix(mix(0xA1, u64::from(page.id) << 32 | u64::from(*index)), *value)
            }
            Buffered::Bulk { bulk, start, data } => {
                mix(mix(0xA2 + (u64::from(bulk.id) << 8), *start as u64), bytes_hash(data))
            }
            Buffered::Unlock { mutex } => mix(0xA3, u64::from(*mutex)),
        }
    }
}

fn word_object(word: WordRef<'_>) -> Object {
    Object::Word { page: word.page.id, index: word.index }
}

/// The calling agent is about to take a visible step: let the controller choose who moves.
fn visible(op: OpKind, object: Object) {
    let switch = with(|w| {
        let Some(me) = w.current else { return false };
        w.agent_state(me).pending = Some((op, object));
        assert!(
            w.steps < STEP_LIMIT,
            "more than {STEP_LIMIT} steps: some loop waits by looking, not by sleeping"
        );
        match w.choose() {
            Some(next) if next == me => false,
            next => {
                w.slot(me).state = State::Ready;
                w.explored_mut().next = next;
                true
            }
        }
    });
    if switch {
        fiber::suspend();
    }
    with(|w| w.absorb(op as u64 + 1));
}

/// Numbers a page, a run of bytes, a lock or a window.
pub(crate) fn next_object_id() -> u32 {
    with(|w| {
        let explored = w.explored_mut();
        explored.next_object += 1;
        explored.next_object
    })
}

/// Visible steps so far.
pub(crate) fn steps() -> u64 {
    with(|w| w.steps)
}

pub(crate) fn load(word: WordRef<'_>) -> u64 {
    if let Some(value) = with(|w| w.current.and_then(|me| w.forwarded(me, word))) {
        return value;
    }
    visible(OpKind::Load, word_object(word));
    with(|w| {
        // Others may have run meanwhile, but nobody fills this agent's own buffer.
        let value = word.cell().load(Ordering::Relaxed);
        w.absorb(value);
        value
    })
}

pub(crate) fn store(word: WordRef<'_>, value: u64) {
    let at_once = with(|w| w.current.is_none() || !w.buffers_stores());
    if at_once {
        visible(OpKind::Store, word_object(word));
        with(|w| {
            w.absorb(value);
            w.commit_word(word.page, word.index, value);
        });
        return;
    }
    with(|w| {
        let me = w.current.expect("checked above");
        let page = std::sync::Arc::clone(word.page);
        w.buffer(me, Buffered::Word { page, index: word.index, value });
    });
}

pub(crate) fn exchange(word: WordRef<'_>, new: impl FnOnce(u64) -> u64) -> u64 {
    visible(OpKind::Exchange, word_object(word));
    with(|w| {
        let old = word.cell().load(Ordering::Relaxed);
        w.absorb(old);
        w.commit_word(word.page, word.index, new(old));
        old
    })
}

/// A full barrier: goes on when the agent's buffer is empty.
pub(crate) fn fence() {
    while with(|w| w.current.is_some_and(|me| !w.agent_state(me).buffer.is_empty())) {
        visible(OpKind::Fence, Object::None);
    }
    with(|w| w.absorb(0xFE));
}

pub(crate) fn bulk_read(bulk: &BulkInner, start: usize, out: &mut [u8]) {
    visible(OpKind::Load, Object::Bulk(bulk.id));
    with(|w| {
        bulk.copy_out(start, out);
        if let Some(me) = w.current {
            overlay(&w.agent_state(me).buffer, bulk.id, start, out);
        }
        w.absorb(bytes_hash(out));
    });
}

/// Own buffered stores over what memory holds, oldest first.
fn overlay(buffer: &VecDeque<Buffered>, id: u32, start: usize, out: &mut [u8]) {
    for entry in buffer {
        let Buffered::Bulk { bulk, start: at, data } = entry else { continue };
        let (from, to) = (start.max(*at), (start + out.len()).min(at + data.len()));
        if bulk.id == id && from < to {
            out[from - start..to - start].copy_from_slice(&data[from - at..to - at]);
        }
    }
}

pub(crate) fn bulk_write(bulk: &std::sync::Arc<BulkInner>, start: usize, data: &[u8]) {
    let at_once = with(|w| w.current.is_none() || !w.buffers_stores());
    if at_once {
        visible(OpKind::Store, Object::Bulk(bulk.id));
        with(|w| {
            w.absorb(bytes_hash(data));
            w.commit_bulk(bulk, start, data);
        });
        return;
    }
    with(|w| {
        let me = w.current.expect("checked above");
        w.buffer(me, Buffered::Bulk { bulk: std::sync::Arc::clone(bulk), start, data: data.to_vec() });
    });
}

pub(crate) fn lock(mutex: u32, name: &'static str) {
    assert!(with(|w| w.current.is_none()) || fiber::on_fiber(), "lock '{name}' taken outside an agent");
    visible(OpKind::Lock, Object::Mutex(mutex));
    with(|w| {
        let state = w.explored_mut().locks.entry(mutex).or_default();
        state.taken = true;
        let hash = state.hash;
        w.absorb(hash);
    });
}

pub(crate) fn unlock(mutex: u32) {
    with(|w| {
        let history = match w.current {
            Some(me) => w.agent_state(me).history,
            None => 0,
        };
        let state = w.explored_mut().locks.entry(mutex).or_default();
        state.hash = mix(state.hash, history);
        let waits_in_line = w.current.filter(|me| !w.agents[me.0 as usize].explored.buffer.is_empty());
        if let Some(me) = waits_in_line {
            w.buffer(me, Buffered::Unlock { mutex });
        } else {
            w.release_lock(mutex);
            w.absorb(0xF1);
        }
    });
}

/// A store through a window, or (with old and new page) its rotation.
pub(crate) fn mapping_step(mapping: u32, rotation: Option<(u32, u32)>) {
    let op = if rotation.is_some() { OpKind::Exchange } else { OpKind::Load };
    visible(op, Object::Mutex(mapping));
    if let Some((old, new)) = rotation {
        with(|w| {
            w.absorb(u64::from(new));
            let change = word_hash(mapping, 0, u64::from(old)) ^ word_hash(mapping, 0, u64::from(new));
            w.explored_mut().memory_hash ^= change;
        });
    }
}

pub(super) fn before_wait(word: WordRef<'_>) {
    if with(|w| w.is_explored()) {
        visible(OpKind::Wait, word_object(word));
    }
}

pub(super) fn after_wait(end: WaitEnd) {
    with(|w| {
        if w.is_explored() {
            w.absorb(0xB0 + end as u64);
        }
    });
}

pub(super) fn before_wake(word: WordRef<'_>) {
    if with(|w| w.is_explored()) {
        visible(OpKind::Wake, word_object(word));
    }
}

pub(super) fn before_sleep() {
    if with(|w| w.is_explored()) {
        visible(OpKind::Sleep, Object::None);
    }
}
