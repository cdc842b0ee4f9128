//! Traps on stores to the addresses of windows.
//!
//! An armed window stops the next store to its address. [`StoreTraps::wait`] releases the window
//! and says which it was; the store is carried out then. A store that was not stopped is visible
//! when the call that arms the window returns.
//!
//! Below it: `os::traps` of the machines. In an explored machine a store asks for the trap under a
//! lock, in its place.

use super::{Mapping, Window};
use crate::event::Event;
use crate::platform::{Platform, PlatformKind};
use crate::sync::Mutex;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tidegate_machines::os::traps::PageTraps;
use tidegate_machines::{CpuTime, Step, WaitEnd};

/// Traps of a process.
pub struct StoreTraps {
    platform: Platform,
    kind: Kind,
}

enum Kind {
    OfThreads(PageTraps),
    OfAgents(Arc<TrapsOfAgents>),
}

impl StoreTraps {
    /// Returns traps that stop no store yet.
    ///
    /// # Errors
    /// The system has no such traps, or no descriptor is left; in virtual time.
    pub fn new(platform: &Platform) -> io::Result<StoreTraps> {
        let kind = match platform.kind() {
            PlatformKind::Host => Kind::OfThreads(PageTraps::new()?),
            PlatformKind::Explored => Kind::OfAgents(Arc::new(TrapsOfAgents {
                stopped: platform.mutex("stopped stores", Vec::new()),
                ready: platform.event(false),
            })),
            PlatformKind::Virtual => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(StoreTraps { platform: platform.clone(), kind })
    }

    /// Has the next store to the window's address trapped.
    ///
    /// # Errors
    /// The page that the window shows cannot be trapped. No store is stopped.
    pub fn arm(&self, window: &Mapping) -> io::Result<()> {
        match (&self.kind, &window.0) {
            (Kind::OfThreads(traps), Window::OfThreads(_)) => traps.arm(window.place()?),
            (Kind::OfAgents(traps), Window::OfAgents(shown)) => {
                shown.arm(traps);
                Ok(())
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Has stores to the window's address pass again.
    pub fn release(&self, window: &Mapping) {
        match (&self.kind, &window.0) {
            (Kind::OfThreads(traps), _) => {
                if let Ok(address) = window.place() {
                    traps.release(address);
                }
            }
            (Kind::OfAgents(_), Window::OfAgents(shown)) => shown.release(),
            _ => {}
        }
    }

    /// Has a wait return, or the next one.
    pub fn poke(&self) {
        match &self.kind {
            Kind::OfThreads(traps) => traps.poke(),
            Kind::OfAgents(traps) => traps.ready.set(Step::ThreadWake),
        }
    }

    /// Waits for a store that is trapped, for a poke, or until `deadline`. Returns the addresses of
    /// the windows that were released. It may return early.
    pub fn wait(&self, deadline: Option<CpuTime>) -> Vec<u64> {
        match &self.kind {
            Kind::OfThreads(traps) => {
                let now = self.platform.now();
                let left = deadline.map(|at| Duration::from_nanos(at.0.saturating_sub(now.0)));
                let mut trapped = Vec::new();
                traps.wait(left, &mut trapped);
                trapped
            }
            Kind::OfAgents(traps) => {
                let _ended = traps.ready.wait_for(deadline, "a trapped store");
                let stopped = std::mem::take(&mut *traps.stopped.lock());
                let release = |stopped: Stopped| {
                    let trap = stopped.trap.upgrade()?;
                    trap.release();
                    stopped.passes.set(Step::ThreadWake);
                    Some(trap.number)
                };
                stopped.into_iter().filter_map(release).collect()
            }
        }
    }
}

/// The traps of an explored machine.
pub(super) struct TrapsOfAgents {
    stopped: Mutex<Vec<Stopped>>,
    ready: Event,
}

/// A store that was stopped.
struct Stopped {
    trap: Weak<Trap>,
    /// Set when the store may try again. The trap may be armed again by then.
    passes: Event,
}

/// The trap of a window.
pub(super) struct Trap {
    platform: Platform,
    number: u64,
    traps: Arc<TrapsOfAgents>,
    is_armed: Mutex<bool>,
}

impl Trap {
    pub(super) fn new(platform: &Platform, number: u64, traps: &Arc<TrapsOfAgents>) -> Trap {
        let is_armed = platform.mutex("the trap of a window", false);
        Trap { platform: platform.clone(), number, traps: traps.clone(), is_armed }
    }

    pub(super) fn arm(&self) {
        *self.is_armed.lock_device() = true;
    }

    pub(super) fn release(&self) {
        *self.is_armed.lock_device() = false;
    }

    /// Carries out a store, after it was stopped if the trap is armed. One that the end of the
    /// machine releases is left out.
    pub(super) fn pass(self: &Arc<Self>, store: impl FnOnce()) {
        loop {
            let is_armed = self.is_armed.lock_device();
            if !*is_armed {
                return store();
            }
            drop(is_armed);
            let passes = self.platform.event(true);
            let stopped = Stopped { trap: Arc::downgrade(self), passes: passes.clone() };
            self.traps.stopped.lock().push(stopped);
            self.traps.ready.set(Step::ThreadWake);
            if passes.wait() == WaitEnd::Stopped {
                return;
            }
        }
    }
}
