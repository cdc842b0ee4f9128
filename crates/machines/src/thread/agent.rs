//! The state of the running agent: its name, level, held locks, recorder, and notes for panics.
//!
//! It is thread-local on the host. In a cooperative machine the world switches it together with the
//! fiber. Agents share none of it.

use super::recorder::OwnRecorder;
use std::any::Any;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An interrupt request level, lowest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// PASSIVE_LEVEL: may block.
    #[default]
    Passive,
    /// DISPATCH_LEVEL: must not block.
    Dispatch,
    /// The device's interrupt level.
    Dirql,
}

thread_local! {
    /// `None` for a thread of which nothing is known yet.
    static MINE: RefCell<Option<Box<Known>>> = const { RefCell::new(None) };
    /// Emptied ones for reuse: explorers start millions of agents per second.
    #[allow(clippy::vec_box)] // The boxes are what is reused.
    static SPARE: RefCell<Vec<Box<Known>>> = const { RefCell::new(Vec::new()) };
    // Counted at each lock. A thread-local without a destructor needs no check at an access.
    static GUARDS: Cell<u32> = const { Cell::new(0) };
    static LEVEL: Cell<Level> = const { Cell::new(Level::Passive) };
    /// Whether the thread makes a value that others wait for ([`crate::once`]).
    pub(crate) static MAKES_ALONE: Cell<bool> = const { Cell::new(false) };
    /// Where the thread panics, if a panic hook has noted it.
    pub(crate) static PANIC_PLACE: Cell<Option<String>> = const { Cell::new(None) };
}

/// What the calling agent collects; see [`collect_for`].
#[derive(Clone, Copy, Default)]
struct Collecting {
    /// For which owner; 0 for none.
    owner: u64,
    /// Whether something was added.
    any: bool,
}

const POOLED: usize = 64;

/// The state of an agent that is switched together with its fiber.
#[derive(Default)]
pub struct Belongings {
    known: Option<Box<Known>>,
    /// Valid while the agent does not run.
    guards: u32,
    /// Valid while the agent does not run.
    level: Level,
}

/// What a switch moves by its address.
#[derive(Default)]
struct Known {
    name: Cow<'static, str>,
    /// The number of the agent or thread, unique in the process; 0 until it is read.
    number: u64,
    /// Whether it is an agent of a machine, and not another thread that calls in.
    is_agent: bool,
    collecting: Collecting,
    /// Held locks, and waits whose ends are owed, in the order in which they were taken. Kept in
    /// debug builds, and in explored machines.
    held: Vec<HeldItem>,
    /// The numbers of the gates that the agent is inside of.
    inside: Vec<u64>,
    recorder: Option<OwnRecorder>,
    /// What the checker keeps with an agent.
    kept_by_checker: Option<Arc<dyn Any + Send + Sync>>,
}

impl Belongings {
    pub(crate) fn named(name: impl Into<Cow<'static, str>>) -> Belongings {
        let mut known = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        (known.name, known.is_agent) = (name.into(), true);
        Belongings { known: Some(known), ..Belongings::default() }
    }

    pub(crate) fn name(&self) -> &str {
        self.known.as_ref().map_or("", |known| &known.name)
    }

    pub(crate) fn take_recorder(&mut self) -> Option<OwnRecorder> {
        self.known.as_mut()?.recorder.take()
    }

    /// Keeps the memory for another agent of this thread.
    pub(crate) fn recycle(self) {
        let Some(mut known) = self.known else { return };
        let Known { name, number, is_agent, collecting, held, inside, recorder, kept_by_checker } =
            &mut *known;
        *name = Cow::Borrowed("");
        (*number, *is_agent, *collecting) = (0, false, Collecting::default());
        held.clear();
        inside.clear();
        (*recorder, *kept_by_checker) = (None, None);
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < POOLED {
                spare.push(known);
            }
        });
    }
}

fn with<R>(f: impl FnOnce(&mut Known) -> R) -> R {
    MINE.with_borrow_mut(|mine| f(mine.get_or_insert_default()))
}

/// Swaps `mine` with the current state.
#[inline]
pub(crate) fn swap(mine: &mut Belongings) {
    MINE.with_borrow_mut(|known| std::mem::swap(known, &mut mine.known));
    (mine.guards, mine.level) = (GUARDS.replace(mine.guards), LEVEL.replace(mine.level));
}

/// Gives the current state back to `from`, whose place holds the state of the run loop, and makes
/// that of `to` the current one. The state of the run loop is then in the place of `to`.
#[inline]
pub(crate) fn pass(from: &mut Belongings, to: &mut Belongings) {
    MINE.with_borrow_mut(|known| {
        std::mem::swap(&mut from.known, &mut to.known);
        std::mem::swap(known, &mut from.known);
    });
    let of_loop = (from.guards, from.level);
    (from.guards, from.level) = (GUARDS.replace(to.guards), LEVEL.replace(to.level));
    (to.guards, to.level) = of_loop;
}

/// Installs `mine` and returns the previous state.
pub(crate) fn exchange(mut mine: Belongings) -> Belongings {
    swap(&mut mine);
    mine
}

/// Returns the calling agent's name.
pub fn name() -> String {
    with(|m| m.name.clone().into_owned())
}

/// Returns the name of the calling agent; for a thread of the application, the name that it has
/// there, or its number.
pub fn name_for_people(number: u64) -> String {
    let own = name();
    if !own.is_empty() {
        return own;
    }
    let thread = std::thread::current();
    thread.name().map_or_else(|| format!("number {number}"), str::to_owned)
}

/// Returns what the checker keeps with the calling agent.
pub fn kept_by_checker() -> Option<Arc<dyn Any + Send + Sync>> {
    with(|m| m.kept_by_checker.clone())
}

/// Sets what the checker keeps with the calling agent.
pub fn set_kept_by_checker(kept: Arc<dyn Any + Send + Sync>) {
    with(|m| m.kept_by_checker = Some(kept));
}

/// Returns the number of the calling agent or thread, and whether it is an agent.
pub fn identity() -> (u64, bool) {
    static LAST: AtomicU64 = AtomicU64::new(0);
    with(|m| {
        if m.number == 0 {
            m.number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        }
        (m.number, m.is_agent)
    })
}

/// Returns whether the calling agent is unwinding from a panic. A destructor must then take
/// no locks.
pub fn is_panicking() -> bool {
    std::thread::panicking()
}

/// Returns the number of platform locks that the calling agent holds.
#[inline]
pub fn guards_held() -> u32 {
    GUARDS.get()
}

/// Counts a lock that the calling agent has taken.
#[inline]
pub fn guard_taken() {
    GUARDS.set(GUARDS.get() + 1);
}

/// Ends the count of a lock.
#[inline]
pub fn guard_dropped() {
    GUARDS.set(GUARDS.get() - 1);
}

/// Returns the calling agent's interrupt request level.
#[inline]
pub fn level() -> Level {
    LEVEL.get()
}

/// Sets the calling agent's level and returns the previous level.
#[inline]
pub fn exchange_level(level: Level) -> Level {
    LEVEL.replace(level)
}

/// Makes `call`, whose callbacks leave work of `owner` to the calling agent, as [`collects_for`]
/// tells them. Returns also whether there is any. `owner` is not 0, and unique in the process.
pub fn collect_for<R>(owner: u64, call: impl FnOnce() -> R) -> (R, bool) {
    struct Outer(Collecting);
    impl Drop for Outer {
        fn drop(&mut self) {
            with(|m| m.collecting = self.0);
        }
    }
    let mine = Collecting { owner, any: false };
    let _outer = Outer(with(|m| std::mem::replace(&mut m.collecting, mine)));
    let result = call();
    (result, with(|m| m.collecting.any))
}

/// Returns whether the calling agent is in a call of [`collect_for`] with this owner, and has that
/// call return that there is work.
pub fn collects_for(owner: u64) -> bool {
    with(|m| {
        let collects = m.collecting.owner == owner;
        m.collecting.any |= collects;
        collects
    })
}

/// Checks that no guard of policy state is held over `what` (a DDI call, a callback).
///
/// # Panics
///
/// The calling agent holds a platform lock.
#[inline]
pub fn assert_no_guards(what: &str) {
    let held = guards_held();
    assert!(
        held == 0,
        "agent '{}' holds {held} lock(s) over {what}: decide, drop, call, take, apply",
        name()
    );
}

/// A lock that an agent holds, or a wait whose end it owes.
#[derive(Clone, Copy)]
pub struct HeldItem {
    /// Its identity.
    pub address: usize,
    /// Its name, for reports.
    pub name: &'static str,
    /// The position in the platform's lock order.
    pub rank: Option<u32>,
    /// The number of its class in the order of waits; 0 for none.
    pub class: u16,
    /// The identity of the platform.
    pub machine: usize,
}

/// Records that the calling agent is about to take a lock.
///
/// # Panics
///
/// The agent holds a lock that comes later in the platform's lock order.
pub fn lock_taken(item: HeldItem) {
    let held = with(|m| {
        let inner = m.held.iter().find(|held| item.rank.is_some() && held.rank >= item.rank);
        let inner = inner.map(|held| held.name);
        m.held.push(item);
        inner
    });
    if let Some(held) = held {
        let (agent, name) = (self::name(), item.name);
        panic!(
            "agent '{agent}' takes the lock '{name}' while it holds '{held}', against the lock order"
        );
    }
}

/// Calls `visit` with each lock that the calling agent holds, and with each wait whose end it owes.
pub fn each_held(visit: impl FnMut(&HeldItem)) {
    with(|m| m.held.iter().for_each(visit));
}

/// Records that the calling agent has dropped the lock, or ended the wait, of this identity.
pub fn lock_dropped(address: usize) {
    with(|m| {
        if let Some(at) = m.held.iter().rposition(|held| held.address == address) {
            m.held.remove(at);
        }
    });
}

/// Records that the calling agent is inside of the gate of this number.
pub fn entered(gate: u64) {
    with(|m| m.inside.push(gate));
}

/// Records that the calling agent has left the gate once.
pub fn left(gate: u64) {
    with(|m| {
        if let Some(at) = m.inside.iter().rposition(|inside| *inside == gate) {
            m.inside.swap_remove(at);
        }
    });
}

/// Returns whether the calling agent is inside of the gate of this number.
pub fn is_inside(gate: u64) -> bool {
    with(|m| m.inside.contains(&gate))
}

/// Calls `f` with the place of the recorder of the calling agent.
pub fn with_recorder<R>(f: impl FnOnce(&mut Option<OwnRecorder>) -> R) -> R {
    with(|m| f(&mut m.recorder))
}

/// Gives the records of the calling agent, which ends, to their owner.
pub fn collect() {
    if let Some(own) = with_recorder(Option::take) {
        own.give_back();
    }
}

/// Notes where the calling agent panics, for the report of the run. A panic hook calls it.
pub fn note_panic_place(place: &str) {
    PANIC_PLACE.set(Some(place.to_owned()));
}

/// Checks that the calling agent is not the maker of a value.
#[inline]
pub(crate) fn check_step() {
    debug_assert!(
        !MAKES_ALONE.get(),
        "a value that is made on first use takes a step in its making"
    );
}
