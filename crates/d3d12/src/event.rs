//! Events as an application sees them: fences set them, and CPU threads wait for them.
//!
//! Invariant: an event owns the registrations that would set it. Dropping its last handle cancels
//! them, so no fence keeps a registration. They are dropped without the lock of their list, because
//! a cancellation is a kernel call.
//!
//! Entry points: [`Device::create_event`](crate::Device::create_event), [`Event::wait`],
//! [`Event::wait_any`], [`Event::wait_all`], [`Event::fd`].

use crate::error::{Error, Result};
use crate::umd::registration::Registration;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tidegate_platform::{
    CpuTime, DescriptorError, EnteredCall, Event as Signal, EventFd, Mutex, Platform, Step, WaitEnd,
};

/// Describes an event to create. The default is an auto-reset event without a name, not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventDesc {
    /// The name in reports.
    pub name: String,
    /// Whether the event stays set until it is reset. An auto-reset event is reset by the wait that
    /// it releases.
    pub manual_reset: bool,
    /// Whether the event is set from the start.
    pub initially_set: bool,
}

impl EventDesc {
    /// Describes an auto-reset event.
    pub fn auto_reset() -> EventDesc {
        EventDesc::default()
    }

    /// Describes a manual-reset event.
    pub fn manual_reset() -> EventDesc {
        EventDesc { manual_reset: true, ..EventDesc::default() }
    }

    /// Makes the event set from the start.
    pub fn initially_set(self) -> EventDesc {
        EventDesc { initially_set: true, ..self }
    }

    /// Names the event in reports.
    pub fn named(self, name: impl Into<String>) -> EventDesc {
        EventDesc { name: name.into(), ..self }
    }
}

/// The result of a wait with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a wait with a limit may have timed out"]
pub enum Waited<T = ()> {
    /// The condition held. The value says which one, for a wait for any.
    Signalled(T),
    /// The limit passed first. Nothing was taken.
    TimedOut,
}

impl<T> Waited<T> {
    /// Returns whether the condition held.
    pub fn is_signalled(&self) -> bool {
        matches!(self, Waited::Signalled(_))
    }

    /// Returns whether the limit passed first.
    pub fn is_timed_out(&self) -> bool {
        !self.is_signalled()
    }

    /// Returns which condition held, or `None` after a time-out.
    pub fn signalled(self) -> Option<T> {
        match self {
            Waited::Signalled(value) => Some(value),
            Waited::TimedOut => None,
        }
    }
}

/// An event, which is set or not set. Clones are handles of one event.
///
/// When the last handle is dropped, the registrations that would set the event are cancelled.
#[derive(Clone)]
pub struct Event {
    inner: Arc<Inner>,
}

struct Inner {
    desc: EventDesc,
    signal: Signal,
    registrations: Mutex<Registrations>,
}

/// The registrations that will set the event. Those that are over are removed when the list has
/// doubled.
#[derive(Default)]
struct Registrations {
    live: Vec<Registration>,
    collect_at: usize,
}

const COLLECT_FIRST: usize = 8;

impl Event {
    /// Creates an event on this platform.
    pub fn new(platform: &Platform, desc: EventDesc) -> Event {
        let signal = platform.event(desc.manual_reset);
        if desc.initially_set {
            signal.set(Step::ThreadWake);
        }
        let registrations = platform.mutex("registrations of an event", Registrations::default());
        Event { inner: Arc::new(Inner { desc, signal, registrations }) }
    }

    /// Returns its description.
    pub fn desc(&self) -> &EventDesc {
        &self.inner.desc
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.inner.desc.name
    }

    /// Returns whether the event stays set until it is reset.
    pub fn is_manual_reset(&self) -> bool {
        self.inner.signal.is_manual_reset()
    }

    /// Sets the event. Releases all waiters of a manual-reset event, else one.
    #[doc(alias = "SetEvent")]
    #[track_caller]
    pub fn set(&self) {
        let _call = self.platform().enter_call("Event::set");
        let signal = &self.inner.signal;
        let number = signal.id().number();
        signal.platform().check_hazards(|checker, thread| checker.event_set(thread, number));
        signal.set(Step::ThreadWake);
    }

    /// Resets the event.
    #[doc(alias = "ResetEvent")]
    #[track_caller]
    pub fn reset(&self) {
        let _call = self.platform().enter_call("Event::reset");
        let signal = &self.inner.signal;
        signal.platform().hazard_checker(|checker| checker.event_reset(signal.id().number()));
        signal.reset();
    }

    /// Returns whether the event is set, and leaves it as it is.
    #[track_caller]
    pub fn is_set(&self) -> bool {
        let _call = self.platform().enter_call("Event::is_set");
        self.inner.signal.is_set()
    }

    /// Takes the event if it is set: an auto-reset event is then reset. Returns whether it was set.
    #[track_caller]
    pub fn try_take(&self) -> bool {
        let _call = self.platform().enter_call("Event::try_take");
        let taken = self.inner.signal.try_take();
        if taken {
            note_taken(&self.inner.signal);
        }
        taken
    }

    /// Blocks until the event is set.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    #[doc(alias = "WaitForSingleObject")]
    #[track_caller]
    pub fn wait(&self) -> Result<()> {
        let _call = self.platform().enter_call("Event::wait");
        self.wait_until(None).map(|_| ())
    }

    /// Blocks until the event is set, for `limit` at most. A limit of zero does not block.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    #[track_caller]
    pub fn wait_timeout(&self, limit: Duration) -> Result<Waited> {
        let _call = self.platform().enter_call("Event::wait_timeout");
        self.wait_until(deadline(self.platform(), limit))
    }

    fn wait_until(&self, deadline: Option<CpuTime>) -> Result<Waited> {
        let what = match self.name() {
            "" => "an event".to_owned(),
            name => format!("event '{name}'"),
        };
        let block = || self.inner.signal.wait_for(deadline, &what);
        let end = match deadline {
            None => while_blocked(&self.inner.signal, block),
            Some(_) => block(),
        };
        if end == WaitEnd::Woken {
            note_taken(&self.inner.signal);
        }
        waited(end)
    }

    /// Blocks until one of `events` is set, and takes only that event. Returns its index, the
    /// lowest if several are set.
    ///
    /// # Errors
    /// [`Error::BadValue`] for no event; [`Error::Stopped`].
    #[doc(alias = "WaitForMultipleObjects")]
    #[track_caller]
    pub fn wait_any(events: &[&Event]) -> Result<usize> {
        let _call = enter_call_for(events, "Event::wait_any");
        let waited = Event::wait_any_until(events, None)?;
        waited.signalled().ok_or(Error::Stopped)
    }

    /// Blocks as [`Event::wait_any`] does, for `limit` at most.
    ///
    /// # Errors
    /// As [`Event::wait_any`].
    #[track_caller]
    pub fn wait_any_timeout(events: &[&Event], limit: Duration) -> Result<Waited<usize>> {
        let _call = enter_call_for(events, "Event::wait_any_timeout");
        Event::wait_any_until(events, Some(limit))
    }

    fn wait_any_until(events: &[&Event], limit: Option<Duration>) -> Result<Waited<usize>> {
        let (signals, deadline) = several(events, limit)?;
        let what = format!("any of {} events", events.len());
        match Signal::wait_any_for(&signals, deadline, &what) {
            Ok(index) => {
                note_taken(signals[index]);
                Ok(Waited::Signalled(index))
            }
            Err(WaitEnd::TimedOut) => Ok(Waited::TimedOut),
            Err(_) => Err(Error::Stopped),
        }
    }

    /// Blocks until all of `events` are set at the same time. Takes all of them or none. An event
    /// that is named twice counts as one.
    ///
    /// # Errors
    /// [`Error::BadValue`] for no event; [`Error::Stopped`].
    #[doc(alias = "WaitForMultipleObjects")]
    #[track_caller]
    pub fn wait_all(events: &[&Event]) -> Result<()> {
        let _call = enter_call_for(events, "Event::wait_all");
        Event::wait_all_until(events, None).map(|_| ())
    }

    /// Blocks as [`Event::wait_all`] does, for `limit` at most.
    ///
    /// # Errors
    /// As [`Event::wait_all`].
    #[track_caller]
    pub fn wait_all_timeout(events: &[&Event], limit: Duration) -> Result<Waited> {
        let _call = enter_call_for(events, "Event::wait_all_timeout");
        Event::wait_all_until(events, Some(limit))
    }

    fn wait_all_until(events: &[&Event], limit: Option<Duration>) -> Result<Waited> {
        let (signals, deadline) = several(events, limit)?;
        let end = Signal::wait_all(&signals, deadline, &format!("all of {} events", events.len()));
        if end == WaitEnd::Woken {
            signals.iter().for_each(|signal| note_taken(signal));
        }
        waited(end)
    }

    /// Returns a file descriptor that is readable while the event is set, for poll, epoll and
    /// `AsyncFd` of tokio. All handles of the event share it. Readers take the event with
    /// [`Event::try_take`] and leave the descriptor's bytes alone.
    ///
    /// # Errors
    /// [`DescriptorError::NotOnHost`] on a virtual or explored platform;
    /// [`DescriptorError::System`] when the process has no descriptor left.
    pub fn fd(&self) -> std::result::Result<EventFd, DescriptorError> {
        self.inner.signal.fd()
    }

    pub(crate) fn platform(&self) -> &Platform {
        self.inner.signal.platform()
    }

    pub(crate) fn signal(&self) -> &Signal {
        &self.inner.signal
    }

    /// Keeps a registration until it is over or the event is dropped.
    pub(crate) fn own(&self, registration: Registration) {
        let over: Vec<Registration> = {
            let mut registrations = self.inner.registrations.lock();
            registrations.live.push(registration);
            if registrations.live.len() < registrations.collect_at.max(COLLECT_FIRST) {
                return;
            }
            let all = std::mem::take(&mut registrations.live);
            let (over, live): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|registration| registration.is_over());
            registrations.collect_at = 2 * live.len();
            registrations.live = live;
            over
        };
        drop(over);
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_manual_reset() { "manual reset" } else { "auto reset" };
        let state = if self.is_set() { "set" } else { "not set" };
        write!(f, "Event({:?}, {kind}, {state})", self.name())
    }
}

/// A registration of an event with fences ([`crate::Fence::register_event`]). Dropping it cancels
/// the registration: once the drop has returned, the event is not set for it any more.
#[derive(Debug)]
#[must_use = "dropping the registration cancels it"]
pub struct EventRegistration(pub(crate) Registration);

impl EventRegistration {
    /// Returns whether the event was set, or is being set.
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }
}

/// Returns the deadline of a wait that begins now; `None` for a limit beyond the clock.
pub(crate) fn deadline(platform: &Platform, limit: Duration) -> Option<CpuTime> {
    let ns = u64::try_from(limit.as_nanos()).ok()?;
    Some(platform.now().after(ns)).filter(|deadline| deadline.0 < u64::MAX)
}

pub(crate) fn waited(end: WaitEnd) -> Result<Waited> {
    match end {
        WaitEnd::Woken => Ok(Waited::Signalled(())),
        WaitEnd::TimedOut => Ok(Waited::TimedOut),
        WaitEnd::Stopped => Err(Error::Stopped),
    }
}

/// Reports to the hazard check that the calling thread blocks on an event while `block` does it.
fn while_blocked(signal: &Signal, block: impl FnOnce() -> WaitEnd) -> WaitEnd {
    let (platform, number) = (signal.platform(), signal.id().number());
    if platform.check_hazards(|c, thread| c.event_wait_begin(thread, number)).is_none() {
        return block();
    }
    let end = block();
    let stopped = end == WaitEnd::Stopped;
    platform.check_hazards(|checker, thread| checker.cpu_wait_end(thread, stopped));
    end
}

/// Reports to the hazard check that the calling thread's wait for an event ended.
fn note_taken(signal: &Signal) {
    let (number, manual_reset) = (signal.id().number(), signal.is_manual_reset());
    let platform = signal.platform();
    platform.check_hazards(|checker, thread| checker.event_wait(thread, number, manual_reset));
}

/// Makes `call` the place of the steps of a wait for several events.
#[track_caller]
fn enter_call_for(events: &[&Event], call: &'static str) -> Option<EnteredCall> {
    // The place of a call inside of a closure would be here.
    let first = events.first()?;
    Some(first.platform().enter_call(call))
}

fn several<'a>(
    events: &[&'a Event],
    limit: Option<Duration>,
) -> Result<(Vec<&'a Signal>, Option<CpuTime>)> {
    let Some(first) = events.first() else {
        let what = "a wait for several events".to_owned();
        return Err(Error::BadValue { what, why: "it names no event; name at least one" });
    };
    let deadline = limit.and_then(|limit| deadline(first.platform(), limit));
    Ok((events.iter().map(|event| event.signal()).collect(), deadline))
}
