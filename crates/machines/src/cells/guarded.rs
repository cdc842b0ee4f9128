//! A value that one agent or thread uses at a time: the storage of the locks of the seam.
//!
//! Invariants: a [`Held`] or [`HeldHere`] exists only while its lock is held, and a lock has one at
//! most. The lock is std's, or, in a cooperative machine, the owner's number: all its agents run on
//! one thread, and [`thread::agent_here`] returns a number on that thread only. A value uses one
//! kind of lock for ever.
//!
//! Entry points: [`Guarded::hold_here`], [`Guarded::hold`], [`Guarded::try_hold`].

use crate::thread::{self, WorldId};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Held by no agent.
const FREE: u64 = 0;

/// What lies beside the lock.
pub trait Header {
    /// Called when the lock with this address has been released. `counted` is what it was taken
    /// with.
    fn released(&self, key: usize, counted: bool);
}

/// A value and its lock.
pub struct Guarded<H, T> {
    /// What lies beside the lock.
    pub header: H,
    /// The number of the agent or thread that holds the lock, or [`FREE`].
    owner: AtomicU64,
    /// The cooperative machine whose agents use the value; `None` if the lock is std's.
    world: Option<WorldId>,
    lock: Mutex<()>,
    value: UnsafeCell<T>,
}

// SAFETY: a reference to the value comes only from a `Held`. While one exists there is no other: by
// std's lock, or because all of them are made on the thread of one machine, whose owner's number is
// then set. A `Held` stays on its thread. So the value moves between threads at most, which
// `T: Send` allows. It moves between two threads only by std's lock.
unsafe impl<H: Sync, T: Send> Sync for Guarded<H, T> {}

impl<H, T> UnwindSafe for Guarded<H, T> {}
impl<H, T> RefUnwindSafe for Guarded<H, T> {}

impl<H: Header, T> Guarded<H, T> {
    /// Returns a value whose lock is std's, or the owner's number in a cooperative machine.
    pub fn new(header: H, world: Option<WorldId>, value: T) -> Guarded<H, T> {
        let (owner, lock) = (AtomicU64::new(FREE), Mutex::new(()));
        Guarded { header, owner, world, lock, value: UnsafeCell::new(value) }
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// Returns whether `me` holds the lock.
    #[inline]
    pub fn is_held_by(&self, me: u64) -> bool {
        self.owner.load(Ordering::Relaxed) == me
    }

    /// Returns the address of the lock.
    #[inline]
    pub fn key(&self) -> usize {
        std::ptr::from_ref(&self.owner).addr()
    }

    /// Takes the lock for the running agent if it is free. Returns `None` also if the lock is
    /// std's, or if the value's machine belongs to another thread.
    #[inline]
    pub fn hold_here(&self) -> Option<HeldHere<'_, H, T>> {
        let me = thread::agent_here(self.world?)?.get();
        if !self.is_held_by(FREE) {
            return None;
        }
        self.owner.store(me, Ordering::Relaxed);
        Some(HeldHere(self))
    }

    /// Takes the lock for `me` if it is free.
    pub fn try_hold(&self, me: u64, counted: bool) -> Option<Held<'_, H, T>> {
        if self.world.is_some() {
            return self.hold_here().map(|held| held.counted(counted));
        }
        let std = match self.lock.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(p)) => p.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(self.held(me, std, counted))
    }

    /// Takes std's lock for `me`. Blocks the calling thread until it is free.
    ///
    /// # Panics
    /// The value belongs to a cooperative machine.
    #[inline]
    pub fn hold(&self, me: u64, counted: bool) -> Held<'_, H, T> {
        assert!(self.world.is_none(), "a thread blocks for a lock of a cooperative machine");
        let std = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.held(me, std, counted)
    }

    #[inline]
    fn held<'a>(&'a self, me: u64, std: MutexGuard<'a, ()>, counted: bool) -> Held<'a, H, T> {
        self.owner.store(me, Ordering::Relaxed);
        Held { of: self, std: Some(std), counted, value: PhantomData }
    }

    /// Returns whether the cooperative machine runs on the calling thread.
    pub fn is_here(&self) -> bool {
        self.world.is_some_and(|world| thread::agent_here(world).is_some())
    }
}

/// The lock of a cooperative machine, taken and not yet guarded: an address, which a function
/// returns in a register. There is one at most, as of [`Held`].
#[must_use = "the lock stays taken"]
pub struct HeldHere<'a, H, T>(&'a Guarded<H, T>);

impl<'a, H: Header, T> HeldHere<'a, H, T> {
    /// Guards the lock.
    #[inline]
    pub fn counted(self, counted: bool) -> Held<'a, H, T> {
        Held { of: self.0, std: None, counted, value: PhantomData }
    }
}

/// Holds the lock of a [`Guarded`] until dropped. It stays on its thread, as std's guard does.
pub struct Held<'a, H: Header, T> {
    of: &'a Guarded<H, T>,
    /// `None` in a cooperative machine.
    std: Option<MutexGuard<'a, ()>>,
    counted: bool,
    value: PhantomData<&'a mut T>,
}

impl<H: Header, T> Held<'_, H, T> {
    /// Returns what lies beside the lock.
    pub fn header(&self) -> &H {
        &self.of.header
    }

    /// Returns the address of the lock.
    pub fn key(&self) -> usize {
        self.of.key()
    }
}

impl<H: Header, T> Drop for Held<'_, H, T> {
    #[inline]
    fn drop(&mut self) {
        self.of.owner.store(FREE, Ordering::Relaxed);
        drop(self.std.take());
        self.of.header.released(self.of.key(), self.counted);
    }
}

impl<H: Header, T> Deref for Held<'_, H, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held until `self` is dropped, so no other `Held` gives a reference.
        unsafe { &*self.of.value.get() }
    }
}

impl<H: Header, T> DerefMut for Held<'_, H, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `self` is borrowed for as long as the reference lives.
        unsafe { &mut *self.of.value.get() }
    }
}
