//! The events of one release: an event shared by several waits is set once.
//!
//! An event may be registered for several values, on several fences, or twice for the same value.
//! Waits satisfied by one signal call, one collection or the end of a fence are released together,
//! and each event is set at the first of them. An auto-reset event therefore wakes one waiter, even
//! if that waiter outruns the release. A manual-reset event that its waiter resets immediately
//! stays reset.
//!
//! Invariant: only waits that were satisfied before the event is set may collapse. A woken caller
//! may find another wait of the event unmet and sleep for it, so a wait that is satisfied later
//! sets the event again. An interrupt for several fences therefore releases them one at a time.

use std::collections::BTreeSet;
use tidegate_platform::{Event, EventId, Step};

/// The events of one release.
pub(crate) struct EventSet {
    /// Events that were set. The release holds its waits, which hold their events, so ids stay
    /// unique. `None` for a single wait.
    set: Option<BTreeSet<EventId>>,
}

impl EventSet {
    /// Creates an empty set for a release of `waits` waits.
    pub(crate) fn of(waits: usize) -> EventSet {
        EventSet { set: (waits > 1).then(BTreeSet::new) }
    }

    /// Sets the event unless this release has set it. Returns whether this call set it.
    // spec: MF-067
    pub(crate) fn set(&mut self, event: &Event) -> bool {
        let first = self.set.as_mut().is_none_or(|known| known.insert(event.id()));
        if first {
            event.set(Step::ThreadWake);
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_platform::Platform;

    #[test]
    fn a_release_of_two_waits_sets_an_event_that_they_share_once() {
        let platform = Platform::host();
        let (shared, other) = (platform.event(false), platform.event(false));
        let mut of_two = EventSet::of(2);
        assert_eq!([of_two.set(&shared), of_two.set(&shared)], [true, false]);
        let mut of_three = EventSet::of(3);
        let set = [&shared, &other, &shared.clone()].map(|event| of_three.set(event));
        assert_eq!(set, [true, true, false]);
        assert!(EventSet::of(1).set(&other), "each release begins anew");
    }
}
