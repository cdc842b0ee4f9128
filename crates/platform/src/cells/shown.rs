//! Owns values that many threads use and few replace: a use takes no lock.
//!
//! A thread announces which value it uses with a plain store, loads whether the value is guarded, and
//! uses it. A thread that replaces the value guards it, has every other thread of the process execute
//! a full barrier, and waits until no thread announces the value. A page table works alike: each
//! access is plain, and a change interrupts the processors.
//!
//! Invariants
//! - A use that began before the barrier is announced when [`Shown::replace`] looks, and ends before
//!   the value is replaced. One that began later finds the value guarded and takes the lock.
//! - Where the system has no such barrier, and on cooperative platforms, every use takes the lock.
//! - A use does not block, and uses no other value.

use crate::os;
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};
use std::sync::{Mutex, PoisonError, RwLock};

/// A value and its guard.
pub(crate) struct Shown<T> {
    value: UnsafeCell<T>,
    /// Whether uses may do without the lock.
    announced: bool,
    /// Whether a use has to take the lock now.
    guarded: AtomicBool,
    lock: RwLock<()>,
}

// SAFETY: the value moves with its owner.
unsafe impl<T: Send> Send for Shown<T> {}
// SAFETY: threads share references to the value (`T: Sync`), and `replace` moves another one in and
// out (`T: Send`) while no thread uses it, by the invariants above.
unsafe impl<T: Send + Sync> Sync for Shown<T> {}

impl<T> Shown<T> {
    /// `announced`: uses may do without the lock if the system allows it.
    pub(crate) fn new(value: T, announced: bool) -> Shown<T> {
        let announced = announced && os::has_barrier_of_threads();
        let (value, guarded) = (UnsafeCell::new(value), AtomicBool::new(!announced));
        Shown { value, announced, guarded, lock: RwLock::new(()) }
    }

    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Uses the value. `f` neither blocks nor uses a value of another `Shown`.
    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        if self.announced
            && let Some(user) = USER.get()
        {
            let _use = user.announce(self.id());
            // Keeps the compiler's order. `replace` brings about that of the processor.
            compiler_fence(Ordering::SeqCst);
            if !self.guarded.load(Ordering::Acquire) {
                // SAFETY: the use is announced and the value was not guarded after that, so `replace`
                // waits until `_use` ends before it makes its exclusive reference.
                return f(unsafe { &*self.value.get() });
            }
        }
        self.with_lock(f)
    }

    #[cold]
    #[inline(never)]
    fn with_lock<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        if self.announced {
            become_user();
        }
        let _shared = self.lock.read().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: `replace` holds the lock for writing while it has an exclusive reference.
        f(unsafe { &*self.value.get() })
    }

    /// Replaces the value and returns the previous one. No use of that one remains.
    pub(crate) fn replace(&self, value: T) -> T {
        let _alone = self.lock.write().unwrap_or_else(PoisonError::into_inner);
        if self.announced {
            self.guarded.store(true, Ordering::SeqCst);
            os::barrier_of_threads();
            await_end_of_uses(self.id());
        }
        // SAFETY: uses with the lock are excluded. Those without have ended: see the module.
        let previous = std::mem::replace(unsafe { &mut *self.value.get() }, value);
        self.guarded.store(!self.announced, Ordering::Release);
        previous
    }
}

/// What a thread announces, alone in its cache line.
#[repr(align(64))]
struct User(AtomicUsize);

impl User {
    #[inline(always)]
    fn announce(&self, id: usize) -> Use<'_> {
        debug_assert!(self.0.load(Ordering::Relaxed) == 0, "a use in the middle of another");
        self.0.store(id, Ordering::Relaxed);
        Use(self)
    }
}

/// An announced use, until it is dropped.
struct Use<'a>(&'a User);

impl Drop for Use<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.0.store(0, Ordering::Release);
    }
}

/// All that were ever made, as many as threads lived at the same time, and those of ended threads.
struct Users {
    all: Vec<&'static User>,
    free: Vec<&'static User>,
}

static USERS: Mutex<Users> = Mutex::new(Users { all: Vec::new(), free: Vec::new() });

thread_local! {
    // Without a destructor, so that an access needs no check.
    static USER: Cell<Option<&'static User>> = const { Cell::new(None) };
    static MEMBERSHIP: Membership = const { Membership };
}

/// Returns the thread's announcement when the thread ends.
struct Membership;

impl Drop for Membership {
    fn drop(&mut self) {
        if let Some(user) = USER.take() {
            USERS.lock().unwrap_or_else(PoisonError::into_inner).free.push(user);
        }
    }
}

/// Gives the calling thread an announcement, unless it is about to end.
fn become_user() {
    if USER.get().is_some() || MEMBERSHIP.try_with(|_| ()).is_err() {
        return;
    }
    let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
    let user = users.free.pop().unwrap_or_else(|| Box::leak(Box::new(User(AtomicUsize::new(0)))));
    if users.all.iter().all(|known| !std::ptr::eq(*known, user)) {
        users.all.push(user);
    }
    USER.set(Some(user));
}

/// Waits until no thread announces `id`. A thread that begins to announce now finds the value guarded.
fn await_end_of_uses(id: usize) {
    let users = USERS.lock().unwrap_or_else(PoisonError::into_inner).all.clone();
    for user in users {
        while user.0.load(Ordering::Acquire) == id {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Uses and replaces numbers of which one at a time is in use. Returns how many uses met a number
    /// that was no longer shown.
    fn late_uses(announced: bool, users: usize, replaced: usize) -> u64 {
        let shown = Shown::new(0, announced);
        let (latest, late) = (AtomicUsize::new(0), AtomicU64::new(0));
        let (contended, ended) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|threads| {
            for _ in 0..users {
                threads.spawn(|| {
                    while !ended.load(Ordering::Relaxed) {
                        // Keeps the announcement in the store buffer for as long as possible.
                        (0..8).for_each(|n| contended.store(n, Ordering::Relaxed));
                        shown.with(|number| {
                            (0..100).for_each(|_| std::hint::spin_loop());
                            if *number < latest.load(Ordering::SeqCst) {
                                late.fetch_add(1, Ordering::Relaxed);
                            }
                        });
                    }
                });
            }
            for number in 1..=replaced {
                contended.store(0, Ordering::Relaxed);
                assert_eq!(shown.replace(number), number - 1);
                latest.store(number, Ordering::SeqCst);
                (0..number % 64).for_each(|_| std::hint::spin_loop());
            }
            ended.store(true, Ordering::Relaxed);
        });
        late.into_inner()
    }

    #[test]
    fn a_replaced_value_is_used_by_no_thread() {
        for announced in [true, false] {
            assert_eq!(late_uses(announced, 2, 40_000), 0, "announced: {announced}");
        }
    }

    #[test]
    fn announcements_of_ended_threads_are_used_again() {
        let shown = Shown::new((), true);
        if !shown.announced {
            return;
        }
        for _ in 0..100 {
            std::thread::scope(|threads| {
                threads.spawn(|| shown.with(|()| ()));
            });
        }
        // Other tests of this process have threads too.
        assert!(USERS.lock().unwrap().all.len() < 50);
    }

    #[test]
    fn a_use_that_panics_is_no_use_any_more() {
        let shown = Shown::new(1, true);
        for _ in 0..2 {
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                shown.with(|_| panic!("planted"))
            }));
            caught.unwrap_err();
        }
        assert_eq!(shown.replace(2), 1);
        assert_eq!(shown.with(|value| *value), 2);
    }
}
