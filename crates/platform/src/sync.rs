//! Owns locks and the parking of services: [`Mutex`], [`WakeWord`].
//!
//! Invariants: the mutex knows its owner, so taking it twice panics with names and does not hang.
//! No guard is held over a DDI call or a callback ([`crate::current::assert_no_guards`]). A wake
//! word is a protocol word, so its own races are explored.

use crate::access::ClientAccess;
use crate::memory::Word;
use crate::wait::{Deadline, WaitEnd};
use crate::{CpuTime, Platform, PlatformKind, Step, current, host, world};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, TryLockError};

/// Mutual exclusion for policy state.
pub struct Mutex<T> {
    platform: Platform,
    name: &'static str,
    /// The number in the explored world; 0 elsewhere.
    id: u32,
    /// The position in the platform's lock order.
    rank: Option<u32>,
    owner: AtomicU64,
    value: std::sync::Mutex<T>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(platform: &Platform, name: &'static str, value: T) -> Mutex<T> {
        let id =
            if platform.kind() == PlatformKind::Explored { world::next_object_id() } else { 0 };
        Mutex {
            platform: platform.clone(),
            name,
            id,
            rank: platform.lock_rank(name),
            owner: AtomicU64::new(0),
            value: std::sync::Mutex::new(value),
        }
    }

    /// Takes the lock.
    ///
    /// # Panics
    ///
    /// The calling agent already holds it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let guard = self.take();
        current::guard_taken();
        MutexGuard { mutex: self, guard: Some(guard), counted: true }
    }

    /// Takes a lock that orders calls and guards no policy state, so it may be held over calls:
    /// the interrupt lock, a mailbox, a queue's submitter lock. [`current::assert_no_guards`]
    /// ignores it.
    #[inline]
    pub fn lock_device(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, guard: Some(self.take()), counted: false }
    }

    /// Takes the lock as [`Mutex::lock_device`] does, if it is free.
    pub(crate) fn try_lock_device(&self) -> Option<MutexGuard<'_, T>> {
        if self.platform.kind() == PlatformKind::Explored && !world::try_lock(self.id, self.name) {
            return None;
        }
        let guard = match self.value.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(p)) => p.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        if cfg!(debug_assertions) {
            current::lock_taken(self.key(), self.name, self.rank);
        }
        self.owner.store(self.me(), Ordering::Relaxed);
        Some(MutexGuard { mutex: self, guard: Some(guard), counted: false })
    }

    /// Returns the value.
    pub(crate) fn into_inner(self) -> T {
        self.value.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the platform of the lock.
    pub(crate) fn platform(&self) -> &Platform {
        &self.platform
    }

    /// Returns whether the calling agent holds the lock.
    pub fn is_mine(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == self.me()
    }

    #[inline]
    fn me(&self) -> u64 {
        match self.platform.kind() {
            PlatformKind::Host => host::thread_number(),
            _ => world::agent_number(),
        }
    }

    #[inline]
    fn take(&self) -> std::sync::MutexGuard<'_, T> {
        let on_host = self.platform.kind() == PlatformKind::Host;
        let me = if on_host { host::thread_number() } else { world::agent_number() };
        if self.owner.load(Ordering::Relaxed) == me {
            self.panic_held();
        }
        if cfg!(debug_assertions) {
            current::lock_taken(self.key(), self.name, self.rank);
        }
        let guard = match on_host {
            true => self.value.lock().unwrap_or_else(PoisonError::into_inner),
            false => self.lock_in_world(),
        };
        self.owner.store(me, Ordering::Relaxed);
        guard
    }

    #[cold]
    fn panic_held(&self) -> ! {
        let (agent, lock) = (current::name(), self.name);
        panic!("agent '{agent}' takes the lock '{lock}', which it holds already");
    }

    /// Takes the lock on a cooperative platform. Apart from [`Mutex::take`], which is part of each
    /// caller.
    #[inline(never)]
    fn lock_in_world(&self) -> std::sync::MutexGuard<'_, T> {
        if self.platform.kind() == PlatformKind::Virtual {
            return self.lock_virtual();
        }
        world::lock(self.id, self.name);
        match self.value.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(p)) => p.into_inner(),
            Err(TryLockError::WouldBlock) => self.wait_for_builder(),
        }
    }

    /// Waits for a lock that the builder of the machine took before the run, so that the world knows
    /// of no owner. Now the world takes the agent for it, and the agent waits for itself: it is
    /// reported as blocked.
    #[cold]
    fn wait_for_builder(&self) -> ! {
        world::lock(self.id, self.name);
        panic!("the world gave the lock '{}' twice", self.name)
    }

    /// Releases the lock on a cooperative platform.
    #[inline(never)]
    fn unlock_in_world(&self) {
        match self.platform.kind() {
            PlatformKind::Virtual => world::lock_dropped(self.key()),
            _ => world::unlock(self.id),
        }
    }

    fn lock_virtual(&self) -> std::sync::MutexGuard<'_, T> {
        loop {
            match self.value.try_lock() {
                Ok(guard) => return guard,
                Err(TryLockError::Poisoned(p)) => return p.into_inner(),
                Err(TryLockError::WouldBlock) => world::wait_for_lock(self.key(), self.name),
            }
        }
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(&self.owner) as usize
    }
}

/// Holds a [`Mutex`] until dropped.
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    guard: Option<std::sync::MutexGuard<'a, T>>,
    counted: bool,
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.owner.store(0, Ordering::Relaxed);
        self.guard = None;
        if cfg!(debug_assertions) {
            current::lock_dropped(self.mutex.key());
        }
        if self.counted {
            current::guard_dropped();
        }
        if self.mutex.platform.is_cooperative() {
            self.mutex.unlock_in_world();
        }
    }
}

impl<T> MutexGuard<'_, T> {
    /// Returns the platform of the lock.
    pub(crate) fn platform(&self) -> &Platform {
        &self.mutex.platform
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.guard.as_deref().expect("the guard is there until it is dropped")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_deref_mut().expect("the guard is there until it is dropped")
    }
}

const AWAKE: u64 = 0;
const ASLEEP: u64 = 1;

/// Whether a store to a doorbell must wake an engine. The store alone wakes none.
///
/// Ringer: store the doorbell, full barrier, load the wake word, wake if it is set to asleep.
/// Sleeper: set the wake word, full barrier, scan the doorbells again, sleep. Either the ringer
/// sees "asleep" or the scan sees the ring.
#[derive(Clone, Debug)]
pub struct WakeWord {
    word: Word,
}

impl WakeWord {
    /// Returns a wake word whose service is awake.
    pub fn new(platform: &Platform) -> WakeWord {
        let page = platform.client_page(1, ClientAccess::ReadOnly);
        WakeWord { word: page.word(0).named("a wake word") }
    }

    /// Returns the word, which another process may read: it is 0 while the service is awake.
    pub fn word(&self) -> Word {
        self.word.clone()
    }

    /// Wakes the sleeper if it is asleep. Called after the doorbell's store.
    #[inline]
    pub fn ring(&self, step: Step) {
        self.word.platform().fence();
        self.ring_after_barrier(step);
    }

    /// As [`WakeWord::ring`], for a caller that has executed a full barrier after the doorbell's
    /// store.
    #[inline]
    pub fn ring_after_barrier(&self, step: Step) {
        if self.word.load() == ASLEEP {
            self.wake_sleeper(step);
        }
    }

    #[inline(never)]
    fn wake_sleeper(&self, step: Step) {
        if self.word.compare_exchange(ASLEEP, AWAKE).is_ok() {
            self.word.wake(1, step);
        }
    }

    /// Returns the platform of the word.
    #[inline]
    pub fn platform(&self) -> &Platform {
        self.word.platform()
    }

    /// Announces the sleep with a full barrier. The caller must scan the doorbells
    /// again afterwards.
    pub fn announce_sleep(&self) {
        self.word.exchange(ASLEEP);
    }

    /// Retracts the announcement, because the sleeper found work.
    pub fn retract(&self) {
        self.word.exchange(AWAKE);
    }

    /// Sleeps after an announcement.
    pub fn sleep(&self, deadline: Option<CpuTime>) -> WaitEnd {
        self.sleep_for(deadline.map(Deadline::at))
    }

    pub(crate) fn sleep_for(&self, deadline: Option<Deadline>) -> WaitEnd {
        loop {
            match self.word.wait_until(ASLEEP as u32, deadline, "") {
                WaitEnd::Woken if self.word.load() == ASLEEP => {}
                end => {
                    self.word.exchange(AWAKE);
                    return end;
                }
            }
        }
    }
}
