//! The handle of a thread, and its token: `park` takes it, `unpark` gives it.
//!
//! Invariant: a token that is given before the thread parks ends that park at once. There are no
//! spurious wake-ups in a machine.

use crate::belonging::{belongs_elsewhere, end_agent, machine, sync_step};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;
use tidegate_machines::thread as agent;
use tidegate_platform::{CpuTime, Platform, Site, Step, WaitEnd, Word};

const NONE: u64 = 0;
const GIVEN: u64 = 1;

/// A handle of a thread, as [`std::thread::Thread`].
#[derive(Clone)]
pub struct Thread(Inner);

#[derive(Clone)]
enum Inner {
    Std(std::thread::Thread),
    Agent(Parking),
}

/// The token and the name of an agent.
#[derive(Clone)]
pub(crate) struct Parking {
    token: Word,
    name: Arc<str>,
}

impl Parking {
    pub(crate) fn new(platform: &Platform, name: &str) -> Parking {
        let token = platform.page(1).word(0);
        let token = token.named_by(|| format!("the park token of '{name}'"));
        Parking { token, name: name.into() }
    }

    /// Returns the calling agent's, which is made if it has none.
    fn mine(platform: &Platform) -> Parking {
        if let Some(known) =
            agent::kept_by_checker().and_then(|kept| kept.downcast::<Parking>().ok())
        {
            return Parking::clone(&known);
        }
        let made = Parking::new(platform, &agent::name());
        made.keep();
        made
    }

    /// Makes it the calling agent's.
    pub(crate) fn keep(&self) {
        agent::set_kept_by_checker(Arc::new(self.clone()));
    }

    /// Sleeps until the token is given, and takes it.
    fn take(&self, deadline: Option<CpuTime>) -> WaitEnd {
        let taken = || {
            let old = self.token.update_as((AcqRel, Relaxed), |old| (old == GIVEN).then_some(NONE));
            old == GIVEN
        };
        loop {
            if taken() {
                return WaitEnd::Woken;
            }
            match self.token.wait_while(NONE as u32, deadline, "an unpark") {
                WaitEnd::Woken => {}
                // A token that was given at the deadline counts.
                WaitEnd::TimedOut if taken() => return WaitEnd::Woken,
                end => return end,
            }
        }
    }
}

impl Thread {
    pub(crate) fn of_std(thread: std::thread::Thread) -> Thread {
        Thread(Inner::Std(thread))
    }

    pub(crate) fn of_agent(parking: Parking) -> Thread {
        Thread(Inner::Agent(parking))
    }

    /// Ends the thread's park, or its next one.
    #[track_caller]
    pub fn unpark(&self) {
        match &self.0 {
            Inner::Std(thread) => thread.unpark(),
            Inner::Agent(Parking { token, .. }) => {
                sync_step(token.platform(), "a thread's handle", Site::caller(), || {
                    token.update_as((Release, Acquire), |_| Some(GIVEN));
                    token.wake(1, Step::ThreadWake);
                });
            }
        }
    }

    /// Returns the thread's name.
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Inner::Std(thread) => thread.name(),
            Inner::Agent(parking) => Some(&parking.name),
        }
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// Returns the handle of the calling thread.
#[track_caller]
pub fn current() -> Thread {
    match machine() {
        None => Thread(Inner::Std(std::thread::current())),
        Some(platform) => Thread(Inner::Agent(Parking::mine(&platform))),
    }
}

/// Waits until another thread calls [`Thread::unpark`]. In a machine there are no spurious
/// wake-ups.
#[track_caller]
pub fn park() {
    match machine() {
        None => std::thread::park(),
        Some(platform) => park_on(&platform, None, Site::caller()),
    }
}

/// Waits as [`park`] does, but not longer than `limit`. In an explored program time passes when no
/// thread can move.
#[track_caller]
pub fn park_timeout(limit: Duration) {
    match machine() {
        None => std::thread::park_timeout(limit),
        Some(platform) => {
            let ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX / 2);
            let deadline = platform.now().after(ns);
            park_on(&platform, Some(deadline), Site::caller());
        }
    }
}

fn park_on(platform: &Platform, deadline: Option<CpuTime>, site: Site) {
    let mine = Parking::mine(platform);
    if !mine.token.platform().is_current() {
        belongs_elsewhere("a thread's token", site);
    }
    if sync_step(platform, "a thread", site, || mine.take(deadline)) == WaitEnd::Stopped {
        end_agent();
    }
}
