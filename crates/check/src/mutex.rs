//! A mutex with the methods of std's.

use crate::belonging::{assert_outside, machine, name_of, opaque, sync_step};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use tidegate_platform as platform;
use tidegate_platform::Site;

/// Mutual exclusion, as [`std::sync::Mutex`]. It is poisoned when a thread panics with its guard.
pub struct Mutex<T>(Inner<T>);

enum Inner<T> {
    Std(std::sync::Mutex<T>),
    Machine(platform::Mutex<Guarded<T>>),
}

/// The value of a machine's mutex.
struct Guarded<T> {
    value: T,
    is_poisoned: bool,
}

/// Holds a [`Mutex`] until dropped.
pub struct MutexGuard<'a, T> {
    pub(crate) mutex: &'a Mutex<T>,
    held: Held<'a, T>,
}

enum Held<'a, T> {
    Std(std::sync::MutexGuard<'a, T>),
    Machine(Lock<'a, T>),
}

impl<T> Mutex<T> {
    /// Creates a mutex of the machine on which the caller is an agent, else one of std.
    #[track_caller]
    pub fn new(value: T) -> Mutex<T> {
        Mutex(match machine() {
            None => Inner::Std(std::sync::Mutex::new(value)),
            Some(platform) => {
                let name = name_of("Mutex", Site::caller());
                let guarded = Guarded { value, is_poisoned: false };
                Inner::Machine(platform.mutex_of_program(name, guarded))
            }
        })
    }

    /// Takes the lock.
    ///
    /// # Errors
    /// A thread panicked while it held the lock.
    ///
    /// # Panics
    /// In an explored program: the calling thread holds it already.
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.lock_at(Site::caller())
    }

    pub(crate) fn lock_at(&self, site: Site) -> LockResult<MutexGuard<'_, T>> {
        match &self.0 {
            Inner::Std(inner) => {
                assert_outside("a Mutex", site);
                let guard = |held| MutexGuard { mutex: self, held: Held::Std(held) };
                inner.lock().map(guard).map_err(|e| PoisonError::new(guard(e.into_inner())))
            }
            Inner::Machine(inner) => {
                let held = sync_step(inner.platform(), "a Mutex", site, || inner.lock_device());
                self.guard_of(held)
            }
        }
    }

    /// Returns whether the mutex belongs to a machine.
    pub(crate) fn is_of_machine(&self) -> bool {
        matches!(self.0, Inner::Machine(_))
    }

    fn guard_of<'a>(
        &'a self,
        held: platform::MutexGuard<'a, Guarded<T>>,
    ) -> LockResult<MutexGuard<'a, T>> {
        let is_poisoned = held.is_poisoned;
        let guard = MutexGuard { mutex: self, held: Held::Machine(Lock(held)) };
        if is_poisoned { Err(PoisonError::new(guard)) } else { Ok(guard) }
    }

    /// Takes the lock if it is free.
    ///
    /// # Errors
    /// It is taken, or a thread panicked while it held it.
    #[track_caller]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let site = Site::caller();
        match &self.0 {
            Inner::Std(inner) => {
                assert_outside("a Mutex", site);
                let guard = |held| MutexGuard { mutex: self, held: Held::Std(held) };
                inner.try_lock().map(guard).map_err(|error| match error {
                    TryLockError::WouldBlock => TryLockError::WouldBlock,
                    TryLockError::Poisoned(e) => {
                        TryLockError::Poisoned(PoisonError::new(guard(e.into_inner())))
                    }
                })
            }
            Inner::Machine(inner) => {
                let held = sync_step(inner.platform(), "a Mutex", site, || inner.try_lock_device());
                match held {
                    None => Err(TryLockError::WouldBlock),
                    Some(held) => self.guard_of(held).map_err(TryLockError::Poisoned),
                }
            }
        }
    }

    /// Returns whether a thread panicked while it held the lock.
    #[track_caller]
    pub fn is_poisoned(&self) -> bool {
        match &self.0 {
            Inner::Std(inner) => inner.is_poisoned(),
            Inner::Machine(_) => self.lock_at(Site::caller()).is_err(),
        }
    }

    /// Returns the value.
    ///
    /// # Errors
    /// A thread panicked while it held the lock.
    pub fn into_inner(self) -> LockResult<T> {
        match self.0 {
            Inner::Std(inner) => inner.into_inner(),
            Inner::Machine(inner) => {
                let Guarded { value, is_poisoned } = inner.into_inner();
                if is_poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
            }
        }
    }
}

impl<T: Default> Default for Mutex<T> {
    #[track_caller]
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<'a, T> MutexGuard<'a, T> {
    /// Returns the guard of std, or `None` for a mutex of a machine, whose lock it drops.
    pub(crate) fn into_std(self) -> Option<std::sync::MutexGuard<'a, T>> {
        match self.held {
            Held::Std(guard) => Some(guard),
            Held::Machine(_) => None,
        }
    }

    pub(crate) fn of_std(mutex: &'a Mutex<T>, guard: std::sync::MutexGuard<'a, T>) -> Self {
        MutexGuard { mutex, held: Held::Std(guard) }
    }
}

/// The lock of a machine's mutex.
struct Lock<'a, T>(platform::MutexGuard<'a, Guarded<T>>);

impl<T> Drop for Lock<'_, T> {
    fn drop(&mut self) {
        // An agent that its machine stopped unwinds too, but has not failed.
        if std::thread::panicking() && !self.0.platform().is_stopped() {
            self.0.is_poisoned = true;
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        match &self.held {
            Held::Std(guard) => guard,
            Held::Machine(lock) => &lock.0.value,
        }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.held {
            Held::Std(guard) => guard,
            Held::Machine(lock) => &mut lock.0.value,
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

opaque!("Mutex", Mutex<T>, T);
