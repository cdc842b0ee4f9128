//! Partial-order reduction. Records which agents access which object, under which locks and until
//! when, and finds choices that conflict with no other agent.
//!
//! Invariants: an object is *racy* if one agent writes it, another accesses it, and no lock is
//! common to all accesses. Accesses to other objects commute. An agent's interest in a racy object
//! ends with its last access in any run, counted in its own accesses. Knowledge only grows. A
//! search is restarted if a run refutes the knowledge on which it skipped a choice, and ends when a
//! whole pass refutes nothing (decisions/0070).
//!
//! Groups of agents of which no two access an object that one of them writes are found the same
//! way.
//!
//! Entry points: [`Sharing::touched`], [`Sharing::commuting`], [`Sharing::closed_group`],
//! [`Sharing::take_refuted`].

use tidegate_platform::{AgentIx, Choice, Object, OpKind, Point, WaitsFor};

/// Maximum number of locks recorded per access. Dropping locks is safe: the object counts as racy.
const LOCKS: usize = 4;

/// The locks common to all accesses to an object.
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

/// The kind of an access with respect to commuting. Two additions commute, and so do two reads.
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

    /// Returns the kinds that do not commute with this one.
    fn opponents(self) -> &'static [Kind] {
        match self {
            Kind::Read => &[Kind::Write, Kind::Add],
            Kind::Add => &[Kind::Write, Kind::Read],
            Kind::Write => &[Kind::Write, Kind::Read, Kind::Add],
        }
    }
}

/// Accesses to one object. Agents are bits, per [`Kind`].
#[derive(Default)]
struct Accesses {
    agents: [u64; 3],
    /// For each agent, its number of accesses up to its last one to this object, counted as
    /// [`Sharing::forgot`] says.
    until: Vec<[u64; 3]>,
    /// `None` before the first access.
    locks: Option<LockSet>,
    racy: bool,
}

impl Accesses {
    /// Whether two agents have conflicting accesses.
    fn conflicts(&self) -> bool {
        let [readers, writers, adders] = self.agents;
        let shared = |agents: u64| agents.count_ones() > 1 || agents == bit(AgentIx(LAST_BIT));
        writers != 0 && shared(readers | writers | adders)
            || adders != 0 && readers != 0 && shared(adders | readers)
    }

    /// Whether `agent`, after `made` accesses, may still make one that conflicts with `kind`.
    fn competes(&self, agent: usize, made: u64, kind: Kind) -> bool {
        let Some(until) = self.until.get(agent) else { return false };
        kind.opponents().iter().any(|kind| until[*kind as usize] > made)
    }
}

/// Knowledge of all objects, and the progress of the current run.
#[derive(Default)]
pub(crate) struct Sharing {
    /// Indexed by creating agent, object number of that agent, and word.
    objects: Vec<Vec<Vec<Accesses>>>,
    /// Locks held by each agent.
    held: Vec<Vec<u32>>,
    /// Number of accesses made by each agent.
    made: Vec<u64>,
    refuted: bool,
    /// Agents, as bits, that do what they have done in an earlier run. Their accesses are known.
    repeating: u64,
    /// Groups of agents, as bits, that share objects which are written; `None` unless groups are
    /// searched by themselves.
    groups: Option<Vec<u64>>,
}

/// Agents from this number on share one bit and one count, so their accesses count as shared.
const LAST_BIT: u16 = 63;

pub(crate) fn bit(agent: AgentIx) -> u64 {
    1 << slot(agent)
}

fn slot(agent: AgentIx) -> usize {
    usize::from(agent.0.min(LAST_BIT))
}

/// Indices of an object in [`Sharing::objects`].
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
    /// Begins a run, in which no lock is held yet.
    pub(crate) fn begin_run(&mut self) {
        self.held.iter_mut().for_each(Vec::clear);
        self.made.fill(0);
        self.repeating = 0;
    }

    /// Looks for groups of agents that share nothing.
    pub(crate) fn find_groups(&mut self) {
        self.groups.get_or_insert_default();
    }

    /// Returns the known groups. All other agents share nothing.
    pub(crate) fn groups(&self) -> &[u64] {
        self.groups.as_deref().unwrap_or_default()
    }

    /// Declares whether the accesses of `agents` are known from an earlier run.
    pub(crate) fn set_repeating(&mut self, agents: u64, repeat: bool) {
        self.repeating = if repeat { self.repeating | agents } else { self.repeating & !agents };
    }

    /// Records that all agents belong to one group.
    pub(crate) fn relate_all(&mut self) {
        self.relate(u64::MAX);
    }

    /// Records that `agents` belong to one group.
    fn relate(&mut self, agents: u64) {
        let Some(groups) = &mut self.groups else { return };
        if groups.iter().any(|group| agents & !group == 0) {
            return;
        }
        let joined = groups.iter().filter(|g| *g & agents != 0).fold(agents, |all, g| all | g);
        groups.retain(|group| group & agents == 0);
        groups.push(joined);
        groups.sort_unstable_by_key(|group| group.trailing_zeros());
        self.refuted = true;
    }

    /// Whether a choice was skipped on refuted knowledge since the last call.
    pub(crate) fn take_refuted(&mut self) -> bool {
        std::mem::take(&mut self.refuted)
    }

    /// Records a step. Accesses in runs whose agents repeat earlier ones are counted only.
    pub(crate) fn touched(&mut self, agent: AgentIx, op: OpKind, object: Object) {
        let index = slot(agent);
        if self.held.len() <= index {
            self.held.resize_with(index + 1, Vec::new);
        }
        if let (OpKind::Unlock, Object::Mutex(mutex)) = (op, object) {
            return self.held[index].retain(|held| *held != mutex);
        }
        let Some(place) = place(object) else { return };
        if agent.0 >= LAST_BIT {
            self.relate_all();
        }
        self.count_access(agent);
        if self.repeating & bit(agent) == 0 {
            self.note_access(agent, place, Kind::of(op));
        }
        if let (OpKind::Lock, Object::Mutex(mutex)) = (op, object) {
            self.held[index].push(mutex);
        }
    }

    /// Records that `agent` replaced its history by a position. Its accesses are counted anew from
    /// there, above those before, because equal states must lie behind equal numbers.
    pub(crate) fn forgot(&mut self, agent: AgentIx, position: u32) {
        if agent.0 < LAST_BIT {
            *grown(&mut self.made, slot(agent)) = u64::from(position) << 32;
        }
    }

    /// Counts an access, except for agents that share a count.
    fn count_access(&mut self, agent: AgentIx) {
        *grown(&mut self.made, slot(agent)) += u64::from(agent.0 < LAST_BIT);
    }

    fn note_access(&mut self, agent: AgentIx, place: Place, kind: Kind) {
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
        let was_racy = known.racy;
        if !was_racy {
            let locks = known.locks.get_or_insert_with(|| LockSet::of(held));
            locks.retain(held);
            known.racy = locks.len == 0 && known.conflicts();
        }
        self.refuted |= known.racy && (!was_racy || is_later);
        let [readers, writers, adders] = known.agents;
        let all = readers | writers | adders;
        if self.groups.is_some() && writers | adders != 0 && all & (all - 1) != 0 {
            self.relate(all);
        }
    }

    /// Returns the first choice that commutes with all future steps of other agents.
    pub(crate) fn commuting(&self, point: &Point<'_>) -> Option<usize> {
        point.choices.iter().position(|choice| match choice {
            Choice::Find(..) => false,
            Choice::Flush(_) | Choice::Run(_) => self.commutes(*choice, point),
        })
    }

    fn known(&self, [maker, number, word]: Place) -> Option<&Accesses> {
        self.objects.get(maker)?.get(number)?.get(word)
    }

    fn commutes(&self, choice: Choice, point: &Point<'_>) -> bool {
        self.competitors(choice, point) == 0
    }

    /// Returns the agents, as bits, that may still make an access conflicting with `choice`.
    fn competitors(&self, choice: Choice, point: &Point<'_>) -> u64 {
        let (op, object) = point.agents.step(choice);
        // Releasing a lock disables no other step. Time advances only if no agent is runnable.
        let place = place(object).filter(|_| op != OpKind::Unlock);
        let known = place.and_then(|place| self.known(place));
        let Some(known) = known.filter(|known| known.racy) else { return 0 };
        self.accessing(known, Kind::of(op), choice.agent())
    }

    /// Returns the agents other than `me` that may still make an access to `known` that conflicts.
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

    /// Returns a minimal stubborn set as bits: a group whose steps commute with everything that
    /// other agents can do before one of the group moves. `None` if only all agents qualify.
    pub(crate) fn closed_group(&self, point: &Point<'_>) -> Option<u64> {
        if point.agents.count() > usize::from(LAST_BIT) {
            return None;
        }
        let movers = point.choices.iter().fold(0, |all, choice| all | bit(choice.agent()));
        let mut best: Option<u64> = None;
        let mut left = movers;
        while left != 0 {
            let seed = AgentIx(left.trailing_zeros() as u16);
            left &= left - 1;
            if let Some(closed) = self.close(seed, point) {
                let moving = closed & movers;
                if best.is_none_or(|best| moving.count_ones() < best.count_ones()) {
                    best = Some(moving);
                }
            }
        }
        best.filter(|best| *best != movers)
    }

    /// Returns the closed group of `seed`; `None` if it includes an agent that has not started.
    fn close(&self, seed: AgentIx, point: &Point<'_>) -> Option<u64> {
        let started = (1u64 << point.agents.count()) - 1;
        let (mut closed, mut open) = (0, bit(seed));
        while open != 0 {
            let agent = AgentIx(open.trailing_zeros() as u16);
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
            open = (open | others) & !closed;
        }
        Some(closed)
    }

    /// Returns the agents of which one must move before `agent` can.
    fn enablers(&self, agent: AgentIx, drains: bool, point: &Point<'_>) -> Option<u64> {
        match point.agents.waits_for(agent) {
            WaitsFor::Nothing | WaitsFor::Clock => Some(0),
            WaitsFor::Lock(_) if drains => Some(0),
            WaitsFor::Lock(mutex) => {
                let holder = self.held.iter().position(|held| held.contains(&mutex))?;
                Some(1 << holder)
            }
            WaitsFor::End(other) | WaitsFor::Stores(other) => Some(bit(other)),
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
