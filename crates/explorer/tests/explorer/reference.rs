//! What a program of [`Statements`] may do, from the contract of the platform and without it: every
//! order of its operations and of the flushes of its store buffers.
//!
//! Invariants: nothing is left out. States are compared whole, not by a hash, and only so that no
//! state is continued twice. Events are single words here: what the platform composes of several
//! steps must not show.

use crate::statements::{
    BULK_WORDS, EVENTS, FLAG, LOCKS, Limit, Op, Outcome, Statements, TIMED_OUT, WOKEN, WORDS,
};
use std::collections::{BTreeSet, HashSet, VecDeque};
use tidegate_explorer::MemoryModel;

/// A store on its way to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stored {
    Word(usize, u64),
    Bytes(u64, u64),
    Unlock(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Runs,
    /// Sleeps on a word or the clock until a wake or this time.
    Sleeps(Option<u64>),
    /// Waits for events until this time.
    Blocked(Option<u64>),
    /// Looks at the event of this index of a wait for any.
    Scans(usize, Option<u64>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Agent {
    next: usize,
    phase: Phase,
    seen: Vec<u64>,
    buffer: VecDeque<Stored>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: u64,
    words: [u64; WORDS],
    bytes: [u64; BULK_WORDS],
    is_set: [bool; EVENTS],
    owners: [Option<usize>; LOCKS],
    /// The agents that sleep on each word, in the order in which they fell asleep.
    sleepers: [VecDeque<usize>; WORDS],
    agents: Vec<Agent>,
}

struct Machine<'p> {
    ops: Vec<Vec<Op>>,
    manual: &'p [bool; EVENTS],
    buffers: bool,
}

/// Returns all outcomes of `program`, and the number of states that it passes through.
pub fn outcomes(program: &Statements, model: MemoryModel) -> (BTreeSet<Outcome>, usize) {
    let machine = Machine {
        ops: program.agents.clone(),
        manual: &program.manual,
        buffers: model == MemoryModel::TotalStoreOrder,
    };
    let agent = Agent { next: 0, phase: Phase::Runs, seen: Vec::new(), buffer: VecDeque::new() };
    let start = State {
        now: 0,
        words: [0; WORDS],
        bytes: [0; BULK_WORDS],
        is_set: [false; EVENTS],
        owners: [None; LOCKS],
        sleepers: Default::default(),
        agents: vec![agent; machine.ops.len()],
    };
    let (mut known, mut open) = (HashSet::from([start.clone()]), vec![start]);
    let mut ends = BTreeSet::new();
    while let Some(state) = open.pop() {
        let next = machine.next(&state);
        if next.is_empty() {
            ends.insert(state.outcome());
        }
        open.extend(next.into_iter().filter(|state| known.insert(state.clone())));
    }
    (ends, known.len())
}

impl State {
    fn outcome(&self) -> Outcome {
        let events = self.is_set.iter().map(|set| u64::from(*set));
        let memory = self.words.iter().chain(&self.bytes).copied().chain(events);
        (self.agents.iter().map(|agent| agent.seen.clone()).collect(), memory.collect())
    }

    fn apply(&mut self, stored: Stored) {
        match stored {
            Stored::Word(at, value) => self.words[at] = value,
            Stored::Bytes(at, value) => self.bytes[at as usize] = value,
            Stored::Unlock(at) => self.owners[at] = None,
        }
    }

    /// Ends the statement of `agent`.
    fn done(&mut self, agent: usize, seen: Option<u64>) {
        let agent = &mut self.agents[agent];
        agent.seen.extend(seen);
        agent.next += 1;
        agent.phase = Phase::Runs;
    }

    /// Returns the newest value in the agent's own buffer, else the one in memory.
    fn load(&self, agent: usize, in_memory: u64, of: impl Fn(&Stored) -> Option<u64>) -> u64 {
        self.agents[agent].buffer.iter().rev().find_map(of).unwrap_or(in_memory)
    }
}

impl Machine<'_> {
    /// Returns the states that follow.
    fn next(&self, state: &State) -> Vec<State> {
        let mut next = Vec::new();
        for agent in 0..self.ops.len() {
            if !state.agents[agent].buffer.is_empty() {
                let mut flushed = state.clone();
                let stored = flushed.agents[agent].buffer.pop_front().unwrap();
                flushed.apply(stored);
                next.push(flushed);
            }
            let mut after = state.clone();
            if self.run(&mut after, agent) {
                next.push(after);
            }
        }
        if next.is_empty() {
            next.extend(self.time_passes(state));
        }
        next
    }

    /// The earliest timers end their waits, because no agent can move.
    fn time_passes(&self, state: &State) -> Option<State> {
        let limit = |agent: &Agent| match agent.phase {
            Phase::Sleeps(limit) | Phase::Blocked(limit) => limit,
            Phase::Runs | Phase::Scans(..) => None,
        };
        let earliest = state.agents.iter().filter_map(limit).min()?;
        let mut next = state.clone();
        next.now = next.now.max(earliest);
        for (agent, me) in state.agents.iter().enumerate() {
            if limit(me).is_some_and(|at| at == earliest) {
                next.sleepers.iter_mut().for_each(|list| list.retain(|other| *other != agent));
                let is_nap = self.ops[agent][me.next] == Op::Nap;
                next.done(agent, (!is_nap).then_some(TIMED_OUT));
            }
        }
        Some(next)
    }

    /// Takes the next step of `agent`. Returns whether it can move.
    fn run(&self, state: &mut State, agent: usize) -> bool {
        let me = &state.agents[agent];
        let (drained, phase) = (me.buffer.is_empty(), me.phase);
        let Some(op) = self.ops[agent].get(me.next).copied() else { return false };
        if matches!(phase, Phase::Sleeps(_)) {
            return false;
        }
        let until = |limit: Limit| (limit == Limit::Nanosecond).then_some(state.now + 1);
        match op {
            Op::Load(at) => {
                let value = state.load(agent, state.words[at], |stored| match stored {
                    Stored::Word(word, value) if *word == at => Some(*value),
                    _ => None,
                });
                state.done(agent, Some(value));
            }
            Op::ReadBytes(at) => {
                let value = state.load(agent, state.bytes[at as usize], |stored| match stored {
                    Stored::Bytes(place, value) if *place == at => Some(*value),
                    _ => None,
                });
                state.done(agent, Some(value));
            }
            Op::Store(at, value) => self.store(state, agent, Stored::Word(at, value)),
            Op::WriteBytes(at, value) => self.store(state, agent, Stored::Bytes(at, value)),
            Op::Unlock(at) => self.store(state, agent, Stored::Unlock(at)),
            Op::Now => state.done(agent, Some(state.now)),
            Op::Join(of) => {
                let other = &state.agents[of];
                if other.next < self.ops[of].len() || !other.buffer.is_empty() {
                    return false;
                }
                state.done(agent, None);
            }
            Op::IsSet(at) => state.done(agent, Some(u64::from(state.is_set[at]))),
            Op::Nap => state.agents[agent].phase = Phase::Sleeps(Some(state.now + 1)),
            // Events that are reset by hand are only loaded.
            Op::Take(at) if self.manual[at] => {
                state.done(agent, Some(u64::from(state.is_set[at])));
            }
            Op::Await(..) | Op::Any(..) | Op::All(..) => {
                return self.await_events(state, agent, op);
            }
            _ if !drained => return false,
            Op::Fence => state.done(agent, None),
            Op::Swap(at, value) => Self::update(state, agent, at, |_| value),
            Op::Compare(at, from, to) => {
                Self::update(state, agent, at, |old| if old == from { to } else { old });
            }
            Op::Add(at, value) => Self::update(state, agent, at, |old| old.wrapping_add(value)),
            Op::Or(at, bits) => Self::update(state, agent, at, |old| old | bits),
            Op::And(at, bits) => Self::update(state, agent, at, |old| old & bits),
            Op::AddAndTest(at, value) => {
                let old = state.words[at];
                state.words[at] = old.wrapping_add(value);
                state.done(agent, Some(u64::from(old & FLAG != 0)));
            }
            Op::AddToBytes(at, value) => {
                let old = state.bytes[at as usize];
                state.bytes[at as usize] = old.wrapping_add(value);
                state.done(agent, Some(old));
            }
            Op::Sleep(at, value, limit) => {
                if state.words[at] as u32 != value {
                    state.done(agent, Some(WOKEN));
                } else {
                    state.agents[agent].phase = Phase::Sleeps(until(limit));
                    state.sleepers[at].push_back(agent);
                }
            }
            Op::Wake(at, count) => {
                let woken = (count as usize).min(state.sleepers[at].len());
                let woken: Vec<usize> = state.sleepers[at].drain(..woken).collect();
                woken.iter().for_each(|sleeper| state.done(*sleeper, Some(WOKEN)));
                state.done(agent, None);
            }
            Op::Set(at) | Op::Reset(at) => {
                state.is_set[at] = matches!(op, Op::Set(_));
                state.done(agent, None);
            }
            Op::Take(at) => {
                let was_set = std::mem::replace(&mut state.is_set[at], false);
                state.done(agent, Some(u64::from(was_set)));
            }
            Op::Lock(at) => {
                if state.owners[at].is_some() {
                    return false;
                }
                state.owners[at] = Some(agent);
                state.done(agent, None);
            }
        }
        true
    }

    fn store(&self, state: &mut State, agent: usize, stored: Stored) {
        // A lock is dropped behind the stores that are still on their way.
        let waits = !matches!(stored, Stored::Unlock(_)) || !state.agents[agent].buffer.is_empty();
        if self.buffers && waits {
            state.agents[agent].buffer.push_back(stored);
        } else {
            state.apply(stored);
        }
        state.done(agent, None);
    }

    fn update(state: &mut State, agent: usize, at: usize, new: impl Fn(u64) -> u64) {
        let old = state.words[at];
        state.words[at] = new(old);
        state.done(agent, Some(old));
    }

    /// Takes a step of a wait for events. A wait for any looks at one event after the other.
    fn await_events(&self, state: &mut State, agent: usize, op: Op) -> bool {
        let drained = state.agents[agent].buffer.is_empty();
        let limit = match op {
            Op::Await(_, limit) | Op::Any(_, limit) | Op::All(_, limit) => limit,
            _ => unreachable!("{op:?} is no wait for events"),
        };
        let until = (limit == Limit::Nanosecond).then_some(state.now + 1);
        let until = match state.agents[agent].phase {
            Phase::Blocked(until) | Phase::Scans(_, until) => until,
            _ => until,
        };
        if let Op::Any(events, _) = op {
            return match state.agents[agent].phase {
                Phase::Blocked(_) if !events.iter().any(|at| state.is_set[*at]) => false,
                Phase::Scans(index, _) if index == events.len() => {
                    state.agents[agent].phase = Phase::Blocked(until);
                    drained
                }
                Phase::Scans(index, _) => {
                    let at = events[index];
                    if !state.is_set[at] {
                        state.agents[agent].phase = Phase::Scans(index + 1, until);
                    } else {
                        state.is_set[at] = self.manual[at];
                        state.done(agent, Some(index as u64));
                    }
                    drained || self.manual[at]
                }
                _ => {
                    state.agents[agent].phase = Phase::Scans(0, until);
                    true
                }
            };
        }
        let events = match op {
            Op::Await(at, _) => [at, at],
            Op::All(events, _) => events,
            _ => unreachable!("{op:?} is no wait for one or all"),
        };
        if events.iter().all(|at| state.is_set[*at]) {
            for at in events {
                state.is_set[at] = self.manual[at];
            }
            state.done(agent, Some(WOKEN));
            return drained || events.iter().all(|at| self.manual[*at]);
        }
        let was_blocked = matches!(state.agents[agent].phase, Phase::Blocked(_));
        state.agents[agent].phase = Phase::Blocked(until);
        drained && !was_blocked
    }
}
