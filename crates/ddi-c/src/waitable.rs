//! Objects for which a driver waits: events, timers, threads, mutexes, semaphores, and locks with
//! shared owners. Each has an event of the platform, which is set while the object is free.

use std::collections::BTreeMap;
use tidegate_platform::Event;

/// An object.
pub(crate) struct Waitable {
    pub(crate) event: Event,
    pub(crate) kind: Kind,
}

/// Kinds of objects.
pub(crate) enum Kind {
    /// Also a timer and a thread.
    Event,
    /// Permits, and threads that wait: a permit that one of them will take counts no more for the
    /// limit. The event is set while there are permits.
    Semaphore { count: i32, limit: i32, waiting: i32 },
    /// The agent that owns it, and how often.
    Mutex { owner: u64, depth: u32 },
    /// ERESOURCE and EX_PUSH_LOCK: one exclusive owner, or several shared ones.
    Shared { owner: u64, depth: u32, sharers: BTreeMap<u64, u32> },
}

/// Objects by their addresses.
pub(crate) type Waitables = BTreeMap<u64, Waitable>;
