//! The state of an agent of a world: its sleep, and under exploration its history and store buffer.

use super::hash::{Map, mix};
use super::run_queue::QueuedTimer;
use super::store_buffer::Buffered;
use crate::explorer::{AgentIx, Agents, Choice, Object, OpKind, Site, WaitsFor};
use crate::fiber::{self, Fiber, LeftAt};
use crate::thread::Belongings;
use crate::wait::{Deadline, WaitEnd};
use smallvec::SmallVec;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    Running,
    Blocked,
    Finished,
}

/// What a run does about an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A straight-line agent. The run waits for it.
    Script,
    /// A straight-line agent that is stopped at the end of the run.
    Worker,
    /// It acts in turns and is stopped at the end of the run; of a run that rests, between two
    /// turns.
    Service,
}

impl Slot {
    /// Returns whether it is a service inside a turn.
    pub(super) fn is_in_turn(&self) -> bool {
        let between = self.wait.is_some() && self.what.is_empty();
        self.role == Role::Service
            && self.state != State::Finished
            && !(self.state == State::Blocked && between)
    }

    /// Returns the deadline of its sleep.
    pub(super) fn deadline(&self) -> Option<Deadline> {
        let wait = self.wait.as_ref().filter(|_| self.state == State::Blocked);
        wait.and_then(|wait| wait.deadline)
    }

    /// Takes its fiber back. It has none while it runs, so there is nothing to drop.
    #[inline]
    pub(super) fn return_fiber(&mut self, fiber: Box<Fiber>) {
        self.left_at = fiber::left_at();
        std::mem::forget(self.fiber.replace(fiber));
    }

    /// Starts to load what a switch to the agent touches.
    #[inline]
    pub(super) fn prefetch(&self) {
        if let Some(fiber) = &self.fiber {
            fiber::prefetch(std::ptr::from_ref(&**fiber));
        }
        self.left_at.prefetch();
    }

    /// Ends its sleep with `end`. Returns the key on which it slept.
    #[inline]
    pub(super) fn end_wait(&mut self, end: WaitEnd) -> Option<usize> {
        self.wait_end = end;
        self.wait_over = self.wait.is_some();
        self.wait.take().map(|wait| wait.key)
    }
}

/// In the order of use: a turn reads the first two cache lines.
#[repr(C, align(64))]
pub(super) struct Slot {
    pub(super) role: Role,
    pub(super) state: State,
    pub(super) wait_end: WaitEnd,
    /// Whether its sleep has ended and it has not run since.
    pub(super) wait_over: bool,
    /// The number of its entry in the run queue, so that an old timer cannot end a new sleep.
    pub(super) entry: u64,
    /// Its name, locks and recorder. While the agent runs, the run loop's.
    pub(super) belongings: Belongings,
    /// The key and the deadline of its sleep.
    pub(super) wait: Option<Wait>,
    pub(super) fiber: Option<Box<Fiber>>,
    /// Where its fiber has left, while it is suspended.
    pub(super) left_at: LeftAt,
    /// The reason of its sleep, or of its last one.
    pub(super) what: String,
    pub(super) queued_timer: QueuedTimer,
    /// The number of threads that it has named.
    pub(super) children: u32,
    /// The address of the payload of its last recorded panic; 0 for none.
    pub(super) reported_panic: usize,
    pub(super) explored: AgentState,
}

/// The agents that sleep on one key, in the order in which they fell asleep.
pub(super) type Sleepers = SmallVec<[AgentIx; 4]>;

pub(super) struct Wait {
    pub(super) key: usize,
    pub(super) deadline: Option<Deadline>,
}

/// The key of sleeps that only the clock ends. No word has this address.
pub(super) const CLOCK_KEY: usize = 0;

/// The key of waits of polling loops. No word has this address.
pub(super) const SPIN_KEY: usize = 1;

impl Wait {
    pub(super) fn deadline_only(&self) -> bool {
        self.key == CLOCK_KEY
    }

    /// Returns the agent whose end is awaited.
    pub(super) fn joined(&self) -> Option<AgentIx> {
        u16::try_from(usize::MAX - self.key).ok().map(AgentIx)
    }
}

/// Returns the key of sleeps until `agent` ends. No word has such a high address.
pub(super) fn join_key(agent: AgentIx) -> usize {
    usize::MAX - usize::from(agent.0)
}

#[derive(Default)]
pub(super) struct AgentState {
    pub(super) history: u64,
    pub(super) pending: Option<(OpKind, Object)>,
    pub(super) buffer: VecDeque<Buffered>,
    /// Hash of the buffer's content in order.
    pub(super) buffer_hash: u64,
    /// The share of its writes in the hash of memory and locks.
    pub(super) wrote: u64,
    /// The agents for whose stores its barrier of all agents still waits.
    pub(super) awaited: Vec<AgentIx>,
    /// The number of objects that it has created.
    pub(super) objects: u32,
    /// The last position that replaced its history; 0 for none.
    pub(super) position: u32,
    /// The place in the program of its step.
    pub(super) site: Site,
    /// How often it has changed memory.
    pub(super) own_changes: u64,
    /// How often others had changed memory when it last polled.
    pub(super) polled_changes: u64,
}

impl AgentState {
    /// Returns whether it has begun a visible step or has stored.
    pub(super) fn has_acted(&self) -> bool {
        self.pending.is_some() || !self.has_drained() || self.wrote != 0
    }

    /// Returns whether all its stores have left the buffer.
    pub(super) fn has_drained(&self) -> bool {
        self.buffer.is_empty()
    }
}

/// An explored machine between two steps.
pub(super) struct Moment<'a> {
    pub(super) agents: &'a [Slot],
    /// The sleepers of each key, if their order is part of the state: a wake of one takes the
    /// first.
    pub(super) sleepers: Option<&'a Map<usize, Sleepers>>,
    /// Hash of memory and the clock.
    pub(super) memory_hash: u64,
}

impl Moment<'_> {
    fn slot(&self, agent: AgentIx) -> &Slot {
        &self.agents[usize::from(agent.0)]
    }

    /// Returns the hash of the agents, and of `memory`.
    fn hash<'s>(&self, memory: u64, agents: impl Iterator<Item = &'s Slot> + Clone) -> u64 {
        let mut hash = memory;
        for slot in agents.clone() {
            // A running agent counts as ready: its state is that of an agent that was
            // switched away.
            let state = if slot.state == State::Running { State::Ready } else { slot.state };
            let end = if slot.wait_over { slot.wait_end as u64 + 1 } else { 0 };
            hash = mix(hash, slot.explored.history ^ (state as u64 | end << 2));
            hash = mix(hash, slot.explored.buffer_hash);
            let awaited = slot.explored.awaited.iter();
            hash = awaited.fold(hash, |hash, agent| mix(hash, 0xFD00_0000 | u64::from(agent.0)));
        }
        let Some(sleepers) = self.sleepers else { return hash };
        mix(
            hash,
            agents.fold(0, |hash, slot| {
                let list = slot.wait.as_ref().and_then(|w| sleepers.get(&w.key));
                list.map_or(hash, |l| l.iter().fold(mix(hash, 0x51), |h, a| mix(h, u64::from(a.0))))
            }),
        )
    }
}

impl Agents for Moment<'_> {
    fn state(&self) -> u64 {
        self.hash(self.memory_hash, self.agents.iter())
    }

    fn state_of(&self, agents: u64) -> u64 {
        let chosen = self.agents.iter().enumerate();
        let chosen = chosen.filter(|(index, _)| *index < 64 && agents & 1 << index != 0);
        let chosen = chosen.map(|(_, slot)| slot);
        self.hash(chosen.clone().fold(0, |hash, slot| hash ^ slot.explored.wrote), chosen)
    }

    fn count(&self) -> usize {
        self.agents.len()
    }

    fn step(&self, choice: Choice) -> (OpKind, Object) {
        let agent = &self.slot(choice.agent()).explored;
        let oldest = agent.buffer.front().filter(|_| matches!(choice, Choice::Flush(_)));
        let of_step = || agent.pending.unwrap_or((OpKind::Start, Object::None));
        oldest.map_or_else(of_step, |entry| (entry.op(), entry.touches().0))
    }

    fn site(&self, choice: Choice) -> Site {
        let agent = &self.slot(choice.agent()).explored;
        match choice {
            Choice::Flush(_) => agent.buffer.front().map_or(Site::NONE, Buffered::site),
            _ => agent.site,
        }
    }

    fn waits_for(&self, agent: AgentIx) -> WaitsFor {
        let slot = self.slot(agent);
        match (slot.state, &slot.wait, slot.explored.pending) {
            (State::Blocked, Some(wait), _) if wait.deadline_only() => WaitsFor::Clock,
            (State::Blocked, Some(wait), pending) => match (wait.joined(), pending) {
                (Some(agent), _) => WaitsFor::End(agent),
                (None, Some((_, word))) => WaitsFor::Word(word),
                (None, None) => WaitsFor::Nothing,
            },
            (State::Ready | State::Running, _, Some((OpKind::Lock, Object::Mutex(mutex)))) => {
                WaitsFor::Lock(mutex)
            }
            (State::Ready | State::Running, _, Some((OpKind::FenceOfAgents, _))) => {
                let first = slot.explored.awaited.first();
                first.map_or(WaitsFor::Nothing, |other| WaitsFor::Stores(*other))
            }
            _ => WaitsFor::Nothing,
        }
    }
}
