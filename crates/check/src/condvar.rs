//! A condition variable with the methods of std's.
//!
//! In a machine, a waiter registers its own word before it drops the mutex, and a notification sets
//! the word of the longest waiter. A notification without a waiter is lost, as std's is. There are
//! no spurious wake-ups.

use crate::belonging::{assert_outside, end_agent, machine, name_of, opaque, sync_step};
use crate::mutex::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{LockResult, PoisonError};
use std::time::Duration;
use tidegate_platform::{self as platform, CpuTime, Site, Step, WaitEnd, Word};

/// A condition variable, as [`std::sync::Condvar`].
pub struct Condvar(Inner);

enum Inner {
    Std(std::sync::Condvar),
    Machine { waiters: platform::Mutex<VecDeque<Word>>, name: &'static str },
}

/// Whether a wait ended by its time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Returns whether the time limit ended the wait.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// Creates a condition variable of the machine on which the caller is an agent, else one of
    /// std.
    #[track_caller]
    pub fn new() -> Condvar {
        Condvar(match machine() {
            None => Inner::Std(std::sync::Condvar::new()),
            Some(platform) => {
                let name = name_of("Condvar", Site::caller());
                Inner::Machine { waiters: platform.mutex_of_program(name, VecDeque::new()), name }
            }
        })
    }

    /// Drops the mutex, waits for a notification and takes the mutex again.
    ///
    /// # Errors
    /// The mutex is poisoned.
    #[track_caller]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.wait_at(guard, None, Site::caller())
            .map(|(guard, _)| guard)
            .map_err(|error| PoisonError::new(error.into_inner().0))
    }

    /// Waits until `condition` is false.
    ///
    /// # Errors
    /// The mutex is poisoned.
    #[track_caller]
    pub fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        while condition(&mut *guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// Waits as [`Condvar::wait`] does, but not longer than `limit`. In an explored program time
    /// passes when no thread can move.
    ///
    /// # Errors
    /// The mutex is poisoned.
    #[track_caller]
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        self.wait_at(guard, Some(limit), Site::caller())
    }

    fn wait_at<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Option<Duration>,
        site: Site,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let mutex = guard.mutex;
        let (waiters, name) = match &self.0 {
            Inner::Std(inner) => {
                assert_outside("a Condvar", site);
                return wait_std(inner, guard, limit);
            }
            Inner::Machine { waiters, name } => (waiters, *name),
        };
        let platform = waiters.platform();
        let end = sync_step(platform, "a Condvar", site, || {
            let word = platform.page(1).word(0).named(name);
            waiters.lock_device().push_back(word.clone());
            drop(guard);
            let deadline = limit.map(|limit| deadline_after(platform.now(), limit));
            let end = wait_for_notification(&word, deadline, name);
            if end == WaitEnd::TimedOut {
                let mut waiting = waiters.lock_device();
                let before = waiting.len();
                waiting.retain(|other| !other.same(&word));
                // A notification that came at the deadline counts.
                if waiting.len() == before { WaitEnd::Woken } else { WaitEnd::TimedOut }
            } else {
                end
            }
        });
        if end == WaitEnd::Stopped {
            end_agent();
        }
        let timed_out = WaitTimeoutResult(end == WaitEnd::TimedOut);
        match mutex.lock_at(site) {
            Ok(guard) => Ok((guard, timed_out)),
            Err(error) => Err(PoisonError::new((error.into_inner(), timed_out))),
        }
    }

    /// Wakes the longest waiter, if there is one.
    #[track_caller]
    pub fn notify_one(&self) {
        self.notify(1, Site::caller());
    }

    /// Wakes all waiters.
    #[track_caller]
    pub fn notify_all(&self) {
        self.notify(usize::MAX, Site::caller());
    }

    fn notify(&self, count: usize, site: Site) {
        match &self.0 {
            Inner::Std(inner) => {
                assert_outside("a Condvar", site);
                if count == 1 { inner.notify_one() } else { inner.notify_all() }
            }
            Inner::Machine { waiters, .. } => {
                sync_step(waiters.platform(), "a Condvar", site, || {
                    let woken: Vec<Word> = {
                        let mut waiting = waiters.lock_device();
                        let count = count.min(waiting.len());
                        waiting.drain(..count).collect()
                    };
                    for word in woken {
                        word.update_as((Relaxed, Relaxed), |_| Some(NOTIFIED));
                        word.wake(1, Step::ThreadWake);
                    }
                })
            }
        }
    }
}

const WAITING: u64 = 0;
const NOTIFIED: u64 = 1;

/// Sleeps until the waiter's word is set.
fn wait_for_notification(word: &Word, deadline: Option<CpuTime>, name: &str) -> WaitEnd {
    loop {
        match word.wait_while(WAITING as u32, deadline, name) {
            WaitEnd::Woken if word.load_as(Relaxed) == WAITING => {}
            end => return end,
        }
    }
}

fn deadline_after(now: CpuTime, limit: Duration) -> CpuTime {
    now.after(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX / 2))
}

fn wait_std<'a, T>(
    condvar: &std::sync::Condvar,
    guard: MutexGuard<'a, T>,
    limit: Option<Duration>,
) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
    let mutex: &'a Mutex<T> = guard.mutex;
    let guard = guard.into_std().expect("a Condvar of std waits with a Mutex of std");
    let of_std = |guard| MutexGuard::of_std(mutex, guard);
    match limit {
        None => match condvar.wait(guard) {
            Ok(guard) => Ok((of_std(guard), WaitTimeoutResult(false))),
            Err(e) => Err(PoisonError::new((of_std(e.into_inner()), WaitTimeoutResult(false)))),
        },
        Some(limit) => match condvar.wait_timeout(guard, limit) {
            Ok((guard, end)) => Ok((of_std(guard), WaitTimeoutResult(end.timed_out()))),
            Err(e) => {
                let (guard, end) = e.into_inner();
                Err(PoisonError::new((of_std(guard), WaitTimeoutResult(end.timed_out()))))
            }
        },
    }
}

impl Default for Condvar {
    #[track_caller]
    fn default() -> Condvar {
        Condvar::new()
    }
}

opaque!("Condvar", Condvar);
