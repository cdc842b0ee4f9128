//! Values that many threads use and few replace: a use takes no lock.
//!
//! A thread loads which value is shown, announces it with a plain store, and loads it again. If it
//! is the same, the thread uses the value. A replaced value is kept until some have been replaced.
//! Then every other thread of the process executes a full barrier, and what no thread announces
//! after that is dropped.
//!
//! Invariants
//! - A use that began before the barrier is announced when [`replace`] looks. One that began later
//!   finds the new value. A use that began before a replacement may end after it.
//! - Where the system has no such barrier, and in virtual time, every use takes a lock that a
//!   replacement excludes, and nothing replaced is kept.
//! - A use does not block, and uses no other value. Explored machines run the same steps on words
//!   behind store buffers (`mapping::agents` of the seam, decisions/0133).

use crate::os;
use crate::thread::{USER, User, become_user, users};
use std::sync::atomic::{AtomicPtr, Ordering, compiler_fence};
use std::sync::{PoisonError, RwLock};

/// So many replaced values share one barrier, which costs as much as some ten uses of a lock.
pub const MOST_KEPT: usize = 8;

/// The accesses to shared memory of a use and of a replacement.
pub trait Accesses {
    /// What is shown.
    type Value;
    /// Names a value. Two loads that find the same value return the same name.
    type Name: Copy + PartialEq;
    /// A thread or agent that can announce its use.
    type User: Copy;
    /// All that may have announced one of the values replaced so far.
    type Users;

    /// Loads which value is shown.
    fn load(&self) -> Self::Name;

    /// Stores that `user` uses a value, or none.
    fn announce(&self, user: Self::User, used: Option<Self::Name>);

    /// Calls `f` with a value that is kept meanwhile.
    fn read<R>(&self, name: Self::Name, f: impl FnOnce(&Self::Value) -> R) -> R;

    /// Stores which value is shown. Returns the previous one.
    fn exchange(&self, name: Self::Name) -> Self::Name;

    /// Has every thread or agent execute a full barrier.
    fn barrier(&self);

    /// Lists the users.
    fn users(&self) -> Self::Users;

    /// Waits until none of `users` announces a value. Returns `false` if the machine stops before.
    fn await_end_of_uses(&self, users: &Self::Users, name: Self::Name) -> bool;

    /// Drops a value that was replaced and is not used any more.
    fn drop_value(&self, name: Self::Name);

    /// Whether a mistake that the scenario store-against-rotation must find is planted: no barrier
    /// comes before values are dropped.
    fn lacks_barrier(&self) -> bool {
        false
    }

    /// As [`Accesses::lacks_barrier`]: values are dropped that are announced.
    fn drops_announced(&self) -> bool {
        false
    }
}

/// Uses the value that is shown, without a lock.
#[inline(always)]
pub fn use_announced<A: Accesses, R>(
    accesses: &A,
    user: A::User,
    f: impl FnOnce(&A::Value) -> R,
) -> R {
    let mut name = accesses.load();
    loop {
        let _use = Use::begin(accesses, user, name);
        // Keeps the compiler's order. `replace` orders the processor.
        compiler_fence(Ordering::SeqCst);
        let now = accesses.load();
        if now == name {
            // The value is announced and was not replaced before that, so `replace` does not drop
            // it before `_use` ends.
            return accesses.read(name, f);
        }
        name = now;
    }
}

/// Shows another value. `replaced` are the values that a user may still use. The caller excludes
/// other replacements, and uses without an announcement.
pub fn replace<A: Accesses>(
    accesses: &A,
    name: A::Name,
    replaced: &mut Vec<A::Name>,
    most_kept: usize,
) -> A::Name {
    let previous = accesses.exchange(name);
    replaced.push(previous);
    if replaced.len() >= most_kept {
        if !accesses.lacks_barrier() {
            accesses.barrier();
        }
        let users = accesses.users();
        replaced.retain(|name| {
            let is_unused = accesses.drops_announced() || accesses.await_end_of_uses(&users, *name);
            if is_unused {
                accesses.drop_value(*name);
            }
            !is_unused
        });
    }
    previous
}

/// An announced use, until it is dropped.
struct Use<'a, A: Accesses>(&'a A, A::User);

impl<'a, A: Accesses> Use<'a, A> {
    #[inline(always)]
    fn begin(accesses: &'a A, user: A::User, name: A::Name) -> Use<'a, A> {
        accesses.announce(user, Some(name));
        Use(accesses, user)
    }
}

impl<A: Accesses> Drop for Use<'_, A> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.announce(self.1, None);
    }
}

/// A value and those that it has replaced, used by threads.
pub struct Shown<T> {
    value: Values<T>,
    /// Whether uses may do without the lock.
    announced: bool,
    /// So many replaced values share one barrier.
    most_kept: usize,
    /// Replaced values, from boxes, that a thread may still use. The lock excludes uses without an
    /// announcement.
    replaced: RwLock<Vec<*mut T>>,
}

/// The value that is shown, from a box that only `drop_value` and the drop of its [`Shown`] free.
struct Values<T>(AtomicPtr<T>);

// SAFETY: the values move with their owner, and the pointers own them.
unsafe impl<T: Send> Send for Shown<T> {}
// SAFETY: threads share references to the values (`T: Sync`), and one thread drops what another one
// has made (`T: Send`).
unsafe impl<T: Send + Sync> Sync for Shown<T> {}

impl<T> Accesses for Values<T> {
    type Value = T;
    type Name = *mut T;
    type User = &'static User;
    type Users = Vec<&'static User>;

    #[inline(always)]
    fn load(&self) -> *mut T {
        self.0.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn announce(&self, user: &'static User, used: Option<*mut T>) {
        match used {
            Some(value) => {
                debug_assert!(
                    user.0.load(Ordering::Relaxed) == 0,
                    "a use in the middle of another"
                );
                user.0.store(value.addr(), Ordering::Relaxed);
            }
            None => user.0.store(0, Ordering::Release),
        }
    }

    #[inline(always)]
    fn read<R>(&self, value: *mut T, f: impl FnOnce(&T) -> R) -> R {
        // SAFETY: only this module reads values by their address. The value is announced, or a
        // lock excludes replacements, so `replace` does not drop it before `f` returns. It is never
        // changed.
        f(unsafe { &*value })
    }

    fn exchange(&self, value: *mut T) -> *mut T {
        self.0.swap(value, Ordering::AcqRel)
    }

    fn barrier(&self) {
        os::barrier_of_threads();
    }

    fn users(&self) -> Vec<&'static User> {
        users()
    }

    fn await_end_of_uses(&self, users: &Vec<&'static User>, value: *mut T) -> bool {
        for user in users {
            while user.0.load(Ordering::Acquire) == value.addr() {
                std::thread::yield_now();
            }
        }
        true
    }

    fn drop_value(&self, value: *mut T) {
        // SAFETY: the box was leaked and left `self.0` before the barrier. Uses with the lock are
        // excluded, the announced ones have ended, and no other can begin: see the module.
        drop(unsafe { Box::from_raw(value) });
    }
}

impl<T> Shown<T> {
    /// `announced`: uses may do without the lock if the system allows it.
    pub fn new(value: T, announced: bool) -> Shown<T> {
        Shown::keeping(value, announced, MOST_KEPT)
    }

    fn keeping(value: T, announced: bool, most_kept: usize) -> Shown<T> {
        Shown {
            most_kept,
            value: Values(AtomicPtr::new(Box::into_raw(Box::new(value)))),
            announced: announced && os::has_barrier_of_threads(),
            replaced: RwLock::new(Vec::new()),
        }
    }

    /// Uses the value. `f` neither blocks nor uses a value of another `Shown`.
    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        match USER.get() {
            Some(user) if self.announced => use_announced(&self.value, user, f),
            _ => self.with_lock(f),
        }
    }

    #[cold]
    #[inline(never)]
    fn with_lock<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        if self.announced {
            become_user();
        }
        let _shared = self.replaced.read().unwrap_or_else(PoisonError::into_inner);
        self.value.read(self.value.load(), f)
    }

    /// Replaces the value and returns a copy of the previous one.
    pub fn replace(&self, value: T) -> T
    where
        T: Clone,
    {
        let mut replaced = self.replaced.write().unwrap_or_else(PoisonError::into_inner);
        let copy = self.value.read(self.value.load(), T::clone);
        let value = Box::into_raw(Box::new(value));
        if self.announced {
            replace(&self.value, value, &mut replaced, self.most_kept);
        } else {
            self.value.drop_value(self.value.exchange(value));
        }
        copy
    }
}

impl<T> Drop for Shown<T> {
    fn drop(&mut self) {
        let replaced = self.replaced.get_mut().unwrap_or_else(PoisonError::into_inner);
        for value in replaced.drain(..).chain([*self.value.0.get_mut()]) {
            // SAFETY: the boxes were leaked, each is in one place, and no use outlives `self`.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

    /// A number that notes its end.
    #[derive(Clone)]
    struct Noted<'a>(usize, &'a [AtomicBool], bool);

    impl Drop for Noted<'_> {
        fn drop(&mut self) {
            // A copy does not live as long as the value.
            if self.2 {
                self.1[self.0].store(true, Ordering::SeqCst);
            }
        }
    }

    /// Uses and replaces numbers. Returns how many uses met a number that was dropped meanwhile.
    fn late_uses(announced: bool, users: usize, replaced: usize) -> u64 {
        let ends: Vec<AtomicBool> = (0..=replaced).map(|_| AtomicBool::new(false)).collect();
        let shown = Shown::keeping(Noted(0, &ends, true), announced, 1);
        let (late, ended) = (AtomicU64::new(0), AtomicBool::new(false));
        // Stores to lines of the other processor keep an announcement in the store buffer for
        // longer.
        let lines = [const { User(AtomicUsize::new(0)) }; 16];
        let store_to_lines = || lines.iter().for_each(|line| line.0.store(1, Ordering::Relaxed));
        std::thread::scope(|threads| {
            for _ in 0..users {
                threads.spawn(|| {
                    while !ended.load(Ordering::Relaxed) {
                        store_to_lines();
                        shown.with(|number| {
                            let end = &ends[number.0];
                            (0..100).for_each(|_| std::hint::spin_loop());
                            late.fetch_add(end.load(Ordering::SeqCst).into(), Ordering::Relaxed);
                        });
                    }
                });
            }
            for number in 1..=replaced {
                store_to_lines();
                let mut previous = shown.replace(Noted(number, &ends, true));
                previous.2 = false;
                assert_eq!(previous.0, number - 1);
                (0..number % 64).for_each(|_| std::hint::spin_loop());
            }
            ended.store(true, Ordering::Relaxed);
        });
        drop(shown);
        assert!(ends.iter().all(|end| end.load(Ordering::SeqCst)), "a value was leaked");
        late.into_inner()
    }

    #[test]
    fn no_value_is_dropped_while_a_thread_uses_it() {
        assert_eq!(late_uses(true, 1, 100_000), 0);
        assert_eq!(late_uses(false, 1, 300), 0, "with the lock");
    }

    #[test]
    fn a_use_after_a_replacement_has_the_new_value() {
        for announced in [true, false] {
            let shown = Shown::new(0, announced);
            for number in 1..100 {
                assert_eq!(shown.replace(number), number - 1);
                assert_eq!(shown.with(|shown| *shown), number);
            }
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
        assert!(users().len() < 50);
    }

    #[test]
    fn a_use_that_panics_is_no_use_any_more() {
        let shown = Shown::new(0, true);
        for _ in 0..2 {
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                shown.with(|_| panic!("planted"))
            }));
            caught.unwrap_err();
        }
        for number in 1..3 * MOST_KEPT {
            assert_eq!(shown.replace(number), number - 1);
        }
    }
}
