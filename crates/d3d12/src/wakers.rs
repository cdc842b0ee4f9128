//! Wakes the tasks whose futures await fences: the thread whose CPU signal ends their waits, or one
//! thread for each device, started by the first of them (decisions/0084, decisions/0106).
//!
//! The kernel reports the end of a wait from inside of its rooms, and for an interrupt at
//! DISPATCH_LEVEL. Application code must not run there: a waker may drop a task together with
//! objects of the device. The report therefore queues the slot of the future. A signal call of the
//! device calls the queued wakers before it returns. Otherwise the thread calls them.
//!
//! Invariant: a waker is stored under the slot's lock, and is in place before its wait is
//! registered, so the end of the wait either calls it or is seen by the poll. Locks: no lock is
//! held while a waker is called or dropped.

use std::sync::{Arc, Weak};
use std::task::Waker;
use tidegate_calls::WaitCallback;
use tidegate_platform::{Event, Mutex, Platform, Step, WaitEnd, Word, current};

/// The thread of a device that wakes tasks. Dropping it ends the thread.
pub(crate) struct Wakers {
    shared: Arc<Shared>,
}

struct Shared {
    platform: Platform,
    /// Set when a slot is ready for the thread, and at the end.
    event: Event,
    /// 1 from the first future on.
    is_used: Word,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Slots whose wait is over and whose waker was not called yet.
    ready: Vec<Arc<Slot>>,
    /// Slots that await a fence, at their numbers: a machine that stops wakes them all.
    waiting: Vec<Weak<Slot>>,
    /// Numbers without a slot.
    free: Vec<usize>,
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
    fn wake(&self, is_over: bool) {
        let waker = {
            let mut state = self.state.lock();
            state.is_over |= is_over;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The kernel's callback for the end of a slot's wait.
struct Report {
    slot: Arc<Slot>,
    shared: Arc<Shared>,
}

/// The fault of a signal call that does not wake what was left to it.
const FORGOTTEN: &str = "future left to a signal call";

impl WaitCallback for Report {
    fn wait_is_over(&self) {
        let shared = &self.shared;
        let is_collected = current::collects_for(shared.number());
        shared.state.lock().ready.push(Arc::clone(&self.slot));
        if !is_collected {
            shared.event.set(Step::ThreadWake);
        }
    }
}

/// A slot that is registered with the thread. Dropping it removes the slot.
pub(crate) struct Entry {
    slot: Arc<Slot>,
    number: usize,
    shared: Arc<Shared>,
}

impl Entry {
    /// Returns the callback for a wait.
    pub(crate) fn callback(&self) -> Arc<dyn WaitCallback> {
        Arc::new(Report { slot: Arc::clone(&self.slot), shared: Arc::clone(&self.shared) })
    }

    /// Returns whether the wait is over. Otherwise `waker` is called when it is.
    pub(crate) fn poll(&self, waker: &Waker) -> bool {
        let former = {
            let mut state = self.slot.state.lock();
            if state.is_over {
                return true;
            }
            state.waker.replace(waker.clone())
        };
        drop(former);
        false
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.waiting[self.number] = Weak::new();
        state.free.push(self.number);
    }
}

impl Wakers {
    pub(crate) fn new(platform: &Platform) -> Wakers {
        let state = platform.mutex("futures of a device", State::default());
        let event = platform.event(false);
        Wakers {
            shared: Arc::new(Shared {
                platform: platform.clone(),
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
        let mut state = shared.state.lock();
        let number = state.free.pop().unwrap_or_else(|| {
            state.waiting.push(Weak::new());
            state.waiting.len() - 1
        });
        state.waiting[number] = Arc::downgrade(&slot);
        drop(state);
        Entry { slot, number, shared: Arc::clone(shared) }
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
        let (result, any) = current::collect_for(self.shared.number(), signal);
        if any && !self.shared.platform.fault(FORGOTTEN) {
            let (one, several) = {
                let mut state = self.shared.state.lock();
                match state.ready.len() {
                    1 => (state.ready.pop(), Vec::new()),
                    _ => (None, std::mem::take(&mut state.ready)),
                }
            };
            one.iter().chain(&several).for_each(|slot| slot.wake(true));
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
    /// A number of its own, for [`current::collect_for`].
    fn number(&self) -> u64 {
        std::ptr::from_ref(self).addr() as u64
    }

    /// Waits for slots that are ready, and calls their wakers. Returns whether the thread goes on.
    fn wake_ready(&self) -> bool {
        let stopped = self.event.wait_for(None, "the end of a future's wait") == WaitEnd::Stopped;
        let (ready, others, goes_on) = {
            let mut state = self.state.lock();
            let ready = std::mem::take(&mut state.ready);
            let others: Vec<Arc<Slot>> = match stopped {
                true => state.waiting.iter().filter_map(Weak::upgrade).collect(),
                false => Vec::new(),
            };
            state.is_running = !stopped && !state.has_ended;
            (ready, others, state.is_running)
        };
        ready.iter().for_each(|slot| slot.wake(true));
        // Their next poll sees that the machine has stopped.
        others.iter().for_each(|slot| slot.wake(false));
        goes_on
    }
}
