//! Types like those of std for programs that [`tidegate::check`] explores.
//!
//! A value made on an agent of a cooperative machine belongs to that machine: its steps are seen by
//! the explorer and ordered by virtual time. A value made elsewhere is std's, behind one
//! branch, so product code can use these types always. A value of one side that is used on the
//! other would be invisible to the explorer, so it is a panic that names both places
//! (decisions/0085).
//!
//! Rooms: `belonging` (the side of a value) · [`atomic`] · [`cell`] · `mutex`, `condvar`,
//! `rw_lock`, `once`, `barrier`, [`mpsc`] ([`sync`]) · [`thread`], `parking` · [`hint`]
//!
//! [`tidegate::check`]: https://docs.rs/tidegate

pub mod atomic;
mod barrier;
mod belonging;
pub mod cell;
mod condvar;
pub mod mpsc;
mod mutex;
mod once;
mod parking;
mod rw_lock;
pub mod thread;

pub(crate) use belonging::Stopped;

/// Locks, and what waits with them.
///
/// `Arc` and `Weak` are those of std: their counters are no steps, and their orders are not seen by
/// the race detector. A plain cell that the last owner's `drop` accesses needs another order.
pub mod sync {
    pub use super::barrier::{Barrier, BarrierWaitResult};
    pub use super::condvar::{Condvar, WaitTimeoutResult};
    pub use super::mutex::{Mutex, MutexGuard};
    pub use super::once::{Once, OnceLock};
    pub use super::rw_lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
    pub use super::{atomic, mpsc};
    pub use std::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult, Weak};
}

/// Hints of polling loops.
pub mod hint {
    /// Tells the processor that the caller polls. In an explored program the caller then runs again
    /// when another thread has changed memory.
    #[track_caller]
    pub fn spin_loop() {
        match crate::running::platform() {
            Some(_) => super::thread::yield_now(),
            None => std::hint::spin_loop(),
        }
    }
}
