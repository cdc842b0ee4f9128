//! The machine that a thread belongs to: its number and its host, or its world and the number of
//! the running agent, and the platform of a running machine.
//!
//! Invariants: a world stays on the thread that made it, and its id is unique in the process. While
//! a world is here, the number of the agent is not 0.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    /// The number of the thread; 0 until it is read.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
    /// The number of the host to which this agent thread belongs; 0 for none.
    pub(crate) static HOST: Cell<u64> = const { Cell::new(0) };
    /// Whether the thread runs a service of that host.
    pub(crate) static IS_SERVICE: Cell<bool> = const { Cell::new(false) };
    /// The id of the last world that this thread made; 0 before the first one.
    static LAST_WORLD: Cell<u64> = const { Cell::new(0) };
    /// The world of this thread.
    static HERE: Cell<Option<WorldId>> = const { Cell::new(None) };
    /// The number of the running agent, [`NO_AGENT`] while none runs, 0 without a world. Each lock
    /// reads it.
    static AGENT: Cell<u64> = const { Cell::new(0) };
    /// The platform whose cooperative machine runs, as the seam has it.
    static RUNNING: RefCell<Option<Platform>> = const { RefCell::new(None) };
    /// The address of that platform, or [`RUNS_NONE`].
    static RUNNING_ADDRESS: Cell<usize> = const { Cell::new(RUNS_NONE) };
}

const NO_AGENT: u64 = u64::MAX;

/// The address of no platform.
pub const RUNS_NONE: usize = 0;

/// The platform of a machine, of which the machines know nothing.
type Platform = Arc<dyn Any + Send + Sync>;

/// Returns a number of the calling thread, never 0.
#[inline]
pub fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if NUMBER.get() == 0 {
        NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

/// Names a world. Unique in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorldId(NonZeroU64);

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

/// Puts `world` on this thread. None of its agents runs.
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

/// Returns the running agent's number if `world` is on this thread.
#[inline]
pub(crate) fn agent_here(world: WorldId) -> Option<NonZeroU64> {
    if HERE.get() == Some(world) { agent_number() } else { None }
}

/// Marks a platform as running until dropped.
pub struct Running(());

/// Marks `platform` as the one whose cooperative machine runs on this thread.
pub fn enter_running(platform: Platform) -> Running {
    RUNNING_ADDRESS.set(Arc::as_ptr(&platform).addr());
    RUNNING.set(Some(platform));
    Running(())
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING_ADDRESS.set(RUNS_NONE);
        // Dropped after the borrow has ended, because the last handle closes the world.
        let _platform = RUNNING.take();
    }
}

/// Returns the platform whose cooperative machine runs the caller.
pub fn running() -> Option<Arc<dyn Any + Send + Sync>> {
    RUNNING.with_borrow(Clone::clone)
}

/// Returns the address of that platform, or [`RUNS_NONE`].
#[inline]
pub fn running_address() -> usize {
    RUNNING_ADDRESS.get()
}
