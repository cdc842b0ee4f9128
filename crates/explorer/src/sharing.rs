//! Purpose: partial-order reduction. Learns which agents access which object, under which locks and
//! until when, and finds choices that the rest of the machine does not compete with.
//!
//! Invariants: an object is *racy* when one agent writes it, another accesses it, and no lock is
//! common to all accesses; every other access commutes. An agent accesses a racy object *until* the
//! last of its accesses in any run, counted in its own accesses. The knowledge only grows. A search
//! that left out a choice on knowledge that a later run refutes begins again; it ends when a whole
//! search refutes nothing (decisions/0070).
//!
//! Entry points: [`Sharing::touched`], [`Sharing::forwarded`], [`Sharing::commuting`],
//! [`Sharing::closed_group`], [`Sharing::take_refuted`].

use tidegate_platform::{AgentIx, Choice, Object, OpKind, Point, WaitsFor};

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

/// What an access does, as far as commuting goes. Two additions commute, and two reads.
#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write,
    Add,
}

impl Kind {
    fn of(op: OpKind) -> Kind {
        match op {
            OpKind::Load => Kind::Read,
            OpKind::Add => Kind::Add,
            _ => Kind::Write,
        }
    }

    /// The kinds that do not commute with it.
    fn opponents(self) -> &'static [Kind] {
        match self {
            Kind::Read => &[Kind::Write, Kind::Add],
            Kind::Add => &[Kind::Write, Kind::Read],
            Kind::Write => &[Kind::Write, Kind::Read, Kind::Add],
        }
    }
}

/// What is known of one object. Agents are bits, in the order of [`Kind`].
#[derive(Default)]
struct Accesses {
    agents: [u64; 3],
    /// Until when each agent accesses it: its number of accesses after the last one.
    until: Vec<[u32; 3]>,
    /// Agents whose own store buffer answered a load.
    forwarders: u64,
    /// `None` before the first access.
    locks: Option<LockSet>,
    racy: bool,
}

impl Accesses {
    /// Whether accesses of two agents do not commute.
    fn conflicts(&self) -> bool {
        let [readers, writers, adders] = self.agents;
        let shared = |agents: u64| agents.count_ones() > 1 || agents == bit(AgentIx(LAST_BIT));
        writers != 0 && shared(readers | writers | adders)
            || adders != 0 && readers != 0 && shared(adders | readers)
    }

    /// Whether `agent`, which has made `made` accesses, can still make one that an access of `kind`
    /// does not commute with.
    fn competes(&self, agent: usize, made: u32, kind: Kind) -> bool {
        let Some(until) = self.until.get(agent) else { return false };
        kind.opponents().iter().any(|kind| until[*kind as usize] > made)
    }
}

/// What is known of all objects, and how far the present run is.
#[derive(Default)]
pub(crate) struct Sharing {
    /// By the agent that made the object, its number among that agent's, and the word's.
    objects: Vec<Vec<Vec<Accesses>>>,
    /// Locks that each agent holds.
    held: Vec<Vec<u32>>,
    /// Accesses that each agent has made.
    made: Vec<u32>,
    /// Agents that loaded a racy object from their own store buffer.
    forwarders: u64,
    refuted: bool,
    /// For [`Sharing::closed_group`].
    group: Vec<AgentIx>,
}

/// Agents from this number on share one bit and one count: what they access counts as shared.
const LAST_BIT: u16 = 63;

pub(crate) fn bit(agent: AgentIx) -> u64 {
    1 << slot(agent)
}

fn slot(agent: AgentIx) -> usize {
    usize::from(agent.0.min(LAST_BIT))
}

/// The place of an object in [`Sharing::objects`].
type Place = [usize; 3];

fn place(object: Object) -> Option<Place> {
    let (id, word) = match object {
        Object::None => return None,
        Object::Word { page, index } => (page, index),
        Object::Bulk(id) | Object::Mutex(id) => (id, 0),
    };
    Some([(id >> 16) as usize, (id & 0xFFFF) as usize, word as usize])
}

impl Sharing {
    /// A run begins: no lock is held.
    pub(crate) fn begin_run(&mut self) {
        self.held.iter_mut().for_each(Vec::clear);
        self.made.fill(0);
    }

    /// Returns whether a choice was left out since the last call on knowledge that was wrong.
    pub(crate) fn take_refuted(&mut self) -> bool {
        std::mem::take(&mut self.refuted)
    }

    /// Learns from a step.
    pub(crate) fn touched(&mut self, agent: AgentIx, op: OpKind, object: Object) {
        let index = slot(agent);
        if self.held.len() <= index {
            self.held.resize_with(index + 1, Vec::new);
        }
        if let (OpKind::Unlock, Object::Mutex(mutex)) = (op, object) {
            return self.held[index].retain(|held| *held != mutex);
        }
        let Some(place) = place(object) else { return };
        self.count_access(agent);
        let kind = Kind::of(op);
        self.note_access(agent, place, kind, false);
        if let (OpKind::Lock, Object::Mutex(mutex)) = (op, object) {
            self.held[index].push(mutex);
        }
    }

    /// Learns from a load that the agent's own store buffer answered.
    pub(crate) fn forwarded(&mut self, agent: AgentIx, object: Object) {
        if let Some(place) = place(object) {
            self.count_access(agent);
            self.note_access(agent, place, Kind::Read, true);
        }
    }

    /// Agents that share a count have made none.
    fn count_access(&mut self, agent: AgentIx) {
        *grown(&mut self.made, slot(agent)) += u32::from(agent.0 < LAST_BIT);
    }

    fn note_access(&mut self, agent: AgentIx, place: Place, kind: Kind, forwards: bool) {
        let index = slot(agent);
        let until = self.made.get(index).map_or(1, |made| (*made).max(1));
        let held = self.held.get(index).map_or(&[][..], Vec::as_slice);
        let known = entry(&mut self.objects, place);
        if known.until.len() <= index {
            known.until.resize(index + 1, [0; 3]);
        }
        let until_now = &mut known.until[index][kind as usize];
        let is_later = *until_now < until;
        *until_now = until.max(*until_now);
        known.agents[kind as usize] |= bit(agent);
        known.forwarders |= if forwards { bit(agent) } else { 0 };
        let was_racy = known.racy;
        if !was_racy {
            let locks = known.locks.get_or_insert_with(|| LockSet::of(held));
            locks.retain(held);
            known.racy = locks.len == 0 && known.conflicts();
        }
        if known.racy {
            let forwarders = self.forwarders | known.forwarders;
            self.refuted |= !was_racy || is_later || forwarders != self.forwarders;
            self.forwarders = forwarders;
        }
    }

    /// The first choice that commutes with all that other agents can still do.
    pub(crate) fn commuting(&self, point: &Point<'_>) -> Option<usize> {
        point.choices.iter().position(|choice| match choice {
            Choice::Find(..) => false,
            Choice::Flush(_) => self.commutes(*choice, point),
            Choice::Run(agent) => self.commutes(*choice, point) && !self.may_forward(*agent, point),
        })
    }

    /// A step of an agent includes the loads behind it that its own store buffer answers. Whether
    /// the buffer or memory answers depends on when the stores leave.
    fn may_forward(&self, agent: AgentIx, point: &Point<'_>) -> bool {
        self.forwarders & bit(agent) != 0 && point.choices.contains(&Choice::Flush(agent))
    }

    fn known(&self, [maker, number, word]: Place) -> Option<&Accesses> {
        self.objects.get(maker)?.get(number)?.get(word)
    }

    fn commutes(&self, choice: Choice, point: &Point<'_>) -> bool {
        self.competitors(choice, point) == 0
    }

    /// The agents that can still make an access with which `choice` does not commute, a bit each.
    fn competitors(&self, choice: Choice, point: &Point<'_>) -> u64 {
        let (op, object) = point.agents.step(choice);
        // Releasing a lock disables no step of another agent, and time passes only when no agent
        // can move.
        let place = place(object).filter(|_| op != OpKind::Unlock);
        let known = place.and_then(|place| self.known(place));
        let Some(known) = known.filter(|known| known.racy) else { return 0 };
        self.accessing(known, Kind::of(op), choice.agent())
    }

    /// The agents other than `me` that can still make an access to `known` with which one of `kind`
    /// does not commute.
    fn accessing(&self, known: &Accesses, kind: Kind, me: AgentIx) -> u64 {
        let candidates = kind.opponents().iter().fold(0, |all, k| all | known.agents[*k as usize]);
        let mut candidates = if me.0 < LAST_BIT { candidates & !bit(me) } else { candidates };
        let mut competitors = 0;
        while candidates != 0 {
            let agent = candidates.trailing_zeros() as usize;
            candidates &= candidates - 1;
            let made = self.made.get(agent).copied().unwrap_or(0);
            competitors |= u64::from(known.competes(agent, made, kind)) << agent;
        }
        competitors
    }

    /// The smallest group of agents whose steps commute with all that the others can do before one
    /// of the group moves, a bit each: a stubborn set. `None` where only all agents together are one.
    pub(crate) fn closed_group(&mut self, point: &Point<'_>) -> Option<u64> {
        if point.agents.count() > usize::from(LAST_BIT) {
            return None;
        }
        let movers = point.choices.iter().fold(0, |all, choice| all | bit(choice.agent()));
        let mut group = std::mem::take(&mut self.group);
        let mut best: Option<u64> = None;
        let mut left = movers;
        while left != 0 {
            let seed = AgentIx(left.trailing_zeros() as u16);
            left &= left - 1;
            if let Some(closed) = self.close(seed, point, &mut group) {
                let moving = closed & movers;
                if best.is_none_or(|best| moving.count_ones() < best.count_ones()) {
                    best = Some(moving);
                }
            }
        }
        self.group = group;
        best.filter(|best| *best != movers)
    }

    /// The group of `seed`; `None` if an agent that has not started yet is of it.
    fn close(&self, seed: AgentIx, point: &Point<'_>, open: &mut Vec<AgentIx>) -> Option<u64> {
        let started = (1u64 << point.agents.count()) - 1;
        let mut closed = 0;
        open.clear();
        open.push(seed);
        while let Some(agent) = open.pop() {
            if closed & bit(agent) != 0 {
                continue;
            }
            closed |= bit(agent);
            let (run, flush) = (Choice::Run(agent), Choice::Flush(agent));
            let drains = point.choices.contains(&flush);
            let mut others = if drains { self.competitors(flush, point) } else { 0 };
            if point.choices.contains(&run) {
                others |= self.competitors(run, point);
            } else {
                others |= self.enablers(agent, drains, point)?;
            }
            if others & !started != 0 {
                return None;
            }
            others &= !closed;
            while others != 0 {
                open.push(AgentIx(others.trailing_zeros() as u16));
                others &= others - 1;
            }
        }
        Some(closed)
    }

    /// The agents one of which must move before `agent` can.
    fn enablers(&self, agent: AgentIx, drains: bool, point: &Point<'_>) -> Option<u64> {
        match point.agents.waits_for(agent) {
            WaitsFor::Nothing | WaitsFor::Clock => Some(0),
            WaitsFor::Lock(_) if drains => Some(0),
            WaitsFor::Lock(mutex) => {
                let holder = self.held.iter().position(|held| held.contains(&mutex))?;
                Some(1 << holder)
            }
            WaitsFor::End(other) => Some(bit(other)),
            WaitsFor::Word(word) => {
                let known = self.known(place(word)?)?;
                Some(self.accessing(known, Kind::Read, agent))
            }
        }
    }
}

fn entry(objects: &mut Vec<Vec<Vec<Accesses>>>, [maker, number, word]: Place) -> &mut Accesses {
    let word_of = grown(grown(objects, maker), number);
    grown(word_of, word)
}

fn grown<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if list.len() <= index {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}
