//! Wakes the tasks whose futures await fences: the thread whose CPU signal ends their waits, or one
//! thread for each device, started by the first of them (decisions/0084).
//!
//! The kernel reports the end of a wait from inside of its rooms, and for an interrupt at
//! DISPATCH_LEVEL. Application code must not run there: a waker may drop a task together with
//! objects of the device. The report therefore queues the slot of the future. A signal call of the
//! device calls the queued wakers before it returns. Otherwise the thread calls them.
//!
//! Invariant: a waker is stored under the slot's lock, and is in place before its wait is
//! registered, so the end of the wait either calls it or is seen by the poll. Locks: no lock is
//! held while a waker is cloned, called or dropped. A panic of a waker ends there (decisions/0145).

use std::sync::{Arc, Weak};
use std::task::Waker;
use tidegate_calls::{SlotKey, Slots, WaitCallback};
use tidegate_platform::planted;
use tidegate_platform::{Event, Mutex, Platform, Step, WaitEnd, Word, current};

/// The thread of a device that wakes tasks. Dropping it ends the thread.
pub(crate) struct Wakers {
    shared: Arc<Shared>,
}

struct Shared {
    platform: Platform,
    /// For [`current::collect_for`].
    number: u64,
    /// Set when a slot is ready for the thread, and at the end.
    event: Event,
    /// 1 from the first future on.
    is_used: Word,
    state: Mutex<State>,
}

struct State {
    /// Slots whose wait is over and whose waker was not called yet.
    ready: Vec<Arc<Slot>>,
    /// Slots that await a fence: a machine that stops wakes them all.
    waiting: Slots<Weak<Slot>>,
    is_running: bool,
    has_ended: bool,
}

/// The part of a future that its kernel wait refers to.
struct Slot {
    state: Mutex<SlotState>,
}

struct SlotState {
    is_over: bool,
    waker: Option<Waker>,
}

impl Slot {
    fn wake(&self, platform: &Platform, is_over: bool) {
        let waker = {
            let mut state = self.state.lock();
            state.is_over |= is_over;
            state.waker.take()
        };
        if let Some(waker) = waker {
            let _contained = platform.call_foreign(|| waker.wake());
        }
    }
}

/// The kernel's callback for the end of a slot's wait.
struct Report {
    slot: Arc<Slot>,
    shared: Arc<Shared>,
}

impl WaitCallback for Report {
    fn wait_is_over(&self) {
        let shared = &self.shared;
        let is_collected = current::collects_for(shared.number);
        shared.state.lock().ready.push(Arc::clone(&self.slot));
        if !is_collected {
            shared.event.set(Step::ThreadWake);
        }
    }
}

/// A slot that is registered with the thread. Dropping it removes the slot.
pub(crate) struct Entry {
    slot: Arc<Slot>,
    key: SlotKey,
    shared: Arc<Shared>,
}

impl Entry {
    /// Returns the callback for a wait.
    pub(crate) fn callback(&self) -> Arc<dyn WaitCallback> {
        Arc::new(Report { slot: Arc::clone(&self.slot), shared: Arc::clone(&self.shared) })
    }

    /// Returns whether the wait is over. Otherwise `waker` is called when it is.
    pub(crate) fn poll(&self, waker: &Waker) -> bool {
        if self.slot.state.lock().is_over {
            return true;
        }
        let waker = waker.clone();
        let (is_over, unused) = {
            let mut state = self.slot.state.lock();
            // The end of the wait calls no waker that comes after it.
            match state.is_over {
                true => (!planted!(self.shared.platform, UnheardEnd), Some(waker)),
                false => (false, state.waker.replace(waker)),
            }
        };
        drop(unused);
        is_over
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let _slot = self.shared.state.lock().waiting.remove(self.key);
        // The kernel's callback may keep the slot. The waker must not be dropped there.
        let waker = self.slot.state.lock().waker.take();
        let _contained = self.shared.platform.call_foreign(|| drop(waker));
    }
}

impl Wakers {
    pub(crate) fn new(platform: &Platform) -> Wakers {
        let state = platform.mutex(
            "futures of a device",
            State {
                ready: Vec::new(),
                waiting: Slots::new(u32::MAX),
                is_running: false,
                has_ended: false,
            },
        );
        let event = platform.event(false);
        Wakers {
            shared: Arc::new(Shared {
                platform: platform.clone(),
                number: platform.serial(),
                event,
                is_used: platform.page(1).word(0).named("whether a device has futures"),
                state,
            }),
        }
    }

    /// Enters a slot whose waker is `waker`.
    pub(crate) fn enter(&self, waker: Waker) -> Entry {
        let shared = &self.shared;
        shared.is_used.store(1);
        let state = SlotState { is_over: false, waker: Some(waker) };
        let slot = Arc::new(Slot { state: shared.platform.mutex("a future", state) });
        let key = shared.state.lock().waiting.insert(Arc::downgrade(&slot));
        let key = key.expect("fewer than 2^32 futures");
        Entry { slot, key, shared: Arc::clone(shared) }
    }

    /// Makes a signal call, and then wakes the tasks whose waits it has ended. Application code
    /// runs: the caller holds no lock.
    #[inline(always)]
    pub(crate) fn wake_after<R>(&self, signal: impl FnOnce() -> R) -> R {
        if self.shared.is_used.load() != 0 {
            return self.wake_collected(signal);
        }
        // A future that comes meanwhile is woken by the thread.
        signal()
    }

    /// As [`Wakers::wake_after`], for a device that has had futures.
    #[cold]
    fn wake_collected<R>(&self, signal: impl FnOnce() -> R) -> R {
        let (result, any) = current::collect_for(self.shared.number, signal);
        if any && !planted!(self.shared.platform, FutureLeftToASignalCall) {
            let (one, several) = {
                let mut state = self.shared.state.lock();
                match state.ready.len() {
                    1 => (state.ready.pop(), Vec::new()),
                    _ => (None, std::mem::take(&mut state.ready)),
                }
            };
            one.iter().chain(&several).for_each(|slot| slot.wake(&self.shared.platform, true));
        }
        result
    }

    /// Starts the thread, unless it runs. The machine may have stopped it since the last call.
    pub(crate) fn ensure_running(&self, name: &str) {
        let was_running = std::mem::replace(&mut self.shared.state.lock().is_running, true);
        if !was_running {
            let shared = Arc::clone(&self.shared);
            self.shared
                .platform
                .spawn_worker(format!("futures of '{name}'"), move || while shared.wake_ready() {});
        }
    }
}

impl Drop for Wakers {
    fn drop(&mut self) {
        self.shared.state.lock().has_ended = true;
        self.shared.event.set(Step::ThreadWake);
    }
}

impl Shared {
    /// Waits for slots that are ready, and calls their wakers. Returns whether the thread goes on.
    fn wake_ready(&self) -> bool {
        let stopped = self.event.wait_for(None, "the end of a future's wait") == WaitEnd::Stopped;
        let (ready, others, goes_on) = {
            let mut state = self.state.lock();
            let ready = std::mem::take(&mut state.ready);
            let others: Vec<Arc<Slot>> = match stopped {
                true => state.waiting.iter().filter_map(|(_, slot)| slot.upgrade()).collect(),
                false => Vec::new(),
            };
            state.is_running = !stopped && !state.has_ended;
            (ready, others, state.is_running)
        };
        ready.iter().for_each(|slot| slot.wake(&self.platform, true));
        // Their next poll sees that the machine has stopped.
        others.iter().for_each(|slot| slot.wake(&self.platform, false));
        goes_on
    }
}
