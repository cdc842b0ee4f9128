//! Locks and the parking of services: [`Mutex`], [`WakeWord`].
//!
//! Invariants: the mutex knows its owner, so taking it twice panics with names and does not hang.
//! No guard is held over a DDI call or a callback ([`crate::current::assert_no_guards`]). A wake
//! word is a protocol word, so its own races are explored.

use crate::memory::Word;
use crate::platform::{Platform, PlatformKind};
use crate::wait_order::{ClassId, WaitClass};
use crate::waits;
use std::ops::{Deref, DerefMut};
use tidegate_machines::cells::{Guarded, Header, Held, HeldHere};
use tidegate_machines::{ClientAccess, CpuTime, Deadline, Step, WaitEnd, thread, world};

/// Mutual exclusion for policy state.
pub struct Mutex<T>(Guarded<Lock, T>);

/// What a lock is.
struct Lock {
    platform: Platform,
    /// That of the platform.
    kind: PlatformKind,
    name: &'static str,
    /// The number in the explored world; 0 elsewhere.
    id: u32,
    /// The position in the platform's lock order.
    rank: Option<u32>,
    /// The class in the order of waits.
    class: ClassId,
}

impl Lock {
    #[inline]
    fn me(&self) -> u64 {
        match self.kind {
            PlatformKind::Host => thread::number(),
            _ => world::agent_number(),
        }
    }

    fn taken(&self, key: usize) {
        waits::lock_taken(&self.platform, key, (self.name, self.class), self.rank);
    }

    fn taken_at_once(&self, key: usize) {
        waits::lock_taken_at_once(&self.platform, key, (self.name, self.class), self.rank);
    }

    #[cold]
    fn panic_held(&self) -> ! {
        let (agent, lock) = (thread::name(), self.name);
        panic!("agent '{agent}' takes the lock '{lock}', which it holds already");
    }
}

impl Header for Lock {
    #[inline]
    fn released(&self, key: usize, counted: bool) {
        if cfg!(debug_assertions) {
            thread::lock_dropped(key);
        }
        if counted {
            thread::guard_dropped();
        }
        match self.kind {
            PlatformKind::Host => {}
            PlatformKind::Virtual => world::lock_dropped(key),
            PlatformKind::Explored => {
                if !cfg!(debug_assertions) {
                    thread::lock_dropped(key);
                }
                world::unlock(self.id);
            }
        }
    }
}

impl Platform {
    /// Creates a mutex. The name appears in panics and reports.
    pub fn mutex<T>(&self, name: &'static str, value: T) -> Mutex<T> {
        Mutex::numbered(self, self.new_object_id(), name, value)
    }

    /// Creates a mutex of a program to explore. All of them may have one name, so they have no
    /// place in the order of waits.
    pub fn mutex_of_program<T>(&self, name: &'static str, value: T) -> Mutex<T> {
        Mutex::of_class(self, self.new_object_id(), (name, ClassId::NONE), value)
    }
}

impl<T> Mutex<T> {
    /// Creates the lock with a number that was drawn before.
    pub(crate) fn numbered(platform: &Platform, id: u32, name: &'static str, value: T) -> Mutex<T> {
        let class = waits::class_of_locks(platform, name);
        Mutex::of_class(platform, id, (name, class), value)
    }

    fn of_class(
        platform: &Platform,
        id: u32,
        (name, class): (&'static str, ClassId),
        value: T,
    ) -> Mutex<T> {
        let kind = platform.kind();
        let world = platform.inner.world;
        let rank = platform.lock_rank(name);
        let lock = Lock { platform: platform.clone(), kind, name, id, rank, class };
        Mutex(Guarded::new(lock, world, value))
    }

    /// Takes the lock.
    ///
    /// # Panics
    ///
    /// The calling agent already holds it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let guard = self.take(true);
        thread::guard_taken();
        guard
    }

    /// Takes a lock that orders calls and guards no policy state, so it may be held over calls:
    /// the interrupt lock, a mailbox, a queue's submitter lock.
    /// [`crate::current::assert_no_guards`] ignores it.
    #[inline]
    pub fn lock_device(&self) -> MutexGuard<'_, T> {
        self.take(false)
    }

    /// Takes the lock as [`Mutex::lock_device`] does, if it is free.
    pub fn try_lock_device(&self) -> Option<MutexGuard<'_, T>> {
        let lock = &self.0.header;
        if lock.kind == PlatformKind::Explored && !world::try_lock(lock.id, lock.name) {
            return None;
        }
        let held = self.0.try_hold(lock.me(), false)?;
        if cfg!(debug_assertions) || lock.kind == PlatformKind::Explored {
            lock.taken_at_once(self.0.key());
        }
        Some(MutexGuard(held))
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }

    /// Returns the platform of the lock.
    pub fn platform(&self) -> &Platform {
        &self.0.header.platform
    }

    /// Returns whether the calling agent holds the lock.
    pub fn is_mine(&self) -> bool {
        self.0.is_held_by(self.0.header.me())
    }

    #[inline]
    fn take(&self, counted: bool) -> MutexGuard<'_, T> {
        let lock = &self.0.header;
        if cfg!(debug_assertions) {
            if self.is_mine() {
                lock.panic_held();
            }
            lock.taken(self.0.key());
        }
        if lock.kind != PlatformKind::Host {
            return MutexGuard(self.take_in_world().counted(counted));
        }
        let me = thread::number();
        if self.0.is_held_by(me) {
            lock.panic_held();
        }
        MutexGuard(self.0.hold(me, counted))
    }

    /// Takes the lock on a cooperative platform. Apart from [`Mutex::take`], which is part of each
    /// caller.
    #[inline(never)]
    fn take_in_world(&self) -> HeldHere<'_, Lock, T> {
        if self.0.header.kind == PlatformKind::Explored {
            return self.take_explored();
        }
        match self.0.hold_here() {
            Some(held) => held,
            None => self.wait_and_take(),
        }
    }

    /// Takes the lock in an explored machine.
    #[inline(never)]
    fn take_explored(&self) -> HeldHere<'_, Lock, T> {
        let lock = &self.0.header;
        if self.is_mine() {
            lock.panic_held();
        }
        if !cfg!(debug_assertions) {
            lock.taken(self.0.key());
        }
        world::lock(lock.id, lock.name);
        self.0.hold_here().unwrap_or_else(|| self.wait_for_builder())
    }

    /// Waits for a lock that the builder of the machine took before the run, so that the world
    /// knows of no owner. Now the world takes the agent for it, and the agent waits for itself: it
    /// is reported as blocked.
    #[cold]
    fn wait_for_builder(&self) -> ! {
        let lock = &self.0.header;
        assert!(self.0.is_here(), "{}", world::ELSEWHERE);
        world::lock(lock.id, lock.name);
        panic!("the world gave the lock '{}' twice", lock.name)
    }

    /// Takes a lock of virtual time that was not free.
    #[cold]
    fn wait_and_take(&self) -> HeldHere<'_, Lock, T> {
        let lock = &self.0.header;
        assert!(self.0.is_here(), "{}", world::ELSEWHERE);
        if self.is_mine() {
            lock.panic_held();
        }
        loop {
            world::wait_for_lock(self.0.key(), lock.name);
            if let Some(held) = self.0.hold_here() {
                return held;
            }
        }
    }
}

/// Holds a [`Mutex`] until dropped.
pub struct MutexGuard<'a, T>(Held<'a, Lock, T>);

impl<T> MutexGuard<'_, T> {
    /// Returns the platform of the lock.
    pub fn platform(&self) -> &Platform {
        &self.0.header().platform
    }

    /// Declares that the agent may wait here for `class`, and drops this lock meanwhile.
    pub fn may_drop_and_wait_for(&self, class: &'static WaitClass) {
        waits::wait_without(self.platform(), class, self.0.key());
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

const AWAKE: u64 = 0;
const ASLEEP: u64 = 1;

/// Whether a store to a doorbell must wake an engine. The store wakes none.
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
