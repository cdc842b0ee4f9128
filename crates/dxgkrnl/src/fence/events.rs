//! Owns how often one event is set when it stands behind several waits.
//!
//! An event may be registered as often as one likes: for several values, on several fences, twice
//! for the same. The waits that one signal call, one look at a fence or one end of a fence
//! satisfies are released together, and each event behind them is set once, at the first of them.
//! An auto-reset event is then taken once, also when its waiter is faster than the release; a
//! manual-reset one that its waiter resets at once stays reset.
//!
//! Only waits that were satisfied before the event is set may collapse. Whoever is woken may look
//! at the fences, find another wait of the event unmet and sleep for it; so a wait that is found
//! satisfied later, by the next look, sets the event again. That is why an interrupt for several
//! fences does not collapse over them: it looks at one after the other.

use std::collections::BTreeSet;
use tidegate_platform::{Event, EventId, Step};

/// The events of one release.
pub(crate) struct Events {
    /// Which were set. All of them are alive: the release holds its waits, and those hold their
    /// events. `None` where there is one wait only.
    set: Option<BTreeSet<EventId>>,
}

impl Events {
    /// None set yet, of a release of so many waits.
    pub(crate) fn of(waits: usize) -> Events {
        Events { set: (waits > 1).then(BTreeSet::new) }
    }

    /// Sets the event, unless this release did; returns whether it was set now.
    // spec: MF-067
    pub(crate) fn set(&mut self, event: &Event) -> bool {
        let first = self.set.as_mut().is_none_or(|known| known.insert(event.id()));
        if first {
            event.set(Step::ThreadWake);
        }
        first
    }
}
