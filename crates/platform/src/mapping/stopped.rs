//! Stores that a trap stops, in an explored machine: a store asks for the trap under a lock.

use crate::event::Event;
use crate::platform::Platform;
use crate::sync::Mutex;
use std::sync::{Arc, Weak};
use tidegate_machines::{Step, WaitEnd};

/// The traps of an explored machine.
pub(super) struct TrapsOfAgents {
    stopped: Mutex<Vec<Stopped>>,
    /// Set when a store is stopped, and by a poke.
    pub(super) ready: Event,
}

impl TrapsOfAgents {
    pub(super) fn new(platform: &Platform) -> TrapsOfAgents {
        let stopped = platform.mutex("stopped stores", Vec::new());
        TrapsOfAgents { stopped, ready: platform.event(false) }
    }

    /// Takes the stores that were stopped.
    pub(super) fn take(&self) -> Vec<Stopped> {
        std::mem::take(&mut *self.stopped.lock())
    }
}

/// A store that was stopped.
pub(super) struct Stopped {
    trap: Weak<Trap>,
    /// Set when the store may try again. The trap may be armed again by then.
    passes: Event,
}

impl Stopped {
    /// Disarms the window's trap: later stores pass. Returns the window's number; `None` once the
    /// window has ended.
    pub(super) fn disarm(&self) -> Option<u64> {
        let trap = self.trap.upgrade()?;
        trap.release();
        Some(trap.number)
    }

    /// Lets the store try again.
    pub(super) fn pass(self) {
        if self.trap.strong_count() > 0 {
            self.passes.set(Step::ThreadWake);
        }
    }
}

/// The trap of a window that has an address.
pub(super) struct Trap {
    platform: Platform,
    number: u64,
    /// The traps by which it is armed. A store is carried out under the lock, so that none is
    /// between the two when the trap is armed.
    armed_by: Mutex<Option<Arc<TrapsOfAgents>>>,
}

impl Trap {
    pub(super) fn new(platform: &Platform, number: u64) -> Trap {
        let armed_by = platform.mutex("the trap of a window", None);
        Trap { platform: platform.clone(), number, armed_by }
    }

    /// Returns the window's number.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn arm(&self, traps: &Arc<TrapsOfAgents>) {
        *self.armed_by.lock_device() = Some(traps.clone());
    }

    pub(super) fn release(&self) {
        *self.armed_by.lock_device() = None;
    }

    /// Carries out a store, after it was stopped if the trap is armed. One that the end of the
    /// machine releases is left out.
    pub(super) fn pass(self: &Arc<Self>, store: impl FnOnce()) {
        loop {
            let armed_by = self.armed_by.lock_device();
            let Some(traps) = armed_by.clone() else { return store() };
            drop(armed_by);
            let passes = self.platform.event(true);
            let stopped = Stopped { trap: Arc::downgrade(self), passes: passes.clone() };
            traps.stopped.lock().push(stopped);
            traps.ready.set(Step::ThreadWake);
            if passes.wait() == WaitEnd::Stopped {
                return;
            }
        }
    }
}
