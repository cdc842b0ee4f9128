//! CPU waits: blocking, with the caller's event, or registered, so that the caller can cancel them.
//!
//! Invariants: each condition latches when it becomes true. The condition that ends the wait gives
//! its notice, once. The remaining registrations are then removed. `event_set` describes how several
//! waits on one event collapse. The notice of a registered wait is given under the wait's lock,
//! which orders it with the cancellation: after a cancellation has returned there is no notice.

use super::event_set::EventSet;
use super::instance::Instance;
use super::monitor;
use super::object::{Fence, Fences, Waiter};
use super::waiter_queue::WaiterId;
use super::waiter_set::WaitOwner;
use crate::driver::DriverPort;
use crate::stats::Count;
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock, Weak};
use tidegate_calls::{Status, WaitCallback, WaitMode, WaitNotice};
use tidegate_d3dukmdt::FenceWait;
use tidegate_d3dukmdt::fence_cell::REACHED;
use tidegate_ddi::Irql;
use tidegate_platform::{Event, Mutex, Platform, WaitEnd};

/// One CPU wait.
pub(crate) struct CpuWait {
    port: Arc<DriverPort>,
    notice: WaitNotice,
    end: NoticeEnd,
    conditions: usize,
    state: Mutex<WaitState>,
}

/// Until when a wait's notice may be given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NoticeEnd {
    /// The caller cannot cancel the wait.
    Never,
    /// No notice is given after a cancellation has returned.
    Cancellation,
}

struct WaitState {
    /// Number of conditions not yet satisfied.
    remaining: usize,
    done: bool,
    /// Registrations to remove when the wait ends before all of them were satisfied.
    registered: Registrations,
}

/// Conditions that are registered with their fences: mostly one, which takes no memory.
type Registrations = SmallVec<[(Weak<Fence>, WaiterId); 1]>;

fn remove_registrations(level: Irql<'_>, registrations: Registrations) {
    for (fence, id) in registrations {
        if let Some(fence) = fence.upgrade() {
            monitor::cancel(level, &fence, id);
        }
    }
}

impl WaitState {
    fn of(instances: &impl ExactSizeIterator, mode: WaitMode) -> WaitState {
        WaitState {
            // spec: MF-042
            remaining: if mode == WaitMode::All { instances.len() } else { 1 },
            done: false,
            registered: Registrations::new(),
        }
    }

    /// Records a satisfied condition. Returns the registrations to remove if that ends the wait.
    fn satisfied(&mut self) -> Option<Registrations> {
        if self.done {
            return None;
        }
        // spec: MF-043
        self.remaining = self.remaining.saturating_sub(1);
        if self.remaining > 0 {
            return None;
        }
        self.done = true;
        Some(std::mem::take(&mut self.registered))
    }
}

impl CpuWait {
    /// Gives the notice.
    fn notify(&self, events: &mut EventSet) {
        self.port.count(Count::cpu_wakes);
        match &self.notice {
            WaitNotice::Event(event) => {
                events.set(event);
            }
            WaitNotice::Callback(callback) => callback.wait_is_over(),
        }
    }
}

impl Waiter for CpuWait {
    fn wake(&self, level: Irql<'_>, _ticket: u64, events: &mut EventSet) {
        let mut state = self.state.lock_device();
        let Some(leftover) = state.satisfied() else { return };
        // A notice that cannot be cancelled may call the kernel. The fault is the mistake that the
        // scenario unregister-against-signal must find.
        let held = self.end == NoticeEnd::Cancellation && !self.port.platform.fault("stale wake");
        let until_given = Some(state).filter(|_| held);
        self.notify(events);
        drop(until_given);
        // The registration of a single condition is the one that was satisfied.
        if self.conditions > 1 {
            remove_registrations(level, leftover);
        }
    }
}

/// Blocking waits that have ended, for reuse with their events. None on an explored platform, where
/// each object has a number of its own.
#[derive(Default)]
pub(crate) struct SpareWaits(OnceLock<Mutex<Vec<Arc<CpuWait>>>>);

impl SpareWaits {
    const MOST: usize = 64;

    fn list(&self, platform: &Platform) -> Option<&Mutex<Vec<Arc<CpuWait>>>> {
        let new = || platform.mutex("spare CPU waits", Vec::new());
        platform.reuses_objects().then(|| self.0.get_or_init(new))
    }

    /// Returns a wait of `conditions` conditions, to which nothing else refers.
    fn take(&self, platform: &Platform, conditions: usize, mode: WaitMode) -> Option<Arc<CpuWait>> {
        let mut wait = self.list(platform)?.lock_device().pop()?;
        let reused = Arc::get_mut(&mut wait)?;
        reused.conditions = conditions;
        *reused.state.lock_device() = WaitState::of(&(0..conditions), mode);
        Some(wait)
    }

    /// Keeps a wait that is over, unless the signal that ended it still refers to it.
    fn keep(&self, mut wait: Arc<CpuWait>) {
        if Arc::get_mut(&mut wait).is_none() {
            return;
        }
        let Some(list) = self.list(&wait.port.platform) else { return };
        let mut list = list.lock_device();
        if list.len() < SpareWaits::MOST {
            list.push(wait);
        }
    }
}

/// A CPU wait whose conditions are registered.
pub(crate) struct EnteredWait {
    wait: Arc<CpuWait>,
    /// Whether any condition was unsatisfied when it was registered.
    pub(crate) is_pending: bool,
    mode: WaitMode,
}

/// Polls the fence of a wait that was begun, for a bounded time. Returns whether it is over.
///
/// A wait that is not over is registered with its epoch. A value that came and went while the caller
/// polled is then found in the fence's history, so fences without one are not polled.
pub(crate) fn poll(fence: &Fence, wait: FenceWait) -> bool {
    let port = fence.port();
    let Some(current) = fence.current.as_ref().filter(|_| wait.epoch != REACHED) else {
        return true;
    };
    let is_kept = port.caps.fence_history && current.is_whole();
    is_kept && port.platform.poll_for(port.config.cpu_wait_poll_ns, || current.load() >= wait.value)
}

/// Registers the conditions of D3DKMTWaitForSynchronizationObjectFromCpu, which were begun. Without
/// an event the caller blocks in [`EnteredWait::block`].
///
/// A wait ends with the instance it was made on. The caller holds the instances until this returns,
/// so an instance destroyed concurrently ends afterwards and releases the wait.
// spec: NF-002, MF-040
pub(crate) fn enter<'a>(
    level: Irql<'_>,
    fences: &Fences,
    instances: impl ExactSizeIterator<Item = (&'a Instance, FenceWait)>,
    mode: WaitMode,
    event: Option<Event>,
    spare: &SpareWaits,
) -> EnteredWait {
    let wait = match event {
        Some(event) => {
            new_wait(fences, &instances, mode, WaitNotice::Event(event), NoticeEnd::Never)
        }
        None => own_wait(fences, &instances, mode, spare),
    };
    register(level, fences, instances, mode, wait)
}

/// Returns a wait with an event of its own, if possible one that is over.
fn own_wait(
    fences: &Fences,
    instances: &impl ExactSizeIterator,
    mode: WaitMode,
    spare: &SpareWaits,
) -> Arc<CpuWait> {
    let platform = &fences.port.platform;
    let new = || {
        let notice = WaitNotice::Event(own_event(platform));
        new_wait(fences, instances, mode, notice, NoticeEnd::Never)
    };
    spare.take(platform, instances.len(), mode).unwrap_or_else(new)
}

/// An event for which one caller waits. It is reset by that wait, for the next caller.
fn own_event(platform: &Platform) -> Event {
    platform.event(!platform.reuses_objects())
}

fn new_wait(
    fences: &Fences,
    instances: &impl ExactSizeIterator,
    mode: WaitMode,
    notice: WaitNotice,
    end: NoticeEnd,
) -> Arc<CpuWait> {
    let state = fences.port.platform.mutex("a CPU wait", WaitState::of(instances, mode));
    let (port, conditions) = (fences.port.clone(), instances.len());
    Arc::new(CpuWait { port, notice, end, conditions, state })
}

/// Registers a wait of the kernel itself for one value, which ends with the instance at the latest.
pub(crate) fn enter_callback(
    level: Irql<'_>,
    fences: &Fences,
    (instance, value): (&Instance, u64),
    callback: Arc<dyn WaitCallback>,
) {
    let wait = monitor::begin_wait(&instance.fence, value);
    let (one, notice) = (std::iter::once((instance, wait)), WaitNotice::Callback(callback));
    let wait = new_wait(fences, &one, WaitMode::All, notice, NoticeEnd::Never);
    let _entered = register(level, fences, one, WaitMode::All, wait);
}

/// Registers the conditions of a wait that can be cancelled.
pub(crate) fn enter_registered<'a>(
    level: Irql<'_>,
    fences: &Fences,
    instances: impl ExactSizeIterator<Item = (&'a Instance, FenceWait)>,
    mode: WaitMode,
    notice: WaitNotice,
) -> EnteredWait {
    let wait = new_wait(fences, &instances, mode, notice, NoticeEnd::Cancellation);
    register(level, fences, instances, mode, wait)
}

fn register<'a>(
    level: Irql<'_>,
    fences: &Fences,
    instances: impl ExactSizeIterator<Item = (&'a Instance, FenceWait)>,
    mode: WaitMode,
    wait: Arc<CpuWait>,
) -> EnteredWait {
    let mut is_pending = false;
    for (instance, begun) in instances {
        let (fence, owner) = (&instance.fence, WaitOwner::Instance(instance.id));
        match monitor::register(level, fence, begun, wait.clone(), 0, owner) {
            Some(id) => {
                is_pending = true;
                wait.state.lock().registered.push((Arc::downgrade(fence), id));
            }
            None => {
                let ended = wait.state.lock().satisfied();
                if let Some(leftover) = ended {
                    wait.notice.give();
                    remove_registrations(level, leftover);
                }
            }
        }
    }
    // A wait-any that ended before its last registration was recorded removes that
    // registration here.
    let leftover = {
        let mut state = wait.state.lock();
        if state.done { std::mem::take(&mut state.registered) } else { Registrations::new() }
    };
    remove_registrations(level, leftover);
    if is_pending {
        fences.port.count(Count::cpu_waits);
    }
    EnteredWait { wait, is_pending, mode }
}

impl EnteredWait {
    /// Blocks until the wait ends. Reports name the wait by `fences`.
    ///
    /// # Errors
    /// CANCELLED when the machine stops.
    // spec: MF-039
    pub(crate) fn block(
        self,
        level: Irql<'_>,
        spare: &SpareWaits,
        fences: &[(Arc<Fence>, u64)],
    ) -> Result<(), Status> {
        let wait = self.wait;
        let WaitNotice::Event(event) = &wait.notice else { return Ok(()) };
        if event.try_take() {
            spare.keep(wait);
            return Ok(());
        }
        let text = |(fence, value): &(Arc<Fence>, u64)| fence.wait_text(*value);
        let what = match (fences, self.mode) {
            ([one], _) => text(one),
            (_, WaitMode::All) => fences.iter().map(text).collect::<Vec<_>>().join(" and "),
            (_, WaitMode::Any) => fences.iter().map(text).collect::<Vec<_>>().join(" or "),
        };
        match event.wait_for(None, &what) {
            WaitEnd::Woken => {
                spare.keep(wait);
                Ok(())
            }
            WaitEnd::TimedOut | WaitEnd::Stopped => {
                let leftover = std::mem::take(&mut wait.state.lock().registered);
                remove_registrations(level, leftover);
                Err(Status::CANCELLED)
            }
        }
    }
}

impl EnteredWait {
    /// Returns the wait, for its caller to cancel.
    pub(crate) fn into_registered(self) -> Registered {
        Registered(self.wait)
    }
}

/// A wait that its caller can cancel.
pub(crate) struct Registered(Arc<CpuWait>);

impl Registered {
    /// Returns whether the condition has held.
    pub(crate) fn is_over(&self) -> bool {
        self.0.state.lock().done
    }

    /// Cancels the wait. Order: 1. a notice that is being given ends, and no further condition ends
    /// the wait; 2. its registrations leave the fences.
    pub(crate) fn cancel(&self, level: Irql<'_>) {
        let leftover = {
            let mut state = self.0.state.lock();
            state.done = true;
            std::mem::take(&mut state.registered)
        };
        remove_registrations(level, leftover);
    }
}
