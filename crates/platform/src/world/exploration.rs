//! Owns an explored machine's state besides its agents: controller, memory hashes, locks.

use super::happens_before::HappensBefore;
use super::hash::mix;
use super::slot::{Slot, State};
use super::store_buffer::Buffered;
use super::table::Table;
use crate::controller::{AgentIx, Choice, Controller, MemoryModel, Object, OpKind};
use crate::steps::StepLog;
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

    /// Takes the allocated lists of `old` for reuse.
    pub(super) fn inherit(&mut self, old: &mut Explored) {
        self.bulk_hashes = std::mem::take(&mut old.bulk_hashes);
        self.bulk_hashes.clear();
        self.locks = std::mem::take(&mut old.locks);
        self.locks.clear();
        self.choices = std::mem::take(&mut old.choices);
        self.spare_buffers = std::mem::take(&mut old.spare_buffers);
    }

    /// Returns the hash of memory, of locks where histories do not tell their state, and the clock.
    pub(super) fn memory_hash(&self, now: u64) -> u64 {
        let locks = if self.forgets { self.locks_hash } else { 0 };
        mix(self.memory_hash ^ locks, now)
    }

    /// Returns whether the agent's pending step can be taken now.
    pub(super) fn can_step(&self, slot: &Slot) -> bool {
        if !matches!(slot.state, State::Ready | State::Running) {
            return false;
        }
        match slot.explored.pending {
            None | Some((OpKind::Start | OpKind::Load | OpKind::Sleep, _)) => true,
            Some(_) if !slot.explored.buffer.is_empty() => false,
            Some((OpKind::Lock, Object::Mutex(id))) => {
                self.locks_broken || !self.locks.get(id).is_some_and(|l| l.taken)
            }
            Some(_) => true,
        }
    }
}
