//! Owns who is inside the driver: every DDI call is counted, and a call of threading level three
//! waits until it is the only one, for as long as is configured and no longer; who comes meanwhile
//! waits until it is over.
//!
//! The order that matters: who enters 1. counts itself; 2. looks whether somebody is alone, and
//! steps back if so. Who wants to be alone 1. says so; 2. looks at the count. Either sees the
//! other: both halves are read-modify-writes or stand before a fence.

use tidegate_platform::{CpuTime, Event, Mutex, Page, Platform, Step, WaitEnd};

/// How often who wants to be alone looks.
const LOOK_NS: u64 = 1_000_000;

pub(crate) struct ThreadGate {
    platform: Platform,
    /// Word 0 counts calls, word 8 says that somebody is, or wants to be, alone. `None`: nobody
    /// ever wants to.
    words: Option<Page>,
    /// Set when whoever is alone is done.
    opened: Mutex<Option<Event>>,
    /// Held by who is alone: its own calls pass.
    alone: Mutex<()>,
}

/// A call is under way as long as this lives.
pub(crate) struct Inside<'a>(Option<&'a ThreadGate>);

const INSIDE: usize = 0;
const CLOSED: usize = 8;

impl ThreadGate {
    pub(crate) fn new(platform: &Platform, counts: bool) -> ThreadGate {
        ThreadGate {
            platform: platform.clone(),
            words: counts.then(|| platform.page(16).named("the driver's gate")),
            opened: platform.mutex("who is alone with the driver", None),
            alone: platform.mutex("alone with the driver", ()),
        }
    }

    /// Enters; blocks while somebody is alone with the driver.
    pub(crate) fn enter(&self) -> Inside<'_> {
        let Some(words) = &self.words else { return Inside(None) };
        loop {
            words.word(INSIDE).fetch_add(1);
            if words.word(CLOSED).load() == 0 || self.alone.is_mine() {
                return Inside(Some(self));
            }
            words.word(INSIDE).fetch_add(u64::MAX);
            let opened = self.opened.lock().clone();
            if opened.is_some_and(|event| {
                event.wait_for(None, "the adapter's reset") == WaitEnd::Stopped
            }) {
                return Inside(None);
            }
        }
    }

    /// Has `call` made with nobody else inside; `None` when somebody is still there after
    /// `patience_ns`.
    pub(crate) fn alone<R>(&self, patience_ns: u64, call: impl FnOnce() -> R) -> Option<R> {
        let Some(words) = &self.words else { return Some(call()) };
        let _mine = self.alone.lock_device();
        let event = self.platform.event(true);
        *self.opened.lock() = Some(event.clone());
        words.word(CLOSED).exchange(1);
        self.platform.fence();
        let deadline = self.platform.now().after(patience_ns);
        let empty = self.is_left_by(words, deadline);
        let outcome = empty.then(call);
        words.word(CLOSED).exchange(0);
        *self.opened.lock() = None;
        event.set(Step::ThreadWake);
        outcome
    }

    fn is_left_by(&self, words: &Page, deadline: CpuTime) -> bool {
        while words.word(INSIDE).load() != 0 {
            let now = self.platform.now();
            if now >= deadline
                || self.platform.sleep_until(now.after(LOOK_NS).min(deadline)) == WaitEnd::Stopped
            {
                return words.word(INSIDE).load() == 0;
            }
        }
        true
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if let Some(ThreadGate { words: Some(words), .. }) = self.0 {
            words.word(INSIDE).fetch_add(u64::MAX);
        }
    }
}
