//! The events of one release: an event that stands behind several waits is set once.
//!
//! An event may be registered for several values, on several fences, and twice for the same. The
//! waits that one signal call, one collection or the end of a fence satisfies are released
//! together, and each event is set at the first of them. An auto-reset event is then taken once,
//! also when its waiter is faster than the release. A manual-reset one that its waiter resets at
//! once stays reset.
//!
//! Invariant: only waits that were satisfied before the event is set may collapse. A woken caller
//! may find another wait of the event unmet and sleep for it, so a wait that is satisfied later
//! sets the event again. An interrupt for several fences therefore releases one after the other.

use std::collections::BTreeSet;
use tidegate_platform::{Event, EventId, Step};

/// The events of one release.
pub(crate) struct EventSet {
    /// Events that were set. The release holds its waits, and those their events, so an id stays
    /// unique. `None` for a single wait.
    set: Option<BTreeSet<EventId>>,
}

impl EventSet {
    /// An empty set for a release of so many waits.
    pub(crate) fn of(waits: usize) -> EventSet {
        EventSet { set: (waits > 1).then(BTreeSet::new) }
    }

    /// Sets the event unless this release has set it. Returns whether it was set now.
    // spec: MF-067
    pub(crate) fn set(&mut self, event: &Event) -> bool {
        let first = self.set.as_mut().is_none_or(|known| known.insert(event.id()));
        if first {
            event.set(Step::ThreadWake);
        }
        first
    }
}
