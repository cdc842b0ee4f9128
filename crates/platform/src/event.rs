//! Events: set and reset, waits for one, any and all of them, and their file descriptors.
//!
//! State of an event: clear, set, or held. A wait for all holds each auto-reset event with a value
//! of its own (the waiter's number) until it knows whether it gets all of them. It then takes them,
//! or sets them again. It never sleeps while it holds one.
//!
//! Invariants: an event is made of protocol words, so its own races are explored. A waiter for
//! several events registers its wake word with each event before its last check, so a set after
//! that check finds the word. The descriptor follows the state: each change of the state is
//! followed by an update, and the last update sees the last state.

mod readiness;

pub use readiness::{DescriptorError, EventFd};

use crate::level;
use crate::memory::Word;
use crate::planted;
use crate::platform::{Platform, PlatformKind};
use crate::sync::Mutex;
use crate::wait_order::Reason;
use crate::waits;
use readiness::Readiness;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tidegate_machines::{CpuTime, Deadline, Step, WaitEnd, thread, world};

/// The identity of an [`Event`] while a clone of it is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(u64);

impl EventId {
    /// Returns the identity as a number.
    pub fn number(self) -> u64 {
        self.0
    }
}

const CLEAR: u64 = 0;
const SET: u64 = 1;
/// The first value of an event that a wait for all holds.
const FIRST_HELD: u64 = 2;

/// An event, which is set or not set.
#[derive(Clone, Debug)]
pub struct Event {
    state: Word,
    sleepers: Word,
    manual_reset: bool,
    /// Orders events by their creation.
    serial: u64,
    attached: Arc<Attached>,
}

/// The serial of the next event.
static NEXT_SERIAL: AtomicU64 = AtomicU64::new(0);

/// What few events need. Each part is allocated by its first use.
struct Attached {
    /// The number of the lock of `watchers`. Drawn with the event: the agents that may make the
    /// lock race, and states must not differ by which of them did.
    lock: u32,
    /// The wake words of agents that wait for several events.
    watchers: OnceLock<Mutex<Vec<Word>>>,
    readiness: OnceLock<Readiness>,
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watchers({})", self.watchers.get().map_or(0, |list| list.lock().len()))
    }
}

impl Attached {
    fn add_watcher(&self, word: &Word) {
        let name = "waiters for several events";
        let new = || Mutex::numbered(word.platform(), self.lock, name, Vec::new());
        self.watchers.get_or_init(new).lock().push(word.clone());
    }

    fn remove_watcher(&self, word: &Word) {
        if let Some(list) = self.watchers.get() {
            list.lock().retain(|other| !other.same(word));
        }
    }

    fn wake_watchers(&self, step: Step) {
        let words = self.watchers.get().map(|list| list.lock().clone()).unwrap_or_default();
        for word in words {
            word.exchange(SET);
            word.wake(1, step);
        }
    }
}

/// The outcome of an attempt to take all of several events.
enum All {
    Taken,
    /// At least one is clear.
    Clear,
    /// Another wait for all holds the event of this index, and decides soon.
    Held(usize, u64),
}

impl Platform {
    /// Creates an event. A manual-reset event stays set until reset; any other releases one waiter
    /// per set.
    pub fn event(&self, manual_reset: bool) -> Event {
        let page = self.page(2).named("an event");
        let lock = self.new_object_id();
        let (watchers, readiness) = (OnceLock::new(), OnceLock::new());
        let attached = Arc::new(Attached { lock, watchers, readiness });
        let serial = NEXT_SERIAL.fetch_add(1, Ordering::Relaxed);
        Event { state: page.word(0), sleepers: page.word(1), manual_reset, serial, attached }
    }
}

impl Event {
    /// Returns the identity of the event, which its clones share.
    pub fn id(&self) -> EventId {
        EventId(self.serial)
    }

    /// Returns the platform of the event.
    pub fn platform(&self) -> &Platform {
        self.state.platform()
    }

    /// Returns whether the event stays set until it is reset. Any other event is reset by the wait
    /// that it releases.
    pub fn is_manual_reset(&self) -> bool {
        self.manual_reset
    }

    /// Sets the event and wakes its waiters: all of a manual-reset event, else one. `step` is the
    /// cost of their return in virtual time. Makes no system call without a sleeper.
    pub fn set(&self, step: Step) {
        self.state.exchange(SET);
        let sleepers = self.sleepers.load();
        if sleepers > 0 {
            // A sleeper that is not counted finds the event set. The system stops looking for
            // sleepers once it has woken as many, and it may have thousands of others.
            let most =
                if self.manual_reset { u32::try_from(sleepers).unwrap_or(u32::MAX) } else { 1 };
            self.state.wake(most, step);
            self.attached.wake_watchers(step);
            self.update_descriptor();
        }
    }

    /// Clears the event.
    pub fn reset(&self) {
        self.state.exchange(CLEAR);
        self.update_descriptor();
    }

    /// Returns whether the event is set, without taking it.
    pub fn is_set(&self) -> bool {
        self.state.load() != CLEAR
    }

    /// Takes the event if it is set. Returns whether it was set. If a wait for all holds the event,
    /// its decision is awaited, which depends on no other agent.
    pub fn try_take(&self) -> bool {
        loop {
            match self.take() {
                Ok(()) => return true,
                Err(held) if held != CLEAR && self.await_decision(held) => {}
                Err(_) => return false,
            }
        }
    }

    /// Takes the event if it is set. Returns the state otherwise.
    fn take(&self) -> Result<(), u64> {
        if self.manual_reset {
            return match self.state.load() {
                CLEAR => Err(CLEAR),
                _ => Ok(()),
            };
        }
        self.state.compare_exchange(SET, CLEAR)?;
        self.update_descriptor();
        Ok(())
    }

    /// Waits until the wait for all that holds the event has decided. Returns `false` when the
    /// machine stops.
    fn await_decision(&self, held: u64) -> bool {
        self.sleepers.fetch_add(1);
        let end = self.state.wait_until(held as u32, None, "a wait for all events");
        self.sleepers.fetch_add(1u64.wrapping_neg());
        end != WaitEnd::Stopped
    }

    fn update_descriptor(&self) {
        if let Some(readiness) = self.attached.readiness.get() {
            readiness.update(|| self.is_set());
        }
    }

    /// Returns a file descriptor that is readable while the event is set. Clones of the event share
    /// it. It is created by the first call, and closed with the event and the last clone of it.
    ///
    /// # Errors
    ///
    /// The platform is not the host's, or the system has no descriptor left.
    pub fn fd(&self) -> Result<EventFd, DescriptorError> {
        if self.platform().kind() != PlatformKind::Host {
            return Err(DescriptorError::NotOnHost(self.platform().kind()));
        }
        if self.attached.readiness.get().is_none() {
            let new = Readiness::new()?;
            if self.attached.readiness.set(new).is_ok() {
                // Makes every later set update the descriptor.
                self.sleepers.fetch_add(1);
            }
        }
        self.update_descriptor();
        let readiness = self.attached.readiness.get().expect("it was created above");
        Ok(readiness.descriptor())
    }

    /// Blocks until the event is set.
    pub fn wait(&self) -> WaitEnd {
        self.wait_for(None, "an event")
    }

    /// Blocks until the event is set or `deadline` has passed. `what` is the reason in reports of
    /// blocked agents, with the class of a wait that the machine itself ends.
    pub fn wait_for<'a>(&self, deadline: Option<CpuTime>, what: impl Into<Reason<'a>>) -> WaitEnd {
        self.wait_until(deadline, what.into())
    }

    fn wait_until(&self, deadline: Option<CpuTime>, what: Reason<'_>) -> WaitEnd {
        level::assert_may_block(what.text);
        if cfg!(debug_assertions) || self.state.is_explored() {
            waits::begin_wait(self.platform(), what);
        }
        if self.take().is_ok() {
            return WaitEnd::Woken;
        }
        self.sleepers.fetch_add(1);
        let end = loop {
            let Err(seen) = self.take() else { break WaitEnd::Woken };
            // A held event is decided without other agents, so no deadline applies meanwhile.
            let limit = deadline.filter(|_| seen == CLEAR);
            match self.state.wait_until(seen as u32, limit.map(Deadline::at), what.text) {
                WaitEnd::Woken => {}
                WaitEnd::TimedOut => match self.take() {
                    Ok(()) => break WaitEnd::Woken,
                    Err(CLEAR) => break WaitEnd::TimedOut,
                    Err(_) => {}
                },
                WaitEnd::Stopped => break WaitEnd::Stopped,
            }
        };
        self.sleepers.fetch_add(1u64.wrapping_neg());
        end
    }

    /// Blocks until one of `events` is set, and takes only that event. Returns its index, the
    /// lowest if several are set.
    ///
    /// # Errors
    ///
    /// The machine stopped.
    ///
    /// # Panics
    ///
    /// `events` is empty.
    #[doc(alias = "WaitForMultipleObjects")]
    pub fn wait_any(events: &[&Event], what: &str) -> Result<usize, WaitEnd> {
        Event::wait_any_for(events, None, what)
    }

    /// Blocks as [`Event::wait_any`] does, until `deadline` at most.
    ///
    /// # Errors
    ///
    /// [`WaitEnd::TimedOut`] or [`WaitEnd::Stopped`]. No event was taken.
    ///
    /// # Panics
    ///
    /// `events` is empty.
    // spec: ME-064
    pub fn wait_any_for(
        events: &[&Event],
        deadline: Option<CpuTime>,
        what: &str,
    ) -> Result<usize, WaitEnd> {
        level::assert_may_block(what);
        let taken = || events.iter().position(|event| event.take().is_ok());
        if let Some(index) = taken() {
            return Ok(index);
        }
        watched(events, |word| {
            loop {
                word.exchange(CLEAR);
                if let Some(index) = taken() {
                    break Ok(index);
                }
                match word.wait_until(CLEAR as u32, deadline.map(Deadline::at), what) {
                    WaitEnd::Woken => {}
                    WaitEnd::TimedOut => {
                        let last = events.iter().position(|event| event.try_take());
                        break last.ok_or(WaitEnd::TimedOut);
                    }
                    end => break Err(end),
                }
            }
        })
    }

    /// Blocks until all of `events` are set at the same time, or `deadline` has passed. Takes all
    /// of them or none. An event that is named twice counts as one.
    ///
    /// # Panics
    ///
    /// `events` is empty.
    #[doc(alias = "WaitForMultipleObjects")]
    pub fn wait_all(events: &[&Event], deadline: Option<CpuTime>, what: &str) -> WaitEnd {
        level::assert_may_block(what);
        // In one order for all waiters, so one of two that compete for the same events gets them.
        let mut known = BTreeSet::new();
        let mut events: Vec<&Event> =
            events.iter().copied().filter(|event| known.insert(event.serial)).collect();
        events.sort_by_key(|event| event.serial);
        if let All::Taken = take_all(&events) {
            return WaitEnd::Woken;
        }
        watched(&events, |word| {
            loop {
                word.exchange(CLEAR);
                match take_all(&events) {
                    All::Taken => break WaitEnd::Woken,
                    All::Held(index, held) if events[index].await_decision(held) => continue,
                    All::Held(..) => break WaitEnd::Stopped,
                    All::Clear => {}
                }
                match word.wait_until(CLEAR as u32, deadline.map(Deadline::at), what) {
                    WaitEnd::Woken => {}
                    WaitEnd::TimedOut => match take_all(&events) {
                        All::Taken => break WaitEnd::Woken,
                        All::Held(..) => {}
                        All::Clear => break WaitEnd::TimedOut,
                    },
                    WaitEnd::Stopped => break WaitEnd::Stopped,
                }
            }
        })
    }
}

/// Calls `wait` with a wake word that each set of one of `events` sets and wakes.
fn watched<R>(events: &[&Event], wait: impl FnOnce(&Word) -> R) -> R {
    let first = events.first().expect("a wait for several events names at least one");
    let word = first.state.platform().page(1).word(0).named("a waiter for several events");
    for event in events {
        event.attached.add_watcher(&word);
        event.sleepers.fetch_add(1);
    }
    let end = wait(&word);
    for event in events {
        event.sleepers.fetch_add(1u64.wrapping_neg());
        event.attached.remove_watcher(&word);
    }
    end
}

/// Takes all of `events` if all are set at the same time. Order: 1. hold each auto-reset event;
/// 2. check that every hold still stands, so all were set when the last one was acquired; 3. take.
fn take_all(events: &[&Event]) -> All {
    let Some(first) = events.first() else { return All::Taken };
    let refusal = |index: usize, seen: u64| match seen {
        CLEAR => All::Clear,
        held => All::Held(index, held),
    };
    let states = events.iter().map(|event| event.state.load());
    if let Some((index, seen)) = states.enumerate().find(|(_, seen)| *seen != SET) {
        return refusal(index, seen);
    }
    let mine = FIRST_HELD
        + match first.platform().kind() {
            PlatformKind::Host => thread::number(),
            _ => world::agent_number(),
        };
    // 1.
    for (index, event) in events.iter().enumerate() {
        let seen = match event.manual_reset {
            true => Some(event.state.load()).filter(|seen| *seen != SET),
            false => event.state.compare_exchange(SET, mine).err(),
        };
        if let Some(seen) = seen {
            decide(&events[..index], mine, SET);
            return refusal(index, seen);
        }
    }
    // 2.
    let stands = |event: &&Event| event.state.load() == if event.manual_reset { SET } else { mine };
    let all = events.iter().all(stands);
    // 3.
    decide(events, mine, if all { CLEAR } else { SET });
    if all { All::Taken } else { All::Clear }
}

/// Ends the holds of `mine`: the events become `state`, unless they were set or reset meanwhile.
fn decide(events: &[&Event], mine: u64, state: u64) {
    for event in events.iter().filter(|event| !event.manual_reset) {
        let ended = event.state.compare_exchange(mine, state).is_ok();
        if ended && event.sleepers.load() > 0 {
            event.state.wake(u32::MAX, Step::ThreadWake);
            // The fault is the mistake that the scenario wait-any-against-wait-all must find.
            let wakes = !planted!(event.platform(), GivenBackWithoutAWake);
            if state == SET && wakes {
                event.attached.wake_watchers(Step::ThreadWake);
            }
        }
        event.update_descriptor();
    }
}
