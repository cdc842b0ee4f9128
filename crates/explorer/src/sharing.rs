//! Purpose: partial-order reduction. Learns which agents access which object under which locks, and
//! finds a step that commutes with every step that another agent can still take.
//!
//! Invariants: an object is *racy* when one agent writes it, another accesses it, and no lock is
//! common to all accesses. Every other access commutes, so such a step is taken at once and is no
//! choice. The knowledge only grows. A search that took a step on knowledge that a later run
//! refutes begins again; it ends when a whole search refutes nothing (decisions/0070).
//!
//! Entry points: [`Sharing::touched`], [`Sharing::forwarded`], [`Sharing::commuting`],
//! [`Sharing::take_refuted`].

use crate::prune::AsIs;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use tidegate_platform::{AgentIx, Choice, Object, OpKind, Point};

/// Locks that are noted of one access. Fewer than are held is safe: an object counts as racy then.
const LOCKS: usize = 4;

/// The locks that all accesses to an object have in common.
#[derive(Clone, Copy, Default)]
struct LockSet {
    locks: [u32; LOCKS],
    len: usize,
}

impl LockSet {
    fn of(held: &[u32]) -> LockSet {
        let mut set = LockSet { len: held.len().min(LOCKS), ..LockSet::default() };
        set.locks[..set.len].copy_from_slice(&held[..set.len]);
        set
    }

    fn retain(&mut self, held: &[u32]) {
        let mut kept = 0;
        for at in 0..self.len {
            if held.contains(&self.locks[at]) {
                self.locks[kept] = self.locks[at];
                kept += 1;
            }
        }
        self.len = kept;
    }
}

/// What is known of one object. Agents are bits.
#[derive(Default)]
struct Accesses {
    readers: u64,
    writers: u64,
    /// Agents that add to it: two additions commute.
    adders: u64,
    /// Agents whose own store buffer answered a load.
    forwarders: u64,
    locks: LockSet,
    racy: bool,
}

impl Accesses {
    /// Whether accesses of two agents do not commute.
    fn conflicts(&self) -> bool {
        let shared = |agents: u64| agents.count_ones() > 1 || agents == bit(AgentIx(LAST_BIT));
        let all = self.readers | self.writers | self.adders;
        self.writers != 0 && shared(all)
            || self.adders != 0 && self.readers != 0 && shared(self.adders | self.readers)
    }

    /// What a commuting step on a racy object depends on. Readers matter to additions alone.
    fn observers_and_writers(&self) -> (u64, u64, u64) {
        let observers = if self.adders == 0 { 0 } else { self.readers };
        (self.writers, self.adders, observers)
    }
}

/// What is known of all objects, and the locks that are held in the present run.
#[derive(Default)]
pub(crate) struct Sharing {
    objects: HashMap<Object, Accesses, BuildHasherDefault<ObjectHasher>>,
    held: Vec<Vec<u32>>,
    /// Agents that loaded a racy object from their own store buffer.
    forwarders: u64,
    refuted: bool,
}

/// Agents from this number on share one bit: what they access counts as shared.
const LAST_BIT: u16 = 63;

fn bit(agent: AgentIx) -> u64 {
    1 << agent.0.min(LAST_BIT)
}

impl Sharing {
    /// A run begins: no lock is held.
    pub(crate) fn begin_run(&mut self) {
        self.held.iter_mut().for_each(Vec::clear);
    }

    /// Returns whether a step was taken since the last call on knowledge that was wrong.
    pub(crate) fn take_refuted(&mut self) -> bool {
        std::mem::take(&mut self.refuted)
    }

    /// Learns from a step.
    pub(crate) fn touched(&mut self, agent: AgentIx, op: OpKind, object: Object) {
        let index = usize::from(agent.0);
        if self.held.len() <= index {
            self.held.resize_with(index + 1, Vec::new);
        }
        if let (OpKind::Unlock, Object::Mutex(mutex)) = (op, object) {
            return self.held[index].retain(|held| *held != mutex);
        }
        if object == Object::None {
            return;
        }
        self.note_access(agent, object, |known| match op {
            OpKind::Load => known.readers |= bit(agent),
            OpKind::Add => known.adders |= bit(agent),
            _ => known.writers |= bit(agent),
        });
        if let (OpKind::Lock, Object::Mutex(mutex)) = (op, object) {
            self.held[index].push(mutex);
        }
    }

    /// Learns from a load that the agent's own store buffer answered.
    pub(crate) fn forwarded(&mut self, agent: AgentIx, object: Object) {
        self.note_access(agent, object, |known| {
            known.readers |= bit(agent);
            known.forwarders |= bit(agent);
        });
    }

    fn note_access(&mut self, agent: AgentIx, object: Object, note: impl FnOnce(&mut Accesses)) {
        let held = self.held.get(usize::from(agent.0)).map_or(&[][..], Vec::as_slice);
        let known = self
            .objects
            .entry(object)
            .or_insert_with(|| Accesses { locks: LockSet::of(held), ..Accesses::default() });
        let (was_racy, before) = (known.racy, known.observers_and_writers());
        note(known);
        if !was_racy {
            known.locks.retain(held);
            known.racy = known.locks.len == 0 && known.conflicts();
        }
        if known.racy {
            let forwarders = self.forwarders | known.forwarders;
            let changed = known.observers_and_writers() != before;
            self.refuted |= !was_racy || changed || forwarders != self.forwarders;
            self.forwarders = forwarders;
        }
    }

    /// The first choice that commutes with all that other agents can still do.
    pub(crate) fn commuting(&self, point: &Point<'_>) -> Option<usize> {
        let choices = point.choices.iter().zip(point.touches);
        choices.into_iter().position(|(choice, (op, object))| match choice {
            Choice::Find(..) => false,
            Choice::Flush(agent) => self.commutes(*agent, *op, *object),
            Choice::Run(agent) => {
                self.commutes(*agent, *op, *object) && !self.may_forward(*agent, point)
            }
        })
    }

    /// A step of an agent includes the loads behind it that its own store buffer answers. Whether
    /// the buffer or memory answers depends on when the stores leave.
    fn may_forward(&self, agent: AgentIx, point: &Point<'_>) -> bool {
        self.forwarders & bit(agent) != 0 && point.choices.contains(&Choice::Flush(agent))
    }

    fn commutes(&self, agent: AgentIx, op: OpKind, object: Object) -> bool {
        // Releasing a lock disables no step of another agent, and time passes only when no agent
        // can move.
        if op == OpKind::Unlock || object == Object::None {
            return true;
        }
        self.objects.get(&object).is_none_or(|known| {
            let others = !bit(agent);
            !known.racy
                || match op {
                    OpKind::Load => (known.writers | known.adders) & others == 0,
                    OpKind::Add => (known.writers | known.readers) & others == 0,
                    _ => false,
                }
        })
    }
}

/// Objects are small numbers of this process: one multiplication spreads them.
#[derive(Default)]
pub(crate) struct ObjectHasher(AsIs);

impl Hasher for ObjectHasher {
    fn finish(&self) -> u64 {
        self.0.finish()
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0.finish().rotate_left(23) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0.write_u64(mixed ^ mixed >> 32);
    }
    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }
}
