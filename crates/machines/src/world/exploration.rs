//! An explored machine's state besides its agents: controller, memory hashes, locks.

use super::happens_before::HappensBefore;
use super::hash::mix;
use super::slot::{Slot, State};
use super::store_buffer::Buffered;
use super::table::Table;
use crate::explorer::{AgentIx, Choice, Controller, MemoryModel, Object, OpKind, StepLog};
use std::collections::VecDeque;

/// The state of the explored discipline.
pub(super) struct Explored {
    pub(super) controller: Box<dyn Controller>,
    pub(super) model: MemoryModel,
    pub(super) memory_hash: u64,
    pub(super) bulk_hashes: Table<u64>,
    pub(super) locks: Table<LockState>,
    /// Hash of the policy state behind all locks. Part of a state once an agent has forgotten its
    /// history, which tells the same before.
    pub(super) locks_hash: u64,
    pub(super) forgets: bool,
    /// The number of agents with stores in their buffers.
    pub(super) filled_buffers: usize,
    /// The number of agents that wait for the stores of others ([`super::fence_of_agents`]).
    pub(super) barriers: usize,
    /// The number of objects created before the run.
    pub(super) objects: u32,
    pub(super) last: Option<AgentIx>,
    pub(super) next: Option<AgentIx>,
    pub(super) choices: Vec<Choice>,
    /// Whether accesses are reported to the controller.
    pub(super) is_observed: bool,
    /// No agent can move and some wait for locks: these agents are released and panic.
    pub(super) locks_broken: bool,
    /// The log of steps, while tracing is on.
    pub(super) log: Option<Box<StepLog>>,
    /// Empty buffers of ended agents, for reuse.
    pub(super) spare_buffers: Vec<VecDeque<Buffered>>,
    /// The clocks of a run in which data races are looked for.
    pub(super) clocks: Option<Box<HappensBefore>>,
    /// How often memory has changed, and the number of agents that wait for it to change.
    pub(super) changes: u64,
    pub(super) polling: u64,
    /// The agent that moves as long as it can, and how often it asked for that.
    pub(super) fixed_order: Option<(AgentIx, u32)>,
}

#[derive(Default)]
pub(super) struct LockState {
    pub(super) name: &'static str,
    pub(super) taken: bool,
    pub(super) hash: u64,
}

impl Explored {
    pub(super) fn new(controller: Box<dyn Controller>, model: MemoryModel) -> Explored {
        Explored {
            is_observed: controller.observes(),
            controller,
            model,
            memory_hash: 0,
            bulk_hashes: Table::default(),
            locks: Table::default(),
            locks_hash: 0,
            forgets: false,
            filled_buffers: 0,
            barriers: 0,
            objects: 0,
            last: None,
            next: None,
            choices: Vec::new(),
            locks_broken: false,
            log: None,
            spare_buffers: Vec::new(),
            clocks: None,
            changes: 0,
            polling: 0,
            fixed_order: None,
        }
    }

    /// Begins another machine, with the allocations of the lists of this one.
    pub(super) fn renew(&mut self, controller: Box<dyn Controller>, model: MemoryModel) {
        let mut old = std::mem::replace(self, Explored::new(controller, model));
        old.bulk_hashes.clear();
        old.locks.clear();
        old.choices.clear();
        (self.bulk_hashes, self.locks) = (old.bulk_hashes, old.locks);
        (self.choices, self.spare_buffers) = (old.choices, old.spare_buffers);
    }

    /// Returns the hash of memory, of locks where histories do not tell their state, and the clock.
    pub(super) fn memory_hash(&self, now: u64) -> u64 {
        let locks = if self.forgets { self.locks_hash } else { 0 };
        mix(self.memory_hash ^ locks, now)
    }

    /// Lists the flushes of the agents with stores in their buffers, `last`'s first.
    pub(super) fn list_flushes(&mut self, agents: &[Slot], last: usize) {
        let most = self.choices.len() + self.filled_buffers;
        if agents.get(last).is_some_and(|slot| !slot.explored.has_drained()) {
            self.choices.push(Choice::Flush(AgentIx(last as u16)));
        }
        for (index, slot) in agents.iter().enumerate() {
            if self.choices.len() == most {
                return;
            }
            if index != last && !slot.explored.has_drained() {
                self.choices.push(Choice::Flush(AgentIx(index as u16)));
            }
        }
    }

    /// Returns whether the agent has a step that can be taken now, and whether it is a choice.
    #[inline]
    pub(super) fn next_step(&self, slot: &Slot) -> NextStep {
        if !matches!(slot.state, State::Ready | State::Running) {
            return NextStep::None;
        }
        let Some((op, object)) = slot.explored.pending else { return NextStep::Local };
        let can_step = match op {
            OpKind::Fence => {
                return if slot.explored.has_drained() { NextStep::Local } else { NextStep::None };
            }
            OpKind::FenceOfAgents => {
                let has_ended = slot.explored.awaited.is_empty();
                return if has_ended { NextStep::Local } else { NextStep::None };
            }
            _ if slot.wait_over => return NextStep::Local,
            OpKind::Start | OpKind::Load | OpKind::Sleep => true,
            _ if !slot.explored.has_drained() => false,
            OpKind::Lock => match object {
                Object::Mutex(id) => {
                    self.locks_broken || !self.locks.get(id).is_some_and(|lock| lock.taken)
                }
                _ => true,
            },
            _ => true,
        };
        if can_step { NextStep::Choice } else { NextStep::None }
    }
}

/// What an agent can do next.
pub(super) enum NextStep {
    /// It cannot move.
    None,
    /// A step that no other agent observes: its first one, a barrier with an empty buffer, a
    /// barrier of all agents whose stores have been awaited, or the return from an ended sleep.
    /// Such a step commutes with all others, so it is no choice and no switch.
    Local,
    /// A step whose order among other agents' steps matters.
    Choice,
}
