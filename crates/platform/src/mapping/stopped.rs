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
    /// Disarms the window's trap and lets the store try again. Returns the window's number.
    pub(super) fn release(self) -> Option<u64> {
        let trap = self.trap.upgrade()?;
        trap.release();
        self.passes.set(Step::ThreadWake);
        Some(trap.number)
    }
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
