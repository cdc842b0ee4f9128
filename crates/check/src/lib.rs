//! Types like std's, for programs that [`tidegate::check`] explores.
//!
//! A value made on an agent of a cooperative machine belongs to that machine: its steps are seen by
//! the explorer and ordered by virtual time. A value made elsewhere is std's, behind one
//! branch, so product code can use these types always. A value of one side that is used on the
//! other would be invisible to the explorer, so it is a panic that names both places
//! (decisions/0085).
//!
//! On top of the seam and of its machines (decisions/0170). `tidegate::check` is its public name.
//!
//! Rooms: `belonging` (the side of a value) · [`atomic`] · [`cell`] · `mutex`, `condvar`,
//! `rw_lock`, `once`, `barrier`, [`mpsc`] ([`sync`]) · [`thread`], `parking` · [`hint`]
//!
//! [`tidegate::check`]: https://docs.rs/tidegate

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

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

/// Locks, and what waits with them.
///
/// `Arc` and `Weak` are std's: counting is not a step, and the race detector does not see its
/// orders. A plain cell that the last owner's `drop` accesses needs another order.
pub mod sync {
    pub use crate::barrier::{Barrier, BarrierWaitResult};
    pub use crate::condvar::{Condvar, WaitTimeoutResult};
    pub use crate::mutex::{Mutex, MutexGuard};
    pub use crate::once::{Once, OnceLock};
    pub use crate::rw_lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
    pub use crate::{atomic, mpsc};
    pub use std::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult, Weak};
}

/// Hints of polling loops.
pub mod hint {
    /// Tells the processor that the caller polls. In an explored program the caller then runs again
    /// when another thread has changed memory.
    #[track_caller]
    pub fn spin_loop() {
        match tidegate_platform::Platform::current() {
            Some(_) => crate::thread::yield_now(),
            None => std::hint::spin_loop(),
        }
    }
}
