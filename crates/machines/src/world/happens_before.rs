//! Happens-before of an explored run: vector clocks that find data races on plain cells.
//!
//! Invariants: a release publishes the agent's clock with the stored value, and an acquire that
//! reads this value joins it. The clock travels with the store through the store buffer. Locks, the
//! start and the end of an agent are releases and acquires. Two accesses to a cell, one of them a
//! write, race unless one happens before the other (Lamport 1978; Flanagan and Freund, FastTrack,
//! PLDI 2009). Clocks are part of the machine's state, because they decide later verdicts: what an
//! acquire adds goes into the agent's history, what memory holds into the memory hash.

use super::hash::{Map, mix};
use crate::explorer::{AgentIx, Site};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// For each agent, how many of its releases happened before.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Clock(Vec<u32>);

impl Clock {
    fn at(&self, agent: AgentIx) -> u32 {
        self.0.get(usize::from(agent.0)).copied().unwrap_or(0)
    }

    fn tick(&mut self, agent: AgentIx) {
        let index = usize::from(agent.0);
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        self.0[index] += 1;
    }

    /// Takes the later of each pair. Returns whether that changed this clock.
    fn join(&mut self, other: &Clock) -> bool {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        let mut changed = false;
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            changed |= *mine < *theirs;
            *mine = (*mine).max(*theirs);
        }
        changed
    }

    fn hash(&self) -> u64 {
        let set = (0u64..).zip(&self.0).filter(|(_, count)| **count != 0);
        set.fold(0, |hash, (agent, count)| mix(hash, agent << 32 | u64::from(*count)))
    }
}

/// The clock that a store publishes; `None` for a store that releases nothing.
pub(super) type Released = Option<Arc<Clock>>;

fn hash_of(released: &Released) -> u64 {
    released.as_ref().map_or(0, |clock| clock.hash())
}

#[derive(Default)]
struct AgentClocks {
    now: Clock,
    /// What relaxed loads have read, for a later acquire fence.
    unacquired: Clock,
    /// The clock at the last release fence, for later relaxed stores.
    fenced: Released,
}

/// An access to a cell.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub(super) agent: AgentIx,
    pub(super) is_write: bool,
    pub(super) site: Site,
    at: u32,
}

#[derive(Default)]
struct CellAccesses {
    write: Option<Access>,
    /// The last read of each agent since that write.
    reads: Vec<Access>,
}

fn acquires(order: Ordering) -> bool {
    matches!(order, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst)
}

fn releases(order: Ordering) -> bool {
    matches!(order, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst)
}

/// The clocks of a run. Words are named by page and index, see [`word_key`].
#[derive(Default)]
pub(super) struct HappensBefore {
    agents: Vec<AgentClocks>,
    words: Map<u64, Released>,
    locks: Map<u32, Clock>,
    cells: Map<u32, CellAccesses>,
}

/// Returns the name of a word.
pub(super) fn word_key(page: u32, index: u32) -> u64 {
    u64::from(page) << 32 | u64::from(index)
}

impl HappensBefore {
    fn agent(&mut self, agent: AgentIx) -> &mut AgentClocks {
        let index = usize::from(agent.0);
        while self.agents.len() <= index {
            let mut new = AgentClocks::default();
            // An access before the first release is an event too, so no count is 0.
            new.now.tick(AgentIx(self.agents.len() as u16));
            self.agents.push(new);
        }
        &mut self.agents[index]
    }

    pub(super) fn spawn(&mut self, parent: AgentIx, child: AgentIx) {
        let clock = self.agent(parent).now.clone();
        self.agent(child).now.join(&clock);
        self.agent(parent).now.tick(parent);
    }

    /// Orders the end of `ended` before the next steps of `me`. Returns what the history absorbs.
    pub(super) fn join(&mut self, me: AgentIx, ended: AgentIx) -> Option<u64> {
        let clock = self.agent(ended).now.clone();
        let now = &mut self.agent(me).now;
        now.join(&clock).then(|| now.hash())
    }

    /// Records a load of the word's value in memory. Returns what the history absorbs.
    pub(super) fn load(&mut self, me: AgentIx, word: u64, order: Ordering) -> Option<u64> {
        let released = self.words.get(&word)?.clone()?;
        let clocks = self.agent(me);
        let into = if acquires(order) { &mut clocks.now } else { &mut clocks.unacquired };
        into.join(&released).then(|| into.hash())
    }

    /// Returns the clock that a store with `order` publishes.
    pub(super) fn release(&mut self, me: AgentIx, order: Ordering) -> Released {
        let clocks = self.agent(me);
        if !releases(order) {
            return clocks.fenced.clone();
        }
        let published = Arc::new(clocks.now.clone());
        clocks.now.tick(me);
        Some(published)
    }

    /// Records a store that reaches memory. Returns the change of the memory hash.
    pub(super) fn publish(&mut self, word: u64, released: Released) -> u64 {
        let old = self.words.get(&word).map_or(0, hash_of);
        let new = hash_of(&released);
        if released.is_some() || old != 0 {
            self.words.insert(word, released);
        }
        if old == new { 0 } else { mix(word, old) ^ mix(word, new) }
    }

    /// Records a read-modify-write. It continues the release sequence that it reads. Returns what
    /// the history absorbs, and the change of the memory hash.
    pub(super) fn update(&mut self, me: AgentIx, word: u64, order: Ordering) -> (Option<u64>, u64) {
        let absorbed = self.load(me, word, order);
        (absorbed, self.add(me, word, order))
    }

    /// Records an addition whose order relative to others the agent cannot observe. It releases and
    /// acquires nothing, so that two of them commute. Returns the change of the memory hash.
    pub(super) fn add(&mut self, me: AgentIx, word: u64, order: Ordering) -> u64 {
        let mine = self.release(me, order);
        let before = self.words.get(&word).cloned().flatten();
        let published = match (before, mine) {
            (Some(before), Some(mine)) => {
                let mut both = Clock::clone(&before);
                both.join(&mine);
                Some(Arc::new(both))
            }
            (before, mine) => before.or(mine),
        };
        self.publish(word, published)
    }

    /// Records a fence. Returns what the history absorbs.
    pub(super) fn fence(&mut self, me: AgentIx, order: Ordering) -> Option<u64> {
        let clocks = self.agent(me);
        let mut absorbed = None;
        if acquires(order) {
            let unacquired = std::mem::take(&mut clocks.unacquired);
            absorbed = clocks.now.join(&unacquired).then(|| clocks.now.hash());
        }
        if releases(order) {
            clocks.fenced = Some(Arc::new(clocks.now.clone()));
            clocks.now.tick(me);
        }
        absorbed
    }

    pub(super) fn lock(&mut self, me: AgentIx, mutex: u32) {
        if let Some(clock) = self.locks.get(&mutex).cloned() {
            // The lock's hash, which the agent absorbs, covers the history of all earlier owners.
            self.agent(me).now.join(&clock);
        }
    }

    pub(super) fn unlock(&mut self, me: AgentIx, mutex: u32) {
        let now = self.agent(me).now.clone();
        self.locks.insert(mutex, now);
        self.agent(me).now.tick(me);
    }

    /// Records an access to a cell. Returns the earlier access with which it races, and itself.
    pub(super) fn access(
        &mut self,
        me: AgentIx,
        cell: u32,
        is_write: bool,
        site: Site,
    ) -> Option<(Access, Access)> {
        let now = self.agent(me).now.clone();
        let access = Access { agent: me, is_write, site, at: now.at(me) };
        let known = self.cells.entry(cell).or_default();
        let is_unordered = |earlier: &&Access| earlier.at > now.at(earlier.agent);
        let write = known.write.as_ref().filter(is_unordered);
        let read = known.reads.iter().find(is_unordered).filter(|_| is_write);
        if let Some(earlier) = write.or(read) {
            return Some((*earlier, access));
        }
        if is_write {
            *known = CellAccesses { write: Some(access), reads: Vec::new() };
        } else {
            known.reads.retain(|read| read.agent != me);
            known.reads.push(access);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// States that differ in a clock are told apart by the hash; a count of 0 is as none.
    #[test]
    fn the_hash_of_a_clock_is_of_the_agents_that_have_released() {
        let clock = |counts: &[u32]| Clock(counts.to_vec()).hash();
        assert_eq!(clock(&[]), 0);
        assert_eq!(clock(&[0, 0]), 0);
        assert_eq!(clock(&[2, 0, 0]), clock(&[2]));
        let all = [&[1][..], &[2], &[0, 1], &[1, 1], &[2, 1], &[1, 2], &[0, 0, 1]].map(clock);
        let different: std::collections::BTreeSet<u64> = all.into_iter().chain([0]).collect();
        assert_eq!(different.len(), all.len() + 1);
    }
}
