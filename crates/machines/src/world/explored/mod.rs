//! The explored discipline: words behind store buffers, and a choice at every visible step.
//!
//! Rules: a store goes to its agent's own buffer and is no choice. A load, a locked operation, a
//! lock, a wait and a wake are visible: before one, the controller chooses the next agent. All of
//! these but the load, and a barrier, need an empty buffer. A barrier of all agents is no choice
//! either: it waits until each buffer has been empty. An unlock leaves the buffer in order, like a
//! store. Time passes only if nothing else can happen.
//!
//! The state of an agent is the hash of all that it observed and did, since it is deterministic
//! between observations. A lock's hash covers its policy state: each owner adds its history at
//! unlock, and the next owner observes it. Runs in the same state have the same future, so a
//! strategy may drop one of them.

pub(super) mod barrier;
pub(super) mod outside;
pub(super) mod program;
pub(super) mod step_log;

use crate::cells::{BulkCells, OwnedPage, Owner, PageCells, WordRef};
use crate::explorer::{AgentIx, Agents, Choice, MemoryModel, Object, OpKind, Point, Site};
use crate::fiber;
use crate::thread::{check_step, is_panicking};
use crate::wait::WaitEnd;
use crate::world::exploration::{Explored, NextStep};
use crate::world::hash::{bytes_hash, mix, word_hash};
use crate::world::machine::{Discipline, World, with};
use crate::world::slot::{AgentState, Moment, Slot, State};
use crate::world::store_buffer::{Buffered, overlay};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// The capacity of a store buffer in entries (real ones hold about 50).
const BUFFER_ENTRIES: usize = 16;

/// The step limit of a run. Reaching it is treated as an endless loop.
const STEP_LIMIT: u64 = 2_000_000;

impl World {
    pub(super) fn explored_mut(&mut self) -> &mut Explored {
        match &mut self.discipline {
            Discipline::Explored(e) => e,
            Discipline::Virtual(_) => panic!("exploration in a virtual-time machine"),
        }
    }

    fn is_explored(&self) -> bool {
        matches!(self.discipline, Discipline::Explored(_))
    }

    /// Whether the machine is built or ends. What is built is the same in each schedule, and no
    /// state is read after the run. The hashes of memory and locks therefore begin with the run.
    #[inline]
    fn is_outside_of_run(&self) -> bool {
        !self.is_running && !self.rests
    }

    fn agent_state(&mut self, agent: AgentIx) -> &mut AgentState {
        &mut self.slot(agent).explored
    }

    /// Whether the running agent has stores in its buffer.
    fn holds_stores(&mut self) -> bool {
        self.current.is_some_and(|me| !self.agent_state(me).buffer.is_empty())
    }

    /// Returns the place in the program of the running agent's step.
    fn site(&mut self) -> Site {
        self.current.map_or(Site::NONE, |me| self.agent_state(me).site)
    }

    pub(super) fn absorb(&mut self, value: u64) {
        if let Some(agent) = self.current {
            let state = self.agent_state(agent);
            state.history = mix(state.history, value);
        }
    }

    /// Returns the lock that an agent waits for when no agent can move.
    pub(super) fn lock_waited_for(&self, slot: &Slot) -> Option<String> {
        let Discipline::Explored(explored) = &self.discipline else { return None };
        match slot.explored.pending {
            Some((OpKind::Lock, Object::Mutex(id))) if slot.state == State::Ready => {
                let lock = explored.locks.get(id).filter(|l| l.taken)?;
                Some(format!("the lock '{}'", lock.name))
            }
            _ => None,
        }
    }

    /// Releases agents that wait for locks which are never dropped. Returns whether there were any.
    pub(super) fn break_locks(&mut self) -> bool {
        let waits = self.agents.iter().any(|s| self.lock_waited_for(s).is_some());
        match &mut self.discipline {
            Discipline::Explored(e) if waits && !e.locks_broken => {
                e.locks_broken = true;
                true
            }
            _ => false,
        }
    }

    /// Lists the possible choices: first those that continue the last agent, then the other agents,
    /// then the flushes. Returns an agent whose step is no choice, if there is one.
    fn list_choices(&mut self) -> Option<AgentIx> {
        let Discipline::Explored(e) = &mut self.discipline else { return None };
        e.choices.clear();
        let last = e.last.map_or(usize::MAX, |last| usize::from(last.0));
        if let Some(slot) = self.agents.get(last) {
            match e.next_step(slot) {
                NextStep::Local => return e.last,
                NextStep::Choice => e.choices.push(Choice::Run(AgentIx(last as u16))),
                NextStep::None => {}
            }
        }
        for (index, slot) in self.agents.iter().enumerate() {
            if index == last {
                continue;
            }
            match e.next_step(slot) {
                NextStep::Local => return Some(AgentIx(index as u16)),
                NextStep::Choice => e.choices.push(Choice::Run(AgentIx(index as u16))),
                NextStep::None => {}
            }
        }
        if e.filled_buffers > 0 {
            e.list_flushes(&self.agents, last);
        }
        None
    }

    /// Returns the hash of the state; 0 where states have none.
    pub(super) fn state_hash(&self) -> u64 {
        let Discipline::Explored(explored) = &self.discipline else { return 0 };
        let sleepers = (self.crowded_words > 0).then_some(&self.sleepers);
        let memory_hash = explored.memory_hash(self.now);
        Moment { agents: &self.agents, sleepers, memory_hash }.state()
    }

    /// Carries out choices until one lets an agent take its pending step.
    fn choose(&mut self) -> Option<AgentIx> {
        loop {
            if let Some(agent) = self.list_choices() {
                self.steps += 1;
                return Some(agent);
            }
            let choice = match self.explored_mut().choices.len() {
                0 => {
                    self.pass_time()?;
                    continue;
                }
                1 => self.explored_mut().choices[0],
                _ => self.choose_in_fixed_order().unwrap_or_else(|| self.choose_next()),
            };
            match choice {
                Choice::Run(agent) => {
                    self.explored_mut().last = Some(agent);
                    self.steps += 1;
                    return Some(agent);
                }
                Choice::Flush(agent) => self.flush_one(agent),
                Choice::Find(..) => panic!("a value that a read finds is no choice between steps"),
            }
        }
    }

    /// Removes the agents of a finished run but keeps the memory of their buffers.
    pub(super) fn end_exploration(&mut self) {
        if let Discipline::Explored(e) = &mut self.discipline {
            e.last = None;
            e.filled_buffers = 0;
            let buffers = self.agents.iter_mut().map(|s| std::mem::take(&mut s.explored.buffer));
            e.spare_buffers.extend(buffers.filter(|b| b.is_empty() && b.capacity() > 0));
        }
    }

    /// Returns the choice of a part that is not explored: its agent moves if it can. The rest of a
    /// program's run is such a part once the run has failed.
    fn choose_in_fixed_order(&mut self) -> Option<Choice> {
        let has_failed = self.has_clocks() && (self.stopped || self.report.panicked_first);
        let explored = self.explored_mut();
        if has_failed {
            return Some(explored.choices[0]);
        }
        let (agent, _) = explored.fixed_order?;
        let own = [Choice::Run(agent), Choice::Flush(agent)];
        let own = own.into_iter().find(|choice| explored.choices.contains(choice));
        Some(own.unwrap_or(explored.choices[0]))
    }

    fn choose_next(&mut self) -> Choice {
        let step = self.steps;
        let sleepers = (self.crowded_words > 0).then_some(&self.sleepers);
        let Discipline::Explored(explored) = &mut self.discipline else {
            panic!("a choice outside an exploration")
        };
        let current = explored.last.filter(|a| explored.choices.contains(&Choice::Run(*a)));
        let memory_hash = explored.memory_hash(self.now);
        let agents = &Moment { agents: &self.agents, sleepers, memory_hash };
        let point = Point { choices: &explored.choices, agents, current, step };
        let index = explored.controller.choose(&point);
        *explored.choices.get(index).unwrap_or(&explored.choices[0])
    }

    /// Returns the value of the calling agent's read of hostile memory that holds `actual`. The
    /// strategy chooses it among the values at which checks change their result.
    fn find(&mut self, actual: u64) -> u64 {
        let Some(me) = self.current else { return actual };
        self.relate_all();
        let drawn = mix(self.state_hash(), actual);
        let up = actual.wrapping_add(1);
        let values =
            [actual, up, actual.wrapping_sub(1), 0, u64::MAX, actual.wrapping_add(1 << 32), drawn];
        let choices = &mut self.explored_mut().choices;
        choices.clear();
        for (index, value) in values.iter().enumerate() {
            if !values[..index].contains(value) {
                choices.push(Choice::Find(me, *value));
            }
        }
        match self.choose_next() {
            Choice::Find(_, value) => value,
            _ => actual,
        }
    }

    /// Advances time to the earliest deadline, because nothing else can happen, and ends every
    /// sleep until then: the strategy chooses which of these agents moves first. A deadline of
    /// background work expires only if one exists, at its time or later, that is not.
    fn pass_time(&mut self) -> Option<()> {
        if self.scripts_live == 0 && !self.stopped && self.may_stop() {
            return None;
        }
        let deadlines = || self.agents.iter().filter_map(Slot::deadline);
        deadlines().find(|deadline| !deadline.in_background)?;
        let earliest = deadlines().map(|deadline| deadline.time).min()?;
        self.now = self.now.max(earliest.0);
        self.relate_all();
        for index in 0..self.agents.len() {
            let deadline = self.agents[index].deadline();
            if deadline.is_some_and(|deadline| deadline.time <= earliest) {
                self.end_sleep(AgentIx(index as u16), WaitEnd::TimedOut, 0);
            }
        }
        Some(())
    }

    pub(super) fn pick_chosen(&mut self) -> Option<AgentIx> {
        let next = self.explored_mut().next.take();
        next.or_else(|| self.choose())
    }

    fn flush_one(&mut self, agent: AgentIx) {
        let state = self.agent_state(agent);
        let Some(entry) = state.buffer.pop_front() else { return };
        let is_drained = state.buffer.is_empty();
        state.buffer_hash = state.buffer.iter().fold(0, |h, b| mix(h, b.hash()));
        self.explored_mut().filled_buffers -= usize::from(is_drained);
        if is_drained && self.explored_mut().barriers > 0 {
            self.end_barriers(agent);
        }
        self.log(|log, steps| log.visible((agent, entry.site()), entry.touches(), steps));
        self.report_access(agent, entry.op(), entry.touches().0);
        self.commit(&entry, Some(agent));
        self.wake_joiners(agent);
    }

    /// Carries out a store of `by`.
    fn commit(&mut self, entry: &Buffered, by: Option<AgentIx>) {
        match entry {
            Buffered::Word { page, index, value, released, .. } => {
                self.commit_word(page, *index, *value, by);
                self.clock_publish(page, *index, released);
            }
            Buffered::Bulk { bulk, start, data, .. } => {
                self.commit_bulk(bulk, *start, data, by);
                self.note_change(by);
            }
            Buffered::Unlock { mutex, .. } => self.release_lock(*mutex, by),
        }
    }

    #[inline]
    fn report_access(&mut self, agent: AgentIx, op: OpKind, object: Object) {
        let explored = self.explored_mut();
        if explored.is_observed {
            explored.controller.touched(agent, op, object);
        }
    }

    pub(super) fn commit_word(
        &mut self,
        page: &PageCells,
        index: u32,
        value: u64,
        by: Option<AgentIx>,
    ) {
        // One agent runs at a time, so this needs no locked operation.
        if self.is_outside_of_run() {
            page.cells().put(index as usize, value);
            return self.note_change(None);
        }
        let old = page.cell(index as usize).load(Ordering::Relaxed);
        if old != value {
            page.cells().put(index as usize, value);
            self.change_memory(
                word_hash(page.id, index, old) ^ word_hash(page.id, index, value),
                by,
            );
            self.note_change(by);
        }
    }

    /// Changes the hash of memory by a write of `by`.
    #[inline]
    fn change_memory(&mut self, change: u64, by: Option<AgentIx>) {
        self.explored_mut().memory_hash ^= change;
        if let Some(agent) = by {
            self.agent_state(agent).wrote ^= change;
        }
    }

    fn commit_bulk(&mut self, bulk: &BulkCells, start: usize, data: &[u8], by: Option<AgentIx>) {
        bulk.put(start, data);
        if self.is_outside_of_run() {
            return;
        }
        let explored = self.explored_mut();
        let hash = explored.bulk_hashes.at(bulk.id);
        let old = *hash;
        *hash = mix(mix(old ^ u64::from(bulk.id), start as u64), bytes_hash(data));
        let change = old ^ *hash;
        self.change_memory(change, by);
    }

    #[inline]
    fn release_lock(&mut self, mutex: u32, by: Option<AgentIx>) {
        self.explored_mut().locks.at(mutex).taken = false;
        self.note_change(by);
    }

    /// Takes the lock for the calling agent, if there is one, unless it is taken.
    #[inline]
    pub(super) fn take_lock(&mut self, mutex: u32, name: &'static str) -> bool {
        self.log(|log, _| log.name(Object::Mutex(mutex), &format!("the lock '{name}'")));
        let state = self.explored_mut().locks.at(mutex);
        let is_free = !std::mem::replace(&mut state.taken, true);
        state.name = name;
        let hash = state.hash;
        if is_free {
            self.absorb(hash);
            self.clock_lock(mutex);
        } else {
            self.absorb(0x7A);
        }
        is_free
    }

    fn buffer(&mut self, agent: AgentIx, entry: Buffered) {
        let hash = entry.hash();
        self.log(|log, steps| log.buffered((agent, entry.site()), entry.touches(), steps));
        let state = self.agent_state(agent);
        state.history = mix(state.history, hash);
        state.buffer_hash = mix(state.buffer_hash, hash);
        let was_drained = state.buffer.is_empty();
        state.buffer.push_back(entry);
        self.explored_mut().filled_buffers += usize::from(was_drained);
    }

    /// Returns the newest value of the word in the agent's own buffer.
    fn forwarded(&mut self, agent: AgentIx, word: WordRef<'_>) -> Option<u64> {
        self.agent_state(agent).buffer.iter().rev().find_map(|b| match b {
            Buffered::Word { page, index, value, .. }
                if page.id == word.page.id && *index == word.index =>
            {
                Some(*value)
            }
            _ => None,
        })
    }

    /// Starts a visible step of the calling agent. Returns whether it is the agent's turn.
    fn comes_to(&mut self, op: OpKind, object: Object) -> bool {
        let Some(me) = self.current else { return true };
        self.agent_state(me).pending = Some((op, object));
        if self.steps >= STEP_LIMIT {
            // Its destructors take their steps at once: a second panic would end the process.
            if is_panicking() {
                return true;
            }
            panic!("more than {STEP_LIMIT} steps: some loop polls without sleeping or yielding");
        }
        let next = self.choose();
        if next == Some(me) {
            return true;
        }
        self.slot(me).state = State::Ready;
        self.explored_mut().next = next;
        false
    }

    /// Records a visible step in the history of the calling agent, in the log and for the
    /// controller.
    fn record_step(&mut self, op: OpKind, object: Object) {
        let Some(me) = self.current else { return };
        // The history of a barrier or a store is the same whether or not it is a step.
        if !matches!(op, OpKind::Fence | OpKind::FenceOfAgents | OpKind::Store) {
            self.absorb(op as u64 + 1);
        }
        let by = (me, self.agent_state(me).site);
        self.log(|log, steps| log.step(by, (op, object), steps.saturating_sub(1)));
        self.report_access(me, op, object);
    }

    /// Reports an event that relates agents without an access to an object.
    pub(super) fn relate_all(&mut self) {
        if let Discipline::Explored(e) = &mut self.discipline {
            e.controller.related_all();
        }
    }

    /// Adds bytes to the history of the calling agent, if there is one.
    fn absorb_bytes(&mut self, bytes: &[u8]) {
        if self.current.is_some() {
            self.absorb(bytes_hash(bytes));
        }
    }

    /// Returns the calling agent if its next store goes to its buffer. A store to a full buffer
    /// waits, as a step, until the buffer is empty, because flushes are choices.
    fn buffering(&mut self) -> Option<AgentIx> {
        let me = self.current?;
        let buffers = self.explored_mut().model == MemoryModel::TotalStoreOrder;
        (buffers && self.agent_state(me).buffer.len() < BUFFER_ENTRIES).then_some(me)
    }
}

fn word_object(word: WordRef<'_>) -> Object {
    Object::Word { page: word.page.id, index: word.index }
}

/// Takes a visible step of the calling agent: the controller chooses other agents until it is this
/// agent's turn, then `act` runs.
pub(super) fn visible<R>(op: OpKind, object: Object, act: impl FnOnce(&mut World) -> R) -> R {
    visible_unless(op, object, |_| None, act)
}

/// Takes a visible step as `visible` does, unless the agent can `answer` by itself.
#[inline]
pub(super) fn visible_unless<R>(
    op: OpKind,
    object: Object,
    answer: impl FnOnce(&mut World) -> Option<R>,
    act: impl FnOnce(&mut World) -> R,
) -> R {
    check_step();
    let mut act = Some(act);
    let at_once = with(|w| {
        // Before and after a run, when no other agent moves and nothing is recorded.
        if w.current.is_none() {
            return act.take().map(|act| act(w));
        }
        let answered = answer(w);
        if answered.is_some() || !w.comes_to(op, object) {
            return answered;
        }
        w.record_step(op, object);
        act.take().map(|act| act(w))
    });
    at_once.unwrap_or_else(|| {
        fiber::suspend();
        let act = act.take().expect("a step is taken once");
        with(|w| {
            w.record_step(op, object);
            act(w)
        })
    })
}

/// Returns the number of a new page, run of bytes, lock or window: its maker in the upper half (0
/// before the run), its number among the maker's in the lower half. Agents do not race for numbers.
pub fn next_object_id() -> u32 {
    with(|w| {
        let maker = w.current.map_or(0, |me| u32::from(me.0) + 1);
        let made = match w.current {
            Some(me) => &mut w.agent_state(me).objects,
            None => &mut w.explored_mut().objects,
        };
        *made += 1;
        assert!(*made >> 16 == 0 && maker >> 16 == 0, "an agent made more than 65,535 objects");
        maker << 16 | *made
    })
}

/// Records that the agent observes something other than a word: the clock, or the stop.
pub(super) fn observe(w: &mut World, value: u64) {
    if w.is_explored() {
        w.absorb(value);
    }
}

/// Replaces the calling agent's history by `position`. Without effect while races are looked for,
/// because the clocks depend on the history.
pub fn forget_history(position: u32) {
    with(|w| {
        if w.has_clocks() {
            return;
        }
        let Some(me) = w.current else { return };
        let state = w.agent_state(me);
        let last = std::mem::replace(&mut state.position, position);
        assert!(
            last < position,
            "an agent goes from position {last} to {position}: they must rise"
        );
        state.history = mix(mix(0xF0, u64::from(position)), u64::from(state.objects));
        let explored = w.explored_mut();
        explored.forgets = true;
        if explored.is_observed {
            explored.controller.forgot(me, position);
        }
    });
}

/// Returns the initial history of a new agent. With several parents, its number by itself does not
/// identify its body.
pub(super) fn seed(w: &mut World) -> AgentState {
    observe(w, 0x5A);
    let parent = w.current.map(|parent| w.agent_state(parent));
    let (history, has_acted) = parent.map_or((0, false), |p| (p.history, p.has_acted()));
    if has_acted {
        w.relate_all();
    }
    let buffer = match &mut w.discipline {
        Discipline::Explored(e) => e.spare_buffers.pop().unwrap_or_default(),
        Discipline::Virtual(_) => VecDeque::new(),
    };
    AgentState { history, buffer, ..AgentState::default() }
}

/// Loads a word; `order` matters only to the clocks.
///
/// A load that the agent's own store buffer answers is a step too. Else no flush could come between
/// a store and a load of the same word, and the load would never find the store of another agent.
#[inline(never)]
fn load_as(word: WordRef<'_>, order: Ordering) -> u64 {
    visible(OpKind::Load, word_object(word), |w| {
        let own = w.current.and_then(|me| w.forwarded(me, word));
        // The same history for both, because no agent can tell the two apart.
        let value = own.unwrap_or_else(|| word.cell().load(Ordering::Relaxed));
        w.absorb(value);
        if own.is_none() {
            w.clock_load(word, order);
        }
        w.log(|log, _| log.value(value));
        value
    })
}

/// Loads a word that a hostile process writes. Even the agent's own store buffer does not determine
/// the value.
fn load_hostile(word: WordRef<'_>) -> u64 {
    visible(OpKind::Load, word_object(word), |w| {
        let value = w.find(word.cell().load(Ordering::Relaxed));
        w.absorb(value);
        value
    })
}

/// Stores to a word; `order` matters only to the clocks.
#[inline(never)]
fn store_as<O: Owner>(page: &OwnedPage<O>, index: u32, value: u64, order: Ordering) {
    let word = WordRef { page, index };
    let entry = |w: &mut World| Buffered::Word {
        page: page.keep(),
        index: word.index,
        value,
        released: w.clock_release(order),
        site: w.site(),
    };
    store_entry(word_object(word), entry, |w| {
        w.commit_word(word.page, word.index, value, None);
        w.clock_publish(word.page, word.index, &None);
    });
}

/// Stores to the agent's buffer, or to memory as a step. The history is the same. Outside of a run
/// `direct` stores.
fn store_entry(
    object: Object,
    entry: impl Fn(&mut World) -> Buffered,
    direct: impl FnOnce(&mut World),
) {
    let own = |w: &mut World| {
        let me = w.buffering()?;
        let entry = entry(w);
        w.buffer(me, entry);
        Some(())
    };
    visible_unless(OpKind::Store, object, own, |w| {
        if w.current.is_none() {
            return direct(w);
        }
        let entry = entry(w);
        w.absorb(entry.hash());
        if let Some(value) = entry.touches().1 {
            w.log(|log, _| log.value(value));
        }
        w.commit(&entry, w.current);
    });
}

#[inline(never)]
fn exchange(word: WordRef<'_>, new: impl FnOnce(u64) -> u64) -> u64 {
    update_as(word, (Ordering::AcqRel, Ordering::Acquire), |old| Some(new(old)))
}

/// Replaces a word's value unless `new` returns `None`, and returns the previous one. The orders
/// say what an update and a load do; they matter only to the clocks.
pub fn update_as(
    word: WordRef<'_>,
    (update, load): (Ordering, Ordering),
    new: impl FnOnce(u64) -> Option<u64>,
) -> u64 {
    visible(OpKind::Exchange, word_object(word), |w| {
        let old = word.cell().load(Ordering::Relaxed);
        w.absorb(old);
        let new = new(old);
        w.log(|log, _| log.value(new.unwrap_or(old)));
        match new {
            Some(new) => {
                w.commit_word(word.page, word.index, new, w.current);
                w.clock_update(word, update);
            }
            None => w.clock_load(word, load),
        }
        old
    })
}

/// Replaces a word's value and wakes its waiters, without a choice of the controller.
pub fn update_at_once(word: WordRef<'_>, new: impl Fn(u64) -> u64) {
    with(|w| {
        let Some(me) = w.current else { return };
        while !w.agent_state(me).buffer.is_empty() {
            w.flush_one(me);
        }
        let old = word.cell().load(Ordering::Relaxed);
        w.absorb(old);
        w.report_access(me, OpKind::Exchange, word_object(word));
        w.commit_word(word.page, word.index, new(old), Some(me));
        w.clock_update(word, Ordering::AcqRel);
        w.wake(word.key(), u32::MAX, 0);
    });
}

#[inline(never)]
fn add_and_test(word: WordRef<'_>, value: u64, mask: u64) -> bool {
    visible(OpKind::Add, word_object(word), |w| {
        let old = word.cell().load(Ordering::Relaxed);
        let (new, was_set) = (old.wrapping_add(value), old & mask != 0);
        w.absorb(u64::from(was_set));
        w.log(|log, _| log.value(new));
        w.commit_word(word.page, word.index, new, w.current);
        w.clock_add(word);
        was_set
    })
}

/// Executes a full barrier, which completes when the agent's buffer is empty.
#[inline(never)]
fn fence() {
    let drained = |w: &mut World| (!w.holds_stores()).then(|| w.absorb(0xFE));
    visible_unless(OpKind::Fence, Object::None, drained, |w| w.absorb(0xFE));
    with(|w| w.clock_fence(Ordering::SeqCst));
}

/// Waits until the agent's buffer is empty, on an explored machine.
pub(super) fn empty_buffer() {
    if with(|w| w.is_explored() && w.holds_stores()) {
        fence();
    }
}

#[inline(never)]
fn bulk_read(bulk: &BulkCells, start: usize, out: &mut [u8]) {
    visible(OpKind::Load, Object::Bulk(bulk.id), |w| {
        bulk.copy_out(start, out);
        if let Some(me) = w.current {
            overlay(&w.agent_state(me).buffer, bulk.id, start, out);
        }
        w.absorb_bytes(out);
    });
}

/// Reads bytes that a hostile process writes: the actual bytes, the same with another first word,
/// or entirely different bytes.
pub fn bulk_read_untrusted(bulk: &BulkCells, start: usize, out: &mut [u8]) {
    visible(OpKind::Load, Object::Bulk(bulk.id), |w| {
        bulk.copy_out(start, out);
        let mut head = [0; 8];
        let taken = out.len().min(head.len());
        head[..taken].copy_from_slice(&out[..taken]);
        let actual = u64::from_le_bytes(head);
        let found = w.find(actual);
        match found.wrapping_sub(actual) {
            0 => {}
            near if near == 1 || near == u64::MAX || near == 1 << 32 => {
                out[..taken].copy_from_slice(&found.to_le_bytes()[..taken]);
            }
            _ => fill_from(found, out),
        }
        w.absorb_bytes(out);
    });
}

/// Fills `out` with zeros, ones, or pseudo-random numbers that start with `found`.
fn fill_from(found: u64, out: &mut [u8]) {
    let mut value = found;
    for chunk in out.chunks_mut(8) {
        let taken = chunk.len();
        chunk.copy_from_slice(&value.to_le_bytes()[..taken]);
        if !matches!(found, 0 | u64::MAX) {
            value = mix(value, 0x5EED);
        }
    }
}

#[inline(never)]
fn bulk_write(bulk: &std::sync::Arc<BulkCells>, start: usize, data: &[u8]) {
    let entry = |w: &mut World| Buffered::Bulk {
        bulk: std::sync::Arc::clone(bulk),
        start,
        data: data.to_vec(),
        site: w.site(),
    };
    store_entry(Object::Bulk(bulk.id), entry, |w| {
        w.commit_bulk(bulk, start, data, None);
        w.note_change(None);
    });
}

/// Replaces a number in one step: a locked operation, which drains the agent's store buffer.
pub fn bulk_update(bulk: &BulkCells, start: usize, bytes: usize, new: impl Fn(u64) -> u64) -> u64 {
    visible(OpKind::Exchange, Object::Bulk(bulk.id), |w| {
        let mut old = [0; 8];
        bulk.copy_out(start, &mut old[..bytes]);
        let old = u64::from_le_bytes(old);
        w.absorb(old);
        let new = new(old);
        w.log(|log, _| log.value(new));
        w.commit_bulk(bulk, start, &new.to_le_bytes()[..bytes], w.current);
        old
    })
}

#[inline(never)]
fn lock(mutex: u32, name: &'static str) {
    let outside_of_run = with(|w| w.current.is_none().then(|| w.take_lock(mutex, name)));
    let taken = outside_of_run.unwrap_or_else(|| {
        assert!(fiber::on_fiber(), "lock '{name}' taken outside an agent");
        visible(OpKind::Lock, Object::Mutex(mutex), |w| w.take_lock(mutex, name))
    });
    assert!(taken, "the lock '{name}' is never dropped: its owner waits as well");
}

#[inline(never)]
fn unlock(mutex: u32) {
    with(|w| {
        if w.is_outside_of_run() {
            return w.release_lock(mutex, None);
        }
        let history = match w.current {
            Some(me) => w.agent_state(me).history,
            None => 0,
        };
        let explored = w.explored_mut();
        let state = explored.locks.at(mutex);
        let (old, new) = (state.hash, mix(state.hash, history));
        state.hash = new;
        let change = word_hash(mutex, 1, old) ^ word_hash(mutex, 1, new);
        explored.locks_hash ^= change;
        if let Some(me) = w.current {
            w.agent_state(me).wrote ^= change;
        }
        w.clock_unlock(mutex);
        let waits_in_line =
            w.current.filter(|me| !w.agents[me.0 as usize].explored.buffer.is_empty());
        if let Some(me) = waits_in_line {
            let site = w.site();
            w.buffer(me, Buffered::Unlock { mutex, site });
        } else {
            w.release_lock(mutex, w.current);
            // The same history with and without earlier stores, because no agent can tell the
            // two apart.
            w.absorb(Buffered::Unlock { mutex, site: Site::NONE }.hash());
            if let Some(me) = w.current {
                w.report_access(me, OpKind::Unlock, Object::Mutex(mutex));
            }
        }
    });
}

/// Runs `act`, under exploration as a visible step.
fn visible_if_explored<R>(op: OpKind, object: Object, act: impl FnOnce(&mut World) -> R) -> R {
    if with(|w| w.is_explored()) { visible(op, object, act) } else { with(act) }
}

pub(super) fn at_wait<R>(word: WordRef<'_>, look: impl FnOnce(&mut World) -> R) -> R {
    visible_if_explored(OpKind::Wait, word_object(word), look)
}

pub(super) fn after_wait(end: WaitEnd) {
    with(|w| observe(w, 0xB0 + end as u64));
}

pub(super) fn at_wake(word: WordRef<'_>, wake: impl FnOnce(&mut World)) {
    visible_if_explored(OpKind::Wake, word_object(word), wake);
}

pub(super) fn at_sleep<R>(look: impl FnOnce(&mut World) -> R) -> R {
    visible_if_explored(OpKind::Sleep, Object::None, look)
}
