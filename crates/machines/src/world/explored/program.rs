//! The steps of an explored machine that only the types of the checker take: ordered loads and
//! stores, plain cells, a lock that is tried, a wait of a polling loop.
//!
//! Invariants: an access to a plain cell is no step, because its order relative to other agents
//! matters only in a race, which the clocks find in any order. A polling agent is not runnable
//! until another agent has changed memory, so a loop has finitely many states and a loop that polls
//! forever is a standstill.

use super::{visible, visible_unless};
use crate::cells::{PageCells, WordRef};
use crate::explorer::{AgentIx, Object, OpKind, Site};
use crate::thread;
use crate::wait::WaitEnd;
use crate::world::happens_before::{Access, HappensBefore, Released, word_key};
use crate::world::machine::{Discipline, World, block, with};
use crate::world::slot::SPIN_KEY;
use std::sync::atomic::Ordering;

impl World {
    /// Returns the clocks and the running agent, if races are looked for.
    #[inline]
    fn clocks(&mut self) -> Option<(&mut HappensBefore, AgentIx)> {
        let me = self.current?;
        match &mut self.discipline {
            Discipline::Explored(e) => e.clocks.as_deref_mut().map(|clocks| (clocks, me)),
            Discipline::Virtual(_) => None,
        }
    }

    /// Returns whether the run is a program's.
    pub(crate) fn has_clocks(&self) -> bool {
        matches!(&self.discipline, Discipline::Explored(e) if e.clocks.is_some())
    }

    fn absorb_clock(&mut self, hash: Option<u64>) {
        if let Some(hash) = hash {
            self.absorb(hash);
        }
    }

    fn change_memory_hash(&mut self, change: u64) {
        if let Discipline::Explored(e) = &mut self.discipline {
            e.memory_hash ^= change;
        }
    }

    #[inline]
    pub(crate) fn clock_load(&mut self, word: WordRef<'_>, order: Ordering) {
        let key = word_key(word.page.id, word.index);
        let Some(hash) = self.clocks().map(|(clocks, me)| clocks.load(me, key, order)) else {
            return;
        };
        self.absorb_clock(hash);
    }

    /// Returns the clock that a store publishes when it reaches memory.
    #[inline]
    pub(super) fn clock_release(&mut self, order: Ordering) -> Released {
        self.clocks().and_then(|(clocks, me)| clocks.release(me, order))
    }

    /// Records that a store with `released` reaches memory.
    #[inline]
    pub(super) fn clock_publish(&mut self, page: &PageCells, index: u32, released: &Released) {
        let Discipline::Explored(e) = &mut self.discipline else { return };
        if let Some(clocks) = &mut e.clocks {
            e.memory_hash ^= clocks.publish(word_key(page.id, index), released.clone());
        }
    }

    #[inline]
    pub(crate) fn clock_update(&mut self, word: WordRef<'_>, order: Ordering) {
        let key = word_key(word.page.id, word.index);
        let update = self.clocks().map(|(clocks, me)| clocks.update(me, key, order));
        let Some((hash, change)) = update else { return };
        self.absorb_clock(hash);
        self.change_memory_hash(change);
    }

    #[inline]
    pub(crate) fn clock_add(&mut self, word: WordRef<'_>) {
        let key = word_key(word.page.id, word.index);
        let change = self.clocks().map(|(clocks, me)| clocks.add(me, key, Ordering::Release));
        self.change_memory_hash(change.unwrap_or(0));
    }

    #[inline]
    pub(crate) fn clock_fence(&mut self, order: Ordering) {
        let Some(hash) = self.clocks().map(|(clocks, me)| clocks.fence(me, order)) else { return };
        self.absorb_clock(hash);
    }

    #[inline]
    pub(crate) fn clock_lock(&mut self, mutex: u32) {
        if let Some((clocks, me)) = self.clocks() {
            clocks.lock(me, mutex);
        }
    }

    #[inline]
    pub(crate) fn clock_unlock(&mut self, mutex: u32) {
        if let Some((clocks, me)) = self.clocks() {
            clocks.unlock(me, mutex);
        }
    }

    pub(crate) fn clock_spawn(&mut self, child: AgentIx) {
        if let Some((clocks, me)) = self.clocks() {
            clocks.spawn(me, child);
        }
    }

    pub(crate) fn clock_join(&mut self, ended: AgentIx) {
        let Some(hash) = self.clocks().map(|(clocks, me)| clocks.join(me, ended)) else { return };
        self.absorb_clock(hash);
    }

    /// Notes that `by` has changed memory, and lets polling agents look again.
    #[inline]
    pub(crate) fn note_change(&mut self, by: Option<AgentIx>) {
        let Discipline::Explored(e) = &mut self.discipline else { return };
        e.changes += 1;
        let is_polled = e.polling > 0;
        if let Some(agent) = by {
            self.slot(agent).explored.own_changes += 1;
        }
        if is_polled {
            self.wake(SPIN_KEY, u32::MAX, 0);
        }
    }

    /// Returns the number of changes that others than the calling agent have made to memory.
    fn changes_by_others(&mut self) -> u64 {
        let Discipline::Explored(e) = &self.discipline else { return 0 };
        let all = e.changes;
        self.current.map_or(0, |me| all - self.slot(me).explored.own_changes)
    }

    fn name_of(&mut self, agent: AgentIx) -> String {
        // The running agent's belongings are swapped in.
        if self.current == Some(agent) {
            thread::name()
        } else {
            self.slot(agent).belongings.name().to_owned()
        }
    }

    fn in_words(&mut self, access: &Access) -> String {
        let name = self.name_of(access.agent);
        let how = if access.is_write { "writes" } else { "reads" };
        format!("'{name}' {how} it at {}", access.site.place())
    }
}

/// Starts to look for data races, from here on.
pub fn detect_races() {
    with(|w| {
        if let Discipline::Explored(e) = &mut w.discipline {
            e.clocks.get_or_insert_default();
        }
        w.note_outside();
    });
}

/// Runs `act` with `site` as the place of its steps in the program.
#[inline]
pub fn at<R>(site: Site, act: impl FnOnce() -> R) -> R {
    let before = exchange_site(site);
    let result = act();
    exchange_site(before);
    result
}

#[inline]
fn exchange_site(site: Site) -> Site {
    with(|w| match w.current {
        Some(me) => std::mem::replace(&mut w.slot(me).explored.site, site),
        None => Site::NONE,
    })
}

/// Sets `site` as the place of the calling agent's steps, unless it has one.
pub fn enter_call(site: Site) -> EnteredCall {
    EnteredCall(with(|w| {
        let Some(me) = w.current else { return false };
        let known = &mut w.slot(me).explored.site;
        let is_outermost = !known.is_some();
        if is_outermost {
            *known = site;
        }
        is_outermost
    }))
}

/// Keeps a call as the place of the calling agent's steps until it is dropped.
#[must_use = "the steps are those of the call until this is dropped"]
pub struct EnteredCall(bool);

impl EnteredCall {
    /// A call that is no place of steps.
    pub const NONE: EnteredCall = EnteredCall(false);
}

impl Drop for EnteredCall {
    #[inline]
    fn drop(&mut self) {
        if self.0 {
            exchange_site(Site::NONE);
        }
    }
}

/// Records an access to a plain cell. Returns the race, in words.
pub fn access_cell(cell: u32, is_write: bool, site: Site) -> Option<String> {
    with(|w| {
        let (clocks, me) = w.clocks()?;
        let (earlier, later) = clocks.access(me, cell, is_write, site)?;
        let (earlier, later) = (w.in_words(&earlier), w.in_words(&later));
        Some(format!("{earlier}, and {later}: neither happens before the other"))
    })
}

/// Takes a lock if it is free, as a step.
pub(crate) fn try_lock(mutex: u32, name: &'static str) -> bool {
    visible(OpKind::TryLock, Object::Mutex(mutex), |w| w.take_lock(mutex, name))
}

/// Stores to memory as a step, once the agent's buffer is empty.
pub fn store_through(word: WordRef<'_>, value: u64, order: Ordering) {
    let object = Object::Word { page: word.page.id, index: word.index };
    visible(OpKind::Store, object, |w| {
        w.log(|log, _| log.value(value));
        let released = w.clock_release(order);
        w.absorb(0xC1);
        w.absorb(value);
        w.commit_word(word.page, word.index, value, w.current);
        w.clock_publish(word.page, word.index, &released);
    });
}

/// Executes a fence that drains no store buffer.
pub fn light_fence(order: Ordering) {
    with(|w| w.clock_fence(order));
}

/// Waits until another agent has changed memory since this agent's last poll.
pub fn poll(what: &str) -> WaitEnd {
    let at_once = visible_unless(
        OpKind::Sleep,
        Object::None,
        |_| None,
        |w| {
            let Some(me) = w.current else { return Some(WaitEnd::Woken) };
            let changes = w.changes_by_others();
            let slot = w.slot(me);
            let is_new = std::mem::replace(&mut slot.explored.polled_changes, changes) != changes;
            let end = match w.stopped {
                true => Some(WaitEnd::Stopped),
                false => is_new.then_some(WaitEnd::Woken),
            };
            if end.is_none()
                && let Discipline::Explored(e) = &mut w.discipline
            {
                e.polling += 1;
            }
            w.absorb(0xB1 + u64::from(end.is_none()));
            end
        },
    );
    at_once.unwrap_or_else(|| {
        let end = block(SPIN_KEY, None, what);
        with(|w| {
            let changes = w.changes_by_others();
            if let (Some(me), Discipline::Explored(e)) = (w.current, &mut w.discipline) {
                e.polling -= 1;
                w.slot(me).explored.polled_changes = changes;
            }
            w.absorb(0xB0 + end as u64);
        });
        end
    })
}

/// Begins or ends a part of the calling agent's program that is not explored: while the agent can
/// move it does, and other agents move in a fixed order.
pub fn unexplored(begins: bool) {
    with(|w| {
        let Some(me) = w.current else { return };
        let Discipline::Explored(e) = &mut w.discipline else { return };
        e.fixed_order = match (begins, e.fixed_order) {
            (true, None) => Some((me, 1)),
            (true, Some((agent, depth))) => Some((agent, depth + 1)),
            (false, Some((agent, depth))) if depth > 1 => Some((agent, depth - 1)),
            (false, _) => None,
        };
    });
}
