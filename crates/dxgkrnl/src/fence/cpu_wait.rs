//! CPU waits: blocking, with the caller's event, or registered, so that the caller can cancel them.
//!
//! Invariants: each condition latches when it becomes true. The condition that ends the wait gives
//! its notice, once. The remaining registrations are then removed. `event_set` describes how several
//! waits on one event collapse. The notice of a registered wait is given under its delivery lock,
//! which orders it with the cancellation: after a cancellation has returned there is no notice.

use super::event_set::EventSet;
use super::instance::Instance;
use super::monitor;
use super::object::{Fence, Fences, Waiter};
use super::waiter_set::{WaitOwner, WaiterId};
use crate::driver::DriverPort;
use crate::stats::Count;
use std::sync::{Arc, Weak};
use tidegate_calls::{Status, WaitCallback, WaitMode, WaitNotice};
use tidegate_ddi::Irql;
use tidegate_platform::{Event, Mutex, Step, WaitEnd};

/// One CPU wait.
pub(crate) struct CpuWait {
    port: Arc<DriverPort>,
    notice: WaitNotice,
    state: Mutex<WaitState>,
    /// Whether the wait was cancelled; `None` for a wait that no caller can cancel.
    delivery: Option<Mutex<bool>>,
}

struct WaitState {
    /// Number of conditions not yet satisfied.
    remaining: usize,
    done: bool,
    /// Registrations to remove when the wait ends before all of them were satisfied.
    registered: Vec<(Weak<Fence>, WaiterId)>,
}

impl CpuWait {
    /// Records a satisfied condition. Returns the registrations to remove if that ends the wait.
    fn satisfied(&self) -> Option<Vec<(Weak<Fence>, WaiterId)>> {
        let mut state = self.state.lock();
        if state.done {
            return None;
        }
        // spec: MF-043
        state.remaining = state.remaining.saturating_sub(1);
        if state.remaining > 0 {
            return None;
        }
        state.done = true;
        Some(std::mem::take(&mut state.registered))
    }

    /// Gives the notice, unless the wait was cancelled.
    fn notify(&self, events: &mut EventSet) {
        let cancelled = self.delivery.as_ref().map(|delivery| delivery.lock_device());
        if cancelled.as_ref().is_some_and(|cancelled| **cancelled) {
            return;
        }
        // The fault is the mistake that the scenario unregister-against-signal must find.
        let _until_given = cancelled.filter(|_| !self.port.platform.fault("stale wake"));
        self.port.count(Count::cpu_wakes);
        match &self.notice {
            WaitNotice::Event(event) => {
                events.set(event);
            }
            WaitNotice::Callback(callback) => callback.wait_is_over(),
        }
    }
}

fn remove_registrations(level: Irql<'_>, registrations: Vec<(Weak<Fence>, WaiterId)>) {
    for (fence, id) in registrations {
        if let Some(fence) = fence.upgrade() {
            monitor::cancel(level, &fence, id);
        }
    }
}

impl Waiter for CpuWait {
    fn wake(&self, level: Irql<'_>, _ticket: u64, events: &mut EventSet) {
        let Some(leftover) = self.satisfied() else { return };
        self.notify(events);
        remove_registrations(level, leftover);
    }
}

/// A CPU wait whose conditions are registered.
pub(crate) struct EnteredWait {
    wait: Arc<CpuWait>,
    event: Option<Event>,
    /// Whether any condition was unsatisfied when it was registered.
    pub(crate) is_pending: bool,
    mode: WaitMode,
}

/// Registers the conditions of D3DKMTWaitForSynchronizationObjectFromCpu. Without an event the
/// caller blocks in [`EnteredWait::block`].
///
/// A wait ends with the instance it was made on. The caller holds the instances until this returns,
/// so an instance destroyed concurrently ends afterwards and releases the wait.
// spec: NF-002, MF-040
pub(crate) fn enter<'a>(
    level: Irql<'_>,
    fences: &Fences,
    instances: impl ExactSizeIterator<Item = (&'a Instance, u64)>,
    mode: WaitMode,
    event: Option<Event>,
) -> EnteredWait {
    let event = event.unwrap_or_else(|| own_event(fences));
    let notice = WaitNotice::Event(event.clone());
    EnteredWait { event: Some(event), ..register(level, fences, instances, mode, notice, None) }
}

/// An event that one caller waits for once, so either way of reset would do.
fn own_event(fences: &Fences) -> Event {
    fences.port.platform.event(true)
}

/// Registers a wait of the kernel itself for one value, which ends with the instance at the latest.
pub(crate) fn enter_callback(
    level: Irql<'_>,
    fences: &Fences,
    (instance, value): (&Instance, u64),
    callback: Arc<dyn WaitCallback>,
) {
    let (one, notice) = (std::iter::once((instance, value)), WaitNotice::Callback(callback));
    let _entered = register(level, fences, one, WaitMode::All, notice, None);
}

/// Registers the conditions of a wait that can be cancelled.
pub(crate) fn enter_registered<'a>(
    level: Irql<'_>,
    fences: &Fences,
    instances: impl ExactSizeIterator<Item = (&'a Instance, u64)>,
    mode: WaitMode,
    notice: WaitNotice,
) -> EnteredWait {
    let delivery = fences.port.platform.mutex("delivery of a CPU wait", false);
    register(level, fences, instances, mode, notice, Some(delivery))
}

fn register<'a>(
    level: Irql<'_>,
    fences: &Fences,
    instances: impl ExactSizeIterator<Item = (&'a Instance, u64)>,
    mode: WaitMode,
    notice: WaitNotice,
    delivery: Option<Mutex<bool>>,
) -> EnteredWait {
    let platform = &fences.port.platform;
    let wait = Arc::new(CpuWait {
        port: fences.port.clone(),
        notice,
        delivery,
        state: platform.mutex(
            "a CPU wait",
            WaitState {
                // spec: MF-042
                remaining: if mode == WaitMode::All { instances.len() } else { 1 },
                done: false,
                registered: Vec::new(),
            },
        ),
    });
    let mut is_pending = false;
    for (instance, value) in instances {
        let (fence, owner) = (&instance.fence, WaitOwner::Instance(instance.id));
        match monitor::wait(level, fence, value, wait.clone(), 0, owner) {
            Some(id) => {
                is_pending = true;
                wait.state.lock().registered.push((Arc::downgrade(fence), id));
            }
            None => {
                if let Some(leftover) = wait.satisfied() {
                    match &wait.notice {
                        WaitNotice::Event(event) => event.set(Step::ThreadWake),
                        WaitNotice::Callback(callback) => callback.wait_is_over(),
                    }
                    remove_registrations(level, leftover);
                }
            }
        }
    }
    // A wait-any that ended before its last registration was recorded removes that
    // registration here.
    let leftover = {
        let mut state = wait.state.lock();
        if state.done { std::mem::take(&mut state.registered) } else { Vec::new() }
    };
    remove_registrations(level, leftover);
    if is_pending {
        fences.port.count(Count::cpu_waits);
    }
    EnteredWait { wait, event: None, is_pending, mode }
}

impl EnteredWait {
    /// Blocks until the wait ends. Reports name the wait by `fences`.
    ///
    /// # Errors
    /// CANCELLED when the machine stops.
    // spec: MF-039
    pub(crate) fn block(self, level: Irql<'_>, fences: &[(Arc<Fence>, u64)]) -> Result<(), Status> {
        let (wait, Some(event)) = (self.wait, self.event) else { return Ok(()) };
        if event.try_take() {
            return Ok(());
        }
        let join = if self.mode == WaitMode::All { " and " } else { " or " };
        let what: Vec<String> =
            fences.iter().map(|(fence, value)| fence.wait_text(*value)).collect();
        match event.wait_for(None, &what.join(join)) {
            WaitEnd::Woken => Ok(()),
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

    /// Cancels the wait. Order: 1. no further condition ends it; 2. its registrations leave the
    /// fences; 3. a notice that is being given ends.
    pub(crate) fn cancel(&self, level: Irql<'_>) {
        let leftover = {
            let mut state = self.0.state.lock();
            state.done = true;
            std::mem::take(&mut state.registered)
        };
        remove_registrations(level, leftover);
        if let Some(delivery) = &self.0.delivery {
            *delivery.lock_device() = true;
        }
    }
}
