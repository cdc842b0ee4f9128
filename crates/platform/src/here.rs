//! The world that this thread belongs to, and the number of its running agent.
//!
//! Invariants: a world stays on the thread that made it, and its id is unique in the process. While
//! a world is here, the number of the agent is not 0. The thread-locals need no check at an access.
//!
//! Entry points: [`agent_here`] for locks, [`agent_number`]; the world calls the others.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    /// The id of the last world that this thread made; 0 before the first one.
    static LAST_WORLD: Cell<u64> = const { Cell::new(0) };
    /// The world of this thread.
    static HERE: Cell<Option<WorldId>> = const { Cell::new(None) };
    /// The number of the running agent, [`NO_AGENT`] while none runs, 0 without a world. Each lock
    /// reads it.
    static AGENT: Cell<u64> = const { Cell::new(0) };
}

const NO_AGENT: u64 = u64::MAX;

/// Names a world. Unique in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorldId(NonZeroU64);

impl WorldId {
    pub(crate) fn next() -> WorldId {
        /// The number of threads that have made worlds.
        static THREADS: AtomicU64 = AtomicU64::new(0);
        const OF_A_THREAD: u32 = 40;
        let last = LAST_WORLD.get();
        let first = || (THREADS.fetch_add(1, Ordering::Relaxed) + 1) << OF_A_THREAD;
        let id = if last == 0 { first() } else { last + 1 };
        LAST_WORLD.set(id);
        WorldId(NonZeroU64::new(id).expect("numbers of threads begin with 1"))
    }
}

/// Makes `world` that of this thread. None of its agents runs.
pub(crate) fn open(world: WorldId) {
    AGENT.set(NO_AGENT);
    HERE.set(Some(world));
}

/// Ends the world of this thread.
pub(crate) fn close() {
    AGENT.set(0);
    HERE.set(None);
}

/// Notes which agent of this thread's world runs, by its index.
#[inline]
pub(crate) fn set_agent(agent: Option<u16>) {
    AGENT.set(agent.map_or(NO_AGENT, |index| u64::from(index) + 1));
}

/// Returns the running agent's number, or `None` without a world.
#[inline]
pub(crate) fn agent_number() -> Option<NonZeroU64> {
    NonZeroU64::new(AGENT.get())
}

/// Returns the running agent's number if `world` is that of this thread.
#[inline]
pub(crate) fn agent_here(world: WorldId) -> Option<NonZeroU64> {
    if HERE.get() == Some(world) { agent_number() } else { None }
}
