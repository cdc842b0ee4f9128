//! A reader-writer lock with the methods of std's.
//!
//! In a machine the lock is one word: the number of readers, or `WRITER`. The guard that frees the
//! lock wakes all waiters, which try again in any order, so neither side has priority.

use crate::belonging::{assert_outside, end_agent, machine, name_of, opaque, sync_step};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use tidegate_platform::{Site, Step, WaitEnd, Word};

const FREE: u64 = 0;
const WRITER: u64 = u32::MAX as u64;

/// A lock for one writer or any number of readers, as [`std::sync::RwLock`]. It is poisoned when a
/// thread panics with its write guard.
pub struct RwLock<T> {
    value: std::sync::RwLock<T>,
    machine: Option<State>,
}

/// The lock of a machine.
struct State {
    word: Word,
    name: &'static str,
}

/// How the lock is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Read,
    Write,
}

impl Mode {
    /// Returns the state after the lock is taken in state `old`.
    fn taken(self, old: u64) -> Option<u64> {
        match (self, old) {
            (Mode::Write, FREE) => Some(WRITER),
            (Mode::Read, readers) if readers != WRITER => Some(readers + 1),
            _ => None,
        }
    }
}

impl State {
    /// Takes the lock if it is free. Returns the state that prevents it.
    fn try_take(&self, mode: Mode) -> Result<(), u64> {
        let old = self.word.update_as((AcqRel, Relaxed), |old| mode.taken(old));
        if mode.taken(old).is_some() { Ok(()) } else { Err(old) }
    }

    fn take(&self, mode: Mode) {
        while let Err(seen) = self.try_take(mode) {
            if self.word.wait_while(seen as u32, None, self.name) == WaitEnd::Stopped {
                end_agent();
            }
        }
    }
}

/// Gives the lock back when dropped.
struct Held<'a>(&'a State);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let word = &self.0.word;
        if !word.platform().is_current() {
            return;
        }
        let without_mine = |old| if old == WRITER { FREE } else { old - 1 };
        // An agent must not be switched while it unwinds.
        if std::thread::panicking() {
            word.update_at_once(without_mine);
            return;
        }
        let old = word.update_as((Release, Acquire), |old| Some(without_mine(old)));
        if without_mine(old) == FREE {
            word.wake(u32::MAX, Step::ThreadWake);
        }
    }
}

macro_rules! guard {
    ($(#[$doc:meta])* $name:ident, $std:ident) => {
        $(#[$doc])*
        pub struct $name<'a, T> {
            // Dropped first: the value is free before the lock is.
            value: std::sync::$std<'a, T>,
            _held: Option<Held<'a>>,
        }

        impl<T> Deref for $name<'_, T> {
            type Target = T;
            fn deref(&self) -> &T {
                &self.value
            }
        }

        impl<T: fmt::Debug> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    };
}

guard!(
    /// Holds a [`RwLock`] for reading until dropped.
    RwLockReadGuard,
    RwLockReadGuard
);
guard!(
    /// Holds a [`RwLock`] for writing until dropped.
    RwLockWriteGuard,
    RwLockWriteGuard
);

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

macro_rules! modes {
    ($(
        $(#[$doc:meta])*
        $lock:ident, $try_lock:ident: $mode:ident $guard:ident;
    )*) => {
        $(
            $(#[$doc])*
            ///
            /// # Errors
            /// A thread panicked while it held the lock for writing.
            #[track_caller]
            pub fn $lock(&self) -> LockResult<$guard<'_, T>> {
                let site = Site::caller();
                let Some(state) = &self.machine else {
                    assert_outside("a RwLock", site);
                    let guard = |value| $guard { value, _held: None };
                    return self.value.$lock().map(guard).map_err(|error| {
                        PoisonError::new(guard(error.into_inner()))
                    });
                };
                sync_step(state.word.platform(), "a RwLock", site, || state.take(Mode::$mode));
                let held = Some(Held(state));
                match self.value.$try_lock() {
                    Ok(value) => Ok($guard { value, _held: held }),
                    Err(TryLockError::Poisoned(error)) => {
                        Err(PoisonError::new($guard { value: error.into_inner(), _held: held }))
                    }
                    Err(TryLockError::WouldBlock) => panic!("the RwLock is taken twice"),
                }
            }

            /// Takes the lock in the same way if no other guard prevents it.
            ///
            /// # Errors
            /// It is taken, or a thread panicked while it held it for writing.
            #[track_caller]
            pub fn $try_lock(&self) -> TryLockResult<$guard<'_, T>> {
                let site = Site::caller();
                let held = match &self.machine {
                    None => {
                        assert_outside("a RwLock", site);
                        None
                    }
                    Some(state) => {
                        let platform = state.word.platform();
                        sync_step(platform, "a RwLock", site, || state.try_take(Mode::$mode))
                            .map_err(|_| TryLockError::WouldBlock)?;
                        Some(Held(state))
                    }
                };
                match self.value.$try_lock() {
                    Ok(value) => Ok($guard { value, _held: held }),
                    Err(TryLockError::Poisoned(error)) => {
                        let guard = $guard { value: error.into_inner(), _held: held };
                        Err(TryLockError::Poisoned(PoisonError::new(guard)))
                    }
                    Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
                }
            }
        )*
    };
}

impl<T> RwLock<T> {
    /// Creates a lock of the machine on which the caller is an agent, else one of std.
    #[track_caller]
    pub fn new(value: T) -> RwLock<T> {
        let site = Site::caller();
        let machine = machine().map(|platform| {
            let name = name_of("RwLock", site);
            State { word: platform.page(1).word(0).named(name), name }
        });
        RwLock { value: std::sync::RwLock::new(value), machine }
    }

    modes! {
        /// Takes the lock for reading, together with other readers.
        read, try_read: Read RwLockReadGuard;
        /// Takes the lock for writing, alone.
        write, try_write: Write RwLockWriteGuard;
    }

    /// Returns whether a thread panicked while it held the lock for writing.
    pub fn is_poisoned(&self) -> bool {
        self.value.is_poisoned()
    }

    /// Returns the value.
    ///
    /// # Errors
    /// A thread panicked while it held the lock for writing.
    pub fn into_inner(self) -> LockResult<T> {
        self.value.into_inner()
    }
}

impl<T: Default> Default for RwLock<T> {
    #[track_caller]
    fn default() -> RwLock<T> {
        RwLock::new(T::default())
    }
}

opaque!("RwLock", RwLock<T>, T);
